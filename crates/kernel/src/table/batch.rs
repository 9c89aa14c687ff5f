//! Rows that come in numbers: COPY, INSERT … SELECT, INSERT … VALUES of several rows.
//!
//! Promises: after `Ok` the same holds as after [`super::insert`] of each row in turn. Who is
//! refused is the row that would have been refused then, by the index that would have refused it.
//! An error leaves some rows and entries there: the caller rolls its statement back. The caller
//! bounds the batch, here nothing else grows with the statement.

use std::sync::Arc;

use block::Rowid;
use block::bytes::ByteList;
use observe::Ctx;

use super::change::lock_table;
use super::entry;
use super::query::{heap_seg, index_seg};
use super::{LockWait, foreign};
use crate::btree::{self, InsertOutcome};
use crate::dict::{IndexDef, TableDef};
use crate::error::{Error, Result};
use crate::heap;
use crate::txn::{TmMode, Transaction};

/// Inserts rows and their index entries: the rows of a block at a time, then the entries index by
/// index in the order of their keys, those of a leaf at a time. Their rowids, in the order of the
/// rows, go to `rowids` (cleared first).
///
/// # Errors
/// As [`super::insert`].
pub async fn insert_many(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rows: &ByteList,
    rowids: &mut Vec<Rowid>,
) -> Result<()> {
    refill_many(ctx, txn, def, rows, rowids).await?;
    if !def.foreign.is_empty() {
        for (row, rowid) in rows.iter().zip(&*rowids) {
            env::boxed!(foreign::check_row(ctx, txn, def, *rowid, None, row)).await?;
        }
    }
    Ok(())
}

/// The same for rows that the table had in another form: what they refer to is not looked for.
///
/// # Errors
/// As [`super::insert`].
pub async fn refill_many(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rows: &ByteList,
    rowids: &mut Vec<Rowid>,
) -> Result<()> {
    lock_table(ctx, txn, def, TmMode::SX, LockWait::Wait).await?;
    rowids.clear();
    heap::insert_many(ctx, txn, &heap_seg(def), rows, rowids).await?;
    let mut refused: Option<Refused> = None;
    for index in def.all_indexes() {
        let entries = Entries::new(def, index, rows, rowids)?;
        let before = refused.as_ref().map_or(rows.len(), |r| r.row);
        if let Some(new) = entries.insert(ctx, txn, index, before).await? {
            refused = Some(new);
        }
    }
    if let Some(Refused { row, index, key }) = refused {
        return Err(Error::UniqueViolation { index, key, row: rows.get(row).to_vec() });
    }
    Ok(())
}

/// The first row that an index has refused.
struct Refused {
    row: usize,
    index: String,
    key: Vec<u8>,
}

/// The entries of a batch in one index, in the order of their keys.
struct Entries {
    keys: ByteList,
    rowids: Vec<Rowid>,
    /// For each entry, the position of its row.
    row_of: Vec<usize>,
    /// Rows of the batch, those included that the index does not hold.
    row_count: usize,
}

impl Entries {
    fn new(def: &TableDef, index: &IndexDef, rows: &ByteList, rowids: &[Rowid]) -> Result<Entries> {
        let mut keys = ByteList::with_capacity(rows.len(), 16 * rows.len());
        let mut ascending = true;
        let mut held = Vec::with_capacity(rows.len());
        let all = rows.iter().zip(rowids.iter().copied());
        entry::entries(def, index, all, |at, key, _| {
            ascending &= keys.is_empty() || keys.get(keys.len() - 1) <= key;
            keys.push(key);
            held.push(at);
        })?;
        if ascending {
            let rowids = held.iter().map(|row| rowids[*row]).collect();
            return Ok(Entries { keys, rowids, row_of: held, row_count: rows.len() });
        }
        // Stable: of equal keys the first row's comes first, and is the one that stands.
        let mut order: Vec<usize> = (0..held.len()).collect();
        order.sort_by(|a, b| keys.get(*a).cmp(keys.get(*b)));
        let mut sorted = ByteList::with_capacity(keys.len(), keys.total_bytes());
        order.iter().for_each(|&at| sorted.push(keys.get(at)));
        let row_of: Vec<usize> = order.iter().map(|&at| held[at]).collect();
        let rowids = row_of.iter().map(|&row| rowids[row]).collect();
        Ok(Entries { keys: sorted, rowids, row_of, row_count: rows.len() })
    }

    /// Adds the entries of the rows in front of position `before`. Once one is refused, only those
    /// of rows in front of that one matter any more: the first row to be refused is reported.
    async fn insert(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        index: &IndexDef,
        mut before: usize,
    ) -> Result<Option<Refused>> {
        let seg = index_seg(index);
        let mut refused = None;
        let mut at = 0;
        while at < self.keys.len() {
            let row = self.row_of[at];
            if row >= before {
                at += 1;
                continue;
            }
            let all_matter = before == self.row_count;
            let done = if all_matter {
                btree::insert_run(ctx, txn, &seg, &self.keys, &self.rowids, at).await?
            } else {
                let (key, rowid) = (self.keys.get(at), self.rowids[at]);
                let outcome = btree::insert(ctx, txn, &seg, key, rowid).await?;
                (outcome == InsertOutcome::Done).then_some(1)
            };
            match done {
                Some(count) => at += count,
                None => {
                    let name = index.constraint.as_ref().unwrap_or(&index.name);
                    let key = self.keys.get(at).to_vec();
                    refused = Some(Refused { row, index: name.clone(), key });
                    before = row;
                }
            }
        }
        Ok(refused)
    }
}
