//! Counters of waits and statistics: the live ones of a session, and plain sums of them.
//!
//! What it promises: counting is a few relaxed atomic additions on memory that only this session
//! writes, so sessions never fight over a cache line. What it must never do: take a lock or
//! allocate on a path that has run before.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::enqueues::{EnqueueKind, Enqueues, LiveEnqueues};
use crate::events::{EVENT_COUNT, WaitClass, WaitEvent};
use crate::stats::{STAT_COUNT, Stat};

/// Buckets of a wait histogram: bucket `i` counts waits below `2^i` µs (and not below the one
/// before); the last one has no upper bound.
pub const HISTOGRAM_BUCKETS: usize = 27;

/// The bucket of a wait of `us` microseconds.
#[must_use]
pub fn bucket(us: u64) -> usize {
    let bits = (u64::BITS - us.leading_zeros()) as usize;
    bits.min(HISTOGRAM_BUCKETS - 1)
}

/// Upper bound (exclusive) of a bucket in µs; `None` for the last.
#[must_use]
pub fn bucket_limit_us(bucket: usize) -> Option<u64> {
    (bucket + 1 < HISTOGRAM_BUCKETS).then(|| 1 << bucket)
}

/// Live counters of one event in one session.
#[derive(Default)]
struct LiveEvent {
    timeouts: AtomicU64,
    time_us: AtomicU64,
    max_us: AtomicU64,
    /// Its sum is the number of waits: one atomic addition less.
    histogram: [AtomicU64; HISTOGRAM_BUCKETS],
}

/// Position of the sum over all classes in [`LiveTotals::waited`].
pub(crate) const WAITED_ALL: usize = 4;

/// Position of a class in [`LiveTotals::waited`], for those that statements are charged with.
const fn waited_class(class: WaitClass) -> Option<usize> {
    match class {
        WaitClass::Application => Some(0),
        WaitClass::Concurrency => Some(1),
        WaitClass::Cluster => Some(2),
        WaitClass::UserIo => Some(3),
        _ => None,
    }
}

/// Live counters of a session. The table of events is allocated at the first wait, each event's
/// counters at its first: an idle session stays small.
pub struct LiveTotals {
    events: OnceLock<Box<[OnceLock<Box<LiveEvent>>]>>,
    stats: Box<[AtomicU64]>,
    /// Time of the waits that were shown, in µs: application, concurrency, cluster, user I/O, and
    /// of all classes. Waits inside others, and those of workers beside the session, are in what
    /// was shown.
    pub(crate) waited: [AtomicU64; WAITED_ALL + 1],
    pub(crate) enqueues: LiveEnqueues,
}

impl Default for LiveTotals {
    fn default() -> Self {
        LiveTotals {
            events: OnceLock::new(),
            stats: (0..STAT_COUNT).map(|_| AtomicU64::new(0)).collect(),
            waited: Default::default(),
            enqueues: LiveEnqueues::default(),
        }
    }
}

impl LiveTotals {
    /// Counts the time of a wait that was shown.
    pub(crate) fn add_waited(&self, event: WaitEvent, us: u64) {
        if let Some(class) = waited_class(event.class()) {
            self.waited[class].fetch_add(us, Relaxed);
        }
        self.waited[WAITED_ALL].fetch_add(us, Relaxed);
    }

    /// Counts one finished wait.
    pub fn add_wait(&self, event: WaitEvent, us: u64, timed_out: bool) {
        let table = self.events.get_or_init(|| (0..EVENT_COUNT).map(|_| OnceLock::new()).collect());
        let live = table[event.index()].get_or_init(Box::default);
        live.time_us.fetch_add(us, Relaxed);
        if timed_out {
            live.timeouts.fetch_add(1, Relaxed);
        }
        if us > live.max_us.load(Relaxed) {
            live.max_us.fetch_max(us, Relaxed);
        }
        live.histogram[bucket(us)].fetch_add(1, Relaxed);
        if EnqueueKind::of(event).is_some() {
            self.add_stat(Stat::EnqueueWaits, 1);
        }
    }

    /// Raises a statistic.
    pub fn add_stat(&self, stat: Stat, n: u64) {
        self.stats[stat.index()].fetch_add(n, Relaxed);
    }

    /// Says how much there is now of what [`Stat::is_gauge`] says.
    pub fn set_gauge(&self, stat: Stat, n: u64) {
        debug_assert!(stat.is_gauge(), "{stat} is a counter");
        self.stats[stat.index()].store(n, Relaxed);
    }

    /// A statistic. What follows from others is not counted a second time.
    #[inline]
    #[must_use]
    pub fn stat(&self, stat: Stat) -> u64 {
        let counted = |stat: Stat| self.stats[stat.index()].load(Relaxed);
        let waited = |class| waited_class(class).map_or(0, |at| self.waited[at].load(Relaxed));
        match stat {
            Stat::SessionLogicalReads => counted(Stat::ConsistentGets) + counted(Stat::DbBlockGets),
            Stat::ParseTimeElapsed => counted(Stat::HardParseTime),
            Stat::EnqueueRequests => self.enqueues.all().requests,
            Stat::EnqueueConversions => self.enqueues.all().conversions,
            Stat::EnqueueReleases => self.enqueues.all().releases,
            Stat::ApplicationWaitTime => waited(WaitClass::Application),
            Stat::ConcurrencyWaitTime => waited(WaitClass::Concurrency),
            Stat::ClusterWaitTime => waited(WaitClass::Cluster),
            Stat::UserIoWaitTime => waited(WaitClass::UserIo),
            stat => counted(stat),
        }
    }

    /// Totals of one event; all 0 if it never happened.
    #[must_use]
    pub fn event(&self, event: WaitEvent) -> EventTotals {
        let mut sum = EventTotals::default();
        if let Some(live) = self.live(event) {
            sum.add_live(live);
        }
        sum
    }

    fn live(&self, event: WaitEvent) -> Option<&LiveEvent> {
        self.events.get().and_then(|t| t[event.index()].get()).map(|b| &**b)
    }
}

/// Sums of one event.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct EventTotals {
    pub waits: u64,
    pub timeouts: u64,
    pub time_us: u64,
    pub max_us: u64,
    pub histogram: [u64; HISTOGRAM_BUCKETS],
}

impl EventTotals {
    fn add_live(&mut self, live: &LiveEvent) {
        self.timeouts += live.timeouts.load(Relaxed);
        self.time_us += live.time_us.load(Relaxed);
        self.max_us = self.max_us.max(live.max_us.load(Relaxed));
        for (sum, part) in self.histogram.iter_mut().zip(&live.histogram) {
            let count = part.load(Relaxed);
            *sum += count;
            self.waits += count;
        }
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &EventTotals) {
        self.waits += other.waits;
        self.timeouts += other.timeouts;
        self.time_us += other.time_us;
        self.max_us = self.max_us.max(other.max_us);
        for (sum, part) in self.histogram.iter_mut().zip(&other.histogram) {
            *sum += *part;
        }
    }
}

/// Plain sums over sessions: of those that have ended, or of all.
#[derive(Clone, Debug)]
pub struct Totals {
    pub events: Vec<EventTotals>,
    pub stats: Vec<u64>,
    pub enqueues: Enqueues,
}

impl Default for Totals {
    fn default() -> Self {
        Totals {
            events: vec![EventTotals::default(); EVENT_COUNT],
            stats: vec![0; STAT_COUNT],
            enqueues: Enqueues::default(),
        }
    }
}

impl Totals {
    /// Adds a session's counters.
    pub fn add_live(&mut self, live: &LiveTotals) {
        for &event in WaitEvent::ALL {
            if let Some(part) = live.live(event) {
                self.events[event.index()].add_live(part);
            }
        }
        for (sum, &stat) in self.stats.iter_mut().zip(Stat::ALL) {
            *sum += live.stat(stat);
        }
        self.enqueues.add_live(&live.enqueues);
    }

    /// Adds the counters of a session that has ended: of what says how much there is now it has
    /// none any more.
    pub fn add_ended(&mut self, live: &LiveTotals) {
        self.add_live(live);
        for (sum, stat) in self.stats.iter_mut().zip(Stat::ALL) {
            if stat.is_gauge() {
                *sum = 0;
            }
        }
    }
}
