//! The looks at the other side; see the README for their rules.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use block::{ObjId, Rowid, Xid};
use observe::Ctx;

use super::convert::{key_of, prefix_of, values_of};
use super::pending::{KeyEvent, put_off};
use crate::btree::{self, IndexSeg};
use crate::dict::{self, ForeignKeyDef, IndexDef, IndexKind, TableDef};
use crate::error::{Error, Result};
use crate::heap;
use crate::row::{RowView, Value};
use crate::table::query::{heap_seg, index_seg};
use crate::txn::{Isolation, LockWait, TmMode, Transaction, WaitTarget};

/// How long a child waits for a parent that may give way, the first times.
const GRACE: [Duration; 3] =
    [Duration::from_millis(2), Duration::from_millis(10), Duration::from_millis(40)];
/// How long it waits each time from then on, as part of the search for deadlocks, µs.
const AGAIN_US: u64 = 100_000;
/// How long a parent that has given way waits before it joins that search: the child has looked
/// again by then.
const GIVEN_WAY: Duration = Duration::from_millis(300);

/// The other table of a key, which stands while the transaction lasts.
async fn other(ctx: &Ctx, txn: &Arc<Transaction>, obj: ObjId) -> Result<Arc<TableDef>> {
    txn.core().lock_table(ctx, txn, obj, TmMode::SS, LockWait::Wait).await?;
    dict::table_by_obj(ctx, txn, obj).await?.ok_or(Error::ObjectGone)
}

/// Looks for the parents of a row that was written; `old`: what it was. What has none is put off.
pub(crate) async fn check_row(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    old: Option<&[u8]>,
    row: &[u8],
) -> Result<()> {
    for key in &def.foreign {
        if old.is_some_and(|old| btree::same_key(&def.types, &key.columns, old, row)) {
            continue;
        }
        if old.is_some() {
            txn.forget_parents();
        }
        let view = RowView::new(&def.types, row);
        let nulls = key.columns.iter().filter(|c| view.is_null(usize::from(**c))).count();
        if nulls == key.columns.len() || (nulls > 0 && !key.full) {
            continue;
        }
        let values = values_of(&def.types, &key.columns, row);
        if nulls > 0 || !parent_of_new(ctx, txn, key, &values).await? {
            put_off(txn, key, KeyEvent::Child { rowid });
        }
    }
    Ok(())
}

async fn parent_of_new(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    key: &ForeignKeyDef,
    values: &[Value],
) -> Result<bool> {
    let mut mark = key.obj.0.to_be_bytes().to_vec();
    for value in values {
        crate::row::encode_key(&[value.as_datum()], &mut mark);
    }
    if txn.keeps_parent(&mark) {
        return Ok(true);
    }
    let found = has_parent(ctx, txn, key, values).await?;
    if found {
        txn.keep_parent(&mark);
    }
    Ok(found)
}

/// Whether the parent has a row with these values (of the key's columns, none NULL), for good or by
/// the transaction's own doing.
///
/// # Errors
/// [`Error::Serialization`] at REPEATABLE READ if it has gone since the snapshot; what waiting for
/// other transactions can fail with.
pub async fn has_parent(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    key: &ForeignKeyDef,
    values: &[Value],
) -> Result<bool> {
    let parent = other(ctx, txn, key.parent).await?;
    let index = parent.indexes.iter().find(|index| index.obj == key.index);
    let index = index.ok_or(Error::ObjectGone)?;
    let columns = key.parent_columns(&parent).ok_or(Error::ObjectGone)?;
    let Some(entry) = prefix_of(values, &parent.types, &columns, index) else { return Ok(false) };
    let seg = index_seg(index);
    let mut waits = 0;
    let found = loop {
        let found = btree::current(ctx, txn, &seg, &entry, 1).await?;
        let Some(xid) = found.busy else { break !found.live.is_empty() };
        await_parent(ctx, txn, index, xid, waits).await?;
        waits += 1;
    };
    if txn.isolation() == Isolation::RepeatableRead {
        let snap = txn.snapshot(ctx).await?;
        let seen = btree::lookup(ctx, &snap, &seg, &entry).await?.is_some();
        if seen && !found {
            let why = "the row referred to was changed by a concurrent transaction".to_owned();
            return Err(Error::Serialization(why));
        }
        return Ok(seen && found);
    }
    Ok(found)
}

async fn await_parent(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    index: &IndexDef,
    xid: Xid,
    waits: usize,
) -> Result<()> {
    let core = txn.core();
    if let Some(limit) = GRACE.get(waits) {
        return core.wait_briefly(ctx, xid, *limit).await;
    }
    let what = WaitTarget::entry(index.obj, None);
    match core.wait_row(ctx, txn, xid, what, LockWait::Timeout(AGAIN_US)).await {
        Err(Error::LockTimeout) => Ok(()),
        done => done,
    }
}

/// The index of the child in which rows are found by the key.
fn child_index<'a>(child: &'a TableDef, key: &ForeignKeyDef) -> Option<&'a Arc<IndexDef>> {
    let count = key.columns.len();
    let serves = |index: &&Arc<IndexDef>| {
        // Of a bitmap it is not known which of its rows a transaction is deciding about, and keys
        // that are turned round have no beginnings.
        if index.kind != IndexKind::Tree {
            return false;
        }
        let first = index.columns.get(..count);
        first.is_some_and(|first| key.columns.iter().all(|column| first.contains(column)))
    };
    child.indexes.iter().find(serves)
}

/// A row with indexes has gone (`new`: has become another). Looks for the rows that refer to it and
/// puts off what they need; a transaction that is deciding about such a row is returned: the change
/// must be taken back and done again when that one has ended.
pub(crate) async fn parent_left(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    old: &[u8],
    new: Option<&[u8]>,
) -> Result<Option<Xid>> {
    for reference in &def.referenced {
        let Some(index) = def.indexes.iter().find(|index| index.obj == reference.index) else {
            continue;
        };
        if new.is_some_and(|new| btree::same_key(&def.types, &index.columns, old, new)) {
            continue;
        }
        txn.forget_parents();
        let key_of_row = |row: &[u8]| {
            key_of(&values_of(&def.types, &index.columns, row), &def.types, &index.columns)
        };
        if new.is_some_and(|new| key_of_row(new) == key_of_row(old)) {
            continue;
        }
        let child = other(ctx, txn, reference.table).await?;
        let Some(key) = child.foreign.iter().find(|key| key.obj == reference.key) else {
            continue;
        };
        let columns = key.parent_columns(def).ok_or(Error::ObjectGone)?;
        let old = values_of(&def.types, &columns, old);
        if old.iter().any(|value| matches!(value, Value::Null)) {
            continue;
        }
        if let Some(index) = child_index(&child, key) {
            let Some(prefix) = prefix_of(&old, &child.types, &key.columns, index) else { continue };
            let found = btree::current(ctx, txn, &index_seg(index), &prefix, usize::MAX).await?;
            // Also beside rows that stand: who has come before the mark is waited for without it.
            if let Some((xid, _)) = found.came.first() {
                return Ok(Some(*xid));
            }
            match (found.live.is_empty(), found.busy) {
                (true, None) => continue,
                (true, busy) => return Ok(busy),
                (false, _) => {}
            }
        }
        let new = new.map(|new| values_of(&def.types, &columns, new));
        put_off(txn, key, KeyEvent::Parent { old, new });
    }
    Ok(None)
}

/// The key's values in the first row of the locked child that has no parent.
///
/// # Errors
/// What reading blocks can fail with.
pub async fn first_orphan(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    child: &TableDef,
    key: &ForeignKeyDef,
) -> Result<Option<Vec<Value>>> {
    let parent = other(ctx, txn, key.parent).await?;
    let index = parent.indexes.iter().find(|index| index.obj == key.index);
    let index = index.ok_or(Error::ObjectGone)?;
    let columns = key.parent_columns(&parent).ok_or(Error::ObjectGone)?;
    let (seg, snap) = (index_seg(index), txn.newest_snapshot()?);
    let mut scan = heap::scan(ctx, &heap_seg(child), &snap).await?;
    let mut last = None;
    loop {
        let mut rows: Vec<Vec<Value>> = Vec::new();
        let take = |_, row: &[u8]| rows.push(values_of(&child.types, &key.columns, row));
        let more = scan.next_block(ctx, take).await?;
        for values in rows {
            let nulls = values.iter().filter(|value| matches!(value, Value::Null)).count();
            if nulls == values.len() || (nulls > 0 && !key.full) {
                continue;
            }
            let entry = prefix_of(&values, &parent.types, &columns, index);
            let Some(entry) = entry.filter(|_| nulls == 0) else { return Ok(Some(values)) };
            if last.as_ref() == Some(&entry) {
                continue;
            }
            if btree::lookup(ctx, &snap, &seg, &entry).await?.is_none() {
                return Ok(Some(values));
            }
            last = Some(entry);
        }
        if !more {
            return Ok(None);
        }
    }
}

/// Waits for the transaction that is deciding about a child, after the own change has been taken
/// back.
pub(crate) async fn await_child(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    rowid: Rowid,
    xid: Xid,
    wait: LockWait,
) -> Result<()> {
    if wait == LockWait::Wait {
        txn.core().wait_briefly(ctx, xid, GIVEN_WAY).await?;
    }
    let what = WaitTarget::entry(def.obj, Some(rowid));
    txn.core().wait_row(ctx, txn, xid, what, wait).await
}

/// A row of the child that stands.
#[derive(Clone, Copy, Debug)]
pub struct Child {
    pub rowid: Rowid,
    /// Which of the parents asked for it refers to.
    pub parent: usize,
}

/// The rows that refer to parents with these values (each in the order of the key's columns), at
/// most `limit` for each; waits for transactions that are deciding about some.
///
/// # Errors
/// What waiting for other transactions can fail with.
pub async fn children(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    key: &ForeignKeyDef,
    parents: &[&[Value]],
    limit: usize,
) -> Result<Vec<Child>> {
    let child = other(ctx, txn, key.table).await?;
    let mut out = Vec::new();
    let Some(index) = child_index(&child, key) else {
        return scanned(ctx, txn, &child, key, parents).await;
    };
    let seg = index_seg(index);
    for (parent, values) in parents.iter().enumerate() {
        let Some(prefix) = prefix_of(values, &child.types, &key.columns, index) else { continue };
        let live = loop {
            let found = btree::current(ctx, txn, &seg, &prefix, limit).await?;
            if found.live.len() >= limit {
                break found.live;
            }
            let Some(xid) = before_the_mark(ctx, txn, &seg, &found).await? else {
                break found.live;
            };
            let what = WaitTarget::entry(index.obj, None);
            txn.core().wait_row(ctx, txn, xid, what, LockWait::Wait).await?;
        };
        for rowid in live {
            out.push(Child { rowid, parent });
        }
    }
    Ok(out)
}

/// A transaction that is deciding about an entry which was there when the parent was marked. One
/// that has come since meets the mark and waits for its end: who waited for it in turn would make a
/// circle.
async fn before_the_mark(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    found: &btree::CurrentEntries,
) -> Result<Option<Xid>> {
    if found.marked.is_some() {
        return Ok(found.marked);
    }
    if found.came.is_empty() {
        return Ok(None);
    }
    // An entry that was marked and brought back is there again if that is rolled back.
    let committed = txn.newest_snapshot()?;
    for (xid, key) in &found.came {
        if btree::lookup(ctx, &committed, seg, key).await?.is_some() {
            return Ok(Some(*xid));
        }
    }
    Ok(None)
}

/// The same without an index: one scan for all.
async fn scanned(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    child: &TableDef,
    key: &ForeignKeyDef,
    parents: &[&[Value]],
) -> Result<Vec<Child>> {
    let mut wanted: Vec<(Vec<u8>, usize)> = Vec::new();
    for (parent, values) in parents.iter().enumerate() {
        wanted.extend(key_of(values, &child.types, &key.columns).map(|key| (key, parent)));
    }
    wanted.sort();
    let keys: BTreeSet<&[u8]> = wanted.iter().map(|(key, _)| key.as_slice()).collect();
    let own_key = |row: &[u8]| {
        let view = RowView::new(&child.types, row);
        let some_null = key.columns.iter().any(|column| view.is_null(usize::from(*column)));
        let values = values_of(&child.types, &key.columns, row);
        if some_null { None } else { key_of(&values, &child.types, &key.columns) }
    };
    let meets = |row: &[u8]| own_key(row).is_some_and(|key| keys.contains(key.as_slice()));
    loop {
        let (mut found, mut busy) = (Vec::new(), None);
        let each = |row: heap::CurrentRow| {
            busy = row.busy;
            found.push((row.rowid, row.bytes));
            busy.is_none()
        };
        heap::current_rows(ctx, txn, &heap_seg(child), &meets, each).await?;
        if let Some(xid) = busy {
            let what = WaitTarget::entry(child.obj, None);
            txn.core().wait_row(ctx, txn, xid, what, LockWait::Wait).await?;
            continue;
        }
        let parent_of = |row: &[u8]| {
            let key = own_key(row)?;
            let at = wanted.binary_search_by(|(known, _)| known.as_slice().cmp(&key)).ok()?;
            Some(wanted[at].1)
        };
        let child =
            |(rowid, row): (Rowid, Vec<u8>)| Some(Child { rowid, parent: parent_of(&row)? });
        return Ok(found.into_iter().filter_map(child).collect());
    }
}
