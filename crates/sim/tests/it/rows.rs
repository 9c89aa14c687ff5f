//! A table of a number and a text without indexes on several instances, and sessions to work on it:
//! what the tests of hazards between instances share.

use std::future::Future;
use std::sync::Arc;

use block::{Rowid, Scn};
use env::Lane;
use env::simulated::SimConfig;
use kernel::dict::{self, TableDef};
use kernel::instance::Instance;
use kernel::row::{Datum, RowView, TypeKind};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Snapshot, Transaction};
use kernel::{Error, Result};
use observe::{Ctx, SessionKind};
use parking_lot::Mutex;
use sim::{Cluster, STUCK, Sizes, plain_table, primary_key};

/// A database for three instances, `n` of which are open.
pub fn cluster(seed: u64, n: u8) -> Cluster {
    let mut cluster = closed(seed);
    cluster.settings.push(("_gc_direct_reads", "off".to_owned()));
    (1..=n).for_each(|k| cluster.start(k));
    cluster
}

/// As `cluster`, and the instances look into each other's memory.
pub fn seeing(seed: u64, n: u8) -> Cluster {
    let mut cluster = closed(seed);
    (1..=n).for_each(|k| cluster.start(k));
    cluster
}

fn closed(seed: u64) -> Cluster {
    let mut cluster = Cluster::create(seed, SimConfig::default(), 3, &Sizes::default());
    cluster.settings.push(("db_cache_size", (4 << 20).to_string()));
    cluster
}

/// Runs to its end.
pub fn run<T>(cluster: &Cluster, what: impl Future<Output = Result<T>>) -> T {
    let ended = cluster.world.block_on_for(STUCK, what).unwrap_or_else(|| {
        cluster.print_alerts();
        panic!("a test hangs")
    });
    ended.unwrap_or_else(|e| panic!("{e}"))
}

/// What a task ends with; there when it has ended.
pub type Outcome<T> = Arc<Mutex<Option<T>>>;

/// Waits for the end of a task.
pub fn wait<T>(cluster: &Cluster, outcome: &Outcome<T>) -> T {
    if !cluster.world.run_until(STUCK, || outcome.lock().is_some()) {
        cluster.print_alerts();
        panic!("a task hangs");
    }
    outcome.lock().take().expect("it has ended")
}

/// Makes table `t` from instance `k` with `count` rows, all 0, with texts of `len` bytes.
pub fn make(cluster: &Cluster, k: u8, count: usize, len: usize) -> Vec<Rowid> {
    let instance = &cluster.open[&k];
    let ctx = instance.observer.ctx(SessionKind::User, "make");
    let new = plain_table("t", &[("n", TypeKind::Int8), ("t", TypeKind::Text)], Vec::new());
    run(cluster, async {
        let txn = instance.begin(&ctx, Isolation::ReadCommitted);
        let def = dict::create_table(&ctx, &txn, new).await?;
        let mut rowids = Vec::new();
        for _ in 0..count {
            let row = def.encode(&[Datum::Int8(0), Datum::Text(&"x".repeat(len))]);
            rowids.push(table::insert(&ctx, &txn, &def, &row).await?);
        }
        txn.commit(&ctx).await?;
        Ok(rowids)
    })
}

/// As [`make`], with all rows in one block: behind others, over which the first blocks of a table
/// are spread.
pub fn make_in_one_block(cluster: &Cluster, k: u8, count: usize, len: usize) -> Vec<Rowid> {
    make(cluster, k, 64, 1);
    let session = Session::new(cluster, k);
    run(cluster, async {
        let txn = session.begin(Isolation::ReadCommitted);
        let mut rowids = Vec::new();
        for _ in 0..count {
            let row = session.row(0, len);
            rowids.push(table::insert(&session.ctx, &txn, &session.def, &row).await?);
        }
        txn.commit(&session.ctx).await?;
        assert!(rowids.iter().all(|rowid| rowid.dba == rowids[0].dba));
        Ok(rowids)
    })
}

/// A session on one instance that works on table `t`.
#[derive(Clone)]
pub struct Session {
    pub at: Arc<Instance>,
    pub ctx: Ctx,
    pub def: Arc<TableDef>,
}

impl Session {
    pub fn new(cluster: &Cluster, k: u8) -> Session {
        let at = cluster.open[&k].clone();
        let ctx = at.observer.ctx(SessionKind::User, "test");
        let def = run(cluster, async {
            let txn = at.begin(&ctx, Isolation::ReadCommitted);
            dict::table(&ctx, &txn, "public", "t").await
        });
        Session { at, ctx, def: def.expect("the table is there") }
    }

    /// Another session on the same instance.
    pub fn another(&self) -> Session {
        let ctx = self.at.observer.ctx(SessionKind::User, "another");
        Session { at: self.at.clone(), ctx, def: self.def.clone() }
    }

    /// Runs a task on the instance.
    pub fn spawn<T: Send + 'static, F>(&self, task: impl FnOnce(Session) -> F) -> Outcome<T>
    where
        F: Future<Output = T> + Send + 'static,
    {
        let outcome: Outcome<T> = Arc::default();
        let (to, task) = (outcome.clone(), task(self.clone()));
        self.at.core.env.spawn_task("test", Lane::Background, async move {
            let value = task.await;
            *to.lock() = Some(value);
        });
        outcome
    }

    pub fn begin(&self, level: Isolation) -> Arc<Transaction> {
        self.at.begin(&self.ctx, level)
    }

    pub fn row(&self, n: i64, len: usize) -> Vec<u8> {
        self.def.encode(&[Datum::Int8(n), Datum::Text(&"x".repeat(len))])
    }

    pub fn number(&self, row: &[u8]) -> i64 {
        match RowView::new(&self.def.types, row).get(0) {
            Datum::Int8(n) => n,
            other => panic!("{other:?}"),
        }
    }

    pub async fn now(&self) -> Result<Snapshot> {
        self.begin(Isolation::ReadCommitted).snapshot(&self.ctx).await
    }

    pub async fn get(&self, snap: &Snapshot, rowid: Rowid) -> Result<i64> {
        let mut row = Vec::new();
        let found = table::fetch(&self.ctx, &self.def, rowid, snap, &mut row).await?;
        assert!(found, "row {rowid} is there");
        Ok(self.number(&row))
    }

    pub async fn get_now(&self, rowid: Rowid) -> Result<i64> {
        self.get(&self.now().await?, rowid).await
    }

    /// Gives the row a number, and a text of `len` bytes, whatever it was; waits for row locks.
    pub async fn set(
        &self,
        txn: &Arc<Transaction>,
        rowid: Rowid,
        n: impl Fn(i64) -> i64,
        len: usize,
    ) -> Result<()> {
        loop {
            let snap = txn.snapshot(&self.ctx).await?;
            let mut seen = Vec::new();
            table::fetch(&self.ctx, &self.def, rowid, &snap, &mut seen).await?;
            let (new, wait) = (self.row(n(self.number(&seen)), len), LockWait::Wait);
            let (ctx, def) = (&self.ctx, &self.def);
            match table::update(ctx, txn, def, rowid, &snap, &seen, &new, wait).await? {
                Change::Done => return Ok(()),
                Change::Newer(_) => {}
                other => return Err(Error::Invariant(format!("{other:?}"))),
            }
        }
    }

    pub async fn set_committed(&self, rowid: Rowid, n: i64, len: usize) -> Result<Scn> {
        let txn = self.begin(Isolation::ReadCommitted);
        self.set(&txn, rowid, |_| n, len).await?;
        txn.commit(&self.ctx).await
    }
}

/// Makes all redo of the session's instance durable.
pub fn flush(cluster: &Cluster, session: &Session) {
    let log = &session.at.core.log;
    run(cluster, async {
        let upto = log.next();
        log.nudge(upto);
        log.flushed(upto).await;
        Ok(())
    });
}

/// Makes table `u` of two texts, with a unique index on the first, from the session's instance.
pub async fn keyed(session: &Session) -> Result<Arc<TableDef>> {
    let txn = session.begin(Isolation::ReadCommitted);
    let columns = [("k", TypeKind::Text), ("f", TypeKind::Text)];
    let new = plain_table("u", &columns, vec![primary_key("u")]);
    let def = dict::create_table(&session.ctx, &txn, new).await?;
    txn.commit(&session.ctx).await?;
    Ok(def)
}

/// Inserts into `u` a row with a key so long that a leaf holds but some twenty.
pub async fn insert_key(
    session: &Session,
    txn: &Arc<Transaction>,
    def: &TableDef,
    n: u64,
    filler: usize,
) -> Result<()> {
    let key = format!("{n:012}{}", "k".repeat(300));
    let row = def.encode(&[Datum::Text(&key), Datum::Text(&"f".repeat(filler))]);
    table::insert(&session.ctx, txn, def, &row).await?;
    Ok(())
}
