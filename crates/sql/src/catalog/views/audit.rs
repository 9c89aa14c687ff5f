//! The audit trail.

use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Int4, Text, Timestamptz};
use crate::catalog::rows::{Rows, text};
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "v$audit_trail", Make::Local(trail), "The newest lines of the instance's audit trail; for \
        superusers." {
        event_time: Timestamptz, "When it happened.";
        sid: Int4, "The session.";
        username: Text, "Who had logged on.";
        rolename: Text, "The role in force.";
        peer: Text, "Where the client is.";
        action: Text, "What was done.";
        outcome: Text, "SQLSTATE of the refusal, or that it succeeded.";
        sql_text: Text, "The statement, without passwords.";
    }
}

fn trail(instance: &Arc<Instance>, rows: &mut Rows) {
    let Ok(database) = crate::database::Database::of(instance) else { return };
    for line in database.trail.lines() {
        let mut row = vec![Value::Timestamptz(line.wall_us - crate::EPOCH_US)];
        let mut fields = line.fields.into_iter();
        let sid = fields.next().and_then(|sid| sid.parse().ok());
        row.push(sid.map_or(Value::Null, Value::Int4));
        row.extend(fields.map(text));
        rows.push(row);
    }
}
