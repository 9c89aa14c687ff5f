//! Rare places of the code, as the simulator sees them.
//!
//! A *mark* counts how often a place is passed: a long search says which it never was at, and a
//! scenario can end an instance exactly there. A *point* is a place where a simulated run sometimes
//! takes the rare branch or is slow; each is on or off for a whole run, so that seeds differ in
//! kind. Both stand here, each with its meaning, and `cargo x tidy` finds those that no code uses.
//!
//! Without the feature `marks` nothing is counted and no point is ever taken: the calls are
//! constants and compiled away. With it they belong to the thread, as a simulated world does. The
//! pure crates have neither: there the order of events is the fault.

/// Names a registry of places.
macro_rules! marks {
    ($(#[$doc:meta])* $kind:ident: $($name:ident: $text:literal, $means:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        pub enum $kind {
            $(#[doc = $means] $name,)*
        }

        impl $kind {
            pub const ALL: &[$kind] = &[$($kind::$name,)*];

            /// As reports and scenario files name it.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $($kind::$name => $text,)* }
            }

            /// What happens there.
            #[must_use]
            pub const fn meaning(self) -> &'static str {
                match self { $($kind::$name => $means,)* }
            }

            /// Inverse of `name`.
            #[must_use]
            pub fn of_name(name: &str) -> Option<$kind> {
                $kind::ALL.iter().copied().find(|one| one.name() == name)
            }
        }
    };
}

marks! {
    /// A place that is counted.
    Mark:
    EpochMarkersSent: "epoch.markers_sent", "an old epoch is closed: nothing of it is sent any more";
    EpochEntered: "epoch.entered", "a new epoch is in force here";
    EpochRebuilding: "epoch.rebuilding", "the directory is about to be made from reports";
    EpochThawed: "epoch.thawed", "requests for blocks go on";
    RecoveryScanBegun: "recovery.scan_begun", "a dead thread's redo is about to be read";
    RecoveryScanDone: "recovery.scan_done", "it has been read; masters are about to be told";
    RecoveryTornRestored: "recovery.torn_restored", "a torn block was made whole from the double-write area";
    RecoveryBaseAsked: "recovery.base_asked", "a survivor was asked for its past image as a base";
    RecoveryBlocksBuilt: "recovery.blocks_built", "blocks are rebuilt in memory, none written yet";
    RecoveryBlocksWritten: "recovery.blocks_written", "rebuilt blocks are on disk, nobody knows yet";
    RecoveryUndoAdopted: "recovery.undo_adopted", "undo segments of the dead were taken over";
    RecoveryThreadsClosing: "recovery.threads_closing", "the dead threads' redo is about to be given up";
    RecoveryRollingBack: "recovery.rolling_back", "a transaction that the dead have left is about to be rolled back";
    RecoveryRolledBack: "recovery.rolled_back", "it has been rolled back";
    RecoveryOvertaken: "recovery.overtaken", "a step of recovery found a later epoch in force";
    GrantRefused: "gcs.grant_refused", "a request had to be repeated, since nothing came in time";
    PastImageCompared: "gcs.past_image_compared", "a past image was compared with disk";
    FlushBeforeShip: "gcs.flush_before_ship", "a block waited for its redo before it left";
    CopyFlushed: "gcs.copy_flushed", "a consistent copy waited for the holder's redo";
    LogSwitched: "redo.log_switched", "a log file was full and the next one was begun";
    LogFull: "redo.log_full", "the next log file still held redo that a checkpoint needs";
    RedoTwoFlights: "redo.two_flights", "a stretch of redo was written while another one still was";
    SplitFinished: "btree.split_finished", "who came by a link that no parent knew of saw to the parent's entry";
    RootGrew: "btree.root_grew", "a tree got a level more";
    ListGrew: "block.itl_grew", "a block's list of transactions grew";
    ListFull: "block.itl_full", "a change waited for an entry in a block's full list of transactions";
    UndoReused: "undo.extent_reused", "an undo extent was used again";
    SpaceExtended: "space.extended", "a segment took a new extent";
    Deadlock: "txn.deadlock", "a deadlock was found, and one of its transactions chosen";
}

/// As `marks!`: of its own name, so that what looks through the sources finds either.
macro_rules! points {
    ($($all:tt)*) => { marks! { $($all)* } };
}

points! {
    /// A place where the rare branch may be taken.
    Point:
    LogWriteSlow: "redo.write_slow", "a stretch of redo takes some milliseconds longer to be written";
    CopyGivesUp: "read.copy_gives_up", "the holder of a block hands a consistent copy over unfinished";
    SplitAbandoned: "btree.split_abandoned", "a split is left half done, as by one who was interrupted";
    RecoveryStepSlow: "recovery.step_slow", "a step of recovery takes some milliseconds longer";
    MessageLate: "gcs.message_late", "a block server falls asleep before it handles a message";
}

#[cfg(feature = "marks")]
pub use self::on::{begin, counts, end_at, taken_points};

#[cfg(feature = "marks")]
mod on {
    use std::cell::RefCell;
    use std::hash::{Hash, Hasher};

    use super::{Mark, Point};

    /// Of four points one is on in a run.
    const POINTS_ON_OF: u64 = 4;
    /// Of so many times that a point which is on is passed, its rare branch is taken once.
    const TAKEN_OF: u64 = 8;

    #[derive(Default)]
    struct State {
        counts: Vec<u64>,
        taken: Vec<u64>,
        on: Vec<bool>,
        random: u64,
        /// Who reaches this mark for the so-manieth time ends there.
        ends_at: Option<(Mark, u32)>,
        ended: bool,
    }

    thread_local! {
        static STATE: RefCell<State> = RefCell::default();
    }

    /// The next of a sequence of numbers that look random (splitmix64).
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = *state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A run begins in this thread: nothing has been reached, and the seed chooses its points, if
    /// it is to have any.
    pub fn begin(seed: u64, points: bool) {
        let mut hasher = std::hash::DefaultHasher::new();
        ("points", seed).hash(&mut hasher);
        let mut random = hasher.finish();
        let mut chosen = || points && next(&mut random).is_multiple_of(POINTS_ON_OF);
        let on = Point::ALL.iter().map(|_| chosen()).collect();
        let counts = vec![0; Mark::ALL.len()];
        let taken = vec![0; Point::ALL.len()];
        STATE.set(State { counts, taken, on, random, ends_at: None, ended: false });
    }

    /// How often each mark has been reached since `begin`.
    #[must_use]
    pub fn counts() -> Vec<(Mark, u64)> {
        STATE.with_borrow(|s| Mark::ALL.iter().copied().zip(s.counts.iter().copied()).collect())
    }

    /// How often the rare branch of each point has been taken since `begin`.
    #[must_use]
    pub fn taken_points() -> Vec<(Point, u64)> {
        STATE.with_borrow(|s| Point::ALL.iter().copied().zip(s.taken.iter().copied()).collect())
    }

    /// Whoever reaches `mark` for the so-manieth time from now on ends at its next await; `None`:
    /// nobody does.
    pub fn end_at(mark: Option<(Mark, u32)>) {
        STATE.with_borrow_mut(|s| {
            s.ends_at = mark;
            s.ended = false;
        });
    }

    pub(super) fn reached(mark: Mark) {
        STATE.with_borrow_mut(|s| {
            if let Some(count) = s.counts.get_mut(mark as usize) {
                *count += 1;
            }
            if let Some((wanted, left)) = &mut s.ends_at
                && *wanted == mark
            {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    s.ends_at = None;
                    s.ended = true;
                }
            }
        });
    }

    pub(super) fn is_taken(point: Point) -> bool {
        STATE.with_borrow_mut(|s| {
            let on = s.on.get(point as usize).copied().unwrap_or(false);
            let taken = on && next(&mut s.random).is_multiple_of(TAKEN_OF);
            if taken {
                s.taken[point as usize] += 1;
            }
            taken
        })
    }

    /// Whether who has just run is to end where it stands.
    pub(crate) fn ends_here() -> bool {
        STATE.with_borrow_mut(|s| std::mem::take(&mut s.ended))
    }
}

#[cfg(feature = "marks")]
pub(crate) use self::on::ends_here;

/// This place has been passed.
#[inline(always)]
pub fn reached(mark: Mark) {
    #[cfg(feature = "marks")]
    on::reached(mark);
    #[cfg(not(feature = "marks"))]
    let _ = mark;
}

/// Whether the rare branch is to be taken here: never, outside a simulated run.
#[inline(always)]
#[must_use]
pub fn is_taken(point: Point) -> bool {
    #[cfg(feature = "marks")]
    return on::is_taken(point);
    #[cfg(not(feature = "marks"))]
    {
        let _ = point;
        false
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_are_different_and_lead_back() {
        let marks: BTreeSet<&str> = Mark::ALL.iter().map(|m| m.name()).collect();
        assert_eq!(marks.len(), Mark::ALL.len());
        assert!(Mark::ALL.iter().all(|m| Mark::of_name(m.name()) == Some(*m)));
        let points: BTreeSet<&str> = Point::ALL.iter().map(|p| p.name()).collect();
        assert_eq!(points.len(), Point::ALL.len());
        assert!(Point::ALL.iter().all(|p| Point::of_name(p.name()) == Some(*p)));
    }

    #[cfg(not(feature = "marks"))]
    #[test]
    fn an_ordinary_build_takes_no_point() {
        reached(Mark::Deadlock);
        assert!(Point::ALL.iter().all(|p| !is_taken(*p)));
    }

    #[cfg(feature = "marks")]
    #[test]
    fn a_run_counts_its_marks_and_takes_the_points_of_its_seed() {
        begin(1, false);
        reached(Mark::Deadlock);
        reached(Mark::Deadlock);
        assert_eq!(counts()[Mark::Deadlock as usize], (Mark::Deadlock, 2));
        assert!(Point::ALL.iter().all(|p| (0..100).all(|_| !is_taken(*p))));
        let taken = |seed| {
            begin(seed, true);
            let some = |p: &&Point| (0..200).any(|_| is_taken(**p));
            Point::ALL.iter().filter(some).copied().collect::<Vec<_>>()
        };
        assert_eq!(taken(7), taken(7));
        let all: BTreeSet<Point> = (1..100).flat_map(taken).collect();
        assert_eq!(all.len(), Point::ALL.len());
        assert!((1..100).any(|seed| taken(seed).is_empty()));
    }

    #[cfg(feature = "marks")]
    #[test]
    fn the_so_manieth_who_reaches_a_mark_ends_there_once() {
        begin(1, false);
        end_at(Some((Mark::LogFull, 2)));
        reached(Mark::LogFull);
        assert!(!ends_here());
        reached(Mark::LogFull);
        assert!(ends_here());
        reached(Mark::LogFull);
        assert!(!ends_here());
    }
}
