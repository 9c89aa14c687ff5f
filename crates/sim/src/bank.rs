//! The bank: accounts, transfers between them, and a ledger with one row for each transfer.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use block::{ObjId, Rowid};
use kernel::dict::{self, ColumnDef, NewIndex, NewTable, TableDef};
use kernel::instance::Instance;
use kernel::row::{ColType, Datum, RowView, TypeKind, encode_key};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Snapshot, Transaction};
use kernel::{Error, Result};
use observe::Ctx;
use parking_lot::Mutex;

/// Money each account starts with.
pub const START_BALANCE: i64 = 1000;

/// What the clients know.
#[derive(Default)]
pub struct Ledger {
    /// Transfers whose commit was acknowledged: id → (from, to, amount).
    pub acknowledged: BTreeMap<i64, (i64, i64, i64)>,
    /// Transfers whose commit was begun and not answered: either outcome is right.
    pub unknown: BTreeSet<i64>,
    /// Transfers that were rolled back: they must not be there.
    pub refused: BTreeSet<i64>,
    pub deadlocks: u64,
}

fn int8() -> ColType {
    ColType { kind: TypeKind::Int8, modifier: -1 }
}

fn column(name: &str, ty: ColType) -> ColumnDef {
    ColumnDef { name: name.to_owned(), ty, not_null: true, default: None }
}

fn new_table(name: &str, columns: &[&str], filler: bool) -> NewTable {
    let mut all: Vec<ColumnDef> = columns.iter().map(|c| column(c, int8())).collect();
    if filler {
        all.push(column("filler", ColType { kind: TypeKind::Text, modifier: -1 }));
    }
    NewTable {
        schema: "public".to_owned(),
        name: name.to_owned(),
        owner: ObjId(dict::SUPERUSER_OBJ.0),
        columns: all,
        indexes: vec![NewIndex {
            name: format!("{name}_pkey"),
            columns: vec![0],
            unique: true,
            primary: true,
            constraint: Some(format!("{name}_pkey")),
        }],
    }
}

/// Makes and fills the tables.
///
/// # Errors
/// Those of the kernel.
pub async fn set_up(ctx: &Ctx, instance: &Arc<Instance>, accounts: i64) -> Result<()> {
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    dict::create_table(ctx, &txn, new_table("account", &["id", "balance"], true)).await?;
    dict::create_table(ctx, &txn, new_table("ledger", &["id", "src", "dst", "amount"], false))
        .await?;
    txn.commit(ctx).await?;
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    let def = find(ctx, &txn, "account").await?;
    for id in 0..accounts {
        let filler = "x".repeat(usize::try_from(id % 37).expect("small"));
        let row = def.encode(&[Datum::Int8(id), Datum::Int8(START_BALANCE), Datum::Text(&filler)]);
        table::insert(ctx, &txn, &def, &row).await?;
    }
    txn.commit(ctx).await?;
    Ok(())
}

/// The definition of one of the bank's tables.
///
/// # Errors
/// Those of the kernel; the table is not there.
pub async fn find(ctx: &Ctx, txn: &Arc<Transaction>, name: &str) -> Result<Arc<TableDef>> {
    dict::table(ctx, txn, "public", name)
        .await?
        .ok_or_else(|| Error::UndefinedObject(name.to_owned()))
}

struct Account {
    rowid: Rowid,
    row: Vec<u8>,
    balance: i64,
}

async fn read_account(
    ctx: &Ctx,
    def: &TableDef,
    snap: &Snapshot,
    id: i64,
) -> Result<Option<Account>> {
    let mut key = Vec::new();
    encode_key(&[Datum::Int8(id)], &mut key);
    let mut row = Vec::new();
    let index = def.primary_key().expect("account has a primary key");
    let Some(rowid) = table::index_lookup(ctx, def, index, &key, snap, &mut row).await? else {
        return Ok(None);
    };
    let Datum::Int8(balance) = RowView::new(&def.types, &row).get(1) else {
        return Err(Error::Invariant("a balance is a number".to_owned()));
    };
    Ok(Some(Account { rowid, row, balance }))
}

async fn add(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    id: i64,
    amount: i64,
    longer: &str,
) -> Result<()> {
    loop {
        let snap = txn.snapshot(ctx).await?;
        let account = read_account(ctx, def, &snap, id).await?;
        let account = account.ok_or_else(|| Error::UndefinedObject(format!("account {id}")))?;
        let Account { rowid, row, balance } = account;
        let new =
            def.encode(&[Datum::Int8(id), Datum::Int8(balance + amount), Datum::Text(longer)]);
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

/// One transfer, its outcome noted in `ledger`.
///
/// # Errors
/// Kernel errors other than those a client must expect.
pub async fn transfer(
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
        add(ctx, &txn, &accounts, from, -amount, filler).await?;
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
        add(ctx, &txn, &accounts, to, amount, filler).await
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

/// Sum of all balances as of one snapshot.
///
/// # Errors
/// Those of the kernel.
pub async fn total(ctx: &Ctx, instance: &Arc<Instance>) -> Result<i64> {
    let txn = instance.begin(ctx, Isolation::RepeatableRead);
    let def = find(ctx, &txn, "account").await?;
    let snap = txn.snapshot(ctx).await?;
    let mut scan = table::scan(ctx, &def, &snap).await?;
    let mut sum = 0;
    let types = def.types.clone();
    loop {
        let more = scan
            .next_block(ctx, |_, row| {
                if let Datum::Int8(balance) = RowView::new(&types, row).get(1) {
                    sum += balance;
                }
            })
            .await?;
        if !more {
            break;
        }
    }
    txn.rollback(ctx).await?;
    Ok(sum)
}
