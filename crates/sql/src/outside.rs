//! What stands in an expression itself, not in a query inside of it: names and calls there mean
//! something else.

use datafusion::sql::sqlparser::ast::{Expr, Query, Visit, Visitor};
use std::ops::ControlFlow;

struct Outside<F> {
    depth: usize,
    wanted: F,
}

impl<F: FnMut(&Expr) -> bool> Visitor for Outside<F> {
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
        match self.depth == 0 && (self.wanted)(expr) {
            true => ControlFlow::Break(()),
            false => ControlFlow::Continue(()),
        }
    }
}

/// Whether a part of the expression is wanted; the first that is ends the search.
pub(crate) fn any(expr: &Expr, wanted: impl FnMut(&Expr) -> bool) -> bool {
    expr.visit(&mut Outside { depth: 0, wanted }).is_break()
}
