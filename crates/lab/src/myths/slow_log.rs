//! Myth 2: "all performance of the global cache is that of the interconnect".
//!
//! What it promises: the log writer of the last instance is made slower by a parameter, in turns
//! with none; another instance's waits for its blocks are split by their cause from that instance's
//! own views, which name the culprit.

use std::collections::BTreeMap;

use super::bed::{Bed, Session, waited};
use super::check::{Check, Kind, Spread, shown};
use super::report::{Chart, Report, Table};
use super::{Experiment, Stage};
use crate::demo::views::{Counters, add_growth};

pub const EXPERIMENT: Experiment = Experiment {
    name: "myth2",
    title: "All global cache performance is due to the interconnect",
    about: "Instance 1 asks instance 2 and the last one for blocks that they have just changed, \
            with the log writer of the last one slower by 0, 50 and 500 ms in turns (--delay-ms). \
            Checked: the time in which instance 1 receives current blocks rises by it, for that \
            instance's blocks alone; the split of the waits names its log writer; consistent \
            copies, which wait for no flush here, stay fast. Blocks go by messages \
            (_gc_direct_reads = off), as between hosts.",
    sizes: "20 blocks of each instance a turn",
    takes: "2 minutes",
    timed_from: 0.0,
    instances: (3, 3, 8),
    clients_on: None,
    run: |stage| Box::pin(run(stage)),
};

const BLOCKS: u32 = 20;
const LOG_WRITER: &str = "log writer";
/// The hidden parameter that makes a log writer slow.
const DELAY: &str = "_lgwr_flush_delay_us";
/// How much of the delay must be found again at the asker and at the holder.
const PART_MIN: f64 = 0.9;
/// What others' blocks and consistent copies may take of it.
const OTHERS_PART_MAX: f64 = 0.2;

/// What the asker recorded of blocks from one instance, of one kind, in one turn.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Split {
    blocks: i64,
    total_us: i64,
    interconnect_us: i64,
    queue_us: i64,
    build_us: i64,
    pin_us: i64,
    flush_us: i64,
}

impl Split {
    fn mean_ms(&self) -> f64 {
        mean_ms(self.total_us, self.blocks)
    }

    /// The parts by name, the longest first.
    fn parts(&self) -> Vec<(&'static str, i64)> {
        let mut parts = vec![
            ("interconnect", self.interconnect_us),
            ("LMS queue", self.queue_us),
            ("LMS work", self.build_us),
            ("pin", self.pin_us),
            (LOG_WRITER, self.flush_us),
        ];
        parts.sort_by_key(|(_, us)| -us);
        parts
    }

    fn since(&self, before: &Split) -> Split {
        Split {
            blocks: self.blocks - before.blocks,
            total_us: self.total_us - before.total_us,
            interconnect_us: self.interconnect_us - before.interconnect_us,
            queue_us: self.queue_us - before.queue_us,
            build_us: self.build_us - before.build_us,
            pin_us: self.pin_us - before.pin_us,
            flush_us: self.flush_us - before.flush_us,
        }
    }
}

/// By instance and kind (`cr` or `current`).
type Splits = BTreeMap<(usize, String), Split>;

fn mean_ms(us: i64, count: i64) -> f64 {
    // Far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    let (us, count) = (us as f64, count as f64);
    us / 1000.0 / count
}

/// One turn with one delay.
struct Turn {
    splits: Splits,
    statistics: Counters,
    /// `log file parallel write` of the slow instance: count and µs.
    writes: (i64, i64),
}

/// All turns of one delay.
#[derive(Default)]
struct Found {
    /// Mean ms of blocks at the asker, by instance and kind.
    means: BTreeMap<(usize, String), Spread>,
    last: Option<Turn>,
}

async fn run(stage: Stage) -> Result<Report, String> {
    let (rounds, instances) = (stage.request.rounds, stage.request.instances);
    let delays = stage.request.delays_ms.clone();
    let blocks = stage.request.scaled(BLOCKS, 3);
    stage.steps(1 + rounds * delays.len());
    stage.step("making the cluster");
    let mut set = vec!["_gc_direct_reads=off".to_owned(), "autovacuum=off".to_owned()];
    set.extend(stage.request.set.iter().cloned());
    let bed = Bed::open(&stage.cluster, instances, &set, &[])?;
    let mut report = stage.report();
    report.circumstances.push(("slow log writer".into(), format!("instance {instances}, {DELAY}")));
    report.circumstances.push(("blocks a turn, of each instance".into(), blocks.to_string()));
    report.circumstances.push(("trace".into(), "none; times are those of the views".into()));
    let pairs = make_table(&bed, 2 * blocks).await?;
    let mut all: Vec<(u64, Found)> = delays.iter().map(|ms| (*ms, Found::default())).collect();
    for round in 0..rounds {
        let count = all.len();
        for at in 0..count {
            let at = if round % 2 == 0 { at } else { count - 1 - at };
            let Some((delay_ms, found)) = all.get_mut(at) else { continue };
            stage.step(format!("delay {delay_ms} ms, round {} of {rounds}", round + 1));
            let turn = turn(&bed, *delay_ms, &pairs).await?;
            for (key, split) in &turn.splits {
                found.means.entry(key.clone()).or_default().add(split.mean_ms());
            }
            let who = format!("delay {delay_ms} ms, round {}", round + 1);
            check_turn(&mut report, &who, &turn, *delay_ms, instances, i64::from(blocks));
            found.last = Some(turn);
        }
    }
    tell(&mut report, &all, instances);
    Ok(report)
}

/// Rows of the table for each pair, more than a block holds.
const ROWS_OF_A_PAIR: u32 = 150;

/// How far apart two rows of a block are, at most: an insert spreads them over some blocks.
const NEIGHBOURS_MAX: u32 = 24;

/// The table, and pairs of rows that share a block.
async fn make_table(bed: &Bed, pairs: u32) -> Result<Vec<(u32, u32)>, String> {
    let maker = bed.session(1).await?;
    maker.run("create table paths (id int primary key, n int, v varchar2(100))").await?;
    // Some of the candidates lie on both sides of a block's end.
    let rows = ROWS_OF_A_PAIR * (pairs + pairs / 4 + 8);
    let fill = format!(
        "insert into paths select i, 0, lpad(i::text, 90, 'x') from generate_series(1, {rows}) i"
    );
    maker.run(&fill).await?;
    for instance in 1..=bed.instances {
        // Each knows definition and index before it is measured.
        bed.session(instance).await?.rows("select sum(n) from paths where id > 0").await?;
    }
    let other = bed.session(2).await?;
    let mut found = Vec::new();
    for id in (ROWS_OF_A_PAIR / 2..rows).step_by(ROWS_OF_A_PAIR as usize) {
        if found.len() < pairs as usize {
            found.extend(neighbour(&maker, &other, id).await?.map(|next| (id, next)));
        }
    }
    match found.len() == pairs as usize {
        true => Ok(found),
        false => Err(format!("{} pairs of rows share a block, {pairs} are needed", found.len())),
    }
}

/// A row whose change has to fetch the block in which another instance has changed this one.
async fn neighbour(own: &Session, other: &Session, id: u32) -> Result<Option<u32>, String> {
    other.run(&change(id)).await?;
    for next in id + 1..=id + NEIGHBOURS_MAX {
        let before = own.waits().await?;
        own.run(&change(next)).await?;
        if waited(&before, &own.waits().await?, "gc current block").0 > 0 {
            return Ok(Some(next));
        }
    }
    Ok(None)
}

fn change(id: u32) -> String {
    format!("update paths set n = n + 1 where id = {id}")
}

/// Instance 1 asks each holder for blocks that it has changed and not committed, first for a
/// consistent copy, then for the block itself.
async fn turn(bed: &Bed, delay_ms: u64, pairs: &[(u32, u32)]) -> Result<Turn, String> {
    let slow = bed.session(bed.instances).await?;
    let asker = bed.session(1).await?;
    let delay = |us: u64| {
        format!("alter system set {DELAY} = {us} scope = memory sid = '{}'", bed.instances)
    };
    slow.run(&delay(delay_ms * 1000)).await?;
    let splits_before = splits(&asker).await?;
    let before = bed.counters().await?;
    let half = pairs.len() / 2;
    for (holder, pairs) in [(2, &pairs[..half]), (bed.instances, &pairs[half..])] {
        let holder = bed.session(holder).await?;
        for (id, next) in pairs {
            holder.run("begin").await?;
            holder.run(&change(*id)).await?;
            asker.rows(&format!("select n from paths where id = {id}")).await?;
            asker.run(&change(*next)).await?;
            holder.run("commit").await?;
        }
    }
    let after = bed.counters().await?;
    let splits_after = splits(&asker).await?;
    slow.run(&delay(0)).await?;
    let mut statistics = Counters::new();
    add_growth(&mut statistics, &before.statistics, &after.statistics, None);
    let key = (bed.instances, "log file parallel write".to_owned());
    let grown =
        |from: &Counters, to: &Counters| to.get(&key).unwrap_or(&0) - from.get(&key).unwrap_or(&0);
    let writes =
        (grown(&before.wait_counts, &after.wait_counts), grown(&before.wait_us, &after.wait_us));
    let splits = splits_after
        .into_iter()
        .map(|(key, split)| {
            let before = splits_before.get(&key).copied().unwrap_or_default();
            (key, split.since(&before))
        })
        .filter(|(_, split)| split.blocks > 0)
        .collect();
    Ok(Turn { splits, statistics, writes })
}

async fn splits(session: &Session) -> Result<Splits, String> {
    let text = "select instance, kind, blocks, total_us, interconnect_us, master_queue_us, \
                lms_build_us, pin_us, lgwr_flush_us from v$gc_wait_split \
                where class = 'data block'";
    let mut all = Splits::new();
    for row in session.rows(text).await? {
        let wrong = || format!("v$gc_wait_split: {row:?}");
        let numbers: Vec<i64> =
            row.iter().skip(2).map(|v| v.parse().map_err(|_| wrong())).collect::<Result<_, _>>()?;
        let &[blocks, total_us, interconnect_us, queue_us, build_us, pin_us, flush_us] =
            &numbers[..]
        else {
            return Err(wrong());
        };
        let instance = row[0].parse().map_err(|_| wrong())?;
        let split =
            Split { blocks, total_us, interconnect_us, queue_us, build_us, pin_us, flush_us };
        all.insert((instance, row[1].clone()), split);
    }
    Ok(all)
}

/// The instance and the part of its service in which most of the time went.
fn culprit(splits: &Splits) -> Option<(usize, &'static str)> {
    let longest = |((instance, _), split): (&(usize, String), &Split)| {
        split.parts().first().map(|(part, us)| (*us, *instance, *part))
    };
    splits.iter().filter_map(longest).max().map(|(_, instance, part)| (instance, part))
}

fn check_turn(
    report: &mut Report,
    who: &str,
    turn: &Turn,
    delay_ms: u64,
    slow: usize,
    blocks: i64,
) {
    let of = |instance: usize, kind: &str| {
        turn.splits.get(&(instance, kind.to_owned())).copied().unwrap_or_default()
    };
    let own = of(slow, "current");
    for instance in [2, slow] {
        let what = format!("{who}: current blocks from instance {instance}");
        report.checks.push(Check::count(what, blocks, of(instance, "current").blocks));
    }
    if delay_ms == 0 {
        return;
    }
    let delay = f64::from(u32::try_from(delay_ms).unwrap_or(u32::MAX));
    let mut effect = |what: &str, least: bool, part: f64, found: f64| {
        let (what, limit) = (format!("{who}: {what}"), delay * part);
        report.checks.push(match least {
            true => Check::at_least(Kind::Effect, what, limit, found, "ms"),
            false => Check::at_most(Kind::Effect, what, limit, found, "ms"),
        });
    };
    effect("a current block from the slow instance", true, PART_MIN, own.mean_ms());
    effect("of it, its log writer", true, PART_MIN, mean_ms(own.flush_us, own.blocks));
    let flush = "gc current block flush time";
    let flushes = statistic(&turn.statistics, slow, "gc current block flushes");
    let flush_ms = mean_ms(statistic(&turn.statistics, slow, flush), flushes);
    effect("a flush for a current block, at the slow instance", true, PART_MIN, flush_ms);
    effect("a write of its log writer", true, PART_MIN, mean_ms(turn.writes.1, turn.writes.0));
    effect("a current block from instance 2", false, OTHERS_PART_MAX, of(2, "current").mean_ms());
    effect(
        "a consistent copy from the slow instance",
        false,
        OTHERS_PART_MAX,
        of(slow, "cr").mean_ms(),
    );
    report.checks.push(culprit_check(who, &turn.splits, slow));
}

fn culprit_check(who: &str, splits: &Splits, slow: usize) -> Check {
    let told = |found: Option<(usize, &str)>| {
        found.map_or("nobody".to_owned(), |(k, part)| format!("{part} of instance {k}"))
    };
    let (wanted, found) = (Some((slow, LOG_WRITER)), culprit(splits));
    let what = format!("{who}: the culprit");
    Check::that(Kind::Effect, what, told(wanted), told(found), wanted == found)
}

fn statistic(statistics: &Counters, instance: usize, name: &str) -> i64 {
    statistics.get(&(instance, name.to_owned())).copied().unwrap_or(0)
}

/// The paper's two tables: node 1 and node 3, ms.
const PAPER: [(&str, &str, &str); 6] = [
    ("Avg global cache cr block receive time (ms)", "63.3", "10.4"),
    ("Avg global cache current block receive time (ms)", "2.1", "3.2"),
    ("Avg global cache cr block build time (ms)", "0.3", "0.1"),
    ("Avg global cache cr block flush time (ms)", "51.5", "4380.0"),
    ("Avg global cache current block pin time (ms)", "0.0", "0.0"),
    ("Avg global cache current block flush time (ms)", "30.0", "0.0"),
];

/// The same lines of ours, from the statistics of one instance.
fn workload(statistics: &Counters, instance: usize) -> [f64; 6] {
    let mean = |time: &str, count: &str| {
        mean_ms(statistic(statistics, instance, time), statistic(statistics, instance, count))
    };
    [
        mean("gc cr block receive time", "gc cr blocks received"),
        mean("gc current block receive time", "gc current blocks received"),
        mean("gc cr block build time", "gc cr blocks served"),
        mean("gc cr block flush time", "gc cr block flushes"),
        mean("gc current block pin time", "gc current blocks served"),
        mean("gc current block flush time", "gc current block flushes"),
    ]
}

fn tell(report: &mut Report, all: &[(u64, Found)], slow: usize) {
    let mut chart = Chart {
        title: "Mean wait of instance 1 for a block, ms (medians of the rounds)".into(),
        unit: "ms".into(),
        series: Vec::new(),
        groups: Vec::new(),
    };
    let kinds = [
        (slow, "current", "slow"),
        (2, "current", "other"),
        (slow, "cr", "slow"),
        (2, "cr", "other"),
    ];
    chart.series = kinds.iter().map(|(k, kind, _)| format!("{kind}, instance {k}")).collect();
    let mut waits = Table::new(
        "Instance 1 waits for a block: ms, and what most of it was",
        &[
            "delay",
            "from",
            "kind",
            "blocks",
            "mean of a turn, median (range)",
            "interconnect",
            "LMS queue",
            "LMS work",
            "pin",
            "log writer",
        ],
    );
    for (delay_ms, found) in all {
        let Some(turn) = &found.last else { continue };
        let mut group = Vec::new();
        for (instance, kind, name) in kinds {
            let key = (instance, kind.to_owned());
            let mean = found.means.get(&key).map_or(f64::NAN, Spread::median);
            group.push(mean);
            report.figure(format!("delay_{delay_ms}_ms.{kind}_from_{name}.mean_ms"), mean);
            if let (Some(split), Some(spread)) = (turn.splits.get(&key), found.means.get(&key)) {
                let part = |us: i64| shown(mean_ms(us, split.blocks), "");
                waits.row(vec![
                    format!("{delay_ms} ms"),
                    instance.to_string(),
                    kind.to_owned(),
                    split.blocks.to_string(),
                    spread.text("ms"),
                    part(split.interconnect_us),
                    part(split.queue_us),
                    part(split.build_us),
                    part(split.pin_us),
                    part(split.flush_us),
                ]);
            }
        }
        chart.groups.push((format!("delay {delay_ms} ms"), group));
    }
    report.tables.push(waits);
    report.charts.push(chart);
    if let Some((delay_ms, Found { last: Some(turn), .. })) = all.iter().max_by_key(|(ms, _)| *ms) {
        statspack(report, turn, *delay_ms, slow);
    }
}

/// The paper's extracts beside ours, at the longest delay.
fn statspack(report: &mut Report, turn: &Turn, delay_ms: u64, slow: usize) {
    let title = "Global Cache and Enqueue Services - Workload Characteristics";
    let last = format!("instance {slow}");
    let mut table = Table::new(
        format!("{title} (delay {delay_ms} ms)"),
        &["", "instance 1", &last, "paper, node 1", "paper, node 3"],
    );
    let (first, last) = (workload(&turn.statistics, 1), workload(&turn.statistics, slow));
    let cell = |value: f64| if value.is_nan() { "-".to_owned() } else { format!("{value:.1}") };
    for ((name, one, three), (a, b)) in PAPER.into_iter().zip(first.into_iter().zip(last)) {
        table.row(vec![name.into(), cell(a), cell(b), one.into(), three.into()]);
    }
    report.tables.push(table);
    let Some((instance, part)) = culprit(&turn.splits) else { return };
    let (current, cr) = (first[1], first[0]);
    report.findings.push(format!(
        "Instance 1 receives a current block in {} on average with a delay of {delay_ms} ms: most \
         of it is the {part} of instance {instance}, not the interconnect.",
        shown(current, "ms")
    ));
    report.findings.push(format!(
        "In the paper consistent copies wait for the holder's log writer as well (63.3 ms). Here \
         they do not: {}.",
        shown(cr, "ms")
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(blocks: i64, flush_us: i64) -> Split {
        let interconnect_us = 200 * blocks;
        let total_us = interconnect_us + flush_us;
        Split { blocks, total_us, interconnect_us, flush_us, ..Split::default() }
    }

    /// Instance 3 is slow by 50 ms, and its copies wait for no flush unless told.
    fn turn(flush_us: i64, copies_flush_us: i64) -> Turn {
        let splits = [
            ((2, "current".to_owned()), split(10, 5_000)),
            ((3, "current".to_owned()), split(10, flush_us)),
            ((3, "cr".to_owned()), split(10, copies_flush_us)),
        ];
        let statistics = [
            ((3, "gc current block flushes".to_owned()), 10),
            ((3, "gc current block flush time".to_owned()), flush_us),
        ];
        let writes = (10, flush_us);
        let (splits, statistics) = (splits.into_iter().collect(), statistics.into_iter().collect());
        Turn { splits, statistics, writes }
    }

    fn failures(turn: &Turn, blocks: i64) -> Vec<String> {
        let mut report = Report::default();
        check_turn(&mut report, "t", turn, 50, 3, blocks);
        report.failures().map(|check| check.what.clone()).collect()
    }

    #[test]
    fn the_log_writer_of_the_slow_instance_is_the_culprit() {
        let slow = turn(510_000, 0);
        assert_eq!(culprit(&slow.splits), Some((3, LOG_WRITER)));
        assert_eq!(failures(&slow, 10), Vec::<String>::new());
        assert_eq!(failures(&slow, 11).len(), 2);
    }

    #[test]
    fn without_the_effect_it_is_not_reproduced() {
        let fast = turn(1_000, 0);
        let found = failures(&fast, 10);
        assert!(
            found.contains(&"t: a current block from the slow instance".to_owned()),
            "{found:?}"
        );
        assert!(found.contains(&"t: the culprit".to_owned()), "{found:?}");
    }

    #[test]
    fn copies_that_wait_for_a_flush_are_found() {
        let found = failures(&turn(510_000, 500_000), 10);
        assert_eq!(found, ["t: a consistent copy from the slow instance"]);
    }
}
