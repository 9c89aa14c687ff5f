//! The key under which a row's entry stands in an index.

use block::Rowid;

use crate::row::{KeyOrder, RowTypes, RowView, encode_ordered, reverse_key};

/// What the keys of an index are like.
#[derive(Clone, Copy, Debug)]
pub struct KeyForm<'a> {
    /// A key without NULL orders alone.
    pub unique: bool,
    /// The columns are turned round.
    pub reverse: bool,
    /// How the values of the columns stand; those of further columns ascend.
    pub orders: &'a [KeyOrder],
}

/// Writes the entry key of `row` for an index over `columns` (positions from 0) to `out`. In a
/// unique index a key without NULL orders alone; every other key ends with the rowid, so that it is
/// unique too.
pub fn entry_key(
    types: &RowTypes,
    columns: &[u16],
    form: KeyForm<'_>,
    row: &[u8],
    rowid: Rowid,
    out: &mut Vec<u8>,
) {
    out.clear();
    let view = RowView::new(types, row);
    let mut has_null = false;
    for (at, &column) in columns.iter().enumerate() {
        let order = form.orders.get(at).copied().unwrap_or_default();
        has_null |= encode_ordered(&view.get(usize::from(column)), order, out);
    }
    if form.reverse {
        reverse_key(out);
    }
    if !form.unique || has_null {
        out.extend_from_slice(&rowid.to_u64().to_be_bytes());
    }
}

/// Whether two versions of a row have the same values in these columns.
#[must_use]
pub fn same_key(types: &RowTypes, columns: &[u16], old: &[u8], new: &[u8]) -> bool {
    let (old, new) = (RowView::new(types, old), RowView::new(types, new));
    columns.iter().map(|&c| usize::from(c)).all(|c| old.raw(c) == new.raw(c))
}
