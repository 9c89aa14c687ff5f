//! Aggregates over ordered rows: `mode`, `percentile_disc` and `percentile_cont`.
//!
//! What it promises: of the first two a value that occurs, of the argument's own type; of the third
//! double precision, reckoned between the two values nearest to the fraction; of an array of
//! fractions the array of such values.

use crate::error::PgError;
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::{SortOptions, cast, sort};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
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
        if self.which == Which::Continuous && !types[0].is_numeric() {
            return Err(PgError::unsupported("percentile_cont of these types").into());
        }
        let one = match self.which {
            Which::Continuous => DataType::Float64,
            _ => types[0].clone(),
        };
        Ok(match types.get(1) {
            Some(DataType::List(_)) => DataType::List(Arc::new(Field::new_list_field(one, true))),
            _ => one,
        })
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let options = args.order_bys.first().map_or_else(SortOptions::default, |one| one.options);
        let fractions = match self.which {
            Which::Mode => Fractions::One(None),
            which => fractions(which, &args)?,
        };
        Ok(Box::new(Values {
            which: self.which,
            fractions,
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
#[derive(Debug)]
enum Fractions {
    One(Option<f64>),
    /// `None`: the array itself is NULL.
    Many(Option<Vec<Option<f64>>>),
}

fn fractions(which: Which, args: &AccumulatorArgs<'_>) -> DfResult<Fractions> {
    let what = format!("{} of a fraction that is not a literal", which.name());
    let literal = || PgError::unsupported(&what);
    let expr = args.exprs.get(1).ok_or_else(literal)?;
    let options = datafusion::arrow::array::RecordBatchOptions::new().with_row_count(Some(1));
    let row = datafusion::arrow::array::RecordBatch::try_new_with_options(
        Arc::new(datafusion::arrow::datatypes::Schema::empty()),
        Vec::new(),
        &options,
    )?;
    let given = expr.evaluate(&row).map_err(|_| literal())?.into_array(1)?;
    if let Some(list) = given.as_list_opt::<i32>() {
        if list.is_null(0) {
            return Ok(Fractions::Many(None));
        }
        let all = cast(&list.value(0), &DataType::Float64)?;
        let all = all.as_primitive::<Float64Type>().iter().map(within).collect::<Result<_, _>>()?;
        return Ok(Fractions::Many(Some(all)));
    }
    let one = cast(&given, &DataType::Float64)?;
    let one = one.as_primitive::<Float64Type>().iter().next().flatten();
    Ok(Fractions::One(within(one)?))
}

fn within(fraction: Option<f64>) -> Result<Option<f64>, PgError> {
    match fraction {
        Some(v) if !(0.0..=1.0).contains(&v) => {
            let what = format!("percentile value {v} is not between 0 and 1");
            Err(PgError::new("22003", what))
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

/// The first value of sorted ones that at least that part of them does not exceed.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "positions in an array, by a fraction from 0 to 1"
)]
fn nth(sorted: &ArrayRef, fraction: f64) -> DfResult<ScalarValue> {
    let nth = (fraction * sorted.len() as f64).ceil() as usize;
    ScalarValue::try_from_array(sorted, nth.max(1) - 1)
}

/// The first of those that are there most often.
fn most_frequent(sorted: &ArrayRef) -> DfResult<ScalarValue> {
    let (mut best, mut longest, mut from) = (0, 0, 0);
    for row in 1..=sorted.len() {
        let ends = row == sorted.len()
            || ScalarValue::try_from_array(sorted, row)?
                != ScalarValue::try_from_array(sorted, from)?;
        if ends {
            if row - from > longest {
                (best, longest) = (from, row - from);
            }
            from = row;
        }
    }
    ScalarValue::try_from_array(sorted, best)
}

#[derive(Debug)]
struct Values {
    which: Which,
    fractions: Fractions,
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
        let ty = match self.which {
            Which::Continuous => DataType::Float64,
            _ => self.ty.clone(),
        };
        let sorted = match self.all.is_empty() {
            true => None,
            false => {
                let array = ScalarValue::iter_to_array(self.all.clone())?;
                Some(sort(&array, Some(self.options))?)
            }
        };
        let at = |fraction: Option<f64>| match (&sorted, fraction, self.which) {
            (Some(sorted), _, Which::Mode) => most_frequent(sorted),
            (Some(sorted), Some(fraction), Which::Discrete) => nth(sorted, fraction),
            (Some(sorted), Some(fraction), Which::Continuous) => {
                between(&cast(sorted, &DataType::Float64)?, fraction)
            }
            _ => ScalarValue::try_from(&ty),
        };
        match &self.fractions {
            Fractions::One(fraction) => at(*fraction),
            Fractions::Many(Some(all)) if sorted.is_some() => {
                let values = all.iter().map(|one| at(*one)).collect::<DfResult<Vec<_>>>()?;
                Ok(ScalarValue::List(ScalarValue::new_list_nullable(&values, &ty)))
            }
            Fractions::Many(_) => {
                ScalarValue::try_from(&DataType::List(Arc::new(Field::new_list_field(ty, true))))
            }
        }
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
