//! The workload repository: snapshots of what the instances have counted, kept in tables.
//!
//! A snapshot has the rows of every instance, asked for through the `gv$` views, under one number.
//! It is taken on request (`dbms_workload_repository.create_snapshot`) and every
//! `awr_snapshot_interval` by one instance for all. Its tables are in the schema `pg_awr`, which
//! `pg_dump` leaves out unless it is named.
//!
//! What it promises: a snapshot is whole or not there; an instance that does not answer from the
//! first view to the last is not in it, and `wrm$_snap_error` says so; two are never taken at once.
//! What it must never do: read a counter past the views, or be part of the caller's transaction.

mod install;
mod shown;
mod statements;
mod tables;
mod take;
mod timer;
mod traces;

pub use timer::keep_snapshots;
pub(crate) use traces::read_newest_rules;
pub use traces::{RuleCall, TracedSessions};

use crate::session::Session;
use crate::{PgError, Result, Severity};
use take::{Taken, drop_range, take};

/// The schema of the repository's tables and views.
pub(crate) const SCHEMA: &str = "pg_awr";

/// Whether a name without a schema may be one of the repository's.
pub(crate) fn is_own_name(name: &str) -> bool {
    const PREFIXES: [&str; 4] = ["dba_hist_", "wrm$_", "wrh$_", "wri$_"];
    name == "dba_enabled_traces" || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Whether a name is of a view of the history, there or not yet.
pub(crate) fn is_history(name: &str) -> bool {
    shown::names().any(|view| view == name)
}

impl Session {
    /// Takes a snapshot now; its number.
    pub(crate) async fn create_snapshot(&mut self) -> Result<i64> {
        self.check_repository().await?;
        match take(&self.instance, &self.ctx, None).await? {
            Taken::Snapshot { id, left_out } => {
                for no in left_out {
                    let text = format!("instance {no} is not in snapshot {id}: it does not answer");
                    self.notice(Severity::Warning, text);
                }
                Ok(id)
            }
            other => Err(PgError::internal(format!("a snapshot is not taken: {other:?}"))),
        }
    }

    /// Runs a call of the package.
    pub(crate) async fn repository_call(&mut self, call: RepositoryCall) -> Result<()> {
        match call {
            RepositoryCall::CreateSnapshot => self.create_snapshot().await.map(|_| ()),
            RepositoryCall::DropRange(low, high) => {
                self.check_repository().await?;
                let count = drop_range(&self.instance, &self.ctx, (low, high)).await?;
                self.notice(Severity::Notice, format!("{count} snapshots dropped"));
                Ok(())
            }
        }
    }

    async fn check_repository(&mut self) -> Result<()> {
        self.check_writable("dbms_workload_repository")?;
        if self.is_superuser().await? {
            return Ok(());
        }
        let text = "permission denied for package dbms_workload_repository";
        Err(PgError::new("42501", text).with_hint("Only superusers take and drop snapshots."))
    }
}

/// What a call of `dbms_workload_repository` does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RepositoryCall {
    CreateSnapshot,
    /// Drops the snapshots from the first number to the second.
    DropRange(i64, i64),
}
