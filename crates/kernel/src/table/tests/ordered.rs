//! Indexes in which the values of columns descend, or NULLs come first.

use std::ops::Bound;

use super::{check_indexes, insert, make_table, row, set};
use crate::dict::{self, IndexKind, NewIndex};
use crate::row::{Datum, KeyOrder, Value, decode_ordered_prefix};
use crate::table::{Direction, index_range};
use crate::testing::TestInstance;

#[test]
fn entries_stand_in_the_order_that_was_asked_for() {
    let db = TestInstance::new(16, 1024);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        for id in 0..200 {
            let owner = (id % 6 > 0).then_some(id % 6);
            insert(&ctx, &txn, &def, &row(&def, id, owner, None)).await.expect("inserted");
        }
        let order = |descending, nulls_first| KeyOrder { descending, nulls_first };
        for (name, columns, orders, unique) in [
            ("t_down", [1, 0], [order(true, true), order(false, false)], false),
            ("t_first", [1, 0], [order(false, true), order(true, false)], false),
            ("t_unique", [0, 1], [order(true, false), order(true, true)], true),
        ] {
            let new = NewIndex {
                kind: IndexKind::Tree,
                name: name.to_owned(),
                columns: columns.to_vec(),
                included: Default::default(),
                orders: orders.to_vec(),
                unique,
                primary: false,
                constraint: None,
                predicate: None,
                exprs: Vec::new(),
            };
            let def = dict::table(&ctx, &txn, dict::PUBLIC, "t").await.expect("read").expect("it");
            dict::create_index(&ctx, &txn, &def, new).await.expect("made");
        }
        txn.commit(&ctx).await.expect("committed");
        let txn = db.begin();
        let def = dict::table(&ctx, &txn, dict::PUBLIC, "t").await.expect("read").expect("it");
        for id in 200..300 {
            let owner = (id % 5 > 0).then_some(id % 6);
            insert(&ctx, &txn, &def, &row(&def, id, owner, None)).await.expect("inserted");
        }
        for id in (0..300).step_by(3) {
            let new = (id % 2 == 0).then(|| row(&def, id, Some(3), None));
            set(&ctx, &txn, &def, id, new.as_deref()).await.expect("set");
        }
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 250);
        let index = def.indexes.iter().find(|index| index.name == "t_first").expect("it is there");
        let (low, high) = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = index_range(&ctx, index, low, high, Direction::Forward, &snap);
        let (mut batch, mut found) = (Vec::new(), Vec::new());
        while scan.next_batch(&ctx, &mut batch).await.expect("read") {
            for (key, _) in batch.drain(..) {
                let types = [1, 0].map(|at: usize| def.columns[at].ty);
                let mut values = Vec::new();
                decode_ordered_prefix(&types, index.orders(), &key, &mut values).expect("a key");
                let number = |value: &Value| match value.as_datum() {
                    Datum::Int8(n) => Some(n),
                    Datum::Int4(n) => Some(i64::from(n)),
                    _ => None,
                };
                // None is less than any number.
                found.push((number(&values[0]), std::cmp::Reverse(number(&values[1]))));
            }
        }
        assert_eq!(found.len(), 250);
        assert!(found.is_sorted() && found[0].0.is_none(), "{found:?}");
    });
}
