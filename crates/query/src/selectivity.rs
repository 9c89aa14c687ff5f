//! Which part of a table's rows a condition keeps, by what `ANALYZE` has found out.
//!
//! What it promises: between 0 and 1; PostgreSQL's rules where it has some. A condition on one
//! column of a kind that has no rule of its own is tried on the values that are known. What it must
//! never do: fail, whatever a condition does with those values.

use crate::cast::{CastMode, cast, to_f64};
use crate::estimate::ITEMS;
use crate::scalar::{CmpOp, EvalContext, Scalar, item_count, item_values};
use crate::scan::column_seen;
use crate::wire::FormatEnv;
use kernel::dict::{ColumnStats, TableDef};
use kernel::row::{ColType, Datum, RowView, TypeKind, Value, encode_key, encode_row};

/// Part of the rows between two bounds of which nothing more is known.
const BETWEEN: f64 = 0.005;
/// Part of the rows on one side of such a bound.
const ONE_SIDED: f64 = 1.0 / 3.0;
/// Items of a list that are looked at.
const ITEMS_MAX: usize = 1_000;
/// Values of a histogram below which what they say of a condition is not taken alone.
const HISTOGRAM_MIN: usize = 10;

/// A table's statistics as conditions on it are judged by them.
pub(crate) struct Judge<'a> {
    table: &'a TableDef,
    stats: &'a kernel::dict::TableStats,
    /// Rows of the table now.
    rows: f64,
    /// What parameters are in the first execution. Ranges are judged by it: what is equal to a
    /// value is judged for any.
    peeked: &'a [Value],
    /// Expressions that count as columns behind the table's.
    behind: &'a [(ColType, Option<ColumnStats>)],
}

/// Distinct values of a column of a table with that many rows.
pub(crate) fn distinct(stats: &ColumnStats, rows: f64) -> f64 {
    let distinct = if stats.distinct < 0.0 { -stats.distinct * rows } else { stats.distinct };
    distinct.max(1.0)
}

/// Bounds of one column, as values or as something not known before execution.
#[derive(Default)]
struct Bounds<'a> {
    lower: Option<(&'a Scalar, bool)>,
    upper: Option<(&'a Scalar, bool)>,
}

impl<'a> Judge<'a> {
    pub(crate) fn new(
        table: &'a TableDef,
        stats: &'a kernel::dict::TableStats,
        rows: f64,
        peeked: &'a [Value],
    ) -> Judge<'a> {
        Judge { table, stats, rows, peeked, behind: &[] }
    }

    /// The same with expressions that count as columns behind the table's.
    pub(crate) fn behind(self, behind: &'a [(ColType, Option<ColumnStats>)]) -> Judge<'a> {
        Judge { behind, ..self }
    }

    fn column(&self, position: usize) -> Option<&'a ColumnStats> {
        match position.checked_sub(self.table.columns.len()) {
            None => self.stats.column(position),
            Some(at) => self.behind.get(at)?.1.as_ref(),
        }
    }

    fn ty(&self, position: usize) -> Option<ColType> {
        match position.checked_sub(self.table.columns.len()) {
            None => Some(self.table.columns[position].ty),
            Some(at) => self.behind.get(at).map(|(ty, _)| *ty),
        }
    }

    /// Whether bounds of this column are looked at together.
    fn has_range(&self, position: usize) -> bool {
        position >= self.table.columns.len() || self.column(position).is_some()
    }

    /// Part of the rows that all the conditions keep; `unknown` judges those that statistics say
    /// nothing about.
    pub(crate) fn part(&self, all: &[&Scalar], unknown: &dyn Fn(&Scalar) -> f64) -> f64 {
        let mut bounds: Vec<(usize, Bounds<'_>)> = Vec::new();
        let mut part = 1.0;
        for one in all {
            match column_condition(one) {
                Some((column, op @ (CmpOp::Lt | CmpOp::Le | CmpOp::Gt | CmpOp::Ge), other))
                    if self.has_range(column) =>
                {
                    let at = bounds.iter().position(|(known, _)| *known == column);
                    let at = at.unwrap_or_else(|| {
                        bounds.push((column, Bounds::default()));
                        bounds.len() - 1
                    });
                    let inclusive = matches!(op, CmpOp::Le | CmpOp::Ge);
                    let side = match op {
                        CmpOp::Lt | CmpOp::Le => &mut bounds[at].1.upper,
                        _ => &mut bounds[at].1.lower,
                    };
                    *side = Some((other, inclusive));
                }
                _ => part *= self.one(one, unknown),
            }
        }
        for (column, bounds) in bounds {
            part *= match self.column(column) {
                Some(stats) => self.range(column, stats, &bounds),
                None if bounds.lower.is_some() && bounds.upper.is_some() => BETWEEN,
                None => ONE_SIDED,
            };
        }
        part.clamp(0.0, 1.0)
    }

    fn one(&self, condition: &Scalar, unknown: &dyn Fn(&Scalar) -> f64) -> f64 {
        let part = match condition {
            Scalar::And(_) => {
                let mut conjuncts = Vec::new();
                condition.conjuncts(&mut conjuncts);
                return self.part(&conjuncts, unknown);
            }
            Scalar::Or(sides) => {
                let a = self.part(&[&sides.0], unknown);
                let b = self.part(&[&sides.1], unknown);
                return a + b - a * b;
            }
            Scalar::Not(inner) => self.negated(inner, unknown),
            Scalar::IsNull(inner) => match **inner {
                Scalar::Column(column) => self.column(column).map(|stats| stats.null_fraction),
                _ => None,
            },
            Scalar::In(value, list) => match **value {
                Scalar::Column(column) => self.column(column).map(|stats| {
                    let part = self.among(column, stats, list);
                    part.min(1.0 - stats.null_fraction)
                }),
                _ => self.tried(condition),
            },
            Scalar::Compare(..) => match column_condition(condition) {
                Some((column, op, other)) => self.column(column).map(|stats| match op {
                    CmpOp::Eq => self.equal(column, stats, other),
                    CmpOp::Ne => 1.0 - stats.null_fraction - self.equal(column, stats, other),
                    _ => ONE_SIDED,
                }),
                None => self.tried(condition),
            },
            _ => self.tried(condition),
        };
        part.map_or_else(|| unknown(condition), |part| part.clamp(0.0, 1.0))
    }

    fn negated(&self, inner: &Scalar, unknown: &dyn Fn(&Scalar) -> f64) -> Option<f64> {
        let column = only_column(inner)?;
        let stats = self.column(column)?;
        if let Scalar::IsNull(_) = inner {
            return Some(1.0 - stats.null_fraction);
        }
        Some(1.0 - self.one(inner, unknown) - stats.null_fraction)
    }

    /// Part of the rows with one of these in the column.
    fn among(&self, position: usize, stats: &ColumnStats, list: &[Scalar]) -> f64 {
        let env = FormatEnv::plain();
        let cx = EvalContext { row: None, params: &[], env: &env };
        let each = |one: &Scalar| match item_values(std::slice::from_ref(one), &cx) {
            // Of a long list the first ones speak for all.
            Some(items) => {
                let (looked, all) = (items.len().min(ITEMS_MAX), items.len());
                let items = items.into_iter().take(looked).map(Scalar::Const);
                let sum: f64 = items.map(|item| self.equal(position, stats, &item)).sum();
                #[allow(clippy::cast_precision_loss)] // a guess
                let scale = all as f64 / looked.max(1) as f64;
                sum * scale
            }
            #[allow(clippy::cast_precision_loss)] // a guess
            None => {
                let items = item_count(std::slice::from_ref(one), ITEMS) as f64;
                self.equal(position, stats, one) * items
            }
        };
        list.iter().map(each).sum()
    }

    /// Part of the rows with that value in the column.
    fn equal(&self, position: usize, stats: &ColumnStats, other: &Scalar) -> f64 {
        let there = 1.0 - stats.null_fraction;
        let distinct = distinct(stats, self.rows);
        let known = self.ty(position).and_then(|ty| known_value(other, ty, &[]));
        let Some(value) = known else {
            // A value to come: any of them.
            return there / distinct;
        };
        let Some(key) = key_of(&value) else { return 0.0 };
        let found = stats.common.iter().find(|(common, _)| key_of(common).as_ref() == Some(&key));
        if let Some((_, part)) = found {
            return *part;
        }
        let common: f64 = stats.common.iter().map(|(_, part)| part).sum();
        #[allow(clippy::cast_precision_loss)] // a short list
        let others = (distinct - stats.common.len() as f64).max(1.0);
        let part = ((there - common).max(0.0)) / others;
        // None of them is more common than the least common of those that are told.
        let least = stats.common.last().map_or(1.0, |(_, part)| *part);
        part.min(least).max(0.5 / self.rows.max(1.0)).min(1.0)
    }

    fn range(&self, position: usize, stats: &ColumnStats, bounds: &Bounds<'_>) -> f64 {
        let ty = self.ty(position);
        let there = 1.0 - stats.null_fraction;
        let known = |scalar: &Scalar| known_value(scalar, ty?, self.peeked);
        let value = |bound: Option<(&Scalar, bool)>| {
            bound.map(|(scalar, inclusive)| (known(scalar), inclusive))
        };
        let below = |bound: (Option<Value>, bool), or_equal: bool| match bound.0 {
            Some(value) => self.below(stats, &value, or_equal),
            None => None,
        };
        let (lower, upper) = (value(bounds.lower), value(bounds.upper));
        let part = match (lower, upper) {
            (Some(lower), Some(upper)) => {
                let (from_inclusive, to_inclusive) = (lower.1, upper.1);
                match (below(lower, !from_inclusive), below(upper, to_inclusive)) {
                    (Some(from), Some(to)) => to - from,
                    _ => BETWEEN * there,
                }
            }
            (Some(lower), None) => {
                let inclusive = lower.1;
                below(lower, !inclusive).map_or(ONE_SIDED * there, |below| there - below)
            }
            (None, Some(upper)) => {
                let inclusive = upper.1;
                below(upper, inclusive).unwrap_or(ONE_SIDED * there)
            }
            (None, None) => there,
        };
        part.max(0.5 / self.rows.max(1.0)).min(there.max(0.0))
    }

    /// Part of the rows below a value, or equal to it.
    fn below(&self, stats: &ColumnStats, value: &Value, or_equal: bool) -> Option<f64> {
        if stats.common.is_empty() && stats.histogram.is_empty() {
            return None;
        }
        let key = key_of(value)?;
        let told = |common: &Value| {
            key_of(common).is_some_and(|one| one < key || (or_equal && one == key))
        };
        let (mut part, mut common) = (0.0, 0.0);
        for (value, frequency) in &stats.common {
            common += frequency;
            if told(value) {
                part += frequency;
            }
        }
        let rest = (1.0 - stats.null_fraction - common).max(0.0);
        Some(part + rest * histogram_below(&stats.histogram, value, &key).unwrap_or(0.5))
    }

    /// Part of the rows that a condition on one column keeps, as it does with the values known.
    #[allow(clippy::cast_precision_loss)] // short lists
    fn tried(&self, condition: &Scalar) -> Option<f64> {
        let column = only_column(condition).filter(|at| *at < self.table.columns.len())?;
        let stats = self.column(column)?;
        let env = FormatEnv::plain();
        let mut bytes = Vec::new();
        let mut keeps = |value: &Value| -> Option<bool> {
            let mut row: Vec<Datum<'_>> = vec![Datum::Null; self.table.columns.len()];
            row[column] = value.as_datum();
            bytes.clear();
            encode_row(&self.table.types, &row, &mut bytes);
            let row = Some(RowView::new(&self.table.types, &bytes));
            let cx = EvalContext { row, params: &[], env: &env };
            Some(condition.truth(&cx).ok()? == Some(true))
        };
        let (mut part, mut common) = (0.0, 0.0);
        for (value, frequency) in &stats.common {
            common += frequency;
            if keeps(value)? {
                part += frequency;
            }
        }
        let rest = (1.0 - stats.null_fraction - common).max(0.0);
        let of_rest = if stats.histogram.len() >= HISTOGRAM_MIN {
            let mut kept = 0usize;
            for value in &stats.histogram {
                kept += usize::from(keeps(value)?);
            }
            let all = stats.histogram.len() as f64;
            // What none of them meets may yet be met by others.
            (kept as f64 / all).clamp(0.2 / all, 1.0 - 0.2 / all)
        } else if stats.histogram.is_empty() && !stats.common.is_empty() {
            part / common.max(f64::MIN_POSITIVE)
        } else {
            return None;
        };
        Some(part + rest * of_rest)
    }
}

/// The column that is compared, how, and with what.
pub(crate) fn column_condition(condition: &Scalar) -> Option<(usize, CmpOp, &Scalar)> {
    let Scalar::Compare(op, sides) = condition else { return None };
    match (column_seen(&sides.0), column_seen(&sides.1)) {
        (Some(i), _) if sides.1.is_row_free() => Some((i, *op, &sides.1)),
        (_, Some(i)) if sides.0.is_row_free() => Some((i, op.flipped(), &sides.0)),
        _ => None,
    }
}

/// The one column that a condition speaks of.
fn only_column(condition: &Scalar) -> Option<usize> {
    let (mut found, mut several) = (None, false);
    condition.walk(&mut |part| {
        if let Scalar::Column(column) = part {
            several |= found.is_some_and(|known| known != *column);
            found = Some(*column);
        }
    });
    found.filter(|_| !several)
}

/// The value in the column's type, if it is known now.
fn known_value(scalar: &Scalar, ty: ColType, params: &[Value]) -> Option<Value> {
    let env = FormatEnv::plain();
    let cx = EvalContext { row: None, params, env: &env };
    let value = scalar.eval(&cx).ok()?.into_value();
    if value.is_null() {
        return Some(Value::Null);
    }
    cast(&value.as_datum(), ty.without_limit(), CastMode::Explicit, &env).ok()
}

/// What values compare by; `None` for NULL.
fn key_of(value: &Value) -> Option<Vec<u8>> {
    if value.is_null() {
        return None;
    }
    let mut key = Vec::new();
    encode_key(&[value.as_datum()], &mut key);
    Some(key)
}

/// Part of a histogram's values below a value.
#[allow(clippy::cast_precision_loss)] // short lists
fn histogram_below(bounds: &[Value], value: &Value, key: &[u8]) -> Option<f64> {
    if bounds.len() < 2 {
        return None;
    }
    let keys: Vec<Vec<u8>> = bounds.iter().map(|bound| key_of(bound).unwrap_or_default()).collect();
    let above = keys.partition_point(|bound| bound.as_slice() <= key);
    if above == 0 {
        return Some(0.0);
    }
    if above == keys.len() {
        return Some(1.0);
    }
    let (low, high) = (above - 1, above);
    let within = match (number(&bounds[low]), number(&bounds[high]), number(value)) {
        (Some(low), Some(high), Some(value)) if high > low => (value - low) / (high - low),
        (Some(_), ..) => 0.5,
        _ => between_keys(&keys[low], &keys[high], key),
    };
    Some((low as f64 + within.clamp(0.0, 1.0)) / (keys.len() - 1) as f64)
}

fn number(value: &Value) -> Option<f64> {
    let datum = value.as_datum();
    match datum {
        Datum::Int2(_) | Datum::Int4(_) | Datum::Int8(_) | Datum::Float4(_) | Datum::Float8(_) => {
            to_f64(&datum).ok()
        }
        _ if crate::cast::kind_of(&datum) == Some(TypeKind::Numeric) => to_f64(&datum).ok(),
        _ => None,
    }
}

/// Where a key is between two others, by the first bytes in which they differ.
#[allow(clippy::cast_precision_loss)] // a guess
fn between_keys(low: &[u8], high: &[u8], key: &[u8]) -> f64 {
    let same = low.iter().zip(high).take_while(|(a, b)| a == b).count();
    let number = |key: &[u8]| {
        let mut bytes = [0; 8];
        let rest = key.get(same..).unwrap_or_default();
        let count = rest.len().min(8);
        bytes[..count].copy_from_slice(&rest[..count]);
        u64::from_be_bytes(bytes) as f64
    };
    let (low, high) = (number(low), number(high));
    if high > low { (number(key) - low) / (high - low) } else { 0.5 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;
    use kernel::dict::TableStats;

    const ROWS: i32 = 10_000;

    /// A table of a unique column, one of four values, one of which a half is one value, one that
    /// is NULL but for each tenth row, one that is all NULL, and one of texts.
    fn table() -> (TableDef, TableStats) {
        let kinds = [
            ("id", TypeKind::Int4),
            ("few", TypeKind::Int4),
            ("skewed", TypeKind::Int4),
            ("thin", TypeKind::Int4),
            ("nothing", TypeKind::Int4),
            ("name", TypeKind::Text),
        ];
        let def = testing::table(&kinds, vec![]);
        let value = |column: usize, i: i32| match column {
            0 => Value::Int4(i),
            1 => Value::Int4(i % 4),
            2 => Value::Int4(if i % 2 == 0 { 7 } else { i }),
            3 if i % 10 == 0 => Value::Int4(i),
            3 | 4 => Value::Null,
            _ => Value::Text(format!("{}{i:05}", if i % 5 == 0 { "ab" } else { "x" }).into()),
        };
        let stats = testing::known(&def, ROWS, value);
        (def, stats)
    }

    fn rows(conditions: &[Scalar]) -> f64 {
        let (def, stats) = table();
        let judge = Judge::new(&def, &stats, f64::from(ROWS), &[]);
        let all: Vec<&Scalar> = conditions.iter().collect();
        judge.part(&all, &|_| 0.5) * f64::from(ROWS)
    }

    fn compared(column: usize, op: CmpOp, value: i32) -> Scalar {
        Scalar::compare(op, Scalar::Column(column), Scalar::Const(Value::Int4(value)))
    }

    fn like(pattern: &str) -> Scalar {
        let sides = (Scalar::Column(5), Scalar::Const(Value::Text(pattern.into())));
        Scalar::Like(Box::new(sides), false)
    }

    fn near(found: f64, right: f64) {
        assert!((found - right).abs() <= right * 0.15 + 2.0, "{found} instead of {right}");
    }

    #[test]
    fn values_that_are_equal() {
        near(rows(&[compared(0, CmpOp::Eq, 77)]), 1.0);
        near(rows(&[compared(1, CmpOp::Eq, 2)]), 2_500.0);
        near(rows(&[compared(1, CmpOp::Ne, 2)]), 7_500.0);
        near(rows(&[compared(2, CmpOp::Eq, 7)]), 5_001.0);
        near(rows(&[compared(2, CmpOp::Eq, 13)]), 1.0);
        near(rows(&[compared(3, CmpOp::Eq, 50)]), 1.0);
        near(rows(&[compared(4, CmpOp::Eq, 1)]), 0.0);
        // Whatever it will be.
        let later = Scalar::compare(CmpOp::Eq, Scalar::Column(1), Scalar::Param(0));
        near(rows(&[later]), 2_500.0);
    }

    #[test]
    fn ranges_are_judged_by_the_first_values_of_parameters() {
        let (def, stats) = table();
        let condition = Scalar::compare(CmpOp::Lt, Scalar::Column(0), Scalar::Param(1));
        let found = |peeked: &[Value]| {
            let judge = Judge::new(&def, &stats, f64::from(ROWS), peeked);
            judge.part(&[&condition], &|_| 0.5) * f64::from(ROWS)
        };
        near(found(&[Value::Null, Value::Int4(1_000)]), 1_000.0);
        for unknown in [&[][..], &[Value::Null, Value::Null]] {
            near(found(unknown), ONE_SIDED * f64::from(ROWS));
        }
    }

    #[test]
    fn ranges_with_one_end_and_with_two() {
        near(rows(&[compared(0, CmpOp::Lt, 1_000)]), 1_000.0);
        near(rows(&[compared(0, CmpOp::Ge, 9_000)]), 1_000.0);
        near(rows(&[compared(0, CmpOp::Ge, 2_000), compared(0, CmpOp::Lt, 2_500)]), 500.0);
        near(rows(&[compared(0, CmpOp::Gt, 20_000)]), 0.5);
        near(rows(&[compared(1, CmpOp::Le, 1)]), 5_000.0);
        near(rows(&[compared(2, CmpOp::Gt, 7)]), 4_996.0);
        near(rows(&[compared(3, CmpOp::Lt, 5_000)]), 500.0);
    }

    #[test]
    fn lists_nulls_and_what_is_not() {
        let list = vec![Scalar::Const(Value::Int4(1)), Scalar::Const(Value::Int4(3))];
        let listed = Scalar::In(Box::new(Scalar::Column(1)), list);
        near(rows(std::slice::from_ref(&listed)), 5_000.0);
        near(rows(&[Scalar::Not(Box::new(listed))]), 5_000.0);
        let null = |column| Scalar::IsNull(Box::new(Scalar::Column(column)));
        near(rows(&[null(3)]), 9_000.0);
        near(rows(&[Scalar::Not(Box::new(null(3)))]), 1_000.0);
        near(rows(&[null(4)]), 10_000.0);
        near(rows(&[null(0)]), 0.0);
    }

    #[test]
    fn patterns_and_conditions_together() {
        near(rows(&[like("ab%")]), 2_000.0);
        near(rows(&[Scalar::Not(Box::new(like("ab%")))]), 8_000.0);
        let both = [compared(1, CmpOp::Eq, 2), compared(0, CmpOp::Lt, 1_000)];
        near(rows(&both), 250.0);
        let either = Scalar::Or(Box::new((both[0].clone(), both[1].clone())));
        near(rows(&[either]), 3_250.0);
    }
}
