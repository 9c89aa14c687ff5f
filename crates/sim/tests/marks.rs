//! Scenarios that need marks, each from a few seeds: second crashes at each step of recovery,
//! crashes at disk writes in turn, everything together. What is passed in all of them must be most
//! of what there is; `cargo x sim` says what is left.

use std::collections::BTreeMap;
use std::path::Path;

use env::marks::{self, Mark, Point};
use sim::Scenario;

fn scenario(name: &str) -> Scenario {
    let path = Path::new("scenarios").join(format!("{name}.scenario"));
    let text = std::fs::read_to_string(&path).expect("a scenario file");
    Scenario::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Scenario and seeds.
const RUNS: &[(&str, std::ops::RangeInclusive<u64>)] = &[
    ("recovery", 1..=3),
    ("writes", 1..=8),
    ("log", 1..=2),
    ("log", 91..=91),
    ("log", 138..=138),
    ("log", 335..=335),
    ("redo-full", 1..=2),
    ("histories", 1..=2),
    ("smallest", 1..=2),
    ("smallest", 229..=229),
];

#[test]
fn marks_are_reached_and_points_taken() {
    let mut reached: BTreeMap<Mark, u64> = BTreeMap::new();
    let mut taken: BTreeMap<Point, u64> = BTreeMap::new();
    for (name, seeds) in RUNS {
        let scenario = scenario(name);
        for seed in seeds.clone() {
            println!("{name}: seed {seed}");
            let report = sim::run(seed, &scenario);
            assert!(report.counts.acknowledged >= scenario.commits_at_least.max(1));
            assert!(report.faults > 0, "{name}: seed {seed}: nothing happened");
            for (mark, count) in marks::counts() {
                *reached.entry(mark).or_default() += count;
            }
            for (point, count) in marks::taken_points() {
                *taken.entry(point).or_default() += count;
            }
        }
    }
    let never: Vec<&str> = reached.iter().filter(|r| *r.1 == 0).map(|r| r.0.name()).collect();
    println!("never reached: {never:?}");
    assert!(reached[&Mark::LogFull] > 0, "no log file is ever full");
    // The steps of recovery are what a second crash is aimed at.
    let steps = Mark::ALL.iter().filter(|m| m.name().starts_with("recovery."));
    let missed: Vec<&str> =
        steps.filter(|m| reached[m] == 0).map(|m| m.name()).filter(|m| !RARE.contains(m)).collect();
    assert!(missed.is_empty(), "never reached: {missed:?}");
    assert!(never.len() * 4 <= Mark::ALL.len(), "never reached: {never:?}");
    assert!(taken.values().any(|count| *count > 0), "no point is ever taken");
}

/// A few seeds need not come there.
const RARE: [&str; 3] = ["recovery.torn_restored", "recovery.base_asked", "recovery.overtaken"];
