//! Sessions: who they are, and what they do and wait for now.

use super::events::US_PER_CS;
use super::locks::open_xid;
use super::registry::{Blockers, Column, Make, columns, views};
use super::sql::sql_address;
use super::{int4, shown_name, wall};
use crate::Result;
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::session::Session;
use block::Xid;
use kernel::dict;
use kernel::gcs::BlockedBy;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{
    Blocking, SessionKind, SessionRow, SqlId, TRACE_BINDS, TRACE_CALLS, TRACE_PLANS_ALL,
    TRACE_PLANS_NEVER, TRACE_WAITS, WaitClass, WaitedFor,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The wait of a session, behind the names of its event.
const WAIT: &[Column] = columns! {
    wait_class_id: Int8, "The field's identifier of that class.";
    "wait_class#": Int4, "The field's number of that class.";
    p1text: Text, "What `p1` is.";
    p1: Int8, "First parameter of the wait.";
    p2text: Text, "What `p2` is.";
    p2: Int8, "Second parameter of the wait.";
    p3text: Text, "What `p3` is.";
    p3: Int8, "Third parameter of the wait.";
    p1raw: Text, "`p1` in hexadecimal.";
    p2raw: Text, "`p2` in hexadecimal.";
    p3raw: Text, "`p3` in hexadecimal.";
    state: Text, "`WAITING`, or `WAITED KNOWN TIME` if it works.";
    wait_time_micro: Int8, "Microseconds that this wait lasts, or the last one took.";
    time_since_last_wait_micro: Int8, "Microseconds since the last wait ended; 0 in a wait.";
    wait_time: Int8, "0 in a wait; else hundredths of a second that the last one took, -1 for less \
        than one.";
    seconds_in_wait: Int8, "Seconds since this wait, or the last one, began; of a wait for a lock, \
        which is many waits, since the first of them.";
};

views! {
    "v$session", Make::Blocked(session), "Sessions of clients and of the instance's own \
        processes." {
        saddr: Text, "Its name, as `v$transaction.ses_addr` has it.";
        sid: Int4, "The session, one number in the whole cluster.";
        "serial#": Int4, "Tells sessions apart that had the same `sid` one after the other.";
        audsid: Int8, "The session, as `userenv('sessionid')` has it.";
        paddr: Text, "Its process, as `v$process.addr` has it.";
        taddr: Text, "Its transaction, as `v$transaction.addr` has it; NULL: it has changed \
            nothing.";
        "user#": Int8, "Who has logged on, as `dba_users.user_id` has it.";
        username: Text, "The name of the same.";
        status: Text, "`ACTIVE` while it works for its client, else `INACTIVE`.";
        server: Text, "`DEDICATED`: it has a thread of its own; `SHARED`: it runs on those that \
            several share.";
        schemaname: Text, "Its current schema: the first that there is of those in which it looks \
            for names; NULL: there is none of them.";
        type: Text, "`USER` or `BACKGROUND`.";
        program: Text, "What the client calls itself; name of a process.";
        machine: Text, "Where the client is.";
        osuser: Text, "Whom its process runs as there; NULL: it has come over the network, where \
            nobody can tell.";
        process: Text, "The number of that process; of the instance's own the instance's.";
        terminal: Text, "Always NULL: the protocol has no word for it.";
        service_name: Text, "What it has connected to.";
        module: Text, "The part of the application that works, as the client says: by \
            `application_name` or `dbms_application_info`.";
        action: Text, "What it does there, as the client says.";
        client_info: Text, "What else the client says.";
        client_identifier: Text, "For whom the client works, as it says.";
        sql_text: Text, "The statement that runs, or the last one.";
        command: Int4, "The field's number of what the client's statement does: 3 query, 2 INSERT, 6 \
            UPDATE, 7 DELETE, 47 block; 0: another.";
        sql_id: Text, "Name of the statement that runs; in procedural code the one inside.";
        sql_address: Text, "The same, as `v$sql.address` has it.";
        sql_hash_value: Int8, "Hash value of the same.";
        sql_exec_start: Timestamptz, "Since when that runs.";
        prev_sql_id: Text, "Name of the client's statement before.";
        prev_sql_addr: Text, "The same, as `v$sql.address` has it.";
        prev_hash_value: Int8, "Hash value of the same.";
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
        "row_wait_obj#": Int8, "The object whose row it waits for.";
        "row_wait_file#": Int4, "File of that row.";
        "row_wait_block#": Int8, "Block of that row.";
        "row_wait_row#": Int4, "Number of that row in its block.";
        "seq#": Int8, "Number of the wait.";
        "event#": Int4, "Number of the event, as in `v$event_name`.";
        event: Text, "What it waits for, or has waited for last.";
        wait_class: Text, "Class of that event.";
    } + WAIT {
        sql_trace: Text, "`ENABLED` if its calls are traced.";
        sql_trace_waits: Text, "`TRUE` if its waits are traced.";
        sql_trace_binds: Text, "`TRUE` if its binds are traced.";
        sql_trace_plan_stats: Text, "After which executions of a statement its plan is traced: \
            `FIRST EXEC`, `ALL EXEC` or `NEVER`.";
        failover_type: Text, "`NONE`: its client begins anew on another instance by itself.";
        failover_method: Text, "`NONE`, for the same reason.";
        failed_over: Text, "`NO`.";
    }
    "v$session_wait_class", Make::Local(session_wait_class), "What each open session has waited \
        for, by class." {
        sid: Int4, "The session.";
        "serial#": Int4, "Tells sessions apart that had the same `sid` one after the other.";
        wait_class_id: Int8, "The field's identifier of the class.";
        "wait_class#": Int4, "The field's number of the class.";
        wait_class: Text, "The class.";
        total_waits: Int8, "Waits.";
        time_waited: Int8, "Hundredths of a second waited.";
    }
    "v$session_wait", Make::Local(session_wait), "What each session waits for, or has waited for \
        last." {
        sid: Int4, "The session.";
        "seq#": Int8, "Number of the wait.";
        event: Text, "The event.";
        wait_class: Text, "Its class.";
    } + WAIT {}
    "v$session_wait_history", Make::Local(wait_history), "The last ten waits of each session." {
        sid: Int4, "The session.";
        "seq#": Int4, "1: the newest wait, which may last.";
        "event#": Int4, "Number of the event, as in `v$event_name`.";
        event: Text, "The event.";
        p1text: Text, "What `p1` is.";
        p1: Int8, "First parameter of the wait.";
        p2text: Text, "What `p2` is.";
        p2: Int8, "Second parameter of the wait.";
        p3text: Text, "What `p3` is.";
        p3: Int8, "Third parameter of the wait.";
        wait_time: Int8, "Hundredths of a second that it took, or lasts.";
        wait_time_micro: Int8, "Microseconds of the same.";
        time_since_last_wait_micro: Int8, "Microseconds from the end of the wait before until it \
            began; NULL: that is not known any more.";
    }
}

/// A user's number; 0: of nobody.
pub(super) fn user_number(number: u32) -> Value {
    if number == 0 { Value::Null } else { int(number) }
}

/// The name of a session's process.
pub(super) fn process_address(sid: u32) -> Value {
    text(format!("{sid:016X}"))
}

/// The name of a transaction beside its [`Xid`]: that of `v$transaction`.
pub(super) fn transaction_address(xid: Xid) -> Value {
    raw(xid.to_u64())
}

fn raw(p: u64) -> Value {
    text(format!("{p:016X}"))
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

/// From `blocking_session_status` to `row_wait_row#`.
fn obstacles(s: &SessionRow, blockers: &Blockers) -> impl Iterator<Item = Value> {
    let otherwise = if s.wait.waiting { Blocking::NoHolder } else { Blocking::NotInWait };
    let by = blockers.get(&s.sid).copied();
    let by = by.unwrap_or(BlockedBy { next: otherwise, last: otherwise });
    let row = s.running.waited_for.filter(|_| s.wait.waiting);
    blocking(by.next).into_iter().chain(blocking(by.last)).chain(place(row))
}

impl Session {
    /// Of the schemas in a column, in which a session looks for names, leaves the first that there
    /// is: only the asker can read the dictionary.
    pub(in crate::catalog) async fn name_schemas(
        &mut self,
        column: &str,
        rows: &mut Rows,
    ) -> Result<()> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        let known = dict::schemas(&self.ctx, &txn).await?;
        let is_there =
            |name: &&str| known.find(name).is_some() || dict::RESERVED_SCHEMAS.contains(name);
        rows.fill(column, |row| {
            let first = row.text(column).split(',').find(is_there);
            first.map_or(Value::Null, shown_name)
        });
        Ok(())
    }
}

/// The client's process, as the operating system numbers it.
fn process(instance: &Instance, s: &SessionRow) -> Value {
    let number = match s.kind {
        SessionKind::User => s.about.process,
        SessionKind::Background => instance.observer.env().pid(),
    };
    opt_text(Some(number).filter(|number| *number > 0).map(|n| n.to_string()).as_deref())
}

/// From `service_name` to `client_identifier`.
fn told(s: &SessionRow) -> [Value; 5] {
    let a = &s.about;
    [&a.service, &a.module, &a.action, &a.client_info, &a.client_identifier].map(|word| opt(word))
}

/// From `sql_text` to `prev_hash_value`.
fn statement(instance: &Instance, s: &SessionRow) -> [Value; 9] {
    let env = instance.observer.env();
    let id = |id: Option<SqlId>| id.map_or(Value::Null, |id| text(id.to_string()));
    let since = s.running.sql.map(|_| {
        let ago = env.now().since(s.running.since);
        wall(env.wall_us().saturating_sub_unsigned(ago))
    });
    let address = |id: Option<SqlId>| id.map_or(Value::Null, sql_address);
    let hash = |id: Option<SqlId>| id.map_or(Value::Null, |id| int(id.hash_value()));
    [
        opt_text(s.sql_text.as_deref()),
        s.sql_text.as_deref().map_or(Value::Null, |text| int4(observe::command(text))),
        id(s.running.sql),
        address(s.running.sql),
        hash(s.running.sql),
        since.unwrap_or(Value::Null),
        id(s.running.previous),
        address(s.running.previous),
        hash(s.running.previous),
    ]
}

fn session(instance: &Arc<Instance>, blockers: &Blockers, rows: &mut Rows) {
    for s in instance.observer.sessions() {
        let traces = |bit: u8| s.trace_level & bit != 0;
        let mut row = vec![
            process_address(s.sid),
            int4(s.sid),
            int4(s.serial),
            int(s.sid),
            process_address(s.sid),
            open_xid(instance, &s).map_or(Value::Null, transaction_address),
            user_number(s.user_no),
            opt(&s.about.username),
            text(if s.active { "ACTIVE" } else { "INACTIVE" }),
            text(if s.thread.is_some() { "DEDICATED" } else { "SHARED" }),
            opt(&s.about.schemas),
            text(s.kind.name()),
            text(&*s.about.program),
            text(&*s.about.machine),
            opt(&s.about.os_user),
            process(instance, &s),
            Value::Null,
        ];
        row.extend(told(&s));
        row.extend(statement(instance, &s));
        row.extend([
            wall(s.logon_wall_us),
            int(s.last_call_us / 1_000_000),
            wall(instance.observer.env().wall_us().saturating_sub_unsigned(s.last_call_us)),
        ]);
        row.extend(obstacles(&s, blockers));
        row.extend([
            int(s.wait.seq),
            s.wait.event.map_or(Value::Null, |e| int4(e.number())),
            opt_text(s.wait.event.map(|e| e.name())),
            opt_text(s.wait.event.map(|e| e.class().name())),
        ]);
        row.extend(wait(instance, &s));
        row.extend([
            text(if traces(TRACE_CALLS) { "ENABLED" } else { "DISABLED" }),
            text(if traces(TRACE_WAITS) { "TRUE" } else { "FALSE" }),
            text(if traces(TRACE_BINDS) { "TRUE" } else { "FALSE" }),
            text(match (traces(TRACE_PLANS_ALL), traces(TRACE_PLANS_NEVER)) {
                (_, true) => "NEVER",
                (true, false) => "ALL EXEC",
                (false, false) => "FIRST EXEC",
            }),
            text("NONE"),
            text("NONE"),
            text("NO"),
        ]);
        rows.push(row);
    }
}

/// The columns of [`WAIT`].
fn wait(instance: &Instance, s: &SessionRow) -> [Value; 16] {
    let w = &s.wait;
    let lock_us = s.running.lock_since.map(|at| instance.core.env.now().since(at));
    let wait_us = lock_us.filter(|_| w.waiting).unwrap_or(w.wait_us + w.since_last_us);
    let last_cs = i64::try_from(w.wait_us / 10_000).unwrap_or(i64::MAX);
    let [p1, p2, p3] = w.event.map_or([""; 3], |event| event.p_labels());
    let class = w.event.map(|event| event.class());
    [
        class.map_or(Value::Null, |class| int(class.id())),
        class.map_or(Value::Null, |class| int4(class.number())),
        text(p1),
        int(w.p[0]),
        text(p2),
        int(w.p[1]),
        text(p3),
        int(w.p[2]),
        raw(w.p[0]),
        raw(w.p[1]),
        raw(w.p[2]),
        state(w.waiting),
        int(w.wait_us),
        int(w.since_last_us),
        Value::Int8(match (w.waiting, last_cs) {
            (true, _) => 0,
            (false, 0) => -1,
            (false, cs) => cs,
        }),
        int(wait_us / 1_000_000),
    ]
}

fn session_wait_class(instance: &Arc<Instance>, rows: &mut Rows) {
    let mut sums: BTreeMap<(u32, WaitClass), (u64, u64)> = BTreeMap::new();
    for e in instance.observer.session_events() {
        let (waits, us) = sums.entry((e.sid, e.event.class())).or_default();
        *waits += e.totals.waits;
        *us += e.totals.time_us;
    }
    for ((sid, class), (waits, us)) in sums {
        // One that has ended since it was asked has no number any more.
        let Some(state) = instance.observer.session(sid) else { continue };
        rows.push(vec![
            int4(sid),
            int4(state.serial()),
            int(class.id()),
            int4(class.number()),
            text(class.name()),
            int(waits),
            int(us / US_PER_CS),
        ]);
    }
}

fn session_wait(instance: &Arc<Instance>, rows: &mut Rows) {
    for s in instance.observer.sessions() {
        let Some(event) = s.wait.event else { continue };
        let named = [int4(s.sid), int(s.wait.seq), text(event.name()), text(event.class().name())];
        rows.push(named.into_iter().chain(wait(instance, &s)).collect());
    }
}

fn wait_history(instance: &Arc<Instance>, rows: &mut Rows) {
    let now = instance.observer.env().now();
    for state in instance.observer.session_states() {
        for (at, wait) in state.past_waits(now).into_iter().enumerate() {
            let mut row = vec![
                int4(state.sid()),
                int4(at + 1),
                int4(wait.event.number()),
                text(wait.event.name()),
            ];
            for (label, value) in wait.event.p_labels().into_iter().zip(wait.p) {
                row.extend([text(label), int(value)]);
            }
            row.extend([
                int(wait.us / US_PER_CS),
                int(wait.us),
                wait.since_last_us.map_or(Value::Null, int),
            ]);
            rows.push(row);
        }
    }
}
