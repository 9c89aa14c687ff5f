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

/// Sums over all that was run.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Tally {
    pub passed: u64,
    pub failed: u64,
    pub ignored: u64,
}

impl Tally {
    /// Counts one check that is not a test of a harness.
    pub fn check(&mut self, name: &str, ok: bool) {
        if ok {
            self.passed += 1;
        } else {
            self.failed += 1;
            println!("FAILED: {name}");
        }
    }

    fn add(&mut self, other: Tally) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.ignored += other.ignored;
    }

    /// The last line; whether all is well. Nothing run at all is not.
    pub fn finish(self) -> bool {
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
                tally.add(result);
                if !status.success() && result.failed == 0 {
                    tally.check(&format!("{}: {status}", self.name), false);
                }
            }
            None => tally.check(&format!("{}: no result, {status}", self.name), false),
        }
        Ok(())
    }
}

/// Shows the output and returns the last result in it. A harness of a library without tests says so
/// in one line, which is left out.
fn relay(lines: impl BufRead) -> Option<Tally> {
    let mut result = None;
    for line in lines.lines().map_while(Result::ok) {
        if !line.is_empty() {
            println!("{line}");
        }
        result = parse_result(&line).or(result);
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let line = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured";
        let expected = Tally { passed: 3, failed: 1, ignored: 2 };
        assert_eq!(parse_result(line), Some(expected));
        assert_eq!(parse_result("test a ... ok"), None);
        let out = "running 1 test\ntest a ... ok\n\ntest result: ok. 1 passed; 0 failed; \
                   0 ignored; 0 measured; 0 filtered out; finished in 0.00s\n";
        assert_eq!(relay(out.as_bytes()), Some(Tally { passed: 1, failed: 0, ignored: 0 }));
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
