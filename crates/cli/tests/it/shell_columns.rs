//! `skein sql`: how columns and numbers look of which something is said.

use crate::db::Db;
use crate::shell::typed;

#[test]
fn columns_look_as_it_is_said() {
    let db = Db::open(1);
    let text = "create table e (id number, name varchar2(40), sal number(10, 2), code varchar2(5));
insert into e values (1, 'a name of many words', 1234.5, '007');
insert into e values (20, null, -0.25, '01');
insert into e values (300, 'short', 12345678, null);
set feedback off
column name format a10 heading 'Full|Name' null '(none)'
column sal format 999,990.99 heading Salary
column id heading Number justify right
select id, name, sal from e order by id;
column name word_wrapped
select name from e where id = 1;
column name truncated
select name from e where id = 1;
column name off
select name from e where id = 300;
column code format 999
select code from e where id = 1;
column name on
column name
column nosuch
column sal format bad
clear columns
select sal from e where id = 1;
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good, "{out}{err}");
    let said: Vec<&str> = out.lines().filter(|line| !line.starts_with("done")).collect();
    let wanted = [
        "        | Full       |",
        " Number | Name       |      Salary",
        "--------+------------+-------------",
        "      1 | a name of  |    1,234.50",
        "        | many words |",
        "     20 | (none)     |       -0.25",
        "    300 | short      | ###########",
        " Full",
        " Name",
        "------------",
        " a name of",
        " many words",
        " Full",
        " Name",
        "------------",
        " a name of",
        " name",
        "-------",
        " short",
        // A text is no number.
        " code",
        "------",
        "  007",
        "column name format a10 heading 'Full|Name' truncated null '(none)'",
        " sal",
        "---------",
        " 1234.50",
    ];
    assert_eq!(said, wanted, "{err}");
    assert!(err.contains("column nosuch: nothing is said of it\n"), "{err}");
    assert!(err.contains("column sal format bad: "), "{err}");
}

#[test]
fn numbers_have_a_width_or_a_template() {
    let db = Db::open(1);
    db.sql(1, "create table e (id int)");
    db.sql(1, "insert into e values (1), (2), (3)");
    let text = "set feedback off
set numwidth 6
select 1234.56789 as n, 123456789 as big, 7 as small, '12345678' as t;
set numwidth 0
set numformat 990.9
select 5 as a, null::int as b, 2.25 as c;
show numformat
set numformat bad
set numformat \"\"
set autocommit off
column c format 0999
select count(*) as c from e;
insert into e values (4);
select count(*) as c from e;
rollback;
select count(*) as c from e;
variable c number = 7
print c
set markup csv on
print c
";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good, "{out}{err}");
    let wanted = [
        "      n |    big |  small | t",
        "--------+--------+--------+----------",
        " 1234.6 |  1E+08 |      7 | 12345678",
        "      a |      b |      c",
        "--------+--------+--------",
        "    5.0 |        |    2.3",
        "numformat \"990.9\"",
        "     c",
        "-------",
        "  0003",
        "     c",
        "-------",
        "  0004",
        "     c",
        "-------",
        "  0003",
        "     c",
        "-------",
        "  0007",
        "c",
        "7",
    ];
    assert_eq!(out.lines().collect::<Vec<_>>(), wanted, "{err}");
    assert!(err.contains("set numformat bad: "), "{err}");
}
