//! The state of the simulated world, the run queue and the scheduler's single step.
//!
//! One lock guards all state. It is never held while a task is polled or a task's future is
//! dropped:
//! both call back into the world. The run queue has a lock of its own, taken inside the other,
//! because
//! wakers fire from within the world (a delivery wakes its reader).

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use parking_lot::{Mutex, MutexGuard};

use super::arbiter::ArbiterState;
use super::disk::DiskState;
use super::net::NetState;
use super::rng::{Rng, hash_bytes, mix};
use super::{SimAbort, SimConfig};
use crate::BoxFuture;

pub(super) type TaskId = u64;
/// The future of `SimWorld::block_on`: not in the task table, belongs to no process.
const MAIN: TaskId = 0;

pub(super) struct RunQueue {
    ready: Mutex<Vec<TaskId>>,
}

/// Wakes one task: puts it into the run queue, once.
struct TaskWaker {
    id: TaskId,
    queued: AtomicBool,
    queue: Arc<RunQueue>,
}

impl Wake for TaskWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if !self.queued.swap(true, Ordering::Relaxed) {
            self.queue.ready.lock().push(self.id);
        }
    }
}

pub(super) enum Event {
    Wake(Waker),
    /// Runs under the world's lock; must not drop a task's future.
    Run(Box<dyn FnOnce(&mut World) + Send>),
}

pub(super) struct Task {
    pid: u32,
    name: &'static str,
    /// `None` while it is being polled.
    future: Option<BoxFuture<'static, ()>>,
    waker: Arc<TaskWaker>,
    /// Aborted or its process crashed while it was being polled.
    doomed: bool,
}

pub(super) struct Process {
    pub(super) instance: u8,
    pub(super) alive: bool,
    pub(super) started_us: u64,
    paused: bool,
    /// Names of tasks that may not run.
    held: Vec<&'static str>,
    /// Tasks that became ready while they might not run.
    parked: Vec<TaskId>,
    /// It crashes after so many more polls of its tasks.
    fuse: Option<u64>,
    /// It crashes with so many more writes on their way.
    write_fuse: Option<u64>,
    /// What its wall clock is wrong by.
    pub(super) wall_off_us: i64,
}

pub(super) struct World {
    pub(super) now: u64,
    pub(super) rng: Rng,
    pub(super) config: SimConfig,
    trace: u64,
    pub(super) trace_log: Vec<String>,
    event_seq: u64,
    events: BTreeMap<(u64, u64), Event>,
    tasks: BTreeMap<TaskId, Task>,
    next_task: TaskId,
    /// By process id; the dead stay, so that an id is never given twice.
    pub(super) processes: BTreeMap<u32, Process>,
    pub(super) kills_refused: bool,
    pub(super) disk: DiskState,
    pub(super) net: NetState,
    pub(super) arbiter: ArbiterState,
    /// Processes cannot look into each other's memory.
    pub(super) hosts_apart: bool,
    /// What processes have shared, by descriptor; gone when its owner has dropped it.
    pub(super) memories: Vec<std::sync::Weak<crate::SharedMemory>>,
}

/// What a scheduler step did.
#[derive(PartialEq, Eq)]
pub(super) enum Step {
    Ran,
    /// The main future is ready.
    Done,
    /// Nothing can happen before the limit.
    Idle,
}

pub(super) struct Shared {
    world: Mutex<World>,
    queue: Arc<RunQueue>,
    /// While something is polled: the tasks of what has crashed meanwhile.
    remains: Mutex<Option<Vec<BoxFuture<'static, ()>>>>,
}

/// A poll is over, in whatever way.
struct PollOver<'a>(&'a Shared);

impl Drop for PollOver<'_> {
    fn drop(&mut self) {
        let remains = self.0.remains.lock().take();
        drop(remains);
    }
}

/// The main future's side of the scheduler.
pub(super) struct Main<'a> {
    pub(super) poll: &'a mut dyn FnMut(&mut Context<'_>) -> Poll<()>,
    waker: Arc<TaskWaker>,
}

impl World {
    /// A process has begun a write: it crashes with the poll that did so, if it was to.
    pub(super) fn count_write(&mut self, pid: u32) {
        let Some(process) = self.processes.get_mut(&pid) else { return };
        let Some(left) = &mut process.write_fuse else { return };
        *left = left.saturating_sub(1);
        if *left == 0 {
            process.write_fuse = None;
            process.fuse = Some(1);
        }
    }

    pub(super) fn at(&mut self, time_us: u64, event: Event) -> (u64, u64) {
        self.event_seq += 1;
        let key = (time_us, self.event_seq);
        self.events.insert(key, event);
        key
    }

    pub(super) fn after<F>(&mut self, delay_us: u64, run: F)
    where
        F: FnOnce(&mut World) + Send + 'static,
    {
        self.at(self.now + delay_us, Event::Run(Box::new(run)));
    }

    /// Replaces the waker of a pending timer, or makes a new one if it has fired.
    pub(super) fn timer(
        &mut self,
        key: Option<(u64, u64)>,
        due_us: u64,
        waker: Waker,
    ) -> (u64, u64) {
        if let Some(key) = key
            && let Some(event) = self.events.get_mut(&key)
        {
            *event = Event::Wake(waker);
            return key;
        }
        self.at(due_us, Event::Wake(waker))
    }

    pub(super) fn cancel(&mut self, key: (u64, u64)) {
        self.events.remove(&key);
    }

    /// Folds something that happened into the trace.
    pub(super) fn note(&mut self, what: &str, a: u64, b: u64) {
        let word = hash_bytes(what.as_bytes()) ^ mix(a ^ mix(b ^ mix(self.now)));
        self.trace = mix(self.trace.rotate_left(7) ^ word);
        if self.config.log_trace {
            self.trace_log.push(format!("{} {what} {a:x} {b:x}", self.now));
        }
    }

    pub(super) fn trace(&self) -> u64 {
        self.trace
    }

    pub(super) fn is_alive(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|p| p.alive)
    }

    pub(super) fn instance_of(&self, pid: u32) -> u8 {
        self.processes.get(&pid).map_or(0, |p| p.instance)
    }

    /// The living process of an instance.
    pub(super) fn pid_of(&self, instance: u8) -> Option<u32> {
        self.processes.iter().find(|(_, p)| p.instance == instance && p.alive).map(|(pid, _)| *pid)
    }

    pub(super) fn start_process(&mut self, instance: u8) -> u32 {
        assert!(self.pid_of(instance).is_none(), "instance {instance} is running");
        let earlier = self.processes.values().filter(|p| p.instance == instance).count();
        let pid = u32::from(instance) * 1000 + u32::try_from(earlier).expect("few restarts");
        let process = Process {
            instance,
            alive: true,
            started_us: self.now,
            paused: false,
            held: Vec::new(),
            parked: Vec::new(),
            fuse: None,
            write_fuse: None,
            wall_off_us: 0,
        };
        self.processes.insert(pid, process);
        self.note("start", u64::from(pid), 0);
        pid
    }

    /// The process is gone. Returns its futures, to be dropped without the lock.
    #[must_use]
    fn kill(&mut self, pid: u32) -> Vec<BoxFuture<'static, ()>> {
        match self.processes.get_mut(&pid) {
            Some(process) if process.alive => process.alive = false,
            _ => return Vec::new(),
        }
        self.note("crash", u64::from(pid), 0);
        let mut futures = Vec::new();
        self.tasks.retain(|_, task| {
            if task.pid != pid {
                return true;
            }
            match task.future.take() {
                Some(future) => futures.push(future),
                None => task.doomed = true,
            }
            task.doomed
        });
        super::disk::crash(self, pid);
        super::net::crash(self, pid);
        futures
    }

    fn fire_due(&mut self) {
        while let Some(entry) = self.events.first_entry() {
            if entry.key().0 > self.now {
                break;
            }
            match entry.remove() {
                Event::Wake(waker) => waker.wake(),
                Event::Run(run) => run(self),
            }
        }
    }

    /// The next task to run; moves the clock on if none is ready. `None`: nothing before the limit.
    fn pick(&mut self, queue: &RunQueue, limit_us: u64) -> Option<TaskId> {
        loop {
            self.fire_due();
            if self.now > limit_us {
                return None;
            }
            let picked = {
                let mut ready = queue.ready.lock();
                let i = match ready.len() {
                    0 => None,
                    1 => Some(0),
                    n => Some(self.rng.below(n as u64) as usize),
                };
                i.map(|i| ready.swap_remove(i))
            };
            match picked {
                Some(MAIN) => return Some(MAIN),
                Some(id) => {
                    let Some(task) = self.tasks.get(&id) else { continue };
                    let process = self.processes.get_mut(&task.pid).expect("task of a process");
                    if process.paused || process.held.contains(&task.name) {
                        process.parked.push(id);
                        continue;
                    }
                    return Some(id);
                }
                None => match self.events.first_key_value() {
                    Some(((time, _), _)) if *time <= limit_us => self.now = self.now.max(*time),
                    _ => return None,
                },
            }
        }
    }
}

impl Shared {
    pub(super) fn new(seed: u64, config: SimConfig) -> Arc<Shared> {
        Arc::new(Shared {
            world: Mutex::new(World {
                now: 0,
                rng: Rng::new(mix(seed)),
                config,
                trace: mix(seed),
                trace_log: Vec::new(),
                event_seq: 0,
                events: BTreeMap::new(),
                tasks: BTreeMap::new(),
                next_task: MAIN + 1,
                processes: BTreeMap::new(),
                kills_refused: false,
                disk: DiskState::default(),
                net: NetState::default(),
                arbiter: ArbiterState::default(),
                hosts_apart: false,
                memories: Vec::new(),
            }),
            queue: Arc::new(RunQueue { ready: Mutex::new(Vec::new()) }),
            remains: Mutex::new(None),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, World> {
        self.world.lock()
    }

    pub(super) fn spawn(
        &self,
        pid: u32,
        name: &'static str,
        future: BoxFuture<'static, ()>,
    ) -> TaskId {
        let mut world = self.lock();
        let id = world.next_task;
        world.next_task += 1;
        if !world.is_alive(pid) {
            // A destructor of a crashed instance: its task never runs.
            drop(world);
            drop(future);
            return id;
        }
        let waker =
            Arc::new(TaskWaker { id, queued: AtomicBool::new(false), queue: self.queue.clone() });
        waker.wake_by_ref();
        let task = Task { pid, name, future: Some(future), waker, doomed: false };
        world.tasks.insert(id, task);
        id
    }

    pub(super) fn abort_task(&self, id: TaskId) {
        let mut world = self.lock();
        let Some(task) = world.tasks.get_mut(&id) else { return };
        let future = task.future.take();
        if future.is_some() {
            world.tasks.remove(&id);
        } else {
            task.doomed = true;
        }
        drop(world);
        drop(future);
    }

    pub(super) fn crash(&self, pid: u32) {
        let futures = self.lock().kill(pid);
        let mut remains = self.remains.lock();
        match &mut *remains {
            Some(remains) => remains.extend(futures),
            None => {
                drop(remains);
                drop(futures);
            }
        }
    }

    /// Polls something. What crashes meanwhile is dropped when it is over: it may hold latches that
    /// others of its process take when they are dropped.
    fn polled<T>(&self, poll: impl FnOnce() -> T) -> T {
        *self.remains.lock() = Some(Vec::new());
        let _over = PollOver(self);
        poll()
    }

    pub(super) fn set_fuse(&self, pid: u32, polls: u64) {
        self.lock().processes.get_mut(&pid).expect("a known process").fuse = Some(polls);
    }

    pub(super) fn set_write_fuse(&self, pid: u32, writes: Option<u64>) {
        self.lock().processes.get_mut(&pid).expect("a known process").write_fuse = writes;
    }

    pub(super) fn set_paused(&self, pid: u32, paused: bool) {
        let mut world = self.lock();
        world.note(if paused { "pause" } else { "resume" }, u64::from(pid), 0);
        let process = world.processes.get_mut(&pid).expect("a known process");
        process.paused = paused;
        if !paused {
            let parked = std::mem::take(&mut process.parked);
            self.queue.ready.lock().extend(parked);
        }
    }

    pub(super) fn hold_tasks(&self, pid: u32, name: &'static str) {
        let mut world = self.lock();
        world.note(name, u64::from(pid), 1);
        world.processes.get_mut(&pid).expect("a known process").held.push(name);
    }

    pub(super) fn release_tasks(&self, pid: u32) {
        let mut world = self.lock();
        world.note("release", u64::from(pid), 0);
        let process = world.processes.get_mut(&pid).expect("a known process");
        process.held.clear();
        // Those of a paused process are parked again.
        let parked = std::mem::take(&mut process.parked);
        self.queue.ready.lock().extend(parked);
    }

    /// Names of the tasks that wait, for the report of a stuck world.
    pub(super) fn task_names(&self) -> Vec<String> {
        self.lock().tasks.values().map(|t| format!("{}:{}", t.pid, t.name)).collect()
    }

    /// Drops everything that could refer back to this world.
    pub(super) fn clear(&self) {
        let (tasks, events) = {
            let mut world = self.lock();
            world.processes.values_mut().for_each(|p| p.alive = false);
            (std::mem::take(&mut world.tasks), std::mem::take(&mut world.events))
        };
        drop(tasks);
        drop(events);
    }

    pub(super) fn main<'a>(
        &self,
        poll: &'a mut dyn FnMut(&mut Context<'_>) -> Poll<()>,
    ) -> Main<'a> {
        let waker = Arc::new(TaskWaker {
            id: MAIN,
            queued: AtomicBool::new(false),
            queue: self.queue.clone(),
        });
        waker.wake_by_ref();
        Main { poll, waker }
    }

    /// One scheduler step: polls one task.
    pub(super) fn step(&self, main: Option<&mut Main<'_>>, limit_us: u64) -> Step {
        let mut world = self.lock();
        let Some(id) = world.pick(&self.queue, limit_us) else {
            if limit_us != u64::MAX {
                world.now = world.now.max(limit_us);
            }
            return Step::Idle;
        };
        // Work takes time, so that no loop can hold the clock for ever.
        let cost = world.config.poll_us;
        world.now += world.rng.between(cost);
        if id == MAIN {
            world.note("main", 0, 0);
            drop(world);
            let Some(main) = main else { return Step::Ran };
            main.waker.queued.store(false, Ordering::Relaxed);
            let waker = Waker::from(main.waker.clone());
            return match self.polled(|| (main.poll)(&mut Context::from_waker(&waker))) {
                Poll::Ready(()) => Step::Done,
                Poll::Pending => Step::Ran,
            };
        }
        let task = world.tasks.get_mut(&id).expect("picked tasks exist");
        let (name, waker, pid) = (task.name, task.waker.clone(), task.pid);
        let mut future = task.future.take().expect("a task is polled by one scheduler only");
        world.note(name, id, 0);
        drop(world);
        waker.queued.store(false, Ordering::Relaxed);
        let result = self.polled(|| poll_task(future.as_mut(), &Waker::from(waker)));
        let mut world = self.lock();
        let fuse = world.processes.get_mut(&pid).and_then(|p| p.fuse.as_mut());
        let burnt = fuse.is_some_and(|left| {
            *left = left.saturating_sub(1);
            *left == 0
        });
        #[cfg(feature = "marks")]
        let burnt = burnt || crate::marks::ends_here();
        if burnt {
            drop(world);
            self.crash(pid);
            world = self.lock();
        }
        let task = world.tasks.get_mut(&id);
        match (result, task) {
            (Ok(Poll::Pending), Some(task)) if !task.doomed => task.future = Some(future),
            (result, _) => {
                world.tasks.remove(&id);
                drop(world);
                drop(future);
                if let Err(payload) = result
                    && !payload.is::<SimAbort>()
                {
                    resume_unwind(payload);
                }
            }
        }
        Step::Ran
    }
}

fn poll_task(
    future: Pin<&mut (dyn Future<Output = ()> + Send)>,
    waker: &Waker,
) -> Result<Poll<()>, Box<dyn Any + Send>> {
    catch_unwind(AssertUnwindSafe(|| future.poll(&mut Context::from_waker(waker))))
}
