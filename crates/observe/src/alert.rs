//! The alert log: what the person who runs the database should read.
//!
//! What it promises: each entry is one line with the wall-clock time in UTC, in the order written;
//! the latest are kept in memory. What it must never do: fail the caller; where the lines go (a
//! file) is the sink's affair. An error is logged by whoever consumes it, and by nobody else.

use std::collections::VecDeque;

use parking_lot::Mutex;

/// How bad it is. An error-level line that a test did not announce fails that test.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AlertLevel {
    Info,
    Warning,
    Error,
}

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertLine {
    /// Wall clock, µs since 1970.
    pub wall_us: i64,
    pub level: AlertLevel,
    pub text: String,
}

impl AlertLine {
    /// As written to the file; further lines of the text are indented.
    #[must_use]
    pub fn formatted(&self) -> String {
        let level = match self.level {
            AlertLevel::Info => "",
            AlertLevel::Warning => "warning: ",
            AlertLevel::Error => "error: ",
        };
        let text = self.text.trim_end().replace('\n', "\n    ");
        format!("{} {level}{text}", format_wall(self.wall_us))
    }
}

/// Where lines go.
pub trait AlertSink: Send + Sync {
    /// Takes one formatted line, without a line end.
    fn line(&self, line: &str);
}

impl<F: Fn(&str) + Send + Sync> AlertSink for F {
    fn line(&self, line: &str) {
        self(line);
    }
}

/// Lines kept in memory.
const RING_LINES: usize = 1000;

#[derive(Default)]
struct Inner {
    ring: VecDeque<AlertLine>,
    sink: Option<Box<dyn AlertSink>>,
}

/// The alert log of one instance.
#[derive(Default)]
pub struct AlertLog {
    inner: Mutex<Inner>,
}

impl AlertLog {
    /// Lines go to `sink` from now on; those written before are handed over first, so that nothing
    /// said before the file was open is lost.
    pub fn set_sink(&self, sink: Box<dyn AlertSink>) {
        let mut inner = self.inner.lock();
        for line in &inner.ring {
            sink.line(&line.formatted());
        }
        inner.sink = Some(sink);
    }

    /// Writes one entry.
    pub fn write(&self, wall_us: i64, level: AlertLevel, text: impl Into<String>) {
        let line = AlertLine { wall_us, level, text: text.into() };
        // The sink is called under the lock: the file then has the order of the ring.
        let mut inner = self.inner.lock();
        if let Some(sink) = &inner.sink {
            sink.line(&line.formatted());
        }
        if inner.ring.len() == RING_LINES {
            inner.ring.pop_front();
        }
        inner.ring.push_back(line);
    }

    /// The latest entries, oldest first.
    #[must_use]
    pub fn lines(&self) -> Vec<AlertLine> {
        self.inner.lock().ring.iter().cloned().collect()
    }
}

/// `2026-11-21T10:00:00.123456Z` from µs since 1970.
#[must_use]
pub fn format_wall(wall_us: i64) -> String {
    const DAY_US: i64 = 86_400_000_000;
    let (year, month, day) = civil_from_days(wall_us.div_euclid(DAY_US));
    let in_day_us = wall_us.rem_euclid(DAY_US);
    let s = in_day_us / 1_000_000;
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        s / 3600,
        s / 60 % 60,
        s % 60,
        in_day_us % 1_000_000
    )
}

/// Proleptic Gregorian date of a day number (0 = 1970-01-01), counting years from March, so that
/// the leap day is the last of its year.
fn civil_from_days(days: i64) -> (i64, i64, i64) {
    let days = days + 719_468;
    let era = days.div_euclid(146_097);
    let day_of_era = days.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day)
}
