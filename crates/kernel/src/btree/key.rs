//! The key under which a row's entry stands in an index.

use block::Rowid;

use crate::row::{RowTypes, RowView, encode_key, reverse_key};

/// Writes the entry key of `row` for an index over `columns` (positions from 0) to `out`. In a
/// unique index a key without NULL orders alone; every other key ends with the rowid, so that it is
/// unique too. `reverse`: the columns are turned round.
pub fn entry_key(
    types: &RowTypes,
    columns: &[u16],
    (unique, reverse): (bool, bool),
    row: &[u8],
    rowid: Rowid,
    out: &mut Vec<u8>,
) {
    out.clear();
    let view = RowView::new(types, row);
    let mut has_null = false;
    for &column in columns {
        has_null |= encode_key(&[view.get(usize::from(column))], out);
    }
    if reverse {
        reverse_key(out);
    }
    if !unique || has_null {
        out.extend_from_slice(&rowid.to_u64().to_be_bytes());
    }
}

/// Whether two versions of a row have the same values in these columns.
#[must_use]
pub fn same_key(types: &RowTypes, columns: &[u16], old: &[u8], new: &[u8]) -> bool {
    let (old, new) = (RowView::new(types, old), RowView::new(types, new));
    columns.iter().map(|&c| usize::from(c)).all(|c| old.raw(c) == new.raw(c))
}
