//! What the demonstration was asked to do.

use std::path::PathBuf;

use crate::args::{self, Parsed, number};

pub const USAGE: &str = "\
usage: ./demo [OPTIONS]

Makes a database, starts its instances, loads accounts, runs transfers through all
instances, kills one with SIGKILL, restarts it, and checks that nothing acknowledged is lost.

  --accounts N      accounts to load (1000000)
  --seconds N       how long the transfers run (30); the kill comes after a third
  --clients N       clients for each instance (4)
  --instances N     instances, 2 to 8 (3)
  --set NAME=VALUE  a parameter for skein.toml; may be given several times
  --keep            leave the cluster running and say how to connect
  --work-dir DIR    where to work; removed at the end unless --keep
  --connect URL     use a server that runs already (once for each instance); no kill
  --help            this text";

/// Options with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    pub accounts: i32,
    pub seconds: u64,
    pub clients: usize,
    pub instances: usize,
    pub set: Vec<String>,
    pub keep: bool,
    pub work_dir: Option<PathBuf>,
    pub connect: Vec<String>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            accounts: 1_000_000,
            seconds: 30,
            clients: 4,
            instances: 3,
            set: Vec::new(),
            keep: false,
            work_dir: None,
            connect: Vec::new(),
        }
    }
}

/// # Errors
/// What is wrong with the arguments.
pub fn parse(args: &[String]) -> Result<Parsed<Options>, String> {
    let parsed = args::parse(args, Options::default(), |options, name, value| {
        match name {
            "--keep" => options.keep = true,
            "--accounts" => options.accounts = number(name, &value()?, 2, i32::MAX)?,
            "--seconds" => options.seconds = number(name, &value()?, 3, 86_400)?,
            "--clients" => options.clients = number(name, &value()?, 1, 1000)?,
            "--instances" => options.instances = number(name, &value()?, 2, 8)?,
            "--set" => options.set.push(value()?),
            "--work-dir" => options.work_dir = Some(PathBuf::from(value()?)),
            "--connect" => options.connect.push(value()?),
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    Ok(parsed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Parsed<Options>, String> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>())
    }

    #[test]
    fn options_are_read_in_both_forms() {
        let Ok(Parsed::Run(options)) = of("--accounts 10 --seconds=5 --keep --set a=b") else {
            panic!("refused");
        };
        assert_eq!((options.accounts, options.seconds, options.keep), (10, 5, true));
        assert_eq!(options.set, ["a=b"]);
        assert_eq!(of(""), Ok(Parsed::Run(Options::default())));
        assert_eq!(of("--keep --help"), Ok(Parsed::Help));
    }

    #[test]
    fn wrong_options_are_refused() {
        for bad in ["--seconds", "--seconds x", "--instances 1", "--accounts 1", "fast"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
