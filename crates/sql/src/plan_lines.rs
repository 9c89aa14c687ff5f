//! A plan's steps in the field's words: the lines of a trace, the rows of `v$sql_plan`, and what
//! each step did, for both and for `v$sql_plan_statistics`.
//!
//! What it promises: a trace and the views have the same steps, with the same numbers, in the words
//! of the one table that EXPLAIN has its own from ([`Operator`]). What it must never do: show a
//! figure of a step that was not measured.

mod bitmaps;
mod line;
mod rows;
#[cfg(test)]
mod tests;

use crate::measured::Measured;
use crate::plan::{Direct, Kind, Plan};
use datafusion::physical_plan::ExecutionPlan;
use kernel::dict::TableDef;
use line::{BITMAP_INDEX, Line, lines_for};
use observe::{PlanLine, PlanRow, StepFigures};
use query::explain::{Actual, Operator, Part, Step, steps};
use rows::{Expected, Predicates, ROWS_MAX, Rows};
use std::sync::Arc;

/// What rows are put into a table by.
const LOAD: &str = "LOAD TABLE CONVENTIONAL";

/// Lines, and the number of the table that they are about.
type OfTable = (Vec<Line>, u32);

/// The lines of a statement on single rows, and the number of its table.
fn direct_lines(direct: &Direct) -> OfTable {
    match direct {
        Direct::Select(select) => {
            let (table, index) = (&select.row.table, &select.row.index);
            (lines_for(Operator::IndexUniqueScan, &table.name, &index.name), table.obj.0)
        }
        Direct::Update { row, .. } => change("UPDATE", &row.table),
        Direct::Delete { row, .. } => change("DELETE", &row.table),
        Direct::Insert { table, .. } => change(LOAD, table),
        Direct::Values(_) => (lines_for(Operator::Result, "", ""), 0),
    }
}

/// The line of what changes a table, and the table's number.
fn change(name: &'static str, table: &TableDef) -> OfTable {
    (vec![Line::new(name, "", &table.name)], table.obj.0)
}

/// What a statement is, and the lines of it above those of its query; `None`: it has no steps.
fn statement(plan: &Plan) -> Option<(&'static str, Option<OfTable>)> {
    Some(match &plan.kind {
        Kind::Query(_) => ("SELECT", None),
        Kind::Modify(modify) => {
            let verb = if modify.set.is_some() { "UPDATE" } else { "DELETE" };
            (verb, Some(change(verb, &modify.table)))
        }
        Kind::InsertSelect(insert) => ("INSERT", Some(change(LOAD, &insert.table))),
        Kind::Merge(merge) => ("MERGE", Some(change("MERGE", &merge.table))),
        Kind::Direct(direct) => {
            let verb = match **direct {
                Direct::Select(_) | Direct::Values(_) => "SELECT",
                Direct::Update { .. } => "UPDATE",
                Direct::Delete { .. } => "DELETE",
                Direct::Insert { .. } => "INSERT",
            };
            (verb, Some(direct_lines(direct)))
        }
        _ => return None,
    })
}

/// What a step, or a part of one, did, with all below it.
fn figures(actual: &Actual) -> StepFigures {
    StepFigures {
        starts: actual.loops,
        rows: actual.rows,
        consistent_gets: actual.visits.consistent_gets,
        current_gets: actual.visits.current_gets,
        reads: actual.visits.physical_reads,
        elapsed_us: actual.total_us,
    }
}

/// The same of reading an index, which gives rows or pieces of bitmaps.
fn index_figures(line: &Line, actual: &Actual) -> StepFigures {
    let rows = if line.name == BITMAP_INDEX { actual.pieces } else { actual.rows };
    StepFigures { rows, ..figures(actual) }
}

/// A step as a trace has it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // estimates; it saturates
fn told(row: &PlanRow, figures: Option<&StepFigures>) -> PlanLine {
    let words = [Some(&row.operation), row.option.as_ref(), row.object.as_ref()];
    let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
    let mut operation = words.join(" ");
    if let Some(StepFigures { consistent_gets, reads, elapsed_us, .. }) = figures {
        operation.push_str(&format!(" (cr={consistent_gets} pr={reads} pw=0 time={elapsed_us} us"));
        if row.cost.is_some() {
            let whole = |value: Option<f64>| value.unwrap_or_default().round() as u64;
            let (cost, size) = (whole(row.cost), whole(row.bytes));
            operation.push_str(&format!(" cost={cost} size={size} card={}", whole(row.rows)));
        }
        operation.push(')');
    }
    PlanLine {
        rows: figures.map_or(0, |figures| figures.rows),
        parent: row.parent.unwrap_or(0),
        position: row.position,
        obj: row.obj,
        operation,
    }
}

/// The lines of rows behind the first, which is the statement itself: they are numbered by that.
fn lines_of_rows(rows: &Rows) -> Vec<PlanLine> {
    let all = rows.rows.iter().zip(&rows.figures).skip(1);
    all.map(|(row, figures)| told(row, figures.as_ref())).collect()
}

/// The lines of an execution, for a trace.
pub(crate) fn plan_lines(measured: &Measured) -> Vec<PlanLine> {
    lines_of_rows(&made(measured.plan(), measured.steps(), Some(measured), usize::MAX))
}

/// What each step of an execution did, in the order of [`plan_rows`].
pub(crate) fn plan_figures(measured: &Measured) -> Vec<Option<StepFigures>> {
    made(measured.plan(), measured.steps(), Some(measured), ROWS_MAX).figures
}

/// A plan's steps, the statement itself first; none of a plan that is made for each run.
pub(crate) fn plan_rows(plan: &Plan) -> Vec<PlanRow> {
    let query = match &plan.kind {
        Kind::Query(query) => &**query,
        Kind::Modify(modify) => &modify.query,
        Kind::InsertSelect(insert) => &insert.query,
        Kind::Merge(merge) => &merge.query,
        _ => return plan_rows_of(plan, None),
    };
    plan_rows_of(plan, query.physical.get())
}

/// The same with these steps of its query, if it has one.
pub(crate) fn plan_rows_of(plan: &Plan, physical: Option<&Arc<dyn ExecutionPlan>>) -> Vec<PlanRow> {
    made(plan, physical, None, ROWS_MAX).rows
}

/// The same, and what each step did if the execution was `measured`.
fn made(
    plan: &Plan,
    physical: Option<&Arc<dyn ExecutionPlan>>,
    measured: Option<&Measured>,
    rows_max: usize,
) -> Rows {
    let mut rows = Rows::new(rows_max);
    let Some((verb, change)) = statement(plan) else { return rows };
    if physical.is_none() && !matches!(plan.kind, Kind::Direct(_)) {
        return rows;
    }
    let top = physical.map(steps);
    let cost = top.as_ref().map(|step| step.estimate.total_cost.max(0.0));
    let expected = Expected { cost, ..Expected::default() };
    let whole = measured.map(|measured| figures(&measured.whole()));
    let mut at = rows.statement(verb, expected);
    rows.tell(at, at, whole);
    let (mut asked, mut key) = (Predicates::default(), None);
    if let Kind::Direct(direct) = &plan.kind {
        asked = Predicates::of(direct);
        let found = measured.zip(direct.row());
        key = found.map(|(of, row)| Part { obj: row.index.obj.0, actual: of.key() });
    }
    let changes = matches!(verb, "UPDATE" | "DELETE");
    // What a row must meet beside its key is looked at where it is changed.
    let of_key = Predicates { access: asked.access.take_if(|_| changes), filter: None };
    if let Some((lines, obj)) = change {
        let first = rows.rows.len();
        let (own, last) = rows.add(&lines, &asked, at, Expected::default());
        rows.rows[own].obj = obj;
        rows.tell(first, own, whole);
        rows.tell_index(lines.get(own + 1 - first..).unwrap_or_default(), own, key.as_ref());
        at = last;
    }
    for step in top.iter().flat_map(Step::field_steps) {
        rows.add_step(step, at);
    }
    // The row of an UPDATE or DELETE by its key is found by that.
    if let Kind::Direct(direct) = &plan.kind
        && let Direct::Update { row, .. } | Direct::Delete { row, .. } = &**direct
    {
        let lines = [Line::new("INDEX", "UNIQUE SCAN", &row.index.name)];
        rows.add(&lines, &of_key, at, Expected::default());
        rows.tell_index(&lines, at, key.as_ref());
    }
    // Its index is the last of the steps.
    if let Kind::Direct(direct) = &plan.kind
        && let (Some(row), Some(last)) = (direct.row(), rows.rows.last_mut())
    {
        last.obj = row.index.obj.0;
    }
    rows
}
