//! The clients: what they do, and how they tell what became of it.
//!
//! What it promises: an operation is *done* only if the server said so, *failed* only if the server
//! said so or COMMIT was never sent, else *unknown*. A client goes on as another process after an
//! unknown outcome. What it must never do: repeat an operation.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use histories::{Operation, Outcome, Recorder};
use serde_json::{Value, json};
use tokio_postgres::error::SqlState;
use tokio_postgres::{Client, Error};

use crate::client::connect;
use crate::demo::book::{Outcome as Told, Pen, Transfer};
use crate::random::Random;

pub const ACCOUNTS: i32 = 40;
/// Lists, and registers, that are in use at a time.
const OPEN_KEYS: i32 = 5;
/// Operations on a list, or a register, before it is left alone.
const KEY_USES: i64 = 60;
/// The longest that anything may take; after it the outcome is unknown.
const HUNG: Duration = Duration::from_secs(60);
const RECONNECT_PAUSE: Duration = Duration::from_millis(50);
/// Between two operations: histories that can be searched, on a machine that others use too.
const THINK: Duration = Duration::from_millis(4);

pub const TABLES: &str = "
    create table chaos_list_rr (k int primary key, v text not null);
    create table chaos_list_rc (k int primary key, v text not null);
    create table chaos_register (k int primary key, v bigint not null);
    create table chaos_account (id int primary key, balance bigint not null);
    create table chaos_transfer (
        id bigint primary key, src int not null, dst int not null, amount int not null);
    create index chaos_transfer_src on chaos_transfer (src)";

/// What a client does all the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Work {
    ListRepeatable,
    ListCommitted,
    Register,
    Bank,
}

impl Work {
    pub const ALL: [Work; 4] =
        [Work::ListRepeatable, Work::ListCommitted, Work::Register, Work::Bank];

    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Work::ListRepeatable => "list-rr",
            Work::ListCommitted => "list-rc",
            Work::Register => "register",
            Work::Bank => "bank",
        }
    }
}

/// One history and what was counted of it.
pub struct Log {
    pub recorder: Recorder,
    pub done: AtomicU64,
    pub failed: AtomicU64,
    /// Operations whose outcome is unknown.
    pub unknown: AtomicU64,
    uses: AtomicI64,
    elements: AtomicI64,
}

impl Log {
    #[must_use]
    pub fn new(recorder: Recorder) -> Log {
        let (done, failed, unknown) = Default::default();
        let (uses, elements) = Default::default();
        Log { recorder, done, failed, unknown, uses, elements }
    }
}

/// What the clients share.
pub struct Load {
    pub began: Instant,
    pub stop: AtomicBool,
    /// How to reach each instance; `None` while it is down.
    pub urls: Mutex<Vec<Option<String>>>,
    pub logs: BTreeMap<Work, Log>,
    /// When each client was told that something is done, by its instance, nanoseconds.
    pub told: Vec<Mutex<Vec<u64>>>,
    pub clients_of: usize,
    next_process: AtomicU64,
    /// What must never happen, and how often it did.
    pub problems: Mutex<BTreeMap<String, u64>>,
    /// SQLSTATEs that were met.
    pub errors: Mutex<BTreeMap<String, u64>>,
    /// While a LUN fails, errors of the disk are what clients must expect.
    pub disk_fails: AtomicBool,
}

pub fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a client's operation ended with.
struct Ended {
    outcome: Outcome,
    value: Value,
    /// The connection cannot be used any more.
    broken: bool,
}

impl Load {
    #[must_use]
    pub fn new(urls: Vec<String>, logs: BTreeMap<Work, Log>) -> Load {
        let clients_of = Work::ALL.len();
        Load {
            began: Instant::now(),
            stop: AtomicBool::new(false),
            told: (0..urls.len() * clients_of).map(|_| Mutex::default()).collect(),
            urls: Mutex::new(urls.into_iter().map(Some).collect()),
            logs,
            clients_of,
            next_process: AtomicU64::new(0),
            problems: Mutex::default(),
            errors: Mutex::default(),
            disk_fails: AtomicBool::new(false),
        }
    }

    #[must_use]
    pub fn now_ns(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }

    pub fn set_url(&self, instance: usize, url: Option<String>) {
        locked(&self.urls)[instance - 1] = url;
    }

    pub fn problem(&self, text: String) {
        *locked(&self.problems).entry(text).or_default() += 1;
    }

    /// Operations done so far, by workload.
    #[must_use]
    pub fn done(&self) -> Vec<u64> {
        self.logs.values().map(|log| log.done.load(Relaxed)).collect()
    }

    /// Counts an error; complains of one that no fault explains.
    fn note(&self, work: Work, e: &Error) {
        let Some(db) = e.as_db_error() else {
            *locked(&self.errors).entry("connection lost".to_owned()).or_default() += 1;
            return;
        };
        let code = db.code().code();
        *locked(&self.errors).entry(code.to_owned()).or_default() += 1;
        // Serialization, deadlock, shutdown, no space, connection.
        let explained = ["40", "57P", "53", "08"].iter().any(|class| code.starts_with(class));
        let disk = ["58", "XX"].iter().any(|class| code.starts_with(class));
        if !(explained || disk && self.disk_fails.load(Relaxed)) {
            self.problem(format!("{}: {code} {}", work.name(), db.message()));
        }
    }
}

/// After COMMIT was sent: whether the error says that nothing was committed.
fn is_certain(e: &Error) -> bool {
    let Some(db) = e.as_db_error() else { return false };
    let sure = [SqlState::T_R_SERIALIZATION_FAILURE, SqlState::T_R_DEADLOCK_DETECTED];
    sure.contains(db.code()) || db.code().code().starts_with("23")
}

/// One client of `instance` (from 1): works until told to stop, connecting again when it must.
pub async fn client(load: Arc<Load>, work: Work, instance: usize, seed: u64, pen: Option<Pen>) {
    let mut random = Random::new(seed);
    let slot =
        (instance - 1) * load.clients_of + Work::ALL.iter().position(|w| *w == work).unwrap_or(0);
    let log = &load.logs[&work];
    while !load.stop.load(Relaxed) {
        let url = locked(&load.urls)[instance - 1].clone();
        let connected = match url {
            Some(url) => connect(&url).await.ok(),
            None => None,
        };
        let Some(client) = connected else {
            tokio::time::sleep(RECONNECT_PAUSE).await;
            continue;
        };
        let mut process = load.next_process.fetch_add(1, Relaxed);
        while !load.stop.load(Relaxed) {
            let begin_ns = load.now_ns();
            let asked = Mutex::new(Value::Null);
            let one = operation(&load, work, log, &client, &mut random, pen.as_ref(), &asked);
            let ended = match tokio::time::timeout(HUNG, one).await {
                Ok(Some(ended)) => ended,
                // Nothing that a history speaks of.
                Ok(None) => {
                    if client.is_closed() {
                        break;
                    }
                    continue;
                }
                Err(_) => {
                    load.problem(format!("{}: no answer for {HUNG:?}", work.name()));
                    let value = locked(&asked).take();
                    if value.is_null() {
                        break;
                    }
                    Ended { outcome: Outcome::Unknown, value, broken: true }
                }
            };
            let end_ns = load.now_ns();
            let counter = match ended.outcome {
                Outcome::Done => {
                    locked(&load.told[slot]).push(end_ns);
                    &log.done
                }
                Outcome::Failed => &log.failed,
                Outcome::Unknown => &log.unknown,
            };
            counter.fetch_add(1, Relaxed);
            let Ended { outcome, value, broken } = ended;
            let operation = Operation { process, begin_ns, end_ns, outcome, value };
            if let Err(e) = log.recorder.write(&operation) {
                load.problem(format!("write the history {}: {e}", work.name()));
            }
            if broken || client.is_closed() {
                break;
            }
            if outcome == Outcome::Unknown {
                process = load.next_process.fetch_add(1, Relaxed);
            }
            tokio::time::sleep(THINK).await;
        }
    }
}

async fn operation(
    load: &Load,
    work: Work,
    log: &Log,
    client: &Client,
    random: &mut Random,
    pen: Option<&Pen>,
    asked: &Mutex<Value>,
) -> Option<Ended> {
    match work {
        Work::ListRepeatable | Work::ListCommitted => {
            Some(list(load, work, log, client, random, asked).await)
        }
        Work::Register => Some(register(load, log, client, random, asked).await),
        Work::Bank => bank(load, client, random, log, pen?).await,
    }
}

/// One of those in use; a list or register is left alone after some uses.
fn a_key(log: &Log, random: &mut Random) -> i32 {
    let uses = log.uses.fetch_add(1, Relaxed);
    let first = i32::try_from(uses / KEY_USES).unwrap_or(i32::MAX - OPEN_KEYS);
    first + random.below(OPEN_KEYS)
}

/// A transaction of one to four reads and appends.
async fn list(
    load: &Load,
    work: Work,
    log: &Log,
    client: &Client,
    random: &mut Random,
    asked: &Mutex<Value>,
) -> Ended {
    let mut value: Vec<Value> = Vec::new();
    for _ in 0..=random.below(4) {
        let key = a_key(log, random);
        if random.below(2) == 0 {
            value.push(json!(["r", key, null]));
        } else {
            value.push(json!(["append", key, log.elements.fetch_add(1, Relaxed) + 1]));
        }
    }
    *locked(asked) = json!(value);
    let (table, level) = match work {
        Work::ListRepeatable => ("chaos_list_rr", "repeatable read"),
        _ => ("chaos_list_rc", "read committed"),
    };
    let work_done = async {
        client.batch_execute(&format!("begin isolation level {level}")).await?;
        for part in &mut value {
            let key = part[1].as_i64().and_then(|k| i32::try_from(k).ok()).unwrap_or(0);
            if part[0] == "r" {
                let sql = format!("select v from {table} where k = $1");
                let row = client.query_opt(&sql, &[&key]).await?;
                let text = row.map(|r| r.try_get::<_, String>(0)).transpose()?;
                let list: Vec<i64> = text.as_deref().map_or_else(Vec::new, elements);
                part[2] = json!(list);
            } else {
                let text = format!(" {}", part[2]);
                let sql = format!(
                    "insert into {table} values ($1, $2) on conflict (k) do update set v = \
                     {table}.v || excluded.v"
                );
                client.execute(&sql, &[&key, &text]).await?;
            }
        }
        Ok(())
    };
    let worked: Result<(), Error> = work_done.await;
    let outcome = end(load, work, client, worked).await;
    Ended { outcome, value: json!(value), broken: client.is_closed() }
}

/// `" 3 17"`; what is no number counts as an element that nobody wrote.
fn elements(text: &str) -> Vec<i64> {
    text.split_ascii_whitespace().map(|part| part.parse().unwrap_or(-1)).collect()
}

/// Commits what was done, or rolls it back.
async fn end(load: &Load, work: Work, client: &Client, worked: Result<(), Error>) -> Outcome {
    if let Err(e) = worked {
        load.note(work, &e);
        // A connection that cannot roll back is closed: the server does it.
        if client.batch_execute("rollback").await.is_err() && !client.is_closed() {
            load.problem(format!("{}: ROLLBACK failed", work.name()));
        }
        return Outcome::Failed;
    }
    match client.batch_execute("commit").await {
        Ok(()) => Outcome::Done,
        Err(e) => {
            load.note(work, &e);
            if is_certain(&e) { Outcome::Failed } else { Outcome::Unknown }
        }
    }
}

/// One statement, committed by itself.
async fn register(
    load: &Load,
    log: &Log,
    client: &Client,
    random: &mut Random,
    asked: &Mutex<Value>,
) -> Ended {
    let key = a_key(log, random);
    let new = log.elements.fetch_add(1, Relaxed) + 1;
    let mut value;
    let told = match random.below(4) {
        0 | 1 => {
            value = json!(["r", key, null]);
            let row = client.query_opt("select v from chaos_register where k = $1", &[&key]).await;
            row.and_then(|row| row.map(|r| r.try_get::<_, i64>(0)).transpose()).map(|held| {
                value[2] = json!(held);
            })
        }
        2 => {
            value = json!(["w", key, new]);
            *locked(asked) = value.clone();
            let sql = "insert into chaos_register values ($1, $2) on conflict (k) do update set \
                       v = excluded.v";
            client.execute(sql, &[&key, &new]).await.map(drop)
        }
        _ => {
            // A value that was there a moment ago.
            let row = client.query_opt("select v from chaos_register where k = $1", &[&key]).await;
            let old = row.ok().flatten().and_then(|r| r.try_get::<_, i64>(0).ok()).unwrap_or(0);
            value = json!(["cas", key, old, new, false]);
            *locked(asked) = value.clone();
            let sql = "update chaos_register set v = $3 where k = $1 and v = $2";
            client.execute(sql, &[&key, &old, &new]).await.map(|rows| value[4] = json!(rows == 1))
        }
    };
    let outcome = match told {
        Ok(()) => Outcome::Done,
        Err(e) => {
            load.note(Work::Register, &e);
            // A statement alone is committed by the time its error could have come.
            if is_certain(&e) { Outcome::Failed } else { Outcome::Unknown }
        }
    };
    Ended { outcome, value, broken: client.is_closed() }
}

/// Told as unknown if the client gives up waiting.
struct Hung<'a> {
    pen: &'a Pen,
    transfer: Option<Transfer>,
}

impl Drop for Hung<'_> {
    fn drop(&mut self) {
        if let Some(t) = self.transfer {
            self.pen.write(Told::Unknown, t);
        }
    }
}

/// A transfer, or now and then a look at all accounts.
async fn bank(
    load: &Load,
    client: &Client,
    random: &mut Random,
    log: &Log,
    pen: &Pen,
) -> Option<Ended> {
    if random.below(4) == 0 {
        let sql = "select count(*), sum(balance)::bigint from chaos_account";
        let row = match client.query_one(sql, &[]).await {
            Ok(row) => row,
            Err(e) => {
                load.note(Work::Bank, &e);
                return None;
            }
        };
        let seen: (i64, i64) = (row.try_get(0).ok()?, row.try_get(1).ok()?);
        let value = json!(["total", seen.0, seen.1]);
        return Some(Ended { outcome: Outcome::Done, value, broken: false });
    }
    let id = log.elements.fetch_add(1, Relaxed) + 1;
    let src = random.below(ACCOUNTS) + 1;
    let dst = (src + random.below(ACCOUNTS - 1)) % ACCOUNTS + 1;
    let t = Transfer { id, src, dst, amount: random.below(100) + 1 };
    let mut hung = Hung { pen, transfer: Some(t) };
    let worked = transfer(client, &t).await;
    let outcome = end(load, Work::Bank, client, worked).await;
    hung.transfer = None;
    match outcome {
        Outcome::Done => pen.write(Told::Acknowledged, t),
        Outcome::Unknown => pen.write(Told::Unknown, t),
        Outcome::Failed => {}
    }
    let value = json!(["transfer", t.id, t.src, t.dst, t.amount]);
    Some(Ended { outcome, value, broken: client.is_closed() })
}

/// Everything but COMMIT.
async fn transfer(client: &Client, t: &Transfer) -> Result<(), Error> {
    client.batch_execute("begin").await?;
    let mut parts = [(t.src, -i64::from(t.amount)), (t.dst, i64::from(t.amount))];
    parts.sort_unstable();
    for (id, delta) in parts {
        let add = "update chaos_account set balance = balance + $1 where id = $2";
        client.execute(add, &[&delta, &id]).await?;
    }
    let insert = "insert into chaos_transfer values ($1, $2, $3, $4)";
    client.execute(insert, &[&t.id, &t.src, &t.dst, &t.amount]).await?;
    Ok(())
}
