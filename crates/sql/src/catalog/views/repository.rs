//! What the workload repository goes by: names of events and statistics, and when it works.
//!
//! What it promises: the rows are there before the first snapshot. What it must never do: look into
//! the repository's tables.

use super::database_id;
use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Int8, Interval, Text};
use crate::catalog::rows::{Rows, int, opt_text, text};
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{Stat, WaitEvent};
use query::datetime::US_PER_SECOND;
use std::sync::Arc;

views! {
    "dba_hist_event_name", Make::Once(event_names), "All wait events there are." {
        dbid: Int8, "The database, as in `v$database`.";
        event_id: Int8, "Number of the event, as in `v$event_name`.";
        event_name: Text, "Its name.";
        parameter1: Text, "What `p1` is.";
        parameter2: Text, "What `p2` is.";
        parameter3: Text, "What `p3` is.";
        wait_class_id: Int8, "The field's identifier of its class.";
        wait_class: Text, "Its class.";
    }
    "dba_hist_stat_name", Make::Once(stat_names), "All statistics there are." {
        dbid: Int8, "The database, as in `v$database`.";
        stat_id: Int8, "Number of the statistic, as in `v$statname`.";
        stat_name: Text, "Its name.";
    }
    "dba_hist_wr_control", Make::Once(control), "When snapshots are taken, and how long they are \
        kept." {
        dbid: Int8, "The database, as in `v$database`.";
        snap_interval: Interval, "From one to the next: `awr_snapshot_interval`; 0: only on request.";
        retention: Interval, "How long they are kept: `awr_snapshot_retention`.";
        topnsql: Text, "`MAXIMUM`: all statements are in them.";
    }
}

fn event_names(instance: &Arc<Instance>, rows: &mut Rows) {
    let known = |label: &str| opt_text(Some(label).filter(|label| !label.is_empty()));
    for event in WaitEvent::ALL {
        let [p1, p2, p3] = event.p_labels();
        rows.push(vec![
            int(database_id(instance)),
            int(event.id()),
            text(event.name()),
            known(p1),
            known(p2),
            known(p3),
            int(event.class().id()),
            text(event.class().name()),
        ]);
    }
}

fn stat_names(instance: &Arc<Instance>, rows: &mut Rows) {
    for stat in Stat::ALL {
        rows.push(vec![int(database_id(instance)), int(stat.id()), text(stat.name())]);
    }
}

/// A number of seconds as days and a time, as the field shows it.
fn seconds(count: u64) -> Value {
    let days = i32::try_from(count / 86_400).unwrap_or(i32::MAX);
    let us = i64::try_from(count % 86_400).unwrap_or(0) * US_PER_SECOND;
    Value::Interval(kernel::row::Interval { months: 0, days, us })
}

fn control(instance: &Arc<Instance>, rows: &mut Rows) {
    let params = &instance.params;
    rows.push(vec![
        int(database_id(instance)),
        seconds(params.awr_snapshot_interval()),
        seconds(params.awr_snapshot_retention()),
        text("MAXIMUM"),
    ]);
}
