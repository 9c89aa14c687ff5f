//! Waiting for rows, and deadlocks on one instance.
//!
//! Nobody keeps a lock list: a waiter waits for the *transaction* that holds the row. Who waits for
//! whom is a small graph of local transaction numbers; a deadlock is looked for when a wait begins
//! and
//! again while it lasts. The victim is the youngest transaction of the cycle, whoever finds it.
//! Waits that lead to other instances are searched by `gcs` ([`RemoteDeadlocks`]).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use block::{ObjId, Rowid, Xid};
use env::Micros;
use env::marks::{self, Mark};
use global::msg::Resource;
use observe::{Ctx, Stat, WaitEvent, WaitedFor};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::core::Core;
use super::locks::{TableLocks, Wish};
use super::modify::Crowd;
use super::transaction::Transaction;
use crate::cache::SegmentStat;
use crate::error::{Error, Result};

/// How long a statement is ready to wait for a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum LockWait {
    #[default]
    Wait,
    NoWait,
    SkipLocked,
    /// µs.
    Timeout(u64),
}

/// A wait is searched for deadlocks when it has lasted this long, and again after as long.
const LASTING: Duration = Duration::from_millis(200);
/// A limit that no wait reaches: a hundred years.
const UNLIMITED_US: u64 = 100 * 365 * 86_400 * 1_000_000;

/// The search for deadlocks over all instances; set once by `gcs`.
pub trait RemoteDeadlocks: Send + Sync {
    /// The transaction (local number) waits, and has done so for a while.
    fn wait_lasts(&self, waiter: u64);
}

/// What a transaction waits for, as the search for deadlocks needs it.
#[derive(Clone, Debug)]
pub struct WaitView {
    /// The waiter's local number.
    pub id: u64,
    /// Names this wait among all of the instance's.
    pub wait_no: u64,
    /// Transactions of which any one ending is enough.
    pub any_of: Vec<Xid>,
    /// Local transactions that must all get out of the way.
    pub all_of: Vec<u64>,
    /// An enqueue asked from the cluster.
    pub enqueue: Option<Resource>,
}

/// How long a lock is waited for, over all the single waits it takes.
pub(super) struct Patience {
    wait: LockWait,
    began: Micros,
    searched: Micros,
    wait_no: u64,
}

impl Patience {
    /// Whether there is no wait for others at all.
    pub fn refuses(&self) -> bool {
        matches!(self.wait, LockWait::NoWait | LockWait::SkipLocked)
    }
}

/// Who stands in the way.
#[derive(Clone, Copy, Default)]
pub(super) struct Targets<'a> {
    pub xids: &'a [Xid],
    /// A lock that others of this instance have, or are before this one to get.
    pub lock: Option<Wish>,
    pub enqueue: Option<Resource>,
}

/// What is waited for, for `v$session` and traces.
#[derive(Clone, Copy, Debug)]
pub struct WaitTarget {
    pub obj: ObjId,
    pub rowid: Option<Rowid>,
    /// Mode in which the transaction's lock is asked for, as the field counts modes.
    mode: u8,
}

impl WaitTarget {
    /// The row itself.
    #[must_use]
    pub fn row(obj: ObjId, rowid: Rowid) -> WaitTarget {
        WaitTarget { obj, rowid: Some(rowid), mode: 6 }
    }

    /// What an index says of a row: whether there is to be one with its key, or a bitmap that has
    /// its bit.
    #[must_use]
    pub fn entry(obj: ObjId, rowid: Option<Rowid>) -> WaitTarget {
        WaitTarget { obj, rowid, mode: 4 }
    }
}

/// While it lives the session shows what it waits for.
pub(super) struct Shown<'a>(&'a Ctx);

impl<'a> Shown<'a> {
    /// A lock of a table, or of none (object 0).
    pub(super) fn of_table(ctx: &'a Ctx, obj: ObjId) -> Shown<'a> {
        Shown::of(ctx, WaitTarget::entry(obj, None))
    }

    fn of(ctx: &'a Ctx, target: WaitTarget) -> Shown<'a> {
        let block = target.rowid.map(|rowid| (rowid.dba.file, rowid.dba.block));
        let row = target.rowid.map(|rowid| rowid.slot);
        let what = WaitedFor { obj: target.obj.0, block, row };
        ctx.session.set_waited_for(Some(what), ctx.env.now());
        Shown(ctx)
    }
}

impl Drop for Shown<'_> {
    fn drop(&mut self) {
        self.0.session.set_waited_for(None, self.0.env.now());
    }
}

/// One wait of a transaction for others: any of them ending wakes it.
struct Edge {
    /// Transactions of which any one ending is enough (the ITL of a block is full of them).
    on: Vec<Xid>,
    /// A lock of this instance: all who stand in its way must get out of it. Who they are is asked
    /// when it matters: a session lets a lock go and waits for the next while those who waited for
    /// it sleep still.
    lock: Option<Wish>,
    /// An enqueue that the cluster has yet to give.
    enqueue: Option<Resource>,
    wait_no: u64,
    victim: Arc<AtomicBool>,
    wake: Arc<Notify>,
    own: Option<Xid>,
}

/// Who waits for whom on this instance.
#[derive(Default)]
pub struct Waits {
    edges: Mutex<BTreeMap<u64, Edge>>,
    running: Mutex<BTreeMap<Xid, u64>>,
    /// Sessions that hold locks of their own, by the number these are under: their transaction.
    sessions: Mutex<BTreeMap<u64, u64>>,
    locks: Arc<TableLocks>,
    last_no: AtomicU64,
    remote: OnceLock<Weak<dyn RemoteDeadlocks>>,
}

/// A row of `v$lock` for waiting transactions.
#[derive(Clone, Debug)]
pub struct WaitRow {
    pub waiter: Option<Xid>,
    pub holders: Vec<Xid>,
}

impl Waits {
    pub(super) fn over(locks: Arc<TableLocks>) -> Waits {
        Waits { locks, ..Waits::default() }
    }

    /// Waits as they stand.
    #[must_use]
    pub fn rows(&self) -> Vec<WaitRow> {
        let edges = self.edges.lock();
        edges.values().map(|e| WaitRow { waiter: e.own, holders: e.on.clone() }).collect()
    }

    /// From now on waits that last are searched over all instances.
    pub fn set_remote(&self, remote: &Arc<impl RemoteDeadlocks + 'static>) {
        let remote = Arc::downgrade(remote);
        assert!(self.remote.set(remote).is_ok(), "the remote deadlock search is set once");
    }

    /// Who holds locks under the number `session` works in this transaction now, or in none.
    pub fn set_session(&self, session: u64, transaction: Option<u64>) {
        let mut sessions = self.sessions.lock();
        match transaction {
            Some(transaction) => sessions.insert(session, transaction),
            None => sessions.remove(&session),
        };
    }

    /// The transaction that must go on for the holder of a lock to let it go.
    #[must_use]
    pub fn transaction_of(&self, holder: u64) -> u64 {
        self.sessions.lock().get(&holder).copied().unwrap_or(holder)
    }

    /// Whether nobody waits here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.edges.lock().is_empty()
    }

    /// All waits at this instance.
    #[must_use]
    pub fn all(&self) -> Vec<WaitView> {
        let edges = self.edges.lock();
        let (running, sessions) = (self.running.lock(), self.sessions.lock());
        let known = Known { running: &running, sessions: &sessions, locks: &self.locks };
        edges.iter().map(|(id, e)| e.view(*id, known)).collect()
    }

    /// The wait of the transaction with this local number.
    #[must_use]
    pub fn wait_of(&self, id: u64) -> Option<WaitView> {
        let edges = self.edges.lock();
        let (running, sessions) = (self.running.lock(), self.sessions.lock());
        let known = Known { running: &running, sessions: &sessions, locks: &self.locks };
        edges.get(&id).map(|e| e.view(id, known))
    }

    /// The wait of transaction `xid`.
    #[must_use]
    pub fn wait_of_xid(&self, xid: Xid) -> Option<WaitView> {
        let id = *self.running.lock().get(&xid)?;
        self.wait_of(id)
    }

    /// The Xid of a waiting transaction, if it has one.
    #[must_use]
    pub fn xid_of(&self, id: u64) -> Option<Xid> {
        self.edges.lock().get(&id).and_then(|e| e.own)
    }

    /// Marks a waiting transaction (local number) as a deadlock's victim and wakes it; false if it
    /// is not in that wait any more.
    pub fn kill_victim(&self, id: u64, wait_no: u64) -> bool {
        let edges = self.edges.lock();
        let Some(edge) = edges.get(&id).filter(|e| e.wait_no == wait_no) else { return false };
        edge.victim.store(true, Ordering::SeqCst);
        edge.wake.notify_waiters();
        true
    }

    /// Looks for a deadlock that `start` is in or waits for, and marks the youngest of its members.
    /// A wait for any of several is part of one only if none of them can go on (hazard M5).
    fn find_deadlock(&self, start: u64) -> bool {
        let edges = self.edges.lock();
        let running = self.running.lock();
        let sessions = self.sessions.lock();
        let known = Known { running: &running, sessions: &sessions, locks: &self.locks };
        let stuck = stuck(&edges, known);
        if !stuck.contains(&start) {
            return false;
        }
        // Every stuck transaction waits for a stuck one: the way ends in a cycle.
        let mut path = vec![start];
        let members = loop {
            let at = path.last().expect("the path has its start");
            let on = edges[at].targets(known).find(|t| stuck.contains(t));
            let Some(next) = on else { return false };
            match path.iter().position(|&p| p == next) {
                Some(from) => break &path[from..],
                None => path.push(next),
            }
        };
        let victim = members.iter().max().expect("a cycle has members");
        let edge = &edges[victim];
        edge.victim.store(true, Ordering::SeqCst);
        edge.wake.notify_waiters();
        true
    }
}

/// By which numbers transactions are known.
#[derive(Clone, Copy)]
struct Known<'a> {
    running: &'a BTreeMap<Xid, u64>,
    sessions: &'a BTreeMap<u64, u64>,
    locks: &'a TableLocks,
}

impl<'a> Known<'a> {
    /// The transactions that must go on for a wish to be granted here.
    fn in_way(self, wish: &Wish) -> impl Iterator<Item = u64> + use<'a> {
        let holders = self.locks.in_way(wish).into_iter();
        holders.map(move |holder| self.sessions.get(&holder).copied().unwrap_or(holder))
    }
}

impl Edge {
    /// Who stands in the way of a lock of this instance.
    fn holders<'a>(&'a self, known: Known<'a>) -> impl Iterator<Item = u64> + 'a {
        self.lock.iter().flat_map(move |wish| known.in_way(wish))
    }

    fn view(&self, id: u64, known: Known<'_>) -> WaitView {
        WaitView {
            id,
            wait_no: self.wait_no,
            any_of: self.on.clone(),
            all_of: self.holders(known).collect(),
            enqueue: self.enqueue,
        }
    }

    /// The waiting transactions it waits for. Those that run are not known here.
    fn targets<'a>(&'a self, known: Known<'a>) -> impl Iterator<Item = u64> + 'a {
        let by_xid = self.on.iter().filter_map(move |x| known.running.get(x).copied());
        by_xid.chain(self.holders(known))
    }

    /// Whether it cannot end while the transactions of `stuck` do not go on.
    fn is_stuck(&self, known: Known<'_>, stuck: &BTreeSet<u64>) -> bool {
        let held = |x: &Xid| known.running.get(x).is_some_and(|id| stuck.contains(id));
        let by_xid = !self.on.is_empty() && self.on.iter().all(held);
        by_xid || self.holders(known).any(|id| stuck.contains(&id))
    }
}

/// The waiting transactions none of which can go on before another of them does.
fn stuck(edges: &BTreeMap<u64, Edge>, known: Known<'_>) -> BTreeSet<u64> {
    let mut stuck: BTreeSet<u64> = edges.keys().copied().collect();
    loop {
        let before = stuck.len();
        let all = stuck.clone();
        stuck.retain(|id| edges[id].is_stuck(known, &all));
        if stuck.len() == before {
            return stuck;
        }
    }
}

/// Removes the edge when the wait is over.
struct EdgeGuard<'a> {
    waits: &'a Waits,
    id: u64,
    own: Option<Xid>,
}

impl Drop for EdgeGuard<'_> {
    fn drop(&mut self) {
        self.waits.edges.lock().remove(&self.id);
        if let Some(xid) = self.own {
            self.waits.running.lock().remove(&xid);
        }
    }
}

impl Core {
    /// Waits until transaction `xid` has ended. `enq: TX - row lock contention`. The caller holds
    /// no pin and re-reads the block afterwards.
    ///
    /// # Errors
    /// [`Error::RowLocked`] for `NoWait` and `SkipLocked`; [`Error::LockTimeout`];
    /// [`Error::Deadlock`] if this transaction is the victim; interrupted.
    pub async fn wait_row(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        xid: Xid,
        target: WaitTarget,
        wait: LockWait,
    ) -> Result<()> {
        let _shown = Shown::of(ctx, target);
        let p2 = (u64::from(xid.usn) << 16) | u64::from(xid.slot);
        let p = [observe::enq_p1(*b"TX", target.mode), p2, u64::from(xid.seq)];
        if !matches!(wait, LockWait::NoWait | LockWait::SkipLocked) {
            self.cache.common.segments.add(target.obj, SegmentStat::RowLockWaits, 1);
        }
        self.wait_xids(ctx, txn, &[xid], WaitEvent::EnqTxRowLock, p, wait).await
    }

    /// Waits until one of the transactions that fill a block's ITL has ended.
    ///
    /// # Errors
    /// As [`Core::wait_row`]; [`Error::Serialization`] where no end would help.
    pub async fn wait_itl(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        crowd: &Crowd,
        obj: ObjId,
    ) -> Result<()> {
        if crowd.newer {
            let why = "the block has no room for another transaction entry".to_owned();
            return Err(Error::Serialization(why));
        }
        marks::reached(Mark::ListFull);
        self.cache.common.segments.add(obj, SegmentStat::ItlWaits, 1);
        let p = [observe::enq_p1(*b"TX", 4), 0, 0];
        self.wait_xids(ctx, txn, &crowd.running, WaitEvent::EnqTxAllocateItl, p, LockWait::Wait)
            .await
    }

    async fn wait_xids(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        xids: &[Xid],
        event: WaitEvent,
        p: [u64; 3],
        wait: LockWait,
    ) -> Result<()> {
        let asked = ctx.ask_enqueue(event);
        let mut patience = self.patience(ctx, wait);
        if patience.refuses() {
            return Err(Error::RowLocked);
        }
        let targets = Targets { xids, ..Targets::default() };
        let ends = self.any_ended(ctx, xids);
        self.wait_any(ctx, txn, targets, ends, event, p, &mut patience).await?;
        drop(asked.granted());
        Ok(())
    }

    /// Waits for an enqueue that `asked` asks from the cluster, on behalf of a transaction: the
    /// wait
    /// is part of the search for deadlocks. An answer that is there at once is no wait.
    ///
    /// # Errors
    /// As [`Core::wait_row`], and what `asked` says.
    #[allow(clippy::too_many_arguments)]
    pub async fn wait_enqueue(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        resource: Resource,
        asked: impl Future<Output = Result<()>>,
        event: WaitEvent,
        p: [u64; 3],
        wait: LockWait,
    ) -> Result<()> {
        let mut asked = std::pin::pin!(asked);
        if let std::task::Poll::Ready(answer) = futures::poll!(asked.as_mut()) {
            return answer;
        }
        let targets = Targets { enqueue: Some(resource), ..Targets::default() };
        let mut patience = self.patience(ctx, wait);
        self.wait_any(ctx, txn, targets, asked, event, p, &mut patience).await
    }

    /// The patience of a wait that begins now.
    pub(super) fn patience(&self, ctx: &Ctx, wait: LockWait) -> Patience {
        // Who asks for no limit of its own, for a key or a definition, has the session's.
        let wait = match (wait, ctx.session.cancel_flag().lock_limit()) {
            (LockWait::Wait, Some(us)) => LockWait::Timeout(us),
            (wait, _) => wait,
        };
        let now = self.env.now();
        let wait_no = self.waits.last_no.fetch_add(1, Ordering::Relaxed) + 1;
        Patience { wait, began: now, searched: now, wait_no }
    }

    /// Waits for `ends`, which comes when `targets` have got out of the way.
    #[allow(clippy::too_many_arguments)]
    pub(super) async fn wait_any(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        targets: Targets<'_>,
        ends: impl Future<Output = Result<()>>,
        event: WaitEvent,
        p: [u64; 3],
        patience: &mut Patience,
    ) -> Result<()> {
        let own = txn.xid();
        let victim = Arc::new(AtomicBool::new(false));
        let wake = Arc::new(Notify::new());
        let killed = wake.notified();
        let mut killed = std::pin::pin!(killed);
        killed.as_mut().enable();
        let edge = Edge {
            on: targets.xids.to_vec(),
            lock: targets.lock,
            enqueue: targets.enqueue,
            wait_no: patience.wait_no,
            victim: victim.clone(),
            wake: wake.clone(),
            own,
        };
        self.waits.edges.lock().insert(txn.local_id, edge);
        if let Some(xid) = own {
            self.waits.running.lock().insert(xid, txn.local_id);
        }
        let _guard = EdgeGuard { waits: &self.waits, id: txn.local_id, own };
        let mut ends = std::pin::pin!(ends);
        let limit = match patience.wait {
            LockWait::Timeout(us) => us.saturating_sub(self.env.now().since(patience.began)),
            _ => UNLIMITED_US,
        };
        // One wait, however often it is searched for deadlocks meanwhile.
        let work = async {
            loop {
                self.waits.find_deadlock(txn.local_id);
                self.search_if_lasting(txn.local_id, patience);
                if victim.load(Ordering::SeqCst) {
                    ctx.bump(Stat::EnqueueDeadlocks, 1);
                    marks::reached(Mark::Deadlock);
                    return Err(Error::Deadlock);
                }
                if limit == 0 {
                    return Err(Error::LockTimeout);
                }
                let either = futures::future::select(ends.as_mut(), killed.as_mut());
                if let Ok(futures::future::Either::Left((result, _))) =
                    self.env.timeout(LASTING, either).await
                {
                    return result;
                }
            }
        };
        let within = Duration::from_micros(limit);
        let result = match ctx.wait_for_or_cancel(event, p, within, work).await? {
            Ok(result) => result,
            Err(_) => Err(Error::LockTimeout),
        };
        if matches!(result, Err(Error::LockTimeout)) {
            ctx.bump(Stat::EnqueueTimeouts, 1);
        }
        result
    }

    fn search_if_lasting(&self, waiter: u64, patience: &mut Patience) {
        let now = self.env.now();
        let lasts = now.since(patience.searched) >= LASTING.as_micros() as u64;
        if let Some(remote) = self.waits.remote.get().and_then(Weak::upgrade).filter(|_| lasts) {
            patience.searched = now;
            remote.wait_lasts(waiter);
        }
    }

    /// Returns when one of the transactions may have ended.
    async fn any_ended(&self, ctx: &Ctx, xids: &[Xid]) -> Result<()> {
        let all = xids.iter().map(|&xid| env::boxed!(self.await_end(ctx, xid)));
        futures::future::select_all(all).await.0
    }
}

#[cfg(test)]
mod tests {
    use super::super::locks::{Holder, TmMode, user_resource};
    use super::*;

    fn xid(n: u16) -> Xid {
        Xid { usn: 1, slot: n, seq: 1 }
    }

    /// The lock that transaction `id` wants.
    fn lock(id: u16) -> Resource {
        user_resource(false, 0, u32::from(id))
    }

    /// Transactions `who` with the transactions each waits for: any of the first, all of the
    /// second.
    fn waits(of: &[(u16, &[u16], &[u16])]) -> Waits {
        let waits = Waits::default();
        for &(id, any, all) in of {
            let all: Vec<u64> = all.iter().map(|&n| u64::from(n)).collect();
            waits.locks.give(lock(id), &all);
            waits.running.lock().insert(xid(id), u64::from(id));
            let edge = Edge {
                on: any.iter().map(|&n| xid(n)).collect(),
                lock: Some(Wish {
                    resource: lock(id),
                    who: Holder { id: u64::from(id), same: None },
                    mode: TmMode::X,
                }),
                enqueue: None,
                wait_no: 1,
                victim: Arc::default(),
                wake: Arc::default(),
                own: Some(xid(id)),
            };
            waits.edges.lock().insert(u64::from(id), edge);
        }
        waits
    }

    fn victims(waits: &Waits) -> Vec<u64> {
        let edges = waits.edges.lock();
        edges.iter().filter(|(_, e)| e.victim.load(Ordering::SeqCst)).map(|(id, _)| *id).collect()
    }

    #[test]
    fn the_youngest_of_a_cycle_is_the_victim() {
        let waits = waits(&[(1, &[3], &[]), (2, &[1], &[]), (3, &[2], &[]), (9, &[1], &[])]);
        assert!(waits.find_deadlock(1));
        assert_eq!(victims(&waits), [3]);
        // One that only waits for the cycle is not part of it.
        assert!(waits.find_deadlock(9));
        assert_eq!(victims(&waits), [3]);
    }

    #[test]
    fn m5_a_wait_for_any_of_several_is_no_deadlock_while_one_can_go_on() {
        let one_runs = waits(&[(1, &[2, 7], &[]), (2, &[1], &[])]);
        assert!(!one_runs.find_deadlock(1) && !one_runs.find_deadlock(2));
        let none_runs = waits(&[(1, &[2, 7], &[]), (2, &[1], &[]), (7, &[2], &[])]);
        assert!(none_runs.find_deadlock(1));
        assert_eq!(victims(&none_runs).len(), 1);
    }

    /// A session that has let a lock go may wait for the one who waited for it and sleeps still.
    #[test]
    fn a_session_that_has_let_go_is_waited_for_no_more() {
        let waits = waits(&[(1, &[2], &[]), (2, &[], &[100])]);
        waits.set_session(100, Some(1));
        waits.locks.give(lock(2), &[]);
        assert!(!waits.find_deadlock(1) && !waits.find_deadlock(2));
        waits.locks.give(lock(2), &[100]);
        assert!(waits.find_deadlock(1));
        assert_eq!(victims(&waits), [2]);
    }

    #[test]
    fn a_table_lock_needs_all_of_its_holders() {
        let waits = waits(&[(1, &[], &[2, 7]), (2, &[1], &[])]);
        assert!(waits.find_deadlock(2));
        assert_eq!(victims(&waits), [2]);
    }
}
