//! `sum`, `avg`, `min` and `max` of intervals.
//!
//! What it promises: intervals compare by their length, and a sum that does not fit is an error.

use crate::arrow_rows::{ColumnReader, arrow_interval};
use crate::error::PgError;
use crate::interval;
use crate::types::arrow_type;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use kernel::row::{ColType, Datum, Interval, TypeKind};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum What {
    Sum,
    Avg,
    Min,
    Max,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct IntervalAggregate {
    what: What,
    signature: Signature,
}

/// What the aggregate of this name is for intervals.
#[must_use]
pub fn of_name(name: &str) -> Option<Arc<AggregateUDF>> {
    let what = match name {
        "sum" => What::Sum,
        "avg" => What::Avg,
        "min" => What::Min,
        "max" => What::Max,
        _ => return None,
    };
    let signature = Signature::any(1, Volatility::Immutable);
    Some(Arc::new(AggregateUDF::new_from_impl(IntervalAggregate { what, signature })))
}

fn data_type() -> DataType {
    arrow_type(ColType::new(TypeKind::Interval))
}

impl AggregateUDFImpl for IntervalAggregate {
    fn name(&self) -> &'static str {
        match self.what {
            What::Sum => "$sum_interval",
            What::Avg => "$avg_interval",
            What::Min => "$min_interval",
            What::Max => "$max_interval",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(data_type())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        if args.is_distinct && matches!(self.what, What::Sum | What::Avg) {
            return Err(PgError::unsupported("sum or avg of distinct intervals").into());
        }
        Ok(Box::new(SoFar { what: self.what, value: None, count: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let name = format!("{}[value]", args.name);
        let count = format!("{}[count]", args.name);
        Ok(vec![
            Arc::new(Field::new(name, data_type(), true)),
            Arc::new(Field::new(count, DataType::Int64, true)),
        ])
    }
}

#[derive(Debug)]
struct SoFar {
    what: What,
    value: Option<Interval>,
    /// Values that are not NULL.
    count: i64,
}

/// The intervals of a column that are not NULL.
fn known(values: &ArrayRef) -> DfResult<Vec<(usize, Interval)>> {
    let field = Field::new("", values.data_type().clone(), true);
    let reader = ColumnReader::new(values, &field)?;
    let mut all = Vec::with_capacity(values.len());
    for row in 0..values.len() {
        match reader.get(row) {
            Datum::Interval(v) => all.push((row, v)),
            Datum::Null => {}
            _ => return Err(PgError::internal("an aggregate of intervals").into()),
        }
    }
    Ok(all)
}

impl SoFar {
    fn take(&mut self, new: Interval, count: i64) -> DfResult<()> {
        self.count += count;
        self.value = Some(match (self.value, self.what) {
            (None, _) => new,
            (Some(old), What::Sum | What::Avg) => interval::add(old, new)?,
            (Some(old), What::Min) if new.span_us() < old.span_us() => new,
            (Some(old), What::Max) if new.span_us() > old.span_us() => new,
            (Some(old), _) => old,
        });
        Ok(())
    }
}

impl Accumulator for SoFar {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        known(&values[0])?.into_iter().try_for_each(|(_, new)| self.take(new, 1))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for (_, old) in known(&values[0])? {
            self.take(interval::negate(old)?, -1)?;
        }
        if self.count == 0 {
            self.value = None;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        matches!(self.what, What::Sum | What::Avg)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let value = match (self.value, self.what) {
            #[allow(clippy::cast_precision_loss)]
            (Some(sum), What::Avg) => Some(interval::divide(sum, self.count as f64)?),
            (value, _) => value,
        };
        Ok(ScalarValue::IntervalMonthDayNano(value.map(arrow_interval).transpose()?))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let value = self.value.map(arrow_interval).transpose()?;
        Ok(vec![ScalarValue::IntervalMonthDayNano(value), ScalarValue::Int64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let counts = states[1].as_primitive::<Int64Type>();
        for (row, value) in known(&states[0])? {
            self.take(value, counts.value(row))?;
        }
        Ok(())
    }
}
