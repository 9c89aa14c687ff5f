//! Clients as they come: psql, pgbench, a driver.

use crate::db::{Db, PASSWORD, succeed, wait_until};
use tokio_postgres::{Client, NoTls, SimpleQueryMessage};

pub async fn connect(db: &Db, k: u16) -> Client {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(db.port(k)).user("skein").dbname("skein").password(PASSWORD);
    let (client, connection) = config.connect(NoTls).await.expect("connects");
    tokio::spawn(connection);
    client
}

/// First column of the rows of a query, without NULLs.
pub async fn strings(client: &Client, sql: &str) -> Vec<String> {
    let messages = client.simple_query(sql).await.expect("a query runs");
    let text = |m: SimpleQueryMessage| match m {
        SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    };
    messages.into_iter().filter_map(text).collect()
}

#[test]
fn pgbench_runs_unmodified() {
    let db = Db::open(1);
    succeed(db.client("pgbench", 1).args(["-i", "-s", "1", "-q"]));
    assert_eq!(db.sql(1, "select count(*) from pgbench_accounts"), "100000");
    for mode in ["simple", "extended", "prepared"] {
        for script in [&["-S"][..], &[], &["-N"]] {
            let mut pgbench = db.client("pgbench", 1);
            pgbench.args(["-n", "-c", "2", "-t", "50", "-M", mode]).args(script);
            let said = succeed(&mut pgbench);
            assert!(said.contains("number of failed transactions: 0"), "{mode}: {said}");
        }
    }
    let sums = "select (select sum(abalance) from pgbench_accounts) \
                = (select sum(bbalance) from pgbench_branches) as a, \
                (select sum(tbalance) from pgbench_tellers) is not null as b";
    assert_eq!(db.sql(1, sums).split('|').count(), 2);
    let history = db.sql(1, "select count(*) from pgbench_history");
    assert_eq!(history, "600", "3 modes, 2 scripts that write, 2 clients, 50 each");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blocked_statement_can_be_cancelled() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t values (1, 0)");
    let (holder, waiter) = (connect(&db, 1).await, connect(&db, 1).await);
    holder.batch_execute("begin; update t set v = 1 where id = 1").await.unwrap();
    let cancel = waiter.cancel_token();
    let blocked = tokio::spawn(async move {
        let outcome = waiter.batch_execute("update t set v = 2 where id = 1").await;
        (outcome, waiter)
    });
    wait_until("it waits for the row", || {
        db.sql(1, "select count(*) from v$session_wait where event like 'enq: TX%'") == "1"
    });
    cancel.cancel_query(NoTls).await.unwrap();
    let (outcome, waiter) = blocked.await.unwrap();
    assert_eq!(outcome.unwrap_err().code().unwrap().code(), "57014");
    holder.batch_execute("commit").await.unwrap();
    waiter.batch_execute("update t set v = 3 where id = 1").await.unwrap();
    assert_eq!(db.sql(1, "select v from t"), "3");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_disappears_gives_its_locks_back() {
    let db = Db::open(1);
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t values (1, 0)");
    {
        let client = connect(&db, 1).await;
        client.batch_execute("begin; update t set v = 1 where id = 1").await.unwrap();
    }
    db.sql(1, "update t set v = v + 10 where id = 1");
    assert_eq!(db.sql(1, "select v from t"), "10");
}

#[tokio::test(flavor = "multi_thread")]
async fn stopping_tells_clients_why() {
    let db = Db::open(1);
    let client = connect(&db, 1).await;
    client.batch_execute("select 1").await.unwrap();
    db.stop();
    let e = client.batch_execute("select 1").await.unwrap_err();
    assert!(e.is_closed() || e.code().is_some_and(|c| c.code() == "57P01"), "{e}");
    assert_eq!(db.state(1), "DOWN");
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_and_rows_travel_in_binary() {
    let db = Db::open(1);
    let client = connect(&db, 1).await;
    client
        .batch_execute("create table t (a int8 primary key, b text, c float8, d bool, e bytea)")
        .await
        .unwrap();
    let insert = "insert into t values ($1, $2, $3, $4, $5)";
    let bytes = vec![0_u8, 1, 255];
    client.execute(insert, &[&7_i64, &"x'y", &1.5_f64, &true, &bytes]).await.unwrap();
    client
        .execute(insert, &[&8_i64, &None::<String>, &None::<f64>, &None::<bool>, &None::<Vec<u8>>])
        .await
        .unwrap();
    let rows = client.query("select * from t order by a", &[]).await.unwrap();
    assert_eq!(rows[0].get::<_, String>("b"), "x'y");
    assert_eq!(rows[0].get::<_, f64>("c"), 1.5);
    assert!(rows[0].get::<_, bool>("d"));
    assert_eq!(rows[0].get::<_, Vec<u8>>("e"), bytes);
    assert_eq!(rows[1].get::<_, Option<String>>("b"), None);
}

/// PSS of a process in KB: its memory, shared pages counted in part.
fn pss_kb(pid: i64) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find(|line| line.starts_with("Pss:")).unwrap();
    line.split_ascii_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn idle_sessions_are_small() {
    const SESSIONS: u64 = 200;
    let db = Db::init_with(1, "256M", &["max_connections=300"]);
    db.start_all();
    db.sql(1, "create table t (id int primary key, v int)");
    db.sql(1, "insert into t select g, g from generate_series(1, 1000) g");
    let pid = db.status()["instances"][0]["pid"].as_i64().unwrap();
    let open = async || {
        let client = connect(&db, 1).await;
        let select = client.prepare("select v from t where id = $1").await.unwrap();
        assert_eq!(client.query_one(&select, &[&7]).await.unwrap().get::<_, i32>(0), 7);
        (client, select)
    };
    let warm = open().await;
    let before = pss_kb(pid);
    let mut held = vec![warm];
    for _ in 0..SESSIONS {
        held.push(open().await);
    }
    let each = (pss_kb(pid) - before) / SESSIONS;
    assert!(each <= 300, "{each} KB for each idle session");
}

#[test]
fn a_password_set_in_clear_text_counts_on_every_instance() {
    let db = Db::open(2);
    let log_on = |k: u16, user: &str, password: &str| {
        let mut psql = db.client("psql", k);
        psql.env("PGUSER", user).env("PGPASSWORD", password);
        let out = psql.args(["-X", "-A", "-t", "-c", "select current_user"]).output().unwrap();
        (out.status.success(), crate::db::all_text(&out))
    };
    db.sql(1, "create role ann login password 'first'");
    for k in 1..=2 {
        assert_eq!(log_on(k, "ann", "first"), (true, "ann\n".to_owned()));
        assert!(!log_on(k, "ann", "wrong").0);
    }
    db.sql(2, "alter role ann password 'it''s second'");
    for k in 1..=2 {
        assert!(!log_on(k, "ann", "first").0, "the old password counts on instance {k}");
        assert_eq!(log_on(k, "ann", "it's second"), (true, "ann\n".to_owned()));
    }
    // A change that is rolled back, and what a verifier is: never the text.
    db.sql(1, "begin; alter role ann password 'third'; rollback");
    assert!(log_on(2, "ann", "it's second").0);
    let kept = db.sql(1, "select rolpassword from pg_authid where rolname = 'ann'");
    assert!(!kept.contains("second"), "{kept}");
    // What psql's \\password sends: the verifier of "fourth".
    let verifier = "SCRAM-SHA-256$4096:c2l4dGVlbiBieXRlcyBvaw==$\
                    GcLG966uXtY26q158wUyh5qLW68kDIQOGSvPFzpUkBI=:\
                    nVho6FE2krXRoBo1CIKoKcwj1wz5l1Y0jS2BXfNcdRk=";
    assert_eq!(db.sql(1, "show password_encryption"), "scram-sha-256");
    db.sql(1, &format!("alter user ann password '{verifier}'"));
    assert_eq!(log_on(2, "ann", "fourth"), (true, "ann\n".to_owned()));
    db.sql(1, "create user bob with encrypted password 'his'");
    assert_eq!(log_on(2, "bob", "his"), (true, "bob\n".to_owned()));
    db.sql(2, "drop user bob");
    assert!(!log_on(1, "bob", "his").0, "a dropped user logs on");
    // Without a password there is no way in over TCP.
    db.sql(1, "alter role ann password null");
    assert!(!log_on(1, "ann", "fourth").0 && !log_on(2, "ann", "").0);
    let (ok, said) = log_on(1, "skein", "wrong");
    assert!(!ok && said.contains("password authentication failed"), "{said}");
    // The superuser's own.
    db.sql(2, "alter role skein password 'new'");
    assert!(log_on(1, "skein", "new").0 && !log_on(1, "skein", PASSWORD).0);
}

#[test]
fn psqls_lists_work() {
    let db = Db::open(1);
    db.sql(1, "create table t (id serial primary key, v text unique not null)");
    db.sql(1, "create index by_v on t (v)");
    for (command, wanted) in [
        ("\\d", "t_id_seq"),
        ("\\dt", "public|t|table|skein"),
        ("\\dt+", "public|t|table|skein"),
        ("\\d t", "\"by_v\" btree (v)"),
        ("\\d+ t", "not null"),
        ("\\di", "t_pkey|index|skein|t"),
        ("\\di+", "t_pkey|index|skein|t"),
        ("\\ds", "t_id_seq|sequence"),
        ("\\ds+", "t_id_seq|sequence"),
        ("\\d t_id_seq", "integer"),
        ("\\dv", ""),
        ("\\dn", "public|pg_database_owner"),
        ("\\dn+", "public|pg_database_owner"),
        ("\\du", "skein|Superuser"),
        ("\\l", "skein|skein|UTF8"),
        ("\\l+", "skein|skein|UTF8"),
        ("\\df", ""),
        ("\\db", "users"),
        ("\\conninfo", "connected to database"),
    ] {
        let mut psql = db.client("psql", 1);
        psql.args(["-X", "-A", "-v", "ON_ERROR_STOP=1", "-c", command]);
        let out = psql.output().unwrap();
        let text = crate::db::all_text(&out);
        assert!(out.status.success() && !text.contains("ERROR"), "{command}: {text}");
        assert!(text.contains(wanted), "{command}: {text}");
    }
}

/// Libraries branch on the fields of an error beside its code.
#[tokio::test(flavor = "multi_thread")]
async fn errors_name_table_column_and_constraint() {
    let db = Db::open(1);
    let client = connect(&db, 1).await;
    let made = "create schema s; create table s.p (id int primary key); \
        create table s.c (id int not null check (id > 0), p int references s.p); \
        insert into s.p values (1); insert into s.c values (1, 1)";
    client.batch_execute(made).await.unwrap();
    let told = async |sql: &str| {
        let error = client.batch_execute(sql).await.unwrap_err();
        let error = error.as_db_error().expect("the server's error").clone();
        let of = |name: Option<&str>| name.unwrap_or("-").to_owned();
        let fields = [error.schema(), error.table(), error.column(), error.constraint()];
        format!("{} {}", error.code().code(), fields.map(of).join(" "))
    };
    assert_eq!(told("insert into s.p values (1)").await, "23505 s p - p_pkey");
    assert_eq!(told("insert into s.c values (null)").await, "23502 s c id -");
    assert_eq!(told("insert into s.c values (-1)").await, "23514 s c - c_id_check");
    assert_eq!(told("insert into s.c values (2, 2)").await, "23503 s c - c_p_fkey");
    assert_eq!(told("delete from s.p").await, "23503 s c - c_p_fkey");
    assert_eq!(told("select 1 / 0").await, "22012 - - - -");
}
