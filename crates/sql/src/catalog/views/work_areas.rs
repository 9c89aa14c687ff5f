//! `v$pgastat` and `v$tempseg_usage`: what statements hold in memory, and in temporary files.

use super::int4;
use super::registry::{Make, views};
use crate::catalog::rows::Shape::{Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::database::Database;
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "v$pgastat", Make::Local(pgastat), "What the work areas of statements hold in memory." {
        name: Text, "What is shown.";
        value: Int8, "Its value, in the unit of the row.";
        unit: Text, "`bytes`; NULL: a count.";
    }
    "v$tempseg_usage", Make::Local(tempseg_usage), "Temporary files that are there now." {
        sid: Int4, "The session whose statement writes it.";
        username: Text, "Who has logged on there.";
        sql_text: Text, "The statement.";
        segtype: Text, "`SORT` or `HASH`.";
        segfile: Int8, "Number of the file.";
        bytes: Int8, "Its size in bytes.";
        blocks: Int8, "Its size in blocks.";
    }
}

fn pgastat(instance: &Arc<Instance>, rows: &mut Rows) {
    // A session that asks has made it.
    let Ok(database) = Database::of(instance) else { return };
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
}

fn tempseg_usage(instance: &Arc<Instance>, rows: &mut Rows) {
    let Ok(database) = Database::of(instance) else { return };
    let sessions = instance.observer.sessions();
    for file in database.planner.temp_space().files() {
        let session = sessions.iter().find(|s| u64::from(s.sid) == file.sid);
        let username = session.map(|s| &*s.about.username).filter(|name| !name.is_empty());
        let segtype = if file.what.contains("Agg") { "HASH" } else { "SORT" };
        rows.push(vec![
            int4(file.sid),
            opt_text(username),
            opt_text(session.and_then(|s| s.sql_text.as_deref())),
            text(segtype),
            int(u64::from(file.number)),
            int(file.bytes),
            int(file.bytes.div_ceil(block::BLOCK_BYTES as u64)),
        ]);
    }
}
