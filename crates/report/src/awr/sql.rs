//! Statements, ordered by what they took.

use super::numbers::{Interval, Row, Table, Work};
use super::page::*;
use std::collections::BTreeMap;

/// How many statements a list holds, how much of the total makes one worth listing, and how many
/// are listed however little they have.
const LISTED_MAX: usize = 65;
const LISTED_PERCENT: f64 = 1.0;
const LISTED_MIN: usize = 10;
/// What is shown as 0.00 s is nothing.
const SHOWN_US_MIN: f64 = 5_000.0;

/// One statement, all its plans together; or several, whose texts differ in constants only.
#[derive(Clone, Default, Debug)]
pub(crate) struct Statement {
    pub(crate) sql_id: String,
    /// What it has in common with others; empty: nothing.
    signature: String,
    /// How many texts that were executed.
    pub(crate) texts: f64,
    /// Plans that were made.
    pub(crate) loads: f64,
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
        if let Some(signature) = row.keys.get(1).filter(|signature| *signature != "0") {
            one.signature.clone_from(signature);
        }
        add(one, table, row);
        one.texts = f64::from(u8::from(one.executions > 0.0));
    }
    all.into_values().collect()
}

/// The statements of an interval, those together whose texts differ in constants only: under the id
/// of the one that took the longest.
pub(crate) fn families(work: &Work) -> Vec<Statement> {
    let mut all: BTreeMap<String, (f64, Statement)> = BTreeMap::new();
    for statement in statements(work) {
        // Of a text that nobody has run in the interval there is nothing to add.
        if statement.executions <= 0.0 && statement.elapsed_us <= 0.0 && statement.loads <= 0.0 {
            continue;
        }
        let alone = statement.signature.is_empty();
        let key = if alone { &statement.sql_id } else { &statement.signature };
        let (longest_us, family) = all.entry(key.clone()).or_default();
        if family.sql_id.is_empty() || statement.elapsed_us > *longest_us {
            *longest_us = statement.elapsed_us;
            family.sql_id.clone_from(&statement.sql_id);
        }
        family.join(&statement);
    }
    all.into_values().map(|(_, family)| family).collect()
}

impl Statement {
    fn join(&mut self, other: &Statement) {
        self.signature.clone_from(&other.signature);
        self.texts += other.texts;
        self.loads += other.loads;
        self.executions += other.executions;
        self.elapsed_us += other.elapsed_us;
        self.cpu_us += other.cpu_us;
        self.gets += other.gets;
        self.reads += other.reads;
        self.rows += other.rows;
        self.parses += other.parses;
        self.cluster_us += other.cluster_us;
        self.concurrency_us += other.concurrency_us;
        self.application_us += other.application_us;
    }
}

fn add(one: &mut Statement, table: &Table, row: &Row) {
    let of = |name: &str| table.added(row, name);
    one.loads += of("loads");
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
    /// What there was of it in all, and what that is called; `None`: only the statements' sum is
    /// known.
    total: fn(&Work) -> Option<(f64, &'static str)>,
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
        total: |work| Some((work.db_time_us(), "DB time")),
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
        total: |work| Some((work.cpu_us()?, "DB CPU")),
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
        total: |work| Some((work.gets(), "session logical reads")),
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
        total: |work| Some((work.stat("physical reads")?, "physical reads")),
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
        total: |work| Some((work.stat("execute count")?, "execute count")),
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
        total: |work| Some((work.stat("parse count (total)")?, "parse count (total)")),
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
        total: |work| Some((work.class_us("Cluster")?, "class Cluster")),
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
    let mut sections: Vec<Section> =
        lists.filter_map(|order| list(interval, work, order, &all)).collect();
    sections.extend(alike(interval, work));
    sections
}

/// Those worth listing, the largest first.
fn worth_listing(all: &[Statement], by: fn(&Statement) -> f64, total: f64) -> Vec<&Statement> {
    let mut shown: Vec<&Statement> = all.iter().filter(|s| by(s) > 0.0).collect();
    shown.sort_by(|a, b| by(b).total_cmp(&by(a)).then(a.sql_id.cmp(&b.sql_id)));
    let large = shown.iter().take_while(|s| 100.0 * by(s) >= LISTED_PERCENT * total).count();
    shown.truncate(large.clamp(LISTED_MIN, LISTED_MAX));
    shown
}

fn list(interval: &Interval, work: &Work, order: &Order, all: &[Statement]) -> Option<Section> {
    let known = (order.total)(work).filter(|(total, _)| *total > 0.0);
    let (total, of) =
        known.unwrap_or_else(|| (all.iter().map(order.by).sum(), "what these statements had"));
    let shown = worth_listing(all, order.by, total);
    let listed: f64 = shown.iter().map(|s| (order.by)(s)).sum();
    let mut grid = Grid::new(order.columns);
    for statement in shown {
        let below = interval.texts.get(&statement.sql_id).cloned();
        grid.rows.push(Line { cells: (order.cells)(statement, total), below });
    }
    // Columns of parts, where there are any.
    let has_parts = order.columns.iter().any(|column| column.name.starts_with("%Total"));
    let parts = if has_parts { format!("%Total is of {of}. ") } else { String::new() };
    Section::new(order.title)
        .note(format!(
            "{parts}Those listed make up {} % of {of}. What a statement has is its block's or \
             function's as well.",
            percent(listed, total)
        ))
        .grid(grid)
        .unless_empty()
}

/// Statements with constants in their texts: each has little, all together may have much.
fn alike(interval: &Interval, work: &Work) -> Option<Section> {
    let mut all = families(work);
    all.retain(|family| family.texts > 1.0 && family.elapsed_us >= SHOWN_US_MIN);
    let total = work.db_time_us();
    let mut grid = Grid::new(&[
        figures("Elapsed\nTime (s)", 10),
        figures("Executions", 12),
        figures("Texts", 8),
        figures("%Total", 6),
        figures("CPU\nTime (s)", 10),
        figures("Buffer\nGets", 12),
        words("SQL Id\nof one", 13),
    ]);
    for family in worth_listing(&all, |s| s.elapsed_us, total) {
        let cells = vec![
            seconds(family.elapsed_us),
            count(family.executions),
            count(family.texts),
            percent(family.elapsed_us, total),
            seconds(family.cpu_us),
            count(family.gets),
            family.sql_id.clone(),
        ];
        let below = interval.texts.get(&family.sql_id).cloned();
        grid.rows.push(Line { cells, below });
    }
    Section::new("Statements that differ in constants only")
        .note(
            "Texts with one force_matching_signature, of those that the library cache still had \
             at the end. %Total is of DB time.",
        )
        .grid(grid)
        .unless_empty()
}
