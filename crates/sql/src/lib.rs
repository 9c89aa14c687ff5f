//! From text to results: PostgreSQL's dialect, sessions and transactions, DDL, and everything that
//! is not relational
//! execution.
//!
//! What it promises: a statement means what PostgreSQL would make of it, or it is refused with a
//! SQLSTATE. What it must
//! never do: accept a clause and ignore it.

mod access;
mod assign;
mod audit;
mod auto_analyze;
mod bind;
mod cache;
mod catalog;
mod check;
mod conflict;
mod copy;
mod copy_binary;
mod copy_text;
mod copy_words;
mod counted;
mod cursor;
mod cursor_words;
mod database;
mod ddl;
mod depth;
mod dialect;
mod direct;
mod dml;
mod encode;
mod expand;
mod foreign;
mod generated;
mod hba;
mod hints;
mod history;
mod idioms;
mod insert;
mod kept;
mod key_exprs;
mod key_read;
mod lock_words;
mod locking;
mod log_on;
mod measured;
mod merge;
mod named_types;
mod notify;
mod numbers;
mod outside;
mod parse;
mod pl;
mod plan;
mod plan_lines;
mod planning;
mod records;
mod returning;
mod routines;
mod row_words;
mod sequence;
mod session;
mod settings;
mod sharing;
mod signed_names;
mod subscripts;
mod sys_names;
mod target_rows;
mod trace;
mod user_locks;
mod utility;
mod view;
mod view_text;
mod whole_rows;
mod with;
mod words;
mod workload;
mod xplan;

pub use access::set_password_hasher;
pub use audit::{Event, note};
pub use catalog::{PeerRows, ViewPeers, connect_instances, local_view_rows, set_view_peers};
pub use encode::RowSink;
pub use hba::{Knock, Method};
pub use log_on::{begin_audit, follow_hba, method_for};
pub use notify::Notification;
pub use parse::Statement;
pub use pl::sqlcode;
pub use plan::Prepared;
pub use query::datetime::EPOCH_US;
pub use query::{PgColumn as Column, PgError, Result, Severity};
pub use session::{Fetched, Portal, Session, pass_cancel_on};
pub use workload::keep_snapshots;

/// The one database of a cluster.
pub const DATABASE: &str = "skein";

/// A message to the client that is no error.
pub type Notice = PgError;
