//! One run: load, faults, checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use env::Lane;
use env::simulated::SimConfig;
use kernel::instance::Instance;
use observe::SessionKind;
use parking_lot::Mutex;

use crate::bank::{self, Ledger, START_BALANCE};
use crate::check;
use crate::cluster::{Cluster, STUCK};

/// What happens in a run. Everything else comes from the seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub instances: u8,
    pub accounts: i64,
    pub clients_per_instance: u8,
    /// Crashes of single instances (each is started again).
    pub crashes: u32,
    /// Crashes of all instances at once.
    pub blackouts: u32,
    /// Virtual time between two faults, at most.
    pub calm_us: u64,
    /// Buffers of each instance.
    pub cache_blocks: usize,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            instances: 3,
            accounts: 60,
            clients_per_instance: 4,
            crashes: 3,
            blackouts: 1,
            calm_us: 400_000,
            cache_blocks: 256,
        }
    }
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub trace_hash: u64,
    pub acknowledged: usize,
    pub unknown: usize,
    pub refused: usize,
    pub deadlocks: u64,
    pub looks: u64,
    pub virtual_us: u64,
}

/// What the clients share.
struct Shared {
    ledger: Mutex<Ledger>,
    next_id: AtomicI64,
    stop: AtomicBool,
    running: AtomicU64,
    looks: AtomicU64,
}

fn spawn_clients(instance: &Arc<Instance>, shared: &Arc<Shared>, scenario: &Scenario) {
    for n in 0..scenario.clients_per_instance {
        let (instance, shared, scenario) = (instance.clone(), shared.clone(), scenario.clone());
        let env = instance.core.env.clone();
        shared.running.fetch_add(1, Ordering::SeqCst);
        env.clone().spawn_task("client", Lane::Background, async move {
            let ctx = instance.observer.ctx(SessionKind::User, "bank");
            while !shared.stop.load(Ordering::SeqCst) {
                if n == 0 && env.random() % 8 == 0 {
                    let sum = bank::total(&ctx, &instance).await;
                    match sum {
                        Ok(sum) => assert!(
                            sum == scenario.accounts * START_BALANCE,
                            "instance {} sees {sum}",
                            instance.me
                        ),
                        Err(kernel::Error::SnapshotTooOld(_)) => {}
                        Err(e) => panic!("instance {}: total: {e}", instance.me),
                    }
                    shared.looks.fetch_add(1, Ordering::SeqCst);
                    continue;
                }
                let id = shared.next_id.fetch_add(1, Ordering::SeqCst);
                let pick = |n: i64| (env.random() % u64::try_from(n).expect("positive")) as i64;
                let from = pick(scenario.accounts);
                let to = (from + 1 + pick(scenario.accounts - 1)) % scenario.accounts;
                let amount = pick(100) + 1;
                let filler = "y".repeat(usize::try_from(pick(200)).expect("small"));
                let give_up = env.random() % 10 == 0;
                let what = (from, to, amount);
                let done =
                    bank::transfer(&ctx, &instance, &shared.ledger, id, what, &filler, give_up)
                        .await;
                if let Err(e) = done {
                    panic!("instance {}: transfer {id}: {e}", instance.me);
                }
            }
            shared.running.fetch_sub(1, Ordering::SeqCst);
        });
    }
}

fn check_now(cluster: &Cluster, shared: &Shared, scenario: &Scenario) {
    for instance in cluster.open.values() {
        let ctx = instance.observer.ctx(SessionKind::User, "check");
        let ledger = shared.ledger.lock();
        cluster
            .world
            .block_on_for(STUCK, check::everything(&ctx, instance, &ledger, scenario.accounts))
            .unwrap_or_else(|| panic!("the check hangs on instance {}", instance.me))
            .unwrap_or_else(|e| panic!("the check fails on instance {}: {e}", instance.me));
    }
}

/// Lets the clients finish what they do.
fn quiesce(cluster: &Cluster, shared: &Shared) {
    shared.stop.store(true, Ordering::SeqCst);
    let running = || shared.running.load(Ordering::SeqCst) == 0;
    if !cluster.world.run_until(STUCK, running) {
        cluster.print_alerts();
        panic!("clients hang at the end");
    }
}

/// Runs the scenario from one seed.
///
/// # Panics
/// When a property does not hold, or something hangs: the seed has found a bug.
#[must_use]
pub fn run(seed: u64, scenario: &Scenario) -> Report {
    let mut cluster = Cluster::create(seed, SimConfig::default(), scenario.instances);
    let cache = scenario.cache_blocks * block::BLOCK_BYTES;
    cluster.settings.push(("db_cache_size", cache.max(1 << 20).to_string()));
    for k in 1..=scenario.instances {
        cluster.start(k);
    }
    let first = cluster.any().clone();
    let ctx = first.observer.ctx(SessionKind::User, "set up");
    cluster
        .world
        .block_on_for(STUCK, bank::set_up(&ctx, &first, scenario.accounts))
        .expect("set-up does not hang")
        .unwrap_or_else(|e| panic!("set-up fails: {e}"));
    drop((first, ctx));
    let shared = Arc::new(Shared {
        ledger: Mutex::default(),
        next_id: AtomicI64::new(1),
        stop: AtomicBool::new(false),
        running: AtomicU64::new(0),
        looks: AtomicU64::new(0),
    });
    for instance in cluster.open.values() {
        spawn_clients(instance, &shared, scenario);
    }
    let mut crashes = scenario.crashes;
    let mut blackouts = scenario.blackouts;
    while crashes + blackouts > 0 {
        let calm = cluster.world.random() % scenario.calm_us.max(1);
        cluster.world.run_for(Duration::from_micros(calm));
        let all = cluster.world.random() % u64::from(crashes + blackouts) < u64::from(blackouts);
        let mut victims: Vec<u8> = cluster.open.keys().copied().collect();
        if all {
            blackouts -= 1;
        } else {
            crashes -= 1;
            let pick = cluster.world.random() % victims.len() as u64;
            victims = vec![victims[usize::try_from(pick).expect("small")]];
        }
        for &k in &victims {
            cluster.crash(k);
            shared.running.fetch_sub(u64::from(scenario.clients_per_instance), Ordering::SeqCst);
        }
        let calm = cluster.world.random() % (scenario.calm_us / 4).max(1);
        cluster.world.run_for(Duration::from_micros(calm));
        for &k in &victims {
            cluster.start(k);
            spawn_clients(&cluster.open[&k].clone(), &shared, scenario);
        }
    }
    cluster.world.run_for(Duration::from_micros(scenario.calm_us));
    quiesce(&cluster, &shared);
    check_now(&cluster, &shared, scenario);
    let keys: Vec<u8> = cluster.open.keys().copied().collect();
    for k in keys {
        cluster.stop(k);
    }
    cluster.start(1);
    check_now(&cluster, &shared, scenario);
    cluster.stop(1);
    let ledger = shared.ledger.lock();
    Report {
        trace_hash: cluster.world.trace_hash(),
        acknowledged: ledger.acknowledged.len(),
        unknown: ledger.unknown.len(),
        refused: ledger.refused.len(),
        deadlocks: ledger.deadlocks,
        looks: shared.looks.load(Ordering::SeqCst),
        virtual_us: cluster.world.now().0,
    }
}
