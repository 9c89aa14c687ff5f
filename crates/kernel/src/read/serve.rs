//! Consistent copies for readers of other instances, made where the block is.
//!
//! It uses what this instance has at hand: its own transactions' states and the undo blocks in its
//! cache. What would have to be asked, read or waited for is left to the reader (light work), and
//! so is what exceeds [`UNDO_RECORDS_MAX`]: a block server never waits and never works for long.

use block::itl::Itl;
use block::layout::{self, Kind};
use block::undo::UndoRecord;
use block::{Scn, UndoNo, Xid};

use super::sight::{Eye, Seen, Sight, known_of, left, take_back};
use crate::txn::{Core, TxStatus};

/// Undo records applied to one copy at most.
pub const UNDO_RECORDS_MAX: u32 = 64;

/// A copy in the making.
pub struct Draft {
    pub bytes: Vec<u8>,
    /// Of the moment the copy was taken: a transaction that rolls back later has left its changes
    /// in the copy (hazard H10).
    known: Vec<(Xid, TxStatus)>,
    scn: Scn,
    /// Nothing is left in it that the reader may not see.
    pub complete: bool,
    pub undo_records: u32,
}

impl Draft {
    /// Copies the block, whose latch the caller holds, for a reader at `scn`.
    #[must_use]
    pub fn new(core: &Core, image: &[u8], scn: Scn) -> Draft {
        let rows = matches!(layout::kind(image), Kind::Heap | Kind::Leaf);
        let known = if rows { known_of(core, image) } else { Vec::new() };
        let bytes = image.to_vec();
        let mut draft = Draft { bytes, known, scn, complete: false, undo_records: 0 };
        if rows {
            let left = left(&draft.eye(core), &draft.bytes, &draft.known);
            draft.complete = left.question.is_none() && left.undo.is_none();
        }
        draft
    }

    /// The reader's own changes, and those of any other instance, are unknown here: a question that
    /// the reader can answer.
    fn eye<'a>(&self, core: &'a Core) -> Eye<'a> {
        Eye { core, scn: self.scn, own: None, own_undo_no: UndoNo(0) }
    }

    /// The entry to take back next. While a question is open only active ones may be: theirs are
    /// the last changes of their rows, whatever the answer.
    fn next(&self, core: &Core) -> Option<Seen> {
        let left = left(&self.eye(core), &self.bytes, &self.known);
        let later = |s: &Seen| matches!(s.2, Sight::Later(_));
        left.undo.filter(|s| left.question.is_none() || !later(s))
    }

    /// Whether [`Draft::finish`] has something to do.
    #[must_use]
    pub fn has_work(&self, core: &Core) -> bool {
        let rows = matches!(layout::kind(&self.bytes), Kind::Heap | Kind::Leaf);
        rows && !self.complete && self.next(core).is_some()
    }

    /// Takes back what can be taken back here and now. No latch is held by the caller.
    pub fn finish(&mut self, core: &Core) {
        while self.undo_records < UNDO_RECORDS_MAX {
            let Some((idx, e, _)) = self.next(core) else { break };
            let Some(record) = self.record_here(core, &e) else { break };
            // What cannot be applied is reported where the statement is: by the reader.
            if take_back(&mut self.bytes, idx, &record).is_err() {
                break;
            }
            self.undo_records += 1;
        }
        let left = left(&self.eye(core), &self.bytes, &self.known);
        self.complete = left.question.is_none() && left.undo.is_none();
    }

    /// The record, if its block is in this cache.
    fn record_here(&self, core: &Core, e: &Itl) -> Option<UndoRecord> {
        core.segment(e.xid.usn)?;
        let buffer = core.cache.lookup(e.uba.dba)?;
        let st = buffer.latch().read();
        let record = UndoRecord::find(st.image.as_deref()?, e.uba, e.xid)?;
        let fits = record.undo_no == e.undo_no
            && record.obj == layout::obj(&self.bytes)
            && record.birth == layout::birth(&self.bytes);
        fits.then_some(record)
    }
}
