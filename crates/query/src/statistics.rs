//! Variance, deviation, correlation and regression, with PostgreSQL's types and, of double
//! precision, its very digits.
//!
//! What it promises: of integers and numerics the sums are exact and the result is numeric; of
//! double precision it is computed in PostgreSQL's order (Youngs and Cramer). What it must never
//! do: lose digits by subtracting large sums.

use crate::arith::pow10;
use crate::arrow_rows::ColumnReader;
use crate::cast::{to_f64, to_numeric};
use crate::error::{PgError, Result};
use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Float64Type};
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility,
};
use kernel::row::Datum;
use num_bigint::BigInt;
use std::sync::Arc;

/// Digits behind the point of a numeric result.
const SCALE: u8 = 16;

/// Of one argument.
const OF_ONE: [&str; 5] = ["stddev", "stddev_samp", "stddev_pop", "var_samp", "var_pop"];
/// Of two, the dependent one first.
const OF_TWO: [&str; 12] = [
    "corr",
    "covar_pop",
    "covar_samp",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
];

#[derive(Debug, PartialEq, Eq, Hash)]
struct Statistic {
    name: &'static str,
    signature: Signature,
}

/// All of them.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let make = |name: &&'static str, count| {
        let signature = Signature::any(count, Volatility::Immutable);
        Arc::new(AggregateUDF::new_from_impl(Statistic { name, signature }))
    };
    let one = OF_ONE.iter().map(|name| make(name, 1));
    one.chain(OF_TWO.iter().map(|name| make(name, 2))).collect()
}

fn is_exact(ty: &DataType) -> bool {
    ty.is_integer() || matches!(ty, DataType::Decimal128(..))
}

fn scale_of(field: Option<&Field>) -> u8 {
    match field.map(Field::data_type) {
        Some(DataType::Decimal128(_, scale)) => u8::try_from(*scale).unwrap_or(0),
        _ => 0,
    }
}

impl AggregateUDFImpl for Statistic {
    fn name(&self) -> &str {
        self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(match self.name {
            "regr_count" => DataType::Int64,
            _ if types.len() == 1 && is_exact(&types[0]) => {
                DataType::Decimal128(38, SCALE.cast_signed())
            }
            _ => DataType::Float64,
        })
    }

    fn default_value(&self, ty: &DataType) -> DfResult<ScalarValue> {
        // Of no rows: what the library puts where it has joined with groups and found none.
        match self.name {
            "regr_count" => Ok(ScalarValue::Int64(Some(0))),
            _ => ScalarValue::try_from(ty),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> DfResult<Box<dyn Accumulator>> {
        let fields: Vec<Field> = args.expr_fields.iter().map(|f| f.as_ref().clone()).collect();
        let (name, scale) = (self.name, scale_of(fields.first()));
        if fields.len() == 1 && fields.first().is_some_and(|field| is_exact(field.data_type())) {
            let sums = Sums { count: 0, sum: BigInt::ZERO, squares: BigInt::ZERO };
            return Ok(Box::new(Exact { name, scale, fields, sums }));
        }
        Ok(Box::new(Floating { name, fields, m: Moments::default() }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> DfResult<Vec<FieldRef>> {
        let field = |tail: &str, ty: DataType| {
            Arc::new(Field::new(format!("{}[{tail}]", args.name), ty, true))
        };
        let exact = args.input_fields.len() == 1 && is_exact(args.input_fields[0].data_type());
        Ok(if exact {
            let text = || DataType::Utf8;
            vec![field("n", DataType::Int64), field("sum", text()), field("squares", text())]
        } else {
            ["n", "sx", "sxx", "sy", "syy", "sxy"]
                .into_iter()
                .map(|tail| field(tail, DataType::Float64))
                .collect()
        })
    }
}

/// What PostgreSQL's `float8_regr_accum` keeps; of one argument only `n`, `sx` and `sxx`.
#[derive(Clone, Copy, Default, Debug)]
struct Moments {
    n: f64,
    sx: f64,
    sxx: f64,
    sy: f64,
    syy: f64,
    sxy: f64,
}

impl Moments {
    fn add_one(&mut self, x: f64) {
        let before = self.n;
        self.n += 1.0;
        self.sx += x;
        if before > 0.0 {
            let distance = x * self.n - self.sx;
            self.sxx += distance * distance / (self.n * before);
        } else if !x.is_finite() {
            self.sxx = f64::NAN;
        }
    }

    fn add_two(&mut self, y: f64, x: f64) {
        let before = self.n;
        self.n += 1.0;
        self.sx += x;
        self.sy += y;
        if before > 0.0 {
            let (dx, dy) = (x * self.n - self.sx, y * self.n - self.sy);
            let scale = 1.0 / (self.n * before);
            self.sxx += dx * dx * scale;
            self.syy += dy * dy * scale;
            self.sxy += dx * dy * scale;
        } else {
            if !x.is_finite() {
                (self.sxx, self.sxy) = (f64::NAN, f64::NAN);
            }
            if !y.is_finite() {
                (self.syy, self.sxy) = (f64::NAN, f64::NAN);
            }
        }
    }

    fn combine(&mut self, other: Moments) {
        if self.n == 0.0 {
            *self = other;
            return;
        }
        if other.n == 0.0 {
            return;
        }
        let dx = self.sx / self.n - other.sx / other.n;
        let dy = self.sy / self.n - other.sy / other.n;
        let weight = self.n * other.n / (self.n + other.n);
        self.sxx += other.sxx + weight * dx * dx;
        self.syy += other.syy + weight * dy * dy;
        self.sxy += other.sxy + weight * dx * dy;
        self.n += other.n;
        self.sx += other.sx;
        self.sy += other.sy;
    }

    fn result(&self, name: &str) -> Option<f64> {
        let Moments { n, sx, sxx, sy, syy, sxy } = *self;
        let least = match name {
            "stddev" | "stddev_samp" | "var_samp" | "covar_samp" => 2.0,
            _ => 1.0,
        };
        if n < least {
            return None;
        }
        let flat = sxx == 0.0;
        Some(match name {
            "var_pop" => sxx / n,
            "var_samp" => sxx / (n - 1.0),
            "stddev_pop" => (sxx / n).sqrt(),
            "stddev" | "stddev_samp" => (sxx / (n - 1.0)).sqrt(),
            "covar_pop" => sxy / n,
            "covar_samp" => sxy / (n - 1.0),
            "regr_avgx" => sx / n,
            "regr_avgy" => sy / n,
            "regr_sxx" => sxx,
            "regr_syy" => syy,
            "regr_sxy" => sxy,
            "corr" if flat || syy == 0.0 => return None,
            "corr" => sxy / (sxx * syy).sqrt(),
            _ if flat => return None,
            "regr_r2" if syy == 0.0 => 1.0,
            "regr_r2" => sxy * sxy / (sxx * syy),
            "regr_slope" => sxy / sxx,
            _ => (sy - sx * sxy / sxx) / n,
        })
    }
}

#[derive(Debug)]
struct Floating {
    name: &'static str,
    fields: Vec<Field>,
    m: Moments,
}

fn readers(fields: &[Field], values: &[ArrayRef]) -> Result<Vec<ColumnReader>> {
    values.iter().zip(fields).map(|(array, field)| ColumnReader::new(array, field)).collect()
}

impl Accumulator for Floating {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        let columns = readers(&self.fields, values)?;
        for row in 0..values[0].len() {
            let given: Vec<Datum<'_>> = columns.iter().map(|column| column.get(row)).collect();
            if given.iter().any(Datum::is_null) {
                continue;
            }
            match &given[..] {
                [x] => self.m.add_one(to_f64(x)?),
                [y, x] => self.m.add_two(to_f64(y)?, to_f64(x)?),
                _ => return Err(PgError::internal("arguments of a statistic").into()),
            }
        }
        let overflow = |v: f64| v.is_infinite();
        if overflow(self.m.sxx) || overflow(self.m.syy) || overflow(self.m.sxy) {
            return Err(PgError::new("22003", "value out of range: overflow").into());
        }
        Ok(())
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        if self.name == "regr_count" {
            #[allow(clippy::cast_possible_truncation)]
            let count = self.m.n as i64;
            return Ok(ScalarValue::Int64(Some(count)));
        }
        Ok(ScalarValue::Float64(self.m.result(self.name)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let Moments { n, sx, sxx, sy, syy, sxy } = self.m;
        Ok([n, sx, sxx, sy, syy, sxy].map(|v| ScalarValue::Float64(Some(v))).to_vec())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let all: Vec<_> = states.iter().map(|s| s.as_primitive::<Float64Type>()).collect();
        for row in 0..states[0].len() {
            let at = |i: usize| all[i].value(row);
            let (n, sx, sxx) = (at(0), at(1), at(2));
            let (sy, syy, sxy) = (at(3), at(4), at(5));
            self.m.combine(Moments { n, sx, sxx, sy, syy, sxy });
        }
        Ok(())
    }
}

#[derive(Debug)]
struct Sums {
    count: i64,
    sum: BigInt,
    squares: BigInt,
}

/// Of integers and numerics, all brought to the scale of their type.
#[derive(Debug)]
struct Exact {
    name: &'static str,
    scale: u8,
    fields: Vec<Field>,
    sums: Sums,
}

impl Exact {
    fn add(&mut self, values: &[ArrayRef], sign: i8) -> DfResult<()> {
        let columns = readers(&self.fields, values)?;
        for row in 0..values[0].len() {
            let datum = columns[0].get(row);
            if datum.is_null() {
                continue;
            }
            let (v, scale) = to_numeric(&datum)?;
            let v = crate::arith::rescale(v, scale, self.scale)
                .ok_or_else(|| PgError::out_of_range("numeric"))?;
            let v = BigInt::from(v);
            self.sums.count += i64::from(sign);
            self.sums.squares += &v * &v * sign;
            self.sums.sum += v * sign;
        }
        Ok(())
    }

    /// The result as a whole number of units of the last digit.
    fn result(&self) -> Option<BigInt> {
        let Sums { count, sum, squares } = &self.sums;
        let pop = self.name.ends_with("_pop");
        if *count < if pop { 1 } else { 2 } {
            return None;
        }
        let spread: BigInt = squares * *count - sum * sum;
        let below = BigInt::from(*count) * (if pop { *count } else { count - 1 });
        let ten = |n: u32| BigInt::from(10).pow(n);
        let (scale, wanted) = (u32::from(self.scale), u32::from(SCALE));
        // Twice as many digits: of a root half of them are left.
        let wide = spread * ten(2 * wanted + 2) / (below * ten(2 * scale));
        Some(if self.name.starts_with("stddev") {
            (wide.sqrt() + 5u32) / 10u32
        } else {
            (wide + ten(wanted + 2) / 2u32) / ten(wanted + 2)
        })
    }
}

impl Accumulator for Exact {
    fn update_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.add(values, 1)
    }

    fn evaluate(&mut self) -> DfResult<ScalarValue> {
        let range = || PgError::new("22003", "value overflows numeric format");
        let v = match self.result() {
            None => None,
            Some(v) => {
                let v = i128::try_from(v).map_err(|_| range())?;
                if pow10(38).is_some_and(|limit| v >= limit) {
                    return Err(range().into());
                }
                Some(v)
            }
        };
        Ok(ScalarValue::Decimal128(v, 38, SCALE.cast_signed()))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }

    fn state(&mut self) -> DfResult<Vec<ScalarValue>> {
        let text = |v: &BigInt| ScalarValue::Utf8(Some(v.to_string()));
        Ok(vec![
            ScalarValue::Int64(Some(self.sums.count)),
            text(&self.sums.sum),
            text(&self.sums.squares),
        ])
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> DfResult<()> {
        let bad = || PgError::internal("the state of a statistic");
        let counts = states[0].as_primitive::<datafusion::arrow::datatypes::Int64Type>();
        let (sums, squares) = (states[1].as_string::<i32>(), states[2].as_string::<i32>());
        for row in 0..counts.len() {
            self.sums.count += counts.value(row);
            self.sums.sum += sums.value(row).parse::<BigInt>().map_err(|_| bad())?;
            self.sums.squares += squares.value(row).parse::<BigInt>().map_err(|_| bad())?;
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> DfResult<()> {
        self.add(values, -1)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_of_two_halves_are_those_of_the_whole() {
        let (mut whole, mut half, mut rest) =
            (Moments::default(), Moments::default(), Moments::default());
        for (at, x) in [1.5, 2.0, -3.0, 10.0].into_iter().enumerate() {
            whole.add_one(x);
            if at < 2 { half.add_one(x) } else { rest.add_one(x) }
        }
        half.combine(rest);
        let close = (whole.sxx - half.sxx).abs() < 1e-12;
        assert!(close && whole.n == half.n);
        assert_eq!(Moments::default().result("var_pop"), None);
    }
}
