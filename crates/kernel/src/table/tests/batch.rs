//! Several rows at a time, with their indexes.

use block::bytes::ByteList;

use super::*;
use crate::table::insert_many;

fn batch(rows: &[Vec<u8>]) -> ByteList {
    let mut list = ByteList::new();
    rows.iter().for_each(|row| list.push(row));
    list
}

#[test]
fn a_batch_fills_table_and_indexes_whatever_its_order() {
    let db = TestInstance::new(31, 1024);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        let one = |i: i64| {
            let id = i * 7919 % 5000;
            let tag = (id % 3 != 0).then(|| format!("{:05}", id * 31 % 5000));
            row(&def, id, (id % 5 != 0).then_some(id % 11), tag.as_deref())
        };
        let mut rowids = Vec::new();
        for from in (0..2000).step_by(500) {
            let rows: Vec<Vec<u8>> = (from..from + 500).map(one).collect();
            insert_many(&ctx, &txn, &def, &batch(&rows), &mut rowids).await.expect("inserted");
            assert_eq!(rowids.len(), 500);
        }
        let own = txn.snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &own).await, 2000);
        let point = txn.savepoint();
        let rows: Vec<Vec<u8>> = (2000..2500).map(one).collect();
        insert_many(&ctx, &txn, &def, &batch(&rows), &mut rowids).await.expect("inserted");
        txn.rollback_to(&ctx, point).await.expect("rolled back");
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 2000);
        assert!(by_id(&ctx, &def, &snap, 7919 % 5000).await.is_some());
    });
}

/// As row by row: the first row that breaks a constraint, by the first constraint it breaks.
#[test]
fn the_first_row_to_be_refused_is_the_one_that_is_named() {
    let db = TestInstance::new(32, 1024);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        insert(&ctx, &txn, &def, &row(&def, 100, None, Some("m"))).await.expect("inserted");
        insert(&ctx, &txn, &def, &row(&def, 50, None, Some("a"))).await.expect("inserted");
        txn.commit(&ctx).await.expect("committed");
        let new = |id, tag: &str| row(&def, id, None, Some(tag));
        let cases = [
            // By tag in row 1, by id in row 2.
            (vec![new(1, "x"), new(2, "m"), new(50, "y")], 1, "t_tag_key"),
            // The smallest refused key comes in a later row.
            (vec![new(1, "x"), new(100, "n"), new(50, "y")], 1, "t_pkey"),
            // Both by the same row.
            (vec![new(100, "m")], 0, "t_pkey"),
            (vec![new(3, "x"), new(100, "a"), new(4, "a")], 1, "t_pkey"),
            // Among themselves.
            (vec![new(9, "x"), new(8, "y"), new(9, "z"), new(7, "x")], 2, "t_pkey"),
            (vec![new(9, "x"), new(8, "x"), new(9, "z")], 1, "t_tag_key"),
        ];
        for (rows, at, name) in cases {
            let txn = db.begin();
            let refused = insert_many(&ctx, &txn, &def, &batch(&rows), &mut Vec::new()).await;
            match refused {
                Err(Error::UniqueViolation { index, row, .. }) => {
                    assert_eq!((index.as_str(), row), (name, rows[at].clone()));
                }
                other => panic!("{other:?}"),
            }
            txn.rollback(&ctx).await.expect("rolled back");
        }
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 2);
    });
}
