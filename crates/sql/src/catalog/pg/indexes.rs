//! Indexes and the constraints that stand on them: `pg_index`, `pg_constraint`, `pg_indexes`.
//!
//! What it promises: a constraint and its index have one OID. What it must never do: number columns
//! otherwise than `pg_attribute` does.

use super::oid_of;
use crate::catalog::rows::Shape::{Bool, Char, Int2, Name, Oid, Other, Text};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::catalog::{Catalog, functions};
use crate::{check, direct};
use kernel::dict::{CheckDef, ForeignKeyDef, IndexDef, KeyOrder, TableDef};
use kernel::row::Value;
use query::types::oid;

pub(super) fn indexes(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("indexrelid", Oid),
        ("indrelid", Oid),
        ("indnatts", Int2),
        ("indnkeyatts", Int2),
        ("indisunique", Bool),
        ("indnullsnotdistinct", Bool),
        ("indisprimary", Bool),
        ("indisexclusion", Bool),
        ("indimmediate", Bool),
        ("indisclustered", Bool),
        ("indisvalid", Bool),
        ("indcheckxmin", Bool),
        ("indisready", Bool),
        ("indislive", Bool),
        ("indisreplident", Bool),
        ("indkey", Other(oid::INT2VECTOR)),
        ("indoption", Other(oid::INT2VECTOR)),
        ("indexprs", Other(oid::PG_NODE_TREE)),
        ("indpred", Other(oid::PG_NODE_TREE)),
    ]);
    for table in &catalog.tables {
        for index in &table.indexes {
            let count = Value::Int2(i16::try_from(index.columns.len()).unwrap_or(i16::MAX));
            rows.push(vec![
                oid_of(index.obj),
                oid_of(table.obj),
                count.clone(),
                count,
                Value::Bool(index.unique),
                Value::Bool(false),
                Value::Bool(index.primary),
                Value::Bool(false),
                Value::Bool(true),
                Value::Bool(false),
                Value::Bool(true),
                Value::Bool(false),
                Value::Bool(true),
                Value::Bool(true),
                Value::Bool(false),
                text(vector(index, " ")),
                text(options(index)),
                Value::Null,
                Value::Null,
            ]);
        }
    }
    rows
}

pub(super) fn constraints(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("oid", Oid),
        ("conname", Name),
        ("connamespace", Oid),
        ("contype", Char),
        ("condeferrable", Bool),
        ("condeferred", Bool),
        ("convalidated", Bool),
        ("conrelid", Oid),
        ("contypid", Oid),
        ("conindid", Oid),
        ("conparentid", Oid),
        ("confrelid", Oid),
        ("confupdtype", Char),
        ("confdeltype", Char),
        ("confmatchtype", Char),
        ("conislocal", Bool),
        ("connoinherit", Bool),
        ("conkey", Other(1005)),
        ("confkey", Other(1005)),
        ("conbin", Other(oid::PG_NODE_TREE)),
    ]);
    for table in &catalog.tables {
        for index in table.indexes.iter().filter(|i| i.constraint.is_some()) {
            rows.push(vec![
                oid_of(index.obj),
                opt_text(index.constraint.as_deref()),
                int(catalog.schema_oid(&table.schema)),
                text(if index.primary { "p" } else { "u" }),
                Value::Bool(false),
                Value::Bool(false),
                Value::Bool(true),
                oid_of(table.obj),
                int(0),
                oid_of(index.obj),
                int(0),
                int(0),
                text(" "),
                text(" "),
                text(" "),
                Value::Bool(true),
                Value::Bool(true),
                text(format!("{{{}}}", vector(index, ","))),
                Value::Null,
                Value::Null,
            ]);
        }
        let schema = catalog.schema_oid(&table.schema);
        table.checks.iter().for_each(|check| rows.push(check_row(table, check, schema)));
        let keys = table.foreign.iter();
        keys.for_each(|key| rows.push(foreign_row(catalog, table, key, schema)));
    }
    rows
}

fn foreign_row(
    catalog: &Catalog,
    table: &TableDef,
    key: &ForeignKeyDef,
    schema: i64,
) -> Vec<Value> {
    let parent = catalog.tables.iter().find(|parent| parent.obj == key.parent);
    let columns = parent.and_then(|parent| key.parent_columns(parent)).unwrap_or_default();
    let list = |columns: &[u16]| {
        let numbers: Vec<String> = columns.iter().map(|at| (at + 1).to_string()).collect();
        text(format!("{{{}}}", numbers.join(",")))
    };
    vec![
        oid_of(key.obj),
        text(key.name.as_str()),
        int(schema),
        text("f"),
        Value::Bool(key.deferrable),
        Value::Bool(key.deferred),
        Value::Bool(key.validated),
        oid_of(table.obj),
        int(0),
        oid_of(key.index),
        int(0),
        oid_of(key.parent),
        text(key.on_update.code().to_string()),
        text(key.on_delete.code().to_string()),
        text(if key.full { "f" } else { "s" }),
        Value::Bool(true),
        Value::Bool(true),
        list(&key.columns),
        list(&columns),
        Value::Null,
    ]
}

fn check_row(table: &TableDef, check: &CheckDef, schema: i64) -> Vec<Value> {
    vec![
        oid_of(check.obj),
        text(check.name.as_str()),
        int(schema),
        text("c"),
        Value::Bool(false),
        Value::Bool(false),
        Value::Bool(check.valid),
        oid_of(table.obj),
        int(0),
        int(0),
        int(0),
        int(0),
        text(" "),
        text(" "),
        text(" "),
        Value::Bool(true),
        Value::Bool(false),
        check_columns(table, check),
        Value::Null,
        text(check.expr.as_str()),
    ]
}

/// Numbers of the columns that a condition names.
fn check_columns(table: &TableDef, def: &CheckDef) -> Value {
    let Ok(expr) = direct::parse_expr(&def.expr) else { return Value::Null };
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    let columns = check::columns_of(&expr, &names);
    if columns.is_empty() {
        return Value::Null;
    }
    let numbers: Vec<String> = columns.iter().map(|at| (at + 1).to_string()).collect();
    text(format!("{{{}}}", numbers.join(",")))
}

pub(super) fn index_list(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("tablename", Name),
        ("indexname", Name),
        ("indexdef", Text),
    ]);
    for table in &catalog.tables {
        for index in &table.indexes {
            rows.push(vec![
                text(table.schema.as_str()),
                text(table.name.as_str()),
                text(index.name.as_str()),
                text(functions::index_definition(table, index)),
            ]);
        }
    }
    rows
}

/// PostgreSQL's bits for the order of each column.
fn options(index: &IndexDef) -> String {
    let orders = index.orders.iter().copied().chain(std::iter::repeat(KeyOrder::default()));
    let bits = |order: KeyOrder| u8::from(order.descending) | u8::from(order.nulls_first) << 1;
    let all: Vec<String> =
        orders.take(index.columns.len()).map(|order| bits(order).to_string()).collect();
    all.join(" ")
}

fn vector(index: &IndexDef, separator: &str) -> String {
    let numbers: Vec<String> = index.columns.iter().map(|c| (c + 1).to_string()).collect();
    numbers.join(separator)
}
