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
        Cluster::of(skein, work_dir)
    }

    /// The same with this binary.
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn of(skein: PathBuf, work_dir: &Path) -> Result<Cluster, String> {
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

    /// Sets a parameter of one instance alone, for its next start.
    ///
    /// # Errors
    /// The settings cannot be read or written, or have no such instance.
    pub fn set_for(&self, instance: usize, name: &str, value: &str) -> Result<(), String> {
        let path = self.db().join("skein.toml");
        let failed = |e: std::io::Error| format!("{}: {e}", path.display());
        let text = fs::read_to_string(&path).map_err(failed)?;
        let missing = || format!("{}: no section of instance {instance}", path.display());
        let text = with_setting(&text, instance, name, value).ok_or_else(missing)?;
        fs::write(&path, text).map_err(failed)
    }

    /// What to tell of a cluster that is left running.
    #[must_use]
    pub fn kept_text(&self, instances: usize) -> String {
        let mut text = String::from("The cluster is left running. Connect with:\n");
        for instance in 1..=instances {
            match self.url(instance) {
                Ok(url) => text.push_str(&format!("  psql {url}\n")),
                Err(why) => text.push_str(&format!("  instance {instance}: {why}\n")),
            }
        }
        let (skein, db, work) = (self.skein.display(), self.db(), self.work_dir.display());
        text + &format!("Stop it with:\n  {skein} stop {}\nthen remove {work}", db.display())
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

/// The settings with `name` in the section of one instance; `None`: there is no such section.
fn with_setting(text: &str, instance: usize, name: &str, value: &str) -> Option<String> {
    let head = format!("[instance.{instance}]\n");
    let (before, section) = text.split_once(&head)?;
    let (section, after) = match section.find("\n[") {
        Some(end) => section.split_at(end + 1),
        None => (section, ""),
    };
    let is_other = |line: &&str| line.split('=').next().is_none_or(|key| key.trim() != name);
    let others: String = section.split_inclusive('\n').filter(is_other).collect();
    Some(format!("{before}{head}{name} = \"{value}\"\n{others}{after}"))
}

/// Makes a folder to work in, which must be empty but for the entry `allowed`: it is removed later.
///
/// # Errors
/// It cannot be made, or holds something.
pub fn empty_folder(dir: &Path, allowed: &str) -> Result<(), String> {
    fs::create_dir_all(dir).map_err(|e| format!("make {}: {e}", dir.display()))?;
    let entries = fs::read_dir(dir).map_err(|e| format!("read {}: {e}", dir.display()))?;
    match entries.filter_map(Result::ok).find(|e| e.file_name() != allowed) {
        Some(entry) => Err(format!("{} is not empty: {:?}", dir.display(), entry.file_name())),
        None => Ok(()),
    }
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
    fn a_setting_of_one_instance_replaces_its_former_value() {
        let text = "a = 1\n[instance.1]\nlisten = \"x\"\n\n[instance.2]\nlisten = \"y\"\n";
        let once = with_setting(text, 1, "cpu_set", "0").expect("a section");
        assert_eq!(
            once,
            "a = 1\n[instance.1]\ncpu_set = \"0\"\nlisten = \"x\"\n\n[instance.2]\nlisten = \"y\"\n"
        );
        let twice = with_setting(&once, 1, "cpu_set", "1").expect("a section");
        assert_eq!(twice, once.replace("\"0\"", "\"1\""));
        let last = with_setting(text, 2, "listen", "z").expect("a section");
        assert!(last.ends_with("[instance.2]\nlisten = \"z\"\n"), "{last}");
        assert_eq!(with_setting(text, 3, "listen", "z"), None);
    }

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
