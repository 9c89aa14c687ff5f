//! One session: who it is, what it does, what it waits for, what it has waited for.
//!
//! What it promises: reading a session from elsewhere never stops it, and a reader sees the event
//! and the parameters of one and the same wait. Only the session's own task begins and ends waits.
//! What it must never do: allocate or lock on the path of a wait.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use env::{Env, Micros};
use parking_lot::Mutex;

use crate::call_time::{CallTime, TIME_PARTS, TimePart, Times};
use crate::cancel::CancelFlag;
use crate::cursors::OpenCursors;
use crate::events::WaitEvent;
use crate::generation::Generation;
use crate::observer::Observer;
use crate::past::{Ended, PastWait, PastWaits, WaitView};
use crate::running::{Running, RunningView, WaitedFor};
use crate::stats::Stat;
use crate::totals::LiveTotals;
use crate::trace::{LastAsked, Trace};

/// Whom a session works for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SessionKind {
    /// A client.
    User,
    /// A process of the instance itself.
    Background,
}

impl SessionKind {
    /// As `v$session.type` shows it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SessionKind::User => "USER",
            SessionKind::Background => "BACKGROUND",
        }
    }
}

/// The service that clients connect to: the database, of which there is one.
pub const USER_SERVICE: &str = "skein";
/// The service that the instance's own processes belong to.
pub const BACKGROUND_SERVICE: &str = "SYS$BACKGROUND";

/// What a session looks like at one moment.
#[derive(Clone, Debug)]
pub struct SessionRow {
    pub sid: u32,
    pub serial: u32,
    pub kind: SessionKind,
    /// Number of the user that it has logged on as; 0: of none.
    pub user_no: u32,
    pub about: About,
    pub sql_text: Option<Arc<str>>,
    /// Whether it is working for its client now (background: always).
    pub active: bool,
    /// How long it has been active, or not.
    pub last_call_us: u64,
    /// The operating system's thread that it runs on; `None`: none of its own.
    pub thread: Option<u32>,
    pub logon_wall_us: i64,
    pub wait: WaitView,
    /// As [`SessionState::trace_level`].
    pub trace_level: u8,
    pub running: RunningView,
    pub working: Working,
    /// When its statement must end, and how long that may wait for a lock, in µs.
    pub deadline: Option<Micros>,
    pub lock_limit_us: Option<u64>,
}

/// What a session changes and locks as.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Working {
    /// Number of its transaction in this life of the instance; 0: it has had none.
    pub transaction: u64,
    /// The transaction as others see it, once it has changed something; it may have ended. 0: none.
    pub xid: u64,
    /// Since when it has that, wall clock in µs since 1970.
    pub since_wall_us: i64,
    /// Bytes of undo that the session has written since, and records.
    pub undo_bytes: u64,
    pub undo_records: u64,
    /// File, block and place of the last of these records; `None`: there is none yet.
    pub last_undo: Option<(u16, u32, u16)>,
    /// What the session has done since.
    pub work: Work,
}

/// Blocks that a session has visited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Work {
    /// In their newest version.
    pub current_gets: u64,
    /// As of a snapshot.
    pub consistent_gets: u64,
    /// Of these all, read from disk.
    pub disk_reads: u64,
}

/// The words that describe a session; changed rarely. What was not told is empty.
#[derive(Clone, Debug)]
pub struct About {
    /// What the client called itself when it came; name of a process.
    pub program: Arc<str>,
    pub username: Arc<str>,
    /// Where the client is.
    pub machine: Arc<str>,
    /// Whom the client's process runs as, if it is on this machine and the system has told.
    pub os_user: Arc<str>,
    /// That process; 0: nobody has told.
    pub process: u32,
    /// Schemas in which it looks for names, in order, with commas between them.
    pub schemas: Arc<str>,
    /// What it has connected to.
    pub service: Arc<str>,
    /// The part of the application that works, and what it does there, as it says itself.
    pub module: Arc<str>,
    pub action: Arc<str>,
    pub client_info: Arc<str>,
    /// For whom the application works.
    pub client_identifier: Arc<str>,
}

/// A wait that has been sampled, once it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EndedWait {
    pub event: Option<WaitEvent>,
    pub us: u64,
    /// As [`WaitView::served_by`].
    pub served_by: Option<u8>,
}

/// The wait in progress or the last one, under a sequence lock with one writer.
#[derive(Default)]
struct Current {
    /// Odd while the fields change.
    generation: Generation,
    /// Number of the event, 0: none yet.
    event: AtomicU32,
    waiting: AtomicBool,
    /// A wait around those that may begin now will be shown in their place.
    seq: AtomicU32,
    p: [AtomicU64; 3],
    since_us: AtomicU64,
    last_us: AtomicU64,
    /// The instance that served it; 0: none.
    served_by: AtomicU8,
    /// Number of the wait that was sampled last, and how it ended.
    sampled: AtomicU32,
    ended: AtomicU32,
    ended_event: AtomicU32,
    ended_us: AtomicU64,
    ended_served_by: AtomicU8,
    past: PastWaits,
}

/// One session; reached through the [`Observer`] by others, through [`Session`] by its own task.
pub struct SessionState {
    sid: u32,
    serial: u32,
    kind: SessionKind,
    identity: Mutex<About>,
    user_no: AtomicU32,
    pub(crate) running: Running,
    sql_text: Mutex<Option<Arc<str>>>,
    pub(crate) calls: CallTime,
    /// Its thread's number, 0: none of its own; what that had used before; what is known that it
    /// has used since.
    thread: AtomicU32,
    thread_base_us: AtomicU64,
    thread_used_us: AtomicU64,
    logon_wall_us: i64,
    current: Current,
    pub(crate) totals: LiveTotals,
    cancel: CancelFlag,
    cancel_secret: OnceLock<i32>,
    commit_floor: AtomicU64,
    transaction: AtomicU64,
    xid: AtomicU64,
    xid_since_wall_us: AtomicI64,
    /// What it had written of undo by then, and done.
    undo_before: AtomicU64,
    work_before: [AtomicU64; 3],
    /// Undo records since then, and where the last one is, as [`place_of_undo`] has it.
    undo_records: AtomicU64,
    last_undo: AtomicU64,
    /// How it is traced; 0: not at all.
    trace_level: AtomicU8,
    /// The same as the session asked for it, or somebody for the session alone; and as rules do.
    pub(crate) own_trace_level: AtomicU8,
    pub(crate) rule_trace_level: AtomicU8,
    pub(crate) trace: Mutex<Option<Box<Trace>>>,
    pub(crate) trace_cpu: LastAsked,
    pub(crate) open_cursors: OpenCursors,
}

impl SessionState {
    pub(crate) fn new(
        sid: u32,
        serial: u32,
        kind: SessionKind,
        name: &str,
        env: &Env,
    ) -> SessionState {
        let wall_us = env.wall_us();
        let empty: Arc<str> = Arc::from("");
        SessionState {
            sid,
            serial,
            kind,
            identity: Mutex::new(About {
                program: Arc::from(name),
                username: empty.clone(),
                machine: empty.clone(),
                os_user: empty.clone(),
                process: 0,
                schemas: empty.clone(),
                service: Arc::from(match kind {
                    SessionKind::User => USER_SERVICE,
                    SessionKind::Background => BACKGROUND_SERVICE,
                }),
                module: match kind {
                    SessionKind::User => Arc::from(name),
                    SessionKind::Background => empty.clone(),
                },
                action: empty.clone(),
                client_info: empty.clone(),
                client_identifier: empty,
            }),
            user_no: AtomicU32::new(0),
            running: Running::default(),
            sql_text: Mutex::new(None),
            calls: CallTime::new(kind == SessionKind::Background, env.now()),
            thread: AtomicU32::new(0),
            thread_base_us: AtomicU64::new(0),
            thread_used_us: AtomicU64::new(0),
            logon_wall_us: wall_us,
            current: Current::default(),
            totals: LiveTotals::default(),
            cancel: CancelFlag::default(),
            cancel_secret: OnceLock::new(),
            commit_floor: AtomicU64::new(0),
            transaction: AtomicU64::new(0),
            xid: AtomicU64::new(0),
            xid_since_wall_us: AtomicI64::new(wall_us),
            undo_before: AtomicU64::new(0),
            work_before: [const { AtomicU64::new(0) }; 3],
            undo_records: AtomicU64::new(0),
            last_undo: AtomicU64::new(0),
            trace_level: AtomicU8::new(0),
            own_trace_level: AtomicU8::new(0),
            rule_trace_level: AtomicU8::new(0),
            trace: Mutex::new(None),
            trace_cpu: LastAsked::default(),
            open_cursors: OpenCursors::default(),
        }
    }

    #[must_use]
    pub fn sid(&self) -> u32 {
        self.sid
    }

    /// Tells sessions apart that had the same sid one after the other.
    #[must_use]
    pub fn serial(&self) -> u32 {
        self.serial
    }

    #[must_use]
    pub fn kind(&self) -> SessionKind {
        self.kind
    }

    /// SCN of the session's last commit: its next snapshot may not be below it.
    #[must_use]
    pub fn commit_floor(&self) -> u64 {
        self.commit_floor.load(Ordering::Relaxed)
    }

    /// Raises [`SessionState::commit_floor`].
    pub fn raise_commit_floor(&self, scn: u64) {
        self.commit_floor.fetch_max(scn, Ordering::Relaxed);
    }

    /// The session works in a transaction with this local number from now on.
    pub fn set_transaction(&self, local_id: u64) {
        self.transaction.store(local_id, Ordering::Relaxed);
    }

    /// Its transaction has begun to change something, as this.
    pub fn set_xid(&self, xid: u64, wall_us: i64) {
        self.undo_before.store(self.totals.stat(Stat::UndoSize), Ordering::Relaxed);
        for (before, stat) in self.work_before.iter().zip(WORK) {
            before.store(self.totals.stat(stat), Ordering::Relaxed);
        }
        self.undo_records.store(0, Ordering::Relaxed);
        self.last_undo.store(0, Ordering::Relaxed);
        self.xid_since_wall_us.store(wall_us, Ordering::Relaxed);
        self.xid.store(xid, Ordering::Release);
    }

    /// Its transaction has written an undo record to this file and block, at this place in it. Only
    /// the session's own task does.
    pub fn note_undo(&self, file: u16, block: u32, rec: u16) {
        let records = self.undo_records.load(Ordering::Relaxed);
        self.undo_records.store(records + 1, Ordering::Relaxed);
        self.last_undo.store(place_of_undo(file, block, rec), Ordering::Relaxed);
    }

    /// What it changes and locks as.
    #[must_use]
    pub fn working(&self) -> Working {
        let xid = self.xid.load(Ordering::Acquire);
        let undo = self.totals.stat(Stat::UndoSize);
        Working {
            transaction: self.transaction.load(Ordering::Relaxed),
            xid,
            since_wall_us: self.xid_since_wall_us.load(Ordering::Relaxed),
            undo_bytes: undo.saturating_sub(self.undo_before.load(Ordering::Relaxed)),
            undo_records: self.undo_records.load(Ordering::Relaxed),
            last_undo: undo_at(self.last_undo.load(Ordering::Relaxed)),
            work: self.work_since_change(),
        }
    }

    /// What it has done since its transaction began to change something.
    fn work_since_change(&self) -> Work {
        let [current_gets, consistent_gets, disk_reads] = std::array::from_fn(|at| {
            let before = self.work_before[at].load(Ordering::Relaxed);
            self.totals.stat(WORK[at]).saturating_sub(before)
        });
        Work { current_gets, consistent_gets, disk_reads }
    }

    /// What ends this session's waits early.
    #[must_use]
    pub fn cancel_flag(&self) -> &CancelFlag {
        &self.cancel
    }

    /// What a cancel request of the protocol proves itself by; said once.
    pub fn set_cancel_secret(&self, secret: i32) {
        let _ = self.cancel_secret.set(secret);
    }

    #[must_use]
    pub fn cancel_secret(&self) -> Option<i32> {
        self.cancel_secret.get().copied()
    }

    /// Live counters.
    #[must_use]
    pub fn totals(&self) -> &LiveTotals {
        &self.totals
    }

    /// How the session is traced: [`crate::TRACE_CALLS`] and its like; 0: not at all.
    #[must_use]
    pub fn trace_level(&self) -> u8 {
        self.trace_level.load(Ordering::Relaxed)
    }

    pub(crate) fn set_trace_level(&self, level: u8) {
        self.trace_level.store(level, Ordering::Relaxed);
    }

    /// The file that its trace goes to.
    #[must_use]
    pub fn trace_name(&self) -> Option<String> {
        self.trace.lock().as_ref().map(|trace| trace.name().to_owned())
    }

    /// Since when it is there, wall clock in µs since 1970.
    pub(crate) fn logon_wall_us(&self) -> i64 {
        self.logon_wall_us
    }

    /// The user that it has logged on as.
    #[must_use]
    pub fn username(&self) -> Arc<str> {
        self.identity.lock().username.clone()
    }

    /// Number of the same in the dictionary; 0: not known, or nobody has logged on.
    #[must_use]
    pub fn user_no(&self) -> u32 {
        self.user_no.load(Ordering::Relaxed)
    }

    pub fn set_user_no(&self, number: u32) {
        self.user_no.store(number, Ordering::Relaxed);
    }

    pub fn set_program(&self, program: &str) {
        self.identity.lock().program = Arc::from(program);
    }

    pub fn set_username(&self, username: &str) {
        self.identity.lock().username = Arc::from(username);
    }

    /// Where the client is.
    pub fn set_machine(&self, machine: &str) {
        self.identity.lock().machine = Arc::from(machine);
    }

    /// The words that describe it.
    #[must_use]
    pub fn about(&self) -> About {
        self.identity.lock().clone()
    }

    /// Changes words that describe it.
    pub fn describe(&self, change: impl FnOnce(&mut About)) {
        change(&mut self.identity.lock());
    }

    /// It works in this transaction (local number; 0: in none), which has changed nothing yet; not
    /// in one that the database begins beside it.
    pub fn set_own_transaction(&self, id: u64) {
        self.running.set_transaction(id);
    }

    /// Transaction `id` has got an Xid: it counts if it is the session's own, not one beside it.
    pub fn note_xid(&self, id: u64, xid: u64) {
        if self.running.transaction().0 == id {
            self.running.set_xid(xid);
        }
    }

    /// The number that it holds locks of its own under, beyond its transactions.
    pub fn set_lock_number(&self, number: u64) {
        self.running.set_lock_number(number);
    }

    /// Its transaction's local number, that one's Xid and the number of its own locks; 0: none.
    #[must_use]
    pub fn own_numbers(&self) -> (u64, u64, u64) {
        self.running.transaction()
    }

    /// What the lock is on that it waits for from now on; `None`: it waits for none.
    pub fn set_waited_for(&self, what: Option<WaitedFor>, now: Micros) {
        self.running.set_waited_for(what, now);
    }

    /// The code of the routine with this number begins; what it gives is for
    /// [`SessionState::leave_code`].
    #[must_use]
    pub fn enter_code(&self, obj: u32) -> u32 {
        self.running.enter_code(obj)
    }

    /// It ends.
    pub fn leave_code(&self, outer: u32) {
        self.running.leave_code(outer);
    }

    /// A message of the client's begins: nothing runs.
    pub fn begin_request(&self, env: &Env) {
        self.running.clear();
        self.calls.end_all(|| env.now());
    }

    /// What it runs.
    #[must_use]
    pub fn running(&self) -> RunningView {
        self.running.view()
    }

    /// The statement that runs now; kept afterwards as the last one.
    pub fn set_sql(&self, text: Option<Arc<str>>) {
        *self.sql_text.lock() = text;
    }

    #[must_use]
    pub fn sql(&self) -> Option<Arc<str>> {
        self.sql_text.lock().clone()
    }

    /// A call of the client begins (`true`) or ends.
    pub fn set_active(&self, active: bool, now: Micros) {
        self.calls.set_active(active, now);
    }

    /// It ends: what it has used is in its counters.
    pub(crate) fn settle(&self, env: &Env) {
        let left = self.uncounted(env);
        self.calls.clear();
        self.thread.store(0, Ordering::Relaxed);
        for (stat, us) in left {
            self.totals.add_stat(stat, us);
        }
    }

    /// It runs on the calling thread from now on, and nothing else does until it ends.
    pub fn take_thread(&self, env: &Env) {
        self.thread_base_us.store(env.thread_cpu_us(), Ordering::Relaxed);
        self.thread.store(env.thread_number().unwrap_or(0), Ordering::Relaxed);
    }

    /// The operating system's thread that it runs on; `None`: none of its own.
    #[must_use]
    pub fn thread(&self) -> Option<u32> {
        Some(self.thread.load(Ordering::Relaxed)).filter(|number| *number > 0)
    }

    /// Processor time of its own thread so far, µs; `None`: it has none.
    #[must_use]
    pub fn thread_cpu_us(&self, env: &Env) -> Option<u64> {
        let clock_us = env.cpu_of_thread_us(self.thread()?);
        let base_us = self.thread_base_us.load(Ordering::Relaxed);
        let used_us = clock_us.map_or(0, |us| us.saturating_sub(base_us));
        Some(self.thread_used_us.fetch_max(used_us, Ordering::Relaxed).max(used_us))
    }

    /// Times that no counter has while the session lives: of its calls and their parts, and of its
    /// thread, as of one moment. The clock of a thread goes on while its client is waited for, by
    /// what it takes to wait: never more than its calls took is theirs.
    pub(crate) fn uncounted(&self, env: &Env) -> [(Stat, u64); UNCOUNTED] {
        let idle = |now| {
            let wait = self.current.read(now);
            let idles = wait.waiting && wait.event.is_some_and(|event| !event.class().counts());
            idles.then_some((wait.seq, wait.wait_us))
        };
        let Times { calls_us, parts_us } = self.calls.read(|| env.now(), idle);
        let cpu_us = self.thread_cpu_us(env).unwrap_or(0).min(calls_us);
        let mut all = [(Stat::ParseTimeElapsed, parts_us[TimePart::Parse as usize]); UNCOUNTED];
        all[1] = (Stat::DbTime, calls_us);
        all[2] = (Stat::CpuUsed, cpu_us);
        for ((slot, part), us) in all[3..].iter_mut().zip(TimePart::ALL).zip(parts_us) {
            *slot = (part.stat(), us);
        }
        all
    }

    /// Those statistics that belong together, as of one moment: `DB time` and its parts.
    #[must_use]
    pub fn times(&self, env: &Env) -> [(Stat, u64); UNCOUNTED] {
        self.uncounted(env).map(|(stat, us)| (stat, us + self.totals.stat(stat)))
    }

    /// Shows a wait unless another is being shown; returns its token, 0 if it is not shown.
    pub(crate) fn show(&self, event: WaitEvent, p: [u64; 3], since: Micros) -> u32 {
        let c = &self.current;
        // Workers of a session wait as the session: whoever comes first is shown.
        if c.waiting.swap(true, Ordering::Acquire) {
            return 0;
        }
        let seq = c.seq.load(Ordering::Relaxed).wrapping_add(1).max(1);
        c.write(|c| {
            c.seq.store(seq, Ordering::Relaxed);
            c.event.store(event.number(), Ordering::Relaxed);
            for (cell, value) in c.p.iter().zip(p) {
                cell.store(value, Ordering::Relaxed);
            }
            c.since_us.store(since.0, Ordering::Relaxed);
        });
        seq
    }

    /// Ends a wait and counts it as `event`, which may differ from the one shown so far.
    /// `served_by`: as in [`WaitView`].
    pub(crate) fn end(
        &self,
        token: u32,
        (event, served_by): (WaitEvent, Option<u8>),
        since: Micros,
        now: Micros,
        timed_out: bool,
    ) {
        let served_by = served_by.unwrap_or(0);
        let us = now.since(since);
        self.totals.add_wait(event, us, timed_out);
        let c = &self.current;
        if token == 0 || c.seq.load(Ordering::Relaxed) != token {
            return;
        }
        self.totals.add_waited(event, us);
        if !event.class().counts() {
            self.calls.idled(token, us);
        }
        if c.sampled.load(Ordering::Relaxed) == token {
            c.ended_us.store(us, Ordering::Relaxed);
            c.ended_event.store(event.number(), Ordering::Relaxed);
            c.ended_served_by.store(served_by, Ordering::Relaxed);
            c.ended.store(token, Ordering::Release);
        }
        c.write(|c| {
            c.event.store(event.number(), Ordering::Relaxed);
            c.since_us.store(now.0, Ordering::Relaxed);
            c.last_us.store(us, Ordering::Relaxed);
            c.served_by.store(served_by, Ordering::Relaxed);
            let p = [0, 1, 2].map(|i| c.p[i].load(Ordering::Relaxed));
            c.past.put(Ended { seq: token, event, p, us, at: now });
        });
        c.waiting.store(false, Ordering::Release);
    }

    /// The wait of this number has been sampled: how it ends is to be kept.
    pub(crate) fn note_sampled(&self, seq: u32) {
        self.current.sampled.store(seq, Ordering::Relaxed);
    }

    /// How a wait that has been sampled ended. `None`: it lasts, or it ended too early to be kept.
    pub(crate) fn ended_wait(&self, seq: u32, now: Micros) -> Option<EndedWait> {
        let c = &self.current;
        if c.ended.load(Ordering::Acquire) == seq {
            let event = WaitEvent::from_number(c.ended_event.load(Ordering::Relaxed));
            let served_by = instance(&c.ended_served_by);
            return Some(EndedWait { event, us: c.ended_us.load(Ordering::Relaxed), served_by });
        }
        let view = self.current.read(now);
        let over = view.seq == seq && !view.waiting;
        let served_by = view.served_by;
        over.then_some(EndedWait { event: view.event, us: view.wait_us, served_by })
    }

    /// The current or last wait.
    #[must_use]
    pub fn wait_view(&self, now: Micros) -> WaitView {
        self.current.read(now)
    }

    /// Its last waits, the newest first, the one that lasts among them.
    #[must_use]
    pub fn past_waits(&self, now: Micros) -> Vec<PastWait> {
        let c = &self.current;
        c.generation.consistent(|| c.past.list(&c.read_once(now), now))
    }

    /// A statistic of it, with what is not counted yet.
    #[must_use]
    pub fn stat(&self, stat: Stat, env: &Env) -> u64 {
        if !is_uncounted(stat) {
            return self.totals.stat(stat);
        }
        let of = self.times(env).into_iter().find(|(of, _)| *of == stat);
        of.map_or(0, |(_, us)| us)
    }

    /// Everything the views show of it.
    #[must_use]
    pub fn row(&self, now: Micros) -> SessionRow {
        SessionRow {
            sid: self.sid,
            serial: self.serial,
            kind: self.kind,
            user_no: self.user_no(),
            about: self.about(),
            sql_text: self.sql(),
            active: self.is_active(),
            last_call_us: now.since(self.calls.since()),
            thread: self.thread(),
            logon_wall_us: self.logon_wall_us,
            wait: self.wait_view(now),
            trace_level: self.trace_level(),
            running: self.running(),
            working: self.working(),
            deadline: self.cancel.deadline(),
            lock_limit_us: self.cancel.lock_limit(),
        }
    }

    /// Whether it is working for its client now.
    #[must_use]
    pub fn is_active(&self) -> bool {
        self.calls.is_active()
    }
}

/// What [`SessionState::uncounted`] tells of.
const UNCOUNTED: usize = 3 + TIME_PARTS;

fn is_uncounted(stat: Stat) -> bool {
    let whole = matches!(stat, Stat::DbTime | Stat::CpuUsed | Stat::ParseTimeElapsed);
    whole || TimePart::ALL.iter().any(|part| part.stat() == stat)
}

/// What is counted of a transaction's work, in the order of [`Work`].
const WORK: [Stat; 3] = [Stat::DbBlockGets, Stat::ConsistentGets, Stat::PhysicalReads];

/// Number of an instance in a cell; 0: none.
fn instance(cell: &AtomicU8) -> Option<u8> {
    Some(cell.load(Ordering::Relaxed)).filter(|number| *number > 0)
}

/// Where an undo record is, in one word. No undo is in block 0 of file 0: 0 stands for none.
fn place_of_undo(file: u16, block: u32, rec: u16) -> u64 {
    u64::from(file) << 48 | u64::from(block) << 16 | u64::from(rec)
}

/// Inverse of [`place_of_undo`].
#[allow(clippy::cast_possible_truncation)] // the parts of the word
fn undo_at(place: u64) -> Option<(u16, u32, u16)> {
    (place > 0).then_some(((place >> 48) as u16, (place >> 16) as u32, place as u16))
}

impl Current {
    fn write(&self, change: impl FnOnce(&Current)) {
        self.generation.write(|| change(self));
    }

    fn read(&self, now: Micros) -> WaitView {
        self.generation.consistent(|| self.read_once(now))
    }

    fn read_once(&self, now: Micros) -> WaitView {
        let event = WaitEvent::from_number(self.event.load(Ordering::Relaxed));
        let waiting = self.waiting.load(Ordering::Relaxed);
        let elapsed_us = now.since(Micros(self.since_us.load(Ordering::Relaxed)));
        let last_us = self.last_us.load(Ordering::Relaxed);
        WaitView {
            seq: self.seq.load(Ordering::Relaxed),
            waiting,
            event,
            p: [0, 1, 2].map(|i| self.p[i].load(Ordering::Relaxed)),
            wait_us: if waiting { elapsed_us } else { last_us },
            since_last_us: if waiting || event.is_none() { 0 } else { elapsed_us },
            served_by: instance(&self.served_by).filter(|_| !waiting),
        }
    }
}

/// The own handle of a session's task; when the last clone of its `Arc` goes, the session ends and
/// its totals are added to the instance's.
pub struct Session {
    pub(crate) state: Arc<SessionState>,
    pub(crate) observer: Arc<Observer>,
}

impl std::ops::Deref for Session {
    type Target = SessionState;
    fn deref(&self) -> &SessionState {
        &self.state
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.observer.end_trace(&self.state);
        self.observer.close_session(&self.state);
    }
}
