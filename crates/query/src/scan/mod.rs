//! The scan node: a full scan, an index range or look-ups, filtered row by row and decoded into
//! Arrow.
//!
//! What it promises: rows are those the execution's snapshot sees and the filters keep; memory is
//! bounded by one batch. An index only narrows what is read: every filter is evaluated on the row
//! itself, or, where the index has all columns asked for, on the values of its entry, which are as
//! consistent as the row. A filter that says just what the range of keys says is left out, if the
//! values compared are such that keys compare as they do. A scan of a range of an index yields its
//! order.

mod access;
mod bits;
mod blocks;
mod filter;
mod found;
mod hints;
mod run;
mod several;

pub(crate) use access::{Access, column_seen};
pub(crate) use bits::Bits;
pub(crate) use filter::Filter;
pub(crate) use hints::{Hint, Hints, SaidFilters, filter_part};
pub(crate) use run::{ScanRun, Taker, accept, append_key};
pub(crate) use several::alternatives;

use crate::access_rules::LOOKUP_ROWS;
use crate::arrow_rows::Source;
use crate::error::PgError;
use crate::estimate::{TableSize, rows_kept};
use crate::explain::{Names, Parts};
use crate::gather::Share;
use crate::implied::implies;
use crate::scalar::Scalar;
use crate::state::{ExecState, SharedState};
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::TaskContext;
use datafusion::physical_expr::expressions::Column;
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, SchedulingType};
use datafusion::physical_plan::statistics::StatisticsArgs;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
    SendableRecordBatchStream,
};
use kernel::dict::{IndexDef, IndexKind, TableDef};
use kernel::row::{ColType, TypeKind};
use std::fmt;
use std::sync::Arc;

/// Rows of a batch.
const BATCH_ROWS: usize = 8192;
/// Bytes of rows after which a batch is full whatever its rows.
const BATCH_BYTES: usize = 512 << 10;
/// Rows between two looks at the cancel flag where nothing waits.
const ROWS_PER_CHECK: usize = 256;

/// Tables of fewer rows are read by an index wherever one fits: it is no worse when they grow.
const SMALL_ROWS: f64 = 2_000.0;
/// What one of the next entries of an index costs, in rows of a full scan.
const ENTRY_ROWS: f64 = 2.0;
/// The same of a row's bit in a bitmap index.
const BIT_ROWS: f64 = 0.05;

/// Scan of one table.
#[derive(Debug)]
pub struct ScanExec {
    work: Arc<ScanWork>,
    properties: Arc<PlanProperties>,
    /// Where it is told what reading the index took, if somebody watches.
    parts: Option<Parts>,
}

/// What a scan reads and how.
#[derive(Clone, Debug)]
pub(crate) struct ScanWork {
    pub(crate) table: Arc<TableDef>,
    pub(crate) types: Arc<[ColType]>,
    /// Where the columns of `schema` come from.
    pub(crate) sources: Vec<Source>,
    pub(crate) schema: SchemaRef,
    pub(crate) filters: Vec<Scalar>,
    /// Those of `filters` that an exact range of keys does not say itself.
    pub(crate) unsaid: Vec<Scalar>,
    /// Keys of joins above, without which a row is of no use.
    pub(crate) probes: Vec<Probe>,
    pub(crate) access: Access,
    /// What filters say of expressions that indexes are over.
    pub(crate) hints: Arc<Hints>,
    pub(crate) limit: Option<usize>,
    pub(crate) target: bool,
    pub(crate) size: TableSize,
    /// Of a table that is read as of an SCN of the past, the parameter that says which.
    pub(crate) as_of: Option<usize>,
    /// How it is read if nothing comes of what is said of its indexes.
    pub(crate) instead: Option<Arc<ScanWork>>,
    /// The order that a sort above it has asked for, by columns of the table.
    pub(crate) asked: Vec<(usize, SortOptions)>,
}

/// Keys of a join that a column's values are looked for among.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// The join's, in [`crate::JoinKeys`].
    pub(crate) number: u64,
    pub(crate) column: usize,
    /// From what a row stores to what the plan computes with.
    pub(crate) offset: i64,
}

impl ScanWork {
    /// Output columns `projection` of the table; those after its own are the address and the bytes.
    pub(crate) fn sources(types: &[ColType], projection: &[usize]) -> Vec<Source> {
        let source = |i: &usize| match *i {
            i if i < types.len() => Source::Column(i),
            i if i == types.len() => Source::Rowid,
            _ => Source::Row,
        };
        projection.iter().map(source).collect()
    }

    /// The table's columns that are put out, if nothing else is.
    pub(crate) fn columns(&self) -> Option<Vec<usize>> {
        let column = |source: &Source| match source {
            Source::Column(column) => Some(*column),
            _ => None,
        };
        (!self.target).then(|| self.sources.iter().map(column).collect())?
    }

    /// Whether the entries of the index hold all that is asked for, as the row does.
    fn is_covered_by(&self, index: &IndexDef) -> bool {
        if index.kind == IndexKind::Reverse {
            return false;
        }
        let held = |column: usize| {
            let lossless = !matches!(
                self.types[column].kind,
                // Their keys forget trailing zeros, the sign of zero, the form of the value.
                TypeKind::Numeric
                    | TypeKind::Float4
                    | TypeKind::Float8
                    | TypeKind::Interval
                    | TypeKind::Jsonb
                    | TypeKind::Array
            );
            lossless && index.columns.iter().any(|c| usize::from(*c) == column)
        };
        let mut covered = !self.target
            && self.sources.iter().all(|s| matches!(s, Source::Column(column) if held(*column)));
        for filter in &self.filters {
            filter.walk(&mut |part| {
                if let Scalar::Column(column) = part {
                    covered &= held(*column);
                }
            });
        }
        covered
    }

    /// The index whose entries are read instead of rows.
    pub(crate) fn only_index(&self) -> Option<&Arc<IndexDef>> {
        match &self.access {
            Access::Range { index, equal, .. } => {
                let one = index.unique && equal.len() == index.columns.len();
                let held = index.exprs.is_empty() && self.is_covered_by(index);
                (!one && held).then_some(index)
            }
            _ => None,
        }
    }

    /// Whether only the number of rows is asked for, and the keys say which they are.
    pub(crate) fn counts_rows(&self) -> bool {
        let found = match &self.access {
            Access::Range { index, equal, .. } => {
                let one = index.unique && equal.len() == index.columns.len();
                // Values of expressions are not read out of a tree's entries.
                !one && (index.exprs.is_empty() || index.kind == IndexKind::Bitmap)
            }
            Access::Bits(_) => true,
            _ => false,
        };
        found
            && !self.target
            && self.sources.is_empty()
            && self.unsaid.is_empty()
            && self.probes.is_empty()
            && self.limit.is_none()
    }

    /// Takes the index whose range of keys costs least to read, or none, by what is known of the
    /// columns. What that costs, if it is known and an index.
    fn prefer_cheapest(&mut self) -> Option<f64> {
        let unknown = self.size.stats.is_none() || self.size.rows < SMALL_ROWS;
        if unknown || matches!(self.access, Access::Full) {
            return None;
        }
        let by_expressions = self.cost_by_expressions().map(|cost| (cost, self.access.clone()));
        let offered = self.cheapest_offer(&self.filters);
        let best = match (by_expressions, offered) {
            (Some(one), Some(other)) if other.0 < one.0 => Some(other),
            (Some(one), _) => Some(one),
            (None, offered) => offered,
        };
        match best {
            Some((cost, access)) if cost < self.size.rows || self.size.forced => {
                self.access = access;
                Some(cost)
            }
            _ => {
                self.access = Access::Full;
                None
            }
        }
    }

    /// What an index offers for these filters at the least cost, in rows of a full scan.
    fn cheapest_offer(&self, filters: &[Scalar]) -> Option<(f64, Access)> {
        let mut best: Option<(f64, Access)> = None;
        for (access, columns) in Access::offers(&self.table, &self.types, filters) {
            let (Access::Range { index, .. } | Access::Keys { index, .. }) = &access else {
                continue;
            };
            let said = found::conditions_about(filters, &columns);
            let rows = rows_kept(&self.table, &said, &self.size);
            let stats = self.size.stats.as_ref();
            let first = columns.first().and_then(|column| stats?.column(*column));
            // Rows that stand in the order of the keys are found many in a block.
            let order = first.and_then(|stats| stats.correlation).unwrap_or(0.0);
            let counted = self.sources.is_empty()
                && !self.target
                && matches!(access, Access::Range { .. })
                && access.unsaid(&self.table, filters).is_empty();
            let each = match counted || self.is_covered_by(index) {
                true if counted && index.kind == IndexKind::Bitmap => BIT_ROWS,
                true => ENTRY_ROWS,
                false => LOOKUP_ROWS + (ENTRY_ROWS - LOOKUP_ROWS) * order * order,
            };
            let cost = LOOKUP_ROWS + rows * each;
            if best.as_ref().is_none_or(|(known, _)| cost < *known) {
                best = Some((cost, access));
            }
        }
        best
    }

    /// What the chosen index costs, if it is one on expressions.
    fn cost_by_expressions(&self) -> Option<f64> {
        let index = self.access.index().filter(|index| !index.exprs.is_empty())?;
        let counted = || {
            let mut settled = self.clone();
            settled.settle();
            settled.counts_rows()
        };
        let each = match index.kind == IndexKind::Bitmap && counted() {
            true => BIT_ROWS,
            false => LOOKUP_ROWS,
        };
        Some(LOOKUP_ROWS + self.rows_found().max(1.0) * each)
    }

    /// Finds out what the chosen access leaves to be looked at.
    fn settle(&mut self) {
        self.unsaid = self.access.unsaid(&self.table, &self.filters);
        self.leave_out_hints();
    }

    /// Takes the smallest index that holds all that a full scan asks for, if reading it costs less.
    fn prefer_covering_index(&mut self) {
        if !matches!(self.access, Access::Full) {
            return;
        }
        let blocks = |at: usize| self.size.index_blocks.get(at).copied().unwrap_or(f64::INFINITY);
        let best = (0..self.table.indexes.len())
            .filter(|at| self.is_covered_by(&self.table.indexes[*at]))
            .min_by(|a, b| blocks(*a).total_cmp(&blocks(*b)));
        // A full scan reads several blocks at once, and no keys need to be taken apart.
        if let Some(at) = best
            && (blocks(at) * 2.0 < self.size.blocks || self.size.forced)
        {
            self.access = Access::whole(self.table.indexes[at].clone(), false);
        }
    }

    /// Takes the smallest partial index that holds all rows asked for, if there are so few of them
    /// that fetching each costs less than reading the table.
    fn prefer_partial_index(&mut self) {
        const ENTRY_BYTES: f64 = 32.0;
        if !matches!(self.access, Access::Full) || self.filters.is_empty() {
            return;
        }
        let first = self.table.indexes.len();
        let blocks =
            |at: usize| self.size.index_blocks.get(first + at).copied().unwrap_or(f64::INFINITY);
        let holds = |at: &usize| {
            let predicate = self.table.partial[*at].predicate.as_ref();
            predicate.is_some_and(|own| implies(&self.filters, &self.types, own))
        };
        let best = (0..self.table.partial.len())
            .filter(holds)
            .min_by(|a, b| blocks(*a).total_cmp(&blocks(*b)));
        #[allow(clippy::cast_precision_loss)] // small
        let entries_each = block::BLOCK_BYTES as f64 / ENTRY_BYTES;
        if let Some(at) = best
            && blocks(at) * entries_each * crate::access_rules::LOOKUP_ROWS < self.size.rows
        {
            self.access = Access::whole(self.table.partial[at].clone(), false);
        }
    }

    /// Rows the scan is thought to yield.
    pub(crate) fn rows(&self) -> f64 {
        let kept = self.rows_unlimited();
        self.limit.map_or(kept, |limit| kept.min(limit as f64))
    }

    /// The order that was asked for, if rows come in it: what equals one value in all of them may
    /// stand anywhere between the columns of their own order.
    fn asked_order(&self, own: &[PhysicalSortExpr]) -> Option<Vec<PhysicalSortExpr>> {
        let fixed = Access::equal_columns(&self.types, &self.filters);
        let (mut asked, mut left) = (Vec::with_capacity(self.asked.len()), own.iter());
        for &(column, options) in &self.asked {
            let source = Source::Column(column);
            let at = self.sources.iter().position(|s| *s == source)?;
            let expr: Arc<dyn PhysicalExpr> =
                Arc::new(Column::new(self.schema.field(at).name(), at));
            let one = PhysicalSortExpr { expr, options };
            if fixed.get(column).is_none_or(Option::is_none) && left.next() != Some(&one) {
                return None;
            }
            asked.push(one);
        }
        (!asked.is_empty()).then_some(asked)
    }

    /// The order in which rows come, as far as output columns show it.
    fn order(&self) -> Vec<PhysicalSortExpr> {
        let Access::Range { index, equal, backward, .. } = &self.access else { return Vec::new() };
        if index.kind == IndexKind::Reverse {
            return Vec::new();
        }
        let position = |column: u16| {
            let source = Source::Column(usize::from(column));
            self.sources.iter().position(|s| *s == source)
        };
        let ordered = |(place, column): (usize, &u16)| {
            let own = index.order(place);
            let at = position(*column)?;
            let kind = self.types[usize::from(*column)].kind;
            if !crate::access_rules::orders_as_keys(kind) {
                return None;
            }
            let options = SortOptions {
                descending: own.descending != *backward,
                nulls_first: own.nulls_first != *backward,
            };
            let column = Column::new(self.schema.field(at).name(), at);
            Some(PhysicalSortExpr { expr: Arc::new(column), options })
        };
        index.columns.iter().enumerate().skip(equal.len()).map_while(ordered).collect()
    }
}

impl ScanExec {
    pub(crate) fn new(mut work: ScanWork) -> ScanExec {
        let cheapest = work.prefer_cheapest();
        let several = work.prefer_several();
        work.prefer_bits(several.or(cheapest));
        work.prefer_partial_index();
        work.prefer_covering_index();
        ScanExec::with_work(work)
    }

    pub(crate) fn with_work(mut work: ScanWork) -> ScanExec {
        work.settle();
        let mut equivalence = EquivalenceProperties::new(work.schema.clone());
        let order = work.order();
        // Or a sort by the same would be put back. Columns of one value are not told as such: joins
        // that add rows of NULLs would take that for true of these, too.
        if let Some(asked) = work.asked_order(&order) {
            equivalence.add_ordering(asked);
        }
        if !order.is_empty() {
            equivalence.add_ordering(order);
        }
        let properties = PlanProperties::new(
            equivalence,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        )
        .with_scheduling_type(SchedulingType::Cooperative);
        ScanExec { work: Arc::new(work), properties: Arc::new(properties), parts: None }
    }

    pub(crate) fn work(&self) -> &Arc<ScanWork> {
        &self.work
    }

    pub(crate) fn is_full(&self) -> bool {
        matches!(self.work.access, Access::Full)
    }

    /// The same, which is to be read as another one if it stays a full scan.
    pub(crate) fn or_else(self, other: &ScanExec) -> ScanExec {
        let instead = Some(other.work.clone());
        ScanExec::with_work(ScanWork { instead, ..(*self.work).clone() })
    }

    /// The scan that takes its place; `None`: it stays.
    pub(crate) fn otherwise(&self) -> Option<ScanExec> {
        let instead = self.work.instead.as_ref().filter(|_| self.is_full())?;
        let limit = self.work.limit;
        Some(ScanExec::with_work(ScanWork { limit, ..(**instead).clone() }))
    }

    /// The same, which tells what reading its indexes took; `None`: it reads not both an index and
    /// the rows that it points to, or bits that it counts.
    pub(crate) fn watching_index(&self) -> Option<(ScanExec, Parts)> {
        let work = &self.work;
        let parts = match &work.access {
            Access::Bits(found) => Parts::of_sets(found.bits.indexes()),
            Access::Any { branches } => {
                let indexes = branches.iter().filter_map(|branch| branch.access.index());
                Parts::of_branches(indexes.map(|index| index.obj.0), work.table.obj.0)
            }
            access => {
                let index = access.index()?;
                let counts = index.kind == IndexKind::Bitmap && work.counts_rows();
                (counts || work.only_index().is_none()).then(|| Parts::of_index(index.obj.0))?
            }
        };
        let (work, properties) = (work.clone(), self.properties.clone());
        Some((ScanExec { work, properties, parts: Some(parts.clone()) }, parts))
    }
}

impl ScanExec {
    /// What it reads.
    pub(crate) fn names(&self) -> Names {
        let index = match &self.work.access {
            Access::Full => None,
            Access::Range { index, .. } | Access::Keys { index, .. } => Some(index.name.clone()),
            Access::Any { branches } => {
                let used = branches.iter().filter_map(|branch| branch.access.index());
                Some(used.map(|index| index.name.as_str()).collect::<Vec<_>>().join(" or "))
            }
            Access::Bits(found) => Some(found.bits.to_string()),
        };
        let single = self.work.access.is_of_single_values();
        // The entries of an index are read in the place of rows.
        let obj = self.work.only_index().map_or(self.work.table.obj, |index| index.obj).0;
        Names { table: self.work.table.name.clone(), index, single, fixed: false, obj }
    }
}

impl DisplayAs for ScanExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ScanExec: {}", self.work.table.name)
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

    fn statistics_from_inputs(
        &self,
        _input_stats: &[Arc<Statistics>],
        _args: &StatisticsArgs,
    ) -> DfResult<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.work.schema);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // saturates
        let rows = self.work.rows().ceil() as usize;
        statistics.num_rows = Precision::Inexact(rows);
        let width = self.work.size.row_bytes.max(1.0) as usize;
        statistics.total_byte_size = Precision::Inexact(rows.saturating_mul(width));
        Ok(Arc::new(statistics))
    }

    fn fetch(&self) -> Option<usize> {
        self.work.limit
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn ExecutionPlan>> {
        let mut work = (*self.work).clone();
        work.limit = limit;
        Some(Arc::new(ScanExec::with_work(work)))
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
        let share = task.session_config().get_extension::<Share>();
        let share = share.filter(|share| share.is_of(&self.work.table));
        let run = ScanRun::batches(self.work.clone(), state).sharing(share);
        let run = run.telling(self.parts.clone()).within(task.memory_pool());
        let stream = futures::stream::try_unfold(run, |mut run| async move {
            match run.next_batch().await {
                Ok(Some(batch)) => Ok(Some((batch, run))),
                Ok(None) => Ok(None),
                Err(error) => Err(DataFusionError::from(error)),
            }
        });
        Ok(env::boxed!(RecordBatchStreamAdapter::new(schema, stream)))
    }
}
