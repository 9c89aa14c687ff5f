//! All that is observed in one instance: its sessions, their totals, block transfers, alert log.
//!
//! What it promises: instance totals never go back, but those that say what is now; a session that
//! ends moves its totals from the live ones to the closed ones in one step. What it must never do:
//! be asked on the path of a wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use env::Env;
use env::latch::{Latch, LatchList};
use parking_lot::Mutex;

use crate::alert::{AlertLevel, AlertLog};
use crate::ctx::Ctx;
use crate::enqueues::Enqueues;
use crate::events::WaitEvent;
use crate::history::History;
use crate::long_operations::LongOperations;
use crate::metrics::Metrics;
use crate::session::{Session, SessionKind, SessionRow, SessionState};
use crate::split::BlockWaitSplit;
use crate::statements::Statements;
use crate::stats::Stat;
use crate::totals::{EventTotals, HISTOGRAM_BUCKETS, Totals, bucket_limit_us};
use crate::trace::{TraceFiles, TraceRules};

#[derive(Default)]
struct Registry {
    sessions: BTreeMap<u32, Arc<SessionState>>,
    counts: SessionCounts,
    next_serial: u32,
    closed_user: Totals,
    closed_background: Totals,
    /// The same by service: those two together.
    closed_services: BTreeMap<Arc<str>, Totals>,
}

/// One instance as seen by whoever asks how it does.
pub struct Observer {
    env: Env,
    instance: u8,
    started_wall_us: i64,
    registry: Latch<Registry>,
    /// Waits for blocks by serving instance.
    pub block_waits: BlockWaitSplit,
    pub alert_log: AlertLog,
    /// What has been parsed and executed.
    pub statements: Statements,
    /// What sessions did, second by second.
    pub history: History,
    /// What takes them long.
    pub long_operations: LongOperations,
    /// How much they all do in a given time.
    pub metrics: Metrics,
    trace_files: OnceLock<Box<dyn TraceFiles>>,
    pub(crate) trace_rules: Mutex<TraceRules>,
    pub(crate) has_trace_rules: AtomicBool,
    /// How often the dictionary has got others, the start of the instance included.
    pub(crate) wanted_trace_rules: AtomicU64,
    /// Of those the last that has been read.
    pub(crate) read_trace_rules: AtomicU64,
    trace_lost: AtomicBool,
}

/// How many sessions are open, and were at most at once since the instance's start.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct SessionCounts {
    /// Of clients.
    pub users: usize,
    pub users_most: usize,
    /// The instance's own with them.
    pub all: usize,
    pub all_most: usize,
}

impl SessionCounts {
    fn opened(&mut self, kind: SessionKind) {
        self.all += 1;
        self.all_most = self.all_most.max(self.all);
        if kind == SessionKind::User {
            self.users += 1;
            self.users_most = self.users_most.max(self.users);
        }
    }

    fn closed(&mut self, kind: SessionKind) {
        self.all -= 1;
        self.users -= usize::from(kind == SessionKind::User);
    }
}

/// Totals of one event over the instance: `v$system_event`.
#[derive(Clone, Debug)]
pub struct SystemEventRow {
    pub event: WaitEvent,
    pub all: EventTotals,
    /// Of clients' sessions only.
    pub foreground: EventTotals,
}

/// Totals of one event in one session: `v$session_event`.
#[derive(Clone, Debug)]
pub struct SessionEventRow {
    pub sid: u32,
    pub event: WaitEvent,
    pub totals: EventTotals,
}

/// One bucket: `v$event_histogram_micro`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HistogramRow {
    pub event: WaitEvent,
    /// Upper bound, exclusive; `None`: no bound.
    pub below_us: Option<u64>,
    pub count: u64,
}

/// Each instance has sids of its own, so that one names a session of the whole cluster: those of
/// instance 2 begin at 100001.
pub const SIDS_PER_INSTANCE: u32 = 100_000;

/// The number of the instance whose session this is; there need not be one.
#[must_use]
pub fn instance_of_sid(sid: u32) -> Option<u8> {
    u8::try_from(sid.checked_sub(1)? / SIDS_PER_INSTANCE + 1).ok()
}

impl Observer {
    /// For instance number `instance` (from 1).
    #[must_use]
    pub fn new(env: Env, instance: u8) -> Arc<Observer> {
        let started_wall_us = env.wall_us();
        Arc::new(Observer {
            env,
            instance,
            started_wall_us,
            registry: Latch::new("session allocation", Registry::default()),
            block_waits: BlockWaitSplit::default(),
            alert_log: AlertLog::default(),
            statements: Statements::default(),
            history: History::default(),
            long_operations: LongOperations::default(),
            metrics: Metrics::default(),
            trace_files: OnceLock::new(),
            trace_rules: Mutex::default(),
            has_trace_rules: AtomicBool::new(false),
            wanted_trace_rules: AtomicU64::new(1),
            read_trace_rules: AtomicU64::new(0),
            trace_lost: AtomicBool::new(false),
        })
    }

    #[must_use]
    pub fn env(&self) -> &Env {
        &self.env
    }

    #[must_use]
    pub fn instance(&self) -> u8 {
        self.instance
    }

    /// When this observer was made, wall clock in µs since 1970.
    #[must_use]
    pub fn started_wall_us(&self) -> i64 {
        self.started_wall_us
    }

    /// Where trace files go from now on; said once.
    pub fn set_trace_files(&self, files: Box<dyn TraceFiles>) {
        let _ = self.trace_files.set(files);
    }

    /// Where trace files are, if there is such a place.
    #[must_use]
    pub fn trace_files(&self) -> Option<&dyn TraceFiles> {
        self.trace_files.get().map(|files| &**files)
    }

    /// Whether this is the first trace that is lost.
    pub(crate) fn first_lost_trace(&self) -> bool {
        !self.trace_lost.swap(true, Ordering::Relaxed)
    }

    /// Opens a session under the lowest free sid of the instance's own.
    ///
    /// # Panics
    /// If as many sessions as there are sids are open.
    #[must_use]
    pub fn open_session(self: &Arc<Self>, kind: SessionKind, name: &str) -> Arc<Session> {
        let mut registry = self.registry.lock();
        let mut sid = u32::from(self.instance.saturating_sub(1)) * SIDS_PER_INSTANCE + 1;
        for &used in registry.sessions.keys() {
            if used != sid {
                break;
            }
            sid += 1;
        }
        assert!(!sid.is_multiple_of(SIDS_PER_INSTANCE), "a sid is free");
        registry.next_serial += 1;
        let serial = registry.next_serial;
        let state = Arc::new(SessionState::new(sid, serial, kind, name, &self.env));
        registry.sessions.insert(sid, Arc::clone(&state));
        registry.counts.opened(kind);
        drop(registry);
        if kind == SessionKind::User {
            state.totals.add_stat(Stat::LogonsCumulative, 1);
            state.totals.set_gauge(Stat::LogonsCurrent, 1);
        }
        Arc::new(Session { state, observer: Arc::clone(self) })
    }

    /// Opens a session and wraps it with the environment: what a task carries along.
    #[must_use]
    pub fn ctx(self: &Arc<Self>, kind: SessionKind, name: &str) -> Ctx {
        Ctx {
            env: self.env.clone(),
            session: self.open_session(kind, name),
            observer: Arc::clone(self),
        }
    }

    pub(crate) fn close_session(&self, state: &SessionState) {
        let service = state.about().service;
        let mut registry = self.registry.lock();
        let registry = &mut *registry;
        if registry.sessions.remove(&state.sid()).is_some() {
            registry.counts.closed(state.kind());
        }
        state.settle(&self.env);
        let closed = match state.kind() {
            SessionKind::User => &mut registry.closed_user,
            SessionKind::Background => &mut registry.closed_background,
        };
        closed.add_ended(&state.totals);
        registry.closed_services.entry(service).or_default().add_ended(&state.totals);
    }

    /// Writes to the alert log, stamped with the wall clock.
    pub fn alert(&self, level: AlertLevel, text: impl Into<String>) {
        self.alert_log.write(self.env.wall_us(), level, text);
    }

    /// Tells of the latches here.
    pub fn latches(&self, list: &mut LatchList) {
        list.add(&self.registry);
        list.add(&self.statements.known);
    }

    /// The open session with this sid.
    #[must_use]
    pub fn session(&self, sid: u32) -> Option<Arc<SessionState>> {
        self.registry.lock().sessions.get(&sid).cloned()
    }

    /// All open sessions by sid.
    #[must_use]
    pub fn session_states(&self) -> Vec<Arc<SessionState>> {
        self.registry.lock().sessions.values().cloned().collect()
    }

    /// Open sessions of clients now ("logons current").
    #[must_use]
    pub fn user_session_count(&self) -> usize {
        let registry = self.registry.lock();
        registry.sessions.values().filter(|s| s.kind() == SessionKind::User).count()
    }

    /// Open sessions now, and the most there were.
    #[must_use]
    pub fn session_counts(&self) -> SessionCounts {
        self.registry.lock().counts
    }

    /// `v$session` and `v$session_wait`.
    #[must_use]
    pub fn sessions(&self) -> Vec<SessionRow> {
        let states = self.session_states();
        let now = self.env.now();
        states.iter().map(|s| s.row(now)).collect()
    }

    /// `v$session_event`: what each open session has waited for.
    #[must_use]
    pub fn session_events(&self) -> Vec<SessionEventRow> {
        let mut rows = Vec::new();
        for state in self.session_states() {
            for &event in WaitEvent::ALL {
                let totals = state.totals.event(event);
                if totals.waits > 0 {
                    rows.push(SessionEventRow { sid: state.sid(), event, totals });
                }
            }
        }
        rows
    }

    /// Totals of clients' and of background sessions, open and ended.
    fn totals(&self) -> (Totals, Totals) {
        let registry = self.registry.lock();
        let mut user = registry.closed_user.clone();
        let mut background = registry.closed_background.clone();
        for state in registry.sessions.values() {
            let totals = match state.kind() {
                SessionKind::User => &mut user,
                SessionKind::Background => &mut background,
            };
            totals.add_live(&state.totals);
            for (stat, us) in state.uncounted(&self.env) {
                totals.stats[stat.index()] += us;
            }
        }
        (user, background)
    }

    /// What the sessions of each service have done and waited for, open and ended:
    /// `v$service_stats` and `v$service_event`. A session counts for the service that it has now,
    /// or had at its end.
    #[must_use]
    pub fn service_totals(&self) -> BTreeMap<Arc<str>, Totals> {
        let registry = self.registry.lock();
        let mut services = registry.closed_services.clone();
        for state in registry.sessions.values() {
            let totals = services.entry(state.about().service).or_default();
            totals.add_live(&state.totals);
            for (stat, us) in state.uncounted(&self.env) {
                totals.stats[stat.index()] += us;
            }
        }
        services
    }

    /// `v$system_event`: all events that have happened.
    #[must_use]
    pub fn system_events(&self) -> Vec<SystemEventRow> {
        let (user, background) = self.totals();
        let mut rows = Vec::new();
        for &event in WaitEvent::ALL {
            let foreground = user.events[event.index()].clone();
            let mut all = background.events[event.index()].clone();
            all.add(&foreground);
            if all.waits > 0 {
                rows.push(SystemEventRow { event, all, foreground });
            }
        }
        rows
    }

    /// `v$event_histogram_micro`: all buckets up to the highest in use, for events that have
    /// happened.
    #[must_use]
    pub fn event_histogram(&self) -> Vec<HistogramRow> {
        let mut rows = Vec::new();
        for row in self.system_events() {
            let top = row.all.histogram.iter().rposition(|n| *n > 0).unwrap_or(0);
            for at in 0..=top.min(HISTOGRAM_BUCKETS - 1) {
                let (event, count) = (row.event, row.all.histogram[at]);
                rows.push(HistogramRow { event, below_us: bucket_limit_us(at), count });
            }
        }
        rows
    }

    /// `v$sysstat`: every statistic.
    #[must_use]
    pub fn sysstat(&self) -> Vec<(Stat, u64)> {
        let (user, background) = self.totals();
        let sum = |s: Stat| user.stats[s.index()] + background.stats[s.index()];
        Stat::ALL.iter().map(|&s| (s, sum(s))).collect()
    }

    /// The statistics of clients' sessions alone, by their [`Stat::index`].
    #[must_use]
    pub fn foreground_stats(&self) -> Vec<u64> {
        self.totals().0.stats
    }

    /// Requests for enqueues: what `v$enqueue_statistics` has beside the waits.
    #[must_use]
    pub fn enqueues(&self) -> Enqueues {
        let (mut all, background) = self.totals();
        all.enqueues.add(&background.enqueues);
        all.enqueues
    }

    /// One statistic over the instance.
    #[must_use]
    pub fn stat(&self, stat: Stat) -> u64 {
        let registry = self.registry.lock();
        let of = |s: &Arc<SessionState>| s.stat(stat, &self.env);
        let live: u64 = registry.sessions.values().map(of).sum();
        live + registry.closed_user.stats[stat.index()]
            + registry.closed_background.stats[stat.index()]
    }

    /// `v$sesstat`: every statistic of the open sessions, as (sid, statistic, value).
    #[must_use]
    pub fn sesstat(&self) -> Vec<(u32, Stat, u64)> {
        let states = self.session_states();
        let of = |s: &Arc<SessionState>| {
            let (s, times) = (Arc::clone(s), s.times(&self.env));
            Stat::ALL.iter().map(move |&stat| {
                let time = times.iter().find(|(of, _)| *of == stat);
                (s.sid(), stat, time.map_or_else(|| s.totals.stat(stat), |(_, us)| *us))
            })
        };
        states.iter().flat_map(of).collect()
    }
}
