//! Long and migrated rows: a head that says where the row is, and a chain of pieces.
//!
//! The head is the row to everybody else: its lock byte locks the row, its rowid stays. Pieces are
//! flagged and read only through their head (hazard M3), and change only under the head's lock. A
//! chain is written last piece first, each piece a change of its own, the head last.

use std::sync::Arc;

use block::bytes::{Reader, Write};
use block::itl::ItlChange;
use block::layout::{self, Kind};
use block::op::{Inverse, Op};
use block::{Mode, Rowid, rows};
use observe::Ctx;

use super::insert::insert_piece;
use super::modify::note_room;
use super::settle::potential_bytes;
use super::{HeapSeg, ROW_BYTES_MAX, ROW_PIECE_BYTES_MAX};
use crate::error::{Error, Result};
use crate::txn::{Outcome, Snapshot, Step, Target, Transaction, View};

/// What a head holds instead of the row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stub {
    pub row_bytes: u32,
    pub first: Rowid,
}

const NEXT_BYTES: usize = 8;
const PIECE_DATA_BYTES: usize = ROW_PIECE_BYTES_MAX - NEXT_BYTES;

impl Stub {
    /// The head's bytes: they fit any row's least capacity.
    pub fn encode(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(rows::ROW_CAPACITY_MIN);
        out.u32(self.row_bytes);
        out.u64(self.first.to_u64());
        debug_assert!(out.len() <= rows::ROW_CAPACITY_MIN);
        out
    }

    pub fn decode(bytes: &[u8]) -> Option<Stub> {
        let mut r = Reader::new(bytes);
        let row_bytes = r.u32().ok()?;
        let first = Rowid::from_u64(r.u64().ok()?);
        Some(Stub { row_bytes, first })
    }

    /// The stub of a row that is a head.
    #[inline(always)]
    pub fn of(row: &rows::Row<'_>) -> Option<Stub> {
        (row.flags & rows::FORWARD != 0).then(|| Stub::decode(row.bytes)).flatten()
    }
}

/// Writes a row as a chain of pieces.
pub async fn write(ctx: &Ctx, txn: &Arc<Transaction>, seg: &HeapSeg, row: &[u8]) -> Result<Stub> {
    if row.len() > ROW_BYTES_MAX {
        return Err(Error::RowTooLong { bytes: row.len(), limit: ROW_BYTES_MAX });
    }
    let mut next = 0;
    let mut piece = Vec::with_capacity(ROW_PIECE_BYTES_MAX.min(row.len() + NEXT_BYTES));
    for data in row.chunks(PIECE_DATA_BYTES).rev() {
        piece.clear();
        piece.u64(next);
        piece.extend_from_slice(data);
        next = insert_piece(ctx, txn, seg, rows::PIECE, &piece).await?.to_u64();
    }
    let row_bytes = u32::try_from(row.len()).expect("a row is below 16 MiB");
    Ok(Stub { row_bytes, first: Rowid::from_u64(next) })
}

/// The data of a piece, and where the next one is (0: it is the last).
pub fn piece_of(row: &rows::Row<'_>) -> Option<(u64, Vec<u8>)> {
    let mut r = Reader::new(row.bytes);
    let next = r.u64().ok()?;
    Some((next, r.rest().to_vec()))
}

/// Copies one piece's data to `out` and says where the next piece is.
fn take_piece(b: &[u8], slot: u16, out: &mut Vec<u8>) -> Option<u64> {
    let row = rows::get(b, slot).filter(|r| r.flags == rows::PIECE)?;
    let mut r = Reader::new(row.bytes);
    let next = r.u64().ok()?;
    out.extend_from_slice(r.rest());
    Some(next)
}

fn broken(at: Rowid, what: &str) -> Error {
    Error::Corrupt { dba: at.dba, what: format!("row piece {at}: {what}") }
}

/// Checks a chain's progress against what its head says.
fn check(stub: &Stub, at: Rowid, have: usize, next: Option<u64>) -> Result<Option<Rowid>> {
    let Some(next) = next else { return Err(broken(at, "it is not there")) };
    let total = stub.row_bytes as usize;
    if have > total || (next == 0) != (have == total) {
        return Err(broken(at, &format!("{have} of {total} bytes found")));
    }
    Ok((next != 0).then(|| Rowid::from_u64(next)))
}

/// The row behind a head, as the snapshot sees it; `out` is cleared first.
pub async fn read_consistent(
    ctx: &Ctx,
    seg: &HeapSeg,
    snap: &Snapshot,
    stub: Stub,
    out: &mut Vec<u8>,
) -> Result<()> {
    out.clear();
    let mut at = stub.first;
    loop {
        let next = super::scan::consistent(ctx, seg, snap, at.dba, |b| take_piece(b, at.slot, out));
        let next = next.await?.flatten();
        match check(&stub, at, out.len(), next)? {
            Some(next) => at = next,
            None => return Ok(()),
        }
    }
}

/// The row behind a head as it stands now. The caller holds the row's lock, so it stands still.
pub async fn read_current(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    stub: Stub,
) -> Result<Vec<u8>> {
    let cache = &txn.core().cache;
    let mut out = Vec::with_capacity(stub.row_bytes as usize);
    let mut at = stub.first;
    loop {
        let read = |b: &[u8]| {
            let own = super::scan::is_own(b, seg);
            if own { take_piece(b, at.slot, &mut out) } else { None }
        };
        let next = cache.read(ctx, at.dba, read).await?;
        match check(&stub, at, out.len(), next)? {
            Some(next) => at = next,
            None => return Ok(out),
        }
    }
}

/// Deletes the pieces behind a head whose lock the transaction holds.
pub async fn delete(ctx: &Ctx, txn: &Arc<Transaction>, seg: &HeapSeg, stub: Stub) -> Result<()> {
    let mut next = Some(stub.first);
    while let Some(at) = next {
        next = delete_piece(ctx, txn, seg, at).await?;
        ctx.check_interrupt()?;
    }
    Ok(())
}

async fn delete_piece(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    at: Rowid,
) -> Result<Option<Rowid>> {
    let core = txn.core();
    loop {
        txn.ready(ctx).await?;
        let pin = core.cache.pin(ctx, at.dba, Mode::X).await?;
        let target = Target { obj: seg.obj, birth: seg.birth };
        let f = |b: &[u8], view: &View<'_>| mark_piece(b, view, seg, at);
        let outcome = txn.change_block(ctx, &pin, target, f).await?;
        let potential = potential_bytes(&pin.read());
        drop(pin);
        match outcome {
            Outcome::Changed(next) | Outcome::Redone(next) => {
                note_room(ctx, txn, seg, at.dba, potential).await?;
                return Ok(next.filter(|n| n.to_u64() != 0));
            }
            Outcome::Stopped(_) => return Err(broken(at, "it is not there")),
            Outcome::NoItl(crowd) => core.wait_itl(ctx, txn, &crowd, seg.obj).await?,
        }
    }
}

/// Marks a piece deleted; out: the next one.
fn mark_piece(b: &[u8], view: &View<'_>, seg: &HeapSeg, at: Rowid) -> Step<Option<Rowid>> {
    if layout::kind(b) != Kind::Heap || !super::scan::is_own(b, seg) {
        return Step::Stop(None);
    }
    let Some(row) = rows::get(b, at.slot).filter(|r| r.flags == rows::PIECE) else {
        return Step::Stop(None);
    };
    let Ok(next) = Reader::new(row.bytes).u64() else { return Step::Stop(None) };
    Step::Change {
        op: Op::HeapDelete { itl: ItlChange::default(), slot: at.slot },
        inverse: Inverse::HeapRestore {
            slot: at.slot,
            flags: row.flags,
            lock: view.saved_lock(row.lock),
            bytes: row.bytes.to_vec(),
        },
        out: Some(Rowid::from_u64(next)),
    }
}
