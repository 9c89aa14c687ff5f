//! Sessions change rows at random; the instance is killed at a random moment and opened again. What
//! was acknowledged is there, what was rolled back or unfinished is not, a commit under way may be
//! either, and every index agrees with its table.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use block::bytes::ByteList;
use env::{Env, Lane};
use observe::Ctx;
use parking_lot::Mutex;

use super::{Change, all_rows, check_indexes, find_table, insert, make_table, row, set};
use crate::dict::TableDef;
use crate::error::Error;
use crate::row::{Datum, RowView};
use crate::table::insert_many;
use crate::testing::TestInstance;
use crate::txn::{Core, Isolation, Transaction};

const SESSIONS: usize = 5;
const IDS: i64 = 60;

/// Rows of one session by id: owner and length of the tag.
type Rows = BTreeMap<i64, (i64, usize)>;

/// What a session knows for certain, kept outside the instance.
#[derive(Default)]
struct Book {
    acknowledged: Rows,
    /// The rows as they are if the commit under way has become durable.
    committing: Option<Rows>,
    commits: u64,
}

struct Worker {
    ctx: Ctx,
    env: Env,
    core: Arc<Core>,
    def: Arc<TableDef>,
    /// Ids of this session: those congruent to it.
    no: i64,
    book: Arc<Mutex<Book>>,
}

impl Worker {
    fn pick(&self, below: u64) -> u64 {
        self.env.random() % below
    }

    fn random_row(&self, id: i64) -> (Vec<u8>, (i64, usize)) {
        let owner = i64::try_from(self.pick(5)).expect("small");
        let long = self.pick(20) == 0;
        let length = usize::try_from(self.pick(if long { 900 } else { 60 })).expect("small") + 8;
        // Unique by its id; long tags make rows move between blocks.
        let tag = format!("{id:08}{}", "x".repeat(length - 8));
        (row(&self.def, id, Some(owner), Some(&tag)), (owner, length))
    }

    /// Inserts all rows of this session that are not there, from a random one on.
    async fn batch(&self, txn: &Arc<Transaction>, rows: &mut Rows) -> Result<(), Error> {
        let mut batch = ByteList::new();
        let first = i64::try_from(self.pick(IDS.unsigned_abs())).expect("small");
        for id in first..IDS {
            let id = id * i64::try_from(SESSIONS).expect("small") + self.no;
            if let Entry::Vacant(place) = rows.entry(id) {
                let (new, value) = self.random_row(id);
                batch.push(&new);
                place.insert(value);
            }
        }
        insert_many(&self.ctx, txn, &self.def, &batch, &mut Vec::new()).await
    }

    /// One random transaction. An error ends the session: the instance is going down.
    async fn transaction(&self) -> Result<(), Error> {
        let mut rows = self.book.lock().acknowledged.clone();
        let txn = Transaction::begin(&self.core, Isolation::ReadCommitted, self.core.current_scn());
        for _ in 0..=self.pick(6) {
            if self.pick(4) == 0 {
                self.batch(&txn, &mut rows).await?;
                continue;
            }
            let id = i64::try_from(self.pick(IDS.unsigned_abs())).expect("small");
            let id = id * i64::try_from(SESSIONS).expect("small") + self.no;
            let (new, value) = self.random_row(id);
            let is_new = !rows.contains_key(&id);
            if is_new {
                insert(&self.ctx, &txn, &self.def, &new).await?;
                rows.insert(id, value);
            } else if self.pick(3) == 0 {
                assert_eq!(set(&self.ctx, &txn, &self.def, id, None).await?, Change::Done);
                rows.remove(&id);
            } else {
                assert_eq!(set(&self.ctx, &txn, &self.def, id, Some(&new)).await?, Change::Done);
                rows.insert(id, value);
            }
        }
        if self.pick(5) == 0 {
            return txn.rollback(&self.ctx).await;
        }
        self.book.lock().committing = Some(rows.clone());
        txn.commit(&self.ctx).await?;
        let mut book = self.book.lock();
        book.acknowledged = rows;
        book.committing = None;
        book.commits += 1;
        Ok(())
    }
}

fn start(db: &TestInstance, def: &Arc<TableDef>, books: &[Arc<Mutex<Book>>]) {
    for (no, book) in books.iter().enumerate() {
        let worker = Worker {
            ctx: db.session("w"),
            env: db.env.clone(),
            core: db.core.clone(),
            def: def.clone(),
            no: i64::try_from(no).expect("small"),
            book: book.clone(),
        };
        let _ = db.env.spawn_task("w", Lane::Background, async move {
            loop {
                worker.transaction().await.expect("a transaction");
            }
        });
    }
}

async fn rows_of_sessions(ctx: &Ctx, db: &TestInstance, def: &TableDef) -> Vec<Rows> {
    let snap = db.begin().snapshot(ctx).await.expect("snapshot");
    check_indexes(ctx, def, &snap).await;
    let mut found = vec![Rows::new(); SESSIONS];
    for (_, row) in all_rows(ctx, def, &snap).await {
        let view = RowView::new(&def.types, &row);
        let (Datum::Int8(id), Datum::Int8(owner), Datum::Text(tag)) =
            (view.get(0), view.get(1), view.get(2))
        else {
            panic!("a row of another shape")
        };
        let no = usize::try_from(id).expect("not negative") % SESSIONS;
        assert!(found[no].insert(id, (owner, tag.len())).is_none(), "id {id} twice");
    }
    found
}

fn run(seed: u64, crashes: u32) -> u64 {
    let mut db = TestInstance::new(seed, 256);
    let ctx = db.session("main");
    let mut def = db.run(make_table(&ctx, &db));
    let books: Vec<Arc<Mutex<Book>>> = (0..SESSIONS).map(|_| Arc::default()).collect();
    for round in 0..crashes {
        start(&db, &def, &books);
        let micros = 5_000 + db.world.random() % 60_000;
        db.world.run_for(Duration::from_micros(micros));
        db.crash();
        let ctx = db.session("main");
        let (found, def_now) = db.run(async {
            let def = find_table(&ctx, &db).await;
            (rows_of_sessions(&ctx, &db, &def).await, def)
        });
        def = def_now;
        for (no, (book, rows)) in books.iter().zip(found).enumerate() {
            let mut book = book.lock();
            let commit = book.committing.take();
            if commit.as_ref() == Some(&rows) {
                book.acknowledged = rows;
            } else {
                assert_eq!(rows, book.acknowledged, "seed {seed}, crash {round}, session {no}");
            }
        }
    }
    books.iter().map(|book| book.lock().commits).sum()
}

#[test]
fn acknowledged_changes_survive_kills_and_indexes_agree_with_tables() {
    let commits: u64 = (0..3).map(|seed| run(seed, 3)).sum();
    assert!(commits > 200, "only {commits} commits were made");
}
