//! Sessions: who they are, and what they do and wait for now.

use super::events::US_PER_CS;
use super::locks::{lock_wait, open_xid};
use super::registry::{Blockers, Column, Make, columns, views};
use super::sql::sql_address;
use super::{int4, shown_name, wall};
use crate::Result;
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::catalog::schema_oid;
use crate::session::Session;
use block::Xid;
use env::Micros;
use kernel::dict;
use kernel::gcs::BlockedBy;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{
    Blocking, SessionKind, SessionRow, SqlId, TRACE_BINDS, TRACE_CALLS, TRACE_PLANS_ALL,
    TRACE_PLANS_NEVER, TRACE_WAITS, WaitClass, WaitedFor,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
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
    state: Text, "`WAITING`; if it works, `WAITED SHORT TIME` where the last wait took less than a \
        hundredth of a second, else `WAITED KNOWN TIME`.";
    wait_time_micro: Int8, "Microseconds that this wait lasts, or the last one took.";
    time_remaining_micro: Int8, "Microseconds until `statement_timeout` or `lock_timeout` ends this \
        wait; -1: neither does; NULL: it does not wait.";
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
        lockwait: Text, "The lock that it waits for, as `v$lock.kaddr` has it; NULL: it waits for \
            none.";
        "user#": Int8, "Who has logged on, as `dba_users.user_id` has it.";
        username: Text, "The name of the same.";
        status: Text, "`ACTIVE` while it works for its client, else `INACTIVE`.";
        server: Text, "`DEDICATED`: it has a thread of its own; `SHARED`: it runs on those that \
            several share.";
        "schema#": Int8, "Number of its current schema, as `pg_namespace.oid` has it: it is not its \
            user's, for schemas are not users here.";
        schemaname: Text, "Its current schema: the first that there is of those in which it looks \
            for names; NULL: there is none of them.";
        type: Text, "`USER` or `BACKGROUND`.";
        program: Text, "What the client calls itself; name of a process.";
        machine: Text, "Where the client is.";
        port: Int4, "Its end of the connection over the network; NULL: it has not come over one.";
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
        module_hash: Int8, "A number made from `module`; 0: there is none.";
        action_hash: Int8, "A number made from `action`; 0: there is none.";
        creator_addr: Text, "The process that has made it: its own, as `paddr`.";
        "creator_serial#": Int4, "The `serial#` of that.";
        sql_text: Text, "The statement that runs, or the last one.";
        command: Int4, "The field's number of what the client's statement does: 3 query, 2 INSERT, 6 \
            UPDATE, 7 DELETE, 47 block; 0: another.";
        sql_id: Text, "Name of the statement that runs; in procedural code the one inside.";
        sql_child_number: Int4, "Which of its rows in `v$sql`; NULL: it is being parsed.";
        sql_address: Text, "The same, as `v$sql.address` has it.";
        sql_hash_value: Int8, "Hash value of the same.";
        sql_exec_start: Timestamptz, "Since when that runs.";
        sql_exec_id: Int8, "Number of this call on the row of `v$sql`, an execution or a fetch of \
            further rows: no other call on it has the same.";
        prev_sql_id: Text, "Name of the client's statement before.";
        prev_child_number: Int4, "Which of its rows in `v$sql`.";
        prev_sql_addr: Text, "The same, as `v$sql.address` has it.";
        prev_hash_value: Int8, "Hash value of the same.";
        prev_exec_start: Timestamptz, "When the last call on that began.";
        prev_exec_id: Int8, "Number of that call, as `sql_exec_id`.";
        plsql_entry_object_id: Int8, "The outermost function or procedure that runs, as \
            `pg_proc.oid` has it; NULL: none does.";
        plsql_entry_subprogram_id: Int4, "`1`: it has no parts that can be called; NULL: none runs.";
        plsql_object_id: Int8, "The innermost one that runs.";
        plsql_subprogram_id: Int4, "As `plsql_entry_subprogram_id`.";
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
        resource_consumer_group: Text, "Always NULL: no session has less of the machine than others.";
        pdml_enabled: Text, "`NO`: what changes rows is done by the session itself.";
        pdml_status: Text, "`DISABLED`, for the same reason.";
        pddl_status: Text, "`DISABLED`: what defines objects is done by the session itself.";
        pq_status: Text, "`ENABLED`: several tasks may do a query where its plan says so.";
        current_queue_duration: Int8, "Always 0: no session is queued.";
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

/// The unit of `wait_time`, µs.
const HUNDREDTH_US: u64 = 10_000;

fn state(waiting: bool, wait_us: u64) -> Value {
    text(match (waiting, wait_us < HUNDREDTH_US) {
        (true, _) => "WAITING",
        (false, true) => "WAITED SHORT TIME",
        (false, false) => "WAITED KNOWN TIME",
    })
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
    /// is, and puts its number into the other column: only the asker can read the dictionary.
    pub(in crate::catalog) async fn name_schemas(
        &mut self,
        [column, number]: [&str; 2],
        rows: &mut Rows,
    ) -> Result<()> {
        self.begin_if_needed();
        let txn = self.transaction()?;
        let known = dict::schemas(&self.ctx, &txn).await?;
        let is_there =
            |name: &&str| known.find(name).is_some() || dict::RESERVED_SCHEMAS.contains(name);
        rows.fill(number, |row| {
            let first = row.text(column).split(',').find(is_there);
            first.map_or(Value::Null, |name| Value::Int8(schema_oid(&known, name)))
        });
        rows.fill(column, |row| {
            let first = row.text(column).split(',').find(is_there);
            first.map_or(Value::Null, shown_name)
        });
        Ok(())
    }
}

/// The client's process, as the operating system numbers it.
pub(super) fn process(instance: &Instance, s: &SessionRow) -> Value {
    let number = match s.kind {
        SessionKind::User => s.about.process,
        SessionKind::Background => instance.observer.env().pid(),
    };
    opt_text(Some(number).filter(|number| *number > 0).map(|n| n.to_string()).as_deref())
}

/// A number made from a word; 0: there is none.
pub(super) fn word_hash(word: &str) -> Value {
    int(if word.is_empty() { 0 } else { SqlId::of(word).hash_value() })
}

/// The client's end of a connection over the network.
pub(super) fn port(machine: &str) -> Value {
    machine.parse::<SocketAddr>().map_or(Value::Null, |address| int4(address.port()))
}

/// From `service_name` to `client_identifier`.
fn told(s: &SessionRow) -> [Value; 5] {
    let a = &s.about;
    [&a.service, &a.module, &a.action, &a.client_info, &a.client_identifier].map(|word| opt(word))
}

/// A routine that runs, and which part of it: it is one subprogram, its own.
pub(super) fn routine(obj: Option<u32>) -> [Value; 2] {
    [obj.map_or(Value::Null, int), obj.map_or(Value::Null, |_| Value::Int4(1))]
}

/// From `sql_text` to `plsql_subprogram_id`.
fn statement(instance: &Instance, s: &SessionRow) -> [Value; 18] {
    let env = instance.observer.env();
    let id = |id: Option<SqlId>| id.map_or(Value::Null, |id| text(id.to_string()));
    let at = |moment: Micros| {
        let ago = env.now().since(moment);
        wall(env.wall_us().saturating_sub_unsigned(ago))
    };
    let r = &s.running;
    let [since, before] = [r.sql.map(|_| r.since), r.previous.map(|_| r.previous_since)]
        .map(|moment| moment.map_or(Value::Null, at));
    let number = |number: Option<u32>| number.map_or(Value::Null, int4);
    let exec = |exec: Option<u64>| exec.map_or(Value::Null, int);
    let [[entry, entry_part], [inner, inner_part]] = [r.entry_code, r.code].map(routine);
    let address = |id: Option<SqlId>| id.map_or(Value::Null, sql_address);
    let hash = |id: Option<SqlId>| id.map_or(Value::Null, |id| int(id.hash_value()));
    [
        opt_text(s.sql_text.as_deref()),
        s.sql_text.as_deref().map_or(Value::Null, |text| int4(observe::command(text))),
        id(r.sql),
        number(r.child),
        address(r.sql),
        hash(r.sql),
        since,
        exec(r.exec),
        id(r.previous),
        number(r.previous_child),
        address(r.previous),
        hash(r.previous),
        before,
        exec(r.previous_exec),
        entry,
        entry_part,
        inner,
        inner_part,
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
            lock_wait(&s),
            user_number(s.user_no),
            opt(&s.about.username),
            text(if s.active { "ACTIVE" } else { "INACTIVE" }),
            text(if s.thread.is_some() { "DEDICATED" } else { "SHARED" }),
            // The asker fills it in.
            Value::Null,
            opt(&s.about.schemas),
            text(s.kind.name()),
            text(&*s.about.program),
            text(&*s.about.machine),
            port(&s.about.machine),
            opt(&s.about.os_user),
            process(instance, &s),
            Value::Null,
        ];
        row.extend(told(&s));
        row.extend([
            word_hash(&s.about.module),
            word_hash(&s.about.action),
            process_address(s.sid),
            int4(s.serial),
        ]);
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
            Value::Null,
            text("NO"),
            text("DISABLED"),
            text("DISABLED"),
            text("ENABLED"),
            int(0),
        ]);
        rows.push(row);
    }
}

/// How long a limit that the session has set leaves it to wait.
fn time_remaining(instance: &Instance, s: &SessionRow) -> Value {
    if !s.wait.waiting {
        return Value::Null;
    }
    // The limit of a statement that has ended is none.
    let deadline = s.deadline.filter(|_| s.active);
    let of_lock = s.running.lock_since.zip(s.lock_limit_us);
    remaining_us(instance.core.env.now(), deadline, of_lock).map_or(Value::Int8(-1), int)
}

/// Until the first of two limits: a moment, and a time since another moment.
fn remaining_us(now: Micros, end: Option<Micros>, of_lock: Option<(Micros, u64)>) -> Option<u64> {
    let of_lock = of_lock.map(|(since, limit_us)| Micros(since.0.saturating_add(limit_us)));
    end.into_iter().chain(of_lock).min().map(|first| first.since(now))
}

/// The columns of [`WAIT`].
fn wait(instance: &Instance, s: &SessionRow) -> [Value; 17] {
    let w = &s.wait;
    let lock_us = s.running.lock_since.map(|at| instance.core.env.now().since(at));
    let wait_us = lock_us.filter(|_| w.waiting).unwrap_or(w.wait_us + w.since_last_us);
    let last_cs = i64::try_from(w.wait_us / HUNDREDTH_US).unwrap_or(i64::MAX);
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
        state(w.waiting, w.wait_us),
        int(w.wait_us),
        time_remaining(instance, s),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_limit_ends_a_wait() {
        let now = Micros(1_000);
        assert_eq!(remaining_us(now, None, None), None);
        assert_eq!(remaining_us(now, Some(Micros(1_700)), None), Some(700));
        assert_eq!(remaining_us(now, None, Some((Micros(900), 300))), Some(200));
        assert_eq!(remaining_us(now, Some(Micros(1_700)), Some((Micros(900), 300))), Some(200));
        assert_eq!(remaining_us(now, Some(Micros(1_100)), Some((Micros(900), 300))), Some(100));
        assert_eq!(remaining_us(now, Some(Micros(400)), None), Some(0), "it is over");
    }

    #[test]
    fn a_port_is_that_of_an_address() {
        assert_eq!(port("127.0.0.1:4711"), Value::Int4(4711));
        assert_eq!(port("[::1]:4712"), Value::Int4(4712));
        assert_eq!(port("[local]"), Value::Null);
        assert_eq!(port(""), Value::Null);
    }
}
