//! Rows that were made when a statement was bound, under the name of the view they are of.
//!
//! What it promises: to a plan they are rows in memory as any others. What it must never do: lose
//! the name, by which EXPLAIN and traces tell of them.

use async_trait::async_trait;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::memory::MemorySourceConfig;
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::source::{DataSource, DataSourceExec};
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::SchedulingType;
use datafusion::physical_plan::{DisplayFormatType, ExecutionPlan};
use std::any::Any;
use std::fmt;
use std::sync::Arc;

/// The rows of a view.
#[derive(Debug)]
pub struct FixedTable {
    name: Arc<str>,
    rows: RecordBatch,
}

impl FixedTable {
    #[must_use]
    pub fn new(name: &str, rows: RecordBatch) -> FixedTable {
        FixedTable { name: name.into(), rows }
    }
}

#[async_trait]
impl TableProvider for FixedTable {
    fn schema(&self) -> SchemaRef {
        self.rows.schema()
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
        let all = [vec![self.rows.clone()]];
        let rows = MemorySourceConfig::try_new(&all, self.schema(), projection.cloned())?;
        Ok(DataSourceExec::from_data_source(Named {
            name: self.name.clone(),
            rows: Arc::new(rows),
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
    rows: Arc<dyn DataSource>,
}

impl Named {
    fn over(&self, rows: Arc<dyn DataSource>) -> Arc<dyn DataSource> {
        Arc::new(Named { name: self.name.clone(), rows })
    }
}

impl DataSource for Named {
    fn open(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        self.rows.open(partition, context)
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
        self.rows.partition_statistics(partition)
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
