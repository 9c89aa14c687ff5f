//! The seeds that run in every test.
//!
//! `SKEIN_SIM_SEED=n` runs that seed only. `SKEIN_SIM_FRESH_SEED=n` adds one that nobody chose. A
//! seed that has found a bug stays in the list of its scenario.

mod cluster;
mod copies;
mod counts;
mod direct;
mod enqueues;
mod formats;
mod hanging;
mod hazards;
mod hazards_cluster;
mod hazards_read;
mod keys;
mod rows;
mod scenarios;
mod sequences;
mod sharing;

use sim::{LoadKind, Mix, Scenario, Sizes, run};

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} is a number, not {text:?}")))
}

/// The seeds to run: those given and a fresh one.
fn seeds(fixed: &[u64]) -> Vec<u64> {
    if let Some(one) = number("SKEIN_SIM_SEED") {
        return vec![one];
    }
    let mut seeds = fixed.to_vec();
    seeds.extend(number("SKEIN_SIM_FRESH_SEED"));
    seeds
}

/// Runs every seed twice: the second run must be the first one again.
fn run_all(name: &str, scenario: &Scenario, fixed: &[u64]) {
    run_seeds(name, scenario, &seeds(fixed));
}

fn run_seeds(name: &str, scenario: &Scenario, seeds: &[u64]) {
    for &seed in seeds {
        println!("{name}: seed {seed}");
        let report = run(seed, scenario);
        println!("{name}: seed {seed}: {report:?}");
        assert!(report.counts.acknowledged > 0, "{name}: seed {seed}: nothing was done");
        assert_eq!(run(seed, scenario), report, "{name}: seed {seed} is not reproducible");
    }
}

fn alone() -> Scenario {
    Scenario { instances: 1, crashes: 0, blackouts: 3, calm_us: 200_000, ..Scenario::default() }
}

fn mixed(mix: Mix) -> Scenario {
    Scenario { load: LoadKind::Mixed(mix), clients_per_instance: 6, ..alone() }
}

#[test]
fn bank_survives_crashes() {
    run_all("bank", &alone(), &[1]);
}

#[test]
fn bank_with_a_tiny_cache_survives_crashes() {
    let load = LoadKind::Bank(2000);
    run_all("tiny cache", &Scenario { cache_blocks: 128, load, ..alone() }, &[1]);
}

#[test]
fn mixed_load_survives_crashes_also_while_it_opens() {
    let scenario = Scenario { stops: 1, crashes_while_opening: 60, ..mixed(Mix::default()) };
    run_all("mixed", &scenario, &[1]);
}

#[test]
fn crowd_on_few_rows() {
    let mix = Mix { items: 6, fillers: vec![700, 1250, 1300], ..Mix::default() };
    run_all("crowd", &Scenario { clients_per_instance: 20, ..mixed(mix) }, &[1]);
}

#[test]
fn long_rows_migrate_and_chain() {
    let mix = Mix { items: 8, fillers: vec![10, 3000, 9000, 40_000], ..Mix::default() };
    run_all("long rows", &mixed(mix), &[1]);
}

#[test]
fn no_retention() {
    let mix = Mix { items: 30, looks: 4, ..Mix::default() };
    run_all("no retention", &Scenario { undo_retention_s: 0, ..mixed(mix) }, &[1]);
}

#[test]
fn h16_tiny_log_files() {
    let mix = Mix { fillers: vec![10, 900, 9000], ..Mix::default() };
    let sizes = Sizes { log_files: 2, log_file_bytes: 1 << 20, ..Sizes::default() };
    run_all("tiny log", &Scenario { sizes, ..mixed(mix) }, &[1]);
}

#[test]
fn full_disk_group() {
    let mix = Mix { items: 150, fillers: vec![10, 9000, 40_000, 90_000], ..Mix::default() };
    let sizes = Sizes { lun_bytes: 26 << 20, ..Sizes::default() };
    run_all("full disk", &Scenario { sizes, ..mixed(mix) }, &[1]);
}
