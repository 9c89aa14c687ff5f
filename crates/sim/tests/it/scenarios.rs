//! The scenario files, each from a few seeds: those that have found a bug stay.

use std::path::Path;

use sim::Scenario;

use crate::run_all;

fn run_file(name: &str, seeds: &[u64]) {
    let path = Path::new("scenarios").join(format!("{name}.scenario"));
    let text = std::fs::read_to_string(&path).expect("a scenario file");
    let scenario = Scenario::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    run_all(name, &scenario, seeds);
}

/// Seed 1795389314: who had adopted a dead instance's undo had a peer read it from disk, where a
/// write that the crash had torn was not yet recovered.
#[test]
fn storm() {
    run_file("storm", &[1, 1_795_389_314]);
}

#[test]
fn bank() {
    run_file("bank", &[6]);
}

/// Seed 1: what was known of a transaction was forgotten while others were asked about, and the
/// change of a block ended in a panic.
#[test]
fn tiny() {
    run_file("tiny", &[1]);
}

#[test]
fn disks() {
    run_file("disks", &[11]);
}

#[test]
fn leases() {
    run_file("leases", &[1, 2]);
}

#[test]
fn mutants() {
    run_file("mutants", &[1]);
}
