//! What sessions do: `pg_stat_activity`, `pg_cursors`, `pg_locks`.
//!
//! What it promises: the sessions of this instance, as they are now. What it must never do: wait
//! for one of them.

use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{Bool, Int2, Int4, Name, Oid, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use block::ObjId;
use kernel::dict::Roles;
use kernel::instance::Instance;
use kernel::row::Value;
use kernel::txn::{TmMode, notification_resource};
use std::sync::Arc;

pub(super) fn activity(catalog: &Catalog, instance: &Arc<Instance>, user: &str) -> Rows {
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
            match sees_statements_of(&catalog.roles, catalog.role, name) {
                true => opt_text(s.sql_text.as_deref()),
                false => text("<insufficient privilege>"),
            },
            text(if client { "client backend" } else { "background" }),
        ]);
    }
    rows
}

/// `pg_read_all_stats`.
const READ_ALL_STATS: ObjId = ObjId(3375);

/// Whether the role may see what another user's sessions run.
pub(crate) fn sees_statements_of(roles: &Roles, role: ObjId, user: &str) -> bool {
    let above = roles.above(role, true);
    let of = roles.find(user).map(|user| user.obj);
    roles.is_superuser(role)
        || above.contains(&READ_ALL_STATS)
        || of.is_some_and(|of| above.contains(&of))
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

/// Locks on tables and advisory locks of this instance. Whose they are is known of the own ones.
pub(super) fn locks(catalog: &Catalog, instance: &Arc<Instance>) -> Rows {
    let mut rows = Rows::new(&[
        ("locktype", Text),
        ("database", Oid),
        ("relation", Oid),
        ("page", Int4),
        ("tuple", Int2),
        ("virtualxid", Text),
        ("transactionid", Text),
        ("classid", Oid),
        ("objid", Oid),
        ("objsubid", Int2),
        ("virtualtransaction", Text),
        ("pid", Int4),
        ("mode", Text),
        ("granted", Bool),
        ("fastpath", Bool),
        ("waitstart", Timestamptz),
    ]);
    for lock in instance.core.table_locks.rows() {
        let resource = lock.resource;
        let analyze = resource.kind == *b"AN";
        let table = analyze || resource.kind == *b"TM";
        if resource == notification_resource() {
            continue;
        }
        let of = |wanted: bool, value: Value| if wanted { value } else { Value::Null };
        let mode = match lock.held.or(lock.wanted) {
            Some(TmMode::SS) => "RowShareLock",
            Some(TmMode::SX) => "RowExclusiveLock",
            Some(TmMode::S) => "ShareLock",
            Some(TmMode::SSX) => "ShareRowExclusiveLock",
            Some(TmMode::X) if analyze => "ShareUpdateExclusiveLock",
            Some(TmMode::X) if table => "AccessExclusiveLock",
            Some(TmMode::X) => "ExclusiveLock",
            None => continue,
        };
        let keys = if resource.kind == *b"UP" { 2 } else { 1 };
        let own = catalog.lock_numbers.contains(&lock.transaction);
        rows.push(vec![
            text(if table { "relation" } else { "advisory" }),
            int(5),
            of(table, int(resource.id1)),
            Value::Null,
            Value::Null,
            Value::Null,
            Value::Null,
            of(!table, int(resource.id1)),
            of(!table, int(resource.id2)),
            of(!table, Value::Int2(keys)),
            text(format!("{}/{}", instance.me.0, lock.transaction)),
            of(own, Value::Int4(catalog.pid)),
            text(mode),
            Value::Bool(lock.held.is_some()),
            Value::Bool(false),
            Value::Null,
        ]);
    }
    rows
}
