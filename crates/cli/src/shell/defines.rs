//! Variables of the shell's own: `&name`, `define`, `accept`.
//!
//! What it promises: a name without a value is asked for, and where nobody answers it is an error
//! that names it. What it must never do: ask for what stands in a comment; show what was read with
//! `accept .. hide`.

use super::Shell;
use super::pieces::{comment_len, quoted_len};
use super::place::{Edited, HIDDEN};
use super::words::quoted_words;
use crate::error::{CliError, Result};

/// What becomes of names without a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Unknown {
    /// They are asked for; comments are left alone.
    AskInStatement,
    AskInCommand,
    /// `a && b` of another program's words is left alone.
    Stays,
}

/// A place of a text where a variable's value is to stand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Named<'a> {
    at: usize,
    end: usize,
    name: &'a str,
    /// `&&name`: the value is kept.
    keeps: bool,
    in_comment: bool,
}

/// What the next names or escapes are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Found<'a> {
    Named(Named<'a>),
    /// The character is meant as such: where what takes its meaning away stands.
    Escaped(usize),
}

/// The names in a text.
struct Names<'a> {
    text: &'a str,
    mark: char,
    escape: Option<char>,
    at: usize,
    /// Where the quoted text ends that has begun, and the comment.
    quoted: usize,
    comment: usize,
    has_comments: bool,
}

impl<'a> Iterator for Names<'a> {
    type Item = Found<'a>;

    fn next(&mut self) -> Option<Found<'a>> {
        while let Some(c) = self.text[self.at..].chars().next() {
            let at = self.at;
            let rest = &self.text[at..];
            if self.has_comments && at >= self.quoted && at >= self.comment {
                if let Some(len) = comment_len(rest) {
                    self.comment = at + len;
                } else if matches!(c, '\'' | '"') {
                    self.quoted = at + quoted_len(rest);
                }
            }
            self.at += c.len_utf8();
            if Some(c) == self.escape && self.text[self.at..].starts_with(self.mark) {
                self.at += self.mark.len_utf8();
                return Some(Found::Escaped(at));
            }
            if c != self.mark {
                continue;
            }
            let behind = rest.trim_start_matches(self.mark);
            let marks = (rest.len() - behind.len()) / c.len_utf8();
            let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#');
            let len = behind.find(|c| !inside(c)).unwrap_or(behind.len());
            self.at = self.text.len() - behind.len();
            if len == 0 || marks > 2 || behind.starts_with(['$', '#']) {
                continue;
            }
            self.at += len;
            // A point ends a name.
            let point = usize::from(behind[len..].starts_with('.'));
            let end = self.at + point;
            let name = &behind[..len];
            let in_comment = at < self.comment;
            self.at = end;
            return Some(Found::Named(Named { at, end, name, keeps: marks == 2, in_comment }));
        }
        None
    }
}

impl Shell {
    /// The text with the values of `&name`.
    pub(super) async fn substituted(&mut self, text: &str, unknown: Unknown) -> Result<Edited> {
        let Some(mark) = self.settings.define.filter(|mark| text.contains(*mark)) else {
            return Ok(Edited::whole(text));
        };
        let names = Names {
            text,
            mark,
            escape: self.settings.escape,
            at: 0,
            quoted: 0,
            comment: 0,
            has_comments: unknown == Unknown::AskInStatement,
        };
        let (mut out, mut copied) = (Edited::default(), 0);
        for found in names {
            let named = match found {
                Found::Escaped(at) => {
                    out.copy(copied, &text[copied..at]);
                    copied = at + self.settings.escape.map_or(0, char::len_utf8);
                    continue;
                }
                Found::Named(named) => named,
            };
            let name = named.name.to_lowercase();
            let value = match self.defined(&name) {
                Some(value) => value,
                None if named.in_comment || unknown == Unknown::Stays => continue,
                None => self.value_asked_for(&named).await?,
            };
            out.copy(copied, &text[copied..named.at]);
            match self.is_hidden(&name) {
                true => out.put_hidden(named.at, &value),
                false => out.put(named.at, &value),
            }
            copied = named.end;
        }
        out.copy(copied, &text[copied..]);
        Ok(out)
    }

    /// Whether a name has the value that was read for it with `accept .. hide`.
    fn is_hidden(&self, name: &str) -> bool {
        let hidden = self.hidden.get(name);
        hidden.is_some() && hidden == self.defines.get(name)
    }

    async fn value_asked_for(&mut self, named: &Named<'_>) -> Result<String> {
        let name = named.name;
        let Some(value) = self.ask_for(&format!("Enter value for {name}: "), false).await? else {
            return Err(CliError::failed(format!(
                "\"{name}\" has no value, and there is no input to take one from: define {name} = \
                 TEXT gives it one, and set define off leaves such names as they are"
            )));
        };
        if named.keeps {
            self.defines.insert(name.to_lowercase(), value.clone());
        }
        Ok(value)
    }

    /// `define NAME = TEXT`, `define NAME`, or what there is.
    pub(super) fn define(&mut self, text: &str) -> Result<()> {
        if let Some((name, value)) = text.split_once('=') {
            let value = super::commands::unquoted(value.trim()).to_owned();
            self.defines.insert(name.trim().to_lowercase(), value);
            return Ok(());
        }
        let name = text.to_lowercase();
        let line = |(name, value): (&String, &String)| {
            let value = if self.is_hidden(name) { HIDDEN } else { value.as_str() };
            format!("DEFINE {name} = \"{value}\"\n")
        };
        let shown: String = match name.is_empty() {
            true => self.defines.iter().map(line).collect(),
            false => {
                let missing = || CliError::failed(format!("\"{text}\" is not defined"));
                line((&name, &self.defined(&name).ok_or_else(missing)?))
            }
        };
        self.print(&shown);
        Ok(())
    }

    /// `accept NAME [number|char|date] [format F] [default V] [prompt TEXT] [hide]`.
    pub(super) async fn accept(&mut self, text: &str) -> Result<()> {
        let words = quoted_words(text);
        let mut words = words.iter().map(String::as_str).peekable();
        let usage = "accept NAME [number|char|date] [default VALUE] [prompt TEXT] [hide]";
        let name = words.next().ok_or_else(|| CliError::failed(usage))?.to_lowercase();
        let (mut number, mut usual, mut hidden) = (false, String::new(), false);
        let mut prompt = String::new();
        while let Some(word) = words.next() {
            match word.to_ascii_lowercase().as_str() {
                "num" | "number" => number = true,
                "char" | "date" | "noprompt" | "nopr" => {}
                "for" | "format" => drop(words.next()),
                "def" | "default" => words.next().unwrap_or("").clone_into(&mut usual),
                "hide" => hidden = true,
                "prompt" => {
                    // Without quotes it goes on to the end, or to one of these.
                    let ends = |w: &str| {
                        ["hide", "def", "default"].iter().any(|end| w.eq_ignore_ascii_case(end))
                    };
                    let mut parts = Vec::new();
                    while let Some(part) = words.next_if(|w| !ends(w)) {
                        parts.push(part);
                    }
                    prompt = parts.join(" ");
                }
                other => return Err(CliError::failed(format!("accept: {other}? {usage}"))),
            }
        }
        loop {
            let value = self.ask_for(&prompt, hidden).await?;
            let value = match value {
                None if usual.is_empty() => {
                    let text = format!("accept {name}: there is no input to take it from");
                    return Err(CliError::failed(text));
                }
                Some(value) if !value.is_empty() => value,
                _ => usual.clone(),
            };
            if !number || value.trim().parse::<f64>().is_ok() {
                if hidden {
                    self.hidden.insert(name.clone(), value.clone());
                } else {
                    self.hidden.remove(&name);
                }
                self.defines.insert(name, value);
                return Ok(());
            }
            let text = format!("\"{value}\" is not a number");
            if self.editor.is_none() {
                return Err(CliError::failed(format!("accept {name}: {text}")));
            }
            eprintln!("{text}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(text: &str, has_comments: bool) -> Vec<String> {
        let escape = Some('\\');
        let names = Names { text, mark: '&', escape, at: 0, quoted: 0, comment: 0, has_comments };
        let shown = names.map(|found| match found {
            Found::Escaped(at) => format!("escaped {at}"),
            Found::Named(n) => {
                let keeps = if n.keeps { "&" } else { "" };
                let comment = if n.in_comment { " in a comment" } else { "" };
                format!("{keeps}{} {}..{}{comment}", n.name, n.at, n.end)
            }
        });
        shown.collect()
    }

    #[test]
    fn names_are_found_outside_of_operators() {
        assert_eq!(names("&a &&b.c &1..x", true), ["a 0..2", "&b 3..7", "1 9..12"]);
        assert!(names("a & b && c &", true).is_empty());
        assert_eq!(names("'it''s -- &x' -- &y", true), ["x 10..12", "y 17..19 in a comment"]);
        assert_eq!(names("-- &y", false), ["y 3..5"]);
        assert_eq!(names("\\&a", true), ["escaped 0"]);
    }
}
