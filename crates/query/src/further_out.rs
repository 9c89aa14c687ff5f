//! Columns of queries further out than the next one.
//!
//! DataFusion notes with a subquery the outer columns that its own nodes name, and not those that a
//! subquery inside it names of a query still further out. What it promises: afterwards every
//! subquery has noted all of them. What it must never do: note a column that a query between has.

use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{DFSchemaRef, Result as DfResult};
use datafusion::logical_expr::{Expr, LogicalPlan, Subquery};
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
                // The rows beside a lateral subquery are around it, and in this query.
                let known = beside.iter().filter(|_| is_lateral(&child)).cloned();
                let known: Vec<DFSchemaRef> = known.collect();
                let child = self.plan(child, &mut named)?;
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

fn subquery_of(expr: &mut Expr) -> Option<&mut Subquery> {
    match expr {
        Expr::ScalarSubquery(subquery) => Some(subquery),
        Expr::Exists(exists) => Some(&mut exists.subquery),
        Expr::InSubquery(one) => Some(&mut one.subquery),
        Expr::SetComparison(one) => Some(&mut one.subquery),
        _ => None,
    }
}
