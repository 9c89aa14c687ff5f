//! What instances count of the blocks that go from one to another. Invariants: once nothing is
//! under way, what all have served is what all have received, by kind; a statistic and a view that
//! count the same thing have the same number.

use std::sync::Arc;
use std::time::Duration;

use kernel::gcs::CrCount;
use kernel::txn::Isolation;
use observe::{Stat, TransferKind};
use sim::Cluster;

use crate::rows::{Session, cluster, flush, make, make_in_one_block, run, wait};

/// The task of an instance in which copies are made that need work.
const BUILD: &str = "cr build";

fn sum(cluster: &Cluster, stat: Stat) -> u64 {
    cluster.open.values().map(|i| i.observer.stat(stat)).sum()
}

/// Blocks of one kind that have come to an instance, and their time, by the instances that sent
/// them.
fn transfers(session: &Session, kind: TransferKind) -> (u64, u64) {
    let rows = session.at.observer.block_waits.rows();
    let of_kind = rows.iter().filter(|row| row.kind == kind);
    of_kind.fold((0, 0), |(n, us), row| (n + row.totals.blocks(), us + row.totals.total_us))
}

#[test]
fn every_block_served_is_received_once() {
    for seed in 1..=3 {
        let cluster = cluster(seed, 3);
        let rowids = Arc::new(make_in_one_block(&cluster, 1, 6, 100));
        let sessions = [1, 2, 3].map(|k| Session::new(&cluster, k));
        let clients: Vec<_> = (0..6)
            .map(|n: usize| {
                let rowids = rowids.clone();
                sessions[n % 3].another().spawn(move |s| async move {
                    for round in 1..=20 {
                        // Another's row, so that some of them share the block before they ask for
                        // it alone.
                        s.get_now(rowids[(n + 1) % 6]).await.expect("a row");
                        s.set_committed(rowids[n], round, 100).await.expect("a change");
                    }
                })
            })
            .collect();
        clients.iter().for_each(|client| wait(&cluster, client));
        cluster.world.run_for(Duration::from_millis(200));

        let served = sum(&cluster, Stat::GcCurrentBlocksServed);
        assert!(served > 20, "seed {seed}: {served} blocks: nobody wants what another has");
        assert_eq!(served, sum(&cluster, Stat::GcCurrentBlocksReceived), "seed {seed}: current");
        let copies = sum(&cluster, Stat::GcCrBlocksServed);
        let received = sum(&cluster, Stat::GcCrBlocksReceived);
        assert!(copies > 0, "seed {seed}: no copy");
        let twice = sum(&cluster, Stat::GcBlocksUnasked);
        assert_eq!(copies, received + twice, "seed {seed}: copies");
        for session in &sessions {
            same_in_views(session);
        }
    }
}

/// What an instance counts in two places is the same in both.
fn same_in_views(session: &Session) {
    let stat = |stat| session.at.observer.stat(stat);
    let current = (Stat::GcCurrentBlocksReceived, Stat::GcCurrentReceiveTime);
    let copies = (Stat::GcCrBlocksReceived, Stat::GcCrReceiveTime);
    for (kind, (blocks, time)) in [(TransferKind::Current, current), (TransferKind::Cr, copies)] {
        assert_eq!(transfers(session, kind), (stat(blocks), stat(time)), "{kind:?}");
    }
    let served = session.at.node.served();
    assert_eq!(served.pins().iter().sum::<u64>(), stat(Stat::GcCurrentBlocksServed));
    assert_eq!(served.flushes().iter().sum::<u64>(), stat(Stat::GcCurrentFlushes));
    assert_eq!(served.cr(CrCount::Flushes), stat(Stat::GcCrFlushes));
}

#[test]
fn a_block_whose_asker_has_gone_is_received_and_its_time_counts() {
    let cluster = cluster(1, 2);
    let rowids = make_in_one_block(&cluster, 1, 2, 100);
    let [one, two] = [1, 2].map(|k| Session::new(&cluster, k));
    flush(&cluster, &one);
    one.at.core.log.set_flush_delay_us(60_000);
    // The block leaves when this is durable.
    let open = one.begin(Isolation::ReadCommitted);
    run(&cluster, one.set(&open, rowids[0], |_| 1, 100));
    let counts = || {
        let stats = [Stat::GcCurrentBlocksReceived, Stat::GcCurrentReceiveTime];
        stats.map(|stat| two.at.observer.stat(stat))
    };
    let before = counts();
    let asker = two.another();
    let rowid = rowids[1];
    let gone = asker.spawn(move |s| async move {
        let txn = s.begin(Isolation::ReadCommitted);
        let changed = s.set(&txn, rowid, |n| n + 1, 100).await;
        txn.rollback(&s.ctx).await.expect("nothing to take back");
        changed.is_err()
    });
    cluster.world.run_for(Duration::from_millis(20));
    assert_eq!(counts(), before, "the flush takes 60 ms");
    asker.ctx.session.cancel_flag().cancel();
    drop(asker);
    assert!(wait(&cluster, &gone), "it was cancelled");
    assert_eq!(counts(), before, "it has gone before the block came");
    cluster.world.run_for(Duration::from_millis(200));
    let [blocks, us] = [0, 1].map(|i| counts()[i] - before[i]);
    assert_eq!(blocks, 1);
    assert!(us >= 40_000, "{us} us from the question to the block");
    one.at.core.log.set_flush_delay_us(0);
    run(&cluster, open.rollback(&one.ctx));
}

#[test]
fn a_copy_that_comes_twice_is_received_once() {
    let cluster = cluster(4, 2);
    let rowid = make(&cluster, 2, 2, 100)[0];
    let [one, two] = [1, 2].map(|k| Session::new(&cluster, k));
    let open = two.begin(Isolation::ReadCommitted);
    run(&cluster, two.set(&open, rowid, |n| n + 1, 100));
    let counts = || {
        let received = [Stat::GcCrBlocksReceived, Stat::GcBlocksUnasked];
        let [once, twice] = received.map(|stat| one.at.observer.stat(stat));
        [two.at.observer.stat(Stat::GcCrBlocksServed), once, twice]
    };
    let before = counts();
    cluster.world.hold_tasks(2, BUILD);
    let found =
        one.another().spawn(move |s| async move { s.get_now(rowid).await.expect("it reads") });
    // Beyond the time after which the question is said again.
    cluster.world.run_for(Duration::from_millis(2500));
    assert_eq!(counts(), before, "what is not made is not served");
    cluster.world.release_tasks(2);
    assert_eq!(wait(&cluster, &found), 0);
    cluster.world.run_for(Duration::from_millis(100));
    let since: Vec<u64> = counts().iter().zip(before).map(|(now, then)| now - then).collect();
    assert_eq!(since, [2, 1, 1], "served, received, and received a second time");
    run(&cluster, open.rollback(&two.ctx));
}
