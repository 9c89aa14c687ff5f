//! The change of membership: freeze, Markers, reports, rebuild, thaw.
//!
//! One machine per instance. It counts what must have arrived before the next step may be taken;
//! the kernel does the steps. Every step list can be started anew by a later membership at any
//! point. What it promises: an instance is in an epoch only when the Markers of all members have
//! come down all channels (C2); the departed's channels are discarded before anything is reported
//! (C3); requests go on only when every master has rebuilt, and, with dead threads, when every
//! block
//! they may have left unfinished is locked (H24).

mod rebuild;

use std::collections::BTreeSet;

use block::InstanceNo;

pub use self::rebuild::{Decision, Rebuild, Rebuilt, Unfinished, decide};
use crate::msg::{Class, Epoch, EpochMessage};
use crate::set::InstanceSet;

/// A channel between an ordered pair of instances.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Channel {
    pub class: Class,
    pub lane: u16,
}

/// What happens to the membership machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EpochEvent {
    /// Decided by the `cluster` crate, with the departed fenced. `dead_threads`: every open redo
    /// thread without a member, whoever's death left it (C14).
    NewMembership {
        epoch: Epoch,
        members: Vec<InstanceNo>,
        dead_threads: Vec<InstanceNo>,
        recoverer: InstanceNo,
    },
    /// A Marker came down a channel.
    Marker {
        from: InstanceNo,
        epoch: Epoch,
        channel: Channel,
    },
    /// The last batch of a peer's (or our own) holdings of blocks, of enqueues.
    HoldingsComplete {
        from: InstanceNo,
        epoch: Epoch,
    },
    EnqueuesComplete {
        from: InstanceNo,
        epoch: Epoch,
    },
    /// The last batch of what the recoverer found in the dead threads.
    DeadChangesComplete {
        epoch: Epoch,
    },
    RebuildDone {
        from: InstanceNo,
        epoch: Epoch,
    },
    /// At the recoverer: a master has sent the last batch of its part of the recovery set.
    RecoverySetComplete {
        from: InstanceNo,
        epoch: Epoch,
    },
    Thaw {
        epoch: Epoch,
    },
    ThawEnqueues {
        epoch: Epoch,
    },
    RecoveryDone {
        epoch: Epoch,
    },
    /// At the recoverer: dead transactions' table locks are taken (H18).
    DeadTransactionsLocked {
        epoch: Epoch,
    },
    /// At the recoverer: the blocks of the set are rebuilt and written, undo is adopted.
    SetRecovered {
        epoch: Epoch,
    },
    /// At the recoverer: a master's holders have written what dead threads had changed.
    DutiesDone {
        from: InstanceNo,
        epoch: Epoch,
    },
    /// At the recoverer: [`EpochEffect::CloseDeadThreads`] is done, durably.
    DeadThreadsClosed {
        epoch: Epoch,
    },
    /// A channel to a member broke. It is never resumed (C4).
    ChannelBroken {
        peer: InstanceNo,
    },
}

/// What the kernel does.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EpochEffect {
    /// No new requests; `Facts::frozen` is true from the moment the Markers are sent.
    Freeze {
        epoch: Epoch,
    },
    /// Close its channels and forget what came down them and is not applied (C3).
    DiscardDeparted {
        instance: InstanceNo,
    },
    /// A Marker on every channel to each of these, nothing of the old epoch after it. Stepping
    /// machines and sending what they say must not be split by it (C2).
    SendMarkers {
        epoch: Epoch,
        to: Vec<InstanceNo>,
    },
    /// The old epoch is over: step `EnterEpoch` through all holders and shadows, void what waits,
    /// take the new map, drop older messages, deliver what was parked of this epoch.
    Enter {
        epoch: Epoch,
        members: Vec<InstanceNo>,
    },
    /// Send all holdings, of blocks and of enqueues, to their new masters (ourselves included), in
    /// batches, the last one marked (an empty one if there is nothing).
    Report {
        epoch: Epoch,
    },
    /// All reports (and dead changes) are here: install the rebuilt directory.
    Rebuild {
        epoch: Epoch,
    },
    /// At the recoverer: scan these dead threads, restore torn blocks from their double-write
    /// areas, then send `DeadChanges` to all masters.
    ScanDeadThreads {
        epoch: Epoch,
        threads: Vec<InstanceNo>,
    },
    /// At the recoverer: every lock is taken; rebuild the blocks of the set.
    Recover {
        epoch: Epoch,
    },
    /// At the recoverer: nothing needs the dead threads' redo any more; close them on disk.
    CloseDeadThreads {
        epoch: Epoch,
        threads: Vec<InstanceNo>,
    },
    /// Send a message to a member (ourselves included).
    Send {
        to: InstanceNo,
        msg: EpochMessage,
    },
    /// Requests for blocks go on; those outside the set are served.
    ThawBlocks {
        epoch: Epoch,
    },
    ThawEnqueues {
        epoch: Epoch,
    },
    /// No thread is unrecovered any more.
    AllRecovered {
        epoch: Epoch,
    },
    /// Ask the `cluster` crate for a new epoch, with the same members if all live.
    DemandEpoch {
        peer: InstanceNo,
    },
}

/// What to do with a message by the epoch of its envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admit {
    Deliver,
    /// Of an epoch we are about to enter: keep it, in its channel's order.
    Park,
    Drop,
}

/// How far this instance is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    /// Not a member of anything yet.
    Outside,
    /// Markers sent; handles the old epoch until all Markers are here.
    Frozen,
    /// In the epoch; the directory is being rebuilt.
    Rebuilding,
    /// Requests are served.
    Open,
}

/// The membership machine of one instance.
pub struct EpochMachine {
    me: InstanceNo,
    channels: Vec<Channel>,
    phase: Phase,
    /// The epoch whose messages are delivered.
    current: Epoch,
    /// The epoch being entered, or entered.
    target: Epoch,
    members: InstanceSet,
    dead_threads: Vec<InstanceNo>,
    recoverer: InstanceNo,
    /// Per peer channel: the highest epoch a Marker announced.
    markers: BTreeSet<(InstanceNo, Channel)>,
    early_markers: BTreeSet<(Epoch, InstanceNo, Channel)>,
    progress: Progress,
}

/// What has arrived in the epoch being rebuilt.
#[derive(Clone, Default)]
struct Progress {
    holdings: InstanceSet,
    enqueues: InstanceSet,
    dead_changes: bool,
    rebuild_started: bool,
    rebuilt: InstanceSet,
    sets: InstanceSet,
    recovering: bool,
    set_recovered: bool,
    duties: InstanceSet,
    closing: bool,
    thaw: bool,
    thaw_enqueues: bool,
    blocks_thawed: bool,
    enqueues_thawed: bool,
    all_recovered: bool,
}

impl EpochMachine {
    /// `channels`: those between any two instances, the same everywhere.
    #[must_use]
    pub fn new(me: InstanceNo, channels: Vec<Channel>) -> EpochMachine {
        EpochMachine {
            me,
            channels,
            phase: Phase::Outside,
            current: Epoch(0),
            target: Epoch(0),
            members: InstanceSet::default(),
            dead_threads: Vec::new(),
            recoverer: me,
            markers: BTreeSet::new(),
            early_markers: BTreeSet::new(),
            progress: Progress::default(),
        }
    }

    #[must_use]
    pub fn phase(&self) -> Phase {
        self.phase
    }

    /// The epoch whose messages are delivered.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.current
    }

    #[must_use]
    pub fn members(&self) -> InstanceSet {
        self.members
    }

    /// Whether this instance has sent Markers and waits for others'.
    #[must_use]
    pub fn frozen(&self) -> bool {
        self.phase == Phase::Frozen
    }

    /// Whether the directory mastered here is rebuilt. Between `Enter` and `Rebuild`, messages for
    /// our masters wait, in their channels' order: what a holder says after its report must be
    /// heard after it.
    #[must_use]
    pub fn directory_ready(&self) -> bool {
        self.progress.rebuild_started
    }

    /// Whether the fast path of a single instance may be taken, as far as membership goes: sole
    /// member, open, no thread unrecovered (C5; the directory must agree, see
    /// [`crate::Master::nothing_special`]).
    #[must_use]
    pub fn alone(&self) -> bool {
        self.phase == Phase::Open
            && self.members.len() == 1
            && (self.dead_threads.is_empty() || self.progress.all_recovered)
    }

    /// Whether a message sent in `epoch` by `from` is to be handled now.
    #[must_use]
    pub fn admit(&self, from: InstanceNo, epoch: Epoch) -> Admit {
        match epoch.cmp(&self.current) {
            std::cmp::Ordering::Greater => Admit::Park,
            // Nothing of who has been put out, even of an epoch it was in (C3).
            std::cmp::Ordering::Equal if self.members.contains(from) => Admit::Deliver,
            _ => Admit::Drop,
        }
    }

    pub fn step(&mut self, event: EpochEvent, out: &mut Vec<EpochEffect>) {
        match event {
            EpochEvent::NewMembership { epoch, members, dead_threads, recoverer } => {
                self.freeze(epoch, &members, dead_threads, recoverer, out);
            }
            EpochEvent::Marker { from, epoch, channel } => self.marker(from, epoch, channel, out),
            EpochEvent::ChannelBroken { peer } => {
                if self.members.contains(peer) && peer != self.me {
                    out.push(EpochEffect::DemandEpoch { peer });
                }
            }
            other => self.rebuild_event(&other, out),
        }
    }

    fn freeze(
        &mut self,
        epoch: Epoch,
        members: &[InstanceNo],
        dead_threads: Vec<InstanceNo>,
        recoverer: InstanceNo,
        out: &mut Vec<EpochEffect>,
    ) {
        if epoch <= self.target {
            return; // An announcement overtaken by a later one.
        }
        let members: InstanceSet = members.iter().copied().collect();
        assert!(members.contains(self.me), "i{} is not in epoch {epoch}", self.me);
        out.push(EpochEffect::Freeze { epoch });
        for instance in self.members.minus(members).iter() {
            out.push(EpochEffect::DiscardDeparted { instance });
        }
        self.phase = Phase::Frozen;
        self.target = epoch;
        self.members = members;
        self.dead_threads = dead_threads;
        self.recoverer = recoverer;
        self.progress = Progress::default();
        self.markers.clear();
        // A peer may have learned of the epoch before us.
        for (e, from, channel) in std::mem::take(&mut self.early_markers) {
            if e == epoch {
                self.markers.insert((from, channel));
            } else if e > epoch {
                self.early_markers.insert((e, from, channel));
            }
        }
        let to = members.without(self.me).iter().collect();
        out.push(EpochEffect::SendMarkers { epoch, to });
        self.try_enter(out);
    }

    fn marker(
        &mut self,
        from: InstanceNo,
        epoch: Epoch,
        channel: Channel,
        out: &mut Vec<EpochEffect>,
    ) {
        if epoch > self.target {
            self.early_markers.insert((epoch, from, channel));
        } else if epoch == self.target && self.phase == Phase::Frozen {
            self.markers.insert((from, channel));
            self.try_enter(out);
        }
    }

    fn try_enter(&mut self, out: &mut Vec<EpochEffect>) {
        let all = self.members.without(self.me).iter().all(|peer| {
            self.channels.iter().all(|&channel| self.markers.contains(&(peer, channel)))
        });
        if !all {
            return;
        }
        let epoch = self.target;
        self.phase = Phase::Rebuilding;
        self.current = epoch;
        out.push(EpochEffect::Enter { epoch, members: self.members.iter().collect() });
        out.push(EpochEffect::Report { epoch });
        if !self.dead_threads.is_empty() && self.recoverer == self.me {
            let threads = self.dead_threads.clone();
            out.push(EpochEffect::ScanDeadThreads { epoch, threads });
        }
    }

    fn rebuild_event(&mut self, event: &EpochEvent, out: &mut Vec<EpochEffect>) {
        let (EpochEvent::HoldingsComplete { epoch, .. }
        | EpochEvent::EnqueuesComplete { epoch, .. }
        | EpochEvent::DeadChangesComplete { epoch }
        | EpochEvent::RebuildDone { epoch, .. }
        | EpochEvent::RecoverySetComplete { epoch, .. }
        | EpochEvent::Thaw { epoch }
        | EpochEvent::ThawEnqueues { epoch }
        | EpochEvent::RecoveryDone { epoch }
        | EpochEvent::DeadTransactionsLocked { epoch }
        | EpochEvent::SetRecovered { epoch }
        | EpochEvent::DutiesDone { epoch, .. }
        | EpochEvent::DeadThreadsClosed { epoch }) = *event
        else {
            return;
        };
        if epoch != self.current || matches!(self.phase, Phase::Frozen | Phase::Outside) {
            return;
        }
        let p = &mut self.progress;
        match *event {
            EpochEvent::HoldingsComplete { from, .. } => p.holdings.insert(from),
            EpochEvent::EnqueuesComplete { from, .. } => p.enqueues.insert(from),
            EpochEvent::DeadChangesComplete { .. } => p.dead_changes = true,
            EpochEvent::RebuildDone { from, .. } => p.rebuilt.insert(from),
            EpochEvent::RecoverySetComplete { from, .. } => p.sets.insert(from),
            EpochEvent::Thaw { .. } => p.thaw = true,
            EpochEvent::ThawEnqueues { .. } => p.thaw_enqueues = true,
            EpochEvent::RecoveryDone { .. } if !p.all_recovered => {
                p.all_recovered = true;
                out.push(EpochEffect::AllRecovered { epoch });
            }
            EpochEvent::DeadTransactionsLocked { .. } => {
                self.tell_all(EpochMessage::ThawEnqueues { epoch }, out);
            }
            EpochEvent::SetRecovered { .. } => p.set_recovered = true,
            EpochEvent::DutiesDone { from, .. } => p.duties.insert(from),
            EpochEvent::DeadThreadsClosed { .. } => {
                let scn = block::Scn::ZERO; // the envelope carries the real one
                self.tell_all(EpochMessage::RecoveryDone { epoch, scn }, out);
            }
            _ => {}
        }
        self.go_on(out);
    }

    fn tell_all(&self, msg: EpochMessage, out: &mut Vec<EpochEffect>) {
        for to in self.members.iter() {
            out.push(EpochEffect::Send { to, msg: msg.clone() });
        }
    }

    /// Takes every step whose conditions are met.
    fn go_on(&mut self, out: &mut Vec<EpochEffect>) {
        let epoch = self.current;
        let everybody = |set: InstanceSet| self.members.minus(set).is_empty();
        let dead = !self.dead_threads.is_empty();
        let p = &self.progress;
        let reported = everybody(p.holdings) && everybody(p.enqueues);
        if reported && (!dead || p.dead_changes) && !p.rebuild_started {
            self.progress.rebuild_started = true;
            out.push(EpochEffect::Rebuild { epoch });
            self.tell_all(EpochMessage::RebuildDone { epoch }, out);
        }
        let p = &self.progress;
        let all_sets = everybody(p.sets) && everybody(p.rebuilt);
        if dead && self.recoverer == self.me && all_sets && !p.recovering {
            self.progress.recovering = true;
            self.tell_all(EpochMessage::Thaw { epoch }, out);
            out.push(EpochEffect::Recover { epoch });
        }
        let p = &self.progress;
        if p.recovering && p.set_recovered && everybody(p.duties) && !p.closing {
            self.progress.closing = true;
            let threads = self.dead_threads.clone();
            out.push(EpochEffect::CloseDeadThreads { epoch, threads });
        }
        let p = &mut self.progress;
        let rebuilt = self.members.minus(p.rebuilt).is_empty();
        if rebuilt && (!dead || p.thaw) && !p.blocks_thawed {
            p.blocks_thawed = true;
            self.phase = Phase::Open;
            out.push(EpochEffect::ThawBlocks { epoch });
        }
        if p.blocks_thawed && (!dead || p.thaw_enqueues) && !p.enqueues_thawed {
            p.enqueues_thawed = true;
            out.push(EpochEffect::ThawEnqueues { epoch });
        }
    }
}
