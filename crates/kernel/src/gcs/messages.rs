//! Class tasks: what arrives is handled, parked or dropped by its epoch.

use std::sync::Arc;
use std::time::Duration;

use block::InstanceNo;
use cluster::{Class, ClassInbox, Incoming};
use env::marks::{self, Point};
use env::{Lane, Micros};
use futures::future::{Either, select};
use global::epoch::{Admit, Channel, EpochEvent};
use global::msg::{EpochMessage, Frame, Message};
use global::{Epoch, Mutant, broken};
use observe::{AlertLevel, Stat};

use super::blocks::{cap_us, is_granted};
use super::node::{Node, class_idx};

/// Messages that have come together are answered together, up to this many.
const TOGETHER_MAX: usize = 8;
/// The same while they grant blocks that are to be read from disk.
const GRANTS_TOGETHER_MAX: usize = 128;

/// The task that handles a class's messages.
pub(super) fn task_name(class: Class) -> &'static str {
    match class {
        Class::Blocks => "LMS0",
        Class::Enqueues => "LMD0",
        Class::Transactions => "LCK0",
        Class::Epochs => "LMON",
    }
}

impl Node {
    pub(super) fn start_class(self: &Arc<Node>, class: Class, mut inbox: ClassInbox) {
        let node = self.clone();
        self.env.spawn_task(task_name(class), Lane::Serve, async move {
            loop {
                // Own messages first: a fixed order, so that a run can be repeated.
                let own = node.own.ready(class);
                let came = match select(env::boxed!(own), env::boxed!(inbox.recv())).await {
                    Either::Left(((), _)) => None,
                    Either::Right((Some(incoming), _)) => Some(incoming),
                    Either::Right((None, _)) => return,
                };
                let Some(mut incoming) = came else {
                    if node.own.take_look(class) {
                        node.unpark(class);
                    }
                    drop(node.own_turn(class));
                    continue;
                };
                if marks::is_taken(Point::MessageLate) {
                    node.env.sleep(Duration::from_millis(2)).await;
                }
                let _together = node.cache.say_together();
                for n in 1..=GRANTS_TOGETHER_MAX {
                    // What it makes this instance say to itself is handled right after it.
                    let turn = node.own_turn(class);
                    node.incoming(class, &incoming);
                    drop(turn);
                    // Blocks that are granted in a row are read together.
                    if n >= TOGETHER_MAX && !(is_granted() && n < GRANTS_TOGETHER_MAX) {
                        break;
                    }
                    let Some(next) = inbox.try_recv() else { break };
                    incoming = next;
                }
            }
        });
    }

    fn incoming(&self, class: Class, incoming: &Incoming) {
        let (from, began) = (incoming.from, self.env.now());
        let enqueues = class == Class::Enqueues;
        let stat = if enqueues { Stat::GesMessagesReceived } else { Stat::GcsMessagesReceived };
        self.ctx.bump(stat, 1);
        match Frame::decode(&incoming.payload) {
            Ok(frame) => {
                // What waits for a starved server waits in the socket as well: where that shows,
                // it is counted.
                let sent = Some(Micros(frame.envelope.sent_us));
                let sent = sent.filter(|at| incoming.same_machine && at.0 > 0);
                let lms_us = cap_us(began.since(sent.unwrap_or(incoming.arrived)));
                self.frame(class, from, frame, lms_us);
                self.served.received(class, lms_us, self.env.now().since(began));
            }
            Err(e) => {
                let text = format!("message of instance {from}: {e}");
                self.ctx.alert(AlertLevel::Error, text);
                self.net.close_peer(from);
            }
        }
    }

    /// Handles what this instance has said to itself.
    pub(super) fn own_message(&self, epoch: Epoch, message: Message) {
        if let Message::Epoch(m) = message {
            self.epoch_message(self.me, m);
            return;
        }
        let _gate = self.cache.enter_protocol();
        if epoch == self.view().epoch {
            self.handle(self.me, message, 0);
        }
    }

    /// `lms_us`: how long it has waited for this task.
    fn frame(&self, class: Class, from: InstanceNo, frame: Frame, lms_us: u32) {
        // Whatever SCN is read anywhere raises the clock (H8).
        self.core.clock.raise(frame.envelope.scn);
        if let [Message::Epoch(EpochMessage::Marker { epoch, scn, class: of, lane })] =
            frame.messages[..]
        {
            self.core.snapshots.raise_floor(scn);
            let channel = Channel { class: of, lane };
            self.epoch_event(EpochEvent::Marker { from, epoch, channel });
            return;
        }
        self.unpark_from(class, from);
        let key = (from, class_idx(class));
        if class == Class::Epochs {
            match self.machine.lock().admit(from, frame.envelope.epoch) {
                Admit::Deliver => {}
                Admit::Park => {
                    self.parked.lock().entry(key).or_default().push_back(frame);
                    return;
                }
                Admit::Drop => return,
            }
            for message in frame.messages {
                if let Message::Epoch(m) = message {
                    self.epoch_message(from, m);
                }
            }
            return;
        }
        let _gate = self.cache.enter_protocol();
        if self.parked.lock().get(&key).is_some_and(|q| !q.is_empty()) {
            self.parked.lock().entry(key).or_default().push_back(frame);
            return;
        }
        self.deliver_or_park(class, from, frame, lms_us);
    }

    /// Under the gate.
    fn deliver_or_park(&self, class: Class, from: InstanceNo, frame: Frame, lms_us: u32) {
        match self.admit(from, frame.envelope.epoch) {
            Admit::Deliver => {
                for message in frame.messages {
                    self.handle(from, message, lms_us);
                }
            }
            Admit::Park => {
                let key = (from, class_idx(class));
                self.parked.lock().entry(key).or_default().push_back(frame);
            }
            Admit::Drop => {}
        }
    }

    /// By the view alone: the machine may be locked by whoever waits for the gate.
    fn admit(&self, from: InstanceNo, epoch: global::Epoch) -> Admit {
        let view = self.view();
        if epoch < view.epoch && broken(Mutant::AcceptStaleEpoch) {
            return Admit::Deliver;
        }
        match epoch.cmp(&view.epoch) {
            std::cmp::Ordering::Less => Admit::Drop,
            std::cmp::Ordering::Equal if view.members.contains(&from) => Admit::Deliver,
            std::cmp::Ordering::Equal => Admit::Drop,
            std::cmp::Ordering::Greater => Admit::Park,
        }
    }

    fn unpark(&self, class: Class) {
        let senders: Vec<InstanceNo> = {
            let parked = self.parked.lock();
            parked.keys().filter(|k| k.1 == class_idx(class)).map(|k| k.0).collect()
        };
        for from in senders {
            self.unpark_from(class, from);
        }
    }

    /// Handles what was parked of a channel, as far as its epoch has come.
    fn unpark_from(&self, class: Class, from: InstanceNo) {
        let key = (from, class_idx(class));
        loop {
            let next = {
                let mut parked = self.parked.lock();
                let Some(queue) = parked.get_mut(&key) else { return };
                let epoch = self.view().epoch;
                match queue.front() {
                    Some(frame) if frame.envelope.epoch <= epoch => queue.pop_front(),
                    _ => return,
                }
            };
            let Some(frame) = next else { return };
            if class == Class::Epochs {
                if frame.envelope.epoch == self.view().epoch {
                    for message in frame.messages {
                        if let Message::Epoch(m) = message {
                            self.epoch_message(from, m);
                        }
                    }
                }
            } else {
                let _gate = self.cache.enter_protocol();
                // It has waited for the epoch, not for the task.
                self.deliver_or_park(class, from, frame, 0);
            }
        }
    }

    /// Handles a message of the epoch in force; under the gate.
    fn handle(&self, from: InstanceNo, message: Message, lms_us: u32) {
        match message {
            Message::Gcs(m) => self.gcs_message(from, m, lms_us),
            Message::Txn(m) => self.txn_message(from, m),
            Message::Ges(m) => self.ges_message(from, m),
            Message::Epoch(_) => {}
        }
    }
}
