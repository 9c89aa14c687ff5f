//! Statements that are planned anew where a plan could be used again.
//!
//! What it promises: constants in texts are blamed only where texts are known that differ in
//! nothing else. What it must never do: count plans of snapshots as clients'.

use super::statements::{TEXTS_MIN, is_own, named};
use super::{Case, Finding, ms_each};
use crate::awr::page::{count, number, seconds};
use crate::awr::sql::{Statement, families, statements};
use std::collections::BTreeSet;

/// Plans for each execution of one text that make it one that is planned anew; and those of a cause
/// among all that are known of.
const LOADS_PART_MIN: f64 = 0.5;

/// Those with most of something, as evidence.
fn first(case: &Case<'_>, mut all: Vec<Statement>, of: fn(&Statement) -> f64) -> Vec<String> {
    all.sort_by(|a, b| of(b).total_cmp(&of(a)).then_with(|| a.sql_id.cmp(&b.sql_id)));
    all.iter().take(3).map(|statement| named(case, statement)).collect()
}

/// Texts that one instance has planned for every second execution, or oftener: a plan that each
/// instance makes once is none.
fn planned_anew(case: &Case<'_>) -> BTreeSet<String> {
    let anew = |s: &Statement| s.loads >= 2.0 && s.loads >= LOADS_PART_MIN * s.executions;
    let all = case.interval.works.iter().flat_map(statements);
    all.filter(anew).map(|statement| statement.sql_id).collect()
}

/// Plans whose making takes clients' time.
pub(super) fn hard_parses(case: &Case<'_>) -> Vec<Finding> {
    let us = case.all.hard_parse_us();
    let planned = case.all.stat("parse count (hard)").unwrap_or(0.0);
    if us <= 0.0 || planned <= 0.0 {
        return Vec::new();
    }
    let (own, clients): (Vec<_>, Vec<_>) =
        families(&case.all).into_iter().partition(|statement| is_own(case, statement));
    // Of the time it is known only whose plans were made.
    let plans_of_own = own.iter().map(|statement| statement.loads).sum::<f64>().min(planned);
    let (us, planned) = (us * (1.0 - plans_of_own / planned), planned - plans_of_own);
    if planned <= 0.0 {
        return Vec::new();
    }
    let loads = |all: &[Statement]| all.iter().map(|statement| statement.loads).sum::<f64>();
    let most = LOADS_PART_MIN * loads(&clients);
    let (alike, others): (Vec<_>, Vec<_>) = clients
        .into_iter()
        .partition(|statement| statement.texts >= TEXTS_MIN && statement.loads >= TEXTS_MIN);
    let anew = planned_anew(case);
    let again: Vec<Statement> = others
        .into_iter()
        .filter(|statement| statement.texts < 2.0 && anew.contains(&statement.sql_id))
        .collect();
    let executions = case.all.stat("execute count").unwrap_or(0.0);
    let mut evidence = vec![format!(
        "{} plans made, {} ms each, {} s together, for {} executions",
        count(planned),
        number(ms_each(us, planned), 2),
        seconds(us),
        count(executions)
    )];
    let (sentence, remedy) = if !alike.is_empty() && loads(&alike) >= most {
        evidence.extend(first(case, alike, |s| s.loads));
        (
            "statements are planned anew for each constant in their texts.",
            "parameters in place of constants ($1, ?, :x as the driver has it): one plan for all.",
        )
    } else if !again.is_empty() && loads(&again) >= most {
        evidence.extend(first(case, again, |s| s.loads));
        (
            "statements are planned anew again and again.",
            "fewer changes of definitions (DDL, statistics, temporary tables) while they run; a \
             plan is made anew behind each.",
        )
    } else if planned > LOADS_PART_MIN * executions {
        (
            "statements are planned, and few of the plans are used again.",
            "statements with parameters, prepared once and executed often.",
        )
    } else {
        (
            "the plans of statements take long to make, though they are used again.",
            "look for those with a long avg_hard_parse_time in v$sqlstats: joins of many tables, long \
             lists of values.",
        )
    };
    let (sentence, remedy) = (sentence.to_owned(), remedy.to_owned());
    vec![Finding { cost_us: us, sentence, evidence, remedy }]
}
