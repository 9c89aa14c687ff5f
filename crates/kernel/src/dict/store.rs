//! Rows of the dictionary's tables: read by key or all, inserted, replaced, deleted.
//!
//! The one place where the dictionary calls `table`. Values from disk are checked here: a row of
//! another shape is an error that names its block, never a panic.

use std::ops::Bound;
use std::sync::Arc;

use block::{Dba, ObjId, Rowid, Scn};
use observe::{Call, Ctx, Recursive};

use super::def::TableDef;
use super::state::newest;
use crate::error::{Error, Result};
use crate::row::{Datum, RowView, Value, encode_key};
use crate::table::{self, Change, Direction, LockWait};
use crate::txn::{Snapshot, Transaction};

/// One row: where it is, its bytes (for the change that follows) and its values.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub rowid: Rowid,
    pub bytes: Vec<u8>,
    values: Vec<Value>,
}

impl Record {
    pub(super) fn decode(def: &TableDef, rowid: Rowid, bytes: Vec<u8>) -> Result<Record> {
        let view = RowView::checked(&def.types, &bytes)
            .map_err(|e| corrupt(rowid, format!("row of {}: {e}", def.name)))?;
        let values = view.iter().map(|datum| datum.to_value()).collect();
        Ok(Record { rowid, bytes, values })
    }

    fn wrong(&self, i: usize) -> Error {
        corrupt(self.rowid, format!("column {i} of a dictionary row is {:?}", self.values[i]))
    }

    /// An error for values that no release writes.
    pub fn unknown(&self, what: &str) -> Error {
        corrupt(self.rowid, format!("dictionary row with an unknown {what}"))
    }

    pub fn int(&self, i: usize) -> Result<i64> {
        match self.values[i] {
            Value::Int8(v) => Ok(v),
            Value::Int4(v) => Ok(i64::from(v)),
            _ => Err(self.wrong(i)),
        }
    }

    pub fn number(&self, i: usize) -> Result<u64> {
        u64::try_from(self.int(i)?).map_err(|_| self.wrong(i))
    }

    pub fn int4(&self, i: usize) -> Result<i32> {
        i32::try_from(self.int(i)?).map_err(|_| self.wrong(i))
    }

    pub fn float(&self, i: usize) -> Result<f64> {
        match self.values[i] {
            Value::Float8(v) => Ok(v),
            _ => Err(self.wrong(i)),
        }
    }

    pub fn float_or_null(&self, i: usize) -> Result<Option<f64>> {
        if self.values[i].is_null() { Ok(None) } else { self.float(i).map(Some) }
    }

    pub fn int_or_null(&self, i: usize) -> Result<Option<i64>> {
        if self.values[i].is_null() { Ok(None) } else { self.int(i).map(Some) }
    }

    pub fn bool(&self, i: usize) -> Result<bool> {
        match self.values[i] {
            Value::Bool(v) => Ok(v),
            _ => Err(self.wrong(i)),
        }
    }

    pub fn is_null(&self, i: usize) -> bool {
        self.values[i].is_null()
    }

    pub fn text(&self, i: usize) -> Result<&str> {
        self.text_or_null(i)?.ok_or_else(|| self.wrong(i))
    }

    pub fn text_or_null(&self, i: usize) -> Result<Option<&str>> {
        match &self.values[i] {
            Value::Null => Ok(None),
            Value::Text(v) => Ok(Some(v)),
            _ => Err(self.wrong(i)),
        }
    }

    pub fn bytes_or_null(&self, i: usize) -> Result<Option<&[u8]>> {
        match &self.values[i] {
            Value::Null => Ok(None),
            Value::Bytea(v) => Ok(Some(v)),
            _ => Err(self.wrong(i)),
        }
    }

    pub fn obj(&self, i: usize) -> Result<ObjId> {
        u32::try_from(self.int(i)?).map(ObjId).map_err(|_| self.wrong(i))
    }

    pub fn obj_or_null(&self, i: usize) -> Result<Option<ObjId>> {
        if self.values[i].is_null() { Ok(None) } else { self.obj(i).map(Some) }
    }

    pub fn dba(&self, i: usize) -> Result<Dba> {
        self.number(i).map(Dba::from_u64)
    }

    pub fn scn(&self, i: usize) -> Result<Scn> {
        self.number(i).map(Scn)
    }

    /// The values, with some replaced.
    fn with<'a>(&'a self, changes: &'a [(usize, Value)]) -> Vec<Datum<'a>> {
        let mut values: Vec<Datum<'a>> = self.values.iter().map(Value::as_datum).collect();
        for (i, value) in changes {
            values[*i] = value.as_datum();
        }
        values
    }
}

fn corrupt(rowid: Rowid, what: String) -> Error {
    Error::Corrupt { dba: rowid.dba, what }
}

/// A number as the dictionary's `bigint` columns hold it.
///
/// # Errors
/// Numbers beyond 63 bits: no address, SCN or version ever is.
pub(super) fn int8(v: u64) -> Result<Datum<'static>> {
    i64::try_from(v)
        .map(Datum::Int8)
        .map_err(|_| Error::Invariant(format!("{v} does not fit a dictionary column")))
}

pub(super) fn obj(v: ObjId) -> Datum<'static> {
    Datum::Int8(i64::from(v.0))
}

/// The key of an object's row.
pub(crate) fn obj_key(v: ObjId) -> [Datum<'static>; 1] {
    [obj(v)]
}

/// A position or a count, as an `integer` column holds it.
pub(super) fn int4(v: usize) -> Result<Datum<'static>> {
    i32::try_from(v)
        .map(Datum::Int4)
        .map_err(|_| Error::Invariant(format!("{v} does not fit a dictionary column")))
}

pub(super) fn text_or_null(v: Option<&str>) -> Datum<'_> {
    v.map_or(Datum::Null, Datum::Text)
}

/// What a trace shows of a look into a table of the dictionary.
fn select<'a>(ctx: &'a Ctx, def: &TableDef, key: Option<(usize, usize)>) -> Recursive<'a> {
    ctx.recursive(Call::Fetch, || format!("select * from {}{}", def.name, condition(def, key)))
}

/// `where`, for this many columns of an index.
fn condition(def: &TableDef, key: Option<(usize, usize)>) -> String {
    let Some((index_no, columns)) = key else { return String::new() };
    let named = def.indexes[index_no].columns.iter().take(columns).enumerate();
    let named = named.map(|(i, at)| {
        let column = &def.columns[usize::from(*at)].name;
        format!("{column} = :{}", i + 1)
    });
    let named: Vec<String> = named.collect();
    format!(" where {}", named.join(" and "))
}

/// Rows whose key in the table's index `index_no` begins with `key`, in key order.
pub(super) async fn by_key(
    ctx: &Ctx,
    snap: &Snapshot,
    def: &TableDef,
    index_no: usize,
    key: &[Datum<'_>],
) -> Result<Vec<Record>> {
    let mut told = select(ctx, def, Some((index_no, key.len())));
    let mut prefix = Vec::new();
    encode_key(key, &mut prefix);
    let index = &def.indexes[index_no];
    let bound = Bound::Included(prefix.as_slice());
    let mut scan = table::index_range(ctx, index, bound, bound, Direction::Forward, snap);
    let mut found = Vec::new();
    let mut batch = Vec::new();
    loop {
        let more = scan.next_batch(ctx, &mut batch).await?;
        for (_, rowid) in batch.drain(..) {
            let mut bytes = Vec::new();
            if !table::fetch(ctx, def, rowid, snap, &mut bytes).await? {
                return Err(corrupt(rowid, format!("no row for an entry of {}", index.name)));
            }
            found.push(Record::decode(def, rowid, bytes)?);
        }
        if !more {
            told.rows(found.len() as u64);
            return Ok(found);
        }
    }
}

/// The row with this whole key, if there is one.
pub(crate) async fn one(
    ctx: &Ctx,
    snap: &Snapshot,
    def: &TableDef,
    index_no: usize,
    key: &[Datum<'_>],
) -> Result<Option<Record>> {
    let mut told = select(ctx, def, Some((index_no, key.len())));
    let found = find(ctx, snap, def, index_no, key).await?;
    told.rows(u64::from(found.is_some()));
    Ok(found)
}

async fn find(
    ctx: &Ctx,
    snap: &Snapshot,
    def: &TableDef,
    index_no: usize,
    key: &[Datum<'_>],
) -> Result<Option<Record>> {
    let mut bytes = Vec::new();
    let mut encoded = Vec::new();
    encode_key(key, &mut encoded);
    let index = &def.indexes[index_no];
    match table::index_lookup(ctx, def, index, &encoded, snap, &mut bytes).await? {
        Some(rowid) => Record::decode(def, rowid, bytes).map(Some),
        None => Ok(None),
    }
}

/// All rows, in no order.
pub(super) async fn all(ctx: &Ctx, snap: &Snapshot, def: &TableDef) -> Result<Vec<Record>> {
    let mut told = select(ctx, def, None);
    let mut scan = table::scan(ctx, def, snap).await?;
    let mut rows: Vec<(Rowid, Vec<u8>)> = Vec::new();
    while scan.next_block(ctx, |rowid, row| rows.push((rowid, row.to_vec()))).await? {}
    told.rows(rows.len() as u64);
    rows.into_iter().map(|(rowid, bytes)| Record::decode(def, rowid, bytes)).collect()
}

pub(super) async fn insert(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    values: &[Datum<'_>],
) -> Result<()> {
    let mut told = ctx.recursive(Call::Exec, || {
        let places: Vec<String> = (1..=values.len()).map(|i| format!(":{i}")).collect();
        format!("insert into {} values ({})", def.name, places.join(","))
    });
    table::insert(ctx, txn, def, &def.encode(values)).await?;
    told.rows(1);
    Ok(())
}

/// Changes columns of the row with this whole key, `make` says how from the row as it stands; waits
/// for others who are changing it. `false` if there is no such row.
pub(crate) async fn change(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    index_no: usize,
    key: &[Datum<'_>],
    mut make: impl FnMut(&Record) -> Result<Vec<(usize, Value)>> + Send,
) -> Result<bool> {
    let mut told = ctx.recursive(Call::Exec, || {
        let set: Vec<String> =
            def.columns.iter().map(|column| format!("{}=:new", column.name)).collect();
        format!(
            "update {} set {}{}",
            def.name,
            set.join(","),
            condition(def, Some((index_no, key.len())))
        )
    });
    loop {
        let snap = newest(txn)?;
        let Some(seen) = find(ctx, &snap, def, index_no, key).await? else {
            return Ok(false);
        };
        let new = def.encode(&seen.with(&make(&seen)?));
        let wait = LockWait::Wait;
        let done = table::update(ctx, txn, def, seen.rowid, &snap, &seen.bytes, &new, wait).await?;
        match done {
            Change::Done => {
                told.rows(1);
                return Ok(true);
            }
            // Locked now, in a version that only a new snapshot shows.
            Change::Newer(_) => {}
            Change::Gone | Change::Skipped => return Ok(false),
        }
    }
}

/// Deletes a row that the transaction's newest snapshot has shown.
pub(super) async fn delete(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    snap: &Snapshot,
    seen: &Record,
) -> Result<()> {
    let mut told =
        ctx.recursive(Call::Exec, || format!("delete from {} where rowid = :1", def.name));
    match table::delete(ctx, txn, def, seen.rowid, snap, &seen.bytes, LockWait::Wait).await? {
        Change::Done => {
            told.rows(1);
            Ok(())
        }
        Change::Newer(_) | Change::Gone | Change::Skipped => Err(Error::Serialization(format!(
            "a row of {} was changed by another session at the same time",
            def.name
        ))),
    }
}

/// Deletes the row unless another transaction has it locked or changed; says whether it did.
pub(super) async fn try_delete(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    snap: &Snapshot,
    seen: &Record,
) -> Result<bool> {
    let skip = LockWait::SkipLocked;
    let done = table::delete(ctx, txn, def, seen.rowid, snap, &seen.bytes, skip).await?;
    Ok(matches!(done, Change::Done))
}
