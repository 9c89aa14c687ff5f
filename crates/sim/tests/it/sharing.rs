//! One block on its way through the instances, and no message where there is nobody to send it to.

use std::future::Future;
use std::sync::Arc;

use block::Dba;
use env::simulated::SimConfig;
use kernel::Result;
use kernel::dict::{self, TableDef};
use kernel::instance::Instance;
use kernel::row::{Datum, RowView, TypeKind, encode_key};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Transaction};
use observe::{Ctx, SessionKind, Stat};
use sim::{Cluster, STUCK, Sizes, plain_table, primary_key};

use crate::seeds;

fn cluster(seed: u64, n: u8) -> Cluster {
    let mut cluster = Cluster::create(seed, SimConfig::default(), 3, &Sizes::default());
    cluster.settings.push(("db_cache_size", (4 << 20).to_string()));
    cluster.settings.push(("_gc_direct_reads", "off".to_owned()));
    (1..=n).for_each(|k| cluster.start(k));
    cluster
}

fn run<T>(cluster: &Cluster, what: impl Future<Output = Result<T>>) -> T {
    let ended = cluster.world.block_on_for(STUCK, what).unwrap_or_else(|| {
        cluster.print_alerts();
        panic!("a test hangs")
    });
    ended.unwrap_or_else(|e| panic!("{e}"))
}

fn session(cluster: &Cluster, k: u8) -> (Arc<Instance>, Ctx) {
    let instance = cluster.open[&k].clone();
    let ctx = instance.observer.ctx(SessionKind::User, "test");
    (instance, ctx)
}

/// A table `t` with rows (1, 0), (2, 0), (3, 0).
async fn make(instance: &Arc<Instance>, ctx: &Ctx) -> Result<()> {
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    let columns = [("id", TypeKind::Int8), ("n", TypeKind::Int8)];
    let new = plain_table("t", &columns, vec![primary_key("t")]);
    let def = dict::create_table(ctx, &txn, new).await?;
    // The first rows of a table are spread over several blocks.
    for id in (101..=164).chain(1..=3) {
        let row = def.encode(&[Datum::Int8(id), Datum::Int8(0)]);
        table::insert(ctx, &txn, &def, &row).await?;
    }
    txn.commit(ctx).await?;
    Ok(())
}

async fn find(ctx: &Ctx, txn: &Arc<Transaction>) -> Result<Arc<TableDef>> {
    Ok(dict::table(ctx, txn, "public", "t").await?.expect("the table is there"))
}

/// Row `id`: its block and its number.
async fn look(instance: &Arc<Instance>, ctx: &Ctx, id: i64) -> Result<(Dba, i64)> {
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    let def = find(ctx, &txn).await?;
    let snap = txn.snapshot(ctx).await?;
    let (mut key, mut row) = (Vec::new(), Vec::new());
    encode_key(&[Datum::Int8(id)], &mut key);
    let index = def.primary_key().expect("a primary key");
    let rowid = table::index_lookup(ctx, &def, index, &key, &snap, &mut row).await?;
    let Datum::Int8(n) = RowView::new(&def.types, &row).get(1) else { panic!("a number") };
    txn.rollback(ctx).await?;
    Ok((rowid.expect("the row is there").dba, n))
}

async fn set(instance: &Arc<Instance>, ctx: &Ctx, id: i64, n: i64) -> Result<()> {
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    update(ctx, &txn, id, n).await?;
    txn.commit(ctx).await?;
    Ok(())
}

async fn update(ctx: &Ctx, txn: &Arc<Transaction>, id: i64, n: i64) -> Result<()> {
    let def = find(ctx, txn).await?;
    let snap = txn.snapshot(ctx).await?;
    let (mut key, mut row) = (Vec::new(), Vec::new());
    encode_key(&[Datum::Int8(id)], &mut key);
    let index = def.primary_key().expect("a primary key");
    let rowid = table::index_lookup(ctx, &def, index, &key, &snap, &mut row).await?;
    let rowid = rowid.expect("the row is there");
    let new = def.encode(&[Datum::Int8(id), Datum::Int8(n)]);
    let change = table::update(ctx, txn, &def, rowid, &snap, &row, &new, LockWait::Wait).await?;
    assert!(matches!(change, Change::Done), "nobody else changes the row");
    Ok(())
}

fn sum(cluster: &Cluster, of: impl Fn(&Instance) -> u64) -> u64 {
    cluster.open.values().map(|i| of(i)).sum()
}

fn data_writes(cluster: &Cluster) -> u64 {
    sum(cluster, |i| i.core.cache.data_writes.load(std::sync::atomic::Ordering::SeqCst))
}

/// Rows 1, 2, 3 of one block are changed on instances 1, 2, 3 in turn; then all but `survivor` die.
fn through_three(seed: u64, survivor: u8) {
    let mut cluster = cluster(seed, 3);
    let (first, ctx) = session(&cluster, 1);
    run(&cluster, make(&first, &ctx));
    let (block, _) = run(&cluster, look(&first, &ctx, 1));
    drop((first, ctx));
    let writes = data_writes(&cluster);
    let shipped = sum(&cluster, |i| i.observer.stat(Stat::GcCurrentBlocksServed));
    for k in 1..=3_u8 {
        let (instance, ctx) = session(&cluster, k);
        let id = i64::from(k);
        let (dba, n) = run(&cluster, look(&instance, &ctx, id));
        assert!(dba == block && n == 0, "row {id} is {n} in block {dba}, not in {block}");
        run(&cluster, set(&instance, &ctx, id, 100 + id));
    }
    assert_eq!(data_writes(&cluster), writes, "the block was forced to disk on its way");
    let now = sum(&cluster, |i| i.observer.stat(Stat::GcCurrentBlocksServed));
    assert!(now >= shipped + 2, "the block was not shipped: {shipped}, {now}");
    (1..=3).filter(|k| *k != survivor).for_each(|k| cluster.crash(k));
    let (instance, ctx) = session(&cluster, survivor);
    for id in 1..=3 {
        let (_, n) = run(&cluster, look(&instance, &ctx, id));
        assert_eq!(n, 100 + id, "seed {seed}: row {id} on instance {survivor}");
    }
}

#[test]
fn one_block_changed_on_three_instances_survives_two_of_them() {
    for seed in seeds(&[1, 2, 3]) {
        for survivor in 1..=3 {
            through_three(seed, survivor);
        }
    }
}

#[test]
fn an_instance_alone_sends_no_message() {
    let mut cluster = cluster(1, 1);
    let (instance, ctx) = session(&cluster, 1);
    run(&cluster, make(&instance, &ctx));
    for n in 1..=20 {
        run(&cluster, set(&instance, &ctx, 1 + n % 3, n));
    }
    let sent = |i: &Instance| {
        i.observer.stat(Stat::GcsMessagesSent) + i.observer.stat(Stat::GesMessagesSent)
    };
    assert_eq!(sent(&instance), 0);
    // The counters do count.
    drop((instance, ctx));
    cluster.start(2);
    let (second, ctx) = session(&cluster, 2);
    run(&cluster, set(&second, &ctx, 1, 77));
    assert!(sum(&cluster, sent) > 0);
}

/// Changes row 1 in an open transaction as often as said; gives the transaction.
async fn set_open(instance: &Arc<Instance>, ctx: &Ctx, times: i64) -> Result<Arc<Transaction>> {
    let txn = instance.begin(ctx, Isolation::ReadCommitted);
    for n in 1..=times {
        update(ctx, &txn, 1, n).await?;
    }
    Ok(txn)
}

#[test]
fn a_reader_gets_a_finished_copy_and_waits_for_no_log_writer() {
    let cluster = cluster(1, 3);
    let (writer, ctx1) = session(&cluster, 1);
    let (reader, ctx2) = session(&cluster, 2);
    run(&cluster, make(&writer, &ctx1));
    assert_eq!(run(&cluster, look(&reader, &ctx2, 2)).1, 0);
    writer.alter_system("_lgwr_flush_delay_us", "50000").expect("a parameter");
    let txn = run(&cluster, set_open(&writer, &ctx1, 20));
    let seen = || {
        let (w, r) = (&writer.observer, &reader.observer);
        let made = (w.stat(Stat::GcCrBlocksServed), w.stat(Stat::CrBlocksCreated));
        (made, w.stat(Stat::GcLightWorks), r.stat(Stat::TransactionEnquiries))
    };
    let ((served, made), light, asked) = seen();
    let began = reader.core.env.now();
    for _ in 0..3 {
        assert_eq!(run(&cluster, look(&reader, &ctx2, 1)).1, 0, "an open transaction shows");
    }
    let took_us = reader.core.env.now().since(began);
    assert!(took_us < 5_000, "{took_us} us: the copies waited for the log writer");
    assert_eq!(seen(), ((served + 3, made + 3), light, asked), "each copy came finished");
    run(&cluster, txn.commit(&ctx1));
    assert_eq!(run(&cluster, look(&reader, &ctx2, 1)).1, 20, "a committed change is hidden");
}

#[test]
fn a_copy_that_is_too_much_work_is_finished_by_its_reader() {
    let cluster = cluster(2, 3);
    let (writer, ctx1) = session(&cluster, 1);
    let (reader, ctx2) = session(&cluster, 2);
    run(&cluster, make(&writer, &ctx1));
    let changes = i64::from(kernel::read::UNDO_RECORDS_MAX) + 40;
    let txn = run(&cluster, set_open(&writer, &ctx1, changes));
    let light = writer.observer.stat(Stat::GcLightWorks);
    assert_eq!(run(&cluster, look(&reader, &ctx2, 1)).1, 0, "an open transaction shows");
    assert!(writer.observer.stat(Stat::GcLightWorks) > light, "the work has no bound");
    assert_eq!(run(&cluster, look(&reader, &ctx2, 2)).1, 0);
    run(&cluster, txn.rollback(&ctx1));
    assert_eq!(run(&cluster, look(&reader, &ctx2, 1)).1, 0);
}

/// After a crash or an orderly stop of all others: no message, and a joiner finds what was done.
fn left_alone(seed: u64, crash: bool) {
    let mut cluster = cluster(seed, 3);
    let (first, ctx) = session(&cluster, 1);
    run(&cluster, make(&first, &ctx));
    for k in [2, 3, 1, 2] {
        let (instance, ctx) = session(&cluster, k);
        run(&cluster, set(&instance, &ctx, i64::from(k), 10 * i64::from(k)));
    }
    for k in [2, 3] {
        if crash { cluster.crash(k) } else { cluster.stop(k) }
    }
    let rests = || first.core.cache.is_alone();
    assert!(cluster.world.run_until(STUCK, rests), "seed {seed}: it never comes to rest");
    let sent = |i: &Instance| {
        i.observer.stat(Stat::GcsMessagesSent) + i.observer.stat(Stat::GesMessagesSent)
    };
    let (before, granted) = (sent(&first), first.observer.stat(Stat::GcRemoteGrants));
    for id in 1..=3 {
        let (_, n) = run(&cluster, look(&first, &ctx, id));
        assert_eq!(n, 10 * id, "seed {seed}: row {id}");
        run(&cluster, set(&first, &ctx, id, n + 1));
    }
    assert_eq!((sent(&first), first.observer.stat(Stat::GcRemoteGrants)), (before, granted));
    cluster.start(2);
    assert!(!first.core.cache.is_alone());
    drop((first, ctx));
    let (second, ctx) = session(&cluster, 2);
    run(&cluster, set(&second, &ctx, 1, 77));
    cluster.crash(1);
    for (id, n) in [(1, 77), (2, 21), (3, 31)] {
        assert_eq!(run(&cluster, look(&second, &ctx, id)).1, n, "seed {seed}: row {id}");
    }
}

#[test]
fn c5_an_instance_left_alone_comes_to_rest() {
    for seed in seeds(&[1, 2, 3, 4]) {
        left_alone(seed, true);
        left_alone(seed, false);
    }
}

#[test]
fn the_outcome_of_another_instances_transaction_is_asked_for_once() {
    let cluster = cluster(3, 3);
    let (writer, ctx1) = session(&cluster, 1);
    let (reader, ctx2) = session(&cluster, 2);
    run(&cluster, make(&writer, &ctx1));
    let txn = run(&cluster, set_open(&writer, &ctx1, 1));
    // Readers that keep asking have the block made S, once its redo is durable: the commit of the
    // open transaction cannot be written into it then.
    run(&cluster, set(&writer, &ctx1, 3, 5));
    for _ in 0..10 {
        assert_eq!(run(&cluster, look(&reader, &ctx2, 2)).1, 0);
    }
    run(&cluster, txn.commit(&ctx1));
    let asked = || reader.observer.stat(Stat::TransactionEnquiries);
    let before = asked();
    assert_eq!(run(&cluster, look(&reader, &ctx2, 1)).1, 1);
    assert_eq!(asked(), before + 1, "the block says that the transaction has committed");
    for _ in 0..5 {
        assert_eq!(run(&cluster, look(&reader, &ctx2, 1)).1, 1);
    }
    assert_eq!(asked(), before + 1, "it was asked again");
}

/// A full scan on instance 1 of a table whose blocks instance 2 has changed: copies that 2 has
/// served, that 1 has received, and blocks that 1 has seen in 2's memory.
fn scan_elsewhere(direct: &str) -> (u64, u64, u64) {
    let mut cluster = Cluster::create(31, SimConfig::default(), 3, &Sizes::default());
    cluster.settings.push(("_gc_direct_reads", direct.to_owned()));
    (1..=2).for_each(|k| cluster.start(k));
    let ((one, ctx1), (two, ctx2)) = (session(&cluster, 1), session(&cluster, 2));
    run(&cluster, make(&two, &ctx2));
    let (served, received, seen) =
        (Stat::GcCrBlocksServed, Stat::GcCrBlocksReceived, Stat::GcCrBlocksSeen);
    let count = || {
        let (one, two) = (&one.observer, &two.observer);
        [two.stat(served), one.stat(received), one.stat(seen)]
    };
    let scan = || async {
        let txn = begin_at(&one, &ctx1);
        let def = find(&ctx1, &txn).await?;
        let snap = txn.snapshot(&ctx1).await?;
        let (mut rows, mut scan) = (0, table::scan(&ctx1, &def, &snap).await?);
        while scan.next_block(&ctx1, |_, _| rows += 1).await? {}
        txn.rollback(&ctx1).await?;
        Ok(rows)
    };
    // The definition and the extents are known after the first one.
    assert_eq!(run(&cluster, scan()), 67);
    let before = count();
    assert_eq!(run(&cluster, scan()), 67);
    let after = count();
    (after[0] - before[0], after[1] - before[1], after[2] - before[2])
}

fn begin_at(instance: &Arc<Instance>, ctx: &Ctx) -> Arc<Transaction> {
    instance.begin(ctx, Isolation::ReadCommitted)
}

#[test]
fn a_scan_gets_each_copy_once() {
    let (served, received, seen) = scan_elsewhere("off");
    assert!(served > 1 && seen == 0, "{served} served, {seen} seen");
    assert_eq!(served, received, "what is served is used");
    let (served, received, seen) = scan_elsewhere("on");
    assert!(seen > 1, "{seen} seen");
    assert_eq!((served, received), (0, 0), "what can be seen is not asked for");
}
