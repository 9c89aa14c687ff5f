//! The membership driver: reads the voting file, feeds the machine, does what it says.
//!
//! One task an instance. It must never wait for anything but the voting file, the clock and the
//! kernel's event queue: its heartbeat is what the others judge this instance by.

use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use block::InstanceNo;
use env::{Env, FileLock, Lane, Micros};
use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc};

use crate::Error;
use crate::interconnect::Interconnect;
use crate::machine::{Action, Life, Machine, MachineConfig, MembershipEvent};
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
}

impl Default for MembershipConfig {
    fn default() -> Self {
        MembershipConfig {
            heartbeat: Duration::from_millis(250),
            misscount: Duration::from_secs(3),
            poll: Duration::from_millis(15),
            poll_settled: Duration::from_millis(60),
            probe: Duration::from_millis(700),
        }
    }
}

impl MembershipConfig {
    /// Heartbeats are written, and silence is counted, from one look to the next.
    pub(crate) fn poll_settled(&self) -> Duration {
        self.poll_settled.min(self.heartbeat / 4).max(self.poll)
    }
}

/// An instance's slot, locked by this process, with its incarnation raised: what must precede
/// everything else an instance does.
pub struct Claim {
    env: Env,
    file: VotingFile,
    me: InstanceNo,
    slot: Slot,
    lock: Box<dyn FileLock>,
}

impl Claim {
    /// Takes the slot of instance `me`.
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
        Ok(Claim { env: env.clone(), file, me, slot, lock })
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
    file: VotingFile,
    machine: Mutex<Machine>,
    /// Something has changed that the machine should see now.
    poke: Notify,
    /// Through which peers are probed.
    interconnect: OnceLock<Arc<Interconnect>>,
    /// Held until the instance leaves or its process ends.
    lock: Mutex<Option<Box<dyn FileLock>>>,
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
        let Claim { env, file, me, mut slot, lock } = claim;
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
            file,
            machine: Mutex::new(Machine::new(me, slot, machine_config)),
            poke: Notify::new(),
            interconnect: OnceLock::new(),
            lock: Mutex::new(Some(lock)),
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
    /// When the voting file cannot be written; the instance has left all the same.
    pub async fn leave(&self) -> Result<(), Error> {
        let slot = self.0.machine.lock().leave();
        let written = self.0.file.write_slot(self.0.me, &slot).await;
        *self.0.lock.lock() = None;
        self.0.poke.notify_one();
        written
    }

    #[cfg(test)]
    pub(crate) fn is_settled(&self, view: &VotingView) -> bool {
        self.0.machine.lock().is_settled(view)
    }

    /// What the voting file shows now.
    ///
    /// # Errors
    /// When it cannot be read.
    pub async fn view(&self) -> Result<VotingView, Error> {
        self.0.file.view().await
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
    let env = shared.env.clone();
    let mut reconfiguration: Option<Box<dyn FileLock>> = None;
    // Since when every attempt has failed. A success is a round that has written the slot.
    let mut failing: Option<Micros> = None;
    loop {
        let mut poll = shared.config.poll;
        match round(&shared, &events, &mut reconfiguration).await {
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
                if env.now().since(since) > micros(shared.config.misscount) {
                    // Others see us silent by now; whoever cannot renew must not go on.
                    let reason = format!("the voting file cannot be used: {e}");
                    let _ = events.send(MembershipEvent::Evicted { reason }).await;
                    return;
                }
            }
        }
        let _ = env.timeout(poll, shared.poke.notified()).await;
    }
}

async fn round(
    shared: &Arc<Shared>,
    events: &mpsc::Sender<MembershipEvent>,
    reconfiguration: &mut Option<Box<dyn FileLock>>,
) -> Result<Round, Error> {
    let view = shared.file.view().await?;
    let now_us = shared.env.now().0;
    let actions = shared.machine.lock().tick(now_us, &view, reconfiguration.is_some());
    let mut result = Round::default();
    // An error ends the round only after the rest of it: what the machine has decided to announce
    // must
    // be announced.
    let mut failed = None;
    for action in actions {
        let done = match action {
            Action::WriteSlot(slot) => {
                let written = shared.file.write_slot(shared.me, &slot).await;
                result.written = written.is_ok();
                written
            }
            Action::WriteControl(control) => {
                assert!(reconfiguration.is_some(), "only the lock's holder decides");
                result.again = true;
                shared.file.write_control(&control).await
            }
            Action::TakeLock => {
                let taken = shared.file.lock_reconfiguration();
                taken.map_err(|e| Error::io("take the reconfiguration lock", e)).map(|lock| {
                    result.again |= lock.is_some();
                    *reconfiguration = lock;
                })
            }
            other => {
                perform(shared, events, reconfiguration, &mut result, other).await;
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
    reconfiguration: &mut Option<Box<dyn FileLock>>,
    result: &mut Round,
    action: Action,
) {
    match action {
        Action::ReleaseLock => *reconfiguration = None,
        Action::Kill { life, pid, pid_start } => kill(shared, events, life, (pid, pid_start)),
        Action::Probe { epoch, peers } => start_probe(shared, epoch, peers),
        // The kernel may be ending; then nobody listens any more.
        Action::Emit(event) => drop(events.send(event).await),
        Action::Stop => result.stop = true,
        Action::WriteSlot(_) | Action::WriteControl(_) | Action::TakeLock => {
            unreachable!("done by the round itself")
        }
    }
}

/// Ends a process that is to be evicted, if it is still the same one.
fn kill(
    shared: &Shared,
    events: &mpsc::Sender<MembershipEvent>,
    life: Life,
    (pid, pid_start): (u32, u64),
) {
    if shared.env.process_start_time(pid) == Some(pid_start) {
        // It may end by itself at this very moment.
        let _ = shared.env.kill_process(pid);
    } else if shared.file.is_slot_locked(life.instance).unwrap_or(false)
        && let Some(event) = shared.machine.lock().lock_is_stuck(life, pid)
    {
        let _ = events.try_send(event);
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
