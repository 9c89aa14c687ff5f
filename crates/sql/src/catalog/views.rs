//! The `v$` views of this instance. Every column comes from a live counter or state.

use super::rows::{Rows, Shape, int, opt_text, text};
use kernel::instance::Instance;
use kernel::row::Value;
use kernel::txn::TmMode;
use observe::{TRACE_BINDS, TRACE_CALLS, TRACE_WAITS, TransferHow, TransferKind};
use query::datetime::EPOCH_US;
use std::sync::Arc;

use Shape::{Bool, Int4, Int8, Text, Timestamptz};

type Make = fn(&Instance) -> Rows;

/// All there are; each also as `gv$`, with the rows of every instance.
const VIEWS: [(&str, Make); 17] = [
    ("v$diag_info", diag_info),
    ("v$bh", buffers),
    ("v$event_histogram", event_histogram),
    ("v$event_name", event_name),
    ("v$fixed_table", fixed_table),
    ("v$gc_wait_split", wait_split),
    ("v$instance", instance_row),
    ("v$instance_cache_transfer", cache_transfer),
    ("v$lock", locks),
    ("v$parameter", parameters),
    ("v$rowcache", rowcache),
    ("v$sesstat", sesstat),
    ("v$session", session),
    ("v$session_event", session_event),
    ("v$session_wait", session_wait),
    ("v$sysstat", sysstat),
    ("v$system_event", system_event),
];

type MakeOfServer = fn(&Arc<Instance>) -> Rows;

/// Those that the kernel knows nothing of.
const OF_SERVER: [(&str, MakeOfServer); 3] = [
    ("v$audit_trail", super::rights::trail),
    ("v$pgastat", super::work_areas::pgastat),
    ("v$tempseg_usage", super::work_areas::tempseg_usage),
];

/// The view's rows; `None` for an unknown name.
pub(crate) fn local(instance: &Arc<Instance>, view: &str) -> Option<Rows> {
    if let Some((_, make)) = OF_SERVER.iter().find(|(name, _)| *name == view) {
        return Some(make(instance));
    }
    let (_, make) = VIEWS.iter().find(|(name, _)| *name == view)?;
    Some(make(instance))
}

fn fixed_table(_: &Instance) -> Rows {
    let mut rows = Rows::new(&[("name", Text)]);
    let of_server = OF_SERVER.iter().map(|(view, _)| *view);
    for view in VIEWS.iter().map(|(view, _)| *view).chain(of_server) {
        rows.push(vec![text(view)]);
        rows.push(vec![text(format!("g{view}"))]);
    }
    rows
}

fn wall(us: i64) -> Value {
    Value::Timestamptz(us - EPOCH_US)
}

fn seconds_since(instance: &Instance, wall_us: i64) -> Value {
    let now = instance.observer.env().wall_us();
    int((now - wall_us).max(0) / 1_000_000)
}

/// Where trace files are; that of each session that is traced.
fn diag_info(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[("sid", Int4), ("name", Text), ("value", Text)]);
    let Some(files) = instance.observer.trace_files() else { return rows };
    rows.push(vec![Value::Null, text("Diag Trace"), text(files.path(""))]);
    for state in instance.observer.session_states() {
        if let Some(name) = state.trace_name() {
            let sid = Value::Int4(i32::try_from(state.sid()).unwrap_or(i32::MAX));
            let path = files.path(&name);
            rows.push(vec![sid, text("Default Trace File"), text(path)]);
        }
    }
    rows
}

fn session(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("sid", Int4),
        ("serial", Int4),
        ("username", Text),
        ("status", Text),
        ("type", Text),
        ("program", Text),
        ("machine", Text),
        ("sql_text", Text),
        ("logon_time", Timestamptz),
        ("last_call_et", Int8),
        ("last_call_time", Timestamptz),
        ("seq", Int8),
        ("event", Text),
        ("wait_class", Text),
        ("p1text", Text),
        ("p1", Int8),
        ("p2text", Text),
        ("p2", Int8),
        ("p3text", Text),
        ("p3", Int8),
        ("state", Text),
        ("wait_time_micro", Int8),
        ("time_since_last_wait_micro", Int8),
        ("sql_trace", Text),
        ("sql_trace_waits", Text),
        ("sql_trace_binds", Text),
    ]);
    for s in instance.observer.sessions() {
        let traces = |bit: u8| s.trace_level & bit != 0;
        let labels = s.wait.event.map_or([""; 3], |e| e.p_labels());
        rows.push(vec![
            Value::Int4(i32::try_from(s.sid).unwrap_or(i32::MAX)),
            Value::Int4(i32::try_from(s.serial).unwrap_or(i32::MAX)),
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
            text(if s.wait.waiting { "WAITING" } else { "WAITED KNOWN TIME" }),
            int(s.wait.wait_us),
            int(s.wait.since_last_us),
            text(if traces(TRACE_CALLS) { "ENABLED" } else { "DISABLED" }),
            text(if traces(TRACE_WAITS) { "TRUE" } else { "FALSE" }),
            text(if traces(TRACE_BINDS) { "TRUE" } else { "FALSE" }),
        ]);
    }
    rows
}

fn session_wait(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("sid", Int4),
        ("seq", Int8),
        ("event", Text),
        ("wait_class", Text),
        ("p1text", Text),
        ("p1", Int8),
        ("p2text", Text),
        ("p2", Int8),
        ("p3text", Text),
        ("p3", Int8),
        ("state", Text),
        ("wait_time_micro", Int8),
        ("time_since_last_wait_micro", Int8),
    ]);
    for s in instance.observer.sessions() {
        let Some(event) = s.wait.event else { continue };
        let labels = event.p_labels();
        rows.push(vec![
            Value::Int4(i32::try_from(s.sid).unwrap_or(i32::MAX)),
            int(s.wait.seq),
            text(event.name()),
            text(event.class().name()),
            text(labels[0]),
            int(s.wait.p[0]),
            text(labels[1]),
            int(s.wait.p[1]),
            text(labels[2]),
            int(s.wait.p[2]),
            text(if s.wait.waiting { "WAITING" } else { "WAITED KNOWN TIME" }),
            int(s.wait.wait_us),
            int(s.wait.since_last_us),
        ]);
    }
    rows
}

fn average(us: u64, waits: u64) -> Value {
    int(us.checked_div(waits).unwrap_or(0))
}

fn session_event(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("sid", Int4),
        ("event", Text),
        ("wait_class", Text),
        ("total_waits", Int8),
        ("total_timeouts", Int8),
        ("time_waited_micro", Int8),
        ("average_wait_micro", Int8),
        ("max_wait_micro", Int8),
    ]);
    for e in instance.observer.session_events() {
        rows.push(vec![
            Value::Int4(i32::try_from(e.sid).unwrap_or(i32::MAX)),
            text(e.event.name()),
            text(e.event.class().name()),
            int(e.totals.waits),
            int(e.totals.timeouts),
            int(e.totals.time_us),
            average(e.totals.time_us, e.totals.waits),
            int(e.totals.max_us),
        ]);
    }
    rows
}

fn system_event(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("event", Text),
        ("wait_class", Text),
        ("total_waits", Int8),
        ("total_timeouts", Int8),
        ("time_waited_micro", Int8),
        ("average_wait_micro", Int8),
        ("max_wait_micro", Int8),
        ("total_waits_fg", Int8),
        ("total_timeouts_fg", Int8),
        ("time_waited_micro_fg", Int8),
        ("average_wait_micro_fg", Int8),
    ]);
    for e in instance.observer.system_events() {
        rows.push(vec![
            text(e.event.name()),
            text(e.event.class().name()),
            int(e.all.waits),
            int(e.all.timeouts),
            int(e.all.time_us),
            average(e.all.time_us, e.all.waits),
            int(e.all.max_us),
            int(e.foreground.waits),
            int(e.foreground.timeouts),
            int(e.foreground.time_us),
            average(e.foreground.time_us, e.foreground.waits),
        ]);
    }
    rows
}

fn event_name(_: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("event_no", Int4),
        ("name", Text),
        ("parameter1", Text),
        ("parameter2", Text),
        ("parameter3", Text),
        ("wait_class", Text),
        ("description", Text),
    ]);
    for event in observe::WaitEvent::ALL {
        let [p1, p2, p3] = event.p_labels();
        rows.push(vec![
            Value::Int4(i32::try_from(event.number()).unwrap_or(i32::MAX)),
            text(event.name()),
            text(p1),
            text(p2),
            text(p3),
            text(event.class().name()),
            text(event.doc()),
        ]);
    }
    rows
}

fn event_histogram(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[("event", Text), ("wait_time_micro", Int8), ("wait_count", Int8)]);
    for h in instance.observer.event_histogram() {
        rows.push(vec![text(h.event.name()), h.below_us.map_or(Value::Null, int), int(h.count)]);
    }
    rows
}

fn sysstat(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("statistic_no", Int4),
        ("name", Text),
        ("class", Int4),
        ("value", Int8),
        ("unit", Text),
    ]);
    for (stat, value) in instance.observer.sysstat() {
        rows.push(vec![
            Value::Int4(i32::try_from(stat.index()).unwrap_or(i32::MAX)),
            text(stat.name()),
            Value::Int4(i32::try_from(stat.class().number()).unwrap_or(0)),
            int(value),
            text(stat.unit().name()),
        ]);
    }
    rows
}

fn sesstat(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[("sid", Int4), ("name", Text), ("value", Int8)]);
    for (sid, stat, value) in instance.observer.sesstat() {
        let sid = Value::Int4(i32::try_from(sid).unwrap_or(i32::MAX));
        rows.push(vec![sid, text(stat.name()), int(value)]);
    }
    rows
}

fn instance_row(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("instance_number", Int4),
        ("instance_name", Text),
        ("pid", Int4),
        ("version", Text),
        ("startup_time", Timestamptz),
        ("status", Text),
        ("sessions", Int8),
        ("current_scn", Int8),
    ]);
    // A port takes clients, and the cluster questions, only of an open instance.
    let status = if instance.is_closing() { "CLOSING" } else { "OPEN" };
    rows.push(vec![
        Value::Int4(i32::from(instance.me.0)),
        text(format!("skein{}", instance.me)),
        Value::Int4(i32::try_from(instance.observer.env().pid()).unwrap_or(i32::MAX)),
        text(env!("CARGO_PKG_VERSION")),
        wall(instance.observer.started_wall_us()),
        text(status),
        int(instance.observer.user_session_count()),
        int(instance.core.current_scn().0),
    ]);
    rows
}

fn buffers(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("file_no", Int4),
        ("block_no", Int8),
        ("class", Text),
        ("objd", Int8),
        ("status", Text),
        ("dirty", Bool),
        ("past_image", Bool),
    ]);
    for buffer in instance.core.cache.buffer_rows() {
        let status = match buffer.mode {
            block::Mode::X => "xcur",
            block::Mode::S => "scur",
            block::Mode::N if buffer.past_image => "pi",
            block::Mode::N => "free",
        };
        let content = buffer.content;
        rows.push(vec![
            Value::Int4(i32::from(buffer.dba.file)),
            int(buffer.dba.block),
            content.map_or(Value::Null, |(kind, _)| text(format!("{kind:?}").to_lowercase())),
            content.map_or(Value::Null, |(_, obj)| int(obj.0)),
            text(status),
            Value::Bool(buffer.dirty),
            Value::Bool(buffer.past_image),
        ]);
    }
    rows
}

fn mode_name(mode: TmMode) -> &'static str {
    match mode {
        TmMode::SS => "SS",
        TmMode::SX => "SX",
        TmMode::S => "S",
        TmMode::SSX => "SSX",
        TmMode::X => "X",
    }
}

fn locks(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("type", Text),
        ("id1", Text),
        ("owner", Text),
        ("lmode", Text),
        ("request", Text),
        ("block", Bool),
    ]);
    let core = &instance.core;
    let table_locks = core.table_locks.rows();
    for row in &table_locks {
        let blocks = row.held.is_some()
            && table_locks
                .iter()
                .any(|other| other.resource == row.resource && other.wanted.is_some());
        rows.push(vec![
            text(row.resource.kind.map(char::from).iter().collect::<String>()),
            text(row.resource.id1.to_string()),
            text(row.transaction.to_string()),
            opt_text(row.held.map(mode_name)),
            opt_text(row.wanted.map(mode_name)),
            Value::Bool(blocks),
        ]);
    }
    let waits = core.waits.rows();
    for row in &waits {
        let waiter = row.waiter.map_or(Value::Null, |xid| text(xid.to_string()));
        for holder in &row.holders {
            rows.push(vec![
                text("TX"),
                text(holder.to_string()),
                waiter.clone(),
                Value::Null,
                text("X"),
                Value::Bool(false),
            ]);
            rows.push(vec![
                text("TX"),
                text(holder.to_string()),
                text(holder.to_string()),
                text("X"),
                Value::Null,
                Value::Bool(true),
            ]);
        }
    }
    rows
}

fn parameters(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("num", Int4),
        ("name", Text),
        ("type", Text),
        ("value", Text),
        ("display_value", Text),
        ("default_value", Text),
        ("isdefault", Bool),
        ("issys_modifiable", Text),
        ("isses_modifiable", Bool),
        ("description", Text),
    ]);
    for p in instance.params.rows() {
        rows.push(vec![
            Value::Int4(p.num),
            text(p.name),
            text(p.type_name),
            text(p.value),
            text(p.display_value),
            text(p.default_value),
            Value::Bool(p.is_default),
            text(p.system_modifiable),
            Value::Bool(p.session_modifiable),
            text(p.description),
        ]);
    }
    rows
}

fn rowcache(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("parameter", Text),
        ("count", Int8),
        ("gets", Int8),
        ("getmisses", Int8),
        ("modifications", Int8),
    ]);
    for stat in kernel::dict::row_cache_stats(&instance.core) {
        rows.push(vec![
            text(stat.name),
            int(stat.count),
            int(stat.gets),
            int(stat.misses),
            int(stat.modifications),
        ]);
    }
    rows
}

const HOW: [(TransferHow, &str); 3] =
    [(TransferHow::TwoWay, "2hop"), (TransferHow::ThreeWay, "3hop"), (TransferHow::Busy, "busy")];

fn cache_transfer(instance: &Instance) -> Rows {
    let mut names: Vec<(String, Shape)> =
        vec![("instance".into(), Int4), ("class".into(), Text), ("kind".into(), Text)];
    for (_, how) in HOW {
        names.push((how.to_owned(), Int8));
        names.push((format!("{how}_time"), Int8));
    }
    let columns: Vec<(&str, Shape)> = names.iter().map(|(n, s)| (n.as_str(), *s)).collect();
    let mut rows = Rows::new(&columns);
    for row in instance.observer.block_waits.rows() {
        let mut values = vec![
            Value::Int4(i32::from(row.instance)),
            text(row.class.name()),
            text(kind_name(row.kind)),
        ];
        for (how, _) in HOW {
            values.push(int(row.totals.how_count[how as usize]));
            values.push(int(row.totals.how_us[how as usize]));
        }
        rows.push(values);
    }
    rows
}

fn wait_split(instance: &Instance) -> Rows {
    let mut rows = Rows::new(&[
        ("instance", Int4),
        ("class", Text),
        ("kind", Text),
        ("blocks", Int8),
        ("total_us", Int8),
        ("interconnect_us", Int8),
        ("master_queue_us", Int8),
        ("lms_build_us", Int8),
        ("pin_us", Int8),
        ("lgwr_flush_us", Int8),
        ("flushes", Int8),
        ("max_us", Int8),
    ]);
    for row in instance.observer.block_waits.rows() {
        let t = &row.totals;
        rows.push(vec![
            Value::Int4(i32::from(row.instance)),
            text(row.class.name()),
            text(kind_name(row.kind)),
            int(t.blocks()),
            int(t.total_us),
            int(t.interconnect_us),
            int(t.master_queue_us),
            int(t.build_us),
            int(t.pin_us),
            int(t.flush_us),
            int(t.flushes),
            int(t.max_us),
        ]);
    }
    rows
}

fn kind_name(kind: TransferKind) -> &'static str {
    match kind {
        TransferKind::Cr => "cr",
        TransferKind::Current => "current",
    }
}
