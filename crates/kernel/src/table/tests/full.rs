//! Changes while the disk group has no room left.

use std::collections::BTreeSet;

use observe::Ctx;

use super::{insert, make_table, row, set};
use crate::error::Error;
use crate::table::Change;
use crate::testing::TestInstance;
use crate::undo::{UNDO_FILE, extents_of, segments_of};

const ROWS: i64 = 40;

/// Long, for a row's undo has the row.
fn tag(id: i64) -> String {
    format!("{id} {}", "x".repeat(1000))
}

/// Takes all the room there is.
async fn fill(ctx: &Ctx, db: &TestInstance) {
    for file in [4, UNDO_FILE] {
        let mut blocks = 1024;
        while blocks >= 8 {
            match db.core.space.reserve(ctx, file, blocks).await {
                Ok(reserved) => {
                    reserved.commit(ctx, &[], Vec::new());
                }
                Err(Error::DiskFull { .. }) => blocks /= 2,
                Err(e) => panic!("{e}"),
            }
        }
    }
}

/// The undo extents of all segments; none belongs to two.
async fn extents(ctx: &Ctx, db: &TestInstance) -> usize {
    let mut found = BTreeSet::new();
    let mut count = 0;
    for usn in segments_of(block::InstanceNo(1)) {
        let header = crate::undo::header_dba(usn);
        let pin = db.core.cache.pin(ctx, header, block::Mode::S).await.expect("a header");
        for extent in extents_of(&pin.read()) {
            count += 1;
            found.insert(extent.first);
        }
    }
    assert_eq!(found.len(), count, "an extent belongs to one segment");
    count
}

/// Changes all rows `rounds` times in one transaction.
async fn churn(ctx: &Ctx, db: &TestInstance, rounds: u32) -> Result<(), Error> {
    let def = super::find_table(ctx, db).await;
    let txn = db.begin();
    let mut done = Ok(());
    'all: for round in 0..rounds {
        for id in 0..ROWS {
            let new = row(&def, id, Some(i64::from(round % 2)), Some(&tag(id)));
            match set(ctx, &txn, &def, id, Some(&new)).await {
                Ok(Change::Done) => {}
                Ok(other) => panic!("{other:?}"),
                Err(e) => {
                    done = Err(e);
                    break 'all;
                }
            }
        }
    }
    txn.rollback(ctx).await.expect("rolled back");
    done
}

#[test]
fn undo_that_nobody_needs_gives_way_wherever_it_lies() {
    let mut db = TestInstance::new(31, 8192);
    let ctx = db.session("a");
    let before = db.run(async {
        let def = make_table(&ctx, &db).await;
        // So many that each segment has had some, and has its first extent.
        for id in 0..ROWS {
            let txn = db.begin();
            let new = row(&def, id, Some(1), Some(&tag(id)));
            insert(&ctx, &txn, &def, &new).await.expect("inserted");
            txn.commit(&ctx).await.expect("committed");
        }
        // The index has the room that changes need.
        churn(&ctx, &db, 9).await.expect("there is room");
        fill(&ctx, &db).await;
        let before = extents(&ctx, &db).await;
        assert!((10..15).contains(&before), "{before} extents");
        // More than the extents of one segment hold, then more than all of them.
        churn(&ctx, &db, 20).await.expect("the other segments' extents are free");
        let full = churn(&ctx, &db, 400).await.expect_err("there is an end to it");
        assert!(matches!(full, Error::DiskFull { .. }), "{full}");
        // What was refused has cost nobody anything.
        for _ in 0..12 {
            churn(&ctx, &db, 1).await.expect("small changes go on");
        }
        assert_eq!(extents(&ctx, &db).await, before);
        before
    });
    db.crash();
    let ctx = db.session("b");
    db.run(async {
        assert_eq!(extents(&ctx, &db).await, before);
        for _ in 0..12 {
            churn(&ctx, &db, 20).await.expect("changes go on");
        }
        assert_eq!(extents(&ctx, &db).await, before);
    });
}
