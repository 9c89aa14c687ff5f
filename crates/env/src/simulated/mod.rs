//! The simulated environment: a whole cluster in one thread, from one seed.
//!
//! [`SimWorld`] holds any number of processes (one per instance), their tasks, files and
//! connections,
//! and a virtual clock that jumps to the next event when no task is ready. Which ready task runs
//! next,
//! how long an I/O or a message takes and what a crash destroys come from the seeded generator
//! only:
//! the same seed and the same calls give the same history, which [`SimWorld::trace_hash`] proves.
//!
//! Must never read a real clock, start a thread, or iterate anything in an order that the seed does
//! not
//! decide.

mod arbiter;
mod disk;
mod net;
mod rng;
#[cfg(test)]
mod tests;
mod world;

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

pub use disk::{DiskFault, FaultKind};
use world::{Shared, Step};

use crate::arbiter::Arbiter;
use crate::{
    BoxFuture, Connection, Env, EnvImpl, FileLock, Lane, Listener, Micros, OpenOptions, RawFile,
    SharedLayout, SharedMemory, SharedView, TaskHandle,
};

/// How the simulated world behaves. Ranges are inclusive, times in microseconds.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// What one poll of a task costs.
    pub poll_us: (u64, u64),
    pub disk_read_us: (u64, u64),
    pub disk_write_us: (u64, u64),
    pub disk_sync_us: (u64, u64),
    pub net_delay_us: (u64, u64),
    /// A cut that lasts longer than this breaks the connections.
    pub cut_break_us: u64,
    /// How likely a write that is not durable survives its writer's crash whole …
    pub unsynced_survives: f64,
    /// … and, if it does not, that some of its sectors do.
    pub unsynced_torn: f64,
    /// How likely a read sees a given sector of a write that is in flight.
    pub torn_read: f64,
    /// Files refuse direct I/O.
    pub refuse_direct: bool,
    /// Keep the trace as text (for finding where two runs part).
    pub log_trace: bool,
}

impl Default for SimConfig {
    fn default() -> Self {
        SimConfig {
            poll_us: (0, 2),
            disk_read_us: (40, 200),
            disk_write_us: (60, 400),
            disk_sync_us: (200, 1000),
            net_delay_us: (5, 60),
            cut_break_us: 2_000_000,
            unsynced_survives: 0.3,
            unsynced_torn: 0.5,
            torn_read: 0.5,
            refuse_direct: false,
            log_trace: false,
        }
    }
}

/// What a task of an aborted instance unwinds with.
pub(crate) struct SimAbort;

/// A world of simulated processes. Dropping it drops every task in it.
pub struct SimWorld {
    shared: Arc<Shared>,
}

impl SimWorld {
    #[must_use]
    pub fn new(seed: u64, config: SimConfig) -> SimWorld {
        SimWorld { shared: Shared::new(seed, config) }
    }

    /// The environment of an instance's process; the first call starts it.
    ///
    /// # Panics
    /// When the instance has crashed: [`SimWorld::restart_env`] starts it again.
    #[must_use]
    pub fn env(&self, instance: u8) -> Env {
        let mut world = self.shared.lock();
        let pid = match world.pid_of(instance) {
            Some(pid) => pid,
            None => {
                let known = world.processes.values().any(|p| p.instance == instance);
                assert!(!known, "instance {instance} has crashed");
                world.start_process(instance)
            }
        };
        drop(world);
        self.env_of(pid)
    }

    /// A new process for an instance that has crashed.
    ///
    /// # Panics
    /// When the instance is running.
    #[must_use]
    pub fn restart_env(&self, instance: u8) -> Env {
        let pid = self.shared.lock().start_process(instance);
        self.env_of(pid)
    }

    fn env_of(&self, pid: u32) -> Env {
        Env::new(Arc::new(SimEnv { shared: Arc::clone(&self.shared), pid }))
    }

    /// Ends an instance's process now: tasks, locks and connections are gone, writes that are not
    /// durable may be. Does nothing if it is not running.
    pub fn crash(&self, instance: u8) {
        let pid = self.shared.lock().pid_of(instance);
        if let Some(pid) = pid {
            self.shared.crash(pid);
        }
    }

    #[must_use]
    pub fn is_alive(&self, instance: u8) -> bool {
        self.shared.lock().pid_of(instance).is_some()
    }

    /// Stops an instance from running (as SIGSTOP does): it keeps its locks and connections.
    ///
    /// # Panics
    /// When the instance is not running.
    pub fn pause(&self, instance: u8) {
        let pid = self.shared.lock().pid_of(instance).expect("a running instance");
        self.shared.set_paused(pid, true);
    }

    /// Lets a paused instance go on; does nothing if it has ended meanwhile.
    pub fn resume(&self, instance: u8) {
        let pid = self.shared.lock().pid_of(instance);
        if let Some(pid) = pid {
            self.shared.set_paused(pid, false);
        }
    }

    /// Stops the tasks of that name in an instance from running; all its others go on. Until
    /// [`SimWorld::release_tasks`], or the instance's end.
    ///
    /// # Panics
    /// When the instance is not running.
    pub fn hold_tasks(&self, instance: u8, name: &'static str) {
        let pid = self.shared.lock().pid_of(instance).expect("a running instance");
        self.shared.hold_tasks(pid, name);
    }

    /// Lets an instance's held tasks go on; does nothing if it has ended meanwhile.
    pub fn release_tasks(&self, instance: u8) {
        let pid = self.shared.lock().pid_of(instance);
        if let Some(pid) = pid {
            self.shared.release_tasks(pid);
        }
    }

    /// From now on no process can end another.
    pub fn refuse_kills(&self, refuse: bool) {
        self.shared.lock().kills_refused = refuse;
    }

    /// From now on each instance has a host of its own: no process can end another, or look into
    /// its memory.
    pub fn set_hosts_apart(&self) {
        let mut world = self.shared.lock();
        world.kills_refused = true;
        world.hosts_apart = true;
    }

    /// The storage takes the writes of everybody from now on, fenced or not: a broken promise.
    pub fn forget_fences(&self) {
        self.shared.lock().disk.forget_fences();
    }

    /// How likely questions to the arbiter, and its answers, are lost or late from now on.
    pub fn set_arbiter_trouble(&self, probability: f64) {
        self.shared.lock().arbiter.trouble = probability;
    }

    /// Cuts an instance off from the arbiter, or lets it through again.
    pub fn cut_arbiter(&self, instance: u8, cut: bool) {
        let mut world = self.shared.lock();
        world.note("arbiter cut", u64::from(instance), u64::from(cut));
        if cut {
            world.arbiter.cut_off.insert(instance);
        } else {
            world.arbiter.cut_off.remove(&instance);
        }
    }

    /// Whether the storage refuses what an instance's process writes, which still runs.
    #[must_use]
    pub fn is_fenced(&self, instance: u8) -> bool {
        let pid = self.shared.lock().pid_of(instance);
        pid.is_some_and(|pid| disk::is_fenced(&self.shared, pid))
    }

    /// Cuts the network between two instances.
    pub fn cut(&self, a: u8, b: u8) {
        self.shared.lock().cut(a, b);
    }

    /// Nothing passes from one instance to another, while the other way is open; until healed.
    pub fn cut_one_way(&self, from: u8, to: u8) {
        self.shared.lock().cut_one_way(from, to);
    }

    /// Kills an instance's process after so many more polls of its tasks: at any await.
    ///
    /// # Panics
    /// When it does not run.
    pub fn crash_after_polls(&self, instance: u8, polls: u64) {
        let pid = self.shared.lock().pid_of(instance).expect("a running instance");
        self.shared.set_fuse(pid, polls);
    }

    /// Kills an instance's process with its so-manieth disk write from now on in flight: it is
    /// done, done in part, or lost. `None`: not any more.
    ///
    /// # Panics
    /// When it does not run.
    pub fn crash_at_write(&self, instance: u8, writes: Option<u64>) {
        let pid = self.shared.lock().pid_of(instance).expect("a running instance");
        self.shared.set_write_fuse(pid, writes);
    }

    /// How long messages travel from now on, in microseconds.
    pub fn set_net_delay(&self, range_us: (u64, u64)) {
        self.shared.lock().config.net_delay_us = range_us;
    }

    /// Sets the wall clock of an instance forward or back. Monotonic time goes on as it is.
    ///
    /// # Panics
    /// When it does not run.
    pub fn jump_wall_clock(&self, instance: u8, by_us: i64) {
        let mut world = self.shared.lock();
        let pid = world.pid_of(instance).expect("a running instance");
        world.note("clock jump", u64::from(pid), by_us.cast_unsigned());
        world.processes.get_mut(&pid).expect("it runs").wall_off_us += by_us;
    }

    pub fn heal(&self, a: u8, b: u8) {
        self.shared.lock().heal(a, b);
    }

    /// Breaks every connection between two instances at once.
    pub fn break_connections(&self, a: u8, b: u8) {
        self.shared.lock().break_between(a, b);
    }

    /// Puts a disk fault in force, until [`SimWorld::clear_faults`].
    pub fn set_fault(&self, fault: DiskFault) {
        self.shared.lock().disk.faults.push(fault);
    }

    pub fn clear_faults(&self) {
        self.shared.lock().disk.faults.clear();
    }

    /// Takes a file away; `false` if there is none.
    pub fn remove_file(&self, path: &Path) -> bool {
        self.shared.lock().remove_file(path)
    }

    /// # Panics
    /// When there is no such file.
    pub fn truncate_file(&self, path: &Path, size_bytes: u64) {
        self.shared.lock().truncate_file(path, size_bytes);
    }

    /// Flips every bit of a range of a file.
    ///
    /// # Panics
    /// When there is no such file.
    pub fn corrupt_file(&self, path: &Path, offset_bytes: u64, len_bytes: usize) {
        self.shared.lock().corrupt_file(path, offset_bytes, len_bytes);
    }

    #[must_use]
    pub fn now(&self) -> Micros {
        Micros(self.shared.lock().now)
    }

    /// A number for tests to choose with, from the world's generator.
    #[must_use]
    pub fn random(&self) -> u64 {
        self.shared.lock().rng.next()
    }

    /// A digest of all that has happened: task switches, I/O, messages, crashes, with their times.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.shared.lock().trace()
    }

    /// The trace as text, if [`SimConfig::log_trace`] is set.
    #[must_use]
    pub fn trace_log(&self) -> Vec<String> {
        self.shared.lock().trace_log.clone()
    }

    /// Lets the world go on for `duration` of its time.
    pub fn run_for(&self, duration: Duration) {
        self.run_until(duration, || false);
    }

    /// Lets the world go on until `done` says so (asked between steps; true then) or `limit` of its
    /// time has passed (false).
    pub fn run_until(&self, limit: Duration, mut done: impl FnMut() -> bool) -> bool {
        let limit_us = self.now().0 + micros(limit);
        loop {
            if done() {
                return true;
            }
            if self.shared.step(None, limit_us) == Step::Idle {
                return done();
            }
        }
    }

    /// Runs the world until the future is ready.
    ///
    /// # Panics
    /// When nothing can happen any more and the future still waits.
    pub fn block_on<F: Future>(&self, future: F) -> F::Output {
        match self.drive(future, u64::MAX) {
            Some(out) => out,
            None => panic!("the world is stuck; waiting tasks: {:?}", self.shared.task_names()),
        }
    }

    /// Runs the world until the future is ready; `None` if `limit` of its time passes first, or if
    /// nothing can happen any more.
    pub fn block_on_for<F: Future>(&self, limit: Duration, future: F) -> Option<F::Output> {
        let limit_us = self.now().0 + micros(limit);
        self.drive(future, limit_us)
    }

    fn drive<F: Future>(&self, future: F, limit_us: u64) -> Option<F::Output> {
        let mut future = std::pin::pin!(future);
        let mut out = None;
        let mut poll = |cx: &mut Context<'_>| match future.as_mut().poll(cx) {
            Poll::Ready(value) => {
                out = Some(value);
                Poll::Ready(())
            }
            Poll::Pending => Poll::Pending,
        };
        let mut main = self.shared.main(&mut poll);
        while self.shared.step(Some(&mut main), limit_us) == Step::Ran {}
        out
    }
}

impl Drop for SimWorld {
    fn drop(&mut self) {
        self.shared.clear();
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX / 4)
}

struct SimEnv {
    shared: Arc<Shared>,
    pid: u32,
}

struct SimSleep {
    shared: Arc<Shared>,
    due_us: u64,
    key: Option<(u64, u64)>,
}

impl Future for SimSleep {
    type Output = ();
    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let shared = Arc::clone(&self.shared);
        let mut world = shared.lock();
        if world.now >= self.due_us {
            return Poll::Ready(());
        }
        self.key = Some(world.timer(self.key, self.due_us, cx.waker().clone()));
        Poll::Pending
    }
}

impl Drop for SimSleep {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            self.shared.lock().cancel(key);
        }
    }
}

impl EnvImpl for SimEnv {
    fn may_write_here(&self) -> bool {
        true
    }

    fn now(&self) -> Micros {
        Micros(self.shared.lock().now)
    }

    fn wall_us(&self) -> i64 {
        // 2026-01-01 00:00 UTC plus the virtual time.
        let world = self.shared.lock();
        let off_us = world.processes.get(&self.pid).map_or(0, |p| p.wall_off_us);
        let now = i64::try_from(world.now).expect("a short simulation");
        1_767_225_600_000_000 + now + off_us
    }

    fn random(&self) -> u64 {
        self.shared.lock().rng.next()
    }

    fn spawn(&self, name: &'static str, _lane: Lane, task: BoxFuture<'static, ()>) -> TaskHandle {
        let id = self.shared.spawn(self.pid, name, task);
        let shared = Arc::downgrade(&self.shared);
        TaskHandle::new(Box::new(move || {
            if let Some(shared) = shared.upgrade() {
                shared.abort_task(id);
            }
        }))
    }

    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()> {
        let due_us = self.shared.lock().now.saturating_add(micros(duration));
        Box::pin(SimSleep { shared: Arc::clone(&self.shared), due_us, key: None })
    }

    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn RawFile>> {
        disk::open(&self.shared, self.pid, path, options)
    }

    fn exists(&self, path: &Path) -> bool {
        disk::exists(&self.shared, path)
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>> {
        disk::list(&self.shared, dir)
    }

    fn try_lock(
        &self,
        path: &Path,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> io::Result<Option<Box<dyn FileLock>>> {
        disk::try_lock(&self.shared, self.pid, path, offset_bytes, len_bytes)
    }

    fn is_locked(&self, path: &Path, offset_bytes: u64, len_bytes: u64) -> io::Result<bool> {
        disk::is_locked(&self.shared, path, offset_bytes, len_bytes)
    }

    fn listen(&self, addr: &str) -> BoxFuture<'_, io::Result<Box<dyn Listener>>> {
        Box::pin(std::future::ready(net::listen(&self.shared, self.pid, addr)))
    }

    fn connect(&self, addr: &str) -> BoxFuture<'_, io::Result<Connection>> {
        let addr = addr.to_owned();
        Box::pin(async move {
            let (delay, give_up) = {
                let mut world = self.shared.lock();
                let range = world.config.net_delay_us;
                (world.rng.between(range) * 2, world.config.cut_break_us)
            };
            self.sleep(Duration::from_micros(delay)).await;
            if net::cut_off(&self.shared, self.pid, &addr) {
                self.sleep(Duration::from_micros(give_up)).await;
                if net::cut_off(&self.shared, self.pid, &addr) {
                    return Err(io::ErrorKind::TimedOut.into());
                }
            }
            net::connect(&self.shared, self.pid, &addr)
        })
    }

    fn kill_process(&self, pid: u32) -> io::Result<()> {
        let (alive, refused) = {
            let world = self.shared.lock();
            (world.is_alive(pid), world.kills_refused)
        };
        if !alive {
            return Err(io::Error::from_raw_os_error(nix::libc::ESRCH));
        }
        if refused {
            return Err(io::ErrorKind::PermissionDenied.into());
        }
        self.shared.crash(pid);
        Ok(())
    }

    fn pid(&self) -> u32 {
        self.pid
    }

    fn process_start_time(&self, pid: u32) -> Option<u64> {
        let world = self.shared.lock();
        world.processes.get(&pid).filter(|p| p.alive).map(|p| p.started_us)
    }

    fn arbiter(&self) -> io::Result<Arc<dyn Arbiter>> {
        let shared = Arc::clone(&self.shared);
        Ok(Arc::new(arbiter::SimArbiter { shared, pid: self.pid }))
    }

    fn register(&self, key: u64) -> BoxFuture<'static, io::Result<()>> {
        disk::register_key(&self.shared, self.pid, key)
    }

    fn fence(&self, key: u64) -> BoxFuture<'static, io::Result<()>> {
        disk::fence_key(&self.shared, self.pid, key)
    }

    fn share_memory(&self, layout: SharedLayout) -> io::Result<(Arc<SharedMemory>, String)> {
        let mut world = self.shared.lock();
        if world.hosts_apart {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let memory = SharedMemory::create(layout, world.rng.next())?;
        world.memories.push(Arc::downgrade(&memory));
        Ok((memory, (world.memories.len() - 1).to_string()))
    }

    fn look_at(&self, descriptor: &str) -> io::Result<SharedView> {
        let memory = descriptor.parse().ok().and_then(|i: usize| {
            let memories = &self.shared.lock().memories;
            memories.get(i)?.upgrade()
        });
        SharedView::of(&*memory.ok_or(io::ErrorKind::NotFound)?)
    }

    fn abort_instance(&self, reason: &str) -> ! {
        eprintln!("simulated process {} aborted: {reason}", self.pid);
        self.shared.crash(self.pid);
        std::panic::resume_unwind(Box::new(SimAbort))
    }
}
