//! Aggregates over ordered rows: `mode` and `percentile_disc`.
//!
//! What it promises: a value that occurs, of the argument's own type.

use crate::error::PgError;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{SortOptions, sort};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
};
use std::sync::Arc;

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    mode: bool,
    signature: Signature,
}

/// Both.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    [true, false]
        .map(|mode| {
            let signature = Signature::any(if mode { 1 } else { 2 }, Volatility::Immutable);
            Arc::new(AggregateUDF::new_from_impl(OrderedSet { mode, signature }))
        })
        .to_vec()
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        if self.mode { "mode" } else { "percentile_disc" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let options = args.order_bys.first().map_or_else(SortOptions::default, |one| one.options);
        let fraction = if self.mode { None } else { fraction(&args)? };
        Ok(Box::new(Values {
            mode: self.mode,
            fraction,
            options: SortOptions { nulls_first: false, ..options },
            ty: args.expr_fields[0].data_type().clone(),
            all: Vec::new(),
        }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let ty = args.input_fields[0].data_type().clone();
        let list = DataType::List(Arc::new(Field::new_list_field(ty, true)));
        Ok(vec![Arc::new(Field::new(format!("{}[values]", args.name), list, true))])
    }
}

/// Where in the order; `None` for NULL.
fn fraction(args: &AccumulatorArgs<'_>) -> DfResult<Option<f64>> {
    let literal = || PgError::unsupported("percentile_disc of a fraction that is not a literal");
    let expr = args.exprs.get(1).ok_or_else(literal)?;
    let batch = datafusion::arrow::array::RecordBatch::new_empty(Arc::new(
        datafusion::arrow::datatypes::Schema::empty(),
    ));
    let ColumnarValue::Scalar(value) = expr.evaluate(&batch).map_err(|_| literal())? else {
        return Err(literal().into());
    };
    let ScalarValue::Float64(fraction) = value.cast_to(&DataType::Float64)? else {
        return Err(literal().into());
    };
    match fraction {
        Some(v) if !(0.0..=1.0).contains(&v) => {
            let what = format!("percentile value {v} is not between 0 and 1");
            Err(PgError::new("22003", what).into())
        }
        other => Ok(other),
    }
}

#[derive(Debug)]
struct Values {
    mode: bool,
    fraction: Option<f64>,
    options: SortOptions,
    ty: DataType,
    all: Vec<ScalarValue>,
}

impl Values {
    fn take(&mut self, array: &ArrayRef) -> DfResult<()> {
        for row in 0..array.len() {
            if !array.is_null(row) {
                self.all.push(ScalarValue::try_from_array(array, row)?);
            }
        }
        Ok(())
    }
}

impl Accumulator for Values {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.take(&values[0])
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let none = ScalarValue::try_from(&self.ty)?;
        if self.all.is_empty() || !(self.mode || self.fraction.is_some()) {
            return Ok(none);
        }
        let array = ScalarValue::iter_to_array(self.all.clone())?;
        let sorted = sort(&array, Some(self.options))?;
        let at = match self.fraction {
            Some(fraction) => {
                #[allow(
                    clippy::cast_possible_truncation,
                    clippy::cast_precision_loss,
                    clippy::cast_sign_loss
                )]
                let nth = (fraction * sorted.len() as f64).ceil() as usize;
                nth.max(1) - 1
            }
            None => {
                let (mut best, mut longest, mut from) = (0, 0, 0);
                for row in 1..=sorted.len() {
                    let ends = row == sorted.len()
                        || ScalarValue::try_from_array(&sorted, row)?
                            != ScalarValue::try_from_array(&sorted, from)?;
                    if ends {
                        if row - from > longest {
                            (best, longest) = (from, row - from);
                        }
                        from = row;
                    }
                }
                best
            }
        };
        ScalarValue::try_from_array(&sorted, at)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.all.iter().map(ScalarValue::size).sum::<usize>()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let list = ScalarValue::new_list_nullable(&self.all, &self.ty);
        Ok(vec![ScalarValue::List(list)])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        for part in states[0].as_list::<i32>().iter().flatten() {
            self.take(&part)?;
        }
        Ok(())
    }
}
