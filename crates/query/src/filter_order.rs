//! Conditions one after another, where a later one may fail: `x <> 0 AND 10 / x > 1`.
//!
//! What it promises: the same rows; a condition that may raise an error sees only rows that those
//! before it have kept, as in PostgreSQL. What it must never do: touch a filter none of whose
//! conditions can fail.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::{PhysicalExpr, conjunction, split_conjunction};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::filter::{FilterExec, FilterExecBuilder};
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct FilterOrder;

/// Whether the expression raises an error for no row.
fn cannot_fail(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let mut safe = true;
    let walked = expr.apply(|part| {
        safe &= match part.downcast_ref::<BinaryExpr>() {
            Some(binary) => matches!(
                binary.op(),
                Operator::Eq
                    | Operator::NotEq
                    | Operator::Lt
                    | Operator::LtEq
                    | Operator::Gt
                    | Operator::GtEq
                    | Operator::IsDistinctFrom
                    | Operator::IsNotDistinctFrom
                    | Operator::And
                    | Operator::Or
            ),
            None => {
                part.is::<Column>()
                    || part.is::<Literal>()
                    || part.is::<NotExpr>()
                    || part.is::<IsNullExpr>()
                    || part.is::<IsNotNullExpr>()
                    || part.is::<InListExpr>()
                    || part.is::<LikeExpr>()
            }
        };
        Ok(if safe { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    });
    walked.is_ok() && safe
}

/// The filter as several, the innermost of which has what cannot fail.
fn in_steps(filter: &FilterExec) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let conditions = split_conjunction(filter.predicate());
    let (safe, risky): (Vec<_>, Vec<_>) =
        conditions.iter().copied().partition(|condition| cannot_fail(condition));
    if risky.is_empty() || conditions.len() < 2 {
        return Ok(None);
    }
    let mut input = filter.input().clone();
    let mut steps = Vec::new();
    if !safe.is_empty() {
        steps.push(conjunction(safe.into_iter().cloned()));
    }
    steps.extend(risky.into_iter().cloned());
    let last = steps.pop();
    for step in steps {
        input = Arc::new(FilterExec::try_new(step, input)?);
    }
    let Some(last) = last else { return Ok(None) };
    let outermost = FilterExecBuilder::from(filter).with_predicate(last).with_input(input);
    Ok(Some(Arc::new(outermost.build()?)))
}

impl PhysicalOptimizerRule for FilterOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let done = plan.transform_up(|node| {
            let stepped = match node.downcast_ref::<FilterExec>() {
                Some(filter) => in_steps(filter)?,
                None => None,
            };
            Ok(match stepped {
                Some(stepped) => Transformed::yes(stepped),
                None => Transformed::no(node),
            })
        })?;
        Ok(done.data)
    }

    fn name(&self) -> &'static str {
        "filter_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
