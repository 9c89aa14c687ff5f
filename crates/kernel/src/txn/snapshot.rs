//! Snapshots, and the oldest of them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use block::{ObjId, Scn, UndoNo, Xid};
use env::latch::{Latch, LatchList};

use super::core::Core;
use super::kept::Memory;
use crate::clock::ScnClock;
use crate::shown::Shown;

#[derive(Default)]
struct Inner {
    /// SCNs of transactions whose commit is under way here.
    committing: BTreeSet<Scn>,
    /// Snapshots in use, with how many share each.
    live: BTreeMap<Scn, usize>,
}

/// The snapshots of one instance.
pub struct Snapshots {
    inner: Latch<Inner>,
    /// Highest commit SCN that a client may have been told of: of a commit that has ended here, or
    /// that another instance has broadcast. New snapshots see it, also while a lower one is still
    /// under way here: who meets that one waits for its outcome.
    floor: AtomicU64,
    /// Where the floor stands instead, once others of the machine may raise it.
    shown: OnceLock<Arc<Shown>>,
}

impl Default for Snapshots {
    fn default() -> Snapshots {
        Snapshots {
            inner: Latch::new("active snapshots", Inner::default()),
            floor: AtomicU64::default(),
            shown: OnceLock::new(),
        }
    }
}

impl Snapshots {
    /// Tells of its latch.
    pub(crate) fn latches(&self, list: &mut LatchList) {
        list.add(&self.inner);
    }

    /// Moves the floor to where others may raise it; before anything runs that takes snapshots.
    pub(super) fn show(&self, shown: &Arc<Shown>) {
        shown.floor().fetch_max(self.floor().load(Ordering::SeqCst), Ordering::SeqCst);
        let _ = self.shown.set(shown.clone());
    }

    fn floor(&self) -> &AtomicU64 {
        self.shown.get().map_or(&self.floor, |shown| shown.floor())
    }

    /// Draws a commit SCN. From here on new snapshots lie below it until `committed`.
    pub(super) fn begin_commit(&self, clock: &ScnClock) -> Scn {
        let mut inner = self.inner.lock();
        let scn = clock.tick();
        inner.committing.insert(scn);
        scn
    }

    /// The outcome is certain; nobody has been told yet.
    pub(super) fn end_commit(&self, scn: Scn) {
        let mut inner = self.inner.lock();
        inner.committing.remove(&scn);
        self.raise_floor(scn);
    }

    /// Another instance has committed at `scn`: snapshots taken from now on see it.
    pub fn raise_floor(&self, scn: Scn) {
        self.floor().fetch_max(scn.0, Ordering::SeqCst);
    }

    fn newest(&self, inner: &Inner, clock: &ScnClock) -> Scn {
        match inner.committing.first() {
            Some(lowest) => Scn(lowest.0 - 1),
            None => clock.current(),
        }
    }

    fn take(&self, clock: &ScnClock, floor: Scn) -> Scn {
        let mut inner = self.inner.lock();
        let told = Scn(self.floor().load(Ordering::SeqCst));
        let scn = self.newest(&inner, clock).max(floor).max(told);
        *inner.live.entry(scn).or_insert(0) += 1;
        scn
    }

    fn retain(&self, scn: Scn) {
        *self.inner.lock().live.entry(scn).or_insert(0) += 1;
    }

    fn release(&self, scn: Scn) {
        let mut inner = self.inner.lock();
        if let Some(n) = inner.live.get_mut(&scn) {
            *n -= 1;
            if *n == 0 {
                inner.live.remove(&scn);
            }
        }
    }

    /// No snapshot of this instance, now or later, is below this.
    #[must_use]
    pub fn horizon(&self, clock: &ScnClock) -> Scn {
        let inner = self.inner.lock();
        let newest = self.newest(&inner, clock);
        inner.live.keys().next().copied().unwrap_or(newest).min(newest)
    }

    /// Lowest commit SCN under way here, if any.
    #[must_use]
    pub fn lowest_committing(&self) -> Option<Scn> {
        self.inner.lock().committing.first().copied()
    }
}

/// What a statement sees: everything committed at or before `scn`, and its own transaction's
/// changes up to `own_undo_no`. Registered while any clone lives.
pub struct Snapshot {
    core: Arc<Core>,
    scn: Scn,
    own: Option<Xid>,
    own_undo_no: UndoNo,
    memory: Memory,
    /// Whether it holds back what it may need. One of the past does not: that may be gone already,
    /// which every read finds out.
    held: bool,
}

impl Snapshot {
    /// A new snapshot, not below `floor`.
    #[must_use]
    pub fn take(core: &Arc<Core>, floor: Scn, own: Option<(Xid, UndoNo)>) -> Snapshot {
        let scn = core.snapshots.take(&core.clock, floor);
        // The SCN is current if the lease lasts: all that is committed elsewhere waits to be known
        // here. What is read by it later is in this cache, or comes from peers or disks, which
        // refuse.
        core.check_deadline();
        Snapshot {
            core: core.clone(),
            scn,
            own: own.map(|o| o.0),
            own_undo_no: own.map_or(UndoNo(0), |o| o.1),
            memory: Memory::default(),
            held: true,
        }
    }

    /// What was committed at an SCN of the past, nothing of the own transaction. Reads that need
    /// undo or index entries that are gone fail with [`crate::Error::SnapshotTooOld`].
    ///
    /// # Panics
    /// If the SCN has not been drawn yet: commits would still come to lie below it.
    #[must_use]
    pub fn as_of(&self, scn: Scn) -> Snapshot {
        assert!(scn <= self.core.clock.current(), "{scn:?} is not in the past");
        Snapshot {
            core: self.core.clone(),
            scn,
            own: None,
            own_undo_no: UndoNo(0),
            memory: Memory::default(),
            held: false,
        }
    }

    /// The same point in time, with another view of the own transaction.
    #[must_use]
    pub fn with_own(&self, own: Option<(Xid, UndoNo)>) -> Snapshot {
        let mut s = self.clone();
        s.own = own.map(|o| o.0);
        s.own_undo_no = own.map_or(UndoNo(0), |o| o.1);
        s
    }

    #[must_use]
    pub fn scn(&self) -> Scn {
        self.scn
    }

    #[must_use]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    #[must_use]
    pub fn own(&self) -> Option<Xid> {
        self.own
    }

    /// Whether the own transaction has made this segment: all that is in it is its own, and it may
    /// be read although it is younger than the snapshot.
    #[must_use]
    pub fn made_itself(&self, obj: ObjId, birth: Scn) -> bool {
        self.own.is_some_and(|xid| self.core.births.lock().contains(&(xid, obj, birth)))
    }

    /// The copies made for this snapshot; a clone begins with none.
    #[must_use]
    pub fn memory(&self) -> &Memory {
        &self.memory
    }

    /// The last own change that the statement sees.
    #[must_use]
    pub fn own_undo_no(&self) -> UndoNo {
        self.own_undo_no
    }
}

impl Clone for Snapshot {
    fn clone(&self) -> Snapshot {
        if self.held {
            self.core.snapshots.retain(self.scn);
        }
        Snapshot {
            core: self.core.clone(),
            scn: self.scn,
            own: self.own,
            own_undo_no: self.own_undo_no,
            memory: Memory::default(),
            held: self.held,
        }
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        if self.held {
            self.core.snapshots.release(self.scn);
        }
    }
}
