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
    ArrayElemTypeDef, CastKind, DataType, Expr, FunctionArg, FunctionArgExpr,
    FunctionArgumentClause, FunctionArguments, GroupByExpr, Ident, ObjectName, OrderByKind, Query,
    SelectItem, SetExpr, Statement, TableAlias, TableAliasColumnDef, TableFactor, TableWithJoins,
    Value, visit_expressions,
};
use std::ops::ControlFlow;

/// Whether columns of what stands before are named.
pub(super) fn names_column(arrays: &[Expr]) -> bool {
    let mut found = false;
    for array in arrays {
        let done = visit_expressions(array, |part| match part {
            Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        });
        found |= done.is_break();
    }
    found
}

/// Whether the rows of a query are those that its FROM and WHERE give, so that an aggregate may
/// take the place of its one column.
fn gives_each_row(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let ungrouped = matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    let plain = query.with.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && select.distinct.is_none()
        && select.having.is_none()
        && ungrouped;
    let [SelectItem::UnnamedExpr(item) | SelectItem::ExprWithAlias { expr: item, .. }] =
        &select.projection[..]
    else {
        return false;
    };
    let special: ControlFlow<()> = visit_expressions(item, |part| match part {
        Expr::Function(function) => {
            let name = object_parts(&function.name).ok().and_then(|mut parts| parts.pop());
            let of_set = name.is_none_or(|name| {
                name == "unnest" || query::functions::set_function(&name).is_some()
            });
            match function.over.is_some() || of_set {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        }
        _ => ControlFlow::Continue(()),
    });
    // An alias would be gone with its column.
    let by_alias = matches!(&select.projection[..], [SelectItem::ExprWithAlias { .. }])
        && query.order_by.is_some();
    plain && special.is_continue() && !by_alias && !crate::bind::subquery::has_aggregate(item)
}

/// `ARRAY(query)`: the query's one column becomes an aggregate, or one is taken over its rows,
/// whose order is kept.
pub(super) fn collect_into_array(query: &mut Query) -> Result<()> {
    if let SetExpr::Select(select) = &*query.body
        && select.projection.len() > 1
    {
        return Err(PgError::syntax("subquery must return only one column"));
    }
    if !gives_each_row(query) {
        let text = "select array_agg(all_rows.value) from (values (1)) as all_rows(value)";
        let no_skeleton = || PgError::internal("no skeleton");
        let Parsed::Sql(ast) = crate::parse::parse_single(text)?.parsed else {
            return Err(no_skeleton());
        };
        let Statement::Query(mut whole) = *ast else { return Err(no_skeleton()) };
        if let SetExpr::Select(select) = &mut *whole.body
            && let [TableWithJoins { relation: TableFactor::Derived { subquery, .. }, .. }] =
                &mut select.from[..]
        {
            std::mem::swap(&mut **subquery, query);
        }
        *query = *whole;
        return Ok(());
    }
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
        Expr::Cast { expr: inner, data_type: DataType::Array(def), .. } => {
            let items = array_items(inner)?;
            // An untyped literal beside another value would take its type, where an element has
            // the array's.
            let typed = |(items, ty): (Vec<Expr>, &DataType)| {
                items.into_iter().map(|item| cast_to(item, ty.clone())).collect()
            };
            Ok(items.zip(element_type(def)).map(typed))
        }
        other => {
            let Some(text) = text_of(other) else { return Ok(None) };
            let null = || Expr::Value(Value::Null.into());
            let items = query::array::literal_items(text)?;
            Ok(Some(items.into_iter().map(|item| item.map_or_else(null, string)).collect()))
        }
    }
}

/// The type of an array's elements, if the type says it.
fn element_type(def: &ArrayElemTypeDef) -> Option<&DataType> {
    match def {
        ArrayElemTypeDef::SquareBracket(ty, _)
        | ArrayElemTypeDef::AngleBracket(ty)
        | ArrayElemTypeDef::Parenthesis(ty) => Some(&**ty).filter(|ty| !is_array(ty)),
        ArrayElemTypeDef::None => None,
    }
}

fn is_array(ty: &DataType) -> bool {
    matches!(ty, DataType::Array(_))
}

/// `expr::bigint`.
pub(in crate::bind) fn as_bigint(expr: Expr) -> Expr {
    cast_to(expr, DataType::BigInt(None))
}

fn cast_to(expr: Expr, data_type: DataType) -> Expr {
    Expr::Cast { kind: CastKind::Cast, expr: Box::new(expr), data_type, array: false, format: None }
}

/// `unnest(...)` in FROM as a query with the function in its select list, and whether it refers to
/// what stands before it; the alias names its columns.
pub(in crate::bind) fn unnest_query(
    arrays: &[Expr],
    with_ordinality: bool,
    alias: &mut Option<TableAlias>,
) -> Result<(Box<Query>, bool)> {
    let lateral = names_column(arrays);
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
    if with_ordinality && alias.columns.len() == arrays.len() {
        alias.columns.push(column(Ident::new("ordinality")));
    }
    if with_ordinality || lateral {
        let all: Vec<String> = arrays.iter().map(ToString::to_string).collect();
        let all = all.join(", ");
        items.push(format!("unnest(\"$array_ordinals\"({all})) AS \"$ordinal\""));
    }
    let mut text = format!("SELECT {}", items.join(", "));
    if lateral {
        // Of an outer row without elements the library keeps one row of NULLs.
        let mut shown: Vec<String> =
            (0..arrays.len()).map(|at| format!("\"$value{at}\"")).collect();
        shown.extend(with_ordinality.then(|| "\"$ordinal\"".to_owned()));
        let shown = shown.join(", ");
        text =
            format!("SELECT {shown} FROM ({text}) AS \"$unnest\" WHERE \"$ordinal\" IS NOT NULL");
    }
    match crate::parse::parse_single(&text)?.parsed {
        Parsed::Sql(statement) => match *statement {
            Statement::Query(query) => Ok((query, lateral)),
            _ => refuse("this form of unnest"),
        },
        _ => refuse("this form of unnest"),
    }
}

/// `pg_options_to_table(array)` in FROM: the names and values of options.
pub(in crate::bind) fn options_table(
    name: &ObjectName,
    args: &[FunctionArg],
    alias: &mut Option<TableAlias>,
) -> Result<Option<TableFactor>> {
    let parts = object_parts(name)?;
    if parts.last().is_none_or(|last| last != "pg_options_to_table") {
        return Ok(None);
    }
    let [FunctionArg::Unnamed(FunctionArgExpr::Expr(options))] = args else {
        return refuse("this call of pg_options_to_table");
    };
    let text = format!(
        "SELECT 1 FROM (SELECT split_part(o, '=', 1) AS option_name, \
         nullif(substr(o, strpos(o, '=') + 1), '') AS option_value \
         FROM unnest({options}) AS options(o)) AS pg_options_to_table"
    );
    let Parsed::Sql(statement) = crate::parse::parse_single(&text)?.parsed else {
        return refuse("this call of pg_options_to_table");
    };
    let Statement::Query(query) = *statement else {
        return refuse("this call of pg_options_to_table");
    };
    let SetExpr::Select(mut select) = *query.body else {
        return refuse("this call of pg_options_to_table");
    };
    let Some(mut made) = select.from.pop().map(|from| from.relation) else {
        return refuse("this call of pg_options_to_table");
    };
    if let (TableFactor::Derived { alias: own, .. }, Some(_)) = (&mut made, &alias) {
        *own = alias.take();
    }
    Ok(Some(made))
}
