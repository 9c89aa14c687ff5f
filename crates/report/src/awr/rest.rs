//! Segments, enqueues, latches, caches, undo, all statistics, parameters.

use super::numbers::{Work, is_idle};
use super::page::*;
use std::collections::{BTreeMap, BTreeSet};

/// How many segments a list holds.
const SEGMENTS_MAX: usize = 5;

/// Lists of segments: title, and the statistics that each sums.
const SEGMENTS: [(&str, &[&str]); 9] = [
    ("Segments by Logical Reads", &["logical reads"]),
    ("Segments by Physical Reads", &["physical reads"]),
    ("Segments by DB Blocks Changes", &["db block changes"]),
    ("Segments by Row Lock Waits", &["row lock waits"]),
    ("Segments by ITL Waits", &["ITL waits", "itl waits"]),
    ("Segments by Buffer Busy Waits", &["buffer busy waits"]),
    ("Segments by Global Cache Buffer Busy Waits", &["gc buffer busy"]),
    ("Segments by CR Blocks Received", &["gc cr blocks received"]),
    ("Segments by Current Blocks Received", &["gc current blocks received"]),
];

/// What an instance has counted of a list's statistic, whatever it was done to.
fn counted(work: &Work, title: &str) -> Option<f64> {
    match title {
        "Segments by Logical Reads" => Some(work.gets()),
        "Segments by Physical Reads" => work.stat("physical reads"),
        "Segments by DB Blocks Changes" => work.stat("db block changes"),
        _ => None,
    }
}

/// The field's words on how much of it the segments account for.
fn captured(work: &Work, title: &str, sum: f64) -> Option<String> {
    let total = counted(work, title).filter(|total| *total > 0.0)?;
    let what = title.trim_start_matches("Segments by ");
    let (all, part) = (count(total), percent(sum, total));
    let rest = match title {
        "Segments by Physical Reads" => ": undo, and maps of whole files, are no segment's",
        _ => "",
    };
    Some(format!("Total {what}: {all}. Captured segments account for {part} %{rest}."))
}

/// Owner, name and type of a segment, and what the field writes of one that is no more.
fn segment(row: &super::numbers::Row) -> Vec<String> {
    match &row.keys[..4] {
        [owner, name, _, obj] if owner.is_empty() && name.is_empty() => vec![
            "** MISSING **".to_owned(),
            format!("** MISSING: {obj} **"),
            "UNDEFINED".to_owned(),
        ],
        keys => keys[..3].to_vec(),
    }
}

pub(crate) fn segments(work: &Work) -> Vec<Section> {
    let Some(table) = work.table("wrh$_seg_stat") else { return Vec::new() };
    let list = |(title, statistics): &(&str, &[&str])| {
        let value = |row: &super::numbers::Row| {
            let own = row.keys.get(4).is_some_and(|name| statistics.contains(&name.as_str()));
            if own { table.added(row, "value") } else { 0.0 }
        };
        let rows = table.top(value);
        let total: f64 = rows.iter().map(|row| value(row)).sum();
        let mut grid = Grid::new(&[
            words("Owner", 13),
            words("Object Name", 29),
            words("Obj. Type", 10),
            figures("Value", 14),
            figures("Pct\nTotal", 6),
        ]);
        for row in rows.into_iter().take(SEGMENTS_MAX) {
            let value = value(row);
            let mut cells = segment(row);
            cells.extend([count(value), percent(value, total)]);
            grid.row(cells);
        }
        let section = match captured(work, title, total) {
            Some(text) => Section::new(title).note(text),
            None => Section::new(title),
        };
        section.grid(grid).unless_empty()
    };
    SEGMENTS.iter().filter_map(list).collect()
}

pub(crate) fn enqueues(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_enqueue_stat")?;
    let mut grid = Grid::new(&[
        words("Enqueue Type (Request Reason)", 34),
        figures("Requests", 11),
        figures("Succ Gets", 11),
        figures("Failed\nGets", 7),
        figures("Waits", 8),
        figures("Wt Time\n(s)", 9),
        figures("Av Wt\nTime(ms)", 8),
    ]);
    let by = |row: &super::numbers::Row| {
        table.added(row, "total_req").max(table.added(row, "total_wait"))
    };
    for row in table.top(by) {
        let of = |name: &str| table.added(row, name);
        let [ty, name, reason] = &row.keys[..] else { continue };
        let name = if name.is_empty() { String::new() } else { format!("-{name}") };
        let reason = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
        // Of what is counted only where it is waited for nobody knows the requests.
        let asked = of("total_req") > 0.0;
        let requests = |name: &str| if asked { count(of(name)) } else { String::new() };
        let us = of("cum_wait_time") * 1e3;
        grid.row(vec![
            format!("{ty}{name}{reason}"),
            requests("total_req"),
            requests("succ_req"),
            requests("failed_req"),
            count(of("total_wait")),
            seconds(us),
            average_ms(us, of("total_wait"), 2),
        ]);
    }
    Section::new("Enqueue Activity").grid(grid).unless_empty()
}

pub(crate) fn latches(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_latch")?;
    let mut grid = Grid::new(&[
        words("Latch", 28),
        figures("Get\nRequests", 14),
        figures("Pct\nGet\nMiss", 6),
        figures("Avg\nSlps\n/Miss", 6),
        figures("Wait\nTime\n(s)", 7),
    ]);
    for row in table.top(|row| table.added(row, "gets")) {
        let of = |name: &str| table.added(row, name);
        grid.row(vec![
            row.keys[0].clone(),
            count(of("gets")),
            percent(of("misses"), of("gets")),
            each(of("sleeps"), of("misses"), 1),
            seconds(of("wait_time")),
        ]);
    }
    Section::new("Latch Activity").grid(grid).unless_empty()
}

pub(crate) fn latch_sleeps(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_latch")?;
    let mut grid = Grid::new(&[
        words("Latch Name", 28),
        figures("Get Requests", 14),
        figures("Misses", 12),
        figures("Sleeps", 11),
        figures("Spin Gets", 12),
    ]);
    for row in table.top(|row| table.added(row, "misses")) {
        let mut cells = vec![row.keys[0].clone()];
        let of = |name: &str| count(table.added(row, name));
        cells.extend(["gets", "misses", "sleeps", "spin_gets"].map(of));
        grid.row(cells);
    }
    Section::new("Latch Sleep Breakdown").grid(grid).unless_empty()
}

pub(crate) fn dictionary(work: &Work) -> Vec<Section> {
    let Some(table) = work.table("wrh$_rowcache_summary") else { return Vec::new() };
    let mut grid = Grid::new(&[
        words("Cache", 25),
        figures("Get\nRequests", 12),
        figures("Pct\nMiss", 6),
        figures("Mod\nReqs", 9),
        figures("Final\nUsage", 10),
    ]);
    let mut ges = Grid::new(&[
        words("Cache", 25),
        figures("GES\nRequests", 12),
        figures("GES\nConflicts", 12),
        figures("GES\nReleases", 12),
    ]);
    for row in &table.rows {
        let of = |name: &str| table.added(row, name);
        if of("gets") + of("modifications") > 0.0 {
            grid.row(vec![
                row.keys[0].clone(),
                count(of("gets")),
                percent(of("getmisses"), of("gets")),
                count(of("modifications")),
                count(table.at_end(row, "count")),
            ]);
        }
        if of("dlm_requests") > 0.0 {
            let mut cells = vec![row.keys[0].clone()];
            let names = ["dlm_requests", "dlm_conflicts", "dlm_releases"];
            cells.extend(names.map(|name| count(of(name))));
            ges.row(cells);
        }
    }
    let first = Section::new("Dictionary Cache Stats").grid(grid).unless_empty();
    let second = Section::new("Dictionary Cache Stats (GES)").grid(ges).unless_empty();
    first.into_iter().chain(second).collect()
}

pub(crate) fn library(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_librarycache")?;
    let mut grid = Grid::new(&[
        words("Namespace", 18),
        figures("Get\nRequests", 12),
        figures("Pct\nMiss", 6),
        figures("Pin\nRequests", 12),
        figures("Pct\nMiss", 6),
        figures("Reloads", 10),
        figures("Invali-\ndations", 8),
    ]);
    for row in table.top(|row| table.added(row, "gets") + table.added(row, "pins")) {
        let of = |name: &str| table.added(row, name);
        grid.row(vec![
            row.keys[0].clone(),
            count(of("gets")),
            percent(of("gets") - of("gethits"), of("gets")),
            count(of("pins")),
            percent(of("pins") - of("pinhits"), of("pins")),
            count(of("reloads")),
            count(of("invalidations")),
        ]);
    }
    Section::new("Library Cache Activity").grid(grid).unless_empty()
}

pub(crate) fn undo(work: &Work) -> Option<Section> {
    let all = [
        ("Undo written (bytes)", work.stat("undo change vector size")),
        ("Transactions", Some(work.transactions())),
        ("Rollbacks", work.stat("transaction rollbacks")),
        (
            "Undo records applied to take changes back",
            work.stat("rollback changes - undo records applied"),
        ),
        (
            "Undo records read for consistent copies",
            work.stat("data blocks consistent reads - undo records applied"),
        ),
        ("Consistent copies made", work.stat("CR blocks created")),
        ("Snapshot too old errors", work.stat("snapshot too old errors")),
        ("Dead transactions rolled back", work.stat("dead transactions rolled back")),
    ];
    let pairs = all.into_iter().filter_map(|(name, value)| Some((name.to_owned(), count(value?))));
    work.stat("undo change vector size")?;
    Section::new("Undo Segment Summary").pairs(pairs.collect()).unless_empty()
}

/// Statistics that say what is, not what was done.
const GAUGES: [&str; 3] =
    ["logons current", "opened cursors current", "session cursor cache count"];

pub(crate) fn activity(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_sysstat")?;
    let mut grid = Grid::new(&[
        words("Statistic", 40),
        words("Unit", 6),
        figures("Total", 18),
        figures("per Second", 14),
        figures("per Trans", 12),
    ]);
    let rows: BTreeMap<&String, _> =
        table.rows.iter().filter_map(|row| Some((row.keys.first()?, row))).collect();
    for (name, row) in rows {
        let value = table.added(row, "value");
        if value <= 0.0 || GAUGES.contains(&name.as_str()) {
            continue;
        }
        grid.row(vec![
            name.clone(),
            row.keys.get(2).cloned().unwrap_or_default(),
            count(value),
            number(value / work.elapsed_s(), 1),
            each(value, work.transactions(), 1),
        ]);
    }
    Section::new("Instance Activity Stats").grid(grid).unless_empty()
}

pub(crate) fn global_enqueues(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_ges_statistics")?;
    let mut grid = Grid::new(&[
        words("Statistic", 38),
        figures("Total", 16),
        figures("per Second", 12),
        figures("per Trans", 10),
    ]);
    for row in &table.rows {
        let value = table.added(row, "value");
        grid.row(vec![
            row.keys[0].clone(),
            count(value),
            number(value / work.elapsed_s(), 1),
            each(value, work.transactions(), 1),
        ]);
    }
    Section::new("Global Enqueue Statistics").grid(grid).unless_empty()
}

pub(crate) fn time_model(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_sys_time_model")?;
    let mut grid =
        Grid::new(&[words("Statistic", 40), figures("Time (s)", 14), figures("% DB time", 10)]);
    for row in table.top(|row| table.added(row, "value")) {
        let us = table.added(row, "value");
        let background = row.keys[0].starts_with("background");
        let part = if background { String::new() } else { percent(us, work.db_time_us()) };
        grid.row(vec![row.keys[0].clone(), seconds(us), part]);
    }
    Section::new("Time Model System Stats").grid(grid).unless_empty()
}

pub(crate) fn parameters(work: &Work) -> Option<Section> {
    let table = work.table("wrh$_parameter")?;
    let mut grid = Grid::new(&[words("Parameter Name", 36), words("Value", 40)]);
    let own = table
        .rows
        .iter()
        .filter(|row| row.keys.get(2).is_some_and(|default| default.eq_ignore_ascii_case("false")));
    let pairs: BTreeSet<(&String, &String)> =
        own.filter_map(|row| Some((row.keys.first()?, row.keys.get(1)?))).collect();
    for (name, value) in pairs {
        grid.row(vec![name.clone(), value.clone()]);
    }
    Section::new("init.ora Parameters")
        .note("At the end of the interval; those that nobody has set are left out.")
        .grid(grid)
        .unless_empty()
}

/// Whether anything but idleness was waited for.
pub(crate) fn is_quiet(work: &Work) -> bool {
    let table = work.table("wrh$_system_event");
    table.is_none_or(|table| {
        table.rows.iter().all(|row| is_idle(row) || table.added(row, "total_waits_fg") <= 0.0)
    })
}
