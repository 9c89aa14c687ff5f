//! Patterns of LIKE and SIMILAR TO.
//!
//! What it promises: an escape character of the statement's choice, and PostgreSQL's errors.

use crate::error::{PgError, Result};

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Any,
    One,
    Char(char),
}

/// `LIKE`; without an escape character every character but `%` and `_` is itself.
pub(super) fn like(text: &str, pattern: &str, escape: Option<char>, fold: bool) -> Result<bool> {
    let folded = |c: char| {
        if fold { c.to_lowercase().next().unwrap_or(c) } else { c }
    };
    let mut parts = Vec::with_capacity(pattern.len());
    let mut chars = pattern.chars();
    let mut dangling = false;
    while let Some(c) = chars.next() {
        parts.push(if Some(c) == escape {
            match chars.next() {
                Some(c) => Part::Char(folded(c)),
                None => {
                    dangling = true;
                    break;
                }
            }
        } else {
            match c {
                '%' => Part::Any,
                '_' => Part::One,
                c => Part::Char(folded(c)),
            }
        });
    }
    let text: Vec<char> = text.chars().map(folded).collect();
    if dangling {
        // PostgreSQL notices only when the match gets there.
        parts.push(Part::Any);
        if !run(&text, &parts) || text.is_empty() {
            return Ok(false);
        }
        let what = "LIKE pattern must not end with escape character";
        return Err(PgError::new("22025", what));
    }
    Ok(run(&text, &parts))
}

/// Matches with one point to return to: the last `%`.
fn run(text: &[char], parts: &[Part]) -> bool {
    let (mut t, mut p) = (0, 0);
    let mut back: Option<(usize, usize)> = None;
    while t < text.len() {
        match parts.get(p) {
            Some(Part::Any) => {
                back = Some((t, p));
                p += 1;
            }
            Some(Part::One) => (t, p) = (t + 1, p + 1),
            Some(Part::Char(c)) if *c == text[t] => (t, p) = (t + 1, p + 1),
            _ => match back {
                Some((from, at)) => {
                    back = Some((from + 1, at));
                    (t, p) = (from + 1, at + 1);
                }
                None => return false,
            },
        }
    }
    parts[p..].iter().all(|part| *part == Part::Any)
}

/// A regular expression that matches what a pattern of SIMILAR TO does.
pub(super) fn similar_pattern(pattern: &str, escape: Option<char>) -> Result<String> {
    let mut out = String::from("^(?:");
    let (mut in_brackets, mut separators) = (false, 0);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if Some(c) == escape {
            match chars.next() {
                Some('"') => {
                    out.push_str(match separators {
                        0 => "){1,1}?(",
                        1 => "){1,1}(?:",
                        _ => {
                            let what = "SQL regular expression may not contain more than two \
                                        escape-double-quote separators";
                            return Err(PgError::new("2200C", what));
                        }
                    });
                    separators += 1;
                }
                Some(c) => {
                    out.push('\\');
                    out.push(c);
                }
                None => {}
            }
        } else if in_brackets {
            if c == '\\' {
                out.push('\\');
            }
            out.push(c);
            in_brackets = c != ']';
        } else {
            match c {
                '[' => {
                    out.push(c);
                    in_brackets = true;
                }
                '%' => out.push_str(".*"),
                '_' => out.push('.'),
                '(' => out.push_str("(?:"),
                '\\' | '.' | '^' | '$' => {
                    out.push('\\');
                    out.push(c);
                }
                c => out.push(c),
            }
        }
    }
    out.push_str(")$");
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_of_the_statement() {
        assert!(like("a%c", "a#%c", Some('#'), false).unwrap());
        assert!(!like("abc", "a#%c", Some('#'), false).unwrap());
        assert!(like("a\\c", "a\\c", None, false).unwrap());
        assert_eq!(like("ab", "a\\", Some('\\'), false).unwrap_err().code, "22025");
        assert_eq!(similar_pattern("a%(b|c)_", Some('\\')).unwrap(), "^(?:a.*(?:b|c).)$");
    }
}
