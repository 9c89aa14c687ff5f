//! The bank: its tables, their load, and the clients that transfer money.
//!
//! What it promises: a transfer is reported as acknowledged only after COMMIT was confirmed, and as
//! unknown only if COMMIT was sent and nothing definite came back. Everything else is not there.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::{SinkExt, TryStreamExt};
use tokio_postgres::{Client, Error, Statement};

use crate::client::{connect, describe};
use crate::random::Random;

use super::book::{Outcome, Pen, Transfer};
use super::check::INITIAL_BALANCE;

/// The longest a transfer may take before it counts as hung.
const HUNG: Duration = Duration::from_secs(30);
const RECONNECT_PAUSE: Duration = Duration::from_millis(100);
/// The longest transfer that is told apart from longer ones: an hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;
const CHUNK_ROWS: i32 = 1000;
/// As wide as pgbench's.
const FILLER_CHARS: usize = 84;

const TABLES: &str = "
    drop table if exists demo_transfer;
    drop table if exists demo_account;
    create table demo_account (
        id int primary key, branch int not null, balance bigint not null, filler char(84));
    create table demo_transfer (
        id bigint primary key, src int not null, dst int not null, amount int not null)";

/// Makes the tables.
///
/// # Errors
/// What the server said.
pub async fn create_tables(url: &str) -> Result<(), String> {
    let client = connect(url).await?;
    client.batch_execute(TABLES).await.map_err(|e| format!("make the tables: {}", describe(&e)))
}

/// Loads the accounts `from..=to` with COPY, in one transaction.
///
/// # Errors
/// What the server said; not all rows were taken.
pub async fn load(url: String, from: i32, to: i32, loaded: Arc<AtomicI64>) -> Result<(), String> {
    let failed = |e: Error| format!("load accounts {from} to {to}: {}", describe(&e));
    let client = connect(&url).await?;
    let copy = "copy demo_account (id, branch, balance, filler) from stdin";
    let sink = client.copy_in::<_, Bytes>(copy).await.map_err(failed)?;
    let mut sink = std::pin::pin!(sink);
    let mut next = from;
    while next <= to {
        let last = to.min(next.saturating_add(CHUNK_ROWS - 1));
        sink.send(Bytes::from(rows_text(next, last))).await.map_err(failed)?;
        loaded.fetch_add(i64::from(last - next + 1), Relaxed);
        next = last + 1;
    }
    let taken = sink.finish().await.map_err(failed)?;
    if i64::try_from(taken).ok() != Some(i64::from(to - from + 1)) {
        return Err(format!("load accounts {from} to {to}: the server took {taken} rows"));
    }
    Ok(())
}

fn rows_text(from: i32, to: i32) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for id in from..=to {
        let branch = (id - 1) / 100_000 + 1;
        let _ = writeln!(text, "{id}\t{branch}\t{INITIAL_BALANCE}\t{:<FILLER_CHARS$}", "");
    }
    text
}

/// All transfers that are there.
///
/// # Errors
/// What the server said.
pub async fn read_transfers(client: &Client) -> Result<Vec<Transfer>, String> {
    transfers_of(client, "demo_transfer").await
}

/// The same of a table with these columns.
///
/// # Errors
/// What the server said.
pub async fn transfers_of(client: &Client, table: &str) -> Result<Vec<Transfer>, String> {
    let query = format!("select id, src, dst, amount from {table}");
    let failed = |e: Error| format!("read the transfers: {}", describe(&e));
    let rows = client.query_raw(query.as_str(), [] as [i32; 0]).await.map_err(failed)?;
    let mut rows = std::pin::pin!(rows);
    let mut transfers = Vec::new();
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        transfers.push(Transfer {
            id: row.try_get(0).map_err(failed)?,
            src: row.try_get(1).map_err(failed)?,
            dst: row.try_get(2).map_err(failed)?,
            amount: row.try_get(3).map_err(failed)?,
        });
    }
    Ok(transfers)
}

/// All accounts with their balances.
///
/// # Errors
/// What the server said.
pub async fn read_balances(client: &Client) -> Result<Vec<(i32, i64)>, String> {
    balances_of(client, "demo_account").await
}

/// The same of a table with these columns.
///
/// # Errors
/// What the server said.
pub async fn balances_of(client: &Client, table: &str) -> Result<Vec<(i32, i64)>, String> {
    let query = format!("select id, balance from {table}");
    let failed = |e: Error| format!("read the accounts: {}", describe(&e));
    let rows = client.query_raw(query.as_str(), [] as [i32; 0]).await.map_err(failed)?;
    let mut rows = std::pin::pin!(rows);
    let mut balances = Vec::new();
    while let Some(row) = rows.try_next().await.map_err(failed)? {
        balances.push((row.try_get(0).map_err(failed)?, row.try_get(1).map_err(failed)?));
    }
    Ok(balances)
}

/// What one client has seen.
#[derive(Clone, Debug, Default)]
pub struct ClientLog {
    /// Index of its instance.
    pub instance: usize,
    /// The longest time between two acknowledged transfers, and when it ended.
    pub longest_stall: Duration,
    pub stall_end: Duration,
    pub retries: u64,
    pub disconnects: u64,
}

/// What the clients share.
pub struct Load {
    pub accounts: i32,
    pub started: Instant,
    pub stop: AtomicBool,
    /// How to reach each instance; changes when one is restarted.
    pub urls: Mutex<Vec<String>>,
    /// Instances that may fail their clients: killed, or not yet open again.
    pub down: Vec<AtomicBool>,
    /// Acknowledged transfers by instance and second.
    pub done: Vec<Vec<AtomicU64>>,
    pub clients: Mutex<Vec<ClientLog>>,
    /// What must not happen on a surviving instance, and how often it did.
    pub problems: Mutex<BTreeMap<String, u64>>,
    pub latency_us: Mutex<hdrhistogram::Histogram<u64>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// # Errors
    /// The histogram cannot be made.
    pub fn new(accounts: i32, urls: Vec<String>, seconds: u64) -> Result<Load, String> {
        let slots = usize::try_from(seconds).unwrap_or(0) + 600;
        let per_instance = |_| (0..slots).map(|_| AtomicU64::new(0)).collect();
        Ok(Load {
            accounts,
            started: Instant::now(),
            stop: AtomicBool::new(false),
            down: urls.iter().map(|_| AtomicBool::new(false)).collect(),
            done: (0..urls.len()).map(per_instance).collect(),
            urls: Mutex::new(urls),
            clients: Mutex::default(),
            problems: Mutex::default(),
            latency_us: Mutex::new(
                hdrhistogram::Histogram::new_with_bounds(1, LATENCY_US_MAX, 3)
                    .map_err(|e| format!("histogram: {e:?}"))?,
            ),
        })
    }

    pub fn set_url(&self, instance: usize, url: String) {
        locked(&self.urls)[instance] = url;
    }

    fn url(&self, instance: usize) -> String {
        locked(&self.urls)[instance].clone()
    }

    fn is_down(&self, instance: usize) -> bool {
        self.down[instance].load(Relaxed)
    }

    /// Notes what a client of an instance that is up must not see.
    fn problem(&self, instance: usize, text: &str) {
        if !self.is_down(instance) {
            let text = format!("instance {}: {text}", instance + 1);
            *locked(&self.problems).entry(text).or_default() += 1;
        }
    }

    fn acknowledged(&self, instance: usize, took: Duration) {
        let second = usize::try_from(self.started.elapsed().as_secs()).unwrap_or(usize::MAX);
        if let Some(slot) = self.done[instance].get(second) {
            slot.fetch_add(1, Relaxed);
        }
        let us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        // What is above the histogram's limit counts as the limit.
        locked(&self.latency_us).saturating_record(us);
    }
}

/// A connection with its prepared statements.
struct Teller {
    client: Client,
    add: Statement,
    insert: Statement,
}

impl Teller {
    async fn connect(url: &str) -> Result<Teller, String> {
        let client = connect(url).await?;
        let failed = |e: Error| describe(&e);
        let add = "update demo_account set balance = balance + $1 where id = $2";
        let add = client.prepare(add).await.map_err(failed)?;
        let insert = "insert into demo_transfer (id, src, dst, amount) values ($1, $2, $3, $4)";
        let insert = client.prepare(insert).await.map_err(failed)?;
        Ok(Teller { client, add, insert })
    }

    /// Everything but COMMIT.
    async fn work(&self, t: &Transfer) -> Result<(), String> {
        let failed = |e: Error| describe(&e);
        self.client.batch_execute("begin").await.map_err(failed)?;
        // In the order of the accounts, so that two transfers do not wait for each other.
        let mut parts = [(t.src, -i64::from(t.amount)), (t.dst, i64::from(t.amount))];
        parts.sort_unstable();
        for (id, delta) in parts {
            let rows = self.client.execute(&self.add, &[&delta, &id]).await.map_err(failed)?;
            if rows != 1 {
                return Err(format!("update of one account changed {rows} rows"));
            }
        }
        let rows = self
            .client
            .execute(&self.insert, &[&t.id, &t.src, &t.dst, &t.amount])
            .await
            .map_err(failed)?;
        if rows == 1 { Ok(()) } else { Err(format!("insert of one transfer made {rows} rows")) }
    }

    /// Ends the transaction after an error; whether the connection can be used again.
    async fn rollback(&self) -> bool {
        !self.client.is_closed() && self.client.batch_execute("rollback").await.is_ok()
    }
}

/// What became of one transfer.
enum Attempt {
    Acknowledged,
    /// Rolled back; the reason, and whether the connection is still good.
    Failed(String, bool),
    /// COMMIT was sent; what came instead of a confirmation.
    Unknown(String),
}

/// Class 40: the transaction was rolled back and may be tried again.
fn is_retry(text: &str) -> bool {
    text.starts_with("40")
}

async fn transfer(teller: &Teller, t: &Transfer) -> Attempt {
    match tokio::time::timeout(HUNG, teller.work(t)).await {
        Ok(Ok(())) => {}
        Ok(Err(why)) => return Attempt::Failed(why, teller.rollback().await),
        Err(_) => return Attempt::Failed(format!("hung for {HUNG:?}"), false),
    }
    match tokio::time::timeout(HUNG, teller.client.batch_execute("commit")).await {
        Ok(Ok(())) => Attempt::Acknowledged,
        Ok(Err(e)) => {
            let why = describe(&e);
            if is_retry(&why) { Attempt::Failed(why, true) } else { Attempt::Unknown(why) }
        }
        Err(_) => Attempt::Unknown(format!("COMMIT hung for {HUNG:?}")),
    }
}

/// One client: transfers until told to stop, connecting again when it must.
pub async fn client(load: Arc<Load>, number: i32, instance: usize, pen: Pen) {
    let mut random = Random::new(u64::try_from(number).unwrap_or(0) << 32);
    let mut log = ClientLog { instance, ..ClientLog::default() };
    let mut next_id = i64::from(number) * 1_000_000_000;
    let mut last = Instant::now();
    while !load.stop.load(Relaxed) {
        let teller = match Teller::connect(&load.url(instance)).await {
            Ok(teller) => teller,
            Err(why) => {
                load.problem(instance, &format!("cannot connect: {why}"));
                tokio::time::sleep(RECONNECT_PAUSE).await;
                continue;
            }
        };
        while !load.stop.load(Relaxed) {
            next_id += 1;
            let src = random.below(load.accounts) + 1;
            let dst = (src + random.below(load.accounts - 1)) % load.accounts + 1;
            let t = Transfer { id: next_id, src, dst, amount: random.below(100) + 1 };
            let began = Instant::now();
            match transfer(&teller, &t).await {
                Attempt::Acknowledged => {
                    pen.write(Outcome::Acknowledged, t);
                    load.acknowledged(instance, began.elapsed());
                    let stall = last.elapsed();
                    last = Instant::now();
                    if stall > log.longest_stall {
                        log.longest_stall = stall;
                        log.stall_end = load.started.elapsed();
                    }
                    continue;
                }
                Attempt::Failed(why, true) if is_retry(&why) => {
                    log.retries += 1;
                    continue;
                }
                Attempt::Failed(why, usable) => {
                    load.problem(instance, &why);
                    if usable {
                        continue;
                    }
                }
                Attempt::Unknown(why) => {
                    pen.write(Outcome::Unknown, t);
                    load.problem(instance, &format!("COMMIT: {why}"));
                }
            }
            log.disconnects += 1;
            break;
        }
    }
    // A client that never came through again has stalled until now.
    if last.elapsed() > log.longest_stall {
        log.longest_stall = last.elapsed();
        log.stall_end = load.started.elapsed();
    }
    locked(&load.clients).push(log);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accounts_are_written_as_copy_wants_them() {
        let text = rows_text(100_000, 100_001);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].starts_with("100000\t1\t1000\t  ") && lines[1].starts_with("100001\t2\t"));
        assert_eq!(lines[0].split('\t').nth(3).map(str::len), Some(FILLER_CHARS));
    }

    #[test]
    fn times_of_transfers_are_told_apart() {
        let load = Load::new(10, vec!["a".to_owned()], 1).expect("a load");
        for ms in [1, 5, 5, 5, 2000] {
            load.acknowledged(0, Duration::from_millis(ms));
        }
        let latency = locked(&load.latency_us);
        assert_eq!(latency.value_at_quantile(0.5) / 10, 500);
        assert!(latency.max() >= 1_990_000);
        assert_eq!(load.done[0][0].load(Relaxed), 5);
    }

    #[test]
    fn a_problem_counts_only_on_an_instance_that_is_up() {
        let urls = vec!["a".to_owned(), "b".to_owned()];
        let load = Load::new(10, urls, 1).expect("a load");
        load.down[1].store(true, Relaxed);
        load.problem(0, "closed");
        load.problem(0, "closed");
        load.problem(1, "closed");
        let problems = locked(&load.problems).clone();
        assert_eq!(problems, BTreeMap::from([("instance 1: closed".to_owned(), 2)]));
    }
}
