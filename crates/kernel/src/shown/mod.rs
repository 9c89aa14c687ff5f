#![doc = include_str!("README.md")]

mod owner;
mod view;

#[cfg(test)]
mod tests;

use block::{Dba, INSTANCES_MAX, Scn, Xid};

pub use owner::{Place, Shown};
pub use view::PeerMemory;

/// Undo segments that an instance is born with, and so shows.
pub const SEGMENTS_SHOWN: u16 = 10;

/// The open words: the clock, and the floor of new snapshots. Others raise them.
const CLOCK: usize = 0;
const FLOOR: usize = 1;
const OPEN_WORDS: usize = 2;

/// The owner's words: how far its redo is durable; the epoch it is in (0: it is frozen); the
/// transaction table; the directory of blocks.
const DURABLE: usize = 0;
const EPOCH: usize = 1;
const TRANSACTIONS: usize = 2;
/// Of a transaction slot: its sequence number, and its state.
const SLOT_WORDS: usize = 2;
const DIRECTORY: usize =
    TRANSACTIONS + SEGMENTS_SHOWN as usize * block::undo::TX_SLOT_COUNT as usize * SLOT_WORDS;

/// Of a place in the directory: its version (odd: it is being changed), the block's address (0:
/// free), its frame's number and one (0: nothing is shown), and up to where redo must be durable
/// before others may follow its structure.
const PLACE_WORDS: usize = 4;
const VERSION: usize = 0;
const ADDRESS: usize = 1;
const FRAME: usize = 2;
const STRUCTURE: usize = 3;
/// Places that an address may be at.
const BUCKET: usize = 8;

/// State of a transaction, as its owner shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxShown {
    /// Rolled back, or it never was.
    Gone,
    Active,
    Committing(Scn),
    Committed(Scn),
}

/// What a state is while its owner draws the commit's SCN, or gives the slot to another.
const UNDECIDED: u64 = 0;

impl TxShown {
    fn encode(self) -> u64 {
        let (tag, scn) = match self {
            TxShown::Gone => (1, Scn::ZERO),
            TxShown::Active => (2, Scn::ZERO),
            TxShown::Committing(scn) => (3, scn),
            TxShown::Committed(scn) => (4, scn),
        };
        assert!(scn.0 < 1 << 61, "SCN {} does not fit", scn.0);
        scn.0 << 3 | tag
    }

    /// `None`: undecided.
    fn decode(word: u64) -> Option<TxShown> {
        let scn = Scn(word >> 3);
        match word & 7 {
            1 => Some(TxShown::Gone),
            2 => Some(TxShown::Active),
            3 => Some(TxShown::Committing(scn)),
            4 => Some(TxShown::Committed(scn)),
            _ => None,
        }
    }
}

/// First word of a transaction's slot, of a segment that any instance is born with.
fn slot_word(xid: Xid) -> Option<usize> {
    let born = xid.usn.checked_sub(1)?;
    let known = born < SEGMENTS_SHOWN * u16::from(INSTANCES_MAX);
    let slots = usize::from(block::undo::TX_SLOT_COUNT);
    let slot = usize::from(xid.slot);
    let at = usize::from(born % SEGMENTS_SHOWN) * slots + slot;
    (known && slot < slots).then_some(TRANSACTIONS + at * SLOT_WORDS)
}

/// First word of a place.
fn place_word(place: usize) -> usize {
    DIRECTORY + place * PLACE_WORDS
}

/// The places where a block's address may stand, of so many.
fn bucket(dba: Dba, places: usize) -> std::ops::Range<usize> {
    // Fibonacci hashing: neighbours spread over the buckets.
    let h = dba.to_u64().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 24;
    let buckets = (places / BUCKET) as u64;
    let first = usize::try_from(h % buckets).expect("a bucket") * BUCKET;
    first..first + BUCKET
}
