//! SQL trace: what switches it on, here and on other instances, and what a session's statements
//! tell it.
//!
//! What it promises: a traced statement does what it does untraced; its plan's figures are those of
//! the run that is traced. What it must never do: let anybody but a superuser trace another
//! session.

use crate::counted::rows_of;
use crate::measured::{Measured, Outer};
use crate::parse::lift;
use crate::plan::{Kind, Plan, Prepared, QueryPlan};
use crate::plan_lines::plan_lines;
use crate::session::{Fetched, Portal, PortalState, Session};
use crate::{PgError, Result, RowSink};
use datafusion::physical_plan::ExecutionPlan;
use env::Lane;
use kernel::gcs::CallKind;
use kernel::instance::Instance;
use kernel::row::{TypeKind, Value};
use observe::{
    Bind, Call, CallMark, SessionKind, TRACE_BINDS, TRACE_CALLS, TRACE_PLANS_ALL,
    TRACE_PLANS_NEVER, TRACE_WAITS, TraceRequest, WaitEvent,
};
use query::explain::{Step, steps};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long what a session has traced may wait for being written.
const FLUSH_INTERVAL: Duration = Duration::from_secs(1);
/// Longest last part of a file's name.
const IDENTIFIER_BYTES_MAX: usize = 64;

/// A procedure that switches traces.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TraceCall {
    pub on: bool,
    /// Session, its serial number, and the instance it is on; `None`: this session.
    pub session: Option<(u32, u32, Option<u8>)>,
    pub waits: bool,
    pub binds: bool,
    pub plans: TracedPlans,
}

/// After which executions of a statement its plan is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TracedPlans {
    First,
    All,
    Never,
}

impl TracedPlans {
    const EACH: [TracedPlans; 3] = [TracedPlans::First, TracedPlans::All, TracedPlans::Never];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            TracedPlans::First => "first_execution",
            TracedPlans::All => "all_executions",
            TracedPlans::Never => "never",
        }
    }

    pub(crate) fn named(name: &str) -> Option<TracedPlans> {
        TracedPlans::EACH.into_iter().find(|plans| plans.name().eq_ignore_ascii_case(name))
    }

    const fn level(self) -> u8 {
        match self {
            TracedPlans::First => 0,
            TracedPlans::All => TRACE_PLANS_ALL,
            TracedPlans::Never => TRACE_PLANS_NEVER,
        }
    }
}

/// A text that is being prepared.
pub(crate) struct Parsing {
    text: Arc<str>,
    mark: CallMark,
    cursor: u32,
}

/// The statement that a traced session runs.
pub(crate) struct Running {
    cursor: u32,
    mark: CallMark,
    /// Its execution has been told: what follows is the fetch.
    fetching: bool,
    /// Hash value of its plan; 0: it is not made yet, or made for each run.
    plan: u32,
    text: Arc<str>,
    /// What its steps have done, when that is to be told.
    measured: Outer,
}

/// A statement of procedural code that is traced, and what runs it.
pub(crate) struct TracedPart {
    cursor: u32,
    outer: Option<Box<Running>>,
}

/// Writes out, every second, what the sessions of an instance have traced.
pub(crate) fn start(instance: &Arc<Instance>) {
    let weak = Arc::downgrade(instance);
    let ctx = instance.observer.ctx(SessionKind::Background, "trace writer");
    let env = ctx.env.clone();
    env.spawn_task("trace writer", Lane::Background, async move {
        loop {
            ctx.sleep(WaitEvent::RdbmsIpcMessage, FLUSH_INTERVAL).await;
            let Some(instance) = weak.upgrade() else { return };
            if instance.is_closing() {
                return;
            }
            instance.observer.flush_traces();
        }
    });
}

fn level_of(waits: bool, binds: bool, plans: TracedPlans) -> u8 {
    let (waits, binds) = (if waits { TRACE_WAITS } else { 0 }, if binds { TRACE_BINDS } else { 0 });
    TRACE_CALLS | waits | binds | plans.level()
}

/// Tells another instance that there are other rules of traces to read.
pub(crate) const RULES: &[u8] = b"rules";

/// What another instance is asked: session, serial number, level; or [`RULES`].
pub(crate) fn receive(instance: &Instance, body: &[u8]) -> Option<Vec<u8>> {
    if body == RULES {
        instance.observer.outdate_trace_rules();
        return Some(Vec::new());
    }
    let (sid, rest) = body.split_first_chunk::<4>()?;
    let (serial, level) = rest.split_first_chunk::<4>()?;
    let level = *level.first()?;
    let (sid, serial) = (u32::from_le_bytes(*sid), u32::from_le_bytes(*serial));
    let told = match set_local(instance, sid, serial, level) {
        Ok(()) => String::new(),
        Err(error) => error.message.to_string(),
    };
    Some(told.into_bytes())
}

fn set_local(instance: &Instance, sid: u32, serial: u32, level: u8) -> Result<()> {
    let found = instance.observer.session(sid).filter(|state| state.serial() == serial);
    let state = found
        .ok_or_else(|| PgError::new("42704", format!("session {sid},{serial} does not exist")))?;
    let most = instance.params.max_dump_file_size();
    let request =
        TraceRequest { level, identifier: String::new(), bytes_max: (most > 0).then_some(most) };
    instance.observer.set_trace(&state, &request).map_err(no_place)
}

fn no_place(why: String) -> PgError {
    PgError::new("55000", why)
}

/// The level that an event's text asks for; 0: off.
fn event_level(text: &str) -> Result<u8> {
    let lower = text.to_ascii_lowercase().replace(',', " , ").replace('=', " = ");
    let words: Vec<&str> = lower.split_whitespace().collect();
    match words[..] {
        ["10046", "trace", "name", "context", "off"] | ["sql_trace", "off"] => Ok(0),
        ["10046", "trace", "name", "context", "forever"] | ["sql_trace"] => Ok(TRACE_CALLS),
        ["10046", "trace", "name", "context", "forever", ",", "level", level]
        | ["sql_trace", "level", level]
        | ["sql_trace", "level", "=", level] => numbered_level(level),
        ["10046", ..] => Err(PgError::syntax(format!("invalid event text \"{text}\"")).with_hint(
            "Write '10046 trace name context forever, level 8' or '10046 trace name context off'.",
        )),
        ["sql_trace", ref settings @ ..] => named_level(settings).ok_or_else(|| {
            let error = PgError::syntax(format!("invalid event text \"{text}\""));
            error.with_hint(
                "Write 'sql_trace wait=true, bind=true', 'sql_trace level 12' or 'sql_trace off'; \
                 plan_stat is first_execution, all_executions or never.",
            )
        }),
        _ => Err(PgError::unsupported(format!("event \"{text}\""))
            .with_hint("Events are 10046 and sql_trace.")),
    }
}

/// A level by its number.
fn numbered_level(number: &str) -> Result<u8> {
    const PLANS: u8 = TRACE_PLANS_ALL | TRACE_PLANS_NEVER;
    const KINDS: u8 = TRACE_CALLS | TRACE_BINDS | TRACE_WAITS;
    match number.parse::<u8>() {
        Ok(0) => Ok(0),
        Ok(level) if level & !(PLANS | KINDS) == 0 && level & PLANS != PLANS => {
            Ok(level | TRACE_CALLS)
        }
        _ => Err(PgError::unsupported(format!("level {number} of event 10046")).with_hint(
            "Levels are 0, 1, 4 (binds), 8 (waits) and their sums; 16 more for plans of all \
             executions, 32 more for none.",
        )),
    }
}

/// A level by what is to be told: `wait = true , bind = false`; `None`: it says something else.
fn named_level(settings: &[&str]) -> Option<u8> {
    let (mut waits, mut binds, mut plans) = (false, false, TracedPlans::First);
    for setting in settings.split(|word| *word == ",") {
        let [name, "=", value] = *setting else { return None };
        let truth = || value.parse::<bool>().ok();
        match name {
            "wait" | "waits" => waits = truth()?,
            "bind" | "binds" => binds = truth()?,
            "plan_stat" => plans = TracedPlans::named(value)?,
            _ => return None,
        }
    }
    Some(level_of(waits, binds, plans))
}

fn is_name(text: &str) -> bool {
    text.len() <= IDENTIFIER_BYTES_MAX
        && text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
}

impl Session {
    /// What of `ALTER SESSION SET` is about traces; `None`: something else.
    pub(crate) fn alter_trace(&mut self, name: &str, value: &str) -> Result<Option<()>> {
        match name {
            "events" => self.trace_own(event_level(value)?)?,
            "sql_trace" => match query::cast::parse_bool(value)? {
                true => self.trace_own(TRACE_CALLS)?,
                false => self.trace_own(0)?,
            },
            "tracefile_identifier" => {
                if !is_name(value) {
                    let text = format!("invalid value for parameter \"{name}\": \"{value}\"");
                    return Err(PgError::new("22023", text)
                        .with_hint("It has letters, digits, _ and -, at most 64 of them."));
                }
                value.clone_into(&mut self.trace_settings.identifier);
                self.trace_again()?;
            }
            "max_dump_file_size" => {
                self.trace_settings.bytes_max = if value.eq_ignore_ascii_case("unlimited") {
                    Some(None)
                } else {
                    let number = kernel::params::Parameters::check_session(name, value);
                    let number = number.map_err(|e| PgError::new("22023", e.to_string()))?;
                    Some(u64::try_from(number).ok().filter(|n| *n > 0))
                };
                self.trace_again()?;
            }
            // Times are always taken.
            "timed_statistics" => {
                if !query::cast::parse_bool(value)? {
                    return Err(PgError::unsupported("timed_statistics = false"));
                }
            }
            _ => return Ok(None),
        }
        Ok(Some(()))
    }

    fn trace_own(&mut self, level: u8) -> Result<()> {
        let own = self.trace_settings.bytes_max;
        let bytes_max = own.unwrap_or_else(|| {
            let most = self.instance.params.max_dump_file_size();
            (most > 0).then_some(most)
        });
        let identifier = self.trace_settings.identifier.clone();
        let request = TraceRequest { level, identifier, bytes_max };
        self.instance.observer.set_trace(&self.ctx.session, &request).map_err(no_place)
    }

    /// The file that the session's trace goes to, or would go to if it were traced.
    pub(crate) fn trace_file_name(&self, prefix: &str) -> String {
        self.ctx.session.trace_name().unwrap_or_else(|| {
            let identifier = &self.trace_settings.identifier;
            let more = if identifier.is_empty() { "" } else { "_" };
            format!("{prefix}_ora_{}{more}{identifier}.trc", self.ctx.session.sid())
        })
    }

    /// What was set about traces holds for one that runs.
    fn trace_again(&mut self) -> Result<()> {
        match self.ctx.session.trace_level() {
            0 => Ok(()),
            level => self.trace_own(level),
        }
    }

    /// `CALL dbms_monitor.session_trace_enable(..)` and its like.
    pub(crate) async fn trace_by_call(&mut self, call: &TraceCall) -> Result<()> {
        let level = if call.on { level_of(call.waits, call.binds, call.plans) } else { 0 };
        let Some((sid, serial, on)) = call.session else { return self.trace_own(level) };
        let here = on.is_none_or(|k| k == self.instance.me.0);
        if here && (sid, serial) == (self.ctx.session.sid(), self.ctx.session.serial()) {
            return self.trace_own(level);
        }
        if !self.is_superuser().await? {
            return Err(PgError::new("42501", "permission denied to trace another session"));
        }
        if here {
            return set_local(&self.instance, sid, serial, level);
        }
        let peer = block::InstanceNo(on.unwrap_or_default());
        let mut body = sid.to_le_bytes().to_vec();
        body.extend_from_slice(&serial.to_le_bytes());
        body.push(level);
        let node = self.instance.node.clone();
        let members = node.view();
        let answer = match members.members.contains(&peer) {
            false => None,
            true => {
                let asked = node.call_peer(peer, CallKind::Trace, &body);
                let p = [0, 0, u64::from(CallKind::Trace.code())];
                self.ctx.wait_or_cancel(WaitEvent::ReliableMessage, p, asked).await?
            }
        };
        match answer {
            None => Err(PgError::new("55000", format!("instance {} is not open", peer.0))),
            Some(told) if told.is_empty() => Ok(()),
            Some(told) => {
                let text = String::from_utf8_lossy(&told).into_owned();
                Err(PgError::new("42704", format!("{text} on instance {}", peer.0)))
            }
        }
    }

    /// A text is about to be prepared; `None`: it is not traced.
    pub(crate) fn begin_parse(&self, text: &str) -> Option<Parsing> {
        // The text that it is known by: values that are taken out are no part of it.
        let lifted = lift(text).or_else(|| self.shared_text(text)).map(|lifted| lifted.text);
        let text: Arc<str> = Arc::from(lifted.as_deref().unwrap_or(text).trim());
        let mark = self.ctx.trace_mark();
        let cursor = self.ctx.trace_enter(&text, self.identity.role.0)?;
        Some(Parsing { text, mark, cursor })
    }

    /// It is prepared, or has failed.
    pub(crate) fn end_parse(&self, parsing: Option<Parsing>, done: &Result<Arc<Prepared>>) {
        let Some(Parsing { text, mark, cursor }) = parsing else { return };
        match done {
            Ok(prepared) => {
                let plan = plan_hash(&prepared.plan);
                self.ctx.trace_call(Call::Parse, cursor, &mark, 0, plan);
            }
            Err(error) => self.tell_of_failure(cursor, &text, &mark, error.code),
        }
        self.ctx.trace_leave(cursor);
    }

    /// A statement could not be prepared.
    fn tell_of_failure(&self, cursor: u32, text: &str, mark: &CallMark, code: &str) {
        // What constants give is computed with the plan, but no fault of the text: that is parsed,
        // and its execution fails.
        if is_of_values(code) {
            let parsed = self.ctx.trace_call(Call::Parse, cursor, mark, 0, 0);
            self.ctx.trace_call(Call::Exec, cursor, &parsed, 0, 0);
            self.ctx.trace_error(cursor, code);
        } else {
            self.ctx.trace_parse_error(Some(cursor), text, self.identity.role.0, code);
        }
    }

    /// A statement of procedural code could not be prepared, since `mark`. `read`: that is no
    /// matter of its syntax.
    pub(crate) fn tell_of_failed_parse(&self, text: &str, mark: &CallMark, read: bool, code: &str) {
        let role = self.identity.role.0;
        if !read {
            return self.ctx.trace_parse_error(None, text.trim(), role, code);
        }
        let text: Arc<str> = Arc::from(text.trim());
        if let Some(cursor) = self.ctx.trace_enter(&text, role) {
            self.tell_of_failure(cursor, &text, mark, code);
            self.ctx.trace_leave(cursor);
        }
    }

    /// Runs a portal on and tells of it.
    pub(crate) async fn fetch_traced(
        &mut self,
        portal: &mut Portal,
        max_rows: usize,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let prepared = &portal.prepared;
        let text = match prepared.plan.cursor.get() {
            Some(counted) => counted.text().clone(),
            None => Arc::from(prepared.statement.text.trim()),
        };
        let Some(cursor) = self.ctx.trace_enter(&text, self.identity.role.0) else {
            return self.fetch_untraced(portal, max_rows, sink).await;
        };
        let fetching = !matches!(portal.state, PortalState::Ready);
        if !fetching && self.ctx.traces_binds() && !portal.params.is_empty() {
            let env = self.format_env();
            let binds: Vec<Bind> = portal.params.iter().map(|v| bind_of(v, &env)).collect();
            self.ctx.trace_binds(cursor, &binds);
        }
        let mark = self.ctx.trace_mark();
        let plan = hash_before(&portal.prepared, fetching);
        let running = Running { cursor, mark, fetching, plan, text, measured: None };
        let outer = self.tracing.replace(Box::new(running));
        let done = self.fetch_untraced(portal, max_rows, sink).await;
        if let Some(running) = std::mem::replace(&mut self.tracing, outer) {
            self.tell_of_run(&running, &portal.prepared, max_rows, &done);
        }
        self.ctx.trace_leave(cursor);
        done
    }

    /// A statement of procedural code has been prepared, since `mark`.
    pub(crate) fn tell_of_parse(&self, prepared: &Prepared, mark: &CallMark) {
        let Some(counted) = prepared.plan.cursor.get() else { return };
        let Some(cursor) = self.ctx.trace_enter(counted.text(), self.identity.role.0) else {
            return;
        };
        self.ctx.trace_call(Call::Parse, cursor, mark, 0, plan_hash(&prepared.plan));
        self.ctx.trace_leave(cursor);
    }

    /// A statement of procedural code is about to be run with these values, or to give further rows
    /// (`None`). `None`: it is not traced, as expressions are not.
    pub(crate) fn begin_part(
        &mut self,
        prepared: &Prepared,
        params: Option<&[Value]>,
    ) -> Option<TracedPart> {
        if !self.ctx.traced() {
            return None;
        }
        let text = prepared.plan.cursor.get()?.text().clone();
        let cursor = self.ctx.trace_enter(&text, self.identity.role.0)?;
        if let Some(params) = params.filter(|params| !params.is_empty())
            && self.ctx.traces_binds()
        {
            let env = self.format_env();
            let binds: Vec<Bind> = params.iter().map(|v| bind_of(v, &env)).collect();
            self.ctx.trace_binds(cursor, &binds);
        }
        let mark = self.ctx.trace_mark();
        let fetching = params.is_none();
        let plan = hash_before(prepared, fetching);
        let running = Running { cursor, mark, fetching, plan, text, measured: None };
        Some(TracedPart { cursor, outer: self.tracing.replace(Box::new(running)) })
    }

    /// It has been run, or has given some rows.
    pub(crate) fn end_part(
        &mut self,
        part: Option<TracedPart>,
        prepared: &Prepared,
        max_rows: usize,
        done: &Result<Fetched>,
    ) {
        let Some(TracedPart { cursor, outer }) = part else { return };
        if let Some(running) = std::mem::replace(&mut self.tracing, outer) {
            self.tell_of_run(&running, prepared, max_rows, done);
        }
        self.ctx.trace_leave(cursor);
    }

    fn tell_of_run(
        &self,
        running: &Running,
        prepared: &Prepared,
        max_rows: usize,
        done: &Result<Fetched>,
    ) {
        let Running { cursor, mark, fetching, plan, text, measured } = running;
        let rows = done.as_ref().map_or(0, |fetched| rows_of(fetched, max_rows));
        let call = if *fetching { Call::Fetch } else { Call::Exec };
        // The run may have made the plan: before it there was no number for it.
        let plan = match *plan {
            0 => plan_hash(&prepared.plan),
            known => known,
        };
        self.ctx.trace_call(call, *cursor, mark, rows, plan);
        if let Err(error) = done {
            self.ctx.trace_error(*cursor, error.code);
        }
        if let Some(measured) = measured
            && self.ctx.trace_wants_plan(text, plan)
        {
            let lines = plan_lines(measured);
            if !lines.is_empty() {
                self.ctx.trace_plan(text, plan, &lines);
            }
        }
    }

    /// Makes the plan of a traced query that has none yet, as its run would with these values: the
    /// line of the execution, which comes before the first row, is to name it.
    ///
    /// # Errors
    /// Those of planning, which are the execution's.
    pub(crate) async fn make_traced(&self, plan: &Plan, params: &[Value]) -> Result<()> {
        let Kind::Query(query) = &plan.kind else { return Ok(()) };
        if !query.query.reusable || query.physical.get().is_some() || plan.runs_whole() {
            return Ok(());
        }
        let planner = &self.database.planner;
        let make = || planner.physical_peeking(&query.query.plan, params);
        query.physical.get_or_try_init(make).await?;
        Ok(())
    }

    /// The text has run by the plan with this number.
    pub(crate) fn note_traced_plan(&mut self, text: &Arc<str>, hash: u32) {
        // Expressions of procedural code run inside, and are not traced.
        if let Some(running) = &mut self.tracing
            && running.text == *text
        {
            running.plan = hash;
        }
    }

    /// A query is about to give its rows by this plan: what it has done so far was its execution.
    pub(crate) fn note_executed(&mut self, plan: &Plan) {
        let gives_rows = plan.returns_rows && !plan.runs_whole();
        let queries = matches!(plan.kind, Kind::Query(_) | Kind::Direct(_) | Kind::With(_));
        let Some(running) = &mut self.tracing else { return };
        running.plan = plan_hash(plan);
        if gives_rows && queries && !running.fetching {
            let Running { cursor, mark, plan, .. } = **running;
            running.mark = self.ctx.trace_call(Call::Exec, cursor, &mark, 0, plan);
            running.fetching = true;
        }
    }

    /// Whether the steps of the traced statement are to be told. A plan that is still to be made
    /// may be another than the last.
    pub(crate) fn wants_traced_plan(&self) -> bool {
        self.tracing
            .as_ref()
            .is_some_and(|running| self.ctx.trace_wants_plan(&running.text, running.plan))
    }

    /// What the steps of the traced statement have done: they are told behind its call.
    pub(crate) fn note_traced_steps(&mut self, measured: Box<Measured>) {
        if let Some(running) = &mut self.tracing {
            running.measured = Some(measured);
        }
    }
}

/// Whether an error is one of values and not of the text that has them (`data exception`).
fn is_of_values(code: &str) -> bool {
    code.starts_with("22")
}

/// The number of a statement's plan before a call. Further rows (`fetching`) come from the plan
/// that has run, which may have been made anew for that.
fn hash_before(prepared: &Prepared, fetching: bool) -> u32 {
    match plan_hash(&prepared.plan) {
        0 if fetching => prepared.plan.cursor.get().map_or(0, |cursor| cursor.plan_hash()),
        hash => hash,
    }
}

/// A number for the plan: texts with the same plan have the same. 0: it is not made yet, or made
/// for each run.
pub(crate) fn plan_hash(plan: &Plan) -> u32 {
    if let Some(hash) = plan.hash.get() {
        return *hash;
    }
    let shape = match &plan.kind {
        Kind::Direct(direct) => Some(crate::utility::direct_text(direct)),
        Kind::Query(query) => shape_of_query("", query, ""),
        Kind::Modify(modify) => {
            let verb = if modify.set.is_some() { "Update" } else { "Delete" };
            shape_of_query(verb, &modify.query, &modify.table.name)
        }
        Kind::InsertSelect(insert) => shape_of_query("Insert", &insert.query, &insert.table.name),
        Kind::Merge(merge) => shape_of_query("Merge", &merge.query, &merge.table.name),
        _ => None,
    };
    let Some(shape) = shape else { return 0 };
    *plan.hash.get_or_init(|| observe::sql_id(&shape).1)
}

/// The same, and which plan it is of those that look alike: one that is made anew may expect other
/// things. Those that are made for each run are not told apart.
pub(crate) fn plan_numbers(plan: &Plan) -> (u32, u64) {
    static MADE: AtomicU64 = AtomicU64::new(1);
    let number = || MADE.fetch_add(1, Ordering::Relaxed);
    let hash = plan_hash(plan);
    let number = if plan.once || hash == 0 { 0 } else { *plan.number.get_or_init(number) };
    (hash, number)
}

/// `None`: its plan is not made, or made for each run.
fn shape_of_query(verb: &str, query: &QueryPlan, table: &str) -> Option<String> {
    let physical = query.physical.get()?;
    let shape = shape_of(&steps(physical));
    Some(if verb.is_empty() { shape } else { format!("{verb} on {table}: {shape}") })
}

/// The number of a plan that has been made for one run.
pub(crate) fn hash_of_steps(physical: &Arc<dyn ExecutionPlan>) -> u32 {
    observe::sql_id(&shape_of(&steps(physical))).1
}

fn shape_of(step: &Step) -> String {
    let inputs: Vec<String> = step.inputs.iter().map(shape_of).collect();
    format!("{}[{}]", step.text, inputs.join(","))
}

/// Longest text of a value in a trace.
const VALUE_CHARS_MAX: usize = 2_000;

/// A value as the trace shows it.
fn bind_of(value: &Value, env: &query::wire::FormatEnv) -> Bind {
    let kind = query::cast::kind_of(&value.as_datum());
    let Some(kind) = kind else {
        return Bind { type_code: 1, length_bytes: 0, scale: 0, value: None };
    };
    let text = ColText::of(value, env);
    let (type_code, quoted) = match kind {
        TypeKind::Int2
        | TypeKind::Int4
        | TypeKind::Int8
        | TypeKind::Float4
        | TypeKind::Float8
        | TypeKind::Numeric => (2, false),
        TypeKind::Date => (12, true),
        TypeKind::Timestamp | TypeKind::Timestamptz => (180, true),
        TypeKind::Bytea => (23, true),
        _ => (1, true),
    };
    let scale = match value {
        Value::Numeric(_, scale) => *scale,
        _ => 0,
    };
    let shown: String = text.chars().take(VALUE_CHARS_MAX).collect();
    let shown = if quoted { format!("\"{}\"", shown.replace('\n', " ")) } else { shown };
    Bind { type_code, length_bytes: text.len(), scale, value: Some(shown) }
}

/// A value's text.
struct ColText;

impl ColText {
    fn of(value: &Value, env: &query::wire::FormatEnv) -> String {
        let text = kernel::row::ColType::new(TypeKind::Text);
        let mode = query::cast::CastMode::Explicit;
        match query::cast::cast(&value.as_datum(), text, mode, env) {
            Ok(Value::Text(text)) => text.to_string(),
            _ => format!("{value:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_texts_name_levels() {
        let level = |text| event_level(text).map_err(|e| e.code);
        assert_eq!(level("10046 trace name context forever, level 8"), Ok(9));
        assert_eq!(level("10046  TRACE name context forever , level 12"), Ok(13));
        assert_eq!(level("10046 trace name context forever,level 4"), Ok(5));
        assert_eq!(level("10046 trace name context forever"), Ok(1));
        assert_eq!(level("10046 trace name context forever, level 0"), Ok(0));
        assert_eq!(level("10046 trace name context off"), Ok(0));
        assert_eq!(level("10046 trace name context forever, level 7"), Err("0A000"));
        assert_eq!(level("10046 trace name"), Err("42601"));
        assert_eq!(level("10046 trace name context forever, level 28"), Ok(29));
        assert_eq!(level("10046 trace name context forever, level 40"), Ok(41));
        assert_eq!(level("10046 trace name context forever, level 60"), Err("0A000"));
        assert_eq!(level("10053 trace name context forever"), Err("0A000"));
        assert_eq!(level("sql_trace level 12"), Ok(13));
        assert_eq!(level("SQL_TRACE level=8"), Ok(9));
        assert_eq!(level("sql_trace wait=true, bind=true"), Ok(13));
        assert_eq!(level("sql_trace wait = TRUE,bind=false"), Ok(9));
        assert_eq!(level("sql_trace bind=true,plan_stat=all_executions"), Ok(21));
        assert_eq!(level("sql_trace plan_stat=never"), Ok(33));
        assert_eq!(level("sql_trace"), Ok(1));
        assert_eq!(level("sql_trace off"), Ok(0));
        assert_eq!(level("sql_trace wait=perhaps"), Err("42601"));
        assert_eq!(level("sql_trace wait=true,"), Err("42601"));
    }
}
