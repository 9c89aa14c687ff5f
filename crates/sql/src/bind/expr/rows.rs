//! Rows beside subqueries: `(a, b) IN (SELECT ...)`, `(a, b) = (SELECT ...)`.
//!
//! What it promises: NULL in a field counts as SQL has it. A row that is looked for in a condition
//! of its own becomes EXISTS, which a join can stand for.

use super::build::{call, string};
use super::compare::row_of;
use crate::direct::parse_expr;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Query, SelectItem, SetExpr, Value};

/// `row(a, b)` where it is a value: its fields have no names but these.
pub(super) fn as_value(fields: Vec<Expr>) -> Expr {
    let mut args = vec![Expr::Value(Value::Boolean(true).into())];
    for (i, field) in fields.into_iter().enumerate() {
        args.extend([string(format!("f{}", i + 1)), field]);
    }
    call(query::rows::ROW, args)
}

/// The subquery's columns by the names they are given here.
fn named(count: usize) -> (String, Vec<String>) {
    let names: Vec<String> = (1..=count).map(|n| format!("\"$c{n}\"")).collect();
    let qualified = names.iter().map(|name| format!("\"$q\".{name}")).collect();
    (format!("\"$q\"({})", names.join(", ")), qualified)
}

/// An error if the subquery plainly has another number of columns.
fn check_width(query: &Query, wanted: usize) -> Result<()> {
    let SetExpr::Select(select) = &*query.body else { return Ok(()) };
    let plain = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    if !select.projection.iter().all(plain) {
        return Ok(());
    }
    match select.projection.len().cmp(&wanted) {
        std::cmp::Ordering::Equal => Ok(()),
        std::cmp::Ordering::Less => Err(PgError::syntax("subquery has too few columns")),
        std::cmp::Ordering::Greater => Err(PgError::syntax("subquery has too many columns")),
    }
}

fn fields_equal(fields: &[Expr], columns: &[String]) -> String {
    let equal = |(column, field): (&String, &Expr)| format!("{column} = ({field})");
    columns.iter().zip(fields).map(equal).collect::<Vec<_>>().join(" and ")
}

/// `(a, b) IN (SELECT ...)` as a value; `None` if the left side is no row.
pub(super) fn row_in(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::InSubquery { expr: row, subquery, negated } = expr else { return Ok(None) };
    let Some(fields) = row_of(row) else { return Ok(None) };
    check_width(subquery, fields.len())?;
    let (alias, columns) = named(fields.len());
    let equal = fields_equal(fields, &columns);
    let not = if *negated { "not " } else { "" };
    let text = format!(
        "({not}(select case when bool_or(\"$e\") then true when count(\"$e\") < count(*) then null \
         else false end from (select ({equal}) as \"$e\" from ({subquery}) as {alias}) as \"$p\"))"
    );
    parse_expr(&text).map(Some)
}

/// `(a, b) IN (SELECT ...)` as a condition, where NULL is as good as false.
pub(in crate::bind) fn row_in_condition(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::InSubquery { expr: row, subquery, negated: false } = expr else { return Ok(None) };
    let Some(fields) = row_of(row) else { return Ok(None) };
    check_width(subquery, fields.len())?;
    let (alias, columns) = named(fields.len());
    let equal = fields_equal(fields, &columns);
    parse_expr(&format!("exists (select 1 from ({subquery}) as {alias} where {equal})")).map(Some)
}

/// `(a, b) = (SELECT ...)`, and the other comparisons.
pub(super) fn row_compared(expr: &Expr) -> Result<Option<Expr>> {
    let Expr::BinaryOp { left, op, right } = expr else { return Ok(None) };
    let compares = matches!(
        op,
        BinaryOperator::Eq
            | BinaryOperator::NotEq
            | BinaryOperator::Lt
            | BinaryOperator::LtEq
            | BinaryOperator::Gt
            | BinaryOperator::GtEq
    );
    let (Some(fields), Expr::Subquery(subquery), true) = (row_of(left), &**right, compares) else {
        return Ok(None);
    };
    check_width(subquery, fields.len())?;
    let (alias, columns) = named(fields.len());
    let columns = columns.join(", ");
    parse_expr(&format!("(select {left} {op} ({columns}) from ({subquery}) as {alias})")).map(Some)
}

/// One column of a query that gives a row.
pub(crate) fn column_of_query(query: &Query, at: usize, count: usize) -> Result<Expr> {
    let SetExpr::Select(select) = &*query.body else {
        return Err(PgError::unsupported("SET of several columns from this query"));
    };
    let plain = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    if select.projection.iter().all(plain) && select.projection.len() != count {
        return Err(PgError::syntax("number of columns does not match number of values"));
    }
    let (alias, columns) = named(count);
    parse_expr(&format!("(select {} from ({query}) as {alias})", columns[at]))
}
