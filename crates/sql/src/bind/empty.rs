//! Queries over catalog views that have no rows here and never will: their result is empty whatever
//! else they ask, and
//! much of what they ask (arrays, lateral calls) exists only in PostgreSQL.

use super::{Binder, object_parts, output_name};
use crate::Result;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, GroupByExpr, Ident, JoinOperator, Query, Select, SelectItem, SetExpr,
    TableFactor, TableWithJoins, Value,
};

/// Whether a table in FROM is a view without rows.
fn is_empty_view(factor: &TableFactor) -> bool {
    let TableFactor::Table { name, args: None, .. } = factor else { return false };
    let Ok(parts) = object_parts(name) else { return false };
    match &parts[..] {
        [name] => crate::catalog::is_empty_view(name),
        [schema, name] if schema == "pg_catalog" => crate::catalog::is_empty_view(name),
        _ => false,
    }
}

/// Whether the rows of `from` must come from an empty view.
fn from_is_empty(from: &TableWithJoins) -> bool {
    let inner = |operator: &JoinOperator| {
        matches!(
            operator,
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_)
        )
    };
    let keeps_left = |operator: &JoinOperator| {
        inner(operator) || matches!(operator, JoinOperator::Left(_) | JoinOperator::LeftOuter(_))
    };
    let all_keep = from.joins.iter().all(|join| keeps_left(&join.join_operator));
    let joined =
        from.joins.iter().any(|join| inner(&join.join_operator) && is_empty_view(&join.relation));
    all_keep && (joined || is_empty_view(&from.relation))
}

/// A select list of names only, if the query has no rows.
fn nothing(select: &Select) -> Option<Vec<SelectItem>> {
    let plain = matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty())
        && select.having.is_none();
    if !plain || !select.from.iter().any(from_is_empty) {
        return None;
    }
    let null = || Expr::Cast {
        kind: CastKind::Cast,
        expr: Box::new(Expr::Value(Value::Null.into())),
        data_type: DataType::Text,
        array: false,
        format: None,
    };
    let mut items = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return None;
        };
        if super::subquery::has_aggregate(expr) {
            return None;
        }
        let alias = Ident::with_quote('"', output_name(item)?);
        items.push(SelectItem::ExprWithAlias { expr: null(), alias });
    }
    Some(items)
}

fn set_is_empty(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => nothing(select).is_some(),
        SetExpr::SetOperation { left, right, .. } => set_is_empty(left) && set_is_empty(right),
        _ => false,
    }
}

impl Binder<'_> {
    /// Takes the order off a query that has no rows: it may name what is no longer there.
    pub(super) fn drop_useless_order(&mut self, query: &mut Query) {
        if query.order_by.is_some() && set_is_empty(&query.body) {
            query.order_by = None;
        }
    }

    /// Replaces a query that has no rows; true if it did.
    pub(super) fn empty_select(&mut self, select: &mut Select) -> Result<bool> {
        let Some(items) = nothing(select) else { return Ok(false) };
        select.projection = items;
        select.from.clear();
        select.distinct = None;
        select.selection = Some(Expr::Value(Value::Boolean(false).into()));
        Ok(true)
    }
}
