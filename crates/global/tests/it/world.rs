//! A cluster around one block: masters, holders, FIFO channels, and a cache and a disk reduced to
//! version numbers. Drives the machines as the kernel must, and checks the invariants after each
//! step from outside.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use block::{Dba, InstanceNo, Mode, Scn, Version, Xid};
use global::holder::{Facts, Holder, HolderEffect, HolderEvent, Ship};
use global::master::{Master, MasterEffect};
use global::msg::{BlockInfo, HolderMsg, Holding, MasterMsg, ReqId, Timings, Want};

pub const ADDR: Dba = Dba::new(4, 128);

pub fn v(count: u64) -> Version {
    Version { format: Scn(0), count }
}

/// What travels between two instances.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Packet {
    ToMaster(MasterMsg),
    ToHolder(HolderMsg),
    Block(BlockInfo),
    Cr {
        req_id: ReqId,
        version: Version,
    },
    /// The last packet of an epoch on its channel.
    Marker,
}

/// A session that waits for the block. `newest`: what a consistent copy must contain at least.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Session {
    pub want: Want,
    pub newest: Version,
}

/// The buffer of the block at one instance, and the instance's state around it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Node {
    pub holder: Holder,
    pub version: Version,
    pub dirty: bool,
    pub durable: bool,
    pub past: Option<Version>,
    pub pins: u32,
    pub change_pins: u32,
    pub writing: Option<Version>,
    pub reading: bool,
    pub flushing: bool,
    pub comparing: bool,
    /// Markers sent, those of others awaited.
    pub frozen: bool,
    pub markers: BTreeSet<InstanceNo>,
    /// What it reported when it entered the epoch that is being rebuilt.
    pub report: Option<Option<Holding>>,
    /// The block's master by the map of the epoch it is in.
    pub master_no: InstanceNo,
    pub alive: bool,
    pub waiting: Vec<Session>,
    /// Requests it has numbered, where each instance counts its own.
    pub asked: u64,
    /// Changes to make as soon as X is here (explorations).
    pub auto_change: bool,
}

#[derive(Clone)]
pub struct World {
    pub master_no: InstanceNo,
    pub nodes: BTreeMap<InstanceNo, Node>,
    pub masters: BTreeMap<InstanceNo, Master>,
    pub channels: BTreeMap<(InstanceNo, InstanceNo), VecDeque<Packet>>,
    pub disk: Version,
    /// The version on disk at the start.
    pub first: Version,
    /// The version of the last change made anywhere.
    pub newest: Version,
    /// Every change: its version, by whom, and whether its redo is durable.
    pub log: Vec<(Version, InstanceNo, bool)>,
    /// Dead threads that have been given up: their redo is gone.
    pub closed: BTreeSet<InstanceNo>,
    /// False from the first Marker to the thaw.
    pub open: bool,
    /// What waits for the directory to be rebuilt.
    pub for_master: Vec<(InstanceNo, InstanceNo, MasterMsg)>,
    pub next_req: u64,
    /// Each instance counts its requests: the same states are reached in whatever order they ask.
    pub own_numbers: bool,
    pub trace: Vec<String>,
    pub tracing: bool,
    pub now_us: u64,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.nodes.hash(state);
        for m in self.masters.values() {
            m.hash(state);
        }
        for (pair, queue) in &self.channels {
            if !queue.is_empty() {
                (pair, queue).hash(state);
            }
        }
        (self.disk, self.newest, &self.log, self.open, &self.closed).hash(state);
        (self.master_no, &self.for_master).hash(state);
    }
}

impl World {
    pub fn new(instances: u8, master: u8, disk: u64) -> World {
        let all = (1..=instances).map(InstanceNo);
        let node = Node {
            holder: Holder::new(ADDR),
            version: Version::ZERO,
            dirty: false,
            durable: true,
            past: None,
            pins: 0,
            change_pins: 0,
            writing: None,
            reading: false,
            flushing: false,
            comparing: false,
            frozen: false,
            markers: BTreeSet::new(),
            report: None,
            master_no: InstanceNo(master),
            alive: true,
            waiting: Vec::new(),
            asked: 0,
            auto_change: false,
        };
        World {
            master_no: InstanceNo(master),
            nodes: all.clone().map(|i| (i, node.clone())).collect(),
            masters: all.map(|i| (i, Master::new(i))).collect(),
            channels: BTreeMap::new(),
            disk: v(disk),
            first: v(disk),
            newest: v(disk),
            log: Vec::new(),
            closed: BTreeSet::new(),
            open: true,
            for_master: Vec::new(),
            next_req: 0,
            own_numbers: false,
            trace: Vec::new(),
            tracing: false,
            now_us: 0,
        }
    }

    pub fn note(&mut self, line: impl FnOnce() -> String) {
        if self.tracing {
            // One format generation is all there is here.
            self.trace.push(line().replace("v0/", "v"));
        }
    }

    pub fn node(&mut self, i: InstanceNo) -> &mut Node {
        self.nodes.get_mut(&i).expect("an instance of this cluster")
    }

    pub fn facts(&self, i: InstanceNo) -> Facts {
        let n = &self.nodes[&i];
        Facts {
            pins: n.pins,
            change_pins: n.change_pins,
            writing: n.writing.is_some(),
            dirty: n.dirty,
            version: n.version,
            redo_durable: n.durable,
            past_image: n.past,
            frozen: n.frozen,
            now_us: self.now_us,
        }
    }

    fn send(&mut self, from: InstanceNo, to: InstanceNo, packet: Packet) {
        if !self.nodes[&to].alive {
            return;
        }
        self.note(|| format!("i{from} → i{to} {}", show(&packet)));
        self.channels.entry((from, to)).or_default().push_back(packet);
    }

    /// Steps the holder at `i` and performs its effects.
    pub fn step(&mut self, i: InstanceNo, event: HolderEvent) {
        let facts = self.facts(i);
        self.step_with(i, event, &facts);
    }

    fn step_with(&mut self, i: InstanceNo, event: HolderEvent, facts: &Facts) {
        let before = self.nodes[&i].holder.mode();
        let mut out = Vec::new();
        self.node(i).holder.step(event, facts, &mut out);
        let after = self.nodes[&i].holder.mode();
        if before != after {
            self.note(|| format!("i{i}: {before} becomes {after}"));
        }
        let mut wake = false;
        for effect in out {
            wake |= effect == HolderEffect::Wake;
            self.perform(i, effect, &event, before);
        }
        if wake {
            self.wake(i);
        }
    }

    fn perform(&mut self, i: InstanceNo, effect: HolderEffect, event: &HolderEvent, before: Mode) {
        match effect {
            HolderEffect::ToMaster(msg) => {
                let to = self.nodes[&i].master_no;
                self.send(i, to, Packet::ToMaster(msg));
            }
            HolderEffect::AskCr { to, req_id, scn, xid } => {
                let timings = Timings::default();
                let msg = HolderMsg::AskCr { req_id, scn, xid, timings };
                self.send(i, to, Packet::ToHolder(msg));
            }
            HolderEffect::Ship(ship) => self.ship(i, ship, before),
            HolderEffect::ServeCr { to, req_id, .. } => {
                let version = self.nodes[&i].version;
                self.send(i, to, Packet::Cr { req_id, version });
            }
            HolderEffect::ReadDisk => {
                assert!(!self.nodes[&i].reading, "H13: a read on top of a stale one");
                self.node(i).reading = true;
            }
            HolderEffect::FlushRedo => {
                self.node(i).flushing = true;
                self.note(|| format!("i{i}: flush redo"));
            }
            HolderEffect::InstallImage => {
                let HolderEvent::Block { info, .. } = event else { panic!("no image to install") };
                let n = self.node(i);
                n.version = info.version;
                n.dirty = false;
                n.durable = true;
            }
            HolderEffect::UseCr => self.note(|| format!("i{i}: has a consistent copy")),
            HolderEffect::BecomeDirty => {
                self.node(i).dirty = true;
                self.note(|| format!("i{i}: dirty from now on"));
            }
            HolderEffect::KeepPastImage => {
                let n = self.node(i);
                n.past = Some(n.version);
                n.dirty = false;
                let version = n.version;
                self.note(|| format!("i{i}: keeps a past image {version}"));
            }
            HolderEffect::AdoptPastImage => {
                let n = self.node(i);
                n.version = n.past.take().expect("a past image to adopt");
                n.dirty = true;
                n.durable = true;
            }
            HolderEffect::DropPastImage { superseded } => {
                self.node(i).past = None;
                let why = if superseded { " (superseded; its first-dirty Rba stays)" } else { "" };
                self.note(|| format!("i{i}: past image dropped{why}"));
            }
            HolderEffect::DropImage => {
                let n = self.node(i);
                assert!(!n.dirty, "dirty content dropped");
                n.version = Version::ZERO;
            }
            HolderEffect::StartWrite => self.start_write(i),
            HolderEffect::CompareWithDisk => {
                self.node(i).comparing = true;
                self.note(|| format!("i{i}: compare the past image with disk"));
            }
            HolderEffect::Wake => {}
            HolderEffect::Broken(why) => panic!("i{i}: {why}"),
        }
        if effect == HolderEffect::ReadDisk {
            self.note(|| format!("i{i}: read from disk"));
        }
    }

    fn ship(&mut self, i: InstanceNo, ship: Ship, before: Mode) {
        let n = &self.nodes[&i];
        assert!(!n.dirty || n.durable, "invariant 3: shipped before its redo is durable");
        let demoted = n.holder.mode() < before;
        assert!(!demoted || n.writing.is_none(), "C6: demoted with a write in flight");
        assert_eq!(ship.info.version, n.version);
        assert_ne!(n.holder.mode(), Mode::X, "shipped before the demotion");
        self.send(i, ship.to, Packet::Block(ship.info));
    }

    /// Sessions look again: take what is here, ask for what is not.
    pub fn wake(&mut self, i: InstanceNo) {
        for s in std::mem::take(&mut self.node(i).waiting) {
            self.want(i, s);
        }
    }

    pub fn want(&mut self, i: InstanceNo, session: Session) {
        if !self.nodes[&i].alive {
            return;
        }
        let mode = session.want.mode();
        if !self.open {
            self.node(i).waiting.push(session);
            return; // Asked again at the thaw.
        }
        let usable = match session.want {
            Want::Cr { .. } => self.nodes[&i].holder.readable(),
            Want::S | Want::X => self.nodes[&i].holder.admits(mode),
        };
        if usable {
            self.satisfy(i, session);
            return;
        }
        self.node(i).waiting.push(session);
        let number = if self.own_numbers { &mut self.node(i).asked } else { &mut self.next_req };
        *number += 1;
        let req_id = ReqId(u64::from(i.0) * 1000 + *number);
        self.step(i, HolderEvent::Want { want: session.want, req_id });
    }

    fn satisfy(&mut self, i: InstanceNo, session: Session) {
        let n = &self.nodes[&i];
        assert_eq!(n.version, self.newest, "i{i} reads a stale current block");
        let (mode, auto_change) = (n.holder.mode(), n.auto_change);
        self.note(|| format!("i{i}: {} satisfied in {mode}", session.want));
        if session.want == Want::X && auto_change {
            self.change(i);
        }
    }

    /// Changes the block, as a session with an X pin does in one short section.
    pub fn change(&mut self, i: InstanceNo) {
        assert_eq!(self.nodes[&i].holder.mode(), Mode::X, "i{i} changes without the right");
        assert!(self.nodes[&i].holder.readable());
        let next = self.newest.next();
        let n = self.node(i);
        n.version = next;
        n.dirty = true;
        n.durable = false;
        self.newest = next;
        self.log.push((next, i, false));
        self.note(|| format!("i{i}: changed to {next}"));
    }

    fn log_durable(&mut self, i: InstanceNo) {
        self.log.iter_mut().filter(|e| e.1 == i).for_each(|e| e.2 = true);
    }

    pub fn start_write(&mut self, i: InstanceNo) {
        let n = self.node(i);
        assert!(n.holder.readable() && n.dirty, "invariant 8: only the writer writes");
        assert!(n.writing.is_none());
        // Write-ahead: the write itself waits for the log, which we count as done with it.
        n.durable = true;
        self.log_durable(i);
        let n = self.node(i);
        n.writing = Some(n.version);
        let version = n.version;
        self.note(|| format!("i{i}: writing {version}"));
    }

    pub fn write_done(&mut self, i: InstanceNo) {
        let n = self.node(i);
        let version = n.writing.take().expect("a write in flight");
        n.dirty = n.dirty && n.version != version;
        assert!(version >= self.disk, "invariant 8: the version on disk never decreases");
        self.disk = version;
        self.note(|| format!("i{i}: disk has {version}"));
        self.step(i, HolderEvent::WriteDone { version });
    }

    pub fn flush_done(&mut self, i: InstanceNo) {
        let n = self.node(i);
        n.flushing = false;
        n.durable = true;
        self.log_durable(i);
        self.step(i, HolderEvent::FlushDone);
    }

    /// The read ends. Waiters it satisfies get their pins in the same section, before a parked
    /// Forward may take the block away: else two instances could play ping-pong without progress.
    pub fn read_done(&mut self, i: InstanceNo, ok: bool) {
        let disk = self.disk;
        let n = self.node(i);
        n.reading = false;
        if !ok {
            self.step(i, HolderEvent::ReadFailed);
            return;
        }
        if !n.holder.reading() {
            self.step(i, HolderEvent::ReadDone);
            return;
        }
        n.version = disk;
        n.dirty = false;
        n.durable = true;
        let mode = n.holder.mode();
        let (ready, rest) =
            n.waiting.iter().partition::<Vec<Session>, _>(|s| s.want.mode() <= mode);
        n.waiting = rest;
        let extra = u32::try_from(ready.len()).expect("few sessions");
        n.pins += extra;
        n.change_pins += extra;
        self.step(i, HolderEvent::ReadDone);
        for s in ready {
            self.satisfy(i, s);
            self.node(i).pins -= 1;
            self.node(i).change_pins -= 1;
        }
        self.step(i, HolderEvent::Progress);
    }

    pub fn compared(&mut self, i: InstanceNo) {
        let version = self.disk;
        self.node(i).comparing = false;
        self.step(i, HolderEvent::DiskVersion { version });
    }

    /// Delivers the oldest packet of a channel.
    pub fn deliver(&mut self, from: InstanceNo, to: InstanceNo) -> bool {
        let Some(packet) = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        match packet {
            Packet::Marker => {
                self.node(to).markers.insert(from);
                self.try_enter(to);
            }
            Packet::ToMaster(msg) => self.master_step(from, to, &msg),
            Packet::ToHolder(msg) => self.step(to, HolderEvent::Message { from, msg }),
            Packet::Block(info) => self.step(to, HolderEvent::Block { from, info }),
            Packet::Cr { req_id, version } => self.cr_arrived(from, to, req_id, version),
        }
        self.close_dead_threads();
        self.check();
        true
    }

    pub fn master_step(&mut self, from: InstanceNo, to: InstanceNo, msg: &MasterMsg) {
        if self.nodes[&to].frozen {
            return; // A master that has sent its Markers can neither grant nor forward (C2).
        }
        if self.nodes[&to].report.is_some() {
            // The directory is not rebuilt yet.
            self.for_master.push((from, to, *msg));
            return;
        }
        let mut out = Vec::new();
        let now_us = self.now_us;
        let master = self.masters.get_mut(&to).expect("an instance of this cluster");
        master.step(now_us, from, ADDR, msg, &mut out);
        self.send_all(to, out);
    }

    pub fn send_all(&mut self, from: InstanceNo, out: Vec<MasterEffect>) {
        for e in out {
            self.send(from, e.to, Packet::ToHolder(e.msg));
        }
    }

    fn cr_arrived(&mut self, from: InstanceNo, i: InstanceNo, req_id: ReqId, version: Version) {
        let ours = self.nodes[&i].holder.pending().is_some_and(|p| p.0 == req_id);
        if ours {
            let n = self.node(i);
            let at = n.waiting.iter().position(|s| matches!(s.want, Want::Cr { .. }));
            if let Some(at) = at {
                let s = n.waiting.remove(at);
                assert!(version >= s.newest, "H14: a consistent copy misses a commit");
            }
        }
        self.step(i, HolderEvent::CrBlock { from, req_id });
    }

    /// Channels with something to deliver. What follows a Marker is of the next epoch, and waits
    /// until its receiver is there.
    pub fn busy_channels(&self) -> Vec<(InstanceNo, InstanceNo)> {
        let deliverable = |&(&(from, to), q): &(&(InstanceNo, InstanceNo), &VecDeque<Packet>)| {
            !q.is_empty() && !self.nodes[&to].markers.contains(&from)
        };
        self.channels.iter().filter(deliverable).map(|(&pair, _)| pair).collect()
    }

    /// Delivers until no channel has anything, lowest first; I/O stays where it is.
    pub fn deliver_all(&mut self) {
        while let Some(&(from, to)) = self.busy_channels().first() {
            self.deliver(from, to);
        }
    }

    /// Ends one piece of I/O; false if there is none.
    pub fn io(&mut self, i: InstanceNo) -> bool {
        let n = &self.nodes[&i];
        if !n.alive {
            return false;
        }
        if n.flushing {
            self.flush_done(i);
        } else if n.reading {
            self.read_done(i, true);
        } else if n.writing.is_some() {
            self.write_done(i);
        } else if n.comparing {
            self.compared(i);
        } else {
            return false;
        }
        self.check();
        true
    }

    pub fn settle(&mut self) {
        loop {
            self.deliver_all();
            let all: Vec<InstanceNo> = self.nodes.keys().copied().collect();
            if !all.into_iter().any(|i| self.io(i)) {
                return;
            }
        }
    }

    /// The invariants, by the holders' own view.
    pub fn check(&self) {
        if !self.open {
            self.check_exclusive();
            return;
        }
        self.check_exclusive();
        let alive = || self.nodes.values().filter(|n| n.alive);
        let current = || alive().filter(|n| n.holder.readable());
        for n in current() {
            assert_eq!(n.version, self.newest, "invariant 2: a current copy is not the newest");
        }
        let flying = self.channels.values().flatten().any(|p| match p {
            Packet::Block(info) => info.version == self.newest,
            _ => false,
        });
        let past = alive().filter_map(|n| n.past).max() == Some(self.newest);
        // One that offers to evict keeps its image until the master agrees.
        let held = alive().any(|n| n.holder.present() && n.version == self.newest);
        let reachable = held || flying || past || self.disk == self.newest;
        assert!(reachable, "invariant 2: version {} is nowhere", self.newest);
        for n in alive() {
            assert!(
                n.past.is_none_or(|p| p <= self.disk) || self.someone_owes_write(),
                "invariant 4: a past image nobody will replace on disk"
            );
        }
    }

    fn check_exclusive(&self) {
        let alive = || self.nodes.values().filter(|n| n.alive);
        let x = alive().filter(|n| n.holder.mode() == Mode::X).count();
        let s = alive().filter(|n| n.holder.mode() == Mode::S).count();
        assert!(x <= 1 && (x == 0 || s == 0), "invariant 1: {x} in X, {s} in S");
    }

    /// Whether the newest version is on disk, or has somebody who will bring it there: a dirty
    /// holder, a transfer in flight, a past image that can be promoted.
    fn someone_owes_write(&self) -> bool {
        let alive = || self.nodes.values().filter(|n| n.alive);
        let dirty = alive().any(|n| n.dirty && n.holder.readable());
        let flying = self.channels.values().flatten().any(|p| matches!(p, Packet::Block(_)));
        let nobody = !alive().any(|n| n.holder.readable());
        let drop_under_way = self.channels.values().flatten().any(|p| {
            matches!(
                p,
                Packet::ToHolder(
                    HolderMsg::PastImageDrop { .. }
                        | HolderMsg::BecomeWriter { .. }
                        | HolderMsg::Promote { .. }
                ) | Packet::ToMaster(MasterMsg::Written { .. } | MasterMsg::Promoted { .. })
                    | Packet::ToHolder(HolderMsg::Grant { .. })
            )
        });
        // An S copy left by an invalidated writer waits for its Grant in X, which makes it dirty.
        let converting =
            self.masters.values().any(|m| m.view(ADDR).is_some_and(|v| v.asker.is_some()));
        dirty || flying || nobody || drop_under_way || converting
    }

    /// At rest: nothing in the channels, no I/O. Then nobody may be waiting (invariant 9).
    pub fn check_at_rest(&self) {
        for (i, n) in self.nodes.iter().filter(|(_, n)| n.alive) {
            assert!(n.waiting.is_empty(), "i{i} waits for ever");
            assert!(n.holder.pending().is_none(), "i{i} has a request nobody answers");
            assert!(n.holder.duty().is_none(), "i{i} owes an answer for ever");
        }
        for m in self.masters.values() {
            let Some(view) = m.view(ADDR) else { continue };
            assert!(view.asker.is_none() && !view.promoting, "invariant 5: {view}");
            assert!(view.queue.is_empty(), "{view}");
        }
        self.check_record();
    }

    /// At rest the master's record is what the holders say.
    fn check_record(&self) {
        let view = self.masters[&self.master_no].view(ADDR).unwrap_or_default();
        for (&i, n) in self.nodes.iter().filter(|(_, n)| n.alive) {
            let recorded = match (view.x == Some(i), view.s.contains(&i)) {
                (true, _) => Mode::X,
                (_, true) => Mode::S,
                _ => Mode::N,
            };
            assert_eq!(n.holder.mode(), recorded, "i{i} by its own view, and the master's");
            let past = view.past.iter().find(|p| p.0 == i).map(|p| p.1);
            assert_eq!(n.past, past, "past image of i{i}, and the master's view");
        }
    }
}

pub fn cr(scn: u64) -> Want {
    Want::Cr { scn: Scn(scn), xid: Xid::NONE }
}

fn show(packet: &Packet) -> String {
    match packet {
        Packet::ToMaster(m) => m.to_string(),
        Packet::ToHolder(m) => m.to_string(),
        Packet::Block(info) => info.to_string(),
        Packet::Marker => "Marker".into(),
        Packet::Cr { version, .. } => format!("CrBlock from {version}"),
    }
}
