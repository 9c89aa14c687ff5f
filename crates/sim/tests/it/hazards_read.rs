//! Hazards of consistent copies between instances, each by its number in `docs/hazards.md`.

use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use block::{BLOCK_BYTES, Dba, Mode, ObjId, Scn, UndoNo, Xid, layout, undo};
use kernel::Error;
use kernel::table::{self, Direction};
use kernel::txn::{Isolation, Snapshot, Transaction, TxStatus};
use kernel::undo::UNDO_FILE;
use observe::{Stat, TransferClass, TransferKind};
use sim::Cluster;

use crate::rows::{
    Outcome, Session, cluster, flush, insert_key, keyed, make, make_in_one_block, run, wait,
};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// (a) Structure is not undone: a copy of a block that has just been split is sent when the split
/// is durable. A copy of one that has merely been changed is sent at once.
#[test]
fn h1_a_copy_waits_for_the_flush_of_a_structural_change_and_of_no_other() {
    let cluster = cluster(1, 2);
    make(&cluster, 1, 1, 1);
    let (one, two) = (Session::new(&cluster, 1), Session::new(&cluster, 2));
    let def = run(&cluster, keyed(&one));
    let stat = |stat| one.at.observer.stat(stat);
    let log = one.at.core.log.clone();
    let insert = |txn: &Arc<Transaction>, n| run(&cluster, insert_key(&one, txn, &def, n, 1));
    let filling = one.begin(Isolation::ReadCommitted);
    (1..=200).for_each(|n| insert(&filling, 10 * n));
    run(&cluster, filling.commit(&one.ctx));
    let index = def.primary_key().expect("a primary key");
    let open = one.begin(Isolation::ReadCommitted);
    let (mut split, mut changed) = (0, 0);
    for n in 1..=9 {
        // A reader has come through the first leaf, and knows where the next one is. That is
        // changed now on the other instance: it has room for the entry, or must be split.
        let snap = run(&cluster, two.now());
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = table::index_range(&two.ctx, index, low, high, Direction::Forward, &snap);
        let mut entries = 0;
        assert!(run(&cluster, scan.next_leaf(&two.ctx, |_, _| entries += 1)));
        flush(&cluster, &one);
        one.at.core.log.set_flush_delay_us(60_000);
        let (from, splits) = (log.next(), stat(Stat::LeafSplits));
        insert(&open, 10 * (entries + 3) + n);
        assert!(log.durable() <= from, "the flush takes 60 ms");
        let copies = two.at.observer.stat(Stat::GcCrBlocksReceived);
        assert!(run(&cluster, scan.next_leaf(&two.ctx, |_, _| ())));
        assert!(two.at.observer.stat(Stat::GcCrBlocksReceived) > copies, "no copy was sent");
        if stat(Stat::LeafSplits) > splits {
            assert!(log.durable() > from, "a copy was sent before its split was durable");
            split += 1;
        } else {
            assert!(log.durable() <= from, "a copy has waited for an ordinary change");
            changed += 1;
        }
        one.at.core.log.set_flush_delay_us(0);
    }
    assert!(split > 0 && changed > 0, "{split} splits, {changed} other changes");
}

/// (b) What was copied from an instance that has died since is not used on: it is made anew.
#[test]
fn h1_copies_made_before_an_epoch_change_are_thrown_away() {
    let mut cluster = cluster(2, 3);
    let rowid = make(&cluster, 1, 3, 100)[0];
    let (one, two) = (Session::new(&cluster, 1), Session::new(&cluster, 2));
    let open = one.begin(Isolation::ReadCommitted);
    run(&cluster, one.set(&open, rowid, |_| 9, 100));
    let again = || two.at.observer.stat(Stat::CrCopiesUsedAgain);
    let snap = run(&cluster, two.now());
    assert_eq!(run(&cluster, two.get(&snap, rowid)), 0);
    let used = again();
    assert_eq!(run(&cluster, two.get(&snap, rowid)), 0);
    assert_eq!(again(), used + 1, "the statement keeps its copy");
    let epoch = two.at.node.view().epoch;
    cluster.crash(3);
    let entered = || two.at.node.view().epoch > epoch;
    assert!(cluster.world.run_until(sim::STUCK, entered));
    let received = || two.at.observer.stat(Stat::GcCrBlocksReceived);
    let (used, copies) = (again(), received());
    assert_eq!(run(&cluster, two.get(&snap, rowid)), 0);
    assert_eq!(again(), used, "a copy of an earlier epoch is used");
    assert!(received() > copies, "the copy was not made anew");
}

/// (b) An undo record that belongs to another transaction, or is another one of the same, is not
/// applied: the reader looks for the right one.
#[test]
fn h1_an_undo_record_of_another_transaction_or_number_is_not_applied() {
    let cluster = cluster(3, 2);
    let rowid = make(&cluster, 1, 3, 100)[0];
    let (one, two) = (Session::new(&cluster, 1), Session::new(&cluster, 2));
    let open = one.begin(Isolation::ReadCommitted);
    // So many changes that the holder does not take back all of them for the reader.
    for n in 1..=200 {
        run(&cluster, one.set(&open, rowid, |_| n, 100));
    }
    let xid = open.xid().expect("it has changed something");
    // Where the record is, and that block as it would be had it been used anew.
    let cache = one.at.core.cache.clone();
    let mut undo_blocks = Vec::new();
    for line in cache.buffer_rows().iter().filter(|r| r.dba.file == UNDO_FILE) {
        if !line.content.is_some_and(|c| c.0 == layout::Kind::Undo) {
            continue;
        }
        let copy = |b: &[u8]| undo::last_of(b, xid).map(|_| b.to_vec());
        let image = run(&cluster, cache.read(&one.ctx, line.dba, copy));
        undo_blocks.extend(image.map(|i| (line.dba, i)));
    }
    assert!(!undo_blocks.is_empty(), "its undo is somewhere");
    // Each record with the next one's inverse, which would give a wrong row, and one more thing
    // that is not as the reader expects it.
    let forge = |change: &dyn Fn(&mut undo::UndoRecord)| -> Vec<(Dba, Arc<Vec<u8>>)> {
        let forged = |dba: Dba, image: &[u8]| {
            let count = undo::record_count(image);
            let records: Vec<undo::UndoRecord> = (0..count)
                .map(|n| undo::record(image, n).expect("a record"))
                .map(|bytes| undo::UndoRecord::decode(bytes).expect("a record"))
                .collect();
            let mut block = vec![0; BLOCK_BYTES];
            layout::init(&mut block, layout::Kind::Undo, dba, layout::obj(image), Scn::ZERO);
            undo::init(&mut block);
            for (i, record) in records.iter().enumerate() {
                let mut record = record.clone();
                record.inverse = records[(i + 1).min(records.len() - 1)].inverse.clone();
                change(&mut record);
                let bytes = record.encode();
                if undo::fits(&block, bytes.len()) {
                    undo::append(&mut block, &bytes);
                }
            }
            block
        };
        undo_blocks.iter().map(|(dba, image)| (*dba, Arc::new(forged(*dba, image)))).collect()
    };
    let other_xid = forge(&|r| r.xid.seq += 1);
    let other_number = forge(&|r| r.undo_no = UndoNo(r.undo_no.0 + 7));
    let other_object = forge(&|r| r.obj = ObjId(r.obj.0 + 1));
    for planted in [other_xid, other_number, other_object] {
        let snap = run(&cluster, two.now());
        let epoch = Some(two.at.node.view().epoch.0);
        for (dba, block) in planted {
            snap.memory().keep_undo_block(epoch, dba, block);
        }
        assert_eq!(run(&cluster, two.get(&snap, rowid)), 0);
    }
}

/// (b) A transaction number beyond what its table knows is of one that died with its instance
/// before anything of it was durable: it never was, whoever asks.
#[test]
fn h1_a_transaction_beyond_its_table_never_was() {
    let cluster = cluster(7, 2);
    let rowid = make(&cluster, 1, 1, 100)[0];
    let (one, two) = (Session::new(&cluster, 1), Session::new(&cluster, 2));
    let open = one.begin(Isolation::ReadCommitted);
    run(&cluster, one.set(&open, rowid, |_| 9, 100));
    let xid = open.xid().expect("it has changed something");
    for session in [&one, &two] {
        let status = |xid| run(&cluster, session.at.core.status(&session.ctx, xid));
        assert_eq!(status(xid), TxStatus::Active);
        assert_eq!(status(Xid { seq: xid.seq + 1, ..xid }), TxStatus::Gone);
    }
    run(&cluster, open.rollback(&one.ctx));
}

/// (b) A transaction that others have seen is lost with its instance, redo and all: the next life
/// gives its number to nobody, and it never was.
#[test]
fn h1_the_number_of_a_transaction_that_is_lost_is_not_given_again() {
    let mut cluster = cluster(8, 3);
    let rowids = make(&cluster, 1, 2, 100);
    let two = Session::new(&cluster, 2);
    let lost = {
        let three = Session::new(&cluster, 3);
        flush(&cluster, &three);
        three.at.core.log.set_flush_delay_us(60_000_000);
        let (log, from) = (&three.at.core.log, three.at.core.log.next());
        let open = three.begin(Isolation::ReadCommitted);
        run(&cluster, three.set(&open, rowids[0], |_| 9, 100));
        let copies = two.at.observer.stat(Stat::GcCrBlocksReceived);
        assert_eq!(run(&cluster, two.get_now(rowids[0])), 0);
        assert!(two.at.observer.stat(Stat::GcCrBlocksReceived) > copies, "nobody has seen it");
        assert!(log.durable() <= from, "its redo is durable");
        let xid = open.xid().expect("it has changed something");
        std::mem::forget(open);
        xid
    };
    cluster.crash(3);
    cluster.start(3);
    let three = Session::new(&cluster, 3);
    let mut same_slot = 0;
    for _ in 0..60 {
        let txn = three.begin(Isolation::ReadCommitted);
        run(&cluster, three.set(&txn, rowids[1], |_| 5, 100));
        let xid = txn.xid().expect("it has changed something");
        if (xid.usn, xid.slot) == (lost.usn, lost.slot) {
            assert!(xid.seq > lost.seq, "{lost} is given again as {xid}");
            same_slot += 1;
        }
        run(&cluster, txn.rollback(&three.ctx));
    }
    assert!(same_slot > 0, "no transaction came to the slot of {lost}");
    for session in [&two, &three] {
        let status = run(&cluster, session.at.core.status(&session.ctx, lost));
        assert_eq!(status, TxStatus::Gone);
        assert_eq!(run(&cluster, session.get_now(rowids[0])), 0);
    }
}

/// (b) An instance dies with changes that others have copied and that were never durable, and comes
/// back: its transaction numbers and undo addresses may be given out again. Whoever reads meanwhile
/// sees each transaction whole or not at all.
#[test]
fn h1_readers_see_whole_transactions_over_the_death_of_a_changer() {
    let mut all_reads = 0;
    for seed in 1..=4 {
        let mut cluster = cluster(seed, 3);
        let rowids = Arc::new(make(&cluster, 1, 6, 900));
        let stop = Arc::new(AtomicBool::new(false));
        let reads = Arc::new(AtomicU64::new(0));
        let mut readers: Vec<Outcome<()>> = Vec::new();
        for k in [2, 2, 3, 3] {
            let (rowids, stop, reads) = (rowids.clone(), stop.clone(), reads.clone());
            readers.push(Session::new(&cluster, k).spawn(|s| async move {
                while !stop.load(Ordering::SeqCst) {
                    let seen = async {
                        let snap = s.now().await?;
                        let mut seen = Vec::new();
                        for &rowid in rowids.iter() {
                            seen.push(s.get(&snap, rowid).await?);
                        }
                        Ok::<_, Error>(seen)
                    };
                    match seen.await {
                        Ok(seen) => {
                            assert!(seen.iter().all(|n| *n == seen[0]), "seed {seed}: {seen:?}");
                            assert!(seen[0] >= 0, "seed {seed}: a change never committed is seen");
                            reads.fetch_add(1, Ordering::SeqCst);
                        }
                        Err(Error::SnapshotTooOld(_)) => {}
                        Err(e) => panic!("{e}"),
                    }
                    s.at.core.env.sleep(Duration::from_micros(30)).await;
                }
            }));
        }
        for round in 1..=4 {
            let one = Session::new(&cluster, 1);
            one.at.core.log.set_flush_delay_us(20_000);
            for lost in [false, true] {
                let rowids = rowids.clone();
                one.another().spawn(|s| async move {
                    for n in 1.. {
                        let value = if lost { -n } else { round * 1000 + n };
                        let txn = s.begin(Isolation::ReadCommitted);
                        for &rowid in rowids.iter() {
                            s.set(&txn, rowid, |_| value, 900).await.expect("changed");
                        }
                        if lost {
                            s.at.core.env.sleep(Duration::from_micros(300)).await;
                            txn.rollback(&s.ctx).await.expect("rolled back");
                        } else {
                            txn.commit(&s.ctx).await.expect("committed");
                        }
                    }
                });
            }
            cluster.world.run_for(ms(30 + cluster.world.random() % 40));
            drop(one);
            cluster.crash(1);
            cluster.world.run_for(ms(cluster.world.random() % 60));
            cluster.start(1);
        }
        stop.store(true, Ordering::SeqCst);
        readers.iter().for_each(|r| wait(&cluster, r));
        all_reads += reads.load(Ordering::SeqCst);
    }
    assert!(all_reads > 1000, "only {all_reads} reads");
}

/// The changes of many committed transactions to one block, taken back by the order of their exact
/// commit SCNs: each snapshot, on each instance, shows the row as it was.
#[test]
fn h3_changes_are_taken_back_in_the_order_of_their_exact_scns() {
    let cluster = cluster(4, 3);
    let rowids = make_in_one_block(&cluster, 1, 4, 200);
    let sessions = [1, 2, 3].map(|k| Session::new(&cluster, k));
    let mut snaps: Vec<(Vec<i64>, Vec<Snapshot>)> = Vec::new();
    let mut now = vec![0; rowids.len()];
    // Transactions that run at the same time get ITL entries of their own, in no order of commits.
    for round in 1..=12i64 {
        let open: Vec<_> = (0..3)
            .map(|i| {
                let session = &sessions[i];
                let txn = session.begin(Isolation::ReadCommitted);
                let row = (i + round as usize) % rowids.len();
                run(&cluster, session.set(&txn, rowids[row], |_| round, 200));
                (session, txn, row)
            })
            .collect();
        for at in [2, 0, 1].map(|i| (i + round as usize) % 3) {
            let (session, txn, row) = &open[at];
            run(&cluster, txn.commit(&session.ctx));
            now[*row] = round;
            let taken = sessions.iter().map(|s| run(&cluster, s.now())).collect();
            snaps.push((now.clone(), taken));
        }
    }
    for (expected, taken) in snaps.iter().rev() {
        for (session, snap) in sessions.iter().zip(taken) {
            for (&rowid, &n) in rowids.iter().zip(expected) {
                assert_eq!(run(&cluster, session.get(snap, rowid)), n, "as of {}", snap.scn());
            }
        }
    }
}

/// (a) What a later snapshot has read is of no use to an earlier one; (b) a copy made before an own
/// change does not hide it; (c) a copy with own changes serves no other session.
#[test]
fn h5_copies_serve_the_snapshot_they_were_made_for() {
    let cluster = cluster(5, 2);
    let rowids = make(&cluster, 1, 4, 200);
    let (one, two) = (Session::new(&cluster, 1), Session::new(&cluster, 2));
    let (mine, theirs) = (rowids[0], rowids[1]);
    // The block goes to the first instance, which keeps a change open in it: the second reads
    // copies.
    let take = |n: i64| {
        let txn = one.begin(Isolation::ReadCommitted);
        run(&cluster, one.set(&txn, rowids[2], |_| n, 200));
        run(&cluster, one.set_committed(theirs, n, 200));
        let held = |s: &Session| s.at.node.holdings().into_iter().find(|h| h.dba == mine.dba);
        assert!(held(&one).is_some_and(|h| h.mode == Mode::X));
        assert!(held(&two).is_none_or(|h| h.mode == Mode::N), "the second has the block itself");
        txn
    };
    let open = take(1);
    let early = run(&cluster, two.now());
    assert_eq!(run(&cluster, two.get(&early, theirs)), 1);
    run(&cluster, open.rollback(&one.ctx));
    let open = take(2);
    let late = run(&cluster, two.now());
    assert_eq!(run(&cluster, two.get(&late, theirs)), 2);
    let early_again = early.clone();
    for (snap, n) in [(&early, 1), (&early_again, 1), (&late, 2), (&early, 1)] {
        assert_eq!(run(&cluster, two.get(snap, theirs)), n, "(a)");
    }
    run(&cluster, open.rollback(&one.ctx));
    // An own change, then the block moves away.
    let own = two.begin(Isolation::RepeatableRead);
    let before = run(&cluster, own.snapshot(&two.ctx));
    assert_eq!(run(&cluster, two.get(&before, mine)), 0);
    let open = take(3);
    assert_eq!(run(&cluster, two.get(&before, mine)), 0, "by a copy");
    run(&cluster, open.rollback(&one.ctx));
    run(&cluster, two.set(&own, mine, |_| 5, 200));
    let open = take(4);
    let after = run(&cluster, own.snapshot(&two.ctx));
    assert_eq!(run(&cluster, two.get(&after, mine)), 5, "(b)");
    assert_eq!(run(&cluster, two.get(&after, theirs)), 2, "repeatable read");
    assert_eq!(run(&cluster, two.get(&before, mine)), 0, "an earlier statement's view");
    let other = two.another();
    for snap in [run(&cluster, other.now()), after.with_own(None), late] {
        assert_eq!(run(&cluster, other.get(&snap, mine)), 0, "(c)");
    }
    assert_eq!(run(&cluster, two.get(&after, mine)), 5);
    run(&cluster, own.commit(&two.ctx));
    assert_eq!(run(&cluster, other.get_now(mine)), 5);
    run(&cluster, open.rollback(&one.ctx));
}

fn undo_transfers(cluster: &Cluster) -> u64 {
    let of = |s: &Arc<kernel::instance::Instance>| {
        let rows = s.observer.block_waits.rows();
        let undo = rows.iter().filter(|r| {
            r.kind == TransferKind::Current && matches!(r.class, TransferClass::UndoBlock)
        });
        undo.map(|r| r.totals.blocks()).sum::<u64>()
    };
    cluster.open.values().map(of).sum()
}

/// Readers elsewhere need the undo of a changer: its undo blocks stay where they are, in X, and no
/// log flush is made for them.
#[test]
fn m4_undo_is_read_by_copy_and_its_blocks_stay_with_their_owner() {
    let cluster = cluster(6, 3);
    let rowids = make(&cluster, 1, 40, 600);
    let sessions = [1, 2, 3].map(|k| Session::new(&cluster, k));
    let [one, two, three] = &sessions;
    let moved = undo_transfers(&cluster);
    let flushes = one.at.observer.stat(Stat::GcCurrentFlushes);
    let open = one.begin(Isolation::ReadCommitted);
    for round in 1..=3 {
        for &rowid in &rowids {
            run(&cluster, one.set(&open, rowid, |_| round, 600));
        }
        for session in [two, three] {
            run(&cluster, async {
                let now = session.now().await?;
                for &rowid in &rowids {
                    assert_eq!(session.get(&now, rowid).await?, 0);
                }
                Ok(())
            });
        }
    }
    let undone: u64 = sessions.iter().map(|s| s.at.observer.stat(Stat::UndoBlocksRead)).sum();
    assert!(undone > 100, "the readers needed no undo: the test proves nothing");
    assert_eq!(undo_transfers(&cluster), moved, "an undo block has changed hands");
    assert_eq!(one.at.observer.stat(Stat::GcCurrentFlushes), flushes, "a flush for a reader");
    for session in [two, three] {
        let own = |dba: Dba| {
            // Undo of its own, or none of the first instance's.
            one.at.node.holdings().iter().all(|h| h.dba != dba)
        };
        let held = session.at.node.holdings().into_iter();
        let undo: Vec<_> = held.filter(|h| h.dba.file == UNDO_FILE && !own(h.dba)).collect();
        assert!(undo.is_empty(), "instance {} holds {undo:?}", session.at.me);
    }
    run(&cluster, open.rollback(&one.ctx));
}
