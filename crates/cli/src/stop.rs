//! `skein stop`: ends instances, in order or at once.

use crate::config::Config;
use crate::error::{CliError, Result, say};
use crate::layout::Layout;
use crate::runtime::{probe, wait_until_down};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::Path;
use std::time::Duration;

/// How long an orderly stop may take.
const STOP_LIMIT: Duration = Duration::from_secs(120);

/// Stops one instance or all. `abort`: by SIGKILL, so that recovery has work to do.
pub fn run(dir: &Path, instance: Option<u16>, abort: bool) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    if let Some(k) = instance {
        config.check_instance(k)?;
    }
    let chosen: Vec<u16> = instance.map_or_else(|| (1..=config.instances).collect(), |k| vec![k]);
    let signal = if abort { Signal::SIGKILL } else { Signal::SIGTERM };
    let mut stopping = Vec::new();
    for k in chosen {
        let Some(runtime) = probe(&layout, k)? else {
            if instance.is_some() {
                return Err(CliError::state(format!("instance {k} is not running")));
            }
            continue;
        };
        if runtime.pid == 0 {
            return Err(CliError::state(format!(
                "instance {k} is just starting and cannot be stopped yet"
            )));
        }
        kill(Pid::from_raw(runtime.pid), signal)
            .map_err(|e| CliError::failed(format!("stop instance {k}: {e}")))?;
        stopping.push(k);
    }
    if stopping.is_empty() {
        say!("no instance is running");
    }
    for k in stopping {
        if !wait_until_down(&layout, k, STOP_LIMIT)? {
            return Err(CliError::failed(format!(
                "instance {k} has not stopped within {} s (see {}; --abort ends it at once)",
                STOP_LIMIT.as_secs(),
                layout.alert_log(k).display()
            )));
        }
        say!("instance {k} {}", if abort { "aborted" } else { "stopped" });
    }
    Ok(())
}
