//! Many sessions, random changes, commits, rollbacks and savepoints in a small cache: at the end,
//! and at every snapshot taken on the way, the index holds exactly what was committed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use block::Rowid;
use block::bytes::ByteList;
use env::{Env, Lane};
use observe::Ctx;
use parking_lot::Mutex;

use super::super::{IndexSeg, InsertOutcome, delete, insert, insert_run};
use super::instance::{entries, key, new_index, rid, verify_leaves};
use crate::error::Error;
use crate::testing::TestInstance;
use crate::txn::{Core, Isolation, Transaction};

const SESSIONS: u64 = 6;
const KEYS: u64 = 900;

/// What is committed: key to rowid. Changed in one step with the commit of a transaction, as far as
/// other sessions of this one-thread world can tell apart only by snapshots, which are not compared
/// while a commit is under way.
#[derive(Default)]
struct Model {
    committed: BTreeMap<u64, u64>,
}

struct Worker {
    ctx: Ctx,
    env: Env,
    seg: IndexSeg,
    /// Keys are shared; a session deletes only what is committed or its own.
    model: Arc<Mutex<Model>>,
}

fn pick(env: &Env, below: u64) -> u64 {
    env.random() % below
}

impl Worker {
    /// One transaction; `None` if it was a deadlock's victim.
    async fn transaction(&self, txn: &Arc<Transaction>) -> Option<BTreeMap<u64, Option<u64>>> {
        let mut own: BTreeMap<u64, Option<u64>> = BTreeMap::new();
        let mut saved = None;
        for _ in 0..pick(&self.env, 12) {
            if pick(&self.env, 8) == 0 {
                saved = Some((txn.savepoint(), own.clone()));
            }
            if pick(&self.env, 10) == 0
                && let Some((point, at)) = saved.take()
            {
                txn.rollback_to(&self.ctx, point).await.expect("rolled back");
                own = at;
            }
            let n = pick(&self.env, KEYS);
            let done = match pick(&self.env, 4) {
                0 => self.run(txn, n, &mut own).await,
                _ => self.step(txn, n, &mut own).await,
            };
            match done {
                Ok(()) => {}
                Err(Error::Deadlock) => return None,
                Err(e) => panic!("{e}"),
            }
        }
        Some(own)
    }

    /// Inserts a batch of keys from this one on, those that are free.
    async fn run(
        &self,
        txn: &Arc<Transaction>,
        first: u64,
        own: &mut BTreeMap<u64, Option<u64>>,
    ) -> Result<(), Error> {
        let (mut keys, mut rowids, mut numbers) = (ByteList::new(), Vec::new(), Vec::new());
        for n in (first..KEYS).step_by(1 + usize::try_from(pick(&self.env, 9)).expect("small")) {
            numbers.push(n);
            keys.push(&key(n));
            rowids.push(rid(pick(&self.env, 1 << 40)));
            if keys.len() == 40 {
                break;
            }
        }
        let mut at = 0;
        while at < keys.len() {
            let run = insert_run(&self.ctx, txn, &self.seg, &keys, &rowids, at).await?;
            let count = run.unwrap_or(0);
            for i in at..at + count {
                own.insert(numbers[i], Some(rowids[i].to_u64()));
            }
            // A taken key is passed over.
            at += count.max(1);
        }
        Ok(())
    }

    /// Inserts the key, or deletes it if this transaction has inserted it.
    async fn step(
        &self,
        txn: &Arc<Transaction>,
        n: u64,
        own: &mut BTreeMap<u64, Option<u64>>,
    ) -> Result<(), Error> {
        if let Some(&Some(rowid)) = own.get(&n) {
            delete(&self.ctx, txn, &self.seg, &key(n), rid(rowid)).await?;
            own.insert(n, None);
            return Ok(());
        }
        let rowid = pick(&self.env, 1 << 40);
        match insert(&self.ctx, txn, &self.seg, &key(n), rid(rowid)).await? {
            InsertOutcome::Done => {
                own.insert(n, Some(rowid));
            }
            InsertOutcome::Duplicate => {
                // It is committed: nobody else deletes it unless it holds the row's lock, which
                // here the key's parity stands for.
                let there = self.model.lock().committed.get(&n).copied();
                let mine = n % SESSIONS == u64::from(self.ctx.session.sid()) % SESSIONS;
                if let (Some(rowid), true, None) = (there, mine, own.get(&n)) {
                    delete(&self.ctx, txn, &self.seg, &key(n), rid(rowid)).await?;
                    own.insert(n, None);
                }
            }
        }
        Ok(())
    }
}

async fn work(worker: Worker, db: Arc<TestInstance>, rounds: u64, done: Arc<AtomicU64>) {
    for _ in 0..rounds {
        let txn = db.begin();
        let own = worker.transaction(&txn).await;
        match own {
            Some(own) if pick(&worker.env, 4) > 0 => {
                // The keys are this transaction's until it has ended, so the model may go ahead.
                {
                    let mut model = worker.model.lock();
                    for (n, rowid) in own {
                        match rowid {
                            Some(rowid) => model.committed.insert(n, rowid),
                            None => model.committed.remove(&n),
                        };
                    }
                }
                txn.commit(&worker.ctx).await.expect("committed");
            }
            _ => txn.rollback(&worker.ctx).await.expect("rolled back"),
        }
    }
    done.fetch_add(1, Ordering::SeqCst);
}

fn run(seed: u64, cache_blocks: usize, rounds: u64) -> u64 {
    let db = Arc::new(TestInstance::new(seed, cache_blocks));
    let ctx = db.session("main");
    let seg = new_index(&db, &ctx, true);
    let model = Arc::new(Mutex::new(Model::default()));
    let done = Arc::new(AtomicU64::new(0));
    for _ in 0..SESSIONS {
        let worker =
            Worker { ctx: db.session("w"), env: db.env.clone(), seg, model: model.clone() };
        let task = work(worker, db.clone(), rounds, done.clone());
        let _ = db.env.spawn_task("w", Lane::Background, task);
    }
    let ended = || done.load(Ordering::SeqCst) == SESSIONS;
    assert!(db.world.run_until(Duration::from_secs(3600), ended), "seed {seed} does not end");
    db.run(async {
        let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
        let want: Vec<(Vec<u8>, Rowid)> =
            model.lock().committed.iter().map(|(n, r)| (key(*n), rid(*r))).collect();
        assert_eq!(entries(&ctx, &snap, seg).await, want, "seed {seed}");
        verify_leaves(&db, &ctx, &seg).await;
    });
    db.world.trace_hash()
}

#[test]
fn concurrent_changes_leave_exactly_what_was_committed() {
    for seed in 0..6 {
        run(seed, 128, 150);
    }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    assert_eq!(run(77, 256, 60), run(77, 256, 60));
}

/// Sessions that insert many keys each in short transactions, some of them rolled back.
async fn fill(db: (Ctx, Env, Arc<Core>), seg: IndexSeg, no: u64, book: Arc<Mutex<Book>>) {
    let (ctx, env, core) = db;
    for round in 0.. {
        let txn = Transaction::begin(&core, Isolation::ReadCommitted, core.current_scn());
        let mut keys = Vec::new();
        for i in 0..10 + pick(&env, 60) {
            // Half of the keys grow, half are anywhere.
            let n = if i % 2 == 0 { round * 100 + i } else { pick(&env, 1 << 40) };
            let n = n * SESSIONS + no;
            let mut k = key(n);
            k.resize(8 + usize::try_from(pick(&env, 40)).expect("small"), 7);
            if insert(&ctx, &txn, &seg, &k, rid(n)).await.expect("inserted") == InsertOutcome::Done
            {
                keys.push(k);
            }
        }
        if pick(&env, 4) == 0 {
            txn.rollback(&ctx).await.expect("rolled back");
            continue;
        }
        book.lock().committing = keys.clone();
        txn.commit(&ctx).await.expect("committed");
        let mut book = book.lock();
        book.acknowledged.extend(keys);
        book.committing.clear();
    }
}

#[derive(Default)]
struct Book {
    acknowledged: BTreeSet<Vec<u8>>,
    committing: Vec<Vec<u8>>,
}

/// Kills between the two records of splits, among others: acknowledged keys are there, and no
/// others.
#[test]
fn splits_survive_kills() {
    for seed in 0..3 {
        let mut db = TestInstance::new(seed, 256);
        let ctx = db.session("main");
        let seg = new_index(&db, &ctx, true);
        let books: Vec<Arc<Mutex<Book>>> = (0..SESSIONS).map(|_| Arc::default()).collect();
        for _ in 0..3 {
            for (no, book) in (0..).zip(&books) {
                let parts = (db.session("w"), db.env.clone(), db.core.clone());
                let task = fill(parts, seg, no, book.clone());
                let _ = db.env.spawn_task("w", Lane::Background, task);
            }
            let micros = 5_000 + db.world.random() % 40_000;
            db.world.run_for(Duration::from_micros(micros));
            db.crash();
            let ctx = db.session("main");
            let found = db.run(async {
                let snap = db.begin().snapshot(&ctx).await.expect("snapshot");
                verify_leaves(&db, &ctx, &seg).await;
                entries(&ctx, &snap, seg).await
            });
            let found: BTreeSet<Vec<u8>> = found.into_iter().map(|(k, _)| k).collect();
            let mut want = BTreeSet::new();
            for book in &books {
                let mut book = book.lock();
                let commit = std::mem::take(&mut book.committing);
                let there = commit.iter().filter(|k| found.contains(*k)).count();
                assert!(there == 0 || there == commit.len(), "half a transaction");
                if there > 0 {
                    book.acknowledged.extend(commit);
                }
                want.extend(book.acknowledged.iter().cloned());
            }
            assert!(found == want, "seed {seed}: {} found, {} wanted", found.len(), want.len());
            assert!(want.len() > 100, "seed {seed}: only {} keys", want.len());
        }
    }
}
