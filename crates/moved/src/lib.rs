#![doc = include_str!("../README.md")]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;
use std::path::Path;

use observe::{Observer, WaitEvent};
use parking_lot::Mutex;

/// Kind of a line about a statistic.
pub const STATISTIC: &str = "statistic";
/// Kind of a line about a wait event.
pub const EVENT: &str = "event";

static NOTED: Mutex<BTreeSet<(&'static str, String, bool)>> = Mutex::new(BTreeSet::new());

/// Notes all statistics and wait events of an instance.
pub fn note_all(observer: &Observer) {
    let happened: BTreeSet<WaitEvent> = observer.system_events().iter().map(|r| r.event).collect();
    let statistics = observer.sysstat().into_iter();
    let statistics = statistics.map(|(stat, n)| (STATISTIC, stat.name().to_owned(), n > 0));
    let events = WaitEvent::ALL.iter();
    let events = events.map(|e| (EVENT, e.name().to_owned(), happened.contains(e)));
    note(statistics.chain(events));
}

/// Notes names, by kind, and whether each has moved.
///
/// # Panics
/// When the folder that `SKEIN_MOVED` names cannot be written to.
pub fn note(lines: impl IntoIterator<Item = (&'static str, String, bool)>) {
    let Some(folder) = std::env::var_os("SKEIN_MOVED") else { return };
    let thread = std::thread::current();
    let test = thread.name().unwrap_or("?");
    let mut text = String::new();
    let mut noted = NOTED.lock();
    for line in lines {
        if noted.insert(line.clone()) {
            let (kind, name, moved) = line;
            let _ = writeln!(text, "{kind}\t{name}\t{}\t{test}", u8::from(moved));
        }
    }
    // The process is in the name, so that files of several test executables do not mix.
    let path = Path::new(&folder).join(std::process::id().to_string());
    let file = File::options().create(true).append(true).open(path);
    file.and_then(|mut f| f.write_all(text.as_bytes())).expect("SKEIN_MOVED is a folder");
}
