//! The group's metadata as values and as bytes, and the choice of free allocation units. Pure.
//!
//! On each LUN, in allocation units of 1 MiB:
//!
//! | unit | content |
//! |---|---|
//! | 0 | header, 4096 bytes, the rest unused |
//! | 1 | metadata, copy with even sequence number |
//! | 2 | metadata, copy with odd sequence number |
//! | 3… | data |
//!
//! LUN header: 0 magic `SKEINLUN`, 8 crc32c (of the 4096 bytes with this field 0), 12 format
//! version,
//! 16 group id (16 bytes), 32 LUN number (u16), 34 zero (u16), 36 size in units (u32), 40 zeros.
//!
//! Metadata: 0 magic `SKEINGRP`, 8 crc32c (of all `length` bytes with this field 0), 12 format
//! version,
//! 16 group id, 32 sequence (u64), 40 length (u32), 44 LUN count (u16), 46 file count (u16); per
//! LUN:
//! size in units (u32), path length (u16), path; per file: number (u16), blocks (u32), unit count
//! (u32),
//! per unit LUN (u16) and unit on it (u32). All little-endian.

use std::collections::BTreeMap;

use block::BLOCK_BYTES;

use crate::error::{Error, Result};

/// Bytes of an allocation unit.
pub const AU_BYTES: u64 = 1 << 20;
/// Blocks of an allocation unit.
pub const AU_BLOCKS: u32 = 128;
const _: () = assert!(AU_BLOCKS as u64 * BLOCK_BYTES as u64 == AU_BYTES);

pub(crate) const HEADER_BYTES: usize = 4096;
/// Units that hold no data: the header's and the two copies of the metadata.
pub(crate) const RESERVED_AUS: u32 = 3;
/// Where the copy of a sequence number is on each LUN.
pub(crate) fn copy_offset_bytes(sequence: u64) -> u64 {
    AU_BYTES * (1 + sequence % 2)
}

const FORMAT_VERSION: u32 = 1;
const LUN_MAGIC: &[u8; 8] = b"SKEINLUN";
const GROUP_MAGIC: &[u8; 8] = b"SKEINGRP";
const CRC_AT: usize = 8;
const FIXED_BYTES: usize = 48;

pub(crate) type GroupId = [u8; 16];

/// The place of an allocation unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Au {
    pub lun: u16,
    pub au: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LunMeta {
    /// Relative to the group's folder, or absolute.
    pub path: String,
    pub size_aus: u32,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct FileMeta {
    pub blocks: u32,
    pub aus: Vec<Au>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Meta {
    pub id: GroupId,
    pub sequence: u64,
    pub luns: Vec<LunMeta>,
    pub files: BTreeMap<u16, FileMeta>,
}

/// A LUN's header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct LunHeader {
    pub id: GroupId,
    pub lun: u16,
    pub size_aus: u32,
}

fn seal(bytes: &mut [u8]) {
    bytes[CRC_AT..CRC_AT + 4].fill(0);
    let crc = crc32c::crc32c(bytes);
    bytes[CRC_AT..CRC_AT + 4].copy_from_slice(&crc.to_le_bytes());
}

fn is_sealed(bytes: &[u8]) -> bool {
    let crc = crc32c::crc32c(&bytes[..CRC_AT]);
    let crc = crc32c::crc32c_append(crc, &[0; 4]);
    let crc = crc32c::crc32c_append(crc, &bytes[CRC_AT + 4..]);
    bytes[CRC_AT..CRC_AT + 4] == crc.to_le_bytes()
}

/// Reads little-endian fields off a slice; `None` at its end.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u16(&mut self) -> Option<u16> {
        self.array().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }
}

impl LunHeader {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_BYTES];
        out[..8].copy_from_slice(LUN_MAGIC);
        out[12..16].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        out[16..32].copy_from_slice(&self.id);
        out[32..34].copy_from_slice(&self.lun.to_le_bytes());
        out[36..40].copy_from_slice(&self.size_aus.to_le_bytes());
        seal(&mut out);
        out
    }

    /// `Err` says why the bytes are no header of ours.
    pub(crate) fn decode(bytes: &[u8]) -> std::result::Result<LunHeader, &'static str> {
        let mut f = Fields(bytes.get(..HEADER_BYTES).ok_or("it is too short for a header")?);
        let bad = "its header is too short";
        if f.take(8).ok_or(bad)? != LUN_MAGIC {
            return Err("it has no LUN header");
        }
        if !is_sealed(&bytes[..HEADER_BYTES]) {
            return Err("its header fails the checksum");
        }
        f.u32().ok_or(bad)?;
        if f.u32().ok_or(bad)? != FORMAT_VERSION {
            return Err("it was written by another version of the format");
        }
        let id = f.array().ok_or(bad)?;
        let lun = f.u16().ok_or(bad)?;
        f.u16().ok_or(bad)?;
        let size_aus = f.u32().ok_or(bad)?;
        Ok(LunHeader { id, lun, size_aus })
    }
}

impl Meta {
    /// # Errors
    /// [`Error::MetadataFull`] when it does not fit its allocation unit.
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        let count = |n: usize| u16::try_from(n).map_err(|_| Error::MetadataFull);
        let mut out = Vec::with_capacity(4096);
        out.extend_from_slice(GROUP_MAGIC);
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&FORMAT_VERSION.to_le_bytes());
        out.extend_from_slice(&self.id);
        out.extend_from_slice(&self.sequence.to_le_bytes());
        out.extend_from_slice(&[0; 4]);
        out.extend_from_slice(&count(self.luns.len())?.to_le_bytes());
        out.extend_from_slice(&count(self.files.len())?.to_le_bytes());
        for lun in &self.luns {
            out.extend_from_slice(&lun.size_aus.to_le_bytes());
            out.extend_from_slice(&count(lun.path.len())?.to_le_bytes());
            out.extend_from_slice(lun.path.as_bytes());
        }
        for (no, file) in &self.files {
            let aus = u32::try_from(file.aus.len()).map_err(|_| Error::MetadataFull)?;
            out.extend_from_slice(&no.to_le_bytes());
            out.extend_from_slice(&file.blocks.to_le_bytes());
            out.extend_from_slice(&aus.to_le_bytes());
            for au in &file.aus {
                out.extend_from_slice(&au.lun.to_le_bytes());
                out.extend_from_slice(&au.au.to_le_bytes());
            }
        }
        let len = u32::try_from(out.len()).map_err(|_| Error::MetadataFull)?;
        if u64::from(len) > AU_BYTES {
            return Err(Error::MetadataFull);
        }
        out[40..44].copy_from_slice(&len.to_le_bytes());
        seal(&mut out);
        Ok(out)
    }

    /// How many bytes the copy that begins with `head` says it has; `None`: no copy begins so.
    pub(crate) fn length(head: &[u8]) -> Option<usize> {
        let mut f = Fields(head);
        if f.take(8)? != GROUP_MAGIC {
            return None;
        }
        f.take(32)?;
        let len = f.u32()?;
        (u64::from(len) <= AU_BYTES && len as usize >= FIXED_BYTES).then_some(len as usize)
    }

    /// `None`: torn, foreign or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Meta> {
        let bytes = bytes.get(..Meta::length(bytes)?)?;
        if !is_sealed(bytes) {
            return None;
        }
        let mut f = Fields(bytes);
        f.take(12)?;
        if f.u32()? != FORMAT_VERSION {
            return None;
        }
        let id = f.array()?;
        let sequence = f.u64()?;
        f.u32()?;
        let (lun_count, file_count) = (f.u16()?, f.u16()?);
        let mut luns = Vec::new();
        for _ in 0..lun_count {
            let size_aus = f.u32()?;
            let path_bytes = f.u16()?;
            let path = String::from_utf8(f.take(usize::from(path_bytes))?.to_vec()).ok()?;
            luns.push(LunMeta { path, size_aus });
        }
        let mut files = BTreeMap::new();
        for _ in 0..file_count {
            let no = f.u16()?;
            let blocks = f.u32()?;
            let mut aus = Vec::new();
            for _ in 0..f.u32()? {
                let au = Au { lun: f.u16()?, au: f.u32()? };
                if luns.get(usize::from(au.lun)).is_none_or(|l| au.au >= l.size_aus) {
                    return None;
                }
                aus.push(au);
            }
            files.insert(no, FileMeta { blocks, aus });
        }
        Some(Meta { id, sequence, luns, files })
    }

    /// Free units of each LUN.
    pub(crate) fn free_aus(&self) -> Vec<u32> {
        let mut free: Vec<u32> =
            self.luns.iter().map(|l| l.size_aus.saturating_sub(RESERVED_AUS)).collect();
        for au in self.files.values().flat_map(|f| &f.aus) {
            free[usize::from(au.lun)] -= 1;
        }
        free
    }

    /// Gives a file its next units: round-robin over the LUNs that have room, lowest unit first.
    fn allocate(&self, after: Option<Au>, count: u32) -> Result<Vec<Au>> {
        let mut left = self.free_aus();
        let free_aus: u32 = left.iter().sum();
        if free_aus < count {
            return Err(Error::Full { wanted_aus: count, free_aus });
        }
        let mut used: Vec<Vec<bool>> =
            self.luns.iter().map(|l| vec![false; l.size_aus as usize]).collect();
        for au in self.files.values().flat_map(|f| &f.aus) {
            used[usize::from(au.lun)][au.au as usize] = true;
        }
        let mut cursor = vec![RESERVED_AUS; self.luns.len()];
        let mut lun = after.map_or(0, |au| usize::from(au.lun) + 1);
        let mut out = Vec::with_capacity(count as usize);
        while out.len() < count as usize {
            lun %= self.luns.len();
            if left[lun] > 0 {
                left[lun] -= 1;
                while used[lun][cursor[lun] as usize] {
                    cursor[lun] += 1;
                }
                let no = u16::try_from(lun).map_err(|_| Error::MetadataFull)?;
                out.push(Au { lun: no, au: cursor[lun] });
                cursor[lun] += 1;
            }
            lun += 1;
        }
        Ok(out)
    }

    /// The file with `more_blocks` more, and the units they need.
    pub(crate) fn grow(&mut self, file_no: u16, more_blocks: u32) -> Result<u32> {
        let file = self.files.get(&file_no).ok_or(Error::NoSuchFile(file_no))?;
        let blocks =
            file.blocks.checked_add(more_blocks).ok_or(Error::FileTooLarge { file: file_no })?;
        let have = u32::try_from(file.aus.len()).map_err(|_| Error::MetadataFull)?;
        let wanted = blocks.div_ceil(AU_BLOCKS).saturating_sub(have);
        // The first unit of each file starts on another LUN, so that small files spread too.
        let start = Au { lun: file_no % self.luns.len() as u16, au: 0 };
        let aus = self.allocate(Some(file.aus.last().copied().unwrap_or(start)), wanted)?;
        let file = self.files.get_mut(&file_no).ok_or(Error::NoSuchFile(file_no))?;
        file.blocks = blocks;
        file.aus.extend(aus);
        Ok(blocks)
    }
}
