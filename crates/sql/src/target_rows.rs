//! Rows of a statement's target as a query gives them: address, bytes, new values.
//!
//! What it promises: new values are what their columns can hold.

use crate::plan::ModifyPlan;
use crate::{PgError, Result};
use block::Rowid;
use datafusion::arrow::array::RecordBatch;
use kernel::row::{Datum, Value};
use query::cast::{CastMode, cast};
use query::wire::FormatEnv;

/// Address and bytes of the target's rows in a batch.
pub(crate) struct TargetRows {
    pub(crate) readers: Vec<query::ColumnReader>,
    rowid: usize,
}

impl TargetRows {
    /// As the first two columns.
    pub(crate) fn new(batch: &RecordBatch) -> Result<TargetRows> {
        Ok(TargetRows { readers: query::planner::readers(batch)?, rowid: 0 })
    }

    /// As the last columns, two for each of so many targets.
    pub(crate) fn at_end(batch: &RecordBatch, targets: usize) -> Result<TargetRows> {
        let readers = query::planner::readers(batch)?;
        let rowid = readers.len().saturating_sub(2 * targets);
        Ok(TargetRows { readers, rowid })
    }

    pub(crate) fn get(&self, i: usize) -> Result<(Rowid, &[u8])> {
        self.get_of(0, i)
    }

    /// Of the target of this number.
    pub(crate) fn get_of(&self, target: usize, i: usize) -> Result<(Rowid, &[u8])> {
        let rowid = self.rowid + 2 * target;
        match (self.readers[rowid].get(i), self.readers[rowid + 1].get(i)) {
            (Datum::Int8(rowid), Datum::Bytea(row)) => {
                Ok((Rowid::from_u64(rowid.cast_unsigned()), row))
            }
            _ => Err(PgError::internal("a target row without an address")),
        }
    }

    /// New values of an UPDATE's columns; `None` for DELETE.
    pub(crate) fn new_values(
        &self,
        i: usize,
        plan: &ModifyPlan,
        env: &FormatEnv,
    ) -> Result<Option<Vec<(usize, Value)>>> {
        let Some(set) = &plan.set else { return Ok(None) };
        set.iter()
            .enumerate()
            .map(|(n, at)| {
                let datum = self.readers[2 + n].get(i);
                let ty = plan.table.columns[*at].ty;
                Ok((*at, cast(&datum, ty, CastMode::Assignment, env)?))
            })
            .collect::<Result<Vec<_>>>()
            .map(Some)
    }
}
