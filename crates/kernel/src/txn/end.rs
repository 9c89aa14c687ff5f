//! Commit, and the end of a rollback.

use std::sync::Arc;

use block::layout::Kind;
use block::op::Op;
use block::redo::RecordKind;
use block::undo::TxState;
use block::{Mode, Scn, Xid, itl, layout};
use observe::{Ctx, SessionKind, Stat, WaitEvent};
use rustc_hash::FxHashSet;

use super::transaction::{Inner, Transaction};
use crate::cache::Buffer;
use crate::change::Change;
use crate::error::{Error, Result};
use crate::undo::{Cursor, TxMem};

impl Transaction {
    /// Commits: returns once the commit is durable and every live instance knows its SCN.
    /// The session's next snapshot may not be below the SCN returned.
    ///
    /// # Errors
    /// The transaction has ended already. Once the commit record is appended there is no error:
    /// an instance that cannot make it durable stops.
    pub async fn commit(&self, ctx: &Ctx) -> Result<Scn> {
        let core = self.core().clone();
        let _turn = self.turn.lock().await;
        let (cursor, mut rest) = self.take_all()?;
        let Some(mut cursor) = cursor else {
            run(std::mem::take(&mut rest.on_commit));
            core.table_locks.release_all(self);
            return Ok(core.clock.current());
        };
        if !cursor.begun {
            cursor.segment.clone().finish(&mut cursor, TxMem::Free, Scn::ZERO, core.env.now());
            run(std::mem::take(&mut rest.on_commit));
            core.table_locks.release_all(self);
            return Ok(core.clock.current());
        }
        let xid = cursor.xid;
        let segment = cursor.segment.clone();
        let (scn, end) = {
            let mut change = Change::begin(&core.cache, &[&segment.header]);
            let mut drawn = Scn::ZERO;
            segment.set_state(xid, || {
                drawn = core.snapshots.begin_commit(&core.clock);
                TxMem::Committing(drawn)
            });
            let slot = cursor.slot(TxState::Committed, drawn);
            change.push(0, Op::Patch(vec![slot.patch(xid.slot)]));
            let stamped = change.commit_at(ctx, xid, RecordKind::Commit, Some(drawn));
            (drawn, stamped.end)
        };
        // From here on the transaction ends committed, whatever happens to this future: a client
        // that goes away must not leave it hanging.
        let guard =
            Finish { txn: self, ctx: ctx.clone(), cursor: Some(cursor), rest: Some(rest), scn };
        ctx.bump(Stat::RedoSynchWrites, 1);
        let flush = core.log.flush(end);
        match core.peers() {
            None => ctx.wait(WaitEvent::LogFileSync, [end.0, scn.0, 0], flush).await,
            Some(peers) => {
                // Told first: the others read the message while this thread stands in its write.
                let told = peers.broadcast(ctx, scn);
                let flush = ctx.wait(WaitEvent::LogFileSync, [end.0, scn.0, 0], flush);
                futures::future::join(told, flush).await.0?;
            }
        }
        guard.done();
        ctx.session.raise_commit_floor(scn.0);
        ctx.bump(self.counted_as(ctx), 1);
        Ok(scn)
    }

    /// What its commit counts as: neither what the database does beside a client's transaction nor
    /// what its own processes do is a user's.
    fn counted_as(&self, ctx: &Ctx) -> Stat {
        match self.recursive || ctx.session.kind() == SessionKind::Background {
            true => Stat::RecursiveCommits,
            false => Stat::UserCommits,
        }
    }

    /// Everything of the transaction, which has ended from now on.
    pub(super) fn take_all(&self) -> Result<(Option<Cursor>, Inner)> {
        let mut inner = self.inner.lock();
        if inner.ended {
            return Err(Error::Invariant("the transaction has ended".to_owned()));
        }
        let empty = Inner {
            put_off: Vec::new(),
            vacated: Vec::new(),
            kept_parents: FxHashSet::default(),
            cursor: None,
            snapshot: None,
            changed: Vec::new(),
            on_commit: Vec::new(),
            on_rollback: Vec::new(),
            ended: true,
        };
        let mut all = std::mem::replace(&mut *inner, empty);
        Ok((all.cursor.take(), all))
    }

    fn finish_commit(&self, mut cursor: Cursor, rest: Inner, scn: Scn) {
        let core = self.core();
        let xid = cursor.xid;
        let segment = cursor.segment.clone();
        segment.set_state(xid, || TxMem::Committed(scn));
        core.snapshots.end_commit(scn);
        clean_out(&rest.changed, xid, scn);
        run(rest.on_commit);
        core.table_locks.release_all(self);
        segment.finish(&mut cursor, TxMem::Committed(scn), scn, core.env.now());
    }
}

/// Completes a commit whose record is appended. If the waiting future is dropped, the outcome is
/// awaited by a task of its own.
struct Finish<'a> {
    txn: &'a Transaction,
    ctx: Ctx,
    cursor: Option<Cursor>,
    rest: Option<Inner>,
    scn: Scn,
}

impl Finish<'_> {
    fn done(mut self) {
        let (cursor, rest) = (self.cursor.take(), self.rest.take());
        if let (Some(cursor), Some(rest)) = (cursor, rest) {
            self.txn.finish_commit(cursor, rest, self.scn);
        }
    }
}

impl Drop for Finish<'_> {
    fn drop(&mut self) {
        let (Some(mut cursor), Some(rest)) = (self.cursor.take(), self.rest.take()) else {
            return;
        };
        let core = self.txn.core().clone();
        let scn = self.scn;
        let locks = core.table_locks.take_all(self.txn);
        let upto = core.log.next();
        let ctx = self.ctx.clone();
        core.env.clone().spawn_task("commit outcome", env::Lane::Background, async move {
            core.log.nudge(upto);
            core.log.flushed(upto).await;
            // Committed is what is durable and known to all, whoever waits for it.
            if let Some(peers) = core.peers()
                && peers.broadcast(&ctx, scn).await.is_err()
            {
                core.env.abort_instance("a commit could not be told to the other instances");
            }
            let segment = cursor.segment.clone();
            let xid = cursor.xid;
            segment.set_state(xid, || TxMem::Committed(scn));
            core.snapshots.end_commit(scn);
            clean_out(&rest.changed, xid, scn);
            run(rest.on_commit);
            core.table_locks.release_taken(locks);
            segment.finish(&mut cursor, TxMem::Committed(scn), scn, core.env.now());
        });
    }
}

pub(super) fn run(hooks: Vec<Box<dyn FnOnce() + Send>>) {
    for hook in hooks {
        hook();
    }
}

/// Stamps the commit SCN into the blocks still here. Only in X: a hint in a block that others hold
/// too would make copies differ.
fn clean_out(changed: &[Arc<Buffer>], xid: Xid, scn: Scn) {
    for buffer in changed {
        let Some(mut st) = buffer.latch().try_write() else { continue };
        if st.mode() != Mode::X {
            continue;
        }
        let Some(image) = st.image.as_mut() else { continue };
        if matches!(layout::kind(image), Kind::Heap | Kind::Leaf) {
            itl::clean_out(image, xid, scn);
        }
    }
}
