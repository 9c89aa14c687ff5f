//! Entries come and go: insert with the unique check, delete, purge.
//!
//! Promises: check and insert happen under one hold of the leaf (hazard C17); nothing but the leaf
//! is held, and nothing is awaited while it is. Must never purge an entry whose delete a snapshot
//! of the cluster may not see.

use env::marks::{self, Mark};
use std::sync::Arc;

use block::bytes::ByteList;
use block::itl::{self, ItlChange};
use block::layout;
use block::op::{Inverse, Op};
use block::rows;
use block::{Mode, Rowid, Scn, Xid};
use observe::Ctx;

use super::descend::{Hop, Seek, descend};
use super::pieces;
use super::seg::IndexSeg;
use super::shape::KEY_BYTES_MAX;
use super::split;
use crate::cache::Pin;
use crate::error::{Error, Result};
use crate::txn::{
    Core, Crowd, LockState, LockWait, Outcome, Step, Target, Transaction, View, WaitTarget,
};

/// What became of an insert.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InsertOutcome {
    Done,
    /// A live entry with this key is there, committed or the transaction's own.
    Duplicate,
}

/// What one look at a leaf under its latch found.
pub(super) enum Found {
    Done,
    /// So many entries were added at once.
    Inserted(usize),
    Duplicate,
    /// The entry belongs to another transaction that has not ended.
    Wait(Xid),
    /// The key is right of this leaf.
    Right(Hop),
    /// The block is not the leaf of this key: descend again.
    Lost,
    /// No room, and nothing left to purge.
    Full,
    /// There is nothing to do.
    Nothing,
    /// The index does not hold what the table says it does.
    Missing,
    /// A live entry with this key, committed or the transaction's own, points here.
    Held(Rowid),
}

/// Adds an entry. In a unique index (and for a key that is there already, marked) the outcome of
/// other transactions that hold the key is awaited.
///
/// # Errors
/// [`Error::KeyTooLong`]; [`Error::Deadlock`] and interrupts while waiting; disk full.
pub async fn insert(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    key: &[u8],
    rowid: Rowid,
) -> Result<InsertOutcome> {
    if seg.bitmap {
        return pieces::flip(ctx, txn, seg, key, true).await.map(|()| InsertOutcome::Done);
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::KeyTooLong { bytes: key.len(), limit: KEY_BYTES_MAX });
    }
    let found = change_entry(ctx, txn, seg, key, Some(rowid), LockWait::Wait, |b, view| {
        insert_step(txn.core(), seg, key, rowid, b, view)
    })
    .await?;
    Ok(match found {
        Found::Duplicate => InsertOutcome::Duplicate,
        _ => InsertOutcome::Done,
    })
}

/// Adds the entry at position `from` of a batch in ascending order of keys, and with it as many of
/// those behind it as go into the same leaf: one descent, one redo and one undo record for all.
/// Returns how many; `None`: the key at `from` is taken, as [`InsertOutcome::Duplicate`] says.
///
/// # Errors
/// As [`insert`].
pub async fn insert_run(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    keys: &ByteList,
    rowids: &[Rowid],
    from: usize,
) -> Result<Option<usize>> {
    let key = keys.get(from);
    if seg.bitmap {
        return pieces::flip(ctx, txn, seg, key, true).await.map(|()| Some(1));
    }
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::KeyTooLong { bytes: key.len(), limit: KEY_BYTES_MAX });
    }
    let batch = Batch { keys, rowids, from };
    let step = |b: &[u8], view: &View<'_>| run_step(txn.core(), seg, &batch, b, view);
    let rowid = Some(rowids[from]);
    let found = change_entry(ctx, txn, seg, key, rowid, LockWait::Wait, step).await?;
    Ok(match found {
        Found::Duplicate => None,
        Found::Inserted(count) => Some(count),
        _ => Some(1),
    })
}

/// As [`insert`], but an entry of a transaction that has not ended is not waited for: it counts as
/// a duplicate, whatever will become of it.
///
/// # Errors
/// As [`insert`].
pub async fn try_insert(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    key: &[u8],
    rowid: Rowid,
) -> Result<InsertOutcome> {
    if key.len() > KEY_BYTES_MAX {
        return Err(Error::KeyTooLong { bytes: key.len(), limit: KEY_BYTES_MAX });
    }
    let found =
        change_entry(ctx, txn, seg, key, Some(rowid), LockWait::Wait, |b, view| match insert_step(
            txn.core(),
            seg,
            key,
            rowid,
            b,
            view,
        ) {
            Step::Stop(Found::Wait(_)) => Step::Stop(Found::Duplicate),
            step => step,
        })
        .await?;
    Ok(match found {
        Found::Duplicate => InsertOutcome::Duplicate,
        _ => InsertOutcome::Done,
    })
}

/// The row that holds `key` in a unique index as it stands: whoever is about to take or give up the
/// key is awaited. Nothing is locked: the answer may be old when it is read.
///
/// # Errors
/// As [`insert`], and as `wait` says.
pub async fn holder(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    key: &[u8],
    wait: LockWait,
) -> Result<Option<Rowid>> {
    let found =
        change_entry(ctx, txn, seg, key, None, wait, |b, view| holder_step(seg, key, b, view))
            .await?;
    Ok(match found {
        Found::Held(rowid) => Some(rowid),
        _ => None,
    })
}

/// Marks the entry of `key` that points to `rowid`.
///
/// # Errors
/// [`Error::Invariant`] if the index has no such entry; else as [`insert`].
pub async fn delete(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    key: &[u8],
    rowid: Rowid,
) -> Result<()> {
    if seg.bitmap {
        return pieces::flip(ctx, txn, seg, key, false).await;
    }
    let found = change_entry(ctx, txn, seg, key, Some(rowid), LockWait::Wait, |b, view| {
        delete_step(seg, key, rowid, b, view)
    })
    .await?;
    match found {
        Found::Missing => Err(Error::Invariant(format!(
            "index {}: no live entry for row {rowid} under its key",
            seg.obj
        ))),
        _ => Ok(()),
    }
}

/// Finds the leaf, makes one change in it, and does what the leaf asks for until the change is made
/// or refused.
pub(super) async fn change_entry(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    key: &[u8],
    rowid: Option<Rowid>,
    wait: LockWait,
    step: impl Fn(&[u8], &View<'_>) -> Step<Found> + Send + Sync,
) -> Result<Found> {
    let core = txn.core();
    let target = Target { obj: seg.obj, birth: seg.birth };
    loop {
        ctx.check_interrupt()?;
        let mut hop = None;
        let leaf = descend(ctx, &core.cache, seg, Seek::At(key), 0, &mut hop).await?;
        if let Some(hop) = hop {
            split::add_parent_entry(ctx, core, seg, &hop).await?;
            marks::reached(Mark::SplitFinished);
        }
        core.log.throttle(ctx).await?;
        let pin = core.cache.pin(ctx, leaf, Mode::X).await?;
        let outcome = loop {
            match txn.change_block(ctx, &pin, target, &step).await? {
                Outcome::Redone(_) => {}
                outcome => break outcome,
            }
        };
        let found = match outcome {
            Outcome::Changed(found) | Outcome::Stopped(found) | Outcome::Redone(found) => found,
            Outcome::NoItl(crowd) => {
                relieve(ctx, txn, seg, pin, key, &crowd).await?;
                continue;
            }
        };
        drop(pin);
        match found {
            Found::Wait(xid) => {
                let what = WaitTarget::entry(seg.obj, rowid);
                core.wait_row(ctx, txn, xid, what, wait).await?;
            }
            Found::Right(hop) => {
                split::add_parent_entry(ctx, core, seg, &hop).await?;
                marks::reached(Mark::SplitFinished);
            }
            Found::Full => split::split(ctx, core, seg, leaf, key).await?,
            Found::Lost => {}
            found => return Ok(found),
        }
    }
}

/// What is the matter with `b` as the leaf of `key`, if anything.
pub(super) fn misplaced(seg: &IndexSeg, key: &[u8], b: &[u8]) -> Option<Found> {
    if seg.is_leaf_of(b, key) {
        return None;
    }
    if seg.owns(b) && rows::level(b) == 0 && Seek::At(key).is_beyond(b) {
        return Some(Hop::of(b).map_or(Found::Lost, Found::Right));
    }
    Some(Found::Lost)
}

fn insert_step(
    core: &Core,
    seg: &IndexSeg,
    key: &[u8],
    rowid: Rowid,
    b: &[u8],
    view: &View<'_>,
) -> Step<Found> {
    if let Some(found) = misplaced(seg, key, b) {
        return Step::Stop(found);
    }
    let itl = ItlChange::default();
    let Ok(pos) = rows::search(b, key) else {
        if rows::free_bytes(b) < rows::entry_bytes(key) + view.itl_room() {
            return purge_step(b, view, core.horizon());
        }
        return Step::Change {
            op: Op::LeafInsert { itl, key: key.to_vec(), rowid },
            inverse: Inverse::LeafRemove { root: seg.root, key: key.to_vec() },
            out: Found::Done,
        };
    };
    let entry = rows::entry(b, pos);
    match view.lock_state(entry.lock) {
        LockState::Active(xid) => Step::Stop(Found::Wait(xid)),
        _ if !entry.is_deleted() => Step::Stop(Found::Duplicate),
        _ => Step::Change {
            op: Op::LeafRevive { itl, key: key.to_vec(), rowid },
            inverse: restore(seg, key, &entry, view),
            out: Found::Done,
        },
    }
}

/// Entries in ascending order of keys; those before `from` are done with.
struct Batch<'a> {
    keys: &'a ByteList,
    rowids: &'a [Rowid],
    from: usize,
}

/// [`insert_step`] for the entry at `batch.from`, with those behind it that go the same way: new
/// keys that belong to this leaf, as far as there is room.
fn run_step(
    core: &Core,
    seg: &IndexSeg,
    batch: &Batch<'_>,
    b: &[u8],
    view: &View<'_>,
) -> Step<Found> {
    let Batch { keys, rowids, from } = *batch;
    let single = || insert_step(core, seg, keys.get(from), rowids[from], b, view);
    if misplaced(seg, keys.get(from), b).is_some() {
        return single();
    }
    let mut room = rows::free_bytes(b).saturating_sub(view.itl_room());
    let high = rows::high_key(b);
    let (mut to, mut pos) = (from, 0);
    while to < keys.len() {
        let key = keys.get(to);
        let need = rows::entry_bytes(key);
        let again = to > from && keys.get(to - 1) == key;
        if again || room < need || key.len() > KEY_BYTES_MAX || high.is_some_and(|h| key >= h) {
            break;
        }
        match rows::search_from(b, pos, key) {
            Ok(_) => break,
            Err(at) => pos = at,
        }
        room -= need;
        to += 1;
    }
    if to < from + 2 {
        return single();
    }
    let mut here = ByteList::new();
    (from..to).for_each(|at| here.push(keys.get(at)));
    Step::Change {
        inverse: Inverse::LeafRemoveMany { root: seg.root, keys: here.clone() },
        op: Op::LeafInsertMany {
            itl: ItlChange::default(),
            keys: here,
            rowids: rowids[from..to].to_vec(),
        },
        out: Found::Inserted(to - from),
    }
}

fn delete_step(seg: &IndexSeg, key: &[u8], rowid: Rowid, b: &[u8], view: &View<'_>) -> Step<Found> {
    if let Some(found) = misplaced(seg, key, b) {
        return Step::Stop(found);
    }
    let Ok(pos) = rows::search(b, key) else {
        return Step::Stop(Found::Missing);
    };
    let entry = rows::entry(b, pos);
    match view.lock_state(entry.lock) {
        LockState::Active(xid) => Step::Stop(Found::Wait(xid)),
        _ if entry.is_deleted() || entry.value != rowid.to_u64() => Step::Stop(Found::Missing),
        _ => Step::Change {
            op: Op::LeafMark { itl: ItlChange::default(), key: key.to_vec() },
            inverse: restore(seg, key, &entry, view),
            out: Found::Done,
        },
    }
}

fn holder_step(seg: &IndexSeg, key: &[u8], b: &[u8], view: &View<'_>) -> Step<Found> {
    if let Some(found) = misplaced(seg, key, b) {
        return Step::Stop(found);
    }
    let Ok(pos) = rows::search(b, key) else {
        return Step::Stop(Found::Nothing);
    };
    let entry = rows::entry(b, pos);
    Step::Stop(match view.lock_state(entry.lock) {
        LockState::Active(xid) => Found::Wait(xid),
        _ if entry.is_deleted() => Found::Nothing,
        _ => Found::Held(Rowid::from_u64(entry.value)),
    })
}

fn restore(seg: &IndexSeg, key: &[u8], entry: &rows::Entry<'_>, view: &View<'_>) -> Inverse {
    Inverse::LeafRestore {
        root: seg.root,
        key: key.to_vec(),
        flags: entry.flags,
        lock: view.saved_lock(entry.lock),
        rowid: Rowid::from_u64(entry.value),
    }
}

/// Removes the marked entries whose delete every snapshot sees; `Full` if there is none.
fn purge_step(b: &[u8], view: &View<'_>, horizon: Scn) -> Step<Found> {
    let (mut positions, mut newest) = (Vec::new(), Scn::ZERO);
    for pos in 0..rows::slot_count(b) {
        let entry = rows::entry(b, pos);
        if !entry.is_deleted() {
            continue;
        }
        let deleted = match view.lock_state(entry.lock) {
            // Its ITL entry was taken over since: not later than the latest so lost.
            LockState::Free if entry.lock == 0 => layout::taken_scn(b),
            LockState::Committed(scn) => scn,
            _ => continue,
        };
        if deleted <= horizon {
            positions.push(pos);
            newest = newest.max(deleted);
        }
    }
    if positions.is_empty() {
        return Step::Stop(Found::Full);
    }
    Step::Redo { op: Op::LeafPurge { positions, scn: newest }, out: Found::Nothing }
}

/// The leaf has no ITL entry for the transaction and no room for one: make room, or wait until one
/// of its transactions ends.
async fn relieve(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    pin: Pin,
    key: &[u8],
    crowd: &Crowd,
) -> Result<()> {
    let core = txn.core();
    let target = Target { obj: seg.obj, birth: seg.birth };
    let purge = |b: &[u8], view: &View<'_>| match misplaced(seg, key, b) {
        Some(found) => Step::Stop(found),
        None => purge_step(b, view, core.horizon()),
    };
    let outcome = txn.change_block(ctx, &pin, target, purge).await?;
    if !matches!(outcome, Outcome::Stopped(Found::Full)) {
        return Ok(());
    }
    let leaf = pin.dba();
    // Both parts of a split keep the whole list: it helps only while the list may grow.
    let splittable = {
        let b = pin.read();
        itl::count(&b) < core.itl_entries_max && rows::slot_count(&b) >= 2
    };
    drop(pin);
    if splittable {
        return split::split(ctx, core, seg, leaf, key).await;
    }
    core.wait_itl(ctx, txn, crowd, seg.obj).await
}
