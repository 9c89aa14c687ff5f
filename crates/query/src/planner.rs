//! From a bound syntax tree to a plan, and from a plan to rows. All of DataFusion's planning passes
//! through here.
//!
//! What it promises: a plan is optimised once; it is executed with its own task context each time,
//! so that one plan
//! serves many sessions. What it must never do: plan a statement the binder has not checked.

use crate::access_rules::physical_rules;
use crate::arrow_rows::ColumnReader;
use crate::error::{PgError, Result};
use crate::estimate::TableSize;
use crate::expr_planner::PgExprPlanner;
use crate::extremes::IndexExtremes;
use crate::fixed::{ViewName, add_views};
use crate::functions::{
    RowFunction, Typed, builtin_functions, cast_name, cast_of, is_for_one_plan, missing,
    typed_functions,
};
use crate::interruptible::{self, Planning};
use crate::known::with_parameter_types;
use crate::memory::{Pga, StatementMemory};
use crate::object_names;
use crate::ordering::with_order_keys;
use crate::provider::{AccessHint, TARGET_CATALOG, TableScanSource};
use crate::pushdown::scalar_value_of;
use crate::state::ExecState;
use crate::temp_files::TempSpace;
use crate::types::{PgColumn, PgType, arrow_type, col_type_of, field_with_meta};
use crate::wire::FormatEnv;
use block::ObjId;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, FieldRef, SchemaRef};
use datafusion::catalog::{TableFunctionArgs, TableProvider};
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::datasource::cte_worktable::CteWorkTable;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::error::{DataFusionError, Result as DfResult};
use datafusion::execution::runtime_env::{RuntimeEnv, RuntimeEnvBuilder};
use datafusion::execution::session_state::{SessionState, SessionStateBuilder};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::planner::{
    ContextProvider, ExprPlanner, RelationPlanner, TypePlanner,
};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{
    AggregateUDF, Expr, HigherOrderUDF, LogicalPlan, LogicalPlanBuilder, ScalarUDF, TableSource,
    WindowUDF,
};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::reset_plan_states;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties};
use datafusion::prelude::SessionConfig;
use datafusion::sql::planner::{NullOrdering, ParserOptions, PlannerContext, SqlToRel};
use datafusion::sql::sqlparser::ast::{self, Statement};
use kernel::dict::TableDef;
use kernel::row::{ColType, TypeKind, Value};
use observe::Ctx;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What a name in a statement stands for.
#[derive(Clone, Debug)]
pub enum Relation {
    Table(Arc<TableDef>),
    /// A catalog or `v$` view, or rows made when the statement was bound.
    Rows(Arc<dyn TableProvider>),
    /// A view as the dictionary has it; what it shows is put in its place before planning.
    View(Arc<TableDef>),
}

/// The relations a statement names, and functions that exist only for it.
pub struct TableSet {
    relations: BTreeMap<(Option<String>, String), Relation>,
    functions: BTreeMap<String, Arc<ScalarUDF>>,
    sizes: BTreeMap<ObjId, TableSize>,
    hints: BTreeMap<ObjId, AccessHint>,
    /// Parameters with the SCNs that relations are read as of.
    past: BTreeMap<(Option<String>, String), usize>,
    /// Whose statement it is: it may be cancelled while it is planned.
    ctx: Option<Ctx>,
    /// What the meaning of a statement depends on beside its names.
    env: FormatEnv,
    zone_name: Arc<str>,
}

impl TableSet {
    /// None yet, for a session in the time zone of `env`.
    #[must_use]
    pub fn new(env: FormatEnv, zone_name: &str) -> TableSet {
        TableSet {
            relations: BTreeMap::new(),
            functions: BTreeMap::new(),
            sizes: BTreeMap::new(),
            hints: BTreeMap::new(),
            past: BTreeMap::new(),
            ctx: None,
            env,
            zone_name: Arc::from(zone_name),
        }
    }

    /// For a statement that may be cancelled while it is planned.
    #[must_use]
    pub fn of_session(mut self, ctx: &Ctx) -> TableSet {
        self.ctx = Some(ctx.clone());
        self
    }

    /// Adds how large a table is.
    pub fn set_size(&mut self, table: ObjId, size: TableSize) {
        self.sizes.insert(table, size);
    }

    /// Says by what a table is to be read.
    pub fn set_hint(&mut self, table: ObjId, hint: AccessHint) {
        self.hints.insert(table, hint);
    }

    /// Says that what a name stands for is read as of the SCN in a parameter.
    pub fn set_as_of(&mut self, schema: Option<&str>, name: &str, param: usize) {
        self.past.insert((schema.map(str::to_owned), name.to_owned()), param);
    }

    /// Adds what `schema.name`, or `name` alone, stands for.
    pub fn insert(&mut self, schema: Option<&str>, name: &str, relation: Relation) {
        self.relations.insert((schema.map(str::to_owned), name.to_owned()), relation);
    }

    /// Adds what another one has.
    pub fn extend(&mut self, other: &TableSet) {
        self.relations.extend(other.relations.iter().map(|(k, v)| (k.clone(), v.clone())));
        self.functions.extend(other.functions.iter().map(|(k, v)| (k.clone(), v.clone())));
        self.sizes.extend(other.sizes.iter().map(|(k, v)| (*k, v.clone())));
        self.hints.extend(other.hints.iter().map(|(k, v)| (*k, v.clone())));
        self.past.extend(other.past.iter().map(|(k, v)| (k.clone(), *v)));
    }

    pub fn add_function(&mut self, function: Arc<ScalarUDF>) {
        self.functions.insert(function.name().to_owned(), function);
    }

    pub(crate) fn function(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        self.functions.get(name).cloned()
    }

    pub(crate) const fn format_env(&self) -> FormatEnv {
        self.env
    }

    fn get(&self, schema: Option<&str>, name: &str) -> Option<&Relation> {
        self.relations.get(&(schema.map(str::to_owned), name.to_owned()))
    }
}

/// A plan with what the protocol must know of it.
pub struct PlannedQuery {
    pub plan: LogicalPlan,
    pub columns: Vec<PgColumn>,
    pub params: Vec<ColType>,
    /// Whether parameters are read only inside scans, so that one physical plan serves all
    /// executions.
    pub reusable: bool,
    /// The time zone it was made for.
    pub zone_name: Arc<str>,
    /// Views whose rows each execution brings, in [`ExecState::views`].
    pub views: Vec<ViewName>,
    /// Whether it knows what was true when it was made, and serves no other execution.
    pub once: bool,
}

/// The planner of one instance.
pub struct Planner {
    state: SessionState,
    config: SessionConfig,
    runtime: Arc<RuntimeEnv>,
    pga: Arc<Pga>,
    temp: Arc<TempSpace>,
}

impl Planner {
    /// `memory_bytes` bounds what sorts, joins and aggregations of all sessions hold before they
    /// write to files in `temp_dir` (empty: the system's).
    ///
    /// # Errors
    /// DataFusion's.
    pub fn new(memory_bytes: usize, temp_dir: &str) -> Result<Planner> {
        let (pga, temp) = (Pga::new(memory_bytes), TempSpace::new(temp_dir));
        let runtime = Arc::new(RuntimeEnvBuilder::new().build()?);
        let mut config = SessionConfig::new()
            .with_target_partitions(1)
            .with_batch_size(Pga::batch_rows(memory_bytes))
            .with_information_schema(false)
            .with_create_default_catalog_and_schema(false);
        let options = config.options_mut();
        options.sql_parser.map_string_types_to_utf8view = false;
        options.sql_parser.parse_float_as_decimal = true;
        // See `kept_order`.
        options.sql_parser.enable_subquery_sort_elimination = false;
        options.execution.time_zone = Some(crate::types::UTC.to_owned());
        // Branches of UNION ALL may be columns of two tables: the logical plan says which, the
        // physical one does not.
        options.execution.skip_physical_aggregate_schema_check = true;
        options.execution.sort_spill_reservation_bytes = Pga::sort_merge_bytes(memory_bytes);
        options.optimizer.repartition_joins = false;
        options.optimizer.repartition_aggregations = false;
        options.optimizer.repartition_sorts = false;
        options.optimizer.repartition_windows = false;
        options.optimizer.enable_dynamic_filter_pushdown = false;
        let builder = SessionStateBuilder::new()
            .with_config(config.clone())
            .with_runtime_env(runtime.clone())
            .with_query_planner(Arc::new(crate::apply_exec::QueryPlanner))
            .with_default_features()
            .with_optimizer_rule(Arc::new(IndexExtremes))
            .with_physical_optimizer_rules(physical_rules());
        let state = builder.build();
        let rules = crate::literals::with_plain_literals(state.optimizer().rules.clone());
        let rules = crate::held_filters::with_held_filters(rules);
        let rules = interruptible::with_checks(&rules);
        let builder = SessionStateBuilder::new_from_existing(state).with_optimizer_rules(rules);
        let mut state = builder.build();
        crate::known::keep_known(&mut state)?;
        let env = FormatEnv::plain();
        let mut ours: Vec<_> = builtin_functions(env).into_iter().map(|f| f.into_udf()).collect();
        ours.extend(typed_functions(env).into_iter().map(Typed::into_udf));
        for name in crate::array_functions::KNOWN_ARRAYS {
            ours.push(crate::lists::any_of(name, env));
        }
        ours.extend(crate::lists::placeholders().into_iter().map(RowFunction::into_udf));
        ours.push(crate::ties::amount_function().into_udf());
        ours.push(crate::frames::frame_function().into_udf());
        ours.push(crate::functions::row_uuid_function());
        ours.extend(crate::row_calls::row_functions());
        ours.push(Arc::new(crate::functions::coalesce()));
        ours.push(crate::functions::short());
        ours.push(crate::values::untyped());
        ours.extend(crate::functions::alike());
        ours.push(crate::type_names::pg_typeof());
        ours.push(crate::expand::expand_function());
        ours.push(crate::rows::row_function());
        ours.push(crate::rows::field_function());
        ours.extend(crate::enum_functions::enum_functions());
        for function in ours {
            use datafusion::execution::FunctionRegistry;
            state.register_udf(function)?;
        }
        {
            use datafusion::execution::FunctionRegistry;
            state.register_udaf(crate::single::single_aggregate())?;
            state.register_udaf(crate::group_copies::aggregate())?;
            state.register_udaf(crate::text_lists::of(state.udaf("string_agg")?))?;
            state.register_udwf(crate::frame_places::nth_from_last())?;
            let ours = crate::json_aggregates::aggregates(env)
                .into_iter()
                .chain(crate::statistics::aggregates())
                .chain(crate::ordered_sets::aggregates())
                .chain(crate::keep::aggregates());
            for aggregate in ours {
                state.register_udaf(aggregate)?;
            }
        }
        Ok(Planner { state, config, runtime, pga, temp })
    }

    fn parser_options() -> ParserOptions {
        ParserOptions {
            parse_float_as_decimal: true,
            enable_ident_normalization: true,
            support_varchar_with_length: true,
            enable_options_value_normalization: false,
            collect_spans: false,
            map_string_types_to_utf8view: false,
            default_null_ordering: NullOrdering::NullsMax,
        }
    }

    /// Plans a query that the binder has checked. `params` holds the types known so far.
    ///
    /// # Errors
    /// What DataFusion finds wrong, with a SQLSTATE.
    pub fn plan(
        &self,
        statement: Statement,
        tables: &TableSet,
        params: &[Option<ColType>],
    ) -> Result<PlannedQuery> {
        let _planning = Planning::of(tables.ctx.as_ref(), self.pga.result_bytes());
        let raw = self.raw_plan(statement, tables, params)?;
        // Of the optimised plan some are in nodes of ours.
        let mut views = Vec::new();
        add_views(&raw, &mut views)?;
        interruptible::check()?;
        let raw = object_names::in_result(raw, tables)?;
        let once = is_for_once(&raw)?;
        let raw = crate::row_calls::with_calls(raw)?;
        let params = param_types(&raw, params)?;
        let raw = if params.is_empty() { crate::limits::with_amounts(raw)? } else { raw };
        if raw.schema().fields().len() > TARGETS_MAX {
            let text = format!("target lists can have at most {TARGETS_MAX} entries");
            return Err(PgError::new("54011", text));
        }
        let plan = crate::apply::optimized(&self.state, &raw, params.len())?;
        let columns = result_columns(&raw, &plan);
        let reusable = !has_parameters(&plan)?;
        let zone_name = tables.zone_name.clone();
        Ok(PlannedQuery { plan, columns, params, reusable, zone_name, views, once })
    }

    /// The optimised plan of a query without parameters, with its columns.
    pub(crate) fn key_plan(
        &self,
        statement: Statement,
        tables: &TableSet,
    ) -> Result<(LogicalPlan, Vec<PgColumn>)> {
        let raw = self.raw_plan(statement, tables, &[])?;
        let plan = crate::apply::optimized(&self.state, &raw, 0)?;
        let columns = result_columns(&raw, &plan);
        Ok((plan, columns))
    }

    /// An optimised expression, ready to be computed.
    pub(crate) fn physical_expr(
        &self,
        expr: &Expr,
        schema: &DFSchema,
    ) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(self.state.create_physical_expr(expr.clone(), schema)?)
    }

    fn raw_plan(
        &self,
        statement: Statement,
        tables: &TableSet,
        params: &[Option<ColType>],
    ) -> Result<LogicalPlan> {
        let context = Context::new(&self.state, tables);
        let fields: Vec<Option<FieldRef>> = params
            .iter()
            .map(|ty| ty.map(|ty| Arc::new(field_with_meta("", arrow_type(ty), PgType::of(ty)))))
            .collect();
        let mut planning = PlannerContext::new();
        if !fields.is_empty() {
            planning = planning.with_prepare_param_data_types(fields);
        }
        let to_rel = SqlToRel::new_with_options(&context, Planner::parser_options());
        let raw = to_rel.sql_statement_to_plan_with_context(statement, &mut planning)?;
        crate::outer_aggregates::check(&raw)?;
        let raw = crate::set_columns::with_columns(raw)?;
        let raw = crate::values::with_queries(raw, tables.env)?;
        let raw = crate::set_types::with_set_types(raw, tables.env)?;
        crate::type_rules::check_sets(&raw)?;
        let raw = crate::set_all::with_numbers(raw)?;
        let raw = crate::common_types::with_common_types(raw, tables.env)?;
        let raw = crate::lists::with_arrays(raw, tables.env)?;
        let raw = if params.is_empty() { raw } else { with_parameter_types(raw)? };
        let raw = object_names::in_texts(raw, tables)?;
        crate::type_rules::check(&raw)?;
        let raw = crate::group_copies::with_copies(raw)?;
        let raw = crate::ties::with_ties(raw, tables.env)?;
        let raw = crate::frames::with_frames(raw, tables.env)?;
        let raw = crate::windows::with_any_order(with_order_keys(raw, tables.env)?)?;
        let raw = crate::sure_rows::with_known(raw)?;
        let raw = crate::recursive::with_nullable_subqueries(raw)?;
        let raw = crate::not_in::with_nulls(raw)?;
        Ok(crate::recursive::with_plain_recursion(raw)?)
    }

    /// A view's query as something to select from: it becomes part of the plans that name it. Its
    /// columns are called `names`.
    ///
    /// # Errors
    /// As [`Planner::plan`].
    pub fn view(
        &self,
        statement: Statement,
        tables: &TableSet,
        params: &[Option<ColType>],
        names: &[String],
    ) -> Result<Relation> {
        let raw = self.raw_plan(statement, tables, params)?;
        let columns = raw.schema().columns();
        if columns.len() != names.len() {
            return Err(PgError::internal("a view with other columns than its query"));
        }
        let named = columns.into_iter().zip(names);
        let exprs = named.map(|(column, name)| Expr::Column(column).alias(name.as_str()));
        let plan = LogicalPlanBuilder::from(raw).project(exprs)?.build()?;
        Ok(Relation::Rows(Arc::new(ViewTable::new(plan, None))))
    }

    /// The plan with values in place of its parameters.
    ///
    /// # Errors
    /// DataFusion's.
    pub fn with_values(&self, query: &PlannedQuery, values: &[Value]) -> Result<LogicalPlan> {
        let scalars: Vec<ScalarValue> = values
            .iter()
            .zip(&query.params)
            .map(|(value, ty)| scalar_value_of(value, *ty))
            .collect();
        Ok(crate::limits::with_amounts(query.plan.clone().with_param_values(scalars)?)?)
    }

    /// The plan of a query whose parameters have no values: to be looked at, never to be run.
    ///
    /// # Errors
    /// DataFusion's.
    pub fn without_values(&self, query: &PlannedQuery) -> Result<LogicalPlan> {
        let plan = crate::unbound::without_values(query.plan.clone(), &query.params)?;
        Ok(crate::limits::with_amounts(plan)?)
    }

    /// # Errors
    /// DataFusion's.
    pub async fn physical(&self, plan: &LogicalPlan) -> Result<Arc<dyn ExecutionPlan>> {
        Ok(self.state.query_planner().create_physical_plan(plan, &self.state).await?)
    }

    /// The same of a plan with parameters, which have these values in its first execution: they
    /// say how many rows a range is thought to hold, and nothing else.
    ///
    /// # Errors
    /// DataFusion's.
    pub async fn physical_peeking(
        &self,
        plan: &LogicalPlan,
        values: &[Value],
    ) -> Result<Arc<dyn ExecutionPlan>> {
        crate::peek::during(values, self.physical(plan)).await
    }

    /// The work areas of the instance.
    #[must_use]
    pub fn pga(&self) -> &Arc<Pga> {
        &self.pga
    }

    /// Its temporary files.
    #[must_use]
    pub fn temp_space(&self) -> &Arc<TempSpace> {
        &self.temp
    }

    /// Runs a plan. A plan that has run before is reset first.
    ///
    /// # Errors
    /// DataFusion's.
    pub fn execute(
        &self,
        plan: &Arc<dyn ExecutionPlan>,
        state: Arc<ExecState>,
        again: bool,
    ) -> Result<SendableRecordBatchStream> {
        let plan = if again { reset_plan_states(plan.clone())? } else { plan.clone() };
        let runtime = Arc::new(RuntimeEnv {
            memory_pool: Arc::new(StatementMemory::new(self.pga.clone()).of_session(&state.ctx)),
            disk_manager: Arc::new(self.temp.of_statement(&state.ctx)?),
            cache_manager: self.runtime.cache_manager.clone(),
            object_store_registry: self.runtime.object_store_registry.clone(),
        });
        let ctx = state.ctx.clone();
        let config = self.config.clone().with_extension(state);
        let task = Arc::new(TaskContext::new(
            None,
            String::new(),
            config,
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            HashMap::new(),
            runtime,
        ));
        match plan.output_partitioning().partition_count() {
            1 => Ok(interruptible::of_statement(
                plan.execute(0, task)?,
                ctx,
                self.pga.result_bytes(),
            )),
            _ => Err(PgError::internal("a plan of several partitions")),
        }
    }
}

/// Most columns of a result, as in PostgreSQL.
const TARGETS_MAX: usize = 1664;

/// What a plan's columns are to clients: as they were written, but of the types that branches of
/// CASE and UNION agree on, which only the optimised plan has.
fn result_columns(raw: &LogicalPlan, plan: &LogicalPlan) -> Vec<PgColumn> {
    let (written, agreed) = (raw.schema().fields(), plan.schema().fields());
    debug_assert_eq!(written.len(), agreed.len(), "an optimised plan has the same columns");
    let columns = written.iter().zip(agreed).map(|(written, agreed)| {
        let column = PgColumn::of_field(written);
        let of_result = PgColumn::of_field(agreed);
        let same = written.data_type() == agreed.data_type()
            || (column.col_type().is_some() && column.col_type() == of_result.col_type());
        if same { column } else { PgColumn { name: column.name, ..of_result } }
    });
    columns.collect()
}

/// Readers for the columns of a batch.
///
/// # Errors
/// 0A000 for a type that has no counterpart.
pub fn readers(batch: &RecordBatch) -> Result<Vec<ColumnReader>> {
    let fields = batch.schema_ref().fields();
    batch.columns().iter().zip(fields).map(|(a, f)| ColumnReader::new(a, f)).collect()
}

/// How often each parameter stands elsewhere than beside a value of char(n). One that never does is
/// of that type, for clients and for a plan that is made without the library.
fn not_beside_char(plan: &LogicalPlan) -> Result<HashMap<String, i64>> {
    let cast = cast_name(ColType::new(TypeKind::Char));
    let mut elsewhere: HashMap<String, i64> = HashMap::new();
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                match part {
                    Expr::Placeholder(one) => *elsewhere.entry(one.id.clone()).or_default() += 1,
                    Expr::ScalarFunction(call) if call.name() == cast => {
                        if let [Expr::Placeholder(one)] = &call.args[..] {
                            *elsewhere.entry(one.id.clone()).or_default() -= 1;
                        }
                    }
                    _ => {}
                }
                Ok(TreeNodeRecursion::Continue)
            })
        })
    })?;
    Ok(elsewhere)
}

/// Types of the parameters: as declared, else as DataFusion infers them, else text.
fn param_types(plan: &LogicalPlan, declared: &[Option<ColType>]) -> Result<Vec<ColType>> {
    let inferred = plan.get_parameter_fields()?;
    let elsewhere = if inferred.is_empty() { HashMap::new() } else { not_beside_char(plan)? };
    let mut types: Vec<Option<ColType>> = declared.to_vec();
    for (name, field) in inferred {
        let number: usize = name
            .strip_prefix('$')
            .and_then(|n| n.parse().ok())
            .filter(|n| *n > 0)
            .ok_or_else(|| PgError::new("42P02", format!("there is no parameter {name}")))?;
        if types.len() < number {
            types.resize(number, None);
        }
        let slot = &mut types[number - 1];
        if slot.is_none() {
            *slot = field.and_then(|f| col_type_of(f.data_type()));
            if slot.is_some_and(|ty| ty.kind.is_text()) && elsewhere.get(&name) == Some(&0) {
                *slot = Some(ColType::new(TypeKind::Char));
            }
        }
    }
    Ok(types.into_iter().map(|ty| ty.unwrap_or(ColType::new(TypeKind::Text))).collect())
}

/// Whether a plan calls functions that know what was true when it was made.
fn is_for_once(plan: &LogicalPlan) -> Result<bool> {
    has_part(plan, |_, part| match part {
        Expr::ScalarFunction(call) => is_for_one_plan(&call.func),
        _ => false,
    })
}

/// Whether parameters occur anywhere but in the filters that scans evaluate.
pub(crate) fn has_parameters(plan: &LogicalPlan) -> Result<bool> {
    has_part(plan, |node, part| {
        !matches!(node, LogicalPlan::TableScan(_)) && matches!(part, Expr::Placeholder(_))
    })
}

/// Whether one of these is a part of an expression of a plan, or of a subquery in it.
fn has_part(plan: &LogicalPlan, is_one: impl Fn(&LogicalPlan, &Expr) -> bool) -> Result<bool> {
    let mut found = false;
    plan.apply_with_subqueries(|node| {
        node.apply_expressions(|expr| {
            expr.apply(|part| {
                found |= is_one(node, part);
                Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
            })
        })?;
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Names and functions of one planning.
struct Context<'a> {
    state: &'a SessionState,
    tables: &'a TableSet,
    planners: Vec<Arc<dyn ExprPlanner>>,
    /// Functions of ours that work in the session's time zone, where that is not UTC.
    zoned: BTreeMap<String, Arc<ScalarUDF>>,
    zoned_aggregates: BTreeMap<String, Arc<AggregateUDF>>,
}

impl<'a> Context<'a> {
    fn new(state: &'a SessionState, tables: &'a TableSet) -> Context<'a> {
        let env = tables.env;
        let mut planners: Vec<Arc<dyn ExprPlanner>> = vec![Arc::new(PgExprPlanner::new(env))];
        planners.extend(state.expr_planners().iter().cloned());
        let (mut zoned, mut zoned_aggregates) = (BTreeMap::new(), BTreeMap::new());
        if !env.zone.is_utc() {
            let ours = builtin_functions(env).into_iter().map(|function| function.into_udf());
            let typed = typed_functions(env).into_iter().map(Typed::into_udf);
            let lists = crate::array_functions::KNOWN_ARRAYS;
            let lists = lists.map(|name| crate::lists::any_of(name, env));
            for function in ours.chain(typed).chain(lists) {
                zoned.insert(function.name().to_owned(), function);
            }
            for aggregate in crate::json_aggregates::aggregates(env) {
                zoned_aggregates.insert(aggregate.name().to_owned(), aggregate);
            }
        }
        Context { state, tables, planners, zoned, zoned_aggregates }
    }
}

impl ContextProvider for Context<'_> {
    fn get_table_source(&self, name: TableReference) -> DfResult<Arc<dyn TableSource>> {
        let target = name.catalog() == Some(TARGET_CATALOG);
        let relation = self
            .tables
            .get(name.schema(), name.table())
            .or_else(|| self.tables.get(None, name.table()).filter(|_| target))
            .ok_or_else(|| DataFusionError::from(PgError::undefined_table(name.table())))?;
        Ok(match relation {
            Relation::Table(table) => {
                let size = self.tables.sizes.get(&table.obj).cloned().unwrap_or_default();
                let mut source = TableScanSource::new(table.clone(), target).with_size(size);
                if let Some(hint) = self.tables.hints.get(&table.obj) {
                    source = source.hinted(hint);
                }
                let key = (name.schema().map(str::to_owned), name.table().to_owned());
                source = source.read_as_of(self.tables.past.get(&key).copied());
                provider_as_source(Arc::new(source))
            }
            Relation::Rows(provider) => provider_as_source(provider.clone()),
            Relation::View(view) => {
                let text = format!("view {} was not expanded", view.name);
                return Err(PgError::internal(text).into());
            }
        })
    }

    fn get_table_function_source(
        &self,
        name: &str,
        args: Vec<Expr>,
    ) -> DfResult<Arc<dyn TableSource>> {
        let function =
            self.state.table_functions().get(name).cloned().ok_or_else(|| {
                PgError::new("42883", format!("function {name}(...) does not exist"))
            })?;
        let context = SimplifyContext::builder()
            .with_config_options(Arc::clone(self.state.config_options()))
            .build();
        let simplifier = ExprSimplifier::new(context);
        let schema = DFSchema::empty();
        let args = args
            .into_iter()
            .map(|arg| simplifier.coerce(arg, &schema).and_then(|e| simplifier.simplify(e)))
            .map(|arg| arg.map(widened))
            .collect::<DfResult<Vec<_>>>()?;
        let args = TableFunctionArgs::new(&args, self.state);
        Ok(provider_as_source(function.create_table_provider_with_args(args)?))
    }

    fn create_cte_work_table(
        &self,
        name: &str,
        schema: SchemaRef,
    ) -> DfResult<Arc<dyn TableSource>> {
        Ok(provider_as_source(Arc::new(CteWorkTable::new(name, schema))))
    }

    fn get_expr_planners(&self) -> &[Arc<dyn ExprPlanner>] {
        &self.planners
    }

    fn get_relation_planners(&self) -> &[Arc<dyn RelationPlanner>] {
        self.state.relation_planners()
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::new(PgTypePlanner))
    }

    fn get_function_meta(&self, name: &str) -> Option<Arc<ScalarUDF>> {
        if let Some(function) = self.tables.functions.get(name) {
            return Some(function.clone());
        }
        let known = self.zoned.get(name).or_else(|| self.state.scalar_functions().get(name));
        let found = known.cloned().or_else(|| cast_of(name, self.tables.env));
        let other = || {
            name == "unnest"
                || self.state.aggregate_functions().contains_key(name)
                || self.state.window_functions().contains_key(name)
        };
        found.or_else(|| (!other()).then(|| missing(name)))
    }

    fn get_higher_order_meta(&self, name: &str) -> Option<Arc<HigherOrderUDF>> {
        self.state.higher_order_functions().get(name).cloned()
    }

    fn get_aggregate_meta(&self, name: &str) -> Option<Arc<AggregateUDF>> {
        let zoned = self.zoned_aggregates.get(name);
        zoned.or_else(|| self.state.aggregate_functions().get(name)).cloned()
    }

    fn get_window_meta(&self, name: &str) -> Option<Arc<WindowUDF>> {
        self.state.window_functions().get(name).cloned()
    }

    fn get_variable_type(&self, _names: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        self.state.config_options()
    }

    fn udf_names(&self) -> Vec<String> {
        self.state.scalar_functions().keys().cloned().collect()
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        self.state.higher_order_functions().keys().cloned().collect()
    }

    fn udaf_names(&self) -> Vec<String> {
        self.state.aggregate_functions().keys().cloned().collect()
    }

    fn udwf_names(&self) -> Vec<String> {
        self.state.window_functions().keys().cloned().collect()
    }
}

/// Table functions ask for 64-bit literals where ours are 32 bits wide.
fn widened(expr: Expr) -> Expr {
    match expr {
        Expr::Literal(ScalarValue::Int32(Some(v)), meta) => {
            Expr::Literal(ScalarValue::Int64(Some(i64::from(v))), meta)
        }
        other => other,
    }
}

/// SQL type names as Arrow types, with what Arrow cannot say in the field's metadata.
#[derive(Debug)]
struct PgTypePlanner;

impl TypePlanner for PgTypePlanner {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> DfResult<Option<FieldRef>> {
        let Some(ty) = crate::sqltype::col_type_of_sql(sql_type)? else { return Ok(None) };
        Ok(Some(Arc::new(field_with_meta("", arrow_type(ty), PgType::of(ty)))))
    }
}
