//! One console session: a SQL session on a thread of its own, and the way to ask it.
//!
//! What it promises: it is a client like any other: it has a place among `max_connections`, is in
//! `v$session` and the audit trail, waits as one that waits for its client, and ends when somebody
//! terminates it. Its statements are read-only and end after [`STATEMENT_TIMEOUT`]; a panic in one
//! ends that statement. It ends by itself when nobody has asked for [`IDLE_LIMIT`], and
//! [`LIFE_LIMIT`] after log-on. What it must never do: run a statement for somebody else than who
//! has logged on.

use super::Shared;
use super::log_on::Applicant;
use super::table::{Table, Taken};
use crate::engine::{Engine, Interrupt, Session};
use crate::registry::Slot;
use crate::report::Report;
use crate::sql_engine::SqlSession;
use futures::FutureExt;
use observe::{DRIVER_TCP, WaitEvent};
use parking_lot::Mutex;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, OwnedSemaphorePermit, mpsc, oneshot};

/// Without a question for so long a session ends.
const IDLE_LIMIT: Duration = Duration::from_secs(30 * 60);
/// And in any case after so long.
pub const LIFE_LIMIT: Duration = Duration::from_secs(12 * 3600);
/// As `statement_timeout` takes it.
pub const STATEMENT_TIMEOUT: &str = "15s";
/// Questions that wait for the one before.
const ASKS_MAX: usize = 8;
/// As sessions of clients have it.
const STACK_BYTES: usize = 64 * 1024 * 1024;

/// A statement of a question, and under what name its rows are in the answer.
#[derive(Clone, Debug)]
pub struct Part {
    pub name: &'static str,
    pub text: Cow<'static, str>,
    /// The values of `$1` and so on, as texts.
    pub params: Vec<String>,
    /// Rows that the answer may have.
    pub rows_max: usize,
}

/// What a session is asked: its statements run one after the other; the first that fails ends it.
pub struct Ask {
    pub parts: Vec<Part>,
    pub answer: oneshot::Sender<Result<Map<String, Value>, Report>>,
}

/// Why there is no answer.
pub enum Unasked {
    /// The session has ended.
    Ended,
    /// Too many questions wait already.
    Busy,
}

/// A session that has logged on.
pub struct Viewer {
    pub user: String,
    asks: mpsc::Sender<Ask>,
    interrupt: Mutex<Option<Arc<dyn Interrupt>>>,
}

impl Viewer {
    /// Whether its thread takes no more questions.
    pub fn has_ended(&self) -> bool {
        self.asks.is_closed()
    }

    /// Ends it, at once if it rests, else at its next wait.
    pub fn terminate(&self) {
        if let Some(interrupt) = &*self.interrupt.lock() {
            interrupt.terminate();
        }
    }

    /// Asks; the answer comes through the receiver.
    #[allow(clippy::type_complexity)] // What `Ask` holds the other end of.
    pub fn ask(
        &self,
        parts: Vec<Part>,
    ) -> Result<oneshot::Receiver<Result<Map<String, Value>, Report>>, Unasked> {
        let (answer, answered) = oneshot::channel();
        match self.asks.try_send(Ask { parts, answer }) {
            Ok(()) => Ok(answered),
            Err(mpsc::error::TrySendError::Full(_)) => Err(Unasked::Busy),
            Err(mpsc::error::TrySendError::Closed(_)) => Err(Unasked::Ended),
        }
    }
}

/// Logs on and serves on a new thread. The receiver tells how the log-on went.
///
/// # Errors
/// The system has no room for a thread.
pub fn begin(
    shared: &Arc<Shared>,
    applicant: Applicant,
    permit: OwnedSemaphorePermit,
) -> std::io::Result<oneshot::Receiver<Result<Arc<Viewer>, Report>>> {
    let (told, hears) = oneshot::channel();
    let shared = Arc::clone(shared);
    let work = move || {
        let _permit = permit;
        shared.engine.enter_session_thread();
        // No I/O or time driver: a session waits by the environment's.
        match tokio::runtime::Builder::new_current_thread().build() {
            Ok(runtime) => runtime.block_on(live(&shared, applicant, told).boxed_local()),
            Err(e) => shared.alert(&format!("cannot start a console session's runtime: {e}")),
        }
    };
    let builder = std::thread::Builder::new().name("console-session".into());
    builder.stack_size(STACK_BYTES).spawn(work)?;
    Ok(hears)
}

async fn live(
    shared: &Arc<Shared>,
    applicant: Applicant,
    told: oneshot::Sender<Result<Arc<Viewer>, Report>>,
) {
    let user = applicant.user.clone();
    let opened = AssertUnwindSafe(applicant.log_on(shared).boxed_local()).catch_unwind().await;
    let (session, slot): (SqlSession, Slot) = match opened {
        Ok(Ok(opened)) => opened,
        Ok(Err(report)) => {
            let _ = told.send(Err(report));
            return;
        }
        Err(_) => {
            let _ = told.send(Err(Report::fatal("XX000", "the log-on failed inside the server")));
            return;
        }
    };
    let ended = Arc::new(Notify::new());
    let (interrupt, rings) = (session.interrupt(), Arc::clone(&ended));
    interrupt.on_terminate(Box::new(move || rings.notify_one()));
    let (asks, asked) = mpsc::channel(ASKS_MAX);
    let viewer = Arc::new(Viewer { user, asks, interrupt: Mutex::new(Some(interrupt)) });
    let wanted = told.send(Ok(viewer)).is_ok();
    let mut thread = Thread { shared, session, asked, ended, begun: Instant::now() };
    if wanted {
        thread.serve().boxed_local().await;
    }
    let Thread { session, asked, .. } = thread;
    drop(asked);
    session.close().boxed_local().await;
    drop(slot);
}

/// What a session's thread holds.
struct Thread<'a> {
    shared: &'a Arc<Shared>,
    session: SqlSession,
    asked: mpsc::Receiver<Ask>,
    /// Rung when somebody terminates the session.
    ended: Arc<Notify>,
    begun: Instant,
}

/// What ended a rest.
enum Woken {
    Asked(Ask),
    /// It is time for a sample.
    Due,
    Over,
}

impl Thread<'_> {
    async fn serve(&mut self) {
        let mut last = Instant::now();
        loop {
            if self.session.interrupt().is_terminated() {
                return;
            }
            match self.rest(last).await {
                Woken::Over => return,
                Woken::Due => self.sample().await,
                Woken::Asked(ask) => {
                    last = Instant::now();
                    let done = self.run(&ask.parts).await;
                    // Whoever asked may have gone.
                    let _ = ask.answer.send(done);
                }
            }
        }
    }

    /// Waits for a question, as for a client.
    async fn rest(&mut self, last: Instant) -> Woken {
        let now = Instant::now();
        let own = self.session.idle_limit().map_or(IDLE_LIMIT, |(limit, _)| limit.min(IDLE_LIMIT));
        let end = (last + own).min(self.begun + LIFE_LIMIT);
        let Some(left) = end.checked_duration_since(now).filter(|left| !left.is_zero()) else {
            return Woken::Over;
        };
        let due = self.shared.activity.due_in(now);
        let ctx = self.session.ctx().clone();
        ctx.session.set_active(false, ctx.env.wall_us());
        let (asked, ended) = (&mut self.asked, &self.ended);
        let woken = async {
            tokio::select! {
                biased;
                () = ended.notified() => Woken::Over,
                ask = asked.recv() => ask.map_or(Woken::Over, Woken::Asked),
                () = ctx.env.sleep(left.min(due)) => Woken::Due,
            }
        };
        let p = [DRIVER_TCP, 0, 0];
        let woken = ctx.wait(WaitEvent::SqlNetMessageFromClient, p, woken).await;
        ctx.session.set_active(true, ctx.env.wall_us());
        woken
    }

    /// Takes a sample of what all sessions do, unless another console session has just done so.
    async fn sample(&mut self) {
        let Some(turn) = self.shared.activity.take_turn(Instant::now()) else { return };
        let wall_us = self.session.ctx().env.wall_us();
        let part = super::activity::sample_part(self.session.pid());
        // Without an answer there is a gap; who asks for something is told what is wrong.
        if let Ok(sampled) = self.run(&[part]).await {
            self.shared.activity.note(turn, wall_us, &sampled);
        }
    }

    async fn run(&mut self, parts: &[Part]) -> Result<Map<String, Value>, Report> {
        let mut answer = Map::new();
        for part in parts {
            let table = AssertUnwindSafe(self.table(part).boxed_local()).catch_unwind().await;
            let Ok(table) = table else {
                // It is undone; the session goes on.
                self.session.fail_transaction().await;
                self.session.sync().await?;
                return Err(Report::error("XX000", "the statement failed inside the server"));
            };
            let value = serde_json::to_value(table?);
            let value = value.map_err(|e| Report::error("XX000", e.to_string()))?;
            answer.insert(part.name.to_owned(), value);
        }
        Ok(answer)
    }

    async fn table(&mut self, part: &Part) -> Result<Table, Report> {
        let params: Vec<_> = part.params.iter().map(|p| Some(p.clone().into())).collect();
        let mut taken = Taken::default();
        let (columns, cut) =
            self.session.rows(&part.text, &params, part.rows_max, &mut taken).await?;
        let names = columns.iter().map(|column| column.name.clone()).collect();
        let oids: Vec<u32> = columns.iter().map(|column| column.type_oid).collect();
        let table = taken.into_table(names, &oids, cut);
        table.ok_or_else(|| Report::error("XX000", "the rows of a statement are not whole"))
    }
}
