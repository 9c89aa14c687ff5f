//! What a look along the leaves says of an index.

use block::piece::{END_BYTES, key_at};
use block::rows;

use super::super::{Builder, Figures, IndexLook, IndexSeg};
use super::instance::{new_index, rid, verify_leaves};
use crate::testing::TestInstance;
use crate::txn::Snapshot;
use observe::Ctx;

/// Row number `n` of a table with fifty rows a block.
fn row(n: u64) -> u64 {
    (1 << 48) + ((n / 50) << 16) + n % 50
}

async fn look(ctx: &Ctx, snap: &Snapshot, seg: IndexSeg, leaves_max: u64) -> Figures {
    let mut look = IndexLook::begin(ctx, snap, seg, leaves_max, || 5).await.expect("begun");
    while look.next_run(ctx, |key| key.len() - END_BYTES).await.expect("a run") {}
    look.figures()
}

#[test]
fn few_leaves_are_counted_and_many_are_estimated() {
    const ROWS: u64 = 20_000;
    let db = TestInstance::new(21, 1024);
    let ctx = db.session("a");
    let seg = new_index(&db, &ctx, false);
    db.run(async {
        let txn = db.begin();
        let empty = look(&ctx, &txn.snapshot(&ctx).await.expect("snapshot"), seg, 1_000).await;
        assert_eq!(empty, Figures { leaves: 1, ..Figures::default() });
        let mut builder = Builder::new(&txn, seg);
        for n in 0..ROWS {
            let key = key_at(&(n / 4).to_be_bytes(), row(n));
            builder.add(&ctx, &key, rid(row(n))).await.expect("added");
        }
        builder.finish(&ctx).await.expect("built");
        let snap = txn.snapshot(&ctx).await.expect("snapshot");
        let leaves = verify_leaves(&db, &ctx, &seg).await as u64;
        let cache = &db.core.cache;
        let levels = cache.read(&ctx, seg.root, rows::level).await.expect("a root");
        let all = look(&ctx, &snap, seg, 1_000).await;
        let (rows, keys, clustering) = (20_000.0, 5_000.0, 400.0);
        assert_eq!(all, Figures { levels, leaves, rows, keys, clustering, sampled: ROWS });
        let some = look(&ctx, &snap, seg, 20).await;
        assert!(some.sampled > 1_000 && some.sampled < ROWS / 2, "{some:?}");
        assert_eq!((some.levels, some.leaves), (levels, leaves));
        let near = |found: f64, right: f64| (found - right).abs() < right / 8.0;
        assert!(near(some.rows, rows) && near(some.keys, keys), "{some:?}");
        assert!(near(some.clustering, clustering), "{some:?}");
    });
}

#[test]
fn rows_of_bitmaps_count_one_by_one() {
    let db = TestInstance::new(22, 1024);
    let ctx = db.session("a");
    let seg = IndexSeg { bitmap: true, ..new_index(&db, &ctx, false) };
    db.run(async {
        let txn = db.begin();
        let mut builder = Builder::new(&txn, seg);
        for n in 0..3_000u64 {
            let key = key_at(&(n % 3).to_be_bytes(), row(n));
            builder.add(&ctx, &key, rid(row(n))).await.expect("added");
        }
        builder.finish(&ctx).await.expect("built");
        let snap = txn.snapshot(&ctx).await.expect("snapshot");
        let all = look(&ctx, &snap, seg, 1_000).await;
        // Each of the three values is in each of the sixty blocks.
        assert_eq!((all.rows, all.keys, all.clustering), (3_000.0, 3.0, 180.0));
    });
}
