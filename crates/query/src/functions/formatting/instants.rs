//! Timestamps and intervals written after a template.

use super::template::{Field, Letters, Node, parse};
use super::{DAYS, MONTHS, ROMAN_MONTHS, ordinal};
use crate::datetime::{US_PER_DAY, Zone, civil, days_of};
use crate::error::{PgError, Result};
use kernel::row::Interval;
use std::fmt::Write as _;

/// Julian day of 2000-01-01.
pub(super) const JULIAN_EPOCH: i64 = 2_451_545;

/// What a template can show.
struct Parts {
    year: i64,
    month: i64,
    day: i64,
    /// Days since 2000-01-01; nothing for an interval.
    date: Option<i32>,
    day_of_year: i64,
    hour: i64,
    minute: i64,
    second: i64,
    us: i64,
    /// Offset from UTC in seconds, and the name of the zone's time.
    zone: Option<(i32, String)>,
}

/// Text of a timestamp; with a zone, of an instant.
pub(super) fn of_timestamp(us: i64, zone: Option<&Zone>, template: &str) -> Result<String> {
    let local = zone.map_or(us, |zone| zone.local(us));
    let date = i32::try_from(local.div_euclid(US_PER_DAY))
        .map_err(|_| PgError::new("22008", "timestamp out of range"))?;
    let time = local.rem_euclid(US_PER_DAY);
    let (year, month, day) = civil(date);
    let first = days_of(year, 1, 1).unwrap_or(date);
    let seconds = time / 1_000_000;
    write(
        &Parts {
            year,
            month: i64::from(month),
            day: i64::from(day),
            date: Some(date),
            day_of_year: i64::from(date - first) + 1,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            us: time % 1_000_000,
            zone: zone.map(|zone| (zone.offset_at(us), zone.abbreviation_at(us))),
        },
        template,
    )
}

pub(super) fn of_interval(interval: Interval, template: &str) -> Result<String> {
    let (months, days) = (i64::from(interval.months), i64::from(interval.days));
    let seconds = interval.us / 1_000_000;
    write(
        &Parts {
            year: months / 12,
            month: months % 12,
            day: days,
            date: None,
            day_of_year: months * 30 + days,
            hour: seconds / 3600,
            minute: seconds / 60 % 60,
            second: seconds % 60,
            us: interval.us % 1_000_000,
            zone: None,
        },
        template,
    )
}

fn write(parts: &Parts, template: &str) -> Result<String> {
    let mut out = String::new();
    for node in parse(template) {
        match node {
            Node::Field(field) => {
                let from = out.len();
                parts.push(&field, &mut out)?;
                if let Some(upper) = field.ordinal
                    && out.len() > from
                    && takes_ordinal(field.id)
                {
                    let ending = ordinal(&out[from..], upper)?;
                    out.push_str(ending);
                }
            }
            Node::Separator(c) | Node::Space(c) | Node::Char(c) => out.push(c),
        }
    }
    Ok(out)
}

/// Whether the pattern is a number that `TH` can stand behind.
fn takes_ordinal(id: &str) -> bool {
    !matches!(
        id,
        "A.D."
            | "AD"
            | "B.C."
            | "BC"
            | "A.M."
            | "AM"
            | "P.M."
            | "PM"
            | "DAY"
            | "DY"
            | "MONTH"
            | "MON"
            | "RM"
            | "TZ"
            | "TZH"
            | "TZM"
            | "OF"
            | "FX"
    )
}

/// A word in the letters of its pattern.
fn cased(word: &str, letters: Letters) -> String {
    match letters {
        Letters::Upper => word.to_ascii_uppercase(),
        Letters::Lower => word.to_ascii_lowercase(),
        Letters::Mixed => word.to_owned(),
    }
}

fn not_of_intervals() -> PgError {
    PgError::new("22007", "invalid format specification for an interval value")
        .with_hint("Intervals are not tied to specific calendar dates.")
}

/// A number with zeros before it; a sign is one digit more, unless the number is one of days.
fn padded(value: i64, width: usize, field: &Field, out: &mut String) {
    let width = match value {
        _ if field.fill_mode => 0,
        ..0 if !matches!(field.id, "DD" | "DDD") => width + 1,
        _ => width,
    };
    let _ = write!(out, "{value:0width$}");
}

/// The Monday of the first ISO week of a year, in days since 2000-01-01.
pub(super) fn iso_year_start(year: i64) -> Option<i32> {
    let fourth = days_of(year, 1, 4)?;
    Some(fourth - (fourth + 5).rem_euclid(7))
}

/// ISO year and the day in it, from 0.
fn iso_day(date: i32) -> (i64, i64) {
    let (year, ..) = civil(date);
    for year in [year + 1, year] {
        if let Some(start) = iso_year_start(year)
            && start <= date
        {
            return (year, i64::from(date - start));
        }
    }
    (year - 1, iso_year_start(year - 1).map_or(0, |start| i64::from(date - start)))
}

impl Parts {
    /// The date; an interval has none.
    fn date(&self) -> Result<i32> {
        self.date.ok_or_else(not_of_intervals)
    }

    /// From Sunday.
    fn weekday(&self) -> Result<usize> {
        // 2000-01-01 was a Saturday.
        Ok(usize::try_from((self.date()? + 6).rem_euclid(7)).unwrap_or(0))
    }

    /// Years before Christ count from 1 too.
    fn shown_year(&self, year: i64) -> i64 {
        if self.date.is_some() && year <= 0 { 1 - year } else { year }
    }

    fn iso(&self) -> Result<(i64, i64)> {
        let none = || PgError::unsupported("the ISO week of an interval");
        self.date.map(iso_day).ok_or_else(none)
    }

    fn push(&self, field: &Field, out: &mut String) -> Result<()> {
        match field.id {
            "YYYY" | "YYY" | "YY" | "Y" | "Y,YYY" | "CC" | "IYYY" | "IYY" | "IY" | "I" => {
                self.push_year(field, out)
            }
            "MONTH" | "MON" | "DAY" | "DY" | "RM" => self.push_name(field, out),
            "A.D." | "AD" | "B.C." | "BC" | "A.M." | "AM" | "P.M." | "PM" => {
                self.push_half(field, out)
            }
            "TZ" | "TZH" | "TZM" | "OF" => self.push_zone(field, out),
            "FX" => Ok(()),
            _ => self.push_number(field, out),
        }
    }

    fn push_number(&self, field: &Field, out: &mut String) -> Result<()> {
        let of_day = self.hour * 3600 + self.minute * 60 + self.second;
        let (value, width) = match field.id {
            "MM" => (self.month, 2),
            "DD" => (self.day, 2),
            "DDD" => (self.day_of_year, 3),
            "IDDD" => (self.iso()?.1 + 1, 3),
            "D" => (i64::try_from(self.weekday()? + 1).unwrap_or(0), 1),
            "ID" => (i64::try_from((self.weekday()? + 6) % 7 + 1).unwrap_or(0), 1),
            "WW" => ((self.day_of_year - 1) / 7 + 1, 2),
            "IW" => (self.iso()?.1 / 7 + 1, 2),
            "W" => ((self.day - 1) / 7 + 1, 1),
            "Q" if self.month == 0 => return Ok(()),
            "Q" => ((self.month - 1) / 3 + 1, 1),
            "J" => match self.date {
                Some(date) => (i64::from(date) + JULIAN_EPOCH, 1),
                None => return Err(PgError::unsupported("the Julian day of an interval")),
            },
            "HH" | "HH12" if self.hour % 12 == 0 => (12, 2),
            "HH" | "HH12" => (self.hour % 12, 2),
            "HH24" => (self.hour, 2),
            "MI" => (self.minute, 2),
            "SS" => (self.second, 2),
            "SSSS" | "SSSSS" => (of_day, 1),
            "MS" => return digits(self.us / 1000, 3, out),
            "US" => return digits(self.us, 6, out),
            id => {
                // FF1 to FF6.
                let places = id.bytes().last().map_or(6, |c| usize::from(c.saturating_sub(b'0')));
                let cut = 10_i64.pow(u32::try_from(6_usize.saturating_sub(places)).unwrap_or(0));
                return digits(self.us / cut, places, out);
            }
        };
        padded(value, width, field, out);
        Ok(())
    }

    fn push_year(&self, field: &Field, out: &mut String) -> Result<()> {
        let iso = field.id.starts_with('I');
        let year = self.shown_year(if iso { self.iso()?.0 } else { self.year });
        match field.id {
            "CC" => {
                let century = match self.year {
                    year if self.date.is_none() => year / 100,
                    year @ 1.. => (year - 1) / 100 + 1,
                    year => year / 100 - 1,
                };
                let width = if (-99..=99).contains(&century) { 2 } else { 0 };
                padded(century, width, field, out);
            }
            "Y,YYY" => {
                let _ = write!(out, "{},{:03}", year / 1000, year % 1000);
            }
            "YYYY" | "IYYY" => padded(year, 4, field, out),
            "YYY" | "IYY" => padded(year % 1000, 3, field, out),
            "YY" | "IY" => padded(year % 100, 2, field, out),
            _ => {
                let _ = write!(out, "{}", year % 10);
            }
        }
        Ok(())
    }

    fn push_name(&self, field: &Field, out: &mut String) -> Result<()> {
        let (word, width) = match field.id {
            "RM" => {
                let Some(word) = self.roman_month() else { return Ok(()) };
                (word, 4)
            }
            "DAY" => (DAYS[self.weekday()?], 9),
            "DY" => (&DAYS[self.weekday()?][..3], 0),
            id => {
                self.date()?;
                let month = MONTHS[usize::try_from(self.month - 1).unwrap_or(0) % 12];
                if id == "MONTH" { (month, 9) } else { (&month[..3], 0) }
            }
        };
        let width = if field.fill_mode { 0 } else { width };
        let _ = write!(out, "{:width$}", cased(word, field.letters));
        Ok(())
    }

    /// Months of an interval below 0 count back from December.
    fn roman_month(&self) -> Option<&'static str> {
        if self.month == 0 && self.year == 0 {
            return None;
        }
        let at = match self.month {
            0 if self.year >= 0 => 11,
            0 => 0,
            month @ 1.. => month - 1,
            month => 12 + month,
        };
        ROMAN_MONTHS.get(usize::try_from(at).ok()?).copied()
    }

    fn push_half(&self, field: &Field, out: &mut String) -> Result<()> {
        let word = if matches!(field.id, "A.D." | "AD" | "B.C." | "BC") {
            self.date()?;
            if self.year <= 0 { "B.C." } else { "A.D." }
        } else if self.hour % 24 >= 12 {
            "P.M."
        } else {
            "A.M."
        };
        let word = if field.id.contains('.') { word.to_owned() } else { word.replace('.', "") };
        out.push_str(&cased(&word, field.letters));
        Ok(())
    }

    fn push_zone(&self, field: &Field, out: &mut String) -> Result<()> {
        self.date()?;
        let (offset, name) = self.zone.as_ref().map_or((0, ""), |(at, name)| (*at, name.as_str()));
        let sign = if offset >= 0 { '+' } else { '-' };
        let minutes = offset.abs() / 60;
        let _ = match field.id {
            "TZ" => write!(out, "{}", cased(name, field.letters)),
            "TZH" => write!(out, "{sign}{:02}", minutes / 60),
            "TZM" => write!(out, "{:02}", minutes % 60),
            _ => {
                let width = if field.fill_mode { 0 } else { 2 };
                let _ = write!(out, "{sign}{:0width$}", minutes / 60);
                match minutes % 60 {
                    0 => Ok(()),
                    rest => write!(out, ":{rest:02}"),
                }
            }
        };
        Ok(())
    }
}

/// A fraction of a second with all its digits.
fn digits(value: i64, width: usize, out: &mut String) -> Result<()> {
    let _ = write!(out, "{value:0width$}");
    Ok(())
}
