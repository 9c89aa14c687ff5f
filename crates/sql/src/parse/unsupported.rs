//! What PostgreSQL would understand and the library does not parse.
//!
//! What it promises: such a statement is told 0A000 with its name, and not that its syntax is
//! wrong. What it must never do: hide an error in a statement that is supported.

use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};

/// Kinds of objects that are made, altered, dropped and commented on.
const KINDS: [&str; 31] = [
    "access",
    "aggregate",
    "cast",
    "collation",
    "constraint",
    "conversion",
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

const STATEMENTS: [&str; 6] = ["cluster", "do", "import", "load", "reindex", "security"];

/// What follows the name in ALTER TABLE.
const ALTERATIONS: [&str; 10] =
    ["attach", "cluster", "detach", "disable", "enable", "force", "inherit", "no", "of", "replica"];

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
    let verb = match first {
        "create" if word(1) == "or" && word(2) == "replace" => 3,
        "comment" if word(1) == "on" && word(2) != "constraint" => 2,
        "create" | "alter" | "drop" => 1,
        _ => 0,
    };
    if verb > 0 && KINDS.contains(&word(verb)) {
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
        ("current", "of") => Some("WHERE CURRENT OF".to_owned()),
        ("unique", "nulls") => Some("UNIQUE NULLS NOT DISTINCT".to_owned()),
        ("rows", "from") => Some("ROWS FROM".to_owned()),
        _ => None,
    }
}
