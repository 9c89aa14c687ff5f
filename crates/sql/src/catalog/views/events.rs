//! Waits that are over, summed by event.

use super::registry::{Column, Make, columns, views};
use super::{average, int4};
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{EventTotals, WaitClass};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Waits of one event.
const TOTALS: &[Column] = columns! {
    total_waits: Int8, "Waits.";
    total_timeouts: Int8, "Waits that ended because their time was over.";
    time_waited_micro: Int8, "Microseconds waited.";
    average_wait_micro: Int8, "Microseconds a wait.";
    max_wait_micro: Int8, "Microseconds of the longest wait.";
};

views! {
    "v$event_name", Make::Local(event_name), "All wait events there are." {
        event_no: Int4, "Number of the event.";
        name: Text, "Its name.";
        parameter1: Text, "What `p1` is.";
        parameter2: Text, "What `p2` is.";
        parameter3: Text, "What `p3` is.";
        wait_class: Text, "Its class.";
        description: Text, "Why a session waits.";
    }
    "v$session_event", Make::Local(session_event), "What each open session has waited for." {
        sid: Int4, "The session.";
        event: Text, "The event.";
        wait_class: Text, "Its class.";
    } + TOTALS {}
    "v$system_event", Make::Local(system_event), "What the instance has waited for since its start; \
        columns that end in `_fg` count clients' sessions only." {
        event: Text, "The event.";
        wait_class: Text, "Its class.";
    } + TOTALS {
        total_waits_fg: Int8, "Waits.";
        total_timeouts_fg: Int8, "Waits that ended because their time was over.";
        time_waited_micro_fg: Int8, "Microseconds waited.";
        average_wait_micro_fg: Int8, "Microseconds a wait.";
    }
    "v$system_wait_class", Make::Local(system_wait_class), "What the instance has waited for since its \
        start, by class; columns that end in `_fg` count clients' sessions only." {
        wait_class: Text, "The class.";
        total_waits: Int8, "Waits.";
        time_waited_micro: Int8, "Microseconds waited.";
        total_waits_fg: Int8, "Waits.";
        time_waited_micro_fg: Int8, "Microseconds waited.";
    }
    "v$event_histogram", Make::Local(event_histogram), "Waits of each event by their length." {
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
            text(event.class().name()),
            text(event.doc()),
        ]);
    }
}

/// The columns of [`TOTALS`].
fn totals(t: &EventTotals) -> [Value; 5] {
    [int(t.waits), int(t.timeouts), int(t.time_us), average(t.time_us, t.waits), int(t.max_us)]
}

fn session_event(instance: &Arc<Instance>, rows: &mut Rows) {
    for e in instance.observer.session_events() {
        let named = [int4(e.sid), text(e.event.name()), text(e.event.class().name())];
        rows.push(named.into_iter().chain(totals(&e.totals)).collect());
    }
}

fn system_event(instance: &Arc<Instance>, rows: &mut Rows) {
    for e in instance.observer.system_events() {
        // The longest wait is told of all together only.
        let [waits, timeouts, time_us, average_us, _] = totals(&e.foreground);
        let mut row = vec![text(e.event.name()), text(e.event.class().name())];
        row.extend(totals(&e.all));
        row.extend([waits, timeouts, time_us, average_us]);
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
        let mut row = vec![text(class.name())];
        row.extend(sums.map(int));
        rows.push(row);
    }
}

fn event_histogram(instance: &Arc<Instance>, rows: &mut Rows) {
    for h in instance.observer.event_histogram() {
        rows.push(vec![text(h.event.name()), h.below_us.map_or(Value::Null, int), int(h.count)]);
    }
}
