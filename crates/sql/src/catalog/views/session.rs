//! Sessions: who they are, and what they do and wait for now.

use super::registry::{Make, views};
use super::{int4, wall};
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{TRACE_BINDS, TRACE_CALLS, TRACE_WAITS};
use std::sync::Arc;

views! {
    "v$session", Make::Local(session), "Sessions of clients and of the instance's own processes." {
        sid: Int4, "The session, one number in the whole cluster.";
        serial: Int4, "Tells sessions apart that had the same `sid` one after the other.";
        username: Text, "Who has logged on.";
        status: Text, "`ACTIVE` while it works for its client, else `INACTIVE`.";
        type: Text, "`USER` or `BACKGROUND`.";
        program: Text, "What the client calls itself; name of a process.";
        machine: Text, "Where the client is.";
        sql_text: Text, "The statement that runs, or the last one.";
        logon_time: Timestamptz, "Since when it is there.";
        last_call_et: Int8, "Seconds that it has been active, or not.";
        last_call_time: Timestamptz, "Since when it has been active, or not.";
        seq: Int8, "Number of the wait.";
        event: Text, "What it waits for, or has waited for last.";
        wait_class: Text, "Class of that event.";
        p1text: Text, "What `p1` is.";
        p1: Int8, "First parameter of the wait.";
        p2text: Text, "What `p2` is.";
        p2: Int8, "Second parameter of the wait.";
        p3text: Text, "What `p3` is.";
        p3: Int8, "Third parameter of the wait.";
        state: Text, "`WAITING`, or `WAITED KNOWN TIME` if it works.";
        wait_time_micro: Int8, "Microseconds that this wait lasts, or the last one took.";
        time_since_last_wait_micro: Int8, "Microseconds since the last wait ended; 0 in a wait.";
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
        p1text: Text, "What `p1` is.";
        p1: Int8, "First parameter of the wait.";
        p2text: Text, "What `p2` is.";
        p2: Int8, "Second parameter of the wait.";
        p3text: Text, "What `p3` is.";
        p3: Int8, "Third parameter of the wait.";
        state: Text, "`WAITING`, or `WAITED KNOWN TIME` if it works.";
        wait_time_micro: Int8, "Microseconds that this wait lasts, or the last one took.";
        time_since_last_wait_micro: Int8, "Microseconds since the last wait ended; 0 in a wait.";
    }
}

fn seconds_since(instance: &Instance, wall_us: i64) -> Value {
    let now = instance.observer.env().wall_us();
    int((now - wall_us).max(0) / 1_000_000)
}

fn state(waiting: bool) -> Value {
    text(if waiting { "WAITING" } else { "WAITED KNOWN TIME" })
}

fn session(instance: &Arc<Instance>, rows: &mut Rows) {
    for s in instance.observer.sessions() {
        let traces = |bit: u8| s.trace_level & bit != 0;
        let labels = s.wait.event.map_or([""; 3], |e| e.p_labels());
        rows.push(vec![
            int4(s.sid),
            int4(s.serial),
            opt_text(Some(&*s.username).filter(|name| !name.is_empty())),
            text(if s.active { "ACTIVE" } else { "INACTIVE" }),
            text(s.kind.name()),
            text(&*s.program),
            text(&*s.machine),
            opt_text(s.sql_text.as_deref()),
            wall(s.logon_wall_us),
            seconds_since(instance, s.last_call_wall_us),
            wall(s.last_call_wall_us),
            int(s.wait.seq),
            opt_text(s.wait.event.map(|e| e.name())),
            opt_text(s.wait.event.map(|e| e.class().name())),
            text(labels[0]),
            int(s.wait.p[0]),
            text(labels[1]),
            int(s.wait.p[1]),
            text(labels[2]),
            int(s.wait.p[2]),
            state(s.wait.waiting),
            int(s.wait.wait_us),
            int(s.wait.since_last_us),
            text(if traces(TRACE_CALLS) { "ENABLED" } else { "DISABLED" }),
            text(if traces(TRACE_WAITS) { "TRUE" } else { "FALSE" }),
            text(if traces(TRACE_BINDS) { "TRUE" } else { "FALSE" }),
        ]);
    }
}

fn session_wait(instance: &Arc<Instance>, rows: &mut Rows) {
    for s in instance.observer.sessions() {
        let Some(event) = s.wait.event else { continue };
        let labels = event.p_labels();
        rows.push(vec![
            int4(s.sid),
            int(s.wait.seq),
            text(event.name()),
            text(event.class().name()),
            text(labels[0]),
            int(s.wait.p[0]),
            text(labels[1]),
            int(s.wait.p[1]),
            text(labels[2]),
            int(s.wait.p[2]),
            state(s.wait.waiting),
            int(s.wait.wait_us),
            int(s.wait.since_last_us),
        ]);
    }
}
