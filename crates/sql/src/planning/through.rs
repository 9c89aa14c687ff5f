//! Statements that change rows through a view: the view's query, over the hidden columns of the
//! table below it, stands where the table would stand.
//!
//! What it promises: names mean the view's columns; rows that the view does not show are not
//! changed; what is done to each relation on the way down is a right of the owner of the view above
//! it. What it must never do: write a column that is not one of the table's.

use super::{Planned, hidden_items, quoted, select_query, target_factor};
use crate::bind::{Binder, Params, ident_name, table_parts};
use crate::check::{self, Place};
use crate::conflict::PlannedConflict;
use crate::ddl::{Verb, not_updatable, query_of, why_not, why_not_written};
use crate::session::Session;
use crate::{PgError, Result};
use block::ObjId;
use datafusion::sql::sqlparser::ast::{
    self, Expr, Ident, OnConflictAction, OnInsert, Query, Select, SelectItem, SetExpr,
    Statement as Ast, TableAlias, TableFactor, TableWithJoins, visit_expressions,
    visit_expressions_mut,
};
use kernel::dict::{CheckDef, CheckOption, Privileges, TableDef};
use query::{ROW_COLUMN, ROWID_COLUMN, Relation, TableSet};
use std::ops::ControlFlow;
use std::sync::Arc;

/// What the names of conditions that views add to those of their table begin with; the view's name
/// follows.
pub(crate) const VIEW_CHECK: &str = "$view ";

/// A view, down to the table whose rows it shows.
pub(crate) struct Through {
    pub(crate) view: Arc<TableDef>,
    /// The table, with the conditions that the views' check options add to its own.
    pub(crate) table: Arc<TableDef>,
    /// For each column of the view its place in the table.
    pub(crate) columns: Vec<Option<usize>>,
    /// What stands where the table would stand, with its hidden columns first, then the view's.
    shown: Query,
    /// The same with the rows that the view does not show.
    whole: Query,
    /// What the view's query names, and the versions that all depends on.
    set: TableSet,
    pub(crate) tables: Vec<(ObjId, u64)>,
    pub(crate) once: bool,
    /// The relations on the way down, the table last: whose right it is to change them, and which
    /// of their columns the view's are.
    rights: Vec<(ObjId, Arc<TableDef>, Vec<Option<usize>>)>,
    /// The conditions with their views' names, and the view's columns, over the table: for views
    /// above.
    conditions: Vec<(String, Expr)>,
    exprs: Vec<Expr>,
}

/// The columns by which a condition names those of the relation below, as expressions over the
/// table.
fn over_table(expr: &Expr, names: &[String], exprs: &[Expr]) -> Result<Expr> {
    let mut expr = check::normal(expr, Place::Check)?;
    let _: ControlFlow<()> = visit_expressions_mut(&mut expr, |part| {
        if let Expr::Identifier(ident) = part
            && let Some(at) = names.iter().position(|name| *name == ident_name(ident))
        {
            *part = match &exprs[at] {
                plain @ Expr::Identifier(_) => plain.clone(),
                other => Expr::Nested(Box::new(other.clone())),
            };
        }
        ControlFlow::Continue(())
    });
    Ok(expr)
}

fn has_subquery(expr: &Expr) -> bool {
    visit_expressions(expr, |part| match part {
        Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    })
    .is_break()
}

fn select_of(query: &Query) -> Option<&Select> {
    match &*query.body {
        SetExpr::Select(select) => Some(select),
        _ => None,
    }
}

fn expr_of(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}

/// The column that an output column shows, if it is one.
fn shown_column(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(ident) => Some(ident_name(ident)),
        Expr::CompoundIdentifier(parts) => parts.last().map(ident_name),
        Expr::Nested(inner) => shown_column(inner),
        _ => None,
    }
}

/// A query in FROM.
fn derived(query: Query, alias: &str) -> TableFactor {
    TableFactor::Derived {
        lateral: false,
        subquery: Box::new(query),
        alias: Some(TableAlias {
            explicit: true,
            name: quoted(alias),
            columns: Vec::new(),
            at: None,
        }),
        sample: None,
    }
}

/// The relation that a view shows, by schema and name, and for each column of the view the one of
/// that relation that it is. `None`: rows cannot be changed through it.
pub(crate) fn shown_columns(query: &Query) -> Option<(String, String, Vec<Option<String>>)> {
    let select = select_of(query).filter(|_| why_not(query).is_none())?;
    let TableFactor::Table { name, .. } = &select.from.first()?.relation else { return None };
    let (schema, name) = table_parts(name).ok()?;
    let columns = select.projection.iter().filter_map(expr_of).map(shown_column);
    Some((schema?, name, columns.collect()))
}

impl Through {
    /// What stands in FROM for the target of a statement.
    pub(crate) fn factor(&self, alias: &str) -> TableFactor {
        derived(self.shown.clone(), alias)
    }

    /// The same for rows that are given.
    pub(crate) fn given_factor(&self, alias: &str) -> TableFactor {
        derived(self.whole.clone(), alias)
    }

    /// Adds what the view's query names to what a statement names.
    pub(crate) fn add_to(&self, set: &mut TableSet) {
        set.extend(&self.set);
    }

    /// Adds what a plan depends on.
    pub(crate) fn note(&self, planned: &mut Planned) {
        planned.tables.extend(self.tables.iter().copied());
        planned.tables.push((self.table.obj, self.table.version));
        planned.once |= self.once;
    }

    /// 42601 if two columns of the view are one of the table's.
    pub(crate) fn check_once(&self, columns: &[usize]) -> Result<()> {
        for (i, at) in columns.iter().enumerate() {
            if columns[..i].contains(at) {
                let name = &self.table.columns[*at].name;
                let text = format!("multiple assignments to same column \"{name}\"");
                return Err(PgError::syntax(text));
            }
        }
        Ok(())
    }

    /// The table's column that a column of the view is.
    ///
    /// # Errors
    /// 0A000 if it is none.
    pub(crate) fn column(&self, at: usize, verb: Verb) -> Result<usize> {
        self.columns[at].ok_or_else(|| {
            let (name, view) = (&self.view.columns[at].name, &self.view.name);
            let doing = if verb == Verb::Insert { "insert into" } else { "update" };
            let text = format!("cannot {doing} column \"{name}\" of view \"{view}\"");
            let detail =
                "View columns that are not columns of their base relation are not updatable.";
            PgError::new("0A000", text).with_detail(detail)
        })
    }
}

impl Session {
    /// The view as something to change rows through.
    ///
    /// # Errors
    /// 55000 if PostgreSQL would not change rows through it by itself.
    pub(crate) async fn through(&mut self, view: &Arc<TableDef>, verb: Verb) -> Result<Through> {
        if verb == Verb::Merge {
            return Err(not_updatable(view, verb));
        }
        let own = view.view.as_ref().ok_or_else(|| PgError::internal("a view without a text"))?;
        crate::depth::check_views(self.view_weight)?;
        let mut ast = Ast::Query(Box::new(query_of(own)?));
        let named = env::boxed!(self.settle_types(&mut ast)).await?;
        let Ast::Query(query) = ast else {
            return Err(PgError::internal("a view without a query"));
        };
        let why = match verb {
            Verb::Delete => why_not(&query),
            _ => why_not_written(&query),
        };
        let select = match (why, select_of(&query)) {
            (None, Some(select)) => select.clone(),
            _ => return Err(not_updatable(view, verb)),
        };
        let [TableWithJoins { relation: TableFactor::Table { name, alias, .. }, .. }] =
            &select.from[..]
        else {
            return Err(not_updatable(view, verb));
        };
        let (schema, name) = table_parts(name)?;
        let alias = match alias {
            Some(alias) if !alias.columns.is_empty() => {
                return Err(PgError::unsupported("changing rows through a view that renames them"));
            }
            Some(alias) => ident_name(&alias.name),
            None => name.clone(),
        };
        let below = match self.find_relation(schema.as_deref(), &name).await? {
            Relation::Table(table) => Below::Table(table),
            Relation::View(inner) => {
                Below::View(Box::new(env::boxed!(self.through(&inner, verb)).await?))
            }
            Relation::Rows(_) => return Err(not_updatable(view, verb)),
        };
        env::boxed!(self.put_over(view, select, below, &alias, named)).await
    }

    /// The view over what it reads, whose name in the view is `alias`.
    async fn put_over(
        &mut self,
        view: &Arc<TableDef>,
        select: Select,
        below: Below,
        alias: &str,
        named: Option<(ObjId, u64)>,
    ) -> Result<Through> {
        let exprs: Vec<Expr> = select.projection.iter().filter_map(expr_of).cloned().collect();
        if exprs.len() != view.columns.len() {
            return Err(PgError::internal("a view with other columns than its query"));
        }
        let relation = below.relation().clone();
        let names: Vec<String> = relation.columns.iter().map(|c| c.name.clone()).collect();
        // Over the columns of the relation below, then over the table's.
        let own_columns: Vec<Option<usize>> =
            exprs.iter().map(|expr| relation.column(&shown_column(expr)?)).collect();
        let deeper = |columns: &[Option<usize>]| -> Vec<Option<usize>> {
            own_columns.iter().map(|own| columns[(*own)?]).collect()
        };
        let plain: Vec<Expr> = names.iter().map(|name| Expr::Identifier(quoted(name))).collect();
        let below_exprs = match &below {
            Below::Table(_) => &plain,
            Below::View(inner) => &inner.exprs,
        };
        let option = view.view.as_ref().and_then(|own| own.check);
        // Subqueries are left to the query; a check option cannot have them.
        let over = |expr: &Expr| match has_subquery(expr) {
            true => Ok(Expr::Value(ast::Value::Null.into())),
            false => over_table(expr, &names, below_exprs),
        };
        let table_exprs = exprs.iter().map(over).collect::<Result<Vec<Expr>>>()?;
        let condition = match (&select.selection, option) {
            (Some(expr), Some(_)) if has_subquery(expr) => {
                let what = "a subquery in the condition of a view with check option";
                return Err(PgError::unsupported(what));
            }
            (Some(expr), _) => Some((view.name.clone(), over(expr)?)),
            (None, _) => None,
        };
        let mut rights = vec![(view.owner, relation.clone(), own_columns.clone())];
        let (mut conditions, columns, table) = match &below {
            Below::Table(table) => (Vec::new(), own_columns.clone(), table.clone()),
            Below::View(inner) => {
                for (owner, relation, columns) in &inner.rights {
                    rights.push((*owner, relation.clone(), deeper(columns)));
                }
                (inner.conditions.clone(), deeper(&inner.columns), inner.table.clone())
            }
        };
        let mut checks: Vec<(String, Expr)> = Vec::new();
        match option {
            Some(CheckOption::Cascaded) => {
                checks.extend(conditions.iter().chain(&condition).cloned());
            }
            Some(CheckOption::Local) => checks.extend(condition.clone()),
            None => {}
        }
        conditions.extend(condition);
        let table = with_checks(table, checks);
        let (tables, set, once) = self.names_of(view, &select, &below, named).await?;
        let shown = query_over(view, &select, &exprs, below.factor(alias, true), true)?;
        let whole = query_over(view, &select, &exprs, below.factor(alias, false), false)?;
        let (shown, whole) = (self.bound_query(shown)?, self.bound_query(whole)?);
        Ok(Through {
            view: view.clone(),
            table,
            columns,
            shown,
            whole,
            set,
            tables,
            once,
            rights,
            conditions,
            exprs: table_exprs,
        })
    }

    /// What the view's query names, read with its owner's rights.
    async fn names_of(
        &mut self,
        view: &TableDef,
        select: &Select,
        below: &Below,
        named: Option<(ObjId, u64)>,
    ) -> Result<(Vec<(ObjId, u64)>, TableSet, bool)> {
        let env = self.format_env();
        let mut params = Params::new(Vec::new(), 0);
        let mut binder = Binder::new(&mut params, &env);
        // Without FROM: the relation itself is the target.
        let mut parts: Vec<Expr> = select.projection.iter().filter_map(expr_of).cloned().collect();
        parts.extend(select.selection.clone());
        parts.iter_mut().try_for_each(|part| binder.bind_expr(part))?;
        let mut references = binder.references;
        if !params.hidden.is_empty() {
            let what = "changing rows through a view that calls functions of the session";
            return Err(PgError::unsupported(what));
        }
        let uses = view.view.as_ref().map(|own| own.uses.clone()).unwrap_or_default();
        references.read_by = crate::access::ReadBy::Uses(uses);
        let mut inner = Vec::new();
        let mut through_once = false;
        if let Below::Table(table) = below {
            references.add_target(table);
        }
        let caller = self.check_as.replace(view.owner);
        self.view_depth += 1;
        let found = self.relations(&references, &mut params).await;
        self.view_depth -= 1;
        self.check_as = caller;
        let (mut set, mut tables, once) = found?;
        if let Below::View(through) = below {
            set.extend(&through.set);
            inner.extend(through.tables.iter().copied());
            through_once = through.once;
        }
        tables.extend(inner);
        tables.push((view.obj, view.version));
        tables.extend(named);
        Ok((tables, set, once || through_once))
    }

    /// The query as the planner takes it.
    fn bound_query(&mut self, mut query: Query) -> Result<Query> {
        let env = self.format_env();
        let mut params = Params::new(Vec::new(), 0);
        let mut binder = Binder::new(&mut params, &env);
        if let SetExpr::Select(select) = &mut *query.body {
            // The first two items are our own hidden columns, and FROM is done.
            binder.bind_items(&mut select.projection[2..])?;
            if let Some(selection) = &mut select.selection {
                binder.bind_expr(selection)?;
            }
        }
        Ok(query)
    }

    /// ON CONFLICT of an INSERT through a view whose columns are called as the table's.
    pub(crate) async fn plan_conflict_through(
        &mut self,
        insert: &ast::Insert,
        through: &Through,
        alias: &str,
        params: &mut Params,
    ) -> Result<Option<PlannedConflict>> {
        let Some(OnInsert::OnConflict(clause)) = &insert.on else { return Ok(None) };
        let mut pairs = through.view.columns.iter().zip(&through.columns);
        let same = pairs
            .all(|(column, at)| at.is_some_and(|at| through.table.columns[at].name == column.name));
        if !same {
            return Err(PgError::unsupported("ON CONFLICT through a view with other columns"));
        }
        if let OnConflictAction::DoUpdate(_) = &clause.action {
            for wanted in [Privileges::UPDATE, Privileges::SELECT] {
                self.check_relation(&through.view, wanted).await?;
                self.check_through(through, wanted, None).await?;
            }
        }
        let owner = through.rights.last().map_or(through.view.owner, |(owner, ..)| *owner);
        let caller = self.check_as.replace(owner);
        let planned = env::boxed!(self.plan_conflict(insert, &through.table, alias, params)).await;
        self.check_as = caller;
        planned
    }

    /// 42501 unless the owners of the views may do to what these read what the statement does to
    /// the view.
    pub(crate) async fn check_through(
        &mut self,
        through: &Through,
        wanted: Privileges,
        columns: Option<&[usize]>,
    ) -> Result<()> {
        for (owner, relation, own) in &through.rights {
            let caller = self.check_as.replace(*owner);
            let done = match columns {
                Some(columns) => {
                    let mapped: Vec<usize> = columns.iter().filter_map(|at| own[*at]).collect();
                    self.check_columns(relation, wanted, &mapped).await
                }
                None => self.check_relation(relation, wanted).await,
            };
            self.check_as = caller;
            done?;
        }
        Ok(())
    }
}

/// What a view reads.
enum Below {
    Table(Arc<TableDef>),
    View(Box<Through>),
}

impl Below {
    fn relation(&self) -> &Arc<TableDef> {
        match self {
            Below::Table(table) => table,
            Below::View(inner) => &inner.view,
        }
    }

    fn factor(&self, alias: &str, shown: bool) -> TableFactor {
        match self {
            Below::Table(table) => target_factor(table, alias),
            Below::View(inner) if shown => inner.factor(alias),
            Below::View(inner) => inner.given_factor(alias),
        }
    }
}

/// The view's query with the hidden columns in front.
fn query_over(
    view: &TableDef,
    select: &Select,
    exprs: &[Expr],
    factor: TableFactor,
    filtered: bool,
) -> Result<Query> {
    let alias = match &factor {
        TableFactor::Table { alias: Some(alias), .. }
        | TableFactor::Derived { alias: Some(alias), .. } => ident_name(&alias.name),
        _ => return Err(PgError::internal("a target without a name")),
    };
    let hidden = hidden_items(&alias).into_iter().zip([ROWID_COLUMN, ROW_COLUMN]);
    let mut items: Vec<SelectItem> = hidden
        .filter_map(|(item, name)| {
            let expr = expr_of(&item)?.clone();
            Some(SelectItem::ExprWithAlias { expr, alias: quoted(name) })
        })
        .collect();
    for (expr, column) in exprs.iter().zip(&view.columns) {
        let alias = Ident::with_quote('"', &column.name);
        items.push(SelectItem::ExprWithAlias { expr: expr.clone(), alias });
    }
    let from = vec![TableWithJoins { relation: factor, joins: Vec::new() }];
    let selection = select.selection.clone().filter(|_| filtered);
    select_query(items, from, selection)
}

/// The table with the conditions that the view's check option adds.
fn with_checks(table: Arc<TableDef>, conditions: Vec<(String, Expr)>) -> Arc<TableDef> {
    if conditions.is_empty() {
        return table;
    }
    let mut with = (*table).clone();
    for (view, condition) in conditions {
        // Unlike a CHECK constraint it is not met by NULL.
        let expr = format!("coalesce(({condition}), false)");
        let name = format!("{VIEW_CHECK}{view}");
        with.checks.push(CheckDef { obj: with.obj, name, expr, valid: true });
    }
    Arc::new(with)
}
