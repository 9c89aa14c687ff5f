//! Myth 1: "high CPU usage of one node does not affect the others".
//!
//! What it promises: a node is a set of processors: instance 1 and what burns them have processor
//! 0, instance 2 and its client processor 1. Instance 2's waits for blocks of instance 1 are
//! measured in turns, idle and burnt, with the block servers at each priority that the system
//! allows.

use std::process::{Child, Command, Stdio};

use super::bed::{Bed, Session, waited};
use super::check::{Check, Kind, Spread, shown};
use super::report::{Chart, Report, Table};
use super::{Experiment, Stage};

pub const EXPERIMENT: Experiment = Experiment {
    name: "myth1",
    title: "High CPU usage in one node does not affect other nodes",
    about: "Instance 1 and processes that burn CPU (--burners) are bound to processor 0, instance \
            2 and its client to processor 1. Instance 2 reads and changes rows of blocks that \
            instance 1 holds, idle and burnt in turns, with the block servers of both at ordinary \
            priority, at nice -20 and at real-time priority. Checked: at real-time priority the \
            waits for a block are at most twice those of the idle node. Blocks go by messages \
            (_gc_direct_reads = off), as between hosts. Not tested where real-time priority is \
            refused or there is one processor.",
    sizes: "400 blocks a turn",
    takes: "2 minutes",
    timed_from: 0.2,
    instances: (2, 2, 2),
    clients_on: Some("1"),
    run: |stage| Box::pin(run(stage)),
};

const BLOCKS: u32 = 400;
const RATIO_MAX: f64 = 2.0;
/// Rows so wide that a block holds two.
const WIDTH: u32 = 3_300;
/// The paper's remedy, as the parameter has it.
const REAL_TIME: usize = 2;
const PRIORITIES: [&str; 3] = ["ordinary", "nice -20", "real time"];

/// Mean µs of a wait for a block in the turns of one priority.
#[derive(Default)]
struct Found {
    idle: Spread,
    burnt: Spread,
}

impl Found {
    fn ratio(&self) -> f64 {
        self.burnt.median() / self.idle.median()
    }
}

async fn run(stage: Stage) -> Result<Report, String> {
    let rounds = stage.request.rounds;
    let blocks = stage.request.scaled(BLOCKS, 10);
    let mut report = stage.report();
    if stage.processors < 2 {
        report.not_tested = Some("two nodes need two processors".into());
        return Ok(report);
    }
    if let Some(why) = &stage.unbound {
        report.not_tested = Some(why.clone());
        return Ok(report);
    }
    stage.steps(1 + PRIORITIES.len() * 2 * rounds);
    stage.step("making the cluster");
    let mut set = vec!["_gc_direct_reads=off".to_owned(), "autovacuum=off".to_owned()];
    set.extend(stage.request.set.iter().cloned());
    let own = [(1, "cpu_set", "0".to_owned()), (2, "cpu_set", "1".to_owned())];
    let mut bed = Bed::open(&stage.cluster, 2, &set, &own)?;
    for k in [1, 2] {
        if parameter(&bed, k, "cpu_set").await?.is_empty() {
            report.not_tested = Some(format!("instance {k} may not be bound to a processor"));
            return Ok(report);
        }
    }
    let autogroup = std::fs::read_to_string("/proc/sys/kernel/sched_autogroup_enabled");
    let autogroup = if autogroup.is_ok_and(|text| text.trim() == "1") { "on" } else { "off" };
    report.circumstances.push(("groups of the scheduler by session".into(), autogroup.into()));
    report.circumstances.push(("burners".into(), stage.request.burners.to_string()));
    report.circumstances.push(("blocks a turn".into(), blocks.to_string()));
    report.circumstances.push(("trace".into(), "none; times are those of v$session_event".into()));
    make_table(&bed, blocks).await?;
    let mut all = Vec::new();
    for (priority, name) in PRIORITIES.iter().enumerate() {
        let at = |k| (k, "os_sched_high_priority", priority.to_string());
        bed.restart_with(&[at(1), at(2)])?;
        if parameter(&bed, 1, "os_sched_high_priority").await? != priority.to_string() {
            let note = format!("{name} is refused by the operating system");
            report.findings.push(format!("Block servers at {note}."));
            if priority == REAL_TIME {
                report.not_tested = Some(note);
            }
            continue;
        }
        let found = turns(&stage, &bed, &mut report, name, blocks).await?;
        all.push((priority, found));
    }
    tell(&mut report, &all);
    Ok(report)
}

async fn parameter(bed: &Bed, instance: usize, name: &str) -> Result<String, String> {
    let text = format!("select value from v$parameter where name = '{name}'");
    let rows = bed.session(instance).await?.rows(&text).await?;
    rows.into_iter().flatten().next().ok_or_else(|| format!("there is no parameter {name}"))
}

async fn make_table(bed: &Bed, blocks: u32) -> Result<(), String> {
    let maker = bed.session(1).await?;
    maker.run("create table wide (id int primary key, n int, v varchar2(4000))").await?;
    let rows = 2 * blocks;
    let fill = format!(
        "insert into wide select i, 0, lpad(i::text, {WIDTH}, 'x') \
         from generate_series(1, {rows}) i"
    );
    maker.run(&fill).await
}

/// Idle and burnt in turns, whoever was first last in the next round.
async fn turns(
    stage: &Stage,
    bed: &Bed,
    report: &mut Report,
    priority: &str,
    blocks: u32,
) -> Result<Found, String> {
    let rounds = stage.request.rounds;
    let mut found = Found::default();
    for round in 0..rounds {
        for at in [round % 2 == 1, round % 2 == 0] {
            let what = if at { "burnt" } else { "idle" };
            stage.step(format!("{priority}, {what}, round {} of {rounds}", round + 1));
            take_back(bed).await?;
            let burners = if at { stage.request.burners } else { 0 };
            let burning = Burners::start(burners)?;
            let measured = asked(bed, blocks).await;
            drop(burning);
            let (waits, us) = measured?;
            let who = format!("{priority}, {what}, round {}", round + 1);
            // Reads and changes of so many blocks: none was here before.
            report.checks.push(enough(&who, waits, i64::from(blocks)));
            let mean = mean_us(us, waits);
            if at { found.burnt.add(mean) } else { found.idle.add(mean) }
        }
    }
    Ok(found)
}

fn enough(who: &str, waits: i64, blocks: i64) -> Check {
    let what = format!("{who}: waits for blocks of instance 1");
    let wanted = format!("at least {blocks}");
    Check::that(Kind::Count, what, wanted, waits.to_string(), waits >= blocks)
}

fn mean_us(us: i64, count: i64) -> f64 {
    // Far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    let (us, count) = (us as f64, count as f64);
    us / count
}

/// Instance 1 changes every row, so that it holds all blocks, durably.
async fn take_back(bed: &Bed) -> Result<(), String> {
    bed.session(1).await?.run("update wide set n = n + 1").await
}

/// Instance 2 reads a row of every other block, and changes one of the rest; its waits for blocks.
async fn asked(bed: &Bed, blocks: u32) -> Result<(i64, i64), String> {
    let session: Session = bed.session(2).await?;
    session.rows("select n from wide where id = 1").await?;
    session.run("update wide set n = n where id = 2").await?;
    let before = session.waits().await?;
    for pair in 1..=blocks {
        let id = 2 * pair - 1;
        match pair % 2 {
            0 => drop(session.rows(&format!("select n from wide where id = {id}")).await?),
            _ => session.run(&format!("update wide set n = n + 1 where id = {id}")).await?,
        }
    }
    Ok(waited(&before, &session.waits().await?, "gc c"))
}

/// Processes that do nothing but compute, on processor 0. They end with this value, and when the
/// lab does.
struct Burners(Vec<Child>);

impl Burners {
    fn start(count: usize) -> Result<Burners, String> {
        let own = std::env::current_exe().map_err(|e| format!("find this program: {e}"))?;
        let mut burners = Burners(Vec::new());
        for _ in 0..count {
            let mut command = Command::new(&own);
            command.args(["lab", "burn", "0"]).stdin(Stdio::piped()).stdout(Stdio::piped());
            let mut child = command.spawn().map_err(|e| format!("start a burner: {e}"))?;
            let ready = child.stdout.take();
            burners.0.push(child);
            // It says a line when it has been bound.
            let mut line = String::new();
            let read = ready.map(|out| {
                std::io::BufRead::read_line(&mut std::io::BufReader::new(out), &mut line)
            });
            if !matches!(read, Some(Ok(n)) if n > 0) {
                return Err("a burner has not begun".to_owned());
            }
        }
        Ok(burners)
    }
}

impl Drop for Burners {
    fn drop(&mut self) {
        for child in &mut self.0 {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn tell(report: &mut Report, all: &[(usize, Found)]) {
    let mut table = Table::new(
        "Instance 2 waits for a block of instance 1: mean us of a turn, median (range)",
        &["block servers", "idle", "burnt", "burnt to idle", "paper"],
    );
    let mut chart = Chart {
        title: "Mean wait for a block, us, medians of the rounds".into(),
        unit: "us".into(),
        series: vec!["idle".into(), "burnt".into()],
        groups: Vec::new(),
    };
    for (priority, found) in all {
        let name = PRIORITIES[*priority];
        let paper = if *priority == 0 { "rises, no figure" } else { "remedy, no figure" };
        table.row(vec![
            name.into(),
            found.idle.text("us"),
            found.burnt.text("us"),
            shown(found.ratio(), ""),
            paper.into(),
        ]);
        chart.groups.push((name.into(), vec![found.idle.median(), found.burnt.median()]));
        let name = name.replace([' ', '-'], "_");
        report.figure(format!("{name}.idle_us"), found.idle.median());
        report.figure(format!("{name}.burnt_us"), found.burnt.median());
        report.figure(format!("{name}.ratio"), found.ratio());
    }
    report.tables.push(table);
    report.charts.push(chart);
    judge(report, all);
}

fn judge(report: &mut Report, all: &[(usize, Found)]) {
    let ratio = |wanted: usize| {
        all.iter().find(|(priority, _)| *priority == wanted).map(|(_, found)| found.ratio())
    };
    let Some(favoured) = ratio(REAL_TIME) else { return };
    let what = "block servers at real-time priority: burnt to idle";
    let kind = report.timed();
    report.checks.push(Check::at_most(kind, what, RATIO_MAX, favoured, ""));
    if let Some(ordinary) = ratio(0) {
        report.findings.push(format!(
            "With the node's CPU burnt a block of instance 1 takes {} times as long at ordinary \
             priority and {} times at real-time priority.",
            shown(ordinary, ""),
            shown(favoured, "")
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(idle: f64, burnt: f64) -> Found {
        let mut found = Found::default();
        found.idle.add(idle);
        found.burnt.add(burnt);
        found
    }

    fn failures(real_time: Found) -> usize {
        let mut report = Report::default();
        judge(&mut report, &[(0, found(100.0, 9_000.0)), (REAL_TIME, real_time)]);
        report.failures().count()
    }

    #[test]
    fn a_burnt_node_may_cost_others_twice_the_wait_and_no_more() {
        assert_eq!((failures(found(100.0, 190.0)), failures(found(100.0, 210.0))), (0, 1));
    }

    #[test]
    fn a_turn_without_waits_measures_nothing() {
        assert!(!enough("idle", 400, 400).fails());
        assert!(enough("idle", 3, 400).fails());
    }
}
