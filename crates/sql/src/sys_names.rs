//! Names that the field writes with the schema of its own things, or as its dictionary has them.
//!
//! What it promises: `sys.dual`, `sys.dbms_..` and `v_$session` are `dual`, `dbms_..` and
//! `v$session`. What it must never do: touch a name in quotes.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

/// Whether a name behind `sys.` is known without it: the field's packages, and `dual`.
pub(crate) fn is_of_sys(name: &str) -> bool {
    let begins =
        |prefix: &str| name.get(..prefix.len()).is_some_and(|own| own.eq_ignore_ascii_case(prefix));
    name.eq_ignore_ascii_case("dual") || begins("dbms_")
}

/// `sys.dual` as `dual`, and `v_$session` as `v$session`.
pub(crate) fn without_sys(tokens: &mut Vec<TokenWithSpan>) {
    let mut sys = Vec::new();
    for at in 0..tokens.len() {
        let Token::Word(word) = &mut tokens[at].token else { continue };
        if word.quote_style.is_some() {
            continue;
        }
        let letters = word.value.as_bytes();
        let view = match letters {
            [b'g' | b'G', b'v' | b'V', b'_', b'$', ..] => Some(2),
            [b'v' | b'V', b'_', b'$', ..] => Some(1),
            _ => None,
        };
        if let Some(underline) = view {
            word.value.remove(underline);
        } else if word.value.eq_ignore_ascii_case("sys")
            && let Some([dot, name]) = tokens.get(at + 1..at + 3)
            && dot.token == Token::Period
            && matches!(&name.token, Token::Word(name) if is_of_sys(&name.value))
            && (at == 0 || tokens[at - 1].token != Token::Period)
        {
            sys.push(at);
        }
    }
    for at in sys.into_iter().rev() {
        tokens.drain(at..at + 2);
    }
}
