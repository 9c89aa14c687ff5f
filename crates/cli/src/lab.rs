//! `skein lab`: experiments on a cluster of their own. See `lab::myths`.
//!
//! What it promises: the exit code tells whether the effect was reproduced.

use crate::error::{CliError, Doing, Exit, Result, say};
use ::lab::myths::{EXPERIMENTS, Outcome, Request, named};
use clap::{Args, Subcommand};
use env::real::bind_thread;
use std::io::Read;
use std::path::PathBuf;

#[derive(Subcommand)]
pub enum LabCommand {
    /// List the experiments: what each does, its sizes, and how long it takes.
    List,
    /// Run one: myth1, myth2, myth4, myth5, myth6 or hot-table.
    ///
    /// A cluster is made in a folder of its own, both sides do the same work in turns, and all is
    /// removed at the end. Exit code 6: the effect was not reproduced, or a count was wrong, which
    /// is named; 7: it could not be tested here, such as without permission for real-time priority.
    Run(Box<RunArgs>),
    /// Keep a processor busy until standard input ends (what `run myth1` starts).
    #[command(hide = true)]
    Burn { processors: String },
}

#[derive(Args)]
pub struct RunArgs {
    /// Name of the experiment, as `skein lab list` shows it.
    experiment: String,
    /// How many instances, if not as many as the paper has.
    #[arg(long, value_name = "N")]
    instances: Option<usize>,
    /// Part of the paper's sizes, from 0.001 to 10.
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// How often each side has its turn.
    #[arg(long, value_name = "N", default_value_t = 3,
          value_parser = clap::value_parser!(u16).range(1..=100))]
    rounds: u16,
    /// Print the figures as JSON.
    #[arg(long)]
    json: bool,
    /// Write a report, one page with charts that needs nothing else.
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Work in this folder, which must be empty or not there; else in a temporary one.
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Leave the cluster running.
    #[arg(long)]
    keep: bool,
    /// A parameter of all instances. May be given several times.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    set: Vec<String>,
    /// myth2: how much longer the slow log writer takes, ms, in turns.
    #[arg(long, value_name = "MS,..", value_delimiter = ',', default_values_t = [0, 50, 500],
          value_parser = clap::value_parser!(u64).range(0..=10_000))]
    delay_ms: Vec<u64>,
    /// myth1: how many processes burn the processor of instance 1.
    #[arg(long, value_name = "N", default_value_t = 4,
          value_parser = clap::value_parser!(u16).range(1..=64))]
    burners: u16,
}

pub fn run(command: LabCommand) -> Result<()> {
    match command {
        LabCommand::List => {
            list();
            Ok(())
        }
        LabCommand::Run(args) => run_one(*args),
        LabCommand::Burn { processors } => burn(&processors),
    }
}

fn list() {
    for e in EXPERIMENTS {
        let (fewest, usual, most) = e.instances;
        say!("{}: {}", e.name, e.title);
        say!("    {}", e.about);
        say!(
            "    sizes: {}; {usual} instances ({fewest} to {most}); takes about {}{}\n",
            e.sizes,
            e.takes,
            judged(e.timed_from)
        );
    }
}

fn judged(timed_from: f64) -> String {
    match timed_from > 0.0 {
        true => format!("; times are judged from --scale {timed_from} on"),
        false => String::new(),
    }
}

fn run_one(args: RunArgs) -> Result<()> {
    let experiment = named(&args.experiment).ok_or_else(|| {
        let names: Vec<&str> = EXPERIMENTS.iter().map(|e| e.name).collect();
        let (name, names) = (&args.experiment, names.join(", "));
        CliError::usage(format!("there is no experiment {name}; there are {names}"))
    })?;
    let (fewest, usual, most) = experiment.instances;
    let instances = args.instances.unwrap_or(usual);
    if !(fewest..=most).contains(&instances) {
        let name = experiment.name;
        let why = format!("{name} takes {fewest} to {most} instances, not {instances}");
        return Err(CliError::usage(why));
    }
    if !(0.001..=10.0).contains(&args.scale) {
        return Err(CliError::usage(format!("--scale takes 0.001 to 10, not {}", args.scale)));
    }
    let outcome = ::lab::myths::run(&Request {
        experiment,
        instances,
        scale: args.scale,
        rounds: args.rounds.into(),
        set: args.set,
        delays_ms: args.delay_ms,
        burners: args.burners.into(),
        json: args.json,
        report: args.report,
        dir: args.dir,
        keep: args.keep,
        skein: tried()?,
        bind,
    });
    let name = experiment.name;
    match outcome {
        Outcome::Reproduced => Ok(()),
        Outcome::NotReproduced => {
            Err(CliError::new(Exit::NotReproduced, format!("{name} is not reproduced")))
        }
        Outcome::NotTested => Err(CliError::new(Exit::NotTested, format!("{name} is not tested"))),
        Outcome::Failed(why) => Err(CliError::failed(why)),
        Outcome::Interrupted => Err(CliError::new(Exit::Interrupted, "interrupted")),
        Outcome::Terminated => Err(CliError::new(Exit::Terminated, "terminated")),
    }
}

/// The binary that is tried: this one, or what SKEIN_BIN names.
fn tried() -> Result<PathBuf> {
    match std::env::var_os("SKEIN_BIN") {
        Some(named) => Ok(named.into()),
        None => std::env::current_exe().doing("find this program"),
    }
}

fn bind(processors: &str) -> std::result::Result<(), String> {
    bind_thread(&processors.parse()?).map_err(|e| format!("run on processors {processors}: {e}"))
}

/// Computes in a session of its own, as the load of another program would.
fn burn(processors: &str) -> Result<()> {
    // Fails only for a group leader, which has one.
    let _ = nix::unistd::setsid();
    bind(processors).map_err(CliError::failed)?;
    say!("burning");
    std::thread::spawn(|| {
        // Who started it holds the other end.
        let _ = std::io::stdin().read(&mut [0]);
        std::process::exit(0);
    });
    let mut number = 1_u64;
    loop {
        number =
            std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1));
    }
}
