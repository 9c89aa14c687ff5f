//! The header every block has, and the seal (checksum) it carries on disk.
//!
//! | offset | bytes | name | meaning |
//! |---|---|---|---|
//! | 0 | 4 | checksum | crc32c of bytes 4.. ; only valid on disk and in transit |
//! | 4 | 1 | kind | [`Kind`] |
//! | 5 | 1 | – | zero |
//! | 6 | 6 | address | file (2) and block number (4) |
//! | 12 | 4 | object | the dictionary object it belongs to |
//! | 16 | 16 | version | format SCN and counter |
//! | 32 | 8 | scn | SCN of the last change |
//! | 40 | 8 | birth | SCN of the segment's creation or truncation |
//! | 48 | 8 | taken | highest commit SCN of an ITL entry that was taken over |
//! | 56 | 8 | – | zero |

use crate::bytes::{get_u16, get_u32, get_u64, put_u16, put_u32, put_u64};
use crate::types::{Dba, ObjId, Scn, Version};

pub const HEADER_BYTES: usize = 64;

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Never formatted (all zeros), or given up.
    Free = 0,
    Heap = 1,
    Leaf = 2,
    Branch = 3,
    /// An undo segment's header with its transaction table.
    UndoHeader = 4,
    Undo = 5,
    SegmentHeader = 6,
    /// Fullness and owner of a segment's blocks.
    FreeMap = 7,
    /// Which extents of a file are in use.
    FileMap = 8,
}

impl Kind {
    #[must_use]
    #[inline]
    pub fn from_u8(v: u8) -> Option<Kind> {
        Some(match v {
            0 => Kind::Free,
            1 => Kind::Heap,
            2 => Kind::Leaf,
            3 => Kind::Branch,
            4 => Kind::UndoHeader,
            5 => Kind::Undo,
            6 => Kind::SegmentHeader,
            7 => Kind::FreeMap,
            8 => Kind::FileMap,
            _ => return None,
        })
    }

    /// The field's `class#` of such a block, as wait events show it.
    #[must_use]
    pub fn class(self) -> u64 {
        match self {
            Kind::Heap | Kind::Leaf | Kind::Branch => 1,
            Kind::SegmentHeader => 4,
            Kind::FreeMap => 8,
            Kind::FileMap => 13,
            Kind::Free => 14,
            Kind::UndoHeader => 17,
            Kind::Undo => 18,
        }
    }
}

/// `Free` for a value no release has written.
#[must_use]
#[inline]
pub fn kind(b: &[u8]) -> Kind {
    Kind::from_u8(b[4]).unwrap_or(Kind::Free)
}

#[must_use]
#[inline]
pub fn dba(b: &[u8]) -> Dba {
    Dba { file: get_u16(b, 6), block: get_u32(b, 8) }
}

#[must_use]
#[inline]
pub fn obj(b: &[u8]) -> ObjId {
    ObjId(get_u32(b, 12))
}

#[must_use]
#[inline]
pub fn version(b: &[u8]) -> Version {
    Version { format: Scn(get_u64(b, 16)), count: get_u64(b, 24) }
}

#[inline]
pub fn set_version(b: &mut [u8], v: Version) {
    put_u64(b, 16, v.format.0);
    put_u64(b, 24, v.count);
}

#[must_use]
#[inline]
pub fn scn(b: &[u8]) -> Scn {
    Scn(get_u64(b, 32))
}

#[inline]
pub fn set_scn(b: &mut [u8], v: Scn) {
    put_u64(b, 32, v.0);
}

#[must_use]
#[inline]
pub fn birth(b: &[u8]) -> Scn {
    Scn(get_u64(b, 40))
}

#[must_use]
#[inline]
pub fn taken_scn(b: &[u8]) -> Scn {
    Scn(get_u64(b, 48))
}

#[inline]
pub fn set_taken_scn(b: &mut [u8], v: Scn) {
    put_u64(b, 48, v.0);
}

/// Zeroes the block and writes a header; version and SCN are the caller's to set.
pub fn init(b: &mut [u8], kind: Kind, dba: Dba, obj: ObjId, birth: Scn) {
    b.fill(0);
    b[4] = kind as u8;
    put_u16(b, 6, dba.file);
    put_u32(b, 8, dba.block);
    put_u32(b, 12, obj.0);
    put_u64(b, 40, birth.0);
}

/// Writes the checksum; the last thing before the block goes to disk or to a peer.
pub fn seal(b: &mut [u8]) {
    let crc = crc32c::crc32c(&b[4..]);
    put_u32(b, 0, crc);
}

/// What is wrong with a block that was read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Damage {
    /// Checksum stored and computed.
    Checksum {
        stored: u32,
        computed: u32,
    },
    /// The block says it is another one.
    Address {
        found: Dba,
    },
    Kind {
        found: u8,
    },
}

impl std::fmt::Display for Damage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Damage::Checksum { stored, computed } => {
                write!(f, "checksum {stored:#010x} stored, {computed:#010x} computed")
            }
            Damage::Address { found } => write!(f, "it holds block {found}"),
            Damage::Kind { found } => write!(f, "unknown block kind {found}"),
        }
    }
}

/// Whether nothing has ever been written there: all zeros.
#[must_use]
pub fn is_unwritten(b: &[u8]) -> bool {
    // By pieces that are compared at once: a scan reads whole extents of such blocks.
    let (pieces, rest) = b.as_chunks::<64>();
    pieces.iter().all(|piece| *piece == [0; 64]) && rest.iter().all(|byte| *byte == 0)
}

/// Checks a block read from disk or a peer. All zeros is a block never written: good.
///
/// # Errors
/// The first [`Damage`] found.
pub fn check(b: &[u8], wanted: Dba) -> Result<(), Damage> {
    let stored = get_u32(b, 0);
    if stored == 0 && is_unwritten(b) {
        return Ok(());
    }
    let computed = crc32c::crc32c(&b[4..]);
    if stored != computed {
        return Err(Damage::Checksum { stored, computed });
    }
    if dba(b) != wanted {
        return Err(Damage::Address { found: dba(b) });
    }
    if Kind::from_u8(b[4]).is_none() {
        return Err(Damage::Kind { found: b[4] });
    }
    Ok(())
}
