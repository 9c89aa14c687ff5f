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
