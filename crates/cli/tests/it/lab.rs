//! The lab with real processes, at small sizes: what it counts is exact, what it leaves is nothing.
//!
//! Times depend on what else the machine does: they decide the exit code, and no test.

use crate::db::{Folder, all_text, fail, filesystemio, skein, succeed};
use serde_json::Value;
use std::process::Output;

/// One turn of each side; the figures.
fn run(experiment: &str, arguments: &[&str]) -> (Output, Value) {
    let folder = Folder::new();
    let mut command = skein();
    command.args(["lab", "run", experiment, "--json", "--rounds", "1", "--dir"]).arg(&folder.0);
    for setting in ["db_cache_size=32M", "log_file_size=8M", filesystemio()] {
        command.args(["--set", setting]);
    }
    let out = command.args(arguments).output().expect("the program runs");
    let text = String::from_utf8_lossy(&out.stdout);
    let json = serde_json::from_str(&text).unwrap_or_else(|e| panic!("{e}: {}", all_text(&out)));
    assert!(!folder.0.exists(), "{} is left", folder.0.display());
    (out, json)
}

/// Every count is exact, there are some, and the exit code and the verdict follow from the checks.
fn counts_hold(out: &Output, json: &Value) -> usize {
    let checks = json["checks"].as_array().expect("checks");
    let fails = |check: &&Value| {
        check["holds"] == false && (check["kind"] == "count" || check["kind"] == "effect")
    };
    let failed: Vec<&Value> = checks.iter().filter(fails).collect();
    let counts = checks.iter().filter(|check| check["kind"] == "count");
    let wrong: Vec<&Value> = counts.clone().filter(|check| check["holds"] == false).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    let (code, verdict) = match (failed.is_empty(), json["not_tested"].is_null()) {
        (true, true) => (0, "reproduced"),
        (true, false) => (7, "not tested"),
        (false, _) => (6, "not reproduced"),
    };
    assert_eq!((out.status.code(), json["verdict"].as_str()), (Some(code), Some(verdict)));
    counts.count()
}

#[test]
fn the_list_tells_of_each_experiment() {
    let list = succeed(skein().args(["lab", "list"]));
    for name in ["myth1: ", "myth2: ", "myth4: ", "myth5: ", "myth6: ", "hot-table: "] {
        assert!(list.contains(name), "{list}");
    }
    assert_eq!(list.matches("takes about").count(), 6, "{list}");
}

#[test]
fn a_run_that_cannot_begin_says_why() {
    let said = fail(2, skein().args(["lab", "run", "myth9"]));
    assert!(said.contains("there is no experiment myth9; there are myth1"), "{said}");
    let said = fail(2, skein().args(["lab", "run", "myth2", "--instances", "2"]));
    assert!(said.contains("myth2 takes 3 to 8 instances, not 2"), "{said}");
    fail(2, skein().args(["lab", "run", "myth5", "--scale", "0"]));
    let full = Folder::new();
    std::fs::create_dir(&full.0).unwrap();
    std::fs::write(full.0.join("mine"), "kept").unwrap();
    let said = fail(1, skein().args(["lab", "run", "myth5", "--dir"]).arg(&full.0));
    assert!(said.contains("is not empty") && full.0.join("mine").exists(), "{said}");
}

#[test]
fn sequences_change_the_dictionary_once_a_range() {
    let page = Folder::new();
    std::fs::create_dir(&page.0).unwrap();
    let path = page.0.join("report.html");
    let report = path.display().to_string();
    let (out, json) = run("myth4", &["--scale", "0.002", "--report", &report]);
    // Times of 20 inserts are not judged.
    assert_eq!(out.status.code(), Some(7), "{json}");
    // Two walks; three caches, three ways, three counts each.
    assert_eq!(counts_hold(&out, &json), 29);
    assert!(json["figures"]["cache_1.ratio"].as_f64().is_some_and(|ratio| ratio > 0.0), "{json}");
    let html = std::fs::read_to_string(path).unwrap();
    assert!(html.contains("<svg") && html.contains("81.2 s") && html.ends_with("</html>\n"));
}

#[test]
fn a_scan_visits_its_segment_and_an_index_three_blocks() {
    let (out, json) = run("myth5", &["--scale", "0.001"]);
    assert_eq!(counts_hold(&out, &json), 12);
    assert!(json["figures"]["segment_blocks"].as_f64().is_some_and(|n| n > 30.0), "{json}");
}

#[test]
fn a_count_by_a_bitmap_visits_two_blocks() {
    let (out, json) = run("myth6", &["--scale", "0.01"]);
    // Three counts for each of three sessions, and what an insert waits for.
    assert_eq!(counts_hold(&out, &json), 10);
    assert!(json["figures"]["all.cpu_us"].as_f64().is_some_and(|us| us > 0.0), "{json}");
}

/// The delay is far above anything else here, so that its effect is no matter of speed.
#[test]
fn a_slow_log_writer_is_named_as_the_culprit() {
    let (out, json) = run("myth2", &["--scale", "0.15", "--delay-ms", "0,400"]);
    assert_eq!(counts_hold(&out, &json), 4);
    let checks = json["checks"].as_array().unwrap();
    let culprit =
        checks.iter().find(|c| c["what"] == "delay 400 ms, round 1: the culprit").unwrap();
    assert_eq!(culprit["found"], "log writer of instance 3", "{json}");
}

#[test]
fn block_servers_are_tried_at_each_priority_that_is_allowed() {
    let (out, json) = run("myth1", &["--scale", "0.05", "--burners", "1"]);
    if !json["not_tested"].is_null() {
        assert_eq!(out.status.code(), Some(7), "{json}");
        return;
    }
    assert_eq!(counts_hold(&out, &json), 6);
    for priority in ["ordinary", "nice__20", "real_time"] {
        let ratio = json["figures"][format!("{priority}.ratio")].as_f64();
        assert!(ratio.is_some_and(|ratio| ratio > 0.0), "{priority}: {json}");
    }
}

#[test]
fn clients_of_a_hot_table_lose_no_change() {
    let (out, json) = run("hot-table", &["--scale", "0.1"]);
    assert_eq!(counts_hold(&out, &json), 8);
    assert!(json["figures"]["group_3.rows_s"].as_f64().is_some(), "{json}");
}
