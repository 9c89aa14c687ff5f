//! Hazards of one instance, each by its number in the design: the interleaving that breaks a naive
//! system, made on purpose.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use block::{Rowid, Scn, itl};
use env::Lane;
use env::simulated::SimConfig;
use kernel::dict::{self, NewTable, TableDef};
use kernel::instance::Instance;
use kernel::row::{Datum, RowView, TypeKind};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Snapshot, Transaction};
use kernel::{Error, Result};
use observe::{Ctx, SessionKind, Stat, WaitEvent};
use sim::{Cluster, STUCK, Sizes, plain_table};

/// A database with one open instance and one table of a number and a text, without indexes.
struct Db {
    cluster: Cluster,
    ctx: Ctx,
    def: Arc<TableDef>,
}

fn new_table(name: &str) -> NewTable {
    plain_table(name, &[("n", TypeKind::Int8), ("t", TypeKind::Text)], Vec::new())
}

impl Db {
    fn new(seed: u64, cache_blocks: usize, retention_s: u64) -> Db {
        let mut cluster = Cluster::create(seed, SimConfig::default(), 1, &Sizes::default());
        let cache = cache_blocks * block::BLOCK_BYTES;
        cluster.settings.push(("db_cache_size", cache.to_string()));
        cluster.settings.push(("undo_retention", retention_s.to_string()));
        cluster.start(1);
        let ctx = cluster.open[&1].observer.ctx(SessionKind::User, "test");
        let at = cluster.open[&1].clone();
        let made = async {
            let txn = at.begin(&ctx, Isolation::ReadCommitted);
            let def = dict::create_table(&ctx, &txn, new_table("t")).await?;
            txn.commit(&ctx).await?;
            Ok::<_, Error>(def)
        };
        let def = cluster.world.block_on_for(STUCK, made).expect("no hang").expect("made");
        Db { cluster, ctx, def }
    }

    fn at(&self) -> &Arc<Instance> {
        &self.cluster.open[&1]
    }

    fn run<T>(&self, work: impl Future<Output = Result<T>>) -> T {
        match self.cluster.world.block_on_for(STUCK, work) {
            Some(Ok(out)) => out,
            Some(Err(e)) => panic!("{e}"),
            None => panic!("it hangs"),
        }
    }

    fn restart(&mut self) {
        self.cluster.crash(1);
        self.cluster.start(1);
        self.ctx = self.at().observer.ctx(SessionKind::User, "test");
    }

    fn begin(&self, level: Isolation) -> Arc<Transaction> {
        self.at().begin(&self.ctx, level)
    }

    fn row(&self, n: i64, len: usize) -> Vec<u8> {
        self.def.encode(&[Datum::Int8(n), Datum::Text(&"x".repeat(len))])
    }

    fn number(&self, row: &[u8]) -> i64 {
        match RowView::new(&self.def.types, row).get(0) {
            Datum::Int8(n) => n,
            other => panic!("{other:?}"),
        }
    }

    /// Rows in one committed transaction, all 0.
    async fn fill(&self, count: usize, len: usize) -> Result<Vec<Rowid>> {
        let txn = self.begin(Isolation::ReadCommitted);
        let mut rowids = Vec::new();
        for _ in 0..count {
            rowids.push(table::insert(&self.ctx, &txn, &self.def, &self.row(0, len)).await?);
        }
        txn.commit(&self.ctx).await?;
        Ok(rowids)
    }

    async fn get(&self, snap: &Snapshot, rowid: Rowid) -> Result<i64> {
        let mut row = Vec::new();
        let found = table::fetch(&self.ctx, &self.def, rowid, snap, &mut row).await?;
        assert!(found, "row {rowid} is there");
        Ok(self.number(&row))
    }

    /// Gives the row a number; its length stays.
    async fn set(
        &self,
        txn: &Arc<Transaction>,
        rowid: Rowid,
        n: i64,
        len: usize,
    ) -> Result<Change> {
        let snap = txn.snapshot(&self.ctx).await?;
        let mut seen = Vec::new();
        table::fetch(&self.ctx, &self.def, rowid, &snap, &mut seen).await?;
        let (new, wait) = (self.row(n, len), LockWait::NoWait);
        table::update(&self.ctx, txn, &self.def, rowid, &snap, &seen, &new, wait).await
    }

    async fn set_committed(&self, rowid: Rowid, n: i64, len: usize) -> Result<Scn> {
        let txn = self.begin(Isolation::ReadCommitted);
        assert_eq!(self.set(&txn, rowid, n, len).await?, Change::Done);
        txn.commit(&self.ctx).await
    }

    async fn now(&self) -> Result<Snapshot> {
        self.begin(Isolation::ReadCommitted).snapshot(&self.ctx).await
    }
}

#[test]
fn h4_an_entry_taken_over_does_not_show_what_the_snapshot_must_not_see() {
    let db = Db::new(2, 1024, 900);
    db.run(async {
        for level in [Isolation::RepeatableRead, Isolation::ReadCommitted] {
            let rowids = db.fill(6, 20).await?;
            let txn = db.begin(level);
            let snap = txn.snapshot(&db.ctx).await?;
            for &rowid in &rowids[..5] {
                db.set_committed(rowid, 7, 20).await?;
            }
            let (seen, new, wait) = (db.row(0, 20), db.row(9, 20), LockWait::NoWait);
            let own = rowids[5];
            let done = table::update(&db.ctx, &txn, &db.def, own, &snap, &seen, &new, wait).await?;
            assert_eq!(done, Change::Done);
            for &rowid in &rowids[..5] {
                assert_eq!(db.get(&snap, rowid).await?, 0, "{level:?}: the statement's snapshot");
            }
            let expected = if level == Isolation::RepeatableRead { 0 } else { 7 };
            let next = txn.snapshot(&db.ctx).await?;
            for &rowid in &rowids[..5] {
                assert_eq!(db.get(&next, rowid).await?, expected, "{level:?}: the next one");
            }
            assert_eq!(db.get(&next, own).await?, 9);
            txn.commit(&db.ctx).await?;
        }
        Ok(())
    });
}

#[test]
fn h5b_and_h6_a_statement_sees_own_changes_up_to_its_beginning() {
    let db = Db::new(3, 1024, 900);
    db.run(async {
        let rowids = db.fill(4, 1500).await?;
        let txn = db.begin(Isolation::RepeatableRead);
        let before = txn.snapshot(&db.ctx).await?;
        let mut snaps = Vec::new();
        // 40 changes of 1.5 KB each: the undo goes over many blocks, some of which others use.
        for n in 1..=40 {
            db.set(&txn, rowids[0], n, 1500).await?;
            snaps.push((n, txn.snapshot(&db.ctx).await?));
            db.set_committed(rowids[1], n, 1500).await?;
        }
        assert_eq!(db.get(&before, rowids[0]).await?, 0);
        for (n, snap) in &snaps {
            assert_eq!(db.get(snap, rowids[0]).await?, *n, "own change");
            assert_eq!(db.get(snap, rowids[1]).await?, 0, "another's change");
        }
        // The copy made for a statement serves it again, and no other.
        let again = |db: &Db| db.at().observer.stat(Stat::CrCopiesUsedAgain);
        let used = again(&db);
        for (n, snap) in &snaps {
            assert_eq!(db.get(snap, rowids[0]).await?, *n, "own change, seen again");
        }
        assert_eq!(again(&db) - used, snaps.len() as u64);
        assert_eq!(db.get(&snaps[7].1.clone(), rowids[0]).await?, 8);
        assert_eq!(again(&db) - used, snaps.len() as u64, "a clone begins with none");
        txn.rollback(&db.ctx).await?;
        let now = db.now().await?;
        assert_eq!((db.get(&now, rowids[0]).await?, db.get(&now, rowids[1]).await?), (0, 40));
        Ok(())
    });
}

/// Readers copy the block while the writer's change is in it; the writer has rolled back by the
/// time
/// they look for its undo.
#[test]
fn h10_a_rollback_that_overtakes_a_reader_is_still_not_seen() {
    for seed in 1..=4 {
        let db = Arc::new(Db::new(seed, 128, 0));
        let rowid = db.run(db.fill(3, 100))[1];
        let (stop, reads) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
        let env = db.at().core.env.clone();
        for client in 0..6 {
            let (db, stop, reads) = (db.clone(), stop.clone(), reads.clone());
            env.spawn_task("client", Lane::Background, async move {
                while !stop.load(Ordering::SeqCst) {
                    let done = async {
                        if client == 0 {
                            let txn = db.begin(Isolation::ReadCommitted);
                            db.set(&txn, rowid, 5, 100).await?;
                            txn.rollback(&db.ctx).await?;
                            return Ok(());
                        }
                        let snap = db.now().await?;
                        assert_eq!(db.get(&snap, rowid).await?, 0, "a dirty read");
                        reads.fetch_add(1, Ordering::SeqCst);
                        db.at().core.env.sleep(Duration::from_micros(20)).await;
                        Ok::<_, Error>(())
                    };
                    match done.await {
                        Ok(()) | Err(Error::SnapshotTooOld(_)) => {}
                        Err(e) => panic!("{e}"),
                    }
                }
            });
        }
        db.cluster.world.run_for(Duration::from_millis(60));
        stop.store(true, Ordering::SeqCst);
        db.cluster.world.run_for(Duration::from_secs(1));
        assert!(reads.load(Ordering::SeqCst) > 100, "seed {seed}: too few reads");
    }
}

#[test]
fn h20_a_snapshot_older_than_a_truncation_is_refused() {
    let db = Db::new(5, 1024, 900);
    db.run(async {
        db.fill(50, 500).await?;
        let old = db.now().await?;
        let txn = db.begin(Isolation::ReadCommitted);
        dict::truncate_table(&db.ctx, &txn, &db.def).await?;
        txn.commit(&db.ctx).await?;
        let reader = db.begin(Isolation::ReadCommitted);
        let new = dict::table(&db.ctx, &reader, "public", "t").await?.expect("it is there");
        // Empty: no block tells how young it is.
        let empty = table::scan(&db.ctx, &new, &old).await.err();
        assert!(matches!(empty, Some(Error::SnapshotTooOld(_))), "{empty:?}");
        let filler = db.begin(Isolation::ReadCommitted);
        for _ in 0..50 {
            table::insert(&db.ctx, &filler, &new, &db.row(1, 500)).await?;
        }
        filler.commit(&db.ctx).await?;
        for def in [&db.def, &new] {
            let scan = async {
                let mut scan = table::scan(&db.ctx, def, &old).await?;
                let mut rows = 0;
                let former = |row: &[u8]| assert_eq!(db.number(row), 0, "a row of later");
                while scan.next_block(&db.ctx, |_, row| (rows += 1, former(row)).0).await? {}
                Ok(rows)
            };
            let seen: Result<i32> = scan.await;
            match seen {
                Err(Error::SnapshotTooOld(_) | Error::ObjectGone) => {}
                // The segment's former life, as long as its blocks are not used anew.
                Ok(rows) => assert!(rows == 50 && def.birth == db.def.birth, "{rows} rows"),
                Err(e) => return Err(e),
            }
        }
        Ok(())
    });
}

/// While a commit's redo is being written: nothing on the block says committed, nobody may take the
/// row, and no new snapshot shows the change.
#[test]
fn c7_c8_a_commit_under_way_is_neither_cleaned_out_nor_overtaken() {
    let db = Arc::new(Db::new(6, 1024, 900));
    let rowid = db.run(db.fill(1, 20))[0];
    let core = db.at().core.clone();
    let txn = db.begin(Isolation::ReadCommitted);
    db.run(db.set(&txn, rowid, 3, 20));
    db.at().alter_system("_lgwr_flush_delay_us", "50000").expect("a parameter");
    let (committed, taken) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (flag, writer) = (committed.clone(), db.clone());
    core.env.spawn_task("committer", Lane::Background, async move {
        txn.commit(&writer.ctx).await.expect("committed");
        flag.store(true, Ordering::SeqCst);
    });
    db.cluster.world.run_for(Duration::from_millis(10));
    let (flag, second, after) = (taken.clone(), db.clone(), committed.clone());
    core.env.spawn_task("second", Lane::Background, async move {
        let ctx = second.at().observer.ctx(SessionKind::User, "second");
        let txn = second.at().begin(&ctx, Isolation::ReadCommitted);
        let snap = txn.snapshot(&ctx).await.expect("a snapshot");
        let (def, wait) = (&second.def, LockWait::Wait);
        let seen = second.row(0, 20);
        let new = second.row(4, 20);
        let change = table::update(&ctx, &txn, def, rowid, &snap, &seen, &new, wait).await;
        assert!(after.load(Ordering::SeqCst), "the row is taken before the commit is certain");
        assert_eq!(change.expect("it waited"), Change::Newer(second.row(3, 20)));
        txn.rollback(&ctx).await.expect("rolled back");
        flag.store(true, Ordering::SeqCst);
    });
    db.cluster.world.run_for(Duration::from_millis(10));
    assert!(!committed.load(Ordering::SeqCst), "the flush takes 50 ms");
    db.run(async {
        let clean = |b: &[u8]| itl::iter(b).any(|(_, e)| e.scn == Scn::ZERO && !e.xid.is_none());
        assert!(core.cache.read(&db.ctx, rowid.dba, clean).await?, "cleaned out before durable");
        assert_eq!(db.get(&db.now().await?, rowid).await?, 0);
        Ok(())
    });
    let done = || taken.load(Ordering::SeqCst);
    assert!(db.cluster.world.run_until(STUCK, done), "the second writer hangs");
}

/// A rollback is cut short by a crash, taken up again, cut short again; rows that it has freed are
/// changed by others meanwhile.
#[test]
fn c9_no_change_is_taken_back_twice() {
    for seed in 1..=6 {
        let mut db = Db::new(seed, 256, 900);
        let rowids = db.run(db.fill(120, 200));
        let txn = db.begin(Isolation::ReadCommitted);
        db.run(async {
            for &rowid in &rowids {
                db.set(&txn, rowid, -1, 200).await?;
            }
            // The flush of another's commit makes the changes durable: recovery must undo them.
            db.fill(1, 10).await?;
            Ok(())
        });
        let mut expected = vec![0; rowids.len()];
        {
            let ctx = db.ctx.clone();
            let rollback = txn.clone();
            db.at().core.env.spawn_task("rollback", Lane::Background, async move {
                rollback.rollback(&ctx).await.expect("rolled back");
            });
        }
        for round in 1..=5i64 {
            let pause = db.cluster.world.random() % 1500;
            db.cluster.world.run_for(Duration::from_micros(pause));
            for (i, &rowid) in rowids.iter().enumerate().skip(round as usize % 3).step_by(3) {
                let done =
                    db.cluster.world.block_on_for(STUCK, db.set_committed(rowid, round, 200));
                match done.expect("no hang") {
                    Ok(_) => expected[i] = round,
                    Err(Error::RowLocked | Error::TableLocked { .. }) => {}
                    Err(e) => panic!("seed {seed}: {e}"),
                }
            }
            db.restart();
        }
        db.cluster.world.run_for(Duration::from_secs(2));
        db.run(async {
            let now = db.now().await?;
            for (i, &rowid) in rowids.iter().enumerate() {
                assert_eq!(db.get(&now, rowid).await?, expected[i], "seed {seed}: row {i}");
            }
            Ok(())
        });
    }
}

/// Space goes from table to table while the blocks' old contents are on disk, and the instance is
/// killed with the new contents in the log only.
#[test]
fn c10_a_block_formatted_anew_keeps_its_redo() {
    let mut db = Db::new(7, 2048, 900);
    for round in 0..5 {
        let name = format!("t{round}");
        let (rowids, def) = db.run(async {
            let txn = db.begin(Isolation::ReadCommitted);
            let def = dict::create_table(&db.ctx, &txn, new_table(&name)).await?;
            let mut rowids = Vec::new();
            for n in 0..200 {
                rowids.push(table::insert(&db.ctx, &txn, &def, &db.row(n, 700)).await?);
            }
            txn.commit(&db.ctx).await?;
            Ok((rowids, def))
        });
        db.restart();
        db.run(async {
            let now = db.now().await?;
            for (n, &rowid) in rowids.iter().enumerate() {
                let mut row = Vec::new();
                assert!(table::fetch(&db.ctx, &def, rowid, &now, &mut row).await?, "{round}: {n}");
                assert_eq!(usize::try_from(db.number(&row)), Ok(n));
            }
            let txn = db.begin(Isolation::ReadCommitted);
            let def = dict::table(&db.ctx, &txn, "public", &name).await?.expect("there");
            // Many changes, so that the versions on disk are high; all of them written.
            for &rowid in &rowids {
                for n in 0..5 {
                    let snap = txn.snapshot(&db.ctx).await?;
                    let mut seen = Vec::new();
                    table::fetch(&db.ctx, &def, rowid, &snap, &mut seen).await?;
                    let (new, wait) = (db.row(n, 700), LockWait::Wait);
                    table::update(&db.ctx, &txn, &def, rowid, &snap, &seen, &new, wait).await?;
                }
            }
            dict::drop_table(&db.ctx, &txn, &def).await?;
            txn.commit(&db.ctx).await?;
            db.at().core.cache.checkpoint_all(&db.ctx, db.at().me).await
        });
    }
}

/// Kills under write load until blocks have been torn and restored; and, as every restart is
/// followed
/// by a kill at once, log records of an earlier life lie behind the end of the next one (C13).
#[test]
fn c11_c13_torn_blocks_and_stale_redo_do_no_harm() {
    let mut db = Db::new(8, 128, 0);
    let rowids = Arc::new(db.run(db.fill(800, 900)));
    let acknowledged: Arc<Vec<AtomicU64>> =
        Arc::new(rowids.iter().map(|_| AtomicU64::new(0)).collect());
    let (mut torn, mut next) = (0, 1);
    let mut waits = [(WaitEvent::DbFileParallelRead, 0), (WaitEvent::TornBlockRecheck, 0)];
    for round in 0..60 {
        for client in 0..4 {
            let (rowids, acknowledged) = (rowids.clone(), acknowledged.clone());
            let (at, def) = (db.at().clone(), db.def.clone());
            let row = |n: u64| {
                let n = i64::try_from(n).expect("few");
                def.encode(&[Datum::Int8(n), Datum::Text(&"x".repeat(900))])
            };
            let new = row(next);
            let value = next;
            next += 1;
            let env = at.core.env.clone();
            env.spawn_task("client", Lane::Background, async move {
                let ctx = at.observer.ctx(SessionKind::User, "client");
                for i in (client..rowids.len()).step_by(4) {
                    let txn = at.begin(&ctx, Isolation::ReadCommitted);
                    let snap = txn.snapshot(&ctx).await.expect("a snapshot");
                    let mut seen = Vec::new();
                    let (rowid, wait) = (rowids[i], LockWait::Wait);
                    table::fetch(&ctx, &def, rowid, &snap, &mut seen).await.expect("read");
                    let done =
                        table::update(&ctx, &txn, &def, rowid, &snap, &seen, &new, wait).await;
                    assert_eq!(done.expect("changed"), Change::Done);
                    txn.commit(&ctx).await.expect("committed");
                    acknowledged[i].store(value, Ordering::SeqCst);
                }
            });
        }
        let time = db.cluster.world.random() % 60_000;
        db.cluster.world.run_for(Duration::from_micros(time));
        db.restart();
        torn += db.at().observer.stat(Stat::TornBlocksRestored);
        for row in db.at().observer.system_events() {
            let seen = waits.iter_mut().find(|(event, _)| *event == row.event);
            seen.into_iter().for_each(|(_, n)| *n += row.all.waits);
        }
        if round % 10 == 9 {
            db.run(async {
                let now = db.now().await?;
                for (i, &rowid) in rowids.iter().enumerate() {
                    let least = acknowledged[i].load(Ordering::SeqCst);
                    let found = db.get(&now, rowid).await?.unsigned_abs();
                    assert!(found >= least, "round {round}, row {i}: {found} for {least}");
                }
                Ok(())
            });
        }
    }
    assert!(torn > 0, "no block was torn: the test proves nothing");
    // What recovery waits for has its name: the reads, and each pause before another look.
    assert!(waits[0].1 > 60 && waits[1].1 > 10, "{waits:?}");
}

/// A row whose last changer's ITL entry another transaction has taken over is not locked by that
/// one.
#[test]
fn m1_a_row_is_not_locked_by_who_took_over_the_entry_of_its_changer() {
    let db = Db::new(9, 1024, 900);
    db.run(async {
        let rowids = db.fill(4, 20).await?;
        db.set_committed(rowids[0], 1, 20).await?;
        db.set_committed(rowids[1], 1, 20).await?;
        let open = db.begin(Isolation::ReadCommitted);
        db.set(&open, rowids[2], 2, 20).await?;
        let more = db.begin(Isolation::ReadCommitted);
        db.set(&more, rowids[3], 2, 20).await?;
        for rowid in &rowids[..2] {
            db.set_committed(*rowid, 3, 20).await?;
        }
        let third = db.begin(Isolation::ReadCommitted);
        let blocked = db.set(&third, rowids[2], 4, 20).await;
        assert!(matches!(blocked, Err(Error::RowLocked)), "{blocked:?}");
        for txn in [open, more, third] {
            txn.rollback(&db.ctx).await?;
        }
        Ok(())
    });
}
