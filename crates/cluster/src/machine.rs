//! The membership decisions of one instance, as a pure state machine.
//!
//! Fed with what the voting file shows ([`Machine::tick`]), it says what to write, whom to end and
//! what
//! to announce. Rules:
//!
//! 1. Only the holder of the reconfiguration lock writes the control record, after reading it anew
//!    under the lock: so one decider an epoch, and each decision follows from the record alone. It
//!    holds the lock until nothing is left to decide; if it dies, the next one starts over.
//! 2. A member has departed when its slot's lock is free or a newer incarnation holds it, never
//!    because
//!    of time alone. One that is silent or cut off is marked for eviction, ended, and departs when
//!    its
//!    lock has fallen.
//! 3. Departures come first, in an epoch of their own; joins wait until every member has finished
//!    with
//!    the epoch in force. With no member alive the first instance to get the lock is the new
//!    cluster.
//! 4. Where channels broke between living members, or one hangs although its heartbeat goes on,
//!    each member probes the others and writes down whom it reaches. Who hangs, by the word of
//!    either, counts as not reached. The largest set whose members all reach each other goes on (on
//!    a tie the one that fewer complain of, then the one with the lowest instances), the others are
//!    evicted.
//!    Whose lease has ended is evicted as one that is silent, and ended by fencing it.
//! 5. Silence is counted in the observer's own ticks, so that an observer that was stopped itself,
//!    or
//!    whose disk was, accuses nobody when it wakes.

use std::collections::{BTreeMap, BTreeSet};

use block::InstanceNo;

pub use crate::voting::Life;
use crate::voting::{Control, Slot, SlotState, VotingView, bit};

/// A former member; its process is gone.
pub type Departed = Life;

/// A member as the others see it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub instance: InstanceNo,
    pub incarnation: u64,
    /// Where its interconnect listens.
    pub addr: String,
}

/// A change of the membership; epochs grow, but this instance may miss some.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reconfiguration {
    pub epoch: u64,
    /// All members, sorted by instance, this one included.
    pub members: Vec<Member>,
    /// Members of the epoch last known that are certainly dead. At a joiner: what it found dead.
    pub departed: Vec<Departed>,
    /// Members that were none in the epoch last known.
    pub joined: Vec<Life>,
}

/// What the kernel hears.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum MembershipEvent {
    /// This instance is a member from now on.
    Joined(Reconfiguration),
    Reconfigured(Reconfiguration),
    /// This instance must end at once: it may write nothing more.
    Evicted {
        reason: String,
    },
    /// This instance has decided that another must end. For the alert log.
    PutOut {
        instance: InstanceNo,
        why: String,
    },
    /// The process of `instance` (`pid`) is gone, yet something holds its lock; no epoch can begin
    /// until that ends. For the alert log.
    LockStuck {
        instance: InstanceNo,
        pid: u32,
    },
}

/// What the driver is to do, in this order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Action {
    WriteSlot(Slot),
    WriteControl(Control),
    /// Try to get the reconfiguration lock.
    TakeLock,
    ReleaseLock,
    /// End this process, if it is still the one that started then.
    Kill {
        life: Life,
        pid: u32,
        pid_start: u64,
    },
    /// Find out which of these answer, then call [`Machine::set_view`] with this epoch.
    Probe {
        epoch: u64,
        peers: Vec<(InstanceNo, String)>,
    },
    Emit(MembershipEvent),
    /// No more ticks.
    Stop,
}

/// Times in microseconds.
#[derive(Clone, Copy, Debug)]
pub struct MachineConfig {
    /// Between two writes of the own slot.
    pub heartbeat_us: u64,
    /// Silence after which a member is evicted.
    pub misscount_us: u64,
}

/// What is known of another instance's heartbeat.
#[derive(Default)]
struct Track {
    incarnation: u64,
    heartbeat: u64,
    silent_us: u64,
}

enum Decision {
    Nothing,
    /// Something is under way; keep (or get) the lock.
    Wait,
    /// These must end first.
    Evict(Vec<Life>),
    NewEpoch(Vec<Life>),
}

/// See the module's text.
pub struct Machine {
    me: Life,
    config: MachineConfig,
    slot: Slot,
    /// Members as last seen, announced or not.
    seen: Vec<Life>,
    announced_epoch: u64,
    is_member: bool,
    stopped: bool,
    tracks: BTreeMap<InstanceNo, Track>,
    last_tick_us: Option<u64>,
    last_write_us: Option<u64>,
    dirty: bool,
    probing: Option<u64>,
    /// How long the lock has been wanted in vain.
    lock_denied_us: u64,
    stuck: BTreeSet<Life>,
}

impl Machine {
    /// `slot` is the instance's own, as written at its start (state `Joining`).
    #[must_use]
    pub fn new(instance: InstanceNo, slot: Slot, config: MachineConfig) -> Machine {
        Machine {
            me: Life { instance, incarnation: slot.incarnation },
            config,
            slot,
            seen: Vec::new(),
            announced_epoch: 0,
            is_member: false,
            stopped: false,
            tracks: BTreeMap::new(),
            last_tick_us: None,
            last_write_us: None,
            dirty: false,
            probing: None,
            lock_denied_us: 0,
            stuck: BTreeSet::new(),
        }
    }

    /// A channel to `peer` broke in `epoch`: a new epoch is due, whoever lives.
    pub fn report_broken(&mut self, peer: InstanceNo, epoch: u64) {
        if epoch == self.slot.epoch && self.slot.broken & bit(peer) == 0 {
            self.slot.broken |= bit(peer);
            self.dirty = true;
        }
    }

    /// Member `peer` has not answered in `epoch` for too long, although its heartbeat goes on; this
    /// instance itself: it knows that it hangs.
    pub fn report_hung(&mut self, peer: InstanceNo, epoch: u64) {
        if epoch == self.slot.epoch && self.slot.hung & bit(peer) == 0 {
            self.slot.hung |= bit(peer);
            self.dirty = true;
        }
    }

    /// The epoch last announced to this instance, which its kernel may not have entered yet.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.slot.epoch
    }

    /// The outcome of [`Action::Probe`].
    pub fn set_view(&mut self, epoch: u64, reached: u16) {
        if epoch == self.slot.epoch {
            self.slot.view_epoch = epoch;
            self.slot.view = reached | bit(self.me.instance);
            self.dirty = true;
        }
    }

    /// The kernel has finished with this epoch: recovery is done, joins may go on.
    pub fn epoch_done(&mut self, epoch: u64) {
        if epoch == self.slot.epoch && self.slot.done_epoch != epoch {
            self.slot.done_epoch = epoch;
            self.dirty = true;
        }
    }

    /// Open to clients.
    pub fn set_open(&mut self) {
        if self.slot.state == SlotState::Member {
            self.slot.state = SlotState::Open;
            self.dirty = true;
        }
    }

    pub fn set_client_addr(&mut self, addr: String) {
        self.slot.client_addr = addr;
        self.dirty = true;
    }

    /// Ends the machine cleanly; the slot to write before the lock is let go.
    pub fn leave(&mut self) -> Slot {
        self.stopped = true;
        self.slot.state = SlotState::Left;
        self.slot.clone()
    }

    /// Whether this instance has left or is out: no more ticks are wanted.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// One look at the voting file. `holds_lock`: the view was read under the reconfiguration lock,
    /// which this instance holds.
    pub fn tick(&mut self, now_us: u64, view: &VotingView, holds_lock: bool) -> Vec<Action> {
        let mut out = Vec::new();
        if self.stopped {
            return vec![Action::Stop];
        }
        let passed = self.last_tick_us.map_or(0, |last| now_us.saturating_sub(last));
        // Rule 5: a gap in our own ticks counts for one heartbeat at most.
        let passed = passed.min(self.config.heartbeat_us);
        self.last_tick_us = Some(now_us);
        self.watch(view, passed);
        if let Some(reason) = self.follow(view, &mut out) {
            self.stopped = true;
            out.push(Action::Emit(MembershipEvent::Evicted { reason }));
            out.push(Action::Stop);
            return out;
        }
        self.probe_if_contested(view, &mut out);
        self.act(view, holds_lock, passed, &mut out);
        let due = self.last_write_us.is_none_or(|t| now_us - t >= self.config.heartbeat_us);
        if !self.stopped && (due || self.dirty) {
            self.slot.heartbeat += 1;
            self.last_write_us = Some(now_us);
            self.dirty = false;
            out.insert(0, Action::WriteSlot(self.slot.clone()));
        }
        out
    }

    /// Whether nothing is under way in the cluster, and nothing is left to be written down.
    #[must_use]
    pub fn is_settled(&self, view: &VotingView) -> bool {
        let control = &view.control;
        let at_work = |life: &Life| {
            self.slot_of(view, *life).is_some_and(|s| {
                s.state == SlotState::Open
                    && (s.epoch, s.done_epoch) == (control.epoch, control.epoch)
                    && s.broken | s.hung == 0
            })
        };
        // One that never became a member may leave a lease behind: nobody waits for it.
        let others = |instance| {
            control.member(instance).is_none()
                && view.is_locked(instance)
                && !view.is_expired(instance)
        };
        self.is_member
            && !self.dirty
            && view.unfinished.is_none()
            && control.evicting.is_empty()
            && self.alive(view).len() == control.members.len()
            && !control.members.iter().any(|l| view.is_expired(l.instance))
            && control.members.iter().all(at_work)
            && !view.instances().any(others)
    }

    fn watch(&mut self, view: &VotingView, passed_us: u64) {
        for instance in view.instances().filter(|i| *i != self.me.instance) {
            let track = self.tracks.entry(instance).or_default();
            track.silent_us += passed_us;
            if let Some(slot) = view.slot(instance)
                && (slot.incarnation, slot.heartbeat) != (track.incarnation, track.heartbeat)
            {
                (track.incarnation, track.heartbeat) = (slot.incarnation, slot.heartbeat);
                track.silent_us = 0;
            }
        }
    }

    fn is_silent(&self, instance: InstanceNo) -> bool {
        instance != self.me.instance
            && self.tracks.get(&instance).is_some_and(|t| t.silent_us > self.config.misscount_us)
    }

    /// Whether a member gives no sign of life any more.
    fn is_gone_quiet(&self, view: &VotingView, instance: InstanceNo) -> bool {
        let others = instance != self.me.instance;
        self.is_silent(instance) || (others && view.is_expired(instance))
    }

    /// Learns the epoch in force. `Some(reason)`: this instance is out.
    fn follow(&mut self, view: &VotingView, out: &mut Vec<Action>) -> Option<String> {
        let control = &view.control;
        if control.evicting.contains(&self.me) {
            let mut reason = "marked for eviction in the voting file".to_owned();
            for life in control.members.iter().filter(|l| self.complains(view, **l, self.me)) {
                match life.instance == self.me.instance {
                    true => reason += "; it hangs",
                    false => reason += &format!("; instance {} gets no answers", life.instance),
                }
            }
            return Some(reason);
        }
        if view.slot(self.me.instance).is_some_and(|s| s.incarnation > self.me.incarnation) {
            return Some("another process has taken this instance's slot".to_owned());
        }
        let member = control.members.contains(&self.me);
        if self.is_member && !member {
            return Some(format!("epoch {} began without this instance", control.epoch));
        }
        let seen = std::mem::replace(&mut self.seen, control.members.clone());
        if control.epoch <= self.announced_epoch || !member {
            return None;
        }
        let without = |a: &[Life], b: &[Life]| -> Vec<Life> {
            a.iter().copied().filter(|l| !b.contains(l)).collect()
        };
        let reconfiguration = Reconfiguration {
            epoch: control.epoch,
            members: control.members.iter().map(|m| self.describe(view, *m)).collect(),
            departed: without(&seen, &control.members),
            joined: without(&control.members, &seen),
        };
        self.announced_epoch = control.epoch;
        self.slot.epoch = control.epoch;
        (self.slot.broken, self.slot.hung) = (0, 0);
        self.probing = None;
        self.dirty = true;
        out.push(Action::Emit(if self.is_member {
            MembershipEvent::Reconfigured(reconfiguration)
        } else {
            self.is_member = true;
            self.slot.state = SlotState::Member;
            MembershipEvent::Joined(reconfiguration)
        }));
        None
    }

    fn describe(&self, view: &VotingView, life: Life) -> Member {
        let slot = view.slot(life.instance).filter(|s| s.incarnation == life.incarnation);
        let addr = slot.map(|s| s.interconnect_addr.clone()).unwrap_or_default();
        Member { instance: life.instance, incarnation: life.incarnation, addr }
    }

    /// The slot of a life: the own one from memory, which may be ahead of the file.
    fn slot_of<'a>(&'a self, view: &'a VotingView, life: Life) -> Option<&'a Slot> {
        if life == self.me {
            return Some(&self.slot);
        }
        view.slot(life.instance).filter(|s| s.incarnation == life.incarnation)
    }

    fn alive(&self, view: &VotingView) -> Vec<Life> {
        let lives = |l: &Life| *l == self.me || view.is_alive(*l);
        view.control.members.iter().copied().filter(lives).collect()
    }

    /// Whether `by` says in this epoch that `of` hangs.
    fn complains(&self, view: &VotingView, by: Life, of: Life) -> bool {
        self.slot_of(view, by)
            .is_some_and(|s| s.epoch == view.control.epoch && s.hung & bit(of.instance) != 0)
    }

    /// Whether a channel between living members has broken, or one hangs, in this epoch.
    fn is_contested(&self, view: &VotingView, alive: &[Life]) -> bool {
        let epoch = view.control.epoch;
        let living = alive.iter().fold(0, |bits, l| bits | bit(l.instance));
        alive.iter().any(|l| {
            self.slot_of(view, *l)
                .is_some_and(|s| s.epoch == epoch && (s.broken | s.hung) & living != 0)
        })
    }

    fn probe_if_contested(&mut self, view: &VotingView, out: &mut Vec<Action>) {
        let epoch = view.control.epoch;
        if !self.is_member || self.slot.view_epoch == epoch || self.probing == Some(epoch) {
            return;
        }
        let alive = self.alive(view);
        if !self.is_contested(view, &alive) {
            return;
        }
        self.probing = Some(epoch);
        let peers = alive
            .iter()
            .filter(|l| **l != self.me)
            .map(|l| (l.instance, self.describe(view, *l).addr))
            .collect();
        out.push(Action::Probe { epoch, peers });
    }

    fn decide(&self, view: &VotingView) -> Decision {
        let control = &view.control;
        let alive = self.alive(view);
        if !self.is_member {
            let waiting = view.unfinished.is_some() || !alive.is_empty();
            if !alive.is_empty() && alive.iter().all(|l| view.is_expired(l.instance)) {
                return Decision::Evict(alive);
            }
            // Rule 3: nobody is there who could let us in.
            return match waiting {
                true if alive.is_empty() => Decision::Wait,
                true => Decision::Nothing,
                false => Decision::NewEpoch(vec![self.me]),
            };
        }
        let contested = self.is_contested(view, &alive);
        let mut doomed: BTreeSet<Life> = alive
            .iter()
            .copied()
            .filter(|l| self.is_gone_quiet(view, l.instance) || control.evicting.contains(l))
            .collect();
        let voters: Vec<Life> = alive.iter().copied().filter(|l| !doomed.contains(l)).collect();
        let voted =
            |l: &Life| self.slot_of(view, *l).is_some_and(|s| s.view_epoch == control.epoch);
        let all_voted = voters.iter().all(voted);
        if contested && all_voted {
            let sees = |a, b: Life| {
                self.slot_of(view, a).is_some_and(|s| s.view & bit(b.instance) != 0)
                    && !self.complains(view, a, b)
                    && !self.complains(view, a, a)
            };
            let complaints = |of| voters.iter().filter(|by| self.complains(view, **by, of)).count();
            let survivors = largest_clique(&voters, |a, b| sees(a, b) && sees(b, a), complaints);
            doomed.extend(voters.iter().filter(|l| !survivors.contains(l)));
        }
        if !doomed.is_empty() {
            return Decision::Evict(doomed.into_iter().collect());
        }
        if alive.len() < control.members.len() || (contested && all_voted) {
            return Decision::NewEpoch(alive);
        }
        if contested {
            return Decision::Wait;
        }
        self.decide_joins(view, alive)
    }

    fn decide_joins(&self, view: &VotingView, members: Vec<Life>) -> Decision {
        let epoch = view.control.epoch;
        let done = |l: &Life| self.slot_of(view, *l).is_some_and(|s| s.done_epoch == epoch);
        let joiners: Vec<Life> = view
            .instances()
            .filter_map(|instance| {
                let slot = view.slot(instance).filter(|s| s.state == SlotState::Joining)?;
                let life = Life { instance, incarnation: slot.incarnation };
                let welcome = view.is_locked(instance)
                    && view.control.member(instance).is_none()
                    && !self.is_gone_quiet(view, instance);
                welcome.then_some(life)
            })
            .collect();
        if joiners.is_empty() || !members.iter().all(done) {
            return Decision::Nothing;
        }
        let mut all = [members, joiners].concat();
        all.sort_unstable();
        Decision::NewEpoch(all)
    }

    fn act(&mut self, view: &VotingView, holds_lock: bool, passed_us: u64, out: &mut Vec<Action>) {
        let decision = self.decide(view);
        if matches!(decision, Decision::Nothing) {
            self.lock_denied_us = 0;
            if holds_lock {
                out.push(Action::ReleaseLock);
            }
            return;
        }
        if !holds_lock {
            self.lock_denied_us += passed_us;
            if self.lock_denied_us > self.config.misscount_us {
                self.end_silent(view, out);
            }
            out.push(Action::TakeLock);
            return;
        }
        self.lock_denied_us = 0;
        if let Some(unfinished) = &view.unfinished {
            out.push(Action::WriteControl(unfinished.clone()));
            return;
        }
        let mut control = view.control.clone();
        control.sequence += 1;
        match decision {
            Decision::Nothing | Decision::Wait => {}
            Decision::NewEpoch(members) => {
                control.epoch += 1;
                control.evicting.clear();
                control.members = members;
                out.push(Action::WriteControl(control));
            }
            Decision::Evict(doomed) if doomed.contains(&self.me) => {
                self.stopped = true;
                let reason = "this instance is not in the part of the cluster that goes on";
                let reason = reason.to_owned();
                out.push(Action::Emit(MembershipEvent::Evicted { reason }));
                out.push(Action::ReleaseLock);
                out.push(Action::Stop);
            }
            Decision::Evict(doomed) => {
                let new = |l: &&Life| !view.control.evicting.contains(*l);
                if doomed.iter().any(|l| new(&l)) {
                    control.evicting.clone_from(&doomed);
                    out.push(Action::WriteControl(control));
                    for life in doomed.iter().filter(new) {
                        let (instance, why) = (life.instance, self.why(view, *life));
                        out.push(Action::Emit(MembershipEvent::PutOut { instance, why }));
                    }
                } else {
                    doomed.iter().for_each(|l| self.end(view, *l, out));
                }
            }
        }
    }

    /// Why a member is put out.
    fn why(&self, view: &VotingView, life: Life) -> String {
        let others = view.control.members.iter().filter(|l| **l != life);
        let waiting: Vec<String> = others
            .filter(|l| self.complains(view, **l, life))
            .map(|l| l.instance.to_string())
            .collect();
        if view.is_expired(life.instance) {
            "its lease has ended".to_owned()
        } else if self.is_silent(life.instance) {
            "its heartbeat has stopped".to_owned()
        } else if self.complains(view, life, life) {
            "it hangs, as it says itself".to_owned()
        } else if !waiting.is_empty() {
            format!("instance {} gets no answers from it", waiting.join(", "))
        } else {
            "it is cut off from the others".to_owned()
        }
    }

    fn end(&self, view: &VotingView, life: Life, out: &mut Vec<Action>) {
        if let Some(slot) = self.slot_of(view, life) {
            out.push(Action::Kill { life, pid: slot.pid, pid_start: slot.pid_start });
        }
    }

    /// The lock's holder does nothing: it hangs itself. Ending whoever is silent frees the lock,
    /// and
    /// what is to be decided is decided by the next holder.
    fn end_silent(&self, view: &VotingView, out: &mut Vec<Action>) {
        for instance in view.instances().filter(|i| self.is_silent(*i) && view.is_locked(*i)) {
            if let Some(slot) = view.slot(instance) {
                let life = Life { instance, incarnation: slot.incarnation };
                self.end(view, life, out);
            }
        }
    }

    /// A process that was to be ended is gone, but its lock is held. Announces that once.
    pub fn lock_is_stuck(&mut self, life: Life, pid: u32) -> Option<MembershipEvent> {
        let event = MembershipEvent::LockStuck { instance: life.instance, pid };
        self.stuck.insert(life).then_some(event)
    }
}

/// The largest set whose members all pairwise satisfy `linked`; of several the one with the fewest
/// complaints of its members, then the one with the lowest members. At most eight members: all
/// subsets are tried.
fn largest_clique(
    all: &[Life],
    linked: impl Fn(Life, Life) -> bool,
    complaints: impl Fn(Life) -> usize,
) -> Vec<Life> {
    let rank = |set: &[Life]| {
        let complaints: usize = set.iter().map(|l| complaints(*l)).sum();
        (std::cmp::Reverse(set.len()), complaints, set.to_vec())
    };
    let mut best: Vec<Life> = Vec::new();
    for subset in 1_u32..1 << all.len() {
        let set: Vec<Life> =
            (0..all.len()).filter(|i| subset & (1 << i) != 0).map(|i| all[i]).collect();
        let whole =
            set.iter().enumerate().all(|(i, a)| set[i + 1..].iter().all(|b| linked(*a, *b)));
        if whole && rank(&set) < rank(&best) {
            best = set;
        }
    }
    best
}
