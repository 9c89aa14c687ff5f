//! Cursors that the session which asks has open.
//!
//! What it promises: a cursor goes by the same `sql_id` as its executions in `v$sql`. What it must
//! never do: show what another session has.

use super::int4;
use super::registry::{Make, SessionView, views};
use super::session::process_address;
use super::sql::{first_chars, sql_address};
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, text};
use crate::session::Session;
use kernel::row::Value;
use observe::SharedCursor;
use std::sync::Arc;

views! {
    "v$open_cursor", Make::Session(SessionView::OpenCursor), "Cursors of this session, which alone \
        knows them: those that DECLARE has opened, and statements that PREPARE has named. What a \
        driver has prepared by the protocol is not among them." {
        saddr: Text, "The session, as `v$session.saddr` has it.";
        sid: Int4, "The session.";
        user_name: Text, "Who has logged on there, as `v$session.username` has it.";
        cursor_name: Text, "Name of the cursor or statement (a column of our own).";
        address: Text, "Its statement, as `v$sql.address` has it; NULL: it is not counted by \
            itself.";
        hash_value: Int8, "Hash value of the same.";
        sql_id: Text, "Name of the same.";
        sql_text: Text, "The first 60 characters of the statement.";
        cursor_type: Text, "`OPEN`: of DECLARE; `SESSION CURSOR CACHED`: of PREPARE.";
    }
}

/// Characters of `sql_text`.
const TEXT_CHARS: usize = 60;

impl Session {
    /// The rows of `v$open_cursor`.
    pub(super) fn open_cursors(&self, rows: &mut Rows) {
        let sid = self.ctx.session.sid();
        let mut add = |name: &str, whole: &str, counted: Option<&Arc<SharedCursor>>, kind: &str| {
            let id = counted.map(|counted| counted.id());
            rows.push(vec![
                process_address(sid),
                int4(sid),
                text(&*self.ctx.session.username()),
                text(name),
                id.map_or(Value::Null, sql_address),
                id.map_or(Value::Null, |id| int(id.hash_value())),
                id.map_or(Value::Null, |id| text(id.to_string())),
                text(first_chars(whole, TEXT_CHARS)),
                text(kind),
            ]);
        };
        for cursor in self.cursor_rows() {
            add(&cursor.name, &cursor.text, cursor.counted.as_ref(), "OPEN");
        }
        for (name, prepared) in self.named.iter() {
            let counted = prepared.plan.cursor.get();
            add(name, &prepared.statement.text, counted, "SESSION CURSOR CACHED");
        }
    }
}
