//! The web console over HTTP: what was sampled before anybody looked, statements, who blocks whom,
//! snapshots and reports.

use crate::console::{console_port, create_user, get, log_on, message, post, rows};
use crate::db::{Db, PASSWORD, wait_until};
use serde_json::{Value, json};
use std::io::Write;
use std::process::{Child, Stdio};

/// A client that keeps its session open, and runs what it is told.
pub struct Client(Child);

impl Client {
    pub fn on(db: &Db, k: u16) -> Client {
        let mut psql = db.client("psql", k);
        psql.args(["-X", "-q"]).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Client(psql.spawn().expect("psql runs"))
    }

    pub fn run(&mut self, sql: &str) {
        let stdin = self.0.stdin.as_mut().expect("a pipe");
        writeln!(stdin, "{sql}").and_then(|()| stdin.flush()).expect("psql reads");
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A table, and a session of instance 1 that holds one of its rows while one of instance 2 waits
/// for it.
pub fn blocked_row(db: &Db) -> [Client; 2] {
    db.sql(1, "create table accounts (id int primary key, balance int)");
    db.sql(1, "insert into accounts select g, 0 from generate_series(1, 500) g");
    let [mut holds, mut waits] = [1, 2].map(|k| Client::on(db, k));
    holds.run("begin; update accounts set balance = 1 where id = 1;");
    wait_until("the row is held", || db.sql(1, "select count(*) from v$transaction") == "1");
    waits.run("begin; update accounts set balance = balance + 2 where id = 1;");
    [holds, waits]
}

fn waited(db: &Db) -> u64 {
    let samples = "select count(*) from gv$active_session_history where inst_id = 2 \
                   and event like 'enq: TX%' and current_obj# > 0";
    db.sql(1, samples).parse().unwrap()
}

#[test]
fn what_was_sampled_before_anybody_looked_is_shown() {
    let db = Db::open(2);
    let port = console_port(&db, 1);
    create_user(&db, "ann", "");
    let [mut holds, _waits] = blocked_row(&db);
    wait_until("the wait has been sampled", || waited(&db) >= 5);
    holds.run("rollback;");
    // The newest are fetched again for 2.5 s, since they may change so long.
    let settled = "select max(sample_time) < now() - interval '3 seconds' \
                   from gv$active_session_history where event like 'enq: TX%'";
    wait_until("the samples no longer change", || db.sql(1, settled) == "t");
    let (ann, skein) = (log_on(port, "ann", PASSWORD), log_on(port, "skein", PASSWORD));
    let look = |cookie: &str, query: &str| {
        let reply = get(port, cookie, &format!("/api/activity?{query}"));
        assert_eq!(reply.status, 200, "{query}: {}", reply.body);
        reply.json()
    };
    let application = |point: &Value| point[1] == 2 && point[2][4].as_f64() > Some(0.2);
    let points = |shown: &Value| shown["points"].as_array().unwrap().clone();
    wait_until("a step of the chart of instance 2 is whole", || {
        points(&look(&skein, "minutes=15")).iter().any(application)
    });
    let shown = look(&skein, "minutes=15&range=whole");
    assert_eq!(shown["classes"][4], "Application");
    let find = |shown: &Value, list: &str, holds: &dyn Fn(&Value) -> bool| {
        let all = shown[list].as_array().unwrap();
        all.iter().find(|row| holds(row)).unwrap_or_else(|| panic!("{list}: {shown}")).clone()
    };
    let is_lock = |row: &Value| row["name"] == "enq: TX - row lock contention";
    let event = find(&shown, "events", &is_lock);
    assert_eq!(event["class"], "Application");
    let waited_s = event["active"].as_f64().unwrap() * 15.0 * 60.0;
    assert!((4.0..90.0).contains(&waited_s), "{waited_s} s: {shown}");
    let of_lock = |row: &Value| row["event"] == "enq: TX - row lock contention";
    assert_eq!(find(&shown, "sessions", &of_lock)["inst_id"], 2);
    let sql_id = find(&shown, "statements", &of_lock)["sql_id"].as_str().unwrap().to_owned();
    let object = find(&shown, "objects", &of_lock)["object"].as_u64().unwrap();
    // Everybody sees the same samples; texts are for who may see them.
    assert_eq!(look(&ann, "minutes=15&range=whole")["events"], shown["events"]);
    let names = format!("/api/names?sql={sql_id}&objects={object}");
    let text =
        |cookie: &str| rows(&get(port, cookie, &names).json(), "texts")[0]["sql_text"].clone();
    assert_eq!(text(&skein), "update accounts set balance = balance + 2 where id = 1");
    assert_eq!(text(&ann), "<insufficient privilege>");
    assert_eq!(rows(&get(port, &ann, &names).json(), "objects")[0]["name"], "accounts");

    // Of one statement, of one instance, of a part of the time.
    let only = look(&skein, &format!("minutes=15&range=whole&sql_id={sql_id}"));
    assert_eq!(only["statements"].as_array().unwrap().len(), 1);
    let other = look(&skein, "minutes=15&range=whole&instance=1");
    assert!(other["events"].as_array().unwrap().iter().all(|row| !is_lock(row)), "{other}");
    let (from, to) = (shown["from"].as_i64().unwrap(), shown["to"].as_i64().unwrap());
    let before = look(&skein, &format!("from={}&to={}", from - 60_000, from));
    assert_eq!((before["events"].clone(), before["active"].as_f64()), (json!([]), Some(0.0)));
    assert!(to > from);
    for wrong in ["minutes=0", "sql_id=x", "from=5&to=4", "range=x"] {
        assert_eq!(get(port, &ann, &format!("/api/activity?{wrong}")).status, 400, "{wrong}");
    }
    // However often it is looked, what the console fetches with is one statement or two.
    let own = "from v$sql where sql_text like '%/* skein console */%' \
               and sql_text like '%from gv$active_session_history%' \
               and sql_text not like '%from v$sql %'";
    let executions = format!("select coalesce(sum(executions), 0) {own}");
    let fetched = || db.sql(1, &executions).parse::<u64>().unwrap();
    let before = fetched();
    wait_until("it has been fetched often", || {
        look(&skein, "");
        fetched() >= before + 4
    });
    let own: u64 = db.sql(1, &format!("select count(*) {own}")).parse().unwrap();
    assert!((1..=8).contains(&own), "{own} statements");
}

#[test]
fn statements_are_shown_by_cost_and_in_full() {
    let db = Db::open(2);
    let port = console_port(&db, 1);
    create_user(&db, "ann", "");
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, 0 from generate_series(1, 2000) g");
    for _ in 0..4 {
        for k in 1..=2 {
            db.sql(k, "select sum(v), 'of all' from t where v >= 0");
        }
    }
    let skein = log_on(port, "skein", PASSWORD);
    let id = db.sql(
        1,
        "select max(sql_id) from gv$sqlstats where sql_text like '%''of all''%' \
                        and sql_text not like '%gv$sqlstats%'",
    );
    let all = get(port, &skein, "/api/statements");
    assert_eq!(all.status, 200, "{}", all.body);
    let of: Vec<_> =
        rows(&all.json(), "statements").into_iter().filter(|row| row["sql_id"] == id).collect();
    assert_eq!(of.len(), 2, "a row for each instance: {}", all.body);
    for row in &of {
        assert_eq!(row["executions"], 4);
        assert!(row["elapsed_time"].as_u64() > Some(0) && row["buffer_gets"].as_u64() > Some(4));
    }
    let since = of.iter().map(|row| row["active_ms"].as_i64().unwrap()).max().unwrap();
    db.sql(2, "select 'newer'");
    let newer = get(port, &skein, &format!("/api/statements?since={since}")).json();
    let newer = rows(&newer, "statements");
    assert!(!newer.is_empty() && newer.iter().all(|row| row["sql_id"] != id), "{newer:?}");
    let own = rows(&get(port, &skein, "/api/statements").json(), "statements");
    let texts = |ids: &str| get(port, &skein, &format!("/api/names?sql={ids}")).body;
    let ids: Vec<&str> = own.iter().filter_map(|row| row["sql_id"].as_str()).take(60).collect();
    assert!(!texts(&ids.join(",")).contains("/* skein console */"), "its own are not among them");

    let opened = get(port, &skein, &format!("/api/statement?sql_id={id}")).json();
    let text = &rows(&opened, "text")[0]["sql_fulltext"];
    assert_eq!(text, "select sum(v), 'of all' from t where v >= 0");
    let plans = rows(&opened, "plans");
    assert_eq!(plans.iter().map(|row| row["inst_id"].clone()).collect::<Vec<_>>(), [1, 2]);
    let hashes: Vec<_> = plans.iter().map(|row| &row["plan_hash_value"]).collect();
    assert!(hashes[0].as_u64() > Some(0) && hashes[0] == hashes[1], "{hashes:?}");
    let steps = rows(&opened, "steps");
    assert!(steps.iter().any(|row| row["operation"] == "TABLE ACCESS"), "{steps:?}");
    let ann = log_on(port, "ann", PASSWORD);
    let opened = get(port, &ann, &format!("/api/statement?sql_id={id}")).json();
    assert_eq!(rows(&opened, "text")[0]["sql_fulltext"], "<insufficient privilege>");
}

#[test]
fn who_blocks_whom_is_told_with_the_lock() {
    let db = Db::open(2);
    let port = console_port(&db, 2);
    let skein = log_on(port, "skein", PASSWORD);
    let _clients = blocked_row(&db);
    let blocked = || {
        let answer = get(port, &skein, "/api/sessions").json();
        let sessions = rows(&answer, "sessions");
        let waits = sessions.iter().find(|s| s["blocking_session"].is_number())?.clone();
        let holds = sessions.iter().find(|s| s["sid"] == waits["blocking_session"])?.clone();
        Some((waits, holds))
    };
    wait_until("the lock is waited for", || blocked().is_some());
    let (waits, holds) = blocked().unwrap();
    assert_eq!((&waits["inst_id"], &holds["inst_id"]), (&json!(2), &json!(1)));
    assert_eq!(waits["final_blocking_session"], holds["sid"]);
    // `TX` and the mode, as the page takes them apart.
    let [name, mode] = [(u64::from(b'T') << 8 | u64::from(b'X')) << 16, 6];
    assert_eq!((&waits["p1text"], &waits["p1"]), (&json!("name|mode"), &json!(name | mode)));
    let object = waits["row_wait_obj#"].as_u64().unwrap();
    let names = get(port, &skein, &format!("/api/names?objects={object}")).json();
    assert_eq!(rows(&names, "objects")[0]["name"], "accounts");
}

#[test]
fn reports_are_made_of_snapshots_that_superusers_take() {
    let db = Db::open(2);
    let port = console_port(&db, 2);
    create_user(&db, "ann", "");
    create_user(&db, "eve", "");
    db.sql(1, "grant pg_read_all_stats to eve");
    let [ann, eve, skein] = ["ann", "eve", "skein"].map(|user| log_on(port, user, PASSWORD));
    let list = |cookie: &str| get(port, cookie, "/api/snapshots");
    assert_eq!(list(&skein).json()["snapshots"], json!([]), "there is none yet");
    let take = |cookie: &str| post(port, cookie, "/api/snapshot", &json!({}));
    let refused = take(&ann);
    assert_eq!(refused.status, 403, "{}", refused.body);
    assert!(message(&refused).contains("dbms_workload_repository"), "{}", refused.body);
    assert_eq!(take(&eve).status, 403, "who sees statistics may not write them");
    let taken = take(&skein);
    assert_eq!((taken.status, &taken.json()["snap_id"]), (200, &json!(1)), "{}", taken.body);
    // Whatever came of it, nothing is left open, and sessions are read-only again.
    let open = "select count(*) from gv$transaction";
    assert_eq!(db.sql(1, open), "0");
    let text = json!({ "sql_text": "select nextval('s')" });
    db.sql(1, "create sequence s");
    assert_eq!(post(port, &skein, "/api/explain", &text).status, 200);

    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, 0 from generate_series(1, 500) g");
    for _ in 0..3 {
        for k in 1..=2 {
            db.sql(k, "update t set v = v + 1 where id <= 100");
        }
    }
    assert_eq!(take(&skein).json()["snap_id"], 2);
    let snapshots = list(&eve).json()["snapshots"].as_array().unwrap().clone();
    let ids: Vec<_> =
        snapshots.iter().map(|s| (s["snap_id"].clone(), s["inst_id"].clone())).collect();
    let pair = |id: i64, k: i64| (json!(id), json!(k));
    assert_eq!(ids, [pair(1, 1), pair(1, 2), pair(2, 1), pair(2, 2)]);
    assert_eq!(list(&ann).status, 403, "snapshots are for who may see statistics");

    let report = |cookie: &str, query: &str| get(port, cookie, &format!("/api/report?{query}"));
    for (query, parts) in [
        ("kind=workload&begin=1&end=2", ["Load by Instance", "Top Timed Events", "Snaps: 1-2"]),
        ("kind=workload&begin=1&end=2&instance=1", ["/skein1", "Load Profile", "Redo size"]),
        ("kind=diagnosis&begin=1&end=2", ["Skein diagnosis", "Snapshots 1 to 2", "average"]),
        ("kind=ash&minutes=10", ["ASH REPORT", "Samples", "Average Active Sessions"]),
    ] {
        for cookie in [&skein, &eve] {
            let reply = report(cookie, query);
            assert_eq!(reply.status, 200, "{query}: {}", reply.body);
            assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
            let policy = reply.header("content-security-policy");
            assert!(policy.ends_with("; sandbox") && policy.contains("default-src 'none'"));
            assert!(reply.header("cross-origin-opener-policy").is_empty());
            for part in parts {
                assert!(reply.body.contains(part), "{query}: {part}: {}", reply.body);
            }
        }
    }
    let file = report(&skein, "kind=workload&begin=1&end=2&instance=2&download=1");
    let expected = "attachment; filename=\"skein-report-1-2-instance-2.html\"";
    assert_eq!(file.header("content-disposition"), expected);
    for (status, cookie, query, said) in [
        (400, &skein, "kind=workload&begin=2&end=1", "must be a later snapshot"),
        (400, &skein, "kind=workload&begin=1&end=9", "there is no snapshot 9; there are 1, 2"),
        (400, &skein, "kind=diagnosis&begin=1", "end is wanted"),
        (400, &skein, "kind=script", "kind is workload, diagnosis or ash"),
        (403, &ann, "kind=workload&begin=1&end=2", "permission denied"),
    ] {
        let reply = report(cookie, query);
        assert_eq!(reply.status, status, "{query}: {}", reply.body);
        assert!(reply.body.contains(said), "{query}: {}", reply.body);
        assert_eq!(reply.header("content-type"), "text/html; charset=utf-8");
    }
}
