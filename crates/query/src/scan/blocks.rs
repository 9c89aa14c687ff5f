//! How many blocks a scan by bitmaps visits, for what EXPLAIN tells of it.
//!
//! What it promises: an index is gone down once for each set of its rows, and read as far as the
//! set's share of its rows goes; rows that come in the order of their addresses bring each block
//! once. What it must never do: decide anything.

use super::{Access, Bits, ScanWork};
use crate::estimate::{ITEMS, rows_kept};
use crate::implied::scalar_of;
use crate::scalar::{Scalar, item_count};
use kernel::dict::{IndexDef, IndexKind};

/// Blocks that one block of branches leads to.
const BRANCHES: f64 = 200.0;

impl ScanWork {
    /// Blocks of the indexes that give the sets of rows; `None`: it is not bitmaps that do.
    pub(crate) fn bitmap_blocks(&self) -> Option<f64> {
        match &self.access {
            Access::Range { index, .. } if index.kind == IndexKind::Bitmap => {
                Some(self.blocks_read(index, self.rows_found(), 1.0))
            }
            Access::Keys { index, keys } if index.kind == IndexKind::Bitmap => {
                #[allow(clippy::cast_precision_loss)] // a guess
                let keys = item_count(keys, ITEMS) as f64;
                Some(self.blocks_read(index, self.rows_found(), keys))
            }
            Access::Bits(found) => Some(self.blocks_of_sets(&found.bits)),
            _ => None,
        }
    }

    /// Blocks of the table that so many rows are in.
    pub(crate) fn blocks_of(&self, rows: f64) -> f64 {
        let blocks = self.size.blocks.max(1.0);
        (blocks * (1.0 - (1.0 - 1.0 / blocks).powf(rows))).max(1.0)
    }

    /// Blocks of an index in which so many of its rows are found with so many descents.
    fn blocks_read(&self, index: &IndexDef, rows: f64, descents: f64) -> f64 {
        let leaves = self.blocks_of_index(index);
        let levels = if leaves > 1.0 { (leaves.ln() / BRANCHES.ln()).ceil() } else { 0.0 };
        // A partial index has no other rows than its predicate says.
        let own = index.predicate.as_ref().and_then(|own| scalar_of(own, &self.types));
        let all = own.map_or(self.size.rows, |own| rows_kept(&self.table, &[own], &self.size));
        let share = (rows / all.max(1.0)).min(1.0);
        descents * levels + (share * leaves).max(descents)
    }

    /// All blocks of an index; 1 if it is not known how many there are.
    fn blocks_of_index(&self, index: &IndexDef) -> f64 {
        let table = &self.table;
        let mut all = table.indexes.iter().chain(&table.partial).chain(&table.computed);
        let at = all.position(|known| known.obj == index.obj);
        at.and_then(|at| self.size.index_blocks.get(at).copied()).unwrap_or(1.0)
    }

    fn blocks_of_sets(&self, bits: &Bits) -> f64 {
        let read = |index: &IndexDef, said: &dyn Fn(Scalar) -> Scalar| {
            let column = index.columns.first().map(|column| Scalar::Column(usize::from(*column)));
            let said: Vec<Scalar> = column.map(said).into_iter().collect();
            self.blocks_read(index, rows_kept(&self.table, &said, &self.size), 1.0)
        };
        let sum = |parts: &[Bits]| parts.iter().map(|part| self.blocks_of_sets(part)).sum::<f64>();
        match bits {
            Bits::One { index, op, value } => {
                read(index, &|column| Scalar::compare(*op, column, value.clone()))
            }
            Bits::Null(index) => read(index, &|column| Scalar::IsNull(Box::new(column))),
            Bits::Given(index) => {
                read(index, &|column| Scalar::Not(Box::new(Scalar::IsNull(Box::new(column)))))
            }
            Bits::All(parts) | Bits::Any(parts) => sum(parts),
            Bits::Minus(base, parts) => self.blocks_of_sets(base) + sum(parts),
        }
    }
}
