//! The real binary, real processes, real clients.
//!
//! Each test makes a database of its own in a temporary folder, on free ports, and takes all of it
//! away when it ends, however it ends. Tests wait for conditions; a limit on a wait only bounds how
//! long a failure takes.

mod bad_input;
mod browser;
mod clients;
mod cluster;
mod console;
mod console_history;
mod console_pages;
mod copy;
mod db;
mod ddl;
mod deep;
mod dump;
mod faults;
mod isolation;
mod keys;
mod lab;
mod life;
mod members;
mod moved;
mod notify;
mod outcome;
mod pg_dump;
mod programs;
mod reports;
mod security;
mod sequences;
mod settings;
mod shell;
mod shell_columns;
mod shell_errors;
mod shell_sessions;
mod shell_transactions;
mod shell_variables;
mod signals;
mod sysbench;
mod tpcc;
mod trace;
mod upsert;
mod user_locks;
mod verify;
mod views;
mod wire;
mod work_areas;
