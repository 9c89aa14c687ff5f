//! Functions that every row calls anew, since they do something: `nextval`, `setval`, `pg_notify`,
//! locks.
//!
//! They need the session, which waits for the rows meanwhile. So each call becomes a column of a
//! [`Calls`] node, which sends it to the session and waits for the answer ([`RowCalls`]); the
//! session answers while it waits for the next rows.
//!
//! What it promises: a row's calls are made in the order in which they are written, once for each
//! row that comes. What it must never do: make a call that CASE, AND, OR or COALESCE may leave out;
//! such a place is refused.

use crate::arrow_rows::{ColumnReader, single_column};
use crate::error::{PgError, Result};
use crate::state::{ExecState, SharedState};
use crate::types::{PgType, arrow_type, col_type_of, field_with_meta};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult, TableReference};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ExprSchemable, Extension, LogicalPlan, Operator, Projection,
    ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Sort, TypeSignature,
    UserDefinedLogicalNodeCore, Volatility,
};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PhysicalExpr,
    PlanProperties,
};
use futures::StreamExt;
use kernel::row::{ColType, TypeKind, Value};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// What a function that rows call is named in a plan: this, and its name.
const PREFIX: &str = "$row_calls_";

/// The functions that rows can call, by the names that users know, and what they give.
pub const FUNCTIONS: &[(&str, TypeKind)] = &[
    ("nextval", TypeKind::Int8),
    ("setval", TypeKind::Int8),
    ("pg_sleep", TypeKind::Text),
    ("pg_cancel_backend", TypeKind::Bool),
    ("pg_terminate_backend", TypeKind::Bool),
    ("pg_notify", TypeKind::Text),
    ("clock_timestamp", TypeKind::Timestamptz),
    ("pg_advisory_lock", TypeKind::Text),
    ("pg_advisory_lock_shared", TypeKind::Text),
    ("pg_advisory_xact_lock", TypeKind::Text),
    ("pg_advisory_xact_lock_shared", TypeKind::Text),
    ("pg_try_advisory_lock", TypeKind::Bool),
    ("pg_try_advisory_lock_shared", TypeKind::Bool),
    ("pg_try_advisory_xact_lock", TypeKind::Bool),
    ("pg_try_advisory_xact_lock_shared", TypeKind::Bool),
    ("pg_advisory_unlock", TypeKind::Bool),
    ("pg_advisory_unlock_shared", TypeKind::Bool),
    ("pg_advisory_unlock_all", TypeKind::Text),
];

/// The name in a plan of a function that each row calls.
#[must_use]
pub fn called(function: &str) -> String {
    format!("{PREFIX}{function}")
}

/// A call that a row makes.
pub struct RowCall {
    pub function: String,
    pub args: Vec<Value>,
    answer: oneshot::Sender<Result<Value>>,
}

impl RowCall {
    /// Whether the row still waits: its query may have ended meanwhile.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        !self.answer.is_closed()
    }

    /// Who asked may have gone away.
    pub fn answer(self, value: Result<Value>) {
        let _ = self.answer.send(value);
    }
}

/// Where rows send their calls.
#[derive(Clone)]
pub struct RowCalls(mpsc::UnboundedSender<RowCall>);

impl RowCalls {
    /// With the end at which the session gets them.
    #[must_use]
    pub fn new() -> (RowCalls, mpsc::UnboundedReceiver<RowCall>) {
        let (sender, receiver) = mpsc::unbounded_channel();
        (RowCalls(sender), receiver)
    }

    async fn call(&self, function: &str, args: Vec<Value>) -> Result<Value> {
        let (answer, answered) = oneshot::channel();
        let gone = || PgError::internal("the session answers no calls");
        let call = RowCall { function: function.to_owned(), args, answer };
        self.0.send(call).map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }
}

/// A function that rows call, as plans have it before its calls are columns.
#[derive(Debug)]
struct RowFunction {
    name: String,
    result: ColType,
    signature: Signature,
}

impl PartialEq for RowFunction {
    fn eq(&self, other: &RowFunction) -> bool {
        self.name == other.name
    }
}

impl Eq for RowFunction {}

impl Hash for RowFunction {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.name.hash(state);
    }
}

pub(crate) fn row_functions() -> impl Iterator<Item = Arc<ScalarUDF>> {
    FUNCTIONS.iter().map(|(name, result)| {
        let any = vec![TypeSignature::VariadicAny, TypeSignature::Nullary];
        let signature = Signature::one_of(any, Volatility::Volatile);
        let function = RowFunction { name: called(name), result: ColType::new(*result), signature };
        Arc::new(ScalarUDF::new_from_impl(function))
    })
}

impl ScalarUDFImpl for RowFunction {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _types: &[DataType]) -> DfResult<DataType> {
        Ok(arrow_type(self.result))
    }

    fn return_field_from_args(&self, _args: ReturnFieldArgs<'_>) -> DfResult<FieldRef> {
        let name = self.name.trim_start_matches(PREFIX);
        let field = field_with_meta(name, arrow_type(self.result), PgType::of(self.result));
        Ok(Arc::new(field))
    }

    fn invoke_with_args(&self, _args: ScalarFunctionArgs) -> DfResult<ColumnarValue> {
        Err(PgError::unsupported("a function with an effect in this place").into())
    }
}

/// One call, with its arguments as columns of the input.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Call {
    function: String,
    result: ColType,
    args: Vec<usize>,
}

/// Makes calls for each row of its input, whose results are further columns.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Calls {
    input: LogicalPlan,
    calls: Vec<Call>,
    added: Vec<(Option<TableReference>, FieldRef)>,
    /// Whoever reads the rows may have enough after any of them: none may call before it is asked.
    row_by_row: bool,
    schema: DFSchemaRef,
}

impl Calls {
    fn new(
        input: LogicalPlan,
        calls: Vec<Call>,
        added: Vec<(Option<TableReference>, FieldRef)>,
        row_by_row: bool,
    ) -> DfResult<Calls> {
        let known = input.schema().iter().map(|(q, f)| (q.cloned(), f.clone()));
        let fields = known.chain(added.iter().cloned()).collect();
        let schema = DFSchema::new_with_metadata(fields, HashMap::new())?;
        Ok(Calls { input, calls, added, row_by_row, schema: Arc::new(schema) })
    }

    pub(crate) fn physical(
        &self,
        input: Arc<dyn ExecutionPlan>,
    ) -> DfResult<Arc<dyn ExecutionPlan>> {
        let schema: SchemaRef = Arc::new(self.schema.as_arrow().clone());
        Ok(Arc::new(CallsExec::new(input, self.calls.clone().into(), self.row_by_row, schema)?))
    }
}

impl PartialOrd for Calls {
    fn partial_cmp(&self, other: &Calls) -> Option<Ordering> {
        self.input.partial_cmp(&other.input)
    }
}

impl UserDefinedLogicalNodeCore for Calls {
    fn name(&self) -> &'static str {
        "Calls"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls: {}", names(&self.calls))
    }

    fn supports_limit_pushdown(&self) -> bool {
        true // As many rows come out as go in, and none more is to call.
    }

    fn with_exprs_and_inputs(
        &self,
        _exprs: Vec<Expr>,
        mut inputs: Vec<LogicalPlan>,
    ) -> DfResult<Calls> {
        let input = inputs.pop().ok_or_else(|| PgError::internal("calls without input"))?;
        Calls::new(input, self.calls.clone(), self.added.clone(), self.row_by_row)
    }
}

fn names(calls: &[Call]) -> String {
    let names: Vec<&str> = calls.iter().map(|call| call.function.as_str()).collect();
    names.join(", ")
}

/// The plan with columns in place of calls.
pub(crate) fn with_calls(plan: LogicalPlan) -> DfResult<LogicalPlan> {
    if !calls_in(&plan)? {
        return Ok(plan);
    }
    let mut row_by_row = false;
    plan.apply_with_subqueries(|node| {
        row_by_row |= match node {
            LogicalPlan::Limit(_) => true,
            LogicalPlan::Sort(sort) => sort.fetch.is_some(),
            _ => false,
        };
        node.apply_expressions(|expr| {
            check_places(expr)?;
            Ok(TreeNodeRecursion::Continue)
        })
    })?;
    let plan = plan.transform_down_with_subqueries(sorted_first)?.data;
    let mut named = 0;
    let done =
        plan.transform_up_with_subqueries(|node| columns_of_calls(node, &mut named, row_by_row))?;
    Ok(done.data)
}

/// Whether there are calls in a plan, or in a subquery of it.
fn calls_in(plan: &LogicalPlan) -> DfResult<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            found |= has_call(expr)?;
            Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
        })
    })?;
    Ok(found)
}

/// Rows are sorted before they make calls, unless these decide the order.
fn sorted_first(node: LogicalPlan) -> DfResult<Transformed<LogicalPlan>> {
    let LogicalPlan::Sort(Sort { expr, input, fetch }) = &node else {
        return Ok(Transformed::no(node));
    };
    let LogicalPlan::Projection(shown) = input.as_ref() else { return Ok(Transformed::no(node)) };
    let calls = shown.expr.iter().map(has_call).collect::<DfResult<Vec<_>>>()?;
    if !calls.contains(&true) {
        return Ok(Transformed::no(node));
    }
    let below = |part: Expr| match &part {
        Expr::Column(column) => Ok(match shown.schema.maybe_index_of_column(column) {
            Some(at) => Transformed::yes(shown.expr[at].clone().unalias()),
            None => Transformed::no(part),
        }),
        _ => Ok(Transformed::no(part)),
    };
    let mut keys = Vec::with_capacity(expr.len());
    for key in expr {
        let mut key = key.clone();
        key.expr = key.expr.transform_up(below)?.data;
        if has_call(&key.expr)? {
            return Ok(Transformed::no(node));
        }
        keys.push(key);
    }
    let sort = LogicalPlan::Sort(Sort { expr: keys, input: shown.input.clone(), fetch: *fetch });
    let shown = Projection::try_new(shown.expr.clone(), Arc::new(sort))?;
    Ok(Transformed::yes(LogicalPlan::Projection(shown)))
}

fn columns_of_calls(
    node: LogicalPlan,
    named: &mut usize,
    row_by_row: bool,
) -> DfResult<Transformed<LogicalPlan>> {
    let mut found = false;
    node.apply_expressions(|expr| {
        found |= has_call(expr)?;
        Ok(TreeNodeRecursion::Continue)
    })?;
    if !found {
        return Ok(Transformed::no(node));
    }
    let [input] = node.inputs()[..] else {
        return Err(PgError::unsupported("a function with an effect in this place").into());
    };
    let (input, schema) = (input.clone(), node.schema().clone());
    let own = input.schema().columns();
    let (mut computed, mut calls, mut added) = (Vec::new(), Vec::new(), Vec::new());
    let names = NamePreserver::new(&node);
    let mapped = node.map_expressions(|expr| {
        let saved = names.save(&expr);
        let mapped = expr.transform_up(|part| {
            let Some(function) = call_of(&part) else { return Ok(Transformed::no(part)) };
            let (_, field) = part.to_field(input.schema())?;
            let result = col_type_of(field.data_type())
                .ok_or_else(|| PgError::internal("a call without a type"))?;
            let Expr::ScalarFunction(call) = part else { return Ok(Transformed::no(part)) };
            let first = own.len() + computed.len();
            for (n, arg) in call.args.iter().enumerate() {
                computed.push(arg.clone().alias(format!("$argument{}_{n}", *named)));
            }
            let args = (first..first + call.args.len()).collect();
            *named += 1;
            let name = format!("$call{named}");
            let field = field.as_ref().clone().with_name(&name).with_nullable(true);
            calls.push(Call { function, result, args });
            added.push((None, Arc::new(field)));
            let column = datafusion::common::Column::new_unqualified(name);
            Ok(Transformed::yes(Expr::Column(column)))
        })?;
        Ok(mapped.update_data(|expr| saved.restore(expr)))
    })?;
    let all = own.into_iter().map(Expr::Column).chain(computed).collect();
    let input = LogicalPlan::Projection(Projection::try_new(all, Arc::new(input))?);
    let node = Calls::new(input, calls, added, row_by_row)?;
    let below = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    let exprs = mapped.data.expressions();
    let plan = mapped.data.with_new_exprs(exprs, vec![below])?;
    if plan.schema().fields().len() == schema.fields().len() {
        return Ok(Transformed::yes(plan));
    }
    // What passes its input's columns on has got more of them.
    let own = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(own, Arc::new(plan))?)))
}

fn call_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::ScalarFunction(call) => call.func.name().strip_prefix(PREFIX).map(str::to_owned),
        _ => None,
    }
}

fn has_call(expr: &Expr) -> DfResult<bool> {
    expr.exists(|part| Ok(call_of(part).is_some()))
}

/// Whether there are calls in an expression, or in a subquery of it.
fn has_call_inside(expr: &Expr) -> DfResult<bool> {
    expr.exists(|part| {
        let subquery = match part {
            Expr::ScalarSubquery(subquery) => subquery,
            Expr::Exists(exists) => &exists.subquery,
            Expr::InSubquery(within) => &within.subquery,
            Expr::SetComparison(comparison) => &comparison.subquery,
            _ => return Ok(call_of(part).is_some()),
        };
        calls_in(&subquery.subquery)
    })
}

/// Refuses calls that may have to be left out, and calls in the arguments of others.
fn check_places(expr: &Expr) -> DfResult<()> {
    expr.apply(|part| {
        let place = match part {
            Expr::Case(_) => "CASE",
            Expr::BinaryExpr(binary) if binary.op == Operator::And => "AND",
            Expr::BinaryExpr(binary) if binary.op == Operator::Or => "OR",
            Expr::ScalarFunction(call) if call.func.name() == "coalesce" => "COALESCE",
            Expr::ScalarFunction(_) if call_of(part).is_some() => "an argument of another one",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        // What a call is given by a subquery has been worked out before.
        let is_call = call_of(part).is_some();
        let mut inside = false;
        part.apply_children(|child| {
            inside |= if is_call { has_call(child)? } else { has_call_inside(child)? };
            Ok(TreeNodeRecursion::Continue)
        })?;
        if inside {
            let text = format!("a function with an effect in {place}, in a query over rows");
            return Err(PgError::unsupported(text).into());
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(())
}

pub(crate) struct CallsExec {
    input: Arc<dyn ExecutionPlan>,
    calls: Arc<[Call]>,
    row_by_row: bool,
    schema: SchemaRef,
    properties: Arc<PlanProperties>,
}

impl CallsExec {
    fn new(
        input: Arc<dyn ExecutionPlan>,
        calls: Arc<[Call]>,
        row_by_row: bool,
        schema: SchemaRef,
    ) -> DfResult<CallsExec> {
        // What is known of the input's columns stays so: they come first, in the order they had.
        let known = input.properties().equivalence_properties();
        let mut equivalences = EquivalenceProperties::new(schema.clone());
        equivalences.add_equivalence_group(known.eq_group().clone())?;
        equivalences.add_orderings(known.oeq_class().iter().map(|order| order.iter().cloned()));
        let properties = PlanProperties::new(
            equivalences,
            Partitioning::UnknownPartitioning(1),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Ok(CallsExec { input, calls, row_by_row, schema, properties: Arc::new(properties) })
    }
}

impl fmt::Debug for CallsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallsExec").field("input", &self.input).finish_non_exhaustive()
    }
}

impl DisplayAs for CallsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls for each row: {}", names(&self.calls))
    }
}

impl ExecutionPlan for CallsExec {
    fn name(&self) -> &'static str {
        "CallsExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn required_input_distribution(&self) -> Vec<Distribution> {
        vec![Distribution::SinglePartition]
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![true]
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
        let input = children.pop().ok_or_else(|| PgError::internal("calls without input"))?;
        let (calls, schema) = (self.calls.clone(), self.schema.clone());
        Ok(Arc::new(CallsExec::new(input, calls, self.row_by_row, schema)?))
    }

    fn execute(
        &self,
        partition: usize,
        task: Arc<TaskContext>,
    ) -> DfResult<SendableRecordBatchStream> {
        let state: SharedState = task
            .session_config()
            .get_extension::<ExecState>()
            .ok_or_else(|| PgError::internal("calls without a session"))?;
        let to = state.calls.clone();
        let to = to.ok_or_else(|| PgError::unsupported("a function with an effect here"))?;
        let input = self.input.execute(partition, task)?;
        let (calls, schema, row_by_row) =
            (self.calls.clone(), self.schema.clone(), self.row_by_row);
        let parts = move |batch: DfResult<RecordBatch>| {
            let parts: Vec<DfResult<RecordBatch>> = match batch {
                Ok(batch) if row_by_row => {
                    (0..batch.num_rows()).map(|row| Ok(batch.slice(row, 1))).collect()
                }
                other => vec![other],
            };
            futures::stream::iter(parts)
        };
        let stream = input.flat_map(parts).then(move |batch| {
            let (to, calls, schema) = (to.clone(), calls.clone(), schema.clone());
            async move { Ok(with_results(&to, &calls, schema, &batch?).await?) }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(self.schema.clone(), stream)))
    }
}

/// The batch with the results of its rows' calls.
async fn with_results(
    to: &RowCalls,
    calls: &[Call],
    schema: SchemaRef,
    batch: &RecordBatch,
) -> Result<RecordBatch> {
    let fields = batch.schema_ref().fields();
    let reader = |at: &usize| ColumnReader::new(batch.column(*at), &fields[*at]);
    let readers = |call: &Call| call.args.iter().map(reader).collect::<Result<Vec<_>>>();
    let readers: Vec<Vec<ColumnReader>> = calls.iter().map(readers).collect::<Result<_>>()?;
    let mut results: Vec<Vec<Value>> = calls.iter().map(|_| Vec::new()).collect();
    for row in 0..batch.num_rows() {
        for (n, call) in calls.iter().enumerate() {
            let args = readers[n].iter().map(|reader| reader.get(row).to_value()).collect();
            results[n].push(to.call(&call.function, args).await?);
        }
    }
    let mut columns = batch.columns().to_vec();
    for (call, values) in calls.iter().zip(&results) {
        columns.push(single_column(call.result, &arrow_type(call.result), values)?);
    }
    Ok(RecordBatch::try_new(schema, columns)?)
}
