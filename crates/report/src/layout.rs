//! The tables of a `tkprof` report, column by column.

use std::fmt::Write;

use crate::trace::{Source, Sums, Waited};

pub(crate) const RULE: &str =
    "********************************************************************************\n";

fn seconds(us: u64) -> String {
    format!("{}.{:02}", us / 1_000_000, us % 1_000_000 / 10_000)
}

fn call_line(out: &mut String, name: &str, sums: &Sums) {
    let Sums { count, cpu_us, elapsed_us, disk, query, current, rows, .. } = sums;
    let (cpu, elapsed) = (seconds(*cpu_us), seconds(*elapsed_us));
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "{name:<7} {count:>6}  {cpu:>8} {elapsed:>10} {disk:>10} {query:>10} {current:>10}  \
         {rows:>10}"
    );
}

const CALL_RULE: &str =
    "------- ------  -------- ---------- ---------- ---------- ----------  ----------\n";

/// Parse, Execute, Fetch and their total.
pub(crate) fn calls(out: &mut String, calls: &[Sums; 3]) {
    out.push_str(
        "call     count       cpu    elapsed       disk      query    current        rows\n",
    );
    out.push_str(CALL_RULE);
    let mut total = Sums::default();
    for (name, sums) in ["Parse", "Execute", "Fetch"].into_iter().zip(calls) {
        call_line(out, name, sums);
        total.add(sums);
    }
    out.push_str(CALL_RULE);
    call_line(out, "total", &total);
    out.push('\n');
}

/// Misses of the plan cache.
pub(crate) fn misses(out: &mut String, calls: &[Sums; 3]) {
    let _ = writeln!(out, "Misses in library cache during parse: {}", calls[0].misses);
    if calls[1].misses > 0 {
        let _ = writeln!(out, "Misses in library cache during execute: {}", calls[1].misses);
    }
}

/// Columns before the name of a step.
const BEFORE_STEP: usize = 34;
/// Columns that a step has at the least, however narrow the report is.
const STEP_MIN: usize = 20;

/// Row sources, indented by how deep they are.
pub(crate) fn sources(out: &mut String, all: &[Source], width: Option<usize>) {
    let told = all.iter().map(|source| source.told).max().unwrap_or(0);
    let _ = writeln!(out, "Number of plan statistics captured: {told}\n");
    out.push_str("Rows (1st) Rows (avg) Rows (max)  Row Source Operation\n");
    out.push_str(
        "---------- ---------- ----------  ---------------------------------------------------\n",
    );
    let mut depths: Vec<(u64, usize)> = Vec::new();
    for source in all {
        let Source { id, rows, parent, obj, operation, rows_max, .. } = source;
        let average = source.rows_average();
        let above = depths.iter().find(|(known, _)| known == parent);
        let depth = above.map_or(0, |(_, depth)| depth + 1);
        depths.push((*id, depth));
        let object = match operation.contains("INDEX") && *obj > 0 {
            true => format!("(object id {obj})"),
            false => String::new(),
        };
        let indent = BEFORE_STEP + depth;
        let room = width.map_or(usize::MAX, |width| width.saturating_sub(indent).max(STEP_MIN));
        let step: Vec<char> = operation.chars().chain(object.chars()).collect();
        let mut pieces = step.chunks(room).map(|piece| piece.iter().collect::<String>());
        let first = pieces.next().unwrap_or_default();
        let _ = writeln!(out, "{rows:>10} {average:>10} {rows_max:>10}  {:depth$}{first}", "");
        for piece in pieces {
            let _ = writeln!(out, "{:indent$}{piece}", "");
        }
    }
    out.push('\n');
}

/// What was waited for.
pub(crate) fn waits(out: &mut String, all: &[Waited]) {
    if all.is_empty() {
        return;
    }
    out.push_str("Elapsed times include waiting on following events:\n");
    out.push_str("  Event waited on                             Times   Max. Wait  Total Waited\n");
    out.push_str("  ----------------------------------------   Waited  ----------  ------------\n");
    for Waited { event, count, max_us, total_us } in all {
        let (max, total) = (seconds(*max_us), seconds(*total_us));
        let event: String = event.chars().take(40).collect();
        let _ = writeln!(out, "  {event:<40}{count:>9}  {max:>10}  {total:>12}");
    }
    out.push('\n');
}
