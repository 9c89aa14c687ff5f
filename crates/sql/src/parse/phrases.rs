//! What the field writes inside of queries in words that have another place here: IGNORE NULLS
//! among the arguments, a column that is called `top`.
//!
//! What it promises: what has no counterpart is refused by name. What it must never do: touch what
//! PostgreSQL would understand.

use super::edit::{Edit, words};
use super::{Token, TokenWithSpan, is_space, is_word};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::keywords::Keyword;

/// Without one of these words there is nothing to do.
const MARKS: [&str; 6] = ["cursor", "multiset", "nulls", "overflow", "top", "xmlelement"];

/// Window functions that pass NULLs by where they are told to.
const PLACES: [&str; 5] = ["first_value", "lag", "last_value", "lead", "nth_value"];

/// The statement in other words; `None`: it is as it is.
pub(super) fn written(tokens: &[TokenWithSpan]) -> Result<Option<Vec<TokenWithSpan>>> {
    let named = with_plain_calls(tokens);
    let tokens = named.as_deref().unwrap_or(tokens);
    if !tokens.iter().any(|token| MARKS.iter().any(|mark| is_word(&token.token, mark))) {
        return Ok(named);
    }
    let mut edit = Edit::new(tokens);
    for n in 0..edit.len() {
        refuse(&edit, n)?;
        top(&mut edit, n);
        null_treatment(&mut edit, n);
        overflow(&mut edit, n);
    }
    Ok(edit.done().or(named))
}

/// The next place with a word or sign.
fn behind(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (at + 1..tokens.len()).find(|at| !is_space(&tokens[*at].token))
}

fn before(tokens: &[TokenWithSpan], at: usize) -> Option<usize> {
    (0..at).rev().find(|at| !is_space(&tokens[*at].token))
}

/// The next place, if this sign is there.
fn sign_behind(tokens: &[TokenWithSpan], at: usize, sign: &Token) -> Option<usize> {
    behind(tokens, at).filter(|at| tokens[*at].token == *sign)
}

/// `s.position(..)` is a call as any other, whatever the word means by itself.
fn with_plain_calls(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let special = |token: &Token| match token {
        Token::Word(word) => matches!(
            word.keyword,
            Keyword::EXTRACT
                | Keyword::OVERLAY
                | Keyword::POSITION
                | Keyword::SUBSTR
                | Keyword::SUBSTRING
                | Keyword::TRIM
        ),
        _ => false,
    };
    let is_part = |at: usize| {
        let dot = before(tokens, at).filter(|dot| tokens[*dot].token == Token::Period);
        let schema = dot.and_then(|dot| before(tokens, dot));
        schema.is_some_and(|schema| matches!(tokens[schema].token, Token::Word(_)))
            && sign_behind(tokens, at, &Token::LParen).is_some()
    };
    let calls: Vec<usize> =
        (0..tokens.len()).filter(|at| special(&tokens[*at].token) && is_part(*at)).collect();
    if calls.is_empty() {
        return None;
    }
    let mut out = tokens.to_vec();
    for at in calls {
        if let Token::Word(word) = &mut out[at].token {
            word.keyword = Keyword::NoKeyword;
        }
    }
    Some(out)
}

/// What has no counterpart here.
fn refuse(edit: &Edit<'_>, n: usize) -> Result<()> {
    if !edit.open(n + 1) || n == 0 {
        return Ok(());
    }
    // A table may be called so: `INSERT INTO cursor (SELECT ..)`.
    let table = edit.is(n - 1, "into") || edit.sign(n - 1, &Token::Period);
    if edit.any(n + 2, &["select", "with"]) && !table {
        if edit.is(n, "cursor") {
            return Err(PgError::unsupported("CURSOR(SELECT ..)")
                .with_hint("array_agg and json_agg make one value of many rows."));
        }
        if edit.is(n, "multiset") {
            return Err(PgError::unsupported("MULTISET(SELECT ..)")
                .with_hint("ARRAY(SELECT ..) makes one value of many rows."));
        }
    }
    let operand = edit.any(n - 1, &["select", "distinct", "all"])
        || [Token::Comma, Token::LParen, Token::Eq, Token::StringConcat]
            .iter()
            .any(|sign| edit.sign(n - 1, sign));
    if edit.is(n, "xmlelement") && operand {
        // The columns of a query of WITH.
        let listed =
            edit.closing(n + 1).is_some_and(|end| edit.is(end + 1, "as") && edit.open(end + 2));
        if !listed {
            return Err(PgError::unsupported("XMLELEMENT"));
        }
    }
    Ok(())
}

/// `SELECT top FROM t`: a name, unless it says how many rows are wanted.
fn top(edit: &mut Edit<'_>, n: usize) {
    if n == 0 || !edit.is(n, "top") {
        return;
    }
    let mut first = n - 1;
    // `DISTINCT ON (..)`.
    if edit.sign(first, &Token::RParen)
        && let Some(open) = edit.opening(first)
        && open >= 2
        && edit.all(open - 2, &["distinct", "on"])
    {
        first = open - 2;
    }
    let begins = edit.any(first, &["select", "distinct", "all", "unique"]);
    if begins && !edit.number(n + 1) {
        edit.replace(n, [Token::make_word("top", Some('"'))]);
    }
}

/// The bracket around a place.
fn around(edit: &Edit<'_>, n: usize) -> Option<usize> {
    let mut depth = 0usize;
    for at in (0..n).rev() {
        if edit.sign(at, &Token::RParen) {
            depth += 1;
        } else if edit.open(at) {
            if depth == 0 {
                return Some(at);
            }
            depth -= 1;
        }
    }
    None
}

/// `lag(x IGNORE NULLS)` as `lag(x) IGNORE NULLS`.
fn null_treatment(edit: &mut Edit<'_>, n: usize) {
    let treated = edit.any(n, &["ignore", "respect"])
        && edit.is(n + 1, "nulls")
        && (edit.sign(n + 2, &Token::RParen) || edit.sign(n + 2, &Token::Comma));
    if !treated {
        return;
    }
    let Some(open) = around(edit, n).filter(|open| *open > 0 && open + 1 < n) else { return };
    let Some(close) = edit.closing(open) else { return };
    if edit.any(open - 1, &PLACES) {
        let treatment = edit.cut(n..n + 2);
        edit.remove(n..n + 2);
        edit.insert(close + 1, treatment);
    }
}

/// `ON OVERFLOW TRUNCATE` with the filler and the count that it has by itself.
fn overflow(edit: &mut Edit<'_>, n: usize) {
    if !edit.all(n, &["on", "overflow", "truncate"]) {
        return;
    }
    let filler = matches!(edit.token(n + 3), Some(Token::SingleQuotedString(_)));
    let end = n + 3 + usize::from(filler);
    if edit.sign(end, &Token::RParen) {
        if !filler {
            edit.insert(end, [Token::SingleQuotedString("...".to_owned())]);
        }
        edit.insert(end, words("WITH COUNT"));
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::testing::{same, shown};

    #[test]
    fn words_are_names_where_postgresql_has_no_other_meaning_for_them() {
        same("select top from t", "select \"top\" from t");
        same("select distinct top, sort from t", "select distinct \"top\", sort from t");
        same("select distinct on (a) top from t", "select distinct on (a) \"top\" from t");
        for word in ["top", "sort", "view", "cluster", "distribute"] {
            same(&format!("select a {word} from t"), &format!("select a as {word} from t"));
            let table = format!("select 1 from t {word}");
            assert_eq!(shown(&table).to_lowercase(), table);
        }
        let called = "select s.position(a, b), s.trim(a) from t";
        assert_eq!(shown(called).to_lowercase(), called);
    }

    #[test]
    fn nulls_are_passed_by() {
        let shown_so = "select lag(a, 2) ignore nulls over (order by b) from t";
        same("select lag(a ignore nulls, 2) over (order by b) from t", shown_so);
        same("select lag(a, 2 ignore nulls) over (order by b) from t", shown_so);
        same(
            "select last_value(f(a) respect nulls) over (order by b), ignore nulls from t",
            "select last_value(f(a)) respect nulls over (order by b), ignore as nulls from t",
        );
    }

    #[test]
    fn what_has_no_counterpart_is_refused_by_name() {
        for text in [
            "select a, cursor(select 1 from u) from t",
            "select cast(multiset(select a from u) as list) from t",
            "select xmlagg(xmlelement(name x, a)) from t",
            "insert all into t values (1) into u values (2) select 1 from dual",
            "insert first when a > 1 then into t values (a) select a from u",
            "flashback table t to before drop",
            "select a from t versions between scn minvalue and maxvalue",
        ] {
            assert_eq!(shown(text), "0A000", "{text}");
        }
        let table = "insert into cursor (select 1)";
        assert_eq!(shown(table).to_lowercase(), table);
    }
}
