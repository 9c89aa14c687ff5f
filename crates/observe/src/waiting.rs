//! The futures that name a wait.
//!
//! They are written by hand, not as async functions: such a function holds the future it is given
//! several times over, and what waits is moved about with every call above it.

use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use env::{BoxFuture, Micros};
use pin_project_lite::pin_project;

use crate::cancel::{CancelWait, Interrupt};
use crate::ctx::Ctx;
use crate::events::WaitEvent;

/// A wait that has begun; dropping it ends and counts it.
pub(crate) struct WaitGuard<'a> {
    ctx: &'a Ctx,
    event: WaitEvent,
    p: [u64; 3],
    since: Micros,
    /// When it ended; `None`: now.
    until: Option<Micros>,
    /// As in [`Told`].
    served_by: Option<u8>,
    timed_out: bool,
    /// What the session showed it under; 0: another wait was shown.
    token: u32,
}

impl<'a> WaitGuard<'a> {
    /// The future is pending: begins the wait, or goes on with it. A wait that could not be shown
    /// because one inside it was is shown as soon as that has ended. What is part of another wait
    /// ([`Ctx::wait_over`]) is none of its own: the same time would be counted twice.
    pub(crate) fn pending(
        guard: &mut Option<WaitGuard<'a>>,
        ctx: &'a Ctx,
        event: WaitEvent,
        p: [u64; 3],
    ) {
        if guard.is_none() && ctx.is_covered() {
            return;
        }
        WaitGuard::pending_since(guard, ctx, event, p, 0);
    }

    /// The same of a wait that has lasted for some time.
    pub(crate) fn pending_since(
        guard: &mut Option<WaitGuard<'a>>,
        ctx: &'a Ctx,
        event: WaitEvent,
        p: [u64; 3],
        lasted_us: u64,
    ) {
        let guard = guard.get_or_insert_with(|| {
            let since = Micros(ctx.env.now().0.saturating_sub(lasted_us));
            let (until, served_by) = (None, None);
            WaitGuard { ctx, event, p, since, until, served_by, timed_out: false, token: 0 }
        });
        if guard.token == 0 {
            guard.token = ctx.session.show(event, guard.p, guard.since);
        }
    }

    /// The future is ready: the wait, if there was one, is counted as told.
    fn end(guard: &mut Option<WaitGuard<'a>>, told: Told) {
        if let Some(guard) = guard {
            guard.event = told.event;
            guard.until = told.until;
            guard.served_by = told.served_by;
        }
        *guard = None;
    }

    /// Ends a wait whose future is not ready.
    pub(crate) fn end_early(guard: &mut Option<WaitGuard<'a>>, timed_out: bool) {
        if let Some(guard) = guard {
            guard.timed_out = timed_out;
        }
        *guard = None;
    }
}

impl Drop for WaitGuard<'_> {
    fn drop(&mut self) {
        let end = self.until.unwrap_or_else(|| self.ctx.env.now()).max(self.since);
        let ended = (self.event, self.served_by);
        self.ctx.session.end(self.token, ended, self.since, end, self.timed_out);
        // A wait inside another one is part of that.
        if self.token != 0 {
            self.ctx.trace_wait(self.event, self.p, end.since(self.since), end);
        }
    }
}

/// What ends a wait early: the cancel flag and the statement's deadline. Made only once a wait has
/// begun.
pub(crate) struct Interrupts<'a> {
    cancel: CancelWait<'a>,
    deadline: Option<BoxFuture<'static, ()>>,
}

impl<'a> Interrupts<'a> {
    pub(crate) fn new(ctx: &'a Ctx) -> Interrupts<'a> {
        let flag = ctx.session.cancel_flag();
        let deadline = flag.deadline().map(|at| {
            let left_us = at.since(ctx.env.now());
            ctx.env.sleep(Duration::from_micros(left_us))
        });
        Interrupts { cancel: flag.wait(), deadline }
    }

    pub(crate) fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Interrupt> {
        if let Poll::Ready(interrupt) = Pin::new(&mut self.cancel).poll(cx) {
            return Poll::Ready(interrupt);
        }
        match self.deadline.as_mut().map(|d| d.as_mut().poll(cx)) {
            Some(Poll::Ready(())) => Poll::Ready(Interrupt::TimedOut),
            _ => Poll::Pending,
        }
    }
}

/// How a wait is counted, told at its end.
#[derive(Clone, Copy, Debug)]
pub struct Told {
    pub event: WaitEvent,
    /// When it ended, for one who is told late and waited for something else since; `None`: now.
    pub until: Option<Micros>,
    /// The instance that a block came from.
    pub served_by: Option<u8>,
}

impl From<WaitEvent> for Told {
    fn from(event: WaitEvent) -> Told {
        Told { event, until: None, served_by: None }
    }
}

/// Under which event a wait is counted.
pub trait Label<Out> {
    type Value;
    fn split(out: Out, shown: WaitEvent) -> (Self::Value, Told);
}

/// Under the event that was shown.
pub struct AsShown;

impl<T> Label<T> for AsShown {
    type Value = T;

    fn split(out: T, shown: WaitEvent) -> (T, Told) {
        (out, shown.into())
    }
}

/// As the future's result says.
pub struct AsTold;

impl<T, W: Into<Told>> Label<(T, W)> for AsTold {
    type Value = T;

    fn split((value, told): (T, W), _: WaitEvent) -> (T, Told) {
        (value, told.into())
    }
}

pin_project! {
    /// Of [`Ctx::wait`] and [`Ctx::wait_relabel`].
    #[must_use = "futures do nothing unless polled"]
    pub struct Waiting<'a, F, L> {
        // Before the future: a wait ends before what was waited for goes.
        guard: Option<WaitGuard<'a>>,
        ctx: &'a Ctx,
        shown: WaitEvent,
        p: [u64; 3],
        label: PhantomData<fn() -> L>,
        #[pin]
        future: F,
    }
}

impl<'a, F, L> Waiting<'a, F, L> {
    pub(crate) fn new(ctx: &'a Ctx, shown: WaitEvent, p: [u64; 3], future: F) -> Self {
        Waiting { guard: None, ctx, shown, p, label: PhantomData, future }
    }
}

impl<F: Future, L: Label<F::Output>> Future for Waiting<'_, F, L> {
    type Output = L::Value;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<L::Value> {
        let this = self.project();
        if let Poll::Ready(out) = this.future.poll(cx) {
            let (value, counted) = L::split(out, *this.shown);
            WaitGuard::end(this.guard, counted);
            return Poll::Ready(value);
        }
        WaitGuard::pending(this.guard, this.ctx, *this.shown, *this.p);
        Poll::Pending
    }
}

pin_project! {
    /// Of [`Ctx::wait_or_cancel`] and [`Ctx::wait_relabel_or_cancel`].
    #[must_use = "futures do nothing unless polled"]
    pub struct WaitingOrCancel<'a, F, L> {
        guard: Option<WaitGuard<'a>>,
        interrupts: Option<Interrupts<'a>>,
        ctx: &'a Ctx,
        shown: WaitEvent,
        p: [u64; 3],
        label: PhantomData<fn() -> L>,
        #[pin]
        future: F,
    }
}

impl<'a, F, L> WaitingOrCancel<'a, F, L> {
    pub(crate) fn new(ctx: &'a Ctx, shown: WaitEvent, p: [u64; 3], future: F) -> Self {
        let (guard, interrupts) = (None, None);
        WaitingOrCancel { guard, interrupts, ctx, shown, p, label: PhantomData, future }
    }

    /// The same as a wait from now on, whether or not it is over when it is first looked at: what
    /// another instance has been asked for is one, however soon the answer comes.
    pub fn begun(mut self) -> Self {
        WaitGuard::pending(&mut self.guard, self.ctx, self.shown, self.p);
        self
    }
}

impl<F: Future, L: Label<F::Output>> Future for WaitingOrCancel<'_, F, L> {
    type Output = Result<L::Value, Interrupt>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = self.project();
        if let Poll::Ready(out) = this.future.poll(cx) {
            let (value, counted) = L::split(out, *this.shown);
            WaitGuard::end(this.guard, counted);
            return Poll::Ready(Ok(value));
        }
        let ctx = *this.ctx;
        WaitGuard::pending(this.guard, ctx, *this.shown, *this.p);
        let polled = this.interrupts.get_or_insert_with(|| Interrupts::new(ctx)).poll(cx);
        polled.map(|interrupt| {
            WaitGuard::end_early(this.guard, interrupt == Interrupt::TimedOut);
            Err(interrupt)
        })
    }
}
