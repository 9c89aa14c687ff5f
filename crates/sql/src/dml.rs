//! Statements that change or lock rows: row by row through the kernel, with the second look that
//! READ COMMITTED takes at rows
//! changed meanwhile.
//!
//! What it promises: a row changed by somebody else between our snapshot and our lock is judged by
//! its new version, condition and
//! new values alike; under REPEATABLE READ that is an error (the kernel's). What it must never do:
//! write a row that
//! breaks a NOT NULL or a type.

use crate::check::{has_generated, has_rules};
use crate::encode::{RowEncoder, RowSink, ValueRef};
use crate::plan::{Direct, ModifyPlan, QueryPlan, RowAccess};
use crate::returning::Returning;
use crate::session::Session;
use crate::target_rows::TargetRows;
use crate::{PgError, Result};
use block::Rowid;
use datafusion::arrow::array::RecordBatch;
use datafusion::execution::SendableRecordBatchStream;
use kernel::dict::{IndexDef, IndexKind, TableDef};
use kernel::row::{
    ColType, Datum, RowTypes, RowView, Value, decode_ordered_prefix, unreversed_key,
};
use kernel::table::{self, Change, Held, LockWait};
use kernel::txn::Snapshot;
use query::cast::{CastMode, cast};
use query::explain::PartBegun;
use query::scalar::EvalContext;
use query::store;
use query::wire::{FormatEnv, to_text};
use query::{ExecState, JoinKeys, Override, Scalar, SharedRows};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Rows given at once to a query that computes what is returned.
const RETURNING_BATCH: usize = 1_000;

/// Types of a table's columns.
pub(crate) fn types(table: &TableDef) -> &RowTypes {
    &table.types
}

/// A kernel error with what it says about a row of this table.
pub(crate) fn row_error(error: kernel::Error, table: &TableDef) -> PgError {
    if let kernel::Error::UniqueViolation { index, key, row } = &error
        && let Some(found) = table.all_indexes().find(|i| i.name == *index)
    {
        let name = found.constraint.as_ref().unwrap_or(index);
        let message = format!("duplicate key value violates unique constraint \"{name}\"");
        let name_of = |column: &u16| match usize::from(*column) {
            at if at < table.columns.len() => table.columns[at].name.clone(),
            _ => crate::key_exprs::shown_part(table, found, *column, true),
        };
        let columns: Vec<String> = found.columns.iter().map(name_of).collect();
        let shown = key_text(table, found, key, row);
        return PgError::new("23505", message)
            .with_detail(format!("Key ({})=({shown}) already exists.", columns.join(", ")))
            .with_table(&table.schema, &table.name)
            .with_constraint(name);
    }
    if let kernel::Error::RowLocked = error {
        let message = format!("could not obtain lock on row in relation \"{}\"", table.name);
        return PgError::new("55P03", message);
    }
    error.into()
}

/// The values of a key: as they are in the row, else as far as the key has kept them.
fn key_text(table: &TableDef, index: &IndexDef, key: &[u8], row: &[u8]) -> String {
    let columns = &index.columns;
    let env = FormatEnv::plain();
    if !row.is_empty() && index.exprs.is_empty() {
        let view = RowView::new(types(table), row);
        let texts: Vec<String> =
            columns.iter().map(|c| to_text(&view.get(usize::from(*c)), &env)).collect();
        return texts.join(", ");
    }
    let key_types: Vec<ColType> = columns.iter().map(|c| index.part_type(table, *c)).collect();
    let mut values = Vec::new();
    let turned = match index.kind {
        IndexKind::Reverse => unreversed_key(key),
        _ => None,
    };
    let key = turned.as_deref().unwrap_or(key);
    let read = decode_ordered_prefix(&key_types, index.orders(), key, &mut values);
    if !read.is_ok_and(<[u8]>::is_empty) {
        return "?".to_owned();
    }
    let texts: Vec<String> = values
        .iter()
        .zip(&key_types)
        .map(|(v, ty)| match cast(&v.as_datum(), *ty, CastMode::Explicit, &env) {
            Ok(scaled) => to_text(&scaled.as_datum(), &env),
            Err(_) => to_text(&v.as_datum(), &env),
        })
        .collect();
    texts.join(", ")
}

/// The detail that shows a row which was refused.
pub(crate) fn failing_row(values: &[Datum<'_>]) -> String {
    let env = FormatEnv::plain();
    let shown: Vec<String> = values
        .iter()
        .map(|v| if v.is_null() { "null".to_owned() } else { to_text(v, &env) })
        .collect();
    format!("Failing row contains ({}).", shown.join(", "))
}

/// Encodes a row after checking NOT NULL. The caller sees to the CHECK constraints.
pub(crate) fn encode_checked(
    table: &TableDef,
    values: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<()> {
    if has_generated(table) {
        // Not all values are there yet.
        return encode(table, values, out);
    }
    encode_complete(table, values, out)
}

/// The same for a row whose generated columns have their values.
pub(crate) fn encode_complete(
    table: &TableDef,
    values: &[Datum<'_>],
    out: &mut Vec<u8>,
) -> Result<()> {
    for (column, value) in table.columns.iter().zip(values) {
        if column.not_null && value.is_null() {
            return Err(PgError::new(
                "23502",
                format!(
                    "null value in column \"{}\" of relation \"{}\" violates not-null constraint",
                    column.name, table.name
                ),
            )
            .with_detail(failing_row(values))
            .with_table(&table.schema, &table.name)
            .with_column(&column.name));
        }
    }
    encode(table, values, out)
}

fn encode(table: &TableDef, values: &[Datum<'_>], out: &mut Vec<u8>) -> Result<()> {
    let fitted = crate::numbers::fitted(table, values)?;
    out.clear();
    kernel::row::encode_row(types(table), fitted.as_deref().unwrap_or(values), out);
    Ok(())
}

/// The row with new values in some columns.
pub(crate) fn replaced(
    table: &TableDef,
    old: &[u8],
    set: &[(usize, Value)],
    out: &mut Vec<u8>,
) -> Result<()> {
    let view = RowView::new(types(table), old);
    let values: Vec<Datum<'_>> = (0..table.columns.len())
        .map(|i| match set.iter().find(|(at, _)| *at == i) {
            Some((_, value)) => value.as_datum(),
            None => view.get(i),
        })
        .collect();
    encode_checked(table, &values, out)
}

fn eval_set(set: &[(usize, Scalar)], cx: &EvalContext<'_>) -> Result<Vec<(usize, Value)>> {
    set.iter().map(|(at, scalar)| Ok((*at, scalar.eval(cx)?.into_value()))).collect()
}

/// What becomes of one row.
enum Fate {
    Changed,
    Skipped,
}

impl Session {
    pub(crate) fn lock_wait(&self) -> LockWait {
        match self.settings.lock_timeout_us {
            0 => LockWait::Wait,
            us => LockWait::Timeout(us),
        }
    }

    /// Refuses changes in a read-only transaction.
    pub(crate) fn check_writable(&self, what: &str) -> Result<()> {
        if self.txn.as_ref().is_some_and(|txn| txn.read_only) {
            let message = format!("cannot execute {what} in a read-only transaction");
            return Err(PgError::new("25006", message));
        }
        Ok(())
    }

    // ---- the direct path

    pub(crate) async fn run_direct(
        &mut self,
        direct: &Direct,
        params: &[Value],
        mut encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<String> {
        let env = self.format_env();
        match direct {
            Direct::Values(output) => {
                let cx = EvalContext { row: None, params, env: &env };
                encoder.encode(|i| output[i].eval(&cx), sink.row())?;
                Ok("SELECT 1".to_owned())
            }
            Direct::Select(select) => {
                let found = self.direct_select(select, params, &env).await?;
                if found {
                    let view = RowView::new(types(&select.row.table), &self.row);
                    let cx = EvalContext { row: Some(view), params, env: &env };
                    encoder.encode(|i| select.output[i].eval(&cx), sink.row())?;
                }
                Ok(if found { "SELECT 1" } else { "SELECT 0" }.to_owned())
            }
            Direct::Update { row, set, returning } => {
                self.check_writable("UPDATE")?;
                let count = env::boxed!(self.direct_update(row, set, params, &env)).await?;
                self.note_rows(&row.table, count);
                self.return_row(&row.table, returning.as_deref(), count, params, encoder, sink)?;
                Ok(format!("UPDATE {count}"))
            }
            Direct::Delete { row, returning } => {
                self.check_writable("DELETE")?;
                let count = env::boxed!(self.direct_delete(row, params, &env)).await?;
                self.note_rows(&row.table, count);
                self.return_row(&row.table, returning.as_deref(), count, params, encoder, sink)?;
                Ok(format!("DELETE {count}"))
            }
            Direct::Insert { .. } => {
                self.check_writable("INSERT")?;
                env::boxed!(self.direct_insert(direct, params, encoder, sink)).await
            }
        }
    }

    /// Sends the row in `self.row` if the statement has one to return.
    fn return_row(
        &self,
        table: &TableDef,
        returning: Option<&[Scalar]>,
        count: usize,
        params: &[Value],
        mut encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let Some(output) = returning else { return Ok(()) };
        if count == 0 {
            return Ok(());
        }
        let env = self.format_env();
        let view = RowView::new(types(table), &self.row);
        let cx = EvalContext { row: Some(view), params, env: &env };
        encoder.encode(|i| output[i].eval(&cx), sink.row())
    }

    /// Puts the key of the row into `self.key`. `false`: no row has it.
    pub(crate) fn make_key(
        &mut self,
        access: &RowAccess,
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<bool> {
        self.key.clear();
        let cx = EvalContext { row: None, params, env };
        for (at, scalar) in access.key.iter().enumerate() {
            let value = match scalar.eval(&cx) {
                Ok(value) => value,
                // A value its column cannot hold equals no row's.
                Err(error) if error.code == "22003" => return Ok(false),
                Err(error) => return Err(error),
            };
            if access.index.encode(at, &value.datum(), &mut self.key) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Finds the row of a unique key for a change, and leaves its bytes in `self.row`: as they
    /// stand, in a block that is held for the change, where that is as good as the snapshot's row.
    async fn take_row(
        &mut self,
        access: &RowAccess,
        snapshot: &Snapshot,
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<Option<(Rowid, Option<Held>)>> {
        let table = &access.table;
        if has_rules(table) {
            let found = self.find_row(access, snapshot, params, env).await?;
            return Ok(found.map(|rowid| (rowid, None)));
        }
        if !self.make_key(access, params, env)? {
            return Ok(None);
        }
        let begun = self.measured_key().map(|part| PartBegun::start(&part, &self.ctx));
        let found = table::index_rowid(&self.ctx, &access.index, &self.key, snapshot).await?;
        if let Some(begun) = begun {
            begun.end(&self.ctx, u64::from(found.is_some()));
        }
        let Some(rowid) = found else { return Ok(None) };
        let txn = self.transaction()?;
        // A row that the snapshot shows to be another than wanted is not waited for.
        let wait = access.key_is_all.then(|| self.lock_wait());
        let held = table::hold(&self.ctx, &txn, table, rowid, wait, &mut self.row).await;
        if let Some(held) = held.map_err(|error| row_error(error, table))? {
            let passes = self.row_passes(access, params, env)?;
            return Ok(passes.then_some((rowid, Some(held))));
        }
        let found = self.find_row(access, snapshot, params, env).await?;
        Ok(found.map(|rowid| (rowid, None)))
    }

    /// Finds the row of a unique key and leaves its bytes in `self.row`.
    pub(crate) async fn find_row(
        &mut self,
        access: &RowAccess,
        snapshot: &Snapshot,
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<Option<Rowid>> {
        if !self.make_key(access, params, env)? {
            return Ok(None);
        }
        let (table, index) = (&access.table, &access.index);
        let part = self.measured_key();
        let (ctx, key, row) = (&self.ctx, &self.key, &mut self.row);
        let found = match &part {
            None => table::index_lookup(ctx, table, index, key, snapshot, row).await?,
            part => {
                let part = part.as_ref();
                let found = store::unique_lookup(ctx, table, index, key, snapshot, row, part);
                env::boxed!(found).await?
            }
        };
        let Some(rowid) = found else { return Ok(None) };
        if !access.key_is_all && !self.row_passes(access, params, env)? {
            return Ok(None);
        }
        Ok(Some(rowid))
    }

    /// Whether the row in `self.row` meets the condition.
    pub(crate) fn row_passes(
        &self,
        access: &RowAccess,
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<bool> {
        let view = RowView::new(types(&access.table), &self.row);
        let cx = EvalContext { row: Some(view), params, env };
        Ok(access.filter.truth(&cx)? == Some(true))
    }

    /// Updates the row of a key; its new bytes are in `self.row` afterwards.
    async fn direct_update(
        &mut self,
        access: &RowAccess,
        set: &[(usize, Scalar)],
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<usize> {
        let mut snapshot = self.snapshot()?;
        let taken = self.take_row(access, &snapshot, params, env).await?;
        self.note_key_row(taken.is_some());
        let Some((rowid, mut held)) = taken else { return Ok(0) };
        let (txn, wait, table) = (self.transaction()?, self.lock_wait(), &access.table);
        let mut new = Vec::with_capacity(self.row.len() + 8);
        loop {
            let view = RowView::new(types(table), &self.row);
            let cx = EvalContext { row: Some(view), params, env };
            replaced(table, &self.row, &eval_set(set, &cx)?, &mut new)?;
            if has_rules(table) {
                self.complete_row(table, &mut new).await?;
            }
            let (ctx, seen) = (&self.ctx, &self.row);
            let change = match held.take() {
                Some(held) => {
                    table::update_held(ctx, &txn, table, held, &snapshot, seen, &new, wait).await
                }
                None => table::update(ctx, &txn, table, rowid, &snapshot, seen, &new, wait).await,
            };
            match change.map_err(|error| row_error(error, table))? {
                Change::Done => {
                    std::mem::swap(&mut self.row, &mut new);
                    return Ok(1);
                }
                Change::Gone | Change::Skipped => return Ok(0),
                Change::Newer(row) => {
                    self.row = row;
                    if !self.row_passes(access, params, env)? {
                        return Ok(0);
                    }
                    snapshot = self.later_snapshot()?;
                }
            }
        }
    }

    async fn direct_delete(
        &mut self,
        access: &RowAccess,
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<usize> {
        let mut snapshot = self.snapshot()?;
        let taken = self.take_row(access, &snapshot, params, env).await?;
        self.note_key_row(taken.is_some());
        let Some((rowid, mut held)) = taken else { return Ok(0) };
        let (txn, wait, table) = (self.transaction()?, self.lock_wait(), &access.table);
        loop {
            let (ctx, seen) = (&self.ctx, &self.row);
            let change = match held.take() {
                Some(held) => {
                    table::delete_held(ctx, &txn, table, held, &snapshot, seen, wait).await
                }
                None => table::delete(ctx, &txn, table, rowid, &snapshot, seen, wait).await,
            };
            match change.map_err(|error| row_error(error, table))? {
                Change::Done => return Ok(1),
                Change::Gone | Change::Skipped => return Ok(0),
                Change::Newer(row) => {
                    self.row = row;
                    if !self.row_passes(access, params, env)? {
                        return Ok(0);
                    }
                    snapshot = self.later_snapshot()?;
                }
            }
        }
    }

    // ---- through DataFusion

    /// Starts a query; its physical plan is made once if parameters allow.
    // Not `async fn`: the future must not hold the session, which threads cannot share.
    pub(crate) fn open_query<'a>(
        &'a self,
        plan: &'a QueryPlan,
        state: Arc<ExecState>,
    ) -> impl Future<Output = Result<SendableRecordBatchStream>> + Send + 'a {
        let planner = &self.database.planner;
        async move {
            if plan.query.reusable {
                let make = || planner.physical_peeking(&plan.query.plan, &state.params);
                let physical = plan.physical.get_or_try_init(make).await?;
                return planner.execute(physical, state, true);
            }
            let bound = planner.with_values(&plan.query, &state.params)?;
            let physical = planner.physical(&bound).await?;
            planner.execute(&physical, state, false)
        }
    }

    /// The same query over one row of its target, as it is now; `None` if the row no longer belongs
    /// to it.
    pub(crate) async fn look_again(
        &mut self,
        plan: &QueryPlan,
        params: &[Value],
        snapshot: &Snapshot,
        rowid: Rowid,
        row: &[u8],
    ) -> Result<Option<RecordBatch>> {
        let state = self.state_over(params, snapshot, vec![(rowid, row.to_vec())]);
        let mut stream = self.open_query(plan, state).await?;
        while let Some(batch) = self.next_batch(&mut stream).await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                return Ok(Some(batch));
            }
        }
        Ok(None)
    }

    pub(crate) fn state_over(
        &self,
        params: &[Value],
        snapshot: &Snapshot,
        rows: Vec<(Rowid, Vec<u8>)>,
    ) -> Arc<ExecState> {
        Arc::new(ExecState {
            ctx: self.ctx.clone(),
            snapshot: snapshot.clone(),
            params: params.to_vec(),
            env: self.format_env(),
            target: Some(Override { rows }),
            given: self.given(),
            views: self.views.clone(),
            keys: JoinKeys::default(),
            shared: SharedRows::default(),
            parallel: false,
            calls: Some(self.row_calls.clone()),
        })
    }

    pub(crate) async fn run_modify(
        &mut self,
        plan: &ModifyPlan,
        params: Vec<Value>,
        encoder: RowEncoder,
        sink: &mut dyn RowSink,
    ) -> Result<String> {
        let verb = if plan.set.is_some() { "UPDATE" } else { "DELETE" };
        self.check_writable(verb)?;
        let snapshot = self.snapshot()?;
        let mut output = Output::new(plan.returning.as_ref(), params.clone(), encoder);
        let state = Arc::new(ExecState {
            ctx: self.ctx.clone(),
            snapshot: snapshot.clone(),
            params: params.clone(),
            env: self.format_env(),
            target: None,
            given: self.given(),
            views: self.views.clone(),
            keys: JoinKeys::default(),
            shared: SharedRows::default(),
            parallel: false,
            calls: Some(self.row_calls.clone()),
        });
        let mut stream = self.open_measured(&plan.query, state).await?;
        let mut count = 0usize;
        // A join may find a row several times; it is changed once.
        let mut done = BTreeSet::new();
        while let Some(batch) = self.next_batch(&mut stream).await {
            let batch = batch?;
            let rows = TargetRows::new(&batch)?;
            for i in 0..batch.num_rows() {
                self.ctx.check_interrupt()?;
                let (rowid, old) = rows.get(i)?;
                if !done.insert(rowid.to_u64()) || self.changed_by_a_part(&plan.table, rowid) {
                    continue;
                }
                for (param, column) in &plan.beside {
                    output.set_param(*param, rows.readers[*column].get(i).to_value());
                }
                let out = &mut output;
                let fate = self.modify_row(plan, &params, &snapshot, (rowid, old), (&rows, i), out);
                if let Fate::Changed = fate.await? {
                    count += 1;
                    self.note_change(&plan.table, rowid);
                    let row = self.row.clone();
                    self.output_row(&plan.table, &mut output, &snapshot, rowid, row, sink).await?;
                    // The next row has other values in the parameters.
                    if !plan.beside.is_empty() {
                        self.flush_output(&mut output, &snapshot, sink).await?;
                    }
                }
            }
        }
        self.flush_output(&mut output, &snapshot, sink).await?;
        self.note_rows(&plan.table, count);
        Ok(format!("{verb} {count}"))
    }

    /// Changes one row; what is to be returned is in `self.row` afterwards.
    async fn modify_row(
        &mut self,
        plan: &ModifyPlan,
        params: &[Value],
        snapshot: &Snapshot,
        (rowid, old): (Rowid, &[u8]),
        (rows, at): (&TargetRows, usize),
        output: &mut Output<'_>,
    ) -> Result<Fate> {
        let (txn, wait, table) = (self.transaction()?, self.lock_wait(), &plan.table);
        let env = self.format_env();
        let mut snapshot = snapshot.clone();
        let mut old = old.to_vec();
        let mut set = rows.new_values(at, plan, &env)?;
        let mut new = Vec::new();
        loop {
            let change = match &set {
                Some(values) => {
                    replaced(table, &old, values, &mut new)?;
                    if has_rules(table) {
                        self.complete_row(table, &mut new).await?;
                    }
                    table::update(&self.ctx, &txn, table, rowid, &snapshot, &old, &new, wait).await
                }
                None => table::delete(&self.ctx, &txn, table, rowid, &snapshot, &old, wait).await,
            };
            match change.map_err(|error| row_error(error, table))? {
                Change::Done => {
                    self.row = if set.is_some() { new } else { old };
                    return Ok(Fate::Changed);
                }
                Change::Gone | Change::Skipped => return Ok(Fate::Skipped),
                Change::Newer(row) => {
                    snapshot = self.later_snapshot()?;
                    let again =
                        self.look_again(&plan.query, params, &snapshot, rowid, &row).await?;
                    let Some(batch) = again else { return Ok(Fate::Skipped) };
                    let fresh = TargetRows::new(&batch)?;
                    set = fresh.new_values(0, plan, &env)?;
                    for (param, column) in &plan.beside {
                        output.set_param(*param, fresh.readers[*column].get(0).to_value());
                    }
                    old = row;
                }
            }
        }
    }

    // ---- RETURNING

    pub(crate) async fn output_row(
        &mut self,
        table: &TableDef,
        output: &mut Output<'_>,
        snapshot: &Snapshot,
        rowid: Rowid,
        row: Vec<u8>,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        match output.returning {
            None => Ok(()),
            Some(Returning::Scalars(scalars)) => {
                let env = self.format_env();
                let view = RowView::new(types(table), &row);
                let cx = EvalContext { row: Some(view), params: &output.params, env: &env };
                output.encoder.encode(|i| scalars[i].eval(&cx), sink.row())?;
                sink.flush_if_large();
                Ok(())
            }
            Some(Returning::Query(_)) => {
                output.waiting.push((rowid, row));
                if output.waiting.len() >= RETURNING_BATCH {
                    self.flush_output(output, snapshot, sink).await?;
                }
                Ok(())
            }
        }
    }

    /// Computes and sends what the rows collected so far return.
    pub(crate) async fn flush_output(
        &mut self,
        output: &mut Output<'_>,
        snapshot: &Snapshot,
        sink: &mut dyn RowSink,
    ) -> Result<()> {
        let Some(Returning::Query(plan)) = output.returning else { return Ok(()) };
        if output.waiting.is_empty() {
            return Ok(());
        }
        let rows = std::mem::take(&mut output.waiting);
        let state = self.state_over(&output.params, snapshot, rows);
        let mut stream = self.open_query(plan, state).await?;
        while let Some(batch) = self.next_batch(&mut stream).await {
            let batch = batch?;
            let readers = query::planner::readers(&batch)?;
            for i in 0..batch.num_rows() {
                output.encoder.encode(|c| Ok(ValueRef::Ref(readers[c].get(i))), sink.row())?;
                sink.flush_if_large();
            }
        }
        Ok(())
    }
}

/// Where RETURNING's rows go.
pub(crate) struct Output<'p> {
    pub(crate) returning: Option<&'p Returning>,
    params: Vec<Value>,
    encoder: RowEncoder,
    /// Rows whose results a query has still to compute.
    waiting: Vec<(Rowid, Vec<u8>)>,
}

impl<'p> Output<'p> {
    pub(crate) fn new(
        returning: Option<&'p Returning>,
        params: Vec<Value>,
        encoder: RowEncoder,
    ) -> Self {
        Output { returning, params, encoder, waiting: Vec::new() }
    }

    fn set_param(&mut self, at: usize, value: Value) {
        if let Some(slot) = self.params.get_mut(at) {
            *slot = value;
        }
    }
}
