//! Which of the library's functions may be called by name.
//!
//! What it promises: a name that the library has and PostgreSQL has not, or has with another
//! meaning, is no function here.

use crate::error::Result;
use crate::functions::Typed;
use crate::types::arrow_type;
use datafusion::arrow::datatypes::{Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::Placeholder;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use kernel::row::ColType;
use std::sync::Arc;

/// Functions of the library that do what PostgreSQL's of this name do.
const SCALARS: &[&str] =
    &["coalesce", "get_field", "greatest", "least", "make_array", "nullif", "random"];

const AGGREGATES: &[&str] = &[
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "count",
    "first_value",
    "grouping",
    "last_value",
    "max",
    "min",
    "nth_value",
    "percentile_cont",
    "string_agg",
    "sum",
];

const WINDOWS: &[&str] = &[
    "cume_dist",
    "dense_rank",
    "first_value",
    "lag",
    "last_value",
    "lead",
    "nth_value",
    "ntile",
    "percent_rank",
    "rank",
    "row_number",
];

/// Takes all other functions off.
///
/// # Errors
/// The library's.
pub(crate) fn keep_known(state: &mut SessionState) -> Result<()> {
    let others = |all: Vec<&String>, known: &[&str]| -> Vec<String> {
        all.into_iter().filter(|name| !known.contains(&name.as_str())).cloned().collect()
    };
    for name in others(state.scalar_functions().keys().collect(), SCALARS) {
        state.deregister_udf(&name)?;
    }
    for name in others(state.aggregate_functions().keys().collect(), AGGREGATES) {
        state.deregister_udaf(&name)?;
    }
    for name in others(state.window_functions().keys().collect(), WINDOWS) {
        state.deregister_udwf(&name)?;
    }
    for name in others(state.higher_order_functions().keys().collect(), &[]) {
        state.deregister_higher_order_function(&name)?;
    }
    Ok(())
}

/// The plan with the types that functions give to untyped parameters.
///
/// # Errors
/// The library's.
pub(crate) fn with_parameter_types(plan: LogicalPlan) -> Result<LogicalPlan> {
    let typed = plan.transform_up_with_subqueries(|node| {
        let schema = merge_schema(&node.inputs());
        node.map_expressions(|expr| expr.transform_up(|part| give_types(part, &schema)))
    })?;
    Ok(typed.data)
}

fn give_types(mut expr: Expr, schema: &DFSchema) -> DfResult<Transformed<Expr>> {
    let untyped = |arg: &Expr| matches!(arg, Expr::Placeholder(p) if p.field.is_none());
    let Expr::ScalarFunction(call) = &mut expr else { return Ok(Transformed::no(expr)) };
    if !call.args.iter().any(untyped) {
        return Ok(Transformed::no(expr));
    }
    let Some(function) = call.func.inner().downcast_ref::<Typed>() else {
        return Ok(Transformed::no(expr));
    };
    let fields = call
        .args
        .iter()
        .map(|arg| arg.to_field(schema).map(|(_, field)| field))
        .collect::<DfResult<Vec<FieldRef>>>()?;
    let kinds = function.parameter_types(&fields);
    for (arg, kind) in call.args.iter_mut().zip(kinds) {
        if let (Expr::Placeholder(p), Some(kind)) = (&mut *arg, kind)
            && p.field.is_none()
        {
            let field = Field::new("", arrow_type(ColType::new(kind)), true);
            *arg =
                Expr::Placeholder(Placeholder::new_with_field(p.id.clone(), Some(Arc::new(field))));
        }
    }
    Ok(Transformed::yes(expr))
}
