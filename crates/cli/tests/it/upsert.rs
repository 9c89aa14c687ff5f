//! INSERT ... ON CONFLICT from several instances at once.

use crate::clients::connect;
use crate::db::Db;
use std::sync::Arc;

/// Sessions of two instances insert or count up the same few keys, rows of their own beside them:
/// no duplicate is refused, no increment lost.
#[tokio::test(flavor = "multi_thread")]
async fn upserts_of_two_instances_lose_no_increment() {
    const EACH: i64 = 150;
    const KEYS: i64 = 5;
    let db = Arc::new(Db::open(2));
    db.sql(1, "create table t (id int8 primary key, other int8 unique, v int8 not null)");
    let mut workers = Vec::new();
    for k in [1, 2, 1, 2] {
        let client = connect(&db, k).await;
        workers.push(tokio::spawn(async move {
            let text = "insert into t values ($1, -$1, 1) on conflict (id) do update \
                        set v = t.v + excluded.v";
            let upsert = client.prepare(text).await.unwrap();
            for i in 0..EACH {
                // Five keys at a time: new to one session, there for the others.
                let key = i % KEYS + i / 50 * 100;
                assert_eq!(client.execute(&upsert, &[&key]).await.unwrap(), 1);
            }
        }));
    }
    for worker in workers {
        worker.await.unwrap();
    }
    assert_eq!(db.sql(2, "select sum(v) from t"), (4 * EACH).to_string());
    assert_eq!(db.sql(1, "select count(*), count(distinct other) from t"), "15|15");
}

/// With DO NOTHING and two unique keys, each key is taken once, and who comes second is told so.
#[tokio::test(flavor = "multi_thread")]
async fn each_key_is_inserted_by_one_instance() {
    const KEYS: i64 = 200;
    let db = Arc::new(Db::open(2));
    db.sql(1, "create table t (id int8 primary key, k int not null)");
    let mut workers = Vec::new();
    for k in [1, 2] {
        let client = connect(&db, k).await;
        workers.push(tokio::spawn(async move {
            let insert = client
                .prepare("insert into t values ($1, $2) on conflict do nothing")
                .await
                .unwrap();
            let mut done = 0;
            for id in 0..KEYS {
                done += client.execute(&insert, &[&id, &i32::from(k)]).await.unwrap();
            }
            done
        }));
    }
    let mut done = 0;
    for worker in workers {
        done += worker.await.unwrap();
    }
    assert_eq!(i64::try_from(done).unwrap(), KEYS);
    assert_eq!(db.sql(1, "select count(*) from t"), KEYS.to_string());
}
