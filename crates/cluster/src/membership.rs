//! The membership driver: reads what the registry shows (the voting file, or an arbiter), feeds the
//! machine, does what it says.
//!
//! One task an instance. It must never wait for anything but the registry, the clock and the
//! kernel's event queue: its heartbeat is what the others judge this instance by.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use block::InstanceNo;
use env::{Env, Lane, Micros};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::Error;
use crate::interconnect::Interconnect;
use crate::lease::{Deadline, LeaseRegistry};
use crate::machine::{Action, Life, Machine, MachineConfig, MembershipEvent};
use crate::registry::{Ending, FileRegistry, Registry};
use crate::voting::{ADDR_BYTES_MAX, Control, Slot, SlotState, VotingFile, VotingView, bit};

/// Times of the membership service.
#[derive(Clone, Copy, Debug)]
pub struct MembershipConfig {
    /// Between two writes of the own slot.
    pub heartbeat: Duration,
    /// Silence after which a member is evicted.
    pub misscount: Duration,
    /// Between two looks at locks and the control record, while the membership changes.
    pub poll: Duration,
    /// The same while nothing is under way, at most a quarter of `heartbeat`. Who dies is seen
    /// sooner, by the link that breaks.
    pub poll_settled: Duration,
    /// How long a peer may take to answer a probe.
    pub probe: Duration,
    /// Lives hang on leases of this length instead of on locks of the voting file. It takes an
    /// environment with an arbiter, and storage that can refuse a writer.
    pub lease: Option<Duration>,
}

impl Default for MembershipConfig {
    fn default() -> Self {
        MembershipConfig {
            heartbeat: Duration::from_millis(250),
            misscount: Duration::from_secs(3),
            poll: Duration::from_millis(15),
            poll_settled: Duration::from_millis(60),
            probe: Duration::from_millis(700),
            lease: None,
        }
    }
}

impl MembershipConfig {
    /// Heartbeats are written, and silence is counted, from one look to the next.
    pub(crate) fn poll_settled(&self) -> Duration {
        self.poll_settled.min(self.heartbeat / 4).max(self.poll)
    }
}

/// An instance's slot, this process's own, with its incarnation raised: what must precede
/// everything else an instance does.
pub struct Claim {
    env: Env,
    registry: Arc<dyn Registry>,
    me: InstanceNo,
    slot: Slot,
    deadline: Deadline,
}

impl Claim {
    /// Takes the slot of instance `me`, by its lock in the voting file `path` or, if `config` says
    /// so, by a lease.
    ///
    /// # Errors
    /// [`Error::AlreadyRunning`] when its process lives.
    pub async fn take_as(
        env: &Env,
        path: &Path,
        me: InstanceNo,
        direct: bool,
        config: &MembershipConfig,
    ) -> Result<Claim, Error> {
        let Some(ttl) = config.lease else { return Claim::take(env, path, me, direct).await };
        let (registry, slot) = LeaseRegistry::claim(env, me, ttl).await?;
        let deadline = registry.own_deadline();
        Ok(Claim { env: env.clone(), registry: Arc::new(registry), me, slot, deadline })
    }

    /// Takes the slot of instance `me` by its lock.
    ///
    /// # Errors
    /// [`Error::AlreadyRunning`] when its process lives.
    pub async fn take(
        env: &Env,
        path: &Path,
        me: InstanceNo,
        direct: bool,
    ) -> Result<Claim, Error> {
        let file = VotingFile::open(env, path, direct).await?;
        if me.0 == 0 || me.0 > file.instances() {
            return Err(Error::NoSuchInstance(me));
        }
        let lock = file
            .lock_slot(me)
            .map_err(|e| Error::io(format!("lock the slot of instance {me}"), e))?;
        let view = file.view().await?;
        let Some(lock) = lock else {
            let pid = view.slot(me).map_or(0, |s| s.pid);
            return Err(Error::AlreadyRunning { instance: me, pid });
        };
        let slot = Slot {
            incarnation: last_incarnation(&view, me) + 1,
            state: SlotState::Joining,
            pid: env.pid(),
            pid_start: env.process_start_time(env.pid()).unwrap_or(0),
            ..Slot::default()
        };
        file.write_slot(me, &slot).await?;
        let life = Life { instance: me, incarnation: slot.incarnation };
        let registry = Arc::new(FileRegistry::new(env, life, file, lock));
        Ok(Claim { env: env.clone(), registry, me, slot, deadline: Deadline::never() })
    }

    /// Which life of the instance this is; higher than any before.
    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.slot.incarnation
    }

    #[must_use]
    pub fn instance(&self) -> InstanceNo {
        self.me
    }
}

/// The highest incarnation of `me` that anything in the file speaks of.
fn last_incarnation(view: &VotingView, me: InstanceNo) -> u64 {
    let of = |c: &Control| {
        let mine = c.members.iter().chain(&c.evicting).filter(|l| l.instance == me);
        mine.map(|l| l.incarnation).max()
    };
    [view.slot(me).map(|s| s.incarnation), of(&view.control), view.unfinished.as_ref().and_then(of)]
        .into_iter()
        .flatten()
        .max()
        .unwrap_or(0)
}

struct Shared {
    env: Env,
    me: InstanceNo,
    incarnation: u64,
    config: MembershipConfig,
    registry: Arc<dyn Registry>,
    deadline: Deadline,
    machine: Mutex<Machine>,
    /// Something has changed that the machine should see now.
    poke: Notify,
    /// Through which peers are probed.
    interconnect: OnceLock<Arc<Interconnect>>,
}

/// The membership of this instance; see the crate's text. Dropping it changes nothing: an instance
/// leaves by [`Membership::leave`] or by ending.
#[derive(Clone)]
pub struct Membership(Arc<Shared>);

impl Membership {
    /// Asks to be let into the cluster. `interconnect_addr` is where members reach this instance's
    /// interconnect, `client_addr` where clients do (for `skein status`; may be empty). Events
    /// arrive
    /// on `events`, first [`MembershipEvent::Joined`]; they must be received without delay.
    ///
    /// # Errors
    /// When an address is too long for its slot.
    pub fn start(
        claim: Claim,
        interconnect_addr: &str,
        client_addr: &str,
        config: MembershipConfig,
        events: mpsc::Sender<MembershipEvent>,
    ) -> Result<Membership, Error> {
        let longest = interconnect_addr.len().max(client_addr.len());
        if longest > ADDR_BYTES_MAX {
            return Err(Error::AddressTooLong(longest));
        }
        let Claim { env, registry, me, mut slot, deadline } = claim;
        slot.interconnect_addr = interconnect_addr.to_owned();
        slot.client_addr = client_addr.to_owned();
        let machine_config = MachineConfig {
            heartbeat_us: micros(config.heartbeat),
            misscount_us: micros(config.misscount),
        };
        let shared = Arc::new(Shared {
            env: env.clone(),
            me,
            incarnation: slot.incarnation,
            config,
            registry,
            deadline,
            machine: Mutex::new(Machine::new(me, slot, machine_config)),
            poke: Notify::new(),
            interconnect: OnceLock::new(),
        });
        env.spawn_task("membership", Lane::Background, drive(Arc::clone(&shared), events));
        Ok(Membership(shared))
    }

    #[must_use]
    pub fn instance(&self) -> InstanceNo {
        self.0.me
    }

    #[must_use]
    pub fn incarnation(&self) -> u64 {
        self.0.incarnation
    }

    fn with(&self, change: impl FnOnce(&mut Machine)) {
        change(&mut self.0.machine.lock());
        self.0.poke.notify_one();
    }

    /// Peers are probed through this interconnect from now on: they count as reached if theirs
    /// answers. Until then, if they take a connection. The first call counts.
    pub fn probe_through(&self, interconnect: &Arc<Interconnect>) {
        let _ = self.0.interconnect.set(Arc::clone(interconnect));
    }

    /// A channel to `peer` broke in `epoch`: whether it lives or not, a new epoch begins.
    pub fn report_broken(&self, peer: InstanceNo, epoch: u64) {
        self.with(|m| m.report_broken(peer, epoch));
    }

    /// Member `peer` has not answered in `epoch` for too long, although its heartbeat goes on.
    pub fn report_hung(&self, peer: InstanceNo, epoch: u64) {
        self.with(|m| m.report_hung(peer, epoch));
    }

    /// This instance's own message tasks hang: it is to be put out, unless all are worse off.
    pub fn report_hanging(&self) {
        let me = self.0.me;
        self.with(|m| m.report_hung(me, m.epoch()));
    }

    /// Until when this instance may give answers, as it stands at each moment.
    #[must_use]
    pub fn deadline(&self) -> Deadline {
        self.0.deadline.clone()
    }

    /// The times in force.
    #[must_use]
    pub fn config(&self) -> MembershipConfig {
        self.0.config
    }

    /// This instance has finished with `epoch` (all threads recovered): instances that wait may
    /// join.
    pub fn epoch_done(&self, epoch: u64) {
        self.with(|m| m.epoch_done(epoch));
    }

    /// This instance is open to clients (shown by `skein status`).
    pub fn set_open(&self) {
        self.with(Machine::set_open);
    }

    /// Where clients reach this instance, once known.
    ///
    /// # Errors
    /// When it is too long for the slot.
    pub fn set_client_addr(&self, addr: &str) -> Result<(), Error> {
        if addr.len() > ADDR_BYTES_MAX {
            return Err(Error::AddressTooLong(addr.len()));
        }
        self.with(|m| m.set_client_addr(addr.to_owned()));
        Ok(())
    }

    /// Leaves the cluster: the others begin an epoch without this instance. To be called when its
    /// redo thread is closed; it may do no more I/O on shared files.
    ///
    /// # Errors
    /// When that cannot be written down; the instance has left all the same.
    pub async fn leave(&self) -> Result<(), Error> {
        let slot = self.0.machine.lock().leave();
        let written = self.0.registry.leave(&slot).await;
        self.0.poke.notify_one();
        written
    }

    #[cfg(test)]
    pub(crate) fn is_settled(&self, view: &VotingView) -> bool {
        self.0.machine.lock().is_settled(view)
    }

    /// What is written down of the cluster now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn view(&self) -> Result<VotingView, Error> {
        self.0.registry.view().await
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

/// What one round of actions came to.
#[derive(Default)]
struct Round {
    /// The own slot was written.
    written: bool,
    /// The world has changed by our own hand: look again at once.
    again: bool,
    /// Nothing is under way.
    settled: bool,
    stop: bool,
}

async fn drive(shared: Arc<Shared>, events: mpsc::Sender<MembershipEvent>) {
    follow(&shared, &events).await;
    // Whoever goes on must not wait for a decision of this one.
    shared.registry.end_deciding().await;
}

async fn follow(shared: &Arc<Shared>, events: &mpsc::Sender<MembershipEvent>) {
    let env = shared.env.clone();
    // Since when every attempt has failed. A success is a round that has written the slot.
    let mut failing: Option<Micros> = None;
    loop {
        let mut poll = shared.config.poll;
        match round_in_time(shared, events).await {
            Ok(Round { stop: true, .. }) => return,
            Ok(round) => {
                if round.settled {
                    poll = shared.config.poll_settled();
                }
                if round.written {
                    failing = None;
                }
                if round.again {
                    continue;
                }
            }
            Err(e) => {
                if shared.machine.lock().is_stopped() {
                    return;
                }
                let since = *failing.get_or_insert(env.now());
                // A lease says itself how long its owner may fail.
                let by_lease = shared.registry.deadline().is_some();
                let out = matches!(e, Error::LeaseEnded);
                let long = env.now().since(since) > micros(shared.config.misscount);
                if out || (long && !by_lease) {
                    // Others see us silent by now; whoever cannot renew must not go on.
                    let reason = match out {
                        true => e.to_string(),
                        false => format!("the voting file cannot be used: {e}"),
                    };
                    let _ = events.send(MembershipEvent::Evicted { reason }).await;
                    return;
                }
            }
        }
        let _ = env.timeout(poll, shared.poke.notified()).await;
    }
}

/// A round, which what it waits for may not draw out beyond the end of the own life. It is never
/// left half done before that: what the machine has decided to announce must be announced.
async fn round_in_time(
    shared: &Arc<Shared>,
    events: &mpsc::Sender<MembershipEvent>,
) -> Result<Round, Error> {
    if shared.registry.deadline().is_none() {
        return round(shared, events).await;
    }
    let mut round = env::boxed!(round(shared, events));
    while let Some(deadline) = shared.registry.deadline() {
        // The round itself moves the deadline.
        let left_us = deadline.since(shared.env.now());
        if left_us == 0 {
            break;
        }
        if let Ok(done) = shared.env.timeout(Duration::from_micros(left_us), &mut round).await {
            return done;
        }
    }
    Err(Error::LeaseEnded)
}

async fn round(
    shared: &Arc<Shared>,
    events: &mpsc::Sender<MembershipEvent>,
) -> Result<Round, Error> {
    let registry = &shared.registry;
    registry.renew().await?;
    let view = registry.view().await?;
    let now_us = shared.env.now().0;
    let actions = shared.machine.lock().tick(now_us, &view, registry.is_deciding(&view));
    let mut result = Round::default();
    // An error ends the round only after the rest of it: what the machine has decided to announce
    // must
    // be announced.
    let mut failed = None;
    for action in actions {
        let done = match action {
            Action::WriteSlot(slot) => {
                let written = registry.write_slot(&slot).await;
                result.written = written.is_ok();
                written
            }
            Action::WriteControl(control) => {
                result.again = true;
                match registry.write_control(&control, &view).await {
                    Err(Error::Overtaken) => Ok(()),
                    written => written,
                }
            }
            Action::TakeLock => registry.begin_deciding().await.map(|got| result.again |= got),
            other => {
                perform(shared, events, &mut result, other).await;
                Ok(())
            }
        };
        if let Err(e) = done {
            failed.get_or_insert(e);
        }
    }
    result.settled = shared.machine.lock().is_settled(&view);
    failed.map_or(Ok(result), Err)
}

/// The actions that cannot fail.
async fn perform(
    shared: &Arc<Shared>,
    events: &mpsc::Sender<MembershipEvent>,
    result: &mut Round,
    action: Action,
) {
    match action {
        Action::ReleaseLock => shared.registry.end_deciding().await,
        Action::Kill { life, pid, pid_start } => {
            if shared.registry.end(life, (pid, pid_start)) == Ending::Stuck
                && let Some(event) = shared.machine.lock().lock_is_stuck(life, pid)
            {
                let _ = events.try_send(event);
            }
        }
        Action::Probe { epoch, peers } => start_probe(shared, epoch, peers),
        // The kernel may be ending; then nobody listens any more.
        Action::Emit(event) => drop(events.send(event).await),
        Action::Stop => result.stop = true,
        Action::WriteSlot(_) | Action::WriteControl(_) | Action::TakeLock => {
            unreachable!("done by the round itself")
        }
    }
}

/// Tries to reach every peer, all at a time, and tells the machine whom it reached.
fn start_probe(shared: &Arc<Shared>, epoch: u64, peers: Vec<(InstanceNo, String)>) {
    struct Probe {
        open: usize,
        reached: u16,
    }
    if peers.is_empty() {
        shared.machine.lock().set_view(epoch, 0);
        shared.poke.notify_one();
        return;
    }
    let state = Arc::new(Mutex::new(Probe { open: peers.len(), reached: 0 }));
    for (peer, addr) in peers {
        let (shared, state) = (Arc::clone(shared), Arc::clone(&state));
        let env = shared.env.clone();
        env.clone().spawn_task("probe", Lane::Background, async move {
            let within = shared.config.probe;
            let answers = match shared.interconnect.get() {
                Some(interconnect) => interconnect.answers(peer, &addr, within).await,
                None => matches!(env.timeout(within, env.connect(&addr)).await, Ok(Ok(_))),
            };
            let reached = {
                let mut state = state.lock();
                if answers {
                    state.reached |= bit(peer);
                }
                state.open -= 1;
                (state.open == 0).then_some(state.reached)
            };
            if let Some(reached) = reached {
                shared.machine.lock().set_view(epoch, reached);
                shared.poke.notify_one();
            }
        });
    }
}

/// Where the voting file of a database is.
#[must_use]
pub fn voting_path(dir: &Path) -> PathBuf {
    dir.join("voting")
}
