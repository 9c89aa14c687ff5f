//! Plans of statements whose parameters have no values: they are looked at, and never run.
//!
//! What it promises: the steps that a plan for any values has. Conditions of scans keep their
//! parameters, as in plans that serve all executions; elsewhere a call stands for a value, and an
//! amount of rows is more than a table has. What it must never do: show a value that nobody has
//! given.

use crate::types::{PgType, arrow_type, field_with_meta};
use datafusion::arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{Placeholder, ScalarFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, Limit, LogicalPlan, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, Volatility,
};
use datafusion::prelude::lit;
use kernel::row::{ColType, TypeKind};
use std::sync::Arc;

/// What the names of such calls begin with; the number of the parameter follows.
pub(crate) const UNBOUND: &str = "$bind_";

/// Rows of a LIMIT that is a parameter: no less than there are, so that it has its step and no
/// more.
const ANY_ROWS: i64 = 1 << 40;
/// Rows of such an OFFSET.
const SOME_ROWS: i64 = 1;

/// Stands for the value of a parameter.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Unbound {
    name: String,
    field: FieldRef,
    signature: Signature,
}

impl ScalarUDFImpl for Unbound {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(self.field.data_type().clone())
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(self.field.clone())
    }

    // The rows of VALUES are worked out when their step is made.
    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(ColumnarValue::Scalar(ScalarValue::try_from(self.field.data_type())?))
    }
}

fn call_for(parameter: &Placeholder, types: &[ColType]) -> Expr {
    let number = parameter.id.trim_start_matches('$');
    let at = number.parse::<usize>().ok().and_then(|number| number.checked_sub(1));
    let ty = at.and_then(|at| types.get(at)).copied().unwrap_or(ColType::new(TypeKind::Text));
    let function = Unbound {
        name: format!("{UNBOUND}{number}"),
        field: Arc::new(field_with_meta("", arrow_type(ty), PgType::of(ty))),
        signature: Signature::nullary(Volatility::Stable),
    };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    Expr::ScalarFunction(ScalarFunction::new_udf(function, Vec::new()))
}

fn has_parameter(expr: &Expr) -> DfResult<bool> {
    expr.exists(|part| Ok(matches!(part, Expr::Placeholder(_))))
}

fn amount(expr: Option<Box<Expr>>, any: i64) -> DfResult<Option<Box<Expr>>> {
    let Some(expr) = expr else { return Ok(None) };
    Ok(Some(if has_parameter(&expr)? { Box::new(lit(any)) } else { expr }))
}

/// The plan of a query whose parameters are of these types.
///
/// # Errors
/// The library's.
pub(crate) fn without_values(plan: LogicalPlan, types: &[ColType]) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        if matches!(node, LogicalPlan::TableScan(_)) {
            return Ok(Transformed::no(node));
        }
        if let LogicalPlan::Limit(Limit { skip, fetch, input }) = node {
            let (skip, fetch) = (amount(skip, SOME_ROWS)?, amount(fetch, ANY_ROWS)?);
            return Ok(Transformed::yes(LogicalPlan::Limit(Limit { skip, fetch, input })));
        }
        let names = NamePreserver::new(&node);
        let node = node.map_expressions(|expr| {
            if !has_parameter(&expr)? {
                return Ok(Transformed::no(expr));
            }
            let saved = names.save(&expr);
            let done = expr.transform_up(|part| {
                Ok(match part {
                    Expr::Placeholder(parameter) => Transformed::yes(call_for(&parameter, types)),
                    other => Transformed::no(other),
                })
            })?;
            Ok(done.update_data(|expr| saved.restore(expr)))
        })?;
        node.map_data(LogicalPlan::recompute_schema)
    })?;
    Ok(done.data)
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::logical_expr::LogicalPlanBuilder;

    #[test]
    fn parameters_become_calls_of_their_types_and_amounts_large() {
        let parameter =
            |id: &str| Expr::Placeholder(Placeholder::new_with_field(id.to_owned(), None));
        let plan = LogicalPlanBuilder::empty(true)
            .project(vec![parameter("$2")])
            .and_then(|plan| plan.limit_by_expr(Some(parameter("$3")), Some(parameter("$1"))))
            .and_then(LogicalPlanBuilder::build)
            .expect("a plan");
        let types = [TypeKind::Int8, TypeKind::Int4, TypeKind::Int8].map(ColType::new);
        let plan = without_values(plan, &types).expect("the plan without values");
        let shown = plan.display_indent().to_string();
        assert!(shown.contains("skip=1, fetch=1099511627776"), "{shown}");
        assert!(shown.contains("$bind_2() AS $2"), "{shown}");
        assert_eq!(plan.schema().field(0).data_type(), &DataType::Int32);
    }
}
