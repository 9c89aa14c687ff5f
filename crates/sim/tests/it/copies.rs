//! Scans of what another instance changes: copies of many blocks asked for at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::Duration;

use block::BLOCK_BYTES;
use kernel::Result;
use kernel::gcs::CrCount;
use kernel::table;
use kernel::txn::{Isolation, Transaction, WorkMemory};
use observe::Stat;
use sim::Cluster;

use crate::rows::{Outcome, Session, cluster, make, run, wait};

/// The task of an instance in which copies are made that need work.
const BUILD: &str = "cr build";
const ROWS: usize = 60;
/// Two rows fill a block.
const LEN: usize = 3000;

/// Reads all rows as one statement does; how many they are, and the sum of their numbers.
async fn scan(session: &Session, memory: Option<Arc<dyn WorkMemory>>) -> Result<(usize, i64)> {
    let snap = session.now().await?;
    let mut scan = table::scan(&session.ctx, &session.def, &snap).await?;
    if let Some(memory) = memory {
        scan = scan.within(memory);
    }
    let (mut rows, mut sum) = (0, 0);
    let mut each = |row: &[u8]| {
        rows += 1;
        sum += session.number(row);
    };
    while scan.next_block(&session.ctx, |_, row| each(row)).await? {}
    Ok((rows, sum))
}

/// Instance 2 has made the table, and instance 1 has read it once: it has what nobody else uses.
fn made(cluster: &Cluster, rows: usize) -> (Session, Session, Vec<block::Rowid>) {
    let rowids = make(cluster, 2, rows, LEN);
    let [one, two] = [1, 2].map(|k| Session::new(cluster, k));
    assert_eq!(run(cluster, scan(&one, None)), (rows, 0));
    (one, two, rowids)
}

/// Copies that 2 has served, and that 1 has received.
fn copies(one: &Session, two: &Session) -> [u64; 2] {
    let (served, received) = (Stat::GcCrBlocksServed, Stat::GcCrBlocksReceived);
    [two.at.observer.stat(served), one.at.observer.stat(received)]
}

fn since(before: [u64; 2], now: [u64; 2]) -> [u64; 2] {
    [now[0] - before[0], now[1] - before[1]]
}

/// An open transaction of instance 2 that has changed one row: the copy of its block needs work.
fn change(cluster: &Cluster, two: &Session, rowid: block::Rowid) -> Arc<Transaction> {
    let txn = two.begin(Isolation::ReadCommitted);
    run(cluster, two.set(&txn, rowid, |n| n + 1, LEN));
    txn
}

/// A scan on the session's instance while instance 2 makes no copies that need work.
fn scan_held(cluster: &Cluster, one: &Session, limit: Duration) -> Outcome<(usize, i64)> {
    cluster.world.hold_tasks(2, BUILD);
    let found =
        one.another().spawn(|s| async move { scan(&s, None).await.expect("the scan reads") });
    cluster.world.run_for(limit);
    assert!(found.lock().is_none(), "a copy has not come");
    found
}

#[test]
fn a_copy_that_is_slow_takes_nothing_from_the_others_asked_for_with_it() {
    for (seed, row) in [(1, 0), (2, ROWS / 2), (3, ROWS - 1)] {
        let cluster = cluster(seed, 2);
        let (one, two, rowids) = made(&cluster, ROWS);
        let open = change(&cluster, &two, rowids[row]);
        let before = copies(&one, &two);
        assert_eq!(run(&cluster, scan(&one, None)), (ROWS, 0));
        let [all, received] = since(before, copies(&one, &two));
        assert!(all >= 20, "seed {seed}: {all} copies are no run");
        assert_eq!(received, all, "seed {seed}: each is received");

        let before = copies(&one, &two);
        let asked_before = two.at.node.served().cr(CrCount::Data);
        // Beyond the time for which all are waited for together.
        let found = scan_held(&cluster, &one, Duration::from_millis(2500));
        // Those of its run, and of the runs before.
        let asked = two.at.node.served().cr(CrCount::Data) - asked_before;
        let come = since(before, copies(&one, &two));
        assert!(asked >= 5, "seed {seed}: {asked} copies are no run");
        assert_eq!(come, [asked - 1; 2], "seed {seed}: all but one have come");
        cluster.world.release_tasks(2);
        assert_eq!(wait(&cluster, &found), (ROWS, 0), "seed {seed}");
        assert_eq!(since(before, copies(&one, &two)), [all, all], "seed {seed}: none twice");
        run(&cluster, open.rollback(&two.ctx));
    }
}

#[test]
fn h1_copies_of_a_run_that_came_before_an_epoch_change_are_not_used() {
    for seed in 1..=3 {
        let mut cluster = cluster(seed, 3);
        let (one, two, rowids) = made(&cluster, ROWS);
        // Of the block that the scan comes to first.
        let first = rowids.iter().min_by_key(|rowid| rowid.dba).expect("a row");
        let open = change(&cluster, &two, *first);
        let before = copies(&one, &two);
        let found = scan_held(&cluster, &one, Duration::from_millis(500));
        let [served, _] = since(before, copies(&one, &two));
        let epoch = one.at.node.view().epoch;
        cluster.crash(3);
        cluster.world.run_until(sim::STUCK, || one.at.node.view().epoch > epoch);
        cluster.world.release_tasks(2);
        assert_eq!(wait(&cluster, &found), (ROWS, 0), "seed {seed}");
        let [again, _] = since(before, copies(&one, &two));
        assert!(again > served + 10, "seed {seed}: {served} copies, later {again}");
        run(&cluster, open.rollback(&two.ctx));
    }
}

/// Memory for so many bytes; what is taken in any case may be more.
struct Room {
    bytes_max: usize,
    taken: AtomicUsize,
    most: AtomicUsize,
}

impl Room {
    fn new(bytes_max: usize) -> Arc<Room> {
        let (taken, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        Arc::new(Room { bytes_max, taken, most })
    }
}

impl WorkMemory for Room {
    fn try_take(&self, bytes: usize) -> bool {
        let fits = self.taken.load(SeqCst) + bytes <= self.bytes_max;
        if fits {
            self.take(bytes);
        }
        fits
    }

    fn take(&self, bytes: usize) {
        let taken = self.taken.fetch_add(bytes, SeqCst) + bytes;
        self.most.fetch_max(taken, SeqCst);
    }

    fn give_back(&self, bytes: usize) {
        self.taken.fetch_sub(bytes, SeqCst);
    }
}

#[test]
fn what_a_scan_holds_ahead_is_accounted_for_and_little_where_memory_is_short() {
    // So many that it has larger extents: runs end with them.
    const MANY: usize = 600;
    let cluster = cluster(1, 2);
    let (one, two, _) = made(&cluster, MANY);
    let scanned = |room: &Arc<Room>| {
        let before = copies(&one, &two);
        assert_eq!(run(&cluster, scan(&one, Some(room.clone()))), (MANY, 0));
        assert_eq!(room.taken.load(SeqCst), 0, "all of it is given back");
        let [served, received] = since(before, copies(&one, &two));
        assert_eq!(served, received);
        (served, room.most.load(SeqCst) / BLOCK_BYTES)
    };
    let (all, most) = scanned(&Room::new(1 << 30));
    assert!(all >= 200 && most > 50, "{all} copies, {most} at once");
    let (again, least) = scanned(&Room::new(0));
    assert_eq!(again, all, "each is brought once");
    assert_eq!(least, kernel::txn::COPIES_MAX, "as few as any statement keeps");
}
