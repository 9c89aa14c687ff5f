//! The branches of UNION ALL one after the other.
//!
//! What it promises: rows come in the order of the branches that give them, as PostgreSQL's Append
//! has it, and a branch is begun when the one before has ended. What it must never do: start tasks
//! of its own; a plan has one reader, and what reads a table in parallel sees to that itself.

use crate::error::PgError;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{StreamExt, TryStreamExt};
use std::fmt;
use std::sync::Arc;

/// Puts [`AppendExec`] where DataFusion would read all partitions at once.
#[derive(Debug)]
pub(crate) struct Appends;

impl PhysicalOptimizerRule for Appends {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let appended = plan.transform_up(|node| {
            let Some(all) = node.downcast_ref::<CoalescePartitionsExec>() else {
                return Ok(Transformed::no(node));
            };
            let append = appended(all.input().clone());
            Ok(Transformed::yes(match all.fetch() {
                None => append,
                limit => Arc::new(GlobalLimitExec::new(append, 0, limit)),
            }))
        })?;
        Ok(appended_all(appended.data))
    }

    fn name(&self) -> &'static str {
        "appends"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn appended_all(plan: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    match plan.output_partitioning().partition_count() {
        1 => plan,
        _ => appended(plan),
    }
}

fn appended(input: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
    Arc::new(AppendExec::new(input))
}

/// Reads the partitions of its input in turn.
#[derive(Debug)]
pub(crate) struct AppendExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl AppendExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>) -> AppendExec {
        let mut known = input.equivalence_properties().clone();
        known.clear_orderings();
        known.clear_per_partition_constants();
        let properties = PlanProperties::new(
            EquivalenceProperties::clone(&known),
            Partitioning::UnknownPartitioning(1),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        AppendExec { input, properties: Arc::new(properties) }
    }
}

impl DisplayAs for AppendExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AppendExec")
    }
}

impl ExecutionPlan for AppendExec {
    fn name(&self) -> &'static str {
        "AppendExec"
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
        let input = children.pop().ok_or_else(|| PgError::internal("nothing to append"))?;
        Ok(Arc::new(AppendExec::new(input)))
    }

    fn execute(
        &self,
        _partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let (input, schema) = (self.input.clone(), self.input.schema());
        let parts = futures::stream::iter(0..input.output_partitioning().partition_count());
        let rows = parts.map(move |part| input.execute(part, task.clone())).try_flatten();
        Ok(env::boxed!(RecordBatchStreamAdapter::new(schema, rows)))
    }
}
