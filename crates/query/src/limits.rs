//! LIMIT and OFFSET whose amounts are computed from parameters: `LIMIT $1::int`, `LIMIT $1 + 1`.
//!
//! The library wants constants there when it makes a physical plan, and folds expressions only
//! while the parameters are still unknown.
//!
//! What it promises: nothing but amounts changes. An amount that is no constant stays, and the
//! library refuses it.

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchema, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{EmptyRelation, Expr, Limit, LogicalPlan, cast};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::create_physical_expr;
use std::sync::Arc;

/// The plan, whose parameters have values, with the amounts worked out.
///
/// # Errors
/// What the expressions give.
pub(crate) fn with_amounts(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Limit(limit) = node else { return Ok(Transformed::no(node)) };
        let open = |amount: &Option<Box<Expr>>| {
            amount.as_ref().is_some_and(|expr| !matches!(**expr, Expr::Literal(..)))
        };
        if !open(&limit.skip) && !open(&limit.fetch) && !is_nothing(&limit.fetch) {
            return Ok(Transformed::no(LogicalPlan::Limit(limit)));
        }
        let Limit { skip, fetch, input } = limit;
        let (skip, fetch) = (amount(skip)?, amount(fetch)?);
        // The library sorts for the first rows, of which there is at least one.
        Ok(Transformed::yes(match is_nothing(&fetch) {
            true => LogicalPlan::EmptyRelation(EmptyRelation {
                produce_one_row: false,
                schema: input.schema().clone(),
            }),
            false => LogicalPlan::Limit(Limit { skip, fetch, input }),
        }))
    })?;
    Ok(done.data)
}

fn amount(expr: Option<Box<Expr>>) -> DfResult<Option<Box<Expr>>> {
    let Some(expr) = expr else { return Ok(None) };
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    let expr = simplifier.simplify(cast(*expr, DataType::Int64))?;
    if !matches!(expr, Expr::Literal(..)) && !expr.exists(|part| Ok(is_open(part)))? {
        // It is left as it is where working it out fails, and is refused as no constant then.
        let schema = Arc::new(Schema::empty());
        let options = RecordBatchOptions::new().with_row_count(Some(1));
        let row = RecordBatch::try_new_with_options(schema, Vec::new(), &options)?;
        let (props, planning) = (ExecutionProps::new(), PhysicalPlanningContext::default());
        create_physical_expr(&expr, &DFSchema::empty(), &props, &planning)?.evaluate(&row)?;
    }
    Ok(Some(Box::new(expr)))
}

/// Whether an amount that is known is 0.
fn is_nothing(amount: &Option<Box<Expr>>) -> bool {
    use ScalarValue::{Int16, Int32, Int64};
    let Some(Expr::Literal(value, _)) = amount.as_deref() else { return false };
    matches!(value, Int16(Some(0)) | Int32(Some(0)) | Int64(Some(0)))
}

fn is_open(expr: &Expr) -> bool {
    !matches!(expr, Expr::Literal(..) | Expr::ScalarFunction(_) | Expr::Cast(_))
}
