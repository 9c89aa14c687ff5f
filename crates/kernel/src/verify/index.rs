//! A table with its indexes: every row has its entries, every entry its row.

use std::hash::Hasher;

use block::{Dba, Rowid, Version};
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};

use super::Kind;
use super::blocks::Walk;
use super::dictionary::raw;
use super::heap::HeapRow;
use super::space::Wanted;
use crate::btree::entry_key;
use crate::dict::offline::RawRow;
use crate::dict::{IndexDef, TableDef};
use crate::row::RowView;
use crate::space::SegmentKind;

/// Rowid and sum of the key.
pub(super) type Entry = (u64, u64);

/// Stands for the keys of an index on expressions: nobody computes them here. Each row has one
/// entry all the same.
const NOT_COMPUTED: u64 = 0;

/// What stands for a key.
pub(super) fn sum_of(key: &[u8]) -> u64 {
    let mut hasher = FxHasher::default();
    hasher.write(key);
    hasher.finish()
}

/// The rows of a table, as its indexes should know them.
struct Rows<'a> {
    def: &'a TableDef,
    indexes: Vec<&'a IndexDef>,
    /// For each index.
    expected: Vec<Vec<Entry>>,
    /// Open transactions are at them.
    unsettled: FxHashSet<u64>,
    versions: FxHashMap<Dba, Version>,
    complaints: Vec<(Rowid, Version, String)>,
    key: Vec<u8>,
}

impl<'a> Rows<'a> {
    fn new(def: &'a TableDef) -> Rows<'a> {
        let indexes: Vec<&IndexDef> = def.all_indexes().map(|index| &**index).collect();
        Rows {
            def,
            expected: vec![Vec::new(); indexes.len()],
            indexes,
            unsettled: FxHashSet::default(),
            versions: FxHashMap::default(),
            complaints: Vec::new(),
            key: Vec::new(),
        }
    }

    fn take(&mut self, row: &HeapRow) {
        let HeapRow { rowid, bytes, settled, version } = row;
        self.versions.insert(rowid.dba, *version);
        let (true, Some(bytes)) = (*settled, bytes) else {
            self.unsettled.insert(rowid.to_u64());
            return;
        };
        let view = match RowView::checked(&self.def.types, bytes) {
            Ok(view) => view,
            Err(e) => {
                self.unsettled.insert(rowid.to_u64());
                return self.complaints.push((*rowid, *version, e.to_string()));
            }
        };
        for (i, column) in self.def.columns.iter().enumerate() {
            if column.not_null && view.is_null(i) {
                let what = format!("column {} has no value", column.name);
                self.complaints.push((*rowid, *version, what));
            }
        }
        let types = &self.def.types;
        for (index, expected) in self.indexes.iter().zip(&mut self.expected) {
            if !index.holds(types, bytes) {
                continue;
            }
            if index.exprs.is_empty() {
                entry_key(types, &index.columns, index.form(), bytes, *rowid, &mut self.key);
                expected.push((rowid.to_u64(), sum_of(&self.key)));
            } else {
                expected.push((rowid.to_u64(), NOT_COMPUTED));
            }
        }
    }
}

impl Walk<'_> {
    /// Walks a table and its indexes; `keep` gets the rows as the dictionary reads them.
    pub async fn table(&mut self, def: &TableDef, keep: Option<&mut Vec<RawRow>>) {
        let of = format!("table {}.{}", def.schema, def.name);
        let wanted = Wanted {
            of: &of,
            obj: def.obj,
            header: def.header,
            birth: def.birth,
            kind: SegmentKind::Heap,
        };
        self.counts.tables += 1;
        let mut rows = Rows::new(def);
        let heap = self.segment(&wanted).await;
        if let Some(segment) = &heap {
            let mut kept = Vec::new();
            let keeps = keep.is_some();
            let mut each = |row: HeapRow| {
                rows.take(&row);
                if keeps {
                    kept.extend(raw(row));
                }
            };
            self.heap(&wanted, segment, &mut each).await;
            if let Some(keep) = keep {
                *keep = kept;
            }
        }
        for (rowid, version, what) in std::mem::take(&mut rows.complaints) {
            self.find(Kind::Row, rowid.dba, version, &of, format!("row {rowid}: {what}"));
        }
        let expected = std::mem::take(&mut rows.expected);
        for (index, mut expected) in rows.indexes.iter().zip(expected) {
            let of = format!("index {}.{}", def.schema, index.name);
            self.counts.indexes += 1;
            let Some(mut entries) = self.tree(&of, index, &mut rows.unsettled).await else {
                continue;
            };
            if heap.is_none() {
                continue;
            }
            if !index.exprs.is_empty() {
                entries.iter_mut().for_each(|(_, sum)| *sum = NOT_COMPUTED);
            }
            expected.sort_unstable();
            entries.sort_unstable();
            self.counts.entries += entries.len() as u64;
            self.compare(&of, &rows, &expected, &entries);
        }
    }

    /// Both sides are sorted.
    fn compare(&mut self, of: &str, rows: &Rows<'_>, expected: &[Entry], entries: &[Entry]) {
        let (mut e, mut f) = (0, 0);
        while e < expected.len() || f < entries.len() {
            let (row, entry) = (expected.get(e), entries.get(f));
            if f > 0 && entry.is_some() && entry == entries.get(f - 1) {
                self.differs(of, rows, entries[f].0, "has the same entry twice");
                f += 1;
                continue;
            }
            match (row, entry) {
                (Some(row), Some(entry)) if row == entry => {
                    e += 1;
                    f += 1;
                }
                (Some(row), entry) if entry.is_none_or(|entry| row < entry) => {
                    self.differs(of, rows, row.0, "has no entry for its key");
                    e += 1;
                }
                (_, Some(entry)) => {
                    self.differs(of, rows, entry.0, "has an entry, but no such row or key");
                    f += 1;
                }
                (_, None) => break,
            }
        }
    }

    fn differs(&mut self, of: &str, rows: &Rows<'_>, rowid: u64, what: &str) {
        let settled = !rows.unsettled.contains(&rowid);
        let rowid = Rowid::from_u64(rowid);
        if !settled || self.is_damaged(rowid.dba) {
            return;
        }
        let version = rows.versions.get(&rowid.dba).copied().unwrap_or_default();
        self.find(Kind::Index, rowid.dba, version, of, format!("row {rowid} {what}"));
    }
}
