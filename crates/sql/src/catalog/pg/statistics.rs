//! What ANALYZE has found out: `pg_stats`, `pg_statistic`, and the tables' life in
//! `pg_stat_all_tables` and `pg_stat_user_tables`.
//!
//! What it promises: of a column only those see something who may read it. What is not counted here
//! is NULL. What it must never do: look at rows.

use super::oid_of;
use crate::access::{held, held_on_column};
use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{
    Bool, Float8, Int2, Int4, Int8, List, Name, Oid, Other, Timestamptz,
};
use crate::catalog::rows::{Rows, Shape, int, text};
use kernel::dict::{AclKind, ColumnStats, Privileges, TableDef, TableStats};
use kernel::instance::Instance;
use kernel::row::{ColType, TypeKind, Value};
use observe::Stat;
use query::array::array_value;
use query::datetime::EPOCH_US;
use query::types::PgType;
use query::wire::{FormatEnv, to_text};
use std::sync::Arc;

/// PostgreSQL's number of `anyarray`.
const ANYARRAY: u32 = 2277;
/// The same of `double precision[]`.
const FLOAT8_ARRAY: u32 = 1022;

/// Values in the form of an array's text; none: NULL.
fn any_array<'a>(values: impl Iterator<Item = &'a Value>) -> Value {
    let env = FormatEnv::plain();
    let texts: Vec<Value> = values.map(|value| text(to_text(&value.as_datum(), &env))).collect();
    if texts.is_empty() {
        return Value::Null;
    }
    let array = array_value(ColType::new(TypeKind::Text), &texts);
    text(to_text(&array.as_datum(), &env))
}

fn floats(values: impl Iterator<Item = f64>) -> Value {
    let all: Vec<Value> = values.map(Value::Float8).collect();
    if all.is_empty() { Value::Null } else { array_value(ColType::new(TypeKind::Float8), &all) }
}

fn common(stats: &ColumnStats) -> Value {
    any_array(stats.common.iter().map(|(value, _)| value))
}

fn parts(stats: &ColumnStats) -> Value {
    floats(stats.common.iter().map(|(_, part)| *part))
}

#[allow(clippy::cast_possible_truncation)] // of a value's bytes
fn width(stats: &ColumnStats) -> Value {
    Value::Int4(stats.width.round() as i32)
}

/// Columns with statistics, with their tables.
fn known(catalog: &Catalog) -> impl Iterator<Item = (&TableDef, usize, &ColumnStats)> {
    catalog.tables.iter().flat_map(|table| {
        let stats = catalog.statistics.get(&table.obj);
        let columns = stats.into_iter().flat_map(|stats| &stats.columns);
        columns.map(|(at, column)| (&**table, *at, column))
    })
}

fn may_read(catalog: &Catalog, table: &TableDef, column: usize) -> bool {
    let (roles, role) = (&catalog.roles, catalog.role);
    held(roles, role, (AclKind::Relation, table.owner), table.acl.as_ref()).has(Privileges::SELECT)
        || held_on_column(roles, role, table, column).has(Privileges::SELECT)
}

pub(super) fn stats(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("tablename", Name),
        ("attname", Name),
        ("inherited", Bool),
        ("null_frac", Float8),
        ("avg_width", Int4),
        ("n_distinct", Float8),
        ("most_common_vals", Other(ANYARRAY)),
        ("most_common_freqs", List(FLOAT8_ARRAY)),
        ("histogram_bounds", Other(ANYARRAY)),
        ("correlation", Float8),
        ("most_common_elems", Other(ANYARRAY)),
        ("most_common_elem_freqs", List(FLOAT8_ARRAY)),
        ("elem_count_histogram", List(FLOAT8_ARRAY)),
    ]);
    for (table, at, stats) in known(catalog) {
        if !may_read(catalog, table, at) {
            continue;
        }
        rows.push(vec![
            text(table.schema.as_str()),
            text(table.name.as_str()),
            text(table.columns[at].name.as_str()),
            Value::Bool(false),
            Value::Float8(stats.null_fraction),
            width(stats),
            Value::Float8(stats.distinct),
            common(stats),
            parts(stats),
            any_array(stats.histogram.iter()),
            stats.correlation.map_or(Value::Null, Value::Float8),
            Value::Null,
            Value::Null,
            Value::Null,
        ]);
    }
    rows
}

/// Kinds of what a slot of `pg_statistic` holds, with its numbers and values.
fn slots(stats: &ColumnStats) -> Vec<(i16, Value, Value)> {
    let mut slots = Vec::new();
    if !stats.common.is_empty() {
        slots.push((1, parts(stats), common(stats)));
    }
    if !stats.histogram.is_empty() {
        slots.push((2, Value::Null, any_array(stats.histogram.iter())));
    }
    if let Some(correlation) = stats.correlation {
        slots.push((3, floats(std::iter::once(correlation)), Value::Null));
    }
    slots.resize(5, (0, Value::Null, Value::Null));
    slots
}

pub(super) fn statistic(catalog: &Catalog) -> Rows {
    let mut columns = vec![
        ("starelid".to_owned(), Oid),
        ("staattnum".to_owned(), Int2),
        ("stainherit".to_owned(), Bool),
        ("stanullfrac".to_owned(), Float8),
        ("stawidth".to_owned(), Int4),
        ("stadistinct".to_owned(), Float8),
    ];
    let slot = |name: &'static str, shape| (1..=5).map(move |i| (format!("{name}{i}"), shape));
    let shapes = [
        ("stakind", Int2),
        ("staop", Oid),
        ("stacoll", Oid),
        ("stanumbers", List(FLOAT8_ARRAY)),
        ("stavalues", Other(ANYARRAY)),
    ];
    for (name, shape) in shapes {
        columns.extend(slot(name, shape));
    }
    let columns: Vec<(&str, _)> = columns.iter().map(|(name, shape)| (&**name, *shape)).collect();
    let mut rows = Rows::new(&columns);
    for (table, at, stats) in known(catalog) {
        let slots = slots(stats);
        let ty = PgType::of(table.columns[at].ty);
        let mut operators = Vec::new();
        let mut collations = Vec::new();
        for (kind, ..) in &slots {
            let text = *kind != 0 && table.columns[at].ty.kind.is_text();
            collations.push(int(if text { 100 } else { 0 }));
            let operator = if *kind == 1 { "=" } else { "<" };
            let found = (*kind != 0).then(|| super::routines::operator_of(operator, ty.oid));
            operators.push(int(found.flatten().unwrap_or(0)));
        }
        let mut row = vec![
            oid_of(table.obj),
            Value::Int2(i16::try_from(at + 1).unwrap_or(i16::MAX)),
            Value::Bool(false),
            Value::Float8(stats.null_fraction),
            width(stats),
            Value::Float8(stats.distinct),
        ];
        row.extend(slots.iter().map(|(kind, ..)| Value::Int2(*kind)));
        row.extend(operators);
        row.extend(collations);
        row.extend(slots.iter().map(|(_, numbers, _)| numbers.clone()));
        row.extend(slots.iter().map(|(.., values)| values.clone()));
        rows.push(row);
    }
    rows
}

#[allow(clippy::cast_possible_truncation)] // saturates
fn rows_of(stats: Option<&TableStats>) -> i64 {
    stats.map_or(0, |stats| stats.rows.max(0.0) as i64)
}

/// What is counted of tables; the dictionary's own are not shown at all.
pub(super) fn tables(catalog: &Catalog) -> Rows {
    const NOT_COUNTED: [&str; 4] = ["seq_scan", "seq_tup_read", "idx_scan", "idx_tup_fetch"];
    let mut columns = vec![("relid", Oid), ("schemaname", Name), ("relname", Name)];
    columns.extend(NOT_COUNTED.map(|name| (name, Int8)));
    columns.extend([
        ("n_tup_ins", Int8),
        ("n_tup_upd", Int8),
        ("n_tup_del", Int8),
        ("n_tup_hot_upd", Int8),
        ("n_live_tup", Int8),
        ("n_dead_tup", Int8),
        ("n_mod_since_analyze", Int8),
        ("n_ins_since_vacuum", Int8),
        ("last_vacuum", Timestamptz),
        ("last_autovacuum", Timestamptz),
        ("last_analyze", Timestamptz),
        ("last_autoanalyze", Timestamptz),
        ("vacuum_count", Int8),
        ("autovacuum_count", Int8),
        ("analyze_count", Int8),
        ("autoanalyze_count", Int8),
    ]);
    let mut rows = Rows::new(&columns);
    for table in &catalog.tables {
        let stats = catalog.statistics.get(&table.obj);
        let stats = stats.map(|stats| &**stats);
        let time = |at: Option<i64>| at.map_or(Value::Null, |us| Value::Timestamptz(us - EPOCH_US));
        let mut row =
            vec![oid_of(table.obj), text(table.schema.as_str()), text(table.name.as_str())];
        row.extend(NOT_COUNTED.map(|_| Value::Null));
        row.extend([Value::Null, Value::Null, Value::Null, Value::Null]);
        row.extend([
            Value::Int8(rows_of(stats)),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            time(stats.and_then(|stats| stats.analyzed_us)),
            time(stats.and_then(|stats| stats.autoanalyzed_us)),
            Value::Int8(0),
            Value::Int8(0),
            Value::Int8(stats.map_or(0, |stats| stats.analyze_count)),
            Value::Int8(stats.map_or(0, |stats| stats.autoanalyze_count)),
        ]);
        rows.push(row);
    }
    rows
}

/// Indexes, whose use is not counted.
pub(super) fn indexes(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("relid", Oid),
        ("indexrelid", Oid),
        ("schemaname", Name),
        ("relname", Name),
        ("indexrelname", Name),
        ("idx_scan", Int8),
        ("idx_tup_read", Int8),
        ("idx_tup_fetch", Int8),
    ]);
    for table in &catalog.tables {
        for index in table.all_indexes() {
            rows.push(vec![
                oid_of(table.obj),
                oid_of(index.obj),
                text(table.schema.as_str()),
                text(table.name.as_str()),
                text(index.name.as_str()),
                Value::Null,
                Value::Null,
                Value::Null,
            ]);
        }
    }
    rows
}

/// Tables, whose blocks are not counted each by itself.
pub(super) fn table_blocks(catalog: &Catalog) -> Rows {
    const NOT_COUNTED: [&str; 8] = [
        "heap_blks_read",
        "heap_blks_hit",
        "idx_blks_read",
        "idx_blks_hit",
        "toast_blks_read",
        "toast_blks_hit",
        "tidx_blks_read",
        "tidx_blks_hit",
    ];
    let mut columns = vec![("relid", Oid), ("schemaname", Name), ("relname", Name)];
    columns.extend(NOT_COUNTED.map(|name| (name, Int8)));
    let mut rows = Rows::new(&columns);
    for table in &catalog.tables {
        let mut row =
            vec![oid_of(table.obj), text(table.schema.as_str()), text(table.name.as_str())];
        row.extend(NOT_COUNTED.map(|_| Value::Null));
        rows.push(row);
    }
    rows
}

/// The database as this instance has seen it.
pub(super) fn database(instance: &Arc<Instance>) -> Rows {
    let observer = &instance.observer;
    let count = |stat| Value::Int8(i64::try_from(observer.stat(stat)).unwrap_or(i64::MAX));
    let visited = observer.stat(Stat::ConsistentGets) + observer.stat(Stat::DbBlockGets);
    let read = observer.stat(Stat::PhysicalReads);
    let hit = i64::try_from(visited.saturating_sub(read)).unwrap_or(i64::MAX);
    let backends = i32::try_from(observer.user_session_count()).unwrap_or(i32::MAX);
    let started = Value::Timestamptz(observer.started_wall_us() - EPOCH_US);
    let known = [
        ("datid", Oid, int(super::super::DATABASE_OID)),
        ("datname", Name, text("skein")),
        ("numbackends", Int4, Value::Int4(backends)),
        ("xact_commit", Int8, count(Stat::UserCommits)),
        ("xact_rollback", Int8, count(Stat::UserRollbacks)),
        ("blks_read", Int8, count(Stat::PhysicalReads)),
        ("blks_hit", Int8, Value::Int8(hit)),
    ];
    const NOT_COUNTED: [(&str, Shape); 20] = [
        ("tup_returned", Int8),
        ("tup_fetched", Int8),
        ("tup_inserted", Int8),
        ("tup_updated", Int8),
        ("tup_deleted", Int8),
        ("conflicts", Int8),
        ("temp_files", Int8),
        ("temp_bytes", Int8),
        ("deadlocks", Int8),
        ("checksum_failures", Int8),
        ("checksum_last_failure", Timestamptz),
        ("blk_read_time", Float8),
        ("blk_write_time", Float8),
        ("session_time", Float8),
        ("active_time", Float8),
        ("idle_in_transaction_time", Float8),
        ("sessions", Int8),
        ("sessions_abandoned", Int8),
        ("sessions_fatal", Int8),
        ("sessions_killed", Int8),
    ];
    let mut columns: Vec<(&str, Shape)> =
        known.iter().map(|(name, shape, _)| (*name, *shape)).collect();
    columns.extend(NOT_COUNTED);
    columns.push(("stats_reset", Timestamptz));
    let mut rows = Rows::new(&columns);
    let mut row: Vec<Value> = known.into_iter().map(|(.., value)| value).collect();
    row.extend(NOT_COUNTED.map(|_| Value::Null));
    row.push(started);
    rows.push(row);
    rows
}
