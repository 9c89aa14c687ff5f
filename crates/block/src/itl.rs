//! The interested transaction list: which transactions have changed a block.
//!
//! Entry: xid (8), uba of its latest undo record for this block (8), commit SCN or 0 (8), number of
//! that undo record (4), flags (1), zero (3). The commit SCN is a hint (cleanout): written without
//! redo and without a new version, only once the transaction is durably committed.

use crate::bytes::{Reader, Write, get_u32, get_u64, put_u32, put_u64};
use crate::layout;
use crate::rows;
use crate::types::{Scn, Uba, UndoNo, Xid};

pub const ITL_ENTRY_BYTES: usize = 32;
/// Entries a new block starts with.
pub const ITL_INITIAL: u8 = 2;
/// The most a block can have: rows keep more than half of it.
pub const ITL_ENTRIES_MAX: u8 = 100;
const _: () = assert!(ITL_ENTRIES_MAX as usize * ITL_ENTRY_BYTES <= crate::BLOCK_BYTES / 2);

const BOUND: u8 = 1;

/// One entry. `xid` none: free. `scn` zero: outcome not known here. `bound`: the transaction
/// committed at `scn` or earlier.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Itl {
    pub xid: Xid,
    pub uba: Uba,
    pub scn: Scn,
    pub undo_no: UndoNo,
    pub bound: bool,
}

impl Itl {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.u64(self.xid.to_u64());
        out.u64(self.uba.to_u64());
        out.u64(self.scn.0);
        out.u32(self.undo_no.0);
        out.u8(u8::from(self.bound));
    }

    /// # Errors
    /// The bytes end.
    pub fn decode(r: &mut Reader<'_>) -> Result<Itl, crate::bytes::DecodeError> {
        Ok(Itl {
            xid: Xid::from_u64(r.u64()?),
            uba: Uba::from_u64(r.u64()?),
            scn: Scn(r.u64()?),
            undo_no: UndoNo(r.u32()?),
            bound: r.u8()? != 0,
        })
    }
}

#[must_use]
#[inline]
pub fn count(b: &[u8]) -> u8 {
    b[rows::OFF_ITL_COUNT]
}

#[inline]
fn offset(idx: u8) -> usize {
    rows::OFF_ITL + usize::from(idx) * ITL_ENTRY_BYTES
}

#[must_use]
#[inline]
pub fn get(b: &[u8], idx: u8) -> Itl {
    let at = offset(idx);
    Itl {
        xid: Xid::from_u64(get_u64(b, at)),
        uba: Uba::from_u64(get_u64(b, at + 8)),
        scn: Scn(get_u64(b, at + 16)),
        undo_no: UndoNo(get_u32(b, at + 24)),
        bound: b[at + 28] & BOUND != 0,
    }
}

#[inline]
pub fn put(b: &mut [u8], idx: u8, e: &Itl) {
    let at = offset(idx);
    put_u64(b, at, e.xid.to_u64());
    put_u64(b, at + 8, e.uba.to_u64());
    put_u64(b, at + 16, e.scn.0);
    put_u32(b, at + 24, e.undo_no.0);
    b[at + 28] = if e.bound { BOUND } else { 0 };
}

/// The entry of transaction `xid`, if it has one here.
#[must_use]
#[inline]
pub fn find(b: &[u8], xid: Xid) -> Option<u8> {
    let want = xid.to_u64();
    (0..count(b)).find(|&i| get_u64(b, offset(i)) == want)
}

/// All entries with their index.
#[inline]
pub fn iter(b: &[u8]) -> impl Iterator<Item = (u8, Itl)> + '_ {
    (0..count(b)).map(|i| (i, get(b, i)))
}

/// What a transactional change does to its transaction's entry: entry `idx` becomes
/// `{xid, uba, undo_no}`, uncommitted. Another transaction's entry there is taken over: its commit
/// SCN (already known to be final) is remembered in the header and every lock byte that names the
/// entry is cleared. `idx` equal to the count makes a new entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ItlChange {
    pub idx: u8,
    pub xid: Xid,
    pub uba: Uba,
    pub undo_no: UndoNo,
    /// Highest commit SCN of which the block loses trace: of the transaction whose entry is taken
    /// over, and of the last changer of the row, whose lock byte is overwritten (a rollback cannot
    /// restore it). Zero if none.
    pub taken: Scn,
}

impl ItlChange {
    pub fn encode(&self, out: &mut Vec<u8>) {
        out.u8(self.idx);
        out.u64(self.xid.to_u64());
        out.u64(self.uba.to_u64());
        out.u32(self.undo_no.0);
        out.u64(self.taken.0);
    }

    /// # Errors
    /// The bytes end.
    pub fn decode(r: &mut Reader<'_>) -> Result<ItlChange, crate::bytes::DecodeError> {
        Ok(ItlChange {
            idx: r.u8()?,
            xid: Xid::from_u64(r.u64()?),
            uba: Uba::from_u64(r.u64()?),
            undo_no: UndoNo(r.u32()?),
            taken: Scn(r.u64()?),
        })
    }

    pub fn apply(&self, b: &mut [u8]) {
        if self.idx == count(b) {
            rows::grow_itl(b);
        }
        let old = get(b, self.idx);
        if old.xid != self.xid && !old.xid.is_none() {
            rows::clear_locks(b, self.idx);
        }
        let taken = layout::taken_scn(b).max(self.taken);
        layout::set_taken_scn(b, taken);
        let new = Itl {
            xid: self.xid,
            uba: self.uba,
            scn: Scn::ZERO,
            undo_no: self.undo_no,
            bound: false,
        };
        put(b, self.idx, &new);
    }
}

/// Bytes of free room a new entry needs.
#[must_use]
pub fn has_room_to_grow(b: &[u8]) -> bool {
    count(b) < ITL_ENTRIES_MAX && rows::free_bytes(b) >= ITL_ENTRY_BYTES
}

/// Writes the known commit SCN of `xid` into its entry (cleanout). A hint: no redo, no version.
pub fn clean_out(b: &mut [u8], xid: Xid, scn: Scn) {
    if let Some(i) = find(b, xid) {
        put_u64(b, offset(i) + 16, scn.0);
        b[offset(i) + 28] = 0;
    }
}
