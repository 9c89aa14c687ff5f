//! How a scan finds its rows, chosen from what its filters say about indexed columns.

use super::bits::BitsAccess;
use super::several::Branch;
use crate::implied::implies;
use crate::key_exprs::Computed;
use crate::scalar::{CmpOp, Scalar};
use kernel::dict::{IndexDef, IndexKind, TableDef};
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

/// How rows are found.
#[derive(Clone, Debug)]
pub enum Access {
    Full,
    /// Keys that begin with these values, the column after them between bounds.
    Range {
        index: Arc<IndexDef>,
        equal: Vec<Scalar>,
        lower: Option<Scalar>,
        upper: Option<Scalar>,
        /// From the greatest key to the least.
        backward: bool,
    },
    /// A key for each value of a list.
    Keys {
        index: Arc<IndexDef>,
        keys: Vec<Scalar>,
    },
    /// The rows of several alternatives, each by an index.
    Any {
        branches: Vec<Branch>,
    },
    /// Rows that several indexes agree on.
    Bits(Arc<BitsAccess>),
}

/// What the filters say about one column.
#[derive(Default)]
struct ColumnBounds<'a> {
    equal: Option<&'a Scalar>,
    lower: Option<&'a Scalar>,
    upper: Option<&'a Scalar>,
    list: Option<&'a [Scalar]>,
}

impl Access {
    /// All of an index, in its order or backward.
    #[must_use]
    pub fn whole(index: Arc<IndexDef>, backward: bool) -> Access {
        Access::Range { index, equal: Vec::new(), lower: None, upper: None, backward }
    }

    /// The most selective access the filters allow: a whole unique key, the longest equality
    /// prefix, a range; a partial index where its predicate follows from the filters.
    #[must_use]
    pub fn choose(
        table: &TableDef,
        types: &[ColType],
        filters: &[Scalar],
        hints: &[Scalar],
        computed: &Computed,
    ) -> Access {
        let count = types.len() + computed.exprs.len();
        let bounds = all_bounds(count, types, filters, hints);
        let mut best = (0, Access::Full);
        for index in &table.indexes {
            if let Some((score, access)) = Access::by_index(index, plain(index), &bounds)
                && score > best.0
            {
                best = (score, access);
            }
        }
        for index in &table.partial {
            let Some(predicate) = &index.predicate else { continue };
            // It has fewer entries than one over all rows.
            if let Some((score, access)) = Access::by_index(index, plain(index), &bounds)
                && score + 2 > best.0
                && implies(filters, types, predicate)
            {
                best = (score + 2, access);
            }
        }
        // Among those that offer as much, the one with the shortest keys.
        let mut shortest = usize::MAX;
        for (at, index) in table.computed.iter().enumerate() {
            let Some(places) = computed.places(at) else { continue };
            let more = usize::from(index.predicate.is_some()) * 2;
            let held = || index.predicate.as_ref().is_none_or(|own| implies(filters, types, own));
            if let Some((score, access)) = Access::by_index(index, places.iter().copied(), &bounds)
                && (score + more > best.0
                    || score + more == best.0 && index.columns.len() < shortest)
                && (shortest != usize::MAX || score + more > best.0)
                && held()
            {
                best = (score + more, access);
                shortest = index.columns.len();
            }
        }
        best.1
    }

    /// What each index offers for the filters, with the columns that its range of keys is about.
    pub(crate) fn offers(
        table: &TableDef,
        types: &[ColType],
        filters: &[Scalar],
    ) -> Vec<(Access, Vec<usize>)> {
        let bounds = all_bounds(types.len(), types, filters, &[]);
        let offer = |index: &Arc<IndexDef>| {
            let (_, access) = Access::by_index(index, plain(index), &bounds)?;
            let used = index.columns.iter().take(access.parts_used());
            let columns = used.map(|c| usize::from(*c)).collect();
            Some((access, columns))
        };
        table.indexes.iter().filter_map(offer).collect()
    }

    /// What indexes that are on expressions as well offer by the columns before those.
    pub(crate) fn offers_before_exprs(
        table: &TableDef,
        types: &[ColType],
        filters: &[Scalar],
    ) -> Vec<Access> {
        // The place behind the columns is that of every expression: nothing is said of it.
        let bounds = all_bounds(types.len() + 1, types, filters, &[]);
        let whole = table.computed.iter().filter(|index| index.predicate.is_none());
        let offer = |index: &Arc<IndexDef>| {
            let places = plain(index).map(|place| place.min(types.len()));
            Access::by_index(index, places, &bounds).map(|(_, access)| access)
        };
        whole.filter_map(offer).collect()
    }

    /// The index by which rows are found, if it is one.
    #[must_use]
    pub fn index(&self) -> Option<&Arc<IndexDef>> {
        match self {
            Access::Range { index, .. } | Access::Keys { index, .. } => Some(index),
            Access::Full | Access::Any { .. } | Access::Bits(_) => None,
        }
    }

    /// For each column what the filters say it equals.
    #[must_use]
    pub fn equal_columns(types: &[ColType], filters: &[Scalar]) -> Vec<Option<Scalar>> {
        // As values of the columns' own types.
        all_bounds(types.len(), &[], filters, &[]).into_iter().map(|b| b.equal.cloned()).collect()
    }

    /// The filters that stay to be looked at when all values of the key were
    /// [exact](super::run::is_exact): those that the range of keys does not say itself.
    #[must_use]
    pub fn unsaid(&self, table: &TableDef, filters: &[Scalar]) -> Vec<Scalar> {
        if let Access::Bits(found) = self {
            return found.rest.clone();
        }
        let said = |filter: &Scalar| {
            let mut conjuncts = Vec::new();
            filter.conjuncts(&mut conjuncts);
            conjuncts.into_iter().all(|one| self.says(table, one))
        };
        filters.iter().filter(|filter| !said(filter)).cloned().collect()
    }

    fn says(&self, table: &TableDef, condition: &Scalar) -> bool {
        let Some(index) = self.index() else { return false };
        let place = |column: usize| index.columns.iter().position(|c| usize::from(*c) == column);
        self.says_of(table, condition, &place)
    }

    /// Whether its keys say the condition if they are exact; `place`: where they have a column.
    pub(super) fn says_of(
        &self,
        table: &TableDef,
        condition: &Scalar,
        place: &dyn Fn(usize) -> Option<usize>,
    ) -> bool {
        if let (Access::Keys { keys, .. }, Scalar::In(value, list)) = (self, condition) {
            return matches!(**value, Scalar::Column(column) if place(column) == Some(0))
                && list == keys;
        }
        let Access::Range { equal, lower, upper, .. } = self else { return false };
        // NULL equals nothing, and is in no range.
        if let Scalar::Not(inner) = condition
            && let Scalar::IsNull(value) = &**inner
        {
            return matches!(**value, Scalar::Column(column)
                if place(column).is_some_and(|at| at < self.parts_used()));
        }
        let Scalar::Compare(op, sides) = condition else { return false };
        let Some((column, op, other)) = compared(*op, sides, &table.types) else { return false };
        match (op, place(column)) {
            (CmpOp::Eq, Some(at)) => equal.get(at) == Some(other),
            (CmpOp::Le, Some(at)) => at == equal.len() && upper.as_ref() == Some(other),
            (CmpOp::Ge, Some(at)) => at == equal.len() && lower.as_ref() == Some(other),
            _ => false,
        }
    }

    /// `places`: where the parts of its key stand among the bounds.
    fn by_index(
        index: &Arc<IndexDef>,
        places: impl Iterator<Item = usize> + Clone,
        bounds: &[ColumnBounds<'_>],
    ) -> Option<(usize, Access)> {
        let columns = places.clone().map(|place| &bounds[place]);
        let equal: Vec<Scalar> = columns.map_while(|b| b.equal.cloned()).collect();
        let next = places.clone().nth(equal.len()).map(|place| &bounds[place]);
        if equal.is_empty()
            && index.columns.len() == 1
            && let Some(list) = next.and_then(|b| b.list)
        {
            let access = Access::Keys { index: index.clone(), keys: list.to_vec() };
            return Some((if index.unique { 35 } else { 15 }, access));
        }
        let whole = equal.len() == index.columns.len();
        // Keys that are turned round are found as a whole.
        if index.kind == IndexKind::Reverse && !whole {
            return None;
        }
        let (lower, upper) = match next {
            Some(b) => (b.lower.cloned(), b.upper.cloned()),
            None => (None, None),
        };
        let score = if whole && index.unique { 40 } else { equal.len() * 10 }
            + usize::from(lower.is_some()) * 3
            + usize::from(upper.is_some()) * 3;
        let index = index.clone();
        (score > 0)
            .then_some((score, Access::Range { index, equal, lower, upper, backward: false }))
    }
}

/// The positions of an index's columns in its table.
fn plain(index: &IndexDef) -> impl Iterator<Item = usize> + Clone {
    index.columns.iter().map(|column| usize::from(*column))
}

/// The column that a side of a comparison is, as it is or as a number of any kind.
pub(crate) fn column_seen(side: &Scalar) -> Option<usize> {
    match side {
        Scalar::Column(i) => Some(*i),
        Scalar::Cast(inner, ty, _) if *ty == ColType::new(TypeKind::Numeric) => match **inner {
            Scalar::Column(i) => Some(i),
            _ => None,
        },
        _ => None,
    }
}

/// Which column the sides compare with what, if one is a column. Whole numbers may be looked at as
/// numbers of any kind: by what the number is as one of theirs.
pub(super) fn compared<'a>(
    op: CmpOp,
    sides: &'a (Scalar, Scalar),
    types: &[ColType],
) -> Option<(usize, CmpOp, &'a Scalar)> {
    let column = |side: &Scalar| {
        let i = column_seen(side)?;
        let own = || types.get(i).map(|ty| ty.kind);
        let whole = || matches!(own(), Some(TypeKind::Int2 | TypeKind::Int4 | TypeKind::Int8));
        (matches!(side, Scalar::Column(_)) || whole()).then_some(i)
    };
    match (column(&sides.0), column(&sides.1)) {
        (Some(i), _) => Some((i, op, &sides.1)),
        (None, Some(i)) => Some((i, op.flipped(), &sides.0)),
        (None, None) => None,
    }
}

fn all_bounds<'a>(
    count: usize,
    types: &[ColType],
    filters: &'a [Scalar],
    hints: &'a [Scalar],
) -> Vec<ColumnBounds<'a>> {
    let mut conjuncts = Vec::new();
    filters.iter().chain(hints).for_each(|filter| filter.conjuncts(&mut conjuncts));
    let mut bounds = Vec::new();
    bounds.resize_with(count, ColumnBounds::default);
    for one in conjuncts {
        note_bound(one, types, &mut bounds);
    }
    bounds
}

fn note_bound<'a>(condition: &'a Scalar, types: &[ColType], bounds: &mut [ColumnBounds<'a>]) {
    match condition {
        Scalar::Compare(op, sides) => {
            let Some((column, op, other)) = compared(*op, sides, types) else { return };
            if !other.is_row_free() {
                return;
            }
            let b = &mut bounds[column];
            match op {
                CmpOp::Eq => b.equal = Some(other),
                CmpOp::Lt | CmpOp::Le => b.upper = Some(other),
                CmpOp::Gt | CmpOp::Ge => b.lower = Some(other),
                CmpOp::Ne => {}
            }
        }
        Scalar::In(value, list) => {
            if let Scalar::Column(i) = **value
                && list.iter().all(Scalar::is_row_free)
            {
                bounds[i].list = Some(list);
            }
        }
        _ => {}
    }
}
