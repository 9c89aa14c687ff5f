//! One client's session: its transaction, its settings, its statements.
//!
//! What it promises: a statement that fails leaves nothing behind; inside a transaction block it
//! fails the block, as PostgreSQL
//! has it. What it must never do: hold a snapshot while the client thinks, unless a portal is
//! suspended.

use crate::bind::{HiddenCall, SessionFn};
use crate::cache::Named;
use crate::copy::CopyIn;
use crate::database::Database;
use crate::encode::{RowEncoder, RowSink};
use crate::kept::KeptRows;
use crate::parse::{Parsed, Statement, parse_single, split};
use crate::plan::{Kind, Plan, Prepared};
use crate::settings::Settings;
use crate::{Notice, PgError, Result, Severity};
use block::ObjId;
use bytes::Bytes;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::sql::sqlparser::ast::Statement as Ast;
use futures::{FutureExt, StreamExt};
use kernel::instance::Instance;
use kernel::row::{ColType, Value};
use kernel::txn::{Isolation, Savepoint, Snapshot, Transaction};
use observe::{Ctx, Stat};
use query::datetime::EPOCH_US;
use query::types::{PgType, col_type_of_oid};
use query::wire::{FormatEnv, decode};
use query::{ColumnReader, ExecState};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How often a statement is planned anew because definitions change under it.
const STALE_PLANS_MAX: usize = 5;

/// How far a fetch came.
#[derive(Debug, PartialEq, Eq)]
pub enum Fetched {
    /// The row limit was reached; there may be more.
    Suspended,
    /// All done; the command tag.
    Complete(String),
    /// The statement waits for data from the client: [`Session::copy_data`].
    CopyIn { binary: bool, columns: usize },
    /// The text held no statement.
    Empty,
}

/// The open transaction.
pub(crate) struct Txn {
    pub(crate) handle: Arc<Transaction>,
    /// Begun by `BEGIN`: ends with `COMMIT` or `ROLLBACK` only.
    pub(crate) explicit: bool,
    pub(crate) failed: bool,
    pub(crate) read_only: bool,
    pub(crate) savepoints: Vec<(String, Savepoint)>,
    /// When it began, µs since 2000-01-01: what `now()` says.
    pub(crate) start_us: i64,
    /// Whether a statement has run in it.
    pub(crate) used: bool,
}

/// A bound statement.
pub struct Portal {
    pub(crate) prepared: Arc<Prepared>,
    pub(crate) params: Vec<Value>,
    pub(crate) formats: Vec<i16>,
    pub(crate) state: PortalState,
}

pub(crate) enum PortalState {
    Ready,
    Rows(Box<OpenRows>),
    /// The statement is done; its rows wait for the client.
    Kept(Box<KeptRows>),
    Done,
}

/// A query that is being fetched.
pub(crate) struct OpenRows {
    stream: SendableRecordBatchStream,
    readers: Vec<ColumnReader>,
    rows: usize,
    at: usize,
    encoder: RowEncoder,
}

/// One connection's session.
pub struct Session {
    pub(crate) instance: Arc<Instance>,
    pub(crate) database: Arc<Database>,
    pub(crate) ctx: Ctx,
    pub(crate) user: String,
    pub(crate) settings: Settings,
    pub(crate) txn: Option<Txn>,
    pub(crate) named: Named<Arc<Prepared>>,
    pub(crate) notices: Vec<Notice>,
    pub(crate) sequences: BTreeMap<ObjId, i64>,
    pub(crate) last_sequence: Option<i64>,
    pub(crate) copy: Option<CopyIn>,
    /// What plans depend on besides the text.
    pub(crate) plan_context: Arc<str>,
    pub(crate) row: Vec<u8>,
    pub(crate) key: Vec<u8>,
    /// Where a failed statement is rolled back to.
    statement_start: Option<Savepoint>,
}

impl Session {
    /// A session for a client that has proved who it is.
    ///
    /// # Errors
    /// A startup parameter that cannot be obeyed.
    pub fn new(
        instance: Arc<Instance>,
        ctx: Ctx,
        user: &str,
        startup: &[(String, String)],
    ) -> Result<Session> {
        let database = Database::of(&instance)?;
        let settings = Settings::new(user, startup)?;
        let mut session = Session {
            instance,
            database,
            ctx,
            user: user.to_owned(),
            settings,
            txn: None,
            named: Named::new(),
            notices: Vec::new(),
            sequences: BTreeMap::new(),
            last_sequence: None,
            copy: None,
            plan_context: Arc::from(""),
            row: Vec::new(),
            key: Vec::new(),
            statement_start: None,
        };
        session.note_context();
        Ok(session)
    }

    /// Settings that plans depend on have changed.
    pub(crate) fn note_context(&mut self) {
        let path = self.settings.search_path.join(",");
        self.plan_context = Arc::from(format!("{path};{}", self.settings.zone_name));
    }

    /// The statements of one simple query.
    ///
    /// # Errors
    /// 42601.
    pub fn split(&mut self, text: &str) -> Result<Vec<Statement>> {
        let all = split(text).inspect_err(|_| self.ctx.bump(Stat::ParseCountFailures, 1));
        all.inspect_err(|_| self.fail_now())
    }

    /// Prepares the one statement in `text`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn prepare(&mut self, text: &str, param_oids: &[u32]) -> Result<Arc<Prepared>> {
        // A text that this instance knows needs no parsing.
        if self.txn.as_ref().is_none_or(|txn| !txn.failed) {
            let key = self.plan_key(Arc::from(text), param_oids);
            if let Some(plan) = self.database.cache.get(&key) {
                self.begin_if_needed();
                if self.is_current(&plan) {
                    self.ctx.bump(Stat::ParseCountTotal, 1);
                    let statement =
                        Statement { text: key.text, parsed: Parsed::Empty, param_count: 0 };
                    return Ok(prepared(statement, param_oids, plan));
                }
            }
        }
        let statement = match parse_single(text) {
            Ok(statement) => statement,
            Err(error) => {
                self.ctx.bump(Stat::ParseCountFailures, 1);
                self.statement_failed().await;
                return Err(error);
            }
        };
        self.prepare_with(statement, param_oids).await
    }

    /// Prepares a statement of [`Session::split`].
    ///
    /// # Errors
    /// What is wrong with it.
    pub async fn prepare_statement(&mut self, statement: Statement) -> Result<Arc<Prepared>> {
        self.prepare_with(statement, &[]).await
    }

    async fn prepare_with(
        &mut self,
        statement: Statement,
        param_oids: &[u32],
    ) -> Result<Arc<Prepared>> {
        if let Some(txn) = &self.txn
            && txn.failed
            && !ends_transaction(&statement)
        {
            return Err(in_failed_transaction());
        }
        self.begin_if_needed();
        match self.plan_for(&statement, param_oids).await {
            Ok(plan) => Ok(prepared(statement, param_oids, plan)),
            Err(error) => {
                self.statement_failed().await;
                Err(error)
            }
        }
    }

    /// Binds values to a prepared statement.
    ///
    /// # Errors
    /// 08P01 for the wrong number of parameters; what is wrong with a value.
    pub fn bind(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &[Option<Bytes>],
        param_formats: &[i16],
        result_formats: &[i16],
    ) -> Result<Portal> {
        let bound = self.bind_values(prepared, params, param_formats, result_formats);
        bound.inspect_err(|_| self.fail_now())
    }

    fn bind_values(
        &mut self,
        prepared: &Arc<Prepared>,
        params: &[Option<Bytes>],
        param_formats: &[i16],
        result_formats: &[i16],
    ) -> Result<Portal> {
        let wanted = &prepared.plan.params;
        if params.len() != wanted.len() {
            return Err(PgError::new(
                "08P01",
                format!(
                    "bind message supplies {} parameters, but prepared statement requires {}",
                    params.len(),
                    wanted.len()
                ),
            ));
        }
        let env = self.format_env();
        let mut values = Vec::with_capacity(params.len() + prepared.plan.hidden.len());
        for (i, (param, ty)) in params.iter().zip(wanted).enumerate() {
            let binary = match param_formats {
                [] => false,
                [one] => *one == 1,
                many => many.get(i) == Some(&1),
            };
            let oid = prepared.param_oids.get(i).copied().unwrap_or(0);
            values.push(match param {
                None => Value::Null,
                Some(bytes) => decode_param(bytes, *ty, oid, binary, &env)?,
            });
        }
        Ok(Portal {
            prepared: prepared.clone(),
            params: values,
            formats: result_formats.to_vec(),
            state: PortalState::Ready,
        })
    }

    /// Runs a portal on, at most `max_rows` rows (0: all).
    ///
    /// # Errors
    /// The statement's; it has left nothing behind then.
    pub async fn fetch(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        match self.fetch_inner(portal, max_rows, sink).await {
            Ok(fetched) => {
                if !matches!(fetched, Fetched::Suspended) {
                    portal.state = PortalState::Done;
                }
                Ok(fetched)
            }
            Err(error) => {
                portal.state = PortalState::Done;
                self.statement_failed().boxed().await;
                Err(error)
            }
        }
    }

    async fn fetch_inner(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        match &mut portal.state {
            PortalState::Rows(_) => return Box::pin(self.pump(portal, max_rows, sink)).await,
            PortalState::Kept(kept) => return Ok(kept.hand_out(max_rows, sink)),
            PortalState::Done => {
                return Err(PgError::new("55000", "the portal has already been run"));
            }
            PortalState::Ready => {}
        }
        if let Some(txn) = &self.txn
            && txn.failed
            && !ends_transaction(&portal.prepared.statement)
        {
            return Err(in_failed_transaction());
        }
        self.ctx.bump(Stat::ExecuteCount, 1);
        self.ctx.session.set_sql(Some(portal.prepared.statement.text.clone()));
        self.start_clock();
        if let Kind::Utility(_) = &portal.prepared.plan.kind
            && let Some(done) = self.transaction_command(&portal.prepared).boxed().await?
        {
            return Ok(done);
        }
        self.begin_if_needed();
        let plan = &portal.prepared.plan;
        let mut plan = if !plan.once && self.is_current(plan) {
            plan.clone()
        } else {
            self.valid_plan(&portal.prepared).boxed().await?
        };
        self.statement_start = self.txn.as_ref().map(|txn| txn.handle.savepoint());
        if let Some(txn) = &mut self.txn {
            txn.used = true;
        }
        let given = std::mem::take(&mut portal.params);
        for _ in 0..STALE_PLANS_MAX {
            let mut params = given.clone();
            for call in &plan.hidden {
                let value = self.session_call(call, &params).boxed().await?;
                params.push(value);
            }
            let done = if max_rows > 0 && plan.runs_whole() {
                Box::pin(self.run_kept(&plan, params, portal, max_rows, sink)).await
            } else {
                self.run_plan(&plan, params, portal, max_rows, sink).await
            };
            let stale = matches!(&done, Err(error) if error.is_object_gone()) && !plan.returns_rows;
            if !stale {
                return done;
            }
            // A definition changed between the look at the plan and the lock on the table.
            plan = self.replan_after_ddl(&portal.prepared).boxed().await?;
        }
        Err(kernel::Error::ObjectGone.into())
    }

    /// Takes the failed attempt back and plans anew.
    async fn replan_after_ddl(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Plan>> {
        if let (Some(txn), Some(start)) = (&self.txn, self.statement_start) {
            txn.handle.rollback_to(&self.ctx, start).await?;
        }
        self.valid_plan(prepared).await
    }

    /// Runs a statement to its end and hands out the first of its rows.
    async fn run_kept(
        &mut self,
        plan: &Arc<Plan>,
        params: Vec<Value>,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let mut kept = Box::<KeptRows>::default();
        let done = self.run_plan(plan, params, portal, 0, &mut *kept).await?;
        let Fetched::Complete(tag) = done else { return Ok(done) };
        kept.finish(tag);
        let fetched = kept.hand_out(max_rows, sink);
        portal.state = PortalState::Kept(kept);
        Ok(fetched)
    }

    async fn run_plan(
        &mut self,
        plan: &Arc<Plan>,
        params: Vec<Value>,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        // Boxed but for the shortest way: the frame of this function would be as large as all of
        // them together, and every idle session would keep that much stack touched.
        match &plan.kind {
            Kind::Direct(direct) => {
                let encoder = self.encoder(&plan.columns, &portal.formats);
                self.run_direct(direct, &params, encoder, sink).await.map(Fetched::Complete)
            }
            _ => Box::pin(self.run_other(plan, params, portal, max_rows, sink)).await,
        }
    }

    async fn run_other(
        &mut self,
        plan: &Arc<Plan>,
        params: Vec<Value>,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let encoder = self.encoder(&plan.columns, &portal.formats);
        match &plan.kind {
            Kind::Empty | Kind::Direct(_) => Ok(Fetched::Empty),
            Kind::Query(query) => {
                if query.lock.is_some() {
                    let tag = self.run_locking(query, params, encoder, sink).await?;
                    return Ok(Fetched::Complete(tag));
                }
                let state = self.exec_state(params).await?;
                let stream = self.open_query(query, state).await?;
                let rows = OpenRows { stream, readers: Vec::new(), rows: 0, at: 0, encoder };
                portal.state = PortalState::Rows(Box::new(rows));
                self.pump(portal, max_rows, sink).await
            }
            Kind::Modify(modify) => {
                self.run_modify(modify, params, encoder, sink).await.map(Fetched::Complete)
            }
            Kind::InsertSelect(insert) => {
                self.run_insert_select(insert, params, encoder, sink).await.map(Fetched::Complete)
            }
            Kind::Utility(ast) => self.run_utility(ast, portal, sink).await,
            Kind::Own(own) => self.run_own(own, portal, sink).await,
            Kind::Explain { analyze, statement } => {
                self.run_explain(*analyze, statement, portal, sink).await
            }
        }
    }

    /// Sends rows of an open query.
    async fn pump(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let PortalState::Rows(open) = &mut portal.state else {
            return Err(PgError::internal("no rows are open"));
        };
        let mut sent = 0;
        loop {
            while open.at < open.rows {
                if max_rows > 0 && sent == max_rows {
                    return Ok(Fetched::Suspended);
                }
                let (readers, at) = (&open.readers, open.at);
                let value = |i: usize| Ok(query::scalar::Val::Ref(readers[i].get(at)));
                open.encoder.encode(value, sink.row())?;
                sink.flush_if_large();
                open.at += 1;
                sent += 1;
            }
            if max_rows > 0 && sent == max_rows {
                return Ok(Fetched::Suspended);
            }
            self.ctx.check_interrupt()?;
            match open.stream.next().await {
                None => return Ok(Fetched::Complete(format!("SELECT {sent}"))),
                Some(batch) => {
                    let batch = batch?;
                    open.readers = query::planner::readers(&batch)?;
                    open.rows = batch.num_rows();
                    open.at = 0;
                }
            }
        }
    }

    /// The statement's deadline begins.
    fn start_clock(&mut self) {
        let deadline = match self.settings.statement_timeout_us {
            0 => None,
            us => Some(env::Micros(self.ctx.env.now().0.saturating_add(us))),
        };
        self.ctx.session.cancel_flag().set_deadline(deadline);
    }

    /// The plan, made anew if a table has changed since or if it shows a view.
    async fn valid_plan(&mut self, prepared: &Arc<Prepared>) -> Result<Arc<Plan>> {
        let plan = &prepared.plan;
        if !plan.once && self.is_current(plan) {
            return Ok(plan.clone());
        }
        let statement = match &prepared.statement.parsed {
            // Taken from the cache without parsing.
            Parsed::Empty if !matches!(plan.kind, Kind::Empty) => {
                parse_single(&prepared.statement.text)?
            }
            _ => prepared.statement.clone(),
        };
        let fresh = Box::pin(self.plan_for(&statement, &prepared.declared)).await?;
        let shape = |plan: &Plan| -> Vec<u32> { plan.columns.iter().map(|c| c.oid).collect() };
        if shape(&fresh) != shape(plan) || fresh.params != plan.params {
            return Err(PgError::new("0A000", "cached plan must not change result type"));
        }
        Ok(fresh)
    }

    pub(crate) fn encoder(&self, columns: &[query::PgColumn], formats: &[i16]) -> RowEncoder {
        RowEncoder::new(columns, formats, self.format_env())
    }

    pub(crate) fn format_env(&self) -> FormatEnv {
        let now_us = match &self.txn {
            Some(txn) => txn.start_us,
            None => self.ctx.env.wall_us() - EPOCH_US,
        };
        FormatEnv { zone: self.settings.zone, now_us }
    }

    /// Everything an execution of DataFusion's needs of the session.
    pub(crate) async fn exec_state(&mut self, params: Vec<Value>) -> Result<Arc<ExecState>> {
        let snapshot = self.snapshot().await?;
        Ok(Arc::new(ExecState {
            ctx: self.ctx.clone(),
            snapshot,
            params,
            env: self.format_env(),
            target: None,
        }))
    }

    pub(crate) async fn snapshot(&mut self) -> Result<Snapshot> {
        let txn = self.transaction()?;
        Ok(txn.snapshot(&self.ctx).await?)
    }

    pub(crate) fn transaction(&self) -> Result<Arc<Transaction>> {
        let txn = self.txn.as_ref();
        txn.map(|txn| txn.handle.clone()).ok_or_else(|| PgError::internal("no transaction"))
    }

    // ---- transactions

    pub(crate) fn begin_if_needed(&mut self) {
        if self.txn.is_none() {
            let isolation = self.settings.isolation;
            self.begin(false, isolation, self.settings.read_only);
        }
    }

    pub(crate) fn begin(&mut self, explicit: bool, isolation: Isolation, read_only: bool) {
        let handle = self.instance.begin(&self.ctx, isolation);
        self.txn = Some(Txn {
            handle,
            explicit,
            failed: false,
            read_only,
            savepoints: Vec::new(),
            start_us: self.ctx.env.wall_us() - EPOCH_US,
            used: false,
        });
    }

    /// Settings go back to what they were, where they were the transaction's.
    fn end_settings(&mut self, committed: bool) {
        if self.settings.end_transaction(committed) {
            self.note_context();
        }
    }

    /// Commits what is open.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        let Some(txn) = self.txn.take() else { return Ok(()) };
        self.statement_start = None;
        let changed = txn.handle.xid().is_some();
        let done = txn.handle.commit(&self.ctx).await;
        self.end_settings(done.is_ok());
        done?;
        if changed {
            self.ctx.bump(Stat::UserCommits, 1);
        }
        Ok(())
    }

    /// Rolls back what is open.
    pub(crate) async fn rollback(&mut self) -> Result<()> {
        let Some(txn) = self.txn.take() else { return Ok(()) };
        self.statement_start = None;
        let done = txn.handle.rollback(&self.ctx).await;
        self.end_settings(false);
        self.ctx.bump(Stat::UserRollbacks, 1);
        Ok(done?)
    }

    /// A statement has failed: its changes go; an implicit transaction ends, a block becomes
    /// failed.
    async fn statement_failed(&mut self) {
        self.copy = None;
        let start = self.statement_start.take();
        let Some(txn) = &mut self.txn else { return };
        let done = if txn.explicit {
            let first = !std::mem::replace(&mut txn.failed, true);
            match start {
                Some(start) if first => txn.handle.rollback_to(&self.ctx, start).await,
                _ => Ok(()),
            }
        } else {
            let handle = txn.handle.clone();
            self.txn = None;
            self.end_settings(false);
            handle.rollback(&self.ctx).await
        };
        if let Err(error) = done {
            let text = format!("a statement could not be rolled back: {error}");
            self.ctx.alert(observe::AlertLevel::Error, text);
        }
    }

    /// The same for errors where nothing was begun.
    fn fail_now(&mut self) {
        if let Some(txn) = &mut self.txn {
            txn.failed = true;
        }
    }

    /// An error that happened outside: an unknown portal, a panic.
    pub async fn fail_transaction(&mut self) {
        self.statement_failed().await;
    }

    /// Ends the implicit transaction: at the end of a simple query or at Sync.
    ///
    /// # Errors
    /// The commit's.
    pub async fn sync(&mut self) -> Result<()> {
        match &self.txn {
            Some(txn) if !txn.explicit && txn.failed => self.rollback().await,
            Some(txn) if !txn.explicit => self.commit().await,
            Some(_) => Ok(()),
            None => {
                // A SET on its own has no transaction: it stays.
                self.end_settings(true);
                Ok(())
            }
        }
    }

    /// `I` idle, `T` in a transaction block, `E` in a failed one.
    #[must_use]
    pub fn transaction_status(&self) -> u8 {
        match &self.txn {
            Some(txn) if txn.explicit && txn.failed => b'E',
            Some(txn) if txn.explicit => b'T',
            _ => b'I',
        }
    }

    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Settings a client must be told of.
    pub fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        self.settings.take_changes()
    }

    /// Rolls back what is open.
    pub async fn close(mut self) {
        self.copy = None;
        if let Err(error) = self.rollback_quietly().await {
            let text = format!("a closing session could not be rolled back: {error}");
            self.ctx.alert(observe::AlertLevel::Error, text);
        }
    }

    async fn rollback_quietly(&mut self) -> Result<()> {
        match &self.txn {
            Some(_) => self.rollback().await,
            None => Ok(()),
        }
    }

    pub(crate) fn notice(&mut self, severity: Severity, text: impl Into<String>) {
        self.notices.push(PgError::notice(severity, text));
    }

    /// Calls a function of the session.
    async fn session_call(&mut self, call: &HiddenCall, params: &[Value]) -> Result<Value> {
        let env = self.format_env();
        let cx = query::scalar::EvalContext { row: None, params, env: &env };
        let args: Result<Vec<Value>> =
            call.args.iter().map(|arg| arg.eval(&cx).map(query::scalar::Val::into_value)).collect();
        self.call_function(call.function, &args?, &env).await
    }

    /// Runs a plan inside another statement.
    pub(crate) async fn run_inner(
        &mut self,
        plan: &Arc<Plan>,
        params: Vec<Value>,
        portal: &mut Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        // A statement may hold another one: the future's size must not depend on itself.
        Box::pin(self.run_plan(plan, params, portal, 0, sink)).await
    }

    pub(crate) async fn hidden_value(
        &mut self,
        call: &HiddenCall,
        params: &[Value],
    ) -> Result<Value> {
        self.session_call(call, params).await
    }

    /// Calls of a default, for one row.
    pub(crate) async fn call_all(&mut self, calls: &[HiddenCall]) -> Result<Vec<Value>> {
        let mut out = Vec::with_capacity(calls.len());
        for call in calls {
            out.push(self.session_call(call, &[]).await?);
        }
        Ok(out)
    }

    async fn call_function(
        &mut self,
        function: SessionFn,
        args: &[Value],
        env: &FormatEnv,
    ) -> Result<Value> {
        let text = |text: &str| Value::Text(text.into());
        Ok(match function {
            SessionFn::Now => Value::Timestamptz(env.now_us),
            SessionFn::ClockTimestamp => Value::Timestamptz(self.ctx.env.wall_us() - EPOCH_US),
            SessionFn::StartTime => {
                Value::Timestamptz(self.ctx.observer.started_wall_us() - EPOCH_US)
            }
            SessionFn::LocalTimestamp | SessionFn::CurrentDate => {
                let kind = function.result();
                let now = kernel::row::Datum::Timestamptz(env.now_us);
                query::cast::cast(&now, kind, query::cast::CastMode::Explicit, env)?
            }
            SessionFn::CurrentUser => text(&self.user),
            SessionFn::CurrentSchema => match self.settings.search_path.first() {
                Some(schema) => text(schema),
                None => Value::Null,
            },
            SessionFn::CurrentSchemas => {
                text(&format!("{{{}}}", self.settings.search_path.join(",")))
            }
            SessionFn::BackendPid => {
                Value::Int4(i32::try_from(self.ctx.session.sid()).unwrap_or(i32::MAX))
            }
            SessionFn::TransactionId => {
                let txn = self.transaction()?;
                Value::Int8(txn.xid().map_or(0, |xid| xid.to_u64().cast_signed()))
            }
            SessionFn::Setting => self.current_setting(args)?,
            SessionFn::SetConfig => {
                let [Value::Text(name), value, local] = args else {
                    return Err(PgError::new(
                        "22004",
                        "set_config needs a name, a value and a flag",
                    ));
                };
                let value = match value {
                    Value::Text(value) => Some(&**value),
                    _ => None,
                };
                self.settings.set(name, value, *local == Value::Bool(true))?;
                self.note_context();
                text(value.unwrap_or(""))
            }
            SessionFn::Sleep => {
                let seconds = args.first().map(Value::as_datum);
                let seconds = seconds.map_or(Ok(0.0), |d| query::cast::to_f64(&d))?;
                if seconds > 0.0 {
                    let duration = std::time::Duration::from_secs_f64(seconds.min(1e9));
                    let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
                    let sleep = self.ctx.env.sleep(duration);
                    self.ctx.wait_or_cancel(observe::WaitEvent::PgSleep, [us, 0, 0], sleep).await?;
                }
                text("")
            }
            SessionFn::AdvisoryLock => return Err(PgError::unsupported("advisory locks")),
            SessionFn::NextVal | SessionFn::CurrVal | SessionFn::LastVal | SessionFn::SetVal => {
                self.sequence_call(function, args).await?
            }
        })
    }

    fn current_setting(&self, args: &[Value]) -> Result<Value> {
        let Some(Value::Text(name)) = args.first() else { return Ok(Value::Null) };
        match self.show_setting(name) {
            Some(value) => Ok(Value::Text(value.into())),
            None if args.get(1) == Some(&Value::Bool(true)) => Ok(Value::Null),
            None => Err(PgError::new(
                "42704",
                format!("unrecognized configuration parameter \"{name}\""),
            )),
        }
    }
}

fn prepared(statement: Statement, declared: &[u32], plan: Arc<Plan>) -> Arc<Prepared> {
    let param_oids = plan
        .params
        .iter()
        .enumerate()
        .map(|(i, ty)| match declared.get(i) {
            Some(oid) if *oid != 0 && col_type_of_oid(*oid).is_some() => *oid,
            _ => PgType::of(*ty).oid,
        })
        .collect();
    Arc::new(Prepared {
        param_oids,
        columns: plan.columns.clone(),
        returns_rows: plan.returns_rows,
        statement,
        declared: declared.to_vec(),
        plan,
    })
}

/// A parameter arrives as the type its OID says and becomes the type the plan has for it.
fn decode_param(
    bytes: &[u8],
    ty: ColType,
    oid: u32,
    binary: bool,
    env: &FormatEnv,
) -> Result<Value> {
    decode(bytes, ty, oid, binary, env)
}

fn ends_transaction(statement: &Statement) -> bool {
    matches!(&statement.parsed, Parsed::Sql(ast)
        if matches!(**ast, Ast::Commit { .. } | Ast::Rollback { .. }))
}

fn in_failed_transaction() -> PgError {
    PgError::new(
        "25P02",
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
