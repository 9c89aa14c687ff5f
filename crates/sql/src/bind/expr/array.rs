//! Arrays: their literals, `ARRAY(query)`, and `unnest` in FROM.
//!
//! What it promises: `ARRAY(query)` is an aggregate over the query, a literal is its elements. What
//! it must never do: read an element of a stored value.

use super::build::{call, string, text_of};
use crate::bind::query::MARK;
use crate::bind::{object_parts, refuse};
use crate::parse::Parsed;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    DataType, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    OrderByKind, Query, SelectItem, SetExpr, Statement, TableAlias, TableAliasColumnDef,
    TableFactor, TableFunctionArgs, Value,
};

/// `ARRAY(SELECT ... FROM unnest(column))`, or `... WHERE x = ANY (column)`: the only columns that
/// hold arrays are
/// those of the catalog that are always NULL, so that the column stands for the result.
pub(super) fn unnested_column(query: &Query) -> Option<Expr> {
    let SetExpr::Select(select) = &*query.body else { return None };
    if !names_always_null(query) {
        return None;
    }
    if let Some(Expr::AnyOp { right, .. }) = &select.selection {
        let column = match &**right {
            Expr::Nested(inner) => &**inner,
            other => other,
        };
        if matches!(column, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
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

/// Whether an expression is a column, in parentheses or cast.
fn is_column(expr: &Expr) -> bool {
    match expr {
        Expr::Identifier(_) | Expr::CompoundIdentifier(_) => true,
        Expr::Nested(inner) | Expr::Cast { expr: inner, .. } => is_column(inner),
        _ => false,
    }
}

/// Whether a query speaks of a column of the catalog that is an array and always NULL.
fn names_always_null(query: &Query) -> bool {
    const COLUMNS: [&str; 14] = [
        "attacl",
        "attfdwoptions",
        "attoptions",
        "datacl",
        "defaclacl",
        "ftoptions",
        "nspacl",
        "polroles",
        "prattrs",
        "relacl",
        "reloptions",
        "setconfig",
        "srvoptions",
        "stxkeys",
    ];
    let text = query.to_string().to_lowercase();
    COLUMNS.iter().any(|column| text.contains(column))
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
pub(super) fn array_items(expr: &Expr) -> Result<Option<Vec<Expr>>> {
    match expr {
        Expr::Nested(inner) => array_items(inner),
        Expr::Array(array) => Ok(Some(array.elem.clone())),
        Expr::Cast { expr, data_type: DataType::Array(_), .. } => array_items(expr),
        other => {
            let Some(text) = text_of(other) else { return Ok(None) };
            let null = || Expr::Value(Value::Null.into());
            let items = query::array::literal_items(text)?;
            Ok(Some(items.into_iter().map(|item| item.map_or_else(null, string)).collect()))
        }
    }
}

/// `unnest(...)` in FROM as a query with the function in its select list; the alias names its
/// columns.
pub(in crate::bind) fn unnest_query(
    arrays: &[Expr],
    with_ordinality: bool,
    alias: &mut Option<TableAlias>,
) -> Result<Box<Query>> {
    if arrays.iter().any(is_column) {
        return refuse("unnest of a column in FROM");
    }
    if arrays.is_empty() {
        return Err(PgError::new("42883", "function unnest() does not exist"));
    }
    let alias = alias.get_or_insert_with(|| TableAlias {
        explicit: true,
        name: Ident::new("unnest"),
        columns: Vec::new(),
        at: None,
    });
    let column = |name: Ident| TableAliasColumnDef { name, data_type: None };
    // One array's column is called as its alias; several are all called after the function.
    while alias.columns.len() < arrays.len() {
        let name = match (arrays.len(), alias.columns.len()) {
            (1, _) => alias.name.clone(),
            (_, 0) => Ident::new("unnest"),
            (_, at) => Ident::with_quote('"', format!("unnest{MARK}{at}")),
        };
        alias.columns.push(column(name));
    }
    let mut items: Vec<String> = arrays
        .iter()
        .enumerate()
        .map(|(at, array)| format!("unnest({array}) AS \"$value{at}\""))
        .collect();
    if with_ordinality {
        if alias.columns.len() == arrays.len() {
            alias.columns.push(column(Ident::new("ordinality")));
        }
        let all: Vec<String> = arrays.iter().map(ToString::to_string).collect();
        let all = all.join(", ");
        items.push(format!("unnest(\"$array_ordinals\"({all})) AS \"$ordinal\""));
    }
    let text = format!("SELECT {}", items.join(", "));
    match crate::parse::parse_single(&text)?.parsed {
        Parsed::Sql(statement) => match *statement {
            Statement::Query(query) => Ok(query),
            _ => refuse("this form of unnest"),
        },
        _ => refuse("this form of unnest"),
    }
}
