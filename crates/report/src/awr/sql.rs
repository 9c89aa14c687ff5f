//! Statements, ordered by what they took.

use super::numbers::{Interval, Row, Table, Work};
use super::page::*;
use std::collections::BTreeMap;

/// How many statements a list holds, and how much of the total makes one worth listing.
const LISTED_MAX: usize = 65;
const LISTED_PERCENT: f64 = 1.0;

/// One statement, all its plans together.
#[derive(Clone, Default, Debug)]
pub(crate) struct Statement {
    pub(crate) sql_id: String,
    pub(crate) executions: f64,
    pub(crate) elapsed_us: f64,
    pub(crate) cpu_us: f64,
    pub(crate) gets: f64,
    pub(crate) reads: f64,
    pub(crate) rows: f64,
    pub(crate) parses: f64,
    pub(crate) cluster_us: f64,
    pub(crate) concurrency_us: f64,
    pub(crate) application_us: f64,
}

/// The statements of an interval.
pub(crate) fn statements(work: &Work) -> Vec<Statement> {
    let Some(table) = work.table("wrh$_sqlstat") else { return Vec::new() };
    let mut all: BTreeMap<&str, Statement> = BTreeMap::new();
    for row in &table.rows {
        let one = all.entry(&row.keys[0]).or_default();
        one.sql_id.clone_from(&row.keys[0]);
        add(one, table, row);
    }
    all.into_values().collect()
}

fn add(one: &mut Statement, table: &Table, row: &Row) {
    let of = |name: &str| table.added(row, name);
    one.executions += of("executions");
    one.elapsed_us += of("elapsed_time");
    one.cpu_us += of("cpu_time");
    one.gets += of("buffer_gets");
    one.reads += of("disk_reads");
    one.rows += of("rows_processed");
    one.parses += of("parse_calls");
    one.cluster_us += of("cluster_wait_time");
    one.concurrency_us += of("concurrency_wait_time");
    one.application_us += of("application_wait_time");
}

/// A list: its title, what it is ordered by, its columns, and its cells with the total.
struct Order {
    title: &'static str,
    /// The column of the table without which there is no such list.
    column: &'static str,
    by: fn(&Statement) -> f64,
    columns: &'static [Col],
    cells: fn(&Statement, f64) -> Vec<String>,
}

const ID: Col = words("SQL Id", 13);

fn part_cells(value: f64, s: &Statement, total: f64, decimals: usize) -> Vec<String> {
    vec![
        if decimals > 0 { seconds(value) } else { count(value) },
        count(s.executions),
        match decimals {
            0 => each(value, s.executions, 1),
            _ => each(value / 1e6, s.executions, 4),
        },
        percent(value, total),
    ]
}

const ORDERS: [Order; 7] = [
    Order {
        title: "SQL ordered by Elapsed Time",
        column: "elapsed_time",
        by: |s| s.elapsed_us,
        columns: &[
            figures("Elapsed\nTime (s)", 10),
            figures("Executions", 12),
            figures("Elap per\nExec (s)", 10),
            figures("%Total", 6),
            figures("CPU\nTime (s)", 10),
            figures("Physical\nReads", 10),
            ID,
        ],
        cells: |s, total| {
            let mut cells = part_cells(s.elapsed_us, s, total, 2);
            cells.extend([seconds(s.cpu_us), count(s.reads), s.sql_id.clone()]);
            cells
        },
    },
    Order {
        title: "SQL ordered by CPU Time",
        column: "cpu_time",
        by: |s| s.cpu_us,
        columns: &[
            figures("CPU\nTime (s)", 10),
            figures("Executions", 12),
            figures("CPU per\nExec (s)", 10),
            figures("%Total", 6),
            figures("Elapsd\nTime (s)", 10),
            figures("Buffer\nGets", 12),
            ID,
        ],
        cells: |s, total| {
            let mut cells = part_cells(s.cpu_us, s, total, 2);
            cells.extend([seconds(s.elapsed_us), count(s.gets), s.sql_id.clone()]);
            cells
        },
    },
    Order {
        title: "SQL ordered by Gets",
        column: "buffer_gets",
        by: |s| s.gets,
        columns: &[
            figures("Buffer Gets", 14),
            figures("Executions", 12),
            figures("Gets per\nExec", 12),
            figures("%Total", 6),
            figures("CPU\nTime (s)", 9),
            figures("Elapsd\nTime (s)", 9),
            ID,
        ],
        cells: |s, total| {
            let mut cells = part_cells(s.gets, s, total, 0);
            cells.extend([seconds(s.cpu_us), seconds(s.elapsed_us), s.sql_id.clone()]);
            cells
        },
    },
    Order {
        title: "SQL ordered by Reads",
        column: "disk_reads",
        by: |s| s.reads,
        columns: &[
            figures("Physical\nReads", 14),
            figures("Executions", 12),
            figures("Reads per\nExec", 12),
            figures("%Total", 6),
            figures("CPU\nTime (s)", 9),
            figures("Elapsd\nTime (s)", 9),
            ID,
        ],
        cells: |s, total| {
            let mut cells = part_cells(s.reads, s, total, 0);
            cells.extend([seconds(s.cpu_us), seconds(s.elapsed_us), s.sql_id.clone()]);
            cells
        },
    },
    Order {
        title: "SQL ordered by Executions",
        column: "executions",
        by: |s| s.executions,
        columns: &[
            figures("Executions", 12),
            figures("Rows\nProcessed", 14),
            figures("Rows per\nExec", 10),
            figures("CPU per\nExec (s)", 10),
            figures("Elap per\nExec (s)", 10),
            ID,
        ],
        cells: |s, _| {
            vec![
                count(s.executions),
                count(s.rows),
                each(s.rows, s.executions, 1),
                each(s.cpu_us / 1e6, s.executions, 5),
                each(s.elapsed_us / 1e6, s.executions, 5),
                s.sql_id.clone(),
            ]
        },
    },
    Order {
        title: "SQL ordered by Parse Calls",
        column: "parse_calls",
        by: |s| s.parses,
        columns: &[
            figures("Parse Calls", 14),
            figures("Executions", 12),
            figures("%Total\nParses", 8),
            ID,
        ],
        cells: |s, total| {
            vec![count(s.parses), count(s.executions), percent(s.parses, total), s.sql_id.clone()]
        },
    },
    Order {
        title: "SQL ordered by Cluster Wait Time",
        column: "cluster_wait_time",
        by: |s| s.cluster_us,
        columns: &[
            figures("Cluster\nWait (s)", 10),
            figures("CWT % of\nElapsd", 8),
            figures("Elapsd\nTime (s)", 10),
            figures("CPU\nTime (s)", 10),
            figures("Executions", 12),
            ID,
        ],
        cells: |s, _| {
            vec![
                seconds(s.cluster_us),
                percent(s.cluster_us, s.elapsed_us),
                seconds(s.elapsed_us),
                seconds(s.cpu_us),
                count(s.executions),
                s.sql_id.clone(),
            ]
        },
    },
];

pub(crate) fn sections(interval: &Interval, work: &Work) -> Vec<Section> {
    let Some(table) = work.table("wrh$_sqlstat") else { return Vec::new() };
    let all = statements(work);
    let lists = ORDERS.iter().filter(|order| table.has(order.column));
    lists.filter_map(|order| list(interval, order, &all)).collect()
}

fn list(interval: &Interval, order: &Order, all: &[Statement]) -> Option<Section> {
    let total: f64 = all.iter().map(order.by).sum();
    let mut shown: Vec<&Statement> = all
        .iter()
        .filter(|s| (order.by)(s) > 0.0 && 100.0 * (order.by)(s) >= LISTED_PERCENT * total)
        .collect();
    shown.sort_by(|a, b| (order.by)(b).total_cmp(&(order.by)(a)).then(a.sql_id.cmp(&b.sql_id)));
    let captured: f64 = shown.iter().take(LISTED_MAX).map(|s| (order.by)(s)).sum();
    let mut grid = Grid::new(order.columns);
    for statement in shown.into_iter().take(LISTED_MAX) {
        let below = interval.texts.get(&statement.sql_id).cloned();
        grid.rows.push(Line { cells: (order.cells)(statement, total), below });
    }
    Section::new(order.title)
        .note(format!(
            "Statements with {LISTED_PERCENT} % of the total or more; those listed make up {} %.",
            percent(captured, total)
        ))
        .grid(grid)
        .unless_empty()
}
