//! Rows as they stand now, of a whole table: for foreign keys whose child has no index to look in.
//!
//! Promises: every row of which some version, the one that stands or the one last committed, meets
//! the condition is told, with the transaction that is still deciding about it. A row written
//! behind the scan belongs to a change that is younger than the scan.

use std::sync::Arc;

use block::{Dba, MASTER_GROUP_BLOCKS, Rowid, Xid, rows};
use observe::Ctx;

use super::HeapSeg;
use super::chain::{self, Stub};
use super::scan::{fetch, is_own};
use crate::error::{Error, Result};
use crate::txn::{CurrentView, LockState, Transaction};

/// A row that stands, or may come to.
#[derive(Clone, Debug)]
pub struct CurrentRow {
    pub rowid: Rowid,
    /// The row as it stands.
    pub bytes: Vec<u8>,
    /// Who has it changed or locked and has not ended: another transaction.
    pub busy: Option<Xid>,
}

struct Met {
    slot: u16,
    bytes: Vec<u8>,
    stub: Option<Stub>,
    busy: Option<Xid>,
    deleted: bool,
}

/// Calls `each` for the rows that meet `wanted`, until it says that this is enough.
///
/// # Errors
/// [`Error::ObjectGone`]; what reading blocks can fail with.
pub async fn current_rows(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    wanted: &(impl Fn(&[u8]) -> bool + Sync),
    mut each: impl FnMut(CurrentRow) -> bool + Send,
) -> Result<()> {
    let core = txn.core().clone();
    for (first, count) in core.space.scan_ranges(ctx, *seg).await? {
        let mut ahead = 0;
        for i in 0..count {
            let dba = Dba::new(first.file, first.block + i);
            if i >= ahead {
                let to_border = MASTER_GROUP_BLOCKS - dba.block % MASTER_GROUP_BLOCKS;
                let run = to_border.min(count - i);
                ahead = i + run;
                if run > 1 {
                    core.cache.prefetch(ctx, seg.obj, dba, run).await?;
                }
            }
            ctx.check_interrupt()?;
            let look = |b: &[u8], view: &CurrentView| visit(seg, b, view, wanted);
            for met in txn.read_current(ctx, dba, look).await? {
                let rowid = Rowid { dba, slot: met.slot };
                if let Some(row) = decide(ctx, txn, seg, rowid, met, wanted).await?
                    && !each(row)
                {
                    return Ok(());
                }
            }
        }
    }
    Ok(())
}

/// The rows of a block that stand or are being decided about, as far as they may be wanted.
fn visit(seg: &HeapSeg, b: &[u8], view: &CurrentView, wanted: &impl Fn(&[u8]) -> bool) -> Vec<Met> {
    let mut out = Vec::new();
    if !is_own(b, seg) {
        // Claimed and not formatted: no rows.
        return out;
    }
    for slot in 0..rows::slot_count(b) {
        let Some(row) = rows::get(b, slot).filter(|r| r.flags & rows::PIECE == 0) else { continue };
        let busy = match view.lock_state(row.lock) {
            LockState::Active(xid) => Some(xid),
            _ => None,
        };
        let (deleted, stub) = (row.is_deleted(), Stub::of(&row));
        if deleted && busy.is_none() {
            continue;
        }
        // What another one is changing may be wanted by what it was.
        if busy.is_some() || stub.is_some() || wanted(row.bytes) {
            out.push(Met { slot, bytes: row.bytes.to_vec(), stub, busy, deleted });
        }
    }
    out
}

async fn decide(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    seg: &HeapSeg,
    rowid: Rowid,
    met: Met,
    wanted: &impl Fn(&[u8]) -> bool,
) -> Result<Option<CurrentRow>> {
    let Met { mut bytes, stub, busy, deleted, .. } = met;
    if busy.is_some() {
        let mut committed = Vec::new();
        let snap = txn.newest_snapshot()?;
        let was = fetch(ctx, seg, rowid, &snap, &mut committed).await? && wanted(&committed);
        // A chain that is being changed cannot be read: it may be wanted.
        let is = !deleted && (stub.is_some() || wanted(&bytes));
        return Ok((was || is).then_some(CurrentRow { rowid, bytes, busy }));
    }
    if let Some(stub) = stub {
        bytes = match chain::read_current(ctx, txn, seg, stub).await {
            Ok(bytes) => bytes,
            // It has moved since we saw its head; whoever moved it answers for the new version.
            Err(Error::Corrupt { .. }) => {
                let snap = txn.newest_snapshot()?;
                let mut bytes = Vec::new();
                if !fetch(ctx, seg, rowid, &snap, &mut bytes).await? {
                    return Ok(None);
                }
                bytes
            }
            Err(e) => return Err(e),
        };
    }
    Ok(wanted(&bytes).then_some(CurrentRow { rowid, bytes, busy: None }))
}
