//! Sets of values out of one call: `generate_series` and its like. They are made as arrays, which
//! the plan then takes apart.
//!
//! What it promises: the rows of PostgreSQL, in its order. What it must never do: fill the memory
//! with one call.

use super::math::{integer, numeric};
use super::typed::{Body, Line, Many};
use crate::arith::rescale;
use crate::datetime::Zone;
use crate::error::{PgError, Result};
use crate::interval;
use kernel::row::{Datum, Interval, Value};

/// Most rows of one call.
const ROWS_MAX: usize = 10_000_000;

fn too_many() -> PgError {
    PgError::new("54000", format!("a set of more than {ROWS_MAX} rows"))
        .with_hint("Larger series of integers can stand in FROM, with literals as bounds.")
}

fn zero_step() -> PgError {
    PgError::new("22023", "step size cannot equal zero")
}

fn integers(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    let (from, to) = (integer(&a[0])?, integer(&a[1])?);
    let step = a.get(2).map_or(Ok(1), integer)?;
    if step == 0 {
        return Err(zero_step());
    }
    let mut out = Vec::new();
    let mut at = from;
    while if step > 0 { at <= to } else { at >= to } {
        if out.len() == ROWS_MAX {
            return Err(too_many());
        }
        out.push(match &a[0] {
            Datum::Int4(_) => {
                Value::Int4(i32::try_from(at).map_err(|_| PgError::out_of_range("integer"))?)
            }
            _ => Value::Int8(at),
        });
        match at.checked_add(step) {
            Some(next) => at = next,
            None => break,
        }
    }
    Ok(Some(out))
}

fn numerics(a: &[Datum<'_>]) -> Result<Option<Vec<Value>>> {
    let (from, to) = (numeric(&a[0])?, numeric(&a[1])?);
    let step = a.get(2).map_or(Ok((1, 0)), numeric)?;
    if step.0 == 0 {
        return Err(zero_step());
    }
    let scale = from.1.max(to.1).max(step.1);
    let range = || PgError::out_of_range("numeric");
    let at = |v: (i128, u8)| rescale(v.0, v.1, scale).ok_or_else(range);
    let (mut v, to, step) = (at(from)?, at(to)?, at(step)?);
    let mut out = Vec::new();
    while if step > 0 { v <= to } else { v >= to } {
        if out.len() == ROWS_MAX {
            return Err(too_many());
        }
        out.push(Value::Numeric(v, scale));
        v = v.checked_add(step).ok_or_else(range)?;
    }
    Ok(Some(out))
}

fn instants(a: &[Datum<'_>], zone: &Zone) -> Result<Option<Vec<Value>>> {
    let (from, to, zoned) = match (&a[0], &a[1]) {
        (Datum::Timestamp(from), Datum::Timestamp(to)) => (*from, *to, false),
        (Datum::Timestamptz(from), Datum::Timestamptz(to)) => (*from, *to, true),
        _ => return Err(PgError::internal("the bounds of a series")),
    };
    let Datum::Interval(step) = &a[2] else {
        return Err(PgError::internal("the step of a series"));
    };
    let nothing = Interval { months: 0, days: 0, us: 0 };
    let sign = step.span_us().cmp(&nothing.span_us());
    if sign.is_eq() {
        return Err(zero_step());
    }
    let mut out = Vec::new();
    let mut at = from;
    while if sign.is_gt() { at <= to } else { at >= to } {
        if out.len() == ROWS_MAX {
            return Err(too_many());
        }
        out.push(if zoned { Value::Timestamptz(at) } else { Value::Timestamp(at) });
        at = if zoned {
            crate::temporal::shift_zoned(at, *step, zone)?
        } else {
            interval::shift(at, *step)?
        };
    }
    Ok(Some(out))
}

/// The name of the function that makes the rows of a set-returning one.
#[must_use]
pub fn set_function(name: &str) -> Option<&'static str> {
    Some(match name {
        "generate_series" => "$generate_series",
        "generate_subscripts" => "$generate_subscripts",
        "regexp_matches" => "$regexp_matches",
        "regexp_split_to_table" => "$regexp_split_to_table",
        "string_to_table" => "$string_to_table",
        other => match super::json_set(other) {
            Some([(made, _)]) => made,
            _ => return None,
        },
    })
}

const fn many(body: Many) -> Body {
    Body::Many(body)
}

pub(super) const LINES: &[Line] = &[
    ("$generate_series(int4, int4) int4[]", many(integers)),
    ("$generate_series(int4, int4, int4) int4[]", many(integers)),
    ("$generate_series(int8, int8) int8[]", many(integers)),
    ("$generate_series(int8, int8, int8) int8[]", many(integers)),
    ("$generate_series(numeric, numeric) numeric[]", many(numerics)),
    ("$generate_series(numeric, numeric, numeric) numeric[]", many(numerics)),
    ("$generate_series(timestamp, timestamp, interval) timestamp[]", Body::Zoned(instants)),
    ("$generate_series(timestamptz, timestamptz, interval) timestamptz[]", Body::Zoned(instants)),
    ("$string_to_table(text, text) ?text[]", many(super::strings::parts_of)),
    ("$string_to_table(text, text, text) ?text[]", many(super::strings::parts_of)),
];
