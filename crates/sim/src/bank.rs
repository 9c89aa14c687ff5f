//! The bank: accounts, transfers between them, and a ledger with one row for each transfer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use block::Rowid;
use env::BoxFuture;
use kernel::dict::{self, TableDef};
use kernel::instance::Instance;
use kernel::row::Datum;
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Snapshot, Transaction};
use kernel::{Error, Result};
use observe::Ctx;
use parking_lot::Mutex;

use crate::load::{Counts, Load, is_disk_trouble};
use crate::tables::{all_rows, by_key, find, indexes_agree, int, numbers};

/// Columns of an account.
const BALANCE: usize = 1;
const LAST: usize = 2;

/// Money each account starts with.
const START_BALANCE: i64 = 1000;

/// What the clients know.
#[derive(Default)]
struct Ledger {
    /// Transfers whose commit was acknowledged: id → (from, to, amount).
    acknowledged: BTreeMap<i64, (i64, i64, i64)>,
    /// Transfers whose commit was begun and not answered: either outcome is right.
    unknown: BTreeSet<i64>,
    /// Transfers that were rolled back: they must not be there.
    refused: BTreeSet<i64>,
    /// Transfers that a look has shown: no crash may take them back.
    witnessed: BTreeSet<i64>,
    deadlocks: u64,
    looks: u64,
    too_old: u64,
    disk_errors: u64,
}

/// See the module.
pub struct Bank {
    accounts: i64,
    next_id: AtomicI64,
    ledger: Mutex<Ledger>,
}

struct Account {
    rowid: Rowid,
    row: Vec<u8>,
    balance: i64,
    /// The transfer that has given it this balance; 0: none.
    last: i64,
}

/// What a transfer does to one account.
struct Entry<'a> {
    transfer: i64,
    account: i64,
    amount: i64,
    filler: &'a str,
}

async fn read_account(
    ctx: &Ctx,
    def: &TableDef,
    snap: &Snapshot,
    id: i64,
) -> Result<Option<Account>> {
    let index = def.primary_key().expect("account has a primary key");
    let found = by_key(ctx, def, index, snap, id).await?;
    Ok(found.map(|(rowid, row)| {
        let (balance, last) = (int(def, &row, BALANCE), int(def, &row, LAST));
        Account { rowid, row, balance, last }
    }))
}

/// Changes an account. Whose balance it has been shown may not go away any more.
async fn add(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    ledger: &Mutex<Ledger>,
    Entry { transfer, account: id, amount, filler }: Entry<'_>,
) -> Result<()> {
    loop {
        let snap = txn.snapshot(ctx).await?;
        let account = read_account(ctx, def, &snap, id).await?;
        let account = account.ok_or_else(|| Error::UndefinedObject(format!("account {id}")))?;
        let Account { rowid, row, balance, last } = account;
        if last != 0 {
            ledger.lock().witnessed.insert(last);
        }
        let numbers = [id, balance + amount, transfer].map(Datum::Int8);
        let new = def.encode(&[&numbers[..], &[Datum::Text(filler)]].concat());
        let wait = LockWait::Wait;
        let change = table::update(ctx, txn, def, rowid, &snap, &row, &new, wait).await?;
        match change {
            Change::Done => return Ok(()),
            Change::Newer(_) => {}
            Change::Gone | Change::Skipped => {
                return Err(Error::Invariant(format!("account {id} is gone")));
            }
        }
    }
}

/// One transfer, its outcome noted in `ledger`. Fails with errors a client need not expect.
async fn transfer(
    ctx: &Ctx,
    instance: &Arc<Instance>,
    ledger: &Mutex<Ledger>,
    id: i64,
    (from, to, amount): (i64, i64, i64),
    filler: &str,
    give_up: bool,
) -> Result<()> {
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    // Before the commit is begun nothing of it can be there: only from then on is it unknown.
    let done: Result<()> = async {
        let accounts = find(ctx, &txn, "account").await?;
        let entries = find(ctx, &txn, "ledger").await?;
        let change = |account, amount| Entry { transfer: id, account, amount, filler };
        add(ctx, &txn, &accounts, ledger, change(from, -amount)).await?;
        let before = txn.savepoint();
        let row = entries.encode(&[
            Datum::Int8(id),
            Datum::Int8(from),
            Datum::Int8(to),
            Datum::Int8(amount),
        ]);
        if id % 5 == 0 {
            table::insert(ctx, &txn, &entries, &row).await?;
            txn.rollback_to(ctx, before).await?;
        }
        table::insert(ctx, &txn, &entries, &row).await?;
        add(ctx, &txn, &accounts, ledger, change(to, amount)).await
    }
    .await;
    match done {
        Ok(()) if give_up => {
            ledger.lock().refused.insert(id);
            txn.rollback(ctx).await
        }
        Ok(()) => {
            ledger.lock().unknown.insert(id);
            txn.commit(ctx).await?;
            let mut ledger = ledger.lock();
            ledger.unknown.remove(&id);
            ledger.acknowledged.insert(id, (from, to, amount));
            Ok(())
        }
        Err(e) => {
            ledger.lock().refused.insert(id);
            txn.rollback(ctx).await?;
            match e {
                Error::Deadlock => {
                    ledger.lock().deadlocks += 1;
                    Ok(())
                }
                Error::Serialization(_) | Error::SnapshotTooOld(_) => Ok(()),
                e => Err(e),
            }
        }
    }
}

/// Sum of all balances and the transfers made, as of one snapshot.
async fn total(ctx: &Ctx, instance: &Arc<Instance>) -> Result<(i64, Vec<i64>)> {
    let txn = instance.begin(ctx, Isolation::RepeatableRead);
    let account = find(ctx, &txn, "account").await?;
    let entry = find(ctx, &txn, "ledger").await?;
    let snap = txn.snapshot(ctx).await?;
    let accounts = all_rows(ctx, &account, &snap).await;
    let entries = all_rows(ctx, &entry, &snap).await;
    txn.rollback(ctx).await?;
    let sum = accounts?.values().map(|row| int(&account, row, BALANCE)).sum();
    Ok((sum, entries?.values().map(|row| int(&entry, row, 0)).collect()))
}

/// Whether a transfer is to be seen.
async fn is_seen(ctx: &Ctx, instance: &Arc<Instance>, id: i64) -> Result<bool> {
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    let entries = find(ctx, &txn, "ledger").await?;
    let snap = txn.snapshot(ctx).await?;
    let index = entries.primary_key().expect("the ledger has a primary key");
    let found = by_key(ctx, &entries, index, &snap, id).await;
    txn.rollback(ctx).await?;
    Ok(found?.is_some())
}

impl Bank {
    #[must_use]
    pub fn new(accounts: i64) -> Bank {
        Bank { accounts, next_id: AtomicI64::new(1), ledger: Mutex::default() }
    }

    async fn fill(&self, ctx: &Ctx, instance: &Arc<Instance>) -> Result<()> {
        let txn = instance.begin(ctx, Isolation::ReadCommitted);
        dict::create_table(ctx, &txn, numbers("account", &["id", "balance", "last"], true)).await?;
        let columns = ["id", "src", "dst", "amount"];
        dict::create_table(ctx, &txn, numbers("ledger", &columns, false)).await?;
        txn.commit(ctx).await?;
        let txn = instance.begin(ctx, Isolation::ReadCommitted);
        let def = find(ctx, &txn, "account").await?;
        for id in 0..self.accounts {
            let filler = "x".repeat(usize::try_from(id % 37).expect("small"));
            let row = def.encode(&[
                Datum::Int8(id),
                Datum::Int8(START_BALANCE),
                Datum::Int8(0),
                Datum::Text(&filler),
            ]);
            table::insert(ctx, &txn, &def, &row).await?;
        }
        txn.commit(ctx).await?;
        Ok(())
    }

    async fn work(&self, ctx: &Ctx, instance: &Arc<Instance>, n: u8) -> Result<()> {
        let env = &instance.core.env;
        if n == 0 && env.random().is_multiple_of(8) {
            let sum = total(ctx, instance).await;
            let mut ledger = self.ledger.lock();
            ledger.looks += 1;
            match sum {
                Ok((sum, transfers)) => {
                    let right = sum == self.accounts * START_BALANCE;
                    assert!(right, "instance {} sees {sum}", instance.me);
                    ledger.witnessed.extend(transfers);
                }
                Err(Error::SnapshotTooOld(_)) => ledger.too_old += 1,
                Err(e) => return Err(e),
            }
            return Ok(());
        }
        if n == 1 && env.random().is_multiple_of(4) {
            // One whose commit has not been answered: shown once it must stay.
            let unknown = self.ledger.lock().unknown.last().copied();
            if let Some(id) = unknown {
                match is_seen(ctx, instance, id).await {
                    Ok(true) => {
                        self.ledger.lock().witnessed.insert(id);
                    }
                    Ok(false) => {}
                    Err(Error::SnapshotTooOld(_)) => self.ledger.lock().too_old += 1,
                    Err(e) => return Err(e),
                }
            }
            return Ok(());
        }
        let id = self.next_id.fetch_add(1, Ordering::SeqCst);
        let pick = |n: i64| (env.random() % n.unsigned_abs()).cast_signed();
        let from = pick(self.accounts);
        let to = (from + 1 + pick(self.accounts - 1)) % self.accounts;
        let amount = pick(100) + 1;
        let filler = "y".repeat(usize::try_from(pick(200)).expect("small"));
        let give_up = env.random().is_multiple_of(10);
        let what = (from, to, amount);
        transfer(ctx, instance, &self.ledger, id, what, &filler, give_up).await
    }

    /// Compares the database with the ledger: all transfers have ended by now.
    async fn everything(&self, ctx: &Ctx, instance: &Arc<Instance>) -> Result<()> {
        let txn = instance.begin(ctx, Isolation::RepeatableRead);
        let account = find(ctx, &txn, "account").await?;
        let entry = find(ctx, &txn, "ledger").await?;
        let snap = txn.snapshot(ctx).await?;
        let accounts = all_rows(ctx, &account, &snap).await?;
        let entries = all_rows(ctx, &entry, &snap).await?;
        indexes_agree(ctx, &account, &snap, &accounts).await?;
        indexes_agree(ctx, &entry, &snap, &entries).await?;
        txn.rollback(ctx).await?;
        assert!(accounts.len() as i64 == self.accounts, "{} accounts", accounts.len());
        let ledger = self.ledger.lock();
        let mut expected: BTreeMap<i64, i64> =
            (0..self.accounts).map(|id| (id, START_BALANCE)).collect();
        let mut seen = BTreeMap::new();
        for e in entries.values() {
            let n = |column| int(&entry, e, column);
            let (id, from, to, amount) = (n(0), n(1), n(2), n(3));
            seen.insert(id, (from, to, amount));
            *expected.entry(from).or_default() -= amount;
            *expected.entry(to).or_default() += amount;
            assert!(!ledger.refused.contains(&id), "transfer {id} was rolled back, but is there");
        }
        for (id, what) in &ledger.acknowledged {
            let found = seen.get(id);
            assert!(found == Some(what), "acknowledged transfer {id} is lost: {found:?}");
        }
        for id in &ledger.witnessed {
            assert!(seen.contains_key(id), "transfer {id} was seen, and is gone");
        }
        for row in accounts.values() {
            let (id, balance) = (int(&account, row, 0), int(&account, row, BALANCE));
            assert!(expected[&id] == balance, "account {id}: {balance}, not {}", expected[&id]);
            let last = int(&account, row, LAST);
            let by = seen.get(&last);
            let right = last == 0 || by.is_some_and(|(from, to, _)| id == *from || id == *to);
            assert!(right, "account {id} was changed last by transfer {last}, {by:?}");
        }
        Ok(())
    }
}

impl Load for Bank {
    fn set_up<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.fill(ctx, at))
    }

    fn step<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>, n: u8) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match self.work(ctx, at, n).await {
                Ok(()) => {}
                Err(e) if is_disk_trouble(&e) => self.ledger.lock().disk_errors += 1,
                Err(e) => panic!("instance {}: {e}", at.me),
            }
        })
    }

    fn check<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.everything(ctx, at))
    }

    fn counts(&self) -> Counts {
        let ledger = self.ledger.lock();
        Counts {
            acknowledged: ledger.acknowledged.len(),
            unknown: ledger.unknown.len(),
            refused: ledger.refused.len(),
            looks: ledger.looks,
            deadlocks: ledger.deadlocks,
            too_old: ledger.too_old,
            disk_errors: ledger.disk_errors,
            ..Counts::default()
        }
    }
}
