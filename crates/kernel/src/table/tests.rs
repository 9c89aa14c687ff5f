//! Rows and indexes together, on a whole instance in the simulated world.

mod at_once;
mod batch;
mod bitmap;
mod crash;
mod full;
mod ordered;
mod reverse;

use std::ops::Bound;
use std::sync::Arc;

use block::Rowid;
use observe::{Ctx, Stat};

use super::{
    Change, Direction, LockWait, delete, delete_held, hold, index_lookup, index_range, insert,
    scan, update, update_held,
};
use crate::dict::{self, ColumnDef, NewIndex, NewTable, PUBLIC, SUPERUSER_OBJ, TableDef};
use crate::error::{Error, Result};
use crate::row::{ColType, Datum, RowView, TypeKind, encode_key};
use crate::testing::TestInstance;
use crate::txn::{Snapshot, Transaction};

/// `t (id bigint primary key, owner bigint, tag text unique)`, with an index on (owner, id).
async fn make_table(ctx: &Ctx, db: &TestInstance) -> Arc<TableDef> {
    let column = |name: &str, kind| ColumnDef {
        name: name.to_owned(),
        ty: ColType::new(kind),
        not_null: name == "id",
        default: None,
        missing: None,
        comment: None,
        generated: None,
        acl: None,
    };
    let index = |name: &str, columns: &[u16], unique, primary| NewIndex {
        kind: Default::default(),
        name: name.to_owned(),
        columns: columns.to_vec(),
        included: Default::default(),
        orders: Vec::new(),
        unique,
        primary,
        constraint: unique.then(|| name.to_owned()),
        predicate: None,
        exprs: Vec::new(),
    };
    let new = NewTable {
        checks: Vec::new(),
        schema: PUBLIC.to_owned(),
        name: "t".to_owned(),
        owner: SUPERUSER_OBJ,
        columns: vec![
            column("id", TypeKind::Int8),
            column("owner", TypeKind::Int8),
            column("tag", TypeKind::Text),
        ],
        indexes: vec![index("t_pkey", &[0], true, true), index("t_tag_key", &[2], true, false)],
    };
    let txn = db.begin();
    let def = dict::create_table(ctx, &txn, new).await.expect("created");
    dict::create_index(ctx, &txn, &def, index("t_owner", &[1, 0], false, false))
        .await
        .expect("created");
    txn.commit(ctx).await.expect("committed");
    find_table(ctx, db).await
}

async fn find_table(ctx: &Ctx, db: &TestInstance) -> Arc<TableDef> {
    let txn = db.begin();
    let def = dict::table(ctx, &txn, PUBLIC, "t").await.expect("read").expect("the table");
    txn.rollback(ctx).await.expect("ended");
    assert_eq!(def.indexes.len(), 3);
    def
}

fn row(def: &TableDef, id: i64, owner: Option<i64>, tag: Option<&str>) -> Vec<u8> {
    let owner = owner.map_or(Datum::Null, Datum::Int8);
    let tag = tag.map_or(Datum::Null, Datum::Text);
    def.encode(&[Datum::Int8(id), owner, tag])
}

fn key_of(values: &[Datum<'_>]) -> Vec<u8> {
    let mut key = Vec::new();
    encode_key(values, &mut key);
    key
}

fn index_no(def: &TableDef, name: &str) -> usize {
    def.indexes.iter().position(|i| i.name == name).expect("an index of the table")
}

async fn by_id(ctx: &Ctx, def: &TableDef, snap: &Snapshot, id: i64) -> Option<(Rowid, Vec<u8>)> {
    let index = &def.indexes[index_no(def, "t_pkey")];
    let mut row = Vec::new();
    let key = key_of(&[Datum::Int8(id)]);
    let rowid = index_lookup(ctx, def, index, &key, snap, &mut row).await.expect("read")?;
    Some((rowid, row))
}

/// Changes or deletes (`None`) the row with this id as it stands now.
async fn set(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    id: i64,
    new: Option<&[u8]>,
) -> Result<Change> {
    loop {
        let snap = txn.snapshot(ctx).await?;
        let Some((rowid, seen)) = by_id(ctx, def, &snap, id).await else {
            return Ok(Change::Gone);
        };
        let wait = LockWait::Wait;
        let change = match new {
            Some(new) => update(ctx, txn, def, rowid, &snap, &seen, new, wait).await?,
            None => delete(ctx, txn, def, rowid, &snap, &seen, wait).await?,
        };
        // READ COMMITTED: once more on the newer version.
        if !matches!(change, Change::Newer(_)) {
            return Ok(change);
        }
    }
}

async fn range(
    ctx: &Ctx,
    def: &TableDef,
    name: &str,
    bounds: (Bound<&[u8]>, Bound<&[u8]>),
    direction: Direction,
    snap: &Snapshot,
) -> Vec<Rowid> {
    let index = &def.indexes[index_no(def, name)];
    let mut scan = index_range(ctx, index, bounds.0, bounds.1, direction, snap);
    let (mut all, mut batch) = (Vec::new(), Vec::new());
    while scan.next_batch(ctx, &mut batch).await.expect("read") {
        all.extend(batch.drain(..).map(|(_, rowid)| rowid));
    }
    all
}

/// All rows of the table by a full scan.
async fn all_rows(ctx: &Ctx, def: &TableDef, snap: &Snapshot) -> Vec<(Rowid, Vec<u8>)> {
    let mut rows = Vec::new();
    let mut scan = scan(ctx, def, snap).await.expect("a scan");
    while scan.next_block(ctx, |rowid, row| rows.push((rowid, row.to_vec()))).await.expect("read") {
    }
    rows
}

/// Every index holds exactly one entry for each row, under the row's key.
async fn check_indexes(ctx: &Ctx, def: &TableDef, snap: &Snapshot) -> usize {
    let rows = all_rows(ctx, def, snap).await;
    for index in &def.indexes {
        let bounds = (Bound::Unbounded, Bound::Unbounded);
        let mut found = Vec::new();
        let mut scan = index_range(ctx, index, bounds.0, bounds.1, Direction::Forward, snap);
        let mut batch = Vec::new();
        while scan.next_batch(ctx, &mut batch).await.expect("read") {
            found.append(&mut batch);
        }
        let mut want: Vec<(Vec<u8>, Rowid)> = rows
            .iter()
            .map(|(rowid, row)| {
                let mut key = Vec::new();
                let columns = &index.columns;
                let form = index.form();
                crate::btree::entry_key(&def.types, columns, form, row, *rowid, &mut key);
                (key, *rowid)
            })
            .collect();
        want.sort_unstable();
        assert_eq!(found, want, "index {}", index.name);
    }
    rows.len()
}

#[test]
fn rows_are_found_by_key_range_and_scan() {
    let db = TestInstance::new(1, 1024);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        for id in 0..500 {
            let tag = format!("tag {id:04}");
            let row = row(&def, id, Some(id % 7), Some(&tag));
            insert(&ctx, &txn, &def, &row).await.expect("inserted");
        }
        let outside = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert!(by_id(&ctx, &def, &outside, 77).await.is_none());
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 500);
        let (_, found) = by_id(&ctx, &def, &snap, 77).await.expect("the row");
        assert_eq!(RowView::new(&def.types, &found).get(2), Datum::Text("tag 0077"));
        // A bound is a prefix of columns: owner alone, then owner and id.
        let three = key_of(&[Datum::Int8(3)]);
        let same = (Bound::Included(three.as_slice()), Bound::Included(three.as_slice()));
        let rowids = range(&ctx, &def, "t_owner", same, Direction::Forward, &snap).await;
        assert_eq!(rowids.len(), (0..500).filter(|id| id % 7 == 3).count());
        let mut back = range(&ctx, &def, "t_owner", same, Direction::Backward, &snap).await;
        back.reverse();
        assert_eq!(back, rowids);
        let above = (Bound::Excluded(three.as_slice()), Bound::Unbounded);
        let above = range(&ctx, &def, "t_owner", above, Direction::Forward, &snap).await;
        assert_eq!(above.len(), (0..500).filter(|id| id % 7 > 3).count());
        let one = key_of(&[Datum::Int8(3), Datum::Int8(10)]);
        let one = (Bound::Included(one.as_slice()), Bound::Included(one.as_slice()));
        let one = range(&ctx, &def, "t_owner", one, Direction::Forward, &snap).await;
        assert_eq!(one, vec![by_id(&ctx, &def, &snap, 10).await.expect("the row").0]);
    });
}

#[test]
fn a_unique_constraint_names_itself_and_nulls_do_not_collide() {
    let db = TestInstance::new(2, 1024);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        for id in 0..10 {
            insert(&ctx, &txn, &def, &row(&def, id, None, None)).await.expect("NULLs differ");
        }
        insert(&ctx, &txn, &def, &row(&def, 10, None, Some("x"))).await.expect("inserted");
        let point = txn.savepoint();
        for (new, name) in
            [(row(&def, 3, None, None), "t_pkey"), (row(&def, 11, None, Some("x")), "t_tag_key")]
        {
            match insert(&ctx, &txn, &def, &new).await {
                Err(Error::UniqueViolation { index, .. }) => assert_eq!(index, name),
                other => panic!("{other:?}"),
            }
            txn.rollback_to(&ctx, point).await.expect("statement rolled back");
        }
        let change = set(&ctx, &txn, &def, 4, Some(&row(&def, 5, None, None))).await;
        assert!(matches!(change, Err(Error::UniqueViolation { .. })), "{change:?}");
        txn.rollback_to(&ctx, point).await.expect("statement rolled back");
        txn.commit(&ctx).await.expect("committed");
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 11);
    });
}

#[test]
fn updates_and_deletes_keep_the_indexes_in_step() {
    let db = TestInstance::new(3, 1024);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        for id in 0..300 {
            insert(&ctx, &txn, &def, &row(&def, id, Some(1), None)).await.expect("inserted");
        }
        txn.commit(&ctx).await.expect("committed");
        let before = db.begin().snapshot(&ctx).await.expect("snapshot");
        let txn = db.begin();
        for id in 0..100 {
            let tag = format!("{id}");
            let new = row(&def, id, Some(2), Some(&tag));
            assert_eq!(set(&ctx, &txn, &def, id, Some(&new)).await.expect("set"), Change::Done);
        }
        for id in 100..200 {
            let new = row(&def, id + 1000, None, None);
            assert_eq!(set(&ctx, &txn, &def, id, Some(&new)).await.expect("set"), Change::Done);
        }
        for id in 200..250 {
            assert_eq!(set(&ctx, &txn, &def, id, None).await.expect("set"), Change::Done);
        }
        let point = txn.savepoint();
        for id in 250..300 {
            assert_eq!(set(&ctx, &txn, &def, id, None).await.expect("set"), Change::Done);
            let again = row(&def, id, Some(9), Some("again"));
            insert(&ctx, &txn, &def, &again).await.expect("inserted");
            assert_eq!(set(&ctx, &txn, &def, id, None).await.expect("set"), Change::Done);
        }
        let own = txn.snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &own).await, 200);
        txn.rollback_to(&ctx, point).await.expect("rolled back");
        let own = txn.snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &own).await, 250);
        assert_eq!(check_indexes(&ctx, &def, &before).await, 300);
        txn.commit(&ctx).await.expect("committed");
        assert_eq!(check_indexes(&ctx, &def, &before).await, 300);
        let after = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &after).await, 250);
    });
}

/// An update that changes no key changes one block: the heap's.
#[test]
fn an_update_leaves_indexes_alone_whose_key_is_the_same() {
    let db = TestInstance::new(4, 1024);
    let ctx = db.session("a");
    db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        insert(&ctx, &txn, &def, &row(&def, 1, Some(1), None)).await.expect("inserted");
        txn.commit(&ctx).await.expect("committed");
        let changes = async |new: Vec<u8>| {
            let txn = db.begin();
            set(&ctx, &txn, &def, 1, Some(&new)).await.expect("set");
            let before = db.observer.stat(Stat::RedoEntries);
            set(&ctx, &txn, &def, 1, Some(&new)).await.expect("set");
            let first = db.observer.stat(Stat::RedoEntries) - before;
            txn.rollback(&ctx).await.expect("rolled back");
            first
        };
        assert_eq!(changes(row(&def, 1, Some(1), None)).await, 1);
        // And one that changes two keys marks and adds two entries besides. Each undo
        // segment gets its first extent when it is used first.
        let mut records = 0;
        for _ in 0..20 {
            let txn = db.begin();
            let before = db.observer.stat(Stat::RedoEntries);
            let new = row(&def, 1, Some(5), Some("five"));
            set(&ctx, &txn, &def, 1, Some(&new)).await.expect("set");
            records = db.observer.stat(Stat::RedoEntries) - before;
            txn.rollback(&ctx).await.expect("rolled back");
        }
        assert_eq!(records, 5);
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        assert_eq!(check_indexes(&ctx, &def, &snap).await, 1);
    });
}

/// READ COMMITTED meets a newer version and goes on from it; REPEATABLE READ refuses.
#[test]
fn an_update_that_waited_starts_again_on_the_newer_version() {
    let db = TestInstance::new(5, 1024);
    let (a, b) = (db.session("a"), db.session("b"));
    db.run(async {
        let def = make_table(&a, &db).await;
        let txn = db.begin();
        insert(&a, &txn, &def, &row(&def, 1, Some(1), None)).await.expect("inserted");
        txn.commit(&a).await.expect("committed");
        let (first, second, third) = (db.begin(), db.begin(), db.begin_repeatable());
        let old = third.snapshot(&b).await.expect("snapshot");
        let seen = by_id(&b, &def, &old, 1).await.expect("the row");
        set(&a, &first, &def, 1, Some(&row(&def, 1, Some(2), None))).await.expect("set");
        let new = row(&def, 1, Some(3), Some("third"));
        let waiting = set(&b, &second, &def, 1, Some(&new));
        let ending = async {
            db.env.sleep(std::time::Duration::from_millis(20)).await;
            first.commit(&a).await.expect("committed");
        };
        let (change, ()) = futures::join!(waiting, ending);
        assert_eq!(change.expect("set"), Change::Done);
        second.commit(&b).await.expect("committed");
        let wait = LockWait::Wait;
        let late = update(&b, &third, &def, seen.0, &old, &seen.1, &new, wait).await;
        assert!(matches!(late, Err(Error::Serialization(_))), "{late:?}");
        third.rollback(&b).await.expect("rolled back");
        let snap = db.begin().snapshot(&a).await.expect("snapshot");
        let (_, found) = by_id(&a, &def, &snap, 1).await.expect("the row");
        assert_eq!(found, new);
        assert_eq!(check_indexes(&a, &def, &snap).await, 1);
    });
}

/// A row that is held for its change is the newest, whatever the snapshot shows; whoever has it
/// locked is awaited.
#[test]
fn a_held_row_is_the_newest() {
    let db = TestInstance::new(6, 1024);
    let (a, b) = (db.session("a"), db.session("b"));
    db.run(async {
        let def = make_table(&a, &db).await;
        let txn = db.begin();
        for id in [1, 2] {
            insert(&a, &txn, &def, &row(&def, id, Some(1), None)).await.expect("inserted");
        }
        txn.commit(&a).await.expect("committed");
        let (first, second, third) = (db.begin(), db.begin(), db.begin_repeatable());
        let old = second.snapshot(&b).await.expect("snapshot");
        let (rowid, seen) = by_id(&b, &def, &old, 1).await.expect("the row");
        let newer = row(&def, 1, Some(2), Some("newer"));
        set(&a, &first, &def, 1, Some(&newer)).await.expect("set");
        let mut stands = vec![7];
        let refused = hold(&b, &second, &def, rowid, Some(LockWait::NoWait), &mut stands).await;
        assert!(matches!(refused, Err(Error::RowLocked)));
        for wait in [None, Some(LockWait::SkipLocked)] {
            let held = hold(&b, &second, &def, rowid, wait, &mut stands).await.expect("a look");
            assert!(held.is_none() && stands.is_empty());
        }
        let ending = async {
            db.env.sleep(std::time::Duration::from_millis(20)).await;
            first.commit(&a).await.expect("committed");
        };
        let waiting = hold(&b, &second, &def, rowid, Some(LockWait::Wait), &mut stands);
        let (held, ()) = futures::join!(waiting, ending);
        let held = held.expect("a look").expect("held");
        assert!(stands == newer && stands != seen);
        let new = row(&def, 1, Some(3), None);
        let wait = LockWait::Wait;
        let done = update_held(&b, &second, &def, held, &old, &stands, &new, wait).await;
        assert_eq!(done.expect("updated"), Change::Done);
        // Its own change counts, and a deleted row is not there to be held.
        let held = hold(&b, &second, &def, rowid, Some(wait), &mut stands).await.expect("a look");
        assert_eq!(stands, new);
        let held = held.expect("held");
        let done = delete_held(&b, &second, &def, held, &old, &new, wait).await;
        assert_eq!(done.expect("deleted"), Change::Done);
        let gone = hold(&b, &second, &def, rowid, Some(wait), &mut stands).await.expect("a look");
        assert!(gone.is_none());
        second.commit(&b).await.expect("committed");
        // REPEATABLE READ takes no row but its snapshot's.
        let snap = third.snapshot(&b).await.expect("snapshot");
        let (rowid, _) = by_id(&b, &def, &snap, 2).await.expect("the row");
        let held = hold(&b, &third, &def, rowid, Some(wait), &mut stands).await.expect("a look");
        assert!(held.is_none());
        third.rollback(&b).await.expect("rolled back");
        let snap = db.begin().snapshot(&a).await.expect("snapshot");
        assert_eq!(check_indexes(&a, &def, &snap).await, 1);
    });
}
