//! Rules about statements: those that visit too many blocks, and those that take the processor.

use super::{Case, Finding, Waiter};
use crate::awr::page::{count, number, percent, seconds};
use crate::awr::sql::{Statement, families, statements};

/// How much of a statement's text is shown.
const TEXT_CHARS: usize = 70;

/// The beginning of a text, on one line.
fn shortened(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    words.join(" ").chars().take(TEXT_CHARS).collect()
}

/// A statement as evidence.
pub(super) fn named(case: &Case<'_>, statement: &Statement) -> String {
    let text = case.interval.texts.get(&statement.sql_id);
    let text = text.map_or(String::new(), |text| shortened(text));
    format!(
        "{} ({} executions, {} s): {text}",
        called(statement),
        count(statement.executions),
        seconds(statement.elapsed_us)
    )
}

/// A statement's id; of several, one's.
fn called(statement: &Statement) -> String {
    let others = statement.texts - 1.0;
    if others < 1.0 {
        return format!("SQL {}", statement.sql_id);
    }
    let word = if others < 2.0 { "other" } else { "others" };
    let id = &statement.sql_id;
    format!("SQL {id} and {} {word} that differ in constants only", count(others))
}

/// What only the database's own statements hold: those that take snapshots, and the console's.
const OWN: [&str; 3] = ["dbms_workload_repository.", "pg_awr.", "/* skein console */"];

/// Whether it is one that nobody can change, or leave out.
pub(super) fn is_own(case: &Case<'_>, statement: &Statement) -> bool {
    case.interval.texts.get(&statement.sql_id).is_some_and(|text| is_own_text(text))
}

fn is_own_text(text: &str) -> bool {
    let text = text.to_lowercase();
    OWN.iter().any(|word| text.contains(word))
}

/// What the database's own calls have of something: snapshots are calls too. What a call has, its
/// statements have as well.
pub(super) fn of_own(case: &Case<'_>, of: fn(&Statement) -> f64) -> f64 {
    let own = statements(&case.all).into_iter().filter(|statement| is_own(case, statement));
    own.map(|statement| of(&statement)).fold(0.0, f64::max)
}

/// A statement with less of what all of them have is no evidence.
const EVIDENCE_PART_MIN: f64 = 0.01;

/// The clients' statements that have most of something, as evidence.
pub(super) fn users(case: &Case<'_>, of: fn(&Statement) -> f64) -> Vec<String> {
    let mut all = families(&case.all);
    all.retain(|statement| of(statement) > 0.0 && !is_own(case, statement));
    // What has hardly any of it explains nothing.
    let least = EVIDENCE_PART_MIN * all.iter().map(of).sum::<f64>();
    all.retain(|statement| of(statement) >= least);
    all.sort_by(|a, b| of(b).total_cmp(&of(a)));
    all.iter().take(3).map(|statement| named(case, statement)).collect()
}

/// Who waited for an event, as samples have it, as evidence; empty: nobody was met there.
pub(super) fn waiters(case: &Case<'_>, event: &str) -> Vec<String> {
    // Several objects of one statement, or several statements at one object, are told apart.
    let is_own = |id: &String| case.interval.texts.get(id).is_some_and(|text| is_own_text(text));
    let of_event = case
        .beside
        .waiters
        .iter()
        .filter(|waiter| waiter.event == event && !waiter.sql_id.as_ref().is_some_and(is_own));
    let told = |waiter: &Waiter| {
        let at = waiter.object.as_ref().map_or(String::new(), |object| format!(" for {object}"));
        let by = match &waiter.sql_id {
            Some(id) => {
                let text = case.interval.texts.get(id).map_or(String::new(), |t| shortened(t));
                format!("SQL {id} waited{at} in {} samples: {text}", waiter.samples)
            }
            None => {
                format!("sessions without a statement waited{at} in {} samples", waiter.samples)
            }
        };
        by.trim_end_matches([':', ' ']).to_owned()
    };
    of_event.take(3).map(told).collect()
}

/// Blocks of an execution that are too many for a look-up by an index,
const GETS_MIN: f64 = 20.0;
/// and few enough to be a small table's, which nobody notices in one execution.
const GETS_MAX: f64 = 10_000.0;
/// Blocks for each row: an index needs a few.
const GETS_A_ROW_MIN: f64 = 10.0;
const EXECUTIONS_MIN: f64 = 100.0;
/// Part of all blocks visited.
const GETS_PART_MIN: f64 = 0.3;

/// Texts that differ in constants only, so many that it is no chance.
pub(super) const TEXTS_MIN: f64 = 10.0;

/// More plans were made than the statements that are still known account for: so many times.
const FORGOTTEN_MIN: f64 = 1.5;

/// What part of all blocks visited the statements account for that are still known. Of many texts
/// only the last ones are.
fn known_part(case: &Case<'_>, families: &[Statement]) -> f64 {
    let sum = |of: fn(&Statement) -> f64| families.iter().map(of).sum::<f64>();
    let planned = case.all.stat("parse count (hard)").unwrap_or(0.0);
    let (known, total) = (sum(|s| s.gets), case.all.gets());
    match planned > FORGOTTEN_MIN * sum(|s| s.loads) && total > 0.0 {
        true => (known / total).clamp(f64::MIN_POSITIVE, 1.0),
        false => 1.0,
    }
}

/// Whether it may have a WHERE: no definition is changed by it, and it is no block. Of one whose
/// text is not known, it may.
fn looks_for_rows(case: &Case<'_>, statement: &Statement) -> bool {
    const FIRST: [&str; 6] = ["select", "with", "insert", "update", "delete", "merge"];
    case.interval.texts.get(&statement.sql_id).is_none_or(|text| {
        let text = text.trim_start_matches(|c: char| c.is_whitespace() || c == '(');
        let word: String = text.chars().take_while(char::is_ascii_alphabetic).collect();
        word.is_empty() || FIRST.contains(&word.to_lowercase().as_str())
    })
}

/// Whether a text gives one row of all that it reads, so that its rows do not say how many it has
/// looked for.
fn gathers(case: &Case<'_>, statement: &Statement) -> bool {
    const ALL: [&str; 5] = ["count(", "sum(", "avg(", "min(", "max("];
    case.interval.texts.get(&statement.sql_id).is_some_and(|text| {
        let text = text.to_lowercase().replace(char::is_whitespace, "");
        ALL.iter().any(|of| text.contains(of)) && !text.contains("groupby")
    })
}

/// Small tables that are read whole again and again, for one row each time.
pub(super) fn missing_index(case: &Case<'_>) -> Vec<Finding> {
    let families = families(&case.all);
    let forgotten = known_part(case, &families);
    // What has few texts is known as a whole.
    let known = |s: &Statement| if s.texts >= TEXTS_MIN { forgotten } else { 1.0 };
    let total = |s: &Statement| known(s) * case.all.gets();
    let planned = case.all.stat("parse count (hard)").filter(|planned| *planned > 0.0);
    let plan_us = planned.map_or(0.0, |planned| case.all.hard_parse_us() / planned);
    let reads_whole = |s: &Statement| case.beside.full_reads.get(&s.sql_id).map(Option::as_deref);
    let suspect = |s: &Statement| {
        let of_one = s.gets / s.executions.max(1.0);
        s.executions >= EXECUTIONS_MIN
            && (GETS_MIN..=GETS_MAX).contains(&of_one)
            && s.gets >= GETS_A_ROW_MIN * s.rows.max(s.executions)
            && s.gets >= GETS_PART_MIN * total(s)
            && reads_whole(s) != Some(None)
            && looks_for_rows(case, s)
            && !gathers(case, s)
            && !is_own(case, s)
    };
    let finding = |s: Statement| {
        let table = reads_whole(&s).flatten();
        let whole = table.unwrap_or("a table");
        let of = match known(&s) < 1.0 {
            true => "of the blocks that statements still known visited",
            false => "of all blocks that were visited",
        };
        // An index saves nothing of the planning.
        let executing_us = (s.elapsed_us - s.loads * plan_us).max(0.0);
        Finding {
            // As those that are known, so the others.
            cost_us: (executing_us / known(&s)).min(case.db_time_us),
            sentence: format!(
                "{} visits {} blocks in each of its executions and gives {} rows: it reads {whole} \
                 whole, without an index for what it looks for.",
                called(&s),
                number(s.gets / s.executions, 0),
                number(s.rows / s.executions, 1)
            ),
            evidence: vec![
                named(case, &s),
                format!("{} {of} are its own", part(s.gets, total(&s))),
            ],
            remedy: format!(
                "an index on the columns of its WHERE{}: a look-up visits 3 or 4 blocks.",
                table.map_or(String::new(), |table| format!(", of what is in {table}"))
            ),
        }
    };
    families.clone().into_iter().filter(suspect).map(finding).collect()
}

fn part(part: f64, whole: f64) -> String {
    format!("{} %", percent(part, whole))
}

/// Most of the time is work, not waiting.
const CPU_PART_MIN: f64 = 0.5;
/// So little is hardly any waiting.
const WAITS_PART_MAX: f64 = 0.25;

/// Plans are made rather than found: hard parses, all parses, and executions.
fn planned_anew(hard: Option<f64>, all: Option<f64>, executions: Option<f64>) -> Option<String> {
    let (all, executions) = (all?, executions?);
    // The counters are read one after the other.
    let hard = hard?.min(all);
    (hard > 0.5 * executions).then(|| {
        format!(
            "{} of {} parses planned their statement anew, for {} executions",
            count(hard),
            count(all),
            count(executions)
        )
    })
}

/// Statements that compute.
pub(super) fn processor(case: &Case<'_>) -> Vec<Finding> {
    let Some(cpu) = case.all.cpu_us() else { return Vec::new() };
    // Nobody computes less for what is said of snapshots.
    let own = of_own(case, |statement| statement.cpu_us);
    if case.share(cpu) < CPU_PART_MIN || case.share(cpu - own) < CPU_PART_MIN {
        return Vec::new();
    }
    let waits = case.waits_us();
    let mut evidence = vec![format!(
        "{} s of processor time in {} s",
        seconds(cpu),
        number(case.all.elapsed_s(), 1)
    )];
    evidence.extend(users(case, |statement| statement.cpu_us));
    evidence.extend(planned_anew(
        case.all.stat("parse count (hard)"),
        case.all.stat("parse count (total)"),
        case.all.stat("execute count"),
    ));
    vec![Finding {
        cost_us: cpu,
        sentence: match case.share(waits) < WAITS_PART_MAX {
            true => "the statements compute; they hardly wait for anything.".to_owned(),
            false => "the statements compute.".to_owned(),
        },
        evidence,
        remedy: "statements that visit fewer blocks and are planned once, or more processors."
            .to_owned(),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_planned_than_is_parsed() {
        let told = |hard, all, runs| planned_anew(Some(hard), Some(all), Some(runs));
        let text = |hard: u32, all: u32, runs: u32| {
            format!("{hard} of {all} parses planned their statement anew, for {runs} executions")
        };
        assert_eq!(told(60.0, 70.0, 64.0), Some(text(60, 70, 64)));
        // One more was counted between the two.
        assert_eq!(told(71.0, 70.0, 64.0), Some(text(70, 70, 64)));
        // Those that are parsed once and executed often.
        assert_eq!(told(60.0, 70.0, 500.0), None);
        assert_eq!(planned_anew(None, Some(1.0), Some(1.0)), None);
    }
}
