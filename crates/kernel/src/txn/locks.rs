//! Table locks (TM), as this instance's transactions hold them.
//!
//! Modes and compatibility are the field's. Locks are kept to the end of the transaction. In a
//! cluster the instance itself holds the enqueue in a mode that covers its transactions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::ObjId;
use observe::{Ctx, Stat, WaitEvent};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::core::Core;
use super::transaction::Transaction;
use super::wait::LockWait;
use crate::error::Result;

/// Mode of a table lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(u8)]
pub enum TmMode {
    /// Sub-share (row share).
    SS = 2,
    /// Sub-exclusive (row exclusive): DML.
    SX = 3,
    S = 4,
    SSX = 5,
    X = 6,
}

impl TmMode {
    #[must_use]
    pub fn compatible(self, other: TmMode) -> bool {
        use TmMode::{S, SS, SSX, SX, X};
        match (self.min(other), self.max(other)) {
            (_, X) => false,
            (SS, _) | (SX, SX) | (S, S) => true,
            (SX, _) | (S, _) | (SSX, _) | (X, _) => false,
        }
    }

    /// The weakest mode that gives both rights.
    #[must_use]
    pub fn join(self, other: TmMode) -> TmMode {
        match (self.min(other), self.max(other)) {
            (TmMode::SX, TmMode::S) => TmMode::SSX,
            (_, max) => max,
        }
    }
}

#[derive(Default)]
struct Table {
    /// Transaction (local number) and mode.
    holders: Vec<(u64, TmMode)>,
    /// Waiters in order of arrival.
    queue: Vec<(u64, TmMode)>,
    changed: Arc<Notify>,
}

/// The table locks of an instance.
#[derive(Default)]
pub struct TableLocks {
    tables: Mutex<BTreeMap<ObjId, Table>>,
    held: Mutex<BTreeMap<u64, Vec<ObjId>>>,
}

/// A row of `v$lock` for TM.
#[derive(Clone, Copy, Debug)]
pub struct TmRow {
    pub obj: ObjId,
    pub transaction: u64,
    pub held: Option<TmMode>,
    pub wanted: Option<TmMode>,
}

enum Try {
    Granted,
    Wait(Vec<u64>, Arc<Notify>),
}

impl TableLocks {
    fn try_lock(&self, id: u64, obj: ObjId, mode: TmMode) -> Try {
        let mut tables = self.tables.lock();
        let table = tables.entry(obj).or_default();
        let own = table.holders.iter().position(|h| h.0 == id);
        let want = own.map_or(mode, |i| table.holders[i].1.join(mode));
        if own.is_some_and(|i| table.holders[i].1 == want) {
            return Try::Granted;
        }
        let mut in_way: Vec<u64> = table
            .holders
            .iter()
            .filter(|h| h.0 != id && !h.1.compatible(want))
            .map(|h| h.0)
            .collect();
        // First come, first served: but a conversion does not queue behind newcomers.
        if own.is_none() {
            let ahead = table.queue.iter().take_while(|q| q.0 != id);
            in_way.extend(ahead.filter(|q| !q.1.compatible(want)).map(|q| q.0));
        }
        if in_way.is_empty() {
            table.queue.retain(|q| q.0 != id);
            match own {
                Some(i) => table.holders[i].1 = want,
                None => {
                    table.holders.push((id, want));
                    self.held.lock().entry(id).or_default().push(obj);
                }
            }
            return Try::Granted;
        }
        if !table.queue.iter().any(|q| q.0 == id) {
            table.queue.push((id, want));
        }
        Try::Wait(in_way, table.changed.clone())
    }

    fn leave_queue(&self, id: u64, obj: ObjId) {
        let mut tables = self.tables.lock();
        if let Some(table) = tables.get_mut(&obj) {
            table.queue.retain(|q| q.0 != id);
            table.changed.notify_waiters();
        }
    }

    /// Releases all locks of the transaction.
    pub(super) fn release_all(&self, txn: &Transaction) {
        if txn.has_table_locks.swap(false, Ordering::SeqCst) {
            self.release_taken(self.take_all(txn));
        }
    }

    /// The transaction's locks, to be released later by `release_taken`.
    pub(super) fn take_all(&self, txn: &Transaction) -> (u64, Vec<ObjId>) {
        let objs = self.held.lock().remove(&txn.local_id).unwrap_or_default();
        (txn.local_id, objs)
    }

    pub(super) fn release_taken(&self, (id, objs): (u64, Vec<ObjId>)) {
        let mut tables = self.tables.lock();
        for obj in objs {
            if let Some(table) = tables.get_mut(&obj) {
                table.holders.retain(|h| h.0 != id);
                table.changed.notify_waiters();
                if table.holders.is_empty() && table.queue.is_empty() {
                    tables.remove(&obj);
                }
            }
        }
    }

    /// Locks held and waited for.
    #[must_use]
    pub fn rows(&self) -> Vec<TmRow> {
        let tables = self.tables.lock();
        let mut out = Vec::new();
        for (&obj, table) in tables.iter() {
            let held = table.holders.iter();
            out.extend(held.map(|&(transaction, m)| TmRow {
                obj,
                transaction,
                held: Some(m),
                wanted: None,
            }));
            let wanted = table.queue.iter();
            out.extend(wanted.map(|&(transaction, m)| TmRow {
                obj,
                transaction,
                held: None,
                wanted: Some(m),
            }));
        }
        out
    }
}

struct QueueGuard<'a> {
    locks: &'a TableLocks,
    id: u64,
    obj: ObjId,
    armed: bool,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        if self.armed {
            self.locks.leave_queue(self.id, self.obj);
        }
    }
}

impl Core {
    /// Locks table `obj` for the transaction, to its end. `enq: TM - contention`.
    ///
    /// # Errors
    /// As [`Core::wait_row`].
    pub async fn lock_table(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        obj: ObjId,
        mode: TmMode,
        wait: LockWait,
    ) -> Result<()> {
        txn.has_table_locks.store(true, Ordering::SeqCst);
        let id = txn.local_id;
        ctx.bump(Stat::EnqueueRequests, 1);
        let mut guard = QueueGuard { locks: &self.table_locks, id, obj, armed: false };
        loop {
            match self.table_locks.try_lock(id, obj, mode) {
                Try::Granted => {
                    guard.armed = false;
                    return Ok(());
                }
                Try::Wait(holders, changed) => {
                    guard.armed = true;
                    let local: Vec<_> = holders.into_iter().map(|h| (h, changed.clone())).collect();
                    let p = [observe::enq_p1(*b"TM", mode as u8), u64::from(obj.0), 0];
                    // A release between the try and the wait is found by the wait's own slices.
                    let slice = match wait {
                        LockWait::Wait => LockWait::Timeout(50_000),
                        other => other,
                    };
                    match self.wait_any(ctx, txn, &[], &local, WaitEvent::EnqTm, p, slice).await {
                        Err(crate::error::Error::LockTimeout) if wait == LockWait::Wait => {}
                        other => other?,
                    }
                }
            }
        }
    }
}
