//! Dates and timestamps as PostgreSQL reads and writes them (ISO, MDY).
//!
//! Days and microseconds count from 2000-01-01. What it promises: what it writes it reads back.
//! Left out: infinity, week and Julian forms.

use crate::error::{PgError, Result};
pub use crate::zone::{Zone, zone_names};

pub const US_PER_SECOND: i64 = 1_000_000;
pub const US_PER_DAY: i64 = 86_400 * US_PER_SECOND;
/// Days from 1970-01-01 to 2000-01-01.
pub const EPOCH_DAYS: i32 = 10_957;
/// Microseconds from 1970-01-01 to 2000-01-01.
pub const EPOCH_US: i64 = EPOCH_DAYS as i64 * US_PER_DAY;

/// Year, month, day of a day number (proleptic Gregorian, year 0 is 1 BC).
#[must_use]
#[allow(clippy::cast_possible_truncation)] // month and day are small
pub fn civil(days: i32) -> (i64, u32, u32) {
    let z = i64::from(days) + i64::from(EPOCH_DAYS) + 719_468;
    let era = z.div_euclid(146_097);
    let doe = z.rem_euclid(146_097);
    let yoe = (doe - doe / 1460 + doe / 36_524 - doe / 146_096) / 365;
    let doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
    let mp = (5 * doy + 2) / 153;
    let day = (doy - (153 * mp + 2) / 5 + 1) as u32;
    let month = (if mp < 10 { mp + 3 } else { mp - 9 }) as u32;
    (yoe + era * 400 + i64::from(month <= 2), month, day)
}

/// Day number of a date; `None` if there is no such day.
#[must_use]
pub fn days_of(year: i64, month: u32, day: u32) -> Option<i32> {
    if !(1..=12).contains(&month) || day == 0 || day > days_in_month(year, month) {
        return None;
    }
    let y = if month <= 2 { year - 1 } else { year };
    let era = y.div_euclid(400);
    let yoe = y.rem_euclid(400);
    let mp = i64::from((month + 9) % 12);
    let doy = (153 * mp + 2) / 5 + i64::from(day) - 1;
    let doe = yoe * 365 + yoe / 4 - yoe / 100 + doy;
    let days = era * 146_097 + doe - 719_468 - i64::from(EPOCH_DAYS);
    i32::try_from(days).ok()
}

fn days_in_month(year: i64, month: u32) -> u32 {
    let leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
    match month {
        2 if leap => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn push_padded(out: &mut Vec<u8>, value: i64, width: usize) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    let mut rest = value.unsigned_abs();
    loop {
        at -= 1;
        digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        if rest == 0 {
            break;
        }
    }
    let have = digits.len() - at;
    out.extend(std::iter::repeat_n(b'0', width.saturating_sub(have)));
    out.extend_from_slice(&digits[at..]);
}

fn push_date_part(days: i32, out: &mut Vec<u8>) -> bool {
    let (year, month, day) = civil(days);
    let before_christ = year <= 0;
    push_padded(out, if before_christ { 1 - year } else { year }, 4);
    out.push(b'-');
    push_padded(out, month.into(), 2);
    out.push(b'-');
    push_padded(out, day.into(), 2);
    before_christ
}

/// The word for an infinite date or instant.
fn push_infinite(after: bool, out: &mut Vec<u8>) {
    out.extend_from_slice(if after { b"infinity" } else { b"-infinity" });
}

/// Appends a date.
pub fn push_date(days: i32, out: &mut Vec<u8>) {
    if matches!(days, i32::MIN | i32::MAX) {
        return push_infinite(days == i32::MAX, out);
    }
    if push_date_part(days, out) {
        out.extend_from_slice(b" BC");
    }
}

/// Appends a time of day, its fraction without trailing zeros.
pub fn push_time(us_of_day: i64, out: &mut Vec<u8>) {
    let seconds = us_of_day / US_PER_SECOND;
    push_padded(out, seconds / 3600, 2);
    out.push(b':');
    push_padded(out, seconds / 60 % 60, 2);
    out.push(b':');
    push_padded(out, seconds % 60, 2);
    let mut fraction = us_of_day % US_PER_SECOND;
    if fraction > 0 {
        out.push(b'.');
        let mut width = 6;
        while fraction % 10 == 0 {
            fraction /= 10;
            width -= 1;
        }
        push_padded(out, fraction, width);
    }
}

fn split_days(us: i64) -> (i32, i64) {
    let days = us.div_euclid(US_PER_DAY);
    (i32::try_from(days).unwrap_or(i32::MAX), us.rem_euclid(US_PER_DAY))
}

/// Appends a timestamp without time zone.
pub fn push_timestamp(us: i64, out: &mut Vec<u8>) {
    if matches!(us, i64::MIN | i64::MAX) {
        return push_infinite(us == i64::MAX, out);
    }
    let (days, time) = split_days(us);
    let before_christ = push_date_part(days, out);
    out.push(b' ');
    push_time(time, out);
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// Appends an instant in local time with its offset.
pub fn push_timestamptz(us: i64, zone: &Zone, out: &mut Vec<u8>) {
    if matches!(us, i64::MIN | i64::MAX) {
        return push_infinite(us == i64::MAX, out);
    }
    let offset = zone.offset_at(us);
    let (days, time) = split_days(us + i64::from(offset) * US_PER_SECOND);
    let before_christ = push_date_part(days, out);
    out.push(b' ');
    push_time(time, out);
    out.push(if offset < 0 { b'-' } else { b'+' });
    let offset = i64::from(offset.abs());
    push_padded(out, offset / 3600, 2);
    if offset % 3600 != 0 {
        out.push(b':');
        push_padded(out, offset / 60 % 60, 2);
    }
    if offset % 60 != 0 {
        out.push(b':');
        push_padded(out, offset % 60, 2);
    }
    if before_christ {
        out.extend_from_slice(b" BC");
    }
}

/// What a date or timestamp text says.
struct Parts {
    days: i32,
    time_us: i64,
    offset_s: Option<i32>,
    zone: Option<Zone>,
}

fn invalid(type_name: &str, text: &str) -> PgError {
    PgError::new("22007", format!("invalid input syntax for type {type_name}: \"{text}\""))
}

fn field_range(text: &str) -> PgError {
    PgError::new("22008", format!("date/time field value out of range: \"{text}\""))
}

/// What words like `today` are reckoned from: the time on the session's clock, and how many seconds
/// east of Greenwich that is.
#[derive(Clone, Copy)]
struct Now {
    local_us: i64,
    offset_s: i32,
}

impl Now {
    /// Where no zone is asked for.
    const fn local(local_us: i64) -> Now {
        Now { local_us, offset_s: 0 }
    }
}

fn parse_parts(type_name: &str, text: &str, now: Now) -> Result<Parts> {
    let trimmed = text.trim();
    let (body, before_christ) = match trimmed.strip_suffix("BC").or(trimmed.strip_suffix("bc")) {
        Some(rest) => (rest.trim_end(), true),
        None => (trimmed, false),
    };
    if let Some(parts) = special_word(body, now) {
        return Ok(parts);
    }
    let date_len = body.find([' ', 'T', 't']).unwrap_or(body.len());
    let (date, rest) = body.split_at(date_len);
    let (fields, rest) = match parse_date_fields(date) {
        Some(fields) => (fields, rest),
        None => written_date(body).ok_or_else(|| invalid(type_name, text))?,
    };
    let (year, month, day) = fields;
    let year = if before_christ { 1 - year } else { year };
    let days = days_of(year, month, day).ok_or_else(|| field_range(text))?;
    let rest = rest.trim_start_matches(['T', 't']).trim();
    let mut parts = Parts { days, time_us: 0, offset_s: None, zone: None };
    if rest.is_empty() {
        return Ok(parts);
    }
    let time_len = rest.find(|c: char| !c.is_ascii_digit() && c != ':' && c != '.');
    let (time, zone) = rest.split_at(time_len.unwrap_or(rest.len()));
    let time_us = parse_time(time).or_else(|| time_of_digits(time));
    parts.time_us = time_us.ok_or_else(|| match plausible_time(time) {
        true => field_range(text),
        false => invalid(type_name, text),
    })?;
    if parts.time_us > US_PER_DAY {
        return Err(field_range(text));
    }
    let zone = zone.trim();
    if zone.starts_with(['+', '-']) {
        parts.offset_s = Some(parse_offset(zone).ok_or_else(|| invalid(type_name, text))?);
    } else if !zone.is_empty() {
        parts.zone = Some(Zone::parse(zone).map_err(|_| invalid(type_name, text))?);
    }
    Ok(parts)
}

fn special_word(word: &str, now: Now) -> Option<Parts> {
    let (today, time_us) = split_days(now.local_us);
    let at = |days, time_us, offset_s| Some(Parts { days, time_us, offset_s, zone: None });
    match word.to_ascii_lowercase().as_str() {
        "epoch" => at(-EPOCH_DAYS, 0, Some(0)),
        "now" => at(today, time_us, Some(now.offset_s)),
        "today" => at(today, 0, None),
        "tomorrow" => at(today + 1, 0, None),
        "yesterday" => at(today - 1, 0, None),
        _ => None,
    }
}

/// The number of a month by its name or the first three letters of it.
fn month_named(word: &str) -> Option<u32> {
    const NAMES: [&str; 12] = [
        "january",
        "february",
        "march",
        "april",
        "may",
        "june",
        "july",
        "august",
        "september",
        "october",
        "november",
        "december",
    ];
    let word = word.to_ascii_lowercase();
    let at = NAMES.iter().position(|name| word == *name || word == name[..3])?;
    u32::try_from(at + 1).ok()
}

fn is_weekday(word: &str) -> bool {
    const NAMES: [&str; 7] =
        ["sunday", "monday", "tuesday", "wednesday", "thursday", "friday", "saturday"];
    let word = word.to_ascii_lowercase();
    NAMES.iter().any(|name| word == *name || word == name[..3])
}

/// A year as it is written: of two digits it is one from 1970 to 2069.
fn year_of(text: &str) -> Option<i64> {
    let year: i64 = text.parse().ok()?;
    Some(match (text.len(), year) {
        (1 | 2, 0..70) => year + 2000,
        (1 | 2, _) => year + 1900,
        _ => year,
    })
}

/// A date that names its month (`January 5, 2024`, `5 Jan 2024`, `Fri Jan 05 2024`), and what
/// follows it.
fn written_date(body: &str) -> Option<((i64, u32, u32), &str)> {
    let (mut month, mut numbers) = (None, Vec::new());
    let mut rest = body;
    while month.is_none() || numbers.len() < 2 {
        rest = rest.trim_start_matches([' ', ',']);
        let end = rest.find([' ', ',']).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if let Some(named) = month_named(word) {
            if month.replace(named).is_some() {
                return None;
            }
        } else if !word.is_empty() && word.bytes().all(|b| b.is_ascii_digit()) {
            numbers.push(word);
        } else if !is_weekday(word) {
            return None;
        }
        rest = after;
    }
    let [a, b] = numbers[..] else { return None };
    let (year, day) = if a.len() > 2 { (a, b) } else { (b, a) };
    Some(((year_of(year)?, month?, day.parse().ok()?), rest))
}

/// A time without colons: `1011` or `101112`.
fn time_of_digits(time: &str) -> Option<i64> {
    let digits = time.bytes().all(|b| b.is_ascii_digit()) && matches!(time.len(), 4 | 6);
    let colons = || format!("{}:{}:{:0<2}", &time[..2], &time[2..4], &time[4..]);
    if digits { parse_time(&colons()) } else { None }
}

fn parse_date_fields(date: &str) -> Option<(i64, u32, u32)> {
    // A day by its Julian number.
    if let Some(julian) = date.strip_prefix(['J', 'j'])
        && let Ok(number) = julian.parse::<i32>()
    {
        return Some(civil(number.checked_add(DAYS_MIN)?));
    }
    if date.len() == 8 && date.bytes().all(|b| b.is_ascii_digit()) {
        let year = date[..4].parse().ok()?;
        return Some((year, date[4..6].parse().ok()?, date[6..].parse().ok()?));
    }
    let separator = ['-', '/', '.'].into_iter().find(|c| date.contains(*c))?;
    let mut fields = date.split(separator);
    let (a, b, c) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some() || [a, b, c].iter().any(|f| f.is_empty()) {
        return None;
    }
    let month = |text: &str| text.parse().ok().or_else(|| month_named(text));
    if a.len() >= 3 && a.parse::<i64>().is_ok() {
        return Some((a.parse().ok()?, month(b)?, c.parse().ok()?));
    }
    if let Some(named) = month_named(b) {
        return Some((year_of(c)?, named, a.parse().ok()?)); // 01-jan-2024
    }
    Some((year_of(c)?, month(a)?, b.parse().ok()?)) // month first, as DateStyle MDY says
}

fn parse_time(time: &str) -> Option<i64> {
    let mut fields = time.split(':');
    let hours: i64 = fields.next()?.parse().ok()?;
    let minutes: i64 = fields.next()?.parse().ok()?;
    let (seconds, fraction) = match fields.next() {
        None => (0, 0),
        Some(text) => {
            let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
            (whole.parse::<i64>().ok()?, parse_fraction(fraction)?)
        }
    };
    if fields.next().is_some() || minutes > 59 || seconds > 60 || hours > 24 {
        return None;
    }
    Some(((hours * 60 + minutes) * 60 + seconds) * US_PER_SECOND + fraction)
}

/// A fraction of a second in microseconds, rounded.
fn parse_fraction(text: &str) -> Option<i64> {
    if text.is_empty() {
        return Some(0);
    }
    if !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut us = 0;
    for i in 0..6 {
        us = us * 10 + text.as_bytes().get(i).map_or(0, |b| i64::from(b - b'0'));
    }
    let round_up = text.as_bytes().get(6).is_some_and(|b| *b >= b'5');
    Some(us + i64::from(round_up))
}

fn parse_offset(text: &str) -> Option<i32> {
    let negative = text.starts_with('-');
    let digits: String = text[1..].chars().filter(|c| *c != ':').collect();
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let part = |from: usize, to: usize| digits.get(from..to).map_or(Some(0), |s| s.parse().ok());
    let seconds: i32 = if digits.len() <= 2 {
        digits.parse::<i32>().ok()? * 3600
    } else {
        let hours: i32 = part(0, 2)?;
        let minutes: i32 = part(2, 4)?;
        let seconds: i32 = part(4, 6)?;
        hours * 3600 + minutes * 60 + seconds
    };
    Some(if negative { -seconds } else { seconds })
}

/// Whether an instant is before or after all others.
#[must_use]
pub const fn is_infinite(us: i64) -> bool {
    matches!(us, i64::MIN | i64::MAX)
}

/// The first instant of a day; an infinite day's is infinite.
#[must_use]
pub const fn midnight(days: i32) -> i64 {
    match days {
        i32::MIN => i64::MIN,
        i32::MAX => i64::MAX,
        days => days as i64 * US_PER_DAY,
    }
}

/// A day as plans count it, from 1970.
#[must_use]
pub const fn plan_day(days: i32) -> i32 {
    if days == i32::MIN { days } else { days.saturating_add(EPOCH_DAYS) }
}

/// The day that plans count so.
#[must_use]
pub const fn day_of_plan(days: i32) -> i32 {
    if days == i32::MAX { days } else { days.saturating_sub(EPOCH_DAYS) }
}

/// An instant as plans count it, from 1970.
#[must_use]
pub const fn plan_us(us: i64) -> i64 {
    if us == i64::MIN { us } else { us.saturating_add(EPOCH_US) }
}

/// The instant that plans count so.
#[must_use]
pub const fn us_of_plan(us: i64) -> i64 {
    if us == i64::MAX { us } else { us.saturating_sub(EPOCH_US) }
}

/// Last day of a date, as in PostgreSQL: in the year 5874897.
const DAYS_MAX: i32 = 2_145_031_948;
/// Instants from here on are out of range: plans count them from 1970, so that the last ones are of
/// the year 294247 (in PostgreSQL: 294276).
const TIMESTAMP_END: i64 = i64::MAX - EPOCH_US;
/// First day of dates and of instants: in the year 4714 BC.
const DAYS_MIN: i32 = -2_451_545;

/// `infinity` or `-infinity`: whether it is the first.
fn infinity(text: &str) -> Option<bool> {
    let word = text.trim().to_ascii_lowercase();
    match word.strip_prefix(['-', '+']).unwrap_or(&word) {
        "infinity" | "inf" => Some(!word.starts_with('-')),
        _ => None,
    }
}

fn in_range(us: i64, text: &str) -> Result<i64> {
    if (i64::from(DAYS_MIN) * US_PER_DAY..TIMESTAMP_END).contains(&us) {
        return Ok(us);
    }
    Err(PgError::new("22008", format!("timestamp out of range: \"{text}\"")))
}

/// Microseconds of a local time, if there are as many.
fn local_us(parts: &Parts, text: &str) -> Result<i64> {
    let us = i64::from(parts.days).checked_mul(US_PER_DAY);
    let us = us.and_then(|us| us.checked_add(parts.time_us));
    in_range(us.unwrap_or(i64::MAX), text)
}

/// A date by its days.
///
/// # Errors
/// 22008.
pub fn date_of(days: i64) -> Result<i32> {
    let date = i32::try_from(days).ok().filter(|days| (DAYS_MIN..=DAYS_MAX).contains(days));
    date.ok_or_else(|| PgError::new("22008", "date out of range"))
}

/// Reads a date; `i32::MAX` and `i32::MIN` are the infinite ones. `today` is by a session clock,
/// which shows `local_now_us`.
///
/// # Errors
/// 22007 or 22008.
pub fn parse_date(text: &str, local_now_us: i64) -> Result<i32> {
    if let Some(after) = infinity(text) {
        return Ok(if after { i32::MAX } else { i32::MIN });
    }
    let days = parse_parts("date", text, Now::local(local_now_us))?.days;
    if (DAYS_MIN..=DAYS_MAX).contains(&days) {
        return Ok(days);
    }
    Err(PgError::new("22008", format!("date out of range: \"{text}\"")))
}

/// Reads a time of day; of a timestamp, its time.
///
/// # Errors
/// 22007 or 22008.
pub fn parse_time_of_day(text: &str, local_now_us: i64) -> Result<i64> {
    let trimmed = text.trim();
    let lower = trimmed.to_ascii_lowercase();
    if lower == "now" {
        return Ok(local_now_us.rem_euclid(US_PER_DAY));
    }
    if lower == "allballs" {
        return Ok(0);
    }
    if trimmed.contains('-') || trimmed.contains('/') {
        return Ok(parse_parts("time", text, Now::local(local_now_us))?.time_us);
    }
    let half = [("am", 0), ("pm", 12)].into_iter().find(|(word, _)| lower.ends_with(word));
    let body = if half.is_some() { trimmed[..trimmed.len() - 2].trim_end() } else { trimmed };
    let us = if body.contains(':') { parse_time(body) } else { time_of_digits(body) };
    let mut us = us.ok_or_else(|| match plausible_time(body) {
        true => field_range(text),
        false => invalid("time", text),
    })?;
    if let Some((_, add)) = half {
        let hour = us / (3600 * US_PER_SECOND);
        if !(1..=12).contains(&hour) {
            return Err(field_range(text));
        }
        us += (add + if hour == 12 { -12 } else { 0 }) * 3600 * US_PER_SECOND;
    }
    if us > US_PER_DAY {
        return Err(field_range(text));
    }
    Ok(us)
}

/// Whether text has the form of a time, though its numbers may be too large.
fn plausible_time(text: &str) -> bool {
    text.contains(':') && text.bytes().all(|b| b.is_ascii_digit() || b == b':' || b == b'.')
}

/// Reads a timestamp; a time zone in the text is ignored, as PostgreSQL does. `i64::MAX` and
/// `i64::MIN` are the infinite ones.
///
/// # Errors
/// 22007 or 22008.
pub fn parse_timestamp(text: &str, local_now_us: i64) -> Result<i64> {
    if let Some(after) = infinity(text) {
        return Ok(if after { i64::MAX } else { i64::MIN });
    }
    local_us(&parse_parts("timestamp", text, Now::local(local_now_us))?, text)
}

/// Reads an instant; without a zone in the text it is local to `zone`.
///
/// # Errors
/// 22007 or 22008.
pub fn parse_timestamptz(text: &str, zone: &Zone, now_us: i64) -> Result<i64> {
    if let Some(after) = infinity(text) {
        return Ok(if after { i64::MAX } else { i64::MIN });
    }
    let now = Now { local_us: zone.local(now_us), offset_s: zone.offset_at(now_us) };
    let parts = parse_parts("timestamp with time zone", text, now)?;
    let local = local_us(&parts, text)?;
    let us = match (parts.offset_s, parts.zone) {
        (Some(offset), _) => local - i64::from(offset) * US_PER_SECOND,
        (None, Some(named)) => named.to_utc(local),
        (None, None) => zone.to_utc(local),
    };
    in_range(us, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(f: impl Fn(&mut Vec<u8>)) -> String {
        let mut out = Vec::new();
        f(&mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn dates_come_back() {
        for days in (-800_000..800_000).step_by(997) {
            let shown = text(|out| push_date(days, out));
            assert_eq!(parse_date(&shown, 0).unwrap(), days, "{shown}");
        }
        assert_eq!(text(|out| push_date(0, out)), "2000-01-01");
        assert_eq!(text(|out| push_date(-EPOCH_DAYS, out)), "1970-01-01");
        assert_eq!(parse_date("2024-02-29", 0).unwrap(), 8825);
        assert_eq!(parse_date("2023-02-29", 0).unwrap_err().code, "22008");
        assert_eq!(parse_date("yesterdayish", 0).unwrap_err().code, "22007");
    }

    #[test]
    fn months_may_be_named() {
        for written in
            ["Jan 5 2024", "5 January 2024", "January 5, 2024", "Fri Jan 05 2024", "2024 Jan 5"]
        {
            assert_eq!(parse_date(written, 0).unwrap(), 8770, "{written}");
        }
        assert_eq!(parse_date("01/05/24", 0).unwrap(), 8770);
        assert_eq!(parse_date("J2460315", 0).unwrap(), 8770);
        assert_eq!(parse_date("Janus 5 2024", 0).unwrap_err().code, "22007");
        assert_eq!(parse_date("Jan Feb 2024", 0).unwrap_err().code, "22007");
        let at = 8770 * US_PER_DAY + 36_672 * US_PER_SECOND;
        for written in ["20240105T101112", "Jan 5, 2024 10:11:12", "2024-01-05 101112"] {
            assert_eq!(parse_timestamp(written, 0).unwrap(), at, "{written}");
        }
    }

    #[test]
    fn today_is_by_the_clock_of_the_session() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let late = 23 * 3600 * US_PER_SECOND;
        assert_eq!(parse_date("today", berlin.local(late)).unwrap(), 1);
        assert_eq!(parse_timestamptz("now", &berlin, late).unwrap(), late);
        assert_eq!(parse_timestamptz("today", &berlin, late).unwrap(), late);
        assert_eq!(parse_timestamp("now", berlin.local(late)).unwrap(), US_PER_DAY);
    }

    #[test]
    fn infinite_dates_stay_so() {
        for (word, days, us) in
            [("infinity", i32::MAX, i64::MAX), ("-Infinity", i32::MIN, i64::MIN)]
        {
            assert_eq!(parse_date(word, 0).unwrap(), days);
            assert_eq!(parse_timestamp(word, 0).unwrap(), us);
            assert_eq!(midnight(days), us);
            assert_eq!(day_of_plan(plan_day(days)), days);
            assert_eq!(us_of_plan(plan_us(us)), us);
            assert_eq!(text(|out| push_timestamp(us, out)), word.to_ascii_lowercase());
        }
        assert_eq!(parse_date("5874898-01-01", 0).unwrap_err().code, "22008");
        assert_eq!(parse_timestamp("294277-01-01", 0).unwrap_err().code, "22008");
        assert_eq!(day_of_plan(plan_day(DAYS_MAX)), DAYS_MAX);
    }

    #[test]
    fn timestamps_come_back() {
        for us in [0, 1, -1, 123_456_000, US_PER_DAY * 9000 + 1_500_000, -EPOCH_US] {
            let shown = text(|out| push_timestamp(us, out));
            assert_eq!(parse_timestamp(&shown, 0).unwrap(), us, "{shown}");
        }
        assert_eq!(text(|out| push_timestamp(1_500_000, out)), "2000-01-01 00:00:01.5");
    }

    #[test]
    fn instants_follow_the_zone() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let shown = text(|out| push_timestamptz(0, &berlin, out));
        assert_eq!(shown, "2000-01-01 01:00:00+01");
        assert_eq!(parse_timestamptz(&shown, &Zone::utc(), 0).unwrap(), 0);
        assert_eq!(parse_timestamptz("2000-01-01 01:00", &berlin, 0).unwrap(), 0);
        let half = Zone::parse("-05:30").unwrap();
        assert_eq!(text(|out| push_timestamptz(0, &half, out)), "2000-01-01 05:30:00+05:30");
        assert!(Zone::parse("Nowhere/Else").is_err());
        let lower = Zone::parse("america/new_york").unwrap();
        assert_eq!(text(|out| push_timestamptz(0, &lower, out)), "1999-12-31 19:00:00-05");
    }

    #[test]
    fn local_times_that_are_double_or_missing() {
        let berlin = Zone::parse("Europe/Berlin").unwrap();
        let at = |local| berlin.to_utc(parse_timestamp(local, 0).unwrap());
        let utc = |text| parse_timestamp(text, 0).unwrap();
        assert_eq!(at("2024-03-31 02:30"), utc("2024-03-31 01:30"));
        assert_eq!(at("2024-10-27 02:30"), utc("2024-10-27 01:30"));
        assert_eq!(at("2024-03-31 03:00"), utc("2024-03-31 01:00"));
        assert_eq!(at("2024-10-27 01:59"), utc("2024-10-26 23:59"));
        assert_eq!(at("2024-10-27 03:00"), utc("2024-10-27 02:00"));
    }
}
