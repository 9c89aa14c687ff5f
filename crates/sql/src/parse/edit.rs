//! The tokens of a statement, changed here and there.
//!
//! What it promises: what is not touched stays where it stands, with its place in the text.

use super::{Token, TokenWithSpan, is_space, is_word};
use datafusion::sql::sqlparser::tokenizer::{Span, Whitespace};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A statement of which tokens go and others come. Places are counted without the blanks.
pub(super) struct Edit<'a> {
    tokens: &'a [TokenWithSpan],
    used: Vec<usize>,
    gone: BTreeSet<usize>,
    /// What comes before a place.
    put: BTreeMap<usize, Vec<Token>>,
}

impl<'a> Edit<'a> {
    pub(super) fn new(tokens: &'a [TokenWithSpan]) -> Edit<'a> {
        let shown = |token: &Token| !is_space(token) && *token != Token::SemiColon;
        let used = (0..tokens.len()).filter(|at| shown(&tokens[*at].token)).collect();
        Edit { tokens, used, gone: BTreeSet::new(), put: BTreeMap::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.used.len()
    }

    pub(super) fn token(&self, n: usize) -> Option<&'a Token> {
        self.used.get(n).map(|at| &self.tokens[*at].token)
    }

    pub(super) fn is(&self, n: usize, word: &str) -> bool {
        self.token(n).is_some_and(|token| is_word(token, word))
    }

    pub(super) fn any(&self, n: usize, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(n, word))
    }

    /// These words, one after the other.
    pub(super) fn all(&self, n: usize, words: &[&str]) -> bool {
        words.iter().enumerate().all(|(i, word)| self.is(n + i, word))
    }

    pub(super) fn sign(&self, n: usize, sign: &Token) -> bool {
        self.token(n) == Some(sign)
    }

    pub(super) fn open(&self, n: usize) -> bool {
        self.sign(n, &Token::LParen)
    }

    pub(super) fn name(&self, n: usize) -> bool {
        matches!(self.token(n), Some(Token::Word(_)))
    }

    pub(super) fn number(&self, n: usize) -> bool {
        matches!(self.token(n), Some(Token::Number(..)))
    }

    /// The place behind a name that may have parts.
    pub(super) fn behind_name(&self, n: usize) -> usize {
        let mut end = n + 1;
        while self.sign(end, &Token::Period) && self.name(end + 1) {
            end += 2;
        }
        end
    }

    /// The bracket that closes the one at a place.
    pub(super) fn closing(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for n in open..self.len() {
            depth += usize::from(self.open(n));
            if self.sign(n, &Token::RParen) {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(n);
                }
            }
        }
        None
    }

    /// The bracket that the one at a place closes.
    pub(super) fn opening(&self, close: usize) -> Option<usize> {
        let mut depth = 0usize;
        for n in (0..=close).rev() {
            depth += usize::from(self.sign(n, &Token::RParen));
            if self.open(n) {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(n);
                }
            }
        }
        None
    }

    /// The parts of a range that commas outside of brackets part.
    pub(super) fn parts(&self, range: Range<usize>) -> Vec<Range<usize>> {
        let (mut depth, mut from, mut out) = (0usize, range.start, Vec::new());
        for n in range.clone() {
            depth += usize::from(self.open(n));
            depth -= usize::from(depth > 0 && self.sign(n, &Token::RParen));
            if depth == 0 && self.sign(n, &Token::Comma) {
                out.push(from..n);
                from = n + 1;
            }
        }
        out.push(from..range.end);
        out
    }

    pub(super) fn remove(&mut self, range: Range<usize>) {
        self.gone.extend(range);
    }

    pub(super) fn insert(&mut self, before: usize, words: impl IntoIterator<Item = Token>) {
        self.put.entry(before).or_default().extend(words);
    }

    pub(super) fn replace(&mut self, n: usize, words: impl IntoIterator<Item = Token>) {
        self.insert(n, words);
        self.gone.insert(n);
    }

    /// The tokens of a range as they were.
    pub(super) fn cut(&self, range: Range<usize>) -> Vec<Token> {
        range.filter_map(|n| self.token(n).cloned()).collect()
    }

    /// The text of a range.
    pub(super) fn text(&self, range: Range<usize>) -> String {
        let words: Vec<String> = self.cut(range).iter().map(ToString::to_string).collect();
        words.join(" ")
    }

    /// The statement with its changes; `None`: there are none.
    pub(super) fn done(self) -> Option<Vec<TokenWithSpan>> {
        if self.gone.is_empty() && self.put.is_empty() {
            return None;
        }
        let mut out = Vec::with_capacity(self.tokens.len() + 8);
        let mut n = 0;
        let put = |n: usize, at: usize, out: &mut Vec<TokenWithSpan>| {
            // Places behind the end come before the last token, which is no word.
            let span = self.tokens[at.min(self.tokens.len() - 1)].span;
            for token in self.put.get(&n).into_iter().flatten() {
                let space = Token::Whitespace(Whitespace::Space);
                out.push(TokenWithSpan { token: space.clone(), span });
                out.push(TokenWithSpan { token: token.clone(), span });
                out.push(TokenWithSpan { token: space, span });
            }
        };
        let last = self.used.last().copied();
        for (at, token) in self.tokens.iter().enumerate() {
            if self.used.get(n) == Some(&at) {
                put(n, at, &mut out);
                if !self.gone.contains(&n) {
                    out.push(token.clone());
                }
                n += 1;
                if last == Some(at) {
                    put(n, at, &mut out);
                }
                continue;
            }
            out.push(token.clone());
        }
        Some(out)
    }
}

/// Words of a text as tokens.
pub(super) fn words(text: &str) -> Vec<Token> {
    text.split(' ').map(Token::make_keyword).collect()
}

/// The field's `q'[it's]'` as a plain text.
pub(super) fn with_plain_texts(mut tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    for token in &mut tokens {
        if let Token::QuoteDelimitedStringLiteral(text)
        | Token::NationalQuoteDelimitedStringLiteral(text) = &mut token.token
        {
            token.token = Token::SingleQuotedString(std::mem::take(&mut text.value));
        }
    }
    tokens
}

/// What an operator is that the library reads together with the sign of what follows (`x>-1`), and
/// that sign. PostgreSQL parts those of `+ - * / < > =` alone in the same way; `'x'||-1` it reads
/// with one operator that it does not have: the field joins, and what is joined has a sign.
fn with_sign(token: &Token) -> Option<(Token, u64, Token)> {
    let Token::CustomBinaryOperator(whole) = token else { return None };
    let (operator, sign) = match whole.strip_suffix('-') {
        Some(operator) => (operator, Token::Minus),
        None => (whole.strip_suffix('+')?, Token::Plus),
    };
    let parted = match operator {
        "||" => Token::StringConcat,
        "<>" | "!=" => Token::Neq,
        ">=" => Token::GtEq,
        "<=" => Token::LtEq,
        ">" => Token::Gt,
        "<" => Token::Lt,
        "=" => Token::Eq,
        "*" => Token::Mul,
        "/" => Token::Div,
        "->" => Token::Arrow,
        "->>" => Token::LongArrow,
        _ => return None,
    };
    Some((parted, operator.len() as u64, sign))
}

/// Operators that stand right before a sign are read without it.
pub(super) fn with_signs_apart(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    if !tokens.iter().any(|t| with_sign(&t.token).is_some()) {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() + 4);
    for whole in tokens {
        let Some((operator, columns, sign)) = with_sign(&whole.token) else {
            out.push(whole);
            continue;
        };
        let Span { start, end } = whole.span;
        let mut middle = start;
        middle.column += columns;
        out.push(TokenWithSpan { token: operator, span: Span { start, end: middle } });
        out.push(TokenWithSpan { token: sign, span: Span { start: middle, end } });
    }
    out
}
