//! The one environment: everything the kernel may ask of the outside world.
//!
//! Time, randomness, tasks, files and network come in through [`Env`], so that a whole cluster runs
//! inside one thread, from one seed, under simulated faults (`env::simulated`), and the same code
//! runs on the operating system (`env::real`). The layers above never call the OS themselves, never
//! read a clock and never iterate a randomly seeded map.
//!
//! What it promises: FIFO delivery on a connection; a write is durable when `write_at` on a file
//! opened with `dsync`, or a `sync` after it, has returned; a dropped future of file I/O does not
//! stop
//! the I/O (the buffer is owned by it until it ends).

pub mod arbiter;
pub mod buf;
pub mod latch;
pub mod marks;
pub mod real;
pub mod shared;
pub mod simulated;
pub mod stack;

use std::future::Future;
use std::io;
use std::mem::MaybeUninit;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

pub use buf::IoBuf;
pub use shared::{SharedLayout, SharedMemory, SharedView, give_copy_back};

/// A future on the heap, pinned. As `Box::pin`, but it is made where it stays: that makes it on the
/// stack and then copies all of it, of which a future that has not begun is hardly a tenth.
#[macro_export]
macro_rules! boxed {
    ($future:expr) => {
        // The type that is expected, of any future, is for what comes out to be turned into.
        match $crate::place(::std::boxed::Box::new_uninit(), $future) {
            made => made,
        }
    };
}

/// What [`boxed!`] does once there is room.
#[inline(always)]
pub fn place<F>(room: Box<MaybeUninit<F>>, future: F) -> Pin<Box<F>> {
    Box::into_pin(Box::write(room, future))
}

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Monotonic time in microseconds since an arbitrary start.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Micros(pub u64);

impl Micros {
    /// Microseconds from `earlier` to `self`; 0 if `earlier` is later.
    #[must_use]
    pub fn since(self, earlier: Micros) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// Which threads of the real environment run a task. The simulator has one thread for all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// The threads that serve peers (LMS, LMD, interconnect readers): nothing else runs there.
    Serve,
    /// The log writer's own thread.
    Log,
    /// Everything else in the background (DBWR, CKPT, SMON, recovery …).
    Background,
    /// What helps sessions to compute. It may take its threads for as long as it likes.
    Parallel,
}

/// How a file is opened. `direct` asks for direct I/O (offsets, lengths and buffers are multiples
/// of 4096 then); `dsync` makes each write durable before it returns.
#[derive(Clone, Copy, Debug, Default)]
pub struct OpenOptions {
    /// Make the file (and missing folders above it); fails if it exists.
    pub create_new: bool,
    pub direct: bool,
    pub dsync: bool,
}

/// An open file. All calls are positional; `IoBuf`s are aligned and owned by the call while it
/// runs.
pub trait RawFile: Send + Sync {
    /// Reads exactly `buf.len()` bytes at `offset_bytes`; reading past the end is `UnexpectedEof`.
    fn read_at(&self, offset_bytes: u64, buf: IoBuf) -> BoxFuture<'_, (io::Result<()>, IoBuf)>;
    /// Writes the whole buffer at `offset_bytes`.
    fn write_at(&self, offset_bytes: u64, buf: IoBuf) -> BoxFuture<'_, (io::Result<()>, IoBuf)>;
    /// Makes all completed writes durable.
    fn sync(&self) -> BoxFuture<'_, io::Result<()>>;
    /// Length in bytes.
    fn size_bytes(&self) -> io::Result<u64>;
    /// Grows the file to `size_bytes`, with the space allocated. Never shrinks it.
    fn allocate(&self, size_bytes: u64) -> io::Result<()>;
}

/// Sending half of a connection: frames go out in order. No call waits; an error means that the
/// connection is broken for good.
pub trait FrameSender: Send + Sync {
    fn send(&self, frame: Vec<u8>) -> io::Result<()>;
    /// As `send`, but the frame may stay here until the next `send` or `flush`. For one who holds
    /// what the frame's receiver may soon want, or has more to say.
    ///
    /// # Errors
    /// As `send`.
    fn queue(&self, frame: Vec<u8>) -> io::Result<()> {
        self.send(frame)
    }
    /// Sends what is queued.
    fn flush(&self) {}
    /// Breaks the connection in both directions; frames not yet received are lost.
    fn close(&self);
}

/// Receiving half: `None` once the connection is broken.
pub trait FrameReceiver: Send {
    fn recv(&mut self) -> BoxFuture<'_, Option<Vec<u8>>>;
}

/// One duplex connection of frames (length-prefixed byte strings).
pub struct Connection {
    pub sender: Arc<dyn FrameSender>,
    pub receiver: Box<dyn FrameReceiver>,
    /// The other side has the same clock, and what it sends is here as soon as it is sent.
    pub same_machine: bool,
}

pub trait Listener: Send {
    /// The address bound, port filled in.
    fn local_addr(&self) -> String;
    fn accept(&mut self) -> BoxFuture<'_, io::Result<Connection>>;
}

/// An exclusive lock on bytes of a file, tied to the life of the process that holds it (open file
/// description lock). Dropping it releases it.
pub trait FileLock: Send + Sync {}

/// A figure of the machine, all its processes together.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct MachineFigure {
    /// The field's (`NUM_CPUS`, `IDLE_TIME`). Times are hundredths of a second.
    pub name: &'static str,
    pub value: f64,
    /// It grows from the machine's start on.
    pub is_sum: bool,
}

/// What an environment must provide. Code uses [`Env`].
pub trait EnvImpl: Send + Sync {
    fn now(&self) -> Micros;
    fn wall_us(&self) -> i64;
    fn random(&self) -> u64;
    /// Processors that one computation may have at once. The simulator has one.
    fn processors(&self) -> usize {
        1
    }
    /// Processor time that the calling thread has used, in microseconds since an arbitrary start.
    /// The simulator has none.
    fn thread_cpu_us(&self) -> u64 {
        0
    }
    /// Number of the calling thread, as the operating system shows it. The simulator has none.
    fn thread_number(&self) -> Option<u32> {
        None
    }
    /// As [`EnvImpl::thread_cpu_us`], of a thread of this process that runs.
    fn cpu_of_thread_us(&self, _number: u32) -> Option<u64> {
        None
    }
    /// Processor time of the whole process. The simulator has none.
    fn process_cpu_us(&self) -> u64 {
        0
    }
    /// What the machine is and does. The simulator has none.
    fn machine_figures(&self) -> Vec<MachineFigure> {
        Vec::new()
    }
    /// The network interface of this machine that has the address. The simulator has none.
    fn interface_of(&self, _ip: std::net::IpAddr) -> Option<String> {
        None
    }
    fn spawn(&self, name: &'static str, lane: Lane, task: BoxFuture<'static, ()>) -> TaskHandle;
    fn sleep(&self, duration: Duration) -> BoxFuture<'static, ()>;
    fn open(&self, path: &Path, options: OpenOptions) -> io::Result<Arc<dyn RawFile>>;
    fn exists(&self, path: &Path) -> bool;
    /// Names in a folder, sorted.
    fn list(&self, dir: &Path) -> io::Result<Vec<PathBuf>>;
    /// `Ok(None)`: somebody else holds it.
    fn try_lock(
        &self,
        path: &Path,
        offset_bytes: u64,
        len_bytes: u64,
    ) -> io::Result<Option<Box<dyn FileLock>>>;
    /// Whether somebody holds the lock; never takes it.
    fn is_locked(&self, path: &Path, offset_bytes: u64, len_bytes: u64) -> io::Result<bool>;
    fn listen(&self, addr: &str) -> BoxFuture<'_, io::Result<Box<dyn Listener>>>;
    fn connect(&self, addr: &str) -> BoxFuture<'_, io::Result<Connection>>;
    /// Ends another process of this host at once (eviction). In the simulator: the instance whose
    /// process id it is.
    fn kill_process(&self, pid: u32) -> io::Result<()>;
    /// Own process id (simulated: a number per instance incarnation).
    fn pid(&self) -> u32;
    /// When a process of this host started, in a unit of its own: with the process id it names a
    /// process for good, since ids are used again. `None`: there is no such process.
    fn process_start_time(&self, pid: u32) -> Option<u64>;
    /// The service that instances of several hosts agree by. Where there is one, [`EnvImpl::now`]
    /// must go on while the host is suspended: leases do (CLOCK_BOOTTIME).
    ///
    /// # Errors
    /// There is none.
    fn arbiter(&self) -> io::Result<Arc<dyn arbiter::Arbiter>> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Makes this process known to the storage by this key, so that it can be fenced.
    fn register(&self, _key: u64) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }
    /// Has the storage refuse whatever the process with this key reads and writes, with EBADE: once
    /// this has returned, nothing of it lands any more, also what it has begun to write.
    fn fence(&self, _key: u64) -> BoxFuture<'static, io::Result<()>> {
        Box::pin(std::future::ready(Err(io::ErrorKind::Unsupported.into())))
    }
    /// Memory that the other instances of this machine may look at, and what tells them where.
    fn share_memory(&self, _: SharedLayout) -> io::Result<(Arc<SharedMemory>, String)> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// The memory of another instance of this machine.
    fn look_at(&self, _descriptor: &str) -> io::Result<SharedView> {
        Err(io::ErrorKind::Unsupported.into())
    }
    /// Whether a task here may do a write that others wait for itself: its thread may stand still.
    fn may_write_here(&self) -> bool {
        false
    }
    /// For [`Env::eager`]: whether to look again at once instead of sleeping.
    fn linger(&self, _: &mut Lingering) -> bool {
        false
    }
    /// For [`Env::eager`]: what was waited for has come, or is not waited for any more.
    fn linger_done(&self, _: &mut Lingering, _came: bool) {}
    /// Stops this instance now, without writing anything more: an invariant is broken. In the real
    /// environment the process ends with exit code 70; in the simulator the instance is crashed.
    fn abort_instance(&self, reason: &str) -> !;
    /// A thread panics in the middle of what a [`Critical`] guards. The simulator reports the panic
    /// itself.
    fn panicked_in(&self, _what: &str) {}
}

/// Ends the instance if its thread panics while this lives: what is half done then must never be
/// seen, by whoever comes next or by the disk.
pub struct Critical<'a> {
    env: &'a Env,
    what: &'static str,
}

impl Drop for Critical<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.env.0.panicked_in(self.what);
        }
    }
}

/// Handle to a spawned task; dropping it lets the task go on.
pub struct TaskHandle {
    abort: Box<dyn Fn() + Send + Sync>,
}

impl TaskHandle {
    #[must_use]
    pub fn new(abort: Box<dyn Fn() + Send + Sync>) -> TaskHandle {
        TaskHandle { abort }
    }

    /// Drops the task's future at its next await (at once if it is waiting).
    pub fn abort(&self) {
        (self.abort)();
    }
}

/// How far a thread that waits without sleeping has come; see [`Env::eager`].
#[derive(Clone, Copy, Default, Debug)]
pub enum Lingering {
    #[default]
    Fresh,
    /// Times are the environment's own.
    Since { began_us: u64, gave_way_us: u64 },
    /// It sleeps now, or has what it wanted.
    Over,
}

/// The time limit of [`Env::timeout`] passed.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub struct Elapsed;

/// A handle to the environment; cheap to clone.
#[derive(Clone)]
pub struct Env(Arc<dyn EnvImpl>);

impl std::ops::Deref for Env {
    type Target = dyn EnvImpl;
    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl Env {
    #[must_use]
    pub fn new(inner: Arc<dyn EnvImpl>) -> Env {
        Env(inner)
    }

    /// Starts a task. `Send` is demanded in the simulator too, so that no latch guard survives an
    /// await.
    pub fn spawn_task<F>(&self, name: &'static str, lane: Lane, task: F) -> TaskHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        self.0.spawn(name, lane, Box::pin(task))
    }

    /// `part(0)`, `part(1)` and so on below `parts`, in this order, computed by as many threads as
    /// there are processors. The caller's thread waits: for what everybody waits for.
    pub fn in_parallel<T: Send>(&self, parts: usize, part: impl Fn(usize) -> T + Sync) -> Vec<T> {
        let next = AtomicUsize::new(0);
        let work = || {
            let all = std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)));
            all.take_while(|at| *at < parts).map(|at| (at, part(at))).collect::<Vec<_>>()
        };
        let threads = self.0.processors().min(parts);
        let mut done = std::thread::scope(|scope| {
            // Who cannot have a thread does the work alone.
            let helpers: Vec<_> = (1..threads)
                .filter_map(|_| std::thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let mut done = work();
            for helper in helpers {
                done.extend(helper.join().unwrap_or_else(|panic| resume_unwind(panic)));
            }
            done
        });
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Guards what a panic must not leave half done.
    #[must_use]
    pub fn critical(&self, what: &'static str) -> Critical<'_> {
        Critical { env: self, what }
    }

    /// # Errors
    /// [`Elapsed`] when `limit` passes first; the future is dropped then.
    pub async fn timeout<F: Future>(
        &self,
        limit: Duration,
        future: F,
    ) -> Result<F::Output, Elapsed> {
        let sleep = self.0.sleep(limit);
        let future = std::pin::pin!(future);
        match futures::future::select(future, sleep).await {
            futures::future::Either::Left((out, _)) => Ok(out),
            futures::future::Either::Right(((), _)) => Err(Elapsed),
        }
    }

    /// Waits for what is expected within microseconds: a session's thread looks for it a little
    /// while before it sleeps, where that is sooner than being woken. Wraps the wait and its event,
    /// so that the time is counted.
    pub async fn eager<F: Future>(&self, future: F) -> F::Output {
        // Else the runtime would have what has come look as if it had not, after so many looks.
        let mut future = std::pin::pin!(tokio::task::coop::unconstrained(future));
        let mut stay = Stay { env: self, lingering: Lingering::default() };
        std::future::poll_fn(|cx| {
            loop {
                let polled = future.as_mut().poll(cx);
                if polled.is_ready() {
                    self.0.linger_done(&mut stay.lingering, true);
                    return polled;
                }
                if !self.0.linger(&mut stay.lingering) {
                    return polled;
                }
            }
        })
        .await
    }
}

/// Ends a stay whose future panics.
struct Stay<'a> {
    env: &'a Env,
    lingering: Lingering,
}

impl Drop for Stay<'_> {
    fn drop(&mut self) {
        self.env.0.linger_done(&mut self.lingering, false);
    }
}
