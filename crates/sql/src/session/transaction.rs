//! The session's transaction: when it begins, when it ends, and what a failure makes of it.
//!
//! What it promises: a failed statement's changes are taken back; an implicit transaction ends with
//! its statement or message. What it must never do: end a block of the client's while the client
//! is there.

use super::Session;
use crate::foreign::Deferral;
use crate::notify::Actions;
use crate::parse::{Parsed, Statement};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use kernel::txn::{Isolation, Savepoint, Snapshot, Transaction};
use observe::{Ctx, Stat};
use query::datetime::EPOCH_US;
use std::sync::Arc;

/// The open transaction.
pub(crate) struct Txn {
    pub(crate) handle: Arc<Transaction>,
    /// Begun by `BEGIN`: ends with `COMMIT` or `ROLLBACK` only.
    pub(crate) explicit: bool,
    pub(crate) failed: bool,
    /// Whether what it did is taken back since it failed.
    pub(crate) released: bool,
    pub(crate) read_only: bool,
    pub(crate) savepoints: Vec<(String, Mark, Deferral)>,
    /// What is done once it has committed.
    pub(crate) actions: Actions,
    /// What SET CONSTRAINTS has said.
    pub(crate) deferral: Deferral,
    /// When it began, µs since 2000-01-01: what `now()` says.
    pub(crate) start_us: i64,
    /// Whether a statement has run in it.
    pub(crate) used: bool,
    /// Whether one that may have seen or locked something has run in it.
    pub(crate) queried: bool,
    /// Rows changed in a block, by table.
    pub(crate) changed: Vec<(kernel::dict::Changes, u64)>,
}

/// A point of a transaction to go back to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    savepoint: Savepoint,
    /// Length of `Txn::actions`.
    actions: usize,
}

impl Txn {
    pub(crate) fn mark(&self) -> Mark {
        Mark { savepoint: self.handle.savepoint(), actions: self.actions.len() }
    }

    /// Takes back what was done since.
    pub(crate) async fn rollback_to(&mut self, ctx: &Ctx, mark: Mark) -> kernel::Result<()> {
        self.actions.truncate(mark.actions);
        self.handle.rollback_to(ctx, mark.savepoint).await
    }
}

impl Session {
    pub(crate) fn begin_if_needed(&mut self) {
        if self.txn.is_none() {
            let isolation = self.settings.isolation;
            self.begin(false, isolation, self.settings.read_only);
        }
    }

    pub(crate) fn begin(&mut self, explicit: bool, isolation: Isolation, read_only: bool) {
        let handle = self.instance.begin(&self.ctx, isolation);
        self.user_locks.set_transaction(Some(handle.local_id()));
        self.ctx.session.set_own_transaction(handle.local_id());
        self.txn = Some(Txn {
            handle,
            explicit,
            failed: false,
            released: false,
            read_only,
            savepoints: Vec::new(),
            actions: Actions::default(),
            deferral: Deferral::default(),
            start_us: self.ctx.env.wall_us() - EPOCH_US,
            used: false,
            queried: false,
            changed: Vec::new(),
        });
    }

    pub(crate) fn transaction(&self) -> Result<Arc<Transaction>> {
        let txn = self.txn.as_ref();
        txn.map(|txn| txn.handle.clone()).ok_or_else(|| PgError::internal("no transaction"))
    }

    /// What the statement sees.
    pub(crate) fn snapshot(&self) -> Result<Snapshot> {
        match &self.running {
            Some(running) => Ok(running.snapshot.clone()),
            None => self.later_snapshot(),
        }
    }

    /// What a statement sees that looks again at a row which has changed meanwhile.
    pub(crate) fn later_snapshot(&self) -> Result<Snapshot> {
        let txn = self.txn.as_ref().ok_or_else(|| PgError::internal("no transaction"))?;
        Ok(txn.handle.snapshot_now()?)
    }

    /// Commits what is open.
    pub(crate) async fn commit(&mut self) -> Result<()> {
        // Boxed: what few statements need shall not be part of every session's stack.
        let mut ready = self.settle_keys(true).await;
        if ready.is_ok() && !self.cursors.is_empty() {
            ready = env::boxed!(self.hold_cursors()).await;
            if ready.is_ok() {
                // Functions that the rows have called may have changed something.
                ready = self.settle_keys(true).await;
            }
        }
        if ready.is_ok() && self.txn.is_some() && self.temporary.at_commit() {
            ready = env::boxed!(self.before_commit()).await;
        }
        if ready.is_ok() && self.txn.as_ref().is_some_and(|txn| txn.actions.notify()) {
            ready = env::boxed!(self.await_turn()).await;
        }
        if let Err(error) = ready {
            env::boxed!(self.rollback()).await?;
            return Err(error);
        }
        let Some(mut txn) = self.txn.take() else { return Ok(()) };
        let actions = std::mem::take(&mut txn.actions);
        self.statement_start = None;
        self.end_cursors();
        let changed = txn.handle.xid().is_some();
        let done = txn.handle.commit(&self.ctx).await;
        self.ctx.session.set_own_transaction(0);
        if self.ctx.traced() {
            self.ctx.trace_transaction_end(done.is_err(), !changed);
        }
        self.end_settings(done.is_ok());
        if !actions.is_empty() {
            env::boxed!(self.finish_actions(actions, done.is_ok())).await;
        }
        done?;
        crate::auto_analyze::note_committed(std::mem::take(&mut txn.changed));
        Ok(())
    }

    /// Rolls back what is open.
    pub(crate) async fn rollback(&mut self) -> Result<()> {
        let Some(txn) = self.txn.take() else { return Ok(()) };
        self.statement_start = None;
        self.end_cursors();
        let changed = txn.handle.xid().is_some();
        let done = txn.handle.rollback(&self.ctx).await;
        self.ctx.session.set_own_transaction(0);
        if self.ctx.traced() {
            self.ctx.trace_transaction_end(true, !changed);
        }
        self.end_settings(false);
        // The end of what nobody has begun or changed is none that somebody has asked for.
        if txn.explicit || txn.failed || changed {
            self.ctx.bump(Stat::UserRollbacks, 1);
        }
        Ok(done?)
    }

    pub(crate) async fn rollback_quietly(&mut self) -> Result<()> {
        match &self.txn {
            Some(_) => self.rollback().await,
            None => Ok(()),
        }
    }

    /// Ends the implicit transaction: at the end of a simple query or at Sync.
    ///
    /// # Errors
    /// The commit's.
    pub async fn sync(&mut self) -> Result<()> {
        match &self.txn {
            Some(txn) if !txn.explicit && txn.failed => env::boxed!(self.rollback()).await,
            Some(txn) if !txn.explicit => self.commit().await,
            Some(txn) if txn.failed && !txn.released => Ok(env::boxed!(self.let_go()).await?),
            Some(_) => Ok(()),
            None => {
                // A SET on its own has no transaction: it stays.
                self.end_settings(true);
                Ok(())
            }
        }
    }

    /// `I` idle, `T` in a transaction block, `E` in a failed one.
    #[must_use]
    pub fn transaction_status(&self) -> u8 {
        match &self.txn {
            Some(txn) if txn.explicit && txn.failed => b'E',
            Some(txn) if txn.explicit => b'T',
            _ => b'I',
        }
    }

    /// A statement has failed: its changes go; an implicit transaction ends, a block becomes
    /// failed.
    pub(super) async fn statement_failed(&mut self) {
        self.copy = None;
        self.statement_start = None;
        let Some(txn) = &mut self.txn else { return };
        let done = if txn.explicit {
            txn.failed = true;
            self.let_go().await
        } else {
            let handle = txn.handle.clone();
            self.txn = None;
            self.end_cursors();
            self.end_settings(false);
            let done = handle.rollback(&self.ctx).await;
            self.ctx.session.set_own_transaction(0);
            done
        };
        if let Err(error) = done {
            let text = format!("a statement could not be rolled back: {error}");
            self.ctx.alert(observe::AlertLevel::Error, text);
        }
    }

    /// Takes back what a failed block has done since its last savepoint, so that nobody waits for
    /// it until its client has heard of the failure.
    async fn let_go(&mut self) -> kernel::Result<()> {
        let Some(txn) = &mut self.txn else { return Ok(()) };
        if std::mem::replace(&mut txn.released, true) {
            return Ok(());
        }
        if let Some((_, mark, _)) = txn.savepoints.last() {
            let mark = *mark;
            return txn.rollback_to(&self.ctx, mark).await;
        }
        txn.actions.truncate(0);
        txn.changed.clear();
        let (ended, isolation) = (txn.handle.clone(), txn.handle.isolation());
        // The block goes on as one that has done nothing; it ends with the client's ROLLBACK.
        let handle = self.instance.begin(&self.ctx, isolation);
        let number = handle.local_id();
        self.user_locks.set_transaction(Some(number));
        txn.handle = handle;
        self.end_cursors();
        let done = ended.rollback(&self.ctx).await;
        self.ctx.session.set_own_transaction(number);
        done
    }

    /// The same for errors where nothing was begun.
    pub(super) fn fail_now(&mut self) {
        if let Some(txn) = &mut self.txn {
            txn.failed = true;
        }
    }

    /// An error that happened outside: an unknown portal, a panic.
    pub async fn fail_transaction(&mut self) {
        self.statement_failed().await;
    }

    /// Settings go back to what they were, where they were the transaction's.
    fn end_settings(&mut self, committed: bool) {
        if self.settings.end_transaction(committed) {
            self.note_context();
        }
    }
}

pub(super) fn ends_transaction(statement: &Statement) -> bool {
    matches!(&statement.parsed, Parsed::Sql(ast)
        if matches!(**ast, Ast::Commit { .. } | Ast::Rollback { .. }))
}

pub(super) fn in_failed_transaction() -> PgError {
    PgError::new(
        "25P02",
        "current transaction is aborted, commands ignored until end of transaction block",
    )
}
