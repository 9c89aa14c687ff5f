//! Types of the columns of UNION: an untyped literal takes that of the other side.
//!
//! What it promises: a literal that is no value of that type is 22P02. What it must never do: make
//! texts of numbers because one side has a literal in quotes.

use crate::expr_planner::adopt;
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, Union};
use std::sync::Arc;

/// The plan with typed literals in its unions.
pub(crate) fn with_set_types(plan: LogicalPlan, env: FormatEnv) -> DfResult<LogicalPlan> {
    let mut changed = false;
    let rewrite = |node: LogicalPlan| -> DfResult<Transformed<LogicalPlan>> {
        match node {
            LogicalPlan::Union(union) => {
                let inputs = adopted(&union, env)?;
                if inputs.is_none() && !changed {
                    return Ok(Transformed::no(LogicalPlan::Union(union)));
                }
                changed = true;
                let inputs = inputs.unwrap_or(union.inputs);
                let union = Union::try_new_with_loose_types(inputs)?;
                Ok(Transformed::yes(LogicalPlan::Union(union)))
            }
            // What stands above may show other types now.
            other if changed => other.recompute_schema().map(Transformed::yes),
            other => Ok(Transformed::no(other)),
        }
    };
    Ok(plan.transform_up_with_subqueries(rewrite)?.data)
}

/// What a branch shows in a column, if it is a plain list of expressions.
fn shown(branch: &LogicalPlan, at: usize) -> Option<&Expr> {
    let LogicalPlan::Projection(list) = branch else { return None };
    let mut expr = list.expr.get(at)?;
    while let Expr::Alias(alias) = expr {
        expr = &alias.expr;
    }
    Some(expr)
}

/// Whether a column has the type of nothing yet.
pub(crate) fn is_untyped(branch: &LogicalPlan, at: usize) -> bool {
    match shown(branch, at) {
        Some(Expr::Literal(ScalarValue::Utf8(Some(_)), _)) => true,
        Some(Expr::Placeholder(parameter)) => parameter.field.is_none(),
        _ => *branch.schema().field(at).data_type() == DataType::Null,
    }
}

/// The branches with literals and parameters of the other branch's type; `None`: there are none.
fn adopted(union: &Union, env: FormatEnv) -> DfResult<Option<Vec<Arc<LogicalPlan>>>> {
    let [left, right] = &union.inputs[..] else { return Ok(None) };
    let width = left.schema().fields().len();
    if right.schema().fields().len() != width {
        return Ok(None);
    }
    let mut branches = [None, None];
    for at in 0..width {
        match (is_untyped(left, at), is_untyped(right, at)) {
            (true, true) | (false, false) => {}
            (own, _) => {
                let (from, to) = if own { (0, right) } else { (1, left) };
                let ty = to.schema().field(at).data_type();
                let old = if own { left } else { right };
                let list = branches[from].take().or_else(|| match &**old {
                    LogicalPlan::Projection(list) => Some(list.expr.clone()),
                    _ => None,
                });
                let Some(mut list) = list else { continue };
                list[at] = with_type(list[at].clone(), ty, &env)?;
                branches[from] = Some(list);
            }
        }
    }
    if branches.iter().all(Option::is_none) {
        return Ok(None);
    }
    let mut out = Vec::with_capacity(2);
    for (branch, list) in [left, right].into_iter().zip(branches) {
        out.push(match (&**branch, list) {
            (LogicalPlan::Projection(old), Some(list)) => {
                let new = Projection::try_new(list, old.input.clone())?;
                Arc::new(LogicalPlan::Projection(new))
            }
            _ => branch.clone(),
        });
    }
    Ok(Some(out))
}

fn with_type(expr: Expr, ty: &DataType, env: &FormatEnv) -> DfResult<Expr> {
    let name = expr.schema_name().to_string();
    let inner = expr.unalias();
    let new = adopt(inner, None, Some(ty), env)?;
    Ok(if new.schema_name().to_string() == name { new } else { new.alias(name) })
}
