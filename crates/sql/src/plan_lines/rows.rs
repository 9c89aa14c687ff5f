//! A plan's steps as rows: one for each line that the field has, with what it is expected to do,
//! and beside it what it did, where that was measured.
//!
//! What it promises: the rows of a plan are the same whether it was measured or not. What it must
//! never do: show a figure of a step that was not measured.

use super::bitmaps::{self, SetStep};
use super::line::{Line, inner_lines, lines_of, obj_of};
use super::{figures, index_figures};
use crate::plan::Direct;
use observe::{PlanRow, StepFigures};
use query::explain::{
    Estimate, Operator, Part, Step, TABLE_ACCESS, condition_beside_key, key_condition,
};

/// What a step is known to take.
#[derive(Clone, Copy, Default)]
pub(super) struct Expected {
    pub(super) cost: Option<f64>,
    pub(super) rows: Option<f64>,
    pub(super) bytes: Option<f64>,
}

impl Expected {
    /// `read_width`: bytes of the columns that a step reads which yields none, to count rows. One
    /// row is the least, as everywhere.
    pub(super) fn from_estimate(estimate: &Estimate, read_width: f64) -> Expected {
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
pub(super) const ROWS_MAX: usize = 100;
/// Bytes of what EXPLAIN tells of them, all together; and of the names of their columns.
pub(super) const TOLD_BYTES_MAX: usize = 8192;

/// Rows of a plan while they are made.
pub(super) struct Rows {
    pub(super) rows: Vec<PlanRow>,
    /// What each did; `None`: that was not measured.
    pub(super) figures: Vec<Option<StepFigures>>,
    rows_max: usize,
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
    /// None yet; so many are kept.
    pub(super) fn new(rows_max: usize) -> Rows {
        Rows {
            rows: Vec::new(),
            figures: Vec::new(),
            rows_max,
            inputs: Vec::new(),
            told_bytes: 0,
            named_bytes: 0,
        }
    }

    fn push(&mut self, parent: Option<usize>, row: PlanRow) -> usize {
        let position = parent.map(|parent| {
            self.inputs[parent] += 1;
            self.inputs[parent]
        });
        let depth = parent.map_or(0, |parent| self.rows[parent].depth + 1);
        self.rows.push(PlanRow { parent, depth, position: position.unwrap_or(0), ..row });
        self.inputs.push(0);
        self.figures.push(None);
        self.rows.len() - 1
    }

    /// What those from `first` to `last` did, all together.
    pub(super) fn tell(&mut self, first: usize, last: usize, figures: Option<StepFigures>) {
        for told in self.figures.iter_mut().take(last + 1).skip(first) {
            *told = figures;
        }
    }

    /// What the lines did that lead to the row before them, which is the first's parent.
    pub(super) fn tell_index(&mut self, lines: &[Line], above: usize, part: Option<&Part>) {
        let Some(Part { obj, actual }) = part else { return };
        for (id, line) in (above + 1..).zip(lines) {
            self.figures[id] = Some(index_figures(line, actual));
            if !line.object.is_empty() {
                self.rows[id].obj = *obj;
            }
        }
    }

    fn is_full(&self) -> bool {
        self.rows.len() >= self.rows_max
    }

    /// The statement itself.
    pub(super) fn statement(&mut self, verb: &str, expected: Expected) -> usize {
        let row = expected.of(format!("{verb} STATEMENT"), "", "");
        self.push(None, row)
    }

    /// Adds lines below a step, each below the one before. The numbers of the one that has the
    /// step's rows, and of the last.
    pub(super) fn add(
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

    /// Adds the sets that lead to the rows of a step; none of them is judged by itself.
    fn add_set(&mut self, set: &SetStep, parent: usize) {
        if self.is_full() {
            return;
        }
        let asked = Predicates { access: set.access.clone(), filter: None };
        let line = std::slice::from_ref(&set.line);
        let (id, _) = self.add(line, &asked, parent, Expected::default());
        self.rows[id].obj = set.obj;
        self.figures[id] = set.figures;
        for input in &set.inputs {
            self.add_set(input, id);
        }
    }

    pub(super) fn add_step(&mut self, step: &Step, parent: usize) {
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
            // Each of its accesses tells what it asks.
            (None, None) if !step.branches.is_empty() => &none,
            // What leads to the rows is asked of the sets, each its part.
            (None, Some(_)) => &of_rows,
            (None, None) => &asked,
        };
        let first = self.rows.len();
        let (own, id) = self.add(&lines, of_outer, parent, expected);
        self.tell(first, own, step.actual.as_ref().map(figures));
        // What leads to a table's rows has figures of its own, or none.
        let above = lines.len().saturating_sub(id - own);
        self.tell_index(&lines[above..], own, step.index.as_ref());
        // Each key of a list begins what is below the iterator.
        if let (Operator::IndexKeysScan { .. }, Some(part)) = (step.operator, &step.index)
            && let Some(table) = &mut self.figures[own]
        {
            table.starts = part.actual.loops;
        }
        self.rows[own].obj = obj_of(step, &lines);
        self.rows[own].projection = cut(&step.columns.join(", "), &mut self.named_bytes);
        if let Some(set) = &set {
            self.add_set(set, id);
        }
        for input in step.branches.iter().chain(step.field_inputs()) {
            self.add_step(input, id);
        }
        // What is looked up for each row of the input comes behind it.
        if let Some((inner, lines)) = inner {
            let expected = Expected::from_estimate(&inner.estimate, 0.0);
            let (table, _) = self.add(&lines, &asked, id, expected);
            self.tell(table, table, inner.actual.as_ref().map(|part| figures(&part.actual)));
            self.tell_index(lines.get(1..).unwrap_or_default(), table, step.index.as_ref());
            self.rows[table].obj = obj_of(step, &lines);
        }
    }
}

/// What a step asks of rows.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(super) struct Predicates {
    /// What leads to them.
    pub(super) access: Option<String>,
    /// What they must meet beside that.
    pub(super) filter: Option<String>,
}

impl Predicates {
    /// Those of a statement on a single row.
    pub(super) fn of(direct: &Direct) -> Predicates {
        let Some(row) = direct.row() else { return Predicates::default() };
        let access = key_condition(&row.table, &row.index, &row.key);
        let filter = match row.key_is_all {
            true => None,
            false => condition_beside_key(&row.table, &row.index, &row.key, &row.filter),
        };
        Predicates { access: Some(access), filter }
    }
}

pub(super) fn predicates(step: &Step) -> Predicates {
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
