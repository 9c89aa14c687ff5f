//! Types that do not go together, though the library would find one for both: branches of CASE and
//! of set operations, arguments of COALESCE, values beside subqueries, conditions that are none.
//!
//! What it promises: PostgreSQL's error before anything is read. What it must never do: complain of
//! an untyped literal or parameter, which takes the type that is wanted.

use crate::error::PgError;
use crate::expr_planner::{apart, no_operator, shown_type};
use crate::functions::RowFunction;
use crate::set_types::{branch, is_set_operation, is_untyped};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, JoinType, ScalarValue};
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::expr::{Case, InSubquery, SetComparison};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable, LogicalPlan, Operator};
use datafusion::sql::sqlparser::ast::BinaryOperator;
use std::sync::Arc;

/// Checks a plan as it was written.
///
/// # Errors
/// 42804 for types that cannot be matched, 42883 for a comparison that there is not.
pub(crate) fn check(plan: &LogicalPlan) -> DfResult<()> {
    plan.apply_with_subqueries(|node| {
        // Made for the few nodes that have something to check.
        let mut schema = None;
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                if is_checked(part) {
                    let schema = match &mut schema {
                        Some(schema) => schema,
                        none => none.insert(columns_of(node)?),
                    };
                    expression(part, schema)?;
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

/// What the expressions of a node are over.
fn columns_of(node: &LogicalPlan) -> DfResult<DFSchemaRef> {
    Ok(match node.inputs()[..] {
        [input] => input.schema().clone(),
        [left, right] if matches!(node, LogicalPlan::Join(_)) => {
            Arc::new(left.schema().join(right.schema())?)
        }
        _ => node.schema().clone(),
    })
}

fn is_checked(expr: &Expr) -> bool {
    matches!(
        expr,
        Expr::Case(_)
            | Expr::ScalarFunction(_)
            | Expr::BinaryExpr(BinaryExpr { op: Operator::And | Operator::Or, .. })
            | Expr::Not(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
    )
}

/// Checks the branches of set operations, before anything is put between them.
///
/// # Errors
/// 42804 for types that cannot be matched.
pub(crate) fn check_sets(plan: &LogicalPlan) -> DfResult<()> {
    plan.apply_with_subqueries(|node| {
        sets(node)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

fn unmatched(what: &str, first: &DataType, other: &DataType) -> PgError {
    let (a, b) = (shown_type(first), shown_type(other));
    PgError::new("42804", format!("{what} types {a} and {b} cannot be matched"))
}

/// The branches of UNION, INTERSECT and EXCEPT.
fn sets(node: &LogicalPlan) -> DfResult<()> {
    match node {
        LogicalPlan::Union(union) => {
            if let [left, right] = &union.inputs[..] {
                branches("UNION", left, right)?;
            }
        }
        LogicalPlan::Join(join) if is_set_operation(join) => {
            let what = if join.join_type == JoinType::LeftSemi { "INTERSECT" } else { "EXCEPT" };
            branches(what, &join.left, &join.right)?;
        }
        _ => {}
    }
    Ok(())
}

fn branches(what: &str, left: &LogicalPlan, right: &LogicalPlan) -> DfResult<()> {
    let joined = what != "UNION";
    let (left, right) = (branch(left, joined), branch(right, joined));
    let (a, b) = (left.schema().fields(), right.schema().fields());
    for (at, (a, b)) in a.iter().zip(b).enumerate() {
        let (a, b) = (a.data_type(), b.data_type());
        if apart(a, b) && !is_untyped(left, at) && !is_untyped(right, at) {
            return Err(unmatched(what, a, b).into());
        }
    }
    Ok(())
}

/// The type of an expression, where it is to be had without looking far into it.
fn type_of(expr: &Expr, schema: &DFSchema) -> Option<DataType> {
    let shallow = |args: &[Expr]| args.iter().all(is_leaf);
    let found = match expr {
        Expr::Alias(alias) => type_of(&alias.expr, schema),
        Expr::Negative(inner) => type_of(inner, schema),
        Expr::Literal(ScalarValue::Utf8(_), _) => None,
        Expr::Placeholder(parameter) => {
            parameter.field.as_ref().map(|field| field.data_type().clone())
        }
        Expr::Column(_) | Expr::Literal(..) | Expr::OuterReferenceColumn(..) => {
            expr.get_type(schema).ok()
        }
        Expr::Cast(cast) => Some(cast.field.data_type().clone()),
        Expr::ScalarSubquery(query) => {
            query.subquery.schema().fields().first().map(|field| field.data_type().clone())
        }
        Expr::ScalarFunction(call) => match RowFunction::type_of(call) {
            Some(ty) => Some(ty),
            None if shallow(&call.args) => expr.get_type(schema).ok(),
            None => None,
        },
        Expr::AggregateFunction(call) if shallow(&call.params.args) => expr.get_type(schema).ok(),
        Expr::BinaryExpr(binary) if gives_truth(binary.op) => Some(DataType::Boolean),
        Expr::Not(_)
        | Expr::Like(_)
        | Expr::Between(_)
        | Expr::InList(_)
        | Expr::Exists(_)
        | Expr::InSubquery(_)
        | Expr::SetComparison(_)
        | Expr::IsNull(_)
        | Expr::IsNotNull(_) => Some(DataType::Boolean),
        _ => None,
    };
    found.filter(|ty| *ty != DataType::Null)
}

fn gives_truth(op: Operator) -> bool {
    op.is_logic_operator() || op.supports_propagation()
}

fn is_leaf(expr: &Expr) -> bool {
    match expr {
        Expr::Column(_) | Expr::Literal(..) | Expr::OuterReferenceColumn(..) => true,
        Expr::Cast(cast) => is_leaf(&cast.expr),
        _ => false,
    }
}

fn expression(expr: &Expr, schema: &DFSchema) -> DfResult<()> {
    match expr {
        Expr::Case(case) => of_case(case, schema)?,
        Expr::ScalarFunction(call) => {
            let what = match call.name() {
                "coalesce" => "COALESCE",
                "greatest" => "GREATEST",
                "least" => "LEAST",
                "make_array" => "ARRAY",
                _ => return Ok(()),
            };
            alike(what, call.args.iter(), schema)?;
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            for side in [left, right] {
                condition(&op.to_string(), side, schema)?;
            }
        }
        Expr::Not(inner) => condition("NOT", inner, schema)?,
        Expr::InSubquery(InSubquery { expr, subquery, .. }) => {
            beside(expr, Operator::Eq, &subquery.subquery, schema)?;
        }
        Expr::SetComparison(SetComparison { expr, subquery, op, .. }) => {
            beside(expr, *op, &subquery.subquery, schema)?;
        }
        _ => {}
    }
    Ok(())
}

/// The result that stands last counts first, as in PostgreSQL.
fn of_case(case: &Case, schema: &DFSchema) -> DfResult<()> {
    for (when, _) in &case.when_then_expr {
        match &case.expr {
            None => condition("CASE/WHEN", when, schema)?,
            Some(value) => {
                let types = (type_of(value, schema), type_of(when, schema));
                if let (Some(a), Some(b)) = types
                    && apart(&a, &b)
                {
                    return Err(no_operator(&BinaryOperator::Eq, &a, &b).into());
                }
            }
        }
    }
    let results = case.when_then_expr.iter().map(|(_, then)| &**then);
    alike("CASE", case.else_expr.as_deref().into_iter().chain(results), schema)
}

fn alike<'a>(what: &str, all: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> DfResult<()> {
    let mut types = all.filter_map(|expr| type_of(expr, schema));
    let Some(first) = types.next() else { return Ok(()) };
    match types.find(|ty| apart(&first, ty)) {
        Some(other) => Err(unmatched(what, &first, &other).into()),
        None => Ok(()),
    }
}

fn condition(what: &str, expr: &Expr, schema: &DFSchema) -> DfResult<()> {
    match type_of(expr, schema) {
        Some(ty) if ty != DataType::Boolean => {
            let ty = shown_type(&ty);
            let text = format!("argument of {what} must be type boolean, not type {ty}");
            Err(PgError::new("42804", text).into())
        }
        _ => Ok(()),
    }
}

/// A value compared with what a query gives.
fn beside(value: &Expr, op: Operator, query: &LogicalPlan, schema: &DFSchema) -> DfResult<()> {
    let Some(own) = type_of(value, schema) else { return Ok(()) };
    let Some(other) = query.schema().fields().first().map(|field| field.data_type()) else {
        return Ok(());
    };
    if apart(&own, other) && !is_untyped(query, 0) {
        let op = match op {
            Operator::NotEq => BinaryOperator::NotEq,
            Operator::Lt => BinaryOperator::Lt,
            Operator::LtEq => BinaryOperator::LtEq,
            Operator::Gt => BinaryOperator::Gt,
            Operator::GtEq => BinaryOperator::GtEq,
            _ => BinaryOperator::Eq,
        };
        return Err(no_operator(&op, &own, other).into());
    }
    Ok(())
}
