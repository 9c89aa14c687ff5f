//! `sum` and `avg` of real and double precision, as PostgreSQL has them: a total that is too large
//! is an error, and the sum of reals is real, where the library's is double precision.
//!
//! What it promises: all other types are added up by the library's functions, into which calls
//! turn when a plan is optimised; in windows, which that does not reach, by their accumulators.
//! Reals are added up in double precision and rounded at the end.

use crate::error::PgError;
use datafusion::arrow::array::{ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float32Type, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::functions_aggregate::average::avg_udaf;
use datafusion::functions_aggregate::sum::sum_udaf;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{
    AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs,
};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, Expr, GroupsAccumulator, Signature,
    Volatility,
};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The sum.
#[must_use]
pub fn sum() -> Arc<AggregateUDF> {
    of(false)
}

/// The average.
#[must_use]
pub fn avg() -> Arc<AggregateUDF> {
    of(true)
}

fn of(average: bool) -> Arc<AggregateUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Total { average, signature }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Total {
    average: bool,
    signature: Signature,
}

fn of_reals(ty: &DataType) -> bool {
    matches!(ty, DataType::Float32 | DataType::Float16)
}

fn of_doubles(ty: &DataType) -> bool {
    *ty == DataType::Float64
}

fn overflow() -> PgError {
    PgError::new("22003", "value out of range: overflow")
}

impl Total {
    fn of_library(&self) -> Arc<AggregateUDF> {
        if self.average { avg_udaf() } else { sum_udaf() }
    }
}

impl AggregateUDFImpl for Total {
    fn name(&self) -> &'static str {
        if self.average { "avg" } else { "sum" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        match &types[0] {
            real if of_reals(real) && !self.average => Ok(DataType::Float32),
            // Another aggregate takes its place where orders are looked at.
            interval @ DataType::Interval(_) => Ok(interval.clone()),
            _ => self.of_library().return_type(types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        if of_reals(args.return_type()) {
            return Ok(Box::new(Reals::new(args.is_distinct)));
        }
        let doubles = of_doubles(args.return_type());
        let inner = self.of_library().accumulator(args)?;
        Ok(if doubles { Box::new(Checked { inner, special: false }) } else { inner })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        if of_reals(args.return_type()) {
            return Ok(Box::new(Reals::new(args.is_distinct)));
        }
        if of_doubles(args.return_type()) && !args.is_distinct {
            return Ok(Box::new(Doubles { average: self.average, ..Doubles::default() }));
        }
        self.of_library().create_sliding_accumulator(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !of_reals(args.return_type()) && self.of_library().groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(
        &self,
        args: AccumulatorArgs,
    ) -> DfResult<Box<dyn GroupsAccumulator>> {
        let doubles = of_doubles(args.return_type());
        let inner = self.of_library().create_groups_accumulator(args)?;
        Ok(match doubles {
            true => Box::new(CheckedGroups { inner, special: BTreeSet::new() }),
            false => inner,
        })
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        if !of_reals(args.return_type()) {
            return self.of_library().state_fields(args);
        }
        let field =
            |tail: &str, ty| Arc::new(Field::new(format!("{}[{tail}]", args.name), ty, true));
        Ok(vec![field("sum", DataType::Float64), field("count", DataType::UInt64)])
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        let library = self.of_library();
        Some(Box::new(move |call, info| {
            let ty = info.get_data_type(&call.params.args[0])?;
            let own = of_reals(&ty) || of_doubles(&ty);
            Ok(Expr::AggregateFunction(AggregateFunction {
                func: if own { call.func } else { library.clone() },
                params: call.params,
            }))
        }))
    }
}

// ---- double precision ---------------------------------------------------------------------------

/// Whether a value of double precision among them is infinite or no number.
fn has_special(values: &[ArrayRef]) -> bool {
    let doubles = values.iter().filter_map(|array| array.as_primitive_opt::<Float64Type>());
    doubles.flat_map(|array| array.iter()).flatten().any(|v| !v.is_finite())
}

/// The library's accumulator. What is not finite without having been given so has overflowed.
#[derive(Debug)]
struct Checked {
    inner: Box<dyn Accumulator>,
    special: bool,
}

impl Checked {
    fn check(&self, value: &ScalarValue) -> DfResult<()> {
        match value {
            ScalarValue::Float64(Some(v)) if !v.is_finite() && !self.special => {
                Err(overflow().into())
            }
            _ => Ok(()),
        }
    }
}

impl Accumulator for Checked {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.special = self.special || has_special(values);
        self.inner.update_batch(values)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let value = self.inner.evaluate()?;
        self.check(&value)?;
        Ok(value)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size()
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let state = self.inner.state()?;
        state.iter().try_for_each(|value| self.check(value))?;
        Ok(state)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        // Values seen by DISTINCT come as lists.
        let lists = states.iter().filter_map(|array| array.as_list_opt::<i32>());
        let values: Vec<ArrayRef> = lists.map(|list| list.values().clone()).collect();
        self.special = self.special || has_special(states) || has_special(&values);
        self.inner.merge_batch(states)
    }
}

/// The same for many groups.
struct CheckedGroups {
    inner: Box<dyn GroupsAccumulator>,
    /// Groups that were given what is not finite.
    special: BTreeSet<usize>,
}

impl CheckedGroups {
    fn note(&mut self, values: &[ArrayRef], groups: &[usize]) {
        if !has_special(values) {
            return;
        }
        for array in values.iter().filter_map(|array| array.as_primitive_opt::<Float64Type>()) {
            let special = array.iter().zip(groups);
            let special = special.filter(|(v, _)| v.is_some_and(|v| !v.is_finite()));
            self.special.extend(special.map(|(_, group)| *group));
        }
    }

    fn check(&mut self, arrays: &[ArrayRef], emitted: EmitTo) -> DfResult<()> {
        for array in arrays.iter().filter_map(|array| array.as_primitive_opt::<Float64Type>()) {
            let wrong = |(group, v): (usize, Option<f64>)| {
                v.is_some_and(|v| !v.is_finite()) && !self.special.contains(&group)
            };
            if array.iter().enumerate().any(wrong) {
                return Err(overflow().into());
            }
        }
        self.special = match emitted {
            EmitTo::All => BTreeSet::new(),
            EmitTo::First(count) => {
                self.special.split_off(&count).into_iter().map(|group| group - count).collect()
            }
        };
        Ok(())
    }
}

impl GroupsAccumulator for CheckedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        group_count: usize,
    ) -> DfResult<()> {
        self.note(values, groups);
        self.inner.update_batch(values, groups, filter, group_count)
    }

    fn evaluate(&mut self, emitted: EmitTo) -> DfResult<ArrayRef> {
        let values = self.inner.evaluate(emitted)?;
        self.check(std::slice::from_ref(&values), emitted)?;
        Ok(values)
    }

    fn state(&mut self, emitted: EmitTo) -> DfResult<Vec<ArrayRef>> {
        let state = self.inner.state(emitted)?;
        self.check(&state, emitted)?;
        Ok(state)
    }

    fn merge_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        group_count: usize,
    ) -> DfResult<()> {
        self.note(values, groups);
        self.inner.merge_batch(values, groups, group_count)
    }

    fn convert_to_state(
        &self,
        values: &[ArrayRef],
        filter: Option<&BooleanArray>,
    ) -> DfResult<Vec<ArrayRef>> {
        self.inner.convert_to_state(values, filter)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.inner.size() + self.special.len() * 3 * size_of::<usize>()
    }
}

/// Totals that values are taken out of again.
#[derive(Debug, Default)]
struct Doubles {
    average: bool,
    /// Of what is finite.
    sum: f64,
    specials: Specials,
    count: u64,
}

impl Accumulator for Doubles {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for v in values[0].as_primitive::<Float64Type>().iter().flatten() {
            match self.specials.of(v) {
                Some(count) => *count += 1,
                None => self.sum += v,
            }
            self.count += 1;
        }
        if self.sum.is_finite() { Ok(()) } else { Err(overflow().into()) }
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        for v in values[0].as_primitive::<Float64Type>().iter().flatten() {
            match self.specials.of(v) {
                Some(count) => *count -= 1,
                None => self.sum -= v,
            }
            self.count -= 1;
        }
        Ok(())
    }

    #[allow(clippy::cast_precision_loss)] // fewer rows than that
    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let total = self.specials.total(self.sum);
        Ok(ScalarValue::Float64(match (self.count, self.average) {
            (0, _) => None,
            (count, true) => Some(total / count as f64),
            (_, false) => Some(total),
        }))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        Err(PgError::internal("a frame's total in parts").into())
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> DfResult<()> {
        Err(PgError::internal("a frame's total in parts").into())
    }
}

/// How many values are not finite: they could not be taken out of a sum again.
#[derive(Debug, Default)]
struct Specials {
    nans: u64,
    /// Positive and negative infinities.
    infinite: [u64; 2],
}

impl Specials {
    /// What a value that is not finite is counted in.
    fn of(&mut self, v: f64) -> Option<&mut u64> {
        match v {
            v if v.is_nan() => Some(&mut self.nans),
            f64::INFINITY => Some(&mut self.infinite[0]),
            f64::NEG_INFINITY => Some(&mut self.infinite[1]),
            _ => None,
        }
    }

    /// The sum with them.
    fn total(&self, sum: f64) -> f64 {
        match self.infinite {
            _ if self.nans > 0 => f64::NAN,
            [0, 0] => sum,
            [_, 0] => f64::INFINITY,
            [0, _] => f64::NEG_INFINITY,
            _ => f64::NAN,
        }
    }
}

// ---- real ---------------------------------------------------------------------------------------

#[derive(Debug)]
struct Reals {
    /// Of what is finite.
    sum: f64,
    count: u64,
    specials: Specials,
    /// Of DISTINCT: values seen, by their bits.
    seen: Option<BTreeSet<u32>>,
}

impl Reals {
    fn new(distinct: bool) -> Reals {
        let seen = distinct.then(Default::default);
        Reals { sum: 0.0, count: 0, specials: Specials::default(), seen }
    }

    fn add(&mut self, v: f64) {
        match self.specials.of(v) {
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
            match self.specials.of(v) {
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
        let total = self.specials.total(self.sum);
        let sum = total as f32;
        if sum.is_infinite() && total.is_finite() {
            return Err(overflow().into());
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
            return Err(PgError::unsupported(what).into());
        }
        Ok(vec![
            ScalarValue::Float64(Some(self.specials.total(self.sum))),
            ScalarValue::UInt64(Some(self.count)),
        ])
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
