//! ORDER BY a column of a table where the select list has another value under the column's name:
//! `select upper(t.name) as name from t order by t.name`.
//!
//! What it promises: such a query is ordered by the column, as in PostgreSQL. How: it becomes a
//! query over itself, in which its values and what it is ordered by have names of their own; the
//! planner cannot tell two columns of one name apart. What it must never do: touch an order by the
//! columns of the result.

use super::distinct::{form, qualifiers};
use super::query::is_number;
use super::{ident_name, output_name};
use crate::parse::Parsed;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, Statement, TableFactor,
};

/// The query over itself, if it is such a one.
///
/// # Errors
/// None but of what is built here.
pub(super) fn with_names_apart(query: &mut Query) -> Result<()> {
    let Some(OrderByKind::Expressions(order)) = query.order_by.as_ref().map(|by| &by.kind) else {
        return Ok(());
    };
    let SetExpr::Select(select) = &*query.body else { return Ok(()) };
    let plain = select.distinct.is_none() && select.into.is_none() && query.locks.is_empty();
    if !plain || !order.iter().any(|one| is_taken(&one.expr, select)) {
        return Ok(());
    }
    let Some(names) = select.projection.iter().map(output_name).collect::<Option<Vec<_>>>() else {
        // Nobody knows yet what `*` stands for.
        return Ok(());
    };
    let mut taken = Vec::new();
    for one in order {
        crate::outside::any(&one.expr, |part| {
            if let Expr::CompoundIdentifier(parts) = part {
                taken.extend(parts.last().map(ident_name));
            }
            false
        });
    }
    over_itself(query, &names, &taken)
}

/// Whether an expression names a column by its table where the list has something else under that
/// name, and the column nowhere.
fn is_taken(expr: &Expr, select: &Select) -> bool {
    crate::outside::any(expr, |part| {
        let Expr::CompoundIdentifier(parts) = part else { return false };
        let Some(name) = parts.last().map(ident_name) else { return false };
        let own = qualifiers(select);
        let column = form(part, &own);
        let is_other = |item: &SelectItem| {
            matches!(item, SelectItem::ExprWithAlias { expr, alias }
                if ident_name(alias) == name && form(expr, &own) != column)
        };
        let is_itself = |item: &SelectItem| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                form(expr, &own) == column
            }
            _ => true,
        };
        select.projection.iter().any(is_other) && !select.projection.iter().any(is_itself)
    })
}

fn value(at: usize) -> Ident {
    Ident::with_quote('"', format!("$value{at}"))
}

/// `taken`: names of columns that it is ordered by.
fn over_itself(query: &mut Query, names: &[String], taken: &[String]) -> Result<()> {
    let none = || PgError::internal("no skeleton");
    let text = "select 1 from (select 1) as \"$ordered\"";
    let Parsed::Sql(skeleton) = crate::parse::parse_single(text)?.parsed else {
        return Err(none());
    };
    let Statement::Query(skeleton) = *skeleton else { return Err(none()) };
    let mut outer = *skeleton.body;
    let SetExpr::Select(around) = &mut outer else { return Err(none()) };
    let [from] = &mut around.from[..] else { return Err(none()) };
    let TableFactor::Derived { subquery, .. } = &mut from.relation else { return Err(none()) };
    std::mem::swap(&mut *query.body, &mut *subquery.body);
    let SetExpr::Select(select) = &mut *subquery.body else { return Err(none()) };
    around.projection.clear();
    let named = |name: &String| names.iter().filter(|other| *other == name).count();
    for (at, (item, name)) in select.projection.iter_mut().zip(names).enumerate() {
        let own = match item {
            // GROUP BY may name it.
            SelectItem::ExprWithAlias { alias, .. }
                if named(name) == 1 && !taken.contains(name) =>
            {
                alias.clone()
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
                let (expr, alias) = (expr.clone(), value(at));
                *item = SelectItem::ExprWithAlias { expr, alias: alias.clone() };
                alias
            }
            _ => return Err(none()),
        };
        around.projection.push(SelectItem::ExprWithAlias {
            expr: Expr::Identifier(own),
            alias: Ident::with_quote('"', name),
        });
    }
    let by = query.order_by.as_mut().ok_or_else(none)?;
    let OrderByKind::Expressions(order) = &mut by.kind else { return Err(none()) };
    for one in order {
        let of_result = match &one.expr {
            Expr::Identifier(ident) => names.contains(&ident_name(ident)),
            other => is_number(other),
        };
        if of_result {
            continue;
        }
        let alias = value(select.projection.len());
        let key = Expr::Identifier(alias.clone());
        let expr = std::mem::replace(&mut one.expr, key);
        select.projection.push(SelectItem::ExprWithAlias { expr, alias });
    }
    *query.body = outer;
    Ok(())
}
