//! Conditions beside lateral queries that ask only for what stands before them: `where
//! jsonb_typeof(j) = 'array'` beside `jsonb_array_elements(j)`.
//!
//! What it promises: such a condition is tested before the lateral query is run for a row, so that
//! the query never sees a row that the condition takes out. What it must never do: move one that
//! holds a subquery, or gives another value each time it is asked.

use crate::apply::lateral;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, JoinType, Result as DfResult};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};
use std::sync::Arc;

/// Whether a plan is joins, one of which has a lateral query on its right.
fn is_over_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Join(join) => lateral(&join.right).is_some() || is_over_lateral(&join.left),
        _ => false,
    }
}

/// Whether a condition can be tested where only these columns are.
fn asks_only(condition: &Expr, columns: &DFSchema) -> DfResult<bool> {
    let is_subquery = |part: &Expr| {
        matches!(
            part,
            Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
                | Expr::ScalarSubquery(_)
        )
    };
    let asked = condition.column_refs();
    // What asks for no column is worked out once, wherever it is.
    let known = !asked.is_empty() && asked.iter().all(|column| columns.has_column(column));
    Ok(known && !condition.is_volatile() && !condition.exists(|part| Ok(is_subquery(part)))?)
}

/// The parts of a condition that ask only for these columns, and the others.
fn parted(condition: Expr, columns: &DFSchema) -> DfResult<(Option<Expr>, Option<Expr>)> {
    let (mut own, mut others) = (Vec::new(), Vec::new());
    for part in split_conjunction_owned(condition) {
        if asks_only(&part, columns)? {
            own.push(part);
        } else {
            others.push(part);
        }
    }
    Ok((conjunction(own), conjunction(others)))
}

fn filtered(plan: Arc<LogicalPlan>, condition: Expr) -> DfResult<Arc<LogicalPlan>> {
    Ok(Arc::new(LogicalPlan::Filter(Filter::try_new(condition, plan)?)))
}

/// The filter with those of its conditions under the join below it that ask only for what is on
/// the left of a lateral query. Rows on the left that go there have no row above an outer join
/// either.
///
/// # Errors
/// The library's.
pub(crate) fn below(filter: Filter) -> DfResult<Transformed<LogicalPlan>> {
    let join = match filter.input.as_ref() {
        LogicalPlan::Join(join)
            if matches!(join.join_type, JoinType::Inner | JoinType::Left)
                && is_over_lateral(&filter.input) =>
        {
            join
        }
        _ => return Ok(Transformed::no(LogicalPlan::Filter(filter))),
    };
    let (own, others) = parted(filter.predicate.clone(), join.left.schema())?;
    let Some(own) = own else { return Ok(Transformed::no(LogicalPlan::Filter(filter))) };
    let left = filtered(join.left.clone(), own)?;
    let join = LogicalPlan::Join(Join { left, ..join.clone() });
    Ok(Transformed::yes(match others {
        Some(others) => LogicalPlan::Filter(Filter::try_new(others, Arc::new(join))?),
        None => join,
    }))
}

/// An inner join with a lateral query, what its own condition asks for the left side alone being
/// tested there.
///
/// # Errors
/// The library's.
pub(crate) fn of_join(mut join: Join) -> DfResult<Join> {
    if join.join_type != JoinType::Inner {
        return Ok(join);
    }
    let Some(condition) = join.filter.take() else { return Ok(join) };
    let (own, others) = parted(condition, join.left.schema())?;
    join.filter = others;
    if let Some(own) = own {
        join.left = filtered(join.left, own)?;
    }
    Ok(join)
}
