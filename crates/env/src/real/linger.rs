//! Waiting without sleeping: for answers that come sooner than a sleeping thread is woken.
//!
//! A peer's answer takes some tens of microseconds, and waking the thread that waits for it as long
//! again, longer on a processor that has gone idle. So a session's thread looks for its answer a
//! little while before it sleeps. Promises: only a thread that nobody needs does so, only while no
//! other thread wants its processor, and never longer than [`Linger::limit_us`]; whoever lingered
//! in vain keeps this process from it for a time that grows.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Instant;

use crate::Lingering;

/// Giving way takes longer only if another session has had the processor: a block server that is
/// woken to bring the answer takes less.
const DISPLACED_US: u64 = 200;
/// The processor is offered to others this often: each time one of them has it, the answer waits.
const GIVE_WAY_EVERY_US: u64 = 30;
/// How long nobody lingers after it was in vain for the first time, and at most.
const PAUSE_FIRST_US: u64 = 1_000;
const PAUSE_MAX_US: u64 = 256_000;

/// When something that has been in vain is tried again.
struct Pause {
    /// Not before this time since the process started, µs.
    not_before_us: AtomicU64,
    next_us: AtomicU64,
}

impl Pause {
    fn new() -> Pause {
        Pause { not_before_us: AtomicU64::new(0), next_us: AtomicU64::new(PAUSE_FIRST_US) }
    }

    fn is_over(&self, now_us: u64) -> bool {
        now_us >= self.not_before_us.load(Ordering::Relaxed)
    }

    fn in_vain(&self, now_us: u64) {
        if !self.is_over(now_us) {
            return; // Another thread has found out the same.
        }
        let pause_us = self.next_us.load(Ordering::Relaxed);
        self.not_before_us.store(now_us + pause_us, Ordering::Relaxed);
        self.next_us.store((pause_us * 2).min(PAUSE_MAX_US), Ordering::Relaxed);
    }

    /// By halves: where it is in vain as often as not, the pauses stay long.
    fn succeeded(&self) {
        let pause_us = self.next_us.load(Ordering::Relaxed) / 2;
        self.next_us.store(pause_us.max(PAUSE_FIRST_US), Ordering::Relaxed);
    }
}

/// What the threads of a process share.
pub(super) struct Linger {
    /// 0: nobody lingers.
    limit_us: u64,
    threads_max: usize,
    displaced_us: u64,
    started: Instant,
    threads: AtomicUsize,
    pause: Pause,
}

impl Linger {
    pub(super) fn new(limit_us: u64) -> Linger {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Linger {
            limit_us,
            // Whoever is to answer may be on this machine, too.
            threads_max: (cpus / 4).max(1),
            displaced_us: DISPLACED_US,
            started: Instant::now(),
            threads: AtomicUsize::new(0),
            pause: Pause::new(),
        }
    }

    fn now_us(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX)
    }

    /// Whether the caller is to look again; it has just looked in vain.
    pub(super) fn again(&self, l: &mut Lingering) -> bool {
        match *l {
            Lingering::Over => return false,
            Lingering::Fresh => {
                let now_us = self.now_us();
                let allowed = self.limit_us > 0 && self.pause.is_over(now_us);
                if !allowed || self.threads.fetch_add(1, Ordering::Relaxed) >= self.threads_max {
                    if allowed {
                        self.threads.fetch_sub(1, Ordering::Relaxed);
                    }
                    *l = Lingering::Over;
                    return false;
                }
                *l = Lingering::Since { began_us: now_us, gave_way_us: 0 };
            }
            Lingering::Since { .. } => {}
        }
        let Lingering::Since { began_us, gave_way_us } = *l else { return false };
        let before_us = self.now_us();
        if before_us < gave_way_us + GIVE_WAY_EVERY_US {
            std::hint::spin_loop();
            return true;
        }
        // Gives way to whoever wants this processor, and so finds out whether somebody does.
        std::thread::yield_now();
        let now_us = self.now_us();
        *l = Lingering::Since { began_us, gave_way_us: now_us };
        if now_us - before_us > self.displaced_us || now_us - began_us > self.limit_us {
            self.pause.in_vain(now_us);
            self.leave(l);
        }
        // One look more in any case: what was waited for may have come meanwhile.
        true
    }

    /// The caller has what it waited for, or waits no more.
    pub(super) fn done(&self, l: &mut Lingering, came: bool) {
        if matches!(l, Lingering::Since { .. }) {
            self.leave(l);
            if came {
                self.pause.succeeded();
            }
        }
    }

    fn leave(&self, l: &mut Lingering) {
        self.threads.fetch_sub(1, Ordering::Relaxed);
        *l = Lingering::Over;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Lingers until it is told to sleep; how often it looked.
    fn in_vain(linger: &Linger) -> u64 {
        let mut l = Lingering::default();
        let mut looks = 0;
        while linger.again(&mut l) {
            looks += 1;
        }
        looks
    }

    #[test]
    fn nobody_lingers_where_it_is_switched_off() {
        assert_eq!(in_vain(&Linger::new(0)), 0);
    }

    #[test]
    fn the_limit_ends_it_and_a_pause_follows() {
        let linger = Linger::new(500);
        assert!(in_vain(&linger) > 0);
        assert_eq!(linger.pause.next_us.load(Ordering::Relaxed), 2 * PAUSE_FIRST_US);
        assert_eq!(linger.threads.load(Ordering::Relaxed), 0);
        linger.pause.not_before_us.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(in_vain(&linger), 0, "within the pause");
    }

    #[test]
    fn one_at_a_time_and_success_shortens_the_pauses() {
        let linger = Linger { displaced_us: u64::MAX, ..Linger::new(60_000_000) };
        linger.threads.store(linger.threads_max - 1, Ordering::Relaxed);
        linger.pause.next_us.store(PAUSE_MAX_US, Ordering::Relaxed);
        let mut first = Lingering::default();
        assert!(linger.again(&mut first));
        assert_eq!(in_vain(&linger), 0, "the place is taken");
        linger.done(&mut first, true);
        assert_eq!(linger.pause.next_us.load(Ordering::Relaxed), PAUSE_MAX_US / 2);
        assert!(linger.again(&mut Lingering::default()), "and free again");
    }
}
