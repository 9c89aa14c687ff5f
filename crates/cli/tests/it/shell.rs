//! `skein sql` as people and scripts use it: words of psql and of the field, formats, errors.

use crate::db::{Db, fail, succeed};
use std::io::Write;
use std::process::{Command, Stdio};

/// A text on standard input.
fn typed(command: &mut Command, text: &str) -> (bool, String, String) {
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
    assert_eq!(db.sql(1, "select max(id) from t"), "1");
    let text = "whenever sqlerror continue\nselect 1/0;\ninsert into t values (3);\n\
                whenever sqlerror exit 7\nselect 1/0;\ninsert into t values (4);\n";
    std::fs::write(&script, text).unwrap();
    let said = fail(7, db.skein("sql").arg(&script));
    assert_eq!(said.matches("22012").count(), 2, "{said}");
    assert_eq!(db.sql(1, "select max(id) from t"), "3");
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
