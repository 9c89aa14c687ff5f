//! Changes of the statement before by its lines: `append`, `change`, `del`, `input`, and a number.
//!
//! What it promises: a change that cannot be made leaves the statement as it was.

use super::Shell;
use super::buffer::{Buffer, numbered};
use super::place::Place;
use crate::error::{CliError, Result};
use std::ops::Range;

/// Lines, and which of them is the current one, from 1.
struct Lines {
    lines: Vec<String>,
    current: usize,
}

impl Lines {
    fn current(&mut self) -> Result<&mut String> {
        let at = self.current.checked_sub(1);
        let line = at.and_then(|at| self.lines.get_mut(at));
        line.ok_or_else(|| CliError::failed("there is no such line"))
    }

    /// A line by its number, `*` for the current one, or `last`.
    fn number(&self, word: &str) -> Result<usize> {
        let last = self.lines.len();
        match word.to_ascii_lowercase().as_str() {
            "*" => Ok(self.current),
            "last" => Ok(last),
            other => {
                let number = other.parse::<usize>().ok().filter(|n| (1..=last).contains(n));
                number.ok_or_else(|| CliError::failed(format!("{word}: no such line")))
            }
        }
    }
}

/// Where a text stands in another one, whatever the size of the letters.
fn find(text: &str, wanted: &str) -> Option<Range<usize>> {
    let at = text.to_ascii_lowercase().find(&wanted.to_ascii_lowercase())?;
    Some(at..at + wanted.len())
}

/// The same, where `...` stands for all that is before, between or behind.
fn find_pattern(text: &str, wanted: &str) -> Option<Range<usize>> {
    let Some((from, to)) = wanted.split_once("...") else { return find(text, wanted) };
    let begin = find(text, from)?;
    let behind = if from.is_empty() { 0 } else { begin.end };
    let end = match to.is_empty() {
        true => text.len(),
        false => behind + find(&text[behind..], to)?.end,
    };
    Some(begin.start..end)
}

/// `/old/new/` on a line, with any sign instead of the slash.
fn changed(line: &str, text: &str) -> Result<String> {
    let wrong = || CliError::failed("change/OLD/NEW/");
    let sign = text.chars().next().ok_or_else(wrong)?;
    let mut parts = text[sign.len_utf8()..].split(sign);
    let old = parts.next().filter(|old| !old.is_empty()).ok_or_else(wrong)?;
    let new = parts.next().unwrap_or("");
    let missing = || CliError::failed(format!("\"{old}\" is not in the line: {line}"));
    let place = find_pattern(line, old).ok_or_else(missing)?;
    Ok(format!("{}{new}{}", &line[..place.start], &line[place.end..]))
}

impl Shell {
    /// Changes the lines of the statement before.
    fn change_lines(
        &mut self,
        shows: bool,
        change: impl FnOnce(&mut Lines) -> Result<()>,
    ) -> Result<()> {
        let Buffer { text, current, .. } = self.buffered()?;
        let mut lines = Lines { lines: text.lines().map(str::to_owned).collect(), current };
        change(&mut lines)?;
        if lines.lines.is_empty() {
            self.buffer = None;
            return Ok(());
        }
        let (text, last) = (lines.lines.join("\n"), lines.lines.len());
        let current = lines.current.clamp(1, last);
        if shows {
            self.print(&numbered(&text, current..=current, current));
        }
        // It is no file's any more.
        self.buffer = Some(Buffer { text, place: Place::default(), current });
        Ok(())
    }

    /// `append TEXT`: one blank behind the word is not part of it.
    pub(super) fn append(&mut self, rest: &str) -> Result<()> {
        let text = rest.strip_prefix(' ').unwrap_or(rest);
        self.change_lines(true, |lines| {
            lines.current()?.push_str(text);
            Ok(())
        })
    }

    pub(super) fn change(&mut self, rest: &str) -> Result<()> {
        self.change_lines(true, |lines| {
            let line = lines.current()?;
            *line = changed(line, rest.trim())?;
            Ok(())
        })
    }

    /// `del`, `del N`, `del N M`.
    pub(super) fn delete_lines(&mut self, rest: &str) -> Result<()> {
        let words: Vec<&str> = rest.split_whitespace().collect();
        self.change_lines(false, |lines| {
            let (from, to) = match words[..] {
                [] => (lines.current, lines.current),
                [one] => (lines.number(one)?, lines.number(one)?),
                [from, to, ..] => (lines.number(from)?, lines.number(to)?),
            };
            if from == 0 || from > to || to > lines.lines.len() {
                return Err(CliError::failed("del: the first line stands behind the last"));
            }
            lines.lines.drain(from - 1..to);
            lines.current = from;
            Ok(())
        })
    }

    /// `input TEXT` behind the current line; without a text, lines up to an empty one.
    pub(super) async fn input(&mut self, rest: &str) -> Result<()> {
        let mut behind = match self.buffered() {
            Ok(buffer) => buffer.current,
            // The first of a new one.
            Err(_) => {
                self.buffer = Some(Buffer::new(String::new(), Place::default()));
                0
            }
        };
        if !rest.trim().is_empty() {
            return self.insert(behind, rest.strip_prefix(' ').unwrap_or(rest));
        }
        loop {
            let line = self.ask_for(&format!("{:>3}  ", behind + 1), false).await?;
            let Some(line) = line.filter(|line| !line.trim().is_empty()) else { break };
            self.insert(behind, &line)?;
            behind += 1;
        }
        let empty = self.buffer.as_ref().is_some_and(|buffer| buffer.text.is_empty());
        if empty {
            self.buffer = None;
        }
        Ok(())
    }

    /// A new line behind one.
    fn insert(&mut self, behind: usize, text: &str) -> Result<()> {
        self.change_lines(false, |lines| {
            lines.lines.insert(behind.min(lines.lines.len()), text.to_owned());
            lines.current = behind + 1;
            Ok(())
        })
    }

    /// `N` makes a line the current one, `N TEXT` writes it anew; `0 TEXT` stands before the first.
    pub(super) fn go_to_line(&mut self, number: &str, text: &str) -> Result<()> {
        if text.is_empty() {
            return self.change_lines(true, |lines| {
                lines.current = lines.number(number)?;
                Ok(())
            });
        }
        let missing = || CliError::failed(format!("{number}: no such line"));
        let number: usize = number.parse().map_err(|_| missing())?;
        self.change_lines(false, |lines| {
            match number.checked_sub(1) {
                None => lines.lines.insert(0, text.to_owned()),
                Some(at) => match lines.lines.get_mut(at) {
                    Some(line) => text.clone_into(line),
                    None => lines.lines.push(text.to_owned()),
                },
            }
            lines.current = number.max(1);
            Ok(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_changed_at_the_first_place() {
        let of = |line, text| changed(line, text).ok();
        assert_eq!(of("select a, a from t", "/A/b/").as_deref(), Some("select b, a from t"));
        assert_eq!(of("select a from t", "/ from t").as_deref(), Some("select a"));
        assert_eq!(of("a/b", "|/|-|").as_deref(), Some("a-b"));
        assert_eq!(of("select a from t", "/a.../b/").as_deref(), Some("select b"));
        assert_eq!(of("select a from t", "/...from/with").as_deref(), Some("with t"));
        assert_eq!(of("f(1, 2) + 3", "/(...)/()/").as_deref(), Some("f() + 3"));
        assert_eq!((of("a", "/x/y/"), of("a", ""), of("a", "//b/")), (None, None, None));
    }
}
