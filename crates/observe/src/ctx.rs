//! What travels with every call: who works, in which environment, and how waits are named.
//!
//! What it promises: a future that is ready at once is no wait and costs nothing; any other is
//! shown while it lasts and counted when it ends, also when it is dropped half-way. Every await in
//! the kernel that can take time goes through one of these functions. What it must never do:
//! interrupt anything in [`Ctx::wait`]; only the functions that return an [`Interrupt`] end early.

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

/// Environment, session and observer of whoever works; cheap to clone.
#[derive(Clone)]
pub struct Ctx {
    pub env: Env,
    pub session: Arc<Session>,
    pub observer: Arc<Observer>,
}

impl Ctx {
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
            let before = self.session.cover(true);
            let polled = future.as_mut().poll(cx);
            self.session.cover(before);
            if polled.is_ready() {
                guard = None;
            } else {
                WaitGuard::pending(&mut guard, self, event, p);
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
        if self.session.is_covered() {
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
