//! EXCEPT ALL and INTERSECT ALL.
//!
//! The library joins by all columns and forgets how often a row is there. Here the rows that are
//! the same are numbered on both sides, and joined by their numbers too.
//!
//! What it promises: a row is there as often as SQL says, NULLs being the same.

use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, JoinType, NullEquality, Result as DfResult};
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::WindowFunction;
use datafusion::logical_expr::{
    Expr, Join, LogicalPlan, LogicalPlanBuilder, WindowFunctionDefinition,
};
use std::sync::Arc;

/// The columns that number the rows of both sides.
const NUMBERS: [&str; 2] = ["$left number", "$right number"];

/// The plan with numbered rows below its EXCEPT ALL and INTERSECT ALL.
pub(crate) fn with_numbers(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if counts(&join) => Ok(Transformed::yes(numbered(&join)?)),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(done.data)
}

/// Whether it is one that goes by how often a row is there: of rows that are all different, as
/// without ALL, it does not matter.
fn counts(join: &Join) -> bool {
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && !matches!(&*join.left, LogicalPlan::Distinct(_))
}

fn numbered(join: &Join) -> DfResult<LogicalPlan> {
    let side = |plan: &Arc<LogicalPlan>, name: &str| {
        let columns: Vec<Expr> = plan.schema().columns().into_iter().map(Expr::Column).collect();
        let function = WindowFunctionDefinition::WindowUDF(row_number_udwf());
        let mut number = WindowFunction::new(function, Vec::new());
        number.params.partition_by.clone_from(&columns);
        let number = Expr::from(number).alias(name);
        LogicalPlanBuilder::from(plan.as_ref().clone()).window(vec![number])?.build()
    };
    let columns = join.left.schema().columns();
    let (left, right) = (side(&join.left, NUMBERS[0])?, side(&join.right, NUMBERS[1])?);
    let number = |at: usize| Expr::Column(Column::new_unqualified(NUMBERS[at]));
    let mut on = join.on.clone();
    on.push((number(0), number(1)));
    let joined = Join::try_new(
        Arc::new(left),
        Arc::new(right),
        on,
        join.filter.clone(),
        join.join_type,
        join.join_constraint,
        join.null_equality,
        join.null_aware,
    )?;
    let own = columns.into_iter().map(Expr::Column);
    LogicalPlanBuilder::from(LogicalPlan::Join(joined)).project(own)?.build()
}
