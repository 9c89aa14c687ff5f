//! Roots, exponentials and logarithms of numerics, with as many digits as PostgreSQL gives.
//!
//! What it promises: the digits are right, rounded half away from zero; their number is
//! PostgreSQL's, as far as 38 digits reach. They are computed with integers of any length, which
//! stand for fractions of a fixed number of digits.

use crate::arith::pow10;
use crate::error::{PgError, Result};
use num_bigint::{BigInt, Sign};

/// Digits after the point inside; results have at most 38 in all.
const DIGITS: u32 = 100;
/// Significant digits that PostgreSQL wants at least.
const SIGNIFICANT: i64 = 16;

type Decimal = (i128, u8);

pub(super) fn numeric_overflow() -> PgError {
    PgError::new("22003", "value overflows numeric format")
        .with_detail("Numeric values have at most 38 digits here.")
}

fn ten(n: u32) -> BigInt {
    BigInt::from(10).pow(n)
}

fn fixed(v: Decimal) -> BigInt {
    BigInt::from(v.0) * ten(DIGITS - u32::from(v.1).min(DIGITS))
}

fn times(a: &BigInt, b: &BigInt) -> BigInt {
    a * b / ten(DIGITS)
}

fn divided(a: &BigInt, b: &BigInt) -> BigInt {
    a * ten(DIGITS) / b
}

/// A fraction of `digits` digits as a numeric of `scale`, or of fewer where 38 are not enough.
fn numeric(v: &BigInt, digits: u32, scale: i64) -> Result<Decimal> {
    let mut scale = u32::try_from(scale.clamp(0, 37)).unwrap_or(0).min(digits);
    let limit = pow10(38).unwrap_or(i128::MAX);
    loop {
        let unit = ten(digits - scale);
        let half: BigInt = &unit / 2;
        let moved = if v.sign() == Sign::Minus { v - &half } else { v + &half };
        let rounded: BigInt = moved / unit;
        match i128::try_from(&rounded) {
            Ok(v) if v.abs() < limit => return Ok((v, u8::try_from(scale).unwrap_or(0))),
            _ if scale > 0 => scale -= 1,
            _ => return Err(numeric_overflow()),
        }
    }
}

/// Weight and value of the first digit in base 10000, and of the first two.
fn first_digits(v: Decimal) -> (i64, i64, i64, bool) {
    if v.0 == 0 {
        return (0, 0, 0, false);
    }
    let text = v.0.unsigned_abs().to_string();
    let exponent = text.len() as i64 - i64::from(v.1);
    let weight = (exponent - 1).div_euclid(4);
    let first_len = usize::try_from(exponent - weight * 4).unwrap_or(1);
    let group = |from: usize, to: usize| -> i64 {
        (from..to).fold(0, |sum, at| {
            sum * 10 + text.as_bytes().get(at).map_or(0, |b| i64::from(b - b'0'))
        })
    };
    let more = text.trim_end_matches('0').len() > first_len;
    (weight, group(0, first_len), group(first_len, first_len + 4), more)
}

/// PostgreSQL's `estimate_ln_dweight`: the decimal weight of the logarithm.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
fn ln_weight(v: Decimal) -> i64 {
    let unit = pow10(u32::from(v.1)).unwrap_or(i128::MAX);
    if v.0 <= 0 {
        return 0;
    }
    if v.0 * 10 >= unit * 9 && v.0 * 10 <= unit * 11 {
        let rest = (v.0 - unit, v.1);
        if rest.0 == 0 {
            return 0;
        }
        let (weight, first, ..) = first_digits(rest);
        return weight * 4 + (first as f64).log10() as i64;
    }
    let (weight, first, second, more) = first_digits(v);
    let (digits, weight) =
        if more { (first * 10_000 + second, weight * 4 - 4) } else { (first, weight * 4) };
    let ln = (digits as f64).ln() + weight as f64 * std::f64::consts::LN_10;
    ln.abs().log10() as i64
}

fn as_float(v: Decimal) -> f64 {
    crate::cast::to_f64(&kernel::row::Datum::Numeric(v.0, v.1)).unwrap_or(f64::NAN)
}

pub(super) fn is_whole((v, scale): Decimal) -> bool {
    pow10(u32::from(scale)).is_some_and(|unit| v % unit == 0)
}

pub(super) fn sqrt(v: Decimal) -> Result<Decimal> {
    let (weight, ..) = first_digits(v);
    let root_weight = if weight >= 0 { weight * 2 + 1 } else { 1 - (1 - weight * 4) / 2 };
    let scale = (SIGNIFICANT - root_weight).max(i64::from(v.1)).max(0);
    let root = (fixed(v) * ten(DIGITS)).sqrt();
    numeric(&root, DIGITS, scale)
}

/// e to the power of a fraction; the result may be large.
fn exp_fixed(v: &BigInt) -> BigInt {
    // Halved until small, then squared as often.
    let mut halvings = 0u32;
    let mut small = v.clone();
    let limit: BigInt = ten(DIGITS) / 1000;
    while small.magnitude() > limit.magnitude() {
        small /= 2;
        halvings += 1;
    }
    let extra = ten(DIGITS);
    let (mut sum, mut term, mut n) = (extra.clone(), extra, 1u32);
    while term.sign() != Sign::NoSign {
        term = times(&term, &small) / n;
        sum += &term;
        n += 1;
    }
    for _ in 0..halvings {
        sum = times(&sum, &sum);
    }
    sum
}

/// The natural logarithm of a positive fraction.
fn ln_fixed(v: &BigInt) -> BigInt {
    let one = ten(DIGITS);
    let mut v = v.clone();
    // Roots bring it near 1; ln(v) = 2^k ln(v^(1/2^k)).
    let mut doublings = 0u32;
    let near: BigInt = &one / 100;
    while (&v - &one).magnitude() > near.magnitude() {
        v = (v * &one).sqrt();
        doublings += 1;
    }
    // ln(v) = 2 artanh((v - 1) / (v + 1))
    let x = divided(&(&v - &one), &(&v + &one));
    let square = times(&x, &x);
    let (mut sum, mut power, mut n) = (x.clone(), x, 3u32);
    loop {
        power = times(&power, &square);
        let term: BigInt = &power / n;
        if term.sign() == Sign::NoSign {
            break;
        }
        sum += term;
        n += 2;
    }
    (sum * 2u32) << doublings
}

#[allow(clippy::cast_possible_truncation)]
pub(super) fn exp(v: Decimal) -> Result<Decimal> {
    let weight = (as_float(v) * std::f64::consts::LOG10_E).clamp(-1000.0, 1000.0) as i64;
    if weight > 40 {
        return Err(numeric_overflow());
    }
    let scale = (SIGNIFICANT - weight).max(i64::from(v.1)).max(0);
    if weight < -80 {
        return Ok((0, 37));
    }
    numeric(&exp_fixed(&fixed(v)), DIGITS, scale)
}

pub(super) fn ln(v: Decimal) -> Result<Decimal> {
    let scale = (SIGNIFICANT - ln_weight(v)).max(i64::from(v.1)).max(0);
    numeric(&ln_fixed(&fixed(v)), DIGITS, scale)
}

pub(super) fn log(base: Decimal, v: Decimal) -> Result<Decimal> {
    let weight = ln_weight(v) - ln_weight(base);
    let scale = (SIGNIFICANT - weight).max(i64::from(base.1)).max(i64::from(v.1)).max(0);
    let below = ln_fixed(&fixed(base));
    if below.sign() == Sign::NoSign {
        return Err(PgError::division_by_zero());
    }
    numeric(&divided(&ln_fixed(&fixed(v)), &below), DIGITS, scale)
}

/// `base` may be negative if the exponent is whole; it is not zero if the exponent is negative.
pub(super) fn power(base: Decimal, exponent: Decimal) -> Result<Decimal> {
    let unit = pow10(u32::from(exponent.1)).unwrap_or(i128::MAX);
    if is_whole(exponent)
        && let Ok(n) = i32::try_from(exponent.0 / unit)
    {
        return whole_power(base, n);
    }
    if base.0 == 0 {
        return numeric(&BigInt::ZERO, DIGITS, SIGNIFICANT);
    }
    let magnitude = (base.0.abs(), base.1);
    let ln = times(&ln_fixed(&fixed(magnitude)), &fixed(exponent));
    result_of(ln, base, exponent)
}

#[allow(clippy::cast_possible_truncation)]
fn result_of(ln: BigInt, base: Decimal, exponent: Decimal) -> Result<Decimal> {
    let whole = i64::try_from(&ln / ten(DIGITS - 6)).unwrap_or(if ln.sign() == Sign::Minus {
        -1_000_000_000
    } else {
        1_000_000_000
    });
    #[allow(clippy::cast_precision_loss)]
    let weight = (whole as f64 / 1e6 * std::f64::consts::LOG10_E) as i64;
    if weight > 40 {
        return Err(numeric_overflow());
    }
    if weight < -80 {
        return Ok((0, 37));
    }
    let scale = (SIGNIFICANT - weight).max(i64::from(base.1)).max(i64::from(exponent.1)).max(0);
    let odd = base.0 < 0 && (exponent.0 / pow10(u32::from(exponent.1)).unwrap_or(1)) % 2 != 0;
    let out = exp_fixed(&ln);
    numeric(&if odd { -out } else { out }, DIGITS, scale)
}

fn whole_power(base: Decimal, n: i32) -> Result<Decimal> {
    let scale = SIGNIFICANT.max(i64::from(base.1));
    let count = n.unsigned_abs();
    if base.0 == 0 {
        let v = if n == 0 { 1 } else { 0 };
        return numeric(&BigInt::from(v), 0, 0).and_then(|(v, _)| scaled(v, scale));
    }
    let size = as_float(base).abs().log10() * f64::from(n);
    if size > 39.0 {
        return Err(numeric_overflow());
    }
    if size < -80.0 {
        return numeric(&BigInt::ZERO, DIGITS, scale);
    }
    // Few factors are multiplied without loss; many only occur near one, where the logarithm does.
    if count <= 4000 {
        let up = BigInt::from(base.0).pow(count);
        let digits = u32::from(base.1) * count;
        if n >= 0 {
            let wide = up * ten(DIGITS);
            return numeric(&wide, digits + DIGITS, scale);
        }
        let out = ten(digits + DIGITS) / up;
        return numeric(&out, DIGITS, scale);
    }
    let ln = ln_fixed(&fixed((base.0.abs(), base.1))) * n;
    let out = exp_fixed(&ln);
    numeric(&if base.0 < 0 && n % 2 != 0 { -out } else { out }, DIGITS, scale)
}

fn scaled(v: i128, scale: i64) -> Result<Decimal> {
    numeric(&(BigInt::from(v) * ten(DIGITS)), DIGITS, scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_postgresqls() {
        // Values of PostgreSQL 15.
        assert_eq!(sqrt((20, 1)).unwrap(), (1_414_213_562_373_095, 15));
        assert_eq!(exp((10, 1)).unwrap(), (27_182_818_284_590_452, 16));
        assert_eq!(ln((20, 1)).unwrap(), (6_931_471_805_599_453, 16));
        assert_eq!(power((250, 2), (250, 2)).unwrap(), (98_821_176_880_261_854, 16));
        assert_eq!(power((-375, 2), (1, 0)).unwrap(), (-37_500_000_000_000_000, 16));
        assert!(power((10, 0), (100, 0)).is_err());
    }
}
