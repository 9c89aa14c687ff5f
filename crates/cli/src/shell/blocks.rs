//! Stored code and blocks of the field's language, as far as the shell must know them: semicolons
//! are part of them, and errors in them are told by a line of theirs.
//!
//! What it promises: what PostgreSQL would end at a semicolon ends there. What it must never do:
//! cut a body, whose statements would then be run one by one.

use super::pieces::step;

/// Words, quoted texts and other characters, without what stands between them.
pub(super) struct Tokens<'a> {
    text: &'a str,
    at: usize,
}

/// A word, quoted text or character, and where it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Token<'a> {
    pub(super) at: usize,
    pub(super) text: &'a str,
}

impl Token<'_> {
    pub(super) fn is(&self, word: &str) -> bool {
        self.text.eq_ignore_ascii_case(word)
    }

    pub(super) fn is_any(&self, words: &[&str]) -> bool {
        words.iter().any(|word| self.is(word))
    }

    /// A text in quotes or between dollar signs.
    fn is_text(&self) -> bool {
        let text = self.text;
        text.starts_with('\'')
            || text.len() > 1 && text.starts_with('$')
            || text.starts_with(['e', 'E']) && text[1..].starts_with('\'')
    }
}

pub(super) fn tokens(text: &str) -> Tokens<'_> {
    Tokens { text, at: 0 }
}

/// Length of the name that `text` begins with; names may have dollar signs in them.
pub(super) fn name_len(text: &str) -> usize {
    if !text.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
        return 0;
    }
    let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#');
    text.find(|c| !inside(c)).unwrap_or(text.len())
}

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        loop {
            let rest = &self.text[self.at..];
            let first = rest.chars().next()?;
            let is_comment = rest.starts_with("--") || rest.starts_with("/*");
            let skip = step(rest);
            let at = self.at;
            self.at += skip;
            if !is_comment && !first.is_whitespace() {
                return Some(Token { at, text: &rest[..skip] });
            }
        }
    }
}

/// What CREATE makes, its first word passed; `None`: another statement.
fn created<'a>(tokens: &mut Tokens<'a>) -> Option<Token<'a>> {
    if !tokens.next()?.is("create") {
        return None;
    }
    let mut token = tokens.next()?;
    if token.is("or") {
        tokens.next()?;
        token = tokens.next()?;
    }
    if token.is_any(&["editionable", "noneditionable"]) {
        token = tokens.next()?;
    }
    Some(token)
}

/// Whether semicolons are part of the statement: a block, or stored code in the field's language.
pub(super) fn is_block(text: &str) -> bool {
    let mut rest = tokens(text);
    let Some(first) = rest.next() else { return false };
    let next = rest.next();
    match first.text.to_ascii_lowercase().as_str() {
        "begin" => next.is_some_and(|next| {
            !next.is_any(&[";", "transaction", "work", "isolation", "read", "not", "deferrable"])
        }),
        "declare" => match next {
            // A cursor of SQL's has its name before the word, the field's behind it.
            Some(next) if !next.is("cursor") => {
                let before = ["binary", "asensitive", "insensitive", "no", "scroll"];
                !rest.find(|token| !token.is_any(&before)).is_some_and(|t| t.is("cursor"))
            }
            _ => true,
        },
        "<" => next.is_some_and(|next| next.is("<")),
        "create" => is_code(text),
        _ => false,
    }
}

/// Whether CREATE makes something whose text goes on behind a semicolon.
fn is_code(text: &str) -> bool {
    let mut rest = tokens(text);
    let Some(kind) = created(&mut rest) else { return false };
    match kind.text.to_ascii_lowercase().as_str() {
        "function" | "procedure" => is_own_body(&mut rest),
        "package" => true,
        "trigger" => is_own_trigger(rest),
        "type" => is_own_type(rest),
        // `create or replace and compile java source`
        "java" => true,
        "and" => rest.next().is_some_and(|token| token.is_any(&["compile", "resolve"])),
        _ => false,
    }
}

/// Whether a routine's body is in the field's language, and no text or SQL's. Nothing may be there
/// yet of the body itself.
fn is_own_body(rest: &mut Tokens<'_>) -> bool {
    let mut open = 0_i32;
    while let Some(token) = rest.next() {
        match token.text.to_ascii_lowercase().as_str() {
            "(" => open += 1,
            ")" => open -= 1,
            _ if open > 0 => {}
            "returns" | "language" | ";" => return false,
            "is" => return true,
            "as" => return !rest.next().is_some_and(|token| token.is_text()),
            _ => {}
        }
    }
    false
}

/// PostgreSQL's trigger only names a function.
fn is_own_trigger(rest: Tokens<'_>) -> bool {
    let mut before = None::<Token<'_>>;
    for token in rest {
        if token.is(";") {
            break;
        }
        let named = token.is_any(&["function", "procedure"]);
        if named && before.is_some_and(|before| before.is("execute")) {
            return false;
        }
        before = Some(token);
    }
    true
}

/// PostgreSQL's types are lists of names; the field's may have methods, and a body.
fn is_own_type(mut rest: Tokens<'_>) -> bool {
    let Some(name) = rest.next() else { return false };
    let mut next = rest.next();
    if name.is("body") && next.is_some_and(|next| !next.is_any(&["as", "is", "(", ";", "."])) {
        return true;
    }
    while let Some(token) = next {
        if token.is_any(&["(", ";"]) {
            return false;
        }
        if token.is("under") {
            return true;
        }
        if token.is_any(&["as", "is"]) {
            let made = ["object", "table", "varray", "varying", "opaque", "json"];
            return rest.next().is_some_and(|token| token.is_any(&made));
        }
        next = rest.next();
    }
    false
}

/// Whether a statement gives what it returns of the rows that it changes to variables.
pub(super) fn returns_into(text: &str) -> bool {
    let mut rest = tokens(text);
    let changes = ["insert", "update", "delete", "merge"];
    rest.next().is_some_and(|first| first.is_any(&changes))
        && rest.by_ref().any(|token| token.is("returning"))
        && rest.any(|token| token.is("into"))
}

/// Where code begins whose lines an error counts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CodeAt {
    /// All of a block, and of a routine in the field's form; else the text that is its body.
    pub(super) body: usize,
    /// From where lines of what stands before such a text are counted.
    pub(super) head: usize,
}

impl CodeAt {
    const fn all(at: usize) -> CodeAt {
        CodeAt { body: at, head: at }
    }
}

/// Where the code of a statement begins, if there is any.
pub(super) fn code_at(text: &str) -> Option<CodeAt> {
    let mut rest = tokens(text);
    let first = rest.next()?;
    if first.is("do") {
        return rest.find(Token::is_text).map(|token| CodeAt::all(token.at));
    }
    if !first.is("create") {
        return is_block(text).then_some(CodeAt::all(first.at));
    }
    let mut rest = tokens(text);
    let kind = created(&mut rest)?;
    if !kind.is_any(&["function", "procedure"]) {
        return None;
    }
    let behind = Tokens { text, at: rest.at };
    if is_own_body(&mut rest) {
        return Some(CodeAt::all(kind.at));
    }
    let mut before = None::<Token<'_>>;
    for token in behind {
        if token.is_text() && before.is_some_and(|before| before.is("as")) {
            return Some(CodeAt { body: token.at, head: kind.at });
        }
        before = Some(token);
    }
    None
}

/// Kind and name of the stored code that a statement makes.
pub(super) fn stored(text: &str) -> Option<(String, String)> {
    let mut rest = tokens(text);
    let kind = created(&mut rest)?;
    if !kind.is_any(&["function", "procedure", "trigger", "package", "type"]) {
        return None;
    }
    let mut kind = kind.text.to_uppercase();
    let mut name = rest.next()?;
    if name.is("body") && (kind == "PACKAGE" || kind == "TYPE" && is_block(text)) {
        kind.push_str(" BODY");
        name = rest.next()?;
    }
    let mut full = name.text.to_owned();
    // `schema.name`
    while text[rest.at..].starts_with('.') {
        rest.next();
        full = format!("{full}.{}", rest.next()?.text);
    }
    Some((kind, full))
}

/// Whether a routine's body is statements of SQL up to END, with semicolons between them.
pub(super) fn makes_routine(text: &str) -> bool {
    let kind = created(&mut tokens(text));
    kind.is_some_and(|kind| kind.is_any(&["function", "procedure"]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_code_of_the_field_goes_on_behind_semicolons() {
        let many = (0..60).map(|i| format!("a{i} in number default 1")).collect::<Vec<_>>();
        let many = format!("create procedure p({}) is begin null; end;", many.join(", "));
        for text in [
            "create or replace trigger t before insert on x for each row begin delete from y; end;",
            "create trigger t after update on x declare n int; begin null; end;",
            "create or replace editionable package p as procedure a; end;",
            "create or replace package body p is procedure a is begin null; end; end;",
            "create type body t as member function f return number is begin return 1; end; end;",
            "create or replace type t as object (a int, member function f return number);",
            "create type t is table of number;",
            "create type t force as varray(3) of int;",
            "create type s.t under u (b int);",
            "declare\n  n number;\n  cursor c is select 1; begin null; end;",
            "declare cursor c is select 1; begin null; end;",
            "<<a>> begin null; end;",
            &many,
        ] {
            assert!(is_block(text), "{text}");
        }
    }

    #[test]
    fn statements_of_sql_end_at_their_semicolon() {
        for text in [
            "create type mood as enum ('a','b');",
            "create type x as (a int);",
            "create type r as range (subtype = int4);",
            "create type x;",
            "create type body as enum ('a');",
            "create trigger t before insert on x for each row execute function f(1);",
            "create function f(a int) returns int language sql as 'select 1; select 2';",
            "create procedure p() as $$ begin null; end $$ language plpgsql;",
            "create table t (a int);",
            "declare c no scroll cursor for select 1;",
            "begin;",
            "begin isolation level read committed;",
        ] {
            assert!(!is_block(text), "{text}");
        }
    }

    #[test]
    fn changes_give_what_they_return_to_variables() {
        let returning = "insert into t values (';') returning id into :v";
        assert!(returns_into(returning) && returns_into("UPDATE t SET a = 1 RETURNING a INTO :v"));
        assert!(!returns_into("insert into t select 1 returning id"));
        assert!(!returns_into("select 1 as returning into x"));
    }

    #[test]
    fn code_begins_where_the_server_counts_from() {
        let lines = |text: &str, at: usize| text[..at].matches('\n').count();
        let at = |text: &str| code_at(text).map(|code| lines(text, code.body));
        let head = |text: &str| code_at(text).map(|code| lines(text, code.head));
        assert_eq!(at("begin\n null; end;"), Some(0));
        assert_eq!(at("do\n$$\nbegin null; end $$"), Some(1));
        assert_eq!(at("-- x\nbegin\n null; end;"), Some(1));
        assert_eq!(at("create procedure p(a int) is\n\n -- x\n b int;\nbegin"), Some(0));
        assert_eq!(at("create or replace\nprocedure p is\nbegin"), Some(1));
        let text = "create\nfunction f()\nreturns int\nlanguage plpgsql as\n$$ $$";
        assert_eq!((at(text), head(text)), (Some(4), Some(1)));
        assert_eq!(at("select 1"), None);
    }

    #[test]
    fn stored_code_has_a_kind_and_a_name() {
        let of = |text| stored(text).map(|(kind, name)| format!("{kind} {name}"));
        assert_eq!(of("create or replace procedure a.p(x int) is"), Some("PROCEDURE a.p".into()));
        assert_eq!(of("create package body p is"), Some("PACKAGE BODY p".into()));
        assert_eq!(of("create table t (a int)"), None);
    }
}
