//! MERGE: rows of a source, each with the target's row that belongs to it or none, and what is done
//! with them.
//!
//! What it promises: the first clause whose condition holds is followed; a row that somebody else
//! has changed meanwhile is judged by its new version. What it must never do: change a row twice.

use crate::assign;
use crate::bind::{Binder, Params, ident_name, table_parts};
use crate::ddl::Verb;
use crate::dml::{encode_checked, replaced, row_error};
use crate::generated::{Overriding, given_counts};
use crate::plan::{Kind, QueryPlan, RowDefault};
use crate::planning::{
    Aimed, Planned, assigned_pairs, default_expr, hidden_items, note_parameter, row_default,
    select_query, set_column,
};
use crate::session::Session;
use crate::target_rows::TargetRows;
use crate::words::{DEFAULT_VALUES, NOTHING};
use crate::{PgError, Result, direct};
use block::Rowid;
use datafusion::arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::{
    self, CaseWhen, Expr, Ident, Join, JoinConstraint, JoinOperator, MergeAction, MergeClauseKind,
    MergeInsertKind, ObjectName, SelectItem, Statement as Ast, TableFactor, TableWithJoins,
    helpers::attached_token::AttachedToken, visit_expressions,
};
use kernel::dict::{Privileges, TableDef};
use kernel::row::{Datum, Value};
use kernel::table::{self, Change};
use kernel::txn::Snapshot;
use query::ExecState;
use query::cast::{CastMode, cast};
use query::scalar::EvalContext;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Columns of the query: address and bytes of the target's row, the clause to follow if there is
/// one, the clause to follow if not, then what the clauses need.
const MATCHED: usize = 2;
const UNMATCHED: usize = 3;
const VALUES: usize = 4;

pub(crate) struct MergePlan {
    pub(crate) table: Arc<TableDef>,
    pub(crate) query: QueryPlan,
    clauses: Vec<Clause>,
}

/// What a clause does; values stand in the query's columns from `first` on.
enum Clause {
    Nothing,
    Delete,
    Update { set: Vec<usize>, first: usize },
    Insert { columns: Vec<usize>, first: usize, defaults: Vec<(usize, RowDefault)> },
}

/// The clauses while they are planned.
struct Planning {
    clauses: Vec<Clause>,
    /// Condition and number of each clause, for rows with and without a partner.
    matched: Vec<(Option<Expr>, usize)>,
    unmatched: Vec<(Option<Expr>, usize)>,
    values: Vec<Expr>,
}

fn twice() -> PgError {
    PgError::new("21000", "MERGE command cannot affect row a second time")
        .with_hint("Ensure that not more than one source row matches any one target row.")
}

fn unreachable() -> PgError {
    PgError::syntax("unreachable WHEN clause specified after unconditional WHEN clause")
}

/// The number of the clause to follow, from 1; 0 if there is none.
fn choice(clauses: Vec<(Option<Expr>, usize)>) -> Expr {
    let number = |n: usize| crate::bind::number(&n.to_string());
    let mut conditions = Vec::new();
    let mut otherwise = number(0);
    for (condition, clause) in clauses {
        match condition {
            Some(condition) => conditions.push(CaseWhen { condition, result: number(clause + 1) }),
            None => {
                otherwise = number(clause + 1);
                break;
            }
        }
    }
    if conditions.is_empty() {
        return otherwise;
    }
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: None,
        conditions,
        else_result: Some(Box::new(otherwise)),
    }
}

/// 42P01 if the expression speaks of the target, which has no row there.
fn without_target(expr: &Expr, alias: &str) -> Result<()> {
    let found = visit_expressions(expr, |part| match part {
        Expr::CompoundIdentifier(parts) if parts.len() > 1 && ident_name(&parts[0]) == alias => {
            ControlFlow::Break(())
        }
        _ => ControlFlow::Continue(()),
    });
    if found.is_continue() {
        return Ok(());
    }
    let text = format!("invalid reference to FROM-clause entry for table \"{alias}\"");
    let detail = format!(
        "There is an entry for table \"{alias}\", but it cannot be referenced from this part of \
         the query."
    );
    Err(PgError::new("42P01", text).with_detail(detail))
}

fn names_only(columns: &[ObjectName], word: &str) -> bool {
    matches!(columns, [one] if one.to_string().trim_matches('"') == word)
}

impl Planning {
    fn add(
        &mut self,
        clause: &ast::MergeClause,
        table: &TableDef,
        alias: &str,
        params: &mut Params,
    ) -> Result<()> {
        let number = self.clauses.len();
        let matched = match clause.clause_kind {
            MergeClauseKind::Matched => true,
            MergeClauseKind::NotMatched => false,
            _ => return Err(PgError::syntax("syntax error at or near \"BY\"")),
        };
        if !matched && let Some(condition) = &clause.predicate {
            without_target(condition, alias)?;
        }
        let list = if matched { &mut self.matched } else { &mut self.unmatched };
        if list.last().is_some_and(|(condition, _)| condition.is_none()) {
            return Err(unreachable());
        }
        list.push((clause.predicate.clone(), number));
        let done = match &clause.action {
            MergeAction::Delete { .. } => Clause::Delete,
            MergeAction::Update(update) => {
                if update.update_predicate.is_some() || update.delete_predicate.is_some() {
                    return Err(PgError::syntax("syntax error at or near \"WHERE\""));
                }
                self.update(&update.assignments, table, params)?
            }
            MergeAction::Insert(insert) => {
                if insert.insert_predicate.is_some() {
                    return Err(PgError::syntax("syntax error at or near \"WHERE\""));
                }
                self.insert(insert, table, alias, params)?
            }
        };
        self.clauses.push(done);
        Ok(())
    }

    fn update(
        &mut self,
        assignments: &[ast::Assignment],
        table: &TableDef,
        params: &mut Params,
    ) -> Result<Clause> {
        let (mut set, first) = (Vec::new(), VALUES + self.values.len());
        for assignment in assignments {
            for (name, value) in assigned_pairs(assignment)? {
                if names_only(std::slice::from_ref(name), NOTHING) {
                    return Ok(Clause::Nothing);
                }
                let at = set_column(name, &value, table, &mut set)?;
                let expr = match direct::is_default(&value) {
                    true => default_expr(table, at)?,
                    false => value.into_owned(),
                };
                note_parameter(&expr, table.columns[at].ty, params)?;
                self.values.push(expr);
            }
        }
        Ok(Clause::Update { set, first })
    }

    fn insert(
        &mut self,
        insert: &ast::MergeInsertExpr,
        table: &TableDef,
        alias: &str,
        params: &mut Params,
    ) -> Result<Clause> {
        if names_only(&insert.columns, NOTHING) {
            return Ok(Clause::Nothing);
        }
        let (mut columns, first) = (Vec::new(), VALUES + self.values.len());
        let MergeInsertKind::Values(values) = &insert.kind else {
            return Err(PgError::syntax("syntax error at or near \"ROW\""));
        };
        let [row] = &values.rows[..] else {
            return Err(PgError::syntax("syntax error at or near \",\""));
        };
        if !names_only(&insert.columns, DEFAULT_VALUES) {
            let mut wanted = Vec::new();
            for name in &insert.columns {
                let (_, name) = table_parts(name)?;
                let at = direct::column_position(table, &name)?;
                if wanted.contains(&at) {
                    let text = format!("column \"{name}\" specified more than once");
                    return Err(PgError::new("42701", text));
                }
                wanted.push(at);
            }
            if insert.columns.is_empty() {
                wanted = (0..table.columns.len()).collect();
            }
            if row.content.len() > wanted.len() {
                return Err(PgError::syntax("INSERT has more expressions than target columns"));
            }
            if row.content.len() < wanted.len() && !insert.columns.is_empty() {
                return Err(PgError::syntax("INSERT has more target columns than expressions"));
            }
            for (at, expr) in wanted.into_iter().zip(&row.content) {
                if direct::is_default(expr) {
                    continue;
                }
                without_target(expr, alias)?;
                given_counts(&table.columns[at], Overriding::Nothing)?;
                note_parameter(expr, table.columns[at].ty, params)?;
                columns.push(at);
                self.values.push(expr.clone());
            }
        }
        let mut defaults = Vec::new();
        for at in (0..table.columns.len()).filter(|at| !columns.contains(at)) {
            if let Some(default) = row_default(table, at)? {
                defaults.push((at, default));
            }
        }
        Ok(Clause::Insert { columns, first, defaults })
    }
}

/// What became of a row.
enum Fate {
    Changed,
    Left,
    /// The target's row is gone, or belongs to the source's no longer.
    Unmatched,
}

impl Session {
    pub(crate) async fn plan_merge(
        &mut self,
        merge: &ast::Merge,
        params: &mut Params,
    ) -> Result<Planned> {
        if merge.output.is_some() {
            return Err(PgError::syntax("syntax error at or near \"RETURNING\""));
        }
        let target = TableWithJoins { relation: merge.table.clone(), joins: Vec::new() };
        let Aimed { table, alias, factor, .. } = self.target(&target, Verb::Merge).await?;
        let source_alias = match &merge.source {
            TableFactor::Table { name, alias: None, .. } => Some(table_parts(name)?.1),
            TableFactor::Table { alias, .. } | TableFactor::Derived { alias, .. } => {
                alias.as_ref().map(|alias| ident_name(&alias.name))
            }
            _ => None,
        };
        if source_alias.as_ref() == Some(&alias) {
            let text = format!("name \"{alias}\" specified more than once");
            let detail = "The name is used both as MERGE target table and data source.";
            return Err(PgError::new("42712", text).with_detail(detail));
        }
        let mut planning = Planning {
            clauses: Vec::new(),
            matched: Vec::new(),
            unmatched: Vec::new(),
            values: Vec::new(),
        };
        for clause in &merge.clauses {
            planning.add(clause, &table, &alias, params)?;
        }
        for clause in &planning.clauses {
            match clause {
                Clause::Nothing => {}
                Clause::Delete => self.check_relation(&table, Privileges::DELETE).await?,
                Clause::Update { set, .. } => {
                    self.check_columns(&table, Privileges::UPDATE, set).await?;
                }
                Clause::Insert { columns, .. } => {
                    self.check_columns(&table, Privileges::INSERT, columns).await?;
                }
            }
        }
        let Planning { clauses, matched, unmatched, values } = planning;
        let only_matched = unmatched.is_empty();
        let mut exprs = vec![choice(matched), choice(unmatched)];
        exprs.extend(values);
        let env = self.format_env();
        let mut binder = Binder::new(params, &env);
        let mut source = TableWithJoins { relation: merge.source.clone(), joins: Vec::new() };
        binder.bind_from(&mut source)?;
        let mut on = merge.on.as_ref().clone();
        binder.bind_expr(&mut on)?;
        let untyped: Vec<bool> = exprs.iter().map(assign::is_untyped_value).collect();
        let mut items = hidden_items(&alias);
        let hidden = items.len();
        for (i, mut expr) in exprs.into_iter().enumerate() {
            binder.bind_expr(&mut expr)?;
            let alias = Ident::with_quote('"', format!("$merge{i}"));
            items.push(SelectItem::ExprWithAlias { expr, alias });
        }
        let mut references = binder.references;
        references.add(Some(table.schema.clone()), table.name.clone());
        let on = JoinConstraint::On(on);
        let operator =
            if only_matched { JoinOperator::Inner(on) } else { JoinOperator::LeftOuter(on) };
        source.joins.push(Join { relation: factor, global: false, join_operator: operator });
        let query = select_query(items, vec![source], None)?;
        let (set, tables, once) = self.relations(&references, params).await?;
        let statement = Ast::Query(Box::new(query));
        let planned = self.database.planner.plan(statement, &set, &params.all_types())?;
        for clause in &clauses {
            let (columns, first) = match clause {
                Clause::Update { set, first } => (set, *first),
                Clause::Insert { columns, first, .. } => (columns, *first),
                Clause::Nothing | Clause::Delete => continue,
            };
            for (at, place) in columns.iter().zip(first..) {
                let typed = place.checked_sub(hidden).and_then(|i| untyped.get(i)) == Some(&false);
                if let Some(given) = planned.columns.get(place).filter(|_| typed) {
                    assign::check(&table.columns[*at], given)?;
                }
            }
        }
        let plan = MergePlan { table, query: QueryPlan::new(planned), clauses };
        let kind = Kind::Merge(Box::new(plan));
        Ok(Planned { kind, tables, columns: Vec::new(), returns_rows: false, once })
    }

    pub(crate) async fn run_merge(
        &mut self,
        plan: &MergePlan,
        params: Vec<Value>,
    ) -> Result<String> {
        self.check_writable("MERGE")?;
        let state = self.exec_state(params.clone()).await?;
        let snapshot = state.snapshot.clone();
        let mut stream = self.open_measured(&plan.query, state).await?;
        let (mut count, mut done) = (0usize, BTreeSet::new());
        while let Some(batch) = self.next_batch(&mut stream).await {
            let batch = batch?;
            let rows = TargetRows::new(&batch)?;
            for i in 0..batch.num_rows() {
                self.ctx.check_interrupt()?;
                let mut fate = Fate::Unmatched;
                if !rows.readers[0].get(i).is_null() {
                    let (rowid, _) = rows.get(i)?;
                    fate = self.merge_row(plan, &params, &snapshot, &rows, i, &mut done).await?;
                    if let Fate::Changed = fate {
                        done.insert(rowid.to_u64());
                    }
                }
                if let Fate::Unmatched = fate {
                    fate = self.merge_new(plan, &rows, i, &mut done).await?;
                }
                count += usize::from(matches!(fate, Fate::Changed));
            }
        }
        self.note_rows(&plan.table, count);
        Ok(format!("MERGE {count}"))
    }

    /// A row of the source that belongs to one of the target.
    async fn merge_row(
        &mut self,
        plan: &MergePlan,
        params: &[Value],
        snapshot: &Snapshot,
        rows: &TargetRows,
        at: usize,
        done: &mut BTreeSet<u64>,
    ) -> Result<Fate> {
        let (rowid, old) = rows.get(at)?;
        let (table, env) = (&plan.table, self.format_env());
        let (txn, wait) = (self.transaction()?, self.lock_wait());
        let (mut snapshot, mut old, mut new) = (snapshot.clone(), old.to_vec(), Vec::new());
        let mut fresh: Option<TargetRows> = None;
        loop {
            let (row, at) = match &fresh {
                Some(fresh) => (fresh, 0),
                None => (rows, at),
            };
            let clause = match plan.clause(row, MATCHED, at)? {
                None | Some(Clause::Nothing | Clause::Insert { .. }) => return Ok(Fate::Left),
                Some(clause) => clause,
            };
            if done.contains(&rowid.to_u64()) {
                return Err(twice());
            }
            let change = if let Clause::Update { set, first } = clause {
                let value = |(n, column): (usize, &usize)| {
                    let ty = table.columns[*column].ty;
                    let datum = row.readers[first + n].get(at);
                    Ok((*column, cast(&datum, ty, CastMode::Assignment, &env)?))
                };
                let values = set.iter().enumerate().map(value).collect::<Result<Vec<_>>>()?;
                replaced(table, &old, &values, &mut new)?;
                self.complete_row(table, &mut new).await?;
                table::update(&self.ctx, &txn, table, rowid, &snapshot, &old, &new, wait).await
            } else {
                table::delete(&self.ctx, &txn, table, rowid, &snapshot, &old, wait).await
            };
            match change.map_err(|error| row_error(error, table))? {
                Change::Done => return Ok(Fate::Changed),
                Change::Skipped => return Ok(Fate::Left),
                Change::Gone => return Ok(Fate::Unmatched),
                Change::Newer(newer) => {
                    snapshot = self.later_snapshot()?;
                    let again = self.merge_again(plan, params, &snapshot, rowid, &newer).await?;
                    let Some(batch) = again else { return Ok(Fate::Unmatched) };
                    fresh = Some(TargetRows::new(&batch)?);
                    old = newer;
                }
            }
        }
    }

    /// The source's row that belongs to a row of the target as it is now.
    async fn merge_again(
        &mut self,
        plan: &MergePlan,
        params: &[Value],
        snapshot: &Snapshot,
        rowid: Rowid,
        row: &[u8],
    ) -> Result<Option<RecordBatch>> {
        let state: Arc<ExecState> = self.state_over(params, snapshot, vec![(rowid, row.to_vec())]);
        let mut stream = self.open_query(&plan.query, state).await?;
        while let Some(batch) = self.next_batch(&mut stream).await {
            let batch = batch?;
            let rows = TargetRows::new(&batch)?;
            let found = (0..batch.num_rows()).find(|i| !rows.readers[0].get(*i).is_null());
            if let Some(at) = found {
                return Ok(Some(batch.slice(at, 1)));
            }
        }
        Ok(None)
    }

    /// A row of the source that belongs to none.
    async fn merge_new(
        &mut self,
        plan: &MergePlan,
        rows: &TargetRows,
        at: usize,
        done: &mut BTreeSet<u64>,
    ) -> Result<Fate> {
        let Some(Clause::Insert { columns, first, defaults }) = plan.clause(rows, UNMATCHED, at)?
        else {
            return Ok(Fate::Left);
        };
        let (txn, table, env) = (self.transaction()?, &plan.table, self.format_env());
        let mut values: Vec<Value> = vec![Value::Null; table.columns.len()];
        for (n, column) in columns.iter().enumerate() {
            let ty = table.columns[*column].ty;
            let datum = rows.readers[first + n].get(at);
            values[*column] = cast(&datum, ty, CastMode::Assignment, &env)?;
        }
        for (column, default) in defaults {
            let called = self.call_all(&default.calls).await?;
            let cx = EvalContext { row: None, params: &called, env: &env };
            values[*column] = default.scalar.eval(&cx)?.into_value();
        }
        let datums: Vec<Datum<'_>> = values.iter().map(Value::as_datum).collect();
        let mut row = Vec::new();
        encode_checked(table, &datums, &mut row)?;
        self.complete_row(table, &mut row).await?;
        let inserted = table::insert(&self.ctx, &txn, table, &row).await;
        done.insert(inserted.map_err(|error| row_error(error, table))?.to_u64());
        Ok(Fate::Changed)
    }
}

impl MergePlan {
    /// The clause that a row's column names.
    fn clause(&self, rows: &TargetRows, column: usize, at: usize) -> Result<Option<&Clause>> {
        let number = match rows.readers[column].get(at) {
            Datum::Int4(n) => usize::try_from(n).ok(),
            Datum::Int8(n) => usize::try_from(n).ok(),
            _ => None,
        };
        let number = number.ok_or_else(|| PgError::internal("a row without a clause"))?;
        Ok(number.checked_sub(1).and_then(|n| self.clauses.get(n)))
    }
}
