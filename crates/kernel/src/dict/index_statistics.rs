//! What `ANALYZE` has found out about indexes as a whole: kept and read.
//!
//! What it promises: figures go with their index, and with the rows of a table that is emptied.
//! They stand in `colstat$` at a position that no column has, as a list of numbers to which later
//! releases may add: a database in which there are none yet is like one that nobody has analyzed.
//! What it must never do: have plans read them.

use std::sync::Arc;

use block::ObjId;
use observe::Ctx;

use super::def::TableDef;
use super::fixed::Fixed;
use super::state::{newest, of};
use super::statistics::{NewStats, insert, list_of, list_value};
use super::store::{self, Record, obj};
use crate::error::Result;
use crate::row::{ColType, Datum, TypeKind, Value};
use crate::txn::Transaction;

/// The position of the row in `colstat$`.
const WHOLE: i32 = i32::MAX;
const POSITION: Datum<'static> = Datum::Int4(WHOLE);
/// The column of `colstat$` that has the list.
const LIST: usize = 7;
/// Numbers in the list.
const FIGURES: usize = 7;
/// Stands for a number that is not known.
const UNKNOWN: f64 = -1.0;

/// What is known of an index.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct IndexStats {
    pub index: ObjId,
    /// Levels above its leaves.
    pub levels: u64,
    pub leaves: u64,
    /// Rows that it holds.
    pub rows: f64,
    /// Different keys; `None`: that cannot be told.
    pub keys: Option<f64>,
    /// How often its rows, in its order, are in another block than the one before.
    pub clustering: f64,
    /// Rows that were looked at.
    pub sampled: u64,
    /// When, in microseconds of the wall clock.
    pub at_us: i64,
}

const FLOAT: ColType = ColType::new(TypeKind::Float8);

// Counts and times are below 2^53.
#[allow(clippy::cast_precision_loss)]
fn numbers(stats: &IndexStats) -> [Value; FIGURES] {
    [
        stats.rows,
        stats.keys.unwrap_or(UNKNOWN),
        stats.clustering,
        stats.levels as f64,
        stats.leaves as f64,
        stats.sampled as f64,
        stats.at_us as f64,
    ]
    .map(Value::Float8)
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // it saturates
fn stats_of(index: ObjId, row: &Record) -> Result<IndexStats> {
    let numbers = list_of(row, LIST, FLOAT)?.into_iter().map(|number| match number {
        Value::Float8(number) => Ok(number),
        _ => Err(row.unknown("figure of an index")),
    });
    let numbers = numbers.collect::<Result<Vec<f64>>>()?;
    let Some(&[rows, keys, clustering, levels, leaves, sampled, at]) =
        numbers.first_chunk::<FIGURES>()
    else {
        return Err(row.unknown("list of an index's figures"));
    };
    Ok(IndexStats {
        index,
        levels: levels as u64,
        leaves: leaves as u64,
        rows,
        keys: (keys >= 0.0).then_some(keys),
        clustering,
        sampled: sampled as u64,
        at_us: at as i64,
    })
}

/// What is known of the indexes of a table, of those of which something is known.
///
/// # Errors
/// What reading the dictionary's blocks can fail with.
pub async fn index_statistics(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
) -> Result<Vec<IndexStats>> {
    let (dict, snap) = (of(txn.core())?, newest(txn)?);
    let mut found = Vec::new();
    for index in def.all_indexes() {
        let key = [obj(index.obj), POSITION];
        let row = store::one(ctx, &snap, dict.fixed(Fixed::ColStat), 0, &key).await?;
        if let Some(row) = row {
            found.push(stats_of(index.obj, &row)?);
        }
    }
    Ok(found)
}

/// Keeps what was gathered of the table's indexes, those that there are still.
pub(super) async fn set_indexes(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    now: &TableDef,
    new: &NewStats,
) -> Result<()> {
    let table = of(txn.core())?.fixed(Fixed::ColStat);
    for stats in &new.indexes {
        if !now.all_indexes().any(|index| index.obj == stats.index) {
            continue;
        }
        let numbers = numbers(stats);
        let list: Vec<&Value> = numbers.iter().collect();
        let list = list_value(FLOAT, &list);
        let key = [obj(stats.index), POSITION];
        let change = |_: &Record| Ok(vec![(LIST, list.clone())]);
        if !store::change(ctx, txn, table, 0, &key, change).await? {
            let values = [
                obj(stats.index).to_value(),
                Value::Int4(WHOLE),
                Value::Float8(0.0),
                Value::Float8(0.0),
                Value::Float8(0.0),
                Value::Null,
                Value::Null,
                list,
                Value::Null,
            ];
            insert(ctx, txn, Fixed::ColStat, &values).await?;
        }
    }
    Ok(())
}
