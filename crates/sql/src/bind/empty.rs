//! Queries over catalog views that have no rows here and never will: their result is empty whatever
//! else they ask, and
//! much of what they ask (arrays, lateral calls) exists only in PostgreSQL.

use super::{Binder, object_parts, output_name};
use crate::Result;
use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, GroupByExpr, Ident, JoinOperator, Query, Select, SelectItem, SetExpr,
    SetOperator, TableFactor, TableWithJoins, Value,
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

/// A call for the partitions a table is part of: there are none.
fn asks_for_partitions(select: &Select) -> bool {
    let [SelectItem::UnnamedExpr(Expr::Function(function))] = &select.projection[..] else {
        return false;
    };
    let name = object_parts(&function.name).ok().and_then(|mut parts| parts.pop());
    select.from.is_empty() && name.as_deref() == Some("pg_partition_ancestors")
}

fn null_of(data_type: DataType) -> Expr {
    let null = Box::new(Expr::Value(Value::Null.into()));
    Expr::Cast { kind: CastKind::Cast, expr: null, data_type, array: false, format: None }
}

/// A select list of names only, if the query has no rows.
fn nothing(select: &Select) -> Option<Vec<SelectItem>> {
    if asks_for_partitions(select) {
        let alias = Ident::with_quote('"', "pg_partition_ancestors");
        let expr = null_of(DataType::BigInt(None));
        return Some(vec![SelectItem::ExprWithAlias { expr, alias }]);
    }
    let plain = matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty())
        && select.having.is_none();
    if !plain || !select.from.iter().any(from_is_empty) {
        return None;
    }
    let mut items = Vec::with_capacity(select.projection.len());
    for item in &select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            return None;
        };
        if super::subquery::has_aggregate(expr) {
            return None;
        }
        let alias = Ident::with_quote('"', output_name(item)?);
        let expr = null_for(expr, select)?;
        items.push(SelectItem::ExprWithAlias { expr, alias });
    }
    Some(items)
}

/// NULL in place of what a query without rows shows: of its type where that matters beside others.
fn null_for(expr: &Expr, select: &Select) -> Option<Expr> {
    let column = match expr {
        // A subquery that stands for a value.
        Expr::Function(function) => {
            let name = object_parts(&function.name).ok()?.pop()?;
            return match super::expr::plain_args(function).as_deref() {
                Ok([value]) if name == query::single::SINGLE => null_for(value, select),
                _ => Some(null_of(DataType::Text)),
            };
        }
        // The number of an object, which the other side's rows do not show by its name.
        Expr::Cast { data_type, .. } if data_type.to_string().to_lowercase().starts_with("reg") => {
            return Some(null_of(DataType::BigInt(None)));
        }
        Expr::Cast { data_type, .. } => return Some(null_of(data_type.clone())),
        Expr::Identifier(name) => super::ident_name(name),
        Expr::CompoundIdentifier(parts) => super::ident_name(parts.last()?),
        _ => return Some(null_of(DataType::Text)),
    };
    let joined = |from| {
        let TableWithJoins { relation, joins }: &TableWithJoins = from;
        std::iter::once(relation).chain(joins.iter().map(|join| &join.relation))
    };
    let ty = select.from.iter().flat_map(joined).find_map(|factor| {
        let TableFactor::Table { name, args: None, .. } = factor else { return None };
        let view = object_parts(name).ok()?.pop()?;
        crate::catalog::empty_column(&view, &column)
    });
    match ty {
        Some(ty) => crate::direct::parse_expr(&format!("null::{ty}")).ok(),
        // Of a view that has rows: of any type.
        None => Some(Expr::Value(Value::Null.into())),
    }
}

fn set_is_empty(body: &SetExpr) -> bool {
    match body {
        SetExpr::Select(select) => nothing(select).is_some(),
        SetExpr::SetOperation { left, right, .. } => set_is_empty(left) && set_is_empty(right),
        _ => false,
    }
}

impl Binder<'_> {
    /// Leaves out the part of a union that asks for a table's partitions; what stays is one value.
    pub(super) fn drop_partitions(&mut self, query: &mut Query) {
        if let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = &*query.body
            && let SetExpr::Select(select) = &**left
            && asks_for_partitions(select)
            && let SetExpr::Values(values) = &**right
            && let [row] = &values.rows[..]
            && let [value] = &row.content[..]
        {
            let mut select = select.clone();
            select.projection = vec![SelectItem::UnnamedExpr(value.clone())];
            *query.body = SetExpr::Select(select);
        }
    }

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
