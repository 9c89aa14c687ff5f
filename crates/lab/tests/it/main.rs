//! The demonstration as a newcomer runs it, only smaller: to its end, kept, and interrupted.
//!
//! `SKEIN_BIN` names the server's binary; else it is looked for beside `skein-demo`.

mod chaos;

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Bound for waits that end by a condition.
const LIMIT: Duration = Duration::from_secs(60);

fn work_dir() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let n = NUMBER.fetch_add(1, Ordering::Relaxed);
    std::env::temp_dir().join(format!("skein-lab-it-{}-{n}", std::process::id()))
}

/// `none` where temporary files refuse direct I/O.
fn filesystemio() -> &'static str {
    use std::os::unix::fs::OpenOptionsExt;
    const O_DIRECT: i32 = 0o40000;
    let path = std::env::temp_dir().join(format!("skein-lab-direct-{}", std::process::id()));
    let opened =
        std::fs::File::options().create(true).append(true).custom_flags(O_DIRECT).open(&path);
    let _ = std::fs::remove_file(path);
    if opened.is_ok() { "setall" } else { "none" }
}

fn demo(dir: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_skein-demo"));
    command.arg("--work-dir").arg(dir).args(["--accounts", "3000", "--seconds", "9"]);
    command.args(["--clients", "2", "--set", "db_cache_size=32M"]);
    command.arg(format!("--set=filesystemio_options={}", filesystemio())).args(more);
    command
}

fn text(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// Processes whose command line names the folder.
fn processes_of(dir: &Path) -> Vec<String> {
    let dir = dir.to_str().expect("a plain path");
    let all = std::fs::read_dir("/proc").expect("/proc").filter_map(Result::ok);
    let lines = all.filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok());
    lines
        .map(|l| String::from_utf8_lossy(&l).replace('\0', " "))
        .filter(|l| l.contains(dir))
        .collect()
}

fn assert_nothing_left(dir: &Path, said: &str) {
    assert!(!dir.exists(), "{} is left: {said}", dir.display());
    let left = processes_of(dir);
    assert!(left.is_empty(), "{left:?} is left: {said}");
}

#[test]
fn it_ends_with_books_that_are_right_and_leaves_nothing() {
    let dir = work_dir();
    let out = demo(&dir, &[]).output().expect("it runs");
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    for wanted in [
        "instance 3 open on 127.0.0.1:",
        "3000 accounts loaded through 3 instances",
        "killed with SIGKILL",
        "instance 2 is open again",
        "Longest stall of a surviving instance's client: ",
        "gc current blocks received",
        "Top waits over all instances",
        "The books are right.",
    ] {
        assert!(said.contains(wanted), "{wanted}: {said}");
    }
    assert_nothing_left(&dir, &said);
}

#[test]
fn interrupted_at_any_time_it_leaves_nothing() {
    for (mark, signal) in [
        ("database skein made", "INT"),
        ("made and started", "TERM"),
        ("accounts loaded", "INT"),
        ("transfers a second", "HUP"),
        ("killed with SIGKILL", "INT"),
        ("is open again", "TERM"),
    ] {
        let dir = work_dir();
        let mut child = demo(&dir, &[]).stdout(Stdio::piped()).spawn().expect("it runs");
        let mut lines = BufReader::new(child.stdout.take().expect("its output")).lines();
        let seen = lines.by_ref().map_while(Result::ok).any(|line| line.contains(mark));
        assert!(seen, "it never said: {mark}");
        let kill = format!("kill -{signal} {}", child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("sh").success());
        let status = wait(&mut child);
        assert!(!status.success(), "{mark}");
        assert_nothing_left(&dir, mark);
    }
}

fn wait(child: &mut Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().expect("it can be waited for") {
            return status;
        }
        assert!(Instant::now() < deadline, "it does not end");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A line of what it said, from `start` on.
fn line_from<'a>(said: &'a str, start: &str) -> &'a str {
    let line = said.lines().find_map(|line| line.trim().strip_prefix(start));
    line.unwrap_or_else(|| panic!("no line begins with {start}: {said}"))
}

#[test]
fn a_kept_cluster_can_be_used_and_stopped_as_it_says() {
    let dir = work_dir();
    let out = demo(&dir, &["--keep"]).output().expect("it runs");
    let said = text(&out);
    assert!(out.status.success(), "{said}");
    let url = line_from(&said, "psql postgresql://");
    let mut psql = Command::new("psql");
    psql.args([&format!("postgresql://{url}"), "-X", "-A", "-t", "-c"]);
    let out = psql.arg("select count(*) from demo_account").output().expect("psql runs");
    assert_eq!(text(&out).trim(), "3000");

    // An instance that is missing in the gv$ views is a failure, not a gap in the report.
    let url = format!("postgresql://{url}");
    let connect = ["--connect", &url, "--connect", &url, "--connect", &url, "--connect", &url];
    let other = work_dir();
    let out = demo(&other, &connect).output().expect("it runs");
    let unread = text(&out);
    assert!(!out.status.success(), "{unread}");
    assert!(unread.contains("PROBLEM: the cluster's own counters cannot be read"), "{unread}");
    assert!(unread.contains("no row of instance 4"), "{unread}");

    let stop = said.lines().skip_while(|line| *line != "Stop it with:").nth(1).expect("a line");
    let out = Command::new("sh").args(["-c", stop]).output().expect("sh runs");
    assert!(out.status.success(), "{}", text(&out));
    // What is stopped has closed the database; its process ends a moment later.
    let deadline = Instant::now() + LIMIT;
    while !processes_of(&dir).is_empty() {
        assert!(Instant::now() < deadline, "{:?} is left", processes_of(&dir));
        std::thread::sleep(Duration::from_millis(20));
    }
    std::fs::remove_dir_all(&dir).expect("it can be removed");
}

#[test]
fn what_it_cannot_do_is_said() {
    let dir = work_dir();
    for bad in [&["--seconds", "x"][..], &["--instances", "9"], &["--fast"]] {
        let out = demo(&dir, bad).output().expect("it runs");
        assert_eq!(out.status.code(), Some(2), "{bad:?}");
        assert!(text(&out).contains("usage: ./demo"), "{bad:?}");
    }
    std::fs::create_dir_all(dir.join("mine")).expect("a folder");
    let out = demo(&dir, &[]).output().expect("it runs");
    assert!(!out.status.success() && text(&out).contains("is not empty"), "{}", text(&out));
    assert!(dir.join("mine").exists());
    std::fs::remove_dir_all(&dir).expect("it can be removed");
    let out = demo(&dir, &["--set", "no_such=1"]).output().expect("it runs");
    assert!(!out.status.success() && text(&out).contains("no_such"), "{}", text(&out));
    assert_nothing_left(&dir, "a wrong setting");
}
