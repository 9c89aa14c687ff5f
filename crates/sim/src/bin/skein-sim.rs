//! `skein-sim`: runs a scenario from one seed or from many, for a time. `cargo x sim` and
//! `cargo x mutants` start it.
//!
//! A seed that fails ends it with a line that runs that seed again. What it must never do: pass
//! when nothing has run.

#![allow(clippy::disallowed_methods)] // It measures the processor, not the simulated world.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use global::Mutant;
use sim::{Report, Scenario};

const USAGE: &str = "\
usage: skein-sim --scenario FILE [SEED] [--minutes M] [--mutant NAME] [--from SEED]

Runs the scenario from SEED, twice; or from one seed after the other for M minutes (1 by default),
every tenth twice. With --mutant the rule of that name is broken, and a seed that fails is what is
looked for: the same seed must pass with the rule whole.";

struct Request {
    file: PathBuf,
    seed: Option<u64>,
    from: u64,
    limit: Duration,
    mutant: Option<Mutant>,
}

/// What the runs have done.
#[derive(Default)]
struct Sum {
    seeds: u64,
    commits: usize,
    transfers: u64,
    virtual_us: u64,
    cpu: Duration,
}

fn arguments() -> Result<Request, String> {
    let mut request = Request {
        file: PathBuf::new(),
        seed: None,
        from: 1,
        limit: Duration::from_mins(1),
        mutant: None,
    };
    let mut args = std::env::args().skip(1);
    let number = |text: &str| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--scenario" => request.file = PathBuf::from(value()?),
            "--minutes" => request.limit = Duration::from_mins(number(&value()?)?),
            "--from" => request.from = number(&value()?)?,
            "--mutant" => {
                let name = value()?;
                let mutant = Mutant::of_name(&name);
                request.mutant = Some(mutant.ok_or_else(|| format!("no such mutant: {name}"))?);
            }
            seed => request.seed = Some(number(seed)?),
        }
    }
    if request.file.as_os_str().is_empty() {
        return Err(USAGE.to_owned());
    }
    if request.mutant.is_some() && !cfg!(feature = "mutants") {
        return Err("this build cannot break rules: build it with feature `mutants`".to_owned());
    }
    Ok(request)
}

/// Time that this process has had on a processor.
fn cpu() -> Duration {
    let text = std::fs::read_to_string("/proc/self/schedstat").unwrap_or_default();
    let ns = text.split_whitespace().next().and_then(|ns| ns.parse().ok());
    Duration::from_nanos(ns.unwrap_or(0))
}

/// One run; `None`: it has failed, and has said why.
fn tried(seed: u64, scenario: &Scenario) -> Option<Report> {
    catch_unwind(AssertUnwindSafe(|| sim::run(seed, scenario))).ok()
}

fn print_sum(sum: &Sum) {
    let cpu_s = sum.cpu.as_secs_f64().max(0.001);
    println!(
        "{} seeds, {} commits, {} block transfers, {:.1} s of virtual time in {cpu_s:.1} s of CPU: \
         {:.0} commits and {:.0} block transfers per CPU second",
        sum.seeds,
        sum.commits,
        sum.transfers,
        sum.virtual_us as f64 / 1e6,
        sum.commits as f64 / cpu_s,
        sum.transfers as f64 / cpu_s,
    );
}

/// Looks for a seed that fails with the rule broken, and passes with it whole.
fn hunt(request: &Request, scenario: &Scenario, mutant: Mutant) -> bool {
    let broken = Scenario { mutant: Some(mutant), ..scenario.clone() };
    let began = Instant::now();
    for seed in request.seed.unwrap_or(request.from).. {
        if tried(seed, &broken).is_none() {
            let name = mutant.name();
            let control = tried(seed, scenario).is_some();
            let verdict = if control { "is caught by" } else { "and the control both fail with" };
            let cpu_s = cpu().as_secs_f64();
            println!("mutant {name} {verdict} seed {seed}, after {cpu_s:.0} s of CPU");
            return control;
        }
        if request.seed.is_some() || began.elapsed() > request.limit {
            println!("mutant {} is not caught by seeds up to {seed}", mutant.name());
            return false;
        }
    }
    false
}

fn runs(request: &Request, scenario: &Scenario, file: &Path) -> bool {
    let (mut sum, began) = (Sum::default(), Instant::now());
    for seed in request.seed.unwrap_or(request.from).. {
        let before = cpu();
        let report = tried(seed, scenario);
        let twice = request.seed.is_some() || seed.is_multiple_of(10);
        let again = match &report {
            Some(_) if twice => tried(seed, scenario),
            _ => report.clone(),
        };
        let Some(report) = report.filter(|r| Some(r) == again.as_ref()) else {
            println!("FAILED; again: cargo x sim {seed} --scenario {}", file.display());
            return false;
        };
        sum.seeds += 1;
        sum.commits += report.counts.acknowledged;
        sum.transfers += report.transfers;
        sum.virtual_us += report.virtual_us;
        // A second run of the seed does no new work.
        sum.cpu += (cpu() - before) / if twice { 2 } else { 1 };
        if request.seed.is_some() {
            println!("seed {seed}: {report:?}");
        }
        if request.seed.is_some() || began.elapsed() > request.limit {
            break;
        }
    }
    print_sum(&sum);
    sum.commits > 0
}

fn main() -> ExitCode {
    let request = match arguments() {
        Ok(request) => request,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::from(2);
        }
    };
    let text = std::fs::read_to_string(&request.file).map_err(|e| e.to_string());
    let scenario = text.and_then(|text| Scenario::parse(&text));
    let scenario = match scenario {
        Ok(scenario) => scenario,
        Err(e) => {
            eprintln!("{}: {e}", request.file.display());
            return ExitCode::from(2);
        }
    };
    let passed = match request.mutant {
        Some(mutant) => hunt(&request, &scenario, mutant),
        None => runs(&request, &scenario, &request.file),
    };
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
