//! The entries of rows in an index: who has one, and under which key.
//!
//! Promises: the keys of plain columns and those that are computed go the same ways.

use block::Rowid;

use crate::btree;
use crate::dict::{IndexDef, KEY_EXPR, TableDef};
use crate::error::Result;
use crate::row::{RowView, Value};

/// Writes a row's key in an index to `out` (cleared first), without what makes it unique. Whether
/// a value of it is NULL.
fn plain_key(
    def: &TableDef,
    index: &IndexDef,
    row: &[u8],
    values: &[Value],
    out: &mut Vec<u8>,
) -> bool {
    out.clear();
    let (view, mut has_null) = (RowView::new(&def.types, row), false);
    for (place, &column) in index.columns.iter().enumerate() {
        let datum = match column.checked_sub(KEY_EXPR) {
            Some(at) => values[usize::from(at)].as_datum(),
            None => view.get(usize::from(column)),
        };
        has_null |= index.encode(place, &datum, out);
    }
    has_null
}

/// The values of the expressions for one row.
fn computed(def: &TableDef, index: &IndexDef, row: &[u8]) -> Result<Vec<Value>> {
    if index.exprs.is_empty() {
        return Ok(Vec::new());
    }
    Ok(index.values(def, &[row])?.pop().unwrap_or_default())
}

/// Writes the key of a row's entry to `out` (cleared first): see [`btree::entry_key`]. `false`: the
/// index does not hold the row.
pub(super) fn entry(
    def: &TableDef,
    index: &IndexDef,
    row: &[u8],
    rowid: Rowid,
    out: &mut Vec<u8>,
) -> Result<bool> {
    if !index.holds(&def.types, row) {
        return Ok(false);
    }
    if index.exprs.is_empty() {
        btree::entry_key(&def.types, &index.columns, index.form(), row, rowid, out);
        return Ok(true);
    }
    let has_null = plain_key(def, index, row, &computed(def, index, row)?, out);
    index.arrange(out);
    if !index.unique || has_null {
        out.extend_from_slice(&rowid.to_u64().to_be_bytes());
    }
    Ok(true)
}

/// Calls `each` with the position and the key of every row that the index holds.
pub(crate) fn entries<'a>(
    def: &TableDef,
    index: &IndexDef,
    rows: impl Iterator<Item = (&'a [u8], Rowid)>,
    mut each: impl FnMut(usize, &[u8], Rowid),
) -> Result<()> {
    let mut key = Vec::new();
    if index.exprs.is_empty() {
        for (at, (row, rowid)) in rows.enumerate() {
            if entry(def, index, row, rowid, &mut key)? {
                each(at, &key, rowid);
            }
        }
        return Ok(());
    }
    let held: Vec<(usize, (&[u8], Rowid))> =
        rows.enumerate().filter(|(_, (row, _))| index.holds(&def.types, row)).collect();
    let bytes: Vec<&[u8]> = held.iter().map(|(_, (row, _))| *row).collect();
    let values = index.values(def, &bytes)?;
    for ((at, (row, rowid)), values) in held.into_iter().zip(&values) {
        let has_null = plain_key(def, index, row, values, &mut key);
        index.arrange(&mut key);
        if !index.unique || has_null {
            key.extend_from_slice(&rowid.to_u64().to_be_bytes());
        }
        each(at, &key, rowid);
    }
    Ok(())
}

/// Whether a row's new version has the entry that the old one has, or neither has one.
pub(super) fn same_entry(def: &TableDef, index: &IndexDef, old: &[u8], new: &[u8]) -> Result<bool> {
    let (had, has) = (index.holds(&def.types, old), index.holds(&def.types, new));
    if !had || !has {
        return Ok(had == has);
    }
    if index.exprs.is_empty() {
        return Ok(btree::same_key(&def.types, &index.columns, old, new));
    }
    let plain = index.columns.iter().filter(|column| **column < KEY_EXPR);
    let named = index.exprs.iter().flat_map(|expr| &expr.columns);
    let all: Vec<u16> = plain.chain(named).copied().collect();
    if btree::same_key(&def.types, &all, old, new) {
        return Ok(true);
    }
    let (mut one, mut other) = (Vec::new(), Vec::new());
    plain_key(def, index, old, &computed(def, index, old)?, &mut one);
    plain_key(def, index, new, &computed(def, index, new)?, &mut other);
    Ok(one == other)
}

/// The key of a row in a unique index; `None` if a column of it is NULL, or the index does
/// not hold the row: such a row has no equal.
pub(super) fn unique_key(def: &TableDef, index: &IndexDef, row: &[u8]) -> Result<Option<Vec<u8>>> {
    if !index.holds(&def.types, row) {
        return Ok(None);
    }
    let mut key = Vec::new();
    let has_null = plain_key(def, index, row, &computed(def, index, row)?, &mut key);
    index.arrange(&mut key);
    Ok((!has_null).then_some(key))
}
