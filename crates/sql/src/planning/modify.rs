//! Plans of statements that change rows: a query that finds them and gives their new values, under
//! a node that writes.
//!
//! What it promises: the statement's assignments are checked before anything is planned. What it
//! must never do: hand DML to the library, which would forget clauses.

use super::beside::Beside;
use super::through::Through;
use super::{Planned, note_parameter, quoted, select_query};
use crate::access::Target;
use crate::assign;
use crate::bind::{Binder, Params, References, ident_name, shown_name};
use crate::ddl::Verb;
use crate::generated::{Overriding, check_assigned, given_counts};
use crate::parse::Parsed;
use crate::plan::{InsertSelect, Kind, ModifyPlan, QueryPlan, RowDefault};
use crate::returning::Returning;
use crate::session::Session;
use crate::{PgError, Result, direct};
use datafusion::sql::sqlparser::ast::{
    self, AssignmentTarget, Expr, FromTable, Ident, ObjectName, Parens, Query, SelectItem, SetExpr,
    Statement as Ast, TableAlias, TableFactor, TableWithJoins, UpdateTableFromKind,
    visit_expressions,
};
use kernel::dict::{ColumnDef, Generated, Privileges, TableDef};
use kernel::row::ColType;
use query::{PgColumn, ROW_COLUMN, ROWID_COLUMN, Relation, TARGET_CATALOG};
use std::borrow::Cow;
use std::ops::ControlFlow;
use std::sync::Arc;

struct Work {
    table: Arc<TableDef>,
    alias: String,
    factor: TableFactor,
    from: Vec<TableWithJoins>,
    items: Vec<SelectItem>,
    set: Option<Vec<usize>>,
    through: Option<Box<Through>>,
    /// How many rows at most: what the statement said of `rownum`.
    limit: Option<Expr>,
}

/// The target of a statement.
pub(crate) struct Aimed {
    pub(crate) table: Arc<TableDef>,
    /// The name that it goes by.
    pub(crate) alias: String,
    /// What stands for it in FROM.
    pub(crate) factor: TableFactor,
    /// The view that was named.
    pub(crate) through: Option<Box<Through>>,
}

impl Session {
    /// The target of UPDATE or DELETE and the name it goes by.
    pub(crate) async fn target(&mut self, from: &TableWithJoins, verb: Verb) -> Result<Aimed> {
        if !from.joins.is_empty() {
            return Err(PgError::syntax("syntax error at or near \"JOIN\""));
        }
        let TableFactor::Table { name, alias, args: None, sample, .. } = &from.relation else {
            return Err(PgError::syntax("a table name is expected"));
        };
        if sample.is_some() {
            return Err(PgError::syntax("syntax error at or near \"TABLESAMPLE\""));
        }
        let (schema, name) = crate::bind::table_parts(name)?;
        let alias = alias.as_ref().map_or_else(|| name.clone(), |a| ident_name(&a.name));
        match self.find_relation(schema.as_deref(), &name).await? {
            Relation::Table(table) => {
                let factor = target_factor(&table, &alias);
                Ok(Aimed { table, alias, factor, through: None })
            }
            Relation::Rows(_) => {
                Err(PgError::new("42809", format!("cannot change view \"{name}\"")))
            }
            Relation::View(view) => {
                let through = env::boxed!(self.through(&view, verb)).await?;
                let (table, factor) = (through.table.clone(), through.factor(&alias));
                Ok(Aimed { table, alias, factor, through: Some(Box::new(through)) })
            }
        }
    }

    pub(crate) async fn plan_update(
        &mut self,
        update: &ast::Update,
        params: &mut Params,
    ) -> Result<Planned> {
        if update.output.is_some() || update.or.is_some() || !update.order_by.is_empty() {
            return Err(PgError::unsupported("this form of UPDATE"));
        }
        let Aimed { table, alias, factor, through } =
            self.target(&update.table, Verb::Update).await?;
        let mut set = Vec::new();
        // As columns of what the statement names.
        let mut own = Vec::new();
        let mut items = hidden_items(&alias);
        for assignment in &update.assignments {
            for (name, value) in assigned_pairs(assignment)? {
                let at = match &through {
                    None => set_column(name, &value, &table, &mut set)?,
                    Some(through) => {
                        let shown = direct::assigned_column(name, &through.view)?;
                        own.push(shown);
                        set_position(
                            through.column(shown, Verb::Update)?,
                            &value,
                            &table,
                            &mut set,
                        )?
                    }
                };
                let expr = match direct::is_default(&value) {
                    true => default_expr(&table, at)?,
                    false => crate::subscripts::settled(value.into_owned(), &table.columns[at])?,
                };
                note_parameter(&expr, table.columns[at].ty, params)?;
                let alias = Ident::with_quote('"', format!("$set{at}"));
                items.push(SelectItem::ExprWithAlias { expr, alias });
            }
        }
        let mut from = Vec::new();
        match &update.from {
            None => {}
            Some(UpdateTableFromKind::BeforeSet(more) | UpdateTableFromKind::AfterSet(more)) => {
                from.extend(more.iter().cloned());
            }
        }
        let selection = update.selection.clone();
        let exprs = items[2..].iter().filter_map(|item| match item {
            SelectItem::ExprWithAlias { expr, .. } => Some(expr.clone()),
            _ => None,
        });
        let (returning, rest) = (update.returning.as_deref(), (from.clone(), selection.clone()));
        let named = through.as_ref().map_or(&table, |through| &through.view);
        let reads = self.reads_of_target(named, &alias, exprs.collect(), returning, Some(rest))?;
        let columns = if through.is_some() { &own } else { &set };
        let (wanted, columns) = (Privileges::UPDATE, Some(&columns[..]));
        self.check_target(Target { table: named, wanted, columns, reads }).await?;
        if let Some(through) = &through {
            self.check_through(through, wanted, columns).await?;
            if selection.is_some() || returning.is_some() {
                let shown: Vec<usize> = (0..through.columns.len()).collect();
                self.check_through(through, Privileges::SELECT, Some(&shown)).await?;
            }
        }
        let limit = update.limit.clone();
        let work = Work { table, alias, factor, from, items, set: Some(set), through, limit };
        self.plan_modify(work, selection, update.returning.as_deref(), params).await
    }

    pub(crate) async fn plan_delete(
        &mut self,
        delete: &ast::Delete,
        params: &mut Params,
    ) -> Result<Planned> {
        if !delete.tables.is_empty() || delete.output.is_some() || !delete.order_by.is_empty() {
            return Err(PgError::unsupported("this form of DELETE"));
        }
        let (FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from)) = &delete.from;
        let [one] = &from[..] else {
            return Err(PgError::unsupported("DELETE from several tables"));
        };
        let Aimed { table, alias, factor, through } = self.target(one, Verb::Delete).await?;
        let items = hidden_items(&alias);
        let from = delete.using.clone().unwrap_or_default();
        let selection = delete.selection.clone();
        let (returning, rest) = (delete.returning.as_deref(), (from.clone(), selection.clone()));
        let named = through.as_ref().map_or(&table, |through| &through.view);
        let reads = self.reads_of_target(named, &alias, Vec::new(), returning, Some(rest))?;
        let (wanted, columns) = (Privileges::DELETE, None);
        self.check_target(Target { table: named, wanted, columns, reads }).await?;
        if let Some(through) = &through {
            self.check_through(through, wanted, columns).await?;
            if selection.is_some() || returning.is_some() {
                let shown: Vec<usize> = (0..through.columns.len()).collect();
                self.check_through(through, Privileges::SELECT, Some(&shown)).await?;
            }
        }
        let limit = delete.limit.clone();
        let work = Work { table, alias, factor, from, items, set: None, through, limit };
        self.plan_modify(work, selection, delete.returning.as_deref(), params).await
    }

    async fn plan_modify(
        &mut self,
        work: Work,
        selection: Option<Expr>,
        returning: Option<&[SelectItem]>,
        params: &mut Params,
    ) -> Result<Planned> {
        let Work { table, alias, factor, mut from, mut items, set, through, mut limit } = work;
        let env = self.format_env();
        let mut with = self.parts.with.take();
        let mut binder = Binder::new(params, &env);
        if let Some(with) = &mut with {
            binder.bind_with(with)?;
        }
        from.iter_mut().try_for_each(|one| binder.bind_from(one))?;
        let untyped: Vec<bool> = items
            .iter()
            .map(|item| match item {
                SelectItem::ExprWithAlias { expr, .. } => assign::is_untyped_value(expr),
                _ => false,
            })
            .collect();
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
        if let Some(expr) = &mut limit {
            binder.bind_limit(expr)?;
        }
        let mut references = binder.references;
        references.add_target(&table);
        let named = through.as_deref().map_or(&table, |through| &through.view).clone();
        let beside = Beside::add(&from, returning, &named, &mut items);
        from.insert(0, TableWithJoins { relation: factor, joins: Vec::new() });
        let limit = limit.map(|limit| {
            let (offset, limit_by) = (None, Vec::new());
            ast::LimitClause::LimitOffset { limit: Some(limit), offset, limit_by }
        });
        let query = Query { with, limit_clause: limit, ..select_query(items, from, selection)? };
        let (mut set_of, tables, once) = self.relations(&references, params).await?;
        if let Some(through) = &through {
            through.add_to(&mut set_of);
        }
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &set_of, &params.all_types())?;
        let mut returning = returning.map(<[SelectItem]>::to_vec);
        let mut given_beside = Vec::new();
        if let (Some(beside), Some(items)) = (&beside, &mut returning) {
            (*items, given_beside) =
                beside.as_params(items, &planned.columns, &named, &alias, params)?;
        }
        for (i, at) in set.iter().flatten().enumerate() {
            if let (Some(given), Some(false)) = (planned.columns.get(i + 2), untyped.get(i + 2)) {
                assign::check(&table.columns[*at], given)?;
            }
        }
        let (returning, columns) = match returning {
            None => (None, Vec::new()),
            Some(items) => {
                let own = through.as_deref();
                let (r, c) = self.plan_returning_of(&items, &table, &alias, own, params).await?;
                (Some(r), c)
            }
        };
        let returns_rows = returning.is_some();
        let (query, beside) = (QueryPlan::new(planned), given_beside);
        let plan = ModifyPlan { table, query, set, returning, beside };
        let kind = Kind::Modify(Box::new(plan));
        let mut planned = Planned { kind, tables, columns, returns_rows, once };
        if let Some(through) = &through {
            through.note(&mut planned);
        }
        Ok(planned)
    }

    /// Expressions over single rows of a table, as RETURNING has them.
    pub(crate) async fn plan_returning(
        &mut self,
        items: &[SelectItem],
        table: &Arc<TableDef>,
        alias: &str,
        params: &mut Params,
    ) -> Result<(Returning, Vec<PgColumn>)> {
        self.plan_returning_of(items, table, alias, None, params).await
    }

    /// The same for a statement that changes the table through a view.
    async fn plan_returning_of(
        &mut self,
        items: &[SelectItem],
        table: &Arc<TableDef>,
        alias: &str,
        through: Option<&Through>,
        params: &mut Params,
    ) -> Result<(Returning, Vec<PgColumn>)> {
        let mut simple = params.clone();
        if through.is_none()
            && let Some((scalars, columns)) = direct::bind_items(items, table, alias, &mut simple)?
        {
            *params = simple;
            return Ok((Returning::Scalars(scalars), columns));
        }
        let mut items = items.to_vec();
        let env = self.format_env();
        let mut binder = Binder::new(params, &env);
        binder.bind_items(&mut items)?;
        let mut references = binder.references;
        references.add_target(table);
        // A wildcard means the table's own columns, not the hidden ones.
        let named = through.map_or(table, |through| &through.view);
        let items = items.into_iter().flat_map(|item| expand_wildcard(item, named, alias));
        let mut items: Vec<SelectItem> = items.collect();
        crate::bind::name_columns(&mut items);
        let relation = match through {
            None => target_factor(table, alias),
            Some(through) => through.given_factor(alias),
        };
        let from = vec![TableWithJoins { relation, joins: Vec::new() }];
        let query = select_query(items, from, None)?;
        let (mut set, _, _) = self.relations(&references, params).await?;
        if let Some(through) = through {
            through.add_to(&mut set);
        }
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
        let mut through = None;
        let table = match relation {
            Relation::Table(table) => table,
            Relation::View(view) => {
                let own = env::boxed!(self.through(&view, Verb::Insert)).await?;
                let table = own.table.clone();
                through = Some(Box::new(own));
                table
            }
            Relation::Rows(_) => {
                let text = format!("cannot change view \"{}\"", target.name);
                return Err(PgError::new("42809", text));
            }
        };
        let mut path = None;
        if target.schema.is_none() {
            let named = through.as_ref().map_or(&table, |through| &through.view);
            let schema = named.schema.clone();
            path = Some((self.path_version().await?, !self.is_first(&schema).await?));
        }
        if let (None, Some(through)) = (&insert.source, &through) {
            // As the default of any one column that is the table's.
            let mut places = 0..through.columns.len();
            let first = places.find(|at| through.column(*at, Verb::Insert).is_ok());
            let shown = &through.view.columns[first.unwrap_or(0)].name;
            let Parsed::Sql(values) = crate::parse::parse_single("values (default)")?.parsed else {
                return Err(PgError::internal("a row of defaults"));
            };
            let Ast::Query(values) = *values else {
                return Err(PgError::internal("a row of defaults"));
            };
            let mut own = insert.clone();
            own.source = Some(values);
            own.columns = vec![ObjectName::from(vec![quoted(shown)])];
            return env::boxed!(self.plan_insert_select(&own, params)).await;
        }
        let source = insert.source.as_ref().ok_or_else(|| PgError::syntax("no values"))?;
        let mut query = (**source).clone();
        let named = through.as_ref().map_or(&table, |through| &through.view).clone();
        // As columns of what the statement names.
        let mut columns = direct::insert_columns(insert, &named)?;
        let named_columns = columns.clone();
        let returning = insert.returning.as_deref();
        let reads = self.reads_of_target(&named, &target.alias, Vec::new(), returning, None)?;
        let (wanted, into) = (Privileges::INSERT, Some(&named_columns[..]));
        self.check_target(Target { table: &named, wanted, columns: into, reads }).await?;
        if let Some(through) = &through {
            self.check_through(through, wanted, into).await?;
        }
        put_defaults(&table, &mut query, &mut columns, |at| match &through {
            Some(through) => through.column(at, Verb::Insert),
            None => Ok(at),
        })?;
        note_values_parameters(&query, &columns, &named, params)?;
        if through.is_none() {
            let all: Vec<_> = columns.iter().map(|at| &table.columns[*at]).collect();
            assign::check_cells(&query, &all)?;
        }
        let wanted: Vec<ColType> = columns.iter().map(|at| named.columns[*at].ty).collect();
        assign::type_literals(&mut query, &wanted)?;
        values_as_selects(&mut query)?;
        let read_by = self.read_by(&query);
        let env = self.format_env();
        let mut binder = Binder::new(params, &env);
        binder.bind_query(&mut query)?;
        let references = References { read_by, ..binder.references };
        let (set, mut tables, mut once) = self.relations(&references, params).await?;
        tables.push((table.obj, table.version));
        if let Some((version, hidden)) = path {
            tables.push(version);
            once |= hidden;
        }
        let untyped = assign::untyped_columns(&query, columns.len());
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &set, &params.all_types())?;
        let alias = &target.alias;
        let conflict = match &through {
            None => env::boxed!(self.plan_conflict(insert, &table, alias, params)).await?,
            Some(through) => {
                env::boxed!(self.plan_conflict_through(insert, through, alias, params)).await?
            }
        };
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
        if let Some(through) = &through {
            let place = |at: &usize| through.column(*at, Verb::Insert);
            columns = columns.iter().map(place).collect::<Result<Vec<usize>>>()?;
            through.check_once(&columns)?;
        }
        for ((at, given), untyped) in columns.iter().zip(&planned.columns).zip(untyped) {
            if !untyped {
                assign::check(&table.columns[*at], given)?;
            }
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
                let (own, alias) = (through.as_deref(), &target.alias);
                let (r, c) = self.plan_returning_of(items, &table, alias, own, params).await?;
                (Some(r), c)
            }
        };
        let returns_rows = returning.is_some();
        let query = QueryPlan::new(planned);
        let plan = InsertSelect { table, query, columns, defaults, conflict, returning };
        let kind = Kind::InsertSelect(Box::new(plan));
        let mut planned = Planned { kind, tables, columns: shown, returns_rows, once };
        if let Some(through) = &through {
            through.note(&mut planned);
        }
        Ok(planned)
    }
}

/// The column that an assignment of UPDATE, MERGE or ON CONFLICT sets, taken into `set`.
///
/// # Errors
/// 42703, 428C9 for one that takes only DEFAULT, 42601 for one that is set already.
pub(crate) fn set_column(
    name: &ObjectName,
    value: &Expr,
    table: &TableDef,
    set: &mut Vec<usize>,
) -> Result<usize> {
    set_position(direct::assigned_column(name, table)?, value, table, set)
}

/// The same for a column of the table whose place is known.
fn set_position(at: usize, value: &Expr, table: &TableDef, set: &mut Vec<usize>) -> Result<usize> {
    if !direct::is_default(value) {
        check_assigned(&table.columns[at])?;
    }
    if set.contains(&at) {
        return Err(direct::assigned_twice(&table.columns[at].name));
    }
    set.push(at);
    Ok(at)
}

/// DEFAULT in VALUES as what it stands for; columns that have nothing else are left out. `place`
/// says which column of the table a column of the statement's is.
fn put_defaults(
    table: &TableDef,
    query: &mut Query,
    columns: &mut Vec<usize>,
    place: impl Fn(usize) -> Result<usize>,
) -> Result<()> {
    let SetExpr::Values(values) = &mut *query.body else { return Ok(()) };
    let width = values.rows.first().map_or(0, |row| row.content.len());
    if values.rows.iter().any(|row| row.content.len() != width) || width > columns.len() {
        return Ok(());
    }
    let all_default =
        |rows: &[Parens<Vec<Expr>>], i| rows.iter().all(|r| direct::is_default(&r.content[i]));
    // Columns without a value at all have their defaults anyway.
    let mut left = width;
    for i in (0..width).rev() {
        if all_default(&values.rows, i) && left > 1 {
            place(columns[i])?;
            values.rows.iter_mut().for_each(|row| drop(row.content.remove(i)));
            columns.remove(i);
            left -= 1;
            continue;
        }
        for row in &mut values.rows {
            if direct::is_default(&row.content[i]) {
                row.content[i] = default_expr(table, place(columns[i])?)?;
            }
        }
    }
    Ok(())
}

/// What DEFAULT stands for in an assignment.
pub(crate) fn default_expr(table: &TableDef, column: usize) -> Result<Expr> {
    let null = Expr::Value(ast::Value::Null.into());
    Ok(direct::default_of(table, column)?.unwrap_or(null))
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
    let mut expr = direct::parse_expr(text)?;
    crate::named_types::mark_by_table(&mut expr, std::iter::once(column.ty));
    let mut params = Params::new(Vec::new(), 0);
    let mut binder = crate::bind::scalar::ScalarBinder::constants(&mut params);
    let scalar = binder.bind_assignment(&expr, column.ty)?.ok_or_else(|| {
        PgError::unsupported(format!("the default \"{text}\" of column \"{}\"", column.name))
    })?;
    Ok(Some(RowDefault { scalar, calls: params.hidden }))
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

pub(crate) fn expand_wildcard(item: SelectItem, table: &TableDef, alias: &str) -> Vec<SelectItem> {
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

/// Whether a function is called once for each row.
fn calls_for_each_row(name: &ObjectName) -> bool {
    let parts = crate::bind::object_parts(name).unwrap_or_default();
    let function = parts.last().and_then(|name| crate::bind::session_function(name));
    function.is_some_and(|function| function.per_row())
}

/// VALUES with subqueries, or with calls that have an effect, as a union of selects: the library
/// evaluates VALUES before it runs anything.
fn values_as_selects(query: &mut Query) -> Result<()> {
    let SetExpr::Values(values) = &*query.body else { return Ok(()) };
    let holds = visit_expressions(values, |expr| match expr {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        Expr::Function(function) if calls_for_each_row(&function.name) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    if holds.is_continue() {
        return Ok(());
    }
    *query.body = crate::bind::union_of_values(values)?;
    Ok(())
}
