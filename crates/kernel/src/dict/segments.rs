//! Segments that come and go with transactions.
//!
//! Making and dropping a segment is redo-only, so it cannot be rolled back; the table `orphan$`
//! makes it follow its transaction. A committed row there names a segment that belongs to nobody.
//!
//! * Making: the row is inserted and committed at once, then deleted by the transaction that makes
//!   the object. If that commits, the row is gone; if it rolls back or dies, the row stays.
//! * Dropping: the row is inserted by the transaction that drops the object.
//!
//! So whatever row [`free_orphans`] can lock is to be freed. It runs after each transaction that
//! left some, and when the instance has been opened and its dead transactions are rolled back;
//! each instance frees its own.

use std::sync::Arc;

use block::{Dba, ObjId, Scn};
use env::Lane;
use observe::{AlertLevel, Ctx, SessionKind, WaitEvent};

use super::fixed::Fixed;
use super::index::IndexKind;
use super::records::{Orphan, orphan_of, orphan_values};
use super::state::{autonomous, finish, newest, of, touch};
use super::store::{self, int8};
use crate::btree::{self, IndexSeg};
use crate::error::{Error, Result};
use crate::space::{DATA_FILE, SegmentKind};
use crate::txn::{Core, Transaction};

/// Held while a new segment has a committed row that its transaction has not deleted yet.
pub(super) type Guard = tokio::sync::Mutex<()>;

/// Of the wait for it: the field's `cache id` of `dc_segments`, mode held, mode wanted (X).
const WAIT_P: [u64; 3] = [2, 0, 5];

/// Makes a heap segment that lives if the transaction commits.
pub(super) async fn make_heap(ctx: &Ctx, txn: &Arc<Transaction>, obj: ObjId) -> Result<(Dba, Scn)> {
    let core = txn.core();
    let made = core.space.create_segment(ctx, DATA_FILE, obj, SegmentKind::Heap).await?;
    tie(ctx, txn, obj, made.0, made.1).await?;
    Ok(made)
}

/// Makes an empty index that lives if the transaction commits.
pub(super) async fn make_index(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    obj: ObjId,
    kind: IndexKind,
    unique: bool,
) -> Result<IndexSeg> {
    let seg = btree::create(ctx, txn.core(), obj, unique).await?;
    let seg = IndexSeg { bitmap: kind == IndexKind::Bitmap, ..seg };
    tie(ctx, txn, obj, seg.header, seg.birth).await?;
    Ok(seg)
}

async fn tie(ctx: &Ctx, txn: &Arc<Transaction>, obj: ObjId, header: Dba, birth: Scn) -> Result<()> {
    let core = txn.core();
    let dict = of(core)?;
    // The segment is unreadable to snapshots before its birth; statements to come must not get one.
    core.snapshots.raise_floor(birth);
    let orphan = Orphan { header, birth, obj, instance: core.me.0 };
    let tied = {
        let turn = dict.segments.lock();
        let _turn = ctx.wait(WaitEvent::RowCacheLock, WAIT_P, turn).await;
        let own = autonomous(core);
        let inserted = insert_orphan(ctx, &own, &orphan).await;
        match finish(ctx, &own, inserted).await {
            Ok(()) => delete_orphan(ctx, txn, &orphan).await,
            Err(e) => {
                // Not in the caller's context: what has interrupted it would interrupt this too.
                let own = dict.observer.ctx(SessionKind::Background, "rollback");
                core.space.drop_segment(&own, header).await?;
                Err(e)
            }
        }
    };
    touch(txn, |touched| touched.orphans = true)?;
    tied?;
    txn.note_segment(obj, birth);
    Ok(())
}

/// The segment is freed once the transaction has committed.
pub(super) async fn drop_at_commit(
    ctx: &Ctx,
    txn: &Arc<Transaction>,
    obj: ObjId,
    header: Dba,
    birth: Scn,
) -> Result<()> {
    let orphan = Orphan { header, birth, obj, instance: txn.core().me.0 };
    insert_orphan(ctx, txn, &orphan).await?;
    touch(txn, |touched| touched.orphans = true)
}

async fn insert_orphan(ctx: &Ctx, txn: &Arc<Transaction>, orphan: &Orphan) -> Result<()> {
    let table = of(txn.core())?.fixed(Fixed::Orphan);
    store::insert(ctx, txn, table, &orphan_values(orphan)?).await
}

async fn delete_orphan(ctx: &Ctx, txn: &Arc<Transaction>, orphan: &Orphan) -> Result<()> {
    let table = of(txn.core())?.fixed(Fixed::Orphan);
    let key = [int8(orphan.header.to_u64())?, int8(orphan.birth.0)?];
    let snap = newest(txn)?;
    let row = store::one(ctx, &snap, table, 0, &key).await?;
    let row = row.ok_or_else(|| Error::Invariant(format!("no orphan row for {orphan:?}")))?;
    store::delete(ctx, txn, table, &snap, &row).await
}

/// Frees this instance's segments that belong to nobody; says how many there were.
///
/// # Errors
/// What reading and changing blocks can fail with; what is left is freed by the next call.
pub async fn free_orphans(ctx: &Ctx, core: &Arc<Core>) -> Result<usize> {
    let dict = of(core)?;
    let table = dict.fixed(Fixed::Orphan);
    let reader = autonomous(core);
    let rows = store::all(ctx, &newest(&reader)?, table).await?;
    let mut freed = 0;
    for row in rows {
        let (_, orphan) = orphan_of(&row)?;
        if orphan.instance != core.me.0 {
            continue;
        }
        let own = autonomous(core);
        let result = async {
            let claimed = {
                let turn = dict.segments.lock();
                let _turn = ctx.wait(WaitEvent::RowCacheLock, WAIT_P, turn).await;
                store::try_delete(ctx, &own, table, &newest(&own)?, &row).await?
            };
            if claimed {
                free(ctx, core, &orphan).await?;
            }
            Ok(claimed)
        }
        .await;
        freed += usize::from(finish(ctx, &own, result).await?);
    }
    Ok(freed)
}

/// If a crash came between an earlier try and its commit, the header's block is free or another
/// segment's by now: then nothing is left to do.
async fn free(ctx: &Ctx, core: &Arc<Core>, orphan: &Orphan) -> Result<()> {
    match core.space.segment_info(ctx, orphan.header).await {
        Ok(info) if info.birth == orphan.birth => core.space.drop_segment(ctx, orphan.header).await,
        Ok(_) | Err(Error::ObjectGone) => Ok(()),
        Err(e) => Err(e),
    }
}

/// Runs [`free_orphans`] on a task of its own; what fails is left to the next run.
pub(super) fn free_in_background(core: &Arc<Core>) -> Result<()> {
    let observer = Arc::clone(&of(core)?.observer);
    let core = Arc::clone(core);
    let env = core.env.clone();
    env.spawn_task("free segments", Lane::Background, async move {
        let ctx = observer.ctx(SessionKind::Background, "SMON");
        match free_orphans(&ctx, &core).await {
            Ok(_) | Err(Error::Closing) => {}
            Err(e) => ctx.alert(AlertLevel::Warning, format!("free dropped segments: {e}")),
        }
    });
    Ok(())
}
