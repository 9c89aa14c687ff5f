//! What an experiment found: its figures, in a text, as JSON and (in `html`) as a page.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;

use serde_json::{Value, json};

use super::check::{Check, Kind};

/// Rows of figures under headings, ours beside the paper's.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    pub title: String,
    pub columns: Vec<String>,
    pub rows: Vec<Vec<String>>,
}

impl Table {
    #[must_use]
    pub fn new(title: impl Into<String>, columns: &[&str]) -> Table {
        let columns = columns.iter().map(|c| (*c).to_owned()).collect();
        Table { title: title.into(), columns, rows: Vec::new() }
    }

    pub fn row(&mut self, cells: Vec<String>) {
        debug_assert_eq!(cells.len(), self.columns.len(), "{cells:?}");
        self.rows.push(cells);
    }
}

/// Bars: for each label one of each series.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chart {
    pub title: String,
    pub unit: String,
    pub series: Vec<String>,
    pub groups: Vec<(String, Vec<f64>)>,
}

/// Everything that is told of a run.
#[derive(Clone, Debug, Default)]
pub struct Report {
    pub name: String,
    pub title: String,
    /// The belief, and what the experiment does.
    pub about: String,
    /// Machine, CPUs, trace level, parameters.
    pub circumstances: Vec<(String, String)>,
    /// What was found, in sentences.
    pub findings: Vec<String>,
    pub tables: Vec<Table>,
    pub charts: Vec<Chart>,
    pub checks: Vec<Check>,
    /// By name, with the unit in it.
    pub figures: BTreeMap<String, f64>,
    /// A piece of `skein tkprof` or the like.
    pub listings: Vec<(String, String)>,
    /// Why the effect could not be looked for.
    pub not_tested: Option<String>,
    /// The scale from which times can be judged, if this is a smaller one.
    pub timed_from: Option<f64>,
}

impl Report {
    /// Notes a figure for JSON.
    pub fn figure(&mut self, name: impl Into<String>, value: f64) {
        self.figures.insert(name.into(), value);
    }

    /// Checks that put the effect in doubt.
    pub fn failures(&self) -> impl Iterator<Item = &Check> {
        self.checks.iter().filter(|check| check.fails())
    }

    /// What a ratio of times is checked as.
    #[must_use]
    pub fn timed(&self) -> Kind {
        if self.timed_from.is_some() { Kind::Unjudged } else { Kind::Effect }
    }

    /// What a time of one piece of work that is to be beaten is checked as.
    #[must_use]
    pub fn goal(&self) -> Kind {
        if self.timed_from.is_some() { Kind::Unjudged } else { Kind::Goal }
    }

    /// Why the effect has not been looked for, or not judged.
    #[must_use]
    pub fn untested(&self) -> Option<String> {
        let unjudged = || self.checks.iter().any(|check| check.kind == Kind::Unjudged);
        self.not_tested.clone().or_else(|| {
            let from = self.timed_from.filter(|_| unjudged())?;
            Some(format!(
                "at this scale times are too short to be told from noise; they are judged from \
                 --scale {from} on"
            ))
        })
    }

    /// What came out, in one word.
    #[must_use]
    pub fn verdict(&self) -> &'static str {
        match (self.failures().next().is_some(), self.untested()) {
            (true, _) => "NOT REPRODUCED",
            (false, Some(_)) => "NOT TESTED",
            (false, None) => "REPRODUCED",
        }
    }

    /// For a terminal.
    #[must_use]
    pub fn text(&self) -> String {
        let mut out = format!("{}: {}\n{}\n\n", self.name, self.title, self.about);
        for (name, value) in &self.circumstances {
            let _ = writeln!(out, "{name}: {value}");
        }
        for table in &self.tables {
            let _ = write!(out, "\n{}\n{}", table.title, aligned(table));
        }
        for (title, text) in &self.listings {
            let _ = write!(out, "\n{title}\n{}\n", text.trim_end());
        }
        if !self.findings.is_empty() {
            out.push('\n');
        }
        for finding in &self.findings {
            let _ = writeln!(out, "{finding}");
        }
        let mut checks = Table::new("Checks", &["", "kind", "what", "wanted", "found"]);
        for c in &self.checks {
            let cells = [c.verdict(), c.kind.name(), &c.what, &c.wanted, &c.found];
            checks.row(cells.map(|cell| cell.replace('\n', "; ")).to_vec());
        }
        let _ = write!(out, "\n{}\n{}", checks.title, aligned(&checks));
        if let Some(why) = self.untested() {
            let _ = writeln!(out, "\nnot tested: {why}");
        }
        let _ = write!(out, "\n{}: {}", self.name, self.verdict());
        for check in self.failures() {
            let _ =
                write!(out, "\n  {}: wanted {}, found {}", check.what, check.wanted, check.found);
        }
        out
    }

    /// For programs; figures that could not be had are null.
    #[must_use]
    pub fn json(&self) -> Value {
        let circumstances: BTreeMap<_, _> = self.circumstances.iter().cloned().collect();
        let table = |t: &Table| json!({"title": t.title, "columns": t.columns, "rows": t.rows});
        json!({
            "experiment": self.name,
            "title": self.title,
            "verdict": self.verdict().to_lowercase(),
            "not_tested": self.untested(),
            "circumstances": circumstances,
            "figures": self.figures,
            "findings": self.findings,
            "tables": self.tables.iter().map(table).collect::<Vec<_>>(),
            "checks": self.checks.iter().map(Check::json).collect::<Vec<_>>(),
        })
    }
}

/// Columns parted by two blanks; numbers stand as they come.
fn aligned(table: &Table) -> String {
    let rows = || std::iter::once(&table.columns).chain(&table.rows);
    let width = |at: usize| rows().filter_map(|row| row.get(at)).map(|c| c.chars().count()).max();
    let widths: Vec<usize> =
        (0..table.columns.len()).map(|at| width(at).unwrap_or_default()).collect();
    let mut out = String::new();
    for row in rows() {
        let mut line = String::from(" ");
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(line, " {cell:<width$} ");
        }
        out.push_str(line.trim_end());
        out.push('\n');
    }
    out
}

/// The machine, as its own files tell.
#[must_use]
pub fn machine(processors: usize) -> Vec<(String, String)> {
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let field = |text: &str, name: &str| {
        let line = text.lines().find(|line| line.starts_with(name));
        line.and_then(|line| line.split_once(':')).map(|(_, value)| value.trim().to_owned())
    };
    let unknown = || "unknown".to_owned();
    let model = field(&read("/proc/cpuinfo"), "model name").unwrap_or_else(unknown);
    let memory = field(&read("/proc/meminfo"), "MemTotal").unwrap_or_else(unknown);
    let load = read("/proc/loadavg").split(' ').next().unwrap_or_default().to_owned();
    vec![
        ("machine".to_owned(), read("/proc/sys/kernel/hostname")),
        ("CPUs".to_owned(), format!("{processors} x {model}")),
        ("memory".to_owned(), memory),
        ("kernel".to_owned(), read("/proc/sys/kernel/osrelease")),
        ("load average before".to_owned(), load),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(checks: Vec<Check>) -> Report {
        Report { name: "myth0".into(), title: "A belief".into(), checks, ..Report::default() }
    }

    #[test]
    fn a_verdict_follows_from_the_checks() {
        let good = report(vec![Check::count("gets", 3, 3)]);
        assert_eq!(good.verdict(), "REPRODUCED");
        let bad = report(vec![Check::count("gets", 3, 3), Check::count("rows", 1, 2)]);
        assert_eq!(bad.verdict(), "NOT REPRODUCED");
        assert!(
            bad.text().ends_with("NOT REPRODUCED\n  rows: wanted 1, found 2"),
            "{}",
            bad.text()
        );
        let goal = report(vec![Check::at_most(Kind::Goal, "us", 1.0, 2.0, "us")]);
        assert_eq!(goal.verdict(), "REPRODUCED");
        let mut refused = report(Vec::new());
        refused.not_tested = Some("no permission".into());
        assert_eq!(refused.verdict(), "NOT TESTED");
    }

    #[test]
    fn times_of_a_small_run_are_told_and_not_judged() {
        let mut small = report(vec![Check::count("gets", 3, 3)]);
        assert_eq!((small.timed(), small.goal()), (Kind::Effect, Kind::Goal));
        small.timed_from = Some(0.2);
        assert_eq!((small.timed(), small.goal()), (Kind::Unjudged, Kind::Unjudged));
        assert_eq!(small.verdict(), "REPRODUCED", "there is nothing to judge");
        small.checks.push(Check::at_most(small.timed(), "ratio", 3.0, 4.0, ""));
        assert_eq!(small.verdict(), "NOT TESTED");
        assert!(small.text().contains("from --scale 0.2 on"), "{}", small.text());
        small.checks.push(Check::count("rows", 1, 2));
        assert_eq!(small.verdict(), "NOT REPRODUCED");
    }

    #[test]
    fn programs_get_every_figure_and_every_check() {
        let mut report = report(vec![Check::count("rows", 1, 2)]);
        report.figure("elapsed_s", 1.5);
        report.figure("missing_s", f64::NAN);
        let json = report.json();
        assert_eq!(json["verdict"], "not reproduced");
        assert_eq!(json["figures"]["elapsed_s"], 1.5);
        assert!(json["figures"]["missing_s"].is_null());
        assert_eq!(json["checks"][0]["holds"], false);
    }

    #[test]
    fn columns_stand_below_each_other() {
        let mut table = Table::new("t", &["way", "s"]);
        table.row(vec!["alone".into(), "1".into()]);
        assert_eq!(aligned(&table), "  way    s\n  alone  1\n");
    }
}
