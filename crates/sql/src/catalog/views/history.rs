//! What sessions did, second by second.

use super::registry::{Make, views};
use super::session::{blocking, place, port, routine, user_number, word_hash};
use super::{int4, wall};
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use block::BLOCK_BYTES;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{Blocking, Sample, SampledState, SqlId, TextFacts};
use std::sync::Arc;

views! {
    "v$active_session_history", Make::Local(active_session_history), "Sessions that worked or \
        waited for something that counts, looked at once a second. The newest samples are kept, as \
        many as `_ash_size` holds." {
        sample_id: Int8, "Number of the moment on this instance.";
        sample_time: Timestamptz, "The moment.";
        is_awr_sample: Text, "`Y`: of one in ten moments, whose samples snapshots keep; else `N`.";
        session_id: Int4, "The session.";
        "session_serial#": Int4, "Tells sessions apart that had the same `session_id`.";
        session_type: Text, "`FOREGROUND`: a client's; `BACKGROUND`: a process of the instance.";
        user_id: Int8, "Who has logged on, as `dba_users.user_id` has it.";
        username: Text, "The name of the same.";
        sql_id: Text, "The statement at hand; in procedural code the one inside.";
        sql_child_number: Int4, "Which of its rows in `v$sql`; NULL: it was being parsed.";
        sql_opcode: Int4, "The field's number of its command, as `v$sqlcommand` has it; 0: there is \
            no statement, or no number for it.";
        sql_opname: Text, "Name of that command.";
        force_matching_signature: Int8, "What it has in common with others, as in `v$sql`; 0: there \
            is no statement, or its text is not known any more.";
        top_level_sql_id: Text, "The client's statement that it belongs to.";
        top_level_sql_opcode: Int4, "The field's number of the command of that.";
        sql_plan_hash_value: Int8, "Number of its plan; 0: it has none, or one for each execution.";
        sql_exec_id: Int8, "Number of the call on it, as `v$session.sql_exec_id` has it.";
        sql_exec_start: Timestamptz, "Since when it ran.";
        plsql_entry_object_id: Int8, "The outermost function or procedure that ran, as \
            `pg_proc.oid` has it; NULL: none did.";
        plsql_entry_subprogram_id: Int4, "`1`: it has no parts that can be called; NULL: none ran.";
        plsql_object_id: Int8, "The innermost one that ran.";
        plsql_subprogram_id: Int4, "As `plsql_entry_subprogram_id`.";
        session_state: Text, "`ON CPU`: it did not wait; `WAITING`.";
        event: Text, "What it waited for; a placeholder is replaced once the outcome is known.";
        "event#": Int4, "Number of that event.";
        event_id: Int8, "Number of that event that stays, as in `v$event_name`.";
        wait_class_id: Int8, "The field's identifier of its class.";
        wait_class: Text, "Class of that event.";
        "seq#": Int8, "Number of the session's wait, this one or the last.";
        p1text: Text, "What `p1` is.";
        p1: Int8, "First parameter of that wait.";
        p2text: Text, "What `p2` is.";
        p2: Int8, "Second parameter of that wait.";
        p3text: Text, "What `p3` is.";
        p3: Int8, "Third parameter of that wait.";
        wait_time: Int8, "0: it waited; else microseconds that its last wait before had taken, at \
            least 1.";
        time_waited: Int8, "Microseconds that the whole wait took, in the last sample of it; 0 in \
            others, and up to a second after its end.";
        blocking_session_status: Text, "`VALID`: another session stood in its way; `NO HOLDER`: \
            none did; `UNKNOWN`: the instance that knows did not answer; `NOT IN WAIT`.";
        blocking_inst_id: Int4, "The instance of the session that stood in its way.";
        blocking_session: Int4, "That session.";
        "blocking_session_serial#": Int4, "Tells it apart from others with that number.";
        "current_obj#": Int8, "The object whose row or block it waited for, as far as it is known.";
        "current_file#": Int4, "File of that block.";
        "current_block#": Int8, "That block.";
        "current_row#": Int4, "Number of that row in its block.";
        "remote_instance#": Int4, "The instance that the block came from which it waited for, in \
            the last sample of that wait; NULL in others, and if none came from an instance.";
        xid: Text, "The transaction that it worked in, if that had changed something.";
        in_parse: Text, "The same as `in_hard_parse`: the look for a plan that is there is not told \
            apart.";
        in_hard_parse: Text, "`Y` while the statement was being planned.";
        in_sql_execution: Text, "`Y` while the statement was being executed or its rows fetched.";
        in_plsql_execution: Text, "`Y` while a function, a procedure or a block ran, be it at a \
            statement of its code.";
        service_hash: Int8, "A number made from `service_name`, as `v$services.name_hash` has it.";
        service_name: Text, "What it had connected to.";
        program: Text, "What the client calls itself; name of a process.";
        module: Text, "The part of the application that worked, as the client says.";
        action: Text, "What it did there, as the client says.";
        client_id: Text, "For whom the client worked, as it says.";
        machine: Text, "Where the client is.";
        port: Int4, "Its end of the connection over the network; NULL: it has not come over one.";
        tm_delta_time: Int8, "Microseconds since the session was sampled last, or since it began: \
            in these it has done what the columns below say.";
        tm_delta_cpu_time: Int8, "Microseconds of `DB CPU`; NULL: a process, which shares threads.";
        tm_delta_db_time: Int8, "Microseconds of `DB time`; NULL: a process.";
        delta_time: Int8, "The same as `tm_delta_time`.";
        delta_read_io_requests: Int8, "Requests to read blocks of data files.";
        delta_write_io_requests: Int8, "Requests to write such.";
        delta_read_io_bytes: Int8, "Bytes of the blocks that it has read.";
        delta_write_io_bytes: Int8, "Bytes of the blocks that it has written.";
        pga_allocated: Int8, "Bytes of memory that the work areas of its statements held.";
        temp_space_allocated: Int8, "Bytes of temporary files that its statements had.";
    }
}

fn opt(word: &str) -> Value {
    opt_text(Some(word).filter(|word| !word.is_empty()))
}

fn name(id: Option<SqlId>) -> Value {
    id.map_or(Value::Null, |id| text(id.to_string()))
}

fn active_session_history(instance: &Arc<Instance>, rows: &mut Rows) {
    for sample in instance.observer.history.samples() {
        let mut row = Vec::with_capacity(70);
        row.extend(who(&sample));
        row.extend(runs(&sample));
        row.extend(waited(&sample));
        let [status, instance_no, sid] = blocking(sample.blocking);
        let serial = match sample.blocking {
            Blocking::By { serial, .. } => int4(serial),
            _ => Value::Null,
        };
        row.extend([status, instance_no, sid, serial]);
        row.extend(place(sample.current));
        row.extend(described(&sample));
        row.extend(done(&sample));
        rows.push(row);
    }
}

/// From `sample_id` to `username`.
fn who(s: &Sample) -> [Value; 8] {
    let foreground = s.kind == observe::SessionKind::User;
    [
        int(s.id),
        wall(s.wall_us),
        text(if s.id.is_multiple_of(10) { "Y" } else { "N" }),
        int4(s.sid),
        int4(s.serial),
        text(if foreground { "FOREGROUND" } else { "BACKGROUND" }),
        user_number(s.user_no),
        opt(&s.about.username),
    ]
}

/// From `sql_id` to `plsql_subprogram_id`.
fn runs(s: &Sample) -> [Value; 14] {
    let TextFacts { command, signature } = s.text;
    let [entry, entry_part] = routine(s.entry_code);
    let [inner, inner_part] = routine(s.code);
    [
        name(s.sql),
        s.child.map_or(Value::Null, int4),
        int4(command),
        opt_text(observe::command_name(command)),
        int(signature),
        name(s.top),
        int4(s.top_text.command),
        int(s.plan_hash),
        s.exec.map_or(Value::Null, int),
        s.exec_start_wall_us.map_or(Value::Null, wall),
        entry,
        entry_part,
        inner,
        inner_part,
    ]
}

/// From `session_state` to `time_waited`.
fn waited(s: &Sample) -> [Value; 15] {
    let labels = s.event.map_or([""; 3], |event| event.p_labels());
    // Those of a wait that is over say nothing of what it does now.
    let parameter = |at: usize| s.event.map_or(Value::Null, |_| int(s.p[at]));
    let waiting = s.state == SampledState::Waiting;
    [
        text(if waiting { "WAITING" } else { "ON CPU" }),
        opt_text(s.event.map(|event| event.name())),
        s.event.map_or(Value::Null, |event| int4(event.number())),
        s.event.map_or(Value::Null, |event| int(event.id())),
        s.event.map_or(Value::Null, |event| int(event.class().id())),
        opt_text(s.event.map(|event| event.class().name())),
        int(s.seq),
        opt(labels[0]),
        parameter(0),
        opt(labels[1]),
        parameter(1),
        opt(labels[2]),
        parameter(2),
        int(if waiting { 0 } else { s.last_wait_us.max(1) }),
        int(s.time_waited_us),
    ]
}

/// The field's number of a block of code.
const BLOCK: u32 = 47;

/// From `remote_instance#` to `port`.
fn described(s: &Sample) -> [Value; 14] {
    let xid = Some(s.xid).filter(|xid| *xid > 0).map(block::Xid::from_u64);
    let flag = |yes: bool| text(if yes { "Y" } else { "N" });
    let in_code = s.code.is_some() || s.top_text.command == BLOCK;
    [
        s.served_by.map_or(Value::Null, int4),
        xid.map_or(Value::Null, |xid| text(xid.to_string())),
        flag(s.parsing),
        flag(s.parsing),
        flag(s.sql.is_some() && !s.parsing),
        flag(in_code),
        word_hash(&s.about.service),
        opt(&s.about.service),
        opt(&s.about.program),
        opt(&s.about.module),
        opt(&s.about.action),
        opt(&s.about.client_identifier),
        opt(&s.about.machine),
        port(&s.about.machine),
    ]
}

/// From `tm_delta_time` to `temp_space_allocated`.
fn done(s: &Sample) -> [Value; 10] {
    let since = &s.since;
    let calls_us = |at: usize| since.calls.map_or(Value::Null, |calls_us| int(calls_us[at]));
    let bytes = |blocks: u64| int(blocks.saturating_mul(BLOCK_BYTES as u64));
    let [reads, writes] = since.requests;
    let [read, written] = since.blocks;
    [
        int(since.us),
        calls_us(1),
        calls_us(0),
        int(since.us),
        int(reads),
        int(writes),
        bytes(read),
        bytes(written),
        int(s.held_bytes),
        int(s.temp_bytes),
    ]
}
