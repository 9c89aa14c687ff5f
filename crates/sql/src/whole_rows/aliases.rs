//! Names of output columns where they mean nothing: inside an expression of ORDER BY or GROUP BY,
//! and in HAVING. The library would take them for the output columns.
//!
//! What it promises: such a name means a column of what stands in FROM, or is refused. What it must
//! never do: touch a name that stands alone in ORDER BY.

use super::walk::Rewriter;
use crate::bind::ident_name;
use crate::{PgError, Result, outside};
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// The names that a select list gives to what has another one.
pub(super) fn given(select: &Select) -> Vec<String> {
    let own = |expr: &Expr| match expr {
        Expr::Identifier(ident) => Some(ident_name(ident)),
        _ => None,
    };
    let name = |item: &SelectItem| match item {
        SelectItem::ExprWithAlias { expr, alias } => {
            Some(ident_name(alias)).filter(|name| own(expr).as_ref() != Some(name))
        }
        _ => None,
    };
    select.projection.iter().filter_map(name).collect()
}

/// Whether an expression is more than a name and has one of the names in it, outside of queries.
fn has(expr: &Expr, names: &[String]) -> bool {
    let named = |part: &Expr| match part {
        Expr::Identifier(ident) => names.contains(&ident_name(ident)),
        _ => false,
    };
    !matches!(expr, Expr::Identifier(_)) && outside::any(expr, named)
}

/// Whether a query may have such a name.
pub(super) fn may_be_in(query: &Query) -> bool {
    let SetExpr::Select(select) = &*query.body else { return false };
    let names = given(select);
    if names.is_empty() {
        return false;
    }
    let ordered = match query.order_by.as_ref().map(|order_by| &order_by.kind) {
        Some(OrderByKind::Expressions(all)) => all.iter().any(|one| has(&one.expr, &names)),
        _ => false,
    };
    let grouped = match &select.group_by {
        GroupByExpr::Expressions(all, _) => all.iter().any(|expr| has(expr, &names)),
        GroupByExpr::All(_) => false,
    };
    ordered || grouped || select.having.as_ref().is_some_and(|expr| has(expr, &names))
}

/// Puts columns in the place of names.
struct Settle<'r, 'a> {
    rewriter: &'r Rewriter<'a>,
    names: &'r [String],
    depth: usize,
}

impl VisitorMut for Settle<'_, '_> {
    type Break = Box<PgError>;

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<PgError>> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<Box<PgError>> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<Box<PgError>> {
        let Expr::Identifier(ident) = &*expr else { return ControlFlow::Continue(()) };
        let name = ident_name(ident);
        if self.depth > 0 || !self.names.contains(&name) {
            return ControlFlow::Continue(());
        }
        match self.rewriter.column_of(&name) {
            Ok(Some(column)) => *expr = column,
            Ok(None) => {}
            Err(error) => return ControlFlow::Break(Box::new(error)),
        }
        ControlFlow::Continue(())
    }
}

impl Rewriter<'_> {
    /// The names given in a query's list that mean something else where ORDER BY has them in an
    /// expression. One that is a column's as well is marked, since the library would find
    /// both; that can be done only where nobody selects from the query.
    pub(super) fn given_beside_columns(&self, query: &mut Query) -> Vec<String> {
        let SetExpr::Select(select) = &mut *query.body else { return Vec::new() };
        let mut names = given(select);
        let Some(order_by) = &mut query.order_by else { return names };
        let OrderByKind::Expressions(all) = &mut order_by.kind else { return names };
        let used = |name: &String| all.iter().any(|one| has(&one.expr, std::slice::from_ref(name)));
        let both = |name: &String| matches!(self.column_of(name), Ok(Some(_)));
        let twice: Vec<String> =
            names.iter().filter(|name| used(name) && both(name)).cloned().collect();
        if self.depth > 1 {
            names.retain(|name| !twice.contains(name));
            return names;
        }
        for (number, name) in twice.iter().enumerate() {
            let mark = super::quoted(&crate::bind::marked_name(name, number));
            for item in &mut select.projection {
                if let SelectItem::ExprWithAlias { alias, .. } = item
                    && ident_name(alias) == *name
                {
                    *alias = mark.clone();
                }
            }
            for one in all.iter_mut() {
                if matches!(&one.expr, Expr::Identifier(ident) if ident_name(ident) == *name) {
                    one.expr = Expr::Identifier(mark.clone());
                }
            }
        }
        names
    }

    /// What a name means that stands for no output column; `None`: that is not known here.
    fn column_of(&self, name: &str) -> Result<Option<Expr>> {
        for scope in self.scopes.iter().rev() {
            let Some(visible) = &scope.visible else { return Ok(None) };
            let mut all = visible.iter().filter(|one| one.name == name);
            if let Some(first) = all.next() {
                // Of several it is told elsewhere that they are.
                return Ok(all.next().is_none().then(|| first.expr.clone()));
            }
            if scope.sources.iter().any(|source| source.alias == name) {
                return Ok(None);
            }
        }
        Err(PgError::new("42703", format!("column \"{name}\" does not exist")))
    }

    /// Takes an expression's names for columns of what stands in FROM.
    pub(super) fn settle_names(&self, expr: &mut Expr, names: &[String]) -> Result<()> {
        if names.is_empty() || matches!(expr, Expr::Identifier(_)) {
            return Ok(());
        }
        match expr.visit(&mut Settle { rewriter: self, names, depth: 0 }) {
            ControlFlow::Break(error) => Err(*error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }
}
