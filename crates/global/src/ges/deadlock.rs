//! Deadlocks: a walk over the wait-for graph, instance by instance.
//!
//! A waiter that has waited a while starts a walk. The probe goes from instance to instance and
//! collects the waits of everything reachable; back home, what can never be freed is a deadlock.
//! This finds all-of waits (locks) and any-of waits (ITL entries) alike. Since the picture is put
//! together over time it may show a cycle that never was: only the same waits seen twice count.
//! The victim is the greatest xid on the cycle, whoever finds it, so that two finders agree (M5).

use std::collections::{BTreeMap, BTreeSet};

use block::{InstanceNo, Xid};

use crate::msg::{GesMessage, Probe, Wait, Waiter};

/// The most waits a probe carries; a larger graph is not searched (its waits end by time-out).
pub const PROBE_WAITS_MAX: usize = 512;

/// What the kernel knows of the waits at this instance.
pub trait WaitGraph {
    /// Why `who`, at home here, waits; none if it does not. `Owner`: the enqueue or transaction it
    /// waits for. `Queued`: [`super::GesMaster::blockers`]. `Held`, `Ahead`: the owners named by
    /// [`super::GesShadow::holding_against`] and `waiting_for_more`, all of them.
    fn wait_of(&self, who: &Waiter) -> Option<Wait>;
}

/// What the search asks the kernel to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum DeadlockEffect {
    Send {
        to: InstanceNo,
        msg: GesMessage,
    },
    /// Seen for the first time: start the walk again in a moment ([`Deadlock::start`]).
    Confirm {
        start: Waiter,
    },
    /// This transaction, at home here, gets the error, its statement is rolled back; `cycle` is for
    /// the trace file.
    Victim {
        xid: Xid,
        cycle: Vec<Wait>,
    },
}

/// The search of one instance.
pub struct Deadlock {
    me: InstanceNo,
    /// Cycles seen once, by the waiter whose walk has found them.
    seen_once: BTreeMap<Waiter, BTreeSet<(Waiter, u64)>>,
}

impl Deadlock {
    #[must_use]
    pub fn new(me: InstanceNo) -> Deadlock {
        Deadlock { me, seen_once: BTreeMap::new() }
    }

    /// Starts a walk from `start`, a local waiter. A waiter that has gone on is forgotten.
    pub fn start(&mut self, start: Waiter, graph: &impl WaitGraph, out: &mut Vec<DeadlockEffect>) {
        let Some(wait) = graph.wait_of(&start) else {
            self.seen_once.remove(&start);
            return;
        };
        let start_wait_no = wait.wait_no;
        let probe = Probe { start, start_wait_no, seen: Vec::new(), to_visit: vec![start] };
        self.walk(probe, graph, out);
    }

    pub fn message(
        &mut self,
        msg: &GesMessage,
        graph: &impl WaitGraph,
        out: &mut Vec<DeadlockEffect>,
    ) {
        match msg {
            GesMessage::Probe { probe } => self.walk(probe.clone(), graph, out),
            GesMessage::ProbeDone { probe } => self.finish(probe, graph, out),
            GesMessage::Victim { xid, wait_no, cycle } => {
                let who = Waiter::Owner { home: self.me, xid: *xid };
                // It may have gone on since: then the deadlock is no more.
                if graph.wait_of(&who).is_some_and(|w| w.wait_no == *wait_no) {
                    out.push(DeadlockEffect::Victim { xid: *xid, cycle: cycle.clone() });
                }
            }
            GesMessage::ToMaster { .. } | GesMessage::ToHolder { .. } => {}
        }
    }

    /// The epoch has changed: what was seen is void.
    pub fn enter_epoch(&mut self) {
        self.seen_once.clear();
    }

    /// Visits all that is at home here, then passes the probe on.
    fn walk(&mut self, mut probe: Probe, graph: &impl WaitGraph, out: &mut Vec<DeadlockEffect>) {
        while let Some(at) = probe.to_visit.iter().position(|w| w.home() == self.me) {
            let who = probe.to_visit.remove(at);
            let Some(wait) = graph.wait_of(&who) else { continue };
            for &next in &wait.on {
                let known = probe.to_visit.contains(&next)
                    || next == who
                    || probe.seen.iter().any(|w| w.who == next);
                if !known {
                    probe.to_visit.push(next);
                }
            }
            probe.seen.push(wait);
            if probe.seen.len() + probe.to_visit.len() > PROBE_WAITS_MAX {
                return;
            }
        }
        if let Some(next) = probe.to_visit.first() {
            let to = next.home();
            out.push(DeadlockEffect::Send { to, msg: GesMessage::Probe { probe } });
        } else if probe.start.home() == self.me {
            self.finish(&probe, graph, out);
        } else {
            let to = probe.start.home();
            out.push(DeadlockEffect::Send { to, msg: GesMessage::ProbeDone { probe } });
        }
    }

    fn finish(&mut self, probe: &Probe, graph: &impl WaitGraph, out: &mut Vec<DeadlockEffect>) {
        let start = probe.start;
        let still = graph.wait_of(&start).is_some_and(|w| w.wait_no == probe.start_wait_no);
        let cycle = if still { deadlocked(&probe.seen) } else { Vec::new() };
        if cycle.is_empty() {
            self.seen_once.remove(&start);
            return;
        }
        let waits: BTreeSet<(Waiter, u64)> = cycle.iter().map(|w| (w.who, w.wait_no)).collect();
        if self.seen_once.get(&start) != Some(&waits) {
            self.seen_once.insert(start, waits);
            out.push(DeadlockEffect::Confirm { start });
            return;
        }
        self.seen_once.remove(&start);
        let owners = cycle.iter().filter_map(|w| match w.who {
            Waiter::Owner { home, xid } => Some((xid.to_u64(), home, xid, w.wait_no)),
            _ => None,
        });
        let Some((_, home, xid, wait_no)) = owners.max() else { return };
        if home == self.me {
            self.message(&GesMessage::Victim { xid, wait_no, cycle }, graph, out);
        } else {
            let msg = GesMessage::Victim { xid, wait_no, cycle };
            out.push(DeadlockEffect::Send { to: home, msg });
        }
    }
}

/// The waits that lie on cycles which nothing can resolve: an all-of waiter is free when all it
/// waits for are free, an any-of waiter when one is; who does not wait is free.
#[must_use]
pub fn deadlocked(waits: &[Wait]) -> Vec<Wait> {
    let mut stuck: BTreeMap<Waiter, &Wait> = waits.iter().map(|w| (w.who, w)).collect();
    loop {
        let free = |w: &Waiter| !stuck.contains_key(w);
        let resolved: Vec<Waiter> = stuck
            .values()
            .filter(|w| if w.any_of { w.on.iter().any(&free) } else { w.on.iter().all(&free) })
            .map(|w| w.who)
            .collect();
        if resolved.is_empty() {
            break;
        }
        for who in resolved {
            stuck.remove(&who);
        }
    }
    // Of what is stuck, only what can reach itself is on a cycle; the rest waits behind one.
    let on_cycle = |w: &&&Wait| reaches(&stuck, w.who);
    stuck.values().filter(on_cycle).map(|w| (*w).clone()).collect()
}

fn reaches(stuck: &BTreeMap<Waiter, &Wait>, who: Waiter) -> bool {
    let mut seen = BTreeSet::new();
    let mut next: Vec<Waiter> = stuck[&who].on.clone();
    while let Some(w) = next.pop() {
        if w == who {
            return true;
        }
        if seen.insert(w)
            && let Some(wait) = stuck.get(&w)
        {
            next.extend(&wait.on);
        }
    }
    false
}
