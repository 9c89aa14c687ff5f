//! One run: load, faults, checks.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use env::Lane;
use env::simulated::{SimConfig, SimWorld};
use global::Mutant;
use kernel::instance::Instance;
use kernel::txn::Isolation;
use observe::SessionKind;

use crate::bank::Bank;
use crate::cluster::{Cluster, STUCK, Sizes};
use crate::family::Family;
use crate::faults::Fault;
use crate::holders;
use crate::load::{Counts, Load, Together};
use crate::mixed::{Mix, Mixed};
use crate::sequences::Sequences;
use crate::told::{Lists, Registers};

/// Longest virtual time a client may take to end what it does while others go on.
const PATIENCE: Duration = Duration::from_secs(8);
/// The same where rare branches are taken, many of which are slow.
const PATIENCE_AT_POINTS: Duration = Duration::from_secs(60);

/// A cluster without faults commits something within this virtual time, however slow its disks.
const PROGRESS_WITHIN: Duration = Duration::from_secs(30);

/// Of so many seeds one has the smallest size of a kind.
const TINY_OF: u64 = 3;

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
    /// Lists that REPEATABLE READ transactions append to, so many at a time.
    Lists(i64),
    /// The same at READ COMMITTED.
    ListsCommitted(i64),
    Registers(i64),
    Sequences(i64),
    Together(Vec<LoadKind>),
}

impl LoadKind {
    fn make(&self) -> Arc<dyn Load> {
        match self {
            LoadKind::Bank(accounts) => Arc::new(Bank::new(*accounts)),
            LoadKind::Mixed(mix) => Arc::new(Mixed::new(mix.clone())),
            LoadKind::Family(parents) => Arc::new(Family::new(*parents)),
            LoadKind::Lists(open) => Arc::new(Lists::new(Isolation::RepeatableRead, *open)),
            LoadKind::ListsCommitted(open) => Arc::new(Lists::new(Isolation::ReadCommitted, *open)),
            LoadKind::Registers(open) => Arc::new(Registers::new(*open)),
            LoadKind::Sequences(count) => {
                Arc::new(Sequences::new(usize::try_from(*count).expect("a number of sequences")))
            }
            LoadKind::Together(all) => Arc::new(Together(all.iter().map(LoadKind::make).collect())),
        }
    }
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
    /// The other faults: how many of each.
    pub others: BTreeMap<Fault, u32>,
    /// Of the faults each seed takes a part: of each kind none, or up to so many.
    pub swarm: bool,
    /// Of what follows each seed takes some: 16 buffers, two entries in a block's list of
    /// transactions, a checkpoint each millisecond, no retention of undo.
    pub swarm_sizes: bool,
    /// Of the loads beside each other each seed has some, with clients up to so many.
    pub swarm_loads: bool,
    /// Some places of the code take their rare branch now and then (`env::marks`).
    pub points: bool,
    /// The load goes on until so many transactions are acknowledged.
    pub commits_at_least: usize,
    /// The first instance is killed at its write of the seed's number: seed after seed at each.
    pub crash_at_write_in_turn: bool,
    /// Damage done to the disks in the end, which a walk over them must find.
    pub rot: u32,
    /// The rule that is broken, in a build that can break rules.
    pub mutant: Option<Mutant>,
    /// An instance that is silent for longer is put out.
    pub misscount: Duration,
    /// Lives hang on leases of this length, and each instance has a host of its own.
    pub lease: Option<Duration>,
    /// Of a hundred starts, so many are cut short by another crash.
    pub crashes_while_opening: u64,
    /// Virtual time between two faults, at most.
    pub calm_us: u64,
    /// A message travels at most so long.
    pub net_delay_us: u64,
    /// Buffers of each instance.
    pub cache_blocks: usize,
    /// Entries that a block's list of transactions grows to.
    pub itl_entries_max: u8,
    /// Between two rounds of the block writer, each with a checkpoint.
    pub dbwr_interval_us: u64,
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
            others: BTreeMap::new(),
            swarm: false,
            swarm_sizes: false,
            swarm_loads: false,
            points: false,
            commits_at_least: 0,
            crash_at_write_in_turn: false,
            rot: 0,
            mutant: None,
            misscount: Duration::from_secs(3),
            lease: None,
            crashes_while_opening: 0,
            calm_us: 400_000,
            net_delay_us: SimConfig::default().net_delay_us.1,
            cache_blocks: 256,
            itl_entries_max: block::itl::ITL_ENTRIES_MAX,
            dbwr_interval_us: 100_000,
            undo_retention_s: 900,
            sizes: Sizes::default(),
        }
    }
}

impl Scenario {
    /// How many faults of each kind there are, at most if it is a swarm.
    pub(crate) fn numbers(&self) -> Vec<(Fault, u32)> {
        let mut all = vec![
            (Fault::Crash, self.crashes),
            (Fault::Blackout, self.blackouts),
            (Fault::Stop, self.stops),
            (Fault::DoubleCrash, self.double_crashes),
            (Fault::Pause, self.pauses),
            (Fault::Hang, self.hangs),
            (Fault::Cut, self.cuts),
        ];
        all.extend(self.others.iter().map(|(fault, n)| (*fault, *n)));
        all
    }

    /// As a scenario file's line would.
    pub(crate) fn set_number(&mut self, fault: Fault, count: u32) {
        match fault {
            Fault::Crash => self.crashes = count,
            Fault::Blackout => self.blackouts = count,
            Fault::Stop => self.stops = count,
            Fault::DoubleCrash => self.double_crashes = count,
            Fault::Pause => self.pauses = count,
            Fault::Hang => self.hangs = count,
            Fault::Cut => self.cuts = count,
            other => drop(self.others.insert(other, count)),
        }
    }

    /// The parameters that make an instance small: name, value, and the smallest there is.
    fn sized(&self) -> [(&'static str, u64, u64); 4] {
        let blocks = u64::try_from(self.cache_blocks).expect("a number of buffers");
        [
            ("_db_block_buffers", blocks, 16),
            ("_itl_entries_max", u64::from(self.itl_entries_max), 2),
            ("_dbwr_interval_us", self.dbwr_interval_us, 1_000),
            ("undo_retention", self.undo_retention_s, 0),
        ]
    }

    /// The world before any fault.
    pub(crate) fn world(&self) -> SimConfig {
        let config = SimConfig::default();
        SimConfig { net_delay_us: (config.net_delay_us.0, self.net_delay_us), ..config }
    }

    /// The load of a run, and its clients on each instance.
    fn loads(&self, world: &SimWorld) -> (LoadKind, u8) {
        let all = match &self.load {
            LoadKind::Together(all) if self.swarm_loads => all,
            load => return (load.clone(), self.clients_per_instance),
        };
        let below = |n: usize| {
            let drawn = world.random() % u64::try_from(n).expect("a small number");
            usize::try_from(drawn).expect("a small number")
        };
        let mut some: Vec<LoadKind> = all.iter().filter(|_| below(3) == 0).cloned().collect();
        if some.is_empty() {
            some.push(all[below(all.len())].clone());
        }
        let clients = 1 + below(usize::from(self.clients_per_instance));
        (LoadKind::Together(some), u8::try_from(clients).expect("no more than allowed"))
    }

    /// The faults of a run, in no order.
    fn faults(&self, world: &SimWorld) -> Vec<Fault> {
        let mut faults = Vec::new();
        for (fault, most) in self.numbers() {
            let mut n = most;
            if self.swarm && most > 0 {
                // Seeds differ in kind: half of them do without.
                let none = world.random().is_multiple_of(2);
                let some = world.random() % u64::from(most);
                n = if none { 0 } else { 1 + u32::try_from(some).expect("below `most`") };
            }
            if (!fault.needs_two() || self.instances > 1)
                && (!fault.needs_leases() || self.lease.is_some())
            {
                faults.extend((0..n).map(|_| fault));
            }
        }
        faults
    }
}

/// A rule is broken while this lives.
struct Broken;

impl Broken {
    #[cfg(feature = "mutants")]
    fn new(mutant: Option<Mutant>) -> Broken {
        global::mutant::choose(mutant);
        Broken
    }

    #[cfg(not(feature = "mutants"))]
    fn new(mutant: Option<Mutant>) -> Broken {
        assert!(mutant.is_none(), "this build cannot break {mutant:?}: feature `mutants`");
        Broken
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        #[cfg(feature = "mutants")]
        global::mutant::choose(None);
    }
}

/// What a run did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub trace_hash: u64,
    pub counts: Counts,
    pub virtual_us: u64,
    /// Blocks that instances have sent to each other.
    pub transfers: u64,
    /// Faults that there were.
    pub faults: usize,
}

/// The clients of one life of an instance.
pub(crate) struct Clients {
    pub k: u8,
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
    pub fn finish(&self, cluster: &Cluster, points: bool) {
        self.stop.store(true, Ordering::SeqCst);
        let ended = || self.running.load(Ordering::SeqCst) == 0 || !cluster.world.is_alive(self.k);
        let patience = if points { PATIENCE_AT_POINTS } else { PATIENCE };
        if !cluster.world.run_until(patience, ended) {
            cluster.print_alerts();
            panic!("clients of instance {} hang", self.k);
        }
        if !cluster.world.is_alive(self.k) {
            cluster.print_alerts();
            panic!("instance {} has ended itself", self.k);
        }
    }
}

/// A run of a scenario.
pub(crate) struct Run<'a> {
    pub scenario: &'a Scenario,
    pub cluster: Cluster,
    load: Arc<dyn Load>,
    pub clients: Vec<Clients>,
    /// Of each instance.
    clients_each: u8,
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

    pub fn start_with_clients(&mut self, k: u8) {
        self.start(k);
        let count = self.clients_each;
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

    pub fn calm(&self, limit_us: u64) {
        let mut left = self.cluster.world.random() % limit_us.max(1);
        while left > 0 {
            let some = left.min(LOOK_EVERY_US);
            self.cluster.world.run_for(Duration::from_micros(some));
            holders::check(&self.cluster);
            left -= some;
        }
    }

    /// Lets the load go on until it has done what the scenario asks for.
    fn wait_for_commits(&self) {
        let least = self.scenario.commits_at_least;
        let done = || self.load.counts().acknowledged;
        while done() < least {
            let before = done();
            if !self.cluster.world.run_until(PROGRESS_WITHIN, || done() > before) {
                self.cluster.print_alerts();
                panic!("no commit within {PROGRESS_WITHIN:?}, {before} so far");
            }
            self.calm(self.scenario.calm_us);
        }
    }

    pub fn pick(&self, n: usize) -> usize {
        usize::try_from(self.cluster.world.random() % n as u64).expect("small")
    }

    pub fn take_clients(&mut self, k: u8) -> Clients {
        let at = self.clients.iter().position(|c| c.k == k).expect("its clients");
        self.clients.remove(at)
    }
}

/// Runs the scenario from one seed.
///
/// # Panics
/// When a property does not hold, or something hangs: the seed has found a bug.
#[must_use]
pub fn run(seed: u64, scenario: &Scenario) -> Report {
    let _broken = Broken::new(scenario.mutant);
    #[cfg(feature = "marks")]
    env::marks::begin(seed, scenario.points);
    let mut cluster = Cluster::create(seed, scenario.world(), scenario.instances, &scenario.sizes);
    for (name, value, tiny) in scenario.sized() {
        let is_tiny = scenario.swarm_sizes && cluster.world.random().is_multiple_of(TINY_OF);
        cluster.settings.push((name, if is_tiny { tiny } else { value }.to_string()));
    }
    // Every other seed goes by messages alone, and so do those that catch the broken rules.
    let looks = scenario.mutant.is_none() && seed % 2 == 1;
    cluster.settings.push(("_gc_direct_reads", looks.to_string()));
    cluster.membership.misscount = scenario.misscount;
    cluster.membership.heartbeat = scenario.misscount / 10;
    cluster.membership.lease = scenario.lease;
    if scenario.lease.is_some() {
        cluster.world.set_hosts_apart();
    }
    if scenario.mutant == Some(Mutant::SkipFence) {
        cluster.world.forget_fences();
    }
    let (load, count) = scenario.loads(&cluster.world);
    let load = load.make();
    let mut run = Run { scenario, cluster, load, clients: Vec::new(), clients_each: count };
    for k in 1..=scenario.instances {
        run.start(k);
    }
    run.set_up();
    run.clients = run.cluster.open.values().map(|i| Clients::spawn(i, &run.load, count)).collect();
    let mut faults = scenario.faults(&run.cluster.world);
    let faults_count = faults.len() + usize::from(scenario.crash_at_write_in_turn);
    if scenario.crash_at_write_in_turn {
        run.crash_in_turn(seed);
    }
    while !faults.is_empty() {
        run.calm(scenario.calm_us);
        let next = run.pick(faults.len());
        let fault = faults.swap_remove(next);
        run.fault(fault);
    }
    run.cluster.world.run_for(Duration::from_micros(scenario.calm_us));
    run.wait_for_commits();
    for clients in &run.clients {
        clients.stop.store(true, Ordering::SeqCst);
    }
    for clients in &run.clients {
        clients.finish(&run.cluster, scenario.points);
    }
    run.check();
    let keys: Vec<u8> = run.cluster.open.keys().copied().collect();
    for k in keys {
        run.cluster.stop(k);
    }
    run.cluster.check_disks("when all instances have closed");
    run.start(1);
    run.check();
    run.cluster.stop(1);
    run.cluster.check_disks("in the end");
    run.rot(scenario.rot);
    Report {
        transfers: run.cluster.transfers(),
        faults: faults_count,
        trace_hash: run.cluster.world.trace_hash(),
        counts: run.load.counts(),
        virtual_us: run.cluster.world.now().0,
    }
}
