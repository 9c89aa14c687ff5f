//! What a running instance says of itself to this command line: a lock, and a small file.
//!
//! What it promises: an instance is taken for running exactly as long as its process lives, since
//! the
//! lock goes with the process; a process id is used only while that lock is held, and only if the
//! process is the one that wrote it, so a reused id never gets a signal.

use crate::error::{CliError, Doing, Result};
use crate::layout::Layout;
use env::{Env, FileLock};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::Write;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// How far an instance has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "UPPERCASE")]
pub enum State {
    Down,
    Starting,
    Recovering,
    Open,
    Stopping,
}

impl State {
    pub fn word(self) -> &'static str {
        match self {
            State::Down => "DOWN",
            State::Starting => "STARTING",
            State::Recovering => "RECOVERING",
            State::Open => "OPEN",
            State::Stopping => "STOPPING",
        }
    }
}

/// The file's content.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Runtime {
    pub state: State,
    pub pid: i32,
    /// Start time of the process in clock ticks since boot: with the pid it names one process.
    pub process_started: u64,
    pub listen: String,
    pub interconnect: String,
    /// Where the web console is; empty: there is none.
    #[serde(default)]
    pub console: String,
    /// Wall clock, seconds since 1970.
    pub started_s: u64,
}

/// Where an open instance is reached, ports filled in.
#[derive(Clone, Default)]
pub struct Addresses {
    pub listen: String,
    pub interconnect: String,
    pub console: Option<String>,
}

/// Held by a running instance.
pub struct RuntimeGuard {
    layout: Layout,
    k: u16,
    _lock: Box<dyn FileLock>,
    current: parking_lot::Mutex<Runtime>,
}

impl RuntimeGuard {
    /// Takes instance `k` for this process.
    pub fn take(layout: &Layout, k: u16, listen: &str, interconnect: &str) -> Result<RuntimeGuard> {
        std::fs::create_dir_all(layout.run())
            .doing(format_args!("make {}", layout.run().display()))?;
        let lock = match try_lock(layout, k)? {
            Some(lock) => lock,
            None => {
                let pid = read(layout, k).map_or(String::new(), |r| format!(" (pid {})", r.pid));
                return Err(CliError::state(format!("instance {k} is already running{pid}")));
            }
        };
        let pid = std::process::id().cast_signed();
        let runtime = Runtime {
            state: State::Starting,
            pid,
            process_started: process_started(pid).unwrap_or(0),
            listen: listen.to_owned(),
            interconnect: interconnect.to_owned(),
            console: String::new(),
            started_s: std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |d| d.as_secs()),
        };
        let guard = RuntimeGuard {
            layout: layout.clone(),
            k,
            _lock: lock,
            current: parking_lot::Mutex::new(runtime),
        };
        guard.write()?;
        Ok(guard)
    }

    /// Says how far the instance has come.
    pub fn set_state(&self, state: State) -> Result<()> {
        self.current.lock().state = state;
        self.write()
    }

    /// Says that the instance is open, and where.
    pub fn set_open(&self, at: Addresses) -> Result<()> {
        {
            let mut current = self.current.lock();
            current.listen = at.listen;
            current.interconnect = at.interconnect;
            current.console = at.console.unwrap_or_default();
            current.state = State::Open;
        }
        self.write()
    }

    /// A reader sees the old file or the new one, never half of one.
    fn write(&self) -> Result<()> {
        let path = self.layout.runtime(self.k);
        let scratch = path.with_extension("json.new");
        let text = serde_json::to_vec_pretty(&*self.current.lock())
            .map_err(|e| CliError::failed(e.to_string()))?;
        let written = File::create(&scratch)
            .and_then(|mut f| f.write_all(&text))
            .and_then(|()| std::fs::rename(&scratch, &path));
        written.doing(format_args!("write {}", path.display()))
    }
}

impl Drop for RuntimeGuard {
    fn drop(&mut self) {
        // Without the lock the file says nothing; it goes for tidiness.
        let _ = std::fs::remove_file(self.layout.runtime(self.k));
    }
}

/// The environment that locks come from; one for the process.
fn locks() -> &'static Env {
    static ENV: OnceLock<Env> = OnceLock::new();
    ENV.get_or_init(env::real::RealEnv::new)
}

fn try_lock(layout: &Layout, k: u16) -> Result<Option<Box<dyn FileLock>>> {
    let path = layout.lock(k);
    let made = File::options().create(true).truncate(false).write(true).open(&path);
    made.and_then(|_| locks().try_lock(&path, 0, 1)).doing(format_args!("lock {}", path.display()))
}

/// Asks without taking the lock: a question must not make a start fail.
fn is_locked(layout: &Layout, k: u16) -> Result<bool> {
    let path = layout.lock(k);
    if !path.exists() {
        return Ok(false);
    }
    locks().is_locked(&path, 0, 1).doing(format_args!("test the lock {}", path.display()))
}

fn read(layout: &Layout, k: u16) -> Option<Runtime> {
    serde_json::from_slice(&std::fs::read(layout.runtime(k)).ok()?).ok()
}

/// What instance `k` says of itself; `None`: it is not running.
pub fn probe(layout: &Layout, k: u16) -> Result<Option<Runtime>> {
    if !is_locked(layout, k)? {
        return Ok(None);
    }
    // It may hold the lock and not have written yet.
    let starting = || Runtime {
        state: State::Starting,
        pid: 0,
        process_started: 0,
        listen: String::new(),
        interconnect: String::new(),
        console: String::new(),
        started_s: 0,
    };
    let runtime = read(layout, k).filter(is_that_process);
    Ok(Some(runtime.unwrap_or_else(starting)))
}

fn is_that_process(runtime: &Runtime) -> bool {
    process_started(runtime.pid) == Some(runtime.process_started)
}

/// Field 22 of `/proc/PID/stat`; the second field is a name that may hold anything, in parentheses.
/// `None`: it has ended, even if nobody has taken note of that yet.
fn process_started(pid: i32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let after_name = stat[stat.rfind(')')? + 1..].trim_start();
    if after_name.starts_with(['Z', 'X']) {
        return None;
    }
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Waits until instance `k` is no longer running; false when `limit` passes first.
pub fn wait_until_down(layout: &Layout, k: u16, limit: Duration) -> Result<bool> {
    let deadline = Instant::now() + limit;
    while probe(layout, k)?.is_some() {
        if Instant::now() >= deadline {
            return Ok(false);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> Layout {
        let dir = std::env::temp_dir().join(format!("skein-runtime-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Layout::new(&dir)
    }

    #[test]
    fn an_instance_is_running_while_its_guard_lives() {
        let layout = scratch("guard");
        assert!(probe(&layout, 1).unwrap().is_none());
        let guard = RuntimeGuard::take(&layout, 1, "127.0.0.1:0", "").unwrap();
        let seen = probe(&layout, 1).unwrap().unwrap();
        assert_eq!((seen.state, seen.pid), (State::Starting, std::process::id().cast_signed()));
        let e = RuntimeGuard::take(&layout, 1, "", "").err().unwrap();
        assert_eq!(e.exit, crate::error::Exit::State);
        assert!(e.message.contains("already running"), "{e}");
        let listen = "127.0.0.1:1234".to_owned();
        guard.set_open(Addresses { listen, ..Addresses::default() }).unwrap();
        assert_eq!(probe(&layout, 1).unwrap().unwrap().listen, "127.0.0.1:1234");
        drop(guard);
        assert!(probe(&layout, 1).unwrap().is_none());
    }

    #[test]
    fn a_process_that_nobody_has_waited_for_is_dead() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id().cast_signed();
        let deadline = Instant::now() + Duration::from_secs(60);
        while process_started(pid).is_some() {
            assert!(Instant::now() < deadline, "it still counts as alive");
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(std::path::Path::new(&format!("/proc/{pid}/stat")).exists());
        child.wait().unwrap();
    }

    #[test]
    fn a_file_left_by_a_dead_process_is_not_believed() {
        let layout = scratch("stale");
        let guard = RuntimeGuard::take(&layout, 2, "", "").unwrap();
        {
            let mut current = guard.current.lock();
            current.pid = 1;
            current.process_started += 1;
        }
        guard.write().unwrap();
        assert_eq!(probe(&layout, 2).unwrap().unwrap().pid, 0, "no process to signal");
    }
}
