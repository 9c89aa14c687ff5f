//! Latches: short locks on what an instance has in memory, and what they cost.
//!
//! What it promises: a latch that nobody has costs what a mutex does and one plain addition to
//! memory that the taker has anyway; who finds it taken tries again for a while before it sleeps,
//! and both are counted. A sleep is a wait of the session whose thread it is ([`attribute`]).
//!
//! What it must never do: be held over an await (its guard is not `Send`), or look at a clock when
//! the latch is free: under the simulator, which has one thread, it always is.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use parking_lot::{Mutex, MutexGuard};

use crate::real::machine_us;

/// Rounds of trying again before a sleep. Each is twice as long as the one before, the last one
/// about a microsecond: what a latch is held for.
const SPIN_ROUNDS: u32 = 6;

/// Who is told of the sleeps of a thread.
pub trait LatchWaits {
    /// Calls `sleep`, which returns when the thread has what it waits for. `name`: that of the
    /// latch; `p`: the parameters of the wait.
    fn wait(&self, name: &'static str, p: [u64; 3], sleep: &mut dyn FnMut());
}

thread_local! {
    static WAITS: RefCell<Option<Arc<dyn LatchWaits>>> = const { RefCell::new(None) };
}

/// Sleeps of the calling thread are told to `waits` from now on; `None`: to nobody.
pub fn attribute(waits: Option<Arc<dyn LatchWaits>>) {
    WAITS.with(|cell| *cell.borrow_mut() = waits);
}

/// How something that was taken was got in the end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Contended {
    /// Without a sleep.
    pub by_spinning: bool,
    /// A session has counted the sleep as a wait of its own.
    pub told: bool,
    /// How long the sleep was.
    pub wait_us: u64,
}

/// Gets what somebody else has just now: by trying again, then by sleeping until it is free.
/// `p`: the parameters of that wait.
#[cold]
pub fn contend<G>(
    name: &'static str,
    p: [u64; 3],
    try_take: impl Fn() -> Option<G>,
    take: impl Fn() -> G,
) -> (G, Contended) {
    for round in 0..SPIN_ROUNDS {
        for _ in 0..1u32 << round {
            std::hint::spin_loop();
        }
        if let Some(got) = try_take() {
            return (got, Contended { by_spinning: true, told: false, wait_us: 0 });
        }
    }
    let began_us = machine_us();
    let mut got = None;
    let mut sleep = || got = Some(take());
    // Whoever is told may itself meet a latch: it is not told of that one.
    let waits = WAITS.with(|cell| cell.try_borrow_mut().ok().and_then(|mut waits| waits.take()));
    let told = waits.is_some();
    match waits {
        Some(waits) => {
            waits.wait(name, p, &mut sleep);
            attribute(Some(waits));
        }
        None => sleep(),
    }
    let got = got.unwrap_or_else(take);
    let wait_us = machine_us().saturating_sub(began_us);
    (got, Contended { by_spinning: false, told, wait_us })
}

/// What has become of the requests for latches.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct LatchCounts {
    /// Requests.
    pub gets: u64,
    /// Those that found the latch taken.
    pub misses: u64,
    /// Those that got it by trying again.
    pub spin_gets: u64,
    /// Those that slept.
    pub sleeps: u64,
    /// How long these slept.
    pub wait_us: u64,
}

impl LatchCounts {
    /// Adds those of another latch.
    pub fn add(&mut self, other: &LatchCounts) {
        self.gets += other.gets;
        self.misses += other.misses;
        self.spin_gets += other.spin_gets;
        self.sleeps += other.sleeps;
        self.wait_us += other.wait_us;
    }
}

/// One latch of a list.
#[derive(Clone, Copy, Debug)]
pub struct LatchRow {
    /// Where it is, as the first parameter of a wait for it says.
    pub address: u64,
    pub counts: LatchCounts,
}

/// Latches of an instance: name and rows of each, those of one name together.
#[derive(Default)]
pub struct LatchList(Vec<(&'static str, Vec<LatchRow>)>);

impl LatchList {
    /// Adds one, behind the others of its name.
    pub fn add<T>(&mut self, latch: &Latch<T>) {
        let row = LatchRow { address: latch.address(), counts: latch.counts() };
        match self.0.iter_mut().find(|(name, _)| *name == latch.name()) {
            Some((_, all)) => all.push(row),
            None => self.0.push((latch.name(), vec![row])),
        }
    }

    /// In the order in which the names came.
    #[must_use]
    pub fn rows(self) -> Vec<(&'static str, Vec<LatchRow>)> {
        self.0
    }
}

/// A mutex that counts. Who has it writes the counters.
pub struct Latch<T> {
    name: &'static str,
    gets: AtomicU64,
    spin_gets: AtomicU64,
    sleeps: AtomicU64,
    wait_us: AtomicU64,
    inner: Mutex<T>,
}

/// Raises a counter that nobody else writes meanwhile.
fn raise(cell: &AtomicU64, by: u64) {
    cell.store(cell.load(Relaxed).wrapping_add(by), Relaxed);
}

impl<T> Latch<T> {
    /// `name`: as `v$latch` shows it; latches of one name are shown together.
    pub const fn new(name: &'static str, value: T) -> Latch<T> {
        Latch {
            name,
            gets: AtomicU64::new(0),
            spin_gets: AtomicU64::new(0),
            sleeps: AtomicU64::new(0),
            wait_us: AtomicU64::new(0),
            inner: Mutex::new(value),
        }
    }

    /// Takes it, and sleeps until it is free if need be.
    pub fn lock(&self) -> MutexGuard<'_, T> {
        let guard = match self.inner.try_lock() {
            Some(guard) => guard,
            None => self.lock_taken(),
        };
        raise(&self.gets, 1);
        guard
    }

    #[cold]
    fn lock_taken(&self) -> MutexGuard<'_, T> {
        let p = [self.address(), 0, u64::from(SPIN_ROUNDS)];
        let (guard, how) = contend(self.name, p, || self.inner.try_lock(), || self.inner.lock());
        if how.by_spinning {
            raise(&self.spin_gets, 1);
        } else {
            raise(&self.sleeps, 1);
            raise(&self.wait_us, how.wait_us);
        }
        guard
    }

    /// Where it is.
    fn address(&self) -> u64 {
        std::ptr::from_ref(self).addr() as u64
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What has become of the requests so far.
    pub fn counts(&self) -> LatchCounts {
        let (spin_gets, sleeps) = (self.spin_gets.load(Relaxed), self.sleeps.load(Relaxed));
        LatchCounts {
            gets: self.gets.load(Relaxed),
            misses: spin_gets + sleeps,
            spin_gets,
            sleeps,
            wait_us: self.wait_us.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::sync::mpsc;

    #[test]
    fn a_free_latch_is_got_without_a_miss() {
        let latch = Latch::new("one", 1);
        *latch.lock() += 1;
        assert_eq!(*latch.lock(), 2);
        let wanted = LatchCounts { gets: 2, ..Default::default() };
        assert_eq!((latch.counts(), latch.name()), (wanted, "one"));
    }

    struct Told(mpsc::Sender<(&'static str, u64)>, AtomicBool);

    impl LatchWaits for Told {
        fn wait(&self, name: &'static str, p: [u64; 3], sleep: &mut dyn FnMut()) {
            self.0.send((name, p[0])).expect("somebody listens");
            sleep();
            self.1.store(true, Relaxed);
        }
    }

    #[test]
    fn who_sleeps_is_told_and_counted_once() {
        let latch = Arc::new(Latch::new("taken", 0));
        let held = latch.lock();
        let (sender, receiver) = mpsc::channel();
        let other = Arc::clone(&latch);
        let sleeper = std::thread::spawn(move || {
            let told = Arc::new(Told(sender, AtomicBool::new(false)));
            attribute(Some(Arc::clone(&told) as Arc<dyn LatchWaits>));
            *other.lock() += 1;
            // It is still told of the next one.
            assert!(WAITS.with(|cell| cell.borrow().is_some()));
            told.1.load(Relaxed)
        });
        let (name, address) = receiver.recv().expect("it sleeps");
        let mut list = LatchList::default();
        list.add(&latch);
        assert_eq!((name, address), ("taken", list.rows()[0].1[0].address));
        drop(held);
        assert!(sleeper.join().expect("it ends"), "the wait has ended");
        assert_eq!(*latch.lock(), 1);
        let counts = latch.counts();
        assert_eq!((counts.gets, counts.misses, counts.sleeps), (3, 1, 1));
    }
}
