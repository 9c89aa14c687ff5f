//! Rows that parts of the same statement have made: what `WITH x AS (INSERT ... RETURNING ...)`
//! gives.
//!
//! What it promises: a plan over them holds no row; each execution brings its own.

use crate::error::PgError;
use crate::state::{ExecState, SharedState};
use crate::types::{PgColumn, PgType, arrow_type, field_with_meta};
use crate::{Result, single_column};
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::{Session, TableProvider};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::error::Result as DfResult;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PhysicalExpr, PlanProperties,
};
use kernel::row::{ColType, Value};
use std::fmt;
use std::sync::Arc;

/// The rows of one part of a statement, as a relation.
#[derive(Debug)]
pub struct GivenRows {
    /// Its position in [`ExecState::given`].
    number: usize,
    types: Vec<ColType>,
    schema: SchemaRef,
}

impl GivenRows {
    /// With these columns; `given`: the Arrow types of the first of them, as far as they are known.
    ///
    /// # Errors
    /// 0A000 for a type that no table can have.
    pub fn new(number: usize, columns: &[PgColumn], given: &[DataType]) -> Result<GivenRows> {
        let mut types = Vec::with_capacity(columns.len());
        let mut fields = Vec::with_capacity(columns.len());
        for (at, column) in columns.iter().enumerate() {
            let mut ty = column.col_type().ok_or_else(|| {
                PgError::unsupported(format!("the type of column \"{}\" here", column.name))
            })?;
            // An array's modifier is the type of its elements.
            if ty.element().is_none() {
                ty.modifier = column.typmod;
            }
            let shown = PgType { oid: column.oid, typmod: column.typmod };
            let own = arrow_type(ty);
            // A numeric of no declared scale has the digits that it was computed with.
            let data_type = match (given.get(at), &own) {
                (Some(known @ DataType::Decimal128(..)), DataType::Decimal128(..)) => known.clone(),
                _ => own,
            };
            fields.push(field_with_meta(&column.name, data_type, shown));
            types.push(ty);
        }
        Ok(GivenRows { number, types, schema: Arc::new(Schema::new(fields)) })
    }

    /// The rows as a batch, which takes the place `number`.
    ///
    /// # Errors
    /// 22003 for a numeric that does not fit.
    pub fn batch(&self, rows: &[Vec<Value>]) -> Result<RecordBatch> {
        let column = |(at, ty): (usize, &ColType)| -> Result<ArrayRef> {
            let values: Vec<Value> = rows.iter().map(|row| row[at].clone()).collect();
            single_column(*ty, self.schema.field(at).data_type(), &values)
        };
        let arrays = self.types.iter().enumerate().map(column).collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows.len()));
        Ok(RecordBatch::try_new_with_options(self.schema.clone(), arrays, &options)?)
    }
}

#[async_trait]
impl TableProvider for GivenRows {
    fn schema(&self) -> SchemaRef {
        self.schema.clone()
    }

    fn table_type(&self) -> TableType {
        TableType::Temporary
    }

    async fn scan(
        &self,
        _session: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        _limit: Option<usize>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let projection = match projection {
            Some(columns) => columns.clone(),
            None => (0..self.schema.fields().len()).collect(),
        };
        let schema = Arc::new(self.schema.project(&projection)?);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let (number, properties) = (self.number, Arc::new(properties));
        Ok(Arc::new(GivenExec { number, projection, schema, properties }))
    }
}

/// Gives the rows of another part of the statement.
#[derive(Debug)]
pub(crate) struct GivenExec {
    number: usize,
    projection: Vec<usize>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl GivenExec {
    /// Which part of the statement has made its rows, from 1.
    pub(crate) fn part(&self) -> usize {
        self.number + 1
    }
}

impl DisplayAs for GivenExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Rows of part {} of the statement", self.part())
    }
}

impl ExecutionPlan for GivenExec {
    fn name(&self) -> &'static str {
        "GivenExec"
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
        let batch = state
            .given
            .get(self.number)
            .ok_or_else(|| PgError::internal("a part of a statement that has not run"))?;
        let batch = batch.project(&self.projection)?;
        let stream = futures::stream::iter([Ok(batch)]);
        Ok(env::boxed!(RecordBatchStreamAdapter::new(self.schema.clone(), stream)))
    }
}
