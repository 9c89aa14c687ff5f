//! Reading command lines, and running what they ask for.

use std::process::ExitCode;

use tokio::signal::unix::{SignalKind, signal};

/// What to do with the arguments.
#[derive(Debug, PartialEq, Eq)]
pub enum Parsed<T> {
    Run(T),
    Help,
}

/// Reads `--name value` and `--name=value`. `take` gets each option's name and what gives its
/// value; false: it does not know the option.
///
/// # Errors
/// What is wrong with the arguments.
pub fn parse<T>(
    args: &[String],
    mut options: T,
    take: impl Fn(&mut T, &str, &mut dyn FnMut() -> Result<String, String>) -> Result<bool, String>,
) -> Result<Parsed<T>, String> {
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        let (name, inline) = match arg.split_once('=') {
            Some((name, value)) => (name, Some(value.to_owned())),
            None => (arg.as_str(), None),
        };
        if matches!(name, "--help" | "-h") {
            return Ok(Parsed::Help);
        }
        let mut value = || {
            inline.clone().or_else(|| args.next().cloned()).ok_or(format!("{name} needs a value"))
        };
        if !take(&mut options, name, &mut value)? {
            return Err(format!("unknown option {arg}"));
        }
    }
    Ok(Parsed::Run(options))
}

/// Runs a program: exit code 0 if it says true, 1 if not or if it fails, 2 for wrong arguments.
pub fn main<T>(
    parsed: Result<Parsed<T>, String>,
    usage: &str,
    run: impl AsyncFnOnce(T) -> Result<bool, String>,
) -> ExitCode {
    let options = match parsed {
        Ok(Parsed::Run(options)) => options,
        Ok(Parsed::Help) => {
            println!("{usage}");
            return ExitCode::SUCCESS;
        }
        Err(message) => {
            eprintln!("{message}\n\n{usage}");
            return ExitCode::from(2);
        }
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(run(options)),
        Err(e) => Err(format!("start a runtime: {e}")),
    };
    match result {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::FAILURE
        }
    }
}

/// A signal that ends a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stop {
    Interrupted,
    Terminated,
    TerminalGone,
}

impl Stop {
    /// What is said of it.
    pub const fn text(self) -> &'static str {
        match self {
            Stop::Interrupted => "interrupted: cleaning up",
            Stop::Terminated => "terminated: cleaning up",
            Stop::TerminalGone => "terminal gone: cleaning up",
        }
    }
}

/// Waits for the signal that ends a program.
///
/// # Errors
/// Signals cannot be listened for.
pub async fn stop() -> Result<Stop, String> {
    let failed = |e| format!("listen for signals: {e}");
    let mut interrupt = signal(SignalKind::interrupt()).map_err(failed)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(failed)?;
    let mut hangup = signal(SignalKind::hangup()).map_err(failed)?;
    tokio::select! {
        _ = interrupt.recv() => Ok(Stop::Interrupted),
        _ = terminate.recv() => Ok(Stop::Terminated),
        _ = hangup.recv() => Ok(Stop::TerminalGone),
    }
}

/// [`stop`] for a program that says no more of it.
///
/// # Errors
/// Always: which one came.
pub async fn stopped() -> Result<(), String> {
    Err(stop().await?.text().to_owned())
}

/// The value of option `name`, which must be a number from `min` to `max`.
///
/// # Errors
/// It is none, or outside.
pub fn number<T>(name: &str, text: &str, min: T, max: T) -> Result<T, String>
where
    T: std::str::FromStr + PartialOrd + std::fmt::Display,
{
    let wrong = || format!("{name} takes a number from {min} to {max}, not {text}");
    let value: T = text.parse().map_err(|_| wrong())?;
    if value < min || value > max { Err(wrong()) } else { Ok(value) }
}
