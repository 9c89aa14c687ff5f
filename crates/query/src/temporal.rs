//! Dates, times and intervals computed with: operators between them, `extract`, `date_trunc`,
//! `age`, `make_date` and its like.
//!
//! What it promises: PostgreSQL's types and values. What it must never do: look at the session;
//! the time zone in which instants are taken apart is given when a function is made.

use crate::arith::Op;
use crate::cast::{self, to_f64, to_numeric};
use crate::datetime::{
    EPOCH_US, US_PER_DAY, US_PER_SECOND, Zone, civil, days_of, is_infinite, midnight,
};
use crate::error::{PgError, Result};
use crate::functions::{RowFunction, moved_by_days};
use crate::interval;
use crate::types::col_type_of;
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::ScalarValue;
use datafusion::logical_expr::ScalarUDF;
use kernel::row::{ColType, Datum, Interval, TypeKind, Value};
use std::sync::Arc;

const fn ty(kind: TypeKind) -> ColType {
    ColType::new(kind)
}

fn no_function(name: &str) -> PgError {
    PgError::new("42883", format!("function {name} does not exist for these types"))
}

const fn is_number(kind: TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::Int2
            | TypeKind::Int4
            | TypeKind::Int8
            | TypeKind::Float4
            | TypeKind::Float8
            | TypeKind::Numeric
    )
}

const fn has_fraction(kind: TypeKind) -> bool {
    matches!(kind, TypeKind::Float4 | TypeKind::Float8 | TypeKind::Numeric)
}

/// Whether a value of one kind is moved by a number of days of the other kind.
pub(crate) const fn moves_by_days(at: TypeKind, by: TypeKind) -> bool {
    matches!(at, TypeKind::Timestamp | TypeKind::Timestamptz) && is_number(by)
        || matches!(at, TypeKind::Date) && has_fraction(by)
}

/// The function for an operator between values of these kinds, at least one of which is of dates
/// or times.
#[must_use]
pub fn operator(op: Op, a: TypeKind, b: TypeKind, env: FormatEnv) -> Option<Arc<ScalarUDF>> {
    use TypeKind::{Date, Interval, Time, Timestamp, Timestamptz};
    let returns = match (a, op, b) {
        (Date, Op::Sub, Date) => return None,
        (Timestamp, Op::Add | Op::Sub, Interval) | (Interval, Op::Add, Timestamp) => Timestamp,
        (Timestamptz, Op::Add | Op::Sub, Interval) | (Interval, Op::Add, Timestamptz) => {
            Timestamptz
        }
        (Date, Op::Add | Op::Sub, Interval) | (Interval, Op::Add, Date) => Timestamp,
        (Date, Op::Add, Time) | (Time, Op::Add, Date) => Timestamp,
        (Time, Op::Add | Op::Sub, Interval) | (Interval, Op::Add, Time) => Time,
        (Time, Op::Sub, Time) => Interval,
        (Date | Timestamp | Timestamptz, Op::Sub, Date | Timestamp | Timestamptz) => Interval,
        (Interval, Op::Add | Op::Sub, Interval) => Interval,
        (Interval, Op::Mul | Op::Div, number) if is_number(number) => Interval,
        (number, Op::Mul, Interval) if is_number(number) => Interval,
        // The field's: a number beside an instant is one of days.
        (Timestamp, Op::Add | Op::Sub, number) if is_number(number) => Timestamp,
        (number, Op::Add, Timestamp) if is_number(number) => Timestamp,
        (Timestamptz, Op::Add | Op::Sub, number) if is_number(number) => Timestamptz,
        (number, Op::Add, Timestamptz) if is_number(number) => Timestamptz,
        (Date, Op::Add | Op::Sub, number) if has_fraction(number) => Timestamp,
        (number, Op::Add, Date) if has_fraction(number) => Timestamp,
        _ => return None,
    };
    let name = format!("$times_{op:?}_{}", returns.code());
    let function = RowFunction::new(&name, Some(2), ty(returns), true, move |args| {
        combine(op, &args[0], &args[1], &env.zone)
    });
    Some(function.into_udf())
}

/// `-` before an interval.
pub(crate) fn negation() -> RowFunction {
    RowFunction::new(
        "$negative_interval",
        Some(1),
        ty(TypeKind::Interval),
        true,
        |args| match &args[0] {
            Datum::Interval(v) => Ok(Value::Interval(interval::negate(*v)?)),
            _ => Err(PgError::internal("a sign before what is no interval")),
        },
    )
}

/// The greatest or least of intervals; NULLs do not count.
pub(crate) fn extreme(greatest: bool) -> RowFunction {
    let name = if greatest { "$greatest_interval" } else { "$least_interval" };
    RowFunction::new(name, None, ty(TypeKind::Interval), false, move |args| {
        let known = args.iter().filter_map(|arg| match arg {
            Datum::Interval(v) => Some(*v),
            _ => None,
        });
        let first_of = |a: Interval, b: Interval| {
            let replaced =
                if greatest { b.span_us() > a.span_us() } else { b.span_us() < a.span_us() };
            if replaced { b } else { a }
        };
        Ok(known.reduce(first_of).map_or(Value::Null, Value::Interval))
    })
}

/// A date or instant as microseconds.
fn instant(datum: &Datum<'_>) -> Option<i64> {
    match datum {
        Datum::Date(days) => Some(midnight(*days)),
        Datum::Timestamp(us) | Datum::Timestamptz(us) => Some(*us),
        _ => None,
    }
}

/// The same, on the clocks of the zone.
fn local_instant(datum: &Datum<'_>, zone: &Zone) -> Option<i64> {
    match datum {
        Datum::Timestamptz(us) => Some(zone.local(*us)),
        other => instant(other),
    }
}

/// An instant moved by an interval: its months and days are those of the zone's calendar.
pub(crate) fn shift_zoned(us: i64, by: Interval, zone: &Zone) -> Result<i64> {
    let range = || PgError::new("22008", "timestamp out of range");
    if is_infinite(us) {
        return Ok(us);
    }
    let mut us = us;
    if by.months != 0 || by.days != 0 {
        let calendar = Interval { us: 0, ..by };
        us = zone.to_utc(interval::shift(zone.local(us), calendar)?);
    }
    us.checked_add(by.us).ok_or_else(range)
}

fn signed(op: Op, v: Interval) -> Result<Interval> {
    if op == Op::Sub { interval::negate(v) } else { Ok(v) }
}

fn combine(op: Op, a: &Datum<'_>, b: &Datum<'_>, zone: &Zone) -> Result<Value> {
    let mismatch = || PgError::new("42883", "operator does not exist for these types");
    Ok(match (a, b) {
        (Datum::Interval(a), Datum::Interval(b)) => {
            Value::Interval(interval::add(*a, signed(op, *b)?)?)
        }
        (Datum::Time(a), Datum::Time(b)) => Value::Interval(interval::of_us(a - b)),
        (Datum::Time(us), Datum::Interval(by)) | (Datum::Interval(by), Datum::Time(us)) => {
            let moved = us.checked_add(signed(op, *by)?.us).ok_or_else(mismatch)?;
            Value::Time(moved.rem_euclid(US_PER_DAY))
        }
        (Datum::Date(day), Datum::Time(us)) | (Datum::Time(us), Datum::Date(day)) => {
            let start = midnight(*day);
            Value::Timestamp(if is_infinite(start) { start } else { start + us })
        }
        (Datum::Timestamptz(at), Datum::Interval(by))
        | (Datum::Interval(by), Datum::Timestamptz(at)) => {
            Value::Timestamptz(shift_zoned(*at, signed(op, *by)?, zone)?)
        }
        (Datum::Interval(v), number) if op == Op::Div => {
            Value::Interval(interval::divide(*v, to_f64(number)?)?)
        }
        (Datum::Interval(v), number) | (number, Datum::Interval(v)) if op == Op::Mul => {
            Value::Interval(interval::multiply(*v, to_f64(number)?)?)
        }
        (at, number) | (number, at) if instant(at).is_some() && cast::is_number(number) => {
            let days = to_f64(number)?;
            let days = if op == Op::Sub { -days } else { days };
            let moved = moved_by_days(instant(at).ok_or_else(mismatch)?, days)?;
            match at {
                Datum::Timestamptz(_) => Value::Timestamptz(moved),
                _ => Value::Timestamp(moved),
            }
        }
        (at, Datum::Interval(by)) | (Datum::Interval(by), at) => {
            let at = instant(at).ok_or_else(mismatch)?;
            Value::Timestamp(interval::shift(at, signed(op, *by)?)?)
        }
        (a, b) => {
            // Beside an instant the other side is one in the session's time zone.
            let zoned = [a, b].iter().any(|side| matches!(side, Datum::Timestamptz(_)));
            let side = |datum: &Datum<'_>| match datum {
                Datum::Date(_) | Datum::Timestamp(_) if zoned => {
                    instant(datum).map(|us| zone.to_utc(us))
                }
                other => instant(other),
            };
            let (a, b) = (side(a).ok_or_else(mismatch)?, side(b).ok_or_else(mismatch)?);
            if is_infinite(a) || is_infinite(b) {
                return Err(PgError::new("22008", "cannot subtract infinite timestamps"));
            }
            Value::Interval(interval::of_span(a - b))
        }
    })
}

/// A field's name as it was given, known or not.
fn text_of<'a>(datum: &Datum<'a>) -> Result<&'a str> {
    match datum {
        Datum::Text(text) => Ok(text),
        _ => Err(no_function("extract")),
    }
}

/// Digits after the point of what `extract` gives.
fn extract_scale(field: &str, kind: Option<TypeKind>) -> u8 {
    match field {
        "second" | "seconds" | "sec" => 6,
        "epoch" if kind != Some(TypeKind::Date) => 6,
        "milliseconds" | "millisecond" | "msec" => 3,
        _ => 0,
    }
}

fn extract_type(fields: &[FieldRef], values: &[Option<&ScalarValue>]) -> Result<ColType> {
    let name = match values.first() {
        Some(Some(ScalarValue::Utf8(Some(name)))) => name.to_ascii_lowercase(),
        _ => return Err(PgError::unsupported("extract of a field that is not a literal")),
    };
    let kind = fields.get(1).and_then(|f| col_type_of(f.data_type())).map(|ty| ty.kind);
    Ok(ColType::numeric(38, extract_scale(&name, kind)))
}

/// The value of a field with its scale.
fn extract(field: &str, datum: &Datum<'_>, zone: &Zone) -> Result<(i128, u8)> {
    let field = field.to_ascii_lowercase();
    if instant(datum).is_some_and(is_infinite) {
        return Err(PgError::unsupported("a field of an infinite date or timestamp"));
    }
    let (name, found) = match datum {
        Datum::Interval(v) => ("interval", of_interval(&field, *v)),
        Datum::Time(us) => ("time without time zone", of_time(&field, *us)),
        Datum::Date(days) => ("date", of_day(&field, *days, 0)),
        Datum::Timestamp(us) => ("timestamp without time zone", of_instant(&field, *us)),
        Datum::Timestamptz(us) => match field.as_str() {
            "timezone" => ("", Some((i128::from(zone.offset_at(*us)), 0))),
            "timezone_hour" => ("", Some((i128::from(zone.offset_at(*us) / 3600), 0))),
            "timezone_minute" => ("", Some((i128::from(zone.offset_at(*us) / 60 % 60), 0))),
            "epoch" => ("", of_instant(&field, *us)),
            _ => ("timestamp with time zone", of_instant(&field, zone.local(*us))),
        },
        Datum::Text(_) => return Err(PgError::new("42725", "function extract is not unique")),
        _ => return Err(no_function("extract")),
    };
    let is_date = matches!(datum, Datum::Date(_));
    if is_date && field == "epoch" {
        let Datum::Date(days) = datum else { return Err(no_function("extract")) };
        let us = i128::from(*days) * i128::from(US_PER_DAY) + i128::from(EPOCH_US);
        return Ok((us / i128::from(US_PER_SECOND), 0));
    }
    found.ok_or_else(|| unknown_unit(&field, name))
}

fn unknown_unit(field: &str, type_name: &str) -> PgError {
    const KNOWN: &[&str] = &[
        "timezone",
        "timezone_hour",
        "timezone_minute",
        "julian",
        "isoyear",
        "week",
        "dow",
        "isodow",
        "doy",
        "year",
        "month",
        "day",
        "quarter",
        "century",
        "decade",
        "millennium",
        "hour",
        "minute",
        "second",
        "milliseconds",
        "microseconds",
    ];
    if KNOWN.contains(&field) {
        let message = format!("unit \"{field}\" not supported for type {type_name}");
        return PgError::new("0A000", message);
    }
    PgError::new("22023", format!("unit \"{field}\" not recognized for type {type_name}"))
}

fn of_clock(field: &str, us: i64) -> Option<(i128, u8)> {
    let us = i128::from(us);
    Some(match field {
        "hour" | "hours" => (us / 3_600_000_000, 0),
        "minute" | "minutes" | "min" => (us / 60_000_000 % 60, 0),
        "second" | "seconds" | "sec" => (us % 60_000_000, 6),
        "milliseconds" | "millisecond" | "msec" => (us % 60_000_000, 3),
        "microseconds" | "microsecond" | "usec" => (us % 60_000_000, 0),
        _ => return None,
    })
}

fn of_time(field: &str, us: i64) -> Option<(i128, u8)> {
    if field == "epoch" { Some((i128::from(us), 6)) } else { of_clock(field, us) }
}

fn of_interval(field: &str, v: Interval) -> Option<(i128, u8)> {
    let (years, months) = (i128::from(v.months / 12), i128::from(v.months % 12));
    Some(match field {
        "year" | "years" => (years, 0),
        "month" | "months" => (months, 0),
        "quarter" => (months / 3 + 1, 0),
        "decade" => (years / 10, 0),
        "century" => (years / 100, 0),
        "millennium" => (years / 1000, 0),
        "day" | "days" => (i128::from(v.days), 0),
        "epoch" => {
            // A year has 365.25 days here.
            let hours = years * 8766 + months * 720 + i128::from(v.days) * 24;
            (hours * 3_600_000_000 + i128::from(v.us), 6)
        }
        other => return of_clock(other, v.us),
    })
}

fn of_instant(field: &str, us: i64) -> Option<(i128, u8)> {
    if field == "epoch" {
        return Some((i128::from(us) + i128::from(EPOCH_US), 6));
    }
    let (days, time) = (us.div_euclid(US_PER_DAY), us.rem_euclid(US_PER_DAY));
    let days = i32::try_from(days).ok()?;
    of_day(field, days, time).or_else(|| of_clock(field, time))
}

/// ISO year and week of a day.
fn iso_week(days: i32) -> (i64, i64) {
    // The Thursday of the week decides; 2000-01-01 was a Saturday.
    let weekday = (days + 5).rem_euclid(7);
    let thursday = days - weekday + 3;
    let (year, ..) = civil(thursday);
    let first = days_of(year, 1, 1).unwrap_or(thursday);
    (year, i64::from((thursday - first) / 7 + 1))
}

fn of_day(field: &str, days: i32, time: i64) -> Option<(i128, u8)> {
    let (year, month, day) = civil(days);
    let shown = |year: i64| if year <= 0 { year - 1 } else { year };
    let ages = |length: i64| {
        if year > 0 { (year + length - 1) / length } else { -((length - 1 - (year - 1)) / length) }
    };
    let v = match field {
        "year" | "years" => shown(year),
        "month" | "months" => i64::from(month),
        "day" | "days" => i64::from(day),
        "quarter" => i64::from(month - 1) / 3 + 1,
        "decade" => year.div_euclid(10),
        "century" => ages(100),
        "millennium" => ages(1000),
        "week" => iso_week(days).1,
        "isoyear" => shown(iso_week(days).0),
        "dow" => i64::from((days + 6).rem_euclid(7)),
        "isodow" => i64::from((days + 5).rem_euclid(7) + 1),
        "doy" => i64::from(days - days_of(year, 1, 1)?) + 1,
        "julian" if time == 0 => i64::from(days) + 2_451_545,
        _ => return None,
    };
    Some((i128::from(v), 0))
}

fn date_trunc_type(fields: &[FieldRef], _: &[Option<&ScalarValue>]) -> Result<ColType> {
    let kind = fields.get(1).and_then(|f| col_type_of(f.data_type())).map(|ty| ty.kind);
    match kind {
        Some(TypeKind::Timestamp) => Ok(ty(TypeKind::Timestamp)),
        Some(TypeKind::Interval | TypeKind::Time) => Ok(ty(TypeKind::Interval)),
        Some(TypeKind::Timestamptz | TypeKind::Date | TypeKind::Text) => {
            Ok(ty(TypeKind::Timestamptz))
        }
        _ => Err(no_function("date_trunc")),
    }
}

fn date_bin_type(fields: &[FieldRef], _: &[Option<&ScalarValue>]) -> Result<ColType> {
    let kind = |at: usize| fields.get(at).and_then(|f| col_type_of(f.data_type())).map(|t| t.kind);
    let local = |kind| matches!(kind, Some(TypeKind::Timestamp | TypeKind::Text) | None);
    match (kind(1), kind(2)) {
        (Some(TypeKind::Text) | None, Some(TypeKind::Text) | None) => Ok(ty(TypeKind::Timestamptz)),
        (a, b) if local(a) && local(b) => Ok(ty(TypeKind::Timestamp)),
        _ => Ok(ty(TypeKind::Timestamptz)),
    }
}

/// The beginning of the stretch of a length, counted from an origin, in which an instant lies.
fn date_bin(args: &[Datum<'_>], zone: &Zone) -> Result<Value> {
    let stride = match &args[0] {
        Datum::Interval(stride) => *stride,
        Datum::Text(text) => interval::parse_interval(text)?,
        _ => return Err(no_function("date_bin")),
    };
    if stride.months != 0 {
        let text = "timestamps cannot be binned into intervals containing months or years";
        return Err(PgError::new("0A000", text));
    }
    let stride = i64::from(stride.days) * US_PER_DAY + stride.us;
    if stride <= 0 {
        return Err(PgError::new("22008", "stride must be greater than zero"));
    }
    let local = args[1..].iter().any(|arg| matches!(arg, Datum::Timestamp(_)))
        && !args[1..].iter().any(|arg| matches!(arg, Datum::Timestamptz(_) | Datum::Date(_)));
    let at = |arg: &Datum<'_>| match arg {
        Datum::Timestamp(us) if local => Ok(*us),
        Datum::Text(text) if local => crate::datetime::parse_timestamp(text, 0),
        Datum::Text(text) => crate::datetime::parse_timestamptz(text, zone, 0),
        Datum::Timestamptz(us) => Ok(*us),
        Datum::Timestamp(us) => Ok(zone.to_utc(*us)),
        Datum::Date(day) => Ok(zone.to_utc(midnight(*day))),
        _ => Err(no_function("date_bin")),
    };
    let (from, origin) = (at(&args[1])?, at(&args[2])?);
    let range = || PgError::new("22008", "timestamp out of range");
    if is_infinite(origin) {
        return Err(PgError::new("22008", "origin out of range"));
    }
    let binned = match is_infinite(from) {
        true => from,
        false => {
            let apart = from.checked_sub(origin).ok_or_else(range)?;
            origin + apart.div_euclid(stride) * stride
        }
    };
    Ok(if local { Value::Timestamp(binned) } else { Value::Timestamptz(binned) })
}

fn date_trunc(field: &str, datum: &Datum<'_>, zone: &Zone) -> Result<Value> {
    let unit = field.to_ascii_lowercase();
    let unit = unit.as_str();
    match datum {
        Datum::Timestamp(us) if is_infinite(*us) => return Ok(Value::Timestamp(*us)),
        Datum::Timestamptz(us) if is_infinite(*us) => return Ok(Value::Timestamptz(*us)),
        Datum::Date(days) if is_infinite(midnight(*days)) => {
            return Ok(Value::Timestamptz(midnight(*days)));
        }
        _ => {}
    }
    Ok(match datum {
        Datum::Interval(v) => Value::Interval(trunc_interval(unit, *v)?),
        Datum::Time(us) => Value::Interval(trunc_interval(unit, interval::of_us(*us))?),
        Datum::Timestamp(us) => Value::Timestamp(trunc_instant(unit, *us, "without")?),
        Datum::Timestamptz(us) => Value::Timestamptz(trunc_zoned(unit, *us, zone)?),
        Datum::Date(days) => {
            let us = zone.to_utc(midnight(*days));
            Value::Timestamptz(trunc_zoned(unit, us, zone)?)
        }
        Datum::Text(text) => {
            let us = crate::datetime::parse_timestamptz(text, zone, 0)?;
            Value::Timestamptz(trunc_zoned(unit, us, zone)?)
        }
        _ => return Err(no_function("date_trunc")),
    })
}

fn clock_unit(unit: &str) -> Option<i64> {
    Some(match unit {
        "hour" | "hours" => 3600 * US_PER_SECOND,
        "minute" | "minutes" => 60 * US_PER_SECOND,
        "second" | "seconds" => US_PER_SECOND,
        "milliseconds" | "millisecond" => 1000,
        "microseconds" | "microsecond" => 1,
        _ => return None,
    })
}

/// The beginning of a unit on the clocks of the zone.
fn trunc_zoned(unit: &str, us: i64, zone: &Zone) -> Result<i64> {
    let cut = trunc_instant(unit, zone.local(us), "with")?;
    // Within a day the offset is that of the instant itself, as both hours of a double one have it.
    Ok(match clock_unit(unit) {
        Some(_) => cut - (zone.local(us) - us),
        None => zone.to_utc(cut),
    })
}

/// From µs to µs.
type Shift = Box<dyn Fn(i64) -> i64>;

/// `timezone(zone, x)`, which is `x AT TIME ZONE zone`.
fn at_time_zone(zone: &Datum<'_>, datum: &Datum<'_>, session: &Zone) -> Result<Value> {
    let (to_utc, to_local): (Shift, Shift) = match zone {
        Datum::Text(name) => {
            let zone = Zone::named(name)?;
            (Box::new(move |us| zone.to_utc(us)), Box::new(move |us| zone.local(us)))
        }
        Datum::Interval(by) => {
            if by.months != 0 || by.days != 0 {
                let mut shown = Vec::new();
                interval::push_interval(*by, &mut shown);
                let shown = String::from_utf8_lossy(&shown).into_owned();
                let message =
                    format!("interval time zone \"{shown}\" must not include months or days");
                return Err(PgError::new("22023", message));
            }
            let us = by.us;
            (Box::new(move |at| at.saturating_sub(us)), Box::new(move |at| at.saturating_add(us)))
        }
        _ => return Err(no_function("timezone")),
    };
    Ok(match datum {
        Datum::Timestamp(us) => Value::Timestamptz(to_utc(*us)),
        Datum::Timestamptz(us) => Value::Timestamp(to_local(*us)),
        Datum::Date(days) => Value::Timestamp(to_local(session.to_utc(midnight(*days)))),
        Datum::Text(text) => {
            let us = crate::datetime::parse_timestamptz(text, session, 0)?;
            Value::Timestamp(to_local(us))
        }
        _ => return Err(no_function("timezone")),
    })
}

fn at_time_zone_type(fields: &[FieldRef], _: &[Option<&ScalarValue>]) -> Result<ColType> {
    let kind = fields.get(1).and_then(|f| col_type_of(f.data_type())).map(|ty| ty.kind);
    match kind {
        Some(TypeKind::Timestamp) => Ok(ty(TypeKind::Timestamptz)),
        Some(TypeKind::Timestamptz | TypeKind::Date | TypeKind::Text) => {
            Ok(ty(TypeKind::Timestamp))
        }
        Some(TypeKind::Time) => Err(PgError::unsupported("type time with time zone")),
        _ => Err(no_function("timezone")),
    }
}

fn trunc_instant(unit: &str, us: i64, zone: &str) -> Result<i64> {
    if let Some(unit) = clock_unit(unit) {
        return Ok(us - us.rem_euclid(unit));
    }
    let days = i32::try_from(us.div_euclid(US_PER_DAY))
        .map_err(|_| PgError::new("22008", "timestamp out of range"))?;
    let (year, month, _) = civil(days);
    let first = |year: i64, month: u32| days_of(year, month, 1);
    let day = match unit {
        "day" | "days" => Some(days),
        "week" | "weeks" => Some(days - (days + 5).rem_euclid(7)),
        "month" | "months" => first(year, month),
        "quarter" => first(year, (month - 1) / 3 * 3 + 1),
        "year" | "years" => first(year, 1),
        "decade" => first(year.div_euclid(10) * 10, 1),
        "century" => first((year - 1).div_euclid(100) * 100 + 1, 1),
        "millennium" => first((year - 1).div_euclid(1000) * 1000 + 1, 1),
        _ => {
            let message =
                format!("unit \"{unit}\" not recognized for type timestamp {zone} time zone");
            return Err(PgError::new("22023", message));
        }
    };
    let day = day.ok_or_else(|| PgError::new("22008", "timestamp out of range"))?;
    Ok(i64::from(day) * US_PER_DAY)
}

fn trunc_interval(unit: &str, v: Interval) -> Result<Interval> {
    if let Some(unit) = clock_unit(unit) {
        return Ok(Interval { us: v.us - v.us % unit, ..v });
    }
    let months = |n: i32| Interval { months: v.months - v.months % n, days: 0, us: 0 };
    Ok(match unit {
        "day" | "days" => Interval { us: 0, ..v },
        "month" | "months" => months(1),
        "quarter" => months(3),
        "year" | "years" => months(12),
        "decade" => months(120),
        "century" => months(1200),
        "millennium" => months(12_000),
        "week" | "weeks" => {
            return Err(PgError::new("0A000", "unit \"week\" not supported for type interval")
                .with_detail("Months usually have fractional weeks."));
        }
        _ => {
            let message = format!("unit \"{unit}\" not recognized for type interval");
            return Err(PgError::new("22023", message));
        }
    })
}

fn whole(datum: &Datum<'_>) -> Result<i64> {
    match datum {
        Datum::Int2(v) => Ok(i64::from(*v)),
        Datum::Int4(v) => Ok(i64::from(*v)),
        Datum::Int8(v) => Ok(*v),
        Datum::Text(text) => {
            text.trim().parse().map_err(|_| PgError::invalid_text("integer", text))
        }
        _ => Err(no_function("make_date")),
    }
}

/// Seconds as microseconds.
fn seconds(datum: &Datum<'_>) -> Result<i64> {
    let (v, scale) = to_numeric(datum)?;
    let us = crate::arith::rescale(v, scale, 6).and_then(|us| i64::try_from(us).ok());
    us.ok_or_else(|| PgError::out_of_range("interval"))
}

fn make_date(args: &[Datum<'_>]) -> Result<i32> {
    let (year, month, day) = (whole(&args[0])?, whole(&args[1])?, whole(&args[2])?);
    let found = match (u32::try_from(month), u32::try_from(day)) {
        (Ok(m), Ok(d)) if year != 0 => days_of(if year < 0 { year + 1 } else { year }, m, d),
        _ => None,
    };
    found.ok_or_else(|| {
        let shown = format!("{year}-{month:02}-{day:02}");
        PgError::new("22008", format!("date field value out of range: {shown}"))
    })
}

fn make_time(args: &[Datum<'_>]) -> Result<i64> {
    let (hour, minute, us) = (whole(&args[0])?, whole(&args[1])?, seconds(&args[2])?);
    let fits = (0..=23).contains(&hour) && (0..=59).contains(&minute) && us <= 60_000_000;
    if !(fits || (hour, minute, us) == (24, 0, 0)) || us < 0 {
        let (s, f) = (us / US_PER_SECOND, us % US_PER_SECOND);
        let fraction = format!(".{f:06}");
        let fraction = fraction.trim_end_matches('0').trim_end_matches('.');
        let shown = format!("{hour}:{minute:02}:{s:02}{fraction}");
        return Err(PgError::new("22008", format!("time field value out of range: {shown}")));
    }
    Ok((hour * 3600 + minute * 60) * US_PER_SECOND + us)
}

/// Years, months, weeks, days, hours, minutes, seconds.
fn make_interval(args: &[Datum<'_>]) -> Result<Interval> {
    let range = || PgError::new("22008", "interval out of range");
    let number = |i: usize| args.get(i).map_or(Ok(0), whole);
    let sum = |a: i64, factor: i64, b: i64| a.checked_mul(factor).and_then(|a| a.checked_add(b));
    let months = sum(number(0)?, 12, number(1)?).and_then(|v| i32::try_from(v).ok());
    let days = sum(number(2)?, 7, number(3)?).and_then(|v| i32::try_from(v).ok());
    let minutes = sum(number(4)?, 60, number(5)?).ok_or_else(range)?;
    let us = sum(minutes, 60_000_000, args.get(6).map_or(Ok(0), seconds)?);
    match (months, days, us) {
        (Some(months), Some(days), Some(us)) => interval::checked(Interval { months, days, us }),
        _ => Err(range()),
    }
}

type Justify = fn(Interval) -> Result<Interval>;

/// All of them, for a session in the time zone of `env`.
pub fn functions(env: FormatEnv) -> Vec<RowFunction> {
    let zone = env.zone;
    let spans: [(&str, Justify); 3] = [
        ("justify_hours", interval::justify_hours),
        ("justify_days", interval::justify_days),
        ("justify_interval", interval::justify),
    ];
    let mut all: Vec<RowFunction> = spans
        .into_iter()
        .map(|(name, function)| {
            RowFunction::new(name, Some(1), ty(TypeKind::Interval), true, move |args| {
                match &args[0] {
                    Datum::Interval(v) => Ok(Value::Interval(function(*v)?)),
                    Datum::Text(text) => {
                        Ok(Value::Interval(function(interval::parse_interval(text)?)?))
                    }
                    _ => Err(no_function(name)),
                }
            })
        })
        .collect();
    let numeric = ty(TypeKind::Numeric);
    all.push(
        RowFunction::new("$extract", Some(2), numeric, true, move |args| {
            let (v, scale) = extract(text_of(&args[0])?, &args[1], &zone)?;
            Ok(Value::Numeric(v, scale))
        })
        .returning(extract_type),
    );
    all.push(RowFunction::new("date_part", Some(2), ty(TypeKind::Float8), true, move |args| {
        let field = text_of(&args[0])?;
        // A date is a timestamp here.
        let value = match &args[1] {
            Datum::Date(days) => Datum::Timestamp(midnight(*days)),
            other => *other,
        };
        let (v, scale) = extract(field, &value, &zone)?;
        Ok(Value::Float8(to_f64(&Datum::Numeric(v, scale))?))
    }));
    all.push(
        RowFunction::new(
            "date_trunc",
            None,
            ty(TypeKind::Timestamptz),
            true,
            move |args| match args {
                [unit, at] => date_trunc(text_of(unit)?, at, &zone),
                [unit, at, Datum::Text(name)] if !matches!(at, Datum::Timestamp(_)) => {
                    date_trunc(text_of(unit)?, at, &Zone::named(name)?)
                }
                _ => Err(no_function("date_trunc")),
            },
        )
        .returning(date_trunc_type),
    );
    all.push(
        RowFunction::new("date_bin", Some(3), ty(TypeKind::Timestamptz), true, move |args| {
            date_bin(args, &zone)
        })
        .returning(date_bin_type),
    );
    all.push(
        RowFunction::new("timezone", Some(2), ty(TypeKind::Timestamptz), true, move |args| {
            at_time_zone(&args[0], &args[1], &zone)
        })
        .returning(at_time_zone_type),
    );
    all.push(RowFunction::new("age", Some(2), ty(TypeKind::Interval), true, move |args| {
        let local = |arg: &Datum<'_>| match arg {
            Datum::Text(text) => {
                let us = crate::datetime::parse_timestamptz(text, &zone, 0)?;
                Ok::<_, PgError>(Some(zone.local(us)))
            }
            other => Ok(local_instant(other, &zone)),
        };
        match (local(&args[0])?, local(&args[1])?) {
            (Some(a), Some(b)) => Ok(Value::Interval(interval::age(a, b))),
            _ => Err(no_function("age")),
        }
    }));
    all.push(RowFunction::new("make_date", Some(3), ty(TypeKind::Date), true, |args| {
        make_date(args).map(Value::Date)
    }));
    all.push(RowFunction::new("make_time", Some(3), ty(TypeKind::Time), true, |args| {
        make_time(args).map(Value::Time)
    }));
    all.push(RowFunction::new("make_timestamp", Some(6), ty(TypeKind::Timestamp), true, |args| {
        let days = i64::from(make_date(&args[..3])?);
        Ok(Value::Timestamp(days * US_PER_DAY + make_time(&args[3..])?))
    }));
    all.push(RowFunction::new("make_interval", None, ty(TypeKind::Interval), true, |args| {
        if args.len() > 7 {
            return Err(no_function("make_interval"));
        }
        make_interval(args).map(Value::Interval)
    }));
    let timestamptz = ty(TypeKind::Timestamptz);
    all.push(RowFunction::new("make_timestamptz", None, timestamptz, true, move |args| {
        let zone = match args {
            [_, _, _, _, _, _] => zone,
            [_, _, _, _, _, _, Datum::Text(name)] => Zone::named(name)?,
            _ => return Err(no_function("make_timestamptz")),
        };
        let us = i64::from(make_date(&args[..3])?) * US_PER_DAY + make_time(&args[3..6])?;
        Ok(Value::Timestamptz(zone.to_utc(us)))
    }));
    all
}
