//! Several instances on one database: what they share, and what is left when some of them die.

use crate::clients::connect;
use crate::db::{Db, succeed, wait_until};
use nix::sys::signal::Signal;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Sum of a statistic over all instances.
fn stat(db: &Db, k: u16, name: &str) -> u64 {
    let sql = format!("select sum(value) from gv$sysstat where name = '{name}'");
    db.sql(k, &sql).parse().expect("a number")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_row_counts_the_updates_of_all_instances() {
    const EACH: i64 = 100;
    let db = Arc::new(Db::open(3));
    db.sql(1, "create table t (id int primary key, v int8)");
    db.sql(2, "insert into t values (1, 0)");
    let mut workers = Vec::new();
    for k in 1..=3 {
        let client = connect(&db, k).await;
        workers.push(tokio::spawn(async move {
            let update = client.prepare("update t set v = v + 1 where id = 1").await.unwrap();
            for _ in 0..EACH {
                assert_eq!(client.execute(&update, &[]).await.unwrap(), 1);
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    for k in 1..=3 {
        assert_eq!(db.sql(k, "select v from t where id = 1"), (3 * EACH).to_string());
    }
}

/// The proof of past images and recovery: no change was on disk in the data file when two of the
/// three instances that made them died.
#[test]
fn changes_of_one_block_survive_two_of_its_three_writers() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(1, "insert into t values (1, 'a'), (2, 'a'), (3, 'a')");
    for k in 1..=3 {
        db.sql(k, "select * from t");
    }
    let before = stat(&db, 1, "physical writes");
    db.sql(1, "update t set v = 'one' where id = 1");
    db.sql(2, "update t set v = 'two' where id = 2");
    db.sql(3, "update t set v = 'three' where id = 3");
    assert_eq!(stat(&db, 1, "physical writes"), before, "a data file was written in between");
    db.signal(1, Signal::SIGKILL);
    db.signal(2, Signal::SIGKILL);
    assert_eq!(db.sql(3, "select id, v from t order by id"), "1|one\n2|two\n3|three");
    db.start_all();
    assert_eq!(db.sql(1, "select id, v from t order by id"), "1|one\n2|two\n3|three");
}

#[test]
fn an_instance_alone_sends_no_message() {
    let db = Db::init(3);
    succeed_start(&db, 1);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, g from generate_series(1, 1000) g");
    db.sql(1, "update t set v = v + 1");
    for name in ["gcs messages sent", "ges messages sent"] {
        let sql = format!("select value from v$sysstat where name = '{name}'");
        assert_eq!(db.sql(1, &sql), "0", "{name}");
    }
}

/// Starts one instance in the background.
fn succeed_start(db: &Db, k: u16) {
    let mut start = db.skein("start");
    start.args(["--instance", &k.to_string()]);
    let console = std::fs::File::create(db.dir().join(format!("console_{k}"))).unwrap();
    start.stdout(console.try_clone().unwrap()).stderr(console);
    // It is reaped when the test process ends; `Db` stops it before.
    drop(start.spawn().unwrap());
    wait_until("the instance is open", || db.state(k) == "OPEN");
}

/// Inserts with unique ids through instance `k` until told to stop; gives what was acknowledged and
/// the longest wait for an answer.
async fn insert_until(db: &Db, k: u16, stop: Arc<AtomicBool>, next: Arc<AtomicU64>) -> Load {
    let client = connect(db, k).await;
    let insert = client.prepare("insert into acks values ($1, $2)").await.unwrap();
    let mut load = Load { acknowledged: Vec::new(), longest: Duration::ZERO, error: None };
    while !stop.load(Ordering::Relaxed) {
        let id = i64::try_from(next.fetch_add(1, Ordering::Relaxed)).unwrap();
        let begun = Instant::now();
        match client.execute(&insert, &[&id, &i32::from(k)]).await {
            Ok(_) => load.acknowledged.push(id),
            Err(e) => {
                load.error = Some(e.to_string());
                break;
            }
        }
        load.longest = load.longest.max(begun.elapsed());
    }
    load
}

struct Load {
    acknowledged: Vec<i64>,
    longest: Duration,
    error: Option<String>,
}

#[tokio::test(flavor = "multi_thread")]
async fn survivors_of_a_kill_go_on_and_lose_nothing() {
    let db = Arc::new(Db::open(3));
    db.sql(1, "create table acks (id int8 primary key, instance int)");
    let (stop, next) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let mut loads = Vec::new();
    for k in 1..=3 {
        let (db, stop, next) = (Arc::clone(&db), Arc::clone(&stop), Arc::clone(&next));
        loads.push(tokio::spawn(async move { insert_until(&db, k, stop, next).await }));
    }
    let reached = |n: u64| {
        let next = Arc::clone(&next);
        move || next.load(Ordering::Relaxed) >= n
    };
    wait_until("the load runs", reached(300));
    db.signal(2, Signal::SIGKILL);
    let at_kill = next.load(Ordering::Relaxed);
    wait_until("the survivors' load goes on", reached(at_kill + 300));
    stop.store(true, Ordering::Relaxed);
    let mut acknowledged = Vec::new();
    for (k, load) in (1..).zip(loads) {
        let load = load.await.unwrap();
        if k == 2 {
            assert!(load.error.is_some(), "its instance was killed");
        } else {
            assert_eq!(load.error, None, "a client of survivor {k}");
            // 2 s is the promise, measured by the demonstration; a loaded test machine gets more.
            assert!(load.longest < Duration::from_secs(10), "{k}: {:?}", load.longest);
        }
        acknowledged.extend(load.acknowledged);
    }
    let kept: std::collections::BTreeSet<i64> =
        db.sql(3, "select id from acks").lines().map(|line| line.parse().unwrap()).collect();
    let lost: Vec<_> = acknowledged.iter().filter(|id| !kept.contains(id)).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    db.start_all();
    assert_eq!(db.sql(2, "select count(*) from acks"), kept.len().to_string());
}

#[test]
fn an_instance_that_hangs_is_evicted_and_can_come_back() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(2, "insert into t values (1, 1)");
    db.signal(2, Signal::SIGSTOP);
    // Needs a block that the frozen instance holds: waits until it is out of the cluster.
    db.sql(1, "update t set v = 2 where id = 1");
    wait_until("the frozen process is dead", || db.state(2) == "DOWN");
    assert!(db.alert_log(1).contains("members 1, 3"), "{}", db.alert_log(1));
    db.start_all();
    assert_eq!(db.sql(2, "select v from t"), "2");
}

#[test]
fn strangers_on_the_interconnect_are_refused() {
    let db = Db::open(2);
    let status = db.status();
    for instance in status["instances"].as_array().unwrap() {
        let addr = instance["interconnect"].as_str().unwrap();
        for bytes in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0xff; 4096], &[0; 64]] {
            let mut s = TcpStream::connect(addr).unwrap();
            s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
            let _ = s.write_all(bytes);
            let _ = s.shutdown(std::net::Shutdown::Write);
            // Whatever a challenge says, the stranger is closed out.
            let mut answer = Vec::new();
            let _ = s.read_to_end(&mut answer);
        }
    }
    db.sql(1, "create table t (id int primary key)");
    db.sql(2, "insert into t values (1)");
    assert_eq!(db.sql(1, "select count(*) from t"), "1");
}

#[test]
fn a_corrupt_block_is_named_and_the_instance_stays_up() {
    let db = Db::open(1);
    db.sql(1, "create table good (id int primary key)");
    db.sql(1, "insert into good values (1)");
    db.sql(1, "create table bad (id int, v text)");
    db.sql(1, "insert into bad values (1, 'needle in the haystack')");
    db.stop();
    db.spoil(b"needle in the haystack");
    db.start_all();
    let said = db.sql_error(1, "XX001", "select * from bad");
    let named = said.split("block ").nth(1).unwrap_or_default();
    assert!(named.starts_with("4."), "{said}");
    assert_eq!(db.sql(1, "select id from good"), "1");
    let address: String = named.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let address = address.trim_end_matches('.');
    let dump = succeed(db.skein("dump").args(["block", address]));
    assert!(dump.contains("DAMAGED: checksum"), "{dump}");
    assert_eq!(db.state(1), "OPEN");
}
