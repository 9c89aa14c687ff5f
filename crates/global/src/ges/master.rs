//! The master of enqueues: modes by instance, conversions before newcomers, first come first
//! served, and the lock value block.
//!
//! Granted is recorded at once: an enqueue has no image to move, so a grant cannot fail. Two grants
//! are never in conflict because the master has heard of every lowering before it grants.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use block::InstanceNo;
use rustc_hash::FxHashMap;

use crate::msg::{
    EnqueueHolding, GesHolderMsg, GesMasterMsg, GesMode, ReqId, Resource, Seq, ValueBlock, Waiter,
};

/// A message the master sends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GesEffect {
    pub to: InstanceNo,
    pub resource: Resource,
    pub msg: GesHolderMsg,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Ask {
    from: InstanceNo,
    req_id: ReqId,
    mode: GesMode,
    no_wait: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Held {
    who: InstanceNo,
    mode: GesMode,
    /// Of the grant that gave it.
    seq: Seq,
}

#[derive(Clone, PartialEq, Eq, Hash, Default)]
struct Entry {
    holders: Vec<Held>,
    queue: VecDeque<Ask>,
    value: ValueBlock,
    /// The last grant.
    seq: Seq,
    /// The head of the queue whose blockers have been told, those up to this grant.
    told_for: Option<(InstanceNo, ReqId, Seq)>,
}

/// What a master records of an enqueue.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct GesView {
    pub holders: Vec<(InstanceNo, GesMode)>,
    pub queue: Vec<(InstanceNo, GesMode)>,
    pub value: ValueBlock,
}

/// One instance's part of the enqueue directory.
#[derive(Clone, Default)]
pub struct GesMaster {
    entries: FxHashMap<Resource, Entry>,
}

impl Hash for GesMaster {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for r in self.resources() {
            (r, &self.entries[&r]).hash(state);
        }
    }
}

impl GesMaster {
    #[must_use]
    pub fn new() -> GesMaster {
        GesMaster::default()
    }

    /// All resources with an entry, ascending.
    #[must_use]
    pub fn resources(&self) -> Vec<Resource> {
        let mut list: Vec<Resource> = self.entries.keys().copied().collect();
        list.sort_unstable();
        list
    }

    #[must_use]
    pub fn view(&self, resource: Resource) -> Option<GesView> {
        self.entries.get(&resource).map(|e| GesView {
            holders: e.holders.iter().map(|h| (h.who, h.mode)).collect(),
            queue: e.queue.iter().map(|a| (a.from, a.mode)).collect(),
            value: e.value,
        })
    }

    /// Forgets everything; an epoch rebuilds it from reports.
    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Enters what an instance reports. The value block survives an epoch only in the hands of a
    /// holder that could write it; else it is dubious (H21).
    pub fn report(&mut self, from: InstanceNo, holding: &EnqueueHolding) {
        let entry = self.entries.entry(holding.resource).or_default();
        if entry.holders.is_empty() {
            entry.value = ValueBlock { dubious: true, ..ValueBlock::default() };
        }
        entry.set_mode(from, holding.mode, Seq(0));
        if holding.mode.covers(GesMode::SSX) {
            entry.value = holding.value;
        } else if entry.value.dubious && holding.value.serial > entry.value.serial {
            // The best there is to know, still dubious: who uses it must look at its source.
            entry.value = ValueBlock { dubious: true, ..holding.value };
        }
        entry.assert_invariants(holding.resource);
    }

    pub fn step(
        &mut self,
        from: InstanceNo,
        resource: Resource,
        msg: &GesMasterMsg,
        out: &mut Vec<GesEffect>,
    ) {
        // An unknown resource after a rebuild may have had a value whose holders have all gone.
        let entry = self.entries.entry(resource).or_insert_with(|| Entry {
            value: ValueBlock { dubious: true, ..ValueBlock::default() },
            ..Entry::default()
        });
        let mut send = |to, msg| out.push(GesEffect { to, resource, msg });
        match *msg {
            GesMasterMsg::Request { req_id, mode, no_wait } => {
                entry.request(Ask { from, req_id, mode, no_wait }, &mut send);
            }
            GesMasterMsg::Lowered { mode, seq, value } => {
                if let Some(value) = value.filter(|v| v.serial > entry.value.serial) {
                    entry.value = value;
                }
                // A grant that has crossed it gives back at least what it lowers: it is void, and
                // who waits must ask this instance once more.
                if entry.holders.iter().any(|h| h.who == from && h.seq == seq) {
                    entry.set_mode(from, mode, seq);
                } else {
                    entry.told_for = None;
                }
                entry.serve(&mut send);
            }
            GesMasterMsg::Busy { wanted: _ } => {
                if let Some(head) = entry.queue.front().copied().filter(|a| a.no_wait) {
                    entry.queue.pop_front();
                    send(head.from, GesHolderMsg::Refused { req_id: head.req_id });
                    entry.serve(&mut send);
                }
            }
            GesMasterMsg::Cancel { req_id } => {
                let before = entry.queue.len();
                entry.queue.retain(|a| a.from != from || a.req_id != req_id);
                if entry.queue.len() < before {
                    send(from, GesHolderMsg::Withdrawn { req_id });
                    entry.serve(&mut send);
                } else {
                    send(from, GesHolderMsg::TooLate { req_id });
                }
            }
        }
        entry.assert_invariants(resource);
        if entry.holders.is_empty() && entry.queue.is_empty() {
            self.entries.remove(&resource);
        }
    }

    /// Whom a queued wish of `asker` waits for: the users at instances that hold a mode which
    /// excludes it, and the waiters at instances before it in the queue. For the deadlock search.
    #[must_use]
    pub fn blockers(&self, resource: Resource, asker: InstanceNo) -> Vec<Waiter> {
        let Some(entry) = self.entries.get(&resource) else { return Vec::new() };
        let Some(at) = entry.queue.iter().position(|a| a.from == asker) else { return Vec::new() };
        let wanted = entry.mode_of(asker).join(entry.queue[at].mode);
        let holders = entry.holders.iter().filter(|h| h.who != asker);
        let held = holders.filter(|h| !h.mode.compatible(wanted)).map(|h| Waiter::Held {
            home: h.who,
            resource,
            wanted,
        });
        // The queue is served strictly in order: whoever is before us has to go first, whatever it
        // wants.
        let before = entry.queue.iter().take(at);
        let ahead = before.map(|a| Waiter::Ahead { home: a.from, resource, wanted });
        held.chain(ahead).collect()
    }

    /// The request number of `asker`'s queued wish: names the wait.
    #[must_use]
    pub fn queued(&self, resource: Resource, asker: InstanceNo) -> Option<ReqId> {
        let entry = self.entries.get(&resource)?;
        entry.queue.iter().find(|a| a.from == asker).map(|a| a.req_id)
    }
}

impl Entry {
    fn mode_of(&self, who: InstanceNo) -> GesMode {
        self.holders.iter().find(|h| h.who == who).map_or(GesMode::Null, |h| h.mode)
    }

    fn set_mode(&mut self, who: InstanceNo, mode: GesMode, seq: Seq) {
        self.holders.retain(|h| h.who != who);
        if mode != GesMode::Null {
            self.holders.push(Held { who, mode, seq });
            self.holders.sort_unstable();
        }
    }

    fn free_for(&self, who: InstanceNo, mode: GesMode) -> bool {
        self.holders.iter().all(|h| h.who == who || h.mode.compatible(mode))
    }

    fn request(&mut self, ask: Ask, send: &mut impl FnMut(InstanceNo, GesHolderMsg)) {
        if self.queue.iter().any(|a| a.from == ask.from && a.req_id == ask.req_id) {
            return; // A repetition.
        }
        // An instance has one wish out; an older one of its is void.
        self.queue.retain(|a| a.from != ask.from);
        // A conversion goes before newcomers: it blocks them anyhow, and would wait for ever
        // behind one that is excluded by what its own instance holds.
        let converts = self.mode_of(ask.from) != GesMode::Null;
        let newcomer = |a: &Ask| self.mode_of(a.from) == GesMode::Null;
        let at = self.queue.iter().position(newcomer).filter(|_| converts);
        self.queue.insert(at.unwrap_or(self.queue.len()), ask);
        self.serve(send);
        // Behind somebody who waits is not free; at the head, the blockers have been asked.
        let waits = self.queue.iter().position(|a| *a == ask);
        if ask.no_wait && waits.is_some_and(|at| at > 0) {
            self.queue.retain(|a| *a != ask);
            send(ask.from, GesHolderMsg::Refused { req_id: ask.req_id });
        }
    }

    /// Grants from the head of the queue as long as the modes allow.
    fn serve(&mut self, send: &mut impl FnMut(InstanceNo, GesHolderMsg)) {
        while let Some(&Ask { from, req_id, mode, .. }) = self.queue.front() {
            let mode = self.mode_of(from).join(mode);
            if !self.free_for(from, mode) {
                self.tell_blockers(send);
                return;
            }
            self.queue.pop_front();
            self.seq.0 += 1;
            let (seq, value) = (self.seq, self.value);
            self.set_mode(from, mode, seq);
            send(from, GesHolderMsg::Granted { req_id, mode, seq, value });
        }
    }

    /// Tells who stands in the way of the head of the queue, each once per head: also who was
    /// granted
    /// a mode since the others were told (a conversion overtakes newcomers).
    fn tell_blockers(&mut self, send: &mut impl FnMut(InstanceNo, GesHolderMsg)) {
        let Some(&Ask { from, req_id, mode, no_wait }) = self.queue.front() else { return };
        let told = self.told_for.replace((from, req_id, self.seq));
        let told = told.filter(|t| (t.0, t.1) == (from, req_id)).map(|t| t.2);
        let wanted = self.mode_of(from).join(mode);
        let untold = |h: &&Held| told.is_none_or(|upto| h.seq > upto);
        let in_way = self.holders.iter().filter(|h| h.who != from && !h.mode.compatible(wanted));
        for h in in_way.filter(untold) {
            send(h.who, GesHolderMsg::Blocking { wanted, no_wait });
        }
    }

    fn assert_invariants(&self, resource: Resource) {
        for (k, a) in self.holders.iter().enumerate() {
            for b in &self.holders[k + 1..] {
                let fine = a.who != b.who && a.mode.compatible(b.mode);
                assert!(fine, "{resource}: {a:?} with {b:?}");
            }
        }
        let stuck = |a: &Ask| !self.free_for(a.from, self.mode_of(a.from).join(a.mode));
        debug_assert!(self.queue.front().is_none_or(stuck), "{resource}: a free head waits");
    }
}
