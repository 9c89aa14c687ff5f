//! Hash joins whose table does not fit into what the statement may hold: both sides are sorted by
//! the keys, in temporary files, and merged. And steps that hold all their rows to the end.
//!
//! What it promises: the same rows, in the order that steps above rely on. What it must never do:
//! begin anew when a row has been handed up, or where reading a side again would do something
//! again.

use crate::append::AppendExec;
use crate::apply_exec::ApplyExec;
use crate::error::PgError;
use crate::interruptible::{Looking, looking};
use crate::memory::JOIN_REFUSED;
use crate::pieces::{self, Way};
use crate::row_calls::CallsExec;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::physical_expr::expressions::CastExpr;
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::execution_plan::{replace_children_if_necessary, reset_plan_states};
use datafusion::physical_plan::joins::utils::JoinFilter;
use datafusion::physical_plan::joins::{
    CrossJoinExec, HashJoinExec, HashJoinExecBuilder, NestedLoopJoinExec,
    NestedLoopJoinExecBuilder, PartitionMode, SortMergeJoinExec,
};
use datafusion::physical_plan::limit::GlobalLimitExec;
use datafusion::physical_plan::memory::LazyMemoryExec;
use datafusion::physical_plan::metrics::{
    BaselineMetrics, Count, ExecutionPlanMetricsSet, MetricBuilder, MetricsSet,
};
use datafusion::physical_plan::projection::{ProjectionExec, ProjectionExpr};
use datafusion::physical_plan::recursive_query::RecursiveQueryExec;
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::spill::get_record_batch_memory_size;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::unnest::UnnestExec;
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::work_table::WorkTableExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    RecordBatchStream, SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

type Plan = Arc<dyn ExecutionPlan>;

/// Steps that hold many rows do it within bounds.
#[derive(Debug)]
pub(crate) struct Bounds;

impl PhysicalOptimizerRule for Bounds {
    fn optimize(&self, plan: Plan, _config: &ConfigOptions) -> DfResult<Plan> {
        let rewritten = plan.transform_up(|node| {
            let node = with_looks(with_one_right_side(node)?)?;
            Ok(match BoundedExec::over(&node)? {
                Some(bounded) => Transformed::yes(Arc::new(bounded) as Plan),
                None => Transformed::no(node),
            })
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &'static str {
        "bounds"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// A hash join that would be run once for each branch of a UNION ALL on its right reads the
/// branches one after the other, so that it can be merged; but not where an order of each is relied
/// on.
fn with_one_right_side(node: Plan) -> DfResult<Plan> {
    let Some(join) = node.downcast_ref::<HashJoinExec>() else { return Ok(node) };
    let branches = join.right().output_partitioning().partition_count();
    if branches == 1 || join.properties().output_ordering().is_some() {
        return Ok(node);
    }
    let right: Plan = Arc::new(AppendExec::new(join.right().clone()));
    let sides = vec![join.left().clone(), right];
    replace_children_if_necessary(node, sides)
}

/// The step that a bounded one shows itself as.
pub(crate) fn shown(plan: &Plan) -> &Plan {
    plan.downcast_ref::<BoundedExec>().map_or(plan, |bounded| &bounded.inner)
}

/// Whether a step was run by merging what went to temporary files.
pub(crate) fn was_merged(plan: &Plan) -> bool {
    plan.downcast_ref::<BoundedExec>().is_some_and(|bounded| {
        let merged = bounded.metrics.clone_inner().sum_by_name("merged");
        merged.is_some_and(|count| count.as_usize() > 0)
    })
}

/// The hash join that a step is.
pub(crate) fn hash_join(plan: &Plan) -> Option<&HashJoinExec> {
    shown(plan).downcast_ref()
}

/// A hash join that becomes a merge join when memory is refused to its table, a window over whole
/// partitions whose rows are counted, what makes many rows out of few, or what makes long values.
/// It shows itself as what it is over.
#[derive(Debug)]
struct BoundedExec {
    /// Never run itself, but copies of it: what ran holds its table as long as it is there.
    inner: Plan,
    /// How it is run instead, for the sake of long values.
    way: Option<Way>,
    metrics: ExecutionPlanMetricsSet,
}

impl BoundedExec {
    fn new(inner: Plan) -> DfResult<BoundedExec> {
        let way = pieces::way(&inner)?;
        Ok(BoundedExec { inner, way, metrics: ExecutionPlanMetricsSet::new() })
    }

    fn over(node: &Plan) -> DfResult<Option<BoundedExec>> {
        let known = node.downcast_ref::<HashJoinExec>().is_some()
            || node.downcast_ref::<WindowAggExec>().is_some()
            || is_loop(node);
        let bounded = BoundedExec::new(node.clone())?;
        Ok((known || bounded.way.is_some()).then_some(bounded))
    }
}

/// Whether it may work for hours on what little it reads: it puts each row beside each, or makes
/// rows itself.
fn is_loop(plan: &Plan) -> bool {
    plan.downcast_ref::<NestedLoopJoinExec>().is_some()
        || plan.downcast_ref::<CrossJoinExec>().is_some()
        || plan.downcast_ref::<RecursiveQueryExec>().is_some()
        || plan.downcast_ref::<UnnestExec>().is_some()
        || plan.downcast_ref::<LazyMemoryExec>().is_some()
}

/// A join that ends with its statement, also while no pair of rows meets its condition.
fn with_looks(node: Plan) -> DfResult<Plan> {
    let looking = |filter: &JoinFilter| {
        let (indices, schema) = (filter.column_indices().to_vec(), filter.schema().clone());
        JoinFilter::new(Looking::over(filter.expression()), indices, schema)
    };
    if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>()
        && let Some(filter) = join.filter().map(looking)
    {
        let join = NestedLoopJoinExecBuilder::from(join).with_filter(Some(filter)).build()?;
        return Ok(Arc::new(join));
    }
    if let Some(join) = node.downcast_ref::<HashJoinExec>()
        && let Some(filter) = join.filter().map(looking)
    {
        return HashJoinExecBuilder::from(join).with_filter(Some(filter)).build_exec();
    }
    Ok(node)
}

fn may_merge(plan: &Plan) -> bool {
    let Some(join) = plan.downcast_ref::<HashJoinExec>() else { return false };
    // NOT IN must know of NULLs on the whole other side.
    if join.null_aware || *join.partition_mode() != PartitionMode::CollectLeft {
        return false;
    }
    // Else one table serves several branches, and what is refused is refused to all.
    let alone = |side: &Plan| side.output_partitioning().partition_count() == 1;
    if !alone(join.left()) || !alone(join.right()) {
        return false;
    }
    let (left, right) = (join.left().schema(), join.right().schema());
    let has_order = |expr: &Arc<dyn PhysicalExpr>, schema: &Schema| {
        expr.data_type(schema).is_ok_and(|ty| comparable(&ty).is_some())
    };
    join.on().iter().all(|(a, b)| has_order(a, &left) && has_order(b, &right))
        && !is_read_once(plan)
}

/// Whether reading the plan twice would do something twice, or find nothing the second time.
fn is_read_once(plan: &Plan) -> bool {
    let mut found = false;
    let looked = plan.apply(|node| {
        found |= node.downcast_ref::<CallsExec>().is_some()
            // What it runs for each row may call.
            || node.downcast_ref::<ApplyExec>().is_some()
            || node.downcast_ref::<WorkTableExec>().is_some();
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    found || looked.is_err()
}

/// What a key is taken for when it is compared by a merge join; `None`: it cannot be.
fn comparable(ty: &DataType) -> Option<DataType> {
    Some(match ty {
        DataType::Boolean
        | DataType::Int8
        | DataType::Int16
        | DataType::Int32
        | DataType::Int64
        | DataType::UInt8
        | DataType::UInt16
        | DataType::UInt32
        | DataType::UInt64
        | DataType::Binary
        | DataType::FixedSizeBinary(_)
        | DataType::Utf8
        | DataType::Decimal128(..)
        | DataType::Date32 => ty.clone(),
        DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
        DataType::Time64(TimeUnit::Microsecond) => DataType::Int64,
        // A NaN has no place in the order that merge joins compare by.
        _ => return None,
    })
}

fn as_comparable(expr: &Arc<dyn PhysicalExpr>, schema: &Schema) -> DfResult<Arc<dyn PhysicalExpr>> {
    let ty = expr.data_type(schema)?;
    let to = comparable(&ty).ok_or_else(|| PgError::internal("a join by what has no order"))?;
    Ok(if to == ty { expr.clone() } else { Arc::new(CastExpr::new(expr.clone(), to, None)) })
}

/// One side of a merge join.
fn sorted(input: &Plan, keys: &[Arc<dyn PhysicalExpr>]) -> DfResult<Plan> {
    let order = keys.iter().map(|key| PhysicalSortExpr::new_default(key.clone()));
    let order = LexOrdering::new(order).ok_or_else(|| PgError::internal("a join without keys"))?;
    // It has begun before.
    Ok(Arc::new(SortExec::new(order, reset_plan_states(input.clone())?)))
}

/// The hash join as a merge join with the same output.
fn merging(join: &HashJoinExec) -> DfResult<Plan> {
    let (left, right) = (join.left().schema(), join.right().schema());
    let mut on = Vec::with_capacity(join.on().len());
    for (a, b) in join.on() {
        on.push((as_comparable(a, &left)?, as_comparable(b, &right)?));
    }
    let (of_left, of_right): (Vec<_>, Vec<_>) = on.iter().cloned().unzip();
    let options = vec![SortOptions::new(false, true); on.len()];
    let merge = SortMergeJoinExec::try_new(
        sorted(join.left(), &of_left)?,
        sorted(join.right(), &of_right)?,
        on,
        join.filter().cloned(),
        *join.join_type(),
        options,
        join.null_equality(),
    )?;
    let mut plan: Plan = Arc::new(merge);
    if let Some(columns) = &join.projection {
        let schema = plan.schema();
        let column = |&at: &usize| {
            let name = schema.field(at).name();
            let column = datafusion::physical_expr::expressions::Column::new(name, at);
            ProjectionExpr { expr: Arc::new(column), alias: name.clone() }
        };
        let columns: Vec<ProjectionExpr> = columns.iter().map(column).collect();
        plan = Arc::new(ProjectionExec::try_new(columns, plan)?);
    }
    // The hash join keeps the order of its right side, and steps above may rely on that.
    if let Some(order) = join.properties().output_ordering() {
        plan = Arc::new(SortExec::new(order.clone(), plan));
    }
    if let Some(rows) = join.fetch() {
        plan = Arc::new(GlobalLimitExec::new(plan, 0, Some(rows)));
    }
    Ok(plan)
}

/// Whether the table of a hash join was refused, of this one or of one below that went on with it.
fn is_refusal(e: &DataFusionError) -> bool {
    match e {
        DataFusionError::ResourcesExhausted(text) => text.starts_with(JOIN_REFUSED),
        DataFusionError::Shared(inner) => is_refusal(inner),
        DataFusionError::Context(_, inner) | DataFusionError::Diagnostic(_, inner) => {
            is_refusal(inner)
        }
        _ => false,
    }
}

impl DisplayAs for BoundedExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(t, f)
    }
}

impl ExecutionPlan for BoundedExec {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        self.inner.children()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.inner.maintains_input_order()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn with_new_children(self: Arc<Self>, children: Vec<Plan>) -> DfResult<Plan> {
        let inner = replace_children_if_necessary(self.inner.clone(), children)?;
        Ok(Arc::new(BoundedExec::new(inner)?))
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Plan> {
        Ok(Arc::new(BoundedExec::new(self.inner.clone().reset_state()?)?))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        match &self.way {
            Some(Way::As(ran)) => ran.metrics(),
            Some(Way::Projected(_)) => Some(self.metrics.clone_inner()),
            None => self.inner.metrics(),
        }
    }

    fn fetch(&self) -> Option<usize> {
        self.inner.fetch()
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        match (&self.way, &self.inner.children()[..]) {
            (Some(Way::As(ran)), _) => return ran.execute(partition, task),
            (Some(Way::Projected(exprs)), [input]) => {
                let metrics = BaselineMetrics::new(&self.metrics, partition);
                let input = input.execute(partition, task)?;
                return Ok(pieces::projected(input, exprs, self.inner.schema(), metrics));
            }
            _ => {}
        }
        if self.inner.downcast_ref::<WindowAggExec>().is_some() {
            let children = self.inner.children().into_iter();
            let held = children.map(|input| Arc::new(HeldExec { input: input.clone() }) as Plan);
            let window = replace_children_if_necessary(self.inner.clone(), held.collect())?;
            return window.execute(partition, task);
        }
        if is_loop(&self.inner) {
            return Ok(looking(self.inner.execute(partition, task)?));
        }
        let branches = self.inner.output_partitioning().partition_count();
        // One table serves all branches of a UNION ALL that keep their orders.
        let ran = match branches {
            1 => self.inner.clone().reset_state()?,
            _ => self.inner.clone(),
        };
        let run = Run {
            rows: Some(ran.execute(partition, task.clone())?),
            instead: may_merge(&self.inner).then(|| (self.inner.clone(), task)),
            merged: MetricBuilder::new(&self.metrics).counter("merged", partition),
            _share: None,
        };
        let stream = futures::stream::try_unfold(run, |mut run| async move {
            Ok(run.next().await?.map(|batch| (batch, run)))
        });
        Ok(looking(env::boxed!(RecordBatchStreamAdapter::new(self.inner.schema(), stream))))
    }
}

struct Run {
    rows: Option<SendableRecordBatchStream>,
    /// What to do instead, until rows have been handed up.
    instead: Option<(Plan, Arc<TaskContext>)>,
    merged: Count,
    /// Keeps a share for the sort of the right side, which begins when the left one's has all that
    /// it can get.
    _share: Option<MemoryReservation>,
}

impl Run {
    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        loop {
            let Some(rows) = &mut self.rows else { return Ok(None) };
            match rows.next().await {
                Some(Err(e)) if is_refusal(&e) => {
                    // Nobody above is to take it for a refusal of its own.
                    let refused = DataFusionError::from(PgError::from(e));
                    let Some((plan, task)) = self.instead.take() else { return Err(refused) };
                    // What it holds is free before the sides are read again.
                    self.rows = None;
                    let Some(join) = plan.downcast_ref::<HashJoinExec>() else {
                        return Err(refused);
                    };
                    let share = MemoryConsumer::new("merge join").with_can_spill(true);
                    self._share = Some(share.register(task.memory_pool()));
                    self.rows = Some(merging(join)?.execute(0, task)?);
                    self.merged.add(1);
                }
                Some(Ok(batch)) => {
                    if batch.num_rows() > 0 {
                        self.instead = None;
                    }
                    return Ok(Some(batch));
                }
                other => return other.transpose(),
            }
        }
    }
}

/// Counts rows that the step above holds to its end, and once more when it puts them together.
#[derive(Debug)]
struct HeldExec {
    input: Plan,
}

impl DisplayAs for HeldExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.input.fmt_as(t, f)
    }
}

impl ExecutionPlan for HeldExec {
    fn name(&self) -> &str {
        self.input.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.input.properties()
    }

    fn children(&self) -> Vec<&Plan> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Plan>) -> DfResult<Plan> {
        let input = children.pop().ok_or_else(|| PgError::internal("nothing to hold"))?;
        Ok(Arc::new(HeldExec { input }))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let memory = MemoryConsumer::new("rows of a window").register(task.memory_pool());
        let rows = self.input.execute(partition, task)?;
        Ok(env::boxed!(HeldRows { rows, memory }))
    }
}

/// Its memory is given back when the step above ends, not with the last row.
struct HeldRows {
    rows: SendableRecordBatchStream,
    memory: MemoryReservation,
}

impl Stream for HeldRows {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let polled = self.rows.poll_next_unpin(cx);
        if let Poll::Ready(Some(Ok(batch))) = &polled {
            self.memory.try_grow(2 * get_record_batch_memory_size(batch))?;
        }
        polled
    }
}

impl RecordBatchStream for HeldRows {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
    }
}
