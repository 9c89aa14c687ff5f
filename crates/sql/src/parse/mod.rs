//! Text to statements: splitting, PostgreSQL's grammar, and a small one of our own in front of it
//! for what the
//! library does not parse.
//!
//! What it promises: one statement a time, with the position of a syntax error. What it must never
//! do: accept
//! text after a statement's end.

mod balance;
mod code;
mod edit;
mod field;
mod kept;
mod keyed;
mod lift;
mod located;
mod own;
mod phrases;
mod procedures;
mod reading;
mod storage;
mod syntax;
mod system;
mod tables;
#[cfg(test)]
mod testing;
mod unsupported;

pub(crate) use field::WAIT;
pub(crate) use keyed::keyed;
pub use lift::Lifted;
pub(crate) use lift::{lift, without_end};
pub(crate) use located::{located, located_in_code};
use own::parse_own;
pub(crate) use procedures::{ANY_OF_RULE, procedure};
pub(crate) use reading::Words;
pub(crate) use storage::{BITMAP, LOGGED, REVERSE};
use syntax::syntax_error;
pub use system::{AlterSystem, Scope};
pub(crate) use tables::STORED;

use crate::access::Access;
use crate::cursor::{Declare, Fetch};
use crate::dialect::OwnDialect;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::Statement as Ast;
use datafusion::sql::sqlparser::keywords::Keyword;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::{Location, Token, TokenWithSpan, Tokenizer};
use kernel::dict::NAME_BYTES_MAX;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

/// A table to look after: its name, and the columns that were named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MaintainedTable {
    pub schema: Option<String>,
    pub name: String,
    pub columns: Vec<String>,
}

/// What VACUUM or ANALYZE is to do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Maintenance {
    pub verbose: bool,
    /// Whether statistics are asked for.
    pub analyze: bool,
    /// Whether a table that somebody else is at work on is left out.
    pub skip_locked: bool,
    /// None: all.
    pub tables: Vec<MaintainedTable>,
}

/// Statements that only we know.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Own {
    Vacuum(Maintenance),
    Analyze(Maintenance),
    Checkpoint,
    ShowParameter(Option<String>),
    CreateSequence(Box<SequenceSpec>),
    Refresh(Refresh),
    AlterSystem(AlterSystem),
    /// `ALTER SYSTEM KILL SESSION`.
    KillSession(Victim),
    /// `ALTER SYSTEM FLUSH SHARED_POOL`.
    FlushSharedPool,
    /// Names and values, in their order.
    AlterSessionSet(Vec<(String, String)>),
    /// A block of procedural code.
    Code(crate::pl::Code),
    /// CREATE FUNCTION or PROCEDURE.
    CreateRoutine(Box<crate::pl::RoutineSpec>),
    /// DROP, ALTER or COMMENT ON of functions and procedures.
    Routine(Box<crate::pl::RoutineCommand>),
    /// A procedure that switches a trace.
    Trace(crate::trace::TraceCall),
    /// A trace of many sessions is switched.
    TraceRule(crate::workload::RuleCall),
    /// A call of `dbms_workload_repository`.
    Repository(crate::workload::RepositoryCall),
    AlterRelation(Box<AlterRelation>),
    /// Roles and privileges.
    Access(Box<Access>),
    Declare(Box<Declare>),
    Fetch(Fetch),
    /// One cursor, or all.
    Close(Option<String>),
    /// `None`: all of them.
    SetConstraints {
        names: Option<Vec<(Option<String>, String)>>,
        deferred: bool,
    },
}

/// A session that is to end, and the instance it must be of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Victim {
    pub sid: u32,
    pub serial: u32,
    pub instance: Option<u8>,
}

/// `REFRESH MATERIALIZED VIEW`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refresh {
    pub concurrently: bool,
    pub schema: Option<String>,
    pub name: String,
    pub no_data: bool,
}

/// The option that stands for WITH NO DATA of a new materialized view.
pub(crate) const NO_DATA: &str = "$no_data";

/// What of `ALTER TABLE`, `ALTER VIEW`, `ALTER INDEX` and `ALTER SEQUENCE` the library does not
/// parse.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AlterRelation {
    /// `TABLE`, `VIEW`, `MATERIALIZED VIEW`, `INDEX`, `SEQUENCE`, `TYPE` or `SCHEMA`.
    pub kind: &'static str,
    pub if_exists: bool,
    pub schema: Option<String>,
    pub name: String,
    pub action: RelationAction,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RelationAction {
    Rename(String),
    RenameColumn {
        old: String,
        new: String,
    },
    SetSchema(String),
    /// SET LOGGED and SET UNLOGGED.
    SetLogged(bool),
    Column {
        name: String,
        change: ColumnChange,
    },
    /// Of a sequence: schema, table and column; `None` for NONE.
    OwnedBy(Option<(Option<String>, String, String)>),
    /// Of a sequence: the options that are to change.
    Options(Box<SequenceSpec>),
    /// Of a table (MOVE) or an index (REBUILD): into a new segment.
    /// Whether the keys of an index are to be turned round, if that is said.
    Rebuild(Option<bool>),
    /// How it is stored, which has no meaning here, as it was written.
    Stored(String),
}

/// What becomes of a column that gets its values by itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ColumnChange {
    DropIdentity {
        if_exists: bool,
    },
    DropExpression {
        if_exists: bool,
    },
    SetGenerated {
        always: bool,
    },
    /// Options of its sequence.
    Sequence(Box<SequenceSpec>),
    /// With a sequence that has a name of its own.
    AddIdentity {
        always: bool,
        spec: Box<SequenceSpec>,
    },
}

/// `CREATE` or `ALTER SEQUENCE`, its options in any order, the field's spellings included.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SequenceSpec {
    pub schema: Option<String>,
    pub name: String,
    pub if_not_exists: bool,
    /// Name of its type, if given.
    pub type_name: Option<String>,
    pub start: Option<i64>,
    pub increment: Option<i64>,
    /// `Some(None)`: `NO MINVALUE`.
    pub min: Option<Option<i64>>,
    pub max: Option<Option<i64>>,
    pub cache: Option<i64>,
    pub cycle: Option<bool>,
    pub order: Option<bool>,
    /// Of `ALTER SEQUENCE`; `Some(None)`: from its start.
    pub restart: Option<Option<i64>>,
}

/// What a statement is.
#[derive(Clone, Debug)]
pub enum Parsed {
    Empty,
    Sql(Box<Ast>),
    Own(Own),
    /// A plan for the text was at hand: parsed if that does not serve any more.
    Unparsed,
    /// As [`Parsed::Unparsed`], but the plan is for a text with parameters.
    Lifted(Box<Lifted>),
}

/// One statement of a message.
#[derive(Clone, Debug)]
pub struct Statement {
    pub text: Arc<str>,
    pub parsed: Parsed,
    /// Highest parameter number.
    pub param_count: usize,
    /// Characters before it in the message that it came in.
    pub before: usize,
    /// It was read in the field's language, in which the same text has another meaning.
    pub exact: bool,
    /// Its parameters, by their numbers, that are computed with as dates of that language.
    pub dates: BTreeSet<usize>,
    /// What the client is told of how it was understood: SQLSTATEs and texts.
    pub notices: Vec<(&'static str, String)>,
}

impl Statement {
    pub(crate) fn empty() -> Statement {
        Statement {
            text: Arc::from(""),
            parsed: Parsed::Empty,
            param_count: 0,
            before: 0,
            exact: false,
            dates: BTreeSet::new(),
            notices: Vec::new(),
        }
    }

    pub(crate) fn unparsed(text: Arc<str>) -> Statement {
        Statement { text, parsed: Parsed::Unparsed, ..Statement::empty() }
    }

    /// The commands around every transaction, which many clients send as texts; `None`: another.
    pub(crate) fn usual(text: &str) -> Option<Statement> {
        const TEXTS: [&str; 4] = ["begin", "commit", "rollback", "end"];
        static PARSED: OnceLock<[Option<Statement>; 4]> = OnceLock::new();
        let at = TEXTS.iter().position(|known| known.eq_ignore_ascii_case(text))?;
        let parsed = PARSED.get_or_init(|| TEXTS.map(|known| parse_single(known).ok()));
        let known = parsed[at].clone()?;
        Some(Statement { text: Arc::from(text), ..known })
    }
}

/// The statements of `text`; none for blanks and comments.
///
/// # Errors
/// 42601.
pub fn split(text: &str) -> Result<Vec<Statement>> {
    let dialect = OwnDialect::default();
    let tokens = Tokenizer::new(&dialect, text).tokenize_with_location().map_err(|error| {
        let position = char_position(text, error.location);
        let escaped = error.message.contains("Unterminated encoded string literal");
        if escaped && has_end(&text[byte_offset(text, error.location)..]) {
            let text = "invalid byte sequence for encoding \"UTF8\"";
            return PgError { position, ..PgError::new("22021", text) };
        }
        if error.message.starts_with("Unterminated string literal") {
            let rest = &text[byte_offset(text, error.location)..];
            let text = format!("unterminated quoted string at or near \"{rest}\"");
            return PgError { position, ..PgError::syntax(text) };
        }
        PgError { position, ..PgError::syntax(error.message) }
    })?;
    let tokens = crate::signed_names::with_signed_names(tokens);
    let tokens = edit::with_signs_apart(edit::with_plain_texts(tokens));
    let mut out = Vec::new();
    let (mut from, mut i) = (0, 0);
    while i < tokens.len() {
        if i == from
            && let Some((statement, len)) = code::statement(text, &tokens[from..])?
        {
            out.push(statement);
            from += len;
            i = from;
            continue;
        }
        let end = matches!(tokens[i].token, Token::SemiColon);
        if end || i + 1 == tokens.len() {
            let part = &tokens[from..if end { i } else { i + 1 }];
            from = i + 1;
            if part.iter().any(|t| !is_space(&t.token)) {
                out.push(parse_one(text, part)?);
            }
        }
        i += 1;
    }
    Ok(out)
}

/// Whether the `E'...'` at the beginning has an end: an error in it is one of a character it names.
fn has_end(text: &str) -> bool {
    let mut bytes = text.bytes().skip_while(|byte| *byte != b'\'').skip(1);
    while let Some(byte) = bytes.next() {
        match byte {
            b'\\' => drop(bytes.next()),
            b'\'' => return true,
            _ => {}
        }
    }
    false
}

/// The one statement of `text`.
///
/// # Errors
/// 42601 if there are several.
pub fn parse_single(text: &str) -> Result<Statement> {
    let mut all = split(text)?;
    if all.len() > 1 {
        return Err(PgError::syntax("cannot insert multiple commands into a prepared statement"));
    }
    Ok(all.pop().unwrap_or_else(Statement::empty))
}

pub(crate) fn is_space(token: &Token) -> bool {
    matches!(token, Token::Whitespace(_) | Token::EOF)
}

/// Byte offset of a location.
pub(crate) fn byte_offset(text: &str, location: Location) -> usize {
    let (mut line, mut column) = (1, 1);
    for (at, c) in text.char_indices() {
        if line == location.line && column == location.column {
            return at;
        }
        if c == '\n' {
            line += 1;
            column = 1;
        } else {
            column += 1;
        }
    }
    text.len()
}

fn char_position(text: &str, location: Location) -> Option<u32> {
    if location.line == 0 {
        return None;
    }
    let at = byte_offset(text, location);
    u32::try_from(text[..at].chars().count() + 1).ok()
}

fn slice_of<'a>(text: &'a str, tokens: &[TokenWithSpan]) -> &'a str {
    let used = |t: &&TokenWithSpan| !is_space(&t.token);
    let (Some(first), Some(last)) = (tokens.iter().find(used), tokens.iter().rev().find(used))
    else {
        return "";
    };
    let (from, to) = (byte_offset(text, first.span.start), byte_offset(text, last.span.end));
    text.get(from..to.max(from)).unwrap_or("")
}

fn parse_one(text: &str, tokens: &[TokenWithSpan]) -> Result<Statement> {
    let param_count = tokens
        .iter()
        .filter_map(|t| match &t.token {
            Token::Placeholder(name) => name.strip_prefix('$')?.parse::<usize>().ok(),
            _ => None,
        })
        .max()
        .unwrap_or(0);
    // The usual message holds one statement and nothing else: no copy of its text is cut out then.
    let own_text: Arc<str> = Arc::from(slice_of(text, tokens));
    let before = tokens
        .iter()
        .find(|t| !is_space(&t.token))
        .map_or(0, |first| text[..byte_offset(text, first.span.start)].chars().count());
    if param_count > usize::from(u16::MAX) {
        return Err(PgError::new("42P02", format!("there is no parameter ${param_count}")));
    }
    let (short, mut notices) = with_short_names(tokens);
    let tokens = short.as_deref().unwrap_or(tokens);
    let logged = storage::without_unlogged(tokens);
    if logged.is_some() {
        notices.push(("00000", LOGGED.to_owned()));
    }
    let tokens = logged.as_deref().unwrap_or(tokens);
    let called = with_call(tokens);
    let tokens = called.as_deref().unwrap_or(tokens);
    let (written, told) = field::written(tokens)?;
    notices.extend(told.into_iter().map(|text| ("00000", text)));
    let tokens = written.as_deref().unwrap_or(tokens);
    let commands = code::speaks_of_routines(tokens);
    let command = match commands {
        true => crate::pl::command(&own_text).map_err(|error| located::moved(error, before))?,
        false => None,
    };
    let own = match command {
        Some(command) => Some(Own::Routine(Box::new(command))),
        None => parse_own(tokens)?,
    };
    if let Some(own) = own {
        let parsed = Parsed::Own(own);
        return Ok(Statement {
            text: own_text,
            parsed,
            param_count,
            before,
            exact: false,
            dates: BTreeSet::new(),
            notices,
        });
    }
    crate::depth::weigh(tokens)?;
    let bitmap = storage::using_bitmap(tokens);
    let tokens = bitmap.as_deref().unwrap_or(tokens);
    let reverse = storage::using_reverse(tokens)?;
    let tokens = reverse.as_deref().unwrap_or(tokens);
    let plain = storage::without(tokens);
    let tokens = plain.as_deref().unwrap_or(tokens);
    let without = without_overriding(tokens);
    let (overriding, tokens) = match &without {
        Some((word, rest)) => (Some(*word), &rest[..]),
        None => (None, tokens),
    };
    let condition = crate::copy_words::condition_at(tokens);
    let (tokens, condition) = match condition {
        Some(at) => (&tokens[..at], Some(&tokens[at + 1..])),
        None => (tokens, None),
    };
    let dialect = OwnDialect::of(tokens);
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(crate::depth::parser_limit())
        .with_tokens_with_locations(crate::words::with_tables(with_known_words(tokens)));
    let mut ast = parser.parse_statement().map_err(|error| syntax_error(text, tokens, error))?;
    let is_long = |t: &&TokenWithSpan| is_word(&t.token, "and") || is_word(&t.token, "or");
    if tokens.iter().filter(is_long).nth(balance::CHAIN_MIN - 2).is_some() {
        balance::balance(&mut ast);
    }
    mark_overriding(&mut ast, overriding)?;
    if let (Ast::Copy { values, .. }, Some(condition)) = (&mut ast, condition) {
        check_expression(text, condition)?;
        *values = vec![Some(slice_of(text, condition).to_owned())];
    }
    let rest = parser.peek_token();
    if rest.token != Token::EOF {
        let position = char_position(text, rest.span.start);
        let error = match unsupported::wanted(tokens, rest.span.start) {
            Some(what) => PgError::unsupported(what),
            None => PgError::syntax(format!("syntax error at or near \"{}\"", rest.token)),
        };
        return Err(PgError { position, ..error });
    }
    let parsed = Parsed::Sql(Box::new(ast));
    let (exact, dates) = (false, BTreeSet::new());
    Ok(Statement { text: own_text, parsed, param_count, before, exact, dates, notices })
}

/// 42601 unless the tokens are one expression.
fn check_expression(text: &str, tokens: &[TokenWithSpan]) -> Result<()> {
    let dialect = OwnDialect::of(tokens);
    let mut parser = Parser::new(&dialect)
        .with_recursion_limit(crate::depth::parser_limit())
        .with_tokens_with_locations(tokens.to_vec());
    parser.parse_expr().map_err(|error| syntax_error(text, tokens, error))?;
    let rest = parser.peek_token();
    if rest.token == Token::EOF {
        return Ok(());
    }
    let error = PgError::syntax(format!("syntax error at or near \"{}\"", rest.token));
    Err(PgError { position: char_position(text, rest.span.start), ..error })
}

/// As much of a name as there is room for.
fn short_name(name: &str) -> &str {
    let mut end = name.len().min(NAME_BYTES_MAX);
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// The tokens with names cut off where they are too long, if there are any, and what is told of
/// these names.
fn with_short_names(
    tokens: &[TokenWithSpan],
) -> (Option<Vec<TokenWithSpan>>, Vec<(&'static str, String)>) {
    let long = |token: &TokenWithSpan| match &token.token {
        Token::Word(word) => word.value.len() > NAME_BYTES_MAX,
        _ => false,
    };
    if !tokens.iter().any(long) {
        return (None, Vec::new());
    }
    let (mut out, mut told) = (tokens.to_vec(), Vec::new());
    for token in out.iter_mut().filter(|token| long(token)) {
        if let Token::Word(word) = &mut token.token {
            if word.quote_style.is_none() {
                word.value = word.value.to_lowercase();
            }
            let short = short_name(&word.value).to_owned();
            let name = std::mem::replace(&mut word.value, short);
            let text = format!("identifier \"{name}\" will be truncated to \"{}\"", word.value);
            told.push(("42622", text));
        }
    }
    (Some(out), told)
}

/// The tokens without INSERT's clause OVERRIDING .. VALUE, which the library does not know, and
/// what it said: `system` or `user`.
fn without_overriding(tokens: &[TokenWithSpan]) -> Option<(&'static str, Vec<TokenWithSpan>)> {
    if !tokens.iter().any(|t| is_word(&t.token, "overriding")) {
        return None;
    }
    let used: Vec<usize> = (0..tokens.len()).filter(|at| !is_space(&tokens[*at].token)).collect();
    let is =
        |at: usize, word: &str| used.get(at).is_some_and(|at| is_word(&tokens[*at].token, word));
    if is(0, "insert") {
        for at in 0..used.len() {
            let words = ["system", "user"];
            let Some(word) = words
                .into_iter()
                .find(|word| is(at, "overriding") && is(at + 1, word) && is(at + 2, "value"))
            else {
                continue;
            };
            let mut rest = tokens.to_vec();
            rest.drain(used[at]..=used[at + 2]);
            return Some((word, rest));
        }
    }
    None
}

/// Notes the clause where the library keeps clauses of other databases, which are refused.
fn mark_overriding(ast: &mut Ast, overriding: Option<&str>) -> Result<()> {
    let Ast::Insert(insert) = ast else { return Ok(()) };
    if insert.overwrite || insert.ignore {
        return Err(PgError::unsupported("this form of INSERT"));
    }
    insert.overwrite = overriding == Some("system");
    insert.ignore = overriding == Some("user");
    Ok(())
}

pub(crate) fn is_word(token: &Token, word: &str) -> bool {
    match token {
        Token::Word(w) => w.quote_style.is_none() && w.value.eq_ignore_ascii_case(word),
        _ => false,
    }
}

/// The field's `EXEC p(1)` as CALL.
fn with_call(tokens: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let first = tokens.iter().position(|t| !is_space(&t.token))?;
    if !is_word(&tokens[first].token, "exec") {
        return None;
    }
    let mut out = tokens.to_vec();
    out[first].token = Token::make_keyword("CALL");
    Some(out)
}

/// What the library knows by one of PostgreSQL's two names only: COPY's options are switched `on`
/// and `off` as well as `true` and `false`.
fn with_known_words(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let out = crate::words::with_fetch_amounts(tokens.to_vec());
    let out = crate::words::with_frames(crate::words::with_row_wildcards(out));
    let out = crate::words::with_row_locks(out);
    let out = crate::idioms::past::with_versions(crate::words::with_spellings(out));
    let out = crate::words::with_plain_names(out);
    let out = crate::idioms::with_marked_words(out);
    let mut used = (0..out.len()).filter(|at| !is_space(&out[*at].token));
    let Some(first) = used.next() else { return out };
    if is_word(&out[first].token, "create") {
        let out = crate::words::with_no_data(out);
        let out = crate::words::with_included(crate::words::with_check_option(out));
        let out = crate::words::with_like(out);
        return with_column_types(with_identity_options(out));
    }
    if is_word(&out[first].token, "alter") {
        return with_identity_options(crate::words::with_included(out));
    }
    if is_word(&out[first].token, "comment") {
        return crate::words::with_constraint_comment(out);
    }
    if is_word(&out[first].token, "update") {
        return crate::subscripts::with_targets(out);
    }
    if is_word(&out[first].token, "merge") {
        return crate::words::with_merge_actions(out);
    }
    if is_word(&out[first].token, "insert") || is_word(&out[first].token, "with") {
        return crate::words::with_predicates(out);
    }
    if !is_word(&out[first].token, "copy") {
        return out;
    }
    let mut out = crate::copy_words::with_copy_options(out);
    let mut switch = false;
    for token in &mut out {
        if is_space(&token.token) {
            continue;
        }
        if switch && (is_word(&token.token, "on") || is_word(&token.token, "off")) {
            let value = if is_word(&token.token, "on") { "true" } else { "false" };
            token.token = Token::make_keyword(value);
        }
        switch = is_word(&token.token, "freeze") || is_word(&token.token, "header");
    }
    out
}

/// The order in which the library reads the options of an identity column's sequence.
fn option_rank(token: &Token) -> Option<usize> {
    let order = ["increment", "minvalue", "maxvalue", "start", "cache", "cycle"];
    order.iter().position(|word| is_word(token, word))
}

/// The options of `AS IDENTITY (..)` in the library's order, whatever order they were written in.
fn with_identity_options(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let used: Vec<TokenWithSpan> = tokens.iter().filter(|t| !is_space(&t.token)).cloned().collect();
    let begins = |at: usize| {
        is_word(&used[at].token, "identity")
            && used.get(at + 1).is_some_and(|t| t.token == Token::LParen)
    };
    if !(0..used.len()).any(begins) {
        return tokens;
    }
    let mut out = Vec::with_capacity(used.len());
    let mut at = 0;
    while at < used.len() {
        out.push(used[at].clone());
        at += 1;
        if !begins(at - 1) {
            continue;
        }
        out.push(used[at].clone());
        at += 1;
        let mut options: Vec<(usize, Vec<TokenWithSpan>)> = Vec::new();
        while at < used.len() && used[at].token != Token::RParen {
            let no = is_word(&used[at].token, "no");
            let word = used.get(at + usize::from(no)).and_then(|t| option_rank(&t.token));
            match (word, options.last_mut()) {
                (Some(rank), _) => {
                    let length = 1 + usize::from(no);
                    options.push((rank, used[at..at + length].to_vec()));
                    at += length;
                }
                (None, Some((_, option))) => {
                    option.push(used[at].clone());
                    at += 1;
                }
                // What the library will not understand either.
                (None, None) => {
                    options.push((0, vec![used[at].clone()]));
                    at += 1;
                }
            }
        }
        options.sort_by_key(|(rank, _)| *rank);
        out.extend(options.into_iter().flat_map(|(_, option)| option));
    }
    // The end of the text, at which errors are told.
    out.extend(tokens.last().filter(|t| t.token == Token::EOF).cloned());
    out
}

/// The type given to columns that have none.
pub(crate) const NO_TYPE: &str = "$none";

/// The library wants a type for each column: those of CREATE TABLE t (a, b) AS get one that says
/// there is none.
fn with_column_types(tokens: Vec<TokenWithSpan>) -> Vec<TokenWithSpan> {
    let open = tokens.iter().position(|t| t.token == Token::LParen);
    let close = tokens.iter().position(|t| t.token == Token::RParen);
    let (Some(open), Some(close)) = (open, close) else { return tokens };
    let after = tokens.iter().skip(close + 1).find(|t| !is_space(&t.token));
    let names = tokens.get(open + 1..close).unwrap_or_default();
    let mut used = names.iter().filter(|t| !is_space(&t.token));
    let mut is_list = true;
    while is_list {
        is_list = used.next().is_some_and(|t| matches!(t.token, Token::Word(_)));
        match used.next() {
            None => break,
            Some(t) => is_list &= t.token == Token::Comma,
        }
    }
    let is_table = tokens.iter().take(open).any(|t| is_word(&t.token, "table"));
    if !is_list || !is_table || !after.is_some_and(|t| is_word(&t.token, "as")) {
        return tokens;
    }
    let mut out = Vec::with_capacity(tokens.len() * 2);
    for (i, token) in tokens.into_iter().enumerate() {
        let span = token.span;
        let name = open < i && i < close && matches!(token.token, Token::Word(_));
        out.push(token);
        if name {
            let ty = Token::make_word(NO_TYPE, Some('"'));
            out.push(TokenWithSpan { token: ty, span });
        }
    }
    out
}

#[cfg(test)]
mod tests;
