//! Sessions of another instance that are seen, cancelled and ended.

use crate::clients::{connect, strings};
use crate::db::{Db, PASSWORD, wait_until};
use tokio::net::{TcpListener, TcpStream};
use tokio_postgres::{Client, Error, NoTls};

async fn pid(client: &Client) -> i32 {
    client.query_one("select pg_backend_pid()", &[]).await.expect("its number").get(0)
}

fn code<T>(outcome: Result<T, Error>) -> String {
    let error = outcome.err().expect("it is stopped");
    error.code().map_or_else(|| format!("{error:?}"), |code| code.code().to_owned())
}

/// Waits until the session is seen to sleep, from instance 1.
fn wait_for_sleep(db: &Db, pid: i32) {
    let sql = format!(
        "select count(*) from pg_stat_activity where pid = {pid} and state = 'active' and \
         wait_event = 'PL/SQL lock timer'"
    );
    wait_until("the statement runs", || db.sql(1, &sql) == "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_another_instance_are_cancelled_and_ended() {
    let db = Db::open(2);
    db.sql(1, "create role clerk login password 'secret'");
    let (near, far) = (connect(&db, 1).await, connect(&db, 2).await);
    let (own, other) = (pid(&near).await, pid(&far).await);
    assert_ne!(own, other);
    let both = format!(
        "select string_agg(inst_id::text, ',' order by inst_id) from gv$session where sid in \
         ({own}, {other})"
    );
    assert_eq!(strings(&near, &both).await, ["1,2"]);

    let sleeping =
        tokio::spawn(async move { (far.batch_execute("select pg_sleep(600)").await, far) });
    wait_for_sleep(&db, other);
    // Who may not, may not from afar either, and is told so.
    let may_not = format!("set role clerk; select pg_cancel_backend({other})");
    let refused = near.batch_execute(&may_not).await;
    assert_eq!(code(refused), "42501");
    near.batch_execute("reset role").await.unwrap();
    let cancel = format!("select pg_cancel_backend({other})");
    assert_eq!(strings(&near, &cancel).await, ["t"]);
    let (outcome, far) = sleeping.await.unwrap();
    assert_eq!(code(outcome), "57014");
    assert_eq!(strings(&far, "select 'still here'").await, ["still here"]);

    let sleeping = tokio::spawn(async move { far.batch_execute("select pg_sleep(600)").await });
    wait_for_sleep(&db, other);
    let end = format!("select pg_terminate_backend({other}, 60000)");
    assert_eq!(strings(&near, &end).await, ["t"]);
    assert_eq!(code(sleeping.await.unwrap()), "57P01");
    // It is gone when the call says so.
    assert_eq!(strings(&near, &cancel).await, ["f"]);
}

/// A cancel request comes in over a connection of its own, which an address for all instances may
/// lead to another one than the session's.
#[tokio::test(flavor = "multi_thread")]
async fn a_cancel_request_may_come_in_anywhere() {
    let db = Db::open(2);
    let front = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = front.local_addr().unwrap().port();
    // The first connection leads to instance 2, each later one to instance 1.
    let behind = [db.port(2), db.port(1)];
    let relay = tokio::spawn(async move {
        for n in 0_usize.. {
            let (mut client, _) = front.accept().await.unwrap();
            let to = behind[n.min(1)];
            tokio::spawn(async move {
                let mut server = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            });
        }
    });
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(port).user("skein").dbname("skein").password(PASSWORD);
    let (client, connection) = config.connect(NoTls).await.unwrap();
    let connection = tokio::spawn(connection);
    let (token, pid) = (client.cancel_token(), pid(&client).await);
    let sleeping =
        tokio::spawn(async move { (client.batch_execute("select pg_sleep(600)").await, client) });
    wait_for_sleep(&db, pid);
    token.cancel_query(NoTls).await.unwrap();
    let (outcome, client) = sleeping.await.unwrap();
    assert_eq!(code(outcome), "57014");
    assert_eq!(strings(&client, "select 'still here'").await, ["still here"]);
    drop(client);
    connection.await.unwrap().unwrap();
    relay.abort();
}
