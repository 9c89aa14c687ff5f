//! Indexes whose keys are turned round: whole keys are found, and neighbours are far apart.

use std::ops::Bound;

use super::{check_indexes, insert, key_of, make_table, range, row, set};
use crate::dict::{self, IndexKind, NewIndex};
use crate::error::Error;
use crate::row::{Datum, reverse_key, unreversed_key};
use crate::table::{Direction, index_rowid};
use crate::testing::TestInstance;

#[test]
fn keys_turn_round_and_back_and_begin_with_none_other() {
    let keys: [&[u8]; 5] = [b"", b"a", b"ba", b"cba", &[7; 1200]];
    for one in keys {
        let mut turned = one.to_vec();
        reverse_key(&mut turned);
        let with_rowid = [turned.as_slice(), &[1; 8]].concat();
        assert_eq!(unreversed_key(&with_rowid).as_deref(), Some(one));
        for other in keys.iter().filter(|other| **other != one) {
            let mut other = other.to_vec();
            reverse_key(&mut other);
            assert!(!turned.starts_with(&other));
        }
    }
    assert_eq!(unreversed_key(&[0]), None);
    assert_eq!(unreversed_key(&[0, 4, 1]), None);
}

#[test]
fn rows_are_found_by_their_whole_keys() {
    let db = TestInstance::new(16, 1024);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let index = |name: &str, columns: &[u16], unique: bool| NewIndex {
            kind: IndexKind::Reverse,
            name: name.to_owned(),
            columns: columns.to_vec(),
            included: Default::default(),
            orders: Vec::new(),
            unique,
            primary: false,
            constraint: unique.then(|| name.to_owned()),
            predicate: None,
            exprs: Vec::new(),
        };
        let txn = db.begin();
        for id in 0..300 {
            insert(&ctx, &txn, &def, &row(&def, id, Some(id % 7), None)).await.expect("inserted");
        }
        txn.commit(&ctx).await.expect("committed");
        let txn = db.begin();
        dict::create_index(&ctx, &txn, &def, index("t_turned", &[1], false)).await.expect("made");
        let def = dict::table(&ctx, &txn, dict::PUBLIC, "t").await.expect("read").expect("there");
        dict::create_index(&ctx, &txn, &def, index("t_unique", &[0], true)).await.expect("made");
        let def = dict::table(&ctx, &txn, dict::PUBLIC, "t").await.expect("read").expect("there");
        txn.commit(&ctx).await.expect("committed");
        let txn = db.begin();
        for id in 300..600 {
            let owner = (id % 5 > 0).then_some(id % 7);
            insert(&ctx, &txn, &def, &row(&def, id, owner, None)).await.expect("inserted");
        }
        for id in (0..600).step_by(3) {
            let new = (id % 2 == 0).then(|| row(&def, id, Some(3), None));
            set(&ctx, &txn, &def, id, new.as_deref()).await.expect("set");
        }
        let twice = row(&def, 400, None, None);
        match insert(&ctx, &txn, &def, &twice).await {
            Err(Error::UniqueViolation { .. }) => {}
            other => panic!("{other:?}"),
        }
        txn.rollback(&ctx).await.expect("rolled back");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 300);
        let three = key_of(&[Datum::Int8(3)]);
        let bounds = || (Bound::Included(three.as_slice()), Bound::Included(three.as_slice()));
        let forward = Direction::Forward;
        let mut turned = range(&ctx, &def, "t_turned", bounds(), forward, &snap).await;
        let mut tree = range(&ctx, &def, "t_owner", bounds(), forward, &snap).await;
        turned.sort_unstable();
        tree.sort_unstable();
        assert_eq!(turned.len(), 43);
        assert_eq!(turned, tree);
        let unique = def.indexes.iter().find(|index| index.name == "t_unique").expect("there");
        let key = key_of(&[Datum::Int8(77)]);
        assert!(index_rowid(&ctx, unique, &key, &snap).await.expect("read").is_some());
        let key = key_of(&[Datum::Int8(7_777)]);
        assert!(index_rowid(&ctx, unique, &key, &snap).await.expect("read").is_none());
    });
}
