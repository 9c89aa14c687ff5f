//! A real client library over TCP, where a password is asked.

use crate::protocol::Running;
use tokio_postgres::{Client, Error, NoTls};

async fn connect(r: &Running, user: &str, password: &str, db: &str) -> Result<Client, Error> {
    let config =
        format!("host=127.0.0.1 port={} user={user} password={password} dbname={db}", r.port());
    let (client, connection) = tokio_postgres::connect(&config, NoTls).await?;
    tokio::spawn(connection);
    Ok(client)
}

fn code(e: &Error) -> String {
    e.code().map(|c| c.code().to_owned()).unwrap_or_default()
}

#[tokio::test]
async fn the_password_is_asked_and_checked() {
    let r = Running::start("password", 5);
    assert!(connect(&r, "ann", "secret", "toy").await.is_ok());
    assert_eq!(code(&connect(&r, "ann", "wrong", "toy").await.err().unwrap()), "28P01");
    assert_eq!(code(&connect(&r, "eve", "secret", "toy").await.err().unwrap()), "28P01");
    assert_eq!(code(&connect(&r, "ann", "secret", "other").await.err().unwrap()), "3D000");
    let alerts = r.toy.alerts.lock().unwrap().join("\n");
    assert!(alerts.contains("28P01") && alerts.contains("\"eve\""), "{alerts}");
}

#[tokio::test]
async fn prepared_statements_and_long_parameters() {
    let r = Running::start("prepared", 5);
    let client = connect(&r, "ann", "secret", "toy").await.unwrap();
    let statement = client.prepare("echo $1").await.unwrap();
    for len in [0_usize, 10, 8 * 1024, 1 << 20] {
        let sent = "x".repeat(len);
        let row = client.query_one(&statement, &[&sent]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), sent, "{len}");
    }
    let rows = client.query("rows 5000", &[]).await.unwrap();
    assert_eq!(rows.len(), 5000);
    assert_eq!(code(&client.query("fail", &[]).await.err().unwrap()), "22012");
    assert_eq!(code(&client.query("panic", &[]).await.err().unwrap()), "XX000");
    assert!(client.query("rows 1", &[]).await.is_ok());
}

#[tokio::test]
async fn open_cursors_bounds_the_prepared_statements() {
    let r = Running::start("cursors", 5);
    let client = connect(&r, "ann", "secret", "toy").await.unwrap();
    let mut held = Vec::new();
    let e = loop {
        match client.prepare(&format!("rows {}", held.len())).await {
            Ok(statement) => held.push(statement),
            Err(e) => break e,
        }
    };
    assert_eq!((code(&e).as_str(), held.len()), ("53400", 10));
}
