//! How a session is told to stop: a flag that waits listen to.
//!
//! What it promises: a cancel that is set before or during a wait ends that wait; a cancel that
//! comes between statements is forgotten by [`CancelFlag::begin_statement`]; a termination is never
//! forgotten. What it must never do: interrupt a wait that did not ask for it, or anything under a
//! [`Shield`] (rollback must finish).

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};

use env::Micros;
use parking_lot::Mutex;

/// Why a wait or a statement ended early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// The user asked for it (SQLSTATE 57014).
    Cancelled,
    /// The statement's deadline passed (SQLSTATE 57014).
    TimedOut,
    /// The session is being ended (SQLSTATE 57P01).
    Terminated,
}

const CANCEL: u8 = 1;
const TERMINATE: u8 = 2;

/// Flag, deadline and the tasks that wait for them.
#[derive(Default)]
pub struct CancelFlag {
    bits: AtomicU8,
    /// Monotonic time in µs at which the statement must end; 0: none.
    deadline_us: AtomicU64,
    /// How long the statement waits for a lock, in µs; 0: as long as it takes.
    lock_limit_us: AtomicU64,
    /// How many [`Shield`]s there are.
    shields: AtomicU32,
    waiters: Mutex<Waiters>,
    /// Wakes a session up that waits for its client, so that it sees that it is to end.
    ender: Mutex<Option<Ender>>,
}

/// See [`CancelFlag::on_terminate`].
pub type Ender = Box<dyn Fn() + Send + Sync>;

/// While it lives, nothing that its session does is interrupted.
#[must_use = "it shields only while it lives"]
pub struct Shield<'a>(&'a CancelFlag);

impl Drop for Shield<'_> {
    fn drop(&mut self) {
        self.0.shields.fetch_sub(1, Ordering::SeqCst);
    }
}

#[derive(Default)]
struct Waiters {
    next_id: u64,
    list: Vec<(u64, Waker)>,
}

impl CancelFlag {
    /// Asks the running statement to end.
    pub fn cancel(&self) {
        self.raise(CANCEL);
    }

    /// Asks the session to end; cannot be taken back.
    pub fn terminate(&self) {
        self.raise(TERMINATE);
        if let Some(end) = &*self.ender.lock() {
            end();
        }
    }

    /// Calls `end` whenever termination is asked for. It must not block.
    pub fn on_terminate(&self, end: Ender) {
        *self.ender.lock() = Some(end);
    }

    /// Whether the session is to end.
    #[must_use]
    pub fn is_terminated(&self) -> bool {
        self.bits.load(Ordering::SeqCst) & TERMINATE != 0
    }

    fn raise(&self, bit: u8) {
        self.bits.fetch_or(bit, Ordering::SeqCst);
        let woken = std::mem::take(&mut self.waiters.lock().list);
        for (_, waker) in woken {
            waker.wake();
        }
    }

    /// Forgets a cancel that came before this statement, and the last statement's deadline.
    pub fn begin_statement(&self) {
        self.bits.fetch_and(!CANCEL, Ordering::SeqCst);
        self.deadline_us.store(0, Ordering::Relaxed);
    }

    /// The statement must end at `deadline` (monotonic); `None`: no limit. Holds for waits that
    /// begin afterwards.
    pub fn set_deadline(&self, deadline: Option<Micros>) {
        // A deadline of 0 would read as none; 1 is as much in the past.
        self.deadline_us.store(deadline.map_or(0, |d| d.0.max(1)), Ordering::Relaxed);
    }

    /// How long, in µs, waits for locks last that begin afterwards; 0: as long as they take.
    pub fn set_lock_limit(&self, us: u64) {
        self.lock_limit_us.store(us, Ordering::Relaxed);
    }

    /// How long a wait for a lock may last, in µs.
    #[must_use]
    pub fn lock_limit(&self) -> Option<u64> {
        match self.lock_limit_us.load(Ordering::Relaxed) {
            us if us > 0 && !self.is_shielded() => Some(us),
            _ => None,
        }
    }

    /// For work that must be finished whatever is asked; what is asked meanwhile holds afterwards.
    pub fn shield(&self) -> Shield<'_> {
        self.shields.fetch_add(1, Ordering::SeqCst);
        Shield(self)
    }

    fn is_shielded(&self) -> bool {
        self.shields.load(Ordering::SeqCst) > 0
    }

    #[must_use]
    pub fn deadline(&self) -> Option<Micros> {
        if self.is_shielded() {
            return None;
        }
        match self.deadline_us.load(Ordering::Relaxed) {
            0 => None,
            us => Some(Micros(us)),
        }
    }

    /// What has been asked and is not shielded from, without looking at the deadline.
    #[must_use]
    pub fn requested(&self) -> Option<Interrupt> {
        if self.is_shielded() {
            return None;
        }
        let bits = self.bits.load(Ordering::SeqCst);
        if bits & TERMINATE != 0 {
            Some(Interrupt::Terminated)
        } else if bits & CANCEL != 0 {
            Some(Interrupt::Cancelled)
        } else {
            None
        }
    }

    /// Resolves when a cancel or termination is asked for.
    pub fn wait(&self) -> CancelWait<'_> {
        CancelWait { flag: self, id: None }
    }

    /// How many tasks listen now.
    #[must_use]
    pub fn listeners(&self) -> usize {
        self.waiters.lock().list.len()
    }
}

/// Future of [`CancelFlag::wait`].
pub struct CancelWait<'a> {
    flag: &'a CancelFlag,
    id: Option<u64>,
}

impl Future for CancelWait<'_> {
    type Output = Interrupt;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Interrupt> {
        {
            let mut waiters = self.flag.waiters.lock();
            let known = self.id.and_then(|id| waiters.list.iter().position(|(i, _)| *i == id));
            if let Some(at) = known {
                waiters.list[at].1.clone_from(cx.waker());
            } else {
                let id = waiters.next_id;
                waiters.next_id += 1;
                waiters.list.push((id, cx.waker().clone()));
                drop(waiters);
                self.id = Some(id);
            }
        }
        // Looked at after registering, so that a flag raised in between is not missed.
        match self.flag.requested() {
            Some(interrupt) => Poll::Ready(interrupt),
            None => Poll::Pending,
        }
    }
}

impl Drop for CancelWait<'_> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            self.flag.waiters.lock().list.retain(|(i, _)| *i != id);
        }
    }
}
