//! The heartbeat monitor: whether the message tasks of all instances do their work (hazard M6).
//!
//! The voting file shows that a process lives, not that it answers. Who lets prompt questions
//! unanswered for the misscount is reported to the membership, as is this instance itself when a
//! message task of its own does not run.
//!
//! Promises: silence is counted in own rounds, so that who was stopped blames nobody when it wakes.
//! A peer's counts only in rounds in which the own tasks have run and every member has entered the
//! epoch: whoever is slow because the membership changes is not blamed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use block::InstanceNo;
use cluster::Class;
use cluster::interconnect::CLASSES;
use env::Lane;
use global::msg::ReqId;
use observe::{AlertLevel, Ctx, SessionKind, WaitEvent};

use super::messages::task_name;
use super::node::{Node, class_idx};

/// What the monitor has seen so far.
struct Watch {
    ctx: Ctx,
    misscount: Duration,
    rounds_max: u32,
    epoch: u64,
    /// Rounds in which a class task has not run.
    own: [u32; CLASSES],
    /// The oldest question that a peer has not answered, and the rounds it has stood.
    peers: BTreeMap<InstanceNo, (ReqId, u32)>,
}

impl Node {
    pub(super) fn start_watch(self: &Arc<Node>) {
        let node = self.clone();
        let config = self.membership.config();
        let rounds = config.misscount.as_micros().div_ceil(config.heartbeat.as_micros().max(1));
        let mut watch = Watch {
            ctx: self.observer.ctx(SessionKind::Background, "LMHB"),
            misscount: config.misscount,
            rounds_max: u32::try_from(rounds).unwrap_or(u32::MAX),
            epoch: 0,
            own: [0; CLASSES],
            peers: BTreeMap::new(),
        };
        self.env.spawn_task("LMHB", Lane::Background, async move {
            loop {
                watch.ctx.sleep(WaitEvent::RdbmsIpcMessage, config.heartbeat).await;
                watch.round(&node);
            }
        });
    }

    /// For each peer the oldest of the questions it should have answered at once.
    fn oldest_unanswered(&self) -> BTreeMap<InstanceNo, ReqId> {
        let mut oldest = BTreeMap::new();
        for (&req_id, call) in self.calls.lock().iter().filter(|(_, call)| call.prompt) {
            let first = oldest.entry(call.to).or_insert(req_id);
            *first = req_id.min(*first);
        }
        oldest
    }
}

impl Watch {
    fn round(&mut self, node: &Node) {
        let view = node.view();
        if view.epoch.0 != self.epoch {
            self.epoch = view.epoch.0;
            self.peers.clear();
        }
        if view.members.len() < 2 {
            self.own = [0; CLASSES];
            return;
        }
        let well = self.look_at_own(node);
        if !well || !node.thawed.load(Ordering::SeqCst) {
            return;
        }
        let before = std::mem::take(&mut self.peers);
        for (peer, req_id) in node.oldest_unanswered() {
            let stood = before.get(&peer).filter(|(r, _)| *r == req_id).map_or(0, |(_, n)| n + 1);
            self.peers.insert(peer, (req_id, stood));
            if stood < self.rounds_max {
                continue;
            }
            if stood == self.rounds_max {
                let text = format!(
                    "instance {peer} has acknowledged nothing for {:?}, though its heartbeat goes \
                     on: it is to be put out",
                    self.misscount
                );
                self.ctx.alert(AlertLevel::Warning, text);
            }
            node.membership.report_hung(peer, self.epoch);
        }
    }

    /// Whether every class task has run since the last round.
    fn look_at_own(&mut self, node: &Node) -> bool {
        // A class task takes a step of the membership change: with a large cache it may be a long
        // one.
        if node.machine.try_lock().is_none() {
            return false;
        }
        for class in Class::ALL {
            let late = &mut self.own[class_idx(class)];
            if !node.own.is_looked_for(class) {
                *late = 0;
                node.own.wake(class);
                continue;
            }
            *late += 1;
            if *late == self.rounds_max {
                let (task, limit) = (task_name(class), self.misscount);
                let text = format!("{task} has not run for {limit:?}: this instance hangs");
                self.ctx.alert(AlertLevel::Error, text);
            }
            if *late >= self.rounds_max {
                // Also while the membership changes, which cannot end then.
                node.membership.report_hanging();
            }
        }
        self.own.iter().all(|late| *late == 0)
    }
}
