//! Enqueues: locks with a name, over all instances, and their value blocks.
//!
//! An instance asks an enqueue's master for a mode once and keeps it until somebody else needs it.
//! What it is for: table locks ([`tables`]), rights to definitions ([`objects`]), and whatever else
//! needs one user in the cluster. Promises that no message is sent for an enqueue mastered here and
//! wanted by nobody else: an instance alone sends none at all.
//!
//! Rules: a shadow or the master is stepped under the protocol's gate and the service's lock, and
//! what it says is sent before either is let go. What it says to this instance itself is done in
//! the
//! same turn, in order, from a list: no machine is stepped from within another. Between a Marker
//! and
//! the next epoch nothing is sent; shadows hold their wishes back until the thaw. Nothing waits
//! under
//! the lock, and the lock is taken before those of table locks, waits and row cache, never after.

mod blockers;
mod dead;
mod objects;
mod search;
mod tables;

pub use blockers::BlockedBy;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};

use block::InstanceNo;
use env::latch::{Latch, LatchList};
use global::Epoch;
use global::ges::{Deadlock, GesMaster, GesShadow, GesView, OwnerId, ShadowEffect, ShadowEvent};
use global::msg::{
    EnqueueHolding, EpochMessage, GesHolderMsg, GesMasterMsg, GesMessage, GesMode, Message,
    Resource, ValueBlock,
};
use observe::{Ctx, Stat, WaitEvent};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::epochs::batches;
use super::node::Node;
use crate::dict::RightMessage;
use crate::error::{Error, Result};
use crate::txn::LockWait;

/// The instance itself as a user: for what all its sessions share.
pub(super) const INSTANCE: OwnerId = OwnerId(0);
/// The dead transactions this instance answers for.
const DEAD: OwnerId = OwnerId(1 << 63);
/// Owners that are no transactions are counted from here.
const FIRST_OTHER_OWNER: u64 = DEAD.0 + 1;

/// What a user that waits is told.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Answer {
    Granted,
    Refused,
    /// Nothing is decided; who still wants it asks anew.
    Again,
}

/// One enqueue at this instance.
struct Entry {
    shadow: GesShadow,
    answers: BTreeMap<OwnerId, oneshot::Sender<Answer>>,
}

/// What is stepped under the lock.
struct State {
    entries: BTreeMap<Resource, Entry>,
    master: GesMaster,
    /// From the Markers to the thaw.
    frozen: bool,
    /// Tables that stay locked until dead transactions are rolled back (H18).
    dead: BTreeSet<Resource>,
}

/// This instance's enqueues, and those it masters.
pub(super) struct Enqueues {
    state: Latch<State>,
    /// Taken before `state`, never after.
    search: Mutex<Deadlock>,
    next_owner: AtomicU64,
}

/// A step to be done in this turn.
enum Step {
    Shadow(Resource, ShadowEvent),
    Master(InstanceNo, Resource, GesMasterMsg),
}

impl Enqueues {
    /// Tells of its latch.
    pub(super) fn latches(&self, list: &mut LatchList) {
        list.add(&self.state);
    }

    /// Nothing is granted before the first epoch's thaw.
    pub fn new(me: InstanceNo) -> Enqueues {
        Enqueues {
            state: Latch::new(
                "ges resource hash list",
                State {
                    entries: BTreeMap::new(),
                    master: GesMaster::new(),
                    frozen: true,
                    dead: BTreeSet::new(),
                },
            ),
            search: Mutex::new(Deadlock::new(me)),
            next_owner: AtomicU64::new(FIRST_OTHER_OWNER),
        }
    }
}

impl State {
    fn entry(&mut self, resource: Resource) -> &mut Entry {
        let frozen = self.frozen;
        self.entries.entry(resource).or_insert_with(|| {
            let mut shadow = GesShadow::new(resource);
            if frozen {
                shadow.step(ShadowEvent::Freeze, &mut Vec::new());
            }
            Entry { shadow, answers: BTreeMap::new() }
        })
    }

    fn mode(&self, resource: Resource) -> GesMode {
        self.entries.get(&resource).map_or(GesMode::Null, |e| e.shadow.mode())
    }

    fn mode_of(&self, resource: Resource, owner: OwnerId) -> GesMode {
        let users = self.entries.get(&resource).map(|e| e.shadow.users()).unwrap_or_default();
        users.iter().find(|u| u.0 == owner).map_or(GesMode::Null, |u| u.1)
    }
}

/// A user that waits; when it is dropped unanswered, it waits no more.
struct Asking<'a> {
    node: &'a Node,
    resource: Resource,
    owner: OwnerId,
    /// The mode it had before.
    had: GesMode,
    answer: oneshot::Receiver<Answer>,
    told: bool,
    /// Since when another instance is being asked for it.
    asked: Option<env::Micros>,
}

impl Asking<'_> {
    async fn answer(&mut self) -> Result<()> {
        let answer = (&mut self.answer).await;
        self.told = true;
        match answer {
            Ok(Answer::Granted | Answer::Again) => Ok(()),
            Ok(Answer::Refused) => Err(Error::RowLocked),
            // The node keeps the sender until it has answered.
            Err(_) => Err(Error::Closing),
        }
    }
}

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        if let Some(asked) = self.asked {
            let us = self.node.env.now().since(asked);
            self.node.ctx.bump(Stat::GlobalEnqueueGetTime, us);
        }
        if self.told {
            return;
        }
        let (resource, owner) = (self.resource, self.owner);
        let req_id = self.node.req_id();
        let _gate = self.node.cache.enter_protocol();
        let mut state = self.node.enqueues.state.lock();
        let waits = state.entry(resource).answers.remove(&owner).is_some();
        let event = if waits {
            ShadowEvent::Cancel { owner, req_id }
        } else if owner != INSTANCE && state.mode_of(resource, owner) != self.had {
            // Granted, but nobody has heard it.
            ShadowEvent::Lower { owner, mode: self.had, req_id }
        } else {
            return;
        };
        self.node.run(&mut state, Step::Shadow(resource, event));
    }
}

impl Node {
    /// A new user of enqueues, other than a transaction.
    #[must_use]
    pub fn enqueue_owner(&self) -> OwnerId {
        OwnerId(self.enqueues.next_owner.fetch_add(1, Ordering::Relaxed))
    }

    /// Locks `resource` for `owner`, on top of what it has of it.
    ///
    /// # Errors
    /// [`Error::RowLocked`] if it is not to wait and would have to; [`Error::LockTimeout`];
    /// interrupted. Nothing is held then that was not held before.
    #[allow(clippy::too_many_arguments)]
    pub async fn enqueue_lock(
        &self,
        ctx: &Ctx,
        resource: Resource,
        mode: GesMode,
        owner: OwnerId,
        wait: LockWait,
        event: WaitEvent,
        p: [u64; 3],
    ) -> Result<()> {
        let no_wait = matches!(wait, LockWait::NoWait | LockWait::SkipLocked);
        let mut asking = self.ask_mode(resource, mode, owner, no_wait);
        let answer = if let LockWait::Timeout(us) = wait {
            let limit = std::time::Duration::from_micros(us);
            let answered = ctx.wait_for_or_cancel(event, p, limit, asking.answer()).await?;
            answered.unwrap_or_else(|_| {
                ctx.bump(Stat::EnqueueTimeouts, 1);
                Err(Error::LockTimeout)
            })
        } else {
            ctx.wait_or_cancel(event, p, asking.answer()).await?
        };
        // Whether it was free is this instance's to say only while its lease lasts.
        self.core.check_deadline();
        answer
    }

    /// `owner` lets go of `resource`; the instance keeps it until somebody asks.
    pub fn enqueue_unlock(&self, resource: Resource, owner: OwnerId) {
        let event = ShadowEvent::Lower { owner, mode: GesMode::Null, req_id: self.req_id() };
        let _gate = self.cache.enter_protocol();
        let mut state = self.enqueues.state.lock();
        if state.mode_of(resource, owner) != GesMode::Null {
            self.run(&mut state, Step::Shadow(resource, event));
        }
    }

    /// The mode this instance has of `resource`.
    #[must_use]
    pub fn enqueue_mode(&self, resource: Resource) -> GesMode {
        self.enqueues.state.lock().mode(resource)
    }

    /// The value that travels with `resource`, as of the last grant or as set here since; `None` if
    /// this instance has no mode of it. Whoever uses a dubious one looks at its source first (H21).
    #[must_use]
    pub fn enqueue_value(&self, resource: Resource) -> Option<ValueBlock> {
        let state = self.enqueues.state.lock();
        let shadow = &state.entries.get(&resource)?.shadow;
        (shadow.mode() != GesMode::Null).then(|| shadow.value())
    }

    /// Sets the value that travels with `resource`; what it stands for is durable (H21).
    ///
    /// # Errors
    /// [`Error::Invariant`] unless `owner` has the enqueue in SSX or X.
    pub fn enqueue_set_value(
        &self,
        resource: Resource,
        owner: OwnerId,
        value: u64,
        limit: u64,
    ) -> Result<()> {
        let _gate = self.cache.enter_protocol();
        let mut state = self.enqueues.state.lock();
        if !state.mode_of(resource, owner).covers(GesMode::SSX) {
            let text = format!("the value of {resource} is set without SSX or X");
            return Err(Error::Invariant(text));
        }
        let event = ShadowEvent::SetValue { value, limit };
        self.run(&mut state, Step::Shadow(resource, event));
        Ok(())
    }

    /// The enqueues of this instance, those it masters, and who waits, in words: for who looks into
    /// a hang.
    #[must_use]
    pub fn enqueue_lines(&self) -> Vec<String> {
        let state = self.enqueues.state.lock();
        let mut lines: Vec<String> =
            state.entries.values().map(|e| format!("{:?}", e.shadow)).collect();
        for resource in state.master.resources() {
            lines.push(format!("master of {resource}: {:?}", state.master.view(resource)));
        }
        lines.extend(self.core.table_locks.lines());
        lines.extend(self.core.waits.all().iter().map(|w| format!("{w:?}")));
        lines
    }

    /// What is known of each enqueue mastered here.
    pub(super) fn for_each_mastered(&self, mut f: impl FnMut(Resource, GesView)) {
        let state = self.enqueues.state.lock();
        for resource in state.master.resources() {
            state.master.view(resource).into_iter().for_each(|known| f(resource, known));
        }
    }

    /// The state of each enqueue that this instance has or wants.
    pub(super) fn for_each_shadow(&self, f: impl FnMut(&GesShadow)) {
        self.enqueues.state.lock().entries.values().map(|entry| &entry.shadow).for_each(f);
    }

    /// Asks for a mode; the answer may be there at once. It is no request that is counted: those
    /// are of the sessions, which the instance asks for.
    fn ask_mode(
        &self,
        resource: Resource,
        mode: GesMode,
        owner: OwnerId,
        no_wait: bool,
    ) -> Asking<'_> {
        let _gate = self.cache.enter_protocol();
        let mut state = self.enqueues.state.lock();
        self.ask_in(&mut state, resource, mode, owner, no_wait)
    }

    /// [`Node::ask_mode`] under gate and lock.
    fn ask_in(
        &self,
        state: &mut State,
        resource: Resource,
        mode: GesMode,
        owner: OwnerId,
        no_wait: bool,
    ) -> Asking<'_> {
        let (sender, answer) = oneshot::channel();
        let req_id = self.req_id();
        let had = state.mode_of(resource, owner);
        let old = state.entry(resource).answers.insert(owner, sender);
        debug_assert!(old.is_none(), "{owner:?} waits twice for {resource}");
        let event = ShadowEvent::Lock { owner, mode, req_id, no_wait };
        self.run(state, Step::Shadow(resource, event));
        let pending = state.entries.get(&resource).and_then(|e| e.shadow.pending());
        let asked = (pending == Some(req_id) && self.enqueue_master(resource) != self.me)
            .then(|| self.env.now());
        Asking { node: self, resource, owner, had, answer, told: false, asked }
    }

    /// Does a step and all that follows from it here; under the gate.
    fn run(&self, state: &mut State, first: Step) {
        let mut todo = VecDeque::from([first]);
        while let Some(step) = todo.pop_front() {
            match step {
                Step::Shadow(resource, event) => {
                    self.step_shadow(state, resource, event, &mut todo);
                }
                Step::Master(from, resource, msg) => {
                    self.step_master(state, from, resource, &msg, &mut todo);
                }
            }
        }
    }

    fn step_master(
        &self,
        state: &mut State,
        from: InstanceNo,
        resource: Resource,
        msg: &GesMasterMsg,
        todo: &mut VecDeque<Step>,
    ) {
        if self.cache.is_frozen() {
            return; // Void with the epoch; its asker asks again.
        }
        let mut effects = Vec::new();
        state.master.step(from, resource, msg, &mut effects);
        for effect in effects {
            if effect.to == self.me {
                let event = ShadowEvent::Message { msg: effect.msg, req_id: self.req_id() };
                todo.push_back(Step::Shadow(effect.resource, event));
            } else {
                let (resource, msg) = (effect.resource, effect.msg);
                self.send(effect.to, Message::Ges(GesMessage::ToHolder { resource, msg }));
            }
        }
    }

    fn step_shadow(
        &self,
        state: &mut State,
        resource: Resource,
        event: ShadowEvent,
        todo: &mut VecDeque<Step>,
    ) {
        let entry = state.entry(resource);
        let mut effects = Vec::new();
        if let ShadowEvent::Message { msg: GesHolderMsg::Blocking { wanted, no_wait }, .. } = event
        {
            self.count_right(resource, RightMessage::Conflict);
            self.give_way(entry, wanted, no_wait, &mut effects);
        }
        entry.shadow.step(event, &mut effects);
        if let ShadowEvent::Message { msg: GesHolderMsg::Blocking { wanted, no_wait }, .. } = event
            && !no_wait
            && !entry.shadow.mode().compatible(wanted)
        {
            self.owe(resource, wanted);
        }
        for effect in effects {
            match effect {
                ShadowEffect::ToMaster(msg) => self.to_master(resource, msg, todo),
                ShadowEffect::Granted { owner, mode } => {
                    if owner == INSTANCE {
                        self.table_covered(resource, mode);
                    }
                    // Who asked may be leaving just now: its guard sees what it has.
                    let asker = entry.answers.remove(&owner);
                    let _ = asker.map(|a| a.send(Answer::Granted));
                }
                ShadowEffect::Refused { owner } => {
                    let asker = entry.answers.remove(&owner);
                    let _ = asker.map(|a| a.send(Answer::Refused));
                }
                ShadowEffect::Withdrawn { owner } => {
                    entry.answers.remove(&owner);
                }
            }
        }
        if entry.shadow.is_idle() && entry.answers.is_empty() {
            state.entries.remove(&resource);
        }
    }

    /// Sends to the enqueue's master, or to this instance's own in the same turn.
    fn to_master(&self, resource: Resource, msg: GesMasterMsg, todo: &mut VecDeque<Step>) {
        if let GesMasterMsg::Lowered { mode, .. } = msg {
            self.object_lowered(resource, mode);
        }
        if self.cache.is_frozen() {
            return; // After the Marker nothing of its epoch is sent.
        }
        let master = self.enqueue_master(resource);
        if master == self.me {
            todo.push_back(Step::Master(self.me, resource, msg));
            return;
        }
        match msg {
            GesMasterMsg::Request { .. } => {
                self.ctx.bump(Stat::GlobalEnqueueGetsSync, 1);
                self.count_right(resource, RightMessage::Request);
            }
            GesMasterMsg::Lowered { .. } => {
                self.ctx.bump(Stat::GlobalEnqueueReleases, 1);
                self.count_right(resource, RightMessage::Release);
            }
            GesMasterMsg::Cancel { .. } | GesMasterMsg::Busy { .. } => {}
        }
        self.send(master, Message::Ges(GesMessage::ToMaster { resource, msg }));
    }

    fn enqueue_master(&self, resource: Resource) -> InstanceNo {
        self.view().map.master_of_hash(resource.hash())
    }

    /// Handles a message of the enqueue class; under the gate.
    pub(super) fn ges_message(&self, from: InstanceNo, message: GesMessage) {
        match message {
            GesMessage::ToMaster { resource, msg } => {
                let mut state = self.enqueues.state.lock();
                self.run(&mut state, Step::Master(from, resource, msg));
            }
            GesMessage::ToHolder { resource, msg } => {
                let event = ShadowEvent::Message { msg, req_id: self.req_id() };
                let mut state = self.enqueues.state.lock();
                self.run(&mut state, Step::Shadow(resource, event));
            }
            search => self.search_message(&search),
        }
    }

    /// Markers are about to be sent: nothing more may be. With the gate held exclusively.
    pub(super) fn enqueues_freeze(&self) {
        let mut state = self.enqueues.state.lock();
        state.frozen = true;
        for entry in state.entries.values_mut() {
            entry.shadow.step(ShadowEvent::Freeze, &mut Vec::new());
        }
    }

    /// The old epoch is over: modes stay, wishes are void and asked again. With the gate held
    /// exclusively.
    pub(super) fn enqueues_enter(&self) {
        self.enqueues.search.lock().enter_epoch();
        let mut state = self.enqueues.state.lock();
        state.frozen = true;
        state.master.clear();
        for entry in state.entries.values_mut() {
            let mut effects = Vec::new();
            entry.shadow.step(ShadowEvent::EnterEpoch, &mut effects);
            debug_assert!(effects.is_empty(), "an epoch is entered in silence");
        }
        self.core.table_locks.forget_revokes();
        drop(state);
        // Nobody knows what was missed.
        crate::dict::invalidate_all(&self.core);
    }

    /// Tells the masters what this instance has. With the gate held exclusively.
    pub(super) fn enqueues_report(&self, epoch: Epoch) {
        let view = self.view();
        let mut by_master: BTreeMap<InstanceNo, Vec<EnqueueHolding>> =
            view.members.iter().map(|m| (*m, Vec::new())).collect();
        let state = self.enqueues.state.lock();
        for holding in state.entries.values().filter_map(|e| e.shadow.holding()) {
            let master = view.map.master_of_hash(holding.resource.hash());
            by_master.get_mut(&master).expect("a member").push(holding);
        }
        for (master, items) in by_master {
            for (items, last) in batches(items) {
                let message = EpochMessage::EnqueueHoldings { epoch, last, items };
                self.send(master, Message::Epoch(message));
            }
        }
    }

    /// A batch of what `from` has of the enqueues mastered here; of the epoch in force.
    pub(super) fn enqueues_reported(&self, from: InstanceNo, items: &[EnqueueHolding]) {
        let mut state = self.enqueues.state.lock();
        for holding in items {
            state.master.report(from, holding);
        }
    }

    /// All masters have heard all reports: wishes go on.
    pub(super) fn enqueues_thaw(&self) {
        let _gate = self.cache.enter_protocol();
        let mut state = self.enqueues.state.lock();
        state.frozen = false;
        let resources: Vec<Resource> = state.entries.keys().copied().collect();
        for resource in resources {
            let event = ShadowEvent::Thaw { req_id: self.req_id() };
            self.run(&mut state, Step::Shadow(resource, event));
        }
    }
}
