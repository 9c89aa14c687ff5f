//! What the transactions of one instance share.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use block::{Dba, InstanceNo, ObjId, Scn, Uba, Xid};
use cluster::Deadline;
use env::{BoxFuture, Env, IoBuf};
use global::{Mutant, broken};
use observe::{Ctx, WaitEvent};
use parking_lot::{Mutex, RwLock};

use super::locks::TableLocks;
use super::snapshot::Snapshots;
use super::status::{Outcomes, TxStatus};
use super::wait::Waits;
use super::work_memory::WorkMemory;
use crate::cache::Cache;
use crate::clock::ScnClock;
use crate::error::{Error, Result};
use crate::redo::Log;
use crate::space::Space;
use crate::undo::{Cursor, Segment, Supply};

/// Gates for index splits: enough that two indexes rarely share one.
pub const INDEX_GATES: usize = 64;

/// Settings of transactions.
#[derive(Clone, Copy, Debug)]
pub struct CoreConfig {
    /// `undo_retention` in µs.
    pub undo_retention_us: u64,
    /// Entries that a block's list of transactions may grow to.
    pub itl_entries_max: u8,
}

/// Finds the leaf of an index that covers a key now: rollback of an entry after a split.
pub trait LeafFinder: Send + Sync {
    fn find_leaf<'a>(
        &'a self,
        ctx: &'a Ctx,
        core: &'a Arc<Core>,
        root: Dba,
        key: &'a [u8],
    ) -> BoxFuture<'a, Result<Dba>>;
}

/// The other instances, as transactions need them.
pub trait Peers: Send + Sync {
    /// The newest image of a block that another instance is changing, by a look into its memory:
    /// nothing in it is taken back. `None`: it must be asked. The owner draws no SCN at or below
    /// `scn` after the look.
    fn seen_copy(&self, ctx: &Ctx, dba: Dba, scn: Scn) -> Option<Vec<u8>>;
    /// Whether `seen_copy` may succeed.
    fn may_see(&self, dba: Dba) -> bool;
    /// An undo block of the instance that answers for `xid`, by a look into its memory. `None`: it
    /// must be asked.
    fn seen_undo(&self, ctx: &Ctx, xid: Xid, dba: Dba) -> Option<Vec<u8>>;
    /// What `status` would say, by a look into the owner's memory. `None`: it must be asked.
    fn seen_status(&self, ctx: &Ctx, xid: Xid, scn: Scn) -> Option<TxStatus>;
    /// State of a transaction of another instance; the owner's clock is raised to `scn` first.
    fn status<'a>(&'a self, ctx: &'a Ctx, xid: Xid, scn: Scn) -> BoxFuture<'a, Result<TxStatus>>;
    /// Returns once `xid`, of another instance, may have ended.
    fn await_end<'a>(&'a self, ctx: &'a Ctx, xid: Xid) -> BoxFuture<'a, Result<()>>;
    /// A copy of an undo block of another instance that has the record, in no mode.
    fn undo_block<'a>(&'a self, ctx: &'a Ctx, xid: Xid, uba: Uba) -> BoxFuture<'a, Result<IoBuf>>;
    /// Tells all live instances a commit SCN and returns when all have acknowledged it.
    fn broadcast<'a>(&'a self, ctx: &'a Ctx, scn: Scn) -> BoxFuture<'a, Result<()>>;
    /// Lowest snapshot the other instances may have.
    fn horizon(&self) -> Scn;
    /// The membership in force.
    fn epoch(&self) -> u64;
    /// A consistent-read base of a block this instance has no right to, or `None` if the asker now
    /// holds the block in S. `anew`: it must be made after this call, not for a question that
    /// somebody has asked before.
    fn consistent_copy<'a>(
        &'a self,
        ctx: &'a Ctx,
        dba: Dba,
        scn: Scn,
        anew: bool,
    ) -> BoxFuture<'a, Result<Option<CrCopy>>>;
    /// As `consistent_copy` for many blocks at once, all `of` one segment if the reader knows;
    /// those that do not come are left out.
    fn consistent_copies<'a>(
        &'a self,
        ctx: &'a Ctx,
        dbas: &'a [Dba],
        of: Option<ObjId>,
        scn: Scn,
    ) -> BoxFuture<'a, Result<Vec<(Dba, CrCopy)>>>;
}

/// A consistent copy from another instance, as of the SCN asked for.
pub struct CrCopy {
    /// May be larger than a block.
    pub image: Vec<u8>,
    /// Nothing the reader may not see is left in it; else he goes on where the sender stopped.
    pub complete: bool,
}

/// Shared by all transactions of an instance.
pub struct Core {
    pub env: Env,
    pub me: InstanceNo,
    pub cache: Arc<Cache>,
    pub log: Arc<Log>,
    pub clock: Arc<ScnClock>,
    pub space: Space,
    /// `undo_retention` in µs.
    undo_retention_us: AtomicU64,
    pub itl_entries_max: u8,
    pub snapshots: Snapshots,
    pub waits: Waits,
    pub table_locks: Arc<TableLocks>,
    /// Segments made by transactions that have not ended: REPEATABLE READ ones read their own.
    pub(super) births: Mutex<BTreeSet<(Xid, ObjId, Scn)>>,
    /// Splitting an index block goes through the gate its address falls on: one session splits, the
    /// others wait (`enq: TX - index contention`) and look again.
    pub index_gates: [tokio::sync::Mutex<()>; INDEX_GATES],
    /// Segments this instance answers for: its own, and those it has adopted.
    pub(super) segments: RwLock<BTreeMap<u16, Arc<Segment>>>,
    /// Its own segments, for new transactions.
    pub(super) own: RwLock<Vec<Arc<Segment>>>,
    next_segment: AtomicUsize,
    pub(super) outcomes: Outcomes,
    pub(super) next_local_id: AtomicU64,
    pub(super) leaf_finder: OnceLock<Arc<dyn LeafFinder>>,
    /// Whoever it is has this core: it is not kept alive from here.
    pub(super) peers: OnceLock<Weak<dyn Peers>>,
    /// Until when the instance may give answers; unset while it is made.
    deadline: OnceLock<Deadline>,
    /// The dictionary's own state, of a type that only `dict` knows.
    dictionary: OnceLock<Box<dyn Any + Send + Sync>>,
    /// See `set_work_memory`.
    work_memory: OnceLock<Arc<dyn WorkMemory>>,
}

impl Core {
    #[must_use]
    pub fn new(
        env: &Env,
        me: InstanceNo,
        cache: &Arc<Cache>,
        space: Space,
        config: CoreConfig,
    ) -> Arc<Core> {
        let table_locks = Arc::new(TableLocks::default());
        let snapshots = Snapshots::default();
        if let Some(shown) = &cache.shown {
            snapshots.show(shown);
        }
        Arc::new(Core {
            env: env.clone(),
            me,
            cache: cache.clone(),
            log: cache.log.clone(),
            clock: cache.clock.clone(),
            space,
            undo_retention_us: AtomicU64::new(config.undo_retention_us),
            itl_entries_max: config.itl_entries_max,
            snapshots,
            waits: Waits::over(table_locks.clone()),
            table_locks,
            births: Mutex::default(),
            index_gates: std::array::from_fn(|_| tokio::sync::Mutex::new(())),
            segments: RwLock::new(BTreeMap::new()),
            own: RwLock::new(Vec::new()),
            next_segment: AtomicUsize::new(0),
            outcomes: Outcomes::default(),
            next_local_id: AtomicU64::new(1),
            leaf_finder: OnceLock::new(),
            peers: OnceLock::new(),
            deadline: OnceLock::new(),
            dictionary: OnceLock::new(),
            work_memory: OnceLock::new(),
        })
    }

    pub fn set_leaf_finder(&self, finder: Arc<dyn LeafFinder>) {
        assert!(self.leaf_finder.set(finder).is_ok(), "the leaf finder is set once");
    }

    pub fn set_peers(&self, peers: &Arc<impl Peers + 'static>) {
        let peers = Arc::downgrade(peers);
        assert!(self.peers.set(peers).is_ok(), "the peers are set once");
    }

    pub fn set_deadline(&self, deadline: Deadline) {
        assert!(self.deadline.set(deadline).is_ok(), "the deadline is set once");
    }

    /// Ends the instance if its lease has: what it knows may be old by now (C18). To be called once
    /// it is settled what an answer rests upon; what is true at that moment may be said later.
    pub fn check_deadline(&self) {
        let passed = self.deadline.get().is_some_and(|d| d.has_passed(&self.env));
        if passed && !broken(Mutant::AnswerAfterLease) {
            self.env.abort_instance("its lease has ended");
        }
    }

    /// Of what memory readers take what they hold ahead, unless they have a statement's. Set once;
    /// until then nobody accounts for it.
    pub fn set_work_memory(&self, memory: Arc<dyn WorkMemory>) {
        let _ = self.work_memory.set(memory);
    }

    /// See [`Core::set_work_memory`].
    #[must_use]
    pub fn work_memory(&self) -> Option<Arc<dyn WorkMemory>> {
        self.work_memory.get().cloned()
    }

    pub fn set_dictionary(&self, dictionary: Box<dyn Any + Send + Sync>) {
        assert!(self.dictionary.set(dictionary).is_ok(), "the dictionary is opened once");
    }

    /// What `dict` keeps here; `None` until it is open.
    #[must_use]
    pub fn dictionary(&self) -> Option<&(dyn Any + Send + Sync)> {
        self.dictionary.get().map(|dictionary| &**dictionary)
    }

    /// The other instances; `None` while this one is alone.
    #[must_use]
    pub fn peers(&self) -> Option<Arc<dyn Peers>> {
        if self.cache.is_alone() { None } else { self.peers.get()?.upgrade() }
    }

    /// How long undo of committed transactions is kept for old snapshots.
    #[must_use]
    pub fn undo_retention_us(&self) -> u64 {
        self.undo_retention_us.load(Ordering::Relaxed)
    }

    pub fn set_undo_retention_us(&self, us: u64) {
        self.undo_retention_us.store(us, Ordering::Relaxed);
    }

    /// A number under which a session holds locks of its own.
    #[must_use]
    pub fn session_number(&self) -> u64 {
        self.next_local_id.fetch_add(1, Ordering::Relaxed)
    }

    #[must_use]
    pub fn current_scn(&self) -> Scn {
        self.clock.current()
    }

    /// Every snapshot in the cluster is at or above this.
    #[must_use]
    pub fn horizon(&self) -> Scn {
        let local = self.snapshots.horizon(&self.clock);
        match self.peers() {
            Some(peers) => local.min(peers.horizon()),
            None => local,
        }
    }

    /// Starts answering for an undo segment; `own`: new transactions may use it.
    pub fn add_segment(&self, segment: Arc<Segment>, own: bool) {
        self.segments.write().insert(segment.usn, segment.clone());
        if own {
            self.own.write().push(segment);
        }
    }

    /// Makes the own segments ready for the transactions of a new life; returns when that is
    /// durable.
    ///
    /// # Errors
    /// The instance closes.
    pub async fn begin_life(&self, ctx: &Ctx) -> Result<()> {
        self.log.throttle(ctx).await?;
        self.own.read().iter().for_each(|segment| segment.begin_life(ctx, &self.cache));
        let upto = self.log.next();
        self.log.nudge(upto);
        ctx.wait(WaitEvent::LogFileSync, [upto.0, 0, 0], self.log.flushed(upto)).await;
        Ok(())
    }

    /// Stops answering for a segment. Dropping what is returned lets its header block go.
    pub fn remove_segment(&self, usn: u16) -> Option<Arc<Segment>> {
        self.own.write().retain(|s| s.usn != usn);
        self.segments.write().remove(&usn)
    }

    #[must_use]
    pub fn segment(&self, usn: u16) -> Option<Arc<Segment>> {
        self.segments.read().get(&usn).cloned()
    }

    #[must_use]
    pub fn all_segments(&self) -> Vec<Arc<Segment>> {
        self.segments.read().values().cloned().collect()
    }

    /// Whether new transactions go to an undo segment.
    #[must_use]
    pub fn is_own_segment(&self, usn: u16) -> bool {
        self.own.read().iter().any(|segment| segment.usn == usn)
    }

    /// Where undo blocks come from, as of now.
    pub(super) fn undo_supply(&self) -> Supply<'_> {
        Supply {
            cache: &self.cache,
            space: &self.space,
            own: &self.own,
            horizon: self.horizon(),
            retention_us: self.undo_retention_us(),
        }
    }

    /// Begins a transaction in one of the own segments, spread evenly.
    pub(super) async fn begin_undo(&self, ctx: &Ctx) -> Result<Cursor> {
        let own = self.own.read().clone();
        if own.is_empty() {
            return Err(Error::Invariant("the instance has no undo segment".to_owned()));
        }
        let supply = self.undo_supply();
        let mut rounds = 0;
        let start = self.next_segment.fetch_add(1, Ordering::Relaxed);
        loop {
            for i in 0..own.len() {
                let segment = &own[(start + i) % own.len()];
                // The first round prefers slots whose outcome no snapshot needs any more.
                let youngest = if rounds == 0 { supply.horizon } else { Scn::MAX };
                if let Some(cursor) = segment.begin(ctx, &supply, youngest).await? {
                    ctx.session.set_xid(cursor.xid.to_u64(), self.env.wall_us());
                    return Ok(cursor);
                }
            }
            rounds += 1;
            if rounds > 1 {
                let wait = std::time::Duration::from_millis(5);
                let event = WaitEvent::UndoSegmentTxSlot;
                ctx.wait_or_cancel(event, [0; 3], self.env.sleep(wait)).await?;
            }
        }
    }
}
