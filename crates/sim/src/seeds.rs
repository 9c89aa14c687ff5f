//! The log of seeds that have passed: a line each, so that a long search is done in parts.
//!
//! `SEED commits N transfers N faults N virtual_ms N trace X`; lines that begin with `#` name the
//! scenario and the program. It promises to go on after the highest seed, and never to mix the
//! seeds of two scenarios. Must never count a run that did too little to prove anything.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::Path;

use crate::scenario::Report;

/// What a run must have done to count.
const COMMITS_MIN: usize = 500;
const TRANSFERS_MIN: u64 = 50;
const FAULTS_MIN: usize = 1;

#[derive(Default, Debug, PartialEq, Eq)]
struct Totals {
    seeds: u64,
    short: u64,
    last: u64,
    commits: u64,
    transfers: u64,
    faults: u64,
}

impl Totals {
    fn add(&mut self, seed: u64, commits: u64, transfers: u64, faults: u64) {
        let counts = commits >= COMMITS_MIN as u64
            && transfers >= TRANSFERS_MIN
            && faults >= FAULTS_MIN as u64;
        self.last = self.last.max(seed);
        if counts {
            self.seeds += 1;
            self.commits += commits;
            self.transfers += transfers;
            self.faults += faults;
        } else {
            self.short += 1;
        }
    }

    fn read(text: &str) -> io::Result<Totals> {
        let mut totals = Totals::default();
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let number = |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok());
            let (Some(seed), Some(commits), Some(transfers), Some(faults)) =
                (number(0), number(2), number(4), number(6))
            else {
                let why = format!("\"{line}\" is no line of a log of seeds");
                return Err(io::Error::new(io::ErrorKind::InvalidData, why));
            };
            totals.add(seed, commits, transfers, faults);
        }
        Ok(totals)
    }
}

/// A log that is written to.
pub struct SeedLog {
    file: File,
    totals: Totals,
}

impl SeedLog {
    /// # Errors
    /// It cannot be read or written, or is another scenario's.
    pub fn open(path: &Path, scenario: &Path) -> io::Result<SeedLog> {
        let text = match std::fs::read_to_string(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => String::new(),
            read => read?,
        };
        let name = scenario.file_stem().unwrap_or_default().to_string_lossy();
        let head = format!("# scenario {name}");
        if let Some(other) = text.lines().find(|l| l.starts_with("# scenario ") && **l != head) {
            let why = format!("it has \"{other}\", not \"{head}\"");
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        let totals = Totals::read(&text)?;
        let mut file = OpenOptions::new().create(true).append(true).open(path)?;
        if text.is_empty() {
            writeln!(file, "{head}")?;
        }
        let program = std::fs::read(std::env::current_exe()?)?;
        writeln!(file, "# program {:08x}", crc32c::crc32c(&program))?;
        Ok(SeedLog { file, totals })
    }

    /// The seed after the highest one in it.
    pub fn next(&self) -> u64 {
        self.totals.last + 1
    }

    /// # Errors
    /// It cannot be written.
    pub fn add(&mut self, seed: u64, report: &Report) -> io::Result<()> {
        let commits = report.counts.acknowledged as u64;
        let Report { transfers, faults, virtual_us, trace_hash, .. } = report;
        self.totals.add(seed, commits, *transfers, *faults as u64);
        writeln!(
            self.file,
            "{seed} commits {commits} transfers {transfers} faults {faults} virtual_ms {} trace \
             {trace_hash:016x}",
            virtual_us / 1000
        )
    }

    pub fn summary(&self) -> String {
        let Totals { seeds, short, commits, transfers, faults, .. } = &self.totals;
        format!(
            "the log holds {seeds} seeds with {COMMITS_MIN} commits, {TRANSFERS_MIN} block \
             transfers and {FAULTS_MIN} fault at least ({commits} commits, {transfers} transfers, \
             {faults} faults in all), and {short} that did less"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_is_read_as_it_was_written() {
        let text = "# scenario storm\n# program 00000000\n\
                    3 commits 600 transfers 70 faults 2 virtual_ms 10 trace 0000\n\
                    4 commits 499 transfers 70 faults 2 virtual_ms 10 trace 0000\n\
                    9 commits 500 transfers 50 faults 1 virtual_ms 10 trace 0000\n";
        let totals = Totals::read(text).expect("a log");
        let Totals { seeds, short, last, commits, transfers, faults } = totals;
        assert_eq!((seeds, short, last), (2, 1, 9));
        assert_eq!((commits, transfers, faults), (1100, 120, 3));
        assert!(Totals::read("3 commits x").is_err());
    }
}
