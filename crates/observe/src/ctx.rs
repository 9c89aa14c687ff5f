//! What travels with every call: who works, in which environment, and how waits are named.
//!
//! What it promises: a future that is ready at once is no wait and costs nothing; any other is
//! shown while it lasts and counted when it ends, also when it is dropped half-way. Every await in
//! the kernel that can take time goes through one of these functions. What it must never do:
//! interrupt anything in [`Ctx::wait`]; only the functions that return an [`Interrupt`] end early.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use env::{BoxFuture, Elapsed, Env, Micros};

use crate::alert::AlertLevel;
use crate::cancel::{CancelWait, Interrupt};
use crate::events::WaitEvent;
use crate::observer::Observer;
use crate::session::Session;
use crate::stats::Stat;

/// Environment, session and observer of whoever works; cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    pub env: Env,
    pub session: Arc<Session>,
    pub observer: Arc<Observer>,
}

/// A wait that has begun; dropping it ends and counts it.
struct WaitGuard<'a> {
    ctx: &'a Ctx,
    event: WaitEvent,
    p: [u64; 3],
    since: Micros,
    timed_out: bool,
    /// What the session showed it under; 0: another wait was shown.
    token: u32,
}

impl<'a> WaitGuard<'a> {
    /// The future is pending: begins the wait, or goes on with it. A wait that could not be shown
    /// because one inside it was is shown as soon as that has ended.
    fn pending(guard: &mut Option<WaitGuard<'a>>, ctx: &'a Ctx, event: WaitEvent, p: [u64; 3]) {
        let guard = guard.get_or_insert_with(|| {
            let since = ctx.env.now();
            WaitGuard { ctx, event, p, since, timed_out: false, token: 0 }
        });
        if guard.token == 0 {
            guard.token = ctx.session.show(event, guard.p, guard.since);
        }
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let now = self.ctx.env.now();
        self.ctx.session.end(self.token, self.event, self.since, now, self.timed_out);
    }
}

/// Ends a wait whose future is not ready.
fn end_early(guard: &mut Option<WaitGuard<'_>>, timed_out: bool) {
    if let Some(guard) = guard {
        guard.timed_out = timed_out;
    }
    *guard = None;
}

/// What ends a wait early: the cancel flag and the statement's deadline. Made only once a wait has
/// begun.
struct Interrupts<'a> {
    cancel: CancelWait<'a>,
    deadline: Option<BoxFuture<'static, ()>>,
}

impl<'a> Interrupts<'a> {
    fn new(ctx: &'a Ctx) -> Interrupts<'a> {
        let flag = ctx.session.cancel_flag();
        let deadline = flag.deadline().map(|at| {
            let left_us = at.since(ctx.env.now());
            ctx.env.sleep(Duration::from_micros(left_us))
        });
        Interrupts { cancel: flag.wait(), deadline }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Interrupt> {
        if let Poll::Ready(interrupt) = Pin::new(&mut self.cancel).poll(cx) {
            return Poll::Ready(interrupt);
        }
        match self.deadline.as_mut().map(|d| d.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Interrupt::TimedOut),
            _ => Poll::Pending,
        }
    }
}

impl Ctx {
    /// Waits for `future` as `event`.
    pub async fn wait<T>(
        &self,
        event: WaitEvent,
        p: [u64; 3],
        future: impl Future<Output = T>,
    ) -> T {
        self.wait_relabel(event, p, async { (future.await, event) }).await
    }

    /// Waits for `future` as `shown`; its result names the event under which the wait is counted.
    /// (The field's way with `gc cr request`: what kind of wait it was is known only afterwards.)
    pub async fn wait_relabel<T>(
        &self,
        shown: WaitEvent,
        p: [u64; 3],
        future: impl Future<Output = (T, WaitEvent)>,
    ) -> T {
        let mut future = pin!(future);
        let mut guard: Option<WaitGuard<'_>> = None;
        poll_fn(|cx| match future.as_mut().poll(cx) {
            Poll::Ready((out, counted)) => {
                if let Some(guard) = &mut guard {
                    guard.event = counted;
                }
                guard = None;
                Poll::Ready(out)
            }
            Poll::Pending => {
                WaitGuard::pending(&mut guard, self, shown, p);
                Poll::Pending
            }
        })
        .await
    }

    /// Like [`Ctx::wait`], but ends early when the session is cancelled or terminated or the
    /// statement's deadline passes; the future is dropped then.
    ///
    /// # Errors
    /// The reason for ending early. A future that is ready wins over an interrupt.
    pub async fn wait_or_cancel<T>(
        &self,
        event: WaitEvent,
        p: [u64; 3],
        future: impl Future<Output = T>,
    ) -> Result<T, Interrupt> {
        self.wait_relabel_or_cancel(event, p, async { (future.await, event) }).await
    }

    /// [`Ctx::wait_relabel`] that ends early like [`Ctx::wait_or_cancel`].
    ///
    /// # Errors
    /// The reason for ending early.
    pub async fn wait_relabel_or_cancel<T>(
        &self,
        shown: WaitEvent,
        p: [u64; 3],
        future: impl Future<Output = (T, WaitEvent)>,
    ) -> Result<T, Interrupt> {
        let mut future = pin!(future);
        let mut interrupts: Option<Interrupts<'_>> = None;
        let mut guard: Option<WaitGuard<'_>> = None;
        poll_fn(|cx| {
            if let Poll::Ready((out, counted)) = future.as_mut().poll(cx) {
                if let Some(guard) = &mut guard {
                    guard.event = counted;
                }
                guard = None;
                return Poll::Ready(Ok(out));
            }
            WaitGuard::pending(&mut guard, self, shown, p);
            let polled = interrupts.get_or_insert_with(|| Interrupts::new(self)).poll(cx);
            polled.map(|interrupt| {
                end_early(&mut guard, interrupt == Interrupt::TimedOut);
                Err(interrupt)
            })
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
                end_early(&mut guard, true);
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
                end_early(&mut guard, interrupt == Interrupt::TimedOut);
                return Poll::Ready(Err(interrupt));
            }
            sleep.as_mut().poll(cx).map(|()| {
                end_early(&mut guard, true);
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
        self.session.totals.add_wait(event, us, false);
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
