//! Queries of WITH that name themselves: in the field they are recursive without the word.
//!
//! What it promises: RECURSIVE is put there only where PostgreSQL would find no relation of the
//! name. What it must never do: make a query read itself that reads a table called like it.

use crate::Result;
use crate::bind::{ident_name, table_parts};
use crate::session::Session;
use datafusion::sql::sqlparser::ast::{
    Cte, Query, SetExpr, SetOperator, Statement as Ast, TableFactor, Visit, VisitMut, Visitor,
    VisitorMut,
};
use std::ops::ControlFlow;

/// Looks for a relation of a name.
struct Named<'a>(&'a str);

impl Visitor for Named<'_> {
    type Break = ();

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { name, args: None, .. }
                if table_parts(name)
                    .is_ok_and(|(schema, name)| schema.is_none() && name == self.0) =>
            {
                ControlFlow::Break(())
            }
            _ => ControlFlow::Continue(()),
        }
    }
}

fn names_itself(cte: &Cte) -> bool {
    cte.query.visit(&mut Named(&ident_name(&cte.alias.name))).is_break()
}

/// Names of queries of WITH: all, and those of unions that name themselves.
#[derive(Default)]
struct Names {
    all: Vec<String>,
    own: Vec<String>,
}

impl Visitor for Names {
    type Break = ();

    fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
        let Some(with) = &query.with else { return ControlFlow::Continue(()) };
        for cte in &with.cte_tables {
            let name = ident_name(&cte.alias.name);
            let body = &*cte.query.body;
            let union = matches!(body, SetExpr::SetOperation { op: SetOperator::Union, .. });
            if union && !with.recursive && names_itself(cte) {
                self.own.push(name.clone());
            }
            self.all.push(name);
        }
        ControlFlow::Continue(())
    }
}

/// Puts the word where such a query is.
struct Rewriter<'a>(&'a [String]);

impl VisitorMut for Rewriter<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, query: &mut Query) -> ControlFlow<()> {
        let Some(with) = &mut query.with else { return ControlFlow::Continue(()) };
        let wanted = |cte: &Cte| self.0.contains(&ident_name(&cte.alias.name));
        // The word counts for all queries beside it: none of them may read a table of its name.
        let alone = |cte: &Cte| wanted(cte) || !names_itself(cte);
        with.recursive |= with.cte_tables.iter().any(wanted) && with.cte_tables.iter().all(alone);
        ControlFlow::Continue(())
    }
}

/// The queries that may be recursive without the word: no other has the name of one of them.
fn candidates(ast: &Ast) -> Vec<String> {
    let mut names = Names::default();
    let _ = ast.visit(&mut names);
    let Names { all, own } = names;
    let count = |name: &String| all.iter().filter(|known| *known == name).count();
    own.into_iter().filter(|name| count(name) == 1).collect()
}

impl Session {
    /// The statement with RECURSIVE where a query names itself and nothing else has the name;
    /// `None`: there is none.
    pub(crate) async fn with_recursion(&mut self, ast: &Ast) -> Result<Option<Ast>> {
        let mut missing = Vec::new();
        for name in candidates(ast) {
            let found = self.find_relation(None, &name).await;
            if found.is_err_and(|error| error.code == "42P01") {
                missing.push(name);
            }
        }
        if missing.is_empty() {
            return Ok(None);
        }
        let mut own = ast.clone();
        let _ = VisitMut::visit(&mut own, &mut Rewriter(&missing));
        Ok(Some(own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};

    fn parsed(text: &str) -> Ast {
        let Parsed::Sql(ast) = parse_single(text).unwrap().parsed else { panic!("{text}") };
        *ast
    }

    #[test]
    fn queries_that_name_themselves_are_found() {
        let found = |text: &str| candidates(&parsed(text)).join(",");
        let counts = "with t (n) as (select 1 union all select n + 1 from t where n < 5) select 1";
        assert_eq!(found(counts), "t");
        for text in [
            "with recursive t (n) as (select 1 union all select n + 1 from t) select 1",
            "with t as (select n from t) select 1",
            "with t as (select 1 union all select n from s.t) select 1",
            "with t as (select 1) select * from (with t as (select 1 union all select * from t) \
             select * from t) x",
            "with a as (select 1 union all select * from b), b as (select 1) select 1",
        ] {
            assert_eq!(found(text), "", "{text}");
        }
    }

    #[test]
    fn the_word_is_put_where_no_table_is_read() {
        let both = "with t as (select 1 union all select * from t), u as (select 1 from u) \
                    select 1";
        for (text, names, wanted) in [
            ("with t as (select 1 union all select * from t) select 1", ["t"], true),
            (both, ["t"], false),
            ("with u as (select 1) select 1", ["t"], false),
        ] {
            let mut ast = parsed(text);
            let names = names.map(str::to_owned);
            let _ = VisitMut::visit(&mut ast, &mut Rewriter(&names));
            assert_eq!(ast.to_string().starts_with("WITH RECURSIVE"), wanted, "{text}");
        }
    }
}
