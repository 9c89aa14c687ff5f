//! Conditions on several indexed columns, at least one with a bitmap index: each index gives the
//! set of its rows, and the sets are intersected, united or taken away from each other before any
//! row is read.
//!
//! What it promises: the set has every row that the filters keep; where every value compared is
//! such that keys compare as it does, it has no row beside those that the conditions named by it
//! keep. What it must never do: hold more than a fixed number of rows; who would need more reads
//! the table instead.

use super::access::compared;
use super::run::{KeyValue, is_exact, key_value};
use super::{BIT_ROWS, ENTRY_ROWS, LOOKUP_ROWS, SMALL_ROWS, ScanWork};
use crate::error::Result;
use crate::estimate::rows_kept;
use crate::explain::{PartBegun, SharedActual};
use crate::scalar::{CmpOp, EvalContext, Scalar};
use crate::scan::Access;
use crate::state::ExecState;
use crate::store::{self, RowSet};
use futures::future::BoxFuture;
use kernel::dict::{IndexDef, IndexKind, TableDef};
use kernel::row::{Datum, TypeKind, Value, key_values_begin, key_values_end};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Rows of one set at the most: some bytes each where they are rare.
const ROWS_MAX: u64 = 1 << 23;
/// Conditions that are brought together at the most.
const PARTS_MAX: usize = 16;

/// A set of rows, as indexes give it.
#[derive(Clone, Debug)]
pub enum Bits {
    /// Rows whose first column of the index compares so with a value.
    One {
        index: Arc<IndexDef>,
        op: CmpOp,
        value: Scalar,
    },
    /// Rows that have no value there.
    Null(Arc<IndexDef>),
    /// Rows that have one.
    Given(Arc<IndexDef>),
    All(Vec<Bits>),
    Any(Vec<Bits>),
    /// The rows of the first that are in none of the others.
    Minus(Box<Bits>, Vec<Bits>),
}

/// What the filters of a scan come to.
#[derive(Clone, Debug)]
pub struct BitsAccess {
    pub(crate) bits: Bits,
    /// Filters that it does not say.
    pub(crate) rest: Vec<Scalar>,
}

/// The index whose first column this is, a bitmap index if there is one.
fn index_of(table: &TableDef, column: usize) -> Option<&Arc<IndexDef>> {
    let leads = |index: &&Arc<IndexDef>| {
        index.columns.first() == u16::try_from(column).ok().as_ref()
            && index.kind != IndexKind::Reverse
    };
    let bitmap = |index: &&Arc<IndexDef>| index.kind == IndexKind::Bitmap;
    let all = || table.indexes.iter().filter(leads);
    all().find(bitmap).or_else(|| all().next())
}

/// Whether keys of the column compare as its values do, whatever it is compared with as a rule.
fn is_plain(table: &TableDef, column: usize) -> bool {
    use TypeKind::{
        Bool, Date, Enum, Int2, Int4, Int8, Numeric, Text, Timestamp, Timestamptz, Uuid, Varchar,
    };
    let kind = table.columns.get(column).map(|column| column.ty.kind);
    matches!(
        kind,
        Some(
            Bool | Int2
                | Int4
                | Int8
                | Numeric
                | Text
                | Varchar
                | Date
                | Timestamp
                | Timestamptz
                | Uuid
                | Enum
        )
    )
}

/// The index of a column that a condition says to have a value, and nothing else.
fn given<'a>(table: &'a TableDef, condition: &Scalar) -> Option<&'a Arc<IndexDef>> {
    let Scalar::Not(inner) = condition else { return None };
    let Scalar::IsNull(value) = &**inner else { return None };
    let Scalar::Column(column) = **value else { return None };
    index_of(table, column)
}

/// The set that a condition keeps.
fn kept(table: &TableDef, condition: &Scalar) -> Option<Bits> {
    let one = |column: usize, op: CmpOp, value: &Scalar| {
        Some(Bits::One { index: index_of(table, column)?.clone(), op, value: value.clone() })
    };
    match condition {
        Scalar::Column(column) => one(*column, CmpOp::Eq, &Scalar::Const(Value::Bool(true))),
        Scalar::Not(inner) => match **inner {
            Scalar::Column(column) => one(column, CmpOp::Eq, &Scalar::Const(Value::Bool(false))),
            _ => given(table, condition).map(|index| Bits::Given(index.clone())),
        },
        Scalar::Compare(op, sides) if *op != CmpOp::Ne => {
            let (column, op, other) = compared(*op, sides, &table.types)?;
            if other.is_row_free() { one(column, op, other) } else { None }
        }
        Scalar::In(value, list) => {
            let Scalar::Column(column) = **value else { return None };
            let plain = |item: &Scalar| item.is_row_free() && !matches!(item, Scalar::Each(_));
            if list.is_empty() || list.len() > PARTS_MAX || !list.iter().all(plain) {
                return None;
            }
            let all = list.iter().map(|item| one(column, CmpOp::Eq, item));
            all.collect::<Option<_>>().map(Bits::Any)
        }
        Scalar::IsNull(value) => match **value {
            Scalar::Column(column) => Some(Bits::Null(index_of(table, column)?.clone())),
            _ => None,
        },
        Scalar::Or(sides) => Some(Bits::Any(vec![kept(table, &sides.0)?, kept(table, &sides.1)?])),
        Scalar::And(sides) => Some(Bits::All(vec![kept(table, &sides.0)?, kept(table, &sides.1)?])),
        _ => None,
    }
}

/// The sets of which a condition keeps no row, and all others.
fn dropped(table: &TableDef, condition: &Scalar) -> Option<Vec<Bits>> {
    // A set that may have others beside those meant would take none away.
    let unknown = |column: usize| {
        let index = is_plain(table, column).then(|| index_of(table, column))??;
        Some(Bits::Null(index.clone()))
    };
    match condition {
        Scalar::Compare(CmpOp::Ne, sides) => {
            let (column, other) = match (&sides.0, &sides.1) {
                (Scalar::Column(column), other) | (other, Scalar::Column(column)) => {
                    (*column, other)
                }
                _ => return None,
            };
            let equal =
                Scalar::Compare(CmpOp::Eq, Box::new((Scalar::Column(column), other.clone())));
            Some(vec![kept(table, &equal)?, unknown(column)?])
        }
        Scalar::Not(inner) => match &**inner {
            Scalar::In(value, _) => {
                let Scalar::Column(column) = **value else { return None };
                Some(vec![kept(table, inner)?, unknown(column)?])
            }
            Scalar::Compare(CmpOp::Eq, sides) => {
                let ne = Scalar::Compare(CmpOp::Ne, sides.clone());
                dropped(table, &ne)
            }
            _ => None,
        },
        _ => None,
    }
}

impl Bits {
    fn each(&self, visit: &mut impl FnMut(&Arc<IndexDef>)) {
        match self {
            Bits::One { index, .. } | Bits::Null(index) | Bits::Given(index) => visit(index),
            Bits::All(parts) | Bits::Any(parts) => parts.iter().for_each(|part| part.each(visit)),
            Bits::Minus(base, parts) => {
                base.each(visit);
                parts.iter().for_each(|part| part.each(visit));
            }
        }
    }

    /// How many sets of indexes it has.
    pub(super) fn indexes(&self) -> usize {
        let mut count = 0;
        self.each(&mut |_| count += 1);
        count
    }

    fn has_bitmap(&self) -> bool {
        let mut has = false;
        self.each(&mut |index| has |= index.kind == IndexKind::Bitmap);
        has
    }

    /// Whether all of it comes from bitmap indexes.
    fn is_of_bitmaps(&self) -> bool {
        let mut all = true;
        self.each(&mut |index| all &= index.kind == IndexKind::Bitmap);
        all
    }

    /// Whether it begins with the rows that have a value in that index, and has no others.
    fn begins_with(&self, index: &IndexDef) -> bool {
        match self {
            Bits::Given(of) => of.obj == index.obj,
            Bits::All(parts) => parts.iter().any(|part| part.begins_with(index)),
            Bits::Minus(base, _) => base.begins_with(index),
            Bits::One { .. } | Bits::Null(_) | Bits::Any(_) => false,
        }
    }

    /// Whether a value that it compares with is NULL.
    fn compares_null(&self, state: &ExecState) -> Result<bool> {
        match self {
            Bits::One { value, .. } => {
                let cx = EvalContext { row: None, params: &state.params, env: &state.env };
                Ok(value.eval(&cx)?.datum().is_null())
            }
            Bits::Null(_) | Bits::Given(_) => Ok(false),
            Bits::All(parts) | Bits::Any(parts) => {
                for part in parts {
                    if part.compares_null(state)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Bits::Minus(base, _) => base.compares_null(state),
        }
    }

    /// Takes its own out of the places where sets tell what they took, of which there may be none.
    fn own<'a>(&self, told: &mut &'a [SharedActual]) -> &'a [SharedActual] {
        let (own, others) = told.split_at(self.indexes().min(told.len()));
        *told = others;
        own
    }

    /// The rows of the set, and whether it has no others; `None`: too many. `told`: where each
    /// index tells what reading it took, one after the other; none if nobody watches.
    pub(super) fn read<'a>(
        &'a self,
        work: &'a ScanWork,
        state: &'a ExecState,
        told: &'a [SharedActual],
    ) -> BoxFuture<'a, Result<Option<(RowSet, bool)>>> {
        env::boxed!(async move {
            let (part, mut left) = (told.first(), told);
            match self {
                Bits::One { index, op, value } => one(work, (state, part), index, *op, value).await,
                Bits::Null(index) => without_value((state, part), index).await,
                Bits::Given(index) => with_value((state, part), index).await,
                Bits::All(parts) => {
                    let mut all: Option<(RowSet, bool)> = None;
                    let mut whole = true;
                    for part in parts {
                        let own = part.own(&mut left);
                        let Some((rows, exact)) = part.read(work, state, own).await? else {
                            // The others may be few all the same.
                            whole = false;
                            continue;
                        };
                        all = Some(match all {
                            None => (rows, exact),
                            Some((before, so_far)) => (before & rows, so_far && exact),
                        });
                        if all.as_ref().is_some_and(|(rows, _)| rows.is_empty()) {
                            break;
                        }
                    }
                    Ok(all.map(|(rows, exact)| (rows, exact && whole)))
                }
                Bits::Any(parts) => {
                    let (mut all, mut all_exact) = (RowSet::new(), true);
                    for part in parts {
                        let own = part.own(&mut left);
                        let Some((rows, exact)) = part.read(work, state, own).await? else {
                            return Ok(None);
                        };
                        all |= rows;
                        all_exact &= exact;
                        if all.len() > ROWS_MAX {
                            return Ok(None);
                        }
                    }
                    Ok(Some((all, all_exact)))
                }
                Bits::Minus(base, parts) => {
                    let own = base.own(&mut left);
                    let Some((mut rows, mut all_exact)) = base.read(work, state, own).await? else {
                        return Ok(None);
                    };
                    for part in parts {
                        // Nothing is known to differ from NULL.
                        if part.compares_null(state)? {
                            return Ok(Some((RowSet::new(), true)));
                        }
                    }
                    for part in parts {
                        if rows.is_empty() {
                            break;
                        }
                        match part.read(work, state, part.own(&mut left)).await? {
                            Some((gone, true)) => rows -= gone,
                            // Too large, or it may have others beside those meant.
                            _ => all_exact = false,
                        }
                    }
                    Ok(Some((rows, all_exact)))
                }
            }
        })
    }
}

/// Where the keys of values begin and end: where NULLs stand, first or last, no value does.
fn all_values() -> (Vec<u8>, Vec<u8>) {
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    key_values_begin(&mut begin);
    key_values_end(&mut end);
    (begin, end)
}

/// What a set is read with, and where it is told what that took, if somebody watches.
type Watched<'a> = (&'a ExecState, Option<&'a SharedActual>);

async fn without_value(state: Watched<'_>, index: &IndexDef) -> Result<Option<(RowSet, bool)>> {
    let mut null = Vec::new();
    index.encode(0, &Datum::Null, &mut null);
    let bounds = (Bound::Included(&*null), Bound::Included(&*null));
    Ok(range(state, index, bounds).await?.map(|rows| (rows, true)))
}

async fn with_value(state: Watched<'_>, index: &IndexDef) -> Result<Option<(RowSet, bool)>> {
    let (first, last) = all_values();
    let bounds = (Bound::Included(&*first), Bound::Excluded(&*last));
    Ok(range(state, index, bounds).await?.map(|rows| (rows, true)))
}

async fn one(
    work: &ScanWork,
    watched: Watched<'_>,
    index: &IndexDef,
    op: CmpOp,
    value: &Scalar,
) -> Result<Option<(RowSet, bool)>> {
    let (state, _) = watched;
    let cx = EvalContext { row: None, params: &state.params, env: &state.env };
    let Some(column) = index.columns.first() else { return Ok(None) };
    let ty = index.part_type(&work.table, *column);
    let value = value.eval(&cx)?;
    let exact = is_exact(&value.datum(), ty);
    let (begin, end) = all_values();
    let (first, last) = (Bound::Included(&*begin), Bound::Excluded(&*end));
    let mut key = Vec::new();
    match key_value(&value.datum(), ty, state)? {
        KeyValue::Value(value) => index.encode(0, &value.as_datum(), &mut key),
        // A value that the column cannot have: all or none, which is left to the filters.
        KeyValue::None if op != CmpOp::Eq => {
            return Ok(range(watched, index, (first, last)).await?.map(|rows| (rows, false)));
        }
        KeyValue::Null | KeyValue::None => return Ok(Some((RowSet::new(), true))),
    };
    let key = &*key;
    // Keys that only nearly compare as values do have their bound in the range.
    let strict = if exact { Bound::Excluded(key) } else { Bound::Included(key) };
    let (low, high) = match op {
        CmpOp::Eq => (Some(Bound::Included(key)), Some(Bound::Included(key))),
        CmpOp::Lt => (None, Some(strict)),
        CmpOp::Le => (None, Some(Bound::Included(key))),
        CmpOp::Gt => (Some(strict), None),
        CmpOp::Ge => (Some(Bound::Included(key)), None),
        CmpOp::Ne => return Ok(None),
    };
    let (low, high) = if index.order(0).descending { (high, low) } else { (low, high) };
    let bounds = (low.unwrap_or(first), high.unwrap_or(last));
    Ok(range(watched, index, bounds).await?.map(|rows| (rows, exact)))
}

async fn range(
    (state, part): Watched<'_>,
    index: &IndexDef,
    (from, to): (Bound<&[u8]>, Bound<&[u8]>),
) -> Result<Option<RowSet>> {
    let begun = part.map(|part| PartBegun::start(part, &state.ctx));
    let mut scan = store::range_scan(&state.ctx, index, from, to, false, &state.snapshot);
    let mut rows = RowSet::new();
    while rows.len() <= ROWS_MAX && scan.add_to(&state.ctx, &mut rows).await? {}
    if let Some(begun) = begun {
        begun.end_pieces(&state.ctx, rows.len(), scan.pieces());
    }
    Ok((rows.len() <= ROWS_MAX).then_some(rows))
}

impl fmt::Display for Bits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |f: &mut fmt::Formatter<'_>, parts: &[Bits], word: &str| {
            write!(f, "(")?;
            for (at, part) in parts.iter().enumerate() {
                let before = if at == 0 { "" } else { word };
                write!(f, "{before}{part}")?;
            }
            write!(f, ")")
        };
        match self {
            Bits::One { index, .. } | Bits::Null(index) | Bits::Given(index) => {
                write!(f, "{}", index.name)
            }
            Bits::All(parts) => list(f, parts, " AND "),
            Bits::Any(parts) => list(f, parts, " OR "),
            Bits::Minus(base, parts) => {
                write!(f, "({base} MINUS ")?;
                list(f, parts, ", ")?;
                write!(f, ")")
            }
        }
    }
}

impl ScanWork {
    /// Brings the sets of several indexes together, one of them a bitmap index, or takes the rows
    /// that a bitmap index has under no value, or under any, where that costs less than what has
    /// been chosen, which costs `now`.
    pub(super) fn prefer_bits(&mut self, now: Option<f64>) {
        if self.size.stats.is_none() || self.size.rows < SMALL_ROWS || self.limit.is_some() {
            return;
        }
        let Some(found) = self.bits() else { return };
        // A set of one index is what a range of it is, but for rows without a value, which no range
        // of values has, and for all others, which no bound is asked of.
        let alone = matches!(found.bits, Bits::Null(_) | Bits::Given(_));
        let several = found.bits.indexes() > 1 || alone;
        if !several || !found.bits.has_bitmap() {
            return;
        }
        let now = match (&self.access, now) {
            (Access::Full, None) => self.size.rows,
            (_, Some(now)) => now,
            _ => return,
        };
        if self.bits_cost(&found).is_some_and(|cost| cost < now) {
            self.access = Access::Bits(Arc::new(found));
        }
    }

    /// What it costs to read these sets and their rows, in rows of a full scan; `None`: one is too
    /// large.
    pub(crate) fn bits_cost(&self, found: &BitsAccess) -> Option<f64> {
        let mut conjuncts = Vec::new();
        self.filters.iter().for_each(|filter| filter.conjuncts(&mut conjuncts));
        let (mut cost, mut plain) = (LOOKUP_ROWS, true);
        let mut said = Vec::new();
        for one in conjuncts.into_iter().filter(|one| !found.rest.contains(one)) {
            let kept_rows = rows_kept(&self.table, std::slice::from_ref(one), &self.size);
            let others = (self.size.rows - kept_rows).max(0.0);
            let given = given(&self.table, one).filter(|index| !found.bits.begins_with(index));
            let (sets, rows) = match (given, kept(&self.table, one)) {
                (Some(index), _) => (vec![Bits::Null(index.clone())], others),
                (None, Some(bits)) => (vec![bits], kept_rows),
                (None, None) => (dropped(&self.table, one).unwrap_or_default(), others),
            };
            #[allow(clippy::cast_precision_loss)] // some million
            if rows > ROWS_MAX as f64 / 2.0 {
                return None;
            }
            one.walk(&mut |part| {
                if let Scalar::Column(column) = part {
                    plain &= is_plain(&self.table, *column);
                }
            });
            let bitmap = sets.iter().all(Bits::is_of_bitmaps);
            let descents: usize = sets.iter().map(Bits::indexes).sum();
            #[allow(clippy::cast_precision_loss)] // few
            let descents = descents as f64 * LOOKUP_ROWS;
            cost += descents + rows * if bitmap { BIT_ROWS } else { ENTRY_ROWS };
            said.push(one.clone());
        }
        let rows = rows_kept(&self.table, &said, &self.size);
        if self.sources.is_empty() && found.rest.is_empty() && !self.target && plain {
            return Some(cost);
        }
        Some(cost + rows * LOOKUP_ROWS)
    }

    /// The set that the filters come to, as far as indexes know.
    fn bits(&self) -> Option<BitsAccess> {
        let mut conjuncts = Vec::new();
        self.filters.iter().for_each(|filter| filter.conjuncts(&mut conjuncts));
        if conjuncts.len() > PARTS_MAX {
            return None;
        }
        let (mut positive, mut negative, mut rest) = (Vec::new(), Vec::new(), Vec::new());
        let mut values_in: Vec<(&Arc<IndexDef>, f64)> = Vec::new();
        for one in conjuncts {
            if let Some(index) = given(&self.table, one) {
                let rows = rows_kept(&self.table, std::slice::from_ref(one), &self.size);
                values_in.push((index, rows));
            } else if let Some(bits) = kept(&self.table, one) {
                positive.push(bits);
            } else if let Some(bits) = dropped(&self.table, one) {
                negative.extend(bits);
            } else {
                rest.push(one.clone());
            }
        }
        // There must be something to take from: the smallest of those that there are.
        let fewest = (0..values_in.len())
            .min_by(|a, b| values_in[*a].1.total_cmp(&values_in[*b].1))
            .filter(|_| positive.is_empty());
        if let Some(at) = fewest {
            positive.push(Bits::Given(values_in.remove(at).0.clone()));
        }
        // Of the others, rows without a value are taken away where they are the fewer.
        for (index, rows) in values_in {
            match rows <= self.size.rows - rows {
                true => positive.push(Bits::Given(index.clone())),
                false => negative.push(Bits::Null(index.clone())),
            }
        }
        let base = match positive.len() {
            0 => return None,
            1 => positive.remove(0),
            _ => Bits::All(positive),
        };
        let bits = match negative.is_empty() {
            true => base,
            false => Bits::Minus(Box::new(base), negative),
        };
        Some(BitsAccess { bits, rest })
    }
}
