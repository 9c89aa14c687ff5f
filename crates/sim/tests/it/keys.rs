//! Foreign keys over three instances: no committed snapshot shows an orphan, whoever dies.

use sim::{LoadKind, Scenario};

use crate::run_all;

fn families(parents: i64) -> Scenario {
    Scenario {
        instances: 3,
        clients_per_instance: 3,
        crashes: 0,
        blackouts: 0,
        load: LoadKind::Family(parents),
        ..Scenario::default()
    }
}

#[test]
fn no_orphan_on_three_instances() {
    run_all("families", &families(12), &[1, 2]);
}

#[test]
fn no_orphan_in_a_crowd_on_few_parents() {
    run_all("few parents", &Scenario { clients_per_instance: 6, ..families(3) }, &[1, 2]);
}

#[test]
fn no_orphan_after_crashes() {
    let scenario = Scenario { crashes: 3, blackouts: 1, ..families(8) };
    run_all("families, crashes", &scenario, &[1, 2]);
}

#[test]
fn no_orphan_when_instances_leave_and_recovery_is_interrupted() {
    let scenario = Scenario { stops: 1, double_crashes: 1, ..families(8) };
    run_all("families, stops", &scenario, &[1]);
}
