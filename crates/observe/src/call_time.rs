//! The time of a session's calls, `DB time`, and of what they do.
//!
//! What it promises: a part is never more than the whole, at any reading and between any two. Both
//! go by one clock, that of the calls, which stands still between them and while they sleep; what
//! goes on is in both with its time so far. What it must never do: make the session wait for a
//! reader.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, fence};

use env::Micros;

use crate::ctx::Ctx;
use crate::stats::Stat;

/// What is timed within calls. Parts may lie in one another; none lies in itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TimePart {
    LogOn,
    /// Clients' own statements, with all that they call.
    Execute,
    /// Planning.
    Parse,
    SequenceLoad,
}

/// How many parts there are.
pub(crate) const TIME_PARTS: usize = TimePart::ALL.len();

impl TimePart {
    pub(crate) const ALL: [TimePart; 4] =
        [TimePart::LogOn, TimePart::Execute, TimePart::Parse, TimePart::SequenceLoad];

    /// What counts it.
    pub(crate) const fn stat(self) -> Stat {
        match self {
            TimePart::LogOn => Stat::ConnectionTime,
            TimePart::Execute => Stat::SqlExecuteTime,
            TimePart::Parse => Stat::HardParseTime,
            TimePart::SequenceLoad => Stat::SequenceLoadTime,
        }
    }
}

/// How often a reader tries to see one consistent state before it takes what it has.
const READ_ATTEMPTS: u32 = 100_000;

#[derive(Default)]
struct PartTime {
    us: AtomicU64,
    /// One more than what the calls' clock showed when it began; 0: it does not go on.
    since_us: AtomicU64,
}

/// The times of a session that lives; under a sequence lock with one writer, its own task.
pub(crate) struct CallTime {
    /// It works for no client: it has no calls, and its parts go by the plain clock.
    is_background: bool,
    /// Odd while the fields change.
    generation: AtomicU32,
    active: AtomicBool,
    /// Since when, or since when not.
    since_us: AtomicU64,
    /// One more than when a part began outside of all calls, which is a call then; 0: none.
    unsaid_since_us: AtomicU64,
    /// Idle waits of the call that goes on, as of `dbms_lock.sleep`: the database does nothing
    /// meanwhile. And the last of them.
    idle_us: AtomicU64,
    idle_wait: AtomicU32,
    /// Of the calls that are over.
    us: AtomicU64,
    parts: [PartTime; TIME_PARTS],
}

/// The times at one moment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Times {
    pub calls_us: u64,
    /// In the order of [`TimePart::ALL`].
    pub parts_us: [u64; TIME_PARTS],
}

impl CallTime {
    pub fn new(is_background: bool, now: Micros) -> CallTime {
        CallTime {
            is_background,
            generation: AtomicU32::new(0),
            active: AtomicBool::new(is_background),
            since_us: AtomicU64::new(now.0),
            unsaid_since_us: AtomicU64::new(0),
            idle_us: AtomicU64::new(0),
            idle_wait: AtomicU32::new(0),
            us: AtomicU64::new(0),
            parts: Default::default(),
        }
    }

    pub fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// Since when it is active, or not.
    pub fn since(&self) -> Micros {
        Micros(self.since_us.load(Relaxed))
    }

    /// A call begins or ends.
    pub fn set_active(&self, active: bool, now: Micros) {
        self.write(|| {
            self.end_call(now);
            self.since_us.store(now.0, Relaxed);
            self.idle_us.store(0, Relaxed);
            self.active.store(active, Relaxed);
        });
    }

    /// An idle wait of this number has ended.
    pub fn idled(&self, wait: u32, us: u64) {
        if self.call_since().is_some() {
            self.write(|| {
                self.idle_us.fetch_add(us, Relaxed);
                self.idle_wait.store(wait, Relaxed);
            });
        }
    }

    /// A part begins, unless it goes on already: whether it does.
    pub fn begin(&self, part: TimePart, now: Micros) -> bool {
        let cell = &self.parts[part as usize];
        if cell.since_us.load(Relaxed) > 0 {
            return false;
        }
        self.write(|| {
            if !self.is_background && self.call_since().is_none() {
                self.unsaid_since_us.store(now.0 + 1, Relaxed);
                self.idle_us.store(0, Relaxed);
            }
            cell.since_us.store(self.clock(now, 0) + 1, Relaxed);
        });
        true
    }

    /// It ends.
    pub fn end(&self, part: TimePart, now: Micros) {
        let cell = &self.parts[part as usize];
        if cell.since_us.load(Relaxed) > 0 {
            self.write(|| self.end_part(cell, now));
        }
    }

    /// Whatever has not ended ends: nothing goes on when a client's message comes.
    pub fn end_all(&self, now: impl FnOnce() -> Micros) {
        if self.parts.iter().all(|part| part.since_us.load(Relaxed) == 0) {
            return;
        }
        let now = now();
        self.write(|| self.parts.iter().for_each(|part| self.end_part(part, now)));
    }

    /// The times now. `idle`: number and length so far of the idle wait that goes on, if one does.
    pub fn read(
        &self,
        now: impl Fn() -> Micros,
        idle: impl Fn(Micros) -> Option<(u32, u64)>,
    ) -> Times {
        self.consistent(|| {
            // Later than any change that is seen.
            let now = now();
            let counted = self.idle_wait.load(Relaxed);
            let idle_us = idle(now).filter(|(wait, _)| *wait != counted).map_or(0, |(_, us)| us);
            let clock = self.clock(now, idle_us);
            let part_us = |part: &PartTime| {
                let so_far_us = match part.since_us.load(Relaxed) {
                    0 => 0,
                    since => clock.saturating_sub(since - 1),
                };
                (part.us.load(Relaxed) + so_far_us).min(clock)
            };
            Times {
                calls_us: if self.is_background { 0 } else { clock },
                parts_us: std::array::from_fn(|i| part_us(&self.parts[i])),
            }
        })
    }

    /// The session ends: what was read last is counted elsewhere.
    pub fn clear(&self) {
        self.write(|| {
            self.active.store(false, Relaxed);
            self.unsaid_since_us.store(0, Relaxed);
            self.us.store(0, Relaxed);
            for part in &self.parts {
                part.us.store(0, Relaxed);
                part.since_us.store(0, Relaxed);
            }
        });
    }

    /// When the call that goes on began.
    fn call_since(&self) -> Option<Micros> {
        if self.is_active() {
            return Some(self.since());
        }
        self.unsaid_since_us.load(Relaxed).checked_sub(1).map(Micros)
    }

    /// What the clock of the calls shows. `idle_us`: so long an idle wait goes on.
    fn clock(&self, now: Micros, idle_us: u64) -> u64 {
        if self.is_background {
            return now.0;
        }
        let call_us = self.call_since().map_or(0, |since| {
            now.since(since).saturating_sub(self.idle_us.load(Relaxed) + idle_us)
        });
        self.us.load(Relaxed) + call_us
    }

    fn end_call(&self, now: Micros) {
        if !self.is_background {
            self.us.store(self.clock(now, 0), Relaxed);
        }
        self.unsaid_since_us.store(0, Relaxed);
    }

    fn end_part(&self, part: &PartTime, now: Micros) {
        let Some(since) = part.since_us.load(Relaxed).checked_sub(1) else { return };
        part.us.fetch_add(self.clock(now, 0).saturating_sub(since), Relaxed);
        part.since_us.store(0, Relaxed);
        let over = self.parts.iter().all(|part| part.since_us.load(Relaxed) == 0);
        if over && !self.is_active() {
            self.end_call(now);
        }
    }

    fn write(&self, change: impl FnOnce()) {
        let generation = self.generation.load(Relaxed);
        self.generation.store(generation.wrapping_add(1) | 1, Relaxed);
        fence(Release);
        change();
        self.generation.store((generation | 1).wrapping_add(1), Release);
    }

    fn consistent<T>(&self, read: impl Fn() -> T) -> T {
        let mut attempt = 0;
        loop {
            let before = self.generation.load(Acquire);
            let times = read();
            fence(Acquire);
            let same = self.generation.load(Relaxed) == before;
            attempt += 1;
            if (same && before.is_multiple_of(2)) || attempt == READ_ATTEMPTS {
                return times;
            }
            if attempt % 64 == 0 {
                // The writer may have been preempted in the middle of a change.
                std::thread::yield_now();
            }
            std::hint::spin_loop();
        }
    }
}

/// A part of a session's calls, timed until it is dropped.
#[must_use]
pub struct Timed<'a> {
    ctx: &'a Ctx,
    part: TimePart,
    begun: bool,
}

impl Ctx {
    /// What the session does from now on is this part of its time. Inside itself it is counted
    /// once.
    pub fn timed(&self, part: TimePart) -> Timed<'_> {
        let begun = self.session.calls.begin(part, self.env.now());
        Timed { ctx: self, part, begun }
    }
}

impl Drop for Timed<'_> {
    fn drop(&mut self) {
        if self.begun {
            self.ctx.session.calls.end(self.part, self.ctx.env.now());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    const EXECUTE: usize = TimePart::Execute as usize;
    const PARSE: usize = TimePart::Parse as usize;

    /// A session's times and the clock.
    struct Test {
        time: CallTime,
        now_us: Cell<u64>,
        /// An idle wait goes on since then.
        idle: Cell<Option<(u32, u64)>>,
    }

    impl Test {
        fn new(is_background: bool) -> Test {
            let time = CallTime::new(is_background, Micros(50));
            Test { time, now_us: Cell::new(100), idle: Cell::new(None) }
        }

        fn now(&self) -> Micros {
            Micros(self.now_us.get())
        }

        fn pass(&self, us: u64) {
            self.now_us.set(self.now_us.get() + us);
        }

        fn read(&self) -> Times {
            let idle = |now: Micros| self.idle.get().map(|(wait, since)| (wait, now.0 - since));
            self.time.read(|| self.now(), idle)
        }

        /// Whole, execution, planning.
        fn shown(&self) -> (u64, u64, u64) {
            let times = self.read();
            (times.calls_us, times.parts_us[EXECUTE], times.parts_us[PARSE])
        }
    }

    #[test]
    fn a_part_that_goes_on_counts_with_its_time_so_far() {
        let test = Test::new(false);
        test.time.set_active(true, test.now());
        test.pass(10);
        assert!(test.time.begin(TimePart::Execute, test.now()));
        test.pass(40);
        assert_eq!(test.shown(), (50, 40, 0));
        assert!(test.time.begin(TimePart::Parse, test.now()));
        assert!(!test.time.begin(TimePart::Parse, test.now()), "inside itself it is one");
        test.pass(5);
        assert_eq!(test.shown(), (55, 45, 5));
        test.time.end(TimePart::Parse, test.now());
        test.pass(5);
        test.time.end(TimePart::Execute, test.now());
        test.pass(20);
        assert_eq!(test.shown(), (80, 50, 5));
        test.time.set_active(false, test.now());
        test.pass(1_000);
        assert_eq!(test.shown(), (80, 50, 5));
        assert_eq!((test.time.is_active(), test.time.since()), (false, Micros(180)));
    }

    #[test]
    fn a_statement_that_sleeps_takes_no_time() {
        let test = Test::new(false);
        test.time.set_active(true, test.now());
        assert!(test.time.begin(TimePart::Execute, test.now()));
        test.pass(10);
        test.idle.set(Some((7, test.now().0)));
        test.pass(500);
        assert_eq!(test.shown(), (10, 10, 0));
        // It has been counted, and is still shown.
        test.time.idled(7, 500);
        assert_eq!(test.shown(), (10, 10, 0));
        test.idle.set(None);
        test.pass(3);
        test.time.end(TimePart::Execute, test.now());
        assert_eq!(test.shown(), (13, 13, 0));
    }

    #[test]
    fn what_runs_outside_of_calls_is_one() {
        let test = Test::new(false);
        assert!(test.time.begin(TimePart::Execute, test.now()));
        test.pass(30);
        assert_eq!(test.shown(), (30, 30, 0));
        test.time.end(TimePart::Execute, test.now());
        test.pass(1_000);
        assert_eq!((test.shown(), test.time.is_active()), ((30, 30, 0), false));
        // One that a call comes upon goes on in it; what nobody ends ends with the next message.
        assert!(test.time.begin(TimePart::Execute, test.now()));
        test.pass(5);
        test.time.set_active(true, test.now());
        test.pass(5);
        test.time.end_all(|| test.now());
        test.pass(5);
        assert_eq!(test.shown(), (45, 40, 0));
        test.time.clear();
        assert_eq!(test.shown(), (0, 0, 0));
    }

    #[test]
    fn a_process_has_no_calls_and_yet_plans() {
        let test = Test::new(true);
        assert!(test.time.begin(TimePart::Parse, test.now()));
        test.pass(8);
        test.time.end(TimePart::Parse, test.now());
        assert_eq!(test.shown(), (0, 0, 8));
    }

    #[test]
    fn no_part_grows_faster_than_the_whole() {
        let test = Test::new(false);
        let mut seed = 5_u64;
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        let mut before = test.read();
        for _ in 0..5_000 {
            test.pass(next(20));
            let part = TimePart::ALL[next(4) as usize];
            match next(5) {
                0 => test.time.set_active(true, test.now()),
                1 => test.time.set_active(false, test.now()),
                2 => {
                    test.time.begin(part, test.now());
                }
                3 => test.time.end(part, test.now()),
                _ => {
                    test.pass(3);
                    test.time.idled(9, 3);
                }
            }
            let now = test.read();
            let whole_us = now.calls_us - before.calls_us;
            for (now, before) in now.parts_us.iter().zip(before.parts_us) {
                assert!(now - before <= whole_us, "{} us of {whole_us}", now - before);
            }
            assert!(now.parts_us.iter().all(|us| *us <= now.calls_us));
            before = now;
        }
    }
}
