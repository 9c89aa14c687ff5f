//! What happens to a cluster in a run.

use std::collections::BTreeSet;
use std::time::Duration;

use block::{BLOCK_BYTES, Dba, InstanceNo};
use disk::{Group, Options};
#[cfg(feature = "marks")]
use env::marks::Mark;
use env::simulated::{DiskFault, FaultKind};

use crate::cluster::STUCK;
use crate::scenario::Run;

/// One kind of event, as scenario files name it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fault {
    /// A single instance is killed.
    Crash,
    /// A single instance is killed after some polls of its tasks: at any await.
    CrashAtAwait,
    /// A single instance is killed with one of its disk writes in flight.
    CrashAtWrite,
    /// Whoever comes to one of the rare places of the code (`env::marks`) is killed there.
    CrashAtMark,
    /// An instance is killed, and whoever comes to a chosen step of its recovery, too.
    CrashInRecovery,
    /// All instances at once.
    Blackout,
    /// A clean stop of a single instance, its clients gone before: it leaves, and joins again.
    Stop,
    /// Two instances, the second while the first is being recovered.
    DoubleCrash,
    /// An instance stands still until the others have put it out. By locks it is dead then; by
    /// leases it wakes later.
    Pause,
    /// An instance cannot reach the arbiter that keeps its lease, until it has ended.
    ArbiterCut,
    /// Some questions to the arbiter, and some answers, are lost or late for a while, in which an
    /// instance may die; some may end for that.
    ArbiterTrouble,
    /// One message task of an instance hangs until it has been put out.
    Hang,
    /// Nothing passes between two instances until one has been put out.
    Cut,
    /// Nothing passes from one instance to another until one has been put out.
    CutOneWay,
    /// An instance is killed, and what it has last said to another one arrives when the membership
    /// has changed.
    LateWords,
    /// The disks are slow for one instance.
    SlowDisk,
    /// The log of one instance stands still for a while, whoever writes it; half of the time that
    /// is the end of the instance.
    LogStall,
    /// Messages take up to twenty milliseconds.
    Delay,
    /// The wall clock of one instance jumps, forward or back.
    ClockJump,
    /// Some reads of one instance fail.
    ReadErrors,
    /// Some reads of one instance end early.
    ShortReads,
}

impl Fault {
    pub const ALL: [Fault; 21] = [
        Fault::Crash,
        Fault::CrashAtAwait,
        Fault::CrashAtWrite,
        Fault::CrashAtMark,
        Fault::CrashInRecovery,
        Fault::Blackout,
        Fault::Stop,
        Fault::DoubleCrash,
        Fault::Pause,
        Fault::ArbiterCut,
        Fault::ArbiterTrouble,
        Fault::Hang,
        Fault::Cut,
        Fault::CutOneWay,
        Fault::LateWords,
        Fault::SlowDisk,
        Fault::LogStall,
        Fault::Delay,
        Fault::ClockJump,
        Fault::ReadErrors,
        Fault::ShortReads,
    ];

    /// As scenario files name how many there are.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Fault::Crash => "crashes",
            Fault::CrashAtAwait => "crashes_at_an_await",
            Fault::CrashAtWrite => "crashes_at_a_write",
            Fault::CrashAtMark => "crashes_at_a_mark",
            Fault::CrashInRecovery => "crashes_in_recovery",
            Fault::Blackout => "blackouts",
            Fault::Stop => "stops",
            Fault::DoubleCrash => "double_crashes",
            Fault::Pause => "pauses",
            Fault::ArbiterCut => "arbiter_cuts",
            Fault::ArbiterTrouble => "arbiter_troubles",
            Fault::Hang => "hangs",
            Fault::Cut => "cuts",
            Fault::CutOneWay => "one_way_cuts",
            Fault::LateWords => "late_words",
            Fault::SlowDisk => "slow_disks",
            Fault::LogStall => "log_stalls",
            Fault::Delay => "delays",
            Fault::ClockJump => "clock_jumps",
            Fault::ReadErrors => "read_errors",
            Fault::ShortReads => "short_reads",
        }
    }

    /// Whether it takes a build that counts marks.
    #[must_use]
    pub const fn needs_marks(self) -> bool {
        matches!(self, Fault::CrashAtMark | Fault::CrashInRecovery)
    }

    /// Whether it takes lives that hang on leases.
    #[must_use]
    pub const fn needs_leases(self) -> bool {
        matches!(self, Fault::ArbiterCut | Fault::ArbiterTrouble)
    }

    /// Whether it takes two instances.
    #[must_use]
    pub const fn needs_two(self) -> bool {
        matches!(
            self,
            Fault::DoubleCrash
                | Fault::CrashInRecovery
                | Fault::Pause
                | Fault::Hang
                | Fault::Cut
                | Fault::CutOneWay
                | Fault::LateWords
        )
    }
}

/// Of the polls of an instance's tasks, so many at most until it is killed.
const POLLS_MAX: u64 = 20_000;
/// Of the writes of an instance, so many at most until it is killed.
const WRITES_MAX: u64 = 200;
/// How often a place is passed, at most, until somebody is killed there.
#[cfg(feature = "marks")]
const PASSES_MAX: u32 = 3;
/// How long an instance that should have ended may go on without its membership task.
const ZOMBIE_ACTS: Duration = Duration::from_millis(20);
/// How likely a read of a disk that fails does so.
const READ_FAILS: f64 = 0.02;

impl Run<'_> {
    /// One fault and the return from it.
    pub(crate) fn fault(&mut self, fault: Fault) {
        for &k in self.cluster.open.keys() {
            assert!(self.cluster.world.is_alive(k), "instance {k} has ended itself");
        }
        let open: Vec<u8> = self.cluster.open.keys().copied().collect();
        let one = open[self.pick(open.len())];
        let victims = match fault {
            Fault::Crash => vec![one],
            Fault::CrashAtAwait => self.crash_at_await(one),
            Fault::CrashAtWrite => {
                let writes = 1 + self.cluster.world.random() % WRITES_MAX;
                self.crash_at_write(one, writes)
            }
            Fault::CrashAtMark => self.crash_at_mark(),
            Fault::CrashInRecovery => self.crash_in_recovery(one),
            Fault::Blackout => open,
            Fault::Stop => {
                let clients = self.take_clients(one);
                clients.finish(&self.cluster, self.scenario.points);
                self.cluster.stop(one);
                vec![one]
            }
            Fault::DoubleCrash => self.double_crash(one),
            Fault::Pause if self.scenario.lease.is_some() => self.pause_past_lease(one),
            Fault::Pause => self.pause(one),
            Fault::ArbiterCut => self.arbiter_cut(one),
            Fault::ArbiterTrouble => self.arbiter_trouble(one),
            Fault::Hang => self.hang(one),
            Fault::Cut => self.cut(one, false),
            Fault::CutOneWay => self.cut(one, true),
            Fault::LateWords => self.late_words(one),
            Fault::SlowDisk => self.disk_fault(one, FaultKind::SlowUs(20_000), 0.3),
            Fault::ReadErrors => self.disk_fault(one, FaultKind::ReadError, READ_FAILS),
            Fault::ShortReads => self.disk_fault(one, FaultKind::ShortRead, READ_FAILS),
            Fault::LogStall => self.log_stall(one),
            Fault::Delay => self.delay(),
            Fault::ClockJump => self.clock_jump(one),
        };
        for &k in &victims {
            if self.clients.iter().any(|c| c.k == k) {
                self.take_clients(k);
                self.cluster.crash(k);
            }
        }
        if self.cluster.open.is_empty() {
            self.cluster.check_disks("after all instances have ended");
        }
        self.calm(self.scenario.calm_us / 4);
        for &k in &victims {
            self.start_with_clients(k);
        }
    }

    /// The first instance dies at its write of that number since the load began.
    pub(crate) fn crash_in_turn(&mut self, write: u64) {
        for k in self.crash_at_write(1, write.max(1)) {
            self.take_clients(k);
            self.cluster.crash(k);
            self.start_with_clients(k);
        }
    }

    fn crash_at_await(&mut self, k: u8) -> Vec<u8> {
        let polls = 1 + self.cluster.world.random() % POLLS_MAX;
        self.cluster.world.crash_after_polls(k, polls);
        let dead = || !self.cluster.world.is_alive(k);
        assert!(self.cluster.world.run_until(STUCK, dead), "instance {k} does nothing any more");
        vec![k]
    }

    /// Kills `k` with its so-manieth write from now on in flight. One that has nothing to write for
    /// long is let live.
    pub(crate) fn crash_at_write(&mut self, k: u8, writes: u64) -> Vec<u8> {
        self.cluster.world.crash_at_write(k, Some(writes));
        self.cluster.world.run_until(STUCK / 4, || !self.cluster.world.is_alive(k));
        if self.cluster.world.is_alive(k) {
            self.cluster.world.crash_at_write(k, None);
        }
        self.ended()
    }

    #[cfg(feature = "marks")]
    fn crash_at_mark(&mut self) -> Vec<u8> {
        let mark = Mark::ALL[self.pick(Mark::ALL.len())];
        let passes = 1 + u32::try_from(self.pick(PASSES_MAX as usize)).expect("few");
        env::marks::end_at(Some((mark, passes)));
        let all = self.cluster.open.keys().copied().collect::<Vec<_>>();
        let limit = Duration::from_micros(4 * self.scenario.calm_us);
        let somebody = || all.iter().any(|k| !self.cluster.world.is_alive(*k));
        self.cluster.world.run_until(limit, somebody);
        env::marks::end_at(None);
        self.ended()
    }

    #[cfg(feature = "marks")]
    fn crash_in_recovery(&mut self, first: u8) -> Vec<u8> {
        let steps = |m: &&Mark| m.name().starts_with("recovery.") || m.name().starts_with("epoch.");
        let steps: Vec<Mark> = Mark::ALL.iter().filter(steps).copied().collect();
        let mark = steps[self.pick(steps.len())];
        self.cluster.world.crash(first);
        env::marks::end_at(Some((mark, 1)));
        let others = self.others(first);
        let somebody = || others.iter().any(|k| !self.cluster.world.is_alive(*k));
        self.cluster.world.run_until(self.scenario.misscount * 4, somebody);
        env::marks::end_at(None);
        self.ended()
    }

    #[cfg(not(feature = "marks"))]
    fn crash_at_mark(&mut self) -> Vec<u8> {
        unreachable!("a scenario with it is refused")
    }

    #[cfg(not(feature = "marks"))]
    fn crash_in_recovery(&mut self, _: u8) -> Vec<u8> {
        unreachable!("a scenario with it is refused")
    }

    /// Kills `first`, and another one, most likely the one that recovers it, at about the same
    /// time.
    fn double_crash(&mut self, first: u8) -> Vec<u8> {
        let others = self.others(first);
        self.cluster.world.crash(first);
        self.calm(50_000);
        let second = if self.pick(2) == 0 { others[0] } else { others[self.pick(others.len())] };
        self.cluster.world.crash(second);
        vec![first, second]
    }

    fn others(&self, k: u8) -> Vec<u8> {
        self.cluster.open.keys().copied().filter(|other| *other != k).collect()
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

    /// Stops `k` from running until the others have gone on without it for a while, and lets it
    /// wake: it must say and write nothing that is not true any more, and end.
    fn pause_past_lease(&mut self, k: u8) -> Vec<u8> {
        self.cluster.world.pause(k);
        let others = self.others(k);
        let out = || {
            let without =
                |i: &u8| !self.cluster.open[i].node.view().members.contains(&InstanceNo(k));
            others.iter().all(|i| !self.cluster.world.is_alive(*i) || without(i))
        };
        if !self.cluster.world.run_until(STUCK, out) {
            self.cluster.print_alerts();
            panic!("no epoch begins without instance {k}");
        }
        self.calm(self.scenario.calm_us);
        // What could end it wakes last, half of the time.
        if self.pick(2) == 0 {
            self.cluster.world.hold_tasks(k, "membership");
        }
        self.cluster.world.resume(k);
        self.cluster.world.run_for(ZOMBIE_ACTS);
        self.cluster.world.release_tasks(k);
        self.cluster.world.run_for(Duration::from_millis(1));
        self.gone(&[k])
    }

    fn arbiter_cut(&mut self, k: u8) -> Vec<u8> {
        self.cluster.world.cut_arbiter(k, true);
        self.cluster.world.run_until(STUCK, || !self.cluster.world.is_alive(k));
        let gone = self.gone(&[k]);
        self.cluster.world.cut_arbiter(k, false);
        gone
    }

    fn arbiter_trouble(&mut self, k: u8) -> Vec<u8> {
        let probability = [0.02, 0.1, 0.3][self.pick(3)];
        self.cluster.world.set_arbiter_trouble(probability);
        self.calm(self.scenario.calm_us);
        match self.pick(3) {
            0 => self.cluster.world.crash(k),
            // Not for as long as the others put up with, mostly.
            1 => {
                self.cluster.world.pause(k);
                self.cluster.world.run_for(self.scenario.misscount.mul_f64(0.6));
                self.cluster.world.resume(k);
            }
            _ => {}
        }
        self.cluster.world.run_for(self.scenario.misscount * 4);
        self.cluster.world.set_arbiter_trouble(0.0);
        // What is under way may still put somebody out.
        self.cluster.world.run_for(self.scenario.misscount * 4);
        self.ended()
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
    fn cut(&mut self, a: u8, one_way: bool) -> Vec<u8> {
        let others = self.others(a);
        let b = others[self.pick(others.len())];
        if one_way {
            self.cluster.world.cut_one_way(a, b);
        } else {
            self.cluster.world.cut(a, b);
        }
        let out = || !self.cluster.world.is_alive(a) || !self.cluster.world.is_alive(b);
        self.cluster.world.run_until(STUCK, out);
        let gone = self.gone(&[a, b]);
        self.cluster.world.heal(a, b);
        gone
    }

    fn late_words(&mut self, k: u8) -> Vec<u8> {
        let others = self.others(k);
        let to = others[self.pick(others.len())];
        self.cluster.world.cut_one_way(k, to);
        self.calm(5000);
        self.cluster.world.crash(k);
        // Longer than recovery takes, mostly.
        self.calm(300_000);
        self.cluster.world.heal(k, to);
        self.calm(20_000);
        vec![k]
    }

    /// Those of `suspects` that have ended; the run has failed if none has.
    fn gone(&self, suspects: &[u8]) -> Vec<u8> {
        let gone: Vec<u8> = self.ended().into_iter().filter(|k| suspects.contains(k)).collect();
        if gone.is_empty() {
            self.cluster.print_alerts();
            panic!("none of {suspects:?} has been put out");
        }
        gone
    }

    /// Instances that have ended and have not been started again.
    fn ended(&self) -> Vec<u8> {
        let open = self.cluster.open.keys().copied();
        open.filter(|k| !self.cluster.world.is_alive(*k)).collect()
    }

    /// The disks of `k` misbehave for a while; it may end itself for that.
    fn disk_fault(&mut self, k: u8, kind: FaultKind, probability: f64) -> Vec<u8> {
        let path_contains = "/luns/".to_owned();
        let fault = DiskFault { instance: Some(k), path_contains, kind, probability };
        self.cluster.world.set_fault(fault);
        self.calm(self.scenario.calm_us);
        self.cluster.world.clear_faults();
        self.ended()
    }

    fn log_stall(&mut self, k: u8) -> Vec<u8> {
        self.cluster.world.hold_tasks(k, "LGWR");
        // Nobody may take it for one that hangs.
        let limit = self.scenario.misscount / 3;
        let limit_us = u64::try_from(limit.as_micros()).expect("some seconds");
        // Sessions write redo themselves.
        self.cluster.world.set_fault(DiskFault {
            instance: Some(k),
            path_contains: "/luns/".to_owned(),
            kind: FaultKind::SlowWritesUs(limit_us),
            probability: 1.0,
        });
        self.calm(limit_us);
        self.cluster.world.clear_faults();
        if self.pick(2) == 0 {
            // What it was about to write has been seen by nobody.
            self.cluster.world.crash(k);
        }
        self.cluster.world.release_tasks(k);
        self.ended()
    }

    fn delay(&mut self) -> Vec<u8> {
        self.cluster.world.set_net_delay((500, 20_000));
        self.calm(self.scenario.calm_us);
        self.cluster.world.set_net_delay(self.scenario.world().net_delay_us);
        self.ended()
    }

    fn clock_jump(&mut self, k: u8) -> Vec<u8> {
        let by_us = i64::try_from(self.cluster.world.random() % 7_200_000_000).expect("two hours");
        self.cluster.world.jump_wall_clock(k, by_us - 3_600_000_000);
        self.ended()
    }

    /// Flips a bit of some blocks, or writes one where another belongs, on disks that nobody uses:
    /// no redundancy is left that could repair it, but it must be found. Then all is put right.
    pub(crate) fn rot(&mut self, times: u32) {
        for _ in 0..times {
            let (dba, other) = self.two_blocks();
            let whole = self.read(dba);
            let mut b = if self.pick(3) == 0 { self.read(other) } else { whole.clone() };
            if b == whole || b.iter().all(|x| *x == 0) {
                b.clone_from(&whole);
                let bit = self.pick(BLOCK_BYTES * 8);
                b[bit / 8] ^= 1 << (bit % 8);
            }
            self.write(dba, &b);
            let report = self.cluster.look_at_disks();
            let found: BTreeSet<Dba> = report.damage.iter().map(|f| f.dba).collect();
            let free = report.counts.damaged_free_blocks > 0;
            assert!(found.contains(&dba) || free, "damage of block {dba} is not found: {found:?}");
            self.write(dba, &whole);
        }
    }

    /// Two different blocks with something in them.
    fn two_blocks(&self) -> (Dba, Dba) {
        let file = kernel::space::DATA_FILE;
        let one = || {
            for _ in 0..10_000 {
                let dba = Dba::new(file, u32::try_from(self.pick(1024)).expect("few"));
                if self.read(dba).iter().any(|x| *x != 0) {
                    return dba;
                }
            }
            panic!("the data file is empty")
        };
        let first = one();
        loop {
            let second = one();
            if second != first {
                return (first, second);
            }
        }
    }

    fn on_disk<T>(&self, work: impl AsyncFnOnce(&Group) -> disk::Result<T>) -> T {
        let env = self.cluster.world.restart_env(201);
        let work = async {
            let group = Group::open_with(&env, &self.cluster.dir, Options::default()).await?;
            work(&group).await
        };
        let done = self.cluster.world.block_on_for(STUCK, work);
        self.cluster.world.crash(201);
        done.expect("disks answer").expect("disks work")
    }

    fn read(&self, dba: Dba) -> Vec<u8> {
        self.on_disk(async |group| Ok(group.read_block(dba).await?.to_vec()))
    }

    fn write(&self, dba: Dba, b: &[u8]) {
        let b = env::IoBuf::copy_from(b);
        self.on_disk(async move |group| group.write_block(dba, b).await);
    }
}
