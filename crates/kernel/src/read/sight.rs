//! Which of a block's transactions a reader sees, and which entry is taken back next.

use block::itl::{self, Itl};
use block::layout::{self, Kind};
use block::undo::UndoRecord;
use block::{BLOCK_BYTES, Scn, UndoNo, Xid, rows};

use crate::error::{Error, Result};
use crate::txn::{Core, Snapshot, TxStatus};

/// Whose eyes a block is seen with.
pub(super) struct Eye<'a> {
    pub core: &'a Core,
    pub scn: Scn,
    pub own: Option<Xid>,
    pub own_undo_no: UndoNo,
}

impl<'a> Eye<'a> {
    pub fn of(snap: &'a Snapshot) -> Eye<'a> {
        Eye { core: snap.core(), scn: snap.scn(), own: snap.own(), own_undo_no: snap.own_undo_no() }
    }
}

/// How visible an ITL entry is to a snapshot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sight {
    Visible,
    /// Invisible, and still running (or rolled back meanwhile, in a copy).
    Active,
    /// Invisible: committed later, at exactly this SCN.
    Later(Scn),
    /// Own changes beyond the own position.
    OwnLater,
    /// Rolled back; a split has left the entry in a leaf where it changed nothing, and it hides an
    /// entry that the snapshot may not see.
    Hiding,
    /// Committing at or below the snapshot: wait.
    Outcome,
    /// Only another instance knows.
    Ask,
    TooOld,
}

/// How the reader sees entry `e` of block `b`; `known`: what was known of its transaction when the
/// block was copied.
pub(super) fn judge(eye: &Eye<'_>, b: &[u8], e: &Itl, known: Option<TxStatus>) -> Sight {
    if e.xid.is_none() {
        return Sight::Visible;
    }
    if eye.own == Some(e.xid) {
        return if e.undo_no <= eye.own_undo_no { Sight::Visible } else { Sight::OwnLater };
    }
    let status = if e.scn == Scn::ZERO {
        match known.or_else(|| eye.core.local_status(e.xid)) {
            Some(status) => status,
            None => return Sight::Ask,
        }
    } else if e.bound {
        TxStatus::CommittedBy(e.scn)
    } else {
        TxStatus::Committed(e.scn)
    };
    match status {
        TxStatus::Active => Sight::Active,
        TxStatus::Committing(scn) if scn <= eye.scn => Sight::Outcome,
        TxStatus::Committing(_) => Sight::Active,
        TxStatus::Committed(scn) if scn <= eye.scn => Sight::Visible,
        TxStatus::Committed(scn) => Sight::Later(scn),
        TxStatus::CommittedBy(scn) if scn <= eye.scn => Sight::Visible,
        TxStatus::CommittedBy(_) => Sight::TooOld,
        // Rolled back: in a current block nothing of it is left but the entry.
        TxStatus::Gone if layout::kind(b) != Kind::Leaf => Sight::Visible,
        TxStatus::Gone if layout::taken_scn(b) <= eye.scn => Sight::Visible,
        TxStatus::Gone => Sight::Hiding,
    }
}

pub(super) fn all_visible(eye: &Eye<'_>, b: &[u8]) -> bool {
    itl::iter(b).all(|(_, e)| judge(eye, b, &e, None) == Sight::Visible)
}

/// What this instance knows, now, of the open transactions in a block.
pub(super) fn known_of(core: &Core, b: &[u8]) -> Vec<(Xid, TxStatus)> {
    let open = itl::iter(b).map(|(_, e)| e).filter(|e| !e.xid.is_none() && e.scn == Scn::ZERO);
    open.filter_map(|e| Some((e.xid, core.local_status(e.xid)?))).collect()
}

/// An entry of a clone, and how it is seen.
pub(super) type Seen = (u8, Itl, Sight);

/// What stands between a clone and the reader.
pub(super) struct Left {
    /// The first entry that needs an answer (or cannot have one).
    pub question: Option<Seen>,
    /// The entry to take back next: the active one, else the one with the greatest commit SCN.
    pub undo: Option<Seen>,
}

pub(super) fn left(eye: &Eye<'_>, clone: &[u8], known: &[(Xid, TxStatus)]) -> Left {
    let mut left = Left { question: None, undo: None };
    for (i, e) in itl::iter(clone) {
        let state = known.iter().find(|(x, _)| *x == e.xid).map(|(_, s)| *s);
        let sight = judge(eye, clone, &e, state);
        let better = match (sight, left.undo.as_ref().map(|b| b.2)) {
            (Sight::Visible, _) => false,
            (Sight::Ask | Sight::Outcome | Sight::TooOld, _) => {
                left.question.get_or_insert((i, e, sight));
                false
            }
            (_, None) => true,
            (Sight::Active | Sight::OwnLater | Sight::Hiding, Some(Sight::Later(_))) => true,
            (Sight::Later(a), Some(Sight::Later(b))) => a > b,
            _ => false,
        };
        if better {
            left.undo = Some((i, e, sight));
        }
    }
    left
}

/// Applies one undo record to the clone.
pub(super) fn take_back(clone: &mut Vec<u8>, idx: u8, record: &UndoRecord) -> Result<()> {
    let outside = record.inverse.leaf_key().is_some_and(|(_, key)| !rows::covers(clone, key));
    if !outside {
        let room = record.inverse.room_bytes();
        if rows::free_bytes(clone) < room {
            let to = (clone.len() + room).next_multiple_of(BLOCK_BYTES);
            if to > 56 * 1024 {
                return Err(Error::Invariant("a consistent-read clone grew too large".to_owned()));
            }
            *clone = rows::expand(clone, to);
        }
        record.inverse.apply(clone);
    }
    // A bound is visible or too old: it never says what comes before what (hazard H3).
    if itl::get(clone, idx).bound {
        return Err(Error::Invariant(format!("undo of {} goes by a bound", record.xid)));
    }
    let lower = record.saved.xid != record.xid || record.saved.undo_no < record.undo_no;
    if !lower || record.undo_no == UndoNo(0) {
        return Err(Error::Invariant(format!("undo of {} does not go back", record.xid)));
    }
    itl::put(clone, idx, &record.saved);
    Ok(())
}

#[cfg(test)]
mod tests {
    use block::layout::Kind;
    use block::op::{Inverse, Op};
    use block::{Dba, ObjId, UndoNo};

    use super::*;

    #[test]
    fn h3_nothing_is_taken_back_by_a_bound() {
        let (dba, obj) = (Dba::new(4, 9), ObjId(20_000));
        let mut clone = vec![0; BLOCK_BYTES];
        let op = Op::Format { kind: Kind::Heap, obj, birth: Scn(5), level: 0, itl: 2 };
        op.apply(&mut clone, dba);
        let record = UndoRecord {
            xid: Xid { usn: 1, slot: 1, seq: 1 },
            undo_no: UndoNo(1),
            prev: block::Uba::NONE,
            target: dba,
            obj,
            birth: Scn(5),
            itl_idx: 0,
            saved: Itl::default(),
            inverse: Inverse::Nothing,
        };
        let entry = Itl { xid: record.xid, undo_no: UndoNo(1), scn: Scn(70), ..Itl::default() };
        itl::put(&mut clone, 0, &Itl { bound: true, ..entry });
        assert!(matches!(take_back(&mut clone, 0, &record), Err(Error::Invariant(_))));
        itl::put(&mut clone, 0, &entry);
        take_back(&mut clone, 0, &record).expect("an exact SCN");
        assert_eq!(itl::get(&clone, 0), record.saved);
    }
}
