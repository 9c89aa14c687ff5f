//! What state a transaction is in.

use std::sync::Arc;

use block::undo::TX_SLOT_COUNT;
use block::{INSTANCES_MAX, InstanceNo, Scn, Xid};
use observe::{Ctx, Stat, WaitEvent};
use parking_lot::RwLock;
use rustc_hash::FxHashMap;

use super::core::Core;
use crate::error::{Error, Result};
use crate::undo::{TxMem, segments_of};

/// State of a transaction, as its owner tells it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TxStatus {
    Active,
    /// Its commit record is appended with this SCN, its outcome not yet certain.
    Committing(Scn),
    Committed(Scn),
    /// Committed at this SCN or before; when exactly is forgotten.
    CommittedBy(Scn),
    /// Rolled back, or never was.
    Gone,
}

/// Outcomes of other instances' transactions that have been asked for. A commit is told only when
/// it is durable and acknowledged by all, and a sequence number is never used again, so that what
/// is remembered stays true; nothing else may be (an active transaction ends).
#[derive(Default)]
pub(super) struct Outcomes(RwLock<FxHashMap<Xid, TxStatus>>);

/// Outcomes remembered; with one more all are forgotten, and asked for again.
const OUTCOMES_MAX: usize = 4096;

impl Outcomes {
    fn get(&self, xid: Xid) -> Option<TxStatus> {
        self.0.read().get(&xid).copied()
    }

    fn note(&self, xid: Xid, status: TxStatus) {
        if let TxStatus::Committed(_) | TxStatus::CommittedBy(_) = status {
            let mut known = self.0.write();
            if known.len() >= OUTCOMES_MAX {
                known.clear();
            }
            known.insert(xid, status);
        }
    }
}

impl Core {
    /// State of a transaction of a segment this instance answers for, or one whose commit it has
    /// been told of; `None` for others.
    #[must_use]
    pub fn local_status(&self, xid: Xid) -> Option<TxStatus> {
        let segments = self.segments.read();
        let Some(segment) = segments.get(&xid.usn) else {
            drop(segments);
            return self.outcomes.get(xid);
        };
        Some(match segment.status(xid) {
            Ok(TxMem::Active) => TxStatus::Active,
            Ok(TxMem::Committing(scn)) => TxStatus::Committing(scn),
            Ok(TxMem::Committed(scn)) => TxStatus::Committed(scn),
            Ok(TxMem::Free) => TxStatus::Gone,
            Err(bound) => TxStatus::CommittedBy(bound),
        })
    }

    /// State of any transaction; asks its owner if that is another instance.
    ///
    /// # Errors
    /// The session was interrupted.
    pub async fn status(&self, ctx: &Ctx, xid: Xid) -> Result<TxStatus> {
        if let Some(status) = self.local_status(xid) {
            return Ok(status);
        }
        let Some(peers) = self.peers() else {
            // Alone, every segment is answered for here: what no segment knows never was.
            return Err(Error::Invariant(format!("no instance answers for transaction {xid}")));
        };
        let status = match peers.seen_status(ctx, xid, self.clock.current()) {
            Some(status) => status,
            None => {
                ctx.bump(Stat::TransactionEnquiries, 1);
                peers.status(ctx, xid, self.clock.current()).await?
            }
        };
        self.outcomes.note(xid, status);
        Ok(status)
    }

    /// How a transaction that a client names has ended, or that it has not; waits for a commit that
    /// is just happening. `None`: no transaction can have this number.
    ///
    /// # Errors
    /// The session was interrupted.
    pub async fn outcome(self: &Arc<Core>, ctx: &Ctx, xid: Xid) -> Result<Option<TxStatus>> {
        let mut all = (1..=INSTANCES_MAX).map(InstanceNo).flat_map(segments_of);
        if xid.is_none() || xid.slot >= TX_SLOT_COUNT || !all.any(|usn| usn == xid.usn) {
            return Ok(None);
        }
        loop {
            match self.status(ctx, xid).await? {
                TxStatus::Committing(_) => self.await_outcome(ctx, xid).await?,
                known => {
                    self.check_deadline();
                    return Ok(Some(known));
                }
            }
        }
    }

    /// Waits until a committing transaction's outcome is known.
    ///
    /// # Errors
    /// The session was interrupted.
    pub async fn await_outcome(self: &Arc<Core>, ctx: &Ctx, xid: Xid) -> Result<()> {
        let p = [u64::from(xid.usn), u64::from(xid.slot), u64::from(xid.seq)];
        ctx.wait_or_cancel(WaitEvent::CommitOutcome, p, self.await_end(ctx, xid)).await?
    }

    /// Returns once the transaction may have ended; the caller asks again. Names no wait itself.
    pub(super) async fn await_end(&self, ctx: &Ctx, xid: Xid) -> Result<()> {
        let segment = self.segment(xid.usn);
        if let Some(segment) = segment {
            let Some(notify) = segment.waiter(xid) else { return Ok(()) };
            let woken = notify.notified();
            let mut woken = std::pin::pin!(woken);
            woken.as_mut().enable();
            // It may have ended between the two steps.
            if segment.waiter(xid).is_some() {
                woken.await;
            }
            return Ok(());
        }
        match self.peers() {
            Some(peers) => peers.await_end(ctx, xid).await,
            None => Ok(()),
        }
    }
}
