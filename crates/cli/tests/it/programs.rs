//! Drivers of other languages: the programs in `tests/clients`, each against a database of its own.
//! `./test` installs what they need; where it is missing, they fail.

use crate::db::{Db, PASSWORD, succeed};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `scripts/prepare.sh` has put the drivers.
pub fn drivers() -> PathBuf {
    let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
    let dir = set("SKEIN_CLIENTS").unwrap_or(cache.unwrap_or_default().join("skein/clients"));
    assert!(dir.is_dir(), "no drivers in {}: run ./test once, which installs them", dir.display());
    dir
}

/// Runs `program args… tests/clients/NAME` with the database in the environment.
fn run(command: Command, name: &str) {
    run_on(&Db::open(1), command, &format!("clients/{name}"));
}

/// Runs `program args… tests/NAME` with that database in the environment.
fn run_on(db: &Db, mut command: Command, name: &str) {
    command.arg(Path::new("../../tests").join(name));
    for (name, value) in [("PGHOST", "127.0.0.1"), ("PGUSER", "skein"), ("PGDATABASE", "skein")] {
        command.env(name, value);
    }
    command.env("PGPORT", db.port(1).to_string()).env("PGPASSWORD", PASSWORD);
    succeed(&mut command);
}

#[test]
fn psycopg() {
    run(Command::new(drivers().join("venv/bin/python")), "psycopg_client.py");
}

#[test]
fn sqlalchemy() {
    run(Command::new(drivers().join("venv/bin/python")), "sqlalchemy_client.py");
}

/// SQLAlchemy's own suite for dialects, without what `sqlalchemy_suite` says Skein does not have.
#[test]
#[ignore = "minutes: cargo test --release -p skein-cli --test it sqlalchemy_suite -- --ignored"]
fn sqlalchemy_suite() {
    let db = Db::open(1);
    db.sql(1, "create schema test_schema");
    db.sql(1, "create schema test_schema_2");
    let here = std::fs::canonicalize("../../tests/clients/sqlalchemy_suite").unwrap();
    let python = drivers().join("venv/bin/python");
    let mut suite = db.client(python.to_str().unwrap(), 1);
    // The requirements of SQLAlchemy's source, and ours.
    let path = std::env::join_paths([drivers(), here.clone()]).unwrap();
    suite.env("PYTHONPATH", path).env("PYTHONDONTWRITEBYTECODE", "1").current_dir(here);
    let said = succeed(suite.args(["-m", "pytest", "-q"]));
    println!("{}", said.lines().last().unwrap_or_default());
}

/// What SQLAlchemy's inspector finds.
#[test]
fn sqlalchemy_reflection() {
    run(Command::new(drivers().join("venv/bin/python")), "sqlalchemy_reflection.py");
}

/// Django's migrations, models and `inspectdb`.
#[test]
fn django() {
    run(Command::new(drivers().join("venv/bin/python")), "django_client.py");
}

#[test]
fn node_postgres() {
    let mut node = Command::new("node");
    node.env("NODE_PATH", drivers().join("node_modules"));
    run(node, "node_client.js");
}

#[test]
fn pgjdbc() {
    let mut java = Command::new("java");
    java.arg("-cp").arg(drivers().join("postgresql.jar"));
    run(java, "Jdbc.java");
}

/// What pgjdbc's `DatabaseMetaData` finds.
#[test]
fn pgjdbc_metadata() {
    let mut java = Command::new("java");
    java.arg("-cp").arg(drivers().join("postgresql.jar"));
    run(java, "JdbcMetaData.java");
}

/// pgx. The program is built by `scripts/drivers.sh`; it uses all three instances.
#[test]
fn pgx() {
    let db = Db::open(3);
    let mut program = db.client(drivers().join("go_client").to_str().unwrap(), 1);
    let ports: Vec<_> = (1..=3).map(|k| db.port(k).to_string()).collect();
    succeed(program.env("PGPORTS", ports.join(",")));
}

/// The 22 queries of TPC-H at scale factor 0.1: DuckDB finds the same.
#[test]
fn tpch() {
    let db = Db::init_with(1, "512M", &[]);
    db.start_all();
    run_on(&db, Command::new(drivers().join("venv/bin/python")), "tpch/check.py");
}
