//! Hypothetical-set aggregates: `rank(v) WITHIN GROUP (ORDER BY x)`, where a row would come if it
//! were there.
//!
//! What it promises: counts of the rows before it, by the order's own rules for NULL. What it must
//! never do: leave a window function's name to the planner.

use super::function::plain_args;
use crate::direct::parse_expr;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{Expr, Function, OrderByExpr};

/// The call written out with counts; `None` if it is none.
pub(super) fn written_out(name: &str, function: &Function) -> Result<Option<Expr>> {
    if !matches!(name, "rank" | "dense_rank" | "percent_rank" | "cume_dist")
        || function.within_group.is_empty()
        || function.over.is_some()
    {
        return Ok(None);
    }
    let mut bare = function.clone();
    let keys = std::mem::take(&mut bare.within_group);
    let given = bare.filter.take();
    let values = plain_args(&bare)?;
    if values.len() != keys.len() {
        let text = format!("function {name} does not exist for these arguments");
        let hint = format!(
            "To use the hypothetical-set aggregate {name}, the number of hypothetical direct \
             arguments (here {}) must match the number of ordering columns (here {}).",
            values.len(),
            keys.len()
        );
        return Err(PgError::new("42883", text).with_hint(hint));
    }
    let (before, equal) = beside(&keys, &values);
    let filter = |condition: Option<&str>| match (&given, condition) {
        (None, None) => String::new(),
        (Some(given), None) => format!(" filter (where {given})"),
        (None, Some(condition)) => format!(" filter (where {condition})"),
        (Some(given), Some(condition)) => format!(" filter (where ({given}) and ({condition}))"),
    };
    let (all, earlier) = (filter(None), filter(Some(&before)));
    let text = match name {
        "rank" => format!("(1 + count(*){earlier})"),
        "dense_rank" => match &keys[..] {
            [key] => {
                let key = &key.expr;
                let nulls = filter(Some(&format!("({before}) and ({key}) is null")));
                format!("(1 + count(distinct ({key})){earlier} + least(count(*){nulls}, 1))")
            }
            keys => {
                let fields: Vec<String> = keys.iter().map(|key| key.expr.to_string()).collect();
                format!("(1 + count(distinct ({})){earlier})", fields.join(", "))
            }
        },
        "percent_rank" => format!(
            "(case when count(*){all} = 0 then 0::float8 \
             else (count(*){earlier})::float8 / count(*){all} end)"
        ),
        _ => {
            let up_to = filter(Some(&format!("({before}) or ({equal})")));
            format!("((count(*){up_to} + 1)::float8 / (count(*){all} + 1))")
        }
    };
    parse_expr(&text).map(Some)
}

/// Whether a row comes before the values, and whether it is their equal.
fn beside(keys: &[OrderByExpr], values: &[Expr]) -> (String, String) {
    let (mut before, mut equal) = (String::new(), String::new());
    for (key, value) in keys.iter().zip(values).rev() {
        let (key, options) = (&key.expr, &key.options);
        let descends = options.asc == Some(false);
        let nulls_first = options.nulls_first.unwrap_or(descends);
        let op = if descends { '>' } else { '<' };
        let (null, other) = if nulls_first { (key, value) } else { (value, key) };
        let own =
            format!("(({key}) {op} ({value}) or (({null}) is null and ({other}) is not null))");
        let same = format!("(({key}) is not distinct from ({value}))");
        (before, equal) = if before.is_empty() {
            (own, same)
        } else {
            (format!("({own} or ({same} and {before}))"), format!("({same} and {equal})"))
        };
    }
    (before, equal)
}
