//! `skein status`: what runs. Works with instances down: it reads files and locks only.

use crate::config::Config;
use crate::error::{CliError, Result, say};
use crate::layout::Layout;
use crate::runtime::{State, probe};
use serde::Serialize;
use std::path::Path;

#[derive(Serialize)]
struct Status {
    database: String,
    directory: String,
    instances: Vec<InstanceStatus>,
}

#[derive(Serialize)]
struct InstanceStatus {
    instance: u16,
    state: State,
    /// Where clients connect; the configured address while the instance is down.
    listen: String,
    interconnect: Option<String>,
    /// Where the web console is; `None`: there is none now.
    console: Option<String>,
    pid: Option<i32>,
    /// Seconds since 1970.
    started: Option<u64>,
    alert_log: String,
}

/// Prints the state of every instance.
pub fn run(dir: &Path, json: bool) -> Result<()> {
    let layout = Layout::new(dir);
    let config = Config::load(&layout)?;
    let mut instances = Vec::new();
    for k in 1..=config.instances {
        let alert_log = crate::node::alert_path(&layout, &config, k)?.display().to_string();
        instances.push(match probe(&layout, k)? {
            Some(r) => InstanceStatus {
                instance: k,
                state: r.state,
                listen: if r.listen.is_empty() { config.listen(k) } else { r.listen },
                interconnect: Some(r.interconnect),
                console: Some(r.console).filter(|at| !at.is_empty()),
                pid: (r.pid != 0).then_some(r.pid),
                started: (r.started_s != 0).then_some(r.started_s),
                alert_log,
            },
            None => InstanceStatus {
                instance: k,
                state: State::Down,
                listen: config.listen(k),
                interconnect: None,
                console: None,
                pid: None,
                started: None,
                alert_log,
            },
        });
    }
    let directory = layout.dir().display().to_string();
    let status = Status { database: "skein".to_owned(), directory, instances };
    if json {
        let text = serde_json::to_string(&status).map_err(|e| CliError::failed(e.to_string()))?;
        say!("{text}");
        return Ok(());
    }
    say!("{:<9} {:<11} {:<21} {:<21} pid", "instance", "state", "listen", "console");
    for i in &status.instances {
        let pid = i.pid.map_or_else(|| "-".to_owned(), |p| p.to_string());
        let (state, console) = (i.state.word(), i.console.as_deref().unwrap_or("-"));
        say!("{:<9} {state:<11} {:<21} {console:<21} {pid}", i.instance, i.listen);
    }
    Ok(())
}
