//! Dates and timestamps read after a template.
//!
//! What it promises: the fields that PostgreSQL reads, from the same characters, and its errors.

use super::instants::{JULIAN_EPOCH, iso_year_start};
use super::template::{Field, Node, is_separator, parse};
use super::{DAYS, MONTHS, ROMAN_MONTHS};
use crate::datetime::{US_PER_DAY, civil, days_of};
use crate::error::{PgError, Result};

/// What a text says.
pub(super) struct Read {
    /// Microseconds since 2000-01-01 on the clocks of its place.
    pub local_us: i64,
    /// Seconds east of Greenwich, if the text says them.
    pub offset_s: Option<i32>,
}

/// Most hours of an offset from UTC.
const OFFSET_HOURS_MAX: i32 = 15;

pub(super) fn read(text: &str, template: &str) -> Result<Read> {
    let nodes = parse(template);
    let mut reader = Reader { text, at: 0, nodes: &nodes, extra: 0, fixed: false };
    let mut said = Said::default();
    reader.all(&mut said)?;
    said.resolve(text)
}

/// Which calendar the fields are of.
#[derive(Clone, Copy, PartialEq)]
enum Calendar {
    Gregorian,
    Iso,
}

/// Fields, 0 where nothing was said.
#[derive(Default)]
struct Said {
    calendar: Option<Calendar>,
    afternoon: i32,
    twelve_hours: bool,
    hour: i32,
    minute: i32,
    second: i32,
    second_of_day: i32,
    ms: i32,
    us: i32,
    weekday: i32,
    day: i32,
    day_of_year: i32,
    month: i32,
    year: i32,
    year_digits: usize,
    before_christ: i32,
    century: i32,
    week: i32,
    week_of_month: i32,
    julian: i32,
    offset_sign: i32,
    offset_hour: i32,
    offset_minute: i32,
}

fn calendar_of(id: &str) -> Option<Calendar> {
    match id {
        "IYYY" | "IYY" | "IY" | "I" | "IW" | "ID" | "IDDD" => Some(Calendar::Iso),
        "YYYY" | "YYY" | "YY" | "Y" | "Y,YYY" | "CC" | "DAY" | "DY" | "DDD" | "DD" | "D" | "MM"
        | "MONTH" | "MON" | "RM" | "W" | "WW" => Some(Calendar::Gregorian),
        _ => None,
    }
}

impl Said {
    fn mix(&mut self, calendar: Option<Calendar>) -> Result<()> {
        match (self.calendar, calendar) {
            (_, None) => {}
            (None, said) => self.calendar = said,
            (before, said) if before == said => {}
            _ => {
                return Err(PgError::new("22007", "invalid combination of date conventions")
                    .with_hint(
                        "Do not mix Gregorian and ISO week date conventions in a formatting \
                         template.",
                    ));
            }
        }
        Ok(())
    }
}

fn set(slot: &mut i32, value: i32, field: &Field) -> Result<()> {
    if *slot != 0 && *slot != value {
        let message =
            format!("conflicting values for \"{}\" field in formatting string", field.name());
        return Err(PgError::new("22007", message)
            .with_detail("This value contradicts a previous setting for the same field type."));
    }
    *slot = value;
    Ok(())
}

/// The year of one with fewer than four digits: the one nearest to 2020.
fn near_2020(year: i32) -> i32 {
    match year {
        ..70 => year + 2000,
        70..100 => year + 1900,
        100..520 => year + 2000,
        520..1000 => year + 1000,
        _ => year,
    }
}

struct Reader<'t> {
    text: &'t str,
    at: usize,
    nodes: &'t [Node],
    /// Characters skipped beyond those of the template.
    extra: i32,
    /// `FX`: each character of the template is one of the text.
    fixed: bool,
}

impl<'t> Reader<'t> {
    fn rest(&self) -> &'t str {
        &self.text[self.at..]
    }

    fn skip_char(&mut self) {
        self.at += self.rest().chars().next().map_or(0, char::len_utf8);
    }

    fn skip_spaces(&mut self) {
        while self.rest().starts_with(|c: char| c.is_ascii_whitespace()) {
            self.at += 1;
            self.extra += 1;
        }
    }

    fn all(&mut self, said: &mut Said) -> Result<()> {
        for at in 0..self.nodes.len() {
            if self.rest().is_empty() {
                break;
            }
            let node = self.nodes[at];
            let skips = match node {
                Node::Field(field) => field.id != "FX",
                _ => at == 0,
            };
            if !self.fixed && skips {
                self.skip_spaces();
            }
            match node {
                Node::Field(field) => {
                    said.mix(calendar_of(field.id))?;
                    self.field(at, &field, said)?;
                    if !self.fixed {
                        self.extra = 0;
                        self.skip_spaces();
                    }
                }
                Node::Separator(_) | Node::Space(_) if !self.fixed => {
                    self.extra -= 1;
                    let between = |c: char| c.is_ascii_whitespace() || is_separator(c);
                    if self.rest().starts_with(between) {
                        self.at += 1;
                        self.extra += 1;
                    }
                }
                Node::Char(_) if !self.fixed && self.extra > 0 => self.extra -= 1,
                _ => self.skip_char(),
            }
        }
        Ok(())
    }

    /// Whether what follows a field in the template is no digit.
    fn ends_at_sign(&self, at: usize) -> bool {
        if matches!(self.nodes[at], Node::Field(field) if field.ordinal.is_some()) {
            return true;
        }
        match self.nodes.get(at + 1) {
            None => true,
            Some(Node::Field(next)) => !next.is_digit,
            Some(other) => !other.character().is_some_and(|c| c.is_ascii_digit()),
        }
    }

    /// A number for a field; how many characters it takes.
    fn number(&mut self, at: usize, field: &Field, width: usize) -> Result<(i32, usize)> {
        let from = self.at;
        let blanks = self.rest().bytes().take_while(u8::is_ascii_whitespace).count();
        self.at += blanks;
        let rest = self.rest();
        let copy: String = rest.chars().take(width).collect();
        let invalid =
            || PgError::new("22007", format!("invalid value \"{copy}\" for \"{}\"", field.name()));
        let unfixed = "If your source string is not fixed-width, try using the \"FM\" modifier.";
        let number = if field.fill_mode || self.ends_at_sign(at) {
            signed_digits(rest)
        } else {
            if rest.len() < width {
                let message =
                    format!("source string too short for \"{}\" formatting field", field.name());
                return Err(PgError::new("22007", message)
                    .with_detail(format!(
                        "Field requires {width} characters, but only {} remain.",
                        rest.len()
                    ))
                    .with_hint(unfixed));
            }
            let number = signed_digits(&copy);
            if !number.is_empty() && number.len() < width {
                return Err(invalid()
                    .with_detail(format!(
                        "Field requires {width} characters, but only {} could be parsed.",
                        number.len()
                    ))
                    .with_hint(unfixed));
            }
            number
        };
        self.at += number.len();
        if number.is_empty() {
            return Err(invalid().with_detail("Value must be an integer."));
        }
        let value = number.trim().parse::<i32>().map_err(|_| {
            let message =
                format!("value for \"{}\" in source string is out of range", field.name());
            PgError::new("22008", message).with_detail(format!(
                "Value must be in the range {} to {}.",
                i32::MIN,
                i32::MAX
            ))
        })?;
        Ok((value, self.at - from))
    }

    fn set_number(
        &mut self,
        at: usize,
        field: &Field,
        width: usize,
        slot: &mut i32,
    ) -> Result<usize> {
        let (value, used) = self.number(at, field, width)?;
        set(slot, value, field)?;
        Ok(used)
    }

    /// A word out of a list, in any letters; its place.
    fn word(&mut self, field: &Field, words: &[&str]) -> Result<i32> {
        let rest = self.rest();
        for (at, word) in words.iter().enumerate() {
            if rest.get(..word.len()).is_some_and(|head| head.eq_ignore_ascii_case(word)) {
                self.at += word.len();
                return Ok(i32::try_from(at).unwrap_or(0));
            }
        }
        let shown = rest.split(|c: char| c.is_ascii_whitespace()).next().unwrap_or("");
        let message = format!("invalid value \"{shown}\" for \"{}\"", field.name());
        Err(PgError::new("22007", message)
            .with_detail("The given value did not match any of the allowed values for this field."))
    }

    fn field(&mut self, at: usize, field: &Field, said: &mut Said) -> Result<()> {
        let width = field.id.len();
        match field.id {
            "FX" => self.fixed = true,
            "HH" | "HH12" => {
                self.set_number(at, field, 2, &mut said.hour)?;
                said.twelve_hours = true;
            }
            "HH24" => {
                self.set_number(at, field, 2, &mut said.hour)?;
            }
            "MI" => {
                self.set_number(at, field, 2, &mut said.minute)?;
            }
            "SS" => {
                self.set_number(at, field, 2, &mut said.second)?;
            }
            "SSSS" | "SSSSS" => {
                self.set_number(at, field, width, &mut said.second_of_day)?;
            }
            "MS" => {
                let used = self.set_number(at, field, 3, &mut said.ms)?;
                said.ms *= [1, 100, 10].get(used).copied().unwrap_or(1);
            }
            "US" | "FF1" | "FF2" | "FF3" | "FF4" | "FF5" | "FF6" => {
                let places = match field.id.as_bytes() {
                    [b'F', b'F', digit] => usize::from(digit - b'0'),
                    _ => 6,
                };
                let used = self.set_number(at, field, places, &mut said.us)?;
                let missing = 6_usize.saturating_sub(used);
                said.us *=
                    if used == 0 { 1 } else { 10_i32.pow(u32::try_from(missing).unwrap_or(0)) };
            }
            "TZ" | "OF" => {
                return Err(PgError::new(
                    "0A000",
                    format!("formatting field \"{}\" is only supported in to_char", field.name()),
                ));
            }
            "TZH" => {
                let first = self.rest().chars().next();
                said.offset_sign = match first {
                    Some('-') => -1,
                    Some('+' | ' ') => 1,
                    // A minus sign may have been taken for what stands between fields.
                    _ if self.extra > 0 && self.text[..self.at].ends_with('-') => -1,
                    _ => 1,
                };
                if matches!(first, Some('-' | '+' | ' ')) {
                    self.at += 1;
                }
                self.set_number(at, field, 2, &mut said.offset_hour)?;
                return Ok(());
            }
            "TZM" => {
                if said.offset_sign == 0 {
                    said.offset_sign = 1;
                }
                self.set_number(at, field, 2, &mut said.offset_minute)?;
                return Ok(());
            }
            "Q" => {
                self.number(at, field, 1)?;
            }
            "J" => {
                self.set_number(at, field, 1, &mut said.julian)?;
            }
            "A.M." | "P.M." | "AM" | "PM" | "A.D." | "B.C." | "AD" | "BC" => {
                return self.half(field, said);
            }
            id if calendar_of(id).is_some() => return self.date_field(at, field, said),
            other => return Err(PgError::internal(format!("the pattern {other}"))),
        }
        self.skip_ordinal(field);
        Ok(())
    }

    fn skip_ordinal(&mut self, field: &Field) {
        if field.ordinal.is_some() {
            self.skip_char();
            self.skip_char();
        }
    }

    fn half(&mut self, field: &Field, said: &mut Said) -> Result<()> {
        let dotted = field.id.contains('.');
        if field.id.ends_with(['M']) || field.id.ends_with("M.") {
            let words = if dotted { ["a.m.", "p.m."] } else { ["am", "pm"] };
            let value = self.word(field, &words)?;
            said.twelve_hours = true;
            return set(&mut said.afternoon, value, field);
        }
        let words = if dotted { ["a.d.", "b.c."] } else { ["ad", "bc"] };
        let value = self.word(field, &words)?;
        set(&mut said.before_christ, value, field)
    }

    fn date_field(&mut self, at: usize, field: &Field, said: &mut Said) -> Result<()> {
        let width = field.id.len();
        let short = |names: &[&'static str]| -> Vec<&'static str> {
            names.iter().map(|name| &name[..3]).collect()
        };
        match field.id {
            "MONTH" | "MON" => {
                let value = match width {
                    5 => self.word(field, &MONTHS)?,
                    _ => self.word(field, &short(&MONTHS))?,
                };
                return set(&mut said.month, value + 1, field);
            }
            "DAY" | "DY" => {
                let value = match width {
                    3 => self.word(field, &DAYS)?,
                    _ => self.word(field, &short(&DAYS))?,
                };
                return set(&mut said.weekday, value + 1, field);
            }
            "RM" => {
                // Longer numerals before those that they begin with.
                let mut words = ROMAN_MONTHS;
                words.sort_by_key(|word| std::cmp::Reverse(word.len()));
                let found = self.word(field, &words)?;
                let word = words[usize::try_from(found).unwrap_or(0)];
                let month = ROMAN_MONTHS.iter().position(|one| *one == word).unwrap_or(0) + 1;
                return set(&mut said.month, i32::try_from(month).unwrap_or(0), field);
            }
            "MM" => {
                self.set_number(at, field, 2, &mut said.month)?;
            }
            "DD" => {
                self.set_number(at, field, 2, &mut said.day)?;
            }
            "DDD" | "IDDD" => {
                self.set_number(at, field, 3, &mut said.day_of_year)?;
            }
            "D" => {
                self.set_number(at, field, 1, &mut said.weekday)?;
            }
            "ID" => {
                let (value, _) = self.number(at, field, 1)?;
                set(&mut said.weekday, if value >= 7 { 1 } else { value + 1 }, field)?;
            }
            "WW" | "IW" => {
                self.set_number(at, field, 2, &mut said.week)?;
            }
            "W" => {
                self.set_number(at, field, 1, &mut said.week_of_month)?;
            }
            "CC" => {
                self.set_number(at, field, 2, &mut said.century)?;
            }
            "Y,YYY" => {
                self.thousands(field, said)?;
            }
            _ => {
                let (value, used) = self.number(at, field, width)?;
                let near = width < 4 && used < 4;
                set(&mut said.year, if near { near_2020(value) } else { value }, field)?;
                said.year_digits = width;
            }
        }
        self.skip_ordinal(field);
        Ok(())
    }

    /// A year with a comma behind its thousands.
    fn thousands(&mut self, field: &Field, said: &mut Said) -> Result<()> {
        let invalid = || PgError::new("22007", "invalid input string for \"Y,YYY\"");
        let rest = self.rest();
        let high = signed_digits(rest);
        let behind = rest[high.len()..].strip_prefix(',').ok_or_else(invalid)?;
        let low_len = behind.bytes().take(3).take_while(u8::is_ascii_digit).count();
        let number = |text: &str| text.trim().parse::<i32>().map_err(|_| invalid());
        let year = number(high)?
            .checked_mul(1000)
            .and_then(|v| v.checked_add(number(&behind[..low_len]).ok()?))
            .ok_or_else(invalid)?;
        set(&mut said.year, year, field)?;
        said.year_digits = 4;
        self.at += high.len() + 1 + low_len;
        Ok(())
    }
}

/// The number that a text begins with: blanks, a sign, digits.
fn signed_digits(text: &str) -> &str {
    let blanks = text.bytes().take_while(u8::is_ascii_whitespace).count();
    let sign = usize::from(text[blanks..].starts_with(['+', '-']));
    let digits = text[blanks + sign..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 { "" } else { &text[..blanks + sign + digits] }
}

impl Said {
    fn resolve(mut self, text: &str) -> Result<Read> {
        let range =
            || PgError::new("22008", format!("date/time field value out of range: \"{text}\""));
        let time = self.time()?.ok_or_else(range)?;
        let days = self.days()?.ok_or_else(range)?;
        let offset_s = match self.offset_sign {
            0 => None,
            sign => {
                let fits = (0..=OFFSET_HOURS_MAX).contains(&self.offset_hour)
                    && (0..60).contains(&self.offset_minute);
                let seconds =
                    self.offset_hour.saturating_mul(3600) + self.offset_minute.clamp(0, 59) * 60;
                Some(if fits { sign * seconds } else { return Err(range()) })
            }
        };
        let local_us = i64::from(days)
            .checked_mul(US_PER_DAY)
            .and_then(|us| us.checked_add(time))
            .ok_or_else(|| PgError::new("22008", "timestamp out of range"))?;
        Ok(Read { local_us, offset_s })
    }

    /// Microseconds of the day; nothing if a field is out of its range.
    fn time(&self) -> Result<Option<i64>> {
        let of_day = self.second_of_day;
        let or = |said: i32, other: i32| if said == 0 { other } else { said };
        let mut hour = or(self.hour, of_day / 3600);
        let minute = or(self.minute, of_day % 3600 / 60);
        let second = or(self.second, of_day % 60);
        if self.twelve_hours {
            if !(1..=12).contains(&hour) {
                let message = format!("hour \"{hour}\" is invalid for the 12-hour clock");
                return Err(PgError::new("22007", message)
                    .with_hint("Use the 24-hour clock, or give an hour between 1 and 12."));
            }
            hour = hour % 12 + if self.afternoon == 0 { 0 } else { 12 };
        }
        let us = i64::from(self.ms) * 1000 + i64::from(self.us);
        let fits = (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..60).contains(&second)
            && (0..1_000_000).contains(&us);
        let seconds = (i64::from(hour) * 60 + i64::from(minute)) * 60 + i64::from(second);
        Ok(fits.then_some(seconds * 1_000_000 + us))
    }

    /// The year, 0 before the first; nothing if none was said.
    fn full_year(&self) -> Option<i64> {
        let century = i64::from(self.century);
        let century = if self.before_christ == 0 { century } else { -century };
        let year = i64::from(self.year);
        if self.year == 0 {
            let first = if century >= 0 { (century - 1) * 100 } else { century * 100 };
            return (century != 0).then_some(first + 1);
        }
        if century != 0 && self.year_digits <= 2 {
            let in_century = year % 100;
            return Some(match (in_century, century >= 0) {
                (0, true) => century * 100,
                (0, false) => century * 100 + 1,
                (_, true) => in_century + (century - 1) * 100,
                (_, false) => (century + 1) * 100 - in_century + 1,
            });
        }
        let year = if self.before_christ == 0 { year } else { -year };
        Some(if year < 0 { year + 1 } else { year })
    }

    /// Days since 2000-01-01; nothing if there is no such day.
    fn days(&mut self) -> Result<Option<i32>> {
        let said_year = self.full_year();
        let (mut year, mut month, mut day) = (said_year.unwrap_or(0), 1, 1);
        if self.julian != 0 {
            let date = i64::from(self.julian) - JULIAN_EPOCH;
            let Ok(date) = i32::try_from(date) else { return Ok(None) };
            (year, month, day) = of_date(date);
        }
        if self.week != 0 {
            if self.calendar == Some(Calendar::Iso) {
                let Some(start) = iso_year_start(year) else { return Ok(None) };
                let weekday = match self.weekday {
                    0 => 0,
                    1 => 6,
                    other => other - 2,
                };
                let date = (self.week - 1)
                    .checked_mul(7)
                    .and_then(|days| days.checked_add(weekday)?.checked_add(start));
                let Some(date) = date else { return Ok(None) };
                (year, month, day) = of_date(date);
            } else {
                self.day_of_year = (self.week - 1).saturating_mul(7).saturating_add(1);
            }
        }
        if self.week_of_month != 0 {
            self.day = (self.week_of_month - 1).saturating_mul(7).saturating_add(1);
        }
        if self.day != 0 {
            day = i64::from(self.day);
        }
        if self.month != 0 {
            month = i64::from(self.month);
        }
        if self.day_of_year != 0 && (month <= 1 || day <= 1) {
            if year == 0 && self.before_christ == 0 {
                return Err(PgError::new(
                    "22007",
                    "cannot calculate day of year without year information",
                ));
            }
            let iso = self.calendar == Some(Calendar::Iso);
            let start = if iso { iso_year_start(year) } else { days_of(year, 1, 1) };
            let Some(date) = start.and_then(|start| start.checked_add(self.day_of_year - 1)) else {
                return Ok(None);
            };
            let (found_year, found_month, found_day) = of_date(date);
            if iso {
                (year, month, day) = (found_year, found_month, found_day);
            } else if found_year == year {
                month = if month <= 1 { found_month } else { month };
                day = if day <= 1 { found_day } else { day };
            } else {
                return Ok(None);
            }
        }
        let part = |value: i64| u32::try_from(value).unwrap_or(0);
        Ok(days_of(year, part(month), part(day)))
    }
}

fn of_date(date: i32) -> (i64, i64, i64) {
    let (year, month, day) = civil(date);
    (year, i64::from(month), i64::from(day))
}
