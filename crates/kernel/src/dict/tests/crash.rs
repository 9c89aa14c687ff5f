//! The dictionary and sequences over crashes, at moments drawn from a seed.
//!
//! Checked after each: every acknowledged table is there with its acknowledged rows, and only whole
//! DDL is; object numbers and sequence values are never used twice (H21); nothing is left in
//! `orphan$`.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use block::ObjId;
use env::Lane;
use observe::Ctx;
use parking_lot::Mutex;

use crate::dict::{self, ColumnDef, NewIndex, NewSequence, NewTable, TableDef};
use crate::error::Result;
use crate::instance::Instance;
use crate::row::{ColType, Datum, TypeKind};
use crate::testing::TestInstance;
use crate::txn::{Isolation, Transaction};
use crate::{seq, table};

/// What the client was told, and what it may not have been told.
#[derive(Default)]
struct Told {
    values: BTreeSet<i64>,
    /// Tables with their row counts.
    tables: Vec<(String, ObjId, usize)>,
    dropped: Vec<String>,
    /// Of an answer that never came: it may or may not have happened.
    unknown: Option<String>,
}

fn new_table(name: &str) -> NewTable {
    let column = |name: &str, kind| ColumnDef {
        name: name.into(),
        ty: ColType::new(kind),
        not_null: false,
        default: None,
        missing: None,
        comment: None,
        generated: None,
        acl: None,
    };
    NewTable {
        checks: Vec::new(),
        schema: "public".into(),
        name: name.into(),
        owner: dict::SUPERUSER_OBJ,
        columns: vec![column("id", TypeKind::Int8), column("text", TypeKind::Text)],
        indexes: vec![NewIndex {
            kind: Default::default(),
            name: format!("{name}_pkey"),
            columns: vec![0],
            included: Default::default(),
            orders: Vec::new(),
            unique: true,
            primary: true,
            constraint: Some(format!("{name}_pkey")),
            predicate: None,
            exprs: Vec::new(),
        }],
    }
}

fn begin(instance: &Instance, ctx: &Ctx) -> Arc<Transaction> {
    instance.begin(ctx, Isolation::ReadCommitted)
}

/// Makes a table with rows, now and then rolls back or drops one, and takes values, for ever.
async fn work(instance: Arc<Instance>, told: Arc<Mutex<Told>>, round: u32) -> Result<()> {
    let ctx = instance.user_ctx("work");
    let txn = begin(&instance, &ctx);
    let sequence = dict::sequence(&ctx, &txn, "public", "s").await?.expect("made at first");
    txn.commit(&ctx).await?;
    for i in 0.. {
        let name = format!("t{round}_{i}");
        told.lock().unknown = Some(name.clone());
        let txn = begin(&instance, &ctx);
        let def = dict::create_table(&ctx, &txn, new_table(&name)).await?;
        let mut rows = 0;
        for _ in 0..5 {
            let value = seq::nextval(&ctx, &txn, &sequence).await?;
            assert!(told.lock().values.insert(value), "sequence value {value} came twice");
            let row = def.encode(&[Datum::Int8(value), Datum::Text("row")]);
            table::insert(&ctx, &txn, &def, &row).await?;
            rows += 1;
        }
        if i % 3 == 2 {
            txn.rollback(&ctx).await?;
            continue;
        }
        txn.commit(&ctx).await?;
        told.lock().tables.push((name, def.obj, rows));
        if i % 4 == 3 {
            let (name, _, _) = told.lock().tables[0].clone();
            told.lock().unknown = Some(name.clone());
            let txn = begin(&instance, &ctx);
            if let Some(def) = dict::table(&ctx, &txn, "public", &name).await? {
                dict::drop_table(&ctx, &txn, &def).await?;
            }
            txn.commit(&ctx).await?;
            let mut told = told.lock();
            told.tables.remove(0);
            told.dropped.push(name);
        }
    }
    Ok(())
}

async fn rows(ctx: &Ctx, txn: &Arc<Transaction>, def: &TableDef) -> Result<usize> {
    let snap = txn.snapshot(ctx).await?;
    let mut scan = table::scan(ctx, def, &snap).await?;
    let mut count = 0;
    while scan.next_block(ctx, |_, _| count += 1).await? {}
    let mut by_index = 0;
    let unbounded = std::ops::Bound::Unbounded;
    for index in &def.indexes {
        let direction = table::Direction::Forward;
        let mut scan = table::index_range(ctx, index, unbounded, unbounded, direction, &snap);
        let mut batch = Vec::new();
        while scan.next_batch(ctx, &mut batch).await? {
            by_index += batch.len();
        }
    }
    assert_eq!(count * def.indexes.len(), by_index, "{}: index and table differ", def.name);
    Ok(count)
}

async fn check(instance: &Instance, told: &mut Told) -> Result<()> {
    let ctx = instance.user_ctx("check");
    let txn = begin(instance, &ctx);
    let found = dict::tables(&ctx, &txn).await?;
    let users: Vec<_> = found.iter().filter(|def| def.schema == "public").collect();
    for (name, obj, count) in &told.tables {
        if told.unknown.as_ref() == Some(name) {
            continue;
        }
        let def = users.iter().find(|def| def.name == *name);
        let def = def.unwrap_or_else(|| panic!("acknowledged table {name} is gone"));
        assert_eq!(def.obj, *obj);
        assert_eq!(rows(&ctx, &txn, def).await?, *count, "rows of {name}");
    }
    for def in &users {
        let known = told.tables.iter().any(|(name, _, _)| *name == def.name);
        assert!(known || told.unknown.as_ref() == Some(&def.name), "{} came back", def.name);
        assert!(!told.dropped.contains(&def.name), "{} was dropped", def.name);
        // Whole or not at all.
        assert_eq!((def.columns.len(), def.indexes.len()), (2, 1));
        assert_eq!(rows(&ctx, &txn, def).await?, 5, "rows of {}", def.name);
    }
    // What is there now is the truth for the next round.
    told.tables = users.iter().map(|def| (def.name.clone(), def.obj, 5)).collect();
    told.unknown = None;
    txn.commit(&ctx).await?;
    Ok(())
}

async fn orphans(instance: &Instance) -> Result<usize> {
    let ctx = instance.user_ctx("orphans");
    let txn = begin(instance, &ctx);
    let def = dict::table(&ctx, &txn, dict::SYS, "orphan$").await?.expect("a fixed table");
    rows(&ctx, &txn, &def).await
}

async fn make_sequence(t: &TestInstance) -> Result<()> {
    let ctx = t.session("first");
    let txn = t.begin();
    let new = NewSequence {
        schema: "public".into(),
        name: "s".into(),
        owner: dict::SUPERUSER_OBJ,
        kind: crate::row::TypeKind::Int8,
        start: 1,
        increment: 1,
        min: 1,
        max: i64::MAX,
        cache: 7,
        cycle: false,
        order: false,
        table: None,
    };
    dict::create_sequence(&ctx, &txn, new).await?;
    txn.commit(&ctx).await?;
    Ok(())
}

fn crash_rounds(seed: u64, rounds: u32) {
    let mut t = TestInstance::new(seed, 2048);
    t.run(make_sequence(&t)).expect("a sequence");
    let told = Arc::new(Mutex::new(Told::default()));
    for round in 0..rounds {
        t.crash();
        t.run(check(&t.instance, &mut told.lock())).expect("it can be read");
        let (instance, shared) = (Arc::clone(&t.instance), Arc::clone(&told));
        t.env.spawn_task("work", Lane::Background, async move {
            if let Err(e) = work(instance, shared, round).await {
                panic!("the workload failed: {e}");
            }
        });
        t.world.run_for(Duration::from_micros(20_000 + t.world.random() % 300_000));
    }
    t.crash();
    t.run(check(&t.instance, &mut told.lock())).expect("it can be read");
    t.run(async {
        let mut left = usize::MAX;
        for _ in 0..100 {
            left = orphans(&t.instance).await.expect("it can be read");
            if left == 0 {
                break;
            }
            t.env.sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(left, 0, "segments that belong to nobody were not freed");
    });
    let told = told.lock();
    assert!(told.values.len() > 100 && !told.dropped.is_empty(), "the workload did something");
}

#[test]
fn h21_no_value_and_no_number_twice_and_only_whole_ddl_survives() {
    for seed in 1..=2 {
        crash_rounds(seed, 4);
    }
}
