//! Foreign keys between real processes: sessions on two instances, one writes children of a parent
//! that the other takes away.

use crate::clients::connect;
use crate::db::Db;
use std::sync::Arc;
use std::time::Duration;

const ORPHANS: &str = "select count(*) from child where parent not in (select id from parent)";

/// The error code of a statement that must fail.
fn code(error: &tokio_postgres::Error) -> String {
    error.code().map_or_else(|| error.to_string(), |code| code.code().to_owned())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_and_the_delete_of_its_parent_wait_for_each_other_over_instances() {
    let db = Arc::new(Db::open(2));
    db.sql(1, "create table parent (id int primary key, v int default 0)");
    db.sql(2, "create table child (id int primary key, parent int references parent)");
    db.sql(1, "insert into parent select g from generate_series(1, 6) g");
    let (one, two) = (connect(&db, 1).await, connect(&db, 2).await);
    for (index, parent) in [("", 1), ("create index on child (parent)", 4)] {
        if !index.is_empty() {
            db.sql(1, index);
        }
        // The parent goes first: the child waits, and is refused.
        one.batch_execute(&format!("begin; delete from parent where id = {parent}")).await.unwrap();
        let waiter = connect(&db, 2).await;
        let insert = format!("insert into child values ({parent}, {parent})");
        let waiting = tokio::spawn(async move { waiter.batch_execute(&insert).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!waiting.is_finished(), "the child does not wait for its parent's end");
        one.batch_execute("commit").await.unwrap();
        let refused = waiting.await.unwrap().expect_err("an orphan");
        assert_eq!(code(&refused), "23503");
        // The child comes first, and more of them: the parent waits, and is refused.
        let next = parent + 1;
        let child = |n: i32| format!("insert into child values ({n}, {next})");
        two.batch_execute(&format!("begin; {}", child(100 * next))).await.unwrap();
        let waiter = connect(&db, 1).await;
        let delete = format!("delete from parent where id = {next}");
        let waiting = tokio::spawn(async move { waiter.batch_execute(&delete).await });
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert!(!waiting.is_finished(), "the parent does not wait for its child's end");
        two.batch_execute(&child(100 * next + 1)).await.unwrap();
        // Another child of that parent waits for nobody, where the parent could give way.
        if !index.is_empty() {
            one.batch_execute(&child(100 * next + 2)).await.unwrap();
        }
        two.batch_execute("commit").await.unwrap();
        let refused = waiting.await.unwrap().expect_err("an orphan");
        assert_eq!(code(&refused), "23503");
        // The child goes back: the parent may go.
        let last = parent + 2;
        two.batch_execute(&format!("begin; insert into child values ({last}, {last})"))
            .await
            .unwrap();
        let waiter = connect(&db, 1).await;
        let delete = format!("delete from parent where id = {last}");
        let waiting = tokio::spawn(async move { waiter.batch_execute(&delete).await });
        tokio::time::sleep(Duration::from_millis(300)).await;
        two.batch_execute("rollback").await.unwrap();
        waiting.await.unwrap().expect("nothing refers to it");
    }
    assert_eq!(db.sql(1, ORPHANS), "0");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_orphan_while_sessions_of_two_instances_work_on_few_parents() {
    let db = Arc::new(Db::open(2));
    db.sql(1, "create table parent (id int primary key)");
    db.sql(1, "create table child (id serial primary key, parent int references parent)");
    db.sql(1, "create index on child (parent)");
    let mut workers = Vec::new();
    for n in 0..6_u16 {
        let client = connect(&db, 1 + n % 2).await;
        workers.push(tokio::spawn(async move {
            let mut counts = [0_u32; 3];
            for i in 0..150_u32 {
                let id = (i * 7 + u32::from(n)) % 5;
                let sql = match (i + u32::from(n)) % 4 {
                    0 => format!("insert into parent values ({id})"),
                    1 => format!("delete from parent where id = {id}"),
                    2 => format!("insert into child (parent) values ({id})"),
                    _ => format!("delete from child where parent = {id}"),
                };
                match client.batch_execute(&sql).await {
                    Ok(()) => counts[0] += 1,
                    Err(e) if ["23503", "23505"].contains(&&*code(&e)) => counts[1] += 1,
                    Err(e) if code(&e) == "40P01" => counts[2] += 1,
                    Err(e) => panic!("{sql}: {e}"),
                }
            }
            counts
        }));
    }
    let mut total = [0; 3];
    for worker in workers {
        let counts = worker.await.unwrap();
        (0..3).for_each(|i| total[i] += counts[i]);
    }
    println!("done, refused, deadlocks: {total:?}");
    assert!(total[0] > 0 && total[1] > 0);
    assert_eq!(total[2], 0, "single statements never stand in each other's way");
    for k in 1..=2 {
        assert_eq!(db.sql(k, ORPHANS), "0");
    }
}
