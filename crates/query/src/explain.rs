//! What EXPLAIN shows of a plan: its steps with what they are thought to cost and, where it
//! has run under watch, what they did.
//!
//! What it promises: a step's rows, time and block visits are those of the step with all below it,
//! also where steps take turns: they are counted while the step is being asked for its next rows,
//! and nothing else of the session runs meanwhile. What it must never do: change what a plan
//! yields.

use crate::append::AppendExec;
use crate::bounds::shown;
pub use crate::cost::Estimate;
use crate::cost::{estimate, inner_estimate, read_width};
use crate::error::PgError;
use crate::fixed::name_of;
use crate::index_join::IndexJoinExec;
pub use crate::plan_words::{
    Detail, Object, Operation, Operator, TABLE_ACCESS, condition_beside_key, key_condition,
};
use crate::plan_words::{FILTER, Namer, Told, function_of, passed_on};
use crate::scan::ScanExec;
use crate::state::{ExecState, SharedState};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DfResult;
use datafusion::execution::TaskContext;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::filter::FilterExec;
use datafusion::physical_plan::metrics::MetricsSet;
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::union::UnionExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties, RecordBatchStream,
    SendableRecordBatchStream,
};
use futures::{Stream, StreamExt};
use kernel::dict::IndexKind;
use observe::{Ctx, Stat};
use parking_lot::Mutex;
use std::any::Any;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

/// Visits of blocks, and what other instances had to do with them.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Visits {
    /// Blocks as of a snapshot.
    pub consistent_gets: u64,
    /// Blocks in their newest version.
    pub current_gets: u64,
    /// Blocks read from disk.
    pub physical_reads: u64,
    /// Blocks received from other instances: consistent copies, and newest versions.
    pub gc_cr_blocks: u64,
    pub gc_current_blocks: u64,
    /// Microseconds waited for those.
    pub gc_wait_us: u64,
}

impl Visits {
    /// All of a session so far.
    #[must_use]
    pub fn of(ctx: &Ctx) -> Visits {
        let stat = |stat| ctx.session.totals().stat(stat);
        Visits {
            consistent_gets: stat(Stat::ConsistentGets),
            current_gets: stat(Stat::DbBlockGets),
            physical_reads: stat(Stat::PhysicalReads),
            gc_cr_blocks: stat(Stat::GcCrBlocksReceived),
            gc_current_blocks: stat(Stat::GcCurrentBlocksReceived),
            gc_wait_us: stat(Stat::GcCrReceiveTime) + stat(Stat::GcCurrentReceiveTime),
        }
    }

    /// Those since `before`.
    #[must_use]
    pub fn since(self, before: Visits) -> Visits {
        Visits {
            consistent_gets: self.consistent_gets - before.consistent_gets,
            current_gets: self.current_gets - before.current_gets,
            physical_reads: self.physical_reads - before.physical_reads,
            gc_cr_blocks: self.gc_cr_blocks - before.gc_cr_blocks,
            gc_current_blocks: self.gc_current_blocks - before.gc_current_blocks,
            gc_wait_us: self.gc_wait_us - before.gc_wait_us,
        }
    }

    fn add(&mut self, other: Visits) {
        self.consistent_gets += other.consistent_gets;
        self.current_gets += other.current_gets;
        self.physical_reads += other.physical_reads;
        self.gc_cr_blocks += other.gc_cr_blocks;
        self.gc_current_blocks += other.gc_current_blocks;
        self.gc_wait_us += other.gc_wait_us;
    }
}

/// What a step did, all its runs together.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Actual {
    pub loops: u64,
    pub rows: u64,
    /// Where it reads a bitmap index, pieces of it.
    pub pieces: u64,
    /// Microseconds to its first rows, and in all.
    pub first_us: u64,
    pub total_us: u64,
    pub visits: Visits,
}

/// What a step, or a part of one, did so far.
pub type SharedActual = Arc<Mutex<Actual>>;

/// A part of a step's work, or a statement's, that goes on.
pub struct PartBegun {
    part: SharedActual,
    visits: Visits,
    at: env::Micros,
}

impl PartBegun {
    /// It begins.
    #[must_use]
    pub fn start(part: &SharedActual, ctx: &Ctx) -> PartBegun {
        part.lock().loops += 1;
        PartBegun::again(part, ctx)
    }

    /// What has begun before goes on.
    #[must_use]
    pub fn again(part: &SharedActual, ctx: &Ctx) -> PartBegun {
        PartBegun { part: part.clone(), visits: Visits::of(ctx), at: ctx.env.now() }
    }

    /// It has given so many rows, and ends or pauses.
    pub fn end(self, ctx: &Ctx, rows: u64) {
        self.end_pieces(ctx, rows, 0);
    }

    /// The same of what reads a bitmap index, with the pieces read.
    pub(crate) fn end_pieces(self, ctx: &Ctx, rows: u64, pieces: u64) {
        let mut part = self.part.lock();
        part.visits.add(Visits::of(ctx).since(self.visits));
        part.total_us += ctx.env.now().since(self.at);
        part.rows += rows;
        part.pieces += pieces;
    }
}

/// Where a step tells what parts of it took.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// Reading its index, whose number follows.
    pub(crate) index: SharedActual,
    index_obj: u32,
    /// Of sets that bitmaps give, one after the other as [`Sets`] has them.
    pub(crate) sets: Vec<SharedActual>,
    /// Of a join by index, looking rows up, with the index's part; the table's number. The same of
    /// one of several accesses.
    pub(crate) table: Option<(SharedActual, u32)>,
    /// Of several accesses, one after the other, what each took.
    pub(crate) branches: Vec<Parts>,
}

impl Parts {
    pub(crate) fn of_index(index_obj: u32) -> Parts {
        let index = SharedActual::default();
        // Its range of keys may be the only set.
        Parts { sets: vec![index.clone()], index, index_obj, table: None, branches: Vec::new() }
    }

    /// Reading a table by one of these indexes after the other.
    pub(crate) fn of_branches(index_objs: impl Iterator<Item = u32>, table_obj: u32) -> Parts {
        let branches = index_objs.map(|index_obj| Parts::of_join(index_obj, table_obj)).collect();
        Parts { branches, ..Parts::of_index(0) }
    }

    /// Those of one of several accesses, or its own if it has no other.
    pub(crate) fn of_branch(&self, at: usize) -> &Parts {
        self.branches.get(at).unwrap_or(self)
    }

    /// Reading so many sets, and going through what they come to.
    pub(crate) fn of_sets(count: usize) -> Parts {
        let sets = (0..count).map(|_| SharedActual::default()).collect();
        Parts { sets, ..Parts::of_index(0) }
    }

    pub(crate) fn of_join(index_obj: u32, table_obj: u32) -> Parts {
        let table = Some((SharedActual::default(), table_obj));
        Parts { table, ..Parts::of_index(index_obj) }
    }

    fn told_of_index(&self) -> Part {
        Part { obj: self.index_obj, actual: *self.index.lock() }
    }

    fn told_of_table(&self) -> Option<Part> {
        let (table, obj) = self.table.as_ref()?;
        Some(Part { obj: *obj, actual: *table.lock() })
    }
}

/// What a part of a step did: reading an index, of a step that reads the rows it points to as well,
/// or all of the inner side of a join by index.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Number of the index or table.
    pub obj: u32,
    /// `rows`: entries of the index, or rows of the table.
    pub actual: Actual,
}

/// The inner side of a join by index: a table's rows, and the index that leads to them.
#[derive(Clone, Copy, Debug)]
pub struct Inner {
    /// Whether a key finds one row at most.
    pub unique: bool,
    /// Whether the index is one of bitmaps.
    pub bitmap: bool,
    /// What one outer row is thought to take.
    pub estimate: Estimate,
    /// What all of them took, if the join was watched.
    pub actual: Option<Part>,
}

/// What a step reads.
#[derive(Clone, Debug, Default)]
pub struct Names {
    pub table: String,
    /// The indexes that lead to its rows, as EXPLAIN shows them.
    pub index: Option<String>,
    /// Whether its range of keys is of single values, with no bounds behind them.
    pub single: bool,
    /// Whether it is a view whose rows are in memory.
    pub fixed: bool,
    /// Number of the table, or of the index whose entries are read instead; 0: it has none.
    pub obj: u32,
}

/// The sets of rows that indexes give, and how they are brought together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Sets {
    /// Of one index.
    One {
        index: String,
        obj: u32,
        /// Whether it is one of bitmaps.
        bitmap: bool,
        /// Whether its rows have a single value, or none.
        single: bool,
        /// What it is asked for; `None`: all that it has.
        condition: Option<String>,
        /// What reading it took; `None`: it was not watched.
        actual: Option<Actual>,
    },
    All(Vec<Sets>),
    Any(Vec<Sets>),
    /// The rows of the first that are in none of the others.
    Minus(Box<Sets>, Vec<Sets>),
}

impl Sets {
    /// With what reading each of them took.
    fn told(mut self, parts: &Parts) -> Sets {
        self.tell(&mut parts.sets.iter());
        self
    }

    fn tell(&mut self, parts: &mut std::slice::Iter<'_, SharedActual>) {
        match self {
            Sets::One { actual, .. } => *actual = parts.next().map(|part| *part.lock()),
            Sets::All(sets) | Sets::Any(sets) => sets.iter_mut().for_each(|set| set.tell(parts)),
            Sets::Minus(base, sets) => {
                base.tell(parts);
                sets.iter_mut().for_each(|set| set.tell(parts));
            }
        }
    }
}

/// A step of a plan as EXPLAIN shows it.
#[derive(Clone, Debug)]
pub struct Step {
    pub operator: Operator,
    /// What it does, in PostgreSQL's words.
    pub text: String,
    /// Its conditions, keys and bounds.
    pub details: Vec<Detail>,
    pub estimate: Estimate,
    /// Mean bytes of the columns that it reads of a table, which need not be those it yields.
    pub read_width: f64,
    /// Names of its columns.
    pub columns: Vec<String>,
    /// `None`: it was not watched.
    pub actual: Option<Actual>,
    /// Of that, the part of the index, if it has one and was watched.
    pub index: Option<Part>,
    /// The table that it reads itself.
    pub names: Option<Names>,
    /// What leads to that table's rows, if these are bitmaps.
    pub sets: Option<Sets>,
    /// Of a join by index, its other side.
    pub inner: Option<Inner>,
    /// Of a scan by one index after the other, what each of them leads to.
    pub branches: Vec<Step>,
    pub inputs: Vec<Step>,
}

/// The steps of a plan.
///
/// What only passes rows on, computes columns, or drops rows of the step below, is told with that,
/// as PostgreSQL does it: its rows, time and columns are those of both.
#[must_use]
pub fn steps(plan: &Arc<dyn ExecutionPlan>) -> Step {
    step(plan, &Namer::of(plan))
}

fn step(plan: &Arc<dyn ExecutionPlan>, namer: &Namer) -> Step {
    let watched = plan.downcast_ref::<Watched>();
    let inner = shown(unwatched(plan));
    let estimate = watched.map_or_else(|| estimate(plan), |watched| watched.estimate);
    let actual = watched.map(|watched| *watched.actual.lock());
    let columns: Vec<String> =
        inner.schema().fields().iter().map(|field| field.name().clone()).collect();
    if let Some(input) = passed_on(inner) {
        let below = step(input, namer);
        return Step { estimate, columns, actual, ..below };
    }
    if let Some(filter) = inner.downcast_ref::<FilterExec>() {
        let mut below = step(filter.input(), namer);
        if takes_filter(filter.input(), &below) {
            let condition = namer.condition(filter.input(), filter.predicate());
            below.add_filter(condition, actual.as_ref());
            return Step { estimate, columns, actual, ..below };
        }
    }
    let Told { operator, head, details } = namer.told(plan);
    let mut children = inner.children();
    // Branches that are read one after the other, or merged, and what reads them so.
    let reads_branches = inner.downcast_ref::<AppendExec>().is_some()
        || inner.downcast_ref::<SortPreservingMergeExec>().is_some();
    if reads_branches
        && let [only] = children[..]
        && shown(unwatched(only)).downcast_ref::<UnionExec>().is_some()
    {
        children = shown(unwatched(only)).children();
    }
    let fixed = || {
        let table = name_of(inner.as_ref())?.to_owned();
        Some(Names { table, fixed: true, ..Names::default() })
    };
    let function = || {
        let table = function_of(inner.as_ref())?;
        Some(Names { table, ..Names::default() })
    };
    let mut inputs: Vec<Step> = children.into_iter().map(|input| step(input, namer)).collect();
    if let Some(groups) = inner.downcast_ref::<AggregateExec>() {
        tell_extreme(groups, &mut inputs);
    }
    let parts = watched.and_then(|watched| watched.parts.as_ref());
    let branches = match inner.downcast_ref::<ScanExec>() {
        Some(scan) => branch_steps((inner, scan), namer, &columns, parts),
        None => Vec::new(),
    };
    Step {
        operator: with_input(operator, &inputs),
        text: head,
        details,
        estimate,
        read_width: inner.downcast_ref::<ScanExec>().map_or(0.0, |scan| read_width(scan.work())),
        columns,
        actual,
        index: parts.map(Parts::told_of_index),
        names: inner
            .downcast_ref::<ScanExec>()
            .map(ScanExec::names)
            .or_else(|| inner.downcast_ref::<IndexJoinExec>().map(IndexJoinExec::names))
            .or_else(fixed)
            .or_else(function),
        sets: inner.downcast_ref::<ScanExec>().and_then(|scan| namer.sets(inner, scan)).map(
            |sets| match parts {
                Some(parts) => sets.told(parts),
                None => sets,
            },
        ),
        inner: inner.downcast_ref::<IndexJoinExec>().map(|join| Inner {
            unique: join.join().is_unique(),
            bitmap: join.join().index.kind == IndexKind::Bitmap,
            estimate: inner_estimate(join),
            actual: parts.and_then(Parts::told_of_table),
        }),
        branches,
        inputs,
    }
}

/// What each of a scan's several accesses leads to.
fn branch_steps(
    (plan, scan): (&Arc<dyn ExecutionPlan>, &ScanExec),
    namer: &Namer,
    columns: &[String],
    parts: Option<&Parts>,
) -> Vec<Step> {
    let (mut steps, mut earlier) = (Vec::new(), Vec::new());
    for (at, (branch, own)) in scan.branches().into_iter().enumerate() {
        let Told { operator, head, details } = namer.branch(plan, &branch, &earlier);
        let part = parts.and_then(|parts| parts.branches.get(at));
        let sets = namer.sets(plan, &branch).map(|sets| match part {
            Some(part) => sets.told(part),
            None => sets,
        });
        let (names, read_width) = (Some(branch.names()), read_width(branch.work()));
        let branch: Arc<dyn ExecutionPlan> = Arc::new(branch);
        steps.push(Step {
            operator,
            text: head,
            details,
            estimate: estimate(&branch),
            read_width,
            columns: columns.to_vec(),
            actual: part.and_then(Parts::told_of_table).map(|part| part.actual),
            index: part.map(Parts::told_of_index),
            names,
            sets,
            inner: None,
            branches: Vec::new(),
            inputs: Vec::new(),
        });
        earlier.push(own);
    }
    steps
}

/// An index of which the least or greatest value is all that is asked for goes by another name.
fn tell_extreme(groups: &AggregateExec, inputs: &mut [Step]) {
    let extreme = groups.group_expr().expr().is_empty()
        && groups.aggr_expr().iter().all(|call| matches!(call.fun().name(), "min" | "max"));
    let [input] = inputs else { return };
    let one = input.details.iter().any(|(label, rows)| *label == "Limit" && rows == "1");
    if extreme && one {
        input.operator = match input.operator {
            Operator::IndexOnlyScan { .. } => Operator::IndexExtreme { whole: false },
            Operator::IndexOnlyFullScan { .. } => Operator::IndexExtreme { whole: true },
            other => other,
        };
    }
}

/// An operator that goes by another name with some inputs.
fn with_input(operator: Operator, inputs: &[Step]) -> Operator {
    match (operator, inputs) {
        (Operator::Window, [Step { operator: Operator::Sort, .. }]) => Operator::WindowSort,
        (Operator::Window, [Step { operator: Operator::FirstOfGroups, .. }]) => {
            Operator::WindowFirst
        }
        _ => operator,
    }
}

/// Whether a filter above the step can be told with it: it has no bound on the number of its rows,
/// which would be one of those that the filter leaves.
fn takes_filter(plan: &Arc<dyn ExecutionPlan>, step: &Step) -> bool {
    let plan = shown(unwatched(plan));
    let reads = step.names.is_some()
        || step.inputs.is_empty()
        || plan.downcast_ref::<FilterExec>().is_some()
        || plan.downcast_ref::<AggregateExec>().is_some()
        || passed_on(plan).is_some_and(|input| takes_filter(input, step))
        || matches!(
            plan.name(),
            "HashJoinExec" | "NestedLoopJoinExec" | "CrossJoinExec" | "SortMergeJoinExec"
        );
    reads && !step.details.iter().any(|(label, _)| *label == "Limit")
}

impl Step {
    /// The steps that the field shows for it: itself, or what is below it.
    #[must_use]
    pub fn field_steps(&self) -> Vec<&Step> {
        match self.operator.operations().is_empty() {
            true => self.field_inputs(),
            false => vec![self],
        }
    }

    /// The steps that the field shows below it.
    #[must_use]
    pub fn field_inputs(&self) -> Vec<&Step> {
        let inputs: Vec<&Step> = match (self.operator, &self.inputs[..]) {
            // There a window sorts its rows itself.
            (Operator::WindowSort | Operator::WindowFirst, [sort]) => return sort.field_inputs(),
            // Values come before what asks for them.
            (Operator::InitPlan, [main, values @ ..]) => values.iter().chain([main]).collect(),
            (_, inputs) => inputs.iter().collect(),
        };
        inputs.into_iter().flat_map(Step::field_steps).collect()
    }

    /// Takes a filter's condition on, and the rows that it has dropped.
    fn add_filter(&mut self, condition: Option<String>, left: Option<&Actual>) {
        if let Some(condition) = condition {
            match self.details.iter_mut().find(|(label, _)| *label == FILTER) {
                Some((_, all)) => *all = format!("({all} AND {condition})"),
                None => self.details.push((FILTER, condition)),
            }
        }
        let (Some(before), Some(left)) = (&self.actual, left) else { return };
        let dropped = before.rows.saturating_sub(left.rows);
        match self.details.iter_mut().find(|(label, _)| *label == REMOVED) {
            Some((_, all)) => {
                let sum = all.parse::<u64>().unwrap_or(0) + dropped;
                *all = sum.to_string();
            }
            None if dropped > 0 => self.details.push((REMOVED, dropped.to_string())),
            None => {}
        }
    }
}

const REMOVED: &str = "Rows Removed by Filter";

/// The step itself, if it is watched.
pub(crate) fn unwatched(plan: &Arc<dyn ExecutionPlan>) -> &Arc<dyn ExecutionPlan> {
    plan.downcast_ref::<Watched>().map_or(plan, |watched| &watched.inner)
}

/// The plan with every step watched; without `timing` the clock is not read.
///
/// # Errors
/// DataFusion's.
pub fn watched(plan: &Arc<dyn ExecutionPlan>, timing: bool) -> DfResult<Arc<dyn ExecutionPlan>> {
    let estimate = estimate(plan);
    let inputs = plan.children().into_iter().map(|input| watched(input, timing));
    let inputs = inputs.collect::<DfResult<Vec<_>>>()?;
    let scan = plan.downcast_ref::<ScanExec>().and_then(ScanExec::watching_index);
    let mut parts = None;
    let inner: Arc<dyn ExecutionPlan> = if let Some((scan, told)) = scan {
        parts = Some(told);
        Arc::new(scan)
    } else if let (Some(join), [outer]) = (plan.downcast_ref::<IndexJoinExec>(), &inputs[..]) {
        let (join, told) = join.watching(outer.clone());
        parts = Some(told);
        Arc::new(join)
    } else if inputs.is_empty() {
        plan.clone()
    } else {
        replace_children_if_necessary(plan.clone(), inputs)?
    };
    Ok(Arc::new(Watched { inner, estimate, timing, actual: Arc::default(), parts }))
}

/// A step that is watched.
#[derive(Debug)]
struct Watched {
    inner: Arc<dyn ExecutionPlan>,
    estimate: Estimate,
    timing: bool,
    actual: SharedActual,
    /// What it tells of its parts, if it has some.
    parts: Option<Parts>,
}

impl Watched {
    fn over(&self, inner: Arc<dyn ExecutionPlan>) -> Arc<dyn ExecutionPlan> {
        let (estimate, timing) = (self.estimate, self.timing);
        let (actual, parts) = (self.actual.clone(), self.parts.clone());
        Arc::new(Watched { inner, estimate, timing, actual, parts })
    }
}

impl DisplayAs for Watched {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt_as(t, f)
    }
}

impl ExecutionPlan for Watched {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        self.inner.properties()
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.inner.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        self.inner.apply_expressions(f)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self.over(replace_children_if_necessary(self.inner.clone(), children)?))
    }

    fn with_new_state(&self, state: Arc<dyn Any + Send + Sync>) -> Option<Arc<dyn ExecutionPlan>> {
        self.inner.with_new_state(state).map(|inner| self.over(inner))
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self.over(self.inner.clone().reset_state()?))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        self.inner.metrics()
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let state: SharedState = task
            .session_config()
            .get_extension::<ExecState>()
            .ok_or_else(|| PgError::internal("a step without a session"))?;
        let inner = self.inner.execute(partition, task)?;
        self.actual.lock().loops += 1;
        let actual = self.actual.clone();
        let (timing, asked, spent_us, first) = (self.timing, None, 0, true);
        Ok(env::boxed!(WatchedStream { inner, state, actual, timing, asked, spent_us, first }))
    }
}

struct WatchedStream {
    inner: SendableRecordBatchStream,
    state: SharedState,
    actual: SharedActual,
    timing: bool,
    /// When the rows that are being waited for were asked for.
    asked: Option<env::Micros>,
    spent_us: u64,
    first: bool,
}

impl Stream for WatchedStream {
    type Item = DfResult<RecordBatch>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        let ctx = &this.state.ctx;
        if this.timing && this.asked.is_none() {
            this.asked = Some(ctx.env.now());
        }
        let before = Visits::of(ctx);
        let polled = this.inner.poll_next_unpin(cx);
        let visits = Visits::of(ctx).since(before);
        let mut actual = this.actual.lock();
        actual.visits.add(visits);
        if let Poll::Ready(item) = &polled {
            if let Some(asked) = this.asked.take() {
                let us = ctx.env.now().since(asked);
                this.spent_us += us;
                actual.total_us += us;
            }
            if std::mem::take(&mut this.first) {
                actual.first_us += this.spent_us;
            }
            if let Some(Ok(batch)) = item {
                actual.rows += batch.num_rows() as u64;
            }
        }
        drop(actual);
        polled
    }
}

impl RecordBatchStream for WatchedStream {
    fn schema(&self) -> SchemaRef {
        self.inner.schema()
    }
}
