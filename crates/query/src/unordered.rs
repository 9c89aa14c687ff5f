//! Inputs of grouping sets and of outer joins, of which not all that is known outlives them.
//!
//! An aggregation of several sets shows a column as NULL in the sets that it is not in, and takes
//! a batch once for each set. The library lets the order of its input, and columns that are known
//! to have one value, hold for its output, and gives out groups when a value of the input's order
//! is over.
//!
//! An outer join adds rows with NULLs on a side. The library lets a column that has one value there
//! have it in the join's rows, too, and leaves out sorts by it.
//!
//! What it promises: nothing is concluded from what an input of grouping sets is known to be, nor,
//! while orders are settled, from one value of a column on a side that an outer join fills up.
//! What it must never do: change a row, or the order in which rows come.

use crate::error::PgError;
use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
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
                let input = Arc::new(UnorderedExec::new(input, Below::Sets));
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

/// Puts [`UnorderedExec`] below outer joins, for as long as orders are settled, on the sides that
/// they fill up and on which something has one value.
#[derive(Debug)]
pub(crate) struct FilledSides;

impl PhysicalOptimizerRule for FilledSides {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            let Some(filled) = filled_sides(&node) else { return Ok(Transformed::no(node)) };
            let mut hidden = false;
            let mut sides = Vec::with_capacity(filled.len());
            for (side, filled) in node.children().into_iter().zip(filled) {
                if filled && !side.equivalence_properties().constants().is_empty() {
                    hidden = true;
                    sides.push(Arc::new(UnorderedExec::new(side.clone(), Below::Join)) as _);
                } else {
                    sides.push(side.clone());
                }
            }
            match hidden {
                true => Ok(Transformed::yes(replace_children_if_necessary(node, sides)?)),
                false => Ok(Transformed::no(node)),
            }
        })?;
        Ok(plan.data)
    }

    fn name(&self) -> &'static str {
        "filled_sides"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Which sides of a join have NULLs where there is no row of theirs.
fn filled_sides(node: &Arc<dyn ExecutionPlan>) -> Option<[bool; 2]> {
    let kind = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else {
        node.downcast_ref::<SortMergeJoinExec>()?.join_type()
    };
    match kind {
        JoinType::Left => Some([false, true]),
        JoinType::Right => Some([true, false]),
        JoinType::Full => Some([true, true]),
        _ => None,
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
            if hiding.below == Below::Join {
                return Ok(Transformed::yes(hiding.input.clone()));
            }
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

/// What is not to know.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Below {
    Sets,
    Join,
}

/// Gives the rows of its input and tells nothing of them.
#[derive(Debug)]
pub(crate) struct UnorderedExec {
    below: Below,
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl UnorderedExec {
    fn new(input: Arc<dyn ExecutionPlan>, below: Below) -> UnorderedExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            input.output_partitioning().clone(),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        UnorderedExec { below, input, properties: Arc::new(properties) }
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
        Ok(Arc::new(UnorderedExec::new(input, self.below)))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        self.input.execute(partition, task)
    }
}
