//! Where in a statement an error lies that was found when its text was out of sight.
//!
//! What it promises: the position of the one word, operator or literal that the message names. What
//! it must never do: guess between two of them.

use super::{Statement, byte_offset, is_space};
use crate::PgError;
use crate::dialect::OwnDialect;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

/// Statements that PostgreSQL analyses with their text at hand; of others its errors tell no place.
const ANALYSED: [&str; 12] = [
    "select", "with", "insert", "update", "delete", "merge", "values", "table", "explain",
    "declare", "execute", "(",
];

/// Texts longer than this are not searched.
const TEXT_BYTES_MAX: usize = 1 << 20;

/// What a message names.
enum Named<'m> {
    /// A name, perhaps with what qualifies it.
    Name(Vec<&'m str>),
    /// A name that stands where a relation does.
    Relation(Vec<&'m str>),
    Call(&'m str),
    Operator(&'m str),
    Literal(&'m str),
    /// What follows a word.
    After(&'m str),
}

/// An error whose position was counted behind so many characters of the message.
pub(super) fn moved(error: PgError, before: usize) -> PgError {
    let before = u32::try_from(before).ok();
    let position = error.position.zip(before).and_then(|(at, before)| at.checked_add(before));
    PgError { position, ..error }
}

/// An error of a statement that holds procedural code as a text of its own, in which places were
/// counted: with its position in the message, or without one.
pub(crate) fn located_in_code(error: PgError, code: &str, statement: &Statement) -> PgError {
    // Where it stands as it was written, and once, its places are those of the message.
    let mut found = statement.text.match_indices(code);
    match (found.next(), found.next()) {
        (Some((at, _)), None) if !code.is_empty() && is_of_code(&error) => {
            moved(error, statement.before + statement.text[..at].chars().count())
        }
        _ => PgError { position: None, ..error },
    }
}

/// Whether an error was found where the text of procedural code was read.
fn is_of_code(error: &PgError) -> bool {
    let context = error.about.as_ref().and_then(|about| about.context.as_deref());
    context.unwrap_or(&error.message).ends_with(" of the block")
}

/// The error with its position, if it has none and its message names something that stands once in
/// the statement.
pub(crate) fn located(error: PgError, statement: &Statement) -> PgError {
    // What happened in procedural code stands in another text.
    let elsewhere = error.about.as_ref().is_some_and(|about| about.context.is_some());
    if error.position.is_some() || elsewhere || statement.text.len() > TEXT_BYTES_MAX {
        return error;
    }
    let position = named(&error).and_then(|named| position_of(&named, error.code, statement));
    PgError { position, ..error }
}

/// The first thing in double quotes.
fn quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    rest.rsplit_once('"').map(|(name, _)| name)
}

fn first_quoted(text: &str) -> Option<&str> {
    let (_, rest) = text.split_once('"')?;
    rest.split_once('"').map(|(name, _)| name)
}

fn parts(name: &str) -> Vec<&str> {
    name.split('.').collect()
}

fn named(error: &PgError) -> Option<Named<'_>> {
    let message = error.message.as_str();
    Some(match error.code {
        "42703" | "42702" | "42803" if message.starts_with("column") => match quoted(message) {
            Some(_) => Named::Name(parts(first_quoted(message)?)),
            None => Named::Name(parts(message.split(' ').nth(1)?)),
        },
        "42P01" if message.starts_with("missing FROM-clause") => {
            // What it qualifies follows.
            Named::Name(vec![first_quoted(message)?, ""])
        }
        "42P01" if message.starts_with("relation") => Named::Relation(parts(quoted(message)?)),
        "42704" if message.starts_with("type") => Named::Name(parts(quoted(message)?)),
        "42883" if message.starts_with("function ") => {
            Named::Call(message["function ".len()..].split_once('(')?.0)
        }
        "42883" if message.starts_with("operator does not exist: ") => {
            let shown = &message["operator does not exist: ".len()..];
            let is_operator = |word: &&str| {
                !word.is_empty() && word.chars().all(|c| "+-*/<>=~!@#%^&|?".contains(c))
            };
            Named::Operator(shown.split(' ').find(is_operator)?)
        }
        "42804" if message.starts_with("argument of ") => {
            let word = message["argument of ".len()..].split(' ').next()?;
            match word {
                "WHERE" | "HAVING" | "NOT" | "LIMIT" | "OFFSET" => Named::After(word),
                "CASE/WHEN" => Named::After("WHEN"),
                _ => return None,
            }
        }
        "22P02" | "22007" | "22008" | "22003" if message.ends_with('"') => {
            Named::Literal(quoted(message)?)
        }
        _ => return None,
    })
}

fn is_name(token: &Token, name: &str) -> bool {
    match token {
        Token::Word(word) if word.quote_style.is_some() => word.value == name,
        Token::Word(word) => word.value.to_lowercase() == name,
        _ => false,
    }
}

fn is_literal(token: &Token, text: &str) -> bool {
    match token {
        Token::SingleQuotedString(own)
        | Token::EscapedStringLiteral(own)
        | Token::NationalStringLiteral(own) => own == text,
        Token::DollarQuotedString(own) => own.value == text,
        _ => false,
    }
}

/// Whether a relation's name may follow.
fn begins_relation(token: &Token) -> bool {
    const WORDS: [&str; 7] = ["from", "join", "into", "update", "using", "table", "only"];
    match token {
        Token::Word(word) => WORDS.contains(&word.value.to_lowercase().as_str()),
        Token::Comma | Token::LParen => true,
        _ => false,
    }
}

/// Whether the tokens from `at` on are a name of these parts; an empty one is any.
fn is_path(used: &[&TokenWithSpan], at: usize, parts: &[&str]) -> bool {
    let before = at.checked_sub(1).and_then(|before| used.get(before));
    if before.is_some_and(|token| token.token == Token::Period) {
        return false;
    }
    let mut at = at;
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            if used.get(at).is_none_or(|token| token.token != Token::Period) {
                return false;
            }
            at += 1;
        }
        if !part.is_empty() && !used.get(at).is_some_and(|token| is_name(&token.token, part)) {
            return false;
        }
        at += 1;
    }
    // A part of a longer name is another name.
    parts.last().is_some_and(|last| last.is_empty())
        || used.get(at).is_none_or(|token| token.token != Token::Period)
}

fn position_of(named: &Named<'_>, code: &str, statement: &Statement) -> Option<u32> {
    let text = &*statement.text;
    let tokens = Tokenizer::new(&OwnDialect::default(), text).tokenize_with_location().ok()?;
    let used: Vec<&TokenWithSpan> = tokens.iter().filter(|t| !is_space(&t.token)).collect();
    let first = used.first()?.token.to_string().to_lowercase();
    let of_query = used.iter().take(8).any(|token| is_name(&token.token, "as"));
    let created = first == "create" && (of_query || matches!(code, "42704" | "42883"));
    if !ANALYSED.contains(&first.as_str()) && !created {
        return None;
    }
    let follows = |at: usize, token: &Token| used.get(at + 1).is_some_and(|t| t.token == *token);
    let found: Vec<usize> = (0..used.len())
        .filter(|at| {
            let token = &used[*at].token;
            match named {
                Named::Name(parts) => is_path(&used, *at, parts),
                Named::Relation(parts) => {
                    let whole = parts.join(".");
                    let before = at.checked_sub(1).and_then(|before| used.get(before));
                    is_literal(token, &whole)
                        || (before.is_some_and(|before| begins_relation(&before.token))
                            && is_path(&used, *at, parts))
                }
                Named::Call(name) => {
                    let short = name.rsplit('.').next().unwrap_or(name);
                    is_name(token, short) && follows(*at, &Token::LParen)
                }
                Named::Operator(name) => token.to_string() == *name,
                Named::Literal(text) => is_literal(token, text),
                Named::After(word) => token.to_string().eq_ignore_ascii_case(word),
            }
        })
        .collect();
    // Of a relation the place where it is read first is told.
    let at = match (&found[..], named) {
        ([at], _) => *at,
        ([at, ..], Named::Relation(_)) => *at,
        _ => return None,
    };
    let at = match named {
        Named::After(_) => (at + 1..used.len()).find(|next| used[*next].token != Token::LParen)?,
        _ => at,
    };
    let offset = byte_offset(text, used[at].span.start);
    let at = statement.before + text.get(..offset)?.chars().count() + 1;
    u32::try_from(at).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{parse_single, split};

    fn place(text: &str, code: &'static str, message: &str) -> Option<u32> {
        located(PgError::new(code, message), &parse_single(text).unwrap()).position
    }

    #[test]
    fn what_is_named_once_is_found() {
        let column = |name: &str| format!("column \"{name}\" does not exist");
        assert_eq!(place("select nope from t", "42703", &column("nope")), Some(8));
        assert_eq!(place("  select nope from t", "42703", &column("nope")), Some(10));
        assert_eq!(place("select nope, nope from t", "42703", &column("nope")), None);
        let of_table = "column t.nope does not exist";
        assert_eq!(place("select t.nope, nope from t", "42703", of_table), Some(8));
        let relation = "relation \"s.t\" does not exist";
        assert_eq!(place("select s.t.a from s.t", "42P01", relation), Some(19));
        let missing = "missing FROM-clause entry for table \"x\"";
        assert_eq!(place("select x.id from t", "42P01", missing), Some(8));
        let function = "function f(integer) does not exist";
        assert_eq!(place("select f(1), f from t", "42883", function), Some(8));
        let operator = "operator does not exist: text + integer";
        assert_eq!(place("select a + 1 from t", "42883", operator), Some(10));
        let literal = "invalid input syntax for type integer: \"x\"";
        assert_eq!(place("select 'x'::int", "22P02", literal), Some(8));
        let condition = "argument of WHERE must be type boolean, not type integer";
        assert_eq!(place("select 1 from t where (a)", "42804", condition), Some(24));
        assert_eq!(place("drop table nope", "42P01", "relation \"nope\" does not exist"), None);
    }

    #[test]
    fn errors_of_code_stand_where_they_do_in_the_message() {
        // The character that an error's position is at.
        let at = |text: &str| {
            let error = split(text).expect_err("it is wrong");
            let at = error.position.map(|at| usize::try_from(at).unwrap() - 1)?;
            Some(text.chars().skip(at).collect::<String>())
        };
        assert_eq!(at("select 'é'; begin\n  if;\nend;").as_deref(), Some(";\nend;"));
        assert_eq!(at("begin null; end x; -- z").as_deref(), Some("x; -- z"));
        assert_eq!(at("begin\n null; -- z\n").as_deref(), Some(" -- z\n"));
        let own = "create or replace\nprocedure p is\n é int;\nbegin\n if;\nend;";
        assert_eq!(at(own).as_deref(), Some(";\nend;"));
        assert_eq!(at("create procedure 5 is").as_deref(), Some("5 is"));
    }

    #[test]
    fn errors_of_a_body_that_is_a_text_stand_where_it_does() {
        let place = |text: &str, code: &str, context: &str| {
            let mut error = PgError { position: Some(8), ..PgError::syntax("syntax error") };
            error.about.get_or_insert_default().context = Some(context.to_owned());
            let statement = split(text).unwrap().pop().unwrap();
            located_in_code(error, code, &statement).position
        };
        let text = "select 'é'; do $a$ begin x end $a$";
        let of_block = "line 1 of the block";
        assert_eq!(place(text, " begin x end ", of_block), Some(26));
        let of_routine = "PL/pgSQL function f() line 1 at RETURN";
        assert_eq!(place(text, " begin x end ", of_routine), None);
        assert_eq!(place("do 'begin ''x'' end'", "begin 'x' end", of_block), None);
        assert_eq!(place("do 'x x'", "x", of_block), None);
    }
}
