//! What changes have left to be done before the statement or the transaction ends.
//!
//! Promises: an entry lives as long as the change that made it; a rollback to a savepoint takes
//! both back. What an entry is, only its maker knows.

use std::any::Any;

use block::UndoNo;

use super::transaction::Transaction;

/// Parents remembered as kept; with one more all are forgotten, and looked up again.
const KEPT_PARENTS_MAX: usize = 1024;

/// When something was put off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Moment {
    /// The last change of the transaction before.
    undo_no: UndoNo,
    /// Done, and found well, when the transaction had come to this change; it must be done again if
    /// what came before is rolled back to.
    settled: Option<UndoNo>,
}

/// Something put off.
pub struct PutOff {
    what: Box<dyn Any + Send + Sync>,
    moment: Moment,
}

impl PutOff {
    #[must_use]
    pub fn new(what: Box<dyn Any + Send + Sync>, moment: Moment) -> PutOff {
        PutOff { what, moment }
    }

    #[must_use]
    pub fn moment(&self) -> Moment {
        self.moment
    }

    #[must_use]
    pub fn into_inner(self) -> Box<dyn Any + Send + Sync> {
        self.what
    }
}

impl Transaction {
    /// Whether a row of this transaction keeps the parent with this mark: one was written that
    /// refers to it and has been checked, and nothing has been changed since but rows added.
    pub(crate) fn keeps_parent(&self, mark: &[u8]) -> bool {
        self.inner.lock().kept_parents.contains(mark)
    }

    pub(crate) fn keep_parent(&self, mark: &[u8]) {
        let mut inner = self.inner.lock();
        if inner.kept_parents.len() >= KEPT_PARENTS_MAX {
            inner.kept_parents.clear();
        }
        inner.kept_parents.insert(mark.into());
    }

    /// A row with keys was changed or deleted: the next rows are checked again.
    pub(crate) fn forget_parents(&self) {
        self.inner.lock().kept_parents.clear();
    }

    /// Leaves something to the end of the statement.
    pub(crate) fn put_off(&self, what: Box<dyn Any + Send + Sync>) {
        let mut inner = self.inner.lock();
        let undo_no = inner.cursor.as_ref().map_or(UndoNo(0), |c| c.undo_no);
        inner.put_off.push(PutOff { what, moment: Moment { undo_no, settled: None } });
    }

    /// Whether anything is put off and not settled.
    #[must_use]
    pub fn has_put_off(&self) -> bool {
        self.inner.lock().put_off.iter().any(|one| one.moment.settled.is_none())
    }

    /// What is not settled, in the order of the changes; the caller does it or puts it back.
    #[must_use]
    pub fn take_put_off(&self) -> Vec<PutOff> {
        let mut inner = self.inner.lock();
        let all = std::mem::take(&mut inner.put_off);
        let (open, settled) = all.into_iter().partition(|one| one.moment.settled.is_none());
        inner.put_off = settled;
        open
    }

    /// Puts back what is due later.
    pub fn return_put_off(&self, mut later: Vec<PutOff>) {
        let mut inner = self.inner.lock();
        later.append(&mut inner.put_off);
        inner.put_off = later;
    }

    /// All of this is done and well: unless a part of the transaction is rolled back in which it
    /// was done.
    pub fn note_settled(&self, mut done: Vec<PutOff>) {
        let mut inner = self.inner.lock();
        let now = inner.cursor.as_ref().map_or(UndoNo(0), |c| c.undo_no);
        done.iter_mut().for_each(|one| one.moment.settled = Some(now));
        inner.put_off.append(&mut done);
    }

    /// The changes after `to` are taken back.
    pub(super) fn forget_put_off(&self, to: UndoNo) {
        let mut inner = self.inner.lock();
        inner.put_off.retain(|one| one.moment.undo_no <= to);
        for one in &mut inner.put_off {
            one.moment.settled = one.moment.settled.filter(|settled| *settled <= to);
        }
        inner.kept_parents.clear();
    }
}
