//! A plan's steps in the field's words: the lines of a trace, and the rows of `v$sql_plan`.
//!
//! What it promises: a trace and the view name a step alike, in the words of the one table that
//! EXPLAIN has its own from ([`Operator`]). What it must never do: show a figure of a step that was
//! not measured.

mod bitmaps;
mod line;

use crate::plan::{Direct, Kind, Plan};
use bitmaps::SetStep;
use datafusion::physical_plan::ExecutionPlan;
use kernel::dict::TableDef;
use line::{Line, inner_lines, lines_for, lines_of, obj_of, together};
use observe::{PlanLine, PlanRow};
use query::explain::{
    Actual, Estimate, Operator, Part, Step, TABLE_ACCESS, key_condition, row_condition, steps,
};
use std::sync::Arc;

/// What rows are put into a table by.
const LOAD: &str = "LOAD TABLE CONVENTIONAL";

/// The lines of a statement on single rows, and the number of its table.
fn direct_lines(direct: &Direct) -> (Vec<Line>, u32) {
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
fn change(name: &'static str, table: &TableDef) -> (Vec<Line>, u32) {
    (vec![Line::new(name, "", &table.name)], table.obj.0)
}

/// The lines of a plan that has run: each step's figures are measured with all below it.
pub(crate) fn plan_lines(
    plan: &Plan,
    watched: Option<&Arc<dyn ExecutionPlan>>,
    rows: u64,
    figures: &str,
) -> Vec<PlanLine> {
    let one = |(lines, obj): (Vec<Line>, u32)| {
        let operation = format!("{} {figures}", together(&lines));
        vec![PlanLine { rows, parent: 0, position: 1, obj, operation }]
    };
    match (&plan.kind, watched) {
        (Kind::Query(_), Some(watched)) => {
            let mut lines = Vec::new();
            let top = steps(watched);
            for (at, step) in top.field_steps().into_iter().enumerate() {
                add_lines(step, 0, at + 1, &mut lines);
            }
            lines
        }
        (Kind::Direct(direct), _) => one(direct_lines(direct)),
        (Kind::Modify(modify), _) => {
            one(change(if modify.set.is_some() { "UPDATE" } else { "DELETE" }, &modify.table))
        }
        (Kind::InsertSelect(insert), _) => one(change(LOAD, &insert.table)),
        (Kind::Merge(merge), _) => one(change("MERGE", &merge.table)),
        _ => Vec::new(),
    }
}

/// What a step, or a part of one, did, with all below it.
fn done(actual: &Actual) -> String {
    let (gets, reads) = (actual.visits.consistent_gets, actual.visits.physical_reads);
    format!("cr={gets} pr={reads} pw=0 time={} us", actual.total_us)
}

/// What was thought of it.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // estimates; it saturates
fn thought(expected: &Expected) -> String {
    let whole = |value: Option<f64>| value.unwrap_or_default().round() as u64;
    let (cost, size) = (whole(expected.cost), whole(expected.bytes));
    format!("cost={cost} size={size} card={}", whole(expected.rows))
}

/// The lines of what leads to the rows of the line before.
fn index_lines(index: &[Line], part: &Part, lines: &mut Vec<PlanLine>) {
    let Part { obj, actual } = part;
    for (at, line) in index.iter().enumerate() {
        // What was measured is that of all of them together.
        let (rows, operation) = match at {
            0 => (actual.rows, format!("{line} ({})", done(actual))),
            _ => (0, line.to_string()),
        };
        let obj = if line.object.is_empty() { 0 } else { *obj };
        let (parent, position) = (lines.len(), 1);
        lines.push(PlanLine { rows, parent, position, obj, operation });
    }
}

/// The lines of the sets that lead to the rows of a step. `part`: what the topmost one did, where
/// that was measured.
fn set_lines(
    set: &SetStep,
    part: Option<&Part>,
    parent: usize,
    position: usize,
    lines: &mut Vec<PlanLine>,
) {
    let line = &set.line;
    let (rows, operation) = match part {
        Some(Part { actual, .. }) => (actual.rows, format!("{line} ({})", done(actual))),
        None => (0, line.to_string()),
    };
    lines.push(PlanLine { rows, parent, position, obj: set.obj, operation });
    let me = lines.len();
    for (at, input) in set.inputs.iter().enumerate() {
        set_lines(input, None, me, at + 1, lines);
    }
}

fn add_lines(step: &Step, parent: usize, position: usize, lines: &mut Vec<PlanLine>) {
    let own = lines_of(step);
    let obj = obj_of(step, &own);
    let actual = step.actual.unwrap_or_default();
    let expected = Expected::from_estimate(&step.estimate, step.read_width);
    let figures = format!("({} {})", done(&actual), thought(&expected));
    // What leads to a table's rows has figures of its own, or none.
    let table = own.iter().position(|line| line.name == TABLE_ACCESS);
    let (above, index) = own.split_at(table.map_or(own.len(), |at| at + 1));
    let (mut me, mut position) = (parent, position);
    for (at, line) in above.iter().enumerate() {
        let is_last = at + 1 == above.len();
        let words = match is_last && step.index.is_none() {
            true => together(&own[at..]),
            false => line.to_string(),
        };
        let (rows, parent, obj) = (actual.rows, me, if is_last { obj } else { 0 });
        let operation = format!("{words} {figures}");
        lines.push(PlanLine { rows, parent, position, obj, operation });
        (me, position) = (lines.len(), 1);
    }
    if let Some(part) = &step.index {
        index_lines(index, part, lines);
    }
    if let Some(set) = bitmaps::below(step) {
        // Who counts bits does not tell what reading its index took.
        let part = step.index.as_ref().filter(|_| step.operator != Operator::BitmapCount);
        set_lines(&set, part, me, 1, lines);
    }
    let inputs = step.field_inputs();
    for (i, input) in inputs.iter().enumerate() {
        add_lines(input, me, i + 1, lines);
    }
    // What is looked up for each row of the input comes behind it.
    let inner = step.inner.as_ref().and_then(|inner| Some((inner, inner.actual?)));
    if let Some((inner, Part { obj, actual })) = inner
        && let Some(own) = inner_lines(step, inner)
        && let [table, index @ ..] = &own[..]
    {
        let expected = Expected::from_estimate(&inner.estimate, 0.0);
        let operation = format!("{table} ({} {})", done(&actual), thought(&expected));
        let position = inputs.len() + 1;
        lines.push(PlanLine { rows: actual.rows, parent: me, position, obj, operation });
        if let Some(part) = &step.index {
            index_lines(index, part, lines);
        }
    }
}

/// What a step is known to take.
#[derive(Clone, Copy, Default)]
struct Expected {
    cost: Option<f64>,
    rows: Option<f64>,
    bytes: Option<f64>,
}

impl Expected {
    /// `read_width`: bytes of the columns that a step reads which yields none, to count rows. One
    /// row is the least, as everywhere.
    fn from_estimate(estimate: &Estimate, read_width: f64) -> Expected {
        let Estimate { total_cost, rows, width, .. } = *estimate;
        let (cost, rows) = (Some(total_cost.max(0.0)), rows.max(1.0));
        let bytes = rows * if width > 0.0 { width } else { read_width };
        Expected { cost, rows: Some(rows), bytes: (bytes > 0.0).then_some(bytes) }
    }

    fn of(self, operation: String, option: &str, object: &str) -> PlanRow {
        let Expected { cost, rows, bytes } = self;
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        PlanRow {
            parent: None,
            depth: 0,
            position: 0,
            operation,
            option: some(option),
            object: some(object),
            obj: 0,
            cost,
            rows,
            bytes,
            access: None,
            filter: None,
            projection: None,
        }
    }
}

/// Steps of one plan that are kept: what comes behind them is not.
const ROWS_MAX: usize = 100;
/// Bytes of what EXPLAIN tells of them, all together; and of the names of their columns.
const TOLD_BYTES_MAX: usize = 8192;

/// Rows of a plan while they are made.
#[derive(Default)]
struct Rows {
    rows: Vec<PlanRow>,
    /// How many inputs each has so far.
    inputs: Vec<usize>,
    told_bytes: usize,
    named_bytes: usize,
}

/// As much of a text as there is room for; counts it.
fn cut(told: &str, used_bytes: &mut usize) -> Option<String> {
    let mut end = told.len().min(TOLD_BYTES_MAX - *used_bytes);
    while !told.is_char_boundary(end) {
        end -= 1;
    }
    *used_bytes += end;
    let cut = if end < told.len() { " .." } else { "" };
    (end > 0).then(|| format!("{}{cut}", &told[..end]))
}

impl Rows {
    fn push(&mut self, parent: Option<usize>, row: PlanRow) -> usize {
        let position = parent.map(|parent| {
            self.inputs[parent] += 1;
            self.inputs[parent]
        });
        let depth = parent.map_or(0, |parent| self.rows[parent].depth + 1);
        self.rows.push(PlanRow { parent, depth, position: position.unwrap_or(0), ..row });
        self.inputs.push(0);
        self.rows.len() - 1
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= ROWS_MAX
    }

    /// The statement itself.
    fn statement(&mut self, verb: &str, expected: Expected) -> usize {
        let row = expected.of(format!("{verb} STATEMENT"), "", "");
        self.push(None, row)
    }

    /// Adds lines below a step, each below the one before. The numbers of the one that has the
    /// step's rows, and of the last.
    fn add(
        &mut self,
        lines: &[Line],
        asked: &Predicates,
        parent: usize,
        expected: Expected,
    ) -> (usize, usize) {
        let last = lines.len().saturating_sub(1);
        let own = lines.iter().position(|line| line.name == TABLE_ACCESS).unwrap_or(last);
        let (mut id, mut own_id) = (parent, parent);
        for (at, line) in lines.iter().enumerate() {
            // What leads to the rows is asked of the index, of which nothing is expected.
            let expected = if at <= own { expected } else { Expected::default() };
            let row = expected.of(line.name.to_owned(), line.option, &line.object);
            let access = asked.access.as_deref().filter(|_| at == last);
            let access = access.and_then(|text| cut(text, &mut self.told_bytes));
            let filter = asked.filter.as_deref().filter(|_| at == own);
            let filter = filter.and_then(|text| cut(text, &mut self.told_bytes));
            id = self.push(Some(id), PlanRow { access, filter, ..row });
            if at == own {
                own_id = id;
            }
        }
        (own_id, id)
    }

    /// Adds the sets that lead to the rows of a step; none of them is measured or judged by itself.
    fn add_set(&mut self, set: &SetStep, parent: usize) {
        if self.is_full() {
            return;
        }
        let asked = Predicates { access: set.access.clone(), filter: None };
        let line = std::slice::from_ref(&set.line);
        let (id, _) = self.add(line, &asked, parent, Expected::default());
        self.rows[id].obj = set.obj;
        for input in &set.inputs {
            self.add_set(input, id);
        }
    }

    fn add_step(&mut self, step: &Step, parent: usize) {
        if self.is_full() {
            return;
        }
        let lines = lines_of(step);
        let expected = Expected::from_estimate(&step.estimate, step.read_width);
        let inner = step.inner.as_ref().and_then(|inner| Some((inner, inner_lines(step, inner)?)));
        let (asked, none) = (predicates(step), Predicates::default());
        let set = bitmaps::below(step);
        let of_rows = Predicates { access: None, filter: asked.filter.clone() };
        let of_outer = match (&inner, &set) {
            (Some(_), _) => &none,
            // What leads to the rows is asked of the sets, each its part.
            (None, Some(_)) => &of_rows,
            (None, None) => &asked,
        };
        let (own, id) = self.add(&lines, of_outer, parent, expected);
        self.rows[own].obj = obj_of(step, &lines);
        self.rows[own].projection = cut(&step.columns.join(", "), &mut self.named_bytes);
        if let Some(set) = &set {
            self.add_set(set, id);
        }
        for input in step.field_inputs() {
            self.add_step(input, id);
        }
        // What is looked up for each row of the input comes behind it.
        if let Some((inner, lines)) = inner {
            let expected = Expected::from_estimate(&inner.estimate, 0.0);
            let (table, _) = self.add(&lines, &asked, id, expected);
            self.rows[table].obj = obj_of(step, &lines);
        }
    }
}

/// What a step asks of rows.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
struct Predicates {
    /// What leads to them.
    access: Option<String>,
    /// What they must meet beside that.
    filter: Option<String>,
}

impl Predicates {
    /// Those of a statement on a single row.
    fn of(direct: &Direct) -> Predicates {
        let Some(row) = direct.row() else { return Predicates::default() };
        let access = key_condition(&row.table, &row.index, &row.key);
        let filter = (!row.key_is_all).then(|| row_condition(&row.table, &row.filter));
        Predicates { access: Some(access), filter }
    }
}

fn predicates(step: &Step) -> Predicates {
    let all = |labels: &[&str]| {
        let found = step.details.iter().filter(|(label, _)| labels.contains(label));
        let found: Vec<&str> = found.map(|(_, text)| &**text).collect();
        (!found.is_empty()).then(|| found.join(" AND "))
    };
    Predicates {
        access: all(&["Index Cond", "Hash Cond", "Merge Cond"]),
        filter: all(&["Filter", "Join Filter", "One-Time Filter"]),
    }
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
    let (verb, change) = match &plan.kind {
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
        _ => return Vec::new(),
    };
    if physical.is_none() && !matches!(plan.kind, Kind::Direct(_)) {
        return Vec::new();
    }
    let mut rows = Rows::default();
    let top = physical.map(steps);
    let cost = top.as_ref().map(|step| step.estimate.total_cost.max(0.0));
    let expected = Expected { cost, ..Expected::default() };
    let mut at = rows.statement(verb, expected);
    let asked = match &plan.kind {
        Kind::Direct(direct) => Predicates::of(direct),
        _ => Predicates::default(),
    };
    let changes = matches!(verb, "UPDATE" | "DELETE");
    if let Some((lines, obj)) = change {
        let of_change = if changes { &Predicates::default() } else { &asked };
        let (own, last) = rows.add(&lines, of_change, at, Expected::default());
        rows.rows[own].obj = obj;
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
        rows.add(&lines, &asked, at, Expected::default());
    }
    // Its index is the last of the steps.
    if let Kind::Direct(direct) = &plan.kind
        && let (Some(row), Some(last)) = (direct.row(), rows.rows.last_mut())
    {
        last.obj = row.index.obj.0;
    }
    rows.rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::common::JoinType;
    use query::explain::{Inner, Names};

    fn step(operator: Operator, table: &str, index: Option<&str>) -> Step {
        Step {
            operator,
            text: operator.word(),
            details: Vec::new(),
            estimate: Estimate::default(),
            read_width: 0.0,
            columns: Vec::new(),
            actual: None,
            index: None,
            names: (!table.is_empty()).then(|| Names {
                table: table.to_owned(),
                index: index.map(str::to_owned),
                ..Names::default()
            }),
            sets: None,
            inner: None,
            inputs: Vec::new(),
        }
    }

    #[test]
    fn steps_have_the_fields_names() {
        let named = |operator, table, index| together(&lines_of(&step(operator, table, index)));
        assert_eq!(named(Operator::SeqScan, "my table", None), "TABLE ACCESS FULL MY TABLE");
        assert_eq!(
            named(Operator::IndexRangeScan { backward: true }, "t", Some("i")),
            "TABLE ACCESS BY INDEX ROWID T (INDEX RANGE SCAN DESCENDING I)"
        );
        assert_eq!(
            named(Operator::IndexKeysScan { unique: true }, "t", Some("i")),
            "INLIST ITERATOR (TABLE ACCESS BY INDEX ROWID T (INDEX UNIQUE SCAN I))"
        );
        let only = Operator::IndexOnlyScan { backward: false };
        assert_eq!(named(only, "t", Some("i")), "INDEX RANGE SCAN I");
        assert_eq!(named(Operator::FixedScan, "v$lock", None), "FIXED TABLE FULL V$LOCK");
        assert_eq!(named(Operator::DualScan, "dual", None), "FAST DUAL");
        let function = "COLLECTION ITERATOR PICKLER FETCH GENERATE_SERIES";
        assert_eq!(named(Operator::FunctionScan, "generate_series", None), function);
        assert_eq!(named(Operator::Aggregate, "", None), "SORT AGGREGATE");
        assert_eq!(named(Operator::HashJoin(JoinType::RightSemi), "", None), "HASH JOIN SEMI");
        assert_eq!(named(Operator::HashJoin(JoinType::Left), "", None), "HASH JOIN OUTER");
        let anti = Operator::NestedLoop(JoinType::LeftAnti);
        assert_eq!(named(anti, "a Left t", Some("i")), "NESTED LOOPS ANTI");
        assert_eq!(named(Operator::FirstRows, "", None), "SORT ORDER BY STOPKEY");
        let shared = "TEMP TABLE TRANSFORMATION (LOAD AS SELECT (CURSOR DURATION MEMORY))";
        assert_eq!(named(Operator::Shared, "", None), shared);
    }

    fn with_inputs(operator: Operator, inputs: Vec<Step>) -> Step {
        Step { inputs, ..step(operator, "", None) }
    }

    fn scan() -> Step {
        step(Operator::SeqScan, "t", None)
    }

    fn shown_below(step: &Step) -> Vec<String> {
        let mut rows = Rows::default();
        let top = rows.statement("SELECT", Expected::default());
        for step in step.field_steps() {
            rows.add_step(step, top);
        }
        shown(&rows.rows[1..])
    }

    #[test]
    fn a_window_sorts_its_rows_itself() {
        let sort = with_inputs(Operator::Sort, vec![scan()]);
        let window = with_inputs(Operator::WindowSort, vec![sort]);
        assert_eq!(
            shown_below(&with_inputs(Operator::Filter, vec![window.clone()])),
            ["1 1 Some(0) FILTER||", "2 1 Some(1) WINDOW|SORT|", "3 1 Some(2) TABLE ACCESS|FULL|T"]
        );
        let mut lines = Vec::new();
        add_lines(&window, 0, 1, &mut lines);
        let told: Vec<_> = lines.iter().map(|line| (line.parent, line.position)).collect();
        assert_eq!(told, [(0, 1), (1, 1)]);
        assert!(lines[0].operation.starts_with("WINDOW SORT (cr="), "{}", lines[0].operation);
    }

    #[test]
    fn what_has_no_line_leaves_its_place_to_what_is_below() {
        let calls = with_inputs(Operator::Calls, vec![scan()]);
        let value = with_inputs(Operator::Aggregate, vec![step(Operator::Result, "", None)]);
        let values = with_inputs(Operator::InitPlan, vec![calls, value]);
        assert_eq!(
            shown_below(&values),
            [
                "1 1 Some(0) SORT|AGGREGATE|",
                "2 1 Some(1) FAST DUAL||",
                "1 2 Some(0) TABLE ACCESS|FULL|T",
            ]
        );
    }

    #[test]
    fn lines_of_one_step_are_each_below_the_one_before() {
        let shared = with_inputs(Operator::Shared, vec![scan()]);
        assert_eq!(
            shown_below(&shared),
            [
                "1 1 Some(0) TEMP TABLE TRANSFORMATION||",
                "2 1 Some(1) LOAD AS SELECT|(CURSOR DURATION MEMORY)|",
                "3 1 Some(2) TABLE ACCESS|FULL|T",
            ]
        );
        let mut keys = step(Operator::IndexKeysScan { unique: false }, "t", Some("i"));
        keys.names.as_mut().unwrap().obj = 7;
        keys.index = Some(Part { obj: 8, actual: Actual { rows: 2, ..Actual::default() } });
        let mut lines = Vec::new();
        add_lines(&keys, 0, 1, &mut lines);
        let told = |line: &PlanLine| {
            let words = line.operation.split(" (cr").next().unwrap_or_default();
            format!("{} {} {words}", line.parent, line.obj)
        };
        assert_eq!(
            lines.iter().map(told).collect::<Vec<String>>(),
            ["0 0 INLIST ITERATOR", "1 7 TABLE ACCESS BY INDEX ROWID T", "2 8 INDEX RANGE SCAN I"]
        );
    }

    #[test]
    fn predicates_are_told_as_access_and_filter() {
        let mut scan = step(Operator::IndexRangeScan { backward: false }, "t", Some("i"));
        assert_eq!(predicates(&scan), Predicates::default());
        scan.details = vec![
            ("Index Cond", "(a = 1)".to_owned()),
            ("Filter", "(b = 2)".to_owned()),
            ("Limit", "3".to_owned()),
        ];
        scan.columns = vec!["a".to_owned(), "b".to_owned()];
        scan.names.as_mut().unwrap().obj = 7;
        let asked = predicates(&scan);
        assert_eq!(asked.access.as_deref(), Some("(a = 1)"));
        assert_eq!(asked.filter.as_deref(), Some("(b = 2)"));
        let mut rows = Rows::default();
        let top = rows.statement("SELECT", Expected::default());
        rows.add_step(&scan, top);
        let told: Vec<_> =
            rows.rows.iter().map(|r| (r.access.as_deref(), r.filter.as_deref())).collect();
        let none = (None, None);
        assert_eq!(told, [none, (None, Some("(b = 2)")), (Some("(a = 1)"), None)]);
        let known: Vec<_> = rows.rows.iter().map(|r| (r.obj, r.projection.as_deref())).collect();
        assert_eq!(known, [(0, None), (7, Some("a, b")), (0, None)]);
    }

    fn shown(rows: &[PlanRow]) -> Vec<String> {
        let shown = |row: &PlanRow| {
            let [option, object] =
                [&row.option, &row.object].map(|o| o.clone().unwrap_or_default());
            let (depth, position, parent) = (row.depth, row.position, row.parent);
            format!("{depth} {position} {parent:?} {}|{option}|{object}", row.operation)
        };
        rows.iter().map(shown).collect()
    }

    #[test]
    fn lines_become_operations_options_and_names() {
        let mut rows = Rows::default();
        let top = rows.statement("UPDATE", Expected::default());
        let mut lines = lines_for(Operator::BitmapScan, "t", "i");
        lines.extend(bitmaps::rows_of_key("i"));
        let asked = Predicates { access: Some("(a = 1)".to_owned()), filter: None };
        assert_eq!(rows.add(&lines, &asked, top, Expected::default()), (1, 3));
        let groups = lines_for(Operator::HashAggregate, "", "");
        assert_eq!(rows.add(&groups, &Predicates::default(), top, Expected::default()), (4, 4));
        assert_eq!(
            shown(&rows.rows),
            [
                "0 0 None UPDATE STATEMENT||",
                "1 1 Some(0) TABLE ACCESS|BY INDEX ROWID|T",
                "2 1 Some(1) BITMAP CONVERSION|TO ROWIDS|",
                "3 1 Some(2) BITMAP INDEX|SINGLE VALUE|I",
                "1 2 Some(0) HASH|GROUP BY|",
            ]
        );
        assert_eq!(rows.rows[1].access, None);
        assert_eq!(rows.rows[3].access.as_deref(), Some("(a = 1)"));
    }

    fn join() -> Step {
        let mut join = step(Operator::NestedLoop(JoinType::Inner), "t", Some("i"));
        join.inputs.push(step(Operator::SeqScan, "a statement", None));
        let estimate = Estimate { total_cost: 0.24, rows: 2.0, width: 8.0, startup_cost: 0.0 };
        join.inner = Some(Inner { unique: false, bitmap: false, estimate, actual: None });
        join
    }

    #[test]
    fn what_is_read_for_each_row_comes_behind_the_input() {
        let join = join();
        let mut rows = Rows::default();
        let top = rows.statement("SELECT", Expected::default());
        rows.add_step(&join, top);
        assert_eq!(
            shown(&rows.rows),
            [
                "0 0 None SELECT STATEMENT||",
                "1 1 Some(0) NESTED LOOPS||",
                "2 1 Some(1) TABLE ACCESS|FULL|A STATEMENT",
                "2 2 Some(1) TABLE ACCESS|BY INDEX ROWID|T",
                "3 1 Some(3) INDEX|RANGE SCAN|I",
            ]
        );
        let table = &rows.rows[3];
        assert_eq!((table.cost, table.rows, table.bytes), (Some(0.24), Some(2.0), Some(16.0)));
    }

    #[test]
    fn each_side_of_a_join_by_index_has_its_line_in_a_trace() {
        let part = |obj, gets, rows| {
            let mut actual = Actual { rows, total_us: 10 * gets, ..Actual::default() };
            actual.visits.consistent_gets = gets;
            Part { obj, actual }
        };
        let mut join = join();
        join.actual = Some(part(0, 30, 20).actual);
        join.inputs[0].actual = Some(part(0, 5, 10).actual);
        if let Some(names) = &mut join.inputs[0].names {
            names.obj = 7;
        }
        if let Some(inner) = &mut join.inner {
            (inner.unique, inner.actual) = (true, Some(part(8, 25, 20)));
        }
        join.index = Some(part(9, 20, 20));
        let mut lines = Vec::new();
        add_lines(&join, 0, 1, &mut lines);
        let told = |line: &PlanLine| {
            let PlanLine { rows, parent, position, obj, operation } = line;
            format!("{rows} {parent} {position} {obj} {operation}")
        };
        assert_eq!(
            lines.iter().map(told).collect::<Vec<String>>(),
            [
                "20 0 1 0 NESTED LOOPS (cr=30 pr=0 pw=0 time=300 us cost=0 size=0 card=1)",
                "10 1 1 7 TABLE ACCESS FULL A STATEMENT (cr=5 pr=0 pw=0 time=50 us cost=0 size=0 \
                 card=1)",
                "20 1 2 8 TABLE ACCESS BY INDEX ROWID T (cr=25 pr=0 pw=0 time=250 us cost=0 \
                 size=16 card=2)",
                "20 3 1 9 INDEX UNIQUE SCAN I (cr=20 pr=0 pw=0 time=200 us)",
            ]
        );
    }

    #[test]
    fn what_counts_rows_is_told_with_the_bytes_that_it_reads() {
        let mut scan = scan();
        scan.estimate.rows = 0.2;
        let mut rows = Rows::default();
        let top = rows.statement("SELECT", Expected::default());
        rows.add_step(&scan, top);
        scan.read_width = 9.0;
        rows.add_step(&scan, top);
        let told: Vec<_> = rows.rows.iter().map(|row| (row.rows, row.bytes)).collect();
        assert_eq!(told, [(None, None), (Some(1.0), None), (Some(1.0), Some(9.0))]);
    }

    #[test]
    fn a_plan_keeps_no_more_than_there_is_room_for() {
        let mut wide = step(Operator::Sort, "", None);
        wide.details = vec![("Filter", "x".repeat(5000))];
        wide.inputs = vec![wide.clone(); 300];
        let mut rows = Rows::default();
        let top = rows.statement("SELECT", Expected::default());
        rows.add_step(&wide, top);
        assert_eq!(rows.rows.len(), ROWS_MAX);
        let told: usize =
            rows.rows.iter().filter_map(|row| row.filter.as_ref()).map(String::len).sum();
        assert_eq!(told, TOLD_BYTES_MAX + " ..".len());
    }
}
