//! Rows change, and their index entries with them.
//!
//! Promises: after `Ok` every index holds exactly one live entry for the row's newest version. An
//! error may leave the row changed and some indexes not: the caller rolls its statement back.

use std::sync::Arc;

use block::Rowid;
use observe::Ctx;

use super::query::{heap_seg, index_seg};
use super::{Change, LockWait};
use crate::btree::{self, InsertOutcome, entry_key, same_key};
use crate::dict::{self, IndexDef, TableDef};
use crate::error::{Error, Result};
use crate::heap;
use crate::txn::{Snapshot, TmMode, Transaction};

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
    for index in &def.indexes {
        entry_key(&def.types, &index.columns, index.unique, row, rowid, &mut key);
        insert_entry(ctx, txn, index, &key, rowid, row).await?;
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
    let change = heap::update(ctx, txn, &heap_seg(def), rowid, snap, seen, new, wait).await?;
    if !matches!(change, Change::Done) {
        return Ok(change);
    }
    let mut key = Vec::new();
    for index in &def.indexes {
        if same_key(&def.types, &index.columns, seen, new) {
            continue;
        }
        entry_key(&def.types, &index.columns, index.unique, seen, rowid, &mut key);
        delete_entry(ctx, txn, index, &key, rowid).await?;
        entry_key(&def.types, &index.columns, index.unique, new, rowid, &mut key);
        insert_entry(ctx, txn, index, &key, rowid, new).await?;
    }
    Ok(Change::Done)
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
    let change = heap::delete(ctx, txn, &heap_seg(def), rowid, snap, seen, wait).await?;
    if !matches!(change, Change::Done) {
        return Ok(change);
    }
    let mut key = Vec::new();
    for index in &def.indexes {
        entry_key(&def.types, &index.columns, index.unique, seen, rowid, &mut key);
        delete_entry(ctx, txn, index, &key, rowid).await?;
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

/// NOWAIT and SKIP LOCKED are about rows: the table's lock is waited for. Under the lock the
/// definition must still be the newest: DDL may have committed while we waited (hazard H19).
pub(super) async fn lock_table(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    mode: TmMode,
    wait: LockWait,
) -> Result<()> {
    let wait = match wait {
        LockWait::NoWait | LockWait::SkipLocked => LockWait::Wait,
        wait => wait,
    };
    txn.core().lock_table(ctx, txn, def.obj, mode, wait).await?;
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
