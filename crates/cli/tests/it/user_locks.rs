//! Advisory locks over instances.

use crate::clients::connect;
use crate::db::{Db, wait_until};
use nix::sys::signal::Signal;
use std::sync::Arc;

/// A lock of one instance's session excludes the others' until it is given back, until its session
/// ends, or until its instance dies.
#[tokio::test(flavor = "multi_thread")]
async fn a_lock_of_the_users_holds_on_all_instances() {
    let db = Arc::new(Db::open(3));
    let (one, two, three) = (connect(&db, 1).await, connect(&db, 2).await, connect(&db, 3).await);
    let tries = "select pg_try_advisory_lock(7)";
    let got = async |client: &tokio_postgres::Client, sql: &str| -> bool {
        client.query_one(sql, &[]).await.unwrap().get(0)
    };
    assert!(got(&one, tries).await);
    assert!(!got(&two, tries).await);
    assert!(!got(&three, "select pg_try_advisory_lock_shared(7)").await);
    assert!(got(&three, "select pg_try_advisory_lock(8)").await);
    // Waiting on another instance, and woken by the unlock.
    let waiting = tokio::spawn(async move {
        two.execute("select pg_advisory_lock($1)", &[&7_i64]).await.unwrap();
        two
    });
    wait_until("instance 2 waits", || {
        let sql = "select count(*) from v$session_wait where event like 'enq: UL%'";
        db.sql(2, sql) != "0"
    });
    assert!(got(&one, "select pg_advisory_unlock(7)").await);
    let two = waiting.await.unwrap();
    assert!(!got(&one, tries).await);
    // With its session.
    drop(two);
    wait_until("the session's lock is gone", || db.sql(3, tries) == "t");
    one.execute("select pg_advisory_lock(7)", &[]).await.unwrap();
    // With its instance.
    db.signal(1, Signal::SIGKILL);
    wait_until("the dead instance's lock is gone", || db.sql(2, tries) == "t");
}
