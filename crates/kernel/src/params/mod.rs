//! Parameters: everything a user may set about an instance, in one table.
//!
//! The table in [`table`] is the only place where a parameter is declared. From it come the keys of
//! `skein.toml`, the rows of `v$parameter` and `show parameter`, and the typed accessors the rest
//! of
//! the system reads. A parameter that nothing reads does not belong here.
//!
//! What it promises: a value held in [`Parameters`] has been checked against its kind and range; a
//! read of a number is one relaxed atomic load. It never guesses: an unknown name, a value out of
//! range or a change of a parameter that is fixed while the instance runs is an error that says so.

mod file;
mod table;
mod value;

pub use file::SettingsFile;
pub use table::{PARAMETERS, Parameters};
pub use value::FRACTION_ONE;
pub use value::{Kind, Modifiable, ParamDef, ParamError, ParamRow};

#[cfg(test)]
mod tests;
