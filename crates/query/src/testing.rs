//! Tables for unit tests, as the dictionary would have them.

use std::sync::Arc;

use block::{Dba, ObjId, Scn};
use kernel::dict::{Changes, ColumnDef, Derived, IndexDef, TableDef, TableStats};
use kernel::row::{ColType, TypeKind, Value};

use crate::analyze::column_stats;

/// A table `t` of these columns and indexes.
pub(crate) fn table(columns: &[(&str, TypeKind)], indexes: Vec<Arc<IndexDef>>) -> TableDef {
    let columns: Vec<ColumnDef> =
        columns.iter().map(|(name, kind)| ColumnDef::new(name, ColType::new(*kind))).collect();
    TableDef {
        obj: ObjId(20_000),
        schema: "public".into(),
        name: "t".into(),
        owner: ObjId(10),
        acl: None,
        types: columns.iter().map(|column| column.ty).collect(),
        columns,
        header: Dba::NONE,
        birth: Scn(1),
        indexes,
        partial: vec![],
        computed: vec![],
        checks: vec![],
        foreign: vec![],
        referenced: vec![],
        comment: None,
        view: None,
        materialized: None,
        derived: Derived::default(),
        statistics: Derived::default(),
        changes: Changes::default(),
        version: 1,
        form: 1,
    }
}

/// What ANALYZE knows of it with so many rows of these values, by column and row.
pub(crate) fn known(
    table: &TableDef,
    rows: i32,
    value: impl Fn(usize, i32) -> Value,
) -> TableStats {
    let columns = table.columns.iter().enumerate().map(|(at, column)| {
        let values: Vec<Value> = (0..rows).map(|i| value(at, i)).collect();
        (at, column_stats(column.ty, values.iter().map(Value::as_datum), f64::from(rows)))
    });
    TableStats { rows: f64::from(rows), columns: columns.collect(), ..TableStats::default() }
}
