//! Blocks as they stand now, read without a change in mind: for checks that must not miss what
//! others have done and not committed (foreign keys).
//!
//! Promises: what is called ended had ended before the block was looked at, so that its contents
//! are what the end has left. "Active" may be out of date: who waits for it looks again.

use std::sync::Arc;
use std::time::Duration;

use block::{Dba, Mode, Scn, Xid, itl};
use observe::{Ctx, WaitEvent};

use super::core::Core;
use super::modify::LockState;
use super::status::TxStatus;
use super::transaction::Transaction;
use crate::cache::Pin;
use crate::error::Result;

/// The ITL of a block, as the reading transaction may judge it.
pub struct CurrentView {
    states: Vec<LockState>,
}

impl CurrentView {
    /// What a row's lock byte means now.
    #[must_use]
    pub fn lock_state(&self, lock: u8) -> LockState {
        let state = lock.checked_sub(1).and_then(|idx| self.states.get(usize::from(idx)));
        state.copied().unwrap_or(LockState::Free)
    }
}

/// The states of the block's entries, or the transactions that only other instances know.
fn judge(
    core: &Core,
    b: &[u8],
    own: Option<Xid>,
    told: &[(Xid, TxStatus)],
) -> std::result::Result<(CurrentView, Scn), Vec<Xid>> {
    let mut states = Vec::with_capacity(usize::from(itl::count(b)));
    let (mut unknown, mut newest) = (Vec::new(), Scn::ZERO);
    for (_, e) in itl::iter(b) {
        if e.xid.is_none() {
            states.push(LockState::Free);
            continue;
        }
        if Some(e.xid) == own {
            states.push(LockState::Mine);
            continue;
        }
        let status = if e.scn == Scn::ZERO {
            let known = core.local_status(e.xid);
            known.or_else(|| told.iter().find(|(xid, _)| *xid == e.xid).map(|(_, s)| *s))
        } else {
            Some(TxStatus::Committed(e.scn))
        };
        states.push(match status {
            None => {
                unknown.push(e.xid);
                LockState::Active(e.xid)
            }
            Some(TxStatus::Active | TxStatus::Committing(_)) => LockState::Active(e.xid),
            Some(TxStatus::Committed(scn) | TxStatus::CommittedBy(scn)) => {
                newest = newest.max(scn);
                LockState::Committed(scn)
            }
            Some(TxStatus::Gone) => LockState::Free,
        });
    }
    if unknown.is_empty() { Ok((CurrentView { states }, newest)) } else { Err(unknown) }
}

impl Transaction {
    /// Runs `f` on the block as it stands, under its latch. The transaction's next snapshot sees
    /// every commit that `f` could meet.
    ///
    /// # Errors
    /// What reading the block and asking for transactions can fail with.
    pub async fn read_current<R: Send>(
        &self,
        ctx: &Ctx,
        dba: Dba,
        mut f: impl FnMut(&[u8], &CurrentView) -> R + Send,
    ) -> Result<R> {
        let core = self.core().clone();
        let own = self.xid();
        let mut told: Vec<(Xid, TxStatus)> = Vec::new();
        loop {
            let look =
                |b: &[u8]| judge(&core, b, own, &told).map(|(view, newest)| (f(b, &view), newest));
            let unknown = match core.cache.read(ctx, dba, look).await? {
                Ok((out, newest)) => {
                    self.raise_floor(newest);
                    return Ok(out);
                }
                Err(unknown) => unknown,
            };
            // What is told of a transaction holds for the block as it is read after the answer.
            for xid in unknown {
                told.push((xid, core.status(ctx, xid).await?));
            }
        }
    }
}

impl Transaction {
    /// [`Transaction::read_current`] of a block that the caller goes on to change: it comes in X,
    /// with all that a change needs, and stays here while the pin is held. Nothing may be awaited
    /// under the pin but the change (hazard H15).
    ///
    /// # Errors
    /// As [`Transaction::ready`] and [`Transaction::read_current`].
    pub async fn hold_current<R: Send>(
        &self,
        ctx: &Ctx,
        dba: Dba,
        mut f: impl FnMut(&[u8], &CurrentView) -> R + Send,
    ) -> Result<(Pin, R)> {
        let core = self.core().clone();
        self.ready(ctx).await?;
        let own = self.xid();
        let mut told: Vec<(Xid, TxStatus)> = Vec::new();
        let pin = core.cache.pin(ctx, dba, Mode::X).await?;
        loop {
            let looked = {
                let b = pin.read();
                judge(&core, &b, own, &told).map(|(view, newest)| (f(&b, &view), newest))
            };
            let unknown = match looked {
                Ok((out, newest)) => {
                    self.raise_floor(newest);
                    return Ok((pin, out));
                }
                Err(unknown) => unknown,
            };
            told.clear();
            for xid in unknown {
                told.push((xid, core.status(ctx, xid).await?));
            }
        }
    }
}

impl Core {
    /// Waits for the end of a transaction for a while, without being part of the search for
    /// deadlocks: the other may give way without ending. `enq: TX - row lock contention`.
    ///
    /// # Errors
    /// The session was interrupted.
    pub async fn wait_briefly(
        self: &Arc<Core>,
        ctx: &Ctx,
        xid: Xid,
        limit: Duration,
    ) -> Result<()> {
        let p2 = (u64::from(xid.usn) << 16) | u64::from(xid.slot);
        let p = [observe::enq_p1(*b"TX", 4), p2, u64::from(xid.seq)];
        let ends = self.await_end(ctx, xid);
        match ctx.wait_for_or_cancel(WaitEvent::EnqTxRowLock, p, limit, ends).await? {
            Ok(ended) => ended,
            Err(_) => Ok(()),
        }
    }
}
