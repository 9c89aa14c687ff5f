//! Look-ups that wait: for a block that is not here, for a clone.

use super::*;
use crate::table::{Looked, index_lookup_now};

const ROWS: i64 = 2_000;

fn at_once(ctx: &Ctx, def: &TableDef, snap: &Snapshot, id: i64) -> Looked {
    let index = &def.indexes[index_no(def, "t_pkey")];
    let key = key_of(&[Datum::Int8(id)]);
    index_lookup_now(ctx, def, index, &key, snap, &mut Vec::new()).expect("read")
}

/// Gets of one look-up, and the row.
async fn looked_up(ctx: &Ctx, def: &TableDef, snap: &Snapshot, id: i64) -> (u64, Vec<u8>) {
    let gets = || ctx.session.stat(Stat::ConsistentGets, &ctx.env);
    let before = gets();
    let (_, row) = by_id(ctx, def, snap, id).await.expect("the row");
    (gets() - before, row)
}

#[test]
fn a_look_up_that_waits_gets_each_block_once() {
    let mut db = TestInstance::new(7, 400);
    let ctx = db.session("main");
    let def = db.run(async {
        let def = make_table(&ctx, &db).await;
        let txn = db.begin();
        for id in 0..ROWS {
            insert(&ctx, &txn, &def, &row(&def, id, None, None)).await.expect("inserted");
        }
        txn.commit(&ctx).await.expect("committed");
        def
    });
    let own = db.begin();
    let snap = db.run(own.snapshot(&ctx)).expect("a snapshot");
    assert!(matches!(at_once(&ctx, &def, &snap, 1_000), Looked::Done(Some(_))));
    assert!(matches!(at_once(&ctx, &def, &snap, ROWS), Looked::Done(None)));
    // Root, leaf and row.
    let (warm, before) = db.run(looked_up(&ctx, &def, &snap, 1_000));
    assert_eq!(warm, 3);
    let other = db.begin();
    let new = row(&def, 1_000, Some(1), None);
    let changed = db.run(set(&ctx, &other, &def, 1_000, Some(&new)));
    assert_eq!(changed.expect("changed"), Change::Done);
    assert!(matches!(at_once(&ctx, &def, &snap, 1_000), Looked::Waits(_)));
    let clones = ctx.session.stat(Stat::CrBlocksCreated, &ctx.env);
    // And the undo block that says how it was.
    assert_eq!(db.run(looked_up(&ctx, &def, &snap, 1_000)), (4, before.clone()));
    assert_eq!(ctx.session.stat(Stat::CrBlocksCreated, &ctx.env), clones + 1);
    db.run(other.rollback(&ctx)).expect("ended");
    drop((snap, own, other));
    db.crash();
    let ctx = db.session("again");
    let def = db.run(find_table(&ctx, &db));
    let own = db.begin();
    let snap = db.run(own.snapshot(&ctx)).expect("a snapshot");
    assert!(matches!(at_once(&ctx, &def, &snap, 1_000), Looked::Waits(_)), "nothing is here");
    assert_eq!(db.run(looked_up(&ctx, &def, &snap, 1_000)), (3, before));
}
