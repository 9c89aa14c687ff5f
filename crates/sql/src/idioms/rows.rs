//! `rownum`: the number of a row as it comes, before the query groups or orders anything.
//!
//! What it promises: a bound of `rownum` is a limit below everything that the query does with its
//! rows; in the list of results it is their number. What it must never do: number rows in an order
//! that they have not.

use super::{aggregates, alias_of, all_of, conjuncts, derived, is, parsed, quoted, select_of};
use crate::bind::{ident_name, output_name, table_parts};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, ConnectByKind, Expr, GroupByExpr, Ident, LimitClause, OrderByKind, Query,
    Select, SelectItem, SetExpr, Statement as Ast, TableFactor, TableWithJoins, Value,
    visit_expressions_mut,
};
use std::ops::ControlFlow;

/// How many rows a condition on `rownum` lets pass.
#[derive(Clone, Debug)]
enum Bound {
    All,
    Rows(i64),
    /// No more than the expression says.
    Upto(Expr),
    /// Less than it says.
    Below(Expr),
}

fn named(expr: &Expr, names: &[&str]) -> bool {
    match expr {
        Expr::Identifier(ident) => names.iter().any(|name| is(ident, name)),
        Expr::Nested(inner) => named(inner, names),
        _ => false,
    }
}

/// A number that is written down, rounded down and up.
fn literal(expr: &Expr) -> Option<(i64, i64)> {
    match expr {
        Expr::Nested(inner) => literal(inner),
        Expr::UnaryOp { op: datafusion::sql::sqlparser::ast::UnaryOperator::Minus, expr } => {
            literal(expr).map(|(down, up)| (-up, -down))
        }
        Expr::Value(value) => match &value.value {
            Value::Number(digits, _) => {
                let v: f64 = digits.parse().ok()?;
                // So many rows there are not.
                let v = v.clamp(-1e15, 1e15);
                #[allow(clippy::cast_possible_truncation)] // the range is checked
                Some((v.floor() as i64, v.ceil() as i64))
            }
            _ => None,
        },
        _ => None,
    }
}

/// The bound that a condition on one of the names is. The rows are numbered as they pass: where the
/// first one does not, none does.
fn bound(expr: &Expr, names: &[&str]) -> Option<Bound> {
    let first = |passes: bool| if passes { Bound::All } else { Bound::Rows(0) };
    let (op, number) = match expr {
        Expr::Nested(inner) => return bound(inner, names),
        Expr::Between { expr, negated: false, low, high } if named(expr, names) => {
            let (_, low) = literal(low)?;
            return match (low <= 1, literal(high)) {
                (false, _) => Some(Bound::Rows(0)),
                (true, Some((high, _))) => Some(Bound::Rows(high.max(0))),
                (true, None) => Some(Bound::Upto((**high).clone())),
            };
        }
        Expr::BinaryOp { left, op, right } if named(left, names) => (op.clone(), right),
        Expr::BinaryOp { left, op, right } if named(right, names) => {
            let op = match op {
                BinaryOperator::GtEq => BinaryOperator::LtEq,
                BinaryOperator::Gt => BinaryOperator::Lt,
                BinaryOperator::LtEq => BinaryOperator::GtEq,
                BinaryOperator::Lt => BinaryOperator::Gt,
                same => same.clone(),
            };
            (op, left)
        }
        _ => return None,
    };
    match (op, literal(number)) {
        (BinaryOperator::LtEq, Some((down, _))) => Some(Bound::Rows(down.max(0))),
        (BinaryOperator::Lt, Some((_, up))) => Some(Bound::Rows((up - 1).max(0))),
        (BinaryOperator::Eq, Some((down, up))) => {
            Some(Bound::Rows(i64::from(down == 1 && up == 1)))
        }
        (BinaryOperator::GtEq, Some((_, up))) => Some(first(up <= 1)),
        (BinaryOperator::Gt, Some((down, _))) => Some(first(down < 1)),
        (BinaryOperator::NotEq, Some((down, up))) if down == up && down >= 1 => {
            Some(Bound::Rows(down - 1))
        }
        (BinaryOperator::NotEq, Some(_)) => Some(Bound::All),
        (BinaryOperator::LtEq, None) if !has_rownum(number) => {
            Some(Bound::Upto((**number).clone()))
        }
        (BinaryOperator::Lt, None) if !has_rownum(number) => Some(Bound::Below((**number).clone())),
        _ => None,
    }
}

fn has_rownum(expr: &Expr) -> bool {
    crate::outside::any(expr, |part| matches!(part, Expr::Identifier(ident) if is(ident, "rownum")))
}

/// The limit that the bounds are together; `None`: there is none.
fn limit_of(bounds: Vec<Bound>) -> Result<Option<Expr>> {
    let (mut rows, mut others) = (None::<i64>, Vec::new());
    for one in bounds {
        match one {
            Bound::All => {}
            Bound::Rows(n) => rows = Some(rows.map_or(n, |rows| rows.min(n))),
            Bound::Upto(expr) => others.push((expr, 0)),
            Bound::Below(expr) => others.push((expr, 1)),
        }
    }
    if others.is_empty() {
        return Ok(rows.map(|n| Expr::value(Value::Number(n.to_string(), false))));
    }
    // NULL lets no row pass, nor does a number below 1.
    let mut all: Vec<String> = others
        .into_iter()
        .map(|(expr, less)| {
            let plain = matches!(&expr, Expr::Value(v) if matches!(v.value, Value::Placeholder(_)));
            let number = match plain {
                true => format!("{expr}::bigint"),
                false => {
                    let round = if less == 0 { "floor" } else { "ceil" };
                    format!("{round}(({expr})::numeric)::bigint")
                }
            };
            format!("coalesce({number} - {less}::bigint, 0::bigint)")
        })
        .collect();
    all.extend(rows.map(|n| format!("{n}::bigint")));
    let least = if all.len() == 1 { all.remove(0) } else { format!("least({})", all.join(", ")) };
    crate::direct::parse_expr(&format!("greatest({least}, 0::bigint)")).map(Some)
}

/// The conditions of a WHERE without those that bound `rownum`, and the limit that these are.
fn taken(selection: &mut Option<Expr>) -> Result<(bool, Option<Expr>)> {
    if !selection.as_ref().is_some_and(has_rownum) {
        return Ok((false, None));
    }
    let mut rest = Vec::new();
    if let Some(selection) = selection.take() {
        conjuncts(selection, &mut rest);
    }
    let mut bounds = Vec::new();
    rest.retain(|one| match bound(one, &["rownum"]) {
        Some(bound) => {
            bounds.push(bound);
            false
        }
        None => true,
    });
    if rest.iter().any(has_rownum) {
        return Err(PgError::unsupported("this condition on rownum")
            .with_hint("A bound of rownum is understood: AND rownum <= n."));
    }
    *selection = all_of(rest);
    let limit = limit_of(bounds)?;
    Ok((true, limit))
}

/// UPDATE and DELETE of the first rows.
pub(super) fn changed(ast: &mut Ast) -> Result<()> {
    let (selection, limit) = match ast {
        Ast::Update(update) => (&mut update.selection, &mut update.limit),
        Ast::Delete(delete) => (&mut delete.selection, &mut delete.limit),
        _ => return Ok(()),
    };
    (_, *limit) = taken(selection)?;
    Ok(())
}

fn limited(limit: Option<Expr>) -> Option<LimitClause> {
    let limit = limit?;
    Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by: Vec::new() })
}

/// `dual` alone in FROM.
fn from_dual(from: &[TableWithJoins]) -> bool {
    let [TableWithJoins { relation: TableFactor::Table { name, args: None, .. }, joins }] = from
    else {
        return false;
    };
    joins.is_empty() && table_parts(name).is_ok_and(|name| name == (None, "dual".to_owned()))
}

/// A bound that may have a fraction as a whole number.
fn whole(expr: Expr, round: &str) -> Expr {
    if !crate::outside::any(&expr, super::exact::is_division) {
        return expr;
    }
    let text = format!("{round}(({expr})::numeric)::bigint");
    crate::direct::parse_expr(&text).unwrap_or(expr)
}

/// The number that `name <= number` or `name < number` allows at most.
fn at_most(expr: &Expr, names: &[&str]) -> Option<Expr> {
    let one = |n: i64| Expr::value(Value::Number(n.to_string(), false));
    match bound(expr, names)? {
        Bound::All => None,
        Bound::Rows(n) => Some(one(n)),
        Bound::Upto(expr) => Some(whole(expr, "floor")),
        Bound::Below(expr) => Some(Expr::BinaryOp {
            left: Box::new(Expr::Nested(Box::new(whole(expr, "ceil")))),
            op: BinaryOperator::Minus,
            right: Box::new(one(1)),
        }),
    }
}

/// `SELECT .. FROM dual CONNECT BY level <= n`: a row for each number.
pub(super) fn series_in(body: &mut SetExpr) -> Result<()> {
    let select = match body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { left, right, .. } => {
            series_in(left)?;
            return series_in(right);
        }
        _ => return Ok(()),
    };
    let last = match &select.connect_by[..] {
        [ConnectByKind::ConnectBy { nocycle: false, relationships, .. }] => {
            match &relationships[..] {
                [one] => at_most(one, &["level", "rownum"]),
                _ => None,
            }
        }
        _ => None,
    };
    let plain = from_dual(&select.from) && select.selection.is_none();
    // Others are walked through.
    let Some(last) = last.filter(|_| plain) else { return Ok(()) };
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
    // Both are the number of the row, and each shows its own name.
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && matches!(expr, Expr::Identifier(ident) if is(ident, "rownum"))
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted("rownum") };
        }
    }
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

/// `WHERE rownum <= n` becomes a limit below everything that the query does with its rows; in the
/// list of results it becomes their number.
pub(super) fn first_rows(query: &mut Query) -> Result<()> {
    let locks = !query.locks.is_empty();
    let ordered = query.order_by.is_some() || query.limit_clause.is_some() || query.fetch.is_some();
    let keys: Vec<Expr> = match query.order_by.as_ref().map(|order| &order.kind) {
        Some(OrderByKind::Expressions(keys)) => keys.iter().map(|key| key.expr.clone()).collect(),
        _ => Vec::new(),
    };
    let SetExpr::Select(select) = &mut *query.body else { return branches_apart(&mut query.body) };
    let (_, limit) = taken(&mut select.selection)?;
    let grouped = is_grouped(select, &keys);
    let numbers = shows_rownum(select) || keys.iter().any(has_rownum);
    if numbers && grouped {
        // Numbers of the rows, not of what becomes of them.
        return number_below(query, limit);
    }
    if numbers {
        number_rows(select)?;
        if let Some(order) = &mut query.order_by
            && let OrderByKind::Expressions(keys) = &mut order.kind
        {
            for key in keys {
                numbered(&mut key.expr)?;
            }
        }
    }
    let Some(limit) = limit else { return Ok(()) };
    let conditions = select.selection.is_some();
    if let Some(rows) = rows_in_order(select).filter(|_| !locks && !conditions) {
        // The order is the subquery's own, and holds where the rows are taken.
        rows.limit_clause = limited(Some(limit));
        return Ok(());
    }
    if !ordered && (locks || !(grouped || numbers)) {
        query.limit_clause = limited(Some(limit));
        return Ok(());
    }
    if locks {
        return Err(PgError::unsupported("rownum beside FOR UPDATE and an order")
            .with_hint("Put rownum into a subquery: WHERE id IN (SELECT .. WHERE rownum <= n)."));
    }
    match below(select)? {
        Some((mut inner, alias)) => {
            inner.limit_clause = limited(Some(limit));
            select.from = vec![derived(inner, alias)?];
            Ok(())
        }
        None => apart(query, limit),
    }
}

/// The branches of UNION and its like that speak of `rownum`, each as a query of its own: the rows
/// of each are numbered by themselves.
fn branches_apart(body: &mut SetExpr) -> Result<()> {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            branches_apart(left)?;
            branches_apart(right)
        }
        SetExpr::Select(select) if speaks_of_rownum(select) => {
            let mut query = parsed("select 1")?;
            std::mem::swap(&mut *query.body, body);
            *body = SetExpr::Query(Box::new(query));
            Ok(())
        }
        _ => Ok(()),
    }
}

fn speaks_of_rownum(select: &Select) -> bool {
    select.selection.as_ref().is_some_and(has_rownum) || shows_rownum(select)
}

/// Whether rows of FROM do not come out as they are, but for their order.
fn is_grouped(select: &Select, keys: &[Expr]) -> bool {
    let by = !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    let shown = select.projection.iter().filter_map(shown_expr);
    let windows = shown.chain(keys).any(aggregates);
    by || windows || select.distinct.is_some() || select.having.is_some()
}

fn shown_expr(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

fn shows_rownum(select: &Select) -> bool {
    let grouping = match &select.group_by {
        GroupByExpr::Expressions(all, _) => all.iter().any(has_rownum),
        GroupByExpr::All(_) => false,
    };
    grouping
        || select.projection.iter().filter_map(shown_expr).any(has_rownum)
        || select.having.as_ref().is_some_and(has_rownum)
}

/// FROM and WHERE of a select, of one relation with a name, as a query of their own.
fn below(select: &mut Select) -> Result<Option<(Query, Ident)>> {
    let alias = match &select.from[..] {
        [TableWithJoins { relation, joins }] if joins.is_empty() => match relation {
            TableFactor::Derived { alias: None, lateral: false, .. } => {
                Some(Ident::new("rownum_rows"))
            }
            other => alias_of(other),
        },
        _ => None,
    };
    let Some(alias) = alias else { return Ok(None) };
    let mut inner = parsed("select * from x")?;
    if let SetExpr::Select(rows) = &mut *inner.body {
        rows.from = std::mem::take(&mut select.from);
        rows.selection = select.selection.take();
    }
    Ok(Some((inner, alias)))
}

/// A query that groups or counts its rows, with their numbers below: `"$rownum"` in FROM.
fn number_below(query: &mut Query, limit: Option<Expr>) -> Result<()> {
    let keys = query.order_by.as_mut().and_then(|order| match &mut order.kind {
        OrderByKind::Expressions(keys) => Some(keys),
        OrderByKind::All(_) => None,
    });
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    let wild = select.projection.iter().any(|item| shown_expr(item).is_none());
    let Some((mut inner, alias)) = below(select)?.filter(|_| !wild) else {
        return Err(PgError::unsupported("rownum in this query")
            .with_hint("Put the rows and their rownum into a subquery in FROM."));
    };
    inner.limit_clause = limited(limit);
    let number = parsed("select *, row_number() over () as \"$rownum\" from (select 1) as x")?;
    let mut number = number;
    if let SetExpr::Select(rows) = &mut *number.body {
        rows.from = vec![derived(inner, alias.clone())?];
    }
    select.from = vec![derived(number, alias)?];
    let mut change = |expr: &mut Expr| {
        let _: ControlFlow<()> = visit_expressions_mut(expr, |part| {
            if matches!(part, Expr::Identifier(ident) if is(ident, "rownum")) {
                *part = Expr::Identifier(quoted("$rownum"));
            }
            ControlFlow::Continue(())
        });
    };
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item
            && named(expr, &["rownum"])
        {
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: Ident::new("rownum") };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            change(expr);
        }
    }
    if let GroupByExpr::Expressions(all, _) = &mut select.group_by {
        all.iter_mut().for_each(&mut change);
    }
    select.having.iter_mut().for_each(&mut change);
    keys.into_iter().flatten().for_each(|key| change(&mut key.expr));
    Ok(())
}

/// The rows of a join, taken before they are grouped or ordered: what the query says of their
/// columns is a query of its own in FROM.
fn apart(query: &mut Query, limit: Expr) -> Result<()> {
    let refuse = || {
        PgError::unsupported("rownum in this query")
            .with_hint("Use LIMIT, or put the joined rows into a subquery in FROM.")
    };
    let keys = match query.order_by.as_mut().map(|order| &mut order.kind) {
        None => Vec::new(),
        Some(OrderByKind::Expressions(keys)) => keys.iter_mut().map(|key| &mut key.expr).collect(),
        Some(OrderByKind::All(_)) => return Err(refuse()),
    };
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    if select.projection.iter().any(|item| shown_expr(item).is_none()) {
        return Err(refuse());
    }
    let aliases: Vec<String> = select
        .projection
        .iter()
        .filter_map(|item| match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(ident_name(alias)),
            _ => None,
        })
        .collect();
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) = item {
            let name = output_name(&SelectItem::UnnamedExpr(expr.clone()));
            let alias = quoted(&name.unwrap_or_else(|| "?column?".to_owned()));
            *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias };
        }
    }
    let mut columns: Vec<Expr> = Vec::new();
    let mut failed = false;
    let mut lift = |expr: &mut Expr, known: &[String]| {
        let _: ControlFlow<()> = visit_expressions_mut(expr, |part| {
            match part {
                Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => failed = true,
                Expr::Identifier(ident) if known.contains(&ident_name(ident)) => {}
                Expr::Identifier(ident) if ident.value.starts_with("$lifted") => {}
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                    let at = columns.iter().position(|one| one == part).unwrap_or_else(|| {
                        columns.push(part.clone());
                        columns.len() - 1
                    });
                    *part = Expr::Identifier(quoted(&format!("$lifted{at}")));
                }
                _ => {}
            }
            ControlFlow::Continue(())
        });
    };
    for item in &mut select.projection {
        if let SelectItem::ExprWithAlias { expr, .. } = item {
            lift(expr, &[]);
        }
    }
    if let GroupByExpr::Expressions(all, _) = &mut select.group_by {
        all.iter_mut().for_each(|expr| lift(expr, &aliases));
    }
    select.having.iter_mut().for_each(|expr| lift(expr, &[]));
    keys.into_iter().for_each(|key| lift(key, &aliases));
    if failed {
        return Err(refuse());
    }
    let mut inner = parsed("select 1 as \"$lifted\" from x")?;
    if let SetExpr::Select(rows) = &mut *inner.body {
        rows.from = std::mem::take(&mut select.from);
        rows.selection = select.selection.take();
        let shown = |(at, expr): (usize, Expr)| SelectItem::ExprWithAlias {
            expr,
            alias: quoted(&format!("$lifted{at}")),
        };
        rows.projection.extend(columns.into_iter().enumerate().map(shown));
    }
    inner.limit_clause = limited(Some(limit));
    select.from = vec![derived(inner, Ident::new("rownum_rows"))?];
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

/// The number of a row in the place of `rownum`; whether it was there.
fn numbered(expr: &mut Expr) -> Result<bool> {
    let number = match select_of(parsed("select row_number() over ()")?)?.projection.pop() {
        Some(SelectItem::UnnamedExpr(expr)) => expr,
        _ => return Err(PgError::internal("a number of a row")),
    };
    let mut found = false;
    let _: ControlFlow<()> = visit_expressions_mut(expr, |expr| {
        if matches!(expr, Expr::Identifier(ident) if is(ident, "rownum")) {
            *expr = number.clone();
            found = true;
        }
        ControlFlow::Continue(())
    });
    Ok(found)
}

/// `rownum` among the results.
fn number_rows(select: &mut Select) -> Result<()> {
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(Expr::Identifier(ident)) = item
            && is(ident, "rownum")
        {
            let alias = Ident::new("rownum");
            *item = SelectItem::ExprWithAlias { expr: Expr::Identifier(ident.clone()), alias };
        }
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            numbered(expr)?;
        }
    }
    Ok(())
}
