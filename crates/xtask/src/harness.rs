//! Runs test executables and adds up what they say.
//!
//! What it promises: a harness that crashes, hangs or prints no result counts as a failure.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// The longest one test executable may take.
const LIMIT: Duration = Duration::from_mins(20);

/// Lines that are kept of what one harness says of its failures.
const TOLD_LINES: usize = 60;

/// Sums over all that was run.
#[derive(Clone, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
    /// What failed, and what was said of it.
    told: Vec<String>,
}

impl Tally {
    /// Counts one check that is not a test of a harness.
    pub fn check(&mut self, name: &str, ok: bool) {
        if ok {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("FAILED: {name}");
            self.told.push(format!("FAILED: {name}"));
        }
    }

    fn add(&mut self, harness: &str, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
        if other.failed > 0 {
            self.told.push(format!("FAILED: {} of {harness}", other.failed));
            self.told.extend(other.told);
        }
    }

    /// The last line; whether all is well. Nothing run at all is not. What failed is said once more
    /// before it: the end of a long output is what is read, or kept.
    pub fn finish(self) -> bool {
        for line in &self.told {
            println!("{line}");
        }
        if self.ignored > 0 {
            println!("{} ignored", self.ignored);
        }
        println!("{} passed, {} failed", self.passed, self.failed);
        self.failed == 0 && self.passed > 0
    }
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn parse_result(line: &str) -> Option<Tally> {
    let rest = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
    let number = |word: &str| -> Option<u64> {
        let part = rest.split(';').find(|p| p.trim().ends_with(word))?;
        part.trim().strip_suffix(word)?.trim().parse().ok()
    };
    Some(Tally {
        passed: number("passed")?,
        failed: number("failed")?,
        ignored: number("ignored")?,
        told: Vec::new(),
    })
}

/// How one executable is run.
pub struct Harness<'a> {
    pub name: String,
    pub exe: &'a Path,
    pub dir: &'a Path,
    pub args: &'a [&'a str],
    pub env: &'a [(&'a str, String)],
}

impl Harness<'_> {
    /// Runs it and adds its results.
    pub fn run(&self, tally: &mut Tally) -> Result<(), String> {
        println!("== {}", self.name);
        let started = Instant::now();
        let mut child = Command::new(self.exe)
            .current_dir(self.dir)
            .args(self.args)
            .envs(self.env.iter().map(|(k, v)| (k, v)))
            .env("CARGO_MANIFEST_DIR", self.dir)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|e| format!("run {}: {e}", self.name))?;
        let stdout = child.stdout.take().ok_or("no output")?;
        // Read beside the wait, so that a full pipe does not look like a hang.
        let reader = thread::spawn(move || relay(BufReader::new(stdout)));
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|e| format!("wait: {e}"))? {
                break Some(status);
            }
            if started.elapsed() > LIMIT {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            thread::sleep(Duration::from_millis(20));
        };
        let Some(status) = status else {
            // Children of the test may hold the pipe open: the reader is left behind.
            tally.check(&format!("{}: not done after {} s", self.name, LIMIT.as_secs()), false);
            return Ok(());
        };
        let found = reader.join().unwrap_or(None);
        match found {
            Some(result) => {
                let failed = result.failed;
                tally.add(&self.name, result);
                if !status.success() && failed == 0 {
                    tally.check(&format!("{}: {status}", self.name), false);
                }
            }
            None => tally.check(&format!("{}: no result, {status}", self.name), false),
        }
        Ok(())
    }
}

/// Shows the output and returns the last result in it, with what is said of failures before it. A
/// harness of a library without tests says so in one line, which is left out.
fn relay(lines: impl BufRead) -> Option<Tally> {
    let mut result: Option<Tally> = None;
    let mut told = None;
    for line in lines.lines().map_while(Result::ok) {
        if !line.is_empty() {
            println!("{line}");
        }
        if let Some(found) = parse_result(&line) {
            result = Some(Tally { told: told.take().unwrap_or_default(), ..found });
        } else if line == "failures:" && told.is_none() {
            told = Some(Vec::new());
        } else if let Some(told) = &mut told
            && !line.is_empty()
            && !is_frame(&line)
            && told.len() < TOLD_LINES
        {
            told.push(line);
        }
    }
    result
}

/// Whether a line is one of a stack's: a frame, or its place.
fn is_frame(line: &str) -> bool {
    let line = line.trim_start();
    let number = line.split_once(": ").map(|(number, _)| number);
    line.starts_with("at ") || number.is_some_and(|n| n.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let line = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured";
        let expected = Tally { passed: 3, failed: 1, ignored: 2, told: Vec::new() };
        assert_eq!(parse_result(line), Some(expected));
        assert_eq!(parse_result("test a ... ok"), None);
        let out = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; \
                   0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(relay(out.as_bytes()), Some(Tally { passed: 1, ..Tally::default() }));
    }

    #[test]
    fn what_failed_is_kept_without_its_stack() {
        let out = "test a ... FAILED\n\nfailures:\n\n---- a stdout ----\nit is 1: not 2\n   3: main\n  \
                   at ./a.rs:4\n\nfailures:\n    a\n\ntest result: FAILED. 0 passed; 1 failed; \
                   0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        let mut tally = Tally::default();
        tally.add("this", relay(out.as_bytes()).expect("a result"));
        let told =
            ["FAILED: 1 of this", "---- a stdout ----", "it is 1: not 2", "failures:", "    a"];
        assert_eq!(tally.told, told);
        assert!(!tally.finish());
    }

    #[test]
    fn a_crash_or_silence_is_a_failure_and_nothing_is_no_success() {
        let dir = std::env::temp_dir();
        let run = |args: &[&str]| {
            let mut tally = Tally::default();
            let (exe, name) = (Path::new("/bin/sh"), "sh".to_owned());
            let harness = Harness { name, exe, dir: &dir, args, env: &[] };
            harness.run(&mut tally).expect("sh runs");
            tally
        };
        assert_eq!(run(&["-c", "echo nothing"]).failed, 1);
        let said_ok = "echo 'test result: ok. 1 passed; 0 failed; 0 ignored; 0 measured'; exit 3";
        let tally = run(&["-c", said_ok]);
        assert_eq!((tally.passed, tally.failed), (1, 1));
        assert!(!Tally::default().finish());
        assert!(Tally { passed: 1, ..Tally::default() }.finish());
    }
}
