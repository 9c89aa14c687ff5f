//! Words of procedural code, each with its place in the text: statements inside are cut out of it.

use crate::{PgError, Result};

#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Tok {
    /// A name or keyword, in lower case; an argument by its number (`$1`).
    Word(String),
    /// A name in quotes.
    Quoted(String),
    Number,
    /// A string constant, without its quotes.
    Text(String),
    Symbol(&'static str),
    /// Another character.
    Other(char),
    End,
}

#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) tok: Tok,
    /// Bytes of the text.
    pub(super) at: usize,
    pub(super) end: usize,
}

/// The longest first.
const SYMBOLS: [&str; 25] = [
    ":=", "<<", ">>", "..", "=>", "<=", ">=", "<>", "!=", "||", "::", ";", ",", "(", ")", "[", "]",
    ".", "%", "=", "<", ">", ":", "/", "-",
];

/// The words of `text`, and [`Tok::End`].
///
/// # Errors
/// 42601 for a string or comment without an end.
pub(super) fn tokens(text: &str) -> Result<Vec<Token>> {
    let mut out = Vec::new();
    let mut at = 0;
    while let Some(token) = next(text, at)? {
        at = token.end;
        out.push(token);
    }
    out.push(Token { tok: Tok::End, at: text.len(), end: text.len() });
    Ok(out)
}

fn unterminated(what: &str, text: &str, at: usize) -> PgError {
    let line = line_of(text, at);
    let error = PgError::syntax(format!("unterminated {what} in line {line} of the block"));
    PgError { position: position_of(text, at), ..error }
}

/// The character of a place, from 1, as an error tells it.
pub(super) fn position_of(text: &str, at: usize) -> Option<u32> {
    u32::try_from(text.get(..at)?.chars().count() + 1).ok()
}

/// The line of a place, from 1.
pub(super) fn line_of(text: &str, at: usize) -> u32 {
    let lines = text.as_bytes()[..at.min(text.len())].iter().filter(|b| **b == b'\n').count();
    u32::try_from(lines + 1).unwrap_or(u32::MAX)
}

/// Where blanks and comments end.
fn skip_blanks(text: &str, mut at: usize) -> Result<usize> {
    loop {
        let rest = &text[at..];
        if rest.starts_with("--") {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            let (mut depth, mut end) = (1, at + 2);
            while depth > 0 {
                let rest = &text[end..];
                if rest.starts_with("*/") {
                    (depth, end) = (depth - 1, end + 2);
                } else if rest.starts_with("/*") {
                    (depth, end) = (depth + 1, end + 2);
                } else {
                    let c = rest.chars().next();
                    end += c.ok_or_else(|| unterminated("comment", text, at))?.len_utf8();
                }
            }
            at = end;
        } else {
            match rest.chars().next() {
                Some(c) if c.is_whitespace() => at += c.len_utf8(),
                _ => return Ok(at),
            }
        }
    }
}

fn next(text: &str, from: usize) -> Result<Option<Token>> {
    let at = skip_blanks(text, from)?;
    let rest = &text[at..];
    let Some(first) = rest.chars().next() else { return Ok(None) };
    let of = |tok, end| Ok(Some(Token { tok, at, end }));
    if matches!(first, 'e' | 'E') && rest[1..].starts_with('\'') {
        let (value, end) = quoted(text, at + 1, '\'', true)?;
        return of(Tok::Text(value), end);
    }
    if let Some((opening, close)) = delimiter(rest) {
        let inside = &rest[opening..];
        let end = inside.find(&format!("{close}'"));
        let end = end.ok_or_else(|| unterminated("quoted string", text, at))?;
        let behind = at + opening + end + close.len_utf8() + 1;
        return of(Tok::Text(inside[..end].to_owned()), behind);
    }
    if first.is_alphabetic() || first == '_' {
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#');
        let len = rest.find(|c| !inside(c)).unwrap_or(rest.len());
        return of(Tok::Word(rest[..len].to_lowercase()), at + len);
    }
    if first.is_ascii_digit() {
        return of(Tok::Number, at + number_len(rest));
    }
    // Of one byte if it is a dollar sign.
    let behind = if first == '$' { &rest[1..] } else { "" };
    let numbered = behind.find(|c: char| !c.is_ascii_digit()).unwrap_or(behind.len());
    if numbered > 0 {
        return of(Tok::Word(rest[..=numbered].to_owned()), at + 1 + numbered);
    }
    match first {
        '\'' => {
            let (value, end) = quoted(text, at, '\'', false)?;
            of(Tok::Text(value), end)
        }
        '"' => {
            let (value, end) = quoted(text, at, '"', false)?;
            of(Tok::Quoted(value), end)
        }
        '$' => match dollar_quoted(rest) {
            Some((value, len)) => of(Tok::Text(value.to_owned()), at + len),
            None => of(Tok::Other('$'), at + 1),
        },
        _ => match SYMBOLS.iter().find(|symbol| rest.starts_with(**symbol)) {
            Some(symbol) => of(Tok::Symbol(symbol), at + symbol.len()),
            None => of(Tok::Other(first), at + first.len_utf8()),
        },
    }
}

/// `1..10` is two numbers, `1.5e3` is one.
fn number_len(rest: &str) -> usize {
    let bytes = rest.as_bytes();
    let digits = |mut i: usize| {
        while bytes.get(i).is_some_and(u8::is_ascii_digit) {
            i += 1;
        }
        i
    };
    let mut end = digits(0);
    if bytes.get(end) == Some(&b'.') && bytes.get(end + 1) != Some(&b'.') {
        end = digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > end + 1 + sign {
            end = exponent;
        }
    }
    end
}

/// Of the field's `q'[it's]'` the length of what is before the text, and the character that ends it
/// with a quote behind it; `None`: something else begins here.
fn delimiter(rest: &str) -> Option<(usize, char)> {
    let inside = rest.strip_prefix(['n', 'N']).unwrap_or(rest).strip_prefix(['q', 'Q'])?;
    let inside = inside.strip_prefix('\'')?;
    let open = inside.chars().next().filter(|c| !c.is_whitespace())?;
    let close = match open {
        '[' => ']',
        '{' => '}',
        '<' => '>',
        '(' => ')',
        same => same,
    };
    Some((rest.len() - inside.len() + open.len_utf8(), close))
}

/// The value of a quoted text that begins at `at`, and where it ends.
fn quoted(text: &str, at: usize, quote: char, escapes: bool) -> Result<(String, usize)> {
    let mut value = String::new();
    let mut chars = text[at + 1..].char_indices().peekable();
    while let Some((i, c)) = chars.next() {
        if c == quote {
            match chars.peek() {
                Some((_, next)) if *next == quote => {
                    value.push(c);
                    chars.next();
                }
                _ => return Ok((value, at + 1 + i + c.len_utf8())),
            }
        } else if c == '\\' && escapes {
            match chars.next() {
                Some((_, 'n')) => value.push('\n'),
                Some((_, 't')) => value.push('\t'),
                Some((_, 'r')) => value.push('\r'),
                Some((_, other)) => value.push(other),
                None => break,
            }
        } else {
            value.push(c);
        }
    }
    Err(unterminated("quoted string", text, at))
}

/// `$tag$ .. $tag$` at the beginning: what is inside, and the length of all.
fn dollar_quoted(rest: &str) -> Option<(&str, usize)> {
    let tag_len = rest[1..].find('$')? + 2;
    let tag = &rest[..tag_len];
    let name = &tag[1..tag_len - 1];
    let starts = name.chars().next().is_none_or(|c| c.is_alphabetic() || c == '_');
    if !starts || !name.chars().all(|c| c.is_alphanumeric() || c == '_') {
        return None;
    }
    let len = rest[tag_len..].find(tag)?;
    Some((&rest[tag_len..tag_len + len], 2 * tag_len + len))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_numbers_texts_and_comments_are_told_apart() {
        let text =
            "For i in 1..10 loop -- x;\n a := 'it''s' || E'\\n'/* /* */ ; */ \"Q\" 1.5e3 $$b$$;";
        let found: Vec<Tok> = tokens(text).expect("words").into_iter().map(|t| t.tok).collect();
        let word = |w: &str| Tok::Word(w.to_owned());
        let string = |t: &str| Tok::Text(t.to_owned());
        assert_eq!(
            found,
            [
                word("for"),
                word("i"),
                word("in"),
                Tok::Number,
                Tok::Symbol(".."),
                Tok::Number,
                word("loop"),
                word("a"),
                Tok::Symbol(":="),
                string("it's"),
                Tok::Symbol("||"),
                string("\n"),
                Tok::Quoted("Q".to_owned()),
                Tok::Number,
                string("b"),
                Tok::Symbol(";"),
                Tok::End,
            ]
        );
        assert!(tokens("a 'b").is_err() && tokens("/* /* */").is_err());
        assert_eq!(line_of("a\nb\nc", 4), 3);
    }

    #[test]
    fn texts_of_the_field_end_at_their_own_characters() {
        let text = "q'[it's]'||nQ'!a]'b!' (Q'(']')') q'[']'; sq 'x'";
        let all = tokens(text).expect("words");
        let found: Vec<Tok> = all.iter().map(|t| t.tok.clone()).collect();
        let string = |t: &str| Tok::Text(t.to_owned());
        assert_eq!(
            found,
            [
                string("it's"),
                Tok::Symbol("||"),
                string("a]'b"),
                Tok::Symbol("("),
                string("']'"),
                Tok::Symbol(")"),
                string("'"),
                Tok::Symbol(";"),
                Tok::Word("sq".to_owned()),
                string("x"),
                Tok::End,
            ]
        );
        assert_eq!(&text[all[2].at..all[2].end], "nQ'!a]'b!'");
        assert!(tokens("q'[it's'").is_err());
    }
}
