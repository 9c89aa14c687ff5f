//! The statement before: `list`, `run`, `save`, `get`, `show errors`; and timers.

use super::place::Place;
use super::words::quoted_words;
use super::{Flow, Shell};
use crate::error::{CliError, Doing, Result};
use std::fmt::Write as _;
use std::io::Write as _;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::Instant;

/// A statement as it was typed, and where.
#[derive(Clone, Debug)]
pub(super) struct Buffer {
    pub(super) text: String,
    pub(super) place: Place,
    /// The line that changes are made to, from 1.
    pub(super) current: usize,
}

impl Buffer {
    pub(super) fn new(text: String, place: Place) -> Buffer {
        let current = text.lines().count();
        Buffer { text, place, current }
    }
}

/// Why stored code could not be made.
pub(super) struct CompileError {
    pub(super) kind: String,
    pub(super) name: String,
    /// Line of the code, from its first word behind `create or replace`, and column.
    pub(super) line: usize,
    pub(super) column: Option<usize>,
    pub(super) text: String,
}

/// A timer that runs.
pub(super) struct Timer {
    name: String,
    begun: Instant,
}

/// Lines of a text with their numbers, the current one with a star.
pub(super) fn numbered(text: &str, wanted: RangeInclusive<usize>, current: usize) -> String {
    let mut out = String::new();
    for (number, line) in (1..).zip(text.lines()).filter(|(number, _)| wanted.contains(number)) {
        let star = if number == current { '*' } else { ' ' };
        let _ = writeln!(out, "{number:>3}{star} {line}");
    }
    out
}

/// A file of a name, with the usual ending if it has none.
fn file_of(name: &str) -> PathBuf {
    let mut path = PathBuf::from(name);
    if path.extension().is_none() {
        path.set_extension("sql");
    }
    path
}

fn elapsed(timer: &Timer) -> String {
    let all = timer.begun.elapsed().as_secs_f64();
    let (hours, minutes) = ((all / 3600.0).floor(), (all / 60.0).floor() % 60.0);
    let name = &timer.name;
    let head = if name.is_empty() { String::new() } else { format!("timing for: {name}\n") };
    format!("{head}Elapsed: {hours:02.0}:{minutes:02.0}:{:05.2}\n", all % 60.0)
}

impl Shell {
    pub(super) fn buffered(&self) -> Result<Buffer> {
        self.buffer.clone().ok_or_else(|| CliError::failed("there is no statement before"))
    }

    /// `list`, `list N`, `list N M`; `*` is the current line, which the last that is shown becomes.
    pub(super) fn list_buffer(&mut self, text: &str) -> Result<()> {
        let mut buffer = self.buffered()?;
        let last = buffer.text.lines().count();
        let number = |word: &str| match word.to_ascii_lowercase().as_str() {
            "*" => Ok(buffer.current),
            "last" => Ok(last),
            other => {
                let number = other.parse::<usize>().ok().filter(|n| (1..=last).contains(n));
                number.ok_or_else(|| CliError::failed(format!("list {word}: no such line")))
            }
        };
        let words: Vec<&str> = text.split_whitespace().collect();
        let wanted = match words[..] {
            [] => 1..=last,
            [one] => number(one)?..=number(one)?,
            [from, to, ..] => number(from)?..=number(to)?,
        };
        let current = *wanted.end();
        self.print(&numbered(&buffer.text, wanted, current));
        buffer.current = current;
        self.buffer = Some(buffer);
        Ok(())
    }

    /// `run`: shows the statement before, and runs it.
    pub(super) async fn run_again(&mut self, shows: bool) -> Result<Flow> {
        let Some(Buffer { text, place, .. }) = self.buffer.clone() else {
            return self.failed("nothing to run again");
        };
        if shows {
            self.print(&numbered(&text, 1..=usize::MAX, text.lines().count()));
        }
        self.run_typed(&text, &place).await
    }

    /// `save FILE [create|replace|append]`.
    pub(super) fn save(&mut self, text: &str) -> Result<()> {
        let words = quoted_words(text);
        let Some(name) = words.first() else { return Err(CliError::failed("save: which file?")) };
        let buffer = self.buffered()?;
        let path = file_of(name);
        let how = words.get(1).map_or(String::new(), |word| word.to_ascii_lowercase());
        let mut options = std::fs::File::options();
        let options = options.write(true);
        let options = match how.as_str() {
            "" | "cre" | "create" => options.create_new(true),
            "rep" | "replace" => options.create(true).truncate(true),
            "app" | "append" => options.create(true).append(true),
            other => {
                let text = format!("save {name} {other}: create, replace or append");
                return Err(CliError::failed(text));
            }
        };
        let doing = || format!("write {}", path.display());
        let mut file = options.open(&path).doing(doing())?;
        file.write_all(format!("{}\n/\n", buffer.text).as_bytes()).doing(doing())?;
        self.print(&format!("saved in {}\n", path.display()));
        Ok(())
    }

    /// `get FILE [nolist]`: the file is the statement before.
    pub(super) fn get(&mut self, text: &str) -> Result<()> {
        let words = quoted_words(text);
        let Some(name) = words.first() else { return Err(CliError::failed("get: which file?")) };
        let path = file_of(name);
        let text = std::fs::read_to_string(&path).doing(format_args!("read {}", path.display()))?;
        let mut text = text.trim_end();
        let lone = |text: &str| text.lines().next_back().is_some_and(|line| line.trim() == "/");
        match lone(text) {
            true => text = text[..text.len() - 1].trim_end(),
            false if !super::blocks::is_block(text) => text = text.trim_end_matches(';'),
            false => {}
        }
        let file = Some(Rc::from(path.display().to_string()));
        let place = Place { file, lines: 0, columns: 0 };
        self.buffer = Some(Buffer::new(text.to_owned(), place));
        if words.get(1).is_none_or(|word| !word.to_ascii_lowercase().starts_with("nol")) {
            self.list_buffer("")?;
        }
        Ok(())
    }

    /// Why the stored code that was last made could not be, of a kind and a name if they are given.
    pub(super) fn compile_errors(&self, wanted: &[String]) -> String {
        let is_wanted = |error: &&CompileError| match wanted {
            [] => true,
            [kind @ .., name] => {
                let kind = kind.join(" ");
                error.name.eq_ignore_ascii_case(name)
                    && (kind.is_empty() || error.kind.eq_ignore_ascii_case(&kind))
            }
        };
        let Some(error) = self.compile_error.as_ref().filter(is_wanted) else {
            return "No errors.\n".to_owned();
        };
        let CompileError { kind, name, line, column, text } = error;
        let place = format!("{line}/{}", column.unwrap_or(0));
        let text = text.replace('\n', &format!("\n{:9}", ""));
        let (name, rule) = (name.to_uppercase(), "-".repeat(65));
        format!("Errors for {kind} {name}:\n\nLINE/COL ERROR\n-------- {rule}\n{place:<8} {text}\n")
    }

    /// `timing start NAME`, `timing show`, `timing stop`; `timing on` is `set timing on`.
    pub(super) fn timing(&mut self, text: &str) -> Result<()> {
        let (word, name) = super::commands::split_word(text);
        let running = self.timers.last().map(elapsed);
        match word.to_ascii_lowercase().as_str() {
            "" => {
                let text = format!("{} timing elements in use\n", self.timers.len());
                self.print(&text);
            }
            "start" => {
                self.timers.push(Timer { name: name.to_owned(), begun: Instant::now() });
            }
            "show" | "stop" => {
                let shown = running.ok_or_else(|| CliError::failed("no timing is started"))?;
                self.print(&shown);
                if word.eq_ignore_ascii_case("stop") {
                    self.timers.pop();
                }
            }
            other => {
                self.settings.timing = super::settings::switched(other, self.settings.timing)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_listed_with_their_numbers() {
        assert_eq!(numbered("select *\nfrom t", 1..=9, 2), "  1  select *\n  2* from t\n");
        assert_eq!(numbered("select *\nfrom t", 1..=1, 1), "  1* select *\n");
    }
}
