//! `to_char` of dates and timestamps, with the patterns that are in use; another pattern is an
//! error, not other text.

use crate::datetime::{US_PER_DAY, civil};
use crate::error::{PgError, Result};
use std::fmt::Write as _;

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

/// Patterns, longest first.
const PATTERNS: &[&str] = &[
    "HH24", "HH12", "YYYY", "MONTH", "Month", "month", "DDD", "DAY", "Day", "day", "MON", "Mon",
    "mon", "YY", "MM", "DD", "DY", "Dy", "dy", "HH", "MI", "SS", "MS", "US", "AM", "PM", "am",
    "pm", "Q", "D",
];

struct Parts {
    year: i64,
    month: u32,
    day: u32,
    days: i32,
    us_of_day: i64,
}

/// Text of a timestamp (µs since 2000-01-01, local time).
///
/// # Errors
/// 0A000 for a letter that begins no pattern we know.
pub fn to_char(us: i64, format: &str) -> Result<String> {
    let days = i32::try_from(us.div_euclid(US_PER_DAY)).unwrap_or(0);
    let (year, month, day) = civil(days);
    let parts = Parts { year, month, day, days, us_of_day: us.rem_euclid(US_PER_DAY) };
    let mut out = String::new();
    let mut rest = format;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix('"') {
            let end = after.find('"').unwrap_or(after.len());
            out.push_str(&after[..end]);
            rest = after.get(end + 1..).unwrap_or("");
            continue;
        }
        let (fill, body) = match rest.strip_prefix("FM") {
            Some(body) => (false, body),
            None => (true, rest),
        };
        if let Some(pattern) = PATTERNS.iter().find(|p| body.starts_with(**p)) {
            push(&parts, pattern, fill, &mut out);
            rest = &body[pattern.len()..];
            continue;
        }
        if c.is_ascii_alphabetic() {
            return Err(PgError::unsupported(format!("the to_char pattern \"{format}\"")));
        }
        out.push(c);
        rest = &rest[c.len_utf8()..];
    }
    Ok(out)
}

fn push(p: &Parts, pattern: &str, fill: bool, out: &mut String) {
    let seconds = p.us_of_day / 1_000_000;
    let (hour, minute, second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let fraction = p.us_of_day % 1_000_000;
    let month = MONTHS[(p.month as usize + 11) % 12];
    // 2000-01-01 was a Saturday.
    let weekday = (i64::from(p.days) + 6).rem_euclid(7);
    let day = DAYS[usize::try_from(weekday).unwrap_or(0)];
    let mut number = |value: i64, width: usize| {
        let width = if fill { width } else { 0 };
        let _ = write!(out, "{value:0width$}");
    };
    let half = (hour + 11) % 12 + 1;
    match pattern {
        "YYYY" => number(p.year, 4),
        "YY" => number(p.year.rem_euclid(100), 2),
        "MM" => number(i64::from(p.month), 2),
        "DD" => number(i64::from(p.day), 2),
        "DDD" => {
            let first = crate::datetime::days_of(p.year, 1, 1).unwrap_or(p.days);
            number(i64::from(p.days - first) + 1, 3);
        }
        "D" => number(weekday + 1, 1),
        "Q" => number(i64::from(p.month - 1) / 3 + 1, 1),
        "HH24" => number(hour, 2),
        "HH12" | "HH" => number(half, 2),
        "MI" => number(minute, 2),
        "SS" => number(second, 2),
        "MS" => number(fraction / 1000, 3),
        "US" => number(fraction, 6),
        "AM" | "PM" => out.push_str(if hour < 12 { "AM" } else { "PM" }),
        "am" | "pm" => out.push_str(if hour < 12 { "am" } else { "pm" }),
        word => {
            let full = if word.eq_ignore_ascii_case("month") || word.eq_ignore_ascii_case("mon") {
                month
            } else {
                day
            };
            let long = word.eq_ignore_ascii_case("month") || word.eq_ignore_ascii_case("day");
            let text = if long { full } else { &full[..3] };
            let first = word.starts_with(|c: char| c.is_ascii_uppercase());
            let upper = first && !word[1..].contains(|c: char| c.is_ascii_lowercase());
            let text = match (first, upper) {
                (_, true) => text.to_uppercase(),
                (true, false) => text.to_owned(),
                (false, _) => text.to_lowercase(),
            };
            let width = if long && fill { 9 } else { 0 };
            let _ = write!(out, "{text:width$}");
        }
    }
}

/// Text of a number, with the patterns `9`, `0`, `,`, `.` and `FM`.
///
/// # Errors
/// 0A000 for another pattern.
pub fn number((value, scale): (i128, u8), format: &str) -> Result<String> {
    let (fill, pattern) = match format.strip_prefix("FM") {
        Some(rest) => (false, rest),
        None => (true, format),
    };
    let (whole, fraction) = pattern.split_once('.').unwrap_or((pattern, ""));
    let known = whole.chars().all(|c| matches!(c, '9' | '0' | ','))
        && fraction.chars().all(|c| matches!(c, '9' | '0'));
    if !known {
        return Err(PgError::unsupported(format!("the to_char pattern \"{format}\"")));
    }
    let wanted = u8::try_from(fraction.len()).map_err(|_| PgError::out_of_range("numeric"))?;
    let rounded = crate::arith::rescale(value, scale, wanted)
        .ok_or_else(|| PgError::out_of_range("numeric"))?;
    let digits = format!("{:0>width$}", rounded.unsigned_abs(), width = fraction.len() + 1);
    let (int, frac) = digits.split_at(digits.len() - fraction.len());
    let int = int.trim_start_matches('0');
    let places = whole.chars().filter(|c| *c != ',').count();
    let overflow = int.len() > places;
    let shown_from = whole.find('0').unwrap_or(whole.len());
    let (mut out, mut place, mut started) = (String::new(), 0, false);
    for (at, c) in whole.char_indices() {
        if c == ',' {
            out.push(if started { ',' } else { ' ' });
            continue;
        }
        let digit = (place + int.len()).checked_sub(places).and_then(|i| int.chars().nth(i));
        started |= digit.is_some() || at >= shown_from;
        out.push(match digit {
            _ if overflow => '#',
            Some(digit) => digit,
            None if started => '0',
            None => ' ',
        });
        started |= overflow;
        place += 1;
    }
    let blanks = out.len() - out.trim_start().len();
    let sign = if rounded < 0 { '-' } else { ' ' };
    out.insert(blanks, sign);
    if pattern.contains('.') {
        out.push('.');
        let kept = match fraction.rfind('0') {
            _ if fill => frac.len(),
            last => frac.trim_end_matches('0').len().max(last.map_or(0, |at| at + 1)),
        };
        let frac = if overflow { "#".repeat(frac.len()) } else { frac[..kept].to_owned() };
        out.push_str(&frac);
    }
    Ok(if fill { out } else { out.trim_start().to_owned() })
}

/// Reads a timestamp (µs since 2000-01-01) in a format.
///
/// # Errors
/// 22007 if the text is not in the format, 22008 for a field out of range, 0A000 for a pattern we
/// do not know.
pub fn to_timestamp(text: &str, format: &str) -> Result<i64> {
    let mut read = Read { rest: text.trim_start(), year: 1, month: 1, day: 1, us: 0 };
    let (mut half, mut hour12) = (None, None);
    let mut rest = format.trim_start();
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("FM") {
            rest = after;
            continue;
        }
        let Some(pattern) = PATTERNS.iter().find(|p| rest.starts_with(**p)) else {
            if c.is_ascii_alphabetic() {
                return Err(PgError::unsupported(format!("the pattern \"{format}\"")));
            }
            rest = &rest[c.len_utf8()..];
            read.skip_separator();
            continue;
        };
        rest = &rest[pattern.len()..];
        // Digits run on into the next pattern only where that is one of digits too.
        let next_is_digits = PATTERNS.iter().any(|p| rest.starts_with(*p));
        let hours = 3_600_000_000;
        match *pattern {
            "YYYY" => {
                let width = if next_is_digits { 4 } else { usize::MAX };
                read.year = read.number(width, pattern)?;
            }
            "YY" => {
                let year = read.number(2, pattern)?;
                read.year = if year < 70 { 2000 + year } else { 1900 + year };
            }
            "MM" => read.month = read.number(2, pattern)?,
            "DD" => read.day = read.number(2, pattern)?,
            "HH24" => read.us += read.ranged(2, pattern, 0, 24)? * hours,
            "HH12" | "HH" => hour12 = Some(read.ranged(2, pattern, 1, 12)?),
            "MI" => read.us += read.ranged(2, pattern, 0, 59)? * 60_000_000,
            "SS" => read.us += read.ranged(2, pattern, 0, 59)? * 1_000_000,
            "MS" => read.us += read.fraction(3)? * 1000,
            "US" => read.us += read.fraction(6)?,
            "AM" | "PM" | "am" | "pm" => half = Some(read.half()?),
            "MONTH" | "Month" | "month" => read.month = read.name(&MONTHS, false)?,
            "MON" | "Mon" | "mon" => read.month = read.name(&MONTHS, true)?,
            "DAY" | "Day" | "day" => read.name(&DAYS, false).map(|_| ())?,
            "DY" | "Dy" | "dy" => read.name(&DAYS, true).map(|_| ())?,
            other => return Err(PgError::unsupported(format!("reading the pattern {other}"))),
        }
    }
    if let Some(hour) = hour12 {
        let hour = match half {
            Some(afternoon) => hour % 12 + if afternoon { 12 } else { 0 },
            None => hour % 12,
        };
        read.us += hour * 3_600_000_000;
    }
    let range = || PgError::new("22008", format!("date/time field value out of range: \"{text}\""));
    let part = |v: i64| u32::try_from(v).map_err(|_| range());
    let days = crate::datetime::days_of(read.year, part(read.month)?, part(read.day)?);
    Ok(i64::from(days.ok_or_else(range)?) * US_PER_DAY + read.us)
}

/// What is left of a text, and what it has said.
struct Read<'a> {
    rest: &'a str,
    year: i64,
    month: i64,
    day: i64,
    us: i64,
}

impl Read<'_> {
    fn skip_separator(&mut self) {
        let mut chars = self.rest.chars();
        if chars.next().is_some_and(|c| !c.is_alphanumeric()) {
            self.rest = chars.as_str();
        }
    }

    fn digits(&mut self, width: usize) -> &str {
        self.rest = self.rest.trim_start();
        let end = self.rest.bytes().take(width).take_while(u8::is_ascii_digit).count();
        let (digits, rest) = self.rest.split_at(end);
        self.rest = rest;
        digits
    }

    fn number(&mut self, width: usize, pattern: &str) -> Result<i64> {
        let before = self.rest.trim_start();
        let shown: String = before.chars().take(width.min(4)).collect();
        self.digits(width).parse().map_err(|_| {
            PgError::new("22007", format!("invalid value \"{shown}\" for \"{pattern}\""))
                .with_detail("Value must be an integer.")
        })
    }

    fn ranged(&mut self, width: usize, pattern: &str, from: i64, to: i64) -> Result<i64> {
        let v = self.number(width, pattern)?;
        if (from..=to).contains(&v) {
            return Ok(v);
        }
        let message = if from == 1 {
            format!("hour \"{v}\" is invalid for the 12-hour clock")
        } else {
            format!("date/time field value out of range: \"{v}\"")
        };
        Err(PgError::new(if from == 1 { "22007" } else { "22008" }, message))
    }

    /// Digits of a fraction: `.5` with three places is 500.
    fn fraction(&mut self, places: usize) -> Result<i64> {
        let digits = self.digits(places);
        let padded = format!("{digits:0<places$}");
        padded.parse().map_err(|_| PgError::new("22007", "invalid value for a fraction"))
    }

    fn half(&mut self) -> Result<bool> {
        let word: String = self.rest.chars().take(2).collect();
        let half = match word.to_ascii_lowercase().as_str() {
            "am" => false,
            "pm" => true,
            _ => {
                return Err(PgError::new("22007", format!("invalid value \"{word}\" for \"AM\"")));
            }
        };
        self.rest = &self.rest[word.len()..];
        Ok(half)
    }

    /// Number of a name, from 1.
    fn name(&mut self, names: &[&str], short: bool) -> Result<i64> {
        let rest = self.rest.to_ascii_lowercase();
        for (i, name) in names.iter().enumerate() {
            let name = if short { &name[..3] } else { name };
            if rest.starts_with(&name.to_ascii_lowercase()) {
                self.rest = &self.rest[name.len()..];
                return Ok(i64::try_from(i).unwrap_or(0) + 1);
            }
        }
        let shown: String = self.rest.chars().take(3).collect();
        Err(PgError::new("22007", format!("invalid value \"{shown}\" for a name")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_patterns() {
        let us = crate::datetime::parse_timestamp("2024-02-29 15:04:05.123456", 0).unwrap();
        for (format, want) in [
            ("YYYY-MM-DD HH24:MI:SS", "2024-02-29 15:04:05"),
            ("HH12:MI am, Dy DD Mon YYYY", "03:04 pm, Thu 29 Feb 2024"),
            ("FMMonth FMDD, YY", "February 29, 24"),
            ("MS US DDD Q D", "123 123456 060 1 5"),
            ("\"on\" DAY|", "on THURSDAY |"),
        ] {
            assert_eq!(to_char(us, format).unwrap(), want);
        }
        assert_eq!(to_char(us, "IYYY").unwrap_err().code, "0A000");
    }
}
