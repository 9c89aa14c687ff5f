//! Runs the SQL scripts of `tests/sql` against an open instance, statement by statement, in several
//! sessions.
//!
//! A script is prose (`#` lines) and blocks. A block begins with a word, holds one statement and,
//! after `----`, what is
//! expected of it:
//!
//!     run                     a statement; expected: its tag, rows (`a|b`), notices
//!     error CODE              a statement that fails with this SQLSTATE
//!     begin NAME              a statement in another session that must wait; `end NAME` expects
//!     its outcome
//!     masked                  a statement in whose answer each number is shown as N
//!     session NAME            the session of the blocks that follow
//!     stay, hop               from here sessions stay on one instance; they hop again
//!     params a, b             values of `$1`, `$2` for the next statement, as texts
//!
//! Each script runs twice: on one instance, and on three among which its sessions hop. `BLESS=1`
//! rewrites what is expected, by one instance's answers. Nothing here waits for time: a statement
//! that must wait is awaited in the views.

#![allow(clippy::disallowed_methods)] // tests have threads and clocks of their own

mod hop;
mod records;
mod runner;
mod script;

use std::path::{Path, PathBuf};

fn scripts() -> Vec<PathBuf> {
    let dir = Path::new("../../tests/sql");
    let mut all: Vec<PathBuf> = std::fs::read_dir(dir)
        .unwrap_or_else(|e| panic!("{}: {e}", dir.display()))
        .map(|entry| entry.expect("a folder entry").path())
        .filter(|path| path.extension().is_some_and(|ext| ext == "slt"))
        .collect();
    all.sort();
    all
}

/// The script that a process of [`differences`] is for.
const ALONE: &str = "SKEIN_SCRIPT_ALONE";

/// Runs each script on a database with that many instances, in a process of its own: an instance
/// lives as long as its process, and one that has to end ends nothing else. Names the scripts that
/// say something else, or do not come to their end.
fn differences(test: &str, instances: u8) -> Vec<String> {
    if let Some(name) = std::env::var_os(ALONE) {
        return difference(Path::new(&name), instances).into_iter().collect();
    }
    let wanted = std::env::var("SCRIPT").unwrap_or_default();
    let mut failed = Vec::new();
    let mut ran = 0;
    for path in scripts() {
        let name = path.file_name().expect("a file name").to_string_lossy().into_owned();
        if !name.contains(&wanted) {
            continue;
        }
        ran += 1;
        let program = std::env::current_exe().expect("this test");
        let mut process = std::process::Command::new(program);
        process.args(["--exact", test, "--nocapture"]).env(ALONE, &path);
        // Sessions have as much in an instance.
        process.env("RUST_MIN_STACK", env::stack::STACK_BYTES.to_string());
        let out = process.output().expect("this program starts");
        let said = String::from_utf8_lossy(&out.stdout);
        // What it says of itself: a name that matches no test would run none.
        if !out.status.success() || !said.contains("1 passed") {
            let complaints = String::from_utf8_lossy(&out.stderr);
            failed.push(format!("{name}: {}\n{said}{complaints}", out.status));
        }
    }
    assert!(ran > 0, "no script matches \"{wanted}\"");
    failed
}

/// Runs a script on a database of its own.
fn difference(path: &Path, instances: u8) -> Option<String> {
    let text = std::fs::read_to_string(path).expect("a script");
    let got = runner::run(&runner::Database::create(instances), &text);
    if got == text {
        return None;
    }
    if std::env::var("BLESS").is_ok() {
        std::fs::write(path, &got).expect("the script can be written");
        return None;
    }
    Some(script::difference(&text, &got))
}

/// A table is looked through soon after it has been filled, on whichever instance.
#[test]
fn changed_tables_are_analyzed_without_being_asked() {
    let database = runner::Database::create(2);
    let mut sessions = hop::Sessions::new(&database);
    let mut answer = |text: &str| {
        sessions.order("main", runner::Order { text: text.to_owned(), params: None });
        sessions.answer("main").expect("an answer")
    };
    // One on each instance.
    answer("alter system set autovacuum = on");
    answer("alter system set autovacuum = on");
    answer("create table grown (id int primary key, v text)");
    answer("insert into grown select i, 'v' || i % 10 from generate_series(1, 5000) g(i)");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(120);
    let count = "select autoanalyze_count, n_live_tup from pg_stat_user_tables \
                 where relname = 'grown'";
    while answer(count).starts_with("0|") {
        assert!(std::time::Instant::now() < deadline, "nobody has looked");
    }
    assert!(answer(count).starts_with("1|5000\n"), "{}", answer(count));
    let known = answer("select n_distinct from pg_stats where attname = 'v'");
    assert!(known.starts_with("10\n"), "{known}");
}

#[test]
fn sql_scripts() {
    let failed = differences("sql_scripts", 1);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

/// Every statement on another instance than the one before: the answers are the same.
#[test]
fn sql_scripts_that_hop_between_instances() {
    if std::env::var("BLESS").is_ok() {
        return;
    }
    let failed = differences("sql_scripts_that_hop_between_instances", 3);
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}
