//! Reads of one row by its key: at once where nothing has to be waited for, which is most often.
//!
//! What it promises: a read that waits goes on from where it is, so each block is got once; under a
//! lock the row is judged by its newest version. What it must never do: make a future for a read
//! whose blocks are here, as all of its size would be moved.

use crate::dml::{row_error, types};
use crate::measured::Outer;
use crate::plan::{Direct, DirectSelect, Prepared};
use crate::session::{Fetched, Session};
use crate::trace::TracedPart;
use crate::{PgError, Result};
use block::Rowid;
use kernel::row::{RowView, Value};
use kernel::table::{self, Change, Looked, LookedBegun};
use kernel::txn::Snapshot;
use observe::{Outcome, SqlCall, Stat};
use query::Scalar;
use query::scalar::EvalContext;
use query::wire::FormatEnv;

/// What came of a read at once.
pub(crate) enum AtOnce<T, W> {
    Done(T),
    /// It has something to wait for, from here on.
    Waits(W),
}

/// A read of a row that waits.
pub(crate) struct KeyRead {
    snapshot: Snapshot,
    step: Step,
}

enum Step {
    /// The look-up goes on, of a row that may be another than wanted.
    LookUp(LookedBegun),
    /// It is measured while it is looked up.
    Measured,
    /// It is to be locked.
    Lock(Rowid),
}

/// The execution of a statement of procedural code that reads one row, while it runs.
pub(crate) struct RowCall {
    traced: Option<TracedPart>,
    call: Option<SqlCall>,
    outer: Outer,
}

/// The same, when it waits.
pub(crate) struct RowBegun {
    call: RowCall,
    read: KeyRead,
}

impl Session {
    /// Finds the row of a statement and leaves its bytes in `self.row`; whether there is one.
    pub(crate) async fn direct_select(
        &mut self,
        select: &DirectSelect,
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<bool> {
        match self.select_at_once(select, params, env)? {
            AtOnce::Done(found) => Ok(found),
            AtOnce::Waits(read) => env::boxed!(self.select_on(select, params, env, read)).await,
        }
    }

    /// The same as far as nothing has to be waited for.
    fn select_at_once(
        &mut self,
        select: &DirectSelect,
        params: &[Value],
        env: &FormatEnv,
    ) -> Result<AtOnce<bool, KeyRead>> {
        let access = &select.row;
        let snapshot = self.snapshot()?;
        if self.measured_key().is_some() {
            return Ok(AtOnce::Waits(KeyRead { snapshot, step: Step::Measured }));
        }
        if !self.make_key(access, params, env)? {
            return Ok(AtOnce::Done(false));
        }
        let (table, index) = (&access.table, &access.index);
        let (ctx, key, row) = (&self.ctx, &self.key, &mut self.row);
        let found = match table::index_lookup_now(ctx, table, index, key, &snapshot, row)? {
            Looked::Done(found) => found,
            Looked::Waits(begun) => {
                return Ok(AtOnce::Waits(KeyRead { snapshot, step: Step::LookUp(begun) }));
            }
        };
        let Some(rowid) = found else { return Ok(AtOnce::Done(false)) };
        if !access.key_is_all && !self.row_passes(access, params, env)? {
            return Ok(AtOnce::Done(false));
        }
        Ok(match select.lock {
            None => AtOnce::Done(true),
            Some(_) => AtOnce::Waits(KeyRead { snapshot, step: Step::Lock(rowid) }),
        })
    }

    /// Goes on with a read that waits.
    async fn select_on(
        &mut self,
        select: &DirectSelect,
        params: &[Value],
        env: &FormatEnv,
        read: KeyRead,
    ) -> Result<bool> {
        let access = &select.row;
        let KeyRead { mut snapshot, step } = read;
        let found = match step {
            Step::Lock(rowid) => Some(rowid),
            Step::Measured => self.find_row(access, &snapshot, params, env).await?,
            Step::LookUp(begun) => {
                let (table, index) = (&access.table, &access.index);
                let (ctx, key, row) = (&self.ctx, &self.key, &mut self.row);
                let done =
                    table::index_lookup_on(ctx, table, index, key, &snapshot, row, begun).await?;
                match done {
                    Some(_) if !access.key_is_all && !self.row_passes(access, params, env)? => None,
                    found => found,
                }
            }
        };
        let Some(rowid) = found else { return Ok(false) };
        let Some(lock) = select.lock else { return Ok(true) };
        self.check_writable("SELECT FOR UPDATE")?;
        let wait = lock.wait(self.settings.lock_timeout_us);
        let txn = self.transaction()?;
        loop {
            let change = table::lock(&self.ctx, &txn, &access.table, rowid, &snapshot, wait).await;
            match change.map_err(|error| row_error(error, &access.table))? {
                Change::Done => return Ok(true),
                Change::Gone | Change::Skipped => return Ok(false),
                Change::Newer(row) => {
                    self.row = row;
                    if !self.row_passes(access, params, env)? {
                        return Ok(false);
                    }
                    snapshot = self.later_snapshot()?;
                }
            }
        }
    }

    /// The values of the one row a direct statement reads.
    pub(crate) async fn direct_row(
        &mut self,
        direct: &Direct,
        params: &[Value],
    ) -> Result<Option<Vec<Value>>> {
        match self.direct_row_at_once(direct, params)? {
            AtOnce::Done(row) => Ok(row),
            AtOnce::Waits(read) => env::boxed!(self.direct_row_on(direct, params, read)).await,
        }
    }

    fn direct_row_at_once(
        &mut self,
        direct: &Direct,
        params: &[Value],
    ) -> Result<AtOnce<Option<Vec<Value>>, KeyRead>> {
        let env = self.format_env();
        let row = match direct {
            Direct::Values(output) => {
                let cx = EvalContext { row: None, params, env: &env };
                Some(values_of(output, &cx)?)
            }
            Direct::Select(select) => match self.select_at_once(select, params, &env)? {
                AtOnce::Waits(read) => return Ok(AtOnce::Waits(read)),
                AtOnce::Done(found) => self.selected(select, params, &env, found)?,
            },
            _ => return Err(PgError::unsupported("COPY of a statement that changes rows")),
        };
        Ok(AtOnce::Done(row))
    }

    async fn direct_row_on(
        &mut self,
        direct: &Direct,
        params: &[Value],
        read: KeyRead,
    ) -> Result<Option<Vec<Value>>> {
        let Direct::Select(select) = direct else {
            return Err(PgError::internal("only a read of a row waits"));
        };
        let env = self.format_env();
        let found = self.select_on(select, params, &env, read).await?;
        self.selected(select, params, &env, found)
    }

    /// What a statement gives of the row in `self.row`.
    fn selected(
        &self,
        select: &DirectSelect,
        params: &[Value],
        env: &FormatEnv,
        found: bool,
    ) -> Result<Option<Vec<Value>>> {
        if !found {
            return Ok(None);
        }
        let view = RowView::new(types(&select.row.table), &self.row);
        let cx = EvalContext { row: Some(view), params, env };
        values_of(&select.output, &cx).map(Some)
    }

    /// Runs a statement of procedural code that finds its one row by a key, as far as nothing has
    /// to be waited for. The row's values.
    pub(crate) fn row_at_once(
        &mut self,
        prepared: &Prepared,
        direct: &Direct,
        params: &[Value],
    ) -> AtOnce<Result<Option<Vec<Value>>>, RowBegun> {
        let call = self.begin_row(prepared, params);
        match self.direct_row_at_once(direct, params) {
            Ok(AtOnce::Waits(read)) => AtOnce::Waits(RowBegun { call, read }),
            Ok(AtOnce::Done(row)) => AtOnce::Done(self.end_row(call, prepared, Ok(row))),
            Err(error) => AtOnce::Done(self.end_row(call, prepared, Err(error))),
        }
    }

    /// Goes on with one that waits.
    pub(crate) async fn row_on(
        &mut self,
        prepared: &Prepared,
        direct: &Direct,
        params: &[Value],
        begun: RowBegun,
    ) -> Result<Option<Vec<Value>>> {
        let RowBegun { call, read } = begun;
        let row = self.direct_row_on(direct, params, read).await;
        self.end_row(call, prepared, row)
    }

    fn begin_row(&mut self, prepared: &Prepared, params: &[Value]) -> RowCall {
        self.ctx.bump(Stat::ExecuteCount, 1);
        self.ctx.bump(Stat::RecursiveCalls, 1);
        if let Some(txn) = &mut self.txn {
            (txn.used, txn.queried) = (true, true);
        }
        let traced = self.begin_part(prepared, Some(params));
        if traced.is_some() {
            self.note_executed(&prepared.plan);
        }
        let call = self.begin_call(&prepared.plan);
        let outer = self.begin_measured(&prepared.plan, traced.is_some());
        RowCall { traced, call, outer }
    }

    fn end_row(
        &mut self,
        call: RowCall,
        prepared: &Prepared,
        row: Result<Option<Vec<Value>>>,
    ) -> Result<Option<Vec<Value>>> {
        let RowCall { traced, call, outer } = call;
        let outcome = Outcome {
            executed: true,
            failed: row.is_err(),
            fetched: row.is_ok(),
            ended: row.is_ok(),
            rows: u64::from(matches!(row, Ok(Some(_)))),
        };
        self.end_measured_with(outer, prepared, row.is_ok().then_some(outcome.rows));
        self.end_call_with(call.as_ref(), &prepared.plan, outcome);
        if traced.is_some() {
            let told = match &row {
                Ok(row) => Ok(Fetched::Complete(format!("SELECT {}", u8::from(row.is_some())))),
                Err(error) => Err(error.clone()),
            };
            self.end_part(traced, prepared, 0, &told);
        }
        row
    }
}

fn values_of(output: &[Scalar], cx: &EvalContext<'_>) -> Result<Vec<Value>> {
    output.iter().map(|one| one.eval(cx).map(query::scalar::Val::into_value)).collect()
}
