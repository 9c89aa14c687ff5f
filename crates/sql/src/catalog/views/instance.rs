//! The instance itself: who it is, its parameters, where its traces are.

use super::registry::{Column, Make, columns, views};
use super::{int4, wall};
use crate::catalog::rows::Shape::{Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, opt_text, text};
use crate::session::Session;
use block::BLOCK_BYTES;
use kernel::instance::Instance;
use kernel::row::Value;
use observe::{SessionKind, SqlId};
use std::sync::Arc;

const PARAMETER: &[Column] = columns! {
    num: Int4, "Number of the parameter.";
    name: Text, "Its name.";
    type: Text, "Type of its value.";
    value: Text, "Its value, in the unit of the parameter.";
    display_value: Text, "Its value as one writes it.";
    default_value: Text, "The value if nobody sets one.";
    isdefault: Text, "`TRUE`: nobody has set it; else `FALSE`.";
    ismodified: Text, "`SYSTEM_MOD`: `ALTER SYSTEM` has changed it since the start; else `FALSE`.";
    issys_modifiable: Text, "Whether `ALTER SYSTEM` changes it at once: `IMMEDIATE`, or `FALSE`.";
    isses_modifiable: Text, "`TRUE`: a session can have a value of its own; else `FALSE`.";
    isinstance_modifiable: Text, "`TRUE`: `ALTER SYSTEM` changes it on each instance by itself; \
        `FALSE`: it cannot be changed.";
    isadjusted: Text, "`FALSE`: a value that cannot be is refused, and no other taken.";
    isdeprecated: Text, "`FALSE`: what is not wanted any more is no parameter.";
    update_comment: Text, "Always NULL: the comment of `ALTER SYSTEM` is not kept.";
    hash: Int8, "A number made from its name.";
    description: Text, "What it does.";
};

views! {
    "v$instance", Make::Local(instance_row), "This instance." {
        instance_number: Int4, "Its number, from 1.";
        instance_name: Text, "Its name.";
        host_name: Text, "The machine that it runs on.";
        "thread#": Int4, "Its redo thread.";
        pid: Int4, "Process of the operating system.";
        version: Text, "Version of the program.";
        startup_time: Timestamptz, "When it was started.";
        status: Text, "`OPEN`, or `CLOSING` while it is shut down.";
        parallel: Text, "`YES`: other instances may open the database too.";
        shutdown_pending: Text, "`YES` while it is shut down, else `NO`.";
        archiver: Text, "`STOPPED`: redo is not archived.";
        logins: Text, "`ALLOWED`.";
        database_status: Text, "`ACTIVE`.";
        instance_role: Text, "`PRIMARY_INSTANCE`.";
        active_state: Text, "`NORMAL`.";
        blocked: Text, "`NO`.";
        sessions: Int8, "Sessions of clients that are open.";
        current_scn: Int8, "Its clock: the newest system change number it knows.";
    }
    "v$version", Make::Local(version), "What runs here." {
        banner: Text, "Name and version of the program.";
        banner_full: Text, "The same.";
    }
    "v$database", Make::Local(database), "The database." {
        dbid: Int8, "Its number, given when it was made: no other database has it, but by chance.";
        name: Text, "Its name.";
        db_unique_name: Text, "The same.";
        created: Timestamptz, "Always NULL: nobody has noted when it was made.";
        open_mode: Text, "`READ WRITE`.";
        log_mode: Text, "`NOARCHIVELOG`: redo is not archived.";
        database_role: Text, "`PRIMARY`.";
        force_logging: Text, "`YES`: there is no change without redo.";
        flashback_on: Text, "`NO`: the database as a whole goes back to no earlier time.";
        cdb: Text, "`NO`: it holds no other databases.";
        current_scn: Int8, "The clock of this instance: the newest system change number it knows.";
        "checkpoint_change#": Int8, "That clock when it was last noted where recovery of this \
            instance's redo thread would begin: no change before has a higher number.";
    }
    "v$parameter", Make::Local(parameters), "The instance's parameters." {} + PARAMETER {}
    "v$system_parameter", Make::Local(parameters), "The same: what holds where a session has set \
        nothing for itself." {} + PARAMETER {}
    "v$diag_info", Make::Local(diag_info), "Where trace files are, and that of the session which \
        asks; those of all sessions are in `v$process.tracefile`." {
        sid: Int4, "The session; NULL for the folder.";
        name: Text, "`Diag Trace` (the folder) or `Default Trace File`.";
        value: Text, "The path; there is no file before the session is traced.";
    }
}

/// The database's name.
pub(crate) const DATABASE: &str = "SKEIN";

/// The database's number: `dbid`.
pub(crate) fn database_id(instance: &Instance) -> u32 {
    let [a, b, c, d, ..] = instance.core.cache.group.id();
    u32::from_le_bytes([a, b, c, d])
}

fn instance_row(instance: &Arc<Instance>, rows: &mut Rows) {
    // A port takes clients, and the cluster questions, only of an open instance.
    let (status, pending) = if instance.is_closing() { ("CLOSING", "YES") } else { ("OPEN", "NO") };
    rows.push(vec![
        int4(instance.me.0),
        text(format!("skein{}", instance.me)),
        opt_text(instance.observer.trace_files().map(|files| files.node())),
        int4(instance.core.log.thread().0),
        int4(instance.observer.env().pid()),
        text(env!("CARGO_PKG_VERSION")),
        wall(instance.observer.started_wall_us()),
        text(status),
        text("YES"),
        text(pending),
        text("STOPPED"),
        text("ALLOWED"),
        text("ACTIVE"),
        text("PRIMARY_INSTANCE"),
        text("NORMAL"),
        text("NO"),
        int(instance.observer.user_session_count()),
        int(instance.core.current_scn().0),
    ]);
}

fn version(_: &Arc<Instance>, rows: &mut Rows) {
    let banner = format!("Skein {}", env!("CARGO_PKG_VERSION"));
    rows.push(vec![text(&*banner), text(banner)]);
}

fn database(instance: &Arc<Instance>, rows: &mut Rows) {
    // Before the clock is looked at, which it is not above.
    let checkpoint = instance.core.log.checkpoint_scn();
    rows.push(vec![
        int(database_id(instance)),
        text(DATABASE),
        text(DATABASE),
        Value::Null,
        text("READ WRITE"),
        text("NOARCHIVELOG"),
        text("PRIMARY"),
        text("YES"),
        text("NO"),
        text("NO"),
        int(instance.core.current_scn().0),
        int(checkpoint.0),
    ]);
}

fn truth(yes: bool) -> Value {
    text(if yes { "TRUE" } else { "FALSE" })
}

fn parameters(instance: &Arc<Instance>, rows: &mut Rows) {
    for p in instance.params.rows() {
        rows.push(vec![
            int4(p.num),
            text(p.name),
            text(p.type_name),
            text(p.value),
            text(p.display_value),
            text(p.default_value),
            truth(p.is_default),
            text(if p.is_altered { "SYSTEM_MOD" } else { "FALSE" }),
            text(p.system_modifiable),
            truth(p.session_modifiable),
            truth(p.system_modifiable == "IMMEDIATE"),
            truth(false),
            truth(false),
            Value::Null,
            int(SqlId::of(p.name).hash_value()),
            text(p.description),
        ]);
    }
    fixed_parameters(instance, rows);
}

/// What is one of the field's parameters and follows from the database and the machine here.
fn fixed_parameters(instance: &Arc<Instance>, rows: &mut Rows) {
    let figures = instance.observer.env().machine_figures();
    let cpus = figures.iter().find(|figure| figure.name == "NUM_CPUS");
    let cpus = cpus.map_or_else(String::new, |figure| figure.value.to_string());
    let most = instance.params.max_connections().to_string();
    let first = instance.params.rows().len();
    let all = [
        ("cluster_database", "boolean", "TRUE".to_owned(), "Several instances may open it."),
        ("cpu_count", "integer", cpus, "Processors of the machine."),
        ("db_block_size", "integer", BLOCK_BYTES.to_string(), "Bytes of a block."),
        ("db_name", "string", DATABASE.to_owned(), "The database's name."),
        ("instance_name", "string", format!("skein{}", instance.me), "This instance's name."),
        ("instance_number", "integer", instance.me.to_string(), "Its number, from 1."),
        ("sessions", "integer", most, "Sessions of clients at most (`max_connections`)."),
        ("thread", "integer", instance.core.log.thread().0.to_string(), "Its redo thread."),
    ];
    for (at, (name, kind, value, description)) in all.into_iter().enumerate() {
        rows.push(vec![
            int4(first + at),
            text(name),
            text(kind),
            text(&*value),
            text(&*value),
            text(value),
            truth(true),
            text("FALSE"),
            text("FALSE"),
            truth(false),
            truth(false),
            truth(false),
            truth(false),
            Value::Null,
            int(SqlId::of(name).hash_value()),
            text(description),
        ]);
    }
}

/// The name of a row of `v$diag_info`.
const TRACE_FILE: &str = "Default Trace File";

/// Of the files the asker keeps its own, and says which it is.
fn diag_info(instance: &Arc<Instance>, rows: &mut Rows) {
    let Some(files) = instance.observer.trace_files() else { return };
    rows.push(vec![Value::Null, text("Diag Trace"), text(files.path(""))]);
    for state in instance.observer.session_states() {
        if state.kind() == SessionKind::User {
            rows.push(vec![int4(state.sid()), text(TRACE_FILE), Value::Null]);
        }
    }
}

impl Session {
    /// Of the rows of `v$diag_info` leaves those of instances and of this session, and fills in its
    /// file.
    pub(in crate::catalog) fn tell_trace_file(&self, rows: &mut Rows) {
        let own = int4(self.ctx.session.sid());
        rows.retain(|row| row.text("name") != TRACE_FILE || row.get("sid") == own);
        let Some(files) = self.instance.observer.trace_files() else { return };
        let path = files.path(&self.trace_file_name(files.prefix()));
        rows.fill("value", |row| match row.text("name") {
            TRACE_FILE => text(path.as_str()),
            _ => row.get("value"),
        });
    }
}
