//! Processes, which here are threads, and the time that clients' calls take.

use super::int4;
use super::registry::{Make, views};
use super::session::process_address;
use crate::catalog::rows::Shape::{Float8, Int4, Int8, Text};
use crate::catalog::rows::{Rows, int, opt_text, text};
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{SessionKind, Stat};
use std::sync::Arc;

views! {
    "v$process", Make::Local(processes), "What runs in the instance: a thread for each client, and \
        the instance's own tasks, which share some." {
        addr: Text, "Its name, as `v$session.paddr` has it.";
        pid: Int4, "Its number, that of its session.";
        spid: Text, "The operating system's thread; that of the whole process for what shares \
            threads.";
        pname: Text, "Name of one of the instance's own; NULL for a client's.";
        "serial#": Int4, "Tells those apart that had the same `pid`.";
        program: Text, "What the client calls itself; name of a process.";
        tracefile: Text, "Where its calls are traced, or would be.";
        background: Text, "`1`: one of the instance's own.";
        latchwait: Text, "Address of the latch that it sleeps for.";
        cpu_used: Int8, "Microseconds of processor time of its thread; NULL for what shares some.";
        pga_used_mem: Int8, "Bytes that the work areas of its session's statements hold; what else \
            a process has in memory is not told.";
        pga_alloc_mem: Int8, "The same: what they do not hold is given back at once.";
        pga_freeable_mem: Int8, "Always NULL, for the same reason.";
        pga_max_mem: Int8, "The most that they have held at once.";
    }
    "v$resource_limit", Make::Local(resource_limit), "What the instance has in use of what may have \
        a limit." {
        resource_name: Text, "`processes`: of `v$process`; `sessions`: of clients; `transactions`: \
            that have changed something; `dml_locks`: on tables.";
        current_utilization: Int8, "How many there are now.";
        max_utilization: Int8, "The most that there were at once since the instance's start; NULL: \
            that is not counted.";
        initial_allocation: Text, "The same as `limit_value`.";
        limit_value: Text, "How many there may be; `UNLIMITED`: as many as memory holds.";
    }
    "v$osstat", Make::Local(osstat), "The machine that the instance runs on, all its processes \
        together." {
        stat_name: Text, "What is counted: `NUM_CPUS`, `IDLE_TIME`, `BUSY_TIME`, `LOAD` ..";
        value: Float8, "Times are hundredths of a second of all processors since the machine's start.";
        osstat_id: Int4, "The field's number of the same.";
        cumulative: Text, "`YES`: it grows from the machine's start on.";
    }
    "v$sys_time_model", Make::Local(sys_time_model), "Where the time of all clients' sessions since \
        the instance's start has gone." {
        stat_id: Int8, "The field's number of the row.";
        stat_name: Text, "What took the time: each is part of `DB time`, but for those of the \
            background.";
        value: Int8, "Microseconds.";
    }
    "v$sess_time_model", Make::Local(sess_time_model), "Where the time of each client's session has \
        gone." {
        sid: Int4, "The session.";
        stat_id: Int8, "The field's number of the row.";
        stat_name: Text, "As in `v$sys_time_model`.";
        value: Int8, "Microseconds.";
    }
}

fn processes(instance: &Arc<Instance>, rows: &mut Rows) {
    let env = instance.observer.env();
    let files = instance.observer.trace_files();
    let now = env.now();
    for state in instance.observer.session_states() {
        let about = state.about();
        let background = state.kind() == SessionKind::Background;
        let wait = state.wait_view(now);
        let latch = wait.event.filter(|event| wait.waiting && event.name().starts_with("latch"));
        // Where that of a session would be, if it is not traced.
        let name = state.trace_name().or_else(|| {
            let files = files.filter(|_| !background)?;
            Some(format!("{}_ora_{}.trc", files.prefix(), state.sid()))
        });
        let held = state.held_bytes();
        let trace = files.zip(name).map(|(files, name)| files.path(&name));
        rows.push(vec![
            process_address(state.sid()),
            int4(state.sid()),
            text(state.thread().unwrap_or_else(|| env.pid()).to_string()),
            if background { text(&*about.program) } else { Value::Null },
            int4(state.serial()),
            text(&*about.program),
            opt_text(trace.as_deref()),
            opt_text(background.then_some("1")),
            latch.map_or(Value::Null, |_| text(format!("{:016X}", wait.p[0]))),
            state.thread_cpu_us(env).map_or(Value::Null, int),
            int(held),
            int(held),
            Value::Null,
            // It may have grown since.
            int(state.most_held_bytes().max(held)),
        ]);
    }
}

fn resource_limit(instance: &Arc<Instance>, rows: &mut Rows) {
    let core = &instance.core;
    let (now, kept_us) = (core.env.now(), core.undo_retention_us());
    let transactions: usize =
        core.all_segments().iter().map(|segment| segment.report(now, kept_us).active).sum();
    let locks = core.table_locks.rows();
    let dml = locks.iter().filter(|row| row.held.is_some() && row.resource.kind == *b"TM");
    let counts = instance.observer.session_counts();
    let most = instance.params.max_connections();
    // The instance's own do not grow in number with those of clients.
    let processes = (most + counts.all.saturating_sub(counts.users)).to_string();
    let sessions = most.to_string();
    for (name, used, max, limit) in [
        ("processes", counts.all, Some(counts.all_most), &*processes),
        ("sessions", counts.users, Some(counts.users_most), &*sessions),
        ("transactions", transactions, None, "UNLIMITED"),
        ("dml_locks", dml.count(), None, "UNLIMITED"),
    ] {
        let max = max.map_or(Value::Null, int);
        rows.push(vec![text(name), int(used), max, text(limit), text(limit)]);
    }
}

/// The rows of a session, in their order, with the field's numbers.
const MODEL: [(Stat, &str, u32); 6] = [
    (Stat::DbTime, "DB time", 3_649_082_374),
    (Stat::CpuUsed, "DB CPU", 2_748_282_437),
    (Stat::SqlExecuteTime, "sql execute elapsed time", 2_821_698_184),
    (Stat::HardParseTime, "hard parse elapsed time", 372_226_525),
    (Stat::SequenceLoadTime, "sequence load elapsed time", 4_127_043_053),
    (Stat::ConnectionTime, "connection management call elapsed time", 1_990_024_365),
];
/// The number of `background cpu time`.
const BACKGROUND_CPU: u32 = 2_451_517_896;

/// The field's numbers of what is told of a machine.
const OSSTAT_IDS: [(&str, i32); 13] = [
    ("NUM_CPUS", 0),
    ("IDLE_TIME", 1),
    ("BUSY_TIME", 2),
    ("USER_TIME", 3),
    ("SYS_TIME", 4),
    ("IOWAIT_TIME", 5),
    ("NICE_TIME", 6),
    ("LOAD", 15),
    ("NUM_CPU_CORES", 16),
    ("NUM_CPU_SOCKETS", 17),
    ("PHYSICAL_MEMORY_BYTES", 1008),
    ("VM_IN_BYTES", 1009),
    ("VM_OUT_BYTES", 1010),
];

fn osstat(instance: &Arc<Instance>, rows: &mut Rows) {
    let figures = instance.observer.env().machine_figures();
    for figure in figures {
        let id = OSSTAT_IDS.iter().find(|(name, _)| *name == figure.name);
        rows.push(vec![
            text(figure.name),
            Value::Float8(figure.value),
            id.map_or(Value::Null, |(_, id)| Value::Int4(*id)),
            text(if figure.is_sum { "YES" } else { "NO" }),
        ]);
    }
}

fn sys_time_model(instance: &Arc<Instance>, rows: &mut Rows) {
    let all = instance.observer.foreground_stats();
    let of = |stat: Stat| all[stat.index()];
    let model = MODEL.map(|(stat, name, id)| (id, name, of(stat)));
    let all_cpu_us = instance.observer.env().process_cpu_us();
    let others_us = all_cpu_us.saturating_sub(of(Stat::CpuUsed));
    let background = (BACKGROUND_CPU, "background cpu time", others_us);
    for (id, name, us) in model.into_iter().chain([background]) {
        rows.push(vec![int(id), text(name), int(us)]);
    }
}

fn sess_time_model(instance: &Arc<Instance>, rows: &mut Rows) {
    let env = instance.observer.env();
    for state in instance.observer.session_states() {
        if state.kind() == SessionKind::Background {
            continue;
        }
        let times = state.times(env);
        for (stat, name, id) in MODEL {
            let us = times.iter().find(|(of, _)| *of == stat).map_or(0, |(_, us)| *us);
            rows.push(vec![int4(state.sid()), int(id), text(name), int(us)]);
        }
    }
}
