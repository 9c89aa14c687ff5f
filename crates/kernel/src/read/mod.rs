#![doc = include_str!("README.md")]

mod consistent;
mod serve;
mod sight;

pub use consistent::{Brought, Expect, YOUNGER, bring, bring_run, changed_since, consistent};
pub use serve::{Draft, UNDO_RECORDS_MAX};
