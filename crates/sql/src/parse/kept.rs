//! Three forms of the field that have others here: aggregates with KEEP, `nth_value` with FROM
//! LAST, and types of intervals whose first field has a precision.
//!
//! What it promises: all else of the statement stays where it stands. What it must never do: touch
//! what is only called `keep` or `interval`, or a table `last`.

use super::edit::Edit;
use super::{Token, TokenWithSpan, is_word};
use crate::{PgError, Result};

/// What is told of a precision that says how many digits the first field of intervals has.
const UNLIMITED: &str = "the precision of an interval's first field is read and not kept";
/// The field's.
const PRECISION_MAX: u64 = 9;

/// The statement without such forms; `None`: it has none. What is told of it comes to `told`.
pub(super) fn without(
    tokens: &[TokenWithSpan],
    told: &mut Vec<String>,
) -> Result<Option<Vec<TokenWithSpan>>> {
    let wanted =
        |token: &Token| ["keep", "interval", "nth_value"].iter().any(|word| is_word(token, word));
    if !tokens.iter().any(|token| wanted(&token.token)) {
        return Ok(None);
    }
    let mut edit = Edit::new(tokens);
    let mut unlimited = false;
    for n in 0..edit.len() {
        if n > 0 && edit.is(n, "keep") && edit.open(n + 1) && edit.is(n + 2, "dense_rank") {
            keep(&mut edit, n)?;
        } else if edit.is(n, "interval") {
            unlimited |= interval(&mut edit, n)?;
        } else if edit.is(n, "nth_value") {
            counted_from(&mut edit, n);
        }
    }
    if unlimited {
        told.push(UNLIMITED.to_owned());
    }
    Ok(edit.done())
}

/// `max(x) KEEP (DENSE_RANK FIRST ORDER BY y)` as an aggregate with an order.
fn keep(edit: &mut Edit<'_>, n: usize) -> Result<()> {
    let ranked = edit.any(n + 3, &["first", "last"]) && edit.all(n + 4, &["order", "by"]);
    let Some(open) = edit.opening(n - 1).filter(|_| edit.closing(n + 1).is_some()) else {
        return Ok(());
    };
    let called = open.checked_sub(1).and_then(|name| edit.token(name));
    let (true, Some(Token::Word(called))) = (ranked, called) else { return Ok(()) };
    let aggregate = match called.quote_style {
        Some(_) => called.value.clone(),
        None => called.value.to_lowercase(),
    };
    let Some(name) = query::keep::name_of(&aggregate, edit.is(n + 3, "last")) else {
        return Err(PgError::unsupported(format!("KEEP of {aggregate}")));
    };
    if edit.is(open + 1, "distinct") {
        if !matches!(aggregate.as_str(), "min" | "max") {
            return Err(PgError::unsupported("DISTINCT beside KEEP"));
        }
        edit.remove(open + 1..open + 2);
    }
    // `count(*)`.
    if open + 3 == n && edit.sign(open + 1, &Token::Mul) {
        edit.replace(open + 1, [Token::Number("1".to_owned(), false)]);
    }
    edit.replace(open - 1, [Token::make_word(&name, Some('"'))]);
    edit.remove(n - 1..n + 4);
    Ok(())
}

/// `nth_value(x, 2) FROM LAST OVER ..` as a function of its own; FROM FIRST is what it is anyway.
fn counted_from(edit: &mut Edit<'_>, n: usize) {
    let Some(end) = edit.closing(n + 1).filter(|_| edit.open(n + 1)) else { return };
    let behind = end + 3;
    let nulls = edit.any(behind, &["ignore", "respect"]) && edit.is(behind + 1, "nulls");
    let counted = edit.is(end + 1, "from") && edit.any(end + 2, &["first", "last"]);
    if !(counted && (nulls || edit.is(behind, "over"))) {
        return;
    }
    if edit.is(end + 2, "last") {
        edit.replace(n, [Token::make_word(query::NTH_FROM_LAST, Some('"'))]);
    }
    edit.remove(end + 1..behind);
}

/// `INTERVAL DAY (3) TO SECOND` without the number; whether there was one.
fn interval(edit: &mut Edit<'_>, n: usize) -> Result<bool> {
    let limited = edit.any(n + 1, &["year", "day", "hour", "minute"])
        && edit.open(n + 2)
        && edit.sign(n + 4, &Token::RParen)
        && edit.is(n + 5, "to");
    let (true, Some(Token::Number(digits, _))) = (limited, edit.token(n + 3)) else {
        return Ok(false);
    };
    if digits.parse::<u64>().ok().is_none_or(|digits| digits > PRECISION_MAX) {
        let text = format!("interval precision {digits} must be between 0 and {PRECISION_MAX}");
        return Err(PgError::new("22023", text));
    }
    edit.remove(n + 2..n + 5);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use crate::parse::parse_single;
    use crate::parse::testing::shown;

    #[test]
    fn aggregates_with_keep_are_ordered() {
        for (text, wanted) in [
            (
                "select max(a) keep (dense_rank first order by b desc nulls last, c) from t",
                "SELECT \"$keep_first_max\"(a ORDER BY b DESC NULLS LAST, c) FROM t",
            ),
            (
                "select nvl(sum(f(a, (b))) keep (dense_rank last order by c), 0) x from t",
                "SELECT nvl(\"$keep_last_sum\"(f(a, (b)) ORDER BY c), 0) AS x FROM t",
            ),
            (
                "select count(*) keep (dense_rank last order by c) from t",
                "SELECT \"$keep_last_count\"(1 ORDER BY c) FROM t",
            ),
            (
                "select min(distinct a) keep (dense_rank first order by c), b keep from t",
                "SELECT \"$keep_first_min\"(a ORDER BY c), b AS keep FROM t",
            ),
            (
                "select max(a) keep (dense_rank first order by b) over (partition by c) from t",
                "SELECT \"$keep_first_max\"(a ORDER BY b) OVER (PARTITION BY c) FROM t",
            ),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
        for text in [
            "select listagg(a) keep (dense_rank first order by b) from t",
            "select sum(distinct a) keep (dense_rank first order by b) from t",
        ] {
            assert_eq!(shown(text), "0A000", "{text}");
        }
        assert_eq!(shown("select max(a) keep (dense_rank order by b) from t"), "42601");
        let called_so = "select * from f(1) as keep (dense_rank, first)";
        assert_eq!(shown(called_so).to_lowercase(), called_so);
    }

    #[test]
    fn places_are_counted_from_either_end() {
        for (text, wanted) in [
            (
                "select nth_value(f(a), 2) from last over (order by b) from last",
                "SELECT \"$nth_from_last\"(f(a), 2) OVER (ORDER BY b) FROM last",
            ),
            (
                "select nth_value(a, 2) from first ignore nulls over (order by b) from t",
                "SELECT nth_value(a, 2) IGNORE NULLS OVER (ORDER BY b) FROM t",
            ),
            ("select nth_value(a, 2) from last", "SELECT nth_value(a, 2) FROM last"),
        ] {
            assert_eq!(shown(text), wanted, "{text}");
        }
    }

    #[test]
    fn intervals_have_a_precision_of_their_seconds() {
        for (field, postgresql) in [
            (
                "create table t (a interval day(3) to second(2), b interval year(4) to month)",
                "create table t (a interval day to second(2), b interval year to month)",
            ),
            (
                "alter table t modify (a interval day(2) to second)",
                "alter table t alter column a type interval day to second",
            ),
        ] {
            assert_eq!(shown(field), shown(postgresql));
            assert!(shown(field).len() > 5, "{field}");
        }
        let told = parse_single("select cast(a as interval day(2) to minute) from t").unwrap();
        assert_eq!(told.notices.len(), 1);
        assert_eq!(shown("select cast(a as interval day(10) to minute) from t"), "22023");
        assert_eq!(
            shown("select interval '1 2' day(1) to hour from t"),
            "SELECT INTERVAL '1 2' DAY (1) TO HOUR FROM t"
        );
    }
}
