//! Clusters of three in the simulator, each instance with a small stand-in for the kernel.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use block::InstanceNo;
use env::simulated::{DiskFault, FaultKind, SimConfig, SimWorld};
use env::{Env, Lane};
use parking_lot::Mutex;
use tokio::sync::mpsc;

use crate::voting::{Life, VotingFile};
use crate::*;

mod leases;
mod links;
mod parts;
mod probe;

const SECRET: [u8; 32] = [7; 32];

fn path() -> &'static Path {
    Path::new("/db/voting")
}

fn life(instance: u8, incarnation: u64) -> Life {
    Life { instance: InstanceNo(instance), incarnation }
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    /// Instance, epoch, members, departed.
    Epoch(u8, u64, Vec<Life>, Vec<Life>),
    Linked(u8, u64),
    Evicted(u8),
    PutOut(u8, String),
    Stuck(u8),
}

/// All that the stand-in kernels report, with the time.
type Log = Arc<Mutex<Vec<(u64, Seen)>>>;

/// Messages received: by whom, from whom, what.
type Mail = Arc<Mutex<Vec<(u8, u8, Vec<u8>)>>>;

type Nets = Arc<Mutex<std::collections::BTreeMap<u8, Arc<Interconnect>>>>;

type Memberships = Arc<Mutex<std::collections::BTreeMap<u8, Membership>>>;

/// What lives hang on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Locks of the voting file.
    File,
    /// Leases; each instance has a host of its own.
    Lease,
}

const LEASE: Duration = Duration::from_millis(1000);

/// Every seed with both.
fn both(seeds: std::ops::Range<u64>) -> impl Iterator<Item = (Kind, u64)> {
    seeds.flat_map(|seed| [(Kind::File, seed), (Kind::Lease, seed)])
}

struct Cluster {
    kind: Kind,
    world: SimWorld,
    log: Log,
    /// The interconnects of the living, by instance.
    nets: Nets,
    memberships: Memberships,
    mail: Mail,
}

fn quick(kind: Kind) -> (MembershipConfig, InterconnectConfig) {
    let membership = MembershipConfig {
        lease: (kind == Kind::Lease).then_some(LEASE),
        heartbeat: Duration::from_millis(100),
        misscount: Duration::from_millis(1000),
        ..MembershipConfig::default()
    };
    let interconnect = InterconnectConfig {
        ping: Duration::from_millis(100),
        silence: Duration::from_millis(600),
        ..InterconnectConfig::default()
    };
    (membership, interconnect)
}

impl Cluster {
    fn new(kind: Kind, seed: u64) -> Cluster {
        let world = SimWorld::new(seed, SimConfig::default());
        match kind {
            Kind::File => {
                let env = world.env(9);
                world.block_on(VotingFile::create(&env, path(), 4, true)).unwrap();
            }
            Kind::Lease => world.set_hosts_apart(),
        }
        Cluster {
            kind,
            world,
            log: Log::default(),
            nets: Arc::default(),
            memberships: Arc::default(),
            mail: Arc::default(),
        }
    }

    fn start(&self, env: Env, instance: u8) {
        let (log, nets, mail) = (self.log.clone(), self.nets.clone(), self.mail.clone());
        let (kind, memberships) = (self.kind, self.memberships.clone());
        env.clone().spawn_task("kernel", Lane::Background, async move {
            kernel(env, kind, InstanceNo(instance), log, nets, memberships, mail).await;
        });
    }

    /// A cluster of instances 1 to `count`, all linked.
    fn formed(seed: u64, count: u8) -> Cluster {
        Cluster::formed_by(Kind::File, seed, count)
    }

    fn formed_by(kind: Kind, seed: u64, count: u8) -> Cluster {
        let cluster = Cluster::new(kind, seed);
        for i in 1..=count {
            cluster.start(cluster.world.env(i), i);
        }
        let all: Vec<u8> = (1..=count).collect();
        assert!(cluster.settled(&all, Duration::from_secs(5)), "{:?}", cluster.log.lock());
        cluster
    }

    /// What is written down of the cluster.
    fn view(&self) -> VotingView {
        let env = self.world.env(9);
        let view = async {
            match self.kind {
                Kind::File => voting::read(&env, path(), true).await,
                Kind::Lease => lease::read(&env).await,
            }
        };
        self.world.block_on(view).unwrap()
    }

    /// Whether an instance can do no more harm: its process is gone, or the storage refuses it.
    fn is_harmless(&self, instance: u8) -> bool {
        !self.world.is_alive(instance) || self.world.is_fenced(instance)
    }

    fn epoch_of(&self, instance: u8) -> Option<(u64, Vec<u8>)> {
        self.log.lock().iter().rev().find_map(|(_, s)| match s {
            Seen::Epoch(i, epoch, members, _) if *i == instance => {
                Some((*epoch, members.iter().map(|m| m.instance.0).collect()))
            }
            _ => None,
        })
    }

    /// Runs until exactly `members` share one epoch, the one that is written down, live, and are
    /// linked in it. What waits for leases may take as long as they last.
    fn settled(&self, members: &[u8], limit: Duration) -> bool {
        let limit = if self.kind == Kind::Lease { limit + 3 * LEASE } else { limit };
        let end = self.world.now().0 + limit.as_micros() as u64;
        while self.world.now().0 < end {
            if self.agree(members) {
                let view = self.view();
                let epoch = self.epoch_of(members[0]).map(|(e, _)| e);
                let lives = |l: &Life| view.is_alive(*l) && !view.is_expired(l.instance);
                if Some(view.control.epoch) == epoch && view.control.members.iter().all(lives) {
                    return true;
                }
            }
            self.world.run_for(Duration::from_millis(1));
        }
        false
    }

    fn seen(&self, what: &Seen) -> bool {
        self.log.lock().iter().any(|(_, s)| s == what)
    }

    fn agree(&self, members: &[u8]) -> bool {
        let Some((epoch, who)) = self.epoch_of(members[0]) else { return false };
        let linked = |i: u8| self.seen(&Seen::Linked(i, epoch));
        who == members
            && members.iter().all(|i| linked(*i))
            && members.iter().all(|i| self.epoch_of(*i).is_some_and(|(e, _)| e == epoch))
    }

    /// One membership an epoch, whoever announces it; epochs of an instance grow.
    fn check(&self) {
        let log = self.log.lock();
        let mut epochs = std::collections::BTreeMap::new();
        for (_, seen) in log.iter() {
            if let Seen::Epoch(_, epoch, members, _) = seen {
                let known = epochs.entry(*epoch).or_insert_with(|| members.clone());
                assert_eq!(known, members, "two memberships in epoch {epoch}");
            }
        }
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.check();
        }
    }
}

/// What a kernel does with membership and interconnect, without the kernel.
async fn kernel(
    env: Env,
    kind: Kind,
    me: InstanceNo,
    log: Log,
    nets: Nets,
    memberships: Memberships,
    mail: Mail,
) {
    let (membership_config, net_config) = quick(kind);
    let claim = loop {
        // Words of the arbiter may get lost: then again, as one who starts it would.
        match Claim::take_as(&env, path(), me, true, &membership_config).await {
            Ok(claim) => break claim,
            Err(e) => assert!(kind == Kind::Lease, "{e}"),
        }
    };
    let started =
        Interconnect::start(&env, me, claim.incarnation(), SECRET, "127.0.0.1:0", net_config);
    let Started { interconnect: net, inboxes, mut broken } = started.await.unwrap();
    for mut inbox in inboxes {
        let mail = mail.clone();
        env.spawn_task("inbox", Lane::Serve, async move {
            while let Some(m) = inbox.recv().await {
                mail.lock().push((me.0, m.from.0, m.payload));
            }
        });
    }
    nets.lock().insert(me.0, net.clone());
    let (tx, mut rx) = mpsc::channel(16);
    let membership = Membership::start(claim, net.addr(), "", membership_config, tx).unwrap();
    membership.probe_through(&net);
    memberships.lock().insert(me.0, membership.clone());
    let epoch = Arc::new(Mutex::new(0));
    let (reporter, current) = (membership.clone(), epoch.clone());
    env.spawn_task("broken", Lane::Background, async move {
        while let Some(peer) = broken.recv().await {
            let epoch = *current.lock();
            reporter.report_broken(peer.instance, epoch);
        }
    });
    while let Some(event) = rx.recv().await {
        let now = env.now().0;
        match event {
            MembershipEvent::Joined(r) | MembershipEvent::Reconfigured(r) => {
                let lives = r.members.iter().map(|m| life(m.instance.0, m.incarnation)).collect();
                *epoch.lock() = r.epoch;
                log.lock().push((now, Seen::Epoch(me.0, r.epoch, lives, r.departed.clone())));
                for gone in &r.departed {
                    net.close_peer(gone.instance);
                }
                let (net, membership, log) = (net.clone(), membership.clone(), log.clone());
                env.spawn_task("connect all", Lane::Background, async move {
                    match net.connect_members(r.epoch, &r.members).await {
                        Ok(()) => {
                            log.lock().push((now, Seen::Linked(me.0, r.epoch)));
                            membership.epoch_done(r.epoch);
                            membership.set_open();
                        }
                        Err(ConnectError::Unreachable(peer)) => {
                            membership.report_broken(peer, r.epoch);
                        }
                        Err(ConnectError::Superseded) => {}
                    }
                });
            }
            MembershipEvent::Evicted { reason } => {
                log.lock().push((now, Seen::Evicted(me.0)));
                env.abort_instance(&reason);
            }
            MembershipEvent::PutOut { instance, why } => {
                log.lock().push((now, Seen::PutOut(instance.0, why)));
            }
            MembershipEvent::LockStuck { instance, .. } => {
                log.lock().push((now, Seen::Stuck(instance.0)));
            }
        }
    }
}

#[test]
fn three_instances_form_one_cluster_and_can_talk() {
    for (kind, seed) in both(0..10) {
        let cluster = Cluster::formed_by(kind, seed, 3);
        let nets = cluster.nets.lock().clone();
        for from in 1..=3_u8 {
            for to in (1..=3).filter(|to| *to != from) {
                for n in 0..20 {
                    let class = Class::ALL[usize::from(n % 4)];
                    nets[&from].send(InstanceNo(to), class, vec![n]).unwrap();
                }
            }
        }
        cluster.world.run_for(Duration::from_millis(50));
        let mail = cluster.mail.lock().clone();
        assert_eq!(mail.len(), 120);
        for class in 0..4_u8 {
            let one: Vec<u8> = mail
                .iter()
                .filter(|(by, from, what)| (*by, *from) == (3, 1) && what[0] % 4 == class)
                .map(|(_, _, what)| what[0])
                .collect();
            assert_eq!(one, [class, class + 4, class + 8, class + 12, class + 16], "in order");
        }
        let to_two = nets[&1].counters().into_iter().find(|c| c.instance == 2).unwrap();
        assert_eq!((to_two.sent_messages, to_two.sent_bytes), (20, 20));
        assert_eq!((to_two.received_messages, to_two.received_bytes), (20, 20));
    }
}

#[test]
fn an_instance_alone_sends_nothing() {
    let cluster = Cluster::formed(1, 1);
    cluster.world.run_for(Duration::from_secs(5));
    assert_eq!(cluster.nets.lock()[&1].counters(), []);
    assert_eq!(cluster.epoch_of(1), Some((1, vec![1])), "and no epoch follows");
}

#[test]
fn a_cluster_is_settled_unless_something_is_under_way() {
    let cluster = Cluster::formed(1, 2);
    let settled = || {
        let membership = cluster.memberships.lock()[&1].clone();
        let view = cluster.world.block_on(membership.view()).unwrap();
        membership.is_settled(&view)
    };
    cluster.world.run_for(Duration::from_secs(1));
    assert!(settled());
    cluster.start(cluster.world.env(3), 3);
    assert!(cluster.world.run_until(Duration::from_millis(100), || !settled()), "one joins");
    assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(1)));
    cluster.world.run_for(Duration::from_millis(200));
    assert!(settled());
    cluster.world.crash(2);
    assert!(!settled(), "one has gone");
    assert!(cluster.settled(&[1, 3], Duration::from_millis(200)));
    cluster.world.run_for(Duration::from_millis(200));
    assert!(settled());
}

#[test]
fn looks_are_never_rarer_than_heartbeats() {
    // A settled cluster with short times: who stands still for longer than they allow is put out.
    for heartbeat_ms in [20, 30, 60, 250] {
        let heartbeat = Duration::from_millis(heartbeat_ms);
        let config = MembershipConfig { heartbeat, ..MembershipConfig::default() };
        assert!(config.poll_settled() <= heartbeat.max(config.poll), "{heartbeat_ms}");
        assert!(config.poll_settled() >= config.poll, "{heartbeat_ms}");
    }
}

#[test]
fn a_crash_gives_the_survivors_one_new_epoch_within_50_ms() {
    for seed in 0..30 {
        let cluster = Cluster::formed(seed, 3);
        // Until nobody looks often any more, and then at any moment between two looks.
        cluster.world.run_for(Duration::from_millis(1000 + 7 * seed));
        let (before, _) = cluster.epoch_of(1).unwrap();
        let victim = (seed % 3) as u8 + 1;
        let survivors: Vec<u8> = (1..=3).filter(|i| *i != victim).collect();
        let crashed = cluster.world.now().0;
        cluster.world.crash(victim);
        assert!(cluster.settled(&survivors, Duration::from_millis(200)), "seed {seed}");
        cluster.world.run_for(Duration::from_secs(3));
        let log = cluster.log.lock();
        for i in &survivors {
            let after: Vec<_> = log
                .iter()
                .filter(|(_, s)| matches!(s, Seen::Epoch(by, e, ..) if by == i && *e > before))
                .collect();
            assert_eq!(after.len(), 1, "seed {seed}: {after:?}");
            let (at, Seen::Epoch(_, epoch, _, departed)) = after[0] else { unreachable!() };
            assert_eq!(*epoch, before + 1);
            assert_eq!(departed.iter().map(|l| l.instance.0).collect::<Vec<_>>(), [victim]);
            assert!(at - crashed < 50_000, "seed {seed}: {} us", at - crashed);
        }
    }
}

#[test]
fn a_stopped_instance_is_ended_before_the_epoch_without_it_begins() {
    for seed in 0..15 {
        let cluster = Cluster::formed(seed, 3);
        let victim = (seed % 3) as u8 + 1;
        let survivors: Vec<u8> = (1..=3).filter(|i| *i != victim).collect();
        let (before, _) = cluster.epoch_of(survivors[0]).unwrap();
        cluster.world.pause(victim);
        let gone = || {
            // Dead first, then the epoch: at no moment may the epoch be there and the process too.
            let alive = cluster.world.is_alive(victim);
            let epoch = cluster.epoch_of(survivors[0]).unwrap().0;
            assert!(!alive || epoch == before, "seed {seed}: epoch began before the death");
            !alive
        };
        assert!(cluster.world.run_until(Duration::from_secs(5), gone), "seed {seed}");
        assert!(cluster.settled(&survivors, Duration::from_secs(1)), "seed {seed}");
        let why = "its heartbeat has stopped".to_owned();
        assert!(cluster.seen(&Seen::PutOut(victim, why)), "seed {seed}");
    }
}

/// Nobody can end it (its process is out of reach), so no epoch begins without it before it wakes,
/// sees the mark and ends itself.
#[test]
fn a_stopped_instance_that_nobody_can_end_ends_itself_when_it_wakes() {
    for seed in 0..15 {
        let cluster = Cluster::formed(seed, 3);
        let victim = (seed % 3) as u8 + 1;
        let survivors: Vec<u8> = (1..=3).filter(|i| *i != victim).collect();
        let (before, _) = cluster.epoch_of(survivors[0]).unwrap();
        cluster.world.refuse_kills(true);
        cluster.world.pause(victim);
        cluster.world.run_for(Duration::from_secs(5));
        let epoch = || cluster.epoch_of(survivors[0]).unwrap().0;
        assert!(cluster.world.is_alive(victim) && epoch() == before, "seed {seed}");
        cluster.world.resume(victim);
        let gone = || {
            let alive = cluster.world.is_alive(victim);
            assert!(!alive || epoch() == before, "seed {seed}: epoch began before the death");
            !alive
        };
        assert!(cluster.world.run_until(Duration::from_millis(100), gone), "seed {seed}");
        assert!(cluster.seen(&Seen::Evicted(victim)), "seed {seed}");
        assert!(cluster.settled(&survivors, Duration::from_secs(1)), "seed {seed}");
    }
}

#[test]
fn a_stopped_observer_accuses_nobody_when_it_wakes() {
    let cluster = Cluster::formed(4, 1);
    cluster.world.pause(1);
    cluster.world.run_for(Duration::from_secs(60));
    cluster.start(cluster.world.env(2), 2);
    cluster.world.run_for(Duration::from_millis(100));
    cluster.world.resume(1);
    assert!(cluster.settled(&[1, 2], Duration::from_secs(5)), "{:?}", cluster.log.lock());
}

#[test]
fn hazard_c14_a_fast_restart_is_a_death_and_then_a_join() {
    for (kind, seed) in both(0..20) {
        let cluster = Cluster::formed_by(kind, seed, 3);
        let (before, _) = cluster.epoch_of(1).unwrap();
        cluster.world.crash(2);
        let env = cluster.world.restart_env(2);
        cluster.start(env, 2);
        let noticed = cluster.world.run_until(Duration::from_secs(5), || {
            cluster.epoch_of(1).is_some_and(|(e, _)| e > before)
        });
        assert!(noticed, "seed {seed}");
        assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(5)), "seed {seed}");
        let log = cluster.log.lock();
        let by_one: Vec<_> = log
            .iter()
            .filter_map(|(_, s)| match s {
                Seen::Epoch(1, epoch, members, departed) if *epoch > before => {
                    Some((members.clone(), departed.clone()))
                }
                _ => None,
            })
            .collect();
        assert_eq!(by_one[0], (vec![life(1, 1), life(3, 1)], vec![life(2, 1)]), "seed {seed}");
        assert_eq!(by_one[1], (vec![life(1, 1), life(2, 2), life(3, 1)], vec![]), "seed {seed}");
    }
}

#[test]
fn hazard_c4_a_broken_channel_between_the_living_is_a_new_epoch_with_new_channels() {
    for (kind, seed) in both(0..20) {
        let cluster = Cluster::formed_by(kind, seed, 3);
        let (before, _) = cluster.epoch_of(1).unwrap();
        cluster.world.break_connections(1, 3);
        let went_on = cluster.world.run_until(Duration::from_secs(5), || {
            cluster.epoch_of(2).is_some_and(|(e, _)| e > before)
        });
        assert!(went_on, "seed {seed}");
        assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(5)), "seed {seed}");
        cluster.mail.lock().clear();
        let net = cluster.nets.lock()[&1].clone();
        net.send(InstanceNo(3), Class::Blocks, vec![1]).unwrap();
        cluster.world.run_for(Duration::from_millis(20));
        assert_eq!(*cluster.mail.lock(), [(3, 1, vec![1])], "seed {seed}");
    }
}

#[test]
fn a_decider_that_stops_or_dies_at_any_moment_blocks_nobody() {
    let mut held = [0; 2];
    for (kind, seed) in both(0..60) {
        let cluster = Cluster::formed_by(kind, seed, 3);
        cluster.world.crash(3);
        if kind == Kind::Lease {
            let ended = || cluster.view().is_expired(InstanceNo(3));
            assert!(cluster.world.run_until(2 * LEASE, ended), "seed {seed}");
        }
        // Somewhere within the decision of the next epoch.
        cluster.world.run_for(Duration::from_micros(100 + seed * 40));
        let env = cluster.world.env(9);
        let locked = match kind {
            Kind::File => env.is_locked(path(), 0, 1).unwrap(),
            Kind::Lease => {
                let entries = cluster.world.block_on(env.arbiter().unwrap().read()).unwrap();
                entries.iter().any(|e| e.key == "decider")
            }
        };
        held[kind as usize] += usize::from(locked);
        if seed % 2 == 0 {
            cluster.world.pause(1);
        } else {
            cluster.world.crash(1);
        }
        assert!(cluster.settled(&[2], Duration::from_secs(10)), "seed {seed}, locked {locked}");
        assert!(cluster.is_harmless(1));
    }
    assert!(held.iter().all(|held| *held > 3), "it was held {held:?} times");
}

#[test]
fn everybody_may_crash_and_the_first_to_come_back_finds_the_others_departed() {
    for (kind, seed) in both(0..10) {
        let cluster = Cluster::formed_by(kind, seed, 3);
        for i in 1..=3 {
            cluster.world.crash(i);
        }
        let env = cluster.world.restart_env(2);
        cluster.start(env, 2);
        assert!(cluster.settled(&[2], Duration::from_secs(2)), "seed {seed}");
        {
            let log = cluster.log.lock();
            let (_, Seen::Epoch(2, _, members, departed)) =
                log.iter().rev().find(|(_, s)| matches!(s, Seen::Epoch(..))).unwrap()
            else {
                unreachable!()
            };
            assert_eq!(*members, [life(2, 2)]);
            assert_eq!(*departed, [life(1, 1), life(2, 1), life(3, 1)]);
        }
        for i in [1, 3] {
            let env = cluster.world.restart_env(i);
            cluster.start(env, i);
        }
        assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(2)), "seed {seed}");
    }
}

#[test]
fn crashes_pauses_cuts_and_restarts_at_random_leave_one_cluster() {
    for (kind, seed) in both(0..40) {
        let cluster = Cluster::formed_by(kind, seed, 3);
        for _ in 0..6 {
            let i = (cluster.world.random() % 3) as u8 + 1;
            let j = i % 3 + 1;
            match cluster.world.random() % 4 {
                0 => cluster.world.crash(i),
                1 if cluster.world.is_alive(i) => cluster.world.pause(i),
                2 => cluster.world.break_connections(i, j),
                _ => cluster.world.cut(i, j),
            }
            let wait = cluster.world.random() % 300;
            cluster.world.run_for(Duration::from_millis(wait));
        }
        for i in 1..=3 {
            cluster.world.heal(i, i % 3 + 1);
            cluster.world.resume(i);
        }
        cluster.world.run_for(Duration::from_secs(4));
        for i in 1..=3 {
            if !cluster.world.is_alive(i) {
                let env = cluster.world.restart_env(i);
                cluster.start(env, i);
            }
        }
        assert!(cluster.settled(&[1, 2, 3], Duration::from_secs(10)), "seed {seed}");
    }
}

#[test]
fn a_clean_leave_is_a_new_epoch_and_the_slot_is_free() {
    for (kind, seed) in both(5..6) {
        leave_cleanly(&Cluster::formed_by(kind, seed, 2));
    }
}

fn leave_cleanly(cluster: &Cluster) {
    let config = quick(cluster.kind).0;
    let env = cluster.world.env(3);
    let (tx, mut rx) = mpsc::channel(16);
    cluster.world.block_on(async {
        let claim = Claim::take_as(&env, path(), InstanceNo(3), true, &config).await.unwrap();
        if cluster.kind == Kind::File {
            let again = Claim::take(&env, path(), InstanceNo(3), true).await;
            assert!(matches!(again, Err(Error::AlreadyRunning { pid: 3000, .. })));
        }
        assert_eq!(claim.incarnation(), 1);
        // Listens, so that the others' links to it can be tried; it answers none of them.
        let listener = env.listen("127.0.0.1:0").await.unwrap();
        let addr = listener.local_addr();
        let membership = Membership::start(claim, &addr, "c", config, tx).unwrap();
        assert!(matches!(rx.recv().await, Some(MembershipEvent::Joined(_))));
        membership.set_open();
        env.sleep(Duration::from_millis(50)).await;
        let view = membership.view().await.unwrap();
        let slot = view.slot(InstanceNo(3)).unwrap();
        assert_eq!((slot.state, slot.client_addr.as_str()), (SlotState::Open, "c"));
        membership.leave().await.unwrap();
    });
    assert!(cluster.settled(&[1, 2], Duration::from_secs(10)));
    let view = cluster.view();
    assert!(!view.is_locked(InstanceNo(3)) && view.is_locked(InstanceNo(1)));
}

#[test]
fn an_instance_that_cannot_write_its_heartbeat_ends() {
    let cluster = Cluster::formed(6, 3);
    cluster.world.set_fault(DiskFault {
        instance: Some(2),
        path_contains: "voting".to_owned(),
        kind: FaultKind::WriteError,
        probability: 1.0,
    });
    assert!(cluster.settled(&[1, 3], Duration::from_secs(5)), "{:?}", cluster.log.lock());
    assert!(!cluster.world.is_alive(2));
}

#[test]
fn a_slow_disk_for_all_evicts_nobody() {
    let cluster = Cluster::formed(7, 3);
    let (before, _) = cluster.epoch_of(1).unwrap();
    cluster.world.set_fault(DiskFault {
        instance: None,
        path_contains: String::new(),
        kind: FaultKind::SlowUs(600_000),
        probability: 1.0,
    });
    cluster.world.run_for(Duration::from_secs(30));
    assert!((1..=3).all(|i| cluster.world.is_alive(i)));
    assert_eq!(cluster.epoch_of(1).map(|(e, _)| e), Some(before));
}

async fn listening(env: &Env, me: u8, secret: [u8; 32]) -> Started {
    let config =
        InterconnectConfig { connect: Duration::from_millis(300), ..InterconnectConfig::default() };
    Interconnect::start(env, InstanceNo(me), 1, secret, "127.0.0.1:0", config).await.unwrap()
}

fn member(net: &Interconnect, instance: u8, incarnation: u64) -> Member {
    Member { instance: InstanceNo(instance), incarnation, addr: net.addr().to_owned() }
}

#[test]
fn the_same_seed_gives_the_same_history() {
    let history = |seed| {
        let cluster = Cluster::formed(seed, 3);
        cluster.world.crash(2);
        cluster.world.run_for(Duration::from_secs(2));
        (cluster.world.trace_hash(), cluster.log.lock().clone())
    };
    assert_eq!(history(3), history(3));
    assert_ne!(history(3).0, history(4).0);
}

/// Two instances of one process on the operating system: real locks, files and sockets.
#[test]
fn two_instances_form_a_cluster_on_the_operating_system() {
    let dir = std::env::current_dir()
        .expect("the folder of the package")
        .join("../../target")
        .join(format!("cluster-test-{}", std::process::id()));
    let path = dir.join("voting");
    let (one, two) = (env::real::RealEnv::new(), env::real::RealEnv::new());
    let work = async {
        VotingFile::create(&one, &path, 2, true).await.unwrap();
        let mut nets = Vec::new();
        let mut events = Vec::new();
        for (env, me) in [(&one, 1), (&two, 2)] {
            let claim = Claim::take(env, &path, InstanceNo(me), true).await.unwrap();
            let net = listening(env, me, SECRET).await;
            let (tx, mut rx) = mpsc::channel(16);
            let config = MembershipConfig::default();
            let m = Membership::start(claim, net.interconnect.addr(), "", config, tx).unwrap();
            assert!(matches!(rx.recv().await, Some(MembershipEvent::Joined(_))));
            m.epoch_done(1);
            nets.push(net);
            events.push((m, rx));
        }
        let Some(MembershipEvent::Reconfigured(r)) = events[0].1.recv().await else {
            panic!("instance 1 hears of instance 2")
        };
        assert_eq!((r.epoch, r.joined), (2, vec![life(2, 1)]));
        let [mut a, b]: [Started; 2] = nets.try_into().ok().unwrap();
        let (x, y) = tokio::join!(
            a.interconnect.connect_members(2, &r.members),
            b.interconnect.connect_members(2, &r.members)
        );
        x.and(y).unwrap();
        let echo = b.interconnect.clone();
        let [mut inbox, ..] = b.inboxes;
        two.spawn_task("echo", Lane::Serve, async move {
            while let Some(m) = inbox.recv().await {
                echo.send(m.from, Class::Blocks, m.payload).unwrap();
            }
        });
        let mut times = Vec::new();
        for n in 1..=1000_u32 {
            let start = one.now();
            a.interconnect.send(InstanceNo(2), Class::Blocks, n.to_le_bytes().to_vec()).unwrap();
            assert_eq!(a.inboxes[0].recv().await.unwrap().payload, n.to_le_bytes());
            times.push(one.now().since(start));
        }
        times.sort_unstable();
        println!("message and answer: median {} us, 99% {} us", times[500], times[990]);
        let (leaver, _) = &events[1];
        leaver.leave().await.unwrap();
        let Some(MembershipEvent::Reconfigured(r)) = events[0].1.recv().await else {
            panic!("instance 1 hears of the leave")
        };
        assert_eq!((r.epoch, r.departed), (3, vec![life(2, 1)]));
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| runtime.block_on(work)));
    std::fs::remove_dir_all(&dir).unwrap();
    done.unwrap();
}
