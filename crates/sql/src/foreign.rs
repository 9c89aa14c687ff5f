//! Foreign keys at the end of a statement or transaction: the checks that its rows have put off,
//! and the actions that follow a parent.
//!
//! What it promises: a statement ends when all that its changes bring about has been done and
//! holds; what an action changes is checked like any other change. What it must never do: forget a
//! check because another one has failed.

use crate::check::has_rules;
use crate::dml::{encode_checked, row_error};
use crate::session::Session;
use crate::{PgError, Result};
use block::{ObjId, Rowid};
use kernel::dict::{self, ForeignKeyDef, KeyAction, TableDef};
use kernel::row::{Datum, RowView, Value};
use kernel::table::foreign::{self, Child, KeyEvent, PendingKey};
use kernel::table::{self, Change, LockWait};
use kernel::txn::{Isolation, Snapshot};
use query::cast::{CastMode, cast};
use query::scalar::EvalContext;
use query::wire::{FormatEnv, to_text};
use std::collections::BTreeMap;
use std::sync::Arc;

/// When a transaction wants its deferrable checks made, where it has said so.
#[derive(Clone, Default)]
pub(crate) struct Deferral {
    /// SET CONSTRAINTS ALL.
    all: Option<bool>,
    keys: BTreeMap<ObjId, bool>,
}

impl Deferral {
    fn is_deferred(&self, key: &ForeignKeyDef) -> bool {
        let said = self.keys.get(&key.obj).copied().or(self.all);
        key.deferrable && said.unwrap_or(key.deferred)
    }
}

/// What becomes of the rows that refer to a parent which has left.
fn action(pending: &PendingKey) -> Option<KeyAction> {
    match &pending.event {
        KeyEvent::Child { .. } => None,
        KeyEvent::Parent { new: Some(_), .. } => Some(pending.key.on_update),
        KeyEvent::Parent { new: None, .. } => Some(pending.key.on_delete),
    }
}

/// Whether only the check can wait, not an action.
fn can_wait(pending: &PendingKey) -> bool {
    matches!(action(pending), None | Some(KeyAction::NoAction))
}

/// `(a, b)=(1, 2)`, for the details of errors.
pub(crate) fn shown_key(table: &TableDef, columns: &[u16], values: &[Value]) -> String {
    let env = FormatEnv::plain();
    let of = |at: &u16| &table.columns[usize::from(*at)];
    let names: Vec<&str> = columns.iter().map(|at| of(at).name.as_str()).collect();
    let shown = |(at, value): (&u16, &Value)| {
        let datum = value.as_datum();
        match cast(&datum, of(at).ty, CastMode::Explicit, &env) {
            Ok(value) => to_text(&value.as_datum(), &env),
            Err(_) => to_text(&datum, &env),
        }
    };
    let texts: Vec<String> = columns.iter().zip(values).map(shown).collect();
    format!("({})=({})", names.join(", "), texts.join(", "))
}

/// The error for a row that has no parent.
pub(crate) fn no_parent(
    child: &TableDef,
    parent: &str,
    key: &ForeignKeyDef,
    values: &[Value],
) -> PgError {
    let detail = if values.iter().any(|value| matches!(value, Value::Null)) {
        "MATCH FULL does not allow mixing of null and nonnull key values.".to_owned()
    } else {
        let shown = shown_key(child, &key.columns, values);
        format!("Key {shown} is not present in table \"{parent}\".")
    };
    let (table, name) = (&child.name, &key.name);
    let text =
        format!("insert or update on table \"{table}\" violates foreign key constraint \"{name}\"");
    PgError::new("23503", text)
        .with_detail(detail)
        .with_table(&child.schema, table)
        .with_constraint(name)
}

/// The error for a parent to which rows still refer.
fn still_referenced(
    parent: &TableDef,
    child: &TableDef,
    key: &ForeignKeyDef,
    values: &[Value],
) -> PgError {
    let columns = key.parent_columns(parent).unwrap_or_default();
    let shown = shown_key(parent, &columns, values);
    let (table, name, other) = (&parent.name, &key.name, &child.name);
    let text = format!(
        "update or delete on table \"{table}\" violates foreign key constraint \"{name}\" on table \
         \"{other}\""
    );
    PgError::new("23503", text)
        .with_detail(format!("Key {shown} is still referenced from table \"{other}\"."))
        .with_table(&child.schema, other)
        .with_constraint(name)
}

/// Parents of one key that have left, in one way.
struct Left<'a> {
    key: &'a Arc<ForeignKeyDef>,
    action: KeyAction,
    old: Vec<&'a [Value]>,
    new: Vec<Option<&'a [Value]>>,
    /// Which of the checks put off each is.
    at: Vec<usize>,
}

/// A check that has failed, and which it is.
type Failed = Option<(usize, PgError)>;

/// The checks in the order of their changes; parents of one key that lie together are one.
enum Check<'a> {
    Child(&'a PendingKey, Rowid, usize),
    Parents(Left<'a>),
}

fn in_order(pending: &[PendingKey]) -> Vec<Check<'_>> {
    let mut out: Vec<Check<'_>> = Vec::new();
    for (at, one) in pending.iter().enumerate() {
        let (old, new) = match &one.event {
            KeyEvent::Child { rowid } => {
                out.push(Check::Child(one, *rowid, at));
                continue;
            }
            KeyEvent::Parent { old, new } => (old.as_slice(), new.as_deref()),
        };
        let wanted = if new.is_some() { one.key.on_update } else { one.key.on_delete };
        let same = |check: &&mut Check<'_>| {
            matches!(check, Check::Parents(left)
                if left.key.obj == one.key.obj && left.action == wanted)
        };
        if let Some(Check::Parents(left)) = out.iter_mut().rev().find(same) {
            left.old.push(old);
            left.new.push(new);
            left.at.push(at);
            continue;
        }
        let (key, action) = (&one.key, wanted);
        out.push(Check::Parents(Left {
            key,
            action,
            old: vec![old],
            new: vec![new],
            at: vec![at],
        }));
    }
    out
}

impl Session {
    /// Makes the checks that are due: at the end of a statement, with `all` of the transaction.
    pub(crate) async fn settle_keys(&mut self, all: bool) -> Result<()> {
        let Some(txn) = &self.txn else { return Ok(()) };
        if !txn.handle.has_put_off() {
            return Ok(());
        }
        env::boxed!(self.settle_pending(all)).await
    }

    async fn settle_pending(&mut self, all: bool) -> Result<()> {
        let txn = self.transaction()?;
        loop {
            let Some(open) = &self.txn else { return Ok(()) };
            let deferred =
                |one: &PendingKey| !all && can_wait(one) && open.deferral.is_deferred(&one.key);
            let (later, due): (Vec<_>, Vec<_>) =
                foreign::take_pending_keys(&txn).into_iter().partition(deferred);
            foreign::return_pending_keys(&txn, later);
            if due.is_empty() {
                return Ok(());
            }
            if let Err(error) = self.make_checks(&due).await {
                // What a rollback to a savepoint leaves must be checked again.
                foreign::return_pending_keys(&txn, due);
                return Err(error);
            }
            let waited = due.into_iter().filter(|one| can_wait(one) && one.key.deferrable);
            foreign::note_settled_keys(&txn, waited.collect());
        }
    }

    /// Of several that fail the first is told.
    async fn make_checks(&mut self, due: &[PendingKey]) -> Result<()> {
        let mut first: Failed = None;
        for check in in_order(due) {
            self.ctx.check_interrupt()?;
            let failed = match check {
                Check::Child(one, rowid, at) => {
                    self.check_child(&one.key, rowid).await?.map(|error| (at, error))
                }
                Check::Parents(left) => self.parents_left(&left).await?,
            };
            let earlier = |(at, _): &(usize, PgError)| first.as_ref().is_none_or(|f| *at < f.0);
            if failed.as_ref().is_some_and(earlier) {
                first = failed;
            }
        }
        first.map_or(Ok(()), |(_, error)| Err(error))
    }

    async fn table_by_obj(&mut self, obj: ObjId) -> Result<Arc<TableDef>> {
        let txn = self.transaction()?;
        let found = dict::table_by_obj(&self.ctx, &txn, obj).await?;
        Ok(found.ok_or(kernel::Error::ObjectGone)?)
    }

    async fn check_child(&mut self, key: &ForeignKeyDef, rowid: Rowid) -> Result<Option<PgError>> {
        let (txn, child) = (self.transaction()?, self.table_by_obj(key.table).await?);
        // As it is now: it may have gone again, or refer to another one.
        let (snapshot, mut row) = (txn.newest_snapshot()?, Vec::new());
        if !table::fetch(&self.ctx, &child, rowid, &snapshot, &mut row).await? {
            return Ok(None);
        }
        let values = foreign::values_of(&child.types, &key.columns, &row);
        let nulls = values.iter().filter(|value| matches!(value, Value::Null)).count();
        if nulls == values.len() || (nulls > 0 && !key.full) {
            return Ok(None);
        }
        if nulls == 0 && foreign::has_parent(&self.ctx, &txn, key, &values).await? {
            return Ok(None);
        }
        let parent = self.table_by_obj(key.parent).await?;
        Ok(Some(no_parent(&child, &parent.name, key, &values)))
    }

    async fn parents_left(&mut self, left: &Left<'_>) -> Result<Failed> {
        match left.action {
            KeyAction::NoAction => {
                let gone = self.gone(left).await?;
                self.refused(left, &gone).await
            }
            KeyAction::Restrict => {
                let all: Vec<usize> = (0..left.old.len()).collect();
                self.refused(left, &all).await
            }
            KeyAction::Cascade | KeyAction::SetNull | KeyAction::SetDefault => {
                self.follow(left).await
            }
        }
    }

    /// Which of the parents have really gone: another row may have the key now.
    async fn gone(&mut self, left: &Left<'_>) -> Result<Vec<usize>> {
        let (txn, mut gone) = (self.transaction()?, Vec::new());
        for (i, old) in left.old.iter().enumerate() {
            if !foreign::has_parent(&self.ctx, &txn, left.key, old).await? {
                gone.push(i);
            }
        }
        Ok(gone)
    }

    /// The first of these parents to which a row refers.
    async fn refused(&mut self, left: &Left<'_>, gone: &[usize]) -> Result<Failed> {
        let (txn, key) = (self.transaction()?, left.key);
        if gone.is_empty() {
            return Ok(None);
        }
        let values: Vec<&[Value]> = gone.iter().map(|i| left.old[*i]).collect();
        let found = foreign::children(&self.ctx, &txn, key, &values, 1).await?;
        let Some(first) = found.iter().map(|child| child.parent).min() else { return Ok(None) };
        let parent = self.table_by_obj(key.parent).await?;
        let child = self.table_by_obj(key.table).await?;
        let error = still_referenced(&parent, &child, key, values[first]);
        Ok(Some((left.at[gone[first]], error)))
    }

    /// Deletes or changes the rows that refer to parents which have left.
    async fn follow(&mut self, left: &Left<'_>) -> Result<Failed> {
        let (txn, key) = (self.transaction()?, left.key);
        let found = foreign::children(&self.ctx, &txn, key, &left.old, usize::MAX).await?;
        let table = self.table_by_obj(key.table).await?;
        for Child { rowid, parent } in found {
            self.ctx.check_interrupt()?;
            let (old, new) = (left.old[parent], left.new[parent]);
            let set = match (left.action, new) {
                (KeyAction::Cascade, None) => None,
                (KeyAction::Cascade, Some(new)) => Some(new.to_vec()),
                (KeyAction::SetDefault, _) => Some(self.key_defaults(&table, key).await?),
                _ => Some(vec![Value::Null; key.columns.len()]),
            };
            self.follow_row(&table, key, rowid, old, set.as_deref()).await?;
        }
        if left.action == KeyAction::SetDefault {
            // The default may be the very key that has left.
            let gone = self.gone(left).await?;
            return self.refused(left, &gone).await;
        }
        Ok(None)
    }

    async fn key_defaults(
        &mut self,
        table: &Arc<TableDef>,
        key: &ForeignKeyDef,
    ) -> Result<Vec<Value>> {
        let env = self.format_env();
        let mut out = Vec::with_capacity(key.columns.len());
        for column in &key.columns {
            out.push(match crate::planning::row_default(table, usize::from(*column))? {
                None => Value::Null,
                Some(default) => {
                    let called = self.call_all(&default.calls).await?;
                    let cx = EvalContext { row: None, params: &called, env: &env };
                    default.scalar.eval(&cx)?.into_value()
                }
            });
        }
        Ok(out)
    }

    /// A snapshot for the change of a row that a current look has found.
    async fn following(&mut self) -> Result<Snapshot> {
        let txn = self.transaction()?;
        match txn.isolation() {
            // Rows that the transaction does not see it may not change either: 40001.
            Isolation::RepeatableRead => self.snapshot(),
            Isolation::ReadCommitted => Ok(txn.newest_snapshot()?),
        }
    }

    /// `set`: the new values of the key's columns; `None`: the row goes.
    async fn follow_row(
        &mut self,
        table: &Arc<TableDef>,
        key: &ForeignKeyDef,
        rowid: Rowid,
        old: &[Value],
        set: Option<&[Value]>,
    ) -> Result<()> {
        let (txn, env) = (self.transaction()?, self.format_env());
        let referred = foreign::key_of(old, &table.types, &key.columns);
        let (mut row, mut new) = (Vec::new(), Vec::new());
        loop {
            let snapshot = self.following().await?;
            if !table::fetch(&self.ctx, table, rowid, &snapshot, &mut row).await? {
                // Gone meanwhile, or never to be seen by this transaction.
                let now = txn.newest_snapshot()?;
                if table::fetch(&self.ctx, table, rowid, &now, &mut row).await? {
                    let text = "could not serialize access due to concurrent update";
                    return Err(PgError::new("40001", text));
                }
                return Ok(());
            }
            let values = foreign::values_of(&table.types, &key.columns, &row);
            let some_null = values.iter().any(|value| matches!(value, Value::Null));
            if some_null || foreign::key_of(&values, &table.types, &key.columns) != referred {
                return Ok(());
            }
            let change = match set {
                None => {
                    let wait = LockWait::Wait;
                    table::delete(&self.ctx, &txn, table, rowid, &snapshot, &row, wait).await
                }
                Some(set) => {
                    let mut given = Vec::with_capacity(set.len());
                    for (value, column) in set.iter().zip(&key.columns) {
                        let ty = table.columns[usize::from(*column)].ty;
                        given.push(cast(&value.as_datum(), ty, CastMode::Assignment, &env)?);
                    }
                    let view = RowView::new(&table.types, &row);
                    let mut values: Vec<Datum<'_>> = view.iter().collect();
                    for (value, column) in given.iter().zip(&key.columns) {
                        values[usize::from(*column)] = value.as_datum();
                    }
                    encode_checked(table, &values, &mut new)?;
                    if has_rules(table) {
                        self.complete_row(table, &mut new).await?;
                    }
                    let wait = LockWait::Wait;
                    table::update(&self.ctx, &txn, table, rowid, &snapshot, &row, &new, wait).await
                }
            };
            match change.map_err(|error| row_error(error, table))? {
                Change::Done | Change::Gone | Change::Skipped => return Ok(()),
                // Locked now, in a version that only a new snapshot shows.
                Change::Newer(_) => {}
            }
        }
    }

    /// SET CONSTRAINTS: `None` is all of them.
    pub(crate) async fn set_constraints(
        &mut self,
        names: Option<&[(Option<String>, String)]>,
        deferred: bool,
    ) -> Result<()> {
        let mut keys = Vec::new();
        for (schema, name) in names.unwrap_or_default() {
            keys.extend(self.deferrable_keys(schema.as_deref(), name).await?);
        }
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            let text = "SET CONSTRAINTS can only be used in transaction blocks";
            self.notice(crate::Severity::Warning, text);
            return Ok(());
        };
        match names {
            None => txn.deferral = Deferral { all: Some(deferred), keys: BTreeMap::new() },
            Some(_) => txn.deferral.keys.extend(keys.into_iter().map(|key| (key, deferred))),
        }
        if deferred { Ok(()) } else { self.settle_keys(false).await }
    }

    async fn deferrable_keys(&mut self, schema: Option<&str>, name: &str) -> Result<Vec<ObjId>> {
        let txn = self.transaction()?;
        let mut found = Vec::new();
        for table in dict::tables(&self.ctx, &txn).await? {
            let in_path = match schema {
                Some(schema) => table.schema == schema,
                None => self.settings.search_path.contains(&table.schema),
            };
            let of_index = table.indexes.iter().any(|i| i.constraint.as_deref() == Some(name));
            let fixed = of_index || table.checks.iter().any(|check| check.name == name);
            let key = table.foreign.iter().find(|key| key.name == name);
            if in_path && (fixed || key.is_some_and(|key| !key.deferrable)) {
                let text = format!("constraint \"{name}\" is not deferrable");
                return Err(PgError::new("42809", text));
            }
            found.extend(key.filter(|_| in_path).map(|key| key.obj));
        }
        if found.is_empty() {
            return Err(PgError::new("42704", format!("constraint \"{name}\" does not exist")));
        }
        Ok(found)
    }
}
