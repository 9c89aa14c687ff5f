//! Rows of a partition that are told by how far they are: from the current one, as `lag` and `lead`
//! have it, or from an end of a frame, as `nth_value` has it.
//!
//! What it promises: where NULLs are passed by, rows without a value are not counted.

use crate::error::{PgError, Result};
use datafusion::arrow::array::{Array, ArrayRef, AsArray, new_null_array};
use datafusion::arrow::compute::interleave;
use datafusion::arrow::datatypes::{FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{PartitionEvaluatorArgs, WindowUDFFieldArgs};
use datafusion::logical_expr::{
    PartitionEvaluator, Signature, Volatility, WindowUDF, WindowUDFImpl,
};
use std::sync::Arc;

/// The function that `nth_value(x, n) FROM LAST` is.
pub const NTH_FROM_LAST: &str = "$nth_from_last";

/// See [`NTH_FROM_LAST`]. It is never called: another one that knows the frame takes its place.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NthFromLast {
    signature: Signature,
}

pub(crate) fn nth_from_last() -> Arc<WindowUDF> {
    let signature = Signature::any(2, Volatility::Immutable);
    Arc::new(WindowUDF::new_from_impl(NthFromLast { signature }))
}

impl WindowUDFImpl for NthFromLast {
    fn name(&self) -> &'static str {
        NTH_FROM_LAST
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn partition_evaluator(
        &self,
        _: PartitionEvaluatorArgs<'_>,
    ) -> DfResult<Box<dyn PartitionEvaluator>> {
        Err(PgError::internal("a place in no frame").into())
    }

    fn field(&self, args: WindowUDFFieldArgs<'_>) -> DfResult<FieldRef> {
        let value = args.get_input_field(0);
        let value = value.ok_or_else(|| PgError::internal("a place of no value"))?;
        Ok(Arc::new(value.as_ref().clone().with_name(args.name()).with_nullable(true)))
    }
}

/// The value of the row so far away from each, or the default where there is no such row; NULL
/// where it is not known how far. `values`: those of the rows, how far, and the defaults. Rows
/// whose value is NULL may be passed by; the current one counts whatever it has.
pub(crate) fn shift(
    values: &[ArrayRef],
    direction: i64,
    rows: usize,
    ignore_nulls: bool,
) -> DfResult<ArrayRef> {
    let nothing = new_null_array(values[0].data_type(), 1);
    let default = values.get(2).unwrap_or(&nothing);
    let offsets = values.get(1).map(|array| array.as_primitive::<Int64Type>());
    let known = ignore_nulls.then(|| Known::of(&values[0], rows));
    let mut picked = Vec::with_capacity(rows);
    for row in 0..rows {
        let offset = match offsets {
            Some(offsets) if offsets.is_null(row) => None,
            Some(offsets) => Some(offsets.value(row)),
            None => Some(1),
        };
        let to = |offset: i64| {
            let offset = offset.checked_mul(direction)?;
            match &known {
                Some(known) => known.away(row, offset),
                None => {
                    let to = i64::try_from(row).ok()?.checked_add(offset)?;
                    usize::try_from(to).ok().filter(|to| *to < rows)
                }
            }
        };
        picked.push(match offset.map(to) {
            None => (2, 0),
            Some(Some(to)) => (0, to),
            Some(None) if values.len() > 2 => (1, row),
            Some(None) => (1, 0),
        });
    }
    Ok(interleave(&[&values[0], default, &nothing], &picked)?)
}

/// The rows that have a value, in their order.
struct Known(Vec<usize>);

impl Known {
    fn of(values: &ArrayRef, rows: usize) -> Known {
        Known((0..rows).filter(|row| values.is_valid(*row)).collect())
    }

    /// The row so many of them away from one, which need not be among them.
    fn away(&self, row: usize, offset: i64) -> Option<usize> {
        let count = usize::try_from(offset.unsigned_abs()).ok()?;
        let Some(more) = count.checked_sub(1) else { return Some(row) };
        let at = if offset < 0 {
            self.0.partition_point(|at| *at < row).checked_sub(count)?
        } else {
            self.0.partition_point(|at| *at <= row).checked_add(more)?
        };
        self.0.get(at).copied()
    }
}

/// The place that `nth_value` is asked for, from 0; NULL asks for none.
pub(crate) fn place(given: &ScalarValue) -> Result<Option<usize>> {
    let n = match given {
        ScalarValue::Int64(Some(n)) => *n,
        ScalarValue::Int32(Some(n)) => i64::from(*n),
        ScalarValue::Int16(Some(n)) => i64::from(*n),
        _ => return Ok(None),
    };
    match usize::try_from(n).ok().and_then(|n| n.checked_sub(1)) {
        Some(at) => Ok(Some(at)),
        None => Err(PgError::new("22016", "argument of nth_value must be greater than zero")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::arrow::array::Int64Array;

    #[test]
    fn rows_without_a_value_are_passed_by() {
        let values = vec![Some(1), None, Some(3), None, Some(5)];
        let values: ArrayRef = Arc::new(Int64Array::from(values));
        let shifted = |offsets: Vec<i64>, direction: i64, default: Option<i64>| {
            let rows = offsets.len();
            let mut all = vec![values.clone(), Arc::new(Int64Array::from(offsets)) as ArrayRef];
            all.extend(default.map(|v| Arc::new(Int64Array::from(vec![v; rows])) as ArrayRef));
            let out = shift(&all, direction, rows, true).unwrap();
            out.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
        };
        let before = vec![None, Some(1), Some(1), Some(3), Some(3)];
        assert_eq!(shifted(vec![1; 5], -1, None), before);
        let second = vec![Some(0), Some(0), Some(0), Some(1), Some(1)];
        assert_eq!(shifted(vec![2; 5], -1, Some(0)), second);
        assert_eq!(shifted(vec![2; 5], 1, None), vec![Some(5), Some(5), None, None, None]);
        // As far as each says, and the current row where that is nowhere.
        let each = vec![Some(1), Some(3), Some(1), None, Some(3)];
        assert_eq!(shifted(vec![0, -1, 1, 0, 1], -1, None), each);
    }
}
