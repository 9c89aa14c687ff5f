//! Runs the subqueries of [`Apply`] nodes.
//!
//! What it promises: the outer columns of a row are parameters of the subquery's execution; rows
//! with the same outer columns share one run. What it must never do: give a value where a subquery
//! has several rows.

use crate::apply::{Apply, Gives, Inner};
use crate::arrow_rows::ColumnReader;
use crate::error::PgError;
use crate::join_keys::JoinKeys;
use crate::pushdown::scalar_value_of;
use crate::row_calls::Calls;
use crate::shared::{Shared, SharedExec, SharedRows};
use crate::state::{ExecState, SharedState};
use crate::types::col_type_of;
use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, UInt64Array, new_null_array};
use datafusion::arrow::compute::{cast, concat_batches, take};
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::catalog::Session;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{ParamValues, Result as DfResult, ScalarValue};
use datafusion::error::DataFusionError;
use datafusion::execution::session_state::SessionState;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{LogicalPlan, UserDefinedLogicalNode};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType, reset_plan_states};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PhysicalExpr,
    PlanProperties, execute_stream,
};
use datafusion::physical_planner::{DefaultPhysicalPlanner, ExtensionPlanner, PhysicalPlanner};
use futures::StreamExt;
use kernel::row::Value;
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

/// Results kept for rows with the same outer columns.
const KEPT_MAX: usize = 4_096;
/// Rows of a lateral join that make a batch.
const BATCH_ROWS: usize = 1_024;

/// DataFusion's planner, and ours for [`Apply`] and [`Shared`].
#[derive(Debug)]
pub(crate) struct QueryPlanner;

#[async_trait]
impl datafusion::execution::context::QueryPlanner for QueryPlanner {
    async fn create_physical_plan(
        &self,
        plan: &LogicalPlan,
        session: &dyn Session,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        DefaultPhysicalPlanner::with_extension_planners(vec![Arc::new(ApplyPlanner)])
            .create_physical_plan(plan, session)
            .await
    }
}

struct ApplyPlanner;

#[async_trait]
impl ExtensionPlanner for ApplyPlanner {
    async fn plan_extension(
        &self,
        planner: &dyn PhysicalPlanner,
        node: &dyn UserDefinedLogicalNode,
        logical_inputs: &[&LogicalPlan],
        physical_inputs: &[Arc<dyn ExecutionPlan>],
        session: &dyn Session,
        _planning: &PhysicalPlanningContext,
    ) -> DfResult<Option<Arc<dyn ExecutionPlan>>> {
        if let (Some(shared), [input]) = (node.as_any().downcast_ref::<Shared>(), physical_inputs) {
            return Ok(Some(Arc::new(SharedExec::new(input.clone(), shared.number))));
        }
        if let (Some(calls), [input]) = (node.as_any().downcast_ref::<Calls>(), physical_inputs) {
            return calls.physical(input.clone()).map(Some);
        }
        let Some(apply) = node.as_any().downcast_ref::<Apply>() else { return Ok(None) };
        let ([logical], [input]) = (logical_inputs, physical_inputs) else { return Ok(None) };
        let mut inners = Vec::with_capacity(apply.inners.len());
        for Inner { plan, gives, binds } in &apply.inners {
            let index = |(column, param): &(_, usize)| {
                logical.schema().index_of_column(column).map(|at| (at, *param))
            };
            let binds = binds.iter().map(index).collect::<DfResult<Vec<_>>>()?;
            let run = if crate::planner::has_parameters(plan)? {
                let state = session.as_any().downcast_ref::<SessionState>();
                let state = state.ok_or_else(|| PgError::internal("another kind of session"))?;
                Run::Planned(Box::new(plan.clone()), Arc::new(state.clone()))
            } else {
                Run::Physical(planner.create_physical_plan(plan, session).await?)
            };
            inners.push(InnerExec { run, gives: *gives, binds });
        }
        let schema: SchemaRef = Arc::new(apply.schema.as_arrow().clone());
        Ok(Some(Arc::new(ApplyExec::new(input.clone(), inners.into(), schema))))
    }
}

/// How a subquery is run.
enum Run {
    /// Its parameters are read inside its scans.
    Physical(Arc<dyn ExecutionPlan>),
    /// Values are put in for its parameters each time.
    Planned(Box<LogicalPlan>, Arc<SessionState>),
}

struct InnerExec {
    run: Run,
    gives: Gives,
    /// Columns of the input, and the parameters that they are.
    binds: Vec<(usize, usize)>,
}

pub(crate) struct ApplyExec {
    input: Arc<dyn ExecutionPlan>,
    inners: Arc<[InnerExec]>,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl ApplyExec {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        inners: Arc<[InnerExec]>,
        schema: SchemaRef,
    ) -> ApplyExec {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema.clone()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        ApplyExec { input, inners, schema, properties: Arc::new(properties) }
    }

    /// How many subqueries each row runs.
    pub(crate) fn subqueries(&self) -> usize {
        self.inners.len()
    }
}

impl fmt::Debug for ApplyExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApplyExec").field("input", &self.input).finish_non_exhaustive()
    }
}

impl DisplayAs for ApplyExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Apply: {} subqueries for each row", self.subqueries())
    }
}

impl ExecutionPlan for ApplyExec {
    fn name(&self) -> &'static str {
        "ApplyExec"
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
        let input = children.pop().ok_or_else(|| PgError::internal("an apply without input"))?;
        Ok(Arc::new(ApplyExec::new(input, self.inners.clone(), self.schema.clone())))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let state: SharedState = task
            .session_config()
            .get_extension::<ExecState>()
            .ok_or_else(|| PgError::internal("a subquery without a session"))?;
        let running = Running {
            input: self.input.execute(partition, task.clone())?,
            kept: self.inners.iter().map(|_| HashMap::new()).collect(),
            work: Work { inners: self.inners.clone(), schema: self.schema.clone(), state, task },
        };
        let stream = futures::stream::try_unfold(running, |mut running| async move {
            Ok(running.next_batch().await?.map(|batch| (batch, running)))
        });
        Ok(env::boxed!(RecordBatchStreamAdapter::new(self.schema.clone(), stream)))
    }
}

/// One execution.
struct Running {
    input: SendableRecordBatchStream,
    /// Results of each subquery by the values of its outer columns.
    kept: Vec<HashMap<Vec<ScalarValue>, ScalarValue>>,
    work: Work,
}

struct Work {
    inners: Arc<[InnerExec]>,
    schema: SchemaRef,
    state: SharedState,
    task: Arc<TaskContext>,
}

impl Running {
    async fn next_batch(&mut self) -> DfResult<Option<RecordBatch>> {
        while let Some(batch) = self.input.next().await {
            let batch = batch?;
            if batch.num_rows() == 0 {
                continue;
            }
            let rows = self.work.inners.iter().find_map(|inner| match inner.gives {
                Gives::Rows { keep } => Some(keep),
                _ => None,
            });
            let out = match rows {
                Some(keep) => self.work.joined(&batch, keep).await?,
                None => Some(self.with_values(&batch).await?),
            };
            if out.is_some() {
                return Ok(out);
            }
        }
        Ok(None)
    }

    /// The batch with the subqueries' values as further columns.
    async fn with_values(&mut self, batch: &RecordBatch) -> DfResult<RecordBatch> {
        let mut columns = batch.columns().to_vec();
        for n in 0..self.work.inners.len() {
            let field = self.work.schema.field(columns.len()).clone();
            let mut values = Vec::with_capacity(batch.num_rows());
            for row in 0..batch.num_rows() {
                let key = self.work.key(n, batch, row)?;
                let value = match self.kept[n].get(&key) {
                    Some(known) => known.clone(),
                    None => {
                        let value = self.work.value(n, batch, row).await?;
                        if self.kept[n].len() < KEPT_MAX {
                            self.kept[n].insert(key, value.clone());
                        }
                        value
                    }
                };
                values.push(match value {
                    ScalarValue::Null => ScalarValue::try_from(field.data_type())?,
                    value => value,
                });
            }
            let column = ScalarValue::iter_to_array(values)?;
            columns.push(as_type(column, field.data_type())?);
        }
        Ok(RecordBatch::try_new(self.work.schema.clone(), columns)?)
    }
}

impl Work {
    fn key(&self, n: usize, batch: &RecordBatch, row: usize) -> DfResult<Vec<ScalarValue>> {
        let of = |(at, _): &(usize, usize)| ScalarValue::try_from_array(batch.column(*at), row);
        self.inners[n].binds.iter().map(of).collect()
    }

    async fn value(&self, n: usize, batch: &RecordBatch, row: usize) -> DfResult<ScalarValue> {
        let gives = self.inners[n].gives;
        let mut stream = self.start(n, batch, row).await?;
        let mut found: Option<ScalarValue> = None;
        while let Some(part) = stream.next().await {
            let part = part?;
            if part.num_rows() == 0 {
                continue;
            }
            if gives == Gives::Exists {
                return Ok(ScalarValue::Boolean(Some(true)));
            }
            if part.num_rows() > 1 || found.is_some() {
                let text = "more than one row returned by a subquery used as an expression";
                return Err(PgError::new("21000", text).into());
            }
            found = Some(ScalarValue::try_from_array(part.column(0), 0)?);
        }
        Ok(match gives {
            Gives::Exists => ScalarValue::Boolean(Some(false)),
            _ => found.unwrap_or(ScalarValue::Null),
        })
    }

    /// The rows of a lateral join.
    async fn joined(&self, batch: &RecordBatch, keep: bool) -> DfResult<Option<RecordBatch>> {
        let mut parts = Vec::new();
        let mut rows = 0;
        for row in 0..batch.num_rows() {
            let mut stream = self.start(0, batch, row).await?;
            let mut any = false;
            while let Some(right) = stream.next().await {
                let right = right?;
                if right.num_rows() > 0 {
                    any = true;
                    rows += right.num_rows();
                    parts.push(self.beside(batch, row, right.num_rows(), Some(&right))?);
                }
            }
            if keep && !any {
                rows += 1;
                parts.push(self.beside(batch, row, 1, None)?);
            }
            if rows >= BATCH_ROWS && parts.len() > 1 {
                let whole = concat_batches(&self.schema, &parts)?;
                parts = vec![whole];
                rows = 0;
            }
        }
        Ok(if parts.is_empty() { None } else { Some(concat_batches(&self.schema, &parts)?) })
    }

    /// One outer row beside the rows of the subquery.
    fn beside(
        &self,
        batch: &RecordBatch,
        row: usize,
        count: usize,
        right: Option<&RecordBatch>,
    ) -> DfResult<RecordBatch> {
        let again = UInt64Array::from(vec![row as u64; count]);
        let mut columns = Vec::with_capacity(self.schema.fields().len());
        for column in batch.columns() {
            columns.push(take(column, &again, None)?);
        }
        for (n, field) in self.schema.fields().iter().skip(columns.len()).enumerate() {
            columns.push(match right {
                Some(right) => as_type(right.column(n).clone(), field.data_type())?,
                None => new_null_array(field.data_type(), count),
            });
        }
        Ok(RecordBatch::try_new(self.schema.clone(), columns)?)
    }

    /// Starts a subquery for a row.
    async fn start(
        &self,
        n: usize,
        batch: &RecordBatch,
        row: usize,
    ) -> DfResult<SendableRecordBatchStream> {
        self.state.ctx.check_interrupt().map_err(PgError::from)?;
        let inner = &self.inners[n];
        let mut params = self.state.params.clone();
        for (at, param) in &inner.binds {
            if params.len() <= *param {
                params.resize(param + 1, Value::Null);
            }
            let reader = ColumnReader::new(batch.column(*at), batch.schema_ref().field(*at))?;
            params[*param] = reader.get(row).to_value();
        }
        let plan = match &inner.run {
            Run::Physical(plan) => reset_plan_states(plan.clone())?,
            Run::Planned(plan, session) => {
                let values = self.values(plan, &params, inner, batch, row)?;
                let plan = plan.as_ref().clone().with_param_values(values)?;
                let plan = crate::limits::with_amounts(plan)?;
                session.query_planner().create_physical_plan(&plan, session.as_ref()).await?
            }
        };
        let state = ExecState {
            ctx: self.state.ctx.clone(),
            snapshot: self.state.snapshot.clone(),
            params,
            env: self.state.env,
            target: None,
            given: self.state.given.clone(),
            views: self.state.views.clone(),
            keys: JoinKeys::default(),
            shared: SharedRows::default(),
            parallel: false,
            calls: self.state.calls.clone(),
        };
        let config = self.task.session_config().clone().with_extension(Arc::new(state));
        let task = TaskContext::new(
            None,
            String::new(),
            config,
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            self.task.runtime_env(),
        );
        execute_stream(plan, Arc::new(task))
    }

    /// Values for all parameters that a plan names.
    fn values(
        &self,
        plan: &LogicalPlan,
        params: &[Value],
        inner: &InnerExec,
        batch: &RecordBatch,
        row: usize,
    ) -> DfResult<ParamValues> {
        let mut all: HashMap<String, ScalarValue> = HashMap::new();
        for (id, field) in plan.get_parameter_fields()? {
            let name = id.trim_start_matches('$').to_owned();
            let number = name.parse::<usize>().ok().and_then(|n| n.checked_sub(1));
            let at = number.ok_or_else(|| PgError::internal(format!("the parameter {id}")))?;
            let bound = inner.binds.iter().find(|(_, param)| *param == at);
            let value = match bound {
                Some((column, _)) => ScalarValue::try_from_array(batch.column(*column), row)?,
                None => {
                    let ty = field.and_then(|field| col_type_of(field.data_type()));
                    let ty = ty.unwrap_or(kernel::row::ColType::new(kernel::row::TypeKind::Text));
                    scalar_value_of(params.get(at).unwrap_or(&Value::Null), ty)
                }
            };
            all.insert(name, value);
        }
        Ok(ParamValues::from(all))
    }
}

fn as_type(column: ArrayRef, ty: &DataType) -> DfResult<ArrayRef> {
    if column.data_type() == ty {
        return Ok(column);
    }
    cast(&column, ty).map_err(DataFusionError::from)
}
