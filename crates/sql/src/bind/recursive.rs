//! WITH inside of a query that names itself, and such a query in parentheses: the library looks for
//! the two terms at the top, and for WITH in each of them.
//!
//! What it promises: the terms see the queries that they name. What it must never do: change a
//! query that is no union.

use super::{ident_name, table_parts};
use crate::Result;
use datafusion::sql::sqlparser::ast::{ObjectName, Query, SetExpr, SetOperator, visit_relations};
use std::ops::ControlFlow;

/// Gives what stands in WITH before a union to those of its terms that name one of its queries.
/// `own`: what the query, if it names itself, is called.
///
/// # Errors
/// 0A000 for a query of that WITH that is to be run once.
pub(super) fn with_in_terms(query: &mut Query, own: &str) -> Result<()> {
    if !names_any(&query.body, &[own.to_owned()]) {
        return Ok(());
    }
    while let SetExpr::Query(inner) = &mut *query.body
        && is_bare(inner)
        && (inner.with.is_none() || query.with.is_none())
    {
        let (with, body) = (inner.with.take(), inner.body.clone());
        query.with = query.with.take().or(with);
        query.body = body;
    }
    crate::with::check_run_once(query)?;
    let SetExpr::SetOperation { op: SetOperator::Union, left, right, .. } = &mut *query.body else {
        return Ok(());
    };
    let Some(with) = query.with.take() else { return Ok(()) };
    let known: Vec<String> =
        with.cte_tables.iter().map(|cte| ident_name(&cte.alias.name)).collect();
    for term in [left, right] {
        if names_any(term, &known) {
            let body = term.clone();
            **term = SetExpr::Query(Box::new(Query {
                with: Some(with.clone()),
                body,
                ..crate::view::no_query()
            }));
        }
    }
    Ok(())
}

/// Whether a query has nothing behind its body.
fn is_bare(query: &Query) -> bool {
    query.order_by.is_none()
        && query.limit_clause.is_none()
        && query.fetch.is_none()
        && query.locks.is_empty()
}

fn names_any(term: &SetExpr, known: &[String]) -> bool {
    let named = |name: &ObjectName| {
        let one =
            table_parts(name).is_ok_and(|(schema, name)| schema.is_none() && known.contains(&name));
        if one { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    visit_relations(term, named).is_break()
}
