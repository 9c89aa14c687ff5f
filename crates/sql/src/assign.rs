//! Whether what a statement gives a column may be stored in it without a cast being written.
//!
//! What it promises: an expression of a type that PostgreSQL would not store is refused before
//! anything runs. What it must never do: refuse a literal, whose type is the column's.

use crate::bind::ident_name;
use crate::bind::scalar::assignable;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Parens, Query, SelectItem, SetExpr, TableFactor, UnaryOperator, Value,
};
use kernel::dict::ColumnDef;
use kernel::row::{ColType, TypeKind};
use query::PgColumn;
use query::functions::format_type;
use query::interval::{Fields, parse_in, push_interval};
use query::types::PgType;

/// Whether an expression takes the type of what it is assigned to.
pub(crate) fn is_untyped(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_untyped(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::DollarQuotedString(_)
                | Value::Null
                | Value::Placeholder(_)
        ),
        Expr::Identifier(_) => crate::direct::is_default(expr),
        _ => false,
    }
}

/// Whether what SET gives a column takes that column's type: also the value of a subquery that
/// shows a literal, which PostgreSQL takes for a text and the field for whatever is wanted.
pub(crate) fn is_untyped_value(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_untyped_value(inner),
        Expr::Subquery(query) => shows_literal(query),
        other => is_untyped(other),
    }
}

/// Whether the one column of a query is a literal without a type: its own, or one of several of a
/// query in FROM whose columns are named there, as SET of several columns has it.
fn shows_literal(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let [SelectItem::UnnamedExpr(shown) | SelectItem::ExprWithAlias { expr: shown, .. }] =
        &select.projection[..]
    else {
        return false;
    };
    let (parts, from) = match (shown, &select.from[..]) {
        (Expr::CompoundIdentifier(parts), [from]) if from.joins.is_empty() => (parts, from),
        _ => return is_literal(shown),
    };
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = &from.relation else {
        return false;
    };
    let wanted = parts.last().map(ident_name);
    let at = alias.columns.iter().position(|column| Some(ident_name(&column.name)) == wanted);
    let (Some(at), SetExpr::Select(inner)) = (at, &*subquery.body) else { return false };
    let literal = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            Some(is_literal(expr))
        }
        // It stands for any number of columns.
        _ => None,
    };
    let before: Vec<bool> = inner.projection.iter().map_while(literal).collect();
    before.get(at).copied().unwrap_or(false)
}

/// Whether it is a text or NULL as it is written.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_literal(inner),
        Expr::Value(value) => value.value == Value::Null || is_text(expr),
        _ => false,
    }
}

/// For each column of a query of `count` columns whether it is a literal without a type.
pub(crate) fn untyped_columns(query: &Query, count: usize) -> Vec<bool> {
    of_body(&query.body, count)
}

fn of_body(body: &SetExpr, count: usize) -> Vec<bool> {
    match body {
        SetExpr::Query(query) => untyped_columns(query, count),
        SetExpr::Select(select) => {
            let item = |item: &SelectItem| match item {
                SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                    Some(is_untyped(expr))
                }
                _ => None,
            };
            let items: Vec<Option<bool>> = select.projection.iter().map(item).collect();
            // A wildcard stands for the columns between.
            let from_left = items.iter().map_while(|one| *one);
            let mut all: Vec<bool> = from_left.take(count).collect();
            if all.len() == items.len() {
                all.resize(count, false);
                return all;
            }
            all.resize(count, false);
            for (back, one) in items.iter().rev().map_while(|one| *one).enumerate() {
                if let Some(at) = count.checked_sub(back + 1) {
                    all[at] |= one;
                }
            }
            all
        }
        SetExpr::Values(values) => {
            let any = |at| {
                let cells = values.rows.iter().filter_map(|row| row.content.get(at));
                cells.into_iter().any(|cell| {
                    is_untyped(cell)
                        && !matches!(cell, Expr::Value(value) if value.value == Value::Null)
                })
            };
            let all = |at| values.rows.iter().filter_map(|row| row.content.get(at)).all(is_untyped);
            (0..count).map(|at| any(at) || all(at)).collect()
        }
        _ => vec![false; count],
    }
}

/// 42804 if a cell of VALUES is written as of a type that cannot be stored in its column. One row
/// alone has the types that its plan says; several have what they agree on.
pub(crate) fn check_cells(query: &Query, columns: &[&ColumnDef]) -> Result<()> {
    let SetExpr::Values(values) = &*query.body else { return Ok(()) };
    if values.rows.len() < 2 {
        return Ok(());
    }
    for (cell, column) in values.rows.iter().flat_map(|row| row.content.iter().zip(columns)) {
        if let Some(kind) = written_kind(cell) {
            check(column, &crate::encode::column_of("", kind))?;
        }
    }
    Ok(())
}

/// Makes each literal of several rows of VALUES one of its column's type where something else
/// stands in the column, too: the rows become a union, in which it would take that one's. Where
/// there are literals only, each is read as its column's when it is written.
pub(crate) fn type_literals(query: &mut Query, wanted: &[ColType]) -> Result<()> {
    let SetExpr::Values(values) = &mut *query.body else { return Ok(()) };
    let rows = &mut values.rows;
    for (at, ty) in wanted.iter().enumerate() {
        let typed = |row: &Parens<Vec<Expr>>| row.content.get(at).is_some_and(|c| !is_untyped(c));
        let open = |row: &Parens<Vec<Expr>>| row.content.get(at).is_some_and(is_text);
        if !rows.iter().any(typed) || !rows.iter().any(open) {
            continue;
        }
        for cell in rows.iter_mut().filter_map(|row| row.content.get_mut(at)) {
            if let Some(text) = typed_literal(cell, *ty)? {
                *cell = text;
            } else if ty.kind.is_text() && !is_untyped(cell) {
                // Whatever it is, it is stored as a text.
                let value = std::mem::replace(cell, Expr::Value(Value::Null.into()));
                *cell = cast_to(value, "text")?;
            }
        }
    }
    Ok(())
}

fn is_text(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_text(inner),
        Expr::Value(value) => matches!(
            value.value,
            Value::SingleQuotedString(_)
                | Value::EscapedStringLiteral(_)
                | Value::DollarQuotedString(_)
        ),
        _ => false,
    }
}

fn cast_to(value: Expr, name: &str) -> Result<Expr> {
    let mut typed = crate::direct::parse_expr(&format!("null::{name}"))?;
    if let Expr::Cast { expr, .. } = &mut typed {
        **expr = value;
    }
    Ok(typed)
}

/// A text as a literal of a type, whose limits are the assignment's to say; `None`: it is no text,
/// or a type that only its column names.
fn typed_literal(expr: &Expr, ty: ColType) -> Result<Option<Expr>> {
    let text = match expr {
        Expr::Nested(inner) => return typed_literal(inner, ty),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text,
            Value::DollarQuotedString(text) => &text.value,
            _ => return Ok(None),
        },
        _ => return Ok(None),
    };
    let (text, name) = match ty.kind {
        TypeKind::Array | TypeKind::Enum => return Ok(None),
        kind if kind.is_text() => (text.clone(), "text".to_owned()),
        // What a number in it counts is for the column's fields to say.
        TypeKind::Interval => {
            let mut bytes = Vec::new();
            push_interval(parse_in(text, Fields::of(ty))?, &mut bytes);
            (String::from_utf8_lossy(&bytes).into_owned(), "interval".to_owned())
        }
        _ => (text.clone(), ty.without_limit().to_string()),
    };
    cast_to(Expr::Value(Value::SingleQuotedString(text).into()), &name).map(Some)
}

/// The type that a literal or a cast has by itself.
fn written_kind(expr: &Expr) -> Option<TypeKind> {
    match expr {
        Expr::Nested(inner) => written_kind(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr } => {
            written_kind(expr)
        }
        Expr::Value(value) => match &value.value {
            Value::Boolean(_) => Some(TypeKind::Bool),
            Value::Number(digits, _) if digits.parse::<i32>().is_ok() => Some(TypeKind::Int4),
            Value::Number(digits, _) if digits.parse::<i64>().is_ok() => Some(TypeKind::Int8),
            Value::Number(..) => Some(TypeKind::Numeric),
            _ => None,
        },
        Expr::Cast { data_type, .. } => {
            let ty = query::sqltype::col_type_of_sql(data_type).ok()??;
            let plain = ty.element().is_none() && ty.enum_type().is_none();
            plain.then_some(ty.kind)
        }
        _ => None,
    }
}

/// 42804 if values of this column of a plan cannot be stored in a column of a table.
pub(crate) fn check(column: &ColumnDef, given: &PgColumn) -> Result<()> {
    let Some(from) = given.col_type() else { return Ok(()) };
    let to = column.ty;
    let kinds = assignable(from.kind, to.kind);
    let same = from.kind != to.kind || from.enum_type().is_none() || from.is_same(to);
    let elements = match (from.element(), to.element()) {
        (Some(from), Some(to)) => assignable(from.kind, to.kind),
        _ => true,
    };
    if kinds && same && elements {
        return Ok(());
    }
    let shown = |ty: kernel::row::ColType| match ty.enum_type() {
        Some(own) => query::functions::quote_ident(&own.name),
        None => format_type(i64::from(PgType::of(ty).oid), -1),
    };
    let given = match from.enum_type() {
        Some(_) => shown(from),
        None => format_type(i64::from(given.oid), -1),
    };
    let text = format!(
        "column \"{}\" is of type {} but expression is of type {given}",
        column.name,
        shown(to)
    );
    let hint = "You will need to rewrite or cast the expression.";
    Err(PgError::new("42804", text).with_hint(hint))
}
