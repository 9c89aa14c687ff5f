//! Variables in the SQL of procedural code: each use becomes a parameter.
//!
//! What it promises: a name is a variable only where a value may stand: not after a dot, an AS or
//! FROM, not as a target of SET or in the list of columns of INSERT, not as a function's name. What
//! it must never do: change anything else of the text.

use super::lex::Tok;
use super::parse::{Name, Parser};
use super::tree::{Dialect, ROW_COUNT, SQL_FOUND, SQL_NOT_FOUND, Sql, Use};
use std::fmt::Write;
use std::ops::Range;

/// A field that stands for all of a record's.
pub(super) const ALL_FIELDS: &str = "*";

/// Words that a value may follow; after another word, or a value, stands an alias.
const BEFORE_VALUES: [&str; 55] = [
    "all",
    "and",
    "any",
    "array",
    "between",
    "both",
    "by",
    "case",
    "default",
    "distinct",
    "div",
    "else",
    "escape",
    "except",
    "execute",
    "exists",
    "fetch",
    "filter",
    "first",
    "for",
    "having",
    "if",
    "ilike",
    "in",
    "intersect",
    "is",
    "leading",
    "like",
    "limit",
    "mod",
    "next",
    "not",
    "of",
    "offset",
    "on",
    "or",
    "overlaps",
    "returning",
    "row",
    "select",
    "set",
    "similar",
    "some",
    "symmetric",
    "then",
    "to",
    "trailing",
    "union",
    "using",
    "values",
    "when",
    "where",
    "while",
    "zone",
    "return",
];

/// Words that end a list of tables.
const AFTER_TABLES: [&str; 13] = [
    "where",
    "group",
    "order",
    "having",
    "limit",
    "offset",
    "fetch",
    "union",
    "intersect",
    "except",
    "returning",
    "set",
    "for",
];

/// Where in a statement the words are.
#[derive(Default)]
struct Place {
    /// For each open parenthesis whether it is that of a function, whose FROM is none of a query.
    open: Vec<bool>,
    /// Depth of the list of tables, while in one.
    tables: Option<usize>,
    /// Depth of the SET clause, while in one.
    set: Option<usize>,
    /// The list of columns of an INSERT or of ON CONFLICT comes next.
    columns_next: bool,
    /// Depth of such a list, while in it.
    columns: Option<usize>,
}

impl Place {
    fn depth(&self) -> usize {
        self.open.len()
    }

    fn follow(&mut self, tok: &Tok, previous: Option<&Tok>) {
        let word = |tok: Option<&Tok>| match tok {
            Some(Tok::Word(w)) => w.clone(),
            _ => String::new(),
        };
        match tok {
            Tok::Symbol("(" | "[") => {
                const FROM_INSIDE: [&str; 4] = ["extract", "substring", "trim", "overlay"];
                self.open.push(FROM_INSIDE.contains(&word(previous).as_str()));
                let lists = matches!(word(previous).as_str(), "using" | "set");
                if std::mem::take(&mut self.columns_next) || lists {
                    self.columns = Some(self.depth());
                }
            }
            Tok::Symbol(")" | "]") => {
                if self.columns == Some(self.depth()) {
                    self.columns = None;
                }
                if self.tables == Some(self.depth()) {
                    self.tables = None;
                }
                self.open.pop();
            }
            Tok::Word(w) if w == "from" && word(previous) != "distinct" => {
                if self.set == Some(self.depth()) {
                    self.set = None;
                }
                if self.open.last() != Some(&true) {
                    self.tables = Some(self.depth());
                }
            }
            Tok::Word(w) => match (w.as_str(), word(previous).as_str()) {
                // A query in parentheses, not a list of columns.
                ("select" | "with" | "values", "")
                    if matches!(previous, Some(Tok::Symbol("("))) =>
                {
                    self.columns = self.columns.filter(|depth| *depth != self.depth());
                    self.columns_next = false;
                }
                (word, _) if self.tables == Some(self.depth()) && AFTER_TABLES.contains(&word) => {
                    self.tables = None;
                    if word == "set" {
                        self.set = Some(self.depth());
                    }
                }
                ("into", "insert") | ("conflict", "on") => self.columns_next = true,
                ("values" | "select" | "with" | "default" | "do", _) => self.columns_next = false,
                ("set", _) => self.set = Some(self.depth()),
                ("where" | "returning", _) if self.set == Some(self.depth()) => {
                    self.set = None;
                }
                _ => {}
            },
            _ => {}
        }
    }
}

impl Parser<'_> {
    /// SQL without variables.
    pub(super) fn plain(&mut self, text: String) -> Sql {
        self.statements += 1;
        Sql { id: self.statements - 1, text, uses: Vec::new() }
    }

    /// The SQL of these words, with parameters for variables; `statement`: not an expression.
    pub(super) fn sql_of(&mut self, parts: &[Range<usize>], statement: bool) -> Sql {
        let mut out = Sql { id: self.statements, text: String::new(), uses: Vec::new() };
        self.statements += 1;
        let mut place = Place::default();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            if !out.text.is_empty() {
                out.text.push(' ');
            }
            self.put(part, statement, &mut place, &mut out);
        }
        out
    }

    fn put(&self, part: &Range<usize>, statement: bool, place: &mut Place, out: &mut Sql) {
        let tok = |at: usize| -> Option<&Tok> { (at < part.end).then(|| &self.tokens[at].tok) };
        let mut at = part.start;
        let mut copied = self.tokens[part.start].at;
        while at < part.end {
            let previous = (at > part.start).then(|| &self.tokens[at - 1].tok);
            let taken = match self.variable(at, part.end) {
                Some((found, len)) if self.is_value(at, len, part, statement, place) => {
                    Some((found, len))
                }
                _ => None,
            };
            let Some((found, len)) = taken else {
                if let Some(tok) = tok(at) {
                    place.follow(tok, previous);
                }
                at += 1;
                // A name of several parts that is none of ours: nor are its parts.
                while matches!(tok(at), Some(Tok::Symbol("."))) {
                    at = (at + 2).min(part.end);
                }
                continue;
            };
            out.text.push_str(&self.text[copied..self.tokens[at].at]);
            let number = out.uses.iter().position(|known| *known == found).unwrap_or_else(|| {
                out.uses.push(found);
                out.uses.len() - 1
            });
            let _ = write!(out.text, "${}", number + 1);
            at += len;
            copied = self.tokens[at - 1].end;
        }
        out.text.push_str(&self.text[copied..self.tokens[part.end - 1].end]);
    }

    /// The variable at a word, and of how many words its name is.
    fn variable(&self, at: usize, end: usize) -> Option<(Use, usize)> {
        let tok = |at: usize| (at < end).then(|| &self.tokens[at].tok);
        let name = |at: usize| match tok(at) {
            Some(Tok::Word(name) | Tok::Quoted(name)) => Some(name.as_str()),
            _ => None,
        };
        let first = name(at)?;
        let plain = |slot| Use { slot, field: None };
        if self.dialect == Dialect::Field && tok(at + 1) == Some(&Tok::Symbol("%")) {
            // `sql%rowcount`, and of a cursor what it found last.
            let slot = match (name(at + 2), self.lookup(first)) {
                (Some("rowcount"), _) if first == "sql" => Some(ROW_COUNT),
                (Some("found"), _) if first == "sql" => Some(SQL_FOUND),
                (Some("notfound"), _) if first == "sql" => Some(SQL_NOT_FOUND),
                (Some(attribute), Some(Name::Cursor(cursor))) => self.attribute(cursor, attribute),
                _ => None,
            };
            if let Some(slot) = slot {
                return Some((plain(slot), 3));
            }
        }
        if tok(at + 1) == Some(&Tok::Symbol(".")) {
            if let (Some(Tok::Other('*')), Some(Name::Record(slot))) =
                (tok(at + 2), self.lookup(first))
            {
                return Some((Use { slot, field: Some(ALL_FIELDS.to_owned()) }, 3));
            }
            let second = name(at + 2)?;
            if let Some(Name::Record(slot)) = self.lookup(first) {
                return Some((Use { slot, field: Some(second.to_owned()) }, 3));
            }
            return match self.lookup_in(first, second)? {
                Name::Scalar(slot) => Some((plain(slot), 3)),
                Name::Record(slot) if tok(at + 3) == Some(&Tok::Symbol(".")) => {
                    let field = name(at + 4)?.to_owned();
                    Some((Use { slot, field: Some(field) }, 5))
                }
                _ => None,
            };
        }
        match self.lookup(first)? {
            Name::Scalar(slot) | Name::Record(slot) => Some((plain(slot), 1)),
            Name::Cursor(_) | Name::Exception(_) => None,
        }
    }

    /// Whether a name of `len` words stands for a value here.
    fn is_value(
        &self,
        at: usize,
        len: usize,
        part: &Range<usize>,
        statement: bool,
        place: &Place,
    ) -> bool {
        let previous = (at > part.start).then(|| &self.tokens[at - 1].tok);
        let next = (at + len < part.end).then(|| &self.tokens[at + len].tok);
        if place.columns.is_some() {
            return false;
        }
        if matches!(&self.tokens[at].tok, Tok::Word(word) if word.starts_with('$')) {
            return true;
        }
        // A function, an argument's name, an alias of a table whose columns follow.
        if matches!(next, Some(Tok::Symbol("(" | "=>" | "."))) && len == 1 {
            return false;
        }
        let in_set = place.set == Some(place.depth());
        let is_set_target = in_set
            && matches!(next, Some(Tok::Symbol("=")))
            && (matches!(previous, Some(Tok::Symbol(",")))
                || matches!(previous, Some(Tok::Word(w)) if w == "set"));
        if is_set_target {
            return false;
        }
        let word_before = |back: usize| match at.checked_sub(back) {
            Some(i) if i >= part.start => match &self.tokens[i].tok {
                Tok::Word(w) => w.as_str(),
                _ => "",
            },
            _ => "",
        };
        match previous {
            None => true,
            Some(Tok::Symbol("." | "::" | ")" | "]")) => false,
            // A field of `extract`.
            Some(Tok::Symbol("(")) => word_before(2) != "extract",
            Some(Tok::Symbol(",")) => place.tables != Some(place.depth()),
            Some(Tok::Symbol(_) | Tok::Other(_)) => true,
            Some(Tok::Word(w)) => match w.as_str() {
                "from" => {
                    word_before(2) == "distinct"
                        || place.open.last() == Some(&true)
                        || (!statement && place.depth() == 0)
                }
                word => BEFORE_VALUES.contains(&word),
            },
            // Behind a value: an alias.
            Some(_) => false,
        }
    }
}
