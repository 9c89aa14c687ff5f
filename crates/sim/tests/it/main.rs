//! The seeds that run in every test.

mod cluster;
mod enqueues;

use sim::{Scenario, run};

fn seeds() -> Vec<u64> {
    if let Ok(one) = std::env::var("SKEIN_SIM_SEED") {
        return vec![one.parse().expect("SKEIN_SIM_SEED is a number")];
    }
    let mut seeds: Vec<u64> = (1..=6).collect();
    if let Ok(fresh) = std::env::var("SKEIN_SIM_FRESH") {
        seeds.extend(fresh.split(',').filter_map(|s| s.trim().parse::<u64>().ok()));
    }
    seeds
}

fn alone() -> Scenario {
    Scenario { instances: 1, crashes: 0, blackouts: 3, ..Scenario::default() }
}

fn run_all(name: &str, scenario: &Scenario) {
    for seed in seeds() {
        println!("{name}: seed {seed}");
        let report = run(seed, scenario);
        println!("{name}: seed {seed}: {report:?}");
        assert!(report.acknowledged > 0, "seed {seed}: nothing was done");
        assert_eq!(run(seed, scenario), report, "{name}: seed {seed} is not reproducible");
    }
}

#[test]
fn one_instance_survives_crashes() {
    run_all("one instance", &alone());
}

#[test]
fn one_instance_with_a_tiny_cache_survives_crashes() {
    let scenario = Scenario { cache_blocks: 128, accounts: 2000, ..alone() };
    run_all("tiny cache", &scenario);
}
