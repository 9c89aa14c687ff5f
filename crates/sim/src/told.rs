//! Loads whose clients write down what they were told, for checks of whole histories: lists that
//! transactions append to, and registers.
//!
//! A client ends with its instance, at any await. So an operation is in the history from its
//! beginning, as one that failed; as one of unknown outcome from the moment its commit is begun;
//! and as done when that has been answered.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use env::{BoxFuture, Env};
use histories::append::{self, Level};
use histories::{Operation, Outcome, register};
use kernel::dict::{self, TableDef};
use kernel::instance::Instance;
use kernel::row::{Datum, RowView, TypeKind};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Transaction};
use kernel::{Error, Result};
use observe::Ctx;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::load::{Counts, Load, is_disk_trouble};
use crate::tables::{
    all_rows, by_key, find, indexes_agree, int, numbers, plain_table, primary_key,
};

/// A list or register is left alone after so many uses.
const KEY_USES: i64 = 40;

/// What all clients of a load have been told.
#[derive(Default)]
struct Told {
    operations: Vec<Operation>,
    counts: Counts,
}

/// An operation that is under way.
struct Open<'a> {
    told: &'a Mutex<Told>,
    at: usize,
    env: &'a Env,
}

fn now_ns(env: &Env) -> u64 {
    env.now().0 * 1000
}

impl<'a> Open<'a> {
    fn begin(told: &'a Mutex<Told>, env: &'a Env) -> Open<'a> {
        let mut all = told.lock();
        let (at, begin_ns) = (all.operations.len(), now_ns(env));
        // Each of a process of its own: a client does nothing after one without an answer.
        let process = at as u64;
        let (outcome, value) = (Outcome::Failed, Value::Null);
        all.operations.push(Operation { process, begin_ns, end_ns: u64::MAX, outcome, value });
        Open { told, at, env }
    }

    /// What it is about to do; with its answers in the end.
    fn says(&self, value: Value) {
        self.told.lock().operations[self.at].value = value;
    }

    /// Commits if all was done, and writes down how it ended. Fails with what no client expects.
    async fn end(self, ctx: &Ctx, txn: &Arc<Transaction>, done: Result<Value>) -> Result<()> {
        let value = match done {
            Ok(value) => value,
            Err(e) => {
                txn.rollback(ctx).await?;
                let mut told = self.told.lock();
                told.operations[self.at].end_ns = now_ns(self.env);
                let counts = &mut told.counts;
                counts.refused += 1;
                match e {
                    Error::Deadlock => counts.deadlocks += 1,
                    Error::SnapshotTooOld(_) => counts.too_old += 1,
                    Error::Serialization(_) | Error::UniqueViolation { .. } => {
                        counts.conflicts += 1;
                    }
                    Error::RowLocked | Error::TableLocked { .. } => counts.locked += 1,
                    e => return Err(e),
                }
                return Ok(());
            }
        };
        {
            let mut told = self.told.lock();
            told.operations[self.at].outcome = Outcome::Unknown;
            told.counts.unknown += 1;
        }
        txn.commit(ctx).await?;
        let mut told = self.told.lock();
        told.counts.unknown -= 1;
        told.counts.acknowledged += 1;
        let operation = &mut told.operations[self.at];
        (operation.outcome, operation.value) = (Outcome::Done, value);
        operation.end_ns = now_ns(self.env);
        Ok(())
    }
}

/// The operations, those without an end ending now.
fn ended(told: &Told, env: &Env) -> Vec<Operation> {
    let (mut all, now_ns) = (told.operations.clone(), now_ns(env));
    all.iter_mut().for_each(|o| o.end_ns = o.end_ns.min(now_ns));
    // One that has failed before it said anything has no value.
    all.retain(|o| o.value != Value::Null);
    all
}

fn text_of(def: &TableDef, row: &[u8]) -> String {
    match RowView::new(&def.types, row).get(1) {
        Datum::Text(text) => text.to_owned(),
        other => panic!("{}: a list is {other:?}", def.name),
    }
}

/// `" 3 17"`; what is no number counts as an element that nobody wrote.
fn elements(text: &str) -> Vec<i64> {
    text.split_ascii_whitespace().map(|part| part.parse().unwrap_or(-1)).collect()
}

/// The row of `key` as `new` makes it from the old one: changed, or made. `None`: left as it is.
async fn put(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    key: i64,
    mut new: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send,
) -> Result<bool> {
    let index = def.primary_key().expect("a primary key");
    loop {
        let snap = txn.snapshot(ctx).await?;
        match by_key(ctx, def, index, &snap, key).await? {
            Some((rowid, row)) => {
                let Some(changed) = new(Some(&row)) else { return Ok(false) };
                let wait = LockWait::Wait;
                match table::update(ctx, txn, def, rowid, &snap, &row, &changed, wait).await? {
                    Change::Done => return Ok(true),
                    Change::Newer(_) | Change::Gone | Change::Skipped => {}
                }
            }
            None => {
                let Some(made) = new(None) else { return Ok(false) };
                let before = txn.savepoint();
                match table::insert(ctx, txn, def, &made).await {
                    Ok(_) => return Ok(true),
                    Err(Error::UniqueViolation { .. })
                        if txn.isolation() == Isolation::ReadCommitted =>
                    {
                        txn.rollback_to(ctx, before).await?;
                    }
                    Err(e) => return Err(e),
                }
            }
        }
    }
}

/// Transactions that append to lists and read them, at one level of isolation.
pub struct Lists {
    table: &'static str,
    isolation: Isolation,
    /// So many are in use at a time.
    open: i64,
    uses: AtomicI64,
    next_element: AtomicI64,
    told: Mutex<Told>,
}

impl Lists {
    #[must_use]
    pub fn new(isolation: Isolation, open: i64) -> Lists {
        let repeatable = isolation == Isolation::RepeatableRead;
        Lists {
            table: if repeatable { "list_rr" } else { "list_rc" },
            isolation,
            open,
            uses: AtomicI64::new(0),
            next_element: AtomicI64::new(1),
            told: Mutex::default(),
        }
    }

    async fn work(&self, ctx: &Ctx, at: &Arc<Instance>) -> Result<()> {
        let env = &at.core.env;
        let mut parts = Vec::new();
        for _ in 0..=env.random() % 4 {
            let key = a_key(&self.uses, self.open, env);
            parts.push(if env.random().is_multiple_of(2) {
                json!(["r", key, null])
            } else {
                json!(["append", key, self.next_element.fetch_add(1, Ordering::SeqCst)])
            });
        }
        let open = Open::begin(&self.told, env);
        open.says(json!(parts));
        let txn = at.begin(ctx, self.isolation);
        let done = self.parts(ctx, &txn, &mut parts).await;
        open.end(ctx, &txn, done.map(|()| json!(parts))).await
    }

    async fn parts(&self, ctx: &Ctx, txn: &Arc<Transaction>, parts: &mut [Value]) -> Result<()> {
        let def = find(ctx, txn, self.table).await?;
        let index = def.primary_key().expect("a primary key");
        for part in parts {
            let key = part[1].as_i64().expect("a key");
            if part[0] == "r" {
                let snap = txn.snapshot(ctx).await?;
                let found = by_key(ctx, &def, index, &snap, key).await?;
                let list = found.map_or_else(Vec::new, |(_, row)| elements(&text_of(&def, &row)));
                part[2] = json!(list);
                continue;
            }
            let element = &part[2];
            let longer = |row: Option<&[u8]>| {
                let old = row.map_or_else(String::new, |row| text_of(&def, row));
                let text = format!("{old} {element}");
                Some(def.encode(&[Datum::Int8(key), Datum::Text(&text)]))
            };
            put(ctx, txn, &def, key, longer).await?;
        }
        Ok(())
    }
}

/// One of those in use.
fn a_key(uses: &AtomicI64, open: i64, env: &Env) -> i64 {
    let first = uses.fetch_add(1, Ordering::SeqCst) / KEY_USES;
    first + (env.random() % open.unsigned_abs()).cast_signed()
}

/// Registers, each read, written or replaced by transactions of one statement.
pub struct Registers {
    open: i64,
    uses: AtomicI64,
    next_value: AtomicI64,
    told: Mutex<Told>,
}

impl Registers {
    #[must_use]
    pub fn new(open: i64) -> Registers {
        let (uses, next_value) = (AtomicI64::new(0), AtomicI64::new(1));
        Registers { open, uses, next_value, told: Mutex::default() }
    }

    async fn work(&self, ctx: &Ctx, at: &Arc<Instance>) -> Result<()> {
        let env = &at.core.env;
        let key = a_key(&self.uses, self.open, env);
        let value = self.next_value.fetch_add(1, Ordering::SeqCst);
        let open = Open::begin(&self.told, env);
        let txn = at.begin(ctx, Isolation::ReadCommitted);
        let row = |def: &TableDef, value| def.encode(&[key, value].map(Datum::Int8));
        let done = async {
            let def = find(ctx, &txn, "register").await?;
            match env.random() % 3 {
                0 => {
                    open.says(json!(["r", key, null]));
                    let held = self.held(ctx, &txn, &def, key).await?;
                    Ok(json!(["r", key, held]))
                }
                1 => {
                    let said = json!(["w", key, value]);
                    open.says(said.clone());
                    put(ctx, &txn, &def, key, |_| Some(row(&def, value))).await?;
                    Ok(said)
                }
                _ => {
                    // Most often what it holds: seen by a statement of its own, before.
                    let Some(old) = self.held(ctx, &txn, &def, key).await? else {
                        return Ok(json!(["r", key, null]));
                    };
                    open.says(json!(["cas", key, old, value, false]));
                    let replace = |held: Option<&[u8]>| {
                        let same = held.is_some_and(|held| int(&def, held, 1) == old);
                        same.then(|| row(&def, value))
                    };
                    let replaced = put(ctx, &txn, &def, key, replace).await?;
                    Ok(json!(["cas", key, old, value, replaced]))
                }
            }
        };
        let done = done.await;
        open.end(ctx, &txn, done).await
    }

    async fn held(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        def: &TableDef,
        key: i64,
    ) -> Result<Option<i64>> {
        let snap = txn.snapshot(ctx).await?;
        let index = def.primary_key().expect("a primary key");
        let found = by_key(ctx, def, index, &snap, key).await?;
        Ok(found.map(|(_, row)| int(def, &row, 1)))
    }
}

/// Table and indexes hold the same.
async fn whole(ctx: &Ctx, at: &Arc<Instance>, name: &str) -> Result<()> {
    let txn = at.begin(ctx, Isolation::RepeatableRead);
    let def = find(ctx, &txn, name).await?;
    let snap = txn.snapshot(ctx).await?;
    let rows = all_rows(ctx, &def, &snap).await?;
    indexes_agree(ctx, &def, &snap, &rows).await?;
    txn.rollback(ctx).await
}

/// Ends a step: what a client must expect of disks that fail is counted, all else is a bug.
fn expect(told: &Mutex<Told>, at: &Arc<Instance>, done: Result<()>) {
    match done {
        Ok(()) => {}
        Err(e) if is_disk_trouble(&e) => told.lock().counts.disk_errors += 1,
        Err(e) => panic!("instance {}: {e}", at.me),
    }
}

impl Load for Lists {
    fn set_up<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let txn = at.begin(ctx, Isolation::ReadCommitted);
            let columns = [("id", TypeKind::Int8), ("elements", TypeKind::Text)];
            let table = plain_table(self.table, &columns, vec![primary_key(self.table)]);
            dict::create_table(ctx, &txn, table).await?;
            txn.commit(ctx).await.map(drop)
        })
    }

    fn step<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>, _: u8) -> BoxFuture<'a, ()> {
        Box::pin(async move { expect(&self.told, at, self.work(ctx, at).await) })
    }

    fn check<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            whole(ctx, at, self.table).await?;
            let operations = ended(&self.told.lock(), &at.core.env);
            let level = match self.isolation {
                Isolation::RepeatableRead => Level::StrongSnapshotIsolation,
                Isolation::ReadCommitted => Level::StrongReadCommitted,
            };
            append::check(&operations, level).unwrap_or_else(|e| panic!("{}: {e}", self.table));
            Ok(())
        })
    }

    fn counts(&self) -> Counts {
        self.told.lock().counts
    }
}

impl Load for Registers {
    fn set_up<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let txn = at.begin(ctx, Isolation::ReadCommitted);
            dict::create_table(ctx, &txn, numbers("register", &["id", "value"], false)).await?;
            txn.commit(ctx).await.map(drop)
        })
    }

    fn step<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>, _: u8) -> BoxFuture<'a, ()> {
        Box::pin(async move { expect(&self.told, at, self.work(ctx, at).await) })
    }

    fn check<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            whole(ctx, at, "register").await?;
            let operations = ended(&self.told.lock(), &at.core.env);
            register::check(&operations).unwrap_or_else(|e| panic!("{e}"));
            Ok(())
        })
    }

    fn counts(&self) -> Counts {
        self.told.lock().counts
    }
}
