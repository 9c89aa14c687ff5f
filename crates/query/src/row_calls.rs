//! Functions that every row calls anew, since they do something: `nextval`, `setval`, `pg_notify`,
//! locks, and those that users have stored.
//!
//! They need the session, which waits for the rows meanwhile. So each call becomes a column of a
//! [`Calls`] node, which sends it to the session and waits for the answer ([`RowCalls`]); the
//! session answers while it waits for the next rows.
//!
//! What it promises: a row's calls are made in the order in which they are written, once for each
//! row that comes, and the arguments of one before it. What it must never do: make a call that
//! CASE, AND, OR or COALESCE leaves out for the row.

mod functions;

pub(crate) use functions::row_functions;
pub use functions::{
    CREATE_SNAPSHOT, Choose, FUNCTIONS, called, routine_function, routine_name, routine_of,
};
use functions::{PREFIX, ROUTINE, RoutineFunction};

use crate::arrow_rows::{ColumnReader, single_column};
use crate::error::{PgError, Result};
use crate::state::{ExecState, SharedState};
use crate::types::{arrow_type, col_type_of};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result as DfResult, TableReference};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::{
    Expr, ExprSchemable, Extension, LogicalPlan, Operator, Projection, Sort,
    UserDefinedLogicalNodeCore,
};
use datafusion::physical_expr::EquivalenceProperties;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, Distribution, ExecutionPlan, Partitioning, PhysicalExpr,
    PlanProperties,
};
use futures::StreamExt;
use kernel::row::{ColType, Datum, Value};
use std::cmp::Ordering;
use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

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

/// One call, with its arguments as columns of the input.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Call {
    function: String,
    result: ColType,
    args: Vec<usize>,
    /// The column that says for which rows it is to be made; `None`: for all.
    guard: Option<usize>,
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
    let (mut input, schema) = (input.clone(), node.schema().clone());
    let names = NamePreserver::new(&node);
    let mut mapped = node;
    // One layer for each call in the arguments, or behind the condition, of another.
    loop {
        let (computed, calls, shared) = (Vec::new(), Vec::new(), Vec::new());
        let mut pull = Pull { input: &input, computed, calls, shared, named };
        let own = input.schema().columns();
        let mut added = Vec::new();
        mapped = mapped
            .map_expressions(|expr| {
                let saved = names.save(&expr);
                let pulled = pull.expr(expr, None, own.len(), &mut added)?;
                Ok(Transformed::yes(saved.restore(pulled)))
            })?
            .data;
        if pull.calls.is_empty() {
            break;
        }
        let (computed, calls) = (pull.computed, pull.calls);
        let all = own.into_iter().map(Expr::Column).chain(computed).collect();
        let below = LogicalPlan::Projection(Projection::try_new(all, Arc::new(input))?);
        let node = Calls::new(below, calls, added, row_by_row)?;
        input = LogicalPlan::Extension(Extension { node: Arc::new(node) });
    }
    let exprs = mapped.expressions();
    let plan = mapped.with_new_exprs(exprs, vec![input])?;
    if plan.schema().fields().len() == schema.fields().len() {
        return Ok(Transformed::yes(plan));
    }
    // What passes its input's columns on has got more of them.
    let own = schema.columns().into_iter().map(Expr::Column).collect();
    Ok(Transformed::yes(LogicalPlan::Projection(Projection::try_new(own, Arc::new(plan))?)))
}

/// Takes calls out of expressions, those first that wait for no others.
struct Pull<'a> {
    input: &'a LogicalPlan,
    /// Arguments and conditions of the calls.
    computed: Vec<Expr>,
    calls: Vec<Call>,
    /// Calls of which all that are equal are one, and their columns.
    shared: Vec<(Expr, Expr)>,
    named: &'a mut usize,
}

/// Both conditions.
fn both(guard: Option<&Expr>, more: Expr) -> Option<Expr> {
    Some(match guard {
        Some(guard) => guard.clone().and(more),
        None => more,
    })
}

impl Pull<'_> {
    /// The expression with columns in place of calls, which are made where `guard` is true.
    fn expr(
        &mut self,
        expr: Expr,
        guard: Option<&Expr>,
        own: usize,
        added: &mut Vec<(Option<TableReference>, FieldRef)>,
    ) -> DfResult<Expr> {
        if !has_call(&expr)? {
            return Ok(expr);
        }
        if call_of(&expr).is_some() {
            let Expr::ScalarFunction(call) = expr else { return Ok(expr) };
            let waits = call.args.iter().map(has_call).collect::<DfResult<Vec<_>>>()?;
            if call.args.iter().any(|arg| self.is_missing(arg)) {
                return Ok(Expr::ScalarFunction(call));
            }
            if waits.contains(&true) {
                let mut call = call;
                for arg in &mut call.args {
                    *arg = self.expr(std::mem::take(arg), guard, own, added)?;
                }
                return Ok(Expr::ScalarFunction(call));
            }
            let waits = guard.map(has_call).transpose()?.unwrap_or(false)
                || guard.is_some_and(|guard| self.is_missing(guard));
            let expr = Expr::ScalarFunction(call);
            return if waits { Ok(expr) } else { self.call(expr, guard, own, added) };
        }
        match expr {
            Expr::Case(mut case) => {
                let operand = case.expr.take();
                let operand = match operand {
                    Some(operand) => Some(self.expr(*operand, guard, own, added)?),
                    None => None,
                };
                let mut open = guard.cloned();
                for (when, then) in &mut case.when_then_expr {
                    **when = self.expr(std::mem::take(&mut **when), open.as_ref(), own, added)?;
                    let meets = match &operand {
                        Some(operand) => operand.clone().eq((**when).clone()),
                        None => (**when).clone(),
                    };
                    let here = both(open.as_ref(), Expr::IsTrue(Box::new(meets.clone())));
                    **then = self.expr(std::mem::take(&mut **then), here.as_ref(), own, added)?;
                    open = both(open.as_ref(), Expr::IsNotTrue(Box::new(meets)));
                }
                if let Some(other) = &mut case.else_expr {
                    **other = self.expr(std::mem::take(&mut **other), open.as_ref(), own, added)?;
                }
                case.expr = operand.map(Box::new);
                Ok(Expr::Case(case))
            }
            Expr::BinaryExpr(mut binary) if matches!(binary.op, Operator::And | Operator::Or) => {
                *binary.left = self.expr(std::mem::take(&mut *binary.left), guard, own, added)?;
                let left = binary.left.clone();
                let open = match binary.op {
                    Operator::And => Expr::IsNotFalse(left),
                    _ => Expr::IsNotTrue(left),
                };
                let open = both(guard, open);
                let right = std::mem::take(&mut *binary.right);
                *binary.right = self.expr(right, open.as_ref(), own, added)?;
                Ok(Expr::BinaryExpr(binary))
            }
            Expr::ScalarFunction(mut call) if call.func.name() == "coalesce" => {
                let mut open = guard.cloned();
                for arg in &mut call.args {
                    *arg = self.expr(std::mem::take(arg), open.as_ref(), own, added)?;
                    open = both(open.as_ref(), arg.clone().is_null());
                }
                Ok(Expr::ScalarFunction(call))
            }
            other => {
                let each = |part| Ok(Transformed::yes(self.expr(part, guard, own, added)?));
                Ok(other.map_children(each)?.data)
            }
        }
    }

    /// Whether it names the result of a call that is made in this layer.
    fn is_missing(&self, expr: &Expr) -> bool {
        let known = self.input.schema();
        expr.column_refs().into_iter().any(|column| {
            column.relation.is_none()
                && column.name.starts_with("$call")
                && known.maybe_index_of_column(column).is_none()
        })
    }

    /// A column in place of a call whose arguments are at hand.
    fn call(
        &mut self,
        expr: Expr,
        guard: Option<&Expr>,
        own: usize,
        added: &mut Vec<(Option<TableReference>, FieldRef)>,
    ) -> DfResult<Expr> {
        let (_, field) = expr.to_field(self.input.schema())?;
        let result = col_type_of(field.data_type())
            .ok_or_else(|| PgError::internal("a call without a type"))?;
        let mut function = call_of(&expr).unwrap_or_default();
        // With the number of its row: a sequence gives a row one value.
        let shared = guard.is_none()
            && function == "nextval"
            && matches!(&expr, Expr::ScalarFunction(call) if call.args.len() == 2);
        if let Some((_, column)) = self.shared.iter().find(|(known, _)| shared && *known == expr) {
            return Ok(column.clone());
        }
        let known = shared.then(|| expr.clone());
        let Expr::ScalarFunction(call) = expr else {
            return Err(PgError::internal("a call that is none").into());
        };
        let inner: &dyn std::any::Any = call.func.inner().as_ref();
        if let Some(routine) = inner.downcast_ref::<RoutineFunction>() {
            let types = call.args.iter().map(|arg| arg.get_type(self.input.schema()));
            let (obj, _) = routine.chosen(&types.collect::<DfResult<Vec<_>>>()?)?;
            function = format!("{ROUTINE}{obj}");
        }
        let first = own + self.computed.len();
        let count = call.args.len();
        for (n, arg) in call.args.into_iter().enumerate() {
            self.computed.push(arg.alias(format!("$argument{}_{n}", *self.named)));
        }
        let guard = guard.map(|guard| {
            self.computed.push(guard.clone().alias(format!("$guard{}", *self.named)));
            first + count
        });
        *self.named += 1;
        let name = format!("$call{}", self.named);
        let field = field.as_ref().clone().with_name(&name).with_nullable(true);
        self.calls.push(Call { function, result, args: (first..first + count).collect(), guard });
        added.push((None, Arc::new(field)));
        let column = Expr::Column(datafusion::common::Column::new_unqualified(name));
        self.shared.extend(known.map(|known| (known, column.clone())));
        Ok(column)
    }
}

fn call_of(expr: &Expr) -> Option<String> {
    match expr {
        Expr::ScalarFunction(call) => call.func.name().strip_prefix(PREFIX).map(str::to_owned),
        _ => None,
    }
}

/// Whether there is such a call in an expression.
pub(crate) fn has_call(expr: &Expr) -> DfResult<bool> {
    expr.exists(|part| Ok(call_of(part).is_some()))
}

/// Whether there are calls in a subquery of an expression.
fn has_call_below(expr: &Expr) -> DfResult<bool> {
    expr.exists(|part| {
        let subquery = match part {
            Expr::ScalarSubquery(subquery) => subquery,
            Expr::Exists(exists) => &exists.subquery,
            Expr::InSubquery(within) => &within.subquery,
            Expr::SetComparison(comparison) => &comparison.subquery,
            _ => return Ok(false),
        };
        calls_in(&subquery.subquery)
    })
}

/// Refuses calls in subqueries that may have to be left out: they are worked out for all rows.
fn check_places(expr: &Expr) -> DfResult<()> {
    expr.apply(|part| {
        let place = match part {
            Expr::Case(_) => "CASE",
            Expr::BinaryExpr(binary) if binary.op == Operator::And => "AND",
            Expr::BinaryExpr(binary) if binary.op == Operator::Or => "OR",
            Expr::ScalarFunction(call) if call.func.name() == "coalesce" => "COALESCE",
            _ => return Ok(TreeNodeRecursion::Continue),
        };
        if has_call_below(part)? {
            let text = format!("a function with an effect in a subquery in {place}");
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

    /// The functions that it calls.
    pub(crate) fn functions(&self) -> String {
        names(&self.calls)
    }

    /// Whether sequences are among them.
    pub(crate) fn has_sequence(&self) -> bool {
        self.calls.iter().any(|call| call.function == "nextval")
    }
}

impl fmt::Debug for CallsExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallsExec").field("input", &self.input).finish_non_exhaustive()
    }
}

impl DisplayAs for CallsExec {
    fn fmt_as(&self, _t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Calls for each row: {}", self.functions())
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
        Ok(env::boxed!(RecordBatchStreamAdapter::new(self.schema.clone(), stream)))
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
    let guards = calls.iter().map(|call| call.guard.as_ref().map(reader).transpose());
    let guards: Vec<Option<ColumnReader>> = guards.collect::<Result<_>>()?;
    let mut results: Vec<Vec<Value>> = calls.iter().map(|_| Vec::new()).collect();
    for row in 0..batch.num_rows() {
        for (n, call) in calls.iter().enumerate() {
            let wanted = match call.guard {
                Some(_) => guards[n].as_ref().is_some_and(|g| g.get(row) == Datum::Bool(true)),
                None => true,
            };
            if !wanted {
                results[n].push(Value::Null);
                continue;
            }
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
