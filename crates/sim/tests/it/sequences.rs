//! The turn of an instance at a sequence without a cache, and the cache that all instances have in
//! common of an ordered one.

use std::sync::Arc;
use std::time::Duration;

use env::Lane;
use env::simulated::SimConfig;
use kernel::dict;
use kernel::instance::Instance;
use kernel::seq;
use kernel::txn::{Isolation, Transaction};
use observe::{Ctx, SessionKind, Stat};
use parking_lot::Mutex;
use sim::{Cluster, STUCK, Sizes, plain_sequence};

/// Values that each instance takes.
const VALUES: u64 = 200;

fn session(cluster: &Cluster, k: u8) -> (Arc<Instance>, Ctx) {
    let instance = cluster.open[&k].clone();
    let ctx = instance.observer.ctx(SessionKind::User, "test");
    (instance, ctx)
}

fn begin(instance: &Arc<Instance>, ctx: &Ctx) -> Arc<Transaction> {
    instance.begin(ctx, Isolation::ReadCommitted)
}

/// Two instances and a sequence; ordered if it has a cache.
fn cluster(seed: u64, cache: i64) -> Cluster {
    let mut cluster = Cluster::create(seed, SimConfig::default(), 3, &Sizes::default());
    (1..=2).for_each(|k| cluster.start(k));
    let (one, ctx) = session(&cluster, 1);
    let made = cluster.world.block_on_for(STUCK, async {
        let txn = begin(&one, &ctx);
        let new = plain_sequence("s", cache, cache > 1);
        dict::create_sequence(&ctx, &txn, new).await?;
        txn.commit(&ctx).await
    });
    made.expect("no hang").expect("a sequence");
    cluster
}

type Taken = Arc<Mutex<Vec<(u8, i64)>>>;

/// Takes values on an instance, with pauses between.
fn take(cluster: &Cluster, k: u8, count: u64, pause: Duration, taken: &Taken) {
    let ((instance, ctx), taken) = (session(cluster, k), taken.clone());
    let env = instance.core.env.clone();
    env.clone().spawn_task("test", Lane::Background, async move {
        let txn = begin(&instance, &ctx);
        let def = dict::sequence(&ctx, &txn, "public", "s").await.expect("a look-up");
        let def = def.expect("the sequence is there");
        for _ in 0..count {
            let value = seq::nextval(&ctx, &txn, &def).await.expect("a value");
            taken.lock().push((k, value));
            env.sleep(pause).await;
        }
        txn.rollback(&ctx).await.expect("nothing to take back");
    });
}

/// Blocks that came from the other instance while both took their values, and the values in the
/// order in which they came.
fn taken_by_two(cache: i64, pause: Duration) -> (u64, Vec<(u8, i64)>) {
    let cluster = cluster(77, cache);
    let received = |k| cluster.open[&k].observer.stat(Stat::GcCurrentBlocksReceived);
    let before = received(1) + received(2);
    let taken = Taken::default();
    (1..=2).for_each(|k| take(&cluster, k, VALUES, pause, &taken));
    let done = || taken.lock().len() as u64 == 2 * VALUES;
    assert!(cluster.world.run_until(STUCK, done), "they take their values");
    let values = taken.lock().clone();
    let mut sorted: Vec<i64> = values.iter().map(|taken| taken.1).collect();
    sorted.sort_unstable();
    let expected = (1..=2 * VALUES).map(|v| i64::try_from(v).expect("small"));
    assert!(sorted.into_iter().eq(expected), "each value once: {values:?}");
    (received(1) + received(2) - before, values)
}

#[test]
fn an_instance_takes_some_values_in_its_turn() {
    let (received, values) = taken_by_two(1, Duration::from_micros(40));
    let runs: Vec<usize> = values.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).collect();
    assert!(received < VALUES, "{received} blocks for {} values, runs {runs:?}", 2 * VALUES);
    // Who waits gets its turn in the end: only at the beginning and the end one is alone.
    assert_eq!(runs[1..runs.len() - 1].iter().max(), Some(&8), "{runs:?}");
}

#[test]
fn a_turn_is_not_kept_for_who_does_not_come_back_soon() {
    let (_, values) = taken_by_two(1, Duration::from_millis(5));
    let runs: Vec<usize> = values.chunk_by(|a, b| a.0 == b.0).map(<[_]>::len).collect();
    assert!(runs.iter().all(|run| *run <= 2), "{runs:?}");
}

#[test]
fn a_turn_kept_in_vain_ends_soon() {
    let cluster = cluster(78, 1);
    let taken = Taken::default();
    take(&cluster, 1, 3, Duration::ZERO, &taken);
    take(&cluster, 2, 1, Duration::ZERO, &taken);
    let began = cluster.world.now();
    assert!(cluster.world.run_until(STUCK, || taken.lock().len() == 4));
    let us = cluster.world.now().since(began);
    assert!(us < 1_000_000, "{us} us for four values");
}

#[test]
fn an_ordered_sequences_cache_goes_from_one_instance_to_the_other() {
    for pause in [0, 40, 5_000].map(Duration::from_micros) {
        let (received, values) = taken_by_two(20, pause);
        assert!(values.is_sorted_by_key(|taken| taken.1), "{values:?}");
        assert!(received <= 4 * VALUES / 20, "{received} blocks: more than for each 20 values");
    }
}

#[test]
fn an_ordered_sequence_goes_on_where_it_was_set() {
    let cluster = cluster(80, 20);
    let taken = Taken::default();
    let count = |n: usize| {
        assert!(cluster.world.run_until(STUCK, || taken.lock().len() == n), "{n} values");
    };
    take(&cluster, 1, 3, Duration::ZERO, &taken);
    count(3);
    let (two, ctx) = session(&cluster, 2);
    let set = cluster.world.block_on_for(STUCK, async {
        let txn = begin(&two, &ctx);
        let def = dict::sequence(&ctx, &txn, "public", "s").await?.expect("the sequence is there");
        seq::setval(&ctx, &txn, &def, 500, true).await?;
        txn.rollback(&ctx).await
    });
    set.expect("no hang").expect("set");
    // What the first instance had taken before is given no more.
    take(&cluster, 1, 1, Duration::ZERO, &taken);
    count(4);
    take(&cluster, 2, 1, Duration::ZERO, &taken);
    count(5);
    let values: Vec<i64> = taken.lock().iter().map(|taken| taken.1).collect();
    assert_eq!(values, [1, 2, 3, 501, 502]);
}

#[test]
fn the_turn_of_who_dies_goes_to_the_other() {
    [1, 20].into_iter().for_each(one_dies);
}

fn one_dies(cache: i64) {
    let mut cluster = cluster(79, cache);
    let taken = Taken::default();
    take(&cluster, 1, VALUES, Duration::ZERO, &taken);
    take(&cluster, 2, VALUES, Duration::ZERO, &taken);
    assert!(cluster.world.run_until(STUCK, || taken.lock().len() as u64 >= VALUES / 2));
    cluster.crash(1);
    let by_two = || taken.lock().iter().filter(|taken| taken.0 == 2).count() as u64 == VALUES;
    assert!(cluster.world.run_until(STUCK, by_two), "the survivor goes on");
    let mut values: Vec<i64> = taken.lock().iter().map(|taken| taken.1).collect();
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    assert_eq!(values.len(), count, "no value twice");
}

/// A turn that is kept when its sequence is set does not outlive that.
#[test]
fn a_turn_ends_though_the_sequence_is_being_set() {
    let cluster = cluster(81, 1);
    let taken = Taken::default();
    take(&cluster, 1, 3, Duration::ZERO, &taken);
    take(&cluster, 2, 1, Duration::from_micros(1), &taken);
    assert!(cluster.world.run_until(STUCK, || taken.lock().iter().any(|taken| taken.0 == 1)));
    let (one, ctx) = session(&cluster, 1);
    let set = cluster.world.block_on_for(STUCK, async {
        let txn = begin(&one, &ctx);
        let def = dict::sequence(&ctx, &txn, "public", "s").await?.expect("the sequence is there");
        for value in 0..5 {
            seq::nextval(&ctx, &txn, &def).await?;
            seq::setval(&ctx, &txn, &def, 1_000 * (value + 1), true).await?;
        }
        txn.rollback(&ctx).await
    });
    set.expect("no hang").expect("set");
    assert!(cluster.world.run_until(STUCK, || taken.lock().len() == 4), "the other gets its value");
}
