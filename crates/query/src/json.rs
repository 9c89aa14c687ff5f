//! JSON: read, kept and compared as PostgreSQL does.
//!
//! What it promises: numbers keep every digit; jsonb has its keys in PostgreSQL's order, the last
//! of equal keys, and one space after commas and colons.

use crate::error::{PgError, Result};
use std::cmp::Ordering;
use std::fmt::Write as _;

/// Nesting at which a document is refused before the stack is at risk.
const DEPTH_MAX: usize = 500;
/// Digits that an exponent may add.
const EXPONENT_MAX: i32 = 16_383;

/// A document or a part of one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Json {
    Null,
    Bool(bool),
    /// As it was written.
    Number(String),
    String(String),
    Array(Vec<Json>),
    /// In the order written, with equal keys.
    Object(Vec<(String, Json)>),
}

/// The outermost level of a document, its parts as they are written.
pub enum Parts<'a> {
    Scalar(Json),
    Array(Vec<&'a str>),
    Object(Vec<(String, &'a str)>),
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Json {
    /// # Errors
    /// 22P02 if the text is no JSON, 22P05 for `\u0000`, 54001 for too deep nesting.
    pub fn parse(text: &str) -> Result<Json> {
        let mut parser = Parser { text, at: 0, depth: 0 };
        let value = parser.value()?;
        parser.end()?;
        Ok(value)
    }

    /// `json_typeof`.
    #[must_use]
    pub const fn type_name(&self) -> &'static str {
        match self {
            Json::Null => "null",
            Json::Bool(_) => "boolean",
            Json::Number(_) => "number",
            Json::String(_) => "string",
            Json::Array(_) => "array",
            Json::Object(_) => "object",
        }
    }

    /// In normal form: keys ordered and once each, numbers without exponents.
    ///
    /// # Errors
    /// 22003 for a number with too large an exponent.
    pub fn normal(self) -> Result<Json> {
        Ok(match self {
            Json::Number(digits) => Json::Number(plain_number(&digits)?),
            Json::Array(all) => {
                Json::Array(all.into_iter().map(Json::normal).collect::<Result<_>>()?)
            }
            Json::Object(members) => {
                let mut out: Vec<(String, Json)> = Vec::with_capacity(members.len());
                for (key, value) in members {
                    out.push((key, value.normal()?));
                }
                // Stable: of equal keys the last stays.
                out.sort_by(|a, b| key_order(&a.0, &b.0));
                out.reverse();
                out.dedup_by(|a, b| a.0 == b.0);
                out.reverse();
                Json::Object(out)
            }
            other => other,
        })
    }

    /// Text of the normal form.
    ///
    /// # Errors
    /// As [`Json::normal`].
    pub fn to_jsonb(self) -> Result<String> {
        Ok(self.normal()?.to_text())
    }

    /// Text as jsonb is printed.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut out = String::new();
        self.push(&mut out);
        out
    }

    fn push(&self, out: &mut String) {
        match self {
            Json::Null => out.push_str("null"),
            Json::Bool(v) => out.push_str(if *v { "true" } else { "false" }),
            Json::Number(digits) => out.push_str(digits),
            Json::String(text) => push_string(text, out),
            Json::Array(all) => {
                out.push('[');
                for (i, one) in all.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    one.push(out);
                }
                out.push(']');
            }
            Json::Object(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    if i > 0 {
                        out.push_str(", ");
                    }
                    push_string(key, out);
                    out.push_str(": ");
                    value.push(out);
                }
                out.push('}');
            }
        }
    }

    /// What `->>` gives: a string without quotes, NULL for null.
    #[must_use]
    pub fn as_text(&self) -> Option<String> {
        match self {
            Json::Null => None,
            Json::String(text) => Some(text.clone()),
            other => Some(other.to_text()),
        }
    }

    /// Bytes that compare as PostgreSQL compares normal forms.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        let mut out = Vec::new();
        match self {
            Json::Array(_) | Json::Object(_) => self.push_key(true, &mut out),
            // A scalar is an array of one inside, before other arrays of one.
            scalar => {
                out.extend_from_slice(&[TAG_ARRAY, 0, 0, 0, 1, 0]);
                scalar.push_key(false, &mut out);
            }
        }
        out
    }

    fn push_key(&self, top: bool, out: &mut Vec<u8>) {
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX).to_be_bytes();
        match self {
            Json::Null => out.push(1),
            Json::String(text) => {
                out.push(2);
                push_key_text(text, out);
            }
            Json::Number(digits) => {
                out.push(3);
                push_key_number(digits, out);
            }
            Json::Bool(v) => out.extend_from_slice(&[4, u8::from(*v)]),
            Json::Array(all) => {
                out.push(TAG_ARRAY);
                out.extend_from_slice(&count(all.len()));
                if top {
                    out.push(1);
                }
                all.iter().for_each(|one| one.push_key(false, out));
            }
            Json::Object(members) => {
                out.push(6);
                out.extend_from_slice(&count(members.len()));
                for (key, value) in members {
                    push_key_text(key, out);
                    value.push_key(false, out);
                }
            }
        }
    }

    /// Order of two normal forms.
    #[must_use]
    pub fn compare(&self, other: &Json) -> Ordering {
        self.key().cmp(&other.key())
    }

    /// The member with this key.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Json> {
        match self {
            Json::Object(members) => members.iter().rev().find(|m| m.0 == key).map(|m| &m.1),
            _ => None,
        }
    }

    /// Whether the values are one, numbers by value.
    fn same(&self, other: &Json) -> bool {
        self.key() == other.key()
    }

    /// `@>`.
    #[must_use]
    pub fn contains(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Object(_), Json::Object(members)) => members
                .iter()
                .all(|(key, value)| self.get(key).is_some_and(|own| own.contains_inside(value))),
            (Json::Array(own), Json::Array(all)) => {
                all.iter().all(|one| own.iter().any(|mine| mine.contains_inside(one)))
            }
            // An array contains a scalar among its elements.
            (Json::Array(own), scalar) if !matches!(scalar, Json::Object(_)) => {
                own.iter().any(|mine| mine.same(scalar))
            }
            (Json::Array(_) | Json::Object(_), _) | (_, Json::Array(_) | Json::Object(_)) => false,
            (a, b) => a.same(b),
        }
    }

    fn contains_inside(&self, other: &Json) -> bool {
        match (self, other) {
            (Json::Array(_), Json::Array(_)) | (Json::Object(_), Json::Object(_)) => {
                self.contains(other)
            }
            (Json::Array(_) | Json::Object(_), _) | (_, Json::Array(_) | Json::Object(_)) => false,
            (a, b) => a.same(b),
        }
    }
}

const TAG_ARRAY: u8 = 5;

/// Shorter keys first.
#[must_use]
pub fn key_order(a: &str, b: &str) -> Ordering {
    a.len().cmp(&b.len()).then_with(|| a.as_bytes().cmp(b.as_bytes()))
}

fn push_key_text(text: &str, out: &mut Vec<u8>) {
    // No zero byte is in it.
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Sign, decimal exponent, digits.
fn push_key_number(number: &str, out: &mut Vec<u8>) {
    let digits = number.trim_start_matches('-');
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all = format!("{whole}{fraction}");
    let significant = all.trim_start_matches('0');
    let exponent = i64::try_from(whole.len()).unwrap_or(0)
        - i64::try_from(all.len() - significant.len()).unwrap_or(0);
    let significant = significant.trim_end_matches('0');
    if significant.is_empty() {
        out.push(1);
        return;
    }
    let negative = number.starts_with('-');
    out.push(if negative { 0 } else { 2 });
    let from = out.len();
    out.extend_from_slice(&(exponent ^ i64::MIN).to_be_bytes());
    out.extend_from_slice(significant.as_bytes());
    out.push(0);
    if negative {
        out[from..].iter_mut().for_each(|b| *b = !*b);
    }
}

/// A number without exponent, as numeric prints it.
fn plain_number(number: &str) -> Result<String> {
    let (mantissa, exponent) = match number.find(['e', 'E']) {
        Some(at) => {
            let exponent = number[at + 1..].parse::<i32>().ok();
            let exponent = exponent.filter(|e| e.abs() <= EXPONENT_MAX);
            let overflow = || PgError::new("22003", "value overflows numeric format");
            (&number[..at], exponent.ok_or_else(overflow)?)
        }
        None => (number, 0),
    };
    let (sign, digits) = match mantissa.strip_prefix('-') {
        Some(rest) => ("-", rest),
        None => ("", mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut all = format!("{whole}{fraction}");
    let shift = usize::try_from(exponent.abs()).unwrap_or(0);
    let mut point = whole.len();
    if exponent >= 0 {
        point += shift;
        while all.len() < point {
            all.push('0');
        }
    } else if shift >= point {
        all.insert_str(0, &"0".repeat(shift - point + 1));
        point = 1;
    } else {
        point -= shift;
    }
    let (whole, fraction) = all.split_at(point);
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let zero = whole == "0" && fraction.bytes().all(|b| b == b'0');
    let sign = if zero { "" } else { sign };
    Ok(match fraction {
        "" => format!("{sign}{whole}"),
        fraction => format!("{sign}{whole}.{fraction}"),
    })
}

/// Appends a string in quotes.
pub fn push_string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

/// The outermost level of a document.
///
/// # Errors
/// As [`Json::parse`].
pub fn parts(text: &str) -> Result<Parts<'_>> {
    let mut parser = Parser { text, at: 0, depth: 0 };
    parser.blanks();
    let out = match parser.peek() {
        Some(b'{') => {
            let mut members = Vec::new();
            parser.members(|parser, key| {
                let raw = parser.raw()?;
                members.push((key, raw));
                Ok(())
            })?;
            Parts::Object(members)
        }
        Some(b'[') => {
            let mut all = Vec::new();
            parser.elements(|parser| {
                all.push(parser.raw()?);
                Ok(())
            })?;
            Parts::Array(all)
        }
        _ => Parts::Scalar(parser.value()?),
    };
    parser.end()?;
    Ok(out)
}

/// What a member's name could have been.
const FIRST_KEY: &str = "string or \"}\"";
const NEXT_KEY: &str = "string";

/// A part of a document whose end is not reached.
enum Open {
    /// With the name of the member whose value comes next.
    Object(Vec<(String, Json)>, String),
    Array(Vec<Json>),
}

#[cold]
#[inline(never)]
fn too_deep() -> PgError {
    PgError::new("54001", "stack depth limit exceeded")
}

/// Bytes of the word at the beginning, or of the one character that begins none.
fn word_len(text: &str) -> usize {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_' || !c.is_ascii();
    let end = text.find(|c| !word(c)).unwrap_or(text.len());
    if end > 0 { end } else { text.chars().next().map_or(0, char::len_utf8) }
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    /// What stands here, where something else should.
    #[cold]
    #[inline(never)]
    fn expected(&mut self, what: &str) -> PgError {
        let invalid = || PgError::new("22P02", "invalid input syntax for type json");
        self.blanks();
        let (from, end) = (self.at, self.token_end());
        match end {
            Err(error) => error,
            Ok(end) if end == from => invalid().with_detail("The input string ended unexpectedly."),
            Ok(end) => {
                let found = &self.text[from..end];
                invalid().with_detail(format!("Expected {what}, but found \"{found}\"."))
            }
        }
    }

    fn invalid_token(&self, end: usize) -> PgError {
        PgError::new("22P02", "invalid input syntax for type json")
            .with_detail(format!("Token \"{}\" is invalid.", &self.text[self.at..end]))
    }

    /// Where the token here ends; its own place at the end of the text.
    fn token_end(&mut self) -> Result<usize> {
        let from = self.at;
        let rest = &self.text[from..];
        match self.peek() {
            None => Ok(from),
            Some(b'{' | b'}' | b'[' | b']' | b',' | b':') => Ok(from + 1),
            Some(b'"') => {
                self.string()?;
                Ok(std::mem::replace(&mut self.at, from))
            }
            Some(b'-' | b'0'..=b'9') => {
                self.number()?;
                Ok(std::mem::replace(&mut self.at, from))
            }
            Some(_) => {
                let end = from + word_len(rest);
                match &self.text[from..end] {
                    "true" | "false" | "null" => Ok(end),
                    _ => Err(self.invalid_token(end)),
                }
            }
        }
    }

    fn end(&mut self) -> Result<()> {
        self.blanks();
        if self.at == self.text.len() { Ok(()) } else { Err(self.expected("end of input")) }
    }

    fn expect(&mut self, byte: u8) -> Result<()> {
        self.blanks();
        if self.peek() != Some(byte) {
            return Err(self.expected(if byte == b':' { "\":\"" } else { "JSON value" }));
        }
        self.at += 1;
        Ok(())
    }

    /// A value as it is written.
    fn raw(&mut self) -> Result<&'a str> {
        self.blanks();
        let from = self.at;
        self.value()?;
        Ok(&self.text[from..self.at])
    }

    /// A value, however deep, in one frame: what is open is kept in a list.
    fn value(&mut self) -> Result<Json> {
        let mut open: Vec<Open> = Vec::new();
        loop {
            self.blanks();
            let mut done = match self.peek() {
                Some(b'{') => match self.opened(b'}')? {
                    true => Json::Object(Vec::new()),
                    false => {
                        open.push(Open::Object(Vec::new(), self.key(FIRST_KEY)?));
                        continue;
                    }
                },
                Some(b'[') => match self.opened(b']')? {
                    true => Json::Array(Vec::new()),
                    false => {
                        open.push(Open::Array(Vec::new()));
                        continue;
                    }
                },
                Some(b'"') => self.string().map(Json::String)?,
                Some(b'-' | b'0'..=b'9') => self.number()?,
                _ => self.word()?,
            };
            loop {
                match open.pop() {
                    None => return Ok(done),
                    Some(Open::Object(mut members, key)) => {
                        members.push((key, done));
                        if !self.closed(b'}')? {
                            open.push(Open::Object(members, self.key(NEXT_KEY)?));
                            break;
                        }
                        done = Json::Object(members);
                    }
                    Some(Open::Array(mut all)) => {
                        all.push(done);
                        if !self.closed(b']')? {
                            open.push(Open::Array(all));
                            break;
                        }
                        done = Json::Array(all);
                    }
                }
            }
        }
    }

    #[inline(never)]
    fn word(&mut self) -> Result<Json> {
        for (word, value) in
            [("true", Json::Bool(true)), ("false", Json::Bool(false)), ("null", Json::Null)]
        {
            let rest = &self.text[self.at..];
            if let Some(after) = rest.strip_prefix(word)
                && !after.starts_with(|c: char| c.is_alphanumeric() || c == '_')
            {
                self.at += word.len();
                return Ok(value);
            }
        }
        Err(self.expected("JSON value"))
    }

    /// Past the sign that opens an object or array; whether it ends here.
    fn opened(&mut self, end: u8) -> Result<bool> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        self.expect(if end == b'}' { b'{' } else { b'[' })?;
        self.blanks();
        if self.peek() != Some(end) {
            return Ok(false);
        }
        self.at += 1;
        self.depth -= 1;
        Ok(true)
    }

    /// A member's name and the colon behind it.
    fn key(&mut self, wanted: &str) -> Result<String> {
        self.blanks();
        if self.peek() != Some(b'"') {
            return Err(self.expected(wanted));
        }
        let key = self.string()?;
        self.expect(b':')?;
        Ok(key)
    }

    fn members(&mut self, mut each: impl FnMut(&mut Self, String) -> Result<()>) -> Result<()> {
        if self.opened(b'}')? {
            return Ok(());
        }
        let mut wanted = FIRST_KEY;
        loop {
            let key = self.key(wanted)?;
            wanted = NEXT_KEY;
            each(self, key)?;
            if self.closed(b'}')? {
                return Ok(());
            }
        }
    }

    fn elements(&mut self, mut each: impl FnMut(&mut Self) -> Result<()>) -> Result<()> {
        if self.opened(b']')? {
            return Ok(());
        }
        loop {
            each(self)?;
            if self.closed(b']')? {
                return Ok(());
            }
        }
    }

    /// Past a comma, or past the end.
    fn closed(&mut self, end: u8) -> Result<bool> {
        self.blanks();
        match self.peek() {
            Some(b',') => {
                self.at += 1;
                Ok(false)
            }
            Some(byte) if byte == end => {
                self.at += 1;
                self.depth -= 1;
                Ok(true)
            }
            _ => Err(self.expected(if end == b'}' { "\",\" or \"}\"" } else { "\",\" or \"]\"" })),
        }
    }

    fn number(&mut self) -> Result<Json> {
        let from = self.at;
        let digits = |parser: &mut Self| {
            let start = parser.at;
            while parser.peek().is_some_and(|b| b.is_ascii_digit()) {
                parser.at += 1;
            }
            parser.at - start
        };
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        let leading_zero = self.peek() == Some(b'0');
        let whole = digits(self);
        let mut good = whole == 1 || (whole > 1 && !leading_zero);
        if self.peek() == Some(b'.') {
            self.at += 1;
            good &= digits(self) > 0;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            good &= digits(self) > 0;
        }
        let follows = self.text[self.at..].starts_with(|c: char| c.is_alphanumeric() || c == '_');
        if !good || follows {
            let end = self.at + word_len(&self.text[self.at..]);
            let end = if follows { end } else { self.at };
            self.at = from;
            return Err(self.invalid_token(end));
        }
        Ok(Json::Number(self.text[from..self.at].to_owned()))
    }

    fn string(&mut self) -> Result<String> {
        let from = self.at;
        self.at += 1;
        let mut out = String::new();
        loop {
            let rest = &self.text[self.at..];
            let Some(end) = rest.find(|c: char| c == '"' || c == '\\' || c < ' ') else {
                self.at = from;
                return Err(PgError::new("22P02", "invalid input syntax for type json")
                    .with_detail(format!("Token \"{}\" is invalid.", &self.text[from..])));
            };
            out.push_str(&rest[..end]);
            self.at += end + 1;
            match rest.as_bytes()[end] {
                b'"' => return Ok(out),
                b'\\' => out.push(self.escaped()?),
                control => {
                    return Err(PgError::new("22P02", "invalid input syntax for type json")
                        .with_detail(format!(
                            "Character with value 0x{control:02x} must be escaped."
                        )));
                }
            }
        }
    }

    fn escaped(&mut self) -> Result<char> {
        let invalid = |detail: &str| {
            PgError::new("22P02", "invalid input syntax for type json").with_detail(detail)
        };
        let Some(byte) = self.peek() else {
            return Err(self.invalid_token(self.text.len()));
        };
        self.at += 1;
        Ok(match byte {
            b'"' | b'\\' | b'/' => char::from(byte),
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                let hex = |parser: &mut Self| -> Result<u32> {
                    let digits = parser.text.get(parser.at..parser.at + 4);
                    let code = digits
                        .filter(|d| d.bytes().all(|b| b.is_ascii_hexdigit()))
                        .and_then(|d| u32::from_str_radix(d, 16).ok());
                    parser.at += 4;
                    code.ok_or_else(|| {
                        invalid("\"\\u\" must be followed by four hexadecimal digits.")
                    })
                };
                let mut code = hex(self)?;
                if (0xd800..0xdc00).contains(&code) && self.text[self.at..].starts_with("\\u") {
                    self.at += 2;
                    let low = hex(self)?;
                    if !(0xdc00..0xe000).contains(&low) {
                        return Err(invalid("Unicode low surrogate must follow a high surrogate."));
                    }
                    code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
                }
                if code == 0 {
                    return Err(PgError::new("22P05", "unsupported Unicode escape sequence")
                        .with_detail("\\u0000 cannot be converted to text."));
                }
                char::from_u32(code)
                    .ok_or_else(|| invalid("Unicode low surrogate must follow a high surrogate."))?
            }
            _ => {
                self.at -= 1;
                let c = self.text[self.at..].chars().next().unwrap_or(' ');
                return Err(invalid(&format!("Escape sequence \"\\{c}\" is invalid.")));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jsonb(text: &str) -> String {
        Json::parse(text).unwrap().to_jsonb().unwrap()
    }

    #[test]
    fn jsonb_has_one_form() {
        for (text, want) in [
            (r#"{"bb":1,"a":[1,2 ,3],"a":{}}"#, r#"{"a": {}, "bb": 1}"#),
            ("1e3", "1000"),
            ("-1.50e-2", "-0.0150"),
            ("-0.00", "0.00"),
            (r#""\u00e4\n\u0001\ud83d\ude00""#, "\"ä\\n\\u0001😀\""),
            (" [ ] ", "[]"),
            (
                "12345678901234567890123456789012345678901234567890.1",
                "12345678901234567890123456789012345678901234567890.1",
            ),
        ] {
            assert_eq!(jsonb(text), want);
        }
        for bad in ["", "{", "[1,]", "01", "1.", "tru", "'a'", "{\"a\" 1}", "1 2", "\"\\x\""] {
            assert_eq!(Json::parse(bad).unwrap_err().code, "22P02", "{bad}");
        }
        assert_eq!(Json::parse(&"[".repeat(10_000)).unwrap_err().code, "54001");
    }

    #[test]
    fn documents_compare_as_in_postgresql() {
        let ascending = [
            "[]",
            "null",
            "\"a\"",
            "\"b\"",
            "-10",
            "-1.5",
            "0",
            "2",
            "10",
            "false",
            "true",
            "[1]",
            "[1, 2]",
            "{}",
            r#"{"a": 1}"#,
            r#"{"a": 2}"#,
            r#"{"b": 0}"#,
            r#"{"a": 1, "b": 0}"#,
        ];
        let parsed: Vec<Json> = ascending.iter().map(|t| Json::parse(t).unwrap()).collect();
        for (i, a) in parsed.iter().enumerate() {
            for (j, b) in parsed.iter().enumerate() {
                assert_eq!(a.compare(b), i.cmp(&j), "{a:?} {b:?}");
            }
        }
        let (one, other) = (Json::parse("1.0").unwrap(), Json::parse("1").unwrap());
        assert_eq!(one.compare(&other), Ordering::Equal);
    }
}
