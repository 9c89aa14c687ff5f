//! The instance's SCN: a Lamport clock. Whatever SCN is read anywhere raises it (hazard H8).

use std::sync::atomic::{AtomicU64, Ordering};

use block::Scn;

/// The clock. `SeqCst` throughout: it orders commits against snapshots.
#[derive(Debug)]
pub struct ScnClock(AtomicU64);

impl ScnClock {
    #[must_use]
    pub fn new(start: Scn) -> ScnClock {
        ScnClock(AtomicU64::new(start.0))
    }

    #[must_use]
    pub fn current(&self) -> Scn {
        Scn(self.0.load(Ordering::SeqCst))
    }

    /// A new SCN, above every one seen so far.
    pub fn tick(&self) -> Scn {
        Scn(self.0.fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The clock is at least `seen` from now on.
    pub fn raise(&self, seen: Scn) {
        self.0.fetch_max(seen.0, Ordering::SeqCst);
    }
}
