//! What a run was asked to do.

use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use super::harm::Harm;
use crate::args::{self, Parsed, number};

pub const USAGE: &str = "\
usage: cargo x chaos [SEED] [OPTIONS]

Makes a database, starts three to five instances as processes, loads them through
PostgreSQL connections, harms them in ways that the seed chooses, and checks what every
client was told: list-append transactions, registers, bank totals, acknowledged
transfers. `skein verify` has the last word. The folder of a run that fails is kept.

  --seed N          the seed (also as the first argument); else one of its own, printed
  --minutes M       goes on with the next seed until M minutes have passed
  --harms N         how many harmful events a run has (7)
  --only NAME,…     only these, in this order, instead of those that the seed chooses
  --instances N     how many instances (3 to 5; else the seed says)
  --settle-ms N     how long the load goes on undisturbed after each event (1500)
  --work-dir DIR    where to work (else a temporary folder)
  --set NAME=VALUE  a parameter of all instances
  --help            this text

Harmful events:";

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub seed: u64,
    pub minutes: u64,
    pub harms: usize,
    pub only: Vec<Harm>,
    pub instances: Option<usize>,
    pub settle_ms: u64,
    pub work_dir: Option<PathBuf>,
    pub set: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seed: SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |d| d.as_secs()),
            minutes: 0,
            harms: 7,
            only: Vec::new(),
            instances: None,
            settle_ms: 1500,
            work_dir: None,
            set: Vec::new(),
        }
    }
}

/// The text of `--help`.
#[must_use]
pub fn usage() -> String {
    let mut text = USAGE.to_owned();
    for harm in Harm::ALL {
        text.push_str(&format!("\n  {:<16}{}", harm.name(), harm.what()));
    }
    text
}

/// # Errors
/// What is wrong with the arguments.
pub fn parse(args: &[String]) -> Result<Parsed<Options>, String> {
    let mut options = Options::default();
    let rest = match args.split_first() {
        Some((first, rest)) if !first.starts_with('-') => {
            options.seed = number("SEED", first, 0, u64::MAX)?;
            rest
        }
        _ => args,
    };
    args::parse(rest, options, |options, name, value| {
        match name {
            "--seed" => options.seed = number(name, &value()?, 0, u64::MAX)?,
            "--minutes" => options.minutes = number(name, &value()?, 0, 100_000)?,
            "--harms" => options.harms = number(name, &value()?, 1, 1000)?,
            "--only" => {
                let names = value()?;
                let found = names.split(',').map(|name| {
                    Harm::named(name).ok_or_else(|| format!("there is no harmful event {name}"))
                });
                options.only = found.collect::<Result<_, _>>()?;
            }
            "--instances" => options.instances = Some(number(name, &value()?, 3, 5)?),
            "--settle-ms" => options.settle_ms = number(name, &value()?, 0, 600_000)?,
            "--work-dir" => options.work_dir = Some(PathBuf::from(value()?)),
            "--set" => options.set.push(value()?),
            _ => return Ok(false),
        }
        Ok(true)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Parsed<Options>, String> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read() {
        let Ok(Parsed::Run(options)) = of("17 --only kill,cut --instances=4") else {
            panic!("refused");
        };
        assert_eq!((options.seed, options.instances), (17, Some(4)));
        assert_eq!(options.only, [Harm::Kill, Harm::Cut]);
        assert_eq!(of("--help"), Ok(Parsed::Help));
        for bad in ["x", "--only nothing", "--instances 2", "--instances 6", "--harms 0"] {
            assert!(of(bad).is_err(), "{bad}");
        }
        assert!(usage().contains("kill-two"));
    }
}
