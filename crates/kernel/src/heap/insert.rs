//! New rows, and new pieces of long ones.

use std::sync::Arc;

use block::itl::ItlChange;
use block::op::{Inverse, Op};
use block::{Mode, Rowid, rows};
use observe::Ctx;

use super::settle::{plan, potential_bytes};
use super::{HeapSeg, RESERVE_BYTES, ROW_BYTES_MAX, ROW_PIECE_BYTES_MAX, chain};
use crate::error::{Error, Result};
use crate::txn::{Outcome, Step, Target, Transaction, View};

/// Inserts a row; a long one piece by piece, last first, its head last.
///
/// # Errors
/// [`Error::RowTooLong`]; what space, undo and blocks can fail with. A part of a long row may be
/// there then: the caller rolls its statement back.
pub async fn insert(ctx: &Ctx, txn: &Arc<Transaction>, seg: &HeapSeg, row: &[u8]) -> Result<Rowid> {
    if row.len() <= ROW_PIECE_BYTES_MAX {
        return insert_piece(ctx, txn, seg, 0, row).await;
    }
    if row.len() > ROW_BYTES_MAX {
        return Err(Error::RowTooLong { bytes: row.len(), limit: ROW_BYTES_MAX });
    }
    let stub = chain::write(ctx, txn, seg, row).await?;
    insert_piece(ctx, txn, seg, rows::FORWARD, &stub.encode()).await
}

/// What inserting into one block came to.
enum Tried {
    Done(u16),
    /// Rows were settled: try the same block again.
    Again,
    Full {
        room_bytes: usize,
        potential_bytes: usize,
    },
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
        let dba = core.space.block_for_insert(ctx, *seg, need, hint, tries).await?;
        txn.ready(ctx).await?;
        let pin = core.cache.pin(ctx, dba, Mode::X).await?;
        let target = Target { obj: seg.obj, birth: seg.birth };
        let (room, potential) = loop {
            let horizon = core.horizon();
            let f = |b: &[u8], view: &View<'_>| {
                if !super::scan::is_own(b, seg) {
                    return Step::Stop(Tried::Full { room_bytes: 0, potential_bytes: 0 });
                }
                try_insert(b, view, horizon, flags, bytes)
            };
            match txn.change_block(ctx, &pin, target, f).await? {
                Outcome::Changed(Tried::Done(slot)) => return Ok(Rowid { dba, slot }),
                Outcome::Stopped(Tried::Full { room_bytes, potential_bytes }) => {
                    break (room_bytes, potential_bytes);
                }
                // Other blocks have room in their ITL: no reason to wait here.
                Outcome::NoItl(_) => break (0, potential_bytes(&pin.read())),
                _ => {}
            }
        };
        drop(pin);
        // Below what is needed whatever was found, so that this block is not offered again.
        core.space.note_full(*seg, dba, room.min(need - 1), potential);
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
    flags: u8,
    bytes: &[u8],
) -> Step<Tried> {
    let free = rows::free_bytes(b);
    // The first row of a block need not leave room: nothing else is there to grow.
    let reserve = if rows::slot_count(b) == 0 { 0 } else { RESERVE_BYTES };
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
    Step::Stop(Tried::Full { room_bytes: free, potential_bytes: potential_bytes(b) })
}
