//! Statements of the repository's own: as the superuser, in transactions of their own.

use crate::encode::{Nowhere, TakenRows};
use crate::session::{Portal, PortalState, Session};
use crate::{PgError, Result};
use kernel::dict::{SUPERUSER, TableDef};
use kernel::instance::Instance;
use kernel::row::Value;
use kernel::txn::Isolation;
use observe::Ctx;
use std::sync::Arc;

/// A lock on one of the tables is waited for as long as this.
const LOCK_TIMEOUT: &str = "30s";

/// A session beside the caller's: its work is counted, and cancelled, as the caller's.
pub(super) struct Statements {
    pub(super) session: Session,
}

impl Statements {
    pub(super) async fn new(instance: &Arc<Instance>, ctx: &Ctx) -> Result<Statements> {
        let settings = [("lock_timeout".to_owned(), LOCK_TIMEOUT.to_owned())];
        let mut session = Session::new(instance.clone(), ctx.clone(), SUPERUSER, &settings)?;
        session.know_identity().await?;
        Ok(Statements { session })
    }

    /// Runs one statement; its rows.
    pub(super) async fn run(&mut self, text: &str) -> Result<Vec<Vec<Value>>> {
        let prepared = self.session.prepare(text, &[]).await?;
        let taken = TakenRows::default();
        let mut portal = Portal {
            prepared,
            params: Vec::new(),
            formats: Vec::new(),
            state: PortalState::Ready,
            taken: Some(taken.clone()),
            first_only: false,
            measured: None,
        };
        self.session.fetch(&mut portal, 0, &mut Nowhere::default()).await?;
        Ok(std::mem::take(&mut *taken.lock()))
    }

    /// The names of a relation's columns; `None`: there is no such relation.
    pub(super) async fn columns_of(&mut self, relation: &str) -> Result<Option<Vec<String>>> {
        let found = self.session.prepare(&format!("select * from {relation}"), &[]).await;
        self.session.sync().await?;
        match found {
            Ok(prepared) => Ok(Some(prepared.columns.iter().map(|c| c.name.clone()).collect())),
            Err(error) if error.code == "42P01" => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A table of the repository.
    pub(super) async fn table(&mut self, name: &str) -> Result<Option<Arc<TableDef>>> {
        self.session.find_table(Some(super::SCHEMA), name).await
    }

    pub(super) fn begin(&mut self) {
        self.session.begin(true, Isolation::ReadCommitted, false);
    }

    /// Commits, or takes back what has failed.
    pub(super) async fn end<T>(&mut self, done: Result<T>) -> Result<T> {
        match done {
            Ok(value) => self.session.commit().await.map(|()| value),
            Err(error) => {
                self.session.rollback().await?;
                Err(error)
            }
        }
    }
}

/// The number in the first column of the first row.
pub(super) fn number(rows: &[Vec<Value>]) -> Result<i64> {
    match rows.first().and_then(|row| row.first()) {
        Some(Value::Int8(number)) => Ok(*number),
        Some(Value::Int4(number)) => Ok(i64::from(*number)),
        Some(Value::Null) => Ok(0),
        other => Err(PgError::internal(format!("a number is expected, not {other:?}"))),
    }
}
