//! Rows that may be there already: INSERT ... ON CONFLICT.
//!
//! Promises: either the row is inserted, or nothing is left of it and somebody else has, or is
//! about to have, its key in one of the arbiter indexes. While a row is half inserted, nobody is
//! waited for on behalf of an arbiter, so that two sessions with the same keys do not wait for each
//! other.

use std::sync::Arc;

use block::Rowid;
use observe::Ctx;

use super::change::{insert_entry, lock_table};
use super::entry::{entry, unique_key};
use super::query::{heap_seg, index_seg};
use super::{LockWait, foreign};
use crate::btree::{self, InsertOutcome};
use crate::dict::{IndexDef, TableDef};
use crate::error::Result;
use crate::heap;
use crate::txn::{Snapshot, TmMode, Transaction};

/// Whether two rows have the same key in a unique index.
///
/// # Errors
/// [`crate::Error::Raised`].
pub fn same_key(def: &TableDef, index: &IndexDef, one: &[u8], other: &[u8]) -> Result<bool> {
    let one = unique_key(def, index, one)?;
    Ok(one.is_some() && one == unique_key(def, index, other)?)
}

/// The row that has the key of `row` in a unique index as it stands: other transactions that are
/// about to take or give up the key are awaited. A row with the key that `snap` shows will do too,
/// for who locks it anyway: that look takes the leaf from no other instance.
///
/// # Errors
/// As [`super::update`].
pub async fn conflicting(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    index: &IndexDef,
    row: &[u8],
    snap: Option<&Snapshot>,
    wait: LockWait,
) -> Result<Option<Rowid>> {
    let Some(key) = unique_key(def, index, row)? else { return Ok(None) };
    lock_table(ctx, txn, def, TmMode::SX, wait).await?;
    let seg = index_seg(index);
    if let Some(snap) = snap
        && let Some(rowid) = btree::lookup(ctx, snap, &seg, &key).await?
    {
        return Ok(Some(rowid));
    }
    btree::holder(ctx, txn, &seg, &key, wait).await
}

/// Inserts a row unless its key in one of the `arbiters` (positions in [`TableDef::all_indexes`])
/// is taken, or another transaction is about to take it: `None`.
///
/// # Errors
/// As [`super::insert`], for the other indexes.
pub async fn insert_unless(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    row: &[u8],
    arbiters: &[usize],
) -> Result<Option<Rowid>> {
    lock_table(ctx, txn, def, TmMode::SX, LockWait::Wait).await?;
    let before = txn.savepoint();
    let rowid = heap::insert(ctx, txn, &heap_seg(def), row).await?;
    let mut key = Vec::new();
    for index in arbiters.iter().filter_map(|at| def.all_indexes().nth(*at)) {
        if !entry(def, index, row, rowid, &mut key)? {
            continue;
        }
        let outcome = btree::try_insert(ctx, txn, &index_seg(index), &key, rowid).await?;
        if outcome == InsertOutcome::Duplicate {
            txn.rollback_to(ctx, before).await?;
            return Ok(None);
        }
    }
    for (at, index) in def.all_indexes().enumerate() {
        if !arbiters.contains(&at) && entry(def, index, row, rowid, &mut key)? {
            insert_entry(ctx, txn, index, &key, rowid, row).await?;
        }
    }
    if !def.foreign.is_empty() {
        env::boxed!(foreign::check_row(ctx, txn, def, rowid, None, row)).await?;
    }
    Ok(Some(rowid))
}
