//! What the kernel's hot path costs in CPU time, without threads, sockets and disks in the way:
//! `cargo run --release -p skein-sim --example kernel_cost`.
//!
//! Everything measured is cached and waits for nothing, so each future is done at its first poll.

#![allow(clippy::disallowed_methods)] // It measures the processor, not the simulated world.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use env::simulated::SimConfig;
use kernel::dict::{self, NewTable};
use kernel::row::{Datum, TypeKind, encode_key};
use kernel::table::{self, Change};
use kernel::txn::{Isolation, LockWait, Transaction};
use observe::{Ctx, SessionKind};
use sim::{Cluster, STUCK, Sizes, plain_table, primary_key};

const ROWS: i64 = 50_000;

/// A future that has nothing to wait for.
fn now<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(out) => out,
        Poll::Pending => panic!("what is measured has nothing to wait for"),
    }
}

fn table() -> NewTable {
    let columns = [("id", TypeKind::Int4), ("n", TypeKind::Int4), ("filler", TypeKind::Text)];
    plain_table("t", &columns, vec![primary_key("t")])
}

fn measure(what: &str, rounds: u32, mut work: impl FnMut(u32)) {
    let mut best = f64::MAX;
    for _ in 0..5 {
        let began = Instant::now();
        for i in 0..rounds {
            work(i);
        }
        best = best.min(began.elapsed().as_nanos() as f64 / f64::from(rounds));
    }
    println!("{what:<44} {best:>9.0} ns");
}

fn main() {
    let sizes = Sizes { log_file_bytes: 32 << 20, lun_bytes: 256 << 20, ..Sizes::default() };
    let mut cluster = Cluster::create(1, SimConfig::default(), 1, &sizes);
    cluster.settings.push(("db_cache_size", (256 << 20).to_string()));
    cluster.settings.push(("log_buffer", (256 << 20).to_string()));
    cluster.start(1);
    let at = cluster.open[&1].clone();
    let ctx = at.observer.ctx(SessionKind::User, "bench");
    let def = cluster
        .world
        .block_on_for(STUCK, async {
            let txn = at.begin(&ctx, Isolation::ReadCommitted);
            let def = dict::create_table(&ctx, &txn, table()).await.expect("made");
            for id in 0..ROWS {
                let id = i32::try_from(id).expect("small");
                let row =
                    def.encode(&[Datum::Int4(id), Datum::Int4(0), Datum::Text(&"x".repeat(84))]);
                table::insert(&ctx, &txn, &def, &row).await.expect("inserted");
            }
            txn.commit(&ctx).await.expect("committed");
            def
        })
        .expect("set up");
    let index = def.primary_key().expect("a primary key").clone();
    let key_of = |i: u32| {
        let mut key = Vec::new();
        let id = (i64::from(i) * 7919 % ROWS) as i32;
        encode_key(&[Datum::Int4(id)], &mut key);
        key
    };
    let keys: Vec<Vec<u8>> = (0..20_000).map(key_of).collect();
    let key = |i: u32| &keys[i as usize % keys.len()];
    let begin = |ctx: &Ctx| -> Arc<Transaction> { at.begin(ctx, Isolation::ReadCommitted) };

    measure("begin, snapshot, end", 200_000, |_| {
        let txn = begin(&ctx);
        now(txn.snapshot(&ctx)).expect("a snapshot");
        now(txn.commit(&ctx)).expect("ended");
    });
    let txn = begin(&ctx);
    let snap = now(txn.snapshot(&ctx)).expect("a snapshot");
    let mut row = Vec::new();
    measure("index_lookup of a cached row", 200_000, |i| {
        let found = now(table::index_lookup(&ctx, &def, &index, key(i), &snap, &mut row));
        assert!(found.expect("read").is_some());
    });
    let rowid = now(table::index_lookup(&ctx, &def, &index, key(1), &snap, &mut row));
    let rowid = rowid.expect("read").expect("there");
    measure("fetch of a cached row by rowid", 200_000, |_| {
        assert!(now(table::fetch(&ctx, &def, rowid, &snap, &mut row)).expect("read"));
    });
    drop((snap, txn));
    let mut new = Vec::new();
    measure("snapshot, index_lookup, update of a row", 4000, |i| {
        // A transaction of its own, whose outcome waits for the log and is not measured.
        let txn = begin(&ctx);
        let snap = now(txn.snapshot(&ctx)).expect("a snapshot");
        let found = now(table::index_lookup(&ctx, &def, &index, key(i), &snap, &mut row));
        let rowid = found.expect("read").expect("there");
        new.clear();
        new.extend_from_slice(&row);
        let last = new.len() - 1;
        new[last] = new[last].wrapping_add(1) | 0x40;
        let wait = LockWait::NoWait;
        let update = table::update(&ctx, &txn, &def, rowid, &snap, &row, &new, wait);
        // The first transaction in an undo block, or a full log, waits: the world goes on then.
        let done = cluster.world.block_on_for(STUCK, update).expect("no hang");
        assert_eq!(done.expect("changed"), Change::Done);
        drop(snap);
        let ended = cluster.world.block_on_for(STUCK, txn.rollback(&ctx));
        ended.expect("no hang").expect("rolled back");
    });
}
