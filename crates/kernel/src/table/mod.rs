#![doc = include_str!("README.md")]

mod batch;
mod change;
mod conflict;
mod entry;
pub mod foreign;
mod look;
mod query;

#[cfg(test)]
mod tests;

pub(crate) use entry::entries;

pub use batch::{insert_many, refill_many};
pub use change::{delete, delete_held, hold, insert, lock, update, update_held};
pub use conflict::{conflicting, insert_unless, same_key};
pub use look::{IndexLook, look_at_index};
pub use query::{
    Direction, Granule, IndexScan, Looked, LookedBegun, Scan, blocks, fetch, fetch_block,
    index_lookup, index_lookup_now, index_lookup_on, index_range, index_rowid, index_seg,
    long_scan, sample, scan, scan_granule, scan_granules,
};

pub use crate::heap::{Change, Held};
pub use crate::txn::LockWait;
