//! The words of COPY that the library does not parse: WHERE, HEADER MATCH, and `*` for all columns.
//!
//! What it promises: what stands for them is put back by [`crate::copy_text::Format`].

use crate::copy_text::{ALL_COLUMNS, MATCH};
use crate::parse::{is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Where COPY's WHERE is among the tokens.
pub(crate) fn condition_at(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut used = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token));
    if !is_word(&tokens[used.next()?].token, "copy") {
        return None;
    }
    let mut depth = 0usize;
    used.find(|at| {
        match &tokens[*at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            word => return depth == 0 && is_word(word, "where"),
        }
        false
    })
}

/// `HEADER MATCH` as `HEADER true, FORCE_NULL ("$match")`, and `*` where a list of columns stands
/// as `("$all")`.
pub(crate) fn with_copy_options(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let list = |name: &str| [Token::LParen, Token::make_word(name, Some('"')), Token::RParen];
    let mut put: Vec<(usize, Vec<Token>)> = Vec::new();
    for n in 1..used.len() {
        if word(n, "match") && word(n - 1, "header") {
            let words =
                [Token::make_keyword("true"), Token::Comma, Token::make_keyword("FORCE_NULL")];
            put.push((used[n], words.into_iter().chain(list(MATCH)).collect()));
        } else if tokens[used[n]].token == Token::Mul
            && (word(n - 1, "force_quote")
                || (n > 1 && word(n - 1, "quote") && word(n - 2, "force")))
        {
            put.push((used[n], list(ALL_COLUMNS).to_vec()));
        }
    }
    if put.is_empty() {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 8);
    for (at, token) in tokens.into_iter().enumerate() {
        match put.iter().find(|(known, _)| *known == at) {
            None => out.push(token),
            Some((_, words)) => {
                let span = token.span;
                out.extend(words.iter().map(|word| TokenWithSpan { token: word.clone(), span }));
            }
        }
    }
    out
}
