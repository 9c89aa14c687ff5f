//! BEGIN, COMMIT, ROLLBACK, savepoints and SET TRANSACTION.
//!
//! What it promises: a failed block ends with ROLLBACK, whatever its client says. What it must
//! never do: change the isolation of a transaction that has changed rows.

use super::{done, refuse};
use crate::bind::ident_name;
use crate::plan::{Kind, Prepared};
use crate::session::{Fetched, Session};
use crate::settings::serializable;
use crate::{PgError, Result, Severity};
use datafusion::sql::sqlparser::ast::{
    Statement as Ast, TransactionAccessMode, TransactionIsolationLevel, TransactionMode,
};
use kernel::txn::Isolation;
use observe::Stat;
use std::sync::Arc;

impl Session {
    /// BEGIN, COMMIT, ROLLBACK and savepoints, which work before a transaction is begun for the
    /// statement.
    pub(crate) async fn transaction_command(
        &mut self,
        prepared: &Arc<Prepared>,
    ) -> Result<Option<Fetched>> {
        let Kind::Utility(ast) = &prepared.plan.kind else { return Ok(None) };
        match &**ast {
            Ast::StartTransaction { modes, begin, statements, exception, modifier, .. } => {
                if !statements.is_empty() || exception.is_some() || modifier.is_some() {
                    return refuse("this form of BEGIN");
                }
                let tag = if *begin { "BEGIN" } else { "START TRANSACTION" };
                self.begin_block(modes, tag).await.map(Some)
            }
            Ast::Commit { chain, modifier: None, .. } => {
                let had = self.txn.as_ref().map(|txn| (txn.explicit, txn.failed));
                if !had.is_some_and(|(explicit, _)| explicit) {
                    self.notice(Severity::Warning, "there is no transaction in progress");
                }
                let failed = had.is_some_and(|(_, failed)| failed);
                let tag = if failed { "ROLLBACK" } else { "COMMIT" };
                if failed {
                    self.rollback().await?;
                } else {
                    self.commit().await?;
                }
                self.chain(*chain);
                Ok(Some(Fetched::Complete(tag.to_owned())))
            }
            Ast::Rollback { chain, savepoint: None } => {
                if !self.txn.as_ref().is_some_and(|txn| txn.explicit) {
                    self.notice(Severity::Warning, "there is no transaction in progress");
                }
                self.rollback().await?;
                self.chain(*chain);
                Ok(Some(Fetched::Complete("ROLLBACK".to_owned())))
            }
            Ast::Rollback { chain: _, savepoint: Some(name) } => {
                self.rollback_to(&ident_name(name)).await?;
                Ok(Some(Fetched::Complete("ROLLBACK".to_owned())))
            }
            _ => Ok(None),
        }
    }

    async fn begin_block(&mut self, modes: &[TransactionMode], tag: &str) -> Result<Fetched> {
        if let Some(txn) = &mut self.txn {
            if txn.explicit {
                self.notice(Severity::Warning, "there is already a transaction in progress");
                return done(tag);
            }
            // BEGIN inside a message makes what went before it part of the block.
            if txn.used {
                txn.explicit = true;
                return done(tag);
            }
            self.rollback_unused().await?;
        }
        let (isolation, read_only) = self.modes(modes)?;
        self.begin(true, isolation, read_only);
        done(tag)
    }

    pub(super) fn modes(&self, modes: &[TransactionMode]) -> Result<(Isolation, bool)> {
        let (mut isolation, mut read_only) = (self.settings.isolation, self.settings.read_only);
        for mode in modes {
            match mode {
                TransactionMode::AccessMode(mode) => {
                    read_only = *mode == TransactionAccessMode::ReadOnly;
                }
                TransactionMode::IsolationLevel(level) => {
                    isolation = match level {
                        TransactionIsolationLevel::ReadCommitted
                        | TransactionIsolationLevel::ReadUncommitted => Isolation::ReadCommitted,
                        TransactionIsolationLevel::RepeatableRead => Isolation::RepeatableRead,
                        TransactionIsolationLevel::Serializable => return Err(serializable()),
                        TransactionIsolationLevel::Snapshot => {
                            return refuse("isolation level SNAPSHOT");
                        }
                    };
                }
            }
        }
        Ok((isolation, read_only))
    }

    /// SET TRANSACTION: only before the block has done anything.
    pub(super) fn change_isolation(
        &mut self,
        isolation: Isolation,
        read_only: Option<bool>,
    ) -> Result<()> {
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            self.notice(
                Severity::Warning,
                "SET TRANSACTION can only be used in transaction blocks",
            );
            return Ok(());
        };
        let read_only = read_only.unwrap_or(txn.read_only);
        if txn.handle.isolation() != isolation {
            if txn.queried || !txn.savepoints.is_empty() {
                return Err(PgError::new(
                    "25001",
                    "SET TRANSACTION ISOLATION LEVEL must be called before any query",
                ));
            }
            let start_us = txn.start_us;
            self.begin(true, isolation, read_only);
            if let Some(txn) = &mut self.txn {
                txn.start_us = start_us;
            }
        } else {
            txn.read_only = read_only;
        }
        Ok(())
    }

    fn chain(&mut self, chain: bool) {
        if chain {
            let (isolation, read_only) = (self.settings.isolation, self.settings.read_only);
            self.begin(true, isolation, read_only);
        }
    }

    /// Gives up a transaction in which only planning has been done.
    async fn rollback_unused(&mut self) -> Result<()> {
        match self.txn.take() {
            Some(txn) => Ok(txn.handle.rollback(&self.ctx).await?),
            None => Ok(()),
        }
    }

    pub(super) fn savepoint(&mut self, name: String) -> Result<Fetched> {
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            return Err(PgError::new("25P01", "SAVEPOINT can only be used in transaction blocks"));
        };
        let mark = txn.mark();
        txn.savepoints.push((name, mark, txn.deferral.clone()));
        self.ctx.bump(Stat::Savepoints, 1);
        done("SAVEPOINT")
    }

    pub(super) fn release(&mut self, name: &str) -> Result<Fetched> {
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            let text = "RELEASE SAVEPOINT can only be used in transaction blocks";
            return Err(PgError::new("25P01", text));
        };
        let at = txn.savepoints.iter().rposition(|(known, ..)| known == name);
        txn.savepoints.truncate(at.ok_or_else(|| no_savepoint(name))?);
        done("RELEASE")
    }

    async fn rollback_to(&mut self, name: &str) -> Result<()> {
        let no_block = || {
            PgError::new("25P01", "ROLLBACK TO SAVEPOINT can only be used in transaction blocks")
        };
        let Some(txn) = self.txn.as_mut().filter(|txn| txn.explicit) else {
            return Err(no_block());
        };
        let at = txn.savepoints.iter().rposition(|(known, ..)| known == name);
        let at = at.ok_or_else(|| no_savepoint(name))?;
        let (_, mark, deferral) = &txn.savepoints[at];
        let (mark, deferral) = (*mark, deferral.clone());
        txn.rollback_to(&self.ctx, mark).await?;
        txn.deferral = deferral;
        txn.savepoints.truncate(at + 1);
        (txn.failed, txn.released) = (false, false);
        self.end_cursors_after(at);
        Ok(())
    }
}

fn no_savepoint(name: &str) -> PgError {
    PgError::new("3B001", format!("savepoint \"{name}\" does not exist"))
}
