//! SQL trace: what switches it on, here and on other instances, and what a session's statements
//! tell it.
//!
//! What it promises: a traced statement does what it does untraced; its plan's figures are those of
//! the run that is traced. What it must never do: let anybody but a superuser trace another
//! session.

use crate::counted::rows_of;
use crate::parse::lift;
use crate::plan::{Direct, Kind, Plan, Prepared, QueryPlan};
use crate::session::{Fetched, Portal, PortalState, Session};
use crate::{PgError, Result, RowSink};
use datafusion::physical_plan::ExecutionPlan;
use env::Lane;
use kernel::dict::USER_OBJ_MIN;
use kernel::gcs::CallKind;
use kernel::instance::Instance;
use kernel::row::{TypeKind, Value};
use observe::{
    Bind, Call, CallMark, PlanLine, SessionKind, TRACE_BINDS, TRACE_CALLS, TRACE_PLANS_ALL,
    TRACE_PLANS_NEVER, TRACE_WAITS, TraceRequest, WaitEvent,
};
use query::explain::{IndexPart, Step, steps};
use std::sync::Arc;
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
    begun: CallMark,
    /// Its execution has been told: what follows is the fetch.
    fetching: bool,
    plan: u32,
    pub(crate) text: Arc<str>,
    pub(crate) watched: Option<Arc<dyn ExecutionPlan>>,
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
    match number.parse::<u8>() {
        Ok(0) => Ok(0),
        Ok(level) if matches!(level & !PLANS, 0 | 1 | 4 | 8 | 12) && level & PLANS != PLANS => {
            Ok(level | TRACE_CALLS)
        }
        _ => Err(PgError::unsupported(format!("level {number} of event 10046")).with_hint(
            "Levels are 0, 1, 4 (binds), 8 (waits) and 12 (both); 16 more for plans of all \
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
            "statistics_level" => match value.to_ascii_lowercase().as_str() {
                "typical" | "all" => {}
                "basic" => return Err(PgError::unsupported("statistics_level = basic")),
                _ => {
                    let text = format!("invalid value for parameter \"{name}\": \"{value}\"");
                    return Err(PgError::new("22023", text));
                }
            },
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
        let lifted = lift(text).map(|lifted| lifted.text);
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
            Err(error) => {
                self.ctx.trace_parse_error(&text, self.identity.role.0, error.code);
            }
        }
        self.ctx.trace_leave(cursor);
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
        let plan = plan_hash(&portal.prepared.plan);
        let begun = mark;
        let running = Running { cursor, mark, begun, fetching, plan, text, watched: None };
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
        let plan = plan_hash(&prepared.plan);
        let fetching = params.is_none();
        let begun = mark;
        let running = Running { cursor, mark, begun, fetching, plan, text, watched: None };
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
        let Running { cursor, mark, begun, fetching, plan, text, watched } = running;
        let rows = done.as_ref().map_or(0, |fetched| rows_of(fetched, max_rows));
        let call = if *fetching { Call::Fetch } else { Call::Exec };
        let end = self.ctx.trace_call(call, *cursor, mark, rows, *plan);
        if let Err(error) = done {
            self.ctx.trace_error(*cursor, error.code);
        }
        if matches!(done, Ok(Fetched::Complete(_))) && self.ctx.trace_wants_plan(text) {
            let (elapsed_us, consistent, reads) = begun.used_until(&end);
            let figures = format!("(cr={consistent} pr={reads} pw=0 time={elapsed_us} us)");
            let lines = plan_lines(&prepared.plan, watched.as_ref(), rows, &figures);
            if !lines.is_empty() {
                self.ctx.trace_plan(text, &lines);
            }
        }
    }

    /// A query is about to give its rows: what it has done so far was its execution.
    pub(crate) fn note_executed(&mut self, plan: &Plan) {
        let gives_rows = plan.returns_rows && !plan.runs_whole();
        let queries = matches!(plan.kind, Kind::Query(_) | Kind::Direct(_) | Kind::With(_));
        if let Some(running) = &mut self.tracing
            && gives_rows
            && queries
            && !running.fetching
        {
            let Running { cursor, mark, plan, .. } = **running;
            running.mark = self.ctx.trace_call(Call::Exec, cursor, &mark, 0, plan);
            running.fetching = true;
        }
    }

    /// Whether the steps of the query that runs now are to be watched.
    pub(crate) fn wants_watched(&self) -> bool {
        self.tracing.as_ref().is_some_and(|running| {
            running.watched.is_none() && self.ctx.trace_wants_plan(&running.text)
        })
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

/// `None`: its plan is not made, or made for each run.
fn shape_of_query(verb: &str, query: &QueryPlan, table: &str) -> Option<String> {
    let physical = query.physical.get()?;
    let shape = shape_of(&steps(physical));
    Some(if verb.is_empty() { shape } else { format!("{verb} on {table}: {shape}") })
}

fn shape_of(step: &Step) -> String {
    let inputs: Vec<String> = step.inputs.iter().map(shape_of).collect();
    format!("{}[{}]", step.text, inputs.join(","))
}

/// A name at the beginning of what EXPLAIN says.
fn first_name(text: &str) -> &str {
    text.split([' ', ',', ':']).next().unwrap_or(text)
}

/// The field's words for a step that goes by bitmaps.
fn bitmap_operation(text: &str) -> Option<String> {
    let (ours, rest) = text.split_once(" using ")?;
    let (sets, rest) = rest.split_once(" on ")?;
    let sets_text = sets.to_uppercase();
    let found = if sets.starts_with('(') {
        format!("BITMAP {sets_text}")
    } else if rest.contains(" 0 bounds)") && !rest.contains("(0 equal") {
        format!("BITMAP INDEX SINGLE VALUE {sets_text}")
    } else {
        format!("BITMAP INDEX RANGE SCAN {sets_text}")
    };
    let table = first_name(rest).to_uppercase();
    match ours {
        "Bitmap Count" => Some(format!("BITMAP CONVERSION COUNT ({found})")),
        "Bitmap Index Scan" | "Bitmap Index Scan Backward" => {
            let rowids = format!("BITMAP CONVERSION TO ROWIDS ({found})");
            Some(format!("TABLE ACCESS BY INDEX ROWID {table} ({rowids})"))
        }
        "Bitmap Index Only Scan" | "Bitmap Index Only Scan Backward" => Some(found),
        _ => None,
    }
}

/// The field's words for a step, and whether it reads a table.
fn operation(step: &Step) -> (String, bool) {
    let text = &*step.text;
    if let Some(words) = bitmap_operation(text) {
        return (words, true);
    }
    if let Some(table) = text.strip_prefix("Seq Scan on ") {
        let table = first_name(table);
        return (format!("TABLE ACCESS FULL {}", table.to_uppercase()), true);
    }
    for (ours, theirs) in [
        ("Index Unique Scan", "INDEX UNIQUE SCAN"),
        ("Index Only Scan", "INDEX RANGE SCAN"),
        ("Index Range Scan", "INDEX RANGE SCAN"),
        ("Index Scan", "INDEX RANGE SCAN"),
    ] {
        let Some(rest) = text.strip_prefix(ours) else { continue };
        let back = if rest.starts_with(" Backward") { " DESCENDING" } else { "" };
        let after = |word: &str| {
            let (_, name) = rest.split_once(word)?;
            Some(first_name(name).to_uppercase())
        };
        let index = after(" using ").unwrap_or_default();
        let table = after(" on ").unwrap_or_default();
        return match ours {
            "Index Only Scan" => (format!("{theirs}{back} {index}"), true),
            _ => (format!("TABLE ACCESS BY INDEX ROWID {table} ({theirs}{back} {index})"), true),
        };
    }
    let name = match &*step.name {
        "AggregateExec" if text.contains("gby=[]") => "SORT AGGREGATE".to_owned(),
        "AggregateExec" => "HASH GROUP BY".to_owned(),
        "HashJoinExec" => "HASH JOIN".to_owned(),
        "SortMergeJoinExec" => "MERGE JOIN".to_owned(),
        "NestedLoopJoinExec" | "CrossJoinExec" => "NESTED LOOPS".to_owned(),
        "SortExec" => "SORT ORDER BY".to_owned(),
        "UnionExec" => "UNION-ALL".to_owned(),
        "GlobalLimitExec" | "LocalLimitExec" => "COUNT STOPKEY".to_owned(),
        name => {
            let mut words = String::new();
            for c in name.strip_suffix("Exec").unwrap_or(name).chars() {
                if c.is_uppercase() && !words.is_empty() {
                    words.push(' ');
                }
                words.extend(c.to_uppercase());
            }
            words
        }
    };
    (name, false)
}

/// The lines of a plan that has run: each step's figures are measured with all below it.
fn plan_lines(
    plan: &Plan,
    watched: Option<&Arc<dyn ExecutionPlan>>,
    rows: u64,
    figures: &str,
) -> Vec<PlanLine> {
    // Beside tables a plan names what else it depends on, such as the list of schemas.
    let mut tables = plan.tables.iter().map(|(obj, _)| obj.0).filter(|obj| *obj >= USER_OBJ_MIN);
    let only = match (tables.next(), tables.next()) {
        (Some(obj), None) => obj,
        _ => 0,
    };
    let one = |operation: String, obj: u32| {
        let operation = format!("{operation} {figures}");
        vec![PlanLine { rows, parent: 0, position: 1, obj, operation }]
    };
    let upper = |name: &str| name.to_uppercase();
    match (&plan.kind, watched) {
        (Kind::Query(_), Some(watched)) => {
            let mut lines = Vec::new();
            add_lines(&steps(watched), 0, 1, only, &mut lines);
            lines
        }
        (Kind::Direct(direct), _) => match &**direct {
            Direct::Select(select) => {
                let (table, index) = (upper(&select.row.table.name), upper(&select.row.index.name));
                let text =
                    format!("TABLE ACCESS BY INDEX ROWID {table} (INDEX UNIQUE SCAN {index})");
                one(text, select.row.table.obj.0)
            }
            Direct::Update { row, .. } => {
                one(format!("UPDATE {}", upper(&row.table.name)), row.table.obj.0)
            }
            Direct::Delete { row, .. } => {
                one(format!("DELETE {}", upper(&row.table.name)), row.table.obj.0)
            }
            Direct::Insert { table, .. } => {
                one(format!("LOAD TABLE CONVENTIONAL {}", upper(&table.name)), table.obj.0)
            }
            Direct::Values(_) => one("FAST DUAL".to_owned(), 0),
        },
        (Kind::Modify(modify), _) => {
            let verb = if modify.set.is_some() { "UPDATE" } else { "DELETE" };
            one(format!("{verb} {}", upper(&modify.table.name)), modify.table.obj.0)
        }
        (Kind::InsertSelect(insert), _) => {
            let text = format!("LOAD TABLE CONVENTIONAL {}", upper(&insert.table.name));
            one(text, insert.table.obj.0)
        }
        (Kind::Merge(merge), _) => {
            one(format!("MERGE {}", upper(&merge.table.name)), merge.table.obj.0)
        }
        _ => Vec::new(),
    }
}

/// The table's step and the index's, of a step that is both.
fn index_below(name: &str) -> Option<(&str, &str)> {
    name.strip_suffix(')')?.split_once(" (").filter(|(table, _)| table.starts_with("TABLE ACCESS"))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // estimates; it saturates
fn add_lines(step: &Step, parent: usize, position: usize, obj: u32, lines: &mut Vec<PlanLine>) {
    let (name, reads) = operation(step);
    let actual = step.actual.unwrap_or_default();
    let (rows, cost) = (step.estimate.rows.max(0.0), step.estimate.total_cost.max(0.0));
    let size = (rows * step.estimate.width.max(0.0)) as u64;
    let operation = format!(
        "{name} (cr={} pr={} pw=0 time={} us cost={} size={size} card={})",
        actual.visits.consistent_gets,
        actual.visits.physical_reads,
        actual.total_us,
        cost as u64,
        rows as u64,
    );
    let obj_here = if reads { obj } else { 0 };
    // What reads an index's range and then the rows is two steps to the field.
    let parts = step.index.and_then(|part| Some((part, index_below(&name)?)));
    let operation = match parts {
        Some((_, (table, _))) => operation.replacen(&name, table, 1),
        None => operation,
    };
    lines.push(PlanLine { rows: actual.rows, parent, position, obj: obj_here, operation });
    let me = lines.len();
    if let Some((part, (_, index))) = parts {
        let IndexPart { obj, actual } = part;
        let operation = format!(
            "{index} (cr={} pr={} pw=0 time={} us)",
            actual.visits.consistent_gets, actual.visits.physical_reads, actual.total_us,
        );
        lines.push(PlanLine { rows: actual.rows, parent: me, position: 1, obj, operation });
    }
    for (i, input) in step.inputs.iter().enumerate() {
        add_lines(input, me, i + 1, obj, lines);
    }
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

    #[test]
    fn steps_have_the_fields_names() {
        let step = |name: &str, text: &str| Step {
            name: name.to_owned(),
            text: text.to_owned(),
            estimate: query::explain::Estimate::default(),
            columns: Vec::new(),
            actual: None,
            index: None,
            inputs: Vec::new(),
        };
        let named = |name, text| operation(&step(name, text)).0;
        let text = "Seq Scan on t_small, filter: v = 1";
        assert_eq!(named("ScanExec", text), "TABLE ACCESS FULL T_SMALL");
        let text = "Bitmap Count using i on t (1 equal, 0 bounds)";
        let count = "BITMAP CONVERSION COUNT (BITMAP INDEX SINGLE VALUE I)";
        assert_eq!(named("ScanExec", text), count);
        let text = "Bitmap Index Scan using ((i AND j) MINUS (k)) on t, filters=3";
        let rows = "TABLE ACCESS BY INDEX ROWID T (BITMAP CONVERSION TO ROWIDS (BITMAP \
                    ((I AND J) MINUS (K))))";
        assert_eq!(named("ScanExec", text), rows);
        let text = "Bitmap Index Only Scan using i on t (0 equal, 2 bounds)";
        assert_eq!(named("ScanExec", text), "BITMAP INDEX RANGE SCAN I");
        let text = "Index Range Scan Backward using i on t (1 equal, 0 bounds)";
        let shown = "TABLE ACCESS BY INDEX ROWID T (INDEX RANGE SCAN DESCENDING I)";
        assert_eq!(named("ScanExec", text), shown);
        let parts = ("TABLE ACCESS BY INDEX ROWID T", "INDEX RANGE SCAN DESCENDING I");
        assert_eq!(index_below(shown), Some(parts));
        assert_eq!(index_below("INDEX RANGE SCAN I"), None);
        assert_eq!(named("AggregateExec", "AggregateExec: mode=Single, gby=[]"), "SORT AGGREGATE");
        assert_eq!(named("CoalesceBatchesExec", "x"), "COALESCE BATCHES");
    }
}
