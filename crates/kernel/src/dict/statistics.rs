//! What `ANALYZE` has found out about tables and their columns: kept, read, moved with columns.
//!
//! What it promises: statistics belong to the transaction that has gathered them, are seen by every
//! instance once it has committed, and go with their table or column. What it must never do: read
//! them for those who only work with rows: they are read when a plan first asks.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::ddl::new_estimates;
use super::ddl_rights::lock_object;
use super::def::{AlteredColumn, TableDef};
use super::expression::KEY_EXPR;
use super::fixed::Fixed;
use super::index::IndexDef;
use super::index_statistics::{IndexStats, set_indexes};
use super::names::undefined;
use super::records::read_table;
use super::state::{newest, of};
use super::store::{self, Record, obj};
use crate::error::{Error, Result};
use crate::row::{ColType, Datum, RowTypes, RowView, Value, encode_row};
use crate::txn::{TmMode, Transaction};

/// What is known of one column's values.
#[derive(Clone, PartialEq, Debug)]
pub struct ColumnStats {
    /// Part of the rows that have NULL here.
    pub null_fraction: f64,
    /// Distinct values that are not NULL; below zero: less as many for each row, as PostgreSQL has
    /// it (-1: every value is another).
    pub distinct: f64,
    /// Mean bytes of a value that is not NULL.
    pub width: f64,
    /// Between the order of values and that of rows, -1 to 1; `None` where it means nothing.
    pub correlation: Option<f64>,
    /// The most common values with their parts of all rows, the most common one first.
    pub common: Vec<(Value, f64)>,
    /// Bounds of parts with equally many of the values that are not among the common ones, in their
    /// order; none or at least two.
    pub histogram: Vec<Value>,
}

/// The rows of a table that has been emptied since it was looked through.
const ROWS_UNKNOWN: f64 = -1.0;

/// What is known of a table.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct TableStats {
    pub obj: ObjId,
    /// Below zero: it is not known.
    pub rows: f64,
    /// Blocks below its high-water mark then.
    pub blocks: u64,
    /// Mean bytes of a row.
    pub row_bytes: f64,
    /// Rows that were looked at.
    pub sampled: u64,
    /// When a statement last gathered them, and when the instance did by itself: microseconds of
    /// the wall clock.
    pub analyzed_us: Option<i64>,
    pub autoanalyzed_us: Option<i64>,
    pub analyze_count: i64,
    pub autoanalyze_count: i64,
    /// With their positions, in order.
    pub columns: Vec<(usize, ColumnStats)>,
    /// Of the expressions that indexes are over.
    pub exprs: Vec<ExprStats>,
}

/// What is known of an expression's values.
#[derive(Clone, PartialEq, Debug)]
pub struct ExprStats {
    /// The index that is over it.
    pub index: ObjId,
    /// Which of the index's expressions it is.
    pub place: usize,
    pub values: ColumnStats,
}

impl TableStats {
    /// What is known of the column at a position.
    #[must_use]
    pub fn column(&self, position: usize) -> Option<&ColumnStats> {
        self.columns.iter().find(|(at, _)| *at == position).map(|(_, column)| column)
    }

    /// What is known of an index's expression.
    #[must_use]
    pub fn expr(&self, index: ObjId, place: usize) -> Option<&ColumnStats> {
        let mut all = self.exprs.iter();
        all.find(|one| one.index == index && one.place == place).map(|one| &one.values)
    }
}

/// What an `ANALYZE` has gathered.
#[derive(Clone, PartialEq, Debug)]
pub struct NewStats {
    pub rows: f64,
    pub blocks: u64,
    pub row_bytes: f64,
    pub sampled: u64,
    /// Microseconds of the wall clock.
    pub at_us: i64,
    /// Whether the instance did it by itself.
    pub automatic: bool,
    /// Columns not among them keep what is known of them.
    pub columns: Vec<(usize, ColumnStats)>,
    /// The same of indexes' expressions: all of an index, or none.
    pub exprs: Vec<ExprStats>,
    /// Of indexes as a whole; those not among them keep what is known of them.
    pub indexes: Vec<IndexStats>,
}

/// What was read, behind [`TableDef::statistics`].
struct Known(Option<Arc<TableStats>>);

fn count_of(row: &Record, i: usize) -> Result<u64> {
    row.number(i)
}

fn table_of(row: &Record) -> Result<TableStats> {
    Ok(TableStats {
        obj: row.obj(0)?,
        rows: row.float(1)?,
        blocks: count_of(row, 2)?,
        row_bytes: row.float(3)?,
        sampled: count_of(row, 4)?,
        analyzed_us: row.int_or_null(5)?,
        autoanalyzed_us: row.int_or_null(6)?,
        analyze_count: row.int(7)?,
        autoanalyze_count: row.int(8)?,
        columns: Vec::new(),
        exprs: Vec::new(),
    })
}

fn int8(v: u64) -> Result<Value> {
    Ok(store::int8(v)?.to_value())
}

fn table_values(stats: &TableStats) -> Result<[Value; 9]> {
    let time = |at: Option<i64>| at.map_or(Value::Null, Value::Int8);
    Ok([
        obj(stats.obj).to_value(),
        Value::Float8(stats.rows),
        int8(stats.blocks)?,
        Value::Float8(stats.row_bytes),
        int8(stats.sampled)?,
        time(stats.analyzed_us),
        time(stats.autoanalyzed_us),
        Value::Int8(stats.analyze_count),
        Value::Int8(stats.autoanalyze_count),
    ])
}

/// Values of one type as one row; none: NULL.
pub(super) fn list_value(ty: ColType, values: &[&Value]) -> Value {
    if values.is_empty() {
        return Value::Null;
    }
    let types: RowTypes = vec![ty; values.len()].into();
    let data: Vec<Datum<'_>> = values.iter().map(|value| value.as_datum()).collect();
    // How many they are must be known before the row can be taken apart.
    let count = u32::try_from(values.len()).unwrap_or(u32::MAX);
    let mut out = Vec::new();
    encode_row(&types, &data, &mut out);
    let mut bytes = count.to_le_bytes().to_vec();
    bytes.append(&mut out);
    Value::Bytea(bytes.into())
}

/// The most values that a list has.
const LIST_MAX: u32 = 10_000;

pub(super) fn list_of(row: &Record, i: usize, ty: ColType) -> Result<Vec<Value>> {
    let Some(bytes) = row.bytes_or_null(i)? else { return Ok(Vec::new()) };
    let wrong = || row.unknown("list of values");
    let (count, bytes) = bytes.split_first_chunk::<4>().ok_or_else(wrong)?;
    let count = u32::from_le_bytes(*count);
    if count > LIST_MAX {
        return Err(wrong());
    }
    let types: RowTypes = vec![ty; count as usize].into();
    let view = RowView::checked(&types, bytes).map_err(|_| wrong())?;
    Ok(view.iter().map(|datum| datum.to_value()).collect())
}

fn column_of(row: &Record, types: &[ColType]) -> Result<Option<(usize, ColumnStats)>> {
    let position = usize::try_from(row.int(1)?).map_err(|_| row.unknown("position"))?;
    let Some(ty) = types.get(position) else { return Ok(None) };
    let float = ColType::new(crate::row::TypeKind::Float8);
    let parts = list_of(row, 7, float)?.into_iter().map(|part| match part {
        Value::Float8(part) => Ok(part),
        _ => Err(row.unknown("frequency")),
    });
    let parts = parts.collect::<Result<Vec<f64>>>()?;
    let common = list_of(row, 6, *ty)?;
    if common.len() != parts.len() {
        return Err(row.unknown("list of frequencies"));
    }
    let stats = ColumnStats {
        null_fraction: row.float(2)?,
        distinct: row.float(3)?,
        width: row.float(4)?,
        correlation: row.float_or_null(5)?,
        common: common.into_iter().zip(parts).collect(),
        histogram: list_of(row, 8, *ty)?,
    };
    Ok(Some((position, stats)))
}

fn column_values(
    table: ObjId,
    position: usize,
    ty: ColType,
    stats: &ColumnStats,
) -> Result<[Value; 9]> {
    let float = ColType::new(crate::row::TypeKind::Float8);
    let common: Vec<&Value> = stats.common.iter().map(|(value, _)| value).collect();
    let parts: Vec<Value> = stats.common.iter().map(|(_, part)| Value::Float8(*part)).collect();
    let parts: Vec<&Value> = parts.iter().collect();
    let bounds: Vec<&Value> = stats.histogram.iter().collect();
    Ok([
        obj(table).to_value(),
        store::int4(position)?.to_value(),
        Value::Float8(stats.null_fraction),
        Value::Float8(stats.distinct),
        Value::Float8(stats.width),
        stats.correlation.map_or(Value::Null, Value::Float8),
        list_value(ty, &common),
        list_value(float, &parts),
        list_value(ty, &bounds),
    ])
}

pub(super) async fn insert(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    into: Fixed,
    values: &[Value],
) -> Result<()> {
    let values: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
    store::insert(ctx, txn, of(txn.core())?.fixed(into), &values).await
}

/// What is known of a table; `None`: nobody has looked yet.
///
/// # Errors
/// What reading the dictionary's blocks can fail with.
pub async fn statistics(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
) -> Result<Option<Arc<TableStats>>> {
    if let Some(known) = def.statistics.get::<Known>() {
        return Ok(known.0.clone());
    }
    let (dict, snap) = (of(txn.core())?, newest(txn)?);
    let key = [obj(def.obj)];
    let row = store::one(ctx, &snap, dict.fixed(Fixed::TabStat), 0, &key).await?;
    let found = match row {
        None => None,
        Some(row) => {
            let mut stats = table_of(&row)?;
            stats.columns = match values_of(ctx, txn, def.obj, &def.types).await? {
                Ok(columns) => columns,
                // They may be of a definition that is newer than this one.
                Err(_) if !dict.is_current(txn, def.obj, def.version) => return Ok(None),
                Err(error) => return Err(error),
            };
            for index in &def.computed {
                let types: Vec<ColType> = index.exprs.iter().map(|expr| expr.ty).collect();
                // An instance of an older version does not keep them in step with the index.
                let exprs = values_of(ctx, txn, index.obj, &types).await?.unwrap_or_default();
                let index = index.obj;
                let known = exprs.into_iter();
                stats.exprs.extend(known.map(|(place, values)| ExprStats { index, place, values }));
            }
            Some(Arc::new(stats))
        }
    };
    def.statistics.put(Arc::new(Known(found.clone())));
    Ok(found)
}

/// What is known of a table's columns, or of the expressions of one of its indexes, which have
/// these types, or why it cannot be of them.
async fn values_of(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    number: ObjId,
    types: &[ColType],
) -> Result<Result<Vec<(usize, ColumnStats)>>> {
    let (dict, snap) = (of(txn.core())?, newest(txn)?);
    let rows = store::by_key(ctx, &snap, dict.fixed(Fixed::ColStat), 0, &[obj(number)]).await?;
    let mut found = Vec::new();
    for row in rows {
        match column_of(&row, types) {
            Ok(column) => found.extend(column),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok(found))
}

/// What is known of all tables, without their columns, in no order.
///
/// # Errors
/// As [`statistics`].
pub async fn all_statistics(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Vec<TableStats>> {
    let snap = newest(txn)?;
    let rows = store::all(ctx, &snap, of(txn.core())?.fixed(Fixed::TabStat)).await?;
    rows.iter().map(table_of).collect()
}

/// Keeps what was gathered of a table. Plans that use it end with the commit; those who work with
/// its rows go on.
///
/// # Errors
/// [`Error::UndefinedObject`] if the table is gone; [`Error::ObjectGone`] if its columns are others
/// by now.
pub async fn set_statistics(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    new: &NewStats,
) -> Result<()> {
    let object = lock_object(ctx, txn, table.obj, TmMode::SS).await?;
    let (dict, snap) = (of(txn.core())?, newest(txn)?);
    let now = read_table(ctx, dict, &snap, &object).await?;
    let now = now.ok_or_else(|| undefined("relation", &table.name))?;
    let same = |a: &TableDef, b: &TableDef| {
        let columns = a.columns.iter().zip(&b.columns);
        a.columns.len() == b.columns.len() && columns.into_iter().all(|(a, b)| a.ty == b.ty)
    };
    if !same(&now, table) {
        return Err(Error::ObjectGone);
    }
    let key = [obj(table.obj)];
    let tables = dict.fixed(Fixed::TabStat);
    let old = store::one(ctx, &snap, tables, 0, &key).await?;
    let mut stats = match &old {
        Some(row) => table_of(row)?,
        None => TableStats::default(),
    };
    stats = TableStats {
        obj: table.obj,
        rows: new.rows,
        blocks: new.blocks,
        row_bytes: new.row_bytes,
        sampled: new.sampled,
        ..stats
    };
    if new.automatic {
        stats.autoanalyzed_us = Some(new.at_us);
        stats.autoanalyze_count += 1;
    } else {
        stats.analyzed_us = Some(new.at_us);
        stats.analyze_count += 1;
    }
    let values = table_values(&stats)?;
    if old.is_some() {
        let changes: Vec<(usize, Value)> = values.into_iter().enumerate().skip(1).collect();
        store::change(ctx, txn, tables, 0, &key, |_| Ok(changes.clone())).await?;
    } else {
        insert(ctx, txn, Fixed::TabStat, &values).await?;
    }
    set_columns(ctx, txn, &now, new).await?;
    set_exprs(ctx, txn, table, &now, new).await?;
    // Last: what was known of an index's expressions has gone with all else of the index.
    set_indexes(ctx, txn, &now, new).await?;
    new_estimates(ctx, txn, &object).await
}

async fn set_columns(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    now: &TableDef,
    new: &NewStats,
) -> Result<()> {
    let (columns, snap) = (of(txn.core())?.fixed(Fixed::ColStat), newest(txn)?);
    for row in store::by_key(ctx, &snap, columns, 0, &[obj(now.obj)]).await? {
        let at = usize::try_from(row.int(1)?).map_err(|_| row.unknown("position"))?;
        if new.columns.iter().any(|(position, _)| *position == at) {
            store::delete(ctx, txn, columns, &snap, &row).await?;
        }
    }
    for (position, column) in &new.columns {
        let ty = now.columns.get(*position).ok_or(Error::ObjectGone)?.ty;
        let values = column_values(now.obj, *position, ty, column)?;
        insert(ctx, txn, Fixed::ColStat, &values).await?;
    }
    Ok(())
}

/// `table`: as it was when it was looked through.
async fn set_exprs(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    table: &TableDef,
    now: &TableDef,
    new: &NewStats,
) -> Result<()> {
    for index in &now.computed {
        let gathered = new.exprs.iter().filter(|one| one.index == index.obj);
        let gathered: Vec<&ExprStats> = gathered.collect();
        // An index may have gone meanwhile, or be over something else.
        let same = |before: &Arc<IndexDef>| before.obj == index.obj && before.exprs == index.exprs;
        if gathered.is_empty() || !table.computed.iter().any(same) {
            continue;
        }
        super::ddl::delete_all(ctx, txn, Fixed::ColStat, 0, index.obj).await?;
        for ExprStats { place, values, .. } in gathered {
            let ty = index.exprs.get(*place).ok_or(Error::ObjectGone)?.ty;
            let values = column_values(index.obj, *place, ty, values)?;
            insert(ctx, txn, Fixed::ColStat, &values).await?;
        }
    }
    Ok(())
}

/// The table is empty: nothing is known of it but how often it has been looked through.
pub(super) async fn clear_statistics(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
) -> Result<()> {
    let tables = of(txn.core())?.fixed(Fixed::TabStat);
    let changes = vec![
        (1, Value::Float8(ROWS_UNKNOWN)),
        (2, Value::Int8(0)),
        (3, Value::Float8(0.0)),
        (4, Value::Int8(0)),
    ];
    store::change(ctx, txn, tables, 0, &[obj(def.obj)], |_| Ok(changes.clone())).await?;
    for index in def.all_indexes() {
        super::ddl::delete_all(ctx, txn, Fixed::ColStat, 0, index.obj).await?;
    }
    super::ddl::delete_all(ctx, txn, Fixed::ColStat, 0, def.obj).await
}

/// Statistics follow their columns; those of columns that go or get another type go, and those of
/// indexes over such a column and of expressions that name one.
pub(super) async fn move_statistics(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    columns: &[AlteredColumn],
) -> Result<()> {
    let (table, snap) = (of(txn.core())?.fixed(Fixed::ColStat), newest(txn)?);
    let mut moved = Vec::new();
    for row in store::by_key(ctx, &snap, table, 0, &[obj(def.obj)]).await? {
        if let Some((old, stats)) = column_of(&row, &def.types)? {
            let new = columns.iter().position(|column| column.from == Some(old));
            let kept = new.filter(|new| columns[*new].def.ty.kind == def.columns[old].ty.kind);
            if kept == Some(old) {
                continue;
            }
            moved.extend(kept.map(|new| (new, stats)));
        }
        store::delete(ctx, txn, table, &snap, &row).await?;
    }
    for (position, stats) in moved {
        let ty = columns[position].def.ty;
        let values = column_values(def.obj, position, ty, &stats)?;
        insert(ctx, txn, Fixed::ColStat, &values).await?;
    }
    for index in def.all_indexes() {
        let stays = |named: &u16| {
            let old = usize::from(*named);
            let new = columns.iter().find(|column| column.from == Some(old));
            let kinds = (new.map(|new| new.def.ty.kind), def.columns.get(old).map(|c| c.ty.kind));
            kinds.0.is_some() && kinds.0 == kinds.1
        };
        let named = index.exprs.iter().flat_map(|expr| &expr.columns);
        let keys = index.key_columns().iter().filter(|at| **at < KEY_EXPR);
        if !named.chain(keys).all(stays) {
            super::ddl::delete_all(ctx, txn, Fixed::ColStat, 0, index.obj).await?;
        }
    }
    Ok(())
}
