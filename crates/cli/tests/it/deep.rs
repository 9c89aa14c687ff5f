//! Statements that nest deeply or go on for long: each ends with its rows or with 54001, and the
//! instance goes on.

use crate::db::{Db, all_text};
use std::fmt::Write as _;

/// What psql says to a text too long for a command line.
fn said(db: &Db, sql: &str) -> String {
    let file = db.dir().join("deep.sql");
    std::fs::write(&file, format!("{sql};\n")).unwrap();
    let mut psql = db.client("psql", 1);
    psql.args(["-X", "-A", "-t", "-q", "-v", "VERBOSITY=verbose", "-f"]).arg(&file);
    all_text(&psql.output().unwrap()).trim().to_owned()
}

fn with_table() -> Db {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, g % 10 from generate_series(1, 1000) g");
    db
}

fn chain(count: usize, between: &str, one: impl Fn(usize) -> String) -> String {
    (0..count).map(one).collect::<Vec<String>>().join(between)
}

fn nested(count: usize, open: &str, inner: &str, close: &str) -> String {
    format!("{}{inner}{}", open.repeat(count), close.repeat(count))
}

/// Tables named in WITH, each of the one before, and the condition on each.
fn with(count: usize, value: &str, condition: &str) -> String {
    let parts = chain(count, ", ", |n| match n {
        0 => "c0 as (select id as x from t)".to_owned(),
        n => format!("c{n} as (select {value} as x from c{} {condition})", n - 1),
    });
    format!("with {parts} select count(*) from c{}", count - 1)
}

type Shape = (&'static str, fn(usize) -> String, &'static [usize], &'static [usize]);

/// Each with lengths that must work and lengths that may be refused.
const SHAPES: [Shape; 22] = [
    ("with", |n| with(n, "x", ""), &[10, 400], &[2_000, 10_000]),
    ("with sums", |n| with(n, "x + 1", ""), &[10, 100], &[2_000]),
    (
        "with exists",
        |n| with(n, "x", "where exists (select 1 from t where t.id = x)"),
        &[10, 200],
        &[2_000],
    ),
    (
        "or of and",
        |n| where_is(&chain(n, " or ", |n| format!("(v = {n} and id = {n})"))),
        &[100, 1_500, 2_505, 10_000],
        &[60_000, 200_000],
    ),
    ("or", |n| where_is(&chain(n, " or ", |n| format!("v = {n}"))), &[100, 10_000], &[200_000]),
    ("and", |n| where_is(&chain(n, " and ", |n| format!("v <> {n}"))), &[100, 10_000], &[200_000]),
    (
        "and or",
        |n| where_is(&chain(n, " or ", |n| format!("v = {n} and id > {n}"))),
        &[100, 2_000],
        &[100_000],
    ),
    ("union all", |n| chain(n, " union all ", |n| format!("select {n}")), &[100, 1_000], &[5_000]),
    ("union", |n| chain(n, " union ", |n| format!("select {n}")), &[100, 500], &[5_000]),
    ("except", |n| chain(n, " except ", |_| "select id from t".to_owned()), &[100], &[5_000]),
    ("sum", |n| format!("select {}", chain(n, " + ", |_| "1".to_owned())), &[750, 1_000], &[5_000]),
    ("texts", |n| format!("select {}", chain(n, " || ", |_| "'a'".to_owned())), &[750], &[5_000]),
    (
        "brackets",
        |n| format!("select {}", nested(n, "(", "1", ")")),
        &[87, 1_000],
        &[5_000, 100_000],
    ),
    (
        "case",
        |n| format!("select {} from t", nested(n, "case when v = 1 then 1 else ", "0", " end")),
        &[87, 300],
        &[5_000],
    ),
    ("calls", |n| format!("select {}", nested(n, "abs(", "1", ")")), &[80], &[5_000, 100_000]),
    (
        "from",
        |n| format!("select * {}", nested(n, "from (select * ", "from t", ") x")),
        &[43, 300],
        &[5_000],
    ),
    (
        "exists",
        |n| format!("select 1 where {}", nested(n, "exists (select 1 from t where ", "true", ")")),
        &[10],
        &[24, 100, 5_000],
    ),
    (
        "in",
        |n| where_is(&nested(n, "id in (select id from t where ", "true", ")")),
        &[10],
        &[100, 5_000],
    ),
    ("not", |n| format!("select {} true", "not ".repeat(n)), &[87, 1_000], &[5_000, 100_000]),
    ("cast", |n| format!("select 1 {}", "::int".repeat(n)), &[750], &[5_000, 100_000]),
    (
        "between",
        |n| format!("select true {}", "between true and true ".repeat(n)),
        &[],
        &[5_000, 100_000],
    ),
    ("subscripts", |n| format!("select (array[1]) {}", "[1]".repeat(n)), &[], &[5_000, 100_000]),
];

fn where_is(condition: &str) -> String {
    format!("select count(*) from t where {condition}")
}

#[test]
fn deep_statements_end_with_rows_or_an_error() {
    let db = with_table();
    for (name, shape, fine, other) in SHAPES {
        for count in fine {
            let got = said(&db, &shape(*count));
            assert!(!got.contains("ERROR") && !got.contains("closed"), "{name} {count}: {got}");
        }
        for count in other {
            let got = said(&db, &format!("set statement_timeout = '60s'; {}", shape(*count)));
            assert!(!got.contains("closed the connection"), "{name} {count}: {got}");
            assert!(!got.contains("ERROR") || got.contains("54001"), "{name} {count}: {got}");
        }
        assert_eq!(db.sql(1, "select count(*) from t"), "1000", "{name}");
    }
}

#[test]
fn views_of_views_end_with_rows_or_an_error() {
    let db = with_table();
    let mut sql = "create view v0 as select id, v from t;\n".to_owned();
    for n in 1..=100 {
        let _ = writeln!(sql, "create view v{n} as select id, v + 0 as v from v{};", n - 1);
    }
    assert_eq!(said(&db, &sql), "");
    assert_eq!(db.sql(1, "select count(*), sum(v) from v100"), "1000|4500");
    // Long ones on each other.
    let more = " union all select 1, 1".repeat(300);
    let mut sql = "create view u0 as select id, v from t;\n".to_owned();
    for n in 1..=4 {
        let _ = writeln!(sql, "create view u{n} as select id, v from u{} {more};", n - 1);
    }
    assert_eq!(said(&db, &sql), "");
    assert_eq!(db.sql(1, "select count(*) from u4"), "2200");
    let mut sql = "create view w0 as select id, v from t where id > 0;\n".to_owned();
    for n in 1..=100 {
        let _ = writeln!(sql, "create view w{n} as select id, v from w{};", n - 1);
    }
    assert_eq!(said(&db, &sql), "");
    assert_eq!(db.sql(1, "select count(*), sum(v) from w100"), "1000|4500");
    let changes = said(&db, "update w100 set v = v where id = 1; delete from w100 where id = 1000");
    assert!(!changes.contains("closed the connection"), "{changes}");
    assert_eq!(db.sql(1, "select count(*) from pg_views where viewname like 'w%'"), "101");
    // What was deep is dropped with its session, in whatever way it was held.
    let held = "prepare p as select count(*) from w100; execute p; \
        begin; declare c cursor for select * from w100; fetch 1 from c; commit; deallocate p";
    assert!(!said(&db, held).contains("closed the connection"));
}
