//! Requests for enqueues: what `v$enqueue_statistics` counts beside the waits.
//!
//! What it promises: a request is counted when it is made, and once more when it has been granted
//! or given up, also by being dropped half-way. What it must never do: take a lock or allocate.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::events::WaitEvent;

/// What is asked for, and why; other enqueues are counted only where they are waited for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnqueueKind {
    /// A transaction's own, which nobody can refuse: it has begun to change something.
    Transaction,
    RowLock,
    AllocateItl,
    Table,
    User,
    /// The right to raise a segment's high-water mark, or to note room in it.
    HighWaterMark,
    /// The right to take values of a sequence into this instance's cache, or one that is in none.
    Sequence,
    /// The same of an ordered sequence, whose cache all instances have in common.
    OrderedSequence,
    /// The right to allot extents, or to give them back.
    Space,
}

/// How many there are.
const KINDS: usize = EnqueueKind::ALL.len();

impl EnqueueKind {
    pub const ALL: [EnqueueKind; 9] = [
        EnqueueKind::Transaction,
        EnqueueKind::RowLock,
        EnqueueKind::AllocateItl,
        EnqueueKind::Table,
        EnqueueKind::User,
        EnqueueKind::HighWaterMark,
        EnqueueKind::Sequence,
        EnqueueKind::OrderedSequence,
        EnqueueKind::Space,
    ];

    /// What a session waits for that does not get it.
    #[must_use]
    pub const fn event(self) -> Option<WaitEvent> {
        match self {
            EnqueueKind::Transaction => None,
            EnqueueKind::RowLock => Some(WaitEvent::EnqTxRowLock),
            EnqueueKind::AllocateItl => Some(WaitEvent::EnqTxAllocateItl),
            EnqueueKind::Table => Some(WaitEvent::EnqTm),
            EnqueueKind::User => Some(WaitEvent::EnqUl),
            EnqueueKind::HighWaterMark => Some(WaitEvent::EnqHw),
            EnqueueKind::Sequence => Some(WaitEvent::EnqSq),
            EnqueueKind::OrderedSequence => Some(WaitEvent::DfsLockHandle),
            EnqueueKind::Space => Some(WaitEvent::EnqTs),
        }
    }

    /// What is asked for by a session that would wait for this.
    #[must_use]
    pub fn of(event: WaitEvent) -> Option<EnqueueKind> {
        EnqueueKind::ALL.into_iter().find(|kind| kind.event() == Some(event))
    }

    const fn index(self) -> usize {
        self as usize
    }
}

/// What has come of requests.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct EnqueueTotals {
    pub requests: u64,
    pub granted: u64,
    pub failed: u64,
}

impl EnqueueTotals {
    /// Adds another sum.
    pub fn add(&mut self, other: &EnqueueTotals) {
        self.requests += other.requests;
        self.granted += other.granted;
        self.failed += other.failed;
    }
}

#[derive(Default)]
struct Live {
    requests: AtomicU64,
    granted: AtomicU64,
    failed: AtomicU64,
}

/// Live counters of a session.
#[derive(Default)]
pub struct LiveEnqueues([Live; KINDS]);

impl LiveEnqueues {
    /// Counts a request that is granted at once.
    pub(crate) fn count(&self, kind: EnqueueKind) {
        let live = &self.0[kind.index()];
        live.requests.fetch_add(1, Relaxed);
        live.granted.fetch_add(1, Relaxed);
    }

    /// Counts a request of one who will wait for `event`; it has failed unless it is said to have
    /// been granted.
    #[must_use]
    pub fn ask(&self, event: WaitEvent) -> AskedEnqueue<'_> {
        let live = EnqueueKind::of(event).map(|kind| &self.0[kind.index()]);
        if let Some(live) = live {
            live.requests.fetch_add(1, Relaxed);
        }
        AskedEnqueue { live }
    }

    fn totals(&self, kind: EnqueueKind) -> EnqueueTotals {
        let live = &self.0[kind.index()];
        EnqueueTotals {
            requests: live.requests.load(Relaxed),
            granted: live.granted.load(Relaxed),
            failed: live.failed.load(Relaxed),
        }
    }
}

/// A request that has been made.
pub struct AskedEnqueue<'a> {
    /// Where it is counted, until that is done.
    live: Option<&'a Live>,
}

impl AskedEnqueue<'_> {
    /// A request that is part of another, which is counted.
    #[must_use]
    pub fn uncounted() -> Self {
        AskedEnqueue { live: None }
    }

    /// The enqueue is there.
    pub fn granted(mut self) {
        if let Some(live) = self.live.take() {
            live.granted.fetch_add(1, Relaxed);
        }
    }
}

impl Drop for AskedEnqueue<'_> {
    fn drop(&mut self) {
        if let Some(live) = self.live.take() {
            live.failed.fetch_add(1, Relaxed);
        }
    }
}

/// Plain sums over sessions.
#[derive(Clone, Default, Debug)]
pub struct Enqueues([EnqueueTotals; KINDS]);

impl Enqueues {
    pub(crate) fn add_live(&mut self, live: &LiveEnqueues) {
        for kind in EnqueueKind::ALL {
            self.0[kind.index()].add(&live.totals(kind));
        }
    }

    pub(crate) fn add(&mut self, other: &Enqueues) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, part)| sum.add(part));
    }

    #[must_use]
    pub fn of(&self, kind: EnqueueKind) -> EnqueueTotals {
        self.0[kind.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_that_is_dropped_has_failed() {
        let live = LiveEnqueues::default();
        live.ask(WaitEvent::EnqTm).granted();
        drop(live.ask(WaitEvent::EnqTm));
        let waits = live.ask(WaitEvent::EnqTm);
        live.count(EnqueueKind::Transaction);
        drop(live.ask(WaitEvent::LogFileSync));
        let mut sums = Enqueues::default();
        sums.add_live(&live);
        let expected = EnqueueTotals { requests: 3, granted: 1, failed: 1 };
        assert_eq!(sums.of(EnqueueKind::Table), expected);
        waits.granted();
        sums.add(&sums.clone());
        let expected = EnqueueTotals { requests: 2, granted: 2, failed: 0 };
        assert_eq!(sums.of(EnqueueKind::Transaction), expected);
        assert_eq!(sums.of(EnqueueKind::User), EnqueueTotals::default());
        AskedEnqueue::uncounted().granted();
    }

    #[test]
    fn what_is_waited_for_under_an_event_is_counted_under_it() {
        for kind in EnqueueKind::ALL {
            assert!(kind.event().is_none_or(|event| EnqueueKind::of(event) == Some(kind)));
        }
    }
}
