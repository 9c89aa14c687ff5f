//! What PostgreSQL would understand and the library does not parse.
//!
//! What it promises: such a statement is told 0A000 with its name, and not that its syntax is
//! wrong. What it must never do: hide an error in a statement that is supported.

use super::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// Kinds of objects that are made, altered, dropped and commented on.
const KINDS: [&str; 32] = [
    "access",
    "aggregate",
    "cast",
    "collation",
    "constraint",
    "conversion",
    "database",
    "domain",
    "directory",
    "event",
    "extension",
    "foreign",
    "function",
    "language",
    "large",
    "materialized",
    "operator",
    "package",
    "policy",
    "procedural",
    "procedure",
    "publication",
    "routine",
    "rule",
    "server",
    "statistics",
    "subscription",
    "synonym",
    "tablespace",
    "text",
    "transform",
    "trigger",
];

const STATEMENTS: [&str; 7] =
    ["cluster", "do", "flashback", "import", "load", "reindex", "security"];

/// What changes rows.
const CHANGES: [&str; 4] = ["insert", "update", "delete", "merge"];

/// What follows the name in ALTER TABLE.
const ALTERATIONS: [&str; 10] =
    ["attach", "cluster", "detach", "disable", "enable", "force", "inherit", "no", "of", "replica"];

/// How a new table was to be cut into partitions. Those of a window stand in brackets, or in the
/// query of a table that is made of one.
fn partitions(tokens: &[TokenWithSpan]) -> Option<String> {
    let used: Vec<&Token> = tokens.iter().map(|t| &t.token).filter(|t| !is_space(t)).collect();
    let is = |at: usize, word: &str| used.get(at).is_some_and(|token| is_word(token, word));
    if !is(0, "create") || !(1..5).any(|at| is(at, "table")) {
        return None;
    }
    let mut depth = 0_usize;
    for (at, token) in used.iter().enumerate() {
        match token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            _ if is(at, "as") => return None,
            _ if is(at, "partition") && is(at + 1, "by") => {
                let how = used.get(at + 2).map_or(String::new(), |how| format!(" {how}"));
                return Some(format!("CREATE TABLE .. PARTITION BY{}", how.to_uppercase()));
            }
            _ => {}
        }
    }
    None
}

/// The field's types of objects and collections, which its code alone declares here.
fn own_type(words: &[(String, Location)]) -> Option<String> {
    let word = |at: usize| words.get(at).map_or("", |(word, _)| word.as_str());
    let replaces = word(0) == "create" && word(1) == "or" && word(2) == "replace";
    let at = if replaces { 3 } else { 1 };
    if word(0) != "create" || word(at) != "type" {
        return None;
    }
    if word(at + 1) == "body" {
        return Some("CREATE TYPE BODY".to_owned());
    }
    let is = (at + 1..words.len().min(at + 6)).find(|at| matches!(word(*at), "as" | "is"));
    match is.map(|is| (word(is + 1), word(is + 2))) {
        Some(("table", "of")) => Some("CREATE TYPE .. AS TABLE OF".to_owned()),
        Some(("object", _)) => Some("CREATE TYPE .. AS OBJECT".to_owned()),
        Some(("varray", _) | ("varying", "array")) => Some("CREATE TYPE .. AS VARRAY".to_owned()),
        _ if replaces => Some("CREATE OR REPLACE TYPE".to_owned()),
        _ => None,
    }
}

/// The name of what a statement whose parsing failed at `location` wants; `None` if it is an error.
pub(super) fn wanted(tokens: &[TokenWithSpan], location: Location) -> Option<String> {
    let mut words: Vec<(String, Location)> = Vec::new();
    for token in tokens {
        if let Token::Word(word) = &token.token
            && word.quote_style.is_none()
        {
            words.push((word.value.to_lowercase(), token.span.start));
        }
    }
    let word = |i: usize| words.get(i).map_or("", |(word, _)| word.as_str());
    let first = word(0);
    if STATEMENTS.contains(&first) {
        return Some(first.to_uppercase());
    }
    if let Some(partitions) = partitions(tokens) {
        return Some(partitions);
    }
    if let Some(kind) = own_type(&words) {
        return Some(kind);
    }
    let verb = match first {
        "create" if word(1) == "or" && word(2) == "replace" => 3,
        "comment" if word(1) == "on" && word(2) != "constraint" => 2,
        "create" | "alter" | "drop" => 1,
        _ => 0,
    };
    // A comment on the database can be read whole.
    let is_known = first == "comment" && word(verb) == "database";
    if verb > 0 && !is_known && KINDS.contains(&word(verb)) {
        let shown: Vec<&str> = (0..=verb).map(word).collect();
        return Some(shown.join(" ").to_uppercase());
    }
    let at = words.iter().position(|(_, start)| *start == location)?;
    let before = at.checked_sub(1).map_or("", word);
    match (before, word(at)) {
        (_, found) if first == "alter" && word(1) == "table" && ALTERATIONS.contains(&found) => {
            Some(format!("ALTER TABLE .. {}", found.to_uppercase()))
        }
        (_, "exclude") => Some("EXCLUDE".to_owned()),
        // Behind a query `log` is read as the name of its table.
        ("log", "errors") if CHANGES.contains(&first) => Some("LOG ERRORS".to_owned()),
        (_, "log") if CHANGES.contains(&first) && word(at + 1) == "errors" => {
            Some("LOG ERRORS".to_owned())
        }
        ("current", "of") => Some("WHERE CURRENT OF".to_owned()),
        ("unique", "nulls") => Some("UNIQUE NULLS NOT DISTINCT".to_owned()),
        ("versions", "between") => Some("VERSIONS BETWEEN".to_owned()),
        ("rows", "from") => Some("ROWS FROM".to_owned()),
        (_, "search") if matches!(word(at + 1), "depth" | "breadth") && word(at + 2) == "first" => {
            Some("SEARCH behind a query of WITH".to_owned())
        }
        (_, "cycle") if (0..at).any(|i| word(i) == "with") => {
            Some("CYCLE behind a query of WITH".to_owned())
        }
        _ => None,
    }
}
