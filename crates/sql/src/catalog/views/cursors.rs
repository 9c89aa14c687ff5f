//! Cursors that sessions have open.
//!
//! What it promises: a cursor goes by the same `sql_id` as its executions in `v$sql`. What it must
//! never do: show the text of a statement to one who may not see it.

use super::int4;
use super::registry::{Make, views};
use super::session::process_address;
use super::sql::{first_chars, opt, sql_address};
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "v$open_cursor", Make::Local(open_cursors), "Cursors of the open sessions: those that DECLARE \
        has opened or code for a cursor variable, and statements that PREPARE has named. What a \
        driver has prepared by the protocol is not among them, nor other cursors of code." {
        saddr: Text, "The session, as `v$session.saddr` has it.";
        sid: Int4, "The session.";
        user_name: Text, "Who has logged on there, as `v$session.username` has it.";
        cursor_name: Text, "Name of the cursor or statement (a column of our own).";
        address: Text, "Its statement, as `v$sql.address` has it; NULL: it is not counted by \
            itself.";
        hash_value: Int8, "Hash value of the same.";
        sql_id: Text, "Name of the same.";
        sql_text: Text, "The first 60 characters of the statement.";
        cursor_type: Text, "`OPEN`: of DECLARE or code; `SESSION CURSOR CACHED`: of PREPARE.";
    }
}

/// Characters of `sql_text`.
const TEXT_CHARS: usize = 60;

fn open_cursors(instance: &Arc<Instance>, rows: &mut Rows) {
    for state in instance.observer.session_states() {
        for (kind, name, cursor) in state.open_cursors().list() {
            let id = cursor.of.counted().map(|counted| counted.id());
            rows.push(vec![
                process_address(state.sid()),
                int4(state.sid()),
                opt(&state.username()),
                text(&*name),
                id.map_or(Value::Null, sql_address),
                id.map_or(Value::Null, |id| int(id.hash_value())),
                id.map_or(Value::Null, |id| text(id.to_string())),
                text(first_chars(&cursor.text, TEXT_CHARS)),
                text(kind.name()),
            ]);
        }
    }
}
