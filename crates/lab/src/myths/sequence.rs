//! Myth 4: "sequences without a cache avoid gaps and cost nothing".
//!
//! What it promises: the paper's block, as the paper has it, on one session, on several of one
//! instance and on one of each instance, with trace on; how often the dictionary is changed is
//! counted to the value.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::PathBuf;

use super::bed::{Bed, Session, together};
use super::check::{Check, Kind, Spread, shown};
use super::report::{Chart, Report, Table};
use super::tkprof::{Statement, top_waits};
use super::{Experiment, Stage};

pub const EXPERIMENT: Experiment = Experiment {
    name: "myth4",
    title: "Set sequences to nocache to avoid gaps",
    about: "An anonymous block inserts rows whose key is the next value of a sequence and commits \
            each 1000, with event 10046, level 8: in one session, in a session for each instance \
            on one instance, and in one on each instance at once, with cache 1, 20 and 1000. \
            Checked: one change of the dictionary for each value or each range, every value once, \
            the walk of the high-water mark, the wait on top of tkprof, and what instances pay for \
            one another.",
    sizes: "10,000 inserts a session",
    takes: "2 minutes",
    timed_from: 0.2,
    instances: (2, 2, 8),
    clients_on: None,
    run: |stage| Box::pin(run(stage)),
};

const ROWS: u32 = 10_000;
const CACHES: [i64; 3] = [1, 20, 1000];

/// Of the paper, seconds: one node, two nodes at once.
const PAPER_ALONE_S: f64 = 7.66;
const PAPER_BOTH_S: f64 = 81.23;
/// What two instances may take beyond one session, with cache 1.
const RATIO_MAX: f64 = 3.0;
/// What instances may take beyond as many sessions on one of them, with a cache.
const CACHED_RATIO_MAX: f64 = 1.2;
/// Waits on the dictionary's entry.
const ENTRY_WAITS: [&str; 2] = ["row cache lock", "enq: SQ - contention"];

/// The paper's block; so many rows.
fn block(rows: u32) -> String {
    format!(
        "declare
  l_v1 varchar2(512);
  l_n1 number :=0;
begin
 for loop_cnt in 1 .. {rows}
  loop
      -- Random access
      -- Also making undo blocks to be pinged..
      insert into t1
      select t1_seq.nextval, lpad( loop_cnt, 500, 'x') from dual;
      if mod(loop_cnt, 1000) =0 then
        commit;
      end if;
   end loop;
end;"
    )
}

/// Who runs the block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Way {
    Alone,
    OnOne,
    OnEach,
}

impl Way {
    const ALL: [Way; 3] = [Way::Alone, Way::OnOne, Way::OnEach];

    const fn name(self) -> &'static str {
        match self {
            Way::Alone => "one session",
            Way::OnOne => "all sessions on one instance",
            Way::OnEach => "a session on each instance",
        }
    }

    const fn figure(self) -> &'static str {
        match self {
            Way::Alone => "alone",
            Way::OnOne => "on_one",
            Way::OnEach => "on_each",
        }
    }

    fn instances(self, count: usize) -> Vec<usize> {
        match self {
            Way::Alone => vec![1],
            Way::OnOne => vec![1; count],
            Way::OnEach => (1..=count).collect(),
        }
    }
}

/// One turn of a way.
struct Turn {
    elapsed_s: f64,
    changes: i64,
    distinct: i64,
    last_number: i64,
    profile: String,
    statements: Vec<Statement>,
}

/// Changes of the dictionary for so many values.
fn changes_wanted(cache: i64, rows: i64, sessions: i64, way: Way) -> i64 {
    let ranges = |values: i64| (values + cache - 1) / cache;
    match way {
        Way::Alone | Way::OnOne => ranges(rows * sessions),
        Way::OnEach => ranges(rows) * sessions,
    }
}

/// All turns of one cache.
#[derive(Default)]
struct Found {
    elapsed: BTreeMap<Way, Spread>,
    last: BTreeMap<Way, Turn>,
}

async fn run(stage: Stage) -> Result<Report, String> {
    let (rounds, instances) = (stage.request.rounds, stage.request.instances);
    let rows = stage.request.scaled(ROWS, 20);
    stage.steps(1 + CACHES.len() * rounds * Way::ALL.len());
    stage.step("making the cluster");
    let bed = Bed::open(&stage.cluster, instances, &stage.request.set, &[])?;
    let mut report = stage.report();
    report.circumstances.push(("trace".into(), "event 10046, level 8, in every session".into()));
    report.circumstances.push(("inserts a session".into(), rows.to_string()));
    walks(&bed, &mut report).await?;
    let mut all = Vec::new();
    for cache in CACHES {
        let mut found = Found::default();
        for round in 0..rounds {
            let mut ways = Way::ALL;
            // Whoever comes first in one round comes last in the next.
            if round % 2 == 1 {
                ways.reverse();
            }
            for way in ways {
                let name = way.name();
                stage.step(format!("cache {cache}, {name}, round {} of {rounds}", round + 1));
                let turn = turn(&bed, cache, rows, way, round).await?;
                check_counts(&mut report, cache, rows, way, round, &turn, instances);
                found.elapsed.entry(way).or_default().add(turn.elapsed_s);
                found.last.insert(way, turn);
            }
        }
        all.push((cache, found));
    }
    tell(&mut report, &all, instances, rows);
    Ok(report)
}

async fn turn(bed: &Bed, cache: i64, rows: u32, way: Way, round: usize) -> Result<Turn, String> {
    let maker = bed.session(1).await?;
    for text in [
        "drop table if exists t1",
        "drop sequence if exists t1_seq",
        "create table t1 (n1 number, v1 varchar2(512))",
    ] {
        maker.run(text).await?;
    }
    maker.run(&format!("create sequence t1_seq cache {cache}")).await?;
    let mut sessions: Vec<Session> = Vec::new();
    let mut traces: Vec<PathBuf> = Vec::new();
    for (at, instance) in way.instances(bed.instances).into_iter().enumerate() {
        let session = bed.session(instance).await?;
        // What has to be read of the dictionary is read before.
        session.rows("select count(*) from t1").await?;
        session.rows("select is_called from t1_seq").await?;
        let name = format!("c{cache}_{}_{round}_{at}", way.figure());
        traces.push(session.trace_on(&name).await?);
        sessions.push(session);
    }
    let elapsed_s = together(&sessions, &block(rows)).await?;
    for session in &sessions {
        session.trace_off().await?;
    }
    let (profile, statements) = bed.tkprof(&traces)?;
    let of_dictionary = |s: &&Statement| s.text.starts_with("update seq$ set");
    let changes = statements.iter().filter(of_dictionary).map(|s| s.execute.count).sum();
    let last = "select last_number from dba_sequences where sequence_name = 'T1_SEQ'";
    Ok(Turn {
        elapsed_s,
        changes,
        distinct: maker.number("select count(distinct n1) from t1").await?,
        last_number: maker.number(last).await?,
        profile,
        statements,
    })
}

fn check_counts(
    report: &mut Report,
    cache: i64,
    rows: u32,
    way: Way,
    round: usize,
    turn: &Turn,
    instances: usize,
) {
    let sessions = i64::try_from(way.instances(instances).len()).unwrap_or(i64::MAX);
    let changes = changes_wanted(cache, i64::from(rows), sessions, way);
    let what = |what: &str| format!("cache {cache}, {}, round {}: {what}", way.name(), round + 1);
    report.checks.push(Check::count(what("changes of seq$"), changes, turn.changes));
    let values = i64::from(rows) * sessions;
    report.checks.push(Check::count(what("different values"), values, turn.distinct));
    report.checks.push(Check::count(what("LAST_NUMBER"), changes * cache, turn.last_number));
}

/// Values taken in turns by two instances, with the high-water mark after each.
async fn walks(bed: &Bed, report: &mut Report) -> Result<(), String> {
    let first = bed.session(1).await?;
    let second = bed.session(2).await?;
    for (cache, steps, wanted) in [
        (
            "cache 20",
            &[(1, 1), (2, 1), (1, 19), (1, 1)][..],
            "9 | 1: 10 hw 29 | 2: 30 hw 49 | 1: 11-29 hw 49 | 1: 50 hw 69",
        ),
        ("nocache", &[(1, 1), (2, 1), (1, 1)][..], "9 | 1: 10 hw 10 | 2: 11 hw 11 | 1: 12 hw 12"),
    ] {
        first.run("drop sequence if exists walk").await?;
        first.run(&format!("create sequence walk start with 10 {cache}")).await?;
        // Its maker gives the definition up when another instance first reads it.
        second.rows("select is_called from walk").await?;
        let highwater = "select last_number from dba_sequences where sequence_name = 'WALK'";
        let mut story = first.number(highwater).await?.to_string();
        for (instance, count) in steps {
            let session = if *instance == 1 { &first } else { &second };
            let mut values = Vec::new();
            for _ in 0..*count {
                values.push(session.number("select walk.nextval from dual").await?);
            }
            let whole = values.windows(2).all(|two| two[0] + 1 == two[1]);
            let range = match (&values[..], whole) {
                ([one], _) => one.to_string(),
                ([a, .., b], true) => format!("{a}-{b}"),
                _ => format!("{values:?}"),
            };
            let mark = first.number(highwater).await?;
            let _ = write!(story, " | {instance}: {range} hw {mark}");
        }
        let what = format!("walk of the high-water mark, {cache}");
        report.checks.push(Check::story(what, wanted, &story));
    }
    Ok(())
}

fn tell(report: &mut Report, all: &[(i64, Found)], instances: usize, rows: u32) {
    let mut table = Table::new(
        format!("{rows} inserts a session, {instances} instances: seconds until the last is done"),
        &[
            "cache",
            "way",
            "median (range)",
            "paper",
            "changes of seq$",
            "row cache lock",
            "enq: SQ",
        ],
    );
    let mut chart = Chart {
        title: "Elapsed seconds, medians".into(),
        unit: "s".into(),
        series: vec!["Skein".into(), "paper (10,000 inserts)".into()],
        groups: Vec::new(),
    };
    for (cache, found) in all {
        for way in Way::ALL {
            let (Some(elapsed), Some(turn)) = (found.elapsed.get(&way), found.last.get(&way))
            else {
                continue;
            };
            let paper = match (cache, way) {
                (1, Way::Alone) => PAPER_ALONE_S,
                (1, Way::OnEach) => PAPER_BOTH_S,
                _ => f64::NAN,
            };
            let shown_paper = if paper.is_nan() { "-".into() } else { shown(paper, "s") };
            let waits = top_waits(&turn.statements);
            let wait = |event: &str| {
                let found = waits.iter().find(|w| w.event == event);
                found.map_or("-".into(), |w| format!("{} x, {}", w.times, shown(w.total_s, "s")))
            };
            table.row(vec![
                cache.to_string(),
                way.name().into(),
                elapsed.text("s"),
                shown_paper,
                turn.changes.to_string(),
                wait(ENTRY_WAITS[0]),
                wait(ENTRY_WAITS[1]),
            ]);
            chart.groups.push((
                format!("cache {cache}, {}", way.figure().replace('_', " ")),
                if paper.is_nan() { vec![elapsed.median()] } else { vec![elapsed.median(), paper] },
            ));
            report.figure(format!("cache_{cache}.{}.median_s", way.figure()), elapsed.median());
        }
    }
    report.tables.push(table);
    report.charts.push(chart);
    for (cache, found) in all {
        ratios(report, *cache, found, instances);
    }
    if let Some((_, found)) = all.first()
        && let Some(turn) = found.last.get(&Way::OnEach)
    {
        top_of_tkprof(report, turn);
    }
}

fn ratios(report: &mut Report, cache: i64, found: &Found, instances: usize) {
    let median = |way| found.elapsed.get(&way).map_or(f64::NAN, Spread::median);
    let (base, limit) = match cache {
        1 => (Way::Alone, RATIO_MAX),
        _ => (Way::OnOne, CACHED_RATIO_MAX),
    };
    let ratio = median(Way::OnEach) / median(base);
    report.figure(format!("cache_{cache}.ratio"), ratio);
    let what = format!("cache {cache}: {} to {}", Way::OnEach.name(), base.name());
    if cache == 1 && instances > 2 {
        // The bound is one for two instances.
        report.findings.push(format!("{what}: {} with {instances} instances.", shown(ratio, "")));
        return;
    }
    let paper = if cache == 1 { " (paper: 10.6)" } else { "" };
    let kind = report.timed();
    report.checks.push(Check::at_most(kind, what + paper, limit, ratio, ""));
}

/// What the sessions of all instances waited for, without a cache.
fn top_of_tkprof(report: &mut Report, turn: &Turn) {
    let waits = top_waits(&turn.statements);
    let mut table = Table::new(
        "Cache 1, a session on each instance: waits of the traces by tkprof",
        &["event", "times", "longest", "total", "paper"],
    );
    for wait in waits.iter().take(8) {
        let paper = match wait.event.as_str() {
            "row cache lock" => "5413 x, 62.86 s",
            "gc current block 2-way" => "63 x, 0.41 s",
            "gc cr block 2-way" => "46 x, 0.06 s",
            _ => "-",
        };
        let (max, total) = (shown(wait.max_s, "s"), shown(wait.total_s, "s"));
        table.row(vec![wait.event.clone(), wait.times.to_string(), max, total, paper.into()]);
    }
    report.tables.push(table);
    // Of a few inserts the first look at the definitions may take longer than all the rest.
    let kind = report.timed();
    report.checks.push(top_check(kind, waits.first().map(|w| w.event.as_str())));
    report.listings.push(("tkprof of these traces".into(), turn.profile.clone()));
}

fn top_check(kind: Kind, top: Option<&str>) -> Check {
    let holds = top.is_some_and(|event| ENTRY_WAITS.contains(&event));
    let what = "cache 1, a session on each instance: top wait of tkprof";
    Check::that(kind, what, ENTRY_WAITS.join(" or "), top.unwrap_or("none"), holds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_one_change_and_instances_share_none() {
        assert_eq!(changes_wanted(1, 100, 2, Way::OnEach), 200);
        assert_eq!(changes_wanted(20, 100, 1, Way::Alone), 5);
        assert_eq!(changes_wanted(20, 30, 2, Way::OnOne), 3);
        assert_eq!(changes_wanted(20, 30, 2, Way::OnEach), 4);
    }

    fn turn(changes: i64, distinct: i64, last_number: i64) -> Turn {
        let (profile, statements) = (String::new(), Vec::new());
        Turn { elapsed_s: 1.0, changes, distinct, last_number, profile, statements }
    }

    #[test]
    fn a_value_given_twice_or_a_change_too_many_is_found() {
        let fails = |turn: &Turn| {
            let mut report = Report::default();
            check_counts(&mut report, 20, 100, Way::OnEach, 0, turn, 2);
            report.failures().map(|check| check.what.clone()).collect::<Vec<_>>()
        };
        assert!(fails(&turn(10, 200, 200)).is_empty());
        assert_eq!(fails(&turn(11, 200, 200)).len(), 1);
        let twice = fails(&turn(10, 199, 200));
        assert!(twice[0].ends_with("different values"), "{twice:?}");
        assert_eq!(fails(&turn(10, 200, 220)).len(), 1);
    }

    #[test]
    fn the_wait_on_top_must_be_the_dictionarys_entry() {
        assert!(!top_check(Kind::Effect, Some("row cache lock")).fails());
        assert!(top_check(Kind::Effect, Some("gc current block busy")).fails());
        assert!(top_check(Kind::Effect, None).fails());
    }

    #[test]
    fn instances_may_cost_one_another_so_much_and_no_more() {
        let fails = |cache: i64, base: Way, base_s: f64, each_s: f64| {
            let mut found = Found::default();
            found.elapsed.entry(base).or_default().add(base_s);
            found.elapsed.entry(Way::OnEach).or_default().add(each_s);
            let mut report = Report::default();
            ratios(&mut report, cache, &found, 2);
            report.failures().count()
        };
        assert_eq!((fails(1, Way::Alone, 1.0, 2.9), fails(1, Way::Alone, 1.0, 3.1)), (0, 1));
        assert_eq!((fails(20, Way::OnOne, 1.0, 1.1), fails(20, Way::OnOne, 1.0, 1.3)), (0, 1));
    }
}
