//! Entries of a batch: seen, taken back and refused like entries added one by one.

use std::sync::Arc;

use block::Rowid;
use block::bytes::ByteList;
use observe::{Ctx, Stat};

use super::super::{IndexSeg, insert_run};
use super::instance::{add, key, keys_seen, new_index, rid, verify_leaves};
use crate::error::Error;
use crate::testing::TestInstance;
use crate::txn::Transaction;

fn batch(keys: impl Iterator<Item = u64>) -> (ByteList, Vec<Rowid>) {
    let (mut list, mut rowids) = (ByteList::new(), Vec::new());
    for n in keys {
        list.push(&key(n));
        rowids.push(rid(n));
    }
    (list, rowids)
}

/// Adds all; `Err` has the position of the first that is refused.
async fn add_batch(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &IndexSeg,
    keys: impl Iterator<Item = u64>,
) -> Result<(), usize> {
    let (list, rowids) = batch(keys);
    let mut at = 0;
    while at < list.len() {
        let run = insert_run(ctx, txn, seg, &list, &rowids, at).await.expect("inserted");
        at += run.ok_or(at)?;
    }
    Ok(())
}

/// One descent and one redo record for each leaf, but where a leaf is cut.
#[test]
fn a_batch_costs_a_record_for_each_leaf() {
    let db = TestInstance::new(21, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        let before = db.observer.stat(Stat::RedoEntries);
        add_batch(&ctx, &txn, &seg, 0..3000).await.expect("new keys");
        let records = db.observer.stat(Stat::RedoEntries) - before;
        assert!(records < 60, "{records} redo records for 3000 growing keys");
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(keys_seen(&ctx, &snap, seg).await, (0..3000).collect::<Vec<_>>());
        assert!(verify_leaves(&db, &ctx, &seg).await > 5);
    });
}

/// H9 for records of several keys: they are taken back in all leaves they lie in by now, to a
/// savepoint and wholly, and a snapshot that does not see them has none of them in any leaf.
#[test]
fn h9_a_batch_is_taken_back_over_splits() {
    let db = TestInstance::new(22, 512);
    let (a, b) = (db.session("a"), db.session("b"));
    let seg = new_index(&db, &a, true);
    // Keys that the other transaction does not use.
    let others = || (0..100_000u64).filter(|n| n % 37 == 5 && n % 1000 > 3);
    let own = |part: u64| (0..100_000u64).filter(move |n| n % 1000 == part);
    db.run(async {
        let (txn, other) = (db.begin(), db.begin());
        add_batch(&a, &txn, &seg, own(1)).await.expect("new keys");
        let point = txn.savepoint();
        add_batch(&a, &txn, &seg, own(2)).await.expect("new keys");
        let old = db.begin().snapshot(&b).await.expect("snapshot");
        // Now everything is split many times, among the keys of single records.
        add_batch(&b, &other, &seg, others()).await.expect("new keys");
        assert!(keys_seen(&b, &old, seg).await.is_empty());
        let snap = other.snapshot(&b).await.expect("snapshot");
        assert_eq!(keys_seen(&b, &snap, seg).await, others().collect::<Vec<_>>());
        let snap = txn.snapshot(&a).await.expect("snapshot");
        let both = (0..100_000).filter(|n| n % 1000 == 1 || n % 1000 == 2);
        assert_eq!(keys_seen(&a, &snap, seg).await, both.collect::<Vec<_>>());
        txn.rollback_to(&a, point).await.expect("rolled back");
        let snap = txn.snapshot(&a).await.expect("snapshot");
        assert_eq!(keys_seen(&a, &snap, seg).await, own(1).collect::<Vec<_>>());
        add_batch(&a, &txn, &seg, own(3)).await.expect("new keys");
        txn.rollback(&a).await.expect("rolled back");
        other.commit(&b).await.expect("committed");
        assert!(keys_seen(&b, &old, seg).await.is_empty());
        let snap = db.begin().snapshot(&a).await.expect("snapshot");
        assert_eq!(keys_seen(&a, &snap, seg).await, others().collect::<Vec<_>>());
        verify_leaves(&db, &a, &seg).await;
    });
}

#[test]
fn a_taken_key_ends_a_run_and_a_marked_one_is_revived() {
    let db = TestInstance::new(23, 512);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, true);
    db.run(async {
        let txn = db.begin();
        add(&ctx, &txn, &seg, [10, 20].into_iter()).await;
        txn.commit(&ctx).await.expect("committed");
        let txn = db.begin();
        let point = txn.savepoint();
        assert_eq!(add_batch(&ctx, &txn, &seg, [5, 6, 10, 11].into_iter()).await, Err(2));
        txn.rollback_to(&ctx, point).await.expect("rolled back");
        // Twice in the batch itself.
        assert_eq!(add_batch(&ctx, &txn, &seg, [5, 6, 6, 11].into_iter()).await, Err(2));
        txn.rollback_to(&ctx, point).await.expect("rolled back");
        super::super::delete(&ctx, &txn, &seg, &key(10), rid(10)).await.expect("deleted");
        add_batch(&ctx, &txn, &seg, [9, 10, 11, 12].into_iter()).await.expect("free keys");
        let snap = txn.snapshot(&ctx).await.expect("snapshot");
        assert_eq!(keys_seen(&ctx, &snap, seg).await, [9, 10, 11, 12, 20]);
        let (mut list, mut rowids) = batch([13].into_iter());
        list.push(&[0x7f; 1300]);
        rowids.push(rid(1));
        let run = insert_run(&ctx, &txn, &seg, &list, &rowids, 0).await.expect("inserted");
        assert_eq!(run, Some(1));
        let refused = insert_run(&ctx, &txn, &seg, &list, &rowids, 1).await;
        assert!(matches!(refused, Err(Error::KeyTooLong { .. })), "{refused:?}");
        txn.rollback(&ctx).await.expect("rolled back");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(keys_seen(&ctx, &snap, seg).await, [10, 20]);
    });
}
