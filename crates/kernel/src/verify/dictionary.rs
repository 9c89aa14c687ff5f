//! The dictionary: read from its tables as they lie on disk, and looked at for contradictions.

use std::sync::Arc;

use block::{ObjId, Version};

use super::Kind;
use super::blocks::Walk;
use super::heap::HeapRow;
use super::space::Wanted;
use crate::dict::offline::{self, Named, RawRow};
use crate::dict::{SYS, TableDef};
use crate::space::SegmentKind;
use crate::space::layout::read_header;

const OF: &str = "dictionary";

/// What is to be walked besides the dictionary's own tables.
#[derive(Default)]
pub(super) struct Dictionary {
    pub tables: Vec<TableDef>,
    /// Segments of no table that could be read.
    pub other: Vec<Named>,
}

/// The rows as the dictionary reads them.
pub(super) fn raw(row: HeapRow) -> Option<RawRow> {
    let HeapRow { rowid, bytes, settled, .. } = row;
    bytes.map(|bytes| RawRow { rowid, bytes, settled })
}

impl Walk<'_> {
    /// Walks the dictionary's own tables and says what there is besides.
    pub async fn dictionary(&mut self) -> Dictionary {
        let Some(fixed) = self.bootstrap().await else {
            self.blind = true;
            return Dictionary::default();
        };
        let mut all = Vec::new();
        for table in &fixed {
            let mut rows = Vec::new();
            self.table(table, Some(&mut rows)).await;
            all.push(rows);
        }
        let found = offline::read(&fixed, all);
        self.blind |= !found.complaints.is_empty();
        for (rowid, what) in found.complaints {
            let version = match self.one(OF, rowid.dba).await {
                Some(b) => block::layout::version(&b),
                None => Version::ZERO,
            };
            let what = format!("row {rowid}: {what}");
            self.find(Kind::Dictionary, rowid.dba, version, OF, what);
        }
        let walked = |named: &Named| {
            let is =
                |obj, header, birth| (named.obj, named.header, named.birth) == (obj, header, birth);
            found.tables.iter().any(|t| {
                is(t.obj, t.header, t.birth)
                    || t.all_indexes().any(|i| is(i.obj, i.header, i.birth))
            })
        };
        let other = found.segments.into_iter().filter(|s| !walked(s)).collect();
        Dictionary { tables: found.tables, other }
    }

    async fn bootstrap(&mut self) -> Option<Vec<Arc<TableDef>>> {
        let b = self.one(OF, offline::BEGINS).await?;
        let Some(info) = read_header(&b).filter(|info| info.obj == ObjId(1)) else {
            let what = "the dictionary does not begin here".to_owned();
            self.find_in(Kind::Dictionary, &b, offline::BEGINS, OF, what);
            return None;
        };
        let def = offline::bootstrap_table(info.birth);
        let of = format!("table {SYS}.{}", def.name);
        let wanted = Wanted {
            of: &of,
            obj: def.obj,
            header: def.header,
            birth: def.birth,
            kind: SegmentKind::Heap,
        };
        let segment = self.segment(&wanted).await?;
        let mut rows = Vec::new();
        self.heap(&wanted, &segment, &mut |row| rows.extend(raw(row))).await;
        match offline::fixed_tables(info.birth, &rows) {
            Ok(fixed) => Some(fixed),
            Err(e) => {
                self.find_in(Kind::Dictionary, &b, offline::BEGINS, OF, e.to_string());
                None
            }
        }
    }
}
