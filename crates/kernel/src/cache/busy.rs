//! What all buffers of a cache have in common, and waits for their latches: `buffer busy waits`.
//!
//! Promises: a latch that is free is taken with nothing counted; a sleep on one that another
//! session of this instance has is a wait of the session, and counted by class of block and by
//! segment.
//! Must never do: look at a block before its latch is held.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use block::{Dba, layout};
use env::latch::{Contended, contend};
use layout::Kind;

use super::buffer::State;
use super::segments::{SegmentStat, Segments};
use crate::shown::Shown;

/// The name that latches of blocks wait under.
const NAME: &str = "buffer busy waits";

/// Waits for blocks of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusyRow {
    pub kind: Kind,
    pub waits: u64,
    pub time_us: u64,
}

#[derive(Default)]
struct Count {
    waits: AtomicU64,
    time_us: AtomicU64,
}

/// Of all buffers.
pub(crate) struct Common {
    pub shown: Option<Arc<Shown>>,
    pub segments: Segments,
    busy: [Count; KINDS.len()],
}

/// What a block that is latched may be.
const KINDS: [Kind; 9] = [
    Kind::Free,
    Kind::Heap,
    Kind::Leaf,
    Kind::Branch,
    Kind::UndoHeader,
    Kind::Undo,
    Kind::SegmentHeader,
    Kind::FreeMap,
    Kind::FileMap,
];

impl Common {
    pub fn new(shown: Option<Arc<Shown>>) -> Common {
        Common { shown, segments: Segments::default(), busy: Default::default() }
    }

    /// Gets the latch of a block that another has.
    #[cold]
    pub fn latch<G: std::ops::Deref<Target = State>>(
        &self,
        dba: Dba,
        try_take: impl Fn() -> Option<G>,
        take: impl Fn() -> G,
    ) -> G {
        // What the block is can be seen only later: what most are stands for it.
        let likely = Kind::Heap;
        let p = [u64::from(dba.file), u64::from(dba.block), likely.class()];
        let (guard, Contended { told, wait_us, .. }) = contend(NAME, p, try_take, take);
        // The instance's own threads wait for nobody's time: views of waits are of sessions.
        if told {
            let image = guard.image.as_ref();
            let kind = image.map_or(likely, |image| layout::kind(image));
            let count = &self.busy[kind as usize];
            count.waits.fetch_add(1, Relaxed);
            count.time_us.fetch_add(wait_us, Relaxed);
            if let Some(image) = image {
                self.segments.add(layout::obj(image), SegmentStat::BufferBusyWaits, 1);
            }
        }
        guard
    }

    /// Waits so far, by class of the block.
    pub fn busy_rows(&self) -> Vec<BusyRow> {
        let row = |(kind, count): (Kind, &Count)| BusyRow {
            kind,
            waits: count.waits.load(Relaxed),
            time_us: count.time_us.load(Relaxed),
        };
        KINDS.into_iter().zip(&self.busy).map(row).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::TestInstance;
    use block::Mode;
    use env::latch::{Latch, LatchList};
    use observe::{Ctx, WaitEvent};

    /// Holds something until another thread, the session's, sleeps for it.
    fn sleep<G>(ctx: &Ctx, event: WaitEvent, held: G, take: impl FnOnce() + Send) {
        let before = ctx.session.totals().event(event).waits;
        std::thread::scope(|scope| {
            scope.spawn(|| {
                observe::attribute_latches(&ctx.session);
                take();
            });
            while !ctx.session.wait_view(ctx.env.now()).waiting {
                std::thread::yield_now();
            }
            assert_eq!(ctx.session.wait_view(ctx.env.now()).event, Some(event));
            drop(held);
        });
        assert_eq!(ctx.session.totals().event(event).waits, before + 1, "{event}");
    }

    #[test]
    fn who_sleeps_for_a_block_or_a_latch_waits_by_its_name() {
        let db = TestInstance::new(3, 256);
        let ctx = db.session("a");
        let cache = &db.core.cache;
        let pin = db.run(cache.pin(&ctx, Dba::new(4, 1), Mode::S));
        let buffer = pin.expect("a file map").buffer.clone();
        sleep(&ctx, WaitEvent::BufferBusyWaits, buffer.latch().write(), || {
            drop(buffer.latch().read());
        });
        let busy = cache.busy_rows().into_iter().find(|row| row.waits > 0).expect("it is counted");
        assert_eq!((busy.kind, busy.waits), (Kind::FileMap, 1));
        let chains = WaitEvent::LatchCacheBuffersChains;
        sleep(&ctx, chains, cache.shards[0].lock(), || drop(cache.shards[0].lock()));
        let mut list = LatchList::default();
        cache.latches(&mut list);
        let of_chains: u64 = list.rows()[0].1.iter().map(|latch| latch.counts.sleeps).sum();
        assert_eq!(of_chains, 1);
        for (name, event) in [
            ("redo allocation", WaitEvent::LatchRedoAllocation),
            ("shared pool", WaitEvent::LatchSharedPool),
            ("library cache", WaitEvent::LatchLibraryCache),
            ("gcs resource hash", WaitEvent::LatchFree),
        ] {
            let latch = Latch::new(name, ());
            sleep(&ctx, event, latch.lock(), || drop(latch.lock()));
        }
    }

    #[test]
    fn kinds_stand_at_their_numbers() {
        assert!(KINDS.iter().enumerate().all(|(at, kind)| *kind as usize == at));
        assert_eq!(Kind::from_u8(KINDS.len() as u8), None, "there are no more");
    }
}
