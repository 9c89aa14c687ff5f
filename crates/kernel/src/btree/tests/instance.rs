//! Scenarios on one simulated instance: uniqueness, visibility over splits, rollback, purge,
//! limits.

use std::ops::Bound;
use std::sync::Arc;

use block::layout::{self, Kind};
use block::op::Op;
use block::redo::RecordKind;
use block::{Mode, ObjId, Rowid, Scn, Xid, rows};
use env::Lane;
use observe::{Ctx, Stat, WaitEvent};

use super::super::descend::{Seek, descend};
use super::super::{
    Builder, IndexSeg, InsertOutcome, KEY_BYTES_MAX, RangeScan, create, delete, insert, lookup,
    split,
};
use crate::change::Change;
use crate::error::Error;
use crate::testing::TestInstance;
use crate::txn::{Snapshot, Transaction};

pub(super) fn key(n: u64) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

pub(super) fn rid(n: u64) -> Rowid {
    Rowid::from_u64(n)
}

pub(super) fn new_index(db: &TestInstance, ctx: &Ctx, unique: bool) -> IndexSeg {
    db.run(create(ctx, &db.core, ObjId(1000), unique)).expect("room for an index")
}

/// All live entries as the snapshot sees them, read forward and checked against reading backward.
pub(super) async fn entries(ctx: &Ctx, snap: &Snapshot, seg: IndexSeg) -> Vec<(Vec<u8>, Rowid)> {
    let mut found = Vec::new();
    for backward in [false, true] {
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = RangeScan::new(seg, snap.clone(), low, high, backward);
        let (mut all, mut batch) = (Vec::new(), Vec::new());
        while scan.next_batch(ctx, &mut batch).await.expect("a readable index") {
            all.append(&mut batch);
        }
        if backward {
            all.reverse();
            assert_eq!(all, found, "backward and forward differ");
        }
        found = all;
    }
    found
}

pub(super) async fn keys_seen(ctx: &Ctx, snap: &Snapshot, seg: IndexSeg) -> Vec<u64> {
    let all = entries(ctx, snap, seg).await;
    all.iter().map(|(k, _)| u64::from_be_bytes(k[..8].try_into().expect("8 bytes"))).collect()
}

pub(super) async fn add(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    keys: impl Iterator<Item = u64>,
) {
    for n in keys {
        let outcome = insert(ctx, txn, seg, &key(n), rid(n)).await.expect("inserted");
        assert_eq!(outcome, InsertOutcome::Done, "key {n}");
    }
}

/// Walks all leaves by their right links and checks each block and the bounds between them.
pub(super) async fn verify_leaves(db: &TestInstance, ctx: &Ctx, seg: &IndexSeg) -> usize {
    let cache = &db.core.cache;
    let mut at = descend(ctx, cache, seg, Seek::At(&[]), 0, &mut None).await.expect("a leaf");
    let (mut low, mut count): (Option<Vec<u8>>, usize) = (None, 0);
    loop {
        let (right, high) = cache
            .read(ctx, at, |b| {
                assert_eq!(layout::kind(b), Kind::Leaf);
                rows::verify(b, true).expect("a sound leaf");
                assert_eq!(rows::low_key(b), low.as_deref());
                (rows::right(b), rows::high_key(b).map(<[u8]>::to_vec))
            })
            .await
            .expect("readable");
        count += 1;
        if high.is_none() {
            assert!(right.is_none());
            return count;
        }
        (at, low) = (right, high);
    }
}

#[test]
fn entries_are_seen_by_their_transaction_then_by_all() {
    let db = TestInstance::new(1, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        add(&ctx, &txn, &seg, 1..=3000).await;
        let own = txn.snapshot(&ctx).await.expect("snapshot");
        assert_eq!(keys_seen(&ctx, &own, seg).await, (1..=3000).collect::<Vec<_>>());
        let before = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(keys_seen(&ctx, &before, seg).await, Vec::<u64>::new());
        txn.commit(&ctx).await.expect("committed");
        assert_eq!(keys_seen(&ctx, &before, seg).await, Vec::<u64>::new());
        let after = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(keys_seen(&ctx, &after, seg).await, (1..=3000).collect::<Vec<_>>());
        assert_eq!(lookup(&ctx, &after, &seg, &key(77)).await.expect("found"), Some(rid(77)));
        assert_eq!(lookup(&ctx, &after, &seg, &key(7777)).await.expect("read"), None);
        assert!(verify_leaves(&db, &ctx, &seg).await > 5);
    });
    assert!(db.observer.stat(Stat::LeafSplits9010) > 3);
    assert_eq!(db.observer.stat(Stat::RootSplits), 1);
}

#[test]
fn ranges_respect_their_bounds_in_both_directions() {
    let db = TestInstance::new(2, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        add(&ctx, &txn, &seg, (1..=2000).map(|n| n * 10)).await;
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        let range = async |low: Bound<u64>, high: Bound<u64>, backward| {
            let mut scan = RangeScan::new(seg, snap.clone(), low.map(key), high.map(key), backward);
            let mut all = Vec::new();
            while scan.next_leaf(&ctx, |_, r| all.push(r.to_u64())).await.expect("read") {}
            all
        };
        use Bound::{Excluded, Included, Unbounded};
        for backward in [false, true] {
            let order = |mut v: Vec<u64>| {
                if backward {
                    v.reverse();
                }
                v
            };
            let want = |from: u64, to: u64| order((from..=to).map(|n| n * 10).collect());
            assert_eq!(range(Included(500), Included(520), backward).await, want(50, 52));
            assert_eq!(range(Excluded(500), Excluded(520), backward).await, want(51, 51));
            assert_eq!(range(Included(501), Included(9999), backward).await, want(51, 999));
            assert_eq!(range(Unbounded, Excluded(41), backward).await, want(1, 4));
            assert_eq!(range(Included(19_991), Unbounded, backward).await, want(2000, 2000));
            assert!(range(Included(20_001), Unbounded, backward).await.is_empty());
            assert!(range(Included(9), Excluded(10), backward).await.is_empty());
            assert!(range(Included(600), Included(500), backward).await.is_empty());
        }
    });
}

/// C17, and the wait for the outcome: one of two inserters of a key wins.
#[test]
fn c17_an_inserter_waits_for_the_holder_of_the_key() {
    let db = TestInstance::new(3, 512);
    let (a, b) = (db.session("a"), db.session("b"));
    let seg = new_index(&db, &a, true);
    for commit in [true, false] {
        let k = key(u64::from(commit));
        db.run(async {
            let (first, second) = (db.begin(), db.begin());
            insert(&a, &first, &seg, &k, rid(1)).await.expect("inserted");
            let waiting = insert(&b, &second, &seg, &k, rid(2));
            let ending = async {
                db.env.sleep(std::time::Duration::from_millis(50)).await;
                let end = if commit {
                    first.commit(&a).await.map(drop)
                } else {
                    first.rollback(&a).await
                };
                end.expect("ended");
            };
            let (outcome, ()) = futures::join!(waiting, ending);
            let want = if commit { InsertOutcome::Duplicate } else { InsertOutcome::Done };
            assert_eq!(outcome.expect("decided"), want);
            second.rollback(&b).await.expect("rolled back");
        });
    }
    let waits = db.observer.system_events();
    assert!(waits.iter().any(|row| row.event == WaitEvent::EnqTxRowLock));
}

/// A marked entry is waited for while its deleter may come back, and revived once it has ended.
#[test]
fn a_deleted_key_is_free_once_its_deleter_has_committed() {
    let db = TestInstance::new(4, 512);
    let (a, b) = (db.session("a"), db.session("b"));
    let seg = new_index(&db, &a, true);
    db.run(async {
        let txn = db.begin();
        add(&a, &txn, &seg, 1..=10).await;
        txn.commit(&a).await.expect("committed");
        let old = db.begin().snapshot(&a).await.expect("snapshot");
        let deleter = db.begin();
        delete(&a, &deleter, &seg, &key(5), rid(5)).await.expect("deleted");
        // The deleter itself may use the key again, and go back to before that.
        let point = deleter.savepoint();
        let again = insert(&a, &deleter, &seg, &key(5), rid(50)).await.expect("revived");
        assert_eq!(again, InsertOutcome::Done);
        deleter.rollback_to(&a, point).await.expect("rolled back");
        let inserter = db.begin();
        let ending = async {
            db.env.sleep(std::time::Duration::from_millis(20)).await;
            deleter.commit(&a).await.expect("committed");
        };
        let at = key(5);
        let (outcome, ()) = futures::join!(insert(&b, &inserter, &seg, &at, rid(55)), ending);
        assert_eq!(outcome.expect("decided"), InsertOutcome::Done);
        inserter.commit(&b).await.expect("committed");
        let new = db.begin().snapshot(&a).await.expect("snapshot");
        assert_eq!(lookup(&a, &new, &seg, &at).await.expect("read"), Some(rid(55)));
        assert_eq!(lookup(&a, &old, &seg, &at).await.expect("read"), Some(rid(5)));
        let twice = delete(&a, &db.begin(), &seg, &key(5), rid(5)).await;
        assert!(matches!(twice, Err(Error::Invariant(_))), "{twice:?}");
    });
}

/// H9: entries that a split has carried away are rolled back where they are now.
#[test]
fn h9_rollback_follows_its_entries_over_splits() {
    let db = TestInstance::new(5, 512);
    let (a, b) = (db.session("a"), db.session("b"));
    let seg = new_index(&db, &a, true);
    // Keys that neither transaction uses otherwise.
    let others = || (0..100_000).filter(|n| n % 37 == 5 && n % 1000 > 1);
    db.run(async {
        let other = db.begin();
        add(&b, &other, &seg, (0..100).map(|n| n * 1000)).await;
        let txn = db.begin();
        add(&a, &txn, &seg, (0..100).map(|n| n * 1000 + 1)).await;
        let point = txn.savepoint();
        delete_own(&a, &txn, &seg, 0..50).await;
        // Now everything is split many times, between the entries and among them.
        add(&b, &other, &seg, others()).await;
        let snap = txn.snapshot(&a).await.expect("snapshot");
        let own: Vec<u64> = (50..100).map(|n| n * 1000 + 1).collect();
        assert_eq!(keys_seen(&a, &snap, seg).await, own);
        txn.rollback_to(&a, point).await.expect("rolled back");
        let snap = txn.snapshot(&a).await.expect("snapshot");
        let own: Vec<u64> = (0..100).map(|n| n * 1000 + 1).collect();
        assert_eq!(keys_seen(&a, &snap, seg).await, own);
        txn.rollback(&a).await.expect("rolled back");
        let mut rest: Vec<u64> = others().collect();
        rest.extend((0..100).map(|n| n * 1000));
        rest.sort_unstable();
        let snap = other.snapshot(&b).await.expect("snapshot");
        assert_eq!(keys_seen(&b, &snap, seg).await, rest);
        other.rollback(&b).await.expect("rolled back");
        let snap = db.begin().snapshot(&a).await.expect("snapshot");
        assert!(keys_seen(&a, &snap, seg).await.is_empty());
        verify_leaves(&db, &a, &seg).await;
    });
}

async fn delete_own(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    which: std::ops::Range<u64>,
) {
    for n in which.map(|n| n * 1000 + 1) {
        delete(ctx, txn, seg, &key(n), rid(n)).await.expect("deleted");
    }
}

/// The golden case of the design: a snapshot older than a split, and older than the reuse of the
/// ITL entries, reads both leaves right.
#[test]
fn a_snapshot_older_than_a_split_and_than_itl_reuse_reads_both_leaves() {
    let db = TestInstance::new(6, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        add(&ctx, &txn, &seg, (0..200).map(|n| n * 10)).await;
        txn.commit(&ctx).await.expect("committed");
        let mut history = Vec::new();
        let mut live: std::collections::BTreeSet<u64> = (0..200).map(|n| n * 10).collect();
        for round in 0..120u64 {
            let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
            history.push((snap, live.clone()));
            let txn = db.begin();
            for i in 0..8 {
                let n = (round * 97 + i * 251) % 2000;
                if live.remove(&n) {
                    delete(&ctx, &txn, &seg, &key(n), rid(n)).await.expect("deleted");
                } else {
                    live.insert(n);
                    add(&ctx, &txn, &seg, std::iter::once(n)).await;
                }
            }
            txn.commit(&ctx).await.expect("committed");
        }
        assert!(db.observer.stat(Stat::LeafSplits) + db.observer.stat(Stat::RootSplits) >= 2);
        for (snap, want) in history {
            assert_eq!(keys_seen(&ctx, &snap, seg).await, want.into_iter().collect::<Vec<_>>());
        }
        verify_leaves(&db, &ctx, &seg).await;
    });
}

/// Marked entries go once every snapshot sees their delete, and their room is used again.
#[test]
fn purge_makes_room_but_not_under_a_snapshot_that_needs_the_entries() {
    let db = TestInstance::new(7, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let churn = async |from: u64| {
            for round in from..from + 200 {
                let txn = db.begin();
                for i in 0..10 {
                    let n = (round * 10 + i) * 7919 % 100_000;
                    insert(&ctx, &txn, &seg, &key(n), rid(n)).await.expect("inserted");
                    delete(&ctx, &txn, &seg, &key(n), rid(n)).await.expect("deleted");
                }
                txn.commit(&ctx).await.expect("committed");
            }
        };
        churn(0).await;
        let leaves = verify_leaves(&db, &ctx, &seg).await;
        assert!(leaves <= 4, "2000 entries came and went, {leaves} leaves remain");
        let keep = db.begin();
        add(&ctx, &keep, &seg, (200_000..).take(50)).await;
        keep.commit(&ctx).await.expect("committed");
        let old = db.begin().snapshot(&ctx).await.expect("snapshot");
        let txn = db.begin();
        for n in 200_000..200_050 {
            delete(&ctx, &txn, &seg, &key(n), rid(n)).await.expect("deleted");
        }
        txn.commit(&ctx).await.expect("committed");
        churn(1000).await;
        let want: Vec<u64> = (200_000..200_050).collect();
        assert_eq!(keys_seen(&ctx, &old, seg).await, want);
    });
}

/// H11: a snapshot below what was purged from a leaf is too old, never short of a row.
/// Structure is changed for sessions, and counted as theirs.
#[test]
fn all_redo_is_counted_and_all_changes_of_blocks() {
    let db = TestInstance::new(8, 2_048);
    let ctx = db.session("a");
    let counted = || {
        let stats = [Stat::RedoSize, Stat::RedoEntries, Stat::DbBlockChanges];
        stats.map(|stat| db.observer.stat(stat))
    };
    let of_segments = || {
        let at = crate::cache::SegmentStat::DbBlockChanges as usize;
        let all = db.core.cache.segment_counts();
        all.iter().map(|(_, counts)| counts[at]).sum::<u64>()
    };
    let begun_of_segments = of_segments();
    // Each end of what is flushed is filled up to a whole sector.
    let (log, begun) = (db.core.log.next().0, counted());
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        let mut builder = Builder::new(&txn, seg);
        for n in 0..20_000u64 {
            builder.add(&ctx, &key(n), rid(n)).await.expect("taken");
        }
        builder.finish(&ctx).await.expect("built");
        add(&ctx, &txn, &seg, (1..2_000).map(|n| n * 1_000_003 + 100_000)).await;
        txn.commit(&ctx).await.expect("committed");
    });
    let written = db.core.log.next().0 - log;
    let [bytes, records, changes] = counted().map(|n| n as f64);
    let [bytes, records, changes] =
        [(bytes, 0), (records, 1), (changes, 2)].map(|(n, at): (f64, usize)| n - begun[at] as f64);
    assert!(bytes <= written as f64 && bytes >= 0.9 * written as f64, "{bytes} of {written}");
    assert!(changes >= records && records > 2_000.0, "{records} records, {changes} changes");
    assert_eq!(of_segments() - begun_of_segments, changes as u64);
}

#[test]
fn h11_a_snapshot_below_a_purge_is_too_old() {
    let db = TestInstance::new(8, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        add(&ctx, &txn, &seg, 1..=5).await;
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        let pin = db.core.cache.pin(&ctx, seg.root, Mode::X).await.expect("pinned");
        let mut change = Change::begin(&db.core.cache, &[&pin]);
        let scn = Scn(snap.scn().0 + 1);
        change.push(0, Op::LeafPurge { positions: vec![2], scn });
        change.commit(&ctx, Xid::NONE, RecordKind::Change);
        drop(pin);
        let found = lookup(&ctx, &snap, &seg, &key(1)).await;
        assert!(matches!(found, Err(Error::SnapshotTooOld(_))), "{found:?}");
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = RangeScan::new(seg, snap, low, high, true);
        let found = scan.next_batch(&ctx, &mut Vec::new()).await;
        assert!(matches!(found, Err(Error::SnapshotTooOld(_))), "{found:?}");
    });
}

/// A crash between the two records of a split leaves a missing parent entry: readers find
/// everything, the next writer that comes by adds it.
#[test]
fn an_unfinished_split_is_read_through_and_finished_by_a_writer() {
    let db = TestInstance::new(9, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        add(&ctx, &txn, &seg, 0..3000).await;
        txn.commit(&ctx).await.expect("committed");
        // Fill the leaf of 100 to the brim, then do only the first half of its split.
        let cache = &db.core.cache;
        let leaf =
            descend(&ctx, cache, &seg, Seek::At(&key(100)), 0, &mut None).await.expect("a leaf");
        let filler = db.begin();
        for n in 0u64.. {
            let mut k = key(100);
            k.extend_from_slice(&n.to_be_bytes());
            let full = cache
                .read(&ctx, leaf, |b| rows::free_bytes(b) < rows::entry_bytes(&k))
                .await
                .expect("readable");
            if full {
                break;
            }
            insert(&ctx, &filler, &seg, &k, rid(n)).await.expect("inserted");
        }
        let before = entries(&ctx, &filler.snapshot(&ctx).await.expect("snapshot"), seg).await;
        let hop = split::cut(&ctx, &db.core, &seg, leaf, &key(100)).await.expect("room");
        let hop = hop.expect("a full leaf is cut");
        let separator = hop.separator.clone();
        let known = async || {
            let parent = descend(&ctx, cache, &seg, Seek::At(&separator), 1, &mut None).await;
            let parent = parent.expect("a branch");
            cache.read(&ctx, parent, |b| rows::search(b, &separator).is_ok()).await.expect("read")
        };
        assert!(!known().await);
        let snap = filler.snapshot(&ctx).await.expect("snapshot");
        assert_eq!(entries(&ctx, &snap, seg).await, before);
        for (k, rowid) in before.iter().filter(|(k, _)| *k >= separator).take(3) {
            assert_eq!(lookup(&ctx, &snap, &seg, k).await.expect("read"), Some(*rowid));
        }
        let mut beyond = separator.clone();
        beyond.push(0);
        insert(&ctx, &filler, &seg, &beyond, rid(1)).await.expect("inserted");
        assert!(known().await);
        filler.rollback(&ctx).await.expect("rolled back");
        assert!(verify_leaves(&db, &ctx, &seg).await > 5);
    });
}

/// A leaf takes as many open transactions as its ITL has entries; the next one waits for any of
/// them.
#[test]
fn a_leaf_with_a_full_itl_makes_the_next_transaction_wait() {
    let db = TestInstance::new(10, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let mut open = Vec::new();
        for n in 0..u64::from(block::itl::ITL_ENTRIES_MAX) {
            let txn = db.begin();
            add(&ctx, &txn, &seg, std::iter::once(n)).await;
            open.push(txn);
        }
        let late = db.begin();
        let last = key(1000);
        let waiting = insert(&ctx, &late, &seg, &last, rid(1000));
        let b = db.session("b");
        let ending = async {
            db.env.sleep(std::time::Duration::from_millis(30)).await;
            let txn = open.pop().expect("many are open");
            txn.commit(&b).await.expect("committed");
        };
        let (outcome, ()) = futures::join!(waiting, ending);
        assert_eq!(outcome.expect("inserted"), InsertOutcome::Done);
        for txn in &open {
            txn.rollback(&ctx).await.expect("rolled back");
        }
        late.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(keys_seen(&ctx, &snap, seg).await, vec![99, 1000]);
    });
    let waits = db.observer.system_events();
    assert!(waits.iter().any(|row| row.event == WaitEvent::EnqTxAllocateItl));
}

#[test]
fn a_key_beyond_the_limit_is_refused() {
    let db = TestInstance::new(11, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        for n in 0..40u8 {
            let mut k = vec![n; KEY_BYTES_MAX];
            insert(&ctx, &txn, &seg, &k, rid(u64::from(n))).await.expect("the longest key");
            k.push(0);
            let refused = insert(&ctx, &txn, &seg, &k, rid(1)).await;
            assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
        }
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(entries(&ctx, &snap, seg).await.len(), 40);
        verify_leaves(&db, &ctx, &seg).await;
    });
}

#[test]
fn a_built_index_holds_what_it_was_given_whatever_the_order() {
    for (count, run_bytes, growing) in [
        (0u64, 1 << 20, true),
        (1, 1 << 20, true),
        (20_000, 1 << 20, false),
        (20_000, 1 << 14, true),
        (4_000, 1 << 14, false),
    ] {
        let db = TestInstance::new(12, 1024);
        let ctx = db.session("a");
        let seg = new_index(&db, &ctx, true);
        db.run(async {
            let txn = db.begin();
            let mut builder = Builder::new(&txn, seg).with_run_bytes(run_bytes);
            let mut want = Vec::new();
            for i in 0..count {
                let n = if growing { i } else { i.wrapping_mul(0x9e37_79b9_7f4a_7c15) };
                builder.add(&ctx, &key(n), rid(i)).await.expect("taken");
                want.push((key(n), rid(i)));
            }
            builder.finish(&ctx).await.expect("built");
            txn.commit(&ctx).await.expect("committed");
            want.sort_unstable();
            let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
            assert_eq!(entries(&ctx, &snap, seg).await, want);
            let txn = db.begin();
            add(&ctx, &txn, &seg, (1..500).map(|n| n * 1_000_003 + 100_000)).await;
            txn.commit(&ctx).await.expect("committed");
            verify_leaves(&db, &ctx, &seg).await;
        });
    }
}

/// Many short separators fill a branch; the next one may be as long as keys are.
#[test]
fn a_built_branch_has_room_for_a_long_high_key() {
    for growing in [17, 61, 173] {
        let db = TestInstance::new(15, 4096);
        let ctx = db.session("a");
        let seg = new_index(&db, &ctx, true);
        db.run(async {
            let txn = db.begin();
            let mut builder = Builder::new(&txn, seg);
            let mut want = Vec::new();
            for n in 0..40_000u64 {
                // Long keys that differ at their ends stand beside each other.
                let length = if n % 4_000 < growing { KEY_BYTES_MAX } else { 8 };
                let mut k = key(n / 4_000 * 4_000);
                k.resize(length - 8, 7);
                k.extend(key(n));
                want.push((k, rid(n)));
            }
            want.sort_unstable();
            for (k, rowid) in &want {
                builder.add(&ctx, k, *rowid).await.expect("taken");
            }
            builder.finish(&ctx).await.expect("built");
            let snap = txn.snapshot(&ctx).await.expect("snapshot");
            assert_eq!(entries(&ctx, &snap, seg).await, want);
            verify_leaves(&db, &ctx, &seg).await;
            txn.commit(&ctx).await.expect("committed");
        });
    }
}

/// Keys of the greatest length that differ at their ends: few entries a block, at every level.
#[test]
fn branches_split_under_long_keys() {
    let db = TestInstance::new(14, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    let long = |n: u64| [vec![7; KEY_BYTES_MAX - 8], key(n)].concat();
    db.run(async {
        let txn = db.begin();
        let order = (0..200u64).map(|i| i * 77 % 200);
        for n in order {
            insert(&ctx, &txn, &seg, &long(n), rid(n)).await.expect("inserted");
        }
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        let want: Vec<_> = (0..200).map(|n| (long(n), rid(n))).collect();
        assert_eq!(entries(&ctx, &snap, seg).await, want);
        verify_leaves(&db, &ctx, &seg).await;
    });
    assert!(db.observer.stat(Stat::BranchSplits) > 0);
    assert!(db.observer.stat(Stat::RootSplits) > 1);
}

#[test]
fn a_build_finds_duplicates_within_and_between_runs() {
    let db = TestInstance::new(13, 512);
    let ctx = db.session("a");
    for run_bytes in [1 << 20, 64] {
        let seg = new_index(&db, &ctx, true);
        db.run(async {
            let txn = db.begin();
            let mut builder = Builder::new(&txn, seg).with_run_bytes(run_bytes);
            let mut result = Ok(());
            for n in [5, 6, 7, 8, 9, 10, 11, 6] {
                result = builder.add(&ctx, &key(n), rid(n)).await;
                if result.is_err() {
                    break;
                }
            }
            if result.is_ok() {
                result = builder.finish(&ctx).await;
            }
            match result {
                Err(Error::UniqueViolation { key: found, .. }) => assert_eq!(found, key(6)),
                other => panic!("{other:?}"),
            }
            txn.rollback(&ctx).await.expect("rolled back");
        });
    }
}

/// Sessions that find the same leaf full: one splits it, the others wait and use the room.
#[test]
fn many_inserters_of_growing_keys_split_each_leaf_once() {
    let db = TestInstance::new(14, 512);
    let ctx = db.session("main");
    let seg = new_index(&db, &ctx, true);
    let done = Arc::new(std::sync::atomic::AtomicU64::new(0));
    for session in 0..8u64 {
        let (ctx, txn, done) = (db.session("w"), db.begin(), done.clone());
        let _ = db.env.spawn_task("w", Lane::Background, async move {
            for i in 0..500u64 {
                let n = i * 8 + session;
                insert(&ctx, &txn, &seg, &key(n), rid(n)).await.expect("inserted");
            }
            txn.commit(&ctx).await.expect("committed");
            done.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        });
    }
    let ended = || done.load(std::sync::atomic::Ordering::SeqCst) == 8;
    assert!(db.world.run_until(std::time::Duration::from_secs(600), ended));
    db.run(async {
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(keys_seen(&ctx, &snap, seg).await, (0..4000).collect::<Vec<_>>());
        let leaves = verify_leaves(&db, &ctx, &seg).await;
        assert!(leaves < 40, "{leaves} leaves for 4000 growing keys");
    });
    let waits = db.observer.system_events();
    assert!(waits.iter().any(|row| row.event == WaitEvent::EnqTxIndex));
}
