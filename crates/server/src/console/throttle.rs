//! Slows down who guesses passwords.
//!
//! What it promises: an address whose log-ons have failed a few times waits before the next one is
//! looked at, twice as long after each further failure, up to a minute; the table is bounded. What
//! it must never do: lock a user out for what another address does.

use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// Failures that cost no wait: people mistype.
const FREE_FAILURES: u32 = 5;
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LONGEST_WAIT: Duration = Duration::from_secs(60);
/// After so long without a failure an address begins anew.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(600);
/// Addresses that are remembered.
const ADDRESSES_MAX: usize = 1024;

struct Failures {
    count: u32,
    last: Instant,
    /// Until when nothing is looked at.
    until: Instant,
}

/// Failed log-ons by address.
#[derive(Default)]
pub struct Throttle(Mutex<BTreeMap<IpAddr, Failures>>);

impl Throttle {
    /// How long this address has to wait; `None`: not at all.
    pub fn wait(&self, from: IpAddr, now: Instant) -> Option<Duration> {
        let known = self.0.lock();
        let left = known.get(&from)?.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(left)
    }

    /// A log-on has failed.
    pub fn failed(&self, from: IpAddr, now: Instant) {
        let mut known = self.0.lock();
        known.retain(|_, f| now.saturating_duration_since(f.last) < FORGOTTEN_AFTER);
        if known.len() >= ADDRESSES_MAX && !known.contains_key(&from) {
            let oldest = known.iter().min_by_key(|(_, f)| f.last).map(|(ip, _)| *ip);
            oldest.and_then(|ip| known.remove(&ip));
        }
        let failures =
            known.entry(from).or_insert_with(|| Failures { count: 0, last: now, until: now });
        failures.count = failures.count.saturating_add(1);
        failures.last = now;
        if let Some(doublings) = failures.count.checked_sub(FREE_FAILURES) {
            let wait = FIRST_WAIT.saturating_mul(1 << doublings.min(16));
            failures.until = now + wait.min(LONGEST_WAIT);
        }
    }

    /// A log-on has succeeded.
    pub fn succeeded(&self, from: IpAddr) {
        self.0.lock().remove(&from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    #[test]
    fn waits_double_and_end() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for _ in 1..FREE_FAILURES {
            throttle.failed(ONE, now);
            assert_eq!(throttle.wait(ONE, now), None);
        }
        throttle.failed(ONE, now);
        assert_eq!(throttle.wait(ONE, now), Some(FIRST_WAIT));
        throttle.failed(ONE, now);
        assert_eq!(throttle.wait(ONE, now), Some(FIRST_WAIT * 2));
        for _ in 0..100 {
            throttle.failed(ONE, now);
        }
        assert_eq!(throttle.wait(ONE, now), Some(LONGEST_WAIT));
        assert_eq!(throttle.wait(ONE, now + LONGEST_WAIT), None);
        throttle.succeeded(ONE);
        throttle.failed(ONE, now);
        assert_eq!(throttle.wait(ONE, now), None, "it begins anew");
    }

    #[test]
    fn the_table_is_bounded_and_forgets() {
        let (throttle, now) = (Throttle::default(), Instant::now());
        for n in 0..3_000_u32 {
            throttle.failed(IpAddr::V4(n.into()), now + Duration::from_millis(u64::from(n)));
        }
        assert_eq!(throttle.0.lock().len(), ADDRESSES_MAX);
        throttle.failed(ONE, now + FORGOTTEN_AFTER * 2);
        assert_eq!(throttle.0.lock().len(), 1);
    }
}
