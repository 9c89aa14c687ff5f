//! Statements without the passwords in them, for what is written to files.
//!
//! What it promises: what stands behind PASSWORD as a constant, or behind IDENTIFIED BY as
//! anything, is left out, also where the statement is none. What it must never do: fail.

use std::borrow::Cow;

/// What stands in place of a password.
const MASK: &str = "'********'";

/// The end of a constant that `close` ends and that has it twice inside for once; `escapes`:
/// a backslash takes the meaning of what follows.
fn quoted(text: &str, open: usize, close: char, escapes: bool) -> usize {
    let mut chars = text[open..].char_indices().peekable();
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' if escapes => {
                chars.next();
            }
            c if c == close && chars.peek().is_some_and(|(_, next)| *next == close) => {
                chars.next();
            }
            c if c == close => return open + at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// The bytes of the constant that the text begins with, if it does; `word`: any word is one.
pub(crate) fn constant_bytes(text: &str, word: bool) -> Option<usize> {
    let starts = |begin: &str| {
        text.get(..begin.len()).is_some_and(|found| found.eq_ignore_ascii_case(begin))
    };
    if starts("'") {
        return Some(quoted(text, 1, '\'', false));
    }
    if starts("e'") || starts("n'") {
        return Some(quoted(text, 2, '\'', starts("e")));
    }
    if starts("u&'") {
        return Some(quoted(text, 3, '\'', false));
    }
    if starts("q'") {
        let open = text[2..].chars().next()?;
        let close = match open {
            '[' => ']',
            '(' => ')',
            '{' => '}',
            '<' => '>',
            other => other,
        };
        let end = text[2 + open.len_utf8()..].find(&format!("{close}'"));
        let end = end.map(|at| 2 + open.len_utf8() + at + close.len_utf8() + 1);
        return Some(end.unwrap_or(text.len()));
    }
    if text.starts_with('$')
        && let Some(end) = text[1..].find('$')
        && text[1..=end].chars().all(|c| c.is_alphanumeric() || c == '_')
    {
        let tag = &text[..end + 2];
        let close = text[tag.len()..].find(tag).map(|at| at + 2 * tag.len());
        return Some(close.unwrap_or(text.len()));
    }
    if !word {
        return None;
    }
    if text.starts_with('"') {
        return Some(quoted(text, 1, '"', false));
    }
    let end =
        text.find(|c: char| c.is_whitespace() || matches!(c, ';' | ',')).unwrap_or(text.len());
    (end > 0).then_some(end)
}

/// Behind blanks and comments.
fn behind_blanks(text: &str) -> usize {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        at += rest.len() - rest.trim_start().len();
        let rest = &text[at..];
        if let Some(comment) = rest.strip_prefix("--") {
            at += 2 + comment.find('\n').unwrap_or(comment.len());
        } else if let Some(comment) = rest.strip_prefix("/*") {
            at += 2 + comment.find("*/").map_or(comment.len(), |end| end + 2);
        } else {
            return at;
        }
    }
}

/// The statement without the passwords in it.
#[must_use]
pub fn without_passwords(text: &str) -> Cow<'_, str> {
    let lower = text.to_ascii_lowercase();
    if !lower.contains("password") && !lower.contains("identified") {
        return Cow::Borrowed(text);
    }
    let (mut out, mut from) = (String::with_capacity(text.len()), 0);
    while let Some((at, word)) = ["password", "identified"]
        .into_iter()
        .filter_map(|word| Some((from + lower[from..].find(word)? + word.len(), word)))
        .min()
    {
        let mut begin = at + behind_blanks(&text[at..]);
        let named = word == "identified";
        if named {
            if !lower[begin..].starts_with("by") {
                out.push_str(&text[from..at]);
                from = at;
                continue;
            }
            begin += 2;
            begin += behind_blanks(&text[begin..]);
        }
        match constant_bytes(&text[begin..], named) {
            Some(bytes) => {
                out.push_str(&text[from..begin]);
                out.push_str(MASK);
                from = begin + bytes;
            }
            None => {
                out.push_str(&text[from..at]);
                from = at;
            }
        }
    }
    out.push_str(&text[from..]);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_left_out() {
        for (text, expected) in [
            ("select 1", "select 1"),
            ("alter role a password null", "alter role a password null"),
            ("create role a password 'open", "create role a password '********'"),
            (
                "ALTER ROLE a PASSWORD 'it''s' VALID UNTIL 'x'; create user b password E'a\\'b'",
                "ALTER ROLE a PASSWORD '********' VALID UNTIL 'x'; create user b password \
                 '********'",
            ),
            ("alter role a password $x$it's$x$ login", "alter role a password '********' login"),
            ("alter role a password /* x */ U&'b'", "alter role a password /* x */ '********'"),
            ("create user a identified by tiger;", "create user a identified by '********';"),
            (
                "alter user a identified  by \"Ti ger\" account unlock",
                "alter user a identified  by '********' account unlock",
            ),
            (
                "create user a identified by q'[x'y]' quota",
                "create user a identified by '********' quota",
            ),
            ("create user a identified externally", "create user a identified externally"),
            ("create user a identified by 'ü", "create user a identified by '********'"),
            ("select password, identified from t", "select password, identified from t"),
            ("identified by", "identified by"),
        ] {
            assert_eq!(without_passwords(text), expected, "{text}");
        }
    }
}
