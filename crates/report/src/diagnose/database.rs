//! Rules about what a single instance has too: commits, locks, log space, reads, indexes.

use super::sequences::most_loaded;
use super::statements::{users, waiters};
use super::{Blocker, Case, Finding, event_of, ms_each, waits_of};
use crate::awr::Work;
use crate::awr::page::{count, number, percent};

/// A write of redo that takes as long as this is slow.
const REDO_WRITE_MS: f64 = 5.0;
/// The write is the cause of slow commits if it is so much of their wait: who commits while one is
/// under way waits for two.
const WRITE_PART: f64 = 0.4;
/// Waits for commits are those of sequences' refills too if these are so much of both.
const REFILLS_PART: f64 = 0.3;

/// Why commits take long.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Cause {
    Writes,
    /// The others acknowledge later than the redo is on disk.
    Acknowledged,
    Many,
    /// Of this sequence.
    Refills(String),
}

impl Cause {
    /// The sentence and what is to be done; `on`: the instances.
    fn told(&self, on: &str) -> (String, String) {
        let (sentence, remedy) = match self {
            Cause::Writes => (
                format!("commits on {on} wait for slow writes of the redo log."),
                "a faster device for the redo log.",
            ),
            Cause::Acknowledged => (
                format!(
                    "commits on {on} wait for the other instances to acknowledge them when their \
                     redo is on disk already."
                ),
                "look at the processors of all instances and whether their LMS get to run, and at \
                 the interconnect.",
            ),
            Cause::Many => (
                format!("clients of {on} wait for their commits; a single write is not slow."),
                "commit less often: several rows in one transaction.",
            ),
            Cause::Refills(name) => {
                let sentence = format!(
                    "clients of {on} wait for refills of sequence {name} to be on disk, as they do \
                     for their commits."
                );
                return (sentence, format!("alter sequence {name} cache 1000."));
            }
        };
        (sentence, remedy.to_owned())
    }
}

/// One cause on one instance.
struct Waited {
    cause: Cause,
    us: f64,
    evidence: Vec<String>,
}

/// What is waited for where the device is not slow: commits are many. Each refill of a sequence is
/// one too; whose they are decides what is to be done.
fn many_commits(work: &Work, us: f64, mut evidence: Vec<String>) -> Vec<Waited> {
    let users = work.stat("user commits").unwrap_or(0.0);
    let refills = work.table("wrh$_sequences").map_or(0.0, |table| table.sum("loads"));
    let part = if refills > 0.0 { refills / (users + refills) } else { 0.0 };
    if refills > 0.0 {
        evidence.push(format!(
            "{} commits of clients, {} refills of sequences",
            count(users),
            count(refills)
        ));
    }
    let Some((name, loads)) = most_loaded(work).filter(|_| part >= REFILLS_PART) else {
        return vec![Waited { cause: Cause::Many, us: us * (1.0 - part), evidence }];
    };
    let own = Waited { cause: Cause::Many, us: us * (1.0 - part), evidence: evidence.clone() };
    evidence.push(format!("sequence {name} was refilled {} times", count(loads)));
    vec![Waited { cause: Cause::Refills(name), us: us * part, evidence }, own]
}

/// What commits of an instance wait for: their redo, and what goes on behind that.
fn commits_of(work: &Work) -> Vec<Waited> {
    let (commits, us) = event_of(work, "log file sync");
    if commits <= 0.0 {
        return Vec::new();
    }
    let written = work.table("wrh$_system_event").and_then(|table| {
        let row = table.row("log file parallel write")?;
        Some((table.added(row, "total_waits"), table.added(row, "time_waited_micro")))
    });
    let (writes, write_us) = written.unwrap_or((0.0, 0.0));
    let (sync_ms, write_ms) = (ms_each(us, commits), ms_each(write_us, writes));
    let synced = format!(
        "instance {}: {} for `log file sync`, {} ms each; {} writes of redo, {} ms each",
        work.instance,
        waits_of(commits),
        number(sync_ms, 2),
        count(writes),
        number(write_ms, 2)
    );
    let slow = write_ms >= REDO_WRITE_MS && write_ms >= WRITE_PART * sync_ms;
    let mut all = match slow {
        true => vec![Waited { cause: Cause::Writes, us, evidence: vec![synced.clone()] }],
        false => many_commits(work, us, vec![synced.clone()]),
    };
    // The others are asked while the redo is written, and both waits are counted: what goes on
    // behind the write is the acknowledgements' alone.
    let (acks, ack_us) = event_of(work, "wait for scn ack");
    if ack_us > us {
        let acknowledged = format!(
            "{} for the other instances to acknowledge (`wait for scn ack`), {} ms each",
            waits_of(acks),
            number(ms_each(ack_us, acks), 2)
        );
        let evidence = vec![synced, acknowledged];
        all.push(Waited { cause: Cause::Acknowledged, us: ack_us - us, evidence });
    }
    all
}

/// Commits that wait for their redo to be on disk. One cause on several instances is one finding:
/// each part alone may be too small to be told.
pub(super) fn commits(case: &Case<'_>) -> Vec<Finding> {
    let mut causes: Vec<(Vec<String>, Waited)> = Vec::new();
    for work in &case.interval.works {
        for waited in commits_of(work) {
            let k = work.instance.to_string();
            match causes.iter_mut().find(|(_, known)| known.cause == waited.cause) {
                Some((instances, known)) => {
                    instances.push(k);
                    known.us += waited.us;
                    known.evidence.extend(waited.evidence);
                }
                None => causes.push((vec![k], waited)),
            }
        }
    }
    let (outcomes, outcome_us) = case.event("commit outcome");
    let outcome = format!(
        "{} for commits under way to end (`commit outcome`), {} ms each",
        waits_of(outcomes),
        number(ms_each(outcome_us, outcomes), 2)
    );
    let mut others = Vec::new();
    if outcomes > 0.0 {
        // Who meets a row of a commit under way waits for the same writes as who commits.
        match causes.iter_mut().find(|(_, known)| known.cause == Cause::Writes) {
            Some((_, known)) => {
                known.us += outcome_us;
                known.evidence.push(outcome);
            }
            None => others.push(Finding {
                cost_us: outcome_us,
                sentence: "sessions wait for commits of others to end, of rows that they read or \
                           change."
                    .to_owned(),
                evidence: std::iter::once(outcome).chain(waiters(case, "commit outcome")).collect(),
                remedy: "what shortens commits shortens this; keep the work on the same rows on \
                         one instance."
                    .to_owned(),
            }),
        }
    }
    let finding = |(instances, waited): (Vec<String>, Waited)| {
        let on = match &instances[..] {
            [one] => format!("instance {one}"),
            all => format!("instances {}", all.join(", ")),
        };
        let (sentence, remedy) = waited.cause.told(&on);
        Finding { cost_us: waited.us, sentence, evidence: waited.evidence, remedy }
    };
    causes.into_iter().map(finding).chain(others).collect()
}

/// Segments with something in a statistic, the most first.
fn segments(case: &Case<'_>, statistics: &[&str]) -> Vec<(String, f64)> {
    let Some(table) = case.all.table("wrh$_seg_stat") else { return Vec::new() };
    let value = |row: &crate::awr::Row| match statistics.contains(&row.keys[4].as_str()) {
        true => table.added(row, "value"),
        false => 0.0,
    };
    // A segment has a row for each statistic.
    let mut sums: Vec<(String, f64)> = Vec::new();
    for row in table.top(value) {
        let name = segment_name(row);
        match sums.iter_mut().find(|(known, _)| *known == name) {
            Some((_, sum)) => *sum += value(row),
            None => sums.push((name, value(row))),
        }
    }
    sums.sort_by(|(_, a), (_, b)| b.total_cmp(a));
    sums
}

fn sum_of(segments: &[(String, f64)]) -> f64 {
    segments.iter().map(|(_, value)| value).sum()
}

/// What a row of a segment is about, in words.
pub(super) fn segment_name(row: &crate::awr::Row) -> String {
    match &row.keys[..4] {
        [owner, name, _, obj] if owner.is_empty() && name.is_empty() => {
            format!("object {obj}, which is no more")
        }
        [owner, name, kind, ..] => format!("{} {owner}.{name}", kind.to_lowercase()),
        _ => String::new(),
    }
}

/// Of a statement it is known how long it waited for locks of all kinds: that is evidence if so
/// much of these waits are of one kind.
const APPLICATION_PART: f64 = 0.5;

/// Statements that waited for such locks: as samples have it; without any, those that waited for
/// locks, if most of that was this.
fn users_of_locks(case: &Case<'_>, event: &str, us: f64) -> Vec<String> {
    let sampled = waiters(case, event);
    if !sampled.is_empty() {
        return sampled;
    }
    match us >= APPLICATION_PART * case.class_us("Application") {
        true => users(case, |statement| statement.application_us),
        false => Vec::new(),
    }
}

/// Rows that others have locked.
pub(super) fn row_locks(case: &Case<'_>) -> Vec<Finding> {
    const EVENT: &str = "enq: TX - row lock contention";
    let (waits, us) = case.event(EVENT);
    if waits <= 0.0 {
        return Vec::new();
    }
    let mut evidence =
        vec![format!("{}, {} ms each", waits_of(waits), number(ms_each(us, waits), 1))];
    let tables = segments(case, &["row lock waits"]);
    evidence
        .extend(tables.iter().take(3).map(|(name, value)| format!("{name}: {}", waits_of(*value))));
    evidence.extend(blockers(case, EVENT));
    evidence.extend(users_of_locks(case, EVENT, us));
    let whose = tables.first().map_or(String::new(), |(name, _)| format!(", of {name} above all"));
    vec![Finding {
        cost_us: us,
        sentence: format!("sessions wait for rows that other transactions have locked{whose}."),
        evidence,
        remedy: "commit sooner after the change; change the rows that many want last in the \
                 transaction."
            .to_owned(),
    }]
}

/// Who held the locks that sessions waited for, as samples have it.
fn blockers(case: &Case<'_>, event: &str) -> Vec<String> {
    let of_event = case.beside.blockers.iter().filter(|blocker| blocker.event == event);
    let told = |blocker: &Blocker| {
        let Blocker { instance, session, samples, .. } = blocker;
        format!("session {session} of instance {instance} held the lock in {samples} samples")
    };
    of_event.take(3).map(told).collect()
}

/// Tables that others have locked as a whole, or change.
pub(super) fn table_locks(case: &Case<'_>) -> Vec<Finding> {
    const EVENT: &str = "enq: TM - contention";
    let (waits, us) = case.event(EVENT);
    if waits <= 0.0 {
        return Vec::new();
    }
    let mut evidence =
        vec![format!("{}, {} ms each", waits_of(waits), number(ms_each(us, waits), 1))];
    evidence.extend(blockers(case, EVENT));
    evidence.extend(users_of_locks(case, EVENT, us));
    let first = case.beside.waiters.iter().find(|w| w.event == EVENT && w.object.is_some());
    let whose = first.and_then(|w| w.object.as_ref());
    let whose = whose.map_or(String::new(), |table| format!(", {table} above all"));
    vec![Finding {
        cost_us: us,
        sentence: format!("sessions wait for tables that other transactions have locked{whose}."),
        evidence,
        remedy: "change definitions and lock whole tables when few work on them, and commit soon."
            .to_owned(),
    }]
}

/// Blocks without room for one more transaction.
pub(super) fn itl(case: &Case<'_>) -> Vec<Finding> {
    let (waits, us) = case.event("enq: TX - allocate ITL entry");
    if waits <= 0.0 {
        return Vec::new();
    }
    let mut evidence =
        vec![format!("{}, {} ms each", waits_of(waits), number(ms_each(us, waits), 1))];
    let tables = segments(case, &["ITL waits", "itl waits"]);
    evidence
        .extend(tables.iter().take(3).map(|(name, value)| format!("{name}: {}", waits_of(*value))));
    vec![Finding {
        cost_us: us,
        sentence: "blocks have no room for the entries of more transactions at once.".to_owned(),
        evidence,
        remedy: "fewer rows in a block, or shorter transactions.".to_owned(),
    }]
}

const LOG_SPACE: [&str; 2] = ["log buffer space", "log file switch (checkpoint incomplete)"];

/// Redo that has nowhere to go.
pub(super) fn log_space(case: &Case<'_>) -> Vec<Finding> {
    let (waits, us) = case.events(&LOG_SPACE);
    if waits <= 0.0 {
        return Vec::new();
    }
    let told = LOG_SPACE.iter().map(|name| (name, case.event(name))).filter(|(_, (n, _))| *n > 0.0);
    vec![Finding {
        cost_us: us,
        sentence: "changes wait for room in the redo log.".to_owned(),
        evidence: told
            .map(|(name, (n, us))| {
                format!("`{name}`: {}, {} ms each", waits_of(n), number(ms_each(us, n), 1))
            })
            .collect(),
        remedy: "larger or more log files (log_file_size, log_files), a larger log_buffer, or \
                 faster devices for what checkpoints write."
            .to_owned(),
    }]
}

const READS: [&str; 3] =
    ["db file sequential read", "db file scattered read", "db file parallel read"];

/// Blocks that are not in any instance's memory.
pub(super) fn reads(case: &Case<'_>) -> Vec<Finding> {
    let (waits, us) = case.events(&READS);
    if waits <= 0.0 {
        return Vec::new();
    }
    let blocks = case.all.stat("physical reads").unwrap_or(0.0);
    let mut evidence = vec![format!(
        "{} reads that clients waited for, {} ms each; {} % of the blocks visited came from disk",
        count(waits),
        number(ms_each(us, waits), 2),
        percent(blocks, case.all.gets())
    )];
    evidence.extend(
        segments(case, &["physical reads"])
            .iter()
            .take(3)
            .map(|(name, value)| format!("{name}: {} blocks", count(*value))),
    );
    vec![Finding {
        cost_us: us,
        sentence: "sessions wait for blocks from disk.".to_owned(),
        evidence,
        remedy: "a larger db_cache_size, statements that visit fewer blocks, or faster devices."
            .to_owned(),
    }]
}

const TEMPORARY: [&str; 2] = ["direct path read temp", "direct path write temp"];

/// Work that memory does not hold.
pub(super) fn temporary_files(case: &Case<'_>) -> Vec<Finding> {
    let (waits, us) = case.events(&TEMPORARY);
    if waits <= 0.0 {
        return Vec::new();
    }
    let told = TEMPORARY.iter().map(|name| (name, case.event(name))).filter(|(_, (n, _))| *n > 0.0);
    vec![Finding {
        cost_us: us,
        sentence: "sorts, groups and joins write to temporary files what memory does not hold."
            .to_owned(),
        evidence: told
            .map(|(name, (n, us))| {
                format!("`{name}`: {}, {} ms each", waits_of(n), number(ms_each(us, n), 2))
            })
            .collect(),
        remedy: "a larger pga_aggregate_target, or statements that sort and join less.".to_owned(),
    }]
}

/// Waits for blocks in use, whosever they are.
const IN_USE: [&str; 3] = ["gc buffer busy acquire", "gc current block busy", "buffer busy waits"];
/// Splits at the right end, and their part of all leaf splits, that make an index a growing one.
const RIGHT_SPLITS_MIN: f64 = 10.0;
const RIGHT_PART_MIN: f64 = 0.15;
/// It grows nowhere else. With values that each instance keeps some of, the others' are left of the
/// newest: those leaves split in the middle, though all grow at the end.
const RIGHT_ALONE_MIN: f64 = 0.7;

/// Keys that always grow: everybody inserts into the last leaf.
pub(super) fn right_growing(case: &Case<'_>) -> Vec<Finding> {
    let all = case.all.stat("leaf node splits").unwrap_or(0.0);
    let right = case.all.stat("leaf node 90-10 splits").unwrap_or(0.0);
    let wanted = ["gc current blocks received", "gc buffer busy", "buffer busy waits"];
    let (mut indexes, others): (Vec<_>, Vec<_>) =
        segments(case, &wanted).into_iter().partition(|(name, _)| name.starts_with("index"));
    let (of_indexes, of_others) = (sum_of(&indexes), sum_of(&others));
    // Whose block was waited for is known of the segments only: indexes have their part.
    let part = if of_indexes > 0.0 { of_indexes / (of_indexes + of_others) } else { 0.0 };
    let (splits, splits_us) = case.event("enq: TX - index contention");
    let (in_use, in_use_us) = case.events(&IN_USE);
    let (waits, us) = (splits + part * in_use, splits_us + part * in_use_us);
    if waits <= 0.0 || right < RIGHT_SPLITS_MIN || right < RIGHT_PART_MIN * all {
        return Vec::new();
    }
    indexes.truncate(3);
    let mut evidence = vec![
        format!("{} of {} leaf splits were at the right end", count(right), count(all)),
        format!(
            "{} for index blocks in use, {} ms each",
            waits_of(waits),
            number(ms_each(us, waits), 2)
        ),
    ];
    evidence.extend(indexes.iter().map(|(name, value)| {
        format!("{name}: {} times received, or waited for in use", count(*value))
    }));
    let whose = indexes.first().map_or("an index".to_owned(), |(name, _)| name.clone());
    vec![Finding {
        cost_us: us,
        sentence: match right >= RIGHT_ALONE_MIN * all {
            true => format!(
                "{whose} grows at its right end only: all sessions insert into its last block."
            ),
            false => {
                format!("{whose} grows at its right end: sessions insert into its last blocks.")
            }
        },
        evidence,
        remedy: "a sequence with a large cache for each instance's values, or a reverse index."
            .to_owned(),
    }]
}
