//! The values of an UPDATE, DELETE or SELECT of one table, taken out of its text, as
//! [`super::lift`] does for an INSERT: a row is looked up under ever other keys, and one plan
//! serves them all.
//!
//! What it promises: what is taken out stands by itself on the right of an operator, behind SET or
//! WHERE. Whether it means the same as a parameter is for [`Lifted::suits`] to say, and whether one
//! plan is the best for all values for whoever has made it. What it must never do: guess. A text
//! that is not read to its end is left alone.

use super::lift::{Lifted, REST_BYTES_MAX, Scan, Written, is_blank, without_end};

/// Operators that a value may stand behind.
const OPERATORS: [&str; 11] = ["=", "<", ">", "<=", ">=", "<>", "!=", "+", "-", "*", "/"];

/// Words behind which values say something else: how many rows, or what is returned.
const ENDS: [&str; 9] =
    ["returning", "order", "group", "having", "limit", "offset", "fetch", "for", "window"];

/// Words of statements that find more than one row of one table.
const OTHERS: [&str; 6] = ["select", "with", "union", "intersect", "except", "values"];

fn among(words: &[&str], word: &str) -> bool {
    words.iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// The text with parameters in place of its values; `None`: it is none of these, or has none behind
/// WHERE.
pub(crate) fn keyed(text: &str) -> Option<Lifted> {
    let text = without_end(text).trim_start();
    if text.len() > REST_BYTES_MAX {
        return None;
    }
    let mut scan = Scan::new(text);
    let first = scan.word();
    let changes = first.eq_ignore_ascii_case("update");
    if !changes && !among(&["select", "delete"], first) {
        return None;
    }
    let (mut out, mut values) = (String::with_capacity(text.len() + 8), Vec::new());
    let (mut copied, mut lifting, mut ended, mut found) = (0, false, false, false);
    // Whether an operator came last.
    let mut open = false;
    while let Some(byte) = scan.peek() {
        let from = scan.at;
        match byte {
            b if is_blank(char::from(b)) => {
                scan.blanks();
                continue;
            }
            b'(' | b')' | b',' | b'.' => {
                scan.at += 1;
                open = false;
            }
            b'"' => {
                scan.at += 1;
                scan.while_is(|b| b != b'"');
                scan.take(b'"').then_some(())?;
                ends_by_itself(&scan)?;
                open = false;
            }
            b'\'' => {
                let value = scan.quoted()?;
                ends_by_itself(&scan)?;
                if lifting && open {
                    put(&mut out, &text[copied..from], &mut values, value);
                    copied = scan.at;
                }
                open = false;
            }
            b'0'..=b'9' => {
                let value = scan.number()?;
                ends_by_itself(&scan)?;
                if lifting && open {
                    put(&mut out, &text[copied..from], &mut values, value);
                    copied = scan.at;
                }
                open = false;
            }
            b'=' | b'<' | b'>' | b'!' | b'+' | b'-' | b'*' | b'/' => {
                let sign = |b| b"=<>!+-*/%^~@#&|`?".contains(&b);
                let mut operator = scan.while_is(sign);
                // The rest of the line says nothing.
                if operator.contains("--") {
                    return None;
                }
                // A sign of the number behind it is no part of the operator.
                let signed = operator.ends_with('-')
                    && (operator.len() > 1 || open)
                    && scan.peek().is_some_and(|b| b.is_ascii_digit());
                if signed {
                    operator = &operator[..operator.len() - 1];
                    scan.at -= 1;
                }
                if !operator.is_empty() && !OPERATORS.contains(&operator) {
                    return None;
                }
                if signed {
                    let from = scan.at;
                    let value = scan.number()?;
                    ends_by_itself(&scan)?;
                    if lifting {
                        put(&mut out, &text[copied..from], &mut values, value);
                        copied = scan.at;
                    }
                }
                open = !signed;
            }
            _ => {
                let word = scan.word();
                if word.is_empty() || matches!(scan.peek(), Some(b'\'' | b'"' | b'$' | b'&')) {
                    return None;
                }
                if among(&OTHERS, word) {
                    return None;
                }
                ended |= among(&ENDS, word);
                let at_where = word.eq_ignore_ascii_case("where");
                // A second one is a part's of the statement.
                if at_where && found {
                    return None;
                }
                found |= at_where;
                lifting |= at_where || changes && word.eq_ignore_ascii_case("set");
                lifting &= !ended;
                open = false;
            }
        }
    }
    out.push_str(&text[copied..]);
    let few = found && !values.is_empty() && values.len() <= usize::from(u16::MAX);
    few.then_some(Lifted { text: out, values, keyed: true })
}

/// Nothing stands right behind a constant or a name in quotes that makes something else of it, nor
/// behind blanks another text: together they would be one.
fn ends_by_itself(scan: &Scan<'_>) -> Option<()> {
    let rest = &scan.text[scan.at..];
    let next = rest.bytes().next();
    let after = rest.trim_start_matches(is_blank).bytes().next();
    let joined = next.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_' || b >= 0x80);
    let goes_on = matches!(after, Some(b'\'' | b'"' | b':' | b'[' | b'$'));
    (!joined && !goes_on).then_some(())
}

fn put(
    out: &mut String,
    before: &str,
    values: &mut Vec<(Written, String)>,
    value: (Written, String),
) {
    values.push(value);
    out.push_str(before);
    out.push('$');
    out.push_str(&values.len().to_string());
}

#[cfg(test)]
mod tests {
    use super::*;
    use kernel::row::{ColType, TypeKind};

    fn shown(text: &str) -> Option<(String, Vec<String>)> {
        keyed(text).map(|l| (l.text, l.values.into_iter().map(|(_, value)| value).collect()))
    }

    #[test]
    fn values_behind_set_and_where_become_parameters() {
        let some = |text: &str, values: &[&str]| {
            Some((text.to_owned(), values.iter().map(|v| (*v).to_owned()).collect()))
        };
        assert_eq!(
            shown("UPDATE t SET b = b + -3371 WHERE id = 5;"),
            some("UPDATE t SET b = b + $1 WHERE id = $2", &["-3371", "5"])
        );
        assert_eq!(
            shown("update t set b=-3,c='it''s' where id=5 returning b + 1, 'x'"),
            some("update t set b=$1,c=$2 where id=$3 returning b + 1, 'x'", &["-3", "it's", "5"])
        );
        assert_eq!(
            shown(" select a, 'x', 7 from s.\"T\" where (id) = 5 and n >= 1.50 for update"),
            some(
                "select a, 'x', 7 from s.\"T\" where (id) = $1 and n >= $2 for update",
                &["5", "1.50"]
            )
        );
        assert_eq!(
            shown("delete from t where a = b - 5 and c in (1, 2) and d like 'x%' and e = 'ü'"),
            some(
                "delete from t where a = b - $1 and c in (1, 2) and d like 'x%' and e = $2",
                &["5", "ü"]
            )
        );
        assert_eq!(
            shown("select * from t where id = 1 order by a limit 5"),
            some("select * from t where id = $1 order by a limit 5", &["1"])
        );
        assert_eq!(
            shown("select * from t where d = date '2020-01-01' and id = 1"),
            some("select * from t where d = date '2020-01-01' and id = $1", &["1"])
        );
    }

    #[test]
    fn whatever_else_is_left_alone() {
        for text in [
            "",
            "select",
            "select 1",
            "select * from t",
            "update t set a = 1",
            "select * from t where id = 'a",
            "select * from t where id = \"a",
            "select * from t where id = 1; select 2",
            "select * from t where id = 1 -- x",
            "update t set v = v --5\n where id = 3",
            "update t set v = v + 1 --1\n where id = 3",
            "delete from t where v > w --2\n and id = 3",
            "delete from t where id =--2\n 3",
            "select * from t where id = /* x */ 1",
            "select /*+ full(t) */ * from t where id = 1",
            "select * from t where id = $1 and a = 2",
            "select * from t where id = 1::bigint",
            "select * from t where id = 1 ::bigint",
            "select * from t where a = 'x' 'y' and id = 1",
            "select * from t where a = E'x' and id = 1",
            "select * from t where a = 'x\\y' and id = 1",
            "select * from t where id = 1e3",
            "select * from t where id = 0x10",
            "select * from t where id = 5and a = 1",
            "select * from t where id = 1.",
            "select * from t where j -> 'a' = '1' and id = 1",
            "select * from t where a @> '{1}' and id = 1",
            "select * from t where a || 'x' = 'y' and id = 1",
            "select * from t where a ~ 'x' and id = 1",
            "select * from t where a[1] = 2 and id = 1",
            "select * from t where id = (select 1) and a = 2",
            "select * from t where id = 1 union select 2",
            "select * from t where id = 1234567890123456789",
            "select * from t where :x = 1",
            "insert into t values (1)",
            "merge into t using s on id = 1",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
        // An operator with a sign of its own that no number stands behind.
        assert_eq!(shown("select * from t where id =- a and b = 1"), None);
        assert_eq!(shown("select * from t where id = -a").map(|l| l.1), None);
    }

    #[test]
    fn only_what_means_the_same_suits() {
        let ty = ColType::new;
        let suits =
            |text: &str, types: &[ColType]| keyed(text).expect("values").suits(types).is_some();
        let whole = "select * from t where a = 5";
        assert!(suits(whole, &[ty(TypeKind::Int4)]));
        assert!(suits(whole, &[ty(TypeKind::Int8)]));
        assert!(suits(whole, &[ColType::numeric(5, 2)]));
        // The sum of two smallints is one: that of a smallint and a constant is none.
        assert!(!suits(whole, &[ty(TypeKind::Int2)]));
        assert!(!suits(whole, &[ty(TypeKind::Float4)]));
        assert!(!suits(whole, &[ty(TypeKind::Text)]));
        assert!(!suits(whole, &[ty(TypeKind::Date)]));
        let decimal = "select * from t where a = 5.125";
        assert!(suits(decimal, &[ty(TypeKind::Numeric)]));
        assert!(suits(decimal, &[ColType::numeric(9, 3)]));
        assert!(!suits(decimal, &[ColType::numeric(9, 2)]));
        assert!(!suits(decimal, &[ty(TypeKind::Int4)]));
        let quoted = "select * from t where a = 'abc'";
        assert!(suits(quoted, &[ty(TypeKind::Text)]));
        assert!(suits(quoted, &[ColType::with_length(TypeKind::Varchar, 3)]));
        assert!(!suits(quoted, &[ColType::with_length(TypeKind::Varchar, 2)]));
        assert!(!suits(quoted, &[ColType::numeric(9, 2)]));
        // A number has no zero below zero, but a float has.
        let zero = "update t set a = -0.0 where b = -0";
        assert!(suits(zero, &[ty(TypeKind::Numeric), ty(TypeKind::Int4)]));
        assert!(!suits(zero, &[ty(TypeKind::Float8), ty(TypeKind::Int4)]));
        assert!(!suits(zero, &[ty(TypeKind::Numeric), ty(TypeKind::Float8)]));
        assert!(!suits(quoted, &[ColType::with_precision(TypeKind::Timestamp, 0)]));
    }
}
