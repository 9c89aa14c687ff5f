//! Views of the system's as relations: `v$`, `pg_catalog` and their like, under their names.
//!
//! What it promises: a plan over a view holds none of its rows, so that it serves all executions;
//! each of them brings the rows that it has read. What it must never do: lose the name, by which
//! EXPLAIN and traces tell of them; take for sure, in a plan that is kept, how many rows there are.

use crate::error::PgError;
use crate::state::ExecState;
use async_trait::async_trait;
use datafusion::arrow::array::{Array, RecordBatch};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ColumnStatistics, Statistics};
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::datasource::source_as_provider;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, LogicalPlan, TableType};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// What a view of the system's is read by, as a statement has named it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ViewName {
    pub schema: Option<Arc<str>>,
    pub name: Arc<str>,
    /// Whether it is named in a view of a user's, and not in the statement itself.
    pub inside: bool,
    /// Whether a table of its name, if a user made one, would be meant instead.
    pub may_be_hidden: bool,
}

/// The views that an execution has read, with their rows.
pub type ViewRows = Vec<(ViewName, RecordBatch)>;

/// A view that each execution reads for itself.
#[derive(Debug)]
struct View {
    name: ViewName,
    /// Rows that there were when the plan was made: what is expected.
    rows: usize,
    /// Bytes of each column then, and how many of its values were NULL.
    columns: Vec<(usize, usize)>,
}

impl View {
    /// What is expected of some of its columns.
    fn statistics(&self, columns: &[usize]) -> Statistics {
        let bytes = columns.iter().map(|at| self.columns[*at].0).sum();
        let of_column = |at: &usize| {
            let mut column = ColumnStatistics::new_unknown();
            column.null_count = Precision::Inexact(self.columns[*at].1);
            column
        };
        Statistics {
            num_rows: Precision::Inexact(self.rows),
            total_byte_size: Precision::Inexact(bytes),
            column_statistics: columns.iter().map(of_column).collect(),
        }
    }

    /// Its rows in the execution at hand.
    fn rows_in(&self, task: &TaskContext) -> DfResult<RecordBatch> {
        let state = task.session_config().get_extension::<ExecState>();
        let state = state.ok_or_else(|| PgError::internal("a view without a session"))?;
        let read = state.views.iter().find(|(name, _)| *name == self.name);
        let unread = || PgError::internal(format!("view {}, which was not read", self.name.name));
        Ok(read.ok_or_else(unread)?.1.clone())
    }
}

/// Where the rows are.
#[derive(Debug)]
enum Rows {
    /// They are these.
    Held(RecordBatch),
    Read(Arc<View>),
}

/// A view of the system's, or what is shown like one.
#[derive(Debug)]
pub struct FixedTable {
    name: Arc<str>,
    schema: SchemaRef,
    rows: Rows,
}

impl FixedTable {
    /// These rows: for a plan that is made for one execution.
    #[must_use]
    pub fn new(name: &str, rows: RecordBatch) -> FixedTable {
        FixedTable { name: name.into(), schema: rows.schema(), rows: Rows::Held(rows) }
    }

    /// A view that each execution reads for itself; `rows` are those that it has now.
    #[must_use]
    pub fn of_view(name: ViewName, rows: &RecordBatch) -> FixedTable {
        let size = |column: &Arc<dyn Array>| {
            let nulls = column.logical_nulls().map_or(0, |nulls| nulls.null_count());
            (column.get_array_memory_size(), nulls)
        };
        let columns = rows.columns().iter().map(size).collect();
        FixedTable {
            name: name.name.clone(),
            schema: rows.schema(),
            rows: Rows::Read(Arc::new(View { name, rows: rows.num_rows(), columns })),
        }
    }

    /// The view to read at each execution; `None`: the rows are held.
    #[must_use]
    pub fn view(&self) -> Option<&ViewName> {
        match &self.rows {
            Rows::Held(_) => None,
            Rows::Read(view) => Some(&view.name),
        }
    }
}

/// Adds the views that a plan reads, each once.
pub(crate) fn add_views(plan: &LogicalPlan, all: &mut Vec<ViewName>) -> DfResult<()> {
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            if let Some(inner) = scan.source.get_logical_plan() {
                add_views(&inner, all)?;
            } else if let Ok(provider) = source_as_provider(&scan.source)
                && let Some(view) = provider.downcast_ref::<FixedTable>().and_then(FixedTable::view)
                && !all.contains(view)
            {
                all.push(view.clone());
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

#[async_trait]
impl TableProvider for FixedTable {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let (batches, view) = match &self.rows {
            Rows::Held(rows) => (vec![rows.clone()], None),
            Rows::Read(view) => (Vec::new(), Some(view.clone())),
        };
        let rows = MemorySourceConfig::try_new(&[batches], self.schema(), projection.cloned())?;
        Ok(DataSourceExec::from_data_source(Named {
            name: self.name.clone(),
            rows: Arc::new(rows),
            view,
        }))
    }
}

/// The name of what a step reads, if it is such rows.
pub(crate) fn name_of(plan: &dyn ExecutionPlan) -> Option<&str> {
    let source: &dyn Any = plan.downcast_ref::<DataSourceExec>()?.data_source().as_ref();
    source.downcast_ref::<Named>().map(|named| &*named.name)
}

/// Rows in memory with their name.
#[derive(Debug)]
struct Named {
    name: Arc<str>,
    /// Of a view that is read later: which of its columns, and how many rows at most.
    rows: Arc<dyn DataSource>,
    view: Option<Arc<View>>,
}

impl Named {
    fn over(&self, rows: Arc<dyn DataSource>) -> Arc<dyn DataSource> {
        Arc::new(Named { name: self.name.clone(), rows, view: self.view.clone() })
    }

    fn in_memory(&self) -> DfResult<&MemorySourceConfig> {
        let rows: &dyn Any = self.rows.as_ref();
        let rows = rows.downcast_ref::<MemorySourceConfig>();
        Ok(rows.ok_or_else(|| PgError::internal("rows of a view that are not in memory"))?)
    }
}

impl DataSource for Named {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let Some(view) = &self.view else { return self.rows.open(partition, context) };
        let (wanted, batch) = (self.in_memory()?, view.rows_in(&context)?);
        let (schema, columns) = (wanted.original_schema(), wanted.projection().clone());
        let rows = MemorySourceConfig::try_new(&[vec![batch]], schema, columns)?;
        rows.with_limit(wanted.fetch()).open(partition, context)
    }

    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.name)
    }

    fn output_partitioning(&self) -> Partitioning {
        self.rows.output_partitioning()
    }

    fn eq_properties(&self) -> EquivalenceProperties {
        self.rows.eq_properties()
    }

    fn scheduling_type(&self) -> SchedulingType {
        self.rows.scheduling_type()
    }

    fn partition_statistics(&self, partition: Option<usize>) -> DfResult<Arc<Statistics>> {
        let Some(view) = &self.view else { return self.rows.partition_statistics(partition) };
        let expected = match self.in_memory()?.projection() {
            Some(columns) => view.statistics(columns),
            None => view.statistics(&(0..view.columns.len()).collect::<Vec<usize>>()),
        };
        Ok(Arc::new(expected))
    }

    fn with_fetch(&self, limit: Option<usize>) -> Option<Arc<dyn DataSource>> {
        self.rows.with_fetch(limit).map(|rows| self.over(rows))
    }

    fn fetch(&self) -> Option<usize> {
        self.rows.fetch()
    }

    fn try_swapping_with_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> DfResult<Option<Arc<dyn DataSource>>> {
        let swapped = self.rows.try_swapping_with_projection(projection)?;
        Ok(swapped.map(|rows| self.over(rows)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> DfResult<TreeNodeRecursion>,
    ) -> DfResult<TreeNodeRecursion> {
        self.rows.apply_expressions(f)
    }
}
