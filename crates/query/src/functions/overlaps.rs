//! `(a, b) OVERLAPS (c, d)`: whether two spans of time have a moment in common.
//!
//! What it promises: PostgreSQL's answers, also where an end is NULL, the ends are exchanged, or
//! the second of a pair says how long the span is.

use super::typed::{Body, Line};
use crate::datetime::{US_PER_DAY, Zone};
use crate::error::{PgError, Result};
use crate::interval;
use crate::temporal::shift_zoned;
use kernel::row::{Datum, Interval, Value};

pub(super) const LINES: &[Line] = &[
    ("overlaps(timestamptz, timestamptz, timestamptz, timestamptz) ?bool", Body::In(spans)),
    ("overlaps(timestamptz, interval, timestamptz, interval) ?bool", Body::In(spans)),
    ("overlaps(timestamptz, timestamptz, timestamptz, interval) ?bool", Body::In(spans)),
    ("overlaps(timestamptz, interval, timestamptz, timestamptz) ?bool", Body::In(spans)),
    ("overlaps(timestamp, timestamp, timestamp, timestamp) ?bool", Body::In(spans)),
    ("overlaps(timestamp, interval, timestamp, interval) ?bool", Body::In(spans)),
    ("overlaps(timestamp, timestamp, timestamp, interval) ?bool", Body::In(spans)),
    ("overlaps(timestamp, interval, timestamp, timestamp) ?bool", Body::In(spans)),
    ("overlaps(time, time, time, time) ?bool", Body::In(spans)),
    ("overlaps(time, interval, time, interval) ?bool", Body::In(spans)),
    ("overlaps(time, time, time, interval) ?bool", Body::In(spans)),
    ("overlaps(time, interval, time, time) ?bool", Body::In(spans)),
];

fn spans(args: &[Datum<'_>], zone: &Zone) -> Result<Value> {
    let [a, b, c, d] = args else {
        return Err(PgError::internal("OVERLAPS of other than two pairs"));
    };
    let first = span(a, b, zone)?;
    let second = span(c, d, zone)?;
    let overlap = first.zip(second).and_then(|(first, second)| overlap(first, second));
    Ok(overlap.map_or(Value::Null, Value::Bool))
}

/// Where a span begins and, if that is known, where it ends; `None`: nothing is known of it.
fn span(from: &Datum<'_>, to: &Datum<'_>, zone: &Zone) -> Result<Option<(i64, Option<i64>)>> {
    let to = match to {
        Datum::Interval(length) if !from.is_null() => Some(moved(from, *length, zone)?),
        other => moment(other),
    };
    Ok(match (moment(from), to) {
        (Some(from), Some(to)) => Some((from.min(to), Some(from.max(to)))),
        (Some(one), None) | (None, Some(one)) => Some((one, None)),
        (None, None) => None,
    })
}

fn moment(datum: &Datum<'_>) -> Option<i64> {
    match datum {
        Datum::Timestamp(us) | Datum::Timestamptz(us) | Datum::Time(us) => Some(*us),
        _ => None,
    }
}

fn moved(from: &Datum<'_>, by: Interval, zone: &Zone) -> Result<i64> {
    match from {
        Datum::Timestamp(us) => interval::shift(*us, by),
        Datum::Timestamptz(us) => shift_zoned(*us, by, zone),
        // The clock begins anew at midnight.
        Datum::Time(us) => Ok(us.wrapping_add(by.us).rem_euclid(US_PER_DAY)),
        _ => Err(PgError::internal("a moment of OVERLAPS")),
    }
}

fn overlap(first: (i64, Option<i64>), second: (i64, Option<i64>)) -> Option<bool> {
    // `later` begins after `earlier` does.
    let apart = |later: (i64, Option<i64>), earlier: (i64, Option<i64>)| {
        if later.0 < earlier.1? {
            return Some(true);
        }
        later.1.map(|_| false)
    };
    match first.0.cmp(&second.0) {
        std::cmp::Ordering::Greater => apart(first, second),
        std::cmp::Ordering::Less => apart(second, first),
        std::cmp::Ordering::Equal => first.1.and(second.1).map(|_| true),
    }
}
