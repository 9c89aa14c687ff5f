//! Queries in words that the library's grammar lacks in their places: `= ANY (VALUES ..)` and
//! `INSERT INTO t TABLE u`.
//!
//! What it promises: the statement means the same, and the words around are as they were.

use crate::parse::{is_space, is_word};
use crate::words::closing;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// What is put before a token, by its place.
type Put = Vec<(usize, Vec<Token>)>;

/// The words of a list of rows as a query with SELECT, and those of TABLE as the same.
pub(crate) fn with_selects(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let has = |word: &str| tokens.iter().any(|t| is_word(&t.token, word));
    if !has("values") && !has("table") {
        return tokens;
    }
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let mut put = lists(&tokens, &used);
    if let Some(at) = shown_table(&tokens, &used) {
        let span = tokens[at].span;
        tokens[at] = TokenWithSpan { token: Token::make_keyword("FROM"), span };
        put.push((at, vec![Token::make_keyword("SELECT"), Token::Mul]));
    }
    // From the end, so that the places before stay what they are.
    put.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
    for (at, words) in put {
        let span = tokens[at].span;
        let space = || TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span };
        let spaced = words.into_iter().flat_map(|token| [TokenWithSpan { token, span }, space()]);
        let spaced: Vec<TokenWithSpan> = spaced.collect();
        tokens.splice(at..at, spaced);
    }
    tokens
}

/// What makes queries of VALUES behind ANY, ALL and SOME.
fn lists(tokens: &[TokenWithSpan], used: &[usize]) -> Put {
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let open = |n: usize| used.get(n).is_some_and(|at| tokens[*at].token == Token::LParen);
    let mut put = Vec::new();
    for n in 0..used.len() {
        // Behind a word it is another one: UNION ALL, SELECT ALL.
        let operator = |at: &usize| !matches!(tokens[*at].token, Token::Word(_));
        let quantified = n.checked_sub(1).and_then(|before| used.get(before)).is_some_and(operator)
            && ["any", "all", "some"].iter().any(|quantifier| word(n, quantifier));
        if !(quantified && open(n + 1) && word(n + 2, "values") && open(n + 3)) {
            continue;
        }
        let Some(close) = closing(tokens, used, n + 1) else { continue };
        let name = Token::make_word("*VALUES*", Some('"'));
        let keyword = Token::make_keyword;
        let before = vec![keyword("SELECT"), Token::Mul, keyword("FROM"), Token::LParen];
        put.push((used[n + 2], before));
        put.push((used[close], vec![Token::RParen, keyword("AS"), name]));
    }
    put
}

/// Where INSERT says TABLE in place of a query.
fn shown_table(tokens: &[TokenWithSpan], used: &[usize]) -> Option<usize> {
    if !is_word(&tokens[*used.first()?].token, "insert") {
        return None;
    }
    let mut depth = 0_usize;
    for (n, &at) in used.iter().enumerate() {
        match &tokens[at].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.saturating_sub(1),
            token if depth == 0 && is_word(token, "table") => {
                // Behind INTO it is another one, and so it is before parentheses.
                let into =
                    n.checked_sub(1).is_some_and(|n| is_word(&tokens[used[n]].token, "into"));
                let next = used.get(n + 1).map(|at| &tokens[*at].token);
                let named = matches!(next, Some(Token::Word(_)));
                return (named && !into).then_some(at);
            }
            token
                if depth == 0
                    && ["select", "values", "with", "default"]
                        .iter()
                        .any(|w| is_word(token, w)) =>
            {
                return None;
            }
            _ => {}
        }
    }
    None
}
