//! Small helpers over the kernel's tables, shared by the loads.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use block::{ObjId, Rowid};
use kernel::dict::{self, ColumnDef, IndexDef, NewIndex, NewTable, TableDef};
use kernel::row::{ColType, Datum, RowView, TypeKind, encode_key};
use kernel::table;
use kernel::txn::{Snapshot, Transaction};
use kernel::{Error, Result};
use observe::Ctx;

fn column(name: &str, kind: TypeKind) -> ColumnDef {
    let ty = ColType { kind, modifier: -1 };
    ColumnDef { not_null: true, ..ColumnDef::new(name, ty) }
}

/// A table whose columns all must have a value.
#[must_use]
pub fn plain_table(name: &str, columns: &[(&str, TypeKind)], indexes: Vec<NewIndex>) -> NewTable {
    NewTable {
        checks: Vec::new(),
        schema: "public".to_owned(),
        name: name.to_owned(),
        owner: ObjId(dict::SUPERUSER_OBJ.0),
        columns: columns.iter().map(|(name, kind)| column(name, *kind)).collect(),
        indexes,
    }
}

/// A table of numbers, the first its primary key; `filler`: a text at the end.
pub fn numbers(name: &str, columns: &[&str], filler: bool) -> NewTable {
    let mut all: Vec<(&str, TypeKind)> = columns.iter().map(|c| (*c, TypeKind::Int8)).collect();
    if filler {
        all.push(("filler", TypeKind::Text));
    }
    plain_table(name, &all, vec![primary_key(name)])
}

/// The primary key of table `name`: its first column.
#[must_use]
pub fn primary_key(name: &str) -> NewIndex {
    index(&format!("{name}_pkey"), 0, true, true)
}

/// An index on one column.
pub fn index(name: &str, column: u16, unique: bool, primary: bool) -> NewIndex {
    let constraint = unique.then(|| name.to_owned());
    NewIndex {
        kind: Default::default(),
        name: name.to_owned(),
        columns: vec![column],
        included: Default::default(),
        orders: Vec::new(),
        unique,
        primary,
        constraint,
        predicate: None,
        exprs: Vec::new(),
    }
}

/// The definition of a table of the load.
///
/// # Errors
/// Those of the kernel; the table is not there.
pub async fn find(ctx: &Ctx, txn: &Arc<Transaction>, name: &str) -> Result<Arc<TableDef>> {
    dict::table(ctx, txn, "public", name)
        .await?
        .ok_or_else(|| Error::UndefinedObject(name.to_owned()))
}

/// A number of a row.
pub fn int(def: &TableDef, row: &[u8], column: usize) -> i64 {
    match RowView::new(&def.types, row).get(column) {
        Datum::Int8(n) => n,
        other => panic!("{}: column {column} holds {other:?}", def.name),
    }
}

/// The row with this number in the indexed column of a unique index.
///
/// # Errors
/// Those of the kernel.
pub async fn by_key(
    ctx: &Ctx,
    def: &TableDef,
    index: &IndexDef,
    snap: &Snapshot,
    id: i64,
) -> Result<Option<(Rowid, Vec<u8>)>> {
    let mut key = Vec::new();
    encode_key(&[Datum::Int8(id)], &mut key);
    let mut row = Vec::new();
    let found = table::index_lookup(ctx, def, index, &key, snap, &mut row).await?;
    Ok(found.map(|rowid| (rowid, row)))
}

/// All rows by a full scan.
///
/// # Errors
/// Those of the kernel.
///
/// # Panics
/// When the scan shows a row twice.
pub async fn all_rows(
    ctx: &Ctx,
    def: &TableDef,
    snap: &Snapshot,
) -> Result<BTreeMap<Rowid, Vec<u8>>> {
    let mut scan = table::scan(ctx, def, snap).await?;
    let mut rows = BTreeMap::new();
    loop {
        let more = scan
            .next_block(ctx, |rowid, row| {
                let old = rows.insert(rowid, row.to_vec());
                assert!(old.is_none(), "{}: a scan gives row {rowid} twice", def.name);
            })
            .await?;
        if !more {
            return Ok(rows);
        }
    }
}

/// Every index holds exactly the rows of the table, each under its key; from both ends.
///
/// # Errors
/// Those of the kernel.
///
/// # Panics
/// When it does not.
pub async fn indexes_agree(
    ctx: &Ctx,
    def: &TableDef,
    snap: &Snapshot,
    rows: &BTreeMap<Rowid, Vec<u8>>,
) -> Result<()> {
    for index in &def.indexes {
        let column = usize::from(index.columns[0]);
        if index.unique {
            for (rowid, row) in rows {
                let key = int(def, row, column);
                let found = by_key(ctx, def, index, snap, key).await?;
                let found = found.map(|f| f.0);
                assert!(found == Some(*rowid), "{}: key {key} gives {found:?}", index.name);
            }
        }
        let mut expected: Vec<(i64, Rowid)> =
            rows.iter().map(|(rowid, row)| (int(def, row, column), *rowid)).collect();
        expected.sort_unstable();
        for direction in [table::Direction::Forward, table::Direction::Backward] {
            let all = Bound::Unbounded;
            let mut scan = table::index_range(ctx, index, all, all, direction, snap);
            let (mut batch, mut found) = (Vec::new(), Vec::new());
            while scan.next_batch(ctx, &mut batch).await? {
                found.append(&mut batch);
            }
            if direction == table::Direction::Backward {
                found.reverse();
            }
            if found.iter().map(|e| &e.1).eq(expected.iter().map(|e| &e.1)) {
                continue;
            }
            let expected: BTreeSet<Rowid> = expected.iter().map(|e| e.1).collect();
            let rowids: BTreeSet<Rowid> = found.iter().map(|e| e.1).collect();
            panic!(
                "{} {direction:?} at {}: no entry for {:?}, no row for {:?}; {} entries, {} rows",
                index.name,
                snap.scn(),
                expected.difference(&rowids).collect::<Vec<_>>(),
                found.iter().filter(|e| !expected.contains(&e.1)).collect::<Vec<_>>(),
                found.len(),
                expected.len(),
            );
        }
    }
    Ok(())
}
