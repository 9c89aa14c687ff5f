//! Statements that nobody should write: each ends, with its error where it has one, and the
//! instance goes on.

use crate::db::{Db, all_text, wait_until};
use std::fmt::Write as _;
use std::process::Stdio;

/// What an instance with 32 MB of work areas may hold at most, with 32 MB of buffers.
const RESIDENT_MAX_KB: u64 = 3 << 20;

fn with_table() -> Db {
    let db = Db::init_with(1, "256M", &["pga_aggregate_target=32M"]);
    db.start_all();
    db.sql(1, "create table t (id int primary key, v text, d date, n numeric)");
    db.sql(
        1,
        "insert into t select g, 'v' || g, date '2024-01-01' + g, g / 2.0 \
         from generate_series(1, 1000) g",
    );
    db
}

/// What psql says to a text too long for a command line.
fn said(db: &Db, sql: &str) -> String {
    let file = db.dir().join("long.sql");
    std::fs::write(&file, sql).unwrap();
    let mut psql = db.client("psql", 1);
    psql.args(["-X", "-A", "-t", "-q", "-v", "VERBOSITY=verbose", "-f"]).arg(&file);
    all_text(&psql.output().unwrap()).trim().to_owned()
}

/// The most that the instance has held in memory so far.
fn resident_kb(db: &Db) -> u64 {
    let pid = db.status()["instances"][0]["pid"].as_u64().unwrap();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

fn list(count: usize, one: impl Fn(usize) -> String) -> String {
    (0..count).fold(String::new(), |mut text, n| {
        let _ = write!(text, "{}{}", if n == 0 { "" } else { ", " }, one(n));
        text
    })
}

#[test]
fn long_lists_are_looked_through_by_order() {
    let db = with_table();
    let ints = |count| list(count, |n| (n * 2).to_string());
    let texts = |count| list(count, |n| format!("'v{}'", n * 2));
    let cases = [
        (format!("id in ({})", ints(2_000)), "500"),
        (format!("id not in ({})", ints(2_000)), "500"),
        (format!("id not in ({}, null)", ints(2_000)), "0"),
        (format!("id in ({}, null)", ints(2_000)), "500"),
        (format!("id in (-1, -9223372036854775808, {})", ints(2_000)), "500"),
        (format!("n in ({})", ints(2_000)), "250"),
        (format!("id::float8 in ({})", ints(2_000)), "500"),
        (format!("id::real in ({})", ints(2_000)), "500"),
        (format!("id + 1 in ({})", ints(2_000)), "500"),
        (format!("v in ({})", texts(2_000)), "500"),
        (format!("v || '' not in ({})", texts(2_000)), "500"),
        (format!("v in ({}, 'it''s, \"\\ {{}}')", texts(2_000)), "500"),
        (format!("v in ({}, 'v1', null)", texts(2_000)), "501"),
        (format!("d in ({})", list(2_000, |n| format!("'{}-01-05'", 1500 + n))), "3"),
        (format!("id in ({})", list(2_000, |n| format!("'{n}'"))), "1000"),
        (format!("(id in ({})) is null", ints(2_000)), "0"),
    ];
    for (condition, count) in cases {
        let got = said(&db, &format!("select count(*) from t where {condition};"));
        assert_eq!(got, count, "{}", &condition[..60]);
    }
    let wrong = format!("select count(*) from t where d in ({});", texts(2_000));
    assert!(said(&db, &wrong).contains("22007"));
    let wrong = format!("select count(*) from t where v in ({});", ints(2_000));
    assert!(said(&db, &wrong).contains("42883"));
    let update = format!("update t set v = 'changed' where id in ({});", ints(2_000));
    assert_eq!(said(&db, &update), "");
    let delete = format!("delete from t where id not in ({});", ints(2_000));
    assert_eq!(said(&db, &delete), "");
    assert_eq!(
        db.sql(1, "select count(*), count(*) filter (where v = 'changed') from t"),
        "500|500"
    );
    let sql = format!("select count(*) from t where id in ({});", ints(1_000_000));
    assert_eq!(said(&db, &sql), "500");
    let sql = format!("select count(*) from t where id = any('{{{}}}');", ints(1_000_000));
    assert_eq!(said(&db, &sql), "500");
    assert!(resident_kb(&db) < RESIDENT_MAX_KB, "{} kB", resident_kb(&db));
}

#[test]
fn what_is_too_large_fails_alone() {
    let db = with_table();
    for sql in [
        "select length(repeat('x', 1000000000))",
        "select length(repeat('x', 30000000) || repeat(repeat('y', 1000), 1000000))",
        "select length(repeat('x', 1000 * id) || repeat('y', 1000000 * id)) from t",
        "select max(array_length(a, 1)) from (select array_agg(g) over (order by g) as a \
         from generate_series(1, 10000) g) s",
        "select max(w) from (select repeat('x', 1000000 * id) as w from t offset 0) s",
        "select length(replace(repeat('x', 30000000), 'x', 'yyyyyyyyyy'))",
        "select length(lpad('x', 100000000))",
        "select length(string_agg(repeat('x', 1000000), ',')) from generate_series(1, 3000) g",
        "select array_length(array_fill(1, array[100000000]), 1)",
        "select length(json_agg(g)::text) from generate_series(1, 5000000) g",
        "select count(*) from (select distinct repeat('x', 100000) || g \
         from generate_series(1, 30000) g) d",
    ] {
        db.sql_error(1, "53200", sql);
        assert_eq!(db.sql(1, "select count(*) from t"), "1000");
    }
    assert!(resident_kb(&db) < RESIDENT_MAX_KB, "{} kB", resident_kb(&db));
}

/// Rows whose values do not fit together are worked on some after others.
#[test]
fn what_streams_needs_memory_for_some_rows_only() {
    let db = with_table();
    for (sql, answer) in [
        (
            "select count(*), max(length(v)) from (select repeat(v, 1000) as v from t) q",
            "1000|5000",
        ),
        (
            "select sum(length(repeat('x', 1000000 + g))) from generate_series(1, 300) g",
            "300045150",
        ),
        (
            "select max(length(case when g > 5 then repeat('x', 1000000 + g) end)) \
             from generate_series(1, 300) g",
            "1000300",
        ),
        (
            "select count(*), max(length(w)) from \
             (select repeat('x', 1000000) || id as w from t offset 0) q",
            "1000|1000004",
        ),
        ("select count(*) from t where repeat(v, 200000) || id like '%1000'", "1"),
        (
            "select max(length(case when id > 500 then repeat('x', 1000000) else v end)) from t",
            "1000000",
        ),
    ] {
        assert_eq!(db.sql(1, sql), answer, "{sql}");
    }
    let mut psql = db.client("psql", 1);
    psql.args(["-X", "-A", "-t", "-q", "-v", "FETCH_COUNT=10", "-c"]);
    psql.arg("select repeat('x', 1000000) from generate_series(1, 300)");
    assert_eq!(psql.output().unwrap().stdout.len(), 300 * 1_000_001);
    assert!(resident_kb(&db) < RESIDENT_MAX_KB, "{} kB", resident_kb(&db));
}

/// What works on rows for long and hands none on.
fn endless() -> Vec<String> {
    let pairs = "generate_series(1, 1000000) a, generate_series(1, 1000000) b";
    let ones = "(select 1 as k from t)";
    let four = format!("{ones} a join {ones} b using (k) join {ones} c using (k)");
    vec![
        format!("select count(*) from {pairs} where a + b = -1"),
        format!("select count(*) from {pairs} where a > b + 2000000"),
        format!("select count(*) from {pairs}"),
        format!("select sum(a) from {pairs}"),
        format!("select count(*) from {four} join {ones} d using (k)"),
        "select count(*) from generate_series(1, 1000000000000000)".to_owned(),
        "select count(*) from (select unnest(array_fill(1, array[100000])) as u \
         from generate_series(1, 1000000000) g) s where u = 2"
            .to_owned(),
        "select max(a) over (order by a rows between 50000 preceding and 50000 following \
         exclude current row) from generate_series(1, 1000000) a offset 1000000"
            .to_owned(),
        "with recursive r(n) as (select 1 union all select (n + 1) % 1000 from r) \
         select count(*) from r"
            .to_owned(),
    ]
}

#[test]
fn what_never_ends_ends_with_its_time() {
    let db = with_table();
    for sql in endless() {
        db.sql_error(1, "57014", &format!("set statement_timeout = '1s'; {sql}"));
    }
    assert!(resident_kb(&db) < RESIDENT_MAX_KB, "{} kB", resident_kb(&db));
}

#[test]
fn what_never_ends_ends_when_it_is_cancelled() {
    let db = with_table();
    for (at, sql) in endless().into_iter().enumerate() {
        // Its name tells it from the others.
        let mark = format!("endless {at}");
        let mut psql = db.client("psql", 1);
        psql.env("PGAPPNAME", &mark).args(["-X", "-q", "-v", "VERBOSITY=verbose", "-c", &sql]);
        let psql = psql.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let running = format!(
            "select count(*) from pg_stat_activity \
             where application_name = '{mark}' and query <> ''"
        );
        wait_until("it runs", || db.sql(1, &running) == "1");
        // psql asks for the statement's end then.
        let pid = nix::unistd::Pid::from_raw(i32::try_from(psql.id()).unwrap());
        nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGINT).unwrap();
        let said = all_text(&psql.wait_with_output().unwrap());
        assert!(said.contains("57014"), "{sql}: {said}");
    }
}

#[test]
fn what_has_no_value_is_an_error_everywhere() {
    let db = with_table();
    for (code, sql) in [
        ("22012", "select sum(1 / (id - 5)) from t"),
        ("22012", "select v, avg(id % (id - id)) from t group by v"),
        ("22012", "select sum(1 / (id - 5)) over (order by id) from t"),
        ("22012", "select count(*) from t having sum(1 / (id - 5)) > 0"),
        ("22012", "select string_agg((1 / (id - 5))::text, ',') from t"),
        ("22012", "select sum(id) filter (where 1 / (id - 5) > 0) from t"),
        ("22012", "select array_agg(id order by 1 / (id - 5)) from t"),
        ("22003", "select sum(id * 2147483647) from t"),
        ("22003", "select sum(power(10.0::float8, 308) * id) from t"),
        ("22003", "select max(id::smallint * 1000::smallint) from t"),
        ("22008", "select max(d + 2147483647) from t"),
    ] {
        db.sql_error(1, code, sql);
    }
    assert_eq!(db.sql(1, "select count(*) from t"), "1000");
}

#[test]
fn tables_and_rows_have_at_most_1600_columns() {
    let db = with_table();
    let columns = |count| list(count, |n| format!("c{n} int"));
    assert_eq!(said(&db, &format!("create table wide ({});", columns(1_600))), "");
    assert!(said(&db, &format!("create table wider ({});", columns(1_601))).contains("54011"));
    assert!(said(&db, "alter table wide add c1600 int;").contains("54011"));
    let values = list(1_600, |n| n.to_string());
    assert_eq!(said(&db, &format!("insert into wide values ({values});")), "");
    assert_eq!(db.sql(1, "select c0, c1599 from wide"), "0|1599");
    let sums = list(1_600, |n| format!("sum(c{n})"));
    assert_eq!(said(&db, &format!("select {sums} from wide;")), values.replace(", ", "|"));
    let many = list(1_665, |n| n.to_string());
    assert!(said(&db, &format!("select {many};")).contains("54011"));
    db.sql(1, "drop table wide");
}
