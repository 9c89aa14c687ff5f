//! Clauses that the library's grammar lacks, put into words that it knows.
//!
//! What it promises: the statement means the same, and the words around are as they were.

use crate::conflict::{EXPRESSION, PREDICATE};
use crate::parse::{is_space, is_word};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};

/// What is an expression among the columns of ON CONFLICT stands there as a name that begins with
/// [`EXPRESSION`]. The index predicate stands among the columns, as a name that begins with
/// [`PREDICATE`]: `ON CONFLICT (a) WHERE x > 0 DO ...` as `ON CONFLICT (a, "$where x > 0") DO ...`.
pub(crate) fn with_predicates(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let mut out = Vec::with_capacity(tokens.len());
    let mut copied = 0;
    for n in 0..used.len() {
        if !(word(n, "on") && word(n + 1, "conflict")) {
            continue;
        }
        let Some(close) = closing(&tokens, &used, n + 2) else { continue };
        out.extend_from_slice(&tokens[copied..=used[n + 2]]);
        copied = used[n + 2] + 1;
        for (from, to) in parts(&tokens, &used[n + 3..close]) {
            let text: String = tokens[from..=to].iter().map(|t| t.token.to_string()).collect();
            let name = Token::make_word(&format!("{EXPRESSION}{}", text.trim()), Some('"'));
            out.extend_from_slice(&tokens[copied..from]);
            out.push(TokenWithSpan { token: name, span: tokens[from].span });
            copied = to + 1;
        }
        if !word(close + 1, "where") {
            continue;
        }
        let Some(end) = (close + 2..used.len()).find(|n| word(*n, "do")) else { continue };
        let (close, from, end) = (used[close], used[close + 1] + 1, used[end]);
        let text: String = tokens[from..end].iter().map(|t| t.token.to_string()).collect();
        let name = Token::make_word(&format!("{PREDICATE}{}", text.trim()), Some('"'));
        out.extend_from_slice(&tokens[copied..close]);
        for token in [Token::Comma, name] {
            out.push(TokenWithSpan { token, span: tokens[close].span });
        }
        out.push(tokens[close].clone());
        copied = end;
    }
    out.extend_from_slice(&tokens[copied..]);
    out
}

/// `pg_catalog.substring(..)` is a call as any other, whatever the word means by itself.
pub(crate) fn with_plain_names(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for at in 2..tokens.len() {
        if tokens[at - 1].token == Token::Period
            && is_word(&tokens[at - 2].token, "pg_catalog")
            && tokens.get(at + 1).is_some_and(|next| next.token == Token::LParen)
            && let Token::Word(word) = &mut tokens[at].token
        {
            word.keyword = Keyword::NoKeyword;
        }
    }
    tokens
}

/// The words before ONLY, which has no meaning where no table inherits from another one.
const BEFORE_ONLY: [&str; 6] = ["from", "join", "update", "truncate", "table", "using"];

/// `ABORT` as `ROLLBACK`, `N'..'` as a plain text, the blank that `TRIM(LEADING FROM x)` takes off,
/// and `FROM ONLY t` as `FROM t`.
pub(crate) fn with_spellings(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for token in &mut tokens {
        if let Token::NationalStringLiteral(text) = &mut token.token {
            token.token = Token::SingleQuotedString(std::mem::take(text));
        }
    }
    crate::sys_names::without_sys(&mut tokens);
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let sides = ["leading", "trailing", "both"];
    let bare = |n: &usize| {
        word(*n, "trim")
            && used.get(n + 1).is_some_and(|at| tokens[*at].token == Token::LParen)
            && sides.iter().any(|side| word(n + 2, side))
            && word(n + 3, "from")
    };
    let blanks: Vec<usize> = (0..used.len()).filter(bare).map(|n| used[n + 3]).collect();
    let abort = if word(0, "abort") { used.first().copied() } else { None };
    let only = |n: &usize| {
        word(*n, "only")
            && n.checked_sub(1).is_some_and(|before| {
                tokens[used[before]].token == Token::Comma
                    || BEFORE_ONLY.iter().any(|known| word(before, known))
            })
    };
    let only: Vec<usize> = (0..used.len()).filter(only).map(|n| used[n]).collect();
    for at in only {
        tokens[at].token = Token::Whitespace(Whitespace::Space);
    }
    for at in blanks.into_iter().rev() {
        let token = Token::SingleQuotedString(" ".to_owned());
        let span = tokens[at].span;
        tokens.insert(at, TokenWithSpan { token, span });
    }
    if let Some(at) = abort {
        tokens[at].token = Token::make_keyword("ROLLBACK");
    }
    crate::row_words::with_selects(tokens)
}

/// `OVER (w ORDER BY x ROWS 1 PRECEDING EXCLUDE TIES)` with what is excluded as the first thing
/// that the window is partitioned by, and offsets that begin with a string in brackets.
pub(crate) fn with_frames(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens
        .iter()
        .any(|t| ["preceding", "following", "exclude"].iter().any(|w| is_word(&t.token, w)))
    {
        return tokens;
    }
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let is = |n: usize, token: &Token| used.get(n).is_some_and(|at| tokens[*at].token == *token);
    let span = |at: usize| tokens[at].span;
    // What is put before a token, and which go.
    let (mut put, mut gone): (Vec<(usize, Vec<Token>)>, Vec<usize>) = (Vec::new(), Vec::new());
    for n in 0..used.len() {
        let bound =
            n > 0 && ["between", "and", "rows", "range", "groups"].iter().any(|w| word(n - 1, w));
        if bound
            && matches!(tokens[used[n]].token, Token::SingleQuotedString(_))
            && is(n + 1, &Token::DoubleColon)
            && let Some(end) = (n + 2..used.len().min(n + 8))
                .find(|n| word(*n, "preceding") || word(*n, "following"))
        {
            put.push((used[n], vec![Token::LParen]));
            put.push((used[end], vec![Token::RParen]));
        }
        let (what, length) = match () {
            () if !word(n, "exclude") => continue,
            () if word(n + 1, "current") && word(n + 2, "row") => ("current row", 3),
            () if word(n + 1, "no") && word(n + 2, "others") => ("no others", 3),
            () if word(n + 1, "group") => ("group", 2),
            () if word(n + 1, "ties") => ("ties", 2),
            () => continue,
        };
        let Some(open) = opening(&tokens, &used, n).filter(|_| is(n + length, &Token::RParen))
        else {
            continue;
        };
        let first = ["partition", "order", "rows", "range", "groups"];
        let named = !first.iter().any(|w| word(open + 1, w));
        let at = open + 1 + usize::from(named);
        let mark = format!("{}{what}", crate::bind::EXCLUDE);
        let mark = Token::SingleQuotedString(mark);
        if word(at, "partition") && word(at + 1, "by") {
            put.push((used[at + 2], vec![mark, Token::Comma]));
        } else {
            let by = [Token::make_keyword("PARTITION"), Token::make_keyword("BY")];
            put.push((used[at], by.into_iter().chain([mark]).collect()));
        }
        gone.extend_from_slice(&used[n..n + length]);
    }
    let mut out = Vec::with_capacity(tokens.len() + 8);
    for (at, token) in tokens.iter().enumerate() {
        for (_, words) in put.iter().filter(|(before, _)| *before == at) {
            for token in words {
                out.push(TokenWithSpan { token: token.clone(), span: span(at) });
                let space = Token::Whitespace(Whitespace::Space);
                out.push(TokenWithSpan { token: space, span: span(at) });
            }
        }
        if !gone.contains(&at) {
            out.push(token.clone());
        }
    }
    out
}

/// The parenthesis around what stands at `n`.
fn opening(tokens: &[TokenWithSpan], used: &[usize], n: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in (0..n).rev() {
        match tokens[used[at]].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return Some(at),
            Token::LParen => depth -= 1,
            _ => {}
        }
    }
    None
}

/// `(t).*` as `t.*`, and `(t.*).a` as `(t).a`.
pub(crate) fn with_row_wildcards(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let is = |n: usize, token: &Token| used.get(n).is_some_and(|at| tokens[*at].token == *token);
    let name = |n: usize| used.get(n).is_some_and(|at| matches!(tokens[*at].token, Token::Word(_)));
    let mut gone = Vec::new();
    for n in 0..used.len() {
        let calls = n > 0
            && match &tokens[used[n - 1]].token {
                Token::Word(_) => {
                    let before = ["select", "distinct", "all", "returning"];
                    !before.iter().any(|word| is_word(&tokens[used[n - 1]].token, word))
                }
                Token::RParen => true,
                _ => false,
            };
        if calls || !is(n, &Token::LParen) || !name(n + 1) {
            continue;
        }
        let wild = |n: usize| is(n, &Token::Period) && is(n + 1, &Token::Mul);
        if is(n + 2, &Token::RParen) && wild(n + 3) {
            gone.extend([used[n], used[n + 2]]);
        } else if wild(n + 2)
            && is(n + 4, &Token::RParen)
            && is(n + 5, &Token::Period)
            && name(n + 6)
        {
            gone.extend([used[n + 2], used[n + 3]]);
        }
    }
    let mut at = 0;
    tokens.retain(|_| {
        at += 1;
        !gone.contains(&(at - 1))
    });
    tokens
}

/// `FETCH FIRST (amount) ROWS ONLY` as `LIMIT (amount)`, wherever it stands, and `WITH TIES` as
/// `LIMIT "$with_ties"(amount)`. OFFSET behind the clause goes before it.
pub(crate) fn with_fetch_amounts(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(&t.token, "fetch")) {
        return tokens;
    }
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let (mut gone, mut moved) = (Vec::new(), Vec::new());
    for n in 0..used.len() {
        let is = |n: usize, words: &[&str]| {
            used.get(n).is_some_and(|at| words.iter().any(|w| is_word(&tokens[*at].token, w)))
        };
        if !(is(n, &["fetch"]) && is(n + 1, &["first", "next"])) {
            continue;
        }
        let close = closing(&tokens, &used, n + 2);
        let rows = match close {
            Some(close) => close + 1,
            None if is(n + 2, &["row", "rows"]) => n + 2,
            None => n + 3,
        };
        let ties = is(rows + 1, &["with"]) && is(rows + 2, &["ties"]);
        let end = if ties { rows + 3 } else { rows + 2 };
        if !is(rows, &["row", "rows"]) || !(ties || is(rows + 1, &["only"])) {
            continue;
        }
        if is(end, &["offset"]) && end + 1 < used.len() {
            let last = closing(&tokens, &used, end + 1).unwrap_or(end + 1);
            let last = if is(last + 1, &["row", "rows"]) { last + 1 } else { last };
            moved.push((used[n], used[end], used[last]));
        }
        let Some(close) = close else { continue };
        let words = &used[close + 1..end];
        if close == n + 4 && matches!(tokens[used[n + 3]].token, Token::Number(..)) {
            gone.extend([used[n + 2], used[close]]);
        } else if ties {
            gone.extend_from_slice(words);
            tokens[used[n]].token = Token::make_keyword("LIMIT");
            tokens[used[n + 1]].token = Token::make_word(::query::WITH_TIES, Some('"'));
        } else {
            gone.extend_from_slice(words);
            gone.push(used[n + 1]);
            tokens[used[n]].token = Token::make_keyword("LIMIT");
        }
    }
    let mut out = Vec::with_capacity(tokens.len());
    for (at, token) in tokens.iter().enumerate() {
        if let Some((_, from, to)) = moved.iter().find(|(fetch, ..)| *fetch == at) {
            out.extend_from_slice(&tokens[*from..=*to]);
            out.push(TokenWithSpan {
                token: Token::Whitespace(Whitespace::Space),
                span: token.span,
            });
        }
        let behind = moved.iter().any(|(_, from, to)| (*from..=*to).contains(&at));
        if !behind && !gone.contains(&at) {
            out.push(token.clone());
        }
    }
    out
}

/// `FOR NO KEY UPDATE` as `FOR UPDATE`, `FOR KEY SHARE` as `FOR SHARE`, and for each of several
/// relations that OF names a clause of its own; LIMIT behind the clause goes before it.
pub(crate) fn with_row_locks(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(&t.token, "for")) {
        return tokens;
    }
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let is = |n: usize, token: &Token| used.get(n).is_some_and(|at| tokens[*at].token == *token);
    let (mut out, mut copied) = (Vec::with_capacity(tokens.len()), 0);
    for n in 0..used.len() {
        let (strength, mut next) = if !word(n, "for") || used[n] < copied {
            continue;
        } else if word(n + 1, "no") && word(n + 2, "key") && word(n + 3, "update") {
            ("UPDATE", n + 4)
        } else if word(n + 1, "key") && word(n + 2, "share") {
            ("SHARE", n + 3)
        } else if word(n + 1, "update") {
            ("UPDATE", n + 2)
        } else if word(n + 1, "share") {
            ("SHARE", n + 2)
        } else {
            continue;
        };
        let mut names = Vec::new();
        if word(next, "of") {
            next += 1;
            let mut from = next;
            while next < used.len() && matches!(tokens[used[next]].token, Token::Word(_)) {
                next += 1;
                while is(next, &Token::Period) {
                    next += 2;
                }
                names.push((from, next));
                if !is(next, &Token::Comma) {
                    break;
                }
                next += 1;
                from = next;
            }
        }
        let waits = next;
        if word(next, "nowait") {
            next += 1;
        } else if word(next, "skip") && word(next + 1, "locked") {
            next += 2;
        }
        // A LIMIT behind the clause is as good as one before it.
        let end = if ["limit", "offset", "fetch"].iter().any(|part| word(next, part)) {
            let mut depth = 0;
            let mut end = next;
            while let Some(at) = used.get(end) {
                match tokens[*at].token {
                    Token::LParen => depth += 1,
                    Token::RParen if depth == 0 => break,
                    Token::RParen => depth -= 1,
                    Token::SemiColon => break,
                    _ => {
                        let behind = ["returning", "on", "with", "for"];
                        if depth == 0 && behind.iter().any(|part| word(end, part)) {
                            break;
                        }
                    }
                }
                end += 1;
            }
            end
        } else {
            next
        };
        // Without FROM there is no row to lock.
        if names.is_empty() && next <= used.len() && reads_nothing(&tokens, &used[..n]) {
            out.extend_from_slice(&tokens[copied..used[n]]);
            copied = used.get(next).copied().unwrap_or(tokens.len());
            continue;
        }
        if next > used.len() || (names.len() < 2 && waits == n + 2 && end == next) {
            continue;
        }
        out.extend_from_slice(&tokens[copied..used[n]]);
        for at in next..end {
            out.push(tokens[used[at]].clone());
            let span = tokens[used[at]].span;
            out.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
        }
        let span = tokens[used[n]].span;
        let put = |out: &mut Vec<TokenWithSpan>, token| {
            out.push(TokenWithSpan { token, span });
            out.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
        };
        let all = if names.is_empty() { vec![None] } else { names.into_iter().map(Some).collect() };
        for name in all {
            put(&mut out, Token::make_keyword("FOR"));
            put(&mut out, Token::make_keyword(strength));
            if let Some((from, to)) = name {
                put(&mut out, Token::make_keyword("OF"));
                for at in from..to {
                    out.push(tokens[used[at]].clone());
                }
                out.push(TokenWithSpan { token: Token::Whitespace(Whitespace::Space), span });
            }
            for at in waits..next {
                put(&mut out, tokens[used[at]].token.clone());
            }
        }
        copied = used.get(end).copied().unwrap_or(tokens.len());
    }
    out.extend_from_slice(&tokens[copied..]);
    out
}

/// Whether the SELECT that ends with these tokens has no FROM.
fn reads_nothing(tokens: &[TokenWithSpan], used: &[usize]) -> bool {
    let mut depth = 0usize;
    for at in used.iter().rev() {
        match &tokens[*at].token {
            Token::RParen => depth += 1,
            Token::LParen if depth == 0 => return false,
            Token::LParen => depth -= 1,
            word if depth == 0 && is_word(word, "from") => return false,
            word if depth == 0 && is_word(word, "select") => return true,
            _ => {}
        }
    }
    false
}

/// `CREATE VIEW v AS ... WITH [LOCAL | CASCADED] CHECK OPTION` as `CREATE VIEW v
/// WITH (check_option = '...') AS ...`.
pub(crate) fn with_check_option(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let end = used.iter().rposition(|at| tokens[*at].token != Token::SemiColon);
    let word = |n: Option<usize>, word: &str| {
        n.and_then(|n| used.get(n)).is_some_and(|at| is_word(&tokens[*at].token, word))
    };
    let before = |n: usize| end.and_then(|end| end.checked_sub(n));
    if !(word(end, "option") && word(before(1), "check")) {
        return tokens;
    }
    let (first, kind) = match before(2) {
        at if word(at, "with") => (at, "cascaded"),
        at if word(at, "local") && word(before(3), "with") => (before(3), "local"),
        at if word(at, "cascaded") && word(before(3), "with") => (before(3), "cascaded"),
        _ => return tokens,
    };
    let (Some(first), Some(end)) = (first, end) else { return tokens };
    let Some(as_at) = (0..first).find(|n| word(Some(*n), "as")) else { return tokens };
    let view = (0..as_at).any(|n| word(Some(n), "view"));
    let (from, to, place) = (used[first], used[end], used[as_at]);
    // Other options of the view have brackets of their own.
    let list = (0..as_at).rev().find(|n| tokens[used[*n]].token == Token::RParen);
    let open = list.and_then(|close| (0..close).rev().find(|n| word(Some(*n), "with")));
    if !view || open.is_some() {
        return tokens;
    }
    let span = tokens[place].span;
    tokens.drain(from..=to);
    let words = [
        Token::make_keyword("WITH"),
        Token::LParen,
        Token::make_word("check_option", None),
        Token::Eq,
        Token::SingleQuotedString(kind.to_owned()),
        Token::RParen,
    ];
    tokens.splice(place..place, words.into_iter().map(|token| TokenWithSpan { token, span }));
    tokens
}

/// Before the names of columns that a constraint's index includes.
pub(crate) const INCLUDE: &str = "$include";

/// `PRIMARY KEY (a) INCLUDE (b)` as `PRIMARY KEY (a, "$include".b)`, and UNIQUE likewise.
pub(crate) fn with_included(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(&t.token, "include")) {
        return tokens;
    }
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let (mut out, mut copied) = (Vec::with_capacity(tokens.len()), 0);
    for n in 0..used.len() {
        let open = match () {
            () if word(n, "unique") => n + 1,
            () if word(n, "primary") && word(n + 1, "key") => n + 2,
            () => continue,
        };
        let Some(close) = closing(&tokens, &used, open) else { continue };
        let Some(end) = closing(&tokens, &used, close + 2).filter(|_| word(close + 1, "include"))
        else {
            continue;
        };
        out.extend_from_slice(&tokens[copied..used[close]]);
        let span = tokens[used[close]].span;
        let put = |token| TokenWithSpan { token, span };
        for at in &used[close + 3..end] {
            if tokens[*at].token == Token::Comma {
                continue;
            }
            let mark = Token::make_word(INCLUDE, Some('"'));
            out.extend([put(Token::Comma), put(mark), put(Token::Period), tokens[*at].clone()]);
        }
        out.push(tokens[used[end]].clone());
        copied = used[end] + 1;
    }
    out.extend_from_slice(&tokens[copied..]);
    out
}

/// Stands for the word in COMMENT ON CONSTRAINT.
pub(crate) const CONSTRAINT: &str = "$constraint";

/// `COMMENT ON CONSTRAINT c ON t IS ..` as one on a COLLATION `"$constraint".t.c`: the library does
/// not know the one, and here is none of the other.
pub(crate) fn with_constraint_comment(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let end = (5..used.len()).find(|n| word(*n, "is"));
    let (Some(end), true) = (end, word(2, "constraint") && word(4, "on")) else { return tokens };
    let span = tokens[used[2]].span;
    let mut name = vec![tokens[used[3]].clone()];
    let mut out = tokens[..used[2]].to_vec();
    let put = |token| TokenWithSpan { token, span };
    out.extend([put(Token::make_keyword("COLLATION")), put(Token::Whitespace(Whitespace::Space))]);
    out.extend([put(Token::make_word(CONSTRAINT, Some('"'))), put(Token::Period)]);
    out.extend(used[5..end].iter().map(|at| tokens[*at].clone()));
    out.push(put(Token::Period));
    out.append(&mut name);
    out.push(put(Token::Whitespace(Whitespace::Space)));
    out.extend_from_slice(&tokens[used[end]..]);
    out
}

/// `CREATE MATERIALIZED VIEW v AS .. WITH [NO] DATA` without the clause, or as one `WITH
/// ("$no_data" = true)`.
pub(crate) fn with_no_data(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    if !(word(1, "materialized") && word(2, "view")) {
        return tokens;
    }
    let end = used.iter().rposition(|at| tokens[*at].token != Token::SemiColon);
    let Some(end) = end.filter(|end| word(*end, "data")) else { return tokens };
    let no = word(end.wrapping_sub(1), "no");
    let first = end.wrapping_sub(if no { 2 } else { 1 });
    let as_at = (0..first).find(|n| word(*n, "as"));
    let (Some(as_at), true) = (as_at, word(first, "with")) else { return tokens };
    let (from, to, place) = (used[first], used[end], used[as_at]);
    tokens.drain(from..=to);
    if no {
        let span = tokens[place].span;
        let words = [
            Token::make_keyword("WITH"),
            Token::LParen,
            Token::make_word(crate::parse::NO_DATA, Some('"')),
            Token::Eq,
            Token::make_keyword("true"),
            Token::RParen,
        ];
        tokens.splice(place..place, words.into_iter().map(|token| TokenWithSpan { token, span }));
    }
    tokens
}

/// Stands for a clause LIKE among the columns of a new table.
pub(crate) const LIKE: &str = "$like";

/// The clauses `LIKE src INCLUDING ALL EXCLUDING INDEXES` among the columns of CREATE TABLE as
/// columns `"$like" "$like"('.src', '+all', '-indexes')`: the parts of the name after a point, what
/// is included after a plus.
pub(crate) fn with_like(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| is_word(&t.token, "like")) {
        return tokens;
    }
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let open = used.iter().position(|at| tokens[*at].token == Token::LParen);
    let Some(open) = open else { return tokens };
    let word = |n: usize, word: &str| is_word(&tokens[used[n]].token, word);
    if !(1..open).any(|n| word(n, "table")) || (1..open).any(|n| word(n, "as")) {
        return tokens;
    }
    let Some(close) = closing(&tokens, &used, open) else { return tokens };
    let (mut out, mut copied, mut depth, mut first) =
        (Vec::with_capacity(tokens.len()), 0, 0usize, open + 1);
    for n in open + 1..=close {
        match tokens[used[n]].token {
            Token::LParen => depth += 1,
            Token::RParen if n < close => depth -= 1,
            Token::Comma | Token::RParen if depth == 0 => {
                let element: Vec<&Token> =
                    used[first..n].iter().map(|at| &tokens[*at].token).collect();
                if let Some(words) = like_words(&element) {
                    out.extend_from_slice(&tokens[copied..used[first]]);
                    let span = tokens[used[first]].span;
                    out.extend(words.into_iter().map(|token| TokenWithSpan { token, span }));
                    copied = used[n];
                }
                first = n + 1;
            }
            _ => {}
        }
    }
    out.extend_from_slice(&tokens[copied..]);
    out
}

/// What a clause LIKE becomes; `None` for what is none.
fn like_words(element: &[&Token]) -> Option<Vec<Token>> {
    const OPTIONS: [&str; 10] = [
        "all",
        "comments",
        "compression",
        "constraints",
        "defaults",
        "generated",
        "identity",
        "indexes",
        "statistics",
        "storage",
    ];
    let name = |token: &Token| match token {
        Token::Word(word) if word.quote_style.is_some() => Some(word.value.clone()),
        Token::Word(word) => Some(word.value.to_lowercase()),
        _ => None,
    };
    let (like, mut rest) = element.split_first()?;
    if !is_word(like, "like") {
        return None;
    }
    let mut words = Vec::new();
    loop {
        let (first, after) = rest.split_first()?;
        words.push(format!(".{}", name(first)?));
        rest = after;
        match rest.split_first() {
            Some((Token::Period, after)) => rest = after,
            _ => break,
        }
    }
    for option in rest.chunks(2) {
        let [verb, what] = option else { return None };
        let sign = match () {
            () if is_word(verb, "including") => '+',
            () if is_word(verb, "excluding") => '-',
            () => return None,
        };
        let what = OPTIONS.iter().find(|known| is_word(what, known))?;
        words.push(format!("{sign}{what}"));
    }
    let marked = || Token::make_word(LIKE, Some('"'));
    let mut out = vec![marked(), marked(), Token::LParen];
    for word in words {
        out.extend([Token::SingleQuotedString(word), Token::Comma]);
    }
    out.pop();
    out.push(Token::RParen);
    Some(out)
}

/// Stands for the column of an action that does nothing.
pub(crate) const NOTHING: &str = "$nothing";
/// Stands for the columns of an INSERT of defaults alone.
pub(crate) const DEFAULT_VALUES: &str = "$default";

/// `THEN DO NOTHING` and `INSERT DEFAULT VALUES` of a MERGE as an UPDATE or INSERT of a column that
/// no table has.
pub(crate) fn with_merge_actions(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word =
        |n: usize, word: &str| used.get(n).is_some_and(|at| is_word(&tokens[*at].token, word));
    let column = |name: &str| Token::make_word(name, Some('"'));
    let insert = |name: &str| {
        let zero = Token::Number("0".to_owned(), false);
        vec![
            Token::make_keyword("INSERT"),
            Token::LParen,
            column(name),
            Token::RParen,
            Token::make_keyword("VALUES"),
            Token::LParen,
            zero,
            Token::RParen,
        ]
    };
    let (mut out, mut copied, mut unmatched) = (Vec::with_capacity(tokens.len()), 0, false);
    for n in 0..used.len() {
        if word(n, "when") {
            unmatched = word(n + 1, "not");
        }
        let (words, count) = if word(n, "do") && word(n + 1, "nothing") {
            let update = [Token::make_keyword("UPDATE"), Token::make_keyword("SET")];
            let zero = [Token::Eq, Token::Number("0".to_owned(), false)];
            let update = update.into_iter().chain([column(NOTHING)]).chain(zero).collect();
            (if unmatched { insert(NOTHING) } else { update }, 2)
        } else if word(n, "insert") && word(n + 1, "default") && word(n + 2, "values") {
            (insert(DEFAULT_VALUES), 3)
        } else {
            continue;
        };
        out.extend_from_slice(&tokens[copied..used[n]]);
        let span = tokens[used[n]].span;
        out.extend(words.into_iter().map(|token| TokenWithSpan { token, span }));
        copied = used[n + count - 1] + 1;
    }
    out.extend_from_slice(&tokens[copied..]);
    out
}

/// `TABLE name` as `SELECT * FROM name`, where a query may stand.
pub(crate) fn with_tables(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    const BEFORE: [&str; 10] = [
        "union",
        "except",
        "intersect",
        "all",
        "distinct",
        "as",
        "for",
        "explain",
        "analyze",
        "verbose",
    ];
    if !tokens.iter().any(|t| is_word(&t.token, "table")) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len() + 8);
    let mut before: Option<Token> = None;
    for (i, token) in tokens.iter().enumerate() {
        let next = tokens[i + 1..].iter().find(|t| !is_space(&t.token));
        let query = match &before {
            None | Some(Token::LParen) => true,
            Some(word) => BEFORE.iter().any(|known| is_word(word, known)),
        };
        let named = next.is_some_and(|t| matches!(t.token, Token::Word(_)));
        if query && named && is_word(&token.token, "table") {
            for word in [Token::make_keyword("SELECT"), Token::Mul, Token::make_keyword("FROM")] {
                out.push(TokenWithSpan { token: word, span: token.span });
            }
        } else {
            out.push(token.clone());
        }
        if !is_space(&token.token) {
            before = Some(token.token.clone());
        }
    }
    out
}

/// The parts of a list, which `used` tokens are, that are more than a name: from which token to
/// which.
fn parts(tokens: &[TokenWithSpan], used: &[usize]) -> Vec<(usize, usize)> {
    let (mut found, mut depth, mut first) = (Vec::new(), 0usize, 0);
    for at in 0..=used.len() {
        let token = used.get(at).map(|at| &tokens[*at].token);
        match token {
            Some(Token::LParen) => depth += 1,
            Some(Token::RParen) => depth = depth.saturating_sub(1),
            None | Some(Token::Comma) if depth == 0 => {
                // A name alone is a column.
                if at > first + 1 {
                    found.push((used[first], used[at - 1]));
                }
                first = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The parenthesis that closes the one at `n`.
pub(crate) fn closing(tokens: &[TokenWithSpan], used: &[usize], n: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in n..used.len() {
        match tokens[used[at]].token {
            Token::LParen => depth += 1,
            Token::RParen => depth = depth.checked_sub(1)?,
            _ => {}
        }
        if depth == 0 {
            return (at > n).then_some(at);
        }
    }
    None
}
