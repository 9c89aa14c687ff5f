//! Blocks that are made anew in a cluster: they are not read, what is made of them outlives a crash
//! with their former life on disk, and who looks for that life finds it or is refused.

use std::collections::BTreeSet;
use std::time::Duration;

use block::{Dba, Rowid, Scn};
use kernel::dict::{self, TableDef};
use kernel::table;
use kernel::txn::Isolation;
use kernel::{Error, Result};
use observe::{Stat, WaitEvent};
use sim::{Cluster, STUCK, check_holders};

use crate::rows::{Session, cluster, insert_key, keyed, make, run, wait};

/// A file map, the header of a segment: blocks that were there before.
const OLD_BLOCKS_MAX: u64 = 8;

/// Inserts rows of this number in one transaction.
async fn fill(session: &Session, n: i64, count: usize, len: usize) -> Result<Vec<Rowid>> {
    let txn = session.begin(Isolation::ReadCommitted);
    let mut rowids = Vec::with_capacity(count);
    for _ in 0..count {
        let row = session.row(n, len);
        rowids.push(table::insert(&session.ctx, &txn, &session.def, &row).await?);
    }
    txn.commit(&session.ctx).await?;
    Ok(rowids)
}

/// Inserts ten rows into each table: into `u`, which is `def`, with keys from `first` on.
async fn insert_tens(session: &Session, def: &TableDef, first: u64) -> Result<Vec<Rowid>> {
    let rowids = fill(session, 7, 10, 700).await?;
    let txn = session.begin(Isolation::ReadCommitted);
    for n in first..first + 10 {
        insert_key(session, &txn, def, n, 1).await?;
    }
    txn.commit(&session.ctx).await?;
    Ok(rowids)
}

fn blocks_of(rowids: &[Rowid]) -> BTreeSet<Dba> {
    rowids.iter().map(|rowid| rowid.dba).collect()
}

/// Blocks read, and waits for single ones.
fn reads(session: &Session) -> [u64; 2] {
    let observer = &session.at.observer;
    let events = observer.system_events();
    let single = events.iter().filter(|row| row.event == WaitEvent::DbFileSequentialRead);
    [observer.stat(Stat::PhysicalReads), single.map(|row| row.all.waits).sum()]
}

/// Closes all instances and opens them again: nobody has a block.
fn reopen(cluster: &mut Cluster, n: u8) {
    (1..=n).for_each(|k| cluster.stop(k));
    (1..=n).for_each(|k| cluster.start(k));
}

#[test]
fn blocks_made_anew_are_not_read() {
    for seed in 1..=3 {
        let cluster = cluster(seed, 2);
        make(&cluster, 1, 1, 700);
        let both = [1, 2].map(|k| Session::new(&cluster, k));
        let def = run(&cluster, keyed(&both[0]));
        // What there is of the segments and the files' space is known afterwards.
        for (session, first) in both.iter().zip([0, 1000]) {
            run(&cluster, insert_tens(session, &def, first));
        }
        let splits = || -> u64 { both.iter().map(|s| s.at.observer.stat(Stat::LeafSplits)).sum() };
        let (before, splits_before) = (both.each_ref().map(reads), splits());
        let mut rowids = Vec::new();
        for round in 1..=15 {
            for (session, first) in both.iter().zip([0, 1000]) {
                let keys = first + 10 * round;
                rowids.extend(run(&cluster, insert_tens(session, &def, keys)));
            }
        }
        let new = blocks_of(&rowids).len() as u64 + splits() - splits_before;
        assert!(new > 4 * OLD_BLOCKS_MAX, "seed {seed}: only {new} blocks are new");
        for (session, before) in both.iter().zip(before) {
            let now = reads(session);
            let [blocks, waits] = [now[0] - before[0], now[1] - before[1]];
            assert!(
                blocks <= OLD_BLOCKS_MAX && waits <= OLD_BLOCKS_MAX,
                "seed {seed}: {blocks} blocks read, {waits} waits; {new} are new"
            );
        }
        check_holders(&cluster);
        for session in &both {
            for &rowid in &rowids {
                assert_eq!(run(&cluster, session.get_now(rowid)), 7, "seed {seed}: row {rowid}");
            }
        }
    }
}

/// The blocks have high versions in their former life, which is what disk has of them when the
/// instance dies that has made them anew without having looked; also in the midst of that.
#[test]
fn c10_a_block_made_anew_unread_keeps_its_redo() {
    for seed in 1..=4 {
        for nobody_survives in [false, true] {
            let mut cluster = cluster(seed, 2);
            let former = make(&cluster, 1, 300, 700);
            let one = Session::new(&cluster, 1);
            for &rowid in &former {
                run(&cluster, one.set_committed(rowid, 1, 700));
            }
            run(&cluster, async {
                let txn = one.begin(Isolation::ReadCommitted);
                dict::drop_table(&one.ctx, &txn, &one.def).await?;
                txn.commit(&one.ctx).await
            });
            drop(one);
            cluster.world.run_for(Duration::from_millis(200));
            reopen(&mut cluster, 2);
            make(&cluster, 2, 1, 700);
            let two = Session::new(&cluster, 2);
            let before = reads(&two)[0];
            let rowids = run(&cluster, fill(&two, 5, 300, 700));
            let read = reads(&two)[0] - before;
            assert!(read <= OLD_BLOCKS_MAX, "seed {seed}: {read} blocks were read");
            let again = blocks_of(&former).intersection(&blocks_of(&rowids)).count();
            assert!(again > 10, "seed {seed}: {again} blocks have a former life");
            two.spawn(|s| async move { while fill(&s, 6, 20, 700).await.is_ok() {} });
            cluster.world.run_for(Duration::from_micros(seed * 1_700));
            drop(two);
            cluster.crash(2);
            if nobody_survives {
                cluster.crash(1);
                cluster.start(1);
            }
            let one = Session::new(&cluster, 1);
            for &rowid in &rowids {
                assert_eq!(run(&cluster, one.get_now(rowid)), 5, "seed {seed}: row {rowid}");
            }
            let more = run(&cluster, fill(&one, 8, 100, 700));
            for &rowid in &more {
                assert_eq!(run(&cluster, one.get_now(rowid)), 8, "seed {seed}: row {rowid}");
            }
            check_holders(&cluster);
            drop(one);
            // The dead instance's last transaction is rolled back.
            cluster.world.run_for(Duration::from_secs(2));
            cluster.stop(1);
            cluster.check_disks("after blocks were made anew");
        }
    }
}

/// What is made anew unread must get a version above those that an instance gave which has left
/// in order, though it may have said nothing since: only its thread tells.
#[test]
fn c10_the_scns_of_who_has_left_in_order_are_known() {
    for (seed, instances) in [(1, 2), (2, 3), (3, 3)] {
        let mut cluster = cluster(seed, instances);
        make(&cluster, 1, 1, 700);
        let two = cluster.open[&2].clone();
        let last = Scn(two.core.clock.current().0 + 1_000_000);
        two.core.clock.raise(last);
        drop(two);
        cluster.stop(2);
        // The others notice, and look at its thread.
        cluster.world.run_for(Duration::from_secs(2));
        let one = Session::new(&cluster, 1);
        run(&cluster, fill(&one, 5, 100, 700));
        for (k, instance) in &cluster.open {
            let known = instance.core.clock.current();
            assert!(known >= last, "seed {seed}: instance {k} is at {known:?}, not {last:?}");
        }
    }
}

/// A reader looks, by an old snapshot, for the rows of a table that has been truncated, while its
/// blocks become those of a heap and of an index elsewhere: an empty block would say that there
/// never was such a row.
#[test]
fn h20_the_former_life_of_a_block_made_anew_is_seen_or_refused() {
    for seed in 1..=4 {
        let mut cluster = cluster(seed, 2);
        let former = make(&cluster, 1, 300, 700);
        reopen(&mut cluster, 2);
        let [one, two] = [1, 2].map(|k| Session::new(&cluster, k));
        let snap = run(&cluster, two.now());
        let u = run(&cluster, async {
            let u = keyed(&one).await?;
            let txn = one.begin(Isolation::ReadCommitted);
            dict::truncate_table(&one.ctx, &txn, &one.def).await?;
            txn.commit(&one.ctx).await?;
            Ok(u)
        });
        cluster.world.run_for(Duration::from_millis(50));
        let filling = Session::new(&cluster, 1).spawn(|s| async move {
            let mut rowids = Vec::new();
            for round in 0..20 {
                rowids.extend(fill(&s, 1, 20, 700).await.expect("inserted"));
                let txn = s.begin(Isolation::ReadCommitted);
                for n in 20 * round..20 * round + 20 {
                    insert_key(&s, &txn, &u, n, 1).await.expect("inserted");
                }
                txn.commit(&s.ctx).await.expect("committed");
            }
            rowids
        });
        let (mut seen, mut refused) = (0, 0);
        let mut look = |rowid: Rowid| {
            let mut row = Vec::new();
            let fetch = table::fetch(&two.ctx, &two.def, rowid, &snap, &mut row);
            match cluster.world.block_on_for(STUCK, fetch).expect("no hang") {
                Ok(true) => {
                    assert_eq!(two.number(&row), 0, "seed {seed}: a row of later");
                    seen += 1;
                }
                Ok(false) => panic!("seed {seed}: there is no row {rowid}"),
                Err(Error::SnapshotTooOld(_) | Error::ObjectGone) => refused += 1,
                Err(e) => panic!("seed {seed}: row {rowid}: {e}"),
            }
            cluster.world.run_for(Duration::from_micros(20));
        };
        let mut at = 0;
        while filling.lock().is_none() {
            look(former[at * 37 % former.len()]);
            at += 1;
        }
        former.iter().for_each(|&rowid| look(rowid));
        assert!(seen > 0 && refused > 0, "seed {seed}: {seen} rows seen, {refused} refused");
        let rowids = wait(&cluster, &filling);
        let new = Session::new(&cluster, 2);
        for rowid in rowids {
            assert_eq!(run(&cluster, new.get_now(rowid)), 1, "seed {seed}: row {rowid}");
        }
    }
}
