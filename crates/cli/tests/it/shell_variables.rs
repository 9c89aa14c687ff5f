//! `skein sql`: bind variables in statements, and what the server sees of them.

use crate::db::{Db, all_text, succeed, wait_until};
use crate::shell::typed;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::Stdio;

#[test]
fn a_statement_with_variables_is_one_whatever_their_values_are() {
    let db = Db::open(1);
    db.sql(1, "create table big (k int, v text)");
    db.sql(1, "insert into big select i, repeat('x', 500) || i from generate_series(1, 10000) i");
    db.sql(1, "create index big_k on big (k)");
    db.sql(1, "analyze big");
    let mut text = "alter session set tracefile_identifier = 'binds';
variable n number
variable s varchar2(20)
alter session set events '10046 trace name context forever , level 4';
"
    .to_owned();
    for n in 1..=10 {
        let _ = writeln!(text, "exec :n := {n}\nselect right(v, 2) as e from big where k = :n;");
    }
    text.push_str(
        "exec :s := 'it''s'
insert into big values (-:n, :s);
exec :s := null
insert into big values (-:n, :s);
alter session set events '10046 trace name context off';
",
    );
    let (good, out, err) = typed(&mut db.skein("sql"), &text);
    assert!(good, "{out}{err}");
    for n in 1..=9 {
        assert!(out.contains(&format!(" e\n----\n x{n}\n")), "{n}: {out}");
    }
    assert!(out.contains(" e\n----\n 10\n"), "{out}");
    let kept = "select string_agg(coalesce(v, 'none'), ' ' order by v) from big where k < 0";
    assert_eq!(db.sql(1, kept), "it's none");
    // By the index, though a number is no integer: each full scan would read more than 600 blocks.
    let seen = "select sql_text, sum(executions), sum(buffer_gets) < 3000 from v$sql \
                where sql_text like '%big %' and sql_text like '%$1%' \
                and sql_text not like '%v$sql%' group by sql_text order by 1";
    assert_eq!(
        db.sql(1, seen),
        "insert into big values (-$1, $2)|2|t\nselect right(v, 2) as e from big where k = $1|10|t"
    );
    let folder = std::fs::read_dir(db.dir().join("trace")).unwrap();
    let mut files = folder.map(|file| file.unwrap().path());
    let file = files.find(|path| path.to_string_lossy().ends_with("_binds.trc"));
    let trace = std::fs::read_to_string(file.expect("a trace")).unwrap();
    assert!(trace.contains("\nselect right(v, 2) as e from big where k = $1\nEND OF"), "{trace}");
    for n in 1..=10 {
        assert!(trace.contains(&format!("  value={n}\n")), "{n}: {trace}");
    }
    assert!(trace.contains("BINDS #") && trace.contains("  value=\"it's\"\n"), "{trace}");
}

#[test]
fn results_look_the_same_with_variables_and_without() {
    let db = Db::open(1);
    db.sql(1, "create type mood as enum ('sad', 'ok')");
    db.sql(1, "create table m (id int, k mood)");
    db.sql(1, "insert into m values (1, 'sad'), (2, 'ok')");
    let shown = "true as b, 1.50 as n, '\\x01ff'::bytea as y, interval '1 day 02:00' as i, \
                 array['a', 'b'] as a, date '2026-01-02' as d, '{\"x\": [1]}'::jsonb as j, k \
                 from m where id =";
    let text = format!(
        "variable n number = 2
variable s varchar2(3) = 'it''s'
variable d date = '2026-01-02 03:04:05'
variable e number
select {shown} 2;
select {shown} :n;
select :s as s, ':n' as q, '1'::int as c, a[1:2] as a /* :n */ -- :n
from (values (array[7, 8, 9])) x(a);
select coalesce(:e, 7) as e, :d as d;
select 'n'||:n||:e as joined from dual;
exec :n := 0.5
select 'n'||:n||:e as joined from dual;
exec :n := 2.5
select count(*) as c from (select 1 from m, m x where rownum <= :n) y;
explain select * from m where id = :n;
create table made as select :n as x;
select x from made;
exec :n := 2
update m set id = id + 1 where id = :n returning id, k;
set format json
select :n as n, :n = 2 as t, :s as s;
"
    );
    let (good, out, err) = typed(&mut db.skein("sql"), &text);
    assert!(good, "{out}{err}");
    let row = " t | 1.50 | \\x01ff | 1 day 02:00:00 | {a,b} | 2026-01-02 | {\"x\": [1]} | ok\n";
    assert_eq!(out.matches(row).count(), 2, "{out}");
    for part in [
        " s   | q  | c | a\n-----+----+---+-------\n it' | :n | 1 | {7,8}\n",
        " e | d\n---+---------------------\n 7 | 2026-01-02 03:04:05\n",
        " joined\n--------\n n2\n",
        " joined\n--------\n n.5\n",
        " c\n---\n 2\n",
        "QUERY PLAN",
        " x\n-----\n 2.5\n",
        " id | k\n----+----\n  3 | ok\n(1 row)\n",
        "\"n\": 2",
        "\"t\": true",
        "\"s\": \"it'\"",
    ] {
        assert!(out.contains(part), "{part:?}: {out}{err}");
    }
}

#[test]
fn what_takes_no_parameters_has_the_values_in_it() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int)");
    db.sql(1, "create procedure p(a number) as $$ insert into t values (a) $$ language sql");
    let text = "variable n number = 4
begin;
select :n as x into made;
select x from made where x = :n;
commit;
call p(:n);
select :n, $1;
set autocommit off
select id from t where id = :n;
select :n,
  nosuch(:n) from t;
select :n,
  nosuch + :n from t;
insert into t values (:n + 1);
commit;
select array_agg(id order by id) as ids from t where id >= :n;
exit
";
    let (_, out, err) = typed(&mut db.skein("sql"), text);
    for part in [" x\n---\n 4\n", " id\n----\n  4\n", " ids\n-------\n {4,5}\n"] {
        assert!(out.contains(part), "{part:?}: {out}{err}");
    }
    // A parameter that the statement has itself is none of the shell's.
    assert!(err.contains("42P02") || err.contains("08P01"), "{out}{err}");
    assert!(err.contains("42883"), "{out}{err}");
    let place = format!("LINE 2:   nosuch + :n from t\n{:10}^", "");
    assert!(err.contains("42703") && err.contains(&place), "{out}{err}");
    assert_eq!(err.matches("ERROR").count(), 3, "{out}{err}");
}

#[test]
fn variables_of_blocks_are_printed_when_that_is_set() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int generated always as identity, v text)");
    let text = "set feedback off
variable n number
variable v varchar2(10)
show autoprint
set autop on
show autoprint
exec :n := 7
begin :v := 'x' || :n; end;
/
select :n + 1 as shown;
insert into t (v) values ('a') returning id into :n;
exec null
exec :n := 1 / 0
set autoprint off
exec :n := 9
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(!good && err.contains("22012"), "{out}{err}");
    let wanted = [
        "autoprint OFF",
        "autoprint ON",
        " n",
        "---",
        " 7",
        " n | v",
        "---+----",
        " 7 | x7",
        " shown",
        "-------",
        "     8",
        " n",
        "---",
        " 1",
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted, "{err}");
}

#[test]
fn cursors_that_blocks_open_are_printed_once() {
    let db = Db::open(1);
    let text = "set feedback off
create table emp (id int, name varchar2(10));
insert into emp values (1, 'king'), (2, 'scott');
create or replace procedure open_it(rc out sys_refcursor, lo number default 0) as
begin
  open rc for select id, name from emp where id > lo order by id;
end;
/
create or replace function names(pattern varchar2) return sys_refcursor is
  c sys_refcursor;
begin
  open c for 'select name from emp where name like :1 order by 1' using pattern;
  return c;
end;
/
variable rc refcursor
variable n number
exec open_it(:rc)
insert into emp values (3, 'ford');
print rc
print rc
exec open_it(:rc, 2)
print :rc
exec :rc := names('%o%')
print rc
begin open :rc for select count(*) as k from emp; fetch :rc into :n; end;
/
print n
call open_it(:rc, 2);
print rc
create function twice(x number) return number as begin return 2 * x; end;
/
call twice(:n) into :n;
print n
set autoprint on
begin open :rc for select 'auto' as w from dual; end;
/
begin open :rc for select 'gone' as w from dual; close :rc; end;
/
set autoprint off
set autocommit off
begin open :rc for select max(id) as m from emp; end;
/
update emp set id = id + 10;
commit;
print rc
variable
select count(*) as k from pg_cursors;
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(!good && err.contains("bind variable \"rc\" has no open cursor"), "{out}{err}");
    // What was inserted behind OPEN is not among the rows.
    let wanted = [
        " id | name",
        "----+-------",
        "  1 | king",
        "  2 | scott",
        " id | name",
        "----+------",
        "  3 | ford",
        " name",
        "-------",
        " ford",
        " scott",
        " n",
        "---",
        " 3",
        " id | name",
        "----+------",
        "  3 | ford",
        " n",
        "---",
        " 6",
        " w",
        "------",
        " auto",
        " m",
        "---",
        " 3",
        "n number",
        "rc refcursor",
        " k",
        "---",
        " 0",
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted, "{err}");
}

#[test]
fn cursors_that_no_variable_stands_for_are_closed() {
    let db = Db::open(1);
    let text = "set feedback off
create table z (n int);
insert into z values (0);
variable a refcursor
variable b refcursor
begin open :a for select n from z; :b := :a; end;
/
begin :a := null; end;
/
select count(*) as k from pg_cursors;
variable b refcursor
select count(*) as k from pg_cursors;
begin open :a for select 1 / n as x from z; insert into z values (1); end;
/
select count(*) as k from pg_cursors;
print a
select count(*) as k from pg_cursors;
select sum(n) as s from z;
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(!good && err.contains("division by zero"), "{out}{err}");
    let shown: Vec<&str> = out.lines().collect();
    let counts = [
        [" k", "---", " 1"],
        [" k", "---", " 0"],
        [" k", "---", " 1"],
        [" k", "---", " 0"],
        [" s", "---", " 1"],
    ];
    assert_eq!(shown, counts.concat(), "{err}");
}

#[test]
fn a_statement_with_variables_is_ended_by_ctrl_c() {
    let db = Db::open(1);
    let mut sql = db.skein("sql");
    let piped = sql.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("it runs");
    let text = "variable n number = 5\nselect pg_sleep(600), :n as x;\nselect 'behind' as x;\n";
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("written");
    let asleep = "select count(*) from pg_stat_activity where pid <> pg_backend_pid() \
                  and state = 'active' and query like 'select pg_sleep(600), $1%'";
    wait_until("it runs", || db.sql(1, asleep) == "1");
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGINT).unwrap();
    let out = child.wait_with_output().expect("it ends");
    let said = all_text(&out);
    assert_eq!(out.status.code(), Some(1), "{said}");
    assert!(said.contains("57014") && !said.contains("behind"), "{said}");
    // The session that the next one begins is a fresh one.
    assert!(succeed(db.skein("sql").args(["-c", "select 1 as x"])).contains(" x\n---\n 1\n"));
}
