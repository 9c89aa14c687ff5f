//! `t as of scn n` and `t as of timestamp x`: a table as it was.
//!
//! What it promises: each table of a statement is read as of its own moment, the others as the
//! statement sees them; the moment is worked out once, before the statement runs. What it must
//! never do: read what is not kept any more as something else (72000).

use crate::bind::{Binder, HiddenCall, SessionFn};
use crate::parse::{is_space, is_word};
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, FromTable, Query, Statement as Ast, TableFactor, TableVersion,
    Value as Literal, Visit, Visitor, visit_expressions,
};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Whitespace};
use kernel::row::{ColType, TypeKind, Value};
use query::Scalar;
use std::ops::ControlFlow;

/// Before the name of a table that is read as of an SCN, with the parameter that says which.
const PAST: &str = "$as_of_";
/// What stands before the moment, with `=` between them.
const SCN: &str = "$scn";
const TIMESTAMP: &str = "$timestamp";

/// The name by which a table is bound that is read as of the SCN in a parameter.
pub(crate) fn name_of(param: usize, table: &str) -> String {
    format!("{PAST}{param}:{table}")
}

/// The parameter, and the table's own name.
pub(crate) fn of_name(name: &str) -> Option<(usize, &str)> {
    let (param, table) = name.strip_prefix(PAST)?.split_once(':')?;
    Some((param.parse().ok()?, table))
}

/// Where `as of scn` and `as of timestamp` stand: the place of `as`, and of the last word.
fn clauses(tokens: &[TokenWithSpan]) -> Vec<(usize, usize)> {
    if !tokens.iter().any(|t| is_word(&t.token, "of")) {
        return Vec::new();
    }
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let word = |at: usize, word: &str| is_word(&tokens[at].token, word);
    used.windows(3)
        .filter(|w| word(w[0], "as") && word(w[1], "of"))
        .filter(|w| word(w[2], "scn") || word(w[2], "timestamp"))
        .map(|w| (w[0], w[2]))
        .collect()
}

/// Whether a statement has such clauses, as they are written or in the library's form.
pub(crate) fn is_asked_for(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|t| is_word(&t.token, "system_time")) || !clauses(tokens).is_empty()
}

/// # Errors
/// 0A000 where what is to be changed or locked is asked for as of a moment of the past.
pub(crate) fn check(ast: &Ast) -> Result<()> {
    /// Whether anything is read as of the past, and whether rows of a query are locked.
    #[derive(Default)]
    struct Finder {
        past: bool,
        locks: bool,
    }
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_query(&mut self, query: &Query) -> ControlFlow<()> {
            self.locks |= !query.locks.is_empty();
            ControlFlow::Continue(())
        }

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            self.past |= is_past(factor);
            ControlFlow::Continue(())
        }
    }
    let mut found = Finder::default();
    let _ = ast.visit(&mut found);
    if !found.past {
        return Ok(());
    }
    let changes = match ast {
        Ast::Update(update) => is_past(&update.table.relation),
        Ast::Delete(delete) => match &delete.from {
            FromTable::WithFromKeyword(from) | FromTable::WithoutKeyword(from) => {
                from.iter().any(|from| is_past(&from.relation))
            }
        },
        Ast::Merge(merge) => is_past(&merge.table),
        _ => false,
    };
    if changes || found.locks {
        let what = if changes { "AS OF of what is changed" } else { "AS OF beside FOR UPDATE" };
        return Err(PgError::unsupported(what));
    }
    Ok(())
}

/// # Errors
/// 0A000 for a view of the past: what it shows would be gone some day.
pub(crate) fn refuse_in_view(query: &Query) -> Result<()> {
    struct Finder;
    impl Visitor for Finder {
        type Break = ();

        fn pre_visit_table_factor(&mut self, factor: &TableFactor) -> ControlFlow<()> {
            if is_past(factor) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        }
    }
    match query.visit(&mut Finder).is_break() {
        true => Err(PgError::unsupported("AS OF in a view")),
        false => Ok(()),
    }
}

fn is_past(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { version: Some(_), .. })
}

/// The clauses in the library's form: `t FOR SYSTEM_TIME AS OF '$scn' = n`.
pub(crate) fn with_versions(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let clauses = clauses(&tokens);
    if clauses.is_empty() {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 8 * clauses.len());
    for (at, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        let mut put = |token: Token| out.push(TokenWithSpan { token, span });
        let space = Token::Whitespace(Whitespace::Space);
        if clauses.iter().any(|(first, _)| *first == at) {
            for word in ["FOR", "SYSTEM_TIME"] {
                put(Token::make_keyword(word));
                put(space.clone());
            }
        }
        if clauses.iter().any(|(_, last)| *last == at) {
            let kind = if is_word(&token.token, "scn") { SCN } else { TIMESTAMP };
            put(Token::SingleQuotedString(kind.to_owned()));
            put(space.clone());
            put(Token::Eq);
        } else {
            put(token.token);
        }
    }
    out
}

/// The kind of the moment, and the moment.
fn moment(version: &TableVersion) -> Option<(&'static str, &Expr)> {
    let TableVersion::ForSystemTimeAsOf(Expr::BinaryOp { left, op: BinaryOperator::Eq, right }) =
        version
    else {
        return None;
    };
    let Expr::Value(kind) = &**left else { return None };
    match &kind.value {
        Literal::SingleQuotedString(kind) if kind == SCN => Some((SCN, right)),
        Literal::SingleQuotedString(kind) if kind == TIMESTAMP => Some((TIMESTAMP, right)),
        _ => None,
    }
}

impl Binder<'_> {
    /// The parameter with the SCN that a clause asks for.
    pub(crate) fn past(&mut self, version: &TableVersion) -> Result<usize> {
        let (kind, expr) = moment(version)
            .ok_or_else(|| PgError::unsupported("this form of a version of a table"))?;
        let (text, wanted) = match kind {
            SCN => (format!("select ({expr})::bigint"), TypeKind::Int8),
            _ => (format!("select ({expr})::timestamptz"), TypeKind::Timestamptz),
        };
        let count = self.params.types.len();
        // What is asked for nowhere else is of the type that is wanted here.
        let _ = visit_expressions(expr, |part| {
            if let Expr::Value(value) = part
                && let Literal::Placeholder(name) = &value.value
                && let Some(number) = name.strip_prefix('$').and_then(|n| n.parse::<usize>().ok())
                && let Some(slot @ None) = self.params.types.get_mut(number.wrapping_sub(1))
            {
                *slot = Some(ColType::new(wanted));
            }
            ControlFlow::<()>::Continue(())
        });
        let constant = |text: &str| Scalar::Const(Value::Text(text.into()));
        let mut args = vec![constant(kind), constant(&text)];
        args.extend((0..count).map(Scalar::Param));
        Ok(self.params.add_hidden(HiddenCall { function: SessionFn::PastScn, args }))
    }
}

/// What the arguments of such a call say: whether the moment is an SCN, and the query for it.
pub(crate) fn asked(args: &[Value]) -> Option<(bool, &str, &[Value])> {
    let [Value::Text(kind), Value::Text(text), params @ ..] = args else { return None };
    Some((**kind == *SCN, text, params))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::{Parsed, parse_single};

    #[test]
    fn clauses_are_put_into_the_librarys_form() {
        for (text, read) in [
            (
                "select * from t as of scn 5 a where x",
                // The library shows the alias first.
                "SELECT * FROM t a FOR SYSTEM_TIME AS OF '$scn' = 5 WHERE x",
            ),
            (
                "select 1 from s.t as of timestamp systimestamp - interval '5' minute, u",
                "SELECT 1 FROM s.t FOR SYSTEM_TIME AS OF '$timestamp' = systimestamp - \
                 INTERVAL '5' MINUTE, u",
            ),
            ("select 1 from t at", "SELECT 1 FROM t at"),
        ] {
            let Parsed::Sql(ast) = parse_single(text).unwrap().parsed else { panic!("{text}") };
            assert_eq!(ast.to_string(), read);
        }
    }

    #[test]
    fn names_say_what_they_are_read_as_of() {
        assert_eq!(of_name(&name_of(3, "a:b")), Some((3, "a:b")));
        assert_eq!((of_name("t"), of_name("$as_of_x:t")), (None, None));
    }
}
