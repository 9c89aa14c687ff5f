//! The change of membership, as every buffer goes through it.
//!
//! What for: nobody is served meanwhile, and an instance may hold a million blocks. Their headers
//! are memory that no cache of the processor has: they are read once, some at a time, so that they
//! come together, and their images are not read at all.
//!
//! What it promises: each buffer's holder has stepped; none is left out. What it must never do:
//! wait for a latch with a shard locked.

use std::hint::black_box;
use std::sync::Arc;

use global::msg::Holding;
use global::{HolderEffect, HolderEvent};

use super::buffer::{Buffer, Latched};
use super::pool::Cache;
use super::step::Carry;

/// Buffers read at once: more than a processor waits for at once are of no use.
const AT_ONCE: usize = 16;

impl Cache {
    /// Enters a new epoch with every buffer; `held` notes what this instance has, in as many `R` as
    /// that is done in parts. Under `stop_protocol`, in epoch 0 as others see it.
    pub(crate) fn enter_epoch<R: Default + Send>(
        &self,
        held: impl Fn(&mut R, Holding) + Sync,
    ) -> Vec<R> {
        if let Some(shown) = &self.shown {
            // Or all that is not shown yet would be copied below, with everybody standing still.
            shown.set_on(false);
        }
        let enter = |at: usize| {
            let (mut noted, mut busy) = (R::default(), Vec::new());
            let shard = self.shards[at].lock();
            let buffers: Vec<&Arc<Buffer>> = shard.map.values().collect();
            for some in buffers.chunks(AT_ONCE) {
                self.enter_some(some, &mut busy, &mut |holding| held(&mut noted, holding));
            }
            (noted, busy)
        };
        let parts: Vec<(R, Vec<Arc<Buffer>>)> = self.env.in_parallel(self.shards.len(), enter);
        let mut all = Vec::with_capacity(parts.len());
        for (mut noted, busy) in parts {
            for buffer in busy {
                let mut st = buffer.latch().write_unshown();
                self.step(&buffer, &mut st, HolderEvent::EnterEpoch, Carry::default());
                if let Some(holding) = st.holder.holding(&self.facts(&buffer, &st)) {
                    held(&mut noted, holding);
                }
            }
            all.push(noted);
        }
        if let Some(shown) = &self.shown {
            shown.forget_all(&self.env);
        }
        all
    }

    /// The same with some of a shard's buffers; those with which something is under way, or whose
    /// latch is not free, are left to the caller.
    fn enter_some(
        &self,
        some: &[&Arc<Buffer>],
        busy: &mut Vec<Arc<Buffer>>,
        held: &mut impl FnMut(Holding),
    ) {
        let now_us = self.env.now().0;
        for buffer in some {
            black_box(buffer.pins_for_peers());
        }
        let mut latched: Vec<(&Arc<Buffer>, Latched<'_>)> = Vec::with_capacity(AT_ONCE);
        for &buffer in some {
            match buffer.latch().try_write_unshown() {
                Some(st) if st.holder.is_settled() => latched.push((buffer, st)),
                _ => busy.push(buffer.clone()),
            }
        }
        let mut effects = Vec::with_capacity(1);
        for (buffer, mut st) in latched {
            let facts = self.facts_at(buffer, &st, st.version_unlatched, now_us);
            st.holder.step(HolderEvent::EnterEpoch, &facts, &mut effects);
            let only_wakes = matches!(effects[..], [HolderEffect::Wake]);
            assert!(only_wakes, "{}: settled, and yet {effects:?}", buffer.dba);
            effects.clear();
            st.wake = true;
            st.holder.holding(&facts).into_iter().for_each(&mut *held);
        }
    }
}
