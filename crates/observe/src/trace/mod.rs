//! SQL trace, the field's event 10046: a session writes down its calls, their waits and binds.
//!
//! What it promises: lines have the field's formats and come in the order in which things ended;
//! waits and recursive statements stand before the call they belong to, which includes them. Off,
//! it costs one look at a byte of the session. A trace that cannot be written is lost, and the
//! alert log says so once. What it must never do: fail or delay a session beyond the write of a
//! full buffer, or read a clock while it is off.

mod cpu;
mod lines;
mod rules;
mod session;
#[cfg(test)]
mod tests;

pub(crate) use cpu::LastAsked;
pub use lines::{Bind, COMMANDS, Call, PlanLine, command, command_name, sql_id};
pub use rules::TraceRule;
pub(crate) use rules::TraceRules;
pub use session::{CallMark, Recursive, TracedPlanning};

use std::collections::BTreeMap;
use std::fmt::{Arguments, Write};
use std::io;
use std::sync::Arc;

use env::Micros;

use crate::session::About;

/// The level's bits: calls and plans; values of binds; waits.
pub const TRACE_CALLS: u8 = 1;
pub const TRACE_BINDS: u8 = 4;
pub const TRACE_WAITS: u8 = 8;
/// Plans are told after every execution, or never; without both bits after the first one of each
/// cursor.
pub const TRACE_PLANS_ALL: u8 = 16;
pub const TRACE_PLANS_NEVER: u8 = 32;

/// A buffer of this size is written out.
const BUFFER_BYTES: usize = 64 << 10;
/// Cursors that one session's trace knows at once; beyond it all are closed.
const CURSORS_MAX: usize = 500;
/// After so long without a line, the next one has the time of day before it.
const STAMP_US: u64 = 10_000_000;

/// Where trace files are.
pub trait TraceFiles: Send + Sync {
    /// Appends to the file of this name, which is made if it is not there.
    ///
    /// # Errors
    /// The text is lost then.
    fn append(&self, name: &str, text: &[u8]) -> io::Result<()>;

    /// How large the file of this name is; 0: it is not there.
    fn size_bytes(&self, name: &str) -> u64;

    /// The first words of file names: database and instance, as in `skein_1`.
    fn prefix(&self) -> &str;

    /// The first lines of a file, each with its end.
    fn banner(&self) -> &str;

    /// The machine's name.
    fn node(&self) -> &str;

    /// A name with its folder.
    fn path(&self, name: &str) -> String;
}

/// How a session is to be traced.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct TraceRequest {
    /// [`TRACE_CALLS`] with others; 0 ends it.
    pub level: u8,
    /// Last part of the file's name.
    pub identifier: String,
    /// Bytes that the file may have; `None`: any number.
    pub bytes_max: Option<u64>,
}

/// Who is traced, for the first lines of a file.
pub(crate) struct Traced<'a> {
    pub sid: u32,
    pub serial: u32,
    pub about: &'a About,
    pub wall: String,
}

struct Cursor {
    number: u32,
    depth: u32,
    /// Hash value of the plan that has been told last.
    told_plan: Option<u32>,
}

/// A file of traces as a trace that begins finds it.
pub(crate) struct Target {
    pub name: String,
    /// What others, or this session before, have left in it.
    pub size_bytes: u64,
    pub bytes_max: Option<u64>,
}

/// The trace of one session.
pub(crate) struct Trace {
    name: String,
    buffer: String,
    /// Bytes of the file.
    written_bytes: u64,
    bytes_max: Option<u64>,
    /// The limit is reached.
    full: bool,
    cursors: BTreeMap<Arc<str>, Cursor>,
    cursors_made: u32,
    /// Cursors of the calls that run, the client's first.
    running: Vec<u32>,
    /// Statements inside those that are being planned: it is not known yet whether they are told.
    planning: u32,
    line_at: Micros,
}

impl Trace {
    pub(crate) fn new(target: Target, banner: &str, who: &Traced<'_>, now: Micros) -> Trace {
        let Target { name, size_bytes, bytes_max } = target;
        let Traced { sid, serial, about, wall } = who;
        let About { client_identifier, service, module, action, .. } = about;
        // A file at its limit says so already.
        let full = bytes_max.is_some_and(|most| size_bytes > most);
        let heading = format!(
            "{banner}\n*** {wall}\n*** SESSION ID:({sid}.{serial}) {wall}\n\
             *** CLIENT ID:({client_identifier}) {wall}\n*** SERVICE NAME:({service}) {wall}\n\
             *** MODULE NAME:({module}) {wall}\n*** ACTION NAME:({action}) {wall}\n\n"
        );
        Trace {
            name,
            buffer: if full { String::new() } else { heading },
            written_bytes: size_bytes,
            bytes_max,
            full,
            cursors: BTreeMap::new(),
            cursors_made: 0,
            running: Vec::new(),
            planning: 0,
            line_at: now,
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn limit(&mut self, bytes_max: Option<u64>) {
        self.bytes_max = bytes_max;
        let bytes = self.written_bytes + self.buffer.len() as u64;
        // That a limit was reached is in the file: a higher one lets it go on, the same does not.
        self.full &= bytes_max.is_some_and(|most| bytes > most);
    }

    /// Writes a line; `wall` is asked only if the time of day is due.
    fn line(&mut self, now: Micros, wall: impl FnOnce() -> String, text: Arguments<'_>) {
        if self.full {
            return;
        }
        if now.since(self.line_at) > STAMP_US {
            self.buffer.push_str("\n*** ");
            self.buffer.push_str(&wall());
            self.buffer.push('\n');
        }
        self.line_at = now;
        // Writing to a String cannot fail.
        let _ = self.buffer.write_fmt(text);
        self.buffer.push('\n');
        if let Some(most) = self.bytes_max
            && self.written_bytes + self.buffer.len() as u64 > most
        {
            self.full = true;
            let _ = writeln!(self.buffer, "*** DUMP FILE SIZE IS LIMITED TO {most} BYTES ***");
        }
    }

    /// Whether the buffer is to be written out.
    pub(crate) fn is_due(&self) -> bool {
        self.buffer.len() >= BUFFER_BYTES
    }

    /// Writes out what there is.
    pub(crate) fn flush(&mut self, files: &dyn TraceFiles) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let done = files.append(&self.name, self.buffer.as_bytes());
        self.written_bytes += self.buffer.len() as u64;
        self.buffer.clear();
        done
    }

    /// Whether a call is of this trace, and not of one that was ended in the middle of the call.
    fn runs(&self, cursor: u32) -> bool {
        self.running.contains(&cursor)
    }

    fn depth(&self) -> u32 {
        u32::try_from(self.running.len()).unwrap_or(u32::MAX).saturating_add(self.planning)
    }

    /// Ends all cursors that no call is using.
    fn close_cursors(&mut self, now: Micros) {
        let running = self.running.clone();
        let unused = |c: &Cursor| !running.contains(&c.number);
        let closed: Vec<(u32, u32)> =
            self.cursors.values().filter(|c| unused(c)).map(|c| (c.number, c.depth)).collect();
        self.cursors.retain(|_, c| !unused(c));
        for (number, depth) in closed {
            let tim = now.0;
            self.line(
                now,
                String::new,
                format_args!("CLOSE #{number}:c=0,e=0,dep={depth},type=0,tim={tim}"),
            );
        }
    }

    /// Says that the session or its trace ends.
    pub(crate) fn close(&mut self, now: Micros) {
        self.running.clear();
        self.planning = 0;
        self.close_cursors(now);
    }
}
