//! Aggregates in a subquery over columns of the query around it alone: `select (select count(m.k))
//! from m`. SQL has them for aggregates of that query, over its rows.
//!
//! What it promises: such a call is refused, since the library would work it out over the
//! subquery's rows. What it must never do: complain of what the binder makes of a subquery.

use crate::error::PgError;
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::{Expr, LogicalPlan};

/// What `ARRAY(query)` becomes, whatever the query shows.
const COLLECTED: &str = "array_agg";

/// Checks a plan as it was written.
///
/// # Errors
/// 0A000 for an aggregate that belongs to a query further out.
pub(crate) fn check(plan: &LogicalPlan) -> DfResult<()> {
    plan.apply_with_subqueries(|node| {
        let LogicalPlan::Aggregate(groups) = node else { return Ok(TreeNodeRecursion::Continue) };
        for expr in &groups.aggr_expr {
            if let Expr::AggregateFunction(call) = expr.clone().unalias()
                && is_of_outer(&call)?
            {
                let text = "an aggregate of the outer query's columns in a subquery";
                let error = PgError::unsupported(text).with_hint(
                    "Take the aggregate in the outer query, or in a query of its own in FROM.",
                );
                return Err(error.into());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// Whether all columns that it is over are of queries further out.
fn is_of_outer(call: &AggregateFunction) -> DfResult<bool> {
    // Those of our own stand for something else than an aggregate.
    if call.func.name().starts_with('$') || call.func.name() == COLLECTED {
        return Ok(false);
    }
    let (mut outer, mut own) = (false, false);
    let params = &call.params;
    // What its FILTER and ORDER BY ask for counts as well.
    let sorts = params.order_by.iter().map(|sort| &sort.expr);
    for arg in params.args.iter().chain(params.filter.as_deref()).chain(sorts) {
        arg.apply(|part| {
            match part {
                Expr::OuterReferenceColumn(..) => outer = true,
                // What a subquery names may be of this query.
                Expr::Column(_)
                | Expr::ScalarSubquery(_)
                | Expr::Exists(_)
                | Expr::InSubquery(_)
                | Expr::SetComparison(_) => own = true,
                _ => {}
            }
            Ok(TreeNodeRecursion::Continue)
        })?;
    }
    Ok(outer && !own)
}
