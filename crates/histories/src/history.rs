//! What every client did and was told, with begin and end on one clock.
//!
//! What it promises: an operation is written to its file when it has ended and is checked as it is
//! read back from there. What it must never do: call an operation failed that may have happened.

use std::fs::File;
use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use serde_json::{Value, json};

/// How an operation ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// The client was told that it is done.
    Done,
    /// It has certainly not happened.
    Failed,
    /// It may have happened, or may happen yet.
    Unknown,
}

impl Outcome {
    fn word(self) -> &'static str {
        match self {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Unknown => "unknown",
        }
    }

    fn of(word: &str) -> Option<Outcome> {
        [Outcome::Done, Outcome::Failed, Outcome::Unknown].into_iter().find(|o| o.word() == word)
    }
}

/// One operation.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation {
    /// Who did it: does one at a time, and none after one of unknown outcome.
    pub process: u64,
    /// Nanoseconds since the run began.
    pub begin_ns: u64,
    pub end_ns: u64,
    pub outcome: Outcome,
    /// What was done and answered; each workload has its own form.
    pub value: Value,
}

impl Operation {
    fn line(&self) -> String {
        let Operation { process, begin_ns, end_ns, outcome, value } = self;
        let outcome = outcome.word();
        json!({"process": process, "begin": begin_ns, "end": end_ns, "outcome": outcome,
            "value": value})
        .to_string()
    }

    fn parse(line: &str) -> Option<Operation> {
        let json: Value = serde_json::from_str(line).ok()?;
        let number = |name: &str| json.get(name)?.as_u64();
        Some(Operation {
            process: number("process")?,
            begin_ns: number("begin")?,
            end_ns: number("end")?,
            outcome: Outcome::of(json.get("outcome")?.as_str()?)?,
            value: json.get("value")?.clone(),
        })
    }
}

/// A history that is being written.
pub struct Recorder(Mutex<BufWriter<File>>);

impl Recorder {
    /// # Errors
    /// The file is there already, or cannot be made.
    pub fn create(path: &Path) -> Result<Recorder, String> {
        let file = File::create_new(path).map_err(|e| format!("make {}: {e}", path.display()))?;
        Ok(Recorder(Mutex::new(BufWriter::new(file))))
    }

    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, operation: &Operation) -> io::Result<()> {
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writeln!(file, "{}", operation.line())
    }

    /// # Errors
    /// The file cannot be written.
    pub fn flush(&self) -> io::Result<()> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).flush()
    }
}

/// Reads a history back, by the beginnings of its operations.
///
/// # Errors
/// The file cannot be read, or a line is no operation.
pub fn read(path: &Path) -> Result<Vec<Operation>, String> {
    let failed = |e: io::Error| format!("read {}: {e}", path.display());
    let mut operations = Vec::new();
    for line in BufReader::new(File::open(path).map_err(failed)?).lines() {
        let line = line.map_err(failed)?;
        let operation = Operation::parse(&line);
        operations.push(operation.ok_or_else(|| format!("{}: {line}", path.display()))?);
    }
    operations.sort_by_key(|o: &Operation| o.begin_ns);
    Ok(operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back_in_order() {
        let path = std::env::temp_dir().join(format!("skein-history-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let recorder = Recorder::create(&path).expect("a file");
        let operation = |begin_ns, outcome| Operation {
            process: 7,
            begin_ns,
            end_ns: begin_ns + 5,
            outcome,
            value: json!([["append", 1, 2]]),
        };
        let late = operation(20, Outcome::Unknown);
        let early = operation(10, Outcome::Failed);
        recorder.write(&late).expect("written");
        recorder.write(&early).expect("written");
        recorder.flush().expect("written");
        assert!(Recorder::create(&path).is_err(), "a history is never written over");
        assert_eq!(read(&path).expect("readable"), [early, late]);
        std::fs::write(&path, "{\"process\": 1}\n").expect("written");
        assert!(read(&path).is_err());
        std::fs::remove_file(&path).expect("removed");
    }
}
