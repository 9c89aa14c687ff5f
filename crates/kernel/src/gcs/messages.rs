//! Class tasks: what arrives is handled, parked or dropped by its epoch.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use block::InstanceNo;
use cluster::{Class, ClassInbox};
use env::Lane;
use futures::future::{Either, select};
use global::epoch::{Admit, Channel, EpochEvent};
use global::msg::{EpochMessage, Frame, Message};
use observe::{AlertLevel, Stat};
use tokio::sync::mpsc;

use super::node::{Node, OwnMessage, class_idx};

impl Node {
    pub(super) fn start_class(
        self: &Arc<Node>,
        class: Class,
        mut inbox: ClassInbox,
        mut own: mpsc::UnboundedReceiver<OwnMessage>,
    ) {
        let node = self.clone();
        let name = match class {
            Class::Blocks => "LMS0",
            Class::Enqueues => "LMD0",
            Class::Transactions => "LCK0",
            Class::Epochs => "LMON",
        };
        self.env.spawn_task(name, Lane::Serve, async move {
            loop {
                // Own messages first: a fixed order, so that a run can be repeated.
                match select(Box::pin(own.recv()), Box::pin(inbox.recv())).await {
                    Either::Left((Some(message), _)) => node.own_message(class, message),
                    Either::Right((Some(incoming), _)) => {
                        node.ctx.bump(
                            if class == Class::Enqueues {
                                Stat::GesMessagesReceived
                            } else {
                                Stat::GcsMessagesReceived
                            },
                            1,
                        );
                        match Frame::decode(&incoming.payload) {
                            Ok(frame) => node.frame(class, incoming.from, frame),
                            Err(e) => {
                                let text = format!("message of instance {}: {e}", incoming.from);
                                node.ctx.alert(AlertLevel::Error, text);
                                node.net.close_peer(incoming.from);
                            }
                        }
                    }
                    _ => return,
                }
            }
        });
    }

    fn own_message(&self, class: Class, message: OwnMessage) {
        match message {
            OwnMessage::Look => self.unpark(class),
            OwnMessage::Message(epoch, Message::Epoch(m)) => {
                let _ = epoch;
                self.epoch_message(self.me, m);
                self.own_pending.fetch_sub(1, Ordering::SeqCst);
            }
            OwnMessage::Message(epoch, message) => {
                let _gate = self.cache.enter_protocol();
                if epoch == self.view().epoch {
                    self.handle(self.me, message);
                }
                self.own_pending.fetch_sub(1, Ordering::SeqCst);
            }
        }
    }

    fn frame(&self, class: Class, from: InstanceNo, frame: Frame) {
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
        self.deliver_or_park(class, from, frame);
    }

    /// Under the gate.
    fn deliver_or_park(&self, class: Class, from: InstanceNo, frame: Frame) {
        match self.admit(from, frame.envelope.epoch) {
            Admit::Deliver => {
                for message in frame.messages {
                    self.handle(from, message);
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
                self.deliver_or_park(class, from, frame);
            }
        }
    }

    /// Handles a message of the epoch in force; under the gate.
    fn handle(&self, from: InstanceNo, message: Message) {
        match message {
            Message::Gcs(m) => self.gcs_message(from, m),
            Message::Txn(m) => self.txn_message(from, m),
            Message::Ges(m) => self.ges_message(from, m),
            Message::Epoch(_) => {}
        }
    }
}
