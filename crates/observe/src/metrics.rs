//! Rates of what the instance does: `v$sysmetric`.
//!
//! What it promises: a metric tells of one interval that is over, by the counters at its two ends;
//! one that has nothing to be told by, as a ratio of nothing, is left out. What it must never do:
//! cost the sessions anything.

use env::Micros;
use parking_lot::Mutex;

use crate::observer::Observer;
use crate::stats::Stat;

/// Intervals of one length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MetricGroup {
    /// The field's number of it.
    pub id: i32,
    pub name: &'static str,
    pub length_us: u64,
}

/// The field's, the longer one first.
pub const METRIC_GROUPS: [MetricGroup; 2] = [
    MetricGroup { id: 2, name: "System Metrics Long Duration", length_us: 60_000_000 },
    MetricGroup { id: 3, name: "System Metrics Short Duration", length_us: 15_000_000 },
];

/// What there was at one moment.
#[derive(Clone)]
struct Look {
    at: Micros,
    wall_us: i64,
    /// By [`Stat::index`].
    stats: Vec<u64>,
    /// Time of all processors of the machine, at work and not; `None`: nobody tells.
    machine: Option<(f64, f64)>,
}

impl Look {
    fn of(observer: &Observer) -> Look {
        let env = observer.env();
        let figures = env.machine_figures();
        let of = |name: &str| figures.iter().find(|one| one.name == name).map(|one| one.value);
        Look {
            at: env.now(),
            wall_us: env.wall_us(),
            stats: observer.sysstat().into_iter().map(|(_, value)| value).collect(),
            machine: of("BUSY_TIME").zip(of("IDLE_TIME")),
        }
    }
}

/// What happened between two moments.
#[derive(Clone)]
pub struct MetricInterval {
    pub group: MetricGroup,
    /// Wall clock, µs since 1970.
    pub begin_wall_us: i64,
    pub end_wall_us: i64,
    pub length_us: u64,
    /// By [`Stat::index`]: differences, and of gauges the last value.
    done: Vec<u64>,
    machine: Option<(f64, f64)>,
}

/// A rate or ratio.
pub struct Metric {
    /// The field's number of it.
    pub id: i32,
    pub name: &'static str,
    pub unit: &'static str,
    value: fn(&MetricInterval) -> Option<f64>,
}

impl Metric {
    /// Its value; `None`: there was nothing to tell it by.
    #[must_use]
    pub fn of(&self, interval: &MetricInterval) -> Option<f64> {
        (self.value)(interval)
    }
}

impl MetricInterval {
    fn between(group: MetricGroup, begin: &Look, end: &Look) -> MetricInterval {
        let difference = |stat: &Stat| {
            let (last, first) = (end.stats[stat.index()], begin.stats[stat.index()]);
            if stat.is_gauge() { last } else { last.saturating_sub(first) }
        };
        let machine = end.machine.zip(begin.machine);
        MetricInterval {
            group,
            begin_wall_us: begin.wall_us,
            end_wall_us: end.wall_us,
            length_us: end.at.since(begin.at),
            done: Stat::ALL.iter().map(difference).collect(),
            machine: machine.map(|(last, first)| (last.0 - first.0, last.1 - first.1)),
        }
    }

    #[allow(clippy::cast_precision_loss)] // what is shown as a double is not exact beyond 2^53
    fn sum(&self, stats: &[Stat]) -> f64 {
        stats.iter().map(|stat| self.done[stat.index()]).sum::<u64>() as f64
    }

    #[allow(clippy::cast_precision_loss)] // as above
    fn second(&self, stats: &[Stat]) -> Option<f64> {
        part(self.sum(stats), self.length_us as f64 / 1e6)
    }

    /// Of times: hundredths of a second.
    fn cs_a_second(&self, stat: Stat) -> Option<f64> {
        self.second(&[stat]).map(|us| us / US_PER_CS)
    }

    fn transaction(&self, stats: &[Stat]) -> Option<f64> {
        part(self.sum(stats), self.sum(&TRANSACTIONS))
    }

    /// Hundredths of a second of each.
    fn cs_of_each(&self, time: Stat, count: Stat) -> Option<f64> {
        part(self.sum(&[time]) / US_PER_CS, self.sum(&[count]))
    }

    /// Percent of the whole that the part is not.
    fn percent_without(&self, missed: &[Stat], whole: &[Stat]) -> Option<f64> {
        part(100.0 * self.sum(missed), self.sum(whole)).map(|missed| (100.0 - missed).max(0.0))
    }

    fn percent(&self, of: &[Stat], whole: &[Stat]) -> Option<f64> {
        part(100.0 * self.sum(of), self.sum(whole))
    }
}

const US_PER_CS: f64 = 10_000.0;
/// Transactions of clients that have ended.
const TRANSACTIONS: [Stat; 2] = [Stat::UserCommits, Stat::UserRollbacks];
const GETS: [Stat; 2] = [Stat::ConsistentGets, Stat::DbBlockGets];

/// `None`: of nothing.
fn part(of: f64, whole: f64) -> Option<f64> {
    (whole > 0.0).then(|| of / whole)
}

macro_rules! metrics {
    ($($id:literal $name:literal, $unit:literal: |$interval:ident| $value:expr;)*) => {
        /// All there are, by their numbers.
        pub static METRICS: &[Metric] =
            &[$(Metric { id: $id, name: $name, unit: $unit, value: |$interval| $value },)*];
    };
}

metrics! {
    2000 "Buffer Cache Hit Ratio", "% (LogRead - PhyRead)/LogRead":
        |i| i.percent_without(&[Stat::PhysicalReads], &GETS);
    2001 "Memory Sorts Ratio", "% MemSort/(MemSort + DiskSort)":
        |i| i.percent(&[Stat::SortsMemory], &[Stat::SortsMemory, Stat::SortsDisk]);
    2002 "Redo Allocation Hit Ratio", "% (#Redo - RedoSpaceReq)/#Redo":
        |i| i.percent_without(&[Stat::RedoLogSpaceRequests], &[Stat::RedoEntries]);
    2003 "User Transaction Per Sec", "Transactions Per Second": |i| i.second(&TRANSACTIONS);
    2004 "Physical Reads Per Sec", "Reads Per Second": |i| i.second(&[Stat::PhysicalReads]);
    2005 "Physical Reads Per Txn", "Reads Per Txn": |i| i.transaction(&[Stat::PhysicalReads]);
    2006 "Physical Writes Per Sec", "Writes Per Second": |i| i.second(&[Stat::PhysicalWrites]);
    2007 "Physical Writes Per Txn", "Writes Per Txn": |i| i.transaction(&[Stat::PhysicalWrites]);
    2016 "Redo Generated Per Sec", "Bytes Per Second": |i| i.second(&[Stat::RedoSize]);
    2017 "Redo Generated Per Txn", "Bytes Per Txn": |i| i.transaction(&[Stat::RedoSize]);
    2018 "Logons Per Sec", "Logons Per Second": |i| i.second(&[Stat::LogonsCumulative]);
    2020 "Open Cursors Per Sec", "Cursors Per Second":
        |i| i.second(&[Stat::OpenedCursorsCumulative]);
    2022 "User Commits Per Sec", "Commits Per Second": |i| i.second(&[Stat::UserCommits]);
    2023 "User Commits Percentage", "% (UserCommit/TotalUserTxn)":
        |i| i.percent(&[Stat::UserCommits], &TRANSACTIONS);
    2024 "User Rollbacks Per Sec", "Rollbacks Per Second": |i| i.second(&[Stat::UserRollbacks]);
    2025 "User Rollbacks Percentage", "% (UserRollback/TotalUserTxn)":
        |i| i.percent(&[Stat::UserRollbacks], &TRANSACTIONS);
    2026 "User Calls Per Sec", "Calls Per Second": |i| i.second(&[Stat::UserCalls]);
    2027 "User Calls Per Txn", "Calls Per Txn": |i| i.transaction(&[Stat::UserCalls]);
    2028 "Recursive Calls Per Sec", "Calls Per Second": |i| i.second(&[Stat::RecursiveCalls]);
    2030 "Logical Reads Per Sec", "Reads Per Second": |i| i.second(&GETS);
    2031 "Logical Reads Per Txn", "Reads Per Txn": |i| i.transaction(&GETS);
    2032 "DBWR Checkpoints Per Sec", "Check Points Per Second":
        |i| i.second(&[Stat::DbwrCheckpoints]);
    2034 "Redo Writes Per Sec", "Writes Per Second": |i| i.second(&[Stat::RedoWrites]);
    2044 "Total Parse Count Per Sec", "Parses Per Second": |i| i.second(&[Stat::ParseCountTotal]);
    2046 "Hard Parse Count Per Sec", "Parses Per Second": |i| i.second(&[Stat::ParseCountHard]);
    2048 "Parse Failure Count Per Sec", "Parses Per Second":
        |i| i.second(&[Stat::ParseCountFailures]);
    2051 "Disk Sort Per Sec", "Sorts Per Second": |i| i.second(&[Stat::SortsDisk]);
    2055 "Soft Parse Ratio", "% SoftParses/TotalParses":
        |i| i.percent_without(&[Stat::ParseCountHard], &[Stat::ParseCountTotal]);
    2057 "Host CPU Utilization (%)", "% Busy/(Idle+Busy)":
        |i| i.machine.and_then(|(busy, idle)| part(100.0 * busy, busy + idle));
    2058 "Network Traffic Volume Per Sec", "Bytes Per Second":
        |i| i.second(&[Stat::BytesReceivedFromClient, Stat::BytesSentToClient]);
    2059 "Enqueue Timeouts Per Sec", "Timeouts Per Second": |i| i.second(&[Stat::EnqueueTimeouts]);
    2061 "Enqueue Waits Per Sec", "Waits Per Second": |i| i.second(&[Stat::EnqueueWaits]);
    2063 "Enqueue Deadlocks Per Sec", "Deadlocks Per Second":
        |i| i.second(&[Stat::EnqueueDeadlocks]);
    2065 "Enqueue Requests Per Sec", "Requests Per Second": |i| i.second(&[Stat::EnqueueRequests]);
    2067 "DB Block Gets Per Sec", "Blocks Per Second": |i| i.second(&[Stat::DbBlockGets]);
    2069 "Consistent Read Gets Per Sec", "Blocks Per Second": |i| i.second(&[Stat::ConsistentGets]);
    2071 "DB Block Changes Per Sec", "Blocks Per Second": |i| i.second(&[Stat::DbBlockChanges]);
    2075 "CPU Usage Per Sec", "CentiSeconds Per Second": |i| i.cs_a_second(Stat::CpuUsed);
    2077 "CR Blocks Created Per Sec", "Blocks Per Second": |i| i.second(&[Stat::CrBlocksCreated]);
    2079 "CR Undo Records Applied Per Sec", "Undo Records Per Second":
        |i| i.second(&[Stat::UndoBlocksRead]);
    2081 "User Rollback UndoRec Applied Per Sec", "Records Per Second":
        |i| i.second(&[Stat::UndoRecordsApplied]);
    2083 "Leaf Node Splits Per Sec", "Splits Per Second": |i| i.second(&[Stat::LeafSplits]);
    2085 "Branch Node Splits Per Sec", "Splits Per Second": |i| i.second(&[Stat::BranchSplits]);
    2094 "GC CR Block Received Per Second", "Blocks Per Second":
        |i| i.second(&[Stat::GcCrBlocksReceived]);
    2095 "GC CR Block Received Per Txn", "Blocks Per Txn":
        |i| i.transaction(&[Stat::GcCrBlocksReceived]);
    2096 "GC Current Block Received Per Second", "Blocks Per Second":
        |i| i.second(&[Stat::GcCurrentBlocksReceived]);
    2097 "GC Current Block Received Per Txn", "Blocks Per Txn":
        |i| i.transaction(&[Stat::GcCurrentBlocksReceived]);
    2098 "Global Cache Average CR Get Time", "CentiSeconds Per Get":
        |i| i.cs_of_each(Stat::GcCrReceiveTime, Stat::GcCrBlocksReceived);
    2099 "Global Cache Average Current Get Time", "CentiSeconds Per Get":
        |i| i.cs_of_each(Stat::GcCurrentReceiveTime, Stat::GcCurrentBlocksReceived);
    2103 "Current Logons Count", "Logons": |i| Some(i.sum(&[Stat::LogonsCurrent]));
    2104 "Current Open Cursors Count", "Cursors": |i| Some(i.sum(&[Stat::OpenedCursorsCurrent]));
    2106 "SQL Service Response Time", "CentiSeconds Per Call":
        |i| i.cs_of_each(Stat::DbTime, Stat::UserCalls);
    2107 "Database Wait Time Ratio", "% Wait/DB_Time":
        |i| i.percent_without(&[Stat::CpuUsed], &[Stat::DbTime]);
    2108 "Database CPU Time Ratio", "% Cpu/DB_Time":
        |i| i.percent(&[Stat::CpuUsed], &[Stat::DbTime]);
    2109 "Response Time Per Txn", "CentiSeconds Per Txn":
        |i| i.transaction(&[Stat::DbTime]).map(|us| us / US_PER_CS);
    2121 "Executions Per Sec", "Executes Per Second": |i| i.second(&[Stat::ExecuteCount]);
    2123 "Database Time Per Sec", "CentiSeconds Per Second": |i| i.cs_a_second(Stat::DbTime);
    2147 "Average Active Sessions", "Active Sessions":
        |i| i.second(&[Stat::DbTime]).map(|us| us / 1e6);
}

#[derive(Default)]
struct Running {
    /// When the interval at hand began.
    begun: Option<Look>,
    /// The one before.
    last: Option<MetricInterval>,
}

/// The intervals of an instance, in the order of [`METRIC_GROUPS`].
#[derive(Default)]
pub struct Metrics(Mutex<[Running; 2]>);

impl Metrics {
    /// Ends the intervals that are over: to be called about once a second.
    pub fn note(&self, observer: &Observer) {
        let now = observer.env().now();
        let mut all = self.0.lock();
        let mut look: Option<Look> = None;
        for (running, group) in all.iter_mut().zip(METRIC_GROUPS) {
            let lasts = |begun: &Look| now.since(begun.at) < group.length_us;
            if running.begun.as_ref().is_some_and(lasts) {
                continue;
            }
            let look = look.get_or_insert_with(|| Look::of(observer)).clone();
            if let Some(begun) = &running.begun {
                running.last = Some(MetricInterval::between(group, begun, &look));
            }
            running.begun = Some(look);
        }
    }

    /// The last one of each length that is over.
    #[must_use]
    pub fn intervals(&self) -> Vec<MetricInterval> {
        self.0.lock().iter().filter_map(|running| running.last.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SessionKind;
    use crate::tests::world;

    fn value(interval: &MetricInterval, name: &str) -> Option<f64> {
        METRICS.iter().find(|metric| metric.name == name).expect("there is one").of(interval)
    }

    #[test]
    fn metrics_are_of_the_last_interval_that_is_over() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        ctx.bump(Stat::UserCommits, 1_000);
        observer.metrics.note(&observer);
        assert!(observer.metrics.intervals().is_empty(), "none is over");
        clock.advance(10_000_000);
        ctx.bump(Stat::UserCommits, 20);
        observer.metrics.note(&observer);
        assert!(observer.metrics.intervals().is_empty());
        ctx.bump(Stat::UserRollbacks, 10);
        ctx.bump(Stat::ConsistentGets, 80);
        ctx.bump(Stat::DbBlockGets, 20);
        ctx.bump(Stat::PhysicalReads, 5);
        ctx.bump(Stat::GcCrBlocksReceived, 4);
        ctx.bump(Stat::GcCrReceiveTime, 8_000);
        clock.advance(10_000_000);
        observer.metrics.note(&observer);
        let all = observer.metrics.intervals();
        let [short] = &all[..] else { panic!("only the short one is over") };
        assert_eq!((short.group.id, short.length_us), (3, 20_000_000));
        let of = |name| value(short, name);
        assert_eq!(of("User Commits Per Sec"), Some(1.0));
        assert_eq!(of("User Transaction Per Sec"), Some(1.5));
        assert_eq!(of("Logical Reads Per Txn"), Some(100.0 / 30.0));
        assert_eq!(of("Buffer Cache Hit Ratio"), Some(95.0));
        assert_eq!(of("GC CR Block Received Per Second"), Some(0.2));
        assert_eq!(of("Global Cache Average CR Get Time"), Some(0.2));
        // Of nothing, and by nobody.
        assert_eq!(of("Global Cache Average Current Get Time"), None);
        assert_eq!(of("Host CPU Utilization (%)"), None);
        for _ in 0..4 {
            clock.advance(10_000_000);
            observer.metrics.note(&observer);
        }
        let all = observer.metrics.intervals();
        let told = all.iter().map(|of| (of.group.id, value(of, "User Commits Per Sec")));
        let told: Vec<_> = told.collect();
        assert_eq!(told, [(2, Some(20.0 / 60.0)), (3, Some(0.0))]);
    }

    #[test]
    fn each_metric_has_a_number_and_a_name_of_its_own() {
        for two in METRICS.windows(2) {
            assert!(two[0].id < two[1].id, "{} stands behind {}", two[1].name, two[0].name);
        }
        let names: std::collections::BTreeSet<_> = METRICS.iter().map(|of| of.name).collect();
        assert_eq!(names.len(), METRICS.len());
    }
}
