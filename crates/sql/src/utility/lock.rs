//! LOCK TABLE.
//!
//! What it promises: among writers, each of PostgreSQL's modes keeps out at least what it keeps out
//! there. What it must never do: make a reader wait.

use super::done;
use crate::session::{Fetched, Session};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{self, LockTableMode};
use kernel::dict::Privileges;
use kernel::table::LockWait;
use kernel::txn::TmMode;

/// Any of these lets a role take the lock.
fn rights_for(mode: Option<&LockTableMode>) -> Privileges {
    let change = Privileges::UPDATE.with(Privileges::DELETE).with(Privileges::TRUNCATE);
    match mode {
        Some(LockTableMode::AccessShare) => Privileges::SELECT,
        Some(LockTableMode::RowExclusive) => change.with(Privileges::INSERT),
        _ => change,
    }
}

impl Session {
    pub(super) async fn run_lock(&mut self, lock: &ast::Lock) -> Result<Fetched> {
        // The transaction that a block runs in lasts to the end of the block.
        let running = self.ctx.session.running();
        let in_block = running.top.is_some() && running.top != running.sql;
        if !in_block && !self.txn.as_ref().is_some_and(|txn| txn.explicit) {
            return Err(PgError::new("25P01", "LOCK TABLE can only be used in transaction blocks"));
        }
        let mode = match &lock.lock_mode {
            // A reader needs no lock here: it never waits and is never waited for.
            Some(LockTableMode::AccessShare) => None,
            Some(LockTableMode::RowShare) => Some(TmMode::SS),
            Some(LockTableMode::RowExclusive) => Some(TmMode::SX),
            Some(LockTableMode::Share) => Some(TmMode::S),
            Some(LockTableMode::ShareUpdateExclusive | LockTableMode::ShareRowExclusive) => {
                Some(TmMode::SSX)
            }
            Some(LockTableMode::Exclusive | LockTableMode::AccessExclusive) | None => {
                Some(TmMode::X)
            }
        };
        let wait = match (lock.nowait, self.settings.lock_timeout_us) {
            (true, _) => LockWait::NoWait,
            (false, 0) => LockWait::Wait,
            (false, us) => LockWait::Timeout(us),
        };
        for target in &lock.tables {
            let table = self.table_of(&target.name).await?;
            if !self.held_on(&table).await?.meets(rights_for(lock.lock_mode.as_ref())) {
                return Err(crate::access::denied("table", &table.name));
            }
            let Some(mode) = mode else { continue };
            let txn = self.transaction()?;
            txn.core().lock_table(&self.ctx, &txn, table.obj, mode, wait).await.map_err(
                |e| match e {
                    kernel::Error::RowLocked => PgError::new(
                        "55P03",
                        format!("could not obtain lock on relation \"{}\"", table.name),
                    ),
                    other => other.into(),
                },
            )?;
        }
        done("LOCK TABLE")
    }
}
