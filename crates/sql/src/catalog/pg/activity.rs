//! What sessions do: `pg_stat_activity`, `pg_cursors`.
//!
//! What it promises: the sessions of this instance, as they are now. What it must never do: wait
//! for one of them.

use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Bool, Int4, Name, Text, Timestamptz};
use crate::catalog::rows::{Rows, opt_text, text};
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

pub(super) fn activity(instance: &Arc<Instance>, user: &str) -> Rows {
    let mut rows = Rows::new(&[
        ("datname", Name),
        ("pid", Int4),
        ("usename", Name),
        ("application_name", Text),
        ("backend_start", Timestamptz),
        ("wait_event_type", Text),
        ("wait_event", Text),
        ("state", Text),
        ("query", Text),
        ("backend_type", Text),
    ]);
    for s in instance.observer.sessions() {
        let client = s.kind == observe::SessionKind::User;
        let waiting = s.wait.event.filter(|_| s.wait.waiting);
        let name = if client && s.username.is_empty() { user } else { &s.username };
        rows.push(vec![
            text("skein"),
            Value::Int4(i32::try_from(s.sid).unwrap_or(i32::MAX)),
            text(name),
            text(&*s.program),
            Value::Timestamptz(s.logon_wall_us - query::datetime::EPOCH_US),
            opt_text(waiting.map(|e| e.class().name())),
            opt_text(waiting.map(|e| e.name())),
            text(if s.active { "active" } else { "idle" }),
            opt_text(s.sql_text.as_deref()),
            text(if client { "client backend" } else { "background" }),
        ]);
    }
    rows
}

/// The session's open cursors.
pub(super) fn cursors(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("name", Text),
        ("statement", Text),
        ("is_holdable", Bool),
        ("is_binary", Bool),
        ("is_scrollable", Bool),
        ("creation_time", Timestamptz),
    ]);
    for cursor in &catalog.cursors {
        rows.push(vec![
            text(cursor.name.as_str()),
            text(cursor.text.as_str()),
            Value::Bool(cursor.hold),
            Value::Bool(false),
            Value::Bool(cursor.scroll),
            Value::Timestamptz(cursor.created_us),
        ]);
    }
    rows
}
