//! Three instances of one database.

use sim::{LoadKind, Scenario};

use crate::run_all;

fn three() -> Scenario {
    Scenario {
        instances: 3,
        clients_per_instance: 3,
        crashes: 0,
        blackouts: 0,
        ..Scenario::default()
    }
}

#[test]
fn three_instances_share_the_bank() {
    run_all("three instances", &three(), &[1]);
}

#[test]
fn three_instances_with_tiny_caches_share_the_bank() {
    let scenario = Scenario { cache_blocks: 128, load: LoadKind::Bank(600), ..three() };
    run_all("three tiny caches", &scenario, &[1]);
}

#[test]
fn the_cluster_survives_the_crash_of_single_instances() {
    run_all("single crashes", &Scenario { crashes: 3, ..three() }, &[1]);
}

#[test]
fn the_cluster_survives_the_crash_of_all_instances() {
    run_all("blackouts", &Scenario { crashes: 1, blackouts: 1, ..three() }, &[1]);
}
