//! `skein sql`: who somebody is, and what may not be seen of it.

use crate::db::{Db, PASSWORD};
use crate::shell::typed;

#[test]
fn passwords_are_not_shown_and_a_wrong_one_ends_nothing() {
    let db = Db::open(1);
    let text = "create user scott identified by tiger;
create table t (id int);
set echo on
connect scott/tiger@1
connect / as sysdba
accept pw prompt 'Password: ' hide
tiger
set verify on
select length('&pw') as l from dual;
select '&pw' as x from nosuch;
define pw
set autocommit off
insert into t values (1);
connect scott/wrong@1
rollback;
select count(*) as c from t;
insert into t values (2);
connect scott/&pw@1
connect / as sysdba
select count(*) as c from t;
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(!good && err.contains("28P01"), "{out}{err}");
    for part in [
        "connect scott/***@1\nconnected to instance 1 as scott\n",
        "new   1: select length('***') as l from dual\n l\n---\n 5\n",
        "DEFINE pw = \"***\"\n",
        " c\n---\n 0\n",
        "connected to instance 1 as scott\nconnect / as sysdba\nconnected to instance 1\n",
        " c\n---\n 1\n",
    ] {
        assert!(out.contains(part), "{part:?}: {out}{err}");
    }
    let place = format!("LINE 1: select '***' as x from nosuch\n{:31}^", "");
    assert!(err.contains(&place), "{err}");
    assert!(!out.contains("tiger") && !err.contains("tiger"), "{out}{err}");
    assert!(!out.contains("wrong") && !err.contains("wrong"), "{out}{err}");
}

#[test]
fn lines_that_come_to_a_terminal_in_one_go_are_all_run() {
    let db = Db::open(1);
    let shell = db.skein("sql");
    let mut words = vec![shell.get_program().to_string_lossy().into_owned()];
    words.extend(shell.get_args().map(|arg| format!("'{}'", arg.to_string_lossy())));
    let mut terminal = std::process::Command::new("script");
    terminal.args(["-qec", &words.join(" "), "/dev/null"]).env("SKEIN_PASSWORD", PASSWORD);
    terminal.env("SKEIN_HISTORY", db.dir().join("history"));
    let text = "select 'first' || 1 as a;\nselect 'second' || 2\n as a;\nexit\n";
    let (good, out, err) = typed(&mut terminal, text);
    assert!(good && out.contains("first1") && out.contains("second2"), "{out}{err}");
}

#[test]
fn execute_calls_a_procedure_unless_the_session_has_prepared_one_of_that_name() {
    let db = Db::open(1);
    let text = "create table moved (a int, b int);
create or replace procedure transfer(a in number, b in number) is
begin
  insert into moved values (a, b);
end;
/
execute transfer(1, 2)
select 'after ' || count(*) as n from moved;
execute transfer(3, 4);
prepare transfer(int) as select 'prepared ' || $1 as n;
execute transfer(7); EXECUTE transfer
  (8);
deallocate transfer;
execute transfer(5, 6);
select string_agg(a || '-' || b, ' ' order by a) as n from moved;
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good, "{out}{err}");
    for part in [" after 1\n", " prepared 7\n", " prepared 8\n", " 1-2 3-4 5-6\n"] {
        assert!(out.contains(part), "{part:?}: {out}{err}");
    }
    // A new session has none.
    let text = "prepare transfer(int) as select $1;\nconnect\nexecute transfer(9, 9)\n";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good, "{out}{err}");
    assert_eq!(db.sql(1, "select max(b) from moved"), "9");
}
