//! Columns that a select list has twice: once by a wildcard, once by their names.
//!
//! What it promises: `SELECT *, id FROM t` shows `id` twice, as PostgreSQL does; the second one has
//! a mark in its name, which clients do not see.

use super::quoted;
use super::walk::{column, qualifier};
use crate::bind::marked_name;
use datafusion::sql::sqlparser::ast::{Select, SelectItem};

/// Whether a list has wildcards and something beside them.
pub(super) fn may_repeat(select: &Select) -> bool {
    select.projection.len() > 1 && select.projection.iter().any(is_wildcard)
}

fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Marks what stands beside a wildcard and is called as one of its columns. `names` are those of
/// each item.
pub(super) fn mark(items: &mut Vec<SelectItem>, names: &[Vec<String>]) {
    if !items.iter().any(is_wildcard) {
        return;
    }
    let all = items.iter().any(|item| matches!(item, SelectItem::Wildcard(_)));
    let mut qualifiers: Vec<String> = Vec::new();
    let mut out = Vec::with_capacity(items.len());
    // What wildcards that stay show.
    let mut shown: Vec<&String> = Vec::new();
    for (item, own) in items.iter().zip(names) {
        if let SelectItem::QualifiedWildcard(kind, _) = item {
            let name = qualifier(kind);
            if all || qualifiers.contains(&name) {
                continue;
            }
            qualifiers.push(name);
        } else if !is_wildcard(item) {
            continue;
        }
        shown.extend(own);
    }
    let mut kept: Vec<String> = Vec::new();
    for (item, own) in items.drain(..).zip(names) {
        let number = out.len();
        match item {
            SelectItem::QualifiedWildcard(kind, options) => {
                let name = qualifier(&kind);
                let again = all || kept.contains(&name);
                if !again || own.is_empty() {
                    kept.push(name);
                    out.push(SelectItem::QualifiedWildcard(kind, options));
                    continue;
                }
                out.extend(own.iter().enumerate().map(|(at, one)| SelectItem::ExprWithAlias {
                    expr: column(&name, one),
                    alias: quoted(&marked_name(one, number + at)),
                }));
            }
            SelectItem::UnnamedExpr(expr) if own.iter().any(|name| shown.contains(&name)) => {
                let alias = quoted(&marked_name(&own[0], number));
                out.push(SelectItem::ExprWithAlias { expr, alias });
            }
            SelectItem::ExprWithAlias { expr, .. }
                if own.iter().any(|name| shown.contains(&name)) =>
            {
                let alias = quoted(&marked_name(&own[0], number));
                out.push(SelectItem::ExprWithAlias { expr, alias });
            }
            other => out.push(other),
        }
    }
    *items = out;
}
