//! The values of a one-row INSERT, taken out of its text: applications that put values into texts
//! send a new text for each row, and one plan serves them all.
//!
//! What it promises: what is taken out means the same given as a parameter, provided that
//! [`Lifted::suits`] says so of the types that the parameters turn out to have. What it must never
//! do: guess. Whatever it does not know for certain is left to the parser.

use kernel::row::{ColType, TypeKind};

/// Longest part of the text that is not a value.
pub(super) const REST_BYTES_MAX: usize = 8 << 10;
/// Digits that fit any type of numbers that can hold them at all.
const DIGITS_MAX: usize = 18;

/// What a value was written as.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Written {
    Quoted,
    Integer,
    Decimal,
}

/// A statement with parameters in place of values it was written with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Lifted {
    pub(crate) text: String,
    pub(super) values: Vec<(Written, String)>,
    /// Of [`super::keyed`]: the values stand beside operators.
    pub(super) keyed: bool,
}

impl Lifted {
    /// The values as text, in the order of the parameters, if each means the same as a parameter of
    /// its type.
    pub(crate) fn suits(&self, params: &[ColType]) -> Option<impl Iterator<Item = &str>> {
        let fits = self.values.len() == params.len()
            && self.values.iter().zip(params).all(|((written, text), ty)| match written {
                _ if is_negative_zero(*written, text) && is_float(ty.kind) => false,
                _ if self.keyed => means_the_same(*written, text, *ty),
                // The fields of the column's type say what a number in an interval counts.
                Written::Quoted => ty.kind != TypeKind::Interval,
                Written::Integer => is_number(ty.kind),
                Written::Decimal => {
                    matches!(ty.kind, TypeKind::Numeric | TypeKind::Float4 | TypeKind::Float8)
                }
            });
        fits.then(|| self.values.iter().map(|(_, text)| &**text))
    }

    /// Whether it is one that one plan serves only if that finds one row by its key.
    pub(crate) const fn is_keyed(&self) -> bool {
        self.keyed
    }
}

/// Whether a constant beside an operator means the same as a parameter of this type, which the
/// other side has given it. A number has a type of its own, and one that is shorter than the other
/// side's loses nothing; a text takes the other side's, without its limits.
fn means_the_same(written: Written, text: &str, ty: ColType) -> bool {
    use TypeKind::{Float8, Int4, Int8, Numeric};
    match written {
        // The fields of a column's type say what a number in an interval counts.
        Written::Quoted if ty.kind == TypeKind::Interval => false,
        Written::Integer => matches!(ty.kind, Int4 | Int8 | Numeric | Float8),
        Written::Decimal => {
            let digits = text.split_once('.').map_or(0, |(_, digits)| digits.len());
            let kept = ty.precision_scale().is_none_or(|(_, scale)| digits <= usize::from(scale));
            ty.kind == Float8 || ty.kind == Numeric && kept
        }
        Written::Quoted => {
            ty == ty.without_limit() || ty.length().is_some_and(|most| text.chars().count() <= most)
        }
    }
}

/// A number has no zero below zero, but a float that is read from the same text has.
fn is_negative_zero(written: Written, text: &str) -> bool {
    written != Written::Quoted
        && text.starts_with('-')
        && !text.contains(|c| matches!(c, '1'..='9'))
}

fn is_float(kind: TypeKind) -> bool {
    matches!(kind, TypeKind::Float4 | TypeKind::Float8)
}

fn is_number(kind: TypeKind) -> bool {
    use TypeKind::{Float4, Float8, Int2, Int4, Int8, Numeric};
    matches!(kind, Int2 | Int4 | Int8 | Numeric | Float4 | Float8)
}

/// A statement without the end that clients send: with and without it, it is one text.
pub(crate) fn without_end(text: &str) -> &str {
    text.trim_end_matches(|c: char| c == ';' || is_blank(c))
}

/// `INSERT INTO … VALUES (…) …` with at least one plain value; `None`: anything else.
pub(crate) fn lift(text: &str) -> Option<Lifted> {
    let text = without_end(text);
    let mut scan = Scan::new(text);
    scan.blanks();
    if !scan.word().eq_ignore_ascii_case("insert") {
        return None;
    }
    loop {
        match scan.plain()? {
            Plain::Word(word) if word.eq_ignore_ascii_case("values") => break,
            // Something with a VALUES of its own, or another row source.
            Plain::Word(word)
                if word.eq_ignore_ascii_case("select") || word.eq_ignore_ascii_case("with") =>
            {
                return None;
            }
            _ => {}
        }
    }
    scan.blanks();
    scan.take(b'(').then_some(())?;
    let mut out = String::with_capacity(scan.at + 64);
    out.push_str(&text[..scan.at]);
    let mut values = Vec::new();
    loop {
        scan.blanks();
        if let Some(value) = scan.value() {
            values.push(value);
            out.push('$');
            out.push_str(&values.len().to_string());
        } else {
            out.push_str(scan.constant()?);
        }
        scan.blanks();
        if scan.take(b')') {
            out.push(')');
            break;
        }
        scan.take(b',').then_some(())?;
        out.push(',');
    }
    let rest = scan.at;
    scan.blanks();
    if scan.peek() == Some(b',') {
        return None;
    }
    while scan.peek().is_some() {
        // One statement.
        scan.plain()?;
    }
    out.push_str(&text[rest..]);
    let few = !values.is_empty() && values.len() <= usize::from(u16::MAX);
    (few && out.len() <= REST_BYTES_MAX).then_some(Lifted { text: out, values, keyed: false })
}

pub(super) const fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\n' | '\r')
}

/// A place in a text.
pub(super) struct Scan<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

enum Plain<'a> {
    Word(&'a str),
    Other,
}

impl<'a> Scan<'a> {
    pub(super) const fn new(text: &'a str) -> Scan<'a> {
        Scan { text, at: 0 }
    }

    pub(super) fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    pub(super) fn take(&mut self, wanted: u8) -> bool {
        let found = self.peek() == Some(wanted);
        self.at += usize::from(found);
        found
    }

    pub(super) fn while_is(&mut self, is: impl Fn(u8) -> bool) -> &'a str {
        let from = self.at;
        while self.peek().is_some_and(&is) {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    pub(super) fn blanks(&mut self) {
        self.while_is(|b| is_blank(char::from(b)));
    }

    /// Letters, digits and what else names are made of; empty if the next character is none.
    pub(super) fn word(&mut self) -> &'a str {
        if self.peek().is_some_and(|b| b.is_ascii_digit()) {
            return "";
        }
        self.while_is(|b| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80)
    }

    /// What may stand outside the values: names and the punctuation between them, no constants.
    fn plain(&mut self) -> Option<Plain<'a>> {
        self.blanks();
        match self.peek()? {
            b'"' => {
                self.at += 1;
                self.while_is(|b| b != b'"');
                self.take(b'"').then_some(Plain::Other)
            }
            b'(' | b')' | b',' | b'.' | b'=' | b'*' => {
                self.at += 1;
                self.blanks();
                Some(Plain::Other)
            }
            _ => {
                let word = self.word();
                // A quote or a dollar right behind a word makes something else of it.
                let ends = !matches!(self.peek(), Some(b'\'' | b'"' | b'$' | b'&'));
                self.blanks();
                (!word.is_empty() && ends).then_some(Plain::Word(word))
            }
        }
    }

    /// A string or a number on its own.
    fn value(&mut self) -> Option<(Written, String)> {
        let from = self.at;
        let found = match self.peek()? {
            b'\'' => self.quoted(),
            b'-' | b'0'..=b'9' => self.number(),
            _ => None,
        };
        let end = self.at;
        self.blanks();
        // An operator, a cast, a second line of a string: not a value on its own.
        let found = found.filter(|_| matches!(self.peek(), Some(b',' | b')')));
        self.at = if found.is_some() { end } else { from };
        found
    }

    /// A text in quotes, which the next character begins.
    pub(super) fn quoted(&mut self) -> Option<(Written, String)> {
        let mut value = String::new();
        self.at += 1;
        loop {
            value.push_str(self.while_is(|b| b != b'\'' && b != b'\\' && b != 0));
            // Backslashes are plain characters unless a setting says otherwise.
            self.take(b'\'').then_some(())?;
            if !self.take(b'\'') {
                return Some((Written::Quoted, value));
            }
            value.push('\'');
        }
    }

    /// A whole number or one with a fraction.
    pub(super) fn number(&mut self) -> Option<(Written, String)> {
        let from = self.at;
        self.take(b'-');
        let whole = self.while_is(|b| b.is_ascii_digit()).len();
        let mut written = Written::Integer;
        let mut digits = whole;
        if self.take(b'.') {
            written = Written::Decimal;
            digits += self.while_is(|b| b.is_ascii_digit()).len();
        }
        let known = whole > 0 && digits <= DIGITS_MAX && !self.text[..self.at].ends_with('.');
        known.then(|| (written, self.text[from..self.at].to_owned()))
    }

    /// A word that stands for a value, or a call without arguments.
    fn constant(&mut self) -> Option<&'a str> {
        let from = self.at;
        let word = self.word();
        if word.is_empty() {
            return None;
        }
        let end = self.at;
        self.blanks();
        if !self.take(b'(') {
            self.at = end;
        } else {
            self.blanks();
            self.take(b')').then_some(())?;
        }
        let end = self.at;
        self.blanks();
        matches!(self.peek(), Some(b',' | b')')).then_some(&self.text[from..end])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lifted(text: &str) -> Option<(String, Vec<String>)> {
        lift(text).map(|l| (l.text, l.values.into_iter().map(|(_, value)| value).collect()))
    }

    #[test]
    fn values_become_parameters() {
        let some = |text: &str, values: &[&str]| {
            Some((text.to_owned(), values.iter().map(|v| (*v).to_owned()).collect()))
        };
        assert_eq!(
            lifted("INSERT INTO t1 (a, b, c) VALUES (0, 'it''s', -3.50)"),
            some("INSERT INTO t1 (a, b, c) VALUES ($1,$2,$3)", &["0", "it's", "-3.50"])
        );
        assert_eq!(
            lifted(" insert into \"S\".\"T\" values(NULL , default, now( ), ''  ) returning a, b "),
            some(" insert into \"S\".\"T\" values(NULL,default,now( ),$1) returning a, b", &[""])
        );
        assert_eq!(
            lifted("insert into t values (7) on conflict (a) do update set b = excluded.b"),
            some("insert into t values ($1) on conflict (a) do update set b = excluded.b", &["7"])
        );
        assert_eq!(
            lifted("insert into größe values ('ü')"),
            some("insert into größe values ($1)", &["ü"])
        );
    }

    #[test]
    fn the_end_of_a_statement_is_no_part_of_it() {
        for end in ["", ";", " ; ", ";\r\n", " ;;\n\t;", " "] {
            let text = format!("insert into t values (7, 'x;'){end}");
            let (made, values) = lifted(&text).expect("values");
            assert_eq!(made, "insert into t values ($1,$2)", "{text:?}");
            assert_eq!(values, ["7", "x;"]);
            let text = format!("insert into t values (7) returning id{end}");
            let (made, _) = lifted(&text).expect("values");
            assert_eq!(made, "insert into t values ($1) returning id", "{text:?}");
        }
    }

    #[test]
    fn whatever_else_is_left_alone() {
        for text in [
            "",
            "insert",
            "insert into t values",
            "insert into t values (",
            "insert into t values (1",
            "insert into t values (1,",
            "insert into t values ('a",
            "insert into t values ()",
            "insert into t values (default)",
            "insert into t values (1), (2)",
            "insert into t values (1); select 1",
            "insert into t values (1);; select 1;",
            "insert into t values (1) returning \"a;",
            "insert into t values ('a;",
            "insert into t values (1 ;)",
            "insert into t values (1) -- what;",
            "insert into t values (1 + 1)",
            "insert into t values (1e3)",
            "insert into t values (1.)",
            "insert into t values (.5)",
            "insert into t values (- 1)",
            "insert into t values (1::text)",
            "insert into t values ('1'::int)",
            "insert into t values (date '2020-01-01')",
            "insert into t values (E'a')",
            "insert into t values (E'a', 1)",
            "insert into t values (U&'a', 1)",
            "insert into t values (U&\"a\", 1)",
            "insert into t values ('a\\b')",
            "insert into t values ('a'\n'b')",
            "insert into t values ($1, 1)",
            "insert into t values ($$a$$, 1)",
            "insert into t values (f(1))",
            "insert into t values (1) returning a + 1",
            "insert into t values (1) returning 'x'",
            "insert into t values (1) -- what",
            "insert into t /* what */ values (1)",
            "insert into t values (1 /* what */)",
            "insert into t values (1234567890123456789)",
            "insert into t select a from (values (1)) as v(a)",
            "insert into t with v as (values (1)) table v",
            "update t set a = 1",
            "select 1",
        ] {
            assert_eq!(lifted(text), None, "{text}");
        }
    }

    #[test]
    fn numbers_suit_numbers_only() {
        let lifted = lift("insert into t values (1, 2.5, 'x')").expect("values");
        let ty = |kind| ColType::new(kind);
        let suits = |kinds: [TypeKind; 3]| lifted.suits(&kinds.map(ty)).is_some();
        assert!(suits([TypeKind::Int2, TypeKind::Numeric, TypeKind::Text]));
        assert!(suits([TypeKind::Float8, TypeKind::Float8, TypeKind::Int4]));
        assert!(!suits([TypeKind::Text, TypeKind::Numeric, TypeKind::Text]));
        assert!(!suits([TypeKind::Bool, TypeKind::Numeric, TypeKind::Text]));
        assert!(!suits([TypeKind::Int4, TypeKind::Int4, TypeKind::Text]));
        assert!(lifted.suits(&[ty(TypeKind::Int4)]).is_none());
    }
}
