//! What the load was asked to do.

use crate::args::{self, Parsed, number};

pub const USAGE: &str = "\
usage: skein-tpcc --connect URL [--connect URL…] [OPTIONS]

Makes the nine tables of TPC-C, fills them, runs its five transactions through all
servers named (one URL for each instance; one URL several times is one server) and
checks the twelve consistency conditions from every one of them meanwhile.
Tables of these names that are there already are dropped.

  --warehouses N    warehouses (3)
  --items N         items, and rows of stock for each warehouse (100000)
  --customers N     customers of a district, of which there are 10 (3000)
  --clients N       clients for each URL (4)
  --seconds N       how long they run (30)
  --transactions N  how many transactions each client makes, instead of a time
  --check-every N   seconds between two rounds of checks from one instance (10)
  --partitioned     clients of an instance stay with warehouses of its own; otherwise every
                    transaction chooses its home among all
  --foreign-keys    tables with TPC-C's foreign keys
  --seed N          begins the random numbers (1)
  --help            this text";

/// Options with their defaults.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// One URL for each instance.
    pub connect: Vec<String>,
    pub warehouses: i32,
    pub items: i32,
    /// Of each district.
    pub customers: i32,
    /// For each URL.
    pub clients: usize,
    pub seconds: u64,
    /// Of each client; takes the place of `seconds`.
    pub transactions: Option<u64>,
    pub check_every_s: u64,
    pub partitioned: bool,
    pub foreign_keys: bool,
    pub seed: u32,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            connect: Vec::new(),
            warehouses: 3,
            items: 100_000,
            customers: 3000,
            clients: 4,
            seconds: 30,
            transactions: None,
            check_every_s: 10,
            partitioned: false,
            foreign_keys: false,
            seed: 1,
        }
    }
}

/// # Errors
/// What is wrong with the arguments.
pub fn parse(args: &[String]) -> Result<Parsed<Options>, String> {
    let parsed = args::parse(args, Options::default(), |options, name, value| {
        match name {
            "--connect" => options.connect.push(value()?),
            "--warehouses" => options.warehouses = number(name, &value()?, 1, 10_000)?,
            "--items" => options.items = number(name, &value()?, 20, 100_000)?,
            "--customers" => options.customers = number(name, &value()?, 10, 3000)?,
            "--clients" => options.clients = number(name, &value()?, 1, 1000)?,
            "--seconds" => options.seconds = number(name, &value()?, 1, 86_400)?,
            "--transactions" => {
                options.transactions = Some(number(name, &value()?, 1, 1_000_000_000)?);
            }
            "--check-every" => options.check_every_s = number(name, &value()?, 0, 86_400)?,
            "--partitioned" => options.partitioned = true,
            "--foreign-keys" => options.foreign_keys = true,
            "--seed" => options.seed = number(name, &value()?, 0, 100_000)?,
            _ => return Ok(false),
        }
        Ok(true)
    })?;
    if matches!(&parsed, Parsed::Run(options) if options.connect.is_empty()) {
        return Err("--connect names no server".to_owned());
    }
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
        let text = "--connect a --connect=b?c=d --items 20 --transactions=7 --partitioned";
        let Ok(Parsed::Run(options)) = of(text) else {
            panic!("refused");
        };
        assert_eq!(options.connect, ["a", "b?c=d"]);
        assert_eq!((options.items, options.transactions), (20, Some(7)));
        assert!(options.partitioned && !options.foreign_keys);
        assert_eq!(of("--help"), Ok(Parsed::Help));
    }

    #[test]
    fn wrong_options_are_refused() {
        for bad in ["", "--connect", "--connect a --items 19", "--connect a fast"] {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
