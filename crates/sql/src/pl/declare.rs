//! Declarations of a block: variables, cursors, exceptions, pragmas, and the types they have.
//!
//! What it promises: a name is known from behind its declaration on. What it must never do: ask the
//! dictionary: a type is a query that the first run plans.

use super::lex::Tok;
use super::parse::{Name, Parser};
use super::tree::{Dialect, TypeName, Variable};
use crate::Result;

/// What tells the type of a variable that the field's code declares as `date`: it has a time of
/// day. No other declaration makes this text.
pub(super) const DATE_QUERY: &str = "select cast(null as timestamp(0)) as \"date\"";

/// An integer type of the field's that has a range.
#[derive(Debug)]
pub(super) struct Ranged {
    name: &'static str,
    pub(super) least: i32,
    pub(super) most: i32,
    /// Whether NULL is no value of it.
    not_null: bool,
}

const RANGED: [Ranged; 5] = [
    Ranged { name: "natural", least: 0, most: i32::MAX, not_null: false },
    Ranged { name: "naturaln", least: 0, most: i32::MAX, not_null: true },
    Ranged { name: "positive", least: 1, most: i32::MAX, not_null: false },
    Ranged { name: "positiven", least: 1, most: i32::MAX, not_null: true },
    Ranged { name: "signtype", least: -1, most: 1, not_null: false },
];

/// What tells such a type, with its name and a quote behind it. No other declaration makes it.
const RANGED_QUERY: &str = "select cast(null as int) as \"";

/// The range of a variable's type, if that is such a one.
pub(super) fn ranged(ty: &TypeName) -> Option<&'static Ranged> {
    let TypeName::Query(sql, false) = ty else { return None };
    let name = sql.text.strip_prefix(RANGED_QUERY)?.strip_suffix('"')?;
    RANGED.iter().find(|known| known.name == name)
}

/// Words behind a type.
fn ends_type(word: &str) -> bool {
    const WORDS: [&str; 9] = [
        "not",
        "default",
        "is",
        "as",
        "index",
        "range",
        "deterministic",
        "result_cache",
        "pipelined",
    ];
    WORDS.contains(&word)
}

/// The field's names for integers of its procedural code.
fn is_own_integer(name: &str) -> bool {
    ["pls_integer", "binary_integer", "simple_integer"]
        .iter()
        .any(|known| known.eq_ignore_ascii_case(name))
}

impl Parser<'_> {
    pub(super) fn declaration(&mut self, variables: &mut Vec<Variable>) -> Result<()> {
        if self.word("pragma") {
            return self.pragma();
        }
        if self.dialect == Dialect::Field && matches!(self.peek(1), Tok::Word(_) | Tok::Quoted(_)) {
            let named = matches!(self.peek(2), Tok::Word(w) if w == "is");
            if named && self.word("type") {
                return self.declare_type();
            }
            if named && self.word("subtype") {
                return self.declare_subtype();
            }
            if self.is_any(&["procedure", "function"]) {
                return self.declare_routine();
            }
        }
        if self.is("cursor") && matches!(self.peek(1), Tok::Word(_)) {
            // The field's: `cursor c is select ..`.
            self.advance();
            let name = self.name()?;
            return self.declare_cursor(&name);
        }
        let name = self.name()?;
        if self.word("exception") {
            self.exceptions += 1;
            self.declare(&name, Name::Exception(self.exceptions - 1))?;
            return self.expect_symbol(";");
        }
        if self.words(&["no", "scroll"]) || self.word("scroll") || self.is("cursor") {
            self.expect("cursor")?;
            return self.declare_cursor(&name);
        }
        if self.words(&["alias", "for"]) {
            let other = self.name()?;
            let found = self.lookup(&other);
            let missing = || self.error("42704", format!("variable \"{other}\" does not exist"));
            let what = found.ok_or_else(missing)?;
            self.declare(&name, what)?;
            return self.expect_symbol(";");
        }
        if self.is_cursor_type() {
            return self.declare_cursor_variable(name, variables);
        }
        let constant = self.word("constant");
        let (ty, is_record) = self.type_name()?;
        let mut not_null = ranged(&ty).is_some_and(|known| known.not_null);
        if self.words(&["not", "null"]) {
            not_null = true;
        }
        let slot = self.new_slot();
        let (default, whole) = (None, None);
        let mut variable =
            Variable { slot, name: name.clone(), ty, constant, not_null, default, whole };
        let begins = self.symbol(":=") || self.symbol("=") || self.word("default");
        if begins && self.dialect == Dialect::Pg && is_record {
            variable.default = Some(self.expr_until(&[], &[";"])?);
        } else if begins {
            self.default_of(&mut variable)?;
        }
        self.expect_symbol(";")?;
        if not_null && !begins {
            let text =
                format!("variable \"{name}\" must have a default value, since it is not null");
            return Err(self.error("22004", text));
        }
        self.declare_as(&name, slot, &variable.ty)?;
        variables.push(variable);
        Ok(())
    }

    /// `pragma exception_init(name, number)`.
    fn pragma(&mut self) -> Result<()> {
        const MEANING_NOTHING: [&str; 4] =
            ["inline", "udf", "deprecate", "suppresses_warning_6009"];
        if self.dialect == Dialect::Field && self.word("keep_open") {
            return self.keep_open();
        }
        if !self.word("exception_init") {
            let name = self.name()?;
            if MEANING_NOTHING.contains(&name.as_str()) {
                self.range_until(&[], &[";"])?;
                return self.expect_symbol(";");
            }
            let text = format!("PRAGMA {}", name.to_uppercase());
            let hint = "Blocks know PRAGMA EXCEPTION_INIT and KEEP_OPEN.";
            return Err(self.unsupported(text, hint));
        }
        self.expect_symbol("(")?;
        let name = self.name()?;
        self.expect_symbol(",")?;
        let minus = self.symbol("-");
        let token = self.tokens[self.at].clone();
        let number = self.text[token.at..token.end].parse::<i32>().map_err(|_| self.near())?;
        self.advance();
        self.expect_symbol(")")?;
        self.expect_symbol(";")?;
        match self.lookup(&name) {
            Some(Name::Exception(id)) => {
                self.numbers.push((id, if minus { -number } else { number }));
                Ok(())
            }
            _ => Err(self.error("42704", format!("\"{name}\" is no exception"))),
        }
    }

    /// `pragma keep_open(c)` of a block that is a statement: the client has a variable of its own
    /// for the cursor, which stays open behind the block.
    fn keep_open(&mut self) -> Result<()> {
        self.expect_symbol("(")?;
        let slot = self.cursor()?;
        self.expect_symbol(")")?;
        self.expect_symbol(";")?;
        if !self.is_outermost() || !self.may_name(slot) {
            let text = "PRAGMA KEEP_OPEN is for cursor variables that a whole block declares";
            return Err(self.error("42601", text));
        }
        self.kept.push(slot);
        Ok(())
    }

    /// The type of a variable, and whether it is a record.
    pub(super) fn type_name(&mut self) -> Result<(TypeName, bool)> {
        if self.word("record") {
            return Ok((TypeName::Record, true));
        }
        if let Some(ty) = self.own_type() {
            let is_record = ty.is_record();
            return Ok((ty, is_record));
        }
        let from = self.at;
        let (mut open, mut path) = (0_usize, Vec::new());
        loop {
            match self.tok() {
                Tok::Symbol("%") => {
                    let row = matches!(self.peek(1), Tok::Word(w) if w == "rowtype");
                    if !row && !matches!(self.peek(1), Tok::Word(w) if w == "type") {
                        return Err(self.near());
                    }
                    self.at += 2;
                    return self.type_of(&path, row);
                }
                Tok::Symbol(":=" | "=" | ";" | "," | ")") if open == 0 => break,
                Tok::Word(w) if open == 0 && ends_type(w) => break,
                Tok::Symbol("(" | "[") => open += 1,
                Tok::Symbol(")" | "]") if open > 0 => open -= 1,
                Tok::Word(_) | Tok::Quoted(_) => path.push(self.at),
                Tok::Number | Tok::Symbol("." | ",") => {}
                _ => return Err(self.near()),
            }
            self.advance();
        }
        if path.is_empty() {
            return Err(self.near());
        }
        let query = match self.cut(&(from..self.at)) {
            own if is_own_integer(own) => "select cast(null as int)".to_owned(),
            own if own.eq_ignore_ascii_case("simple_double") => {
                "select cast(null as double precision)".to_owned()
            }
            own if own.eq_ignore_ascii_case("simple_float") => {
                "select cast(null as real)".to_owned()
            }
            text if self.dialect == Dialect::Field && text.eq_ignore_ascii_case("date") => {
                DATE_QUERY.to_owned()
            }
            text => {
                let is_named = |known: &&Ranged| known.name.eq_ignore_ascii_case(text);
                match RANGED.iter().find(is_named).filter(|_| self.dialect == Dialect::Field) {
                    Some(known) => format!("{RANGED_QUERY}{}\"", known.name),
                    None => format!("select cast(null as {text})"),
                }
            }
        };
        Ok((TypeName::Query(self.plain(query), false), false))
    }

    fn type_of(&mut self, path: &[usize], row: bool) -> Result<(TypeName, bool)> {
        let names: Vec<String> = path
            .iter()
            .map(|at| self.text[self.tokens[*at].at..self.tokens[*at].end].to_owned())
            .collect();
        let known = |name: &str| self.lookup(&name.to_lowercase());
        match (&names[..], row) {
            ([name], true) => match known(name) {
                Some(Name::Cursor(slot)) => Ok((TypeName::Like(slot, true), true)),
                _ => {
                    let query = self.plain(format!("select * from {name}"));
                    Ok((TypeName::Query(query, true), true))
                }
            },
            ([schema, name], true) => {
                let query = self.plain(format!("select * from {schema}.{name}"));
                Ok((TypeName::Query(query, true), true))
            }
            ([name], false) => match known(name) {
                Some(Name::Scalar(slot)) => Ok((TypeName::Like(slot, false), false)),
                Some(Name::Record(slot)) if self.dialect == Dialect::Field => {
                    Ok((TypeName::Like(slot, true), true))
                }
                Some(Name::Collection(slot)) => {
                    Ok((TypeName::Collection(self.collections[&slot].clone()), false))
                }
                _ => Err(self.error("42704", format!("variable \"{name}\" does not exist"))),
            },
            ([table @ .., column], false) if !table.is_empty() => {
                let query = format!("select {column} from {}", table.join("."));
                Ok((TypeName::Query(self.plain(query), false), false))
            }
            _ => Err(self.near()),
        }
    }
}
