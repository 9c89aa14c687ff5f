//! `skein-fuzz [TARGET] [--seconds N] [--seed S] [--jobs N]`; `cargo x fuzz` starts it.

use std::process::{Child, Command, ExitCode};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const USAGE: &str = "usage: skein-fuzz [TARGET] [--seconds N] [--seed S] [--jobs N]";
const SECONDS: u64 = 60;

struct Request {
    target: Option<String>,
    seconds: u64,
    seed: u64,
    /// Processes at a time, each with a target: memory is counted for a whole process.
    jobs: usize,
}

fn request() -> Result<Request, String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut request = Request { target: None, seconds: SECONDS, seed: since.as_secs(), jobs: 1 };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            text.parse::<u64>().map_err(|e| format!("{arg} {text}: {e}"))
        };
        match arg.as_str() {
            "--seconds" => request.seconds = number()?,
            "--seed" => request.seed = number()?,
            "--jobs" => {
                request.jobs = usize::try_from(number()?.max(1)).map_err(|e| e.to_string())?;
            }
            name if !name.starts_with('-') => request.target = Some(name.to_owned()),
            _ => return Err(USAGE.to_owned()),
        }
    }
    let names: Vec<&str> = fuzz::targets().iter().map(|t| t.name).collect();
    match &request.target {
        Some(name) if !names.contains(&name.as_str()) => {
            Err(format!("no target {name}; there are {}", names.join(", ")))
        }
        _ => Ok(request),
    }
}

/// All targets, some at a time, each in a process of its own; whether all have held.
fn spread(request: &Request) -> std::io::Result<bool> {
    let program = std::env::current_exe()?;
    let start = |name: &str| {
        let mut process = Command::new(&program);
        process.args([name, "--seconds", &request.seconds.to_string()]);
        process.args(["--seed", &request.seed.to_string()]).spawn()
    };
    let mut names = fuzz::targets().iter().map(|t| t.name);
    let mut running: Vec<Child> =
        names.by_ref().take(request.jobs).map(start).collect::<Result<_, _>>()?;
    let mut held = true;
    while !running.is_empty() {
        // They take the same time each: whichever is waited for, the others are ready soon.
        held &= running.remove(0).wait()?.success();
        if let Some(name) = names.next() {
            running.push(start(name)?);
        }
    }
    Ok(held)
}

fn main() -> ExitCode {
    let request = match request() {
        Ok(request) => request,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    if request.target.is_none() && request.jobs > 1 {
        return match spread(&request) {
            Ok(true) => ExitCode::SUCCESS,
            Ok(false) => ExitCode::FAILURE,
            Err(e) => {
                eprintln!("start a target: {e}");
                ExitCode::FAILURE
            }
        };
    }
    let wanted = |name: &str| request.target.as_deref().is_none_or(|target| target == name);
    let mut failed = false;
    for target in fuzz::targets().iter().filter(|t| wanted(t.name)) {
        match fuzz::run(target, request.seed, Duration::from_secs(request.seconds)) {
            Ok(report) => println!(
                "{}: {} inputs, {} kinds of answers, seed {}",
                target.name, report.inputs, report.answers, request.seed
            ),
            Err(why) => {
                failed = true;
                println!("{why}");
            }
        }
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
