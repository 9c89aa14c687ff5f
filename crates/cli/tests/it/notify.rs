//! LISTEN and NOTIFY over instances, as a client's library sees them.

use crate::db::{Db, PASSWORD, wait_until};
use std::sync::{Arc, Mutex};
use tokio_postgres::{AsyncMessage, NoTls};

type Told = Arc<Mutex<Vec<(i32, String, String)>>>;

/// A client of instance `k` and what it has been notified of.
async fn connect(db: &Db, k: u16) -> (tokio_postgres::Client, Told) {
    let mut config = tokio_postgres::Config::new();
    config.host("127.0.0.1").port(db.port(k)).user("skein").dbname("skein").password(PASSWORD);
    let (client, mut connection) = config.connect(NoTls).await.expect("connects");
    let told = Told::default();
    let list = Arc::clone(&told);
    tokio::spawn(async move {
        while let Some(Ok(message)) =
            std::future::poll_fn(|context| connection.poll_message(context)).await
        {
            if let AsyncMessage::Notification(n) = message {
                let one = (n.process_id(), n.channel().to_owned(), n.payload().to_owned());
                list.lock().unwrap().push(one);
            }
        }
    });
    (client, told)
}

/// Idle clients of all instances are told at once, in one order, by whom; those in a transaction
/// block at its end.
#[tokio::test(flavor = "multi_thread")]
async fn notifications_reach_the_clients_of_all_instances() {
    let db = Db::open(3);
    let mut clients = Vec::new();
    for n in 1..=3 {
        let (client, told) = connect(&db, n).await;
        client.batch_execute("listen news").await.unwrap();
        let pid: i32 = client.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
        clients.push((client, told, pid));
    }
    // The third is in a transaction block meanwhile.
    clients[2].0.batch_execute("begin; select 1").await.unwrap();
    for round in 0..20 {
        let (client, _, _) = &clients[round % 2];
        let payload = round.to_string();
        client.query("select pg_notify('news', $1)", &[&payload]).await.unwrap();
    }
    let pids = [clients[0].2, clients[1].2];
    let said: Vec<_> = (0..20).map(|i| (pids[i % 2], "news".to_owned(), i.to_string())).collect();
    for (_, told, _) in &clients[..2] {
        wait_until("an idle client is told", || told.lock().unwrap().len() == 20);
        assert_eq!(*told.lock().unwrap(), said);
    }
    let (client, told, _) = &clients[2];
    client.batch_execute("select 1").await.unwrap();
    assert_eq!(*told.lock().unwrap(), []);
    client.batch_execute("commit").await.unwrap();
    wait_until("a client is told at its commit", || told.lock().unwrap().len() == 20);
    assert_eq!(*told.lock().unwrap(), said);
    // The longest payload comes whole; a longer one is refused.
    let notify = async |bytes: usize| {
        client.query("select pg_notify('news', $1)", &[&"x".repeat(bytes)]).await
    };
    let refused = notify(8000).await.unwrap_err();
    assert_eq!(refused.code().unwrap().code(), "22023", "{refused}");
    notify(7999).await.unwrap();
    for (_, told, _) in &clients {
        wait_until("the longest is told", || {
            told.lock().unwrap().last().is_some_and(|(_, _, payload)| payload.len() == 7999)
        });
    }
}

/// Transactions that notify at the same time, on several instances: all who listen are told in the
/// same order.
#[tokio::test(flavor = "multi_thread")]
async fn all_are_told_in_the_same_order() {
    let db = Db::open(2);
    let mut listeners = Vec::new();
    for n in [1, 2] {
        let (client, told) = connect(&db, n).await;
        client.batch_execute("listen a; listen b").await.unwrap();
        listeners.push((client, told));
    }
    let mut tasks = Vec::new();
    for speaker in 0..4_i32 {
        let (client, _) = connect(&db, 1 + u16::from(speaker % 2 == 1)).await;
        tasks.push(tokio::spawn(async move {
            for round in 0..25 {
                let both = format!("notify a, '{speaker} {round}'; notify b, '{speaker} {round}'");
                client.batch_execute(&both).await.unwrap();
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    for (_, told) in &listeners {
        wait_until("all is told", || told.lock().unwrap().len() == 200);
    }
    assert_eq!(*listeners[0].1.lock().unwrap(), *listeners[1].1.lock().unwrap());
}
