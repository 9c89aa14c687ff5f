//! Syntax errors as PostgreSQL words them, out of those that the library finds.
//!
//! What it promises: the position of what is wrong, also of the end of the text, and 0A000 for what
//! is only not there. What it must never do: call right what the library has refused.

use super::*;

/// The library's message ends with the location; what it found there is what PostgreSQL names.
pub(super) fn syntax_error(text: &str, tokens: &[TokenWithSpan], error: ParserError) -> PgError {
    let message = match error {
        ParserError::RecursionLimitExceeded => {
            return PgError::new("54001", "stack depth limit exceeded");
        }
        ParserError::TokenizerError(message) | ParserError::ParserError(message) => message,
    };
    let location = message.rsplit_once(" at Line: ").and_then(|(_, rest)| {
        let (line, column) = rest.split_once(", Column: ")?;
        Some(Location { line: line.parse().ok()?, column: column.trim().parse().ok()? })
    });
    let Some(location) = location else {
        if message.contains("found: EOF") {
            let last = tokens.iter().rfind(|t| !is_space(&t.token) && t.token != Token::EOF);
            let position = last.and_then(|t| char_position(text, t.span.end));
            let error = PgError::syntax("syntax error at end of input").with_detail(message);
            return PgError { position, ..error };
        }
        return PgError::syntax(format!("syntax error: {message}"));
    };
    if let Some(what) = unsupported::wanted(tokens, location) {
        let position = char_position(text, location);
        return PgError { position, ..PgError::unsupported(what) };
    }
    let found = tokens.iter().find(|t| t.span.start == location).map(|t| t.token.to_string());
    let shown = match found {
        Some(token) => format!("syntax error at or near \"{token}\""),
        None => "syntax error".to_owned(),
    };
    PgError { position: char_position(text, location), ..PgError::syntax(shown) }
        .with_detail(message)
}
