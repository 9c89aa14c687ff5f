//! Time zones: what a session's clocks show at an instant, and the instant that they mean.
//!
//! What it promises: a name that PostgreSQL knows is known, in any case of its letters. What
//! it must never do: ask the operating system for its zones.

use crate::datetime::{EPOCH_US, US_PER_DAY, US_PER_SECOND, is_infinite};
use crate::error::{PgError, Result};
use chrono::{Offset, TimeZone};
use chrono_tz::{OffsetComponents, OffsetName};
use datafusion::arrow::array::timezone::Tz;
use std::str::FromStr;

/// A session's time zone.
#[derive(Clone, Copy, Debug)]
pub struct Zone {
    tz: Tz,
    /// The zone if it is one of the list of zones, whose times have names.
    listed: Option<chrono_tz::Tz>,
    /// Whether it is surely UTC, at all times.
    utc: bool,
}

impl Zone {
    /// UTC.
    ///
    /// # Panics
    /// Never: the name is known.
    #[must_use]
    pub fn utc() -> Zone {
        Zone {
            tz: Tz::from_str("+00:00").expect("an offset is a time zone"),
            listed: None,
            utc: true,
        }
    }

    #[must_use]
    pub const fn is_utc(&self) -> bool {
        self.utc
    }

    /// A zone by name (`Europe/Berlin`) or offset (`+02:00`).
    ///
    /// # Errors
    /// 22023 for an unknown one.
    pub fn parse(name: &str) -> Result<Zone> {
        let trimmed = name.trim();
        if ["utc", "gmt", "z", "etc/utc", "default", "zulu", "uct", "etc/gmt"]
            .contains(&trimmed.to_ascii_lowercase().as_str())
        {
            return Ok(Zone::utc());
        }
        if let Ok(hours) = trimmed.parse::<i32>()
            && hours.abs() <= 15
        {
            let text = format!("{}{:02}:00", if hours < 0 { '-' } else { '+' }, hours.abs());
            return Zone::parse_known(&text, name);
        }
        // With minutes it is a zone as POSIX writes it, whose sign counts west.
        let posix = trimmed.contains(':').then(|| turned(trimmed)).flatten();
        Zone::parse_known(posix.as_deref().unwrap_or(trimmed), name)
    }

    fn parse_known(text: &str, shown: &str) -> Result<Zone> {
        let unknown = |_| {
            PgError::new("22023", format!("invalid value for parameter \"TimeZone\": \"{shown}\""))
        };
        let known = |text: &str| {
            Tz::from_str(text).map(|tz| Zone {
                tz,
                listed: chrono_tz::Tz::from_str(text).ok(),
                utc: false,
            })
        };
        known(text).or_else(|_| known(&as_in_the_list(text))).map_err(unknown)
    }

    /// A zone as AT TIME ZONE names it: the sign of a bare offset counts west, as in POSIX.
    ///
    /// # Errors
    /// 22023 for an unknown one.
    pub fn named(name: &str) -> Result<Zone> {
        let trimmed = name.trim();
        let hours = trimmed.parse::<i32>().ok().and_then(|_| turned(trimmed));
        Zone::parse(hours.as_deref().unwrap_or(trimmed))
            .map_err(|_| PgError::new("22023", format!("time zone \"{name}\" not recognized")))
    }

    /// Microseconds since 2000-01-01 on the clocks of the zone.
    #[must_use]
    pub fn local(&self, us: i64) -> i64 {
        if is_infinite(us) {
            return us;
        }
        us.saturating_add(i64::from(self.offset_at(us)) * US_PER_SECOND)
    }

    /// Seconds east of Greenwich at an instant.
    #[must_use]
    pub fn offset_at(&self, us: i64) -> i32 {
        let seconds = us.saturating_add(EPOCH_US).div_euclid(US_PER_SECOND);
        chrono::DateTime::from_timestamp(seconds, 0).map_or(0, |at| {
            self.tz.offset_from_utc_datetime(&at.naive_utc()).fix().local_minus_utc()
        })
    }

    /// Whether its clocks are put forward at an instant.
    #[must_use]
    pub fn is_summer_at(&self, us: i64) -> bool {
        let seconds = us.saturating_add(EPOCH_US).div_euclid(US_PER_SECOND);
        let at = self.listed.zip(chrono::DateTime::from_timestamp(seconds, 0));
        at.is_some_and(|(zone, at)| {
            let offset = zone.offset_from_utc_datetime(&at.naive_utc());
            offset.dst_offset() != chrono::TimeDelta::zero()
        })
    }

    /// What the zone's time is called at an instant: `CEST`, `UTC`, `+02`.
    #[must_use]
    pub fn abbreviation_at(&self, us: i64) -> String {
        let seconds = us.saturating_add(EPOCH_US).div_euclid(US_PER_SECOND);
        let named = self.listed.zip(chrono::DateTime::from_timestamp(seconds, 0));
        let name = named.and_then(|(zone, at)| {
            zone.offset_from_utc_datetime(&at.naive_utc()).abbreviation().map(str::to_owned)
        });
        match (name, self.offset_at(us)) {
            (Some(name), _) => name,
            (None, _) if self.utc => "UTC".to_owned(),
            (None, offset) => {
                let sign = if offset < 0 { '-' } else { '+' };
                let minutes = offset.abs() / 60;
                match minutes % 60 {
                    0 => format!("{sign}{:02}", minutes / 60),
                    rest => format!("{sign}{:02}:{rest:02}", minutes / 60),
                }
            }
        }
    }

    /// The instant a local time means. Where clocks are put back, the later of two; where they are
    /// put forward, as if they were not yet.
    #[must_use]
    pub fn to_utc(&self, local_us: i64) -> i64 {
        if self.utc || is_infinite(local_us) {
            return local_us;
        }
        let with = |offset: i32| local_us.saturating_sub(i64::from(offset) * US_PER_SECOND);
        let before = self.offset_at(local_us.saturating_sub(US_PER_DAY));
        let after = self.offset_at(local_us.saturating_add(US_PER_DAY));
        let (early, late) = (with(before), with(after));
        if self.offset_at(late) == after { late } else { early }
    }
}

/// An offset with the other sign.
fn turned(offset: &str) -> Option<String> {
    match offset.as_bytes().first()? {
        b'+' => Some(format!("-{}", &offset[1..])),
        b'-' => Some(format!("+{}", &offset[1..])),
        _ => None,
    }
}

/// A zone's name with the capitals of the list of zones.
fn as_in_the_list(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut start = true;
    for c in name.chars() {
        out.push(if start { c.to_ascii_uppercase() } else { c.to_ascii_lowercase() });
        start = !c.is_ascii_alphanumeric();
    }
    out
}

/// The names of all zones of the list.
pub fn zone_names() -> impl Iterator<Item = &'static str> {
    chrono_tz::TZ_VARIANTS.iter().map(|zone| zone.name())
}
