//! Groups that a statement asks for several times, a `WITH` query named twice for one, are worked
//! out once.
//!
//! What it promises: all who ask get the same rows, whoever of them asks first, and as far as one
//! of them wants to read. What it must never do: share what is not the same each time (`random()`),
//! or what is large and cheap to work out again.

use crate::error::PgError;
use crate::join_order::{cost_of, rows_of};
use crate::provider::TableScanSource;
use crate::state::{ExecState, SharedState};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchemaRef, Result as DfResult};
use datafusion::datasource::source_as_provider;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, PlanProperties, RecordBatchStream,
};
use futures::{Stream, StreamExt};
use parking_lot::Mutex;
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering as AtomicOrdering};
use std::task::{Context, Poll, Wake, Waker};

/// Rows beyond which groups are rather worked out again than held in memory.
const ROWS_MAX: f64 = 100_000.0;
/// What it must cost to work them out, in rows of a full scan.
const COST_MIN: f64 = 10_000.0;

/// Something that has several readers in one execution.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Shared {
    pub(crate) input: LogicalPlan,
    /// The same for all who read the same.
    pub(crate) number: u64,
}

impl PartialOrd for Shared {
    fn partial_cmp(&self, other: &Shared) -> Option<Ordering> {
        self.number.partial_cmp(&other.number)
    }
}

impl UserDefinedLogicalNodeCore for Shared {
    fn name(&self) -> &'static str {
        "Shared"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared: {}", self.number)
    }

    fn with_exprs_and_inputs(
        &self,
        _exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> DfResult<Shared> {
        let input = inputs.pop().ok_or_else(|| PgError::internal("nothing to share"))?;
        Ok(Shared { input, number: self.number })
    }
}

/// The plan with groups that occur in it several times shared.
///
/// # Errors
/// DataFusion's.
pub(crate) fn with_shared(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    /// Numbers are told apart in all plans: parts of one execution may be planned apart.
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let mut found: HashMap<LogicalPlan, usize> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        if matches!(node, LogicalPlan::Aggregate(_)) {
            *found.entry(node.clone()).or_default() += 1;
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    found.retain(|_, times| *times > 1);
    let mut numbers = HashMap::new();
    for (node, _) in found {
        if is_fixed(&node)? && rows_of(&node)? <= ROWS_MAX && cost_of(&node)? >= COST_MIN {
            numbers.insert(node, NEXT.fetch_add(1, AtomicOrdering::Relaxed));
        }
    }
    if numbers.is_empty() {
        return Ok(plan);
    }
    // From above: what is inside of something shared is shared with it.
    let shared = plan.transform_down_with_subqueries(|node| {
        let Some(number) = numbers.get(&node) else { return Ok(Transformed::no(node)) };
        let node = Arc::new(Shared { input: node, number: *number });
        let node = LogicalPlan::Extension(Extension { node });
        Ok(Transformed::new(node, true, TreeNodeRecursion::Jump))
    })?;
    Ok(shared.data)
}

/// Whether a plan yields the same whenever it is run by one execution: it reads only tables, each
/// of one name, and calls nothing that changes.
fn is_fixed(plan: &LogicalPlan) -> DfResult<bool> {
    let mut fixed = true;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let provider = source_as_provider(&scan.source)?;
            fixed &= provider.downcast_ref::<TableScanSource>().is_some_and(|s| s.may_move());
        }
        fixed &= !matches!(node, LogicalPlan::Extension(_) | LogicalPlan::RecursiveQuery(_));
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                fixed &=
                    !part.is_volatile_node() && !matches!(part, Expr::OuterReferenceColumn(..));
                Ok(TreeNodeRecursion::Continue)
            })
        })?;
        Ok(if fixed { TreeNodeRecursion::Continue } else { TreeNodeRecursion::Stop })
    })?;
    Ok(fixed)
}

/// What is being read by several, of one execution.
#[derive(Default)]
pub struct SharedRows(Mutex<HashMap<u64, Arc<Mutex<Rows>>>>);

/// Rows read so far, and where the next ones come from.
struct Rows {
    batches: Vec<RecordBatch>,
    /// `None` at the end.
    input: Option<SendableRecordBatchStream>,
    failed: Option<PgError>,
    memory: MemoryReservation,
    waiting: Arc<Waiting>,
}

/// Those who wait for the next rows.
#[derive(Default)]
struct Waiting(Mutex<Vec<Waker>>);

impl Wake for Waiting {
    fn wake(self: Arc<Self>) {
        let all = std::mem::take(&mut *self.0.lock());
        all.into_iter().for_each(Waker::wake);
    }
}

/// Reads something together with others.
#[derive(Debug)]
pub(crate) struct SharedExec {
    input: Arc<dyn ExecutionPlan>,
    number: u64,
    properties: Arc<PlanProperties>,
}

impl SharedExec {
    pub(crate) fn new(input: Arc<dyn ExecutionPlan>, number: u64) -> SharedExec {
        let properties = input.properties().clone();
        SharedExec { input, number, properties }
    }
}

impl DisplayAs for SharedExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shared Rows")
    }
}

impl ExecutionPlan for SharedExec {
    fn name(&self) -> &'static str {
        "SharedExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        let input = children.pop().ok_or_else(|| PgError::internal("nothing to share"))?;
        Ok(Arc::new(SharedExec::new(input, self.number)))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let state: SharedState = task
            .session_config()
            .get_extension::<ExecState>()
            .ok_or_else(|| PgError::internal("shared rows without a session"))?;
        let known = state.shared.0.lock().get(&self.number).cloned();
        let rows = match known {
            Some(rows) => rows,
            None => {
                let memory = MemoryConsumer::new("shared rows").register(task.memory_pool());
                let input = Some(self.input.execute(partition, task.clone())?);
                let waiting = Arc::default();
                let rows = Rows { batches: Vec::new(), input, failed: None, memory, waiting };
                let rows = Arc::new(Mutex::new(rows));
                state.shared.0.lock().entry(self.number).or_insert(rows).clone()
            }
        };
        Ok(env::boxed!(Reader { rows, at: 0, schema: self.input.schema() }))
    }
}

/// One reader.
struct Reader {
    rows: Arc<Mutex<Rows>>,
    /// The next batch.
    at: usize,
    schema: SchemaRef,
}

impl Stream for Reader {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let mut rows = this.rows.lock();
        if let Some(batch) = rows.batches.get(this.at) {
            this.at += 1;
            return Poll::Ready(Some(Ok(batch.clone())));
        }
        if let Some(error) = &rows.failed {
            return Poll::Ready(Some(Err(error.clone().into())));
        }
        let waiting = rows.waiting.clone();
        let Some(input) = &mut rows.input else { return Poll::Ready(None) };
        {
            let mut all = waiting.0.lock();
            if !all.iter().any(|waker| waker.will_wake(cx.waker())) {
                all.push(cx.waker().clone());
            }
        }
        let waker = Waker::from(waiting.clone());
        let polled = input.poll_next_unpin(&mut Context::from_waker(&waker));
        let item = match polled {
            Poll::Pending => return Poll::Pending,
            Poll::Ready(item) => item,
        };
        let item = match item {
            Some(Ok(batch)) => match rows.memory.try_grow(batch.get_array_memory_size()) {
                Ok(()) => {
                    rows.batches.push(batch.clone());
                    this.at += 1;
                    Some(Ok(batch))
                }
                Err(error) => Some(Err(error)),
            },
            other => other,
        };
        let item = item.map(|item| item.map_err(PgError::from));
        if !matches!(item, Some(Ok(_))) {
            rows.input = None;
            rows.failed = item.as_ref().and_then(|item| item.as_ref().err().cloned());
        }
        let item = item.map(|item| item.map_err(Into::into));
        drop(rows);
        waiting.wake();
        Poll::Ready(item)
    }
}

impl RecordBatchStream for Reader {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }
}
