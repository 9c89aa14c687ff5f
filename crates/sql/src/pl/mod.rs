//! Procedural code: `DO` with PL/pgSQL, blocks of the field's language as statements, and the
//! bodies of functions and procedures.
//!
//! A block is parsed into a tree whose variables are numbered places ([`tree`]); what is SQL in it
//! keeps its text, with parameters for variables ([`names`]), and is planned once for all its runs.
//!
//! What it promises: statements inside mean what they mean outside (but for `/` in the field's
//! language, see [`crate::idioms::exact`]), and see what the ones before them did; a block that
//! catches an error has taken back what it did (PL/pgSQL), or what the failed statement did (the
//! field). What it must never do: loop beyond a cancel.

mod at_once;
mod attributes;
mod bulk;
mod check;
mod collections;
mod conditions;
mod cursor;
mod declare;
mod define;
mod dynamic;
mod elements;
mod exec;
mod head;
mod lazy;
mod lex;
mod local;
mod long_operation;
mod named_cursors;
mod names;
mod output;
mod packages;
mod parse;
mod places;
mod powers;
mod raise;
mod routine;
mod run;
mod scopes;
mod statements;
mod statistics;
mod system_calls;
mod tree;
mod types;

pub(crate) use attributes::as_block;
pub(crate) use collections::Account;
pub use conditions::sqlcode;
pub(crate) use define::{
    ArgumentSpec, ReturnsSpec, RoutineAction, RoutineCommand, RoutineFlags, RoutineKind,
    RoutineName, RoutineSpec, command, definition, routine_name,
};
pub(crate) use exec::portal_of;
pub(crate) use head::{head_of, whole_text};
pub(crate) use output::Output;
pub(crate) use packages::is_package_call;
pub(crate) use routine::{RoutinePlans, check_body};
pub(crate) use run::{Code, type_of};
pub(crate) use statistics::is_statistics_call;

use crate::Result;
use tree::Dialect;

/// Length of the field's block that `text` begins with.
///
/// # Errors
/// 42601: it is none, or has no end.
pub(crate) fn block_len(text: &str) -> Result<usize> {
    parse::parse(text, Dialect::Field).map(|program| program.len)
}
