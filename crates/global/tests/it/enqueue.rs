//! A cluster around enqueues: one master, a shadow of each resource per instance, FIFO channels,
//! users named by letters. Golden scripts, an exploration of all orders, and deadlocks.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash, Hasher};

use block::{InstanceNo, Xid};
use global::ges::{
    Deadlock, DeadlockEffect, GesMaster, GesShadow, OwnerId, ShadowEffect, ShadowEvent, WaitGraph,
};
use global::msg::{GesHolderMsg, GesMasterMsg, GesMessage, GesMode, ReqId, Resource, Wait, Waiter};

use crate::script::{Machine, instance, run_folder};

#[derive(Clone, PartialEq, Eq, Debug)]
enum Packet {
    ToMaster(Resource, GesMasterMsg),
    ToHolder(Resource, GesHolderMsg),
    Search(GesMessage),
}

impl Hash for Packet {
    fn hash<H: Hasher>(&self, state: &mut H) {
        match self {
            Packet::ToMaster(r, m) => (0, r, m).hash(state),
            Packet::ToHolder(r, m) => (1, r, m).hash(state),
            Packet::Search(m) => format!("{m:?}").hash(state),
        }
    }
}

type Shadows = BTreeMap<(InstanceNo, Resource), GesShadow>;

/// The waits at one instance, as the kernel would answer for them.
struct Graph<'a> {
    me: InstanceNo,
    master_no: InstanceNo,
    master: &'a GesMaster,
    shadows: &'a Shadows,
    waits: &'a BTreeMap<(InstanceNo, OwnerId), (Resource, u64)>,
    /// Waits that any of several owners can end (ITL entries).
    any_of: &'a BTreeMap<(InstanceNo, OwnerId), Vec<Waiter>>,
}

fn xid_of(home: InstanceNo, owner: OwnerId) -> Xid {
    Xid { usn: u16::from(home.0), slot: owner.0 as u16, seq: 1 }
}

fn owner_at(home: InstanceNo, owner: OwnerId) -> Waiter {
    Waiter::Owner { home, xid: xid_of(home, owner) }
}

impl WaitGraph for Graph<'_> {
    fn wait_of(&self, who: &Waiter) -> Option<Wait> {
        assert_eq!(who.home(), self.me);
        let owners = |list: Vec<OwnerId>| list.into_iter().map(|o| owner_at(self.me, o)).collect();
        let (wait_no, any_of, on) = match *who {
            Waiter::Owner { xid, .. } => {
                let owner = OwnerId(u64::from(xid.slot));
                if let Some(on) = self.any_of.get(&(self.me, owner)) {
                    (1, true, on.clone())
                } else {
                    let &(resource, wait_no) = self.waits.get(&(self.me, owner))?;
                    let shadow = &self.shadows[&(self.me, resource)];
                    let mut on: Vec<Waiter> = owners(shadow.local_blockers(owner));
                    if shadow.waits_remotely(owner) {
                        let (home, asker) = (self.master_no, self.me);
                        on.push(Waiter::Queued { home, resource, asker });
                    }
                    (wait_no, false, on)
                }
            }
            Waiter::Queued { resource, asker, .. } => {
                let wait_no = self.master.queued(resource, asker)?.0;
                (wait_no, false, self.master.blockers(resource, asker))
            }
            Waiter::Held { resource, wanted, .. } => {
                let shadow = self.shadows.get(&(self.me, resource))?;
                (0, false, owners(shadow.holding_against(wanted)))
            }
            Waiter::Ahead { resource, .. } => {
                let shadow = self.shadows.get(&(self.me, resource))?;
                (0, false, owners(shadow.waiting_for_more()))
            }
        };
        Some(Wait { who: *who, wait_no, any_of, on })
    }
}

#[derive(Clone)]
struct World {
    instances: u8,
    master_no: InstanceNo,
    master: GesMaster,
    shadows: Shadows,
    waits: BTreeMap<(InstanceNo, OwnerId), (Resource, u64)>,
    any_of: BTreeMap<(InstanceNo, OwnerId), Vec<Waiter>>,
    channels: BTreeMap<(InstanceNo, InstanceNo), VecDeque<Packet>>,
    next_req: u64,
    /// What was granted, in order, for explorations that unlock by themselves.
    granted: Vec<(InstanceNo, OwnerId, Resource)>,
    confirm: Vec<(InstanceNo, Waiter)>,
    trace: Vec<String>,
}

impl Hash for World {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.master.hash(state);
        self.shadows.hash(state);
        for (pair, queue) in self.channels.iter().filter(|(_, q)| !q.is_empty()) {
            (pair, queue).hash(state);
        }
        self.granted.hash(state);
    }
}

impl World {
    fn new(instances: u8, master_no: InstanceNo) -> World {
        World {
            instances,
            master_no,
            master: GesMaster::new(),
            shadows: BTreeMap::new(),
            waits: BTreeMap::new(),
            any_of: BTreeMap::new(),
            channels: BTreeMap::new(),
            next_req: 0,
            granted: Vec::new(),
            confirm: Vec::new(),
            trace: Vec::new(),
        }
    }

    fn req(&mut self) -> ReqId {
        self.next_req += 1;
        ReqId(self.next_req)
    }

    fn send(&mut self, from: InstanceNo, to: InstanceNo, packet: Packet) {
        self.trace.push(format!("i{from} → i{to} {}", show(&packet)));
        self.channels.entry((from, to)).or_default().push_back(packet);
    }

    fn step(&mut self, i: InstanceNo, r: Resource, event: ShadowEvent) {
        let shadow = self.shadows.entry((i, r)).or_insert_with(|| GesShadow::new(r));
        let mut out = Vec::new();
        let before = shadow.mode();
        shadow.step(event, &mut out);
        let after = shadow.mode();
        if before != after {
            self.trace.push(format!("i{i}: {r} {before} becomes {after}"));
        }
        for effect in out {
            match effect {
                ShadowEffect::ToMaster(msg) => {
                    let to = self.master_no;
                    self.send(i, to, Packet::ToMaster(r, msg));
                }
                ShadowEffect::Granted { owner, mode } => {
                    self.trace.push(format!("i{i}: {} has {r} {mode}", letter(owner)));
                    self.waits.remove(&(i, owner));
                    self.granted.push((i, owner, r));
                }
                ShadowEffect::Refused { owner } => {
                    self.trace.push(format!("i{i}: {} is refused {r}", letter(owner)));
                    self.waits.remove(&(i, owner));
                }
                ShadowEffect::Withdrawn { owner } => {
                    self.trace.push(format!("i{i}: {} waits no more for {r}", letter(owner)));
                    self.waits.remove(&(i, owner));
                }
            }
        }
        self.check();
    }

    fn lock(&mut self, i: InstanceNo, owner: OwnerId, r: Resource, mode: GesMode, no_wait: bool) {
        let req_id = self.req();
        self.waits.insert((i, owner), (r, req_id.0));
        self.step(i, r, ShadowEvent::Lock { owner, mode, req_id, no_wait });
    }

    fn lower(&mut self, i: InstanceNo, owner: OwnerId, r: Resource, mode: GesMode) {
        let req_id = self.req();
        self.step(i, r, ShadowEvent::Lower { owner, mode, req_id });
    }

    fn deliver(&mut self, from: InstanceNo, to: InstanceNo) -> bool {
        let Some(packet) = self.channels.get_mut(&(from, to)).and_then(VecDeque::pop_front) else {
            return false;
        };
        match packet {
            Packet::ToMaster(r, msg) => {
                let mut out = Vec::new();
                self.master.step(from, r, &msg, &mut out);
                for e in out {
                    self.send(to, e.to, Packet::ToHolder(e.resource, e.msg));
                }
            }
            Packet::ToHolder(r, msg) => {
                let req_id = self.req();
                self.step(to, r, ShadowEvent::Message { msg, req_id });
            }
            Packet::Search(msg) => self.search_step(to, |d, g, out| d.message(&msg, g, out)),
        }
        self.check();
        true
    }

    fn busy(&self) -> Vec<(InstanceNo, InstanceNo)> {
        self.channels.iter().filter(|(_, q)| !q.is_empty()).map(|(&p, _)| p).collect()
    }

    fn deliver_all(&mut self) {
        while let Some(&(from, to)) = self.busy().first() {
            self.deliver(from, to);
        }
    }

    /// No two users anywhere have modes that exclude each other.
    fn check(&self) {
        let mut users: Vec<(Resource, InstanceNo, OwnerId, GesMode)> = Vec::new();
        for (&(i, r), s) in &self.shadows {
            users.extend(s.users().iter().map(|u| (r, i, u.0, u.1)));
        }
        for (k, a) in users.iter().enumerate() {
            for b in users[k + 1..].iter().filter(|b| a.0 == b.0) {
                assert!(a.3.compatible(b.3), "{a:?} together with {b:?}");
            }
        }
    }

    fn search_step(
        &mut self,
        i: InstanceNo,
        act: impl FnOnce(&mut Deadlock, &Graph<'_>, &mut Vec<DeadlockEffect>),
    ) {
        let mut out = Vec::new();
        let mut search =
            SEARCHES.with_borrow_mut(|s| s.remove(&i).unwrap_or_else(|| Deadlock::new(i)));
        let graph = Graph {
            me: i,
            master_no: self.master_no,
            master: &self.master,
            shadows: &self.shadows,
            waits: &self.waits,
            any_of: &self.any_of,
        };
        act(&mut search, &graph, &mut out);
        SEARCHES.with_borrow_mut(|s| s.insert(i, search));
        for effect in out {
            match effect {
                DeadlockEffect::Send { to, msg } => self.send(i, to, Packet::Search(msg)),
                DeadlockEffect::Confirm { start } => {
                    self.trace.push(format!("i{i}: a cycle, to be seen once more"));
                    self.confirm.push((i, start));
                }
                DeadlockEffect::Victim { xid, cycle } => {
                    let who = letter(OwnerId(u64::from(xid.slot)));
                    self.trace.push(format!("i{i}: {who} is the victim of {} waits", cycle.len()));
                }
            }
        }
    }

    fn show(&mut self) {
        for r in self.master.resources() {
            let view = self.master.view(r).expect("listed");
            let list = |l: &[(InstanceNo, GesMode)]| {
                l.iter().map(|(i, m)| format!("i{i} {m}")).collect::<Vec<_>>().join(", ")
            };
            let mut line = format!("master: {r} held by [{}]", list(&view.holders));
            if !view.queue.is_empty() {
                line += &format!(", wanted by [{}]", list(&view.queue));
            }
            line += &format!(", value {}", view.value.value);
            if view.value.dubious {
                line += " dubious";
            }
            self.trace.push(line);
        }
        for (&(i, r), s) in &self.shadows {
            let users: Vec<String> =
                s.users().iter().map(|u| format!("{} {}", letter(u.0), u.1)).collect();
            let line = format!("i{i}: {r} {} users [{}]", s.mode(), users.join(", "));
            self.trace.push(line);
        }
    }

    /// All enter a new epoch with `master` as the master; the old one's table is gone.
    fn epoch(&mut self, master: InstanceNo, dead: Option<InstanceNo>) {
        self.channels.clear();
        self.master = GesMaster::new();
        self.master_no = master;
        self.shadows.retain(|&(i, _), _| Some(i) != dead);
        self.waits.retain(|&(i, _), _| Some(i) != dead);
        let keys: Vec<(InstanceNo, Resource)> = self.shadows.keys().copied().collect();
        for &(i, r) in &keys {
            self.step(i, r, ShadowEvent::Freeze);
            self.step(i, r, ShadowEvent::EnterEpoch);
            if let Some(h) = self.shadows[&(i, r)].holding() {
                self.trace.push(format!("i{i}: reports {r} {}", h.mode));
                self.master.report(i, &h);
            }
        }
        for (i, r) in keys {
            let req_id = self.req();
            self.step(i, r, ShadowEvent::Thaw { req_id });
        }
    }
}

thread_local! {
    /// Searches are not part of the explored state.
    static SEARCHES: std::cell::RefCell<BTreeMap<InstanceNo, Deadlock>> =
        const { std::cell::RefCell::new(BTreeMap::new()) };
}

fn letter(owner: OwnerId) -> char {
    char::from(u8::try_from(owner.0).expect("a letter"))
}

fn show(packet: &Packet) -> String {
    match packet {
        Packet::ToMaster(r, m) => match m {
            GesMasterMsg::Request { mode, no_wait, .. } => {
                format!("Request {r} {mode}{}", if *no_wait { " nowait" } else { "" })
            }
            GesMasterMsg::Lowered { mode, value, .. } => {
                let value = value.map(|v| format!(" value {}", v.value)).unwrap_or_default();
                format!("Lowered {r} {mode}{value}")
            }
            GesMasterMsg::Cancel { .. } => format!("Cancel {r}"),
            GesMasterMsg::Busy { wanted } => format!("Busy {r} for {wanted}"),
        },
        Packet::ToHolder(r, m) => match m {
            GesHolderMsg::Granted { mode, value, .. } => {
                let dubious = if value.dubious { " dubious" } else { "" };
                format!("Granted {r} {mode} value {}{dubious}", value.value)
            }
            GesHolderMsg::Refused { .. } => format!("Refused {r}"),
            GesHolderMsg::Blocking { wanted, no_wait } => {
                format!("Blocking {r} {wanted}{}", if *no_wait { " nowait" } else { "" })
            }
            GesHolderMsg::Withdrawn { .. } => format!("Withdrawn {r}"),
            GesHolderMsg::TooLate { .. } => format!("TooLate {r}"),
        },
        Packet::Search(m) => match m {
            GesMessage::Probe { probe } => format!("Probe with {} waits", probe.seen.len()),
            GesMessage::ProbeDone { probe } => format!("ProbeDone with {} waits", probe.seen.len()),
            GesMessage::Victim { cycle, .. } => format!("Victim of {} waits", cycle.len()),
            GesMessage::ToMaster { .. } | GesMessage::ToHolder { .. } => "?".into(),
        },
    }
}

fn mode(word: &str) -> GesMode {
    *GesMode::ALL.iter().find(|m| m.to_string() == word).expect("a mode")
}

fn resource(word: &str) -> Resource {
    let mut parts = word.split('-');
    let kind = parts.next().expect("a type").as_bytes();
    let mut number = || parts.next().expect("a number").parse().expect("a number");
    Resource::new([kind[0], kind[1]], number(), number())
}

fn owner(word: &str) -> OwnerId {
    OwnerId(u64::from(word.as_bytes()[0]))
}

struct Script(Option<World>);

impl Machine for Script {
    fn command(&mut self, line: &str, out: &mut Vec<String>) {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["cluster", n, "master", m] = words[..] {
            SEARCHES.with_borrow_mut(BTreeMap::clear);
            self.0 = Some(World::new(n.parse().expect("a count"), instance(m)));
            return;
        }
        let w = self.0.as_mut().expect("a script begins with `cluster`");
        match words[..] {
            ["deliver"] => w.deliver_all(),
            ["deliver", from, to] => {
                assert!(w.deliver(instance(from), instance(to)), "nothing from {from} to {to}");
            }
            ["show"] => w.show(),
            ["epoch", "master", m] => w.epoch(instance(m), None),
            ["epoch", "master", m, "without", dead] => w.epoch(instance(m), Some(instance(dead))),
            ["confirm"] => {
                for (i, start) in std::mem::take(&mut w.confirm) {
                    w.search_step(i, |d, g, out| d.start(start, g, out));
                }
            }
            _ => {
                let (who, act) = line.split_once(": ").expect("iN: …");
                let words: Vec<&str> = act.split_whitespace().collect();
                user_command(w, instance(who), &words);
            }
        }
        out.append(&mut w.trace);
    }
}

fn user_command(w: &mut World, i: InstanceNo, words: &[&str]) {
    match words {
        [o, "locks", r, m] => w.lock(i, owner(o), resource(r), mode(m), false),
        [o, "locks", r, m, "nowait"] => w.lock(i, owner(o), resource(r), mode(m), true),
        [o, "lets", "go", "of", r] => w.lower(i, owner(o), resource(r), GesMode::Null),
        [o, "lowers", r, "to", m] => w.lower(i, owner(o), resource(r), mode(m)),
        [o, "gives", "up", r] => {
            let (owner, req_id) = (owner(o), w.req());
            w.step(i, resource(r), ShadowEvent::Cancel { owner, req_id });
        }
        ["sets", r, "to", v] => {
            let value = v.parse().expect("a value");
            w.step(i, resource(r), ShadowEvent::SetValue { value, limit: value });
        }
        ["forgets", r] => w.step(i, resource(r), ShadowEvent::Forget),
        [o, "waits", "for", "any", "of", rest @ ..] => {
            let on = rest.chunks(2).map(|p| owner_at(instance(p[0]), owner(p[1]))).collect();
            w.any_of.insert((i, owner(o)), on);
        }
        ["search", o] => {
            let start = owner_at(i, owner(o));
            w.search_step(i, |d, g, out| d.start(start, g, out));
        }
        _ => panic!("unknown command {words:?}"),
    }
}

#[test]
fn ges_scripts() {
    run_folder("ges", || Box::new(Script(None)));
}

/// What a user does: lock in a mode, and let go once it is granted; or give up.
#[derive(Clone, Copy)]
enum Act {
    Lock(u8, GesMode),
    NoWait(u8, GesMode),
    GiveUp(u8),
}

/// Explores every order of acts, deliveries and unlocks; returns the number of states.
fn explore(plans: &[&[Act]]) -> usize {
    let r = Resource::new(*b"TM", 1, 0);
    let start = World::new(plans.len() as u8, InstanceNo(1));
    let mut seen: HashSet<u64, BuildHasherDefault<DefaultHasher>> = HashSet::default();
    let mut stack = vec![(start, vec![0usize; plans.len()])];
    while let Some((mut world, done)) = stack.pop() {
        world.trace.clear();
        let mut of = world.clone();
        of.next_req = 0;
        if !seen.insert(seen.hasher().hash_one((&of, &done))) {
            continue;
        }
        assert!(seen.len() < 400_000, "more states than this test is sized for");
        let mut moved = false;
        for (k, plan) in plans.iter().enumerate().filter(|(k, p)| done[*k] < p.len()) {
            moved = true;
            let (mut next, mut done) = (world.clone(), done.clone());
            let i = InstanceNo(k as u8 + 1);
            match plan[done[k]] {
                Act::Lock(o, mode) => next.lock(i, OwnerId(u64::from(o)), r, mode, false),
                Act::NoWait(o, mode) => next.lock(i, OwnerId(u64::from(o)), r, mode, true),
                Act::GiveUp(o) => {
                    let (owner, req_id) = (OwnerId(u64::from(o)), next.req());
                    next.step(i, r, ShadowEvent::Cancel { owner, req_id });
                }
            }
            done[k] += 1;
            stack.push((next, done));
        }
        for (from, to) in world.busy() {
            moved = true;
            let mut next = world.clone();
            next.deliver(from, to);
            stack.push((next, done.clone()));
        }
        for at in 0..world.granted.len() {
            moved = true;
            let mut next = world.clone();
            let (i, owner, r) = next.granted.remove(at);
            next.lower(i, owner, r, GesMode::Null);
            stack.push((next, done.clone()));
        }
        if !moved {
            for s in world.shadows.values() {
                assert!(s.waiting().is_empty(), "somebody waits for ever: {s:?}");
                assert!(s.pending().is_none() && s.users().is_empty(), "{s:?}");
            }
            let queue = world.master.view(r).map(|v| v.queue).unwrap_or_default();
            assert!(queue.is_empty());
            assert_eq!(world.instances as usize, plans.len());
        }
    }
    seen.len()
}

#[test]
fn every_order_of_three_instances_grants_everybody_in_the_end() {
    use Act::{GiveUp, Lock, NoWait};
    use GesMode::{S, SS, SX, X};
    let mut states = 0;
    states += explore(&[&[Lock(1, SX), Lock(2, SX)], &[Lock(3, X)], &[Lock(4, S)]]);
    states += explore(&[&[Lock(1, X), Lock(2, X)], &[Lock(3, X), Lock(4, SX)], &[]]);
    states += explore(&[&[Lock(1, SX), Lock(2, S)], &[Lock(3, SS), GiveUp(3)], &[]]);
    states += explore(&[&[Lock(1, SX), NoWait(2, X)], &[NoWait(3, X), Lock(4, SX)], &[]]);
    println!("enqueues: {states} states");
}
