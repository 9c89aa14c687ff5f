//! Instances that freeze, and instances that cannot reach each other.

use crate::clients::connect;
use crate::db::{Db, succeed, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

fn pid_of(db: &Db, k: u16) -> i32 {
    let pid = db.status()["instances"][usize::from(k) - 1]["pid"].as_i64();
    i32::try_from(pid.expect("it runs")).unwrap()
}

/// A process that has ended may wait for its parent to take note of it.
fn is_dead(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rfind(')').is_none_or(|end| stat[end + 1..].trim_start().starts_with(['Z', 'X']))
}

/// The members of the newest epoch that an instance has noted.
fn members(db: &Db, k: u16) -> String {
    let log = db.alert_log(k);
    let last = log.lines().rev().find_map(|line| line.split("members ").nth(1));
    last.unwrap_or_default().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_frozen_instance_is_dead_before_the_others_go_on_without_it() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(2, "insert into t values (1, 0), (2, 0)");
    let client = connect(&db, 2).await;
    client.batch_execute("update t set v = 1 where id = 1").await.unwrap();
    client.batch_execute("begin; update t set v = 9 where id = 2").await.unwrap();
    let pid = pid_of(&db, 2);
    db.signal(2, Signal::SIGSTOP);
    wait_until("the others begin an epoch without it", || {
        members(&db, 1) == "1, 3" && members(&db, 3) == "1, 3"
    });
    assert!(is_dead(pid), "an epoch has begun without an instance whose process lives");
    // Its committed work is there, its open transaction is not, and its locks are gone.
    assert_eq!(db.sql(1, "select id, v from t order by id"), "1|1\n2|0");
    db.sql(3, "update t set v = v + 10");
    // Nobody is there to be woken: whatever this does, nothing is written any more.
    let _ = kill(Pid::from_raw(pid), Signal::SIGCONT);
    assert!(client.batch_execute("commit").await.is_err());
    assert_eq!(db.state(2), "DOWN");
    db.start_all();
    for k in 1..=3 {
        assert_eq!(db.sql(k, "select id, v from t order by id"), "1|11\n2|10");
    }
}

/// On one host a frozen instance is killed before it can be woken: it does not run another step.
#[test]
fn a_frozen_instance_is_killed_and_says_and_writes_nothing_more() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v int)");
    succeed(db.skein("stop").args(["--instance", "2"]));
    let mut child = db.skein("start").args(["--instance", "2"]).spawn().expect("it starts");
    wait_until("instance 2 is open", || db.state(2) == "OPEN");
    db.sql(2, "insert into t values (1, 0)");
    db.signal(2, Signal::SIGSTOP);
    let said = db.alert_log(2);
    wait_until("the others begin an epoch without it", || {
        members(&db, 1) == "1, 3" && members(&db, 3) == "1, 3"
    });
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap());
    kill(pid, Signal::SIGCONT).expect("its parent has not taken note of its end yet");
    let status = child.wait().expect("it has ended");
    assert_eq!(status.signal(), Some(Signal::SIGKILL as i32), "{status}");
    assert_eq!(db.alert_log(2), said);
    let logs = db.alert_log(1) + &db.alert_log(3);
    assert!(logs.contains("instance 2 is put out: its heartbeat has stopped"), "{logs}");
    assert_eq!(db.sql(3, "select * from t"), "1|0");
}

#[test]
fn two_of_three_freeze_and_the_third_goes_on() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v int)");
    for k in 1..=3 {
        db.sql(k, &format!("insert into t values ({k}, {k})"));
    }
    db.signal(1, Signal::SIGSTOP);
    db.signal(2, Signal::SIGSTOP);
    db.sql(3, "update t set v = v + 1");
    assert_eq!(db.sql(3, "select sum(v) from t"), "9");
    assert_eq!((db.state(1), db.state(2)), ("DOWN".into(), "DOWN".into()));
    db.start_all();
    assert_eq!(db.sql(1, "select sum(v) from t"), "9");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_short_pause_costs_nobody_a_session() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(2, "insert into t values (1, 0)");
    let client = connect(&db, 2).await;
    client.batch_execute("begin; update t set v = 1 where id = 1").await.unwrap();
    let before = db.sql(1, "select count(*) from gv$instance");
    for _ in 0..3 {
        db.signal(2, Signal::SIGSTOP);
        std::thread::sleep(Duration::from_millis(700));
        db.signal(2, Signal::SIGCONT);
        std::thread::sleep(Duration::from_millis(300));
    }
    client.batch_execute("commit").await.unwrap();
    assert_eq!(db.sql(3, "select v from t"), "1");
    assert_eq!(db.sql(1, "select count(*) from gv$instance"), before);
}

/// Stands before the interconnect of one instance, and can be cut.
struct Proxy {
    port: u16,
    cut: Arc<AtomicBool>,
    streams: Arc<Mutex<Vec<TcpStream>>>,
    thread: Option<JoinHandle<()>>,
}

impl Proxy {
    fn to(target: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let cut = Arc::new(AtomicBool::new(false));
        let streams = Arc::new(Mutex::new(Vec::new()));
        let (cut_too, streams_too) = (Arc::clone(&cut), Arc::clone(&streams));
        let thread = std::thread::spawn(move || {
            while !cut_too.load(Ordering::SeqCst) {
                if let Ok((from, _)) = listener.accept() {
                    join(from, target, &streams_too);
                } else {
                    std::thread::sleep(Duration::from_millis(2));
                }
            }
        });
        Proxy { port, cut, streams, thread: Some(thread) }
    }

    /// Breaks every connection; new ones may be made.
    fn interrupt(&self) {
        for stream in self.streams.lock().unwrap().drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }

    /// From now on nobody gets through.
    fn cut(&mut self) {
        self.cut.store(true, Ordering::SeqCst);
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
        self.interrupt();
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.cut();
    }
}

/// Copies both ways until one side ends.
fn join(from: TcpStream, target: u16, streams: &Mutex<Vec<TcpStream>>) {
    let Ok(to) = TcpStream::connect(("127.0.0.1", target)) else { return };
    from.set_nonblocking(false).unwrap();
    for stream in [&from, &to] {
        stream.set_nodelay(true).unwrap();
        streams.lock().unwrap().push(stream.try_clone().unwrap());
    }
    let ways = [(from.try_clone().unwrap(), to.try_clone().unwrap()), (to, from)];
    for (mut source, mut sink) in ways {
        std::thread::spawn(move || {
            let mut bytes = vec![0; 1 << 16];
            while let Ok(n) = source.read(&mut bytes) {
                if n == 0 || sink.write_all(&bytes[..n]).is_err() {
                    break;
                }
            }
            let _ = sink.shutdown(Shutdown::Both);
        });
    }
}

/// A database whose instances reach each other through proxies only.
fn open_behind_proxies(instances: u16) -> (Db, Vec<Proxy>) {
    let db = Db::init(instances);
    let mut proxies = Vec::new();
    for k in 1..=instances {
        let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let proxy = Proxy::to(free);
        db.edit_settings(|text| {
            let line = "\ninterconnect = \"127.0.0.1:0\"";
            let text = text.replacen(line, &format!("\ninterconnect = \"127.0.0.1:{free}\""), 1);
            let own = format!("[instance.{k}]");
            let published = format!("interconnect_published = \"127.0.0.1:{}\"", proxy.port);
            text.replace(&own, &format!("{own}\n{published}"))
        });
        proxies.push(proxy);
    }
    db.start_all();
    (db, proxies)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_instance_cut_off_from_the_others_is_evicted_and_they_lose_nothing() {
    let (db, mut proxies) = open_behind_proxies(3);
    db.sql(1, "create table t (id int primary key, v int)");
    for k in 1..=3 {
        db.sql(k, &format!("insert into t values ({k}, 0)"));
    }
    let clients = [connect(&db, 1).await, connect(&db, 2).await];
    for client in &clients {
        client.batch_execute("begin; select * from t").await.unwrap();
    }
    let pid = pid_of(&db, 3);
    proxies[2].cut();
    wait_until("the others begin an epoch without it", || {
        members(&db, 1) == "1, 2" && members(&db, 2) == "1, 2"
    });
    assert!(is_dead(pid), "an epoch has begun without an instance whose process lives");
    for (k, client) in (1..).zip(&clients) {
        let sql = format!("update t set v = v + 1 where id = {k}; commit");
        client.batch_execute(&sql).await.unwrap();
    }
    assert_eq!(db.sql(1, "update t set v = v + 1 where id = 3 returning v"), "1");
    assert_eq!(db.sql(2, "select sum(v) from t"), "3");
    assert_eq!(db.state(3), "DOWN");
}

#[test]
fn of_two_that_cannot_reach_each_other_the_first_goes_on() {
    let (db, mut proxies) = open_behind_proxies(2);
    db.sql(2, "create table t (id int primary key)");
    db.sql(1, "insert into t values (1)");
    for proxy in &mut proxies {
        proxy.cut();
    }
    db.sql(1, "insert into t values (2)");
    assert_eq!(db.sql(1, "select count(*) from t"), "2");
    wait_until("the second is down", || db.state(2) == "DOWN");
}

#[test]
fn broken_connections_are_made_again_and_nobody_is_evicted() {
    let (db, proxies) = open_behind_proxies(3);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(2, "insert into t values (1, 0)");
    for round in 1..=3 {
        for proxy in &proxies {
            proxy.interrupt();
        }
        for k in 1..=3 {
            db.sql(k, "update t set v = v + 1");
        }
        assert_eq!(db.sql(1, "select v from t"), (round * 3).to_string());
    }
    for k in 1..=3 {
        assert_eq!(db.state(k), "OPEN");
    }
}
