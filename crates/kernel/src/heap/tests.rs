mod batch;
mod counted;
mod history;

use std::collections::BTreeMap;
use std::sync::Arc;

use block::{ObjId, Rowid, rows};
use observe::Ctx;

use super::{Change, HeapSeg, ROW_BYTES_MAX, ROW_PIECE_BYTES_MAX};
use crate::error::Error;
use crate::space::{DATA_FILE, SegmentKind};
use crate::testing::TestInstance;
use crate::txn::{LockWait, Snapshot, Transaction};

/// A table on an instance, with short names for what tests do all the time.
struct Table {
    rig: TestInstance,
    ctx: Ctx,
    seg: HeapSeg,
}

fn table() -> Table {
    table_on(TestInstance::new(1, 4096))
}

fn table_on(rig: TestInstance) -> Table {
    let obj = ObjId(1_000_000);
    let ctx = rig.session("test");
    let made = rig.core.space.create_segment(&ctx, DATA_FILE, obj, SegmentKind::Heap);
    let (header, birth) = rig.world.block_on(made).unwrap();
    Table { rig, ctx, seg: HeapSeg { obj, header, birth } }
}

type Rows = BTreeMap<Rowid, Vec<u8>>;

impl Table {
    fn ctx(&self) -> &Ctx {
        &self.ctx
    }

    async fn insert(&self, txn: &Arc<Transaction>, row: &[u8]) -> Rowid {
        super::insert(self.ctx(), txn, &self.seg, row).await.unwrap()
    }

    async fn insert_committed(&self, row: &[u8]) -> Rowid {
        let txn = self.rig.begin();
        let rowid = self.insert(&txn, row).await;
        txn.commit(self.ctx()).await.unwrap();
        rowid
    }

    async fn update(
        &self,
        txn: &Arc<Transaction>,
        rowid: Rowid,
        snap: &Snapshot,
        seen: &[u8],
        new: &[u8],
    ) -> Result<Change, Error> {
        super::update(self.ctx(), txn, &self.seg, rowid, snap, seen, new, LockWait::Wait).await
    }

    /// One statement that changes one row as it stands.
    async fn set(&self, txn: &Arc<Transaction>, rowid: Rowid, new: &[u8]) {
        let snap = txn.snapshot(self.ctx()).await.unwrap();
        let seen = self.get(&snap, rowid).await.expect("the row is there");
        let change = self.update(txn, rowid, &snap, &seen, new).await.unwrap();
        assert_eq!(change, Change::Done);
    }

    async fn set_committed(&self, rowid: Rowid, new: &[u8]) {
        let txn = self.rig.begin();
        self.set(&txn, rowid, new).await;
        txn.commit(self.ctx()).await.unwrap();
    }

    async fn remove(&self, txn: &Arc<Transaction>, rowid: Rowid) {
        let snap = txn.snapshot(self.ctx()).await.unwrap();
        let seen = self.get(&snap, rowid).await.expect("the row is there");
        let wait = LockWait::Wait;
        let change = super::delete(self.ctx(), txn, &self.seg, rowid, &snap, &seen, wait).await;
        assert_eq!(change.unwrap(), Change::Done);
    }

    async fn get(&self, snap: &Snapshot, rowid: Rowid) -> Option<Vec<u8>> {
        let mut row = vec![9; 3];
        let found = super::fetch(self.ctx(), &self.seg, rowid, snap, &mut row).await.unwrap();
        found.then_some(row)
    }

    fn now(&self) -> Snapshot {
        self.rig.begin().snapshot_now().unwrap()
    }

    async fn all(&self, snap: &Snapshot) -> Rows {
        let mut found = Rows::new();
        let mut scan = super::scan(self.ctx(), &self.seg, snap).await.unwrap();
        let visit = |found: &mut Rows, rowid, row: &[u8]| {
            assert!(found.insert(rowid, row.to_vec()).is_none(), "{rowid} was shown twice");
        };
        while scan.next_block(self.ctx(), |r, row| visit(&mut found, r, row)).await.unwrap() {}
        found
    }

    async fn blocks(&self) -> u32 {
        let space = &self.rig.core.space;
        space.segment_info(self.ctx(), self.seg.header).await.unwrap().hwm
    }

    /// Checks the body of every block of the table.
    async fn verify(&self) {
        for granule in super::scan_granules(self.ctx(), &self.seg, &self.now()).await.unwrap() {
            for i in 0..granule.blocks {
                let dba = block::Dba::new(granule.first.file, granule.first.block + i);
                let seg = self.seg;
                let check = |b: &[u8]| {
                    if super::scan::is_own(b, &seg) { rows::verify(b, false) } else { Ok(()) }
                };
                let result = self.rig.core.cache.read(self.ctx(), dba, check).await.unwrap();
                assert_eq!(result, Ok(()), "block {dba}");
            }
        }
    }
}

fn row_of(len: usize, seed: u8) -> Vec<u8> {
    (0..len).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[test]
fn a_row_is_seen_from_its_commit_on_and_by_its_own_transaction_before() {
    let t = table();
    t.rig.world.block_on(async {
        let txn = t.rig.begin();
        let before = t.now();
        let rowid = t.insert(&txn, b"one").await;
        assert_eq!(t.get(&t.now(), rowid).await, None);
        assert_eq!(t.get(&txn.snapshot_now().unwrap(), rowid).await.unwrap(), b"one");
        txn.commit(t.ctx()).await.unwrap();
        assert_eq!(t.get(&before, rowid).await, None);
        assert_eq!(t.get(&t.now(), rowid).await.unwrap(), b"one");
        t.set_committed(rowid, b"another").await;
        let middle = t.now();
        let txn = t.rig.begin();
        t.remove(&txn, rowid).await;
        assert_eq!(t.get(&txn.snapshot_now().unwrap(), rowid).await, None);
        assert_eq!(t.get(&t.now(), rowid).await.unwrap(), b"another");
        txn.commit(t.ctx()).await.unwrap();
        assert_eq!(t.get(&middle, rowid).await.unwrap(), b"another");
        assert!(t.all(&t.now()).await.is_empty());
        assert_eq!(t.all(&middle).await.len(), 1);
    });
}

#[test]
fn long_rows_are_chained_and_come_back_whole_at_every_snapshot() {
    let t = table();
    t.rig.world.block_on(async {
        let lens =
            [ROW_PIECE_BYTES_MAX, ROW_PIECE_BYTES_MAX + 1, 3 * ROW_PIECE_BYTES_MAX, 1 << 20, 0, 12];
        let rowid = t.insert_committed(&row_of(lens[0], 0)).await;
        let mut versions = vec![(t.now(), row_of(lens[0], 0))];
        for (i, len) in lens.into_iter().enumerate().skip(1) {
            let row = row_of(len, i as u8);
            t.set_committed(rowid, &row).await;
            versions.push((t.now(), row));
        }
        for (snap, row) in &versions {
            assert_eq!(t.get(snap, rowid).await.as_ref(), Some(row));
            let all = t.all(snap).await;
            assert_eq!(all.len(), 1);
            assert_eq!(all.get(&rowid), Some(row));
        }
        let txn = t.rig.begin();
        let long = t.insert(&txn, &row_of(200_000, 77)).await;
        txn.rollback(t.ctx()).await.unwrap();
        assert_eq!(t.get(&t.now(), long).await, None);
        let txn = t.rig.begin();
        t.set(&txn, rowid, &row_of(300_000, 78)).await;
        t.set(&txn, rowid, &row_of(100_000, 79)).await;
        txn.rollback(t.ctx()).await.unwrap();
        assert_eq!(t.get(&t.now(), rowid).await, Some(row_of(12, 5)));
        t.verify().await;
    });
}

#[test]
fn a_row_at_the_limit_is_taken_and_one_beyond_refused() {
    let t = table();
    t.rig.world.block_on(async {
        let row = row_of(ROW_BYTES_MAX, 3);
        let rowid = t.insert_committed(&row).await;
        assert!(t.get(&t.now(), rowid).await == Some(row));
        let txn = t.rig.begin();
        let beyond = vec![0; ROW_BYTES_MAX + 1];
        let refused = super::insert(t.ctx(), &txn, &t.seg, &beyond).await;
        assert!(matches!(refused, Err(Error::RowTooLong { .. })), "{refused:?}");
        let snap = txn.snapshot_now().unwrap();
        let refused = t.update(&txn, rowid, &snap, b"", &beyond).await;
        assert!(matches!(refused, Err(Error::RowTooLong { .. })), "{refused:?}");
    });
}

/// Hazard M3: a full scan shows a migrated row once, under its first rowid.
#[test]
fn m3_a_row_that_outgrows_its_block_keeps_its_rowid_and_is_shown_once() {
    let t = table();
    t.rig.world.block_on(async {
        let txn = t.rig.begin();
        let mut rowids = Vec::new();
        for i in 0..60 {
            rowids.push(t.insert(&txn, &row_of(100, i)).await);
        }
        txn.commit(t.ctx()).await.unwrap();
        let before = t.now();
        for (i, rowid) in (0u8..).zip(&rowids) {
            t.set_committed(*rowid, &row_of(900, i)).await;
        }
        let all = t.all(&t.now()).await;
        assert_eq!(all.keys().copied().collect::<Vec<_>>(), rowids);
        for (i, row) in (0u8..).zip(all.values()) {
            assert_eq!(*row, row_of(900, i));
        }
        let old = t.all(&before).await;
        assert!(old.values().all(|row| row.len() == 100) && old.len() == 60);
        // It comes home when it fits again.
        t.set_committed(rowids[59], b"small").await;
        let flags = |b: &[u8]| rows::get(b, rowids[59].slot).unwrap().flags;
        let flags = t.rig.core.cache.read(t.ctx(), rowids[59].dba, flags).await.unwrap();
        assert_eq!(flags, 0);
        for rowid in &rowids {
            let txn = t.rig.begin();
            t.remove(&txn, *rowid).await;
            txn.commit(t.ctx()).await.unwrap();
        }
        assert!(t.all(&t.now()).await.is_empty());
        t.verify().await;
    });
}

#[test]
fn a_second_writer_waits_and_is_shown_the_newer_row_locked() {
    let t = table();
    let (a, b, c) = (t.rig.session("a"), t.rig.session("b"), t.rig.session("c"));
    t.rig.world.block_on(async {
        for (first, len) in [(b"first".to_vec(), 5), (row_of(50_000, 1), 60_000)] {
            let newer = row_of(len, 9);
            let rowid = t.insert_committed(&first).await;
            let (t1, t2, t3) = (t.rig.begin(), t.rig.begin(), t.rig.begin());
            t.set(&t1, rowid, &newer).await;
            let snap = t2.snapshot(&b).await.unwrap();
            let waits = LockWait::Wait;
            let second = super::update(&b, &t2, &t.seg, rowid, &snap, &first, b"2", waits);
            let end = async {
                t.rig.env.sleep(std::time::Duration::from_millis(50)).await;
                t1.commit(&a).await.unwrap()
            };
            let (change, _) = futures::join!(second, end);
            assert_eq!(change.unwrap(), Change::Newer(newer.clone()));
            // Locked by the second now.
            let snap3 = t3.snapshot(&c).await.unwrap();
            let wait = LockWait::NoWait;
            let refused = super::lock(&c, &t3, &t.seg, rowid, &snap3, wait).await;
            assert!(matches!(refused, Err(Error::RowLocked)), "{refused:?}");
            let wait = LockWait::SkipLocked;
            let skipped = super::delete(&c, &t3, &t.seg, rowid, &snap3, &newer, wait).await;
            assert_eq!(skipped.unwrap(), Change::Skipped);
            let wait = LockWait::Timeout(20_000);
            let late = super::lock(&c, &t3, &t.seg, rowid, &snap3, wait).await;
            assert!(matches!(late, Err(Error::LockTimeout)), "{late:?}");
            // With a new snapshot the second goes on.
            let snap = t2.snapshot(&b).await.unwrap();
            let change = t.update(&t2, rowid, &snap, &newer, b"second").await.unwrap();
            assert_eq!(change, Change::Done);
            t2.commit(&b).await.unwrap();
            assert_eq!(t.get(&t.now(), rowid).await.unwrap(), b"second");
            // Who still holds the old snapshot: deleted meanwhile.
            let t4 = t.rig.begin();
            t.remove(&t4, rowid).await;
            t4.commit(&a).await.unwrap();
            let change = t.update(&t3, rowid, &snap3, &newer, b"x").await.unwrap();
            assert_eq!(change, Change::Gone);
        }
    });
}

#[test]
fn a_lock_that_changed_nothing_does_not_disturb_others() {
    let t = table();
    t.rig.world.block_on(async {
        for row in [b"row".to_vec(), row_of(20_000, 4)] {
            let rowid = t.insert_committed(&row).await;
            let (t1, t2) = (t.rig.begin(), t.rig.begin());
            let snap2 = t2.snapshot(t.ctx()).await.unwrap();
            let snap1 = t1.snapshot(t.ctx()).await.unwrap();
            let locked = super::lock(t.ctx(), &t1, &t.seg, rowid, &snap1, LockWait::Wait).await;
            assert_eq!(locked.unwrap(), Change::Done);
            // Again, by the same: nothing to do.
            let snap1 = t1.snapshot(t.ctx()).await.unwrap();
            let locked = super::lock(t.ctx(), &t1, &t.seg, rowid, &snap1, LockWait::Wait).await;
            assert_eq!(locked.unwrap(), Change::Done);
            t1.commit(t.ctx()).await.unwrap();
            // Locked since this snapshot, but the same bytes: READ COMMITTED goes on.
            let locked = super::lock(t.ctx(), &t2, &t.seg, rowid, &snap2, LockWait::Wait).await;
            assert_eq!(locked.unwrap(), Change::Done);
            let change = t.update(&t2, rowid, &snap2, &row, b"changed").await.unwrap();
            assert_eq!(change, Change::Done);
            t2.rollback(t.ctx()).await.unwrap();
            assert_eq!(t.get(&t.now(), rowid).await, Some(row));
        }
    });
}

#[test]
fn a_row_changed_by_the_same_statement_before_is_newer() {
    let t = table();
    t.rig.world.block_on(async {
        let rowid = t.insert_committed(b"one").await;
        let txn = t.rig.begin();
        let snap = txn.snapshot(t.ctx()).await.unwrap();
        let change = t.update(&txn, rowid, &snap, b"one", b"two").await.unwrap();
        assert_eq!(change, Change::Done);
        let change = t.update(&txn, rowid, &snap, b"one", b"three").await.unwrap();
        assert_eq!(change, Change::Newer(b"two".to_vec()));
        let wait = LockWait::Wait;
        let snap = txn.snapshot(t.ctx()).await.unwrap();
        let change = super::delete(t.ctx(), &txn, &t.seg, rowid, &snap, b"two", wait).await;
        assert_eq!(change.unwrap(), Change::Done);
        let change = super::delete(t.ctx(), &txn, &t.seg, rowid, &snap, b"two", wait).await;
        assert_eq!(change.unwrap(), Change::Gone);
        txn.rollback(t.ctx()).await.unwrap();
        assert_eq!(t.get(&t.now(), rowid).await.unwrap(), b"one");
    });
}

/// Hazard M2: REPEATABLE READ conflicts with any invisible change, also one that was undone by
/// another, and also when the ITL entry of the changer has been taken over since.
#[test]
fn m2_repeatable_read_refuses_a_row_changed_there_and_back() {
    let t = table();
    t.rig.world.block_on(async {
        for others in [0, 1, 5] {
            let rowid = t.insert_committed(b"A").await;
            let neighbour = t.insert_committed(b"N").await;
            assert_eq!(rowid.dba, neighbour.dba);
            let txn = t.rig.begin_repeatable();
            let snap = txn.snapshot(t.ctx()).await.unwrap();
            t.set_committed(rowid, b"B").await;
            t.set_committed(rowid, b"A").await;
            for i in 0..others {
                t.set_committed(neighbour, &[i]).await;
            }
            assert_eq!(t.get(&snap, rowid).await.unwrap(), b"A");
            let refused = t.update(&txn, rowid, &snap, b"A", b"C").await;
            assert!(matches!(refused, Err(Error::Serialization(_))), "{others}: {refused:?}");
            txn.rollback(t.ctx()).await.unwrap();
            // READ COMMITTED only looks at what it saw.
            let txn = t.rig.begin();
            t.set(&txn, rowid, b"C").await;
            txn.commit(t.ctx()).await.unwrap();
        }
        // Deleted since is a conflict as well; untouched is none.
        let (gone, kept) = (t.insert_committed(b"G").await, t.insert_committed(b"K").await);
        let txn = t.rig.begin_repeatable();
        let snap = txn.snapshot(t.ctx()).await.unwrap();
        let change = t.update(&txn, kept, &snap, b"K", b"L").await.unwrap();
        assert_eq!(change, Change::Done);
        // Nor are one that was only locked, one whose block was busy, one that is long.
        let (locked, long) = (t.insert_committed(b"O").await, t.insert_committed(b"P").await);
        let neighbour = t.insert_committed(b"N").await;
        assert!(neighbour.dba == locked.dba && neighbour.dba == long.dba);
        t.set_committed(long, &row_of(40_000, 1)).await;
        let busy = t.rig.begin_repeatable();
        let busy_snap = busy.snapshot(t.ctx()).await.unwrap();
        for _ in 0..5 {
            let locker = t.rig.begin();
            let now = locker.snapshot(t.ctx()).await.unwrap();
            for rowid in [locked, long] {
                let locked = super::lock(t.ctx(), &locker, &t.seg, rowid, &now, LockWait::Wait);
                assert_eq!(locked.await.unwrap(), Change::Done);
            }
            locker.commit(t.ctx()).await.unwrap();
            t.set_committed(neighbour, b"M").await;
        }
        for (rowid, row) in [(locked, b"O".to_vec()), (long, row_of(40_000, 1))] {
            let change = t.update(&busy, rowid, &busy_snap, &row, b"Q").await.unwrap();
            assert_eq!(change, Change::Done);
        }
        busy.commit(t.ctx()).await.unwrap();
        let other = t.rig.begin();
        t.remove(&other, gone).await;
        other.commit(t.ctx()).await.unwrap();
        let refused = t.update(&txn, gone, &snap, b"G", b"H").await;
        assert!(matches!(refused, Err(Error::Serialization(_))), "{refused:?}");
        txn.rollback(t.ctx()).await.unwrap();
    });
}

/// Hazard H23: what an open transaction has freed is not given to others.
#[test]
fn h23_space_freed_by_an_open_transaction_stays_its_own() {
    let t = table();
    t.rig.world.block_on(async {
        let txn = t.rig.begin();
        let mut rowids = Vec::new();
        for i in 0..12 {
            rowids.push(t.insert(&txn, &row_of(600, i)).await);
        }
        txn.commit(t.ctx()).await.unwrap();
        let open = t.rig.begin();
        for rowid in &rowids[..6] {
            t.remove(&open, *rowid).await;
        }
        for rowid in &rowids[6..] {
            t.set(&open, *rowid, b"tiny").await;
        }
        for i in 0..100 {
            t.insert_committed(&row_of(300, i)).await;
        }
        open.rollback(t.ctx()).await.unwrap();
        let all = t.all(&t.now()).await;
        assert_eq!(all.len(), 112);
        for (i, rowid) in (0u8..).zip(&rowids) {
            assert_eq!(all[rowid], row_of(600, i));
        }
        t.verify().await;
    });
}

#[test]
fn deleted_rows_make_room_once_every_snapshot_sees_them_gone() {
    let t = table();
    t.rig.world.block_on(async {
        let mut rowids = Vec::new();
        for i in 0..200 {
            rowids.push(t.insert_committed(&row_of(500, i as u8)).await);
        }
        let full = t.blocks().await;
        let old = t.now();
        let expected = t.all(&old).await;
        let mut remove_and_insert = async |rounds: usize| {
            for _ in 0..rounds {
                let txn = t.rig.begin();
                for rowid in rowids.drain(..50) {
                    t.remove(&txn, rowid).await;
                }
                txn.commit(t.ctx()).await.unwrap();
                let txn = t.rig.begin();
                for i in 0..50 {
                    rowids.push(t.insert(&txn, &row_of(500, i)).await);
                }
                txn.commit(t.ctx()).await.unwrap();
            }
        };
        remove_and_insert(4).await;
        let held = t.blocks().await;
        assert!(held > full, "nothing is purged while a snapshot needs it");
        assert!(t.all(&old).await == expected, "no rowid has come to mean another row");
        drop(old);
        remove_and_insert(40).await;
        let settled = t.blocks().await;
        assert!(settled <= held + 16, "{full}, {held}, then {settled} blocks");
        assert_eq!(t.all(&t.now()).await.len(), 200);
        t.verify().await;
    });
}

#[test]
fn a_row_that_is_replaced_stays_in_its_block() {
    let t = table();
    t.rig.world.block_on(async {
        let mut rowids = Vec::new();
        for i in 0..200 {
            rowids.push(t.insert_committed(&row_of(200, i as u8)).await);
        }
        let (homes, blocks) = (rowids.clone(), t.blocks().await);
        for round in 0..2000 {
            let at = round * 37 % rowids.len();
            let txn = t.rig.begin();
            t.remove(&txn, rowids[at]).await;
            let point = txn.savepoint();
            rowids[at] = t.insert(&txn, &row_of(200, round as u8)).await;
            if round % 71 == 0 {
                // What is taken back took its place as well; it finds another one.
                txn.rollback_to(t.ctx(), point).await.unwrap();
                rowids[at] = t.insert(&txn, &row_of(200, round as u8)).await;
            }
            txn.commit(t.ctx()).await.unwrap();
        }
        let at_home = rowids.iter().zip(&homes).filter(|(now, then)| now.dba == then.dba).count();
        assert!(at_home > 150, "{at_home} of 200 rows are where they were");
        assert_eq!(t.blocks().await, blocks);
        assert_eq!(t.all(&t.now()).await.len(), 200);
        t.verify().await;
    });
}

#[test]
fn pieces_of_old_versions_make_room() {
    let t = table();
    t.rig.world.block_on(async {
        let rowid = t.insert_committed(&row_of(20_000, 0)).await;
        for i in 0..100 {
            t.set_committed(rowid, &row_of(20_000, i)).await;
        }
        let blocks = t.blocks().await;
        assert!(blocks <= 40, "a row of 3 pieces, written 100 times, has taken {blocks} blocks");
        t.verify().await;
    });
}

#[test]
fn many_transactions_insert_into_one_block_and_then_go_elsewhere() {
    let t = table();
    t.rig.world.block_on(async {
        let mut open = Vec::new();
        for i in 0..150u8 {
            let txn = t.rig.begin();
            let rowid = t.insert(&txn, &[i]).await;
            open.push((txn, rowid));
        }
        let mut blocks: Vec<_> = open.iter().map(|(_, r)| r.dba).collect();
        blocks.sort_unstable();
        blocks.dedup();
        assert!(blocks.len() >= 2, "one block's ITL does not hold 150 transactions");
        for (txn, _) in &open[..75] {
            txn.commit(t.ctx()).await.unwrap();
        }
        for (txn, _) in &open[75..] {
            txn.rollback(t.ctx()).await.unwrap();
        }
        assert_eq!(t.all(&t.now()).await.len(), 75);
        t.verify().await;
    });
}

#[test]
fn sessions_that_insert_at_once_lose_nothing() {
    let t = table_on(TestInstance::new(1, 256));
    let sessions: Vec<Ctx> = (0..8).map(|i| t.rig.session(&format!("s{i}"))).collect();
    t.rig.world.block_on(async {
        let work = sessions.iter().map(|ctx| {
            let t = &t;
            async move {
                for i in 0..60u8 {
                    let txn = t.rig.begin();
                    let row = row_of(700, i);
                    super::insert(ctx, &txn, &t.seg, &row).await.unwrap();
                    txn.commit(ctx).await.unwrap();
                }
            }
        });
        futures::future::join_all(work).await;
        let all = t.all(&t.now()).await;
        assert_eq!(all.len(), 8 * 60);
        t.verify().await;
    });
}

/// Killed at any moment while several sessions insert and the table grows: what was acknowledged is
/// there, nothing else is, and the file's units are exactly those of its segments.
#[test]
fn a_crash_while_the_table_grows_loses_no_row_and_no_space() {
    for seed in 1..=3 {
        let mut t = table_on(TestInstance::new(seed, 512));
        let others = units(&t).0 - units(&t).1;
        let mut expected = Rows::new();
        for _ in 0..2 {
            let acknowledged = parking_lot::Mutex::new(Rows::new());
            let pending = parking_lot::Mutex::new(Rows::new());
            let sessions: Vec<Ctx> = (0..4).map(|i| t.rig.session(&format!("s{i}"))).collect();
            let work = sessions.iter().map(|ctx| insert_for_ever(&t, ctx, &acknowledged, &pending));
            let limit = std::time::Duration::from_micros(t.rig.world.random() % 80_000 + 1000);
            let all = futures::future::join_all(work);
            assert!(t.rig.world.block_on_for(limit, all).is_none());
            t.rig.crash();
            t.ctx = t.rig.session("test");
            expected.append(&mut acknowledged.into_inner());
            let found = t.rig.world.block_on(t.all(&t.now()));
            let pending = pending.into_inner();
            for (rowid, row) in &found {
                let known = expected.get(rowid).or(pending.get(rowid));
                assert!(known == Some(row), "seed {seed}: row {rowid} was never inserted");
            }
            assert!(expected.keys().all(|r| found.contains_key(r)), "seed {seed}: a row is lost");
            expected = found;
            let (used, own) = units(&t);
            assert_eq!(used, others + own, "seed {seed}: units without a segment");
            t.rig.world.block_on(t.verify());
        }
    }
}

async fn insert_for_ever(
    t: &Table,
    ctx: &Ctx,
    acknowledged: &parking_lot::Mutex<Rows>,
    pending: &parking_lot::Mutex<Rows>,
) {
    loop {
        let txn = t.rig.begin();
        let mut rows = Rows::new();
        for _ in 0..t.rig.world.random() % 20 + 1 {
            let random = t.rig.world.random();
            let row = row_of((random % 3000) as usize, (random >> 32) as u8);
            let rowid = super::insert(ctx, &txn, &t.seg, &row).await.unwrap();
            rows.insert(rowid, row);
        }
        pending.lock().extend(rows.clone());
        txn.commit(ctx).await.unwrap();
        acknowledged.lock().extend(rows);
    }
}

/// Units in use in the data file, and those of the table.
fn units(t: &Table) -> (u32, u32) {
    let map = block::Dba::new(DATA_FILE, 1);
    let used = t.rig.core.cache.read(t.ctx(), map, |b| {
        b[block::layout::HEADER_BYTES..].iter().map(|byte| byte.count_ones()).sum()
    });
    let used = t.rig.world.block_on(used).unwrap();
    let info = t.rig.core.space.segment_info(t.ctx(), t.seg.header);
    let own = t.rig.world.block_on(info).unwrap().blocks() / crate::space::UNIT_BLOCKS;
    (used, own)
}

#[test]
fn blocks_of_a_former_life_are_empty_to_the_new_table() {
    let mut t = table();
    let old = t.seg;
    t.rig.world.block_on(async {
        for i in 0..40 {
            t.insert_committed(&row_of(500, i)).await;
        }
        let space = &t.rig.core.space;
        space.drop_segment(t.ctx(), old.header).await.unwrap();
        let scan = super::scan(t.ctx(), &old, &t.now()).await;
        assert!(matches!(scan, Err(Error::ObjectGone)));
    });
    let obj = ObjId(old.obj.0 + 1);
    let space = &t.rig.core.space;
    let made = space.create_segment(t.ctx(), DATA_FILE, obj, SegmentKind::Heap);
    let (header, birth) = t.rig.world.block_on(made).unwrap();
    assert_eq!(header, old.header, "the space is used again");
    t.seg = HeapSeg { obj, header, birth };
    t.rig.world.block_on(async {
        let rowid = t.insert_committed(b"new").await;
        let now = t.now();
        assert_eq!(t.all(&now).await, Rows::from([(rowid, b"new".to_vec())]));
        // Who still has the old definition is told, and shown nothing of the new table.
        let mut row = Vec::new();
        let gone = super::fetch(t.ctx(), &old, rowid, &now, &mut row).await;
        assert!(matches!(gone, Err(Error::ObjectGone)), "{gone:?}");
    });
}

/// As an index leaves one that it has been allotted and did not need: who knew it before is told.
#[test]
fn a_block_that_another_has_given_up_is_not_an_empty_one() {
    let t = table();
    t.rig.world.block_on(async {
        let rowid = t.insert_committed(b"old").await;
        let cache = &t.rig.core.cache;
        let free = async |obj| {
            let pin = cache.pin(t.ctx(), rowid.dba, block::Mode::X).await.unwrap();
            let (kind, birth) = (block::layout::Kind::Free, t.seg.birth);
            let mut change = crate::change::Change::begin(cache, &[&pin]);
            change.push(0, block::op::Op::Format { kind, obj, birth, level: 0, itl: 0 });
            change.commit(t.ctx(), block::Xid::NONE, block::redo::RecordKind::Change);
        };
        let (now, mut row) = (t.now(), Vec::new());
        free(ObjId(t.seg.obj.0 + 1)).await;
        let gone = super::fetch(t.ctx(), &t.seg, rowid, &now, &mut row).await;
        assert!(matches!(gone, Err(Error::ObjectGone)), "{gone:?}");
        free(t.seg.obj).await;
        let empty = super::fetch(t.ctx(), &t.seg, rowid, &now, &mut row).await;
        assert!(matches!(empty, Ok(false)), "{empty:?}");
    });
}

#[test]
fn an_update_waits_for_room_in_the_transaction_list() {
    let t = table();
    t.rig.world.block_on(async {
        let txn = t.rig.begin();
        let mut rowids = Vec::new();
        for i in 0..120 {
            rowids.push(t.insert(&txn, &row_of(100, i)).await);
        }
        txn.commit(t.ctx()).await.unwrap();
        // One that is full.
        let dba = rowids[60].dba;
        rowids.retain(|r| r.dba == dba);
        let waits = || {
            let event = observe::WaitEvent::EnqTxAllocateItl;
            let rows = t.rig.observer.system_events();
            rows.iter().find(|r| r.event == event).map_or(0, |r| r.all.waits)
        };
        let mut open = Vec::new();
        let begin = async |rowid: Rowid| {
            let txn = t.rig.begin();
            loop {
                let snap = txn.snapshot(t.ctx()).await.unwrap();
                let seen = t.get(&snap, rowid).await.expect("the row is there");
                match t.update(&txn, rowid, &snap, &seen, b"x").await.unwrap() {
                    Change::Done => return txn,
                    // The entry that came free was committed after the snapshot.
                    again => assert_eq!(again, Change::Newer(seen)),
                }
            }
        };
        let mut next = rowids.iter();
        let blocked = loop {
            let mut work = Box::pin(begin(*next.next().expect("the list fills up before")));
            let limit = t.rig.env.timeout(std::time::Duration::from_millis(50), &mut work).await;
            match limit {
                Ok(txn) => open.push(txn),
                Err(_) => break work,
            }
        };
        assert!(open.len() > 10 && waits() == 0);
        let first = open.remove(0);
        let (_, txn) = futures::join!(first.commit(t.ctx()), blocked);
        assert!(waits() > 0, "it was a wait for an ITL entry");
        txn.commit(t.ctx()).await.unwrap();
        for txn in open {
            txn.rollback(t.ctx()).await.unwrap();
        }
        let changed = t.all(&t.now()).await.values().filter(|row| *row == b"x").count();
        assert_eq!(changed, 2);
        t.verify().await;
    });
}

/// A short load goes through all slots of all segments; who asks later for a row as it was before
/// must still be told when each of its changes was committed.
#[test]
fn a_held_snapshot_is_told_the_ends_of_all_that_came_after_it() {
    let t = table();
    t.rig.world.block_on(async {
        let rowid = t.insert_committed(b"first").await;
        let before = t.now();
        let mut middle = None;
        for i in 0..3000_u32 {
            t.set_committed(rowid, &i.to_be_bytes()).await;
            if i == 1500 {
                middle = Some(t.now());
            }
        }
        assert_eq!(t.get(&before, rowid).await.unwrap(), b"first");
        assert_eq!(t.get(&middle.unwrap(), rowid).await.unwrap(), 1500_u32.to_be_bytes());
    });
}
