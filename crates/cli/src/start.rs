//! `skein start`: one instance in the foreground, or all in the background.

use crate::config::Config;
use crate::error::{CliError, Doing, Exit, Result, say};
use crate::layout::Layout;
use crate::node;
use crate::runtime::{RuntimeGuard, State, probe};
use std::fs::File;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a background instance may take to open: crash recovery of a whole cluster included.
const OPEN_LIMIT: Duration = Duration::from_secs(600);
/// Lines of the alert log shown for an instance that did not open.
const ALERT_LINES_SHOWN: usize = 15;

/// Runs instance `k` until it is told to stop.
pub fn foreground(dir: &Path, k: u16) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    let instance = config.for_instance(k)?;
    let guard = RuntimeGuard::take(&layout, k, &instance.listen, &instance.interconnect)?;
    node::run(&layout, &config, k, instance, &guard)
}

/// Starts every instance that is not running, and waits until all are open.
pub fn all(dir: &Path) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    let mut started = Vec::new();
    for k in 1..=config.instances {
        config.for_instance(k)?;
        if let Some(running) = probe(&layout, k)? {
            say!("instance {k} is already running (pid {})", running.pid);
        } else {
            started.push(k);
        }
    }
    if started.is_empty() {
        return Err(CliError::state("all instances are already running"));
    }
    for k in started {
        let mut child = spawn(&layout, k)?;
        wait_until_open(&layout, k, &mut child)?;
    }
    Ok(())
}

/// Starts this program again as instance `k`, in a session of its own: it outlives this one.
fn spawn(layout: &Layout, k: u16) -> Result<Child> {
    let console = layout.console(k);
    let made = std::fs::create_dir_all(layout.run()).and_then(|()| File::create(&console));
    let out = made.doing(format_args!("write {}", console.display()))?;
    let err = out.try_clone().doing("share the console file")?;
    let program = std::env::current_exe().doing("find this program")?;
    let mut command = Command::new(program);
    command
        .arg("start")
        .arg(layout.dir())
        .arg("--instance")
        .arg(k.to_string())
        .arg("--detached")
        .stdin(Stdio::null())
        .stdout(out)
        .stderr(err);
    command.spawn().doing(format_args!("start instance {k}"))
}

fn wait_until_open(layout: &Layout, k: u16, child: &mut Child) -> Result<()> {
    let deadline = Instant::now() + OPEN_LIMIT;
    loop {
        if let Some(status) = child.try_wait().doing("wait for the instance")? {
            let exit = match status.code() {
                Some(2) => Exit::Usage,
                Some(3) => Exit::State,
                Some(4) => Exit::DiskGroup,
                Some(5) => Exit::Network,
                Some(70) => Exit::Invariant,
                _ => Exit::Failed,
            };
            let said = last_lines(&layout.console(k), 5);
            let alert = last_lines(&layout.alert_log(k), ALERT_LINES_SHOWN);
            return Err(CliError::new(
                exit,
                format!(
                    "instance {k} did not open ({status})\n{said}\nlast lines of {}:\n{alert}",
                    layout.alert_log(k).display()
                ),
            ));
        }
        match probe(layout, k)? {
            Some(r) if r.state == State::Open && r.pid == child.id().cast_signed() => {
                say!("instance {k} open on {} (pid {})", r.listen, r.pid);
                return Ok(());
            }
            _ if Instant::now() >= deadline => {
                return Err(CliError::failed(format!(
                    "instance {k} has not opened within {} s; it goes on trying (pid {})",
                    OPEN_LIMIT.as_secs(),
                    child.id()
                )));
            }
            _ => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

/// The last `count` lines of a file, as far as it can be read.
pub fn last_lines(path: &Path, count: usize) -> String {
    let text = std::fs::read(path).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
