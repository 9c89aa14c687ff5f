#![doc = include_str!("README.md")]

mod batch;
mod change;
mod conflict;
mod entry;
pub mod foreign;
mod query;

#[cfg(test)]
mod tests;

pub(crate) use entry::entries;

pub use batch::{insert_many, refill_many};
pub use change::{delete, insert, lock, update};
pub use conflict::{conflicting, insert_unless, same_key};
pub use query::{
    Direction, Granule, IndexScan, Scan, blocks, fetch, fetch_block, index_lookup, index_range,
    index_seg, sample, scan, scan_granule, scan_granules,
};

pub use crate::heap::Change;
pub use crate::txn::LockWait;
