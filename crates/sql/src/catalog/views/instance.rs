//! The instance itself: who it is, its parameters, where its traces are.

use super::registry::{Make, views};
use super::{int4, wall};
use crate::catalog::rows::Shape::{Bool, Int4, Int8, Text, Timestamptz};
use crate::catalog::rows::{Rows, int, text};
use kernel::instance::Instance;
use kernel::row::Value;
use std::sync::Arc;

views! {
    "v$instance", Make::Local(instance_row), "This instance." {
        instance_number: Int4, "Its number, from 1.";
        instance_name: Text, "Its name.";
        pid: Int4, "Process of the operating system.";
        version: Text, "Version of the program.";
        startup_time: Timestamptz, "When it was started.";
        status: Text, "`OPEN`, or `CLOSING` while it is shut down.";
        sessions: Int8, "Sessions of clients that are open.";
        current_scn: Int8, "Its clock: the newest system change number it knows.";
    }
    "v$parameter", Make::Local(parameters), "The instance's parameters." {
        num: Int4, "Number of the parameter.";
        name: Text, "Its name.";
        type: Text, "Type of its value.";
        value: Text, "Its value, in the unit of the parameter.";
        display_value: Text, "Its value as one writes it.";
        default_value: Text, "The value if nobody sets one.";
        isdefault: Bool, "Whether nobody has set it.";
        issys_modifiable: Text, "Whether `ALTER SYSTEM` changes it at once: `IMMEDIATE`, or `FALSE`.";
        isses_modifiable: Bool, "Whether a session can have a value of its own.";
        description: Text, "What it does.";
    }
    "v$diag_info", Make::Local(diag_info), "Where trace files are; that of each session traced." {
        sid: Int4, "The session; NULL for the folder.";
        name: Text, "`Diag Trace` (the folder) or `Default Trace File`.";
        value: Text, "The path.";
    }
}

fn instance_row(instance: &Arc<Instance>, rows: &mut Rows) {
    // A port takes clients, and the cluster questions, only of an open instance.
    let status = if instance.is_closing() { "CLOSING" } else { "OPEN" };
    rows.push(vec![
        int4(instance.me.0),
        text(format!("skein{}", instance.me)),
        int4(instance.observer.env().pid()),
        text(env!("CARGO_PKG_VERSION")),
        wall(instance.observer.started_wall_us()),
        text(status),
        int(instance.observer.user_session_count()),
        int(instance.core.current_scn().0),
    ]);
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
            Value::Bool(p.is_default),
            text(p.system_modifiable),
            Value::Bool(p.session_modifiable),
            text(p.description),
        ]);
    }
}

fn diag_info(instance: &Arc<Instance>, rows: &mut Rows) {
    let Some(files) = instance.observer.trace_files() else { return };
    rows.push(vec![Value::Null, text("Diag Trace"), text(files.path(""))]);
    for state in instance.observer.session_states() {
        if let Some(name) = state.trace_name() {
            let path = files.path(&name);
            rows.push(vec![int4(state.sid()), text("Default Trace File"), text(path)]);
        }
    }
}
