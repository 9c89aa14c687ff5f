//! The membership machine in a cluster of its own: random orders of delivery over FIFO channels,
//! from fixed seeds. What is checked: the cut loses nothing between the living, nobody goes on
//! before every master has rebuilt, nothing is given up before it is done, and everybody arrives.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use block::InstanceNo;
use global::epoch::{Admit, Channel, EpochEffect, EpochEvent, EpochMachine, Phase};
use global::msg::{Class, Epoch, EpochMessage};

#[derive(Clone, Debug)]
enum Packet {
    Marker {
        epoch: Epoch,
        channel: Channel,
    },
    /// A message of the epoch class.
    Epoch(EpochMessage),
    /// Any other message, counted to see that the cut loses none.
    Data {
        epoch: Epoch,
    },
}

type Pipe = (InstanceNo, InstanceNo, Channel);

struct Node {
    machine: EpochMachine,
    parked: Vec<(Pipe, Packet)>,
    /// Data delivered, by epoch and sender.
    heard: BTreeMap<(Epoch, InstanceNo), u32>,
    rebuilt: BTreeSet<Epoch>,
    thawed: BTreeSet<Epoch>,
}

struct Cluster {
    nodes: BTreeMap<InstanceNo, Node>,
    pipes: BTreeMap<Pipe, VecDeque<Packet>>,
    /// Data sent, by epoch, sender and receiver.
    said: BTreeMap<(Epoch, InstanceNo, InstanceNo), u32>,
    dead: BTreeSet<InstanceNo>,
    duties: BTreeSet<(InstanceNo, Epoch)>,
    recovered: BTreeSet<Epoch>,
    random: u64,
}

fn channels() -> Vec<Channel> {
    let block = |lane| Channel { class: Class::Block, lane };
    vec![block(0), block(1), Channel { class: Class::Epoch, lane: 0 }]
}

const EPOCH_CHANNEL: Channel = Channel { class: Class::Epoch, lane: 0 };

impl Cluster {
    fn new(count: u8, seed: u64) -> Cluster {
        let node = |i| Node {
            machine: EpochMachine::new(i, channels()),
            parked: Vec::new(),
            heard: BTreeMap::new(),
            rebuilt: BTreeSet::new(),
            thawed: BTreeSet::new(),
        };
        Cluster {
            nodes: (1..=count).map(InstanceNo).map(|i| (i, node(i))).collect(),
            pipes: BTreeMap::new(),
            said: BTreeMap::new(),
            dead: BTreeSet::new(),
            duties: BTreeSet::new(),
            recovered: BTreeSet::new(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    fn draw(&mut self, below: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 33) as usize % below
    }

    fn send(&mut self, from: InstanceNo, to: InstanceNo, channel: Channel, packet: Packet) {
        if !self.dead.contains(&to) {
            self.pipes.entry((from, to, channel)).or_default().push_back(packet);
        }
    }

    fn step(&mut self, i: InstanceNo, event: EpochEvent) {
        let mut out = Vec::new();
        self.nodes.get_mut(&i).expect("a node").machine.step(event, &mut out);
        for effect in out {
            self.perform(i, effect);
        }
    }

    fn perform(&mut self, i: InstanceNo, effect: EpochEffect) {
        match effect {
            EpochEffect::Freeze { .. } | EpochEffect::AllRecovered { .. } => {}
            EpochEffect::DiscardDeparted { instance } => {
                self.pipes.retain(|&(from, to, _), _| from != instance || to != i);
            }
            EpochEffect::SendMarkers { epoch, to } => {
                for to in to {
                    for channel in channels() {
                        self.send(i, to, channel, Packet::Marker { epoch, channel });
                    }
                }
            }
            EpochEffect::Enter { epoch, members } => self.enter(i, epoch, &members),
            EpochEffect::Report { epoch } => {
                for to in self.nodes[&i].machine.members().iter() {
                    let (last, items) = (true, Vec::new());
                    let msg = EpochMessage::Holdings { epoch, last, items };
                    self.send(i, to, EPOCH_CHANNEL, Packet::Epoch(msg));
                    let msg = EpochMessage::EnqueueHoldings { epoch, last, items: Vec::new() };
                    self.send(i, to, EPOCH_CHANNEL, Packet::Epoch(msg));
                }
            }
            EpochEffect::ScanDeadThreads { epoch, .. } => {
                for to in self.nodes[&i].machine.members().iter() {
                    let msg = EpochMessage::DeadChanges { epoch, last: true, items: Vec::new() };
                    self.send(i, to, EPOCH_CHANNEL, Packet::Epoch(msg));
                }
            }
            EpochEffect::Rebuild { epoch } => self.rebuild(i, epoch),
            EpochEffect::Recover { epoch } => {
                self.assert_all_rebuilt(i, epoch);
                self.step(i, EpochEvent::DeadTransactionsLocked { epoch });
                self.recovered.insert(epoch);
                self.step(i, EpochEvent::SetRecovered { epoch });
            }
            EpochEffect::CloseDeadThreads { epoch, .. } => {
                assert!(self.recovered.contains(&epoch), "given up before recovered");
                for m in self.nodes[&i].machine.members().iter() {
                    assert!(self.duties.contains(&(m, epoch)), "given up before written");
                }
                self.step(i, EpochEvent::DeadThreadsClosed { epoch });
            }
            EpochEffect::Send { to, msg } => self.send(i, to, EPOCH_CHANNEL, Packet::Epoch(msg)),
            EpochEffect::ThawBlocks { epoch } => {
                self.assert_all_rebuilt(i, epoch);
                self.nodes.get_mut(&i).expect("a node").thawed.insert(epoch);
            }
            EpochEffect::ThawEnqueues { epoch } => {
                assert!(self.nodes[&i].thawed.contains(&epoch));
            }
            EpochEffect::DemandEpoch { peer } => panic!("i{i} lost i{peer}"),
        }
    }

    fn assert_all_rebuilt(&self, by: InstanceNo, epoch: Epoch) {
        let members = self.nodes[&by].machine.members();
        for (i, n) in self.nodes.iter().filter(|(i, _)| members.contains(**i)) {
            assert!(n.rebuilt.contains(&epoch), "i{i} has not rebuilt {epoch}");
        }
    }

    fn enter(&mut self, i: InstanceNo, epoch: Epoch, members: &[InstanceNo]) {
        // Nothing that a living member said in the epochs before may still be on its way.
        for (&(of, from, to), &count) in &self.said {
            if to == i && of < epoch && members.contains(&from) && !self.skipped(i, of) {
                let heard = self.nodes[&i].heard.get(&(of, from)).copied().unwrap_or(0);
                assert_eq!(heard, count, "i{i} enters {epoch} without what i{from} said in {of}");
            }
        }
        let parked = std::mem::take(&mut self.nodes.get_mut(&i).expect("a node").parked);
        for (pipe, packet) in parked {
            self.arrive(pipe, packet);
        }
    }

    /// An epoch that was overtaken by the next before `i` entered it: its messages are void.
    fn skipped(&self, i: InstanceNo, epoch: Epoch) -> bool {
        !self.nodes[&i].rebuilt.contains(&epoch)
    }

    fn rebuild(&mut self, i: InstanceNo, epoch: Epoch) {
        self.nodes.get_mut(&i).expect("a node").rebuilt.insert(epoch);
        let members = self.nodes[&i].machine.members();
        // Which of them recovers is the cluster's decision; the lowest here.
        let recoverer = members.iter().next().expect("members");
        let msg = EpochMessage::RecoverySet { epoch, last: true, items: Vec::new() };
        self.send(i, recoverer, EPOCH_CHANNEL, Packet::Epoch(msg));
        self.duties.insert((i, epoch));
        self.send(i, recoverer, EPOCH_CHANNEL, Packet::Epoch(EpochMessage::DutiesDone { epoch }));
    }

    fn arrive(&mut self, pipe: Pipe, packet: Packet) {
        let (from, to, _) = pipe;
        let epoch = match &packet {
            Packet::Marker { epoch, channel } => {
                let (epoch, channel) = (*epoch, *channel);
                self.step(to, EpochEvent::Marker { from, epoch, channel });
                return;
            }
            Packet::Data { epoch } => *epoch,
            Packet::Epoch(msg) => epoch_of(msg),
        };
        match self.nodes[&to].machine.admit(from, epoch) {
            Admit::Drop => {}
            Admit::Park => {
                self.nodes.get_mut(&to).expect("a node").parked.push((pipe, packet));
            }
            Admit::Deliver => match packet {
                Packet::Data { epoch } => {
                    let node = self.nodes.get_mut(&to).expect("a node");
                    *node.heard.entry((epoch, from)).or_default() += 1;
                }
                Packet::Epoch(msg) => {
                    if let Some(event) = event_of(from, &msg) {
                        self.step(to, event);
                    }
                }
                Packet::Marker { .. } => unreachable!("handled above"),
            },
        }
    }

    /// A membership is announced to a member.
    fn announce(&mut self, i: InstanceNo, epoch: Epoch, members: &[InstanceNo]) {
        let dead_threads = self.dead.iter().copied().collect();
        let members = members.to_vec();
        let recoverer = members[0];
        self.step(i, EpochEvent::NewMembership { epoch, members, dead_threads, recoverer });
    }

    /// Says something on a channel, as an instance that is not frozen may.
    fn chatter(&mut self, from: InstanceNo, to: InstanceNo) {
        let machine = &self.nodes[&from].machine;
        if machine.phase() != Phase::Open || !machine.members().contains(to) {
            return;
        }
        let epoch = machine.epoch();
        let channel = channels()[self.draw(2)];
        *self.said.entry((epoch, from, to)).or_default() += 1;
        self.send(from, to, channel, Packet::Data { epoch });
    }

    fn run(&mut self, mut announcements: Vec<(InstanceNo, Epoch, Vec<InstanceNo>)>) {
        let mut steps = 0;
        loop {
            steps += 1;
            assert!(steps < 20_000, "no end");
            let busy: Vec<Pipe> =
                self.pipes.iter().filter(|(_, q)| !q.is_empty()).map(|(&p, _)| p).collect();
            if steps < 60 {
                let living: Vec<InstanceNo> =
                    self.nodes.keys().copied().filter(|i| !self.dead.contains(i)).collect();
                let (a, b) = (living[self.draw(living.len())], living[self.draw(living.len())]);
                if a != b {
                    self.chatter(a, b);
                }
            }
            let pick = self.draw(busy.len() + announcements.len() + 1);
            if pick < announcements.len() {
                // Of an instance's announcements the first: the cluster decides in one order.
                let who = announcements[pick].0;
                let at = announcements.iter().position(|a| a.0 == who).expect("present");
                let (i, epoch, members) = announcements.remove(at);
                self.announce(i, epoch, &members);
            } else if let Some(&pipe) = busy.get(pick - announcements.len()) {
                let packet = self.pipes.get_mut(&pipe).and_then(VecDeque::pop_front);
                self.arrive(pipe, packet.expect("busy"));
            } else if busy.is_empty() && announcements.is_empty() {
                return;
            }
        }
    }
}

fn epoch_of(msg: &EpochMessage) -> Epoch {
    match msg {
        EpochMessage::Marker { epoch, .. }
        | EpochMessage::Holdings { epoch, .. }
        | EpochMessage::EnqueueHoldings { epoch, .. }
        | EpochMessage::RebuildDone { epoch }
        | EpochMessage::DeadChanges { epoch, .. }
        | EpochMessage::RecoverySet { epoch, .. }
        | EpochMessage::Thaw { epoch }
        | EpochMessage::ThawEnqueues { epoch }
        | EpochMessage::RecoveredBlocks { epoch, .. }
        | EpochMessage::DutiesDone { epoch }
        | EpochMessage::RecoveryDone { epoch, .. }
        | EpochMessage::RecoveryDoneAck { epoch } => *epoch,
    }
}

fn event_of(from: InstanceNo, msg: &EpochMessage) -> Option<EpochEvent> {
    let epoch = epoch_of(msg);
    Some(match msg {
        EpochMessage::Holdings { .. } => EpochEvent::HoldingsComplete { from, epoch },
        EpochMessage::EnqueueHoldings { .. } => EpochEvent::EnqueuesComplete { from, epoch },
        EpochMessage::RebuildDone { .. } => EpochEvent::RebuildDone { from, epoch },
        EpochMessage::DeadChanges { .. } => EpochEvent::DeadChangesComplete { epoch },
        EpochMessage::RecoverySet { .. } => EpochEvent::RecoverySetComplete { from, epoch },
        EpochMessage::Thaw { .. } => EpochEvent::Thaw { epoch },
        EpochMessage::ThawEnqueues { .. } => EpochEvent::ThawEnqueues { epoch },
        EpochMessage::DutiesDone { .. } => EpochEvent::DutiesDone { from, epoch },
        EpochMessage::RecoveryDone { .. } => EpochEvent::RecoveryDone { epoch },
        EpochMessage::Marker { .. }
        | EpochMessage::RecoveredBlocks { .. }
        | EpochMessage::RecoveryDoneAck { .. } => return None,
    })
}

fn members(list: &[u8]) -> Vec<InstanceNo> {
    list.iter().map(|&n| InstanceNo(n)).collect()
}

/// Runs the cluster through `memberships`, each announced to its members at moments of their own.
fn through(seed: u64, count: u8, memberships: &[&[u8]]) {
    let mut c = Cluster::new(count, seed);
    let first = members(memberships[0]);
    let announce = |list: &[InstanceNo], epoch: u64| -> Vec<_> {
        list.iter().map(|&i| (i, Epoch(epoch), list.to_vec())).collect()
    };
    c.run(announce(&first, 1));
    let mut pending = Vec::new();
    for (k, list) in memberships.iter().enumerate().skip(1) {
        let list = members(list);
        for i in c.nodes.keys().copied().collect::<Vec<_>>() {
            if !list.contains(&i) && c.nodes[&i].machine.phase() != Phase::Outside {
                c.dead.insert(i);
                c.pipes.retain(|&(_, to, _), _| to != i);
            }
        }
        pending.retain(|a: &(InstanceNo, Epoch, Vec<InstanceNo>)| list.contains(&a.0));
        pending.extend(announce(&list, k as u64 + 1));
    }
    let last = members(memberships[memberships.len() - 1]);
    let epoch = Epoch(memberships.len() as u64);
    c.run(pending);
    for i in &last {
        let n = &c.nodes[i];
        assert_eq!(n.machine.epoch(), epoch, "i{i}, seed {seed}");
        assert_eq!(n.machine.phase(), Phase::Open, "i{i}, seed {seed}");
        assert_eq!(n.machine.alone(), last.len() == 1);
        assert!(n.machine.directory_ready() && n.thawed.contains(&epoch));
    }
}

#[test]
fn every_member_arrives_whatever_the_order() {
    for seed in 1..400 {
        through(seed, 3, &[&[1, 2, 3], &[1, 3]]);
        through(seed, 3, &[&[1, 2], &[1, 2, 3]]);
        through(seed, 4, &[&[1, 2, 3, 4], &[2, 3, 4], &[3, 4]]);
        through(seed, 2, &[&[1, 2], &[2]]);
        through(seed, 3, &[&[1, 2, 3], &[1, 2, 3], &[1, 2]]);
    }
}

#[test]
fn c4_broken_channel_demands_an_epoch_and_a_strangers_is_ignored() {
    let mut m = EpochMachine::new(InstanceNo(1), channels());
    let mut out = Vec::new();
    let (epoch, dead_threads, recoverer) = (Epoch(1), Vec::new(), InstanceNo(1));
    let event =
        EpochEvent::NewMembership { epoch, members: members(&[1, 2]), dead_threads, recoverer };
    m.step(event, &mut out);
    out.clear();
    m.step(EpochEvent::ChannelBroken { peer: InstanceNo(3) }, &mut out);
    assert!(out.is_empty());
    m.step(EpochEvent::ChannelBroken { peer: InstanceNo(2) }, &mut out);
    assert_eq!(out, [EpochEffect::DemandEpoch { peer: InstanceNo(2) }]);
}
