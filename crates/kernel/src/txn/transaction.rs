//! One transaction: its snapshot, its undo, its hooks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use block::{Dba, ObjId, Scn, UndoNo, Xid};
use observe::Ctx;
use parking_lot::Mutex;
use rustc_hash::FxHashSet;

use super::core::Core;
use super::pending::PutOff;
use super::snapshot::Snapshot;
use crate::cache::Buffer;
use crate::error::{Error, Result};
use crate::space::SegmentId;
use crate::undo::Cursor;

/// Isolation levels offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Isolation {
    #[default]
    ReadCommitted,
    RepeatableRead,
}

/// A point in a transaction to which it can be rolled back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Savepoint(pub(super) UndoNo);

pub(super) type Hook = Box<dyn FnOnce() + Send>;

pub(super) struct Inner {
    pub cursor: Option<Cursor>,
    /// REPEATABLE READ: the transaction's snapshot.
    pub snapshot: Option<Snapshot>,
    /// Blocks changed, for cleanout at commit.
    pub changed: Vec<Arc<Buffer>>,
    /// What is left to be done before the statement or the transaction ends.
    pub put_off: Vec<PutOff>,
    /// Blocks that rows were deleted from, the last one last, and how many: new rows of the same
    /// segment go there.
    pub vacated: Vec<Vacated>,
    /// Parents that rows of this transaction keep from going, see `table::foreign`.
    pub kept_parents: FxHashSet<Box<[u8]>>,
    pub on_commit: Vec<Hook>,
    pub on_rollback: Vec<Hook>,
    pub ended: bool,
}

/// Rows that a transaction has deleted from a block, less those it has inserted there since.
pub(super) struct Vacated {
    segment: SegmentId,
    dba: Dba,
    rows: usize,
}

/// Blocks remembered for new rows; of more deletes the latest count.
const VACATED_BLOCKS_MAX: usize = 8;

/// Blocks remembered for cleanout at commit; more are left to whoever finds them.
pub(super) const CLEANOUT_BLOCKS_MAX: usize = 64;

/// A transaction. At most one statement works in it at a time.
pub struct Transaction {
    core: Arc<Core>,
    pub(super) local_id: u64,
    isolation: Isolation,
    /// The database's own, beside what its caller does.
    pub(super) recursive: bool,
    /// Snapshots are not below this: the session's last commit, and every commit a current read of
    /// this transaction has met (a statement that begins again must see what made it do so).
    floor: AtomicU64,
    pub(super) inner: Mutex<Inner>,
    /// One change at a time: the cursor is taken out while a change awaits.
    pub(super) turn: tokio::sync::Mutex<()>,
    pub(super) has_table_locks: AtomicBool,
    /// How often it was rolled back to a savepoint.
    pub(super) rollbacks_to: AtomicU64,
}

impl Transaction {
    /// Begins a transaction; costs nothing until it changes something.
    #[must_use]
    pub fn begin(core: &Arc<Core>, isolation: Isolation, floor: Scn) -> Arc<Transaction> {
        Transaction::begin_as(core, isolation, floor, false)
    }

    /// Begins one of the database's own beside what its caller does: its commit is none of a user.
    pub(crate) fn begin_recursive(core: &Arc<Core>) -> Arc<Transaction> {
        Transaction::begin_as(core, Isolation::ReadCommitted, core.current_scn(), true)
    }

    fn begin_as(
        core: &Arc<Core>,
        isolation: Isolation,
        floor: Scn,
        recursive: bool,
    ) -> Arc<Transaction> {
        let id = core.next_local_id.fetch_add(1, Ordering::Relaxed);
        Arc::new(Transaction {
            core: core.clone(),
            local_id: id,
            isolation,
            recursive,
            floor: AtomicU64::new(floor.0),
            inner: Mutex::new(Inner {
                cursor: None,
                snapshot: None,
                changed: Vec::new(),
                put_off: Vec::new(),
                vacated: Vec::new(),
                kept_parents: FxHashSet::default(),
                on_commit: Vec::new(),
                on_rollback: Vec::new(),
                ended: false,
            }),
            turn: tokio::sync::Mutex::new(()),
            has_table_locks: AtomicBool::new(false),
            rollbacks_to: AtomicU64::new(0),
        })
    }

    #[must_use]
    pub fn core(&self) -> &Arc<Core> {
        &self.core
    }

    #[must_use]
    pub fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Number of the transaction in this life of the instance; it has one before it has an Xid.
    #[must_use]
    pub fn local_id(&self) -> u64 {
        self.local_id
    }

    /// The transaction's Xid, once it has changed something.
    #[must_use]
    pub fn xid(&self) -> Option<Xid> {
        self.inner.lock().cursor.as_ref().map(|c| c.xid)
    }

    /// The snapshot for the next statement.
    ///
    /// # Errors
    /// The transaction has ended.
    #[allow(clippy::unused_async)]
    pub async fn snapshot(&self, _ctx: &Ctx) -> Result<Snapshot> {
        self.snapshot_now()
    }

    /// As [`Transaction::snapshot`], for callers that cannot await.
    ///
    /// # Errors
    /// The transaction has ended.
    pub fn snapshot_now(&self) -> Result<Snapshot> {
        let mut inner = self.inner.lock();
        if inner.ended {
            return Err(Error::Invariant("the transaction has ended".to_owned()));
        }
        let own = inner.cursor.as_ref().map(|c| (c.xid, c.undo_no));
        let snapshot = match (self.isolation, &inner.snapshot) {
            (Isolation::RepeatableRead, Some(s)) => s.with_own(own),
            _ => Snapshot::take(&self.core, Scn(self.floor.load(Ordering::SeqCst)), own),
        };
        // Not only a new snapshot: there is more in an answer than what it shows.
        self.core.check_deadline();
        if self.isolation == Isolation::RepeatableRead && inner.snapshot.is_none() {
            inner.snapshot = Some(snapshot.clone());
        }
        Ok(snapshot)
    }

    /// What is committed now and the transaction's own changes, whatever its isolation level: for
    /// the dictionary, which is always read as it stands. Commits under way count as committed, so
    /// a
    /// reader waits for their outcome.
    ///
    /// # Errors
    /// The transaction has ended.
    pub fn newest_snapshot(&self) -> Result<Snapshot> {
        let inner = self.inner.lock();
        if inner.ended {
            return Err(Error::Invariant("the transaction has ended".to_owned()));
        }
        let own = inner.cursor.as_ref().map(|c| (c.xid, c.undo_no));
        Ok(Snapshot::take(&self.core, self.core.current_scn(), own))
    }

    /// How often it was rolled back to a savepoint: what was read of its own changes before the
    /// last
    /// time may be gone.
    #[must_use]
    pub fn rollbacks_to(&self) -> u64 {
        self.rollbacks_to.load(Ordering::Relaxed)
    }

    /// The transaction, which has an Xid, has made this segment.
    pub fn note_segment(&self, obj: ObjId, birth: Scn) {
        let Some(xid) = self.xid() else { return };
        self.core.births.lock().insert((xid, obj, birth));
        for on_end in [Transaction::on_commit, Transaction::on_rollback] {
            let core = self.core.clone();
            on_end(
                self,
                Box::new(move || {
                    core.births.lock().remove(&(xid, obj, birth));
                }),
            );
        }
    }

    /// The next snapshot is not below `scn`.
    pub(super) fn raise_floor(&self, scn: Scn) {
        self.floor.fetch_max(scn.0, Ordering::SeqCst);
    }

    /// A point to roll back to.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        Savepoint(self.inner.lock().cursor.as_ref().map_or(UndoNo(0), |c| c.undo_no))
    }

    /// A row of the segment was deleted from this block.
    pub(crate) fn vacate(&self, segment: SegmentId, dba: Dba) {
        let vacated = &mut self.inner.lock().vacated;
        if let Some(last) = vacated.last_mut().filter(|v| v.dba == dba && v.segment == segment) {
            last.rows += 1;
            return;
        }
        if vacated.len() == VACATED_BLOCKS_MAX {
            vacated.remove(0);
        }
        vacated.push(Vacated { segment, dba, rows: 1 });
    }

    /// A block for one new row of the segment, in the place of one deleted from it; each deleted
    /// row is counted once. It may be full all the same.
    pub(crate) fn take_vacated(&self, segment: SegmentId) -> Option<Dba> {
        let vacated = &mut self.inner.lock().vacated;
        let at = vacated.iter().rposition(|v| v.segment == segment)?;
        let found = &mut vacated[at];
        found.rows -= 1;
        let dba = found.dba;
        if found.rows == 0 {
            vacated.remove(at);
        }
        Some(dba)
    }

    /// Runs `f` once the transaction has durably committed, before its locks are released.
    pub fn on_commit(&self, f: Box<dyn FnOnce() + Send>) {
        self.inner.lock().on_commit.push(f);
    }

    /// Runs `f` if the transaction is rolled back as a whole.
    pub fn on_rollback(&self, f: Box<dyn FnOnce() + Send>) {
        self.inner.lock().on_rollback.push(f);
    }

    /// Whether it has changed nothing so far.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.inner.lock().cursor.is_none()
    }
}
