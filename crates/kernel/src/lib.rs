//! The engine of one instance: blocks, redo, undo, transactions, rows, indexes, recovery.
//!
//! A module may use only those to its left:
//! `error, params, row, clock < redo < cache < change < space < undo < txn < read < heap, btree <
//! dict, seq, table < recovery < verify, gcs, instance`. Each folder has a README with its rules.

pub mod btree;
pub mod cache;
pub mod change;
mod clock;
pub mod dict;
pub mod error;
pub mod gcs;
pub mod heap;
pub mod instance;
pub mod params;
pub mod read;
pub mod recovery;
pub mod redo;
pub mod row;
pub mod seq;
mod shown;
pub mod space;
pub mod table;
#[cfg(test)]
mod testing;
pub mod txn;
pub mod undo;
pub mod verify;

pub use clock::ScnClock;
pub use error::{Error, Result};
