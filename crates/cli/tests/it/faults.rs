//! Bad input and faults: each ends in a clear error and loses nothing.

use crate::db::{Db, Folder, all_text, fail, skein, wait_until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

#[test]
fn a_wrong_password_and_an_unknown_user_fail_alike_and_are_logged() {
    let db = Db::open(1);
    for (user, password) in [("skein", "wrong"), ("nobody", "wrong")] {
        let mut psql = db.client("psql", 1);
        psql.env("PGPASSWORD", password).env("PGUSER", user).args(["-X", "-c", "select 1"]);
        let out = psql.output().unwrap();
        let text = all_text(&out);
        assert_eq!(out.status.code(), Some(2), "{text}");
        assert!(text.contains(&format!("password authentication failed for user \"{user}\"")));
        assert!(db.alert_log(1).contains("28P01"), "{}", db.alert_log(1));
    }
    let mut psql = db.client("psql", 1);
    psql.env("PGDATABASE", "other").args(["-X", "-c", "select 1"]);
    assert!(all_text(&psql.output().unwrap()).contains("does not exist"));
}

#[test]
fn malformed_bytes_hurt_nobody_else() {
    let db = Db::open(1);
    let port = db.port(1);
    db.sql(1, "create table t (id int primary key)");
    for bytes in [
        &b"\0\0\0\x04"[..],
        b"\x7f\xff\xff\xff\0\x03\0\0",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\0\0\x08\0\x03\0\0",
        b"\0\0\0\x0f\0\x03\0\0user\0x",
    ] {
        let mut s = TcpStream::connect(("127.0.0.1", port)).unwrap();
        s.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        s.write_all(bytes).unwrap();
        let _ = s.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = s.read_to_end(&mut answer);
        let told = answer.first().is_none_or(|tag| *tag == b'E');
        assert!(told, "{bytes:?} was answered by {answer:?}");
    }
    db.sql(1, "insert into t values (1)");
    assert_eq!(db.sql(1, "select count(*) from t"), "1");
}

#[test]
fn bad_statements_have_their_sqlstate() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, n numeric(5,2), s varchar(3), x int not null)");
    db.sql(1, "insert into t values (1, 1.5, 'abc', 1)");
    for (code, sql) in [
        ("23505", "insert into t values (1, 1, 'a', 1)"),
        ("22003", "insert into t values (2, 1000, 'a', 1)"),
        ("22003", "insert into t values (2147483648, 1, 'a', 1)"),
        ("22003", "update t set x = 2147483647 + x"),
        ("22001", "insert into t values (2, 1, 'abcd', 1)"),
        ("23502", "insert into t values (2, 1, 'a', null)"),
        ("22012", "select 1 / (x - 1) from t"),
        ("22P02", "select 'a'::int"),
        ("42P01", "select * from nothere"),
        ("42703", "select nothere from t"),
        ("42601", "selec 1"),
        ("42P07", "create table t (id int)"),
    ] {
        db.sql_error(1, code, sql);
    }
    assert_eq!(db.sql(1, "select id, n, s, x from t"), "1|1.50|abc|1");
}

#[test]
fn a_row_beyond_16_mib_is_refused() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(1, "insert into t select 1, repeat('x', 1000000)");
    db.sql_error(1, "54000", "insert into t select 2, repeat('x', 17000000)");
    assert_eq!(db.sql(1, "select id, length(v) from t"), "1|1000000");
}

#[test]
fn an_instance_is_started_once() {
    let db = Db::open(1);
    let said = fail(3, db.skein("start").args(["--instance", "1"]));
    assert!(said.contains("instance 1 is already running"), "{said}");
    fail(3, db.skein("start").arg("--all"));
    assert_eq!(db.sql(1, "select 1"), "1");
}

#[test]
fn two_clusters_cannot_share_a_port() {
    let (one, two) = (Db::open(1), Db::init(1));
    let port = one.port(1);
    two.edit_settings(|t| {
        t.replace("listen = \"127.0.0.1:0\"", &format!("listen = \"127.0.0.1:{port}\""))
    });
    let said = fail(5, two.skein("start").args(["--instance", "1"]));
    assert!(said.contains(&port.to_string()) && said.contains("in use"), "{said}");
    let said = fail(5, two.skein("start").arg("--all"));
    assert!(said.contains("in use"), "{said}");
    assert_eq!(one.sql(1, "select 1"), "1");
}

#[test]
fn wrong_settings_are_named() {
    let db = Db::init(1);
    db.edit_settings(|t| t.replace("[parameters]\n", "[parameters]\ndb_cash_size = \"1G\"\n"));
    let said = fail(2, db.skein("start").args(["--instance", "1"]));
    assert!(said.contains("db_cash_size") && said.contains("skein.toml"), "{said}");
}

#[test]
fn a_damaged_disk_group_is_named() {
    let db = Db::init(1);
    let lun = db.dir().join("luns/lun1");
    let len = std::fs::metadata(&lun).unwrap().len();
    let file = std::fs::File::options().write(true).open(&lun).unwrap();
    file.set_len(len - (1 << 20)).unwrap();
    let said = fail(4, db.skein("start").args(["--instance", "1"]));
    assert!(said.contains("lun1") && said.contains("truncated"), "{said}");

    std::fs::remove_file(&lun).unwrap();
    let said = fail(4, db.skein("start").args(["--instance", "1"]));
    assert!(said.contains("lun1") && said.contains("missing"), "{said}");

    std::fs::remove_dir_all(db.dir().join("luns")).unwrap();
    fail(4, db.skein("start").args(["--instance", "1"]));
    let folder = Folder::new();
    fail(3, skein().arg("start").arg(&folder.0).arg("--all"));
}

#[test]
fn one_connection_too_many_is_refused_and_says_why() {
    let db = Db::init_with(1, "256M", &["max_connections=2"]);
    db.start_all();
    let hold = |seconds: u32| {
        let mut psql = db.client("psql", 1);
        psql.args(["-X", "-c", &format!("select pg_sleep({seconds})")]);
        psql.spawn().unwrap()
    };
    let mut held = [hold(30), hold(30)];
    wait_until("both are connected", || {
        let mut psql = db.client("psql", 1);
        let out = psql.args(["-X", "-c", "select 1"]).output().unwrap();
        all_text(&out).contains("too many clients")
    });
    for child in &mut held {
        child.kill().unwrap();
        child.wait().unwrap();
    }
    wait_until("the places are free again", || {
        let mut psql = db.client("psql", 1);
        psql.args(["-X", "-c", "select 1"]).output().unwrap().status.success()
    });
}

#[test]
fn a_full_disk_group_fails_the_statement_and_goes_on_after_add_lun() {
    let db = Db::init_with(1, "128M", &[]);
    db.start_all();
    db.sql(1, "create table small (id int primary key)");
    db.sql(1, "create table big (id int, v text)");
    let fill = "insert into big select g, repeat('x', 8000) from generate_series(1, 2000) g";
    let mut said = String::new();
    for _ in 0..100 {
        let mut psql = db.client("psql", 1);
        psql.args(["-X", "-v", "VERBOSITY=verbose", "-c", fill]);
        let out = psql.output().unwrap();
        if !out.status.success() {
            said = all_text(&out);
            break;
        }
    }
    assert!(said.contains("53100"), "the group never filled up: {said}");
    db.sql(1, "insert into small values (1)");
    let before = db.sql(1, "select count(*) from big");
    crate::db::succeed(db.skein("add lun").args(["--lun-size", "256M"]));
    db.sql(1, fill);
    let after: u64 = db.sql(1, "select count(*) from big").parse().unwrap();
    assert_eq!(after, before.parse::<u64>().unwrap() + 2000);
}
