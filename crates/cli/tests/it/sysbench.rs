//! sysbench as Debian ships it: its OLTP scripts, one process for each instance, all on the same
//! tables.

use crate::db::{Db, PASSWORD, all_text, succeed};
use std::process::{Command, Stdio};

const TABLES: usize = 2;
const ROWS: usize = 1000;
/// Transactions of each process.
const EVENTS: u64 = 60;

fn sysbench(db: &Db, k: u16, args: &[&str]) -> Command {
    let mut command = Command::new("sysbench");
    command.args(["--db-driver=pgsql", "--pgsql-host=127.0.0.1", "--pgsql-user=skein"]);
    command.arg(format!("--pgsql-port={}", db.port(k)));
    command.arg(format!("--pgsql-password={PASSWORD}"));
    command.arg("--pgsql-db=skein");
    command.arg(format!("--tables={TABLES}")).arg(format!("--table-size={ROWS}"));
    command.args(["--rand-type=uniform", "--threads=2", "--time=0"]);
    command.arg(format!("--events={EVENTS}")).arg(format!("--rand-seed={k}"));
    command.args(args);
    command
}

/// The number before which sysbench's report has `label`.
fn number(said: &str, label: &str) -> u64 {
    let line = said.lines().find_map(|line| line.trim().strip_prefix(label));
    let word = line.and_then(|rest| rest.split_ascii_whitespace().next());
    word.and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("no {label} in {said}"))
}

/// Runs a script on all instances at once; how many transactions were repeated for an error that
/// sysbench's driver takes for a conflict.
fn run_on_all(db: &Db, args: &[&str]) -> u64 {
    let start = |k| {
        let mut command = sysbench(db, k, args);
        command.arg("run").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("sysbench is installed")
    };
    let running: Vec<_> = (1..=db.instances).map(start).collect();
    let mut repeated = 0;
    for one in running {
        let out = one.wait_with_output().expect("sysbench ends");
        let said = all_text(&out);
        assert!(out.status.success() && !said.contains("FATAL"), "{args:?}: {said}");
        assert_eq!(number(&said, "transactions:"), EVENTS, "{args:?}: {said}");
        repeated += number(&said, "ignored errors:");
    }
    repeated
}

#[test]
fn sysbench_runs_unmodified_on_three_instances() {
    let db = Db::open(3);
    succeed(sysbench(&db, 1, &["oltp_read_write"]).arg("prepare"));
    for script in ["point_select", "read_only", "update_index", "update_non_index", "insert"] {
        let repeated = run_on_all(&db, &[&format!("oltp_{script}")]);
        assert_eq!(repeated, 0, "{script} has nothing to be in conflict about");
    }
    // Rows in any order, several in a transaction: these may deadlock, and nothing else.
    let repeated = run_on_all(&db, &["oltp_read_write", "--delete_inserts=0"]);
    let broken = db
        .sql(1, "select coalesce(sum(value), 0) from gv$sysstat where name = 'enqueue deadlocks'");
    assert!(repeated <= broken.parse().unwrap(), "{repeated} repeated, {broken} deadlocks");
    // The whole script deletes a row and inserts it again, where two may get in each other's way.
    run_on_all(&db, &["oltp_read_write"]);
    assert_eq!(run_on_all(&db, &["oltp_delete"]), 0);
    for table in 1..=TABLES {
        // By the key, by the other index, and from every instance.
        let seen = |k, sql: &str| db.sql(k, &sql.replace("TABLE", &format!("sbtest{table}")));
        let all = seen(1, "select count(*), sum(k) from TABLE");
        for k in 1..=3 {
            assert_eq!(seen(k, "select count(*), sum(k) from TABLE where id > 0"), all);
            assert_eq!(seen(k, "select count(*), sum(k) from TABLE where k > 0"), all);
        }
    }
    succeed(sysbench(&db, 2, &["oltp_read_write"]).arg("cleanup"));
    assert_eq!(db.sql(3, "select count(*) from pg_class where relname like 'sbtest%'"), "0");
}
