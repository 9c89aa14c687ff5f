//! The listener: accepts connections and gives each a thread.
//!
//! What it promises: no port is open before [`Server::start`], and none after [`Server::stop`]; the
//! number of threads is bounded; a connection that is refused is told why.

use crate::engine::{Engine, Login, Session};
use crate::input::Input;
use crate::output::Output;
use crate::registry::{Entry, Places, Registry, Slot, too_many};
use crate::session::{Parts, serve};
use crate::startup::{AUTHENTICATION_TIMEOUT, Failure, Opening, log_on, read_opening};
use crate::stream::Stream;
use crate::tls::{Encryption, Tls};
use futures::FutureExt;
use parking_lot::Mutex;
use pgwire::messages::startup::{Authentication, BackendKeyData, SecretKey};
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::oneshot;

/// Reserved for a session thread's stack; only what is touched takes memory. How deep a statement
/// may be follows from it. Where the operating system has no room for it, a session gets
/// `SMALL_STACK_BYTES`, and lower limits.
const STACK_BYTES: usize = 64 * 1024 * 1024;
const SMALL_STACK_BYTES: usize = 2 * 1024 * 1024;
/// Threads beyond `max_connections`, for connections that log on or ask for a cancel.
const EXTRA_THREADS: usize = 64;
/// What the operating system takes for a Unix socket's path.
const SOCKET_PATH_BYTES_MAX: usize = 108;
/// How often busy sessions are looked at for clients that have gone.
const ABANDONED_CHECK: Duration = Duration::from_secs(1);

/// What a server listens on, and its bounds.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// `address:port`; port 0 takes a free one.
    pub listen: String,
    /// The folder of the Unix socket, named `.s.PGSQL.<port>` there; `None` for no such socket.
    pub socket_dir: Option<PathBuf>,
    pub max_connections: usize,
    /// How many of them are kept for superusers.
    pub reserved_connections: usize,
    /// Prepared statements that one session may hold.
    pub open_cursors: usize,
    /// Certificate and key; `None`: nothing is encrypted.
    pub tls: Option<Tls>,
}

/// A running server.
pub struct Server {
    registry: Arc<Registry>,
    places: Places,
    address: SocketAddr,
    socket: Option<PathBuf>,
    stop: Option<oneshot::Sender<()>>,
    listener: Option<std::thread::JoinHandle<()>>,
}

struct Shared<E> {
    engine: Arc<E>,
    registry: Arc<Registry>,
    places: Places,
    config: ServerConfig,
    owner_uid: u32,
}

impl Server {
    /// Opens the listening sockets and serves from then on.
    ///
    /// # Errors
    /// When an address is in use or not ours.
    pub fn start<E: Engine>(engine: Arc<E>, config: ServerConfig) -> io::Result<Server> {
        let tcp = std::net::TcpListener::bind(&config.listen)?;
        tcp.set_nonblocking(true)?;
        let address = tcp.local_addr()?;
        let unix = match &config.socket_dir {
            Some(dir) => {
                let path = dir.join(format!(".s.PGSQL.{}", address.port()));
                if path.as_os_str().len() < SOCKET_PATH_BYTES_MAX {
                    Some(bind_unix(&path)?)
                } else {
                    let path = path.display();
                    engine.alert(&format!("no Unix socket: its path would be too long: {path}"));
                    None
                }
            }
            None => None,
        };
        let (unix, socket) = match unix {
            Some((listener, path)) => (Some(listener), Some(path)),
            None => (None, None),
        };
        let registry = Arc::new(Registry::default());
        let (max, reserved) = (config.max_connections, config.reserved_connections);
        let places = Places::new(Arc::clone(&registry), max, reserved);
        let shared = Arc::new(Shared {
            engine,
            registry: Arc::clone(&registry),
            places: places.clone(),
            config,
            owner_uid: nix::unistd::geteuid().as_raw(),
        });
        let (stop, stopped) = oneshot::channel();
        let listener = std::thread::Builder::new().name("listener".into()).spawn(move || {
            let alert = Arc::clone(&shared);
            if let Err(e) = run_listener(shared, tcp, unix, stopped) {
                alert.engine.alert(&format!("listener failed: {e}"));
            }
        })?;
        let (stop, listener) = (Some(stop), Some(listener));
        Ok(Server { registry, places, address, socket, stop, listener })
    }

    /// The TCP address, port filled in.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The places of its clients, for others that let sessions in.
    #[cfg(feature = "sql")]
    pub(crate) fn places(&self) -> Places {
        self.places.clone()
    }

    /// Stops listening and ends all sessions, giving each up to `limit` to end by itself. True when
    /// none is left.
    pub fn stop(mut self, limit: Duration) -> bool {
        self.close_listener();
        self.registry.shut_down(limit)
    }

    fn close_listener(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.listener.take() {
            // It has reported its own failure.
            let _ = thread.join();
        }
        if let Some(path) = self.socket.take() {
            let _ = std::fs::remove_file(path);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.close_listener();
    }
}

/// Binds the Unix socket. A file left by a process that died is replaced: whoever starts a server
/// here holds the instance's lock.
fn bind_unix(path: &Path) -> io::Result<(std::os::unix::net::UnixListener, PathBuf)> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(e),
        _ => {}
    }
    let listener = std::os::unix::net::UnixListener::bind(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777))?;
    listener.set_nonblocking(true)?;
    Ok((listener, path.to_owned()))
}

fn run_listener<E: Engine>(
    shared: Arc<Shared<E>>,
    tcp: std::net::TcpListener,
    unix: Option<std::os::unix::net::UnixListener>,
    mut stopped: oneshot::Receiver<()>,
) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async move {
        let tcp = TcpListener::from_std(tcp)?;
        let unix = unix.map(UnixListener::from_std).transpose()?;
        let mut check = tokio::time::interval(ABANDONED_CHECK);
        let mut number = 0_u64;
        loop {
            let accepted = tokio::select! {
                _ = &mut stopped => return Ok(()),
                _ = check.tick() => {
                    shared.registry.terminate_abandoned();
                    continue;
                }
                accepted = tcp.accept() => accepted.and_then(|(s, from)| {
                    s.set_nodelay(true)?;
                    let s = s.into_std()?;
                    s.set_nonblocking(false)?;
                    nix::sys::socket::setsockopt(&s, nix::sys::socket::sockopt::KeepAlive, &true)?;
                    Ok((Stream::tcp(s, from.ip()), from.to_string(), false))
                }),
                accepted = accept_unix(unix.as_ref()) => accepted.and_then(|s| {
                    let uid = s.peer_cred()?.uid();
                    let trusted = uid == 0 || uid == shared.owner_uid;
                    let s = s.into_std()?;
                    s.set_nonblocking(false)?;
                    Ok((Stream::unix(s), "[local]".to_owned(), trusted))
                }),
            };
            match accepted {
                Ok((stream, peer, trusted)) => {
                    number += 1;
                    spawn_session(&shared, number, stream, peer, trusted);
                }
                Err(e) => {
                    shared.engine.alert(&format!("accept failed: {e}"));
                    // No descriptor left, most likely: give sessions time to end.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        }
    })
}

async fn accept_unix(listener: Option<&UnixListener>) -> io::Result<tokio::net::UnixStream> {
    match listener {
        Some(listener) => listener.accept().await.map(|(stream, _)| stream),
        None => std::future::pending().await,
    }
}

fn spawn_session<E: Engine>(
    shared: &Arc<Shared<E>>,
    number: u64,
    stream: Stream,
    peer: String,
    trusted: bool,
) {
    let stream = Arc::new(stream);
    if shared.registry.thread_count() >= shared.config.max_connections + EXTRA_THREADS {
        let mut out = Output::new(Arc::clone(&stream));
        out.report(&too_many());
        out.flush();
        return;
    }
    let guard = shared.registry.add_thread(number, Arc::clone(&stream));
    let parts = Arc::new(Mutex::new(Some((guard, stream, peer))));
    let start = |stack_bytes| {
        let (shared, parts) = (Arc::clone(shared), Arc::clone(&parts));
        let builder = std::thread::Builder::new().name(format!("session-{number}"));
        builder.stack_size(stack_bytes).spawn(move || {
            let taken = parts.lock().take();
            if let Some((_guard, stream, peer)) = taken {
                session_thread(&shared, stream, peer, trusted);
            }
        })
    };
    let spawned = start(STACK_BYTES).or_else(|_| start(SMALL_STACK_BYTES));
    if let Err(e) = spawned {
        shared.engine.alert(&format!("cannot start a session's thread: {e}"));
    }
}

/// The life of a connection, on its own thread.
fn session_thread<E: Engine>(shared: &Shared<E>, stream: Arc<Stream>, peer: String, trusted: bool) {
    shared.engine.enter_session_thread();
    // No I/O or time driver: this thread reads its socket itself.
    let runtime = match tokio::runtime::Builder::new_current_thread().build() {
        Ok(runtime) => runtime,
        Err(e) => {
            shared.engine.alert(&format!("cannot start a session's runtime: {e}"));
            return;
        }
    };
    runtime.block_on(async {
        let mut out = Output::new(Arc::clone(&stream));
        // Boxed, so that this thread's stack holds either of the two only while it runs.
        let opening = open_session(shared, &stream, &peer, trusted, &mut out).boxed_local();
        match opening.await {
            Ok(Some(Opened { session, input, entry, pid, slot })) => {
                let parts = Parts {
                    session,
                    out,
                    input,
                    stream,
                    entry,
                    registry: Arc::clone(&shared.registry),
                    prepared_max: shared.config.open_cursors,
                };
                let _listed = Listed { registry: &shared.registry, pid, _slot: slot };
                serve(parts).boxed_local().await;
            }
            Ok(None) | Err(Failure::Gone) => {}
            Err(Failure::Untold(why)) => {
                shared.engine.alert(&format!("connection from {peer} ended: {why}"));
            }
            Err(Failure::Tell(report)) => {
                shared.engine.alert(&format!("connection from {peer} refused: {report}"));
                out.report(&report);
                out.flush();
            }
        }
    });
}

/// Strikes a session off the registry when its thread leaves it, however it does.
struct Listed<'a> {
    registry: &'a Registry,
    pid: i32,
    _slot: Slot,
}

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.registry.remove_session(self.pid);
    }
}

/// A session that has logged on.
struct Opened<S> {
    session: S,
    input: Input,
    entry: Arc<Entry>,
    pid: i32,
    slot: Slot,
}

/// Log-on. `None`: it was a cancel request.
async fn open_session<E: Engine>(
    shared: &Shared<E>,
    stream: &Arc<Stream>,
    peer: &str,
    trusted: bool,
    out: &mut Output,
) -> Result<Option<Opened<E::Session>>, Failure> {
    let (engine, registry) = (&*shared.engine, &shared.registry);
    let mut input = Input::default();
    stream.set_read_timeout(Some(AUTHENTICATION_TIMEOUT))?;
    let tls = shared.config.tls.as_ref();
    let startup = match read_opening(stream, tls, &mut input, out)? {
        Opening::Session(startup) => startup,
        Opening::Cancel { pid, secret } => {
            if !registry.cancel(pid, secret) {
                engine.cancel_elsewhere(pid, secret).await;
            }
            return Ok(None);
        }
    };
    let slot = shared.places.take()?;
    let admitted = log_on(engine, &startup, trusted, stream, &mut input, out).await;
    let user = startup.user.clone();
    let note = |failure: &Failure| {
        if let Failure::Tell(report) = failure {
            engine.refused(&user, peer, report);
        }
    };
    let (admitted, method) = admitted.inspect_err(note)?;
    let kept = shared.places.keep(&slot, admitted.superuser).map_err(Failure::Tell);
    kept.inspect_err(note)?;
    stream.set_read_timeout(None)?;
    let mut login: Login = startup.into_login(peer.to_owned());
    login.os_process = stream.os_process();
    let told = |of: &Encryption| (of.version.clone(), of.cipher.clone());
    (login.encryption, login.method) = (stream.encryption().map(told), Some(method));
    let mut session = engine.open(login).await.map_err(Failure::Tell).inspect_err(note)?;
    let (pid, secret): (i32, i32) = (session.pid(), rand::random());
    session.set_cancel_secret(secret);
    let entry = registry.add_session(pid, secret, Arc::clone(stream), session.interrupt());
    out.message(&Authentication::Ok);
    for (name, value) in session.take_parameter_changes() {
        out.parameter_status(&name, &value);
    }
    out.message(&BackendKeyData::new(pid, SecretKey::I32(secret)));
    for notice in session.take_notices() {
        out.report(&notice);
    }
    out.ready(session.transaction_status());
    out.flush();
    Ok(Some(Opened { session, input, entry, pid, slot }))
}
