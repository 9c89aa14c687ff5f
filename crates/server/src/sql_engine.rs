//! `sql::Session` behind the protocol's [`Engine`].
//!
//! What it promises: every wait for the client is a wait event of the session, shown while it
//! lasts;
//! an error keeps its SQLSTATE, detail, hint, position and what it is about.

use crate::engine::{
    Asked, ClientWaits, Column, Description, Engine, Fetched, Interrupt, Login, Method,
    Notification, Parameters, Session, User,
};
use crate::output::Output;
use crate::report::{Extra, Report, Severity};
use kernel::instance::Instance;
use kernel::txn::Isolation;
use observe::{AlertLevel, Ctx, DRIVER_TCP, SessionKind, Stat, TimePart, WaitEvent};
use sql::{PgError, Prepared, RowSink};
use std::future::Future;
use std::os::fd::BorrowedFd;
use std::path::Path;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

pub use sql::sqlcode;

/// The planner needs room, in builds without optimisation above all.
const SNAPSHOT_STACK_BYTES: usize = 8 << 20;

/// An open instance as the protocol sees it.
pub struct SqlEngine {
    instance: Arc<Instance>,
    /// For look-ups before a session exists.
    ctx: Ctx,
    secret: [u8; 32],
}

impl SqlEngine {
    /// Serves `instance`. `secret`: the cluster's own. From here on its views answer the other
    /// instances, and ask them.
    #[must_use]
    pub fn new(instance: Arc<Instance>, secret: [u8; 32]) -> SqlEngine {
        sql::set_password_hasher(crate::scram_verifier);
        sql::connect_instances(&instance);
        let ctx = instance.observer.ctx(SessionKind::Background, "log-on");
        SqlEngine { instance, ctx, secret }
    }
}

impl SqlEngine {
    /// The instance that it serves.
    pub(crate) fn instance(&self) -> &Arc<Instance> {
        &self.instance
    }

    /// Takes the rules for who may log on from this file, and again whenever it has changed.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn follow_hba(&self, path: &Path) -> Result<(), String> {
        sql::follow_hba(&self.instance, path)
    }

    /// Begins the audit trail in this file.
    ///
    /// # Errors
    /// It cannot be opened.
    pub fn begin_audit(&self, path: &Path) -> Result<(), String> {
        sql::begin_audit(&self.instance, path)
    }
}

impl SqlEngine {
    /// Begins to take snapshots of the statistics whenever they are due, by a thread that ends when
    /// the instance closes.
    ///
    /// # Errors
    /// The system has no thread.
    pub fn begin_snapshots(&self) -> std::io::Result<()> {
        let instance = Arc::downgrade(&self.instance);
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        let run = move || {
            env::real::mark_blocking_thread();
            runtime.block_on(sql::keep_snapshots(instance));
        };
        std::thread::Builder::new()
            .name("mmon".into())
            .stack_size(SNAPSHOT_STACK_BYTES)
            .spawn(run)?;
        Ok(())
    }
}

impl Engine for SqlEngine {
    type Session = SqlSession;

    fn enter_session_thread(&self) {
        env::real::mark_blocking_thread();
    }

    async fn user(&self, name: &str) -> Result<Option<User>, Report> {
        let txn = self.instance.begin(&self.ctx, Isolation::ReadCommitted);
        let found = kernel::dict::user(&self.ctx, &txn, name).await;
        let ended = txn.rollback(&self.ctx).await;
        let user = found
            .and_then(|user| ended.map(|()| user))
            .map_err(|e| Report::fatal("XX000", format!("cannot look up user \"{name}\": {e}")))?;
        let now = self.ctx.env.wall_us() - sql::EPOCH_US;
        Ok(user.map(|user| {
            // A password that has expired is none.
            let counts = user.valid_until.is_none_or(|until| until > now);
            let verifier = user.verifier.clone().filter(|_| counts);
            User { verifier, superuser: user.superuser }
        }))
    }

    async fn admit(&self, asked: Asked<'_>) -> Result<Method, Report> {
        let Asked { user, database, peer, encrypted } = asked;
        let knock = sql::Knock { user, database, peer, encrypted };
        let found = sql::method_for(&self.instance, &self.ctx, knock).await.map_err(fatal)?;
        Ok(match found {
            sql::Method::Trust => Method::Trust,
            sql::Method::Certificate => Method::Certificate,
            // A client that is rejected has got an error.
            sql::Method::Scram | sql::Method::Reject => Method::Scram,
        })
    }

    fn refused(&self, user: &str, peer: &str, why: &Report) {
        let (action, text) = ("LOGON", why.message.as_str());
        let outcome = why.code();
        let event = sql::Event { sid: 0, user, role: "", peer, action, outcome, text };
        sql::note(&self.instance, &event);
    }

    async fn open(&self, login: Login) -> Result<SqlSession, Report> {
        let services = self.instance.params.service_names();
        let mut services = services.split(',').map(str::trim).filter(|name| !name.is_empty());
        if login.database != sql::DATABASE && !services.any(|name| name == login.database) {
            return Err(Report::fatal(
                "3D000",
                format!("database \"{}\" does not exist", login.database),
            )
            .with_hint(
                "There is one database; its name is skein, and its services are those that the \
                 parameter service_names lists.",
            ));
        }
        let program = login
            .parameters
            .iter()
            .find(|(name, _)| name == "application_name")
            .map_or("", |(_, value)| value.as_str());
        let ctx = self.instance.user_ctx(program);
        // The first call of each session, until its client is waited for.
        ctx.session.set_active(true, ctx.env.now());
        let log_on = ctx.timed(TimePart::LogOn);
        // Each client has a thread of its own.
        ctx.session.take_thread(&ctx.env);
        observe::attribute_latches(&ctx.session);
        ctx.session.set_username(&login.user);
        ctx.session.set_machine(&login.peer);
        ctx.session.describe(|about| {
            about.service = Arc::from(login.database.as_str());
            if let Some((process, user)) = &login.os_process {
                (about.process, about.os_user) = (*process, Arc::from(user.as_str()));
            }
        });
        let mut session = sql::Session::new(
            Arc::clone(&self.instance),
            ctx.clone(),
            &login.user,
            &login.parameters,
        )
        .map_err(fatal)?;
        env::boxed!(session.log_on(&login.peer)).await.map_err(fatal)?;
        drop(log_on);
        Ok(SqlSession { session, ctx, alerted: String::new() })
    }

    async fn cancel_elsewhere(&self, pid: i32, secret: i32) {
        sql::pass_cancel_on(&self.instance, &self.ctx, pid, secret).await;
    }

    fn alert(&self, text: &str) {
        self.ctx.alert(AlertLevel::Warning, text);
    }

    fn secret(&self) -> [u8; 32] {
        self.secret
    }
}

/// One client's session.
pub struct SqlSession {
    session: sql::Session,
    ctx: Ctx,
    /// The last error that went to the alert log: a client that tries again and again fills no log.
    alerted: String,
}

/// What has come of a statement, beside its rows.
pub(crate) struct Ran {
    pub(crate) columns: Arc<[Column]>,
    /// There were more rows than were wanted.
    pub(crate) cut: bool,
    pub(crate) notices: Vec<Report>,
}

/// Classes of SQLSTATE that an administrator must hear of: no space, I/O, corruption, our bugs.
const ALERTED: [&str; 3] = ["531", "58", "XX"];

/// A prepared statement, with its columns as the wire wants them.
#[derive(Clone)]
pub struct PreparedStatement {
    inner: Arc<Prepared>,
    columns: Arc<[Column]>,
}

struct CancelHandle(Arc<observe::Session>);

impl Interrupt for CancelHandle {
    fn cancel(&self) {
        self.0.cancel_flag().cancel();
    }
    fn terminate(&self) {
        self.0.cancel_flag().terminate();
    }
    fn on_terminate(&self, end: Box<dyn Fn() + Send + Sync>) {
        self.0.cancel_flag().on_terminate(end);
    }
    fn is_terminated(&self) -> bool {
        self.0.cancel_flag().is_terminated()
    }
}

/// A blocking call as a future: the first poll only says that there is something to wait for, so
/// that the wait has begun and is shown when the second poll blocks.
struct Blocking<'a> {
    begun: bool,
    call: &'a mut dyn FnMut(),
}

impl Future for Blocking<'_> {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<()> {
        if !std::mem::replace(&mut self.begun, true) {
            return Poll::Pending;
        }
        (self.call)();
        Poll::Ready(())
    }
}

struct Waits(Ctx);

impl Waits {
    fn wait(&self, event: WaitEvent, bytes: usize, call: &mut dyn FnMut()) {
        let p = [DRIVER_TCP, bytes as u64, 0];
        let mut waiting = pin!(self.0.wait(event, p, Blocking { begun: false, call }));
        let mut context = Context::from_waker(Waker::noop());
        while waiting.as_mut().poll(&mut context).is_pending() {}
    }
}

impl ClientWaits for Waits {
    fn read(&self, more: bool, read: &mut dyn FnMut() -> usize) {
        let mut bytes = 0;
        let mut call = || bytes = read();
        if more {
            self.wait(WaitEvent::SqlNetMoreDataFromClient, 0, &mut call);
        } else {
            self.0.session.set_active(false, self.0.env.now());
            env::stack::give_back();
            self.wait(WaitEvent::SqlNetMessageFromClient, 0, &mut call);
            self.0.session.set_active(true, self.0.env.now());
            self.0.bump(Stat::RoundtripsClient, 1);
        }
        self.0.bump(Stat::BytesReceivedFromClient, bytes as u64);
    }

    fn write(&self, more: bool, bytes: usize, write: &mut dyn FnMut()) {
        let event =
            if more { WaitEvent::SqlNetMoreDataToClient } else { WaitEvent::SqlNetMessageToClient };
        // Before the client has them, and asks what was sent.
        self.0.bump(Stat::BytesSentToClient, bytes as u64);
        self.wait(event, bytes, write);
    }
}

/// Rows go straight into the session's output buffer.
struct Sink<'a>(&'a mut Output);

impl RowSink for Sink<'_> {
    fn row(&mut self) -> &mut bytes::BytesMut {
        self.0.row()
    }
    fn copy_out(&mut self, binary: bool, columns: usize) {
        self.0.copy_out(binary, columns);
    }
    fn flush_if_large(&mut self) {
        self.0.flush_if_large();
    }
}

fn report(e: PgError) -> Report {
    let severity = match e.severity {
        sql::Severity::Error => Severity::Error,
        sql::Severity::Fatal => Severity::Fatal,
        sql::Severity::Warning => Severity::Warning,
        sql::Severity::Notice => Severity::Notice,
        sql::Severity::Info => Severity::Info,
    };
    let mut report = Report::new(severity, e.code, e.message);
    if e.code == "57P01" {
        // The session was told to end; its connection ends with it.
        report.severity = Severity::Fatal;
    }
    if e.detail.is_none() && e.hint.is_none() && e.position.is_none() && e.about.is_none() {
        return report;
    }
    let about = e.about.map(|about| *about).unwrap_or_default();
    let named = [
        (b's', about.schema),
        (b't', about.table),
        (b'c', about.column),
        (b'n', about.constraint),
        (b'W', about.context),
    ];
    let named = named.into_iter().filter_map(|(tag, name)| Some((tag, name?)));
    report.with_extra(Extra {
        detail: e.detail.map(String::from),
        hint: e.hint.map(String::from),
        position: e.position,
        fields: named.collect(),
    })
}

/// An error at log-on ends the connection.
fn fatal(e: PgError) -> Report {
    let mut report = report(e);
    report.severity = Severity::Fatal;
    report
}

impl SqlSession {
    /// What the client is told of an error; the alert log is told what is not the client's.
    fn failed(&mut self, e: PgError) -> Report {
        if ALERTED.iter().any(|class| e.code.starts_with(class)) && *self.alerted != *e.message {
            self.alerted = e.message.to_string();
            self.ctx.alert(AlertLevel::Error, format!("{} {}", e.code, e.message));
        }
        report(e)
    }

    /// Session, environment and observer.
    pub(crate) fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    /// Runs one statement on its own; at most `rows_max` rows, as texts, go to `sink`.
    ///
    /// # Errors
    /// The statement's.
    pub(crate) async fn rows(
        &mut self,
        text: &str,
        params: &[Option<bytes::Bytes>],
        rows_max: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Ran, Report> {
        self.begin_request();
        let ran = env::boxed!(self.rows_of(text, params, rows_max, sink)).await;
        let ended = self.sync().await;
        let notices = self.take_notices();
        let (columns, cut) = ran?;
        ended.map(|()| Ran { columns, cut, notices })
    }

    async fn rows_of(
        &mut self,
        text: &str,
        params: &[Option<bytes::Bytes>],
        rows_max: usize,
        sink: &mut dyn RowSink,
    ) -> Result<(Arc<[Column]>, bool), Report> {
        let prepared = self.prepare(text, &[]).await?;
        let mut portal = self.session.bind(&prepared.inner, params, &[], &[]).map_err(report)?;
        let fetched = self.session.fetch(&mut portal, rows_max, sink).await;
        let cut = matches!(fetched.map_err(|e| self.failed(e))?, sql::Fetched::Suspended);
        Ok((prepared.columns, cut))
    }

    fn prepared(inner: Arc<Prepared>) -> PreparedStatement {
        let columns = inner.columns.iter().map(on_the_wire);
        PreparedStatement { columns: columns.collect(), inner }
    }
}

fn on_the_wire(c: &sql::Column) -> Column {
    Column {
        name: c.name.clone(),
        type_oid: c.oid,
        type_len: c.typlen,
        type_modifier: c.shown_typmod(),
        table_oid: c.table_oid,
        attnum: c.attnum,
    }
}

impl Session for SqlSession {
    type Statement = sql::Statement;
    type Prepared = PreparedStatement;
    type Portal = sql::Portal;

    fn pid(&self) -> i32 {
        self.session.pid()
    }

    fn set_cancel_secret(&self, secret: i32) {
        self.ctx.session.set_cancel_secret(secret);
    }

    fn interrupt(&self) -> Arc<dyn Interrupt> {
        Arc::new(CancelHandle(Arc::clone(&self.ctx.session)))
    }

    fn client_waits(&self) -> Arc<dyn ClientWaits> {
        Arc::new(Waits(self.ctx.clone()))
    }

    fn begin_request(&mut self) {
        self.ctx.session.cancel_flag().begin_statement();
        self.session.begin_request();
    }

    fn split(&mut self, text: &str) -> Result<Vec<sql::Statement>, Report> {
        self.session.split(text).map_err(report)
    }

    async fn prepare_statement(
        &mut self,
        statement: sql::Statement,
    ) -> Result<PreparedStatement, Report> {
        let prepared = self.session.prepare_statement(statement).await;
        prepared.map(SqlSession::prepared).map_err(|e| self.failed(e))
    }

    async fn prepare(&mut self, text: &str, oids: &[u32]) -> Result<PreparedStatement, Report> {
        let prepared = self.session.prepare(text, oids).await;
        prepared.map(SqlSession::prepared).map_err(|e| self.failed(e))
    }

    fn describe<'a>(&self, prepared: &'a PreparedStatement) -> Description<'a> {
        Description {
            param_oids: &prepared.inner.param_oids,
            columns: &prepared.columns,
            returns_rows: prepared.inner.returns_rows,
        }
    }

    fn cursor(&self, name: &str) -> Option<Vec<Column>> {
        let columns = self.session.cursor_description(name)?;
        Some(columns.iter().map(on_the_wire).collect())
    }

    fn bind(
        &mut self,
        prepared: &PreparedStatement,
        parameters: Parameters,
        result_formats: &[i16],
    ) -> Result<sql::Portal, Report> {
        let Parameters { values, formats } = parameters;
        self.session.bind(&prepared.inner, &values, &formats, result_formats).map_err(report)
    }

    async fn fetch(
        &mut self,
        portal: &mut sql::Portal,
        max_rows: usize,
        out: &mut Output,
    ) -> Result<Fetched, Report> {
        let fetched = self.session.fetch(portal, max_rows, &mut Sink(out)).await;
        Ok(match fetched.map_err(|e| self.failed(e))? {
            sql::Fetched::Suspended => Fetched::Suspended,
            sql::Fetched::Complete(tag) => Fetched::Complete(tag),
            sql::Fetched::CopyIn { binary, columns } => Fetched::CopyIn { binary, columns },
            sql::Fetched::Empty => Fetched::Empty,
        })
    }

    async fn copy_data(&mut self, data: &[u8]) -> Result<(), Report> {
        self.session.copy_data(data).await.map_err(|e| self.failed(e))
    }

    async fn copy_done(&mut self) -> Result<String, Report> {
        self.session.copy_done().await.map_err(|e| self.failed(e))
    }

    async fn copy_fail(&mut self, reason: &str) -> Report {
        report(self.session.copy_fail(reason).await)
    }

    async fn sync(&mut self) -> Result<(), Report> {
        self.session.sync().await.map_err(|e| self.failed(e))
    }

    fn transaction_status(&self) -> u8 {
        self.session.transaction_status()
    }

    async fn fail_transaction(&mut self) {
        self.session.fail_transaction().await;
    }

    fn take_notices(&mut self) -> Vec<Report> {
        self.session.take_notices().into_iter().map(report).collect()
    }

    fn take_notifications(&mut self) -> Vec<Notification> {
        let taken = self.session.take_notifications().into_iter();
        taken.map(|n| Notification { pid: n.pid, channel: n.channel, payload: n.payload }).collect()
    }

    fn bell(&self) -> Option<BorrowedFd<'_>> {
        self.session.bell()
    }

    fn rests(&mut self) {
        env::real::give_own_memory_back();
    }

    fn idle_limit(&self) -> Option<(Duration, Report)> {
        let (us, error) = self.session.idle_limit()?;
        Some((Duration::from_micros(us), fatal(error)))
    }

    fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        self.session.take_parameter_changes()
    }

    async fn close(self) {
        self.session.close().await;
    }
}
