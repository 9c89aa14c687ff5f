//! Snapshots, reports and diagnoses of a cluster that runs.

use crate::db::{Db, all_text, skein, succeed, wait_until};

fn report(db: &Db, args: &[&str]) -> String {
    succeed(db.skein("report").args(args))
}

/// A figure of the line that begins with a name.
fn figure(text: &str, name: &str, at: usize) -> f64 {
    let line = text.lines().find(|line| line.trim_start().starts_with(name));
    let line = line.unwrap_or_else(|| panic!("{name}: {text}"));
    let rest = line.trim_start().strip_prefix(name).unwrap_or("").trim_start_matches(':');
    let cell = rest.split_whitespace().nth(at).unwrap_or_else(|| panic!("{line}"));
    cell.replace(',', "").parse().unwrap_or_else(|_| panic!("{line}"))
}

#[test]
fn a_report_tells_what_two_instances_did() {
    let db = Db::open(2);
    let out = db.skein("report").output().unwrap();
    assert_eq!(out.status.code(), Some(3), "no snapshots: {}", all_text(&out));
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select i, 0 from generate_series(1, 500) g(i)");
    assert_eq!(succeed(&mut db.skein("snapshot")).trim(), "1");
    for _ in 0..5 {
        for k in 1..=2 {
            db.sql(k, "update t set v = v + 1 where id <= 100");
            db.sql(k, "select count(*) from t where v > 0");
        }
    }
    assert_eq!(db.sql(2, "select dbms_workload_repository.create_snapshot()"), "2");
    let global = report(&db, &["--global"]);
    assert!(global.contains("Snaps: 1-2"), "{global}");
    for page in [
        "Load by Instance",
        "Top Timed Events",
        "Global Cache Load Profile",
        "Workload Characteristics",
        "Global Cache Block Waits by Instance Pair",
        "Foreground Wait Events",
        "Wait Event Histogram",
        "Instance Activity Stats",
        "Dictionary Cache Stats",
        "End of Report",
    ] {
        assert!(global.contains(page), "{page}: {global}");
    }
    assert!(figure(&global, "Global Cache blocks received", 0) > 0.0);
    assert!(figure(&global, "Transactions", 0) > 0.0);
    for k in ["1", "2"] {
        let one = report(&db, &["1", "2", "--instance", k]);
        assert!(one.contains(&format!("/skein{k}  Snaps: 1-2")), "{one}");
        assert!(figure(&one, "log file sync", 0) >= 5.0, "{one}");
        assert!(figure(&one, "Redo size", 0) > 0.0, "{one}");
    }
    let file = db.dir().join("report.html");
    let page = file.display().to_string();
    assert!(report(&db, &["1", "2", "--html", "--output", &page]).is_empty());
    let page = std::fs::read_to_string(&file).unwrap();
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
    assert!(page.contains("<svg"), "a chart: {page}");
    let told = succeed(&mut db.skein("diagnose"));
    assert!(told.starts_with("Snapshots 1 to 2 of "), "{told}");
    // The list, and what is not in it.
    let list = succeed(db.skein("snapshot").arg("--list"));
    assert_eq!(list.lines().count(), 5, "two snapshots of two instances: {list}");
    for (code, args, said) in [
        (1, ["1", "9"], "there is no snapshot 9; there are 1, 2"),
        (2, ["2", "1"], "must be a later snapshot"),
        (2, ["2", "2"], "must be a later snapshot"),
    ] {
        let out = db.skein("report").args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(code), "{args:?}");
        assert!(all_text(&out).contains(said), "{}", all_text(&out));
    }
    let kept = "select count(*) from v$fixed_table where name = 'V$ACTIVE_SESSION_HISTORY'";
    if db.sql(1, kept) == "1" {
        let ash = report(&db, &["--ash", "10"]);
        assert!(ash.starts_with("ASH REPORT") && ash.ends_with("End of Report\n"), "{ash}");
    } else {
        let out = db.skein("report").arg("--ash").output().unwrap();
        assert_eq!(out.status.code(), Some(3), "{}", all_text(&out));
    }
    assert!(!succeed(&mut db.client("pg_dump", 1)).contains("wrh$_"), "no part of a dump");
}

#[test]
fn a_restart_is_told_and_a_dead_instance_left_out() {
    let db = Db::open(2);
    let snapshot = || succeed(&mut db.skein("snapshot"));
    snapshot();
    db.abort(1);
    wait_until("it is out", || db.sql(2, "select count(*) from gv$instance") == "1");
    let out = db.skein("snapshot").output().unwrap();
    assert!(out.status.success(), "{}", all_text(&out));
    assert!(all_text(&out).contains("instance 1 is not in snapshot 2"), "{}", all_text(&out));
    db.start_all();
    wait_until("it is back", || db.sql(2, "select count(*) from gv$instance") == "2");
    snapshot();
    let refused = |args: &[&str]| {
        let out = db.skein("report").args(args).output().unwrap();
        assert_eq!(out.status.code(), Some(1), "{args:?}: {}", all_text(&out));
        all_text(&out)
    };
    let said = refused(&["1", "3", "--instance", "1"]);
    assert!(said.contains("instance 1 was started anew at"), "{said}");
    let said = refused(&["1", "2", "--instance", "1"]);
    assert!(said.contains("instance 1 is not in snapshot 2, only 2"), "{said}");
    // Of all: the one that went on, and why the other is missing.
    let global = report(&db, &["1", "3", "--global"]);
    assert!(global.contains("instance 1 was started anew"), "{global}");
    assert!(!global.contains("skein1"), "{global}");
    let unknown = skein().arg("report").arg(db.dir()).args(["--instance", "7"]).output().unwrap();
    assert_eq!(unknown.status.code(), Some(2), "{}", all_text(&unknown));
}

#[test]
fn snapshots_are_taken_by_one_instance_for_all_and_by_another_when_it_dies() {
    let db = Db::init_with(2, "256M", &["awr_snapshot_interval=1s"]);
    db.start_all();
    let count = |k| {
        let text = "select coalesce(max(snap_id), 0) from dba_hist_snapshot";
        let out = db.client("psql", k).args(["-X", "-q", "-A", "-t", "-c", text]).output().unwrap();
        String::from_utf8_lossy(&out.stdout).trim().parse::<i64>().unwrap_or(0)
    };
    wait_until("some are taken", || count(2) >= 3);
    // Each has both instances, and no two were taken at once.
    let text = "select count(*) from (select snap_id from dba_hist_snapshot group by snap_id \
                having count(*) <> 2 or count(distinct end_interval_time) <> 1) x";
    assert_eq!(db.sql(1, text), "0");
    let early = "select count(*) from dba_hist_snapshot a join dba_hist_snapshot b \
                 on a.snap_id + 1 = b.snap_id and a.instance_number = b.instance_number \
                 where b.end_interval_time - a.end_interval_time < interval '1 second'";
    assert_eq!(db.sql(2, early), "0");
    db.abort(1);
    let before = count(2);
    wait_until("the other goes on", || count(2) >= before + 2);
    db.sql(2, "alter system set awr_snapshot_interval = 0");
    let last = db.sql(2, "select dbms_workload_repository.create_snapshot()");
    let alone = format!(
        "select string_agg(instance_number::text, ',') from dba_hist_snapshot where snap_id = {last}"
    );
    assert_eq!(db.sql(2, &alone), "2");
}
