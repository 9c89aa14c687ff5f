//! The nested loop by index: for each row of one input, the rows of a table that its index has
//! under the row's join columns.
//!
//! What it promises: the rows a hash join of the same inputs yields, in the outer input's order
//! (in an outer join, rows without a match come last of their batch).
//! The table is read as its scan would be: same snapshot, same filters. Memory is one batch of the
//! outer input and one of the result.

use crate::arrow_rows::{ColumnReader, RowBatchBuilder};
use crate::error::{PgError, Result};
use crate::explain::{Names, PartBegun, Parts};
use crate::scalar::{EvalContext, Scalar};
use crate::scan::{Filter, ScanWork, accept, append_key};
use crate::state::{ExecState, SharedState};
use crate::store;
use block::Rowid;
use datafusion::arrow::array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, UInt32Array, new_null_array,
};
use datafusion::arrow::compute::{filter_record_batch, prep_null_mask_filter, take};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{JoinSide, JoinType};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::joins::utils::{ColumnIndex, JoinFilter};
use datafusion::physical_plan::metrics::{
    BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet, RecordOutput,
};
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    SendableRecordBatchStream,
};
use futures::StreamExt;
use kernel::dict::IndexDef;
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Rows of the result after which a batch goes out.
const BATCH_ROWS: usize = 8192;

/// What becomes of an outer row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keep {
    /// It comes with each of its matches.
    Matches,
    /// The same, or once with NULLs.
    MatchesOrNull,
    /// Once, if it has a match.
    IfMatched,
    /// Once, if it has none.
    IfUnmatched,
}

/// A column of the index's key.
#[derive(Clone, Debug)]
pub(crate) enum KeyPart {
    /// Computed from the outer row.
    Outer(Arc<dyn PhysicalExpr>),
    /// The same for all rows.
    Fixed(Scalar),
}

/// Where a column of the result comes from.
#[derive(Clone, Copy, Debug)]
pub(crate) enum From {
    Outer(usize),
    Inner(usize),
}

/// What a join by index does.
#[derive(Clone, Debug)]
pub(crate) struct IndexJoin {
    pub(crate) inner: Arc<ScanWork>,
    pub(crate) index: Arc<IndexDef>,
    pub(crate) key: Vec<KeyPart>,
    pub(crate) keep: Keep,
    /// A further condition on both sides; which of the filter's sides is the outer one.
    pub(crate) filter: Option<(JoinFilter, JoinSide)>,
    pub(crate) columns: Vec<From>,
    pub(crate) schema: SchemaRef,
    pub(crate) limit: Option<usize>,
    /// Rows thought to be found for each outer row.
    pub(crate) found_each: f64,
    /// The same of those that the table's filters keep.
    pub(crate) rows_each: f64,
    /// Part of the outer rows that have a match, if it is known.
    pub(crate) part: Option<f64>,
}

impl IndexJoin {
    /// Whether a key finds one row at most.
    pub(crate) fn is_unique(&self) -> bool {
        self.index.unique && self.key.len() == self.index.columns.len()
    }

    /// The outer input's order, as far as the result shows it.
    fn order_of(&self, outer: &Arc<dyn ExecutionPlan>) -> Vec<PhysicalSortExpr> {
        // Rows without a match come after those with one.
        let Some(order) = outer.output_ordering().filter(|_| self.keep != Keep::MatchesOrNull)
        else {
            return Vec::new();
        };
        let shown = |sort: &PhysicalSortExpr| {
            let column = sort.expr.downcast_ref::<Column>()?.index();
            let at = self
                .columns
                .iter()
                .position(|from| matches!(from, From::Outer(i) if *i == column))?;
            let column = Column::new(self.schema.field(at).name(), at);
            Some(PhysicalSortExpr { expr: Arc::new(column), options: sort.options })
        };
        order.iter().map_while(shown).collect()
    }
}

/// The plan node.
#[derive(Debug)]
pub(crate) struct IndexJoinExec {
    outer: Arc<dyn ExecutionPlan>,
    join: Arc<IndexJoin>,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
    /// Where it is told what looking rows up took, if somebody watches.
    parts: Option<Parts>,
}

impl IndexJoinExec {
    pub(crate) fn new(outer: Arc<dyn ExecutionPlan>, join: Arc<IndexJoin>) -> IndexJoinExec {
        let mut equivalence = EquivalenceProperties::new(join.schema.clone());
        let order = join.order_of(&outer);
        if !order.is_empty() {
            equivalence.add_ordering(order);
        }
        let properties = PlanProperties::new(
            equivalence,
            outer.properties().partitioning.clone(),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let metrics = ExecutionPlanMetricsSet::new();
        IndexJoinExec { outer, join, properties: Arc::new(properties), metrics, parts: None }
    }

    /// The same over a watched input, which tells what looking rows up took.
    pub(crate) fn watching(&self, outer: Arc<dyn ExecutionPlan>) -> (IndexJoinExec, Parts) {
        let parts = Parts::of_join(self.join.index.obj.0, self.join.inner.table.obj.0);
        let join = IndexJoinExec::new(outer, self.join.clone());
        (IndexJoinExec { parts: Some(parts.clone()), ..join }, parts)
    }

    /// Where an output column comes from.
    pub(crate) fn origin(&self, at: usize) -> Option<From> {
        self.join.columns.get(at).copied()
    }

    /// The table that is looked up.
    pub(crate) fn inner(&self) -> &Arc<ScanWork> {
        &self.join.inner
    }

    /// Rows it is thought to yield.
    pub(crate) fn rows(&self) -> f64 {
        let outer = crate::estimate::plan_rows(&self.outer);
        match self.join.keep {
            Keep::Matches => outer * self.join.rows_each,
            Keep::MatchesOrNull => outer * self.join.rows_each.max(1.0),
            Keep::IfMatched => outer * self.join.part.unwrap_or(1.0),
            Keep::IfUnmatched => outer * self.join.part.map_or(1.0, |part| 1.0 - part).max(0.01),
        }
    }
}

impl IndexJoinExec {
    /// What it reads for each outer row.
    pub(crate) fn names(&self) -> Names {
        let table = self.join.inner.table.name.clone();
        let index = Some(self.join.index.name.clone());
        let obj = self.join.inner.table.obj.0;
        Names { table, index, single: true, fixed: false, obj }
    }

    /// What it is as a join of the outer input with the table.
    pub(crate) fn join_type(&self) -> JoinType {
        match self.join.keep {
            Keep::Matches => JoinType::Inner,
            Keep::MatchesOrNull => JoinType::Left,
            Keep::IfMatched => JoinType::LeftSemi,
            Keep::IfUnmatched => JoinType::LeftAnti,
        }
    }

    pub(crate) fn outer(&self) -> &Arc<dyn ExecutionPlan> {
        &self.outer
    }

    pub(crate) fn join(&self) -> &IndexJoin {
        &self.join
    }
}

impl DisplayAs for IndexJoinExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IndexJoinExec: {}", self.join.inner.table.name)
    }
}

impl ExecutionPlan for IndexJoinExec {
    fn name(&self) -> &'static str {
        "IndexJoinExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.outer]
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        for part in &self.join.key {
            if let KeyPart::Outer(expr) = part
                && f(expr)? == TreeNodeRecursion::Stop
            {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        match &self.join.filter {
            Some((filter, _)) => f(filter.expression()),
            None => Ok(TreeNodeRecursion::Continue),
        }
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let [outer]: [_; 1] =
            children.try_into().map_err(|_| PgError::internal("a join by index has one input"))?;
        let join = IndexJoinExec::new(outer, self.join.clone());
        Ok(Arc::new(IndexJoinExec { parts: self.parts.clone(), ..join }))
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![self.join.keep != Keep::MatchesOrNull]
    }

    fn fetch(&self) -> Option<usize> {
        self.join.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let join = IndexJoin { limit, ..(*self.join).clone() };
        Some(Arc::new(IndexJoinExec::new(self.outer.clone(), Arc::new(join))))
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExec,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        let columns = projection.expr().iter().map(|one| {
            let column = one.expr.downcast_ref::<Column>()?;
            self.join.columns.get(column.index()).copied()
        });
        let Some(columns) = columns.collect::<Option<Vec<From>>>() else { return Ok(None) };
        let schema = projection.schema();
        let join = IndexJoin { columns, schema, ..(*self.join).clone() };
        Ok(Some(Arc::new(IndexJoinExec::new(self.outer.clone(), Arc::new(join)))))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let state: SharedState = task
            .session_config()
            .get_extension::<ExecState>()
            .ok_or_else(|| PgError::internal("a join without a session"))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let outer = self.outer.execute(partition, task)?;
        let schema = self.join.schema.clone();
        let inner = &self.join.inner;
        let run = JoinRun {
            builder: RowBatchBuilder::new(&inner.types, &inner.sources, inner.schema.clone()),
            filter: Filter::new(&inner.filters, &inner.types, &state),
            join: self.join.clone(),
            parts: self.parts.clone(),
            state,
            outer,
            now: None,
            produced: 0,
            row: Vec::new(),
            key: Vec::new(),
            slots: Vec::new(),
            metrics,
        };
        let stream = futures::stream::try_unfold(run, |mut run| async move {
            match run.next_batch().await {
                Ok(Some(batch)) => Ok(Some((batch.record_output(&run.metrics), run))),
                Ok(None) => Ok(None),
                Err(error) => Err(error),
            }
        });
        Ok(env::boxed!(RecordBatchStreamAdapter::new(schema, stream)))
    }
}

/// The outer batch at work.
struct Outer {
    batch: RecordBatch,
    keys: Vec<Option<ColumnReader>>,
    /// The next row.
    at: usize,
    matched: Vec<bool>,
    /// The outer row of each row in the builder.
    rows: Vec<u32>,
}

struct JoinRun {
    join: Arc<IndexJoin>,
    /// Where it tells what looking rows up took.
    parts: Option<Parts>,
    /// The filters of the table.
    filter: Filter,
    state: SharedState,
    outer: SendableRecordBatchStream,
    now: Option<Outer>,
    builder: RowBatchBuilder,
    produced: usize,
    row: Vec<u8>,
    /// The key that is looked up.
    key: Vec<u8>,
    /// Rows of one block to read together.
    slots: Vec<u16>,
    metrics: BaselineMetrics,
}

impl JoinRun {
    async fn next_batch(&mut self) -> DfResult<Option<RecordBatch>> {
        let limit = self.join.limit.unwrap_or(usize::MAX);
        while self.produced < limit {
            self.state.ctx.check_interrupt().map_err(PgError::from)?;
            let Some(mut now) = self.now.take() else {
                match self.outer.next().await.transpose()? {
                    Some(batch) => self.now = Some(self.begin(batch)?),
                    None => return Ok(None),
                }
                continue;
            };
            while now.at < now.batch.num_rows() && self.builder.len() < BATCH_ROWS {
                self.look_up(&mut now).await?;
                now.at += 1;
                // A short answer that is asked for only in part is not worked out whole.
                if self.produced + self.builder.len() >= limit && self.join.filter.is_none() {
                    break;
                }
            }
            let found = self.found(&mut now)?;
            let ended = now.at == now.batch.num_rows();
            let batch = match self.join.keep {
                Keep::Matches => found,
                Keep::MatchesOrNull if ended => concat(found, self.unmatched(&now)?)?,
                Keep::MatchesOrNull => found,
                Keep::IfMatched | Keep::IfUnmatched if ended => Some(self.outer_only(&now)?),
                Keep::IfMatched | Keep::IfUnmatched => None,
            };
            if !ended {
                self.now = Some(now);
            }
            let Some(mut batch) = batch.filter(|batch| batch.num_rows() > 0) else { continue };
            if batch.num_rows() > limit - self.produced {
                batch = batch.slice(0, limit - self.produced);
            }
            self.produced += batch.num_rows();
            return Ok(Some(batch));
        }
        Ok(None)
    }

    fn begin(&self, batch: RecordBatch) -> DfResult<Outer> {
        let keys = self.join.key.iter().map(|part| match part {
            KeyPart::Fixed(_) => Ok(None),
            KeyPart::Outer(expr) => {
                let array = expr.evaluate(&batch)?.into_array(batch.num_rows())?;
                let field = expr.return_field(batch.schema_ref())?;
                Ok(Some(ColumnReader::new(&array, &field)?))
            }
        });
        let keys = keys.collect::<DfResult<_>>()?;
        let matched = vec![false; batch.num_rows()];
        Ok(Outer { batch, keys, at: 0, matched, rows: Vec::new() })
    }

    /// Puts the key of the outer row `now.at` into `self.key`; false if it can have no match.
    fn encode(&mut self, now: &Outer) -> Result<bool> {
        let join = &self.join;
        self.key.clear();
        let cx = EvalContext { row: None, params: &self.state.params, env: &self.state.env };
        let parts = join.key.iter().zip(&now.keys).zip(&join.index.columns);
        for (at, ((part, reader), column)) in parts.enumerate() {
            let ty = (join.inner.types[usize::from(*column)], join.index.order(at));
            let there = match (part, reader) {
                (KeyPart::Fixed(scalar), _) => {
                    append_key(&scalar.eval(&cx)?.datum(), ty, &self.state, &mut self.key)?
                }
                (KeyPart::Outer(_), Some(reader)) => {
                    append_key(&reader.get(now.at), ty, &self.state, &mut self.key)?
                }
                (KeyPart::Outer(_), None) => return Err(PgError::internal("a key not read")),
            };
            if !there {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the rows of the table for the outer row `now.at`, and tells what that took.
    async fn look_up(&mut self, now: &mut Outer) -> Result<()> {
        let table = self.parts.as_ref().and_then(|parts| parts.table.as_ref());
        let begun = table.map(|(table, _)| PartBegun::start(table, &self.state.ctx));
        let before = self.builder.len();
        self.find(now).await?;
        if let Some(begun) = begun {
            begun.end(&self.state.ctx, (self.builder.len() - before) as u64);
        }
        Ok(())
    }

    async fn find(&mut self, now: &mut Outer) -> Result<()> {
        if !self.encode(now)? {
            return Ok(());
        }
        let (join, state) = (self.join.clone(), self.state.clone());
        // Without a further condition one match says all that such a join asks.
        let one = matches!(join.keep, Keep::IfMatched | Keep::IfUnmatched) && join.filter.is_none();
        let (ctx, snapshot, table) = (&state.ctx, &state.snapshot, &join.inner.table);
        let part = self.parts.as_ref().map(|parts| parts.index.clone());
        if join.is_unique() {
            let (index, key, part) = (&join.index, &self.key, part.as_ref());
            let mut row = std::mem::take(&mut self.row);
            let found = store::unique_lookup(ctx, table, index, key, snapshot, &mut row, part);
            if let Some(rowid) = found.await? {
                self.take_row(now, rowid, &row)?;
            }
            self.row = row;
            return Ok(());
        }
        let bound = Bound::Included(self.key.as_slice());
        let mut scan = store::range_scan(ctx, &join.index, bound, bound, false, snapshot);
        let mut entries = store::Entries::new(false);
        let mut slots = std::mem::take(&mut self.slots);
        if let Some(part) = &part {
            part.lock().loops += 1;
        }
        loop {
            let more = scan.next_watched(ctx, &mut entries, part.as_ref()).await?;
            if !more {
                break;
            }
            let mut at = 0;
            // Rows of one key often stand in one block.
            while let Some(dba) = entries.run(at, usize::MAX, &mut slots) {
                let (mut failed, mut enough) = (None, false);
                let rowids = &entries.rowids()[at..];
                let each = |i: usize, row: &[u8]| match self.take_row(now, rowids[i], row) {
                    Ok(taken) => {
                        enough = taken && one;
                        !enough
                    }
                    Err(error) => {
                        failed = Some(error);
                        false
                    }
                };
                store::fetch_block(ctx, table, dba, &slots, snapshot, each).await?;
                if let Some(error) = failed {
                    return Err(error);
                }
                if enough {
                    self.slots = slots;
                    return Ok(());
                }
                at += slots.len();
            }
        }
        self.slots = slots;
        Ok(())
    }

    /// Takes a row as a match of the outer row, if the table's filters keep it.
    fn take_row(&mut self, now: &mut Outer, rowid: Rowid, row: &[u8]) -> Result<bool> {
        let join = &self.join;
        if matches!(join.keep, Keep::IfMatched | Keep::IfUnmatched) && now.matched[now.at] {
            return Ok(true);
        }
        if !accept(&join.inner, &self.filter, &self.state, &mut self.builder, rowid, row)? {
            return Ok(false);
        }
        now.rows.push(u32::try_from(now.at).map_err(|_| PgError::internal("a large batch"))?);
        if join.filter.is_none() {
            now.matched[now.at] = true;
        }
        Ok(true)
    }

    /// The matches so far as a batch, after the further condition, which decides what has matched.
    fn found(&mut self, now: &mut Outer) -> DfResult<Option<RecordBatch>> {
        if self.builder.is_empty() {
            return Ok(None);
        }
        let inner = self.builder.finish()?;
        let rows = UInt32Array::from(std::mem::take(&mut now.rows));
        let mask = match &self.join.filter {
            Some((filter, outer_side)) => {
                let mask = passing(filter, *outer_side, &now.batch, &rows, &inner)?;
                for at in (0..mask.len()).filter(|at| mask.value(*at)) {
                    now.matched[rows.value(at) as usize] = true;
                }
                Some(mask)
            }
            None => None,
        };
        if matches!(self.join.keep, Keep::IfMatched | Keep::IfUnmatched) {
            return Ok(None);
        }
        let columns = self.join.columns.iter().map(|from| match from {
            From::Outer(i) => Ok(take(now.batch.column(*i).as_ref(), &rows, None)?),
            From::Inner(i) => Ok(inner.column(*i).clone()),
        });
        let batch = self.batch(columns.collect::<DfResult<_>>()?, rows.len())?;
        match mask {
            Some(mask) => Ok(Some(filter_record_batch(&batch, &mask)?)),
            None => Ok(Some(batch)),
        }
    }

    fn batch(&self, columns: Vec<ArrayRef>, rows: usize) -> DfResult<RecordBatch> {
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        Ok(RecordBatch::try_new_with_options(self.join.schema.clone(), columns, &options)?)
    }

    /// Outer rows without a match, with NULLs beside them.
    fn unmatched(&self, now: &Outer) -> DfResult<Option<RecordBatch>> {
        let rows = indices(now, false);
        if rows.is_empty() {
            return Ok(None);
        }
        let columns = self.join.columns.iter().map(|from| match from {
            From::Outer(i) => Ok(take(now.batch.column(*i).as_ref(), &rows, None)?),
            From::Inner(i) => {
                Ok(new_null_array(self.join.inner.schema.field(*i).data_type(), rows.len()))
            }
        });
        Ok(Some(self.batch(columns.collect::<DfResult<_>>()?, rows.len())?))
    }

    fn outer_only(&self, now: &Outer) -> DfResult<RecordBatch> {
        let rows = indices(now, self.join.keep == Keep::IfMatched);
        let columns = self.join.columns.iter().map(|from| match from {
            From::Outer(i) => Ok(take(now.batch.column(*i).as_ref(), &rows, None)?),
            From::Inner(_) => {
                Err(DataFusionError::from(PgError::internal("a semi join shows one side")))
            }
        });
        self.batch(columns.collect::<DfResult<_>>()?, rows.len())
    }
}

fn indices(now: &Outer, matched: bool) -> UInt32Array {
    (0u32..)
        .zip(&now.matched)
        .filter(|(_, is)| **is == matched)
        .map(|(row, _)| row)
        .collect::<Vec<_>>()
        .into()
}

fn concat(a: Option<RecordBatch>, b: Option<RecordBatch>) -> DfResult<Option<RecordBatch>> {
    Ok(match (a, b) {
        (Some(a), Some(b)) => {
            let schema = a.schema();
            Some(datafusion::arrow::compute::concat_batches(&schema, [&a, &b])?)
        }
        (a, b) => a.or(b),
    })
}

/// Which pairs a join's further condition keeps.
fn passing(
    filter: &JoinFilter,
    outer_side: JoinSide,
    outer: &RecordBatch,
    rows: &UInt32Array,
    inner: &RecordBatch,
) -> DfResult<BooleanArray> {
    let column = |ColumnIndex { index, side }: &ColumnIndex| -> DfResult<ArrayRef> {
        if *side == outer_side {
            Ok(take(outer.column(*index).as_ref(), rows, None)?)
        } else {
            Ok(inner.column(*index).clone())
        }
    };
    let columns = filter.column_indices().iter().map(column).collect::<DfResult<_>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
    let pairs = RecordBatch::try_new_with_options(filter.schema().clone(), columns, &options)?;
    let mask = filter.expression().evaluate(&pairs)?.into_array(rows.len())?;
    let mask = mask
        .as_any()
        .downcast_ref::<BooleanArray>()
        .ok_or_else(|| PgError::internal("a join's condition is no condition"))?;
    Ok(if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() })
}
