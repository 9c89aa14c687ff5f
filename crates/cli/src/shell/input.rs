//! Texts that are being run, and lines that the shell asks for while it runs them.
//!
//! What it promises: what is asked for comes from the terminal if somebody sits before it, else
//! from the next line of standard input, also where that is what is being run; of that, each piece
//! is taken as soon as its end is there. What it must never do: take half a piece for a whole one
//! before the input has ended.

use super::complete::{Editor, Line};
use super::pieces::{Piece, next};
use super::place::Place;
use super::prepared::Prepared;
use super::query::takes_rows;
use super::words::{command, first_word};
use super::{Owned, Shell, copied_rows};
use crate::error::{CliError, Doing, Exit, Result};
use bytes::Bytes;
use std::io::{BufRead, IsTerminal, Write};
use std::rc::Rc;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::error::TryRecvError;
use tokio::sync::{mpsc, oneshot};

/// Lines of standard input that are read before they are wanted.
const LINES_AHEAD: usize = 1024;

/// A text that is being run.
pub(super) struct Source {
    text: String,
    /// Where what has not been run begins, the lines before it, and where its own line begins.
    at: usize,
    lines: usize,
    line_at: usize,
    file: Option<Rc<str>>,
    /// It is what standard input has, and what brings the lines that have not been read.
    is_input: bool,
    lines_left: Option<mpsc::Receiver<std::io::Result<String>>>,
    /// Why no more could be read.
    broken: Option<CliError>,
}

/// What a text needs before its next piece can be taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Wants {
    Nothing,
    Line,
    /// A line that may end a statement.
    End,
    /// The line that ends the rows of a COPY.
    EndOfRows,
}

impl Wants {
    fn is_met(self, line: &str) -> bool {
        match self {
            Wants::Nothing | Wants::Line => true,
            Wants::End => line.contains(';') || matches!(line.trim(), "/" | "."),
            Wants::EndOfRows => ends_rows(line),
        }
    }
}

fn ends_rows(line: &str) -> bool {
    line.trim_end() == "\\."
}

/// What a text has next.
pub(super) struct Taken {
    pub(super) piece: Owned,
    pub(super) place: Place,
    /// Rows that follow a COPY.
    pub(super) rows: Option<Bytes>,
}

impl Source {
    pub(super) fn new(text: String, file: Option<&str>, is_input: bool) -> Source {
        Source {
            text,
            at: 0,
            lines: 0,
            line_at: 0,
            file: file.map(Rc::from),
            is_input,
            lines_left: None,
            broken: None,
        }
    }

    /// Standard input, of which nothing has been read.
    pub(super) fn input() -> Source {
        let (sender, lines) = mpsc::channel(LINES_AHEAD);
        // It may wait for ever: nothing waits for the thread.
        std::thread::spawn(move || {
            loop {
                let mut line = String::new();
                let read = match std::io::stdin().lock().read_line(&mut line) {
                    Ok(0) => return,
                    read => read.map(|_| line),
                };
                let is_last = read.is_err();
                if sender.blocking_send(read).is_err() || is_last {
                    return;
                }
            }
        });
        Source { lines_left: Some(lines), ..Source::new(String::new(), None, true) }
    }

    /// Reads a line; `false`: there is none.
    async fn read_line(&mut self) -> Result<bool> {
        let Some(lines) = &mut self.lines_left else { return Ok(false) };
        let line = match lines.try_recv() {
            Ok(line) => Some(line),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => tokio::select! {
                line = lines.recv() => line,
                _ = tokio::signal::ctrl_c() => {
                    return Err(CliError::new(Exit::Interrupted, "interrupted"));
                }
            },
        };
        match line.transpose().doing("read standard input") {
            Ok(Some(line)) => {
                self.text.push_str(&line);
                return Ok(true);
            }
            Ok(None) => {}
            // What was read before is run first.
            Err(error) => self.broken = Some(error),
        }
        self.lines_left = None;
        Ok(false)
    }

    /// What must be read before the next piece is whole.
    fn wants(&self, prepared: &Prepared) -> Wants {
        let Some(next) = next(&self.text[self.at..], prepared) else { return Wants::Line };
        let behind = &self.text[self.at + next.end..];
        match next.piece {
            Piece::Statement(_) if !next.complete => Wants::End,
            Piece::Statement(text) if takes_rows(text) && !behind.lines().any(ends_rows) => {
                Wants::EndOfRows
            }
            Piece::Command(_) if !next.complete => Wants::Line,
            // The next line says whether it is the server's: `set x` may go on with `to 1`.
            Piece::Command(line)
                if command(first_word(line)) == Some("set")
                    && line.split_whitespace().count() <= 2
                    && behind.trim().is_empty() =>
            {
                Wants::Line
            }
            _ => Wants::Nothing,
        }
    }

    /// Reads on until the next piece is whole, or there is no more.
    async fn fill(&mut self, prepared: &Prepared) -> Result<()> {
        while self.lines_left.is_some() || self.broken.is_some() {
            let wants = self.wants(prepared);
            if wants == Wants::Nothing {
                break;
            }
            if let Some(error) = self.broken.take() {
                return Err(error);
            }
            let mut read = self.text.len();
            while self.read_line().await? {
                let is_met = wants.is_met(&self.text[read..]);
                read = self.text.len();
                if is_met {
                    break;
                }
            }
            // What is there already is read with it, so that long statements are not looked
            // through once for each of their lines.
            let there = self.lines_left.as_ref().map_or(0, mpsc::Receiver::len);
            for _ in 0..there {
                self.read_line().await?;
            }
        }
        Ok(())
    }

    /// The next piece, once it is there; `None`: there is none.
    pub(super) async fn take_read(&mut self, prepared: &Prepared) -> Result<Option<Taken>> {
        self.fill(prepared).await?;
        Ok(self.take(prepared))
    }

    /// Takes the line behind the one that is being run, once it is there.
    async fn take_answer(&mut self) -> Result<Option<String>> {
        loop {
            if let Some(line) = self.take_line() {
                return Ok(Some(line));
            }
            if !self.read_line().await? {
                return Ok(None);
            }
        }
    }

    fn advance(&mut self, to: usize) {
        let passed = &self.text[self.at..to];
        self.lines += passed.matches('\n').count();
        if let Some(last) = passed.rfind('\n') {
            self.line_at = self.at + last + 1;
        }
        self.at = to;
    }

    /// The next piece; `None`: there is none.
    fn take(&mut self, prepared: &Prepared) -> Option<Taken> {
        let from = self.at;
        let next = next(&self.text[from..], prepared)?;
        let (begins, ends) = (from + next.at, from + next.end);
        let rows = match next.piece {
            Piece::Statement(statement) if takes_rows(statement) => {
                let (rows, rest) = copied_rows(&self.text[ends..]);
                Some((Bytes::copy_from_slice(rows.as_bytes()), self.text.len() - rest.len()))
            }
            _ => None,
        };
        let piece = Owned::from(next.piece);
        self.advance(begins);
        let columns = self.text[self.line_at..begins].chars().count();
        let place = Place { file: self.file.clone(), lines: self.lines, columns };
        let (rows, ends) = match rows {
            Some((rows, ends)) => (Some(rows), ends),
            None => (None, ends),
        };
        self.advance(ends);
        Some(Taken { piece, place, rows })
    }

    /// Takes the line behind the one that is being run.
    fn take_line(&mut self) -> Option<String> {
        let begin = match self.at == self.line_at {
            true => self.at,
            false => self.at + self.text[self.at..].find('\n')? + 1,
        };
        let rest = &self.text[begin..];
        if rest.is_empty() {
            return None;
        }
        let len = rest.find('\n').map_or(rest.len(), |i| i + 1);
        let line = rest[..len].trim_end_matches(['\n', '\r']).to_owned();
        self.text.replace_range(begin..begin + len, "");
        Some(line)
    }
}

/// A line of standard input that is on its way; `None`: there is none.
pub(super) type Asked = oneshot::Receiver<Option<String>>;

/// Reads a line of standard input beside what else is done.
fn next_line() -> Asked {
    let (sender, line) = oneshot::channel();
    // It may wait for ever: nothing waits for the thread.
    std::thread::spawn(move || {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        let _ = sender.send(read.ok().filter(|bytes| *bytes > 0).map(|_| line));
    });
    line
}

fn interrupted() -> CliError {
    CliError::failed("interrupted")
}

/// Whether the terminal shows what is typed.
fn echo(on: bool) {
    let mut stty = std::process::Command::new("stty");
    let stty = stty.arg(if on { "echo" } else { "-echo" });
    // Without `stty` it is shown.
    let _ = stty.stdin(std::process::Stdio::inherit()).status();
}

impl Shell {
    /// Asks for a line; `None`: the input has ended.
    pub(super) async fn ask_for(&mut self, prompt: &str, hidden: bool) -> Result<Option<String>> {
        if let Some(editor) = &mut self.editor {
            return match edited(editor, prompt, hidden)? {
                Line::Text(text) => Ok(Some(text)),
                Line::Interrupted => Err(interrupted()),
                Line::End => Ok(None),
            };
        }
        if let Some(source) = self.sources.first_mut().filter(|source| source.is_input) {
            return source.take_answer().await;
        }
        let sees = std::io::stdin().is_terminal();
        if sees {
            let _ = write!(std::io::stdout(), "{prompt}");
            let _ = std::io::stdout().flush();
        }
        let hides = hidden && sees;
        if hides {
            echo(false);
        }
        let line = self.input_line().await;
        if hides {
            echo(true);
            let _ = writeln!(std::io::stdout());
        }
        line
    }

    /// A line of standard input; `None`: there is none. Ctrl-C does not wait for it, and the next
    /// question gets the line that then comes: whoever waited for it would take it from that one.
    async fn input_line(&mut self) -> Result<Option<String>> {
        let mut asked = self.asked.take().unwrap_or_else(next_line);
        tokio::select! {
            line = &mut asked => {
                let line = line.ok().flatten();
                Ok(line.map(|line| line.trim_end_matches(['\n', '\r']).to_owned()))
            }
            _ = tokio::signal::ctrl_c() => {
                self.asked = Some(asked);
                Err(interrupted())
            }
        }
    }
}

/// A line of the terminal, edited, by whoever reads the others: none of what is typed is lost.
fn edited(editor: &mut Editor, prompt: &str, hidden: bool) -> Result<Line> {
    if !hidden {
        return editor.answer(prompt);
    }
    // Where lines cannot be edited the terminal itself shows them, and Ctrl-C must not leave it as
    // it is meanwhile.
    let _listens = signal(SignalKind::interrupt());
    echo(false);
    let line = editor.hidden_answer(prompt);
    echo(true);
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_have_their_places_in_the_file() {
        let text =
            "select 1;\n\n -- x\n  select 2; select\n3;\ncopy t from stdin;\n1\n\\.\nprompt x\n";
        let mut source = Source::new(text.to_owned(), Some("f"), false);
        let mut places = Vec::new();
        while let Some(taken) = source.take(&Prepared::default()) {
            places.push((taken.place.lines, taken.place.columns, taken.rows));
        }
        let rows = Some(Bytes::from("1\n"));
        assert_eq!(places, [(0, 0, None), (3, 2, None), (3, 12, None), (5, 0, rows), (8, 0, None)]);
    }

    #[test]
    fn pieces_are_whole_as_soon_as_their_end_is_there() {
        let prepared = Prepared::default();
        let wants = |text: &str| Source::new(text.to_owned(), None, true).wants(&prepared);
        for whole in [
            "select 1;\n",
            "prompt x\n",
            "begin null; end;\n/\n",
            "set timing on\n",
            "set timing\nselect",
            "show search_path\n",
            "copy t from stdin;\n1\n\\.\n",
        ] {
            assert_eq!(wants(whole), Wants::Nothing, "{whole}");
        }
        assert_eq!(wants(" -- x\n/* y"), Wants::Line);
        assert_eq!(wants("exec p(1, -\n"), Wants::Line);
        assert_eq!(wants("set search_path\n"), Wants::Line);
        assert_eq!(wants("set search_path\n to public\n"), Wants::End);
        assert_eq!(wants("begin\n null;\n"), Wants::End);
        assert_eq!(wants("copy t from stdin;\n1\n"), Wants::EndOfRows);
    }

    #[test]
    fn the_next_line_of_the_input_is_an_answer() {
        let mut source = Source::new("x; y;\n5\n6\nprompt x\n7\nz;".to_owned(), None, true);
        source.take(&Prepared::default());
        assert_eq!(source.take_line().as_deref(), Some("5"));
        source.take(&Prepared::default());
        assert_eq!(source.take_line().as_deref(), Some("6"));
        source.take(&Prepared::default());
        assert_eq!(source.take_line().as_deref(), Some("7"));
        let last = source.take(&Prepared::default()).map(|taken| taken.piece);
        assert!(matches!(last, Some(Owned::Statement(text)) if text == "z"));
        assert_eq!(source.take_line(), None);
    }
}
