//! `sum`, `min` and `max` of intervals.
//!
//! What it promises: intervals compare by their length, and a sum that does not fit is an error.

use crate::arrow_rows::{ColumnReader, arrow_interval};
use crate::error::PgError;
use crate::interval;
use crate::types::arrow_type;
use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
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
        if args.is_distinct && self.what == What::Sum {
            return Err(PgError::unsupported("sum of distinct intervals").into());
        }
        Ok(Box::new(SoFar { what: self.what, value: None }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let name = format!("{}[value]", args.name);
        Ok(vec![Arc::new(Field::new(name, data_type(), true))])
    }
}

#[derive(Debug)]
struct SoFar {
    what: What,
    value: Option<Interval>,
}

impl Accumulator for SoFar {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let field = Field::new("", values[0].data_type().clone(), true);
        let reader = ColumnReader::new(&values[0], &field)?;
        for row in 0..values[0].len() {
            let new = match reader.get(row) {
                Datum::Interval(v) => v,
                Datum::Null => continue,
                _ => return Err(PgError::internal("an aggregate of intervals").into()),
            };
            self.value = Some(match (self.value, self.what) {
                (None, _) => new,
                (Some(old), What::Sum) => interval::add(old, new)?,
                (Some(old), What::Min) if new.span_us() < old.span_us() => new,
                (Some(old), What::Max) if new.span_us() > old.span_us() => new,
                (Some(old), _) => old,
            });
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let value = self.value.map(arrow_interval).transpose()?;
        Ok(ScalarValue::IntervalMonthDayNano(value))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        self.update_batch(states)
    }
}
