//! From a statement to a plan: the direct path if the shape fits, else DataFusion, else a command.

use crate::bind::{Binder, Params, References, ident_name, shown_name};
use crate::cache::PlanKey;
use crate::ddl::{Verb, is_select_into};
use crate::encode::column_of;
use crate::generated::{Overriding, check_assigned, given_counts};
use crate::parse::{Own, Parsed, Statement};
use crate::plan::{Direct, InsertSelect, Kind, LockRows, ModifyPlan, Plan, QueryPlan, RowDefault};
use crate::returning::Returning;
use crate::session::Session;
use crate::{PgError, Result, direct};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, Expr, FromTable, Ident, ObjectName, Query, Select, SelectItem, SetExpr,
    Statement as Ast, TableAlias, TableFactor, TableWithJoins, UpdateTableFromKind,
    visit_expressions,
};
use kernel::dict::{ColumnDef, Generated, TableDef};
use kernel::row::{ColType, TypeKind};
use observe::Stat;
use query::types::{col_type_of_oid, oid};
use query::{
    PgColumn, ROW_COLUMN, ROWID_COLUMN, Relation, Scalar, TARGET_CATALOG, TableSet, TableSize,
};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Whether a statement may have a literal like `'now'`, which is read when it is planned.
fn names_the_clock(text: &str) -> bool {
    const WORDS: [&str; 4] = ["now", "today", "tomorrow", "yesterday"];
    text.split('\'').skip(1).any(|part| {
        let word = part.trim();
        WORDS.iter().any(|known| known.eq_ignore_ascii_case(word))
    })
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
    /// The plan of a statement, from the cache if it is there and current.
    pub(crate) async fn plan_for(
        &mut self,
        statement: &Statement,
        declared: &[u32],
    ) -> Result<Arc<Plan>> {
        self.ctx.bump(Stat::ParseCountTotal, 1);
        let cached = matches!(&statement.parsed, Parsed::Sql(ast)
        if matches!(
            **ast,
            Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) | Ast::Merge(_)
        ));
        if !cached {
            return self.make_plan(statement, declared).await.map(Arc::new);
        }
        let key = self.plan_key(statement.text.clone(), declared);
        if let Some(plan) = self.database.cache.get(&key)
            && self.is_current(&plan)
        {
            return Ok(plan);
        }
        self.ctx.bump(Stat::ParseCountHard, 1);
        let mut plan = self.make_plan(statement, declared).await?;
        plan.once |= plan.zone_name().is_some() && names_the_clock(&statement.text);
        let plan = Arc::new(plan);
        if !plan.once {
            self.database.cache.put(key, plan.clone());
        }
        Ok(plan)
    }

    pub(crate) fn plan_key(&self, text: Arc<str>, declared: &[u32]) -> PlanKey {
        PlanKey { text, param_oids: declared.to_vec(), session: self.plan_context.clone() }
    }

    /// Whether the tables of a plan are as they were when it was made.
    pub(crate) fn is_current(&self, plan: &Plan) -> bool {
        if plan.zone_name().is_some_and(|zone| *zone != *self.settings.zone_name) {
            return false;
        }
        let Some(txn) = &self.txn else { return plan.tables.is_empty() };
        let current =
            |(obj, version): &(ObjId, u64)| kernel::dict::is_current(&txn.handle, *obj, *version);
        plan.tables.iter().all(current)
    }

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
            once: false,
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
                return Ok(command(Kind::Own(own.clone()), columns, rows));
            }
            Parsed::Sql(ast) => ast,
        };
        match &**ast {
            Ast::Query(_) if is_select_into(ast) => {
                let plan = command(Kind::Utility(ast.clone()), Vec::new(), false);
                Ok(Plan { once: true, ..plan })
            }
            Ast::Query(_) | Ast::Insert(_) | Ast::Update(_) | Ast::Delete(_) | Ast::Merge(_) => {
                self.plan_work(ast, statement.param_count, declared).await
            }
            Ast::Explain {
                analyze,
                statement: inner,
                verbose: _,
                describe_alias: _,
                query_plan: false,
                estimate: false,
                format: _,
                options,
            } => {
                let asked = options.iter().flatten().any(|o| ident_name(&o.name) == "analyze");
                let inner = Statement {
                    text: Arc::from(inner.to_string()),
                    parsed: Parsed::Sql(inner.clone()),
                    param_count: statement.param_count,
                };
                let kind = Kind::Explain { analyze: *analyze || asked, statement: Box::new(inner) };
                let columns = vec![column_of("QUERY PLAN", TypeKind::Text)];
                Ok(command(kind, columns, true))
            }
            other => {
                let columns = self.command_columns(other)?;
                let rows = !columns.is_empty();
                Ok(command(Kind::Utility(ast.clone()), columns, rows))
            }
        }
    }

    /// Plans a query, INSERT, UPDATE or DELETE.
    async fn plan_work(&mut self, ast: &Ast, count: usize, declared: &[u32]) -> Result<Plan> {
        let without = without_dual(ast);
        let ast = without.as_ref().unwrap_or(ast);
        let types = declared.iter().map(|oid| declared_type(*oid)).collect::<Result<Vec<_>>>()?;
        let mut params = Params::new(types, count);
        if let Some(planned) = self.plan_direct(ast, &mut params).await? {
            return Ok(planned.into_plan(params, None));
        }
        let planned = match ast {
            Ast::Query(query) => match Box::pin(self.plan_with(query, &mut params)).await? {
                Some(planned) => planned,
                None => Box::pin(self.plan_query(query, &mut params)).await?,
            },
            Ast::Update(update) => Box::pin(self.plan_update(update, &mut params)).await?,
            Ast::Delete(delete) => Box::pin(self.plan_delete(delete, &mut params)).await?,
            Ast::Insert(insert) => Box::pin(self.plan_insert_select(insert, &mut params)).await?,
            Ast::Merge(merge) => Box::pin(self.plan_merge(merge, &mut params)).await?,
            _ => return Err(PgError::internal("a statement without a plan")),
        };
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
        let mut params = known.clone();
        let mut tables = Vec::new();
        let mut once = false;
        let bound = match shape {
            None => direct::bind_values(ast, &mut params)?,
            Some(one) => {
                let found = self.find_relation(one.schema.as_deref(), &one.name).await?;
                let Relation::Table(table) = found else { return Ok(None) };
                if one.schema.is_none() {
                    tables.push(self.path_version().await?);
                    once = !self.is_first(&table.schema).await?;
                }
                tables.push((table.obj, table.version));
                direct::bind(ast, &table, &one.alias, &mut params)?
            }
        };
        let Some(mut bound) = bound else { return Ok(None) };
        if let (Ast::Insert(insert), Direct::Insert { table, conflict, .. }) =
            (ast, &mut bound.direct)
        {
            let alias = direct::insert_target(insert)?.alias;
            let planned = Box::pin(self.plan_conflict(insert, table, &alias, &mut params)).await?;
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
        let mut set = TableSet::new(self.format_env(), &self.settings.zone_name);
        let mut tables = Vec::new();
        let mut once = references.catalog_functions;
        if references.relations.iter().any(|(schema, _)| schema.is_none()) {
            tables.push(self.path_version().await?);
        }
        for (schema, name) in &references.relations {
            // What a view names is not what stands in the statement's WITH.
            if let (0, None, Some(given)) = (self.view_depth, schema, self.given_relation(name)?) {
                set.insert(None, name, given);
                continue;
            }
            let mut relation = self.find_relation(schema.as_deref(), name).await?;
            if let Relation::Table(def) | Relation::View(def) = &relation {
                tables.push((def.obj, def.version));
                once |= schema.is_none() && !self.is_first(&def.schema).await?;
            }
            match &relation {
                Relation::Table(table) => set.set_size(table.obj, self.table_size(table).await?),
                Relation::Rows(_) => once = true,
                Relation::View(view) => {
                    let view = view.clone();
                    let expanded = Box::pin(self.expand_view(&view, params)).await?;
                    relation = expanded.0;
                    tables.extend(expanded.1);
                    once |= expanded.2;
                }
            }
            set.insert(schema.as_deref(), name, relation);
        }
        if references.catalog_functions {
            for function in self.catalog_functions().await? {
                set.add_function(function);
            }
        }
        Ok((set, tables, once))
    }

    /// How large the table is now; a table dropped meanwhile has no size.
    async fn table_size(&mut self, table: &TableDef) -> Result<TableSize> {
        let core = &self.instance.core;
        match kernel::table::blocks(&self.ctx, core, table).await {
            Ok((blocks, indexes)) => {
                Ok(TableSize::of_blocks(table, block::BLOCK_BYTES, blocks, &indexes))
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
        let mut binder = Binder::new(params, &env);
        binder.bind_query(&mut query)?;
        let references = binder.references;
        if let Some(lock) = &lock {
            add_hidden_columns(&mut query, &lock.table)?;
        }
        let (set, tables, once) = self.relations(&references, params).await?;
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &set, &params.all_types())?;
        let mut columns = planned.columns.clone();
        if lock.is_some() {
            columns.truncate(columns.len().saturating_sub(2));
        }
        for column in &mut columns {
            column.name = shown_name(&column.name).to_owned();
        }
        let mut plan = QueryPlan::new(planned);
        plan.lock = lock;
        Ok(Planned { kind: Kind::Query(Box::new(plan)), tables, columns, returns_rows: true, once })
    }

    /// Takes FOR UPDATE and LIMIT off the query: rows are locked, then counted.
    async fn take_lock_clause(
        &mut self,
        query: &mut Query,
        params: &mut Params,
    ) -> Result<LockRows> {
        let refuse = |what: &str| {
            Err(PgError::new("0A000", format!("FOR UPDATE is not allowed with {what}")))
        };
        let SetExpr::Select(select) = &*query.body else {
            return refuse("UNION/INTERSECT/EXCEPT or VALUES");
        };
        if select.distinct.is_some() {
            return refuse("DISTINCT clause");
        }
        let grouped =
            !matches!(&select.group_by, ast::GroupByExpr::Expressions(all, _) if all.is_empty());
        if grouped || select.having.is_some() {
            return refuse("GROUP BY clause");
        }
        let [one] = &select.from[..] else { return refuse("several tables in FROM") };
        let TableFactor::Table { name, alias, args: None, .. } = &one.relation else {
            return refuse("something else than a table in FROM");
        };
        if !one.joins.is_empty() {
            return refuse("a join");
        }
        let (schema, name) = crate::bind::table_parts(name)?;
        let alias = alias.as_ref().map_or_else(|| name.clone(), |a| ident_name(&a.name));
        let kind = direct::lock_kind(query, &alias)?
            .ok_or_else(|| PgError::internal("a query without a lock clause"))?;
        let Relation::Table(table) = self.find_relation(schema.as_deref(), &name).await? else {
            return refuse("a view");
        };
        query.locks.clear();
        let (mut limit, mut offset) = (None, None);
        if let Some(clause) = query.limit_clause.take() {
            let ast::LimitClause::LimitOffset { limit: l, offset: o, limit_by } = clause else {
                return refuse("this form of LIMIT");
            };
            if !limit_by.is_empty() {
                return refuse("LIMIT BY");
            }
            let mut scalar = |expr: Option<Expr>| -> Result<Option<Scalar>> {
                let Some(expr) = expr else { return Ok(None) };
                let int8 = ColType::new(TypeKind::Int8);
                let mut binder = crate::bind::scalar::ScalarBinder::constants(params);
                let bound = binder.bind_assignment(&expr, int8)?;
                bound.map(Some).ok_or_else(|| PgError::unsupported("this LIMIT with FOR UPDATE"))
            };
            limit = scalar(l)?;
            offset = scalar(o.map(|o| o.value))?;
        }
        Ok(LockRows { table, kind, limit, offset })
    }

    /// The target of UPDATE or DELETE and the name it goes by.
    pub(crate) async fn target(
        &mut self,
        from: &TableWithJoins,
        verb: Verb,
    ) -> Result<(Arc<TableDef>, String, TableFactor)> {
        if !from.joins.is_empty() {
            return Err(PgError::syntax("syntax error at or near \"JOIN\""));
        }
        let TableFactor::Table { name, alias, args: None, .. } = &from.relation else {
            return Err(PgError::syntax("a table name is expected"));
        };
        let (schema, name) = crate::bind::table_parts(name)?;
        let alias = alias.as_ref().map_or_else(|| name.clone(), |a| ident_name(&a.name));
        match self.find_relation(schema.as_deref(), &name).await? {
            Relation::Table(table) => {
                let factor = target_factor(&table, &alias);
                Ok((table, alias, factor))
            }
            Relation::Rows(_) => {
                Err(PgError::new("42809", format!("cannot change view \"{name}\"")))
            }
            Relation::View(view) => Err(crate::ddl::not_updatable(&view, verb)),
        }
    }

    pub(crate) async fn plan_update(
        &mut self,
        update: &ast::Update,
        params: &mut Params,
    ) -> Result<Planned> {
        if update.output.is_some()
            || update.or.is_some()
            || !update.order_by.is_empty()
            || update.limit.is_some()
        {
            return Err(PgError::unsupported("this form of UPDATE"));
        }
        let (table, alias, factor) = self.target(&update.table, Verb::Update).await?;
        let mut set = Vec::new();
        let mut items = hidden_items(&alias);
        for assignment in &update.assignments {
            for (name, value) in assigned_pairs(assignment)? {
                let at = direct::assigned_column(name, &table)?;
                if !direct::is_default(&value) {
                    check_assigned(&table.columns[at])?;
                }
                if set.contains(&at) {
                    return Err(direct::assigned_twice(&table.columns[at].name));
                }
                let expr = if direct::is_default(&value) {
                    let null = Expr::Value(ast::Value::Null.into());
                    direct::default_of(&table, at)?.unwrap_or(null)
                } else {
                    value.into_owned()
                };
                note_parameter(&expr, table.columns[at].ty, params)?;
                let alias = Ident::with_quote('"', format!("$set{at}"));
                items.push(SelectItem::ExprWithAlias { expr, alias });
                set.push(at);
            }
        }
        let mut from = Vec::new();
        match &update.from {
            None => {}
            Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => {
                from.extend(more.iter().cloned());
            }
        }
        let work = Work { table, alias, factor, from, items, set: Some(set) };
        let selection = update.selection.clone();
        self.plan_modify(work, selection, update.returning.as_deref(), params).await
    }

    pub(crate) async fn plan_delete(
        &mut self,
        delete: &ast::Delete,
        params: &mut Params,
    ) -> Result<Planned> {
        if !delete.tables.is_empty()
            || delete.output.is_some()
            || !delete.order_by.is_empty()
            || delete.limit.is_some()
        {
            return Err(PgError::unsupported("this form of DELETE"));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [one] = &from[..] else {
            return Err(PgError::unsupported("DELETE from several tables"));
        };
        let (table, alias, factor) = self.target(one, Verb::Delete).await?;
        let items = hidden_items(&alias);
        let from = delete.using.clone().unwrap_or_default();
        let work = Work { table, alias, factor, from, items, set: None };
        let selection = delete.selection.clone();
        self.plan_modify(work, selection, delete.returning.as_deref(), params).await
    }

    async fn plan_modify(
        &mut self,
        work: Work,
        selection: Option<Expr>,
        returning: Option<&[SelectItem]>,
        params: &mut Params,
    ) -> Result<Planned> {
        let Work { table, alias, factor, mut from, mut items, set } = work;
        let env = self.format_env();
        let mut with = self.parts.with.take();
        let mut binder = Binder::new(params, &env);
        if let Some(with) = &mut with {
            binder.bind_with(with)?;
        }
        from.iter_mut().try_for_each(|one| binder.bind_from(one))?;
        // The first two items are our own hidden columns.
        for item in &mut items[2..] {
            if let SelectItem::ExprWithAlias { expr, .. } = item {
                binder.bind_expr(expr)?;
            }
        }
        let mut selection = selection;
        if let Some(expr) = &mut selection {
            binder.bind_expr(expr)?;
        }
        let mut references = binder.references;
        references.add(Some(table.schema.clone()), table.name.clone());
        from.insert(0, TableWithJoins { relation: factor, joins: Vec::new() });
        let query = Query { with, ..select_query(items, from, selection)? };
        let (set_of, tables, once) = self.relations(&references, params).await?;
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &set_of, &params.all_types())?;
        let (returning, columns) = match returning {
            None => (None, Vec::new()),
            Some(items) => {
                let (r, c) = self.plan_returning(items, &table, &alias, params).await?;
                (Some(r), c)
            }
        };
        let returns_rows = returning.is_some();
        let plan = ModifyPlan { table, query: QueryPlan::new(planned), set, returning };
        Ok(Planned { kind: Kind::Modify(Box::new(plan)), tables, columns, returns_rows, once })
    }

    /// Expressions over single rows of a table, as RETURNING has them.
    pub(crate) async fn plan_returning(
        &mut self,
        items: &[SelectItem],
        table: &Arc<TableDef>,
        alias: &str,
        params: &mut Params,
    ) -> Result<(Returning, Vec<PgColumn>)> {
        let mut simple = params.clone();
        if let Some((scalars, columns)) = direct::bind_items(items, table, alias, &mut simple)? {
            *params = simple;
            return Ok((Returning::Scalars(scalars), columns));
        }
        let mut items = items.to_vec();
        let env = self.format_env();
        let mut binder = Binder::new(params, &env);
        binder.bind_items(&mut items)?;
        let mut references = binder.references;
        references.add(Some(table.schema.clone()), table.name.clone());
        // A wildcard means the table's own columns, not the hidden ones.
        let items =
            items.into_iter().flat_map(|item| expand_wildcard(item, table, alias)).collect();
        let relation = target_factor(table, alias);
        let from = vec![TableWithJoins { relation, joins: Vec::new() }];
        let query = select_query(items, from, None)?;
        let (mut set, _, _) = self.relations(&references, params).await?;
        // The definition at hand, whatever the name stands for by now.
        set.insert(Some(&table.schema), &table.name, Relation::Table(table.clone()));
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &set, &params.all_types())?;
        let mut columns = planned.columns.clone();
        for column in &mut columns {
            column.name = shown_name(&column.name).to_owned();
        }
        Ok((Returning::Query(Box::new(QueryPlan::new(planned))), columns))
    }

    pub(crate) async fn plan_insert_select(
        &mut self,
        insert: &ast::Insert,
        params: &mut Params,
    ) -> Result<Planned> {
        let target = direct::insert_target(insert)?;
        let relation = self.find_relation(target.schema.as_deref(), &target.name).await?;
        let table = match relation {
            Relation::Table(table) => table,
            Relation::View(view) => return Err(crate::ddl::not_updatable(&view, Verb::Insert)),
            Relation::Rows(_) => {
                let text = format!("cannot change view \"{}\"", target.name);
                return Err(PgError::new("42809", text));
            }
        };
        let mut path = None;
        if target.schema.is_none() {
            path = Some((self.path_version().await?, !self.is_first(&table.schema).await?));
        }
        let source = insert.source.as_ref().ok_or_else(|| PgError::syntax("no values"))?;
        let mut query = (**source).clone();
        values_as_selects(&mut query)?;
        let mut columns = direct::insert_columns(insert, &table)?;
        note_values_parameters(&query, &columns, &table, params)?;
        let env = self.format_env();
        let mut binder = Binder::new(params, &env);
        binder.bind_query(&mut query)?;
        let references = binder.references;
        let (set, mut tables, mut once) = self.relations(&references, params).await?;
        tables.push((table.obj, table.version));
        if let Some((version, hidden)) = path {
            tables.push(version);
            once |= hidden;
        }
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &set, &params.all_types())?;
        let conflict = Box::pin(self.plan_conflict(insert, &table, &target.alias, params)).await?;
        let conflict = conflict.map(|planned| {
            tables.extend(planned.tables);
            once |= planned.once;
            Box::new(planned.clause)
        });
        let given = planned.columns.len();
        if given > columns.len() {
            return Err(PgError::syntax("INSERT has more expressions than target columns"));
        }
        if given < columns.len() && !insert.columns.is_empty() {
            return Err(PgError::syntax("INSERT has more target columns than expressions"));
        }
        columns.truncate(given);
        for at in &columns {
            if !given_counts(&table.columns[*at], Overriding::of(insert))? {
                return Err(PgError::unsupported("OVERRIDING USER VALUE with a query"));
            }
        }
        let mut defaults = Vec::new();
        for at in (0..table.columns.len()).filter(|at| !columns.contains(at)) {
            if let Some(default) = row_default(&table, at)? {
                defaults.push((at, default));
            }
        }
        let (returning, shown) = match &insert.returning {
            None => (None, Vec::new()),
            Some(items) => {
                let (r, c) = self.plan_returning(items, &table, &target.alias, params).await?;
                (Some(r), c)
            }
        };
        let returns_rows = returning.is_some();
        let query = QueryPlan::new(planned);
        let plan = InsertSelect { table, query, columns, defaults, conflict, returning };
        let kind = Kind::InsertSelect(Box::new(plan));
        Ok(Planned { kind, tables, columns: shown, returns_rows, once })
    }
}

impl Planned {
    fn into_plan(self, params: Params, inferred: Option<Vec<ColType>>) -> Plan {
        let (inferred, text) = (inferred.unwrap_or_default(), ColType::new(TypeKind::Text));
        let types = params.types.iter().enumerate();
        let params_types =
            types.map(|(i, ty)| ty.or(inferred.get(i).copied()).unwrap_or(text)).collect();
        Plan {
            kind: self.kind,
            tables: self.tables,
            params: params_types,
            hidden: params.hidden,
            columns: self.columns,
            returns_rows: self.returns_rows,
            once: self.once,
        }
    }
}

/// The same query without `FROM dual`, if that is all it has there.
fn without_dual(ast: &Ast) -> Option<Ast> {
    let Ast::Query(query) = ast else { return None };
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
    let mut query = query.clone();
    if let SetExpr::Select(select) = &mut *query.body {
        select.from.clear();
    }
    Some(Ast::Query(query))
}

struct Work {
    table: Arc<TableDef>,
    alias: String,
    factor: TableFactor,
    from: Vec<TableWithJoins>,
    items: Vec<SelectItem>,
    set: Option<Vec<usize>>,
}

/// The default of a column, to be evaluated for each row.
pub(crate) fn row_default(table: &TableDef, column: usize) -> Result<Option<RowDefault>> {
    column_default(&table.columns[column])
}

/// The same for a column that may not be in a table yet.
pub(crate) fn column_default(column: &ColumnDef) -> Result<Option<RowDefault>> {
    let Some(text) = &column.default else { return Ok(None) };
    if column.generated == Some(Generated::Stored) {
        return Ok(None);
    }
    let expr = direct::parse_expr(text)?;
    let mut params = Params::new(Vec::new(), 0);
    let mut binder = crate::bind::scalar::ScalarBinder::constants(&mut params);
    let scalar = binder.bind_assignment(&expr, column.ty)?.ok_or_else(|| {
        PgError::unsupported(format!("the default \"{text}\" of column \"{}\"", column.name))
    })?;
    Ok(Some(RowDefault { scalar, calls: params.hidden }))
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

fn note_values_parameters(
    query: &Query,
    columns: &[usize],
    table: &TableDef,
    params: &mut Params,
) -> Result<()> {
    let note = |expr: &Expr, i: usize, params: &mut Params| match columns.get(i) {
        Some(at) => note_parameter(expr, table.columns[*at].ty, params),
        None => Ok(()),
    };
    match &*query.body {
        SetExpr::Values(values) => {
            for row in &values.rows {
                for (i, expr) in row.content.iter().enumerate() {
                    note(expr, i, params)?;
                }
            }
        }
        SetExpr::Select(select) => {
            for (i, item) in select.projection.iter().enumerate() {
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                {
                    note(expr, i, params)?;
                }
            }
        }
        _ => {}
    }
    Ok(())
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// The target in FROM, under the catalog whose tables have hidden columns.
pub(crate) fn target_factor(table: &TableDef, alias: &str) -> TableFactor {
    TableFactor::Table {
        name: ObjectName::from(vec![
            quoted(TARGET_CATALOG),
            quoted(&table.schema),
            quoted(&table.name),
        ]),
        alias: Some(TableAlias {
            explicit: true,
            name: quoted(alias),
            columns: Vec::new(),
            at: None,
        }),
        args: None,
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    }
}

pub(crate) fn hidden_items(alias: &str) -> Vec<SelectItem> {
    [ROWID_COLUMN, ROW_COLUMN]
        .into_iter()
        .map(|name| {
            SelectItem::UnnamedExpr(Expr::CompoundIdentifier(vec![quoted(alias), quoted(name)]))
        })
        .collect()
}

fn expand_wildcard(item: SelectItem, table: &TableDef, alias: &str) -> Vec<SelectItem> {
    match item {
        SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..) => table
            .columns
            .iter()
            .map(|column| {
                let name = vec![quoted(alias), quoted(&column.name)];
                SelectItem::UnnamedExpr(Expr::CompoundIdentifier(name))
            })
            .collect(),
        other => vec![other],
    }
}

/// Puts the hidden columns at the end of a bound query over one table.
fn add_hidden_columns(query: &mut Query, table: &Arc<TableDef>) -> Result<()> {
    let SetExpr::Select(select) = &mut *query.body else {
        return Err(PgError::internal("a lock without a select"));
    };
    let Some(TableWithJoins { relation: TableFactor::Table { name, alias, .. }, .. }) =
        select.from.first_mut()
    else {
        return Err(PgError::internal("a lock without a table"));
    };
    let shown = alias.as_ref().map_or_else(|| table.name.clone(), |a| ident_name(&a.name));
    *name =
        ObjectName::from(vec![quoted(TARGET_CATALOG), quoted(&table.schema), quoted(&table.name)]);
    if alias.is_none() {
        *alias = Some(TableAlias {
            explicit: true,
            name: quoted(&shown),
            columns: Vec::new(),
            at: None,
        });
    }
    let items = std::mem::take(&mut select.projection);
    select.projection =
        items.into_iter().flat_map(|item| expand_wildcard(item, table, &shown)).collect();
    select.projection.extend(hidden_items(&shown));
    Ok(())
}

/// The columns and values of one assignment: one, or a list on either side.
pub(crate) fn assigned_pairs(
    assignment: &ast::Assignment,
) -> Result<Vec<(&ObjectName, Cow<'_, Expr>)>> {
    match (&assignment.target, &assignment.value) {
        (AssignmentTarget::ColumnName(name), value) => Ok(vec![(name, Cow::Borrowed(value))]),
        (AssignmentTarget::Tuple(names), Expr::Tuple(values)) if names.len() == values.len() => {
            Ok(names.iter().zip(values.iter().map(Cow::Borrowed)).collect())
        }
        (AssignmentTarget::Tuple(_), Expr::Tuple(_)) => {
            Err(PgError::syntax("number of columns does not match number of values"))
        }
        (AssignmentTarget::Tuple(names), Expr::Subquery(query)) => {
            let column = |(at, name)| {
                let value = crate::bind::column_of_query(query, at, names.len())?;
                Ok((name, Cow::Owned(value)))
            };
            names.iter().enumerate().map(column).collect()
        }
        (AssignmentTarget::Tuple(names), value) => match &names[..] {
            [name] => Ok(vec![(name, Cow::Borrowed(value))]),
            _ => {
                let text = "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() \
                            expression";
                Err(PgError::unsupported(text))
            }
        },
    }
}

/// VALUES with subqueries as a union of selects: the library evaluates VALUES before it runs
/// anything.
fn values_as_selects(query: &mut Query) -> Result<()> {
    let SetExpr::Values(values) = &*query.body else { return Ok(()) };
    let holds = visit_expressions(values, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if holds.is_continue() {
        return Ok(());
    }
    let select = |row: &ast::Parens<Vec<Expr>>| {
        let all: Vec<String> = row.content.iter().map(ToString::to_string).collect();
        format!("select {}", all.join(", "))
    };
    let rows: Vec<String> = values.rows.iter().map(select).collect();
    let Parsed::Sql(ast) = crate::parse::parse_single(&rows.join(" union all "))?.parsed else {
        return Err(PgError::internal("no skeleton"));
    };
    if let Ast::Query(selects) = *ast {
        query.body = selects.body;
    }
    Ok(())
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
