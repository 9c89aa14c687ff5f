//! What distinct rows are ordered by: an expression that the select list has too is that column.
//!
//! What it promises: ORDER BY and DISTINCT ON name columns by their positions, or in one order with
//! each other, wherever PostgreSQL takes their expressions for the same. What it must never do:
//! take two expressions for one that may differ; what it does not know, the planner refuses.

use super::expr::number;
use super::query::is_number;
use super::{ident_name, names_of_from};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    CastKind, Distinct, Expr, FunctionArguments, Ident, ObjectNamePart, OrderByExpr, OrderByKind,
    OrderByOptions, Query, Select, SelectItem, SetExpr, TableFactor, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// A column of a select list.
struct Shown {
    alias: Option<String>,
    expr: Expr,
    form: Expr,
}

/// Takes what makes no difference out of an expression.
struct Former<'a> {
    /// What the columns of a query may be qualified with without being others for it.
    own: &'a [String],
}

fn exact(ident: &Ident) -> Ident {
    Ident::with_quote('"', ident_name(ident))
}

impl VisitorMut for Former<'_> {
    type Break = ();

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let plain = match expr {
            Expr::Nested(inner) => (**inner).clone(),
            Expr::Identifier(ident) => Expr::Identifier(exact(ident)),
            Expr::CompoundIdentifier(parts) => match &parts[..] {
                [qualifier, column] if self.own.contains(&ident_name(qualifier)) => {
                    Expr::Identifier(exact(column))
                }
                all => Expr::CompoundIdentifier(all.iter().map(exact).collect()),
            },
            Expr::Cast { kind: kind @ CastKind::DoubleColon, .. } => {
                *kind = CastKind::Cast;
                return ControlFlow::Continue(());
            }
            Expr::Function(function) => {
                for part in &mut function.name.0 {
                    if let ObjectNamePart::Identifier(ident) = part {
                        *ident = exact(ident);
                    }
                }
                return ControlFlow::Continue(());
            }
            _ => return ControlFlow::Continue(()),
        };
        *expr = plain;
        ControlFlow::Continue(())
    }
}

/// The expression as it is compared with others: without brackets, and without qualifiers that say
/// nothing. Beside a query in it they may.
pub(super) fn form(expr: &Expr, own: &[String]) -> Expr {
    let has_query = crate::outside::any(expr, |part| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
        Expr::Function(function) => matches!(function.args, FunctionArguments::Subquery(_)),
        _ => false,
    });
    let mut form = expr.clone();
    let _ = VisitMut::visit(&mut form, &mut Former { own: if has_query { &[] } else { own } });
    form
}

/// The name that qualifies columns of a query which without it are the same columns: that of its
/// only relation. Beside another, `a.k` and `b.k` are two.
pub(super) fn qualifiers(select: &Select) -> Vec<String> {
    let [from] = &select.from[..] else { return Vec::new() };
    let joined = matches!(&from.relation, TableFactor::NestedJoin { alias: None, .. });
    if joined || !from.joins.is_empty() {
        return Vec::new();
    }
    let mut names = Vec::new();
    names_of_from(from, &mut names);
    names.into_iter().map(|(_, name)| name).collect()
}

/// The select list up to the first `*`: behind that, nobody knows the positions yet.
fn shown(select: &Select, own: &[String]) -> Vec<Shown> {
    let column = |item: &SelectItem| {
        let (expr, alias) = match item {
            SelectItem::UnnamedExpr(expr) => (expr, None),
            SelectItem::ExprWithAlias { expr, alias } => (expr, Some(ident_name(alias))),
            _ => return None,
        };
        Some(Shown { alias, expr: expr.clone(), form: form(expr, own) })
    };
    select.projection.iter().map_while(column).collect()
}

fn without_brackets(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => without_brackets(inner),
        other => other,
    }
}

/// The column at a position of the select list; `None` if that is for the planner to say.
fn at_position<'a>(position: &Expr, columns: &'a [Shown], all: bool) -> Result<Option<&'a Shown>> {
    let text = position.to_string();
    let at = text.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
    match at.and_then(|at| columns.get(at)) {
        None if all => {
            let text = format!("DISTINCT ON position {text} is not in select list");
            Err(PgError::new("42P10", text))
        }
        found => Ok(found),
    }
}

/// What stands for a column where a name by itself is one of the result's first; `None` if nothing
/// does.
fn apart(column: &Shown, select: &Select, own: &[String]) -> Option<Expr> {
    let Expr::Identifier(ident) = without_brackets(&column.expr) else {
        return Some(column.expr.clone());
    };
    let name = ident_name(ident);
    let taken = select.projection.iter().any(|item| {
        matches!(item, SelectItem::ExprWithAlias { expr, alias }
            if ident_name(alias) == name && form(expr, own) != column.form)
    });
    match own {
        _ if !taken => Some(column.expr.clone()),
        [only] => {
            let qualifier = Ident::with_quote('"', only.as_str());
            Some(Expr::CompoundIdentifier(vec![qualifier, exact(ident)]))
        }
        _ => None,
    }
}

/// Whether an order is by the column of one relation where the select list has the like-named one
/// of another: two columns, though a join may be USING them.
fn of_another(wanted: &Expr, columns: &[Shown]) -> bool {
    let Expr::CompoundIdentifier(parts) = wanted else { return false };
    let [_, name] = &parts[..] else { return false };
    let named = |column: &&Shown| match &column.form {
        Expr::Identifier(ident) => ident == name,
        Expr::CompoundIdentifier(parts) => parts.last() == Some(name),
        _ => false,
    };
    let mut same = columns.iter().filter(named).peekable();
    same.peek().is_some()
        && same.all(
            |column| matches!(&column.form, Expr::CompoundIdentifier(parts) if parts.len() == 2),
        )
}

/// DISTINCT ON in the order of ORDER BY, which names at least as much afterwards. Where they do not
/// fit, both stay as they are. What either names again says nothing, and is left out: the planner
/// counts on as many orders as expressions.
fn in_one_order(
    on: &mut Vec<Expr>,
    order: &mut Vec<OrderByExpr>,
    columns: &[Shown],
    all: bool,
    own: &[String],
) {
    let key = |expr: &Expr| {
        let expr = without_brackets(expr);
        let position = || expr.to_string().parse::<usize>().ok()?.checked_sub(1);
        let found = match expr {
            Expr::Identifier(ident) => {
                let name = ident_name(ident);
                columns.iter().find(|column| column.alias.as_ref() == Some(&name))
            }
            expr if is_number(expr) => position().and_then(|at| columns.get(at)),
            _ => None,
        };
        match found {
            Some(column) => column.form.clone(),
            // Behind a `*` it may be the name of something else.
            None if !all && matches!(expr, Expr::Identifier(_)) => {
                Expr::Nested(Box::new(form(expr, own)))
            }
            None => form(expr, own),
        }
    };
    let mut left: Vec<(Expr, Expr)> = Vec::with_capacity(on.len());
    for expr in &*on {
        let wanted = key(expr);
        if left.iter().all(|(other, _)| *other != wanted) {
            left.push((wanted, expr.clone()));
        }
    }
    let mut sorted = Vec::with_capacity(left.len());
    let mut seen = Vec::with_capacity(order.len());
    let mut kept = Vec::with_capacity(order.len());
    for one in &*order {
        let wanted = key(&one.expr);
        if seen.contains(&wanted) {
            continue;
        }
        let mut one = one.clone();
        if !left.is_empty() {
            let Some(at) = left.iter().position(|(key, _)| *key == wanted) else { return };
            let (_, expr) = left.remove(at);
            if is_number(&one.expr) {
                one.expr = expr.clone();
            }
            sorted.push(expr);
        }
        seen.push(wanted);
        kept.push(one);
    }
    for (_, expr) in left {
        let options = OrderByOptions { asc: None, nulls_first: None };
        kept.push(OrderByExpr { expr: expr.clone(), options, with_fill: None });
        sorted.push(expr);
    }
    *on = sorted;
    *order = kept;
}

/// Writes positions for what distinct rows are ordered by, where the select list has it.
///
/// # Errors
/// 42P10 for a position that there is not, and an order by the column of a relation where the
/// select list has that of another.
pub(super) fn with_positions(query: &mut Query) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else { return Ok(()) };
    if !matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_))) {
        return Ok(());
    }
    let own = qualifiers(select);
    let columns = shown(select, &own);
    let all = columns.len() == select.projection.len();
    if let Some(Distinct::On(mut on)) = select.distinct.clone() {
        for one in on.iter_mut().filter(|one| is_number(one)) {
            let column = at_position(one, &columns, all)?;
            if let Some(expr) = column.and_then(|column| apart(column, select, &own)) {
                *one = expr;
            }
        }
        select.distinct = Some(Distinct::On(on));
    }
    let Some(order_by) = &mut query.order_by else { return Ok(()) };
    let OrderByKind::Expressions(order) = &mut order_by.kind else { return Ok(()) };
    if let Some(Distinct::On(on)) = &mut select.distinct {
        in_one_order(on, order, &columns, all, &own);
        return Ok(());
    }
    for one in order {
        // A name is one of the result's first, and a constant no expression at all.
        if matches!(without_brackets(&one.expr), Expr::Identifier(_) | Expr::Value(_)) {
            continue;
        }
        let wanted = form(&one.expr, &own);
        if let Some(at) = columns.iter().position(|column| column.form == wanted) {
            one.expr = number(&(at + 1).to_string());
        } else if all && of_another(&wanted, &columns) {
            let text = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            return Err(PgError::new("42P10", text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};
    use datafusion::sql::sqlparser::ast::Statement;

    fn rewritten(text: &str) -> Result<String> {
        let Parsed::Sql(ast) = parse_single(text)?.parsed else { panic!("no statement: {text}") };
        let Statement::Query(mut query) = *ast else { panic!("no query: {text}") };
        with_positions(&mut query)?;
        Ok(query.to_string())
    }

    #[test]
    fn an_expression_of_the_select_list_is_its_position() {
        for (text, order) in [
            ("select distinct a+1 from t order by a+1", "1"),
            ("select distinct b, (T.A + 1) as k from t order by a + 1 desc", "2 DESC"),
            ("select distinct a::text from t order by cast(T.a as text)", "1"),
            ("select distinct upper(c) from t order by UPPER(t.c), upper(c)", "1, 1"),
            ("select distinct count(*) from t group by a order by count(*)", "1"),
            ("select distinct a+1 as a from t order by a+1", "1"),
            ("select distinct x.a + y.b from t x, t y order by x.a + y.b", "1"),
            ("select distinct x.a, y.a from t x, t y order by y.a", "2"),
            ("select distinct x.a+1, y.a+1 from t x, t y order by y.a+1", "2"),
            ("select distinct x.a+1 from t x, t y order by y.a+1", "y.a + 1"),
            ("select distinct a from t x join t y using (a) order by y.a", "y.a"),
            ("select distinct a+1 from t order by 1+a", "1 + a"),
            ("select distinct a+1 from t order by a+2", "a + 2"),
            ("select distinct a from t order by b", "b"),
            ("select distinct a as b from t order by b", "b"),
            ("select distinct *, a+1 from t order by a+1", "a + 1"),
            ("select distinct \"A\"+1 from t order by a+1", "a + 1"),
            ("select distinct x.a+1 from t x full join t y using (a) order by a+1", "a + 1"),
            ("select a+1 from t order by a+1", "a + 1"),
        ] {
            let query = rewritten(text).expect(text);
            let (_, found) = query.rsplit_once(" ORDER BY ").expect(text);
            assert_eq!(found, order, "{text}");
        }
    }

    #[test]
    fn a_query_inside_keeps_the_names_that_it_is_written_with() {
        let inner = "(select max(b) from t x where x.a = t.a)";
        let other = "(select max(b) from t x where x.a = a)";
        let same = rewritten(&format!("select distinct {inner} from t order by {inner}"));
        assert!(same.expect("a query").ends_with(" ORDER BY 1"));
        let apart = rewritten(&format!("select distinct {inner} from t order by {other}"));
        assert!(!apart.expect("a query").ends_with(" ORDER BY 1"));
    }

    #[test]
    fn distinct_on_goes_as_the_order_goes() {
        for (text, wanted) in [
            ("a, b) a, b from t order by b, a, c", "b, a) a, b FROM t ORDER BY b, a, c"),
            ("a, b) a, b from t order by b desc", "b, a) a, b FROM t ORDER BY b DESC, a"),
            (
                "1) a + 1 as k, b from t order by 1, b",
                "a + 1) a + 1 AS k, b FROM t ORDER BY a + 1, b",
            ),
            ("a, t.a, 1) a, b from t order by a, a, b", "a) a, b FROM t ORDER BY a, b"),
            (
                "t.x) k as x, x as k from t order by t.x, k, x",
                "t.x) k AS x, x AS k FROM t ORDER BY t.x, x",
            ),
            (
                "1) n as k, k as n from t order by 1",
                "\"t\".\"n\") n AS k, k AS n FROM t ORDER BY \"t\".\"n\"",
            ),
            ("1) n as k, k as n from t, o", "1) n AS k, k AS n FROM t, o"),
            (
                "x.a, y.a) 1 from t x, t y order by y.a, x.a",
                "y.a, x.a) 1 FROM t x, t y ORDER BY y.a, x.a",
            ),
            ("a) a, b from t order by b", "a) a, b FROM t ORDER BY b"),
            ("a) a, b from t", "a) a, b FROM t"),
        ] {
            let query = rewritten(&format!("select distinct on ({text}")).expect(text);
            assert_eq!(query, format!("SELECT DISTINCT ON ({wanted}"), "{text}");
        }
        let error = rewritten("select distinct on (3) a, b from t").expect_err("no such position");
        assert_eq!(error.message, "DISTINCT ON position 3 is not in select list");
    }

    #[test]
    fn the_column_of_another_relation_is_refused() {
        for from in ["t x, t y", "t x join t y using (a)", "t x natural join t y"] {
            let text = format!("select distinct x.a from {from} order by y.a");
            let error = rewritten(&text).expect_err(&text);
            let wanted = "for SELECT DISTINCT, ORDER BY expressions must appear in select list";
            assert_eq!(error.message, wanted, "{text}");
        }
    }
}
