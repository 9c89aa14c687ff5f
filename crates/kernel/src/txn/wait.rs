//! Waiting for rows, and deadlocks on one instance.
//!
//! Nobody keeps a lock list: a waiter waits for the *transaction* that holds the row. Who waits for
//! whom is a small graph of local transaction numbers; a cycle is looked for when a wait begins and
//! again while it lasts. The victim is the youngest transaction of the cycle, whoever finds it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{ObjId, Rowid, Xid};
use observe::{Ctx, Stat, WaitEvent};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::core::Core;
use super::transaction::Transaction;
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

/// What is waited for, for `v$session` and traces.
#[derive(Clone, Copy, Debug)]
pub struct WaitTarget {
    pub obj: ObjId,
    pub rowid: Option<Rowid>,
}

/// One wait of a transaction for others: any of them ending wakes it.
struct Edge {
    on: Vec<Xid>,
    on_local: Vec<u64>,
    victim: Arc<AtomicBool>,
    wake: Arc<Notify>,
    own: Option<Xid>,
}

/// Who waits for whom on this instance.
#[derive(Default)]
pub struct Waits {
    edges: Mutex<BTreeMap<u64, Edge>>,
    running: Mutex<BTreeMap<Xid, u64>>,
}

/// A row of `v$lock` for waiting transactions.
#[derive(Clone, Debug)]
pub struct WaitRow {
    pub waiter: Option<Xid>,
    pub holders: Vec<Xid>,
}

impl Waits {
    /// Waits as they stand.
    #[must_use]
    pub fn rows(&self) -> Vec<WaitRow> {
        let edges = self.edges.lock();
        edges.values().map(|e| WaitRow { waiter: e.own, holders: e.on.clone() }).collect()
    }

    /// The transactions that `waiter` waits for, by Xid (for deadlock search across instances).
    #[must_use]
    pub fn holders_of(&self, waiter: Xid) -> Vec<Xid> {
        let edges = self.edges.lock();
        edges.values().filter(|e| e.own == Some(waiter)).flat_map(|e| e.on.clone()).collect()
    }

    /// Marks the waiting transaction `xid` as a deadlock's victim and wakes it; false if it does
    /// not wait here.
    pub fn kill_victim(&self, xid: Xid) -> bool {
        let edges = self.edges.lock();
        let Some(edge) = edges.values().find(|e| e.own == Some(xid)) else { return false };
        edge.victim.store(true, Ordering::SeqCst);
        edge.wake.notify_waiters();
        true
    }

    /// All waits as (waiter, holder) pairs of Xids, for the search across instances.
    #[must_use]
    pub fn pairs(&self) -> Vec<(Xid, Xid)> {
        let edges = self.edges.lock();
        let with_xid = edges.values().filter_map(|e| e.own.map(|x| (x, e)));
        with_xid.flat_map(|(x, e)| e.on.iter().map(move |h| (x, *h))).collect()
    }

    /// Looks for a cycle through `start` and marks its youngest member.
    fn find_cycle(&self, start: u64) -> bool {
        let edges = self.edges.lock();
        let running = self.running.lock();
        let next = |id: u64| -> Vec<u64> {
            edges.get(&id).map_or_else(Vec::new, |e| {
                let by_xid = e.on.iter().filter_map(|x| running.get(x).copied());
                by_xid.chain(e.on_local.iter().copied()).collect()
            })
        };
        let mut path = vec![start];
        let mut seen = std::collections::BTreeSet::new();
        if !walk(start, start, &next, &mut path, &mut seen) {
            return false;
        }
        let victim = path.iter().max().copied().expect("the path has its start");
        if let Some(edge) = edges.get(&victim) {
            edge.victim.store(true, Ordering::SeqCst);
            edge.wake.notify_waiters();
        }
        true
    }
}

fn walk(
    at: u64,
    start: u64,
    next: &impl Fn(u64) -> Vec<u64>,
    path: &mut Vec<u64>,
    seen: &mut std::collections::BTreeSet<u64>,
) -> bool {
    for n in next(at) {
        if n == start {
            return true;
        }
        if seen.insert(n) {
            path.push(n);
            if walk(n, start, next, path, seen) {
                return true;
            }
            path.pop();
        }
    }
    false
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
        _target: WaitTarget,
        wait: LockWait,
    ) -> Result<()> {
        let p2 = (u64::from(xid.usn) << 16) | u64::from(xid.slot);
        let p = [observe::enq_p1(*b"TX", 6), p2, u64::from(xid.seq)];
        self.wait_any(ctx, txn, &[xid], &[], WaitEvent::EnqTxRowLock, p, wait).await
    }

    /// Waits until one of the transactions that fill a block's ITL has ended.
    ///
    /// # Errors
    /// As [`Core::wait_row`].
    pub async fn wait_itl(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        xids: &[Xid],
        wait: LockWait,
    ) -> Result<()> {
        if xids.is_empty() {
            let why = "the block has no room for another transaction entry".to_owned();
            return Err(Error::Serialization(why));
        }
        let p = [observe::enq_p1(*b"TX", 4), 0, 0];
        self.wait_any(ctx, txn, xids, &[], WaitEvent::EnqTxAllocateItl, p, wait).await
    }

    #[allow(clippy::too_many_arguments)]
    pub(super) async fn wait_any(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        xids: &[Xid],
        local: &[(u64, Arc<Notify>)],
        event: WaitEvent,
        p: [u64; 3],
        wait: LockWait,
    ) -> Result<()> {
        if matches!(wait, LockWait::NoWait | LockWait::SkipLocked) {
            return Err(Error::RowLocked);
        }
        ctx.bump(Stat::EnqueueWaits, 1);
        let own = txn.xid();
        let victim = Arc::new(AtomicBool::new(false));
        let wake = Arc::new(Notify::new());
        let killed = wake.notified();
        let mut killed = std::pin::pin!(killed);
        killed.as_mut().enable();
        self.waits.edges.lock().insert(
            txn.local_id,
            Edge {
                on: xids.to_vec(),
                on_local: local.iter().map(|l| l.0).collect(),
                victim: victim.clone(),
                wake: wake.clone(),
                own,
            },
        );
        if let Some(xid) = own {
            self.waits.running.lock().insert(xid, txn.local_id);
        }
        let _guard = EdgeGuard { waits: &self.waits, id: txn.local_id, own };
        let began = self.env.now();
        let ended = self.any_ended(ctx, xids, local);
        let mut ended = std::pin::pin!(ended);
        loop {
            self.waits.find_cycle(txn.local_id);
            if victim.load(Ordering::SeqCst) {
                ctx.bump(Stat::EnqueueDeadlocks, 1);
                return Err(Error::Deadlock);
            }
            let mut slice = Duration::from_millis(200);
            if let LockWait::Timeout(us) = wait {
                let left = us.saturating_sub(self.env.now().since(began));
                if left == 0 {
                    ctx.bump(Stat::EnqueueTimeouts, 1);
                    return Err(Error::LockTimeout);
                }
                slice = slice.min(Duration::from_micros(left));
            }
            let either = futures::future::select(ended.as_mut(), killed.as_mut());
            if let Ok(futures::future::Either::Left((result, _))) =
                ctx.wait_for_or_cancel(event, p, slice, either).await?
            {
                return result;
            }
        }
    }

    /// Returns when one of the transactions may have ended, or one of the notifiers is woken.
    async fn any_ended(&self, ctx: &Ctx, xids: &[Xid], local: &[(u64, Arc<Notify>)]) -> Result<()> {
        let mut all: Vec<env::BoxFuture<'_, Result<()>>> = Vec::new();
        for &xid in xids {
            all.push(Box::pin(self.await_end(ctx, xid)));
        }
        for (_, notify) in local {
            let notify = notify.clone();
            all.push(Box::pin(async move {
                notify.notified().await;
                Ok(())
            }));
        }
        if all.is_empty() {
            return Ok(());
        }
        futures::future::select_all(all).await.0
    }
}
