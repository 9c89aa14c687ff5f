//! Columns of queries further out than the next one.
//!
//! DataFusion notes with a subquery the outer columns that its own nodes name, and not those that a
//! subquery inside it names of a query still further out. What it promises: afterwards every
//! subquery has noted all of them. What it must never do: note a column that a query between has.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchemaRef, Result as DfResult, Spans};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery, SubqueryAlias};
use std::sync::Arc;

/// The plan with all outer columns noted, and whether some were missing.
pub(crate) fn noted(plan: &LogicalPlan) -> DfResult<(LogicalPlan, bool)> {
    let mut noting = Noting { missing: false };
    let plan = noting.plan(plan.clone(), &mut Vec::new())?;
    Ok((plan, noting.missing))
}

struct Noting {
    missing: bool,
}

impl Noting {
    /// Adds to `free` the columns of queries around this one that the plan names.
    fn plan(&mut self, plan: LogicalPlan, free: &mut Vec<Expr>) -> DfResult<LogicalPlan> {
        let beside = match &plan {
            LogicalPlan::Join(join) => Some(join.left.schema().clone()),
            _ => None,
        };
        let mut plan = plan
            .map_children(|child| {
                let mut named = Vec::new();
                let mut child = self.plan(child, &mut named)?;
                // The rows beside a lateral subquery are around it, and in this query.
                let mut known: Vec<DFSchemaRef> = beside.iter().cloned().collect();
                let lateral = is_lateral(&child);
                if !lateral && named.iter().any(|column| has(&known, column)) {
                    // The library has not seen that it is one. Of those whose own nodes name a
                    // column around them it does.
                    match child.all_out_ref_exprs().iter().any(|column| has(&known, column)) {
                        true => known.clear(),
                        false => {
                            child = self.lateral(child, &named)?;
                        }
                    }
                } else if !lateral {
                    known.clear();
                }
                add(free, named.into_iter().filter(|column| !has(&known, column)));
                Ok(Transformed::yes(child))
            })?
            .data;
        if let LogicalPlan::Subquery(subquery) = &mut plan {
            self.note(subquery, free);
        }
        let known: Vec<DFSchemaRef> = match &plan.inputs()[..] {
            [] => vec![plan.schema().clone()],
            inputs => inputs.iter().map(|input| input.schema().clone()).collect(),
        };
        let plan = plan.map_expressions(|expr| {
            expr.transform_up(|mut part| {
                if let Expr::OuterReferenceColumn(..) = part {
                    add(free, [part.clone()].into_iter());
                }
                let Some(subquery) = subquery_of(&mut part) else {
                    return Ok(Transformed::no(part));
                };
                let mut named = Vec::new();
                let inner = self.plan(subquery.subquery.as_ref().clone(), &mut named)?;
                subquery.subquery = Arc::new(inner);
                self.note(subquery, &named);
                add(free, named.into_iter().filter(|column| !has(&known, column)));
                Ok(Transformed::yes(part))
            })
        })?;
        Ok(plan.data)
    }

    /// The plan as a lateral subquery, under its alias.
    fn lateral(&mut self, plan: LogicalPlan, named: &[Expr]) -> DfResult<LogicalPlan> {
        self.missing = true;
        let lateral = |subquery| {
            let outer_ref_columns = named.to_vec();
            LogicalPlan::Subquery(Subquery { subquery, outer_ref_columns, spans: Spans::new() })
        };
        Ok(match plan {
            LogicalPlan::SubqueryAlias(SubqueryAlias { input, alias, .. }) => {
                let input = Arc::new(lateral(input));
                LogicalPlan::SubqueryAlias(SubqueryAlias::try_new(input, alias)?)
            }
            plan => lateral(Arc::new(plan)),
        })
    }

    fn note(&mut self, subquery: &mut Subquery, named: &[Expr]) {
        for column in named {
            if !subquery.outer_ref_columns.contains(column) {
                subquery.outer_ref_columns.push(column.clone());
                self.missing = true;
            }
        }
    }
}

fn add(free: &mut Vec<Expr>, columns: impl Iterator<Item = Expr>) {
    for column in columns {
        if !free.contains(&column) {
            free.push(column);
        }
    }
}

fn has(known: &[DFSchemaRef], column: &Expr) -> bool {
    match column {
        Expr::OuterReferenceColumn(_, column) => {
            known.iter().any(|schema| schema.has_column(column))
        }
        _ => false,
    }
}

/// Whether a join's side is a lateral subquery, under its aliases.
fn is_lateral(plan: &LogicalPlan) -> bool {
    match plan {
        LogicalPlan::SubqueryAlias(alias) => is_lateral(&alias.input),
        LogicalPlan::Subquery(_) => true,
        _ => false,
    }
}

/// The subquery that an expression is.
pub(crate) fn subquery_of(expr: &mut Expr) -> Option<&mut Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&mut exists.subquery),
        Expr::InSubquery(one) => Some(&mut one.subquery),
        Expr::SetComparison(one) => Some(&mut one.subquery),
        _ => None,
    }
}
