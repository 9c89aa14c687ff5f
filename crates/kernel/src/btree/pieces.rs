//! Rows come to and leave the pieces of a bitmap index ([`block::piece`]).
//!
//! Promises: a row is in exactly one piece of its value, and what a transaction has done to a piece
//! can be taken back in it, whatever has been cut since. A piece has one lock: who changes a row of
//! it waits for the transaction that has changed another (`enq: TX - row lock contention`, mode 4).
//! Must never take the last piece of a value away: every rowid has a piece then.

use std::sync::Arc;

use block::Rowid;
use block::itl::ItlChange;
use block::op::{Inverse, Op};
use block::piece::{self, END_BYTES, PIECE_BYTES_MAX, Piece};
use block::rows;
use observe::Ctx;

use super::modify::{Found, change_entry, misplaced};
use super::seg::IndexSeg;
use super::shape::KEY_BYTES_MAX;
use crate::error::{Error, Result};
use crate::txn::{LockState, LockWait, Step, Transaction, View};

/// The longest value: two pieces of it must fit into a leaf with the longest list.
pub const VALUE_BYTES_MAX: usize = KEY_BYTES_MAX - PIECE_BYTES_MAX - END_BYTES - 64;

/// Puts the row of `key`, a value and the rowid, into its piece, or takes it out.
///
/// # Errors
/// [`Error::KeyTooLong`]; [`Error::Invariant`] if the row is so already; [`Error::Deadlock`] and
/// interrupts while waiting; disk full.
pub(super) async fn flip(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    key: &[u8],
    on: bool,
) -> Result<()> {
    let bytes = key.len() - END_BYTES;
    if bytes > VALUE_BYTES_MAX {
        return Err(Error::KeyTooLong { bytes, limit: VALUE_BYTES_MAX });
    }
    let rowid = Rowid::from_u64(piece::end_of(key));
    let step = |b: &[u8], view: &View<'_>| flip_step(seg, key, on, b, view);
    match change_entry(ctx, txn, seg, key, Some(rowid), LockWait::Wait, step).await? {
        Found::Missing => {
            let what = if on { "already" } else { "not" };
            let what = format!("index {}: row {rowid} is {what} in its piece", seg.obj);
            Err(Error::Invariant(what))
        }
        _ => Ok(()),
    }
}

fn flip_step(seg: &IndexSeg, key: &[u8], on: bool, b: &[u8], view: &View<'_>) -> Step<Found> {
    if let Some(found) = misplaced(seg, key, b) {
        return Step::Stop(found);
    }
    let itl = ItlChange::default();
    let free = rows::free_bytes(b).saturating_sub(view.itl_room());
    let change = |lock: u8| Step::Change {
        op: Op::PieceFlip { itl, key: key.to_vec(), on },
        inverse: Inverse::PieceFlip { root: seg.root, key: key.to_vec(), on: !on, lock },
        out: Found::Done,
    };
    let Some(pos) = piece::find(b, key) else {
        return match on {
            false => Step::Stop(Found::Missing),
            true if free < seg.entry_bytes(0, key) => Step::Stop(Found::Full),
            true => change(0),
        };
    };
    let entry = rows::entry(b, pos);
    if let LockState::Active(xid) = view.lock_state(entry.lock) {
        return Step::Stop(Found::Wait(xid));
    }
    let piece = Piece::of(&entry).expect("found as one");
    let Some((_, bytes)) = piece::flipped(&piece, key, on) else {
        return Step::Stop(Found::Missing);
    };
    if bytes.len() > piece.key.len() + PIECE_BYTES_MAX && on {
        // One more entry with this one's room, whatever the row makes of the bitmap.
        if free < seg.entry_bytes(0, key) {
            return Step::Stop(Found::Full);
        }
        let at = piece::cut(&piece, piece::end_of(key));
        let op = Op::PieceSplit { key: piece.key.to_vec(), at };
        return Step::Redo { op, out: Found::Nothing };
    }
    if 8 + bytes.len() > rows::capacity(b, pos) && free < piece::growth_bytes(&bytes) {
        return Step::Stop(Found::Full);
    }
    change(view.saved_lock(entry.lock))
}
