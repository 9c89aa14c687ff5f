//! The one way to make a transactional change to a block.

use block::itl::{self, Itl, ItlChange};
use block::layout::{self, Kind};
use block::op::{Inverse, Op};
use block::redo::RecordKind;
use block::undo::{self, TxState, UndoRecord};
use block::{ObjId, Scn, Uba, UndoNo, Xid};
use env::marks::{self, Mark};
use observe::{Ctx, Stat};

use super::core::Core;
use super::snapshot::Snapshot;
use super::status::TxStatus;
use super::transaction::{CLEANOUT_BLOCKS_MAX, Transaction};
use crate::cache::Pin;
use crate::change::Change;
use crate::error::{Error, Result};
use crate::undo::{Cursor, format_block};

/// What the block belongs to; goes into the undo record.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub obj: ObjId,
    pub birth: Scn,
}

impl Target {
    /// Whether a block is one of rows or entries of it.
    fn has(&self, b: &[u8]) -> bool {
        matches!(layout::kind(b), Kind::Heap | Kind::Leaf)
            && layout::obj(b) == self.obj
            && layout::birth(b) == self.birth
    }
}

/// What the caller decides on seeing the block.
pub enum Step<T> {
    /// Make this change; the operation's ITL change is filled in.
    Change { op: Op, inverse: Inverse, out: T },
    /// Make this redo-only change of the block instead.
    Redo { op: Op, out: T },
    /// Change nothing.
    Stop(T),
}

/// What came of it.
#[derive(Debug)]
pub enum Outcome<T> {
    Changed(T),
    Redone(T),
    Stopped(T),
    /// No ITL entry is free or reusable and there is no room for one.
    NoItl(Crowd),
}

/// Whose the entries of a full ITL are.
#[derive(Debug)]
pub struct Crowd {
    /// Transactions whose end makes room.
    pub running: Vec<Xid>,
    /// Others committed after the snapshot that the transaction keeps: it may not take their
    /// entries over, however long it waits (hazard H4).
    pub newer: bool,
}

/// State of a row's lock byte.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LockState {
    /// No transaction is named, or one that has left nothing behind.
    Free,
    Mine,
    /// The last changer committed at this SCN (or at the latest then).
    Committed(Scn),
    Active(Xid),
}

/// The ITL of the block as the changing transaction may judge it.
pub struct View<'a> {
    own: Xid,
    own_idx: Option<u8>,
    /// Index of the entry the change will use; `None`: there is none.
    chosen: Option<u8>,
    grows: bool,
    states: &'a [LockState],
}

impl View<'_> {
    #[must_use]
    pub fn xid(&self) -> Xid {
        self.own
    }

    /// What a row's lock byte means now.
    #[must_use]
    pub fn lock_state(&self, lock: u8) -> LockState {
        match lock.checked_sub(1) {
            None => LockState::Free,
            Some(idx) => self.states.get(usize::from(idx)).copied().unwrap_or(LockState::Free),
        }
    }

    /// The lock byte to restore if a change of a row with this one is taken back.
    #[must_use]
    pub fn saved_lock(&self, lock: u8) -> u8 {
        match (self.own_idx, lock.checked_sub(1)) {
            (Some(own), Some(idx)) if own == idx => lock,
            _ => 0,
        }
    }

    /// Bytes that must stay free for the transaction's new ITL entry.
    #[must_use]
    pub fn itl_room(&self) -> usize {
        if self.grows { itl::ITL_ENTRY_BYTES } else { 0 }
    }

    /// Whether the transaction has, or can get, an entry.
    #[must_use]
    pub fn has_entry(&self) -> bool {
        self.chosen.is_some()
    }
}

#[derive(Default)]
struct Judged {
    states: Vec<LockState>,
    own_idx: Option<u8>,
    chosen: Option<u8>,
    grows: bool,
    running: Vec<Xid>,
}

/// Looks at the entries of a block. One with a commit SCN up to `limit` may be taken over: that is
/// the snapshot that a REPEATABLE READ transaction keeps, so that what it takes over is visible to
/// it for good (hazard H4). A READ COMMITTED one may take over anything: its older snapshots take
/// its own change back, its later ones lie above every commit it has met. A bound is as good as the
/// SCN, since it stays marked as one in the undo record: whoever takes the change back finds it
/// there, and is too old below it (hazard H2).
fn judge(
    core: &Core,
    b: &mut [u8],
    own: Xid,
    remote: &[(Xid, TxStatus)],
    limit: Scn,
) -> Option<Judged> {
    let mut states = Vec::with_capacity(usize::from(itl::count(b)));
    let mut running = Vec::new();
    let mut own_idx = None;
    let mut free = None;
    let mut best: Option<(Scn, u8)> = None;
    for i in 0..itl::count(b) {
        let e = itl::get(b, i);
        let state = if e.xid.is_none() {
            free = free.or(Some(i));
            LockState::Free
        } else if e.xid == own {
            own_idx = Some(i);
            LockState::Mine
        } else {
            let status = settled(core, b, i, &e, remote)?;
            match status {
                TxStatus::Active | TxStatus::Committing(_) => {
                    running.push(e.xid);
                    LockState::Active(e.xid)
                }
                TxStatus::Committed(scn) | TxStatus::CommittedBy(scn) => {
                    if scn <= limit && best.is_none_or(|(s, _)| scn < s) {
                        best = Some((scn, i));
                    }
                    LockState::Committed(scn)
                }
                // Rolled back: the entry is free (in a current block, hazard H10). The one a split
                // has left in a leaf still hides what it had taken over.
                TxStatus::Gone => {
                    let leaf = layout::kind(b) == Kind::Leaf;
                    if !leaf || layout::taken_scn(b) <= limit {
                        free = free.or(Some(i));
                    }
                    LockState::Free
                }
            }
        };
        states.push(state);
    }
    let reuse = own_idx.or(free).or(best.map(|b| b.1));
    let may_grow = itl::count(b) < core.itl_entries_max && itl::has_room_to_grow(b);
    let grows = reuse.is_none() && may_grow;
    let chosen = reuse.or(grows.then(|| itl::count(b)));
    Some(Judged { states, own_idx, chosen, grows, running })
}

/// State of the transaction of entry `i`; what is found out is cleaned out. `None`: another
/// instance must be asked first.
fn settled(
    core: &Core,
    b: &mut [u8],
    i: u8,
    e: &Itl,
    remote: &[(Xid, TxStatus)],
) -> Option<TxStatus> {
    if e.scn != Scn::ZERO {
        return Some(if e.bound {
            TxStatus::CommittedBy(e.scn)
        } else {
            TxStatus::Committed(e.scn)
        });
    }
    let status = match core.local_status(e.xid) {
        Some(status) => status,
        None => remote.iter().find(|(x, _)| *x == e.xid).map(|(_, s)| *s)?,
    };
    match status {
        TxStatus::Committed(scn) => itl::put(b, i, &Itl { scn, bound: false, ..*e }),
        TxStatus::CommittedBy(scn) => itl::put(b, i, &Itl { scn, bound: true, ..*e }),
        _ => {}
    }
    Some(status)
}

/// Entries whose state only another instance knows.
fn unknown_remote(core: &Core, b: &[u8], own: Xid) -> Vec<Xid> {
    itl::iter(b)
        .map(|(_, e)| e)
        .filter(|e| !e.xid.is_none() && e.scn == Scn::ZERO && e.xid != own)
        .map(|e| e.xid)
        .filter(|x| core.local_status(*x).is_none())
        .collect()
}

/// The transaction's undo cursor, put back when the change is over, however it ends.
struct Borrowed<'a> {
    txn: &'a Transaction,
    cursor: Option<Cursor>,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.txn.inner.lock().cursor = self.cursor.take();
    }
}

impl Transaction {
    /// Makes one transactional change to the block of `pin`, which the caller holds in X. `f` sees
    /// the block under its latch and decides; it is called at most once.
    ///
    /// # Errors
    /// No undo space; a disk error; the session was interrupted. Nothing is changed then.
    pub async fn change_block<T: Send>(
        &self,
        ctx: &Ctx,
        pin: &Pin,
        target: Target,
        f: impl FnOnce(&[u8], &View<'_>) -> Step<T> + Send,
    ) -> Result<Outcome<T>> {
        let core = self.core().clone();
        let _turn = self.turn.lock().await;
        let mut borrowed = self.borrow_cursor(ctx).await?;
        let cursor = borrowed.cursor.as_mut().expect("just begun");
        let own = cursor.xid;
        let supply = core.undo_supply();
        cursor.prepare(ctx, &supply).await?;
        let limit = self.inner.lock().snapshot.as_ref().map_or(Scn::MAX, Snapshot::scn);
        let (mut remote, mut f) = (Vec::new(), f);
        loop {
            let unknown = {
                let b = pin.read();
                if target.has(&b) { unknown_remote(&core, &b, own) } else { Vec::new() }
            };
            for xid in unknown {
                let status = core.status(ctx, xid).await?;
                remote.retain(|(x, _)| *x != xid);
                remote.push((xid, status));
            }
            match self.change_latched(ctx, pin, target, cursor, &remote, limit, f) {
                Ok(outcome) => return Ok(outcome),
                // What was known here while others were asked is known no more: an outcome that was
                // told and is forgotten, a segment that has been handed back. Asked for again.
                Err(back) => f = back,
            }
        }
    }

    /// Gets everything a change needs but the block: room in the log, an Xid, undo. Called before
    /// the block is pinned, so that nothing of it is waited for under the pin.
    ///
    /// # Errors
    /// As [`Transaction::change_block`].
    pub async fn ready(&self, ctx: &Ctx) -> Result<()> {
        let core = self.core().clone();
        core.log.throttle(ctx).await?;
        let _turn = self.turn.lock().await;
        let mut borrowed = self.borrow_cursor(ctx).await?;
        let cursor = borrowed.cursor.as_mut().expect("just begun");
        cursor.prepare(ctx, &core.undo_supply()).await
    }

    async fn borrow_cursor(&self, ctx: &Ctx) -> Result<Borrowed<'_>> {
        let cursor = {
            let mut inner = self.inner.lock();
            if inner.ended {
                return Err(Error::Invariant("the transaction has ended".to_owned()));
            }
            inner.cursor.take()
        };
        let cursor = match cursor {
            Some(cursor) => cursor,
            None => {
                let begun = self.core().begin_undo(ctx).await?;
                ctx.session.note_xid(self.local_id, begun.xid.to_u64());
                begun
            }
        };
        Ok(Borrowed { txn: self, cursor: Some(cursor) })
    }

    /// `Err`: another instance must be asked about an entry that is not in `remote`; nothing has
    /// been done.
    #[allow(clippy::too_many_arguments)]
    fn change_latched<T, F: FnOnce(&[u8], &View<'_>) -> Step<T>>(
        &self,
        ctx: &Ctx,
        pin: &Pin,
        target: Target,
        cursor: &mut Cursor,
        remote: &[(Xid, TxStatus)],
        limit: Scn,
        f: F,
    ) -> std::result::Result<Outcome<T>, F> {
        let core = self.core().clone();
        let own = cursor.xid;
        let block_pin = cursor.block.clone();
        let spare_pin = cursor.spare.as_ref().map(|s| s.0.clone());
        let header_pin = cursor.segment.header.clone();
        let mut change = Change::begin(&core.cache, &[pin, &block_pin]);
        // A block that has meanwhile been given to another segment has no entries to be looked at:
        // what is where they would be is something else.
        let judged = match target.has(change.block(0)) {
            true => judge(&core, change.block_mut_for_hints(0), own, remote, limit),
            false => Some(Judged::default()),
        };
        let Some(judged) = judged else { return Err(f) };
        self.raise_floor(newest_commit(change.block(0), &judged.states));
        let view = View {
            own,
            own_idx: judged.own_idx,
            chosen: judged.chosen,
            grows: judged.grows,
            states: &judged.states,
        };
        if judged.grows {
            marks::reached(Mark::ListGrew);
        }
        let (mut op, inverse, out) = match f(change.block(0), &view) {
            Step::Stop(out) => return Ok(Outcome::Stopped(out)),
            Step::Redo { op, out } => {
                change.push(0, op);
                change.commit(ctx, own, RecordKind::Change);
                return Ok(Outcome::Redone(out));
            }
            Step::Change { op, inverse, out } => (op, inverse, out),
        };
        let Some(idx) = judged.chosen else {
            let newer = judged.states.len() > judged.running.len();
            return Ok(Outcome::NoItl(Crowd { running: judged.running, newer }));
        };
        let b = change.block(0);
        let overwritten = match view.lock_state(op.overwritten_lock(b)) {
            LockState::Committed(scn) => scn,
            _ => Scn::ZERO,
        };
        let saved = if idx < itl::count(b) { itl::get(b, idx) } else { Itl::default() };
        // Another's entry without an SCN is one rolled back. In a leaf it may be a split's copy,
        // and
        // the way to what it had taken over.
        let rolled_back = saved.xid != own && saved.scn == Scn::ZERO;
        let leaf = layout::kind(b) == Kind::Leaf;
        let saved = if rolled_back && !leaf { Itl::default() } else { saved };
        let undo_no = UndoNo(cursor.undo_no.0 + 1);
        let record = UndoRecord {
            xid: own,
            undo_no,
            prev: cursor.tail,
            target: pin.dba(),
            obj: target.obj,
            birth: target.birth,
            itl_idx: idx,
            saved,
            inverse,
        }
        .encode();
        // Undo goes to the current block, or on to the spare if it does not fit.
        let mut at = 1;
        let mut first_of_block = cursor.fresh;
        if !cursor.fresh && !undo::fits(change.block(1), record.len()) {
            at = change.add(spare_pin.as_ref().expect("prepared"));
            cursor.move_on();
            first_of_block = true;
        }
        let rec = if first_of_block { 0 } else { undo::record_count(change.block(at)) };
        if first_of_block {
            change.push(at, format_block());
        }
        let uba = Uba { dba: cursor.block.dba(), rec };
        let undo_bytes = record.len();
        change.push(at, Op::UndoAppend { record });
        // What the block loses trace of is kept as a bound in its header, so that a later reader
        // of the row never takes it for older than it is.
        let taken = if saved.xid == own { Scn::ZERO } else { saved.scn };
        let taken = taken.max(overwritten);
        op.set_itl(ItlChange { idx, xid: own, uba, undo_no, taken });
        change.push(0, op);
        if !cursor.begun || first_of_block {
            let slot = cursor.slot(TxState::Active, Scn::ZERO);
            let header = change.add(&header_pin);
            let forgotten = cursor.segment.forgotten().0.to_le_bytes().to_vec();
            let off = block::bytes::u16_of(undo::OFF_FORGOTTEN);
            change.push(header, Op::Patch(vec![slot.patch(own.slot), (off, forgotten)]));
        }
        change.commit(ctx, own, RecordKind::Change);
        cursor.begun = true;
        cursor.fresh = false;
        if first_of_block {
            ctx.bump(Stat::UndoBlocksUsed, 1);
        }
        cursor.tail = uba;
        cursor.undo_no = undo_no;
        ctx.bump(Stat::UndoSize, undo_bytes as u64);
        ctx.session.note_undo(uba.dba.file, uba.dba.block, uba.rec);
        let mut inner = self.inner.lock();
        if inner.changed.len() < CLEANOUT_BLOCKS_MAX
            && !inner.changed.iter().any(|b| b.dba == pin.dba())
        {
            inner.changed.push(pin.buffer.clone());
        }
        Ok(Outcome::Changed(out))
    }
}

/// The newest commit that a statement which has looked at the block may have met, in its ITL or (as
/// a bound) in what was taken over. A statement that begins again because of it must see it: with a
/// snapshot still below a commit under way it would meet the same row for ever.
fn newest_commit(b: &[u8], states: &[LockState]) -> Scn {
    let known = states.iter().filter_map(|s| match s {
        LockState::Committed(scn) => Some(*scn),
        _ => None,
    });
    known.fold(layout::taken_scn(b), Scn::max)
}
