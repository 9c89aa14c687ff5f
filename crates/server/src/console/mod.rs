//! The web console of an instance, and its metrics for Prometheus.
//!
//! What for: a browser shows what the cluster does, waits for and sends between its instances;
//! Prometheus scrapes `/metrics`.
//!
//! What it promises: whoever looks has logged on as a user of the database, by the rules, places
//! and audit trail of any client, and sees what that user may see: every page is made of SQL over
//! views, run in a session of its own. Connections, sessions, log-ons, bodies and answers are
//! bounded in number, size and time, on threads that serve nothing else, so that a console under
//! attack slows no client. No text of a user becomes markup: the server sends JSON, the page makes
//! text nodes of it, and its policy allows no script but its own. Reports are HTML in which texts
//! are escaped, and stand in a sandbox of their own that runs no script at all.
//!
//! What it must never do: read anything but views for a page, store anything but a snapshot that a
//! superuser asks for, or keep an instance from opening. (Metrics are counters of the registries,
//! read as they are; they show no text of users.)

mod activity;
mod assets;
mod http;
mod log_on;
mod metrics;
mod pages;
mod query;
mod reports;
mod routes;
mod table;
mod throttle;
mod viewer;
mod viewers;

use crate::listener::Server;
use crate::registry::Places;
use crate::sql_engine::SqlEngine;
use crate::tls::Tls;
use activity::Activity;
use metrics::Metrics;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use throttle::Throttle;
use tokio::sync::{Semaphore, oneshot};
use viewers::Viewers;

/// Log-ons that are worked on at once: each costs milliseconds of CPU for the password.
const LOG_ONS_MAX: usize = 2;

/// Where a console listens.
#[derive(Clone, Debug)]
pub struct ConsoleConfig {
    /// `address:port`; port 0 takes a free one.
    pub listen: String,
    /// Certificate and key; `None`: plain HTTP, for the machine itself only.
    pub tls: Option<Tls>,
    /// How reports name the database.
    pub database: String,
}

/// What all parts of a console share.
struct Shared {
    engine: Arc<SqlEngine>,
    places: Places,
    tls: Option<Tls>,
    address: SocketAddr,
    database: String,
    viewers: Viewers,
    throttle: Throttle,
    log_ons: Arc<Semaphore>,
    activity: Activity,
    metrics: Metrics,
}

/// A running console.
pub struct Console {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Console {
    /// Opens the port and serves from then on. Its sessions take places of `server`.
    ///
    /// # Errors
    /// The address is in use or not ours; it is not this machine's own and nothing would be
    /// encrypted.
    pub fn start(
        engine: Arc<SqlEngine>,
        server: &Server,
        config: ConsoleConfig,
    ) -> io::Result<Console> {
        let listener = std::net::TcpListener::bind(&config.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        if config.tls.is_none() && !address.ip().is_loopback() {
            return Err(io::Error::other(
                "passwords would cross the network in clear text; set ssl_cert_file and \
                 ssl_key_file, or an address of this machine alone",
            ));
        }
        let shared = Arc::new(Shared {
            engine,
            places: server.places(),
            tls: config.tls,
            address,
            database: config.database,
            viewers: Viewers::default(),
            throttle: Throttle::default(),
            log_ons: Arc::new(Semaphore::new(LOG_ONS_MAX)),
            activity: Activity::default(),
            metrics: Metrics::default(),
        });
        let (stop, stopped) = oneshot::channel();
        let served = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("console".into()).spawn(move || {
            if let Err(e) = http::run(&served, listener, stopped) {
                served.alert(&format!("the web console ended: {e}"));
            }
        })?;
        Ok(Console { shared, stop: Some(stop), thread: Some(thread) })
    }

    /// Where it listens, port filled in.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Stops listening and ends the sessions, giving them up to `limit`. True when none is left.
    pub fn stop(mut self, limit: Duration) -> bool {
        self.close();
        self.shared.viewers.end_all(limit)
    }

    fn close(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // It has reported its own failure.
            let _ = thread.join();
        }
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        self.close();
    }
}

impl Shared {
    fn alert(&self, text: &str) {
        use crate::engine::Engine;
        self.engine.alert(text);
    }
}
