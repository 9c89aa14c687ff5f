//! Statements that differ in letters of words, in blanks or in values only: the field's signatures.
//!
//! What it promises: a text has the same signatures on all instances. What it must never do: fail,
//! whatever the text.

use crate::secrets::constant_bytes;
use crate::statements::SqlId;

/// What stands in place of a value.
const VALUE: &str = "?";

/// Numbers of a statement's text once what does not matter is taken out of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signatures {
    /// Without how it is written: small and capital letters, blanks, comments that are no hints.
    pub exact: u64,
    /// Without its values too: constants, and parameters in their place.
    pub force: u64,
}

impl Signatures {
    #[must_use]
    pub fn of(text: &str) -> Signatures {
        let (mut exact, mut force) = (String::new(), String::new());
        let mut rest = text;
        while let Some((piece, bytes)) = next(rest) {
            let (word, value) = match piece {
                Piece::Word => (rest[..bytes].to_uppercase(), None),
                Piece::AsItIs => (rest[..bytes].to_owned(), None),
                Piece::Value => (rest[..bytes].to_owned(), Some(VALUE)),
                Piece::Blank => (String::new(), None),
            };
            rest = &rest[bytes..];
            if word.is_empty() {
                continue;
            }
            put(&mut force, value.unwrap_or(&word));
            put(&mut exact, &word);
        }
        Signatures { exact: number(&exact), force: number(&force) }
    }
}

fn put(all: &mut String, word: &str) {
    if !all.is_empty() {
        all.push(' ');
    }
    all.push_str(word);
}

/// Columns of 64 bits have a sign, which these do without.
fn number(text: &str) -> u64 {
    SqlId::of(text).number() & i64::MAX.unsigned_abs()
}

enum Piece {
    /// A word, or a sign.
    Word,
    /// A name in quotes, or a hint.
    AsItIs,
    /// A constant or a parameter.
    Value,
    Blank,
}

/// What a text begins with, and its bytes; `None`: the text is empty.
fn next(text: &str) -> Option<(Piece, usize)> {
    let first = text.chars().next()?;
    let digit_at = |at: usize| text[at..].starts_with(|c: char| c.is_ascii_digit());
    let run = |from: usize, is_part: fn(char) -> bool| {
        text[from..].find(|c: char| !is_part(c)).map_or(text.len(), |at| from + at)
    };
    if first.is_whitespace() {
        return Some((Piece::Blank, run(0, char::is_whitespace)));
    }
    if let Some(bytes) = comment_bytes(text) {
        let hint = text[2..].starts_with('+');
        return Some((if hint { Piece::AsItIs } else { Piece::Blank }, bytes));
    }
    if first == '$' && digit_at(1) {
        return Some((Piece::Value, run(1, |c| c.is_ascii_digit())));
    }
    if let Some(bytes) = constant_bytes(text, false) {
        return Some((Piece::Value, bytes));
    }
    if first == '"' {
        return Some((Piece::AsItIs, constant_bytes(text, true).unwrap_or(text.len())));
    }
    if first.is_ascii_digit() || (first == '.' && digit_at(1)) {
        return Some((Piece::Value, number_bytes(text)));
    }
    if first.is_alphanumeric() || first == '_' {
        return Some((Piece::Word, run(0, |c| c.is_alphanumeric() || "_$#".contains(c))));
    }
    // The points of a loop's range are no part of its numbers.
    Some((Piece::Word, if text.starts_with("..") { 2 } else { first.len_utf8() }))
}

/// The bytes of the comment that a text begins with, if it does. Those of `/*` stand in one
/// another.
fn comment_bytes(text: &str) -> Option<usize> {
    if text.starts_with("--") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    let mut end = text.strip_prefix("/*").map(|_| 2)?;
    let mut open = 1;
    while open > 0 {
        let Some(at) = text[end..].find(['*', '/']) else { return Some(text.len()) };
        let rest = &text[end + at..];
        let (more, bytes) = match (rest.starts_with("/*"), rest.starts_with("*/")) {
            (true, _) => (1, 2),
            (_, true) => (-1, 2),
            _ => (0, 1),
        };
        open += more;
        end += at + bytes;
    }
    Some(end)
}

/// The bytes of the number that a text begins with: digits, point, exponent.
fn number_bytes(text: &str) -> usize {
    let bytes = text.as_bytes();
    let at = |at: usize| bytes.get(at).copied().unwrap_or(0);
    let mut end = 0;
    loop {
        let exponent = matches!(at(end), b'e' | b'E');
        let signed = exponent && matches!(at(end + 1), b'+' | b'-') && at(end + 2).is_ascii_digit();
        // The two points of a loop's range end a number.
        let point = at(end) == b'.' && at(end + 1) != b'.';
        match at(end) {
            _ if signed => end += 2,
            _ if point => end += 1,
            c if c.is_ascii_alphanumeric() || c == b'_' => end += 1,
            _ => return end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exact(text: &str) -> u64 {
        Signatures::of(text).exact
    }

    fn force(text: &str) -> u64 {
        Signatures::of(text).force
    }

    #[test]
    fn how_a_text_is_written_does_not_matter() {
        let text = "select v from t where id = 1 and w = 'a b'";
        for same in [
            "SELECT  v\n\tFROM t WHERE id=1 AND w='a b'",
            "select v -- all of them\nfrom t /* one /* t */ */ where id = 1 and w = 'a b'",
        ] {
            assert_eq!(Signatures::of(text), Signatures::of(same), "{same}");
        }
        for other in [
            "select v from t where id = 1 and w = 'A B'",
            "select \"v\" from t where id = 1 and w = 'a b'",
            "select /*+ full(t) */ v from t where id = 1 and w = 'a b'",
            "select vfrom t where id = 1 and w = 'a b'",
        ] {
            assert_ne!(exact(text), exact(other), "{other}");
        }
        assert_ne!(exact("select \"v\" from t"), exact("select \"V\" from t"));
    }

    #[test]
    fn values_do_not_matter_where_they_are_forced_out() {
        let text = "select v from t where id = 1 and w = 'a b'";
        for same in [
            "select v from t where id = 27 and w = 'it''s'",
            "select v from t where id = 2.5e-3 and w = e'it\\'s'",
            "select v from t where id = .5 and w = q'[it's]'",
            "select v from t where id = $1 and w = $x$it's$x$",
            "select v from t where id = 0xff and w = 'not closed",
        ] {
            assert_eq!(force(text), force(same), "{same}");
            assert_ne!(exact(text), exact(same), "{same}");
        }
        for other in [
            "select v from t where id = 1 and w = x",
            "select v from t where id in (1, 2) and w = 'a b'",
            "select v from t1 where id = 1 and w = 'a b'",
        ] {
            assert_ne!(force(text), force(other), "{other}");
        }
        assert_eq!(force("for i in 1..10"), force("for i in 1 .. 20"));
    }

    #[test]
    fn any_text_has_signatures_without_a_sign() {
        for text in ["", " ", "'", "\"", "/*", "/*+", "--", "$", "$1", "ü'ö", ".", "1e+", "q'"] {
            let Signatures { exact, force } = Signatures::of(text);
            assert!(exact >> 63 == 0 && force >> 63 == 0, "{text}");
        }
    }
}
