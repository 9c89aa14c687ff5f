//! What file maps, segment headers and FreeMaps look like, and the patches that change them.
//!
//! Pure functions of bytes. They promise that a patch touches only the bytes it names, and that
//! counts read from a block are bounded by the block's size. They never look at anything but the
//! block they are given.

use block::bytes::{Write, get_u16, get_u32, u16_of};
use block::layout::{self, HEADER_BYTES, Kind};
use block::op::Op;
use block::{BLOCK_BYTES, Dba, InstanceNo, ObjId, Scn};

use crate::error::{Error, Result};

// ---- file map: which units of a file are taken --------------------------------------------------

/// Blocks of one unit, the grain in which a file is allotted (64 KiB).
pub const UNIT_BLOCKS: u32 = 8;
/// First file map block of a file, and how many there are.
pub const FILE_MAP_FIRST: u32 = 1;
pub const FILE_MAP_COUNT: u32 = 16;
/// Units that one file map block tells about.
#[allow(clippy::cast_possible_truncation)]
pub const FILE_MAP_UNITS: u32 = ((BLOCK_BYTES - HEADER_BYTES) * 8) as u32;
/// Units at the start of a file that hold block 0 and the file map itself.
pub const RESERVED_UNITS: u32 = (FILE_MAP_FIRST + FILE_MAP_COUNT).div_ceil(UNIT_BLOCKS);
/// Extents of at least this many units start at a multiple of it, so that multi-block reads and
/// the directory's groups of 128 blocks fall together.
const ALIGNED_UNITS: u32 = 16;

const _: () = assert!(ALIGNED_UNITS * UNIT_BLOCKS == block::MASTER_GROUP_BLOCKS);

fn unit_byte(unit: u32) -> usize {
    HEADER_BYTES + unit as usize / 8
}

fn unit_is_used(b: &[u8], unit: u32) -> bool {
    b[unit_byte(unit)] & (1 << (unit % 8)) != 0
}

/// First run of `units` free units below `limit`, both within this map block.
pub fn find_run(b: &[u8], units: u32, limit: u32) -> Option<u32> {
    let align = if units >= ALIGNED_UNITS { ALIGNED_UNITS } else { 1 };
    let mut start = 0;
    while start + units <= limit {
        if start % 8 == 0 && b[unit_byte(start)] == 0xFF {
            start = (start + 8).next_multiple_of(align);
            continue;
        }
        match (start..start + units).rev().find(|&u| unit_is_used(b, u)) {
            Some(used) => start = (used + 1).next_multiple_of(align),
            None => return Some(start),
        }
    }
    None
}

/// All runs of free units below `limit`: first unit, count.
pub fn free_runs(b: &[u8], limit: u32) -> Vec<(u32, u32)> {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for unit in (0..limit).filter(|&unit| !unit_is_used(b, unit)) {
        match runs.last_mut() {
            Some((first, count)) if *first + *count == unit => *count += 1,
            _ => runs.push((unit, 1)),
        }
    }
    runs
}

/// Whether all units of the run are taken.
pub fn run_is_used(b: &[u8], run: (u32, u32)) -> bool {
    (run.0..run.0 + run.1).all(|u| unit_is_used(b, u))
}

/// The patch that marks runs (first unit, count) of this map block as used or free.
pub fn mark_runs(b: &[u8], runs: &[(u32, u32)], used: bool) -> Op {
    let mut bytes = std::collections::BTreeMap::new();
    for &(first, count) in runs {
        for unit in first..first + count {
            let at = unit_byte(unit);
            let byte = bytes.entry(at).or_insert(b[at]);
            let bit = 1u8 << (unit % 8);
            if used { *byte |= bit } else { *byte &= !bit }
        }
    }
    let mut parts: Vec<(u16, Vec<u8>)> = Vec::new();
    for (at, byte) in bytes {
        match parts.last_mut() {
            Some((start, run)) if usize::from(*start) + run.len() == at => run.push(byte),
            _ => parts.push((u16_of(at), vec![byte])),
        }
    }
    Op::Patch(parts)
}

/// The file map block that tells about a block, and the block's unit in it.
pub fn map_of(file: u16, block: u32) -> (Dba, u32) {
    let unit = block / UNIT_BLOCKS;
    (map_dba(file, unit / FILE_MAP_UNITS), unit % FILE_MAP_UNITS)
}

/// Address of file map block `k`.
pub fn map_dba(file: u16, k: u32) -> Dba {
    Dba::new(file, FILE_MAP_FIRST + k)
}

// ---- segment header -----------------------------------------------------------------------------

/// What a segment holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum SegmentKind {
    Heap = 1,
    Index = 2,
}

/// A run of blocks of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    pub first: Dba,
    pub blocks: u32,
}

const OFF_KIND: usize = 64;
const OFF_EXTENT_COUNT: usize = 68;
const OFF_HWM: usize = 72;
const OFF_EXTENT_LIST: usize = 96;
const EXTENT_BYTES: usize = 8;
/// Extents a segment can have.
pub const EXTENTS_MAX: usize = (BLOCK_BYTES - OFF_EXTENT_LIST) / EXTENT_BYTES;

/// What a segment header says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SegmentInfo {
    pub obj: ObjId,
    pub birth: Scn,
    pub kind: SegmentKind,
    pub extents: Vec<Extent>,
    /// Ordinal of the first block that nobody has claimed yet.
    pub hwm: u32,
}

impl SegmentInfo {
    /// Blocks in all extents.
    #[must_use]
    pub fn blocks(&self) -> u32 {
        self.extents.iter().map(|e| e.blocks).sum()
    }
}

/// Parses a header block; `None`: it is no segment header.
pub fn read_header(b: &[u8]) -> Option<SegmentInfo> {
    if layout::kind(b) != Kind::SegmentHeader {
        return None;
    }
    let kind = match b[OFF_KIND] {
        1 => SegmentKind::Heap,
        2 => SegmentKind::Index,
        _ => return None,
    };
    let extents = (0..extent_count(b)).map(|i| extent(b, i)).collect();
    Some(SegmentInfo {
        obj: layout::obj(b),
        birth: layout::birth(b),
        kind,
        extents,
        hwm: header_hwm(b),
    })
}

pub fn header_hwm(b: &[u8]) -> u32 {
    get_u32(b, OFF_HWM)
}

pub fn extent_count(b: &[u8]) -> usize {
    (get_u32(b, OFF_EXTENT_COUNT) as usize).min(EXTENTS_MAX)
}

fn extent(b: &[u8], i: usize) -> Extent {
    let at = OFF_EXTENT_LIST + i * EXTENT_BYTES;
    let first = Dba::new(get_u16(b, at + 4), get_u32(b, at));
    Extent { first, blocks: u32::from(get_u16(b, at + 6)) * UNIT_BLOCKS }
}

fn u32_part(off: usize, v: u32) -> (u16, Vec<u8>) {
    (u16_of(off), v.to_le_bytes().to_vec())
}

fn extent_part(i: usize, e: Extent) -> (u16, Vec<u8>) {
    let mut out = Vec::with_capacity(EXTENT_BYTES);
    out.u32(e.first.block);
    out.u16(e.first.file);
    out.u16(u16_of((e.blocks / UNIT_BLOCKS) as usize));
    (u16_of(OFF_EXTENT_LIST + i * EXTENT_BYTES), out)
}

/// The operation that makes the header of a new segment.
pub fn new_header(kind: SegmentKind, (obj, birth): (ObjId, Scn), first: Extent, hwm: u32) -> Op {
    let parts = [
        (u16_of(OFF_KIND), vec![kind as u8]),
        u32_part(OFF_EXTENT_COUNT, 1),
        u32_part(OFF_HWM, hwm),
        extent_part(0, first),
    ];
    format_with(Kind::SegmentHeader, (obj, birth), &parts)
}

/// A format that brings its first content along: one operation, hence one version.
fn format_with(kind: Kind, (obj, birth): (ObjId, Scn), parts: &[(u16, Vec<u8>)]) -> Op {
    let mut b = vec![0; BLOCK_BYTES];
    // Only what follows the birth is part of the image; the address is filled in when it is
    // applied.
    layout::init(&mut b, kind, Dba::NONE, obj, birth);
    let mut end = HEADER_BYTES;
    for (off, bytes) in parts {
        let at = usize::from(*off);
        b[at..at + bytes.len()].copy_from_slice(bytes);
        end = end.max(at + bytes.len());
    }
    Op::FormatImage { kind, obj, body: b[IMAGE_FROM..end].to_vec() }
}

/// Where the body of an image starts in a block.
const IMAGE_FROM: usize = 40;

/// The operation that makes a file map block with its first `reserved` units taken.
pub fn new_file_map(reserved: u32) -> Op {
    let empty = vec![0; BLOCK_BYTES];
    let parts = match mark_runs(&empty, &[(0, reserved)], true) {
        Op::Patch(parts) => parts,
        _ => Vec::new(),
    };
    format_with(Kind::FileMap, (ObjId(0), Scn::ZERO), &parts)
}

/// The operation that makes FreeMap `k` of a segment.
pub fn new_free_map(k: u32, id: (ObjId, Scn)) -> Op {
    format_with(Kind::FreeMap, id, &[u32_part(OFF_FREE_FIRST, k * FREE_MAP_BLOCKS)])
}

/// The patch that adds an extent to a header that has `count`.
pub fn add_extent(count: usize, e: Extent) -> Op {
    let n = u32::try_from(count + 1).expect("a header holds few extents");
    Op::Patch(vec![u32_part(OFF_EXTENT_COUNT, n), extent_part(count, e)])
}

/// The patch that raises the high-water mark.
pub fn set_hwm(hwm: u32) -> Op {
    Op::Patch(vec![u32_part(OFF_HWM, hwm)])
}

/// Blocks of the extent that a segment with `count` extents gets next.
pub fn next_extent_blocks(count: usize) -> u32 {
    match count {
        0..16 => 8,
        16..79 => 128,
        79..199 => 1024,
        _ => 8192,
    }
}

/// Sizes to fall back on when there is no run of the wanted size.
pub const EXTENT_SIZES: [u32; 4] = [8192, 1024, 128, 8];
const _: () = assert!(8192 / UNIT_BLOCKS <= FILE_MAP_UNITS && 8192 / UNIT_BLOCKS <= 0xFFFF);

// ---- FreeMap: fullness and owner of a segment's blocks ------------------------------------------

/// Ordinal of the first block this FreeMap tells about (for checks).
const OFF_FREE_FIRST: usize = 64;
const OFF_FREE_ENTRIES: usize = 96;
/// Blocks that one FreeMap tells about.
pub const FREE_MAP_BLOCKS: u32 = 8000;
const _: () = assert!(OFF_FREE_ENTRIES + FREE_MAP_BLOCKS as usize <= BLOCK_BYTES);

/// Free bytes of one step of a class.
const CLASS_BYTES: usize = 560;
/// Class of an empty block, also of one whose ITL has grown a little.
pub const CLASS_EMPTY: u8 = 14;
/// Room that a block of the highest class has at least.
pub const EMPTY_ROOM_BYTES: usize = CLASS_EMPTY as usize * CLASS_BYTES;
/// Class of a block that has never been formatted for this segment.
pub const CLASS_RAW: u8 = 15;

/// A FreeMap entry: who inserts into the block (0: nobody), and how full it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct FreeEntry {
    pub owner: InstanceNo,
    pub class: u8,
}

impl FreeEntry {
    pub const NOBODY: InstanceNo = InstanceNo(0);

    fn byte(self) -> u8 {
        (self.owner.0 << 4) | self.class
    }
}

const _: () = assert!(block::INSTANCES_MAX < 16);

/// Class of a block with `free` bytes.
pub fn class_of(free: usize) -> u8 {
    u8::try_from(free / CLASS_BYTES).unwrap_or(CLASS_EMPTY).min(CLASS_EMPTY)
}

/// Bytes that a block of this class has free at least.
pub fn class_room(class: u8) -> usize {
    usize::from(class.min(CLASS_EMPTY)) * CLASS_BYTES
}

/// Which FreeMap tells about the block with this ordinal, and where in it.
pub fn free_map_of(ordinal: u32) -> (u32, u32) {
    (ordinal / FREE_MAP_BLOCKS, ordinal % FREE_MAP_BLOCKS)
}

/// Ordinal of FreeMap `k`: the first follows the header, later ones open their range.
pub fn free_map_ordinal(k: u32) -> u32 {
    if k == 0 { 1 } else { k * FREE_MAP_BLOCKS }
}

/// Whether the block with this ordinal is the header or a FreeMap.
pub fn is_meta(ordinal: u32) -> bool {
    ordinal == 1 || ordinal.is_multiple_of(FREE_MAP_BLOCKS)
}

/// Ordinal of the first block that this FreeMap says it tells about.
pub fn free_map_first(b: &[u8]) -> u32 {
    get_u32(b, OFF_FREE_FIRST)
}

pub fn free_entry(b: &[u8], at: u32) -> FreeEntry {
    let byte = b[OFF_FREE_ENTRIES + at as usize];
    FreeEntry { owner: InstanceNo(byte >> 4), class: byte & 15 }
}

/// Patch parts that set entries, merged where they are neighbours; `entries` ascend.
pub fn free_parts(entries: &[(u32, FreeEntry)]) -> Vec<(u16, Vec<u8>)> {
    let mut parts: Vec<(u16, Vec<u8>)> = Vec::new();
    for (at, e) in entries {
        let off = OFF_FREE_ENTRIES + *at as usize;
        match parts.last_mut() {
            Some((start, run)) if usize::from(*start) + run.len() == off => run.push(e.byte()),
            _ => parts.push((u16_of(off), vec![e.byte()])),
        }
    }
    parts
}

// ---- extents as one numbered sequence of blocks -------------------------------------------------

/// The blocks of a segment numbered through (their ordinals), both ways.
#[derive(Debug, Default)]
pub struct ExtentMap {
    /// Ordinal of the first block, and the extent; ascending.
    extents: Vec<(u32, Extent)>,
    /// The same by address.
    by_address: Vec<(Dba, u32, u32)>,
    blocks: u32,
}

impl ExtentMap {
    pub fn new(extents: &[Extent]) -> ExtentMap {
        let mut map = ExtentMap::default();
        for &e in extents {
            map.extents.push((map.blocks, e));
            map.by_address.push((e.first, map.blocks, e.blocks));
            map.blocks += e.blocks;
        }
        map.by_address.sort_unstable();
        map
    }

    pub fn blocks(&self) -> u32 {
        self.blocks
    }

    /// Address of the block with this ordinal; `None`: beyond the extents known.
    pub fn dba(&self, ordinal: u32) -> Option<Dba> {
        let i = self.extents.partition_point(|(start, _)| *start <= ordinal).checked_sub(1)?;
        let (start, e) = self.extents[i];
        let within = ordinal - start;
        (within < e.blocks).then(|| Dba::new(e.first.file, e.first.block + within))
    }

    /// Ordinal of a block; `None`: not in the extents known.
    pub fn ordinal(&self, dba: Dba) -> Option<u32> {
        let i = self.by_address.partition_point(|(d, ..)| *d <= dba).checked_sub(1)?;
        let (first, start, blocks) = self.by_address[i];
        let within = dba.block.checked_sub(first.block)?;
        (first.file == dba.file && within < blocks).then_some(start + within)
    }

    /// Runs of neighbouring blocks with ordinals below `hwm`, headers and FreeMaps left out.
    pub fn data_runs(&self, hwm: u32) -> Vec<(Dba, u32)> {
        let mut runs: Vec<(Dba, u32)> = Vec::new();
        for &(start, e) in &self.extents {
            let end = hwm.min(start + e.blocks);
            let mut open = false;
            for ordinal in start..end {
                if is_meta(ordinal) {
                    open = false;
                } else if open {
                    runs.last_mut().expect("a run is open").1 += 1;
                } else {
                    runs.push((Dba::new(e.first.file, e.first.block + ordinal - start), 1));
                    open = true;
                }
            }
        }
        runs
    }
}

/// Checks that `b` is a block of kind `kind` of this object and incarnation.
///
/// # Errors
/// [`Error::ObjectGone`]: the block belongs to something else now.
pub fn expect_block(b: &[u8], kind: Kind, obj: ObjId, birth: Scn) -> Result<()> {
    if layout::kind(b) == kind && layout::obj(b) == obj && layout::birth(b) == birth {
        return Ok(());
    }
    Err(Error::ObjectGone)
}
