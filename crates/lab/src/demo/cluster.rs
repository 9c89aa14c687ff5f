//! The cluster of the demonstration: runs the `skein` binary, or knows servers that run already.
//!
//! What it promises: whatever it started is ended by [`Cluster::end`], with files removed. What it
//! must never do: end a process whose id it did not get from this database's own status.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde_json::Value;

/// How long a restarted instance may take to open.
const OPEN_LIMIT: Duration = Duration::from_mins(2);
const USER: &str = "skein";

/// How long [`Cluster::end`] looks for instances that are just starting.
const END_LIMIT: Duration = Duration::from_secs(10);

/// The database's folder, binary and password. Clones share the processes.
#[derive(Clone)]
pub struct Cluster {
    skein: PathBuf,
    work_dir: PathBuf,
    password: String,
    processes: Arc<Mutex<Processes>>,
}

/// What was started and is to be ended.
#[derive(Default)]
struct Processes {
    /// Instances started in the foreground, to be waited for.
    children: Vec<Child>,
    /// `skein` commands that run just now.
    commands: Vec<u32>,
    /// The end has begun: what would start now would be left.
    ending: bool,
}

impl Processes {
    /// Starts one, unless the end has begun.
    fn spawn(&self, command: &mut Command) -> Result<Child, String> {
        if self.ending {
            return Err("the cluster is being ended".to_owned());
        }
        let child = command.spawn();
        child.map_err(|e| format!("run {}: {e}", command.get_program().display()))
    }
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One line of `skein status --json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Status {
    pub instance: usize,
    pub state: String,
    pub listen: String,
    pub pid: Option<u32>,
}

impl Cluster {
    /// For a database to be made in `work_dir`.
    ///
    /// # Errors
    /// The `skein` binary is not there.
    pub fn new(work_dir: &Path) -> Result<Cluster, String> {
        let beside = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.join("skein")));
        let named = std::env::var_os("SKEIN_BIN").map(PathBuf::from);
        let skein = named.or(beside).filter(|p| p.is_file());
        let skein = skein.ok_or("there is no skein beside this program; name it in SKEIN_BIN")?;
        let password = random_password()?;
        let work_dir = work_dir.to_path_buf();
        Ok(Cluster { skein, work_dir, password, processes: Arc::default() })
    }

    /// The database's folder.
    #[must_use]
    pub fn db(&self) -> PathBuf {
        self.work_dir.join("db")
    }

    #[must_use]
    pub fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    #[must_use]
    pub fn skein(&self) -> &Path {
        &self.skein
    }

    fn run(&self, verb: &[&str], rest: &[String]) -> Result<String, String> {
        let mut command = Command::new(&self.skein);
        command.args(verb).arg(self.db()).args(rest).env("SKEIN_PASSWORD", &self.password);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let child = {
            let mut processes = locked(&self.processes);
            let child = processes.spawn(&mut command)?;
            processes.commands.push(child.id());
            child
        };
        let pid = child.id();
        // Clients, and what stands between instances, go on meanwhile.
        let output = tokio::task::block_in_place(|| child.wait_with_output());
        locked(&self.processes).commands.retain(|p| *p != pid);
        let output = output.map_err(|e| format!("run {}: {e}", self.skein.display()))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() {
            return Ok(text(&output.stdout));
        }
        let why = text(&output.stderr);
        Err(format!("skein {} {}: {}\n{why}", verb.join(" "), rest.join(" "), output.status))
    }

    /// `skein init`; returns what it printed.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn init(&self, instances: usize, set: &[String]) -> Result<String, String> {
        self.init_with(instances, set, &[])
    }

    /// The same with further arguments of `skein init`.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn init_with(
        &self,
        instances: usize,
        set: &[String],
        more: &[&str],
    ) -> Result<String, String> {
        let mut args = vec![format!("--instances={instances}"), "--port-base=0".to_owned()];
        args.extend(set.iter().map(|s| format!("--set={s}")));
        args.extend(more.iter().map(|s| (*s).to_owned()));
        self.run(&["init"], &args)
    }

    /// Stops one instance in order.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn stop(&self, instance: usize) -> Result<String, String> {
        self.run(&["stop"], &[format!("--instance={instance}")])
    }

    /// Stops all instances in order.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn stop_all(&self) -> Result<String, String> {
        self.run(&["stop"], &[])
    }

    /// `skein add lun`.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn add_lun(&self, size: &str) -> Result<String, String> {
        self.run(&["add", "lun"], &[format!("--lun-size={size}")])
    }

    /// `skein verify`; what it said.
    ///
    /// # Errors
    /// Damage.
    pub fn verify(&self) -> Result<String, String> {
        self.run(&["verify"], &[])
    }

    /// Starts all instances in the background.
    ///
    /// # Errors
    /// What `skein` said.
    pub fn start_all(&self) -> Result<String, String> {
        self.run(&["start"], &["--all".to_owned()])
    }

    /// Starts one instance; it is open when its status says so.
    ///
    /// # Errors
    /// It cannot be started or ends before it is open.
    pub fn start(&self, instance: usize) -> Result<(), String> {
        let log = self.work_dir.join(format!("restart-{instance}.log"));
        let file = || fs::File::create(&log).map_err(|e| format!("make {}: {e}", log.display()));
        let mut command = Command::new(&self.skein);
        command.arg("start").arg(self.db()).arg(format!("--instance={instance}"));
        command.stdin(Stdio::null()).stdout(file()?).stderr(file()?);
        // Out of reach of the terminal's Ctrl-C: this program ends it in order.
        command.process_group(0);
        let mut processes = locked(&self.processes);
        let child = processes.spawn(&mut command)?;
        processes.children.push(child);
        Ok(())
    }

    /// Whether a restarted instance has opened.
    ///
    /// # Errors
    /// It has ended instead, or takes too long.
    pub fn opened(&self, instance: usize, since: Instant) -> Result<bool, String> {
        let status = self.status()?;
        if status.iter().any(|s| s.instance == instance && s.state == "OPEN") {
            return Ok(true);
        }
        let mut processes = locked(&self.processes);
        let ended = processes.children.last_mut().and_then(|c| c.try_wait().ok().flatten());
        drop(processes);
        if let Some(ended) = ended {
            let log = self.work_dir.join(format!("restart-{instance}.log"));
            let said = fs::read_to_string(log).unwrap_or_default();
            return Err(format!("instance {instance} did not open: {ended}\n{}", said.trim()));
        }
        if since.elapsed() > OPEN_LIMIT {
            return Err(format!("instance {instance} is not open after {OPEN_LIMIT:?}"));
        }
        Ok(false)
    }

    /// State of all instances.
    ///
    /// # Errors
    /// What `skein` said, or its answer cannot be read.
    pub fn status(&self) -> Result<Vec<Status>, String> {
        let text = self.run(&["status"], &["--json".to_owned()])?;
        parse_status(&text).ok_or_else(|| format!("skein status --json printed: {text}"))
    }

    /// SIGKILL to one instance.
    ///
    /// # Errors
    /// It does not run or cannot be killed.
    pub fn kill(&self, instance: usize) -> Result<u32, String> {
        let pid = self.pid(instance)?;
        if !send_kill(pid) {
            return Err(format!("process {pid} of instance {instance} cannot be killed"));
        }
        Ok(pid)
    }

    /// The process of one instance.
    ///
    /// # Errors
    /// It does not run.
    pub fn pid(&self, instance: usize) -> Result<u32, String> {
        let status = self.status()?;
        let found = status.iter().find(|s| s.instance == instance).and_then(|s| s.pid);
        found.ok_or_else(|| format!("instance {instance} has no process"))
    }

    /// How clients connect to an instance now.
    ///
    /// # Errors
    /// As [`Cluster::status`]; the instance is not there.
    pub fn url(&self, instance: usize) -> Result<String, String> {
        let status = self.status()?;
        let found = status.iter().find(|s| s.instance == instance);
        let found = found.ok_or_else(|| format!("there is no instance {instance}"))?;
        let password = &self.password;
        Ok(format!("postgresql://{USER}:{password}@{}/skein", found.listen))
    }

    /// Ends all instances; with `remove`, the files too. Returns what went wrong.
    #[must_use]
    pub fn end(&self, remove: bool) -> Vec<String> {
        locked(&self.processes).ending = true;
        let mut problems = self.end_processes();
        let children = std::mem::take(&mut locked(&self.processes).children);
        for mut child in children {
            let _ = child.kill();
            let _ = child.wait();
        }
        if remove && let Err(e) = fs::remove_dir_all(&self.work_dir) {
            problems.push(format!("remove {}: {e}", self.work_dir.display()));
        }
        problems
    }

    /// Kills until nothing runs. A command may just have started an instance that no status tells
    /// of yet, so it is looked for among all processes.
    fn end_processes(&self) -> Vec<String> {
        let started = Instant::now();
        loop {
            let pids = processes_of(&self.skein, &self.db());
            if pids.is_empty() {
                return Vec::new();
            }
            for pid in &pids {
                send_kill(*pid);
            }
            if started.elapsed() > END_LIMIT {
                return vec![format!("processes {pids:?} are left")];
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes of the binary `skein` that have the database's folder as an argument: all are its
/// commands and instances. One that has ended and was not waited for does not count.
fn processes_of(skein: &Path, db: &Path) -> Vec<u32> {
    let skein = fs::canonicalize(skein).unwrap_or_else(|_| skein.to_path_buf());
    // Commands have it as it was given, instances absolute.
    let absolute = std::path::absolute(db).unwrap_or_else(|_| db.to_path_buf());
    let is_db =
        |arg: &[u8]| [db, &absolute].iter().any(|d| d.as_os_str().as_encoded_bytes() == arg);
    let entries = fs::read_dir("/proc").into_iter().flatten().filter_map(Result::ok);
    let ours = |entry: &fs::DirEntry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let program = fs::read_link(entry.path().join("exe")).ok()?;
        let args = fs::read(entry.path().join("cmdline")).ok()?;
        (program == skein && args.split(|b| *b == 0).any(is_db)).then_some(pid)
    };
    entries.filter_map(|entry| ours(&entry)).collect()
}

fn send_kill(pid: u32) -> bool {
    send_signal(pid, "KILL")
}

/// The shell's own `kill`: a bare Debian need not have the program.
pub fn send_signal(pid: u32, signal: &str) -> bool {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("kill -{signal} {pid}")]).stderr(Stdio::null());
    command.status().is_ok_and(|s| s.success())
}

fn parse_status(text: &str) -> Option<Vec<Status>> {
    let json: Value = serde_json::from_str(text).ok()?;
    let one = |i: &Value| {
        Some(Status {
            instance: usize::try_from(i.get("instance")?.as_u64()?).ok()?,
            state: i.get("state")?.as_str()?.to_owned(),
            listen: i.get("listen")?.as_str()?.to_owned(),
            pid: i.get("pid").and_then(Value::as_u64).and_then(|p| u32::try_from(p).ok()),
        })
    };
    json.get("instances")?.as_array()?.iter().map(one).collect()
}

fn random_password() -> Result<String, String> {
    use std::io::Read;
    let mut bytes = [0_u8; 12];
    let mut source = fs::File::open("/dev/urandom").map_err(|e| format!("/dev/urandom: {e}"))?;
    source.read_exact(&mut bytes).map_err(|e| format!("/dev/urandom: {e}"))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_the_issue_is_understood() {
        let text = r#"{"instances":[
            {"instance":1,"state":"OPEN","listen":"127.0.0.1:6501","pid":4711},
            {"instance":2,"state":"DOWN","listen":"127.0.0.1:6502","pid":null}]}"#;
        let status = parse_status(text).expect("readable");
        assert_eq!((status[0].instance, status[0].pid), (1, Some(4711)));
        assert_eq!((status[1].state.as_str(), status[1].pid), ("DOWN", None));
        assert_eq!(parse_status("{}"), None);
    }
}
