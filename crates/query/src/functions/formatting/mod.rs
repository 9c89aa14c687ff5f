//! `to_char`, `to_number`, `to_date`, `to_timestamp`: values written and read after a template.
//!
//! What it promises: every pattern of PostgreSQL with its meaning and its errors, in the names and
//! signs of its C locale. What it must never do: answer with other text where it does not know a
//! pattern.

mod instants;
mod number_template;
mod numbers;
mod of_field;
mod reading;
mod template;

#[cfg(test)]
mod tests;

pub(super) use of_field::FIELD_LINES;
pub use of_field::{FIELD_TO_NUMBER, FIELD_TO_TIMESTAMP, TO_DATETIME, is_hexadecimal, template};

use super::strings::{made, text};
use super::typed::{Body, Line};
use crate::cast::to_numeric;
use crate::datetime::{EPOCH_US, US_PER_DAY, Zone, is_infinite};
use crate::error::{PgError, Result};
use kernel::row::{Datum, Value};

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] =
    ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
/// Months in Roman numerals.
const ROMAN_MONTHS: [&str; 12] =
    ["I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII"];

/// The ending of an ordinal number.
fn ordinal(digits: &str, upper: bool) -> Result<&'static str> {
    let bytes = digits.as_bytes();
    let last = match bytes.last() {
        Some(byte) if byte.is_ascii_digit() => *byte,
        _ => return Err(PgError::new("22P02", format!("\"{digits}\" is not a number"))),
    };
    let teen = bytes.len() > 1 && bytes[bytes.len() - 2] == b'1';
    let at = match last {
        _ if teen => 0,
        b'1' => 1,
        b'2' => 2,
        b'3' => 3,
        _ => 0,
    };
    Ok(if upper { ["TH", "ST", "ND", "RD"] } else { ["th", "st", "nd", "rd"] }[at])
}

/// A timestamp, instant or interval as text; NULL for an empty template.
fn instant_to_char(a: &[Datum<'_>], zone: &Zone) -> Result<Value> {
    let template = text(&a[1])?;
    let infinite = match &a[0] {
        Datum::Timestamp(us) | Datum::Timestamptz(us) => is_infinite(*us),
        _ => false,
    };
    if template.is_empty() || infinite {
        return Ok(Value::Null);
    }
    made(match &a[0] {
        Datum::Timestamp(us) => instants::of_timestamp(*us, None, template)?,
        Datum::Timestamptz(us) => instants::of_timestamp(*us, Some(zone), template)?,
        Datum::Interval(interval) => instants::of_interval(*interval, template)?,
        _ => return Err(PgError::internal("to_char of another type")),
    })
}

fn number_to_char(a: &[Datum<'_>]) -> Result<Value> {
    let template = text(&a[1])?;
    made(match &a[0] {
        Datum::Float4(v) => numbers::of_float(f64::from(*v), template)?,
        Datum::Float8(v) => numbers::of_float(*v, template)?,
        Datum::Int4(v) => numbers::of_integer(i64::from(*v), template)?,
        Datum::Int8(v) => numbers::of_integer(*v, template)?,
        number => numbers::of_numeric(to_numeric(number)?, template)?,
    })
}

fn to_number(a: &[Datum<'_>]) -> Result<Value> {
    numbers::read(text(&a[0])?, text(&a[1])?)
}

fn to_date(a: &[Datum<'_>]) -> Result<Value> {
    let (input, template) = (text(&a[0])?, text(&a[1])?);
    let read = reading::read(input, template)?;
    let range = || PgError::new("22008", format!("date out of range: \"{input}\""));
    i32::try_from(read.local_us.div_euclid(US_PER_DAY)).map(Value::Date).map_err(|_| range())
}

fn to_timestamp(a: &[Datum<'_>], zone: &Zone) -> Result<Value> {
    let read = reading::read(text(&a[0])?, text(&a[1])?)?;
    Ok(Value::Timestamptz(match read.offset_s {
        Some(offset) => read.local_us - i64::from(offset) * 1_000_000,
        None => zone.to_utc(read.local_us),
    }))
}

/// Seconds since 1970.
fn epoch_to_timestamp(a: &[Datum<'_>]) -> Result<Value> {
    let seconds = super::math::float(&a[0])?;
    if seconds.is_nan() {
        return Err(PgError::new("22008", "timestamp cannot be NaN"));
    }
    let us = (seconds * 1e6).round_ties_even();
    // A year before those of PostgreSQL's calendar, and one after.
    if !(-2.2e17..9.3e18).contains(&us) {
        return Err(PgError::new("22008", format!("timestamp out of range: \"{seconds}\"")));
    }
    #[allow(clippy::cast_possible_truncation)] // the range is checked
    Ok(Value::Timestamptz(us as i64 - EPOCH_US))
}

pub(super) const LINES: &[Line] = &[
    ("to_char(timestamp, text) text", Body::In(instant_to_char)),
    ("to_char(timestamptz, text) text", Body::In(instant_to_char)),
    ("to_char(interval, text) text", Body::In(instant_to_char)),
    ("to_char(int4, text) text", Body::One(number_to_char)),
    ("to_char(int8, text) text", Body::One(number_to_char)),
    ("to_char(numeric, text) text", Body::One(number_to_char)),
    ("to_char(float4, text) text", Body::One(number_to_char)),
    ("to_char(float8, text) text", Body::One(number_to_char)),
    ("to_number(text, text) numeric:15", Body::One(to_number)),
    ("to_date(text, text) date", Body::One(to_date)),
    ("to_timestamp(text, text) timestamptz", Body::In(to_timestamp)),
    ("to_timestamp(float8) timestamptz", Body::One(epoch_to_timestamp)),
];
