//! WITH RECURSIVE: the first query's columns and the repeated one's are to be the same fields. And
//! subqueries in place of a value, whose fields are to be such as can be NULL.
//!
//! What it promises: the columns keep their types; which table they come from, and that the first
//! query's are never NULL, is forgotten.

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result as DfResult;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, Projection, RecursiveQuery, ReturnFieldArgs,
    ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// The value as it is, as a field without a past. Volatile, so that it is not seen through.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Plain {
    signature: Signature,
}

impl ScalarUDFImpl for Plain {
    fn name(&self) -> &'static str {
        "$plain"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> DfResult<DataType> {
        Ok(types[0].clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        Ok(Arc::new(Field::new(self.name(), args.arg_fields[0].data_type().clone(), true)))
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Ok(args.args.swap_remove(0))
    }
}

fn plain_columns(term: &Arc<LogicalPlan>) -> DfResult<Arc<LogicalPlan>> {
    let function = Plain { signature: Signature::any(1, Volatility::Volatile) };
    let function = Arc::new(ScalarUDF::new_from_impl(function));
    let plain = |column: datafusion::common::Column| {
        let name = column.name.clone();
        let value = ScalarFunction::new_udf(function.clone(), vec![Expr::Column(column)]);
        Expr::ScalarFunction(value).alias(name)
    };
    let columns = term.schema().columns().into_iter().map(plain).collect();
    Ok(Arc::new(LogicalPlan::Projection(Projection::try_new(columns, term.clone())?)))
}

/// The plan with scalar subqueries that may be NULL where they may have no row: the library takes
/// one for what its column is.
///
/// # Errors
/// The library's.
pub(crate) fn with_nullable_subqueries(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let node = node.map_expressions(|expr| {
            expr.transform_up(|part| {
                let Expr::ScalarSubquery(mut query) = part else {
                    return Ok(Transformed::no(part));
                };
                let never_null = query.subquery.schema().fields().iter().any(|f| !f.is_nullable());
                // One that is correlated becomes an outer join.
                let alone = query.outer_ref_columns.is_empty();
                if !never_null || !alone || crate::sure_rows::has_a_row(&query.subquery) {
                    return Ok(Transformed::no(Expr::ScalarSubquery(query)));
                }
                query.subquery = plain_columns(&query.subquery)?;
                Ok(Transformed::yes(Expr::ScalarSubquery(query)))
            })
        })?;
        if node.transformed { node.map_data(LogicalPlan::recompute_schema) } else { Ok(node) }
    })?;
    if rewritten.transformed {
        // What reads those columns knows them by their fields.
        let again = rewritten
            .data
            .transform_up_with_subqueries(|node| node.recompute_schema().map(Transformed::yes))?;
        return Ok(again.data);
    }
    Ok(rewritten.data)
}

/// The plan with plain columns in its recursive queries.
///
/// # Errors
/// The library's.
pub(crate) fn with_plain_recursion(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let rewritten = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::RecursiveQuery(recursive) = node else {
            return Ok(Transformed::no(node));
        };
        let static_term = plain_columns(&recursive.static_term)?;
        let query = RecursiveQuery {
            schema: static_term.schema().clone(),
            static_term,
            recursive_term: plain_columns(&recursive.recursive_term)?,
            ..recursive
        };
        Ok(Transformed::yes(LogicalPlan::RecursiveQuery(query)))
    })?;
    Ok(rewritten.data)
}
