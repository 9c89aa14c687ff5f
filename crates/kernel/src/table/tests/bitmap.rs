//! Bitmap indexes: their rows are those of the table at every snapshot, whatever is taken back.

use std::sync::Arc;
use std::time::Duration;

use observe::{Ctx, WaitEvent};

use super::{check_indexes, insert, key_of, make_table, range, row, set};
use crate::dict::{self, IndexKind, NewIndex, TableDef};
use crate::row::Datum;
use crate::table::Direction;
use crate::testing::TestInstance;
use std::ops::Bound;

async fn with_bitmap(ctx: &Ctx, db: &TestInstance, def: &TableDef) -> Arc<TableDef> {
    let new = NewIndex {
        kind: IndexKind::Bitmap,
        name: "t_owner_bits".to_owned(),
        columns: vec![1],
        included: Default::default(),
        orders: Vec::new(),
        unique: false,
        primary: false,
        constraint: None,
        predicate: None,
        exprs: Vec::new(),
    };
    let txn = db.begin();
    dict::create_index(ctx, &txn, def, new).await.expect("created");
    let def = dict::table(ctx, &txn, dict::PUBLIC, "t").await.expect("read").expect("the table");
    txn.commit(ctx).await.expect("committed");
    assert_eq!(def.indexes.len(), 4);
    def
}

#[test]
fn rows_come_and_go_in_their_bitmaps() {
    let db = TestInstance::new(11, 4096);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let def = with_bitmap(&ctx, &db, &def).await;
        let mut seed = 1_u64;
        let mut random = move |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            i64::try_from((seed >> 33) % below).expect("small")
        };
        let mut older = Vec::new();
        for round in 0..60 {
            let txn = db.begin();
            for n in 0..60 {
                let id = if round < 30 { round * 60 + n } else { random(1_800) };
                let owner = (random(10) > 0).then(|| random(4) * random(2) * random(90));
                let new = row(&def, id, owner, None);
                if round < 30 {
                    insert(&ctx, &txn, &def, &new).await.expect("inserted");
                } else {
                    let new = (random(3) > 0).then_some(new.as_slice());
                    set(&ctx, &txn, &def, id, new).await.expect("set");
                }
            }
            match round % 7 {
                6 if round > 30 => txn.rollback(&ctx).await.expect("rolled back"),
                _ => drop(txn.commit(&ctx).await.expect("committed")),
            }
            let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
            let rows = check_indexes(&ctx, &def, &snap).await;
            if round % 5 == 0 {
                older.push((snap, rows));
            }
        }
        for (snap, rows) in &older {
            assert_eq!(check_indexes(&ctx, &def, snap).await, *rows);
        }
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        let none = key_of(&[Datum::Int8(0)]);
        let bounds = || (Bound::Included(none.as_slice()), Bound::Included(none.as_slice()));
        for direction in [Direction::Forward, Direction::Backward] {
            let mut bits = range(&ctx, &def, "t_owner_bits", bounds(), direction, &snap).await;
            let mut tree = range(&ctx, &def, "t_owner", bounds(), direction, &snap).await;
            if direction == Direction::Backward {
                bits.reverse();
            }
            tree.sort_unstable();
            assert!(!bits.is_empty());
            assert_eq!(bits, tree);
        }
    });
}

#[test]
fn a_bitmap_is_made_from_the_rows_there_are() {
    let db = TestInstance::new(12, 4096);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        for id in 0..6_000 {
            let owner = if id % 50 == 0 { Some(id) } else { Some(id % 3) };
            insert(&ctx, &txn, &def, &row(&def, id, owner, None)).await.expect("inserted");
        }
        txn.commit(&ctx).await.expect("committed");
        let def = with_bitmap(&ctx, &db, &def).await;
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 6_000);
        let txn = db.begin();
        for id in 0..2_000 {
            let new = row(&def, id, Some(1), None);
            set(&ctx, &txn, &def, id, Some(&new)).await.expect("set");
        }
        let before = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &before).await, 6_000);
        txn.rollback(&ctx).await.expect("rolled back");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 6_000);
    });
}

/// A part of a piece that was cut, and which no undo names, belongs to nobody after a rollback.
#[test]
fn what_was_cut_and_taken_back_is_nobodys() {
    let db = TestInstance::new(15, 1024);
    let (a, b) = (db.session("a"), db.session("b"));
    db.run(async {
        let def = make_table(&a, &db).await;
        let txn = db.begin();
        for id in 0..8_000 {
            let owner = if id % 25 == 0 { 1 } else { 2 + id % 3 };
            insert(&a, &txn, &def, &row(&def, id, Some(owner), None)).await.expect("inserted");
        }
        txn.commit(&a).await.expect("committed");
        let def = with_bitmap(&a, &db, &def).await;
        let txn = db.begin();
        for id in 8_000..8_300 {
            insert(&a, &txn, &def, &row(&def, id, Some(1), None)).await.expect("inserted");
        }
        txn.rollback(&a).await.expect("rolled back");
        let (first, second) = (db.begin(), db.begin());
        insert(&a, &first, &def, &row(&def, 9_001, Some(3), None)).await.expect("inserted");
        let ending = async {
            db.env.sleep(Duration::from_millis(50)).await;
            first.rollback(&a).await.expect("rolled back");
        };
        let new = row(&def, 9_002, Some(1), None);
        let (inserted, ()) = futures::join!(insert(&b, &second, &def, &new), ending);
        inserted.expect("inserted");
        assert_eq!(b.session.totals().event(WaitEvent::EnqTxRowLock).waits, 0);
        second.commit(&b).await.expect("committed");
        let snap = db.begin().snapshot(&a).await.expect("snapshot");
        assert_eq!(check_indexes(&a, &def, &snap).await, 8_001);
    });
}

/// Rows of one piece have one lock; whoever waits for it does so in mode 4.
#[test]
fn a_piece_is_locked_as_a_whole() {
    let db = TestInstance::new(13, 1024);
    let (a, b) = (db.session("a"), db.session("b"));
    db.run(async {
        let def = make_table(&a, &db).await;
        let def = with_bitmap(&a, &db, &def).await;
        let (first, second) = (db.begin(), db.begin());
        insert(&a, &first, &def, &row(&def, 1, Some(5), None)).await.expect("inserted");
        let other = row(&def, 3, Some(6), None);
        insert(&b, &second, &def, &other).await.expect("another value is free");
        let ending = async {
            loop {
                let view = b.session.wait_view(db.env.now());
                if view.waiting && view.event == Some(WaitEvent::EnqTxRowLock) {
                    assert_eq!(view.p[0], observe::enq_p1(*b"TX", 4));
                    break;
                }
                db.env.sleep(Duration::from_millis(1)).await;
            }
            first.rollback(&a).await.expect("rolled back");
        };
        let same = row(&def, 2, Some(5), None);
        let (inserted, ()) = futures::join!(insert(&b, &second, &def, &same), ending);
        inserted.expect("inserted when the first has gone");
        second.commit(&b).await.expect("committed");
        let snap = db.begin().snapshot(&a).await.expect("snapshot");
        assert_eq!(check_indexes(&a, &def, &snap).await, 2);
    });
}
