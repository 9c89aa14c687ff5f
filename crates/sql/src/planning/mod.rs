//! From a statement to a plan: the direct path if the shape fits, else DataFusion, else a command.

mod bare_calls;
mod beside;
mod held;
mod modify;
mod through;

pub(crate) use held::Asked;
pub(crate) use modify::{
    Aimed, assigned_pairs, column_default, default_expr, expand_wildcard, hidden_items,
    row_default, set_column, target_factor,
};

pub(crate) use through::{VIEW_CHECK, shown_columns};

use crate::access::{ReadBy, Target};
use crate::bind::{Binder, Params, References, SessionFn, ident_name, shown_name};
use crate::ddl::is_select_into;
use crate::encode::column_of;
use crate::hints::{self, Hints};
use crate::idioms::{exact, past, short};
use crate::parse::{Own, Parsed, Statement};
use crate::plan::{Direct, Kind, Plan, QueryPlan};
use crate::session::Session;
use crate::utility::ExplainOptions;
use crate::{PgError, Result, direct};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, ObjectName, Query, Select, SelectItem, SetExpr, Statement as Ast,
    TableFactor, TableWithJoins,
};
use kernel::dict::{self, Privileges, TableDef};
use kernel::row::{ColType, TypeKind};
use query::types::{col_type_of_oid, oid};
use query::{FixedTable, PgColumn, Relation, TableSet, TableSize};
use std::sync::{Arc, OnceLock};

/// Blocks from which on tasks help to read a table: PostgreSQL's `min_parallel_table_scan_size`.
const PARALLEL_BLOCKS_MIN: u32 = 1_024;

/// Which statements are counted by themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Counted {
    Always,
    /// A statement of procedural code, which gives more than values.
    UnlessValues,
    /// An expression of procedural code: one that reads no table and asks nobody is none.
    UnlessExpression,
}

/// A statement bound for DataFusion.
pub(crate) struct Planned {
    pub(crate) kind: Kind,
    pub(crate) tables: Vec<(ObjId, u64)>,
    pub(crate) columns: Vec<PgColumn>,
    pub(crate) returns_rows: bool,
    pub(crate) once: bool,
}

impl Session {
    pub(crate) async fn make_plan(
        &mut self,
        statement: &Statement,
        declared: &[u32],
    ) -> Result<Plan> {
        let command = |kind, columns: Vec<PgColumn>, returns_rows| Plan {
            kind,
            tables: Vec::new(),
            params: Vec::new(),
            hidden: Vec::new(),
            columns,
            returns_rows,
            views: Vec::new(),
            once: false,
            measured: false,
            hash: OnceLock::new(),
            number: OnceLock::new(),
            cursor: OnceLock::new(),
        };
        let ast = match &statement.parsed {
            Parsed::Empty => return Ok(command(Kind::Empty, Vec::new(), false)),
            Parsed::Own(own) => {
                let columns = match own {
                    Own::ShowParameter(_) => crate::utility::parameter_columns(),
                    Own::Fetch(fetch) => self.cursor_columns(fetch)?,
                    _ => Vec::new(),
                };
                let rows = !columns.is_empty();
                let plan = command(Kind::Own(own.clone()), columns, rows);
                return Ok(match own {
                    // Its parameters are those of the query.
                    Own::Declare(declare) if statement.param_count > 0 => {
                        let query = self.plan_cursor(declare, declared, Asked::Parse);
                        let query = env::boxed!(query).await?;
                        Plan { params: query.params.clone(), ..plan }
                    }
                    _ => plan,
                });
            }
            Parsed::Unparsed | Parsed::Lifted(_) => {
                let parsed = crate::parse::parse_single(&statement.text)?;
                return env::boxed!(self.make_plan(&parsed, declared)).await;
            }
            Parsed::Sql(ast) => ast,
        };
        match &**ast {
            Ast::Query(_) if is_select_into(ast) => {
                let plan = command(Kind::Utility(ast.clone()), Vec::new(), false);
                Ok(Plan { once: true, ..plan })
            }
            Ast::Query(_)
            | Ast::Insert(_)
            | Ast::Update(_)
            | Ast::Delete(_)
            | Ast::Merge(_)
            | Ast::Call(_) => {
                let hints = Hints::of(&statement.text, ast);
                let measured = hints.as_ref().is_some_and(Hints::measure);
                let before = std::mem::replace(&mut self.hints, hints);
                let planned = self.plan_called(ast, statement.param_count, declared).await;
                self.hints = before;
                Ok(Plan { measured, ..planned? })
            }
            Ast::Explain {
                analyze,
                statement: inner,
                verbose,
                describe_alias: _,
                query_plan: false,
                estimate: false,
                format: _,
                options,
            } => {
                let given = options.as_deref().unwrap_or_default();
                let explained = crate::xplan::explained_as(given);
                let (mut inner, mut binds) = (inner.clone(), Vec::new());
                // Whoever looks at a plan need not have declared what its parameters are.
                if explained.is_some() {
                    binds = crate::xplan::number_binds(&mut inner, statement.param_count);
                }
                let inner = Statement {
                    text: Arc::from(format!("{}{inner}", hints::kept(&statement.text))),
                    parsed: Parsed::Sql(inner),
                    param_count: statement.param_count.max(binds.len()),
                    before: statement.before,
                    ..Statement::empty()
                };
                let statement = Box::new(inner);
                if let Some(id) = explained {
                    let kind = Kind::ExplainPlan { id, statement, binds };
                    return Ok(command(kind, Vec::new(), false));
                }
                let options = ExplainOptions::of(*analyze, *verbose, given)?;
                let kind = Kind::Explain { options, statement };
                let shown = if options.json { TypeKind::Json } else { TypeKind::Text };
                let columns = vec![column_of("QUERY PLAN", shown)];
                Ok(command(kind, columns, true))
            }
            other => {
                let columns = self.command_columns(other)?;
                let rows = !columns.is_empty();
                Ok(command(Kind::Utility(ast.clone()), columns, rows))
            }
        }
    }

    /// The statement without idioms of the field; `None`: it has none. `shown`: its rows go to who
    /// asks, and are kept nowhere.
    /// And whether that is so only as long as nobody makes a relation of some name.
    pub(crate) async fn idioms_of(
        &mut self,
        ast: &Ast,
        shown: bool,
    ) -> Result<(Option<Ast>, bool)> {
        let recursive = env::boxed!(self.with_recursion(ast)).await?;
        let ast = recursive.as_ref().unwrap_or(ast);
        let own = match self.is_the_fields(ast).await? {
            true => {
                let mut own = ast.clone();
                exact::as_the_field(&mut own, false);
                if shown {
                    short::shorten(&mut own);
                }
                Some(own)
            }
            false => None,
        };
        let ast = own.as_ref().unwrap_or(ast);
        let routines = self.routines().await?;
        let is_routine = |name: &str| match name.split_once('.') {
            Some((schema, name)) => routines.named(schema, name).next().is_some(),
            None => routines.all.iter().any(|one| one.name == name),
        };
        let once = recursive.is_some();
        Ok((crate::idioms::rewritten(ast, &is_routine)?.or(own).or(recursive), once))
    }

    /// Whether a statement divides or joins, and reads what only the field has.
    async fn is_the_fields(&mut self, ast: &Ast) -> Result<bool> {
        if !exact::differs(ast) {
            return Ok(false);
        }
        let read = exact::read_by(ast);
        if read.own {
            return Ok(true);
        }
        for name in read.shared {
            // Names of WITH, of functions and of users' own tables may begin alike.
            let own = match name == "dual" {
                true => self.find_table(None, &name).await?.is_none(),
                false => {
                    let found = self.find_relation(None, &name).await;
                    crate::workload::is_own_name(&name) || matches!(found, Ok(Relation::Rows(_)))
                }
            };
            if own {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The same as `plan_work`, with names that stand for calls.
    async fn plan_called(&mut self, ast: &Ast, count: usize, declared: &[u32]) -> Result<Plan> {
        let mut planned = self.plan_work(ast, count, declared).await;
        let mut own = None;
        // Each turn finds one name: there are as many as the statement has.
        while let Err(error) = &planned {
            let known = own.as_ref().unwrap_or(ast);
            let Some(next) = env::boxed!(self.with_bare_calls(known, error)).await? else { break };
            planned = self.plan_work(&next, count, declared).await;
            own = Some(next);
        }
        planned
    }

    /// Plans a query, INSERT, UPDATE or DELETE.
    async fn plan_work(&mut self, ast: &Ast, count: usize, declared: &[u32]) -> Result<Plan> {
        past::check(ast)?;
        let (own, once) = self.idioms_of(ast, true).await?;
        let ast = own.as_ref().unwrap_or(ast);
        let without = without_dual(ast);
        let ast = without.as_ref().unwrap_or(ast);
        let with_records = env::boxed!(self.settle_records(ast)).await?;
        let ast = with_records.as_ref().unwrap_or(ast);
        // Without types of users' own none is named: no copy of the statement is made then.
        let (mut settled, mut named) = (None, None);
        if !self.user_types().await?.all.is_empty() {
            let mut own = ast.clone();
            named = env::boxed!(self.settle_types(&mut own)).await?;
            settled = named.is_some().then_some(own);
        }
        let ast = settled.as_ref().unwrap_or(ast);
        let with_rows = env::boxed!(self.settle_rows(ast)).await?;
        let ast = with_rows.as_ref().unwrap_or(ast);
        let mut types = Vec::with_capacity(declared.len());
        for oid in declared {
            types.push(match env::boxed!(self.type_of_oid(*oid)).await? {
                None => declared_type(*oid)?,
                own => own,
            });
        }
        let mut params = Params::new(types, count);
        let mut named: Vec<(ObjId, u64)> = named.into_iter().collect();
        let (mut own, mut in_from) = (None, false);
        if !self.routines().await?.all.is_empty() {
            params.routines = Some(self.routines().await?);
            own = env::boxed!(self.set_alone(ast)).await?;
            let ast = own.as_ref().unwrap_or(ast);
            in_from = env::boxed!(self.calls_in_from(ast)).await?;
            if let Some((settled, tables)) = env::boxed!(self.settle_routines(ast, false)).await? {
                named.extend(tables);
                own = Some(settled);
            }
        }
        let ast = own.as_ref().unwrap_or(ast);
        if let Ast::Call(function) = ast {
            let mut planned = env::boxed!(self.plan_call(function, &mut params)).await?;
            planned.tables.extend(named);
            planned.once |= once;
            let inferred = planned.kind.param_types();
            return Ok(planned.into_plan(params, inferred));
        }
        if let Some(mut planned) = self.plan_direct(ast, &mut params).await? {
            planned.tables.extend(named);
            planned.once |= once;
            return Ok(planned.into_plan(params, None));
        }
        if let Some(mut planned) =
            env::boxed!(self.plan_parts_first(ast, in_from, &mut params)).await?
        {
            planned.tables.extend(named);
            planned.once |= once;
            let inferred = planned.kind.param_types();
            return Ok(planned.into_plan(params, inferred));
        }
        let mut planned = match ast {
            Ast::Query(query) => match env::boxed!(self.plan_with(query, &mut params)).await? {
                Some(planned) => planned,
                None => env::boxed!(self.plan_query(query, &mut params)).await?,
            },
            Ast::Update(update) => env::boxed!(self.plan_update(update, &mut params)).await?,
            Ast::Delete(delete) => env::boxed!(self.plan_delete(delete, &mut params)).await?,
            Ast::Insert(insert) => {
                env::boxed!(self.plan_insert_select(insert, &mut params)).await?
            }
            Ast::Merge(merge) => env::boxed!(self.plan_merge(merge, &mut params)).await?,
            _ => return Err(PgError::internal("a statement without a plan")),
        };
        planned.tables.extend(named);
        planned.once |= once;
        let inferred = planned.kind.param_types();
        Ok(planned.into_plan(params, inferred))
    }

    /// Plans a statement without DataFusion, if its shape allows.
    pub(crate) async fn plan_direct(
        &mut self,
        ast: &Ast,
        known: &mut Params,
    ) -> Result<Option<Planned>> {
        let Some(shape) = direct::shape(ast) else { return Ok(None) };
        let hinted = self.hints.as_ref().is_some_and(Hints::tell_access);
        if hinted && !matches!(ast, Ast::Insert(_)) {
            return Ok(None);
        }
        let mut params = known.clone();
        let mut tables = Vec::new();
        let mut once = false;
        let bound = match shape {
            None => direct::bind_values(ast, &mut params)?,
            Some(one) => {
                let found = self.find_relation(one.schema.as_deref(), &one.name).await?;
                let Relation::Table(table) = found else { return Ok(None) };
                tables.extend(self.roles_version().await?);
                if one.schema.is_none() {
                    tables.push(self.path_version().await?);
                    once = !self.is_first(&table.schema).await?;
                } else if !tables.is_empty() {
                    // Who may use the schema stands in the list of schemas.
                    tables.push(self.path_version().await?);
                }
                tables.push((table.obj, table.version));
                if !env::boxed!(self.may_directly(ast, &table, &one.alias)).await? {
                    return Ok(None);
                }
                direct::bind(ast, &table, &one.alias, &mut params)?
            }
        };
        let Some(mut bound) = bound else { return Ok(None) };
        if let (Ast::Insert(insert), Direct::Insert { table, conflict, .. }) =
            (ast, &mut bound.direct)
        {
            let alias = direct::insert_target(insert)?.alias;
            let planned =
                env::boxed!(self.plan_conflict(insert, table, &alias, &mut params)).await?;
            if let Some(planned) = planned {
                *conflict = Some(Box::new(planned.clause));
                tables.extend(planned.tables);
                once |= planned.once;
            }
        }
        *known = params;
        Ok(Some(Planned {
            kind: Kind::Direct(Box::new(bound.direct)),
            tables,
            columns: bound.columns,
            returns_rows: bound.returns_rows,
            once,
        }))
    }

    /// The relations of a bound statement.
    pub(crate) async fn relations(
        &mut self,
        references: &References,
        params: &mut Params,
    ) -> Result<(TableSet, Vec<(ObjId, u64)>, bool)> {
        let mut set =
            TableSet::new(self.format_env(), &self.settings.zone_name).of_session(&self.ctx);
        let mut tables = Vec::new();
        let mut once = false;
        let roles = self.roles_version().await?;
        if roles.is_some() || references.relations.iter().any(|(schema, _)| schema.is_none()) {
            tables.push(self.path_version().await?);
        }
        tables.extend(roles);
        let mut read_by = references.read_by.clone();
        for (schema, name) in &references.relations {
            // What a view names is not what stands in the statement's WITH.
            if let (0, None, Some(given)) = (self.view_depth, schema, self.given_relation(name)?) {
                set.insert(None, name, given);
                continue;
            }
            let asked = |param: usize| {
                let at = param.checked_sub(params.types.len());
                let call = at.and_then(|at| params.hidden.get(at));
                call.is_some_and(|call| call.function == SessionFn::PastScn)
            };
            let past = past::of_name(name).filter(|(param, _)| asked(*param));
            let shown = past.map_or(name.as_str(), |(_, shown)| shown);
            let mut relation = self.find_relation(schema.as_deref(), shown).await?;
            if let Some((param, _)) = past {
                if self.view_depth == 0 && self.given_relation(shown)?.is_some() {
                    return Err(PgError::unsupported("AS OF of a query of WITH"));
                }
                let Relation::Table(_) = &relation else {
                    return Err(PgError::unsupported("AS OF of what is not a table")
                        .with_hint("Ask the tables that the view reads."));
                };
                set.set_as_of(schema.as_deref(), name, param);
            }
            if let Relation::Table(def) | Relation::View(def) = &relation {
                tables.push((def.obj, def.version));
                once |= schema.is_none() && !self.is_first(&def.schema).await?;
                let key = (schema.clone(), name.clone());
                if references.target.as_ref() != Some(&key) {
                    env::boxed!(self.check_read(def, &mut read_by)).await?;
                }
            }
            match &relation {
                Relation::Table(table) => {
                    let mut size = self.table_size(table).await?;
                    // Hints speak of the statement's own tables, not of those of a view.
                    if let Some(hints) = self.hints.as_ref().filter(|_| self.view_depth == 0) {
                        size.workers = hints.workers().unwrap_or(size.workers);
                        if let Some(hint) = hints.about(schema.as_deref(), shown) {
                            set.set_hint(table.obj, hint.clone());
                        }
                    }
                    set.set_size(table.obj, size);
                }
                Relation::Rows(rows) => {
                    let fixed = rows.downcast_ref::<FixedTable>();
                    once |= fixed.and_then(FixedTable::view).is_none();
                }
                Relation::View(view) => {
                    let view = view.clone();
                    let expanded = env::boxed!(self.expand_view(&view, params)).await?;
                    relation = expanded.0;
                    tables.extend(expanded.1);
                    once |= expanded.2;
                }
            }
            set.insert(schema.as_deref(), name, relation);
        }
        if references.catalog_functions {
            for function in env::boxed!(self.catalog_functions()).await? {
                set.add_function(function);
            }
        }
        for (name, candidates) in &references.routines {
            let routines = params.routines.clone();
            let routines = routines.ok_or_else(|| PgError::internal("no routines"))?;
            let mask: Vec<bool> =
                name.chars().skip_while(|c| *c != ':').skip(1).map(|c| c == '1').collect();
            let candidates = candidates.clone();
            let choose = move |types: &[Option<ColType>]| {
                let known = |(i, ty): (usize, &Option<ColType>)| {
                    ty.filter(|_| !mask.get(i).copied().unwrap_or(false))
                };
                let types: Vec<Option<ColType>> = types.iter().enumerate().map(known).collect();
                let def = crate::routines::choose(&routines, &candidates, &types)?;
                let called = crate::routines::RoutineRef::of(def)?;
                Ok((called.obj.0, called.result))
            };
            set.add_function(query::row_calls::routine_function(name, Arc::new(choose)));
        }
        if references.sizes {
            once = true;
            for function in env::boxed!(self.size_functions()).await? {
                set.add_function(function);
            }
        }
        Ok((set, tables, once))
    }

    /// Whether the role may do on a whole table what a statement of the direct path does; if not,
    /// the other way looks at the columns.
    async fn may_directly(
        &mut self,
        ast: &Ast,
        table: &Arc<TableDef>,
        alias: &str,
    ) -> Result<bool> {
        if table.materialized.is_some() {
            match ast {
                Ast::Query(query) if !query.locks.is_empty() => return Err(no_locks(table)),
                Ast::Query(_) => crate::ddl::check_populated(table)?,
                _ => self.check_changes(table, Privileges::UPDATE)?,
            }
        }
        if self.identity.role == dict::SUPERUSER_OBJ {
            return Ok(true);
        }
        let select = Privileges::SELECT;
        let wanted = match ast {
            Ast::Query(query) if query.locks.is_empty() => select,
            Ast::Query(_) | Ast::Update(_) => select.with(Privileges::UPDATE),
            Ast::Delete(_) => select.with(Privileges::DELETE),
            Ast::Insert(insert) => {
                let columns = direct::insert_columns(insert, table)?;
                let target = Target {
                    table,
                    wanted: Privileges::INSERT,
                    columns: Some(&columns),
                    reads: self.reads_of_target(
                        table,
                        alias,
                        Vec::new(),
                        insert.returning.as_deref(),
                        None,
                    )?,
                };
                self.check_target(target).await?;
                return Ok(true);
            }
            _ => return Ok(false),
        };
        Ok(self.held_on(table).await?.has(wanted))
    }

    /// A query as it was written, for who may have to be asked about its columns.
    fn read_by(&self, query: &Query) -> ReadBy {
        match self.identity.role == dict::SUPERUSER_OBJ && self.check_as.is_none() {
            true => ReadBy::Unknown,
            false => ReadBy::Query(Box::new(query.clone())),
        }
    }

    /// What a statement reads of the table that it changes, as a query.
    pub(crate) fn reads_of_target(
        &self,
        table: &TableDef,
        alias: &str,
        exprs: Vec<Expr>,
        returning: Option<&[SelectItem]>,
        rest: Option<(Vec<TableWithJoins>, Option<Expr>)>,
    ) -> Result<Option<Query>> {
        if self.identity.role == dict::SUPERUSER_OBJ {
            return Ok(None);
        }
        let mut items: Vec<SelectItem> = exprs.into_iter().map(SelectItem::UnnamedExpr).collect();
        items.extend(returning.unwrap_or_default().iter().cloned());
        let (more, selection) = rest.unwrap_or_default();
        let name = ObjectName::from(vec![quoted(&table.schema), quoted(&table.name)]);
        let TableFactor::Table { alias: alias_of, .. } = target_factor(table, alias) else {
            return Err(PgError::internal("a target that is no table"));
        };
        let mut relation = target_factor(table, alias);
        if let TableFactor::Table { name: target, alias, .. } = &mut relation {
            (*target, *alias) = (name, alias_of);
        }
        let mut from = vec![TableWithJoins { relation, joins: Vec::new() }];
        from.extend(more);
        select_query(items, from, selection).map(Some)
    }

    /// How large the table is now; a table dropped meanwhile has no size.
    async fn table_size(&mut self, table: &TableDef) -> Result<TableSize> {
        let core = &self.instance.core;
        match kernel::table::blocks(&self.ctx, core, table).await {
            Ok((blocks, indexes)) => {
                let size = TableSize::of_blocks(table, block::BLOCK_BYTES, blocks, &indexes);
                let txn = self.transaction()?;
                let stats = env::boxed!(dict::statistics(&self.ctx, &txn, table)).await?;
                let large = blocks >= PARALLEL_BLOCKS_MIN;
                let workers = if large { self.settings.workers } else { 0 };
                Ok(TableSize { workers, ..size.with_stats(stats) })
            }
            Err(kernel::Error::ObjectGone) => Ok(TableSize::default()),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) async fn plan_query(
        &mut self,
        query: &Query,
        params: &mut Params,
    ) -> Result<Planned> {
        let mut query = query.clone();
        let lock = if query.locks.is_empty() {
            None
        } else {
            Some(self.take_lock_clause(&mut query, params).await?)
        };
        let env = self.format_env();
        let read_by = self.read_by(&query);
        let mut binder = Binder::new(params, &env);
        binder.bind_query(&mut query)?;
        let references = References { read_by, ..binder.references };
        if let Some(lock) = &lock {
            for target in &lock.rows.targets {
                if target.table.materialized.is_some() {
                    return Err(no_locks(&target.table));
                }
                env::boxed!(self.check_columns(&target.table, Privileges::UPDATE, &[])).await?;
            }
            lock.add_hidden_columns(&mut query)?;
        }
        let (mut set, tables, once) = self.relations(&references, params).await?;
        for target in lock.iter().flat_map(|lock| &lock.rows.targets) {
            // The definition at hand, whatever the name stands for by now.
            let table = &target.table;
            set.insert(Some(&table.schema), &table.name, Relation::Table(table.clone()));
        }
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &set, &params.all_types())?;
        let mut columns = planned.columns.clone();
        if let Some(lock) = &lock {
            columns.truncate(columns.len().saturating_sub(2 * lock.rows.targets.len()));
        }
        for column in &mut columns {
            column.name = shown_name(&column.name).to_owned();
        }
        let mut plan = QueryPlan::new(planned);
        plan.lock = lock.map(|lock| lock.rows);
        Ok(Planned { kind: Kind::Query(Box::new(plan)), tables, columns, returns_rows: true, once })
    }
}

impl Planned {
    fn into_plan(self, params: Params, inferred: Option<Vec<ColType>>) -> Plan {
        let (inferred, text) = (inferred.unwrap_or_default(), ColType::new(TypeKind::Text));
        let types = params.types.iter().enumerate();
        let params_types =
            types.map(|(i, ty)| ty.or(inferred.get(i).copied()).unwrap_or(text)).collect();
        let (mut views, mut once) = (Vec::new(), self.once);
        self.kind.each_query(&mut |query| {
            once |= query.once;
            for view in &query.views {
                if !views.contains(view) {
                    views.push(view.clone());
                }
            }
        });
        Plan {
            kind: self.kind,
            tables: self.tables,
            params: params_types,
            hidden: params.hidden,
            columns: self.columns,
            returns_rows: self.returns_rows,
            views,
            once,
            measured: false,
            hash: OnceLock::new(),
            number: OnceLock::new(),
            cursor: OnceLock::new(),
        }
    }
}

/// The same query or INSERT without `FROM dual`, if that is all its query has there.
fn without_dual(ast: &Ast) -> Option<Ast> {
    match ast {
        Ast::Query(query) => query_without_dual(query).map(Ast::Query),
        Ast::Insert(insert) => {
            let source = query_without_dual(insert.source.as_deref()?)?;
            let mut insert = insert.clone();
            insert.source = Some(source);
            Some(Ast::Insert(insert))
        }
        _ => None,
    }
}

fn query_without_dual(query: &Query) -> Option<Box<Query>> {
    let SetExpr::Select(select) = &*query.body else { return None };
    let [one] = &select.from[..] else { return None };
    let TableFactor::Table { name, alias: None, args: None, .. } = &one.relation else {
        return None;
    };
    let name = crate::bind::table_parts(name).ok()?;
    let wildcard = |item: &SelectItem| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => {
            matches!(expr, Expr::Identifier(ident) if ident_name(ident) == "dummy")
        }
        _ => true,
    };
    if name != (None, "dual".to_owned())
        || !one.joins.is_empty()
        || select.projection.iter().any(wildcard)
    {
        return None;
    }
    let mut query = Box::new(query.clone());
    if let SetExpr::Select(select) = &mut *query.body {
        select.from.clear();
    }
    Some(query)
}

/// 42809 for locks on rows of a materialized view.
fn no_locks(table: &TableDef) -> PgError {
    let text = format!("cannot lock rows in materialized view \"{}\"", table.name);
    PgError::new("42809", text)
}

fn declared_type(declared: u32) -> Result<Option<ColType>> {
    if declared == 0 || declared == oid::UNKNOWN {
        return Ok(None);
    }
    col_type_of_oid(declared)
        .map(Some)
        .ok_or_else(|| PgError::unsupported(format!("a parameter of type {declared}")))
}

/// A parameter that stands alone takes the type of its column.
pub(crate) fn note_parameter(expr: &Expr, ty: ColType, params: &mut Params) -> Result<()> {
    if let Expr::Value(value) = expr
        && let ast::Value::Placeholder(name) = &value.value
    {
        let at = crate::bind::placeholder_index(name)?;
        if let Some(slot @ None) = params.types.get_mut(at) {
            *slot = Some(ty.without_limit());
        }
    }
    Ok(())
}

pub(crate) fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// `SELECT items FROM from WHERE selection`.
pub(crate) fn select_query(
    items: Vec<SelectItem>,
    from: Vec<TableWithJoins>,
    selection: Option<Expr>,
) -> Result<Query> {
    let Parsed::Sql(ast) = crate::parse::parse_single("select 1")?.parsed else {
        return Err(PgError::internal("no skeleton"));
    };
    let Ast::Query(mut query) = *ast else { return Err(PgError::internal("no skeleton")) };
    if let SetExpr::Select(select) = &mut *query.body {
        let select: &mut Select = select;
        select.projection = items;
        select.from = from;
        select.selection = selection;
    }
    Ok(*query)
}
