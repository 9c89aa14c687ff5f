//! Definitions that one instance changes, as the sessions of another see them.

use crate::clients::connect;
use crate::db::{Db, wait_until};
use nix::sys::signal::Signal;

#[tokio::test(flavor = "multi_thread")]
async fn a_view_that_is_replaced_is_the_new_one_in_the_next_statement_elsewhere() {
    let db = Db::open(2);
    db.sql(1, "create table t (id int primary key, a int)");
    db.sql(1, "insert into t values (1, 10)");
    db.sql(1, "create view v as select a from t");
    let other = connect(&db, 2).await;
    let select = other.prepare("select a from v").await.unwrap();
    let value = async || other.query_one(&select, &[]).await.unwrap().get::<_, i32>(0);
    assert_eq!(value().await, 10);
    db.sql(1, "create or replace view v as select a * 2 as a from t");
    assert_eq!(value().await, 20);
    db.sql(1, "alter table t rename a to b");
    assert_eq!(value().await, 20);
    db.sql(1, "alter table t add check (b < 100)");
    db.sql_error(2, "23514", "insert into t values (2, 100)");
    db.sql_error(2, "2BP01", "drop table t");
    db.sql(1, "drop view v");
    assert!(other.query_one(&select, &[]).await.is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_in_the_making_keeps_no_other_instance_waiting() {
    let db = Db::open(2);
    db.sql(1, "create table t (a int); insert into t values (1)");
    let (maker, other) = (connect(&db, 1).await, connect(&db, 2).await);
    let select = other.prepare("select a from t").await.unwrap();
    let value = async || other.query_one(&select, &[]).await.unwrap().get::<_, i32>(0);
    assert_eq!(value().await, 1);
    maker.batch_execute("begin; create schema skein").await.unwrap();
    maker.batch_execute("create table skein.t (a int)").await.unwrap();
    maker.batch_execute("insert into skein.t values (2)").await.unwrap();
    assert_eq!(value().await, 1, "nothing is committed");
    maker.batch_execute("commit").await.unwrap();
    assert_eq!(value().await, 2, "the user's own schema comes first");
    maker.batch_execute("drop schema skein cascade").await.unwrap();
    assert_eq!(value().await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn temporary_tables_go_with_their_session_and_with_an_instance_that_dies() {
    const COUNT: &str =
        "select count(*) from pg_class where relpersistence = 't' and relkind = 'r'";
    let db = Db::open(2);
    let make = "create temp table t (id serial, a int); insert into t (a) values (1)";
    let session = connect(&db, 1).await;
    session.batch_execute(make).await.unwrap();
    assert_eq!(db.sql(2, COUNT), "1");
    db.sql_error(2, "42P01", "select * from t");
    drop(session);
    wait_until("the session's table is gone", || db.sql(2, COUNT) == "0");
    let session = connect(&db, 1).await;
    session.batch_execute(make).await.unwrap();
    db.signal(1, Signal::SIGKILL);
    assert_eq!(db.sql(2, COUNT), "1");
    db.start_all();
    wait_until("what was left is gone", || db.sql(2, COUNT) == "0");
    assert_eq!(db.sql(1, "select count(*) from pg_sequences"), "0");
}
