//! Grouping sets over expressions: `GROUP BY ROLLUP(coalesce(x, -9))`.
//!
//! The library knows an expression of a grouping set by how it is written, and loses it where the
//! planner writes a part of it in another way. What it promises: each such expression is a column
//! worked out below, once, under the name that it had. What it must never do: change a query that
//! groups by columns.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Column, Result as DfResult};
use datafusion::logical_expr::{Aggregate, Expr, GroupingSet, LogicalPlan, Projection};
use std::sync::Arc;

/// The plan with grouping sets of nothing but columns.
///
/// # Errors
/// The library's.
pub(crate) fn with_columns(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    let done = plan.transform_up_with_subqueries(|node| {
        let LogicalPlan::Aggregate(groups) = &node else { return Ok(Transformed::no(node)) };
        Ok(match of_columns(groups)? {
            Some(groups) => Transformed::yes(LogicalPlan::Aggregate(groups)),
            None => Transformed::no(node),
        })
    })?;
    Ok(done.data)
}

fn of_columns(groups: &Aggregate) -> DfResult<Option<Aggregate>> {
    let [Expr::GroupingSet(sets)] = &groups.group_expr[..] else { return Ok(None) };
    let own = groups.input.schema();
    let mut computed: Vec<(Expr, String)> = Vec::new();
    for expr in sets.distinct_expr() {
        let name = expr.schema_name().to_string();
        let plain = matches!(expr, Expr::Column(_) | Expr::Alias(_));
        if plain || computed.iter().any(|(known, _)| known == expr) {
            continue;
        }
        let taken = !own.fields_with_unqualified_name(&name).is_empty()
            || computed.iter().any(|(_, known)| *known == name);
        if taken {
            return Ok(None);
        }
        computed.push((expr.clone(), name));
    }
    if computed.is_empty() {
        return Ok(None);
    }
    let shown = own.columns().into_iter().map(Expr::Column);
    let shown = shown.chain(computed.iter().map(|(expr, name)| expr.clone().alias(name)));
    let input = Projection::try_new(shown.collect(), groups.input.clone())?;
    let column = |expr: Expr| match computed.iter().find(|(known, _)| *known == expr) {
        Some((_, name)) => Expr::Column(Column::new_unqualified(name.as_str())),
        None => expr,
    };
    let all = |set: &Vec<Expr>| set.iter().cloned().map(&column).collect::<Vec<Expr>>();
    let sets = match sets {
        GroupingSet::Rollup(set) => GroupingSet::Rollup(all(set)),
        GroupingSet::Cube(set) => GroupingSet::Cube(all(set)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.iter().map(&all).collect())
        }
    };
    // What GROUPING is asked for is known by what is grouped by.
    let asked = groups.aggr_expr.iter().cloned().map(|expr| {
        let done = expr.transform_down(|part| match part {
            Expr::AggregateFunction(mut call) if call.func.name() == "grouping" => {
                call.params.args = call.params.args.into_iter().map(&column).collect();
                Ok(Transformed::yes(Expr::AggregateFunction(call)))
            }
            part => Ok(Transformed::no(part)),
        });
        done.map(|done| done.data)
    });
    let asked = asked.collect::<DfResult<Vec<Expr>>>()?;
    let input = Arc::new(LogicalPlan::Projection(input));
    let made = Aggregate::try_new(input, vec![Expr::GroupingSet(sets)], asked)?;
    // What stands above knows the columns by their names.
    let same = made.schema.columns() == groups.schema.columns();
    Ok(same.then_some(made))
}
