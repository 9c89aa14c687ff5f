//! Whether a row may be changed by a statement that saw it through a snapshot.
//!
//! Decided under the latch from the row's lock byte and the block's ITL alone. It never says that a
//! row is unchanged when it is not; it may say "perhaps changed" of one that is the same.

use block::{Scn, Xid, layout, rows};

use crate::txn::{LockState, View};

/// What a changer must do about a row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// Nobody has changed it since the snapshot.
    Unchanged,
    /// It may have been changed since the snapshot: compare it with what the statement saw.
    Compare,
    /// REPEATABLE READ: it may have been changed; equal bytes would prove nothing (hazard M2), its
    /// history must be looked at.
    Doubt,
    /// REPEATABLE READ: it has been deleted since.
    Conflict,
    Gone,
    /// Another open transaction has it locked.
    Wait(Xid),
}

/// Judges the row in `slot`.
pub fn judge(b: &[u8], view: &View<'_>, slot: u16, snapshot: Scn, repeatable: bool) -> Verdict {
    // A purged row was seen as deleted by every snapshot; a piece is no row.
    let Some(row) = rows::get(b, slot).filter(|r| r.flags & rows::PIECE == 0) else {
        return Verdict::Gone;
    };
    let last = match view.lock_state(row.lock) {
        LockState::Active(xid) => return Verdict::Wait(xid),
        LockState::Mine if row.is_deleted() => return Verdict::Gone,
        LockState::Mine => return Verdict::Compare,
        LockState::Committed(scn) => scn,
        // Who changed it last is forgotten, but it was not later than this.
        LockState::Free => layout::taken_scn(b),
    };
    // A transaction that only locked the row looks the same as one that changed it, and so does any
    // change in the block whose ITL entry was taken over since.
    match (last <= snapshot, row.is_deleted(), repeatable) {
        (true, true, _) | (false, true, false) => Verdict::Gone,
        (true, false, _) => Verdict::Unchanged,
        (false, true, true) => Verdict::Conflict,
        (false, false, true) => Verdict::Doubt,
        (false, false, false) => Verdict::Compare,
    }
}

/// Whether the row's lock is the transaction's own.
pub fn is_mine(view: &View<'_>, lock: u8) -> bool {
    view.lock_state(lock) == LockState::Mine
}
