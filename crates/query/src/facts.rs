//! Where a column of a plan comes from, and what `ANALYZE` knows of it there: the ground of what is
//! guessed of joins and groups.
//!
//! What it promises: nothing is made up; a column that is computed, or of a table nobody has looked
//! at, is unknown.

use crate::arrow_rows::Source;
use crate::index_join::IndexJoinExec;
use crate::scan::ScanExec;
use crate::selectivity::distinct;
use datafusion::common::JoinSide;
use datafusion::common::JoinType;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{CastExpr, Column};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use kernel::dict::TableDef;
use std::sync::Arc;

/// A table's column that a plan shows.
#[derive(Clone, Debug)]
pub(crate) struct Fact {
    pub(crate) table: Arc<TableDef>,
    pub(crate) column: usize,
    /// Distinct values in the whole table.
    pub(crate) distinct: f64,
    /// Part of the table's rows with NULL in it.
    pub(crate) null_fraction: f64,
    /// Rows of the whole table.
    pub(crate) rows: f64,
    /// Mean bytes of a value.
    pub(crate) width: f64,
}

impl Fact {
    /// Of a column of a table with statistics.
    pub(crate) fn of(
        table: &Arc<TableDef>,
        size: &crate::estimate::TableSize,
        column: usize,
    ) -> Option<Fact> {
        let stats = size.stats.as_ref()?.column(column)?;
        Some(Fact {
            table: table.clone(),
            column,
            distinct: distinct(stats, size.rows),
            null_fraction: stats.null_fraction,
            rows: size.rows.max(1.0),
            width: stats.width * (1.0 - stats.null_fraction),
        })
    }

    /// Distinct values that are left in so many rows.
    fn left_in(&self, rows: f64) -> f64 {
        left_of(self.distinct, self.rows, rows)
    }
}

/// Of so many distinct values in `all` rows, how many are left in `rows` of them.
fn left_of(distinct: f64, all: f64, rows: f64) -> f64 {
    if rows >= all || distinct <= 1.0 {
        return distinct;
    }
    let each = all / distinct;
    (distinct * (1.0 - (1.0 - rows / all).max(0.0).powf(each))).clamp(1.0, rows.max(1.0))
}

/// What is known of an expression over a plan's output.
pub(crate) fn fact_of(plan: &Arc<dyn ExecutionPlan>, expr: &Arc<dyn PhysicalExpr>) -> Option<Fact> {
    if let Some(cast) = expr.downcast_ref::<CastExpr>() {
        return fact_of(plan, cast.expr());
    }
    fact_at(plan, expr.downcast_ref::<Column>()?.index())
}

/// What is known of a plan's column.
pub(crate) fn fact_at(plan: &Arc<dyn ExecutionPlan>, at: usize) -> Option<Fact> {
    let plan = crate::bounds::shown(plan);
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let work = scan.work();
        let Source::Column(column) = *work.sources.get(at)? else { return None };
        return Fact::of(&work.table, &work.size, column);
    }
    if let Some(join) = plan.downcast_ref::<IndexJoinExec>() {
        return match join.origin(at)? {
            crate::index_join::From::Outer(i) => fact_at(plan.children().first()?, i),
            crate::index_join::From::Inner(i) => {
                let work = join.inner();
                let Source::Column(column) = *work.sources.get(i)? else { return None };
                Fact::of(&work.table, &work.size, column)
            }
        };
    }
    if let Some(join) = crate::bounds::hash_join(plan) {
        let at = join.projection.as_ref().map_or(Some(at), |all| all.get(at).copied())?;
        let left = join.left().schema().fields().len();
        let side = match join.join_type() {
            JoinType::LeftSemi | JoinType::LeftAnti | JoinType::LeftMark => JoinSide::Left,
            JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark => JoinSide::Right,
            _ if at < left => JoinSide::Left,
            _ => JoinSide::Right,
        };
        return match (side, join.join_type()) {
            (JoinSide::Left, _) if at < left => fact_at(join.left(), at),
            (JoinSide::Right, JoinType::RightSemi | JoinType::RightAnti | JoinType::RightMark) => {
                (at < join.right().schema().fields().len()).then(|| fact_at(join.right(), at))?
            }
            (JoinSide::Right, _) => fact_at(join.right(), at - left),
            _ => None,
        };
    }
    if let Some(projection) = plan.downcast_ref::<ProjectionExec>() {
        return fact_of(projection.input(), &projection.expr().get(at)?.expr);
    }
    if let Some(filter) = plan.downcast_ref::<FilterExec>() {
        let at = filter.projection().as_ref().map_or(Some(at), |all| all.get(at).copied())?;
        return fact_at(filter.input(), at);
    }
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        let (expr, _) = aggregate.group_expr().expr().get(at)?;
        return fact_of(aggregate.input(), expr);
    }
    let [input] = plan.children()[..] else { return None };
    (input.schema().fields().len() == plan.schema().fields().len()).then(|| fact_at(input, at))?
}

/// What is known of one side of a join by equal values.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// Distinct keys in the whole table.
    distinct: f64,
    /// Distinct keys that are left on this side.
    left: f64,
    /// Whether no two of the table's rows have the same key.
    unique: bool,
    /// Part of the rows with no NULL among the keys.
    there: f64,
}

fn side_of(facts: &[Option<Fact>], rows: f64) -> Option<Side> {
    let known: Vec<&Fact> = facts.iter().flatten().collect();
    let first = *known.first()?;
    let same = known.iter().all(|fact| fact.table.obj == first.table.obj);
    let mut distinct: f64 = known.iter().map(|fact| fact.distinct).product();
    let mut left: f64 = known.iter().map(|fact| fact.left_in(rows)).product();
    let key = |index: &Arc<kernel::dict::IndexDef>| {
        let has = |column: &u16| known.iter().any(|f| f.column == usize::from(*column));
        index.unique && index.columns.iter().all(has)
    };
    let unique = same && first.table.indexes.iter().any(key);
    if same {
        distinct = if unique { first.rows } else { distinct.min(first.rows) };
        left = if known.len() > 1 { left_of(distinct, first.rows, rows) } else { left };
    }
    let there = known.iter().map(|fact| 1.0 - fact.null_fraction).product();
    Some(Side { distinct, left: left.min(rows.max(1.0)), unique, there })
}

/// What is known of a join by equal values: its keys on both sides, and their rows.
#[derive(Clone, Debug)]
pub(crate) struct Matches {
    left: Option<Side>,
    right: Option<Side>,
    rows: (f64, f64),
}

impl Matches {
    /// `None` if nothing is known of any key.
    pub(crate) fn of(
        left: &[Option<Fact>],
        right: &[Option<Fact>],
        rows: (f64, f64),
    ) -> Option<Matches> {
        let (left, right) = (side_of(left, rows.0), side_of(right, rows.1));
        (left.is_some() || right.is_some()).then_some(Matches { left, right, rows })
    }

    /// Pairs that match.
    pub(crate) fn pairs(&self) -> f64 {
        let keys = match (self.left, self.right) {
            (Some(a), Some(b)) => match (a.unique, b.unique) {
                (true, false) => a.distinct,
                (false, true) => b.distinct,
                _ => a.distinct.max(b.distinct),
            },
            (Some(one), None) | (None, Some(one)) => one.distinct,
            (None, None) => 1.0,
        };
        let there = |side: Option<Side>| side.map_or(1.0, |side| side.there);
        let part = there(self.left) * there(self.right) / keys.max(1.0);
        (self.rows.0 * self.rows.1 * part).max(1.0)
    }

    /// Part of the left side's rows that have a match.
    pub(crate) fn left_part(&self) -> Option<f64> {
        Some(part_with_match(self.left?, self.right?))
    }

    /// The same of the right side.
    pub(crate) fn right_part(&self) -> Option<f64> {
        Some(part_with_match(self.right?, self.left?))
    }
}

fn part_with_match(of: Side, with: Side) -> f64 {
    // What refers to a key finds those of the other side's keys that are left there.
    let keys = if with.unique && with.distinct >= of.distinct { with.distinct } else { of.left };
    of.there * (with.left / keys.max(1.0)).clamp(0.0, 1.0)
}

/// Groups by these columns among so many rows; `None` if one of them is unknown.
pub(crate) fn groups(facts: &[Option<Fact>], rows: f64) -> Option<f64> {
    let mut groups = 1.0;
    for fact in facts {
        groups *= fact.as_ref()?.left_in(rows);
    }
    Some(groups.min(rows).max(1.0))
}
