//! New rows, and new pieces of long ones.

use std::sync::Arc;

use block::bytes::ByteList;
use block::itl::ItlChange;
use block::op::{Inverse, Op};
use block::{Mode, Rowid, rows};
use observe::Ctx;

use super::settle::{plan, potential_bytes};
use super::{
    HeapSeg, REPLACE_RESERVE_BYTES, RESERVE_BYTES, ROW_BYTES_MAX, ROW_PIECE_BYTES_MAX, chain,
};
use crate::cache::Pin;
use crate::error::{Error, Result};
use crate::txn::{Outcome, Step, Target, Transaction, View};

/// Inserts a row; a long one piece by piece, last first, its head last.
///
/// # Errors
/// [`Error::RowTooLong`]; what space, undo and blocks can fail with. A part of a long row may be
/// there then: the caller rolls its statement back.
pub async fn insert(ctx: &Ctx, txn: &Arc<Transaction>, seg: &HeapSeg, row: &[u8]) -> Result<Rowid> {
    if row.len() <= ROW_PIECE_BYTES_MAX {
        if let Some(rowid) = insert_back(ctx, txn, seg, row).await? {
            return Ok(rowid);
        }
        return insert_piece(ctx, txn, seg, 0, row).await;
    }
    if row.len() > ROW_BYTES_MAX {
        return Err(Error::RowTooLong { bytes: row.len(), limit: ROW_BYTES_MAX });
    }
    let stub = chain::write(ctx, txn, seg, row).await?;
    insert_piece(ctx, txn, seg, rows::FORWARD, &stub.encode()).await
}

/// Inserts rows in the order given, as many at a time as go into one block: one latch, one redo and
/// one undo record for all of these. Appends their rowids to `rowids`.
///
/// # Errors
/// As [`insert`]; some of the rows may be there then.
pub async fn insert_many(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    rows: &ByteList,
    rowids: &mut Vec<Rowid>,
) -> Result<()> {
    let mut from = 0;
    let mut tries = 0;
    while from < rows.len() {
        if rows.get(from).len() > ROW_PIECE_BYTES_MAX {
            rowids.push(insert(ctx, txn, seg, rows.get(from)).await?);
            from += 1;
            continue;
        }
        let need = row_bytes(rows.get(from)) + RESERVE_BYTES;
        let (dba, filled) = fill_block(ctx, txn, seg, rows, from, need, tries).await?;
        tries = if filled.slots.is_empty() { tries + 1 } else { 0 };
        from += filled.slots.len();
        rowids.extend(filled.slots.iter().map(|&slot| Rowid { dba, slot }));
        if let Some((room, potential)) = filled.full {
            txn.core().space.note_full(*seg, dba, room, potential);
        }
        ctx.check_interrupt()?;
    }
    Ok(())
}

/// What went into one block.
struct Filled {
    slots: Vec<u16>,
    /// Its free and potential bytes, if the next row found no room.
    full: Option<(usize, usize)>,
}

/// Inserts the rows from `from` on, of which the first takes `need` bytes, into one block: as many
/// as it has room for, which may be none.
async fn fill_block(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    rows: &ByteList,
    from: usize,
    need: usize,
    tries: u32,
) -> Result<(block::Dba, Filled)> {
    let core = txn.core();
    let hint = u64::from(ctx.session.sid());
    let waiting = rows.len() - from;
    let (dba, share) = core.space.block_for_insert(ctx, *seg, need, waiting, hint, tries).await?;
    txn.ready(ctx).await?;
    let pin = core.cache.pin(ctx, dba, Mode::X).await?;
    let target = Target { obj: seg.obj, birth: seg.birth };
    loop {
        let horizon = core.horizon();
        let f = |b: &[u8], view: &View<'_>| {
            if !super::scan::is_own(b, seg) {
                return Step::Stop(Many::Done(Filled { slots: Vec::new(), full: Some((0, 0)) }));
            }
            try_insert_many(b, view, horizon, rows, (from, share))
        };
        let filled = match txn.change_block(ctx, &pin, target, f).await? {
            Outcome::Changed(Many::Done(filled)) | Outcome::Stopped(Many::Done(filled)) => filled,
            // Other blocks have room in their ITL: no reason to wait here.
            Outcome::NoItl(_) => {
                let full = Some((0, potential_bytes(&pin.read())));
                Filled { slots: Vec::new(), full }
            }
            _ => continue,
        };
        // Below what is needed whatever was found, so that this block is not offered again.
        let full = filled.full.map(|(room, potential)| match filled.slots.len() {
            0 => (room.min(need - 1), potential),
            _ => (room, potential),
        });
        return Ok((dba, Filled { full, ..filled }));
    }
}

/// What inserting several rows into one block came to.
enum Many {
    Done(Filled),
    /// Rows were settled: try the same block again.
    Again,
}

/// Takes as many rows from `from` on as the block has room for, at most its share.
fn try_insert_many(
    b: &[u8],
    view: &View<'_>,
    horizon: block::Scn,
    list: &ByteList,
    (from, share): (usize, usize),
) -> Step<Many> {
    let count = rows::slot_count(b);
    let mut free = rows::free_bytes(b).saturating_sub(view.itl_room());
    let mut free_slots = (0..=u16::MAX).filter(|&s| s >= count || rows::get(b, s).is_none());
    let (mut slots, mut taken) = (Vec::new(), ByteList::new());
    let mut full = None;
    for at in from..from.saturating_add(share).min(list.len()) {
        let row = list.get(at);
        if row.len() > ROW_PIECE_BYTES_MAX {
            break;
        }
        let bytes = row_bytes(row);
        // The first row of a block need not leave room: nothing else is there to grow.
        let reserve = if count == 0 && slots.is_empty() { 0 } else { RESERVE_BYTES };
        let slot = free_slots.next().filter(|_| free >= bytes + reserve);
        let Some(slot) = slot else {
            let plan = plan(b, view, horizon, None);
            let settles = !plan.slots.is_empty() && free + plan.gain_bytes >= bytes + reserve;
            match (settles, slots.is_empty()) {
                (true, true) => {
                    return Step::Redo { op: Op::Settle { slots: plan.slots }, out: Many::Again };
                }
                // The next look at the block settles it.
                (true, false) => {}
                (false, _) => {
                    let used = rows::free_bytes(b).saturating_sub(view.itl_room()) - free;
                    full = Some((free.min(bytes + reserve - 1), potential_bytes(b) - used));
                }
            }
            break;
        };
        free -= bytes;
        slots.push(slot);
        taken.push(row);
    }
    if slots.is_empty() {
        return Step::Stop(Many::Done(Filled { slots, full }));
    }
    Step::Change {
        op: Op::HeapInsertMany { itl: ItlChange::default(), slots: slots.clone(), rows: taken },
        inverse: Inverse::HeapRemoveMany { slots: slots.clone() },
        out: Many::Done(Filled { slots, full }),
    }
}

/// What inserting into one block came to.
enum Tried {
    Done(u16),
    /// Rows were settled: try the same block again.
    Again,
    Full(Full),
}

/// What a block has, where a row does not fit.
struct Full {
    room_bytes: usize,
    potential_bytes: usize,
}

/// Inserts a row into a block that this transaction has deleted one from, if it has and there is
/// room: rows that are replaced stay with those they were stored with, so that a range of them
/// remains a few blocks, and the block is here already.
async fn insert_back(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    row: &[u8],
) -> Result<Option<Rowid>> {
    let Some(dba) = txn.take_vacated(*seg) else { return Ok(None) };
    txn.ready(ctx).await?;
    let pin = txn.core().cache.pin(ctx, dba, Mode::X).await?;
    let tried = try_block(ctx, txn, seg, &pin, REPLACE_RESERVE_BYTES, 0, row).await?;
    Ok(tried.ok().map(|slot| Rowid { dba, slot }))
}

/// Inserts bytes into a block, leaving `reserve` of it; [`Full`]: they do not fit.
async fn try_block(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    pin: &Pin,
    reserve: usize,
    flags: u8,
    bytes: &[u8],
) -> Result<std::result::Result<u16, Full>> {
    let target = Target { obj: seg.obj, birth: seg.birth };
    loop {
        let horizon = txn.core().horizon();
        let f = |b: &[u8], view: &View<'_>| {
            if !super::scan::is_own(b, seg) {
                return Step::Stop(Tried::Full(Full { room_bytes: 0, potential_bytes: 0 }));
            }
            try_insert(b, view, horizon, reserve, flags, bytes)
        };
        match txn.change_block(ctx, pin, target, f).await? {
            Outcome::Changed(Tried::Done(slot)) => return Ok(Ok(slot)),
            Outcome::Stopped(Tried::Full(full)) => return Ok(Err(full)),
            // Other blocks have room in their ITL: no reason to wait here.
            Outcome::NoItl(_) => {
                let potential_bytes = potential_bytes(&pin.read());
                return Ok(Err(Full { room_bytes: 0, potential_bytes }));
            }
            _ => {}
        }
    }
}

/// Inserts bytes that fit one block, wherever there is room.
pub(super) async fn insert_piece(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    flags: u8,
    bytes: &[u8],
) -> Result<Rowid> {
    let core = txn.core();
    let need = row_bytes(bytes) + RESERVE_BYTES;
    let hint = u64::from(ctx.session.sid());
    let mut tries = 0;
    loop {
        let (dba, _) = core.space.block_for_insert(ctx, *seg, need, 1, hint, tries).await?;
        txn.ready(ctx).await?;
        let pin = core.cache.pin(ctx, dba, Mode::X).await?;
        let tried = try_block(ctx, txn, seg, &pin, RESERVE_BYTES, flags, bytes).await?;
        let full = match tried {
            Ok(slot) => return Ok(Rowid { dba, slot }),
            Err(full) => full,
        };
        drop(pin);
        // Below what is needed whatever was found, so that this block is not offered again.
        core.space.note_full(*seg, dba, full.room_bytes.min(need - 1), full.potential_bytes);
        tries += 1;
        ctx.check_interrupt()?;
    }
}

/// Bytes a new row takes in a block, with its slot.
fn row_bytes(bytes: &[u8]) -> usize {
    rows::ROW_HEADER_BYTES + bytes.len().max(rows::ROW_CAPACITY_MIN) + 2
}

fn try_insert(
    b: &[u8],
    view: &View<'_>,
    horizon: block::Scn,
    reserve: usize,
    flags: u8,
    bytes: &[u8],
) -> Step<Tried> {
    let free = rows::free_bytes(b);
    // The first row of a block need not leave room: nothing else is there to grow.
    let reserve = if rows::slot_count(b) == 0 { 0 } else { reserve };
    let need = row_bytes(bytes) + reserve + view.itl_room();
    if free >= need {
        let slot = rows::free_slot(b);
        let itl = ItlChange::default();
        let op = Op::HeapInsert { itl, slot, flags, bytes: bytes.to_vec() };
        return Step::Change { op, inverse: Inverse::HeapRemove { slot }, out: Tried::Done(slot) };
    }
    let plan = plan(b, view, horizon, None);
    if !plan.slots.is_empty() && free + plan.gain_bytes >= need {
        return Step::Redo { op: Op::Settle { slots: plan.slots }, out: Tried::Again };
    }
    Step::Stop(Tried::Full(Full { room_bytes: free, potential_bytes: potential_bytes(b) }))
}
