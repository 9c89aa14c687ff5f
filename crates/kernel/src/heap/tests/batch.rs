//! Several rows at a time.

use block::bytes::ByteList;
use observe::Stat;

use super::*;

fn list(rows: impl Iterator<Item = Vec<u8>>) -> ByteList {
    let mut list = ByteList::new();
    rows.for_each(|row| list.push(&row));
    list
}

impl Table {
    async fn insert_many(&self, txn: &Arc<Transaction>, rows: &ByteList) -> Vec<Rowid> {
        let mut rowids = Vec::new();
        let done = super::super::insert_many(self.ctx(), txn, &self.seg, rows, &mut rowids).await;
        done.unwrap();
        assert_eq!(rowids.len(), rows.len());
        rowids
    }
}

#[test]
fn many_rows_are_one_record_for_each_block_and_go_with_their_transaction() {
    let t = table();
    t.rig.world.block_on(async {
        let first = t.insert_committed(b"first").await;
        let before = t.now();
        let rows = list((0..1000).map(|i| row_of(100, i as u8)));
        let txn = t.rig.begin();
        let redo = t.rig.observer.stat(Stat::RedoEntries);
        let rowids = t.insert_many(&txn, &rows).await;
        let redo = t.rig.observer.stat(Stat::RedoEntries) - redo;
        assert!(redo < 100, "{redo} redo records for 1000 rows");
        let point = txn.savepoint();
        let more = t.insert_many(&txn, &rows).await;
        let own = t.all(&txn.snapshot_now().unwrap()).await;
        assert_eq!(own.len(), 2001);
        for (rowid, row) in rowids.iter().zip(rows.iter()) {
            assert_eq!(own.get(rowid).map(Vec::as_slice), Some(row));
        }
        assert_eq!(t.all(&t.now()).await.len(), 1);
        txn.rollback_to(t.ctx(), point).await.unwrap();
        assert_eq!(t.all(&txn.snapshot_now().unwrap()).await.len(), 1001);
        assert_eq!(t.get(&txn.snapshot_now().unwrap(), more[7]).await, None);
        t.set(&txn, rowids[3], b"changed").await;
        txn.commit(t.ctx()).await.unwrap();
        assert_eq!(t.all(&before).await.len(), 1);
        assert_eq!(t.get(&before, first).await.unwrap(), b"first");
        assert_eq!(t.get(&t.now(), rowids[3]).await.unwrap(), b"changed");
        assert_eq!(t.all(&t.now()).await.len(), 1001);
        t.verify().await;
        let txn = t.rig.begin();
        t.insert_many(&txn, &rows).await;
        txn.rollback(t.ctx()).await.unwrap();
        assert_eq!(t.all(&t.now()).await.len(), 1001);
        t.verify().await;
    });
}

#[test]
fn a_batch_takes_long_rows_too_and_leaves_no_block_half_empty() {
    let t = table();
    t.rig.world.block_on(async {
        let lens = [10, 6000, ROW_PIECE_BYTES_MAX, 20_000, 0, 3000, 3000, 3000, 50];
        let rows = list(lens.iter().enumerate().map(|(i, len)| row_of(*len, i as u8)));
        let txn = t.rig.begin();
        let rowids = t.insert_many(&txn, &rows).await;
        txn.commit(t.ctx()).await.unwrap();
        let now = t.now();
        for (rowid, row) in rowids.iter().zip(rows.iter()) {
            assert_eq!(t.get(&now, *rowid).await.as_deref(), Some(row));
        }
        assert_eq!(t.all(&now).await.len(), lens.len());
        t.verify().await;
    });
}

/// Rows that were deleted leave slots and room, which a batch takes once nobody sees them.
#[test]
fn a_batch_uses_the_room_of_deleted_rows() {
    let t = table();
    t.rig.world.block_on(async {
        let rows = list((0..400).map(|i| row_of(150, i as u8)));
        let txn = t.rig.begin();
        let rowids = t.insert_many(&txn, &rows).await;
        txn.commit(t.ctx()).await.unwrap();
        let blocks = t.blocks().await;
        let mut left = 400;
        for _ in 0..6 {
            let txn = t.rig.begin();
            for rowid in t.all(&t.now()).await.into_keys().step_by(2) {
                t.remove(&txn, rowid).await;
                left -= 1;
            }
            txn.commit(t.ctx()).await.unwrap();
            let txn = t.rig.begin();
            let more = list((left..400).map(|i| row_of(150, i as u8)));
            t.insert_many(&txn, &more).await;
            txn.commit(t.ctx()).await.unwrap();
            left = 400;
            assert_eq!(t.all(&t.now()).await.len(), 400);
            t.verify().await;
        }
        assert_eq!(rowids.len(), 400);
        assert!(t.blocks().await <= 2 * blocks, "{} blocks, {blocks} before", t.blocks().await);
    });
}

/// A small table whose rows are all changed all the time is no hot block.
#[test]
fn the_first_rows_of_a_table_are_spread_and_keep_their_order() {
    let blocks = |rowids: &[Rowid]| {
        let mut counts: Vec<(block::Dba, usize)> = Vec::new();
        for rowid in rowids {
            match counts.last_mut() {
                Some((dba, count)) if *dba == rowid.dba => *count += 1,
                _ => counts.push((rowid.dba, 1)),
            }
        }
        counts.into_iter().map(|(_, count)| count).collect::<Vec<_>>()
    };
    let t = table();
    t.rig.world.block_on(async {
        let mut rowids = Vec::new();
        for i in 0..80 {
            rowids.push(t.insert_committed(&row_of(40, i)).await);
        }
        assert!(rowids.is_sorted());
        assert_eq!(blocks(&rowids), [2, 2, 4, 8, 16, 48], "the last goes on");
    });
    let cases: [(usize, &[usize]); 4] =
        [(1, &[1]), (16, &[3, 3, 3, 3, 2, 2]), (160, &[27, 27, 27, 27, 26, 26]), (5, &[2, 2, 1])];
    for (count, expected) in cases {
        let t = table();
        t.rig.world.block_on(async {
            let rows = list((0..count).map(|i| row_of(40, i as u8)));
            let txn = t.rig.begin();
            let rowids = t.insert_many(&txn, &rows).await;
            txn.commit(t.ctx()).await.unwrap();
            assert!(rowids.is_sorted());
            assert_eq!(blocks(&rowids), expected, "{count} rows");
            t.verify().await;
        });
    }
}
