//! Checks that a change of a row has left to the end of its statement, or of the transaction.
//!
//! The transaction keeps them beside its changes ([`Transaction::put_off`]), so that a rollback to
//! a savepoint takes both back; what they are is known here alone.

use std::sync::Arc;

use block::Rowid;

use crate::dict::ForeignKeyDef;
use crate::row::Value;
use crate::txn::{Moment, PutOff, Transaction};

/// What a row has lost or lacks.
#[derive(Debug)]
pub enum KeyEvent {
    /// The row of the child had no parent when it was written.
    Child { rowid: Rowid },
    /// The parent's row has gone, or has another key now.
    Parent {
        /// The key it had, in the order of the foreign key's columns.
        old: Vec<Value>,
        /// The key it has now; `None`: it was deleted.
        new: Option<Vec<Value>>,
    },
}

/// A check to be made.
#[derive(Debug)]
pub struct PendingKey {
    pub key: Arc<ForeignKeyDef>,
    pub event: KeyEvent,
    moment: Moment,
}

type Kept = (Arc<ForeignKeyDef>, KeyEvent);

pub(super) fn put_off(txn: &Transaction, key: &Arc<ForeignKeyDef>, event: KeyEvent) {
    let kept: Kept = (key.clone(), event);
    txn.put_off(Box::new(kept));
}

fn kept(pending: PendingKey) -> PutOff {
    let kept: Kept = (pending.key, pending.event);
    PutOff::new(Box::new(kept), pending.moment)
}

/// The checks put off, in the order of their changes; the caller makes them or puts them back.
#[must_use]
pub fn take_pending_keys(txn: &Transaction) -> Vec<PendingKey> {
    let known = |put_off: PutOff| {
        let moment = put_off.moment();
        // Nobody else puts anything off.
        let (key, event) = *put_off.into_inner().downcast::<Kept>().ok()?;
        Some(PendingKey { key, event, moment })
    };
    txn.take_put_off().into_iter().filter_map(known).collect()
}

/// Puts back checks that are due later.
pub fn return_pending_keys(txn: &Transaction, later: Vec<PendingKey>) {
    txn.return_put_off(later.into_iter().map(kept).collect());
}

/// These checks have been made and all is well: unless a part of the transaction is rolled back in
/// which they were made.
pub fn note_settled_keys(txn: &Transaction, done: Vec<PendingKey>) {
    txn.note_settled(done.into_iter().map(kept).collect());
}
