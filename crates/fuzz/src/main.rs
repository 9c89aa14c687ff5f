//! `skein-fuzz [TARGET] [--seconds N] [--seed S]`; `cargo x fuzz` starts it.

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

const USAGE: &str = "usage: skein-fuzz [TARGET] [--seconds N] [--seed S]";
const SECONDS: u64 = 60;

struct Request {
    target: Option<String>,
    seconds: u64,
    seed: u64,
}

fn request() -> Result<Request, String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let mut request = Request { target: None, seconds: SECONDS, seed: since.as_secs() };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut number = || {
            let text = args.next().ok_or_else(|| format!("{arg} needs a number"))?;
            text.parse::<u64>().map_err(|e| format!("{arg} {text}: {e}"))
        };
        match arg.as_str() {
            "--seconds" => request.seconds = number()?,
            "--seed" => request.seed = number()?,
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

fn main() -> ExitCode {
    let request = match request() {
        Ok(request) => request,
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
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
