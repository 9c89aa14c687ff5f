//! Long chains of AND and OR as balanced trees: the parser makes trees as deep as such a chain is
//! long, and all that walks them, or only drops them, needs stack and time for that.
//!
//! What it promises: the same terms in the same order; the text of the tree stays as it was.

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Statement as Ast, Value, VisitMut, VisitorMut,
};
use std::ops::ControlFlow;

/// Shorter chains stay as they are.
pub(crate) const CHAIN_MIN: usize = 32;

/// Balances a statement's chains.
pub(super) fn balance(ast: &mut Ast) {
    let _: ControlFlow<()> = ast.visit(&mut Balance);
}

struct Balance;

impl VisitorMut for Balance {
    type Break = ();

    // Before what is in it: from here on the walk is not deep.
    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::BinaryOp { op: op @ (BinaryOperator::And | BinaryOperator::Or), .. } = &*expr
            && is_long(expr, op)
        {
            let op = op.clone();
            let chain = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = balanced(chain, &op);
        }
        ControlFlow::Continue(())
    }
}

fn is_long(mut expr: &Expr, chain: &BinaryOperator) -> bool {
    for _ in 1..CHAIN_MIN {
        match expr {
            Expr::BinaryOp { left, op, .. } if op == chain => expr = left,
            _ => return false,
        }
    }
    true
}

fn balanced(chain: Expr, with: &BinaryOperator) -> Expr {
    let (mut terms, mut rest) = (Vec::new(), chain);
    let first = loop {
        match rest {
            Expr::BinaryOp { left, op, right } if op == *with => {
                terms.push(*right);
                rest = *left;
            }
            other => break other,
        }
    };
    terms.push(first);
    terms.reverse();
    while terms.len() > 1 {
        let mut pairs = Vec::with_capacity(terms.len().div_ceil(2));
        let mut rest = terms.into_iter();
        while let Some(left) = rest.next() {
            pairs.push(match rest.next() {
                Some(right) => Expr::BinaryOp {
                    left: Box::new(left),
                    op: with.clone(),
                    right: Box::new(right),
                },
                None => left,
            });
        }
        terms = pairs;
    }
    terms.pop().unwrap_or_else(|| Expr::Value(Value::Null.into()))
}

#[cfg(test)]
mod tests {
    use crate::parse::{Parsed, parse_single};
    use datafusion::sql::sqlparser::ast::{Expr, SetExpr, Statement as Ast};

    fn depth(expr: &Expr) -> usize {
        match expr {
            Expr::BinaryOp { left, right, .. } => 1 + depth(left).max(depth(right)),
            _ => 0,
        }
    }

    #[test]
    fn long_chains_are_balanced_and_read_as_before() {
        let ors: Vec<String> = (0..1_000).map(|n| format!("v = {n} AND w = {n}")).collect();
        let text = format!("SELECT 1 FROM t WHERE {}", ors.join(" OR "));
        let Parsed::Sql(ast) = parse_single(&text).unwrap().parsed else { panic!() };
        assert_eq!(ast.to_string(), text);
        let Ast::Query(query) = *ast else { panic!() };
        let SetExpr::Select(select) = *query.body else { panic!() };
        assert_eq!(depth(&select.selection.unwrap()), 12);
    }
}
