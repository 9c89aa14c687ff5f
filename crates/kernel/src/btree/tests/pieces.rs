//! Pieces of bitmap indexes in their leaves.

use std::ops::Bound;

use block::piece::key_at;

use super::super::{Builder, IndexSeg, RangeScan, insert};
use super::instance::{entries, new_index, rid, verify_leaves};
use crate::testing::TestInstance;

const VALUES: u64 = 120;

/// One row of a hundred, in blocks of sixty: distances of one byte.
fn row(value: u64, n: u64) -> u64 {
    let at = n * 100 + value % 100;
    (1 << 48) + ((at / 60) << 16) + at % 60
}

/// A row in a slot far above those of the others makes all distances longer: the piece is cut also
/// in a leaf that has room for the cut and not for the whole.
#[test]
fn a_bitmap_that_one_row_makes_twice_as_long_is_cut() {
    let db = TestInstance::new(14, 1024);
    let ctx = db.session("a");
    let seg = IndexSeg { bitmap: true, ..new_index(&db, &ctx, false) };
    db.run(async {
        let txn = db.begin();
        let mut builder = Builder::new(&txn, seg);
        for value in 0..VALUES {
            // Of several lengths, so that leaves are full in several ways.
            for n in 0..230 + value * 37 % 120 {
                let rowid = row(value, n);
                let key = key_at(&value.to_be_bytes(), rowid);
                builder.add(&ctx, &key, rid(rowid)).await.expect("added");
            }
        }
        builder.finish(&ctx).await.expect("built");
        let before = txn.snapshot(&ctx).await.expect("snapshot");
        let there = entries(&ctx, &before, seg).await.len();
        // Read or counted, they are as many pieces.
        let scan = |backward| {
            RangeScan::new(seg, before.clone(), Bound::Unbounded, Bound::Unbounded, backward)
        };
        let (mut read, mut counted) = (scan(false), scan(true));
        while read.next_leaf(&ctx, |_, _| {}).await.expect("a leaf") {}
        while counted.count_leaf(&ctx).await.expect("a leaf").is_some() {}
        assert_eq!(read.pieces(), counted.pieces());
        assert!((VALUES..there as u64).contains(&read.pieces()), "{}", read.pieces());
        for value in 0..VALUES {
            let rowid = (1 << 48) + ((700 + value) << 16) + 200;
            let key = key_at(&value.to_be_bytes(), rowid);
            insert(&ctx, &txn, &seg, &key, rid(rowid)).await.expect("inserted");
        }
        let snap = txn.snapshot(&ctx).await.expect("snapshot");
        let now = entries(&ctx, &snap, seg).await.len();
        assert_eq!(now, there + usize::try_from(VALUES).expect("few"));
        txn.rollback(&ctx).await.expect("rolled back");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(entries(&ctx, &snap, seg).await.len(), there);
        verify_leaves(&db, &ctx, &seg).await;
    });
}
