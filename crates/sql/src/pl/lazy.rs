//! Conditions and CASE in whose terms elements or functions of the block stand: these are worked
//! out before SQL runs, so AND, OR and CASE must be taken apart where they may leave one out.
//!
//! What it promises: `a.exists(i) and a(i) > 0` never looks for an element that is not there, and
//! a function may call itself in a branch of CASE. What it must never do: take apart what has
//! neither.

use super::elements::Typed;
use super::lex::Tok;
use super::parse::{Name, Parser};
use super::run::Machine;
use super::tree::{Access, Lazy, Sql, Use};
use crate::Result;
use futures::future::LocalBoxFuture;
use kernel::row::{ColType, TypeKind, Value};
use std::ops::Range;

impl Parser<'_> {
    /// Whether something in these words must be worked out before SQL runs.
    pub(super) fn has_accesses(&self, range: &Range<usize>) -> bool {
        if self.collections.is_empty() && self.routines.is_empty() {
            return false;
        }
        range.clone().any(|at| {
            let (Tok::Word(name) | Tok::Quoted(name)) = &self.tokens[at].tok else { return false };
            let behind_dot = at > 0 && self.tokens[at - 1].tok == Tok::Symbol(".");
            !behind_dot && matches!(self.lookup(name), Some(Name::Collection(_) | Name::Routine(_)))
        })
    }

    /// The expression of these words.
    pub(super) fn expression(&mut self, range: Range<usize>) -> Sql {
        if self.has_accesses(&range)
            && let Some(lazy) = self.lazy(range.clone())
        {
            return self.sql_of_use(Use::with(0, Access::Lazy(lazy)));
        }
        self.sql_of(&[range], false)
    }

    /// A use by itself.
    pub(super) fn sql_of_use(&mut self, used: Use) -> Sql {
        let mut sql = self.plain("$1".to_owned());
        sql.uses.push(used);
        sql
    }

    /// The words as a condition or CASE of which parts may be left out; `None`: they are none.
    pub(super) fn lazy(&mut self, mut range: Range<usize>) -> Option<Lazy> {
        while self.is_tok(range.start, "(") && self.close_of(range.start) == Some(range.end - 1) {
            range = range.start + 1..range.end - 1;
        }
        // A query's conditions are its own.
        if ["select", "with", "values"].iter().any(|word| self.is_word_at(range.start, word)) {
            return None;
        }
        for (word, is_or) in [("or", true), ("and", false)] {
            let parts = self.split(&range, word);
            if parts.len() > 1 && parts.iter().all(|part| !part.is_empty()) {
                let terms = parts.into_iter().map(|part| self.expression(part)).collect();
                return Some(if is_or { Lazy::Or(terms) } else { Lazy::And(terms) });
            }
        }
        if self.is_word_at(range.start, "case") && self.end_of_case(&range) == Some(range.end - 1) {
            return self.lazy_case(range.start + 1..range.end - 1);
        }
        None
    }

    fn is_tok(&self, at: usize, symbol: &str) -> bool {
        matches!(&self.tokens[at].tok, Tok::Symbol(s) if *s == symbol)
    }

    pub(super) fn is_word_at(&self, at: usize, word: &str) -> bool {
        matches!(&self.tokens[at].tok, Tok::Word(w) if w == word)
    }

    /// Where the parenthesis closes that opens here.
    pub(super) fn close_of(&self, at: usize) -> Option<usize> {
        let mut open = 0_usize;
        for (i, token) in self.tokens.iter().enumerate().skip(at) {
            match &token.tok {
                Tok::Symbol("(" | "[") => open += 1,
                Tok::Symbol(")" | "]") => {
                    open = open.checked_sub(1)?;
                    if open == 0 {
                        return Some(i);
                    }
                }
                Tok::End => return None,
                _ => {}
            }
        }
        None
    }

    /// Where the CASE ends that begins the range.
    pub(super) fn end_of_case(&self, range: &Range<usize>) -> Option<usize> {
        let mut depth = 0_usize;
        for at in range.clone() {
            if self.is_word_at(at, "case") {
                depth += 1;
            } else if self.is_word_at(at, "end") {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    return Some(at);
                }
            }
        }
        None
    }

    /// The parts between these words that stand outside of parentheses, CASE and BETWEEN.
    fn split(&self, range: &Range<usize>, word: &str) -> Vec<Range<usize>> {
        let (mut out, mut from) = (Vec::new(), range.start);
        let (mut open, mut cases, mut bounds) = (0_usize, 0_usize, 0_usize);
        for at in range.clone() {
            match &self.tokens[at].tok {
                Tok::Symbol("(" | "[") => open += 1,
                Tok::Symbol(")" | "]") => open = open.saturating_sub(1),
                Tok::Word(w) if w == "case" => cases += 1,
                Tok::Word(w) if w == "end" => cases = cases.saturating_sub(1),
                Tok::Word(_) if open > 0 || cases > 0 => {}
                Tok::Word(w) if w == "between" => bounds += 1,
                Tok::Word(w) if w == "and" && bounds > 0 => bounds -= 1,
                Tok::Word(w) if w == word => {
                    out.push(from..at);
                    from = at + 1;
                }
                _ => {}
            }
        }
        out.push(from..range.end);
        out
    }

    /// What is between CASE and END.
    fn lazy_case(&mut self, range: Range<usize>) -> Option<Lazy> {
        let mut places = Vec::new();
        let (mut open, mut cases) = (0_usize, 0_usize);
        for at in range.clone() {
            match &self.tokens[at].tok {
                Tok::Symbol("(" | "[") => open += 1,
                Tok::Symbol(")" | "]") => open = open.saturating_sub(1),
                Tok::Word(w) if w == "case" => cases += 1,
                Tok::Word(w) if w == "end" => cases = cases.saturating_sub(1),
                Tok::Word(w)
                    if open == 0
                        && cases == 0
                        && matches!(w.as_str(), "when" | "then" | "else") =>
                {
                    places.push((at, w.clone()));
                }
                _ => {}
            }
        }
        let first = places.first()?.0;
        let mut slot = 0;
        let operand = match first > range.start {
            true => {
                slot = self.new_slot();
                Some(Box::new(self.expression(range.start..first)))
            }
            false => None,
        };
        let end = |i: usize| places.get(i + 1).map_or(range.end, |(at, _)| *at);
        let (mut arms, mut otherwise, mut i) = (Vec::new(), None, 0);
        while i < places.len() {
            let (at, word) = &places[i];
            let part = *at + 1..end(i);
            if part.is_empty() {
                return None;
            }
            match word.as_str() {
                "when" => {
                    let then = places.get(i + 1).filter(|(_, word)| word == "then")?.0;
                    let result = then + 1..end(i + 1);
                    if result.is_empty() {
                        return None;
                    }
                    let mut test = self.expression(part);
                    if operand.is_some() {
                        test.uses.push(Use::of(slot));
                        test.text = format!("${} = ({})", test.uses.len(), test.text);
                    }
                    arms.push((test, self.expression(result)));
                    i += 2;
                }
                "else" if i + 1 == places.len() => {
                    otherwise = Some(self.expression(part));
                    i += 1;
                }
                _ => return None,
            }
        }
        Some(Lazy::Case { operand, slot, arms, otherwise })
    }
}

impl Machine<'_> {
    pub(super) fn run_lazy<'a>(&'a mut self, lazy: &'a Lazy) -> LocalBoxFuture<'a, Result<Typed>> {
        env::boxed!(async move {
            let truth = Some(ColType::new(TypeKind::Bool));
            match lazy {
                Lazy::And(terms) | Lazy::Or(terms) => {
                    let decides = matches!(lazy, Lazy::Or(_));
                    let mut known = true;
                    for term in terms {
                        let (value, _) = self.eval(term).await?;
                        match self.converted(&value, ColType::new(TypeKind::Bool))? {
                            Value::Bool(value) if value == decides => {
                                return Ok((Value::Bool(decides), truth));
                            }
                            Value::Bool(_) => {}
                            _ => known = false,
                        }
                    }
                    let value = if known { Value::Bool(!decides) } else { Value::Null };
                    Ok((value, truth))
                }
                Lazy::Case { operand, slot, arms, otherwise } => {
                    if let Some(operand) = operand {
                        let (value, ty) = self.eval(operand).await?;
                        let place = &mut self.places[*slot];
                        (place.value, place.ty) = (value, Some(ty));
                    }
                    for (test, result) in arms {
                        if self.is_true(test).await? {
                            return Ok(result_of(self.eval(result).await?));
                        }
                    }
                    match otherwise {
                        Some(otherwise) => Ok(result_of(self.eval(otherwise).await?)),
                        None => Ok((Value::Null, None)),
                    }
                }
            }
        })
    }
}

/// What a branch of CASE gives; NULL fits all that the others may give.
fn result_of((value, ty): (Value, ColType)) -> Typed {
    let of_any = value.is_null() && ty.kind == TypeKind::Text;
    (value, Some(ty).filter(|_| !of_any))
}
