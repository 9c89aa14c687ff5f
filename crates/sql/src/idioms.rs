//! The field's idioms that have another form here: rows counted off by `connect by level <= n`,
//! `rownum`, and the functions of `dbms_random`.
//!
//! What it promises: a statement means what it means in the field, or is refused. What it must
//! never do: touch a statement that has none of these words.

use crate::bind::{ident_name, table_parts};
use crate::dialect::OwnDialect;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ConnectByKind, Expr, Function, Ident, LimitClause, Query, Select, SelectItem,
    SetExpr, Statement as Ast, TableFactor, TableWithJoins, Value, VisitMut, VisitorMut,
    visit_expressions, visit_expressions_mut,
};
use datafusion::sql::sqlparser::parser::Parser;
use std::ops::ControlFlow;

/// The statement in a form that the rest knows; `None`: it has none of these words.
pub(crate) fn rewritten(ast: &Ast) -> Result<Option<Ast>> {
    let used: ControlFlow<()> = visit_expressions(ast, |expr| match expr {
        Expr::Identifier(ident) if is(ident, "level") || is(ident, "rownum") => {
            ControlFlow::Break(())
        }
        Expr::CompoundIdentifier(parts) if is(&parts[0], RANDOM) => ControlFlow::Break(()),
        Expr::Function(function)
            if [RANDOM, REPOSITORY].iter().any(|own| of_package(function, own).is_some()) =>
        {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if used.is_continue() {
        return Ok(None);
    }
    let mut own = ast.clone();
    match own.visit(&mut Rewriter) {
        ControlFlow::Break(error) => Err(*error),
        ControlFlow::Continue(()) => Ok(Some(own)),
    }
}

struct Rewriter;

impl VisitorMut for Rewriter {
    type Break = Box<PgError>;

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<Box<PgError>> {
        match series_in(&mut query.body).and_then(|()| first_rows(query)) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => ControlFlow::Break(Box::new(error)),
        }
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<PgError>> {
        match by_chance(expr) {
            Ok(Some(new)) => *expr = new,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

const RANDOM: &str = "dbms_random";
const REPOSITORY: &str = "dbms_workload_repository";

/// The function of a package that is called.
fn of_package<'a>(function: &'a Function, package: &str) -> Option<&'a Ident> {
    match &function.name.0[..] {
        [own, name] if own.as_ident().is_some_and(|own| is(own, package)) => name.as_ident(),
        _ => None,
    }
}

/// What a function of `dbms_workload_repository` stands for.
fn of_repository(name: &Ident, function: &Function) -> Result<Expr> {
    let count = crate::bind::plain_args(function)?.len();
    match (ident_name(name).as_str(), count) {
        ("create_snapshot", 0) => {
            crate::direct::parse_expr(&format!("{}()", query::row_calls::CREATE_SNAPSHOT))
        }
        (name, count) => {
            let text =
                format!("function {REPOSITORY}.{name} with {count} arguments does not exist");
            Err(PgError::new("42883", text))
        }
    }
}

/// What a function of `dbms_random` stands for; `None`: another expression.
fn by_chance(expr: &Expr) -> Result<Option<Expr>> {
    let (name, args) = match expr {
        Expr::CompoundIdentifier(parts) => match &parts[..] {
            [package, name] if is(package, RANDOM) => (name, Vec::new()),
            _ => return Ok(None),
        },
        Expr::Function(function) => match of_package(function, RANDOM) {
            Some(name) => (name, crate::bind::plain_args(function)?),
            None => {
                let called = of_package(function, REPOSITORY);
                return called.map(|name| of_repository(name, function)).transpose();
            }
        },
        _ => return Ok(None),
    };
    let name = ident_name(name);
    let args: Vec<String> = args.iter().map(ToString::to_string).collect();
    let text = match (name.as_str(), &args[..]) {
        ("value", []) => "random()::numeric".to_owned(),
        ("value", [low, high]) => format!(
            "(({low})::double precision + random() * (({high})::double precision - \
             ({low})::double precision))::numeric"
        ),
        ("random", []) => "(floor(random() * 4294967296) - 2147483648)::int".to_owned(),
        ("normal", []) => {
            "(sqrt(-2 * ln(1 - random())) * cos(2 * pi() * random()))::numeric".to_owned()
        }
        ("string", [kind, length]) => {
            format!("\"{}\"({kind}, ({length})::int, random())", query::functions::RANDOM_STRING)
        }
        _ => {
            let count = args.len();
            let text = format!("function {RANDOM}.{name} with {count} arguments does not exist");
            return Err(PgError::new("42883", text));
        }
    };
    crate::direct::parse_expr(&text).map(|expr| Some(Expr::Nested(Box::new(expr))))
}

fn is(ident: &Ident, name: &str) -> bool {
    ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case(name)
}

fn parsed(text: &str) -> Result<Query> {
    let parsed =
        Parser::new(&OwnDialect::default()).try_with_sql(text).and_then(|mut p| p.parse_query());
    let query = parsed.map_err(|error| PgError::internal(format!("{text}: {error}")))?;
    Ok(*query)
}

fn select_of(query: Query) -> Result<Select> {
    match *query.body {
        SetExpr::Select(select) => Ok(*select),
        _ => Err(PgError::internal("a query that is no SELECT")),
    }
}

/// `dual` alone in FROM.
fn from_dual(from: &[TableWithJoins]) -> bool {
    let [TableWithJoins { relation: TableFactor::Table { name, args: None, .. }, joins }] = from
    else {
        return false;
    };
    joins.is_empty() && table_parts(name).is_ok_and(|name| name == (None, "dual".to_owned()))
}

/// The number that `name <= number` or `name < number` allows at most.
fn at_most(expr: &Expr, names: &[&str]) -> Option<Expr> {
    let Expr::BinaryOp { left, op, right } = expr else { return None };
    let named = |expr: &Expr| match expr {
        Expr::Identifier(ident) => names.contains(&ident_name(ident).as_str()),
        _ => false,
    };
    let (op, number) = match (named(left), named(right)) {
        (true, false) => (op.clone(), right),
        (false, true) => (
            match op {
                BinaryOperator::GtEq => BinaryOperator::LtEq,
                BinaryOperator::Gt => BinaryOperator::Lt,
                BinaryOperator::Eq => BinaryOperator::Eq,
                _ => return None,
            },
            left,
        ),
        _ => return None,
    };
    let literal = match &**number {
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => digits.parse::<i64>().ok(),
            _ => None,
        },
        _ => None,
    };
    let one = |n: i64| Expr::value(Value::Number(n.max(0).to_string(), false));
    match (op, literal) {
        (BinaryOperator::LtEq, Some(n)) => Some(one(n)),
        (BinaryOperator::Lt, Some(n)) => Some(one(n.saturating_sub(1))),
        // Only the first row can be asked for by its number.
        (BinaryOperator::Eq, Some(1)) => Some(one(1)),
        (BinaryOperator::Eq, Some(_)) => Some(one(0)),
        (BinaryOperator::LtEq, None) => Some((**number).clone()),
        (BinaryOperator::Lt, None) => Some(Expr::BinaryOp {
            left: Box::new(Expr::Nested(number.clone())),
            op: BinaryOperator::Minus,
            right: Box::new(one(1)),
        }),
        _ => None,
    }
}

/// `SELECT .. FROM dual CONNECT BY level <= n`: a row for each number.
fn series_in(body: &mut SetExpr) -> Result<()> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { left, right, .. } => {
            series_in(left)?;
            return series_in(right);
        }
        _ => return Ok(()),
    };
    let last = match &select.connect_by[..] {
        [] => return Ok(()),
        [ConnectByKind::ConnectBy { nocycle: false, relationships, .. }] => {
            match &relationships[..] {
                [one] => at_most(one, &["level", "rownum"]),
                _ => None,
            }
        }
        _ => None,
    };
    let plain = from_dual(&select.from) && select.selection.is_none();
    let Some(last) = last.filter(|_| plain) else {
        return Err(PgError::unsupported("this form of CONNECT BY").with_hint(
            "SELECT .. FROM dual CONNECT BY level <= n is understood; walk through a hierarchy by \
             WITH RECURSIVE.",
        ));
    };
    let mut made = parsed("select 1 from generate_series(1, 1) as \"level\"(\"level\")")?;
    let mut arguments = 0;
    let _: ControlFlow<()> = visit_expressions_mut(&mut made, |expr| {
        if matches!(expr, Expr::Value(_)) {
            arguments += 1;
            // The third number is the series' end.
            if arguments == 3 {
                *expr = last.clone();
            }
        }
        ControlFlow::Continue(())
    });
    select.from = select_of(made)?.from;
    select.connect_by.clear();
    let _: ControlFlow<()> = visit_expressions_mut(select, |expr| {
        if let Expr::Identifier(ident) = expr
            && (is(ident, "level") || is(ident, "rownum"))
        {
            *ident = Ident::with_quote('"', "level");
        }
        ControlFlow::Continue(())
    });
    Ok(())
}

/// Conditions that AND joins.
fn conjuncts(expr: Expr, out: &mut Vec<Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjuncts(*left, out);
            conjuncts(*right, out);
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => {
            conjuncts(*inner, out);
        }
        other => out.push(other),
    }
}

/// `WHERE rownum <= n` becomes a limit below everything that the query does with its rows; in the
/// list of results it becomes their number.
fn first_rows(query: &mut Query) -> Result<()> {
    let locks = !query.locks.is_empty();
    let ordered = query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some();
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    let mut rest = Vec::new();
    if let Some(selection) = select.selection.take() {
        conjuncts(selection, &mut rest);
    }
    let mut limits = Vec::new();
    rest.retain(|one| match at_most(one, &["rownum"]) {
        Some(limit) => {
            limits.push(limit);
            false
        }
        None => true,
    });
    let and = |left: Expr, right: Expr| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    select.selection = rest.into_iter().reduce(and);
    let numbered = number_rows(select)?;
    let limit = match limits.len() {
        0 if numbered && rows_in_order(select).is_some() => {
            return Err(PgError::unsupported("rownum of all rows of an ordered subquery")
                .with_hint(
                    "Use row_number() OVER (ORDER BY ...), or a bound: WHERE rownum <= n.",
                ));
        }
        0 => return Ok(()),
        1 => limits.remove(0),
        _ => return Err(PgError::unsupported("several conditions on rownum")),
    };
    let conditions = select.selection.is_some();
    if let Some(rows) = rows_in_order(select).filter(|_| !locks) {
        if conditions {
            return Err(PgError::unsupported("rownum beside conditions on an ordered subquery")
                .with_hint("Put the conditions into the subquery."));
        }
        // The order is the subquery's own, and holds where the rows are taken.
        let (offset, limit_by) = (None, Vec::new());
        rows.limit_clause = Some(LimitClause::LimitOffset { limit: Some(limit), offset, limit_by });
        return Ok(());
    }
    if locks && !ordered {
        let (offset, limit_by) = (None, Vec::new());
        query.limit_clause =
            Some(LimitClause::LimitOffset { limit: Some(limit), offset, limit_by });
        return Ok(());
    }
    let alias = match &select.from[..] {
        [TableWithJoins { relation, joins }] if joins.is_empty() && !locks => alias_of(relation),
        _ => None,
    };
    let Some(alias) = alias else {
        return Err(PgError::unsupported("rownum in this query")
            .with_hint("Use LIMIT, or put the joined rows into a subquery in FROM."));
    };
    let mut inner = parsed("select * from x limit 1")?;
    if let Some(LimitClause::LimitOffset { limit: slot, .. }) = &mut inner.limit_clause {
        *slot = Some(limit);
    }
    if let SetExpr::Select(rows) = &mut *inner.body {
        rows.from = std::mem::take(&mut select.from);
        rows.selection = select.selection.take();
    }
    let mut outer = select_of(parsed("select * from (select 1) as x")?)?;
    if let Some(TableFactor::Derived { subquery, alias: Some(name), .. }) =
        outer.from.first_mut().map(|from| &mut from.relation)
    {
        **subquery = inner;
        name.name = alias;
    }
    select.from = outer.from;
    Ok(())
}

/// The subquery that is all of FROM, if it has an order and no limit of its own.
fn rows_in_order(select: &mut Select) -> Option<&mut Query> {
    match &mut select.from[..] {
        [TableWithJoins { relation: TableFactor::Derived { subquery, .. }, joins }]
            if joins.is_empty()
                && subquery.order_by.is_some()
                && subquery.limit_clause.is_none()
                && subquery.fetch.is_none() =>
        {
            Some(&mut **subquery)
        }
        _ => None,
    }
}

/// The name that a table in FROM has in the query.
fn alias_of(relation: &TableFactor) -> Option<Ident> {
    match relation {
        TableFactor::Table { alias: Some(alias), args: None, .. }
        | TableFactor::Derived { alias: Some(alias), lateral: false, .. }
            if alias.columns.is_empty() =>
        {
            Some(alias.name.clone())
        }
        TableFactor::Table { name, alias: None, args: None, .. } => {
            name.0.last().and_then(|part| part.as_ident()).cloned()
        }
        TableFactor::Derived { alias: None, lateral: false, .. } => Some(Ident::new("rownum_rows")),
        _ => None,
    }
}

/// `rownum` among the results. Whether it is there.
fn number_rows(select: &mut Select) -> Result<bool> {
    let mut numbered = false;
    let number = match select_of(parsed("select row_number() over ()")?)?.projection.pop() {
        Some(SelectItem::UnnamedExpr(expr)) => expr,
        _ => return Err(PgError::internal("a number of a row")),
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(ident)) = item
            && is(ident, "rownum")
        {
            let alias = Ident::new("rownum");
            *item = SelectItem::ExprWithAlias { expr: number.clone(), alias };
            numbered = true;
            continue;
        }
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        let _: ControlFlow<()> = visit_expressions_mut(expr, |expr| {
            if matches!(expr, Expr::Identifier(ident) if is(ident, "rownum")) {
                *expr = number.clone();
                numbered = true;
            }
            ControlFlow::Continue(())
        });
    }
    Ok(numbered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};

    fn shown(text: &str) -> String {
        let Parsed::Sql(ast) = parse_single(text).expect("a statement").parsed else {
            panic!("{text}")
        };
        match rewritten(&ast) {
            Ok(Some(new)) => new.to_string(),
            Ok(None) => "as it is".to_owned(),
            Err(error) => error.code.to_owned(),
        }
    }

    #[test]
    fn rows_are_counted_off() {
        assert_eq!(
            shown("select level, 'x' || level from dual connect by level <= 3"),
            "SELECT \"level\", 'x' || \"level\" FROM generate_series(1, 3) AS \"level\" (\"level\")"
        );
        assert_eq!(
            shown("insert into t select rownum from dual connect by rownum < $1"),
            "INSERT INTO t SELECT \"level\" FROM generate_series(1, ($1) - 1) AS \"level\" \
             (\"level\")"
        );
        assert_eq!(shown("select 1 from emp connect by level <= 3"), "0A000");
        assert_eq!(shown("select level from dual connect by prior a = level"), "0A000");
    }

    #[test]
    fn the_first_rows_are_taken_before_anything_is_done_with_them() {
        let inner = "(SELECT * FROM t WHERE a > 1 LIMIT 10) AS t";
        assert_eq!(
            shown("select count(*) from t where a > 1 and rownum <= 10"),
            format!("SELECT count(*) FROM {inner}")
        );
        assert_eq!(
            shown("select rownum, t.a from t where rownum < 11 and a > 1 order by a"),
            format!("SELECT row_number() OVER () AS rownum, t.a FROM {inner} ORDER BY a")
        );
        assert_eq!(
            shown("select a from (select a from t order by a) where rownum = 1"),
            "SELECT a FROM (SELECT a FROM t ORDER BY a LIMIT 1)"
        );
        assert_eq!(
            shown("select a from (select a from t order by a) where rownum = 1 and a > 1"),
            "0A000"
        );
        assert_eq!(shown("select rownum from (select a from t order by a)"), "0A000");
        assert_eq!(
            shown("select a from t where rownum <= 1 for update"),
            "SELECT a FROM t LIMIT 1 FOR UPDATE"
        );
        assert_eq!(shown("select 1 from a, b where rownum <= 1"), "0A000");
        assert_eq!(shown("select level from t"), shown("select level from t"));
        assert_eq!(shown("select a from t"), "as it is");
    }
}
