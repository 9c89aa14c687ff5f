//! One client's session: its transaction, its settings, its statements.
//!
//! What it promises: a statement that fails leaves nothing behind; inside a transaction block it
//! fails the block, as PostgreSQL has it. What it must never do: hold a snapshot while the client
//! thinks, unless a portal is suspended.

mod context;
mod functions;
mod past;
mod portal;
mod prepare;
mod run;
mod signal;
mod transaction;
mod within;

pub use portal::{Fetched, Portal};
pub use signal::pass_cancel_on;
pub(crate) use signal::receive as receive_signal;

pub(crate) use portal::PortalState;

use crate::access::Identity;
use crate::cache::Named;
use crate::copy::CopyIn;
use crate::counted::CountedAs;
use crate::cursor::Cursor;
use crate::database::Database;
use crate::encode::RowEncoder;
use crate::log_on::Seat;
use crate::notify::Listening;
use crate::plan::Prepared;
use crate::settings::Settings;
use crate::user_locks::UserLocks;
use crate::with::{Parts, RunningParts};
use crate::{Notice, PgError, Result, Severity};
use block::ObjId;
use kernel::instance::Instance;
use observe::Ctx;
use query::datetime::EPOCH_US;
use query::row_calls::{RowCall, RowCalls};
use query::wire::FormatEnv;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::mpsc;
pub(crate) use transaction::Mark;
use transaction::Txn;

/// One connection's session.
pub struct Session {
    pub(crate) instance: Arc<Instance>,
    pub(crate) database: Arc<Database>,
    pub(crate) ctx: Ctx,
    /// As whom it acts.
    pub(crate) user: String,
    /// Whom it stands for.
    pub(crate) session_user: String,
    pub(crate) identity: Identity,
    /// While a view is planned: whose rights count for what it reads.
    pub(crate) check_as: Option<ObjId>,
    /// The materialized view whose rows the statement at hand may change.
    pub(crate) refreshed: Option<ObjId>,
    pub(crate) settings: Settings,
    pub(crate) txn: Option<Txn>,
    pub(crate) named: Named<Arc<Prepared>>,
    pub(crate) notices: Vec<Notice>,
    /// What those of code hold.
    pub(crate) notice_bytes: usize,
    pub(crate) sequences: BTreeMap<ObjId, i64>,
    pub(crate) cursors: BTreeMap<String, Cursor>,
    /// Cursors that were given a name because nobody else did.
    pub(crate) unnamed_cursors: u64,
    /// Cursors that procedural code has opened for its cursor variables.
    pub(crate) code_cursors: u64,
    pub(crate) user_locks: UserLocks,
    pub(crate) listening: Listening,
    /// Plans that `EXPLAIN PLAN` has made.
    pub(crate) explained: Vec<crate::xplan::KeptPlan>,
    pub(crate) last_sequence: Option<i64>,
    pub(crate) row_calls: RowCalls,
    /// What rows call while the session waits for them.
    pub(crate) called: mpsc::UnboundedReceiver<RowCall>,
    pub(crate) copy: Option<CopyIn>,
    /// What plans depend on besides the text.
    pub(crate) plan_context: Arc<str>,
    pub(crate) row: Vec<u8>,
    pub(crate) key: Vec<u8>,
    pub(crate) temporary: crate::ddl::Temporary,
    /// Views that are being put in the place of their names, one inside the other.
    pub(crate) view_depth: u32,
    /// While a plan is made for the execution at hand alone: it holds the rows of its views.
    pub(crate) plans_once: bool,
    /// Views that the running statement has read.
    pub(crate) views: Arc<query::ViewRows>,
    /// Of the statement that is being planned.
    pub(crate) hints: Option<crate::hints::Hints>,
    /// What they weigh together.
    pub(crate) view_weight: crate::depth::Weight,
    /// While a statement of several parts is planned.
    pub(crate) parts: Parts,
    /// While one runs.
    pub(crate) running: Option<RunningParts>,
    /// Settings that rows of the running statement ask for.
    pub(crate) set_by_rows: crate::catalog::SetByRows,
    /// Where the client is; empty for a session that nobody has logged on to.
    pub(crate) peer: String,
    /// Its place among its role's sessions.
    pub(crate) seat: Option<Seat>,
    /// Where a failed statement is rolled back to.
    statement_start: Option<Mark>,
    /// Blocks of the field's language around that catch errors: of what they call, too, only the
    /// statement that failed is taken back.
    pub(crate) blocks_that_catch: usize,
    /// As whom a routine acts that has the rights of its owner.
    pub(crate) acting_as: Option<(ObjId, String)>,
    /// Blocks of procedural code that must be able to take back what they did: nobody may end the
    /// transaction meanwhile.
    pub(crate) blocks_that_hold: usize,
    /// While a statement runs that is an expression of procedural code.
    pub(crate) in_expression: bool,
    /// What it has planned of stored functions and procedures.
    pub(crate) routine_plans: crate::pl::RoutinePlans,
    /// Lines that its code has put out.
    pub(crate) output: crate::pl::Output,
    /// What the collections of its code hold.
    /// Where its values by chance are; `None`: nobody has asked for one.
    pub(crate) chance: Option<u64>,
    pub(crate) collected: Option<Arc<crate::pl::Account>>,
    /// Whether nothing has run in the transaction before the statement at hand.
    pub(crate) is_first: bool,
    /// While a statement runs that is traced.
    pub(crate) tracing: Option<Box<crate::trace::Running>>,
    /// While a statement runs that is measured step by step.
    pub(crate) measuring: crate::measured::Outer,
    /// What its statements are counted under.
    pub(crate) counted_as: crate::counted::CountedAs,
    /// The COPY that the client's data belongs to.
    pub(crate) copying: Option<Arc<observe::SharedCursor>>,
    /// `application_name` as it was last made the session's module.
    told_application: String,
    /// The schemas that it has told others of.
    told_schemas: String,
    pub(crate) trace_settings: TraceSettings,
}

/// What the session has set about its trace.
#[derive(Default)]
pub(crate) struct TraceSettings {
    /// Last part of the file's name.
    pub(crate) identifier: String,
    /// `Some(None)`: no limit; `None`: the instance's.
    pub(crate) bytes_max: Option<Option<u64>>,
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
        let user_locks = UserLocks::new(instance.core.clone());
        let (row_calls, called) = RowCalls::new();
        let mut session = Session {
            instance,
            database,
            ctx,
            user: user.to_owned(),
            session_user: user.to_owned(),
            identity: Identity::unknown(),
            check_as: None,
            refreshed: None,
            settings,
            txn: None,
            named: Named::new(),
            notices: Vec::new(),
            notice_bytes: 0,
            sequences: BTreeMap::new(),
            cursors: BTreeMap::new(),
            unnamed_cursors: 0,
            code_cursors: 0,
            user_locks,
            listening: Listening::default(),
            explained: Vec::new(),
            last_sequence: None,
            row_calls,
            called,
            copy: None,
            plan_context: Arc::from(""),
            row: Vec::new(),
            key: Vec::new(),
            temporary: crate::ddl::Temporary::default(),
            view_depth: 0,
            plans_once: false,
            views: Arc::default(),
            hints: None,
            view_weight: Default::default(),
            parts: Parts::default(),
            running: None,
            set_by_rows: Default::default(),
            peer: String::new(),
            seat: None,
            blocks_that_hold: 0,
            in_expression: false,
            blocks_that_catch: 0,
            acting_as: None,
            routine_plans: Default::default(),
            output: Default::default(),
            collected: None,
            chance: None,
            is_first: true,
            statement_start: None,
            tracing: None,
            measuring: None,
            counted_as: Default::default(),
            copying: None,
            told_application: String::new(),
            told_schemas: String::new(),
            trace_settings: TraceSettings::default(),
        };
        session.note_context();
        session.ctx.apply_trace_rules();
        Ok(session)
    }

    /// A message of the client's begins: whatever the one before it left behind by breaking off,
    /// it is judged by the session's own rights.
    pub fn begin_request(&mut self) {
        self.ctx.session.begin_request(&self.ctx.env);
        self.check_as = None;
        self.refreshed = None;
        if self.acting_as.take().is_some() {
            self.note_context();
        }
        (self.view_depth, self.view_weight) = (0, Default::default());
        self.plans_once = false;
        if !self.views.is_empty() {
            self.views = Arc::default();
        }
        self.hints = None;
    }

    /// Settings that plans depend on have changed.
    pub(crate) fn note_context(&mut self) {
        self.session_user = self.settings.show("session_authorization").unwrap_or_default();
        let role = self.settings.show("role").unwrap_or_default();
        self.user = if role == "none" { self.session_user.clone() } else { role.clone() };
        self.identity.follow(&self.session_user, &role);
        if let Some((role, name)) = &self.acting_as {
            self.identity.role = *role;
            self.user.clone_from(name);
        }
        self.make_context();
        self.tell_application();
    }

    /// The client's name for itself is the session's module, until it says otherwise.
    fn tell_application(&mut self) {
        let name = self.settings.show("application_name").unwrap_or_default();
        if name != self.told_application {
            self.ctx.session.describe(|about| {
                about.module = Arc::from(name.as_str());
                about.action = Arc::from("");
            });
            self.ctx.apply_trace_rules();
            self.ctx.trace_attribute("MODULE NAME", &name);
            self.ctx.trace_attribute("ACTION NAME", "");
            self.told_application = name;
        }
    }

    /// Puts together what plans depend on.
    fn make_context(&mut self) {
        let own = |name: &String| if name == "$user" { self.user.clone() } else { name.clone() };
        let path: Vec<String> = self.settings.search_path.iter().map(own).collect();
        let mut path = path.join(",");
        if path != self.told_schemas {
            self.ctx.session.describe(|about| about.schemas = Arc::from(path.as_str()));
            self.told_schemas.clone_from(&path);
        }
        self.counted_as = CountedAs::of(self.identity.role.0, &path);
        if let Some(schema) = &self.temporary.schema {
            // What the session's own objects hide, and when, is its own affair.
            path = format!("{schema} {};{path}", self.temporary.changes);
        }
        let (role, zone) = (self.identity.role.0, &self.settings.zone_name);
        let workers = self.settings.workers;
        self.plan_context = Arc::from(format!("{role};{path};{zone};{workers}"));
    }

    pub(crate) fn encoder(&self, columns: &[query::PgColumn], formats: &[i16]) -> RowEncoder {
        RowEncoder::new(columns, formats, self.format_env())
    }

    pub(crate) fn format_env(&self) -> FormatEnv {
        let now_us = match &self.txn {
            Some(txn) => txn.start_us,
            None => self.ctx.env.wall_us() - EPOCH_US,
        };
        let value_bytes = self.database.planner.pga().result_bytes();
        FormatEnv { zone: self.settings.zone, now_us, value_bytes }
    }

    /// The number that the session is known by: to its client, to cancel requests, in views.
    #[must_use]
    pub fn pid(&self) -> i32 {
        i32::try_from(self.ctx.session.sid()).unwrap_or(i32::MAX)
    }

    pub(crate) fn notice(&mut self, severity: Severity, text: impl Into<String>) {
        self.notices.push(PgError::notice(severity, text));
    }

    /// Keeps a notice of code for the client, which is told when the statement has ended.
    ///
    /// # Errors
    /// 53200: too much is on its way to the client.
    pub(crate) fn code_notice(&mut self, notice: Notice) -> Result<()> {
        let most = self.database.planner.pga().result_bytes();
        let bytes = size_of::<Notice>() + notice.message.len();
        if self.notice_bytes.saturating_add(bytes) > most {
            let text = format!("notices of code hold more than {most} bytes");
            return Err(PgError::new("53200", text).with_hint(
                "The client is told of them when the statement has ended: put out less, or raise \
                 pga_aggregate_target.",
            ));
        }
        self.notice_bytes += bytes;
        self.notices.push(notice);
        Ok(())
    }

    pub fn take_notices(&mut self) -> Vec<Notice> {
        self.end_output();
        self.notice_bytes = 0;
        let mut notices = std::mem::take(&mut self.notices);
        if !notices.is_empty() {
            notices.retain(|notice| self.settings.shows(notice.severity));
        }
        notices
    }

    /// Settings a client must be told of.
    pub fn take_parameter_changes(&mut self) -> Vec<(String, String)> {
        self.settings.take_changes()
    }

    /// Drops the session's temporary objects.
    async fn end_temporary(&mut self) -> Result<()> {
        if self.temporary.schema.is_none() {
            return Ok(());
        }
        match self.drop_temporary().await {
            Ok(()) => self.commit().await,
            Err(error) => {
                self.rollback().await?;
                Err(error)
            }
        }
    }

    /// Rolls back what is open; what was temporary goes.
    pub async fn close(mut self) {
        self.copy = None;
        self.note_log_off();
        self.end_to_listen(None);
        let mut closed = self.rollback_quietly().await;
        if closed.is_ok() {
            closed = self.end_temporary().await;
        }
        if let Err(error) = closed {
            let text = format!("a closing session could not be rolled back: {error}");
            self.ctx.alert(observe::AlertLevel::Error, text);
        }
    }
}
