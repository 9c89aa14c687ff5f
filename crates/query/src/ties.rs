//! FETCH FIRST .. WITH TIES: the rows that are equal to the last one come too.
//!
//! The binder gives such a limit as a call of [`WITH_TIES`]. It becomes a filter on the rows'
//! numbers and ranks.
//!
//! What it promises: the rows are those of the limit and the last one's equals by ORDER BY, in its
//! order.

use crate::error::PgError;
use crate::functions::RowFunction;
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::functions_window::rank::rank_udwf;
use datafusion::functions_window::row_number::row_number_udwf;
use datafusion::logical_expr::expr::{ScalarFunction, Sort as SortKey, WindowFunction};
use datafusion::logical_expr::{
    Distinct, Expr, ExprFunctionExt, Limit, LogicalPlan, LogicalPlanBuilder, Projection, Sort,
    WindowFunctionDefinition, WindowUDF, cast, lit,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::sync::Arc;

/// The function whose argument is the amount.
pub const WITH_TIES: &str = "$with_ties";

/// The amount, if it is one.
pub(crate) fn amount_function() -> RowFunction {
    let int8 = ColType::new(TypeKind::Int8);
    RowFunction::new(WITH_TIES, Some(1), int8, false, |args| match &args[0] {
        // Of a parameter; who writes NULL there is told so before.
        Datum::Null => Ok(Value::Int8(i64::MAX)),
        Datum::Int8(amount) if *amount < 0 => {
            Err(PgError::new("2201W", "LIMIT must not be negative"))
        }
        Datum::Int8(amount) => Ok(Value::Int8(*amount)),
        _ => Err(PgError::internal("the amount of FETCH FIRST")),
    })
}

/// The rows to leave out.
fn skip_function() -> RowFunction {
    let int8 = ColType::new(TypeKind::Int8);
    RowFunction::new("$skip", Some(1), int8, false, |args| match &args[0] {
        Datum::Null => Ok(Value::Int8(0)),
        Datum::Int8(amount) if *amount < 0 => {
            Err(PgError::new("2201X", "OFFSET must not be negative"))
        }
        Datum::Int8(amount) => Ok(Value::Int8(*amount)),
        _ => Err(PgError::internal("the amount of OFFSET")),
    })
}

/// The plan with filters in place of such limits.
///
/// # Errors
/// 0A000 where the order is not to be had.
pub(crate) fn with_ties(plan: LogicalPlan, env: FormatEnv) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Limit(limit) if is_call(limit.fetch.as_deref()) => {
            Ok(Transformed::yes(filtered(limit, env)?))
        }
        LogicalPlan::Limit(limit) if asks(&limit)? => Ok(Transformed::yes(counted(limit, env)?)),
        node => Ok(Transformed::no(node)),
    })?;
    Ok(done.data)
}

fn is_call(fetch: Option<&Expr>) -> bool {
    matches!(fetch, Some(Expr::ScalarFunction(call)) if call.name() == WITH_TIES)
}

fn filtered(limit: Limit, env: FormatEnv) -> DfResult<LogicalPlan> {
    let Limit { skip, fetch, input } = limit;
    match Arc::unwrap_or_clone(input) {
        LogicalPlan::Sort(sort) => first_of(sort, skip, fetch, env),
        // What is sorted by is not shown.
        LogicalPlan::Projection(shown) if matches!(*shown.input, LogicalPlan::Sort(_)) => {
            let exprs = shown.expr;
            let LogicalPlan::Sort(sort) = Arc::unwrap_or_clone(shown.input) else {
                return Err(PgError::internal("a projection of sorted rows").into());
            };
            let rows = first_of(sort, skip, fetch, env)?;
            Ok(LogicalPlan::Projection(Projection::try_new(exprs, Arc::new(rows))?))
        }
        LogicalPlan::Distinct(Distinct::On(_)) => {
            Err(PgError::unsupported("FETCH FIRST WITH TIES beside DISTINCT ON").into())
        }
        // The binder has taken the order off rows that are none.
        other => Ok(LogicalPlan::Limit(Limit { skip, fetch: None, input: Arc::new(other) })),
    }
}

/// Whether an amount is what a query gives.
fn asks(limit: &Limit) -> DfResult<bool> {
    for amount in [&limit.skip, &limit.fetch].into_iter().flatten() {
        if crate::outer_join::holds_subquery(amount)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// A limit whose amounts are known only when the statement runs.
fn counted(limit: Limit, env: FormatEnv) -> DfResult<LogicalPlan> {
    let Limit { skip, fetch, input } = limit;
    // The rows come in the order in which they are numbered: that of ORDER BY, if there is one.
    let rows = Arc::unwrap_or_clone(input);
    let shown: Vec<Expr> = rows.schema().columns().into_iter().map(Expr::Column).collect();
    let number = Expr::from(WindowFunction::new(
        WindowFunctionDefinition::WindowUDF(row_number_udwf()),
        Vec::new(),
    ));
    let skip = skip.map_or_else(|| lit(0_i64), |skip| called(skip_function(), *skip, env));
    let at = cast(Expr::Column(Column::new_unqualified(NUMBER)), DataType::Int64);
    let mut wanted = at.clone().gt(skip.clone());
    if let Some(fetch) = fetch {
        wanted = wanted.and((at - skip).lt_eq(called(amount_function(), *fetch, env)));
    }
    LogicalPlanBuilder::from(rows)
        .window([number.alias(NUMBER)])?
        .filter(wanted)?
        .project(shown)?
        .build()
}

const RANK: &str = "$rank";
const NUMBER: &str = "$number";

/// A function of an amount, fractions rounded.
fn called(function: RowFunction, amount: Expr, env: FormatEnv) -> Expr {
    let amount = crate::functions::cast_expr(amount, ColType::new(TypeKind::Int8), env);
    Expr::ScalarFunction(ScalarFunction::new_udf(function.into_udf(), vec![amount]))
}

fn first_of(
    sort: Sort,
    skip: Option<Box<Expr>>,
    fetch: Option<Box<Expr>>,
    env: FormatEnv,
) -> DfResult<LogicalPlan> {
    let shown: Vec<Expr> = sort.input.schema().columns().into_iter().map(Expr::Column).collect();
    let window = |function: Arc<WindowUDF>, name: &str| -> DfResult<Expr> {
        let function = WindowFunctionDefinition::WindowUDF(function);
        let call = Expr::from(WindowFunction::new(function, Vec::new()));
        Ok(call.order_by(sort.expr.clone()).build()?.alias(name))
    };
    let all = [window(rank_udwf(), RANK)?, window(row_number_udwf(), NUMBER)?];
    let column = |name: &str| Expr::Column(Column::new_unqualified(name));
    let count = |name: &str| cast(column(name), DataType::Int64);
    let skip = skip.map_or_else(|| lit(0_i64), |skip| called(skip_function(), *skip, env));
    let amount = match fetch.map(|fetch| *fetch) {
        Some(Expr::ScalarFunction(given)) => given.args.into_iter().next(),
        _ => None,
    };
    let amount = amount.unwrap_or(Expr::Literal(ScalarValue::Int64(None), None));
    let amount = called(amount_function(), amount, env);
    let wanted = count(NUMBER)
        .gt(skip.clone())
        .and((count(RANK) - skip).lt_eq(amount.clone()))
        .and(amount.gt(lit(0_i64)));
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(sort.input))
        .window(all)?
        .filter(wanted)?
        .sort([SortKey::new(column(NUMBER), true, false)])?
        .project(shown)?
        .build()
}
