//! How many rows a step of a plan is thought to yield, where a choice depends on it: which side of
//! a join is looked up in the other's index, whether an index's order beats a sort.
//!
//! What it promises: nothing but a guess, from the table's size below its high-water mark and from
//! the shape of the conditions. What it must never do: change a result.

use crate::facts::{Matches, fact_of};
use crate::scalar::{CmpOp, Scalar, item_count};
use crate::scan::ScanExec;
use crate::selectivity::Judge;
use datafusion::common::JoinType;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::joins::{CrossJoinExec, HashJoinExec, NestedLoopJoinExec};
use datafusion::physical_plan::statistics::{StatisticsArgs, StatisticsContext};
use datafusion::physical_plan::union::UnionExec;
use kernel::dict::{TableDef, TableStats};
use kernel::row::{ColType, TypeKind, Value};
use std::sync::Arc;

/// Items of an array that is not known yet.
pub(crate) const ITEMS: usize = 10;
/// Part of the rows that equal a value, of which nothing is known.
const EQUAL: f64 = 0.005;
/// Part of the rows on one side of a value.
const ONE_SIDED: f64 = 1.0 / 3.0;
/// Part of the rows between two values of a column with an index: who made it looks for few.
const BETWEEN: f64 = 0.005;
/// The same where no index begins with the column.
const BETWEEN_UNINDEXED: f64 = 0.05;
/// Part of the rows that match a pattern.
const LIKE: f64 = 0.05;
/// Part of the rows that a condition of another kind keeps.
pub(crate) const OTHER: f64 = 1.0 / 3.0;
/// Groups for each row of what is grouped.
const GROUPS: f64 = 0.1;
/// Bytes that a row costs beyond its values.
const ROW_OVERHEAD_BYTES: f64 = 16.0;
/// Bytes of a value of varying length, of which nothing is known.
const VARYING_BYTES: f64 = 32.0;

/// How large a table is.
#[derive(Clone, Debug, Default)]
pub struct TableSize {
    /// Blocks below the high-water mark.
    pub blocks: f64,
    /// The same of each index, in the order of the definition.
    pub index_blocks: Vec<f64>,
    pub rows: f64,
    pub row_bytes: f64,
    /// What ANALYZE has found out.
    pub stats: Option<Arc<TableStats>>,
    /// Tasks that may help the session to read all of it.
    pub workers: usize,
    /// Whether an index that serves is taken whatever it costs.
    pub forced: bool,
    /// What parameters are in the execution that the plan is made for, as far as it is known.
    pub peeked: Arc<[Value]>,
}

impl TableSize {
    /// Rows are guessed from the types of the columns.
    #[must_use]
    pub fn of_blocks(table: &TableDef, block_bytes: usize, blocks: u32, indexes: &[u32]) -> Self {
        let values: f64 = table.columns.iter().map(|column| 2.0 + value_bytes(column.ty)).sum();
        let row_bytes = ROW_OVERHEAD_BYTES + values;
        #[allow(clippy::cast_precision_loss)] // small
        let rows = f64::from(blocks) * (block_bytes as f64 / row_bytes).max(1.0);
        TableSize {
            blocks: f64::from(blocks),
            index_blocks: indexes.iter().copied().map(f64::from).collect(),
            rows,
            row_bytes,
            stats: None,
            workers: 0,
            forced: false,
            peeked: Arc::default(),
        }
    }

    /// The same with what is known of the table: as many rows in each block as there were when it
    /// was looked at.
    #[must_use]
    pub fn with_stats(mut self, stats: Option<Arc<TableStats>>) -> Self {
        let Some(stats) = stats.filter(|stats| stats.sampled > 0 && stats.blocks > 0) else {
            return self;
        };
        #[allow(clippy::cast_precision_loss)] // a guess
        let density = stats.rows / stats.blocks as f64;
        self.rows = (density * self.blocks).max(1.0);
        self.row_bytes = stats.row_bytes.max(1.0);
        self.stats = Some(stats);
        self
    }
}

/// Bytes that a value of a type is thought to have.
pub(crate) fn value_bytes(ty: ColType) -> f64 {
    match ty.kind {
        TypeKind::Bool => 1.0,
        TypeKind::Int2 => 2.0,
        TypeKind::Int4 | TypeKind::Float4 | TypeKind::Date => 4.0,
        TypeKind::Int8
        | TypeKind::Float8
        | TypeKind::Timestamp
        | TypeKind::Timestamptz
        | TypeKind::Time
        | TypeKind::Numeric => 8.0,
        TypeKind::Uuid | TypeKind::Interval => 16.0,
        _ => VARYING_BYTES,
    }
}

/// Rows of the table that the filters keep.
#[must_use]
pub fn rows_kept(table: &TableDef, filters: &[Scalar], size: &TableSize) -> f64 {
    let mut conjuncts = Vec::new();
    filters.iter().for_each(|filter| filter.conjuncts(&mut conjuncts));
    if let Some(stats) = &size.stats {
        return rows_known(table, &conjuncts, size, stats);
    }
    let mut sides: Vec<(bool, bool)> = vec![(false, false); table.columns.len()];
    let mut equal: Vec<u16> = Vec::new();
    let mut part = 1.0;
    for one in conjuncts {
        match column_condition(one) {
            Some((column, CmpOp::Eq)) => {
                equal.push(u16::try_from(column).unwrap_or(u16::MAX));
                part *= EQUAL;
            }
            Some((column, CmpOp::Lt | CmpOp::Le)) => sides[column].1 = true,
            Some((column, CmpOp::Gt | CmpOp::Ge)) => sides[column].0 = true,
            _ => part *= selectivity(one),
        }
    }
    for (column, side) in sides.into_iter().enumerate() {
        let leads = |i: &Arc<kernel::dict::IndexDef>| {
            i.columns.first().is_some_and(|first| usize::from(*first) == column)
        };
        part *= match side {
            (true, true) if table.indexes.iter().any(leads) => BETWEEN,
            (true, true) => BETWEEN_UNINDEXED,
            (false, false) => 1.0,
            _ => ONE_SIDED,
        };
    }
    let mut rows = size.rows * part;
    let key =
        |i: &&Arc<kernel::dict::IndexDef>| i.unique && i.columns.iter().all(|c| equal.contains(c));
    if table.indexes.iter().find(key).is_some() {
        rows = rows.min(1.0);
    }
    rows.min(size.rows)
}

/// The same by what is known of the columns.
fn rows_known(
    table: &TableDef,
    conjuncts: &[&Scalar],
    size: &TableSize,
    stats: &TableStats,
) -> f64 {
    let judge = Judge::new(table, stats, size.rows, &size.peeked);
    let rows = size.rows * judge.part(conjuncts, &selectivity);
    let equal = |column: &u16| {
        let is = |one: &&Scalar| column_condition(one) == Some((usize::from(*column), CmpOp::Eq));
        conjuncts.iter().any(is)
    };
    let key = |i: &Arc<kernel::dict::IndexDef>| i.unique && i.columns.iter().all(equal);
    let rows = if table.indexes.iter().any(key) { rows.min(1.0) } else { rows };
    rows.min(size.rows)
}

/// The column that is compared with something row-free.
fn column_condition(condition: &Scalar) -> Option<(usize, CmpOp)> {
    let (column, op, _) = crate::selectivity::column_condition(condition)?;
    Some((column, op))
}

/// Part of the rows that a condition keeps, of whose columns nothing is known.
pub(crate) fn selectivity(condition: &Scalar) -> f64 {
    match condition {
        Scalar::Compare(CmpOp::Eq, _) => EQUAL,
        Scalar::Compare(CmpOp::Ne, _) => 1.0 - EQUAL,
        Scalar::Compare(..) => ONE_SIDED,
        Scalar::IsNull(_) => EQUAL,
        #[allow(clippy::cast_precision_loss)] // small
        Scalar::In(_, list) => (EQUAL * item_count(list, ITEMS) as f64).min(0.5),
        Scalar::Like(..) => LIKE,
        Scalar::Not(inner) => 1.0 - selectivity(inner),
        Scalar::And(sides) => selectivity(&sides.0) * selectivity(&sides.1),
        Scalar::Or(sides) => {
            let (a, b) = (selectivity(&sides.0), selectivity(&sides.1));
            a + b - a * b
        }
        _ => OTHER,
    }
}

/// Rows a plan is thought to yield.
#[must_use]
pub fn plan_rows(plan: &Arc<dyn ExecutionPlan>) -> f64 {
    plan_volume(plan).rows
}

/// Rows that a plan yields, and would yield if no condition had taken any away.
#[derive(Clone, Copy)]
struct Volume {
    rows: f64,
    unfiltered: f64,
}

impl Volume {
    fn of(rows: f64) -> Volume {
        Volume { rows, unfiltered: rows }
    }

    /// Part of the rows that is left.
    fn part(self) -> f64 {
        if self.unfiltered > 0.0 { (self.rows / self.unfiltered).min(1.0) } else { 1.0 }
    }

    fn keeping(self, part: f64) -> Volume {
        Volume { rows: self.rows * part, ..self }
    }
}

fn plan_volume(plan: &Arc<dyn ExecutionPlan>) -> Volume {
    let plan = crate::bounds::shown(plan);
    let volume = volume_unlimited(plan);
    #[allow(clippy::cast_precision_loss)] // a guess
    let limited = |limit: usize| Volume { rows: volume.rows.min(limit as f64), ..volume };
    plan.fetch().map_or(volume, limited)
}

/// What is known of a hash join's keys.
fn matches_of(join: &HashJoinExec, left: f64, right: f64) -> Option<Matches> {
    let (mut of_left, mut of_right) = (Vec::new(), Vec::new());
    for (a, b) in join.on() {
        of_left.push(fact_of(join.left(), a));
        of_right.push(fact_of(join.right(), b));
    }
    Matches::of(&of_left, &of_right, (left, right))
}

/// Part of the outer side's rows that find a match on the other one, if that is known.
pub(crate) fn matched_part(join: &HashJoinExec, outer_is_left: bool) -> Option<f64> {
    let found = matches_of(join, plan_rows(join.left()), plan_rows(join.right()))?;
    if outer_is_left { found.left_part() } else { found.right_part() }
}

/// A join by what is known of its keys.
fn joined_known(ty: JoinType, left: Volume, right: Volume, found: &Matches) -> Option<Volume> {
    let unfiltered = left.unfiltered.max(right.unfiltered);
    let pairs = found.pairs();
    let rows = match ty {
        JoinType::Inner => pairs,
        JoinType::Left => pairs.max(left.rows),
        JoinType::Right => pairs.max(right.rows),
        JoinType::Full => pairs.max(left.rows).max(right.rows),
        JoinType::LeftSemi => left.rows * found.left_part()?,
        JoinType::RightSemi => right.rows * found.right_part()?,
        JoinType::LeftAnti => left.rows * (1.0 - found.left_part()?).max(0.01),
        JoinType::RightAnti => right.rows * (1.0 - found.right_part()?).max(0.01),
        JoinType::LeftMark => left.rows,
        JoinType::RightMark => right.rows,
    };
    Some(Volume { rows: rows.max(1.0), unfiltered: unfiltered.max(rows) })
}

/// A join by equal values is thought one of a key with those who refer to it: it yields what the
/// larger side would, less what the conditions on both sides take away.
fn joined(ty: JoinType, left: Volume, right: Volume) -> Volume {
    let unfiltered = left.unfiltered.max(right.unfiltered);
    let rows = unfiltered * left.part() * right.part();
    match ty {
        JoinType::LeftSemi | JoinType::LeftMark => left.keeping(right.part()),
        JoinType::RightSemi | JoinType::RightMark => right.keeping(left.part()),
        JoinType::LeftAnti => left.keeping(OTHER),
        JoinType::RightAnti => right.keeping(OTHER),
        JoinType::Inner => Volume { rows, unfiltered },
        JoinType::Left => Volume { rows: rows.max(left.rows), unfiltered },
        JoinType::Right => Volume { rows: rows.max(right.rows), unfiltered },
        JoinType::Full => Volume { rows: left.rows.max(right.rows), unfiltered },
    }
}

fn volume_unlimited(plan: &Arc<dyn ExecutionPlan>) -> Volume {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let rows = scan.work().rows();
        return Volume { rows, unfiltered: scan.work().size.rows.max(rows) };
    }
    if let Some(join) = plan.downcast_ref::<crate::index_join::IndexJoinExec>() {
        let outer = plan.children().first().map_or(Volume::of(1.0), |outer| plan_volume(outer));
        let rows = join.rows();
        return Volume { rows, unfiltered: outer.unfiltered.max(rows) };
    }
    let inputs: Vec<Volume> = plan.children().into_iter().map(plan_volume).collect();
    if let (Some(join), [left, right]) = (crate::bounds::hash_join(plan), &*inputs) {
        let ty = *join.join_type();
        let known = matches_of(join, left.rows, right.rows)
            .and_then(|found| joined_known(ty, *left, *right, &found));
        return known.unwrap_or_else(|| joined(ty, *left, *right));
    }
    if let (Some(filter), [input]) = (plan.downcast_ref::<FilterExec>(), &*inputs) {
        return input.keeping(crate::scan::filter_part(filter).unwrap_or(OTHER));
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>()
        && !aggregate.group_expr().is_empty()
        && let [input] = &*inputs
    {
        let facts = aggregate.group_expr().expr().iter();
        let facts: Vec<_> = facts.map(|(expr, _)| fact_of(aggregate.input(), expr)).collect();
        if let Some(groups) = crate::facts::groups(&facts, input.rows) {
            let unfiltered = crate::facts::groups(&facts, input.unfiltered).unwrap_or(groups);
            return Volume { rows: groups, unfiltered };
        }
        let groups = |rows: f64| (rows * GROUPS).max(1.0);
        return Volume { rows: groups(input.rows), unfiltered: groups(input.unfiltered) };
    }
    if let [input] = &*inputs
        && plan.downcast_ref::<AggregateExec>().is_none()
    {
        return *input;
    }
    Volume::of(rows_of(plan, &inputs.iter().map(|input| input.rows).collect::<Vec<f64>>()))
}

fn rows_of(plan: &Arc<dyn ExecutionPlan>, inputs: &[f64]) -> f64 {
    let plan = crate::bounds::shown(plan);
    let first = inputs.first().copied();
    if plan.downcast_ref::<AggregateExec>().is_some() {
        return 1.0;
    }
    if plan.downcast_ref::<CrossJoinExec>().is_some()
        || plan.downcast_ref::<NestedLoopJoinExec>().is_some()
    {
        return inputs.iter().product();
    }
    if plan.downcast_ref::<UnionExec>().is_some() {
        return inputs.iter().sum();
    }
    if let Some(first) = first {
        return inputs.iter().copied().fold(first, f64::max);
    }
    let known = StatisticsContext::new()
        .compute(plan.as_ref(), &StatisticsArgs::new())
        .ok()
        .and_then(|statistics| statistics.num_rows.get_value().copied());
    #[allow(clippy::cast_precision_loss)] // a guess
    known.map_or(1000.0, |rows| rows as f64)
}
