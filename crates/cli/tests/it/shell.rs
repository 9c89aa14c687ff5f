//! `skein sql` as people and scripts use it: words of psql and of the field, formats, errors.

use crate::db::{Db, all_text, fail, succeed};
use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

/// A text on standard input.
pub fn typed(command: &mut Command, text: &str) -> (bool, String, String) {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().expect("it runs");
    child.stdin.take().expect("its input").write_all(text.as_bytes()).expect("written");
    let out = child.wait_with_output().expect("it ends");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.success(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn scripts_of_the_field_run_as_they_are_typed() {
    let db = Db::open(2);
    let folder = db.dir();
    std::fs::write(folder.join("inner.sql"), "prompt inner &1\ninsert into t values (&1, 'i');\n")
        .unwrap();
    let script = folder.join("script.sql");
    let text = "\
REM a script as a DBA writes it
set serveroutput on size unlimited
set feedback off
drop table if exists t;
create table t (id number primary key, v varchar2(10));
begin
  for i in 1..3 loop
    insert into t values (i, 'v' || i);
  end loop;
  dbms_output.put_line('made');
end;
/
create or replace procedure twice(a in number, b out number) is
begin
  b := a * 2;
end;
/
variable n number
exec :n := 20
exec twice(:n, :n);
print n
select v from t where id = :n - 38;
@inner 7
define who = t
select count(*) as c from &who;
prompt done
select v from t where id = 7
/
connect 2
select max(id) as m from t;
";
    std::fs::write(&script, text).unwrap();
    let said = succeed(db.skein("sql").arg(&script));
    let wanted = [
        "made\n",
        " n\n----\n 40\n",
        " v\n----\n v2\n",
        "inner 7\n",
        " c\n---\n 4\n",
        "done\n",
        " v\n---\n i\n",
        "connected to instance 2\n",
        " m\n---\n 7\n",
    ];
    let mut rest = said.as_str();
    for part in wanted {
        let at = rest.find(part).unwrap_or_else(|| panic!("{part:?} is not in order: {said}"));
        rest = &rest[at + part.len()..];
    }
}

#[test]
fn errors_have_a_place_and_whenever_says_what_then() {
    let db = Db::open(1);
    let script = db.dir().join("script.sql");
    let text = "create table t (id int);\n\ninsert into t values (1);\nselect *\n  from nosuch;\n\
                insert into t values (2);\n";
    std::fs::write(&script, text).unwrap();
    let said = fail(1, db.skein("sql").arg(&script));
    assert!(said.contains("42P01") && said.contains("line 5, column 8"), "{said}");
    assert!(said.contains("LINE 2:   from nosuch\n               ^"), "{said}");
    assert_eq!(db.sql(1, "select max(id) from t"), "2");
    let text = "whenever sqlerror continue\nselect 1/0;\ninsert into t values (3);\n\
                whenever sqlerror exit 7\nselect 1/0;\ninsert into t values (4);\n";
    std::fs::write(&script, text).unwrap();
    let said = fail(7, db.skein("sql").arg(&script));
    assert_eq!(said.matches("22012").count(), 2, "{said}");
    assert_eq!(db.sql(1, "select max(id) from t"), "3");
    // As the field's shell is given a script: `@`, and without its ending.
    let at = format!("@{}", script.with_extension("").display());
    assert!(fail(7, db.skein("sql").arg(&at)).contains("22012"));
    assert!(fail(1, db.skein("sql").arg("@nosuch")).contains("read nosuch:"));
    fail(5, db.skein("sql").args(["-c", "exit 5"]));
    for bad in ["\\nosuch", "set format x", "print y", "@nosuch", "connect 9", "variable x"] {
        assert!(!fail(1, db.skein("sql").args(["-c", bad])).is_empty(), "{bad}");
    }
}

#[test]
fn results_come_in_the_format_that_is_asked_for() {
    let db = Db::open(1);
    let one = "select 1 as id, 'a,b' as t, null as n, true as b, '{\"x\": 1}'::jsonb as j";
    let sql = |format: &str| {
        let mut sql = db.skein("sql");
        sql.args(["--format", format, "-c", one]);
        succeed(&mut sql)
    };
    assert_eq!(sql("csv"), "id,t,n,b,j\n1,\"a,b\",,t,\"{\"\"x\"\": 1}\"\n");
    let json = sql("json");
    for part in ["\"id\": 1", "\"t\": \"a,b\"", "\"n\": null", "\"b\": true", "\"x\": 1"] {
        assert!(json.contains(part), "{part}: {json}");
    }
    assert!(sql("expanded").contains("id | 1\nt  | a,b\n"), "{}", sql("expanded"));
    let text = "create table cp (a int, b text);\ncopy cp from stdin;\n1\tx\n2\t\\N\n\\.\n\
                \\pset null -\nselect * from cp order by a;\n\\timing on\nselect 1;\n";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good && out.contains("done, 2 rows\n a | b\n---+---\n 1 | x\n 2 | -\n"), "{out}{err}");
    assert!(out.contains("Time: "), "{out}");
}

#[test]
fn what_there_is_can_be_looked_at() {
    let db = Db::open(1);
    let text = "create type mood as enum ('sad', 'ok');\n\
                create table parent (id int primary key, m mood not null default 'ok');\n\
                create table child (id int, p int references parent check (p > 0));\n\
                create index child_p on child (p);\ncreate view w as select id from parent;\n\
                create sequence s;\n\
                create function f(a int) returns int language sql as 'select a';\n";
    let (good, _, err) = typed(&mut db.skein("sql"), text);
    assert!(good, "{err}");
    let shown = |command: &str| succeed(db.skein("sql").args(["-c", command]));
    for (command, wanted) in [
        ("\\d", "public | child  | table"),
        ("\\dt par*", "parent"),
        ("\\dv", "w"),
        ("\\ds", "s"),
        ("\\di", "child_p"),
        ("\\df", "a integer"),
        ("\\df upp?r", "upper"),
        ("\\dn", "public"),
        ("\\du", "superuser"),
        ("\\dT", "sad, ok"),
        ("\\l", "skein"),
        ("\\d parent", "\"parent_pkey\" PRIMARY KEY,"),
        ("\\d parent", "Referenced by:"),
        ("\\d child", "FOREIGN KEY (p) REFERENCES parent"),
        ("\\d w", "View definition:"),
        ("desc parent", "NOT NULL"),
        ("\\conninfo", "instance 1"),
        ("\\?", "whenever sqlerror"),
    ] {
        assert!(shown(command).contains(wanted), "{command}: {}", shown(command));
    }
    assert!(!shown("\\dt par*").contains("child"));
    fail(1, db.skein("sql").args(["-c", "\\d nosuch"]));
}

/// A script of that text, whose statements may fail: what it says.
fn script(db: &Db, text: &str) -> String {
    let file = db.dir().join("script.sql");
    std::fs::write(&file, format!("whenever sqlerror continue\n{text}")).unwrap();
    all_text(&db.skein("sql").arg(&file).output().expect("it runs"))
}

#[test]
fn without_autocommit_a_transaction_is_open_until_it_is_ended() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key)");
    let ids = || db.sql(1, "select string_agg(id::text, ' ' order by id) from t");
    let said = script(
        &db,
        "set autocommit off
show autocommit
insert into t values (1);
rollback;
insert into t values (2);
insert into t values (2);
insert into nosuch values (3);
savepoint a;
insert into t values (4);
rollback to a;
commit;
commit;
insert into t values (5);
copy t from stdin;
6
\\.
rollback;
begin
  insert into t values (7);
  commit;
end;
/
insert into t values (8);
set autocommit on
select 1;
rollback;
set autocommit off
insert into t values (9);
set autocommit on
insert into t values (10);
commit;
rollback;
",
    );
    assert!(said.contains("autocommit OFF\n"), "{said}");
    assert_eq!(said.matches("23505").count(), 1, "{said}");
    // The last one finds nothing to take back; there is nothing to fear in a commit of nothing.
    assert_eq!(said.matches("WARNING").count(), 1, "{said}");
    assert_eq!(ids(), "2 7 9 10");
    let typed = |text: &str| typed(&mut db.skein("sql"), text);
    assert!(typed("set autocommit off\ninsert into t values (20);\n").0);
    assert!(!typed("set autocommit off\ninsert into t values (21);\nselect 1/0;\n").0);
    assert!(typed("set autocommit off\ninsert into t values (22);\nexit rollback\n").0);
    assert!(typed("begin;\ninsert into t values (23);\nexit\n").0);
    let (good, _, err) = typed("begin;\ninsert into t values (24);\n");
    assert!(good && err.contains("rolled back"), "{err}");
    let text = "set autocommit off\nwhenever sqlerror exit 4 commit\n\
                insert into t values (25);\nselect 1/0;\n";
    assert!(!typed(text).0);
    let text = "set autocommit off\nwhenever sqlerror continue rollback\n\
                insert into t values (26);\nselect 1/0;\ninsert into t values (27);\n";
    assert!(typed(text).0);
    assert_eq!(ids(), "2 7 9 10 20 23 25 27");
}

#[test]
fn stored_code_that_is_not_supported_is_refused_whole() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int)");
    db.sql(1, "insert into t values (1)");
    let said = script(
        &db,
        "create or replace trigger g before insert on t for each row
declare
  n number;
begin
  delete from t;
  commit;
end;
/
create or replace package body p as
  procedure a is begin delete from t; end;
end;
/
create type o as object (a int, member function f return number);
/
create type mood as enum ('a','b');
create type pair as (a int, b int);
select 'end' as e;
",
    );
    // One each, and one for the list of columns, which ends at its semicolon.
    assert_eq!(said.matches("ERROR").count(), 4, "{said}");
    assert!(said.contains("\n end\n"), "{said}");
    assert_eq!(db.sql(1, "select count(*) from t"), "1");
    assert_eq!(db.sql(1, "select 'a'::mood"), "a");
}

#[test]
fn words_of_other_shells_stop_nothing() {
    let db = Db::open(1);
    let file = db.dir().join("script.sql");
    let text = "set bogus on
edit
store set x
copy from a to b -
  using select 1
show pdbs
shutdown immediate
set feedback off pagesize 0
select 'one';
list
run
show search_path
set search_path
  to public;
disconnect
connect
select 'two';
";
    std::fs::write(&file, text).unwrap();
    let out = db.skein("sql").arg(&file).output().expect("it runs");
    let said = all_text(&out);
    assert!(out.status.success(), "{said}");
    for part in [
        "unknown SET option \"bogus\"",
        "edit: this shell has no such command",
        "store: this shell has no such command",
        "copy: this shell has no such command",
        "show pdbs: ",
        "shutdown: this shell has no such command; \"skein stop\"",
        " one\n  1* select 'one'\n  1* select 'one'\n one\n",
        "disconnected\nconnected\n two\n",
    ] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    let saved = db.dir().join("saved.sql");
    let text = format!(
        "select 'kept';\nsave {0} replace\nselect 1;\nget {0} nolist\n/\n",
        saved.display()
    );
    assert_eq!(script(&db, &text).matches(" kept\n").count(), 2);
    assert_eq!(std::fs::read_to_string(&saved).unwrap(), "select 'kept'\n/\n");
}

#[test]
fn autotrace_tells_the_plan_and_what_a_statement_has_cost() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(1, "insert into t select i, repeat('x', 500) from generate_series(1, 2000) i");
    let said = script(
        &db,
        "set autotrace on\nselect id from t where id = 7;\nshow autotrace\n\
         set autotrace traceonly statistics\nselect max(v) from t;\n\
         insert into t values (0, 'a');\n\
         set autotrace trace exp\nselect count(*) from t where v = 'no';\n\
         delete from t where id = 0;\nset autotrace off\nselect 'end';\nset autotrace perhaps\n",
    );
    let figure = |part: &str, name: &str| -> u64 {
        let line =
            part.lines().find(|line| line.ends_with(name)).unwrap_or_else(|| panic!("{part}"));
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    let parts: Vec<&str> = said.split("\nStatistics\n").collect();
    let [first, second, third, last] = parts[..] else { panic!("{said}") };
    assert!(first.contains(" 7\n") && first.contains("\nExecution Plan\n"), "{first}");
    assert!(first.contains("INDEX UNIQUE SCAN") && first.contains("T_PKEY"), "{first}");
    // Three for the row; the others are of the dictionary, when it was planned.
    assert!((3..1000).contains(&figure(second, "consistent gets")), "{second}");
    assert_eq!(figure(second, "redo size"), 0);
    assert_eq!(figure(second, "rows processed"), 1);
    assert!(second.contains("autotrace ON EXPLAIN STATISTICS"), "{second}");
    assert!(!second.contains("xxx"), "{second}");
    assert!(figure(third, "consistent gets") > 100, "{third}");
    assert!(figure(last, "redo size") > 0, "{last}");
    assert_eq!(figure(last, "rows processed"), 1);
    // Of these the plans only; the change is made, since it is no query.
    assert_eq!(last.matches("Execution Plan").count(), 2, "{last}");
    assert!(last.contains(" end\n") && last.contains("set autotrace off|on|traceonly"), "{last}");
    assert_eq!(db.sql(1, "select count(*) from t where id = 0"), "0");
    // On another instance, and in a transaction, which goes on.
    let said = script(
        &db,
        "connect 2\nbegin;\ninsert into t values (-1, 'a');\nset autotrace on\n\
         select count(v) as c from t where id < 0;\nset autotrace off\nrollback;\n",
    );
    assert!(said.contains(" 1\n") && !said.contains("WARNING"), "{said}");
    assert!(figure(&said, "consistent gets") > 0 && said.contains("Execution Plan"), "{said}");
    assert_eq!(db.sql(1, "select count(*) from t where id < 0"), "0");
}

#[test]
fn views_of_the_server_and_sequences_are_described() {
    let db = Db::open(1);
    db.sql(1, "create sequence s start 3 increment 2 cache 10");
    let shown = |command: &str| succeed(db.skein("sql").args(["-c", command]));
    for (command, wanted) in [
        ("desc v$session", "sid "),
        ("desc gv$session_wait", "inst_id "),
        ("desc dba_segments", "segment_name "),
        ("\\d v$session_wait", "View \"v$session_wait\"\n"),
        ("desc s", "Increment"),
        ("\\d s", "Sequence \"public.s\"\n"),
        ("desc pg_class", "relname "),
        ("desc information_schema.tables", "table_name "),
        ("show sga", "Database Buffers"),
        ("show parameter db_cache", "db_cache_size"),
    ] {
        let said = shown(command);
        assert!(said.contains(wanted), "{command}: {said}");
    }
    let said = shown("\\d s");
    let row: Vec<&str> = said.lines().last().unwrap().split('|').map(str::trim).collect();
    assert_eq!(row, ["bigint", "3", "1", "9223372036854775807", "2", "no", "10", "no"]);
    fail(1, db.skein("sql").args(["-c", "desc nosuch"]));
}

#[test]
fn errors_in_blocks_have_the_line_of_the_file() {
    let db = Db::open(1);
    let said = script(
        &db,
        "create table t (id int);
begin
  insert into t values (1);
  x := 5;
end;
/

declare
  x number;
begin
  x := 1 / 0;
end;
/
create or replace procedure p(a in number) is
  -- one
  b number;
begin
  foo bar;
end;
/
show errors
select 1; select nosuch;
variable n number
begin
  :n := 1;
  y := 2;
end;
/
select :n,
  :n + nosuch from t;
do $$
begin
  perform 1 / 0;
end $$;
",
    );
    for part in [
        "LINE 3:   x := 5;\n          ^\nat ",
        "script.sql, line 5, column 3\n",
        "script.sql, line 12\n",
        "LINE 5:   foo bar;\n          ^\nat ",
        "script.sql, line 19, column 3\n",
        "Errors for PROCEDURE P:\n",
        "5/3      42601: ",
        "script.sql, line 23, column 18\n",
        "LINE 3:   y := 2;\n",
        "script.sql, line 27, column 3\n",
        "script.sql, line 31, column 8\n",
        "script.sql, line 34\n",
    ] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    let text = "create or replace procedure p(a in number) is begin null; end;\n/\nshow errors\n";
    assert!(script(&db, text).contains("No errors."));
}

#[test]
fn names_without_a_value_are_asked_for() {
    let db = Db::open(1);
    let text = "select '&a' as x, '&&b' as y; -- &comment
one
two
select '&b' as z, 'a & b' as w;
accept n number prompt 'Number: '
42
prompt n=&n
column c new_value cc noprint
select max(id) as c, 'shown' as s from (values (7)) v(id);
prompt cc=&cc
col 1 new_value 1
select '' as \"1\" where false;
prompt first=[&1]
timing start all
timing stop
set define off
select 'a&b' as v;
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good, "{out}{err}");
    for part in [
        " one | two\n",
        " two | a & b\n",
        "n=42\n",
        " s\n-------\n shown\n",
        "cc=7\n",
        "first=[]\n",
        "timing for: all\nElapsed: 00:00:",
        " a&b\n",
    ] {
        assert!(out.contains(part), "{part:?}: {out}{err}");
    }
    std::fs::write(db.dir().join("inner.sql"), "prompt [&1] [&2]\n").unwrap();
    let file = db.dir().join("outer.sql");
    std::fs::write(&file, "@inner \"two words\" 'and three'\nselect '&asked' as v;\n").unwrap();
    let (good, out, err) = typed(db.skein("sql").arg(&file), "answer\n");
    assert!(good && out.contains("[two words] [and three]\n"), "{out}{err}");
    assert!(out.contains(" answer\n"), "{out}{err}");
    let (good, _, err) = typed(db.skein("sql").arg(&file), "");
    assert!(!good && err.contains("\"asked\" has no value"), "{err}");
    let text = "create or replace procedure p(a in number, b in number) is\nbegin\n\
                dbms_output.put_line('sum ' || (a + b));\nend;\n/\nset serveroutput on\n\
                exec p(1, -\n  2)\n";
    assert!(script(&db, text).contains("sum 3\n"));
}

#[test]
fn blocks_give_their_values_however_they_end() {
    let db = Db::open(1);
    let said = script(
        &db,
        "set serveroutput on
variable n number
variable v varchar2(20)
begin
  :n := 12;
  return;
  :n := 13;
end;
/
print n
begin
  dbms_output.put_line('whole');
  dbms_output.put('half');
  :n := 6;
  :v := 'a=b';
end;
/
print
declare
  procedure twice(x in out number) is begin x := x * 2; end;
begin
  twice(:n);
  commit;
  if :n = 12 then return; end if;
end;
/
print n
begin
  :n := 1;
  raise_application_error(-20001, 'no');
end;
/
print n
",
    );
    assert_eq!(said.matches(" n\n----\n 12\n").count(), 3, "{said}");
    assert!(said.contains("whole\nhalf\n"), "{said}");
    assert!(said.contains(" n | v\n---+-----\n 6 | a=b\n"), "{said}");
    assert!(!said.contains('\u{1}'), "{said}");
}

#[test]
fn a_session_whose_instance_is_lost_ends_no_script() {
    let db = Db::open(2);
    db.sql(2, "create table t (id int)");
    let abort = format!("!{} >/dev/null", stop_abort(&db));
    let file = db.dir().join("script.sql");
    let text = format!(
        "set autocommit off\ninsert into t values (1);\n{abort}\nselect count(*) from t;\n\
         select 2;\nprompt goes on\nconnect 2\nselect 'rows ' || count(*) as r from t;\n\
         insert into t values (2);\n"
    );
    std::fs::write(&file, &text).unwrap();
    let said = fail(1, db.skein("sql").args(["--instance", "1"]).arg(&file));
    assert_eq!(said.matches("connection to the instance is lost").count(), 1, "{said}");
    assert!(said.contains("an open transaction is rolled back"), "{said}");
    assert_eq!(said.matches("not connected: connect [K]").count(), 1, "{said}");
    assert!(said.contains("goes on\nconnected to instance 2\n"), "{said}");
    assert!(said.contains(" rows 0\n"), "{said}");
    // Another one at once: what was open is gone, and that is said.
    succeed(db.skein("start").arg("--all"));
    let text = format!(
        "set autocommit off\ninsert into t values (3);\n{abort}\nconnect 2\n\
         select 'rows ' || count(*) as r from t where id = 3;\n"
    );
    std::fs::write(&file, &text).unwrap();
    let said = fail(1, db.skein("sql").args(["--instance", "1"]).arg(&file));
    assert_eq!(said.matches("connection to the instance is lost").count(), 1, "{said}");
    assert!(said.contains("connected to instance 2\n") && said.contains(" rows 0\n"), "{said}");
}

/// The words of a shell that end instance 1 as a power cut would.
fn stop_abort(db: &Db) -> String {
    let stop = db.skein("stop");
    let mut words = vec![stop.get_program()];
    words.extend(stop.get_args());
    let words: Vec<String> =
        words.iter().map(|word| format!("'{}'", word.to_string_lossy())).collect();
    format!("{} --instance 1 --abort", words.join(" "))
}

#[test]
fn scripts_are_looked_for_where_the_shell_was_called_and_beside_the_script() {
    let db = Db::open(1);
    let [here, there] = ["here", "there"].map(|name| db.dir().join(name));
    for folder in [&here, &there] {
        std::fs::create_dir(folder).unwrap();
        let name = folder.file_name().unwrap().to_string_lossy().into_owned();
        std::fs::write(folder.join("both.sql"), format!("prompt both of {name}\n")).unwrap();
    }
    std::fs::write(there.join("one.sql"), "prompt one of there\n").unwrap();
    let outer = there.join("outer.sql");
    std::fs::write(&outer, "@both\n@@both\nstart both.sql\n@one\n\\i both\n\\ir both\n").unwrap();
    let said = succeed(db.skein("sql").arg(&outer).current_dir(&here));
    assert_eq!(
        said,
        "both of here\nboth of there\nboth of here\none of there\nboth of here\nboth of there\n"
    );
}

#[test]
fn what_comes_through_a_pipe_runs_as_it_comes() {
    let db = Db::open(1);
    let mut sql = db.skein("sql");
    let mut child = sql.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut input = child.stdin.take().expect("its input");
    let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
    let mut wait_for = |wanted: &str| {
        assert!(lines.any(|line| line.expect("text") == wanted), "{wanted}");
    };
    // Each is answered before the next is written.
    for (text, wanted) in [
        ("prompt first\n", "first"),
        ("select 'sec'\n  || 'ond' as x;\n", " second"),
        ("create table t (id int);\ncopy t from stdin;\n5\n6\n\\.\n", "done, 2 rows"),
        ("set serveroutput on\nbegin\n  dbms_output.put_line('third');\nend;\n/\n", "third"),
        ("select '&asked' as x;\nanswer\n", " answer"),
        ("select 1/0;\nprompt goes on\n", "goes on"),
    ] {
        input.write_all(text.as_bytes()).expect("written");
        wait_for(wanted);
    }
    // The end of the input ends the last statement.
    input.write_all(b"select 'la' ||\n 'st' as x").expect("written");
    drop(input);
    wait_for(" last");
    assert_eq!(child.wait().expect("it ends").code(), Some(1));
}

#[test]
fn reports_have_breaks_and_figures() {
    let db = Db::open(1);
    let text = "create table e (dept int, name varchar2(10), sal number(8, 2));
insert into e values (10, 'a', 1.5), (10, 'b', 2), (20, 'c', 4);
set feedback off
break on dept skip 1 on report
compute sum label Total of sal on dept report
select dept, name, sal from e order by dept, name;
break
compute
clear computes
clear breaks
select dept from e where dept = 10;
set colsep ';'
select dept, name from e where name = 'c';
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good, "{out}{err}");
    for part in [
        " dept  | name | sal\n-------+------+------\n    10 | a    | 1.50\n       | b    | 2.00\n \
         ***** |      | ----\n Total |      | 3.50\n\n    20 | c    | 4.00\n ***** |      | \
         ----\n Total |      | 4.00\n\n       |      | ----\n Total |      | 7.50\n",
        "break on report on dept skip 1 nodup\n",
        "compute sum label 'Total' of sal on dept\ncompute sum label 'Total' of sal on report\n",
        " dept\n------\n   10\n   10\n",
        " dept ; name\n------;------\n   20 ; c\n",
    ] {
        assert!(out.contains(part), "{part:?}: {out}");
    }
}

#[test]
fn the_statement_before_is_changed_by_its_lines() {
    let db = Db::open(1);
    let said = script(
        &db,
        "select 1 as a
  from nosuch;
c/NOSUCH/dual/
1
a , 2 as b
/
list
i where 1 = 0
/
del
l 2
2 from dual x where x.dummy = 'Y'
list
del 9
del 1 last
list
",
    );
    for part in [
        "  2*   from dual\n",
        "  1* select 1 as a\n  1* select 1 as a, 2 as b\n",
        " a | b\n---+---\n 1 | 2\n(1 row)\n",
        "  1  select 1 as a, 2 as b\n  2*   from dual\n",
        " a | b\n---+---\n(0 rows)\n",
        "(0 rows)\n  2*   from dual\n",
        "  1  select 1 as a, 2 as b\n  2* from dual x where x.dummy = 'Y'\n",
    ] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    assert!(said.contains("9: no such line\n"), "{said}");
    assert!(said.contains("there is no statement before\n"), "{said}");
}

#[test]
fn variables_take_what_changes_return() {
    let db = Db::open(1);
    let said = script(
        &db,
        "create table v (id int generated always as identity, x number);
variable id number
variable s varchar2(10) = 'start'
variable d date = '2026-01-02 03:04:05'
variable c refcursor
print c
variable q varchar2(9) = 'it''s'
print q
variable q varchar2(9) = 'open
print s
insert into v (x) values (2.5) returning id into :id;
print id
update v set x = x + 1 where id = :id returning 'n' || x into :s;
print s
begin :d := :d + 1; end;
/
print d
exec dbms_output.disable
exec :id := 7
print id
",
    );
    for part in [
        " q\n------\n it's\n",
        "variable q: 'open does not end with its own quote\n",
        " s\n-------\n start\n",
        "done, 1 rows\n id\n----\n  1\n",
        "done, 1 rows\n s\n------\n n3.5\n",
        " 2026-01-03 03:04:05\n",
        " id\n----\n  7\n",
        "bind variable \"c\" has no open cursor\n",
    ] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
    assert_eq!(db.sql(1, "select x::text like '3.5%' from v"), "t");
}

#[test]
fn what_the_field_would_say_is_said() {
    let db = Db::open(1);
    let said = script(
        &db,
        "set verify on
define n = 5
select &n as v
  from dual;
set verify off
show verify
prompt &_user at &_connect_identifier
exec raise_application_error(-20001, 'no')
exec nosuch
alter database open;
startup
",
    );
    for part in [
        "old   1: select &n as v\nnew   1: select 5 as v\n v\n",
        "verify OFF\n",
        "SKEIN at skein\n",
        "ERROR P0001: no\nDETAIL: ORA-20001: no\n",
        "ERROR 42883: procedure nosuch() does not exist\n",
        "ERROR 0A000: ALTER DATABASE OPEN is not supported\nHINT: ",
        "startup: this shell has no such command; \"skein start\" does",
    ] {
        assert!(said.contains(part), "{part:?}: {said}");
    }
}
