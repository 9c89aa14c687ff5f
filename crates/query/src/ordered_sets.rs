//! Aggregates over ordered rows: `mode`, `percentile_disc` and `percentile_cont`.
//!
//! What it promises: of the first two a value that occurs, of the argument's own type; of the third
//! double precision, reckoned between the two values nearest to the fraction.

use crate::error::PgError;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{SortOptions, cast, sort};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, Signature, Volatility,
};
use std::sync::Arc;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Which {
    Mode,
    Discrete,
    Continuous,
}

impl Which {
    const fn name(self) -> &'static str {
        match self {
            Which::Mode => "mode",
            Which::Discrete => "percentile_disc",
            Which::Continuous => "percentile_cont",
        }
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct OrderedSet {
    which: Which,
    signature: Signature,
}

/// All of them.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    [Which::Mode, Which::Discrete, Which::Continuous]
        .map(|which| {
            let count = if which == Which::Mode { 1 } else { 2 };
            let signature = Signature::any(count, Volatility::Immutable);
            Arc::new(AggregateUDF::new_from_impl(OrderedSet { which, signature }))
        })
        .to_vec()
}

impl AggregateUDFImpl for OrderedSet {
    fn name(&self) -> &str {
        self.which.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        if self.which != Which::Continuous {
            return Ok(types[0].clone());
        }
        if matches!(types[1], DataType::List(_)) || !types[0].is_numeric() {
            return Err(PgError::unsupported("percentile_cont of these types").into());
        }
        Ok(DataType::Float64)
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let options = args.order_bys.first().map_or_else(SortOptions::default, |one| one.options);
        let fraction = if self.which == Which::Mode { None } else { fraction(self.which, &args)? };
        Ok(Box::new(Values {
            which: self.which,
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
fn fraction(which: Which, args: &AccumulatorArgs<'_>) -> DfResult<Option<f64>> {
    let what = format!("{} of a fraction that is not a literal", which.name());
    let literal = || PgError::unsupported(&what);
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

/// The value at a fraction of the way through sorted ones.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "positions in an array, by a fraction from 0 to 1"
)]
fn between(sorted: &ArrayRef, fraction: f64) -> DfResult<ScalarValue> {
    let values = sorted.as_primitive::<Float64Type>().values();
    let at = fraction * (values.len() - 1) as f64;
    let (low, high) = (values[at.floor() as usize], values[at.ceil() as usize]);
    let value = if low == high { low } else { low + (at - at.floor()) * (high - low) };
    Ok(ScalarValue::Float64(Some(value)))
}

#[derive(Debug)]
struct Values {
    which: Which,
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
        let continuous = self.which == Which::Continuous;
        if self.all.is_empty() || !(self.which == Which::Mode || self.fraction.is_some()) {
            let ty = if continuous { &DataType::Float64 } else { &self.ty };
            return ScalarValue::try_from(ty);
        }
        let array = ScalarValue::iter_to_array(self.all.clone())?;
        let sorted = sort(&array, Some(self.options))?;
        if continuous {
            return between(&cast(&sorted, &DataType::Float64)?, self.fraction.unwrap_or_default());
        }
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
