//! NOT IN beside OR, and of a value that is the same for all rows.
//!
//! The library marks the rows that have found a partner, and takes those that have not for rows
//! that are not in the list. With a NULL in the list, or in place of the value, nobody knows.
//!
//! What it promises: a condition of rows is true where it is in SQL; where it is not, it is false
//! or NULL, which is the same for rows. What it must never do: touch NOT IN of a row's own value
//! that stands alone or beside AND, which the library knows.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, Result as DfResult};
use datafusion::logical_expr::expr::{Exists, InSubquery};
use datafusion::logical_expr::utils::split_conjunction_owned;
use datafusion::logical_expr::{
    BinaryExpr, Expr, ExprSchemable, Filter, LogicalPlan, Operator, Subquery,
};
use std::sync::Arc;

/// The plan with what NULLs make of NOT IN beside OR.
///
/// # Errors
/// The library's.
pub(crate) fn with_nulls(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Filter(filter) => of_filter(filter),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(done.data)
}

/// The same of one filter.
///
/// # Errors
/// The library's.
pub(crate) fn of_filter(filter: Filter) -> DfResult<Transformed<LogicalPlan>> {
    let schema = filter.input.schema().clone();
    let parts = split_conjunction_owned(filter.predicate.clone());
    let (mut changed, mut all) = (false, Vec::with_capacity(parts.len()));
    for part in parts {
        let done = match (&part, not_in(&part)) {
            (_, Some((value, list))) if value.column_refs().is_empty() => {
                certain(&part, value, list, &schema)?
            }
            (Expr::BinaryExpr(_) | Expr::Not(_), None) => known(&part, &schema)?,
            _ => None,
        };
        changed |= done.is_some();
        all.push(done.unwrap_or(part));
    }
    if !changed {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let predicate = all.into_iter().reduce(Expr::and).unwrap_or(filter.predicate);
    let filter = Filter::try_new(predicate, filter.input)?;
    Ok(Transformed::yes(LogicalPlan::Filter(filter)))
}

/// The value and the list of a NOT IN.
fn not_in(expr: &Expr) -> Option<(&Expr, &Subquery)> {
    match expr {
        Expr::InSubquery(InSubquery { expr, subquery, negated: true }) => Some((expr, subquery)),
        Expr::Not(inner) => match &**inner {
            Expr::InSubquery(InSubquery { expr, subquery, negated: false }) => {
                Some((expr, subquery))
            }
            _ => None,
        },
        _ => None,
    }
}

/// What is true where `expr` is; `None`: that itself.
fn known(expr: &Expr, schema: &DFSchema) -> DfResult<Option<Expr>> {
    if let Some((value, list)) = not_in(expr) {
        return certain(expr, value, list, schema);
    }
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (new_left, new_right) = (known(left, schema)?, known(right, schema)?);
            if new_left.is_none() && new_right.is_none() {
                return Ok(None);
            }
            let side = |new: Option<Expr>, old: &Expr| Box::new(new.unwrap_or_else(|| old.clone()));
            let (left, right) = (side(new_left, left), side(new_right, right));
            Ok(Some(Expr::BinaryExpr(BinaryExpr::new(left, *op, right))))
        }
        Expr::Not(inner) => {
            let Expr::BinaryExpr(BinaryExpr { left, op, right }) = &**inner else {
                return Ok(None);
            };
            let op = match op {
                Operator::And => Operator::Or,
                Operator::Or => Operator::And,
                _ => return Ok(None),
            };
            let not = |side: &Expr| Box::new(Expr::Not(Box::new(side.clone())));
            known(&Expr::BinaryExpr(BinaryExpr::new(not(left), op, not(right))), schema)
        }
        _ => Ok(None),
    }
}

/// NOT IN that is false where a NULL makes it unknown.
fn certain(
    expr: &Expr,
    value: &Expr,
    list: &Subquery,
    schema: &DFSchema,
) -> DfResult<Option<Expr>> {
    let exists = |plan: Arc<LogicalPlan>| {
        let subquery = Subquery { subquery: plan, ..list.clone() };
        Expr::Exists(Exists { subquery, negated: true })
    };
    let own = || Expr::Column(list.subquery.schema().columns().remove(0));
    let none = |condition: Expr| -> DfResult<Expr> {
        let rows = Filter::try_new(condition, list.subquery.clone())?;
        Ok(exists(Arc::new(LogicalPlan::Filter(rows))))
    };
    let same_for_all = value.column_refs().is_empty() && !value.is_volatile();
    // The library would compare in the list, and take a NULL in what the list is joined by for one
    // in the list.
    let mut all = vec![match same_for_all && can_stand_inside(value, list) {
        true => none(own().eq(value.clone()))?,
        false => expr.clone(),
    }];
    if list.subquery.schema().field(0).is_nullable() {
        all.push(none(own().is_null())?);
    }
    if value.nullable(schema)? {
        all.push(value.clone().is_not_null().or(exists(list.subquery.clone())));
    }
    if all == [expr.clone()] {
        return Ok(None);
    }
    Ok(all.into_iter().reduce(Expr::and))
}

/// Whether a value that is the same for all rows is the same inside the list: it has no query of
/// its own, and no column of a query further out has the name of one there.
fn can_stand_inside(value: &Expr, list: &Subquery) -> bool {
    let schema = list.subquery.schema();
    let is_another = |part: &Expr| {
        Ok(match part {
            Expr::OuterReferenceColumn(_, column) => schema.has_column(column),
            Expr::ScalarSubquery(_) | Expr::Exists(_) => true,
            Expr::InSubquery(_) | Expr::SetComparison(_) => true,
            _ => false,
        })
    };
    !value.exists(is_another).unwrap_or(true)
}
