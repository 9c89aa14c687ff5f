//! `skein sql`: where an error is, what follows it, and what the shell then ends with; and what
//! columns without a name are called.

use crate::db::{Db, all_text, succeed};
use crate::shell::typed;

/// What a script of this text says, which must end with this code.
fn run(db: &Db, code: i32, text: &str) -> String {
    let file = db.dir().join("script.sql");
    std::fs::write(&file, text).unwrap();
    let out = db.skein("sql").arg(&file).output().expect("it runs");
    let said = all_text(&out);
    assert_eq!(out.status.code(), Some(code), "{text}{said}");
    said
}

#[test]
fn errors_of_the_system_are_followed_by_what_the_script_says() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int)");
    let ids = || db.sql(1, "select coalesce(string_agg(id::text, ' ' order by id), '') from t");
    // Where nobody has said it they are followed by what errors of statements are.
    assert!(run(&db, 1, "@nosuch\nprompt goes on\n").contains("goes on"));
    let text = "whenever sqlerror exit 7\n@nosuch\nprompt goes on\n";
    assert!(!run(&db, 7, text).contains("goes on"));
    for (command, number) in [
        ("@nosuch", 2),
        ("spool nosuch/x.lst", 2),
        ("get nosuch", 2),
        ("host nosuch_command 2>/dev/null", 127),
        ("host /dev/null 2>/dev/null", 126),
        ("spool /dev/full\nprompt x", 28),
    ] {
        let text = |then: &str| format!("whenever oserror {then}\n{command}\nprompt goes on\n");
        assert!(!run(&db, number, &text("exit oscode")).contains("goes on"), "{command}");
        assert!(!run(&db, 1, &text("exit")).contains("goes on"), "{command}");
        assert!(!run(&db, 5, &text("exit 5")).contains("goes on"), "{command}");
        assert!(run(&db, 0, &text("continue")).contains("goes on"), "{command}");
    }
    let begin = "set autocommit off\ninsert into t values";
    run(&db, 1, &format!("whenever oserror exit failure\n{begin} (1);\n@nosuch\n"));
    assert_eq!(ids(), "");
    run(&db, 9, &format!("whenever oserror exit 9 commit\n{begin} (2);\n@nosuch\n"));
    assert_eq!(ids(), "2");
    let text = "whenever oserror continue rollback";
    run(&db, 0, &format!("{text}\n{begin} (3);\n@nosuch\ninsert into t values (4);\n"));
    assert_eq!(ids(), "2 4");
    // What runs and fails was not refused by the system.
    let text = "whenever oserror exit 9\nwhenever sqlerror continue\nhost exit 3\nprompt goes on\n";
    assert!(run(&db, 0, text).contains("goes on"));
    assert!(run(&db, 1, "whenever oserror perhaps\n").contains("oscode"));
    // Nobody reads the end of a pipe; a full disk is another matter.
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let out = db.skein("sql").args(["-c", "prompt x"]).stdout(full).output().expect("it runs");
    let said = all_text(&out);
    assert!(out.status.code() == Some(1) && said.contains("write standard output"), "{said}");
}

#[test]
fn the_number_of_an_error_is_an_exit_code() {
    let db = Db::open(1);
    db.sql(1, "create table t (v varchar(3))");
    for (text, code) in [
        // 942, 1476, 12899 and 20001, modulo 256.
        ("select * from nosuch;\nexit sql.sqlcode\n", 174),
        ("whenever sqlerror exit sql.sqlcode\nselect 1/0;\nexit 0\n", 196),
        ("insert into t values ('abcd');\nexit sql.sqlcode rollback\n", 99),
        ("begin raise_application_error(-20001, 'x'); end;\n/\nexit SQL.SQLCODE\n", 33),
        // 20480 would be 0.
        ("exec raise_application_error(-20480, 'x')\nexit sql.sqlcode\n", 1),
        ("select * from nosuch;\nselect 1;\nexit sql.sqlcode\n", 0),
        ("exit sql.sqlcode\n", 0),
        // One of a command's has no number, and is an error all the same.
        ("whenever sqlerror exit sql.sqlcode\nprint nosuch\nexit 0\n", 1),
        ("variable rc number\nexec :rc := 300\nexit :rc\n", 44),
        ("variable rc number = 6\nwhenever sqlerror exit :rc\nexec :rc := 8\nselect 1/0;\n", 8),
        ("define rc = 5\nexit rc commit\n", 5),
        ("exit success\n", 0),
        ("exit failure\n", 1),
        ("exit warning\n", 1),
        ("exit nonsense\nselect 1;\n", 1),
        ("variable rc number\nexit :rc\nselect 1;\n", 1),
    ] {
        let said = run(&db, code, text);
        assert!(!said.contains("(1 row)") || text.contains("select 1;\nexit"), "{text}{said}");
    }
    assert_eq!(db.sql(1, "select count(*) from t"), "0");
}

#[test]
fn errors_in_blocks_have_a_line_and_a_column_of_the_file() {
    let db = Db::open(1);
    let text = "begin
  insert into nosuch values (1);
end;
/
begin
  null;
  selec 1 from dual;
end;
/
begin
  if;
end;
/
exec nosuch(1)
do $$ begin foo bar; end $$;
do $$
begin
  if;
end $$;
create function f() returns int language plpgsql as $$
begin
  return 1
end $$;
create or replace procedure p is
begin
  null;
  if;
end;
/
begin
  execute immediate 'selec 1';
end;
/
";
    let said = run(&db, 1, text);
    let places: Vec<&str> = said.lines().filter_map(|l| l.split("script.sql, ").nth(1)).collect();
    let wanted = [
        "line 2, column 15",
        "line 7, column 3",
        "line 11, column 5",
        "line 14, column 6",
        "line 15, column 13",
        "line 18, column 5",
        "line 23, column 4",
        "line 27, column 5",
        // The text that is run stands nowhere as such.
        "line 31",
    ];
    assert_eq!(places, wanted, "{said}");
    for (line, blanks) in [
        ("LINE 2:   insert into nosuch values (1);", 22),
        ("LINE 3:   selec 1 from dual;", 10),
        ("LINE 2:   if;", 12),
        ("LINE 1: begin nosuch(1); end;", 14),
        ("LINE 1: do $$ begin foo bar; end $$", 20),
    ] {
        assert!(said.contains(&format!("{line}\n{:blanks$}^\nat ", "")), "{line}: {said}");
    }
}

#[test]
fn columns_without_a_name_are_called_as_they_are_written() {
    let db = Db::open(1);
    let shown =
        |format: &str, text: &str| succeed(db.skein("sql").args(["--format", format, "-c", text]));
    let text = "select 1 + 1, 2*3 -- x\n, 'a' || 'b' from dual";
    assert_eq!(
        shown("aligned", text),
        " 1+1 | 2*3 | 'a'||'b'\n-----+-----+----------\n   2 |   6 | ab\n(1 row)\n"
    );
    assert_eq!(shown("csv", text), "1+1,2*3,'a'||'b'\n2,6,ab\n");
    let json = shown("json", text);
    for part in ["\"1+1\": 2", "\"2*3\": 6", "\"'a'||'b'\": \"ab\""] {
        assert!(json.contains(part), "{part}: {json}");
    }
    assert_eq!(shown("csv", "select * from (select 1 + 1) v"), "?column?\n2\n");
    let text = "variable n number = 20\ncolumn 1+:n heading Sum format 990.0\n\
                select 1 + :n from dual;\naccept pw hide\nsecret\n\
                select '&pw' = 'x' from dual;\n";
    let (good, out, err) = typed(&mut db.skein("sql"), text);
    assert!(good && out.contains(" Sum\n") && out.contains(" 21.0\n"), "{out}{err}");
    assert!(out.contains(" '***'='x'\n") && !out.contains("secret"), "{out}{err}");
}
