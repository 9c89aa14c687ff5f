//! What travels with every call: who works, in which environment, and how waits are named.
//!
//! What it promises: a future that is ready at once is no wait and costs nothing; any other is
//! shown while it lasts and counted when it ends, also when it is dropped half-way. Every await in
//! the kernel that can take time goes through one of these functions. What it must never do:
//! interrupt anything in [`Ctx::wait`]; only the functions that return an [`Interrupt`] end early.

use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use env::{BoxFuture, Elapsed, Env};

use crate::alert::AlertLevel;
use crate::cancel::Interrupt;
use crate::events::WaitEvent;
use crate::observer::Observer;
use crate::session::Session;
use crate::stats::Stat;
use crate::waiting::{AsShown, AsTold, Interrupts, Told, WaitGuard, Waiting, WaitingOrCancel};

thread_local! {
    /// The session whose work on this thread is part of one wait as a whole, by its address (0:
    /// none's), and the µs of waits inside of it that code has measured itself. Workers beside the
    /// session are on other threads, or polled by themselves: what they wait for is their own.
    static COVER: Cell<(usize, u64)> = const { Cell::new((0, 0)) };
}

/// Does a step of work that is part of one wait of a session's as a whole; with the µs of waits
/// inside of it that code has measured itself.
fn covered<T>(session: &Arc<Session>, step: impl FnOnce() -> T) -> (T, u64) {
    /// What was before comes back, also where the step panics.
    struct Before((usize, u64));
    impl Drop for Before {
        fn drop(&mut self) {
            COVER.set(self.0);
        }
    }
    let before = Before(COVER.replace((address(session), 0)));
    let out = step();
    let (_, measured_us) = COVER.get();
    drop(before);
    (out, measured_us)
}

fn address(session: &Arc<Session>) -> usize {
    Arc::as_ptr(session) as usize
}

/// Environment, session and observer of whoever works; cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    pub env: Env,
    pub session: Arc<Session>,
    pub observer: Arc<Observer>,
}

impl Ctx {
    /// Whether what waits now is part of one wait as a whole.
    pub(crate) fn is_covered(&self) -> bool {
        COVER.get().0 == address(&self.session)
    }

    /// Waits for `future` as `event`.
    pub fn wait<F: Future>(
        &self,
        event: WaitEvent,
        p: [u64; 3],
        future: F,
    ) -> Waiting<'_, F, AsShown> {
        Waiting::new(self, event, p, future)
    }

    /// Waits for `future` as `shown`; its result names the event under which the wait is counted.
    /// (The field's way with `gc cr request`: what kind of wait it was is known only afterwards.)
    pub fn wait_relabel<T, W: Into<Told>, F: Future<Output = (T, W)>>(
        &self,
        shown: WaitEvent,
        p: [u64; 3],
        future: F,
    ) -> Waiting<'_, F, AsTold> {
        Waiting::new(self, shown, p, future)
    }

    /// Like [`Ctx::wait`], but ends early when the session is cancelled or terminated or the
    /// statement's deadline passes; the future is dropped with what this gives. Its error is the
    /// reason for ending early. A future that is ready wins over an interrupt.
    pub fn wait_or_cancel<F: Future>(
        &self,
        event: WaitEvent,
        p: [u64; 3],
        future: F,
    ) -> WaitingOrCancel<'_, F, AsShown> {
        WaitingOrCancel::new(self, event, p, future)
    }

    /// [`Ctx::wait_relabel`] that ends early like [`Ctx::wait_or_cancel`].
    pub fn wait_relabel_or_cancel<T, W: Into<Told>, F: Future<Output = (T, W)>>(
        &self,
        shown: WaitEvent,
        p: [u64; 3],
        future: F,
    ) -> WaitingOrCancel<'_, F, AsTold> {
        WaitingOrCancel::new(self, shown, p, future)
    }

    /// Like [`Ctx::wait`], for work that is one wait as a whole wherever it has to wait: waits
    /// inside it are shown, traced and counted as this one. Work that never waits is not counted.
    pub async fn wait_over<T>(
        &self,
        event: WaitEvent,
        p: [u64; 3],
        future: impl Future<Output = T>,
    ) -> T {
        let mut future = pin!(future);
        let mut guard: Option<WaitGuard<'_>> = None;
        poll_fn(|cx| {
            let (polled, measured_us) = covered(&self.session, || future.as_mut().poll(cx));
            // What was measured inside of it is known of nowhere else.
            let is_wait = polled.is_pending() || measured_us > 0;
            if is_wait && (guard.is_some() || !self.is_covered()) {
                WaitGuard::pending_since(&mut guard, self, event, p, measured_us);
            } else if measured_us > 0 {
                self.record_wait_at(event, p, measured_us);
            }
            if polled.is_ready() {
                guard = None;
            }
            polled
        })
        .await
    }

    /// Waits for `future` as `event`, at most `limit`; counted as a timeout when that passes.
    ///
    /// # Errors
    /// [`Elapsed`] when `limit` passes first; the future is dropped then.
    pub async fn wait_for<T>(
        &self,
        event: WaitEvent,
        p: [u64; 3],
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Result<T, Elapsed> {
        let mut future = pin!(future);
        let mut sleep: Option<BoxFuture<'static, ()>> = None;
        let mut guard: Option<WaitGuard<'_>> = None;
        poll_fn(|cx| {
            if let Poll::Ready(out) = future.as_mut().poll(cx) {
                guard = None;
                return Poll::Ready(Ok(out));
            }
            WaitGuard::pending(&mut guard, self, event, p);
            sleep.get_or_insert_with(|| self.env.sleep(limit)).as_mut().poll(cx).map(|()| {
                WaitGuard::end_early(&mut guard, true);
                Err(Elapsed)
            })
        })
        .await
    }

    /// [`Ctx::wait_or_cancel`] with a limit of its own, such as `lock_timeout`.
    ///
    /// # Errors
    /// The reason for ending early; inside it [`Elapsed`] when `limit` passed.
    pub async fn wait_for_or_cancel<T>(
        &self,
        event: WaitEvent,
        p: [u64; 3],
        limit: Duration,
        future: impl Future<Output = T>,
    ) -> Result<Result<T, Elapsed>, Interrupt> {
        let mut future = pin!(future);
        let mut ends: Option<(Interrupts<'_>, BoxFuture<'static, ()>)> = None;
        let mut guard: Option<WaitGuard<'_>> = None;
        poll_fn(|cx| {
            if let Poll::Ready(out) = future.as_mut().poll(cx) {
                guard = None;
                return Poll::Ready(Ok(Ok(out)));
            }
            WaitGuard::pending(&mut guard, self, event, p);
            let (interrupts, sleep) =
                ends.get_or_insert_with(|| (Interrupts::new(self), self.env.sleep(limit)));
            if let Poll::Ready(interrupt) = interrupts.poll(cx) {
                WaitGuard::end_early(&mut guard, interrupt == Interrupt::TimedOut);
                return Poll::Ready(Err(interrupt));
            }
            sleep.as_mut().poll(cx).map(|()| {
                WaitGuard::end_early(&mut guard, true);
                Ok(Err(Elapsed))
            })
        })
        .await
    }

    /// Sleeps as `event` (an idle one, as a rule).
    pub async fn sleep(&self, event: WaitEvent, duration: Duration) {
        let us = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        self.wait(event, [us, 0, 0], self.env.sleep(duration)).await;
    }

    /// Counts a wait that code measured itself and that no future stands for (a blocking call).
    pub fn record_wait(&self, event: WaitEvent, us: u64) {
        self.record_wait_at(event, [0; 3], us);
    }

    /// As [`Ctx::record_wait`], with the event's parameters.
    pub fn record_wait_at(&self, event: WaitEvent, p: [u64; 3], us: u64) {
        if self.is_covered() {
            COVER.with(|cover| {
                let (whose, measured_us) = cover.get();
                cover.set((whose, measured_us + us));
            });
            return;
        }
        self.session.totals.add_wait(event, us, false);
        self.session.totals.add_waited(event, us);
        if self.traced() {
            self.trace_wait(event, p, us, self.env.now());
        }
    }

    /// For long work without waits: whether it should end.
    ///
    /// # Errors
    /// The reason for ending.
    pub fn check_interrupt(&self) -> Result<(), Interrupt> {
        let flag = self.session.cancel_flag();
        if let Some(interrupt) = flag.requested() {
            return Err(interrupt);
        }
        match flag.deadline() {
            Some(at) if self.env.now() >= at => Err(Interrupt::TimedOut),
            _ => Ok(()),
        }
    }

    /// Raises a statistic of this session.
    pub fn bump(&self, stat: Stat, n: u64) {
        self.session.totals.add_stat(stat, n);
    }

    /// Writes to the alert log.
    pub fn alert(&self, level: AlertLevel, text: impl Into<String>) {
        self.observer.alert(level, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{at, poll, world};
    use crate::{EventTotals, SessionKind};

    #[test]
    fn a_wait_over_others_is_shown_in_their_place() {
        let (clock, observer) = world();
        let ctx = observer.ctx(SessionKind::User, "psql");
        let inner = async {
            ctx.wait(WaitEvent::DbFileSequentialRead, [1, 2, 1], at(&clock, 10, ())).await;
            ctx.record_wait(WaitEvent::DbFileScatteredRead, 7);
            ctx.wait(WaitEvent::LogFileSync, [0; 3], at(&clock, 30, ())).await;
        };
        let mut outer = pin!(ctx.wait_over(WaitEvent::RowCacheLock, [13, 0, 5], inner));
        for us in [10, 20] {
            assert!(poll(outer.as_mut()).is_pending());
            let view = ctx.session.wait_view(ctx.env.now());
            assert_eq!((view.waiting, view.event), (true, Some(WaitEvent::RowCacheLock)));
            clock.advance(us);
        }
        assert!(poll(outer.as_mut()).is_ready());
        assert!(!ctx.session.wait_view(ctx.env.now()).waiting);
        assert_eq!(ctx.session.totals().event(WaitEvent::RowCacheLock).time_us, 30);
        // Each microsecond is counted once.
        for inside in [
            WaitEvent::DbFileSequentialRead,
            WaitEvent::DbFileScatteredRead,
            WaitEvent::LogFileSync,
        ] {
            assert_eq!(ctx.session.totals().event(inside), EventTotals::default(), "{inside}");
        }
        // Waits that code has measured, with no other: they are this one too.
        let mut measured = pin!(ctx.wait_over(WaitEvent::LibraryCacheLock, [0; 3], async {
            ctx.record_wait(WaitEvent::DbFileScatteredRead, 4);
            ctx.record_wait(WaitEvent::DbFileScatteredRead, 5);
        }));
        assert!(poll(measured.as_mut()).is_ready());
        let whole = ctx.session.totals().event(WaitEvent::LibraryCacheLock);
        assert_eq!((whole.waits, whole.time_us), (1, 9));
        assert_eq!(ctx.session.totals().event(WaitEvent::DbFileScatteredRead).waits, 0);
        // Another session's on the same thread is its own.
        let other = observer.ctx(SessionKind::Background, "LMS0");
        let mut beside = pin!(ctx.wait_over(WaitEvent::LibraryCacheLock, [0; 3], async {
            other.wait(WaitEvent::LogFileSync, [0; 3], at(&clock, 60, ())).await;
        }));
        assert!(poll(beside.as_mut()).is_pending());
        clock.advance(60);
        assert!(poll(beside.as_mut()).is_ready());
        assert_eq!(other.session.totals().event(WaitEvent::LogFileSync).waits, 1);
        // Work that never waits is no wait, and those behind it are shown again.
        let mut ready = pin!(ctx.wait_over(WaitEvent::RowCacheLock, [13, 0, 5], async {}));
        assert!(poll(ready.as_mut()).is_ready());
        assert_eq!(ctx.session.totals().event(WaitEvent::RowCacheLock).waits, 1);
        let mut next = pin!(ctx.wait(WaitEvent::LogFileSync, [0; 3], at(&clock, 400, ())));
        assert!(poll(next.as_mut()).is_pending());
        let view = ctx.session.wait_view(ctx.env.now());
        assert_eq!((view.waiting, view.event), (true, Some(WaitEvent::LogFileSync)));
    }
}
