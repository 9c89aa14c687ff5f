//! Arithmetic with PostgreSQL's rules: overflow and division by zero are errors, numeric division
//! has at
//! least 16 significant digits.

use crate::cast::trim_zeros;
use crate::error::{PgError, Result};
use datafusion::arrow::datatypes::i256;

/// The four operations and the remainder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Mod,
}

/// The same, of any of the integer types.
macro_rules! integer_op {
    ($name:ident, $ty:ty, $pg:literal) => {
        /// # Errors
        /// 22003 on overflow, 22012 on division by zero.
        pub fn $name(op: Op, a: $ty, b: $ty) -> Result<$ty> {
            let out = match op {
                Op::Add => a.checked_add(b),
                Op::Sub => a.checked_sub(b),
                Op::Mul => a.checked_mul(b),
                Op::Div | Op::Mod if b == 0 => return Err(PgError::division_by_zero()),
                Op::Div => a.checked_div(b),
                Op::Mod if b == -1 => Some(0),
                Op::Mod => a.checked_rem(b),
            };
            out.ok_or_else(|| PgError::out_of_range($pg))
        }
    };
}

integer_op!(int2, i16, "smallint");
integer_op!(int4, i32, "integer");
integer_op!(int8, i64, "bigint");

/// # Errors
/// As [`float8`].
pub fn float4(op: Op, a: f32, b: f32) -> Result<f32> {
    let out = match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div | Op::Mod if b == 0.0 => return Err(PgError::division_by_zero()),
        Op::Div => a / b,
        Op::Mod => a % b,
    };
    in_range(op, f64::from(a), f64::from(b), f64::from(out)).map(|()| out)
}

/// # Errors
/// 22012, and 22003 where a finite operand gives an infinite result.
pub fn float8(op: Op, a: f64, b: f64) -> Result<f64> {
    let out = match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div | Op::Mod if b == 0.0 => return Err(PgError::division_by_zero()),
        Op::Div => a / b,
        Op::Mod => a % b,
    };
    in_range(op, a, b, out).map(|()| out)
}

/// Whether finite operands gave a number.
fn in_range(op: Op, a: f64, b: f64, out: f64) -> Result<()> {
    if out.is_infinite() && a.is_finite() && b.is_finite() {
        return Err(PgError::new("22003", "value out of range: overflow"));
    }
    let vanished = match op {
        Op::Mul => a != 0.0 && b != 0.0,
        Op::Div => a != 0.0 && b.is_finite(),
        _ => false,
    };
    if out == 0.0 && vanished {
        return Err(PgError::new("22003", "value out of range: underflow"));
    }
    Ok(())
}

fn numeric_overflow() -> PgError {
    PgError::new("22003", "value overflows numeric format")
        .with_detail("Numeric values have at most 38 digits here.")
}

/// Ten to a power; `None` beyond what fits.
#[must_use]
pub fn pow10(n: u32) -> Option<i128> {
    10i128.checked_pow(n)
}

/// The unscaled value at another scale, rounded half away from zero.
#[must_use]
pub fn rescale(value: i128, from: u8, to: u8) -> Option<i128> {
    if to >= from {
        return value.checked_mul(pow10(u32::from(to - from))?);
    }
    match pow10(u32::from(from - to)) {
        None => Some(0),
        Some(unit) => Some(div_round(value, unit)),
    }
}

fn div_round(a: i128, unit: i128) -> i128 {
    let (quotient, rest) = (a / unit, a % unit);
    let twice = rest.unsigned_abs().saturating_mul(2);
    if twice >= unit.unsigned_abs() {
        quotient + if (a < 0) == (unit < 0) { 1 } else { -1 }
    } else {
        quotient
    }
}

/// # Errors
/// 22003 beyond 38 digits, 22012.
pub fn numeric(op: Op, a: (i128, u8), b: (i128, u8)) -> Result<(i128, u8)> {
    let scale = a.1.max(b.1);
    let aligned =
        || -> Option<(i128, i128)> { Some((rescale(a.0, a.1, scale)?, rescale(b.0, b.1, scale)?)) };
    match op {
        Op::Add | Op::Sub | Op::Mod => {
            let (x, y) = aligned().ok_or_else(numeric_overflow)?;
            let out = match op {
                Op::Add => x.checked_add(y),
                Op::Sub => x.checked_sub(y),
                _ if y == 0 => return Err(PgError::division_by_zero()),
                _ => Some(x % y),
            };
            Ok((out.ok_or_else(numeric_overflow)?, scale))
        }
        Op::Mul => multiply(a, b).ok_or_else(numeric_overflow),
        Op::Div if b.0 == 0 => Err(PgError::division_by_zero()),
        Op::Div => {
            let mut scale = division_scale(a, b);
            loop {
                if let Some(out) = divide(a, b, scale) {
                    return Ok((out, scale));
                }
                // Fewer digits rather than an error: 38 are what there is.
                if scale <= a.1.max(b.1) {
                    return Err(numeric_overflow());
                }
                scale -= 1;
            }
        }
    }
}

fn multiply(a: (i128, u8), b: (i128, u8)) -> Option<(i128, u8)> {
    let Some(out) = a.0.checked_mul(b.0) else {
        // Zeros at an end may be all that is too much.
        let (x, y) = (trim_zeros(a.0, a.1), trim_zeros(b.0, b.1));
        return if (x, y) == (a, b) { None } else { multiply(x, y) };
    };
    let scale = u16::from(a.1) + u16::from(b.1);
    let Some(excess) = scale.checked_sub(u16::from(u8::MAX)).filter(|excess| *excess > 0) else {
        return Some((out, u8::try_from(scale).unwrap_or(u8::MAX)));
    };
    // Digits so far behind the point that no number has them.
    Some((pow10(u32::from(excess)).map_or(0, |unit| div_round(out, unit)), u8::MAX))
}

fn divide(a: (i128, u8), b: (i128, u8), scale: u8) -> Option<i128> {
    let shift = i32::from(scale) + i32::from(b.1) - i32::from(a.1);
    let unit = pow10(shift.unsigned_abs())?;
    match shift >= 0 {
        true => match a.0.checked_mul(unit) {
            Some(dividend) => Some(div_round(dividend, b.0)),
            None => divide_wide(a.0, unit, b.0),
        },
        false => Some(div_round(a.0, b.0.checked_mul(unit)?)),
    }
}

/// `a * unit / b`, rounded half away from zero, where the product has more than 38 digits.
fn divide_wide(a: i128, unit: i128, b: i128) -> Option<i128> {
    let dividend = i256::from_i128(a).checked_mul(i256::from_i128(unit))?;
    let divisor = i256::from_i128(b);
    let (quotient, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
    let twice = rest.checked_abs()?.checked_mul(i256::from_i128(2))?;
    let away = if (a < 0) == (b < 0) { 1 } else { -1 };
    let quotient = match twice >= divisor.checked_abs()? {
        true => quotient.checked_add(i256::from_i128(away))?,
        false => quotient,
    };
    quotient.to_i128()
}

/// Weight and value of the first base-10000 digit, as PostgreSQL keeps numerics.
fn first_digit(v: (i128, u8)) -> (i32, i32) {
    if v.0 == 0 {
        return (0, 0);
    }
    let digits = i32::try_from(v.0.unsigned_abs().ilog10()).unwrap_or(0) + 1;
    let exponent = digits - i32::from(v.1); // decimal digits before the point
    let weight = (exponent - 1).div_euclid(4);
    let first_len = exponent - weight * 4; // 1 to 4 decimal digits in the first one
    let drop = digits - first_len;
    let unit = |n: i32| pow10(n.unsigned_abs()).map_or(u128::MAX, i128::unsigned_abs);
    let abs = v.0.unsigned_abs();
    let first = if drop >= 0 { abs / unit(drop) } else { abs.saturating_mul(unit(drop)) };
    (weight, i32::try_from(first).unwrap_or(0))
}

/// PostgreSQL's `select_div_scale`.
fn division_scale(a: (i128, u8), b: (i128, u8)) -> u8 {
    let ((weight_a, first_a), (weight_b, first_b)) = (first_digit(a), first_digit(b));
    let mut weight = weight_a - weight_b;
    if first_a <= first_b {
        weight -= 1;
    }
    let scale = (16 - weight * 4).max(i32::from(a.1)).max(i32::from(b.1)).clamp(0, 37);
    u8::try_from(scale).unwrap_or(37)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_overflow_with_an_error() {
        assert_eq!(int4(Op::Add, i32::MAX, 1).unwrap_err().code, "22003");
        assert_eq!(int4(Op::Div, i32::MIN, -1).unwrap_err().code, "22003");
        assert_eq!(int4(Op::Mod, i32::MIN, -1).unwrap(), 0);
        assert_eq!(int8(Op::Div, -7, 2).unwrap(), -3);
        assert_eq!(int2(Op::Div, 1, 0).unwrap_err().code, "22012");
    }

    #[test]
    fn products_have_as_many_digits_as_fit() {
        let mul = |a, b| numeric(Op::Mul, a, b);
        // Zeros that are of nobody's making are no reason for an error.
        let free = |n: i128| (n * 10i128.pow(15), 15);
        assert_eq!(mul(free(10i128.pow(10)), free(10i128.pow(10))).unwrap(), (10i128.pow(20), 0));
        assert_eq!(mul((i128::MAX, 0), (2, 0)).unwrap_err().code, "22003");
        assert_eq!(mul((1, 130), (1, 130)).unwrap(), (0, 255));
        assert_eq!(mul((7, 255), (10, 1)).unwrap(), (7, 255));
    }

    #[test]
    fn numeric_division_has_postgresqls_scale() {
        // select 1/3.0, 10/3.0, 1/7.0, 100000/3.0 in PostgreSQL 15
        assert_eq!(numeric(Op::Div, (1, 0), (30, 1)).unwrap(), (33_333_333_333_333_333_333, 20));
        assert_eq!(numeric(Op::Div, (10, 0), (30, 1)).unwrap(), (33_333_333_333_333_333, 16));
        assert_eq!(numeric(Op::Div, (100_000, 0), (30, 1)).unwrap(), (33_333_333_333_333_333, 12));
        assert_eq!(numeric(Op::Mul, (15, 1), (15, 1)).unwrap(), (225, 2));
        assert_eq!(numeric(Op::Mod, (-75, 1), (2, 0)).unwrap(), (-15, 1));
        assert_eq!(numeric(Op::Div, (1, 0), (0, 2)).unwrap_err().code, "22012");
        assert_eq!(rescale(-125, 2, 1), Some(-13));
    }
}
