//! Looking into the memory of the machine's other instances, instead of asking them.

use block::Scn;
use kernel::txn::{Isolation, TxStatus};
use observe::Stat;
use sim::STUCK;

use crate::rows::{Session, flush, make, run, seeing};

/// All messages that an instance has sent.
fn sent(session: &Session) -> u64 {
    let sent = [Stat::GcsMessagesSent, Stat::GesMessagesSent];
    sent.map(|s| session.at.observer.stat(s)).iter().sum()
}

/// Until each has found what the others show, and shows what it holds.
fn settle(cluster: &sim::Cluster, sessions: &[&Session]) {
    cluster.world.run_for(std::time::Duration::from_millis(100));
    for session in sessions {
        assert!(session.at.core.cache.shows(), "it shows nothing");
    }
}

/// Messages and blocks that come between two calls; horizons are told all the time.
struct Counts([u64; 4]);

fn counts(session: &Session) -> Counts {
    let stats = [
        Stat::GcCrBlocksReceived,
        Stat::GcCurrentBlocksReceived,
        Stat::TransactionEnquiries,
        Stat::GcRemoteGrants,
    ];
    Counts(stats.map(|s| session.at.observer.stat(s)))
}

#[test]
fn a_reader_looks_for_itself() {
    for seed in 1..=4 {
        let cluster = seeing(seed, 3);
        let rowid = make(&cluster, 1, 1, 100)[0];
        let [one, two] = [1, 2].map(|k| Session::new(&cluster, k));
        settle(&cluster, &[&one, &two]);
        let open = one.begin(Isolation::ReadCommitted);
        run(&cluster, one.set(&open, rowid, |_| 9, 100));
        // The undo block is new: that is structure, which is followed when it is durable (H1).
        flush(&cluster, &one);
        let before = counts(&two).0;
        let seen = || two.at.observer.stat(Stat::GcCrBlocksSeen);
        let (blocks, undo) = (seen(), two.at.observer.stat(Stat::GcUndoBlocksSeen));
        assert_eq!(run(&cluster, two.get_now(rowid)), 0, "an open transaction shows");
        assert!(two.at.observer.stat(Stat::GcUndoBlocksSeen) > undo, "it was taken back");
        run(&cluster, open.commit(&one.ctx));
        assert_eq!(run(&cluster, two.get_now(rowid)), 9, "the commit is seen at once");
        assert!(seen() >= blocks + 2, "nothing was looked at");
        assert_eq!(counts(&two).0, before, "seed {seed}: it has asked");
    }
}

/// The news of a commit needs nobody's answer: not even of an instance that hangs.
#[test]
fn a_commit_waits_for_no_answer() {
    let cluster = seeing(5, 3);
    let rowid = make(&cluster, 1, 1, 20)[0];
    let [one, two, three] = [1, 2, 3].map(|k| Session::new(&cluster, k));
    settle(&cluster, &[&one, &two, &three]);
    let open = one.begin(Isolation::ReadCommitted);
    run(&cluster, one.set(&open, rowid, |_| 5, 20));
    cluster.world.pause(3);
    let before = sent(&one);
    let scn = run(&cluster, open.commit(&one.ctx));
    cluster.world.resume(3);
    // A horizon for each of the two may have left meanwhile.
    assert!(sent(&one) <= before + 2, "it was told by message");
    for session in [&two, &three] {
        assert!(session.at.core.current_scn() >= scn);
        assert_eq!(run(&cluster, session.get_now(rowid)), 5);
    }
}

/// Enquiry and commit do not cross (H8): a reader who has seen a transaction run sees it commit
/// above its snapshot.
#[test]
fn h8_a_look_raises_the_clock_that_it_looks_at() {
    let cluster = seeing(6, 2);
    let rowid = make(&cluster, 1, 1, 20)[0];
    let [one, two] = [1, 2].map(|k| Session::new(&cluster, k));
    settle(&cluster, &[&one, &two]);
    let open = one.begin(Isolation::ReadCommitted);
    run(&cluster, one.set(&open, rowid, |_| 5, 20));
    two.at.core.clock.raise(Scn(two.at.core.current_scn().0 + 1_000_000));
    let snap = run(&cluster, two.now());
    assert!(one.at.core.current_scn() < snap.scn(), "the test proves nothing");
    let xid = open.xid().expect("it has changed something");
    let status = run(&cluster, two.at.core.status(&two.ctx, xid));
    assert_eq!(status, TxStatus::Active);
    let scn = run(&cluster, open.commit(&one.ctx));
    assert!(scn > snap.scn(), "{scn:?} lies below {:?}", snap.scn());
    assert_eq!(run(&cluster, two.get(&snap, rowid)), 0);
    assert_eq!(run(&cluster, two.get_now(rowid)), 5);
}

/// (a) What a dead instance still shows is believed by nobody once another may have the block.
#[test]
fn h1_the_memory_of_the_dead_is_not_believed() {
    for seed in 1..=6 {
        let mut cluster = seeing(seed, 3);
        let rowid = make(&cluster, 3, 1, 20)[0];
        let [one, two] = [1, 2].map(|k| Session::new(&cluster, k));
        {
            let three = Session::new(&cluster, 3);
            settle(&cluster, &[&one, &two, &three]);
            run(&cluster, three.set_committed(rowid, 7, 20));
            assert_eq!(run(&cluster, two.get_now(rowid)), 7);
        }
        cluster.crash(3);
        run(&cluster, one.set_committed(rowid, 8, 20));
        for session in [&one, &two] {
            assert_eq!(run(&cluster, session.get_now(rowid)), 8, "seed {seed}");
        }
        cluster.start(3);
        let three = Session::new(&cluster, 3);
        run(&cluster, three.set_committed(rowid, 9, 20));
        for session in [&one, &two] {
            assert_eq!(run(&cluster, session.get_now(rowid)), 9, "seed {seed}");
        }
    }
}

/// A block that nobody changes is asked for after many looks, and then shared.
#[test]
fn a_block_looked_at_often_is_shared_in_the_end() {
    let cluster = seeing(7, 2);
    let rowid = make(&cluster, 1, 1, 20)[0];
    let [one, two] = [1, 2].map(|k| Session::new(&cluster, k));
    settle(&cluster, &[&one, &two]);
    run(&cluster, one.set_committed(rowid, 3, 20));
    let has = || two.at.node.holdings().iter().any(|h| h.dba == rowid.dba);
    assert!(!has());
    let done = cluster.world.block_on_for(STUCK, async {
        for _ in 0..200 {
            assert_eq!(two.get_now(rowid).await.expect("read"), 3);
        }
    });
    assert!(done.is_some() && has(), "it is still looked at");
}
