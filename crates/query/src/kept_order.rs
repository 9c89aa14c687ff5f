//! The order of a subquery is kept for what reads it.
//!
//! What it promises: `SELECT .. FROM (SELECT .. ORDER BY ..) LIMIT n` takes the first rows of that
//! order, and `array_agg` over such a subquery lists them in it, as in PostgreSQL. The library
//! drops a sort that no step above it asks for.

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::{Distribution, OrderingRequirements};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_optimizer::output_requirements::OutputRequirementExec;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;
use std::sync::Arc;

/// Puts a step above each sort that asks for its order. The library takes such steps off when it
/// has settled which sorts are wanted.
#[derive(Debug)]
pub(crate) struct KeptOrder;

impl PhysicalOptimizerRule for KeptOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let kept = plan.transform_up(|node| {
            // One that gives the first rows only is never dropped.
            let Some(sort) = node.downcast_ref::<SortExec>().filter(|s| s.fetch().is_none()) else {
                return Ok(Transformed::no(node));
            };
            let wanted = OrderingRequirements::from(sort.expr().clone());
            let whole = Distribution::UnspecifiedDistribution;
            let node: Arc<dyn ExecutionPlan> =
                Arc::new(OutputRequirementExec::new(node, Some(wanted), whole, None));
            Ok(Transformed::yes(node))
        })?;
        Ok(kept.data)
    }

    fn name(&self) -> &'static str {
        "kept_order"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
