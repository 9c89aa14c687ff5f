//! INSERT ... ON CONFLICT: who decides, what becomes of a row that is there already.
//!
//! What it promises: a proposed row is inserted, or the row in its way is updated in its newest
//! version, or nothing happens; never a duplicate, never a change lost, on whichever instances the
//! others are. What it must never do: change a row twice in one statement.

use crate::assign;
use crate::bind::scalar::ScalarBinder;
use crate::bind::{Binder, Params, ident_name, table_parts};
use crate::dml::{replaced, row_error};
use crate::plan::QueryPlan;
use crate::planning::{
    assigned_pairs, default_expr, note_parameter, select_query, set_column, target_factor,
};
use crate::session::Session;
use crate::{PgError, Result, direct, outside};
use block::{ObjId, Rowid};
use datafusion::sql::sqlparser::ast::{
    self, ConflictTarget, Expr, Ident, OnConflictAction, OnInsert, SelectItem, Statement as Ast,
    TableWithJoins, visit_expressions_mut,
};
use kernel::dict::{ColumnDef, IndexDef, KEY_EXPR, Privileges, TableDef};
use kernel::row::{Datum, RowTypes, RowView, Value, encode_row};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, Snapshot};
use query::cast::{CastMode, cast};
use query::planner::PlannedQuery;
use query::scalar::EvalContext;
use query::{Relation, Scalar};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Name of the table whose rows are an existing row and the proposed one, side by side.
const PAIR: &str = "$conflict";

/// What an INSERT does about rows that are there.
pub(crate) struct OnConflict {
    /// Unique indexes whose keys decide, as positions in the table's.
    arbiters: Vec<usize>,
    /// `None`: DO NOTHING.
    update: Option<ConflictUpdate>,
}

impl OnConflict {
    /// The query that gives the new values, if one does.
    pub(crate) fn query(&self) -> Option<&PlannedQuery> {
        match self.update.as_ref().map(|update| &update.values) {
            Some(NewValues::Query(plan)) => Some(&plan.query),
            _ => None,
        }
    }

    /// The time zone that its query was made for.
    pub(crate) fn zone_name(&self) -> Option<&str> {
        self.query().map(|query| &*query.zone_name)
    }
}

/// DO UPDATE.
struct ConflictUpdate {
    pair: Arc<TableDef>,
    /// Columns that get new values.
    set: Vec<usize>,
    values: NewValues,
}

/// How the new values are computed, over a row of the pair.
enum NewValues {
    Scalars {
        set: Vec<Scalar>,
        condition: Option<Scalar>,
    },
    /// A query that gives the new values; no row if the condition does not hold.
    Query(Box<QueryPlan>),
}

/// What planning the clause came to.
pub(crate) struct PlannedConflict {
    pub(crate) clause: OnConflict,
    pub(crate) tables: Vec<(ObjId, u64)>,
    pub(crate) once: bool,
}

/// What one statement has done so far.
#[derive(Default)]
pub(crate) struct Written {
    /// What it sees of the tables that its expressions read.
    statement: Option<Snapshot>,
    rows: BTreeSet<u64>,
}

/// The words of an index predicate, as the parser hands them over among the columns.
pub(crate) const PREDICATE: &str = "$where ";
/// The same for an expression.
pub(crate) const EXPRESSION: &str = "$expr ";

fn twice() -> PgError {
    PgError::new("21000", "ON CONFLICT DO UPDATE command cannot affect row a second time")
        .with_hint(
            "Ensure that no rows proposed for insertion within the same command have duplicate \
         constrained values.",
        )
}

fn concurrent() -> PgError {
    PgError::new("40001", "could not serialize access due to concurrent update")
}

/// The indexes that the clause speaks of.
fn arbiters(target: Option<&ConflictTarget>, table: &TableDef) -> Result<Vec<usize>> {
    let unique = table.all_indexes().enumerate().filter(|(_, index)| index.unique);
    match target {
        None => Ok(unique.map(|(at, _)| at).collect()),
        Some(ConflictTarget::OnConstraint(name)) => {
            let (_, name) = table_parts(name)?;
            let of = |(at, _)| at;
            let found = unique.filter(|(_, index)| index.constraint.as_ref() == Some(&name));
            let found: Vec<usize> = found.map(of).collect();
            if !found.is_empty() {
                return Ok(found);
            }
            if table.checks.iter().any(|check| check.name == name) {
                let text = "constraint in ON CONFLICT clause has no associated index";
                return Err(PgError::new("42809", text));
            }
            let table = &table.name;
            let text = format!("constraint \"{name}\" for table \"{table}\" does not exist");
            Err(PgError::new("42704", text))
        }
        Some(ConflictTarget::Columns(names)) => {
            let (mut wanted, mut known) = (BTreeSet::new(), Vec::new());
            let mut exprs: BTreeSet<String> = BTreeSet::new();
            let position = |name: &str| {
                let found = table.column(name).and_then(|at| u16::try_from(at).ok());
                found.ok_or_else(|| PgError::undefined_column(name))
            };
            for name in names {
                match name.value.strip_prefix(PREDICATE) {
                    Some(predicate) => {
                        check_predicate(predicate, table)?;
                        // What is said in another way serves an index over all rows alone.
                        let expr = direct::parse_expr(predicate)?;
                        known.extend(crate::ddl::bind_predicate(&expr, table).ok());
                    }
                    None => match name.value.strip_prefix(EXPRESSION) {
                        Some(expr) => {
                            check_predicate(expr, table)?;
                            exprs.insert(crate::key_exprs::kept_text(expr)?);
                        }
                        None => {
                            wanted.insert(position(&ident_name(name))?);
                        }
                    },
                }
            }
            let fits = |index: &IndexDef| {
                let plain = index.columns.iter().copied().filter(|column| *column < KEY_EXPR);
                let own: BTreeSet<String> =
                    index.exprs.iter().map(|expr| expr.text.clone()).collect();
                plain.collect::<BTreeSet<_>>() == wanted && own == exprs
            };
            let serves = |index: &IndexDef| {
                let predicate = index.predicate.as_ref();
                predicate.is_none_or(|own| query::implied::implies(&known, &table.types, own))
            };
            let found: Vec<usize> = unique
                .filter(|(_, index)| fits(index) && serves(index))
                .map(|(at, _)| at)
                .collect();
            if found.is_empty() {
                let text = "there is no unique or exclusion constraint matching the ON CONFLICT \
                            specification";
                return Err(PgError::new("42P10", text));
            }
            Ok(found)
        }
    }
}

/// The predicate names nothing but columns of the table.
pub(crate) fn check_predicate(text: &str, table: &TableDef) -> Result<()> {
    let expr = direct::parse_expr(text)?;
    match unqualified(&expr).iter().find(|name| table.column(name).is_none()) {
        Some(unknown) => Err(PgError::undefined_column(unknown)),
        None => Ok(()),
    }
}

/// Names without a qualifier, outside of subqueries.
fn unqualified(expr: &Expr) -> Vec<String> {
    let mut found = Vec::new();
    outside::any(expr, |part| {
        if let Expr::Identifier(ident) = part {
            found.push(ident_name(ident));
        }
        false
    });
    found
}

/// Name of the proposed row's column in the pair.
fn proposed(column: &str) -> String {
    format!("$excluded.{column}")
}

/// The table of pairs.
fn pair_of(table: &TableDef) -> TableDef {
    let again = table
        .columns
        .iter()
        .map(|column| ColumnDef { name: proposed(&column.name), ..column.clone() });
    let columns: Vec<ColumnDef> = table.columns.iter().cloned().chain(again).collect();
    let types = columns.iter().map(|column| column.ty).collect::<Vec<_>>();
    TableDef {
        name: PAIR.to_owned(),
        types: RowTypes::from(types),
        columns,
        indexes: Vec::new(),
        partial: Vec::new(),
        computed: Vec::new(),
        checks: Vec::new(),
        ..table.clone()
    }
}

/// The expression over the pair: `excluded.c` is a column of it.
fn over_pair(expr: &Expr, table: &TableDef, alias: &str) -> Result<Expr> {
    if let Some(name) = unqualified(expr).iter().find(|name| table.column(name).is_some()) {
        let text = format!("column reference \"{name}\" is ambiguous");
        return Err(PgError::new("42702", text));
    }
    let mut expr = expr.clone();
    let done = visit_expressions_mut(&mut expr, |part| {
        if let Expr::CompoundIdentifier(parts) = part
            && let [qualifier, name] = &parts[..]
            && ident_name(qualifier) == "excluded"
        {
            let name = ident_name(name);
            if table.column(&name).is_none() {
                let text = format!("column excluded.{name} does not exist");
                return ControlFlow::Break(PgError::new("42703", text));
            }
            let quoted = |name: String| Ident::with_quote('"', name);
            *part =
                Expr::CompoundIdentifier(vec![quoted(alias.to_owned()), quoted(proposed(&name))]);
        }
        ControlFlow::Continue(())
    });
    match done {
        ControlFlow::Break(error) => Err(error),
        ControlFlow::Continue(()) => Ok(expr),
    }
}

impl Session {
    /// Plans the clause of an INSERT, if it has one.
    pub(crate) async fn plan_conflict(
        &mut self,
        insert: &ast::Insert,
        table: &Arc<TableDef>,
        alias: &str,
        params: &mut Params,
    ) -> Result<Option<PlannedConflict>> {
        let clause = match &insert.on {
            None => return Ok(None),
            Some(OnInsert::OnConflict(clause)) => clause,
            Some(_) => return Err(PgError::syntax("syntax error at or near \"DUPLICATE\"")),
        };
        let target = clause.conflict_target.as_ref();
        let OnConflictAction::DoUpdate(update) = &clause.action else {
            let clause = OnConflict { arbiters: arbiters(target, table)?, update: None };
            return Ok(Some(PlannedConflict { clause, tables: Vec::new(), once: false }));
        };
        if target.is_none() {
            let text = "ON CONFLICT DO UPDATE requires inference specification or constraint name";
            let hint = "For example, ON CONFLICT (column_name).";
            return Err(PgError::syntax(text).with_hint(hint));
        }
        if alias == "excluded" {
            let text = "table name \"excluded\" specified more than once";
            return Err(PgError::new("42712", text));
        }
        let arbiters = arbiters(target, table)?;
        let pair = Arc::new(pair_of(table));
        let (mut set, mut exprs) = (Vec::new(), Vec::new());
        for assignment in &update.assignments {
            for (name, value) in assigned_pairs(assignment)? {
                let at = set_column(name, &value, table, &mut set)?;
                let expr = if direct::is_default(&value) {
                    default_expr(table, at)?
                } else {
                    over_pair(&value, table, alias)?
                };
                note_parameter(&expr, table.columns[at].ty, params)?;
                exprs.push(expr);
            }
        }
        self.check_columns(table, Privileges::UPDATE, &set).await?;
        self.check_relation(table, Privileges::SELECT).await?;
        let condition =
            update.selection.as_ref().map(|e| over_pair(e, table, alias)).transpose()?;
        let simple = pair_scalars(&pair, alias, &set, &exprs, condition.as_ref(), params)?;
        let (values, tables, once) = match simple {
            Some(scalars) => (scalars, Vec::new(), false),
            None => self.plan_pair_query(&pair, alias, &set, exprs, condition, params).await?,
        };
        let update = Some(ConflictUpdate { pair, set, values });
        let clause = OnConflict { arbiters, update };
        Ok(Some(PlannedConflict { clause, tables, once }))
    }

    async fn plan_pair_query(
        &mut self,
        pair: &Arc<TableDef>,
        alias: &str,
        set: &[usize],
        exprs: Vec<Expr>,
        mut condition: Option<Expr>,
        params: &mut Params,
    ) -> Result<(NewValues, Vec<(ObjId, u64)>, bool)> {
        let env = self.format_env();
        let mut binder = Binder::new(params, &env);
        let untyped: Vec<bool> = exprs.iter().map(assign::is_untyped_value).collect();
        let mut items = Vec::with_capacity(exprs.len());
        for (i, mut expr) in exprs.into_iter().enumerate() {
            binder.bind_expr(&mut expr)?;
            let alias = Ident::with_quote('"', format!("$set{i}"));
            items.push(SelectItem::ExprWithAlias { expr, alias });
        }
        if let Some(condition) = &mut condition {
            binder.bind_expr(condition)?;
        }
        let references = binder.references;
        let (mut known, tables, once) = self.relations(&references, params).await?;
        known.insert(Some(&pair.schema), &pair.name, Relation::Table(pair.clone()));
        let relation = target_factor(pair, alias);
        let from = vec![TableWithJoins { relation, joins: Vec::new() }];
        let query = select_query(items, from, condition)?;
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &known, &params.all_types())?;
        for (i, at) in set.iter().enumerate() {
            if let (Some(given), Some(false)) = (planned.columns.get(i), untyped.get(i)) {
                assign::check(&pair.columns[*at], given)?;
            }
        }
        for (slot, inferred) in params.types.iter_mut().zip(&planned.params) {
            slot.get_or_insert(*inferred);
        }
        Ok((NewValues::Query(Box::new(QueryPlan::new(planned))), tables, once))
    }

    /// Inserts the proposed row, or does what the clause says about the row in its way. Gives the
    /// address of what was written; `row` is its new version then.
    pub(crate) async fn upsert(
        &mut self,
        table: &Arc<TableDef>,
        clause: &OnConflict,
        params: &[Value],
        row: &mut Vec<u8>,
        written: &mut Written,
    ) -> Result<Option<Rowid>> {
        if written.statement.is_none() {
            written.statement = Some(self.snapshot()?);
        }
        let txn = self.transaction()?;
        loop {
            self.ctx.check_interrupt()?;
            let Some((index, rowid)) = self.row_in_the_way(table, clause, row).await? else {
                let done = table::insert_unless(&self.ctx, &txn, table, row, &clause.arbiters);
                if let Some(rowid) = done.await.map_err(|error| row_error(error, table))? {
                    written.rows.insert(rowid.to_u64());
                    return Ok(Some(rowid));
                }
                continue;
            };
            let Some(update) = &clause.update else {
                if txn.isolation() == Isolation::RepeatableRead {
                    let (snapshot, mut seen) = (self.snapshot()?, Vec::new());
                    if !table::fetch(&self.ctx, table, rowid, &snapshot, &mut seen).await? {
                        return Err(concurrent());
                    }
                }
                return Ok(None);
            };
            if written.rows.contains(&rowid.to_u64()) {
                return Err(twice());
            }
            let met = Met { table, update, index, rowid };
            let statement = written.statement.as_ref();
            let statement = statement.ok_or_else(|| PgError::internal("no snapshot"))?.clone();
            match self.update_in_the_way(&met, params, &statement, row).await? {
                Decided::Again => {}
                Decided::Left => return Ok(None),
                Decided::Updated => {
                    written.rows.insert(rowid.to_u64());
                    return Ok(Some(rowid));
                }
            }
        }
    }

    /// The first arbiter whose key is taken, and the row that has it.
    async fn row_in_the_way(
        &mut self,
        table: &TableDef,
        clause: &OnConflict,
        row: &[u8],
    ) -> Result<Option<(usize, Rowid)>> {
        let (txn, wait) = (self.transaction()?, self.lock_wait());
        let newest = match clause.update {
            Some(_) => Some(txn.newest_snapshot()?),
            None => None,
        };
        for at in &clause.arbiters {
            let Some(index) = table.all_indexes().nth(*at) else { continue };
            let newest = newest.as_ref();
            let found = table::conflicting(&self.ctx, &txn, table, index, row, newest, wait).await;
            if let Some(rowid) = found.map_err(|error| row_error(error, table))? {
                return Ok(Some((*at, rowid)));
            }
        }
        Ok(None)
    }

    async fn update_in_the_way(
        &mut self,
        met: &Met<'_>,
        params: &[Value],
        statement: &Snapshot,
        row: &mut Vec<u8>,
    ) -> Result<Decided> {
        let Met { table, index, rowid, .. } = *met;
        let (txn, wait) = (self.transaction()?, self.lock_wait());
        let repeatable = txn.isolation() == Isolation::RepeatableRead;
        let snapshot = if repeatable { statement.clone() } else { txn.newest_snapshot()? };
        let mut old = Vec::new();
        let there = table::fetch(&self.ctx, table, rowid, &snapshot, &mut old).await?;
        let own = table.all_indexes().nth(index);
        let own = own.ok_or_else(|| PgError::internal("an arbiter that is gone"))?;
        if !there || !table::same_key(table, own, &old, row)? {
            // Given up again, or, for a snapshot that stays, not there yet.
            return if repeatable { Err(concurrent()) } else { Ok(Decided::Again) };
        }
        let values = self.conflict_values(met, params, statement, &old, row).await?;
        let Some(values) = values else {
            let locked = table::lock(&self.ctx, &txn, table, rowid, &snapshot, wait).await;
            return Ok(match locked.map_err(|error| row_error(error, table))? {
                Change::Done | Change::Skipped => Decided::Left,
                Change::Newer(_) | Change::Gone => Decided::Again,
            });
        };
        let mut new = Vec::with_capacity(old.len() + 8);
        replaced(table, &old, &values, &mut new)?;
        self.complete_row(table, &mut new).await?;
        let done = table::update(&self.ctx, &txn, table, rowid, &snapshot, &old, &new, wait).await;
        Ok(match done.map_err(|error| row_error(error, table))? {
            Change::Done => {
                *row = new;
                Decided::Updated
            }
            Change::Skipped => Decided::Left,
            Change::Newer(_) | Change::Gone => Decided::Again,
        })
    }

    /// New values for the row in the way; `None` if the condition does not hold.
    async fn conflict_values(
        &mut self,
        met: &Met<'_>,
        params: &[Value],
        statement: &Snapshot,
        old: &[u8],
        proposed: &[u8],
    ) -> Result<Option<Vec<(usize, Value)>>> {
        let Met { table, update, rowid, .. } = *met;
        let (old, proposed) =
            (RowView::new(&table.types, old), RowView::new(&table.types, proposed));
        let both: Vec<Datum<'_>> = old.iter().chain(proposed.iter()).collect();
        let mut pair = Vec::new();
        encode_row(&update.pair.types, &both, &mut pair);
        let env = self.format_env();
        match &update.values {
            NewValues::Scalars { set, condition } => {
                let view = RowView::new(&update.pair.types, &pair);
                let cx = EvalContext { row: Some(view), params, env: &env };
                if let Some(condition) = condition
                    && condition.truth(&cx)? != Some(true)
                {
                    return Ok(None);
                }
                let value =
                    |(at, scalar): (&usize, &Scalar)| Ok((*at, scalar.eval(&cx)?.into_value()));
                update.set.iter().zip(set).map(value).collect::<Result<Vec<_>>>().map(Some)
            }
            NewValues::Query(plan) => {
                let state = self.state_over(params, statement, vec![(rowid, pair)]);
                let mut stream = self.open_query(plan, state).await?;
                while let Some(batch) = self.next_batch(&mut stream).await {
                    let batch = batch?;
                    if batch.num_rows() == 0 {
                        continue;
                    }
                    let readers = query::planner::readers(&batch)?;
                    let value = |(at, reader): (&usize, &query::ColumnReader)| {
                        let ty = table.columns[*at].ty;
                        Ok((*at, cast(&reader.get(0), ty, CastMode::Assignment, &env)?))
                    };
                    let values = update.set.iter().zip(&readers).map(value);
                    return values.collect::<Result<Vec<_>>>().map(Some);
                }
                Ok(None)
            }
        }
    }
}

/// A row that stands in the way of a proposed one.
#[derive(Clone, Copy)]
struct Met<'a> {
    table: &'a Arc<TableDef>,
    update: &'a ConflictUpdate,
    /// The arbiter, as a position in the table's indexes.
    index: usize,
    rowid: Rowid,
}

/// What became of it.
enum Decided {
    Updated,
    /// The condition does not hold.
    Left,
    /// It is not as it was: look again.
    Again,
}

/// The clause's expressions as scalars, if they are simple enough.
fn pair_scalars(
    pair: &TableDef,
    alias: &str,
    set: &[usize],
    exprs: &[Expr],
    condition: Option<&Expr>,
    params: &mut Params,
) -> Result<Option<NewValues>> {
    let mut tried = params.clone();
    let mut scalars = Vec::with_capacity(set.len());
    for (at, expr) in set.iter().zip(exprs) {
        let ty = pair.columns[*at].ty;
        let bound = ScalarBinder::new(pair, alias, &mut tried).bind_assignment(expr, ty)?;
        let Some(scalar) = bound else { return Ok(None) };
        scalars.push(scalar);
    }
    let condition = match condition {
        None => None,
        Some(expr) => match ScalarBinder::new(pair, alias, &mut tried).bind_condition(expr)? {
            None => return Ok(None),
            some => some,
        },
    };
    *params = tried;
    Ok(Some(NewValues::Scalars { set: scalars, condition }))
}
