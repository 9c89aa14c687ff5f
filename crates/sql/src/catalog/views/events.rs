//! Waits that are over, summed by event.

use super::registry::{Column, Make, columns, views};
use super::{average, int4};
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{EventTotals, HistogramRow, WaitClass, WaitEvent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was waited for.
pub(super) const EVENT: &[Column] = columns! {
    event: Text, "The event.";
    event_id: Int8, "Number of the event that stays, as in `v$event_name`.";
    wait_class_id: Int8, "The field's identifier of its class.";
    "wait_class#": Int4, "The field's number of its class.";
    wait_class: Text, "Its class.";
};

/// Waits of one event.
pub(super) const TOTALS: &[Column] = columns! {
    total_waits: Int8, "Waits.";
    total_timeouts: Int8, "Waits that ended because their time was over.";
    time_waited: Int8, "Hundredths of a second waited.";
    average_wait: Float8, "Hundredths of a second a wait.";
    max_wait: Int8, "Hundredths of a second of the longest wait.";
    time_waited_micro: Int8, "Microseconds waited.";
    average_wait_micro: Int8, "Microseconds a wait.";
    max_wait_micro: Int8, "Microseconds of the longest wait.";
};

views! {
    "v$event_name", Make::Local(event_name), "All wait events there are." {
        "event#": Int4, "Number of the event.";
        name: Text, "Its name.";
        parameter1: Text, "What `p1` is.";
        parameter2: Text, "What `p2` is.";
        parameter3: Text, "What `p3` is.";
        event_id: Int8, "A number made from its name: it stays when events are added.";
        wait_class_id: Int8, "The field's identifier of its class.";
        "wait_class#": Int4, "The field's number of its class.";
        wait_class: Text, "Its class.";
        description: Text, "Why a session waits.";
    }
    "v$session_event", Make::Local(session_event), "What each open session has waited for." {
        sid: Int4, "The session.";
    } + EVENT {} + TOTALS {}
    "v$system_event", Make::Local(system_event), "What the instance has waited for since its start; \
        columns that end in `_fg` count clients' sessions only." {
    } + EVENT {} + TOTALS {
        total_waits_fg: Int8, "Waits.";
        total_timeouts_fg: Int8, "Waits that ended because their time was over.";
        time_waited_fg: Int8, "Hundredths of a second waited.";
        average_wait_fg: Float8, "Hundredths of a second a wait.";
        time_waited_micro_fg: Int8, "Microseconds waited.";
        average_wait_micro_fg: Int8, "Microseconds a wait.";
    }
    "v$system_wait_class", Make::Local(system_wait_class), "What the instance has waited for since its \
        start, by class; columns that end in `_fg` count clients' sessions only." {
        wait_class_id: Int8, "The field's identifier of the class.";
        "wait_class#": Int4, "The field's number of the class.";
        wait_class: Text, "The class.";
        total_waits: Int8, "Waits.";
        time_waited: Int8, "Hundredths of a second waited.";
        time_waited_micro: Int8, "Microseconds waited.";
        total_waits_fg: Int8, "Waits.";
        time_waited_fg: Int8, "Hundredths of a second waited.";
        time_waited_micro_fg: Int8, "Microseconds waited.";
    }
    "v$event_histogram", Make::Local(event_histogram), "Waits of each event by their length." {
        "event#": Int4, "Number of the event, as in `v$event_name`.";
        event: Text, "The event.";
        wait_time_milli: Int8, "Milliseconds that the waits of the row were shorter than, and not \
            shorter than half of it; 1: all below; NULL: longer than all others.";
        wait_count: Int8, "Waits.";
    }
    "v$event_histogram_micro", Make::Local(event_histogram_micro), "Waits of each event by their \
        length, finer than in `v$event_histogram`." {
        "event#": Int4, "Number of the event, as in `v$event_name`.";
        event: Text, "The event.";
        wait_time_micro: Int8, "Microseconds that the waits of the row were shorter than, and not \
            shorter than half of it; NULL: longer than all others.";
        wait_count: Int8, "Waits.";
    }
}

fn event_name(_: &Arc<Instance>, rows: &mut Rows) {
    for event in observe::WaitEvent::ALL {
        let [p1, p2, p3] = event.p_labels();
        rows.push(vec![
            int4(event.number()),
            text(event.name()),
            text(p1),
            text(p2),
            text(p3),
            int(event.id()),
            int(event.class().id()),
            int4(event.class().number()),
            text(event.class().name()),
            text(event.doc()),
        ]);
    }
}

/// The columns of [`EVENT`].
pub(super) fn named(event: WaitEvent) -> [Value; 5] {
    let class = event.class();
    [text(event.name()), int(event.id()), int(class.id()), int4(class.number()), text(class.name())]
}

/// The columns of [`TOTALS`].
pub(super) fn totals(t: &EventTotals) -> [Value; 8] {
    [
        int(t.waits),
        int(t.timeouts),
        int(t.time_us / US_PER_CS),
        average_cs(t.time_us, t.waits),
        int(t.max_us / US_PER_CS),
        int(t.time_us),
        average(t.time_us, t.waits),
        int(t.max_us),
    ]
}

/// Microseconds of a hundredth of a second, in which the field counts.
pub(super) const US_PER_CS: u64 = 10_000;

/// Hundredths of a second on the average, to a hundredth of these.
#[allow(clippy::cast_precision_loss)] // what is shown as a double is not exact beyond 2^53
fn average_cs(us: u64, waits: u64) -> Value {
    Value::Float8((us / 100).checked_div(waits).unwrap_or(0) as f64 / 100.0)
}

fn session_event(instance: &Arc<Instance>, rows: &mut Rows) {
    for e in instance.observer.session_events() {
        let who = std::iter::once(int4(e.sid));
        rows.push(who.chain(named(e.event)).chain(totals(&e.totals)).collect());
    }
}

fn system_event(instance: &Arc<Instance>, rows: &mut Rows) {
    for e in instance.observer.system_events() {
        // The longest wait is told of all together only.
        let [waits, timeouts, time_cs, average_cs, _, time_us, average_us, _] =
            totals(&e.foreground);
        let mut row = Vec::from(named(e.event));
        row.extend(totals(&e.all));
        row.extend([waits, timeouts, time_cs, average_cs, time_us, average_us]);
        rows.push(row);
    }
}

fn system_wait_class(instance: &Arc<Instance>, rows: &mut Rows) {
    let mut classes: BTreeMap<WaitClass, [u64; 4]> = BTreeMap::new();
    for e in instance.observer.system_events() {
        let sums = classes.entry(e.event.class()).or_default();
        let of = [e.all.waits, e.all.time_us, e.foreground.waits, e.foreground.time_us];
        sums.iter_mut().zip(of).for_each(|(sum, part)| *sum += part);
    }
    for (class, sums) in classes {
        let mut row = vec![int(class.id()), int4(class.number()), text(class.name())];
        for [waits, us] in [[sums[0], sums[1]], [sums[2], sums[3]]] {
            row.extend([int(waits), int(us / US_PER_CS), int(us)]);
        }
        rows.push(row);
    }
}

fn event_histogram(instance: &Arc<Instance>, rows: &mut Rows) {
    for (event, milli, count) in by_milliseconds(&instance.observer.event_histogram()) {
        rows.push(bucket(event, milli, count));
    }
}

fn event_histogram_micro(instance: &Arc<Instance>, rows: &mut Rows) {
    for h in instance.observer.event_histogram() {
        rows.push(bucket(h.event, h.below_us, h.count));
    }
}

fn bucket(event: WaitEvent, below: Option<u64>, count: u64) -> Vec<Value> {
    vec![int4(event.number()), text(event.name()), below.map_or(Value::Null, int), int(count)]
}

/// The buckets of each event in milliseconds: the fine ones below the first are one.
fn by_milliseconds(fine: &[HistogramRow]) -> Vec<(WaitEvent, Option<u64>, u64)> {
    let mut all: Vec<(WaitEvent, Option<u64>, u64)> = Vec::new();
    for h in fine {
        // Bounds are powers of two; so are these.
        let milli = h.below_us.map(|us| (us / 1024).max(1));
        match all.last_mut() {
            Some((event, last, count)) if (*event, *last) == (h.event, milli) => *count += h.count,
            _ => all.push((h.event, milli, h.count)),
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_below_a_millisecond_are_one() {
        let row = |event, below_us, count| HistogramRow { event, below_us, count };
        let (sync, read) = (WaitEvent::LogFileSync, WaitEvent::DbFileSequentialRead);
        let fine = [
            row(sync, Some(1), 1),
            row(sync, Some(512), 2),
            row(sync, Some(1024), 4),
            row(sync, Some(2048), 8),
            row(read, Some(256), 16),
            row(read, None, 32),
        ];
        let coarse = by_milliseconds(&fine);
        let expected =
            [(sync, Some(1), 7), (sync, Some(2), 8), (read, Some(1), 16), (read, None, 32)];
        assert_eq!(coarse, expected);
    }
}
