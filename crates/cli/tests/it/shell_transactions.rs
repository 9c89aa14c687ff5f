//! `skein sql`: what is open with `set autocommit off`, and savepoints in it; what is said of names
//! that are not there or not declared.

use crate::db::Db;
use crate::shell::typed;

/// Runs a text with autocommit off that commits; the rows that are left, and what was said of
/// errors.
fn left(db: &Db, text: &str) -> (String, String) {
    db.sql(1, "delete from q");
    let text = format!("set autocommit off\ninsert into q values (1);\n{text}commit;\n");
    let (_, _, err) = typed(&mut db.skein("sql"), &text);
    (db.sql(1, "select coalesce(string_agg(id::text, ' ' order by id), '') from q"), err)
}

#[test]
fn savepoints_are_the_users_own_with_autocommit_off() {
    let db = Db::open(1);
    db.sql(1, "create table q (id int)");
    db.sql(1, "create procedure rb is begin rollback to a; end;");
    db.sql(1, "create procedure sv is begin savepoint a; end;");
    for (text, wanted) in [
        // A block goes back before its own beginning.
        (
            "savepoint a;\ninsert into q values (2);\nbegin rollback to a; end;\n/\n\
             insert into q values (3);\n",
            "1 3",
        ),
        ("savepoint a;\ninsert into q values (2);\nexec rb\ninsert into q values (3);\n", "1 3"),
        ("savepoint a;\ninsert into q values (2);\ncall rb();\n", "1"),
        // What a block or procedure has set is there behind it, and behind other statements.
        (
            "begin savepoint s1; insert into q values (2); end;\n/\ninsert into q values (3);\n\
             select count(*) from q;\nrollback to s1;\ninsert into q values (4);\n",
            "1 4",
        ),
        ("exec sv\ninsert into q values (2);\nrollback to a;\nexec null\nrollback to a;\n", "1"),
        ("savepoint a;\nsavepoint b;\ninsert into q values (2);\nrelease savepoint a;\n", "1 2"),
    ] {
        assert_eq!(left(&db, text), (wanted.to_owned(), String::new()), "{text}");
    }
}

#[test]
fn what_fails_leaves_the_transaction_as_it_was() {
    let db = Db::open(1);
    db.sql(1, "create table q (id int primary key)");
    for (text, wanted, said) in [
        ("rollback to nosuch;\ninsert into q values (2);\n", "1 2", "3B001"),
        ("release savepoint nosuch;\ninsert into q values (2);\n", "1 2", "3B001"),
        (
            "begin savepoint a; insert into q values (2); insert into q values (1); end;\n/\n\
             insert into q values (3);\nrollback to a;\n",
            "1 3",
            "3B001",
        ),
        (
            "begin savepoint a; end;\n/\ninsert into q values (2);\nselect 1/0;\n\
             insert into q values (2);\nrollback to a;\ninsert into q values (3);\n",
            "1 3",
            "23505",
        ),
        // It had gone back, and no further than that is taken back.
        (
            "begin null; end;\n/\ninsert into q values (2);\nsavepoint a;\n\
             insert into q values (3);\nbegin rollback to a; insert into q values (4); \
             insert into q values (1); end;\n/\ninsert into q values (5);\n",
            "1 2 5",
            "as it was at savepoint a",
        ),
    ] {
        let (rows, err) = left(&db, text);
        assert_eq!(rows, wanted, "{text}{err}");
        assert!(err.contains(said) && !err.contains("25P02"), "{text}{err}");
    }
}

#[test]
fn what_is_not_declared_is_named_and_the_rest_is_shown() {
    let db = Db::open(1);
    db.sql(1, "create table q (id int)");
    let text = "variable t varchar2(9) = 'shown'
variable c refcursor
print c t
print zz t
variable a number = 7
print t a
begin :zz := 1; end;
/
insert into q values (1) returning id into :v;
exec :t := 'x' || :w
show sqlcode
show linesize
set linesize 200
show lines
show pages
set markup csv on delimiter | quote off
select 'a,b' as x, 'say \"c\"' as y;
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(!good && out.matches(" shown").count() == 3, "{out}{err}");
    let heads = |line: &str| line.split_whitespace().eq(["t", "|", "a"]);
    assert!(out.lines().any(heads), "as they were asked for: {out}");
    for name in ["zz", "v", "w"] {
        assert!(err.contains(&format!("bind variable \"{name}\" is not declared\n")), "{err}");
    }
    assert!(err.contains("bind variable \"c\" has no open cursor\n"), "{err}");
    assert!(!err.contains("42601"), "{err}");
    assert!(out.contains("sqlcode 20000\nlinesize 80\nlinesize 200\npagesize 14\n"), "{out}");
    assert!(out.ends_with("x|y\na,b|say \"c\"\n"), "{out}");
    assert_eq!(db.sql(1, "select count(*) from q"), "0");
}

#[test]
fn routines_and_names_in_quotes_are_described() {
    let db = Db::open(1);
    db.sql(1, "create table \"Mixed Tab\" (\"Id\" int)");
    let arguments = "t in varchar2, n in out number, d number default 5";
    db.sql(1, &format!("create procedure log_msg({arguments}) is begin null; end;"));
    db.sql(1, "create function f return number is begin return 1; end;");
    let text = "desc \"Mixed Tab\"\ndesc Log_Msg\ndesc public.f\n";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good, "{out}{err}");
    let wanted = " Name   Null?   Type
------ ------- ---------
 Id             integer
PROCEDURE log_msg
 Argument Name   Type                In/Out   Default?
--------------- ------------------- -------- ----------
 t               character varying   IN
 n               numeric             IN/OUT
 d               numeric             IN       DEFAULT
FUNCTION f RETURNS numeric
";
    assert_eq!(out, wanted);
    let (good, _, err) = typed(&mut db.skein("sql"), "desc \"mixed tab\"\n");
    assert!(!good && err.contains("any relation named \"mixed tab\"."), "{err}");
}
