//! Functions over many rows in places that have none.
//!
//! What it promises: it looks at a query's own calls, not at those of queries inside it.

use super::{ident_name, table_parts};
use crate::check::is_aggregate;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, Query, SetExpr, SetOperator, TableFactor, Visit, Visitor,
};
use std::ops::ControlFlow;

/// Looks for a call outside of subqueries.
struct Calls<F> {
    depth: usize,
    wanted: F,
}

impl<F: FnMut(&Function) -> bool> Visitor for Calls<F> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.depth -= 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::Function(function) if self.depth == 0 && (self.wanted)(function) => {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn calls(part: &impl Visit, wanted: impl FnMut(&Function) -> bool) -> bool {
    part.visit(&mut Calls { depth: 0, wanted }).is_break()
}

/// 42P20 for a window function in a clause that has none.
pub(super) fn no_windows(expr: &Expr, clause: &str) -> Result<()> {
    if calls(expr, |function| function.over.is_some()) {
        let text = format!("window functions are not allowed in {clause}");
        return Err(PgError::new("42P20", text));
    }
    Ok(())
}

/// 42P19 for an aggregate over the rows that a recursive query gives itself: it would have one
/// every time.
pub(super) fn check_recursion(name: &str, query: &Query) -> Result<()> {
    let SetExpr::SetOperation { op: SetOperator::Union, right, .. } = &*query.body else {
        return Ok(());
    };
    let SetExpr::Select(select) = &**right else { return Ok(()) };
    let factors = select.from.iter().flat_map(|from| {
        std::iter::once(&from.relation).chain(from.joins.iter().map(|join| &join.relation))
    });
    let names_itself = factors.into_iter().any(|factor| match factor {
        TableFactor::Table { name: table, .. } => {
            table_parts(table).is_ok_and(|(schema, table)| schema.is_none() && table == name)
        }
        _ => false,
    });
    let aggregate = |function: &Function| {
        let called = function.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
        function.over.is_none() && called.is_some_and(|called| is_aggregate(&called))
    };
    let has = calls(&select.projection, aggregate)
        || select.having.as_ref().is_some_and(|having| calls(having, aggregate));
    if names_itself && has {
        let text = "aggregate functions are not allowed in a recursive query's recursive term";
        return Err(PgError::new("42P19", text));
    }
    Ok(())
}
