//! What this instance says to itself: queues by class, handled in order, one handler at a time.
//!
//! A session that asks this instance's own directory handles the queue itself, once it has let go
//! of latch and gate: no other thread need be woken for a question that never leaves the house.
//!
//! Promises: messages of a class are handled in the order in which they were said, and none is left
//! behind. Must never be run with a latch, the gate or the epoch machine held.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use cluster::Class;
use global::Epoch;
use global::msg::Message;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::node::{Node, class_idx};

/// Messages handled as one step at the most: what they make this instance say waits for its end.
const TOGETHER_MAX: usize = 128;

/// The messages of one class.
#[derive(Default)]
struct Queue {
    messages: Mutex<VecDeque<(Epoch, Message)>>,
    /// Somebody handles them, and looks again before he leaves.
    turn: AtomicBool,
    /// An epoch has been entered: the class task looks at what was parked.
    look: AtomicBool,
    ready: Notify,
}

/// All classes' messages.
#[derive(Default)]
pub(super) struct Own {
    queues: [Queue; cluster::interconnect::CLASSES],
    /// Said and not yet handled.
    pending: AtomicUsize,
}

/// The right to handle a class's messages; they are handled when it is dropped.
pub(super) struct Turn<'a> {
    node: &'a Node,
    class: Class,
}

impl Own {
    pub fn push(&self, class: Class, epoch: Epoch, message: Message) {
        let queue = &self.queues[class_idx(class)];
        self.pending.fetch_add(1, Ordering::SeqCst);
        queue.messages.lock().push_back((epoch, message));
        if !queue.turn.load(Ordering::SeqCst) {
            queue.ready.notify_one();
        }
    }

    /// Whether everything said has been handled.
    pub fn is_quiet(&self) -> bool {
        self.pending.load(Ordering::SeqCst) == 0
    }

    /// Has the class tasks look at what was parked.
    pub fn wake_all(&self) {
        Class::ALL.into_iter().for_each(|class| self.wake(class));
    }

    /// Whether the class task has not come to look since it was last told to.
    pub fn is_looked_for(&self, class: Class) -> bool {
        self.queues[class_idx(class)].look.load(Ordering::SeqCst)
    }

    /// Has one class task look at what was parked.
    pub fn wake(&self, class: Class) {
        let queue = &self.queues[class_idx(class)];
        queue.look.store(true, Ordering::SeqCst);
        queue.ready.notify_one();
    }

    /// Returns when there may be something for the class task.
    pub async fn ready(&self, class: Class) {
        self.queues[class_idx(class)].ready.notified().await;
    }

    /// Whether an epoch has been entered since this was last asked.
    pub fn take_look(&self, class: Class) -> bool {
        self.queues[class_idx(class)].look.swap(false, Ordering::SeqCst)
    }
}

impl Node {
    /// The right to handle the class's own messages; `None`: somebody has it, and will see whatever
    /// is said meanwhile.
    pub(super) fn own_turn(&self, class: Class) -> Option<Turn<'_>> {
        let free = !self.own.queues[class_idx(class)].turn.swap(true, Ordering::SeqCst);
        free.then_some(Turn { node: self, class })
    }
}

impl Turn<'_> {
    /// Handles what has been said, as one step as long as that is not much: blocks granted in a row
    /// are read together. `false`: there is no more.
    fn handle_some(&self) -> bool {
        let own = &self.node.own;
        let queue = &own.queues[class_idx(self.class)];
        let _together = self.node.cache.say_together();
        for _ in 0..TOGETHER_MAX {
            let next = queue.messages.lock().pop_front();
            let Some((epoch, message)) = next else { return false };
            self.node.own_message(epoch, message);
            own.pending.fetch_sub(1, Ordering::SeqCst);
        }
        true
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        let queue = &self.node.own.queues[class_idx(self.class)];
        loop {
            while self.handle_some() {}
            queue.turn.store(false, Ordering::SeqCst);
            // What was said before the turn was given up was said without waking anybody.
            if queue.messages.lock().is_empty() || queue.turn.swap(true, Ordering::SeqCst) {
                return;
            }
        }
    }
}
