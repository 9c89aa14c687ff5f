//! Trace files read line by line into statements with their sums.
//!
//! What it promises: what it does not understand becomes a note with its line's number, and the
//! next line is read. What it must never do: take a figure for another when a line is damaged.

use std::collections::BTreeMap;

/// A line that could not be read, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Note {
    pub file: String,
    /// From 1.
    pub line: usize,
    pub text: String,
}

/// Sums of one kind of call.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub(crate) struct Sums {
    pub count: u64,
    pub cpu_us: u64,
    pub elapsed_us: u64,
    pub disk: u64,
    pub query: u64,
    pub current: u64,
    pub rows: u64,
    pub misses: u64,
}

impl Sums {
    pub(crate) fn add(&mut self, other: &Sums) {
        self.count += other.count;
        self.cpu_us += other.cpu_us;
        self.elapsed_us += other.elapsed_us;
        self.disk += other.disk;
        self.query += other.query;
        self.current += other.current;
        self.rows += other.rows;
        self.misses += other.misses;
    }
}

/// Sums of one event, in order of first appearance.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Waited {
    pub event: String,
    pub count: u64,
    pub max_us: u64,
    pub total_us: u64,
}

pub(crate) fn add_wait(all: &mut Vec<Waited>, event: &str, count: u64, max_us: u64, total_us: u64) {
    match all.iter_mut().find(|waited| waited.event == event) {
        Some(waited) => {
            waited.count += count;
            waited.max_us = waited.max_us.max(max_us);
            waited.total_us += total_us;
        }
        None => all.push(Waited { event: event.to_owned(), count, max_us, total_us }),
    }
}

/// One row source.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    pub id: u64,
    pub rows: u64,
    pub parent: u64,
    pub obj: u64,
    pub operation: String,
}

/// Parse, Execute and Fetch.
pub(crate) const CALLS: [&str; 3] = ["PARSE", "EXEC", "FETCH"];

/// One text, with all its calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Statement {
    pub text: String,
    pub sql_id: String,
    pub plan: u64,
    pub uid: u64,
    pub depth: u64,
    pub command: u64,
    pub calls: [Sums; 3],
    pub waits: Vec<Waited>,
    pub sources: Vec<Source>,
    pub errors: u64,
    /// Which session of which file, counted from 0.
    session: usize,
    /// A plan that has been told whole: a later one does not replace it.
    sources_end: bool,
}

impl Statement {
    pub(crate) fn total(&self) -> Sums {
        let mut total = Sums::default();
        self.calls.iter().for_each(|sums| total.add(sums));
        total
    }
}

/// What was read of some files.
#[derive(Default)]
pub struct Trace {
    pub(crate) statements: Vec<Statement>,
    /// Waits outside any statement.
    pub(crate) outside: Vec<Waited>,
    pub(crate) sessions: usize,
    pub(crate) lines: usize,
    pub(crate) files: usize,
    pub(crate) commits: u64,
    pub(crate) rollbacks: u64,
    /// Elapsed time within files, µs.
    pub(crate) spanned_us: u64,
    pub notes: Vec<Note>,
}

/// Where the reader is in one file.
struct Reader<'a> {
    trace: &'a mut Trace,
    file: &'a str,
    aggregate: bool,
    cursors: BTreeMap<u64, usize>,
    first_us: Option<u64>,
    last_us: u64,
    /// Inside the lines before the first call.
    heading: bool,
    /// Inside the values of a statement's binds.
    binds: bool,
}

fn number_after(line: &str, key: &str) -> Option<u64> {
    let mut from = 0;
    loop {
        let at = from + line[from..].find(key)?;
        let before = line[..at].chars().next_back();
        let rest = &line[at + key.len()..];
        if before.is_none_or(|c| matches!(c, ' ' | ',' | ':')) {
            let rest = rest.trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            return rest[..end].parse().ok();
        }
        from = at + key.len();
    }
}

fn quoted_after<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = &line[line.find(key)? + key.len()..];
    rest.strip_prefix('\'')?.split_once('\'').map(|(text, _)| text)
}

/// The number behind `#`, and what follows it.
fn cursor_of(rest: &str) -> Option<(u64, &str)> {
    let rest = rest.trim_start().strip_prefix('#')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

impl Trace {
    /// Reads one more file. `aggregate`: the same text counts as one statement in all sessions.
    pub fn read(&mut self, file: &str, text: &[u8], aggregate: bool) {
        self.files += 1;
        let text = String::from_utf8_lossy(text);
        let whole = text.is_empty() || text.ends_with('\n');
        let lines: Vec<&str> = text.lines().collect();
        let mut reader = Reader {
            trace: self,
            file,
            aggregate,
            cursors: BTreeMap::new(),
            first_us: None,
            last_us: 0,
            heading: true,
            binds: false,
        };
        let mut at = 0;
        while at < lines.len() {
            // Only a line with its end is sure to be whole.
            if at + 1 == lines.len() && !whole {
                reader.note(at, "the file ends within this line");
                break;
            }
            at = reader.line(&lines, at);
        }
        let spanned = reader.last_us.saturating_sub(reader.first_us.unwrap_or(reader.last_us));
        self.spanned_us += spanned;
        self.lines += lines.len();
    }
}

impl Reader<'_> {
    fn note(&mut self, at: usize, text: impl Into<String>) {
        let file = self.file.to_owned();
        self.trace.notes.push(Note { file, line: at + 1, text: text.into() });
    }

    fn time(&mut self, line: &str) {
        if let Some(us) = number_after(line, "tim=") {
            self.first_us.get_or_insert(us);
            self.last_us = self.last_us.max(us);
        }
    }

    /// Reads from line `at` on; the next one to read.
    fn line(&mut self, lines: &[&str], at: usize) -> usize {
        let line = lines[at];
        let mut next = at + 1;
        let mut binds = false;
        let first = line.split(' ').next().unwrap_or("");
        let read = if line.is_empty() || line.starts_with("=====") {
            Some(())
        } else if line.starts_with("*** ") {
            if line.starts_with("*** SESSION ID:") {
                self.trace.sessions += 1;
                self.cursors.clear();
                self.heading = true;
            }
            Some(())
        } else if line.starts_with("Skein ") && line.contains("SQL trace") {
            self.heading = true;
            Some(())
        } else if let Some(rest) = line.strip_prefix("PARSING IN CURSOR") {
            next = self.statement(lines, at, rest);
            Some(())
        } else if let Some(rest) = line.strip_prefix("PARSE ERROR") {
            next = self.parse_error(lines, at, rest);
            Some(())
        } else if let Some(i) = CALLS.iter().position(|call| *call == first) {
            self.call(i, &line[first.len()..])
        } else if let Some(rest) = line.strip_prefix("WAIT ") {
            self.wait(rest)
        } else if let Some(rest) = line.strip_prefix("BINDS ") {
            binds = true;
            cursor_of(rest).map(|_| ())
        } else if self.binds && line.starts_with(' ') {
            binds = true;
            Some(())
        } else if let Some(rest) = line.strip_prefix("STAT ") {
            self.source(rest)
        } else if let Some(rest) = line.strip_prefix("XCTEND ") {
            self.transaction_end(rest)
        } else if let Some(rest) = line.strip_prefix("CLOSE ") {
            cursor_of(rest).map(|(cursor, _)| {
                self.cursors.remove(&cursor);
            })
        } else if let Some(rest) = line.strip_prefix("ERROR ") {
            cursor_of(rest).map(|(cursor, _)| {
                if let Some(at) = self.cursors.get(&cursor) {
                    self.trace.statements[*at].errors += 1;
                }
            })
        } else if self.heading && self.first_us.is_none_or(|_| !line.contains('#')) {
            Some(())
        } else {
            None
        };
        self.binds = binds;
        match read {
            None => self.note(at, format!("cannot be read: {}", shortened(line))),
            Some(()) => self.time_of(line),
        }
        next
    }

    fn time_of(&mut self, line: &str) {
        if ["PARS", "EXEC", "FETC", "WAIT", "XCTE", "CLOS", "ERRO"]
            .iter()
            .any(|w| line.starts_with(w))
        {
            self.heading = false;
            self.time(line);
        }
    }

    fn statement(&mut self, lines: &[&str], at: usize, rest: &str) -> usize {
        let known = (|| {
            let (cursor, rest) = cursor_of(rest)?;
            let of = |key| number_after(rest, key);
            Some((cursor, of("len=")?, of("dep=")?, of("uid=")?, of("oct=")?, rest))
        })();
        let Some((cursor, length, depth, uid, command, rest)) = known else {
            self.note(at, format!("cannot be read: {}", shortened(lines[at])));
            return at + 1;
        };
        let sql_id = quoted_after(rest, "sqlid=").unwrap_or("").to_owned();
        let mut text = String::new();
        let mut next = at + 1;
        let whole = loop {
            let Some(line) = lines.get(next) else { break false };
            if *line == "END OF STMT" {
                next += 1;
                break true;
            }
            // A damaged file may lack the end: the length bounds the text.
            if next > at + 1 && text.len() as u64 >= length {
                break false;
            }
            if next > at + 1 {
                text.push('\n');
            }
            text.push_str(line);
            next += 1;
        };
        if !whole {
            self.note(next - 1, "the statement's text has no end");
        }
        let session = self.trace.sessions;
        let alike = |s: &Statement| {
            s.text == text && (self.aggregate || (s.uid == uid && s.session == session))
        };
        let found = self.trace.statements.iter().position(alike);
        let at = found.unwrap_or(self.trace.statements.len());
        if found.is_none() {
            self.trace.statements.push(Statement {
                text,
                sql_id,
                plan: 0,
                uid,
                depth,
                command,
                calls: Default::default(),
                waits: Vec::new(),
                sources: Vec::new(),
                errors: 0,
                session,
                sources_end: false,
            });
        }
        self.trace.statements[at].sources_end = !self.trace.statements[at].sources.is_empty();
        self.cursors.insert(cursor, at);
        next
    }

    /// The text of a statement that could not be parsed follows its line.
    fn parse_error(&mut self, lines: &[&str], at: usize, rest: &str) -> usize {
        let length = cursor_of(rest).and_then(|(_, rest)| number_after(rest, "len="));
        let Some(length) = length else {
            self.note(at, format!("cannot be read: {}", shortened(lines[at])));
            return at + 1;
        };
        let (mut next, mut read) = (at + 1, 0);
        while next < lines.len() && read < length {
            read += lines[next].len() as u64 + 1;
            next += 1;
        }
        next
    }

    fn call(&mut self, kind: usize, rest: &str) -> Option<()> {
        let (cursor, rest) = cursor_of(rest)?;
        let of = |key| number_after(rest, key);
        let sums = Sums {
            count: 1,
            cpu_us: of("c=")?,
            elapsed_us: of("e=")?,
            disk: of("p=")?,
            query: of("cr=")?,
            current: of("cu=")?,
            misses: of("mis=")?,
            rows: of("r=")?,
        };
        let (plan, _) = (of("plh=")?, of("tim=")?);
        let statement = &mut self.trace.statements[*self.cursors.get(&cursor)?];
        statement.calls[kind].add(&sums);
        if plan > 0 {
            statement.plan = plan;
        }
        Some(())
    }

    fn wait(&mut self, rest: &str) -> Option<()> {
        let (cursor, rest) = cursor_of(rest)?;
        let event = quoted_after(rest, "nam=")?;
        let (us, _) = (number_after(rest, "ela=")?, number_after(rest, "tim=")?);
        let waits = match self.cursors.get(&cursor) {
            Some(at) => &mut self.trace.statements[*at].waits,
            None if cursor == 0 => &mut self.trace.outside,
            None => return None,
        };
        add_wait(waits, event, 1, us, us);
        Some(())
    }

    fn source(&mut self, rest: &str) -> Option<()> {
        let (cursor, rest) = cursor_of(rest)?;
        let of = |key| number_after(rest, key);
        let source = Source {
            id: of("id=")?,
            rows: of("cnt=")?,
            parent: of("pid=")?,
            obj: of("obj=")?,
            operation: quoted_after(rest, "op=")?.to_owned(),
        };
        let statement = &mut self.trace.statements[*self.cursors.get(&cursor)?];
        if !statement.sources_end && statement.sources.iter().all(|s| s.id != source.id) {
            statement.sources.push(source);
        }
        Some(())
    }

    fn transaction_end(&mut self, rest: &str) -> Option<()> {
        let rolled_back = number_after(rest, "rlbk=")?;
        number_after(rest, "tim=")?;
        match rolled_back {
            0 => self.trace.commits += 1,
            _ => self.trace.rollbacks += 1,
        }
        Some(())
    }
}

fn shortened(line: &str) -> String {
    line.chars().take(60).collect()
}
