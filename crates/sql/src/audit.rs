//! The audit trail: who has logged on and off, who could not, and every statement that changes
//! definitions, roles or privileges.
//!
//! What it promises: a line is in the instance's file before its event is answered; a file that has
//! grown to `audit_file_size` makes room for a new one, and `audit_files` old ones are kept; no
//! password is written. What it must never do: stop the database because it cannot write; the alert
//! log is told, once.

use kernel::instance::Instance;
use kernel::params::Parameters;
use parking_lot::Mutex;
use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Longest text of a statement that is written.
const TEXT_BYTES_MAX: usize = 4_096;
/// Rows of the view at the most: the newest.
const ROWS_MAX: usize = 10_000;

/// What has happened.
#[derive(Clone, Debug)]
pub struct Event<'a> {
    pub sid: i32,
    pub user: &'a str,
    /// As which role it was done.
    pub role: &'a str,
    /// Where from.
    pub peer: &'a str,
    /// `LOGON`, `LOGOFF`, or a command tag.
    pub action: &'a str,
    /// The SQLSTATE; `00000`: it succeeded.
    pub outcome: &'a str,
    pub text: &'a str,
}

/// One line of the trail, as the view shows it.
pub(crate) struct Line {
    pub(crate) wall_us: i64,
    pub(crate) fields: Vec<String>,
}

struct Open {
    file: File,
    bytes: u64,
}

#[derive(Default)]
struct State {
    path: Option<PathBuf>,
    open: Option<Open>,
    /// The alert log knows that it cannot be written.
    told: bool,
}

/// The trail of one instance.
#[derive(Default)]
pub(crate) struct Trail(Mutex<State>);

fn kept(text: &str) -> String {
    let mut end = text.len().min(TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    text[..end].replace('\\', "\\\\").replace('\t', "\\t").replace('\n', "\\n")
}

fn plain(text: &str) -> String {
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, c == '\\') {
            (_, true) => match chars.next() {
                Some('t') => out.push('\t'),
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            (c, false) => out.push(c),
        }
    }
    out
}

/// Where older files are: `audit_1.log.1` is the newest of them.
fn older(path: &Path, number: usize) -> PathBuf {
    PathBuf::from(format!("{}.{number}", path.display()))
}

impl Trail {
    /// Writes to this file from now on.
    ///
    /// # Errors
    /// It cannot be opened.
    pub(crate) fn begin(&self, path: &Path) -> std::io::Result<()> {
        let open = open(path)?;
        *self.0.lock() = State { path: Some(path.to_owned()), open: Some(open), told: false };
        Ok(())
    }

    /// Writes an event; what could not be written, and why, if that is news.
    pub(crate) fn write(
        &self,
        params: &Parameters,
        wall_us: i64,
        event: &Event<'_>,
    ) -> Option<String> {
        let mut state = self.0.lock();
        let path = state.path.clone()?;
        let fields = [event.user, event.role, event.peer, event.action, event.outcome, event.text];
        let fields: Vec<String> = fields.iter().map(|field| kept(field)).collect();
        let line = format!("{wall_us}\t{}\t{}\n", event.sid, fields.join("\t"));
        let done = append(&mut state, &path, params, &line);
        match done {
            Ok(()) => {
                state.told = false;
                None
            }
            Err(e) => {
                let news = !std::mem::replace(&mut state.told, true);
                news.then(|| format!("audit trail {} cannot be written: {e}", path.display()))
            }
        }
    }

    /// The newest lines, older ones first.
    pub(crate) fn lines(&self) -> Vec<Line> {
        let Some(path) = self.0.lock().path.clone() else { return Vec::new() };
        let mut texts = Vec::new();
        let mut count = 0;
        let files = std::iter::once(path.clone()).chain((1..).map(|n| older(&path, n)));
        for file in files {
            let mut text = String::new();
            let read = File::open(&file).and_then(|mut file| file.read_to_string(&mut text));
            if read.is_err() {
                break;
            }
            count += text.lines().count();
            texts.push(text);
            if count >= ROWS_MAX {
                break;
            }
        }
        let all = texts.iter().rev().flat_map(|text| text.lines());
        all.skip(count.saturating_sub(ROWS_MAX)).filter_map(line_of).collect()
    }
}

fn line_of(line: &str) -> Option<Line> {
    let (wall_us, rest) = line.split_once('\t')?;
    let fields: Vec<String> = rest.split('\t').map(plain).collect();
    Some(Line { wall_us: wall_us.parse().ok()?, fields }).filter(|line| line.fields.len() == 7)
}

fn open(path: &Path) -> std::io::Result<Open> {
    use std::os::unix::fs::OpenOptionsExt;
    let file = OpenOptions::new().create(true).append(true).mode(0o600).open(path)?;
    let bytes = file.metadata()?.len();
    Ok(Open { file, bytes })
}

fn append(state: &mut State, path: &Path, params: &Parameters, line: &str) -> std::io::Result<()> {
    let full = state.open.as_ref().is_some_and(|open| {
        open.bytes > 0 && open.bytes + line.len() as u64 > params.audit_file_size()
    });
    // A line is worth more than the size of its file: what cannot go round grows.
    let turned = if full { turn(state, path, params) } else { Ok(()) };
    if state.open.is_none() {
        state.open = Some(open(path)?);
    }
    if let Some(open) = &mut state.open {
        open.file.write_all(line.as_bytes())?;
        open.bytes += line.len() as u64;
    }
    turned
}

/// Makes room for a new file.
fn turn(state: &mut State, path: &Path, params: &Parameters) -> std::io::Result<()> {
    state.open = None;
    let keep = params.audit_files();
    for number in (1..keep).rev() {
        let from = older(path, number);
        if from.exists() {
            std::fs::rename(from, older(path, number + 1))?;
        }
    }
    match keep {
        0 => std::fs::remove_file(path),
        _ => std::fs::rename(path, older(path, 1)),
    }
}

/// Writes an event to the trail of an instance.
pub fn note(instance: &std::sync::Arc<Instance>, event: &Event<'_>) {
    let Ok(database) = crate::database::Database::of(instance) else { return };
    let wall_us = instance.observer.env().wall_us();
    if let Some(problem) = database.trail.write(&instance.params, wall_us, event) {
        instance.observer.alert(observe::AlertLevel::Error, problem);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_back() {
        let text = format!("5\t7\tann\tann\t[local]\tCREATE TABLE\t00000\t{}", kept("a\tb\n\\c"));
        let line = line_of(&text).unwrap();
        assert_eq!((line.wall_us, line.fields[6].as_str()), (5, "a\tb\n\\c"));
        assert!(line_of("5\t7").is_none());
    }
}
