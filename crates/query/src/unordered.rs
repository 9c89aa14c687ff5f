//! Inputs of grouping sets, whose order does not outlive them.
//!
//! An aggregation of several sets shows a column as NULL in the sets that it is not in, and takes
//! a batch once for each set. The library lets the order of its input, and columns that are known
//! to have one value, hold for its output, and gives out groups when a value of the input's order
//! is over.
//!
//! What it promises: nothing is concluded from what an input of grouping sets is known to be.
//! What it must never do: change a row, or the order in which rows come.

use crate::error::PgError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};
use std::fmt;
use std::sync::Arc;

/// Puts [`UnorderedExec`] below grouping sets: before orders are settled, and once more for what
/// has been put between since.
#[derive(Debug)]
pub(crate) struct Unordered;

impl PhysicalOptimizerRule for Unordered {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| match several_sets(&node) {
            Some(input) if input.downcast_ref::<UnorderedExec>().is_none() => {
                let input = Arc::new(UnorderedExec::new(input));
                Ok(Transformed::yes(replace_children_if_necessary(node, vec![input])?))
            }
            _ => Ok(Transformed::no(node)),
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &'static str {
        "unordered"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Takes [`UnorderedExec`] away where it says nothing: orders are settled.
#[derive(Debug)]
pub(crate) struct OrdersSettled;

impl PhysicalOptimizerRule for OrdersSettled {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let plan = Unordered.optimize(plan, config)?.transform_up(|node| {
            let Some(hiding) = node.downcast_ref::<UnorderedExec>() else {
                return Ok(Transformed::no(node));
            };
            let known = hiding.input.equivalence_properties();
            let anything = !known.oeq_class().is_empty() || !known.constants().is_empty();
            match anything {
                true => Ok(Transformed::no(node)),
                false => Ok(Transformed::yes(hiding.input.clone())),
            }
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &'static str {
        "orders_settled"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// The input of an aggregation whose columns are not in all of its sets, or are in several.
fn several_sets(node: &Arc<dyn ExecutionPlan>) -> Option<Arc<dyn ExecutionPlan>> {
    let aggregate = node.downcast_ref::<AggregateExec>()?;
    let sets = aggregate.group_expr().groups();
    let several = sets.len() > 1 || sets.iter().flatten().any(|is_null| *is_null);
    several.then(|| aggregate.input().clone())
}

/// Gives the rows of its input and tells nothing of them.
#[derive(Debug)]
pub(crate) struct UnorderedExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(input: Arc<dyn ExecutionPlan>) -> UnorderedExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        UnorderedExec { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for UnorderedExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "UnorderedExec")
    }
}

impl ExecutionPlan for UnorderedExec {
    fn name(&self) -> &'static str {
        "UnorderedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let input = children.pop().ok_or_else(|| PgError::internal("no rows to pass on"))?;
        Ok(Arc::new(UnorderedExec::new(input)))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        self.input.execute(partition, task)
    }
}
