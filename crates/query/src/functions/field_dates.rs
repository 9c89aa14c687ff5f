//! Dates as the field computes with them: `trunc`, `round`, `add_months`, `last_day` and the like
//! of dates and timestamps, and the days between two of them.
//!
//! What it promises: a date stays a date; what was an instant is taken by the session's clock, as a
//! timestamp. What it must never do: change what PostgreSQL has under the same name (those forms
//! are looked at first, see [`super::typed`]).

use super::math::{float, integer};
use super::strings::text;
use super::typed::{Body, In, Line, One};
use crate::cast::to_numeric;
use crate::datetime::{US_PER_DAY, US_PER_SECOND, Zone, civil, days_of, is_infinite, midnight};
use crate::error::{PgError, Result};
use crate::types::FREE_NUMERIC_SCALE;
use kernel::row::{Datum, Interval, Value};

/// What a date is cut off or rounded to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Unit {
    Century,
    Year,
    IsoYear,
    Quarter,
    Month,
    /// Weeks that begin on the weekday of the year's first day.
    WeekOfYear,
    IsoWeek,
    /// The same of the month.
    WeekOfMonth,
    Day,
    /// Weeks that begin on Sunday.
    Week,
    Hour,
    Minute,
}

fn unit(model: &str) -> Result<Unit> {
    Ok(match model.to_ascii_uppercase().as_str() {
        "CC" | "SCC" => Unit::Century,
        "SYYYY" | "YYYY" | "YEAR" | "SYEAR" | "YYY" | "YY" | "Y" => Unit::Year,
        "IYYY" | "IYY" | "IY" | "I" => Unit::IsoYear,
        "Q" => Unit::Quarter,
        "MONTH" | "MON" | "MM" | "RM" => Unit::Month,
        "WW" => Unit::WeekOfYear,
        "IW" => Unit::IsoWeek,
        "W" => Unit::WeekOfMonth,
        "DDD" | "DD" | "J" => Unit::Day,
        "DAY" | "DY" | "D" => Unit::Week,
        "HH" | "HH12" | "HH24" => Unit::Hour,
        "MI" => Unit::Minute,
        _ => {
            return Err(PgError::new("22023", format!("bad precision specifier \"{model}\""))
                .with_hint(
                    "trunc and round of dates know YYYY, Q, MM, IW, WW, W, DAY, DD, HH24, \
                            MI and others of their kind.",
                ));
        }
    })
}

fn range() -> PgError {
    PgError::new("22008", "timestamp out of range")
}

fn day_number(us: i64) -> Result<i32> {
    i32::try_from(us.div_euclid(US_PER_DAY)).map_err(|_| range())
}

/// 0 is Monday.
const fn weekday(days: i32) -> i32 {
    (days + 5).rem_euclid(7)
}

/// The Monday of the first week of an ISO year.
fn iso_year_start(year: i64) -> Option<i32> {
    let fourth = days_of(year, 1, 4)?;
    Some(fourth - weekday(fourth))
}

/// Beginning of the unit around an instant, the point from which on it is rounded up, and the
/// beginning of the next one.
fn around(unit: Unit, us: i64) -> Result<[i64; 3]> {
    const HALF_DAY: i64 = US_PER_DAY / 2;
    let clock = |length: i64| {
        let start = us - us.rem_euclid(length);
        Ok([start, start + length / 2, start + length])
    };
    match unit {
        Unit::Hour => return clock(3600 * US_PER_SECOND),
        Unit::Minute => return clock(60 * US_PER_SECOND),
        Unit::Day => return clock(US_PER_DAY),
        _ => {}
    }
    let days = day_number(us)?;
    let (year, month, day) = civil(days);
    let first = |year: i64, month: u32| days_of(year, month, 1).ok_or_else(range);
    let of_days = |start: i32, middle: i32, next: i32| {
        Ok([midnight(start), midnight(middle), midnight(next)])
    };
    let week =
        |start: i32| Ok([midnight(start), midnight(start + 3) + HALF_DAY, midnight(start + 7)]);
    match unit {
        Unit::Century => {
            let start = (year - 1).div_euclid(100) * 100 + 1;
            of_days(first(start, 1)?, first(start + 50, 1)?, first(start + 100, 1)?)
        }
        Unit::Year => of_days(first(year, 1)?, first(year, 7)?, first(year + 1, 1)?),
        Unit::IsoYear => {
            let thursday = days - weekday(days) + 3;
            let (year, ..) = civil(thursday);
            let start = |year| iso_year_start(year).ok_or_else(range);
            of_days(start(year)?, first(year, 7)?, start(year + 1)?)
        }
        Unit::Quarter => {
            let month = (month - 1) / 3 * 3 + 1;
            let middle = days_of(year, month + 1, 16).ok_or_else(range)?;
            let next = if month == 10 { first(year + 1, 1)? } else { first(year, month + 3)? };
            of_days(first(year, month)?, middle, next)
        }
        Unit::Month => {
            let middle = days_of(year, month, 16).ok_or_else(range)?;
            let next = if month == 12 { first(year + 1, 1)? } else { first(year, month + 1)? };
            of_days(first(year, month)?, middle, next)
        }
        Unit::WeekOfYear => week(days - (days - first(year, 1)?) % 7),
        Unit::IsoWeek => week(days - weekday(days)),
        Unit::WeekOfMonth => week(days - (day.cast_signed() - 1) % 7),
        Unit::Week => week(days - (days + 6).rem_euclid(7)),
        Unit::Day | Unit::Hour | Unit::Minute => Err(range()),
    }
}

/// The local time of a date or timestamp; an instant's by the clock of the zone.
fn local(datum: &Datum<'_>, zone: Option<&Zone>) -> Result<i64> {
    match (datum, zone) {
        (Datum::Date(days), _) => Ok(midnight(*days)),
        (Datum::Timestamp(us), _) => Ok(*us),
        (Datum::Timestamptz(us), Some(zone)) if !is_infinite(*us) => Ok(zone.local(*us)),
        (Datum::Timestamptz(us), _) => Ok(*us),
        _ => Err(PgError::internal("an argument that is no date")),
    }
}

/// The local time as the kind of value that it was made from: a date stays one.
fn like(datum: &Datum<'_>, us: i64) -> Result<Value> {
    Ok(match datum {
        Datum::Date(days) if is_infinite(us) => Value::Date(*days),
        Datum::Date(_) => Value::Date(day_number(us)?),
        _ => Value::Timestamp(us),
    })
}

fn cut(a: &[Datum<'_>], zone: Option<&Zone>, rounds: bool) -> Result<Value> {
    let us = local(&a[0], zone)?;
    let unit = a.get(1).map_or(Ok(Unit::Day), |model| unit(text(model)?))?;
    if is_infinite(us) {
        return like(&a[0], us);
    }
    let [start, middle, next] = around(unit, us)?;
    like(&a[0], if rounds && us >= middle { next } else { start })
}

/// The number of months, without a fraction.
fn months(datum: &Datum<'_>) -> Result<i32> {
    let (v, scale) = to_numeric(datum)?;
    let whole = v / 10i128.pow(u32::from(scale).min(38));
    i32::try_from(whole).map_err(|_| PgError::out_of_range("integer"))
}

fn is_last_day(days: i32) -> bool {
    civil(days).1 != civil(days + 1).1
}

fn last_of_month(days: i32) -> Result<i32> {
    let (year, month, _) = civil(days);
    let next = if month == 12 { days_of(year + 1, 1, 1) } else { days_of(year, month + 1, 1) };
    next.map(|next| next - 1).ok_or_else(range)
}

/// The last day of a month goes to the last day of another.
fn add_months(a: &[Datum<'_>], zone: Option<&Zone>) -> Result<Value> {
    let (us, months) = (local(&a[0], zone)?, months(&a[1])?);
    if is_infinite(us) {
        return like(&a[0], us);
    }
    let mut moved = crate::interval::shift(us, Interval { months, days: 0, us: 0 })?;
    if is_last_day(day_number(us)?) {
        let last = last_of_month(day_number(moved)?)?;
        moved = midnight(last) + us.rem_euclid(US_PER_DAY);
    }
    like(&a[0], moved)
}

fn last_day(a: &[Datum<'_>], zone: Option<&Zone>) -> Result<Value> {
    let us = local(&a[0], zone)?;
    if is_infinite(us) {
        return like(&a[0], us);
    }
    let last = last_of_month(day_number(us)?)?;
    like(&a[0], midnight(last) + us.rem_euclid(US_PER_DAY))
}

/// The number of a weekday by its name or its beginning, or by its number from Sunday on; 0 is
/// Monday.
fn named_weekday(datum: &Datum<'_>) -> Result<i32> {
    const NAMES: [&str; 7] =
        ["MONDAY", "TUESDAY", "WEDNESDAY", "THURSDAY", "FRIDAY", "SATURDAY", "SUNDAY"];
    if let Datum::Text(name) = datum {
        let name = name.trim().to_ascii_uppercase();
        let found = NAMES.iter().position(|known| name.len() >= 3 && known.starts_with(&name));
        let found = found.and_then(|at| i32::try_from(at).ok());
        return found.ok_or_else(|| {
            PgError::new("22023", format!("not a valid day of the week: \"{name}\""))
        });
    }
    let number = integer(datum)?;
    match i32::try_from(number) {
        Ok(number @ 1..=7) => Ok((number + 5) % 7),
        _ => Err(PgError::new("22023", format!("not a valid day of the week: {number}"))),
    }
}

fn next_day(a: &[Datum<'_>], zone: Option<&Zone>) -> Result<Value> {
    let (us, wanted) = (local(&a[0], zone)?, named_weekday(&a[1])?);
    if is_infinite(us) {
        return like(&a[0], us);
    }
    let ahead = (wanted - weekday(day_number(us)?) + 6).rem_euclid(7) + 1;
    let moved = us.checked_add(i64::from(ahead) * US_PER_DAY).ok_or_else(range)?;
    like(&a[0], moved)
}

/// `v` times `10^FREE_NUMERIC_SCALE` by `by`, rounded.
fn quotient(v: i128, by: i128) -> Result<Value> {
    let scaled = v.checked_mul(10i128.pow(u32::from(FREE_NUMERIC_SCALE)));
    let scaled = scaled.ok_or_else(|| PgError::out_of_range("numeric"))?;
    let half = if scaled < 0 { -(by / 2) } else { by / 2 };
    Ok(Value::Numeric((scaled + half) / by, FREE_NUMERIC_SCALE))
}

/// Whole months between days of the same number, or between last days; else a month has 31 days.
fn months_between(a: &[Datum<'_>], zone: Option<&Zone>) -> Result<Value> {
    let (to, from) = (local(&a[0], zone)?, local(&a[1], zone)?);
    if is_infinite(to) || is_infinite(from) {
        return Err(PgError::new("22008", "cannot subtract infinite timestamps"));
    }
    let (to_day, from_day) = (day_number(to)?, day_number(from)?);
    let (a, b) = (civil(to_day), civil(from_day));
    let whole = (a.0 - b.0) * 12 + i64::from(a.1) - i64::from(b.1);
    let whole = i128::from(whole);
    if a.2 == b.2 || (is_last_day(to_day) && is_last_day(from_day)) {
        return quotient(whole, 1);
    }
    let day = i128::from(US_PER_DAY);
    let of_month = |days: u32, us: i64| i128::from(days) * day + i128::from(us % US_PER_DAY);
    let rest =
        of_month(a.2, to.rem_euclid(US_PER_DAY)) - of_month(b.2, from.rem_euclid(US_PER_DAY));
    quotient(whole * 31 * day + rest, 31 * day)
}

/// An instant moved by days and fractions of days.
pub(crate) fn moved_by_days(us: i64, days: f64) -> Result<i64> {
    if is_infinite(us) {
        return Ok(us);
    }
    if !(-1e9..=1e9).contains(&days) {
        return Err(range());
    }
    // Whole days by themselves: a fraction keeps its microseconds then.
    let whole = days.trunc();
    #[allow(clippy::cast_possible_truncation)] // the range is checked
    let (whole, rest) = (whole as i64, ((days - whole) * US_PER_DAY as f64).round() as i64);
    us.checked_add(whole * US_PER_DAY).and_then(|us| us.checked_add(rest)).ok_or_else(range)
}

/// The days between two.
fn days_between(a: &[Datum<'_>], zone: Option<&Zone>) -> Result<Value> {
    let (to, from) = (local(&a[0], zone)?, local(&a[1], zone)?);
    if is_infinite(to) || is_infinite(from) {
        return Err(PgError::new("22008", "cannot subtract infinite timestamps"));
    }
    quotient(i128::from(to) - i128::from(from), i128::from(US_PER_DAY))
}

fn date_difference(a: &[Datum<'_>]) -> Result<Value> {
    match (&a[0], &a[1]) {
        (Datum::Date(to), Datum::Date(from)) => {
            let days = i64::from(*to) - i64::from(*from);
            i32::try_from(days).map(Value::Int4).map_err(|_| PgError::out_of_range("integer"))
        }
        _ => Err(PgError::internal("an argument that is no date")),
    }
}

fn minus_days(a: &[Datum<'_>]) -> Result<Value> {
    Ok(Value::Timestamp(moved_by_days(local(&a[0], None)?, -float(&a[1])?)?))
}

fn date_minus_days(a: &[Datum<'_>]) -> Result<Value> {
    let Datum::Date(days) = &a[0] else {
        return Err(PgError::internal("an argument that is no date"));
    };
    if is_infinite(midnight(*days)) {
        return Ok(Value::Date(*days));
    }
    crate::datetime::date_of(i64::from(*days).saturating_sub(integer(&a[1])?)).map(Value::Date)
}

fn minus_interval(a: &[Datum<'_>]) -> Result<Value> {
    let Datum::Interval(by) = &a[1] else {
        return Err(PgError::internal("an argument that is no interval"));
    };
    let back = crate::interval::negate(*by)?;
    crate::interval::shift(local(&a[0], None)?, back).map(Value::Timestamp)
}

fn numbers(a: &[Datum<'_>]) -> Result<Value> {
    let range = PgError::out_of_range;
    match (&a[0], &a[1]) {
        (Datum::Int4(a), Datum::Int4(b)) => {
            a.checked_sub(*b).map(Value::Int4).ok_or_else(|| range("integer"))
        }
        (Datum::Int8(a), Datum::Int8(b)) => {
            a.checked_sub(*b).map(Value::Int8).ok_or_else(|| range("bigint"))
        }
        (Datum::Float8(a), Datum::Float8(b)) => {
            Ok(Value::Float8(crate::arith::float8(crate::arith::Op::Sub, *a, *b)?))
        }
        (a, b) => {
            let (a, b) = (to_numeric(a)?, to_numeric(b)?);
            let (v, scale) = crate::arith::numeric(crate::arith::Op::Sub, a, b)?;
            Ok(Value::Numeric(v, scale))
        }
    }
}

const fn one(body: One) -> Body {
    Body::One(body)
}

const fn zoned(body: In) -> Body {
    Body::In(body)
}

/// A `-` one of whose sides is a date of the field's.
pub const MINUS: &str = "$field_sub";

pub(super) const LINES: &[Line] = &[
    ("+trunc(date) date", one(|a| cut(a, None, false))),
    ("+trunc(date, text) date", one(|a| cut(a, None, false))),
    ("+trunc(timestamp) timestamp", one(|a| cut(a, None, false))),
    ("+trunc(timestamp, text) timestamp", one(|a| cut(a, None, false))),
    ("+trunc(timestamptz) timestamp", zoned(|a, z| cut(a, Some(z), false))),
    ("+trunc(timestamptz, text) timestamp", zoned(|a, z| cut(a, Some(z), false))),
    ("+round(date) date", one(|a| cut(a, None, true))),
    ("+round(date, text) date", one(|a| cut(a, None, true))),
    ("+round(timestamp) timestamp", one(|a| cut(a, None, true))),
    ("+round(timestamp, text) timestamp", one(|a| cut(a, None, true))),
    ("+round(timestamptz) timestamp", zoned(|a, z| cut(a, Some(z), true))),
    ("+round(timestamptz, text) timestamp", zoned(|a, z| cut(a, Some(z), true))),
    ("add_months(date, numeric) date", one(|a| add_months(a, None))),
    ("add_months(timestamp, numeric) timestamp", one(|a| add_months(a, None))),
    ("add_months(timestamptz, numeric) timestamp", zoned(|a, z| add_months(a, Some(z)))),
    ("last_day(date) date", one(|a| last_day(a, None))),
    ("last_day(timestamp) timestamp", one(|a| last_day(a, None))),
    ("last_day(timestamptz) timestamp", zoned(|a, z| last_day(a, Some(z)))),
    ("next_day(date, text) date", one(|a| next_day(a, None))),
    ("next_day(date, int4) date", one(|a| next_day(a, None))),
    ("next_day(timestamp, text) timestamp", one(|a| next_day(a, None))),
    ("next_day(timestamp, int4) timestamp", one(|a| next_day(a, None))),
    ("next_day(timestamptz, text) timestamp", zoned(|a, z| next_day(a, Some(z)))),
    ("next_day(timestamptz, int4) timestamp", zoned(|a, z| next_day(a, Some(z)))),
    ("months_between(timestamp, timestamp) numeric:15", one(|a| months_between(a, None))),
    (
        "months_between(timestamptz, timestamptz) numeric:15",
        zoned(|a, z| months_between(a, Some(z))),
    ),
    ("$field_sub(timestamp, timestamp) numeric:15", one(|a| days_between(a, None))),
    ("$field_sub(timestamptz, timestamptz) numeric:15", zoned(|a, z| days_between(a, Some(z)))),
    ("$field_sub(date, date) int4", one(date_difference)),
    ("$field_sub(date, int4) date", one(date_minus_days)),
    ("$field_sub(date, float8) timestamp", one(minus_days)),
    ("$field_sub(timestamp, float8) timestamp", one(minus_days)),
    ("$field_sub(date, interval) timestamp", one(minus_interval)),
    ("$field_sub(timestamp, interval) timestamp", one(minus_interval)),
    // What is left of dates may be a number of days already.
    ("$field_sub(int4, int4) int4", one(numbers)),
    ("$field_sub(int8, int8) int8", one(numbers)),
    ("$field_sub(numeric, numeric) numeric:max", one(numbers)),
    ("$field_sub(float8, float8) float8", one(numbers)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datetime::{parse_timestamp, push_timestamp};

    fn at(text: &str) -> i64 {
        parse_timestamp(text, 0).expect("a timestamp")
    }

    fn shown(value: Result<Value>) -> String {
        match value {
            Ok(Value::Timestamp(us)) => {
                let mut out = Vec::new();
                push_timestamp(us, &mut out);
                String::from_utf8(out).expect("a text")
            }
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn units_begin_and_turn_where_they_do() {
        let cut = |from: &str, model: &str, rounds| {
            shown(cut(&[Datum::Timestamp(at(from)), Datum::Text(model)], None, rounds))
        };
        // A Wednesday.
        let from = "2024-05-15 13:29:31";
        for (model, truncated, rounded) in [
            ("CC", "2001-01-01 00:00:00", "2001-01-01 00:00:00"),
            ("yyyy", "2024-01-01 00:00:00", "2024-01-01 00:00:00"),
            ("IYYY", "2024-01-01 00:00:00", "2024-01-01 00:00:00"),
            ("Q", "2024-04-01 00:00:00", "2024-04-01 00:00:00"),
            ("MM", "2024-05-01 00:00:00", "2024-05-01 00:00:00"),
            ("WW", "2024-05-13 00:00:00", "2024-05-13 00:00:00"),
            ("IW", "2024-05-13 00:00:00", "2024-05-13 00:00:00"),
            ("W", "2024-05-15 00:00:00", "2024-05-15 00:00:00"),
            ("DD", "2024-05-15 00:00:00", "2024-05-16 00:00:00"),
            ("DAY", "2024-05-12 00:00:00", "2024-05-19 00:00:00"),
            ("HH24", "2024-05-15 13:00:00", "2024-05-15 13:00:00"),
            ("MI", "2024-05-15 13:29:00", "2024-05-15 13:30:00"),
        ] {
            assert_eq!(cut(from, model, false), truncated, "{model}");
            assert_eq!(cut(from, model, true), rounded, "{model}");
        }
        assert_eq!(cut("2024-05-16", "Q", true), "2024-07-01 00:00:00");
        assert_eq!(cut("2024-05-16", "MM", true), "2024-06-01 00:00:00");
        assert_eq!(cut("2024-07-01", "YYYY", true), "2025-01-01 00:00:00");
        assert!(cut(from, "SS", false).contains("22023"));
    }

    #[test]
    fn months_end_with_their_last_days() {
        let add = |from: &str, months: i128| {
            shown(add_months(&[Datum::Timestamp(at(from)), Datum::Numeric(months, 0)], None))
        };
        assert_eq!(add("2024-01-31 10:00:00", 1), "2024-02-29 10:00:00");
        assert_eq!(add("2024-02-29", 12), "2025-02-28 00:00:00");
        assert_eq!(add("2024-02-29", 1), "2024-03-31 00:00:00");
        assert_eq!(add("2024-03-30", -1), "2024-02-29 00:00:00");
        let between = |to: &str, from: &str| match months_between(
            &[Datum::Timestamp(at(to)), Datum::Timestamp(at(from))],
            None,
        ) {
            Ok(Value::Numeric(v, _)) => v,
            other => panic!("{other:?}"),
        };
        let one = 10i128.pow(u32::from(FREE_NUMERIC_SCALE));
        assert_eq!(between("2024-03-31", "2024-02-29"), one);
        assert_eq!(between("2024-02-15 10:00", "2024-03-15"), -one);
        assert_eq!(between("1995-02-02", "1995-01-01"), 1_032_258_064_516_129);
    }

    #[test]
    fn weekdays_come_next() {
        let next = |name: &str| {
            let from = Datum::Timestamp(at("2024-05-15 08:00:00"));
            shown(next_day(&[from, Datum::Text(name)], None))
        };
        assert_eq!(next("wednesday"), "2024-05-22 08:00:00");
        assert_eq!(next("THU"), "2024-05-16 08:00:00");
        assert!(next("Mi").contains("22023"));
    }

    #[test]
    fn fractions_of_days_keep_their_seconds() {
        let from = at("2024-05-15 08:00:00");
        assert_eq!(moved_by_days(from, 1.0 / 24.0), Ok(from + 3_600_000_000));
        assert_eq!(moved_by_days(from, -7.0 / 86_400.0), Ok(from - 7_000_000));
        assert_eq!(moved_by_days(i64::MAX, 1.0), Ok(i64::MAX));
        assert!(moved_by_days(from, f64::NAN).is_err());
    }
}
