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
        // A look takes a place for a moment: who found none comes again.
        for child in &mut held {
            if child.try_wait().unwrap().is_some() {
                *child = hold(30);
            }
        }
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

/// What each kind of bad statement must leave as it was: the session, and what a savepoint keeps.
#[test]
fn an_error_leaves_the_session_and_the_work_before_a_savepoint() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, n numeric(5,2), v text unique)");
    db.sql(1, "insert into t values (0, 1, 'taken')");
    let long = "insert into t select 99, 1, repeat('x', 17000000)";
    let key = "insert into t select 99, 1, repeat('x', 9000)";
    for (id, (code, bad)) in (1..).zip([
        ("23505", "insert into t values (0, 1, 'b')"),
        ("23505", "update t set v = 'taken' where id > 0"),
        ("22003", "insert into t values (99, 100000, 'b')"),
        ("22003", "update t set id = 2147483647 + id"),
        ("22003", "insert into t select 99, n * 1e9, 'b' from t where id = 0"),
        ("22012", "select 1 / (id - id) from t"),
        ("54000", long),
        ("54000", key),
        ("42P01", "insert into nothere values (1)"),
        ("42601", "insrt into t values (1)"),
    ]) {
        let mine = format!("insert into t values ({id}, 1, 'row {id}')");
        let script = [
            "begin",
            mine.as_str(),
            "savepoint s",
            "insert into t values (1000, 1, 'gone')",
            bad,
            "select 'in a failed block'",
            "rollback to s",
            "commit",
            "select count(*) from t",
        ];
        let mut psql = db.client("psql", 1);
        psql.args(["-X", "-A", "-t", "-q", "-v", "VERBOSITY=verbose"]);
        for text in script {
            psql.args(["-c", text]);
        }
        let said = all_text(&psql.output().unwrap());
        assert!(said.contains(code) && said.contains("25P02"), "{bad}: {said}");
        let count = (id + 1).to_string();
        assert!(said.lines().any(|line| line == count), "{bad}: {said}");
        // Outside a block, too, nothing is left of it.
        db.sql_error(1, code, bad);
        assert_eq!(db.sql(1, "select count(*) from t"), count, "{bad}");
    }
    assert_eq!(db.sql(1, "select count(*), max(id) from t where v like 'row%'"), "10|10");
}

#[test]
fn a_duplicate_key_is_refused_on_whichever_instance() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, g % 10 from generate_series(1, 20) g");
    let said = db.sql_error(2, "23505", "insert into t values (7, 0)");
    assert!(said.contains("\"t_pkey\"") && said.contains("(id)=(7)"), "{said}");
    db.sql_error(1, "23505", "create unique index once on t (v)");
    // The failed index left nothing: its name is free, and rows may be as they were.
    db.sql(2, "create index once on t (v)");
    db.sql(2, "insert into t values (21, 1)");
    // Of two that insert the same key at once, one waits for the other, then fails or goes on.
    for (end, code) in [("commit", Some("23505")), ("rollback", None)] {
        let mut first = db.client("psql", 1);
        first.args(["-X", "-c", "begin", "-c", "insert into t values (50, 0)"]);
        let mut first = first.args(["-c", "select pg_sleep(1)", "-c", end]).spawn().unwrap();
        wait_until("the first sleeps", || {
            let sql = "select count(*) from v$session_wait where event = 'PL/SQL lock timer'";
            db.sql(1, sql) == "1"
        });
        match code {
            Some(code) => drop(db.sql_error(2, code, "insert into t values (50, 1)")),
            None => drop(db.sql(2, "insert into t values (50, 1)")),
        }
        assert!(first.wait().unwrap().success());
        db.sql(1, "delete from t where id = 50");
    }
    assert_eq!(db.sql(1, "select count(*) from t"), "21");
}

#[test]
fn waits_for_a_lock_end_as_asked() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t values (1, 0), (2, 0)");
    let mut holder = db.client("psql", 1);
    holder.args(["-X", "-c", "begin", "-c", "update t set v = 1 where id = 1"]);
    let mut holder = holder.args(["-c", "select pg_sleep(60)"]).spawn().unwrap();
    wait_until("the row is locked", || {
        db.sql(2, "select count(*) from t where id = 1 and v = 0") == "1"
            && db.sql(1, "select count(*) from v$lock where type = 'TM'") == "1"
    });
    for k in 1..=2 {
        db.sql_error(k, "55P03", "select * from t where id = 1 for update nowait");
        let wait = "set lock_timeout = '200ms'; update t set v = 2 where id = 1";
        db.sql_error(k, "55P03", wait);
        let wait = "set statement_timeout = '200ms'; update t set v = 2 where id = 1";
        db.sql_error(k, "57014", wait);
        assert_eq!(db.sql(k, "select id from t order by id for update skip locked"), "2");
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    db.sql(2, "update t set v = v + 5");
    assert_eq!(db.sql(1, "select v from t order by id"), "5\n5");
}

#[test]
fn of_a_deadlock_across_instances_one_fails_and_the_other_goes_on() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t values (1, 0), (2, 0)");
    let session = |k: u16, first: u16, second: u16| {
        let mut psql = db.client("psql", k);
        psql.args(["-X", "-v", "VERBOSITY=verbose", "-c", "begin"]);
        psql.args(["-c", &format!("update t set v = v + 1 where id = {first}")]);
        psql.args(["-c", "select pg_sleep(1)"]);
        psql.args(["-c", &format!("update t set v = v + 1 where id = {second}"), "-c", "commit"]);
        psql.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped());
        psql.spawn().unwrap()
    };
    let both = [session(1, 1, 2), session(2, 2, 1)];
    let said: Vec<String> =
        both.into_iter().map(|child| all_text(&child.wait_with_output().unwrap())).collect();
    let failed = said.iter().filter(|text| text.contains("40P01")).count();
    assert_eq!(failed, 1, "{said:?}");
    assert_eq!(db.sql(1, "select v from t order by id"), "1\n1");
}

#[test]
fn files_of_the_database_that_are_missing_are_named() {
    let db = Db::init(1);
    for (file, code) in [("voting", 4), ("secret", 2), ("group.lock", 0), ("luns/lun0", 4)] {
        let (path, aside) = (db.dir().join(file), db.dir().join("aside"));
        std::fs::rename(&path, &aside).unwrap();
        if code != 0 {
            let said = fail(code, db.skein("start").args(["--instance", "1"]));
            assert!(said.contains(path.to_str().unwrap()), "{file}: {said}");
            let said = fail(code, db.skein("start").arg("--all"));
            assert!(said.contains(path.to_str().unwrap()), "{file}: {said}");
        }
        std::fs::rename(&aside, &path).unwrap();
    }
    std::fs::write(db.dir().join("secret"), "short").unwrap();
    let said = fail(2, db.skein("start").args(["--instance", "1"]));
    assert!(said.contains("secret") && said.contains("32 bytes"), "{said}");
}

#[test]
fn a_corrupt_block_fails_what_needs_it_on_every_instance_and_nothing_else() {
    let db = Db::open(2);
    db.sql(1, "create table good (id int primary key)");
    db.sql(1, "create table bad (id int primary key, v text)");
    db.sql(1, "insert into bad select g, repeat('x', 2000) from generate_series(1, 100) g");
    db.sql(1, "insert into bad values (101, 'needle in the haystack')");
    db.stop();
    db.spoil(b"needle in the haystack");
    db.start_all();
    for k in 1..=2 {
        let said = db.sql_error(k, "XX001", "select count(v) from bad");
        assert!(said.contains("block 4."), "{said}");
        // Its neighbours are read, by their key.
        assert_eq!(db.sql(k, "select length(v) from bad where id = 50"), "2000");
        db.sql(k, &format!("insert into good values ({k})"));
        db.sql(k, &format!("update bad set v = 'other' where id = {k}"));
    }
    // A transaction keeps what it did before.
    let script = "begin; insert into good values (3); savepoint s";
    let mut psql = db.client("psql", 1);
    psql.args(["-X", "-c", script, "-c", "select * from bad", "-c", "rollback to s; commit"]);
    let said = all_text(&psql.output().unwrap());
    assert!(said.contains("checksum"), "{said}");
    assert_eq!(db.sql(2, "select id from good order by id"), "1\n2\n3");
    for k in 1..=2 {
        assert_eq!(db.state(k), "OPEN");
        assert!(db.alert_log(k).contains("block 4."), "{}", db.alert_log(k));
    }
    // The way out: what can be read is copied, and the table goes.
    db.sql(2, "create table saved (id int primary key, v text)");
    db.sql(2, "insert into saved select * from bad where id < 90");
    db.sql(2, "drop table bad");
    db.sql(1, "create table bad (id int primary key, v text)");
    db.sql(1, "insert into bad select * from saved");
    db.stop();
    db.start_all();
    assert_eq!(db.sql(1, "select count(*) from bad"), "89");
}

#[test]
fn a_full_disk_group_spares_other_work_on_all_instances() {
    let db = Db::init_with(2, "128M", &[]);
    db.start_all();
    db.sql(1, "create table small (id int primary key)");
    db.sql(1, "create table big (id int, v text)");
    let fill = |k: u16| {
        let sql = "insert into big select g, repeat('x', 8000) from generate_series(1, 1000) g";
        let mut psql = db.client("psql", k);
        psql.args(["-X", "-v", "VERBOSITY=verbose", "-c", "begin"]);
        psql.args(["-c", &format!("insert into small select max(id) + {k} from small")]);
        psql.args(["-c", "savepoint s", "-c", sql, "-c", "rollback to s", "-c", "commit"]);
        all_text(&psql.output().unwrap())
    };
    db.sql(1, "insert into small values (0)");
    let mut said = String::new();
    for round in 0..60 {
        said = fill(1 + round % 2);
        if said.contains("ERROR") {
            break;
        }
        // Only what fails is taken back here: make it count.
        let sql = "insert into big select g, repeat('x', 8000) from generate_series(1, 1000) g";
        let mut psql = db.client("psql", 1 + round % 2);
        let out = psql.args(["-X", "-v", "VERBOSITY=verbose", "-c", sql]).output().unwrap();
        if !out.status.success() {
            said = all_text(&out);
            break;
        }
    }
    assert!(said.contains("53100") && said.contains("skein add lun"), "{said}");
    // Reads, and changes that need no new space, go on everywhere.
    let before = db.sql(1, "select count(*) from big");
    for k in 1..=2 {
        db.sql(k, "update small set id = -id - 1");
        db.sql(k, "delete from big where id = 1");
        assert!(db.sql(k, "select count(*) from big").parse::<u64>().unwrap() > 0);
    }
    crate::db::succeed(db.skein("add lun").args(["--lun-size", "256M"]));
    for k in 1..=2 {
        let said = fill(k);
        assert!(!said.contains("ERROR"), "{said}");
    }
    assert!(
        before.parse::<u64>().unwrap() >= db.sql(2, "select count(*) from big").parse().unwrap()
    );
    db.stop();
    db.start_all();
    assert_ne!(db.sql(2, "select count(*) from big"), "0");
}

/// A stack that overflows ends the process: no statement may be deep enough for it.
#[test]
fn statements_that_are_too_deep_are_refused_and_long_ones_are_not() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v text)");
    db.sql(1, "insert into t values (1, 'a')");
    let file = db.dir().join("deep.sql");
    let run = |sql: &str| {
        std::fs::write(&file, format!("{sql};\n")).unwrap();
        let mut psql = db.client("psql", 1);
        psql.args(["-X", "-A", "-t", "-q", "-v", "VERBOSITY=verbose", "-f"]).arg(&file);
        all_text(&psql.output().unwrap())
    };
    let tables = |count: usize, between: &str| -> String {
        (0..count / 2).map(|n| format!(" {between} (select 1) t{n}")).collect()
    };
    let (open, shut) = ("(".repeat(20_000), ")".repeat(20_000));
    for count in [10, 370, 5_000, 50_000] {
        let chain = |part: &str| part.repeat(count);
        for sql in [
            format!("select id from t where {} id = 1", chain("id = 2 or ")),
            format!("select id from t where {} id = 1", chain("id = 1 and ")),
            format!("select id from t where {} v = 'a'", chain("v like 'b%' or ")),
            format!("select {} 1", chain("1 + ")),
            format!("select {} id from t", chain("id + ")),
            format!("update t set v = v || {} '' where id = 2", chain("'b' || ")),
            format!("delete from t where id = 1 + {} 1", chain("1 + ")),
            format!("insert into t select 1 + {} 1 where false", chain("1 * ")),
            format!("select 1 {}", chain("::int")),
            format!("select {} true", chain("true = ")),
            format!("select {} 1", chain("- ")),
            format!("select {} true", chain("not ")),
            format!("{} select 1, 2", chain("select 1, 2 union all ")),
            format!("{} select id from t", chain("select id from t except ")),
            format!("select t.id from t {}", tables(count, "cross join")),
            format!("select t.id from t {}", tables(count, ",")),
            format!("select 1 where {} true {}", chain("exists (select 1 where "), chain(")")),
            format!("select {} 1 {}", chain("abs("), chain(")")),
            format!("select {} 0 {}", chain("case when true then 1 else "), chain(" end")),
            format!("select * from {} (select 1) x {}", chain("(select * from "), chain(") x")),
        ] {
            let said = run(&sql);
            let shown = sql.get(..60).unwrap_or(&sql);
            let fine = !said.contains("ERROR");
            assert!(!said.contains("closed the connection"), "{count} of {shown}: {said}");
            // What nests is cut off by the grammar, in its own words.
            let refused = said.contains("54001") || said.contains("42601");
            assert!(fine || refused, "{count} of {shown}: {said}");
            assert!(fine || count > 10, "{count} of {shown}: {said}");
        }
        assert_eq!(db.sql(1, "select id, v from t"), "1|a", "{count}");
    }
    assert!(run(&format!("select {open}1{shut}")).contains("54001"));
    // What programs write is not refused.
    let ors = "id = 2 or ".repeat(100);
    assert_eq!(run(&format!("select id from t where {ors} id = 1")).trim(), "1");
    let unions = "select 1 union all ".repeat(100);
    assert_eq!(run(&format!("{unions} select 1")).lines().count(), 101);
    let list: String = (2..20_000).map(|n| format!(", {n}")).collect();
    assert_eq!(run(&format!("select id from t where id in (1{list})")).trim(), "1");
    let rows: String = (2..20_000).map(|n| format!(", ({n}, 'v' || {n})")).collect();
    assert_eq!(run(&format!("insert into t values (0, ''){rows}")), "");
    assert_eq!(db.sql(1, "select count(*) from t"), "20000");
}

/// A client that has gone, or that cancels, ends its session's wait; what must be taken back is
/// taken back all the same.
#[test]
fn what_is_interrupted_is_taken_back_to_the_end() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, 0 from generate_series(1, 2000) g");
    for round in 1..=5 {
        let mut psql = db.client("psql", 1);
        psql.args(["-X", "-c", "begin", "-c", "update t set v = v + 1"]);
        let mut psql = psql.args(["-c", "select pg_sleep(100)"]).spawn().unwrap();
        wait_until("it sleeps", || {
            let sql = "select count(*) from v$session_wait where event = 'PL/SQL lock timer'";
            db.sql(1, sql) == "1"
        });
        // Its blocks go to the other instance: taking back must ask for them.
        assert_eq!(db.sql(2, "select sum(v) from t"), (10_000 * (round - 1)).to_string());
        psql.kill().unwrap();
        psql.wait().unwrap();
        db.sql(2, "update t set v = v + 5");
        assert_eq!(db.sql(1, "select sum(v) from t"), (10_000 * round).to_string());
    }
    // A statement that has changed all rows but the one it waits for.
    let mut holder = db.client("psql", 1);
    holder.args(["-X", "-c", "begin", "-c", "update t set v = 0 where id = 2000"]);
    let mut holder = holder.args(["-c", "select pg_sleep(100)"]).spawn().unwrap();
    wait_until("it sleeps", || {
        let sql = "select count(*) from v$session_wait where event = 'PL/SQL lock timer'";
        db.sql(1, sql) == "1"
    });
    for k in [2, 1, 2] {
        let slow = "set statement_timeout = '700ms'; update t set v = v + 1";
        db.sql_error(k, "57014", slow);
        assert_eq!(db.sql(k, "select sum(v) from t"), "50000");
    }
    holder.kill().unwrap();
    holder.wait().unwrap();
    db.sql(2, "update t set v = v - 25");
    assert_eq!(db.sql(1, "select sum(v) from t"), "0");
    for k in 1..=2 {
        assert_eq!(db.sql(k, "select count(*) from v$lock"), "0");
    }
    assert!(!db.alert_log(1).contains("could not be rolled back"), "{}", db.alert_log(1));
}

/// Fault points cost nothing in what users run: their names, which a build with them prints, are
/// not in it.
#[test]
fn no_fault_points_in_the_program() {
    let source = std::fs::read_to_string("../env/src/marks.rs").unwrap();
    let names: Vec<&str> = source
        .lines()
        .filter_map(|line| line.split_once(": \"")?.1.split_once("\", \"").map(|(name, _)| name))
        .filter(|name| name.contains('.'))
        .collect();
    assert!(names.len() > 20, "{names:?}");
    let command = skein();
    let program = std::fs::read(command.get_program()).unwrap();
    let program = String::from_utf8_lossy(&program);
    let has = |name: &str| program.contains(name);
    assert!(has("log file sync"), "names of wait events are in it");
    let found: Vec<&str> = names.into_iter().filter(|name| has(name)).collect();
    assert!(found.is_empty(), "{found:?}");
}
