//! Filters that stay over the aggregates that they stand over, and those that the library may move.
//!
//! What names no column it takes for a condition of the groups, and moves it below them; but one
//! group is there without rows: `having current_date > '2100-01-01'` would let through a count of
//! none.
//!
//! What it promises: such a filter stays where it is; others are moved as the library does it, when
//! their literals are plain. What it must never do: leave a filter over a filter, which the library
//! makes one of by itself and then moves.

use crate::sure_rows::gives_without_rows;
use datafusion::common::tree_node::Transformed;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, Filter, LogicalPlan};
use datafusion::optimizer::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};
use datafusion::optimizer::push_down_filter::PushDownFilter;
use std::sync::Arc;

type Rule = Arc<dyn OptimizerRule + Send + Sync>;

/// The rules, with ours for the library's that moves filters.
pub(crate) fn with_held_filters(mut rules: Vec<Rule>) -> Vec<Rule> {
    let ours = HeldFilters { library: PushDownFilter::new() };
    if let Some(rule) = rules.iter_mut().find(|rule| rule.name() == ours.library.name()) {
        *rule = Arc::new(ours);
    }
    rules
}

#[derive(Debug)]
struct HeldFilters {
    library: PushDownFilter,
}

impl OptimizerRule for HeldFilters {
    fn name(&self) -> &str {
        self.library.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.library.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> DfResult<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = plan else { return self.library.rewrite(plan, config) };
        let one = as_one(filter)?;
        if let LogicalPlan::Filter(Filter { input, .. }) = &one.data
            && let LogicalPlan::Aggregate(aggregate) = &**input
            && gives_without_rows(aggregate)
        {
            return Ok(one);
        }
        // Here conditions on one column are looked at together.
        let plain = crate::literals::plain(one.data, config)?;
        let mut moved = self.library.rewrite(plain.data, config)?;
        moved.transformed |= one.transformed || plain.transformed;
        Ok(moved)
    }
}

/// A filter and those right below it as one; what stands below is asked first.
fn as_one(filter: Filter) -> DfResult<Transformed<LogicalPlan>> {
    if !matches!(&*filter.input, LogicalPlan::Filter(_)) {
        return Ok(Transformed::no(LogicalPlan::Filter(filter)));
    }
    let (mut below, mut predicates) = (filter.input, vec![filter.predicate]);
    while let LogicalPlan::Filter(next) = &*below {
        predicates.push(next.predicate.clone());
        let input = next.input.clone();
        below = input;
    }
    let mut all: Vec<Expr> = Vec::new();
    for part in predicates.into_iter().rev().flat_map(split_conjunction_owned) {
        if !all.contains(&part) {
            all.push(part);
        }
    }
    Ok(Transformed::yes(match conjunction(all) {
        Some(predicate) => LogicalPlan::Filter(Filter::try_new(predicate, below)?),
        None => Arc::unwrap_or_clone(below),
    }))
}
