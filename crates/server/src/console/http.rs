//! The console's port: connections, and what bounds them.
//!
//! What it promises: all of it runs on one thread; at most [`CONNECTIONS_MAX`] connections, each
//! with a limit for its handshake, its requests' heads and bodies, and its life. What it must never
//! do: wait for a session on this thread other than as a task among others.

use super::Shared;
use super::routes::{self, Caller};
use crate::tls::encryption;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};

/// Connections at once; one more is closed.
const CONNECTIONS_MAX: usize = 64;
/// For a TLS handshake, and for the head of a request. An idle connection ends after it, too.
const HEAD_LIMIT: Duration = Duration::from_secs(15);
/// How long a connection may last: who takes no answer holds it no longer.
const CONNECTION_LIMIT: Duration = Duration::from_secs(300);
const HEAD_BYTES_MAX: usize = 16 * 1024;
const HEADERS_MAX: usize = 64;
/// After a failed `accept`: descriptors are short.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Serves until told to stop.
///
/// # Errors
/// No runtime can be made.
pub fn run(
    shared: &Arc<Shared>,
    listener: std::net::TcpListener,
    mut stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let listener = TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                _ = &mut stopped => return Ok(()),
                accepted = listener.accept() => accepted,
            };
            match accepted {
                Ok((socket, from)) => {
                    if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                        tokio::spawn(connection(Arc::clone(shared), socket, from, place));
                    }
                }
                Err(e) => {
                    shared.alert(&format!("console: accept failed: {e}"));
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

/// What goes wrong on a connection is its client's affair: nobody else is told.
async fn connection(
    shared: Arc<Shared>,
    socket: TcpStream,
    from: SocketAddr,
    _place: OwnedSemaphorePermit,
) {
    let Some(tls) = &shared.tls else {
        return serve(&shared, socket, Caller { from, encryption: None }).await;
    };
    let handshake = tls.acceptor().accept(socket);
    let Ok(Ok(stream)) = tokio::time::timeout(HEAD_LIMIT, handshake).await else { return };
    let encryption = Some(encryption(stream.get_ref().1));
    serve(&shared, stream, Caller { from, encryption }).await;
}

async fn serve<S>(shared: &Arc<Shared>, stream: S, caller: Caller)
where
    S: AsyncRead + AsyncWrite + Unpin + 'static,
{
    let caller = Arc::new(caller);
    let answer = service_fn(|request: Request<Incoming>| {
        let (shared, caller) = (Arc::clone(shared), Arc::clone(&caller));
        async move {
            let answer = routes::answer(&shared, &caller, request).await;
            Ok::<Response<_>, hyper::Error>(answer)
        }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_LIMIT)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .serve_connection(TokioIo::new(stream), answer);
    let _ = tokio::time::timeout(CONNECTION_LIMIT, connection).await;
}
