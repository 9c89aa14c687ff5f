//! Update, delete and lock of one row.
//!
//! The common case, a row that fits its block and was not changed since the snapshot, is one change
//! of one block. Everything else first locks the row by its head and goes on from there.

use std::sync::Arc;

use block::itl::ItlChange;
use block::op::{Inverse, Op};
use block::{Mode, Rowid, Xid, rows};
use observe::Ctx;

use super::chain::{self, Stub};
use super::judge::{Verdict, is_mine, judge};
use super::settle::{plan, potential_bytes};
use super::{Change, HeapSeg, ROW_BYTES_MAX, ROW_PIECE_BYTES_MAX, scan};
use crate::cache::Pin;
use crate::error::{Error, Result};
use crate::txn::{
    CurrentView, Isolation, LockState, LockWait, Outcome, Snapshot, Step, Target, Transaction,
    View, WaitTarget,
};

/// A row that stands and nobody else has locked, in a block that is kept here for its change.
pub struct Held {
    rowid: Rowid,
    pin: Pin,
}

impl Held {
    #[must_use]
    pub fn rowid(&self) -> Rowid {
        self.rowid
    }
}

/// What a look at a row as it stands has found.
enum Stands {
    Here,
    Busy(Xid),
    /// Deleted, in pieces, or of another life of the segment.
    Otherwise,
}

/// Gets the block of a row that is to be changed, and puts the row as it stands into `out` (cleared
/// first): what a statement of READ COMMITTED may take for its own snapshot's, if it looks at no
/// other row. With `wait`, whoever has the row locked is awaited; `None`: the row is to be looked
/// at through the snapshot.
///
/// # Errors
/// As [`update`].
pub async fn hold(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    rowid: Rowid,
    wait: Option<LockWait>,
    out: &mut Vec<u8>,
) -> Result<Option<Held>> {
    loop {
        ctx.check_interrupt()?;
        let look = |b: &[u8], view: &CurrentView| {
            out.clear();
            if !scan::is_own(b, seg) {
                return Stands::Otherwise;
            }
            let Some(row) = rows::get(b, rowid.slot) else { return Stands::Otherwise };
            if let LockState::Active(xid) = view.lock_state(row.lock) {
                return Stands::Busy(xid);
            }
            if row.flags & (rows::DELETED | rows::PIECE) != 0 || Stub::of(&row).is_some() {
                return Stands::Otherwise;
            }
            out.extend_from_slice(row.bytes);
            Stands::Here
        };
        let (pin, stands) = txn.hold_current(ctx, rowid.dba, look).await?;
        match (stands, wait) {
            (Stands::Here, _) => return Ok(Some(Held { rowid, pin })),
            (Stands::Busy(xid), Some(wait)) if wait != LockWait::SkipLocked => {
                drop(pin);
                let target = WaitTarget::row(seg.obj, rowid);
                txn.core().wait_row(ctx, txn, xid, target, wait).await?;
            }
            _ => return Ok(None),
        }
    }
}

/// [`update`] of a row that is held.
///
/// # Errors
/// As [`update`].
#[allow(clippy::too_many_arguments)] // as `update`
pub async fn update_held(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    held: Held,
    snap: &Snapshot,
    seen: &[u8],
    new: &[u8],
    wait: LockWait,
) -> Result<Change> {
    if new.len() > ROW_BYTES_MAX {
        return Err(Error::RowTooLong { bytes: new.len(), limit: ROW_BYTES_MAX });
    }
    let mut work = Work::new(ctx, txn, seg, held.rowid, snap, wait);
    work.held = Some(held.pin);
    work.run(Some(seen), Action::Update(new)).await
}

/// [`delete`] of a row that is held.
///
/// # Errors
/// As [`update`].
pub async fn delete_held(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    held: Held,
    snap: &Snapshot,
    seen: &[u8],
    wait: LockWait,
) -> Result<Change> {
    let mut work = Work::new(ctx, txn, seg, held.rowid, snap, wait);
    work.held = Some(held.pin);
    work.run(Some(seen), Action::Delete).await
}

/// Replaces a row that `snap` shows as `seen` by `new`. The rowid stays.
///
/// # Errors
/// [`Error::Serialization`] at REPEATABLE READ; [`Error::RowLocked`], [`Error::LockTimeout`] and
/// [`Error::Deadlock`] as `wait` says; what space, undo and blocks can fail with.
#[allow(clippy::too_many_arguments)] // a row operation is its row, its snapshot and its values
pub async fn update(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    rowid: Rowid,
    snap: &Snapshot,
    seen: &[u8],
    new: &[u8],
    wait: LockWait,
) -> Result<Change> {
    if new.len() > ROW_BYTES_MAX {
        return Err(Error::RowTooLong { bytes: new.len(), limit: ROW_BYTES_MAX });
    }
    Work::new(ctx, txn, seg, rowid, snap, wait).run(Some(seen), Action::Update(new)).await
}

/// Deletes a row that `snap` shows as `seen`.
///
/// # Errors
/// As [`update`].
pub async fn delete(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    rowid: Rowid,
    snap: &Snapshot,
    seen: &[u8],
    wait: LockWait,
) -> Result<Change> {
    Work::new(ctx, txn, seg, rowid, snap, wait).run(Some(seen), Action::Delete).await
}

/// Locks a row that `snap` shows.
///
/// # Errors
/// As [`update`].
pub async fn lock(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    rowid: Rowid,
    snap: &Snapshot,
    wait: LockWait,
) -> Result<Change> {
    Work::new(ctx, txn, seg, rowid, snap, wait).run(None, Action::Lock).await
}

/// Tells space management about room that a delete will leave in a block.
pub(super) async fn note_room(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    dba: block::Dba,
    potential_bytes: usize,
) -> Result<()> {
    txn.core().space.note_room(ctx, *seg, dba, potential_bytes).await
}

fn conflict() -> Error {
    Error::Serialization("the row was changed by a concurrent transaction".to_owned())
}

#[derive(Clone, Copy)]
enum Action<'a> {
    Lock,
    Delete,
    Update(&'a [u8]),
    /// Makes the row, which the transaction has locked, a head of this chain.
    Point(Stub),
}

/// What one look at the row's block came to.
enum Met {
    /// Done; pieces of the former version are to be deleted.
    Done(Option<Stub>),
    /// Rows were settled: look again.
    Again,
    /// Not as seen; locked now.
    Newer(Vec<u8>),
    /// Locked now; whether it is as seen stands in its pieces.
    CompareChain(Stub),
    /// Locked now; whether it has been changed since the snapshot stands in its undo.
    LookBack,
    /// What the snapshot shows must be known first.
    NeedSeen,
    /// Locked now, and as seen; the new version does not fit here.
    Move,
    Gone,
    Conflict,
    Wait(Xid),
}

struct Work<'a> {
    ctx: &'a Ctx,
    txn: &'a Arc<Transaction>,
    seg: &'a HeapSeg,
    rowid: Rowid,
    snap: &'a Snapshot,
    wait: LockWait,
    /// The row is locked and was found to be as seen.
    confirmed: bool,
    /// The row's block, for the first look.
    held: Option<Pin>,
}

impl<'a> Work<'a> {
    fn new(
        ctx: &'a Ctx,
        txn: &'a Arc<Transaction>,
        seg: &'a HeapSeg,
        rowid: Rowid,
        snap: &'a Snapshot,
        wait: LockWait,
    ) -> Work<'a> {
        Work { ctx, txn, seg, rowid, snap, wait, confirmed: false, held: None }
    }

    async fn run(&mut self, seen: Option<&[u8]>, action: Action<'_>) -> Result<Change> {
        let mut fetched: Option<Vec<u8>> = None;
        let mut action = action;
        loop {
            let known = seen.or(fetched.as_deref());
            match self.look(known, action).await? {
                Met::Done(old_pieces) => {
                    if let Some(stub) = old_pieces {
                        chain::delete(self.ctx, self.txn, self.seg, stub).await?;
                    }
                    return Ok(Change::Done);
                }
                Met::Again => {}
                Met::Newer(row) => return Ok(Change::Newer(row)),
                Met::Gone => return Ok(Change::Gone),
                Met::Conflict => return Err(conflict()),
                Met::LookBack => {
                    if scan::changed_since(self.ctx, self.seg, self.snap, self.rowid).await? {
                        return Err(conflict());
                    }
                    self.confirmed = true;
                }
                Met::Wait(xid) => {
                    if self.wait == LockWait::SkipLocked {
                        return Ok(Change::Skipped);
                    }
                    self.await_end(xid).await?;
                }
                Met::NeedSeen => fetched = Some(self.fetch_seen().await?.unwrap_or_default()),
                Met::CompareChain(stub) => {
                    let row = chain::read_current(self.ctx, self.txn, self.seg, stub).await?;
                    if known.is_none() {
                        fetched = self.fetch_seen().await?;
                    }
                    if seen.or(fetched.as_deref()) != Some(&row[..]) {
                        return Ok(Change::Newer(row));
                    }
                    self.confirmed = true;
                }
                Met::Move => {
                    let Action::Update(new) = action else {
                        return Err(Error::Invariant("only an update moves a row".to_owned()));
                    };
                    self.confirmed = true;
                    let stub = chain::write(self.ctx, self.txn, self.seg, new).await?;
                    action = Action::Point(stub);
                }
            }
            self.ctx.check_interrupt()?;
        }
    }

    async fn await_end(&self, xid: Xid) -> Result<()> {
        let target = WaitTarget::row(self.seg.obj, self.rowid);
        self.txn.core().wait_row(self.ctx, self.txn, xid, target, self.wait).await
    }

    /// The row as the snapshot shows it; `None`: it shows none.
    async fn fetch_seen(&self) -> Result<Option<Vec<u8>>> {
        let mut row = Vec::new();
        let found = scan::fetch(self.ctx, self.seg, self.rowid, self.snap, &mut row).await?;
        Ok(found.then_some(row))
    }

    /// Pins the row's block, decides, and makes the change if there is one to make.
    async fn look(&mut self, seen: Option<&[u8]>, action: Action<'_>) -> Result<Met> {
        let core = self.txn.core();
        let dba = self.rowid.dba;
        let pin = match self.held.take() {
            Some(pin) => pin,
            None => {
                self.txn.ready(self.ctx).await?;
                core.cache.pin(self.ctx, dba, Mode::X).await?
            }
        };
        let horizon = core.horizon();
        let target = Target { obj: self.seg.obj, birth: self.seg.birth };
        let f = |b: &[u8], view: &View<'_>| self.decide(b, view, horizon, seen, action);
        match self.txn.change_block(self.ctx, &pin, target, f).await? {
            Outcome::Changed(out) => {
                let deleted = matches!(action, Action::Delete) && matches!(out, Met::Done(_));
                let potential = if deleted { potential_bytes(&pin.read()) } else { 0 };
                drop(pin);
                if deleted {
                    self.txn.vacate(*self.seg, dba);
                    note_room(self.ctx, self.txn, self.seg, dba, potential).await?;
                }
                Ok(out)
            }
            Outcome::Redone(out) | Outcome::Stopped(out) => Ok(out),
            Outcome::NoItl(crowd) => {
                drop(pin);
                core.wait_itl(self.ctx, self.txn, &crowd, self.seg.obj).await?;
                Ok(Met::Again)
            }
        }
    }

    fn decide(
        &self,
        b: &[u8],
        view: &View<'_>,
        horizon: block::Scn,
        seen: Option<&[u8]>,
        action: Action<'_>,
    ) -> Step<Met> {
        let slot = self.rowid.slot;
        if !scan::is_own(b, self.seg) {
            return Step::Stop(Met::Gone);
        }
        let repeatable = self.txn.isolation() == Isolation::RepeatableRead;
        let verdict = judge(b, view, slot, self.snap.scn(), repeatable);
        let row = match verdict {
            Verdict::Gone => return Step::Stop(Met::Gone),
            Verdict::Conflict => return Step::Stop(Met::Conflict),
            Verdict::Wait(xid) => return Step::Stop(Met::Wait(xid)),
            Verdict::Unchanged | Verdict::Compare | Verdict::Doubt => {
                rows::get(b, slot).expect("just judged")
            }
        };
        if verdict == Verdict::Doubt {
            return self.lock_first(view, &row, Met::LookBack);
        }
        if verdict == Verdict::Compare && !self.confirmed {
            let chained = Stub::of(&row);
            if let Some(stub) = chained {
                return self.lock_first(view, &row, Met::CompareChain(stub));
            }
            match seen {
                None => return Step::Stop(Met::NeedSeen),
                Some(seen) if seen == row.bytes => {}
                Some(_) => return self.lock_first(view, &row, Met::Newer(row.bytes.to_vec())),
            }
        }
        match action {
            Action::Lock => self.lock_first(view, &row, Met::Done(None)),
            Action::Delete => {
                let op = Op::HeapDelete { itl: ItlChange::default(), slot };
                self.change(view, &row, op, Met::Done(Stub::of(&row)))
            }
            Action::Point(stub) => self.replace(view, &row, rows::FORWARD, stub.encode()),
            Action::Update(new) => self.place(b, view, horizon, &row, new),
        }
    }

    /// Locks the row if it is not the transaction's already.
    fn lock_first(&self, view: &View<'_>, row: &rows::Row<'_>, out: Met) -> Step<Met> {
        if is_mine(view, row.lock) {
            return Step::Stop(out);
        }
        let slot = self.rowid.slot;
        Step::Change {
            op: Op::HeapLock { itl: ItlChange::default(), slot },
            inverse: Inverse::HeapUnlock { slot, lock: view.saved_lock(row.lock) },
            out,
        }
    }

    fn change(&self, view: &View<'_>, row: &rows::Row<'_>, op: Op, out: Met) -> Step<Met> {
        let inverse = Inverse::HeapRestore {
            slot: self.rowid.slot,
            flags: row.flags,
            lock: view.saved_lock(row.lock),
            bytes: row.bytes.to_vec(),
        };
        Step::Change { op, inverse, out }
    }

    fn replace(
        &self,
        view: &View<'_>,
        row: &rows::Row<'_>,
        flags: u8,
        bytes: Vec<u8>,
    ) -> Step<Met> {
        let (itl, slot) = (ItlChange::default(), self.rowid.slot);
        let op = Op::HeapUpdate { itl, slot, flags, bytes };
        self.change(view, row, op, Met::Done(Stub::of(row)))
    }

    /// Puts the new version into the head's block if it fits there, perhaps after settling.
    fn place(
        &self,
        b: &[u8],
        view: &View<'_>,
        horizon: block::Scn,
        row: &rows::Row<'_>,
        new: &[u8],
    ) -> Step<Met> {
        let slot = self.rowid.slot;
        let capacity = rows::capacity(b, slot);
        let free = rows::free_bytes(b) + capacity;
        let need = new.len() + view.itl_room();
        if new.len() <= ROW_PIECE_BYTES_MAX {
            if new.len() <= capacity || free >= need {
                return self.replace(view, row, 0, new.to_vec());
            }
            let plan = plan(b, view, horizon, Some(slot));
            if !plan.slots.is_empty() && free + plan.gain_bytes >= need {
                return Step::Redo { op: Op::Settle { slots: plan.slots }, out: Met::Again };
            }
        }
        self.lock_first(view, row, Met::Move)
    }
}
