//! Numbers that a statement of the field's shows: as short as they are, where PostgreSQL shows as
//! many digits as a division gives. `320/1024*1024` is 320, `10/4` is 2.5.
//!
//! What it promises: a column that a division goes into is marked, and keeps its name, type and
//! value. What it must never do: touch what is written into tables, or a query inside another.

use super::exact::is_division;
use super::plain_name;
use crate::bind::{call, ident_name};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Distinct, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, OrderByKind, SelectItem, SetExpr, Statement as Ast, UnaryOperator, Value,
};

/// Functions whose result has the digits of their arguments.
const LIKE_AN_ARGUMENT: [&str; 13] = [
    "abs", "avg", "coalesce", "decode", "greatest", "least", "max", "min", "mod", "nullif", "nvl",
    "nvl2", "sum",
];

/// Whether an expression has the digits of a division.
fn divides(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner)
        | Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::Plus, expr: inner } => {
            divides(inner)
        }
        Expr::BinaryOp { left, op, right } => {
            let computes = matches!(
                op,
                BinaryOperator::Plus
                    | BinaryOperator::Minus
                    | BinaryOperator::Multiply
                    | BinaryOperator::Modulo
            );
            is_division(expr) || (computes && (divides(left) || divides(right)))
        }
        Expr::Case { conditions, else_result, .. } => {
            let mut results = conditions.iter().map(|CaseWhen { result, .. }| result);
            results.any(divides) || else_result.as_deref().is_some_and(divides)
        }
        Expr::Function(function) => {
            let name = plain_name(&function.name).unwrap_or_default();
            let name = query::keep::aggregate_of(&name).unwrap_or(&name);
            let FunctionArguments::List(list) = &function.args else { return false };
            LIKE_AN_ARGUMENT.contains(&name)
                && list.args.iter().any(|arg| match arg {
                    FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => divides(expr),
                    _ => false,
                })
        }
        _ => false,
    }
}

/// Whether rows are grouped by what a select list shows at a place, or under a name: it must be
/// what other clauses take it for then.
fn is_grouped_by(all: &[Expr], at: usize, alias: Option<&str>) -> bool {
    let place = (at + 1).to_string();
    all.iter().any(|key| match key {
        Expr::Value(value) => matches!(&value.value, Value::Number(digits, _) if *digits == place),
        Expr::Identifier(ident) => alias == Some(ident_name(ident).as_str()),
        Expr::Tuple(keys) => is_grouped_by(keys, at, alias),
        Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => {
            sets.iter().any(|keys| is_grouped_by(keys, at, alias))
        }
        _ => false,
    })
}

/// Marks such columns of the query that a statement is.
pub(crate) fn shorten(ast: &mut Ast) {
    let Ast::Query(query) = ast else { return };
    let ordered = query.order_by.as_ref().is_some_and(|order| match &order.kind {
        OrderByKind::Expressions(keys) => keys.iter().any(|key| divides(&key.expr)),
        OrderByKind::All(_) => true,
    });
    let SetExpr::Select(select) = &mut *query.body else { return };
    // What distinct rows are ordered by is to be what they show.
    let distinct = match &select.distinct {
        Some(Distinct::On(_)) => true,
        other => other.is_some() && ordered,
    };
    let GroupByExpr::Expressions(groups, _) = &select.group_by else { return };
    if distinct || select.into.is_some() {
        return;
    }
    for (at, item) in select.projection.iter_mut().enumerate() {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(ident_name(alias))),
            _ => continue,
        };
        if divides(expr) && !is_grouped_by(groups, at, alias.as_deref()) {
            let whole = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = call(query::SHORT, vec![whole]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};

    #[test]
    fn columns_that_divide_are_marked() {
        for (text, marked) in [
            ("select a/b from t", "SELECT \"$short\"(a / b) FROM t"),
            ("select (a/b)*c as x from t", "SELECT \"$short\"((a / b) * c) AS x FROM t"),
            (
                "select nvl(sum(a)/1024, 0), count(*) from t group by c",
                "SELECT \"$short\"(nvl(sum(a) / 1024, 0)), count(*) FROM t GROUP BY c",
            ),
            (
                "select case when b = 0 then 0 else a/b end from t",
                "SELECT \"$short\"(CASE WHEN b = 0 THEN 0 ELSE a / b END) FROM t",
            ),
            (
                "select distinct a/b as x from t order by x",
                "SELECT DISTINCT \"$short\"(a / b) AS x FROM t ORDER BY x",
            ),
        ] {
            assert_eq!(shortened(text), marked, "{text}");
        }
        for text in [
            "SELECT round(a / b, 2), a > b / c, to_char(a / b) FROM t",
            "SELECT a / b AS x, count(*) FROM t GROUP BY x ORDER BY a / b",
            "SELECT a / b, count(*) FROM t GROUP BY 1",
            "SELECT DISTINCT a / b FROM t ORDER BY a / b",
            "SELECT a FROM (SELECT a / b AS a FROM t) AS x",
            "SELECT a / b UNION SELECT c",
            "INSERT INTO t SELECT a / b FROM u",
        ] {
            assert_eq!(shortened(text), text);
        }
    }

    fn shortened(text: &str) -> String {
        let Parsed::Sql(mut ast) = parse_single(text).unwrap().parsed else { panic!("{text}") };
        shorten(&mut ast);
        ast.to_string()
    }
}
