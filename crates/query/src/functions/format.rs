//! `format`: texts made after a pattern.
//!
//! What it promises: each specifier of PostgreSQL, and its errors.

use super::strings::{made, quoted, shown, text};
use super::typed::{Body, Line};
use crate::error::{PgError, Result};
use kernel::row::{Datum, Value};

fn unterminated() -> PgError {
    PgError::new("22023", "unterminated format() type specifier")
        .with_hint("For a single \"%\" use \"%%\".")
}

fn out_of_range() -> PgError {
    PgError::new("22003", "number is out of range")
}

struct Specifier {
    /// From 1; the next argument if there is none.
    at: Option<usize>,
    left: bool,
    width: Width,
    kind: char,
}

enum Width {
    None,
    Fixed(i32),
    /// From the argument of this number, or from the next one.
    Argument(Option<usize>),
}

struct Pattern<'p> {
    rest: &'p str,
}

impl Pattern<'_> {
    fn next(&mut self) -> Result<char> {
        let c = self.rest.chars().next().ok_or_else(unterminated)?;
        self.rest = &self.rest[c.len_utf8()..];
        Ok(c)
    }

    fn digits(&mut self) -> Result<Option<i32>> {
        let count = self.rest.bytes().take_while(u8::is_ascii_digit).count();
        if count == 0 {
            return Ok(None);
        }
        let number = self.rest[..count].parse().map_err(|_| out_of_range())?;
        self.rest = &self.rest[count..];
        if self.rest.is_empty() {
            return Err(unterminated());
        }
        Ok(Some(number))
    }

    fn position(number: i32) -> Result<usize> {
        match usize::try_from(number) {
            Ok(at) if at > 0 => Ok(at),
            _ => {
                let what = "format specifies argument 0, but arguments are numbered from 1";
                Err(PgError::new("22023", what))
            }
        }
    }

    fn takes(&mut self, c: char) -> bool {
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn specifier(&mut self) -> Result<Specifier> {
        if self.rest.is_empty() {
            return Err(unterminated());
        }
        let mut found = Specifier { at: None, left: false, width: Width::None, kind: ' ' };
        if let Some(number) = self.digits()? {
            if self.takes('$') {
                found.at = Some(Pattern::position(number)?);
            } else {
                found.width = Width::Fixed(number);
                found.kind = self.next()?;
                return Ok(found);
            }
        }
        while self.takes('-') {
            found.left = true;
        }
        if self.takes('*') {
            let argument = match self.digits()? {
                Some(number) => {
                    if !self.takes('$') {
                        let what = "width argument position must be ended by \"$\"";
                        return Err(PgError::new("22023", what));
                    }
                    Some(Pattern::position(number)?)
                }
                None => None,
            };
            found.width = Width::Argument(argument);
        } else if let Some(number) = self.digits()? {
            found.width = Width::Fixed(number);
        }
        found.kind = self.next()?;
        Ok(found)
    }
}

fn argument<'a, 'd>(a: &'a [Datum<'d>], at: usize) -> Result<&'a Datum<'d>> {
    let too_few = || PgError::new("22023", "too few arguments for format()");
    a.get(at).ok_or_else(too_few)
}

fn width_of(datum: &Datum<'_>) -> Result<i32> {
    Ok(match datum {
        Datum::Null => 0,
        Datum::Int2(v) => i32::from(*v),
        Datum::Int4(v) => *v,
        other => {
            let text = shown(other);
            text.trim().parse().map_err(|_| PgError::invalid_text("integer", &text))?
        }
    })
}

fn format(a: &[Datum<'_>]) -> Result<Value> {
    if a[0].is_null() {
        return Ok(Value::Null);
    }
    let mut pattern = Pattern { rest: text(&a[0])? };
    let (mut out, mut last) = (String::new(), 0);
    while let Some(at) = pattern.rest.find('%') {
        out.push_str(&pattern.rest[..at]);
        pattern.rest = &pattern.rest[at + 1..];
        if pattern.takes('%') {
            out.push('%');
            continue;
        }
        let found = pattern.specifier()?;
        if !matches!(found.kind, 's' | 'I' | 'L') {
            let what = format!("unrecognized format() type specifier \"{}\"", found.kind);
            return Err(PgError::new("22023", what).with_hint("For a single \"%\" use \"%%\"."));
        }
        let mut left = found.left;
        let width = match found.width {
            Width::None => 0,
            Width::Fixed(width) => width,
            Width::Argument(at) => {
                last = at.unwrap_or(last + 1);
                let width = width_of(argument(a, last)?)?;
                left |= width < 0;
                width.checked_abs().ok_or_else(out_of_range)?
            }
        };
        last = found.at.unwrap_or(last + 1);
        let value = argument(a, last)?;
        let text = match (found.kind, value) {
            ('I', Datum::Null) => {
                let what = "null values cannot be formatted as an SQL identifier";
                return Err(PgError::new("22004", what));
            }
            ('L', Datum::Null) => "NULL".to_owned(),
            (_, Datum::Null) => String::new(),
            ('I', value) => super::quote_ident(&shown(value)),
            ('L', value) => quoted(&shown(value)),
            (_, value) => shown(value),
        };
        let missing = usize::try_from(width).unwrap_or(0).saturating_sub(text.chars().count());
        let blanks = " ".repeat(missing);
        if left {
            out.push_str(&text);
            out.push_str(&blanks);
        } else {
            out.push_str(&blanks);
            out.push_str(&text);
        }
    }
    out.push_str(pattern.rest);
    made(out)
}

pub(super) const LINES: &[Line] =
    &[("format(text) ?text", Body::One(format)), ("format(text, any...) ?text", Body::One(format))];
