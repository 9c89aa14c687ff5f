//! The scan node: a full scan, an index range or look-ups, filtered row by row and decoded into
//! Arrow.
//!
//! What it promises: rows are those the execution's snapshot sees and the filters keep; memory is
//! bounded by one
//! batch. An index only narrows what is read: every filter is evaluated on the row itself.

use crate::arrow_rows::{RowBatchBuilder, Source};
use crate::cast::{CastMode, cast};
use crate::error::{PgError, Result};
use crate::scalar::{CmpOp, EvalContext, Scalar};
use crate::state::{ExecState, SharedState};
use crate::store;
use block::Rowid;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use kernel::dict::{IndexDef, TableDef};
use kernel::row::{ColType, Datum, RowView, Value, encode_key};
use std::fmt;
use std::ops::Bound;
use std::sync::Arc;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// Bytes of rows after which a batch is full whatever its rows.
const BATCH_BYTES: usize = 4 << 20;
/// Rows between two looks at the cancel flag where nothing waits.
const ROWS_PER_CHECK: usize = 256;

/// How rows are found.
#[derive(Clone, Debug)]
pub enum Access {
    Full,
    /// Keys that begin with these values, the column after them between bounds.
    Range {
        index: Arc<IndexDef>,
        equal: Vec<Scalar>,
        lower: Option<Scalar>,
        upper: Option<Scalar>,
    },
    /// A key for each value of a list.
    Keys {
        index: Arc<IndexDef>,
        keys: Vec<Scalar>,
    },
}

/// What the filters say about one column.
#[derive(Default)]
struct ColumnBounds<'a> {
    equal: Option<&'a Scalar>,
    lower: Option<&'a Scalar>,
    upper: Option<&'a Scalar>,
    list: Option<&'a [Scalar]>,
}

impl Access {
    /// The most selective access the filters allow: a whole unique key, the longest equality
    /// prefix, a range.
    #[must_use]
    pub fn choose(table: &TableDef, types: &[ColType], filters: &[Scalar]) -> Access {
        let mut conjuncts = Vec::new();
        filters.iter().for_each(|filter| filter.conjuncts(&mut conjuncts));
        let mut bounds: Vec<ColumnBounds<'_>> = Vec::new();
        bounds.resize_with(types.len(), ColumnBounds::default);
        for one in conjuncts {
            note_bound(one, &mut bounds);
        }
        let mut best = (0, Access::Full);
        for index in &table.indexes {
            if let Some((score, access)) = Access::by_index(index, &bounds)
                && score > best.0
            {
                best = (score, access);
            }
        }
        best.1
    }

    fn by_index(index: &Arc<IndexDef>, bounds: &[ColumnBounds<'_>]) -> Option<(usize, Access)> {
        let columns = index.columns.iter().map(|c| &bounds[usize::from(*c)]);
        let equal: Vec<Scalar> = columns.map_while(|b| b.equal.cloned()).collect();
        let next = index.columns.get(equal.len()).map(|c| &bounds[usize::from(*c)]);
        if equal.is_empty()
            && index.columns.len() == 1
            && let Some(list) = next.and_then(|b| b.list)
        {
            let access = Access::Keys { index: index.clone(), keys: list.to_vec() };
            return Some((if index.unique { 35 } else { 15 }, access));
        }
        let (lower, upper) = match next {
            Some(b) => (b.lower.cloned(), b.upper.cloned()),
            None => (None, None),
        };
        let whole = equal.len() == index.columns.len();
        let score = if whole && index.unique { 40 } else { equal.len() * 10 }
            + usize::from(lower.is_some()) * 3
            + usize::from(upper.is_some()) * 3;
        (score > 0).then(|| (score, Access::Range { index: index.clone(), equal, lower, upper }))
    }
}

fn note_bound<'a>(condition: &'a Scalar, bounds: &mut [ColumnBounds<'a>]) {
    match condition {
        Scalar::Compare(op, sides) => {
            let (column, op, other) = match (&sides.0, &sides.1) {
                (Scalar::Column(i), other) if other.is_row_free() => (*i, *op, other),
                (other, Scalar::Column(i)) if other.is_row_free() => (*i, op.flipped(), other),
                _ => return,
            };
            let b = &mut bounds[column];
            match op {
                CmpOp::Eq => b.equal = Some(other),
                CmpOp::Lt | CmpOp::Le => b.upper = Some(other),
                CmpOp::Gt | CmpOp::Ge => b.lower = Some(other),
                CmpOp::Ne => {}
            }
        }
        Scalar::In(value, list) => {
            if let Scalar::Column(i) = **value
                && list.iter().all(Scalar::is_row_free)
            {
                bounds[i].list = Some(list);
            }
        }
        _ => {}
    }
}

/// Scan of one table.
#[derive(Debug)]
pub struct ScanExec {
    work: Arc<ScanWork>,
    properties: Arc<PlanProperties>,
}

#[derive(Debug)]
struct ScanWork {
    table: Arc<TableDef>,
    types: Arc<[ColType]>,
    sources: Vec<Source>,
    schema: SchemaRef,
    filters: Vec<Scalar>,
    access: Access,
    limit: Option<usize>,
    target: bool,
}

impl ScanExec {
    #[allow(clippy::too_many_arguments)] // one caller, which has just these
    pub(crate) fn new(
        table: Arc<TableDef>,
        types: Arc<[ColType]>,
        projection: Vec<usize>,
        schema: SchemaRef,
        filters: Vec<Scalar>,
        access: Access,
        limit: Option<usize>,
        target: bool,
    ) -> ScanExec {
        let count = types.len();
        let source = |i| match i {
            i if i < count => Source::Column(i),
            i if i == count => Source::Rowid,
            _ => Source::Row,
        };
        let sources = projection.into_iter().map(source).collect();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        let work = ScanWork { table, types, sources, schema, filters, access, limit, target };
        ScanExec { work: Arc::new(work), properties: Arc::new(properties) }
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let work = &self.work;
        match &work.access {
            Access::Full => write!(f, "Seq Scan on {}", work.table.name)?,
            Access::Range { index, equal, lower, upper } => {
                let one = index.unique && equal.len() == index.columns.len();
                let word = if one { "Index Unique Scan" } else { "Index Range Scan" };
                write!(f, "{word} using {} on {}", index.name, work.table.name)?;
                if !one {
                    let bounded = usize::from(lower.is_some()) + usize::from(upper.is_some());
                    write!(f, " ({} equal, {bounded} bounds)", equal.len())?;
                }
            }
            Access::Keys { index, keys } => {
                let table = &work.table.name;
                write!(f, "Index Scan using {} on {table} ({} keys)", index.name, keys.len())?;
            }
        }
        if !work.filters.is_empty() {
            write!(f, ", filters={}", work.filters.len())?;
        }
        if let Some(limit) = work.limit {
            write!(f, ", limit={limit}")?;
        }
        Ok(())
    }
}

impl ExecutionPlan for ScanExec {
    fn name(&self) -> &'static str {
        "ScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        Vec::new()
    }

    fn apply_expressions(
        &self,
        _f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        _children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn reset_state(self: Arc<Self>) -> DfResult<Arc<dyn ExecutionPlan>> {
        Ok(self)
    }

    fn execute(
        &self,
        _partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let state: SharedState = task
            .session_config()
            .get_extension::<ExecState>()
            .ok_or_else(|| PgError::internal("a scan without a session"))?;
        let schema = self.work.schema.clone();
        let run = ScanRun::new(self.work.clone(), state);
        let stream = futures::stream::try_unfold(run, |mut run| async move {
            match run.next_batch().await {
                Ok(Some(batch)) => Ok(Some((batch, run))),
                Ok(None) => Ok(None),
                Err(error) => Err(DataFusionError::from(error)),
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, stream)))
    }
}

/// Where a running scan gets its next rows.
enum Cursor {
    Start,
    Full(store::FullScan),
    Range {
        scan: store::RangeScan,
        batch: Vec<(Vec<u8>, Rowid)>,
        at: usize,
    },
    /// Unique keys still to look up, last first.
    Unique {
        index: Arc<IndexDef>,
        keys: Vec<Vec<u8>>,
    },
    /// Ranges still to open, last first.
    Ranges {
        index: Arc<IndexDef>,
        keys: Vec<Vec<u8>>,
    },
    Given(usize),
    End,
}

struct ScanRun {
    work: Arc<ScanWork>,
    state: SharedState,
    builder: RowBatchBuilder,
    cursor: Cursor,
    /// Ranges that follow the one being read.
    later: Option<(Arc<IndexDef>, Vec<Vec<u8>>)>,
    produced: usize,
    row: Vec<u8>,
}

/// Filters one row and takes it into the batch.
fn accept(
    work: &ScanWork,
    state: &ExecState,
    builder: &mut RowBatchBuilder,
    rowid: Rowid,
    row: &[u8],
) -> Result<()> {
    let view = RowView::new(&work.table.types, row);
    let cx = EvalContext { row: Some(view), params: &state.params, env: &state.env };
    for filter in &work.filters {
        if filter.truth(&cx)? != Some(true) {
            return Ok(());
        }
    }
    builder.append(rowid, row, &view)
}

impl ScanRun {
    fn new(work: Arc<ScanWork>, state: SharedState) -> ScanRun {
        let builder = RowBatchBuilder::new(&work.types, &work.sources, work.schema.clone());
        ScanRun {
            work,
            state,
            builder,
            cursor: Cursor::Start,
            later: None,
            produced: 0,
            row: Vec::new(),
        }
    }

    fn is_full(&self) -> bool {
        let limit = self.work.limit.unwrap_or(usize::MAX);
        self.builder.len() >= BATCH_ROWS
            || self.builder.bytes() >= BATCH_BYTES
            || self.produced + self.builder.len() >= limit
    }

    async fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let limit = self.work.limit.unwrap_or(usize::MAX);
        while !matches!(self.cursor, Cursor::End) && !self.is_full() && self.produced < limit {
            self.state.ctx.check_interrupt()?;
            self.step().await?;
        }
        if self.builder.is_empty() {
            return Ok(None);
        }
        let mut batch = self.builder.finish()?;
        if self.produced + batch.num_rows() > limit {
            batch = batch.slice(0, limit - self.produced);
        }
        self.produced += batch.num_rows();
        Ok(Some(batch))
    }

    async fn step(&mut self) -> Result<()> {
        let (work, state) = (self.work.clone(), self.state.clone());
        match &mut self.cursor {
            Cursor::Start => self.open().await?,
            Cursor::Full(scan) => {
                let builder = &mut self.builder;
                let mut failed = None;
                let more = scan
                    .next_block(&state.ctx, |rowid, row| {
                        if failed.is_none() {
                            failed = accept(&work, &state, builder, rowid, row).err();
                        }
                    })
                    .await?;
                if let Some(error) = failed {
                    return Err(error);
                }
                if !more {
                    self.cursor = Cursor::End;
                }
            }
            Cursor::Range { scan, batch, at } => {
                if *at == batch.len() {
                    *at = 0;
                    if !scan.next_batch(&state.ctx, batch).await? {
                        self.next_range();
                        return Ok(());
                    }
                }
                let stop = batch.len().min(*at + ROWS_PER_CHECK);
                while *at < stop {
                    let rowid = batch[*at].1;
                    *at += 1;
                    let row = &mut self.row;
                    if store::fetch(&state.ctx, &work.table, rowid, &state.snapshot, row).await? {
                        accept(&work, &state, &mut self.builder, rowid, row)?;
                    }
                }
            }
            Cursor::Unique { index, keys } => {
                let Some(key) = keys.pop() else {
                    self.cursor = Cursor::End;
                    return Ok(());
                };
                let (ctx, row) = (&state.ctx, &mut self.row);
                let found =
                    store::unique_lookup(ctx, &work.table, index, &key, &state.snapshot, row);
                if let Some(rowid) = found.await? {
                    accept(&work, &state, &mut self.builder, rowid, row)?;
                }
            }
            Cursor::Ranges { index, keys } => {
                let Some(key) = keys.pop() else {
                    self.cursor = Cursor::End;
                    return Ok(());
                };
                self.later = Some((index.clone(), std::mem::take(keys)));
                let index = index.clone();
                self.open_prefix(&index, &key);
            }
            Cursor::Given(at) => {
                let rows = state.target.as_ref().map_or(&[][..], |target| &target.rows);
                for (rowid, row) in &rows[*at..] {
                    accept(&work, &state, &mut self.builder, *rowid, row)?;
                }
                self.cursor = Cursor::End;
            }
            Cursor::End => {}
        }
        Ok(())
    }

    fn next_range(&mut self) {
        self.cursor = match self.later.take() {
            Some((index, keys)) => Cursor::Ranges { index, keys },
            None => Cursor::End,
        };
    }

    fn open_prefix(&mut self, index: &IndexDef, key: &[u8]) {
        self.open_range(index, key, key);
    }

    /// Both bounds are prefixes and stand for all keys that begin with them.
    fn open_range(&mut self, index: &IndexDef, from: &[u8], to: &[u8]) {
        let state = &self.state;
        let (from, to) = (Bound::Included(from), Bound::Included(to));
        let scan = store::range_scan(&state.ctx, index, from, to, &state.snapshot);
        self.cursor = Cursor::Range { scan, batch: Vec::new(), at: 0 };
    }

    async fn open(&mut self) -> Result<()> {
        let (work, state) = (self.work.clone(), self.state.clone());
        if work.target && state.target.is_some() {
            self.cursor = Cursor::Given(0);
            return Ok(());
        }
        match &work.access {
            Access::Full => {
                let scan = store::full_scan(&state.ctx, &work.table, &state.snapshot).await?;
                self.cursor = Cursor::Full(scan);
            }
            Access::Keys { index, keys } => {
                let mut encoded = Vec::with_capacity(keys.len());
                for key in keys {
                    if let Some(key) = self.encode(index, std::slice::from_ref(key))? {
                        encoded.push(key);
                    }
                }
                encoded.sort_unstable();
                encoded.dedup();
                encoded.reverse();
                let index = index.clone();
                self.cursor = if index.unique {
                    Cursor::Unique { index, keys: encoded }
                } else {
                    Cursor::Ranges { index, keys: encoded }
                };
            }
            Access::Range { index, equal, lower, upper } => {
                let Some(key) = self.encode(index, equal)? else {
                    self.cursor = Cursor::End;
                    return Ok(());
                };
                if index.unique && equal.len() == index.columns.len() {
                    self.cursor = Cursor::Unique { index: index.clone(), keys: vec![key] };
                } else {
                    let (lower, upper) = (lower.as_ref(), upper.as_ref());
                    self.open_bounds(index, key, lower, upper, equal.len())?;
                }
            }
        }
        Ok(())
    }

    fn open_bounds(
        &mut self,
        index: &IndexDef,
        prefix: Vec<u8>,
        lower: Option<&Scalar>,
        upper: Option<&Scalar>,
        position: usize,
    ) -> Result<()> {
        let column = index.columns.get(position).map(|c| usize::from(*c));
        let mut from = prefix.clone();
        let mut to = prefix;
        for (bound, key) in [(lower, &mut from), (upper, &mut to)] {
            let value = match (bound, column) {
                (Some(bound), Some(column)) => self.key_value(bound, column)?,
                _ => KeyValue::None,
            };
            match value {
                KeyValue::Value(value) => {
                    encode_key(&[value.as_datum()], key);
                }
                KeyValue::Null => {
                    self.cursor = Cursor::End;
                    return Ok(());
                }
                KeyValue::None => {}
            }
        }
        self.open_range(index, &from, &to);
        Ok(())
    }

    /// The key of the values; `None` if no row can have it.
    fn encode(&self, index: &IndexDef, values: &[Scalar]) -> Result<Option<Vec<u8>>> {
        let mut key = Vec::with_capacity(16);
        for (value, column) in values.iter().zip(&index.columns) {
            match self.key_value(value, usize::from(*column))? {
                KeyValue::Value(value) => encode_key(&[value.as_datum()], &mut key),
                KeyValue::Null | KeyValue::None => return Ok(None),
            };
        }
        Ok(Some(key))
    }

    /// The value in the column's type. One that the type cannot hold gives no bound, and equals no
    /// row.
    fn key_value(&self, scalar: &Scalar, column: usize) -> Result<KeyValue> {
        let cx = EvalContext { row: None, params: &self.state.params, env: &self.state.env };
        let value = scalar.eval(&cx)?;
        let datum = value.datum();
        if datum.is_null() {
            return Ok(KeyValue::Null);
        }
        let ty = ColType::new(self.work.types[column].kind);
        if let Datum::Float8(v) = datum
            && !v.is_finite()
            && ty.kind != kernel::row::TypeKind::Float8
        {
            return Ok(KeyValue::None);
        }
        match cast(&datum, ty, CastMode::Explicit, &self.state.env) {
            Ok(value) => Ok(KeyValue::Value(value)),
            Err(error) if error.code == "22003" => Ok(KeyValue::None),
            Err(error) => Err(error),
        }
    }
}

enum KeyValue {
    Value(Value),
    Null,
    None,
}
