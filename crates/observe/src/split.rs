//! Where the time of every block that came from another instance was spent.
//!
//! The asker records what the Block message brought back: time in the master's queue, for the block
//! servers (LMS) of master and sender, to build, to wait for pins and for the log writer. What is
//! left of the total is the interconnect. Behind
//! `v$instance_cache_transfer` and `v$gc_wait_split`. Promises that the parts of a block, and of
//! every sum, are together the total: what others measured outside of that is in none. What it must
//! never do: estimate; a part that was not measured stays 0 and is counted as interconnect.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Instances that can be told apart; an instance number above is counted as 0.
const INSTANCES: usize = 9;
/// Ways in which a block can come: [`TransferHow`].
const HOWS: usize = 4;
/// Parts of a transfer's time.
const PARTS: usize = 8;

/// What was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferKind {
    Cr,
    Current,
}

/// How the block came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferHow {
    TwoWay,
    ThreeWay,
    /// Late: pinned or flushed.
    Busy,
    /// Later still, because the request waited for block servers: longer than 1 ms, and longer than
    /// for pins and flushes.
    Congested,
}

/// Class of the block, as coarse as the field's report has it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TransferClass {
    Data,
    UndoHeader,
    UndoBlock,
    Other,
}

impl TransferClass {
    pub const ALL: [TransferClass; 4] = [
        TransferClass::Data,
        TransferClass::UndoHeader,
        TransferClass::UndoBlock,
        TransferClass::Other,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            TransferClass::Data => "data block",
            TransferClass::UndoHeader => "undo header",
            TransferClass::UndoBlock => "undo block",
            TransferClass::Other => "others",
        }
    }
}

/// Parts of one transfer in µs.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct TransferTimes {
    /// From the request to the block's arrival.
    pub total_us: u64,
    /// At the master, behind others who wanted the block.
    pub master_queue_us: u64,
    /// For the master's block server, if that is not the sender.
    pub master_lms_us: u64,
    /// For the sender's block server.
    pub lms_us: u64,
    pub build_us: u64,
    pub pin_us: u64,
    pub flush_us: u64,
    /// Arrived, for the asker's block server.
    pub own_lms_us: u64,
}

impl TransferTimes {
    /// The same, with what lies within the total of each part. The total ends with the last part,
    /// so it is the first ones that were over, or under way, when it began: of an earlier request,
    /// or by another host's clock.
    #[must_use]
    pub fn within_total(mut self) -> TransferTimes {
        let mut left = self.total_us;
        let latest_first = [
            &mut self.own_lms_us,
            &mut self.flush_us,
            &mut self.pin_us,
            &mut self.build_us,
            &mut self.lms_us,
            &mut self.master_queue_us,
            &mut self.master_lms_us,
        ];
        for part in latest_first {
            *part = (*part).min(left);
            left -= *part;
        }
        self
    }

    /// What no server accounts for: the network and the two hosts' network stacks.
    #[must_use]
    pub fn interconnect_us(&self) -> u64 {
        self.parts()[0]
    }

    /// Together they are the total.
    fn parts(&self) -> [u64; PARTS] {
        let of = self.within_total();
        let accounted = [
            of.master_queue_us,
            of.master_lms_us,
            of.lms_us,
            of.build_us,
            of.pin_us,
            of.flush_us,
            of.own_lms_us,
        ];
        let mut parts = [of.total_us - accounted.iter().sum::<u64>(); PARTS];
        parts[1..].copy_from_slice(&accounted);
        parts
    }
}

#[derive(Default)]
struct Cell {
    how_count: [AtomicU64; HOWS],
    how_us: [AtomicU64; HOWS],
    parts_us: [AtomicU64; PARTS],
    flushes: AtomicU64,
    max_us: AtomicU64,
}

/// Sums of the transfers from one instance, of one kind and class.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct TransferTotals {
    /// Counts and times by [`TransferHow`], in its order.
    pub how_count: [u64; HOWS],
    pub how_us: [u64; HOWS],
    pub total_us: u64,
    pub interconnect_us: u64,
    pub master_queue_us: u64,
    pub master_lms_us: u64,
    pub lms_us: u64,
    pub build_us: u64,
    pub pin_us: u64,
    pub flush_us: u64,
    pub own_lms_us: u64,
    /// Transfers that waited for the log writer.
    pub flushes: u64,
    pub max_us: u64,
}

impl TransferTotals {
    /// How many transfers.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.how_count.iter().sum()
    }
}

/// One row of the split.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransferRow {
    /// The instance that served.
    pub instance: u8,
    pub kind: TransferKind,
    pub class: TransferClass,
    pub totals: TransferTotals,
}

/// Sums by serving instance, kind and class.
pub struct BlockWaitSplit {
    cells: Box<[Cell]>,
}

impl Default for BlockWaitSplit {
    fn default() -> Self {
        let count = INSTANCES * 2 * TransferClass::ALL.len();
        BlockWaitSplit { cells: (0..count).map(|_| Cell::default()).collect() }
    }
}

impl BlockWaitSplit {
    fn cell(&self, instance: u8, kind: TransferKind, class: TransferClass) -> &Cell {
        let instance = usize::from(instance);
        let instance = if instance < INSTANCES { instance } else { 0 };
        &self.cells[(instance * 2 + kind as usize) * TransferClass::ALL.len() + class as usize]
    }

    /// Counts one transfer served by `instance`.
    pub fn record(
        &self,
        instance: u8,
        kind: TransferKind,
        class: TransferClass,
        how: TransferHow,
        times: &TransferTimes,
    ) {
        let cell = self.cell(instance, kind, class);
        cell.how_count[how as usize].fetch_add(1, Relaxed);
        cell.how_us[how as usize].fetch_add(times.total_us, Relaxed);
        for (sum, part) in cell.parts_us.iter().zip(times.parts()) {
            sum.fetch_add(part, Relaxed);
        }
        if times.within_total().flush_us > 0 {
            cell.flushes.fetch_add(1, Relaxed);
        }
        cell.max_us.fetch_max(times.total_us, Relaxed);
    }

    /// The rows that have counted anything, by instance, kind and class.
    #[must_use]
    pub fn rows(&self) -> Vec<TransferRow> {
        let mut rows = Vec::new();
        for instance in 0..INSTANCES as u8 {
            for kind in [TransferKind::Cr, TransferKind::Current] {
                for class in TransferClass::ALL {
                    let totals = self.cell(instance, kind, class).totals();
                    if totals.how_count.iter().any(|n| *n > 0) {
                        rows.push(TransferRow { instance, kind, class, totals });
                    }
                }
            }
        }
        rows
    }
}

impl Cell {
    fn totals(&self) -> TransferTotals {
        let parts: [u64; PARTS] = std::array::from_fn(|i| self.parts_us[i].load(Relaxed));
        let [interconnect, master_queue, master_lms, lms, build, pin, flush, own_lms] = parts;
        TransferTotals {
            how_count: std::array::from_fn(|i| self.how_count[i].load(Relaxed)),
            how_us: std::array::from_fn(|i| self.how_us[i].load(Relaxed)),
            // Not a sum of its own: a transfer may be counted just now.
            total_us: parts.iter().sum(),
            interconnect_us: interconnect,
            master_queue_us: master_queue,
            master_lms_us: master_lms,
            lms_us: lms,
            build_us: build,
            pin_us: pin,
            flush_us: flush,
            own_lms_us: own_lms,
            flushes: self.flushes.load(Relaxed),
            max_us: self.max_us.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(totals: &TransferTotals) -> u64 {
        totals.interconnect_us
            + totals.master_queue_us
            + totals.master_lms_us
            + totals.lms_us
            + totals.build_us
            + totals.pin_us
            + totals.flush_us
            + totals.own_lms_us
    }

    #[test]
    fn of_parts_that_are_longer_than_the_total_the_last_ones_count() {
        let times = TransferTimes {
            total_us: 4,
            master_queue_us: 5,
            master_lms_us: 20,
            lms_us: 40,
            flush_us: 1,
            own_lms_us: 2,
            ..TransferTimes::default()
        };
        let expected = TransferTimes {
            total_us: 4,
            lms_us: 1,
            flush_us: 1,
            own_lms_us: 2,
            ..TransferTimes::default()
        };
        assert_eq!(times.within_total(), expected);
        assert_eq!(times.interconnect_us(), 0);
        let at_once = TransferTimes { total_us: 0, ..times };
        assert_eq!(at_once.within_total(), TransferTimes::default());
    }

    #[test]
    fn the_parts_are_the_total_whatever_was_measured() {
        let split = BlockWaitSplit::default();
        let (mut seed, mut total_us) = (7_u64, 0);
        let mut next = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for _ in 0..2_000 {
            let longest = [1, 10, 100, 1_000][next(4) as usize];
            let times = TransferTimes {
                total_us: next(1_000),
                master_queue_us: next(longest),
                master_lms_us: next(longest),
                lms_us: next(longest),
                build_us: next(longest),
                pin_us: next(longest),
                flush_us: next(longest),
                own_lms_us: next(longest),
            };
            assert_eq!(times.parts().iter().sum::<u64>(), times.total_us, "{times:?}");
            let within = times.within_total();
            assert_eq!(within.within_total(), within, "{times:?}");
            let (kind, class) = (TransferKind::Current, TransferClass::Data);
            split.record(1, kind, class, TransferHow::TwoWay, &times);
            total_us += times.total_us;
        }
        let [row] = split.rows()[..] else { panic!("one row") };
        assert_eq!((row.totals.total_us, sum(&row.totals)), (total_us, total_us));
        assert_eq!(row.totals.how_us[TransferHow::TwoWay as usize], total_us);
    }
}
