//! Intervals: read, written and computed with as PostgreSQL does (style `postgres`).
//!
//! What it promises: what it writes it reads back. Left out: time parts beyond 292 years, which
//! Arrow cannot count.

use crate::datetime::{US_PER_DAY, US_PER_SECOND, civil, days_of, push_time};
use crate::error::{PgError, Result};
use datafusion::sql::sqlparser::ast::IntervalFields;
use kernel::row::{ColType, Interval, TypeKind};

const US_PER_MINUTE: i64 = 60 * US_PER_SECOND;
const US_PER_HOUR: i64 = 3600 * US_PER_SECOND;
const MONTHS_PER_YEAR: i32 = 12;

/// The fields that intervals of a type have, as PostgreSQL's modifier of the type marks them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fields(i32);

impl Fields {
    /// All that there are.
    pub const ALL: Fields = Fields(0x7fff);
    const MONTH: i32 = 1 << 1;
    const YEAR: i32 = 1 << 2;
    const DAY: i32 = 1 << 3;
    const HOUR: i32 = 1 << 10;
    const MINUTE: i32 = 1 << 11;
    const SECOND: i32 = 1 << 12;

    /// Those of a type.
    #[must_use]
    pub const fn of(ty: ColType) -> Fields {
        if ty.modifier < 0 { Fields::ALL } else { Fields(ty.modifier >> 16) }
    }

    /// Those that are written behind the name of the type.
    #[must_use]
    pub const fn written(fields: IntervalFields) -> Fields {
        Fields(match fields {
            IntervalFields::Year => Fields::YEAR,
            IntervalFields::Month => Fields::MONTH,
            IntervalFields::Day => Fields::DAY,
            IntervalFields::Hour => Fields::HOUR,
            IntervalFields::Minute => Fields::MINUTE,
            IntervalFields::Second => Fields::SECOND,
            IntervalFields::YearToMonth => Fields::YEAR | Fields::MONTH,
            IntervalFields::DayToHour => Fields::DAY | Fields::HOUR,
            IntervalFields::DayToMinute => Fields::DAY | Fields::HOUR | Fields::MINUTE,
            IntervalFields::DayToSecond => {
                Fields::DAY | Fields::HOUR | Fields::MINUTE | Fields::SECOND
            }
            IntervalFields::HourToMinute => Fields::HOUR | Fields::MINUTE,
            IntervalFields::HourToSecond => Fields::HOUR | Fields::MINUTE | Fields::SECOND,
            IntervalFields::MinuteToSecond => Fields::MINUTE | Fields::SECOND,
        })
    }

    /// The type of intervals with these fields; `None`: with all digits of a second's fraction.
    #[must_use]
    pub fn typed(self, digits: Option<u8>) -> ColType {
        let digits = digits.map_or(0xffff, i32::from);
        ColType { kind: TypeKind::Interval, modifier: self.0 << 16 | digits }
    }

    /// Whether there are seconds among them.
    #[must_use]
    pub const fn have_seconds(self) -> bool {
        self.0 & Fields::SECOND != 0
    }

    /// What a number without a unit at the end counts: the last of the fields.
    const fn last(self) -> Unit {
        match self.0 {
            all if all & Fields::SECOND != 0 => Unit::Us(US_PER_SECOND),
            all if all & Fields::MINUTE != 0 => Unit::Us(US_PER_MINUTE),
            all if all & Fields::HOUR != 0 => Unit::Us(US_PER_HOUR),
            all if all & Fields::DAY != 0 => Unit::Days(1),
            all if all & Fields::MONTH != 0 => Unit::Months(1),
            _ => Unit::Months(MONTHS_PER_YEAR),
        }
    }

    /// The interval without what is smaller than the last of the fields; what is larger than the
    /// first one stays.
    #[must_use]
    pub const fn cut(self, v: Interval) -> Interval {
        let Interval { months, days, us } = v;
        match self.last() {
            Unit::Us(US_PER_SECOND) => v,
            Unit::Us(unit) => Interval { months, days, us: us / unit * unit },
            Unit::Days(_) => Interval { months, days, us: 0 },
            Unit::Months(unit) => Interval { months: months / unit * unit, days: 0, us: 0 },
        }
    }
}

fn out_of_range() -> PgError {
    PgError::new("22008", "interval out of range")
}

/// The interval, if its time can be counted in nanoseconds.
///
/// # Errors
/// 22008.
pub fn checked(v: Interval) -> Result<Interval> {
    v.us.checked_mul(1000).map(|_| v).ok_or_else(out_of_range)
}

/// Microseconds alone.
#[must_use]
pub const fn of_us(us: i64) -> Interval {
    Interval { months: 0, days: 0, us }
}

/// A difference of two instants: whole days and the rest.
#[must_use]
pub fn of_span(us: i64) -> Interval {
    let days = i32::try_from(us / US_PER_DAY).unwrap_or(i32::MAX);
    Interval { months: 0, days, us: us % US_PER_DAY }
}

/// Appends an interval.
pub fn push_interval(v: Interval, out: &mut Vec<u8>) {
    let (mut empty, mut before) = (true, false);
    let parts = [
        (v.months / MONTHS_PER_YEAR, "year"),
        (v.months % MONTHS_PER_YEAR, "mon"),
        (v.days, "day"),
    ];
    for (n, word) in parts {
        if n == 0 {
            continue;
        }
        if !empty {
            out.push(b' ');
        }
        let plus = if before && n > 0 { "+" } else { "" };
        let plural = if n == 1 { "" } else { "s" };
        out.extend_from_slice(format!("{plus}{n} {word}{plural}").as_bytes());
        (empty, before) = (false, n < 0);
    }
    if empty || v.us != 0 {
        if !empty {
            out.push(b' ');
        }
        if v.us < 0 {
            out.push(b'-');
        } else if before {
            out.push(b'+');
        }
        push_time(v.us.saturating_abs(), out);
    }
}

/// What is added up while an interval is read.
#[derive(Default)]
struct Sum {
    months: f64,
    days: f64,
    us: f64,
    whole: Interval,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Months(i32),
    Days(i32),
    Us(i64),
}

fn unit(word: &str) -> Option<Unit> {
    Some(match word.to_ascii_lowercase().as_str() {
        "us" | "usec" | "usecs" | "usecond" | "useconds" | "microsecond" | "microseconds"
        | "microsecon" => Unit::Us(1),
        "ms" | "msec" | "msecs" | "msecond" | "mseconds" | "millisecond" | "milliseconds"
        | "millisecon" => Unit::Us(1000),
        "s" | "sec" | "secs" | "second" | "seconds" => Unit::Us(US_PER_SECOND),
        "m" | "min" | "mins" | "minute" | "minutes" => Unit::Us(60 * US_PER_SECOND),
        "h" | "hr" | "hrs" | "hour" | "hours" => Unit::Us(US_PER_HOUR),
        "d" | "day" | "days" => Unit::Days(1),
        "w" | "week" | "weeks" => Unit::Days(7),
        "mon" | "mons" | "month" | "months" => Unit::Months(1),
        "y" | "yr" | "yrs" | "year" | "years" => Unit::Months(12),
        "dec" | "decs" | "decade" | "decades" => Unit::Months(120),
        "c" | "cent" | "century" | "centuries" => Unit::Months(1200),
        "mil" | "mils" | "millennium" | "millennia" => Unit::Months(12_000),
        _ => return None,
    })
}

impl Sum {
    /// Adds `whole` units and a fraction of one, which goes to the smaller parts.
    #[allow(clippy::cast_precision_loss)] // fractions are below one
    fn add(&mut self, whole: i64, fraction: f64, unit: Unit) -> Option<()> {
        match unit {
            Unit::Us(us) => {
                self.whole.us = self.whole.us.checked_add(whole.checked_mul(us)?)?;
                self.us += fraction * us as f64;
            }
            Unit::Days(days) => {
                let whole = i32::try_from(whole.checked_mul(i64::from(days))?).ok()?;
                self.whole.days = self.whole.days.checked_add(whole)?;
                self.days += fraction * f64::from(days);
            }
            Unit::Months(months) => {
                let whole = i32::try_from(whole.checked_mul(i64::from(months))?).ok()?;
                self.whole.months = self.whole.months.checked_add(whole)?;
                self.months += fraction * f64::from(months);
            }
        }
        Some(())
    }

    fn finish(self) -> Option<Interval> {
        let months = self.months.trunc();
        let days = self.days + rounded_us(self.months - months) * 30.0;
        let whole_days = rounded_us(days).trunc();
        let us = self.us + (rounded_us(days) - whole_days) * to_f64(US_PER_DAY);
        Some(Interval {
            months: self.whole.months.checked_add(to_i32(months)?)?,
            days: self.whole.days.checked_add(to_i32(whole_days)?)?,
            us: self.whole.us.checked_add(to_i64(us)?)?,
        })
    }
}

/// Rounded to six digits, so that 0.1 + 0.2 days are no hair over 0.3.
fn rounded_us(v: f64) -> f64 {
    (v * 1e6).round_ties_even() / 1e6
}

#[allow(clippy::cast_precision_loss)] // seconds and their like
fn to_f64(v: i64) -> f64 {
    v as f64
}

#[allow(clippy::cast_possible_truncation)] // the range is checked before
fn to_i64(v: f64) -> Option<i64> {
    let v = v.round_ties_even();
    (-9.2e18..9.2e18).contains(&v).then_some(v as i64)
}

fn to_i32(v: f64) -> Option<i32> {
    to_i64(v).and_then(|v| i32::try_from(v).ok())
}

/// Reads an interval.
///
/// # Errors
/// 22007, 22008 or 22015.
pub fn parse_interval(text: &str) -> Result<Interval> {
    parse_in(text, Fields::ALL)
}

/// Reads an interval of a type with these fields, which say what a number without a unit counts.
/// Nothing is cut off yet.
///
/// # Errors
/// As [`parse_interval`].
pub fn parse_in(text: &str, fields: Fields) -> Result<Interval> {
    let invalid =
        || PgError::new("22007", format!("invalid input syntax for type interval: \"{text}\""));
    let trimmed = text.trim();
    let tokens = tokens(trimmed.strip_prefix('@').unwrap_or(trimmed));
    if tokens.is_empty() {
        return Err(invalid());
    }
    let parsed = match tokens[0].strip_prefix(['P', 'p']) {
        Some(body) if tokens.len() == 1 => iso(body),
        _ => words(&tokens, fields),
    };
    match parsed {
        Some(Some(v)) => checked(v),
        Some(None) => {
            let message = format!("interval field value out of range: \"{text}\"");
            Err(PgError::new("22015", message))
        }
        None => Err(invalid()),
    }
}

/// Numbers, words and times; a number and the unit behind it are two.
fn tokens(text: &str) -> Vec<&str> {
    let mut out = Vec::new();
    for word in text.split_whitespace() {
        let digits_end = word.find(|c: char| c.is_ascii_alphabetic());
        match digits_end {
            Some(at) if at > 0 => out.extend([&word[..at], &word[at..]]),
            _ => out.push(word),
        }
    }
    out
}

/// A signed decimal number in whole and fraction.
fn number(text: &str) -> Option<(i64, f64)> {
    let unsigned = text.trim_start_matches(['+', '-']);
    if text.len() - unsigned.len() > 1 {
        return None;
    }
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let (whole, fraction) = unsigned.split_once('.').unwrap_or((unsigned, ""));
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && fraction.is_empty()) || !digits(whole) || !digits(fraction) {
        return None;
    }
    let whole: i64 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let fraction: f64 =
        if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().ok()? };
    Some((sign * whole, to_f64(sign) * fraction))
}

/// `[+-]hh:mm[:ss[.ffffff]]`; of two fields with a fraction, or where the type has no others,
/// minutes and seconds.
fn clock(text: &str, fields: Fields) -> Option<i64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let minutes_first = fields == Fields::written(IntervalFields::MinuteToSecond);
    let parts: Vec<&str> = unsigned.split(':').collect();
    let whole = |s: &str| s.parse::<i64>().ok().filter(|_| !s.is_empty());
    let seconds = |s: &str| {
        let (whole, fraction) = number(s)?;
        (whole < 60).then_some(())?;
        whole.checked_mul(US_PER_SECOND)?.checked_add(to_i64(fraction * 1e6)?)
    };
    let sixty = |v: i64| (v < 60).then_some(v);
    let us = match &parts[..] {
        [m, s] if minutes_first || s.contains('.') => {
            whole(m)?.checked_mul(US_PER_MINUTE)?.checked_add(seconds(s)?)?
        }
        [h, m] => {
            whole(h)?.checked_mul(US_PER_HOUR)?.checked_add(sixty(whole(m)?)? * 60_000_000)?
        }
        [h, m, s] => whole(h)?
            .checked_mul(US_PER_HOUR)?
            .checked_add(sixty(whole(m)?)? * 60_000_000 + seconds(s)?)?,
        _ => return None,
    };
    Some(if text.starts_with('-') { -us } else { us })
}

/// `years-months`.
fn years_months(text: &str) -> Option<i64> {
    let unsigned = text.trim_start_matches(['+', '-']);
    let (years, months) = unsigned.split_once('-')?;
    let (years, months): (i64, i64) = (years.parse().ok()?, months.parse().ok()?);
    (months < 12).then_some(())?;
    let all = years.checked_mul(12)? + months;
    Some(if text.starts_with('-') { -all } else { all })
}

/// The inner `None` says that a number is too large.
#[allow(clippy::option_option)]
fn words(tokens: &[&str], fields: Fields) -> Option<Option<Interval>> {
    let mut sum = Sum::default();
    let (tokens, ago) = match tokens.split_last() {
        Some((last, rest)) if last.eq_ignore_ascii_case("ago") && !rest.is_empty() => (rest, true),
        _ => (tokens, false),
    };
    let mut at = 0;
    while let Some(token) = tokens.get(at) {
        at += 1;
        let added = if token.contains(':') {
            sum.add(clock(token, fields)?, 0.0, Unit::Us(1))
        } else if let Some((whole, fraction)) = number(token) {
            let (unit, named) = match tokens.get(at) {
                Some(word) if word.starts_with(|c: char| c.is_ascii_alphabetic()) => {
                    (unit(word)?, 1)
                }
                // Days before a time, else seconds.
                Some(next) if next.contains(':') => (Unit::Days(1), 0),
                // The field's `'1 12' DAY TO HOUR`.
                Some(next)
                    if fields == Fields::written(IntervalFields::DayToHour)
                        && at + 1 == tokens.len()
                        && number(next).is_some() =>
                {
                    (Unit::Days(1), 0)
                }
                Some(_) => return None,
                None => (fields.last(), 0),
            };
            at += named;
            sum.add(whole, fraction, unit)
        } else {
            sum.add(years_months(token)?, 0.0, Unit::Months(1))
        };
        if added.is_none() {
            return Some(None);
        }
    }
    let v = sum.finish();
    Some(if ago { v.and_then(|v| negate(v).ok()) } else { v })
}

/// ISO 8601 with designators, behind its `P`.
#[allow(clippy::option_option)]
fn iso(body: &str) -> Option<Option<Interval>> {
    let (mut sum, mut rest, mut time) = (Sum::default(), body, false);
    if rest.is_empty() {
        return None;
    }
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix(['T', 't']) {
            if time || after.is_empty() {
                return None;
            }
            (rest, time) = (after, true);
            continue;
        }
        let end = rest.find(|c: char| c.is_ascii_alphabetic())?;
        let (whole, fraction) = number(&rest[..end])?;
        let unit = match (rest.as_bytes()[end].to_ascii_uppercase(), time) {
            (b'Y', false) => Unit::Months(12),
            (b'M', false) => Unit::Months(1),
            (b'W', false) => Unit::Days(7),
            (b'D', false) => Unit::Days(1),
            (b'H', true) => Unit::Us(US_PER_HOUR),
            (b'M', true) => Unit::Us(60 * US_PER_SECOND),
            (b'S', true) => Unit::Us(US_PER_SECOND),
            _ => return None,
        };
        if sum.add(whole, fraction, unit).is_none() {
            return Some(None);
        }
        rest = &rest[end + 1..];
    }
    Some(sum.finish())
}

fn of_parts(months: Option<i32>, days: Option<i32>, us: Option<i64>) -> Result<Interval> {
    match (months, days, us) {
        (Some(months), Some(days), Some(us)) => checked(Interval { months, days, us }),
        _ => Err(out_of_range()),
    }
}

/// # Errors
/// 22008.
pub fn negate(v: Interval) -> Result<Interval> {
    of_parts(v.months.checked_neg(), v.days.checked_neg(), v.us.checked_neg())
}

/// # Errors
/// 22008.
pub fn add(a: Interval, b: Interval) -> Result<Interval> {
    of_parts(a.months.checked_add(b.months), a.days.checked_add(b.days), a.us.checked_add(b.us))
}

/// Times a number; what is left of months goes to days, of days to the time.
///
/// # Errors
/// 22008.
pub fn multiply(v: Interval, factor: f64) -> Result<Interval> {
    scaled(v, |part| part * factor)
}

/// # Errors
/// 22008, 22012.
pub fn divide(v: Interval, by: f64) -> Result<Interval> {
    if by == 0.0 {
        return Err(PgError::new("22012", "division by zero"));
    }
    scaled(v, |part| part / by)
}

fn scaled(v: Interval, scale: impl Fn(f64) -> f64) -> Result<Interval> {
    let (months, days) = (scale(f64::from(v.months)), scale(f64::from(v.days)));
    let (whole_months, whole_days) = (months.trunc(), days.trunc());
    let month_days = rounded_us((months - whole_months) * 30.0);
    let mut seconds = rounded_us((days - whole_days + month_days - month_days.trunc()) * 86_400.0);
    let mut all_days = whole_days + month_days.trunc();
    if seconds.abs() >= 86_400.0 {
        all_days += (seconds / 86_400.0).trunc();
        seconds %= 86_400.0;
    }
    let us = to_i64(scale(to_f64(v.us)) + seconds * 1e6);
    of_parts(to_i32(whole_months), to_i32(all_days), us)
}

/// A timestamp moved by an interval: months first, then days, then the time.
///
/// # Errors
/// 22008.
pub fn shift(us: i64, by: Interval) -> Result<i64> {
    let range = || PgError::new("22008", "timestamp out of range");
    if crate::datetime::is_infinite(us) {
        return Ok(us);
    }
    let mut us = us;
    if by.months != 0 {
        let days = i32::try_from(us.div_euclid(US_PER_DAY)).map_err(|_| range())?;
        let (year, month, day) = civil(days);
        let months = year * 12 + i64::from(month) - 1 + i64::from(by.months);
        let (year, month) = (months.div_euclid(12), months.rem_euclid(12) + 1);
        let month = u32::try_from(month).map_err(|_| range())?;
        // The last day of a shorter month.
        let moved = (day.saturating_sub(3)..=day).rev().find_map(|day| days_of(year, month, day));
        let moved = i64::from(moved.ok_or_else(range)?);
        us = moved
            .checked_mul(US_PER_DAY)
            .and_then(|d| d.checked_add(us.rem_euclid(US_PER_DAY)))
            .ok_or_else(range)?;
    }
    i64::from(by.days)
        .checked_mul(US_PER_DAY)
        .and_then(|d| us.checked_add(d))
        .and_then(|us| us.checked_add(by.us))
        .ok_or_else(range)
}

/// Hours beyond 24 as days.
///
/// # Errors
/// 22008.
pub fn justify_hours(v: Interval) -> Result<Interval> {
    let days = i32::try_from(v.us / US_PER_DAY).ok().and_then(|d| v.days.checked_add(d));
    let (mut days, mut us) = (days.ok_or_else(out_of_range)?, v.us % US_PER_DAY);
    if days > 0 && us < 0 {
        (days, us) = (days - 1, us + US_PER_DAY);
    } else if days < 0 && us > 0 {
        (days, us) = (days + 1, us - US_PER_DAY);
    }
    Ok(Interval { months: v.months, days, us })
}

/// Days beyond 30 as months.
///
/// # Errors
/// 22008.
pub fn justify_days(v: Interval) -> Result<Interval> {
    let (mut months, mut days) =
        (v.months.checked_add(v.days / 30).ok_or_else(out_of_range)?, v.days % 30);
    if months > 0 && days < 0 {
        (months, days) = (months - 1, days + 30);
    } else if months < 0 && days > 0 {
        (months, days) = (months + 1, days - 30);
    }
    Ok(Interval { months, days, us: v.us })
}

/// Both, all parts with one sign.
///
/// # Errors
/// 22008.
pub fn justify(v: Interval) -> Result<Interval> {
    let mut v = justify_days(justify_hours(v)?)?;
    if v.months > 0 && (v.days < 0 || (v.days == 0 && v.us < 0)) {
        (v.months, v.days) = (v.months - 1, v.days + 30);
    } else if v.months < 0 && (v.days > 0 || (v.days == 0 && v.us > 0)) {
        (v.months, v.days) = (v.months + 1, v.days - 30);
    }
    if v.days > 0 && v.us < 0 {
        (v.days, v.us) = (v.days - 1, v.us + US_PER_DAY);
    } else if v.days < 0 && v.us > 0 {
        (v.days, v.us) = (v.days + 1, v.us - US_PER_DAY);
    }
    Ok(v)
}

/// Years, months, days and time from `b` to `a`.
#[must_use]
pub fn age(a: i64, b: i64) -> Interval {
    if a < b {
        let v = age(b, a);
        return Interval { months: -v.months, days: -v.days, us: -v.us };
    }
    let part = |us: i64| {
        let (year, month, day) = civil(i32::try_from(us.div_euclid(US_PER_DAY)).unwrap_or(0));
        (year * 12 + i64::from(month) - 1, i64::from(day), us.rem_euclid(US_PER_DAY))
    };
    let ((mut months, mut days, mut us), from) = (part(a), part(b));
    us -= from.2;
    if us < 0 {
        us += US_PER_DAY;
        days -= 1;
    }
    days -= from.1;
    months -= from.0;
    if days < 0 {
        // The length of the month counted from.
        let first = |m: i64| {
            let month = u32::try_from(m.rem_euclid(12) + 1).unwrap_or(1);
            days_of(m.div_euclid(12), month, 1).map_or(0, i64::from)
        };
        days += first(from.0 + 1) - first(from.0);
        months -= 1;
    }
    let small = |v: i64| i32::try_from(v).unwrap_or(0);
    Interval { months: small(months), days: small(days), us }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        let mut out = Vec::new();
        push_interval(parse_interval(text).unwrap(), &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn intervals_come_back_as_postgresql_writes_them() {
        for (text, want) in [
            ("1 day", "1 day"),
            ("1.5 years", "1 year 6 mons"),
            ("1.5 months", "1 mon 15 days"),
            ("1.5 days 2h", "1 day 14:00:00"),
            ("-1 month +2 days", "-1 mons +2 days"),
            ("P1Y2M3DT4H5M6.5S", "1 year 2 mons 3 days 04:05:06.5"),
            ("1-2", "1 year 2 mons"),
            ("3 4:05:06", "3 days 04:05:06"),
            ("90", "00:01:30"),
            ("2 weeks ago", "-14 days"),
            ("1 day -00:00:01", "1 day -00:00:01"),
            ("0", "00:00:00"),
        ] {
            assert_eq!(shown(text), want, "{text}");
            assert_eq!(shown(want), want);
        }
        assert_eq!(parse_interval("one day").unwrap_err().code, "22007");
        assert_eq!(parse_interval("9999999999 years").unwrap_err().code, "22015");
    }

    #[test]
    fn fields_say_what_is_counted_and_what_is_kept() {
        use IntervalFields::{
            Day, DayToHour, DayToMinute, DayToSecond, Hour, MinuteToSecond, Month, Year,
            YearToMonth,
        };
        for (text, fields, want) in [
            ("90", Hour, "90:00:00"),
            ("1.5", Hour, "01:00:00"),
            ("90", Month, "7 years 6 mons"),
            ("18 months", Year, "1 year"),
            ("1-6", YearToMonth, "1 year 6 mons"),
            ("7", YearToMonth, "7 mons"),
            ("3", Day, "3 days"),
            ("1 12", DayToHour, "1 day 12:00:00"),
            ("1 02:03:04", DayToMinute, "1 day 02:03:00"),
            ("1 02:03:04.5", DayToSecond, "1 day 02:03:04.5"),
            ("4:05", MinuteToSecond, "00:04:05"),
            ("1 year 2 days 3 hours", Day, "1 year 2 days"),
        ] {
            let fields = Fields::written(fields);
            let mut out = Vec::new();
            push_interval(fields.cut(parse_in(text, fields).unwrap()), &mut out);
            assert_eq!(String::from_utf8(out).unwrap(), want, "{text}");
            assert_eq!(Fields::of(fields.typed(None)), fields);
        }
        assert!(parse_in("1 12", Fields::written(Day)).is_err());
        assert_eq!(Fields::of(ColType::with_precision(TypeKind::Interval, 3)), Fields::ALL);
    }

    #[test]
    fn types_are_shown_with_their_fields() {
        use IntervalFields::{Day, DayToSecond, HourToMinute, Month, Second, YearToMonth};
        for (fields, digits, want) in [
            (YearToMonth, None, "interval year to month"),
            (DayToSecond, None, "interval day to second"),
            (DayToSecond, Some(3), "interval day to second(3)"),
            (HourToMinute, None, "interval hour to minute"),
            (Month, None, "interval month"),
            (Day, None, "interval day"),
            (Second, Some(2), "interval second(2)"),
        ] {
            assert_eq!(Fields::written(fields).typed(digits).to_string(), want);
        }
        assert_eq!(Fields::ALL.typed(Some(2)).to_string(), "interval(2)");
        assert_eq!(ColType::new(TypeKind::Interval).to_string(), "interval");
    }

    #[test]
    fn months_end_on_their_last_day() {
        let at = |text| crate::datetime::parse_timestamp(text, 0).unwrap();
        let by = |text| parse_interval(text).unwrap();
        assert_eq!(shift(at("2024-01-31"), by("1 month")).unwrap(), at("2024-02-29"));
        assert_eq!(shift(at("2024-03-31"), by("-13 months")).unwrap(), at("2023-02-28"));
        assert_eq!(age(at("2024-03-01"), at("2024-01-31")), by("1 mon 1 day"));
    }
}
