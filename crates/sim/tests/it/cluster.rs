//! Three instances of one database.

use std::time::Duration;

use sim::{LoadKind, Mix, Scenario, Sizes};

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
    run_all("single crashes", &Scenario { crashes: 3, ..three() }, &[1, 2, 16, 38]);
}

#[test]
fn the_cluster_survives_the_crash_of_all_instances() {
    run_all("blackouts", &Scenario { crashes: 1, blackouts: 1, ..three() }, &[1, 38]);
}

#[test]
fn h24_a_second_crash_meets_recovery() {
    run_all("double crashes", &Scenario { double_crashes: 3, ..three() }, &[1]);
}

#[test]
fn c16_instances_leave_and_join_under_load() {
    run_all("stops", &Scenario { stops: 4, crashes: 1, ..three() }, &[1, 27]);
}

#[test]
fn an_instance_that_stands_still_is_put_out() {
    let misscount = Duration::from_millis(300);
    run_all("pauses", &Scenario { pauses: 2, misscount, ..three() }, &[1]);
}

#[test]
fn m6_an_instance_of_which_a_message_task_hangs_is_put_out() {
    let misscount = Duration::from_millis(300);
    run_all("hangs", &Scenario { hangs: 3, crashes: 1, misscount, ..three() }, &[1]);
}

#[test]
fn c4_one_side_of_a_cut_network_is_put_out() {
    let misscount = Duration::from_millis(300);
    let scenario = Scenario { cuts: 1, clients_per_instance: 1, misscount, ..three() };
    run_all("cuts", &scenario, &[1]);
}

#[test]
fn crashes_in_the_middle_of_opening() {
    let scenario = Scenario { crashes: 3, crashes_while_opening: 60, ..three() };
    run_all("crashes while opening", &scenario, &[1, 9]);
}

fn mixed() -> Scenario {
    let mix = Mix { fillers: vec![10, 900, 9000], ..Mix::default() };
    Scenario { load: LoadKind::Mixed(mix), ..three() }
}

#[test]
fn the_mixed_load_survives_everything() {
    let all = Scenario { crashes: 1, stops: 1, double_crashes: 1, blackouts: 1, ..mixed() };
    run_all("mixed, everything", &all, &[1, 101]);
}

#[test]
fn h17_tiny_log_files_on_three_instances() {
    let sizes = Sizes { log_files: 2, log_file_bytes: 1 << 20, ..Sizes::default() };
    run_all("three tiny logs", &Scenario { sizes, crashes: 1, ..mixed() }, &[1, 304]);
}
