//! Indexes and the constraints that stand on them: `pg_index`, `pg_constraint`, `pg_indexes`.
//!
//! What it promises: a constraint and its index have one OID. What it must never do: number columns
//! otherwise than `pg_attribute` does.

use super::oid_of;
use crate::catalog::rows::Shape::{Bool, Char, Int2, Int4, List, Name, Oid, Other, Text};
use crate::catalog::rows::{Rows, int, int2s, oids, opt_text, text};
use crate::catalog::{Catalog, functions, known};
use crate::{check, direct};
use kernel::dict::{CheckDef, ForeignKeyDef, IndexDef, KEY_EXPR, KeyOrder, TableDef};
use kernel::row::Value;
use query::types::{PgType, oid};

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
        ("indkey", List(oid::INT2VECTOR)),
        ("indcollation", List(oid::OIDVECTOR)),
        ("indclass", List(oid::OIDVECTOR)),
        ("indoption", List(oid::INT2VECTOR)),
        ("indexprs", Other(oid::PG_NODE_TREE)),
        ("indpred", Other(oid::PG_NODE_TREE)),
    ]);
    for table in &catalog.tables {
        for index in table.all_indexes() {
            let count = |n: usize| Value::Int2(i16::try_from(n).unwrap_or(i16::MAX));
            let (keys, all) = (index.key_columns(), index.all_columns());
            let ty = |at: &u16| PgType::of(index.part_type(table, *at)).oid.into();
            let types = || keys.iter().map(ty);
            rows.push(vec![
                oid_of(index.obj),
                oid_of(table.obj),
                count(all.len()),
                count(keys.len()),
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
                numbers(&all),
                oids(types().map(|ty| known::TYPES.find(ty).map_or(0, |line| line.number(18)))),
                oids(types().map(known::default_opclass)),
                options(index),
                match index.exprs.is_empty() {
                    true => Value::Null,
                    false => text(expressions(table, index)),
                },
                index.predicate.as_ref().map_or(Value::Null, |condition| {
                    text(crate::ddl::predicate_text(table, condition))
                }),
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
        ("coninhcount", Int4),
        ("conkey", List(oid::INT2_ARRAY)),
        ("confkey", List(oid::INT2_ARRAY)),
        ("conpfeqop", List(oid::OID_ARRAY)),
        ("conppeqop", List(oid::OID_ARRAY)),
        ("conffeqop", List(oid::OID_ARRAY)),
        ("confdelsetcols", List(oid::INT2_ARRAY)),
        ("conexclop", List(oid::OID_ARRAY)),
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
                Value::Int4(0),
                numbers(&index.columns),
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
                Value::Null,
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
    // Both sides are of one type, whose operator compares them.
    let operators: Vec<i64> = key
        .columns
        .iter()
        .map(|at| equality(PgType::of(table.columns[usize::from(*at)].ty).oid.into()))
        .collect();
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
        Value::Int4(0),
        numbers(&key.columns),
        numbers(&columns),
        oids(operators.iter().copied()),
        oids(operators.iter().copied()),
        oids(operators.iter().copied()),
        Value::Null,
        Value::Null,
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
        Value::Int4(0),
        check_columns(table, check),
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
        Value::Null,
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
    int2s(columns.iter().map(|at| i16::try_from(at + 1).unwrap_or(i16::MAX)))
}

/// The operator by which two values of a type are equal; 0 if there is none.
fn equality(type_oid: i64) -> i64 {
    let found = known::OPERATORS
        .iter()
        .find(|op| op.text(1) == "=" && op.number(5) == type_oid && op.number(6) == type_oid);
    found.map_or(0, |op| op.number(0))
}

pub(super) fn index_list(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("schemaname", Name),
        ("tablename", Name),
        ("indexname", Name),
        ("indexdef", Text),
    ]);
    for table in &catalog.tables {
        for index in table.all_indexes() {
            rows.push(vec![
                text(table.schema.as_str()),
                text(table.name.as_str()),
                text(index.name.as_str()),
                text(functions::index_definition(table, index, false)),
            ]);
        }
    }
    rows
}

/// PostgreSQL's bits for the order of each column.
fn options(index: &IndexDef) -> Value {
    let orders = index.orders.iter().copied().chain(std::iter::repeat(KeyOrder::default()));
    let bits = |order: KeyOrder| i16::from(order.descending) | i16::from(order.nulls_first) << 1;
    int2s(orders.take(index.key_columns().len()).map(bits))
}

/// The expressions of a key, as `pg_get_expr` shows them.
fn expressions(table: &TableDef, index: &IndexDef) -> String {
    let exprs = index.key_columns().iter().filter(|at| **at >= KEY_EXPR);
    let shown = exprs.map(|at| {
        let shown = crate::key_exprs::shown_part(table, index, *at, false);
        // A list has the brackets that the expressions need by themselves.
        match shown.strip_prefix("((").and_then(|rest| rest.strip_suffix("))")) {
            Some(inner) => format!("({inner})"),
            None => shown,
        }
    });
    shown.collect::<Vec<_>>().join(", ")
}

/// Columns as `pg_attribute` numbers them; an expression has none.
fn numbers(columns: &[u16]) -> Value {
    let number = |at: &u16| match *at < KEY_EXPR {
        true => i16::try_from(at + 1).unwrap_or(i16::MAX),
        false => 0,
    };
    int2s(columns.iter().map(number))
}
