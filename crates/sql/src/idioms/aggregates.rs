//! Aggregates that PostgreSQL has under other names: `listagg`, `wm_concat`, `median`,
//! `stats_mode`, `ratio_to_report`.
//!
//! What it promises: the same value over the same rows; a clause that has no counterpart is refused
//! by name. What it must never do: take a function away that somebody has made under the name.

use super::plain_name;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, WindowType,
};

const NAMES: [&str; 5] = ["listagg", "wm_concat", "median", "stats_mode", "ratio_to_report"];

/// The name, if the call is of one of these.
pub(super) fn named(function: &Function, is_routine: &dyn Fn(&str) -> bool) -> Option<String> {
    let name = plain_name(&function.name)?;
    (NAMES.contains(&name.as_str()) && !is_routine(&name)).then_some(name)
}

fn listed<T: ToString>(all: &[T]) -> String {
    all.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

/// What the call stands for; `None`: another one.
pub(super) fn standing_for(
    function: &Function,
    is_routine: &dyn Fn(&str) -> bool,
) -> Result<Option<Expr>> {
    let Some(name) = named(function, is_routine) else { return Ok(None) };
    let refuse = |what: &str| Err(PgError::unsupported(format!("{what} of {name}")));
    let FunctionArguments::List(list) = &function.args else { return no_function(&name) };
    let args: Vec<&Expr> = list
        .args
        .iter()
        .filter_map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
            _ => None,
        })
        .collect();
    if args.len() != list.args.len() {
        return no_function(&name);
    }
    if function.null_treatment.is_some() {
        return refuse("IGNORE NULLS");
    }
    if list.clauses.iter().any(|one| matches!(one, FunctionArgumentClause::OnOverflow(_))) {
        return refuse("ON OVERFLOW");
    }
    if !list.clauses.is_empty() {
        return refuse("this clause");
    }
    let distinct = match list.duplicate_treatment {
        Some(DuplicateTreatment::Distinct) => "distinct ",
        _ => "",
    };
    let filter = function
        .filter
        .as_ref()
        .map_or(String::new(), |condition| format!(" filter (where {condition})"));
    let order = listed(&function.within_group);
    let text = match (name.as_str(), &args[..]) {
        ("listagg" | "wm_concat", [value, rest @ ..]) if rest.len() <= 1 => {
            let separator = match rest {
                [separator] if name == "listagg" => format!("({separator})::text"),
                [] if name == "listagg" => "''".to_owned(),
                [] => "','".to_owned(),
                _ => return no_function(&name),
            };
            match &function.over {
                None if order.is_empty() => {
                    format!("string_agg({distinct}({value})::text, {separator}){filter}")
                }
                // Sorted as values, not as texts; NULLs are left out.
                None if !distinct.is_empty() => format!(
                    "nullif(array_to_string(array_agg(distinct {value} order by {order}){filter}, \
                     {separator}), '')"
                ),
                None => {
                    format!("string_agg(({value})::text, {separator} order by {order}){filter}")
                }
                Some(over) => {
                    let partition = partition_of(over, &name)?;
                    let order = match order.as_str() {
                        "" => String::new(),
                        order => format!(
                            "order by {order} rows between unbounded preceding and unbounded \
                             following"
                        ),
                    };
                    if !distinct.is_empty() {
                        return refuse("DISTINCT in a window");
                    }
                    format!(
                        "string_agg(({value})::text, {separator}){filter} over ({partition} \
                         {order})"
                    )
                }
            }
        }
        ("median" | "stats_mode", [_]) if function.over.is_some() => return refuse("OVER"),
        ("median", [value]) => {
            format!("percentile_cont(0.5) within group (order by {value}){filter}")
        }
        ("stats_mode", [value]) => format!("mode() within group (order by {value}){filter}"),
        ("ratio_to_report", [value]) => {
            let Some(over) = &function.over else {
                let text = format!("window function {name} requires an OVER clause");
                return Err(PgError::new("42809", text));
            };
            let partition = partition_of(over, &name)?;
            format!("(({value})::numeric / nullif(sum(({value})::numeric) over ({partition}), 0))")
        }
        _ => return no_function(&name),
    };
    crate::direct::parse_expr(&text).map(Some)
}

fn no_function<T>(name: &str) -> Result<T> {
    Err(PgError::new("42883", format!("function {name} does not exist with these arguments")))
}

/// The rows that a window is over; the field allows these functions no order in it.
fn partition_of(over: &WindowType, name: &str) -> Result<String> {
    match over {
        WindowType::WindowSpec(spec)
            if spec.order_by.is_empty()
                && spec.window_frame.is_none()
                && spec.window_name.is_none() =>
        {
            Ok(match spec.partition_by.is_empty() {
                true => String::new(),
                false => format!("partition by {}", listed(&spec.partition_by)),
            })
        }
        _ => Err(PgError::unsupported(format!("an order or a named window in OVER of {name}"))),
    }
}
