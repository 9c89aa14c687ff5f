//! How dates, numbers and texts are written, compared and counted, by the field's names.
//!
//! What it promises: what is shown is what statements do without a template; it is the same for all
//! sessions. What it must never do: show what a session was told and does not do.

use super::registry::{Column, Make, columns, views};
use crate::catalog::rows::Shape::Text;
use crate::catalog::rows::{Rows, opt_text, text};
use kernel::instance::Instance;
use std::sync::Arc;

const PARAMETER: &[Column] = columns! {
    parameter: Text, "Its name.";
    value: Text, "Its value; NULL: there is nothing of the kind.";
};

views! {
    "nls_session_parameters", Make::Once(of_session), "How sessions write, compare and count. None \
        can change it: `alter session set nls_..` is answered with a notice." {} + PARAMETER {}
    "nls_instance_parameters", Make::Once(of_session), "The same of instances." {} + PARAMETER {}
    "nls_database_parameters", Make::Once(of_database), "The same of the database, with the \
        encoding of its texts." {} + PARAMETER {}
    "v$nls_parameters", Make::Local(of_texts), "The same as `nls_session_parameters`, with the \
        encoding of texts." {} + PARAMETER {}
}

/// What sessions do. Texts of dates and times are ISO's; there is no currency.
const SESSION: [(&str, Option<&str>); 17] = [
    ("NLS_LANGUAGE", Some("AMERICAN")),
    ("NLS_TERRITORY", Some("AMERICA")),
    ("NLS_CURRENCY", None),
    ("NLS_ISO_CURRENCY", None),
    ("NLS_NUMERIC_CHARACTERS", Some(".,")),
    ("NLS_CALENDAR", Some("GREGORIAN")),
    ("NLS_DATE_FORMAT", Some("YYYY-MM-DD")),
    ("NLS_DATE_LANGUAGE", Some("AMERICAN")),
    ("NLS_SORT", Some("BINARY")),
    ("NLS_TIME_FORMAT", Some("HH24:MI:SSXFF")),
    ("NLS_TIMESTAMP_FORMAT", Some("YYYY-MM-DD HH24:MI:SSXFF")),
    ("NLS_TIME_TZ_FORMAT", Some("HH24:MI:SSXFFTZH")),
    ("NLS_TIMESTAMP_TZ_FORMAT", Some("YYYY-MM-DD HH24:MI:SSXFFTZH")),
    ("NLS_DUAL_CURRENCY", None),
    ("NLS_COMP", Some("BINARY")),
    ("NLS_LENGTH_SEMANTICS", Some("CHAR")),
    ("NLS_NCHAR_CONV_EXCP", Some("FALSE")),
];

/// The encoding of all texts, by the field's name.
const UTF8: &str = "AL32UTF8";

fn of_session(_: &Arc<Instance>, rows: &mut Rows) {
    for (name, value) in SESSION {
        rows.push(vec![text(name), opt_text(value)]);
    }
}

fn of_texts(instance: &Arc<Instance>, rows: &mut Rows) {
    of_session(instance, rows);
    for name in ["NLS_CHARACTERSET", "NLS_NCHAR_CHARACTERSET"] {
        rows.push(vec![text(name), text(UTF8)]);
    }
}

fn of_database(instance: &Arc<Instance>, rows: &mut Rows) {
    of_texts(instance, rows);
    rows.push(vec![text("NLS_RDBMS_VERSION"), text(env!("CARGO_PKG_VERSION"))]);
}
