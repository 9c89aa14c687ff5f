//! Outer joins whose conditions hold subqueries.
//!
//! A condition on the side that need not stay is a filter of that side; one on both sides is asked
//! of each pair of rows, which [`crate::apply`] does.
//!
//! What it promises: the same rows. What it must never do: move a condition to the side that
//! stays, whose rows it must not take away.

use crate::error::PgError;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, JoinType, Result as DfResult};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{Expr, Filter, Join, LogicalPlan};
use std::collections::HashSet;
use std::sync::Arc;

pub(crate) fn holds_subquery(expr: &Expr) -> DfResult<bool> {
    expr.exists(|part| {
        Ok(matches!(
            part,
            Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_)
        ))
    })
}

/// Columns that an expression speaks of, also inside its subqueries.
fn columns_of(expr: &Expr) -> DfResult<HashSet<Column>> {
    let mut all = HashSet::new();
    expr.apply(|part| {
        if let Expr::Column(column) = part {
            all.insert(column.clone());
        }
        let mut part = part.clone();
        if let Some(subquery) = crate::further_out::subquery_of(&mut part) {
            for outer in &subquery.outer_ref_columns {
                if let Expr::OuterReferenceColumn(_, column) = outer {
                    all.insert(column.clone());
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(all)
}

fn speaks_of(columns: &HashSet<Column>, side: &DFSchema) -> bool {
    columns.iter().any(|column| side.has_column(column))
}

/// Whether a plan has such a join. The library moves the condition to a side that lacks its
/// columns, and may take others for them.
pub(crate) fn is_in(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Join(Join { join_type, filter: Some(filter), .. }) = node
            && matches!(join_type, JoinType::Left | JoinType::Right)
        {
            found |= holds_subquery(filter)?;
        }
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Conditions with subqueries on nothing but the side that need not stay, as filters of it.
pub(crate) fn with_filters_below(mut join: Join) -> DfResult<Transformed<Join>> {
    if !matches!(join.join_type, JoinType::Left | JoinType::Right) {
        return Ok(Transformed::no(join));
    }
    let Some(filter) = join.filter.take() else { return Ok(Transformed::no(join)) };
    let stays = if join.join_type == JoinType::Left { &join.left } else { &join.right };
    let (mut kept, mut below) = (Vec::new(), Vec::new());
    for part in split_conjunction_owned(filter) {
        let own = holds_subquery(&part)? && !speaks_of(&columns_of(&part)?, stays.schema());
        if own { below.push(part) } else { kept.push(part) }
    }
    join.filter = kept.into_iter().reduce(Expr::and);
    let moved = !below.is_empty();
    if let Some(below) = below.into_iter().reduce(Expr::and) {
        let other = if join.join_type == JoinType::Left { &mut join.right } else { &mut join.left };
        let filter = Filter::try_new(below, Arc::clone(other))?;
        *other = Arc::new(crate::not_in::of_filter(filter)?.data);
    }
    Ok(if moved { Transformed::yes(join) } else { Transformed::no(join) })
}

/// Whether its condition holds a subquery still, and it keeps rows that meet none.
///
/// # Errors
/// 0A000 for FULL JOIN, which keeps those of both sides.
pub(crate) fn asks_each_pair(join: &Join) -> DfResult<bool> {
    let Some(filter) = &join.filter else { return Ok(false) };
    if !holds_subquery(filter)? {
        return Ok(false);
    }
    match join.join_type {
        JoinType::Left | JoinType::Right => Ok(true),
        JoinType::Full => {
            Err(PgError::unsupported("a subquery in the condition of FULL JOIN").into())
        }
        _ => Ok(false),
    }
}

/// A join that keeps its right side's rows, as one that keeps its left side's.
pub(crate) fn to_the_left(join: Join) -> DfResult<Join> {
    if join.join_type != JoinType::Right {
        return Ok(join);
    }
    Join::try_new(
        join.right,
        join.left,
        join.on.into_iter().map(|(left, right)| (right, left)).collect(),
        join.filter,
        JoinType::Left,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )
}
