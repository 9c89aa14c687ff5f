//! Statistics: counters of work done.

use super::int4;
use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use kernel::instance::Instance;
use std::sync::Arc;

views! {
    "v$sysstat", Make::Local(sysstat), "Statistics of the instance since its start." {
        statistic_no: Int4, "Number of the statistic.";
        name: Text, "Its name.";
        class: Int4, "What it is about: 1 user, 2 redo, 4 enqueue, 8 cache, 32 cluster, 64 SQL.";
        value: Int8, "The sum over all sessions, open and ended.";
        unit: Text, "Unit of the value.";
    }
    "v$sesstat", Make::Local(sesstat), "Statistics of the open sessions." {
        sid: Int4, "The session.";
        name: Text, "Name of the statistic.";
        value: Int8, "The session's part, in the unit that `v$sysstat` says.";
    }
}

fn sysstat(instance: &Arc<Instance>, rows: &mut Rows) {
    for (stat, value) in instance.observer.sysstat() {
        rows.push(vec![
            int4(stat.index()),
            text(stat.name()),
            int4(stat.class().number()),
            int(value),
            text(stat.unit().name()),
        ]);
    }
}

fn sesstat(instance: &Arc<Instance>, rows: &mut Rows) {
    for (sid, stat, value) in instance.observer.sesstat() {
        rows.push(vec![int4(sid), text(stat.name()), int(value)]);
    }
}
