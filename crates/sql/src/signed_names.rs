//! Names that end in `#`, as the field's columns have them.
//!
//! What it promises: such a name is read without quotes. What it must never do: take an operator of
//! PostgreSQL's away from two operands that stand beside it.

use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// `serial#`, as the field names columns: a word and the sign behind it are one name, unless what
/// stands right behind them says that it is the operator (`a#b`).
pub(crate) fn with_signed_names(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| begins_with_sign(&t.token)) {
        return tokens;
    }
    let mut out: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut tokens = tokens.into_iter();
    while let Some(token) = tokens.next() {
        let mut behind = tokens.as_slice().iter().map(|next| &next.token);
        let next = behind.clone().next();
        let (rest, operand) = match &token.token {
            Token::HashArrow => {
                // Right behind it stands what PostgreSQL's operator takes, if it is no number.
                let close = |token: &Token| {
                    !matches!(token, Token::Whitespace(_) | Token::Number(..) | Token::Minus)
                };
                let path = behind.find(|token| !matches!(token, Token::Whitespace(_)));
                let is_path = next.is_none_or(close) || path.is_none_or(begins_path);
                (Some(&[Token::Gt][..]), is_path)
            }
            Token::Sharp => (Some(&[][..]), next.is_some_and(begins_operand)),
            Token::CustomBinaryOperator(operator) => (behind_sign(operator), false),
            _ => (None, true),
        };
        let before = out.last_mut().filter(|before| before.span.end == token.span.start);
        if let (Some(before), Some(rest), false) = (before, rest, operand)
            && takes_sign(&mut before.token)
        {
            let mut span = token.span;
            span.start.column += 1;
            before.span.end = span.start;
            out.extend(rest.iter().cloned().map(|token| TokenWithSpan { token, span }));
        } else {
            out.push(token);
        }
    }
    out
}

/// Makes the sign a part of a name; false: it is none, or stands in quotes.
fn takes_sign(name: &mut Token) -> bool {
    let Token::Word(word) = &*name else { return false };
    if word.quote_style.is_some() {
        return false;
    }
    *name = Token::make_word(&format!("{}#", word.value.to_lowercase()), Some('"'));
    true
}

fn begins_with_sign(token: &Token) -> bool {
    match token {
        Token::Sharp | Token::HashArrow => true,
        Token::CustomBinaryOperator(operator) => operator.starts_with('#'),
        _ => false,
    }
}

/// What stands right behind an operator.
fn begins_operand(token: &Token) -> bool {
    matches!(
        token,
        Token::Word(_)
            | Token::Number(..)
            | Token::SingleQuotedString(_)
            | Token::Placeholder(_)
            | Token::LParen
            | Token::Minus
    )
}

/// What stands behind `#>` where it is PostgreSQL's operator on documents.
fn begins_path(token: &Token) -> bool {
    match token {
        Token::SingleQuotedString(_)
        | Token::EscapedStringLiteral(_)
        | Token::NationalStringLiteral(_)
        | Token::DollarQuotedString(_)
        | Token::Placeholder(_) => true,
        Token::Word(word) => word.quote_style.is_none() && word.keyword == Keyword::ARRAY,
        _ => false,
    }
}

/// `file#=4` is read with one operator: what stands behind the sign, if PostgreSQL has no operator
/// of that name.
fn behind_sign(operator: &str) -> Option<&'static [Token]> {
    Some(match operator.strip_prefix('#')? {
        "=" => &[Token::Eq],
        "=-" => &[Token::Eq, Token::Minus],
        "<" => &[Token::Lt],
        "<-" => &[Token::Lt, Token::Minus],
        "<=" => &[Token::LtEq],
        ">-" => &[Token::Gt, Token::Minus],
        ">=" => &[Token::GtEq],
        "<>" | "!=" => &[Token::Neq],
        "||" => &[Token::StringConcat],
        "+" => &[Token::Plus],
        "*" => &[Token::Mul],
        "/" => &[Token::Div],
        "%" => &[Token::Mod],
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::OwnDialect;
    use datafusion::sql::sqlparser::tokenizer::Tokenizer;

    #[test]
    fn a_sign_belongs_to_the_name_before_it_unless_an_operand_follows() {
        let read = |text: &str| {
            let dialect = OwnDialect::default();
            let tokens = Tokenizer::new(&dialect, text).tokenize_with_location().unwrap();
            with_signed_names(tokens).iter().map(|t| t.token.to_string()).collect::<String>()
        };
        for (text, as_read) in [
            ("select Serial# from v", "select \"serial#\" from v"),
            ("s.serial#, 1", "s.\"serial#\", 1"),
            ("file#=4", "\"file#\"=4"),
            ("file#>=4", "\"file#\">=4"),
            ("total_wait#>0", "\"total_wait#\">0"),
            ("a.wait#> b", "a.\"wait#\"> b"),
            ("wait#>-1", "\"wait#\">-1"),
            ("wait#<5", "\"wait#\"<5"),
            ("sid||','||serial#||';'", "sid||','||\"serial#\"||';'"),
            ("block#*8", "\"block#\"*8"),
            ("file#=-1", "\"file#\"=-1"),
            ("(a.b#)", "(a.\"b#\")"),
            ("file#<>4", "\"file#\"<>4"),
            ("serial#", "\"serial#\""),
            ("a#b", "a#b"),
            ("a # b", "a # b"),
            ("5#3", "5#3"),
            ("a#-1", "a#-1"),
            ("doc#>'{a}'", "doc#>'{a}'"),
            ("doc#> array['a']", "doc#> array['a']"),
            ("doc #> path", "doc #> path"),
            ("doc#>>'{a}'", "doc#>>'{a}'"),
        ] {
            assert_eq!(read(text), as_read, "{text}");
        }
    }
}
