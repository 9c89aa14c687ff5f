//! Segments: the extents of one table or index, and how far they are in use.
//!
//! Structure is read current, never as of a snapshot. The high-water mark only rises while the
//! segment lives; a block below it belongs to whoever claimed it in the FreeMap.

use env::marks::{self, Mark};
use std::sync::Arc;

use block::layout::{self, Kind};
use block::op::Op;
use block::redo::RecordKind;
use block::{Dba, Mode, ObjId, Scn, Xid};
use observe::Ctx;

use super::files::Space;
use super::insert::Segment;
use super::layout::{
    EXTENT_SIZES, EXTENTS_MAX, ExtentMap, SegmentInfo, SegmentKind, add_extent, expect_block,
    extent_count, free_map_of, free_map_ordinal, header_hwm, new_free_map, new_header,
    next_extent_blocks, read_header, set_hwm,
};
use crate::cache::{Pin, SegmentStat};
use crate::change::Change;
use crate::error::{Error, Result};

/// A segment as the rest of the kernel names it: whose it is, where its header stands, and in which
/// incarnation (an address alone may be another segment by now).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SegmentId {
    pub obj: ObjId,
    pub header: Dba,
    pub birth: Scn,
}

impl SegmentId {
    pub(super) fn check_header(&self, b: &[u8]) -> Result<()> {
        expect_block(b, Kind::SegmentHeader, self.obj, self.birth)
    }

    pub(super) fn check_free_map(&self, b: &[u8]) -> Result<()> {
        expect_block(b, Kind::FreeMap, self.obj, self.birth)
    }
}

/// Pins two blocks in X, the lower address first (hazard H15), and gives them in the order asked.
async fn pin_both(space: &Space, ctx: &Ctx, a: Dba, b: Dba) -> Result<(Pin, Pin)> {
    if a < b {
        let first = space.cache.pin(ctx, a, Mode::X).await?;
        let second = space.cache.pin(ctx, b, Mode::X).await?;
        return Ok((first, second));
    }
    let second = space.cache.pin(ctx, b, Mode::X).await?;
    let first = space.cache.pin(ctx, a, Mode::X).await?;
    Ok((first, second))
}

impl Space {
    /// Makes an empty segment in `file`: its header and its first FreeMap, in the redo record that
    /// takes the extent. Redo-only: whoever creates it drops it if the transaction rolls back.
    ///
    /// # Errors
    /// [`Error::DiskFull`]; nothing has changed then.
    pub async fn create_segment(
        &self,
        ctx: &Ctx,
        file: u16,
        obj: ObjId,
        kind: SegmentKind,
    ) -> Result<(Dba, Scn)> {
        let reserved = self.reserve(ctx, file, next_extent_blocks(0)).await?;
        let extent = reserved.extent();
        let birth = self.cache.clock.tick();
        // Until they are what they will be, they are nothing of the new segment, and not nobody's.
        let nothing = || Op::Format { kind: Kind::Free, obj, birth, level: 0, itl: 0 };
        let header = self.cache.pin_formatted(ctx, extent.first, nothing()).await?;
        let map_dba = Dba::new(file, extent.first.block + free_map_ordinal(0));
        let map = self.cache.pin_formatted(ctx, map_dba, nothing()).await?;
        let hwm = free_map_ordinal(0) + 1;
        let ops = vec![
            (0, new_header(kind, (obj, birth), extent, hwm)),
            (1, new_free_map(0, (obj, birth))),
        ];
        reserved.commit(ctx, &[&header, &map], ops);
        Ok((extent.first, birth))
    }

    /// Gives all space of a segment back; nothing happens if there is no segment at that address.
    ///
    /// # Errors
    /// The space books are wrong, or the session was interrupted; nothing has changed then.
    pub async fn drop_segment(&self, ctx: &Ctx, header: Dba) -> Result<()> {
        loop {
            let info = self.cache.read(ctx, header, read_header).await?;
            let Some(info) = info else { return Ok(()) };
            let birth = info.birth;
            self.segments.write().remove(&(header, birth));
            let check = |b: &[u8]| {
                let now = read_header(b).ok_or(Error::ObjectGone)?;
                if now.birth != birth || now.extents != info.extents {
                    return Err(Error::ObjectGone);
                }
                let (kind, obj, birth) = (Kind::Free, info.obj, birth);
                Ok(Op::Format { kind, obj, birth, level: 0, itl: 0 })
            };
            match self.release(ctx, &info.extents, Some((header, &check))).await {
                // Somebody extended or dropped it between the look and the pin: look again.
                Err(Error::ObjectGone) => {}
                other => return other,
            }
        }
    }

    /// What the segment's header says now.
    ///
    /// # Errors
    /// [`Error::ObjectGone`]: there is no segment header at that address.
    pub async fn segment_info(&self, ctx: &Ctx, header: Dba) -> Result<SegmentInfo> {
        self.cache.read(ctx, header, read_header).await?.ok_or(Error::ObjectGone)
    }

    /// Identity of the segment whose header stands at this address now.
    pub(super) async fn segment_id(&self, ctx: &Ctx, header: Dba) -> Result<SegmentId> {
        let found = self
            .cache
            .read(ctx, header, |b| {
                let is_header = layout::kind(b) == Kind::SegmentHeader;
                is_header.then(|| (layout::obj(b), layout::birth(b)))
            })
            .await?;
        let (obj, birth) = found.ok_or(Error::ObjectGone)?;
        Ok(SegmentId { obj, header, birth })
    }

    /// Runs of neighbouring data blocks up to the high-water mark, for a scan. Read after the
    /// scan's snapshot was taken, it covers every block with a row that the snapshot sees. Blocks
    /// claimed but not yet formatted are among them: see [`Space::is_raw`].
    ///
    /// # Errors
    /// [`Error::ObjectGone`]: the segment was dropped.
    pub async fn scan_ranges(&self, ctx: &Ctx, id: SegmentId) -> Result<Vec<(Dba, u32)>> {
        let info = self.segment_info(ctx, id.header).await?;
        if info.birth != id.birth || info.obj != id.obj {
            return Err(Error::ObjectGone);
        }
        self.cache.common.segments.add(id.obj, SegmentStat::SegmentScans, 1);
        Ok(ExtentMap::new(&info.extents).data_runs(info.hwm))
    }

    /// Whether a block of the segment has been claimed but never formatted, so that what it holds
    /// is of a former life and means nothing.
    ///
    /// # Errors
    /// [`Error::ObjectGone`]: the segment was dropped, or the block is not one of its blocks.
    pub async fn is_raw(&self, ctx: &Ctx, id: SegmentId, dba: Dba) -> Result<bool> {
        let segment = self.segment(id);
        let ordinal = self.ordinal(ctx, &segment, dba).await?.ok_or(Error::ObjectGone)?;
        let entry = self.read_free_entry(ctx, &segment, ordinal).await?;
        Ok(entry.class == super::layout::CLASS_RAW)
    }

    /// Ordinal of a block of the segment; reads the header if the known extents lack it.
    pub(super) async fn ordinal(
        &self,
        ctx: &Ctx,
        segment: &Segment,
        dba: Dba,
    ) -> Result<Option<u32>> {
        if let Some(ordinal) = segment.extents().ordinal(dba) {
            return Ok(Some(ordinal));
        }
        Ok(self.learn_extents(ctx, segment).await?.ordinal(dba))
    }

    /// Address of a block of the segment; reads the header if the known extents lack it.
    pub(super) async fn dba(&self, ctx: &Ctx, segment: &Segment, ordinal: u32) -> Result<Dba> {
        if let Some(dba) = segment.extents().dba(ordinal) {
            return Ok(dba);
        }
        let known = self.learn_extents(ctx, segment).await?;
        known.dba(ordinal).ok_or_else(|| {
            Error::Invariant(format!("segment {} has no block {ordinal}", segment.id.header))
        })
    }

    pub(super) async fn learn_extents(
        &self,
        ctx: &Ctx,
        segment: &Segment,
    ) -> Result<Arc<ExtentMap>> {
        let id = segment.id;
        let info = self.segment_info(ctx, id.header).await?;
        if info.birth != id.birth {
            return Err(Error::ObjectGone);
        }
        segment.set_extents(&info.extents);
        Ok(segment.extents())
    }

    /// Claims up to `want` blocks above the high-water mark for this instance, extending the
    /// segment if need be. Called under the segment's work lock.
    pub(super) async fn raise_hwm(
        &self,
        ctx: &Ctx,
        segment: &Segment,
        want: u32,
    ) -> Result<std::ops::Range<u32>> {
        let id = segment.id;
        loop {
            let (hwm, count) = self
                .cache
                .read(ctx, id.header, |b| {
                    id.check_header(b).map(|()| (header_hwm(b), extent_count(b)))
                })
                .await??;
            if segment.extents().blocks() <= hwm {
                self.learn_extents(ctx, segment).await?;
            }
            let total = segment.extents().blocks();
            if hwm >= total {
                self.extend(ctx, segment, count).await?;
                continue;
            }
            let (k, at) = free_map_of(hwm);
            self.cache.log.throttle(ctx).await?;
            if at == 0 {
                self.add_free_map(ctx, segment, k).await?;
                continue;
            }
            let end = (hwm + want).min(total).min((k + 1) * super::layout::FREE_MAP_BLOCKS);
            let map = self.dba(ctx, segment, free_map_ordinal(k)).await?;
            let (header, map) = pin_both(self, ctx, id.header, map).await?;
            let mut change = Change::begin(&self.cache, &[&header, &map]);
            id.check_header(change.block(0))?;
            id.check_free_map(change.block(1))?;
            if header_hwm(change.block(0)) != hwm {
                continue;
            }
            change.push(0, set_hwm(end));
            change.push(1, self.claim_raw(at, end - hwm));
            change.commit(ctx, Xid::NONE, RecordKind::Change);
            return Ok(hwm..end);
        }
    }

    /// Makes FreeMap `k`, whose range begins at the high-water mark.
    async fn add_free_map(&self, ctx: &Ctx, segment: &Segment, k: u32) -> Result<()> {
        let id = segment.id;
        let ordinal = free_map_ordinal(k);
        let map = self.dba(ctx, segment, ordinal).await?;
        let (header, map) = pin_both(self, ctx, id.header, map).await?;
        let mut change = Change::begin(&self.cache, &[&header, &map]);
        id.check_header(change.block(0))?;
        if header_hwm(change.block(0)) == ordinal {
            change.push(0, set_hwm(ordinal + 1));
            change.push(1, new_free_map(k, (id.obj, id.birth)));
            change.commit(ctx, Xid::NONE, RecordKind::Change);
        }
        Ok(())
    }

    /// Adds an extent to a segment that has `count`; nothing happens if it has more meanwhile.
    async fn extend(&self, ctx: &Ctx, segment: &Segment, count: usize) -> Result<()> {
        let id = segment.id;
        if count >= EXTENTS_MAX {
            let what = format!("segment {} has its {EXTENTS_MAX} extents", id.header);
            return Err(Error::DiskFull { what });
        }
        let best = next_extent_blocks(count);
        let mut sizes = EXTENT_SIZES.into_iter().filter(|&s| s <= best);
        let mut result = Err(Error::Invariant("no extent size".to_owned()));
        let reserved = loop {
            match sizes.next() {
                Some(size) => result = self.reserve(ctx, id.header.file, size).await,
                None => break result?,
            }
            match result {
                Err(Error::DiskFull { .. }) => {}
                other => break other?,
            }
        };
        marks::reached(Mark::SpaceExtended);
        let header = self.cache.pin(ctx, id.header, Mode::X).await?;
        let extents = {
            let b = header.read();
            id.check_header(&b)?;
            if extent_count(&b) != count {
                return Ok(());
            }
            let mut extents = read_header(&b).ok_or(Error::ObjectGone)?.extents;
            extents.push(reserved.extent());
            extents
        };
        // The content cannot change between the look and the commit: other instances lack X, and
        // this instance's sessions come here under the segment's work lock only.
        let op = add_extent(count, reserved.extent());
        reserved.commit(ctx, &[&header], vec![(0, op)]);
        segment.set_extents(&extents);
        Ok(())
    }
}
