//! Table locks (TM) and locks of the users' own (UL), as this instance's transactions and sessions
//! hold them.
//!
//! Modes and compatibility are the field's. Locks are kept to the end of the transaction. In a
//! cluster the instance itself holds the table's enqueue in a mode that covers its transactions
//! ([`TableEnqueues`]) and keeps it after they have ended, until another instance asks for it: a
//! lock within that mode costs no message. Promises that no lock is given beyond that mode, and
//! that the mode is given up only when no transaction here needs it.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, Weak};
use std::task::Poll;
use std::time::Duration;

use block::ObjId;
use env::latch::{Latch, LatchList};
use env::{BoxFuture, Micros};
use global::msg::{GesMode, Resource, ValueBlock};
use observe::{AskedEnqueue, Ctx, HeldEnqueue, WaitEvent};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::core::Core;
use super::transaction::Transaction;
use super::wait::{LockWait, Patience, Shown, Targets};
use crate::error::{Error, Result};

/// How long who does not want to wait lets another transaction of his instance ask the cluster.
const ANSWER_TIME_US: u64 = 100_000;

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
        self.ges().compatible(other.ges())
    }

    /// The mode that an enqueue's is; `None`: it gives no right.
    fn of_ges(mode: GesMode) -> Option<TmMode> {
        let all = [TmMode::SS, TmMode::SX, TmMode::S, TmMode::SSX, TmMode::X];
        all.into_iter().find(|own| own.ges() == mode)
    }

    /// The weakest mode that gives both rights.
    #[must_use]
    pub fn join(self, other: TmMode) -> TmMode {
        match (self.min(other), self.max(other)) {
            (TmMode::SX, TmMode::S) => TmMode::SSX,
            (_, max) => max,
        }
    }

    /// The same mode as the cluster's enqueues have it.
    #[must_use]
    pub fn ges(self) -> GesMode {
        match self {
            TmMode::SS => GesMode::SS,
            TmMode::SX => GesMode::SX,
            TmMode::S => GesMode::S,
            TmMode::SSX => GesMode::SSX,
            TmMode::X => GesMode::X,
        }
    }
}

/// The cluster's part of table locks; set once by `gcs`.
pub trait TableEnqueues: Send + Sync {
    /// Asks for the table's enqueue in `mode` for this instance. [`TableLocks::covered`] has been
    /// called when it returns; dropped, it asks no more. One call at a time for a table.
    fn cover(&self, resource: Resource, mode: GesMode, no_wait: bool) -> BoxFuture<'_, Result<()>>;
    /// Locks that stood in another instance's way may have gone: [`TableLocks::give_way`] again.
    fn released(&self, resource: Resource);
    /// The value that travels with an enqueue that this instance has.
    fn value(&self, resource: Resource) -> Option<ValueBlock>;
    /// Sets it: value and limit. The instance has the enqueue in SSX or X.
    fn set_value(&self, resource: Resource, value: u64, limit: u64) -> Result<()>;
}

/// The enqueue of a table.
#[must_use]
pub fn table_resource(obj: ObjId) -> Resource {
    Resource::new(*b"TM", obj.0, 0)
}

/// A lock that means what its users agree on, named by one number (`UL`) or two (`UP`).
#[must_use]
pub fn user_resource(two: bool, id1: u32, id2: u32) -> Resource {
    Resource::new(if two { *b"UP" } else { *b"UL" }, id1, id2)
}

/// The turn of those who notify: they commit one after the other.
#[must_use]
pub fn notification_resource() -> Resource {
    Resource::new(*b"UN", 0, 0)
}

/// The turn of those who gather the statistics of a table.
#[must_use]
pub fn analyze_resource(obj: ObjId) -> Resource {
    Resource::new(*b"AN", obj.0, 0)
}

/// The turn of the instance that takes values of a sequence: from the dictionary (`SQ`), or those
/// that all instances have in common (`SV`).
#[must_use]
pub fn sequence_resource(obj: ObjId, common: bool) -> Resource {
    Resource::new(if common { *b"SV" } else { *b"SQ" }, obj.0, 0)
}

/// Whether an enqueue is the turn at a sequence.
#[must_use]
pub fn is_of_sequence(resource: Resource) -> bool {
    matches!(&resource.kind, b"SQ" | b"SV")
}

/// Whether an enqueue is kept by an instance that does not use it, until another asks: so are those
/// of the dictionary's objects, not those of names that come and go.
fn is_kept(resource: Resource) -> bool {
    resource.kind == *b"TM" || is_of_sequence(resource)
}

/// Whether an enqueue is one of those that an instance holds for its transactions and sessions.
#[must_use]
pub fn is_shared_by_instance(resource: Resource) -> bool {
    matches!(&resource.kind, b"TM" | b"UL" | b"UP" | b"UN" | b"AN" | b"SQ" | b"SV")
}

/// Who asks for a lock: a transaction, or a session under a number of its own.
#[derive(Clone, Copy, Debug)]
pub struct Holder {
    pub id: u64,
    /// The other one of the session's two numbers, with which it never conflicts.
    pub same: Option<u64>,
}

/// A lock that is waited for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wish {
    pub resource: Resource,
    pub who: Holder,
    pub mode: TmMode,
}

impl Holder {
    fn is(self, id: u64) -> bool {
        self.id == id || self.same == Some(id)
    }
}

/// Event and parameters of a wait for a lock.
fn waited_for(resource: Resource, mode: u8) -> (WaitEvent, [u64; 3]) {
    let event = match &resource.kind {
        b"TM" => WaitEvent::EnqTm,
        b"SQ" => WaitEvent::EnqSq,
        b"SV" => WaitEvent::DfsLockHandle,
        _ => WaitEvent::EnqUl,
    };
    let p1 = observe::enq_p1(resource.kind, mode);
    (event, [p1, u64::from(resource.id1), u64::from(resource.id2)])
}

#[derive(Default)]
struct Table {
    /// Transaction (local number) and mode.
    holders: Vec<(u64, TmMode)>,
    /// Waiters in order of arrival.
    queue: Vec<(u64, TmMode)>,
    /// The mode of the enqueue that this instance has for its transactions.
    cover: GesMode,
    /// Another instance waits for this mode: newcomers that exclude it wait for that.
    revoking: Option<GesMode>,
    /// The transaction that asks the cluster for more, for what, and whether it has been granted:
    /// then it is kept for the asker until that has looked, or instances would play ping-pong.
    asker: Option<(u64, GesMode, bool)>,
    changed: Arc<Notify>,
}

impl Table {
    fn is_unused(&self) -> bool {
        self.holders.is_empty()
            && self.queue.is_empty()
            && self.asker.is_none()
            && self.cover == GesMode::Null
    }

    /// The mode its transactions need.
    fn needed(&self) -> GesMode {
        let kept = self.asker.filter(|a| a.2).map_or(GesMode::Null, |a| a.1);
        self.holders.iter().fold(kept, |mode, h| mode.join(h.1.ges()))
    }

    /// Whether another instance waits for what nobody here needs any more.
    fn owes(&self) -> bool {
        self.revoking.is_some_and(|wanted| self.needed().compatible(wanted))
    }

    /// The enqueue of a lock of the users' own is given back when nobody here has or wants it:
    /// their names are without number. It goes as if another instance had asked for it.
    fn give_back(&mut self, resource: Resource) {
        let idle = self.holders.is_empty() && self.queue.is_empty() && self.asker.is_none();
        if idle && !is_kept(resource) && self.cover != GesMode::Null {
            self.revoking.get_or_insert(GesMode::X);
        }
    }

    /// The local transactions that must go before `id` gets `want`; `converts`: it has a lower
    /// mode.
    fn in_way(&self, who: Holder, converts: bool, want: TmMode) -> Vec<u64> {
        let id = who.id;
        let others = self.holders.iter().filter(|h| !who.is(h.0) && !h.1.compatible(want));
        let mut in_way: Vec<u64> = others.map(|h| h.0).collect();
        // First come, first served: but a conversion does not queue behind newcomers.
        if converts {
            return in_way;
        }
        let ahead = self.queue.iter().take_while(|q| q.0 != id);
        in_way.extend(ahead.filter(|q| !q.1.compatible(want)).map(|q| q.0));
        let asker = self.asker.filter(|a| a.0 != id && !a.1.compatible(want.ges()));
        in_way.extend(asker.map(|a| a.0));
        if let Some(wanted) = self.revoking.filter(|r| !r.compatible(want.ges())) {
            in_way.extend(self.against(wanted).filter(|id| !who.is(*id)));
        }
        in_way
    }

    fn against(&self, wanted: GesMode) -> impl Iterator<Item = u64> {
        self.holders.iter().filter(move |h| !h.1.ges().compatible(wanted)).map(|h| h.0)
    }
}

/// A request for a lock. It is none if the lock is found to be held in that mode already.
struct Request<'a> {
    ctx: &'a Ctx,
    /// What it would wait for; `None`: it is part of another, which is counted.
    event: Option<WaitEvent>,
    asked: Option<AskedEnqueue<'a>>,
}

impl Request<'_> {
    /// Counted the first time; `converts`: a lower mode is held.
    fn made(&mut self, converts: bool) {
        let (ctx, event) = (self.ctx, self.event);
        self.asked.get_or_insert_with(|| match event {
            Some(event) if converts => ctx.ask_conversion(event),
            Some(event) => ctx.ask_enqueue(event),
            None => AskedEnqueue::uncounted(),
        });
    }

    fn granted(&mut self) -> HeldEnqueue {
        self.asked.take().map_or_else(HeldEnqueue::uncounted, AskedEnqueue::granted)
    }
}

/// Locks that one transaction or session holds, each with what it is counted as while it does.
/// They are dropped with no latch held.
type HeldLocks = Vec<(Resource, HeldEnqueue)>;

/// The table locks of an instance.
pub struct TableLocks {
    tables: Latch<BTreeMap<Resource, Table>>,
    held: Mutex<BTreeMap<u64, HeldLocks>>,
    enqueues: OnceLock<Weak<dyn TableEnqueues>>,
}

impl Default for TableLocks {
    fn default() -> TableLocks {
        TableLocks {
            tables: Latch::new("enqueue hash chains", BTreeMap::new()),
            held: Mutex::default(),
            enqueues: OnceLock::new(),
        }
    }
}

/// A row of `v$lock` for TM.
#[derive(Clone, Copy, Debug)]
pub struct TmRow {
    pub resource: Resource,
    pub transaction: u64,
    pub held: Option<TmMode>,
    pub wanted: Option<TmMode>,
}

enum Try {
    Granted,
    /// Local transactions are in the way.
    Wait(Arc<Notify>),
    /// The instance needs the enqueue in this mode first, and the caller is to ask for it.
    Cover(GesMode),
    /// Another transaction is asking.
    Behind(Arc<Notify>),
}

impl TableLocks {
    /// Tells of its latch.
    pub(crate) fn latches(&self, list: &mut LatchList) {
        list.add(&self.tables);
    }

    /// The cluster's, if the instance's locks stand under them.
    fn enqueues(&self) -> Option<Arc<dyn TableEnqueues>> {
        self.enqueues.get()?.upgrade()
    }

    /// The cluster's part, for the values that travel with enqueues; `None`: there is no cluster.
    pub(crate) fn values(&self) -> Option<Arc<dyn TableEnqueues>> {
        self.enqueues()
    }

    /// From now on the instance's locks stand under the cluster's.
    pub fn set_enqueues(&self, enqueues: &Arc<impl TableEnqueues + 'static>) {
        let enqueues = Arc::downgrade(enqueues);
        assert!(self.enqueues.set(enqueues).is_ok(), "the table enqueues are set once");
    }

    fn try_lock(&self, request: &mut Request<'_>, who: Holder, obj: Resource, mode: TmMode) -> Try {
        let (mut tables, id) = (self.tables.lock(), who.id);
        let table = tables.entry(obj).or_default();
        let own = table.holders.iter().position(|h| h.0 == id);
        let want = own.map_or(mode, |i| table.holders[i].1.join(mode));
        if own.is_some_and(|i| table.holders[i].1 == want) {
            return Try::Granted;
        }
        request.made(own.is_some());
        let in_way = table.in_way(who, own.is_some(), want);
        if in_way.is_empty() && self.enqueues.get().is_some() {
            // The cluster is asked last: what it gives is used at once, or instances would take it
            // from each other without end.
            if !table.cover.covers(want.ges()) {
                if table.asker.is_some_and(|a| a.0 != id) {
                    return Try::Behind(table.changed.clone());
                }
                let all = table.cover.join(want.ges());
                table.asker = Some((id, all, false));
                return Try::Cover(all);
            }
        }
        if table.asker.is_some_and(|a| a.0 == id) {
            // The answer has come: others may ask.
            table.asker = None;
            table.changed.notify_waiters();
        }
        if in_way.is_empty() {
            table.queue.retain(|q| q.0 != id);
            let held = request.granted();
            match own {
                Some(i) => table.holders[i].1 = want,
                None => {
                    table.holders.push((id, want));
                    self.held.lock().entry(id).or_default().push((obj, held));
                }
            }
            return Try::Granted;
        }
        if !table.queue.iter().any(|q| q.0 == id) {
            table.queue.push((id, want));
        }
        Try::Wait(table.changed.clone())
    }

    /// Woken by every change of the table's locks.
    fn changed(&self, obj: Resource) -> Arc<Notify> {
        self.tables.lock().entry(obj).or_default().changed.clone()
    }

    /// The transaction waits no more, and asks no more.
    fn leave(&self, id: u64, obj: Resource) {
        let mut tables = self.tables.lock();
        let Some(table) = tables.get_mut(&obj) else { return };
        let before = (table.queue.len(), table.asker);
        table.queue.retain(|q| q.0 != id);
        table.asker = table.asker.filter(|a| a.0 != id);
        if before != (table.queue.len(), table.asker) {
            table.changed.notify_waiters();
        }
        table.give_back(obj);
        if table.is_unused() {
            tables.remove(&obj);
        }
        drop(tables);
        self.pay(obj);
    }

    /// Lets another instance have what it waits for, if nobody here needs it any more. Not under
    /// the
    /// lock: the enqueue service calls back.
    fn pay(&self, obj: Resource) {
        let owes = self.tables.lock().get(&obj).is_some_and(Table::owes);
        if let Some(enqueues) = self.enqueues().filter(|_| owes) {
            enqueues.released(obj);
        }
    }

    /// Releases all locks of the transaction.
    pub(super) fn release_all(&self, txn: &Transaction) {
        if txn.has_table_locks.swap(false, Ordering::SeqCst) {
            self.release_taken(self.take_all(txn));
        }
    }

    /// The transaction's locks, to be released later by `release_taken`.
    pub(super) fn take_all(&self, txn: &Transaction) -> (u64, HeldLocks) {
        let objs = self.held.lock().remove(&txn.local_id).unwrap_or_default();
        (txn.local_id, objs)
    }

    pub(super) fn release_taken(&self, (id, locks): (u64, HeldLocks)) {
        for (obj, _held) in locks {
            let mut tables = self.tables.lock();
            let Some(table) = tables.get_mut(&obj) else { continue };
            table.holders.retain(|h| h.0 != id);
            table.changed.notify_waiters();
            table.give_back(obj);
            let owes = table.owes();
            if table.is_unused() {
                tables.remove(&obj);
            }
            drop(tables);
            if owes {
                self.pay(obj);
            }
        }
    }

    /// Locks of a session that are over: the mode that it keeps, if it keeps the lock at all.
    pub fn lower(&self, id: u64, resource: Resource, keep: Option<TmMode>) {
        let mut tables = self.tables.lock();
        let Some(table) = tables.get_mut(&resource) else { return };
        match keep {
            Some(mode) => {
                table.holders.iter_mut().filter(|h| h.0 == id).for_each(|h| h.1 = mode);
                table.changed.notify_waiters();
                drop(tables);
                self.pay(resource);
            }
            None => {
                drop(tables);
                let taken = self.held.lock().get_mut(&id).and_then(|held| {
                    let at = held.iter().position(|known| known.0 == resource)?;
                    Some(held.swap_remove(at))
                });
                // What no list has is let go all the same.
                let taken = taken.unwrap_or_else(|| (resource, HeldEnqueue::uncounted()));
                self.release_taken((id, vec![taken]));
            }
        }
    }

    /// All locks of a session end.
    pub fn release_holder(&self, id: u64) {
        let all = self.held.lock().remove(&id).unwrap_or_default();
        self.release_taken((id, all));
    }

    /// The instance has the table's enqueue in `mode` for its transactions now.
    pub fn covered(&self, obj: Resource, mode: GesMode) {
        let mut tables = self.tables.lock();
        let table = tables.entry(obj).or_default();
        table.cover = table.cover.join(mode);
        if let Some(asker) = table.asker.as_mut().filter(|a| mode.covers(a.1)) {
            asker.2 = true;
        }
        table.changed.notify_waiters();
    }

    /// Another instance wants `wanted`. The mode to lower the enqueue to, and lowered here, if the
    /// transactions allow it; else `None`, and (unless the other does not wait) newcomers queue
    /// behind it until [`TableEnqueues::released`].
    pub fn give_way(&self, obj: Resource, wanted: GesMode, no_wait: bool) -> Option<GesMode> {
        let mut tables = self.tables.lock();
        let Some(table) = tables.get_mut(&obj) else { return Some(GesMode::Null) };
        let needed = table.needed();
        if !needed.compatible(wanted) {
            if !no_wait {
                table.revoking = Some(wanted);
            }
            return None;
        }
        table.revoking = None;
        if !table.cover.compatible(wanted) {
            table.cover = needed;
        }
        let cover = table.cover;
        table.changed.notify_waiters();
        if table.is_unused() {
            tables.remove(&obj);
        }
        Some(cover)
    }

    /// Another instance goes on waiting for `wanted`.
    pub fn owe(&self, obj: Resource, wanted: GesMode) {
        if let Some(table) = self.tables.lock().get_mut(&obj) {
            table.revoking = Some(wanted);
        }
    }

    /// The wish of another instance that this one has yet to give way to.
    #[must_use]
    pub fn revoking(&self, obj: Resource) -> Option<GesMode> {
        self.tables.lock().get(&obj).and_then(|t| t.revoking)
    }

    /// A new epoch: what others waited for is void, and asked again.
    pub fn forget_revokes(&self) {
        for table in self.tables.lock().values_mut() {
            table.revoking = None;
            table.changed.notify_waiters();
        }
    }

    /// Local numbers of the transactions whose locks exclude `wanted`.
    #[must_use]
    pub fn holding_against(&self, obj: Resource, wanted: GesMode) -> Vec<u64> {
        let tables = self.tables.lock();
        tables.get(&obj).map(|t| t.against(wanted).collect()).unwrap_or_default()
    }

    /// Who must go here before a wish is granted, as things stand.
    pub(super) fn in_way(&self, wish: &Wish) -> Vec<u64> {
        let tables = self.tables.lock();
        let Some(table) = tables.get(&wish.resource) else { return Vec::new() };
        let own = table.holders.iter().find(|h| h.0 == wish.who.id);
        let want = own.map_or(wish.mode, |own| own.1.join(wish.mode));
        table.in_way(wish.who, own.is_some(), want)
    }

    #[cfg(test)]
    pub(super) fn give(&self, resource: Resource, holders: &[u64]) {
        let holders = holders.iter().map(|id| (*id, TmMode::X)).collect();
        self.tables.lock().insert(resource, Table { holders, ..Table::default() });
    }

    /// The transaction that asks the cluster for more of the table's enqueue.
    #[must_use]
    pub fn asking(&self, obj: Resource) -> Option<u64> {
        self.tables.lock().get(&obj)?.asker.map(|a| a.0)
    }

    /// The tables' locks in words, for who looks into a hang.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let tables = self.tables.lock();
        let line = |(obj, t): (&Resource, &Table)| {
            format!(
                "{obj}: cover {}, holders {:?}, queue {:?}, asker {:?}, revoking {:?}",
                t.cover, t.holders, t.queue, t.asker, t.revoking
            )
        };
        tables.iter().map(line).collect()
    }

    /// Locks held and waited for.
    #[must_use]
    pub fn rows(&self) -> Vec<TmRow> {
        let tables = self.tables.lock();
        let mut out = Vec::new();
        for (&obj, table) in tables.iter() {
            let held = table.holders.iter();
            out.extend(held.map(|&(transaction, m)| TmRow {
                resource: obj,
                transaction,
                held: Some(m),
                wanted: None,
            }));
            let wanted = table.queue.iter();
            out.extend(wanted.map(|&(transaction, m)| TmRow {
                resource: obj,
                transaction,
                held: None,
                wanted: Some(m),
            }));
            // Who asks the cluster waits for other instances.
            let asks = table.asker.filter(|a| table.queue.iter().all(|q| q.0 != a.0));
            out.extend(asks.and_then(|(transaction, mode, _)| {
                Some(TmRow {
                    resource: obj,
                    transaction,
                    held: None,
                    wanted: Some(TmMode::of_ges(mode)?),
                })
            }));
        }
        out
    }
}

/// Leaves the queue, and asks no more, when the wait is over.
struct QueueGuard<'a> {
    locks: &'a TableLocks,
    id: u64,
    obj: Resource,
}

impl Drop for QueueGuard<'_> {
    fn drop(&mut self) {
        self.locks.leave(self.id, self.obj);
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
        let who = Holder { id: txn.local_id, same: None };
        self.lock_resource(ctx, txn, who, table_resource(obj), mode, wait).await
    }

    /// Locks a resource for the transaction, to its end, or for its session (`who`), until that
    /// lets it go. `enq: TM - contention` for a table, `enq: UL - contention` for a lock of the
    /// user's.
    ///
    /// # Errors
    /// As [`Core::wait_row`].
    pub async fn lock_resource(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        who: Holder,
        obj: Resource,
        mode: TmMode,
        wait: LockWait,
    ) -> Result<()> {
        if who.id == txn.local_id {
            txn.has_table_locks.store(true, Ordering::SeqCst);
        }
        // Who takes values has asked for the right to them once, over all instances.
        let event = (!is_of_sequence(obj)).then(|| waited_for(obj, mode as u8).0);
        let mut request = Request { ctx, event, asked: None };
        let locks = &self.table_locks;
        if matches!(locks.try_lock(&mut request, who, obj, mode), Try::Granted) {
            return Ok(());
        }
        let table = if obj.kind == *b"TM" { obj.id1 } else { 0 };
        let _shown = Shown::of_table(ctx, ObjId(table));
        // It also leaves what the first try has entered.
        let _guard = QueueGuard { locks, id: who.id, obj };
        let mut patience = self.patience(ctx, wait);
        let mut answered_by = None;
        loop {
            // Listening before looking: nothing that changes in between is missed.
            let notify = locks.changed(obj);
            let changed = notify.notified();
            let mut changed = std::pin::pin!(changed);
            changed.as_mut().enable();
            match locks.try_lock(&mut request, who, obj, mode) {
                Try::Granted => return Ok(()),
                Try::Cover(all) => self.cover_table(ctx, txn, obj, all, &mut patience).await?,
                Try::Wait(other) | Try::Behind(other) if !Arc::ptr_eq(&other, &notify) => {}
                Try::Wait(_) if patience.refuses() => return Err(Error::RowLocked),
                // What the cluster says to another transaction of this instance is no lock in the
                // way: but that one may wait for it for as long as it likes.
                Try::Behind(_) if patience.refuses() => {
                    let now = self.env.now();
                    let until = *answered_by.get_or_insert(Micros(now.0 + ANSWER_TIME_US));
                    if now >= until {
                        return Err(Error::RowLocked);
                    }
                    let (event, p) = waited_for(obj, mode as u8);
                    let limit = Duration::from_micros(until.since(now));
                    let _ends = ctx.wait_for_or_cancel(event, p, limit, changed).await?;
                }
                Try::Wait(_) => {
                    locks.pay(obj);
                    let targets = Targets {
                        lock: Some(Wish { resource: obj, who, mode }),
                        ..Targets::default()
                    };
                    self.wait_table(ctx, txn, obj, mode, targets, changed, &mut patience).await?;
                }
                Try::Behind(_) => {
                    let enqueue = Some(obj);
                    let targets = Targets { enqueue, ..Targets::default() };
                    self.wait_table(ctx, txn, obj, mode, targets, changed, &mut patience).await?;
                }
            }
        }
    }

    /// Waits for a change of the table's locks.
    #[allow(clippy::too_many_arguments)]
    async fn wait_table(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        obj: Resource,
        mode: TmMode,
        targets: Targets<'_>,
        changed: impl Future<Output = ()>,
        patience: &mut Patience,
    ) -> Result<()> {
        let (event, p) = waited_for(obj, mode as u8);
        let ends = async {
            changed.await;
            Ok(())
        };
        self.wait_any(ctx, txn, targets, ends, event, p, patience).await
    }

    /// Asks for the instance's own right to the table; alone that is granted at once.
    async fn cover_table(
        self: &Arc<Core>,
        ctx: &Ctx,
        txn: &Transaction,
        obj: Resource,
        mode: GesMode,
        patience: &mut Patience,
    ) -> Result<()> {
        let Some(enqueues) = self.table_locks.enqueues() else { return Ok(()) };
        let mut asked = enqueues.cover(obj, mode, patience.refuses());
        if let Poll::Ready(answer) = futures::poll!(asked.as_mut()) {
            return answer;
        }
        let (event, p) = waited_for(obj, mode.number());
        let targets = Targets { enqueue: Some(obj), ..Targets::default() };
        self.wait_any(ctx, txn, targets, asked, event, p, patience).await
    }
}
