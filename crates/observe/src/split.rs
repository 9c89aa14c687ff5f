//! Where the time of every block that came from another instance was spent.
//!
//! The asker records what the Block message brought back: time in the master's queue, for the block
//! servers (LMS) of master and sender, to build, to wait for pins and for the log writer. What is
//! left of the total is the interconnect. Behind
//! `v$instance_cache_transfer` and `v$gc_wait_split`. What it must never do: estimate; a part that
//! was not measured stays 0 and is counted as interconnect.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Instances that can be told apart; an instance number above is counted as 0.
const INSTANCES: usize = 9;
/// Ways in which a block can come: [`TransferHow`].
const HOWS: usize = 4;
/// Parts of a transfer's time, the whole first.
const PARTS: usize = 9;

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

/// Parts of one transfer in µs; `total_us` is from the request to the block's arrival.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct TransferTimes {
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
    /// What no server accounts for: the network and the two hosts' network stacks.
    #[must_use]
    pub fn interconnect_us(&self) -> u64 {
        let at_master = self.master_queue_us + self.master_lms_us;
        let served = self.lms_us + self.build_us + self.pin_us + self.flush_us;
        self.total_us.saturating_sub(at_master + served + self.own_lms_us)
    }

    fn parts(&self) -> [u64; PARTS] {
        [
            self.total_us,
            self.interconnect_us(),
            self.master_queue_us,
            self.master_lms_us,
            self.lms_us,
            self.build_us,
            self.pin_us,
            self.flush_us,
            self.own_lms_us,
        ]
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
        if times.flush_us > 0 {
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
        let [total, interconnect, master_queue, master_lms, lms, build, pin, flush, own_lms] =
            std::array::from_fn(|i| self.parts_us[i].load(Relaxed));
        TransferTotals {
            how_count: std::array::from_fn(|i| self.how_count[i].load(Relaxed)),
            how_us: std::array::from_fn(|i| self.how_us[i].load(Relaxed)),
            total_us: total,
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
