//! A plan's steps in the field's words: the lines of a trace, and the rows of `v$sql_plan`.
//!
//! What it promises: a trace and the view name a step alike. What it must never do: show a figure
//! of a step that was not measured.

use crate::plan::{Direct, Kind, Plan, QueryPlan};
use datafusion::physical_plan::ExecutionPlan;
use kernel::dict::USER_OBJ_MIN;
use observe::{PlanLine, PlanRow};
use query::explain::{IndexPart, Step, steps};
use std::sync::Arc;

/// A name at the beginning of what EXPLAIN says.
fn first_name(text: &str) -> &str {
    text.split([' ', ',', ':']).next().unwrap_or(text)
}

/// The field's words for a step that goes by bitmaps.
fn bitmap_operation(text: &str) -> Option<String> {
    let (ours, rest) = text.split_once(" using ")?;
    let (sets, rest) = rest.split_once(" on ")?;
    let sets_text = sets.to_uppercase();
    let found = if sets.starts_with('(') {
        format!("BITMAP {sets_text}")
    } else if rest.contains(" 0 bounds)") && !rest.contains("(0 equal") {
        format!("BITMAP INDEX SINGLE VALUE {sets_text}")
    } else {
        format!("BITMAP INDEX RANGE SCAN {sets_text}")
    };
    let table = first_name(rest).to_uppercase();
    match ours {
        "Bitmap Count" => Some(format!("BITMAP CONVERSION COUNT ({found})")),
        "Bitmap Index Scan" | "Bitmap Index Scan Backward" => {
            let rowids = format!("BITMAP CONVERSION TO ROWIDS ({found})");
            Some(format!("TABLE ACCESS BY INDEX ROWID {table} ({rowids})"))
        }
        "Bitmap Index Only Scan" | "Bitmap Index Only Scan Backward" => Some(found),
        _ => None,
    }
}

/// The field's words for a step, and whether it reads a table.
fn operation(step: &Step) -> (String, bool) {
    let text = &*step.text;
    if let Some(words) = bitmap_operation(text) {
        return (words, true);
    }
    if let Some(table) = text.strip_prefix("Seq Scan on ") {
        let table = first_name(table);
        return (format!("TABLE ACCESS FULL {}", table.to_uppercase()), true);
    }
    for (ours, theirs) in [
        ("Index Unique Scan", "INDEX UNIQUE SCAN"),
        ("Index Only Scan", "INDEX RANGE SCAN"),
        ("Index Range Scan", "INDEX RANGE SCAN"),
        ("Index Scan", "INDEX RANGE SCAN"),
    ] {
        let Some(rest) = text.strip_prefix(ours) else { continue };
        let back = if rest.starts_with(" Backward") { " DESCENDING" } else { "" };
        let after = |word: &str| {
            let (_, name) = rest.split_once(word)?;
            Some(first_name(name).to_uppercase())
        };
        let index = after(" using ").unwrap_or_default();
        let table = after(" on ").unwrap_or_default();
        return match ours {
            "Index Only Scan" => (format!("{theirs}{back} {index}"), true),
            _ => (format!("TABLE ACCESS BY INDEX ROWID {table} ({theirs}{back} {index})"), true),
        };
    }
    let name = match &*step.name {
        "AggregateExec" if text.contains("gby=[]") => "SORT AGGREGATE".to_owned(),
        "AggregateExec" => "HASH GROUP BY".to_owned(),
        "HashJoinExec" => "HASH JOIN".to_owned(),
        "SortMergeJoinExec" => "MERGE JOIN".to_owned(),
        "NestedLoopJoinExec" | "CrossJoinExec" => "NESTED LOOPS".to_owned(),
        "SortExec" => "SORT ORDER BY".to_owned(),
        "UnionExec" => "UNION-ALL".to_owned(),
        "GlobalLimitExec" | "LocalLimitExec" => "COUNT STOPKEY".to_owned(),
        name => {
            let mut words = String::new();
            for c in name.strip_suffix("Exec").unwrap_or(name).chars() {
                if c.is_uppercase() && !words.is_empty() {
                    words.push(' ');
                }
                words.extend(c.to_uppercase());
            }
            words
        }
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
    // Beside tables a plan names what else it depends on, such as the list of schemas.
    let mut tables = plan.tables.iter().map(|(obj, _)| obj.0).filter(|obj| *obj >= USER_OBJ_MIN);
    let only = match (tables.next(), tables.next()) {
        (Some(obj), None) => obj,
        _ => 0,
    };
    let one = |operation: String, obj: u32| {
        let operation = format!("{operation} {figures}");
        vec![PlanLine { rows, parent: 0, position: 1, obj, operation }]
    };
    let upper = |name: &str| name.to_uppercase();
    match (&plan.kind, watched) {
        (Kind::Query(_), Some(watched)) => {
            let mut lines = Vec::new();
            add_lines(&steps(watched), 0, 1, only, &mut lines);
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

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // estimates; it saturates
fn add_lines(step: &Step, parent: usize, position: usize, obj: u32, lines: &mut Vec<PlanLine>) {
    let (name, reads) = operation(step);
    let actual = step.actual.unwrap_or_default();
    let (rows, cost) = (step.estimate.rows.max(0.0), step.estimate.total_cost.max(0.0));
    let size = (rows * step.estimate.width.max(0.0)) as u64;
    let operation = format!(
        "{name} (cr={} pr={} pw=0 time={} us cost={} size={size} card={})",
        actual.visits.consistent_gets,
        actual.visits.physical_reads,
        actual.total_us,
        cost as u64,
        rows as u64,
    );
    let obj_here = if reads { obj } else { 0 };
    // What reads an index's range and then the rows is two steps to the field.
    let parts = step.index.and_then(|part| Some((part, index_below(&name)?)));
    let operation = match parts {
        Some((_, (table, _))) => operation.replacen(&name, table, 1),
        None => operation,
    };
    lines.push(PlanLine { rows: actual.rows, parent, position, obj: obj_here, operation });
    let me = lines.len();
    if let Some((part, (_, index))) = parts {
        let IndexPart { obj, actual } = part;
        let operation = format!(
            "{index} (cr={} pr={} pw=0 time={} us)",
            actual.visits.consistent_gets, actual.visits.physical_reads, actual.total_us,
        );
        lines.push(PlanLine { rows: actual.rows, parent: me, position: 1, obj, operation });
    }
    for (i, input) in step.inputs.iter().enumerate() {
        add_lines(input, me, i + 1, obj, lines);
    }
}

/// Words that an object's name follows, as the operation and its option.
const OF_OBJECTS: [(&str, &str, &str); 11] = [
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
const OF_ROWS: [(&str, &str, &str); 6] = [
    ("SORT AGGREGATE", "SORT", "AGGREGATE"),
    ("SORT ORDER BY", "SORT", "ORDER BY"),
    ("HASH GROUP BY", "HASH", "GROUP BY"),
    ("COUNT STOPKEY", "COUNT", "STOPKEY"),
    ("BITMAP CONVERSION COUNT", "BITMAP CONVERSION", "COUNT"),
    ("BITMAP CONVERSION TO ROWIDS", "BITMAP CONVERSION", "TO ROWIDS"),
];

/// The step that is the input of another, of words that name both.
fn words_below(words: &str) -> Option<(&str, &str)> {
    let (outer, inner) = words.strip_suffix(')')?.split_once(" (")?;
    ["INDEX ", "BITMAP "].iter().any(|word| inner.starts_with(word)).then_some((outer, inner))
}

/// What a step is known to take.
#[derive(Clone, Copy, Default)]
struct Expected {
    cost: Option<f64>,
    rows: Option<f64>,
    bytes: Option<f64>,
}

/// Rows of a plan while they are made.
#[derive(Default)]
struct Rows(Vec<PlanRow>);

impl Rows {
    /// Adds a step below another, and what its words name below it; its number.
    fn add(&mut self, words: &str, told: &str, parent: Option<usize>, expected: Expected) -> usize {
        let (outer, inner) = match words_below(words) {
            Some((outer, inner)) => (outer, Some(inner)),
            None => (words, None),
        };
        // The statement itself is no operation on something.
        let named = Some(outer).filter(|words| !words.ends_with(" STATEMENT"));
        let of_object = OF_OBJECTS.iter().find_map(|(begin, operation, option)| {
            Some((*operation, *option, named?.strip_prefix(begin)?))
        });
        let of_rows = || OF_ROWS.iter().find(|row| row.0 == outer).map(|row| (row.1, row.2, ""));
        let (operation, option, object) = of_object.or_else(of_rows).unwrap_or((outer, "", ""));
        let some = |word: &str| (!word.is_empty()).then(|| word.to_owned());
        let id = self.0.len();
        let siblings = self.0.iter().filter(|row| row.parent == parent).count();
        self.0.push(PlanRow {
            parent,
            depth: parent.map_or(0, |parent| self.0[parent].depth + 1),
            position: siblings + usize::from(parent.is_some()),
            operation: operation.to_owned(),
            option: some(option),
            object: some(object),
            cost: expected.cost,
            rows: expected.rows,
            bytes: expected.bytes,
            told: some(told),
        });
        if let Some(inner) = inner {
            self.add(inner, "", Some(id), Expected::default());
        }
        id
    }

    fn add_step(&mut self, step: &Step, parent: usize) {
        let (words, _) = operation(step);
        let rows = step.estimate.rows.max(0.0);
        let expected = Expected {
            cost: Some(step.estimate.total_cost.max(0.0)),
            rows: Some(rows),
            bytes: Some(rows * step.estimate.width.max(0.0)),
        };
        let id = self.add(&words, &step.text, Some(parent), expected);
        for input in &step.inputs {
            self.add_step(input, id);
        }
    }
}

/// A plan's steps, the statement itself first; none of a plan that is made for each run.
pub(crate) fn plan_rows(plan: &Plan) -> Vec<PlanRow> {
    let upper = |name: &str| name.to_uppercase();
    let (verb, change, query): (_, _, Option<&QueryPlan>) = match &plan.kind {
        Kind::Query(query) => ("SELECT", None, Some(&**query)),
        Kind::Modify(modify) => {
            let verb = if modify.set.is_some() { "UPDATE" } else { "DELETE" };
            (verb, Some(format!("{verb} {}", upper(&modify.table.name))), Some(&modify.query))
        }
        Kind::InsertSelect(insert) => {
            let words = format!("LOAD TABLE CONVENTIONAL {}", upper(&insert.table.name));
            ("INSERT", Some(words), Some(&insert.query))
        }
        Kind::Merge(merge) => {
            ("MERGE", Some(format!("MERGE {}", upper(&merge.table.name))), Some(&merge.query))
        }
        Kind::Direct(direct) => {
            let (words, _) = direct_words(direct);
            let verb = match **direct {
                Direct::Select(_) | Direct::Values(_) => "SELECT",
                Direct::Update { .. } => "UPDATE",
                Direct::Delete { .. } => "DELETE",
                Direct::Insert { .. } => "INSERT",
            };
            (verb, Some(words), None)
        }
        _ => return Vec::new(),
    };
    let mut rows = Rows::default();
    let physical = query.and_then(|query| query.physical.get());
    if query.is_some() && physical.is_none() {
        return Vec::new();
    }
    let top = physical.map(steps);
    let cost = top.as_ref().map(|step| step.estimate.total_cost.max(0.0));
    let expected = Expected { cost, ..Expected::default() };
    let mut at = rows.add(&format!("{verb} STATEMENT"), "", None, expected);
    if let Some(words) = change {
        at = rows.add(&words, "", Some(at), Expected::default());
    }
    if let Some(step) = &top {
        rows.add_step(step, at);
    }
    // The row of an UPDATE or DELETE by its key is found by that.
    if let Kind::Direct(direct) = &plan.kind
        && let Direct::Update { row, .. } | Direct::Delete { row, .. } = &**direct
    {
        let words = format!("INDEX UNIQUE SCAN {}", upper(&row.index.name));
        rows.add(&words, "", Some(at), Expected::default());
    }
    rows.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_fields_names() {
        let step = |name: &str, text: &str| Step {
            name: name.to_owned(),
            text: text.to_owned(),
            estimate: query::explain::Estimate::default(),
            columns: Vec::new(),
            actual: None,
            index: None,
            inputs: Vec::new(),
        };
        let named = |name, text| operation(&step(name, text)).0;
        let text = "Seq Scan on t_small, filter: v = 1";
        assert_eq!(named("ScanExec", text), "TABLE ACCESS FULL T_SMALL");
        let text = "Bitmap Count using i on t (1 equal, 0 bounds)";
        let count = "BITMAP CONVERSION COUNT (BITMAP INDEX SINGLE VALUE I)";
        assert_eq!(named("ScanExec", text), count);
        let text = "Bitmap Index Scan using ((i AND j) MINUS (k)) on t, filters=3";
        let rows = "TABLE ACCESS BY INDEX ROWID T (BITMAP CONVERSION TO ROWIDS (BITMAP \
                    ((I AND J) MINUS (K))))";
        assert_eq!(named("ScanExec", text), rows);
        let text = "Bitmap Index Only Scan using i on t (0 equal, 2 bounds)";
        assert_eq!(named("ScanExec", text), "BITMAP INDEX RANGE SCAN I");
        let text = "Index Range Scan Backward using i on t (1 equal, 0 bounds)";
        let shown = "TABLE ACCESS BY INDEX ROWID T (INDEX RANGE SCAN DESCENDING I)";
        assert_eq!(named("ScanExec", text), shown);
        let parts = ("TABLE ACCESS BY INDEX ROWID T", "INDEX RANGE SCAN DESCENDING I");
        assert_eq!(index_below(shown), Some(parts));
        assert_eq!(index_below("INDEX RANGE SCAN I"), None);
        assert_eq!(named("AggregateExec", "AggregateExec: mode=Single, gby=[]"), "SORT AGGREGATE");
        assert_eq!(named("CoalesceBatchesExec", "x"), "COALESCE BATCHES");
    }

    #[test]
    fn words_become_operations_options_and_names() {
        let mut rows = Rows::default();
        let top = rows.add("UPDATE STATEMENT", "", None, Expected::default());
        let words = "TABLE ACCESS BY INDEX ROWID T (BITMAP CONVERSION TO ROWIDS (BITMAP INDEX \
                     SINGLE VALUE I))";
        let read = rows.add(words, "Bitmap Index Scan", Some(top), Expected::default());
        rows.add("HASH GROUP BY", "", Some(top), Expected::default());
        let shown = |row: &PlanRow| {
            let [option, object] =
                [&row.option, &row.object].map(|o| o.clone().unwrap_or_default());
            format!(
                "{} {} {:?} {}|{option}|{object}",
                row.depth, row.position, row.parent, row.operation
            )
        };
        let shown: Vec<String> = rows.0.iter().map(shown).collect();
        assert_eq!(
            shown,
            [
                "0 0 None UPDATE STATEMENT||",
                "1 1 Some(0) TABLE ACCESS|BY INDEX ROWID|T",
                "2 1 Some(1) BITMAP CONVERSION|TO ROWIDS|",
                "3 1 Some(2) BITMAP INDEX|SINGLE VALUE|I",
                "1 2 Some(0) HASH|GROUP BY|",
            ]
        );
        assert_eq!(rows.0[read].told.as_deref(), Some("Bitmap Index Scan"));
        assert_eq!(words_below("BITMAP ((I AND J) MINUS (K))"), None);
    }
}
