//! Functions of numbers.
//!
//! What it promises: PostgreSQL's value, type and error; numerics stay numerics. What it must never
//! do: give an infinite or cut value where PostgreSQL has an error.

use super::transcendental as exact;
use super::typed::{Body, Line, One};
use crate::arith::{self, Op, pow10, rescale};
use crate::error::{PgError, Result};
use crate::types::FREE_NUMERIC_SCALE;
use kernel::row::{Datum, Value};
use std::cmp::Ordering;

pub(super) fn float(datum: &Datum<'_>) -> Result<f64> {
    match datum {
        Datum::Float8(v) => Ok(*v),
        _ => Err(PgError::internal("an argument that is no double precision")),
    }
}

pub(super) fn numeric(datum: &Datum<'_>) -> Result<(i128, u8)> {
    match datum {
        Datum::Numeric(v, scale) => Ok((*v, *scale)),
        _ => Err(PgError::internal("an argument that is no numeric")),
    }
}

pub(super) fn integer(datum: &Datum<'_>) -> Result<i64> {
    match datum {
        Datum::Int2(v) => Ok(i64::from(*v)),
        Datum::Int4(v) => Ok(i64::from(*v)),
        Datum::Int8(v) => Ok(*v),
        _ => Err(PgError::internal("an argument that is no integer")),
    }
}

/// The integer as the type of `like`.
fn as_like(like: &Datum<'_>, v: i128) -> Result<Value> {
    let range = PgError::out_of_range;
    Ok(match like {
        Datum::Int2(_) => Value::Int2(i16::try_from(v).map_err(|_| range("smallint"))?),
        Datum::Int4(_) => Value::Int4(i32::try_from(v).map_err(|_| range("integer"))?),
        _ => Value::Int8(i64::try_from(v).map_err(|_| range("bigint"))?),
    })
}

fn overflow() -> PgError {
    PgError::new("22003", "value out of range: overflow")
}

fn underflow() -> PgError {
    PgError::new("22003", "value out of range: underflow")
}

fn input_range() -> PgError {
    PgError::new("22003", "input is out of range")
}

fn number(v: (i128, u8)) -> Value {
    Value::Numeric(v.0, v.1)
}

fn abs(a: &[Datum<'_>]) -> Result<Value> {
    Ok(match &a[0] {
        Datum::Float4(v) => Value::Float4(v.abs()),
        Datum::Float8(v) => Value::Float8(v.abs()),
        Datum::Numeric(v, scale) => Value::Numeric(v.abs(), *scale),
        whole => as_like(whole, i128::from(integer(whole)?).abs())?,
    })
}

fn sign(a: &[Datum<'_>]) -> Result<Value> {
    Ok(match &a[0] {
        Datum::Numeric(v, _) => Value::Numeric(v.signum(), 0),
        v => {
            let v = float(v)?;
            Value::Float8(if v > 0.0 {
                1.0
            } else if v < 0.0 {
                -1.0
            } else {
                0.0
            })
        }
    })
}

#[derive(Clone, Copy, PartialEq)]
enum Way {
    Round,
    Trunc,
    Ceil,
    Floor,
}

fn rounded(way: Way, (v, scale): (i128, u8), digits: i64) -> Result<Value> {
    let shown = u8::try_from(digits.clamp(0, 37)).unwrap_or(0);
    let range = || PgError::out_of_range("numeric");
    if digits >= i64::from(scale) {
        return Ok(Value::Numeric(rescale(v, scale, shown).ok_or_else(range)?, shown));
    }
    let drop = u32::try_from(i64::from(scale) - digits).unwrap_or(u32::MAX);
    let Some(unit) = pow10(drop) else { return Ok(Value::Numeric(0, shown)) };
    let whole = match way {
        Way::Round => {
            let (quotient, rest) = (v / unit, v % unit);
            let up = rest.unsigned_abs() >= unit.unsigned_abs() - unit.unsigned_abs() / 2;
            quotient + if up { v.signum() } else { 0 }
        }
        Way::Trunc => v / unit,
        Way::Floor => v.div_euclid(unit),
        Way::Ceil => -(-v).div_euclid(unit),
    };
    // Digits before the point were rounded away: zeros stand in their place.
    let back = pow10(u32::try_from(-digits.min(0)).unwrap_or(u32::MAX));
    let whole = back.and_then(|back| whole.checked_mul(back));
    match whole {
        Some(whole) => Ok(Value::Numeric(whole, shown)),
        None => Ok(Value::Numeric(0, shown)),
    }
}

fn to_whole(way: Way, datum: &Datum<'_>) -> Result<Value> {
    match datum {
        Datum::Numeric(v, scale) => rounded(way, (*v, *scale), 0),
        v => {
            let v = float(v)?;
            Ok(Value::Float8(match way {
                Way::Round => v.round_ties_even(),
                Way::Trunc => v.trunc(),
                Way::Ceil => v.ceil(),
                Way::Floor => v.floor(),
            }))
        }
    }
}

fn to_digits(way: Way, a: &[Datum<'_>]) -> Result<Value> {
    // The field's number of digits may be any number.
    let digits = match &a[1] {
        Datum::Numeric(v, scale) => rescale(*v, *scale, 0)
            .and_then(|v| i64::try_from(v).ok())
            .ok_or_else(|| PgError::out_of_range("integer"))?,
        digits => integer(digits)?,
    };
    rounded(way, numeric(&a[0])?, digits)
}

fn div(a: &[Datum<'_>]) -> Result<Value> {
    let ((a, sa), (b, sb)) = (numeric(&a[0])?, numeric(&a[1])?);
    if b == 0 {
        return Err(PgError::division_by_zero());
    }
    let scale = sa.max(sb);
    match (rescale(a, sa, scale), rescale(b, sb, scale)) {
        (Some(a), Some(b)) => Ok(Value::Numeric(a / b, 0)),
        _ => Err(PgError::out_of_range("numeric")),
    }
}

fn modulo(a: &[Datum<'_>]) -> Result<Value> {
    if let Datum::Numeric(..) = &a[0] {
        return Ok(number(arith::numeric(Op::Mod, numeric(&a[0])?, numeric(&a[1])?)?));
    }
    as_like(&a[0], i128::from(arith::int8(Op::Mod, integer(&a[0])?, integer(&a[1])?)?))
}

/// What is left when the nearest multiple of a number is taken away; of two that are as near, the
/// even one.
fn nearest_rest(v: i128, by: i128) -> Result<i128> {
    if by == 0 {
        return Err(PgError::division_by_zero());
    }
    let rest = v.checked_rem(by).unwrap_or(0);
    let beyond = match (rest.unsigned_abs() * 2).cmp(&by.unsigned_abs()) {
        Ordering::Less => false,
        Ordering::Equal => v.checked_div(by).unwrap_or(0) % 2 != 0,
        Ordering::Greater => true,
    };
    Ok(if beyond { rest - rest.signum() * by.abs() } else { rest })
}

fn remainder(a: &[Datum<'_>]) -> Result<Value> {
    match (&a[0], &a[1]) {
        (Datum::Float8(_), Datum::Float8(by)) if *by == 0.0 => Err(PgError::division_by_zero()),
        (Datum::Float8(v), Datum::Float8(by)) => {
            let (rest, half) = (v % by, by.abs() / 2.0);
            let odd = ((v - rest) / by) % 2.0 != 0.0;
            let beyond = rest.abs() > half || (rest.abs() == half && odd);
            Ok(Value::Float8(if beyond { rest - by.abs().copysign(rest) } else { rest }))
        }
        (Datum::Numeric(..), _) => {
            let (v, by, scale) = aligned(a)?;
            Ok(Value::Numeric(nearest_rest(v, by)?, scale))
        }
        (v, by) => as_like(v, nearest_rest(integer(v)?.into(), integer(by)?.into())?),
    }
}

/// Both at one scale.
fn aligned(a: &[Datum<'_>]) -> Result<(i128, i128, u8)> {
    let ((a, sa), (b, sb)) = (numeric(&a[0])?, numeric(&a[1])?);
    let scale = sa.max(sb);
    match (rescale(a, sa, scale), rescale(b, sb, scale)) {
        (Some(a), Some(b)) => Ok((a, b, scale)),
        _ => Err(PgError::out_of_range("numeric")),
    }
}

fn euclid(mut a: i128, mut b: i128) -> i128 {
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    a.abs()
}

fn gcd(a: &[Datum<'_>]) -> Result<Value> {
    if let Datum::Numeric(..) = &a[0] {
        let (a, b, scale) = aligned(a)?;
        return Ok(Value::Numeric(euclid(a, b), scale));
    }
    as_like(&a[0], euclid(integer(&a[0])?.into(), integer(&a[1])?.into()))
}

fn lcm(a: &[Datum<'_>]) -> Result<Value> {
    let of = |a: i128, b: i128| match euclid(a, b) {
        0 => Some(0),
        common => (a / common).checked_mul(b).map(i128::abs),
    };
    if let Datum::Numeric(..) = &a[0] {
        let (a, b, scale) = aligned(a)?;
        let out = of(a, b).ok_or_else(|| PgError::out_of_range("numeric"))?;
        return Ok(Value::Numeric(out, scale));
    }
    let out = of(integer(&a[0])?.into(), integer(&a[1])?.into());
    as_like(&a[0], out.unwrap_or(i128::MAX))
}

fn factorial(a: &[Datum<'_>]) -> Result<Value> {
    let n = integer(&a[0])?;
    if n < 0 {
        return Err(PgError::new("22003", "factorial of a negative number is undefined"));
    }
    let mut out: i128 = 1;
    for k in 2..=n {
        out = out
            .checked_mul(i128::from(k))
            .filter(|v| *v < pow10(38).unwrap_or(i128::MAX))
            .ok_or_else(exact::numeric_overflow)?;
    }
    Ok(Value::Numeric(out, 0))
}

pub(super) fn sqrt(a: &[Datum<'_>]) -> Result<Value> {
    let negative = || PgError::new("2201F", "cannot take square root of a negative number");
    if let Datum::Numeric(v, scale) = &a[0] {
        if *v < 0 {
            return Err(negative());
        }
        return Ok(number(exact::sqrt((*v, *scale))?));
    }
    let v = float(&a[0])?;
    if v < 0.0 {
        return Err(negative());
    }
    Ok(Value::Float8(v.sqrt()))
}

fn exp(a: &[Datum<'_>]) -> Result<Value> {
    if let Datum::Numeric(v, scale) = &a[0] {
        return Ok(number(exact::exp((*v, *scale))?));
    }
    let v = float(&a[0])?;
    let out = v.exp();
    if out.is_infinite() && v.is_finite() {
        return Err(overflow());
    }
    if out == 0.0 && v.is_finite() {
        return Err(underflow());
    }
    Ok(Value::Float8(out))
}

fn check_logarithm(sign: std::cmp::Ordering) -> Result<()> {
    match sign {
        std::cmp::Ordering::Equal => Err(PgError::new("2201E", "cannot take logarithm of zero")),
        std::cmp::Ordering::Less => {
            Err(PgError::new("2201E", "cannot take logarithm of a negative number"))
        }
        std::cmp::Ordering::Greater => Ok(()),
    }
}

fn logarithm(datum: &Datum<'_>, of_float: fn(f64) -> f64, ten: bool) -> Result<Value> {
    if let Datum::Numeric(v, scale) = datum {
        check_logarithm(v.cmp(&0))?;
        let v = (*v, *scale);
        return Ok(number(if ten { exact::log((10, 0), v)? } else { exact::ln(v)? }));
    }
    let v = float(datum)?;
    check_logarithm(v.partial_cmp(&0.0).unwrap_or(std::cmp::Ordering::Greater))?;
    Ok(Value::Float8(of_float(v)))
}

fn log_of_base(a: &[Datum<'_>]) -> Result<Value> {
    let (base, v) = (numeric(&a[0])?, numeric(&a[1])?);
    check_logarithm(base.0.cmp(&0))?;
    check_logarithm(v.0.cmp(&0))?;
    Ok(number(exact::log(base, v)?))
}

pub(super) fn power(a: &[Datum<'_>]) -> Result<Value> {
    let zero = || PgError::new("2201F", "zero raised to a negative power is undefined");
    let complex = || {
        let message = "a negative number raised to a non-integer power yields a complex result";
        PgError::new("2201F", message)
    };
    if let Datum::Numeric(..) = &a[0] {
        let (base, exponent) = (numeric(&a[0])?, numeric(&a[1])?);
        if base.0 == 0 && exponent.0 < 0 {
            return Err(zero());
        }
        if base.0 < 0 && !exact::is_whole(exponent) {
            return Err(complex());
        }
        return Ok(number(exact::power(base, exponent)?));
    }
    let (base, exponent) = (float(&a[0])?, float(&a[1])?);
    if base == 0.0 && exponent < 0.0 {
        return Err(zero());
    }
    if base < 0.0 && exponent.is_finite() && exponent.floor() != exponent {
        return Err(complex());
    }
    let out = base.powf(exponent);
    if base.is_finite() && exponent.is_finite() {
        if out.is_infinite() {
            return Err(overflow());
        }
        if out == 0.0 && base != 0.0 {
            return Err(underflow());
        }
    }
    Ok(Value::Float8(out))
}

/// A function of one double precision.
fn unary(datum: &Datum<'_>, of: fn(f64) -> f64) -> Result<Value> {
    Ok(Value::Float8(of(float(datum)?)))
}

/// Such a function, of finite values only.
fn finite(datum: &Datum<'_>, of: fn(f64) -> f64) -> Result<Value> {
    let v = float(datum)?;
    if v.is_infinite() {
        return Err(input_range());
    }
    Ok(Value::Float8(of(v)))
}

/// Such a function, of values between two others.
fn between(datum: &Datum<'_>, low: f64, high: f64, of: fn(f64) -> f64) -> Result<Value> {
    let v = float(datum)?;
    if v < low || v > high {
        return Err(input_range());
    }
    Ok(Value::Float8(of(v)))
}

fn checked_float(datum: &Datum<'_>, of: fn(f64) -> f64) -> Result<Value> {
    let v = float(datum)?;
    let out = of(v);
    if out.is_infinite() && v.is_finite() {
        return Err(overflow());
    }
    Ok(Value::Float8(out))
}

fn degrees(v: f64) -> f64 {
    v / (std::f64::consts::PI / 180.0)
}

fn radians(v: f64) -> f64 {
    v * (std::f64::consts::PI / 180.0)
}

// The inverse hyperbolic functions as the C library of PostgreSQL computes them.

/// 2^28: beyond it what is added to the argument is lost.
const LARGE: f64 = 268_435_456.0;

fn asinh(v: f64) -> f64 {
    let a = v.abs();
    if !v.is_finite() || a < 1.0 / LARGE {
        return v;
    }
    let w = if a > LARGE {
        a.ln() + std::f64::consts::LN_2
    } else if a > 2.0 {
        (2.0 * a + 1.0 / ((v * v + 1.0).sqrt() + a)).ln()
    } else {
        let t = v * v;
        (a + t / (1.0 + (1.0 + t).sqrt())).ln_1p()
    };
    w.copysign(v)
}

fn acosh(v: f64) -> f64 {
    if v > LARGE {
        if v.is_infinite() { v } else { v.ln() + std::f64::consts::LN_2 }
    } else if v > 2.0 {
        (2.0 * v - 1.0 / (v + (v * v - 1.0).sqrt())).ln()
    } else {
        let t = v - 1.0;
        (t + (2.0 * t + t * t).sqrt()).ln_1p()
    }
}

fn inverse_tanh(v: f64) -> f64 {
    let a = v.abs();
    if a < 1.0 / LARGE {
        return v;
    }
    let t = if a < 0.5 {
        let t = a + a;
        0.5 * (t + t * a / (1.0 - a)).ln_1p()
    } else {
        0.5 * ((a + a) / (1.0 - a)).ln_1p()
    };
    t.copysign(v)
}

fn atanh(a: &[Datum<'_>]) -> Result<Value> {
    let v = float(&a[0])?;
    if !(-1.0..=1.0).contains(&v) && !v.is_nan() {
        return Err(input_range());
    }
    Ok(Value::Float8(match v {
        -1.0 => f64::NEG_INFINITY,
        1.0 => f64::INFINITY,
        v => inverse_tanh(v),
    }))
}

fn bucket_checks(low_is_high: bool, count: i64) -> Result<()> {
    if count <= 0 {
        return Err(PgError::new("2201G", "count must be greater than zero"));
    }
    if low_is_high {
        return Err(PgError::new("2201G", "lower bound cannot equal upper bound"));
    }
    Ok(())
}

fn bucket_value(v: i128) -> Result<Value> {
    i32::try_from(v).map(Value::Int4).map_err(|_| PgError::out_of_range("integer"))
}

fn width_bucket_float(a: &[Datum<'_>]) -> Result<Value> {
    let (v, low, high) = (float(&a[0])?, float(&a[1])?, float(&a[2])?);
    let count = integer(&a[3])?;
    if count <= 0 {
        bucket_checks(false, count)?;
    }
    if v.is_nan() || low.is_nan() || high.is_nan() {
        let message = "operand, lower bound, and upper bound cannot be NaN";
        return Err(PgError::new("2201G", message));
    }
    if low.is_infinite() || high.is_infinite() {
        return Err(PgError::new("2201G", "lower and upper bounds must be finite"));
    }
    bucket_checks(low == high, count)?;
    let (v, low, high) = if low < high { (v, low, high) } else { (-v, -low, -high) };
    let bucket = if v < low {
        0
    } else if v >= high {
        i128::from(count) + 1
    } else {
        // Lossless: the bucket is at most the count, which is 32 bits wide.
        #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss)]
        let at = ((v - low) / (high - low) * count as f64) as i64;
        i128::from(at.min(count - 1)) + 1
    };
    bucket_value(bucket)
}

fn width_bucket_numeric(a: &[Datum<'_>]) -> Result<Value> {
    let (v, low, high) = (numeric(&a[0])?, numeric(&a[1])?, numeric(&a[2])?);
    let count = integer(&a[3])?;
    let scale = v.1.max(low.1).max(high.1);
    let range = || PgError::out_of_range("numeric");
    let at = |v: (i128, u8)| rescale(v.0, v.1, scale).ok_or_else(range);
    let (v, low, high) = (at(v)?, at(low)?, at(high)?);
    bucket_checks(low == high, count)?;
    let (v, low, high) = if low < high { (v, low, high) } else { (-v, -low, -high) };
    bucket_value(if v < low {
        0
    } else if v >= high {
        i128::from(count) + 1
    } else {
        (v - low).checked_mul(i128::from(count)).ok_or_else(range)? / (high - low) + 1
    })
}

fn scale(a: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Int4(i32::from(numeric(&a[0])?.1)))
}

fn min_scale(a: &[Datum<'_>]) -> Result<Value> {
    let (v, scale) = numeric(&a[0])?;
    Ok(Value::Int4(i32::from(crate::cast::trim_zeros(v, scale).1)))
}

fn trim_scale(a: &[Datum<'_>]) -> Result<Value> {
    let (v, scale) = numeric(&a[0])?;
    Ok(number(crate::cast::trim_zeros(v, scale)))
}

const fn one(body: One) -> Body {
    Body::One(body)
}

fn is_finite(a: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Bool(match &a[0] {
        Datum::Date(days) => !matches!(days, &i32::MIN | &i32::MAX),
        Datum::Timestamp(us) | Datum::Timestamptz(us) => !crate::datetime::is_infinite(*us),
        // Intervals without end are no values here.
        _ => true,
    }))
}

/// What is not exact as a numeric, as a cast makes one of it.
fn decimal_of(a: &[Datum<'_>]) -> Result<Value> {
    let (v, scale) = crate::cast::to_numeric(&a[0])?;
    let v = rescale(v, scale, FREE_NUMERIC_SCALE);
    let v = v.ok_or_else(|| PgError::out_of_range("numeric"))?;
    Ok(Value::Numeric(v, FREE_NUMERIC_SCALE))
}

/// A whole number as a numeric.
fn numeric_of(a: &[Datum<'_>]) -> Result<Value> {
    let (v, scale) = crate::cast::to_numeric(&a[0])?;
    Ok(Value::Numeric(v, scale))
}

pub(super) const LINES: &[Line] = &[
    // What is divided as the field divides.
    ("$exact(int2) numeric:0", one(numeric_of)),
    ("$exact(int4) numeric:0", one(numeric_of)),
    ("$exact(int8) numeric:0", one(numeric_of)),
    ("$exact(numeric) numeric:first", one(|a| Ok(a[0].to_value()))),
    ("$exact(float4) float4", one(|a| Ok(a[0].to_value()))),
    ("$exact(float8) float8", one(|a| Ok(a[0].to_value()))),
    ("$exact(interval) interval", one(|a| Ok(a[0].to_value()))),
    ("$exact(text) numeric:15", one(super::field::to_number)),
    ("$to_char(numeric) text", one(super::field::field_to_char)),
    ("$to_char(text) text", one(|a| Ok(a[0].to_value()))),
    // What is rounded to digits behind the point: no digit of an exact number is lost.
    ("$decimal(int2) numeric:0", one(numeric_of)),
    ("$decimal(int4) numeric:0", one(numeric_of)),
    ("$decimal(int8) numeric:0", one(numeric_of)),
    ("$decimal(numeric) numeric:first", one(|a| Ok(a[0].to_value()))),
    ("$decimal(float4) numeric:15", one(decimal_of)),
    ("$decimal(float8) numeric:15", one(decimal_of)),
    ("$decimal(text) numeric:15", one(super::field::to_number)),
    // There is nothing to round, which is said of the call.
    ("$decimal(interval) interval", one(|a| Ok(a[0].to_value()))),
    ("$decimal(timestamp) timestamp", one(|a| Ok(a[0].to_value()))),
    ("$decimal(timestamptz) timestamptz", one(|a| Ok(a[0].to_value()))),
    ("abs(int2) int2", one(abs)),
    ("abs(int4) int4", one(abs)),
    ("abs(int8) int8", one(abs)),
    ("abs(float4) float4", one(abs)),
    ("abs(float8) float8", one(abs)),
    ("abs(numeric) numeric:first", one(abs)),
    ("sign(float8) float8", one(sign)),
    ("sign(numeric) numeric:0", one(sign)),
    ("round(float8) float8", one(|a| to_whole(Way::Round, &a[0]))),
    ("round(numeric) numeric:0", one(|a| to_whole(Way::Round, &a[0]))),
    ("round(numeric, int4) numeric:digits", one(|a| to_digits(Way::Round, a))),
    ("+round(numeric, numeric) numeric:digits", one(|a| to_digits(Way::Round, a))),
    ("+trunc(numeric, numeric) numeric:digits", one(|a| to_digits(Way::Trunc, a))),
    ("trunc(float8) float8", one(|a| to_whole(Way::Trunc, &a[0]))),
    ("trunc(numeric) numeric:0", one(|a| to_whole(Way::Trunc, &a[0]))),
    ("trunc(numeric, int4) numeric:digits", one(|a| to_digits(Way::Trunc, a))),
    ("ceil(float8) float8", one(|a| to_whole(Way::Ceil, &a[0]))),
    ("ceil(numeric) numeric:0", one(|a| to_whole(Way::Ceil, &a[0]))),
    ("ceiling(float8) float8", one(|a| to_whole(Way::Ceil, &a[0]))),
    ("ceiling(numeric) numeric:0", one(|a| to_whole(Way::Ceil, &a[0]))),
    ("floor(float8) float8", one(|a| to_whole(Way::Floor, &a[0]))),
    ("floor(numeric) numeric:0", one(|a| to_whole(Way::Floor, &a[0]))),
    ("div(numeric, numeric) numeric:0", one(div)),
    ("mod(int2, int2) int2", one(modulo)),
    ("mod(int4, int4) int4", one(modulo)),
    ("mod(int8, int8) int8", one(modulo)),
    ("mod(numeric, numeric) numeric:max", one(modulo)),
    ("remainder(int2, int2) int2", one(remainder)),
    ("remainder(int4, int4) int4", one(remainder)),
    ("remainder(int8, int8) int8", one(remainder)),
    ("remainder(numeric, numeric) numeric:max", one(remainder)),
    ("remainder(float8, float8) float8", one(remainder)),
    ("gcd(int4, int4) int4", one(gcd)),
    ("gcd(int8, int8) int8", one(gcd)),
    ("gcd(numeric, numeric) numeric:max", one(gcd)),
    ("lcm(int4, int4) int4", one(lcm)),
    ("lcm(int8, int8) int8", one(lcm)),
    ("lcm(numeric, numeric) numeric:max", one(lcm)),
    ("factorial(int8) numeric:0", one(factorial)),
    ("sqrt(float8) float8", one(sqrt)),
    ("sqrt(numeric) numeric:16", one(sqrt)),
    ("cbrt(float8) float8", one(|a| unary(&a[0], f64::cbrt))),
    ("exp(float8) float8", one(exp)),
    ("exp(numeric) numeric:16", one(exp)),
    ("ln(float8) float8", one(|a| logarithm(&a[0], f64::ln, false))),
    ("ln(numeric) numeric:16", one(|a| logarithm(&a[0], f64::ln, false))),
    ("log(float8) float8", one(|a| logarithm(&a[0], f64::log10, true))),
    ("log(numeric) numeric:16", one(|a| logarithm(&a[0], f64::log10, true))),
    ("log(numeric, numeric) numeric:16", one(log_of_base)),
    ("log10(float8) float8", one(|a| logarithm(&a[0], f64::log10, true))),
    ("log10(numeric) numeric:16", one(|a| logarithm(&a[0], f64::log10, true))),
    ("power(float8, float8) float8", one(power)),
    ("power(numeric, numeric) numeric:16", one(power)),
    ("pow(float8, float8) float8", one(power)),
    ("pow(numeric, numeric) numeric:16", one(power)),
    ("pi() float8", one(|_| Ok(Value::Float8(std::f64::consts::PI)))),
    ("degrees(float8) float8", one(|a| checked_float(&a[0], degrees))),
    ("radians(float8) float8", one(|a| unary(&a[0], radians))),
    ("sin(float8) float8", one(|a| finite(&a[0], f64::sin))),
    ("cos(float8) float8", one(|a| finite(&a[0], f64::cos))),
    ("tan(float8) float8", one(|a| finite(&a[0], f64::tan))),
    ("cot(float8) float8", one(|a| finite(&a[0], |v| 1.0 / v.tan()))),
    ("asin(float8) float8", one(|a| between(&a[0], -1.0, 1.0, f64::asin))),
    ("acos(float8) float8", one(|a| between(&a[0], -1.0, 1.0, f64::acos))),
    ("atan(float8) float8", one(|a| unary(&a[0], f64::atan))),
    (
        "atan2(float8, float8) float8",
        one(|a| Ok(Value::Float8(float(&a[0])?.atan2(float(&a[1])?)))),
    ),
    ("sinh(float8) float8", one(|a| unary(&a[0], f64::sinh))),
    ("cosh(float8) float8", one(|a| unary(&a[0], f64::cosh))),
    ("tanh(float8) float8", one(|a| unary(&a[0], f64::tanh))),
    ("asinh(float8) float8", one(|a| unary(&a[0], asinh))),
    ("acosh(float8) float8", one(|a| between(&a[0], 1.0, f64::INFINITY, acosh))),
    ("atanh(float8) float8", one(atanh)),
    ("width_bucket(float8, float8, float8, int4) int4", one(width_bucket_float)),
    ("width_bucket(numeric, numeric, numeric, int4) int4", one(width_bucket_numeric)),
    ("isfinite(date) bool", one(is_finite)),
    ("isfinite(timestamp) bool", one(is_finite)),
    ("isfinite(timestamptz) bool", one(is_finite)),
    ("isfinite(interval) bool", one(is_finite)),
    ("scale(numeric) int4", one(scale)),
    ("min_scale(numeric) int4", one(min_scale)),
    ("trim_scale(numeric) numeric", one(trim_scale)),
    // The same where no plan gives the result a number of digits: see `short`.
    ("$trimmed(numeric) numeric:first", one(trim_scale)),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remainders_are_of_the_nearest_multiple() {
        for (v, by, rest) in [
            (10, 3, 1),
            (11, 3, -1),
            (-11, 3, 1),
            (5, 2, 1),
            (7, 2, -1),
            (-5, -2, -1),
            (6, 4, -2),
            (2, 4, 2),
            (9, 9, 0),
        ] {
            assert_eq!(nearest_rest(v, by), Ok(rest), "{v} by {by}");
            let double = |n: i128| Datum::Float8(i32::try_from(n).map_or(0.0, f64::from));
            let of_doubles = remainder(&[double(v), double(by)]);
            assert_eq!(of_doubles, Ok(double(rest).to_value()), "{v} by {by}");
        }
        assert_eq!(
            remainder(&[Datum::Numeric(55, 1), Datum::Numeric(2, 0)]),
            Ok(Value::Numeric(-5, 1))
        );
        assert!(remainder(&[Datum::Int4(1), Datum::Int4(0)]).is_err());
    }
}
