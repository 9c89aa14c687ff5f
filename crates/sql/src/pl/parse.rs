//! From text to procedural code, in PL/pgSQL and in the field's language, which are alike enough
//! for one grammar.
//!
//! What it promises: names of variables are found where they stand for themselves, and the block's
//! end is found without its statements being understood. What it must never do: guess: what is
//! neither is a syntax error with its line.

use super::conditions::states_of;
use super::lex::{Tok, Token, line_of, position_of, tokens};
use super::tree::{
    Block, Condition, CursorDef, Dialect, FIXED_SLOTS, FOUND, Handler, Kind, MESSAGE, NUMBER,
    Program, Returned, Routine, Rows, STATE, Slot, Sql, Statement, TypeName,
};
use super::types::CollectionSpec;
use crate::{PgError, Result};
use kernel::dict::ArgumentMode;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

/// Statements in each other.
const DEPTH_MAX: usize = 100;

/// Words before the one at hand among which an error may name one.
const NAMED_BEFORE_MAX: usize = 4;

/// Names of one block or loop.
#[derive(Default)]
pub(super) struct Scope {
    label: Option<String>,
    is_loop: bool,
    /// Of a procedure or function of the block: nothing inside ends a loop around.
    is_routine: bool,
    names: BTreeMap<String, Name>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Name {
    Scalar(Slot),
    Record(Slot),
    Cursor(Slot),
    Exception(usize),
    Collection(Slot),
    /// A type, and that of cursor variables.
    Type(usize),
    CursorType,
    /// A procedure or function of the block.
    Routine(usize),
}

pub(super) struct Parser<'a> {
    pub(super) text: &'a str,
    pub(super) tokens: Vec<Token>,
    pub(super) at: usize,
    /// Where line 1 begins.
    pub(super) first: usize,
    /// The word that the statement or declaration at hand begins with.
    pub(super) begun: usize,
    pub(super) dialect: Dialect,
    scopes: Vec<Scope>,
    slots: usize,
    pub(super) statements: usize,
    pub(super) exceptions: usize,
    depth: usize,
    pub(super) cursors: Vec<CursorDef>,
    /// Cursor variables whose cursors stay open behind a block.
    pub(super) kept: Vec<Slot>,
    pub(super) numbers: Vec<(usize, i32)>,
    /// Variables that the field's code declares as dates.
    pub(super) dates: BTreeSet<Slot>,
    /// Records that loops declare.
    pub(super) records: Vec<(Slot, String)>,
    pub(super) returning: Returning,
    /// Types that the code declares, those of its collections, and its routines.
    pub(super) types: Vec<TypeName>,
    pub(super) collections: BTreeMap<Slot, Arc<CollectionSpec>>,
    pub(super) routines: Vec<Routine>,
    /// The routine of the block that is being read.
    pub(super) local: Option<usize>,
    /// Labels that GOTO names and that have not been found yet.
    pub(super) gotos: Vec<String>,
    /// What is wrong with a value inside the SQL of the statement at hand.
    pub(super) failed: Option<PgError>,
}

/// The block that `text` begins with.
///
/// # Errors
/// 42601 with the line.
pub(super) fn parse(text: &str, dialect: Dialect) -> Result<Program> {
    let mut parser = Parser::new(text, dialect)?;
    parser.refuse_parameters(0)?;
    let label = parser.label()?;
    let block = parser.block(label)?;
    parser.program(block)
}

/// A block of the field's with values that are bound to it; which of them are cursors.
///
/// # Errors
/// 42601 with the line.
pub(super) fn parse_bound(text: &str, cursors: &[bool]) -> Result<Program> {
    let mut parser = Parser::new(text, Dialect::Field)?;
    let count = cursors.len();
    let arg = |is_cursor: &bool| Argument {
        name: "",
        mode: ArgumentMode::In,
        is_date: false,
        is_cursor: *is_cursor,
    };
    let args = cursors.iter().map(arg).collect();
    let (returning, shown) = (Returning::Nothing, String::new());
    let (given, _) = parser.arguments(&Around { name: "", args, returning, shown })?;
    parser.refuse_parameters(count)?;
    let label = parser.label()?;
    let block = parser.block(label)?;
    if *parser.tok() != Tok::End && !(parser.is_symbol(";") && *parser.peek(1) == Tok::End) {
        parser.advance();
        return Err(parser.near());
    }
    Ok(Program { given, kept: Vec::new(), ..parser.program(block)? })
}

/// An argument as a routine's body knows it.
#[derive(Clone, Copy)]
pub(super) struct Argument<'a> {
    /// Empty: it has none.
    pub(super) name: &'a str,
    pub(super) mode: ArgumentMode,
    /// Whether it is a date as the field has it.
    pub(super) is_date: bool,
    /// Whether it names a cursor.
    pub(super) is_cursor: bool,
}

/// What a routine's body knows of it.
pub(super) struct Around<'a> {
    pub(super) name: &'a str,
    pub(super) args: Vec<Argument<'a>>,
    pub(super) returning: Returning,
    /// How it is called where an error happened.
    pub(super) shown: String,
}

/// What RETURN gives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Returning {
    Nothing,
    Value,
    /// What the OUT arguments hold.
    Arguments,
    /// A row of several columns.
    Row,
    /// Rows; whether their columns are arguments.
    Set(bool),
}

/// The body of a routine.
///
/// # Errors
/// 42601 with the line.
pub(super) fn parse_routine(text: &str, dialect: Dialect, around: &Around<'_>) -> Result<Program> {
    let mut parser = Parser::new(text, dialect)?;
    parser.returning = around.returning;
    let (given, results) = parser.arguments(around)?;
    parser.refuse_parameters(given.len())?;
    let block = match dialect {
        Dialect::Pg => {
            let label = parser.label()?;
            parser.block(label)?
        }
        Dialect::Field => {
            // As blocks are, if it says so.
            let _ = parser.word("declare");
            parser.block_behind(Some(around.name.to_owned()), true)?
        }
    };
    let program = parser.program(block)?;
    Ok(Program { given, results, kept: Vec::new(), shown: around.shown.clone(), ..program })
}

/// Statements of SQL, the last of which gives the result.
///
/// # Errors
/// 42601; 42P13 for one that gives nothing where something is wanted.
pub(super) fn parse_sql(text: &str, around: &Around<'_>) -> Result<Program> {
    let mut parser = Parser::new(text, Dialect::Pg)?;
    let (given, results) = parser.arguments(around)?;
    parser.refuse_parameters(given.len())?;
    let mut body = Vec::new();
    while *parser.tok() != Tok::End {
        if parser.symbol(";") {
            continue;
        }
        let line = u32::try_from(body.len() + 1).unwrap_or(u32::MAX);
        let range = parser.statement_range();
        let is_last = parser.rest_is_empty();
        let sql = parser.sql_of(std::slice::from_ref(&range), true);
        let kind = match (is_last, around.returning) {
            (true, Returning::Set(_)) => Kind::ReturnQuery(Rows::Static(sql)),
            (true, Returning::Value | Returning::Row | Returning::Arguments) => {
                Kind::Return(Some(Returned::First(sql)))
            }
            _ => Kind::Sql { sql, into: None, perform: true, is_query: true },
        };
        body.push(Statement { line, label: None, kind });
    }
    if body.is_empty() && around.returning != Returning::Nothing {
        let text = "return type mismatch in function declared to return something";
        return Err(PgError::new("42P13", text).with_detail(
            "Function's final statement must be SELECT or INSERT/UPDATE/DELETE RETURNING.",
        ));
    }
    let block = Block { label: None, variables: Vec::new(), body, handlers: Vec::new() };
    let program = parser.program(block)?;
    Ok(Program { given, results, shown: around.shown.clone(), is_sql: true, ..program })
}

/// Length of a body in the field's form, which begins with its declarations.
///
/// # Errors
/// 42601: it has no end.
pub(super) fn own_body_len(
    text: &str,
    name: &str,
    args: &[super::define::ArgumentSpec],
    is_function: bool,
) -> Result<usize> {
    let mut parser = Parser::new(text, Dialect::Field)?;
    parser.returning = if is_function { Returning::Value } else { Returning::Nothing };
    let known = args.iter();
    let args = known
        .map(|arg| Argument {
            name: arg.name.as_str(),
            mode: arg.mode,
            is_date: false,
            is_cursor: names_cursor_type(arg.ty.trim()),
        })
        .collect();
    let around = Around { name, args, returning: parser.returning, shown: String::new() };
    parser.arguments(&around)?;
    let _ = parser.word("declare");
    let block = parser.block_behind(Some(name.to_owned()), true)?;
    parser.program(block).map(|program| program.len)
}

/// Whether a type is that of variables that name cursors.
pub(super) fn names_cursor_type(name: &str) -> bool {
    ["refcursor", "sys_refcursor"].iter().any(|known| known.eq_ignore_ascii_case(name))
}

/// `sys.dbms_lock.sleep(1)` without the schema, under which the field has its packages.
fn without_sys(mut tokens: Vec<Token>) -> Vec<Token> {
    let is_sys = |at: usize| {
        matches!(&tokens[at].tok, Tok::Word(word) if word == "sys")
            && tokens.get(at + 1).is_some_and(|next| next.tok == Tok::Symbol("."))
            && matches!(tokens.get(at + 2).map(|next| &next.tok),
                Some(Tok::Word(name)) if crate::sys_names::is_of_sys(name))
            && (at == 0 || tokens[at - 1].tok != Tok::Symbol("."))
    };
    let found: Vec<usize> = (0..tokens.len()).filter(|at| is_sys(*at)).collect();
    for at in found.into_iter().rev() {
        tokens.drain(at..at + 2);
    }
    tokens
}

impl<'a> Parser<'a> {
    pub(super) fn new(text: &'a str, dialect: Dialect) -> Result<Parser<'a>> {
        let mut parser = Parser {
            text,
            tokens: without_sys(tokens(text)?),
            at: 0,
            first: 0,
            begun: 0,
            dialect,
            scopes: vec![Scope::default()],
            slots: FIXED_SLOTS,
            statements: 0,
            exceptions: 0,
            depth: 0,
            cursors: Vec::new(),
            kept: Vec::new(),
            numbers: Vec::new(),
            dates: BTreeSet::new(),
            records: Vec::new(),
            returning: Returning::Nothing,
            types: Vec::new(),
            collections: BTreeMap::new(),
            routines: Vec::new(),
            local: None,
            gotos: Vec::new(),
            failed: None,
        };
        for (name, slot) in
            [("found", FOUND), ("sqlstate", STATE), ("sqlerrm", MESSAGE), ("sqlcode", NUMBER)]
        {
            if dialect == Dialect::Field || name != "sqlcode" {
                parser.scopes[0].names.insert(name.to_owned(), Name::Scalar(slot));
            }
        }
        Ok(parser)
    }

    /// Variables in SQL become parameters of its statements: those that a text may name by number
    /// are the arguments.
    fn refuse_parameters(&self, given: usize) -> Result<()> {
        for token in &self.tokens {
            let Tok::Word(word) = &token.tok else { continue };
            let Some(number) = word.strip_prefix('$') else { continue };
            if number.parse::<usize>().map_or(true, |n| n == 0 || n > given) {
                return Err(PgError::new("42P02", format!("there is no parameter {word}")));
            }
        }
        Ok(())
    }

    /// Declares the arguments of a routine: places of what is given, and of what is the result.
    fn arguments(&mut self, around: &Around<'_>) -> Result<(Vec<Slot>, Vec<Slot>)> {
        self.enter(Some(around.name.to_owned()), false);
        let (mut given, mut results) = (Vec::new(), Vec::new());
        for Argument { name, mode, is_date, is_cursor } in &around.args {
            let slot = self.new_slot();
            if *is_date && self.dialect == Dialect::Field {
                self.dates.insert(slot);
            }
            let what = match is_cursor {
                true => {
                    self.add_cursor(slot, None, Vec::new());
                    Name::Cursor(slot)
                }
                false => Name::Scalar(slot),
            };
            if mode.is_given() {
                given.push(slot);
                self.declare(&format!("${}", given.len()), what)?;
            }
            if mode.is_result() {
                results.push(slot);
            }
            if !name.is_empty() {
                self.declare(name, what)?;
            }
        }
        Ok((given, results))
    }

    /// What has been read; a block ends with the text in PL/pgSQL.
    fn program(mut self, block: Block) -> Result<Program> {
        self.check_gotos(0)?;
        let end = self.at;
        let _ = self.symbol(";");
        if self.dialect == Dialect::Pg && *self.tok() != Tok::End {
            return Err(self.near());
        }
        let last = self.at.max(end).saturating_sub(1);
        Ok(Program {
            dialect: self.dialect,
            block,
            slots: self.slots,
            statements: self.statements,
            cursors: self.cursors,
            numbers: self.numbers,
            records: self.records,
            routines: self.routines.into(),
            given: Vec::new(),
            results: Vec::new(),
            kept: self.kept,
            shown: "PL/pgSQL function inline_code_block".to_owned(),
            is_sql: false,
            len: self.tokens[last].end,
        })
    }

    /// The words up to a `;` or the end.
    fn statement_range(&mut self) -> Range<usize> {
        let from = self.at;
        while !matches!(self.tok(), Tok::End | Tok::Symbol(";")) {
            self.advance();
        }
        from..self.at
    }

    fn rest_is_empty(&self) -> bool {
        let rest = &self.tokens[self.at..];
        rest.iter().all(|token| matches!(token.tok, Tok::End | Tok::Symbol(";")))
    }

    // ---- words ------------------------------------------------------------------------------

    pub(super) fn tok(&self) -> &Tok {
        &self.tokens[self.at].tok
    }

    pub(super) fn peek(&self, ahead: usize) -> &Tok {
        let at = (self.at + ahead).min(self.tokens.len() - 1);
        &self.tokens[at].tok
    }

    pub(super) fn advance(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    pub(super) fn is(&self, word: &str) -> bool {
        matches!(self.tok(), Tok::Word(w) if w == word)
    }

    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    pub(super) fn word(&mut self, word: &str) -> bool {
        let found = self.is(word);
        if found {
            self.advance();
        }
        found
    }

    pub(super) fn words(&mut self, words: &[&str]) -> bool {
        let all = words.iter().enumerate();
        let found =
            all.into_iter().all(|(i, word)| matches!(self.peek(i), Tok::Word(w) if w == word));
        if found {
            self.at += words.len();
        }
        found
    }

    pub(super) fn expect(&mut self, word: &str) -> Result<()> {
        if self.word(word) { Ok(()) } else { Err(self.near()) }
    }

    pub(super) fn is_symbol(&self, symbol: &str) -> bool {
        matches!(self.tok(), Tok::Symbol(s) if *s == symbol)
    }

    pub(super) fn symbol(&mut self, symbol: &str) -> bool {
        let found = self.is_symbol(symbol);
        if found {
            self.advance();
        }
        found
    }

    /// Whether a symbol is so many words ahead.
    pub(super) fn is_at(&self, ahead: usize, symbol: &str) -> bool {
        matches!(self.peek(ahead), Tok::Symbol(s) if *s == symbol)
    }

    pub(super) fn expect_symbol(&mut self, symbol: &str) -> Result<()> {
        if self.symbol(symbol) { Ok(()) } else { Err(self.near()) }
    }

    pub(super) fn line(&self) -> u32 {
        self.line_at(self.at)
    }

    /// The line of a word.
    fn line_at(&self, at: usize) -> u32 {
        line_of(&self.text[self.first..], self.tokens[at].at.saturating_sub(self.first))
    }

    /// A syntax error at the word at hand.
    pub(super) fn near(&self) -> PgError {
        let token = &self.tokens[self.at];
        let text = match token.tok {
            Tok::End => "syntax error at end of input".to_owned(),
            _ => format!("syntax error at or near \"{}\"", &self.text[token.at..token.end]),
        };
        // The end is where the last word ends.
        let last = self.at.checked_sub(1).filter(|_| token.tok == Tok::End);
        let at = last.map_or(token.at, |last| self.tokens[last].end);
        let error = self.in_line(self.line(), PgError::new("42601", text));
        PgError { position: position_of(self.text, at), ..error }
    }

    fn in_line(&self, line: u32, mut error: PgError) -> PgError {
        error.about.get_or_insert_default().context = Some(format!("line {line} of the block"));
        error
    }

    /// An error with its line, and the position of what it names if that stands at the word at hand
    /// or was just read. One of a statement that has been read to its `;` is where that begins.
    pub(super) fn error(&self, code: &'static str, text: impl Into<String>) -> PgError {
        let ended = matches!(self.tokens[self.at.saturating_sub(1)].tok, Tok::Symbol(";"));
        let begun = (self.begun < self.at && ended).then_some(self.begun);
        let error = PgError::new(code, text);
        let mut error = self.in_line(self.line_at(begun.unwrap_or(self.at)), error);
        let place = self.named_at(&error.message).or(begun.map(|at| self.tokens[at].at));
        error.position = place.and_then(|at| position_of(self.text, at));
        error
    }

    /// Where the last word up to the one at hand stands that a message has in quotes.
    fn named_at(&self, message: &str) -> Option<usize> {
        let named = message.split('"').nth(1)?;
        let is_named = |token: &&Token| match &token.tok {
            Tok::Word(name) | Tok::Quoted(name) => name == named,
            _ => false,
        };
        let read = &self.tokens[self.at.saturating_sub(NAMED_BEFORE_MAX)..=self.at];
        read.iter().rfind(is_named).map(|token| token.at)
    }

    /// 0A000 with what to do instead.
    pub(super) fn unsupported(&self, what: impl std::fmt::Display, hint: &str) -> PgError {
        self.error("0A000", format!("{what} is not supported")).with_hint(hint)
    }

    pub(super) fn name(&mut self) -> Result<String> {
        let name = match self.tok() {
            Tok::Word(word) => word.clone(),
            Tok::Quoted(name) => name.clone(),
            _ => return Err(self.near()),
        };
        self.advance();
        Ok(name)
    }

    // ---- names ------------------------------------------------------------------------------

    pub(super) fn lookup(&self, name: &str) -> Option<Name> {
        self.scopes.iter().rev().find_map(|scope| scope.names.get(name).copied())
    }

    /// What a label's block calls so.
    pub(super) fn lookup_in(&self, label: &str, name: &str) -> Option<Name> {
        let labelled = |scope: &&Scope| scope.label.as_deref() == Some(label);
        // A routine's arguments and its block go by the same name.
        let mut scopes = self.scopes.iter().rev().filter(labelled);
        scopes.find_map(|scope| scope.names.get(name).copied())
    }

    /// What is called so in the block at hand.
    pub(super) fn lookup_here(&self, name: &str) -> Option<Name> {
        self.scopes.last()?.names.get(name).copied()
    }

    /// How many places there are.
    pub(super) const fn slots(&self) -> usize {
        self.slots
    }

    pub(super) fn new_slot(&mut self) -> Slot {
        self.slots += 1;
        self.slots - 1
    }

    pub(super) fn declare(&mut self, name: &str, what: Name) -> Result<()> {
        let scope = self.scopes.last_mut().expect("a scope is open");
        if scope.names.insert(name.to_owned(), what).is_some() {
            return Err(self.error("42601", format!("duplicate declaration of \"{name}\"")));
        }
        Ok(())
    }

    /// One statement further in.
    pub(super) fn deeper(&mut self) -> Result<()> {
        self.depth += 1;
        match self.depth > DEPTH_MAX {
            true => Err(self.error("54001", "statements are nested too deep")),
            false => Ok(()),
        }
    }

    pub(super) fn shallower(&mut self) {
        self.depth -= 1;
    }

    pub(super) fn enter(&mut self, label: Option<String>, is_loop: bool) {
        self.scopes.push(Scope { label, is_loop, ..Scope::default() });
    }

    pub(super) fn enter_routine(&mut self, name: &str) {
        let label = Some(name.to_owned());
        self.scopes.push(Scope { label, is_routine: true, ..Scope::default() });
    }

    /// Whether what is read belongs to a block that is a statement by itself, and to none inside.
    pub(super) fn is_outermost(&self) -> bool {
        // The first scope has what all code knows; a routine's arguments have one around its block.
        self.scopes.len() == 2
    }

    pub(super) fn leave(&mut self) {
        self.scopes.pop();
    }

    /// Whether EXIT, or CONTINUE, finds what it ends.
    pub(super) fn ends_something(&self, label: Option<&str>, again: bool) -> bool {
        let inside = self.scopes.iter().rev().take_while(|scope| !scope.is_routine);
        inside.into_iter().any(|scope| match label {
            Some(_) => scope.label.as_deref() == label && (scope.is_loop || !again),
            None => scope.is_loop,
        })
    }

    // ---- pieces of SQL ----------------------------------------------------------------------

    /// The words up to one of these, outside of parentheses and CASE, which is left.
    pub(super) fn range_until(&mut self, words: &[&str], symbols: &[&str]) -> Result<Range<usize>> {
        let from = self.at;
        let (mut open, mut cases) = (0_usize, 0_usize);
        loop {
            match self.tok() {
                Tok::End => return Err(self.near()),
                Tok::Symbol("(" | "[") => open += 1,
                Tok::Symbol(")" | "]") if open > 0 => open -= 1,
                Tok::Symbol(s) if open == 0 && cases == 0 && symbols.contains(s) => break,
                // A statement without its end.
                Tok::Symbol(";") => return Err(self.near()),
                Tok::Word(w) if w == "case" => cases += 1,
                Tok::Word(w) if w == "end" && cases > 0 => cases -= 1,
                Tok::Word(w) if open == 0 && cases == 0 && words.contains(&w.as_str()) => break,
                _ => {}
            }
            self.advance();
        }
        if self.at == from {
            return Err(self.near());
        }
        Ok(from..self.at)
    }

    pub(super) fn expr_until(&mut self, words: &[&str], symbols: &[&str]) -> Result<Sql> {
        let range = self.range_until(words, symbols)?;
        let end = self.at;
        let sql = self.expression(range);
        self.at = end;
        match self.failed.take() {
            Some(error) => Err(error),
            None => Ok(sql),
        }
    }

    /// An expression and the `;` behind it.
    pub(super) fn expr_to_end(&mut self) -> Result<Sql> {
        let expr = self.expr_until(&[], &[";"])?;
        self.expect_symbol(";")?;
        Ok(expr)
    }

    pub(super) fn condition_until(&mut self, word: &str) -> Result<Sql> {
        let condition = self.expr_until(&[word], &[])?;
        self.expect(word)?;
        Ok(condition)
    }

    // ---- blocks -----------------------------------------------------------------------------

    pub(super) fn label(&mut self) -> Result<Option<String>> {
        if !self.symbol("<<") {
            return Ok(None);
        }
        let name = self.name()?;
        self.expect_symbol(">>")?;
        Ok(Some(name))
    }

    /// A block up to its END and label.
    pub(super) fn block(&mut self, label: Option<String>) -> Result<Block> {
        let declares = self.word("declare");
        self.block_behind(label, declares)
    }

    /// A block behind its DECLARE; whether there are declarations.
    pub(super) fn block_behind(&mut self, label: Option<String>, declares: bool) -> Result<Block> {
        self.enter(label.clone(), false);
        let mut variables = Vec::new();
        if declares {
            while !self.is("begin") {
                if !self.word("declare") {
                    self.begun = self.at;
                    self.declaration(&mut variables)?;
                    if let Some(error) = self.failed.take() {
                        return Err(error);
                    }
                }
            }
        }
        self.begun = self.at;
        self.check_bodies()?;
        self.expect("begin")?;
        let body = self.statements_until(&["end", "exception"])?;
        let mut handlers = Vec::new();
        if self.word("exception") {
            while self.word("when") {
                handlers.push(self.handler()?);
            }
            if handlers.is_empty() {
                return Err(self.near());
            }
        }
        self.expect("end")?;
        self.end_label(label.as_deref())?;
        self.leave();
        Ok(Block { label, variables, body, handlers })
    }

    pub(super) fn end_label(&mut self, label: Option<&str>) -> Result<()> {
        if matches!(self.tok(), Tok::Word(_) | Tok::Quoted(_)) {
            let name = self.name()?;
            if label != Some(name.as_str()) {
                let text = format!("end label \"{name}\" is not the block's or the loop's");
                return Err(self.error("42601", text));
            }
        }
        Ok(())
    }

    /// What is declared among the routines of a block must be written, too.
    fn check_bodies(&self) -> Result<()> {
        let Some(scope) = self.scopes.last() else { return Ok(()) };
        let missing = scope.names.iter().find_map(|(name, what)| match what {
            Name::Routine(at) if self.routines[*at].block.is_none() => Some(name),
            _ => None,
        });
        match missing {
            Some(name) => Err(self.error("42601", format!("\"{name}\" has no body"))),
            None => Ok(()),
        }
    }

    pub(super) fn cut(&self, range: &Range<usize>) -> &'a str {
        if range.is_empty() {
            return "";
        }
        &self.text[self.tokens[range.start].at..self.tokens[range.end - 1].end]
    }

    fn handler(&mut self) -> Result<Handler> {
        let mut conditions = Vec::new();
        loop {
            let name = self.name()?;
            if name == "others" {
                conditions.push(Condition::Others);
            } else if name == "sqlstate" {
                let Tok::Text(code) = self.tok().clone() else { return Err(self.near()) };
                self.advance();
                // `22000` stands for its class.
                let state = code.strip_suffix("000").unwrap_or(&code).to_owned();
                conditions.push(Condition::State(state));
            } else if let Some(Name::Exception(id)) = self.lookup(&name) {
                conditions.push(Condition::Own(id));
            } else {
                let states = states_of(&name);
                if states.is_empty() {
                    let text = format!("unrecognized exception condition \"{name}\"");
                    return Err(self.error("42704", text));
                }
                conditions.extend(states.iter().map(|s| Condition::State((*s).to_owned())));
            }
            if !self.word("or") {
                break;
            }
        }
        self.expect("then")?;
        let body = self.statements_until(&["when", "end"])?;
        Ok(Handler { conditions, body })
    }
}
