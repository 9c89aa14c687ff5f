//! The connections there are: their number, who may cancel them, how to end them all.
//!
//! What it promises: a cancel request needs the session's secret, reaches only a session that is
//! busy, and says nothing to who sent it; a session is listed from log-on until its thread is done.

use crate::engine::Interrupt;
use crate::report::Report;
use crate::stream::Stream;
use parking_lot::{Condvar, Mutex};
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// One session that has logged on.
pub struct Entry {
    secret: i32,
    stream: Arc<Stream>,
    interrupt: Arc<dyn Interrupt>,
    busy: AtomicBool,
}

impl Entry {
    /// Whether the session works on a request (and does not wait for the next).
    pub fn set_busy(&self, busy: bool) {
        self.busy.store(busy, Ordering::Release);
    }

    /// Whether the session is to end.
    pub fn is_terminated(&self) -> bool {
        self.interrupt.is_terminated()
    }
}

/// All connections of one instance.
#[derive(Default)]
pub struct Registry {
    sessions: Mutex<BTreeMap<i32, Arc<Entry>>>,
    /// Threads that serve a connection, before and after log-on.
    threads: Mutex<BTreeMap<u64, Arc<Stream>>>,
    threads_done: Condvar,
    /// Connections that count against `max_connections`.
    connections: AtomicUsize,
    stopping: AtomicBool,
}

/// A connection's place among `max_connections`; dropping it frees the place.
pub struct Slot(Arc<Registry>, usize);

impl Slot {
    /// How many places were taken with it.
    pub fn number(&self) -> usize {
        self.1
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The places that sessions of clients share, however they come in.
#[derive(Clone)]
pub struct Places {
    registry: Arc<Registry>,
    max: usize,
    /// How many of them are for superusers.
    reserved: usize,
}

impl Places {
    pub fn new(registry: Arc<Registry>, max: usize, reserved: usize) -> Places {
        Places { registry, max, reserved }
    }

    /// Takes a place.
    ///
    /// # Errors
    /// 53300: all are taken.
    pub fn take(&self) -> Result<Slot, Report> {
        self.registry.take_slot(self.max).ok_or_else(too_many)
    }

    /// Whether who has proved who it is may keep its place.
    ///
    /// # Errors
    /// 53300: those that are left are for superusers.
    pub fn keep(&self, slot: &Slot, superuser: bool) -> Result<(), Report> {
        if superuser || slot.number() <= self.max.saturating_sub(self.reserved) {
            return Ok(());
        }
        let text =
            "remaining connection slots are reserved for non-replication superuser connections";
        Err(Report::fatal("53300", text))
    }

    /// How many there are.
    pub fn max(&self) -> usize {
        self.max
    }
}

/// What a client is told for whom there is no place.
pub fn too_many() -> Report {
    Report::fatal("53300", "sorry, too many clients already")
        .with_hint("Raise max_connections, or close connections.")
}

/// A connection's thread as the registry knows it; dropping it says that the thread is done.
pub struct ThreadGuard(Arc<Registry>, u64);

impl Drop for ThreadGuard {
    fn drop(&mut self) {
        self.0.threads.lock().remove(&self.1);
        self.0.threads_done.notify_all();
    }
}

impl Registry {
    /// Takes a place if fewer than `max` are taken.
    fn take_slot(self: &Arc<Registry>, max: usize) -> Option<Slot> {
        self.connections
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| (n < max).then_some(n + 1))
            .ok()
            .map(|before| Slot(Arc::clone(self), before + 1))
    }

    /// Lists the thread number `id` that serves `stream`.
    pub fn add_thread(self: &Arc<Registry>, id: u64, stream: Arc<Stream>) -> ThreadGuard {
        self.threads.lock().insert(id, stream);
        ThreadGuard(Arc::clone(self), id)
    }

    /// Number of threads that serve connections.
    pub fn thread_count(&self) -> usize {
        self.threads.lock().len()
    }

    /// Lists a session.
    pub fn add_session(
        &self,
        pid: i32,
        secret: i32,
        stream: Arc<Stream>,
        interrupt: Arc<dyn Interrupt>,
    ) -> Arc<Entry> {
        let waited_for = Arc::clone(&stream);
        interrupt.on_terminate(Box::new(move || waited_for.shutdown(Shutdown::Read)));
        let entry = Arc::new(Entry { secret, stream, interrupt, busy: AtomicBool::new(false) });
        self.sessions.lock().insert(pid, Arc::clone(&entry));
        entry
    }

    /// Strikes a session off.
    pub fn remove_session(&self, pid: i32) {
        self.sessions.lock().remove(&pid);
    }

    /// Cancels what session `pid` does, if `secret` is its secret; whether it is one of this
    /// instance.
    pub fn cancel(&self, pid: i32, secret: i32) -> bool {
        let sessions = self.sessions.lock();
        let Some(entry) = sessions.get(&pid) else { return false };
        if entry.secret == secret && entry.busy.load(Ordering::Acquire) {
            entry.interrupt.cancel();
        }
        true
    }

    /// Terminates busy sessions whose client has gone away: nobody waits for what they do.
    pub fn terminate_abandoned(&self) {
        for entry in self.sessions.lock().values() {
            if entry.busy.load(Ordering::Acquire) && entry.stream.is_gone() {
                entry.interrupt.terminate();
            }
        }
    }

    /// Whether the server is being shut down.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Ends all sessions: the busy ones at their next wait, the idle ones at once; each tells its
    /// client 57P01. Sockets still in use after `limit` are cut. True when all threads are done.
    pub fn shut_down(&self, limit: Duration) -> bool {
        self.stopping.store(true, Ordering::Release);
        for entry in self.sessions.lock().values() {
            entry.interrupt.terminate();
        }
        for stream in self.threads.lock().values() {
            stream.shutdown(Shutdown::Read);
        }
        if self.wait_for_threads(limit) {
            return true;
        }
        for stream in self.threads.lock().values() {
            stream.shutdown(Shutdown::Both);
        }
        self.wait_for_threads(limit)
    }

    fn wait_for_threads(&self, limit: Duration) -> bool {
        let deadline = Instant::now() + limit;
        let mut threads = self.threads.lock();
        while !threads.is_empty() {
            if self.threads_done.wait_until(&mut threads, deadline).timed_out() {
                return threads.is_empty();
            }
        }
        true
    }
}
