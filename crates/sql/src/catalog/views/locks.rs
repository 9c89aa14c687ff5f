//! Locks, and who waits for them.

use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Bool, Text};
use crate::catalog::rows::{Rows, opt_text, text};
use kernel::instance::Instance;
use kernel::row::Value;
use kernel::txn::TmMode;
use std::sync::Arc;

views! {
    "v$lock", Make::Local(locks), "Locks of tables, and rows that transactions wait for." {
        type: Text, "`TM`: a table; `TX`: a row of a transaction; `UL`: one that users name.";
        id1: Text, "What is locked: the object, or the transaction.";
        owner: Text, "The transaction that holds or wants it.";
        lmode: Text, "How it holds the lock; NULL: not at all.";
        request: Text, "How it wants the lock; NULL: it waits for nothing.";
        block: Bool, "Whether another waits for it.";
    }
}

fn mode_name(mode: TmMode) -> &'static str {
    match mode {
        TmMode::SS => "SS",
        TmMode::SX => "SX",
        TmMode::S => "S",
        TmMode::SSX => "SSX",
        TmMode::X => "X",
    }
}

fn locks(instance: &Arc<Instance>, rows: &mut Rows) {
    let core = &instance.core;
    let table_locks = core.table_locks.rows();
    for row in &table_locks {
        let blocks = row.held.is_some()
            && table_locks
                .iter()
                .any(|other| other.resource == row.resource && other.wanted.is_some());
        rows.push(vec![
            text(row.resource.kind.map(char::from).iter().collect::<String>()),
            text(row.resource.id1.to_string()),
            text(row.transaction.to_string()),
            opt_text(row.held.map(mode_name)),
            opt_text(row.wanted.map(mode_name)),
            Value::Bool(blocks),
        ]);
    }
    let waits = core.waits.rows();
    for row in &waits {
        let waiter = row.waiter.map_or(Value::Null, |xid| text(xid.to_string()));
        for holder in &row.holders {
            rows.push(vec![
                text("TX"),
                text(holder.to_string()),
                waiter.clone(),
                Value::Null,
                text("X"),
                Value::Bool(false),
            ]);
            rows.push(vec![
                text("TX"),
                text(holder.to_string()),
                text(holder.to_string()),
                text("X"),
                Value::Null,
                Value::Bool(true),
            ]);
        }
    }
}
