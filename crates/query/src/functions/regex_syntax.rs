//! PostgreSQL's advanced regular expressions, written as the library reads them.
//!
//! What it promises: what is accepted means the same; what the library cannot do is refused by
//! name. What it must never do: pass a character on that the library takes for something else.

use crate::error::{PgError, Result};
use std::fmt::Write as _;
use std::iter::Peekable;
use std::str::Chars;

/// Most repetitions in braces.
const REPEAT_MAX: u32 = 255;
/// How deep parentheses may be nested.
const DEPTH_MAX: usize = 100;

/// Options of a match.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Flags {
    /// Case does not matter.
    pub(super) fold: bool,
    pub(super) global: bool,
    /// `.` and `[^...]` do not match a newline.
    lines: bool,
    /// `^` and `$` match at newlines too.
    anchors: bool,
    /// Blanks and comments mean nothing.
    expanded: bool,
    /// The pattern is plain text.
    literal: bool,
}

impl Flags {
    /// # Errors
    /// 22023 for a letter that is none.
    pub(super) fn parse(letters: &str) -> Result<Flags> {
        let mut flags = Flags::default();
        for c in letters.chars() {
            if c == 'g' {
                flags.global = true;
            } else if c == 'b' {
                return Err(PgError::unsupported("a basic regular expression"));
            } else if !flags.set(c) {
                let what = format!("invalid regular expression option: \"{c}\"");
                return Err(PgError::new("22023", what));
            }
        }
        Ok(flags)
    }

    fn set(&mut self, c: char) -> bool {
        match c {
            'c' => self.fold = false,
            'i' => self.fold = true,
            'm' | 'n' => (self.lines, self.anchors) = (true, true),
            'p' => (self.lines, self.anchors) = (true, false),
            'q' => self.literal = true,
            's' => (self.lines, self.anchors) = (false, false),
            't' => self.expanded = false,
            'w' => (self.lines, self.anchors) = (false, true),
            'x' => self.expanded = true,
            'e' => {}
            _ => return false,
        }
        true
    }
}

/// A pattern in the library's syntax.
pub(super) struct Source {
    pub(super) text: String,
    /// Of the matches with one beginning, the shortest is meant.
    pub(super) shortest: bool,
}

fn invalid(what: &str) -> PgError {
    PgError::new("2201B", format!("invalid regular expression: {what}"))
}

fn parentheses() -> PgError {
    invalid("parentheses () not balanced")
}

fn brackets() -> PgError {
    invalid("brackets [] not balanced")
}

fn operand() -> PgError {
    invalid("quantifier operand invalid")
}

fn bad_escape() -> PgError {
    invalid("invalid escape \\ sequence")
}

fn bad_count() -> PgError {
    invalid("invalid repetition count(s)")
}

/// How much a pattern wants to match.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Wants {
    Nothing,
    Much,
    Little,
}

/// # Errors
/// 2201B for what is no regular expression; 0A000.
pub(super) fn translated(pattern: &str, mut flags: Flags) -> Result<Source> {
    let mut pattern = pattern;
    if let Some(rest) = pattern.strip_prefix("***") {
        match rest.chars().next() {
            Some('=') => flags.literal = true,
            Some(':') => {}
            _ => return Err(operand()),
        }
        pattern = &rest[1..];
    }
    if !flags.literal
        && let Some(rest) = pattern.strip_prefix("(?")
        && rest.starts_with(|c: char| c.is_ascii_alphabetic())
    {
        let end = rest.find(')').ok_or_else(|| invalid("invalid embedded option"))?;
        for c in rest[..end].chars() {
            if !flags.set(c) {
                return Err(match c {
                    'b' => PgError::unsupported("a basic regular expression"),
                    _ => invalid("invalid embedded option"),
                });
            }
        }
        pattern = &rest[end + 1..];
    }
    let mut text = String::from("(?");
    if flags.fold {
        text.push('i');
    }
    if !flags.lines {
        text.push('s');
    }
    if flags.anchors {
        text.push('m');
    }
    text.push_str("-x:");
    if flags.literal {
        pattern.chars().for_each(|c| push_literal(c, &mut text));
        text.push(')');
        return Ok(Source { text, shortest: false });
    }
    let mut reader =
        Reader { chars: pattern.chars().peekable(), out: text, flags, depth: 0, groups: 0 };
    let wants = reader.branches()?;
    if reader.chars.peek().is_some() {
        return Err(parentheses());
    }
    reader.out.push(')');
    Ok(Source { text: reader.out, shortest: wants == Wants::Little })
}

fn push_literal(c: char, out: &mut String) {
    if c.is_ascii_punctuation() {
        out.push('\\');
        out.push(c);
    } else if c.is_ascii_whitespace() || c.is_control() {
        let _ = write!(out, "\\x{{{:x}}}", u32::from(c));
    } else {
        out.push(c);
    }
}

struct Reader<'p> {
    chars: Peekable<Chars<'p>>,
    out: String,
    flags: Flags,
    depth: usize,
    groups: u32,
}

/// What an escape stands for.
enum Escape {
    Char(char),
    /// The inside of a class.
    Class(&'static str),
    /// A whole class, negated.
    NotClass(&'static str),
    /// A place, which cannot be repeated.
    Place(&'static str),
}

impl Reader<'_> {
    /// Blanks and comments of the expanded syntax, and comments in parentheses.
    fn skip_blanks(&mut self) -> Result<()> {
        loop {
            if self.flags.expanded {
                while self.chars.next_if(|c| c.is_whitespace()).is_some() {}
                if self.chars.next_if_eq(&'#').is_some() {
                    while self.chars.next_if(|c| *c != '\n').is_some() {}
                    continue;
                }
            }
            let mut ahead = self.chars.clone();
            if ahead.next() == Some('(') && ahead.next() == Some('?') && ahead.next() == Some('#') {
                self.chars = ahead;
                self.chars.by_ref().find(|c| *c == ')').ok_or_else(parentheses)?;
                continue;
            }
            return Ok(());
        }
    }

    fn branches(&mut self) -> Result<Wants> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(invalid("regular expression is too complex"));
        }
        let mut wants = self.branch()?;
        while self.chars.next_if_eq(&'|').is_some() {
            self.out.push('|');
            self.branch()?;
            wants = Wants::Much;
        }
        self.depth -= 1;
        Ok(wants)
    }

    fn branch(&mut self) -> Result<Wants> {
        let mut wants = Wants::Nothing;
        loop {
            self.skip_blanks()?;
            match self.chars.peek() {
                None | Some('|' | ')') => return Ok(wants),
                Some(_) => {
                    let piece = self.piece()?;
                    if wants == Wants::Nothing {
                        wants = piece;
                    }
                }
            }
        }
    }

    fn piece(&mut self) -> Result<Wants> {
        let (inner, place) = self.atom()?;
        self.skip_blanks()?;
        let mut ahead = self.chars.clone();
        let is_bound =
            ahead.next_if_eq(&'{').is_some() && ahead.peek().is_some_and(char::is_ascii_digit);
        let fixed = match self.chars.peek().copied() {
            Some(c @ ('*' | '+' | '?')) => {
                self.chars.next();
                self.out.push(c);
                false
            }
            Some('{') if is_bound => self.bound()?,
            _ => return Ok(inner),
        };
        if place {
            return Err(operand());
        }
        let lazy = self.chars.next_if_eq(&'?').is_some();
        if lazy {
            self.out.push('?');
        }
        self.skip_blanks()?;
        let mut ahead = self.chars.clone();
        let again = match ahead.next() {
            Some('*' | '+' | '?') => true,
            Some('{') => ahead.peek().is_some_and(char::is_ascii_digit),
            _ => false,
        };
        if again {
            return Err(operand());
        }
        Ok(match (fixed, lazy) {
            (true, _) => inner,
            (false, true) => Wants::Little,
            (false, false) => Wants::Much,
        })
    }

    fn count(&mut self) -> Result<u32> {
        let mut v = 0u32;
        while let Some(c) = self.chars.next_if(char::is_ascii_digit) {
            v = v.saturating_mul(10).saturating_add(c.to_digit(10).unwrap_or(0));
        }
        if v > REPEAT_MAX { Err(bad_count()) } else { Ok(v) }
    }

    /// `{m}`, `{m,}`, `{m,n}`; whether it is a fixed number.
    fn bound(&mut self) -> Result<bool> {
        self.chars.next();
        let low = self.count()?;
        let mut fixed = true;
        let _ = write!(self.out, "{{{low}");
        if self.chars.next_if_eq(&',').is_some() {
            fixed = false;
            self.out.push(',');
            if self.chars.peek().is_some_and(char::is_ascii_digit) {
                let high = self.count()?;
                if high < low {
                    return Err(bad_count());
                }
                fixed = high == low;
                let _ = write!(self.out, "{high}");
            }
        }
        match self.chars.next() {
            Some('}') => self.out.push('}'),
            Some(_) => return Err(bad_count()),
            None => return Err(invalid("braces {} not balanced")),
        }
        Ok(fixed)
    }

    /// One atom; whether it is a place, which cannot be repeated.
    fn atom(&mut self) -> Result<(Wants, bool)> {
        let Some(c) = self.chars.next() else { return Ok((Wants::Nothing, false)) };
        match c {
            '*' | '+' | '?' => return Err(operand()),
            '(' => return Ok((self.group()?, false)),
            '[' => return self.bracket().map(|place| (Wants::Nothing, place)),
            '^' | '$' => {
                let multiple = self.flags.anchors;
                self.out.push_str(match (c, multiple) {
                    ('^', true) => "^",
                    ('^', false) => "\\A",
                    (_, true) => "$",
                    (_, false) => "\\z",
                });
                return Ok((Wants::Nothing, true));
            }
            '.' => self.out.push('.'),
            '{' if self.chars.peek().is_some_and(char::is_ascii_digit) => return Err(operand()),
            '\\' => match self.escape(false)? {
                Escape::Char(c) => push_literal(c, &mut self.out),
                Escape::Class(inside) => {
                    let _ = write!(self.out, "[{inside}]");
                }
                Escape::NotClass(inside) => {
                    let _ = write!(self.out, "[^{inside}]");
                }
                Escape::Place(place) => {
                    self.out.push_str(place);
                    return Ok((Wants::Nothing, true));
                }
            },
            c => push_literal(c, &mut self.out),
        }
        Ok((Wants::Nothing, false))
    }

    fn group(&mut self) -> Result<Wants> {
        if self.chars.next_if_eq(&'?').is_some() {
            match self.chars.next() {
                Some(':') => self.out.push_str("(?:"),
                Some('=' | '!') => {
                    return Err(PgError::unsupported("a regular expression that looks ahead"));
                }
                Some('<') => {
                    return Err(PgError::unsupported("a regular expression that looks behind"));
                }
                _ => return Err(operand()),
            }
        } else {
            self.groups += 1;
            self.out.push('(');
        }
        let wants = self.branches()?;
        if self.chars.next() != Some(')') {
            return Err(parentheses());
        }
        self.out.push(')');
        Ok(wants)
    }

    fn hexadecimal(&mut self, most: usize, least: usize) -> Result<char> {
        let (mut v, mut count) = (0u32, 0);
        while count < most
            && let Some(c) = self.chars.next_if(char::is_ascii_hexdigit)
        {
            v = v.wrapping_mul(16).wrapping_add(c.to_digit(16).unwrap_or(0));
            count += 1;
        }
        if count < least {
            return Err(bad_escape());
        }
        char::from_u32(v).ok_or_else(bad_escape)
    }

    fn escape(&mut self, in_brackets: bool) -> Result<Escape> {
        let c = self.chars.next().ok_or_else(bad_escape)?;
        Ok(match c {
            'a' => Escape::Char('\u{7}'),
            'b' => Escape::Char('\u{8}'),
            'B' => Escape::Char('\\'),
            'c' => {
                let c = self.chars.next().ok_or_else(bad_escape)?;
                Escape::Char(char::from_u32(u32::from(c) & 0x1f).ok_or_else(bad_escape)?)
            }
            'e' => Escape::Char('\u{1b}'),
            'f' => Escape::Char('\u{c}'),
            'n' => Escape::Char('\n'),
            'r' => Escape::Char('\r'),
            't' => Escape::Char('\t'),
            'v' => Escape::Char('\u{b}'),
            'u' => Escape::Char(self.hexadecimal(4, 4)?),
            'U' => Escape::Char(self.hexadecimal(8, 8)?),
            'x' => Escape::Char(self.hexadecimal(255, 1)?),
            'd' => Escape::Class("0-9"),
            's' => Escape::Class("\\s"),
            'w' => Escape::Class("\\p{Alphabetic}\\p{Nd}_"),
            'D' if !in_brackets => Escape::NotClass("0-9"),
            'S' if !in_brackets => Escape::NotClass("\\s"),
            'W' if !in_brackets => Escape::NotClass("\\p{Alphabetic}\\p{Nd}_"),
            'A' if !in_brackets => Escape::Place("\\A"),
            'Z' if !in_brackets => Escape::Place("\\z"),
            'm' if !in_brackets => Escape::Place("\\b{start}"),
            'M' if !in_brackets => Escape::Place("\\b{end}"),
            'y' if !in_brackets => Escape::Place("\\b"),
            'Y' if !in_brackets => Escape::Place("\\B"),
            '0' => {
                let (mut v, mut count) = (0u32, 0);
                while count < 2
                    && let Some(c) = self.chars.next_if(|c| c.is_digit(8))
                {
                    v = v * 8 + c.to_digit(8).unwrap_or(0);
                    count += 1;
                }
                Escape::Char(char::from_u32(v).ok_or_else(bad_escape)?)
            }
            '1'..='9' if !in_brackets => {
                if c.to_digit(10).is_some_and(|n| n > self.groups) {
                    return Err(invalid("invalid backreference number"));
                }
                return Err(PgError::unsupported("a reference back in a regular expression"));
            }
            c if c.is_ascii_alphanumeric() => return Err(bad_escape()),
            c => Escape::Char(c),
        })
    }

    /// The inside of a bracket expression; whether it is a place.
    fn bracket(&mut self) -> Result<bool> {
        let rest: String = self.chars.clone().take(6).collect();
        if let place @ ("[:<:]]" | "[:>:]]") = rest.as_str() {
            self.out.push_str(if place == "[:<:]]" { "\\b{start}" } else { "\\b{end}" });
            self.chars.nth(5);
            return Ok(true);
        }
        self.out.push('[');
        if self.chars.next_if_eq(&'^').is_some() {
            self.out.push('^');
            if self.flags.lines {
                self.out.push_str("\\n");
            }
        }
        let mut first = true;
        loop {
            let c = self.chars.next().ok_or_else(brackets)?;
            if c == ']' && !first {
                self.out.push(']');
                return Ok(false);
            }
            first = false;
            let start = match self.bracket_item(c)? {
                Some(start) => start,
                None => continue,
            };
            let mut ahead = self.chars.clone();
            let is_range = ahead.next() == Some('-') && ahead.next().is_some_and(|c| c != ']');
            if !is_range {
                push_literal(start, &mut self.out);
                continue;
            }
            self.chars.next();
            let c = self.chars.next().ok_or_else(brackets)?;
            let Some(end) = self.range_end(c)? else {
                return Err(invalid("invalid character range"));
            };
            if end < start {
                return Err(invalid("invalid character range"));
            }
            push_literal(start, &mut self.out);
            self.out.push('-');
            push_literal(end, &mut self.out);
        }
    }

    fn range_end(&mut self, c: char) -> Result<Option<char>> {
        let mark = self.out.len();
        let end = self.bracket_item(c)?;
        if end.is_none() {
            self.out.truncate(mark);
        }
        Ok(end)
    }

    /// One element that begins with `c`: a character, or a class that has been written.
    fn bracket_item(&mut self, c: char) -> Result<Option<char>> {
        if c == '\\' {
            return Ok(match self.escape(true)? {
                Escape::Char(c) => Some(c),
                Escape::Class(inside) => {
                    self.out.push_str(inside);
                    None
                }
                Escape::NotClass(_) | Escape::Place(_) => return Err(bad_escape()),
            });
        }
        if c != '[' {
            return Ok(Some(c));
        }
        let Some(kind) = self.chars.next_if(|c| matches!(c, ':' | '.' | '=')) else {
            return Ok(Some('['));
        };
        let mut name = String::new();
        loop {
            let c = self.chars.next().ok_or_else(brackets)?;
            if c == kind && self.chars.next_if_eq(&']').is_some() {
                break;
            }
            name.push(c);
        }
        if kind != ':' {
            let mut chars = name.chars();
            return match (chars.next(), chars.next()) {
                (Some(c), None) => Ok(Some(c)),
                _ => Err(invalid("invalid collating element")),
            };
        }
        self.out.push_str(match name.as_str() {
            "alpha" => "\\p{Alphabetic}",
            "alnum" => "\\p{Alphabetic}\\p{Nd}",
            "upper" => "\\p{Uppercase}",
            "lower" => "\\p{Lowercase}",
            "digit" => "0-9",
            "space" => "\\s",
            "blank" => " \\t",
            "punct" => "!-/:-@\\[-`{-~\\p{P}\\p{S}",
            "cntrl" => "\\p{Cc}",
            "xdigit" => "0-9A-Fa-f",
            "print" => "\\P{C}",
            "graph" => "[\\P{C}&&\\S]",
            "ascii" => "\\x00-\\x7f",
            "word" => "\\p{Alphabetic}\\p{Nd}_",
            _ => return Err(invalid("invalid character class")),
        });
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(pattern: &str) -> String {
        translated(pattern, Flags::default()).expect(pattern).text
    }

    #[test]
    fn patterns_are_written_anew() {
        assert_eq!(text("a.b"), "(?s-x:a.b)");
        assert_eq!(text("^a$"), "(?s-x:\\Aa\\z)");
        assert_eq!(text("[]a&-]"), "(?s-x:[\\]a\\&\\-])");
        assert_eq!(text("(?i)a{"), "(?is-x:a\\{)");
        assert_eq!(text("***=a.b"), "(?s-x:a\\.b)");
        assert!(translated("a*?b", Flags::default()).expect("a pattern").shortest);
    }

    #[test]
    fn what_is_wrong_or_missing_is_an_error() {
        for (pattern, code) in [
            ("(a", "2201B"),
            ("a)", "2201B"),
            ("[a", "2201B"),
            ("*a", "2201B"),
            ("a**", "2201B"),
            ("a{2,1}", "2201B"),
            ("a\\q", "2201B"),
            ("[b-a]", "2201B"),
            ("(a)\\1", "0A000"),
            ("a(?=b)", "0A000"),
        ] {
            let error = translated(pattern, Flags::default()).err().expect(pattern);
            assert_eq!(error.code, code, "{pattern}");
        }
    }
}
