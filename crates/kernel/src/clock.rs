//! The instance's SCN: a Lamport clock. Whatever SCN is read anywhere raises it (hazard H8).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use block::Scn;

use crate::shown::Shown;

/// The clock. `SeqCst` throughout: it orders commits against snapshots.
pub struct ScnClock {
    own: AtomicU64,
    /// Where it stands instead, once others of the machine may raise it.
    shown: OnceLock<Arc<Shown>>,
}

impl ScnClock {
    #[must_use]
    pub fn new(start: Scn) -> ScnClock {
        ScnClock { own: AtomicU64::new(start.0), shown: OnceLock::new() }
    }

    /// Moves it to where others may raise it; before anything runs that draws SCNs.
    pub(crate) fn show(&self, shown: &Arc<Shown>) {
        shown.clock().fetch_max(self.current().0, Ordering::SeqCst);
        let _ = self.shown.set(shown.clone());
    }

    fn word(&self) -> &AtomicU64 {
        self.shown.get().map_or(&self.own, |shown| shown.clock())
    }

    #[must_use]
    pub fn current(&self) -> Scn {
        Scn(self.word().load(Ordering::SeqCst))
    }

    /// A new SCN, above every one seen so far.
    pub fn tick(&self) -> Scn {
        Scn(self.word().fetch_add(1, Ordering::SeqCst) + 1)
    }

    /// The clock is at least `seen` from now on.
    pub fn raise(&self, seen: Scn) {
        self.word().fetch_max(seen.0, Ordering::SeqCst);
    }
}
