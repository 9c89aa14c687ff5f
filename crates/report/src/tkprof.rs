//! `tkprof`: what a trace says of each statement, in the field's layout.
//!
//! What it promises: every call that could be read is in exactly one statement and in the totals of
//! its kind. What it must never do: hide that something could not be read.

use std::collections::BTreeSet;
use std::fmt::Write;

use crate::layout;
use crate::trace::{Statement, Sums, Trace, Waited, add_wait};

/// What statements are sorted by.
#[derive(Clone, Copy, Debug)]
pub struct SortKey {
    name: &'static str,
    figure: Figure,
}

#[derive(Clone, Copy, Debug)]
enum Figure {
    /// One figure of one kind of call.
    Call(usize, fn(&Sums) -> u64),
    /// The number of the user who has parsed it.
    User,
}

impl Figure {
    fn of(self, statement: &Statement) -> u64 {
        match self {
            Figure::Call(call, figure) => figure(&statement.calls[call]),
            Figure::User => statement.uid,
        }
    }
}

fn count(s: &Sums) -> u64 {
    s.count
}
fn cpu(s: &Sums) -> u64 {
    s.cpu_us
}
fn elapsed(s: &Sums) -> u64 {
    s.elapsed_us
}
fn disk(s: &Sums) -> u64 {
    s.disk
}
fn query(s: &Sums) -> u64 {
    s.query
}
fn current(s: &Sums) -> u64 {
    s.current
}
fn rows(s: &Sums) -> u64 {
    s.rows
}
fn misses(s: &Sums) -> u64 {
    s.misses
}

const fn key(name: &'static str, call: usize, figure: fn(&Sums) -> u64) -> SortKey {
    SortKey { name, figure: Figure::Call(call, figure) }
}

const KEYS: [SortKey; 23] = [
    key("prscnt", 0, count),
    key("prscpu", 0, cpu),
    key("prsela", 0, elapsed),
    key("prsdsk", 0, disk),
    key("prsqry", 0, query),
    key("prscu", 0, current),
    key("prsmis", 0, misses),
    key("execnt", 1, count),
    key("execpu", 1, cpu),
    key("exeela", 1, elapsed),
    key("exedsk", 1, disk),
    key("exeqry", 1, query),
    key("execu", 1, current),
    key("exerow", 1, rows),
    key("exemis", 1, misses),
    key("fchcnt", 2, count),
    key("fchcpu", 2, cpu),
    key("fchela", 2, elapsed),
    key("fchdsk", 2, disk),
    key("fchqry", 2, query),
    key("fchcu", 2, current),
    key("fchrow", 2, rows),
    SortKey { name: "userid", figure: Figure::User },
];

impl SortKey {
    /// The keys of a list such as `prsela,exeela,fchela`.
    ///
    /// # Errors
    /// The word that is no key.
    pub fn parse_list(text: &str) -> Result<Vec<SortKey>, String> {
        let text = text.trim_matches(['(', ')']);
        let find = |word: &str| {
            let found = KEYS.iter().find(|key| key.name.eq_ignore_ascii_case(word.trim()));
            found.copied().ok_or_else(|| {
                let all: Vec<&str> = KEYS.iter().map(|key| key.name).collect();
                format!("unknown sort key \"{}\"; there are {}", word.trim(), all.join(", "))
            })
        };
        text.split(',').map(find).collect()
    }
}

/// What a report is to show.
#[derive(Clone, Debug)]
pub struct Options {
    /// Summed; none: in order of first use.
    pub sort: Vec<SortKey>,
    /// Only so many statements.
    pub print: Option<usize>,
    /// Whether statements of the database itself are shown.
    pub sys: bool,
    pub waits: bool,
    /// Characters of a line of the steps; what is longer goes on below.
    pub width: Option<usize>,
}

impl Default for Options {
    fn default() -> Options {
        Options { sort: Vec::new(), print: None, sys: true, waits: true, width: None }
    }
}

const LEGEND: &str = "\
count    = how often the call was made
cpu      = processor time in seconds
elapsed  = time in seconds, waits included
disk     = blocks read from disk
query    = blocks visited as of a snapshot
current  = blocks visited in their newest version
rows     = rows fetched or changed
";

/// The report on what was read.
#[must_use]
pub fn tkprof(trace: &Trace, names: &[String], options: &Options) -> String {
    let mut out = format!("TKPROF: Release {} of Skein\n\n", env!("CARGO_PKG_VERSION"));
    for name in names {
        let _ = writeln!(out, "Trace file: {name}");
    }
    let keys: Vec<&str> = options.sort.iter().map(|key| key.name).collect();
    let sort = if keys.is_empty() { "default".to_owned() } else { keys.join("  ") };
    let _ = writeln!(out, "Sort options: {sort}\n");
    out.push_str(layout::RULE);
    out.push_str(LEGEND);
    out.push_str(layout::RULE);
    for statement in shown(trace, options) {
        out.push('\n');
        statement_block(&mut out, statement, options);
        out.push_str(layout::RULE);
    }
    out.push_str("\n\n\n");
    for (recursive, title) in [(false, "NON-RECURSIVE"), (true, "RECURSIVE")] {
        let _ = writeln!(out, "OVERALL TOTALS FOR ALL {title} STATEMENTS\n");
        totals(&mut out, trace, recursive, options);
    }
    counts(&mut out, trace, names);
    out
}

/// A statement with `:b1` for its parameter `$1`, as a script has it; what stands in quotes and
/// comments stays.
fn with_variables(text: &str) -> String {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#');
    let (mut out, mut at) = (String::new(), 0);
    while let Some(first) = text[at..].chars().next() {
        let rest = &text[at..];
        let behind = &rest[first.len_utf8()..];
        let until = |end: &str| behind.find(end).map_or(rest.len(), |i| 1 + i + end.len());
        let length = match first {
            '\'' | '"' => until(&first.to_string()),
            '-' if behind.starts_with('-') => until("\n"),
            '/' if behind.starts_with('*') => until("*/"),
            '$' => {
                let digits = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
                if digits > 0 {
                    out.push_str(":b");
                    at += 1;
                    digits
                } else {
                    // What its tag ends as well.
                    let tag = behind.find('$').map_or("", |end| &rest[..end + 2]);
                    let end = if tag.is_empty() { None } else { rest[tag.len()..].find(tag) };
                    end.map_or(1, |end| end + 2 * tag.len())
                }
            }
            // A name may have the sign in it.
            c if is_part(c) => rest.find(|c: char| !is_part(c)).unwrap_or(rest.len()),
            other => other.len_utf8(),
        };
        out.push_str(&text[at..at + length]);
        at += length;
    }
    out
}

/// What clients have asked for, as a script: each text once, in the order of their first use, with
/// variables for its parameters. What could not be parsed is not in it.
#[must_use]
pub fn recorded(trace: &Trace) -> String {
    /// The field's number of a block of procedural code.
    const BLOCK: u64 = 47;
    let mut out = String::new();
    let asked = |s: &&Statement| s.depth == 0 && s.parse_error.is_none();
    let mut before = BTreeSet::new();
    for statement in trace.statements.iter().filter(asked) {
        let text = statement.text.trim();
        // One that ran by several plans is several statements.
        if text.is_empty() || !before.insert(text) {
            continue;
        }
        let _ = match statement.command {
            BLOCK => writeln!(out, "{text}\n/"),
            _ => writeln!(out, "{};", with_variables(text.trim_end_matches(';'))),
        };
    }
    out
}

/// Whether it is the database's own, of whatever depth: procedural code has statements below it
/// that are its user's.
fn is_internal(statement: &Statement) -> bool {
    statement.uid == 0
}

fn shown<'a>(trace: &'a Trace, options: &Options) -> Vec<&'a Statement> {
    // Commands that end transactions are not listed as statements.
    let listed = |s: &&Statement| !matches!(s.command, 44 | 45);
    let own = |s: &&Statement| options.sys || !is_internal(s);
    let mut all: Vec<&Statement> = trace.statements.iter().filter(listed).filter(own).collect();
    if !options.sort.is_empty() {
        let weight = |s: &Statement| options.sort.iter().map(|key| key.figure.of(s)).sum::<u64>();
        all.sort_by_key(|s| std::cmp::Reverse(weight(s)));
    }
    all.truncate(options.print.unwrap_or(usize::MAX));
    all
}

fn statement_block(out: &mut String, statement: &Statement, options: &Options) {
    if let Some(code) = &statement.parse_error {
        return failed_block(out, statement, code, options);
    }
    let Statement { text, sql_id, plan, uid, depth, calls, waits, sources, errors, .. } = statement;
    let _ = writeln!(out, "SQL ID: {sql_id} Plan Hash: {plan}\n\n{text}\n\n");
    layout::calls(out, calls);
    layout::misses(out, calls);
    out.push_str("Optimizer mode: ALL_ROWS\n");
    let recursive = match depth {
        0 => String::new(),
        depth => format!("     (recursive depth: {depth})"),
    };
    let _ = writeln!(out, "Parsing user id: {uid}{recursive}");
    if *errors > 0 {
        let _ = writeln!(out, "Calls that failed: {errors}");
    }
    out.push('\n');
    if !sources.is_empty() {
        layout::sources(out, sources, options.width);
    }
    if options.waits {
        layout::waits(out, waits);
    }
}

/// A text that could not be parsed: it has no calls. The words are the field's, as they are.
fn failed_block(out: &mut String, statement: &Statement, code: &str, options: &Options) {
    let Statement { text, errors, waits, .. } = statement;
    out.push_str("The following statement encountered a error during parse:\n\n");
    let _ = writeln!(out, "{text}\n\nError encountered: {code}");
    if *errors > 1 {
        let _ = writeln!(out, "Calls that failed: {errors}");
    }
    if options.waits && !waits.is_empty() {
        out.push('\n');
        layout::waits(out, waits);
    }
}

fn totals(out: &mut String, trace: &Trace, recursive: bool, options: &Options) {
    let mut calls = [Sums::default(); 3];
    let mut waits: Vec<Waited> = Vec::new();
    for statement in trace.statements.iter().filter(|s| (s.depth > 0) == recursive) {
        for (sum, one) in calls.iter_mut().zip(&statement.calls) {
            sum.add(one);
        }
        for w in &statement.waits {
            add_wait(&mut waits, &w.event, w.count, w.max_us, w.total_us);
        }
    }
    if !recursive {
        for w in &trace.outside {
            add_wait(&mut waits, &w.event, w.count, w.max_us, w.total_us);
        }
    }
    layout::calls(out, &calls);
    layout::misses(out, &calls);
    out.push('\n');
    if options.waits {
        layout::waits(out, &waits);
    }
    out.push('\n');
}

fn counts(out: &mut String, trace: &Trace, names: &[String]) {
    let internal = trace.statements.iter().filter(|s| is_internal(s)).count();
    let user = trace.statements.len() - internal;
    let all = trace.statements.len();
    let _ = writeln!(out, "{user:>5}  user  SQL statements in session.");
    let _ = writeln!(out, "{internal:>5}  internal SQL statements in session.");
    let _ = writeln!(out, "{all:>5}  SQL statements in session.");
    out.push_str(layout::RULE);
    for name in names {
        let _ = writeln!(out, "Trace file: {name}");
    }
    out.push_str("Trace file compatibility: 11.1.0.7\n");
    let with_calls = trace.statements.iter().filter(|s| s.total().count > 0).count();
    let Trace { sessions, lines, commits, rollbacks, spanned_us, .. } = trace;
    for (number, what) in [
        (sessions.len() as u64, "sessions in tracefile."),
        (user as u64, "user  SQL statements in trace file."),
        (internal as u64, "internal SQL statements in trace file."),
        (with_calls as u64, "SQL statements with calls in trace file."),
        (*commits, "transactions committed."),
        (*rollbacks, "transactions rolled back."),
        (*lines as u64, "lines in trace file."),
        (spanned_us / 1_000_000, "elapsed seconds in trace file."),
    ] {
        let _ = writeln!(out, "{number:>8}  {what}");
    }
    if !trace.notes.is_empty() {
        let _ = writeln!(out, "\n{} places of the input could not be read:", trace.notes.len());
        for note in &trace.notes {
            let _ = writeln!(out, "{}:{}: {}", note.file, note.line, note.text);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_variables_of_a_script() {
        for (text, wanted) in [
            ("select v from t where k = $1 and n<$12", "select v from t where k = :b1 and n<:b12"),
            ("select '$1', \"$1\", v$1 from v$x", "select '$1', \"$1\", v$1 from v$x"),
            ("select 'it''s $1' || $2 -- $3\n, $4", "select 'it''s $1' || :b2 -- $3\n, :b4"),
            (
                "select /* $1 */ $$ $1 $$, $a$ $1 $a$, $1",
                "select /* $1 */ $$ $1 $$, $a$ $1 $a$, :b1",
            ),
            ("select 'é' = $1, $", "select 'é' = :b1, $"),
            ("select 'open $1", "select 'open $1"),
            ("select $1::int -- end", "select :b1::int -- end"),
        ] {
            assert_eq!(with_variables(text), wanted);
        }
    }
}
