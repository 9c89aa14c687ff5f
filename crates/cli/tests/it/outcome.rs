//! What a client whose COMMIT was not answered can find out, and where it goes on.

use crate::clients::connect;
use crate::db::{Db, succeed, wait_until};

#[tokio::test(flavor = "multi_thread")]
async fn a_transaction_in_doubt_is_asked_for_by_its_id() {
    let db = Db::open(3);
    db.sql(1, "create table t (id int primary key)");
    let client = connect(&db, 2).await;
    let begin = async |id: i32| -> i64 {
        client.batch_execute(&format!("begin; insert into t values ({id})")).await.unwrap();
        client.query_one("select txid_current()", &[]).await.unwrap().get(0)
    };
    let told = |k: u16, xid: i64| db.sql(k, &format!("select skein_transaction_outcome({xid})"));
    let committed = begin(1).await;
    for k in 1..=3 {
        assert_eq!(told(k, committed), "in progress");
    }
    client.batch_execute("commit").await.unwrap();
    let aborted = begin(2).await;
    client.batch_execute("rollback").await.unwrap();
    let lost = begin(3).await;
    assert!(committed != aborted && aborted != lost);
    db.abort(2);
    for k in [1, 3] {
        assert_eq!(told(k, committed), "committed");
        assert_eq!(told(k, aborted), "aborted");
        wait_until("what the dead left open is rolled back", || told(k, lost) == "aborted");
        assert_eq!(db.sql(k, &format!("select txid_status({lost})")), "aborted");
    }
    db.start_all();
    assert_eq!((told(2, committed), told(2, lost)), ("committed".into(), "aborted".into()));
    assert_eq!(db.sql(1, "select id from t"), "1");
    for (code, sql) in [
        ("22023", "select skein_transaction_outcome(0)"),
        ("22023", "select skein_transaction_outcome(-1)"),
        ("22023", "select skein_transaction_outcome(281479271677952)"),
        ("42883", "select skein_transaction_outcome()"),
    ] {
        db.sql_error(1, code, sql);
    }
    assert_eq!(db.sql(1, "select skein_transaction_outcome(null) is null"), "t");
}

#[test]
fn a_connection_string_of_several_hosts_finds_one_that_lives() {
    let db = Db::open(2);
    let ports = format!("{},{}", db.port(1), db.port(2));
    db.abort(1);
    let mut psql = db.client("psql", 2);
    psql.env_remove("PGHOST").env_remove("PGPORT").env("PGHOST", "127.0.0.1,127.0.0.1");
    psql.env("PGPORT", ports).args([
        "-X",
        "-A",
        "-t",
        "-c",
        "select instance_number from v$instance",
    ]);
    assert_eq!(succeed(&mut psql).trim(), "2");
}
