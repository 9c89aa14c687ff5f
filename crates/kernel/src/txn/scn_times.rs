//! Which SCN was current when: for queries as of a time.
//!
//! Promises: the SCN of a moment is one that was current up to [`GAP_MAX_US`] before it, most often
//! less than a second; moments of the last day since the instance was opened are known. Must never
//! guess an SCN for a time at which nobody looked.

use std::collections::VecDeque;

use block::Scn;
use parking_lot::Mutex;

/// How long before a moment the look may be whose SCN it gets, µs.
pub const GAP_MAX_US: i64 = 3_000_000;
/// Looks of a day, one each second.
const LOOKS_MAX: usize = 86_400;

#[derive(Clone, Copy, Debug)]
struct Look {
    /// Wall clock, µs since 1970.
    wall_us: i64,
    scn: Scn,
}

/// The clock's readings of the last day, the newest last.
#[derive(Default)]
pub struct ScnTimes(Mutex<VecDeque<Look>>);

impl ScnTimes {
    /// Notes what the clock shows now. Where the wall clock was set back, a moment is the later of
    /// the two that went by its time.
    pub fn note(&self, wall_us: i64, scn: Scn) {
        let mut looks = self.0.lock();
        while looks.back().is_some_and(|last| last.wall_us >= wall_us) {
            looks.pop_back();
        }
        if looks.len() == LOOKS_MAX {
            looks.pop_front();
        }
        looks.push_back(Look { wall_us, scn });
    }

    /// The SCN of a moment: of the last look at or before it. `None`: there was none shortly
    /// before.
    #[must_use]
    pub fn scn_at(&self, wall_us: i64) -> Option<Scn> {
        let looks = self.0.lock();
        let later = looks.partition_point(|look| look.wall_us <= wall_us);
        let look = later.checked_sub(1).map(|at| looks[at]);
        look.filter(|look| wall_us - look.wall_us <= GAP_MAX_US).map(|look| look.scn)
    }

    /// When an SCN was current: the first look that shows it, or a later one. `None`: it was drawn
    /// before the first look, or none has shown it yet.
    #[must_use]
    pub fn time_of(&self, scn: Scn) -> Option<i64> {
        let looks = self.0.lock();
        let first = looks.front()?;
        if scn < first.scn {
            return None;
        }
        let at = looks.partition_point(|look| look.scn < scn);
        looks.get(at).map(|look| look.wall_us)
    }

    /// The earliest moment of which the SCN is known.
    #[must_use]
    pub fn earliest(&self) -> Option<i64> {
        self.0.lock().front().map(|look| look.wall_us)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_has_the_scn_of_the_look_before_it() {
        let times = ScnTimes::default();
        assert_eq!((times.scn_at(5), times.time_of(Scn(1)), times.earliest()), (None, None, None));
        for (wall_us, scn) in [(10, 100), (20, 100), (40, 120), (30, 130)] {
            times.note(wall_us, Scn(scn));
        }
        let at = |wall_us| times.scn_at(wall_us).map(|scn| scn.0);
        assert_eq!(
            [9, 10, 29, 30, 99, 31 + GAP_MAX_US].map(at),
            [None, Some(100), Some(100), Some(130), Some(130), None]
        );
        let of = |scn| times.time_of(Scn(scn));
        assert_eq!([99, 100, 101, 130, 131].map(of), [None, Some(10), Some(30), Some(30), None]);
        assert_eq!(times.earliest(), Some(10));
    }
}
