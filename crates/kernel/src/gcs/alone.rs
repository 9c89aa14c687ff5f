//! Back to the state without messages, when all others have gone (hazard C5).
//!
//! Promises: the flag goes up only while nothing is under way anywhere: sole member, all recovered,
//! no past image, no recovery lock, no request, duty, comparison or eviction at any block, and no
//! message of this instance to itself in a queue. Whatever is under way ends by itself soon: it is
//! looked again.

use std::sync::atomic::Ordering;
use std::time::Duration;

use block::Mode;
use env::Lane;
use global::Epoch;
use observe::{AlertLevel, WaitEvent};

use super::node::Node;

/// How often it is looked whether everything has come to rest.
const LOOK_EVERY: Duration = Duration::from_millis(50);

impl Node {
    /// Everything is recovered in `epoch`: if this instance is alone in it, the protocol may rest.
    pub(super) fn rest_if_alone(&self, epoch: Epoch) {
        let node = self.arc();
        self.env.spawn_task("rest", Lane::Serve, async move {
            while !node.cache.is_alone() && node.view().members.len() == 1 {
                if node.view().epoch != epoch {
                    return; // The task of the later epoch looks.
                }
                if node.try_rest(epoch) {
                    let text = format!("epoch {}: alone, no messages are needed", epoch.0);
                    node.ctx.alert(AlertLevel::Info, text);
                    return;
                }
                // The checkpoint writes what past images and other instances' copies wait for.
                node.ctx.sleep(WaitEvent::SmonTimer, LOOK_EVERY).await;
            }
        });
    }

    /// Raises the flag if nothing is under way.
    fn try_rest(&self, epoch: Epoch) -> bool {
        let _all = self.cache.stop_protocol();
        let view = self.view();
        let quiet = view.epoch == epoch
            && view.members == [self.me]
            && !self.cache.is_frozen()
            && self.thawed.load(Ordering::SeqCst)
            && self.settled.load(Ordering::SeqCst) >= epoch.0
            && self.segments_ready.load(Ordering::SeqCst) >= epoch.0
            && self.own.is_quiet()
            && self.before_directory.lock().is_empty();
        if !quiet {
            return false;
        }
        let buffers = self.cache.buffers_unordered();
        let resting = buffers.iter().all(|b| {
            let st = b.latch().read();
            st.past_image.is_none() && !st.loading && st.holder.is_quiet()
        });
        {
            let mut master = self.master.lock();
            if !resting || !master.nothing_special() || !master.owed().is_empty() {
                return false;
            }
            // An instance alone keeps no directory; the next epoch's reports make a new one.
            master.clear();
        }
        for buffer in &buffers {
            let mut st = buffer.latch().write();
            if st.holder.mode() == Mode::S {
                st.holder.take_alone(Mode::X);
            }
        }
        self.cache.set_alone(true);
        true
    }
}
