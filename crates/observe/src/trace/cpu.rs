//! The processor time of traced calls.
//!
//! Asking the scheduler is a system call, and was a third of what a traced call costs. So it is
//! asked once in [`NEAR_US`]; until then what has gone by since, without a wait, counts as used:
//! a thread that was taken off its processor meanwhile has lost more than that, and is asked for.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use env::Micros;

/// How long what the scheduler has said can be reckoned on.
pub(super) const NEAR_US: u64 = 20;

/// What a session's thread had used when the scheduler was asked last.
#[derive(Default)]
pub(crate) struct LastAsked {
    at_us: AtomicU64,
    /// 0: there is no such clock, or it has not been asked.
    used_us: AtomicU64,
    waited_us: AtomicU64,
}

impl LastAsked {
    /// What the thread has used at `now`, when the session had waited so long in all.
    pub(super) fn used_us(&self, now: Micros, waited_us: u64, ask: impl FnOnce() -> u64) -> u64 {
        let since_us = now.since(Micros(self.at_us.load(Relaxed)));
        let used_us = self.used_us.load(Relaxed);
        if used_us > 0 && since_us < NEAR_US && self.waited_us.load(Relaxed) == waited_us {
            return used_us + since_us;
        }
        let used_us = ask();
        self.at_us.store(now.0, Relaxed);
        self.used_us.store(used_us, Relaxed);
        self.waited_us.store(waited_us, Relaxed);
        used_us
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_asked_just_now_is_reckoned_on_until_time_or_a_wait_goes_by() {
        let last = LastAsked::default();
        assert_eq!(last.used_us(Micros(1_000), 0, || 500), 500);
        assert_eq!(last.used_us(Micros(1_007), 0, || panic!("asked again")), 507);
        assert_eq!(last.used_us(Micros(1_000 + NEAR_US), 0, || 503), 503, "it had lost its turn");
        assert_eq!(last.used_us(Micros(1_030), 4, || 505), 505, "it has waited");
        assert_eq!(last.used_us(Micros(1_031), 4, || panic!("asked again")), 506);
        // Where there is no clock there is nothing to reckon on.
        let none = LastAsked::default();
        assert_eq!(none.used_us(Micros(1), 0, || 0), 0);
        assert_eq!(none.used_us(Micros(2), 0, || 0), 0);
    }
}
