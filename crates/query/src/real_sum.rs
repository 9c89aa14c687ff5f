//! `sum` with PostgreSQL's type for real: real, where the library's is double precision.
//!
//! What it promises: all other types are summed by the library's function, into which calls turn
//! when a plan is optimised; in windows, which that does not reach, by its accumulators. Reals are
//! added up in double precision and rounded at the end.

use datafusion::arrow::array::{ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, Signature, Volatility,
};
use std::sync::Arc;

/// The function.
#[must_use]
pub fn sum() -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Sum { signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Sum {
    signature: Signature,
}

fn of_reals(ty: &DataType) -> bool {
    matches!(ty, DataType::Float32 | DataType::Float16)
}

impl AggregateUDFImpl for Sum {
    fn name(&self) -> &'static str {
        "sum"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        if of_reals(&types[0]) { Ok(DataType::Float32) } else { sum_udaf().return_type(types) }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        if of_reals(args.return_type()) {
            return Ok(Box::new(Reals::new(args.is_distinct)));
        }
        sum_udaf().accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        if of_reals(args.return_type()) {
            return Ok(Box::new(Reals::new(args.is_distinct)));
        }
        sum_udaf().create_sliding_accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        if !of_reals(args.return_type()) {
            return sum_udaf().state_fields(args);
        }
        let field =
            |tail: &str, ty| Arc::new(Field::new(format!("{}[{tail}]", args.name), ty, true));
        Ok(vec![field("sum", DataType::Float64), field("count", DataType::UInt64)])
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        Some(Box::new(|call, info| {
            let ty = info.get_data_type(&call.params.args[0])?;
            Ok(Expr::AggregateFunction(AggregateFunction {
                func: if of_reals(&ty) { call.func } else { sum_udaf() },
                params: call.params,
            }))
        }))
    }
}

#[derive(Debug)]
struct Reals {
    /// Of what is finite: the rest could not be taken out again.
    sum: f64,
    count: u64,
    nans: u64,
    /// Positive and negative infinities.
    infinite: [u64; 2],
    /// Of DISTINCT: values seen, by their bits.
    seen: Option<std::collections::BTreeSet<u32>>,
}

impl Reals {
    fn new(distinct: bool) -> Reals {
        let seen = distinct.then(Default::default);
        Reals { sum: 0.0, count: 0, nans: 0, infinite: [0; 2], seen }
    }

    fn total(&self) -> f64 {
        match self.infinite {
            _ if self.nans > 0 => f64::NAN,
            [0, 0] => self.sum,
            [_, 0] => f64::INFINITY,
            [0, _] => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }

    /// What a value that is not finite is counted in.
    fn special(&mut self, v: f64) -> Option<&mut u64> {
        match v {
            v if v.is_nan() => Some(&mut self.nans),
            f64::INFINITY => Some(&mut self.infinite[0]),
            f64::NEG_INFINITY => Some(&mut self.infinite[1]),
            _ => None,
        }
    }

    fn add(&mut self, v: f64) {
        match self.special(v) {
            Some(count) => *count += 1,
            None => self.sum += v,
        }
    }
}

impl Accumulator for Reals {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for v in values[0].as_primitive::<Float32Type>().iter().flatten() {
            // Zeros are one value, whatever their sign.
            let bits = if v == 0.0 { 0 } else { v.to_bits() };
            if self.seen.as_mut().is_some_and(|seen| !seen.insert(bits)) {
                continue;
            }
            self.add(f64::from(v));
            self.count += 1;
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.seen.is_none()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for v in values[0].as_primitive::<Float32Type>().iter().flatten().map(f64::from) {
            match self.special(v) {
                Some(count) => *count -= 1,
                None => self.sum -= v,
            }
            self.count -= 1;
        }
        Ok(())
    }

    #[allow(clippy::cast_possible_truncation)] // the range is checked
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        if self.count == 0 {
            return Ok(ScalarValue::Float32(None));
        }
        let total = self.total();
        let sum = total as f32;
        if sum.is_infinite() && total.is_finite() {
            return Err(crate::error::PgError::new("22003", "value out of range: overflow").into());
        }
        Ok(ScalarValue::Float32(Some(sum)))
    }

    fn size(&self) -> usize {
        // A set of words takes about three times their size.
        size_of_val(self) + self.seen.as_ref().map_or(0, |seen| seen.len() * 12)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        if self.seen.is_some() {
            let what = "sum(DISTINCT) of reals in parts";
            return Err(crate::error::PgError::unsupported(what).into());
        }
        Ok(vec![ScalarValue::Float64(Some(self.total())), ScalarValue::UInt64(Some(self.count))])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let counts = states[1].as_primitive::<datafusion::arrow::datatypes::UInt64Type>();
        let sums = states[0].as_primitive::<Float64Type>();
        for row in 0..sums.len() {
            self.add(sums.value(row));
            self.count += counts.value(row);
        }
        Ok(())
    }
}
