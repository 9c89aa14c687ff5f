//! Reads what `skein tkprof` says of trace files: calls and waits of each statement.

use std::path::{Path, PathBuf};
use std::process::Command;

/// One line of the table of calls.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Calls {
    pub count: i64,
    pub cpu_s: f64,
    pub elapsed_s: f64,
    pub disk: i64,
    pub query: i64,
    pub current: i64,
    pub rows: i64,
}

/// One line of the table of waits.
#[derive(Clone, Debug, PartialEq)]
pub struct Wait {
    pub event: String,
    pub times: i64,
    pub max_s: f64,
    pub total_s: f64,
}

/// What is said of one statement.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Statement {
    pub text: String,
    pub execute: Calls,
    pub fetch: Calls,
    pub waits: Vec<Wait>,
}

/// Runs the command on trace files; its report, and the same taken apart.
///
/// # Errors
/// What it said; a report without a statement.
pub fn run(skein: &Path, traces: &[PathBuf]) -> Result<(String, Vec<Statement>), String> {
    let mut command = Command::new(skein);
    command.arg("tkprof").args(traces);
    let out = tokio::task::block_in_place(|| command.output());
    let out = out.map_err(|e| format!("run {}: {e}", skein.display()))?;
    if !out.status.success() {
        let why = String::from_utf8_lossy(&out.stderr).trim().to_owned();
        return Err(format!("skein tkprof {traces:?}: {}: {why}", out.status));
    }
    let report = String::from_utf8_lossy(&out.stdout).into_owned();
    let statements = read(&report);
    if statements.is_empty() {
        return Err(format!("skein tkprof {traces:?} tells of no statement"));
    }
    Ok((report, statements))
}

/// The statements of a report.
fn read(report: &str) -> Vec<Statement> {
    report.split("****\n").filter_map(read_one).collect()
}

fn read_one(section: &str) -> Option<Statement> {
    let section = section.trim_start_matches('*').trim_start();
    let (_, rest) = section.strip_prefix("SQL ID:")?.split_once('\n')?;
    let (text, rest) = rest.split_once("\ncall ")?;
    let mut found = Statement { text: text.trim().to_owned(), ..Statement::default() };
    let mut in_waits = false;
    for line in rest.lines() {
        if let Some(numbers) = line.strip_prefix("Execute") {
            found.execute = calls(numbers)?;
        }
        if let Some(numbers) = line.strip_prefix("Fetch") {
            found.fetch = calls(numbers)?;
        }
        in_waits |= line.trim_start().starts_with("Event waited on");
        if in_waits && let Some(wait) = wait(line) {
            found.waits.push(wait);
        }
    }
    Some(found)
}

fn calls(numbers: &str) -> Option<Calls> {
    let all: Vec<&str> = numbers.split_whitespace().collect();
    let &[count, cpu, elapsed, disk, query, current, rows] = &all[..] else { return None };
    Some(Calls {
        count: count.parse().ok()?,
        cpu_s: cpu.parse().ok()?,
        elapsed_s: elapsed.parse().ok()?,
        disk: disk.parse().ok()?,
        query: query.parse().ok()?,
        current: current.parse().ok()?,
        rows: rows.parse().ok()?,
    })
}

/// Name, times, longest and total; `None` for headings.
fn wait(line: &str) -> Option<Wait> {
    let mut words: Vec<&str> = line.split_whitespace().collect();
    let total_s = words.pop()?.parse().ok()?;
    let max_s = words.pop()?.parse().ok()?;
    let times = words.pop()?.parse().ok()?;
    (!words.is_empty()).then(|| Wait { event: words.join(" "), times, max_s, total_s })
}

/// Waits of all statements by event, the longest total first; those for the client are left out.
#[must_use]
pub fn top_waits(statements: &[Statement]) -> Vec<Wait> {
    let mut sums: Vec<Wait> = Vec::new();
    for wait in statements.iter().flat_map(|s| &s.waits) {
        if wait.event.starts_with("SQL*Net") {
            continue;
        }
        match sums.iter_mut().find(|sum| sum.event == wait.event) {
            Some(sum) => {
                sum.times += wait.times;
                sum.total_s += wait.total_s;
                sum.max_s = sum.max_s.max(wait.max_s);
            }
            None => sums.push(wait.clone()),
        }
    }
    sums.sort_by(|a, b| b.total_s.total_cmp(&a.total_s));
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = "\
TKPROF: Release 0.1.0 of Skein

********************************************************************************
count    = how often the call was made
********************************************************************************

SQL ID: 4rncctxv1p2yx Plan Hash: 0

begin
 insert into t1 select 1;
end


call     count       cpu    elapsed       disk      query    current        rows
------- ------  -------- ---------- ---------- ---------- ----------  ----------
Parse        1      0.00       0.00          0          0          0           0
Execute      1      8.52      50.14          2      45511      49549           0

Elapsed times include waiting on following events:
  Event waited on                             Times   Max. Wait  Total Waited
  ----------------------------------------   Waited  ----------  ------------
  log file sync                               10010        0.07         16.61
  SQL*Net message to client                       1        0.00         99.00

********************************************************************************

SQL ID: 3d2nazgbgnhxu Plan Hash: 0

update seq$ set highwater=:new where obj = :1


call     count       cpu    elapsed       disk      query    current        rows
------- ------  -------- ---------- ---------- ---------- ----------  ----------
Parse        0      0.00       0.00          0          0          0           0
Execute  10000      1.40      25.12          0      45378      37853       10000
Fetch        2      0.02       0.03          0          4          0           2

Elapsed times include waiting on following events:
  Event waited on                             Times   Max. Wait  Total Waited
  ----------------------------------------   Waited  ----------  ------------
  log file sync                                   1        0.09          0.09
  row cache lock                               6124        0.14         23.71
";

    #[test]
    fn calls_and_waits_of_each_statement_are_read() {
        let found = read(REPORT);
        let [block, update] = &found[..] else { panic!("{found:?}") };
        assert!(block.text.starts_with("begin\n insert"), "{block:?}");
        assert_eq!((block.execute.query, block.execute.disk), (45_511, 2));
        assert_eq!((update.execute.count, update.execute.rows), (10_000, 10_000));
        assert_eq!((update.fetch.count, update.fetch.query, block.fetch.count), (2, 4, 0));
        let top = top_waits(&found);
        let names: Vec<&str> = top.iter().map(|wait| wait.event.as_str()).collect();
        assert_eq!(names, ["row cache lock", "log file sync"]);
        assert_eq!((top[1].times, top[0].times), (10_011, 6124));
        assert!((top[1].total_s - 16.7).abs() < 1e-9 && (top[1].max_s - 0.09).abs() < 1e-9);
    }
}
