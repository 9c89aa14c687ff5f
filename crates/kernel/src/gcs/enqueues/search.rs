//! The search for deadlocks across instances: what this one knows of who waits for whom.
//!
//! Transactions are named by Xid; one that has none yet by its local number, in a segment number
//! that no undo segment has. Such a one has changed nothing and is the best victim: its name is the
//! greatest.

use std::time::Duration;

use block::Xid;
use env::Lane;
use global::ges::{DeadlockEffect, OwnerId, WaitGraph};
use global::msg::{GesMessage, Message, Resource, Wait, Waiter};
use observe::AlertLevel;

use super::super::node::Node;
use super::super::transactions::born;
use super::{INSTANCE, State};
use crate::txn::{RemoteDeadlocks, WaitView, is_shared_by_instance};

/// Segment number in the name of a transaction without an Xid.
const NO_SEGMENT: u16 = u16::MAX;
/// A cycle seen once is looked at again after this long (M5).
const CONFIRM_AFTER: Duration = Duration::from_millis(50);

#[allow(clippy::cast_possible_truncation)]
fn name_of_number(id: u64) -> Xid {
    Xid { usn: NO_SEGMENT, slot: (id >> 32) as u16, seq: id as u32 }
}

pub(super) fn number_of_name(xid: Xid) -> Option<u64> {
    (xid.usn == NO_SEGMENT).then(|| u64::from(xid.slot) << 32 | u64::from(xid.seq))
}

impl RemoteDeadlocks for Node {
    fn wait_lasts(&self, waiter: u64) {
        let start = self.owner_of_number(waiter);
        let _gate = self.cache.enter_protocol();
        self.start_search(start);
    }
}

impl Node {
    pub(super) fn owner_of_number(&self, id: u64) -> Waiter {
        let xid = self.core.waits.xid_of(id).unwrap_or_else(|| name_of_number(id));
        Waiter::Owner { home: self.me, xid }
    }

    fn owner_of_xid(&self, xid: Xid) -> Waiter {
        Waiter::Owner { home: self.view().answers_for(born(xid.usn)), xid }
    }

    fn wait_of_name(&self, xid: Xid) -> Option<WaitView> {
        let waits = &self.core.waits;
        number_of_name(xid).map_or_else(|| waits.wait_of_xid(xid), |id| waits.wait_of(id))
    }

    /// Under the gate.
    fn start_search(&self, start: Waiter) {
        if self.cache.is_frozen() || self.view().members.len() < 2 {
            return; // What one instance can see alone is found at once.
        }
        let mut effects = Vec::new();
        self.enqueues.search.lock().start(start, &Graph(self), &mut effects);
        self.search_effects(effects);
    }

    /// A message of the search; under the gate.
    pub(super) fn search_message(&self, message: &GesMessage) {
        let mut effects = Vec::new();
        self.enqueues.search.lock().message(message, &Graph(self), &mut effects);
        self.search_effects(effects);
    }

    fn search_effects(&self, effects: Vec<DeadlockEffect>) {
        for effect in effects {
            match effect {
                DeadlockEffect::Send { to, msg } => {
                    if !self.cache.is_frozen() {
                        self.send(to, Message::Ges(msg));
                    }
                }
                DeadlockEffect::Confirm { start } => {
                    let node = self.arc();
                    self.env.spawn_task("confirm deadlock", Lane::Serve, async move {
                        node.env.sleep(CONFIRM_AFTER).await;
                        let _gate = node.cache.enter_protocol();
                        node.start_search(start);
                    });
                }
                DeadlockEffect::Victim { xid, cycle } => self.victim(xid, &cycle),
            }
        }
    }

    fn victim(&self, xid: Xid, cycle: &[Wait]) {
        let Some(wait) = self.wait_of_name(xid) else { return };
        let seen = cycle
            .iter()
            .any(|w| w.who == Waiter::Owner { home: self.me, xid } && w.wait_no == wait.wait_no);
        if seen && self.core.waits.kill_victim(wait.id, wait.wait_no) {
            let all: Vec<String> = cycle.iter().map(|w| format!("{:?}", w.who)).collect();
            let text = format!("deadlock broken: transaction {xid} of {}", all.join(", "));
            self.ctx.alert(AlertLevel::Info, text);
        }
    }
}

/// The waits at this instance.
pub(super) struct Graph<'a>(pub &'a Node);

impl Graph<'_> {
    fn owners(&self, ids: impl IntoIterator<Item = OwnerId>) -> Vec<Waiter> {
        ids.into_iter().map(|o| self.0.owner_of_number(o.0)).collect()
    }

    fn wait_of_owner(&self, who: &Waiter, wait: &WaitView) -> Wait {
        let node = self.0;
        let mut on: Vec<Waiter> = wait.any_of.iter().map(|x| node.owner_of_xid(*x)).collect();
        on.extend(wait.all_of.iter().map(|id| node.owner_of_number(*id)));
        if let Some(resource) = wait.enqueue {
            let state = node.enqueues.state.lock();
            on.extend(self.enqueue_wait(&state, resource, wait.id));
        }
        Wait { who: *who, wait_no: wait.wait_no, any_of: !wait.any_of.is_empty(), on }
    }

    /// What a local transaction that wants `resource` waits for.
    fn enqueue_wait(&self, state: &State, resource: Resource, id: u64) -> Vec<Waiter> {
        let Some(entry) = state.entries.get(&resource) else { return Vec::new() };
        let owner = if is_shared_by_instance(resource) { INSTANCE } else { OwnerId(id) };
        let mut on = self.owners(entry.shadow.local_blockers(owner));
        if entry.shadow.waits_remotely(owner) {
            let (home, asker) = (self.0.enqueue_master(resource), self.0.me);
            on.push(Waiter::Queued { home, resource, asker });
        }
        on
    }
}

impl WaitGraph for Graph<'_> {
    fn wait_of(&self, who: &Waiter) -> Option<Wait> {
        let node = self.0;
        let locks = &node.core.table_locks;
        let (wait_no, on) = match *who {
            Waiter::Owner { xid, .. } => {
                return node.wait_of_name(xid).map(|wait| self.wait_of_owner(who, &wait));
            }
            Waiter::Queued { resource, asker, .. } => {
                let state = node.enqueues.state.lock();
                let wait_no = state.master.queued(resource, asker)?.0;
                (wait_no, state.master.blockers(resource, asker))
            }
            Waiter::Held { resource, wanted, .. } if is_shared_by_instance(resource) => {
                let holders = locks.holding_against(resource, wanted);
                let holders = holders.into_iter().map(|id| node.core.waits.transaction_of(id));
                (0, self.owners(holders.map(OwnerId)))
            }
            Waiter::Ahead { resource, .. } if is_shared_by_instance(resource) => {
                let asker = locks.asking(resource).map(|id| node.core.waits.transaction_of(id));
                (0, self.owners(asker.map(OwnerId)))
            }
            Waiter::Held { resource, wanted, .. } => {
                let state = node.enqueues.state.lock();
                let shadow = &state.entries.get(&resource)?.shadow;
                (0, self.owners(shadow.holding_against(wanted)))
            }
            Waiter::Ahead { resource, .. } => {
                let state = node.enqueues.state.lock();
                let shadow = &state.entries.get(&resource)?.shadow;
                (0, self.owners(shadow.waiting_for_more()))
            }
        };
        Some(Wait { who: *who, wait_no, any_of: false, on })
    }
}
