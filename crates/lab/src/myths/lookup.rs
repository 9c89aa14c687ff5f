//! Myth 5: "small tables should not be indexed".
//!
//! What it promises: the paper's table and block on all instances at once, with and without the
//! index, in turns; the blocks that each session visits are counted to the block.

use std::path::PathBuf;

use super::bed::{Bed, Session, together};
use super::check::{Check, Spread, shown};
use super::report::{Chart, Report, Table};
use super::tkprof::Statement;
use super::work::{self, Work};
use super::{Experiment, Stage};

pub const EXPERIMENT: Experiment = Experiment {
    name: "myth5",
    title: "Small tables need no index",
    about: "A table of 10,001 rows is looked into at random by an anonymous block, with event \
            10046, level 8, on all instances at once: by a full scan, and by an index, in turns. \
            Checked: a scan visits the blocks of the segment below the high-water mark and its \
            header, a look-up by the index three; nothing is read from disk and nothing asked of \
            another instance; the index is at least ten times as fast.",
    sizes: "100,000 look-ups a session",
    takes: "3 minutes",
    timed_from: 0.01,
    instances: (1, 2, 8),
    clients_on: None,
    run: |stage| Box::pin(run(stage)),
};

const LOOKUPS: u32 = 100_000;
/// Blocks of a look-up by the index: its root, a leaf, and the row's.
const GETS_BY_INDEX: i64 = 3;
/// Blocks that one block of the free map tells of; it is no block of rows.
const BLOCKS_OF_A_MAP: i64 = 8_000;
const RATIO_MIN: f64 = 10.0;
/// What is to be beaten, µs an execution inside the server.
const LOOKUP_US_MAX: f64 = 5.0;
const SCAN_US_MAX: f64 = 64.0;
const PAPER_SCAN_S: f64 = 66.79;
const PAPER_INDEX_S: f64 = 3.40;

const TABLE: &str = "
create table t_small2 (n1 number, v1 varchar2(10) ) tablespace users  ;
insert into t_small2 select n1, lpad(n1,10,'x')
from  (select level n1 from dual connect by level <=10001 );
commit;";
const INDEX: &str = "create index t_small2_n1 on t_small2(n1)";

/// The paper's block; so many look-ups.
fn block(lookups: u32) -> String {
    format!(
        "declare
  v_n1 number;
  v_v1 varchar2(512);
  b_n1 number;
begin
 for i in 1 .. {lookups} loop
   b_n1 := trunc(dbms_random.value (1,10000));
   select n1, v1 into v_n1, v_v1 from t_small2 where n1 =b_n1;
 end loop;
exception
  when no_data_found then
   dbms_output.put_line (b_n1);
end;"
    )
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Side {
    Scan,
    Index,
}

impl Side {
    const fn name(self) -> &'static str {
        match self {
            Side::Scan => "full scan",
            Side::Index => "by the index",
        }
    }

    const fn figure(self) -> &'static str {
        match self {
            Side::Scan => "scan",
            Side::Index => "index",
        }
    }
}

/// Figures of one side over the rounds.
#[derive(Default)]
struct Found {
    elapsed: Spread,
    /// µs of an execution of the query, with its fetch: elapsed and CPU.
    elapsed_us: Spread,
    cpu_us: Spread,
    /// µs of CPU of one turn of the block's loop.
    loop_cpu_us: Spread,
    gets: i64,
    executions: u32,
    profile: String,
}

async fn run(stage: Stage) -> Result<Report, String> {
    let (rounds, instances) = (stage.request.rounds, stage.request.instances);
    let lookups = stage.request.scaled(LOOKUPS, 100);
    stage.steps(1 + 2 * rounds);
    stage.step("making the cluster");
    // Who gathers statistics meanwhile would change plans between two turns.
    let mut set = vec!["autovacuum=off".to_owned()];
    set.extend(stage.request.set.iter().cloned());
    let bed = Bed::open(&stage.cluster, instances, &set, &[])?;
    let mut report = stage.report();
    report.circumstances.push(("trace".into(), "event 10046, level 8, in every session".into()));
    report.circumstances.push(("look-ups a session".into(), lookups.to_string()));
    let maker = bed.session(1).await?;
    maker.run(TABLE).await?;
    let segment = "select hwm_blocks from dba_segments where segment_name = 'T_SMALL2'";
    let segment = maker.number(segment).await?;
    let per_scan = gets_of_scan(segment);
    report.figure("segment_blocks", whole(segment));
    let (mut scan, mut index) = (Found::default(), Found::default());
    for round in 0..rounds {
        let sides =
            if round % 2 == 0 { [Side::Scan, Side::Index] } else { [Side::Index, Side::Scan] };
        for side in sides {
            stage.step(format!("{}, round {} of {rounds}", side.name(), round + 1));
            let (per_lookup, found) = match side {
                Side::Scan => (per_scan, &mut scan),
                Side::Index => (GETS_BY_INDEX, &mut index),
            };
            let done = turn(&bed, side, lookups, round, found).await?;
            for (at, work) in done.iter().enumerate() {
                let who = format!("{}, round {}, instance {}", side.name(), round + 1, at + 1);
                work.check(&mut report, &who, per_lookup * i64::from(lookups));
            }
        }
    }
    tell(&mut report, &scan, &index, lookups, segment);
    Ok(report)
}

/// Blocks that a scan visits: all below the high-water mark, the header among them, but not the
/// maps of free space.
fn gets_of_scan(blocks: i64) -> i64 {
    // Ordinal 1 is a map, and each that is a multiple of so many.
    blocks - 1 - (blocks - 1) / BLOCKS_OF_A_MAP
}

/// The block in a session of each instance; what each of them did.
async fn turn(
    bed: &Bed,
    side: Side,
    lookups: u32,
    round: usize,
    found: &mut Found,
) -> Result<Vec<Work>, String> {
    let maker = bed.session(1).await?;
    maker.run("drop index if exists t_small2_n1").await?;
    if side == Side::Index {
        maker.run(INDEX).await?;
    }
    let mut sessions: Vec<Session> = Vec::new();
    let mut traces: Vec<PathBuf> = Vec::new();
    for instance in 1..=bed.instances {
        sessions.push(bed.session(instance).await?);
    }
    let by_index = "select count(n1) from t_small2 where n1 between 1 and 10001";
    let statements = ["select count(v1) from t_small2", by_index, &block(WARM_LOOKUPS)];
    work::warm(&sessions, &statements).await?;
    for session in &sessions {
        let name = format!("{}_{round}_{}", side.figure(), session.instance);
        traces.push(session.trace_on(&name).await?);
    }
    let mut before = Vec::new();
    for session in &sessions {
        before.push((session.statistics().await?, session.waits().await?));
    }
    found.elapsed.add(together(&sessions, &block(lookups)).await?);
    let mut done = Vec::new();
    for (session, (statistics, waits)) in sessions.iter().zip(&before) {
        done.push(Work::since(session, statistics, waits).await?);
        session.trace_off().await?;
    }
    let (profile, statements) = bed.tkprof(&traces)?;
    let of_block = |s: &&Statement| s.text.starts_with("declare");
    let calls = statements.iter().find(of_block).ok_or("tkprof does not tell of the block")?;
    found.executions = lookups * u32::try_from(sessions.len()).map_err(|e| e.to_string())?;
    let us = |seconds: f64| seconds * 1e6 / f64::from(found.executions);
    let of_query = |s: &&Statement| s.text.starts_with("select n1, v1");
    let query = statements.iter().find(of_query).ok_or("tkprof does not tell of the query")?;
    if query.execute.count != i64::from(found.executions) {
        let count = query.execute.count;
        return Err(format!("tkprof tells of {count} executions of the query"));
    }
    found.elapsed_us.add(us(query.execute.elapsed_s + query.fetch.elapsed_s));
    found.cpu_us.add(us(query.execute.cpu_s + query.fetch.cpu_s));
    found.loop_cpu_us.add(us(calls.execute.cpu_s));
    found.gets = done.iter().map(|work| work.gets).sum();
    found.profile = profile;
    Ok(done)
}

/// Enough to visit all leaves.
const WARM_LOOKUPS: u32 = 2_000;

fn whole(value: i64) -> f64 {
    // Far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    let value = value as f64;
    value
}

fn tell(report: &mut Report, scan: &Found, index: &Found, lookups: u32, segment: i64) {
    let mut table = Table::new(
        format!("{lookups} look-ups on each instance at once; the segment has {segment} blocks"),
        &[
            "",
            "elapsed, median (range)",
            "paper, of 100,000",
            "gets a look-up",
            "paper",
            "us",
            "CPU us",
            "paper",
            "CPU us of the loop",
        ],
    );
    for (side, found, paper_s, paper_gets) in
        [(Side::Scan, scan, PAPER_SCAN_S, "31.00"), (Side::Index, index, PAPER_INDEX_S, "3.00")]
    {
        table.row(vec![
            side.name().into(),
            found.elapsed.text("s"),
            shown(paper_s, "s"),
            shown(whole(found.gets) / f64::from(found.executions), ""),
            paper_gets.into(),
            shown(found.elapsed_us.median(), ""),
            shown(found.cpu_us.median(), ""),
            shown(paper_s * 10.0, ""),
            shown(found.loop_cpu_us.median(), ""),
        ]);
        let name = side.figure();
        report.figure(format!("{name}.median_s"), found.elapsed.median());
        report.figure(format!("{name}.elapsed_us"), found.elapsed_us.median());
        report.figure(format!("{name}.cpu_us"), found.cpu_us.median());
        report.figure(format!("{name}.loop_cpu_us"), found.loop_cpu_us.median());
    }
    report.tables.push(table);
    report.charts.push(Chart {
        title: "Elapsed seconds, medians".into(),
        unit: "s".into(),
        series: vec!["Skein".into(), "paper (100,000 look-ups)".into()],
        groups: vec![
            (Side::Scan.name().into(), vec![scan.elapsed.median(), PAPER_SCAN_S]),
            (Side::Index.name().into(), vec![index.elapsed.median(), PAPER_INDEX_S]),
        ],
    });
    judge(report, scan, index);
    report.listings.push(("tkprof, full scan".into(), scan.profile.clone()));
    report.listings.push(("tkprof, by the index".into(), index.profile.clone()));
}

fn judge(report: &mut Report, scan: &Found, index: &Found) {
    // The paper's figures are the query's own, without the loop around it.
    let ratio = scan.elapsed_us.median() / index.elapsed_us.median();
    report.figure("ratio", ratio);
    let what = "elapsed of the query, full scan to index (paper: 19.6)";
    let kind = report.timed();
    report.checks.push(Check::at_least(kind, what, RATIO_MIN, ratio, ""));
    for (what, limit, found) in [
        ("CPU of a look-up by the index, execution and fetch (paper: 34)", LOOKUP_US_MAX, index),
        ("CPU of a look-up by full scan, execution and fetch (paper: 668)", SCAN_US_MAX, scan),
    ] {
        let goal = report.goal();
        report.checks.push(Check::at_most(goal, what, limit, found.cpu_us.median(), "us"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scan_leaves_out_the_maps_of_free_space() {
        // Header, map, 38 blocks of rows.
        assert_eq!(gets_of_scan(40), 39);
        assert_eq!(gets_of_scan(8_000), 7_999);
        assert_eq!(gets_of_scan(8_001), 7_999);
    }

    #[test]
    fn an_index_must_be_ten_times_as_fast() {
        let fails = |scan_us: f64| {
            let (mut scan, mut index) = (Found::default(), Found::default());
            scan.elapsed_us.add(scan_us);
            index.elapsed_us.add(1.0);
            let mut report = Report::default();
            judge(&mut report, &scan, &index);
            report.failures().count()
        };
        assert_eq!((fails(10.5), fails(9.5)), (0, 1));
    }
}
