//! A view's text as clients see it: without the marks that stand for what the library's tree has no
//! place for.
//!
//! What it promises: what is shown makes the same view again, on any PostgreSQL.

use crate::bind::EXCLUDE;
use crate::dialect::OwnDialect;
use crate::parse::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, Tokenizer};

/// `text` with EXCLUDE and WITH TIES where they belong.
pub(crate) fn shown(text: &str) -> String {
    if !text.contains('$') {
        return text.to_owned();
    }
    let dialect = OwnDialect::default();
    // What stands in quotes stays as it is written.
    let tokens = Tokenizer::new(&dialect, text).with_unescape(false).tokenize();
    let Ok(mut tokens) = tokens else { return text.to_owned() };
    while take_exclude(&mut tokens) || take_ties(&mut tokens) {}
    tokens.iter().map(ToString::to_string).collect()
}

/// Where the next token that is no blank is, from `at` on.
fn next(tokens: &[Token], at: usize) -> Option<usize> {
    (at..tokens.len()).find(|at| !is_space(&tokens[*at]))
}

/// The parenthesis that closes the one which `at` stands in.
fn end(tokens: &[Token], at: usize) -> Option<usize> {
    let mut depth = 0usize;
    for (i, token) in tokens.iter().enumerate().skip(at) {
        match token {
            Token::LParen => depth += 1,
            Token::RParen if depth == 0 => return Some(i),
            Token::RParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `(PARTITION BY '$exclude ties', a ROWS ..)` as `(PARTITION BY a ROWS .. EXCLUDE TIES)`.
fn take_exclude(tokens: &mut Vec<Token>) -> bool {
    let mark = |token: &Token| match token {
        Token::SingleQuotedString(text) => text.strip_prefix(EXCLUDE).map(str::to_uppercase),
        _ => None,
    };
    let found = tokens.iter().enumerate().find_map(|(at, token)| Some((at, mark(token)?)));
    let Some((at, what)) = found else { return false };
    let (Some(close), Some(after)) = (end(tokens, at), next(tokens, at + 1)) else { return false };
    let by = (0..at).rfind(|before| is_word(&tokens[*before], "partition"));
    let Some(by) = by else { return false };
    tokens.insert(close, Token::make_word(&format!(" EXCLUDE {what}"), None));
    let gone = match tokens[after] {
        // Other things it is partitioned by follow.
        Token::Comma => at..next(tokens, after + 1).unwrap_or(after + 1),
        _ => by..after,
    };
    tokens.drain(gone);
    true
}

/// `LIMIT "$with_ties"(n)` as `FETCH FIRST (n) ROWS WITH TIES`.
fn take_ties(tokens: &mut Vec<Token>) -> bool {
    let is_mark = |token: &Token| matches!(token, Token::Word(w) if w.value == ::query::WITH_TIES);
    let Some(at) = tokens.iter().position(is_mark) else { return false };
    let limit = (0..at).rfind(|before| is_word(&tokens[*before], "limit"));
    let Some((limit, open)) = limit.zip(next(tokens, at + 1)) else { return false };
    let Some(close) = end(tokens, open + 1) else { return false };
    tokens.insert(close + 1, Token::make_word(" ROWS WITH TIES", None));
    tokens[limit] = Token::make_keyword("FETCH");
    tokens[at] = Token::make_keyword("FIRST ");
    true
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn marks_become_clauses() {
        for (kept, wanted) in [
            (
                "SELECT sum(a) OVER (PARTITION BY '$exclude ties', b ORDER BY (c) ROWS 1 PRECEDING) FROM t",
                "SELECT sum(a) OVER (PARTITION BY b ORDER BY (c) ROWS 1 PRECEDING EXCLUDE TIES) FROM t",
            ),
            (
                "SELECT sum(a) OVER (PARTITION BY '$exclude current row' ORDER BY c) FROM t",
                "SELECT sum(a) OVER (ORDER BY c EXCLUDE CURRENT ROW) FROM t",
            ),
            (
                "SELECT 'it''s' FROM t ORDER BY a LIMIT \"$with_ties\"(1 + (1)) OFFSET 1",
                "SELECT 'it''s' FROM t ORDER BY a FETCH FIRST (1 + (1)) ROWS WITH TIES OFFSET 1",
            ),
        ] {
            assert_eq!(shown(kept), wanted);
        }
    }
}
