//! Order and equality where Arrow's are not PostgreSQL's: intervals compare by their length, jsonb
//! and arrays by their rules, json not at all.
//!
//! What it promises: ORDER BY, GROUP BY, DISTINCT, joins and lists of such values go by what
//! PostgreSQL takes for equal ('1 day' and '24 hours', 1.0 and 1); where that cannot be had, the
//! query is refused. How: wherever the library would compare values, it is given keys of them.

use crate::error::{PgError, Result};
use crate::expr_planner::{adopt, as_double, as_doubles, as_text};
use crate::functions::RowFunction;
use crate::json::Json;
use crate::looked_for::{made_alike, made_alike_inside};
use crate::sides::{beside_char, is_padded};
use crate::types::{arrow_type, col_type_of};
use crate::wire::FormatEnv;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, DFSchema};
use datafusion::error::Result as DfResult;
use datafusion::functions_aggregate::first_last::first_value;
use datafusion::logical_expr::expr::{
    AggregateFunction, BinaryExpr, Case, InList, InSubquery, ScalarFunction, SetComparison, Sort,
};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    Aggregate, Between, Distinct, Expr, ExprSchemable, LogicalPlan, Operator, Projection,
    WindowFunctionDefinition,
};
use kernel::row::{ColType, Datum, TypeKind, Value};
use std::sync::Arc;

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
        Some(TypeKind::Array) => {
            let bytea = ColType::new(TypeKind::Bytea);
            RowFunction::new("$array_key", Some(1), bytea, true, |args| match &args[0] {
                Datum::Array(bytes) => Ok(Value::Bytea(crate::array::array_key(bytes)?.into())),
                _ => Err(PgError::internal("the key of an array")),
            })
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

/// The plan with such keys wherever values are compared.
///
/// # Errors
/// 42883 or 0A000 where values are compared that cannot be.
pub fn with_order_keys(plan: LogicalPlan, env: FormatEnv) -> Result<LogicalPlan> {
    Ok(plan.transform_up_with_subqueries(|node| rewrite(node, env))?.data)
}

pub(crate) fn kind_of(expr: &Expr, schema: &DFSchema) -> Option<TypeKind> {
    let ty = expr.get_type(schema).ok()?;
    kind_of_type(&ty)
}

fn kind_of_type(ty: &DataType) -> Option<TypeKind> {
    let found = col_type_of(ty)?;
    // Lists of one type go by several names of their elements.
    (found.kind == TypeKind::Array || arrow_type(found) == *ty).then_some(found.kind)
}

/// Whether values are compared by keys.
pub(crate) const fn keyed(kind: Option<TypeKind>) -> bool {
    matches!(kind, Some(TypeKind::Interval | TypeKind::Jsonb | TypeKind::Array))
}

pub(crate) fn key_of(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    if !keyed(kind_of(&expr, schema)) {
        return Ok(expr);
    }
    let ty = expr.get_type(schema)?;
    Ok(order_key(expr, &ty))
}

fn no_ordering() -> PgError {
    PgError::new("42883", "could not identify an ordering operator for type json")
        .with_hint("Use an explicit ordering operator or modify the query.")
}

fn no_equality() -> PgError {
    PgError::new("42883", "could not identify an equality operator for type json")
}

/// Keys in place of what is sorted by.
fn key_sorts(all: &mut [Sort], schema: &DFSchema) -> DfResult<()> {
    for one in all {
        if kind_of(&one.expr, schema) == Some(TypeKind::Json) {
            return Err(no_ordering().into());
        }
        one.expr = key_of(one.expr.clone(), schema)?;
    }
    Ok(())
}

fn rewrite(plan: LogicalPlan, env: FormatEnv) -> DfResult<Transformed<LogicalPlan>> {
    let plan = rewrite_exprs(plan, env)?;
    Ok(Transformed::yes(match plan {
        LogicalPlan::Sort(mut sort) => {
            key_sorts(&mut sort.expr, sort.input.schema())?;
            LogicalPlan::Sort(sort)
        }
        LogicalPlan::Aggregate(aggregate) => grouped(aggregate)?,
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let schema = input.schema().clone();
            if schema.fields().iter().any(|f| kind_of_type(f.data_type()) == Some(TypeKind::Json)) {
                return Err(no_equality().into());
            }
            if !schema.fields().iter().any(|f| keyed(kind_of_type(f.data_type()))) {
                return Ok(Transformed::no(LogicalPlan::Distinct(Distinct::All(input))));
            }
            let columns = schema.columns().into_iter().map(Expr::Column).collect();
            grouped(Aggregate::try_new(input, columns, Vec::new())?)?
        }
        LogicalPlan::Distinct(Distinct::On(mut on)) => {
            let schema = on.input.schema().clone();
            for expr in &mut on.on_expr {
                if kind_of(expr, &schema) == Some(TypeKind::Json) {
                    return Err(no_equality().into());
                }
                *expr = key_of(expr.clone(), &schema)?;
            }
            if let Some(sorts) = &mut on.sort_expr {
                key_sorts(sorts, &schema)?;
            }
            LogicalPlan::Distinct(Distinct::On(on))
        }
        LogicalPlan::Join(mut join) => {
            for (left, right) in &mut join.on {
                if kind_of(left, join.left.schema()) == Some(TypeKind::Json) {
                    return Err(no_equality().into());
                }
                *left = key_of(left.clone(), join.left.schema())?;
                *right = key_of(right.clone(), join.right.schema())?;
            }
            LogicalPlan::Join(join)
        }
        other => other,
    }))
}

/// GROUP BY of keys: of each group the value of its first row is shown.
fn grouped(aggregate: Aggregate) -> DfResult<LogicalPlan> {
    let input = aggregate.input.schema().clone();
    let (mut any, mut sets) = (false, false);
    for expr in &aggregate.group_expr {
        let parts: Vec<&Expr> = match expr {
            Expr::GroupingSet(set) => {
                sets = true;
                set.distinct_expr()
            }
            other => vec![other],
        };
        for part in parts {
            let kind = kind_of(part, &input);
            if kind == Some(TypeKind::Json) {
                return Err(no_equality().into());
            }
            any |= keyed(kind);
        }
    }
    if !any {
        return Ok(LogicalPlan::Aggregate(aggregate));
    }
    if sets {
        let what = "grouping sets of intervals, jsonb or arrays";
        return Err(PgError::unsupported(what).into());
    }
    let mut group = Vec::with_capacity(aggregate.group_expr.len());
    let mut shown = aggregate.aggr_expr.clone();
    let mut names = Vec::with_capacity(group.capacity());
    for (at, expr) in aggregate.group_expr.iter().enumerate() {
        if keyed(kind_of(expr, &input)) {
            let (key, value) = (format!("$group{at}"), format!("$value{at}"));
            group.push(key_of(expr.clone().unalias(), &input)?.alias(key));
            shown.push(first_value(expr.clone().unalias(), Vec::new()).alias(&value));
            names.push(Some(value));
        } else {
            group.push(expr.clone());
            names.push(None);
        }
    }
    let made = Aggregate::try_new(aggregate.input.clone(), group, shown)?;
    let made = Arc::new(LogicalPlan::Aggregate(made));
    let columns: Vec<Expr> = aggregate
        .schema
        .iter()
        .enumerate()
        .map(|(at, (qualifier, field))| match names.get(at) {
            Some(Some(value)) => Expr::Column(Column::from_name(value))
                .alias_qualified(qualifier.cloned(), field.name()),
            _ => Expr::Column(Column::new(qualifier.cloned(), field.name())),
        })
        .collect();
    Ok(LogicalPlan::Projection(Projection::try_new(columns, made)?))
}

/// Keys inside a node's expressions.
fn rewrite_exprs(plan: LogicalPlan, env: FormatEnv) -> DfResult<LogicalPlan> {
    if matches!(plan, LogicalPlan::TableScan(_) | LogicalPlan::Values(_)) {
        return Ok(plan);
    }
    let inputs = plan.inputs();
    let schema =
        if inputs.is_empty() { plan.schema().as_ref().clone() } else { merge_schema(&inputs) };
    let names = NamePreserver::new(&plan);
    let done = plan.map_expressions(|expr| {
        let saved = names.save(&expr);
        let new = expr.transform_up(|part| rewrite_expr(part, &schema, env))?;
        Ok(new.update_data(|new| saved.restore(new)))
    })?;
    Ok(done.data)
}

/// Whether one side is a floating number and another a number of a type that goes by it.
fn floats_among(expr: &Expr, others: &[Expr], schema: &DFSchema) -> bool {
    let ty = |one: &Expr| one.get_type(schema).unwrap_or(DataType::Null);
    others.iter().any(|other| as_doubles(&ty(expr), &ty(other)))
}

fn double(expr: Expr, schema: &DFSchema) -> DfResult<Expr> {
    let ty = expr.get_type(schema)?;
    Ok(as_double(expr, &ty))
}

fn rewrite_expr(expr: Expr, schema: &DFSchema, env: FormatEnv) -> DfResult<Transformed<Expr>> {
    let kind = |expr: &Expr| kind_of(expr, schema);
    Ok(match expr {
        Expr::InList(InList { expr, list, negated }) if keyed(kind(&expr)) => {
            let ty = expr.get_type(schema)?;
            let list = list
                .into_iter()
                .map(|one| key_of(typed(one, &ty)?, schema))
                .collect::<DfResult<_>>()?;
            let expr = Box::new(order_key(*expr, &ty));
            Transformed::yes(Expr::InList(InList { expr, list, negated }))
        }
        // A list has one type with what is looked for in it: real with whole numbers and numerics.
        Expr::InList(InList { expr, list, negated }) if floats_among(&expr, &list, schema) => {
            let is_double = |one: &Expr| one.get_type(schema).ok() == Some(DataType::Float64);
            let of_doubles = is_double(&expr) || list.iter().any(is_double);
            let same = |one: Expr| match of_doubles {
                true => double(one, schema),
                false => Ok(datafusion::logical_expr::cast(one, DataType::Float32)),
            };
            let list = list.into_iter().map(same).collect::<DfResult<_>>()?;
            Transformed::yes(Expr::InList(InList { expr: Box::new(same(*expr)?), list, negated }))
        }
        Expr::Between(Between { expr, negated, low, high })
            if floats_among(&expr, &[(*low).clone(), (*high).clone()], schema) =>
        {
            let double = |one: Expr| double(one, schema).map(Box::new);
            let (expr, low, high) = (double(*expr)?, double(*low)?, double(*high)?);
            Transformed::yes(Expr::Between(Between { expr, negated, low, high }))
        }
        Expr::InSubquery(InSubquery { mut expr, mut subquery, negated }) => {
            let changed = made_alike(&mut expr, &mut subquery, schema, env)?;
            let new = Expr::InSubquery(InSubquery { expr, subquery, negated });
            Transformed::new_transformed(new, changed)
        }
        Expr::SetComparison(SetComparison { mut expr, mut subquery, op, quantifier }) => {
            made_alike_inside(&mut expr, &mut subquery, schema, env)?;
            Transformed::yes(Expr::SetComparison(SetComparison { expr, subquery, op, quantifier }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
                && is_padded(&left, schema) != is_padded(&right, schema) =>
        {
            let (left, right) = if is_padded(&left, schema) {
                (left, Box::new(beside_char(*right, schema, env)))
            } else {
                (Box::new(beside_char(*left, schema, env)), right)
            };
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
                && floats_among(&left, std::slice::from_ref(&right), schema) =>
        {
            let (left, right) = (double(*left, schema)?, double(*right, schema)?);
            let (left, right) = (Box::new(left), Box::new(right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right })
            if matches!(op, Operator::IsDistinctFrom | Operator::IsNotDistinctFrom)
                && (keyed(kind(&left)) || keyed(kind(&right))) =>
        {
            let (lt, rt) = (left.get_type(schema)?, right.get_type(schema)?);
            let left = key_of(typed(*left, &rt)?, schema)?;
            let right = key_of(typed(*right, &lt)?, schema)?;
            let (left, right) = (Box::new(left), Box::new(right));
            Transformed::yes(Expr::BinaryExpr(BinaryExpr { left, op, right }))
        }
        Expr::Case(Case { expr: Some(operand), when_then_expr, else_expr })
            if keyed(kind(&operand)) =>
        {
            let ty = operand.get_type(schema)?;
            let when_then_expr = when_then_expr
                .into_iter()
                .map(|(when, then)| {
                    let when = key_of(typed(*when, &ty)?, schema)?;
                    Ok((Box::new(when), then))
                })
                .collect::<DfResult<_>>()?;
            let expr = Some(Box::new(order_key(*operand, &ty)));
            Transformed::yes(Expr::Case(Case { expr, when_then_expr, else_expr }))
        }
        Expr::ScalarFunction(call)
            if matches!(call.func.name(), "greatest" | "least")
                && call.args.iter().any(|arg| keyed(kind(arg))) =>
        {
            let interval = Some(TypeKind::Interval);
            let nothing = |arg: &Expr| arg.get_type(schema).is_ok_and(|ty| ty == DataType::Null);
            if !call.args.iter().all(|arg| kind(arg) == interval || nothing(arg)) {
                let what = format!("{} of intervals, jsonb or arrays", call.func.name());
                return Err(PgError::unsupported(what).into());
            }
            let greatest = call.func.name() == "greatest";
            let own = crate::temporal::extreme(greatest).into_udf();
            Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(own, call.args)))
        }
        Expr::ScalarFunction(mut call) if matches!(call.func.name(), "concat" | "concat_ws") => {
            for arg in &mut call.args {
                let ty = arg.get_type(schema)?;
                if ty.is_temporal() || keyed(kind_of_type(&ty)) {
                    *arg = as_text(arg.clone(), Some(&ty), env);
                }
            }
            Transformed::yes(Expr::ScalarFunction(call))
        }
        // Dates and timestamps among instants are instants in the session's time zone.
        Expr::ScalarFunction(mut call)
            if matches!(call.func.name(), "coalesce" | "greatest" | "least")
                && call.args.iter().any(|arg| kind(arg) == Some(TypeKind::Timestamptz)) =>
        {
            for arg in &mut call.args {
                *arg = zoned(arg.clone(), schema, env);
            }
            Transformed::yes(Expr::ScalarFunction(call))
        }
        // The library's own gives way without a word, or with one of its own.
        Expr::Negative(inner) => match kind(&inner).and_then(crate::functions::negation) {
            Some(own) => {
                Transformed::yes(Expr::ScalarFunction(ScalarFunction::new_udf(own, vec![*inner])))
            }
            None => Transformed::no(Expr::Negative(inner)),
        },
        Expr::Case(case) => branches(case, schema, env)?,
        Expr::AggregateFunction(call) => Transformed::yes(aggregate_call(call, schema)?),
        Expr::WindowFunction(mut call) => {
            let params = &mut call.params;
            for one in &mut params.partition_by {
                if kind(one) == Some(TypeKind::Json) {
                    return Err(no_equality().into());
                }
                *one = key_of(one.clone(), schema)?;
            }
            key_sorts(&mut params.order_by, schema)?;
            if let WindowFunctionDefinition::AggregateUDF(udf) = &call.fun
                && params.args.first().is_some_and(|arg| kind(arg) == Some(TypeKind::Interval))
                && let Some(own) = crate::interval_aggregates::of_name(udf.name())
            {
                call.fun = WindowFunctionDefinition::AggregateUDF(own);
            }
            Transformed::yes(Expr::WindowFunction(call))
        }
        other => Transformed::no(other),
    })
}

/// The results of a CASE: untyped literals take the others' type.
fn branches(mut case: Case, schema: &DFSchema, env: FormatEnv) -> DfResult<Transformed<Expr>> {
    let all = || case.when_then_expr.iter().map(|(_, then)| then).chain(&case.else_expr);
    let typed = all().find_map(|one| {
        let ty = one.get_type(schema).ok()?;
        kind_of_type(&ty).filter(|kind| !kind.is_text()).map(|kind| (kind, ty))
    });
    let instants = all().any(|one| kind_of(one, schema) == Some(TypeKind::Timestamptz));
    let Some((_, ty)) = typed else { return Ok(Transformed::no(Expr::Case(case))) };
    let all = case.when_then_expr.iter_mut().map(|(_, then)| then).chain(&mut case.else_expr);
    for one in all {
        let new = adopt((**one).clone(), Some(&ty), Some(&ty), &env)?;
        **one = if instants { zoned(new, schema, env) } else { new };
    }
    Ok(Transformed::yes(Expr::Case(case)))
}

/// A date or timestamp as the instant it is in the session's time zone.
fn zoned(expr: Expr, schema: &DFSchema, env: FormatEnv) -> Expr {
    match kind_of(&expr, schema) {
        Some(TypeKind::Date | TypeKind::Timestamp) => {
            crate::functions::cast_expr(expr, ColType::new(TypeKind::Timestamptz), env)
        }
        _ => expr,
    }
}

/// An untyped literal as a value of this type; none of these depends on a time zone.
fn typed(expr: Expr, ty: &DataType) -> DfResult<Expr> {
    adopt(expr, None, Some(ty), &FormatEnv::plain())
}

fn aggregate_call(mut call: AggregateFunction, schema: &DFSchema) -> DfResult<Expr> {
    let name = call.func.name().to_owned();
    let params = &mut call.params;
    let json = matches!(&*name, "json_agg" | "jsonb_agg");
    for arg in &params.args {
        let kind = kind_of(arg, schema);
        match (&*name, kind) {
            ("sum" | "avg" | "min" | "max", Some(TypeKind::Interval)) => {
                if let Some(own) = crate::interval_aggregates::of_name(&name) {
                    call.func = own;
                }
            }
            (
                "min" | "max" | "sum" | "avg",
                Some(kind @ (TypeKind::Json | TypeKind::Jsonb | TypeKind::Uuid)),
            ) => {
                let message = format!("function {name}({}) does not exist", ColType::new(kind));
                return Err(PgError::new("42883", message).with_hint(NO_FUNCTION_HINT).into());
            }
            ("min" | "max", Some(TypeKind::Array)) => {
                let what = format!("{name} of arrays");
                return Err(PgError::unsupported(what).into());
            }
            ("sum" | "avg", Some(TypeKind::Time)) => {
                let what = format!("{name} of times");
                return Err(PgError::unsupported(what).into());
            }
            _ if params.distinct && kind == Some(TypeKind::Json) => {
                return Err(no_equality().into());
            }
            ("count", kind) if params.distinct && keyed(kind) => {}
            (_, kind) if params.distinct && keyed(kind) && !json => {
                let what = format!("{name} of distinct intervals, jsonb or arrays");
                return Err(PgError::unsupported(what).into());
            }
            _ => {}
        }
    }
    if name == "count" && params.distinct {
        let args = std::mem::take(&mut params.args);
        params.args = args.into_iter().map(|arg| key_of(arg, schema)).collect::<DfResult<_>>()?;
    }
    if matches!(&*name, "array_agg" | "string_agg") && params.distinct {
        // PostgreSQL sorts them to find what is distinct.
        if params.order_by.is_empty() {
            params.order_by.push(Sort::new(params.args[0].clone(), true, false));
        }
        call.func = crate::distinct_lists::of(call.func.clone());
    }
    if json && params.distinct {
        // They take rows with one key for one.
        let arg = params.args[0].clone();
        if params.order_by.is_empty() {
            params.order_by.push(Sort::new(arg, true, false));
        } else if params.order_by.iter().any(|one| one.expr != arg) {
            let message = "in an aggregate with DISTINCT, ORDER BY expressions must appear in \
                           argument list";
            return Err(PgError::new("42P10", message).into());
        }
    }
    key_sorts(&mut params.order_by, schema)?;
    Ok(Expr::AggregateFunction(call))
}

const NO_FUNCTION_HINT: &str = "No function matches the given name and argument types. You might \
                                need to add explicit type casts.";
