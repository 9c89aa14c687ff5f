#![doc = include_str!("README.md")]

mod chain;
mod current;
mod insert;
mod judge;
mod modify;
mod scan;
mod settle;

#[cfg(test)]
mod tests;

use block::undo::{UNDO_RECORD_BYTES_MAX, UNDO_RECORD_FIXED_BYTES};

pub use crate::space::SegmentId as HeapSeg;
pub(crate) use chain::{Stub, piece_of};
pub use current::{CurrentRow, current_rows};
pub use insert::{insert, insert_many};
pub use modify::{Held, delete, delete_held, hold, lock, update, update_held};
pub(crate) use scan::{FetchBegun, Fetched, fetch_now, fetch_on};
pub use scan::{Granule, Scan, fetch, fetch_block, sample, scan, scan_granule, scan_granules};

/// What became of an attempt to change or lock a row.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Change {
    /// The row was as the snapshot sees it and is changed or locked now.
    Done,
    /// The row is not as seen: somebody, perhaps this transaction, has changed it since. It is
    /// locked
    /// now (unless its block has no ITL entry to give to a statement with this snapshot) and
    /// nothing
    /// else has been done; here it is. The caller looks at it and comes again with a new snapshot.
    Newer(Vec<u8>),
    /// The row has been deleted meanwhile.
    Gone,
    /// The row is locked by another transaction and the caller wanted to skip such rows.
    Skipped,
}

/// The longest row.
pub const ROW_BYTES_MAX: usize = 16 << 20;
/// The most bytes of a row that one block holds: a longer row is cut into pieces.
pub const ROW_PIECE_BYTES_MAX: usize = 7000;
/// Room an insert leaves in a block for its rows to grow.
const RESERVE_BYTES: usize = 800;
/// Room left by an insert in the place of a row that its transaction has deleted from the block:
/// that row's bytes will come free, so it is only to tide over other transactions' entries until
/// then.
const REPLACE_RESERVE_BYTES: usize = 200;
/// Bytes of an undo record's inverse besides the row itself (tag, slot, flags, lock, length).
const RESTORE_FIXED_BYTES: usize = 7;

// The undo of any change of a row piece fits an undo block.
const _: () = assert!(
    UNDO_RECORD_FIXED_BYTES + RESTORE_FIXED_BYTES + ROW_PIECE_BYTES_MAX <= UNDO_RECORD_BYTES_MAX
);
// A piece of full length fits an empty block with its first ITL entries, the reserve kept.
const _: () = assert!(
    block::rows::OFF_ITL
        + block::itl::ITL_INITIAL as usize * block::itl::ITL_ENTRY_BYTES
        + block::rows::ROW_HEADER_BYTES
        + ROW_PIECE_BYTES_MAX
        + 2
        + RESERVE_BYTES
        <= block::BLOCK_BYTES
);
// A block emptied by deletes is found again for a piece of full length.
const _: () = assert!(
    block::rows::ROW_HEADER_BYTES + ROW_PIECE_BYTES_MAX + 2 + RESERVE_BYTES
        <= crate::space::EMPTY_ROOM_BYTES
);
