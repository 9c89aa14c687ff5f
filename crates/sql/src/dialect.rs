//! PostgreSQL's dialect, without two traits of the parser's. It reads each argument of a function
//! twice, once as the name of a named argument, so that nested calls cost twice as much with each
//! level; a name is an identifier in PostgreSQL, and is read as one. And it takes all that follows
//! IS DISTINCT FROM for its right side, AND and OR included.

use std::any::TypeId;

use crate::parse::REVERSE;
use datafusion::sql::sqlparser::ast::{BinaryOperator, ColumnOption, Expr, UnaryOperator};
use datafusion::sql::sqlparser::dialect::{Dialect, PostgreSqlDialect, Precedence};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The dialect that statements are read in.
#[derive(Debug, Default)]
pub(crate) struct OwnDialect {
    /// `a JOIN b JOIN c ON .. ON ..` is read as PostgreSQL does. The parser would take what follows
    /// a NATURAL JOIN for a part of it: where that word is, such joins need parentheses.
    joins_nest: bool,
    /// `t FOR SYSTEM_TIME AS OF x` is read, which the field's `as of` is put into. Elsewhere what
    /// begins such clauses may be an alias.
    past: bool,
}

impl OwnDialect {
    /// The dialect for a statement.
    pub(crate) fn of(tokens: &[TokenWithSpan]) -> OwnDialect {
        let natural = |token: &TokenWithSpan| match &token.token {
            Token::Word(word) => word.keyword == Keyword::NATURAL,
            _ => false,
        };
        let past = crate::idioms::past::is_asked_for(tokens);
        OwnDialect { joins_nest: !tokens.iter().any(natural), past }
    }
}

/// `value BETWEEN low AND high`, in brackets.
fn within(value: &Expr, low: &Expr, high: &Expr) -> Expr {
    let compare = |op, bound: &Expr| Expr::BinaryOp {
        left: Box::new(value.clone()),
        op,
        right: Box::new(bound.clone()),
    };
    Expr::Nested(Box::new(Expr::BinaryOp {
        left: Box::new(compare(BinaryOperator::GtEq, low)),
        op: BinaryOperator::And,
        right: Box::new(compare(BinaryOperator::LtEq, high)),
    }))
}

impl OwnDialect {
    /// `BETWEEN SYMMETRIC`, which PostgreSQL too reads as two ranges, and `BETWEEN ASYMMETRIC`.
    fn between(&self, parser: &mut Parser<'_>, value: &Expr) -> Option<Result<Expr, ParserError>> {
        const FORMS: [(&[Keyword], bool, bool); 4] = [
            (&[Keyword::BETWEEN, Keyword::SYMMETRIC], false, true),
            (&[Keyword::BETWEEN, Keyword::ASYMMETRIC], false, false),
            (&[Keyword::NOT, Keyword::BETWEEN, Keyword::SYMMETRIC], true, true),
            (&[Keyword::NOT, Keyword::BETWEEN, Keyword::ASYMMETRIC], true, false),
        ];
        let (_, negated, symmetric) =
            FORMS.into_iter().find(|(words, ..)| parser.parse_keywords(words))?;
        let precedence = self.prec_value(Precedence::Between);
        let mut bounds = || {
            let low = parser.parse_subexpr(precedence)?;
            parser.expect_keyword_is(Keyword::AND)?;
            Ok((low, parser.parse_subexpr(precedence)?))
        };
        let (low, high) = match bounds() {
            Ok(bounds) => bounds,
            Err(error) => return Some(Err(error)),
        };
        if !symmetric {
            let expr = Box::new(value.clone());
            let (low, high) = (Box::new(low), Box::new(high));
            return Some(Ok(Expr::Between { expr, negated, low, high }));
        }
        let either = Expr::Nested(Box::new(Expr::BinaryOp {
            left: Box::new(within(value, &low, &high)),
            op: BinaryOperator::Or,
            right: Box::new(within(value, &high, &low)),
        }));
        Some(Ok(match negated {
            true => Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(either) },
            false => either,
        }))
    }
}

/// Words of other databases' clauses, which PostgreSQL has none of: names as others.
fn is_plain(word: Keyword) -> bool {
    matches!(
        word,
        Keyword::CLUSTER | Keyword::DISTRIBUTE | Keyword::SORT | Keyword::TOP | Keyword::VIEW
    )
}

const LIKE: PostgreSqlDialect = PostgreSqlDialect {};

/// Answers as PostgreSQL's dialect does.
macro_rules! as_postgresql {
    ($($name:ident),+ $(,)?) => {
        $(fn $name(&self) -> bool {
            LIKE.$name()
        })+
    };
}

impl Dialect for OwnDialect {
    fn dialect(&self) -> TypeId {
        LIKE.dialect()
    }

    fn supports_named_fn_args_with_expr_name(&self) -> bool {
        false
    }

    /// The field's `column(+)`.
    fn supports_outer_join_operator(&self) -> bool {
        true
    }

    /// The field's `q'[it's]'`.
    fn supports_quote_delimited_string(&self) -> bool {
        true
    }

    fn supports_table_versioning(&self) -> bool {
        self.past
    }

    fn supports_left_associative_joins_without_parens(&self) -> bool {
        !self.joins_nest
    }

    fn identifier_quote_style(&self, identifier: &str) -> Option<char> {
        LIKE.identifier_quote_style(identifier)
    }

    fn is_delimited_identifier_start(&self, ch: char) -> bool {
        LIKE.is_delimited_identifier_start(ch)
    }

    fn is_identifier_start(&self, ch: char) -> bool {
        LIKE.is_identifier_start(ch)
    }

    fn is_identifier_part(&self, ch: char) -> bool {
        LIKE.is_identifier_part(ch)
    }

    fn is_reserved_for_identifier(&self, word: Keyword) -> bool {
        LIKE.is_reserved_for_identifier(word)
    }

    fn is_column_alias(&self, word: &Keyword, parser: &mut Parser<'_>) -> bool {
        // What a row without FROM is followed by in INSERT .. ON CONFLICT.
        *word != Keyword::ON && (is_plain(*word) || LIKE.is_column_alias(word, parser))
    }

    fn is_table_alias(&self, word: &Keyword, parser: &mut Parser<'_>) -> bool {
        is_plain(*word) || LIKE.is_table_alias(word, parser)
    }

    fn is_custom_operator_part(&self, ch: char) -> bool {
        LIKE.is_custom_operator_part(ch)
    }

    fn get_next_precedence(&self, parser: &Parser<'_>) -> Option<Result<u8, ParserError>> {
        LIKE.get_next_precedence(parser)
    }

    fn prec_value(&self, precedence: Precedence) -> u8 {
        LIKE.prec_value(precedence)
    }

    /// `USING method`, of the index of the constraint before it.
    fn parse_column_option(
        &self,
        parser: &mut Parser<'_>,
    ) -> Result<Option<Result<Option<ColumnOption>, ParserError>>, ParserError> {
        let method = parser.peek_nth_token(1).token;
        let turned =
            matches!(&method, Token::Word(word) if word.value.eq_ignore_ascii_case(REVERSE));
        if !turned || !parser.parse_keyword(Keyword::USING) {
            return Ok(None);
        }
        parser.advance_token();
        Ok(Some(Ok(Some(ColumnOption::DialectSpecific(vec![method])))))
    }

    fn parse_infix(
        &self,
        parser: &mut Parser<'_>,
        left: &Expr,
        _precedence: u8,
    ) -> Option<Result<Expr, ParserError>> {
        if let Some(between) = self.between(parser, left) {
            return Some(between);
        }
        let is_not = [Keyword::IS, Keyword::NOT, Keyword::DISTINCT, Keyword::FROM];
        let form = if parser.parse_keywords(&[Keyword::IS, Keyword::DISTINCT, Keyword::FROM]) {
            Expr::IsDistinctFrom
        } else if parser.parse_keywords(&is_not) {
            Expr::IsNotDistinctFrom
        } else {
            return None;
        };
        let right = parser.parse_subexpr(self.prec_value(Precedence::Is));
        Some(right.map(|right| form(Box::new(left.clone()), Box::new(right))))
    }

    as_postgresql! {
        supports_unicode_string_literal,
        supports_filter_during_aggregation,
        supports_group_by_expr,
        allow_extract_custom,
        allow_extract_single_quotes,
        supports_create_index_with_clause,
        supports_explain_with_utility_options,
        supports_listen_notify,
        supports_factorial_operator,
        supports_bitwise_shift_operators,
        supports_comment_on,
        supports_load_extension,
        supports_named_fn_args_with_colon_operator,
        supports_empty_projections,
        supports_nested_comments,
        supports_string_escape_constant,
        supports_numeric_literal_underscores,
        supports_array_typedef_with_brackets,
        supports_geometric_types,
        supports_set_names,
        supports_alter_column_type_using,
        supports_notnull_operator,
        supports_interval_options,
        supports_insert_table_alias,
        supports_create_table_like_parenthesized,
        supports_select_wildcard_with_alias,
        supports_comma_separated_trim,
        supports_xml_expressions,
        supports_comment_optimizer_hint,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nested_calls_are_read_in_time_that_grows_with_their_depth() {
        // Read twice at each level, forty levels would take longer than anybody lives.
        let text = format!("{}1{}", "abs(".repeat(40), ")".repeat(40));
        let parsed = Parser::new(&OwnDialect::default())
            .try_with_sql(&text)
            .and_then(|mut p| p.parse_expr());
        assert_eq!(parsed.map(|e| e.to_string()), Ok(text));
    }

    #[test]
    fn is_distinct_from_binds_closer_than_and_and_or() {
        for form in ["IS DISTINCT FROM", "IS NOT DISTINCT FROM"] {
            let text = format!("a {form} b + 1 AND c {form} d OR e");
            let dialect = OwnDialect::default();
            let parser = Parser::new(&dialect).try_with_sql(&text);
            let parsed = parser.and_then(|mut p| p.parse_expr()).expect("an expression");
            let Expr::BinaryOp { left, right, .. } = parsed else { panic!("{parsed:?}") };
            let sides = (left.to_string(), right.to_string());
            assert_eq!(sides, (format!("a {form} b + 1 AND c {form} d"), "e".to_owned()));
        }
    }

    #[test]
    fn named_arguments_are_read() {
        let text = "f(a => 1, b := 2)";
        let parsed =
            Parser::new(&OwnDialect::default()).try_with_sql(text).and_then(|mut p| p.parse_expr());
        assert_eq!(parsed.map(|e| e.to_string()), Ok(text.to_owned()));
    }
}
