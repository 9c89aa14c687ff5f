//! Undo blocks, undo records, and the transaction table of an undo segment's header.
//!
//! An undo block (offsets): 64 record count (2), 66 end of the records (2), 72.. records; the
//! directory of record offsets grows from the end of the block downwards. Append-only while its
//! transactions live; a record is used only if the xid in it is the one expected.

use crate::BLOCK_BYTES;
use crate::bytes::{DecodeError, Reader, Write, get_u16, get_u32, get_u64, put_u16, u16_of};
use crate::itl::Itl;
use crate::op::Inverse;
use crate::types::{Dba, ObjId, Scn, Uba, UndoNo, Xid};

const OFF_COUNT: usize = 64;
const OFF_END: usize = 66;
const OFF_RECORDS: usize = 72;

/// Bytes an undo record has besides its inverse.
pub const UNDO_RECORD_FIXED_BYTES: usize = 8 + 4 + 8 + 8 + 4 + 8 + 1 + 29;
/// The longest undo record.
pub const UNDO_RECORD_BYTES_MAX: usize = BLOCK_BYTES - OFF_RECORDS - 2;

pub fn init(b: &mut [u8]) {
    put_u16(b, OFF_END, u16_of(OFF_RECORDS));
}

#[must_use]
pub fn record_count(b: &[u8]) -> u16 {
    get_u16(b, OFF_COUNT)
}

/// Whether a record of `len` bytes fits.
#[must_use]
pub fn fits(b: &[u8], len: usize) -> bool {
    let directory = b.len() - 2 * (usize::from(record_count(b)) + 1);
    usize::from(get_u16(b, OFF_END)) + len <= directory
}

/// Appends a record; it gets the number `record_count` had.
///
/// # Panics
/// When it does not fit.
pub fn append(b: &mut [u8], record: &[u8]) {
    assert!(fits(b, record.len()), "undo block is full");
    let n = record_count(b);
    let at = usize::from(get_u16(b, OFF_END));
    b[at..at + record.len()].copy_from_slice(record);
    let slot = b.len() - 2 * (usize::from(n) + 1);
    put_u16(b, slot, u16_of(at));
    put_u16(b, OFF_COUNT, n + 1);
    put_u16(b, OFF_END, u16_of(at + record.len()));
}

/// The bytes of record `n`, or `None` if the block has fewer.
#[must_use]
pub fn record(b: &[u8], n: u16) -> Option<&[u8]> {
    if n >= record_count(b) {
        return None;
    }
    let at = |i: u16| usize::from(get_u16(b, b.len() - 2 * (usize::from(i) + 1)));
    let end = if n + 1 < record_count(b) { at(n + 1) } else { usize::from(get_u16(b, OFF_END)) };
    b.get(at(n)..end)
}

/// Walks an undo block and says what is inconsistent, whatever the bytes are.
///
/// # Errors
/// A sentence about the first inconsistency.
pub fn verify(b: &[u8]) -> Result<(), String> {
    let (count, end) = (usize::from(record_count(b)), usize::from(get_u16(b, OFF_END)));
    if end < OFF_RECORDS || end + 2 * count > b.len() {
        return Err(format!("{count} undo records end at {end}"));
    }
    for n in 0..record_count(b) {
        let record = record(b, n).ok_or_else(|| format!("undo record {n} lies outside"))?;
        UndoRecord::decode(record).map_err(|e| format!("undo record {n}: {e}"))?;
    }
    Ok(())
}

/// How to take one change back, and where.
#[derive(Clone, PartialEq, Debug)]
pub struct UndoRecord {
    pub xid: Xid,
    pub undo_no: UndoNo,
    /// The transaction's previous record.
    pub prev: Uba,
    pub target: Dba,
    pub obj: ObjId,
    /// Birth of the segment the target belonged to.
    pub birth: Scn,
    pub itl_idx: u8,
    /// The ITL entry as it was before the change.
    pub saved: Itl,
    pub inverse: Inverse,
}

impl UndoRecord {
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(96);
        out.u64(self.xid.to_u64());
        out.u32(self.undo_no.0);
        out.u64(self.prev.to_u64());
        out.u64(self.target.to_u64());
        out.u32(self.obj.0);
        out.u64(self.birth.0);
        out.u8(self.itl_idx);
        self.saved.encode(&mut out);
        self.inverse.encode(&mut out);
        out
    }

    /// # Errors
    /// The bytes are not an undo record.
    pub fn decode(bytes: &[u8]) -> Result<UndoRecord, DecodeError> {
        let mut r = Reader::new(bytes);
        Ok(UndoRecord {
            xid: Xid::from_u64(r.u64()?),
            undo_no: UndoNo(r.u32()?),
            prev: Uba::from_u64(r.u64()?),
            target: Dba::from_u64(r.u64()?),
            obj: ObjId(r.u32()?),
            birth: Scn(r.u64()?),
            itl_idx: r.u8()?,
            saved: Itl::decode(&mut r)?,
            inverse: Inverse::decode(&mut r)?,
        })
    }

    /// The record `uba` of an undo block, if it is there and belongs to `xid`.
    #[must_use]
    pub fn find(b: &[u8], uba: Uba, xid: Xid) -> Option<UndoRecord> {
        let bytes = record(b, uba.rec)?;
        UndoRecord::decode(bytes).ok().filter(|r| r.xid == xid)
    }
}

/// Number of the last record of `xid` in an undo block: the tail of the transaction's chain.
#[must_use]
pub fn last_of(b: &[u8], xid: Xid) -> Option<u16> {
    (0..record_count(b))
        .rev()
        .find(|&n| record(b, n).is_some_and(|r| r.len() >= 8 && get_u64(r, 0) == xid.to_u64()))
}

// ---- transaction table ----------------------------------------------------------------------

/// State of a transaction-table slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum TxState {
    /// Never used, or rolled back: nothing of the slot's transaction remains.
    #[default]
    Free = 0,
    Active = 1,
    Committed = 2,
}

/// One slot: sequence (4), state (1), zero (3), undo block (8), commit SCN (8), next record to roll
/// back + 1 or 0 (8: a Uba; set once rollback has begun).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TxSlot {
    pub seq: u32,
    pub state: TxState,
    /// The transaction's current undo block.
    pub undo: Dba,
    pub scn: Scn,
    /// Progress of a rollback: the next record to take back; none: the chain's tail.
    pub next: Uba,
    /// Rollback has begun.
    pub rolling_back: bool,
}

pub const TX_SLOT_BYTES: usize = 40;
/// Where the slots start; 64..: owner (1), slot count (2, at 66), forgotten commit SCN (8, at 72),
/// extent count (2, at 80), sequence floor (4, at 84), then at 96 the slots, then the extents (8
/// bytes each) at the end.
pub const OFF_OWNER: usize = 64;
pub const OFF_FORGOTTEN: usize = 72;
pub const OFF_EXTENTS: usize = 80;
/// No sequence number up to this one is given out any more: a life that ended may have used it.
pub const OFF_SEQ_FLOOR: usize = 84;
pub const OFF_TX_SLOTS: usize = 96;
pub const TX_SLOT_COUNT: u16 = 120;
pub const OFF_EXTENT_LIST: usize = OFF_TX_SLOTS + TX_SLOT_COUNT as usize * TX_SLOT_BYTES;
/// Extents an undo segment can have: first block (6 bytes) and size (2 bytes, in units of the
/// smallest less one) each.
pub const UNDO_EXTENTS_MAX: usize = (BLOCK_BYTES - OFF_EXTENT_LIST) / 8;

impl TxSlot {
    #[must_use]
    pub fn offset(slot: u16) -> usize {
        OFF_TX_SLOTS + usize::from(slot) * TX_SLOT_BYTES
    }

    #[must_use]
    pub fn get(b: &[u8], slot: u16) -> TxSlot {
        let at = TxSlot::offset(slot);
        TxSlot {
            seq: get_u32(b, at),
            state: match b[at + 4] {
                1 => TxState::Active,
                2 => TxState::Committed,
                _ => TxState::Free,
            },
            rolling_back: b[at + 5] != 0,
            undo: Dba::from_u64(get_u64(b, at + 8)),
            scn: Scn(get_u64(b, at + 16)),
            next: Uba::from_u64(get_u64(b, at + 24)),
        }
    }

    /// The patch that writes this slot.
    #[must_use]
    pub fn patch(&self, slot: u16) -> (u16, Vec<u8>) {
        let mut out = Vec::with_capacity(TX_SLOT_BYTES);
        out.u32(self.seq);
        out.u8(self.state as u8);
        out.u8(u8::from(self.rolling_back));
        out.u16(0);
        out.u64(self.undo.to_u64());
        out.u64(self.scn.0);
        out.u64(self.next.to_u64());
        out.u64(0);
        (u16_of(TxSlot::offset(slot)), out)
    }
}
