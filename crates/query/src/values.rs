//! VALUES with subqueries in it. The library works its rows out while it plans, when no subquery
//! has run.
//!
//! What it promises: the rows in their order, of the types that they have as VALUES. What it must
//! never do: touch VALUES without subqueries.

use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::logical_plan::{Union, Values};
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder};
use std::sync::Arc;

fn has_subquery(values: &Values) -> DfResult<bool> {
    let mut found = false;
    for expr in values.values.iter().flatten() {
        expr.apply(|part| {
            found |= matches!(
                part,
                Expr::ScalarSubquery(_)
                    | Expr::Exists(_)
                    | Expr::InSubquery(_)
                    | Expr::SetComparison(_)
            );
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })?;
    }
    Ok(found)
}

/// Each row as a query without FROM.
fn rows_of(values: Values) -> DfResult<LogicalPlan> {
    let none = DFSchema::empty();
    let mut rows = Vec::with_capacity(values.values.len());
    for row in values.values {
        let exprs = row.into_iter().zip(values.schema.fields()).map(|(expr, field)| {
            let same = expr.get_type(&none).is_ok_and(|ty| ty == *field.data_type());
            let expr = if same { expr } else { expr.cast_to(field.data_type(), &none)? };
            Ok(expr.alias(field.name()))
        });
        let exprs = exprs.collect::<DfResult<Vec<_>>>()?;
        rows.push(Arc::new(LogicalPlanBuilder::empty(true).project(exprs)?.build()?));
    }
    Ok(match &rows[..] {
        [only] => only.as_ref().clone(),
        _ => LogicalPlan::Union(Union::try_new_with_loose_types(rows)?),
    })
}

/// The plan with such VALUES as queries.
pub(crate) fn with_queries(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Values(values) if has_subquery(&values)? => {
            Ok(Transformed::yes(rows_of(values)?))
        }
        other => Ok(Transformed::no(other)),
    })?;
    Ok(done.data)
}
