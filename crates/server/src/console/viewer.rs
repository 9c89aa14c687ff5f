//! One console session: a SQL session on a thread of its own, and the way to ask it.
//!
//! What it promises: it is a client like any other: it has a place among `max_connections`, is in
//! `v$session` and the audit trail, waits as one that waits for its client, and ends when somebody
//! terminates it. Its statements are read-only, but for the one that takes a snapshot, and end
//! after [`STATEMENT_TIMEOUT`]; a panic in one ends that statement. It ends by itself when nobody
//! has asked for [`IDLE_LIMIT`], and [`LIFE_LIMIT`] after log-on. What it must never do: run a
//! statement for somebody else than who has logged on.

use super::Shared;
use super::activity::{self, Window};
use super::log_on::Applicant;
use super::reports::{self, Wanted};
use super::table::{Table, Taken};
use crate::engine::{Engine, Interrupt, Session};
use crate::registry::Slot;
use crate::report::Report;
use crate::sql_engine::{Ran, SqlSession};
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
/// What a console's queries have in them: in `v$sql` they are told apart from those of
/// applications.
const MARK: &str = "select /* skein console */ ";
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

/// What a session is asked.
pub enum Task {
    /// Statements, one after the other; the first that fails ends it.
    Parts(Vec<Part>),
    /// What sessions did over time.
    Activity(Window),
    Report(Wanted),
    Snapshots,
    TakeSnapshot,
}

/// What comes of it.
pub enum Answered {
    /// Rows by the names of the parts, and whatever else is JSON.
    Tables(Map<String, Value>),
    /// A page of HTML.
    Page(String),
}

/// A question, and who waits for its answer.
pub struct Ask {
    task: Task,
    answer: oneshot::Sender<Result<Answered, Report>>,
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
    pub fn ask(&self, task: Task) -> Result<oneshot::Receiver<Result<Answered, Report>>, Unasked> {
        let (answer, answered) = oneshot::channel();
        match self.asks.try_send(Ask { task, answer }) {
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
                Woken::Asked(ask) => {
                    last = Instant::now();
                    let done = self.guarded(&ask.task).await;
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
        let ctx = self.session.ctx().clone();
        ctx.session.set_active(false, ctx.env.now());
        let (asked, ended) = (&mut self.asked, &self.ended);
        let woken = async {
            tokio::select! {
                biased;
                () = ended.notified() => Woken::Over,
                ask = asked.recv() => ask.map_or(Woken::Over, Woken::Asked),
                () = ctx.env.sleep(left) => Woken::Over,
            }
        };
        let p = [DRIVER_TCP, 0, 0];
        let woken = ctx.wait(WaitEvent::SqlNetMessageFromClient, p, woken).await;
        ctx.session.set_active(true, ctx.env.now());
        woken
    }

    /// Does what is asked for. A panic is an error; what was begun is undone, and the session goes
    /// on.
    async fn guarded(&mut self, task: &Task) -> Result<Answered, Report> {
        let done = AssertUnwindSafe(self.run(task).boxed_local()).catch_unwind().await;
        match done {
            Ok(done) => done,
            Err(_) => {
                reports::undo(&mut self.session).await?;
                Err(Report::error("XX000", "the statement failed inside the server"))
            }
        }
    }

    async fn run(&mut self, task: &Task) -> Result<Answered, Report> {
        let tables = match task {
            Task::Parts(parts) => self.tables(parts).await?,
            Task::Activity(window) => self.activity(window).await?,
            Task::Snapshots => reports::snapshots(&mut self.session).await?,
            Task::TakeSnapshot => reports::take(&mut self.session).await?,
            Task::Report(wanted) => {
                let database = &self.shared.database;
                let page = reports::page(&mut self.session, database, *wanted).await;
                return page.map(Answered::Page);
            }
        };
        Ok(Answered::Tables(tables))
    }

    async fn tables(&mut self, parts: &[Part]) -> Result<Map<String, Value>, Report> {
        let mut answer = Map::new();
        for part in parts {
            let table = serde_json::to_value(self.table(part).await?);
            let value = table.map_err(|e| Report::error("XX000", e.to_string()))?;
            answer.insert(part.name.to_owned(), value);
        }
        Ok(answer)
    }

    /// Fetches the samples that are new, unless another session is at it or has just been, and
    /// shows what all have fetched.
    async fn activity(&mut self, window: &Window) -> Result<Map<String, Value>, Report> {
        let shared = Arc::clone(self.shared);
        let wall_us = self.session.ctx().env.wall_us();
        if let Some(mut turn) = shared.activity.take_turn(Instant::now(), wall_us) {
            let (_, taken) = self.taken(&turn.part()).await?;
            taken.texts(|row| turn.row(row)).ok_or_else(not_whole)?;
            turn.keep();
        }
        let shown =
            shared.activity.look(|samples, seen_us| activity::shown(samples, window, seen_us));
        match serde_json::to_value(shown) {
            Ok(Value::Object(shown)) => Ok(shown),
            _ => Err(Report::error("XX000", "the samples cannot be shown")),
        }
    }

    async fn taken(&mut self, part: &Part) -> Result<(Ran, Taken), Report> {
        let params: Vec<_> = part.params.iter().map(|p| Some(p.clone().into())).collect();
        let mut taken = Taken::default();
        // What is explained is somebody's statement and stays as it is.
        let text = match part.text.starts_with("select ") {
            true => marked(&part.text),
            false => part.text.to_string(),
        };
        let ran = self.session.rows(&text, &params, part.rows_max, &mut taken).await?;
        Ok((ran, taken))
    }

    async fn table(&mut self, part: &Part) -> Result<Table, Report> {
        let (ran, taken) = self.taken(part).await?;
        let names = ran.columns.iter().map(|column| column.name.clone()).collect();
        let oids: Vec<u32> = ran.columns.iter().map(|column| column.type_oid).collect();
        taken.into_table(names, &oids, ran.cut).ok_or_else(not_whole)
    }
}

/// A query with the mark in it. It stands behind the first word, since what stands before a
/// statement is no part of its text.
pub fn marked(text: &str) -> String {
    text.replacen("select ", MARK, 1)
}

fn not_whole() -> Report {
    Report::error("XX000", "the rows of a statement are not whole")
}
