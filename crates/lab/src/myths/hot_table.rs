//! The hot table: clients of all instances change the same few rows.
//!
//! What it promises: fixed work for each client, at four numbers of clients in turns; waits for
//! blocks and waits for rows are told apart by the cluster's own views; nothing is lost and nobody
//! fails.

use std::collections::BTreeMap;

use futures::future::try_join_all;

use super::bed::Bed;
use super::check::{Check, Spread, shown};
use super::report::{Chart, Report, Table};
use super::{Experiment, Stage};
use crate::demo::views::{Snapshot, add_growth, by_name};
use crate::random::Random;

pub const EXPERIMENT: Experiment = Experiment {
    name: "hot-table",
    title: "Lock contention is one thing",
    about: "20, 40, 60 and 80 clients, spread over all instances, change two rows of the same \
            small table in each transaction. The waits are those of the whole cluster: for blocks \
            (class Cluster) and for rows (enq: TX - row lock contention). Checked: no client \
            fails, no change is lost, both are seen, and the wait for rows grows faster with the \
            clients than that for blocks.",
    sizes: "20 to 80 clients of 100 transactions",
    takes: "2 minutes",
    timed_from: 0.3,
    instances: (2, 2, 8),
    clients_on: None,
    run: |stage| Box::pin(run(stage)),
};

const CLIENTS: [u32; 4] = [20, 40, 60, 80];
const TRANSACTIONS: u32 = 100;
/// Rows of the table.
const ROWS: i32 = 100;
const ROW_WAIT: &str = "enq: TX - row lock contention";
/// The paper's seconds for each number of clients.
const PAPER_CLUSTER_S: [f64; 4] = [5_000.0, 11_000.0, 20_000.0, 22_000.0];
const PAPER_ROWS_S: [f64; 4] = [0.0, 12_000.0, 32_000.0, 51_000.0];

/// Figures of one number of clients.
#[derive(Default)]
struct Found {
    elapsed_s: Spread,
    cluster_s: Spread,
    rows_s: Spread,
    rate: Spread,
}

async fn run(stage: Stage) -> Result<Report, String> {
    let (rounds, instances) = (stage.request.rounds, stage.request.instances);
    let groups: Vec<u32> =
        CLIENTS.iter().map(|n| scaled_clients(*n, stage.request.scale)).collect();
    let transactions = stage.request.scaled(TRANSACTIONS, 5);
    stage.steps(1 + rounds * groups.len());
    stage.step("making the cluster");
    let bed = Bed::open(&stage.cluster, instances, &stage.request.set, &[])?;
    let mut report = stage.report();
    report.circumstances.push(("transactions a client".into(), transactions.to_string()));
    report.circumstances.push(("rows of the table".into(), ROWS.to_string()));
    report.circumstances.push(("trace".into(), "none; times are those of gv$system_event".into()));
    let classes = classes(&bed).await?;
    let mut all: Vec<Found> = groups.iter().map(|_| Found::default()).collect();
    for round in 0..rounds {
        for at in 0..groups.len() {
            let at = if round % 2 == 0 { at } else { groups.len() - 1 - at };
            let clients = groups[at];
            stage.step(format!("{clients} clients, round {} of {rounds}", round + 1));
            let turn = turn(&bed, clients, transactions).await?;
            let (cluster_us, rows_us) = split(&turn.moved, &classes);
            let found = &mut all[at];
            found.elapsed_s.add(turn.elapsed_s);
            found.cluster_s.add(seconds(cluster_us));
            found.rows_s.add(seconds(rows_us));
            found.rate.add(f64::from(clients * transactions) / turn.elapsed_s);
            let who = format!("{clients} clients, round {}", round + 1);
            check_turn(&mut report, &who, &turn, i64::from(clients * transactions));
        }
    }
    tell(&mut report, &groups, &all);
    Ok(report)
}

/// A number of clients, scaled, at least two.
fn scaled_clients(count: u32, scale: f64) -> u32 {
    // Scales are bounded.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let scaled = (f64::from(count) * scale.sqrt()).round() as u32;
    scaled.clamp(2, count)
}

fn seconds(us: i64) -> f64 {
    // Far below 2^52.
    #[allow(clippy::cast_precision_loss)]
    let us = us as f64;
    us / 1e6
}

/// One turn: how long it took, what the cluster waited for, and what is in the table.
struct Turn {
    elapsed_s: f64,
    /// µs by event, over all instances.
    moved: BTreeMap<String, i64>,
    sum: i64,
    deadlocks: i64,
}

/// Class of each event.
async fn classes(bed: &Bed) -> Result<BTreeMap<String, String>, String> {
    let rows = bed.session(1).await?.rows("select name, wait_class from v$event_name").await?;
    let pair = |row: Vec<String>| match &row[..] {
        [name, class] => Ok((name.clone(), class.clone())),
        _ => Err(format!("v$event_name: {row:?}")),
    };
    rows.into_iter().map(pair).collect()
}

async fn turn(bed: &Bed, clients: u32, transactions: u32) -> Result<Turn, String> {
    let maker = bed.session(1).await?;
    maker.run("drop table if exists hot").await?;
    maker.run("create table hot (id int primary key, n int not null)").await?;
    maker.run(&format!("insert into hot select i, 0 from generate_series(1, {ROWS}) i")).await?;
    let mut sessions = Vec::new();
    for client in 0..clients {
        let instance = client as usize % bed.instances + 1;
        let session = bed.session(instance).await?;
        session.rows("select sum(n) from hot where id > 0").await?;
        sessions.push((u64::from(client), session));
    }
    let before = bed.counters().await?;
    let began = std::time::Instant::now();
    try_join_all(sessions.iter().map(|(seed, session)| async move {
        let mut random = Random::new(*seed);
        for _ in 0..transactions {
            let (a, b) = (random.below(ROWS) + 1, random.below(ROWS) + 1);
            // In ascending order: two transactions never wait for each other in a circle.
            let (first, second) = (a.min(b), a.max(b));
            session
                .run(&format!(
                    "begin; update hot set n = n + 1 where id = {first}; \
                     update hot set n = n + 1 where id = {second}; commit"
                ))
                .await?;
        }
        Ok::<(), String>(())
    }))
    .await?;
    let elapsed_s = began.elapsed().as_secs_f64();
    let after = bed.counters().await?;
    let sum = maker.number("select sum(n) from hot").await?;
    Ok(Turn {
        elapsed_s,
        moved: waits(&before, &after),
        sum,
        deadlocks: deadlocks(&before, &after),
    })
}

fn waits(before: &Snapshot, after: &Snapshot) -> BTreeMap<String, i64> {
    let mut grown = BTreeMap::new();
    add_growth(&mut grown, &before.wait_us, &after.wait_us, None);
    by_name(&grown)
}

fn deadlocks(before: &Snapshot, after: &Snapshot) -> i64 {
    let mut grown = BTreeMap::new();
    add_growth(&mut grown, &before.statistics, &after.statistics, None);
    by_name(&grown).get("enqueue deadlocks").copied().unwrap_or(0)
}

/// µs waited for blocks, and for rows.
fn split(moved: &BTreeMap<String, i64>, classes: &BTreeMap<String, String>) -> (i64, i64) {
    let of_cluster = |event: &String| classes.get(event).is_some_and(|class| class == "Cluster");
    let cluster = moved.iter().filter(|(event, _)| of_cluster(event)).map(|(_, us)| us).sum();
    (cluster, moved.get(ROW_WAIT).copied().unwrap_or(0))
}

fn check_turn(report: &mut Report, who: &str, turn: &Turn, transactions: i64) {
    let changes = 2 * transactions;
    report.checks.push(Check::count(format!("{who}: changes in the table"), changes, turn.sum));
    report.checks.push(Check::count(format!("{who}: deadlocks"), 0, turn.deadlocks));
}

fn tell(report: &mut Report, groups: &[u32], all: &[Found]) {
    let mut table = Table::new(
        "The two top wait groups, seconds of the whole cluster",
        &["clients", "elapsed", "transactions/s", "blocks", "rows", "paper: blocks", "paper: rows"],
    );
    let mut chart = Chart {
        title: "Seconds waited, medians".into(),
        unit: "s".into(),
        series: vec!["for blocks (Cluster)".into(), "for rows (enq: TX)".into()],
        groups: Vec::new(),
    };
    for (at, (clients, found)) in groups.iter().zip(all).enumerate() {
        table.row(vec![
            clients.to_string(),
            found.elapsed_s.text("s"),
            shown(found.rate.median(), ""),
            found.cluster_s.text("s"),
            found.rows_s.text("s"),
            shown(PAPER_CLUSTER_S[at], "s"),
            shown(PAPER_ROWS_S[at], "s"),
        ]);
        let values = vec![found.cluster_s.median(), found.rows_s.median()];
        chart.groups.push((format!("{clients} clients"), values));
        report.figure(format!("group_{at}.clients"), f64::from(*clients));
        report.figure(format!("group_{at}.cluster_s"), found.cluster_s.median());
        report.figure(format!("group_{at}.rows_s"), found.rows_s.median());
    }
    report.tables.push(table);
    report.charts.push(chart);
    if let (Some(first), Some(last)) = (all.first(), all.last()) {
        judge(report, first, last);
    }
}

/// Fewest and most clients beside each other.
fn judge(report: &mut Report, first: &Found, last: &Found) {
    let kind = report.timed();
    for (what, found) in [("blocks", &last.cluster_s), ("rows", &last.rows_s)] {
        let what = format!("most clients: seconds waited for {what}");
        let holds = found.median() > 0.0;
        report.checks.push(Check::that(
            kind,
            what,
            "more than 0",
            shown(found.median(), "s"),
            holds,
        ));
    }
    // Of what is waited, so much is for rows.
    let share = |found: &Found| {
        let (rows, blocks) = (found.rows_s.median(), found.cluster_s.median());
        100.0 * rows / (rows + blocks)
    };
    let (few, many) = (share(first), share(last));
    report.figure("rows_share_of_fewest_percent", few);
    report.figure("rows_share_of_most_percent", many);
    report.checks.push(Check::that(
        kind,
        "part of the two that is for rows, most clients beside fewest (paper: 0 % and 70 %)",
        format!("more than {few:.0} %"),
        format!("{many:.0} %"),
        many > few,
    ));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(cluster_s: f64, rows_s: f64) -> Found {
        let mut found = Found::default();
        found.cluster_s.add(cluster_s);
        found.rows_s.add(rows_s);
        found
    }

    fn failures(few: &Found, many: &Found) -> usize {
        let mut report = Report::default();
        judge(&mut report, few, many);
        report.failures().count()
    }

    #[test]
    fn rows_must_gain_on_blocks() {
        assert_eq!(failures(&found(5.0, 0.1), &found(22.0, 51.0)), 0);
        assert_eq!(failures(&found(5.0, 5.0), &found(22.0, 10.0)), 1);
        assert_eq!(failures(&found(5.0, 0.0), &found(22.0, 0.0)), 2, "nobody waited for a row");
    }

    #[test]
    fn a_lost_change_and_a_deadlock_are_found() {
        let turn = |sum, deadlocks| Turn { elapsed_s: 1.0, moved: BTreeMap::new(), sum, deadlocks };
        let fails = |turn: &Turn| {
            let mut report = Report::default();
            check_turn(&mut report, "2 clients", turn, 100);
            report.failures().count()
        };
        assert_eq!((fails(&turn(200, 0)), fails(&turn(199, 0)), fails(&turn(200, 1))), (0, 1, 1));
    }

    #[test]
    fn waits_are_told_apart_by_class() {
        let list = |list: &[(&str, &str)]| -> BTreeMap<String, String> {
            list.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned())).collect()
        };
        let classes =
            list(&[("gc a", "Cluster"), ("gc b", "Cluster"), ("log file sync", "Commit")]);
        let moved = [("gc a", 1), ("gc b", 2), ("log file sync", 4), (ROW_WAIT, 8)];
        let moved = moved.into_iter().map(|(event, us)| (event.to_owned(), us)).collect();
        assert_eq!(split(&moved, &classes), (3, 8));
    }
}
