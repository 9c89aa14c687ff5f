//! `CREATE FUNCTION` and `CREATE PROCEDURE`, in PostgreSQL's form and in the field's.
//!
//! What it promises: types, defaults and bodies are cut out as they were written; clauses that mean
//! nothing here are refused by name. What it must never do: look into a body.

use super::head::{self, HEAD};
use super::lex::Tok;
use super::parse::Parser;
use super::tree::Dialect;
use crate::{PgError, Result};
use kernel::dict::{ArgumentMode, Volatility};

/// What was written of an argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ArgumentSpec {
    pub name: String,
    pub mode: ArgumentMode,
    /// Text of its type.
    pub ty: String,
    pub default: Option<String>,
}

/// What was written of a result.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReturnsSpec {
    /// Nothing was said: OUT arguments tell.
    Nothing,
    Type {
        ty: String,
        set: bool,
    },
    /// Columns, which are among the arguments.
    Table,
}

/// `CREATE FUNCTION` or `PROCEDURE`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineSpec {
    pub replace: bool,
    pub procedure: bool,
    pub schema: Option<String>,
    pub name: String,
    pub args: Vec<ArgumentSpec>,
    pub returns: ReturnsSpec,
    pub language: Option<String>,
    pub text: Option<String>,
    pub flags: RoutineFlags,
}

/// What CREATE and ALTER say of a routine beside its body.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RoutineFlags {
    pub volatility: Option<Volatility>,
    pub strict: Option<bool>,
    pub definer: Option<bool>,
    /// `cost`, `rows`, `parallel`, `leakproof` and settings, which are kept to be shown, and the
    /// head of what was written in the field's form.
    pub options: Vec<(String, String)>,
}

/// Where a body in the field's form, or of SQL, ends that begins with `text`; `None`: a statement
/// without one.
///
/// # Errors
/// 42601: the body has no end.
pub(crate) fn definition(text: &str) -> Result<Option<(RoutineSpec, usize)>> {
    let mut parser = Parser::new(text, Dialect::Field)?;
    if !parser.word("create") {
        return Ok(None);
    }
    let replace = parser.words(&["or", "replace"]);
    let _ = parser.word("editionable") || parser.word("noneditionable");
    let procedure = parser.is("procedure");
    if !procedure && !parser.is("function") {
        return Ok(None);
    }
    // The field counts lines from here, however `create or replace` was written.
    parser.first = parser.tokens[parser.at].at;
    parser.advance();
    let spec = parser.definition(replace, procedure)?;
    Ok(Some((spec, parser.tokens[parser.at.saturating_sub(1)].end)))
}

/// A routine as DROP, ALTER, GRANT and COMMENT name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineName {
    pub schema: Option<String>,
    pub name: String,
    /// Texts of the types of what is given in a call, if they were written.
    pub args: Option<Vec<String>>,
}

/// Which routines a statement speaks of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RoutineKind {
    Function,
    Procedure,
    Either,
}

impl RoutineKind {
    /// The word of it in tags.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            RoutineKind::Function => "FUNCTION",
            RoutineKind::Procedure => "PROCEDURE",
            RoutineKind::Either => "ROUTINE",
        }
    }
}

/// What is done with routines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RoutineCommand {
    pub kind: RoutineKind,
    pub names: Vec<RoutineName>,
    pub action: RoutineAction,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RoutineAction {
    Drop {
        if_exists: bool,
        cascade: bool,
    },
    Rename(String),
    Owner(String),
    Schema(String),
    Flags(RoutineFlags),
    /// The field's: its body is read anew.
    Compile,
    Comment(Option<String>),
}

/// DROP, ALTER or COMMENT ON of routines; `None`: another statement.
///
/// # Errors
/// 42601.
pub(crate) fn command(text: &str) -> Result<Option<RoutineCommand>> {
    let mut parser = Parser::new(text, Dialect::Pg)?;
    let drops = parser.word("drop");
    let comments = !drops && parser.words(&["comment", "on"]);
    if !drops && !comments && !parser.word("alter") {
        return Ok(None);
    }
    let kind = match parser.tok() {
        Tok::Word(w) if w == "function" => RoutineKind::Function,
        Tok::Word(w) if w == "procedure" => RoutineKind::Procedure,
        Tok::Word(w) if w == "routine" => RoutineKind::Either,
        _ => return Ok(None),
    };
    parser.advance();
    let if_exists = drops && parser.words(&["if", "exists"]);
    let mut names = vec![parser.routine_name()?];
    while drops && parser.symbol(",") {
        names.push(parser.routine_name()?);
    }
    let action = if drops {
        let cascade = parser.word("cascade");
        let _ = cascade || parser.word("restrict");
        RoutineAction::Drop { if_exists, cascade }
    } else if comments {
        parser.expect("is")?;
        RoutineAction::Comment(match parser.tok().clone() {
            Tok::Text(text) => {
                parser.advance();
                Some(text)
            }
            _ => parser.expect("null").map(|()| None)?,
        })
    } else {
        parser.altered()?
    };
    let _ = parser.symbol(";");
    match parser.tok() {
        Tok::End => Ok(Some(RoutineCommand { kind, names, action })),
        _ => Err(parser.near()),
    }
}

/// Names of routines in a list, as GRANT has them.
///
/// # Errors
/// 42601.
pub(crate) fn routine_name(text: &str) -> Result<RoutineName> {
    let mut parser = Parser::new(text, Dialect::Pg)?;
    let name = parser.routine_name()?;
    if *parser.tok() == Tok::End { Ok(name) } else { Err(parser.near()) }
}

/// Types of two or more words, by the first of them and what may follow it.
fn is_type_of_words(first: &str, second: &str) -> bool {
    matches!(
        (first, second),
        ("double", "precision")
            | ("character" | "char" | "bit" | "nchar", "varying")
            | ("national", "character" | "char")
            | ("timestamp" | "time", "with" | "without")
            | ("interval", "year" | "month" | "day" | "hour" | "minute" | "second")
            | ("long", "raw")
    )
}

impl Parser<'_> {
    fn definition(&mut self, replace: bool, procedure: bool) -> Result<RoutineSpec> {
        let mut name = self.name()?;
        let mut schema = None;
        if self.symbol(".") {
            schema = Some(std::mem::replace(&mut name, self.name()?));
        }
        let mut spec = RoutineSpec {
            replace,
            procedure,
            schema,
            name,
            args: Vec::new(),
            returns: ReturnsSpec::Nothing,
            language: None,
            text: None,
            flags: RoutineFlags::default(),
        };
        let listed = self.symbol("(");
        if listed && !self.symbol(")") {
            loop {
                spec.args.push(self.argument()?);
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        if !procedure && self.word("return") {
            // The field's.
            spec.returns = ReturnsSpec::Type { ty: self.type_text(&["is", "as"])?, set: false };
        }
        if !procedure && self.word("returns") {
            self.returns(&mut spec)?;
        }
        self.clauses(&mut spec, listed)?;
        Ok(spec)
    }

    /// A name, and the types of its arguments in parentheses.
    fn routine_name(&mut self) -> Result<RoutineName> {
        let mut name = self.name()?;
        let mut schema = None;
        if self.symbol(".") {
            schema = Some(std::mem::replace(&mut name, self.name()?));
        }
        if !self.symbol("(") {
            return Ok(RoutineName { schema, name, args: None });
        }
        let mut args = Vec::new();
        if !self.symbol(")") {
            loop {
                let arg = self.argument()?;
                if arg.mode.is_given() {
                    args.push(arg.ty);
                }
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
        }
        Ok(RoutineName { schema, name, args: Some(args) })
    }

    /// What ALTER says behind the name.
    fn altered(&mut self) -> Result<RoutineAction> {
        if self.words(&["rename", "to"]) {
            return self.name().map(RoutineAction::Rename);
        }
        if self.words(&["owner", "to"]) {
            return self.name().map(RoutineAction::Owner);
        }
        if self.words(&["set", "schema"]) {
            return self.name().map(RoutineAction::Schema);
        }
        if self.word("compile") {
            return Ok(RoutineAction::Compile);
        }
        if self.is_any(&["depends", "no"]) {
            return Err(PgError::unsupported("ALTER FUNCTION .. DEPENDS ON EXTENSION"));
        }
        let mut flags = RoutineFlags::default();
        let mut any = false;
        while self.flag(&mut flags)? {
            any = true;
        }
        let _ = self.word("restrict");
        if any { Ok(RoutineAction::Flags(flags)) } else { Err(self.near()) }
    }

    fn argument(&mut self) -> Result<ArgumentSpec> {
        let mut mode = self.mode();
        let mut name = String::new();
        let second = match self.peek(1) {
            Tok::Word(word) => Some(word.clone()),
            Tok::Quoted(_) => Some(String::new()),
            _ => None,
        };
        let named = match (self.tok(), &second) {
            (Tok::Word(first), Some(second)) => {
                !is_type_of_words(first, second) && second != "default"
            }
            (Tok::Quoted(_), Some(second)) => second != "default",
            _ => false,
        };
        if named {
            name = self.name()?;
            mode = mode.or_else(|| self.mode());
            let _ = self.word("nocopy");
        }
        let ty = self.type_text(&["default"])?;
        let default = match self.symbol(":=") || self.symbol("=") || self.word("default") {
            true => {
                let range = self.range_until(&[], &[",", ")"])?;
                Some(self.cut(&range).to_owned())
            }
            false => None,
        };
        let mode = mode.unwrap_or(ArgumentMode::In);
        if default.is_some() && !mode.is_given() {
            let text = "only input parameters can have default values";
            return Err(self.error("42P13", text));
        }
        Ok(ArgumentSpec { name, mode, ty, default })
    }

    /// IN, OUT, INOUT, IN OUT or VARIADIC.
    fn mode(&mut self) -> Option<ArgumentMode> {
        // A type may be called so only in quotes.
        if self.word("in") {
            return Some(match self.word("out") {
                true => ArgumentMode::InOut,
                false => ArgumentMode::In,
            });
        }
        for (word, mode) in [
            ("out", ArgumentMode::Out),
            ("inout", ArgumentMode::InOut),
            ("variadic", ArgumentMode::Variadic),
        ] {
            if self.word(word) {
                return Some(mode);
            }
        }
        None
    }

    /// The words of a type, up to one of these words, a comma, a parenthesis that closes, or a
    /// default.
    fn type_text(&mut self, ends: &[&str]) -> Result<String> {
        let from = self.at;
        let mut open = 0_usize;
        loop {
            match self.tok() {
                Tok::End => break,
                Tok::Symbol("(" | "[") => open += 1,
                Tok::Symbol(")" | "]") if open > 0 => open -= 1,
                Tok::Symbol("," | ")" | ":=" | "=" | ";") if open == 0 => break,
                Tok::Word(w) if open == 0 && ends.contains(&w.as_str()) => break,
                Tok::Word(w) if open == 0 && self.at > from && is_clause(w) => break,
                _ => {}
            }
            self.advance();
        }
        if self.at == from {
            return Err(self.near());
        }
        Ok(self.cut(&(from..self.at)).to_owned())
    }

    fn returns(&mut self, spec: &mut RoutineSpec) -> Result<()> {
        if self.words(&["null", "on", "null", "input"]) {
            spec.flags.strict = Some(true);
            return Ok(());
        }
        if self.word("table") {
            self.expect_symbol("(")?;
            loop {
                let (name, ty) = (self.name()?, self.type_text(&[])?);
                let mode = ArgumentMode::Table;
                spec.args.push(ArgumentSpec { name, mode, ty, default: None });
                if !self.symbol(",") {
                    break;
                }
            }
            self.expect_symbol(")")?;
            spec.returns = ReturnsSpec::Table;
            return Ok(());
        }
        let set = self.word("setof");
        spec.returns = ReturnsSpec::Type { ty: self.type_text(&["is"])?, set };
        Ok(())
    }

    fn clauses(&mut self, spec: &mut RoutineSpec, listed: bool) -> Result<()> {
        loop {
            if *self.tok() == Tok::End || self.is_symbol(";") {
                if !listed {
                    return Err(self.near());
                }
                return Ok(());
            }
            if self.word("language") {
                spec.language = Some(match self.tok().clone() {
                    Tok::Text(name) => {
                        self.advance();
                        name.to_lowercase()
                    }
                    _ => self.name()?,
                });
            } else if self.word("authid") {
                spec.flags.definer = Some(self.word("definer"));
                if spec.flags.definer == Some(false) {
                    self.expect("current_user")?;
                }
            } else if self.word("deterministic") {
                spec.flags.volatility = Some(Volatility::Immutable);
            } else if self.is("is") || (self.is("as") && !matches!(self.peek(1), Tok::Text(_))) {
                self.advance();
                return self.own_body(spec);
            } else if self.word("as") {
                let Tok::Text(text) = self.tok().clone() else { return Err(self.near()) };
                self.advance();
                if self.is_symbol(",") {
                    return Err(PgError::unsupported("a function in a library"));
                }
                spec.text = Some(text);
            } else if self.is("return") {
                self.advance();
                let from = self.at;
                let range = match self.range_until(&[], &[";"]) {
                    Ok(range) => range,
                    // The statement ends here too.
                    Err(_) => {
                        self.at = from;
                        self.rest_range()?
                    }
                };
                spec.text = Some(format!("select {}", self.cut(&range)));
                spec.language.get_or_insert_with(|| "sql".to_owned());
            } else if self.words(&["begin", "atomic"]) {
                let from = self.at;
                let range = self.range_until_end()?;
                spec.text = Some(self.cut(&(from..range)).to_owned());
                spec.language.get_or_insert_with(|| "sql".to_owned());
            } else if self.words(&["returns", "null", "on", "null", "input"]) {
                spec.flags.strict = Some(true);
            } else if !self.flag(&mut spec.flags)? {
                return Err(self.near());
            }
        }
    }

    /// One of the clauses that ALTER knows too.
    pub(super) fn flag(&mut self, flags: &mut RoutineFlags) -> Result<bool> {
        if self.word("immutable") {
            flags.volatility = Some(Volatility::Immutable);
        } else if self.word("stable") {
            flags.volatility = Some(Volatility::Stable);
        } else if self.word("volatile") {
            flags.volatility = Some(Volatility::Volatile);
        } else if self.word("strict") || self.words(&["returns", "null", "on", "null", "input"]) {
            flags.strict = Some(true);
        } else if self.words(&["called", "on", "null", "input"]) {
            flags.strict = Some(false);
        } else if self.words(&["external", "security"]) || self.word("security") {
            flags.definer = Some(self.word("definer"));
            if flags.definer == Some(false) {
                self.expect("invoker")?;
            }
        } else if self.word("leakproof") {
            flags.options.push(("leakproof".to_owned(), "true".to_owned()));
        } else if self.words(&["not", "leakproof"]) {
            flags.options.push(("leakproof".to_owned(), "false".to_owned()));
        } else if self.word("parallel") {
            let how = self.name()?;
            if !matches!(how.as_str(), "safe" | "unsafe" | "restricted") {
                let text = "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE";
                return Err(self.error("22023", text));
            }
            flags.options.push(("parallel".to_owned(), how));
        } else if self.is("cost") || self.is("rows") {
            let name = self.name()?;
            let token = self.tokens[self.at].clone();
            if token.tok != Tok::Number {
                return Err(self.near());
            }
            self.advance();
            flags.options.push((name, self.text[token.at..token.end].to_owned()));
        } else if self.is("set") || self.is("reset") {
            return Err(PgError::unsupported("SET for the time of a function"));
        } else if self.is_any(&["window", "transform", "support"]) {
            let what = self.name()?.to_uppercase();
            return Err(PgError::unsupported(format!("{what} of a function")));
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    /// A body in the field's form: declarations, and a block.
    fn own_body(&mut self, spec: &mut RoutineSpec) -> Result<()> {
        if self.is_any(&["language", "external"]) {
            return Err(PgError::unsupported("a routine of another language"));
        }
        let begin = self.tokens[self.at].at;
        let head = &self.text[self.first..begin];
        let lines = head::lines_of(head);
        let rest = format!("{lines}{}", &self.text[begin..]);
        // Places in it are told as those of the whole.
        let before = self.text[..begin].chars().count();
        let in_whole = |error: PgError| {
            let at = error.position.and_then(|at| usize::try_from(at).ok());
            let at = at.and_then(|at| at.checked_sub(lines.len())).map(|at| at + before);
            PgError { position: at.and_then(|at| u32::try_from(at).ok()), ..error }
        };
        let len = super::parse::own_body_len(&rest, &spec.name, &spec.args, !spec.procedure);
        let len = len.map_err(in_whole)?;
        let end = begin + (len - lines.len());
        while self.tokens[self.at].at < end && *self.tok() != Tok::End {
            self.advance();
        }
        let text = rest[..len].trim_end().trim_end_matches(';');
        spec.text = Some(text.trim_end().to_owned());
        spec.flags.options.push((HEAD.to_owned(), head::kept(head)));
        spec.language = Some("plsql".to_owned());
        // The field's dates have a time of day.
        let dated = |ty: &mut String| {
            if ty.eq_ignore_ascii_case("date") {
                "timestamp".clone_into(ty);
            }
        };
        spec.args.iter_mut().for_each(|arg| dated(&mut arg.ty));
        if let ReturnsSpec::Type { ty, .. } = &mut spec.returns {
            dated(ty);
        }
        Ok(())
    }

    fn rest_range(&mut self) -> Result<std::ops::Range<usize>> {
        let from = self.at;
        self.at = self.tokens.len() - 1;
        if from < self.at { Ok(from..self.at) } else { Err(self.near()) }
    }

    /// Passes over statements up to END, and gives its place.
    fn range_until_end(&mut self) -> Result<usize> {
        let mut cases = 0_usize;
        loop {
            match self.tok() {
                Tok::End => return Err(self.near()),
                Tok::Word(w) if w == "case" => cases += 1,
                Tok::Word(w) if w == "end" && cases > 0 => cases -= 1,
                Tok::Word(w) if w == "end" => {
                    let at = self.at;
                    self.advance();
                    return Ok(at);
                }
                _ => {}
            }
            self.advance();
        }
    }
}

/// Words that begin a clause behind a type.
fn is_clause(word: &str) -> bool {
    [
        "language",
        "as",
        "is",
        "immutable",
        "stable",
        "volatile",
        "strict",
        "called",
        "returns",
        "return",
        "security",
        "external",
        "leakproof",
        "not",
        "parallel",
        "cost",
        "rows",
        "set",
        "window",
        "transform",
        "support",
        "begin",
        "authid",
        "deterministic",
    ]
    .contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(text: &str) -> RoutineSpec {
        definition(text).expect("readable").expect("a definition").0
    }

    #[test]
    fn arguments_have_names_modes_types_and_defaults() {
        let text = "create or replace function s.f(int, a double precision, inout b numeric(5,2) \
                    default 1.5, c out text, variadic d int[] = '{}', \"E\" timestamp with time \
                    zone) returns record language plpgsql stable strict as $$ begin end $$";
        let got = spec(text);
        let all = got.args.iter().map(|a| (a.name.as_str(), a.mode.code(), a.ty.as_str()));
        assert_eq!(
            all.collect::<Vec<_>>(),
            [
                ("", "i", "int"),
                ("a", "i", "double precision"),
                ("b", "b", "numeric(5,2)"),
                ("c", "o", "text"),
                ("d", "v", "int[]"),
                ("E", "i", "timestamp with time zone"),
            ]
        );
        assert_eq!(got.args[2].default.as_deref(), Some("1.5"));
        assert_eq!((got.schema.as_deref(), got.name.as_str(), got.replace), (Some("s"), "f", true));
        assert_eq!(got.text.as_deref(), Some(" begin end "));
        assert_eq!(got.flags.volatility, Some(Volatility::Stable));
        assert_eq!(got.returns, ReturnsSpec::Type { ty: "record".into(), set: false });
    }

    #[test]
    fn the_fields_form_ends_with_its_block() {
        let text = "create function f(x in number default 1, y in out nocopy varchar2) return \
                    number is z number := 2; begin return z; end f; select 1";
        let (got, len) = definition(text).expect("readable").expect("a definition");
        assert_eq!(&text[len..], " select 1");
        assert_eq!(got.text.as_deref(), Some("z number := 2; begin return z; end f"));
        assert_eq!(got.language.as_deref(), Some("plsql"));
        assert_eq!(got.args[1].mode, ArgumentMode::InOut);
        let plain = "create procedure p as begin null; end;";
        assert_eq!(spec(plain).text.as_deref(), Some("begin null; end"));
        let head = ("head".to_owned(), "procedure p as ".to_owned());
        assert_eq!(spec(plain).flags.options, [head]);
    }

    #[test]
    fn lines_of_the_fields_form_are_those_that_were_typed() {
        let text = "create or replace\nprocedure p -- why\nis\n a int;\nbegin\n null;\nend;";
        let got = spec(text);
        assert_eq!(got.text.as_deref(), Some("\n\na int;\nbegin\n null;\nend"));
        let head = ("head".to_owned(), "procedure p -- why\\nis\\n ".to_owned());
        assert_eq!(got.flags.options, [head]);
        let wrong = "create or replace\nprocedure p is\nbegin\n if;\nend;";
        let error = definition(wrong).expect_err("it is wrong");
        let context = error.about.and_then(|about| about.context);
        assert_eq!(context.as_deref(), Some("line 3 of the block"));
    }

    #[test]
    fn bodies_of_sql_are_texts() {
        let atomic = "create function f() returns int begin atomic select 1; select case when \
                      true then 2 end; end";
        assert_eq!(
            spec(atomic).text.as_deref().map(str::trim),
            Some("select 1; select case when true then 2 end;")
        );
        let short = spec("create function g(a int) returns table (x int, y text) return a + 1");
        assert_eq!((short.text.as_deref(), short.args.len()), (Some("select a + 1"), 3));
        assert_eq!(short.returns, ReturnsSpec::Table);
        assert!(definition("create function f(").is_err());
        assert!(definition("create table t (a int)").expect("readable").is_none());
    }
}
