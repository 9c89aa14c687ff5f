//! The only part of the command line that opens a database: makes one, runs an instance of it.
//!
//! What it promises: the client port opens when the instance is open and not before; an orderly end
//! (SIGTERM, Ctrl-C) ends the sessions, then closes the instance; what the alert log could not be
//! told goes to stderr.

use crate::config::{Config, InstanceConfig, NO_CONSOLE};
use crate::error::{CliError, Doing, Exit, Result, say};
use crate::kept_settings::KeptSettings;
use crate::layout::Layout;
use crate::runtime::{Addresses, RuntimeGuard, State, probe};
use crate::scheduling::Scheduling;
use crate::trace_files;
use cluster::MembershipConfig;
use disk::{DirectIo, Group, Options};
use env::Env;
use env::real::{RealConfig, RealEnv, give_free_memory_back};
use kernel::instance::{Instance, NewDatabase, create_database as make_files};
use kernel::redo::{ThreadStatus, read_thread};
use observe::{AlertLevel, Observer, SessionKind};
use server::console::{Console, ConsoleConfig};
use server::sql_engine::SqlEngine;
use server::{Server, ServerConfig, Tls, TlsFiles};
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;
use tokio::signal::unix::{SignalKind, signal};

/// How often memory that sessions have freed is looked for, to be given back.
const FREE_MEMORY_INTERVAL: Duration = Duration::from_secs(1);

/// How long a session may take to end when the instance stops, before its socket is cut.
const SESSION_END_LIMIT: Duration = Duration::from_secs(30);

impl From<kernel::Error> for CliError {
    fn from(e: kernel::Error) -> CliError {
        use kernel::Error::{Corrupt, Disk, DiskFull, Invariant, LogDamaged};
        let exit = match e {
            Disk(_) | DiskFull { .. } | Corrupt { .. } | LogDamaged { .. } => Exit::DiskGroup,
            Invariant(_) => Exit::Invariant,
            _ => Exit::Failed,
        };
        CliError::new(exit, e.to_string())
    }
}

fn runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_current_thread().enable_all().build().doing("start a runtime")
}

fn instance_no(k: u16) -> Result<block::InstanceNo> {
    u8::try_from(k).map(block::InstanceNo).map_err(|e| CliError::usage(e.to_string()))
}

fn group_options(instance: &InstanceConfig) -> Options {
    let direct = instance.parameters.direct_io();
    let direct_io = if direct { DirectIo::Required } else { DirectIo::Off };
    Options { direct_io, ..Options::default() }
}

/// Where instance `k` writes its alert log.
pub fn alert_path(layout: &Layout, config: &Config, k: u16) -> Result<PathBuf> {
    let set = config.for_instance(k)?.parameters.alert_log();
    // A relative path is relative to the database; an absolute one replaces it.
    Ok(if set.is_empty() { layout.alert_log(k) } else { layout.dir().join(set) })
}

/// Runs `work` to its end; when SIGTERM or Ctrl-C comes before, it is dropped half-way.
pub fn unless_interrupted<T>(work: impl AsyncFnOnce() -> Result<T>) -> Result<T> {
    runtime()?.block_on(async {
        let mut term = signal(SignalKind::terminate()).doing("listen for SIGTERM")?;
        let mut interrupt = signal(SignalKind::interrupt()).doing("listen for Ctrl-C")?;
        let work = async {
            let done = work().await;
            // Signals are seen when the runtime rests: one that came during the work must count.
            tokio::time::sleep(Duration::from_millis(1)).await;
            done
        };
        let ended = |exit| CliError::new(exit, "interrupted: what was made is taken away again");
        tokio::select! {
            biased;
            _ = term.recv() => Err(ended(Exit::Terminated)),
            _ = interrupt.recv() => Err(ended(Exit::Interrupted)),
            done = work => done,
        }
    })
}

/// Makes the disk group, the system files, the redo threads and the superuser.
pub async fn create_database(
    layout: &Layout,
    config: &Config,
    luns: u16,
    lun_size_bytes: u64,
    verifier: &str,
) -> Result<()> {
    let first = config.for_instance(1)?;
    let new = NewDatabase {
        dir: layout.dir(),
        options: group_options(&first),
        instances: u8::try_from(config.instances).map_err(|e| CliError::usage(e.to_string()))?,
        luns,
        lun_size_bytes,
        log_files: u16::try_from(first.parameters.log_files())
            .map_err(|e| CliError::usage(e.to_string()))?,
        log_file_bytes: first.parameters.log_file_size(),
        verifier,
    };
    let env = RealEnv::new();
    let observer = Observer::new(env.clone(), 1);
    let ctx = observer.ctx(SessionKind::Background, "init");
    make_files(&ctx, &env, &new).await?;
    Ok(())
}

/// Opens the disk group beside whatever runs, for `work` on it.
pub fn with_group(
    layout: &Layout,
    config: &Config,
    work: impl AsyncFnOnce(Arc<Group>) -> Result<()>,
) -> Result<()> {
    let options = group_options(&config.for_instance(1)?);
    let env = RealEnv::new();
    runtime()?.block_on(async {
        let group = Group::open_with(&env, layout.dir(), options).await?;
        work(group).await
    })
}

/// Runs instance `k` until it is told to stop.
pub fn run(
    layout: &Layout,
    config: &Config,
    k: u16,
    settings: InstanceConfig,
    guard: &RuntimeGuard,
) -> Result<()> {
    let me = instance_no(k)?;
    check_address(&settings.listen)?;
    check_address(&settings.interconnect)?;
    let secret = read_secret(layout)?;
    let tls = read_tls(layout, &settings.parameters)?;
    let serve_threads = settings.parameters.gcs_server_processes();
    let linger_us = settings.parameters._gc_spin_us();
    let scheduling = Scheduling::ask(&settings.parameters)?;
    raise_open_files();
    let env = RealEnv::with_config(RealConfig {
        serve_threads,
        linger_us,
        priority: scheduling.priority,
        favoured: scheduling.favoured.clone(),
        favoured_on: scheduling.favoured_on.clone(),
        ..RealConfig::default()
    });
    let observer = Observer::new(env.clone(), me.0);
    write_alerts_to(&observer, &alert_path(layout, config, k)?)?;
    note_panics(&observer);
    trace_files::follow(&observer, layout, k, &settings.parameters.diagnostic_dest());
    let told = format!("starting instance {k} of {}", layout.dir().display());
    observer.alert(AlertLevel::Info, told);
    for (level, told) in scheduling.told {
        observer.alert(level, told);
    }
    runtime()?.block_on(async {
        let security = Security { secret, tls };
        let ran = serve(layout, config, k, settings, guard, &env, &observer, security).await;
        match &ran {
            Ok(()) => observer.alert(AlertLevel::Info, "instance closed"),
            Err(e) => observer.alert(AlertLevel::Error, e.to_string()),
        }
        ran
    })
}

/// Clients and temporary files are many: as many files as the system lets this process open.
fn raise_open_files() {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE)
        && soft < hard
    {
        // Without it an instance runs as well, with fewer.
        let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
    }
}

#[allow(clippy::too_many_arguments)] // The parts of one start; a struct would only rename them.
async fn serve(
    layout: &Layout,
    config: &Config,
    k: u16,
    settings: InstanceConfig,
    guard: &RuntimeGuard,
    env: &Env,
    observer: &Arc<Observer>,
    security: Security,
) -> Result<()> {
    let Security { secret, tls } = security;
    // From here on a signal is an order to stop, also while the instance opens.
    let mut term = signal(SignalKind::terminate()).doing("listen for SIGTERM")?;
    let mut interrupt = signal(SignalKind::interrupt()).doing("listen for Ctrl-C")?;
    if needs_recovery(layout, config, &settings, env).await? {
        guard.set_state(State::Recovering)?;
    }
    let listen = settings.listen;
    let params = Arc::new(settings.parameters);
    let instance = {
        let config = kernel::instance::InstanceConfig {
            dir: layout.dir().to_owned(),
            me: instance_no(k)?,
            params: Arc::clone(&params),
            secret,
            interconnect: settings.interconnect,
            membership: MembershipConfig::default(),
        };
        let opening = Instance::open(env, observer, config);
        tokio::select! {
            opened = opening => opened?,
            // Nothing is open that would have to be closed: the next start recovers.
            _ = term.recv() => return Err(CliError::failed("stopped while opening")),
            _ = interrupt.recv() => return Err(CliError::failed("stopped while opening")),
        }
    };
    instance.set_settings_file(Arc::new(KeptSettings::new(layout)));
    let server_config = ServerConfig {
        listen,
        socket_dir: Some(layout.dir().to_owned()),
        max_connections: params.max_connections(),
        reserved_connections: params.superuser_reserved_connections(),
        open_cursors: params.open_cursors(),
        tls: tls.clone(),
    };
    let engine = Arc::new(SqlEngine::new(Arc::clone(&instance), secret));
    if let Err(e) = begin_watching(layout, config, k, &params, &engine) {
        instance.close().await?;
        return Err(e);
    }
    if let Err(e) = engine.begin_snapshots() {
        observer.alert(AlertLevel::Warning, format!("no snapshots will be taken: {e}"));
    }
    let server = match Server::start(Arc::clone(&engine), server_config) {
        Ok(server) => server,
        Err(e) => {
            instance.close().await?;
            return Err(CliError::new(Exit::Network, format!("open the client port: {e}")));
        }
    };
    let console = settings.console.and_then(|listen| {
        let database = crate::reports::name_of(layout.dir());
        let config = ConsoleConfig { listen, tls, database };
        open_console(&engine, &server, config, observer)
    });
    publish(&instance, &params, guard, &server, console.as_ref())?;
    let address = server.address();
    observer.alert(AlertLevel::Info, format!("instance {k} open on {address}"));
    say!("instance {k} open on {address}");
    let mut tick = tokio::time::interval(FREE_MEMORY_INTERVAL);
    loop {
        tokio::select! {
            _ = term.recv() => break,
            _ = interrupt.recv() => break,
            _ = tick.tick() => give_free_memory_back(),
        }
    }
    observer.alert(AlertLevel::Info, "stopping: ending the sessions");
    guard.set_state(State::Stopping)?;
    let ended = tokio::task::spawn_blocking(move || {
        let looked = console.is_none_or(|console| console.stop(SESSION_END_LIMIT));
        server.stop(SESSION_END_LIMIT) && looked
    });
    let ended = ended.await;
    if !ended.unwrap_or(false) {
        observer.alert(AlertLevel::Warning, "sessions did not end in time; closing without them");
    }
    instance.close().await?;
    Ok(())
}

/// Opens the web console. An instance without one is better than none: why it has none is in the
/// alert log.
fn open_console(
    engine: &Arc<SqlEngine>,
    server: &Server,
    config: ConsoleConfig,
    observer: &Observer,
) -> Option<Console> {
    let (listen, scheme) =
        (config.listen.clone(), if config.tls.is_some() { "https" } else { "http" });
    match Console::start(Arc::clone(engine), server, config) {
        Ok(console) => {
            let told = format!("web console at {scheme}://{}", console.address());
            observer.alert(AlertLevel::Info, told);
            Some(console)
        }
        Err(e) => {
            let told = format!("no web console on {listen} (console_listen): {e}");
            observer.alert(AlertLevel::Warning, told);
            None
        }
    }
}

/// Tells everybody where the instance is reached: the cluster, `skein status`, `show parameter`.
/// They tell the ports that were taken, not the 0 that asked for them.
fn publish(
    instance: &Instance,
    params: &kernel::params::Parameters,
    guard: &RuntimeGuard,
    server: &Server,
    console: Option<&Console>,
) -> Result<()> {
    let listen = server.address().to_string();
    if let Err(e) = instance.node.membership.set_client_addr(&listen) {
        let told = format!("publish the client address: {e}");
        instance.observer.alert(AlertLevel::Warning, told);
    }
    let interconnect = instance.node.interconnect().addr().to_owned();
    let console = console.map(|console| console.address().to_string());
    for (name, value) in [
        ("listen", listen.as_str()),
        ("interconnect", &interconnect),
        ("console_listen", console.as_deref().unwrap_or(NO_CONSOLE)),
    ] {
        params.set(name, value).map_err(|e| CliError::failed(e.to_string()))?;
    }
    guard.set_open(Addresses { listen, interconnect, console })
}

/// Whether a redo thread is open whose instance does not run.
async fn needs_recovery(
    layout: &Layout,
    config: &Config,
    settings: &InstanceConfig,
    env: &Env,
) -> Result<bool> {
    let group = Group::open_with(env, layout.dir(), group_options(settings)).await?;
    for k in 1..=config.instances {
        let (_, thread) = read_thread(&group, instance_no(k)?).await?;
        let runs = probe(layout, k)?.is_some_and(|r| r.state == State::Open);
        if thread.status == ThreadStatus::Open && !runs {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Fails early when a port is taken: recovery would be for nothing. The port is given back at once,
/// since it must refuse clients until the instance is open.
fn check_address(listen: &str) -> Result<()> {
    match std::net::TcpListener::bind(listen) {
        Ok(_) => Ok(()),
        Err(e) => Err(CliError::new(Exit::Network, format!("cannot listen on {listen}: {e}"))),
    }
}

/// What one start needs to know whom it talks to.
struct Security {
    secret: [u8; 32],
    tls: Option<Tls>,
}

/// Certificate and key, if clients' connections shall be encrypted.
fn read_tls(layout: &Layout, params: &kernel::params::Parameters) -> Result<Option<Tls>> {
    let path = |name: String| (!name.is_empty()).then(|| layout.dir().join(name));
    let (certificate, key) = (path(params.ssl_cert_file()), path(params.ssl_key_file()));
    let client_authorities = path(params.ssl_ca_file());
    match (certificate, key) {
        (Some(certificate), Some(key)) => {
            let files = TlsFiles { certificate, key, client_authorities };
            Tls::load(&files).map(Some).map_err(CliError::usage)
        }
        (None, None) if client_authorities.is_none() => Ok(None),
        _ => Err(CliError::usage(
            "ssl_cert_file and ssl_key_file belong together, and ssl_ca_file to them: set both or \
             none",
        )),
    }
}

/// The rules for log-ons and the audit trail, before the first client.
fn begin_watching(
    layout: &Layout,
    config: &Config,
    k: u16,
    params: &kernel::params::Parameters,
    engine: &SqlEngine,
) -> Result<()> {
    let hba = layout.dir().join(params.hba_file());
    engine.follow_hba(&hba).map_err(CliError::usage)?;
    let audit = match params.audit_file().as_str() {
        "off" => return Ok(()),
        "" => alert_path(layout, config, k)?.with_file_name(format!("audit_{k}.log")),
        name => layout.dir().join(name),
    };
    engine.begin_audit(&audit).map_err(CliError::failed)
}

fn read_secret(layout: &Layout) -> Result<[u8; 32]> {
    let path = layout.secret();
    let path = path.display();
    let wrong = |why: String| {
        CliError::usage(format!(
            "{why}: by it the instances know each other; restore it, or, while all are down, make a \
             new one: head -c 32 /dev/urandom > {path}; chmod 600 {path}"
        ))
    };
    let bytes = std::fs::read(layout.secret()).map_err(|e| wrong(format!("read {path}: {e}")))?;
    bytes.try_into().map_err(|_| wrong(format!("{path} must hold 32 bytes")))
}

/// Appends the alert log's lines to a file.
fn write_alerts_to(observer: &Observer, path: &std::path::Path) -> Result<()> {
    let file = File::options().create(true).append(true).open(path);
    let file = file.doing(format_args!("open the alert log {}", path.display()))?;
    observer.alert_log.set_sink(Box::new(move |line: &str| {
        // One write a line, so that lines of several writers do not mix.
        if (&file).write_all(format!("{line}\n").as_bytes()).is_err() {
            eprintln!("{line}");
        }
    }));
    Ok(())
}

/// A panic's place goes to the alert log; what becomes of it is decided where it is caught.
fn note_panics(observer: &Arc<Observer>) {
    let observer = Arc::downgrade(observer);
    std::panic::set_hook(Box::new(move |info| {
        let thread = std::thread::current();
        let name = thread.name().unwrap_or("?");
        let backtrace = std::backtrace::Backtrace::force_capture();
        let text = format!("panic in thread {name}: {info}\n{backtrace}");
        eprintln!("{text}");
        // The log's own lock may be what the panicking thread holds.
        if let Some(observer) = observer.upgrade() {
            observer.alert(AlertLevel::Error, text);
        }
    }));
}
