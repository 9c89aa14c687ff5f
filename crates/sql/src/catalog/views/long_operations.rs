//! `v$session_longops`: operations that have lasted for more than six seconds, and what
//! applications tell of their own.

use super::registry::{Make, views};
use super::sql::sql_address;
use super::{int4, shown_text, wall};
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use env::Micros;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{LongRow, Target};
use std::sync::Arc;

views! {
    "v$session_longops", Make::Local(session_longops), "Operations of this instance that have \
        lasted for more than six seconds, and those that applications tell of by \
        `dbms_application_info.set_session_longops`; the last 64, also when they have ended. An \
        operation that fails or is given up stays as it was then." {
        sid: Int4, "The session.";
        "serial#": Int4, "Tells sessions apart that had the same `sid` one after the other.";
        opname: Text, "What is done: `Table Scan`, `Index Build`, `Gather Table Statistics`, \
            `Gather Schema Statistics`, `Gather Statistics` (ANALYZE of several tables), `Copy \
            From`, `Transaction Rollback`, or what an application calls it.";
        target: Text, "What it is done to: schema and name of a table or index.";
        target_desc: Text, "What an application says of that.";
        sofar: Int8, "How much has been done.";
        totalwork: Int8, "How much there is to do; 0: nobody knows until it ends.";
        units: Text, "What these two count. Blocks of an index build are those of the table and \
            the index's root.";
        start_time: Timestamptz, "When it began.";
        last_update_time: Timestamptz, "When it told last how far it was.";
        time_remaining: Int8, "Seconds that the rest takes if it goes on like this; NULL: that \
            cannot be told.";
        elapsed_seconds: Int8, "Seconds from the beginning to when it told last.";
        context: Int8, "A number that an application gives it.";
        message: Text, "All of this in one sentence; of `Copy From` also the bytes that came.";
        username: Text, "Who has logged on there.";
        sql_address: Text, "The statement, as `v$sql.address` has it.";
        sql_hash_value: Int8, "Hash value of the same.";
        sql_id: Text, "Name of the statement.";
        sql_plan_hash_value: Int8, "Number of its plan; 0: it has none, or one for each execution.";
        sql_exec_start: Timestamptz, "Since when that ran.";
    }
}

fn target_text(target: &Target) -> Option<String> {
    match target {
        Target::Nothing => None,
        Target::Object { schema, name } => {
            Some(format!("{}.{}", shown_text(schema), shown_text(name)))
        }
        Target::Other(other) => Some(other.clone()),
    }
}

/// In the field's words.
fn message(row: &LongRow, target: Option<&str>) -> String {
    let p = &row.progress;
    let of_all = if p.total == 0 { String::new() } else { format!(" out of {}", p.total) };
    let bytes = p.bytes.map_or_else(String::new, |bytes| format!(", {bytes} bytes"));
    let (target, units) = (target.unwrap_or_default(), &p.units);
    format!("{}: {} {target}: {}{of_all} {units}{bytes} done", p.name, p.target_desc, p.sofar)
}

fn opt(word: &str) -> Value {
    opt_text(Some(word).filter(|word| !word.is_empty()))
}

fn session_longops(instance: &Arc<Instance>, rows: &mut Rows) {
    let env = instance.observer.env();
    let (now, wall_us) = (env.now(), env.wall_us());
    let at = |at: Micros| wall(wall_us.saturating_sub_unsigned(now.since(at)));
    for row in instance.observer.long_operations.rows() {
        let p = &row.progress;
        let target = target_text(&p.target);
        rows.push(vec![
            int4(row.sid),
            int4(row.serial),
            opt(&p.name),
            opt_text(target.as_deref()),
            opt(&p.target_desc),
            Value::Int8(p.sofar),
            Value::Int8(p.total),
            opt(&p.units),
            at(row.began),
            at(row.updated),
            row.remaining_s().map_or(Value::Null, int),
            int(row.elapsed_s()),
            Value::Int8(p.context),
            text(message(&row, target.as_deref())),
            opt(&row.username),
            row.sql.map_or(Value::Null, sql_address),
            row.sql.map_or(Value::Null, |id| int(id.hash_value())),
            row.sql.map_or(Value::Null, |id| text(id.to_string())),
            int(row.plan_hash),
            row.sql.map_or(Value::Null, |_| at(row.sql_since)),
        ]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use observe::Progress;

    #[test]
    fn the_message_is_the_fields() {
        let progress = Progress {
            name: "Table Scan".to_owned(),
            target: Target::object("hr", "emp"),
            sofar: 512,
            total: 2000,
            units: "Blocks".to_owned(),
            ..Progress::default()
        };
        let row = LongRow {
            number: 1,
            sid: 7,
            serial: 1,
            username: Arc::from("hr"),
            sql: None,
            plan_hash: 0,
            sql_since: Micros(0),
            began: Micros(0),
            updated: Micros(8_000_000),
            told: false,
            progress,
        };
        let of = |row: &LongRow| message(row, target_text(&row.progress.target).as_deref());
        assert_eq!(of(&row), "Table Scan:  HR.EMP: 512 out of 2000 Blocks done");
        let mut copy = row;
        copy.progress.name = "Copy From".to_owned();
        copy.progress.units = "Rows".to_owned();
        (copy.progress.total, copy.progress.bytes) = (0, Some(4096));
        assert_eq!(of(&copy), "Copy From:  HR.EMP: 512 Rows, 4096 bytes done");
    }
}
