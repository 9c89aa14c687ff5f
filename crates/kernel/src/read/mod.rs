#![doc = include_str!("README.md")]

mod consistent;
mod serve;
mod sight;

pub use consistent::{
    Begun, Brought, Expect, Seen, YOUNGER, bring, bring_run, changed_since, consistent,
    consistent_now, consistent_on,
};
pub use serve::{Draft, UNDO_RECORDS_MAX};
