//! A client's connection, and how its errors are told.

use std::time::Duration;

use tokio_postgres::{Client, Error, NoTls};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// Connects and lets the connection run in the background.
///
/// # Errors
/// What the server or the network said.
pub async fn connect(url: &str) -> Result<Client, String> {
    let attempt = tokio::time::timeout(CONNECT_LIMIT, tokio_postgres::connect(url, NoTls));
    let connected = attempt.await.map_err(|_| format!("no answer in {CONNECT_LIMIT:?}"))?;
    let (client, connection) = connected.map_err(|e| describe(&e))?;
    tokio::spawn(async move {
        // An error here reaches the client's own calls as well.
        let _ = connection.await;
    });
    Ok(client)
}

/// Error text with its SQLSTATE.
#[must_use]
pub fn describe(e: &Error) -> String {
    match e.as_db_error() {
        Some(db) => format!("{} {}", db.code().code(), db.message()),
        None => e.to_string(),
    }
}
