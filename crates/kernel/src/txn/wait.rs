//! Waiting for rows, and deadlocks on one instance.
//!
//! Nobody keeps a lock list: a waiter waits for the *transaction* that holds the row. Who waits for
//! whom is a small graph of local transaction numbers; a deadlock is looked for when a wait begins and
//! again while it lasts. The victim is the youngest transaction of the cycle, whoever finds it.

use std::collections::{BTreeMap, BTreeSet};
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
    /// Transactions of which any one ending is enough (the ITL of a block is full of them).
    on: Vec<Xid>,
    /// Transactions (local numbers) that must all get out of the way (a table lock).
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

    /// Looks for a deadlock that `start` is in or waits for, and marks the youngest of its members.
    /// A wait for any of several is part of one only if none of them can go on (hazard M5).
    fn find_deadlock(&self, start: u64) -> bool {
        let edges = self.edges.lock();
        let running = self.running.lock();
        let stuck = stuck(&edges, &running);
        if !stuck.contains(&start) {
            return false;
        }
        // Every stuck transaction waits for a stuck one: the way ends in a cycle.
        let mut path = vec![start];
        let members = loop {
            let at = path.last().expect("the path has its start");
            let on = edges[at].targets(&running).find(|t| stuck.contains(t));
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

impl Edge {
    /// The waiting transactions it waits for. Those that run are not known here.
    fn targets(&self, running: &BTreeMap<Xid, u64>) -> impl Iterator<Item = u64> {
        let by_xid = self.on.iter().filter_map(|x| running.get(x).copied());
        by_xid.chain(self.on_local.iter().copied())
    }

    /// Whether it cannot end while the transactions of `stuck` do not go on.
    fn is_stuck(&self, running: &BTreeMap<Xid, u64>, stuck: &BTreeSet<u64>) -> bool {
        let held = |x: &Xid| running.get(x).is_some_and(|id| stuck.contains(id));
        let by_xid = !self.on.is_empty() && self.on.iter().all(held);
        by_xid || self.on_local.iter().any(|id| stuck.contains(id))
    }
}

/// The waiting transactions none of which can go on before another of them does.
fn stuck(edges: &BTreeMap<u64, Edge>, running: &BTreeMap<Xid, u64>) -> BTreeSet<u64> {
    let mut stuck: BTreeSet<u64> = edges.keys().copied().collect();
    loop {
        let before = stuck.len();
        let all = stuck.clone();
        stuck.retain(|id| edges[id].is_stuck(running, &all));
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
            self.waits.find_deadlock(txn.local_id);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn xid(n: u16) -> Xid {
        Xid { usn: 1, slot: n, seq: 1 }
    }

    /// Transactions `who` with the transactions each waits for: any of the first, all of the second.
    fn waits(of: &[(u16, &[u16], &[u16])]) -> Waits {
        let waits = Waits::default();
        for &(id, any, all) in of {
            waits.running.lock().insert(xid(id), u64::from(id));
            let edge = Edge {
                on: any.iter().map(|&n| xid(n)).collect(),
                on_local: all.iter().map(|&n| u64::from(n)).collect(),
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

    #[test]
    fn a_table_lock_needs_all_of_its_holders() {
        let waits = waits(&[(1, &[], &[2, 7]), (2, &[1], &[])]);
        assert!(waits.find_deadlock(2));
        assert_eq!(victims(&waits), [2]);
    }
}
