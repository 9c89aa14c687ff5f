//! Rules about blocks that instances send each other: what a wait for one consisted of.

use super::database::segment_name;
use super::statements::users;
use super::{Case, Finding, ms_each, waits_of};
use crate::awr::SPLIT;
use crate::awr::page::{count, number, percent};

/// A part of the wait is its cause if it is so much of it,
const PART_MIN: f64 = 0.5;
/// and takes so long for a block. The way and a redo write have a length where all is well: what is
/// shorter is what a block costs.
const PART_MS_MIN: f64 = 1.0;
/// The same for what takes microseconds where all is well: queues, work on a block, pins.
const SHORT_MS_MIN: f64 = 0.1;
/// An LMS is blamed if so much of what all of them let requests lie is its own.
const LMS_PART_MIN: f64 = 0.3;
/// One of several is blamed alone if so much is its.
const ALONE_PART_MIN: f64 = 0.6;

/// Where the time of the blocks went that one instance got from another.
#[derive(Clone, Debug)]
struct Pair {
    from: i64,
    to: i64,
    blocks: f64,
    flushes: f64,
    total_us: f64,
    /// As in [`SPLIT`].
    parts_us: [f64; 6],
    /// For LMS of the sender, of the asker, of the blocks' masters.
    lms_us: [f64; 3],
    /// What a µs of this is of clients' time: blocks that are asked for together are waited for
    /// together, and some are asked for by nobody who waits.
    worth: f64,
}

impl Pair {
    fn told(&self) -> String {
        let each = |us: f64| number(ms_each(us, self.blocks), 2);
        let parts = SPLIT.iter().zip(self.parts_us);
        let parts: Vec<String> =
            parts.map(|((name, _), us)| format!("{name} {}", each(us))).collect();
        format!(
            "{} -> {}: {} blocks, {} ms each: {}",
            self.from,
            self.to,
            count(self.blocks),
            each(self.total_us),
            parts.join(", ")
        )
    }
}

fn pairs(case: &Case<'_>) -> Vec<Pair> {
    let mut all: Vec<Pair> = Vec::new();
    for to in &case.interval.works {
        let Some(table) = to.table("wrh$_gc_wait_split") else { continue };
        let mut senders: Vec<i64> =
            table.rows.iter().filter_map(|row| row.keys[0].parse().ok()).collect();
        senders.sort_unstable();
        senders.dedup();
        let first = all.len();
        for from in senders {
            let name = from.to_string();
            let rows = || table.rows.iter().filter(|row| row.keys[0] == name);
            let sum = |column: &str| rows().map(|row| table.added(row, column)).sum::<f64>();
            all.push(Pair {
                from,
                to: to.instance,
                blocks: sum("blocks"),
                flushes: sum("flushes"),
                total_us: sum("total_us"),
                parts_us: SPLIT.map(|(_, columns)| columns.iter().map(|column| sum(column)).sum()),
                lms_us: ["lms_queue_us", "own_lms_us", "master_lms_us"].map(sum),
                worth: 1.0,
            });
        }
        let own = &mut all[first..];
        let waited_us = to.class_us("Cluster").unwrap_or(0.0);
        let total_us: f64 = own.iter().map(|pair| pair.total_us).sum();
        if waited_us > 0.0 && total_us > waited_us {
            own.iter_mut().for_each(|pair| pair.worth = waited_us / total_us);
        }
    }
    all
}

/// Pairs whose wait is mostly one of its parts, which is not shorter than `ms_min` for a block, by
/// their sender.
fn mostly(case: &Case<'_>, part: usize, ms_min: f64) -> Vec<(i64, Vec<Pair>)> {
    let mut senders: Vec<(i64, Vec<Pair>)> = Vec::new();
    for pair in pairs(case) {
        let us = pair.parts_us[part];
        if us < PART_MIN * pair.total_us || ms_each(us, pair.blocks) < ms_min {
            continue;
        }
        match senders.iter_mut().find(|(from, _)| *from == pair.from) {
            Some((_, all)) => all.push(pair),
            None => senders.push((pair.from, vec![pair])),
        }
    }
    senders
}

fn cost(pairs: &[Pair], part: usize) -> f64 {
    pairs.iter().map(|pair| pair.worth * pair.parts_us[part]).sum()
}

fn receivers(pairs: &[Pair]) -> String {
    let all: Vec<String> = pairs.iter().map(|pair| format!("instance {}", pair.to)).collect();
    all.join(" and ")
}

/// What an instance's own waits for its redo writes say.
fn redo_writes(case: &Case<'_>, instance: i64) -> Option<String> {
    let work = case.interval.works.iter().find(|work| work.instance == instance)?;
    let table = work.table("wrh$_system_event")?;
    let row = table.row("log file parallel write")?;
    let (writes, us) = (table.added(row, "total_waits"), table.added(row, "time_waited_micro"));
    (writes > 0.0).then(|| {
        format!(
            "on instance {instance} `log file parallel write` took {} ms each, {} of them",
            number(ms_each(us, writes), 2),
            count(writes)
        )
    })
}

/// An instance must write redo before it sends a block: a slow log writer there is felt here.
pub(super) fn flush(case: &Case<'_>) -> Vec<Finding> {
    const PART: usize = 5;
    let finding = |(from, pairs): (i64, Vec<Pair>)| {
        let flushes: f64 = pairs.iter().map(|pair| pair.flushes).sum();
        let us: f64 = pairs.iter().map(|pair| pair.parts_us[PART]).sum();
        let mut evidence: Vec<String> = pairs.iter().map(Pair::told).collect();
        evidence.push(format!(
            "{} of these blocks waited for a flush, {} ms each",
            count(flushes),
            number(ms_each(us, flushes), 1)
        ));
        evidence.extend(redo_writes(case, from));
        Finding {
            cost_us: cost(&pairs, PART),
            sentence: format!(
                "the log writer of instance {from} is slow, and {} waits for it: a block with \
                 changes whose redo is not yet on disk is sent only after the flush. It is neither \
                 the interconnect nor LMS.",
                receivers(&pairs)
            ),
            evidence,
            remedy: format!("look at the devices of instance {from}'s redo log, and their path."),
        }
    };
    mostly(case, PART, PART_MS_MIN).into_iter().map(finding).collect()
}

/// Requests and blocks that lie in the queue of an LMS: it does not get to run, or there is too
/// little of it.
pub(super) fn lms_queue(case: &Case<'_>) -> Vec<Finding> {
    let mut late: Vec<(Option<i64>, f64, Vec<String>)> = Vec::new();
    for pair in pairs(case) {
        // Several that are late make one wait: the sum decides, and each is blamed for its part.
        let sum: f64 = pair.lms_us.iter().sum();
        if sum < PART_MIN * pair.total_us || ms_each(sum, pair.blocks) < SHORT_MS_MIN {
            continue;
        }
        for (whose, us) in [Some(pair.from), Some(pair.to), None].into_iter().zip(pair.lms_us) {
            if us < LMS_PART_MIN * sum {
                continue;
            }
            let us = pair.worth * us;
            match late.iter_mut().find(|(known, ..)| *known == whose) {
                Some((_, sum, told)) => {
                    *sum += us;
                    told.push(pair.told());
                }
                None => late.push((whose, us, vec![pair.told()])),
            }
        }
    }
    let told = |whose: Option<i64>| match whose {
        Some(instance) => format!("LMS of instance {instance}"),
        None => "LMS of the instances that master the blocks".to_owned(),
    };
    let whole: f64 = late.iter().map(|(_, us, _)| us).sum();
    let most = late.iter().map(|(_, us, _)| *us).fold(0.0, f64::max);
    // Where all are late, none of them is the one: each alone may be too little to be told.
    if late.len() > 2 && most < ALONE_PART_MIN * whole {
        let mut instances: Vec<i64> = late.iter().filter_map(|(whose, ..)| *whose).collect();
        instances.sort_unstable();
        let names: Vec<String> = instances.iter().map(i64::to_string).collect();
        let mut evidence: Vec<String> = Vec::new();
        for (_, _, pairs) in &late {
            let new: Vec<String> =
                pairs.iter().filter(|pair| !evidence.contains(pair)).cloned().collect();
            evidence.extend(new);
        }
        evidence.extend(instances.first().and_then(|first| idle_processors(case, *first)));
        return vec![lms_finding(
            &format!("LMS of instances {}", names.join(", ")),
            whole,
            evidence,
        )];
    }
    let finding = |(whose, us, mut evidence): (Option<i64>, f64, Vec<String>)| {
        evidence.extend(whose.and_then(|instance| idle_processors(case, instance)));
        lms_finding(&told(whose), us, evidence)
    };
    late.into_iter().map(finding).collect()
}

fn lms_finding(of: &str, cost_us: f64, evidence: Vec<String>) -> Finding {
    Finding {
        cost_us,
        sentence: format!(
            "{of} does not get to its work in time: most of the wait for a block is time in \
                 which messages lie in a queue of LMS. It lacks processor time there."
        ),
        evidence,
        remedy: "take load off the processors there, or let LMS run before others \
                     (os_sched_high_priority); more LMS threads (gcs_server_processes) help only \
                     where processors are free."
            .to_owned(),
    }
}

/// Requests behind others for the same block.
pub(super) fn master_queue(case: &Case<'_>) -> Vec<Finding> {
    const PART: usize = 1;
    let finding = |(from, pairs): (i64, Vec<Pair>)| {
        let mut evidence: Vec<String> = pairs.iter().map(Pair::told).collect();
        let objects = hot_objects(case);
        evidence.extend(
            objects.iter().take(3).map(|(name, n)| format!("{name}: {} blocks", count(*n))),
        );
        Finding {
            cost_us: cost(&pairs, PART),
            sentence: format!(
                "{} asks instance {from} for blocks that several instances want at once, and stands \
                 in a queue for each.",
                receivers(&pairs)
            ),
            evidence,
            remedy: "keep the work on the same rows on one instance, or spread the rows."
                .to_owned(),
        }
    };
    mostly(case, PART, SHORT_MS_MIN).into_iter().map(finding).collect()
}

fn idle_processors(case: &Case<'_>, instance: i64) -> Option<String> {
    let work = case.interval.works.iter().find(|work| work.instance == instance)?;
    let table = work.table("wrh$_osstat")?;
    let of = |name: &str| table.row(name).map(|row| table.added(row, "value"));
    let (idle, busy) = (of("IDLE_TIME")?, of("BUSY_TIME")?);
    Some(format!(
        "its machine's processors were idle for {} % of the time",
        percent(idle, idle + busy)
    ))
}

/// Long work on each block: copies that need much undo.
pub(super) fn lms_work(case: &Case<'_>) -> Vec<Finding> {
    const PART: usize = 3;
    let finding = |(from, pairs): (i64, Vec<Pair>)| {
        let mut evidence: Vec<String> = pairs.iter().map(Pair::told).collect();
        let work = case.interval.works.iter().find(|work| work.instance == from);
        let undo = "data blocks consistent reads - undo records applied";
        evidence.extend(work.and_then(|work| work.stat(undo)).map(|applied| {
            format!("instance {from} applied {} undo records to make copies", count(applied))
        }));
        Finding {
            cost_us: cost(&pairs, PART),
            sentence: format!(
                "LMS of instance {from} works long on each block that {} asks for: it takes changes \
                 back to make consistent copies.",
                receivers(&pairs)
            ),
            evidence,
            remedy:
                "shorten the transactions that change what others read, or read it where it is \
                     changed."
                    .to_owned(),
        }
    };
    mostly(case, PART, SHORT_MS_MIN).into_iter().map(finding).collect()
}

/// What is left is the way there and back.
pub(super) fn interconnect(case: &Case<'_>) -> Vec<Finding> {
    const PART: usize = 0;
    let finding = |(from, pairs): (i64, Vec<Pair>)| Finding {
        cost_us: cost(&pairs, PART),
        sentence: format!(
            "the way between instance {from} and {} is slow: most of the wait for a block passes \
             outside LMS and the log writer.",
            receivers(&pairs)
        ),
        evidence: pairs.iter().map(Pair::told).collect(),
        remedy: "look at the interconnect, and whether the asking instance gets processor time."
            .to_owned(),
    };
    mostly(case, PART, PART_MS_MIN).into_iter().map(finding).collect()
}

/// Blocks in use where they are asked for.
pub(super) fn pins(case: &Case<'_>) -> Vec<Finding> {
    const PART: usize = 4;
    let finding = |(from, pairs): (i64, Vec<Pair>)| Finding {
        cost_us: cost(&pairs, PART),
        sentence: format!(
            "blocks that {} asks for are in use on instance {from} and sent late for that.",
            receivers(&pairs)
        ),
        evidence: pairs.iter().map(Pair::told).collect(),
        remedy: "keep the work on the same blocks on one instance.".to_owned(),
    };
    mostly(case, PART, SHORT_MS_MIN).into_iter().map(finding).collect()
}

/// Events of sessions that want the same blocks at the same time.
const HOT: [&str; 6] = [
    "gc buffer busy acquire",
    "gc buffer busy release",
    "gc current block busy",
    "gc cr block busy",
    "buffer busy waits",
    "read by other session",
];

/// A few blocks that all want: by the objects with most of the transfers, and their statements.
pub(super) fn hot_blocks(case: &Case<'_>) -> Vec<Finding> {
    let (waits, us) = case.events(&HOT);
    // Late for another reason, which has a rule of its own: what waited for a flush.
    let flushed = cost(&pairs(case), 5);
    let us = (us - flushed).max(0.0);
    if waits <= 0.0 {
        return Vec::new();
    }
    let mut evidence = vec![format!(
        "{}, {} ms each beside what waited for log writers",
        waits_of(waits),
        number(ms_each(us, waits), 2)
    )];
    let objects = hot_objects(case);
    let Some((object, _)) = objects.first().cloned() else {
        // Without an object there is no saying which blocks they are.
        return Vec::new();
    };
    evidence.extend(
        objects.iter().take(3).map(|(name, value)| {
            format!("{name}: {} blocks received or waited for", count(*value))
        }),
    );
    evidence.extend(users(case, |statement| statement.cluster_us));
    vec![Finding {
        cost_us: us,
        sentence: format!("sessions wait for blocks that others are using, of {object} above all."),
        evidence,
        remedy: "spread the rows (a hash in the key, a reverse index), or keep this work on one \
                 instance."
            .to_owned(),
    }]
}

/// Segments with most blocks received and waited for.
fn hot_objects(case: &Case<'_>) -> Vec<(String, f64)> {
    const WANTED: [&str; 4] = [
        "gc buffer busy",
        "buffer busy waits",
        "gc cr blocks received",
        "gc current blocks received",
    ];
    let Some(table) = case.all.table("wrh$_seg_stat") else { return Vec::new() };
    let mut all: Vec<(String, f64)> = Vec::new();
    for row in &table.rows {
        if !WANTED.contains(&row.keys[4].as_str()) {
            continue;
        }
        let name = segment_name(row);
        let value = table.added(row, "value");
        match all.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += value,
            None => all.push((name, value)),
        }
    }
    all.retain(|(_, value)| *value > 0.0);
    all.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all
}
