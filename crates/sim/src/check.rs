//! What must hold at the end, and at every look in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::Rowid;
use kernel::Result;
use kernel::dict::TableDef;
use kernel::instance::Instance;
use kernel::row::{Datum, RowView, encode_key};
use kernel::table;
use kernel::txn::{Isolation, Snapshot};
use observe::Ctx;

use crate::bank::{Ledger, START_BALANCE, find};

async fn all_rows(ctx: &Ctx, def: &TableDef, snap: &Snapshot) -> Result<BTreeMap<Rowid, Vec<i64>>> {
    let mut scan = table::scan(ctx, def, snap).await?;
    let mut rows = BTreeMap::new();
    let types = def.types.clone();
    loop {
        let more = scan
            .next_block(ctx, |rowid, row| {
                let view = RowView::new(&types, row);
                let numbers = (0..types.len()).filter_map(|i| match view.get(i) {
                    Datum::Int8(n) => Some(n),
                    _ => None,
                });
                let old = rows.insert(rowid, numbers.collect::<Vec<i64>>());
                assert!(old.is_none(), "a scan gives row {rowid} twice");
            })
            .await?;
        if !more {
            return Ok(rows);
        }
    }
}

/// Every row is found through the primary key, and nothing else is.
async fn index_agrees(
    ctx: &Ctx,
    def: &TableDef,
    snap: &Snapshot,
    rows: &BTreeMap<Rowid, Vec<i64>>,
) -> Result<()> {
    let index = def.primary_key().expect("a primary key");
    let mut row = Vec::new();
    for (rowid, values) in rows {
        let mut key = Vec::new();
        encode_key(&[Datum::Int8(values[0])], &mut key);
        let found = table::index_lookup(ctx, def, index, &key, snap, &mut row).await?;
        assert!(found == Some(*rowid), "{}: key {} gives {found:?}", def.name, values[0]);
    }
    let all = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let direction = table::Direction::Forward;
    let mut scan = table::index_range(ctx, index, all.0, all.1, direction, snap);
    let mut batch = Vec::new();
    let mut entries = 0;
    while scan.next_batch(ctx, &mut batch).await? {
        for (_, rowid) in &batch {
            assert!(rows.contains_key(rowid), "{}: the index has {rowid}", def.name);
        }
        entries += batch.len();
    }
    assert!(entries == rows.len(), "{}: {entries} entries, {} rows", def.name, rows.len());
    Ok(())
}

/// Compares the database, as `instance` shows it, with what the clients know. All transfers that
/// have ended by now are in `ledger`.
///
/// # Errors
/// Those of the kernel.
///
/// # Panics
/// When something does not hold: the run has found a bug.
pub async fn everything(
    ctx: &Ctx,
    instance: &Arc<Instance>,
    ledger: &Ledger,
    accounts: i64,
) -> Result<()> {
    let txn = instance.begin(ctx, Isolation::RepeatableRead);
    let account = find(ctx, &txn, "account").await?;
    let entry = find(ctx, &txn, "ledger").await?;
    let snap = txn.snapshot(ctx).await?;
    let account_rows = all_rows(ctx, &account, &snap).await?;
    let entries = all_rows(ctx, &entry, &snap).await?;
    index_agrees(ctx, &account, &snap, &account_rows).await?;
    index_agrees(ctx, &entry, &snap, &entries).await?;
    assert!(account_rows.len() as i64 == accounts, "{} accounts", account_rows.len());
    let mut expected: BTreeMap<i64, i64> = (0..accounts).map(|id| (id, START_BALANCE)).collect();
    let mut seen = BTreeMap::new();
    for e in entries.values() {
        let [id, from, to, amount] = e[..] else { panic!("a ledger row has four numbers") };
        seen.insert(id, (from, to, amount));
        *expected.entry(from).or_default() -= amount;
        *expected.entry(to).or_default() += amount;
        assert!(!ledger.refused.contains(&id), "transfer {id} was rolled back, but is there");
    }
    for (id, what) in &ledger.acknowledged {
        assert!(
            seen.get(id) == Some(what),
            "acknowledged transfer {id} is lost: {:?}",
            seen.get(id)
        );
    }
    for row in account_rows.values() {
        let (id, balance) = (row[0], row[1]);
        assert!(expected[&id] == balance, "account {id}: {balance}, ledger says {}", expected[&id]);
    }
    txn.rollback(ctx).await
}
