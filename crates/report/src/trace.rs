//! Trace files read line by line into statements with their sums.
//!
//! What it promises: what it does not understand becomes a note with its line's number, and the
//! next line is read; a statement is one text with one plan. What it must never do: take a figure
//! for another when a line is damaged.

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

/// One row source, as it was told first, and its rows each time that it was.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Source {
    pub id: u64,
    pub rows: u64,
    pub parent: u64,
    pub obj: u64,
    pub operation: String,
    pub told: u64,
    pub rows_sum: u64,
    pub rows_max: u64,
}

impl Source {
    pub(crate) fn rows_average(&self) -> u64 {
        self.rows_sum / self.told.max(1)
    }
}

fn add_source(all: &mut Vec<Source>, source: Source) {
    match all.iter_mut().find(|known| known.id == source.id) {
        Some(known) => {
            known.told += source.told;
            known.rows_sum += source.rows_sum;
            known.rows_max = known.rows_max.max(source.rows_max);
        }
        None => all.push(source),
    }
}

/// Parse, Execute and Fetch.
pub(crate) const CALLS: [&str; 3] = ["PARSE", "EXEC", "FETCH"];

/// One text with one plan, and all its calls.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Statement {
    pub text: String,
    pub sql_id: String,
    /// 0: none was told of.
    pub plan: u64,
    pub uid: u64,
    pub depth: u64,
    pub command: u64,
    pub calls: [Sums; 3],
    pub waits: Vec<Waited>,
    pub sources: Vec<Source>,
    pub errors: u64,
    /// SQLSTATE of its parse, which has failed: there are no calls then.
    pub parse_error: Option<String>,
    /// Which session of which file, counted from 0.
    session: usize,
    /// Which place of all the files' its text stood at first, counted from 0.
    place: usize,
}

impl Statement {
    fn has_nothing(&self) -> bool {
        let calls = self.calls.iter().all(|sums| *sums == Sums::default());
        calls && self.waits.is_empty() && self.sources.is_empty() && self.errors == 0
    }

    /// Whether both are the text of one statement, whatever their plans.
    fn is_like(&self, other: &Statement, aggregate: bool) -> bool {
        let owner = |s: &Statement| (s.uid, s.session);
        self.text == other.text
            && self.parse_error == other.parse_error
            && (aggregate || owner(self) == owner(other))
    }

    /// Takes over all that is counted there.
    fn take(&mut self, other: &mut Statement) {
        let calls = std::mem::take(&mut other.calls);
        for (sums, more) in self.calls.iter_mut().zip(&calls) {
            sums.add(more);
        }
        for w in std::mem::take(&mut other.waits) {
            add_wait(&mut self.waits, &w.event, w.count, w.max_us, w.total_us);
        }
        for source in std::mem::take(&mut other.sources) {
            add_source(&mut self.sources, source);
        }
        self.errors += std::mem::take(&mut other.errors);
        self.place = self.place.min(other.place);
    }

    /// The same text with this plan, of which nothing is counted yet.
    fn with_plan(&self, plan: u64) -> Statement {
        Statement {
            text: self.text.clone(),
            sql_id: self.sql_id.clone(),
            plan,
            calls: Default::default(),
            waits: Vec::new(),
            sources: Vec::new(),
            errors: 0,
            parse_error: self.parse_error.clone(),
            ..*self
        }
    }

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
    /// Sessions by their files and numbers, counted from 0.
    pub(crate) sessions: BTreeMap<(String, String), usize>,
    pub(crate) lines: usize,
    pub(crate) files: usize,
    pub(crate) commits: u64,
    pub(crate) rollbacks: u64,
    /// Elapsed time within files, µs.
    pub(crate) spanned_us: u64,
    pub notes: Vec<Note>,
    /// Texts that stood in the files, those told again with them.
    places: usize,
}

/// A cursor that is open.
struct Cursor {
    /// What was told of it since it was known last which plan that belongs to.
    held: Statement,
    /// Place in `statements` of its text with the plan that it has now.
    at: Option<usize>,
    /// Its text could not be parsed, and is told of as that.
    failed: bool,
}

/// Where the reader is in one file.
struct Reader<'a> {
    trace: &'a mut Trace,
    file: &'a str,
    aggregate: bool,
    cursors: BTreeMap<u64, Cursor>,
    first_us: Option<u64>,
    last_us: u64,
    /// Inside the lines before the first call.
    heading: bool,
    /// Inside the values of a statement's binds.
    binds: bool,
    /// Whose lines these are; one of its own if nothing says so.
    session: usize,
}

pub(crate) fn number_after(line: &str, key: &str) -> Option<u64> {
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

/// What stands behind the key up to a blank.
fn word_after<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = &line[line.find(key)? + key.len()..];
    rest.split(' ').next().filter(|word| !word.is_empty())
}

fn quoted_after<'a>(line: &'a str, key: &str) -> Option<&'a str> {
    let rest = &line[line.find(key)? + key.len()..];
    rest.strip_prefix('\'')?.split_once('\'').map(|(text, _)| text)
}

/// The number behind `#`, and what follows it.
pub(crate) fn cursor_of(rest: &str) -> Option<(u64, &str)> {
    let rest = rest.trim_start().strip_prefix('#')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((rest[..end].parse().ok()?, &rest[end..]))
}

/// Where the text of a statement ends that stands behind line `at`: the line after it, and whether
/// that is the one which says so.
pub(crate) fn end_of_text(lines: &[&str], at: usize, length: u64) -> (usize, bool) {
    let (mut next, mut read) = (at + 1, 0);
    while let Some(line) = lines.get(next) {
        if *line == "END OF STMT" {
            return (next, true);
        }
        // A damaged file may lack the end: the length bounds the text.
        if next > at + 1 && read >= length {
            break;
        }
        read += line.len() as u64 + u64::from(next > at + 1);
        next += 1;
    }
    (next, false)
}

/// The same of a text that could not be parsed, which only its length ends: the line after it, and
/// whether all of it is there.
pub(crate) fn end_of_failed(lines: &[&str], at: usize, length: u64) -> (usize, bool) {
    let (mut next, mut read) = (at + 1, 0);
    while next < lines.len() && read < length {
        // As long as it is in the file, where its end may be of two characters.
        let begin = lines[next].as_ptr() as usize;
        let bytes = match lines.get(next + 1) {
            Some(after) => (after.as_ptr() as usize).saturating_sub(begin),
            None => lines[next].len() + 1,
        };
        read += bytes as u64;
        next += 1;
    }
    (next, read >= length)
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
            session: usize::MAX,
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
        reader.close_all();
        let spanned = reader.last_us.saturating_sub(reader.first_us.unwrap_or(reader.last_us));
        self.spanned_us += spanned;
        self.lines += lines.len();
        self.statements.sort_by_key(|statement| statement.place);
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
                self.close_all();
                // A trace that was switched on again is the same session's.
                let id = (self.file.to_owned(), line.split(' ').nth(2).unwrap_or("").to_owned());
                let next = self.trace.sessions.len();
                self.session = *self.trace.sessions.entry(id).or_insert(next);
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
            cursor_of(rest).map(|(cursor, _)| self.close(cursor))
        } else if let Some(rest) = line.strip_prefix("ERROR ") {
            cursor_of(rest).map(|(cursor, _)| {
                if let Some(cursor) = self.cursors.get_mut(&cursor) {
                    cursor.held.errors += 1;
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
        let (end, whole) = end_of_text(lines, at, length);
        let text = lines[at + 1..end].join("\n");
        if !whole {
            self.note(end - 1, "the statement's text has no end");
        }
        self.close(cursor);
        let held = Statement {
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
            parse_error: None,
            session: self.session,
            place: self.trace.places,
        };
        self.trace.places += 1;
        self.cursors.insert(cursor, Cursor { held, at: None, failed: false });
        end + usize::from(whole)
    }

    /// What is held of a cursor belongs to this plan.
    fn settle(&mut self, cursor: u64, plan: u64) {
        let Some(Cursor { held, at, .. }) = self.cursors.get_mut(&cursor) else { return };
        let all = &mut self.trace.statements;
        let place = at
            .filter(|at| all[*at].plan == plan)
            .or_else(|| all.iter().position(|s| s.plan == plan && s.is_like(held, self.aggregate)));
        let place = place.unwrap_or_else(|| {
            all.push(held.with_plan(plan));
            all.len() - 1
        });
        all[place].take(held);
        *at = Some(place);
    }

    /// The cursor is closed, or its number is another's: what is left belongs to its last plan.
    fn close(&mut self, number: u64) {
        let Some(cursor) = self.cursors.get(&number) else { return };
        let all = &self.trace.statements;
        let like = |s: &Statement| s.is_like(&cursor.held, self.aggregate);
        let told = cursor.failed || all.iter().any(like);
        if !(told && cursor.held.has_nothing()) {
            self.settle(number, cursor.at.map_or(0, |at| all[at].plan));
        }
        self.cursors.remove(&number);
    }

    fn close_all(&mut self) {
        let open: Vec<u64> = self.cursors.keys().copied().collect();
        open.into_iter().for_each(|number| self.close(number));
    }

    /// The text of a statement that could not be parsed follows its line.
    fn parse_error(&mut self, lines: &[&str], at: usize, rest: &str) -> usize {
        let length = cursor_of(rest).and_then(|(_, rest)| number_after(rest, "len="));
        let Some(length) = length else {
            self.note(at, format!("cannot be read: {}", shortened(lines[at])));
            return at + 1;
        };
        let (next, whole) = end_of_failed(lines, at, length);
        if !whole {
            self.note(next - 1, "the statement's text has no end");
        }
        let of = |key| number_after(rest, key);
        let known = (|| {
            let code = word_after(rest, " err=")?;
            Some((of("dep=")?, of("uid=")?, of("oct=")?, code))
        })();
        let Some((depth, uid, command, code)) = known else {
            self.note(at, format!("cannot be read: {}", shortened(lines[at])));
            return next;
        };
        let failed = Statement {
            text: lines[at + 1..next].join("\n"),
            sql_id: String::new(),
            plan: 0,
            uid,
            depth,
            command,
            calls: Default::default(),
            waits: Vec::new(),
            sources: Vec::new(),
            errors: 1,
            parse_error: Some(code.to_owned()),
            session: self.session,
            place: self.trace.places,
        };
        self.trace.places += 1;
        self.add_failed(failed);
        next
    }

    /// Adds a text that could not be parsed, with what its cursor has waited for in that.
    fn add_failed(&mut self, mut failed: Statement) {
        let same = |c: &&mut Cursor| c.held.text == failed.text && c.held.uid == failed.uid;
        if let Some(cursor) = self.cursors.values_mut().find(same) {
            cursor.failed = true;
            failed.place = cursor.held.place;
            // What it holds of calls has waits of its own.
            if cursor.held.calls.iter().all(|sums| sums.count == 0) {
                failed.waits = std::mem::take(&mut cursor.held.waits);
            }
        }
        let all = &mut self.trace.statements;
        match all.iter_mut().find(|s| s.is_like(&failed, self.aggregate)) {
            Some(known) => known.take(&mut failed),
            None => all.push(failed),
        }
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
        self.cursors.get_mut(&cursor)?.held.calls[kind].add(&sums);
        // What was told before the plan was known belongs to the plan that follows.
        if plan > 0 {
            self.settle(cursor, plan);
        }
        Some(())
    }

    fn wait(&mut self, rest: &str) -> Option<()> {
        let (cursor, rest) = cursor_of(rest)?;
        let event = quoted_after(rest, "nam=")?;
        let (us, _) = (number_after(rest, "ela=")?, number_after(rest, "tim=")?);
        // Waits stand before the call that they are part of.
        let waits = match self.cursors.get_mut(&cursor) {
            Some(cursor) => &mut cursor.held.waits,
            None if cursor == 0 => &mut self.trace.outside,
            None => return None,
        };
        add_wait(waits, event, 1, us, us);
        Some(())
    }

    fn source(&mut self, rest: &str) -> Option<()> {
        let (cursor, rest) = cursor_of(rest)?;
        let of = |key| number_after(rest, key);
        let rows = of("cnt=")?;
        let source = Source {
            id: of("id=")?,
            rows,
            parent: of("pid=")?,
            obj: of("obj=")?,
            operation: quoted_after(rest, "op=")?.to_owned(),
            told: 1,
            rows_sum: rows,
            rows_max: rows,
        };
        let cursor = self.cursors.get_mut(&cursor)?;
        // Steps stand behind the call that they are the plan of.
        match cursor.at {
            Some(at) => add_source(&mut self.trace.statements[at].sources, source),
            None => add_source(&mut cursor.held.sources, source),
        }
        Some(())
    }

    fn transaction_end(&mut self, rest: &str) -> Option<()> {
        let rolled_back = number_after(rest, "rlbk=")?;
        number_after(rest, "tim=")?;
        // What has changed nothing has nothing to commit.
        match (rolled_back, number_after(rest, "rd_only=").unwrap_or(0)) {
            (_, 1) => {}
            (0, _) => self.trace.commits += 1,
            _ => self.trace.rollbacks += 1,
        }
        Some(())
    }
}

fn shortened(line: &str) -> String {
    line.chars().take(60).collect()
}
