//! Requests for enqueues: the one place where they are counted, for `v$enqueue_statistics` as for
//! the statistics `enqueue requests`, `enqueue conversions` and `enqueue releases`.
//!
//! What it promises: a request is counted when it is made, once more when it has been granted or
//! given up, also by being dropped half-way, and what was granted when it is let go, for the
//! session that has asked. Who asks for more of what it has converts it, and has one to let go; who
//! asks for what it has asks for nothing. So a request that was neither given up nor let go is
//! under way or in use. What it must never do: take a lock or allocate.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ctx::Ctx;
use crate::events::WaitEvent;
use crate::session::Session;

/// What is asked for, and why.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EnqueueKind {
    /// A transaction's own, which nobody can refuse: it has begun to change something.
    Transaction,
    /// The end of a transaction that has locked a row, has a key in flight, or a place in a list;
    /// it has come when the request is granted, and is let go at once. So is that of the next.
    RowLock,
    AllocateItl,
    /// The end of another session's split of an index block.
    IndexSplit,
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
    pub const ALL: [EnqueueKind; 10] = [
        EnqueueKind::Transaction,
        EnqueueKind::RowLock,
        EnqueueKind::AllocateItl,
        EnqueueKind::IndexSplit,
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
            EnqueueKind::IndexSplit => Some(WaitEvent::EnqTxIndex),
            EnqueueKind::Table => Some(WaitEvent::EnqTm),
            EnqueueKind::User => Some(WaitEvent::EnqUl),
            EnqueueKind::HighWaterMark => Some(WaitEvent::EnqHw),
            EnqueueKind::Sequence => Some(WaitEvent::EnqSq),
            EnqueueKind::OrderedSequence => Some(WaitEvent::DfsLockHandle),
            EnqueueKind::Space => Some(WaitEvent::EnqTs),
        }
    }

    /// What is asked for by a session that would wait for this; `None`: it is no wait for an
    /// enqueue.
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
    /// Requests for more of what was there already; they are none of `requests`.
    pub conversions: u64,
    /// Requests and conversions that were granted, and that were given up.
    pub granted: u64,
    pub failed: u64,
    /// What was granted, once each, and has been let go.
    pub releases: u64,
}

impl EnqueueTotals {
    /// Adds another sum.
    pub fn add(&mut self, other: &EnqueueTotals) {
        self.requests += other.requests;
        self.conversions += other.conversions;
        self.granted += other.granted;
        self.failed += other.failed;
        self.releases += other.releases;
    }
}

#[derive(Default)]
struct Live {
    requests: AtomicU64,
    conversions: AtomicU64,
    granted: AtomicU64,
    failed: AtomicU64,
    releases: AtomicU64,
}

/// Live counters of a session.
#[derive(Default)]
pub struct LiveEnqueues([Live; KINDS]);

impl LiveEnqueues {
    fn of(&self, kind: EnqueueKind) -> &Live {
        &self.0[kind.index()]
    }

    fn totals(&self, kind: EnqueueKind) -> EnqueueTotals {
        let live = self.of(kind);
        EnqueueTotals {
            requests: live.requests.load(Relaxed),
            conversions: live.conversions.load(Relaxed),
            granted: live.granted.load(Relaxed),
            failed: live.failed.load(Relaxed),
            releases: live.releases.load(Relaxed),
        }
    }

    /// Over all kinds.
    pub(crate) fn all(&self) -> EnqueueTotals {
        let mut sum = EnqueueTotals::default();
        EnqueueKind::ALL.into_iter().for_each(|kind| sum.add(&self.totals(kind)));
        sum
    }
}

impl Ctx {
    /// Counts a request of one who will wait for `event`; it has failed unless it is said to have
    /// been granted.
    #[must_use]
    pub fn ask_enqueue(&self, event: WaitEvent) -> AskedEnqueue<'_> {
        self.asked_enqueue(EnqueueKind::of(event), false)
    }

    /// The same of one that has the enqueue in a lower mode, and goes on to have it once.
    #[must_use]
    pub fn ask_conversion(&self, event: WaitEvent) -> AskedEnqueue<'_> {
        self.asked_enqueue(EnqueueKind::of(event), true)
    }

    /// Counts an enqueue that nobody can refuse.
    #[must_use]
    pub fn take_enqueue(&self, kind: EnqueueKind) -> HeldEnqueue {
        self.asked_enqueue(Some(kind), false).granted()
    }

    fn asked_enqueue(&self, kind: Option<EnqueueKind>, converts: bool) -> AskedEnqueue<'_> {
        let asked = kind.map(|kind| Asked { session: &self.session, kind, converts });
        if let Some(asked) = &asked {
            let live = asked.live();
            let made = if converts { &live.conversions } else { &live.requests };
            made.fetch_add(1, Relaxed);
        }
        AskedEnqueue { asked }
    }
}

struct Asked<'a> {
    session: &'a Arc<Session>,
    kind: EnqueueKind,
    converts: bool,
}

impl Asked<'_> {
    fn live(&self) -> &Live {
        self.session.totals().enqueues.of(self.kind)
    }
}

/// A request that has been made.
pub struct AskedEnqueue<'a> {
    /// Whose it is, until it is known what has come of it.
    asked: Option<Asked<'a>>,
}

impl AskedEnqueue<'_> {
    /// A request that is part of another, which is counted.
    #[must_use]
    pub fn uncounted() -> Self {
        AskedEnqueue { asked: None }
    }

    /// The enqueue is there, until what this gives is dropped.
    #[must_use]
    pub fn granted(mut self) -> HeldEnqueue {
        let Some(asked) = self.asked.take() else { return HeldEnqueue::uncounted() };
        asked.live().granted.fetch_add(1, Relaxed);
        let counts = !asked.converts;
        HeldEnqueue { held: counts.then(|| (Arc::clone(asked.session), asked.kind)) }
    }
}

impl Drop for AskedEnqueue<'_> {
    fn drop(&mut self) {
        if let Some(asked) = self.asked.take() {
            asked.live().failed.fetch_add(1, Relaxed);
        }
    }
}

/// An enqueue that has been granted; dropped, it has been let go. Its session lasts as long: it is
/// not dropped under a latch.
pub struct HeldEnqueue {
    held: Option<(Arc<Session>, EnqueueKind)>,
}

impl HeldEnqueue {
    /// One that is part of another, which is counted.
    #[must_use]
    pub fn uncounted() -> Self {
        HeldEnqueue { held: None }
    }
}

impl Drop for HeldEnqueue {
    fn drop(&mut self) {
        if let Some((session, kind)) = self.held.take() {
            session.totals().enqueues.of(kind).releases.fetch_add(1, Relaxed);
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
    use crate::tests::world;
    use crate::{SessionKind, Stat};

    #[test]
    fn a_request_that_is_dropped_has_failed_and_what_was_granted_is_let_go_once() {
        let (_, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let of = |kind| observer.enqueues().of(kind);
        let held = ctx.ask_enqueue(WaitEvent::EnqTm).granted();
        drop(ctx.ask_enqueue(WaitEvent::EnqTm));
        let waits = ctx.ask_enqueue(WaitEvent::EnqTm);
        let own = ctx.take_enqueue(EnqueueKind::Transaction);
        drop(ctx.ask_enqueue(WaitEvent::LogFileSync).granted());
        let expected = EnqueueTotals { requests: 3, granted: 1, failed: 1, ..Default::default() };
        assert_eq!(of(EnqueueKind::Table), expected);
        drop(waits.granted());
        // More of what is held: one lock, let go once.
        drop(ctx.ask_conversion(WaitEvent::EnqTm).granted());
        drop(ctx.ask_conversion(WaitEvent::EnqTm));
        let expected =
            EnqueueTotals { requests: 3, conversions: 2, granted: 3, failed: 2, releases: 1 };
        assert_eq!(of(EnqueueKind::Table), expected);
        drop((held, own));
        let expected = EnqueueTotals { releases: 2, ..expected };
        assert_eq!(of(EnqueueKind::Table), expected);
        assert_eq!(of(EnqueueKind::User), EnqueueTotals::default());
        drop(AskedEnqueue::uncounted().granted());
        let own = EnqueueTotals { requests: 1, granted: 1, releases: 1, ..Default::default() };
        assert_eq!(of(EnqueueKind::Transaction), own);
    }

    #[test]
    fn the_statistics_are_the_sums_over_kinds_and_over_sessions() {
        let (_, observer) = world();
        let one = observer.ctx(SessionKind::User, "psql");
        let other = observer.ctx(SessionKind::Background, "SMON");
        for kind in EnqueueKind::ALL {
            drop(one.take_enqueue(kind));
        }
        let held = other.ask_enqueue(WaitEvent::EnqHw).granted();
        drop(other.ask_conversion(WaitEvent::EnqUl).granted());
        one.record_wait(WaitEvent::EnqTxIndex, 7);
        other.record_wait(WaitEvent::DfsLockHandle, 7);
        other.record_wait(WaitEvent::LibraryCacheLock, 7);
        let names = [
            Stat::EnqueueRequests,
            Stat::EnqueueConversions,
            Stat::EnqueueReleases,
            Stat::EnqueueWaits,
        ];
        let of = |ctx: &Ctx| names.map(|stat| ctx.session.totals().stat(stat));
        let kinds = EnqueueKind::ALL.len() as u64;
        assert_eq!((of(&one), of(&other)), ([kinds, 0, kinds, 1], [1, 1, 0, 1]));
        assert_eq!(names.map(|stat| observer.stat(stat)), [kinds + 1, 1, kinds, 2]);
        // What is held outlasts the handle, and is counted for its session all the same.
        drop((one, other));
        drop(held);
        assert_eq!(names.map(|stat| observer.stat(stat)), [kinds + 1, 1, kinds + 1, 2]);
        let all = observer.enqueues();
        let sums = EnqueueKind::ALL.map(|kind| all.of(kind));
        assert_eq!(sums.iter().map(|of| of.requests).sum::<u64>(), kinds + 1);
        assert_eq!(sums.iter().map(|of| of.releases).sum::<u64>(), kinds + 1);
        let waits =
            |row: &crate::SystemEventRow| EnqueueKind::of(row.event).map_or(0, |_| row.all.waits);
        assert_eq!(observer.system_events().iter().map(waits).sum::<u64>(), 2);
    }

    #[test]
    fn every_wait_for_an_enqueue_is_one_of_a_kind() {
        for kind in EnqueueKind::ALL {
            assert!(kind.event().is_none_or(|event| EnqueueKind::of(event) == Some(kind)));
        }
        for &event in WaitEvent::ALL {
            let is_named = event.name().starts_with("enq: ") || event == WaitEvent::DfsLockHandle;
            assert_eq!(EnqueueKind::of(event).is_some(), is_named, "{}", event.name());
        }
    }
}
