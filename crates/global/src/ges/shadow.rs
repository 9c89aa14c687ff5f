//! One enqueue at one instance: its local users, and the mode the instance has of it.
//!
//! Users are named by the kernel (a transaction, a session, a background process). The instance's
//! mode covers all of them; it is kept after the last has gone, until the master asks for it.
//! While a peer waits, newcomers that would not go along with its wish queue locally, so that
//! nobody is starved by a busy neighbour.

use crate::msg::{
    EnqueueHolding, GesHolderMsg, GesMasterMsg, GesMode, ReqId, Resource, Seq, ValueBlock,
};

/// A local user of enqueues, named by the kernel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OwnerId(pub u64);

/// A local user that waits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct LocalWait {
    pub owner: OwnerId,
    /// What it will have once granted: its present mode joined with its wish.
    pub mode: GesMode,
    /// Refused as soon as it is known that it is not free.
    pub no_wait: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShadowEvent {
    /// A user wants `mode` (on top of what it has). `req_id` is fresh, for the message that may be
    /// needed. `no_wait`: refuse instead of queueing.
    Lock {
        owner: OwnerId,
        mode: GesMode,
        req_id: ReqId,
        no_wait: bool,
    },
    /// A user lowers its mode, or lets go (null).
    Lower {
        owner: OwnerId,
        mode: GesMode,
        req_id: ReqId,
    },
    /// A waiting user gives up (cancel, time-out, victim).
    Cancel {
        owner: OwnerId,
        req_id: ReqId,
    },
    /// A holder in SSX or X sets the value block (its refill durable before, H21).
    SetValue {
        value: u64,
        limit: u64,
    },
    Message {
        msg: GesHolderMsg,
        req_id: ReqId,
    },
    /// The kernel's table of enqueues is full: give the cached mode back if nobody uses it.
    Forget,
    /// Markers have been sent: nothing more may be.
    Freeze,
    /// The old epoch's requests are void.
    EnterEpoch,
    /// Requests may be sent (again): what waits asks anew.
    Thaw {
        req_id: ReqId,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShadowEffect {
    ToMaster(GesMasterMsg),
    /// The user has the mode now.
    Granted {
        owner: OwnerId,
        mode: GesMode,
    },
    /// `no_wait` and not free, here or elsewhere.
    Refused {
        owner: OwnerId,
    },
    /// The waiting user that gave up is out of the queue.
    Withdrawn {
        owner: OwnerId,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Pending {
    req_id: ReqId,
    no_wait: Option<OwnerId>,
    cancelling: bool,
}

/// The state of one enqueue here.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct GesShadow {
    resource: Resource,
    mode: GesMode,
    /// Of the last grant.
    seq: Seq,
    users: Vec<(OwnerId, GesMode)>,
    waiting: Vec<LocalWait>,
    pending: Option<Pending>,
    /// A peer waits for this mode.
    revoke: Option<GesMode>,
    value: ValueBlock,
    value_changed: bool,
    frozen: bool,
}

impl GesShadow {
    #[must_use]
    pub fn new(resource: Resource) -> GesShadow {
        GesShadow {
            resource,
            mode: GesMode::Null,
            seq: Seq(0),
            users: Vec::new(),
            waiting: Vec::new(),
            pending: None,
            revoke: None,
            value: ValueBlock::default(),
            value_changed: false,
            frozen: false,
        }
    }

    /// The mode this instance has.
    #[must_use]
    pub fn mode(&self) -> GesMode {
        self.mode
    }

    #[must_use]
    pub fn resource(&self) -> Resource {
        self.resource
    }

    #[must_use]
    pub fn users(&self) -> &[(OwnerId, GesMode)] {
        &self.users
    }

    #[must_use]
    pub fn waiting(&self) -> &[LocalWait] {
        &self.waiting
    }

    /// The value block as of the grant, or as set here since.
    #[must_use]
    pub fn value(&self) -> ValueBlock {
        self.value
    }

    /// The request that is out: names the wait at the master.
    #[must_use]
    pub fn pending(&self) -> Option<ReqId> {
        self.pending.map(|p| p.req_id)
    }

    /// Whether a peer waits for what is held here.
    #[must_use]
    pub fn is_wanted_elsewhere(&self) -> bool {
        self.revoke.is_some()
    }

    /// Whether nothing is held, wanted or awaited: the entry may be freed.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.mode == GesMode::Null && self.waiting.is_empty() && self.pending.is_none()
    }

    /// What to report in a new epoch, after `EnterEpoch`.
    #[must_use]
    pub fn holding(&self) -> Option<EnqueueHolding> {
        let (resource, mode, value) = (self.resource, self.mode, self.value);
        (mode != GesMode::Null).then_some(EnqueueHolding { resource, mode, value })
    }

    /// The local users that exclude `wanted` ([`crate::msg::Waiter::Held`]).
    #[must_use]
    pub fn holding_against(&self, wanted: GesMode) -> Vec<OwnerId> {
        self.users.iter().filter(|u| !u.1.compatible(wanted)).map(|u| u.0).collect()
    }

    /// The local waiters for whom the instance stands in the master's queue
    /// ([`crate::msg::Waiter::Ahead`]).
    #[must_use]
    pub fn waiting_for_more(&self) -> Vec<OwnerId> {
        self.waiting.iter().filter(|w| !self.mode.covers(w.mode)).map(|w| w.owner).collect()
    }

    /// Whom the local waiter `owner` waits for on this instance: users that exclude its wish, and
    /// waiters before it that do.
    #[must_use]
    pub fn local_blockers(&self, owner: OwnerId) -> Vec<OwnerId> {
        let Some(at) = self.waiting.iter().position(|w| w.owner == owner) else {
            return Vec::new();
        };
        let wanted = self.waiting[at].mode;
        let ahead = self.waiting.iter().take(at).map(|w| (w.owner, w.mode));
        let all = self.users.iter().copied().chain(ahead);
        let mut list: Vec<OwnerId> =
            all.filter(|u| u.0 != owner && !u.1.compatible(wanted)).map(|u| u.0).collect();
        list.sort_unstable();
        list.dedup();
        list
    }

    /// Whether `owner`'s wait is (also) for other instances.
    #[must_use]
    pub fn waits_remotely(&self, owner: OwnerId) -> bool {
        let wish = self.waiting.iter().find(|w| w.owner == owner);
        wish.is_some_and(|w| !self.mode.covers(w.mode)) && self.pending.is_some()
    }

    fn mode_of(&self, owner: OwnerId) -> GesMode {
        self.users.iter().find(|u| u.0 == owner).map_or(GesMode::Null, |u| u.1)
    }

    fn set_mode(&mut self, owner: OwnerId, mode: GesMode) {
        self.users.retain(|u| u.0 != owner);
        if mode != GesMode::Null {
            self.users.push((owner, mode));
        }
    }

    pub fn step(&mut self, event: ShadowEvent, out: &mut Vec<ShadowEffect>) {
        match event {
            ShadowEvent::Lock { owner, mode, req_id, no_wait } => {
                self.lock(owner, mode, req_id, no_wait, out);
            }
            ShadowEvent::Lower { owner, mode, req_id } => {
                debug_assert!(self.mode_of(owner).covers(mode), "{owner:?} lowers upwards");
                self.set_mode(owner, mode);
                self.go_on(req_id, out);
            }
            ShadowEvent::Cancel { owner, req_id } => self.cancel(owner, req_id, out),
            ShadowEvent::SetValue { value, limit } => {
                assert!(self.mode.covers(GesMode::SSX), "a value set without SSX or X");
                let serial = self.value.serial + 1;
                self.value = ValueBlock { value, limit, serial, dubious: false };
                self.value_changed = true;
            }
            ShadowEvent::Message { msg, req_id } => self.message(msg, req_id, out),
            ShadowEvent::Forget => {
                if self.users.is_empty() && self.waiting.is_empty() && !self.frozen {
                    self.lower_to(GesMode::Null, out);
                }
            }
            ShadowEvent::Freeze => self.frozen = true,
            ShadowEvent::EnterEpoch => {
                self.pending = None;
                self.revoke = None;
                self.frozen = true;
                self.seq = Seq(0);
            }
            ShadowEvent::Thaw { req_id } => {
                self.frozen = false;
                self.go_on(req_id, out);
            }
        }
        self.assert_invariants();
    }

    fn assert_invariants(&self) {
        for (k, a) in self.users.iter().enumerate() {
            assert!(self.mode.covers(a.1), "{}: {a:?} beyond {}", self.resource, self.mode);
            let clash = self.users[k + 1..].iter().find(|b| !a.1.compatible(b.1));
            assert!(clash.is_none(), "{}: {a:?} with {clash:?}", self.resource);
        }
    }

    /// Whether `wish` goes along with the other local users.
    fn free_here(&self, wish: &LocalWait) -> bool {
        self.users.iter().all(|u| u.0 == wish.owner || u.1.compatible(wish.mode))
    }

    /// Whether `wish` may be granted from what this instance has.
    fn grantable(&self, wish: &LocalWait) -> bool {
        // A user that already blocks the peer may go on converting within our mode.
        let fair = self.revoke.is_none_or(|r| r.compatible(wish.mode))
            || self.mode_of(wish.owner).covers(wish.mode)
            || self.mode_of(wish.owner) != GesMode::Null;
        self.mode.covers(wish.mode) && self.free_here(wish) && fair
    }

    fn lock(
        &mut self,
        owner: OwnerId,
        mode: GesMode,
        req_id: ReqId,
        no_wait: bool,
        out: &mut Vec<ShadowEffect>,
    ) {
        debug_assert!(self.waiting.iter().all(|w| w.owner != owner), "{owner:?} waits twice");
        let has = self.mode_of(owner);
        let wish = LocalWait { owner, mode: has.join(mode), no_wait };
        if self.mode_of(owner).covers(wish.mode) {
            self.grant(wish, out); // It has it already.
            return;
        }
        // Conversions first, as at the master; else behind whoever waits.
        let at = if has == GesMode::Null { self.waiting.len() } else { self.converters() };
        let behind = self.waiting[..at].iter().any(|w| !w.mode.compatible(wish.mode));
        if no_wait && behind {
            out.push(ShadowEffect::Refused { owner });
            return;
        }
        self.waiting.insert(at, wish);
        self.go_on(req_id, out);
    }

    fn converters(&self) -> usize {
        self.waiting.iter().take_while(|w| self.mode_of(w.owner) != GesMode::Null).count()
    }

    fn grant(&mut self, wish: LocalWait, out: &mut Vec<ShadowEffect>) {
        self.set_mode(wish.owner, wish.mode);
        out.push(ShadowEffect::Granted { owner: wish.owner, mode: wish.mode });
    }

    /// Serves local waiters in order, lowers for a peer if it can, asks for what is missing.
    fn go_on(&mut self, req_id: ReqId, out: &mut Vec<ShadowEffect>) {
        self.yield_to_peer(out);
        let mut at = 0;
        while let Some(&wish) = self.waiting.get(at) {
            let overtakes = self.waiting[..at].iter().any(|w| !w.mode.compatible(wish.mode));
            if self.grantable(&wish) && !overtakes {
                self.waiting.remove(at);
                self.grant(wish, out);
            } else if wish.no_wait && (overtakes || self.busy_for(&wish)) {
                self.waiting.remove(at);
                out.push(ShadowEffect::Refused { owner: wish.owner });
            } else {
                at += 1;
            }
        }
        let missing = |w: &&LocalWait| !self.mode.covers(w.mode);
        let Some(wish) = self.waiting.iter().find(missing).copied() else { return };
        if self.pending.is_none() && !self.frozen {
            let (mode, no_wait) = (self.mode.join(wish.mode), wish.no_wait);
            let asked_for = no_wait.then_some(wish.owner);
            self.pending = Some(Pending { req_id, no_wait: asked_for, cancelling: false });
            out.push(ShadowEffect::ToMaster(GesMasterMsg::Request { req_id, mode, no_wait }));
        }
    }

    /// Whether `wish` cannot be had without waiting for somebody, as far as it shows here.
    fn busy_for(&self, wish: &LocalWait) -> bool {
        !self.free_here(wish) || (self.mode.covers(wish.mode) && !self.grantable(wish))
    }

    /// Lowers to what the users need, if a peer's wish demands it and they allow it.
    fn yield_to_peer(&mut self, out: &mut Vec<ShadowEffect>) {
        let Some(wanted) = self.revoke.filter(|_| !self.frozen) else { return };
        let needed = self.users.iter().fold(GesMode::Null, |m, u| m.join(u.1));
        if self.mode.compatible(wanted) {
            self.revoke = None;
        } else if needed.compatible(wanted) {
            self.lower_to(needed, out);
            self.revoke = None;
        }
    }

    fn lower_to(&mut self, mode: GesMode, out: &mut Vec<ShadowEffect>) {
        if mode == self.mode {
            return;
        }
        let value = std::mem::take(&mut self.value_changed).then_some(self.value);
        self.mode = mode;
        out.push(ShadowEffect::ToMaster(GesMasterMsg::Lowered { mode, seq: self.seq, value }));
    }

    fn cancel(&mut self, owner: OwnerId, req_id: ReqId, out: &mut Vec<ShadowEffect>) {
        let before = self.waiting.len();
        self.waiting.retain(|w| w.owner != owner);
        if self.waiting.len() == before {
            return; // Granted meanwhile: the user lets go of it as of any other.
        }
        out.push(ShadowEffect::Withdrawn { owner });
        // Who remains may need less than what was asked for.
        let useful = self.waiting.iter().any(|w| !self.mode.covers(w.mode));
        if let Some(p) = self.pending.as_mut().filter(|p| !useful && !p.cancelling) {
            p.cancelling = true;
            let req_id = p.req_id;
            out.push(ShadowEffect::ToMaster(GesMasterMsg::Cancel { req_id }));
        }
        self.go_on(req_id, out);
    }

    fn message(&mut self, msg: GesHolderMsg, req_id: ReqId, out: &mut Vec<ShadowEffect>) {
        let ours = |p: &Pending, id: ReqId| p.req_id == id;
        match msg {
            GesHolderMsg::Granted { req_id: id, mode, seq, value } => {
                if !self.pending.is_some_and(|p| ours(&p, id)) {
                    debug_assert!(false, "{}: a grant nobody asked for", self.resource);
                    return;
                }
                self.pending = None;
                // Our own change may have crossed the grant, but what we knew before we let go of
                // all is nothing beside what the master says, were it that all is in doubt (H21).
                if self.mode == GesMode::Null || value.serial >= self.value.serial {
                    self.value = value;
                }
                self.mode = self.mode.join(mode);
                self.seq = seq;
                self.go_on(req_id, out);
            }
            GesHolderMsg::Refused { req_id: id } => {
                let Some(p) = self.pending.take_if(|p| ours(p, id)) else { return };
                if let Some(owner) = p.no_wait {
                    self.waiting.retain(|w| w.owner != owner);
                    out.push(ShadowEffect::Refused { owner });
                }
                self.go_on(req_id, out);
            }
            GesHolderMsg::Blocking { wanted, no_wait } => {
                let before = self.revoke;
                // The head of the master's queue, there is no other: an earlier one has been served
                // or has gone.
                self.revoke = Some(wanted);
                self.yield_to_peer(out);
                if no_wait && !self.mode.compatible(wanted) {
                    self.revoke = before;
                    out.push(ShadowEffect::ToMaster(GesMasterMsg::Busy { wanted }));
                }
                self.go_on(req_id, out);
            }
            GesHolderMsg::Withdrawn { req_id: id } => {
                if self.pending.take_if(|p| ours(p, id)).is_some() {
                    self.go_on(req_id, out);
                }
            }
            GesHolderMsg::TooLate { req_id: id } => {
                if let Some(p) = self.pending.as_mut().filter(|p| ours(p, id)) {
                    p.cancelling = false;
                }
            }
        }
    }
}
