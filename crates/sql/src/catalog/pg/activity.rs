//! What sessions do: `pg_stat_activity`, `pg_cursors`, `pg_prepared_statements`, `pg_locks`;
//! and the time zones that they may be in.
//!
//! What it promises: the sessions of all instances, as they are now; locks are those of this one.
//! What it must never do: wait for a session.

use crate::catalog::Catalog;
use crate::catalog::rows::Shape::{
    Bool, Int2, Int4, Int8, Interval, Name, Oid, Other, Text, Timestamptz,
};
use crate::catalog::rows::{Rows, TEXTS, int, list, opt_text, text};
use block::ObjId;
use kernel::dict::Roles;
use kernel::instance::Instance;
use kernel::row::Value;
use kernel::txn::{TmMode, is_of_sequence, notification_resource};

use std::sync::Arc;

/// PostgreSQL's number of `xid`.
const XID: u32 = 28;
/// The same of `inet`.
const INET: u32 = 869;

/// Address and port of a client that is connected over a network.
fn address(machine: &str) -> Option<(&str, i32)> {
    let (host, port) = machine.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    host.parse::<std::net::IpAddr>().ok()?;
    Some((host, port.parse().ok()?))
}

/// What sessions do, by the rows of `gv$session`. Neither transactions nor queries are numbered
/// here.
pub(super) fn activity(catalog: &Catalog, user: &str) -> Rows {
    let mut rows = Rows::new(&[
        ("datid", Oid),
        ("datname", Name),
        ("pid", Int4),
        ("leader_pid", Int4),
        ("usesysid", Oid),
        ("usename", Name),
        ("application_name", Text),
        ("client_addr", Other(INET)),
        ("client_hostname", Text),
        ("client_port", Int4),
        ("backend_start", Timestamptz),
        ("xact_start", Timestamptz),
        ("query_start", Timestamptz),
        ("state_change", Timestamptz),
        ("wait_event_type", Text),
        ("wait_event", Text),
        ("state", Text),
        ("backend_xid", Other(XID)),
        ("backend_xmin", Other(XID)),
        ("query_id", Int8),
        ("query", Text),
        ("backend_type", Text),
    ]);
    let Some(sessions) = &catalog.sessions else { return rows };
    for session in sessions.named() {
        let client = session.text("type") == observe::SessionKind::User.name();
        let active = session.text("status") == "ACTIVE";
        let waits = session.text("state") == "WAITING";
        let waiting = |name: &str| if waits { session.get(name) } else { Value::Null };
        let name = session.text("username");
        let name = if client && name.is_empty() { user } else { name };
        let number = catalog.roles.find(name).map(|user| super::oid_of(user.obj));
        let seen = sees_statements_of(&catalog.roles, catalog.role, name);
        let from = address(session.text("machine")).filter(|_| client && seen);
        let of_client = |value: Value| if client && seen { value } else { Value::Null };
        let changed = session.get("last_call_time");
        rows.push(vec![
            int(super::super::DATABASE_OID),
            text("skein"),
            session.get("sid"),
            Value::Null,
            number.unwrap_or(Value::Null),
            text(name),
            // It is the client's module, unless that has been told by other means.
            session.get(if client { "module" } else { "program" }),
            opt_text(from.map(|(host, _)| host)),
            Value::Null,
            from.map_or(Value::Null, |(_, port)| Value::Int4(port)),
            session.get("logon_time"),
            Value::Null,
            if active { of_client(changed.clone()) } else { Value::Null },
            of_client(changed),
            waiting("wait_class"),
            waiting("event"),
            text(if active { "active" } else { "idle" }),
            Value::Null,
            Value::Null,
            Value::Null,
            match seen {
                true => session.get("sql_text"),
                false => text("<insufficient privilege>"),
            },
            text(if client { "client backend" } else { "background" }),
        ]);
    }
    rows
}

/// The statements that the session has given names by PREPARE; those of the protocol are not known
/// here.
pub(super) fn prepared(catalog: &Catalog) -> Rows {
    let mut rows = Rows::new(&[
        ("name", Text),
        ("statement", Text),
        ("prepare_time", Timestamptz),
        ("parameter_types", TEXTS),
        ("from_sql", Bool),
        ("generic_plans", Int8),
        ("custom_plans", Int8),
    ]);
    for (name, statement, types) in &catalog.prepared {
        let types: Vec<String> =
            types.iter().map(|ty| query::functions::format_type(i64::from(*ty), -1)).collect();
        rows.push(vec![
            text(name.as_str()),
            text(statement.as_str()),
            Value::Null,
            list(&types),
            Value::Bool(true),
            int(0),
            int(0),
        ]);
    }
    rows
}

/// The time zones of the list, as their clocks are now.
pub(super) fn zones(now_us: i64) -> Rows {
    let mut rows =
        Rows::new(&[("name", Text), ("abbrev", Text), ("utc_offset", Interval), ("is_dst", Bool)]);
    for name in query::datetime::zone_names() {
        let Ok(zone) = query::datetime::Zone::parse(name) else { continue };
        let us = i64::from(zone.offset_at(now_us)) * query::datetime::US_PER_SECOND;
        rows.push(vec![
            text(name),
            text(zone.abbreviation_at(now_us)),
            Value::Interval(kernel::row::Interval { us, ..kernel::row::Interval::default() }),
            Value::Bool(zone.is_summer_at(now_us)),
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
        if resource == notification_resource() || is_of_sequence(resource) {
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
