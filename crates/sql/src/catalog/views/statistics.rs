//! Statistics: counters of work done.

use super::int4;
use super::registry::{Make, SessionView, views};
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use crate::session::Session;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::Stat;
use std::collections::BTreeMap;
use std::sync::Arc;

views! {
    "v$sysstat", Make::Local(sysstat), "Statistics of the instance since its start." {
        "statistic#": Int4, "Number of the statistic.";
        name: Text, "Its name.";
        class: Int4, "What it is about: 1 user, 2 redo, 4 enqueue, 8 cache, 32 cluster, 64 SQL.";
        value: Int8, "The sum over all sessions, open and ended, in its unit.";
        stat_id: Int8, "A number made from its name: it stays when statistics are added.";
        unit: Text, "Unit of the value; `cs`: hundredths of a second, as in the field.";
        value_us: Int8, "Of times: the sum in microseconds.";
    }
    "v$statname", Make::Local(statname), "All statistics there are." {
        "statistic#": Int4, "Number of the statistic.";
        name: Text, "Its name.";
        class: Int4, "What it is about, as in `v$sysstat`.";
        stat_id: Int8, "A number made from its name, as in `v$sysstat`.";
        unit: Text, "Unit of its values.";
        description: Text, "What it counts.";
    }
    "v$mystat", Make::Session(SessionView::MyStatistics), "Statistics of the session that asks." {
        sid: Int4, "The session.";
        "statistic#": Int4, "Number of the statistic.";
        value: Int8, "The session's part, in the unit that `v$sysstat` says.";
        value_us: Int8, "Of times: the same in microseconds.";
    }
    "v$sesstat", Make::Local(sesstat), "Statistics of the open sessions." {
        sid: Int4, "The session.";
        "statistic#": Int4, "Number of the statistic.";
        name: Text, "Name of the statistic.";
        value: Int8, "The session's part, in the unit that `v$sysstat` says.";
        value_us: Int8, "Of times: the same in microseconds.";
    }
    "v$sess_io", Make::Local(sess_io), "Blocks that the open sessions have visited, read and \
        changed: some of `v$sesstat`, one row a session." {
        sid: Int4, "The session.";
        block_gets: Int8, "Blocks visited in their newest version (`db block gets`).";
        consistent_gets: Int8, "Blocks visited as of a snapshot (`consistent gets`).";
        physical_reads: Int8, "Blocks read from disk (`physical reads`).";
        block_changes: Int8, "Changes of blocks (`db block changes`).";
        consistent_changes: Int8, "Undo records applied to copies (`consistent changes`).";
    }
}

fn sysstat(instance: &Arc<Instance>, rows: &mut Rows) {
    for (stat, value) in instance.observer.sysstat() {
        rows.push(vec![
            int4(stat.index()),
            text(stat.name()),
            int4(stat.class().number()),
            int(stat.shown(value)),
            int(stat.id()),
            text(stat.unit().name()),
            exact(stat, value),
        ]);
    }
}

/// A time as it is counted.
fn exact(stat: Stat, value: u64) -> Value {
    if stat.is_time() { int(value) } else { Value::Null }
}

fn statname(_: &Arc<Instance>, rows: &mut Rows) {
    for stat in Stat::ALL {
        rows.push(vec![
            int4(stat.index()),
            text(stat.name()),
            int4(stat.class().number()),
            int(stat.id()),
            text(stat.unit().name()),
            text(stat.doc()),
        ]);
    }
}

impl Session {
    pub(super) fn my_statistics(&self, rows: &mut Rows) {
        let own = self.ctx.session.sid();
        for (sid, stat, value) in self.instance.observer.sesstat() {
            if sid == own {
                rows.push(vec![
                    int4(sid),
                    int4(stat.index()),
                    int(stat.shown(value)),
                    exact(stat, value),
                ]);
            }
        }
    }
}

fn sess_io(instance: &Arc<Instance>, rows: &mut Rows) {
    const SHOWN: [Stat; 5] = [
        Stat::DbBlockGets,
        Stat::ConsistentGets,
        Stat::PhysicalReads,
        Stat::DbBlockChanges,
        Stat::UndoBlocksRead,
    ];
    let mut sums: BTreeMap<u32, [u64; 5]> = BTreeMap::new();
    for (sid, stat, value) in instance.observer.sesstat() {
        let row = sums.entry(sid).or_default();
        if let Some(at) = SHOWN.iter().position(|shown| *shown == stat) {
            row[at] = value;
        }
    }
    for (sid, values) in sums {
        rows.push([int4(sid)].into_iter().chain(values.map(int)).collect());
    }
}

fn sesstat(instance: &Arc<Instance>, rows: &mut Rows) {
    for (sid, stat, value) in instance.observer.sesstat() {
        rows.push(vec![
            int4(sid),
            int4(stat.index()),
            text(stat.name()),
            int(stat.shown(value)),
            exact(stat, value),
        ]);
    }
}
