//! Locks with a name over three instances: definitions, table locks, deadlocks.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use block::ObjId;
use env::Lane;
use env::simulated::SimConfig;
use kernel::dict::{self, AlteredColumn, ColumnDef, NewTable, TableDef};
use kernel::instance::Instance;
use kernel::row::{ColType, Datum, TypeKind, encode_key};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, TmMode, Transaction};
use kernel::{Error, Result};
use observe::{Ctx, SessionKind, Stat, WaitEvent};
use parking_lot::Mutex;
use sim::{Cluster, STUCK, Sizes, plain_table, primary_key};

/// A database with `n` open instances.
fn cluster(seed: u64, n: u8) -> Cluster {
    let mut cluster = Cluster::create(seed, SimConfig::default(), 3, &Sizes::default());
    cluster.settings.push(("db_cache_size", (4 << 20).to_string()));
    for k in 1..=n {
        cluster.start(k);
    }
    cluster
}

fn session(cluster: &Cluster, k: u8) -> (Arc<Instance>, Ctx) {
    let instance = cluster.open[&k].clone();
    let ctx = instance.observer.ctx(SessionKind::User, "test");
    (instance, ctx)
}

fn run<T>(cluster: &Cluster, what: impl Future<Output = T>) -> T {
    cluster.world.block_on_for(STUCK, what).unwrap_or_else(|| {
        cluster.print_alerts();
        panic!("a test hangs")
    })
}

type Outcome<T> = Arc<Mutex<Option<T>>>;

/// Runs a task on an instance; its outcome is there when it has ended.
fn spawn<T: Send + 'static>(
    instance: &Arc<Instance>,
    task: impl Future<Output = T> + Send + 'static,
) -> Outcome<T> {
    let outcome: Outcome<T> = Arc::default();
    let to = outcome.clone();
    instance.core.env.spawn_task("test", Lane::Background, async move {
        let value = task.await;
        *to.lock() = Some(value);
    });
    outcome
}

fn wait<T>(cluster: &Cluster, outcome: &Outcome<T>) -> T {
    let done = || outcome.lock().is_some();
    if !cluster.world.run_until(STUCK, done) {
        cluster.print_alerts();
        for (k, instance) in &cluster.open {
            for line in instance.node.enqueue_lines() {
                println!("instance {k}: {line}");
            }
        }
        panic!("a task hangs");
    }
    outcome.lock().take().expect("it has ended")
}

fn new_table(name: &str) -> NewTable {
    let columns = [("id", TypeKind::Int8), ("n", TypeKind::Int8)];
    plain_table(name, &columns, vec![primary_key(name)])
}

fn begin(instance: &Arc<Instance>, ctx: &Ctx) -> Arc<Transaction> {
    instance.begin(ctx, Isolation::ReadCommitted)
}

async fn find(ctx: &Ctx, txn: &Arc<Transaction>, name: &str) -> Result<Option<Arc<TableDef>>> {
    dict::table(ctx, txn, "public", name).await
}

/// A table with rows (1, 0) … (rows, 0).
async fn make(instance: &Arc<Instance>, ctx: &Ctx, name: &str, rows: i64) -> Result<ObjId> {
    let txn = begin(instance, ctx);
    let def = dict::create_table(ctx, &txn, new_table(name)).await?;
    for id in 1..=rows {
        let row = def.encode(&[Datum::Int8(id), Datum::Int8(0)]);
        table::insert(ctx, &txn, &def, &row).await?;
    }
    txn.commit(ctx).await?;
    Ok(def.obj)
}

/// update … set n = n + 1 where id = …
async fn bump(ctx: &Ctx, txn: &Arc<Transaction>, name: &str, id: i64) -> Result<()> {
    loop {
        let def = find(ctx, txn, name).await?.ok_or(Error::ObjectGone)?;
        let snap = txn.snapshot(ctx).await?;
        let (mut key, mut row) = (Vec::new(), Vec::new());
        encode_key(&[Datum::Int8(id)], &mut key);
        let index = def.primary_key().expect("a primary key");
        let rowid = table::index_lookup(ctx, &def, index, &key, &snap, &mut row).await?;
        let rowid = rowid.ok_or_else(|| Error::UndefinedObject(format!("row {id}")))?;
        let Datum::Int8(n) = kernel::row::RowView::new(&def.types, &row).get(1) else {
            return Err(Error::Invariant("n is a number".to_owned()));
        };
        let new = def.encode(&[Datum::Int8(id), Datum::Int8(n + 1)]);
        match table::update(ctx, txn, &def, rowid, &snap, &row, &new, LockWait::Wait).await {
            Ok(Change::Done) => return Ok(()),
            Ok(Change::Newer(_)) | Err(Error::ObjectGone) => {}
            Ok(change) => return Err(Error::Invariant(format!("{change:?}"))),
            Err(e) => return Err(e),
        }
    }
}

#[test]
fn h19_ddl_on_one_instance_is_seen_by_the_next_statement_on_the_others() {
    let cluster = cluster(1, 3);
    let (one, ctx1) = session(&cluster, 1);
    run(&cluster, make(&one, &ctx1, "t", 3)).expect("a table");
    for k in [2, 3] {
        let (instance, ctx) = session(&cluster, k);
        run(&cluster, async {
            let txn = begin(&instance, &ctx);
            let def = find(&ctx, &txn, "t").await?.expect("made on another instance");
            assert_eq!(def.columns.len(), 2);
            // Cached now: asking again costs nothing.
            assert!(dict::is_current(&txn, def.obj, def.version));
            txn.rollback(&ctx).await
        })
        .expect("it is seen");
    }
    run(&cluster, async {
        let txn = begin(&one, &ctx1);
        let def = find(&ctx1, &txn, "t").await?.expect("a table");
        let ty = ColType::new(TypeKind::Int8);
        let kept =
            |(i, def): (usize, &ColumnDef)| AlteredColumn { from: Some(i), def: def.clone() };
        let mut columns: Vec<AlteredColumn> = def.columns.iter().enumerate().map(kept).collect();
        columns.push(AlteredColumn { from: None, def: ColumnDef::new("added", ty) });
        dict::alter_columns(&ctx1, &txn, &def, columns, false).await?;
        txn.commit(&ctx1).await
    })
    .expect("a column is added");
    for k in [2, 3] {
        let (instance, ctx) = session(&cluster, k);
        run(&cluster, async {
            let txn = begin(&instance, &ctx);
            let def = find(&ctx, &txn, "t").await?.expect("a table");
            assert_eq!(def.columns.len(), 3, "instance {k} has an old definition");
            txn.rollback(&ctx).await
        })
        .expect("it is seen");
    }
    run(&cluster, async {
        let txn = begin(&one, &ctx1);
        let def = find(&ctx1, &txn, "t").await?.expect("a table");
        dict::drop_table(&ctx1, &txn, &def).await?;
        txn.commit(&ctx1).await
    })
    .expect("the table is dropped");
    for k in [1, 2, 3] {
        let (instance, ctx) = session(&cluster, k);
        let found = run(&cluster, async {
            let txn = begin(&instance, &ctx);
            find(&ctx, &txn, "t").await
        });
        assert!(found.expect("a look-up").is_none(), "instance {k} still has the table");
    }
}

/// Says something else of the table.
async fn describe(instance: &Arc<Instance>, ctx: &Ctx, text: &str) -> Result<()> {
    loop {
        let txn = begin(instance, ctx);
        let def = find(ctx, &txn, "t").await?.expect("a table");
        match dict::set_comment(ctx, &txn, &def, None, Some(text)).await {
            Ok(()) => return txn.commit(ctx).await.map(|_| ()),
            Err(Error::ObjectGone) => txn.rollback(ctx).await?,
            Err(e) => return Err(e),
        }
    }
}

#[test]
fn h19_a_definition_whose_right_is_taken_away_while_it_is_read_is_not_kept() {
    for seed in 1..=8 {
        let cluster = cluster(seed, 3);
        let (one, ctx1) = session(&cluster, 1);
        run(&cluster, make(&one, &ctx1, "t", 3)).expect("a table");
        // All look it up all the time, and two change it at once: whoever has just been given the
        // right to keep it is asked for it again.
        let stop = Arc::new(AtomicBool::new(false));
        let readers: Vec<_> = [1, 2, 2, 3, 3]
            .map(|k| {
                let (instance, ctx) = session(&cluster, k);
                let stop = Arc::clone(&stop);
                spawn(&instance.clone(), async move {
                    while !stop.load(Ordering::Relaxed) {
                        let txn = begin(&instance, &ctx);
                        find(&ctx, &txn, "t").await?.expect("a table");
                        txn.rollback(&ctx).await?;
                        instance.core.env.sleep(Duration::from_micros(20)).await;
                    }
                    Ok::<_, Error>(())
                })
            })
            .into();
        for round in 1..=10 {
            let changes: Vec<_> = [1, 3]
                .map(|k| {
                    let (instance, ctx) = session(&cluster, k);
                    spawn(&instance.clone(), async move {
                        for change in 1..=3 {
                            describe(&instance, &ctx, &format!("{k}: {round}.{change}")).await?;
                        }
                        Ok::<_, Error>(())
                    })
                })
                .into();
            for change in &changes {
                wait(&cluster, change).expect("it is changed");
            }
            let told: Vec<_> = [1, 2, 3]
                .map(|k| {
                    let (instance, ctx) = session(&cluster, k);
                    run(&cluster, async {
                        let txn = begin(&instance, &ctx);
                        let def = find(&ctx, &txn, "t").await?.expect("a table");
                        txn.rollback(&ctx).await?;
                        Ok::<_, Error>(def.comment.clone())
                    })
                    .expect("a look-up")
                })
                .into();
            assert!(told.iter().all(|one| one == &told[0]), "old definitions: {told:?} ({seed})");
            assert!(told[0].as_ref().is_some_and(|text| text.contains(&format!(" {round}."))));
        }
        stop.store(true, Ordering::Relaxed);
        for reader in &readers {
            wait(&cluster, reader).expect("look-ups");
        }
    }
}

#[test]
fn a_table_lock_waits_for_the_rows_changed_on_another_instance() {
    let cluster = cluster(2, 3);
    let (one, ctx1) = session(&cluster, 1);
    let (two, ctx2) = session(&cluster, 2);
    let obj = run(&cluster, make(&one, &ctx1, "t", 3)).expect("a table");
    let dml = begin(&two, &ctx2);
    run(&cluster, bump(&ctx2, &dml, "t", 1)).expect("a row is changed");
    // NOWAIT is honoured.
    run(&cluster, async {
        let txn = begin(&one, &ctx1);
        let refused = one.core.lock_table(&ctx1, &txn, obj, TmMode::X, LockWait::NoWait).await;
        assert!(matches!(refused, Err(Error::RowLocked)), "{refused:?}");
        let limit = LockWait::Timeout(30_000);
        let late = one.core.lock_table(&ctx1, &txn, obj, TmMode::X, limit).await;
        assert!(matches!(late, Err(Error::LockTimeout)), "{late:?}");
        txn.rollback(&ctx1).await
    })
    .expect("nothing is left of it");
    let ddl = {
        let (one, ctx1) = (one.clone(), ctx1.clone());
        spawn(&one.clone(), async move {
            let txn = begin(&one, &ctx1);
            one.core.lock_table(&ctx1, &txn, obj, TmMode::X, LockWait::Wait).await?;
            Ok::<_, Error>(txn)
        })
    };
    cluster.world.run_for(Duration::from_secs(2));
    assert!(ddl.lock().is_none(), "X was given while another instance's rows were open");
    let shown = one
        .observer
        .sessions()
        .into_iter()
        .any(|s| s.wait.waiting && s.wait.event == Some(WaitEvent::EnqTm));
    assert!(shown, "the wait has its name");
    run(&cluster, dml.commit(&ctx2)).expect("the rows are committed");
    let ddl = wait(&cluster, &ddl).expect("X is given then");
    // And the other way round: DML waits for X elsewhere, here on a third instance too.
    let dml: Vec<_> = [2, 3]
        .map(|k| {
            let (instance, ctx) = session(&cluster, k);
            spawn(&instance.clone(), async move {
                let txn = begin(&instance, &ctx);
                bump(&ctx, &txn, "t", i64::from(k)).await?;
                txn.commit(&ctx).await
            })
        })
        .into();
    cluster.world.run_for(Duration::from_secs(2));
    assert!(dml.iter().all(|d| d.lock().is_none()), "rows were changed under another's X");
    run(&cluster, ddl.commit(&ctx1)).expect("X is given back");
    for d in &dml {
        wait(&cluster, d).expect("the rows are changed then");
    }
}

#[test]
fn table_locks_within_the_mode_an_instance_has_cost_no_message() {
    let cluster = cluster(3, 3);
    let (two, ctx2) = session(&cluster, 2);
    run(&cluster, make(&two, &ctx2, "t", 3)).expect("a table");
    let one_update = || {
        run(&cluster, async {
            let txn = begin(&two, &ctx2);
            bump(&ctx2, &txn, "t", 1).await?;
            txn.commit(&ctx2).await
        })
        .expect("an update");
    };
    one_update();
    let before = two.observer.stat(Stat::GesMessagesSent);
    for _ in 0..10 {
        one_update();
    }
    assert_eq!(two.observer.stat(Stat::GesMessagesSent), before);
}

#[test]
fn an_instance_alone_sends_nothing_and_tells_a_joiner_what_it_holds() {
    let mut cluster = cluster(4, 1);
    let (one, ctx1) = session(&cluster, 1);
    let obj = run(&cluster, make(&one, &ctx1, "t", 3)).expect("a table");
    let dml = begin(&one, &ctx1);
    run(&cluster, bump(&ctx1, &dml, "t", 1)).expect("a row is changed");
    assert_eq!(one.observer.stat(Stat::GesMessagesSent), 0);
    cluster.start(2);
    let (two, ctx2) = session(&cluster, 2);
    run(&cluster, async {
        let txn = begin(&two, &ctx2);
        let refused = two.core.lock_table(&ctx2, &txn, obj, TmMode::X, LockWait::NoWait).await;
        assert!(matches!(refused, Err(Error::RowLocked)), "{refused:?}");
        dml.commit(&ctx1).await?;
        two.core.lock_table(&ctx2, &txn, obj, TmMode::X, LockWait::NoWait).await?;
        txn.rollback(&ctx2).await
    })
    .expect("what was held before the join counts after it");
}

/// Two transactions that lock what the other has: exactly one is the victim.
fn one_victim(
    cluster: &Cluster,
    first: [(u8, &'static str, i64); 2],
    then: [(&'static str, i64); 2],
) {
    let sides = first.map(|(k, name, id)| {
        let (instance, ctx) = session(cluster, k);
        let txn = begin(&instance, &ctx);
        run(cluster, bump(&ctx, &txn, name, id)).expect("a row of its own");
        (instance, ctx, txn)
    });
    let mut ends = Vec::new();
    for ((instance, ctx, txn), (name, id)) in sides.into_iter().zip(then) {
        ends.push(spawn(&instance, async move {
            match bump(&ctx, &txn, name, id).await {
                Ok(()) => txn.commit(&ctx).await.map(|_| false),
                Err(Error::Deadlock) => txn.rollback(&ctx).await.map(|()| true),
                Err(e) => Err(e),
            }
        }));
    }
    let began = cluster.world.now();
    let victims: Vec<bool> =
        ends.iter().map(|e| wait(cluster, e).expect("committed or rolled back")).collect();
    let victims = victims.iter().filter(|v| **v).count();
    assert_eq!(victims, 1, "victims");
    let took_us = cluster.world.now().since(began);
    assert!(took_us < 3_000_000, "the deadlock stood for {took_us} us");
}

#[test]
fn m5_a_deadlock_over_rows_on_two_instances_has_exactly_one_victim() {
    for seed in 5..8 {
        let cluster = cluster(seed, 3);
        let (one, ctx1) = session(&cluster, 1);
        run(&cluster, make(&one, &ctx1, "t", 3)).expect("a table");
        one_victim(&cluster, [(2, "t", 1), (3, "t", 2)], [("t", 2), ("t", 1)]);
        one_victim(&cluster, [(1, "t", 3), (2, "t", 2)], [("t", 2), ("t", 3)]);
    }
}

#[test]
fn m5_a_deadlock_over_table_locks_has_exactly_one_victim() {
    let cluster = cluster(9, 3);
    let (one, ctx1) = session(&cluster, 1);
    let (two, ctx2) = session(&cluster, 2);
    let obj = run(&cluster, make(&one, &ctx1, "t", 3)).expect("a table");
    let sides = [(one, ctx1, 1), (two, ctx2, 2)].map(|(instance, ctx, id)| {
        let txn = begin(&instance, &ctx);
        run(&cluster, bump(&ctx, &txn, "t", id)).expect("a row");
        (instance, ctx, txn)
    });
    let sides = sides.map(|(instance, ctx, txn)| {
        spawn(&instance.clone(), async move {
            let core = instance.core.clone();
            match core.lock_table(&ctx, &txn, obj, TmMode::X, LockWait::Wait).await {
                Ok(()) => txn.commit(&ctx).await.map(|_| false),
                Err(Error::Deadlock) => txn.rollback(&ctx).await.map(|()| true),
                Err(e) => Err(e),
            }
        })
    });
    let victims = sides.map(|s| wait(&cluster, &s).expect("committed or rolled back"));
    assert_eq!(victims.iter().filter(|v| **v).count(), 1);
}

#[test]
fn table_locks_survive_the_crash_of_another_instance() {
    let mut cluster = cluster(10, 3);
    let (one, ctx1) = session(&cluster, 1);
    let obj = run(&cluster, make(&one, &ctx1, "t", 3)).expect("a table");
    let dml = begin(&one, &ctx1);
    run(&cluster, bump(&ctx1, &dml, "t", 1)).expect("a row is changed");
    let (two, ctx2) = session(&cluster, 2);
    let ddl = {
        let (two, ctx2) = (two.clone(), ctx2.clone());
        spawn(&two.clone(), async move {
            let txn = begin(&two, &ctx2);
            two.core.lock_table(&ctx2, &txn, obj, TmMode::X, LockWait::Wait).await?;
            txn.rollback(&ctx2).await
        })
    };
    cluster.world.run_for(Duration::from_millis(50));
    cluster.crash(3);
    cluster.world.run_for(Duration::from_secs(5));
    assert!(ddl.lock().is_none(), "X was given over a lock that an epoch had to keep");
    run(&cluster, dml.commit(&ctx1)).expect("the row is committed");
    wait(&cluster, &ddl).expect("X is given then");
}

#[test]
fn h18_a_dead_transactions_table_stays_locked_until_it_is_rolled_back() {
    let mut cluster = cluster(11, 3);
    let (one, ctx1) = session(&cluster, 1);
    let (two, ctx2) = session(&cluster, 2);
    let obj = run(&cluster, make(&one, &ctx1, "t", 200)).expect("a table");
    {
        let (three, ctx3) = session(&cluster, 3);
        let dead = begin(&three, &ctx3);
        run(&cluster, async {
            for id in 1..=200 {
                bump(&ctx3, &dead, "t", id).await?;
            }
            // Somebody's later commit makes the dead one's redo durable.
            let other = begin(&three, &ctx3);
            dict::create_table(&ctx3, &other, new_table("other")).await?;
            other.commit(&ctx3).await
        })
        .expect("rows are changed");
        // It waits when the instance dies.
        std::mem::forget(dead);
    }
    // Everybody's locks on it: what is cached here must not help.
    let ddl = {
        let (one, two, ctx2) = (one.clone(), two.clone(), ctx2.clone());
        spawn(&two.clone(), async move {
            let txn = begin(&two, &ctx2);
            two.core.lock_table(&ctx2, &txn, obj, TmMode::X, LockWait::Wait).await?;
            let segments = one.core.all_segments();
            let left: usize = segments.iter().map(|s| s.left_by_crash().len()).sum();
            let adopted = segments.len() > 10;
            txn.rollback(&ctx2).await?;
            Ok::<_, Error>((left, adopted))
        })
    };
    cluster.world.run_for(Duration::from_millis(100));
    cluster.crash(3);
    let (left, adopted) = wait(&cluster, &ddl).expect("X is given in the end");
    assert!(adopted, "the test looks at the adopter");
    assert_eq!(left, 0, "X was given while a dead transaction's changes were in the table");
}

/// Who has which table in which mode, as the clients believe.
type Believed = Arc<Mutex<Vec<(u8, u64, ObjId, TmMode)>>>;

fn believe(believed: &Believed, k: u8, txn: &Transaction, obj: ObjId, mode: TmMode) {
    let mut all = believed.lock();
    let me = (k, txn.local_id());
    for &(i, id, other, held) in all.iter() {
        let clash = other == obj && (i, id) != me && !held.compatible(mode);
        assert!(!clash, "{obj:?}: {mode:?} on instance {k} with {held:?} on instance {i}");
    }
    all.push((k, me.1, obj, mode));
}

/// One transaction that locks some tables in some modes; whether it came to its end.
async fn lock_some(
    instance: &Arc<Instance>,
    ctx: &Ctx,
    tables: &[ObjId],
    believed: &Believed,
) -> Result<()> {
    let env = instance.core.env.clone();
    let k = instance.me.0;
    let pick = |n: usize| usize::try_from(env.random() % n as u64).expect("small");
    let modes = [TmMode::SS, TmMode::SX, TmMode::SX, TmMode::S, TmMode::SSX, TmMode::X];
    let waits = [
        LockWait::Wait,
        LockWait::Wait,
        LockWait::NoWait,
        LockWait::Timeout(1 + env.random() % 9000),
    ];
    let txn = begin(instance, ctx);
    let mut result = Ok(());
    for _ in 0..1 + pick(3) {
        let (obj, mode, wait) = (tables[pick(tables.len())], modes[pick(6)], waits[pick(4)]);
        result = instance.core.lock_table(ctx, &txn, obj, mode, wait).await;
        if result.is_err() {
            break;
        }
        believe(believed, k, &txn, obj, mode);
        env.sleep(Duration::from_micros(env.random() % 3000)).await;
    }
    believed.lock().retain(|b| (b.0, b.1) != (k, txn.local_id()));
    txn.rollback(ctx).await?;
    result
}

struct Counts {
    done: u64,
    deadlocks: u64,
    refused: u64,
    late: u64,
}

fn lock_storm(seed: u64, crash: bool) -> (u64, Counts) {
    let mut cluster = cluster(seed, 3);
    let (one, ctx1) = session(&cluster, 1);
    let names = ["a", "b", "c"];
    let tables = names.map(|n| run(&cluster, make(&one, &ctx1, n, 1)).expect("a table"));
    drop((one, ctx1));
    let believed = Believed::default();
    let counts = Arc::new(Mutex::new(Counts { done: 0, deadlocks: 0, refused: 0, late: 0 }));
    let mut ends = Vec::new();
    for k in 1..=3 {
        for _ in 0..4 {
            let (instance, ctx) = session(&cluster, k);
            let (believed, counts) = (believed.clone(), counts.clone());
            let end = spawn(&instance.clone(), async move {
                for _ in 0..40 {
                    let ended = lock_some(&instance, &ctx, &tables, &believed).await;
                    let mut counts = counts.lock();
                    match ended {
                        Ok(()) => counts.done += 1,
                        Err(Error::Deadlock) => counts.deadlocks += 1,
                        Err(Error::RowLocked) => counts.refused += 1,
                        Err(Error::LockTimeout) => counts.late += 1,
                        Err(e) => panic!("{e}"),
                    }
                }
            });
            ends.push((k, end));
        }
    }
    if crash {
        cluster.world.run_for(Duration::from_millis(60));
        cluster.crash(3);
        believed.lock().retain(|b| b.0 != 3);
        ends.retain(|e| e.0 != 3);
        cluster.world.run_for(Duration::from_millis(40));
        cluster.start(3);
    }
    for (_, end) in &ends {
        wait(&cluster, end);
    }
    let hash = cluster.world.trace_hash();
    let counts = std::mem::replace(
        &mut *counts.lock(),
        Counts { done: 0, deadlocks: 0, refused: 0, late: 0 },
    );
    (hash, counts)
}

#[test]
fn table_locks_exclude_each_other_over_all_instances() {
    let mut all = Counts { done: 0, deadlocks: 0, refused: 0, late: 0 };
    for seed in 20..26 {
        println!("storm: seed {seed}");
        let (hash, counts) = lock_storm(seed, seed % 2 == 1);
        all.done += counts.done;
        all.deadlocks += counts.deadlocks;
        all.refused += counts.refused;
        all.late += counts.late;
        if seed == 20 {
            assert_eq!(lock_storm(seed, false).0, hash, "seed {seed} is not reproducible");
        }
    }
    let seen = (all.done, all.deadlocks, all.refused, all.late);
    println!("done, deadlocks, refused, late: {seen:?}");
    assert!(seen.0 > 100 && seen.1 > 0 && seen.2 > 0 && seen.3 > 0, "{seen:?}");
}
