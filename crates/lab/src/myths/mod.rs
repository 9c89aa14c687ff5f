//! The lab: what is believed of a database on shared disks, tried on a cluster of its own.
//!
//! What it promises: both sides of a comparison do the same work, in turns; every figure is ours,
//! measured in the run, and stands beside the paper's; success only if the effect is there and
//! all counts are exact. What it must never do: leave a process or a file behind, unless asked to
//! keep the cluster.

mod bed;
mod bitmap;
mod check;
mod hot_table;
mod html;
mod lookup;
mod report;
mod sequence;
mod slow_log;
mod starved;
mod tkprof;
mod work;

use std::path::PathBuf;
use std::pin::Pin;

use indicatif::{ProgressBar, ProgressStyle};

use crate::args::Stop;
use crate::demo::cluster::{Cluster, empty_folder};
use report::Report;

/// One of the experiments.
pub struct Experiment {
    pub name: &'static str,
    pub title: &'static str,
    /// The belief, what is done and what is checked.
    pub about: &'static str,
    /// Its sizes at `--scale 1`, which are the paper's.
    pub sizes: &'static str,
    /// How long that takes.
    pub takes: &'static str,
    /// The smallest scale at which its times are long enough to be judged.
    pub timed_from: f64,
    /// Instances: fewest, by default, most.
    pub instances: (usize, usize, usize),
    /// The processor that clients are bound to.
    clients_on: Option<&'static str>,
    run: fn(Stage) -> Running,
}

type Running = Pin<Box<dyn Future<Output = Result<Report, String>> + Send>>;

/// All there are.
pub const EXPERIMENTS: &[&Experiment] = &[
    &starved::EXPERIMENT,
    &slow_log::EXPERIMENT,
    &sequence::EXPERIMENT,
    &lookup::EXPERIMENT,
    &bitmap::EXPERIMENT,
    &hot_table::EXPERIMENT,
];

/// The experiment of this name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Experiment> {
    EXPERIMENTS.iter().find(|e| e.name == name).copied()
}

/// What was asked for.
#[derive(Clone)]
pub struct Request {
    pub experiment: &'static Experiment,
    pub instances: usize,
    /// Part of the paper's sizes.
    pub scale: f64,
    /// How often each side has its turn.
    pub rounds: usize,
    /// Parameters of all instances, as `name=value`.
    pub set: Vec<String>,
    /// How much longer the slow log writer takes, in turns.
    pub delays_ms: Vec<u64>,
    /// Processes that burn the processor of instance 1.
    pub burners: usize,
    pub json: bool,
    pub report: Option<PathBuf>,
    pub dir: Option<PathBuf>,
    pub keep: bool,
    /// The binary that is tried.
    pub skein: PathBuf,
    /// Binds the calling thread, and those it starts, to processors.
    pub bind: fn(&str) -> Result<(), String>,
}

impl Request {
    /// A count of the paper's, scaled, at least `least`.
    fn scaled(&self, count: u32, least: u32) -> u32 {
        let scaled = f64::from(count) * self.scale;
        // Scales are bounded, so it fits.
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        let scaled = scaled.round().clamp(f64::from(least), f64::from(u32::MAX)) as u32;
        scaled
    }
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Reproduced,
    NotReproduced,
    NotTested,
    Failed(String),
    /// By Ctrl-C or a terminal that has gone.
    Interrupted,
    Terminated,
}

/// What an experiment works with.
#[derive(Clone)]
pub(super) struct Stage {
    request: Request,
    cluster: Cluster,
    bar: ProgressBar,
    machine: Vec<(String, String)>,
    processors: usize,
    /// Why clients are not where they should be.
    unbound: Option<String>,
}

impl Stage {
    /// A report with what all have in common.
    fn report(&self) -> Report {
        let e = self.request.experiment;
        let mut circumstances = self.machine.clone();
        let mut add = |name: &str, value: String| circumstances.push((name.to_owned(), value));
        add("instances", self.request.instances.to_string());
        add("scale", self.request.scale.to_string());
        add("rounds", self.request.rounds.to_string());
        if !self.request.set.is_empty() {
            add("parameters", self.request.set.join(", "));
        }
        Report {
            name: e.name.to_owned(),
            title: e.title.to_owned(),
            about: e.about.to_owned(),
            circumstances,
            timed_from: Some(e.timed_from).filter(|from| self.request.scale < *from),
            ..Report::default()
        }
    }

    /// So many steps will be told of.
    fn steps(&self, count: usize) {
        self.bar.set_length(u64::try_from(count).unwrap_or(u64::MAX));
        self.bar.set_position(0);
    }

    /// What is done now; each is one step.
    fn step(&self, what: impl Into<String>) {
        if !self.bar.message().is_empty() {
            self.bar.inc(1);
        }
        self.bar.set_message(what.into());
    }
}

/// Makes the cluster, runs the experiment, tells what came out, and cleans up.
#[must_use]
pub fn run(request: &Request) -> Outcome {
    // Before binding, which would leave only one to be seen.
    let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let machine = report::machine(processors);
    let unbound = request.experiment.clients_on.and_then(|on| (request.bind)(on).err());
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    match runtime {
        Ok(runtime) => runtime.block_on(supervise(request, machine, processors, unbound)),
        Err(e) => Outcome::Failed(format!("start a runtime: {e}")),
    }
}

async fn supervise(
    request: &Request,
    machine: Vec<(String, String)>,
    processors: usize,
    unbound: Option<String>,
) -> Outcome {
    let name = request.experiment.name;
    let temporary =
        || std::env::temp_dir().join(format!("skein-lab-{name}-{}", std::process::id()));
    let dir = request.dir.clone().unwrap_or_else(temporary);
    let made = empty_folder(&dir, "").and_then(|()| Cluster::of(request.skein.clone(), &dir));
    let cluster = match made {
        Ok(cluster) => cluster,
        Err(why) => return Outcome::Failed(why),
    };
    let bar = ProgressBar::new(0);
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:30} {pos}/{len} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let (own, bar_too) = (cluster.clone(), bar.clone());
    let stage = Stage {
        request: request.clone(),
        cluster: own,
        bar: bar_too,
        machine,
        processors,
        unbound,
    };
    let mut task = tokio::spawn((request.experiment.run)(stage));
    let ended = tokio::select! {
        done = &mut task => done.unwrap_or_else(|e| Err(format!("the experiment failed: {e}"))),
        stopped = crate::args::stop() => {
            task.abort();
            bar.finish_and_clear();
            return end_early(&cluster, stopped);
        }
    };
    bar.finish_and_clear();
    let outcome = match ended.and_then(|report| tell(request, &report)) {
        Ok(outcome) => outcome,
        Err(why) => Outcome::Failed(why),
    };
    if request.keep {
        eprintln!("\n{}", cluster.kept_text(request.instances));
        return outcome;
    }
    let problems = tokio::task::block_in_place(|| cluster.end(true));
    match problems.is_empty() {
        true => outcome,
        false => Outcome::Failed(problems.join("\n")),
    }
}

fn end_early(cluster: &Cluster, stopped: Result<Stop, String>) -> Outcome {
    if let Ok(stop) = &stopped {
        // Said before the cleaning up, which may take a moment.
        eprintln!("{}", stop.text());
    }
    for problem in tokio::task::block_in_place(|| cluster.end(true)) {
        eprintln!("{problem}");
    }
    match stopped {
        Ok(Stop::Terminated) => Outcome::Terminated,
        Ok(Stop::Interrupted | Stop::TerminalGone) => Outcome::Interrupted,
        Err(why) => Outcome::Failed(why),
    }
}

/// Writes the page and prints the figures.
fn tell(request: &Request, report: &Report) -> Result<Outcome, String> {
    use std::io::Write as _;
    if let Some(path) = &request.report {
        std::fs::write(path, html::page(report)).map_err(|e| format!("{}: {e}", path.display()))?;
    }
    let text = match request.json {
        true => serde_json::to_string_pretty(&report.json()).map_err(|e| e.to_string())?,
        false => report.text(),
    };
    // A reader that has gone does not keep the cluster from being ended.
    let _ = writeln!(std::io::stdout(), "{text}");
    Ok(if report.failures().next().is_some() {
        Outcome::NotReproduced
    } else if report.untested().is_some() {
        Outcome::NotTested
    } else {
        Outcome::Reproduced
    })
}
