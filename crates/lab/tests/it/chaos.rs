//! A short run of `cargo x chaos`: one seed, its events named so that each kind of check is met.

use std::process::Command;

use crate::{assert_nothing_left, filesystemio, text, work_dir};

#[test]
fn histories_hold_while_instances_are_killed_and_cut_off() {
    let dir = work_dir();
    let mut chaos = Command::new(env!("CARGO_BIN_EXE_skein-chaos"));
    chaos.args(["1", "--instances", "3", "--settle-ms", "500", "--work-dir"]).arg(&dir);
    chaos.args(["--only", "kill,kill-recovering,cut,slow-lun,kill-all"]);
    chaos.arg(format!("--set=filesystemio_options={}", filesystemio()));
    let out = chaos.output().expect("it runs");
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    for wanted in [
        "of unknown outcome",
        "a survivor's client waited up to",
        "blocks are served after",
        "no damage found",
        "seed 1: every history holds",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    println!("{said}");
    std::fs::remove_dir(&dir).expect("its own folder is gone");
    assert_nothing_left(&dir, &said);
}
