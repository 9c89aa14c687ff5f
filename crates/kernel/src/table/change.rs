//! Rows change, and their index entries with them.
//!
//! Promises: after `Ok` every index holds exactly one live entry for the row's newest version. An
//! error may leave the row changed and some indexes not: the caller rolls its statement back.

use std::sync::Arc;

use block::Rowid;
use observe::{Ctx, Stat};

use super::entry::{entry, same_entry};
use super::query::{heap_seg, index_seg};
use super::{Change, LockWait, foreign};
use crate::btree::{self, InsertOutcome};
use crate::dict::{self, IndexDef, TableDef};
use crate::error::{Error, Result};
use crate::heap::{self, Held};
use crate::txn::{Isolation, Snapshot, TmMode, Transaction};

/// Inserts a row and its index entries.
///
/// # Errors
/// [`Error::UniqueViolation`]; what taking locks, space and blocks can fail with.
pub async fn insert(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    row: &[u8],
) -> Result<Rowid> {
    lock_table(ctx, txn, def, TmMode::SX, LockWait::Wait).await?;
    let rowid = heap::insert(ctx, txn, &heap_seg(def), row).await?;
    let mut key = Vec::new();
    for index in def.all_indexes() {
        if entry(def, index, row, rowid, &mut key)? {
            insert_entry(ctx, txn, index, &key, rowid, row).await?;
        }
    }
    if !def.foreign.is_empty() {
        env::boxed!(foreign::check_row(ctx, txn, def, rowid, None, row)).await?;
    }
    Ok(rowid)
}

/// Replaces a row that `snap` shows as `seen`; only indexes whose key changed are touched.
///
/// # Errors
/// As [`insert`]; [`Error::Serialization`] at REPEATABLE READ; [`Error::RowLocked`] and the like as
/// `wait` says.
#[allow(clippy::too_many_arguments)] // the contract with sql
pub async fn update(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    snap: &Snapshot,
    seen: &[u8],
    new: &[u8],
    wait: LockWait,
) -> Result<Change> {
    lock_table(ctx, txn, def, TmMode::SX, wait).await?;
    if !def.foreign.is_empty() || !def.referenced.is_empty() {
        let row = Row { def, rowid, snap, seen, wait };
        return env::boxed!(change_keyed(ctx, txn, &row, Some(new))).await;
    }
    update_row(ctx, txn, def, rowid, snap, seen, new, wait).await
}

#[allow(clippy::too_many_arguments)] // as `update`
async fn update_row(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    snap: &Snapshot,
    seen: &[u8],
    new: &[u8],
    wait: LockWait,
) -> Result<Change> {
    let change = heap::update(ctx, txn, &heap_seg(def), rowid, snap, seen, new, wait).await?;
    update_entries(ctx, txn, def, rowid, seen, new, change).await
}

/// The entries follow the row, if it has changed.
async fn update_entries(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    seen: &[u8],
    new: &[u8],
    change: Change,
) -> Result<Change> {
    if !matches!(change, Change::Done) {
        return Ok(change);
    }
    let mut key = Vec::new();
    for index in def.all_indexes() {
        if same_entry(def, index, seen, new)? {
            continue;
        }
        if entry(def, index, seen, rowid, &mut key)? {
            delete_entry(ctx, txn, index, &key, rowid).await?;
        }
        if entry(def, index, new, rowid, &mut key)? {
            insert_entry(ctx, txn, index, &key, rowid, new).await?;
        }
    }
    Ok(Change::Done)
}

/// Gets the row at `rowid`, which the statement's snapshot shows under a unique key, for its
/// change: puts it into `out` (cleared first) as it stands. With `wait`, whoever has it locked is
/// awaited. `None`: it must be looked at through the snapshot, for what it is or for the rules of
/// its table.
///
/// # Errors
/// As [`update`].
pub async fn hold(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    wait: Option<LockWait>,
    out: &mut Vec<u8>,
) -> Result<Option<Held>> {
    let alone = def.foreign.is_empty() && def.referenced.is_empty();
    if !alone || txn.isolation() == Isolation::RepeatableRead {
        return Ok(None);
    }
    lock_table(ctx, txn, def, TmMode::SX, wait.unwrap_or(LockWait::Wait)).await?;
    ctx.bump(Stat::TableFetchByRowid, 1);
    heap::hold(ctx, txn, &heap_seg(def), rowid, wait, out).await
}

/// [`update`] of a row that is held and is `seen`.
///
/// # Errors
/// As [`update`].
#[allow(clippy::too_many_arguments)] // as `update`
pub async fn update_held(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    held: Held,
    snap: &Snapshot,
    seen: &[u8],
    new: &[u8],
    wait: LockWait,
) -> Result<Change> {
    let (rowid, seg) = (held.rowid(), heap_seg(def));
    let change = heap::update_held(ctx, txn, &seg, held, snap, seen, new, wait).await?;
    update_entries(ctx, txn, def, rowid, seen, new, change).await
}

/// [`delete`] of a row that is held and is `seen`.
///
/// # Errors
/// As [`update`].
pub async fn delete_held(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    held: Held,
    snap: &Snapshot,
    seen: &[u8],
    wait: LockWait,
) -> Result<Change> {
    let (rowid, seg) = (held.rowid(), heap_seg(def));
    let change = heap::delete_held(ctx, txn, &seg, held, snap, seen, wait).await?;
    delete_entries(ctx, txn, def, rowid, seen, change).await
}

/// Deletes a row that `snap` shows as `seen`, and its entries.
///
/// # Errors
/// As [`update`].
pub async fn delete(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    snap: &Snapshot,
    seen: &[u8],
    wait: LockWait,
) -> Result<Change> {
    lock_table(ctx, txn, def, TmMode::SX, wait).await?;
    let row = Row { def, rowid, snap, seen, wait };
    if !def.foreign.is_empty() || !def.referenced.is_empty() {
        return env::boxed!(change_keyed(ctx, txn, &row, None)).await;
    }
    delete_row(ctx, txn, &row).await
}

/// A row to be changed.
struct Row<'a> {
    def: &'a TableDef,
    rowid: Rowid,
    snap: &'a Snapshot,
    seen: &'a [u8],
    wait: LockWait,
}

/// Changes a row of a table with foreign keys, its own or others'; `None` deletes it. The change of
/// a parent gives way to a transaction that is deciding about a child.
async fn change_keyed(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    row: &Row<'_>,
    new: Option<&[u8]>,
) -> Result<Change> {
    let Row { def, rowid, snap, seen, wait } = *row;
    loop {
        let before = txn.savepoint();
        let change = match new {
            Some(new) => update_row(ctx, txn, def, rowid, snap, seen, new, wait).await?,
            None => delete_row(ctx, txn, row).await?,
        };
        if !matches!(change, Change::Done) {
            return Ok(change);
        }
        if !def.referenced.is_empty()
            && let Some(xid) = foreign::parent_left(ctx, txn, def, seen, new).await?
        {
            txn.rollback_to(ctx, before).await?;
            foreign::await_child(ctx, txn, def, rowid, xid, wait).await?;
            continue;
        }
        match new {
            Some(new) => foreign::check_row(ctx, txn, def, rowid, Some(seen), new).await?,
            None => txn.forget_parents(),
        }
        return Ok(Change::Done);
    }
}

async fn delete_row(ctx: &Ctx, txn: &Arc<Transaction>, row: &Row<'_>) -> Result<Change> {
    let Row { def, rowid, snap, seen, wait } = *row;
    let change = heap::delete(ctx, txn, &heap_seg(def), rowid, snap, seen, wait).await?;
    delete_entries(ctx, txn, def, rowid, seen, change).await
}

/// The entries of a row go, if it has gone.
async fn delete_entries(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    seen: &[u8],
    change: Change,
) -> Result<Change> {
    if !matches!(change, Change::Done) {
        return Ok(change);
    }
    let mut key = Vec::new();
    for index in def.all_indexes() {
        if entry(def, index, seen, rowid, &mut key)? {
            delete_entry(ctx, txn, index, &key, rowid).await?;
        }
    }
    Ok(Change::Done)
}

/// Locks a row that `snap` shows, without changing it.
///
/// # Errors
/// As [`update`].
pub async fn lock(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    snap: &Snapshot,
    wait: LockWait,
) -> Result<Change> {
    lock_table(ctx, txn, def, TmMode::SS, wait).await?;
    heap::lock(ctx, txn, &heap_seg(def), rowid, snap, wait).await
}

/// SKIP LOCKED is about rows: the table's lock is waited for. NOWAIT waits for neither. Under the
/// lock the definition must still be the newest: DDL may have committed while we waited (hazard
/// H19).
pub(super) async fn lock_table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    mode: TmMode,
    wait: LockWait,
) -> Result<()> {
    let wait = match wait {
        LockWait::SkipLocked => LockWait::Wait,
        wait => wait,
    };
    txn.core().lock_table(ctx, txn, def.obj, mode, wait).await.map_err(|error| match error {
        Error::RowLocked => Error::TableLocked { table: def.name.clone() },
        other => other,
    })?;
    dict::confirm(ctx, txn, def).await
}

pub(super) async fn insert_entry(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    index: &IndexDef,
    key: &[u8],
    rowid: Rowid,
    row: &[u8],
) -> Result<()> {
    match btree::insert(ctx, txn, &index_seg(index), key, rowid).await? {
        InsertOutcome::Done => Ok(()),
        InsertOutcome::Duplicate => {
            let index = index.constraint.as_ref().unwrap_or(&index.name).clone();
            Err(Error::UniqueViolation { index, key: key.to_vec(), row: row.to_vec() })
        }
    }
}

async fn delete_entry(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    index: &IndexDef,
    key: &[u8],
    rowid: Rowid,
) -> Result<()> {
    btree::delete(ctx, txn, &index_seg(index), key, rowid).await
}
