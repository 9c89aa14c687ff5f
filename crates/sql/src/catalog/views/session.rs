//! Sessions: who they are, and what they do and wait for now.

use super::registry::{Blockers, Column, Make, columns, views};
use super::{int4, wall};
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use kernel::gcs::BlockedBy;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{
    Blocking, SessionRow, SqlId, TRACE_BINDS, TRACE_CALLS, TRACE_WAITS, WaitView, WaitedFor,
};
use std::sync::Arc;

/// The wait of a session, behind the names of its event.
const WAIT: &[Column] = columns! {
    p1text: Text, "What `p1` is.";
    p1: Int8, "First parameter of the wait.";
    p2text: Text, "What `p2` is.";
    p2: Int8, "Second parameter of the wait.";
    p3text: Text, "What `p3` is.";
    p3: Int8, "Third parameter of the wait.";
    state: Text, "`WAITING`, or `WAITED KNOWN TIME` if it works.";
    wait_time_micro: Int8, "Microseconds that this wait lasts, or the last one took.";
    time_since_last_wait_micro: Int8, "Microseconds since the last wait ended; 0 in a wait.";
};

views! {
    "v$session", Make::Blocked(session), "Sessions of clients and of the instance's own \
        processes." {
        sid: Int4, "The session, one number in the whole cluster.";
        serial: Int4, "Tells sessions apart that had the same `sid` one after the other.";
        username: Text, "Who has logged on.";
        status: Text, "`ACTIVE` while it works for its client, else `INACTIVE`.";
        type: Text, "`USER` or `BACKGROUND`.";
        program: Text, "What the client calls itself; name of a process.";
        machine: Text, "Where the client is.";
        service_name: Text, "What it has connected to.";
        module: Text, "The part of the application that works, as the client says: by \
            `application_name` or `dbms_application_info`.";
        action: Text, "What it does there, as the client says.";
        client_info: Text, "What else the client says.";
        client_identifier: Text, "For whom the client works, as it says.";
        sql_text: Text, "The statement that runs, or the last one.";
        sql_id: Text, "Name of the statement that runs; in procedural code the one inside.";
        sql_exec_start: Timestamptz, "Since when that runs.";
        prev_sql_id: Text, "Name of the client's statement before.";
        logon_time: Timestamptz, "Since when it is there.";
        last_call_et: Int8, "Seconds that it has been active, or not.";
        last_call_time: Timestamptz, "Since when it has been active, or not.";
        blocking_session_status: Text, "`VALID`: another session stands in its way; `NO HOLDER`: \
            none does; `UNKNOWN`: the instance that knows has not answered; `NOT IN WAIT`.";
        blocking_instance: Int4, "The instance of the session that stands in its way.";
        blocking_session: Int4, "That session.";
        final_blocking_session_status: Text, "The same of who stands at the end of the chain.";
        final_blocking_instance: Int4, "The instance of the session that the whole chain awaits.";
        final_blocking_session: Int4, "That session.";
        row_wait_obj_no: Int8, "The object whose row it waits for.";
        row_wait_file_no: Int4, "File of that row.";
        row_wait_block_no: Int8, "Block of that row.";
        row_wait_row_no: Int4, "Number of that row in its block.";
        seq: Int8, "Number of the wait.";
        event_no: Int4, "Number of the event, as in `v$event_name`.";
        event: Text, "What it waits for, or has waited for last.";
        wait_class: Text, "Class of that event.";
    } + WAIT {
        sql_trace: Text, "`ENABLED` if its calls are traced.";
        sql_trace_waits: Text, "`TRUE` if its waits are traced.";
        sql_trace_binds: Text, "`TRUE` if its binds are traced.";
    }
    "v$session_wait", Make::Local(session_wait), "What each session waits for, or has waited for \
        last." {
        sid: Int4, "The session.";
        seq: Int8, "Number of the wait.";
        event: Text, "The event.";
        wait_class: Text, "Its class.";
    } + WAIT {}
}

fn seconds_since(instance: &Instance, wall_us: i64) -> Value {
    let now = instance.observer.env().wall_us();
    int((now - wall_us).max(0) / 1_000_000)
}

fn state(waiting: bool) -> Value {
    text(if waiting { "WAITING" } else { "WAITED KNOWN TIME" })
}

fn opt(word: &str) -> Value {
    opt_text(Some(word).filter(|word| !word.is_empty()))
}

/// Status, instance and session of who stands in another's way.
pub(super) fn blocking(who: Blocking) -> [Value; 3] {
    let (status, instance, sid) = match who {
        Blocking::NotInWait => ("NOT IN WAIT", None, None),
        Blocking::NoHolder => ("NO HOLDER", None, None),
        Blocking::Unknown(instance) => ("UNKNOWN", instance, None),
        Blocking::By { sid, instance, .. } => ("VALID", Some(instance), Some(sid)),
    };
    [text(status), instance.map_or(Value::Null, int4), sid.map_or(Value::Null, int4)]
}

/// Object, file, block and row that are waited for.
pub(super) fn place(what: Option<WaitedFor>) -> [Value; 4] {
    let obj = what.map(|what| what.obj).filter(|obj| *obj > 0);
    let block = what.and_then(|what| what.block);
    [
        obj.map_or(Value::Null, int),
        block.map_or(Value::Null, |(file, _)| int4(file)),
        block.map_or(Value::Null, |(_, block)| int(block)),
        what.and_then(|what| what.row).map_or(Value::Null, int4),
    ]
}

/// From `blocking_session_status` to `row_wait_row_no`.
fn obstacles(s: &SessionRow, blockers: &Blockers) -> impl Iterator<Item = Value> {
    let otherwise = if s.wait.waiting { Blocking::NoHolder } else { Blocking::NotInWait };
    let by = blockers.get(&s.sid).copied();
    let by = by.unwrap_or(BlockedBy { next: otherwise, last: otherwise });
    let row = s.running.waited_for.filter(|_| s.wait.waiting);
    blocking(by.next).into_iter().chain(blocking(by.last)).chain(place(row))
}

/// From `service_name` to `client_identifier`.
fn told(s: &SessionRow) -> [Value; 5] {
    let a = &s.about;
    [&a.service, &a.module, &a.action, &a.client_info, &a.client_identifier].map(|word| opt(word))
}

/// From `sql_text` to `prev_sql_id`.
fn statement(instance: &Instance, s: &SessionRow) -> [Value; 4] {
    let env = instance.observer.env();
    let id = |id: Option<SqlId>| id.map_or(Value::Null, |id| text(id.to_string()));
    let since = s.running.sql.map(|_| {
        let ago = env.now().since(s.running.since);
        wall(env.wall_us().saturating_sub_unsigned(ago))
    });
    [
        opt_text(s.sql_text.as_deref()),
        id(s.running.sql),
        since.unwrap_or(Value::Null),
        id(s.running.previous),
    ]
}

fn session(instance: &Arc<Instance>, blockers: &Blockers, rows: &mut Rows) {
    for s in instance.observer.sessions() {
        let traces = |bit: u8| s.trace_level & bit != 0;
        let mut row = vec![
            int4(s.sid),
            int4(s.serial),
            opt(&s.about.username),
            text(if s.active { "ACTIVE" } else { "INACTIVE" }),
            text(s.kind.name()),
            text(&*s.about.program),
            text(&*s.about.machine),
        ];
        row.extend(told(&s));
        row.extend(statement(instance, &s));
        row.extend([
            wall(s.logon_wall_us),
            seconds_since(instance, s.last_call_wall_us),
            wall(s.last_call_wall_us),
        ]);
        row.extend(obstacles(&s, blockers));
        row.extend([
            int(s.wait.seq),
            s.wait.event.map_or(Value::Null, |e| int4(e.number())),
            opt_text(s.wait.event.map(|e| e.name())),
            opt_text(s.wait.event.map(|e| e.class().name())),
        ]);
        row.extend(wait(&s.wait));
        row.extend([
            text(if traces(TRACE_CALLS) { "ENABLED" } else { "DISABLED" }),
            text(if traces(TRACE_WAITS) { "TRUE" } else { "FALSE" }),
            text(if traces(TRACE_BINDS) { "TRUE" } else { "FALSE" }),
        ]);
        rows.push(row);
    }
}

/// The columns of [`WAIT`].
fn wait(w: &WaitView) -> [Value; 9] {
    let [p1, p2, p3] = w.event.map_or([""; 3], |event| event.p_labels());
    [
        text(p1),
        int(w.p[0]),
        text(p2),
        int(w.p[1]),
        text(p3),
        int(w.p[2]),
        state(w.waiting),
        int(w.wait_us),
        int(w.since_last_us),
    ]
}

fn session_wait(instance: &Arc<Instance>, rows: &mut Rows) {
    for s in instance.observer.sessions() {
        let Some(event) = s.wait.event else { continue };
        let named = [int4(s.sid), int(s.wait.seq), text(event.name()), text(event.class().name())];
        rows.push(named.into_iter().chain(wait(&s.wait)).collect());
    }
}
