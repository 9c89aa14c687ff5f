#![doc = include_str!("README.md")]

mod build;
mod current;
mod descend;
mod key;
mod look;
mod modify;
mod pieces;
mod scan;
mod seg;
mod shape;
mod split;

#[cfg(test)]
mod tests;

pub use build::Builder;
pub use current::{CurrentEntries, current};
pub use descend::{Finder, find_leaf};
pub use key::{KeyForm, entry_key, same_key};
pub use look::{Figures, IndexLook};
pub use modify::{InsertOutcome, delete, holder, insert, insert_run, try_insert};
pub use scan::{LookupBegun, RangeScan, Sought, lookup, lookup_now, lookup_on};
pub use seg::{IndexSeg, create};
pub use shape::KEY_BYTES_MAX;
