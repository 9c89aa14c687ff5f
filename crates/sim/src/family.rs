//! Families: parents, and children of two tables that refer to them, one with an index on the key
//! and one without. No committed snapshot of any instance may show an orphan.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use block::{ObjId, Rowid};
use env::BoxFuture;
use kernel::dict::{self, ForeignKeyDef, KeyAction, TableDef};
use kernel::instance::Instance;
use kernel::row::Datum;
use kernel::table::foreign::{self, KeyEvent};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Snapshot, Transaction};
use kernel::{Error, Result};
use observe::Ctx;
use parking_lot::Mutex;

use crate::load::{Counts, Load, is_disk_trouble};
use crate::tables::{all_rows, by_key, find, index, indexes_agree, int, numbers};

/// The tables of children: column 1 refers to the parent's column 0.
const CHILDREN: [&str; 2] = ["child", "stray"];

/// See the module.
pub struct Family {
    /// Parents come and go under so many numbers.
    parents: i64,
    next_id: AtomicI64,
    counts: Mutex<Counts>,
}

/// What a client does in one statement.
#[derive(Clone, Copy, Debug)]
enum Deed {
    AddParent(i64),
    DropParent(i64),
    MoveParent(i64, i64),
    AddChild(&'static str, i64),
    DropChild(&'static str, i64),
    MoveChild(&'static str, i64, i64),
}

/// Whether a statement was done, or refused as it should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Met {
    Done,
    Refused,
}

/// A row as a snapshot shows it.
struct Seen {
    rowid: Rowid,
    row: Vec<u8>,
    snap: Snapshot,
}

/// A row of `def` with this number in `column`.
async fn pick(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    column: usize,
    number: i64,
) -> Result<Option<Seen>> {
    let snap = txn.snapshot(ctx).await?;
    let found = if column == 0 {
        let index = def.primary_key().expect("a primary key");
        by_key(ctx, def, index, &snap, number).await?
    } else {
        let rows = all_rows(ctx, def, &snap).await?;
        rows.into_iter().find(|(_, row)| int(def, row, column) == number)
    };
    Ok(found.map(|(rowid, row)| Seen { rowid, row, snap }))
}

/// Changes a row that a snapshot has shown; `None` deletes it.
async fn change(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    def: &TableDef,
    seen: Seen,
    new: Option<&[u8]>,
) -> Result<Met> {
    let (Seen { rowid, mut row, mut snap }, wait) = (seen, LockWait::Wait);
    loop {
        let changed = match new {
            Some(new) => table::update(ctx, txn, def, rowid, &snap, &row, new, wait).await?,
            None => table::delete(ctx, txn, def, rowid, &snap, &row, wait).await?,
        };
        match changed {
            Change::Done => return Ok(Met::Done),
            Change::Newer(newer) => (row, snap) = (newer, txn.snapshot(ctx).await?),
            Change::Gone | Change::Skipped => return Ok(Met::Refused),
        }
    }
}

/// The end of a statement: what its rows have put off holds, or the statement is refused.
async fn settle(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Met> {
    for pending in foreign::take_pending_keys(txn) {
        let key = &pending.key;
        let holds = match &pending.event {
            KeyEvent::Child { rowid } => {
                let child = dict::table_by_obj(ctx, txn, key.table).await?.expect("the child");
                let (snap, mut row) = (txn.newest_snapshot()?, Vec::new());
                if table::fetch(ctx, &child, *rowid, &snap, &mut row).await? {
                    let values = foreign::values_of(&child.types, &key.columns, &row);
                    foreign::has_parent(ctx, txn, key, &values).await?
                } else {
                    true
                }
            }
            KeyEvent::Parent { old, .. } => {
                foreign::has_parent(ctx, txn, key, old).await?
                    || foreign::children(ctx, txn, key, &[old], 1).await?.is_empty()
            }
        };
        if !holds {
            return Ok(Met::Refused);
        }
    }
    Ok(Met::Done)
}

impl Family {
    #[must_use]
    pub fn new(parents: i64) -> Family {
        Family { parents, next_id: AtomicI64::new(1), counts: Mutex::default() }
    }

    async fn fill(&self, ctx: &Ctx, instance: &Arc<Instance>) -> Result<()> {
        let txn = instance.begin(ctx, Isolation::ReadCommitted);
        let parent = dict::create_table(ctx, &txn, numbers("parent", &["id"], false)).await?;
        for id in 0..self.parents {
            table::insert(ctx, &txn, &parent, &parent.encode(&[Datum::Int8(id)])).await?;
        }
        for name in CHILDREN {
            let mut new = numbers(name, &["id", "parent"], false);
            if name == "child" {
                new.indexes.push(index("child_parent", 1, false, false));
            }
            let child = dict::create_table(ctx, &txn, new).await?;
            let parent = find(ctx, &txn, "parent").await?;
            let key = ForeignKeyDef {
                obj: ObjId(0),
                name: format!("{name}_fkey"),
                table: child.obj,
                columns: vec![1],
                parent: parent.obj,
                index: parent.primary_key().expect("a primary key").obj,
                parts: vec![0],
                on_delete: KeyAction::NoAction,
                on_update: KeyAction::NoAction,
                full: false,
                deferrable: false,
                deferred: false,
                validated: true,
            };
            dict::add_foreign_key(ctx, &txn, &child, &parent, key).await?;
        }
        txn.commit(ctx).await?;
        Ok(())
    }

    fn deed(&self, random: &mut impl FnMut(u64) -> i64) -> Deed {
        let mut parent = || random(self.parents.unsigned_abs());
        let (a, b) = (parent(), parent());
        let table = CHILDREN[usize::try_from(random(2)).expect("small")];
        match random(10) {
            0 | 1 => Deed::AddParent(a),
            2 | 3 => Deed::DropParent(a),
            4 => Deed::MoveParent(a, b),
            5 | 6 => Deed::AddChild(table, a),
            7 | 8 => Deed::DropChild(table, a),
            _ => Deed::MoveChild(table, a, b),
        }
    }

    async fn act(&self, ctx: &Ctx, txn: &Arc<Transaction>, deed: Deed) -> Result<Met> {
        let parent = find(ctx, txn, "parent").await?;
        let numbers = |def: &TableDef, all: &[i64]| {
            def.encode(&all.iter().map(|n| Datum::Int8(*n)).collect::<Vec<_>>())
        };
        match deed {
            Deed::AddParent(id) => {
                match table::insert(ctx, txn, &parent, &numbers(&parent, &[id])).await {
                    Ok(_) => Ok(Met::Done),
                    Err(Error::UniqueViolation { .. }) => Ok(Met::Refused),
                    Err(e) => Err(e),
                }
            }
            Deed::DropParent(id) => match pick(ctx, txn, &parent, 0, id).await? {
                Some(row) => change(ctx, txn, &parent, row, None).await,
                None => Ok(Met::Refused),
            },
            Deed::MoveParent(from, to) => {
                let Some(row) = pick(ctx, txn, &parent, 0, from).await? else {
                    return Ok(Met::Refused);
                };
                match change(ctx, txn, &parent, row, Some(&numbers(&parent, &[to]))).await {
                    Err(Error::UniqueViolation { .. }) => Ok(Met::Refused),
                    done => done,
                }
            }
            Deed::AddChild(table, of) => {
                let child = find(ctx, txn, table).await?;
                let id = self.next_id.fetch_add(1, Ordering::SeqCst);
                table::insert(ctx, txn, &child, &numbers(&child, &[id, of])).await?;
                Ok(Met::Done)
            }
            Deed::DropChild(table, of) => {
                let child = find(ctx, txn, table).await?;
                match pick(ctx, txn, &child, 1, of).await? {
                    Some(row) => change(ctx, txn, &child, row, None).await,
                    None => Ok(Met::Refused),
                }
            }
            Deed::MoveChild(table, from, to) => {
                let child = find(ctx, txn, table).await?;
                let Some(row) = pick(ctx, txn, &child, 1, from).await? else {
                    return Ok(Met::Refused);
                };
                let new = numbers(&child, &[int(&child, &row.row, 0), to]);
                change(ctx, txn, &child, row, Some(&new)).await
            }
        }
    }

    /// One statement; what it did is taken back if it is refused.
    async fn statement(&self, ctx: &Ctx, txn: &Arc<Transaction>, deed: Deed) -> Result<()> {
        let before = txn.savepoint();
        let met = match self.act(ctx, txn, deed).await? {
            Met::Done => settle(ctx, txn).await?,
            Met::Refused => Met::Refused,
        };
        if met == Met::Refused {
            self.counts.lock().refused += 1;
            txn.rollback_to(ctx, before).await?;
        }
        Ok(())
    }

    async fn work(&self, ctx: &Ctx, instance: &Arc<Instance>) -> Result<()> {
        let env = instance.core.env.clone();
        let mut random = |n: u64| (env.random() % n).cast_signed();
        if random(6) == 0 {
            return self.look(ctx, instance).await;
        }
        let isolation =
            if random(4) == 0 { Isolation::RepeatableRead } else { Isolation::ReadCommitted };
        let txn = instance.begin(ctx, isolation);
        let mut done = Ok(());
        for _ in 0..=random(4) {
            let deed = self.deed(&mut random);
            done = self.statement(ctx, &txn, deed).await;
            if done.is_err() {
                break;
            }
        }
        match done {
            Ok(()) if random(5) > 0 => {
                txn.commit(ctx).await?;
                self.counts.lock().acknowledged += 1;
                Ok(())
            }
            Ok(()) => txn.rollback(ctx).await,
            Err(e) => {
                txn.rollback(ctx).await?;
                match e {
                    Error::Deadlock => {
                        self.counts.lock().deadlocks += 1;
                        Ok(())
                    }
                    Error::Serialization(_) | Error::SnapshotTooOld(_) => Ok(()),
                    e => Err(e),
                }
            }
        }
    }

    /// No child without its parent, at one snapshot.
    async fn look(&self, ctx: &Ctx, instance: &Arc<Instance>) -> Result<()> {
        let txn = instance.begin(ctx, Isolation::RepeatableRead);
        let seen = self.orphans(ctx, &txn).await;
        txn.rollback(ctx).await?;
        match seen {
            Ok(orphans) => {
                self.counts.lock().looks += 1;
                assert!(orphans.is_empty(), "instance {} sees orphans {orphans:?}", instance.me);
                Ok(())
            }
            Err(Error::SnapshotTooOld(_)) => {
                self.counts.lock().too_old += 1;
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    async fn orphans(
        &self,
        ctx: &Ctx,
        txn: &Arc<Transaction>,
    ) -> Result<Vec<(&'static str, i64, i64)>> {
        let parent = find(ctx, txn, "parent").await?;
        let snap = txn.snapshot(ctx).await?;
        let parents = all_rows(ctx, &parent, &snap).await?;
        let parents: BTreeSet<i64> = parents.values().map(|row| int(&parent, row, 0)).collect();
        let mut orphans = Vec::new();
        for name in CHILDREN {
            let child = find(ctx, txn, name).await?;
            for row in all_rows(ctx, &child, &snap).await?.values() {
                let (id, of) = (int(&child, row, 0), int(&child, row, 1));
                if !parents.contains(&of) {
                    orphans.push((name, id, of));
                }
            }
        }
        Ok(orphans)
    }

    async fn everything(&self, ctx: &Ctx, instance: &Arc<Instance>) -> Result<()> {
        self.look(ctx, instance).await?;
        let txn = instance.begin(ctx, Isolation::RepeatableRead);
        let snap = txn.snapshot(ctx).await?;
        for name in ["parent", "child", "stray"] {
            let def = find(ctx, &txn, name).await?;
            let rows = all_rows(ctx, &def, &snap).await?;
            indexes_agree(ctx, &def, &snap, &rows).await?;
        }
        txn.rollback(ctx).await
    }
}

impl Load for Family {
    fn set_up<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.fill(ctx, at))
    }

    fn step<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>, _: u8) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            match self.work(ctx, at).await {
                Ok(()) => {}
                Err(e) if is_disk_trouble(&e) => self.counts.lock().disk_errors += 1,
                Err(e) => panic!("instance {}: {e}", at.me),
            }
        })
    }

    fn check<'a>(&'a self, ctx: &'a Ctx, at: &'a Arc<Instance>) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.everything(ctx, at))
    }

    fn counts(&self) -> Counts {
        *self.counts.lock()
    }
}
