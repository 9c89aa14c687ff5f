//! What a session's task tells its trace.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use env::{Env, Micros};

use super::lines::{Bind, Call, PlanLine};
use super::{
    TRACE_BINDS, TRACE_CALLS, TRACE_PLANS_ALL, TRACE_PLANS_NEVER, TRACE_WAITS, Target, Trace,
    TraceRequest, Traced,
};
use crate::alert::{AlertLevel, format_wall};
use crate::ctx::Ctx;
use crate::events::WaitEvent;
use crate::observer::Observer;
use crate::session::SessionState;
use crate::stats::Stat;
use crate::totals::WAITED_ALL;

/// The session's counters when a call began.
#[derive(Clone, Copy, Debug)]
pub struct CallMark {
    now: Micros,
    cpu_us: u64,
    reads: u64,
    consistent: u64,
    current: u64,
    hard_parses: u64,
}

/// What a call has used.
pub(super) struct Used {
    pub cpu_us: u64,
    pub elapsed_us: u64,
    pub reads: u64,
    pub consistent: u64,
    pub current: u64,
    pub misses: u64,
}

impl CallMark {
    fn until(&self, end: &CallMark) -> Used {
        Used {
            cpu_us: end.cpu_us.saturating_sub(self.cpu_us),
            elapsed_us: end.now.since(self.now),
            reads: end.reads - self.reads,
            consistent: end.consistent - self.consistent,
            current: end.current - self.current,
            misses: end.hard_parses - self.hard_parses,
        }
    }
}

impl Observer {
    /// Sets how the session is traced.
    ///
    /// # Errors
    /// There is no place for trace files.
    pub fn set_trace(&self, state: &SessionState, request: &TraceRequest) -> Result<(), String> {
        state.own_trace_level.store(request.level, Ordering::SeqCst);
        self.retrace(state, request, false)
    }

    /// What is asked for has changed: by the session or somebody else for it alone, or by a rule,
    /// which leaves a file that there is.
    pub(super) fn retrace(
        &self,
        state: &SessionState,
        request: &TraceRequest,
        by_rule: bool,
    ) -> Result<(), String> {
        let files = self.trace_files().ok_or("this instance has no folder for trace files")?;
        let now = self.env().now();
        let mut trace = state.trace.lock();
        let level = state.own_trace_level.load(Ordering::SeqCst)
            | state.rule_trace_level.load(Ordering::SeqCst);
        if level == 0 {
            state.set_trace_level(0);
            if let Some(mut ended) = trace.take() {
                ended.close(now);
                self.write_out(&mut ended);
            }
            return Ok(());
        }
        let mut name = format!("{}_ora_{}", files.prefix(), state.sid());
        if !request.identifier.is_empty() {
            name = format!("{name}_{}", request.identifier);
        }
        name.push_str(".trc");
        if !by_rule
            && trace.as_ref().is_some_and(|old| old.name() != name)
            && let Some(mut old) = trace.take()
        {
            old.close(now);
            self.write_out(&mut old);
        }
        match &mut *trace {
            Some(_) if by_rule => {}
            Some(going) => going.limit(request.bytes_max),
            none => {
                let about = state.about();
                let wall = format_wall(self.env().wall_us());
                let (sid, serial) = (state.sid(), state.serial());
                let who = Traced { sid, serial, about: &about, wall };
                let size_bytes = files.size_bytes(&name);
                let target = Target { name, size_bytes, bytes_max: request.bytes_max };
                let made = Trace::new(target, files.banner(), &who, now);
                *none = Some(Box::new(made));
            }
        }
        state.set_trace_level(level | TRACE_CALLS);
        Ok(())
    }

    /// Writes out what the traces of all sessions hold.
    pub fn flush_traces(&self) {
        for state in self.session_states() {
            if state.trace_level() > 0
                && let Some(trace) = &mut *state.trace.lock()
            {
                self.write_out(trace);
            }
        }
    }

    /// A session ends: its trace does.
    pub(crate) fn end_trace(&self, state: &SessionState) {
        if state.trace_level() > 0
            && let Some(mut trace) = state.trace.lock().take()
        {
            trace.close(self.env().now());
            self.write_out(&mut trace);
        }
    }

    fn write_out(&self, trace: &mut Trace) {
        let Some(files) = self.trace_files() else { return };
        if let Err(e) = trace.flush(files)
            && self.first_lost_trace()
        {
            let path = files.path(trace.name());
            let text = format!("write trace file {path}: {e}; what cannot be written is lost");
            self.alert(AlertLevel::Warning, text);
        }
    }
}

impl SessionState {
    /// A sleep on a latch has ended. Whoever calls has the latch: nothing is waited for, and what
    /// the trace holds is written out another time.
    pub(crate) fn trace_latch(
        &self,
        event: WaitEvent,
        p: [u64; 3],
        us: u64,
        now: Micros,
        env: &Env,
    ) {
        if self.trace_level() & TRACE_WAITS == 0 {
            return;
        }
        if let Some(mut trace) = self.trace.try_lock()
            && let Some(trace) = &mut *trace
        {
            trace.wait(event, p, us, now, || format_wall(env.wall_us()));
        }
    }
}

/// A statement of ours inside a client's call; ends with it.
#[must_use]
pub struct Recursive<'a> {
    ctx: &'a Ctx,
    open: Option<Open>,
    rows: u64,
    call: Call,
}

struct Open {
    cursor: u32,
    depth: u32,
    mark: CallMark,
}

impl Recursive<'_> {
    /// How many rows it has read or changed.
    pub fn rows(&mut self, rows: u64) {
        self.rows = rows;
    }
}

impl Drop for Recursive<'_> {
    fn drop(&mut self) {
        let Some(Open { cursor, depth, mark }) = &self.open else { return };
        let end = self.ctx.trace_mark();
        let used = mark.until(&end);
        self.ctx.with_trace(|trace| {
            let wall = || self.ctx.wall();
            if self.call == Call::Fetch {
                let none = mark.until(mark);
                trace.call(Call::Exec, *cursor, *depth, &none, 0, 0, mark.now, wall);
            }
            trace.call(self.call, *cursor, *depth, &used, self.rows, 0, end.now, wall);
            trace.leave(*cursor);
        });
    }
}

/// A statement inside a call is being planned; ends with it.
#[must_use]
pub struct TracedPlanning(Arc<SessionState>);

impl Drop for TracedPlanning {
    fn drop(&mut self) {
        if let Some(trace) = &mut *self.0.trace.lock() {
            trace.planning = trace.planning.saturating_sub(1);
        }
    }
}

impl Ctx {
    /// A statement of procedural code is being planned, until what this gives is dropped: what is
    /// read for that is one level further in. `None`: the session is not traced.
    pub fn trace_planning(&self) -> Option<TracedPlanning> {
        if !self.traced() {
            return None;
        }
        self.with_trace(|trace| trace.planning += 1)?;
        Some(TracedPlanning(Arc::clone(&self.session.state)))
    }

    /// The session has said something else of itself: it may be traced for that.
    pub fn apply_trace_rules(&self) {
        self.observer.apply_trace_rules(&self.session);
    }

    /// Whether the session is traced.
    #[must_use]
    pub fn traced(&self) -> bool {
        self.session.trace_level() != 0
    }

    /// Whether values of binds are traced.
    #[must_use]
    pub fn traces_binds(&self) -> bool {
        self.session.trace_level() & TRACE_BINDS != 0
    }

    fn wall(&self) -> String {
        format_wall(self.env.wall_us())
    }

    fn with_trace<T>(&self, work: impl FnOnce(&mut Trace) -> T) -> Option<T> {
        let mut trace = self.session.trace.lock();
        let trace = trace.as_mut()?;
        let out = work(trace);
        if trace.is_due() {
            self.observer.write_out(trace);
        }
        Some(out)
    }

    /// The counters now.
    #[must_use]
    pub fn trace_mark(&self) -> CallMark {
        let stat = |stat| self.session.totals.stat(stat);
        let now = self.env.now();
        let waited_us = self.session.totals.waited[WAITED_ALL].load(Ordering::Relaxed);
        CallMark {
            now,
            cpu_us: self.session.trace_cpu.used_us(now, waited_us, || self.env.thread_cpu_us()),
            reads: stat(Stat::PhysicalReads),
            consistent: stat(Stat::ConsistentGets),
            current: stat(Stat::DbBlockGets),
            hard_parses: stat(Stat::ParseCountHard),
        }
    }

    /// A call of the client's on this text begins, or one inside it, of procedural code; what is
    /// waited for until [`Ctx::trace_leave`] belongs to it. Its cursor; `None`: the trace has been
    /// ended.
    #[must_use]
    pub fn trace_enter(&self, text: &Arc<str>, uid: u32) -> Option<u32> {
        let now = self.env.now();
        self.with_trace(|trace| {
            let cursor = trace.cursor(text, trace.depth(), uid, now, || self.wall());
            trace.enter(cursor);
            cursor
        })
    }

    /// The call is over.
    pub fn trace_leave(&self, cursor: u32) {
        self.with_trace(|trace| trace.leave(cursor));
    }

    /// Tells of a call from `mark` on; gives the mark of its end.
    pub fn trace_call(
        &self,
        call: Call,
        cursor: u32,
        mark: &CallMark,
        rows: u64,
        plan: u32,
    ) -> CallMark {
        let end = self.trace_mark();
        let mut used = mark.until(&end);
        if call == Call::Parse {
            // A plan for all texts of the kind may have been made on the way: no miss of this one.
            used.misses = used.misses.min(1);
        }
        self.with_trace(|trace| {
            if !trace.runs(cursor) {
                return;
            }
            // The call itself is the innermost one that runs.
            let depth = trace.depth().saturating_sub(1);
            trace.call(call, cursor, depth, &used, rows, plan, end.now, || self.wall());
        });
        end
    }

    /// Values that the statement is run with.
    pub fn trace_binds(&self, cursor: u32, binds: &[Bind]) {
        let now = self.env.now();
        self.with_trace(|trace| {
            if trace.runs(cursor) {
                trace.binds(cursor, binds, now, || self.wall());
            }
        });
    }

    /// The session says something of itself, which holds for what follows.
    pub fn trace_attribute(&self, label: &str, value: &str) {
        if self.traced() {
            let (now, wall) = (self.env.now(), self.wall());
            self.with_trace(|trace| {
                trace.line(now, || wall.clone(), format_args!("*** {label}:({value}) {wall}"));
            });
        }
    }

    /// Whether the plan of this text is still to be told, or told again. `plan`: its hash value, 0
    /// where it has none.
    #[must_use]
    pub fn trace_wants_plan(&self, text: &str, plan: u32) -> bool {
        let level = self.session.trace_level();
        let every = level & TRACE_PLANS_ALL != 0;
        level & TRACE_PLANS_NEVER == 0
            && self.with_trace(|trace| trace.wants_plan(text, plan, every)).unwrap_or(false)
    }

    /// The plan as it has run.
    pub fn trace_plan(&self, text: &str, plan: u32, lines: &[PlanLine]) {
        let now = self.env.now();
        self.with_trace(|trace| trace.plan(text, plan, lines, now));
    }

    /// A transaction has ended.
    pub fn trace_transaction_end(&self, rolled_back: bool, read_only: bool) {
        let now = self.env.now();
        self.with_trace(|trace| {
            trace.transaction_end(rolled_back, read_only, now, || self.wall());
        });
    }

    /// A text could not be parsed; `code`: its SQLSTATE. `cursor`: the one whose call that is;
    /// `None`: it has none.
    pub fn trace_parse_error(&self, cursor: Option<u32>, text: &str, uid: u32, code: &str) {
        let now = self.env.now();
        self.with_trace(|trace| {
            let cursor = cursor.filter(|cursor| trace.runs(*cursor));
            trace.parse_error(cursor, text, uid, code, now, || self.wall());
        });
    }

    /// A call has failed.
    pub fn trace_error(&self, cursor: u32, code: &str) {
        let now = self.env.now();
        self.with_trace(|trace| {
            if trace.runs(cursor) {
                trace.error(cursor, code, now, || self.wall());
            }
        });
    }

    /// A statement of ours inside a call begins: it ends when what this gives is dropped. `text`
    /// is asked only if it is traced.
    pub fn recursive(&self, call: Call, text: impl FnOnce() -> String) -> Recursive<'_> {
        self.bump(Stat::RecursiveCalls, 1);
        let open = match self.traced() {
            false => None,
            true => {
                let mark = self.trace_mark();
                let text: Arc<str> = Arc::from(text());
                self.with_trace(|trace| {
                    let (cursor, depth) = trace.recursive_cursor(&text, mark.now, || self.wall());
                    trace.enter(cursor);
                    Open { cursor, depth, mark }
                })
            }
        };
        Recursive { ctx: self, open, rows: 0, call }
    }

    /// A wait has ended.
    pub(crate) fn trace_wait(&self, event: WaitEvent, p: [u64; 3], us: u64, now: Micros) {
        if self.session.trace_level() & TRACE_WAITS != 0 {
            self.with_trace(|trace| trace.wait(event, p, us, now, || self.wall()));
        }
    }
}
