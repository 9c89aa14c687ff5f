//! The filters of one run of a scan, made ready for many rows.
//!
//! What it promises: it keeps the rows that the filters keep. What does not depend on the row is
//! worked out once, and what compares a column with it is compared without looking at the
//! expression again. What it must never do: raise an error that no row raises.

use super::Probe;
use crate::error::Result;
use crate::join_keys::KeySet;
use crate::scalar::{CmpOp, EvalContext, Scalar, compare, item_values};
use crate::state::ExecState;
use kernel::row::{
    ColType, Datum, Glance, RowView, TypeKind, Value, glance, stored_integer, stored_numeric,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Filters with the values of one execution in them.
#[derive(Default)]
pub(crate) struct Filter {
    tests: Vec<Test>,
    /// Keys of joins above, those that are known.
    keys: Vec<Keys>,
    /// Conditions of other shapes.
    rest: Vec<Scalar>,
}

/// Keys that a column's value must be among.
struct Keys {
    column: usize,
    offset: i64,
    set: Arc<KeySet>,
    /// Rows looked at and found, of the first ones: keys that nearly all rows have are not worth
    /// being looked for.
    looked: AtomicU32,
    found: AtomicU32,
}

/// Rows after which it is known whether keys are worth being looked for.
const LOOKED_MAX: u32 = 8_192;
/// Of so many found among those they are not.
const FOUND_MAX: u32 = LOOKED_MAX / 10 * 9;

impl Keys {
    #[inline]
    fn holds(&self, row: &RowView<'_>) -> bool {
        let looked = self.looked.load(Ordering::Relaxed);
        if looked >= LOOKED_MAX && self.found.load(Ordering::Relaxed) > FOUND_MAX {
            return true;
        }
        let holds = row
            .raw(self.column)
            .is_some_and(|data| self.set.has(stored_integer(data).saturating_add(self.offset)));
        if looked < LOOKED_MAX {
            // Counted by one, for the most: what several miss is no harm.
            self.looked.store(looked + 1, Ordering::Relaxed);
            let found = self.found.load(Ordering::Relaxed);
            self.found.store(found + u32::from(holds), Ordering::Relaxed);
        }
        holds
    }
}

enum Test {
    /// The condition is false or NULL whatever the row.
    Never,
    /// A column that stores a number in a fixed width, with such a number.
    Integer {
        column: usize,
        op: CmpOp,
        value: i64,
    },
    Integers {
        left: usize,
        op: CmpOp,
        right: usize,
    },
    Numeric {
        column: usize,
        op: CmpOp,
        value: i64,
        scale: u8,
    },
    /// By bytes, as texts compare.
    Text {
        column: usize,
        op: CmpOp,
        value: Box<str>,
    },
    Compare {
        column: usize,
        op: CmpOp,
        value: Value,
    },
    Columns {
        left: usize,
        op: CmpOp,
        right: usize,
    },
    /// The column equals one of these, or, negated, none.
    Among {
        column: usize,
        items: Items,
        negated: bool,
    },
}

/// Values that a column is looked for among: in order, each once, none of them NULL.
enum Items {
    Integers(Vec<i64>),
    Texts(Vec<Box<str>>),
    Others(Vec<Value>),
}

impl Items {
    /// `values`: of the column's family.
    fn new(kind: TypeKind, values: Vec<Value>) -> Items {
        if is_integer(kind)
            && let Some(mut all) = values.iter().map(integer_of).collect::<Option<Vec<_>>>()
        {
            all.sort_unstable();
            all.dedup();
            return Items::Integers(all);
        }
        let text = |value: &Value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        };
        if let Some(mut all) = values.iter().map(text).collect::<Option<Vec<_>>>() {
            all.sort_unstable();
            all.dedup();
            return Items::Texts(all);
        }
        let mut all = values;
        all.sort_by(|a, b| in_family(&a.as_datum(), &b.as_datum()));
        all.dedup_by(|a, b| in_family(&a.as_datum(), &b.as_datum()).is_eq());
        Items::Others(all)
    }

    /// Whether the column's value is one of them; `None` for NULL.
    #[inline]
    fn have(&self, row: &RowView<'_>, column: usize) -> Option<bool> {
        Some(match self {
            Items::Integers(all) => all.binary_search(&stored_integer(row.raw(column)?)).is_ok(),
            Items::Texts(all) => {
                let data = row.raw(column)?;
                all.binary_search_by(|one| one.as_bytes().cmp(data)).is_ok()
            }
            Items::Others(all) => {
                let datum = row.get(column);
                if datum.is_null() {
                    return None;
                }
                all.binary_search_by(|one| in_family(&one.as_datum(), &datum)).is_ok()
            }
        })
    }
}

/// The order of two values of one family, which always compare.
fn in_family(a: &Datum<'_>, b: &Datum<'_>) -> std::cmp::Ordering {
    compare(a, b).ok().flatten().unwrap_or(std::cmp::Ordering::Equal)
}

impl Filter {
    pub(crate) fn new(filters: &[Scalar], types: &[ColType], state: &ExecState) -> Filter {
        let mut filter = Filter::default();
        let mut conjuncts = Vec::new();
        filters.iter().for_each(|one| one.conjuncts(&mut conjuncts));
        for one in conjuncts {
            match test_of(one, types, state) {
                Some(test) => filter.tests.push(test),
                None => filter.rest.push(one.clone()),
            }
        }
        filter
    }

    /// Looks for the keys of joins too, those that are complete.
    pub(crate) fn look_for(&mut self, probes: &[Probe], state: &ExecState) {
        for Probe { number, column, offset } in probes {
            if let Some(set) = state.keys.get(*number) {
                let (looked, found) = (AtomicU32::new(0), AtomicU32::new(0));
                self.keys.push(Keys { column: *column, offset: *offset, set, looked, found });
            }
        }
    }

    /// What drops most rows at a glance.
    pub(crate) fn quick(&self) -> Quick {
        match self.tests.first() {
            Some(Test::Integer { column, op, value }) => {
                Quick::Integer { column: *column, op: *op, value: *value }
            }
            Some(Test::Numeric { column, op: CmpOp::Eq, value, scale }) => {
                // The first byte of the value's shortest form, which is the only one stored.
                let first = value.to_le_bytes()[0];
                Quick::NumericIs { column: *column, scale: *scale, first }
            }
            Some(Test::Numeric { column, op, value, scale }) => {
                Quick::Numeric { column: *column, op: *op, value: *value, scale: *scale }
            }
            _ => Quick::Nothing,
        }
    }

    /// Whether all conditions hold.
    ///
    /// # Errors
    /// Those of the expressions.
    #[inline]
    pub(crate) fn keeps(&self, row: &RowView<'_>, state: &ExecState) -> Result<bool> {
        for test in &self.tests {
            if !test.holds(row)? {
                return Ok(false);
            }
        }
        for keys in &self.keys {
            if !keys.holds(row) {
                return Ok(false);
            }
        }
        if self.rest.is_empty() {
            return Ok(true);
        }
        let cx = EvalContext { row: Some(*row), params: &state.params, env: &state.env };
        for one in &self.rest {
            if one.truth(&cx)? != Some(true) {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The first comparison of a filter, for rows of which nothing else is known yet: a full scan
/// drops most of them by it, and for them nothing is called.
#[derive(Clone, Copy)]
pub(crate) enum Quick {
    Nothing,
    Integer {
        column: usize,
        op: CmpOp,
        value: i64,
    },
    /// Equal to a number of that scale whose stored form begins so.
    NumericIs {
        column: usize,
        scale: u8,
        first: u8,
    },
    Numeric {
        column: usize,
        op: CmpOp,
        value: i64,
        scale: u8,
    },
}

impl Quick {
    /// Whether the comparison is seen not to hold; else the filter is to be asked.
    #[inline(always)]
    pub(crate) fn drops(self, row: &[u8]) -> bool {
        match self {
            Quick::Nothing => false,
            Quick::Integer { column, op, value } => match glance(row, column) {
                Glance::Null => true,
                Glance::Data(data) => !op.holds(stored_integer(data).cmp(&value)),
                Glance::Unknown => false,
            },
            Quick::NumericIs { column, scale, first } => match glance(row, column) {
                Glance::Null => true,
                Glance::Data([of, begins, ..]) => *of == scale && *begins != first,
                Glance::Data(_) | Glance::Unknown => false,
            },
            Quick::Numeric { column, op, value, scale } => match glance(row, column) {
                Glance::Null => true,
                Glance::Data(data) => stored_numeric(data)
                    .is_some_and(|(stored, of)| of == scale && !op.holds(stored.cmp(&value))),
                Glance::Unknown => false,
            },
        }
    }
}

impl Test {
    #[inline]
    fn holds(&self, row: &RowView<'_>) -> Result<bool> {
        let holds = |op: &CmpOp, order: Option<_>| order.is_some_and(|order| op.holds(order));
        Ok(match self {
            Test::Never => false,
            Test::Integer { column, op, value } => {
                holds(op, row.raw(*column).map(|data| stored_integer(data).cmp(value)))
            }
            Test::Integers { left, op, right } => match (row.raw(*left), row.raw(*right)) {
                (Some(a), Some(b)) => op.holds(stored_integer(a).cmp(&stored_integer(b))),
                _ => false,
            },
            Test::Numeric { column, op, value, scale } => match row.raw(*column) {
                None => false,
                Some(data) => match stored_numeric(data) {
                    Some((stored, of)) if of == *scale => op.holds(stored.cmp(value)),
                    _ => {
                        let value = Datum::Numeric(i128::from(*value), *scale);
                        holds(op, compare(&row.get(*column), &value)?)
                    }
                },
            },
            Test::Text { column, op, value } => {
                holds(op, row.raw(*column).map(|data| data.cmp(value.as_bytes())))
            }
            Test::Compare { column, op, value } => {
                holds(op, compare(&row.get(*column), &value.as_datum())?)
            }
            Test::Columns { left, op, right } => {
                holds(op, compare(&row.get(*left), &row.get(*right))?)
            }
            Test::Among { column, items, negated } => {
                items.have(row, *column).is_some_and(|found| found != *negated)
            }
        })
    }
}

/// The test that a condition is, if it is one that cannot fail.
fn test_of(condition: &Scalar, types: &[ColType], state: &ExecState) -> Option<Test> {
    let cx = EvalContext { row: None, params: &state.params, env: &state.env };
    // An error belongs to the first row that is looked at: none, perhaps.
    let fixed = |side: &Scalar| {
        side.is_row_free().then(|| side.eval(&cx).ok().map(crate::scalar::Val::into_value))?
    };
    let alike = |column: usize, value: &Value| family(types[column].kind) == family_of(value);
    match condition {
        Scalar::Compare(op, sides) => {
            let (column, op, other) = match (&sides.0, &sides.1) {
                (Scalar::Column(left), Scalar::Column(right)) => {
                    let kinds = (family(types[*left].kind), family(types[*right].kind));
                    let alike = kinds.0.is_some() && kinds.0 == kinds.1;
                    let (left, op, right) = (*left, *op, *right);
                    return alike.then_some(
                        match is_integer(types[left].kind) && is_integer(types[right].kind) {
                            true => Test::Integers { left, op, right },
                            false => Test::Columns { left, op, right },
                        },
                    );
                }
                (Scalar::Column(column), other) => (*column, *op, other),
                (other, Scalar::Column(column)) => (*column, op.flipped(), other),
                _ => return None,
            };
            match fixed(other)? {
                Value::Null => Some(Test::Never),
                value if family(types[column].kind).is_some() && alike(column, &value) => {
                    Some(comparison(types[column].kind, column, op, value))
                }
                _ => None,
            }
        }
        Scalar::In(value, list) => among(value, list, false, types, &cx),
        Scalar::Not(inner) => match &**inner {
            Scalar::In(value, list) => among(value, list, true, types, &cx),
            _ => None,
        },
        _ => None,
    }
}

/// `IN` a list that can be looked through by order, or its negation.
fn among(
    value: &Scalar,
    list: &[Scalar],
    negated: bool,
    types: &[ColType],
    cx: &EvalContext<'_>,
) -> Option<Test> {
    let Scalar::Column(column) = *value else { return None };
    let mut values = item_values(list, cx)?;
    if negated && values.is_empty() {
        // True whatever the column holds.
        return None;
    }
    let count = values.len();
    values.retain(|value| *value != Value::Null);
    if negated && values.len() < count {
        return Some(Test::Never);
    }
    // Else a NULL in the list makes no row fit that would not without it.
    let of = family(types[column].kind)?;
    let alike = values.iter().all(|value| family_of(value) == Some(of));
    alike.then(|| Test::Among { column, items: Items::new(types[column].kind, values), negated })
}

/// The comparison of a column of that kind with a value that it compares with.
fn comparison(kind: TypeKind, column: usize, op: CmpOp, value: Value) -> Test {
    match (integer_of(&value), value) {
        (Some(value), _) if is_integer(kind) => Test::Integer { column, op, value },
        (_, Value::Text(value)) => Test::Text { column, op, value },
        (_, Value::Numeric(wide, scale)) if kind == TypeKind::Numeric => {
            match i64::try_from(wide) {
                Ok(value) => Test::Numeric { column, op, value, scale },
                Err(_) => Test::Compare { column, op, value: Value::Numeric(wide, scale) },
            }
        }
        (_, value) => Test::Compare { column, op, value },
    }
}

/// A value that is stored as a number of fixed width.
fn integer_of(value: &Value) -> Option<i64> {
    match value {
        Value::Int2(v) => Some(i64::from(*v)),
        Value::Int4(v) | Value::Date(v) => Some(i64::from(*v)),
        Value::Int8(v) | Value::Timestamp(v) | Value::Timestamptz(v) | Value::Time(v) => Some(*v),
        _ => None,
    }
}

/// Whether values of the kind are stored as a number of fixed width by which they compare.
fn is_integer(kind: TypeKind) -> bool {
    matches!(
        kind,
        TypeKind::Int2
            | TypeKind::Int4
            | TypeKind::Int8
            | TypeKind::Date
            | TypeKind::Timestamp
            | TypeKind::Timestamptz
            | TypeKind::Time
    )
}

/// Types that compare with each other, always.
#[derive(Clone, Copy, PartialEq)]
enum Family {
    Numbers,
    Texts,
    Dates,
    Timestamps,
    Timestamptzs,
    Times,
    Uuids,
    Truths,
    Bytes,
    Enums,
}

fn family(kind: TypeKind) -> Option<Family> {
    Some(match kind {
        TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8 | TypeKind::Numeric => Family::Numbers,
        TypeKind::Text | TypeKind::Varchar | TypeKind::Char => Family::Texts,
        TypeKind::Date => Family::Dates,
        TypeKind::Timestamp => Family::Timestamps,
        TypeKind::Timestamptz => Family::Timestamptzs,
        TypeKind::Time => Family::Times,
        TypeKind::Uuid => Family::Uuids,
        TypeKind::Bool => Family::Truths,
        TypeKind::Bytea => Family::Bytes,
        TypeKind::Enum => Family::Enums,
        _ => return None,
    })
}

fn family_of(value: &Value) -> Option<Family> {
    Some(match value {
        Value::Int2(_) | Value::Int4(_) | Value::Int8(_) | Value::Numeric(..) => Family::Numbers,
        Value::Text(_) => Family::Texts,
        Value::Date(_) => Family::Dates,
        Value::Timestamp(_) => Family::Timestamps,
        Value::Timestamptz(_) => Family::Timestamptzs,
        Value::Time(_) => Family::Times,
        Value::Uuid(_) => Family::Uuids,
        Value::Bool(_) => Family::Truths,
        Value::Bytea(_) => Family::Bytes,
        Value::Enum(_) => Family::Enums,
        _ => return None,
    })
}
