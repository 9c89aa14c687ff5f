//! How fast the simulator is, and that it does not become slower unnoticed.
//!
//! Machines differ and are shared: what a processor does in a second says little. So commits and
//! block transfers are counted by the yard, which is the processor's time for a fixed piece of
//! work of the simulator's own kind (maps, copied blocks, checksums), measured beside them. The
//! best figures stand in a file, which only rises. Must never count idle virtual time, or runs that
//! did nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::hint::black_box;

/// What may be lost before it counts as slower.
const LEAST: f64 = 0.8;
/// What must be gained before the file is raised: less is the noise of a shared machine.
const GAIN: f64 = 1.05;

/// Medians of what is done in a yard.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Speed {
    pub commits: f64,
    pub transfers: f64,
}

/// What a measurement is beside the best one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Slower,
    AsGood,
    /// The file is to be written anew.
    Better,
}

impl Speed {
    /// The medians of many passes.
    ///
    /// # Panics
    /// Without any.
    #[must_use]
    pub fn median_of(passes: &[Speed]) -> Speed {
        let median = |of: fn(&Speed) -> f64| {
            let mut all: Vec<f64> = passes.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        Speed { commits: median(|s| s.commits), transfers: median(|s| s.transfers) }
    }

    /// # Errors
    /// What is wrong with the file's text.
    pub fn parse(text: &str) -> Result<Speed, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        let pairs: BTreeMap<&str, &str> = lines
            .filter_map(|line| line.split_once('='))
            .map(|(k, v)| (k.trim(), v.trim()))
            .collect();
        let number = |name: &str| {
            let text = pairs.get(name).ok_or(format!("there is no {name}"))?;
            text.parse::<f64>().map_err(|e| format!("{name} = {text}: {e}"))
        };
        Ok(Speed { commits: number("commits")?, transfers: number("transfers")? })
    }

    /// Commits decide: how many blocks travel for one is the load's affair.
    #[must_use]
    pub fn beside(&self, best: &Speed) -> Verdict {
        match self.commits / best.commits {
            ratio if ratio < LEAST => Verdict::Slower,
            ratio if ratio > GAIN => Verdict::Better,
            _ => Verdict::AsGood,
        }
    }
}

/// The file's text.
impl fmt::Display for Speed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Speed { commits, transfers } = self;
        writeln!(f, "# The simulator's best speed: what is done in a yard (`sim::ratchet`).")?;
        writeln!(f, "commits = {commits:.2}\ntransfers = {transfers:.1}")
    }
}

const BLOCK_BYTES: usize = 8192;
const BLOCKS: u64 = 4096;

/// A yard of work: some fifty milliseconds.
pub fn yard() {
    let mut blocks: BTreeMap<u64, Vec<u8>> = BTreeMap::new();
    let mut sum = 0_u32;
    let mut at = 1_u64;
    for _ in 0..4 * BLOCKS {
        // A linear congruential generator (Knuth, MMIX): every block is come to in disorder.
        at = at.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let key = (at >> 33) % BLOCKS;
        let block = blocks.entry(key).or_insert_with(|| vec![0; BLOCK_BYTES]);
        let mut copy = block.clone();
        let place = usize::try_from(at >> 40).expect("24 bits") % (BLOCK_BYTES - 8);
        copy[place..place + 8].copy_from_slice(&at.to_le_bytes());
        sum ^= crc32c::crc32c(&copy);
        *block = copy;
    }
    black_box((sum, blocks));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_much_slower_fails_and_only_what_is_better_is_kept() {
        let best = Speed { commits: 20.0, transfers: 300.0 };
        let of = |commits| Speed { commits, transfers: 1.0 }.beside(&best);
        assert_eq!([of(15.9), of(16.1), of(20.9), of(21.1)], {
            use Verdict::{AsGood, Better, Slower};
            [Slower, AsGood, AsGood, Better]
        });
    }

    #[test]
    fn a_file_is_read_back() {
        let speed = Speed { commits: 20.25, transfers: 300.5 };
        assert_eq!(Speed::parse(&speed.to_string()), Ok(speed));
        for bad in ["", "commits = 1", "commits = x\ntransfers = 2"] {
            assert!(Speed::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_median_of_each_counts() {
        let of = |commits, transfers| Speed { commits, transfers };
        let passes = [of(1.0, 9.0), of(3.0, 7.0), of(2.0, 8.0)];
        assert_eq!(Speed::median_of(&passes), of(2.0, 8.0));
    }
}
