//! The field's functions that make intervals: `numtodsinterval`, `numtoyminterval`,
//! `to_dsinterval`, `to_yminterval`.
//!
//! What it promises: of days and times no field is longer than the next one, so that a hundred
//! hours are four days and four hours, and a sign counts for all of them. What it must never do:
//! read a text that the field refuses.

use super::strings::text;
use super::typed::{Body, Line, One};
use crate::arith::rescale;
use crate::cast::to_numeric;
use crate::datetime::{US_PER_DAY, US_PER_SECOND};
use crate::error::{PgError, Result};
use kernel::row::{Datum, Interval, Value};

/// Digits behind the point of a number that can tell: a day has fewer microseconds than that.
const DIGITS: u8 = 18;

fn range() -> PgError {
    PgError::new("22008", "interval out of range")
}

/// `v` times so many units, rounded to whole ones.
fn counted(number: &Datum<'_>, units: i64) -> Result<i64> {
    let (mut v, mut scale) = to_numeric(number)?;
    if scale > DIGITS {
        (v, scale) = (rescale(v, scale, DIGITS).ok_or_else(range)?, DIGITS);
    }
    let whole = v.checked_mul(units.into()).and_then(|all| rescale(all, scale, 0));
    whole.and_then(|all| i64::try_from(all).ok()).ok_or_else(range)
}

fn unknown_unit(name: &str, unit: &str, known: &str) -> PgError {
    PgError::new("22023", format!("{name} knows no unit \"{unit}\""))
        .with_hint(format!("Its units are {known}."))
}

/// Days and what is left of them.
fn of_us(us: i64) -> Result<Value> {
    let days = i32::try_from(us / US_PER_DAY).map_err(|_| range())?;
    Ok(Value::Interval(Interval { months: 0, days, us: us % US_PER_DAY }))
}

fn of_months(months: i64) -> Result<Value> {
    let months = i32::try_from(months).map_err(|_| range())?;
    Ok(Value::Interval(Interval { months, days: 0, us: 0 }))
}

fn numtodsinterval(a: &[Datum<'_>]) -> Result<Value> {
    let unit = text(&a[1])?.trim();
    let us = match unit.to_ascii_uppercase().as_str() {
        "DAY" => US_PER_DAY,
        "HOUR" => 3600 * US_PER_SECOND,
        "MINUTE" => 60 * US_PER_SECOND,
        "SECOND" => US_PER_SECOND,
        _ => return Err(unknown_unit("numtodsinterval", unit, "DAY, HOUR, MINUTE and SECOND")),
    };
    of_us(counted(&a[0], us)?)
}

fn numtoyminterval(a: &[Datum<'_>]) -> Result<Value> {
    let unit = text(&a[1])?.trim();
    let months = match unit.to_ascii_uppercase().as_str() {
        "YEAR" => 12,
        "MONTH" => 1,
        _ => return Err(unknown_unit("numtoyminterval", unit, "YEAR and MONTH")),
    };
    of_months(counted(&a[0], months)?)
}

/// Digits and nothing else.
fn digits(text: &str) -> Option<i64> {
    let all = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
    if all { text.parse().ok() } else { None }
}

/// Seconds with a fraction, as microseconds; digits behind the sixth are rounded.
fn seconds(text: &str) -> Option<i64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let (whole, count) = (digits(whole)?, u8::try_from(fraction.len()).ok()?);
    let fraction = rescale(digits(fraction)?.into(), count, 6)?;
    whole.checked_mul(US_PER_SECOND)?.checked_add(i64::try_from(fraction).ok()?)
}

/// The parts of an ISO duration behind its `P`, each with its letter; `T` is one without a number.
fn parts_of_iso(body: &str) -> Option<Vec<(&str, u8)>> {
    let (mut parts, mut rest) = (Vec::new(), body);
    while !rest.is_empty() {
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        parts.push((&rest[..end], rest.as_bytes()[end].to_ascii_uppercase()));
        rest = &rest[end + 1..];
    }
    let numbers = parts.iter().any(|(number, _)| !number.is_empty());
    numbers.then_some(parts)
}

/// The sum of such parts: each of the letters known, with what it counts, stands once at most and
/// in this order.
fn sum_of_iso(body: &str, known: &[(u8, i64)]) -> Option<i64> {
    let (mut sum, mut at) = (0i64, 0);
    for (number, letter) in parts_of_iso(body)? {
        let place = known[at..].iter().position(|(one, _)| *one == letter)? + at;
        let (_, unit) = known[place];
        let part = match (letter, unit) {
            (b'T', _) => number.is_empty().then_some(0)?,
            (b'S', _) => seconds(number)?,
            _ => digits(number)?.checked_mul(unit)?,
        };
        sum = sum.checked_add(part)?;
        at = place + 1;
    }
    Some(sum)
}

/// The sign in front of a text, and what follows it.
fn signed(text: &str) -> (i64, &str) {
    let text = text.trim();
    match text.strip_prefix('-') {
        Some(rest) => (-1, rest.trim_start()),
        None => (1, text.strip_prefix('+').unwrap_or(text).trim_start()),
    }
}

fn days_and_time(given: &str) -> Option<i64> {
    const ISO: [(u8, i64); 5] = [
        (b'D', US_PER_DAY),
        (b'T', 0),
        (b'H', 3600 * US_PER_SECOND),
        (b'M', 60 * US_PER_SECOND),
        (b'S', US_PER_SECOND),
    ];
    let (sign, rest) = signed(given);
    let us = match rest.strip_prefix(['P', 'p']) {
        // Hours, minutes and seconds stand behind the T.
        Some(body) => {
            let time = body.find(['H', 'h', 'M', 'm', 'S', 's']);
            let marked = time.is_none_or(|at| body[..at].contains(['T', 't']));
            let whole = marked && !body.ends_with(['T', 't']);
            whole.then(|| sum_of_iso(body, &ISO))??
        }
        None => {
            let (days, clock) = rest.split_once(char::is_whitespace)?;
            let fields: Vec<&str> = clock.trim_start().split(':').collect();
            let &[hours, minutes, rest] = &fields[..] else { return None };
            let below = |text: &str, end: i64| digits(text).filter(|v| *v < end);
            let (hours, minutes) = (below(hours, 24)?, below(minutes, 60)?);
            below(rest.split('.').next()?, 60)?;
            let time = (hours * 60 + minutes) * 60 * US_PER_SECOND + seconds(rest)?;
            digits(days)?.checked_mul(US_PER_DAY)?.checked_add(time)?
        }
    };
    Some(sign * us)
}

fn years_and_months(given: &str) -> Option<i64> {
    let (sign, rest) = signed(given);
    let months = match rest.strip_prefix(['P', 'p']) {
        Some(body) => sum_of_iso(body, &[(b'Y', 12), (b'M', 1)])?,
        None => {
            let (years, months) = rest.split_once('-')?;
            let months = digits(months).filter(|months| *months < 12)?;
            digits(years)?.checked_mul(12)?.checked_add(months)?
        }
    };
    Some(sign * months)
}

fn unreadable(name: &str, given: &str, forms: &str) -> PgError {
    PgError::new("22007", format!("invalid input for {name}: \"{given}\""))
        .with_hint(format!("It reads {forms}."))
}

fn to_dsinterval(a: &[Datum<'_>]) -> Result<Value> {
    const FORMS: &str = "days and a time, as in '1 02:03:04.5', and ISO durations, as in \
                         'P1DT2H3M4.5S'";
    let given = text(&a[0])?;
    of_us(days_and_time(given).ok_or_else(|| unreadable("to_dsinterval", given, FORMS))?)
}

fn to_yminterval(a: &[Datum<'_>]) -> Result<Value> {
    const FORMS: &str = "years and months, as in '1-6', and ISO durations, as in 'P1Y6M'";
    let given = text(&a[0])?;
    of_months(years_and_months(given).ok_or_else(|| unreadable("to_yminterval", given, FORMS))?)
}

const fn one(body: One) -> Body {
    Body::One(body)
}

pub(super) const LINES: &[Line] = &[
    ("numtodsinterval(numeric, text) interval", one(numtodsinterval)),
    ("numtodsinterval(float8, text) interval", one(numtodsinterval)),
    ("numtoyminterval(numeric, text) interval", one(numtoyminterval)),
    ("numtoyminterval(float8, text) interval", one(numtoyminterval)),
    ("to_dsinterval(text) interval", one(to_dsinterval)),
    ("to_yminterval(text) interval", one(to_yminterval)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::{FormatEnv, to_text};

    fn shown(value: Result<Value>) -> String {
        match value {
            Ok(value) => to_text(&value.as_datum(), &FormatEnv::plain()),
            Err(error) => error.code.to_owned(),
        }
    }

    #[test]
    fn numbers_of_units_are_intervals() {
        let ds = |number: Datum<'_>, unit| shown(numtodsinterval(&[number, Datum::Text(unit)]));
        assert_eq!(ds(Datum::Int4(100), "hour"), "4 days 04:00:00");
        assert_eq!(ds(Datum::Numeric(15, 1), "DAY"), "1 day 12:00:00");
        assert_eq!(ds(Datum::Float8(-0.5), "minute"), "-00:00:30");
        assert_eq!(ds(Datum::Numeric(1, 30), "second"), "00:00:00");
        assert_eq!(ds(Datum::Numeric(12_345_678, 7), "second"), "00:00:01.234568");
        assert_eq!(ds(Datum::Int4(1), "week"), "22023");
        assert_eq!(ds(Datum::Int8(i64::MAX), "day"), "22008");
        let ym = |number: Datum<'_>, unit| shown(numtoyminterval(&[number, Datum::Text(unit)]));
        assert_eq!(ym(Datum::Numeric(15, 1), "year"), "1 year 6 mons");
        assert_eq!(ym(Datum::Numeric(-25, 1), "month"), "-3 mons");
        assert_eq!(ym(Datum::Int4(1), "day"), "22023");
    }

    #[test]
    fn texts_are_read_in_the_fields_forms() {
        let ds = |given| shown(to_dsinterval(&[Datum::Text(given)]));
        for (given, wanted) in [
            ("1 02:03:04.5", "1 day 02:03:04.5"),
            ("-100 10:00:00", "-100 days -10:00:00"),
            ("+0 00:00:59.9999999", "00:01:00"),
            ("P1DT2H3M4.5S", "1 day 02:03:04.5"),
            ("-PT100H", "-4 days -04:00:00"),
            ("P3D", "3 days"),
            ("1", "22007"),
            ("1 24:00:00", "22007"),
            ("1 00:00:60", "22007"),
            ("1 2:3", "22007"),
            ("P", "22007"),
            ("PT", "22007"),
            ("P1DT", "22007"),
            ("P5H", "22007"),
            ("PT5M3H", "22007"),
            ("P1Y", "22007"),
        ] {
            assert_eq!(ds(given), wanted, "{given}");
        }
        let ym = |given| shown(to_yminterval(&[Datum::Text(given)]));
        for (given, wanted) in [
            ("1-6", "1 year 6 mons"),
            ("-01-02", "-1 years -2 mons"),
            ("P2Y3M", "2 years 3 mons"),
            ("P18M", "1 year 6 mons"),
            ("1-12", "22007"),
            ("18", "22007"),
            ("P1D", "22007"),
        ] {
            assert_eq!(ym(given), wanted, "{given}");
        }
    }
}
