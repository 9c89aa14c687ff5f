//! Clauses of CREATE TABLE and CREATE INDEX that say where and how densely rows are stored. Space
//! is the database's own affair here: they are understood and change nothing.
//!
//! What it promises: only what follows the list of columns is looked at, and only whole clauses go.
//! What it must never do: hide a word that it does not know.

use super::{Token, TokenWithSpan, is_space, is_word};
use crate::{PgError, Result};
use std::ops::Range;

/// Words that a number or a name follows.
const WITH_VALUE: [&str; 5] = ["tablespace", "pctfree", "pctused", "initrans", "maxtrans"];
/// Words that stand alone.
const ALONE: [&str; 2] = ["logging", "nologging"];

/// The access method of bitmap indexes.
pub(crate) const BITMAP: &str = "bitmap";
/// What stands for it where an index's keys are to be turned round.
pub(crate) const REVERSE: &str = "reverse";

/// What is told of a table that was to be unlogged.
pub(crate) const LOGGED: &str = "UNLOGGED is ignored: all tables and sequences are logged";

/// The tokens of `CREATE UNLOGGED TABLE` or `SEQUENCE` without that word; `None`: another
/// statement.
pub(super) fn without_unlogged(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let mut used = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token));
    let mut is = |words: &[&str]| {
        used.next().filter(|at| words.iter().any(|word| is_word(&tokens[*at].token, word)))
    };
    is(&["create"])?;
    let at = is(&["unlogged"])?;
    is(&["table", "sequence"])?;
    let mut out = tokens.to_vec();
    out.remove(at);
    Some(out)
}

/// The tokens of the field's `CREATE BITMAP INDEX … ON table` as `CREATE INDEX … ON table USING
/// bitmap`; `None`: another statement.
pub(super) fn using_bitmap(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let is = |at: usize, word: &str| used.get(at).is_some_and(|i| is_word(&tokens[*i].token, word));
    if !is(0, "create") || !is(1, "bitmap") || !is(2, "index") {
        return None;
    }
    let mut end = 2 + (2..used.len()).find(|at| is(*at, "on"))?;
    while used.get(end).is_some_and(|i| tokens[*i].token == Token::Period) {
        end += 2;
    }
    let at = used.get(end).copied().unwrap_or(tokens.len());
    let span = tokens[used[1]].span;
    let words = [Token::make_keyword("USING"), Token::make_word(BITMAP, None)];
    let mut out = tokens.to_vec();
    let spaced = words.into_iter().map(|token| TokenWithSpan { token, span });
    out.splice(at..at, spaced);
    out.remove(used[1]);
    Some(out)
}

/// The tokens of `CREATE [UNIQUE] INDEX … ON table (…) … REVERSE` as `CREATE [UNIQUE] INDEX … ON
/// table USING reverse (…) …`; `None`: another statement.
///
/// # Errors
/// 0A000 for keys that are in no tree, as those of bitmaps.
pub(super) fn using_reverse(tokens: &[TokenWithSpan]) -> Result<Option<Vec<TokenWithSpan>>> {
    let Some((found, method)) = turned(tokens) else { return Ok(None) };
    let mut out = tokens.to_vec();
    let span = tokens[found].span;
    out.remove(found);
    let words = [Token::make_keyword("USING"), Token::make_word(REVERSE, None)];
    let words = words.into_iter().map(|token| TokenWithSpan { token, span });
    let own = |at: &usize| {
        let token = &tokens[*at].token;
        !is_space(token) && !is_word(token, "using")
    };
    // As definitions are shown: it is a tree, all the same.
    if let Some(name) = method.clone().find(own)
        && !is_word(&tokens[name].token, "btree")
    {
        let name = tokens[name].token.to_string().to_lowercase();
        let text = format!("access method \"{name}\" does not support REVERSE");
        return Err(PgError::new("0A000", text).with_hint(
            "REVERSE turns the keys of a tree round: leave it out, or make an index of the plain \
             kind.",
        ));
    }
    out.splice(method, words);
    Ok(Some(out))
}

/// Where REVERSE stands behind the list of columns of a new index, and the place of its access
/// method, before that list: it may have none yet.
fn turned(tokens: &[TokenWithSpan]) -> Option<(usize, Range<usize>)> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let token = |at: usize| used.get(at).map(|i| &tokens[*i].token);
    let is = |at: usize, word: &str| token(at).is_some_and(|token| is_word(token, word));
    let index = 1 + usize::from(is(1, "unique"));
    if !is(0, "create") || !is(index, "index") {
        return None;
    }
    let (mut depth, mut listed, mut found) = (0usize, false, None);
    for at in index..used.len() {
        match token(at)? {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.saturating_sub(1);
                listed |= depth == 0;
            }
            // What follows is a condition, with words of its own.
            word if listed && depth == 0 && is_word(word, "where") => break,
            word if listed && depth == 0 && is_word(word, "reverse") => found = Some(at),
            _ => {}
        }
    }
    let found = found?;
    let mut end = 2 + (index..used.len()).find(|at| is(*at, "on"))?;
    while token(end) == Some(&Token::Period) {
        end += 2;
    }
    let width = 2 * usize::from(is(end, "using"));
    // Nothing may follow a name that a list is yet to follow.
    let place = |at: usize| used.get(at).copied();
    Some((place(found)?, place(end)?..place(end + width)?))
}

/// The tokens without these clauses; `None`: there are none.
pub(super) fn without(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let token = |at: usize| used.get(at).map(|at| &tokens[*at].token);
    let is = |at: usize, word: &str| token(at).is_some_and(|token| is_word(token, word));
    let made = ["table", "index", "unique", "global"];
    if !is(0, "create") || !made.iter().any(|word| is(1, word)) {
        return None;
    }
    let (mut depth, mut listed, mut at) = (0usize, false, 0);
    let mut gone = vec![false; tokens.len()];
    while let Some(here) = token(at) {
        let mut width = 0;
        match here {
            Token::LParen => depth += 1,
            Token::RParen => {
                depth = depth.saturating_sub(1);
                listed |= depth == 0;
            }
            // What follows is a query, with words of its own.
            word if listed && depth == 0 && is_word(word, "as") => break,
            word if listed && depth == 0 => {
                let known = |words: &[&str]| words.iter().any(|known| is_word(word, known));
                let value = matches!(token(at + 1), Some(Token::Word(_) | Token::Number(..)));
                if known(&WITH_VALUE) && value {
                    width = 2;
                } else if known(&ALONE) {
                    width = 1;
                } else if is_word(word, "storage") && token(at + 1) == Some(&Token::LParen) {
                    let end = (at + 2..used.len()).find(|i| token(*i) == Some(&Token::RParen))?;
                    width = end + 1 - at;
                }
            }
            _ => {}
        }
        for i in at..at + width {
            gone[used[i]] = true;
        }
        at += width.max(1);
    }
    if !gone.contains(&true) {
        return None;
    }
    let kept = tokens.iter().zip(&gone).filter(|(_, gone)| !**gone);
    Some(kept.map(|(token, _)| token.clone()).collect())
}

#[cfg(test)]
mod tests {
    use crate::parse::{Parsed, parse_single};

    fn shown(text: &str) -> Result<String, &'static str> {
        match parse_single(text).map_err(|e| e.code)?.parsed {
            Parsed::Sql(ast) => Ok(ast.to_string()),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn clauses_of_storage_go_and_nothing_else() {
        let plain = shown("create table t (tablespace int, b int)");
        assert!(plain.is_ok());
        for text in [
            "create table t (tablespace int, b int) tablespace users",
            "create table t (tablespace int, b int) pctfree 10 initrans 2 nologging",
            "create table t (tablespace int, b int) storage (initial 1M next 1M) tablespace \"X\"",
        ] {
            assert_eq!(shown(text), plain, "{text}");
        }
        assert_eq!(shown("create index i on t (a) tablespace x"), shown("create index i on t (a)"));
        let query = "create table t (a) as select tablespace from logging";
        let kept = shown(query).expect("a statement");
        assert!(kept.ends_with("AS SELECT tablespace FROM logging"), "{kept}");
        let bits = shown("create bitmap index i on s.t (a) tablespace x");
        assert_eq!(bits, shown("create index i on s.t using bitmap (a)"));
        assert!(bits.is_ok());
        let bits = shown("create bitmap index if not exists i on t(a)");
        assert_eq!(bits, shown("create index if not exists i on t using bitmap (a)"));
        let turned = shown("create unique index i on s.t (a) tablespace x reverse nologging");
        assert_eq!(turned, shown("create unique index i on s.t using reverse (a)"));
        assert!(turned.is_ok());
        let turned = shown("create index i on t using btree (a, (b+1)) reverse where reverse > 1");
        assert_eq!(turned, shown("create index i on t using reverse (a, (b+1)) where reverse > 1"));
        for text in [
            "create bitmap index i on t (a) reverse",
            "create bitmap index i on s.t (a) tablespace x reverse nologging",
            "create index i on t using bitmap (a) reverse",
        ] {
            assert_eq!(shown(text), Err("0A000"), "{text}");
        }
        assert_eq!(shown("create bitmap index i on"), Err("42601"));
        assert_eq!(shown("create bitmap table t (a int)"), Err("42601"));
        assert_eq!(shown("create table t (a int) tablespace"), Err("42601"));
        assert_eq!(shown("create table t (a int) storage (x"), Err("42601"));
    }
}
