//! The surgery on block images: where to cut a full block, and what the parts look like.
//!
//! Pure functions over bytes. They promise that the parts together hold exactly what the whole
//! held, ITL and lock bytes included: a split is structure, it changes no content and is never
//! undone.

use std::ops::Range;

use block::bytes::{put_u16, u16_of};
use block::itl::{self, ITL_ENTRIES_MAX, ITL_ENTRY_BYTES};
use block::layout::{self, Kind};
use block::rows::{self, ROW_HEADER_BYTES};
use block::{BLOCK_BYTES, Dba};

use super::seg::IndexSeg;

/// The longest key, the rowid of a non-unique index included: a block with the longest ITL, both
/// bounds and two entries still fits, so that a split always makes room.
pub const KEY_BYTES_MAX: usize = 1200;
const ENTRY_OVERHEAD_BYTES: usize = 2 + ROW_HEADER_BYTES + 8;
const BOUND_OVERHEAD_BYTES: usize = 2;
const _: () = assert!(
    rows::OFF_ITL
        + ITL_ENTRIES_MAX as usize * ITL_ENTRY_BYTES
        + 2 * (KEY_BYTES_MAX + BOUND_OVERHEAD_BYTES)
        + 2 * (KEY_BYTES_MAX + ENTRY_OVERHEAD_BYTES)
        <= BLOCK_BYTES
);

/// Per cent of the entries' bytes that stay on the left when keys grow at the end of a block.
const GROWING_LEFT_PERCENT: usize = 90;

/// Where a block is cut.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Cut {
    /// Position of the first entry of the right part.
    pub at: u16,
    /// High key of the left part, low key of the right one.
    pub separator: Vec<u8>,
    /// Keys grow here: nearly everything stays left.
    pub growing: bool,
}

/// Decides where to cut `b` so that `key` finds room. `b` has at least two entries.
pub(super) fn cut(seg: &IndexSeg, b: &[u8], key: &[u8]) -> Cut {
    let count = rows::slot_count(b);
    assert!(count >= 2, "a block with one entry has room for another");
    let growing = rows::entry(b, count - 1).key < key;
    let total: usize = (0..count).map(|pos| rows::entry_bytes(rows::entry(b, pos).key)).sum();
    let percent = if growing { GROWING_LEFT_PERCENT } else { 50 };
    let target = total * percent / 100;
    let (mut at, mut sum) = (0, 0);
    while at < count && sum < target {
        sum += rows::entry_bytes(rows::entry(b, at).key);
        at += 1;
    }
    let at = at.clamp(1, count - 1);
    let first_right = rows::entry(b, at);
    let separator = match rows::level(b) {
        0 => seg.separator(&rows::entry(b, at - 1), &first_right),
        _ => first_right.key.to_vec(),
    };
    Cut { at, separator, growing }
}

/// The shortest key above `left` and not above `right`, a prefix of `right`.
pub(super) fn separator<'a>(left: &[u8], right: &'a [u8]) -> &'a [u8] {
    debug_assert!(left < right);
    let common = left.iter().zip(right).take_while(|(l, r)| l == r).count();
    &right[..=common]
}

/// The images of both parts of `b`: the left one links to `right_dba`.
pub(super) fn parts(b: &[u8], cut: &Cut, right_dba: Dba) -> (Vec<u8>, Vec<u8>) {
    let middle = Some(cut.separator.as_slice());
    let left = part(b, 0..cut.at, rows::low_key(b), middle, right_dba);
    let right = part(b, cut.at..rows::slot_count(b), middle, rows::high_key(b), rows::right(b));
    (left, right)
}

/// A block like `b`, its ITL included, with some of its entries.
fn part(
    b: &[u8],
    entries: Range<u16>,
    low: Option<&[u8]>,
    high: Option<&[u8]>,
    right: Dba,
) -> Vec<u8> {
    let mut out = vec![0; BLOCK_BYTES];
    let fixed = rows::OFF_ITL + usize::from(itl::count(b)) * ITL_ENTRY_BYTES;
    out[..fixed].copy_from_slice(&b[..fixed]);
    for off in [rows::OFF_SLOTS, rows::OFF_HOLES, rows::OFF_LOW, rows::OFF_HIGH] {
        put_u16(&mut out, off, 0);
    }
    put_u16(&mut out, rows::OFF_DATA_START, u16_of(BLOCK_BYTES));
    rows::set_right(&mut out, right);
    rows::set_low_key(&mut out, low);
    rows::set_high_key(&mut out, high);
    for pos in entries {
        let e = rows::entry(b, pos);
        // What a piece of a bitmap index may have to take back goes with it.
        let room = rows::capacity(b, pos);
        rows::insert_entry_with_room(&mut out, e.flags, e.lock, e.value, e.key, room);
    }
    out
}

/// The image of a root that has just handed its content to `left` and `right`.
pub(super) fn raised_root(seg: &IndexSeg, b: &[u8], cut: &Cut, left: Dba, right: Dba) -> Vec<u8> {
    let mut out = super::seg::blank(seg, rows::level(b) + 1);
    debug_assert_eq!(layout::kind(&out), Kind::Branch);
    // The empty key is below all keys: the leftmost child has no low bound.
    rows::insert_entry(&mut out, 0, 0, left.to_u64(), &[]);
    rows::insert_entry(&mut out, 0, 0, right.to_u64(), &cut.separator);
    out
}
