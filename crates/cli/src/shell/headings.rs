//! What columns of expressions are called: the server gives them no name of their own.
//!
//! What it promises: a column without a name is called as it was written in the list of what is
//! selected, blanks and comments left out. What it must never do: call a column by what is written
//! of another one; where the list does not tell the columns, their names stay.

use super::blocks::{Token, tokens};

/// What the server calls a column without a name.
const UNNAMED: &str = "?column?";

/// Characters of a name that is made of what was written.
const NAME_CHARS_MAX: usize = 128;

/// Gives the columns of a statement's result names, where they have none.
pub(super) fn name_columns(header: &mut [String], statement: &str) {
    if !header.iter().any(|name| name == UNNAMED) {
        return;
    }
    let Some(items) = selected(statement).filter(|items| items.len() == header.len()) else {
        return;
    };
    for (name, item) in header.iter_mut().zip(items) {
        // Of all columns of a table, and of one that is called so, nothing better is written.
        let has_name = item.last().is_none_or(|last| last.is("*") || last.text.contains(UNNAMED));
        if name.as_str() == UNNAMED && !has_name {
            *name = written(&item);
        }
    }
}

/// An item as one word.
fn written(item: &[Token<'_>]) -> String {
    let chars = item.iter().flat_map(|token| token.text.chars());
    let plain = chars.map(|c| if c.is_control() { ' ' } else { c });
    plain.take(NAME_CHARS_MAX).collect()
}

/// The items of the first list of what is selected; `None`: there is none.
fn selected(statement: &str) -> Option<Vec<Vec<Token<'_>>>> {
    let all: Vec<Token<'_>> = tokens(statement).collect();
    // A query may stand in parentheses.
    let first = all.iter().position(|token| !token.is("("))?;
    let begins = match all[first].text.to_ascii_lowercase().as_str() {
        "select" => first,
        "with" => first + outside(&all[first..], |_, token| token.is("select"))?,
        _ => return None,
    };
    let mut list = &all[begins + 1..];
    let kind = list.first().filter(|token| token.is_any(&["all", "distinct", "unique"]));
    if kind.is_some() {
        list = &list[1..];
        if list.first().is_some_and(|token| token.is("on")) {
            // `distinct on (a, b)`
            list = &list[1 + outside(&list[1..], |_, token| token.is(")"))? + 1..];
        }
    }
    let end = outside(list, |at, _| ends_list(list, at)).unwrap_or(list.len());
    let (mut items, mut rest) = (Vec::new(), &list[..end]);
    while let Some(at) = outside(rest, |_, token| token.is(",")) {
        items.push(rest[..at].to_vec());
        rest = &rest[at + 1..];
    }
    items.push(rest.to_vec());
    Some(items)
}

/// The first word or sign of a kind outside of parentheses and brackets that are opened on the way;
/// what closes one that was opened before is outside.
fn outside(all: &[Token<'_>], is_wanted: impl Fn(usize, &Token<'_>) -> bool) -> Option<usize> {
    let mut open = 0_usize;
    for (at, token) in all.iter().enumerate() {
        if token.is_any(&[")", "]"]) {
            open = open.saturating_sub(1);
        }
        if open == 0 && is_wanted(at, token) {
            return Some(at);
        }
        if token.is_any(&["(", "["]) {
            open += 1;
        }
    }
    None
}

/// Whether the list of what is selected ends before one of its words or signs.
fn ends_list(list: &[Token<'_>], at: usize) -> bool {
    const WORDS: [&str; 12] = [
        "into",
        "where",
        "having",
        "window",
        "union",
        "intersect",
        "except",
        "order",
        "limit",
        "offset",
        "fetch",
        "for",
    ];
    let token = &list[at];
    let before = |word: &str| at > 0 && list[at - 1].is(word);
    let follows = |words: &[&str]| list.get(at + 1).is_some_and(|next| next.is_any(words));
    token.is_any(&[";", ")"]) && !closes_own(list, at)
        || token.is_any(&WORDS)
        // `a is distinct from b`, and `within group (..)`.
        || token.is("from") && !before("distinct")
        || token.is("group") && !before("within")
        || token.is("bulk") && follows(&["collect"])
        || token.is("connect") && follows(&["by"])
        || token.is("start") && follows(&["with"])
        || token.is("minus") && follows(&["select", "("])
}

/// Whether a closing parenthesis is that of one which the list has opened.
fn closes_own(list: &[Token<'_>], at: usize) -> bool {
    let count = |sign: &str| list[..at].iter().filter(|token| token.is(sign)).count();
    list[at].is(")") && count("(") > count(")")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(statement: &str, header: &[&str]) -> String {
        let mut header: Vec<String> = header.iter().map(|name| (*name).to_owned()).collect();
        name_columns(&mut header, statement);
        header.join(" | ")
    }

    #[test]
    fn expressions_are_called_as_they_are_written() {
        let one = |statement: &str| named(statement, &[UNNAMED]);
        for (statement, wanted) in [
            ("select 1+1 from dual", "1+1"),
            ("SELECT 1 + 1", "1+1"),
            ("select 'It''s, a -- b' || q'[x, y]' from dual", "'It''s, a -- b'||q'[x, y]'"),
            ("select /*+ full(t) */ id /* , */ * 2 -- , 3\n from t", "id*2"),
            ("select distinct a+b from t order by 1", "a+b"),
            ("select distinct on (a, b) a + b from t", "a+b"),
            ("select all -a from t", "-a"),
            ("select a is distinct from b from t", "aisdistinctfromb"),
            (
                "select 'x' || listagg(a, ',') within group (order by a) from t",
                "'x'||listagg(a,',')withingroup(orderbya)",
            ),
            (
                "select a[1] + (select count(*) from u where x in (1, 2)) from t",
                "a[1]+(selectcount(*)fromuwherexin(1,2))",
            ),
            ("(select 1+1) union all (select 2)", "1+1"),
            ("select 1+1 union all select 2", "1+1"),
            ("select 1+1 minus select 2", "1+1"),
            ("select level * 2 connect by level < 3", "level*2"),
            ("with a as (select 1, 2 from t), b as (select 3) select x + 1 from a", "x+1"),
            ("select 'a\nb'", "'a b'"),
            ("select :n + 1", ":n+1"),
        ] {
            assert_eq!(one(statement), wanted, "{statement}");
        }
        assert_eq!(one(&format!("select '{}'", "x".repeat(500))).chars().count(), 128);
    }

    #[test]
    fn columns_keep_names_that_the_list_does_not_tell() {
        let two = [UNNAMED, UNNAMED];
        assert_eq!(
            named("select a+b, id, f(1, 2) + 1 from t", &[UNNAMED, "id", UNNAMED]),
            "a+b | id | f(1,2)+1"
        );
        assert_eq!(named("select 1 + 1, 2 + 2", &two), "1+1 | 2+2");
        assert_eq!(named("select t.*, a + 1 from t", &["a", UNNAMED]), "a | a+1");
        assert_eq!(named("select * from v", &two), "?column? | ?column?");
        assert_eq!(named("select * from v", &[UNNAMED]), "?column?");
        assert_eq!(named("select v.* from v", &[UNNAMED]), "?column?");
        assert_eq!(named("select 1 as \"?column?\"", &[UNNAMED]), "?column?");
        assert_eq!(named("select 1 + 1, 2 + 2", &["a", "b"]), "a | b");
        assert_eq!(named("execute p(1 + 1)", &[UNNAMED]), "?column?");
        assert_eq!(named("values (1 + 1)", &["column1"]), "column1");
    }
}
