//! Order where Arrow's is not PostgreSQL's: intervals compare by their length, jsonb by its rules,
//! json not at all.
//!
//! What it promises: ORDER BY of such values is PostgreSQL's; where order matters and cannot be
//! had, the query is refused.

use crate::error::{PgError, Result};
use crate::functions::RowFunction;
use crate::json::Json;
use crate::types::{arrow_type, col_type_of};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{ScalarFunction, WindowFunction};
use datafusion::logical_expr::{Distinct, Expr, ExprSchemable, LogicalPlan};
use kernel::row::{ColType, Datum, TypeKind, Value};

/// What values of these types are compared by; the expression itself where Arrow's order is right.
pub fn order_key(expr: Expr, ty: &DataType) -> Expr {
    let kind = col_type_of(ty).map(|ty| ty.kind);
    let function = match kind {
        Some(TypeKind::Interval) => {
            let numeric = ColType::new(TypeKind::Numeric);
            RowFunction::new("$interval_key", Some(1), numeric, true, |args| match &args[0] {
                Datum::Interval(v) => Ok(Value::Numeric(v.span_us(), 0)),
                _ => Err(PgError::internal("the key of an interval")),
            })
            .with_arrow(DataType::Decimal128(38, 0))
        }
        Some(TypeKind::Jsonb) => {
            let bytea = ColType::new(TypeKind::Bytea);
            RowFunction::new("$jsonb_key", Some(1), bytea, true, |args| match &args[0] {
                Datum::Jsonb(text) => Ok(Value::Bytea(Json::parse(text)?.key().into())),
                _ => Err(PgError::internal("the key of a jsonb")),
            })
        }
        _ => return expr,
    };
    Expr::ScalarFunction(ScalarFunction::new_udf(function.into_udf(), vec![expr]))
}

/// The plan with such keys in its sorts.
///
/// # Errors
/// 42883 or 0A000 where values are compared that cannot be.
pub fn with_order_keys(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(rewrite)?.data)
}

fn kind_of(expr: &Expr, input: &LogicalPlan) -> Option<TypeKind> {
    let ty = expr.get_type(input.schema()).ok()?;
    col_type_of(&ty).filter(|found| arrow_type(*found) == ty).map(|found| found.kind)
}

fn no_operator(what: &str) -> PgError {
    PgError::new("42883", format!("could not identify an {what} operator for type json"))
}

fn rewrite(plan: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    match plan {
        LogicalPlan::Sort(mut sort) => {
            for one in &mut sort.expr {
                if kind_of(&one.expr, &sort.input) == Some(TypeKind::Json) {
                    return Err(no_operator("ordering").into());
                }
                let ty = one.expr.get_type(sort.input.schema())?;
                one.expr = order_key(one.expr.clone(), &ty);
            }
            Ok(Transformed::yes(LogicalPlan::Sort(sort)))
        }
        LogicalPlan::Aggregate(aggregate) => {
            let input = &aggregate.input;
            if aggregate.group_expr.iter().any(|e| kind_of(e, input) == Some(TypeKind::Json)) {
                return Err(no_operator("equality").into());
            }
            for expr in &aggregate.aggr_expr {
                check_aggregate(expr, input)?;
            }
            Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)))
        }
        LogicalPlan::Distinct(distinct) => {
            let input = match &distinct {
                Distinct::All(input) => input,
                Distinct::On(on) => &on.input,
            };
            let json = arrow_type(ColType::new(TypeKind::Json));
            if input.schema().fields().iter().any(|f| *f.data_type() == json) {
                return Err(no_operator("equality").into());
            }
            Ok(Transformed::no(LogicalPlan::Distinct(distinct)))
        }
        LogicalPlan::Window(window) => {
            for expr in &window.window_expr {
                check_window(expr, &window.input)?;
            }
            Ok(Transformed::no(LogicalPlan::Window(window)))
        }
        other => Ok(Transformed::no(other)),
    }
}

fn keyed(kind: Option<TypeKind>) -> bool {
    matches!(kind, Some(TypeKind::Interval | TypeKind::Json | TypeKind::Jsonb))
}

fn check_aggregate(expr: &Expr, input: &LogicalPlan) -> Result<()> {
    let Expr::AggregateFunction(call) = expr.clone().unalias() else { return Ok(()) };
    let name = call.func.name().to_owned();
    for arg in &call.params.args {
        let kind = kind_of(arg, input);
        match (name.as_str(), kind) {
            ("min" | "max", Some(TypeKind::Interval)) => {
                return Err(PgError::unsupported(format!("{name} of intervals")));
            }
            (
                "min" | "max" | "sum" | "avg",
                Some(kind @ (TypeKind::Json | TypeKind::Jsonb | TypeKind::Uuid)),
            ) => {
                let shown = ColType::new(kind);
                let message = format!("function {name}({shown}) does not exist");
                return Err(PgError::new("42883", message));
            }
            ("sum" | "avg", Some(TypeKind::Interval | TypeKind::Time)) => {
                return Err(PgError::unsupported(format!("{name} of times and intervals")));
            }
            _ if call.params.distinct && kind == Some(TypeKind::Json) => {
                return Err(no_operator("equality"));
            }
            _ => {}
        }
    }
    let mut order = call.params.order_by.iter();
    if order.any(|one| keyed(kind_of(&one.expr, input))) {
        return Err(PgError::unsupported("an aggregate in the order of intervals or json"));
    }
    Ok(())
}

fn check_window(expr: &Expr, input: &LogicalPlan) -> Result<()> {
    let Expr::WindowFunction(call) = expr.clone().unalias() else { return Ok(()) };
    let WindowFunction { params, .. } = *call;
    let mut parts = params.order_by.iter().map(|one| &one.expr).chain(&params.partition_by);
    if parts.any(|one| keyed(kind_of(one, input))) {
        return Err(PgError::unsupported("a window over intervals or json"));
    }
    Ok(())
}
