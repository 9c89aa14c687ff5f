//! Rollback: to a savepoint, of a whole transaction, and of transactions found active after a
//! crash.

use std::collections::BTreeSet;
use std::sync::Arc;

use block::bytes::ByteList;
use block::layout::{self, Kind};
use block::op::{Inverse, Op};
use block::redo::RecordKind;
use block::undo::{TxSlot, TxState, UndoRecord};
use block::{Dba, Mode, ObjId, Scn, Uba, UndoNo, Xid, itl, rows, undo};
use observe::{Ctx, Operation, Stat, Target};

use super::core::Core;
use super::end::run;
use super::transaction::{Savepoint, Transaction};
use crate::change::Change;
use crate::error::{Error, Result};
use crate::undo::{Segment, TxMem};

/// Records after which it is told how far a long rollback is.
const RECORDS_PER_STEP: u64 = 1024;

/// Taking so many changes back, as an operation that may take long; `None`: it does not.
fn long_rollback(ctx: &Ctx, xid: Xid, records: u32) -> Option<Operation> {
    let records = u64::from(records);
    (records > RECORDS_PER_STEP).then(|| {
        let target = Target::Other(format!("xid:{xid}"));
        Operation::begin(ctx, "Transaction Rollback", target, (records, "Records"))
    })
}

/// What became of one undo record.
enum Undone {
    Yes,
    /// The key has moved to another leaf meanwhile: find it again.
    Moved,
}

impl Core {
    /// Takes one change back. `progress`: the header slot to write in the same redo record.
    async fn undo_one(
        self: &Arc<Core>,
        ctx: &Ctx,
        record: &UndoRecord,
        segment: &Segment,
        progress: Option<&TxSlot>,
    ) -> Result<()> {
        if let Inverse::LeafRemoveMany { root, keys } = &record.inverse {
            return self.undo_entries(ctx, record, (*root, keys), segment, progress).await;
        }
        loop {
            self.log.throttle(ctx).await?;
            let target = match record.inverse.leaf_key() {
                Some((root, key)) => match self.find_leaf(ctx, root, key).await {
                    Ok(leaf) => leaf,
                    Err(Error::ObjectGone) => {
                        self.note_progress(ctx, record.xid, segment, progress);
                        return Ok(());
                    }
                    Err(e) => return Err(e),
                },
                None => record.target,
            };
            if let Undone::Yes = self.undo_at(ctx, record, target, segment, progress).await? {
                return Ok(());
            }
        }
    }

    /// Takes out the entries of one record, which after splits may lie in several leaves, leaf by
    /// leaf from the left. Progress is noted with the last one: a crash before that has the leaves
    /// already done looked at again, and their restored ITL entries say that they are.
    async fn undo_entries(
        self: &Arc<Core>,
        ctx: &Ctx,
        record: &UndoRecord,
        (root, keys): (Dba, &ByteList),
        segment: &Segment,
        progress: Option<&TxSlot>,
    ) -> Result<()> {
        let mut from = 0;
        while from < keys.len() {
            self.log.throttle(ctx).await?;
            let leaf = match self.find_leaf(ctx, root, keys.get(from)).await {
                Ok(leaf) => leaf,
                Err(Error::ObjectGone) => {
                    self.note_progress(ctx, record.xid, segment, progress);
                    return Ok(());
                }
                Err(e) => return Err(e),
            };
            from = self.undo_entries_at(ctx, record, (keys, from), leaf, segment, progress).await?;
        }
        Ok(())
    }

    /// The part of [`Core::undo_entries`] that concerns one leaf, found for the key at `from`;
    /// returns the position of the first key that belongs to a leaf further right.
    async fn undo_entries_at(
        self: &Arc<Core>,
        ctx: &Ctx,
        record: &UndoRecord,
        (keys, from): (&ByteList, usize),
        leaf: Dba,
        segment: &Segment,
        progress: Option<&TxSlot>,
    ) -> Result<usize> {
        let pin = self.cache.pin(ctx, leaf, Mode::X).await?;
        let mut change = Change::begin(&self.cache, &[&pin, &segment.header]);
        let b = change.block(0);
        let same = layout::obj(b) == record.obj && layout::birth(b) == record.birth;
        let ours = same && layout::kind(b) == Kind::Leaf;
        let raised = same && layout::kind(b) == Kind::Branch;
        if raised || (ours && !rows::covers(b, keys.get(from))) {
            return Ok(from);
        }
        // An index that is gone has nothing left of any of the keys (hazard C9).
        let covered = |at: &usize| !ours || rows::covers(b, keys.get(*at));
        let to = (from..keys.len()).find(|at| !covered(at)).unwrap_or(keys.len());
        let entry = ours.then(|| itl::find(b, record.xid)).flatten();
        let entry = entry.filter(|&i| itl::get(b, i).undo_no >= record.undo_no);
        if let Some(itl_idx) = entry {
            let mut here = ByteList::new();
            (from..to).for_each(|at| here.push(keys.get(at)));
            let inverse = match &record.inverse {
                Inverse::LeafRemoveMany { root, .. } => {
                    Inverse::LeafRemoveMany { root: *root, keys: here }
                }
                other => other.clone(),
            };
            change.push(0, Op::Rollback { itl_idx, saved: record.saved, inverse });
            ctx.bump(Stat::UndoRecordsApplied, 1);
        }
        let progress = progress.filter(|_| to == keys.len());
        if let Some(slot) = progress {
            change.push(1, Op::Patch(vec![slot.patch(record.xid.slot)]));
        }
        if entry.is_some() || progress.is_some() {
            change.commit(ctx, record.xid, RecordKind::Change);
        }
        Ok(to)
    }

    async fn find_leaf(self: &Arc<Core>, ctx: &Ctx, root: Dba, key: &[u8]) -> Result<Dba> {
        let finder = self.leaf_finder.get().ok_or(Error::Closing)?;
        finder.find_leaf(ctx, self, root, key).await
    }

    async fn undo_at(
        self: &Arc<Core>,
        ctx: &Ctx,
        record: &UndoRecord,
        target: Dba,
        segment: &Segment,
        progress: Option<&TxSlot>,
    ) -> Result<Undone> {
        let pin = self.cache.pin(ctx, target, Mode::X).await?;
        let mut change = Change::begin(&self.cache, &[&pin, &segment.header]);
        let b = change.block(0);
        let same = layout::obj(b) == record.obj && layout::birth(b) == record.birth;
        let ours = same && matches!(layout::kind(b), Kind::Heap | Kind::Leaf);
        if let Some((_, key)) = record.inverse.leaf_key() {
            // Between the search and the pin a root may have become a branch: what it held lies
            // below it now.
            let raised = same && layout::kind(b) == Kind::Branch;
            if raised || (ours && !rows::covers(b, key)) {
                return Ok(Undone::Moved);
            }
        }
        // Done already, or the segment is gone: only the progress is noted (hazard C9).
        let entry = ours.then(|| itl::find(b, record.xid)).flatten();
        let entry = entry.filter(|&i| itl::get(b, i).undo_no >= record.undo_no);
        if let Some(itl_idx) = entry {
            let op = Op::Rollback { itl_idx, saved: record.saved, inverse: record.inverse.clone() };
            change.push(0, op);
            ctx.bump(Stat::UndoRecordsApplied, 1);
        }
        if let Some(slot) = progress {
            change.push(1, Op::Patch(vec![slot.patch(record.xid.slot)]));
        }
        if entry.is_some() || progress.is_some() {
            change.commit(ctx, record.xid, RecordKind::Change);
        }
        Ok(Undone::Yes)
    }

    fn note_progress(&self, ctx: &Ctx, xid: Xid, segment: &Segment, progress: Option<&TxSlot>) {
        if let Some(slot) = progress {
            let mut change = Change::begin(&self.cache, &[&segment.header]);
            change.push(0, Op::Patch(vec![slot.patch(xid.slot)]));
            change.commit(ctx, xid, RecordKind::Change);
        }
    }

    /// The undo record at `uba`, of a segment this instance answers for.
    async fn own_undo(&self, ctx: &Ctx, uba: Uba, xid: Xid) -> Result<UndoRecord> {
        let found = self.cache.read(ctx, uba.dba, |b| UndoRecord::find(b, uba, xid)).await?;
        found.ok_or_else(|| {
            Error::Invariant(format!("undo record {uba} of transaction {xid} is missing"))
        })
    }

    /// Rolls back a transaction found active in a segment this instance answers for (after a
    /// crash), going on where an earlier rollback stopped.
    ///
    /// # Errors
    /// A disk error; the rest is done by a later try.
    pub async fn roll_back_dead(
        self: &Arc<Core>,
        ctx: &Ctx,
        segment: &Arc<Segment>,
        xid: Xid,
    ) -> Result<()> {
        let Some((slot, mut at)) = self.dead_undo(ctx, segment, xid).await? else {
            segment.finish_recovered(xid, self.clock.current());
            return Ok(());
        };
        while !at.is_none() {
            let record = self.own_undo(ctx, at, xid).await?;
            at = record.prev;
            let progress = TxSlot { rolling_back: true, next: at, ..slot };
            self.undo_one(ctx, &record, segment, Some(&progress)).await?;
        }
        let scn = self.end_slot(ctx, xid, segment);
        segment.finish_recovered(xid, scn);
        ctx.bump(Stat::DeadTransactionsRecovered, 1);
        Ok(())
    }

    /// The tables in which a transaction found active after a crash has yet to take changes back.
    ///
    /// # Errors
    /// A disk error; undo that is not there.
    pub async fn tables_of_dead(
        &self,
        ctx: &Ctx,
        segment: &Segment,
        xid: Xid,
    ) -> Result<BTreeSet<ObjId>> {
        let mut tables = BTreeSet::new();
        let Some((_, mut at)) = self.dead_undo(ctx, segment, xid).await? else {
            return Ok(tables);
        };
        while !at.is_none() {
            let record = self.own_undo(ctx, at, xid).await?;
            at = record.prev;
            // A change of an index goes with one of its table.
            if !record.inverse.is_of_index() {
                tables.insert(record.obj);
            }
        }
        Ok(tables)
    }

    /// Slot and newest undo record, still to be applied, of a transaction found active after a
    /// crash; `None` if it has been rolled back.
    async fn dead_undo(
        &self,
        ctx: &Ctx,
        segment: &Segment,
        xid: Xid,
    ) -> Result<Option<(TxSlot, Uba)>> {
        let slot = TxSlot::get(&segment.header.read(), xid.slot);
        if slot.seq != xid.seq || slot.state != TxState::Active {
            return Ok(None);
        }
        if slot.rolling_back {
            return Ok(Some((slot, slot.next)));
        }
        let dba = slot.undo;
        let last = self.cache.read(ctx, dba, |b| undo::last_of(b, xid)).await?;
        Ok(Some((slot, last.map_or(Uba::NONE, |rec| Uba { dba, rec }))))
    }

    /// Writes "rolled back" into the header slot, and when.
    fn end_slot(&self, ctx: &Ctx, xid: Xid, segment: &Segment) -> Scn {
        let scn = self.clock.current();
        let slot = TxSlot { seq: xid.seq, scn, ..TxSlot::default() };
        self.note_progress(ctx, xid, segment, Some(&slot));
        scn
    }
}

impl Transaction {
    /// Takes back everything after `to`. The transaction can go on.
    ///
    /// # Errors
    /// A disk error: the transaction must then be rolled back as a whole.
    pub async fn rollback_to(&self, ctx: &Ctx, to: Savepoint) -> Result<()> {
        let _turn = self.turn.lock().await;
        // A statement or session that was told to end must still be taken back, all of it.
        let _shield = ctx.session.cancel_flag().shield();
        self.rollbacks_to.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.forget_put_off(to.0);
        self.undo_down_to(ctx, to.0, false).await
    }

    async fn undo_down_to(&self, ctx: &Ctx, to: UndoNo, whole: bool) -> Result<()> {
        let core = self.core().clone();
        let position = {
            let inner = self.inner.lock();
            inner.cursor.as_ref().map(|c| (c.tail, c.xid, c.segment.clone(), c.block.dba()))
        };
        let Some((mut at, xid, segment, block)) = position else { return Ok(()) };
        let (mut operation, mut done) = (None, 0u64);
        while !at.is_none() {
            let record = core.own_undo(ctx, at, xid).await?;
            if record.undo_no <= to {
                break;
            }
            if done == 0 {
                operation = long_rollback(ctx, xid, record.undo_no.0 - to.0);
            } else if done.is_multiple_of(RECORDS_PER_STEP)
                && let Some(operation) = &operation
            {
                operation.advance(ctx, RECORDS_PER_STEP);
            }
            done += 1;
            let progress = whole.then_some(TxSlot {
                seq: xid.seq,
                state: TxState::Active,
                undo: block,
                scn: Scn::ZERO,
                next: record.prev,
                rolling_back: true,
            });
            core.undo_one(ctx, &record, &segment, progress.as_ref()).await?;
            at = record.prev;
            if let Some(cursor) = &mut self.inner.lock().cursor {
                cursor.tail = at;
            }
        }
        if let Some(operation) = operation {
            operation.end(ctx);
        }
        Ok(())
    }

    /// Takes everything back and ends the transaction.
    ///
    /// # Errors
    /// A disk error: the transaction stays, and the call can be repeated.
    pub async fn rollback(&self, ctx: &Ctx) -> Result<()> {
        let core = self.core().clone();
        let _turn = self.turn.lock().await;
        if self.inner.lock().ended {
            return Ok(());
        }
        let _shield = ctx.session.cancel_flag().shield();
        self.undo_down_to(ctx, UndoNo(0), true).await?;
        let (cursor, rest) = self.take_all()?;
        if let Some(mut cursor) = cursor {
            let segment = cursor.segment.clone();
            let mut scn = Scn::ZERO;
            if cursor.begun {
                scn = core.end_slot(ctx, cursor.xid, &segment);
                ctx.bump(Stat::TransactionRollbacks, 1);
            }
            run(rest.on_rollback);
            core.table_locks.release_all(self);
            segment.finish(&mut cursor, TxMem::Free, scn, core.env.now());
        } else {
            run(rest.on_rollback);
            core.table_locks.release_all(self);
        }
        Ok(())
    }
}
