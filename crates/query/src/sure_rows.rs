//! Subqueries that have a row whatever the tables hold: an aggregate without GROUP BY gives one of
//! no rows too.
//!
//! The library joins with the rows below such an aggregate, and finds none where there are none.
//!
//! What it promises: EXISTS of them is true without being run, and IN of the one row that they have
//! is a comparison with it. What it must never do: pass over a call that must be made each time.

use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::{Exists, InSubquery, SetComparison};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Aggregate, BinaryExpr, Distinct, Expr, FetchType, GroupingSet, LogicalPlan, Operator, SkipType,
    Subquery, lit,
};

/// The plan without the subqueries whose rows are known.
///
/// # Errors
/// The library's.
pub(crate) fn with_known(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        let mut has = false;
        node.apply_subqueries(|_| {
            has = true;
            Ok(TreeNodeRecursion::Stop)
        })?;
        if !has {
            return Ok(Transformed::no(node));
        }
        let names = NamePreserver::new(&node);
        node.map_expressions(|expr| {
            let saved = names.save(&expr);
            let done = expr.transform_up(known)?;
            Ok(done.update_data(|expr| saved.restore(expr)))
        })
    })?;
    if !done.transformed {
        return Ok(done.data);
    }
    // A comparison may be NULL where what it stands for never was.
    let again = done
        .data
        .transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))?;
    Ok(again.data)
}

fn known(expr: Expr) -> DfResult<Transformed<Expr>> {
    let found = match &expr {
        Expr::Exists(Exists { subquery, negated })
            if has_a_row(&subquery.subquery) && !is_volatile(&subquery.subquery)? =>
        {
            Some(lit(!*negated))
        }
        Expr::InSubquery(InSubquery { expr, subquery, negated }) if is_compared(subquery) => {
            let op = if *negated { Operator::NotEq } else { Operator::Eq };
            Some(compared(expr, op, subquery))
        }
        // Any one of them, or all of them, is that one.
        Expr::SetComparison(SetComparison { expr, subquery, op, .. }) if is_compared(subquery) => {
            Some(compared(expr, *op, subquery))
        }
        _ => None,
    };
    Ok(found.map_or_else(|| Transformed::no(expr), Transformed::yes))
}

/// Whether IN the subquery is a comparison with its row. One without outer columns is run once as
/// it is.
fn is_compared(subquery: &Subquery) -> bool {
    !subquery.outer_ref_columns.is_empty() && has_one_row(&subquery.subquery)
}

fn compared(value: &Expr, op: Operator, subquery: &Subquery) -> Expr {
    let row = Box::new(Expr::ScalarSubquery(subquery.clone()));
    Expr::BinaryExpr(BinaryExpr::new(Box::new(value.clone()), op, row))
}

/// Whether a plan has a row for certain.
pub(crate) fn has_a_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => gives_without_rows(aggregate),
        LogicalPlan::EmptyRelation(empty) => empty.produce_one_row,
        LogicalPlan::Projection(projection) => has_a_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_a_row(&alias.input),
        LogicalPlan::Window(window) => has_a_row(&window.input),
        LogicalPlan::Sort(sort) => sort.fetch != Some(0) && has_a_row(&sort.input),
        LogicalPlan::Distinct(distinct) => has_a_row(distinct.input()),
        LogicalPlan::Union(union) => union.inputs.iter().any(|branch| has_a_row(branch)),
        LogicalPlan::Limit(limit) => {
            let none = matches!(
                limit.get_fetch_type(),
                Ok(FetchType::Literal(Some(0)) | FetchType::UnsupportedExpr) | Err(_)
            );
            let first = matches!(limit.get_skip_type(), Ok(SkipType::Literal(0)));
            first && !none && has_a_row(&limit.input)
        }
        _ => false,
    }
}

/// Whether an aggregate has a group that is there without rows.
pub(crate) fn gives_without_rows(aggregate: &Aggregate) -> bool {
    let of_all = |expr: &Expr| match expr {
        Expr::GroupingSet(GroupingSet::GroupingSets(sets)) => sets.iter().any(Vec::is_empty),
        Expr::GroupingSet(GroupingSet::Rollup(_) | GroupingSet::Cube(_)) => true,
        _ => false,
    };
    aggregate.group_expr.iter().all(of_all)
}

/// Whether it has one row, never more.
fn has_one_row(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::Aggregate(aggregate) => aggregate.group_expr.is_empty(),
        LogicalPlan::Projection(projection) => has_one_row(&projection.input),
        LogicalPlan::SubqueryAlias(alias) => has_one_row(&alias.input),
        LogicalPlan::Window(window) => has_one_row(&window.input),
        LogicalPlan::Sort(sort) => sort.fetch.is_none() && has_one_row(&sort.input),
        LogicalPlan::Distinct(Distinct::All(input)) => has_one_row(input),
        _ => false,
    }
}

fn is_volatile(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= expr.is_volatile();
            Ok(TreeNodeRecursion::Continue)
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}
