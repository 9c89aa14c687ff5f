//! A plan's steps in the field's words: the lines of a trace, and the rows of `v$sql_plan`.
//!
//! What it promises: a trace and the view name a step alike. What it must never do: show a figure
//! of a step that was not measured.

mod bitmaps;

use crate::plan::{Direct, Kind, Plan};
use bitmaps::{SetStep, top_words};
use datafusion::physical_plan::ExecutionPlan;
use observe::{PlanLine, PlanRow};
use query::explain::{Actual, Estimate, Inner, Part, Step, key_condition, row_condition, steps};
use std::sync::Arc;

const NESTED_LOOPS: &str = "NESTED LOOPS";
const FIXED: &str = "FIXED TABLE FULL ";

/// The field's words for the inner side of a join by index: the table's step, and the index's.
fn inner_words(step: &Step, inner: &Inner) -> Option<(String, String)> {
    let names = step.names.as_ref()?;
    let (table, index) = (names.table.to_uppercase(), names.index.as_ref()?.to_uppercase());
    let index = match inner {
        Inner { bitmap: true, .. } => {
            format!("BITMAP CONVERSION TO ROWIDS (BITMAP INDEX SINGLE VALUE {index})")
        }
        Inner { unique: true, .. } => format!("INDEX UNIQUE SCAN {index}"),
        _ => format!("INDEX RANGE SCAN {index}"),
    };
    Some((format!("TABLE ACCESS BY INDEX ROWID {table}"), index))
}

/// The field's words for a step, and whether it reads a table. Of a join by index they are those of
/// the join, without its inner side.
fn operation(step: &Step) -> (String, bool) {
    let text = &*step.text;
    let upper = |name: &String| name.to_uppercase();
    let table = step.names.as_ref().map(|names| upper(&names.table)).unwrap_or_default();
    let index = step.names.as_ref().and_then(|names| names.index.as_ref().map(upper));
    let index = index.unwrap_or_default();
    if let Some(words) = top_words(step) {
        return words;
    }
    if step.names.as_ref().is_some_and(|names| names.fixed) {
        let words =
            if table == "DUAL" { "FAST DUAL".to_owned() } else { format!("{FIXED}{table}") };
        return (words, false);
    }
    if text.starts_with("Seq Scan on ") {
        return (format!("TABLE ACCESS FULL {table}"), true);
    }
    for (ours, theirs) in [
        ("Index Unique Scan", "INDEX UNIQUE SCAN"),
        ("Index Only Scan", "INDEX RANGE SCAN"),
        ("Index Range Scan", "INDEX RANGE SCAN"),
        ("Index Scan", "INDEX RANGE SCAN"),
    ] {
        let Some(rest) = text.strip_prefix(ours) else { continue };
        let back = if rest.starts_with(" Backward") { " DESCENDING" } else { "" };
        return match ours {
            "Index Only Scan" => (format!("{theirs}{back} {index}"), true),
            _ => (format!("TABLE ACCESS BY INDEX ROWID {table} ({theirs}{back} {index})"), true),
        };
    }
    let has = |label: &str| step.details.iter().any(|(known, _)| *known == label);
    // Behind the colon a table is named.
    let join = text.split_once(": ").map_or(text, |(join, _)| join);
    let kind = |word: &str| match () {
        () if join.contains(" Semi ") => format!("{word} SEMI"),
        () if join.contains(" Anti ") => format!("{word} ANTI"),
        () if join.contains(" Full ") => format!("{word} FULL OUTER"),
        () if join.contains(" Left ") || join.contains(" Right ") => format!("{word} OUTER"),
        () => word.to_owned(),
    };
    let name = match &*step.name {
        "AggregateExec" if !has("Group Key") && !has("Grouping Sets") => {
            "SORT AGGREGATE".to_owned()
        }
        "AggregateExec" if text.contains("GroupAggregate") => "SORT GROUP BY".to_owned(),
        "AggregateExec" => "HASH GROUP BY".to_owned(),
        "HashJoinExec" => kind("HASH JOIN"),
        "SortMergeJoinExec" => kind("MERGE JOIN"),
        "IndexJoinExec" | "NestedLoopJoinExec" | "CrossJoinExec" => kind(NESTED_LOOPS),
        // That of the first rows alone has another name.
        name if name.starts_with("SortExec") && has("Limit") => "SORT ORDER BY STOPKEY".to_owned(),
        name if name.starts_with("SortExec") => "SORT ORDER BY".to_owned(),
        "UnionExec" | "AppendExec" => "UNION-ALL".to_owned(),
        "GlobalLimitExec" | "LocalLimitExec" => "COUNT STOPKEY".to_owned(),
        "WindowAggExec" | "BoundedWindowAggExec" => "WINDOW BUFFER".to_owned(),
        "FilterExec" => "VIEW".to_owned(),
        "RecursiveQueryExec" => "UNION ALL (RECURSIVE WITH)".to_owned(),
        "PlaceholderRowExec" | "EmptyExec" => "FAST DUAL".to_owned(),
        "GatherExec" => "PX COORDINATOR".to_owned(),
        // In the words that EXPLAIN has for it.
        _ => text.to_uppercase(),
    };
    (name, false)
}

/// The field's words for a statement on single rows, and the number of its table.
fn direct_words(direct: &Direct) -> (String, u32) {
    let upper = |name: &str| name.to_uppercase();
    match direct {
        Direct::Select(select) => {
            let (table, index) = (upper(&select.row.table.name), upper(&select.row.index.name));
            let words = format!("TABLE ACCESS BY INDEX ROWID {table} (INDEX UNIQUE SCAN {index})");
            (words, select.row.table.obj.0)
        }
        Direct::Update { row, .. } => {
            (format!("UPDATE {}", upper(&row.table.name)), row.table.obj.0)
        }
        Direct::Delete { row, .. } => {
            (format!("DELETE {}", upper(&row.table.name)), row.table.obj.0)
        }
        Direct::Insert { table, .. } => {
            (format!("LOAD TABLE CONVENTIONAL {}", upper(&table.name)), table.obj.0)
        }
        Direct::Values(_) => ("FAST DUAL".to_owned(), 0),
    }
}

/// The lines of a plan that has run: each step's figures are measured with all below it.
pub(crate) fn plan_lines(
    plan: &Plan,
    watched: Option<&Arc<dyn ExecutionPlan>>,
    rows: u64,
    figures: &str,
) -> Vec<PlanLine> {
    let one = |operation: String, obj: u32| {
        let operation = format!("{operation} {figures}");
        vec![PlanLine { rows, parent: 0, position: 1, obj, operation }]
    };
    let upper = |name: &str| name.to_uppercase();
    match (&plan.kind, watched) {
        (Kind::Query(_), Some(watched)) => {
            let mut lines = Vec::new();
            add_lines(&steps(watched), 0, 1, &mut lines);
            lines
        }
        (Kind::Direct(direct), _) => {
            let (words, obj) = direct_words(direct);
            one(words, obj)
        }
        (Kind::Modify(modify), _) => {
            let verb = if modify.set.is_some() { "UPDATE" } else { "DELETE" };
            one(format!("{verb} {}", upper(&modify.table.name)), modify.table.obj.0)
        }
        (Kind::InsertSelect(insert), _) => {
            let text = format!("LOAD TABLE CONVENTIONAL {}", upper(&insert.table.name));
            one(text, insert.table.obj.0)
        }
        (Kind::Merge(merge), _) => {
            one(format!("MERGE {}", upper(&merge.table.name)), merge.table.obj.0)
        }
        _ => Vec::new(),
    }
}

/// The table's step and the index's, of a step that is both.
fn index_below(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(')')?.split_once(" (").filter(|(table, _)| table.starts_with("TABLE ACCESS"))
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

/// The line of an index that leads to the rows of the line before.
fn index_line(words: &str, part: &Part, lines: &mut Vec<PlanLine>) {
    let Part { obj, actual } = part;
    let (outer, inner) = match words_below(words) {
        Some((outer, inner)) => (outer, Some(inner)),
        None => (words, None),
    };
    let operation = format!("{outer} ({})", done(actual));
    let (parent, position) = (lines.len(), 1);
    let of_outer = if inner.is_some() { 0 } else { *obj };
    lines.push(PlanLine { rows: actual.rows, parent, position, obj: of_outer, operation });
    // What was measured is that of both together.
    if let Some(inner) = inner {
        let (parent, operation) = (lines.len(), inner.to_owned());
        lines.push(PlanLine { rows: 0, parent, position, obj: *obj, operation });
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
    let words = &set.words;
    let (rows, operation) = match part {
        Some(Part { actual, .. }) => (actual.rows, format!("{words} ({})", done(actual))),
        None => (0, words.clone()),
    };
    lines.push(PlanLine { rows, parent, position, obj: set.obj, operation });
    let me = lines.len();
    for (at, input) in set.inputs.iter().enumerate() {
        set_lines(input, None, me, at + 1, lines);
    }
}

fn add_lines(step: &Step, parent: usize, position: usize, lines: &mut Vec<PlanLine>) {
    let (name, reads) = operation(step);
    let actual = step.actual.unwrap_or_default();
    // What reads an index and then the rows is two steps to the field.
    let below = step.index.as_ref().and_then(|part| Some((part, index_below(&name)?)));
    let words = below.map_or(&*name, |(_, (table, _))| table);
    let expected = Expected::from_estimate(&step.estimate, step.read_width);
    let operation = format!("{words} ({} {})", done(&actual), thought(&expected));
    let obj = step.names.as_ref().filter(|_| reads).map_or(0, |names| names.obj);
    lines.push(PlanLine { rows: actual.rows, parent, position, obj, operation });
    let me = lines.len();
    if let Some((part, (_, index))) = below {
        index_line(index, part, lines);
    }
    if let Some(set) = bitmaps::below(step) {
        // Who counts bits does not tell what reading its index took.
        let part = step.index.as_ref().filter(|_| reads);
        set_lines(&set, part, me, 1, lines);
    }
    for (i, input) in step.inputs.iter().enumerate() {
        add_lines(input, me, i + 1, lines);
    }
    // What is looked up for each row of the input comes behind it.
    let inner = step.inner.as_ref().and_then(|inner| Some((inner, inner.actual?)));
    if let Some((inner, Part { obj, actual })) = inner
        && let Some((table, index)) = inner_words(step, inner)
    {
        let expected = Expected::from_estimate(&inner.estimate, 0.0);
        let operation = format!("{table} ({} {})", done(&actual), thought(&expected));
        let position = step.inputs.len() + 1;
        lines.push(PlanLine { rows: actual.rows, parent: me, position, obj, operation });
        if let Some(part) = &step.index {
            index_line(&index, part, lines);
        }
    }
}

/// Words that an object's name follows, as the operation and its option.
const OF_OBJECTS: [(&str, &str, &str); 12] = [
    (FIXED, "FIXED TABLE", "FULL"),
    ("TABLE ACCESS FULL ", "TABLE ACCESS", "FULL"),
    ("TABLE ACCESS BY INDEX ROWID ", "TABLE ACCESS", "BY INDEX ROWID"),
    ("INDEX UNIQUE SCAN ", "INDEX", "UNIQUE SCAN"),
    ("INDEX RANGE SCAN DESCENDING ", "INDEX", "RANGE SCAN DESCENDING"),
    ("INDEX RANGE SCAN ", "INDEX", "RANGE SCAN"),
    ("BITMAP INDEX SINGLE VALUE ", "BITMAP INDEX", "SINGLE VALUE"),
    ("BITMAP INDEX RANGE SCAN ", "BITMAP INDEX", "RANGE SCAN"),
    ("LOAD TABLE CONVENTIONAL ", "LOAD TABLE CONVENTIONAL", ""),
    ("UPDATE ", "UPDATE", ""),
    ("DELETE ", "DELETE", ""),
    ("MERGE ", "MERGE", ""),
];

/// The same of operations that have no object.
const OF_ROWS: [(&str, &str, &str); 21] = [
    ("NESTED LOOPS SEMI", NESTED_LOOPS, "SEMI"),
    ("NESTED LOOPS ANTI", NESTED_LOOPS, "ANTI"),
    ("NESTED LOOPS OUTER", NESTED_LOOPS, "OUTER"),
    ("MERGE JOIN", "MERGE JOIN", ""),
    ("MERGE JOIN SEMI", "MERGE JOIN", "SEMI"),
    ("MERGE JOIN ANTI", "MERGE JOIN", "ANTI"),
    ("MERGE JOIN OUTER", "MERGE JOIN", "OUTER"),
    ("HASH JOIN SEMI", "HASH JOIN", "SEMI"),
    ("HASH JOIN ANTI", "HASH JOIN", "ANTI"),
    ("HASH JOIN OUTER", "HASH JOIN", "OUTER"),
    ("HASH JOIN FULL OUTER", "HASH JOIN", "FULL OUTER"),
    ("SORT GROUP BY", "SORT", "GROUP BY"),
    ("SORT ORDER BY STOPKEY", "SORT", "ORDER BY STOPKEY"),
    ("WINDOW BUFFER", "WINDOW", "BUFFER"),
    ("SORT AGGREGATE", "SORT", "AGGREGATE"),
    ("SORT ORDER BY", "SORT", "ORDER BY"),
    ("HASH GROUP BY", "HASH", "GROUP BY"),
    ("COUNT STOPKEY", "COUNT", "STOPKEY"),
    ("BITMAP CONVERSION COUNT", "BITMAP CONVERSION", "COUNT"),
    ("BITMAP CONVERSION TO ROWIDS", "BITMAP CONVERSION", "TO ROWIDS"),
    ("BITMAP CONVERSION FROM ROWIDS", "BITMAP CONVERSION", "FROM ROWIDS"),
];

/// The step that is the input of another, of words that name both.
fn words_below(words: &str) -> Option<(&str, &str)> {
    let (outer, inner) = words.strip_suffix(')')?.split_once(" (")?;
    let begins = ["INDEX ", "BITMAP ", "TABLE ACCESS "];
    begins.iter().any(|word| inner.starts_with(word)).then_some((outer, inner))
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

    fn of(self, operation: String, option: Option<String>, object: Option<String>) -> PlanRow {
        let Expected { cost, rows, bytes } = self;
        let (parent, depth, position, access, filter) = (None, 0, 0, None, None);
        PlanRow {
            parent,
            depth,
            position,
            operation,
            option,
            object,
            cost,
            rows,
            bytes,
            access,
            filter,
        }
    }
}

/// Steps of one plan that are kept: what comes behind them is not.
const ROWS_MAX: usize = 100;
/// Bytes of what EXPLAIN tells of them, all together.
const TOLD_BYTES_MAX: usize = 8192;

/// Rows of a plan while they are made.
#[derive(Default)]
struct Rows {
    rows: Vec<PlanRow>,
    /// How many inputs each has so far.
    inputs: Vec<usize>,
    told_bytes: usize,
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
        let row = expected.of(format!("{verb} STATEMENT"), None, None);
        self.push(None, row)
    }

    /// Adds a step below another, and what its words name below it; its number.
    fn add(&mut self, words: &str, asked: &Predicates, parent: usize, expected: Expected) -> usize {
        let (outer, inner) = match words_below(words) {
            Some((outer, inner)) => (outer, Some(inner)),
            None => (words, None),
        };
        // What leads to the rows is asked of the index.
        let access = asked.access.as_deref().filter(|_| inner.is_none());
        let of_object = || {
            OF_OBJECTS.iter().find_map(|(begin, operation, option)| {
                Some((*operation, *option, outer.strip_prefix(begin)?))
            })
        };
        let of_rows = OF_ROWS.iter().find(|row| row.0 == outer).map(|row| (row.1, row.2, ""));
        let (operation, option, object) = of_rows.or_else(of_object).unwrap_or((outer, "", ""));
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        let row = expected.of(operation.to_owned(), some(option), some(object));
        let access = access.and_then(|text| self.cut(text));
        let filter = asked.filter.as_deref().and_then(|text| self.cut(text));
        let id = self.push(Some(parent), PlanRow { access, filter, ..row });
        if let Some(inner) = inner {
            let asked = Predicates { access: asked.access.clone(), filter: None };
            self.add(inner, &asked, id, Expected::default());
        }
        id
    }

    /// Adds the sets that lead to the rows of a step; none of them is measured or judged by itself.
    fn add_set(&mut self, set: &SetStep, access: Option<&str>, parent: usize) {
        if self.is_full() {
            return;
        }
        let own = access.filter(|_| !set.is_conversion);
        let asked = Predicates { access: own.map(str::to_owned), filter: None };
        let id = self.add(&set.words, &asked, parent, Expected::default());
        let below = access.filter(|_| own.is_none());
        for input in &set.inputs {
            self.add_set(input, below, id);
        }
    }

    /// What is told of a step, as far as there is room for it.
    fn cut(&mut self, told: &str) -> Option<String> {
        let mut end = told.len().min(TOLD_BYTES_MAX - self.told_bytes);
        while !told.is_char_boundary(end) {
            end -= 1;
        }
        self.told_bytes += end;
        let cut = if end < told.len() { " .." } else { "" };
        (end > 0).then(|| format!("{}{cut}", &told[..end]))
    }

    fn add_step(&mut self, step: &Step, parent: usize) {
        if self.is_full() {
            return;
        }
        let (words, _) = operation(step);
        let expected = Expected::from_estimate(&step.estimate, step.read_width);
        let inner = step.inner.as_ref().and_then(|inner| Some((inner, inner_words(step, inner)?)));
        let (asked, none) = (predicates(step), Predicates::default());
        let set = bitmaps::below(step);
        let of_rows = Predicates { access: None, filter: asked.filter.clone() };
        let of_outer = match (&inner, &set) {
            (Some(_), _) => &none,
            // What leads to the rows is asked of the sets.
            (None, Some(_)) => &of_rows,
            (None, None) => &asked,
        };
        let id = self.add(&words, of_outer, parent, expected);
        if let Some(set) = &set {
            self.add_set(set, asked.access.as_deref(), id);
        }
        for input in &step.inputs {
            self.add_step(input, id);
        }
        // What is looked up for each row of the input comes behind it.
        if let Some((inner, (table, index))) = inner {
            let expected = Expected::from_estimate(&inner.estimate, 0.0);
            self.add(&format!("{table} ({index})"), &asked, id, expected);
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
        filter: all(&["Filter", "Join Filter"]),
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
    let upper = |name: &str| name.to_uppercase();
    let (verb, change) = match &plan.kind {
        Kind::Query(_) => ("SELECT", None),
        Kind::Modify(modify) => {
            let verb = if modify.set.is_some() { "UPDATE" } else { "DELETE" };
            (verb, Some(format!("{verb} {}", upper(&modify.table.name))))
        }
        Kind::InsertSelect(insert) => {
            ("INSERT", Some(format!("LOAD TABLE CONVENTIONAL {}", upper(&insert.table.name))))
        }
        Kind::Merge(merge) => ("MERGE", Some(format!("MERGE {}", upper(&merge.table.name)))),
        Kind::Direct(direct) => {
            let verb = match **direct {
                Direct::Select(_) | Direct::Values(_) => "SELECT",
                Direct::Update { .. } => "UPDATE",
                Direct::Delete { .. } => "DELETE",
                Direct::Insert { .. } => "INSERT",
            };
            (verb, Some(direct_words(direct).0))
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
    if let Some(words) = change {
        let of_change = if changes { &Predicates::default() } else { &asked };
        at = rows.add(&words, of_change, at, Expected::default());
    }
    if let Some(step) = &top {
        rows.add_step(step, at);
    }
    // The row of an UPDATE or DELETE by its key is found by that.
    if let Kind::Direct(direct) = &plan.kind
        && let Direct::Update { row, .. } | Direct::Delete { row, .. } = &**direct
    {
        let words = format!("INDEX UNIQUE SCAN {}", upper(&row.index.name));
        rows.add(&words, &asked, at, Expected::default());
    }
    rows.rows
}

#[cfg(test)]
mod tests {
    use super::*;
    use query::explain::Names;

    fn step(name: &str, text: &str, table: &str, index: Option<&str>) -> Step {
        Step {
            name: name.to_owned(),
            text: text.to_owned(),
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
        let named = |name, text, table, index| operation(&step(name, text, table, index)).0;
        let text = "Seq Scan on my table";
        assert_eq!(named("ScanExec", text, "my table", None), "TABLE ACCESS FULL MY TABLE");
        let text = "Index Range Scan Backward using i on t";
        let shown = "TABLE ACCESS BY INDEX ROWID T (INDEX RANGE SCAN DESCENDING I)";
        assert_eq!(named("ScanExec", text, "t", Some("i")), shown);
        let parts = ("TABLE ACCESS BY INDEX ROWID T", "INDEX RANGE SCAN DESCENDING I");
        assert_eq!(index_below(shown), Some(parts));
        assert_eq!(index_below("INDEX RANGE SCAN I"), None);
        assert_eq!(named("AggregateExec", "Aggregate", "", None), "SORT AGGREGATE");
        assert_eq!(named("HashJoinExec", "Hash Right Semi Join", "", None), "HASH JOIN SEMI");
        assert_eq!(named("HashJoinExec", "Hash Left Join", "", None), "HASH JOIN OUTER");
        let text = "Nested Loop Anti Join: Index Scan using i on a Left t";
        assert_eq!(named("IndexJoinExec", text, "a Left t", Some("i")), "NESTED LOOPS ANTI");
        assert_eq!(named("SharedExec", "Shared Rows", "", None), "SHARED ROWS");
        let mut first = step("SortExec(TopK)", "Sort", "", None);
        assert_eq!(operation(&first).0, "SORT ORDER BY");
        first.details.push(("Limit", "3".to_owned()));
        assert_eq!(operation(&first).0, "SORT ORDER BY STOPKEY");
        let mut view = step("DataSourceExec", "Fixed Table Scan on v$lock", "v$lock", None);
        view.names.as_mut().unwrap().fixed = true;
        assert_eq!(operation(&view).0, "FIXED TABLE FULL V$LOCK");
    }

    #[test]
    fn predicates_are_told_as_access_and_filter() {
        let mut scan = step("ScanExec", "Index Range Scan using i on t", "t", Some("i"));
        assert_eq!(predicates(&scan), Predicates::default());
        scan.details = vec![
            ("Index Cond", "(a = 1)".to_owned()),
            ("Filter", "(b = 2)".to_owned()),
            ("Limit", "3".to_owned()),
        ];
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
    fn words_become_operations_options_and_names() {
        let mut rows = Rows::default();
        let top = rows.statement("UPDATE", Expected::default());
        let words = "TABLE ACCESS BY INDEX ROWID T (BITMAP CONVERSION TO ROWIDS (BITMAP INDEX \
                     SINGLE VALUE I))";
        let asked = Predicates { access: Some("(a = 1)".to_owned()), filter: None };
        rows.add(words, &asked, top, Expected::default());
        rows.add("HASH GROUP BY", &Predicates::default(), top, Expected::default());
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
        let text = "Nested Loop: Index Scan using i on t";
        let mut join = step("IndexJoinExec", text, "t", Some("i"));
        join.inputs.push(step("ScanExec", "Seq Scan on a statement", "a statement", None));
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
        let mut scan = step("ScanExec", "Seq Scan on t", "t", None);
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
        let mut wide = step("SortExec", "Sort", "", None);
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
