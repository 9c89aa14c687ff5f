//! Statements that are planned anew where a plan could be used again.
//!
//! What it promises: constants in texts are blamed only where texts are known that differ in
//! nothing else. What it must never do: count time of planning that no client waited for.

use super::statements::{is_own, named};
use super::{Case, Finding, ms_each};
use crate::awr::page::{count, number, seconds};
use crate::awr::sql::{Statement, families};

/// Texts that differ in constants only, so many that it is no chance.
const TEXTS_MIN: usize = 10;
/// Plans for each execution of one text that make it one that is planned anew.
const LOADS_PART_MIN: f64 = 0.5;

/// Those with most of something, as evidence.
fn first(case: &Case<'_>, mut all: Vec<Statement>, of: fn(&Statement) -> f64) -> Vec<String> {
    all.sort_by(|a, b| of(b).total_cmp(&of(a)).then_with(|| a.sql_id.cmp(&b.sql_id)));
    all.iter().take(3).map(|statement| named(case, statement)).collect()
}

/// Plans whose making takes clients' time.
pub(super) fn hard_parses(case: &Case<'_>) -> Vec<Finding> {
    let us = case.all.hard_parse_us();
    let planned = case.all.stat("parse count (hard)").unwrap_or(0.0);
    if us <= 0.0 || planned <= 0.0 {
        return Vec::new();
    }
    let mut clients = families(&case.all);
    clients.retain(|statement| !is_own(case, statement));
    let (alike, others): (Vec<_>, Vec<_>) =
        clients.into_iter().partition(|statement| statement.texts >= TEXTS_MIN);
    let again: Vec<Statement> = others
        .into_iter()
        .filter(|s| s.loads >= 2.0 && s.loads >= LOADS_PART_MIN * s.executions)
        .collect();
    let executions = case.all.stat("execute count").unwrap_or(0.0);
    let mut evidence = vec![format!(
        "{} plans made, {} ms each, {} s together, for {} executions",
        count(planned),
        number(ms_each(us, planned), 2),
        seconds(us),
        count(executions)
    )];
    let (sentence, remedy) = if !alike.is_empty() {
        evidence.extend(first(case, alike, |s| s.loads));
        (
            "statements are planned anew for each constant in their texts.",
            "parameters in place of constants ($1, ?, :x as the driver has it): one plan for all.",
        )
    } else if !again.is_empty() {
        evidence.extend(first(case, again, |s| s.loads));
        (
            "statements are planned anew again and again.",
            "fewer changes of definitions (DDL, statistics, temporary tables) while they run; a \
             plan is made anew behind each.",
        )
    } else {
        (
            "statements are planned, and few of the plans are used again.",
            "statements with parameters, prepared once and executed often.",
        )
    };
    let (sentence, remedy) = (sentence.to_owned(), remedy.to_owned());
    vec![Finding { cost_us: us, sentence, evidence, remedy }]
}
