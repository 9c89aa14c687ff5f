//! Dates of the field in its own code: a variable that is declared as `date` has a time of day, and
//! from one such date to another it is a number of days.
//!
//! What it promises: only what is added to or taken from is marked. What it must never do: touch a
//! value that was declared as something else.

use crate::bind::call;
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Statement as Ast, Value, VisitMut, VisitorMut,
};
use std::collections::BTreeSet;
use std::ops::ControlFlow;

/// The function that marks a date of the field; it gives what it gets.
pub(crate) const DAY: &str = "$day";

/// Marks those parameters, by their numbers from 1, that are computed with: which they are, which
/// is part of what the text means.
pub(crate) fn mark_dates(ast: &mut Ast, dates: &[usize]) -> BTreeSet<usize> {
    let mut marker = Marker { dates, marked: BTreeSet::new(), depth: 0 };
    if !dates.is_empty() {
        let _ = VisitMut::visit(ast, &mut marker);
    }
    marker.marked
}

struct Marker<'a> {
    dates: &'a [usize],
    marked: BTreeSet<usize>,
    /// Sums and differences around.
    depth: usize,
}

fn is_sum(expr: &Expr) -> bool {
    matches!(expr, Expr::BinaryOp { op: BinaryOperator::Plus | BinaryOperator::Minus, .. })
}

impl VisitorMut for Marker<'_> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth += usize::from(is_sum(expr));
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        self.depth -= usize::from(is_sum(expr));
        let number: Option<usize> = match expr {
            Expr::Value(value) if self.depth > 0 => match &value.value {
                Value::Placeholder(name) => name.strip_prefix('$').and_then(|n| n.parse().ok()),
                _ => None,
            },
            _ => None,
        };
        if let Some(number) = number.filter(|number| self.dates.contains(number)) {
            self.marked.insert(number);
            let inner = std::mem::replace(expr, Expr::Value(Value::Null.into()));
            *expr = call(DAY, vec![inner]);
        }
        ControlFlow::Continue(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};

    #[test]
    fn dates_are_marked_where_they_are_computed_with() {
        for (text, marked, which) in [
            ("select $1 - $2", "SELECT \"$day\"($1) - $2", &[1][..]),
            (
                "select ($3 - $1) * 86400, $1",
                "SELECT (\"$day\"($3) - \"$day\"($1)) * 86400, $1",
                &[1, 3],
            ),
            ("select trunc($1) - $2", "SELECT trunc(\"$day\"($1)) - $2", &[1]),
            ("select $1 * 2, f($1)", "SELECT $1 * 2, f($1)", &[]),
        ] {
            let Parsed::Sql(mut ast) = parse_single(text).unwrap().parsed else { panic!("{text}") };
            let found = mark_dates(&mut ast, &[1, 3]);
            assert!(found.iter().eq(which), "{text}");
            assert_eq!(ast.to_string(), marked, "{text}");
        }
    }
}
