//! Space in files: units of 64 KiB, taken and given back under the file map.
//!
//! A unit changes hands only in one redo record together with the header that owns it, so a crash
//! leaves it either free or owned. Nothing here waits for a disk while a block is pinned.

use std::collections::BTreeMap;
use std::sync::Arc;

use block::layout::{self, Kind};
use block::op::Op;
use block::redo::RecordKind;
use block::{Dba, InstanceNo, Mode, Scn, Xid};
use observe::{Ctx, HeldEnqueue, WaitEvent, enq_p1};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;
use tokio::sync::{Mutex, MutexGuard};

use super::insert::Segment;
use super::layout::{
    Extent, FILE_MAP_COUNT, FILE_MAP_UNITS, RESERVED_UNITS, UNIT_BLOCKS, find_run, map_dba, map_of,
    mark_runs, new_file_map, run_is_used,
};
use crate::cache::{Cache, Pin};
use crate::change::Change;
use crate::error::{Error, Result};

/// The file of the undo segments.
pub const UNDO_FILE: u16 = 3;
/// The file of tables and indexes.
pub const DATA_FILE: u16 = 4;
/// A file grows by this part of its size, and at least by [`GROW_BLOCKS_MIN`].
const GROW_PART: u32 = 8;
const GROW_BLOCKS_MIN: u32 = 128;
const GROW_BLOCKS_MAX: u32 = 8192;

/// Space management of one instance.
pub struct Space {
    pub(super) cache: Arc<Cache>,
    pub(super) me: InstanceNo,
    /// Sessions of this instance take units one at a time; instances exclude each other by the
    /// file map's X right.
    units: Mutex<()>,
    /// Insert state of the segments this instance has inserted into. Never evicted: an index block
    /// handed out but not yet formatted is known only here.
    pub(super) segments: RwLock<FxHashMap<(Dba, Scn), Arc<Segment>>>,
}

/// The right to give and take units here, and the enqueue that it is counted as.
type Units<'a> = (MutexGuard<'a, ()>, HeldEnqueue);

/// Units found free, with the file map pinned: nothing has changed yet, and dropping it changes
/// nothing. The holder may pin blocks of the same file (all are above the file map) and commits.
pub struct Reservation<'a> {
    space: &'a Space,
    _units: Units<'a>,
    map: Pin,
    op: Op,
    extent: Extent,
}

impl Reservation<'_> {
    /// The blocks found.
    #[must_use]
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Takes the units and applies `ops` (index into `blocks`, operation) in the same redo record.
    pub fn commit(self, ctx: &Ctx, blocks: &[&Pin], ops: Vec<(usize, Op)>) -> Scn {
        self.commit_and(ctx, blocks, ops, || ())
    }

    /// As `commit`; `then` runs before anybody else may give or take extents.
    pub fn commit_and(
        self,
        ctx: &Ctx,
        blocks: &[&Pin],
        ops: Vec<(usize, Op)>,
        then: impl FnOnce(),
    ) -> Scn {
        let mut pins = Vec::with_capacity(blocks.len() + 1);
        pins.push(&self.map);
        pins.extend_from_slice(blocks);
        let mut change = Change::begin(&self.space.cache, &pins);
        change.push(0, self.op);
        for (i, op) in ops {
            change.push(i + 1, op);
        }
        let scn = change.commit(ctx, Xid::NONE, RecordKind::Change).scn;
        then();
        scn
    }
}

/// How often one request for an extent makes its file longer, at most.
const GROW_TRIES: u32 = 16;

impl Space {
    /// The space manager of instance `me`.
    #[must_use]
    pub fn new(cache: Arc<Cache>, me: InstanceNo) -> Space {
        Space { cache, me, units: Mutex::new(()), segments: RwLock::new(FxHashMap::default()) }
    }

    /// Lays out the file map of a new file of the disk group.
    ///
    /// # Errors
    /// The file is too short for its own map, or the instance closes.
    pub async fn format_file(&self, ctx: &Ctx, file: u16) -> Result<()> {
        let have = self.file_blocks(file)?;
        if have <= RESERVED_UNITS * UNIT_BLOCKS {
            return Err(Error::Invariant(format!("file {file} is too short for its map: {have}")));
        }
        for k in 0..FILE_MAP_COUNT {
            self.cache.log.throttle(ctx).await?;
            let map = self.cache.pin_new(ctx, map_dba(file, k)).await?;
            let reserved = if k == 0 { RESERVED_UNITS } else { 0 };
            let mut change = Change::begin(&self.cache, &[&map]);
            change.push(0, new_file_map(reserved));
            change.commit(ctx, Xid::NONE, RecordKind::Change);
        }
        Ok(())
    }

    pub(super) fn file_blocks(&self, file: u16) -> Result<u32> {
        let blocks = self.cache.group.file_blocks(file);
        blocks.ok_or_else(|| Error::Invariant(format!("there is no file {file}")))
    }

    /// While the guard lives nobody else of this instance gives or takes extents, of whatever file.
    ///
    /// # Errors
    /// The session was interrupted.
    pub async fn lock(&self, ctx: &Ctx, file: u16) -> Result<impl Sized + use<'_>> {
        self.units(ctx, file).await
    }

    async fn units(&self, ctx: &Ctx, file: u16) -> Result<Units<'_>> {
        let p = [enq_p1(*b"TS", 6), u64::from(file), 0];
        let request = ctx.ask_enqueue(WaitEvent::EnqTs);
        let units = ctx.wait_or_cancel(WaitEvent::EnqTs, p, self.units.lock()).await?;
        Ok((units, request.granted()))
    }

    /// Finds `blocks` free blocks side by side, growing the file if there are none.
    ///
    /// # Errors
    /// [`Error::DiskFull`]: the disk group has no room; nothing has changed.
    pub async fn reserve(&self, ctx: &Ctx, file: u16, blocks: u32) -> Result<Reservation<'_>> {
        debug_assert!(blocks > 0 && blocks.is_multiple_of(UNIT_BLOCKS));
        let units = self.units(ctx, file).await?;
        let mut grown = 0;
        loop {
            if let Some((map, run)) = self.find_units(ctx, file, blocks / UNIT_BLOCKS).await? {
                let op = mark_runs(&map.read(), &[run], true);
                let k = map.dba().block - map_dba(file, 0).block;
                let first = Dba::new(file, (k * FILE_MAP_UNITS + run.0) * UNIT_BLOCKS);
                let extent = Extent { first, blocks };
                return Ok(Reservation { space: self, _units: units, map, op, extent });
            }
            if grown > GROW_TRIES {
                let what = format!("file {file} has no {blocks} blocks side by side");
                return Err(Error::DiskFull { what });
            }
            // What was added may have gone to another instance: the group says when it is full.
            grown += u32::from(self.grow(ctx, file, blocks).await?);
        }
    }

    async fn find_units(
        &self,
        ctx: &Ctx,
        file: u16,
        units: u32,
    ) -> Result<Option<(Pin, (u32, u32))>> {
        let file_units = self.file_blocks(file)? / UNIT_BLOCKS;
        for k in 0..FILE_MAP_COUNT.min(file_units.div_ceil(FILE_MAP_UNITS)) {
            self.cache.log.throttle(ctx).await?;
            let map = self.cache.pin(ctx, map_dba(file, k), Mode::X).await?;
            let limit = FILE_MAP_UNITS.min(file_units - k * FILE_MAP_UNITS);
            let found = {
                let b = map.read();
                if layout::kind(&b) != Kind::FileMap {
                    let what = "it is not a file map".to_owned();
                    return Err(Error::Corrupt { dba: map.dba(), what });
                }
                find_run(&b, units, limit)
            };
            if let Some(first) = found {
                return Ok(Some((map, (first, units))));
            }
        }
        Ok(None)
    }

    /// Makes the file longer (`true`), or learns that another instance has done so.
    async fn grow(&self, ctx: &Ctx, file: u16, blocks: u32) -> Result<bool> {
        let group = &self.cache.group;
        let before = self.file_blocks(file)?;
        let event = WaitEvent::DataFileInitWrite;
        ctx.wait(event, [1, 0, 0], group.refresh()).await?;
        if self.file_blocks(file)? > before {
            return Ok(false);
        }
        let limit = FILE_MAP_COUNT * FILE_MAP_UNITS * UNIT_BLOCKS;
        // Twice: an aligned run may need as much again.
        let least = (2 * blocks).max(GROW_BLOCKS_MIN);
        let more = (before / GROW_PART).clamp(least, least.max(GROW_BLOCKS_MAX));
        if before.saturating_add(more) > limit {
            let what = format!("file {file} has reached its limit of {limit} blocks");
            return Err(Error::DiskFull { what });
        }
        match ctx.wait(event, [1, 0, 0], group.extend_file(file, more)).await {
            Err(disk::Error::Full { .. }) if more > GROW_BLOCKS_MIN => {
                let least = blocks.max(GROW_BLOCKS_MIN);
                ctx.wait(event, [1, 0, 0], group.extend_file(file, least)).await?;
            }
            other => drop(other?),
        }
        Ok(true)
    }

    /// Gives extents back; `owner`, pinned above all file maps, changes in the same redo record.
    ///
    /// # Errors
    /// A unit is free already: the space books are wrong.
    pub(super) async fn release(
        &self,
        ctx: &Ctx,
        extents: &[Extent],
        owner: Option<(Dba, ReleaseCheck<'_>)>,
    ) -> Result<()> {
        let _units = self.units(ctx, 0).await?;
        let mut runs: BTreeMap<Dba, Vec<(u32, u32)>> = BTreeMap::new();
        for e in extents {
            let (map, unit) = map_of(e.first.file, e.first.block);
            runs.entry(map).or_default().push((unit, e.blocks / UNIT_BLOCKS));
        }
        self.cache.log.throttle(ctx).await?;
        let mut pins = Vec::with_capacity(runs.len() + 1);
        for map in runs.keys() {
            pins.push(self.cache.pin(ctx, *map, Mode::X).await?);
        }
        let mut ops = Vec::with_capacity(pins.len() + 1);
        for (pin, runs) in pins.iter().zip(runs.values()) {
            let b = pin.read();
            if let Some(run) = runs.iter().find(|run| !run_is_used(&b, **run)) {
                let what = format!("unit {} is free already", run.0);
                return Err(Error::Corrupt { dba: pin.dba(), what });
            }
            ops.push(mark_runs(&b, runs, false));
        }
        if let Some((dba, check)) = owner {
            let pin = self.cache.pin(ctx, dba, Mode::X).await?;
            let op = check(&pin.read())?;
            pins.push(pin);
            ops.push(op);
        }
        let pins: Vec<&Pin> = pins.iter().collect();
        let mut change = Change::begin(&self.cache, &pins);
        for (i, op) in ops.into_iter().enumerate() {
            change.push(i, op);
        }
        change.commit(ctx, Xid::NONE, RecordKind::Change);
        Ok(())
    }

    /// Gives extents back.
    ///
    /// # Errors
    /// A unit is free already, or the session was interrupted.
    pub async fn free_extents(&self, ctx: &Ctx, extents: &[Extent]) -> Result<()> {
        self.release(ctx, extents, None).await
    }
}

/// Looks at the owner's block once more, pinned, and says how it changes.
pub(super) type ReleaseCheck<'a> = &'a (dyn Fn(&[u8]) -> Result<Op> + Sync);
