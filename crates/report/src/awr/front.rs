//! The front page: what was reported on, the load, how efficient, and what the time went to.

use super::numbers::{Interval, Work, is_idle};
use super::page::*;
use std::collections::BTreeMap;

/// How many events the front page names.
const EVENTS_MAX: usize = 10;

pub(crate) fn header(interval: &Interval, work: &Work) -> Section {
    let mut instances = Grid::new(&[
        figures("Inst", 4),
        words("Instance", 12),
        words("Release", 8),
        words("Started", 19),
        figures("Sessions\nbegin", 8),
        figures("end", 6),
    ]);
    for one in &interval.works {
        if work.instance == 0 || one.instance == work.instance {
            instances.row(vec![
                one.instance.to_string(),
                one.name.clone(),
                one.end.version.clone(),
                one.end.startup.clone(),
                one.begin.sessions.to_string(),
                one.end.sessions.to_string(),
            ]);
        }
    }
    let mut snaps = Grid::new(&[words("", 10), figures("Snap Id", 9), words("Snap Time", 19)]);
    for (name, row) in [("Begin Snap", &work.begin), ("End Snap", &work.end)] {
        snaps.row(vec![name.to_owned(), row.snap_id.to_string(), row.time.clone()]);
    }
    let minutes = |us: f64| format!("{} (mins)", number(us / 6e7, 2));
    let elapsed_us = work.elapsed_s() * 1e6;
    let mut facts = vec![
        ("Elapsed".to_owned(), minutes(elapsed_us)),
        ("DB time".to_owned(), minutes(work.db_time_us())),
        ("Av Act Sess".to_owned(), number(work.db_time_us() / elapsed_us, 2)),
    ];
    if let Some(cpu) = work.cpu_us() {
        facts.push(("DB CPU".to_owned(), minutes(cpu)));
    }
    let mut section = Section::new("WORKLOAD REPORT").grid(instances).grid(snaps).pairs(facts);
    if work.counted_db_time_us().is_none() {
        let with = if work.cpu_us().is_some() { "waits and processor time" } else { "waits only" };
        section = section.note(format!(
            "DB time is what is known of it: this server does not count it. It is {with}."
        ));
    }
    for (_, why) in &interval.left_out {
        section = section.note(format!("Left out: {why}."));
    }
    section
}

/// A rate of the load profile: its name, how it is counted, and the decimals of its figures.
struct Rate {
    name: &'static str,
    value: fn(&Work) -> Option<f64>,
    decimals: usize,
}

const RATES: [Rate; 15] = [
    Rate { name: "DB time(s)", value: |w| Some(w.db_time_us() / 1e6), decimals: 2 },
    Rate { name: "DB CPU(s)", value: |w| w.cpu_us().map(|us| us / 1e6), decimals: 2 },
    Rate { name: "Redo size", value: |w| w.stat("redo size"), decimals: 1 },
    Rate { name: "Logical reads", value: |w| Some(w.gets()), decimals: 1 },
    Rate { name: "Block changes", value: |w| w.stat("db block changes"), decimals: 1 },
    Rate { name: "Physical reads", value: |w| w.stat("physical reads"), decimals: 1 },
    Rate { name: "Physical writes", value: |w| w.stat("physical writes"), decimals: 1 },
    Rate {
        name: "User calls",
        value: |w| w.stats(&["user calls"]).or(w.stat("SQL*Net roundtrips to/from client")),
        decimals: 1,
    },
    Rate { name: "Parses", value: |w| w.stat("parse count (total)"), decimals: 1 },
    Rate { name: "Hard parses", value: |w| w.stat("parse count (hard)"), decimals: 1 },
    Rate { name: "Logons", value: |w| w.stat("logons cumulative"), decimals: 1 },
    Rate { name: "Executes", value: |w| w.stat("execute count"), decimals: 1 },
    Rate { name: "Rollbacks", value: |w| w.stat("user rollbacks"), decimals: 1 },
    Rate { name: "Transactions", value: |w| Some(w.transactions()), decimals: 1 },
    Rate { name: "Undo bytes", value: |w| w.stat("undo change vector size"), decimals: 1 },
];

pub(crate) fn load_profile(work: &Work) -> Section {
    let mut grid = Grid::new(&[
        words("", 22),
        figures("Per Second", 16),
        figures("Per Transaction", 16),
        figures("Per Exec", 12),
    ]);
    let executes = work.stat("execute count").unwrap_or(0.0);
    for rate in &RATES {
        let Some(value) = (rate.value)(work) else { continue };
        let of_transaction = match rate.name {
            "Transactions" => String::new(),
            _ => each(value, work.transactions(), rate.decimals),
        };
        let of_execution = match rate.name {
            "DB time(s)" | "DB CPU(s)" | "Logical reads" | "Physical reads" => {
                each(value, executes, rate.decimals)
            }
            _ => String::new(),
        };
        let of_second = number(value / work.elapsed_s(), rate.decimals);
        grid.row(vec![rate.name.to_owned(), of_second, of_transaction, of_execution]);
    }
    Section::new("Load Profile").grid(grid)
}

/// The same for each instance beside the others.
pub(crate) fn load_by_instance(interval: &Interval) -> Section {
    let mut grid = Grid::new(&[
        figures("Inst", 4),
        figures("DB time\n(s)/s", 9),
        figures("Logical\nreads/s", 12),
        figures("Physical\nreads/s", 10),
        figures("Redo\nbytes/s", 12),
        figures("Executes\n/s", 10),
        figures("Trans-\nactions/s", 10),
    ]);
    for work in &interval.works {
        let second = |value: Option<f64>| {
            value.map_or(String::new(), |value| number(value / work.elapsed_s(), 1))
        };
        grid.row(vec![
            work.instance.to_string(),
            number(work.db_time_us() / 1e6 / work.elapsed_s(), 2),
            second(Some(work.gets())),
            second(work.stat("physical reads")),
            second(work.stat("redo size")),
            second(work.stat("execute count")),
            second(Some(work.transactions())),
        ]);
    }
    Section::new("Load by Instance").grid(grid)
}

pub(crate) fn efficiency(work: &Work) -> Option<Section> {
    let ratio = |part: Option<f64>, whole: Option<f64>| match (part, whole) {
        (Some(part), Some(whole)) if whole > 0.0 => Some(100.0 * (1.0 - part / whole)),
        _ => None,
    };
    let gets = Some(work.gets());
    let waits = work.table("wrh$_waitstat").map(|table| table.sum("count"));
    let latch = |name: &str| work.table("wrh$_latch").map(|table| table.sum(name));
    let library = |name: &str| work.table("wrh$_librarycache").map(|table| table.sum(name));
    let (pins, pinhits) = (library("pins"), library("pinhits"));
    let missed = pins.zip(pinhits).map(|(pins, hits)| pins - hits);
    let all = [
        ("Buffer Nowait %", ratio(waits, gets)),
        ("Redo NoWait %", ratio(work.stat("redo log space requests"), work.stat("redo entries"))),
        ("Buffer Hit %", ratio(work.stat("physical reads"), gets)),
        ("Library Hit %", ratio(missed, pins)),
        ("Soft Parse %", ratio(work.stat("parse count (hard)"), work.stat("parse count (total)"))),
        ("Execute to Parse %", ratio(work.stat("parse count (total)"), work.stat("execute count"))),
        ("Latch Hit %", ratio(latch("misses"), latch("gets"))),
        ("% Non-Parse CPU", ratio(work.stat_us("parse time cpu"), work.cpu_us())),
    ];
    let pairs = all
        .into_iter()
        .filter_map(|(name, value)| value.map(|value| (name.to_owned(), number(value, 2))));
    Section::new("Instance Efficiency Indicators")
        .note("Target is 100 %; a parse beside its execution each time gives 0 for the parses.")
        .pairs(pairs.collect())
        .unless_empty()
}

pub(crate) fn top_events(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_system_event")?;
    let total = work.db_time_us();
    let mut rows: Vec<(String, String, Option<f64>, f64)> = table
        .rows
        .iter()
        .filter(|row| !is_idle(row))
        .map(|row| {
            let waits = table.added(row, "total_waits_fg");
            let us = table.added(row, "time_waited_micro_fg");
            (row.keys[0].clone(), row.keys[1].clone(), Some(waits), us)
        })
        .filter(|(.., us)| *us > 0.0)
        .collect();
    if let Some(cpu) = work.cpu_us() {
        rows.push(("DB CPU".to_owned(), String::new(), None, cpu));
    }
    rows.sort_by(|a, b| b.3.total_cmp(&a.3).then_with(|| a.0.cmp(&b.0)));
    let mut grid = Grid::new(&[
        words("Event", 30),
        figures("Waits", 11),
        figures("Time (s)", 10),
        figures("Avg wait\n(ms)", 9),
        figures("% DB\ntime", 6),
        words("Wait Class", 12),
    ]);
    let mut chart =
        Chart { title: "Time by event".into(), unit: "s", parts: vec![""], bars: Vec::new() };
    for (event, class, waits, us) in rows.into_iter().take(EVENTS_MAX) {
        chart.bars.push((event.clone(), vec![us / 1e6]));
        grid.row(vec![
            event,
            waits.map_or(String::new(), count),
            seconds(us),
            waits.map_or(String::new(), |waits| average_ms(us, waits, 2)),
            percent(us, total),
            class,
        ]);
    }
    Section::new("Top Timed Events")
        .note("Waits of clients' sessions; idle ones are left out.")
        .grid(grid)
        .chart(chart)
        .unless_empty()
}

pub(crate) fn wait_classes(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_system_event")?;
    let mut classes: BTreeMap<&str, (f64, f64)> = BTreeMap::new();
    for row in table.rows.iter().filter(|row| !is_idle(row)) {
        let sum = classes.entry(&row.keys[1]).or_default();
        sum.0 += table.added(row, "total_waits_fg");
        sum.1 += table.added(row, "time_waited_micro_fg");
    }
    let mut classes: Vec<(&str, (f64, f64))> =
        classes.into_iter().filter(|(_, (waits, _))| *waits > 0.0).collect();
    classes.sort_by(|a, b| b.1.1.total_cmp(&a.1.1).then_with(|| a.0.cmp(b.0)));
    let mut grid = Grid::new(&[
        words("Wait Class", 16),
        figures("Waits", 12),
        figures("Time (s)", 12),
        figures("Avg wait\n(ms)", 10),
        figures("% DB\ntime", 7),
        figures("Waits\n/txn", 9),
    ]);
    let mut chart =
        Chart { title: "Time by wait class".into(), unit: "s", parts: vec![""], bars: Vec::new() };
    for (class, (waits, us)) in classes {
        chart.bars.push((class.to_owned(), vec![us / 1e6]));
        grid.row(vec![
            class.to_owned(),
            count(waits),
            seconds(us),
            average_ms(us, waits, 2),
            percent(us, work.db_time_us()),
            each(waits, work.transactions(), 1),
        ]);
    }
    Section::new("Wait Classes by Total Wait Time").grid(grid).chart(chart).unless_empty()
}
