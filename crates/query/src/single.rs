//! The value of a scalar subquery: the one row it has, NULL if it has none, an error if it has
//! several.
//!
//! DataFusion plans a correlated scalar subquery only if it is an aggregate; with this one it is.

use crate::error::PgError;
use datafusion::arrow::array::{Array, ArrayRef, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// Its name in bound statements.
pub const SINGLE: &str = "$single";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Single {
    signature: Signature,
}

/// The aggregate.
#[must_use]
pub fn single_aggregate() -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Single { signature }))
}

impl AggregateUDFImpl for Single {
    fn name(&self) -> &'static str {
        SINGLE
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let value = ScalarValue::try_from(args.return_field.data_type())?;
        Ok(Box::new(One { value, rows: 0 }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let value = args.return_field.as_ref().clone().with_name(format!("{}[value]", args.name));
        let rows = Field::new(format!("{}[rows]", args.name), DataType::UInt64, false);
        Ok(vec![Arc::new(value.with_nullable(true)), Arc::new(rows)])
    }
}

#[derive(Debug)]
struct One {
    value: ScalarValue,
    rows: u64,
}

impl One {
    fn take(&mut self, value: &ArrayRef, row: usize, rows: u64) -> DfResult<()> {
        if rows == 0 {
            return Ok(());
        }
        self.rows += rows;
        if self.rows > 1 {
            let message = "more than one row returned by a subquery used as an expression";
            return Err(PgError::new("21000", message).into());
        }
        self.value = ScalarValue::try_from_array(value, row)?;
        Ok(())
    }
}

impl Accumulator for One {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        (0..values[0].len()).try_for_each(|row| self.take(&values[0], row, 1))
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        Ok(self.value.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Ok(vec![self.value.clone(), ScalarValue::UInt64(Some(self.rows))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let rows = states[1]
            .as_any()
            .downcast_ref::<UInt64Array>()
            .ok_or_else(|| PgError::internal("the state of a subquery's value"))?;
        (0..rows.len()).try_for_each(|row| self.take(&states[0], row, rows.value(row)))
    }
}
