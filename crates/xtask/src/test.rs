//! `cargo x test | unit | sim | bless`.

use std::process::Command;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::harness::{Harness, Tally};
use crate::moved;
use crate::run::{self, Executable, RunDir};
use crate::tidy;

/// Run one test at a time: each starts clusters of several processes.
const CLUSTER_PACKAGES: [&str; 2] = ["skein-cli", "skein-lab"];
const SIM_PACKAGE: &str = "skein-sim";
const SIM_BIN: &str = "skein-sim";
const FUZZ_PACKAGE: &str = "skein-fuzz";
/// The rules that a build of the simulator can break (`global::mutant`), by name, and the scenario
/// that notices.
const MUTANTS: [(&str, &str); 8] = [
    ("ship-before-flush", "stalls"),
    ("drop-past-image-early", "mutants"),
    ("demote-after-send", "mutants"),
    ("skip-scn-broadcast", "mutants"),
    ("forget-write-duty", "mutants"),
    ("accept-stale-epoch", "late-words"),
    ("answer-before-flush", "stalls"),
    ("reuse-undo-early", "tiny"),
];
/// The crates that do not depend on DataFusion: tests without a long build.
const FAST_PACKAGES: [&str; 8] = [
    "xtask",
    "skein-block",
    "skein-env",
    "skein-observe",
    "skein-global",
    "skein-disk",
    "skein-cluster",
    "skein-kernel",
];

/// All that CI runs.
pub fn test() -> Result<bool, String> {
    let mut tally = Tally::default();
    tally.check("formatting (cargo fmt)", run::step(&["fmt", "--all", "--check"])?);
    tidy::run(&mut tally)?;
    let clippy = ["clippy", "--release", "--workspace", "--all-targets", "--", "-D", "warnings"];
    tally.check("clippy", run::step(&clippy)?);
    let build = ["build", "--release", "--workspace", "--bins", "--tests"];
    let built = run::build(&build)?;
    tally.check("build", built.is_some());
    if let Some(executables) = built {
        run_all(&executables, true, &mut tally)?;
    }
    replay_mutants(&mut tally)?;
    Ok(tally.finish())
}

/// Runs all harnesses: first the ordinary, then the simulation, last those that start processes. If
/// they are the whole workspace's, what they have seen move must be all there is.
fn run_all(executables: &[Executable], whole: bool, tally: &mut Tally) -> Result<(), String> {
    let dir = RunDir::new("test")?;
    let moved_dir = RunDir::new("moved")?;
    let mut env = vec![
        ("SKEIN_SIM_FRESH_SEED", fresh_seed().to_string()),
        ("SKEIN_MOVED", moved_dir.path().display().to_string()),
    ];
    for exe in executables.iter().filter(|e| !e.test) {
        let path = dir.take(exe)?;
        if exe.target == "skein" {
            env.push(("SKEIN_BIN", path.display().to_string()));
        }
    }
    let rank = |e: &Executable| match e.package.as_str() {
        SIM_PACKAGE => 1,
        p if CLUSTER_PACKAGES.contains(&p) => 2,
        _ => 0,
    };
    let mut tests: Vec<&Executable> = executables.iter().filter(|e| e.test).collect();
    tests.sort_by_key(|e| rank(e));
    tally.check("test executables were built", !tests.is_empty());
    for exe in tests {
        let path = dir.take(exe)?;
        let args: &[&str] = match rank(exe) {
            1 => &["--nocapture"],
            2 => &["--test-threads=1"],
            _ => &[],
        };
        let name = format!("{} {}", exe.package, exe.target);
        Harness { name, exe: &path, dir: &exe.package_dir, args, env: &env }.run(tally)?;
        // Test executables are large; a run holds one at a time.
        let _ = std::fs::remove_file(&path);
    }
    if whole {
        println!("== {FUZZ_PACKAGE}: each target for a minute");
        let fuzzer = executables.iter().find(|e| e.target == FUZZ_PACKAGE && !e.test);
        let fuzzer = dir.take(fuzzer.ok_or("cargo has built no fuzzer")?)?;
        let status = Command::new(fuzzer).current_dir(run::root()).args(["--jobs", "2"]).status();
        let held = status.map_err(|e| format!("run {FUZZ_PACKAGE}: {e}"))?.success();
        tally.check("decoders stand damaged bytes", held);
        let complaints = moved::check(moved_dir.path())?;
        for complaint in &complaints {
            println!("{complaint}");
        }
        tally.check("every statistic and wait event is moved by a test", complaints.is_empty());
    }
    Ok(())
}

/// What only a build of the simulator for the purpose can do: break rules, each noticed by its
/// known seed, and end instances at marks. Only our own crates are built for it.
fn replay_mutants(tally: &mut Tally) -> Result<(), String> {
    let args = ["--features", "mutants,marks", "--test", "mutants", "--test", "marks"];
    let build = [&["build", "--release", "-p", SIM_PACKAGE], &args[..]].concat();
    let Some(executables) = run::build(&build)? else {
        tally.check("build with mutants", false);
        return Ok(());
    };
    let dir = RunDir::new("mutants")?;
    for exe in executables.iter().filter(|e| e.test) {
        let path = dir.take(exe)?;
        let name = format!("{} {}", exe.package, exe.target);
        let args = &["--nocapture"][..];
        Harness { name, exe: &path, dir: &exe.package_dir, args, env: &[] }.run(tally)?;
    }
    Ok(())
}

/// Seeds that nobody chose; printed by the simulation, so that a failure can be run again.
fn fresh_seed() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    since.as_secs()
}

fn package_args<'a>(command: &[&'a str], packages: &[&'a str]) -> Vec<&'a str> {
    let mut args = command.to_vec();
    args.extend(packages.iter().flat_map(|p| ["-p", *p]));
    args
}

/// The fast tests.
pub fn unit() -> Result<bool, String> {
    let mut tally = Tally::default();
    tidy::run(&mut tally)?;
    let args = package_args(&["build", "--release", "--tests"], &FAST_PACKAGES);
    match run::build(&args)? {
        Some(executables) => run_all(&executables, false, &mut tally)?,
        None => tally.check("build", false),
    }
    Ok(tally.finish())
}

/// The simulation: the tests, with a seed of the caller's if given; or what `--scenario` or
/// `--minutes` ask for.
pub fn sim(args: &[String]) -> Result<bool, String> {
    let chosen = |arg: &String| {
        let scenarios = ["--scenario", "--minutes", "--shrink", "--log", "--ratchet"];
        scenarios.contains(&arg.as_str())
    };
    if args.iter().any(chosen) {
        return run_scenario(args, &["--features", "marks"]);
    }
    let seed = args.first().map(String::as_str);
    let seed = match seed {
        Some(text) => Some(text.parse::<u64>().map_err(|e| format!("seed {text}: {e}"))?),
        None => None,
    };
    let Some(executables) = run::build(&["build", "--release", "--tests", "-p", SIM_PACKAGE])?
    else {
        return Ok(false);
    };
    let mut tally = Tally::default();
    let dir = RunDir::new("sim")?;
    let env = match seed {
        Some(seed) => ("SKEIN_SIM_SEED", seed.to_string()),
        None => ("SKEIN_SIM_FRESH_SEED", fresh_seed().to_string()),
    };
    for exe in executables.iter().filter(|e| e.test && e.package == SIM_PACKAGE) {
        let path = dir.take(exe)?;
        let name = format!("{} {}", exe.package, exe.target);
        let (args, env) = (&["--nocapture"][..], std::slice::from_ref(&env));
        Harness { name, exe: &path, dir: &exe.package_dir, args, env }.run(&mut tally)?;
    }
    Ok(tally.finish())
}

/// The scenario that is run if none is named.
const SCENARIO: &str = "crates/sim/scenarios/storm.scenario";

/// Builds the simulator with these features and runs it with these arguments.
fn run_scenario(args: &[String], features: &[&str]) -> Result<bool, String> {
    let mut build = vec!["build", "--release", "-p", SIM_PACKAGE, "--bin", SIM_BIN];
    build.extend(features);
    let Some(executables) = run::build(&build)? else { return Ok(false) };
    let exe = executables.iter().find(|e| e.target == SIM_BIN && !e.test);
    let exe = exe.ok_or("cargo has built no simulator")?;
    let dir = RunDir::new("sim")?;
    let path = dir.take(exe)?;
    let mut command = Command::new(&path);
    command.current_dir(run::root()).args(args);
    if !args.iter().any(|arg| arg == "--scenario") {
        command.args(["--scenario", SCENARIO]);
    }
    let status = command.status().map_err(|e| format!("run {SIM_BIN}: {e}"))?;
    Ok(status.success())
}

/// Feeds decoders with damaged bytes.
pub fn fuzz(args: &[String]) -> Result<bool, String> {
    let build = ["build", "--release", "-p", FUZZ_PACKAGE, "--bin", FUZZ_PACKAGE];
    let Some(executables) = run::build(&build)? else { return Ok(false) };
    let exe = executables.iter().find(|e| e.target == FUZZ_PACKAGE && !e.test);
    let exe = exe.ok_or("cargo has built no fuzzer")?;
    let dir = RunDir::new("fuzz")?;
    let status = Command::new(dir.take(exe)?).current_dir(run::root()).args(args).status();
    Ok(status.map_err(|e| format!("run {FUZZ_PACKAGE}: {e}"))?.success())
}

/// Looks for a seed that catches each mutant, or the one named; ten minutes each.
pub fn mutants(args: &[String]) -> Result<bool, String> {
    let wanted = |name: &str| args.is_empty() || args.iter().any(|arg| arg == name);
    let all = MUTANTS.iter().filter(|(name, _)| wanted(name));
    let (mut caught, mut escaped) = (0, Vec::new());
    for (mutant, scenario) in all {
        let file = format!("crates/sim/scenarios/{scenario}.scenario");
        let request = ["--scenario", &file, "--mutant", mutant, "--minutes", "10"];
        if run_scenario(&request.map(str::to_owned), &["--features", "mutants,marks"])? {
            caught += 1;
        } else {
            escaped.push(*mutant);
        }
    }
    println!("{caught} mutants are caught; not caught: {escaped:?}");
    Ok(escaped.is_empty() && caught > 0)
}

/// Rewrites goldens and generated pages: the tests do it themselves when `BLESS` is set.
pub fn bless() -> Result<bool, String> {
    let fast = package_args(&["test", "--release"], &FAST_PACKAGES);
    let pages_of_sql = ["test", "--release", "--package", "skein-sql", "--lib", "manual_page"];
    let mut all_passed = true;
    for args in [fast, pages_of_sql.to_vec()] {
        println!("== BLESS=1 cargo {}", args.join(" "));
        let status =
            run::cargo(&args).env("BLESS", "1").status().map_err(|e| format!("run cargo: {e}"))?;
        all_passed &= status.success();
    }
    println!("now review `git diff`");
    Ok(all_passed)
}
