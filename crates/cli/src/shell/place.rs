//! Where a statement stands in its file, what was replaced in it on its way to the server, and
//! the place of an error, which the server tells by what it was sent.
//!
//! What it promises: line and column are those of the file as it lies there.

use super::blocks::{self, Token, tokens};
use std::rc::Rc;
use tokio_postgres::error::{DbError, ErrorPosition};

/// What is shown instead of what may not be seen.
pub(super) const HIDDEN: &str = "***";

/// Where a text begins.
#[derive(Clone, Default, Debug)]
pub(super) struct Place {
    /// The file, if it is one's.
    pub(super) file: Option<Rc<str>>,
    /// Lines of the file before it, and characters of its line before it.
    pub(super) lines: usize,
    pub(super) columns: usize,
}

/// A stretch of a text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Part {
    /// Where it begins, and where what it was made of began.
    at: usize,
    from: usize,
    /// Whether it is as it was.
    copied: bool,
    /// Whether it may not be seen.
    hidden: bool,
}

/// A text in which some of another has been replaced.
#[derive(Clone, Default, Debug)]
pub(super) struct Edited {
    pub(super) text: String,
    parts: Vec<Part>,
}

impl Edited {
    /// A text as it is.
    pub(super) fn whole(text: &str) -> Edited {
        let mut out = Edited::default();
        out.copy(0, text);
        out
    }

    /// Goes on with what stands at `from` in the other text.
    pub(super) fn copy(&mut self, from: usize, text: &str) {
        self.part(text, Part { at: self.text.len(), from, copied: true, hidden: false });
    }

    /// Goes on with something instead of what stands there.
    pub(super) fn put(&mut self, from: usize, text: &str) {
        self.part(text, Part { at: self.text.len(), from, copied: false, hidden: false });
    }

    /// The same with what may not be seen.
    pub(super) fn put_hidden(&mut self, from: usize, text: &str) {
        self.part(text, Part { at: self.text.len(), from, copied: false, hidden: true });
    }

    fn part(&mut self, text: &str, part: Part) {
        if !text.is_empty() {
            self.parts.push(part);
            self.text.push_str(text);
        }
    }

    /// The text as it may be seen, and where in it what stands at `place` is.
    fn seen(&self, place: usize) -> (String, usize) {
        let (mut out, mut seen) = (String::new(), None);
        let ends = self.parts.iter().skip(1).map(|part| part.at).chain([self.text.len()]);
        for (part, end) in self.parts.iter().zip(ends) {
            if (part.at..end).contains(&place) {
                let inside = if part.hidden { 0 } else { place - part.at };
                seen = Some(out.len() + inside);
            }
            out.push_str(if part.hidden { HIDDEN } else { &self.text[part.at..end] });
        }
        let seen = seen.unwrap_or(out.len());
        (out, seen)
    }

    /// The text as it may be seen.
    pub(super) fn shown(&self) -> String {
        self.seen(0).0
    }

    /// Where what stands at `at` came from.
    fn origin(&self, at: usize) -> usize {
        let behind = self.parts.partition_point(|part| part.at <= at);
        let Some(part) = behind.checked_sub(1).map(|i| self.parts[i]) else { return at };
        if part.copied { part.from + (at - part.at) } else { part.from }
    }
}

/// What became of a statement: the text that was typed, with `&name` replaced, with variables
/// replaced.
pub(super) struct Sent<'a> {
    pub(super) typed: &'a str,
    pub(super) substituted: &'a Edited,
    /// `None`: there are no variables in it.
    pub(super) bound: Option<&'a Bound>,
}

/// A statement with its bind variables replaced.
#[derive(Debug)]
pub(super) struct Bound {
    pub(super) edited: Edited,
    /// What stands before and behind it, if it has become part of a block.
    pub(super) before: String,
    pub(super) behind: String,
    /// The variables, each once.
    pub(super) used: Vec<String>,
}

impl Bound {
    pub(super) fn is_block(&self) -> bool {
        !self.before.is_empty()
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}{}", self.before, self.edited.text, self.behind)
    }
}

/// A place in the statement with `&name` replaced, by bytes.
struct Spot {
    at: usize,
    /// The column is known.
    exact: bool,
}

/// Byte of a line of a text, from 1.
fn line_begin(text: &str, line: usize) -> Option<usize> {
    let mut begins = std::iter::once(0).chain(text.match_indices('\n').map(|(i, _)| i + 1));
    begins.nth(line.checked_sub(1)?)
}

/// Line and column of a byte, from 1, and the line.
fn line_of(text: &str, at: usize) -> (usize, usize, &str) {
    let at = at.min(text.len());
    let begin = text[..at].rfind('\n').map_or(0, |i| i + 1);
    let end = text[at..].find('\n').map_or(text.len(), |i| at + i);
    let line = text[..at].matches('\n').count() + 1;
    (line, text[begin..at].chars().count() + 1, &text[begin..end])
}

/// The line of the statement's own code that the server speaks of.
fn told_line(context: &str) -> Option<usize> {
    // The outermost is the last.
    context.lines().rev().find_map(|line| {
        let number = line
            .strip_prefix("line ")
            .and_then(|rest| rest.strip_suffix(" of the block"))
            .or_else(|| {
                let rest = line.strip_prefix("PL/pgSQL function inline_code_block line ")?;
                rest.split(' ').next()
            })
            .or_else(|| {
                let rest = line.strip_prefix("compilation of PL/pgSQL function ")?;
                rest.rsplit_once(" near line ").map(|(_, number)| number)
            })?;
        number.parse().ok()
    })
}

/// Length of the quote that a text begins with, if it does.
fn opening_len(text: &str) -> usize {
    match text.strip_prefix('$') {
        Some(rest) => rest.find('$').map_or(0, |at| at + 2),
        None => ["'", "e'", "E'"].iter().find(|q| text.starts_with(**q)).map_or(0, |q| q.len()),
    }
}

/// The word that a message quotes.
fn quoted_word(message: &str) -> Option<&str> {
    message.split('"').nth(1).filter(|word| !word.is_empty())
}

/// The innermost statement of the block itself is at fault, and its text is in the block.
fn is_of_block(context: &str) -> bool {
    context.lines().count() == 1 && !context.ends_with(" at EXECUTE")
}

/// What an error of a statement says is wrong with its text: the parts of a name, or a word.
fn named<'m>(state: &str, message: &'m str) -> Option<Vec<&'m str>> {
    // Others speak of values.
    if !state.starts_with("42") {
        return None;
    }
    let called = ["function ", "procedure "].iter().find_map(|kind| message.strip_prefix(*kind));
    let word = match (called.and_then(|rest| rest.split_once('(')), quoted_word(message)) {
        (Some((name, _)), _) => name,
        // `column t.c does not exist`
        (None, None) => message.strip_prefix("column ")?.split(' ').next()?,
        (None, Some(word)) => word,
    };
    let is_name = word.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '#'));
    Some(if is_name { word.split('.').collect() } else { vec![word] })
}

/// Where a name or word stands, if that is once between a line and the end of the last statement
/// that begins in it.
fn only_place(text: &str, line_at: usize, parts: &[&str]) -> Option<usize> {
    let text = text.get(line_at..)?;
    let line_end = text.find('\n').unwrap_or(text.len());
    let all: Vec<Token<'_>> =
        tokens(text).take_while(|token| !(token.is(";") && token.at >= line_end)).collect();
    let is_same = |token: &Token<'_>, part: &str| match token.text.strip_prefix('"') {
        Some(name) => name.strip_suffix('"') == Some(part),
        None => token.is(part),
    };
    let is_point = |at: usize| all.get(at).is_some_and(|token| token.is("."));
    let len = parts.len() * 2 - 1;
    // A part of a longer name is another name.
    let stands = |at: &usize| {
        let own = (0..parts.len()).all(|i| {
            let at = at + i * 2;
            all.get(at).is_some_and(|token| is_same(token, parts[i]))
                && (i == 0 || is_point(at - 1))
        });
        own && !is_point(at + len) && !at.checked_sub(1).is_some_and(is_point)
    };
    let mut found = (0..all.len()).filter(stands);
    let at = found.next().filter(|_| found.next().is_none())?;
    Some(line_at + all[at].at)
}

impl Sent<'_> {
    /// Where an error is, if the server tells it.
    fn spot(&self, error: &DbError) -> Option<Spot> {
        let sent = &self.substituted.text;
        if let Some(ErrorPosition::Original(position)) = error.position() {
            let at = usize::try_from(*position).unwrap_or(1).saturating_sub(1);
            let byte = |text: &str| text.char_indices().nth(at).map_or(text.len(), |(at, _)| at);
            let at = match self.bound {
                None => byte(sent),
                Some(bound) => {
                    let inner = byte(&bound.text()).checked_sub(bound.before.len())?;
                    bound.edited.origin(inner.min(bound.edited.text.len()))
                }
            };
            return Some(Spot { at, exact: true });
        }
        let context = error.where_()?;
        let line = told_line(context)?;
        let place_in = |text: &str, line_at: usize| {
            let parts =
                named(error.code().code(), error.message()).filter(|_| is_of_block(context));
            parts.and_then(|parts| only_place(text, line_at, &parts))
        };
        if let Some(bound) = self.bound {
            let line = line.checked_sub(bound.before.matches('\n').count())?;
            let at = line_begin(&bound.edited.text, line)?;
            let exact = place_in(&bound.edited.text, at);
            let at = bound.edited.origin(exact.unwrap_or(at));
            return Some(Spot { at, exact: exact.is_some() });
        }
        let code = blocks::code_at(sent)?;
        let of_code = |from: usize| line_begin(sent, sent[..from].matches('\n').count() + line);
        // An error in what stands before the body is told by the lines from there.
        let shows = |at: &usize| {
            let word = quoted_word(error.message());
            word.is_some_and(|word| line_of(sent, *at).2.to_lowercase().contains(word))
        };
        let [inside, head] = [of_code(code.body), of_code(code.head)];
        let at = match inside.filter(shows) {
            Some(at) => Some(at),
            None => head.filter(|at| *at < code.body && shows(at)).or(inside),
        };
        let at = at?;
        // What stands between quotes is looked through from behind the first of them.
        let begins = code.body + opening_len(&sent[code.body..]);
        let from = if Some(at) == inside { at.max(begins) } else { at };
        let exact = place_in(sent, from);
        Some(Spot { at: exact.unwrap_or(at), exact: exact.is_some() })
    }

    /// The error's line in stored code, from 1, which is that of `procedure` or `function`, and
    /// its column, if they are told.
    pub(super) fn line_told(&self, error: &DbError) -> Option<(usize, Option<usize>)> {
        let spot = self.spot(error)?;
        let text = &self.substituted.text;
        let (line, column, _) = line_of(text, spot.at);
        let head = blocks::code_at(text).map_or(0, |code| code.head);
        let before = text[..head].matches('\n').count();
        Some((line.saturating_sub(before).max(1), spot.exact.then_some(column)))
    }

    /// The lines that tell the place in the statement, and in the file.
    pub(super) fn told(&self, error: Option<&DbError>, place: &Place) -> String {
        let spot = error.and_then(|error| self.spot(error));
        let mut out = String::new();
        if let Some(spot) = &spot {
            let (text, at) = self.substituted.seen(spot.at);
            let (line, column, shown) = line_of(&text, at);
            let begin = format!("LINE {line}: ");
            out.push_str(&format!("\n{begin}{}", shown.trim_end()));
            if spot.exact {
                let blanks = " ".repeat(begin.chars().count() + column - 1);
                out.push_str(&format!("\n{blanks}^"));
            }
        }
        let Some(file) = &place.file else { return out };
        let typed = spot.as_ref().map_or(0, |spot| self.substituted.origin(spot.at));
        let (line, column, _) = line_of(self.typed, typed);
        let column = if line == 1 { column + place.columns } else { column };
        out.push_str(&format!("\nat {file}, line {}", place.lines + line));
        if spot.is_some_and(|spot| spot.exact) {
            out.push_str(&format!(", column {column}"));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_by_line_and_column() {
        assert_eq!(line_of("select 1,\n  x\nfrom t", 12), (2, 3, "  x"));
        assert_eq!(line_of("é x", 3), (1, 3, "é x"));
        assert_eq!(line_of("a", 99), (1, 2, "a"));
        assert_eq!((line_begin("a\nb", 2), line_begin("a\nb", 3)), (Some(2), None));
    }

    #[test]
    fn what_was_replaced_has_the_place_of_its_name() {
        let mut edited = Edited::default();
        edited.copy(0, "select ");
        edited.put(7, "a_long_name");
        edited.copy(9, ", x from t");
        assert_eq!(edited.text, "select a_long_name, x from t");
        assert_eq!([0, 7, 12, 18, 20].map(|at| edited.origin(at)), [0, 7, 7, 9, 11]);
        assert_eq!(Edited::whole("abc").origin(2), 2);
    }

    #[test]
    fn what_is_hidden_is_not_seen() {
        let mut edited = Edited::default();
        edited.copy(0, "identified by ");
        edited.put_hidden(14, "secret");
        edited.copy(17, " account lock");
        assert_eq!(edited.text, "identified by secret account lock");
        assert_eq!(edited.shown(), "identified by *** account lock");
        assert_eq!([0, 14, 17, 20, 33].map(|at| edited.seen(at).1), [0, 14, 14, 17, 30]);
        assert_eq!(Edited::whole("abc").seen(3), ("abc".to_owned(), 3));
    }

    #[test]
    fn what_an_error_names_is_found_where_it_stands_once() {
        let place = |text: &str, line, state, message: &str| {
            let line_at = line_begin(text, line).expect("a line");
            let at = only_place(text, line_at, &named(state, message)?)?;
            let (line, column, _) = line_of(text, at);
            Some((line, column))
        };
        let text = "begin\n  null; foo\n bar baz;\n  insert into nope\n  select a, t.a, a.t,\n\
                    f(1) from s.t, S.\"T\";\nend;";
        let near = |word: &str| format!("syntax error at or near \"{word}\"");
        assert_eq!(place(text, 2, "42601", &near("foo")), Some((2, 9)));
        assert_eq!(place(text, 2, "42601", &near("baz")), Some((3, 6)));
        // Another statement's.
        assert_eq!(place(text, 2, "42601", &near("nope")), None);
        let relation = |name: &str| format!("relation \"{name}\" does not exist");
        assert_eq!(place(text, 4, "42P01", &relation("nope")), Some((4, 15)));
        assert_eq!(place(text, 4, "42P01", &relation("s.t")), Some((6, 11)));
        assert_eq!(place(text, 4, "42P01", &relation("s.T")), None);
        assert_eq!(place(text, 4, "42703", "column \"a\" does not exist"), Some((5, 10)));
        assert_eq!(place(text, 4, "42703", "column t.a does not exist"), Some((5, 13)));
        let function = "function f(integer) does not exist";
        assert_eq!(place(text, 4, "42883", function), Some((6, 1)));
        assert_eq!(place(text, 4, "42601", &near(",")), None);
        let value = "invalid input syntax for type integer: \"nope\"";
        assert_eq!(place(text, 4, "22P02", value), None);
        assert_eq!(["$a$ x", "$$x", "'x", "E'x", "begin"].map(opening_len), [3, 2, 1, 2, 0]);
        assert!(is_of_block("PL/pgSQL function inline_code_block line 3 at SQL statement"));
        assert!(!is_of_block("PL/pgSQL function inline_code_block line 3 at EXECUTE"));
        assert!(!is_of_block("PL/pgSQL function q() line 4 at RETURN\nsomething line 3 at CALL"));
    }

    #[test]
    fn the_outermost_line_is_the_statements() {
        let context = "PL/pgSQL function q(numeric) line 4 at assignment\n\
                       PL/pgSQL function inline_code_block line 3 at CALL";
        assert_eq!(told_line(context), Some(3));
        assert_eq!(told_line("line 7 of the block"), Some(7));
        let compiled = "compilation of PL/pgSQL function \"p\" near line 12";
        assert_eq!(told_line(compiled), Some(12));
        assert_eq!(told_line("PL/pgSQL function q(numeric) line 4 at assignment"), None);
    }
}
