//! VALUES with subqueries in it, or calls of stored functions and sequences, which the library
//! works out while it plans, when nothing has run. With literals that have no type beside values
//! that have one. And with floating numbers beside others.
//!
//! What it promises: the rows in their order, of the types that they have as VALUES; a literal
//! takes the type of its column. What it must never do: touch other VALUES.

use crate::error::PgError;
use crate::expr_planner::adopt;
use crate::floats;
use crate::row_calls;
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::DFSchema;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::logical_plan::{Union, Values};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, LogicalPlan, LogicalPlanBuilder, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use std::sync::Arc;

/// What stands around a literal without a type until that of its column is known. It is in no plan
/// that is run.
pub const UNTYPED: &str = "$untyped";

#[derive(Debug, PartialEq, Eq, Hash)]
struct Untyped {
    signature: Signature,
}

/// The function.
pub(crate) fn untyped() -> Arc<ScalarUDF> {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Untyped { signature }))
}

impl ScalarUDFImpl for Untyped {
    fn name(&self) -> &'static str {
        UNTYPED
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(DataType::Null)
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Err(PgError::internal("a literal without a type").into())
    }
}

/// Such a literal, and the type that the library has found for its column.
fn literal_of(expr: &Expr) -> Option<(&Expr, Option<&DataType>)> {
    match expr {
        Expr::Cast(cast) => {
            literal_of(&cast.expr).map(|(literal, _)| (literal, Some(cast.field.data_type())))
        }
        Expr::ScalarFunction(call) if call.func.name() == UNTYPED => {
            call.args.first().map(|literal| (literal, None))
        }
        _ => None,
    }
}

fn has_untyped(values: &Values) -> bool {
    values.values.iter().flatten().any(|expr| literal_of(expr).is_some())
}

/// VALUES with its literals in their types. One with more digits than the others gives its column
/// as many.
fn with_literals(values: Values, env: &FormatEnv) -> DfResult<Values> {
    let mut rows = Vec::with_capacity(values.values.len());
    for row in values.values {
        let typed = row.into_iter().map(|expr| match literal_of(&expr) {
            Some((literal, ty)) => adopt(literal.clone(), None, ty, env),
            None => Ok(expr),
        });
        rows.push(typed.collect::<DfResult<Vec<Expr>>>()?);
    }
    rebuilt(rows)
}

/// VALUES with columns of floating numbers where the library has taken numerics for what floating
/// ones and others have in common; `None`: there are none.
fn with_floats(values: &Values) -> DfResult<Option<Values>> {
    let none = DFSchema::empty();
    let mut rows: Option<Vec<Vec<Expr>>> = None;
    for (at, field) in values.schema.fields().iter().enumerate() {
        // The library has put casts around what was of another type.
        let written = |expr: &Expr| match expr {
            Expr::Cast(cast) if cast.field.data_type() == field.data_type() => {
                Some(cast.expr.as_ref().clone())
            }
            _ => None,
        };
        let is_float = |row: &Vec<Expr>| {
            let ty = written(&row[at]).map(|expr| expr.get_type(&none));
            matches!(ty, Some(Ok(DataType::Float32 | DataType::Float64)))
        };
        let of_numerics = matches!(field.data_type(), DataType::Decimal128(..));
        if !of_numerics || !values.values.iter().any(is_float) {
            continue;
        }
        let rows = rows.get_or_insert_with(|| values.values.clone());
        for row in rows.iter_mut() {
            if let Some(expr) = written(&row[at]) {
                row[at] = expr;
            }
        }
        floats::made_alike(rows.iter_mut().map(|row| &mut row[at]).collect(), &none, false)?;
    }
    rows.map(rebuilt).transpose()
}

fn rebuilt(rows: Vec<Vec<Expr>>) -> DfResult<Values> {
    match LogicalPlanBuilder::values(rows)?.build()? {
        LogicalPlan::Values(values) => Ok(values),
        _ => Err(PgError::internal("VALUES became something else").into()),
    }
}

/// Whether a function is called for each row, beside what the library works out.
fn has_call(values: &Values) -> DfResult<bool> {
    let mut all = values.values.iter().flatten();
    all.try_fold(false, |found, expr| Ok(found || row_calls::has_call(expr)?))
}

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

/// The plan with such VALUES as queries, and with typed literals in them.
///
/// # Errors
/// 22P02 and its like for a literal that its column's type does not have.
pub(crate) fn with_queries(plan: LogicalPlan, env: FormatEnv) -> DfResult<LogicalPlan> {
    let mut changed = false;
    let done = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Values(mut values) => {
            let untyped = has_untyped(&values);
            if untyped {
                let schema = values.schema.clone();
                values = with_literals(values, &env)?;
                changed |= values.schema != schema;
            }
            let floats = with_floats(&values)?;
            let is_new = untyped || floats.is_some();
            if let Some(floats) = floats {
                values = floats;
                changed = true;
            }
            if has_subquery(&values)? || has_call(&values)? {
                return rows_of(values).map(Transformed::yes);
            }
            let plan = LogicalPlan::Values(values);
            Ok(if is_new { Transformed::yes(plan) } else { Transformed::no(plan) })
        }
        // What stands above may show other types now.
        other if changed => other.recompute_schema().map(Transformed::yes),
        other => Ok(Transformed::no(other)),
    })?;
    Ok(done.data)
}
