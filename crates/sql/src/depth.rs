//! How deep an expression will become, told from its tokens.
//!
//! What for: `1 + 1 + 1 + …` is read in a loop and becomes a tree as deep as it is long, which the
//! parser's own limit on nesting does not see. Everything that walks the tree, and even what frees
//! it, goes down as deep on the session's stack; a stack that overflows ends the whole instance.
//!
//! What it promises: a text that passes fits a session's stack, whatever it says; it never refuses
//! lists, however long: operators between two commas are counted on their own.

use crate::{PgError, Result};
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// The sum of weights up to which a statement was measured to need half a session's stack.
const WEIGHT_MAX: u32 = 3000;

/// Brackets, CASE, signs and joins in one another. The parser gives up at a little more, but not
/// always with an error that says so.
const NESTING_MAX: u32 = 90;

/// Of one more table to join.
const JOIN_WEIGHT: u32 = 10;

fn keyword(token: &Token) -> Keyword {
    match token {
        Token::Word(word) if word.quote_style.is_none() => word.keyword,
        _ => Keyword::NoKeyword,
    }
}

/// How much stack one more level of this kind takes, in steps of those of AND.
fn weight(token: &Token) -> u32 {
    match token {
        Token::Word(_) => match keyword(token) {
            Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS => 8,
            Keyword::JOIN => JOIN_WEIGHT,
            Keyword::AND | Keyword::OR => 1,
            Keyword::IS
            | Keyword::IN
            | Keyword::NOT
            | Keyword::LIKE
            | Keyword::ILIKE
            | Keyword::SIMILAR
            | Keyword::BETWEEN
            | Keyword::COLLATE
            | Keyword::OPERATOR
            | Keyword::AT => 4,
            _ => 0,
        },
        Token::Number(..)
        | Token::Char(_)
        | Token::SingleQuotedString(_)
        | Token::DollarQuotedString(_)
        | Token::NationalStringLiteral(_)
        | Token::EscapedStringLiteral(_)
        | Token::UnicodeStringLiteral(_)
        | Token::HexStringLiteral(_)
        | Token::Placeholder(_)
        | Token::Whitespace(_)
        | Token::Period
        | Token::SemiColon
        | Token::EOF => 0,
        _ => 4,
    }
}

/// Whether a comma before or after it belongs to one of the queries or tables that it joins.
fn joins_queries(keyword: Keyword) -> bool {
    matches!(
        keyword,
        Keyword::UNION | Keyword::INTERSECT | Keyword::EXCEPT | Keyword::MINUS | Keyword::JOIN
    )
}

/// Weights between two brackets.
#[derive(Default)]
struct Level {
    operators: u32,
    queries: u32,
    /// Commas part tables.
    in_from: bool,
    /// CASEs without their END, and what was nested outside.
    cases: u32,
    nested: u32,
    /// Joins whose condition is still to come: each next one stands in them.
    joins: u32,
    /// Of the join begun by NATURAL or CROSS, which has none.
    without_condition: bool,
}

impl Level {
    /// Joins take twice the stack that brackets take.
    fn depth(&self) -> u32 {
        self.nested + self.cases + 2 * self.joins
    }

    fn see(&mut self, word: Keyword) {
        match word {
            Keyword::CASE => self.cases += 1,
            Keyword::END => self.cases = self.cases.saturating_sub(1),
            Keyword::NATURAL | Keyword::CROSS => self.without_condition = true,
            Keyword::JOIN if self.without_condition => self.without_condition = false,
            Keyword::JOIN => self.joins += 1,
            Keyword::ON | Keyword::USING => self.joins = self.joins.saturating_sub(1),
            Keyword::SELECT => self.joins = 0,
            _ => {}
        }
    }
}

/// Refuses a statement whose tree would be too deep.
///
/// # Errors
/// 54001.
pub(crate) fn check(tokens: &[TokenWithSpan]) -> Result<()> {
    let mut outer: Vec<Level> = Vec::new();
    let (mut sum, mut here) = (0, Level::default());
    let mut before = Keyword::NoKeyword;
    // Signs and NOTs in a row, each of which stands in the one before.
    let mut signs = 0;
    for token in tokens.iter().map(|t| &t.token) {
        match token {
            Token::Whitespace(_) => {}
            Token::Minus | Token::Plus | Token::Tilde => signs += 1,
            other => match keyword(other) {
                Keyword::NOT => signs += 1,
                word => {
                    signs = 0;
                    here.see(word);
                }
            },
        }
        if here.depth() + signs > NESTING_MAX {
            return Err(PgError::new("54001", "stack depth limit exceeded"));
        }
        match token {
            Token::LParen | Token::LBracket | Token::LBrace => {
                let nested = here.depth() + 1;
                outer.push(std::mem::replace(&mut here, Level { nested, ..Level::default() }));
            }
            Token::RParen | Token::RBracket | Token::RBrace => {
                sum -= here.operators + here.queries;
                here = outer.pop().unwrap_or_default();
            }
            Token::Comma => {
                sum -= std::mem::take(&mut here.operators);
                if here.in_from {
                    here.queries += JOIN_WEIGHT;
                    sum += JOIN_WEIGHT;
                }
            }
            token => {
                let keyword = keyword(token);
                match keyword {
                    Keyword::FROM => here.in_from = before != Keyword::DISTINCT,
                    Keyword::WHERE | Keyword::GROUP | Keyword::ORDER | Keyword::SELECT => {
                        here.in_from = false;
                    }
                    _ => {}
                }
                if !matches!(token, Token::Whitespace(_)) {
                    before = keyword;
                }
                let weight = weight(token);
                let joins = joins_queries(keyword);
                *(if joins { &mut here.queries } else { &mut here.operators }) += weight;
                sum += weight;
            }
        }
        if sum > WEIGHT_MAX {
            return Err(PgError::new("54001", "stack depth limit exceeded").with_hint(
                "The expression has too many operators in a row; a list, as in \
                 IN (...) or VALUES, may be as long as you like.",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::OwnDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    fn passes(text: &str) -> bool {
        let tokens = Tokenizer::new(&OwnDialect::default(), text).tokenize_with_location().unwrap();
        check(&tokens).is_ok()
    }

    #[test]
    fn chains_are_bounded_and_lists_are_not() {
        let union = ("select 1, 2 union all ", 375);
        let (join, from) = (("cross join t ", 300), ("from t, ", 300));
        for (part, count) in [("1 + ", 750), ("x = 1 or ", 600), union, join, from] {
            assert!(passes(&part.repeat(count)), "{part}");
            assert!(!passes(&part.repeat(count + 1)), "{part}");
            assert!(!passes(&format!("select (1, ({}", part.repeat(count + 1))), "{part}");
        }
        assert!(passes(&format!("values {}", "(-1, 'a' || 'b'), ".repeat(20_000))));
        assert!(passes(&format!("x in ({})", "-1, ".repeat(20_000))));
        // Of two sums side by side only one is on the stack.
        let half = format!("({})", "1 + ".repeat(700));
        assert!(passes(&format!("{half} + {half} + {half}")));
        assert!(passes(")) ] }"));
        for (open, close) in
            [("(", ")"), ("case when true then ", " end"), ("not ", ""), ("- ", "")]
        {
            let nested = |count| format!("select {}1{}", open.repeat(count), close.repeat(count));
            assert!(passes(&nested(80)), "{open}");
            assert!(!passes(&nested(91)), "{open}");
        }
        assert!(passes(&"case when a then 1 else -1 end, not (b), ".repeat(20_000)));
        let joined = |count| {
            format!("select * from t {}{}", "join t ".repeat(count), "on true ".repeat(count))
        };
        assert!(passes(&joined(40)) && !passes(&joined(46)));
        assert!(passes(&format!("select * from t {}", "join t on true ".repeat(70))));
        assert!(passes(&format!("select * from t {}", "natural left join t ".repeat(70))));
        let list = "a is distinct from b, ".repeat(20_000);
        assert!(passes(&format!("select {list} 1 from t order by {list} 1")));
    }
}
