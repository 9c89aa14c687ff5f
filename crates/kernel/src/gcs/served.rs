//! What this instance's servers have done for the others, and how long messages waited for them:
//! behind `v$cr_block_server`, `v$current_block_server` and `v$ges_statistics`.
//!
//! Promises: a count only grows, and costs a relaxed addition where something is done for another
//! instance anyway; what a statistic counts, too, is counted in both by one function. Must never be
//! asked by who decides something.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use block::Dba;
use cluster::Class;
use cluster::interconnect::CLASSES;
use env::Micros;
use global::msg::Timings;
use observe::{Ctx, Stat};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::node::class_idx;

/// Upper bounds of the columns of a histogram in µs; the last column has none.
pub const SERVED_BELOW_US: [u64; 5] = [100, 1_000, 10_000, 100_000, 1_000_000];
/// Columns of a histogram.
pub const SERVED_BUCKETS: usize = SERVED_BELOW_US.len() + 1;

/// Writes for other instances that are timed at once; of more, the time is not known.
const WRITES_TIMED_MAX: usize = 4_096;

/// What is counted of requests for consistent copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CrCount {
    /// Requests for consistent copies of blocks.
    Data,
    /// Requests for undo blocks.
    Undo,
    /// Requests of readers that got the newest version and share it.
    CurrentRequests,
    /// Questions for the state of a transaction, which the field reads from headers of undo
    /// segments.
    UndoHeader,
    /// Copies of which nothing had to be taken back.
    Current,
    /// Copies of which changes were taken back, all that was needed.
    Zero,
    /// Requests that met no right here and went back to the master.
    Fail,
    /// Blocks in X that were shared after they had been asked for often.
    FairnessDownConverts,
    /// Copies that waited for the log writer.
    Flushes,
    /// The longest such wait, µs.
    FlushMaxUs,
    /// Copies sent unfinished.
    LightWorks,
}

const CR_COUNTS: usize = CrCount::LightWorks as usize + 1;

/// Messages received of one class.
#[derive(Default)]
struct Received {
    messages: AtomicU64,
    queue_us: AtomicU64,
    process_us: AtomicU64,
}

/// Messages received of one class since the start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ReceivedTotals {
    pub messages: u64,
    /// From the wire, or on one machine from their sending, until a server took them.
    pub queue_us: u64,
    /// Of the server, to handle them.
    pub process_us: u64,
}

/// See the module.
#[derive(Default)]
pub struct Served {
    cr: [AtomicU64; CR_COUNTS],
    pins: [AtomicU64; SERVED_BUCKETS],
    flushes: [AtomicU64; SERVED_BUCKETS],
    writes: [AtomicU64; SERVED_BUCKETS],
    /// Blocks whose write another instance waits for, since when.
    writing: Mutex<FxHashMap<Dba, Micros>>,
    received: [Received; CLASSES],
    directly: AtomicU64,
    with_next: AtomicU64,
}

fn bucket(us: u64) -> usize {
    SERVED_BELOW_US.iter().position(|below| us < *below).unwrap_or(SERVED_BELOW_US.len())
}

impl Served {
    pub(super) fn count_cr(&self, what: CrCount) {
        self.cr[what as usize].fetch_add(1, Relaxed);
    }

    /// A copy has waited so long for the log writer.
    pub(super) fn cr_flushed(&self, ctx: &Ctx, us: u64) {
        ctx.bump(Stat::GcCrFlushes, 1);
        ctx.bump(Stat::GcCrFlushTime, us);
        self.count_cr(CrCount::Flushes);
        self.cr[CrCount::FlushMaxUs as usize].fetch_max(us, Relaxed);
    }

    /// A block is sent in its newest version; `flushed`: it had to wait for the log writer.
    pub(super) fn shipped(&self, ctx: &Ctx, timings: &Timings, flushed: bool) {
        let (pin_us, flush_us) = (u64::from(timings.pin_us), u64::from(timings.flush_us));
        ctx.bump(Stat::GcCurrentBlocksServed, 1);
        ctx.bump(Stat::GcCurrentPinTime, pin_us);
        self.pins[bucket(pin_us)].fetch_add(1, Relaxed);
        if flushed {
            ctx.bump(Stat::GcCurrentFlushes, 1);
            ctx.bump(Stat::GcCurrentFlushTime, flush_us);
            self.flushes[bucket(flush_us)].fetch_add(1, Relaxed);
        }
    }

    /// Another instance's checkpoint needs this block on disk.
    pub(super) fn write_asked(&self, dba: Dba, now: Micros) {
        let mut writing = self.writing.lock();
        if writing.len() < WRITES_TIMED_MAX {
            writing.entry(dba).or_insert(now);
        }
    }

    /// The block is on disk, and its master is told so.
    pub(super) fn written(&self, dba: Dba, now: Micros) {
        if let Some(asked) = self.writing.lock().remove(&dba) {
            self.writes[bucket(now.since(asked))].fetch_add(1, Relaxed);
        }
    }

    /// The block has been given away before it was written: its next holder writes it.
    pub(super) fn write_void(&self, dba: Dba) {
        self.writing.lock().remove(&dba);
    }

    /// Nobody waits for writes any more: those who do ask anew in the new epoch.
    pub(super) fn writes_void(&self) {
        self.writing.lock().clear();
    }

    pub(super) fn received(&self, class: Class, queue_us: u32, process_us: u64) {
        let of = &self.received[class_idx(class)];
        of.messages.fetch_add(1, Relaxed);
        of.queue_us.fetch_add(u64::from(queue_us), Relaxed);
        of.process_us.fetch_add(process_us, Relaxed);
    }

    pub(super) fn sent(&self, with_next: bool) {
        let of = if with_next { &self.with_next } else { &self.directly };
        of.fetch_add(1, Relaxed);
    }

    #[must_use]
    pub fn cr(&self, what: CrCount) -> u64 {
        self.cr[what as usize].load(Relaxed)
    }

    /// Blocks sent in their newest version, by the time that users here and writes to disk kept
    /// them.
    #[must_use]
    pub fn pins(&self) -> [u64; SERVED_BUCKETS] {
        std::array::from_fn(|i| self.pins[i].load(Relaxed))
    }

    /// Those of them that waited for the log writer, by the time of that.
    #[must_use]
    pub fn flushes(&self) -> [u64; SERVED_BUCKETS] {
        std::array::from_fn(|i| self.flushes[i].load(Relaxed))
    }

    /// Blocks written because another instance's checkpoint needed them, by the time from its
    /// request until they were on disk.
    #[must_use]
    pub fn writes(&self) -> [u64; SERVED_BUCKETS] {
        std::array::from_fn(|i| self.writes[i].load(Relaxed))
    }

    #[must_use]
    pub fn messages(&self, class: Class) -> ReceivedTotals {
        let of = &self.received[class_idx(class)];
        ReceivedTotals {
            messages: of.messages.load(Relaxed),
            queue_us: of.queue_us.load(Relaxed),
            process_us: of.process_us.load(Relaxed),
        }
    }

    /// Messages that left at once, and those that went with a later one.
    #[must_use]
    pub fn messages_sent(&self) -> (u64, u64) {
        (self.directly.load(Relaxed), self.with_next.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use env::simulated::{SimConfig, SimWorld};
    use observe::{Observer, SessionKind};

    use super::*;

    #[test]
    fn a_wait_is_counted_in_the_column_of_its_length_and_in_the_statistics() {
        let world = SimWorld::new(1, SimConfig::default());
        let observer = Observer::new(world.env(1), 1);
        let ctx = observer.ctx(SessionKind::Background, "LMS0");
        let served = Served::default();
        for (pin_us, flush_us) in
            [(0, None), (99, None), (7, Some(0)), (100, Some(999)), (2_000_000, Some(1_000_000))]
        {
            let flushed = flush_us.is_some();
            let flush_us = flush_us.unwrap_or_default();
            let timings = Timings { pin_us, flush_us, ..Timings::default() };
            served.shipped(&ctx, &timings, flushed);
        }
        assert_eq!(served.pins(), [3, 1, 0, 0, 0, 1]);
        assert_eq!(served.flushes(), [1, 1, 0, 0, 0, 1], "who did not wait is in none");
        let counts = [
            (Stat::GcCurrentBlocksServed, 5),
            (Stat::GcCurrentPinTime, 2_000_206),
            (Stat::GcCurrentFlushes, 3),
            (Stat::GcCurrentFlushTime, 1_000_999),
        ];
        for (stat, count) in counts {
            assert_eq!(observer.stat(stat), count, "{stat}");
        }
        served.cr_flushed(&ctx, 7);
        served.cr_flushed(&ctx, 3);
        assert_eq!((served.cr(CrCount::Flushes), served.cr(CrCount::FlushMaxUs)), (2, 7));
        assert_eq!(observer.stat(Stat::GcCrFlushes), 2);
        assert_eq!(observer.stat(Stat::GcCrFlushTime), 10);
    }

    #[test]
    fn a_write_is_timed_from_the_first_request_and_only_if_it_is_done_here() {
        let served = Served::default();
        let [one, other] = [1, 2].map(|block| Dba { file: 4, block });
        served.write_asked(one, Micros(10));
        served.write_asked(one, Micros(5_000));
        served.write_asked(other, Micros(20));
        served.write_void(other);
        for dba in [one, one, other] {
            served.written(dba, Micros(5_010));
        }
        assert_eq!(served.writes(), [0, 0, 1, 0, 0, 0]);
    }
}
