//! Work counted by segment and by data file: behind `v$segstat` and `v$filestat`.
//!
//! Promises: a block get costs a plain store in the buffer's header, which the get touches anyway;
//! all that is counted with a lock belongs to I/O, to messages or to waits. Gets of a block by
//! several sessions at the same instant may count as one. Must never be read by who decides
//! something.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use block::{Dba, ObjId};
use env::IoBuf;
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
    PhysicalReadRequests,
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
        SegmentStat::PhysicalReadRequests,
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
            SegmentStat::PhysicalReadRequests => "physical read requests",
        }
    }
}

const SEGMENT_STATS: usize = 12;
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
    writes: AtomicU64,
    blocks_written: AtomicU64,
    write_us: AtomicU64,
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
    /// Write requests, the blocks of them, and their part of the time of the batches that they were
    /// made in.
    pub writes: u64,
    pub blocks_written: u64,
    pub write_us: u64,
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

    /// A batch has been written in so many microseconds, its blocks in order: those that follow one
    /// another were one request.
    pub fn written(&self, batch: &[Dba], us: u64) {
        let mut begin = 0;
        while begin < batch.len() {
            let file = batch[begin].file;
            let of_file = batch[begin..].iter().take_while(|dba| dba.file == file).count();
            let part = &batch[begin..begin + of_file];
            begin += of_file;
            let Some(of) = self.0.get(usize::from(file)) else { continue };
            let joined = part.windows(2).filter(|two| two[0].block + 1 == two[1].block).count();
            of.writes.fetch_add((of_file - joined) as u64, Relaxed);
            of.blocks_written.fetch_add(of_file as u64, Relaxed);
            of.write_us.fetch_add(us * of_file as u64 / batch.len() as u64, Relaxed);
        }
    }
}

/// The segments of the blocks of a run that have been read whole.
pub(super) fn segments_of(
    run: &[Arc<Buffer>],
    images: &[Option<IoBuf>],
) -> impl Iterator<Item = ObjId> {
    let whole =
        |(buffer, image): (&Arc<Buffer>, &Option<IoBuf>)| Some(buffer.segment_of(image.as_ref()?));
    run.iter().zip(images).filter_map(whole)
}

impl Cache {
    /// Counts the blocks that one request has read, each told by its segment; the request is of the
    /// first one's.
    pub(super) fn count_reads(&self, mut of: impl Iterator<Item = ObjId>) {
        let Some(first) = of.next() else { return };
        let segments = &self.common.segments;
        segments.add(first, SegmentStat::PhysicalReadRequests, 1);
        // Neighbours mostly are of one segment.
        let (mut obj, mut blocks) = (first, 1);
        for next in of {
            if next != obj {
                segments.add(obj, SegmentStat::PhysicalReads, blocks);
                (obj, blocks) = (next, 0);
            }
            blocks += 1;
        }
        segments.add(obj, SegmentStat::PhysicalReads, blocks);
    }

    /// Adds what has been counted in a buffer's header to the segment of the image that is leaving
    /// it, or is to be another's. Under the buffer's latch.
    pub(crate) fn settle_counts(&self, buffer: &Buffer, image: &[u8]) {
        let (gets, changes) = buffer.counts.take();
        let obj = buffer.segment_of(image);
        buffer.forget_sought();
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
                let counts = all.entry(buffer.segment_of(image)).or_default();
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
            writes: get(&of.writes),
            blocks_written: get(&of.blocks_written),
            write_us: get(&of.write_us),
        });
        counts.filter(|of| of.reads > 0 || of.blocks_written > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_that_follow_one_another_are_one_write() {
        let files = Files::default();
        let at = |file, block| Dba { file, block };
        files.written(&[at(3, 7), at(3, 8), at(4, 9), at(4, 20), at(4, 21), at(90, 1)], 600);
        files.written(&[], 5);
        let told = |file: usize| {
            let of = &files.0[file];
            [&of.writes, &of.blocks_written, &of.write_us].map(|n| n.load(Relaxed))
        };
        assert_eq!((told(3), told(4), told(5)), ([1, 2, 200], [2, 3, 300], [0, 0, 0]));
    }
}
