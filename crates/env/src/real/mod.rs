//! The environment on the operating system.
//!
//! Tasks run in lanes: `Serve` (threads LMS0…) carries the interconnect and whatever answers peers,
//! `Log` is one thread (LGWR) of its own, `Parallel` (P0…) helps sessions to compute,
//! `Background` (BG0…) is everything else and owns the timers.
//! File I/O is synchronous `pread`/`pwrite`, done on the calling thread where blocking is fine (the
//! log thread, a session's own thread) and on a small pool of threads elsewhere.
//!
//! Must never use asynchronous kernel I/O for files: a thread inside a write keeps its process, and
//! so its locks, alive until the write has ended, which is what fencing relies on. Must never fork.

// This is the one place that may ask the operating system for time and threads.
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

mod file;
mod interfaces;
mod linger;
mod machine;
mod memory;
mod net;
mod pool;
mod priority;
mod processors;
#[cfg(test)]
mod tests;

use std::cell::Cell;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use futures::FutureExt;
use tokio::runtime::{Builder, Handle, Runtime};

pub use memory::{give_free_memory_back, give_own_memory_back};
pub(crate) use priority::machine_us;
pub use priority::{Priority, may_favour};
pub use processors::{Processors, bind_thread, may_bind};

use crate::{
    BoxFuture, Connection, Env, EnvImpl, FileLock, Lane, Lingering, Listener, MachineFigure,
    Micros, OpenOptions, RawFile, SharedLayout, SharedMemory, SharedView, TaskHandle,
};

thread_local! {
    static BLOCKING: Cell<bool> = const { Cell::new(false) };
}

/// Declares that the calling thread may block in file I/O (a session's own thread): its reads and
/// writes are then done on it instead of travelling to an I/O thread and back.
pub fn mark_blocking_thread() {
    BLOCKING.with(|b| b.set(true));
}

fn may_block() -> bool {
    BLOCKING.with(Cell::get)
}

/// How many threads each part gets. The default suits a few cores.
#[derive(Clone, Debug)]
pub struct RealConfig {
    pub serve_threads: usize,
    pub background_threads: usize,
    pub io_threads: usize,
    /// Those that help sessions to compute.
    pub parallel_threads: usize,
    /// How the threads named in `favoured` are scheduled, where the system allows it.
    pub priority: Priority,
    /// Names of threads (LMS0, LGWR, BG0), separated by `|`; a `*` at the end stands for the rest.
    pub favoured: String,
    /// Where the same threads run, if not on all processors of the process.
    pub favoured_on: Processors,
    /// How long a session's thread looks for a peer's answer before it sleeps, µs; 0: not at all.
    pub linger_us: u64,
}

impl Default for RealConfig {
    fn default() -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        RealConfig {
            serve_threads: (cpus / 4).clamp(1, 8),
            background_threads: (cpus / 2).clamp(1, 4),
            io_threads: 8,
            parallel_threads: cpus,
            priority: Priority::Preferred,
            favoured: "LMS*|LGWR".to_owned(),
            favoured_on: Processors::default(),
            linger_us: 250,
        }
    }
}

/// The real environment; see the module's text.
pub struct RealEnv {
    started: Instant,
    /// The machine's clock at that moment.
    started_us: u64,
    config: RealConfig,
    serve: OnceLock<Runtime>,
    background: OnceLock<Runtime>,
    parallel: OnceLock<Runtime>,
    log: OnceLock<Handle>,
    pool: Arc<pool::IoPool>,
    linger: linger::Linger,
}

impl RealEnv {
    /// An environment with the default number of threads. Threads start when first needed and live
    /// as long as the process.
    #[must_use]
    #[allow(clippy::new_ret_no_self)]
    pub fn new() -> Env {
        RealEnv::with_config(RealConfig::default())
    }

    #[must_use]
    pub fn with_config(config: RealConfig) -> Env {
        let inner = Arc::new(RealEnv {
            started_us: machine_us(),
            started: Instant::now(),
            serve: OnceLock::new(),
            background: OnceLock::new(),
            parallel: OnceLock::new(),
            log: OnceLock::new(),
            pool: pool::IoPool::new(config.io_threads.max(1)),
            linger: linger::Linger::new(config.linger_us),
            config,
        });
        // Runtimes must not be dropped by one of their own tasks, and a task may hold the last Env:
        // one reference is kept for ever.
        std::mem::forget(Arc::clone(&inner));
        Env::new(inner)
    }

    fn serve(&self) -> &Handle {
        self.serve.get_or_init(|| workers("LMS", self.config.serve_threads, self.favour())).handle()
    }

    fn background(&self) -> &Handle {
        self.background
            .get_or_init(|| workers("BG", self.config.background_threads, self.favour()))
            .handle()
    }

    fn parallel(&self) -> &Handle {
        let threads = self.config.parallel_threads;
        self.parallel.get_or_init(|| workers("P", threads, self.favour())).handle()
    }

    /// What a thread calls with its name when it starts.
    fn favour(&self) -> impl Fn(&str) + Send + Sync + 'static {
        let (priority, favoured) = (self.config.priority, self.config.favoured.clone());
        let on = self.config.favoured_on.clone();
        move |name| {
            if priority::names(&favoured, name) {
                // Where it is not allowed, the thread runs as any other; `may_favour` and
                // `may_bind` tell.
                let _ = priority::take(priority);
                let _ = processors::bind_thread(&on);
            }
        }
    }

    fn log(&self) -> &Handle {
        self.log.get_or_init(|| {
            let runtime = Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("the log writer's runtime needs an epoll descriptor");
            let handle = runtime.handle().clone();
            let favour = self.favour();
            std::thread::Builder::new()
                .name("LGWR".to_owned())
                .spawn(move || {
                    mark_blocking_thread();
                    favour("LGWR");
                    runtime.block_on(std::future::pending::<()>());
                })
                .expect("the log writer's thread starts");
            handle
        })
    }
}

fn workers(
    prefix: &'static str,
    threads: usize,
    on_start: impl Fn(&str) + Send + Sync + 'static,
) -> Runtime {
    let next = AtomicUsize::new(0);
    Builder::new_multi_thread()
        .worker_threads(threads.max(1))
        // They compute for sessions, and drop what sessions have planned.
        .thread_stack_size(crate::stack::STACK_BYTES)
        .thread_name_fn(move || format!("{prefix}{}", next.fetch_add(1, Ordering::Relaxed)))
        .on_thread_start(move || on_start(std::thread::current().name().unwrap_or(prefix)))
        .enable_all()
        .build()
        .expect("a runtime needs threads and an epoll descriptor")
}

/// A task that panics has broken an invariant while it held who knows what: the instance ends, its
/// peers recover it.
async fn guarded(name: &'static str, task: BoxFuture<'static, ()>) {
    if let Err(payload) = std::panic::AssertUnwindSafe(task).catch_unwind().await {
        let text = payload
            .downcast_ref::<String>()
            .map(String::as_str)
            .or_else(|| payload.downcast_ref::<&str>().copied())
            .unwrap_or("no message");
        exit_at_once(&format!("task {name} panicked: {text}"));
    }
}

fn exit_at_once(reason: &str) -> ! {
    eprintln!("instance aborted: {reason}");
    // SAFETY: `_exit` has no preconditions; it skips destructors and exit handlers, as wanted: none
    // of them may write after an invariant is broken.
    #[allow(unsafe_code)]
    unsafe {
        nix::libc::_exit(70)
    }
}

/// A timer of the background runtime that can be awaited anywhere.
struct Sleep(Pin<Box<tokio::time::Sleep>>);

impl Future for Sleep {
    type Output = ();
    fn poll(
        mut self: Pin<&mut Self>,
        cx: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Self::Output> {
        self.0.as_mut().poll(cx)
    }
}

impl EnvImpl for RealEnv {
    fn now(&self) -> Micros {
        let us = u64::try_from(self.started.elapsed().as_micros()).unwrap_or(u64::MAX);
        Micros(self.started_us.saturating_add(us))
    }

    fn wall_us(&self) -> i64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
    }

    fn random(&self) -> u64 {
        rand::random()
    }

    fn processors(&self) -> usize {
        self.config.parallel_threads
    }

    fn thread_cpu_us(&self) -> u64 {
        priority::thread_cpu_us()
    }

    fn thread_number(&self) -> Option<u32> {
        u32::try_from(nix::unistd::gettid().as_raw()).ok()
    }

    fn cpu_of_thread_us(&self, number: u32) -> Option<u64> {
        priority::cpu_of_thread_us(number)
    }

    fn process_cpu_us(&self) -> u64 {
        priority::process_cpu_us()
    }

    fn machine_figures(&self) -> Vec<MachineFigure> {
        machine::figures()
    }

    fn interface_of(&self, ip: std::net::IpAddr) -> Option<String> {
        interfaces::interface_of(ip)
    }

    fn spawn(&self, name: &'static str, lane: Lane, task: BoxFuture<'static, ()>) -> TaskHandle {
        let handle = match lane {
            Lane::Serve => self.serve(),
            Lane::Log => self.log(),
            Lane::Background => self.background(),
            Lane::Parallel => self.parallel(),
        };
        let abort = handle.spawn(guarded(name, task)).abort_handle();
        TaskHandle::new(Box::new(move || abort.abort()))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let _context = self.background().enter();
        Box::pin(Sleep(Box::pin(tokio::time::sleep(duration))))
    }

    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn RawFile>> {
        file::open(path, options, Arc::clone(&self.pool))
    }

    fn exists(&self, path: &Path) -> bool {
        path.exists()
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        let mut names = std::fs::read_dir(dir)?
            .map(|entry| entry.map(|e| PathBuf::from(e.file_name())))
            .collect::<io::Result<Vec<_>>>()?;
        names.sort();
        Ok(names)
    }

    fn try_lock(
        &self,
        path: &Path,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> io::Result<Option<Box<dyn FileLock>>> {
        file::try_lock(path, offset_bytes, len_bytes)
    }

    fn is_locked(&self, path: &Path, offset_bytes: u64, len_bytes: u64) -> io::Result<bool> {
        file::is_locked(path, offset_bytes, len_bytes)
    }

    fn listen(&self, addr: &str) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        let addr = addr.to_owned();
        Box::pin(async move { net::listen(self.serve().clone(), addr).await })
    }

    fn connect(&self, addr: &str) -> BoxFuture<'_, io::Result<Connection>> {
        let addr = addr.to_owned();
        Box::pin(async move { net::connect(self.serve().clone(), addr).await })
    }

    fn kill_process(&self, pid: u32) -> io::Result<()> {
        let pid = i32::try_from(pid)
            .ok()
            .filter(|p| *p > 1)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "no such process id"))?;
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL)
            .map_err(io::Error::from)
    }

    fn pid(&self) -> u32 {
        std::process::id()
    }

    fn process_start_time(&self, pid: u32) -> Option<u64> {
        // Field 22 of /proc/PID/stat; the command name (field 2) may hold spaces and parentheses.
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit_once(')')?.1.split_whitespace().nth(19)?.parse().ok()
    }

    fn share_memory(&self, layout: SharedLayout) -> io::Result<(Arc<SharedMemory>, String)> {
        let memory = SharedMemory::create(layout, self.random())?;
        let descriptor = memory.descriptor();
        Ok((memory, descriptor))
    }

    fn look_at(&self, descriptor: &str) -> io::Result<SharedView> {
        SharedView::open(descriptor)
    }

    fn may_write_here(&self) -> bool {
        may_block()
    }

    fn linger(&self, lingering: &mut Lingering) -> bool {
        may_block() && self.linger.again(lingering)
    }

    fn linger_done(&self, lingering: &mut Lingering, came: bool) {
        self.linger.done(lingering, came);
    }

    fn abort_instance(&self, reason: &str) -> ! {
        exit_at_once(reason)
    }

    fn panicked_in(&self, what: &str) {
        exit_at_once(&format!("panic in the middle of {what}"));
    }
}
