//! `skein-sim`: runs a scenario from one seed or from many, for a time. `cargo x sim` and
//! `cargo x mutants` start it.
//!
//! A seed that fails ends it with a line that runs that seed again. What it must never do: pass
//! when nothing has run.

#![allow(clippy::disallowed_methods)] // It measures the processor, not the simulated world.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use global::Mutant;
use parking_lot::Mutex;
use sim::{Failing, Report, Scenario, SeedLog, Speed, Verdict};

/// Images of blocks come and go with every message.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: skein-sim --scenario FILE [SEED] [--minutes M] [--from SEED]
                 [--mutant NAME | --log FILE | --shrink | --ratchet FILE]

Runs the scenario from SEED, twice; or from one seed after the other for M minutes (1 by default),
every tenth twice. In the end it says which marks of the code (`env::marks`) no run has come to.
--mutant NAME  breaks a rule; a seed that fails is what is looked for: the same seed must pass with
               the rule whole
--log FILE     adds a line for each seed that passes, and goes on after the last one in it
--shrink       looks for the smallest scenario that fails where SEED does, and writes it to a file
--ratchet FILE measures how fast the simulator is, beside a fixed piece of work: fails if it is much
               slower than the file says, and writes the file anew if it is faster";

/// Seeds between two measurements of the yard, such parts of a pass, and passes at least.
const SEEDS_OF_A_PART: u64 = 2;
const PARTS: u64 = 8;
const PASSES_MIN: usize = 3;

struct Request {
    file: PathBuf,
    seed: Option<u64>,
    from: u64,
    limit: Duration,
    mutant: Option<Mutant>,
    log: Option<PathBuf>,
    shrink: bool,
    ratchet: Option<PathBuf>,
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
        log: None,
        shrink: false,
        ratchet: None,
    };
    let mut args = std::env::args().skip(1);
    let number = |text: &str| text.parse::<u64>().map_err(|e| format!("{text}: {e}"));
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or_else(|| format!("{arg} needs a value"));
        match arg.as_str() {
            "--scenario" => request.file = PathBuf::from(value()?),
            "--minutes" => request.limit = Duration::from_mins(number(&value()?)?),
            "--from" => request.from = number(&value()?)?,
            "--log" => request.log = Some(PathBuf::from(value()?)),
            "--shrink" => request.shrink = true,
            "--ratchet" => request.ratchet = Some(PathBuf::from(value()?)),
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
    if request.shrink && request.seed.is_none() {
        return Err("--shrink needs the seed that fails".to_owned());
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

/// Where the last panic was.
static PANICKED_AT: Mutex<String> = Mutex::new(String::new());

/// One run; `None`: it has failed, and has said why.
fn tried(seed: u64, scenario: &Scenario) -> Option<Report> {
    catch_unwind(AssertUnwindSafe(|| sim::run(seed, scenario))).ok()
}

/// The smallest scenario that fails where the seed does.
fn shrink(request: &Request, scenario: &Scenario, seed: u64) -> bool {
    std::panic::set_hook(Box::new(|panic| {
        // The first is the reason; others may follow it while all is taken down.
        let mut place = PANICKED_AT.lock();
        if place.is_empty() {
            *place = panic.location().map(ToString::to_string).unwrap_or_default();
        }
    }));
    let fails = |seed: u64, scenario: &Scenario| {
        PANICKED_AT.lock().clear();
        tried(seed, scenario).is_none().then(|| PANICKED_AT.lock().clone())
    };
    let Some(place) = fails(seed, scenario) else {
        println!("seed {seed} does not fail");
        return false;
    };
    println!("seed {seed} fails at {place}");
    let began = Instant::now();
    let limit = request.limit.max(Duration::from_mins(10));
    let start = Failing { seed, scenario: scenario.clone(), place };
    let small = sim::shrink(start, fails, |smaller| {
        println!("seed {} still fails:\n{}", smaller.seed, smaller.scenario);
        began.elapsed() < limit
    });
    let file = std::env::temp_dir().join(format!("skein-sim-{}.scenario", small.seed));
    let text = format!("# Fails at {}.\n{}", small.place, small.scenario);
    if let Err(e) = std::fs::write(&file, text) {
        println!("{}: {e}", file.display());
        return false;
    }
    println!("again: cargo x sim {} --scenario {}", small.seed, file.display());
    true
}

/// What has been passed in all runs, by name.
#[derive(Default)]
struct Passed {
    marks: BTreeMap<&'static str, u64>,
    points: BTreeMap<&'static str, u64>,
}

impl Passed {
    /// Adds those of the run that has just ended.
    #[cfg(feature = "marks")]
    fn add(&mut self) {
        for (mark, count) in env::marks::counts() {
            *self.marks.entry(mark.name()).or_default() += count;
        }
        for (point, count) in env::marks::taken_points() {
            *self.points.entry(point.name()).or_default() += count;
        }
    }

    #[cfg(not(feature = "marks"))]
    fn add(&mut self) {}

    fn print(&self, points: bool) {
        let never = |all: &BTreeMap<&'static str, u64>| {
            let none = all.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name);
            none.collect::<Vec<_>>().join(", ")
        };
        let list = |all: &BTreeMap<&'static str, u64>| {
            let some = all.iter().filter(|(_, count)| **count > 0);
            some.map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>().join(", ")
        };
        if self.marks.is_empty() {
            return;
        }
        println!("marks reached: {}", list(&self.marks));
        println!("marks never reached: {}", never(&self.marks));
        if points {
            println!("points taken: {}", list(&self.points));
            println!("points never taken: {}", never(&self.points));
        }
    }
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

fn runs(
    request: &Request,
    scenario: &Scenario,
    file: &Path,
    mut log: Option<SeedLog>,
) -> std::io::Result<bool> {
    let (mut sum, mut passed, began) = (Sum::default(), Passed::default(), Instant::now());
    let first = log.as_ref().map_or(request.from, |log| request.from.max(log.next()));
    for seed in request.seed.unwrap_or(first).. {
        let before = cpu();
        let report = tried(seed, scenario);
        let twice = request.seed.is_some() || seed.is_multiple_of(10);
        let again = match &report {
            Some(_) if twice => tried(seed, scenario),
            _ => report.clone(),
        };
        let Some(report) = report.filter(|r| Some(r) == again.as_ref()) else {
            println!("FAILED; again: cargo x sim {seed} --scenario {}", file.display());
            return Ok(false);
        };
        passed.add();
        if let Some(log) = &mut log {
            log.add(seed, &report)?;
        }
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
    passed.print(scenario.points);
    if let Some(log) = log {
        println!("{}", log.summary());
    }
    Ok(sum.commits > 0)
}

/// The processor's time for a yard of fixed work, in seconds.
fn yard_s() -> f64 {
    let before = cpu();
    sim::yard();
    (cpu() - before).as_secs_f64()
}

/// Measures the simulator's speed, and compares it with the best one.
fn ratchet(request: &Request, scenario: &Scenario, best: &Path) -> Result<bool, String> {
    let failed = |e: std::io::Error| format!("{}: {e}", best.display());
    let text = std::fs::read_to_string(best).map_err(failed)?;
    let known = Speed::parse(&text).map_err(|e| format!("{}: {e}", best.display()))?;
    let (mut passes, began) = (Vec::new(), Instant::now());
    // The same seeds each time: work that differs cannot be compared.
    while passes.len() < PASSES_MIN || began.elapsed() < request.limit {
        let (mut commits, mut transfers, mut yards, mut all_s) = (0.0, 0.0, 0.0, 0.0);
        let mut yard_before_s = yard_s();
        for part in 0..PARTS {
            let before = cpu();
            for n in 0..SEEDS_OF_A_PART {
                let seed = request.from + part * SEEDS_OF_A_PART + n;
                let Some(report) = tried(seed, scenario) else { return Ok(false) };
                commits += report.counts.acknowledged as f64;
                transfers += report.transfers as f64;
            }
            let cpu_s = (cpu() - before).as_secs_f64();
            let yard_after_s = yard_s();
            yards += cpu_s / f64::midpoint(yard_before_s, yard_after_s);
            all_s += cpu_s;
            yard_before_s = yard_after_s;
        }
        let pass = Speed { commits: commits / yards, transfers: transfers / yards };
        println!(
            "{:.0} commits and {:.0} block transfers per CPU second; {:.2} and {:.1} per yard",
            commits / all_s,
            transfers / all_s,
            pass.commits,
            pass.transfers,
        );
        passes.push(pass);
    }
    let speed = Speed::median_of(&passes);
    println!(
        "medians per yard: {:.2} commits, {:.1} block transfers; the best so far {:.2}, {:.1}",
        speed.commits, speed.transfers, known.commits, known.transfers
    );
    match speed.beside(&known) {
        Verdict::Slower => {
            println!("SLOWER: {:.2} of the best", speed.commits / known.commits);
            return Ok(false);
        }
        Verdict::AsGood => {}
        Verdict::Better => {
            std::fs::write(best, speed.to_string()).map_err(failed)?;
            println!("faster: {} has been raised", best.display());
        }
    }
    Ok(true)
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
    if let Some(best) = &request.ratchet {
        return match ratchet(&request, &scenario, best) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(e) => {
                eprintln!("{e}");
                ExitCode::from(2)
            }
        };
    }
    let log = request.log.as_ref().map(|path| SeedLog::open(path, &request.file)).transpose();
    let passed = match (request.mutant, request.seed) {
        (Some(mutant), _) => Ok(hunt(&request, &scenario, mutant)),
        (None, Some(seed)) if request.shrink => Ok(shrink(&request, &scenario, seed)),
        _ => log.and_then(|log| runs(&request, &scenario, &request.file, log)),
    };
    let passed = passed.unwrap_or_else(|e| {
        eprintln!("the log of seeds: {e}");
        false
    });
    if passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
