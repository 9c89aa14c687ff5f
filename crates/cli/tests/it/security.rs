//! Who gets in, and how: privileges over instances, TLS, rules for log-ons, limits, the audit
//! trail.

use crate::clients::connect;
use crate::db::{Db, PASSWORD, all_text, fail, skein, succeed, wait_until};
use std::path::Path;
use std::process::Command;

/// psql of a user of the database with these connection options.
fn psql(db: &Db, k: u16, options: &str) -> Command {
    let mut command = Command::new("psql");
    let port = db.port(k);
    command.args(["-X", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-v", "VERBOSITY=verbose", "-d"]);
    command.arg(format!("host=127.0.0.1 port={port} dbname=skein {options}"));
    command.env("PGPASSWORD", PASSWORD);
    command
}

fn told(command: &mut Command) -> String {
    let out = command.output().expect("psql runs");
    assert!(!out.status.success(), "{command:?}: {}", all_text(&out));
    all_text(&out)
}

fn said(db: &Db, k: u16, options: &str, sql: &str) -> String {
    succeed(psql(db, k, options).args(["-c", sql])).trim().to_owned()
}

fn refused(db: &Db, k: u16, options: &str, sql: &str) -> String {
    told(psql(db, k, options).args(["-c", sql]))
}

fn openssl(dir: &Path, args: &[&str]) {
    succeed(Command::new("openssl").current_dir(dir).args(args));
}

/// An authority, the server's certificate for 127.0.0.1, and one of user `ann`.
pub fn certificates(dir: &Path) {
    let key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"];
    let authority = ["-x509", "-keyout", "ca.key", "-out", "ca.crt", "-subj", "/CN=authority"];
    openssl(dir, &[&["req"][..], &key[..], &authority].concat());
    for (name, subject) in [("server", "/CN=127.0.0.1"), ("ann", "/CN=ann")] {
        let (own, request) = (format!("{name}.key"), format!("{name}.csr"));
        let asked = ["-keyout", &own, "-out", &request, "-subj", subject];
        openssl(dir, &[&["req"][..], &key[..5], &asked].concat());
        std::fs::write(dir.join("ext"), "subjectAltName=IP:127.0.0.1\n").unwrap();
        let out = format!("{name}.crt");
        let signed = ["x509", "-req", "-in", &request, "-CA", "ca.crt", "-CAkey", "ca.key"];
        let more = ["-CAcreateserial", "-days", "2", "-extfile", "ext", "-out", &out];
        openssl(dir, &[&signed[..], &more].concat());
    }
}

pub const TLS: [&str; 3] =
    ["ssl_cert_file=server.crt", "ssl_key_file=server.key", "ssl_ca_file=ca.crt"];

/// A REVOKE on one instance counts for the next statement on another, prepared or not, and so do
/// what a role is a member of and what a user is.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_revoked_on_one_instance_counts_on_the_others() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, a int)");
    db.sql(1, "insert into t values (1, 10)");
    db.sql(1, &format!("create user ann password '{}'", PASSWORD.replace('\'', "''")));
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(db.port(2)).user("ann").dbname("skein").password(PASSWORD);
    let (ann, connection) = config.connect(tokio_postgres::NoTls).await.expect("connects");
    tokio::spawn(connection);
    let denied = |e: tokio_postgres::Error| e.code().unwrap().code().to_owned();
    let read = "select a from t where id = 1";
    assert_eq!(denied(ann.query(read, &[]).await.unwrap_err()), "42501");
    db.sql(1, "grant select on t to ann");
    let prepared = ann.prepare(read).await.unwrap();
    for _ in 0..3 {
        assert_eq!(ann.query_one(&prepared, &[]).await.unwrap().get::<_, i32>(0), 10);
    }
    db.sql(1, "revoke select on t from ann");
    assert_eq!(denied(ann.query(&prepared, &[]).await.unwrap_err()), "42501");
    db.sql(1, "create role readers; grant select on t to readers");
    db.sql(1, "grant readers to ann");
    assert_eq!(ann.query_one(&prepared, &[]).await.unwrap().get::<_, i32>(0), 10);
    db.sql(1, "alter role ann noinherit");
    assert_eq!(denied(ann.query(&prepared, &[]).await.unwrap_err()), "42501");
    db.sql(1, "alter role ann superuser");
    assert_eq!(ann.query_one(&prepared, &[]).await.unwrap().get::<_, i32>(0), 10);
    db.sql(1, "alter role ann nosuperuser");
    assert_eq!(denied(ann.query(&prepared, &[]).await.unwrap_err()), "42501");
}

#[test]
fn connections_are_encrypted_and_certificates_checked() {
    let db = Db::init_with(1, "256M", &TLS);
    // No file is there yet.
    let why = fail(2, skein().arg("start").arg(db.dir()).arg("--all"));
    assert!(why.contains("server.crt"), "{why}");
    certificates(db.dir());
    std::fs::rename(db.dir().join("server.key"), db.dir().join("kept")).unwrap();
    let why = fail(2, skein().arg("start").arg(db.dir()).arg("--all"));
    assert!(why.contains("server.key"), "{why}");
    std::fs::copy(db.dir().join("ann.key"), db.dir().join("server.key")).unwrap();
    let why = fail(2, skein().arg("start").arg(db.dir()).arg("--all"));
    assert!(why.contains("does not go with"), "{why}");
    std::fs::rename(db.dir().join("kept"), db.dir().join("server.key")).unwrap();
    let rules = "local all all scram-sha-256\nhostssl all ann all cert\n\
                 hostssl all all all scram-sha-256\nhostnossl all bob all scram-sha-256\n";
    std::fs::write(db.dir().join("pg_hba.conf"), rules).unwrap();
    db.start_all();
    let at = |name: &str| db.dir().join(name).display().to_string();
    let verified = format!("sslmode=verify-full sslrootcert={}", at("ca.crt"));
    let skein = format!("user=skein {verified}");
    assert_eq!(said(&db, 1, &skein, "show ssl"), "on");
    let many = "select count(*) from generate_series(1, 100000)";
    assert_eq!(said(&db, 1, "user=skein sslmode=require", many), "100000");
    let long = "select length(repeat('x', 3000000)), repeat('y', 200000)";
    assert!(said(&db, 1, &skein, long).starts_with("3000000|yyy"));
    said(&db, 1, &skein, "create user ann; create user bob password 'b'");
    // In plain text only one user gets in, and that one only so.
    let why = refused(&db, 1, "user=skein sslmode=disable", "select 1");
    assert!(why.contains("no pg_hba.conf entry") && why.contains("no encryption"), "{why}");
    assert_eq!(said(&db, 1, "user=bob password=b sslmode=disable", "select current_user"), "bob");
    let other = format!("user=skein sslmode=verify-full sslrootcert={}", at("ann.crt"));
    assert!(refused(&db, 1, &other, "select 1").contains("certificate"), "verified by the client");
    // Another client library: psycopg, by the same rules.
    let connect = concat!(
        "import psycopg, sys\n",
        "c = psycopg.connect(sys.argv[1])\n",
        "print(c.pgconn.ssl_in_use, c.execute('select current_user').fetchone()[0])"
    );
    let mut python = Command::new(crate::programs::drivers().join("venv/bin/python"));
    let address = format!("host=127.0.0.1 port={} dbname=skein", db.port(1));
    python.env("PGPASSWORD", PASSWORD).args(["-c", connect, &format!("{address} {skein}")]);
    assert_eq!(succeed(&mut python).trim(), "True skein");
    // By certificate, without a password.
    let why = refused(&db, 1, &format!("user=ann {verified}"), "select 1");
    assert!(why.contains("requires a valid client certificate"), "{why}");
    let key = at("ann.key");
    std::process::Command::new("chmod").args(["600", &key]).status().unwrap();
    let own = format!("{verified} sslcert={} sslkey={key}", at("ann.crt"));
    assert_eq!(said(&db, 1, &format!("user=ann {own}"), "select current_user"), "ann");
    let role = "insert into pg_temp.x select 1";
    assert!(!refused(&db, 1, &format!("user=ann {own}"), role).is_empty());
}

#[test]
fn rules_count_without_a_restart_and_wrong_ones_do_not() {
    let db = Db::open(1);
    let hba = db.dir().join("pg_hba.conf");
    db.sql(1, "create role inside; create user ann password 'a' in role inside");
    db.sql(1, "create user bob password 'b'; create role nologin");
    let rules = "host all +inside 127.0.0.0/8 trust\nhost all bob 127.0.0.1 255.255.255.255 reject\n\
                 host all all all scram-sha-256\n";
    std::fs::write(&hba, rules).unwrap();
    assert_eq!(said(&db, 1, "user=ann password=wrong", "select current_user"), "ann");
    let why = refused(&db, 1, "user=bob password=b", "select 1");
    assert!(why.contains("pg_hba.conf rejects connection for host \"127.0.0.1\""), "{why}");
    let seen = "select line_number, type, user_name, address, netmask, auth_method, error is null \
                from pg_hba_file_rules order by 1";
    let first = "1|host|{+inside}|127.0.0.0|255.0.0.0|trust|t";
    assert_eq!(db.sql(1, seen).lines().next(), Some(first));
    // A wrong line: what was there counts, and the view and the log say which.
    std::fs::write(&hba, "host all all all trust\nhost all all nowhere trust\n").unwrap();
    assert!(refused(&db, 1, "user=bob password=b", "select 1").contains("rejects"));
    let errors = "select line_number, error from pg_hba_file_rules where error is not null";
    assert!(db.sql(1, errors).starts_with("2|invalid IP address \"nowhere\""));
    assert!(db.alert_log(1).contains("not reloaded: line 2"), "{}", db.alert_log(1));
    // Nor does a file that has gone open the door.
    std::fs::remove_file(&hba).unwrap();
    assert!(refused(&db, 1, "user=bob password=b", "select 1").contains("rejects"));
    assert!(db.sql(1, errors).contains("is missing"), "{}", db.sql(1, errors));
    assert!(db.alert_log(1).contains("is missing"), "{}", db.alert_log(1));
    std::fs::write(&hba, "host all all all scram-sha-256\n").unwrap();
    assert_eq!(said(&db, 1, "user=bob password=b", "select current_user"), "bob");
    // What a role is, whatever the rules.
    assert!(refused(&db, 1, "user=nologin", "select 1").contains("password"));
    db.sql(1, "alter role bob nologin");
    assert!(refused(&db, 1, "user=bob password=b", "select 1").contains("not permitted to log in"));
    db.sql(1, "alter role bob login valid until '2001-01-01'");
    assert!(refused(&db, 1, "user=bob password=b", "select 1").contains("password authentication"));
    db.sql(
        1,
        "alter role bob valid until 'infinity'; revoke connect on database skein from public",
    );
    assert!(refused(&db, 1, "user=bob password=b", "select 1").contains("permission denied for"));
    db.sql(1, "grant connect on database skein to bob; alter role bob set lock_timeout = '7s'");
    assert_eq!(said(&db, 1, "user=bob password=b", "show lock_timeout"), "7s");
    said(&db, 1, "user=bob password=b", "alter role bob password 'c'");
    assert_eq!(said(&db, 1, "user=bob password=c", "show is_superuser"), "off");
    // A wrong file stops the start.
    db.stop();
    std::fs::write(&hba, "nonsense\n").unwrap();
    let why = fail(2, skein().arg("start").arg(db.dir()).arg("--all"));
    assert!(why.contains("line 1") && why.contains("nonsense"), "{why}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_are_limited_and_do_not_idle_for_ever() {
    let set = ["max_connections=6", "superuser_reserved_connections=2"];
    let db = Db::init_with(1, "256M", &set);
    db.start_all();
    db.sql(1, "create user ann password 'a' connection limit 2");
    let open = async |user: &str, password: &str| {
        let mut config = tokio_postgres::Config::new();
        config.host("127.0.0.1").port(db.port(1)).user(user).dbname("skein").password(password);
        let (client, connection) = config.connect(tokio_postgres::NoTls).await?;
        tokio::spawn(connection);
        Ok::<_, tokio_postgres::Error>(client)
    };
    let (one, two) = (open("ann", "a").await.unwrap(), open("ann", "a").await.unwrap());
    let Err(third) = open("ann", "a").await else { panic!("over the role's limit") };
    let third = third.as_db_error().unwrap();
    assert_eq!(third.code().code(), "53300");
    assert_eq!(third.message(), "too many connections for role \"ann\"");
    db.sql(1, "alter role ann connection limit -1");
    let (three, four) = (open("ann", "a").await.unwrap(), open("ann", "a").await.unwrap());
    let Err(fifth) = open("ann", "a").await else { panic!("kept for superusers") };
    let fifth = fifth.as_db_error().unwrap();
    assert!(fifth.message().contains("reserved"), "{fifth}");
    let skein = connect(&db, 1).await;
    assert_eq!(db.sql(1, "select count(*) from v$session where username = 'ANN'"), "4");
    // It joins with the list of users.
    let own = "select u.username from v$session s join dba_users u on u.username = s.username \
               where s.sid = sys_context('userenv', 'sid') and s.username = user";
    assert_eq!(three.query_one(own, &[]).await.unwrap().get::<_, String>(0), "ANN");
    // What others run is not for everybody to see.
    let hidden = "select count(*) from pg_stat_activity where usename = 'skein' and backend_type = \
                  'client backend' and query = '<insufficient privilege>'";
    assert_eq!(three.query_one(hidden, &[]).await.unwrap().get::<_, i64>(0), 1);
    assert_eq!(skein.query_one(hidden, &[]).await.unwrap().get::<_, i64>(0), 0);
    skein.batch_execute("prepare told as select 1").await.unwrap();
    for (view, user) in [
        ("v$session", "username"),
        ("gv$session", "username"),
        ("v$open_cursor", "user_name"),
        ("gv$open_cursor", "user_name"),
    ] {
        let seen = format!(
            "select count(*) from {view} where {user} = 'SKEIN' and sql_text not like '<%'"
        );
        assert_eq!(three.query_one(&seen, &[]).await.unwrap().get::<_, i64>(0), 0, "{view}");
        assert!(skein.query_one(&seen, &[]).await.unwrap().get::<_, i64>(0) > 0, "{view}");
    }
    drop((two, three, four));
    // Idle in a transaction, and idle at all.
    one.batch_execute("set idle_in_transaction_session_timeout = '50ms'; begin").await.unwrap();
    wait_until("the session is ended", || one.is_closed());
    skein.batch_execute("set idle_session_timeout = '50ms'").await.unwrap();
    wait_until("the session is ended", || skein.is_closed());
    let text = "set idle_session_timeout = 1; select pg_sleep(0.1); select 'awake'";
    assert_eq!(db.sql(1, text).lines().last(), Some("awake"), "a busy session is not idle");
}

#[test]
fn log_ons_and_changes_leave_a_trail_on_all_instances() {
    let db = Db::init_with(2, "256M", &["audit_file_size=16K", "audit_files=2"]);
    db.start_all();
    db.sql(1, "create user ann password 'very secret'");
    db.sql(2, "create table t (a int)");
    db.sql(2, "grant select on t to ann");
    told(psql(&db, 1, "user=ann password=wrong").args(["-c", "select 1"]));
    refused(&db, 1, "user=ann password='very secret'", "drop table t");
    let trail = |sql: &str| db.sql(1, sql);
    let failed = "select outcome, count(*) from gv$audit_trail where action = 'LOGON' and \
                  username = 'ANN' group by 1 order by 1";
    assert_eq!(trail(failed), "00000|1\n28P01|1");
    let changes = "select inst_id, username, action, outcome, sql_text from gv$audit_trail \
                   where action not like 'LOG%' order by event_time";
    let changes = trail(changes);
    for line in [
        "1|SKEIN|CREATE ROLE|00000|create user ann password '********'",
        "2|SKEIN|CREATE TABLE|00000|create table t (a int)",
        "2|SKEIN|GRANT|00000|grant select on t to ann",
        "1|ANN|DROP TABLE|42501|drop table t",
    ] {
        assert!(changes.lines().any(|known| known == line), "{line} in {changes}");
    }
    wait_until("the log-off is there", || {
        trail("select count(*) from v$audit_trail where action = 'LOGOFF' and username = 'ANN'")
            == "1"
    });
    assert!(
        refused(&db, 1, "user=ann password='very secret'", "select * from v$audit_trail")
            .contains("42501")
    );
    // It goes round.
    let file = db.dir().join("audit_1.log");
    let long = "x".repeat(3_000);
    wait_until("older files are there and bounded", || {
        db.sql(1, &format!("comment on table t is '{long}'"));
        db.dir().join("audit_1.log.2").exists()
    });
    for _ in 0..12 {
        db.sql(1, &format!("comment on table t is '{long}'"));
    }
    assert!(!db.dir().join("audit_1.log.3").exists());
    assert!(std::fs::metadata(&file).unwrap().len() <= 16 << 10);
    assert!(!db.logs().contains("very secret"));
}
