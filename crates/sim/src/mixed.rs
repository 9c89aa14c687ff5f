//! Items that come, change and go, with a history row for each change in the same transaction.
//!
//! Every value is given once. A history row says which value its change put in the place of which
//! (0: there was none); so at any snapshot the history of an item is one chain, and its end is what
//! the item shows. A lost update, a dirty or torn read, half a transaction or an index entry too
//! many
//! breaks a chain. The clients do all the kernel offers: both isolation levels, savepoints, whole
//! rollbacks, deletes and re-inserts of the same keys, rows long enough to move and to chain, row
//! locks of all kinds, sequence values.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use block::Rowid;
use block::bytes::ByteList;
use env::{BoxFuture, Env};
use kernel::dict::{self, IndexKind, NewIndex, NewSequence, TableDef};
use kernel::instance::Instance;
use kernel::row::{Datum, RowView};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Transaction};
use kernel::{Error, Result, seq};
use observe::{Ctx, WaitEvent};
use parking_lot::Mutex;

use crate::load::{Counts, Load, is_disk_trouble};
use crate::tables::{all_rows, by_key, find, index, indexes_agree, int, numbers};

/// How the mixed load differs from run to run.
#[derive(Clone, Debug)]
pub struct Mix {
    /// Items: few make clients meet.
    pub items: i64,
    /// Lengths a filler may have; the value chooses one.
    pub fillers: Vec<usize>,
    /// Of a hundred transactions, so many are REPEATABLE READ.
    pub repeatable: u64,
    /// Of a hundred pieces of work, so many look at everything.
    pub looks: u64,
    /// Values an instance takes from the sequence at once.
    pub sequence_cache: i64,
}

impl Default for Mix {
    fn default() -> Mix {
        Mix { items: 12, fillers: vec![5, 60, 900], repeatable: 30, looks: 2, sequence_cache: 5 }
    }
}

/// One change: the value it gave (for a delete: its number), the item, the value it replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Step {
    value: i64,
    item: i64,
    prev: i64,
    gone: bool,
}

/// What the clients know.
#[derive(Default)]
struct Known {
    /// In the order of the answers.
    acknowledged: Vec<Step>,
    unknown: BTreeMap<i64, Vec<Step>>,
    refused: BTreeSet<i64>,
    tickets: BTreeSet<i64>,
    transactions: usize,
    counts: Counts,
}

/// See the module.
pub struct Mixed {
    mix: Mix,
    next_value: AtomicI64,
    known: Mutex<Known>,
}

/// What a transaction has done so far, as its client knows it.
#[derive(Default)]
struct Own {
    steps: Vec<Step>,
    taken_back: Vec<Step>,
}

impl Own {
    fn take_back(&mut self, from: usize) {
        self.taken_back.extend(self.steps.drain(from..));
    }
}

/// One change of an item that a client wants.
#[derive(Clone, Copy)]
struct Wish {
    item: i64,
    delete: bool,
    wait: LockWait,
}

/// What one change of an item came to.
enum Tried {
    Done,
    /// Another client was faster: look again.
    Again(&'static str),
}

const VALUE: usize = 1;
const FILLER: usize = 3;
/// Items beyond the others that are made in batches.
const BATCH_ITEMS: i64 = 60;
/// Looks again before a client that gets nowhere is called stuck.
const TRIES_MAX: u32 = 2000;

fn pick(env: &Env, n: u64) -> u64 {
    env.random() % n
}

impl Mixed {
    #[must_use]
    pub fn new(mix: Mix) -> Mixed {
        Mixed { mix, next_value: AtomicI64::new(1), known: Mutex::default() }
    }

    fn filler(&self, value: i64) -> String {
        let n = value.unsigned_abs().wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
        let lengths = &self.mix.fillers;
        let length = lengths[usize::try_from(n).expect("31 bits") % lengths.len()];
        let text = format!("{value}.");
        text.chars().cycle().take(length).collect()
    }

    fn row(&self, def: &TableDef, item: i64, value: i64) -> Vec<u8> {
        let filler = self.filler(value);
        let group = value % 5;
        def.encode(&[
            Datum::Int8(item),
            Datum::Int8(value),
            Datum::Int8(group),
            Datum::Text(&filler),
        ])
    }

    fn check_row(&self, def: &TableDef, row: &[u8]) {
        let value = int(def, row, VALUE);
        let Datum::Text(filler) = RowView::new(&def.types, row).get(FILLER) else {
            panic!("a filler is a text");
        };
        assert!(filler == self.filler(value), "the row of value {value} has another's filler");
    }

    /// Changes an item, or makes or deletes it, with its history row.
    async fn change(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        own: &mut Own,
        wish: Wish,
    ) -> Result<()> {
        let before = txn.savepoint();
        let mut met = Vec::new();
        for _ in 0..TRIES_MAX {
            match self.try_change(ctx, txn, own, wish).await {
                Ok(Tried::Done) => return Ok(()),
                Ok(Tried::Again(why)) => met.push(why),
                // Another client has made the item since the snapshot.
                Err(Error::UniqueViolation { .. })
                    if txn.isolation() == Isolation::ReadCommitted =>
                {
                    txn.rollback_to(ctx, before).await?;
                    met.push("another's key");
                }
                Err(e) => return Err(e),
            }
        }
        panic!("item {}: no snapshot shows what stands in the way: {met:?}", wish.item);
    }

    async fn try_change(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        own: &mut Own,
        Wish { item, delete, wait }: Wish,
    ) -> Result<Tried> {
        let items = find(ctx, txn, "item").await?;
        let snap = txn.snapshot(ctx).await?;
        let key = items.primary_key().expect("a primary key");
        let found = by_key(ctx, &items, key, &snap, item).await?;
        let value = self.next_value.fetch_add(1, Ordering::SeqCst);
        let new = self.row(&items, item, value);
        let (prev, change) = match found {
            None => {
                table::insert(ctx, txn, &items, &new).await?;
                (0, Change::Done)
            }
            Some((rowid, mut row)) => {
                self.check_row(&items, &row);
                // Half of the changes take the row as it stands.
                let mut stands = Vec::new();
                let held = match value % 2 {
                    0 => table::hold(ctx, txn, &items, rowid, Some(wait), &mut stands).await?,
                    _ => None,
                };
                if held.is_some() {
                    row = stands;
                    self.check_row(&items, &row);
                    assert_eq!(int(&items, &row, 0), item, "another row at the address of one");
                }
                let done = match (held, delete) {
                    (Some(held), true) => {
                        table::delete_held(ctx, txn, &items, held, &snap, &row, wait).await?
                    }
                    (Some(held), false) => {
                        table::update_held(ctx, txn, &items, held, &snap, &row, &new, wait).await?
                    }
                    (None, true) => {
                        table::delete(ctx, txn, &items, rowid, &snap, &row, wait).await?
                    }
                    (None, false) => {
                        table::update(ctx, txn, &items, rowid, &snap, &row, &new, wait).await?
                    }
                };
                (int(&items, &row, VALUE), done)
            }
        };
        match change {
            Change::Done => {}
            Change::Skipped => return Ok(Tried::Done),
            Change::Newer(_) | Change::Gone => {
                let repeatable = txn.isolation() == Isolation::RepeatableRead;
                assert!(!repeatable, "item {item}: REPEATABLE READ is told {change:?}");
                let gone = matches!(change, Change::Gone);
                return Ok(Tried::Again(if gone { "gone" } else { "a newer row" }));
            }
        }
        let gone = delete && prev != 0;
        let history = find(ctx, txn, "history").await?;
        let row = history.encode(&[
            Datum::Int8(value),
            Datum::Int8(item),
            Datum::Int8(prev),
            Datum::Int8(i64::from(gone)),
        ]);
        own.steps.push(Step { value, item, prev, gone });
        table::insert(ctx, txn, &history, &row).await?;
        Ok(Tried::Done)
    }

    /// Makes many items at once, those of a wider range that are not there, with their history.
    async fn batch(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        own: &mut Own,
        env: &Env,
    ) -> Result<()> {
        let items = find(ctx, txn, "item").await?;
        let history = find(ctx, txn, "history").await?;
        let snap = txn.snapshot(ctx).await?;
        let key = items.primary_key().expect("a primary key");
        let (mut new, mut past) = (ByteList::new(), ByteList::new());
        let steps_before = own.steps.len();
        let (step, range) = (1 + pick(env, 3), self.mix.items + BATCH_ITEMS);
        let mut item = i64::try_from(pick(env, range.unsigned_abs())).expect("few");
        while item < range {
            if by_key(ctx, &items, key, &snap, item).await?.is_none() {
                let value = self.next_value.fetch_add(1, Ordering::SeqCst);
                new.push(&self.row(&items, item, value));
                let row = [value, item, 0, 0].map(Datum::Int8);
                past.push(&history.encode(&row));
                own.steps.push(Step { value, item, prev: 0, gone: false });
            }
            item += i64::try_from(step).expect("small");
        }
        let before = txn.savepoint();
        let mut rowids = Vec::new();
        match table::insert_many(ctx, txn, &items, &new, &mut rowids).await {
            // Another client has made one of them since the snapshot.
            Err(Error::UniqueViolation { .. }) if txn.isolation() == Isolation::ReadCommitted => {
                own.take_back(steps_before);
                return txn.rollback_to(ctx, before).await;
            }
            done => done?,
        }
        table::insert_many(ctx, txn, &history, &past, &mut rowids).await
    }

    /// Locks an item without changing it.
    async fn lock(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        item: i64,
        wait: LockWait,
    ) -> Result<()> {
        for _ in 0..TRIES_MAX {
            let items = find(ctx, txn, "item").await?;
            let snap = txn.snapshot(ctx).await?;
            let key = items.primary_key().expect("a primary key");
            let Some((rowid, _)) = by_key(ctx, &items, key, &snap, item).await? else {
                return Ok(());
            };
            match table::lock(ctx, txn, &items, rowid, &snap, wait).await? {
                Change::Done | Change::Skipped => return Ok(()),
                Change::Newer(row) => self.check_row(&items, &row),
                Change::Gone => {}
            }
        }
        panic!("item {item}: no snapshot shows what stands in the way of a lock");
    }

    /// Rolls a statement's failure back, or hands the error on if it ends the transaction.
    async fn after(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        own: &mut Own,
        before: (kernel::txn::Savepoint, usize),
        outcome: Result<()>,
    ) -> Result<()> {
        match outcome {
            Ok(()) => Ok(()),
            Err(e) => {
                own.take_back(before.1);
                txn.rollback_to(ctx, before.0).await?;
                match e {
                    Error::RowLocked | Error::TableLocked { .. } | Error::LockTimeout => {
                        self.known.lock().counts.locked += 1;
                        Ok(())
                    }
                    e => Err(e),
                }
            }
        }
    }

    async fn statements(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        own: &mut Own,
        env: &Env,
    ) -> Result<()> {
        for _ in 0..=pick(env, 4) {
            // Now and then one of those that come in batches.
            let range = if pick(env, 6) == 0 { BATCH_ITEMS } else { 0 } + self.mix.items;
            let item = i64::try_from(pick(env, range.unsigned_abs())).expect("few");
            let wait = match pick(env, 6) {
                0 => LockWait::NoWait,
                1 => LockWait::SkipLocked,
                2 => LockWait::Timeout(1 + pick(env, 3000)),
                _ => LockWait::Wait,
            };
            let before = (txn.savepoint(), own.steps.len());
            let outcome = match pick(env, 21) {
                0..=10 => self.change(ctx, txn, own, Wish { item, delete: false, wait }).await,
                11..=14 => self.change(ctx, txn, own, Wish { item, delete: true, wait }).await,
                15..=17 => self.lock(ctx, txn, item, wait).await,
                18 => self.ticket(ctx, txn).await,
                19 => self.batch(ctx, txn, own, env).await,
                _ => {
                    let pause = Duration::from_micros(pick(env, 2000));
                    ctx.sleep(WaitEvent::SmonTimer, pause).await;
                    Ok(())
                }
            };
            self.after(ctx, txn, own, before, outcome).await?;
            if pick(env, 5) == 0 {
                own.take_back(before.1);
                txn.rollback_to(ctx, before.0).await?;
            }
        }
        Ok(())
    }

    async fn ticket(&self, ctx: &Ctx, txn: &Arc<Transaction>) -> Result<()> {
        let def = dict::sequence(ctx, txn, "public", "ticket").await?.expect("made at set-up");
        let value = seq::nextval(ctx, txn, &def).await?;
        assert!(self.known.lock().tickets.insert(value), "ticket {value} is given twice");
        Ok(())
    }

    async fn transaction(&self, ctx: &Ctx, instance: &Arc<Instance>) {
        let env = &instance.core.env;
        let repeatable = pick(env, 100) < self.mix.repeatable;
        let level = if repeatable { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let txn = instance.begin(ctx, level);
        let mut own = Own::default();
        let done = self.statements(ctx, &txn, &mut own, env).await;
        let give_up = pick(env, 8) == 0;
        if done.is_err() || give_up {
            let all = std::mem::take(&mut own);
            self.known.lock().refuse(all.steps.iter().chain(&all.taken_back));
            match txn.rollback(ctx).await {
                Ok(()) => {}
                Err(e) if is_disk_trouble(&e) => self.known.lock().counts.disk_errors += 1,
                Err(e) => panic!("instance {}: rollback: {e}", instance.me),
            }
            let mut known = self.known.lock();
            known.counts.refused += 1;
            match done {
                Ok(()) => {}
                Err(Error::Deadlock) => known.counts.deadlocks += 1,
                Err(Error::Serialization(_)) => known.counts.conflicts += 1,
                Err(Error::UniqueViolation { .. }) if repeatable => known.counts.conflicts += 1,
                Err(Error::SnapshotTooOld(_)) => known.counts.too_old += 1,
                Err(Error::DiskFull { .. }) => known.counts.full += 1,
                Err(e) if is_disk_trouble(&e) => known.counts.disk_errors += 1,
                Err(e) => panic!("instance {}: {e}", instance.me),
            }
            return;
        }
        let number = {
            let mut known = self.known.lock();
            known.refuse(own.taken_back.iter());
            known.transactions += 1;
            let number = i64::try_from(known.transactions).expect("few");
            known.unknown.insert(number, own.steps.clone());
            number
        };
        match txn.commit(ctx).await {
            Ok(_) => {
                let mut known = self.known.lock();
                known.unknown.remove(&number);
                known.acknowledged.extend(own.steps);
                known.counts.acknowledged += 1;
            }
            Err(e) => panic!("instance {}: commit: {e}", instance.me),
        }
    }

    /// Everything, at one snapshot. `slowly`: with pauses, so that much of it must be undone.
    async fn look(&self, ctx: &Ctx, instance: &Arc<Instance>, slowly: bool) -> Result<()> {
        let env = &instance.core.env;
        let txn = instance.begin(ctx, Isolation::RepeatableRead);
        let seen = self.look_in(ctx, &txn, env, slowly).await;
        txn.rollback(ctx).await?;
        seen
    }

    async fn look_in(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
        env: &Env,
        slowly: bool,
    ) -> Result<()> {
        let pause = || async {
            if slowly {
                let time = Duration::from_micros(pick(env, 20_000));
                ctx.sleep(WaitEvent::SmonTimer, time).await;
            }
        };
        let answered = self.known.lock().acknowledged.len();
        let items = find(ctx, txn, "item").await?;
        let history = find(ctx, txn, "history").await?;
        let snap = txn.snapshot(ctx).await?;
        pause().await;
        let rows = all_rows(ctx, &items, &snap).await?;
        pause().await;
        let past = all_rows(ctx, &history, &snap).await?;
        pause().await;
        indexes_agree(ctx, &items, &snap, &rows).await?;
        indexes_agree(ctx, &history, &snap, &past).await?;
        for row in rows.values() {
            self.check_row(&items, row);
        }
        let steps: BTreeMap<i64, Step> = past
            .values()
            .map(|row| {
                let n = |column| int(&history, row, column);
                (n(0), Step { value: n(0), item: n(1), prev: n(2), gone: n(3) != 0 })
            })
            .collect();
        chains_end_in_items(&items, &rows, &steps);
        self.known.lock().compare(&steps, answered);
        Ok(())
    }
}

/// Every item is the end of its chain.
fn chains_end_in_items(
    items: &TableDef,
    rows: &BTreeMap<Rowid, Vec<u8>>,
    steps: &BTreeMap<i64, Step>,
) {
    let mut replaced = BTreeMap::new();
    for step in steps.values().filter(|s| s.prev != 0) {
        let before = steps.get(&step.prev);
        let right = before.is_some_and(|b| b.item == step.item && !b.gone);
        assert!(right, "{step:?} replaces what is not there: {before:?}");
        let twice = replaced.insert(step.prev, step);
        assert!(twice.is_none(), "{step:?} and {twice:?} replace the same value");
    }
    let ends = steps.values().filter(|s| !s.gone && !replaced.contains_key(&s.value));
    let mut expected = BTreeMap::new();
    for end in ends {
        let twice = expected.insert(end.item, end.value);
        assert!(twice.is_none(), "item {} has two ends: {twice:?}, {}", end.item, end.value);
    }
    let mut found = BTreeMap::new();
    for row in rows.values() {
        let twice = found.insert(int(items, row, 0), int(items, row, VALUE));
        assert!(twice.is_none(), "item {} is there twice", int(items, row, 0));
    }
    assert!(found == expected, "items {found:?}, by their history {expected:?}");
}

impl Known {
    fn refuse<'a>(&mut self, steps: impl Iterator<Item = &'a Step>) {
        self.refused.extend(steps.map(|s| s.value));
    }

    /// The first `answered` acknowledged changes are there, none that was taken back is, and a
    /// transaction of unknown outcome is there as a whole or not at all.
    fn compare(&self, steps: &BTreeMap<i64, Step>, answered: usize) {
        for step in &self.acknowledged[..answered] {
            assert!(steps.get(&step.value) == Some(step), "acknowledged {step:?} is lost");
        }
        for value in steps.keys() {
            assert!(!self.refused.contains(value), "value {value} was taken back, but is there");
        }
        for (number, own) in &self.unknown {
            let there = own.iter().filter(|s| steps.contains_key(&s.value)).count();
            let whole = there == 0 || there == own.len();
            assert!(whole, "transaction {number}: {there} of {} changes are there", own.len());
        }
    }
}

impl Load for Mixed {
    fn set_up<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(async move {
            let txn = at.begin(ctx, Isolation::ReadCommitted);
            let mut items = numbers("item", &["id", "value", "grp"], true);
            items.indexes.push(index("item_value", 1, true, false));
            items.indexes.push(index("item_grp", 2, false, false));
            let bits = index("item_bits", 2, false, false);
            items.indexes.push(NewIndex { kind: IndexKind::Bitmap, ..bits });
            dict::create_table(ctx, &txn, items).await?;
            let history = numbers("history", &["value", "item", "prev", "gone"], false);
            dict::create_table(ctx, &txn, history).await?;
            let ticket = NewSequence {
                schema: "public".to_owned(),
                name: "ticket".to_owned(),
                owner: dict::SUPERUSER_OBJ,
                kind: kernel::row::TypeKind::Int8,
                start: 1,
                increment: 1,
                min: 1,
                max: i64::MAX,
                cache: self.mix.sequence_cache,
                cycle: false,
                order: false,
                table: None,
            };
            dict::create_sequence(ctx, &txn, ticket).await?;
            txn.commit(ctx).await?;
            Ok(())
        })
    }

    fn step<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>, _n: u8) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            if pick(&at.core.env, 100) >= self.mix.looks {
                return self.transaction(ctx, at).await;
            }
            let looked = self.look(ctx, at, true).await;
            let mut known = self.known.lock();
            known.counts.looks += 1;
            match looked {
                Ok(()) => {}
                Err(Error::SnapshotTooOld(_)) => known.counts.too_old += 1,
                Err(e) => panic!("instance {}: look: {e}", at.me),
            }
        })
    }

    fn check<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.look(ctx, at, false))
    }

    fn counts(&self) -> Counts {
        let known = self.known.lock();
        Counts { unknown: known.unknown.len(), ..known.counts }
    }
}
