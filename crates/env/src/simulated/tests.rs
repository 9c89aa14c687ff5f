use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::*;
use crate::IoBuf;

const FILE: &str = "/group/file";

fn world(seed: u64) -> SimWorld {
    SimWorld::new(seed, SimConfig::default())
}

fn plain(create_new: bool, dsync: bool) -> OpenOptions {
    OpenOptions { create_new, direct: true, dsync }
}

fn filled(byte: u8) -> IoBuf {
    IoBuf::copy_from(&[byte; 4096])
}

async fn read(file: &Arc<dyn RawFile>, offset_bytes: u64) -> io::Result<Vec<u8>> {
    let (result, buf) = file.read_at(offset_bytes, IoBuf::zeroed(4096)).await;
    result.map(|()| buf.to_vec())
}

async fn write(file: &Arc<dyn RawFile>, offset_bytes: u64, byte: u8) -> io::Result<()> {
    file.write_at(offset_bytes, filled(byte)).await.0
}

/// Three instances that write, read, talk and crash; returns the trace.
fn busy_history(seed: u64) -> u64 {
    let world = world(seed);
    let envs: Vec<Env> = (1..=3).map(|i| world.env(i)).collect();
    let file = world.env(1).open(Path::new(FILE), plain(true, false)).unwrap();
    file.allocate(1 << 20).unwrap();
    for (i, env) in envs.iter().enumerate() {
        let env2 = env.clone();
        env.spawn_task("worker", Lane::Background, async move {
            let file = env2.open(Path::new(FILE), plain(false, i == 0)).unwrap();
            for n in 0..40_u64 {
                let at = env2.random() % 64 * 4096;
                write(&file, at, n as u8).await.unwrap();
                read(&file, env2.random() % 64 * 4096).await.unwrap();
                env2.sleep(Duration::from_micros(env2.random() % 500)).await;
            }
        });
    }
    let mut listener = world.block_on(envs[0].listen("127.0.0.1:0")).unwrap();
    let addr = listener.local_addr();
    let client = envs[1].clone();
    envs[1].spawn_task("client", Lane::Serve, async move {
        let conn = client.connect(&addr).await.unwrap();
        for n in 0..20_u8 {
            conn.sender.send(vec![n; 10]).unwrap();
            client.sleep(Duration::from_micros(50)).await;
        }
    });
    world.block_on(async {
        let mut conn = listener.accept().await.unwrap();
        while conn.receiver.recv().await.is_some() {}
    });
    world.crash(3);
    world.run_for(Duration::from_millis(50));
    world.trace_hash()
}

#[test]
fn the_same_seed_gives_the_same_history_and_another_seed_another() {
    let first: Vec<u64> = (0..5).map(busy_history).collect();
    let second: Vec<u64> = (0..5).map(busy_history).collect();
    assert_eq!(first, second);
    let mut distinct = first.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), first.len());
}

#[test]
fn the_clock_jumps_and_timeouts_fire_at_their_time() {
    let world = world(1);
    let env = world.env(1);
    let start = world.now();
    let slow = env.sleep(Duration::from_secs(3600));
    let out = world.block_on(env.timeout(Duration::from_secs(10), slow));
    assert_eq!(out, Err(crate::Elapsed));
    let passed = world.now().since(start);
    assert!((10_000_000..10_001_000).contains(&passed), "{passed}");
    let out = world.block_on(env.timeout(Duration::from_secs(10), async { 7 }));
    assert_eq!(out, Ok(7));
    // The sleeps dropped above hold nothing back.
    assert_eq!(world.block_on_for(Duration::from_secs(1), std::future::pending::<()>()), None);
}

/// Writes ten pages, synced or not, crashes the writer; returns how many pages are new, old, mixed.
fn pages_after_crash(seed: u64, dsync: bool, sync: bool) -> (usize, usize, usize) {
    let world = world(seed);
    let (writer, reader) = (world.env(1), world.env(2));
    world.block_on(async {
        let file = writer.open(Path::new(FILE), plain(true, true)).unwrap();
        for page in 0..10 {
            write(&file, page * 4096, 1).await.unwrap();
        }
        let file = writer.open(Path::new(FILE), plain(false, dsync)).unwrap();
        for page in 0..10 {
            write(&file, page * 4096, 2).await.unwrap();
        }
        if sync {
            file.sync().await.unwrap();
        }
        let file = reader.open(Path::new(FILE), plain(false, true)).unwrap();
        for page in 0..10 {
            assert_eq!(
                read(&file, page * 4096).await.unwrap(),
                [2; 4096],
                "visible before the crash"
            );
        }
    });
    world.crash(1);
    let mut counts = (0, 0, 0);
    world.block_on(async {
        let file = reader.open(Path::new(FILE), plain(false, true)).unwrap();
        for page in 0..10 {
            let data = read(&file, page * 4096).await.unwrap();
            for sector in data.chunks(512) {
                assert!(sector.iter().all(|b| *b == sector[0]), "sectors are written whole");
            }
            if data.iter().all(|b| *b == 2) {
                counts.0 += 1;
            } else if data.iter().all(|b| *b == 1) {
                counts.1 += 1;
            } else {
                counts.2 += 1;
            }
        }
    });
    counts
}

#[test]
fn a_crash_loses_and_tears_what_was_not_synced_and_nothing_else() {
    let (mut new, mut old, mut torn) = (0, 0, 0);
    for seed in 0..20 {
        let (n, o, t) = pages_after_crash(seed, false, false);
        (new, old, torn) = (new + n, old + o, torn + t);
        assert_eq!(pages_after_crash(seed, true, false), (10, 0, 0), "dsync, seed {seed}");
        assert_eq!(pages_after_crash(seed, false, true), (10, 0, 0), "synced, seed {seed}");
    }
    assert!(new > 0 && old > 0 && torn > 0, "new {new}, old {old}, torn {torn}");
}

#[test]
fn a_durable_write_in_flight_at_the_crash_may_be_torn() {
    let mut torn = 0;
    for seed in 0..40 {
        let world = world(seed);
        let (writer, reader) = (world.env(1), world.env(2));
        let file = writer.open(Path::new(FILE), plain(true, true)).unwrap();
        file.allocate(4096).unwrap();
        let writing = file.write_at(0, filled(9));
        // Dropping the future does not take the write back.
        drop(writing);
        world.crash(1);
        let data = world.block_on(async {
            let file = reader.open(Path::new(FILE), plain(false, true)).unwrap();
            read(&file, 0).await.unwrap()
        });
        let nines = data.iter().filter(|b| **b == 9).count();
        torn += usize::from(nines > 0 && nines < 4096);
    }
    assert!(torn > 3, "{torn}");
}

#[test]
fn disk_faults_hit_the_instance_and_file_they_name() {
    let world = world(3);
    let (one, two) = (world.env(1), world.env(2));
    let path = Path::new(FILE);
    let file = one.open(path, plain(true, true)).unwrap();
    file.allocate(8192).unwrap();
    let other = two.open(path, plain(false, true)).unwrap();
    let fault = |kind| DiskFault {
        instance: Some(1),
        path_contains: "group".to_owned(),
        kind,
        probability: 1.0,
    };
    world.set_fault(fault(FaultKind::ReadError));
    world.set_fault(fault(FaultKind::WriteError));
    world.set_fault(fault(FaultKind::Full));
    world.block_on(async {
        assert_eq!(read(&file, 0).await.unwrap_err().raw_os_error(), Some(nix::libc::EIO));
        assert!(write(&file, 0, 1).await.is_err());
        assert!(file.sync().await.is_err());
        assert_eq!(file.allocate(1 << 20).unwrap_err().kind(), io::ErrorKind::StorageFull);
        read(&other, 0).await.unwrap();
        write(&other, 0, 1).await.unwrap();
    });
    world.clear_faults();
    world.set_fault(fault(FaultKind::SlowUs(1_000_000)));
    let start = world.now();
    world.block_on(async { read(&file, 0).await.unwrap() });
    assert!(world.now().since(start) > 1_000_000);
    world.clear_faults();
    world.set_fault(fault(FaultKind::SlowWritesUs(1_000_000)));
    let start = world.now();
    world.block_on(async { read(&file, 0).await.unwrap() });
    assert!(world.now().since(start) < 1_000_000);
    world.block_on(async { write(&file, 0, 1).await.unwrap() });
    assert!(world.now().since(start) > 1_000_000);
    world.clear_faults();
    assert!(world.block_on(read(&file, 8192)).is_err(), "past the end");
    assert!(world.block_on(read(&file, 512)).is_err(), "unaligned");
    assert!(one.open(path, plain(true, true)).is_err(), "exists");
}

/// A connection between instances 1 (its sender) and 2 (its receiver), both whole.
fn connected(world: &SimWorld) -> (Connection, Connection) {
    let (one, two) = (world.env(1), world.env(2));
    world.block_on(async {
        let mut listener = two.listen("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr();
        let (a, b) = futures::join!(one.connect(&addr), listener.accept());
        (a.unwrap(), b.unwrap())
    })
}

#[test]
fn frames_keep_their_order_whatever_the_delays() {
    for seed in 0..10 {
        let world = world(seed);
        let (a, mut b) = connected(&world);
        for n in 0..100_u8 {
            a.sender.send(vec![n]).unwrap();
        }
        world.block_on(async {
            for n in 0..100_u8 {
                assert_eq!(b.receiver.recv().await, Some(vec![n]));
            }
        });
    }
}

#[test]
fn a_cut_holds_frames_back_and_breaks_the_connection_if_it_lasts() {
    let world = world(5);
    let (a, mut b) = connected(&world);
    world.cut(2, 1);
    a.sender.send(vec![1]).unwrap();
    a.sender.send(vec![2]).unwrap();
    assert_eq!(world.block_on_for(Duration::from_secs(1), b.receiver.recv()), None);
    world.heal(1, 2);
    assert_eq!(world.block_on(b.receiver.recv()), Some(vec![1]));
    assert_eq!(world.block_on(b.receiver.recv()), Some(vec![2]));
    world.cut(1, 2);
    a.sender.send(vec![3]).unwrap();
    world.run_for(Duration::from_secs(3));
    world.heal(1, 2);
    assert_eq!(world.block_on(b.receiver.recv()), None, "frame 3 is lost with the connection");
    assert!(a.sender.send(vec![4]).is_err());
}

#[test]
fn a_crash_ends_connections_after_some_of_what_was_in_flight() {
    let mut arrived = Vec::new();
    for seed in 0..30 {
        let world = world(seed);
        let (a, mut b) = connected(&world);
        for n in 0..5_u8 {
            a.sender.send(vec![n]).unwrap();
        }
        world.crash(1);
        let mut got = Vec::new();
        world.block_on(async {
            while let Some(frame) = b.receiver.recv().await {
                got.push(frame[0]);
            }
        });
        assert_eq!(got, (0..got.len() as u8).collect::<Vec<_>>());
        assert!(b.sender.send(vec![1]).is_err());
        arrived.push(got.len());
    }
    assert!(arrived.contains(&0) && arrived.contains(&5), "{arrived:?}");
}

#[test]
fn dropping_both_halves_ends_the_connection() {
    let world = world(6);
    let (a, mut b) = connected(&world);
    a.sender.send(vec![1]).unwrap();
    drop(a);
    assert_eq!(world.block_on(b.receiver.recv()), Some(vec![1]));
    assert_eq!(world.block_on(b.receiver.recv()), None);
    assert!(b.sender.send(vec![1]).is_err());
    let refused = world.block_on(world.env(1).connect("127.0.0.1:1"));
    assert_eq!(refused.err().map(|e| e.kind()), Some(io::ErrorKind::ConnectionRefused));
}

#[test]
fn locks_exclude_by_range_and_fall_at_a_crash() {
    let world = world(7);
    let (one, two) = (world.env(1), world.env(2));
    let path = Path::new(FILE);
    let _file = one.open(path, plain(true, true)).unwrap();
    let held = one.try_lock(path, 4096, 4096).unwrap();
    assert!(held.is_some());
    assert!(two.try_lock(path, 8000, 1).unwrap().is_none());
    assert!(one.try_lock(path, 4096, 1).unwrap().is_none(), "another descriptor, same process");
    assert!(two.try_lock(path, 8192, 1).unwrap().is_some());
    assert!(two.is_locked(path, 4096, 1).unwrap());
    world.pause(1);
    assert!(two.is_locked(path, 4096, 1).unwrap(), "a stopped process keeps its locks");
    world.crash(1);
    assert!(!two.is_locked(path, 4096, 1).unwrap());
    let again = two.try_lock(path, 4096, 4096).unwrap();
    drop(held);
    assert!(world.env(2).is_locked(path, 4096, 1).unwrap(), "not freed by the dead one's handle");
    drop(again);
    assert!(!two.is_locked(path, 4096, 1).unwrap());
}

#[test]
fn a_crash_drops_the_tasks_of_that_process_only_and_restart_has_a_new_pid() {
    static TICKS: [AtomicU64; 2] = [AtomicU64::new(0), AtomicU64::new(0)];
    let world = world(8);
    for i in 0..2_u8 {
        let env = world.env(i + 1);
        world.env(i + 1).spawn_task("ticker", Lane::Log, async move {
            loop {
                env.sleep(Duration::from_millis(1)).await;
                TICKS[usize::from(i)].fetch_add(1, Ordering::Relaxed);
            }
        });
    }
    let ticks = || [0, 1].map(|i: usize| TICKS[i].load(Ordering::Relaxed));
    world.run_for(Duration::from_millis(10));
    let before = ticks();
    let old_pid = world.env(1).pid();
    world.crash(1);
    world.pause(2);
    world.run_for(Duration::from_millis(10));
    assert_eq!(ticks(), before);
    world.resume(2);
    world.run_for(Duration::from_millis(10));
    assert_eq!(ticks()[0], before[0]);
    assert!(ticks()[1] > before[1] + 5);
    assert!(world.env(2).process_start_time(old_pid).is_none());
    let env = world.restart_env(1);
    assert_ne!(env.pid(), old_pid);
    assert!(world.env(2).process_start_time(env.pid()).is_some());
}

#[test]
fn held_tasks_stand_while_their_process_goes_on() {
    let world = world(12);
    let ticks = Arc::new(Mutex::new([0, 0]));
    for (i, name) in ["held", "free"].into_iter().enumerate() {
        let (env, ticks) = (world.env(1), ticks.clone());
        world.env(1).spawn_task(name, Lane::Background, async move {
            loop {
                env.sleep(Duration::from_millis(1)).await;
                ticks.lock()[i] += 1;
            }
        });
    }
    world.run_for(Duration::from_millis(10));
    world.hold_tasks(1, "held");
    let before = *ticks.lock();
    world.run_for(Duration::from_millis(10));
    let after = *ticks.lock();
    assert!(after[0] == before[0] && after[1] > before[1] + 5, "{before:?} {after:?}");
    world.release_tasks(1);
    world.run_for(Duration::from_millis(10));
    assert!(ticks.lock()[0] > before[0] + 5);
}

#[test]
fn aborting_ends_the_instance_inside_the_task_and_kill_ends_another() {
    let reached = Arc::new(Mutex::new(Vec::new()));
    let world = world(9);
    let (one, log) = (world.env(1), reached.clone());
    world.env(1).spawn_task("broken", Lane::Background, async move {
        one.sleep(Duration::from_millis(1)).await;
        log.lock().push("before");
        one.abort_instance("an invariant is broken");
    });
    let (env, log) = (world.env(1), reached.clone());
    world.env(1).spawn_task("bystander", Lane::Background, async move {
        env.sleep(Duration::from_millis(5)).await;
        log.lock().push("bystander");
    });
    world.run_for(Duration::from_millis(20));
    assert_eq!(*reached.lock(), ["before"]);
    assert!(!world.is_alive(1));
    let victim = world.env(2).pid();
    world.env(3).kill_process(victim).unwrap();
    assert!(!world.is_alive(2));
    assert!(world.env(3).kill_process(victim).is_err());
}

#[test]
fn an_aborted_task_is_dropped_at_once() {
    let world = world(10);
    let env = world.env(1);
    let token = Arc::new(());
    let inside = token.clone();
    let task = env.spawn_task("waiting", Lane::Background, async move {
        std::future::pending::<()>().await;
        drop(inside);
    });
    world.run_for(Duration::from_millis(1));
    assert_eq!(Arc::strong_count(&token), 2);
    task.abort();
    assert_eq!(Arc::strong_count(&token), 1);
}

#[test]
fn a_panic_in_a_task_reaches_the_test() {
    let world = world(11);
    world.env(1).spawn_task("wrong", Lane::Background, async { panic!("found a bug") });
    let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        world.run_for(Duration::from_millis(1));
    }));
    assert!(result.is_err());
}

#[test]
fn reads_may_meet_half_of_a_write_in_flight() {
    let mut mixed = 0;
    for seed in 0..30 {
        let world = world(seed);
        let env = world.env(1);
        let file = env.open(Path::new(FILE), plain(true, true)).unwrap();
        file.allocate(4096).unwrap();
        let data = world.block_on(async {
            let (written, data) = futures::join!(write(&file, 0, 3), read(&file, 0));
            written.unwrap();
            data.unwrap()
        });
        let threes = data.iter().filter(|b| **b == 3).count();
        mixed += usize::from(threes > 0 && threes < 4096);
    }
    assert!(mixed > 5, "{mixed}");
}
