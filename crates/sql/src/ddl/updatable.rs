//! Statements that would change rows through a view.
//!
//! What it promises: a view that PostgreSQL would not write through is refused in its words. What
//! it must never do: change another table than was meant.

use super::view::query_of;
use crate::bind::ident_name;
use crate::session::Session;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    Expr, Function, GroupByExpr, ObjectName, Query, SelectItem, SetExpr, TableFactor,
    visit_expressions,
};
use kernel::dict::TableDef;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What a statement does to rows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verb {
    Insert,
    Update,
    Delete,
    Merge,
}

/// Why rows cannot be changed through a query, in PostgreSQL's words.
pub(crate) fn why_not(query: &Query) -> Option<&'static str> {
    if query.with.is_some() {
        return Some("Views containing WITH are not automatically updatable.");
    }
    if query.limit_clause.is_some() || query.fetch.is_some() {
        return Some("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    let select = match &*query.body {
        SetExpr::Select(select) => select,
        SetExpr::SetOperation { .. } => {
            let text =
                "Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.";
            return Some(text);
        }
        _ => {
            let text = "Views that do not select from a single table or view are not \
                        automatically updatable.";
            return Some(text);
        }
    };
    if select.distinct.is_some() {
        return Some("Views containing DISTINCT are not automatically updatable.");
    }
    let grouped = !matches!(&select.group_by, GroupByExpr::Expressions(all, _) if all.is_empty());
    if grouped {
        return Some("Views containing GROUP BY are not automatically updatable.");
    }
    if select.having.is_some() {
        return Some("Views containing HAVING are not automatically updatable.");
    }
    let one_table = matches!(&select.from[..], [one] if one.joins.is_empty()
        && matches!(one.relation, TableFactor::Table { args: None, .. }));
    if !one_table {
        let text = "Views that do not select from a single table or view are not automatically \
                    updatable.";
        return Some(text);
    }
    if select.projection.iter().any(is_aggregate) {
        return Some("Views that return aggregate functions are not automatically updatable.");
    }
    if select.projection.iter().any(|item| has_function(item, |f| f.over.is_some())) {
        return Some("Views that return window functions are not automatically updatable.");
    }
    if select.projection.iter().any(|item| has_function(item, gives_rows)) {
        return Some("Views that return set-returning functions are not automatically updatable.");
    }
    None
}

/// Why no row can be written through a query that rows can be deleted through.
pub(crate) fn why_not_written(query: &Query) -> Option<&'static str> {
    let column = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        }
        _ => false,
    };
    let shows = match &*query.body {
        SetExpr::Select(select) => select.projection.iter().any(column),
        _ => false,
    };
    let none = "Views that have no updatable columns are not automatically updatable.";
    why_not(query).or((!shows).then_some(none))
}

fn has_function(item: &SelectItem, wanted: impl Fn(&Function) -> bool) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return false;
    };
    visit_expressions(expr, |part| match part {
        Expr::Function(function) if wanted(function) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

/// Whether a function gives a set of rows.
fn gives_rows(function: &Function) -> bool {
    const SETS: [&str; 9] = [
        "generate_series",
        "generate_subscripts",
        "unnest",
        "regexp_matches",
        "regexp_split_to_table",
        "json_array_elements",
        "jsonb_array_elements",
        "jsonb_object_keys",
        "json_object_keys",
    ];
    let name = function.name.0.last().and_then(|part| part.as_ident()).map(ident_name);
    name.is_some_and(|name| SETS.contains(&name.as_str()))
}

fn is_aggregate(item: &SelectItem) -> bool {
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
        return false;
    };
    crate::check::has_aggregate(expr)
}

impl Session {
    /// The table that COPY reads (`out`) or fills.
    pub(crate) async fn copied_table(
        &mut self,
        name: &ObjectName,
        out: bool,
    ) -> Result<Arc<TableDef>> {
        let def = self.relation_of(name).await?;
        if def.view.is_none() {
            return Ok(def);
        }
        let (way, hint) = if out {
            ("from", "Try the COPY (SELECT ...) TO variant.")
        } else {
            ("to", "To enable copying to a view, provide an INSTEAD OF INSERT trigger.")
        };
        let text = format!("cannot copy {way} view \"{}\"", def.name);
        Err(PgError::new("42809", text).with_hint(hint))
    }
}

/// The refusal of a statement that changes a view.
pub(crate) fn not_updatable(view: &TableDef, verb: Verb) -> PgError {
    let (action, doing, event) = match verb {
        Verb::Insert => ("insert into", "inserting into", "INSERT"),
        Verb::Update => ("update", "updating", "UPDATE"),
        Verb::Delete => ("delete from", "deleting from", "DELETE"),
        Verb::Merge => {
            let text = format!("cannot execute MERGE on relation \"{}\"", view.name);
            return PgError::new("0A000", text)
                .with_detail("This operation is not supported for views.");
        }
    };
    let name = &view.name;
    let query = view.view.as_ref().map(query_of);
    let why = match &query {
        Some(Ok(query)) if verb == Verb::Delete => why_not(query),
        Some(Ok(query)) => why_not_written(query),
        _ => None,
    };
    match why {
        Some(why) => PgError::new("55000", format!("cannot {action} view \"{name}\""))
            .with_detail(why)
            .with_hint(format!(
                "To enable {doing} the view, provide an INSTEAD OF {event} trigger or an \
                 unconditional ON {event} DO INSTEAD rule."
            )),
        None => PgError::unsupported(format!("{event} through a view (\"{name}\")"))
            .with_hint("Change the table that the view reads."),
    }
}
