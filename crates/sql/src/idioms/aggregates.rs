//! Aggregates that PostgreSQL has under other names: `listagg`, `wm_concat`, `median`,
//! `stats_mode`, `ratio_to_report`.
//!
//! What it promises: the same value over the same rows; a clause that has no counterpart is refused
//! by name. What it must never do: take a function away that somebody has made under the name.

use super::plain_name;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    DuplicateTreatment, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArgumentClause,
    FunctionArguments, ListAggOnOverflow, WindowType,
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

/// What ON OVERFLOW TRUNCATE says of a list that is too long: what stands in place of the rest, and
/// whether behind it how many values are left out.
struct Overflow {
    filler: String,
    counted: bool,
}

/// The clause ON OVERFLOW, where it cuts. A text has any length here, so that there is nothing that
/// `on overflow error` could be an error of.
fn overflow_of(clauses: &[FunctionArgumentClause], name: &str) -> Result<Option<Overflow>> {
    let mut found = None;
    for clause in clauses {
        match clause {
            FunctionArgumentClause::OnOverflow(overflow) if name == "listagg" => {
                found = match overflow {
                    ListAggOnOverflow::Error => None,
                    ListAggOnOverflow::Truncate { filler, with_count } => {
                        let filler = filler
                            .as_ref()
                            .map_or("'...'".to_owned(), |text| format!("({text})::text"));
                        Some(Overflow { filler, counted: *with_count })
                    }
                };
            }
            FunctionArgumentClause::OnOverflow(_) => {
                return Err(PgError::unsupported(format!("ON OVERFLOW of {name}")));
            }
            _ => return Err(PgError::unsupported(format!("this clause of {name}"))),
        }
    }
    Ok(found)
}

/// A call of `listagg`, as SQL.
struct Listed<'a> {
    name: &'a str,
    value: &'a Expr,
    separator: String,
    /// `distinct `, or nothing.
    distinct: &'a str,
    /// What WITHIN GROUP sorts by.
    order: String,
    filter: String,
}

impl Listed<'_> {
    /// The values as one text, of whatever length.
    fn whole(&self, over: Option<&WindowType>) -> Result<String> {
        let Listed { value, separator, distinct, order, filter, .. } = self;
        Ok(match over {
            None if order.is_empty() => {
                format!("string_agg({distinct}({value})::text, {separator}){filter}")
            }
            // Sorted as values, not as texts; NULLs are left out.
            None if !distinct.is_empty() => format!(
                "nullif(array_to_string(array_agg(distinct {value} order by {order}){filter}, \
                 {separator}), '')"
            ),
            None => format!("string_agg(({value})::text, {separator} order by {order}){filter}"),
            Some(over) => {
                let window = self.window(over)?;
                format!("string_agg(({value})::text, {separator}){filter} over ({window})")
            }
        })
    }

    /// The same, cut where it is too long for the field.
    fn cut(&self, over: Option<&WindowType>, overflow: &Overflow) -> Result<String> {
        let Listed { value, separator, distinct, order, filter, .. } = self;
        let values = match over {
            None if order.is_empty() => format!("array_agg({distinct}({value})::text){filter}"),
            None if !distinct.is_empty() => {
                format!("array_agg(distinct {value} order by {order}){filter}")
            }
            None => format!("array_agg(({value})::text order by {order}){filter}"),
            Some(over) => {
                let window = self.window(over)?;
                format!("array_agg(({value})::text){filter} over ({window})")
            }
        };
        let Overflow { filler, counted } = overflow;
        Ok(format!("\"{}\"({values}, {separator}, {filler}, {counted})", query::LISTED))
    }

    /// What stands in OVER: all rows of a partition, in the order of WITHIN GROUP.
    fn window(&self, over: &WindowType) -> Result<String> {
        let partition = partition_of(over, self.name)?;
        if !self.distinct.is_empty() {
            return Err(PgError::unsupported(format!("DISTINCT in a window of {}", self.name)));
        }
        Ok(match self.order.as_str() {
            "" => partition,
            order => format!(
                "{partition} order by {order} rows between unbounded preceding and unbounded \
                 following"
            ),
        })
    }
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
    let overflow = overflow_of(&list.clauses, &name)?;
    let distinct = match list.duplicate_treatment {
        Some(DuplicateTreatment::Distinct) => "distinct ",
        _ => "",
    };
    let filter = function
        .filter
        .as_ref()
        .map_or(String::new(), |condition| format!(" filter (where {condition})"));
    let text = match (name.as_str(), &args[..]) {
        ("listagg" | "wm_concat", [value, rest @ ..]) if rest.len() <= 1 => {
            let separator = match rest {
                [separator] if name == "listagg" => format!("({separator})::text"),
                [] if name == "listagg" => "''".to_owned(),
                [] => "','".to_owned(),
                _ => return no_function(&name),
            };
            let order = listed(&function.within_group);
            let list = Listed { name: &name, value, separator, distinct, order, filter };
            match overflow {
                None => list.whole(function.over.as_ref())?,
                Some(overflow) => list.cut(function.over.as_ref(), &overflow)?,
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
