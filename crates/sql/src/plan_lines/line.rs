//! The lines that a step of a plan is to the field.
//!
//! What it promises: their words are those of the table of operators. What it must never do: tell
//! steps apart by the text that EXPLAIN shows.

use super::bitmaps;
use query::explain::{Inner, Object, Operation, Operator, Step};

/// What the reading of a bitmap index is called.
pub(super) const BITMAP_INDEX: &str = "BITMAP INDEX";

/// A line of a plan: an operation, its option, and what it is of; the last two may be empty.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Line {
    pub(super) name: &'static str,
    pub(super) option: &'static str,
    pub(super) object: String,
}

impl Line {
    pub(super) fn new(name: &'static str, option: &'static str, object: &str) -> Line {
        Line { name, option, object: object.to_uppercase() }
    }
}

/// An operator's lines.
pub(super) fn lines_for(operator: Operator, table: &str, index: &str) -> Vec<Line> {
    let line = |operation: Operation| {
        let object = match operation.object {
            Object::None => "",
            Object::Table => table,
            Object::Index => index,
        };
        Line::new(operation.name, operation.option, object)
    };
    operator.operations().into_iter().map(line).collect()
}

/// The lines of a step. Of a join by index they are those of the join, without its inner side, and
/// of what goes by bitmaps those without the bitmaps.
pub(super) fn lines_of(step: &Step) -> Vec<Line> {
    if let Some(line) = bitmaps::keys_of(step) {
        return vec![line];
    }
    let table = step.names.as_ref().map_or("", |names| &names.table);
    let index = step.names.as_ref().and_then(|names| names.index.as_deref());
    lines_for(step.operator, table, index.unwrap_or_default())
}

/// The number of what the lines of a step are of; 0: they are of nothing.
pub(super) fn obj_of(step: &Step, lines: &[Line]) -> u32 {
    let reads = lines.iter().any(|line| !line.object.is_empty());
    step.names.as_ref().filter(|_| reads).map_or(0, |names| names.obj)
}

/// The lines of the inner side of a join by index: the table's, and those of the index.
pub(super) fn inner_lines(step: &Step, inner: &Inner) -> Option<Vec<Line>> {
    let names = step.names.as_ref()?;
    let (table, index) = (&*names.table, names.index.as_deref()?);
    Some(match inner {
        Inner { bitmap: true, .. } => {
            let mut lines = lines_for(Operator::BitmapScan, table, index);
            lines.extend(bitmaps::rows_of_key(index));
            lines
        }
        Inner { unique: true, .. } => lines_for(Operator::IndexUniqueScan, table, index),
        _ => lines_for(Operator::IndexRangeScan { backward: false }, table, index),
    })
}
