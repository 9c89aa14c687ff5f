//! Operators that are functions here: of bits, of patterns, of double precision.
//!
//! What it promises: the types and errors of PostgreSQL's operators.

use super::math::{float, integer};
use super::patterns;
use super::strings::text;
use super::typed::{Body, Line, One};
use crate::arith::{self, Op};
use crate::error::{PgError, Result};
use kernel::row::{Datum, Value};

pub(super) const NO_OPERATOR: &str = "No operator matches the given name and argument types. You \
                                      might need to add explicit type casts.";

/// How the operator behind a function is written.
pub(crate) fn symbol(name: &str) -> Option<&'static str> {
    Some(match name {
        "bit_and" => "&",
        "bit_or" => "|",
        "bit_xor" => "#",
        "bit_not" => "~",
        "shift_left" => "<<",
        "shift_right" => ">>",
        "regex" => "~",
        "iregex" => "~*",
        "not_regex" => "!~",
        "not_iregex" => "!~*",
        "starts_with" => "^@",
        "square_root" => "|/",
        "cube_root" => "||/",
        "abs" => "@",
        "power" => "^",
        "like" => "~~",
        "ilike" => "~~*",
        "concat_bytes" => "||",
        "float8_add" => "+",
        "float8_sub" | "field_sub" => "-",
        "float8_mul" => "*",
        _ => return None,
    })
}

fn sized(like: &Datum<'_>, v: i64) -> Value {
    // The low bytes, as a shift leaves them.
    let low = v.to_le_bytes();
    match like {
        Datum::Int2(_) => Value::Int2(i16::from_le_bytes([low[0], low[1]])),
        Datum::Int4(_) => Value::Int4(i32::from_le_bytes([low[0], low[1], low[2], low[3]])),
        _ => Value::Int8(v),
    }
}

fn bits(a: &[Datum<'_>], of: fn(i64, i64) -> i64) -> Result<Value> {
    Ok(sized(&a[0], of(integer(&a[0])?, integer(&a[1])?)))
}

fn shift(a: &[Datum<'_>], left: bool) -> Result<Value> {
    let (v, by) = (integer(&a[0])?, integer(&a[1])?);
    // The processor's shift: an int2 is shifted as an int4 is, and the count wraps.
    let by = u32::try_from(by & if matches!(a[0], Datum::Int8(_)) { 63 } else { 31 });
    let by = by.unwrap_or(0);
    Ok(sized(&a[0], if left { v.wrapping_shl(by) } else { v.wrapping_shr(by) }))
}

fn truth(v: bool) -> Result<Value> {
    Ok(Value::Bool(v))
}

fn float_op(op: Op, a: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Float8(arith::float8(op, float(&a[0])?, float(&a[1])?)?))
}

fn escape_of(datum: Option<&Datum<'_>>) -> Result<Option<char>> {
    let Some(escape) = datum else { return Ok(Some('\\')) };
    let mut chars = text(escape)?.chars();
    match (chars.next(), chars.next()) {
        (escape, None) => Ok(escape),
        _ => Err(PgError::new("22025", "invalid escape string")
            .with_hint("Escape string must be empty or one character.")),
    }
}

fn like(a: &[Datum<'_>], fold: bool) -> Result<Value> {
    truth(patterns::like(text(&a[0])?, text(&a[1])?, escape_of(a.get(2))?, fold)?)
}

fn similar(a: &[Datum<'_>]) -> Result<Value> {
    let pattern = patterns::similar_pattern(text(&a[1])?, escape_of(a.get(2))?)?;
    truth(super::regex::matches(text(&a[0])?, &pattern, false)?)
}

/// A percentage of TABLESAMPLE as a probability.
fn chance(a: &[Datum<'_>]) -> Result<Value> {
    match &a[0] {
        Datum::Float8(percent) if (0.0..=100.0).contains(percent) => {
            Ok(Value::Float8(percent / 100.0))
        }
        _ => Err(PgError::new("2202H", "sample percentage must be between 0 and 100")),
    }
}

const fn one(body: One) -> Body {
    Body::One(body)
}

pub(super) const LINES: &[Line] = &[
    ("$chance(float8) float8", one(chance)),
    ("$bit_and(int2, int2) int2", one(|a| bits(a, |x, y| x & y))),
    ("$bit_and(int4, int4) int4", one(|a| bits(a, |x, y| x & y))),
    ("$bit_and(int8, int8) int8", one(|a| bits(a, |x, y| x & y))),
    ("$bit_or(int2, int2) int2", one(|a| bits(a, |x, y| x | y))),
    ("$bit_or(int4, int4) int4", one(|a| bits(a, |x, y| x | y))),
    ("$bit_or(int8, int8) int8", one(|a| bits(a, |x, y| x | y))),
    ("$bit_xor(int2, int2) int2", one(|a| bits(a, |x, y| x ^ y))),
    ("$bit_xor(int4, int4) int4", one(|a| bits(a, |x, y| x ^ y))),
    ("$bit_xor(int8, int8) int8", one(|a| bits(a, |x, y| x ^ y))),
    ("$bit_not(int2) int2", one(|a| Ok(sized(&a[0], !integer(&a[0])?)))),
    ("$bit_not(int4) int4", one(|a| Ok(sized(&a[0], !integer(&a[0])?)))),
    ("$bit_not(int8) int8", one(|a| Ok(sized(&a[0], !integer(&a[0])?)))),
    ("$shift_left(int2, int4) int2", one(|a| shift(a, true))),
    ("$shift_left(int4, int4) int4", one(|a| shift(a, true))),
    ("$shift_left(int8, int4) int8", one(|a| shift(a, true))),
    ("$shift_right(int2, int4) int2", one(|a| shift(a, false))),
    ("$shift_right(int4, int4) int4", one(|a| shift(a, false))),
    ("$shift_right(int8, int4) int8", one(|a| shift(a, false))),
    (
        "$regex(text, text) bool",
        one(|a| truth(super::regex::matches(text(&a[0])?, text(&a[1])?, false)?)),
    ),
    (
        "$iregex(text, text) bool",
        one(|a| truth(super::regex::matches(text(&a[0])?, text(&a[1])?, true)?)),
    ),
    (
        "$not_regex(text, text) bool",
        one(|a| truth(!super::regex::matches(text(&a[0])?, text(&a[1])?, false)?)),
    ),
    (
        "$not_iregex(text, text) bool",
        one(|a| truth(!super::regex::matches(text(&a[0])?, text(&a[1])?, true)?)),
    ),
    ("$starts_with(text, text) bool", one(|a| truth(text(&a[0])?.starts_with(text(&a[1])?)))),
    ("$like(text, text) bool", one(|a| like(a, false))),
    ("$like(text, text, text) bool", one(|a| like(a, false))),
    ("like(text, text) bool", one(|a| like(a, false))),
    (
        "notlike(text, text) bool",
        one(|a| truth(!patterns::like(text(&a[0])?, text(&a[1])?, Some('\\'), false)?)),
    ),
    (
        "$concat_bytes(bytea, bytea) bytea",
        one(|a| {
            Ok(Value::Bytea(
                [super::strings::bytes(&a[0])?, super::strings::bytes(&a[1])?].concat().into(),
            ))
        }),
    ),
    ("$ilike(text, text) bool", one(|a| like(a, true))),
    ("$ilike(text, text, text) bool", one(|a| like(a, true))),
    ("$similar(text, text) bool", one(similar)),
    ("$similar(text, text, text) bool", one(similar)),
    ("$power(float8, float8) float8", one(super::math::power)),
    ("$power(numeric, numeric) numeric:16", one(super::math::power)),
    ("$square_root(float8) float8", one(super::math::sqrt)),
    ("$cube_root(float8) float8", one(|a| Ok(Value::Float8(float(&a[0])?.cbrt())))),
    ("$float8_add(float8, float8) float8", one(|a| float_op(Op::Add, a))),
    ("$float8_sub(float8, float8) float8", one(|a| float_op(Op::Sub, a))),
    ("$float8_mul(float8, float8) float8", one(|a| float_op(Op::Mul, a))),
];
