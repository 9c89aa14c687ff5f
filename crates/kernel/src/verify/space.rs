//! Who owns which space: segments, their headers and FreeMaps, and the file maps.

use block::layout::{self, Kind as BlockKind};
use block::{Dba, ObjId, Scn, Version};
use rustc_hash::FxHashMap;

use super::blocks::{Image, Walk};
use super::{Finding, Kind};
use crate::dict::offline::Named;
use crate::space::layout::{
    CLASS_RAW, FILE_MAP_COUNT, FILE_MAP_UNITS, FREE_MAP_BLOCKS, RESERVED_UNITS, expect_block,
    free_entry, free_map_first, free_map_of, free_map_ordinal, is_meta, map_dba, read_header,
    run_is_used,
};
use crate::space::{DATA_FILE, Extent, SegmentInfo, SegmentKind, UNDO_FILE, UNIT_BLOCKS};

/// Who has claimed which units.
#[derive(Default)]
pub(super) struct Owners {
    units: FxHashMap<(u16, u32), u32>,
    names: Vec<String>,
}

/// A segment and what it should be.
pub(super) struct Wanted<'a> {
    pub of: &'a str,
    pub obj: ObjId,
    pub header: Dba,
    pub birth: Scn,
    pub kind: SegmentKind,
}

/// A segment whose header and FreeMaps have been read.
pub(super) struct Segment {
    pub info: SegmentInfo,
    maps: Vec<Option<Image>>,
}

impl Segment {
    /// Runs of neighbouring data blocks with the ordinal of the first.
    pub fn runs(&self) -> Vec<(Dba, u32, u32)> {
        let (mut runs, mut start) = (Vec::new(), 0);
        for e in &self.info.extents {
            let end = self.info.hwm.min(start + e.blocks);
            let mut at = start;
            while at < end {
                let next = (at..end).find(|o| is_meta(*o)).unwrap_or(end);
                for piece in (at..next).step_by(64) {
                    let first = Dba::new(e.first.file, e.first.block + piece - start);
                    runs.push((first, piece, 64.min(next - piece)));
                }
                at = next + 1;
            }
            start += e.blocks;
        }
        runs
    }

    /// Whether the block with this ordinal has never been formatted for the segment.
    pub fn is_raw(&self, ordinal: u32) -> bool {
        let (k, at) = free_map_of(ordinal);
        match self.maps.get(k as usize) {
            Some(Some(map)) => free_entry(map, at).class == CLASS_RAW,
            // The FreeMap is damaged, which has been said.
            _ => true,
        }
    }
}

impl Walk<'_> {
    /// Notes that `of` owns an extent, named in block `by`.
    pub fn claim(&mut self, of: &str, by: Dba, file: u16, extent: Extent) -> bool {
        let Extent { first, blocks } = extent;
        let end = u64::from(first.block) + u64::from(blocks);
        let inside = self.group.file_blocks(file).is_some_and(|n| end <= u64::from(n));
        let first_unit = first.block / UNIT_BLOCKS;
        let aligned = first.block.is_multiple_of(UNIT_BLOCKS) && blocks > 0;
        if first.file != file || !inside || !aligned || first_unit < RESERVED_UNITS {
            let what = format!("an extent of {blocks} blocks at {first}, where none can be");
            self.find(Kind::Space, by, Version::ZERO, of, what);
            return false;
        }
        let me = u32::try_from(self.owners.names.len()).expect("below 2^32 extents");
        self.owners.names.push(of.to_owned());
        let mut other = None;
        for unit in first_unit..first_unit + blocks / UNIT_BLOCKS {
            other = self.owners.units.insert((file, unit), me).or(other);
        }
        if let Some(other) = other {
            let other = self.owners.names[other as usize].clone();
            let what = format!("the extent of {blocks} blocks at {first} is also of {other}");
            self.find(Kind::Space, by, Version::ZERO, of, what);
        }
        true
    }

    /// Reads a segment's header and FreeMaps, and notes what it owns.
    pub async fn segment(&mut self, wanted: &Wanted<'_>) -> Option<Segment> {
        let Wanted { of, header, .. } = *wanted;
        let b = self.one(of, header).await?;
        let expected = expect_block(&b, BlockKind::SegmentHeader, wanted.obj, wanted.birth);
        let info = read_header(&b).filter(|i| expected.is_ok() && i.kind == wanted.kind);
        let Some(info) = info else {
            let what = "the header of its segment is another block".to_owned();
            self.find_in(Kind::Segment, &b, header, of, what);
            return None;
        };
        self.counts.segments += 1;
        let mut sound = info.extents.first().is_some_and(|e| e.first == header);
        for extent in &info.extents {
            sound &= self.claim(of, header, header.file, *extent);
        }
        if !sound || info.hwm > info.blocks() || info.hwm <= free_map_ordinal(0) {
            let what = format!("{} extents, high-water mark {}", info.extents.len(), info.hwm);
            self.find_in(Kind::Segment, &b, header, of, what);
            return None;
        }
        let mut segment = Segment { info, maps: Vec::new() };
        for k in 0..segment.info.hwm.div_ceil(FREE_MAP_BLOCKS) {
            let map = self.free_map(wanted, &segment.info, k).await;
            segment.maps.push(map);
        }
        Some(segment)
    }

    async fn free_map(&mut self, wanted: &Wanted<'_>, info: &SegmentInfo, k: u32) -> Option<Image> {
        let ordinal = free_map_ordinal(k);
        let mut start = 0;
        let extent = info.extents.iter().find(|e| {
            start += e.blocks;
            ordinal < start
        })?;
        let dba = Dba::new(extent.first.file, extent.first.block + ordinal + extent.blocks - start);
        let b = self.one(wanted.of, dba).await?;
        let expected = expect_block(&b, BlockKind::FreeMap, wanted.obj, wanted.birth);
        let first = if k == 0 { 0 } else { k * FREE_MAP_BLOCKS };
        if expected.is_err() || free_map_first(&b) != first {
            let what = format!("it is not FreeMap {k}");
            self.find_in(Kind::Segment, &b, dba, wanted.of, what);
            return None;
        }
        Some(b)
    }

    /// A segment that no settled definition has: what it owns counts if it is there.
    pub async fn other_segment(&mut self, named: &Named) {
        let of = format!("segment of object {}", named.obj);
        let Some(b) = self.one(&of, named.header).await else { return };
        if expect_block(&b, BlockKind::SegmentHeader, named.obj, named.birth).is_err() {
            return;
        }
        for extent in read_header(&b).map(|info| info.extents).unwrap_or_default() {
            self.claim(&of, named.header, named.header.file, extent);
        }
    }

    /// Compares the file maps with what has been claimed, and looks at the blocks of nobody.
    pub async fn free_space(&mut self) {
        for file in [UNDO_FILE, DATA_FILE] {
            let units = self.group.file_blocks(file).unwrap_or(0) / UNIT_BLOCKS;
            for k in 0..FILE_MAP_COUNT {
                let of = format!("file {file}");
                let dba = map_dba(file, k);
                let Some(map) = self.one(&of, dba).await else { continue };
                if layout::kind(&map) != BlockKind::FileMap {
                    self.find_in(Kind::Space, &map, dba, &of, "it is no file map".to_owned());
                    continue;
                }
                let end = FILE_MAP_UNITS.min(units.saturating_sub(k * FILE_MAP_UNITS));
                self.file_map(file, k, &map, end).await;
            }
        }
    }

    async fn file_map(&mut self, file: u16, k: u32, map: &[u8], end: u32) {
        let base = k * FILE_MAP_UNITS;
        let mut lost: Vec<(u32, u32)> = Vec::new();
        let first = if k == 0 { RESERVED_UNITS } else { 0 };
        for unit in first..end {
            let used = run_is_used(map, (unit, 1));
            let owner = self.owners.units.get(&(file, base + unit)).copied();
            match (used, owner) {
                (true, Some(_)) => {}
                (false, Some(owner)) => {
                    let owner = self.owners.names[owner as usize].clone();
                    let what = format!("unit {} is free, but of {owner}", base + unit);
                    self.find_in(Kind::Space, map, map_dba(file, k), &owner, what);
                }
                (true, None) => match lost.last_mut() {
                    Some((start, n)) if *start + *n == unit => *n += 1,
                    _ => lost.push((unit, 1)),
                },
                (false, None) => self.nobodys_unit(file, base + unit).await,
            }
        }
        if self.blind {
            return;
        }
        for (unit, n) in lost {
            self.lost_units(file, map, base + unit, n).await;
        }
    }

    async fn nobodys_unit(&mut self, file: u16, unit: u32) {
        let first = Dba::new(file, unit * UNIT_BLOCKS);
        let bytes = self.group.read_blocks(file, first.block, UNIT_BLOCKS).await;
        let Ok(bytes) = bytes else {
            self.counts.damaged_free_blocks += u64::from(UNIT_BLOCKS);
            return;
        };
        for (i, b) in (0u32..).zip(bytes.chunks(block::BLOCK_BYTES)) {
            let whole = layout::check(b, Dba::new(file, first.block + i)).is_ok();
            self.counts.damaged_free_blocks += u64::from(!whole);
        }
    }

    /// Space that is used and belongs to nobody. A crash may leave an extent whose segment no row
    /// of the dictionary names yet; it begins with its header.
    async fn lost_units(&mut self, file: u16, map: &[u8], unit: u32, units: u32) {
        let first = Dba::new(file, unit * UNIT_BLOCKS);
        let what = format!("{} blocks at {first} are used, but of nobody", units * UNIT_BLOCKS);
        let of = format!("file {file}");
        let header = self.one(&of, first).await;
        if header.is_some_and(|b| read_header(&b).is_some()) && file == DATA_FILE {
            let (version, of) = (layout::version(map), of.clone());
            self.lost.push(Finding { kind: Kind::Space, dba: first, version, of, what });
        } else {
            let (dba, _) = crate::space::layout::map_of(file, first.block);
            self.find_in(Kind::Space, map, dba, &of, what);
        }
    }
}
