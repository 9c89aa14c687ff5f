//! WITH around statements that change rows: `WITH x AS (DELETE ... RETURNING *) INSERT ...`. And of
//! queries that do something, or have chance in them, and are named more than once.
//!
//! What it promises: all parts work on one snapshot, each is run once and to its end, and they know
//! of each other only by what they return. What it must never do: change a row twice.

use crate::bind::{Params, ident_name, object_parts};
use crate::encode::{Nowhere, RowEncoder, RowSink};
use crate::locking::{Shown, Taken, locks_inside, taken_column, taken_name};
use crate::plan::{Kind, QueryPlan};
use crate::planning::Planned;
use crate::routines::called_by;
use crate::session::{Fetched, Portal, Session};
use crate::{PgError, Result};
use block::{ObjId, Rowid};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    Cte, Expr, ObjectName, Query, SetExpr, Statement as Ast, TableFactor, Visit, Visitor, With,
};
use kernel::dict::TableDef;
use kernel::row::Value;
use kernel::txn::Snapshot;
use query::{GivenRows, Relation};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A statement of several parts.
pub(crate) struct WithPlan {
    /// In the order they were written.
    parts: Vec<Part>,
    pub(crate) main: Kind,
}

impl WithPlan {
    /// The time zone that its parts were made for.
    pub(crate) fn zone_name(&self) -> Option<&str> {
        self.kinds().find_map(Kind::zone_name)
    }

    /// Its parts, the main one last.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = &Kind> {
        self.parts.iter().map(|part| &part.kind).chain([&self.main])
    }
}

struct Part {
    kind: Kind,
    /// What it returns, if it does.
    rows: Option<Arc<GivenRows>>,
    columns: Vec<query::PgColumn>,
}

/// What the parts of the statement being planned know of each other.
#[derive(Default)]
pub(crate) struct Parts {
    /// Queries that stand before them.
    pub(crate) with: Option<With>,
    /// Names of the parts planned so far; one without rows cannot be read.
    pub(crate) given: Vec<(String, Option<Arc<GivenRows>>)>,
}

/// Parts that are planned already.
#[derive(Default)]
struct Before {
    parts: Vec<Part>,
    tables: Vec<(ObjId, u64)>,
    once: bool,
}

impl Before {
    /// The plan of the statement whose last part this is.
    fn followed_by(mut self, planned: Planned) -> Planned {
        self.tables.extend(planned.tables);
        let kind = if self.parts.is_empty() {
            planned.kind
        } else {
            Kind::With(Box::new(WithPlan { parts: self.parts, main: planned.kind }))
        };
        Planned { kind, tables: self.tables, once: self.once | planned.once, ..planned }
    }
}

/// What the parts of the running statement share.
pub(crate) struct RunningParts {
    pub(crate) snapshot: Snapshot,
    pub(crate) given: Arc<Vec<RecordBatch>>,
    /// Rows changed so far, by table and address.
    pub(crate) changed: BTreeSet<(u32, u64)>,
}

/// The statement that changes rows in a query's place.
fn changing(query: &Query) -> Option<&Ast> {
    match &*query.body {
        SetExpr::Insert(statement) | SetExpr::Update(statement) | SetExpr::Delete(statement) => {
            Some(statement)
        }
        _ => None,
    }
}

/// Finds calls that give something else each time.
struct Volatile;

impl Visitor for Volatile {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        let name = match expr {
            Expr::Function(function) => function.name.0.last(),
            _ => None,
        };
        if let Expr::Function(function) = expr
            && object_parts(&function.name).is_ok_and(|parts| called_by(&parts).is_some())
        {
            return ControlFlow::Break(());
        }
        let name = name.and_then(|part| part.as_ident()).map(ident_name);
        let volatile = name.is_some_and(|name| {
            let known = query::row_calls::FUNCTIONS.iter().any(|(function, _)| *function == name);
            known || matches!(name.as_str(), "random" | "random_normal" | "gen_random_uuid")
        });
        if volatile { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }

    fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
        match factor {
            TableFactor::Table { sample: Some(_), .. } => ControlFlow::Break(()),
            _ => ControlFlow::Continue(()),
        }
    }
}

/// Counts how often a query names a relation without its schema.
struct Named<'a> {
    name: &'a str,
    times: usize,
}

impl Visitor for Named<'_> {
    type Break = ();

    fn pre_visit_relation(&mut self, relation: &ObjectName) -> ControlFlow<()> {
        if let [only] = &relation.0[..]
            && only.as_ident().is_some_and(|ident| ident_name(ident) == self.name)
        {
            self.times += 1;
        }
        ControlFlow::Continue(())
    }
}

/// How often something names the relation.
fn times_named<T: Visit>(name: &str, within: &T) -> usize {
    let mut named = Named { name, times: 0 };
    let _ = within.visit(&mut named);
    named.times
}

/// Whether a query of a WITH clause gives something else each time, itself or by way of another one
/// that it reads.
fn is_volatile(cte: &Cte, all: &[Cte]) -> bool {
    let before = all.iter().take_while(|other| !std::ptr::eq(*other, cte));
    let mut read =
        before.filter(|other| times_named(&ident_name(&other.alias.name), &cte.query) > 0);
    cte.query.visit(&mut Volatile).is_break() || read.any(|other| is_volatile(other, all))
}

/// Whether a query of a WITH clause has to be run once for all who read it: it would give each of
/// them something else.
fn runs_first(cte: &Cte, query: &Query) -> bool {
    let name = ident_name(&cte.alias.name);
    let all = query.with.as_ref().map_or(&[][..], |with| &with.cte_tables);
    times_named(&name, &cte.query) == 0 && times_named(&name, query) > 1 && is_volatile(cte, all)
}

/// The queries of a statement's WITH clause that one which was taken out of it, as `$lockedN`, may
/// read.
fn readable_by(taken: &str, query: &Query, with: Option<&With>) -> Result<Option<With>> {
    let Some(with) = with else { return Ok(None) };
    let all = &with.cte_tables;
    let at = all.iter().position(|cte| times_named(taken, &cte.query) > 0);
    let before = &all[..at.unwrap_or(all.len())];
    for cte in all {
        let name = ident_name(&cte.alias.name);
        let named = times_named(&name, query) > 0;
        if named && (changing(&cte.query).is_some() || is_volatile(cte, all)) {
            let text = format!("reading WITH query \"{name}\" in a subquery with FOR UPDATE");
            return Err(PgError::unsupported(text));
        }
    }
    let plain = before.iter().filter(|cte| changing(&cte.query).is_none()).cloned().collect();
    let readable = With { cte_tables: plain, ..with.clone() };
    joined(&readable, query.with.as_ref())
}

/// Refuses a query of a WITH clause that would have to be run first, where that cannot be.
///
/// # Errors
/// 0A000.
pub(crate) fn check_run_once(query: &Query) -> Result<()> {
    let all = query.with.iter().flat_map(|with| &with.cte_tables);
    match all.clone().find(|cte| runs_first(cte, query)) {
        None => Ok(()),
        Some(cte) => {
            let name = ident_name(&cte.alias.name);
            let text = format!(
                "reading WITH query \"{name}\" more than once, which has a function that gives \
                 something else each time, other than at the top level of a statement"
            );
            Err(PgError::unsupported(text))
        }
    }
}

fn nested() -> PgError {
    let text = "WITH clause containing a data-modifying statement must be at the top level";
    PgError::new("0A000", text)
}

/// Whether what is missing stands in FROM of the statement around.
fn names_outer(error: &PgError, statement: &Ast) -> bool {
    let Ast::Query(query) = statement else { return false };
    let names = crate::whole_rows::names_in(query);
    names.iter().any(|name| error.message.ends_with(&format!("for table \"{name}\"")))
}

impl Session {
    /// The relation that an earlier part of the statement is.
    pub(crate) fn given_relation(&self, name: &str) -> Result<Option<Relation>> {
        let known = self.parts.given.iter().rev().find(|(known, _)| known == name);
        match known {
            None => Ok(None),
            Some((_, Some(rows))) => Ok(Some(Relation::Rows(rows.clone()))),
            Some((_, None)) => {
                let text = format!("WITH query \"{name}\" does not have a RETURNING clause");
                Err(PgError::new("0A000", text))
            }
        }
    }

    /// Plans a statement with parts that change rows; `None` for any other query.
    pub(crate) async fn plan_with(
        &mut self,
        query: &Query,
        params: &mut Params,
    ) -> Result<Option<Planned>> {
        let parts = query.with.iter().flat_map(|with| &with.cte_tables);
        let mut all = parts.clone();
        let any = all.any(|cte| changing(&cte.query).is_some() || runs_first(cte, query));
        if !any && changing(query).is_none() {
            return Ok(None);
        }
        self.parts = Parts::default();
        let planned = self.plan_parts(query, Before::default(), params).await;
        self.parts = Parts::default();
        planned.map(Some)
    }

    /// Plans a statement with queries inside that lock rows, or with stored functions in FROM
    /// (`in_from`): each is a part that is run first. `None` if there is none.
    pub(crate) async fn plan_parts_first(
        &mut self,
        statement: &Ast,
        in_from: bool,
        params: &mut Params,
    ) -> Result<Option<Planned>> {
        if !in_from && !locks_inside(statement) {
            return Ok(None);
        }
        self.parts = Parts::default();
        let planned = env::boxed!(self.plan_after_locks(statement, params)).await;
        self.parts = Parts::default();
        planned.map(Some)
    }

    async fn plan_after_locks(&mut self, statement: &Ast, params: &mut Params) -> Result<Planned> {
        let mut statement = statement.clone();
        let mut before = Before::default();
        for call in env::boxed!(self.take_calls(&mut statement, params)).await? {
            let rows = Some(Arc::new(GivenRows::new(before.parts.len(), &call.columns, &[])?));
            self.parts.given.push((call.name, rows.clone()));
            before.tables.extend(call.tables);
            before.once |= call.once;
            before.parts.push(Part { kind: call.kind, rows, columns: call.columns });
        }
        let mut queries = Taken::out_of(&mut statement)?.queries;
        for number in 0..queries.len() {
            let name = taken_name(number);
            let with = match &statement {
                Ast::Query(query) => readable_by(&name, &queries[number], query.with.as_ref())?,
                _ => queries[number].with.clone(),
            };
            let query = Query { with, ..queries[number].clone() };
            let planned = env::boxed!(self.plan_query(&query, params)).await;
            let planned = planned.map_err(|error| match error.code {
                "42P01" if names_outer(&error, &statement) => PgError::unsupported(
                    "FOR UPDATE in a query that names columns of the query around it",
                ),
                "42703" | "42P01" => error.with_hint(
                    "A query with FOR UPDATE inside of another one is run first: it cannot name \
                     the other's columns.",
                ),
                _ => error,
            })?;
            before.tables.extend(planned.tables);
            before.once |= planned.once;
            let mut shown = Shown::new(number, &planned.columns)?;
            shown.put_into(&mut statement);
            queries.iter_mut().for_each(|query| shown.put_into(query));
            let mut columns = planned.columns.clone();
            for (at, column) in columns.iter_mut().enumerate() {
                column.name = taken_column(at);
            }
            let types = arrow_types(&planned.kind);
            let place = before.parts.len();
            let rows = Some(Arc::new(GivenRows::new(place, &columns, &types)?));
            self.parts.given.push((name, rows.clone()));
            before.parts.push(Part { kind: planned.kind, rows, columns: planned.columns });
        }
        if let Ast::Query(query) = &statement {
            return self.plan_parts(query, before, params).await;
        }
        let planned = self.plan_part(&statement, params).await?;
        Ok(before.followed_by(planned))
    }

    async fn plan_parts(
        &mut self,
        query: &Query,
        before: Before,
        params: &mut Params,
    ) -> Result<Planned> {
        let Before { mut parts, mut tables, mut once } = before;
        if let Some(with) = &query.with {
            let mut reading = With { cte_tables: Vec::new(), ..with.clone() };
            for cte in &with.cte_tables {
                let statement = changing(&cte.query);
                if statement.is_none() && !runs_first(cte, query) {
                    reading.cte_tables.push(cte.clone());
                    continue;
                }
                let with = joined(&reading, cte.query.with.as_ref())?;
                let planned = match statement {
                    Some(statement) => {
                        self.parts.with = with;
                        self.plan_part(statement, params).await?
                    }
                    None => {
                        let query = Query { with, ..(*cte.query).clone() };
                        env::boxed!(self.plan_query(&query, params)).await?
                    }
                };
                tables.extend(planned.tables);
                once |= planned.once;
                let columns = renamed(cte, planned.columns)?;
                let types = arrow_types(&planned.kind);
                let rows = match planned.returns_rows {
                    true => Some(Arc::new(GivenRows::new(parts.len(), &columns, &types)?)),
                    false => None,
                };
                self.parts.given.push((ident_name(&cte.alias.name), rows.clone()));
                parts.push(Part { kind: planned.kind, rows, columns });
            }
            self.parts.with = joined(&reading, None)?;
        }
        let planned = match changing(query) {
            Some(statement) => self.plan_part(statement, params).await?,
            None => {
                let with = self.parts.with.take();
                self.plan_query(&Query { with, ..query.clone() }, params).await?
            }
        };
        Ok(Before { parts, tables, once }.followed_by(planned))
    }

    async fn plan_part(&mut self, statement: &Ast, params: &mut Params) -> Result<Planned> {
        let planned = match statement {
            Ast::Insert(insert) => {
                if let Some(planned) = self.plan_direct(statement, params).await? {
                    return Ok(planned);
                }
                let mut insert = insert.clone();
                if let (Some(with), Some(source)) = (self.parts.with.take(), &mut insert.source) {
                    source.with = joined(&with, source.with.as_ref())?;
                }
                env::boxed!(self.plan_insert_select(&insert, params)).await?
            }
            Ast::Update(update) => env::boxed!(self.plan_update(update, params)).await?,
            Ast::Delete(delete) => env::boxed!(self.plan_delete(delete, params)).await?,
            _ => return Err(PgError::unsupported("this statement in WITH")),
        };
        // What a part found out about the parameters holds for the next; text is what is assumed.
        if let Some(types) = planned.kind.param_types() {
            for (slot, ty) in params.types.iter_mut().zip(types) {
                if ty.kind != kernel::row::TypeKind::Text {
                    slot.get_or_insert(ty);
                }
            }
        }
        Ok(planned)
    }

    pub(crate) async fn run_with(
        &mut self,
        plan: &WithPlan,
        params: Vec<Value>,
        portal: &mut Portal,
        encoder: RowEncoder,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let snapshot = self.snapshot()?;
        let given = Arc::new(Vec::new());
        self.running = Some(RunningParts { snapshot, given, changed: BTreeSet::new() });
        let done = self.run_parts(plan, params, portal, encoder, max_rows, sink).await;
        self.running = None;
        done
    }

    async fn run_parts(
        &mut self,
        plan: &WithPlan,
        params: Vec<Value>,
        portal: &mut Portal,
        encoder: RowEncoder,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        for part in &plan.parts {
            let rows = match &part.kind {
                Kind::Query(query) if query.lock.is_none() => {
                    self.rows_of_query(query, params.clone()).await?
                }
                Kind::Call(call) => env::boxed!(self.run_call(call, params.clone(), true)).await?,
                kind => {
                    let (encoder, rows) = self.encoder(&part.columns, &[]).into_rows();
                    let mut nowhere = Nowhere::default();
                    let params = params.clone();
                    if let Kind::Query(query) = kind {
                        env::boxed!(self.run_locking(query, params, encoder, &mut nowhere)).await?;
                    } else {
                        let run = self.run_changing(kind, params, encoder, &mut nowhere);
                        env::boxed!(run).await?;
                    }
                    std::mem::take(&mut *rows.lock())
                }
            };
            let batch = match &part.rows {
                Some(given) => given.batch(&rows)?,
                None => {
                    RecordBatch::new_empty(Arc::new(datafusion::arrow::datatypes::Schema::empty()))
                }
            };
            if let Some(running) = &mut self.running {
                Arc::make_mut(&mut running.given).push(batch);
            }
        }
        match &plan.main {
            Kind::Query(query) => {
                self.run_query(query, params, portal, encoder, max_rows, sink).await
            }
            kind => {
                let run = self.run_changing(kind, params, encoder, sink);
                env::boxed!(run).await.map(Fetched::Complete)
            }
        }
    }

    /// All rows of a query.
    pub(crate) async fn rows_of_query(
        &mut self,
        query: &QueryPlan,
        params: Vec<Value>,
    ) -> Result<Vec<Vec<Value>>> {
        let state = self.exec_state_with(params, true).await?;
        let mut stream = env::boxed!(self.open_query(query, state)).await?;
        let mut rows: Vec<Vec<Value>> = Vec::new();
        while let Some(batch) = self.next_batch(&mut stream).await {
            let batch = batch?;
            let readers = query::planner::readers(&batch)?;
            let row = |at| readers.iter().map(|r| r.get(at).to_value()).collect();
            rows.extend((0..batch.num_rows()).map(row));
        }
        Ok(rows)
    }

    /// Whether another part of the statement has changed the row: this one leaves it alone then.
    pub(crate) fn changed_by_a_part(&self, table: &TableDef, rowid: Rowid) -> bool {
        let key = (table.obj.0, rowid.to_u64());
        self.running.as_ref().is_some_and(|running| running.changed.contains(&key))
    }

    pub(crate) fn note_change(&mut self, table: &TableDef, rowid: Rowid) {
        if let Some(running) = &mut self.running {
            running.changed.insert((table.obj.0, rowid.to_u64()));
        }
    }

    async fn run_changing(
        &mut self,
        kind: &Kind,
        params: Vec<Value>,
        encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<String> {
        match kind {
            Kind::Direct(direct) => self.run_direct(direct, &params, encoder, sink).await,
            Kind::Modify(modify) => self.run_modify(modify, params, encoder, sink).await,
            Kind::InsertSelect(insert) => {
                self.run_insert_select(insert, params, encoder, sink).await
            }
            _ => Err(PgError::internal("a part that changes nothing")),
        }
    }
}

/// The queries of two WITH clauses, the outer one's first.
fn joined(outer: &With, inner: Option<&With>) -> Result<Option<With>> {
    let mut all = outer.clone();
    if let Some(inner) = inner {
        if inner.cte_tables.iter().any(|cte| changing(&cte.query).is_some()) {
            return Err(nested());
        }
        all.recursive |= inner.recursive;
        all.cte_tables.extend(inner.cte_tables.iter().cloned());
    }
    Ok((!all.cte_tables.is_empty()).then_some(all))
}

/// The types of a query's columns as they come; of what changes rows none are known.
fn arrow_types(kind: &Kind) -> Vec<DataType> {
    match kind {
        Kind::Query(query) => {
            query.query.plan.schema().fields().iter().map(|f| f.data_type().clone()).collect()
        }
        _ => Vec::new(),
    }
}

/// The columns a part returns, under the names its alias gives them.
fn renamed(cte: &Cte, mut columns: Vec<query::PgColumn>) -> Result<Vec<query::PgColumn>> {
    let names = &cte.alias.columns;
    if names.len() > columns.len() {
        let (name, have, given) = (ident_name(&cte.alias.name), columns.len(), names.len());
        let text = format!(
            "WITH query \"{name}\" has {have} columns available but {given} columns specified"
        );
        return Err(PgError::new("42P10", text));
    }
    for (column, name) in columns.iter_mut().zip(names) {
        column.name = ident_name(&name.name);
    }
    Ok(columns)
}
