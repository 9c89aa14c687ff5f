//! Procedural code as a statement: `DO`, a block of the field's language by itself, and definitions
//! of functions and procedures.

use super::located::moved;
use super::{Own, Parsed, Statement, Words, byte_offset, is_space, is_word};
use crate::pl::{Code, block_len, definition};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan};
use std::sync::Arc;

/// `DO [LANGUAGE name] 'text'`, in either order; `None`: another statement.
pub(super) fn parse_do(words: &mut Words<'_>) -> Result<Option<Own>> {
    if !words.take("do") {
        return Ok(None);
    }
    let (mut text, mut language) = (None, None);
    while !words.at_end() {
        if language.is_none() && words.take("language") {
            language = Some(words.name_or_text()?);
        } else if text.is_none() {
            text = Some(words.text()?);
        } else {
            return Err(words.near());
        }
    }
    let language = language.unwrap_or_else(|| "plpgsql".to_owned());
    if !language.eq_ignore_ascii_case("plpgsql") {
        if language.eq_ignore_ascii_case("sql") {
            let text = "language \"sql\" does not support inline code execution";
            return Err(PgError::new("0A000", text));
        }
        let text = format!("language \"{language}\" does not exist");
        return Err(PgError::new("42704", text));
    }
    let text = text.ok_or_else(|| PgError::syntax("no inline code specified"))?;
    Ok(Some(Own::Code(Code { text: Arc::from(text), field: false })))
}

/// Whether a block of the field's begins here, and no transaction or cursor of SQL.
fn begins_block(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens.iter().map(|t| &t.token).filter(|t| !is_space(t));
    let is = is_word;
    let Some(first) = words.next() else { return false };
    // `<<label>>`, with which no statement of SQL begins.
    if *first == Token::ShiftLeft {
        return true;
    }
    if is(first, "begin") {
        const SQL: [&str; 6] = ["transaction", "work", "isolation", "read", "not", "deferrable"];
        return words.next().is_some_and(|next| {
            *next != Token::SemiColon && !SQL.iter().any(|word| is(next, word))
        });
    }
    if !is(first, "declare") {
        return false;
    }
    let cursor = words
        .skip(1)
        .take_while(|t| {
            ["binary", "insensitive", "asensitive", "no", "scroll", "cursor"]
                .iter()
                .any(|word| is(t, word))
        })
        .any(|t| is(t, "cursor"));
    !cursor
}

/// Whether a definition of a function or procedure begins here.
fn begins_definition(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens.iter().map(|t| &t.token).filter(|t| !is_space(t));
    let mut next = words.next();
    let mut take = |word: &str| {
        let found = next.is_some_and(|token| is_word(token, word));
        if found {
            next = words.next();
        }
        found
    };
    if !take("create") {
        return false;
    }
    let _ = take("or") && take("replace");
    let _ = take("editionable") || take("noneditionable");
    take("function") || take("procedure")
}

/// Whether a statement drops, alters or describes functions or procedures.
pub(super) fn speaks_of_routines(tokens: &[TokenWithSpan]) -> bool {
    let mut words = tokens.iter().map(|t| &t.token).filter(|t| !is_space(t));
    let (Some(first), second, third) = (words.next(), words.next(), words.next()) else {
        return false;
    };
    let kind = |token: Option<&Token>| {
        token.is_some_and(|token| {
            ["function", "procedure", "routine"].iter().any(|word| is_word(token, word))
        })
    };
    let comments = is_word(first, "comment") && second.is_some_and(|t| is_word(t, "on"));
    let changes = is_word(first, "drop") || is_word(first, "alter");
    (changes && kind(second)) || (comments && kind(third))
}

/// A statement whose end no `;` tells, and of how many tokens it is; `None`: another one.
pub(super) fn statement(
    text: &str,
    tokens: &[TokenWithSpan],
) -> Result<Option<(Statement, usize)>> {
    let is_block = begins_block(tokens);
    if !is_block && !begins_definition(tokens) {
        return Ok(None);
    }
    let first = tokens.iter().find(|t| !is_space(&t.token));
    let at = first.map_or(text.len(), |first| byte_offset(text, first.span.start));
    let rest = &text[at..];
    let before = text[..at].chars().count();
    let in_message = |error: PgError| moved(error, before);
    let (parsed, len) = match is_block {
        true => (None, block_len(rest).map_err(in_message)?),
        false => match definition(rest).map_err(in_message)? {
            Some((spec, len)) => (Some(Own::CreateRoutine(Box::new(spec))), len),
            None => return Ok(None),
        },
    };
    let own: Arc<str> = Arc::from(rest[..len].trim_end_matches(';').trim_end());
    let end = location(text, at + len);
    let mut count = tokens.iter().take_while(|t| is_before(t.span.start, end)).count();
    // The field's shells end a block with a line of its own.
    let slash = tokens[count..].iter().find(|t| !is_space(&t.token));
    if slash.is_some_and(|t| t.token == Token::Div) {
        count += tokens[count..].iter().take_while(|t| is_space(&t.token)).count() + 1;
    }
    let code = || Own::Code(Code { text: own.clone(), field: true });
    let statement = Statement {
        text: own.clone(),
        parsed: Parsed::Own(parsed.unwrap_or_else(code)),
        before,
        ..Statement::empty()
    };
    Ok(Some((statement, count.max(1))))
}

fn is_before(a: Location, b: Location) -> bool {
    (a.line, a.column) < (b.line, b.column)
}

/// Line and column of a place.
fn location(text: &str, at: usize) -> Location {
    let (mut line, mut column) = (1, 1);
    for c in text[..at].chars() {
        if c == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
    }
    Location { line, column }
}
