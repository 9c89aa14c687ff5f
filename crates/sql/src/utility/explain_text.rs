//! An explained plan as lines or as JSON.
//!
//! What it promises: lines say what PostgreSQL's say where there is the same to say; JSON has all
//! that was asked for, zero or not. What it must never do: show what was not measured.

use super::explain::ExplainOptions;
use query::explain::{Actual, Detail, Estimate, Operator, Step, Visits};

/// A statement explained.
#[derive(Default)]
pub(super) struct Explained {
    /// What is done with the rows of the steps; all there is, without steps.
    pub(super) above: Option<String>,
    /// Of that, what leads to its row.
    pub(super) details: Vec<Detail>,
    pub(super) step: Option<Step>,
    pub(super) planning_us: u64,
    /// Under ANALYZE.
    pub(super) execution_us: Option<u64>,
    /// Rows that the statement would have sent.
    pub(super) rows: u64,
    pub(super) visits: Visits,
}

fn ms(us: u64) -> String {
    format!("{}.{:03}", us / 1000, us % 1000)
}

/// Of all loops, what one has on the average.
#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, clippy::cast_sign_loss)]
fn each(all: u64, loops: u64) -> u64 {
    (all as f64 / loops.max(1) as f64).round() as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
fn whole(rows: f64) -> u64 {
    rows.round().max(1.0) as u64
}

fn named(visits: &Visits) -> [(&'static str, u64); 6] {
    [
        ("consistent gets", visits.consistent_gets),
        ("current gets", visits.current_gets),
        ("physical reads", visits.physical_reads),
        ("gc cr blocks", visits.gc_cr_blocks),
        ("gc current blocks", visits.gc_current_blocks),
        ("gc wait us", visits.gc_wait_us),
    ]
}

/// The visits there were; `None` if there were none.
fn visits_line(visits: &Visits) -> Option<String> {
    let there = named(visits).into_iter().filter(|(_, count)| *count > 0);
    let all: Vec<String> = there.map(|(name, count)| format!("{name}={count}")).collect();
    (!all.is_empty()).then(|| all.join(" "))
}

fn actual_text(actual: &Actual, timing: bool) -> String {
    if actual.loops == 0 {
        return " (never executed)".to_owned();
    }
    let rows = each(actual.rows, actual.loops);
    let times = [actual.first_us, actual.total_us].map(|us| ms(each(us, actual.loops)));
    let time = match timing {
        true => format!("time={}..{} ", times[0], times[1]),
        false => String::new(),
    };
    format!(" (actual {time}rows={rows} loops={})", actual.loops)
}

/// Where the details of a step stand, and its inputs' words: as PostgreSQL has them, which
/// programs read.
const DEEPER: usize = 6;

fn step_lines(step: &Step, depth: usize, options: &ExplainOptions, out: &mut Vec<String>) {
    let (arrow, inner) = match depth {
        0 => (String::new(), "  ".to_owned()),
        depth => {
            let before = " ".repeat(2 + DEEPER * (depth - 1));
            (format!("{before}->  "), format!("{before}{}", " ".repeat(DEEPER)))
        }
    };
    let mut line = format!("{arrow}{}", step.text);
    if options.costs {
        let Estimate { startup_cost, total_cost, rows, width } = step.estimate;
        let (rows, width) = (whole(rows), whole(width));
        line =
            format!("{line}  (cost={startup_cost:.2}..{total_cost:.2} rows={rows} width={width})");
    }
    if let Some(actual) = &step.actual {
        line.push_str(&actual_text(actual, options.timing));
    }
    out.push(line);
    if options.verbose && !step.columns.is_empty() {
        out.push(format!("{inner}Output: {}", step.columns.join(", ")));
    }
    out.extend(step.details.iter().map(|(label, text)| format!("{inner}{label}: {text}")));
    if options.buffers
        && let Some(actual) = &step.actual
        && let Some(visits) = visits_line(&actual.visits)
    {
        out.push(format!("{inner}Buffers: {visits}"));
    }
    for input in &step.inputs {
        step_lines(input, depth + 1, options, out);
    }
}

/// As lines of text.
pub(super) fn lines(explained: &Explained, options: &ExplainOptions) -> Vec<String> {
    let mut out: Vec<String> = explained.above.iter().cloned().collect();
    let depth = out.len();
    out.extend(explained.details.iter().map(|(label, text)| format!("  {label}: {text}")));
    if let Some(step) = &explained.step {
        step_lines(step, depth, options, &mut out);
    }
    if options.buffers && explained.execution_us.is_some() {
        let visits = visits_line(&explained.visits);
        out.push(format!("Statement: {}", visits.as_deref().unwrap_or("no blocks")));
    }
    if options.summary {
        out.push(format!("Planning Time: {} ms", ms(explained.planning_us)));
        if let Some(us) = explained.execution_us {
            out.push(format!("Execution Time: {} ms", ms(us)));
        }
    }
    out
}

fn quoted(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if u32::from(c) < 0x20 => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

/// Members of an object, each a name with its JSON.
type Members = Vec<(String, String)>;

fn object(members: &Members, depth: usize) -> String {
    let inner = "  ".repeat(depth + 1);
    let one = |(name, value): &(String, String)| format!("{inner}{}: {value}", quoted(name));
    let all: Vec<String> = members.iter().map(one).collect();
    format!("{{\n{}\n{}}}", all.join(",\n"), "  ".repeat(depth))
}

fn visit_members(visits: &Visits) -> Members {
    let title = |name: &str| {
        let words = name.split(' ').map(|word| match word {
            "gc" | "cr" | "us" => word.to_owned(),
            word => word[..1].to_uppercase() + &word[1..],
        });
        words.collect::<Vec<String>>().join(" ")
    };
    named(visits).into_iter().map(|(name, count)| (title(name), count.to_string())).collect()
}

/// The words of a step without what it reads.
fn node_type(words: &str) -> &str {
    let end = [" on ", " using ", ": "].iter().filter_map(|word| words.find(word)).min();
    &words[..end.unwrap_or(words.len())]
}

fn step_json(step: &Step, depth: usize, options: &ExplainOptions) -> String {
    let mut members: Members = vec![
        ("Node Type".to_owned(), quoted(node_type(&step.text))),
        ("Detail".to_owned(), quoted(&step.text)),
    ];
    if let Some(names) = &step.names {
        let label = match step.operator {
            Operator::FunctionScan => "Function Name",
            _ => "Relation Name",
        };
        members.push((label.to_owned(), quoted(&names.table)));
        members.extend(names.index.iter().map(|name| ("Index Name".to_owned(), quoted(name))));
    }
    members.extend(step.details.iter().map(|(label, text)| ((*label).to_owned(), quoted(text))));
    if options.costs {
        let Estimate { startup_cost, total_cost, rows, width } = step.estimate;
        members.push(("Startup Cost".to_owned(), format!("{startup_cost:.2}")));
        members.push(("Total Cost".to_owned(), format!("{total_cost:.2}")));
        members.push(("Plan Rows".to_owned(), whole(rows).to_string()));
        members.push(("Plan Width".to_owned(), whole(width).to_string()));
    }
    if let Some(actual) = &step.actual {
        if options.timing {
            let time = |us| ms(each(us, actual.loops));
            members.push(("Actual Startup Time".to_owned(), time(actual.first_us)));
            members.push(("Actual Total Time".to_owned(), time(actual.total_us)));
        }
        let rows = each(actual.rows, actual.loops);
        members.push(("Actual Rows".to_owned(), rows.to_string()));
        members.push(("Actual Loops".to_owned(), actual.loops.to_string()));
        if options.buffers {
            members.extend(visit_members(&actual.visits));
        }
    }
    if options.verbose {
        let columns: Vec<String> = step.columns.iter().map(|name| quoted(name)).collect();
        members.push(("Output".to_owned(), format!("[{}]", columns.join(", "))));
    }
    if !step.inputs.is_empty() {
        let inner = "  ".repeat(depth + 2);
        let one = |input: &Step| format!("{inner}{}", step_json(input, depth + 2, options));
        let all: Vec<String> = step.inputs.iter().map(one).collect();
        let list = format!("[\n{}\n{}]", all.join(",\n"), "  ".repeat(depth + 1));
        members.push(("Plans".to_owned(), list));
    }
    object(&members, depth)
}

/// As JSON: an array of one statement.
pub(super) fn json(explained: &Explained, options: &ExplainOptions) -> String {
    let mut members = Members::new();
    match (&explained.above, &explained.step) {
        (None, Some(step)) => members.push(("Plan".to_owned(), step_json(step, 2, options))),
        (above, step) => {
            let above = above.as_deref().unwrap_or("Result");
            let name = quoted(node_type(above));
            let mut plan: Members =
                vec![("Node Type".to_owned(), name), ("Detail".to_owned(), quoted(above))];
            let details = explained.details.iter();
            plan.extend(details.map(|(label, text)| ((*label).to_owned(), quoted(text))));
            if let Some(step) = step {
                let list = format!("[\n        {}\n      ]", step_json(step, 4, options));
                plan.push(("Plans".to_owned(), list));
            }
            members.push(("Plan".to_owned(), object(&plan, 2)));
        }
    }
    if options.buffers && explained.execution_us.is_some() {
        members.push(("Statement".to_owned(), object(&visit_members(&explained.visits), 2)));
    }
    if options.summary {
        members.push(("Planning Time".to_owned(), ms(explained.planning_us)));
        if let Some(us) = explained.execution_us {
            members.push(("Execution Time".to_owned(), ms(us)));
            members.push(("Rows".to_owned(), explained.rows.to_string()));
        }
    }
    format!("[\n  {}\n]", object(&members, 1))
}
