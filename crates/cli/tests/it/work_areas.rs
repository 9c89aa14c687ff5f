//! Statements that want more memory than they may have: what can be written to temporary files is,
//! what cannot fails alone.

use crate::clients::connect;
use crate::db::Db;

const ROWS: u64 = 200_000;

/// An instance of 16 MB of work areas, and a table of thrice that.
fn with_large_table() -> Db {
    let db = Db::init_with(1, "512M", &["pga_aggregate_target=16M"]);
    db.start_all();
    db.sql(1, "create table big (id int primary key, k int, t timestamptz, v text)");
    db.sql(
        1,
        &format!(
            "insert into big select i, i % 1000, '2026-01-01 00:00+00'::timestamptz + \
             i * interval '1 second', lpad(i::text, 150, 'abc') from generate_series(1, {ROWS}) i"
        ),
    );
    db.sql(1, "analyze big");
    // Joins are to be hashed, not looked up.
    db.sql(1, "create table other as select * from big");
    db
}

fn number(db: &Db, sql: &str) -> u64 {
    let text = db.sql(1, sql);
    text.parse().unwrap_or_else(|_| panic!("{sql}: {text}"))
}

fn stat(db: &Db, name: &str) -> u64 {
    number(db, &format!("select value from v$sysstat where name = '{name}'"))
}

#[test]
fn what_does_not_fit_into_memory_goes_through_temporary_files() {
    let db = with_large_table();
    let written = || stat(&db, "physical writes direct temporary tablespace");
    let cases = [
        // Sorts.
        (
            "select count(*) from (select v, lag(v) over (order by v) as before from big) s \
          where before >= v",
            "0",
        ),
        ("select id from big order by v desc, k offset 199999", "100000"),
        // By keys that are all of the rows: bytes of them that compare stand beside them.
        (
            "select count(*), sum(v) from (select v, lag(v) over (order by v, w, x) as before \
             from (select g % 1000 as v, g as w, g % 7 as x from generate_series(1, 1500000) g) n) \
             s where before <= v",
            "1499999|749250000",
        ),
        // Groups.
        (
            "select count(*), sum(n), sum(least) from \
          (select v, count(*) as n, min(id) as least from big group by v) g",
            "200000|200000|20000100000",
        ),
        ("select count(*) from (select distinct v, k from big) d", "200000"),
        // Joins of each kind, half of the rows with partners.
        (
            "select count(*), sum(a.id), max(b.v) = (select v from big where id = 9) \
          from big a join other b on a.id = b.id + 100000 and a.v > ''",
            "100000|15000050000|t",
        ),
        (
            "select count(*), count(b.v), sum(a.id) from big a left join other b \
          on a.id = b.id + 100000",
            "200000|100000|20000100000",
        ),
        (
            "select count(*), count(a.v), count(b.v) from big a full join other b \
          on a.id = b.id + 100000",
            "300000|200000|200000",
        ),
        (
            "select count(*), sum(length(a.v)) from big a where exists \
          (select 1 from other b where b.id + 100000 = a.id and b.v <> a.v)",
            "100000|15000000",
        ),
        (
            "select count(*), sum(length(a.v)) from big a where not exists \
          (select 1 from other b where b.id + 100000 = a.id and b.v <> a.v)",
            "100000|15000000",
        ),
        (
            "select count(*) from big a where a.k = 7 or exists \
          (select 1 from other b where b.v = a.v and b.k > 990)",
            "2000",
        ),
        // By texts and by instants.
        ("select count(*), sum(a.id - b.id) from big a join other b on a.v = b.v", "200000|0"),
        (
            "select count(*), min(length(b.v)) from big a join other b \
          on a.t = b.t + interval '10 seconds' and a.id = b.id + 10",
            "199990|150",
        ),
        // Branches of UNION ALL on either side.
        (
            "select count(*), sum(length(a.v)), sum(u.id) from big a join (select id, v from other \
          where id % 2 = 0 union all select id, v from other where id % 2 = 1) u on u.v = a.v",
            "200000|30000000|20000100000",
        ),
        // Rows that two places of the statement share.
        (
            "with g as (select k, v, count(*) as n from big group by k, v) select count(*), \
          sum(a.n + b.n) from g a join g b on a.v = b.v",
            "200000|400000",
        ),
        // A key with very many partners.
        (
            "select count(*), sum(length(a.v)) from big a join (select k % 2 as k, v from other \
          where id <= 100) b on a.k % 2 = b.k",
            "10000000|1500000000",
        ),
    ];
    for (sql, wanted) in cases {
        assert_eq!(db.sql(1, sql), wanted, "{sql}");
    }
    assert!(written() > 0);
    assert!(stat(&db, "physical reads direct temporary tablespace") > 0);
    let waits = "select count(*) from v$system_event where event in \
                 ('direct path read temp', 'direct path write temp') and total_waits > 0";
    assert_eq!(db.sql(1, waits), "2");
    let before = written();
    let join = "select a.id from big a join other b on a.v = b.v and length(b.v || a.v) > 0";
    let plan = db.sql(1, &format!("explain (analyze) {join}"));
    assert!(plan.contains("Merged: from temporary files"), "{plan}");
    assert!(written() > before);
    // The order that a step above relies on.
    let ids = db.sql(1, &format!("{join} order by a.id"));
    let ids: Vec<u64> = ids.lines().map(|id| id.parse().unwrap()).collect();
    assert!(ids.iter().copied().eq(1..=ROWS));
    let most = "select value from v$pgastat where name = 'maximum PGA used for auto workareas'";
    assert!(number(&db, most) <= 20 << 20, "{}", db.sql(1, "select * from v$pgastat"));
    let now = "select value from v$pgastat where name = 'total PGA used for auto workareas'";
    assert_eq!(db.sql(1, now), "0");
    assert_eq!(db.sql(1, "select count(*) from v$tempseg_usage"), "0");
}

#[test]
fn rows_of_a_held_cursor_go_through_a_temporary_file() {
    let db = with_large_table();
    let held = "select value between 1 and 20 * 1024 * 1024 from v$pgastat \
                where name = 'total PGA used for auto workareas'";
    let files = "select count(*), sum(blocks) > 1000 from v$tempseg_usage";
    let said = db.sql(
        1,
        &format!(
            "begin; declare c scroll cursor with hold for select id, v from big order by id; commit; \
             delete from big where id % 2 = 0; move 150000 in c; fetch c; fetch -1 from c; \
             fetch absolute 3 from c; fetch last from c; {held}; {files}; \
             fetch absolute 100 from c; close c; select count(*) from v$tempseg_usage"
        ),
    );
    let first = |line: &str| line.split('|').next().unwrap_or_default().to_owned();
    let said: Vec<String> = said.lines().map(first).collect();
    assert_eq!(said, ["150001", "150000", "3", "200000", "t", "1", "100", "0"]);
    // Code reads on from such rows, too.
    let sum = "do $$ declare c cursor for select id, v from big order by id; n bigint := 0; \
               begin for r in c loop n := n + r.id; end loop; raise notice '%', n; \
               if n <> 10000000000 then raise 'wrong: %', n; end if; end $$";
    db.sql(1, sum);
}

#[test]
fn what_cannot_leave_memory_fails_alone() {
    let db = with_large_table();
    for sql in [
        "select length(array_agg(v)::text) from big",
        "select length(string_agg(v, ',')) from big",
        "select length(json_agg(v)::text) from big",
        "select max(length(v)), max(s) from (select v, sum(k) over () as s from big) w",
        "select count(*) from big where (v || 'x') not in (select v from other)",
        "with recursive r(n, v) as (select 1, v from big union all \
         select n + 1, v || 'y' from r where n < 3) select count(*) from r",
    ] {
        let said = db.sql_error(1, "53200", sql);
        assert!(said.contains("pga_aggregate_target"), "{sql}: {said}");
    }
    // What the transaction did before stays.
    let kept = "begin; insert into big values (0, 0, now(), 'zero'); savepoint s; \
                select length(array_agg(v)::text) from big; rollback to s; commit";
    db.sql_error(1, "53200", kept);
    assert_eq!(db.sql(1, "select count(*) from big where id = 0"), "0");
    assert_eq!(db.sql(1, "select count(*) from big where v like '%1'"), "20000");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_large_statement_leaves_room_for_others() {
    let db = with_large_table();
    let mut client = connect(&db, 1).await;
    let transaction = client.transaction().await.unwrap();
    // Sorted and half of it held, until the cursor is closed.
    transaction.batch_execute("declare c cursor for select * from big order by v").await.unwrap();
    let rows = transaction.query("fetch 10 from c", &[]).await.unwrap();
    assert_eq!(rows.len(), 10);
    let held = db.sql(
        1,
        "select count(*) > 0, sum(blocks) > 0, min(segtype), max(sql_text) \
                          from v$tempseg_usage",
    );
    assert!(held.starts_with("t|t|SORT|"), "{held}");
    let sql = "select count(*), sum(length(b.v)) from big a join other b on a.v = b.v";
    assert_eq!(db.sql(1, sql), "200000|30000000");
    assert_eq!(db.sql(1, "select count(*) from (select distinct v from big) d"), "200000");
    let rows = transaction.query("fetch all from c", &[]).await.unwrap();
    assert_eq!(rows.len(), 199_990);
    transaction.commit().await.unwrap();
    assert_eq!(db.sql(1, "select count(*) from v$tempseg_usage"), "0");
}
