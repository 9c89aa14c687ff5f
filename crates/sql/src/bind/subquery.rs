//! Scalar subqueries in the form DataFusion can plan: an aggregate whose correlated conditions are
//! equalities.
//!
//! What it promises: the value stays the same. A condition on outer columns alone moves out into a
//! CASE; where an
//! inner column equals an outer one, it stands for it in the other conditions.

use super::{ident_name, object_parts};
use crate::bind::expr::call;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, GroupByExpr, Ident, OrderBy, OrderByKind, Query, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, visit_expressions,
    visit_expressions_mut,
};
use std::ops::ControlFlow;

pub(super) const AGGREGATES: &[&str] = &[
    "approx_distinct",
    "array_agg",
    "avg",
    "bit_and",
    "bit_or",
    "bit_xor",
    "bool_and",
    "bool_or",
    "corr",
    "count",
    "covar_pop",
    "covar_samp",
    "every",
    "first_value",
    "json_agg",
    "json_object_agg",
    "jsonb_agg",
    "jsonb_object_agg",
    "last_value",
    "max",
    "median",
    "min",
    "mode",
    "nth_value",
    "percentile_cont",
    "percentile_disc",
    "regr_avgx",
    "regr_avgy",
    "regr_count",
    "regr_intercept",
    "regr_r2",
    "regr_slope",
    "regr_sxx",
    "regr_sxy",
    "regr_syy",
    "stddev",
    "stddev_pop",
    "stddev_samp",
    "string_agg",
    "sum",
    "var_pop",
    "var_samp",
    "variance",
];

/// Rewrites the scalar subquery `expr`.
pub(super) fn as_single_value(expr: &mut Expr) {
    let Expr::Subquery(query) = expr else { return };
    if !make_aggregate(query) {
        return;
    }
    let outer = take_outer_conditions(query);
    if let Some(condition) = and_all(outer) {
        let result = expr.clone();
        *expr = Expr::Case {
            case_token: AttachedToken::empty(),
            end_token: AttachedToken::empty(),
            operand: None,
            conditions: vec![CaseWhen { condition, result }],
            else_result: None,
        };
    }
}

/// Rewrites EXISTS as a count: DataFusion plans it only as a condition.
pub(super) fn as_count(expr: &mut Expr) -> Result<()> {
    let Expr::Exists { subquery, negated } = expr else { return Ok(()) };
    let negated = *negated;
    let mut query = subquery.clone();
    let refuse = || Err(PgError::unsupported("this EXISTS in a select list"));
    if query.with.is_some() || query.limit_clause.is_some() || query.fetch.is_some() {
        return refuse();
    }
    let order_by = query.order_by.take();
    let SetExpr::Select(select) = &mut *query.body else { return refuse() };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    if grouped || select.having.is_some() || has_other_rows(&select.projection, &order_by) {
        return refuse();
    }
    select.distinct = None;
    let count = crate::direct::parse_expr("count(*)")?;
    select.projection = vec![SelectItem::UnnamedExpr(count)];
    let op = if negated { BinaryOperator::Eq } else { BinaryOperator::Gt };
    *expr = Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(Expr::Subquery(query)),
        op,
        right: Box::new(super::expr::number("0")),
    }));
    Ok(())
}

/// Whether a query may have other rows than its tables: an aggregate makes one of them all, and
/// functions give sets. A call of any function is taken for one of these.
fn has_other_rows(shown: &[SelectItem], order_by: &Option<OrderBy>) -> bool {
    let calls = |expr: &Expr| crate::outside::any(expr, |part| matches!(part, Expr::Function(_)));
    let sorted = match order_by.as_ref().map(|order| &order.kind) {
        None => false,
        Some(OrderByKind::Expressions(all)) => all.iter().any(|one| calls(&one.expr)),
        Some(OrderByKind::All(_)) => true,
    };
    sorted
        || shown.iter().any(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => calls(expr),
            SelectItem::Wildcard(_) => false,
            SelectItem::QualifiedWildcard(kind, _) => {
                !matches!(kind, SelectItemQualifiedWildcardKind::ObjectName(_))
            }
            SelectItem::ExprWithAliases { .. } => true,
        })
}

/// Makes a plain query an aggregate that is an error for several rows.
fn make_aggregate(query: &mut Query) -> bool {
    let bare = query.with.is_none() && query.limit_clause.is_none() && query.fetch.is_none();
    let SetExpr::Select(select) = &mut *query.body else { return false };
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    if !bare
        || grouped
        || select.having.is_some()
        || select.distinct.is_some()
        || select.from.is_empty()
    {
        return false;
    }
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        &mut select.projection[..]
    else {
        return false;
    };
    if has_aggregate(item) {
        return false;
    }
    query.order_by = None;
    *item = call(query::single::SINGLE, vec![item.clone()]);
    true
}

/// Whether an aggregate or window function is called in it, queries inside it aside.
pub(super) fn has_aggregate(expr: &Expr) -> bool {
    crate::outside::any(expr, |part| {
        let Expr::Function(function) = part else { return false };
        let name = object_parts(&function.name).ok().and_then(|mut parts| parts.pop());
        name.is_some_and(|name| is_aggregate(&name)) || function.over.is_some()
    })
}

/// Whether a function of this name is one over many rows.
pub(super) fn is_aggregate(name: &str) -> bool {
    AGGREGATES.contains(&name) || query::keep::aggregate_of(name).is_some()
}

fn split_and(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            split_and(*left, out);
            split_and(*right, out);
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => {
            split_and(*inner, out);
        }
        other => out.push(other),
    }
}

fn and_all(all: Vec<Expr>) -> Option<Expr> {
    all.into_iter().reduce(|left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    })
}

/// Names that qualify the subquery's own columns.
fn inner_names(query: &Query) -> Option<Vec<String>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let mut names = Vec::new();
    for from in &select.from {
        for factor in std::iter::once(&from.relation).chain(from.joins.iter().map(|j| &j.relation))
        {
            names.push(match factor {
                TableFactor::Table { alias: Some(alias), .. }
                | TableFactor::Derived { alias: Some(alias), .. } => ident_name(&alias.name),
                TableFactor::Table { name, alias: None, .. } => object_parts(name).ok()?.pop()?,
                _ => return None,
            });
        }
    }
    Some(names)
}

/// Takes the conditions on outer columns alone out of a query, and puts inner columns for outer
/// ones that equal them.
fn take_outer_conditions(query: &mut Query) -> Vec<Expr> {
    let Some(inner) = inner_names(query) else { return Vec::new() };
    let SetExpr::Select(select) = &mut *query.body else { return Vec::new() };
    let Some(selection) = select.selection.take() else { return Vec::new() };
    let mut all = Vec::new();
    split_and(selection, &mut all);
    let (outer, mut kept): (Vec<Expr>, Vec<Expr>) =
        all.into_iter().partition(|one| is_outer_only(one, &inner));
    let equal: Vec<(usize, Expr, Expr)> = kept
        .iter()
        .enumerate()
        .filter_map(|(i, one)| {
            let (outer, own) = equality(one, &inner)?;
            Some((i, outer, own))
        })
        .collect();
    for (i, one) in kept.iter_mut().enumerate() {
        for (from, outer, own) in &equal {
            if *from != i {
                replace_in(one, outer, own);
            }
        }
    }
    select.selection = and_all(kept);
    outer
}

fn is_own(parts: &[Ident], inner: &[String]) -> bool {
    parts.len() >= 2 && inner.contains(&ident_name(&parts[parts.len() - 2]))
}

/// Whether every column in it is qualified by a name that is not the subquery's own.
fn is_outer_only(expr: &Expr, inner: &[String]) -> bool {
    let mut columns = 0;
    let foreign = visit_expressions(expr, |part| match part {
        Expr::CompoundIdentifier(parts) if !is_own(parts, inner) => {
            columns += 1;
            ControlFlow::Continue(())
        }
        Expr::Identifier(_)
        | Expr::CompoundIdentifier(_)
        | Expr::Subquery(_)
        | Expr::Exists { .. }
        | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_continue();
    foreign && columns > 0
}

/// The sides of `outer = inner`.
fn equality(expr: &Expr, inner: &[String]) -> Option<(Expr, Expr)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = expr else { return None };
    match (&**left, &**right) {
        (Expr::CompoundIdentifier(a), Expr::CompoundIdentifier(b)) => {
            match (is_own(a, inner), is_own(b, inner)) {
                (true, false) => Some((*right.clone(), *left.clone())),
                (false, true) => Some((*left.clone(), *right.clone())),
                _ => None,
            }
        }
        _ => None,
    }
}

fn replace_in(expr: &mut Expr, from: &Expr, to: &Expr) {
    let _: ControlFlow<()> = visit_expressions_mut(expr, |part| {
        if part == from {
            *part = to.clone();
        }
        ControlFlow::Continue(())
    });
}
