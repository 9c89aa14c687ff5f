//! Arrays, as far as clients' queries on the catalog have them: there is no type for them yet.
//!
//! What it promises: `ARRAY(query)` is an aggregate over the query, a literal is its elements. What
//! it must never do: read an element of a stored value.

use super::build::{call, string, text_of};
use crate::bind::{object_parts, refuse};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments,
    OrderByKind, Query, SelectItem, SetExpr, TableFactor, TableFunctionArgs,
};

/// `ARRAY(SELECT ... FROM unnest(column))`, or `... WHERE x = ANY (column)`: the only columns that
/// hold arrays are
/// those of the catalog that are always NULL, so that the column stands for the result.
pub(super) fn unnested_column(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = &*query.body else { return None };
    if let Some(Expr::AnyOp { right, .. }) = &select.selection {
        let column = match &**right {
            Expr::Nested(inner) => &**inner,
            other => other,
        };
        if matches!(column, Expr::CompoundIdentifier(_)) {
            return Some(column.clone());
        }
    }
    let [from] = &select.from[..] else { return None };
    let TableFactor::Table { name, args: Some(TableFunctionArgs { args, .. }), .. } =
        &from.relation
    else {
        return None;
    };
    let unnest = object_parts(name).ok()?.pop()? == "unnest";
    match &args[..] {
        [
            FunctionArg::Unnamed(FunctionArgExpr::Expr(
                column @ (Expr::Identifier(_) | Expr::CompoundIdentifier(_)),
            )),
        ] if unnest => Some(column.clone()),
        _ => None,
    }
}

/// `ARRAY(query)`: the query's one column becomes an aggregate.
pub(super) fn collect_into_array(query: &mut Query) -> Result<()> {
    let order = query.order_by.take();
    let SetExpr::Select(select) = &mut *query.body else {
        return refuse("ARRAY of a set operation");
    };
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        &mut select.projection[..]
    else {
        return Err(PgError::syntax("subquery must return only one column"));
    };
    let mut aggregate = call("array_agg", vec![item.clone()]);
    if let (Expr::Function(function), Some(order)) = (&mut aggregate, order)
        && let FunctionArguments::List(list) = &mut function.args
        && let OrderByKind::Expressions(all) = order.kind
    {
        // A position means the one column.
        let all = all.into_iter().map(|mut one| {
            if matches!(one.expr, Expr::Value(_)) {
                one.expr = item.clone();
            }
            one
        });
        list.clauses.push(FunctionArgumentClause::OrderBy(all.collect()));
    }
    *item = aggregate;
    Ok(())
}

/// The elements of `ARRAY[...]` or `'{...}'`.
pub(super) fn array_items(expr: &Expr) -> Option<Vec<Expr>> {
    match expr {
        Expr::Nested(inner) => array_items(inner),
        Expr::Array(array) => Some(array.elem.clone()),
        Expr::Cast { expr, data_type: DataType::Array(_), .. } => array_items(expr),
        other => {
            let body = text_of(other)?.strip_prefix('{')?.strip_suffix('}')?;
            if body.is_empty() {
                return Some(Vec::new());
            }
            Some(body.split(',').map(|item| string(item.trim().trim_matches('"'))).collect())
        }
    }
}
