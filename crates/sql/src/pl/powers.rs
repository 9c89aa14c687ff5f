//! `a ** b` of the field's expressions, which SQL has as a function.
//!
//! What it promises: it binds tighter than a sign before it and than `*`, from left to right; the
//! result is a numeric, as numbers of the field are. What it must never do: touch a statement of
//! SQL, where the field has no such operator.

use super::lex::Tok;
use super::parse::Parser;
use std::ops::Range;

/// Pieces of the code's text that are written otherwise: where each begins, of how many bytes it
/// is, and what stands there instead.
#[derive(Default)]
pub(super) struct Rewritten(Vec<(usize, usize, &'static str)>);

impl Rewritten {
    /// Goes on with a stretch of the text.
    pub(super) fn copy(&self, out: &mut String, text: &str, stretch: Range<usize>) {
        let mut copied = stretch.start;
        for (at, len, put) in &self.0 {
            if *at >= stretch.start && at + len <= stretch.end {
                out.push_str(&text[copied..*at]);
                out.push_str(put);
                copied = at + len;
            }
        }
        out.push_str(&text[copied..stretch.end]);
    }
}

/// Words of expressions that are no function's name.
fn is_keyword(word: &str) -> bool {
    const WORDS: [&str; 15] = [
        "and", "or", "not", "in", "like", "between", "is", "case", "when", "then", "else", "end",
        "if", "while", "return",
    ];
    WORDS.contains(&word)
}

impl Parser<'_> {
    /// What of these words of an expression is written otherwise.
    pub(super) fn powers(&self, part: &Range<usize>) -> Rewritten {
        // Where the left side of each begins, by the place of its sign.
        let mut found: Vec<(usize, usize)> = Vec::new();
        let mut edits = Vec::new();
        for at in part.clone() {
            if !self.is_power(at) || at + 2 >= part.end {
                continue;
            }
            let Some(mut left) = self.operand_before(at, part.start) else { continue };
            let Some(end) = self.operand_behind(at + 2, part.end) else { continue };
            // The right side of the one before, with its sign.
            let known = |back: usize| {
                let sign = left.checked_sub(back)?;
                found.iter().find(|(known, _)| *known == sign).map(|(_, begin)| *begin)
            };
            let is_signed = left > 0 && self.is_sign(left - 1);
            if let Some(begin) = known(2).or_else(|| known(3).filter(|_| is_signed)) {
                left = begin;
            }
            found.push((at, left));
            edits.push((self.tokens[left].at, 0, "power(("));
            edits.push((self.tokens[at].at, 2, ")::numeric,"));
            edits.push((self.tokens[end - 1].end, 0, ")"));
        }
        edits.sort_by_key(|(at, ..)| *at);
        Rewritten(edits)
    }

    fn is_power(&self, at: usize) -> bool {
        let star = |at: usize| self.tokens.get(at).filter(|token| token.tok == Tok::Other('*'));
        star(at).zip(star(at + 1)).is_some_and(|(first, second)| first.end == second.at)
    }

    fn is_sign(&self, at: usize) -> bool {
        matches!(self.tokens[at].tok, Tok::Symbol("-") | Tok::Other('+'))
    }

    fn is_name(&self, at: usize) -> bool {
        match &self.tokens[at].tok {
            Tok::Word(word) => !is_keyword(word),
            Tok::Quoted(_) => true,
            _ => false,
        }
    }

    /// Where the value begins that ends before a place.
    fn operand_before(&self, place: usize, from: usize) -> Option<usize> {
        let mut at = place.checked_sub(1).filter(|at| *at >= from)?;
        if matches!(self.tokens[at].tok, Tok::Number | Tok::Text(_)) {
            return Some(at);
        }
        loop {
            if self.tokens[at].tok == Tok::Symbol(")") {
                at = self.open_of(at, from)?;
                // A function's or a collection's, or a value in brackets.
                match at.checked_sub(1).filter(|name| *name >= from) {
                    Some(name) if self.is_name(name) => at = name,
                    Some(close) if self.tokens[close].tok == Tok::Symbol(")") => {
                        at = close;
                        continue;
                    }
                    _ => return Some(at),
                }
            } else if !self.is_name(at) {
                return None;
            }
            let dotted =
                at >= from + 2 && matches!(self.tokens[at - 1].tok, Tok::Symbol("." | "%"));
            if !dotted {
                return Some(at);
            }
            at -= 2;
        }
    }

    /// Where the parenthesis opens that closes here.
    fn open_of(&self, close: usize, from: usize) -> Option<usize> {
        let mut open = 0_usize;
        for at in (from..=close).rev() {
            match self.tokens[at].tok {
                Tok::Symbol(")" | "]") => open += 1,
                Tok::Symbol("(" | "[") => {
                    open -= 1;
                    if open == 0 {
                        return Some(at);
                    }
                }
                _ => {}
            }
        }
        None
    }

    /// The place behind the value that begins here, which may have a sign.
    fn operand_behind(&self, from: usize, end: usize) -> Option<usize> {
        let at = from + usize::from(self.is_sign(from));
        if at >= end {
            return None;
        }
        let behind = match &self.tokens[at].tok {
            Tok::Number | Tok::Text(_) => at + 1,
            Tok::Symbol("(") => self.close_of(at)? + 1,
            Tok::Word(word) if word == "case" => self.end_of_case(&(at..end))? + 1,
            _ if self.is_name(at) => at + self.access_len(at, end),
            _ => return None,
        };
        (behind <= end).then_some(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::Dialect;
    use super::*;

    fn rewritten(text: &str) -> String {
        let parser = Parser::new(text, Dialect::Field).expect("words");
        let words = 0..parser.tokens.len() - 1;
        let mut out = String::new();
        parser.powers(&words).copy(&mut out, text, 0..text.len());
        out
    }

    #[test]
    fn operands_are_single_values() {
        for (text, wanted) in [
            ("2 ** 10", "power((2 )::numeric, 10)"),
            ("-2**2 * 3", "-power((2)::numeric,2) * 3"),
            ("2**3**4", "power((power((2)::numeric,3))::numeric,4)"),
            ("2**-3**4", "power((power((2)::numeric,-3))::numeric,4)"),
            ("a.b**(c + d**2)", "power((a.b)::numeric,(c + power((d)::numeric,2)))"),
            ("1 + f(x, 2)(3).y**g(1) - 1", "1 + power((f(x, 2)(3).y)::numeric,g(1)) - 1"),
            ("a and (b)**2 > 1", "a and power(((b))::numeric,2) > 1"),
            ("a * b", "a * b"),
            ("2 ** ", "2 ** "),
        ] {
            assert_eq!(rewritten(text), wanted, "{text}");
        }
    }
}
