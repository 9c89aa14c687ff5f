//! Variables in the SQL of procedural code: each use becomes a parameter.
//!
//! What it promises: a name is a variable only where a value may stand: not after a dot, an AS or
//! FROM, not as a target of SET or in the list of columns of INSERT, not as a function's name. In
//! the field's language its name is kept, which a column may have ([`super::scopes`]). What it must
//! never do: change anything else of the text.

use super::lex::Tok;
use super::long_operation::NO_HINT;
use super::parse::{Name, Parser};
use super::powers::Rewritten;
use super::tree::{
    Access, Dialect, Named, ROW_COUNT, SQL_FOUND, SQL_IS_OPEN, SQL_NOT_FOUND, Sql, Use,
};
use super::types::Shape;
use crate::Result;
use std::fmt::Write;
use std::ops::Range;
use std::sync::Arc;

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
                let lists = matches!(word(previous).as_str(), "using" | "set" | "insert");
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
        let (uses, names, dates) = (Vec::new(), Vec::new(), Vec::new());
        Sql { id: self.statements - 1, text, uses, names, dates }
    }

    /// The SQL of these words, with parameters for variables; `statement`: not an expression.
    pub(super) fn sql_of(&mut self, parts: &[Range<usize>], statement: bool) -> Sql {
        let mut out = self.plain(String::new());
        let mut place = Place::default();
        for part in parts.iter().filter(|part| !part.is_empty()) {
            if !out.text.is_empty() {
                out.text.push(' ');
            }
            self.put(part, statement, &mut place, &mut out);
        }
        out
    }

    fn put(&mut self, part: &Range<usize>, statement: bool, place: &mut Place, out: &mut Sql) {
        let mut at = part.start;
        let mut copied = self.tokens[part.start].at;
        let has_accesses = self.dialect == Dialect::Field && self.may_access(part);
        let queries = if has_accesses { self.queries_in(part) } else { Vec::new() };
        let has_columns = self.dialect == Dialect::Field
            && (statement || part.clone().any(|at| self.is_word_at(at, "select")));
        let powers = match self.dialect == Dialect::Field && !statement {
            true => self.powers(part),
            false => Rewritten::default(),
        };
        while at < part.end {
            let mut taken = match self.variable(at, part.end) {
                Some((found, len)) if self.is_value(at, len, part, statement, place) => {
                    Some((found, len))
                }
                _ => None,
            };
            if has_accesses && taken.is_none() {
                let is_sql = statement || queries.iter().any(|query| query.contains(&at));
                taken = self.access(at, part, is_sql, place);
            }
            let Some((mut found, len)) = taken else {
                let tok = |at: usize| (at < part.end).then(|| &self.tokens[at].tok);
                let previous = (at > part.start).then(|| &self.tokens[at - 1].tok);
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
            powers.copy(&mut out.text, self.text, copied..self.tokens[at].at);
            if found.access.is_none() {
                self.hand_on(found.slot);
            }
            let whole = statement && self.is_row_of_values(at, part, &found);
            if whole {
                found = found.all_fields();
            }
            let named = match has_columns && !whole && found.access.is_none() {
                true => self.named(at, len),
                false => None,
            };
            let known = out.uses.iter().zip(&out.names);
            let mut known = known.map(|(used, name)| *used == found && *name == named);
            let number = known.position(|same| same).unwrap_or_else(|| {
                let plain = found.access.is_none() && found.field.is_none();
                if plain && self.dates.contains(&found.slot) {
                    out.dates.push(out.uses.len());
                }
                out.uses.push(found);
                out.names.push(named);
                out.uses.len() - 1
            });
            let _ = match whole {
                true => write!(out.text, "(${})", number + 1),
                false => write!(out.text, "${}", number + 1),
            };
            at += len;
            copied = self.tokens[at - 1].end;
        }
        powers.copy(&mut out.text, self.text, copied..self.tokens[part.end - 1].end);
    }

    /// The variable at a word, and of how many words its name is.
    fn variable(&self, at: usize, end: usize) -> Option<(Use, usize)> {
        let tok = |at: usize| (at < end).then(|| &self.tokens[at].tok);
        let name = |at: usize| match tok(at) {
            Some(Tok::Word(name) | Tok::Quoted(name)) => Some(name.as_str()),
            _ => None,
        };
        let first = name(at)?;
        let plain = Use::of;
        if self.dialect == Dialect::Field && tok(at + 1) == Some(&Tok::Symbol("%")) {
            // `sql%rowcount`, and of a cursor what it found last.
            let found = match (name(at + 2), self.lookup(first)) {
                (Some("rowcount"), _) if first == "sql" => Some(plain(ROW_COUNT)),
                (Some("found"), _) if first == "sql" => Some(plain(SQL_FOUND)),
                (Some("notfound"), _) if first == "sql" => Some(plain(SQL_NOT_FOUND)),
                (Some("isopen"), _) if first == "sql" => Some(plain(SQL_IS_OPEN)),
                (Some(attribute), Some(Name::Cursor(cursor))) => self.attribute(cursor, attribute),
                _ => None,
            };
            if let Some(found) = found {
                return Some((found, 3));
            }
        }
        if tok(at + 1) == Some(&Tok::Symbol(".")) {
            if let (Some(Tok::Other('*')), Some(Name::Record(slot))) =
                (tok(at + 2), self.lookup(first))
            {
                return Some((Use::field(slot, ALL_FIELDS), 3));
            }
            let second = name(at + 2)?;
            if let Some(Name::Record(slot)) = self.lookup(first) {
                return Some((Use::field(slot, second), 3));
            }
            return match self.lookup_in(first, second)? {
                Name::Scalar(slot) => Some((plain(slot), 3)),
                Name::Cursor(slot) if self.may_name(slot) => Some((plain(slot), 3)),
                Name::Record(slot) if tok(at + 3) == Some(&Tok::Symbol(".")) => {
                    let field = name(at + 4)?.to_owned();
                    Some((Use::field(slot, &field), 5))
                }
                _ => None,
            };
        }
        match self.lookup(first)? {
            Name::Scalar(slot) | Name::Record(slot) => Some((plain(slot), 1)),
            Name::Cursor(slot) if self.may_name(slot) => Some((plain(slot), 1)),
            Name::Cursor(_)
            | Name::Exception(_)
            | Name::Collection(_)
            | Name::Type(_)
            | Name::CursorType
            | Name::Routine(_) => None,
        }
    }

    /// The name of a variable that a column may have, too.
    fn named(&self, at: usize, len: usize) -> Option<Arc<Named>> {
        let part = |at: usize| match &self.tokens[at].tok {
            Tok::Word(name) | Tok::Quoted(name) if !name.starts_with('$') => Some(name.clone()),
            Tok::Other('*') => Some(ALL_FIELDS.to_owned()),
            _ => None,
        };
        let parts = match len {
            1 => vec![part(at)?],
            3 if self.is_symbol_at(at + 1, ".") => vec![part(at)?, part(at + 2)?],
            _ => return None,
        };
        let text = self.text[self.tokens[at].at..self.tokens[at + len - 1].end].to_owned();
        Some(Arc::new(Named { text, parts }))
    }

    /// Whether something in these words may have to be worked out first.
    fn may_access(&self, part: &Range<usize>) -> bool {
        const OWN: [&str; 5] = [
            "bulk_rowcount",
            "bulk_exceptions",
            "dbms_utility",
            "dbms_random",
            "dbms_application_info",
        ];
        self.has_accesses(part)
            || part.clone().any(|at| match &self.tokens[at].tok {
                Tok::Word(w) if w == "sqlerrm" => self.is_symbol_at(at + 1, "("),
                Tok::Word(w) => OWN.contains(&w.as_str()),
                _ => false,
            })
    }

    /// Queries in parentheses: their conditions are not the block's.
    fn queries_in(&self, part: &Range<usize>) -> Vec<Range<usize>> {
        let begins = |at: &usize| self.is_word_at(*at, "select") || self.is_word_at(*at, "with");
        let found = part.clone().filter(begins).filter_map(|at| {
            let open = at.checked_sub(1).filter(|open| self.is_symbol_at(*open, "("));
            Some(at..open.map_or(Some(part.end), |open| self.close_of(open))?)
        });
        found.collect()
    }

    fn is_symbol_at(&self, at: usize, symbol: &str) -> bool {
        matches!(self.tokens.get(at).map(|t| &t.tok), Some(Tok::Symbol(s)) if *s == symbol)
    }

    /// What must be worked out first that begins at a word, and of how many words it is.
    fn access(
        &mut self,
        at: usize,
        part: &Range<usize>,
        statement: bool,
        place: &Place,
    ) -> Option<(Use, usize)> {
        let found = match self.tokens[at].tok.clone() {
            Tok::Symbol("(") if !statement => return self.lazy_group(at, part),
            Tok::Word(w) if w == "case" && !statement => {
                let end = self.end_of_case(&(at..part.end))?;
                return self.lazy_part(at..end + 1);
            }
            Tok::Word(name) | Tok::Quoted(name) => self.lookup(&name).map_or_else(
                || match name.as_str() {
                    "sql" | "sqlerrm" | "dbms_utility" => Some(None),
                    // In SQL each row has a value of its own.
                    "dbms_random" if !statement => Some(None),
                    "dbms_random" => None,
                    // A label, perhaps.
                    _ if self.is_symbol_at(at + 1, ".") => Some(None),
                    _ => None,
                },
                |found| match found {
                    Name::Collection(_) | Name::Routine(_) => Some(Some(found)),
                    Name::Scalar(_) if name == "sqlerrm" => Some(None),
                    _ => None,
                },
            )?,
            _ => return None,
        };
        // How it is written is known before what it is: words in the way of a table's name are
        // none of ours.
        let len = self.access_len(at, part.end);
        if !self.is_value(at, len, part, statement, place) {
            return None;
        }
        match self.build_access(at, part, statement, found) {
            Ok(found) => found,
            Err(error) => {
                self.failed.get_or_insert(error);
                None
            }
        }
    }

    /// Of how many words a name is with what is in parentheses and behind dots.
    pub(super) fn access_len(&self, at: usize, end: usize) -> usize {
        let mut last = at + 1;
        loop {
            if last < end && self.is_symbol_at(last, "(") {
                match self.close_of(last) {
                    Some(close) if close < end => last = close + 1,
                    _ => break,
                }
            } else if last + 1 < end
                && (self.is_symbol_at(last, ".") || self.is_symbol_at(last, "%"))
            {
                last += 2;
            } else {
                break;
            }
        }
        last - at
    }

    fn build_access(
        &mut self,
        at: usize,
        part: &Range<usize>,
        statement: bool,
        found: Option<Name>,
    ) -> Result<Option<(Use, usize)>> {
        let from = std::mem::replace(&mut self.at, at);
        let used = match found {
            Some(Name::Routine(routine)) => self.call_use(routine, statement),
            Some(_) => self.path_use(),
            None => self.own_use(at),
        };
        let end = std::mem::replace(&mut self.at, from);
        let used = used?;
        Ok(used.filter(|_| end <= part.end).map(|used| (used, end - at)))
    }

    /// A function of the block.
    fn call_use(&mut self, routine: usize, statement: bool) -> Result<Option<Use>> {
        let name = self.routines[routine].name.clone();
        if statement {
            if !self.is_at(1, "(") {
                return Ok(None);
            }
            let text = format!("function \"{name}\" of a block in a statement of SQL");
            return Err(self.unsupported(text, "Give its result to a variable first."));
        }
        let call = self.local_call()?;
        match self.routines[routine].result {
            Some(_) => Ok(Some(Use::with(0, Access::Call(call)))),
            None => {
                let text = format!("\"{name}\" is a procedure and has no value");
                Err(self.error("42809", text))
            }
        }
    }

    /// An element, or what a collection says of itself.
    fn path_use(&mut self) -> Result<Option<Use>> {
        let Some(path) = self.path()? else {
            // What only looks like it, as `label.variable` does.
            self.advance();
            return Ok(None);
        };
        let (slot, null) = (path.slot, self.is("is"));
        if let Some((method, args)) = path.method {
            if method.changes() {
                let text = "DELETE, EXTEND and TRIM of a collection have no value";
                return Err(self.error("42809", text));
            }
            return Ok(Some(Use::with(slot, Access::Ask { indexes: path.indexes, method, args })));
        }
        match path.shape {
            Shape::Collection(_) if null => {
                Ok(Some(Use::with(slot, Access::Whole { indexes: path.indexes })))
            }
            Shape::Collection(spec) => {
                let text = format!("a collection of type \"{}\" in an expression", spec.name);
                let hint = "Name an element, or assign it to another one of its type.";
                Err(self.unsupported(text, hint))
            }
            _ => Ok(Some(path.into_use())),
        }
    }

    /// What the field's packages say.
    fn own_use(&mut self, at: usize) -> Result<Option<Use>> {
        if self.is("sql") && self.is_symbol_at(at + 1, "%") {
            return Ok(self.bulk_attribute(at)?.map(|(used, len)| {
                self.at = at + len;
                used
            }));
        }
        if self.is("sqlerrm") && self.is_symbol_at(at + 1, "(") {
            self.at = at + 2;
            let number = self.expr_until(&[], &[")"])?;
            self.expect_symbol(")")?;
            return Ok(Some(Use::with(0, Access::Message(number))));
        }
        // Of the third only a constant has a value.
        let is_no_hint = matches!(self.peek(2), Tok::Word(w) if w == NO_HINT);
        let is_constant = self.is("dbms_application_info") && is_no_hint;
        let is_package = is_constant || self.is_any(&["dbms_utility", "dbms_random"]);
        if is_package && self.is_symbol_at(at + 1, ".") {
            return self.package_use();
        }
        self.path_use()
    }

    /// Conditions in parentheses of which one may be left out.
    fn lazy_group(&mut self, at: usize, part: &Range<usize>) -> Option<(Use, usize)> {
        const BEFORE: [&str; 7] = ["and", "or", "not", "when", "then", "else", "case"];
        let previous = (at > part.start).then(|| &self.tokens[at - 1].tok);
        let groups = match previous {
            None | Some(Tok::Symbol("(" | "," | "=" | "<>" | "||" | "-" | "/") | Tok::Other(_)) => {
                true
            }
            Some(Tok::Word(w)) => BEFORE.contains(&w.as_str()),
            _ => false,
        };
        let close = self.close_of(at).filter(|close| groups && *close < part.end)?;
        self.lazy_part(at..close + 1)
    }

    fn lazy_part(&mut self, range: Range<usize>) -> Option<(Use, usize)> {
        if !self.has_accesses(&range) {
            return None;
        }
        let len = range.len();
        let lazy = self.lazy(range)?;
        Some((Use::with(0, Access::Lazy(lazy)), len))
    }

    /// Whether a record stands behind VALUES for all of its fields.
    fn is_row_of_values(&self, at: usize, part: &Range<usize>, found: &Use) -> bool {
        let behind =
            at > part.start && matches!(&self.tokens[at - 1].tok, Tok::Word(w) if w == "values");
        if !behind || self.dialect != Dialect::Field || found.field.is_some() {
            return false;
        }
        match found.access.as_deref() {
            None => match &self.tokens[at].tok {
                Tok::Word(name) | Tok::Quoted(name) => {
                    matches!(self.lookup(name), Some(Name::Record(_)))
                }
                _ => false,
            },
            Some(Access::Element { field: None, .. }) => true,
            Some(_) => false,
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
                // `t as of scn n`.
                "scn" | "timestamp" if word_before(2) == "of" && word_before(3) == "as" => true,
                // Columns whose rows are locked.
                "of" if matches!(word_before(2), "update" | "share") => false,
                word => BEFORE_VALUES.contains(&word),
            },
            // Behind a value: an alias.
            Some(_) => false,
        }
    }
}
