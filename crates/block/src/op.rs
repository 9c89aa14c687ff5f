//! Operations: the only ways a block changes.
//!
//! One [`Op`] is the body of one change vector. `apply` serves the running instance, crash recovery
//! and the simulator alike, and is a function of the block and the operation alone. Each
//! transactional operation has an [`Inverse`], computed from the block as it stands *before* the
//! change and kept in the undo record.

mod inverse;

pub use inverse::Inverse;

use crate::bytes::{ByteList, DecodeError, Reader, Write, put_u16, u16_of};
use crate::itl::{self, Itl, ItlChange};
use crate::layout::{self, Kind};
use crate::piece;
use crate::rows::{self, DELETED};
use crate::types::{Dba, ObjId, Rowid, Scn, Version};
use crate::undo;

/// What an operation does; see the variants.
#[derive(Clone, PartialEq, Debug)]
pub enum Op {
    /// Makes the block anew, whatever it held. `itl`: entries to start with (0: not transactional).
    Format {
        kind: Kind,
        obj: ObjId,
        birth: Scn,
        level: u8,
        itl: u8,
    },
    /// Makes the block anew with this body (bytes 40.. up to the end, as [`Op::image_of`] packs
    /// it).
    FormatImage {
        kind: Kind,
        obj: ObjId,
        body: Vec<u8>,
    },
    /// Replaces the body of a block (a split's left half).
    Image {
        kind: Kind,
        obj: ObjId,
        body: Vec<u8>,
    },
    /// Overwrites bytes at offsets.
    Patch(Vec<(u16, Vec<u8>)>),
    HeapInsert {
        itl: ItlChange,
        slot: u16,
        flags: u8,
        bytes: Vec<u8>,
    },
    /// Several new rows: `rows` one by one into `slots` (ascending), without flags.
    HeapInsertMany {
        itl: ItlChange,
        slots: Vec<u16>,
        rows: ByteList,
    },
    HeapUpdate {
        itl: ItlChange,
        slot: u16,
        flags: u8,
        bytes: Vec<u8>,
    },
    HeapDelete {
        itl: ItlChange,
        slot: u16,
    },
    HeapLock {
        itl: ItlChange,
        slot: u16,
    },
    /// Purges deleted rows and trims capacities; the rows' changers have committed.
    Settle {
        slots: Vec<u16>,
    },
    LeafInsert {
        itl: ItlChange,
        key: Vec<u8>,
        rowid: Rowid,
    },
    /// Several new entries, in the order of their keys.
    LeafInsertMany {
        itl: ItlChange,
        keys: ByteList,
        rowids: Vec<Rowid>,
    },
    /// Marks the entry deleted.
    LeafMark {
        itl: ItlChange,
        key: Vec<u8>,
    },
    /// Gives a marked entry of a unique index a new rowid and life.
    LeafRevive {
        itl: ItlChange,
        key: Vec<u8>,
        rowid: Rowid,
    },
    /// Removes marked entries (ascending positions); `scn` is at or above their deletes.
    LeafPurge {
        positions: Vec<u16>,
        scn: Scn,
    },
    /// Puts a row into its piece of a bitmap index, or takes it out. `key`: value and rowid.
    PieceFlip {
        itl: ItlChange,
        key: Vec<u8>,
        on: bool,
    },
    /// Cuts the piece with this key in two; the left part ends at rowid `at`.
    PieceSplit {
        key: Vec<u8>,
        at: u64,
    },
    /// Adds the parent entry of a split.
    BranchInsert {
        key: Vec<u8>,
        child: Dba,
    },
    /// Appends one undo record to an undo block.
    UndoAppend {
        record: Vec<u8>,
    },
    /// Takes one change of a transaction back and restores its ITL entry.
    Rollback {
        itl_idx: u8,
        saved: Itl,
        inverse: Inverse,
    },
}

fn put_image(out: &mut Vec<u8>, tag: u8, kind: Kind, obj: ObjId, body: &[u8]) {
    out.u8(tag);
    out.u8(kind as u8);
    out.u32(obj.0);
    out.bytes32(body);
}

impl Op {
    /// The body of `b` as `Image` carries it: bytes 40.., with the gap of slotted blocks left out.
    #[must_use]
    pub fn image_of(b: &[u8]) -> Vec<u8> {
        b[40..].to_vec()
    }

    /// Whether redo of this operation must be durable before even a consistent-read copy may leave
    /// (hazard H1): structure is never taken back.
    #[must_use]
    pub fn is_structural(&self) -> bool {
        matches!(
            self,
            Op::Format { .. }
                | Op::FormatImage { .. }
                | Op::Image { .. }
                | Op::Settle { .. }
                | Op::LeafPurge { .. }
                | Op::PieceSplit { .. }
                | Op::BranchInsert { .. }
        )
    }

    /// Whether the operation makes the block anew, at any lower version.
    #[must_use]
    pub fn is_format(&self) -> bool {
        matches!(self, Op::Format { .. } | Op::FormatImage { .. })
    }

    /// [`Op::is_format`] of an encoded operation.
    #[must_use]
    pub fn is_format_code(encoded: &[u8]) -> bool {
        matches!(encoded.first(), Some(0 | 1))
    }

    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Op::Format { kind, obj, birth, level, itl } => {
                out.u8(0);
                out.u8(*kind as u8);
                out.u32(obj.0);
                out.u64(birth.0);
                out.u8(*level);
                out.u8(*itl);
            }
            Op::FormatImage { kind, obj, body } => put_image(out, 1, *kind, *obj, body),
            Op::Image { kind, obj, body } => put_image(out, 2, *kind, *obj, body),
            Op::Patch(parts) => {
                out.u8(3);
                out.u16(crate::bytes::u16_of(parts.len()));
                for (off, bytes) in parts {
                    out.u16(*off);
                    out.bytes16(bytes);
                }
            }
            Op::HeapInsert { itl, slot, flags, bytes } => {
                out.u8(4);
                itl.encode(out);
                out.u16(*slot);
                out.u8(*flags);
                out.bytes16(bytes);
            }
            Op::HeapUpdate { itl, slot, flags, bytes } => {
                out.u8(5);
                itl.encode(out);
                out.u16(*slot);
                out.u8(*flags);
                out.bytes16(bytes);
            }
            Op::HeapDelete { itl, slot } => {
                out.u8(6);
                itl.encode(out);
                out.u16(*slot);
            }
            Op::HeapLock { itl, slot } => {
                out.u8(7);
                itl.encode(out);
                out.u16(*slot);
            }
            Op::Settle { slots } => {
                out.u8(8);
                put_positions(out, slots);
            }
            Op::LeafInsert { itl, key, rowid } => {
                out.u8(9);
                itl.encode(out);
                out.u64(rowid.to_u64());
                out.bytes16(key);
            }
            Op::LeafMark { itl, key } => {
                out.u8(10);
                itl.encode(out);
                out.bytes16(key);
            }
            Op::LeafRevive { itl, key, rowid } => {
                out.u8(11);
                itl.encode(out);
                out.u64(rowid.to_u64());
                out.bytes16(key);
            }
            Op::LeafPurge { positions, scn } => {
                out.u8(12);
                out.u64(scn.0);
                put_positions(out, positions);
            }
            Op::BranchInsert { key, child } => {
                out.u8(13);
                out.u64(child.to_u64());
                out.bytes16(key);
            }
            Op::UndoAppend { record } => {
                out.u8(14);
                out.bytes16(record);
            }
            Op::Rollback { itl_idx, saved, inverse } => {
                out.u8(15);
                out.u8(*itl_idx);
                saved.encode(out);
                inverse.encode(out);
            }
            Op::HeapInsertMany { itl, slots, rows } => {
                out.u8(16);
                itl.encode(out);
                put_runs(out, slots);
                rows.encode(out);
            }
            Op::LeafInsertMany { itl, keys, rowids } => {
                out.u8(17);
                itl.encode(out);
                keys.encode(out);
                for rowid in rowids {
                    out.u64(rowid.to_u64());
                }
            }
            Op::PieceFlip { itl, key, on } => {
                out.u8(18);
                itl.encode(out);
                out.u8(u8::from(*on));
                out.bytes16(key);
            }
            Op::PieceSplit { key, at } => {
                out.u8(19);
                out.u64(*at);
                out.bytes16(key);
            }
        }
    }

    /// # Errors
    /// The bytes are not an operation of this or an older release.
    pub fn decode(r: &mut Reader<'_>) -> Result<Op, DecodeError> {
        Ok(match r.u8()? {
            0 => Op::Format {
                kind: kind_of(r)?,
                obj: ObjId(r.u32()?),
                birth: Scn(r.u64()?),
                level: r.u8()?,
                itl: r.u8()?,
            },
            1 => Op::FormatImage {
                kind: kind_of(r)?,
                obj: ObjId(r.u32()?),
                body: r.bytes32()?.to_vec(),
            },
            2 => Op::Image { kind: kind_of(r)?, obj: ObjId(r.u32()?), body: r.bytes32()?.to_vec() },
            3 => {
                let n = r.u16()?;
                let mut parts = Vec::new();
                for _ in 0..n {
                    parts.push((r.u16()?, r.bytes16()?.to_vec()));
                }
                Op::Patch(parts)
            }
            4 => Op::HeapInsert {
                itl: ItlChange::decode(r)?,
                slot: r.u16()?,
                flags: r.u8()?,
                bytes: r.bytes16()?.to_vec(),
            },
            5 => Op::HeapUpdate {
                itl: ItlChange::decode(r)?,
                slot: r.u16()?,
                flags: r.u8()?,
                bytes: r.bytes16()?.to_vec(),
            },
            6 => Op::HeapDelete { itl: ItlChange::decode(r)?, slot: r.u16()? },
            7 => Op::HeapLock { itl: ItlChange::decode(r)?, slot: r.u16()? },
            8 => Op::Settle { slots: get_positions(r)? },
            9 => {
                let itl = ItlChange::decode(r)?;
                let rowid = Rowid::from_u64(r.u64()?);
                Op::LeafInsert { itl, key: r.bytes16()?.to_vec(), rowid }
            }
            10 => Op::LeafMark { itl: ItlChange::decode(r)?, key: r.bytes16()?.to_vec() },
            11 => {
                let itl = ItlChange::decode(r)?;
                let rowid = Rowid::from_u64(r.u64()?);
                Op::LeafRevive { itl, key: r.bytes16()?.to_vec(), rowid }
            }
            12 => {
                let scn = Scn(r.u64()?);
                Op::LeafPurge { positions: get_positions(r)?, scn }
            }
            13 => {
                let child = Dba::from_u64(r.u64()?);
                Op::BranchInsert { key: r.bytes16()?.to_vec(), child }
            }
            14 => Op::UndoAppend { record: r.bytes16()?.to_vec() },
            15 => Op::Rollback {
                itl_idx: r.u8()?,
                saved: Itl::decode(r)?,
                inverse: Inverse::decode(r)?,
            },
            16 => {
                let (itl, slots) = (ItlChange::decode(r)?, get_runs(r)?);
                let rows = ByteList::decode(r)?;
                if rows.len() != slots.len() {
                    return Err(r.error());
                }
                Op::HeapInsertMany { itl, slots, rows }
            }
            17 => {
                let (itl, keys) = (ItlChange::decode(r)?, ByteList::decode(r)?);
                let rowids: Result<Vec<Rowid>, DecodeError> =
                    (0..keys.len()).map(|_| Ok(Rowid::from_u64(r.u64()?))).collect();
                Op::LeafInsertMany { itl, keys, rowids: rowids? }
            }
            18 => {
                let (itl, on) = (ItlChange::decode(r)?, r.u8()? != 0);
                Op::PieceFlip { itl, key: piece_key(r)?, on }
            }
            19 => {
                let at = r.u64()?;
                Op::PieceSplit { key: piece_key(r)?, at }
            }
            _ => return Err(r.error()),
        })
    }

    /// Names the transaction's entry in a transactional operation; others are left as they are.
    pub fn set_itl(&mut self, change: ItlChange) {
        match self {
            Op::HeapInsert { itl, .. }
            | Op::HeapInsertMany { itl, .. }
            | Op::LeafInsertMany { itl, .. }
            | Op::HeapUpdate { itl, .. }
            | Op::HeapDelete { itl, .. }
            | Op::HeapLock { itl, .. }
            | Op::LeafInsert { itl, .. }
            | Op::LeafMark { itl, .. }
            | Op::LeafRevive { itl, .. }
            | Op::PieceFlip { itl, .. } => *itl = change,
            _ => {}
        }
    }

    /// The lock byte that a transactional operation overwrites in `b`; 0 if none.
    #[must_use]
    pub fn overwritten_lock(&self, b: &[u8]) -> u8 {
        match self {
            Op::HeapUpdate { slot, .. }
            | Op::HeapDelete { slot, .. }
            | Op::HeapLock { slot, .. } => rows::get(b, *slot).map_or(0, |r| r.lock),
            Op::LeafMark { key, .. } | Op::LeafRevive { key, .. } => {
                rows::search(b, key).map_or(0, |pos| rows::entry(b, pos).lock)
            }
            Op::PieceFlip { key, .. } => {
                piece::find(b, key).map_or(0, |pos| rows::entry(b, pos).lock)
            }
            _ => 0,
        }
    }

    /// Applies the operation to the content of `b` (not to version and SCN).
    ///
    /// # Panics
    /// When the operation does not fit the block: the caller has checked versions, so this is a
    /// bug.
    pub fn apply(&self, b: &mut [u8], dba: Dba) {
        match self {
            Op::Format { kind, obj, birth, level, itl } => {
                layout::init(b, *kind, dba, *obj, *birth);
                match kind {
                    Kind::Heap | Kind::Leaf | Kind::Branch => rows::init(b, *level, *itl),
                    Kind::Undo => undo::init(b),
                    _ => {}
                }
            }
            Op::FormatImage { kind, obj, body } | Op::Image { kind, obj, body } => {
                layout::init(b, *kind, dba, *obj, Scn::ZERO);
                b[40..40 + body.len()].copy_from_slice(body);
            }
            Op::Patch(parts) => {
                for (off, bytes) in parts {
                    let at = usize::from(*off);
                    assert!(at >= layout::HEADER_BYTES, "a patch may not touch the header");
                    b[at..at + bytes.len()].copy_from_slice(bytes);
                }
            }
            Op::HeapInsert { itl, slot, flags, bytes } => {
                itl.apply(b);
                rows::insert_at(b, *slot, *flags, itl.idx + 1, bytes);
            }
            Op::HeapInsertMany { itl, slots, rows } => {
                itl.apply(b);
                for (slot, bytes) in slots.iter().zip(rows.iter()) {
                    rows::insert_at(b, *slot, 0, itl.idx + 1, bytes);
                }
            }
            Op::HeapUpdate { itl, slot, flags, bytes } => {
                itl.apply(b);
                rows::replace(b, *slot, *flags, itl.idx + 1, bytes);
            }
            Op::HeapDelete { itl, slot } => {
                itl.apply(b);
                let flags = rows::get(b, *slot).expect("the row is there").flags;
                rows::set_flags(b, *slot, flags | DELETED);
                rows::set_lock(b, *slot, itl.idx + 1);
            }
            Op::HeapLock { itl, slot } => {
                itl.apply(b);
                rows::set_lock(b, *slot, itl.idx + 1);
            }
            Op::Settle { slots } => rows::settle(b, slots),
            Op::LeafInsert { itl, key, rowid } => {
                itl.apply(b);
                rows::insert_entry(b, 0, itl.idx + 1, rowid.to_u64(), key);
            }
            Op::LeafInsertMany { itl, keys, rowids } => {
                itl.apply(b);
                let values = rowids.iter().map(|rowid| rowid.to_u64());
                rows::insert_entries(b, itl.idx + 1, keys.iter().zip(values));
            }
            Op::LeafMark { itl, key } => {
                itl.apply(b);
                let pos = rows::search(b, key).expect("the entry is there");
                rows::set_flags(b, pos, DELETED);
                rows::set_lock(b, pos, itl.idx + 1);
            }
            Op::LeafRevive { itl, key, rowid } => {
                itl.apply(b);
                let pos = rows::search(b, key).expect("the entry is there");
                rows::set_flags(b, pos, 0);
                rows::set_lock(b, pos, itl.idx + 1);
                rows::set_value(b, pos, rowid.to_u64());
            }
            Op::LeafPurge { positions, scn } => {
                for &pos in positions.iter().rev() {
                    rows::remove_entry(b, pos);
                }
                let scn = rows::purged_scn(b).max(*scn);
                rows::set_purged_scn(b, scn);
            }
            Op::PieceFlip { itl, key, on } => {
                itl.apply(b);
                piece::flip(b, key, *on, itl.idx + 1);
            }
            Op::PieceSplit { key, at } => piece::split(b, key, *at),
            Op::BranchInsert { key, child } => {
                rows::insert_entry(b, 0, 0, child.to_u64(), key);
            }
            Op::UndoAppend { record } => undo::append(b, record),
            Op::Rollback { itl_idx, saved, inverse } => {
                inverse.apply(b);
                if *itl_idx < itl::count(b) {
                    // Its first change of the leaf is taken back: a part of a piece that was cut,
                    // and which no undo names, still has its lock.
                    let of_piece = matches!(inverse, Inverse::PieceFlip { .. });
                    if of_piece && saved.xid != itl::get(b, *itl_idx).xid {
                        rows::clear_locks(b, *itl_idx);
                    }
                    itl::put(b, *itl_idx, saved);
                }
            }
        }
    }
}

fn kind_of(r: &mut Reader<'_>) -> Result<Kind, DecodeError> {
    Kind::from_u8(r.u8()?).ok_or(r.error())
}

/// A value and a rowid.
fn piece_key(r: &mut Reader<'_>) -> Result<Vec<u8>, DecodeError> {
    let key = r.bytes16()?.to_vec();
    if key.len() < piece::END_BYTES { Err(r.error()) } else { Ok(key) }
}

fn put_positions(out: &mut Vec<u8>, positions: &[u16]) {
    out.u16(crate::bytes::u16_of(positions.len()));
    for &p in positions {
        out.u16(p);
    }
}

fn get_positions(r: &mut Reader<'_>) -> Result<Vec<u16>, DecodeError> {
    let n = r.u16()?;
    (0..n).map(|_| r.u16()).collect()
}

/// No block has so many slots: each takes two bytes of its directory.
const SLOTS_MAX: usize = crate::BLOCK_BYTES / 2;

/// Ascending slots as runs: count (u16), then first slot and length (u16 each).
fn put_runs(out: &mut Vec<u8>, slots: &[u16]) {
    let runs: Vec<&[u16]> = slots.chunk_by(|a, b| a.checked_add(1) == Some(*b)).collect();
    out.u16(u16_of(runs.len()));
    for run in runs {
        out.u16(run[0]);
        out.u16(u16_of(run.len()));
    }
}

fn get_runs(r: &mut Reader<'_>) -> Result<Vec<u16>, DecodeError> {
    let n = r.u16()?;
    let mut slots: Vec<u16> = Vec::new();
    for _ in 0..n {
        let (first, count) = (r.u16()?, r.u16()?);
        let end = first.checked_add(count).ok_or(r.error())?;
        // A few bytes stand for many slots: for no more than a block has.
        let follows = slots.last().is_none_or(|last| *last < first);
        if !follows || usize::from(end) > SLOTS_MAX {
            return Err(r.error());
        }
        slots.extend(first..end);
    }
    Ok(slots)
}

/// One change vector: which block, the version it had, what happens.
#[derive(Clone, PartialEq, Debug)]
pub struct Vector {
    pub dba: Dba,
    pub before: Version,
    pub op: Op,
}

/// What [`Vector::replay`] found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Replay {
    Applied,
    /// The block is at or beyond the version this vector makes.
    Skipped,
    /// The block is older than the vector's predecessor: something is missing.
    Gap,
}

impl Vector {
    /// The version the vector makes, given the redo record's SCN.
    #[must_use]
    pub fn after(&self, scn: Scn) -> Version {
        if self.op.is_format() { Version { format: scn, count: 0 } } else { self.before.next() }
    }

    /// Applies to a block known to be at `before`.
    pub fn apply(&self, b: &mut [u8], scn: Scn) {
        apply_at(b, self.dba, &self.op, self.before, scn);
    }

    /// Recovery: applies if the block stands exactly at the predecessor.
    pub fn replay(&self, b: &mut [u8], scn: Scn) -> Replay {
        let have = layout::version(b);
        if have >= self.after(scn) {
            return Replay::Skipped;
        }
        if !self.op.is_format() && have != self.before {
            return Replay::Gap;
        }
        apply_at(b, self.dba, &self.op, self.before, scn);
        Replay::Applied
    }
}

/// Applies `op` to `b`, whose version is `before`, and stamps the new version and SCN.
pub fn apply_at(b: &mut [u8], dba: Dba, op: &Op, before: Version, scn: Scn) {
    op.apply(b, dba);
    let after = if op.is_format() { Version { format: scn, count: 0 } } else { before.next() };
    layout::set_version(b, after);
    layout::set_scn(b, scn);
}

/// A patch of one u16 field.
#[must_use]
pub fn patch_u16(off: u16, v: u16) -> (u16, Vec<u8>) {
    let mut b = vec![0; 2];
    put_u16(&mut b, 0, v);
    (off, b)
}

#[must_use]
pub fn patch_u32(off: u16, v: u32) -> (u16, Vec<u8>) {
    (off, v.to_le_bytes().to_vec())
}
