//! `s.nextval` and `s.currval`: in one row all of a sequence that stand by themselves are one
//! value.
//!
//! What it promises: a select list or a row of VALUES takes one value of a sequence however often
//! it names it so, and `currval` beside `nextval` is that value; what stands inside another
//! expression takes its own. What it must never do: touch `nextval('s')`, of which each call takes
//! a value.

use super::quoted;
use crate::bind::{call, ident_name, number, table_alias};
use datafusion::sql::sqlparser::ast::{
    Expr, Ident, Query, Select, SelectItem, SetExpr, TableFactor, Value,
};

/// A value of a sequence, by its name and by the number of the row in the statement.
pub(crate) const NEXT_OF_ROW: &str = "$nextval";

/// The word and the name of a sequence in front of it.
fn sequence(expr: &Expr) -> Option<(&'static str, &[Ident])> {
    let Expr::CompoundIdentifier(parts) = expr else { return None };
    let (last, name) = parts.split_last()?;
    if last.quote_style.is_some() || name.is_empty() {
        return None;
    }
    let word = ["nextval", "currval"].into_iter().find(|w| last.value.eq_ignore_ascii_case(w))?;
    Some((word, name))
}

/// Whether an expression is one of the words.
pub(super) fn is_value(expr: &Expr) -> bool {
    sequence(expr).is_some()
}

/// The name that something in FROM goes by.
fn named(factor: &TableFactor) -> Option<String> {
    let table = || match factor {
        TableFactor::Table { name, .. } | TableFactor::Function { name, .. } => {
            name.0.last().and_then(|part| part.as_ident()).map(ident_name)
        }
        _ => None,
    };
    table_alias(factor).map(|alias| ident_name(&alias.name)).or_else(table)
}

fn shown(name: &[Ident]) -> String {
    name.iter().map(ident_name).collect::<Vec<_>>().join(".")
}

/// Numbers the rows of a statement that take values.
#[derive(Default)]
pub(super) struct Rows(usize);

impl Rows {
    /// The expressions of one row, in which these names are tables': those that are a value and
    /// nothing else. Parts of others may not be reached, and take a value of their own if they are.
    fn row(&mut self, exprs: Vec<&mut Expr>, tables: &[String]) {
        let taken: Vec<String> = exprs
            .iter()
            .filter_map(|expr| sequence(expr))
            .filter(|(word, _)| *word == "nextval")
            .map(|(_, name)| shown(name))
            .filter(|name| !tables.contains(name))
            .collect();
        if taken.is_empty() {
            return;
        }
        self.0 += 1;
        for expr in exprs {
            if let Some((_, name)) = sequence(expr)
                && let name = shown(name)
                && taken.contains(&name)
            {
                let name = Expr::Value(Value::SingleQuotedString(name).into());
                *expr = call(NEXT_OF_ROW, vec![name, number(&self.0.to_string())]);
            }
        }
    }

    pub(super) fn select(&mut self, select: &mut Select) {
        let relations = select.from.iter().flat_map(|table| {
            std::iter::once(&table.relation).chain(table.joins.iter().map(|join| &join.relation))
        });
        let tables: Vec<String> = relations.filter_map(named).collect();
        // The column is called as it was before.
        for item in &mut select.projection {
            if let SelectItem::UnnamedExpr(expr) = item
                && let Some((word, _)) = sequence(expr)
            {
                *item = SelectItem::ExprWithAlias { expr: expr.clone(), alias: quoted(word) };
            }
        }
        let exprs = select.projection.iter_mut().filter_map(|item| match item {
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
            _ => None,
        });
        self.row(exprs.collect(), &tables);
    }

    pub(super) fn query(&mut self, query: &mut Query) {
        if let SetExpr::Values(values) = &mut *query.body {
            for row in &mut values.rows {
                self.row(row.iter_mut().collect(), &[]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::idioms::tests::shown;

    #[test]
    fn all_values_of_a_sequence_in_a_row_are_one() {
        assert_eq!(
            shown("insert into t values (s.nextval, s.currval), (s.nextval, q.currval)"),
            "INSERT INTO t VALUES (\"$nextval\"('s', 1), \"$nextval\"('s', 1)), \
             (\"$nextval\"('s', 2), q.currval)"
        );
        assert_eq!(
            shown("select s.nextval, s.currval as c, a.nextval, s.nextval + 1 from a"),
            "SELECT \"$nextval\"('s', 1) AS \"nextval\", \"$nextval\"('s', 1) AS c, \
             a.nextval AS \"nextval\", s.nextval + 1 FROM a"
        );
    }
}
