//! Hazards between instances, each by its number in `docs/hazards.md`: joins and crashes, commits
//! under way, SCNs, rollback by an adopter, an instance that hangs.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::{Dba, InstanceNo, Mode, Rowid, Scn, itl, layout};
use kernel::dict;
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Snapshot};
use kernel::{Error, Result};
use observe::Stat;
use sim::{Cluster, STUCK, check_holders};

use crate::rows::{Outcome, Session, cluster, flush, insert_key, keyed, make, run, wait};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// (a) What an instance holds while it is alone counts when another joins: nothing is read from
/// disk that it has changed. (c) What it is doing at that moment is not lost either.
#[test]
fn c5_what_an_instance_alone_holds_and_does_counts_when_another_joins() {
    for seed in 1..=4 {
        let mut cluster = cluster(seed, 1);
        let rowids = make(&cluster, 1, 40, 500);
        let one = Session::new(&cluster, 1);
        for &rowid in &rowids {
            run(&cluster, one.set_committed(rowid, 100, 500));
        }
        assert!(one.at.core.cache.is_alone());
        let dba = rowids[0].dba;
        let held = one.at.node.holdings().into_iter().find(|h| h.dba == dba);
        assert!(held.is_some_and(|h| h.mode == Mode::X && h.dirty), "seed {seed}: {held:?}");
        // Clients that go on while the other joins.
        let stop = Arc::new(AtomicBool::new(false));
        let spawn = |session: &Session, rowids: Vec<Rowid>| {
            let stop = stop.clone();
            session.another().spawn(|s| async move {
                let mut done = 0;
                while !stop.load(Ordering::SeqCst) {
                    let rowid = rowids[done % rowids.len()];
                    let txn = s.begin(Isolation::ReadCommitted);
                    s.set(&txn, rowid, |n| n + 1, 500).await.expect("changed");
                    txn.commit(&s.ctx).await.expect("committed");
                    done += 1;
                }
                done as i64
            })
        };
        let mut clients: Vec<Outcome<i64>> = (0..4).map(|_| spawn(&one, rowids.clone())).collect();
        cluster.start(2);
        assert!(!one.at.core.cache.is_alone(), "seed {seed}: alone with a second instance open");
        let two = Session::new(&cluster, 2);
        let seen = run(&cluster, two.get_now(rowids[0]));
        assert!(seen >= 100, "seed {seed}: {seen} was read from disk");
        clients.extend((0..4).map(|_| spawn(&two, rowids.clone())));
        for _ in 0..20 {
            cluster.world.run_for(ms(5));
            check_holders(&cluster);
        }
        stop.store(true, Ordering::SeqCst);
        let done: i64 = clients.iter().map(|c| wait(&cluster, c)).sum();
        for session in [&one, &two] {
            let sum = run(&cluster, async {
                let mut sum = 0;
                let now = session.now().await?;
                for &rowid in &rowids {
                    sum += session.get(&now, rowid).await?;
                }
                Ok(sum)
            });
            assert_eq!(sum, 100 * rowids.len() as i64 + done, "seed {seed}: changes were lost");
        }
    }
}

/// (b) The last one alive is not alone while a dead instance's thread is not recovered.
#[test]
fn c5_the_survivor_of_a_crash_is_not_alone_before_recovery() {
    for seed in 1..=4 {
        let mut cluster = cluster(seed, 2);
        let rowids = make(&cluster, 1, 40, 500);
        let one = Session::new(&cluster, 1);
        for &rowid in &rowids {
            run(&cluster, one.set_committed(rowid, 1, 500));
        }
        let two = Session::new(&cluster, 2);
        for &rowid in &rowids {
            run(&cluster, two.set_committed(rowid, 2, 500));
        }
        drop(two);
        cluster.crash(2);
        let recovered = |s: &Session| s.at.observer.stat(Stat::InstanceRecoveries) > 0;
        let readers: Vec<Outcome<i64>> = rowids
            .iter()
            .map(|&rowid| {
                one.another().spawn(|s| async move {
                    s.set_committed(rowid, 3, 500).await.expect("changed");
                    s.get_now(rowid).await.expect("read")
                })
            })
            .collect();
        while !recovered(&one) {
            assert!(!one.at.core.cache.is_alone(), "seed {seed}: alone before recovery");
            cluster.world.run_for(Duration::from_micros(100));
            check_holders(&cluster);
        }
        for reader in &readers {
            assert_eq!(wait(&cluster, reader), 3, "seed {seed}");
        }
        // The other way: a thread that nobody has recovered when the first instance starts alone.
        drop(one);
        cluster.start(2);
        let two = Session::new(&cluster, 2);
        for &rowid in &rowids {
            run(&cluster, two.set_committed(rowid, 4, 500));
        }
        drop(two);
        cluster.crash(1);
        cluster.crash(2);
        cluster.start(1);
        let one = Session::new(&cluster, 1);
        assert!(one.at.core.cache.is_alone());
        for &rowid in &rowids {
            assert_eq!(run(&cluster, one.get_now(rowid)), 4, "seed {seed}");
        }
    }
}

/// A commit under way on one instance, its block wanted by another: what the other finds there is
/// neither committed nor free, whether the commit comes to its end or dies with its instance.
#[test]
fn c7_c8_a_commit_under_way_is_neither_cleaned_out_nor_overtaken_on_another_instance() {
    for crash in [false, true] {
        let mut cluster = cluster(1, 3);
        let rowid = make(&cluster, 1, 1, 20)[0];
        let (one, two) = (Session::new(&cluster, 1), Session::new(&cluster, 2));
        let txn = one.begin(Isolation::ReadCommitted);
        run(&cluster, one.set(&txn, rowid, |_| 3, 20));
        // The block may leave: its own redo is durable. That of the commit takes its time.
        flush(&cluster, &one);
        one.at.core.log.set_flush_delay_us(80_000);
        let second = two.begin(Isolation::ReadCommitted);
        let before = run(&cluster, second.snapshot(&two.ctx));
        let committed = Arc::new(AtomicBool::new(false));
        let flag = committed.clone();
        one.another().spawn(|s| async move {
            txn.commit(&s.ctx).await.expect("committed");
            flag.store(true, Ordering::SeqCst);
        });
        cluster.world.run_for(ms(5));
        let flag = committed.clone();
        let writer = two.spawn(|s| async move {
            let (seen, new, wait) = (s.row(0, 20), s.row(1, 20), LockWait::Wait);
            let (ctx, def) = (&s.ctx, &s.def);
            let change = table::update(ctx, &second, def, rowid, &before, &seen, &new, wait).await;
            let change = change.expect("it waited");
            if flag.load(Ordering::SeqCst) {
                assert_eq!(change, Change::Newer(s.row(3, 20)));
                s.set(&second, rowid, |n| n + 1, 20).await.expect("changed");
            } else {
                assert!(crash, "the row is taken before the commit is certain");
                assert_eq!(change, Change::Done);
            }
            second.commit(&s.ctx).await.expect("committed");
        });
        let flag = committed.clone();
        let reader = two.another().spawn(|s| async move {
            let seen = s.get_now(rowid).await.expect("read");
            (seen, flag.load(Ordering::SeqCst))
        });
        // The block is at the second instance, in X, with the entry as it was.
        let there =
            || two.at.node.holdings().iter().any(|h| h.dba == rowid.dba && h.mode == Mode::X);
        assert!(cluster.world.run_until(ms(40), there), "the block has not come");
        assert!(!committed.load(Ordering::SeqCst), "the flush takes 80 ms");
        run(&cluster, async {
            let open = |b: &[u8]| itl::iter(b).any(|(_, e)| e.scn == Scn::ZERO && !e.xid.is_none());
            assert!(two.at.core.cache.read(&two.ctx, rowid.dba, open).await?, "cleaned out");
            Ok(())
        });
        assert!(writer.lock().is_none(), "the row is taken while its changer commits");
        if crash {
            cluster.crash(1);
        }
        wait(&cluster, &writer);
        let (seen, was_committed) = wait(&cluster, &reader);
        assert!(seen != 3 || was_committed, "{seen} was read before the commit was certain");
        assert_eq!(run(&cluster, two.get_now(rowid)), if crash { 1 } else { 4 });
    }
}

/// A commit that nobody was told of, found in the dead thread: whatever commits later, anywhere,
/// gets a higher SCN.
#[test]
fn h8_the_scns_of_a_dead_thread_lie_below_all_later_ones() {
    for seed in 1..=3 {
        let mut cluster = cluster(seed, 3);
        let rowid = make(&cluster, 3, 1, 20)[0];
        let [one, two, three] = [1, 2, 3].map(|k| Session::new(&cluster, k));
        run(&cluster, three.set_committed(rowid, 1, 20));
        let txn = three.begin(Isolation::ReadCommitted);
        run(&cluster, three.set(&txn, rowid, |_| 2, 20));
        for k in [1, 2] {
            cluster.world.cut(k, 3);
        }
        // Its clock runs ahead; the others hear nothing of it any more.
        three.at.core.clock.raise(Scn(three.at.core.current_scn().0 + 1_000_000));
        let drawn = three.at.core.current_scn();
        three.spawn(|s| async move { txn.commit(&s.ctx).await });
        cluster.world.run_for(ms(20));
        flush(&cluster, &three);
        drop(three);
        cluster.crash(3);
        for k in [1, 2] {
            cluster.world.heal(k, 3);
        }
        let low = |s: &Session| s.at.core.current_scn() < drawn;
        assert!(low(&one) && low(&two), "seed {seed}: the test proves nothing");
        let mut later = Vec::new();
        for session in [&two, &one] {
            later.push(run(&cluster, async {
                let txn = session.begin(Isolation::ReadCommitted);
                session.set(&txn, rowid, |n| n + 10, 20).await?;
                txn.commit(&session.ctx).await
            }));
        }
        assert_eq!(run(&cluster, one.get_now(rowid)), 22, "seed {seed}");
        assert!(later.iter().all(|scn| *scn > drawn), "seed {seed}: {later:?} after {drawn}");
    }
}

/// Blocks read from disk, one by one or many at once, raise the clock to the SCN they carry.
#[test]
fn h8_a_block_read_from_disk_raises_the_clock() {
    let mut cluster = cluster(1, 1);
    let rowids = make(&cluster, 1, 40, 1500);
    for many in [false, true] {
        let one = Session::new(&cluster, 1);
        let high = run(&cluster, async {
            let cache = &one.at.core.cache;
            cache.checkpoint_all(&one.ctx, one.at.me).await?;
            let high = Scn(one.at.core.current_scn().0 + 1_000_000);
            let mut blocks: Vec<Dba> = rowids.iter().map(|r| r.dba).collect();
            blocks.dedup();
            for &dba in &blocks {
                let mut image = cache.read_block(&one.ctx, dba).await?;
                layout::set_scn(&mut image, high);
                layout::seal(&mut image);
                let written = one.at.group.write_blocks(dba.file, dba.block, image).await;
                written.map_err(|e| Error::Disk(e.to_string()))?;
            }
            Ok(high)
        });
        drop(one);
        cluster.stop(1);
        cluster.start(1);
        let one = Session::new(&cluster, 1);
        let clock = one.at.core.current_scn();
        assert!(clock < high, "the test proves nothing: {clock}, {high}, {many}");
        run(&cluster, async {
            let now = one.now().await?;
            if many {
                let multi = || one.at.observer.stat(Stat::PhysicalReadMultiRequests);
                let before = multi();
                let mut scan = table::scan(&one.ctx, &one.def, &now).await?;
                while scan.next_block(&one.ctx, |_, _| ()).await? {}
                assert!(multi() > before, "the blocks were read one by one");
            } else {
                one.get(&now, rowids[0]).await?;
            }
            let clock = one.at.core.current_scn();
            assert!(clock >= high, "the clock is at {clock}, the blocks read at {high}");
            Ok(())
        });
    }
}

/// Two instances; rows that were 0 at the snapshot of the second one, and that a transaction of the
/// first one has made 1. Instance 1 was restarted: it knows of the transactions whose slots have
/// been used anew only by when they had ended at the latest.
fn forgotten_commit() -> (Cluster, Session, Snapshot, Vec<Rowid>) {
    let mut cluster = cluster(1, 2);
    // More blocks than a commit cleans out, so that some are left to their readers.
    let mut rowids = make(&cluster, 1, 600, 900);
    let busy = rowids.pop().expect("rows");
    let (one, two) = (Session::new(&cluster, 1), Session::new(&cluster, 2));
    let old = run(&cluster, async {
        let old = two.now().await?;
        let txn = one.begin(Isolation::ReadCommitted);
        for &rowid in &rowids {
            one.set(&txn, rowid, |_| 1, 900).await?;
        }
        txn.commit(&one.ctx).await?;
        // Until its slot has been used anew.
        for n in 0..3000 {
            one.set_committed(busy, n, 10).await?;
        }
        // As long as it remembers, it tells.
        assert_eq!(two.get(&old, rowids[0]).await?, 0);
        Ok(old)
    });
    drop(one);
    cluster.stop(1);
    cluster.start(1);
    (cluster, two, old, rowids)
}

/// How many of the rows the old snapshot cannot see; of all others it sees 0.
async fn too_old(two: &Session, old: &Snapshot, rowids: &[Rowid]) -> Result<usize> {
    let mut too_old = 0;
    for &rowid in rowids {
        match two.get(old, rowid).await {
            Ok(n) => assert_eq!(n, 0, "row {rowid}"),
            Err(Error::SnapshotTooOld(_)) => too_old += 1,
            Err(e) => return Err(e),
        }
    }
    Ok(too_old)
}

#[test]
fn h2_a_commit_known_by_a_bound_only_is_visible_or_too_old() {
    let (cluster, two, old, rowids) = forgotten_commit();
    run(&cluster, async {
        let new = two.now().await?;
        let too_old = too_old(&two, &old, &rowids).await?;
        for &rowid in &rowids {
            assert_eq!(two.get(&new, rowid).await?, 1);
        }
        assert!(too_old > 0, "no commit was forgotten: the test proves nothing");
        Ok(())
    });
}

/// Its entry may be taken over while there are snapshots below the bound: who takes the change back
/// finds the bound, marked as one.
#[test]
fn h2_an_entry_known_by_a_bound_is_taken_over_and_remains_a_bound() {
    let (cluster, two, old, rowids) = forgotten_commit();
    let one = Session::new(&cluster, 1);
    run(&cluster, async {
        let new = two.now().await?;
        let txn = one.begin(Isolation::ReadCommitted);
        for &rowid in &rowids {
            one.set(&txn, rowid, |_| 2, 900).await?;
        }
        let active = too_old(&two, &old, &rowids).await?;
        for &rowid in &rowids {
            assert_eq!(two.get(&new, rowid).await?, 1, "row {rowid} of an active transaction");
        }
        txn.rollback(&one.ctx).await?;
        for &rowid in &rowids {
            assert_eq!(two.get(&new, rowid).await?, 1, "row {rowid} after a rollback");
            one.set_committed(rowid, 3, 900).await?;
            assert_eq!(two.get(&new, rowid).await?, 1, "row {rowid} changed since");
        }
        let later = two.now().await?;
        let changed = too_old(&two, &old, &rowids).await?;
        for &rowid in &rowids {
            assert_eq!(two.get(&later, rowid).await?, 3);
        }
        assert!(active > 0 && changed > 0, "no commit was forgotten: the test proves nothing");
        Ok(())
    });
}

/// Whoever asks for a transaction's state first raises its owner's clock: if it is told "active",
/// the commit gets a higher SCN than the asker's snapshot has.
#[test]
fn h8_an_enquiry_raises_the_owners_clock() {
    let cluster = cluster(1, 2);
    let rowid = make(&cluster, 1, 1, 20)[0];
    let (one, two) = (Session::new(&cluster, 1), Session::new(&cluster, 2));
    let txn = one.begin(Isolation::ReadCommitted);
    run(&cluster, one.set(&txn, rowid, |_| 1, 20));
    flush(&cluster, &one);
    let ahead = Scn(two.at.core.current_scn().0 + 1_000_000);
    two.at.core.clock.raise(ahead);
    let (snap, seen) = run(&cluster, async {
        let snap = two.now().await?;
        let seen = two.get(&snap, rowid).await?;
        Ok((snap, seen))
    });
    assert!(snap.scn() >= ahead && seen == 0);
    let scn = run(&cluster, txn.commit(&one.ctx));
    assert!(scn > snap.scn(), "{scn} committed after a snapshot at {} was taken", snap.scn());
    assert_eq!(run(&cluster, two.get(&snap, rowid)), 0, "a torn read");
}

/// Splits of the same leaves and migrations out of the same blocks, on two and three instances at
/// once, each with several blocks in X: nobody waits for ever, and blocks do not merely bounce.
#[test]
fn h15_splits_and_migrations_on_several_instances_make_progress() {
    const ROUNDS: u64 = 15;
    for (seed, instances) in [(1, 2u8), (2, 3), (3, 3)] {
        let cluster = cluster(seed, instances);
        let rowids = Arc::new(make(&cluster, 1, 12, 400));
        let def = run(&cluster, keyed(&Session::new(&cluster, 1)));
        let mut clients: Vec<Outcome<()>> = Vec::new();
        for (i, k) in (1..=instances).flat_map(|k| [k; 6]).enumerate() {
            let (rowids, def) = (rowids.clone(), def.clone());
            let everybody = u64::from(instances) * 6;
            let me = i as u64;
            clients.push(Session::new(&cluster, k).spawn(|s| async move {
                let txn = s.begin(Isolation::ReadCommitted);
                let def = dict::table_by_obj(&s.ctx, &txn, def.obj).await.expect("a look-up");
                let def = def.expect("it is there");
                for round in 0..ROUNDS {
                    // Neighbouring keys from everybody, so that all want to split the same leaf.
                    let txn = s.begin(Isolation::ReadCommitted);
                    for n in 0..4 {
                        let n = (round * 4 + n) * everybody + me;
                        insert_key(&s, &txn, &def, n, 2000).await.expect("inserted");
                    }
                    txn.commit(&s.ctx).await.expect("committed");
                    // A row that outgrows its block, or comes back to it.
                    let rowid = rowids[((round * everybody + me) % 12) as usize];
                    let len = [400, 2500, 5000, 900][(round % 4) as usize];
                    let txn = s.begin(Isolation::ReadCommitted);
                    s.set(&txn, rowid, |n| n + 1, len).await.expect("changed");
                    txn.commit(&s.ctx).await.expect("committed");
                }
            }));
        }
        let began = cluster.world.now();
        let done = || clients.iter().all(|c| c.lock().is_some());
        while !cluster.world.run_until(ms(20), done) {
            check_holders(&cluster);
            let took_us = cluster.world.now().since(began);
            if took_us > 10_000_000 {
                cluster.print_alerts();
                panic!("seed {seed}: no end after {took_us} us");
            }
        }
        let one = Session::new(&cluster, 1);
        let stat = |s: Stat| cluster.open.values().map(|i| i.observer.stat(s)).sum::<u64>();
        assert!(stat(Stat::LeafSplits) > 20, "seed {seed}: {} splits", stat(Stat::LeafSplits));
        let moved = stat(Stat::GcCurrentBlocksServed);
        let changes = ROUNDS * 5 * u64::from(instances) * 6;
        assert!(moved < changes * 20, "seed {seed}: {moved} transfers for {changes} changes");
        let sum = run(&cluster, async {
            let (now, mut sum) = (one.now().await?, 0);
            for &rowid in rowids.iter() {
                sum += one.get(&now, rowid).await?;
            }
            Ok(sum)
        });
        assert_eq!(sum.unsigned_abs(), ROUNDS * u64::from(instances) * 6, "seed {seed}");
    }
}

/// An instance comes back while another rolls its transactions back: its undo segments return to it
/// only when nothing in them is active, and never have two owners.
#[test]
fn h22_a_restarted_instance_gets_its_undo_back_when_nothing_in_it_is_active() {
    for seed in 1..=3 {
        let mut cluster = cluster(seed, 3);
        let rowids = make(&cluster, 1, 1200, 3000);
        {
            let three = Session::new(&cluster, 3);
            let dead = three.begin(Isolation::ReadCommitted);
            run(&cluster, async {
                for &rowid in &rowids {
                    three.set(&dead, rowid, |_| -1, 3000).await?;
                }
                Ok(())
            });
            flush(&cluster, &three);
            std::mem::forget(dead);
        }
        // Waits for the dead one's row, over crash and restart.
        let two = Session::new(&cluster, 2);
        let last = *rowids.last().expect("rows");
        let waiter = two.another().spawn(|s| async move {
            let txn = s.begin(Isolation::ReadCommitted);
            s.set(&txn, last, |n| n + 1, 3000).await.expect("changed");
            txn.commit(&s.ctx).await.expect("committed");
        });
        cluster.world.run_for(ms(20));
        assert!(waiter.lock().is_none(), "the row is locked");
        cluster.crash(3);
        let one = Session::new(&cluster, 1);
        let left = |s: &Session| -> usize {
            s.at.core.all_segments().iter().map(|g| g.left_by_crash().len()).sum()
        };
        let adopted = || one.at.core.segment(21).is_some();
        assert!(cluster.world.run_until(STUCK, adopted), "seed {seed}: nobody adopts");
        assert!(left(&one) > 0, "seed {seed}: the test comes too late");
        cluster.start(3);
        let three = Session::new(&cluster, 3);
        for usn in 21..=30 {
            let owners = [&one, &two, &three];
            let owners: Vec<InstanceNo> = owners
                .iter()
                .filter(|s| s.at.core.segment(usn).is_some())
                .map(|s| s.at.me)
                .collect();
            assert_eq!(owners, [InstanceNo(3)], "seed {seed}: owners of segment {usn}");
        }
        assert_eq!(left(&three), 0, "seed {seed}: it came back to what was still active");
        wait(&cluster, &waiter);
        // New transactions use the segments; everybody asks the right instance for them.
        for &rowid in &rowids[..20] {
            run(&cluster, three.set_committed(rowid, 7, 3000));
        }
        for session in [&one, &two, &three] {
            run(&cluster, async {
                let now = session.now().await?;
                for (i, &rowid) in rowids.iter().enumerate() {
                    let wanted = match i {
                        0..20 => 7,
                        1199 => 1,
                        _ => 0,
                    };
                    assert_eq!(session.get(&now, rowid).await?, wanted, "seed {seed}: row {i}");
                }
                Ok(())
            });
        }
    }
}

/// A hanging instance acknowledges no commit: commits stand until it has been put out, no longer,
/// and none is acknowledged without it.
#[test]
fn m6_commits_stand_until_a_hanging_instance_is_put_out() {
    let mut cluster = cluster(1, 0);
    cluster.membership.misscount = ms(400);
    cluster.membership.heartbeat = ms(40);
    (1..=3).for_each(|k| cluster.start(k));
    let rowid = make(&cluster, 1, 1, 20)[0];
    let one = Session::new(&cluster, 1);
    run(&cluster, one.set_committed(rowid, 1, 20));
    let txn = one.begin(Isolation::ReadCommitted);
    run(&cluster, one.set(&txn, rowid, |_| 2, 20));
    cluster.world.pause(3);
    let began = cluster.world.now();
    let commit = one.another().spawn(|s| async move {
        txn.commit(&s.ctx).await.expect("committed");
        s.at.node.view().members.clone()
    });
    cluster.world.run_for(ms(150));
    assert!(commit.lock().is_none(), "acknowledged while a member had not heard of it");
    let members = wait(&cluster, &commit);
    let took_us = cluster.world.now().since(began);
    assert_eq!(members, [InstanceNo(1), InstanceNo(2)], "committed before it was put out");
    assert!(took_us < 2_000_000, "commits stood for {took_us} us");
    cluster.world.resume(3);
    cluster.world.run_for(ms(50));
    assert!(!cluster.world.is_alive(3), "it goes on after it was put out");
    cluster.crash(3);
    let two = Session::new(&cluster, 2);
    assert_eq!(run(&cluster, two.get_now(rowid)), 2);
    let began = cluster.world.now();
    run(&cluster, two.set_committed(rowid, 3, 20));
    assert!(cluster.world.now().since(began) < 100_000, "commits go on");
}
