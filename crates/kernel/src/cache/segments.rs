//! Work counted by segment and by data file: behind `v$segstat` and `v$filestat`.
//!
//! Promises: a block get costs a plain store in the buffer's header, which the get touches anyway;
//! all that is counted with a lock belongs to I/O, to messages or to waits. Gets of a block by
//! several sessions at the same instant may count as one. Must never be read by who decides
//! something.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use block::{ObjId, layout};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;

use super::buffer::Buffer;
use super::pool::Cache;

/// What is counted of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SegmentStat {
    LogicalReads,
    DbBlockChanges,
    PhysicalReads,
    PhysicalWrites,
    SegmentScans,
    ItlWaits,
    RowLockWaits,
    BufferBusyWaits,
    GcBufferBusy,
    GcCrBlocksReceived,
    GcCurrentBlocksReceived,
}

impl SegmentStat {
    pub const ALL: [SegmentStat; SEGMENT_STATS] = [
        SegmentStat::LogicalReads,
        SegmentStat::DbBlockChanges,
        SegmentStat::PhysicalReads,
        SegmentStat::PhysicalWrites,
        SegmentStat::SegmentScans,
        SegmentStat::ItlWaits,
        SegmentStat::RowLockWaits,
        SegmentStat::BufferBusyWaits,
        SegmentStat::GcBufferBusy,
        SegmentStat::GcCrBlocksReceived,
        SegmentStat::GcCurrentBlocksReceived,
    ];

    /// The field's name of it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            SegmentStat::LogicalReads => "logical reads",
            SegmentStat::DbBlockChanges => "db block changes",
            SegmentStat::PhysicalReads => "physical reads",
            SegmentStat::PhysicalWrites => "physical writes",
            SegmentStat::SegmentScans => "segment scans",
            SegmentStat::ItlWaits => "ITL waits",
            SegmentStat::RowLockWaits => "row lock waits",
            SegmentStat::BufferBusyWaits => "buffer busy waits",
            SegmentStat::GcBufferBusy => "gc buffer busy",
            SegmentStat::GcCrBlocksReceived => "gc cr blocks received",
            SegmentStat::GcCurrentBlocksReceived => "gc current blocks received",
        }
    }
}

const SEGMENT_STATS: usize = 11;
const SHARDS: usize = 16;

/// Counts of one segment, in the order of [`SegmentStat::ALL`].
pub type SegmentCounts = [u64; SEGMENT_STATS];

/// Counts by segment.
#[derive(Default)]
pub(crate) struct Segments {
    shards: [Mutex<FxHashMap<ObjId, SegmentCounts>>; SHARDS],
}

impl Segments {
    pub fn add(&self, obj: ObjId, stat: SegmentStat, n: u64) {
        let mut shard = self.shards[obj.0 as usize % SHARDS].lock();
        shard.entry(obj).or_default()[stat as usize] += n;
    }

    fn all(&self) -> FxHashMap<ObjId, SegmentCounts> {
        let mut all = FxHashMap::default();
        for shard in &self.shards {
            all.extend(shard.lock().iter().map(|(obj, counts)| (*obj, *counts)));
        }
        all
    }
}

/// Data files whose I/O is told apart.
const FILES: usize = 8;

#[derive(Default)]
struct File {
    reads: AtomicU64,
    blocks_read: AtomicU64,
    read_us: AtomicU64,
    single_reads: AtomicU64,
    single_read_us: AtomicU64,
    blocks_written: AtomicU64,
}

/// I/O of one data file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FileCounts {
    pub file: u16,
    /// Read requests, the blocks of them, and their time.
    pub reads: u64,
    pub blocks_read: u64,
    pub read_us: u64,
    /// Those of a single block.
    pub single_reads: u64,
    pub single_read_us: u64,
    pub blocks_written: u64,
}

/// I/O by file.
#[derive(Default)]
pub(crate) struct Files([File; FILES]);

impl Files {
    pub fn read(&self, file: u16, blocks: u32, us: u64) {
        let Some(of) = self.0.get(usize::from(file)) else { return };
        of.reads.fetch_add(1, Relaxed);
        of.blocks_read.fetch_add(u64::from(blocks), Relaxed);
        of.read_us.fetch_add(us, Relaxed);
        if blocks == 1 {
            of.single_reads.fetch_add(1, Relaxed);
            of.single_read_us.fetch_add(us, Relaxed);
        }
    }

    pub fn written(&self, file: u16) {
        if let Some(of) = self.0.get(usize::from(file)) {
            of.blocks_written.fetch_add(1, Relaxed);
        }
    }
}

impl Cache {
    /// Adds what has been counted in a buffer's header to the segment of the image that is leaving
    /// it, or is to be another's. Under the buffer's latch.
    pub(crate) fn settle_counts(&self, buffer: &Buffer, image: &[u8]) {
        let (gets, changes) = buffer.counts.take();
        let obj = layout::obj(image);
        for (stat, n) in [(SegmentStat::LogicalReads, gets), (SegmentStat::DbBlockChanges, changes)]
        {
            if n > 0 {
                self.common.segments.add(obj, stat, n);
            }
        }
    }

    /// Counts of all segments this instance has had to do with, by object.
    #[must_use]
    pub fn segment_counts(&self) -> Vec<(ObjId, SegmentCounts)> {
        let mut all = self.common.segments.all();
        for buffer in self.buffers() {
            let latched = buffer.latch().read();
            let Some(image) = latched.image.as_ref() else { continue };
            let (gets, changes) = buffer.counts.get();
            if gets > 0 || changes > 0 {
                let counts = all.entry(layout::obj(image)).or_default();
                counts[SegmentStat::LogicalReads as usize] += gets;
                counts[SegmentStat::DbBlockChanges as usize] += changes;
            }
        }
        let mut all: Vec<_> = all.into_iter().collect();
        all.sort_unstable_by_key(|(obj, _)| *obj);
        all
    }

    /// I/O of the data files that there was any of.
    #[must_use]
    pub fn file_counts(&self) -> Vec<FileCounts> {
        let get = |n: &AtomicU64| n.load(Relaxed);
        let all = self.files.0.iter().zip(0..);
        let counts = all.map(|(of, file)| FileCounts {
            file,
            reads: get(&of.reads),
            blocks_read: get(&of.blocks_read),
            read_us: get(&of.read_us),
            single_reads: get(&of.single_reads),
            single_read_us: get(&of.single_read_us),
            blocks_written: get(&of.blocks_written),
        });
        counts.filter(|of| of.reads > 0 || of.blocks_written > 0).collect()
    }
}
