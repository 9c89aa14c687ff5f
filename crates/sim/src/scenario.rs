//! One run: load, faults, checks.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::Lane;
use env::simulated::SimConfig;
use kernel::instance::Instance;
use observe::SessionKind;

use crate::bank::Bank;
use crate::cluster::{Cluster, STUCK, Sizes};
use crate::family::Family;
use crate::holders;
use crate::load::{Counts, Load};
use crate::mixed::{Mix, Mixed};

/// Longest virtual time a client may take to end what it does while others go on.
const PATIENCE: Duration = Duration::from_secs(8);

/// Between two looks at who holds what.
const LOOK_EVERY_US: u64 = 10_000;

/// What the clients do.
#[derive(Clone, Debug)]
pub enum LoadKind {
    /// Transfers between so many accounts.
    Bank(i64),
    Mixed(Mix),
    /// Foreign keys, with so many parents.
    Family(i64),
}

/// What happens in a run. Everything else comes from the seed.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub instances: u8,
    pub load: LoadKind,
    pub clients_per_instance: u8,
    /// Crashes of single instances (each is started again).
    pub crashes: u32,
    /// Crashes of all instances at once.
    pub blackouts: u32,
    /// Clean stops of single instances, with their clients gone.
    pub stops: u32,
    /// Crashes of two instances, the second while the first is being recovered.
    pub double_crashes: u32,
    /// Instances stopped from running until the others have put them out.
    pub pauses: u32,
    /// Instances of which one message task hangs until they have been put out.
    pub hangs: u32,
    /// Cuts of the network between two instances.
    pub cuts: u32,
    /// An instance that is silent for longer is put out.
    pub misscount: Duration,
    /// Of a hundred starts, so many are cut short by another crash.
    pub crashes_while_opening: u64,
    /// Virtual time between two faults, at most.
    pub calm_us: u64,
    /// Buffers of each instance.
    pub cache_blocks: usize,
    pub undo_retention_s: u64,
    pub sizes: Sizes,
}

impl Default for Scenario {
    fn default() -> Scenario {
        Scenario {
            instances: 3,
            load: LoadKind::Bank(60),
            clients_per_instance: 4,
            crashes: 3,
            blackouts: 1,
            stops: 0,
            double_crashes: 0,
            pauses: 0,
            hangs: 0,
            cuts: 0,
            misscount: Duration::from_secs(3),
            crashes_while_opening: 0,
            calm_us: 400_000,
            cache_blocks: 256,
            undo_retention_s: 900,
            sizes: Sizes::default(),
        }
    }
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub trace_hash: u64,
    pub counts: Counts,
    pub virtual_us: u64,
}

/// What ends an instance for a while.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Crash,
    Blackout,
    Stop,
    DoubleCrash,
    Pause,
    Hang,
    Cut,
}

/// The clients of one life of an instance.
struct Clients {
    k: u8,
    stop: Arc<AtomicBool>,
    running: Arc<AtomicU64>,
}

impl Clients {
    fn spawn(instance: &Arc<Instance>, load: &Arc<dyn Load>, count: u8) -> Clients {
        let clients = Clients {
            k: instance.me.0,
            stop: Arc::default(),
            running: Arc::new(AtomicU64::new(u64::from(count))),
        };
        for n in 0..count {
            let (instance, load) = (instance.clone(), load.clone());
            let (stop, running) = (clients.stop.clone(), clients.running.clone());
            let env = instance.core.env.clone();
            env.spawn_task("client", Lane::Background, async move {
                let ctx = instance.observer.ctx(SessionKind::User, "client");
                while !stop.load(Ordering::SeqCst) {
                    load.step(&ctx, &instance, n).await;
                }
                running.fetch_sub(1, Ordering::SeqCst);
            });
        }
        clients
    }

    /// Lets them finish what they do.
    fn finish(&self, cluster: &Cluster) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = || self.running.load(Ordering::SeqCst) == 0 || !cluster.world.is_alive(self.k);
        if !cluster.world.run_until(PATIENCE, ended) {
            cluster.print_alerts();
            panic!("clients of instance {} hang", self.k);
        }
        assert!(cluster.world.is_alive(self.k), "instance {} has ended itself", self.k);
    }
}

struct Run<'a> {
    scenario: &'a Scenario,
    cluster: Cluster,
    load: Arc<dyn Load>,
    clients: Vec<Clients>,
}

impl Run<'_> {
    fn start(&mut self, k: u8) {
        while self.cluster.world.random() % 100 < self.scenario.crashes_while_opening {
            let limit = Duration::from_micros(self.cluster.world.random() % 60_000);
            if self.cluster.start_or_crash(k, limit) {
                return;
            }
        }
        self.cluster.start(k);
    }

    fn start_with_clients(&mut self, k: u8) {
        self.start(k);
        let count = self.scenario.clients_per_instance;
        self.clients.push(Clients::spawn(&self.cluster.open[&k], &self.load, count));
    }

    fn set_up(&self) {
        let first = self.cluster.any().clone();
        let ctx = first.observer.ctx(SessionKind::User, "set up");
        self.cluster
            .world
            .block_on_for(STUCK, self.load.set_up(&ctx, &first))
            .expect("set-up does not hang")
            .unwrap_or_else(|e| panic!("set-up fails: {e}"));
    }

    fn check(&self) {
        holders::check(&self.cluster);
        for instance in self.cluster.open.values() {
            let ctx = instance.observer.ctx(SessionKind::User, "check");
            self.cluster
                .world
                .block_on_for(STUCK, self.load.check(&ctx, instance))
                .unwrap_or_else(|| panic!("the check hangs on instance {}", instance.me))
                .unwrap_or_else(|e| panic!("the check fails on instance {}: {e}", instance.me));
        }
    }

    fn calm(&self, limit_us: u64) {
        let mut left = self.cluster.world.random() % limit_us.max(1);
        while left > 0 {
            let some = left.min(LOOK_EVERY_US);
            self.cluster.world.run_for(Duration::from_micros(some));
            holders::check(&self.cluster);
            left -= some;
        }
    }

    fn pick(&self, n: usize) -> usize {
        usize::try_from(self.cluster.world.random() % n as u64).expect("small")
    }

    fn take_clients(&mut self, k: u8) -> Clients {
        let at = self.clients.iter().position(|c| c.k == k).expect("its clients");
        self.clients.remove(at)
    }

    /// Kills `first`, and another one, most likely the one that recovers it, at about the same
    /// time.
    fn double_crash(&mut self, first: u8) -> Vec<u8> {
        let others: Vec<u8> = self.cluster.open.keys().copied().filter(|k| *k != first).collect();
        self.cluster.world.crash(first);
        self.calm(50_000);
        let second = if self.pick(2) == 0 { others[0] } else { others[self.pick(others.len())] };
        self.cluster.world.crash(second);
        vec![first, second]
    }

    /// Stops `k` from running for longer than the others put up with. It must not go on then.
    fn pause(&mut self, k: u8) -> Vec<u8> {
        self.cluster.world.pause(k);
        let long = self.scenario.misscount * 2;
        self.cluster.world.run_for(long);
        self.cluster.world.resume(k);
        self.cluster.world.run_for(Duration::from_millis(1));
        self.gone(&[k])
    }

    /// Lets one message task of `k` hang until it has been put out; its heartbeat goes on.
    fn hang(&mut self, k: u8) -> Vec<u8> {
        let task = ["LMS0", "LMD0", "LCK0", "LMON"][self.pick(4)];
        self.cluster.world.hold_tasks(k, task);
        let limit = self.scenario.misscount * 4;
        self.cluster.world.run_until(limit, || !self.cluster.world.is_alive(k));
        self.gone(&[k])
    }

    /// Cuts the network between `a` and another instance until one of them has been put out.
    fn cut(&mut self, a: u8) -> Vec<u8> {
        let others: Vec<u8> = self.cluster.open.keys().copied().filter(|k| *k != a).collect();
        let b = others[self.pick(others.len())];
        self.cluster.world.cut(a, b);
        let out = || !self.cluster.world.is_alive(a) || !self.cluster.world.is_alive(b);
        self.cluster.world.run_until(STUCK, out);
        let gone = self.gone(&[a, b]);
        self.cluster.world.heal(a, b);
        gone
    }

    /// Those of `suspects` that have ended; the run has failed if none has.
    fn gone(&self, suspects: &[u8]) -> Vec<u8> {
        let dead = |k: &&u8| !self.cluster.world.is_alive(**k);
        let gone: Vec<u8> = suspects.iter().filter(dead).copied().collect();
        if gone.is_empty() {
            self.cluster.print_alerts();
            panic!("none of {suspects:?} has been put out");
        }
        gone
    }

    /// One fault and the return from it.
    fn fault(&mut self, fault: Fault) {
        for &k in self.cluster.open.keys() {
            assert!(self.cluster.world.is_alive(k), "instance {k} has ended itself");
        }
        let open: Vec<u8> = self.cluster.open.keys().copied().collect();
        let one = open[self.pick(open.len())];
        let victims = match fault {
            Fault::Crash => vec![one],
            Fault::Blackout => open,
            Fault::Stop => {
                let clients = self.take_clients(one);
                clients.finish(&self.cluster);
                self.cluster.stop(one);
                vec![one]
            }
            Fault::DoubleCrash => self.double_crash(one),
            Fault::Pause => self.pause(one),
            Fault::Hang => self.hang(one),
            Fault::Cut => self.cut(one),
        };
        for &k in &victims {
            if self.clients.iter().any(|c| c.k == k) {
                self.take_clients(k);
                self.cluster.crash(k);
            }
        }
        self.calm(self.scenario.calm_us / 4);
        for &k in &victims {
            self.start_with_clients(k);
        }
    }
}

/// Runs the scenario from one seed.
///
/// # Panics
/// When a property does not hold, or something hangs: the seed has found a bug.
#[must_use]
pub fn run(seed: u64, scenario: &Scenario) -> Report {
    let mut cluster =
        Cluster::create(seed, SimConfig::default(), scenario.instances, &scenario.sizes);
    let cache = scenario.cache_blocks * block::BLOCK_BYTES;
    cluster.settings.push(("db_cache_size", cache.max(1 << 20).to_string()));
    cluster.settings.push(("undo_retention", scenario.undo_retention_s.to_string()));
    cluster.membership.misscount = scenario.misscount;
    cluster.membership.heartbeat = scenario.misscount / 10;
    let load: Arc<dyn Load> = match &scenario.load {
        LoadKind::Bank(accounts) => Arc::new(Bank::new(*accounts)),
        LoadKind::Mixed(mix) => Arc::new(Mixed::new(mix.clone())),
        LoadKind::Family(parents) => Arc::new(Family::new(*parents)),
    };
    let mut run = Run { scenario, cluster, load, clients: Vec::new() };
    for k in 1..=scenario.instances {
        run.start(k);
    }
    run.set_up();
    let count = scenario.clients_per_instance;
    run.clients = run.cluster.open.values().map(|i| Clients::spawn(i, &run.load, count)).collect();
    let mut faults = Vec::new();
    for (fault, n) in [
        (Fault::Crash, scenario.crashes),
        (Fault::Blackout, scenario.blackouts),
        (Fault::Stop, scenario.stops),
        (Fault::DoubleCrash, scenario.double_crashes),
        (Fault::Pause, scenario.pauses),
        (Fault::Hang, scenario.hangs),
        (Fault::Cut, scenario.cuts),
    ] {
        faults.extend((0..n).map(|_| fault));
    }
    while !faults.is_empty() {
        run.calm(scenario.calm_us);
        let next = run.pick(faults.len());
        let fault = faults.swap_remove(next);
        run.fault(fault);
    }
    run.cluster.world.run_for(Duration::from_micros(scenario.calm_us));
    for clients in &run.clients {
        clients.stop.store(true, Ordering::SeqCst);
    }
    for clients in &run.clients {
        clients.finish(&run.cluster);
    }
    run.check();
    let keys: Vec<u8> = run.cluster.open.keys().copied().collect();
    for k in keys {
        run.cluster.stop(k);
    }
    run.start(1);
    run.check();
    run.cluster.stop(1);
    Report {
        trace_hash: run.cluster.world.trace_hash(),
        counts: run.load.counts(),
        virtual_us: run.cluster.world.now().0,
    }
}
