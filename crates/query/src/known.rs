//! Which of the library's functions may be called by name.
//!
//! What it promises: a name that the library has and PostgreSQL has not, or has with another
//! meaning, is no function here.

use crate::error::Result;
use crate::functions::Typed;
use crate::types::{arrow_type, col_type_of};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::execution::FunctionRegistry;
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, ExprSchemable, LogicalPlan};
use kernel::row::{ColType, TypeKind};
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
    if call.name().starts_with("$any_") || call.name().starts_with("$all_") {
        return compared_with_items(call, schema).map(|()| Transformed::yes(expr));
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
            *arg = typed(&p.id, arrow_type(ColType::new(kind)));
        }
    }
    Ok(Transformed::yes(expr))
}

/// `x op ANY (array)`: an untyped parameter on one side has the type that the other asks for.
fn compared_with_items(call: &mut ScalarFunction, schema: &DFSchema) -> DfResult<()> {
    let [one, items] = &mut call.args[..] else { return Ok(()) };
    if let Expr::Placeholder(p) = items
        && p.field.is_none()
    {
        let known = one.to_field(schema)?.1;
        if let Some(element) = col_type_of(known.data_type()).filter(|ty| holds(ty.kind)) {
            *items = typed(&p.id, arrow_type(ColType::array_of(element.kind)));
        }
    } else if let Expr::Placeholder(p) = one
        && p.field.is_none()
        && let DataType::List(element) = items.to_field(schema)?.1.data_type()
    {
        *one = typed(&p.id, element.data_type().clone());
    }
    Ok(())
}

/// Whether there are arrays of this type.
const fn holds(kind: TypeKind) -> bool {
    !matches!(kind, TypeKind::Array | TypeKind::Enum)
}

fn typed(id: &str, ty: DataType) -> Expr {
    let field = Field::new("", ty, true);
    Expr::Placeholder(Placeholder::new_with_field(id.to_owned(), Some(Arc::new(field))))
}
