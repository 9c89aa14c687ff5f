//! The dictionary from rows as they lie on disk, for who looks at a database that nobody has opened
//! for it.
//!
//! Promises: what cannot be read, or does not fit together, is a complaint and never a panic.
//! Must never be used by a running instance: it knows nothing of snapshots and locks.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::{Dba, ObjId, Rowid, Scn};

use super::bootstrap::{BOOTSTRAP_HEADER, bootstrap_def, define_all, place_of};
use super::def::{Changes, ColumnDef, Derived, ObjectKind, TableDef};
use super::expression::{Evaluator, KEY_EXPR};
use super::fixed::{Fixed, TABLES, USER_OBJ_MIN};
use super::ids::NEXT_OBJ;
use super::index::IndexDef;
use super::records::{at, check_of, column_of, foreign_of, index_of, object_of, orphan_of};
use super::store::Record;
use crate::error::{Error, Result};
use crate::row::{ColType, EnumLabel, EnumType, RowTypes, TypeKind};

/// A row as it lies in its block.
#[derive(Clone, Debug)]
pub(crate) struct RawRow {
    pub rowid: Rowid,
    pub bytes: Vec<u8>,
    /// No open transaction has made, changed, locked or deleted it.
    pub settled: bool,
}

/// A segment that some row of the dictionary names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Named {
    pub header: Dba,
    pub birth: Scn,
    pub obj: ObjId,
    /// A transaction that makes or drops it is open, or nobody needs it any more: it may be gone.
    pub settled: bool,
}

/// What the dictionary says.
#[derive(Default)]
pub(crate) struct Found {
    /// Users' tables with their indexes.
    pub tables: Vec<TableDef>,
    /// All users' segments, those of `tables` among them.
    pub segments: Vec<Named>,
    /// Tables and indexes whose definition is being changed.
    pub unsettled: Vec<String>,
    pub complaints: Vec<(Rowid, String)>,
}

/// Where the dictionary begins.
pub(crate) const BEGINS: Dba = BOOTSTRAP_HEADER;

/// The table that says where the others are; `birth`: its segment's.
pub(crate) fn bootstrap_table(birth: Scn) -> TableDef {
    bootstrap_def(birth)
}

/// The dictionary's own tables, in the order of [`Fixed`].
///
/// # Errors
/// A row cannot be read, or one is missing.
pub(crate) fn fixed_tables(birth: Scn, rows: &[RawRow]) -> Result<Vec<Arc<TableDef>>> {
    let def = bootstrap_def(birth);
    let read = |row: &RawRow| place_of(&Record::decode(&def, row.rowid, row.bytes.clone())?);
    let places = rows.iter().map(read).collect::<Result<Vec<_>>>()?;
    define_all(&places)
}

fn sentence(e: &Error) -> String {
    match e {
        Error::Corrupt { what, .. } => what.clone(),
        e => e.to_string(),
    }
}

/// The rows of all tables, read, and which objects open transactions are at.
struct Rows {
    records: Vec<Vec<(Record, bool)>>,
    unsettled: BTreeSet<ObjId>,
    complaints: Vec<(Rowid, String)>,
}

/// Columns by which a table's rows name objects.
fn naming(table: usize) -> &'static [usize] {
    const NAMES: [(Fixed, &[usize]); 11] = [
        (Fixed::Obj, &[0]),
        (Fixed::Tab, &[0]),
        (Fixed::Col, &[0]),
        (Fixed::Ind, &[0, 1]),
        (Fixed::Seq, &[0]),
        (Fixed::View, &[0]),
        (Fixed::Con, &[0]),
        (Fixed::Ref, &[0, 4, 5]),
        (Fixed::Orphan, &[2]),
        (Fixed::Type, &[0]),
        (Fixed::Enum, &[0]),
    ];
    NAMES.iter().find(|(t, _)| *t as usize == table).map_or(&[], |(_, columns)| columns)
}

impl Rows {
    fn read(fixed: &[Arc<TableDef>], raw: Vec<Vec<RawRow>>) -> Rows {
        let mut all =
            Rows { records: Vec::new(), unsettled: BTreeSet::new(), complaints: Vec::new() };
        for (no, (def, raw)) in fixed.iter().zip(raw).enumerate() {
            let mut records = Vec::new();
            for RawRow { rowid, bytes, settled } in raw {
                match Record::decode(def, rowid, bytes) {
                    Ok(record) => {
                        if !settled {
                            let named = naming(no).iter().filter_map(|&i| record.obj(i).ok());
                            all.unsettled.extend(named);
                        }
                        records.push((record, settled));
                    }
                    Err(e) => all.complaints.push((rowid, sentence(&e))),
                }
            }
            all.records.push(records);
        }
        all
    }

    /// All rows of a table.
    fn all(&self, table: Fixed) -> &[(Record, bool)] {
        &self.records[table as usize]
    }

    /// The rows that stay whatever open transactions do.
    fn of(&self, table: Fixed) -> impl Iterator<Item = &Record> {
        self.all(table).iter().filter(|(_, settled)| *settled).map(|(row, _)| row)
    }

    fn numbers(&self, table: Fixed, column: usize) -> BTreeSet<ObjId> {
        self.of(table).filter_map(|row| row.obj(column).ok()).collect()
    }
}

/// Notes an error as a complaint about its row.
fn tried<T>(complaints: &mut Vec<(Rowid, String)>, row: &Record, read: Result<T>) -> Option<T> {
    read.map_err(|e| complaints.push((row.rowid, sentence(&e)))).ok()
}

/// Reads the dictionary from the rows of its tables, in the order of [`Fixed`].
pub(crate) fn read(fixed: &[Arc<TableDef>], raw: Vec<Vec<RawRow>>) -> Found {
    let rows = Rows::read(fixed, raw);
    let mut found = Found { complaints: rows.complaints.clone(), ..Found::default() };
    find_segments(&rows, &mut found);
    find_tables(&rows, &mut found);
    check_names(&rows, &mut found);
    check_numbers(&rows, &mut found);
    found
}

fn find_segments(rows: &Rows, found: &mut Found) {
    let places = [(Fixed::Tab, at::TAB_HEADER, at::TAB_BIRTH)];
    let places = places.into_iter().chain([(Fixed::Ind, at::IND_HEADER, at::IND_BIRTH)]);
    let mut segments: BTreeMap<(Dba, Scn), Named> = BTreeMap::new();
    for (table, header, birth) in places {
        for (row, settled) in rows.all(table) {
            let named = row.obj(0).and_then(|obj| {
                let (header, birth) = (row.dba(header)?, row.scn(birth)?);
                Ok(Named { header, birth, obj, settled: *settled })
            });
            let Some(named) = tried(&mut found.complaints, row, named) else { continue };
            if named.header.is_none() || named.obj.0 < USER_OBJ_MIN {
                continue;
            }
            let old = segments.insert((named.header, named.birth), named);
            if let Some(old) = old.filter(|old| old.settled && named.settled) {
                let what = format!("objects {} and {} have one segment", old.obj, named.obj);
                found.complaints.push((row.rowid, what));
            }
        }
    }
    for (row, _) in rows.all(Fixed::Orphan) {
        let orphan = tried(&mut found.complaints, row, orphan_of(row));
        if let Some((_, orphan)) = orphan {
            let (header, birth, obj) = (orphan.header, orphan.birth, orphan.obj);
            let named = Named { header, birth, obj, settled: false };
            segments.entry((header, birth)).or_insert(named);
        }
    }
    found.segments = segments.into_values().collect();
}

fn enum_types(rows: &Rows, complaints: &mut Vec<(Rowid, String)>) -> BTreeMap<ObjId, ColType> {
    let mut types = BTreeMap::new();
    for row in rows.of(Fixed::Type) {
        let def = row.obj(0).and_then(|obj| {
            let (schema, name) = (row.text(at::TYPE_SCHEMA)?, row.text(at::TYPE_NAME)?);
            let (schema, name) = (schema.to_owned(), name.to_owned());
            Ok(EnumType { obj, schema, name, labels: Vec::new() })
        });
        if let Some(def) = tried(complaints, row, def) {
            types.insert(def.obj, def);
        }
    }
    for row in rows.of(Fixed::Enum) {
        let label = row.obj(0).and_then(|of| {
            let text = row.text(at::ENUM_LABEL)?.to_owned();
            Ok((of, EnumLabel { obj: row.obj(2)?, position: row.int(1)?, text }))
        });
        let Some((of, label)) = tried(complaints, row, label) else { continue };
        match types.get_mut(&of) {
            Some(def) => def.labels.push(label),
            None if rows.unsettled.contains(&of) => {}
            None => complaints.push((row.rowid, format!("a label of type {of}, which is none"))),
        }
    }
    let ready = |(obj, mut def): (ObjId, EnumType)| {
        def.labels.sort_by_key(|label| label.position);
        (obj, ColType::of_enum(def).0)
    };
    types.into_iter().map(ready).collect()
}

/// The columns of all tables and views; `None`: they cannot be read.
fn columns_of(rows: &Rows, found: &mut Found) -> BTreeMap<ObjId, Option<Vec<ColumnDef>>> {
    let types = enum_types(rows, &mut found.complaints);
    let mut columns: BTreeMap<ObjId, BTreeMap<i64, Option<ColumnDef>>> = BTreeMap::new();
    for (row, _) in rows.all(Fixed::Col) {
        let Ok((obj, position)) = row.obj(0).and_then(|obj| Ok((obj, row.int(1)?))) else {
            continue;
        };
        if rows.unsettled.contains(&obj) {
            continue;
        }
        let mut column = tried(&mut found.complaints, row, column_of(row));
        if let Some(column) = column.as_mut().filter(|c| c.ty.kind == TypeKind::Enum) {
            let number = ObjId(column.ty.modifier.cast_unsigned());
            match types.get(&number) {
                Some(ty) => column.ty = *ty,
                None => {
                    let what = format!("column {} has no type {number}", column.name);
                    found.complaints.push((row.rowid, what));
                }
            }
        }
        columns.entry(obj).or_default().insert(position, column);
    }
    let whole = |columns: BTreeMap<i64, Option<ColumnDef>>| {
        let dense = columns.keys().copied().eq(0..columns.len() as i64);
        dense.then(|| columns.into_values().collect::<Option<Vec<_>>>()).flatten()
    };
    columns.into_iter().map(|(obj, columns)| (obj, whole(columns))).collect()
}

fn find_tables(rows: &Rows, found: &mut Found) {
    let mut names = BTreeMap::new();
    for row in rows.of(Fixed::Obj) {
        if let Some(object) = tried(&mut found.complaints, row, object_of(row)) {
            names.insert(object.obj, object);
        }
    }
    let mut columns = columns_of(rows, found);
    let mut indexes: BTreeMap<ObjId, Vec<IndexDef>> = BTreeMap::new();
    for row in rows.of(Fixed::Ind) {
        let Ok(obj) = row.obj(0) else { continue };
        let name = names.get(&obj).map_or_else(|| obj.to_string(), |o| o.name.clone());
        if let Some(index) =
            tried(&mut found.complaints, row, index_of(row, name, &Evaluator::default()))
        {
            indexes.entry(index.table).or_default().push(index);
        }
    }
    for (row, settled) in rows.all(Fixed::Tab) {
        let place =
            row.obj(0).and_then(|obj| Ok((obj, row.dba(at::TAB_HEADER)?, row.scn(at::TAB_BIRTH)?)));
        // Those that cannot be read have been complained of.
        let Ok((obj, header, birth)) = place else { continue };
        if header.is_none() || obj.0 < USER_OBJ_MIN {
            continue;
        }
        let Some(object) = names.get(&obj).filter(|_| *settled) else {
            found.unsettled.push(format!("table {obj}"));
            continue;
        };
        let columns = match columns.remove(&obj) {
            Some(Some(columns)) => columns,
            None if rows.unsettled.contains(&obj) => {
                found.unsettled.push(format!("table {}", object.name));
                continue;
            }
            _ => {
                let what = format!("the columns of table {} are incomplete", object.name);
                found.complaints.push((row.rowid, what));
                continue;
            }
        };
        let (mut own, mut partial, mut computed) = (Vec::new(), Vec::new(), Vec::new());
        for index in indexes.remove(&obj).unwrap_or_default() {
            // Those of expressions have been looked at.
            let is_none = |c: &u16| *c < KEY_EXPR && usize::from(*c) >= columns.len();
            if index.all_columns().iter().any(is_none) {
                let what = format!("index {} is on a column that is none", index.name);
                found.complaints.push((row.rowid, what));
                continue;
            }
            let to = match (&index.predicate, index.exprs.is_empty()) {
                (_, false) => &mut computed,
                (Some(_), true) => &mut partial,
                (None, true) => &mut own,
            };
            to.push(Arc::new(index));
        }
        found.tables.push(TableDef {
            obj,
            schema: object.schema.clone(),
            name: object.name.clone(),
            owner: object.owner,
            acl: None,
            types: RowTypes::new(
                columns.iter().map(|column| column.ty).collect(),
                columns.iter().map(|column| column.missing.clone()).collect(),
            ),
            columns,
            header,
            birth,
            indexes: own,
            partial,
            computed,
            checks: Vec::new(),
            foreign: Vec::new(),
            referenced: Vec::new(),
            comment: None,
            view: None,
            materialized: None,
            derived: Derived::default(),
            statistics: Derived::default(),
            changes: Changes::default(),
            version: object.version,
            form: object.form,
        });
    }
}

/// Every object has the rows of its kind, and every row its object.
fn check_names(rows: &Rows, found: &mut Found) {
    let settled = |obj: &ObjId| !rows.unsettled.contains(obj);
    let parts = [Fixed::Tab, Fixed::Ind, Fixed::Seq, Fixed::View].map(|t| rows.numbers(t, 0));
    let [tables, indexes, sequences, views] = &parts;
    let objects = rows.numbers(Fixed::Obj, 0);
    for row in rows.of(Fixed::Obj) {
        let Some(object) = object_of(row).ok().filter(|object| settled(&object.obj)) else {
            continue;
        };
        let obj = object.obj;
        let whole = match object.kind {
            ObjectKind::Table => tables.contains(&obj),
            ObjectKind::Index => indexes.contains(&obj),
            ObjectKind::Sequence => sequences.contains(&obj),
            ObjectKind::View | ObjectKind::Materialized => {
                tables.contains(&obj) && views.contains(&obj)
            }
        };
        if !whole {
            let what = format!("object {} ({obj}) is not described", object.name);
            found.complaints.push((row.rowid, what));
        }
    }
    let known = |obj: &ObjId, of: &BTreeSet<ObjId>| of.contains(obj) || !settled(obj);
    let references = [
        (Fixed::Tab, 0, &objects),
        (Fixed::Ind, 0, &objects),
        (Fixed::Seq, 0, &objects),
        (Fixed::View, 0, &objects),
        (Fixed::Col, 0, tables),
        (Fixed::Ind, 1, tables),
        (Fixed::Con, 0, tables),
        (Fixed::Ref, 0, tables),
        (Fixed::Ref, 4, tables),
        (Fixed::Ref, 5, indexes),
    ];
    for (table, column, of) in references {
        for row in rows.of(table) {
            let Ok(obj) = row.obj(column) else { continue };
            if !known(&obj, of) {
                let table = TABLES[table as usize].name;
                let what = format!("a row of {table} names object {obj}, which is not there");
                found.complaints.push((row.rowid, what));
            }
        }
    }
    for row in rows.of(Fixed::Con) {
        let _ = tried(&mut found.complaints, row, check_of(row));
    }
    for row in rows.of(Fixed::Ref) {
        let _ = tried(&mut found.complaints, row, foreign_of(row));
    }
}

/// No object has a number that is still to be given out.
fn check_numbers(rows: &Rows, found: &mut Found) {
    let mut next = None;
    for (row, _) in rows.all(Fixed::Props) {
        if row.text(0).is_ok_and(|name| name == NEXT_OBJ) {
            next = row.text(1).ok().and_then(|text| text.parse::<u32>().ok());
        }
    }
    for row in rows.of(Fixed::Obj) {
        let Ok(obj) = row.obj(0) else { continue };
        if next.is_none_or(|next| obj.0 >= next) {
            let what = format!("object {obj} has a number that is still to be given out");
            found.complaints.push((row.rowid, what));
        }
    }
}
