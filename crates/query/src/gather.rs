//! A large table read by several workers: the session and tasks of its instance, each of which
//! takes the next part of the table until none is left, with what stands right on the scan.
//!
//! What it promises: the rows one reader would have found, in no order; snapshot, counts and waits
//! are the session's, and a cancel or an error of one ends all. Where the session must not, or may
//! not, have help, one reader does it all. What it must never do: begin before its rows are asked
//! for, when joins above know their keys; keep a thread from other tasks for longer than a few
//! blocks take.

use crate::error::PgError;
use crate::estimate::plan_rows;
use crate::scan::{Access, ScanExec};
use crate::state::{ExecState, SharedState};
use crate::store::{self, FullScan};
use block::ObjId;
use datafusion::arrow::array::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};
use datafusion::physical_plan::execution_plan::{
    Boundedness, EmissionType, replace_children_if_necessary,
};
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use env::{Lane, TaskHandle};
use futures::{FutureExt, StreamExt};
use kernel::dict::TableDef;
use kernel::txn::Snapshot;
use observe::{Ctx, Operation, Stat, WaitEvent};
use std::collections::HashMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::{OnceCell, mpsc};

/// Batches that may wait for the session, for each worker.
const BATCHES_EACH: usize = 2;
/// Groups up to which each worker makes its own.
const GROUPS_MAX: f64 = 1_000.0;
/// Aggregates whose parts add up, whatever their order.
const ADDED_UP: [&str; 5] = ["count", "sum", "min", "max", "avg"];

/// What the readers of one table have in common.
pub(crate) struct Share {
    table: ObjId,
    parts: OnceCell<Parts>,
    next: AtomicUsize,
}

/// Parts of a table, and what reading all of them is, if it may take long.
struct Parts {
    all: Vec<store::Granule>,
    operation: Option<Arc<Operation>>,
}

impl Parts {
    async fn of(ctx: &Ctx, table: &TableDef, snapshot: &Snapshot) -> crate::Result<Parts> {
        let all = store::granules(ctx, table, snapshot).await?;
        let blocks = all.iter().map(|part| u64::from(part.blocks)).sum();
        Ok(Parts { all, operation: store::long_scan(ctx, table, blocks) })
    }
}

impl Share {
    fn new(table: ObjId) -> Share {
        Share { table, parts: OnceCell::new(), next: AtomicUsize::new(0) }
    }

    /// Whether it is about that table.
    pub(crate) fn is_of(&self, table: &TableDef) -> bool {
        self.table == table.obj
    }

    /// A scan of the next part that nobody has taken.
    ///
    /// # Errors
    /// The kernel's.
    pub(crate) async fn next(
        &self,
        ctx: &Ctx,
        table: &TableDef,
        snapshot: &Snapshot,
    ) -> crate::Result<Option<FullScan>> {
        let parts = self.parts.get_or_try_init(|| Parts::of(ctx, table, snapshot)).await?;
        let part = parts.all.get(self.next.fetch_add(1, Ordering::Relaxed));
        let operation = &parts.operation;
        Ok(part.map(|part| store::granule_scan(table, snapshot, *part, operation.clone())))
    }
}

/// Puts [`GatherExec`] over scans that are worth it.
#[derive(Debug)]
pub(crate) struct Gathers;

impl PhysicalOptimizerRule for Gathers {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _config: &ConfigOptions,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(plan.transform_up(gathered)?.data)
    }

    fn name(&self) -> &'static str {
        "gathers"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn gathered(plan: Arc<dyn ExecutionPlan>) -> DfResult<Transformed<Arc<dyn ExecutionPlan>>> {
    if let Some(scan) = plan.downcast_ref::<ScanExec>() {
        let work = scan.work();
        let full = matches!(work.access, Access::Full) && work.limit.is_none() && !work.target;
        if !full || work.size.workers == 0 {
            return Ok(Transformed::no(plan));
        }
        let (table, workers) = (work.table.obj, work.size.workers);
        return Ok(Transformed::yes(Arc::new(GatherExec::new(plan, table, workers))));
    }
    let Some((table, workers, input)) = below(&plan) else { return Ok(Transformed::no(plan)) };
    if let Some(aggregate) = plan.downcast_ref::<AggregateExec>() {
        return match in_parts(aggregate, table, workers, input)? {
            Some(parts) => Ok(Transformed::yes(parts)),
            None => Ok(Transformed::no(plan)),
        };
    }
    if !is_row_by_row(&plan)? {
        return Ok(Transformed::no(plan));
    }
    let plan = replace_children_if_necessary(plan, vec![input])?;
    Ok(Transformed::yes(Arc::new(GatherExec::new(plan, table, workers))))
}

/// The gathering that is a plan's only input.
fn below(plan: &Arc<dyn ExecutionPlan>) -> Option<(ObjId, usize, Arc<dyn ExecutionPlan>)> {
    let [input] = plan.children()[..] else { return None };
    let gather = input.downcast_ref::<GatherExec>()?;
    Some((gather.table, gather.workers, gather.input.clone()))
}

/// Whether a step says of each row what it says, whoever asks.
fn is_row_by_row(plan: &Arc<dyn ExecutionPlan>) -> DfResult<bool> {
    let known = plan.downcast_ref::<FilterExec>().is_some()
        || plan.downcast_ref::<ProjectionExec>().is_some();
    let mut same = known && plan.fetch().is_none();
    plan.apply_expressions(&mut |expr: &Arc<dyn PhysicalExpr>| {
        same &= !is_volatile(expr);
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(same)
}

/// The groups made by each worker and put together, if they are few and their values add up.
fn in_parts(
    aggregate: &AggregateExec,
    table: ObjId,
    workers: usize,
    input: Arc<dyn ExecutionPlan>,
) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
    let adds_up = aggregate.aggr_expr().iter().all(|one| {
        ADDED_UP.contains(&one.fun().name()) && !one.is_distinct() && one.order_bys().is_empty()
    });
    let whole = *aggregate.mode() == AggregateMode::Single
        && aggregate.group_expr().is_single()
        && aggregate.limit_options().is_none();
    let plan: Arc<dyn ExecutionPlan> = Arc::new(aggregate.clone());
    if !adds_up || !whole || plan_rows(&plan) > GROUPS_MAX {
        return Ok(None);
    }
    let (filters, schema) = (aggregate.filter_expr().to_vec(), aggregate.input_schema());
    let part = AggregateExec::try_new(
        AggregateMode::Partial,
        aggregate.group_expr().clone(),
        aggregate.aggr_expr().to_vec(),
        filters.clone(),
        input,
        schema.clone(),
    )?;
    let groups = part.group_expr().as_final();
    let parts = Arc::new(GatherExec::new(Arc::new(part), table, workers));
    Ok(Some(Arc::new(AggregateExec::try_new(
        AggregateMode::Final,
        groups,
        aggregate.aggr_expr().to_vec(),
        filters,
        parts,
        schema,
    )?)))
}

/// Brings together what workers find.
#[derive(Debug)]
pub(crate) struct GatherExec {
    input: Arc<dyn ExecutionPlan>,
    table: ObjId,
    workers: usize,
    properties: Arc<PlanProperties>,
}

impl GatherExec {
    fn new(input: Arc<dyn ExecutionPlan>, table: ObjId, workers: usize) -> GatherExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        GatherExec { input, table, workers, properties: Arc::new(properties) }
    }

    pub(crate) fn workers(&self) -> usize {
        self.workers
    }
}

impl DisplayAs for GatherExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Gather: workers={}", self.workers)
    }
}

impl ExecutionPlan for GatherExec {
    fn name(&self) -> &'static str {
        "GatherExec"
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
        let input = children.pop().ok_or_else(|| PgError::internal("nothing to gather"))?;
        Ok(Arc::new(GatherExec::new(input, self.table, self.workers)))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let state: SharedState = task
            .session_config()
            .get_extension::<ExecState>()
            .ok_or_else(|| PgError::internal("a scan without a session"))?;
        if !state.parallel {
            return self.input.execute(partition, task);
        }
        let config = task.session_config().clone().with_extension(Arc::new(Share::new(self.table)));
        let shared = Arc::new(TaskContext::new(
            None,
            String::new(),
            config,
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            task.runtime_env(),
        ));
        let start = || self.input.execute(0, shared.clone());
        let others = (0..self.workers).map(|_| start()).collect::<DfResult<Vec<_>>>()?;
        let (sender, found) = mpsc::channel(BATCHES_EACH * self.workers.max(1));
        let own = Some(start()?);
        let gathering =
            Gathering { state, own, others, sender: Some(sender), found, tasks: Vec::new() };
        let stream = futures::stream::try_unfold(gathering, |mut gathering| async move {
            Ok(gathering.next().await?.map(|batch| (batch, gathering)))
        });
        Ok(env::boxed!(RecordBatchStreamAdapter::new(self.input.schema(), stream)))
    }
}

/// One execution.
struct Gathering {
    state: SharedState,
    /// What the session reads itself; `None` at its end.
    own: Option<SendableRecordBatchStream>,
    /// What workers will read.
    others: Vec<SendableRecordBatchStream>,
    /// Until the workers have begun.
    sender: Option<mpsc::Sender<DfResult<RecordBatch>>>,
    found: mpsc::Receiver<DfResult<RecordBatch>>,
    tasks: Vec<TaskHandle>,
}

impl Gathering {
    fn begin(&mut self) {
        let Some(sender) = self.sender.take() else { return };
        let ctx = &self.state.ctx;
        for stream in self.others.drain(..) {
            let task = work(ctx.clone(), stream, sender.clone());
            self.tasks.push(ctx.env.spawn_task("parallel worker", Lane::Parallel, task));
        }
    }

    async fn next(&mut self) -> DfResult<Option<RecordBatch>> {
        self.begin();
        if let Ok(found) = self.found.try_recv() {
            return found.map(Some);
        }
        if let Some(own) = &mut self.own {
            if let Some(batch) = own.next().await {
                return batch.map(Some);
            }
            self.own = None;
        }
        let reply = WaitEvent::PxDeqExecuteReply;
        let found = self.state.ctx.wait_or_cancel(reply, [0; 3], self.found.recv()).await;
        found.map_err(PgError::from)?.transpose()
    }
}

impl Drop for Gathering {
    fn drop(&mut self) {
        // Whoever asked wants no more.
        self.tasks.iter().for_each(TaskHandle::abort);
    }
}

/// `future`, with the processor time that it takes counted for the session.
async fn on_processor<T>(ctx: &Ctx, future: impl Future<Output = T>) -> T {
    let mut future = std::pin::pin!(future);
    std::future::poll_fn(|cx| {
        let before_us = ctx.env.thread_cpu_us();
        let polled = future.as_mut().poll(cx);
        ctx.bump(Stat::CpuUsed, ctx.env.thread_cpu_us().saturating_sub(before_us));
        polled
    })
    .await
}

/// Reads and sends until the end, an error, or nobody listens.
async fn work(
    ctx: Ctx,
    mut stream: SendableRecordBatchStream,
    sender: mpsc::Sender<DfResult<RecordBatch>>,
) {
    let reading = async {
        while let Some(batch) = on_processor(&ctx, stream.next()).await {
            let failed = batch.is_err();
            let sent = ctx.wait(WaitEvent::PxDeqCreditSendBlkd, [0; 3], sender.send(batch)).await;
            if failed || sent.is_err() {
                return;
            }
            tokio::task::yield_now().await;
        }
    };
    if AssertUnwindSafe(reading).catch_unwind().await.is_err() {
        // As in the session itself: the statement fails.
        let error = PgError::internal("a parallel worker has failed");
        let event = WaitEvent::PxDeqCreditSendBlkd;
        // Nobody may listen any more.
        let _ = ctx.wait(event, [0; 3], sender.send(Err(error.into()))).await;
    }
}
