//! WITH inside of a query that names itself, and such a query in parentheses: the library looks for
//! the two terms at the top, and for WITH in each of them.
//!
//! What it promises: the terms see the queries that they name. What it must never do: change a
//! query that is no union.

use super::{ident_name, table_parts};
use datafusion::sql::sqlparser::ast::{
    ObjectName, Query, SetExpr, SetOperator, With, visit_relations,
};
use std::ops::ControlFlow;

/// Gives what stands in WITH before a union to those of its terms that name one of its queries.
pub(super) fn with_in_terms(query: &mut Query) {
    while let SetExpr::Query(inner) = &mut *query.body
        && is_bare(inner)
        && (inner.with.is_none() || query.with.is_none())
    {
        let (with, body) = (inner.with.take(), inner.body.clone());
        query.with = query.with.take().or(with);
        query.body = body;
    }
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = &mut *query.body else {
        return;
    };
    let Some(with) = query.with.take() else { return };
    for term in [left, right] {
        if names_one(term, &with) {
            let body = term.clone();
            **term = SetExpr::Query(Box::new(Query {
                with: Some(with.clone()),
                body,
                order_by: None,
                limit_clause: None,
                fetch: None,
                locks: Vec::new(),
                for_clause: None,
                settings: None,
                format_clause: None,
                pipe_operators: Vec::new(),
            }));
        }
    }
}

/// Whether a query has nothing behind its body.
fn is_bare(query: &Query) -> bool {
    query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
}

fn names_one(term: &SetExpr, with: &With) -> bool {
    let known: Vec<String> =
        with.cte_tables.iter().map(|cte| ident_name(&cte.alias.name)).collect();
    let named = |name: &ObjectName| {
        let one =
            table_parts(name).is_ok_and(|(schema, name)| schema.is_none() && known.contains(&name));
        if one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    visit_relations(term, named).is_break()
}
