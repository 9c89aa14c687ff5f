//! `v$pgastat` and `v$tempseg_usage`: what statements hold in memory, and in temporary files.

use super::rows::{Rows, Shape, int, opt_text, text};
use crate::database::Database;
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

use Shape::{Int4, Int8, Text};

/// Work areas of the instance. Names are those of Oracle where there is one.
pub(super) fn pgastat(instance: &Arc<Instance>) -> Rows {
    let mut rows = Rows::new(&[("name", Text), ("value", Int8), ("unit", Text)]);
    // A session that asks has made it.
    let Ok(database) = Database::of(instance) else { return rows };
    let usage = database.planner.pga().usage();
    let bytes = [
        ("aggregate PGA target parameter", usage.target_bytes),
        ("global memory bound", usage.bound_bytes),
        ("total PGA used for auto workareas", usage.used_bytes),
        ("maximum PGA used for auto workareas", usage.most_bytes),
    ];
    let counts = [
        ("over allocation count", usage.over_allocations),
        ("work area refusal count", usage.refusals),
    ];
    for (name, value) in bytes {
        rows.push(vec![text(name), int(value), text("bytes")]);
    }
    for (name, value) in counts {
        rows.push(vec![text(name), int(value), Value::Null]);
    }
    rows
}

/// Temporary files that are there now.
pub(super) fn tempseg_usage(instance: &Arc<Instance>) -> Rows {
    let mut rows = Rows::new(&[
        ("sid", Int4),
        ("username", Text),
        ("sql_text", Text),
        ("segtype", Text),
        ("segfile", Int8),
        ("bytes", Int8),
        ("blocks", Int8),
    ]);
    let Ok(database) = Database::of(instance) else { return rows };
    let sessions = instance.observer.sessions();
    for file in database.planner.temp_space().files() {
        let session = sessions.iter().find(|s| u64::from(s.sid) == file.sid);
        let username = session.map(|s| &*s.username).filter(|name| !name.is_empty());
        let segtype = if file.what.contains("Agg") { "HASH" } else { "SORT" };
        rows.push(vec![
            Value::Int4(i32::try_from(file.sid).unwrap_or(i32::MAX)),
            opt_text(username),
            opt_text(session.and_then(|s| s.sql_text.as_deref())),
            text(segtype),
            int(u64::from(file.number)),
            int(file.bytes),
            int(file.bytes.div_ceil(block::BLOCK_BYTES as u64)),
        ]);
    }
    rows
}
