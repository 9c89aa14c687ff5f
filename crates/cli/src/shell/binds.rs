//! Bind variables in statements: `:name`.
//!
//! What it promises: a query or a change has parameters in their places and their values beside
//! it, so that it is one statement to the server whatever the values are; where the server takes no
//! parameters the values are written into it. A block has variables of their names, and tells what
//! has become of them. What it must never do: give a statement another meaning than it has with
//! the values in it, or run it twice.

use super::Shell;
use super::blocks::{self, Token, tokens};
use super::format::Table;
use super::place::{Bound, Edited};
use super::query::{Answer, kinds_of, literal};
use super::variables::Variable;
use bytes::BytesMut;
use futures::StreamExt;
use std::rc::Rc;
use tokio_postgres::types::{Format, FromSql, IsNull, ToSql, Type};
use tokio_postgres::{Client, Error, Row, Statement};

/// What a value of a bind variable begins with in the lines that a block puts out.
pub(super) const BOUND: char = '\u{1}';
/// NULL in such a line.
pub(super) const NOTHING: &str = "\u{2}";

/// The procedure that a block with bind variables becomes.
const BLOCK: &str = "skein_sql_block";

/// The savepoint before the server is asked whether it takes a statement with parameters.
const PARAMETERS_MARK: &str = "skein_sql_parameters";

/// Statements that may have parameters, by their first words.
const WITH_PARAMETERS: [&str; 7] =
    ["select", "with", "insert", "update", "delete", "merge", "values"];

/// Words beside which a number says how many rows there are to be.
const ROWS: [&str; 6] = ["rownum", "level", "limit", "offset", "first", "next"];

/// Words and signs that are looked at on either side for such a word.
const NEAR: usize = 4;

type BoxedError = Box<dyn std::error::Error + Sync + Send>;

/// Rows as they are shown.
type Rows = Vec<Vec<Option<String>>>;

/// A statement with parameters, and what they are.
#[derive(Debug)]
pub(super) struct Binds {
    pub(super) sent: Bound,
    types: Vec<Type>,
    values: Vec<Given>,
}

/// The value of a parameter, as a text: its type says what that means.
#[derive(Debug)]
struct Given(Option<String>);

impl ToSql for Given {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, BoxedError> {
        let Some(text) = &self.0 else { return Ok(IsNull::Yes) };
        out.extend_from_slice(text.as_bytes());
        Ok(IsNull::No)
    }

    fn accepts(_: &Type) -> bool {
        true
    }

    fn to_sql_checked(&self, ty: &Type, out: &mut BytesMut) -> Result<IsNull, BoxedError> {
        self.to_sql(ty, out)
    }

    fn encode_format(&self, _: &Type) -> Format {
        Format::Text
    }
}

/// A value of a result that was asked for as texts.
struct Shown(String);

impl<'a> FromSql<'a> for Shown {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Shown, BoxedError> {
        Ok(Shown(std::str::from_utf8(raw)?.to_owned()))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// A variable where it stands in a statement.
#[derive(PartialEq, Eq, Debug)]
struct Use {
    /// From its colon up to its end.
    at: usize,
    end: usize,
    /// Which word or sign of the statement the colon is.
    token: usize,
    /// As it is declared.
    name: String,
}

/// The variables of a statement in their order. No colon of a cast, an assignment or an array's
/// slice begins one, nor anything inside quotes and comments.
fn uses(all: &[Token<'_>], is_known: impl Fn(&str) -> bool) -> Vec<Use> {
    let (mut out, mut brackets, mut at) = (Vec::new(), 0_usize, 0);
    while let Some(token) = all.get(at) {
        let next = all.get(at + 1).filter(|next| next.at == token.at + 1);
        match (token.text, next) {
            (":", Some(next)) if next.is(":") => at += 1,
            // What stands right before a colon is where a slice begins.
            (":", Some(_)) if brackets > 0 && at > 0 && ends_value(all[at - 1]) => {}
            (":", Some(next)) => {
                let name = next.text.to_lowercase();
                if is_known(&name) {
                    let end = next.at + next.text.len();
                    out.push(Use { at: token.at, end, token: at, name });
                    at += 1;
                }
            }
            ("[", _) => brackets += 1,
            ("]", _) => brackets = brackets.saturating_sub(1),
            _ => {}
        }
        at += 1;
    }
    out
}

/// Whether a value may end with this word or sign.
fn ends_value(token: Token<'_>) -> bool {
    token.text.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | ')' | ']' | '\'' | '"'))
}

/// The statement up to `end` with something else in the places of its variables.
fn replaced(text: &str, uses: &[Use], end: usize, put: impl Fn(&Use) -> String) -> Edited {
    let (mut out, mut copied) = (Edited::default(), 0);
    for one in uses {
        let before = &text[..one.at];
        out.copy(copied, &before[copied..]);
        let mut word = put(one);
        // It is no part of a word that it stands right behind.
        if before.ends_with(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$' | '#')) {
            word.insert(0, ' ');
        }
        out.put(one.at, &word);
        copied = one.end;
    }
    out.copy(copied, &text[copied..end]);
    out
}

fn value_of(variable: &Variable) -> String {
    match &variable.value {
        None => format!("cast(null as {})", variable.cast),
        Some(text) => format!("cast({} as {})", literal(text), variable.cast),
    }
}

/// Calls of packages that are statements of their own.
const OWN_CALLS: [&str; 2] = ["dbms_monitor", "dbms_session"];

/// Whether it is a CALL, which gives values back by its arguments as a block does.
fn is_call(all: &[Token<'_>]) -> bool {
    let [first, name, ..] = all else { return false };
    first.is("call") && !name.is_any(&OWN_CALLS)
}

/// A CALL with other names for its variables, as a block has it: `call p(:a)` and
/// `call f(:a) into :b`.
fn call_replaced(
    text: &str,
    all: &[Token<'_>],
    uses: Vec<Use>,
    end: usize,
    put: impl Fn(&Use) -> String,
) -> Edited {
    let part = |at: usize, end: usize| Use { at, end, token: 0, name: String::new() };
    let word = all.first().map_or(0, |call| call.at + call.text.len());
    let (mut parts, mut into) = (vec![part(0, word)], None);
    for one in uses {
        let before = one.token.checked_sub(1).and_then(|at| all.get(at));
        match before.filter(|before| before.is("into")) {
            Some(before) => {
                parts.push(part(before.at, one.end));
                into = Some(put(&one));
            }
            None => parts.push(one),
        }
    }
    let given = into.map(|name| format!("{name} :=")).unwrap_or_default();
    replaced(text, &parts, end, |one| match (one.name.is_empty(), one.at) {
        (false, _) => put(one),
        (true, 0) => given.clone(),
        (true, _) => String::new(),
    })
}

/// Whether a statement has parameters of its own: those of variables would be taken for them.
fn has_parameters(all: &[Token<'_>]) -> bool {
    all.windows(2).any(|pair| {
        pair[0].is("$")
            && pair[1].at == pair[0].at + 1
            && pair[1].text.starts_with(|c: char| c.is_ascii_digit())
    })
}

/// Whether the server takes a parameter in this place for one of any type, and something else
/// becomes of this value there than of one that has its type with it: beside the field's `||`,
/// where numbers and dates have a form of their own, and in bounds of rows, which are rounded.
fn loses_its_type(all: &[Token<'_>], at: usize, ty: &Type, value: &str) -> bool {
    let is_whole = value.strip_prefix('-').unwrap_or(value).bytes().all(|b| b.is_ascii_digit());
    if is_whole || matches!(*ty, Type::TEXT | Type::VARCHAR | Type::BPCHAR) {
        return false;
    }
    let is = |at: usize, sign: &str| all.get(at).is_some_and(|token| token.is(sign));
    let joins = |at: usize| is(at, "|") && is(at + 1, "|");
    // The name stands behind the colon.
    if at >= 2 && joins(at - 2) || joins(at + 2) {
        return true;
    }
    let near = &all[at.saturating_sub(NEAR)..all.len().min(at + 2 + NEAR)];
    let is_number = matches!(*ty, Type::NUMERIC | Type::FLOAT4 | Type::FLOAT8);
    is_number && near.iter().any(|token| token.is_any(&ROWS))
}

/// Whether parameters may have a part in an error of a statement that was not run, or the client's
/// library in one that was only asked for types of its columns.
fn may_be_of_parameters(error: &Error) -> bool {
    let Some(code) = error.code() else { return !error.is_closed() };
    let code = code.code();
    let is_of_names = matches!(code, "42P01" | "42703" | "42501");
    !is_of_names && ["08", "0A", "22", "26", "42"].iter().any(|class| code.starts_with(class))
}

/// The rows of a statement with these values, and how many it has changed.
async fn rows_of(
    client: &Client,
    statement: &Statement,
    values: &[Given],
) -> Result<(Rows, Option<u64>), Error> {
    let stream = client.query_raw(statement, values).await?;
    let mut stream = std::pin::pin!(stream);
    let mut rows = Vec::new();
    while let Some(row) = stream.next().await {
        rows.push(cells(&row?)?);
    }
    Ok((rows, stream.rows_affected()))
}

fn cells(row: &Row) -> Result<Vec<Option<String>>, Error> {
    let cell = |at| row.try_get::<usize, Option<Shown>>(at).map(|cell| cell.map(|shown| shown.0));
    (0..row.len()).map(cell).collect()
}

/// The first variable that a block, or what is sent as one, has and `is_known` does not: the server
/// would only say that it understands no colon. Others may have one for reasons of their own.
fn undeclared(text: &str, is_known: impl Fn(&str) -> bool) -> Option<String> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let is_own = all.first().is_some_and(|first| !first.is("create"));
    if !is_own || !(is_call(&all) || blocks::returns_into(text) || blocks::is_block(text)) {
        return None;
    }
    let is_name = |name: &str| name.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let found = uses(&all, |name| is_name(name) && !is_known(name));
    // A slice may have no beginning.
    let begins = |one: &Use| one.token.checked_sub(1).is_none_or(|at| !all[at].is("["));
    found.into_iter().find(begins).map(|one| one.name)
}

impl Shell {
    /// A variable of a statement that is not declared, where there can be nothing else.
    pub(super) fn undeclared(&self, text: &str) -> Option<String> {
        undeclared(text, |name| self.variables.contains_key(name))
    }

    /// The statement with the values of bind variables; `None`: it has none.
    pub(super) fn bound(&self, text: &str) -> Option<Bound> {
        let changes = blocks::returns_into(text);
        let all: Vec<Token<'_>> = tokens(text).collect();
        let called = is_call(&all);
        let block = changes || called || blocks::is_block(text);
        // Stored code has no variables of the shell.
        if self.variables.is_empty() || block && blocks::stored(text).is_some() {
            return None;
        }
        let uses = uses(&all, |name| self.variables.contains_key(name));
        let last = uses.last()?;
        let mut used: Vec<String> = uses.iter().map(|one| one.name.clone()).collect();
        used.sort();
        used.dedup();
        if !block {
            let value = |one: &Use| self.variables.get(&one.name).map(value_of).unwrap_or_default();
            let edited = replaced(text, &uses, text.len(), value);
            return Some(Bound { edited, before: String::new(), behind: String::new(), used });
        }
        let end = text.trim_end().trim_end_matches(';').len().max(last.end);
        let own = |one: &Use| format!("b_{}", one.name);
        let edited = match called {
            true => call_replaced(text, &all, uses, end, own),
            false => replaced(text, &uses, end, own),
        };
        let (mut declared, mut told) = (String::new(), String::new());
        if changes {
            told.push_str(&format!("raise notice '%', '{BOUND}=' || sql%rowcount;\n"));
        }
        for name in used.iter().chain(&self.beside(&used)) {
            let variable = &self.variables[name];
            let value = value_of(variable);
            // The server closes what the block's own variables have opened.
            let keeps = match variable.is_cursor() {
                true => format!(" pragma keep_open(b_{name});"),
                false => String::new(),
            };
            declared.push_str(&format!("b_{name} {} := {value};{keeps}\n", variable.ty));
            let value = match variable.is_cursor() {
                // One that the block has closed is none any more.
                true => format!("case when b_{name}%isopen then b_{name}::text end"),
                false => format!("b_{name}::text"),
            };
            // No line of `dbms_output`, which may be switched off.
            told.push_str(&format!(
                "raise notice '%', '{BOUND}{name}=' || coalesce({value}, '{NOTHING}');\n"
            ));
        }
        // A procedure: RETURN leaves that, and not what reads the values back.
        let before = format!("declare\n{declared}procedure {BLOCK} is\nbegin\n");
        let behind = format!("\n;\nend;\nbegin\n{BLOCK};\n{told}end;");
        Some(Bound { edited, before, behind, used })
    }

    /// Variables that stand for the same cursors as those of a block: without them the server would
    /// close what no variable of the block's names any more.
    fn beside(&self, used: &[String]) -> Vec<String> {
        let cursor = |variable: &Variable| variable.value.clone().filter(|_| variable.is_cursor());
        let held: Vec<String> =
            used.iter().filter_map(|name| cursor(self.variables.get(name)?)).collect();
        let is_beside = |&(name, variable): &(&String, &Variable)| {
            !used.contains(name) && cursor(variable).is_some_and(|cursor| held.contains(&cursor))
        };
        self.variables.iter().filter(is_beside).map(|(name, _)| name.clone()).collect()
    }

    /// The statement with parameters for its variables; `None`: it is to have the values in it.
    ///
    /// Numbers are numerics, whole ones too, so that one plan serves all values: the server bounds
    /// an index over whole numbers by them as it does by those of blocks.
    pub(super) fn binds(&self, text: &str) -> Option<Binds> {
        let all: Vec<Token<'_>> = tokens(text).collect();
        let first = all.iter().find(|token| !token.is("("))?;
        if !first.is_any(&WITH_PARAMETERS) || has_parameters(&all) {
            return None;
        }
        let uses = uses(&all, |name| self.variables.contains_key(name));
        let mut used: Vec<String> = Vec::new();
        let (mut types, mut values) = (Vec::new(), Vec::new());
        for one in &uses {
            let (ty, value) = self.variables.get(&one.name)?.parameter()?;
            if value.as_deref().is_some_and(|value| loses_its_type(&all, one.token, &ty, value)) {
                return None;
            }
            if !used.contains(&one.name) {
                used.push(one.name.clone());
                types.push(ty);
                values.push(Given(value));
            }
        }
        let number = |one: &Use| used.iter().position(|name| *name == one.name).unwrap_or(0) + 1;
        let edited = replaced(text, &uses, text.len(), |one| format!("${}", number(one)));
        let sent = Bound { edited, before: String::new(), behind: String::new(), used };
        Some(Binds { sent, types, values })
    }

    /// Sends a statement with the values of its variables beside it; what it gives. `text` has them
    /// in it.
    pub(super) async fn ask_bound(&mut self, text: &str, binds: &Binds) -> Answer {
        let Some(statement) = self.understood(binds).await? else { return self.ask(text).await };
        self.has_parameters = true;
        let client = Rc::clone(&self.client);
        self.link.want_texts(true);
        let answer = self.awaited(rows_of(&client, &statement, &binds.values)).await;
        self.link.want_texts(false);
        let (rows, done) = answer?;
        let columns = statement.columns();
        let table = (!columns.is_empty()).then(|| Table {
            header: columns.iter().map(|column| column.name().to_owned()).collect(),
            kinds: kinds_of(&statement),
            rows,
            ..Table::default()
        });
        Ok(self.answered(text, table, done))
    }

    /// The statement with parameters as the server understands it; `None`: it does not, and may
    /// understand the one with the values in it, whose error is told if it has one, too. Nothing is
    /// run, and an open transaction goes on.
    async fn understood(&mut self, binds: &Binds) -> Result<Option<Statement>, Error> {
        let open = self.transaction.open && !self.transaction.failed;
        // Then the statement has a savepoint before it.
        let is_guarded = self.transaction.own || !self.settings.autocommit;
        let client = Rc::clone(&self.client);
        if open && !is_guarded {
            client.simple_query(&format!("savepoint {PARAMETERS_MARK}")).await?;
        }
        let text = binds.sent.text();
        let prepared = self.awaited(client.prepare_typed(&text, &binds.types)).await;
        let statement = match prepared {
            Ok(statement) => Some(statement),
            Err(error) if self.is_interrupted || !may_be_of_parameters(&error) => {
                self.has_parameters = true;
                return Err(error);
            }
            Err(_) => None,
        };
        if open && statement.is_none() {
            let mark = match is_guarded {
                true => self.transaction.mark(),
                false => PARAMETERS_MARK.to_owned(),
            };
            client.simple_query(&format!("rollback to savepoint {mark}")).await?;
        }
        if open && !is_guarded {
            client.simple_query(&format!("release savepoint {PARAMETERS_MARK}")).await?;
        }
        // Where the server looks for none, as in what makes a table, there is no place for values.
        Ok(statement.filter(|statement| statement.params().len() == binds.types.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> String {
        let all: Vec<Token<'_>> = tokens(text).collect();
        let uses = uses(&all, |name| matches!(name, "n" | "v" | "1"));
        replaced(text, &uses, text.len(), |one| format!("<{}>", one.name)).text
    }

    #[test]
    fn variables_are_found_and_nothing_else() {
        for (text, wanted) in [
            ("select :n, : n, :N+:v::int from t", "select <n>, : n, <n>+<v>::int from t"),
            ("select a::n, b[1:n], c[:n], d[x[1]:n]", "select a::n, b[1:n], c[<n>], d[x[1]:n]"),
            ("select array[:n, :v], :other, ':n'", "select array[<n>, <v>], :other, ':n'"),
            ("select /* :n */ q'[:n]', $$:n$$ -- :n", "select /* :n */ q'[:n]', $$:n$$ -- :n"),
            ("select:n from t where:v=\":n\"", "select <n> from t where <v>=\":n\""),
            ("begin :n := :v; end;", "begin <n> := <v>; end;"),
            ("select :1", "select <1>"),
        ] {
            assert_eq!(found(text), wanted);
        }
    }

    #[test]
    fn a_call_is_what_a_block_has_in_its_place() {
        let made = |text: &str| {
            let all: Vec<Token<'_>> = tokens(text).collect();
            assert!(is_call(&all), "{text}");
            let uses = uses(&all, |name| matches!(name, "n" | "v"));
            let own = |one: &Use| format!("b_{}", one.name);
            call_replaced(text, &all, uses, text.len(), own).text
        };
        assert_eq!(made("call p(1, :n)").trim(), "p(1, b_n)");
        assert_eq!(made("CALL s.f(:v) INTO :n").trim(), "b_n := s.f(b_v)");
        let traces = "call dbms_monitor.session_trace_enable(:n)";
        assert!(!is_call(&tokens(traces).collect::<Vec<_>>()));
    }

    #[test]
    fn only_variables_can_be_undeclared() {
        let missing = |text: &str| undeclared(text, |name| name == "n");
        for (text, wanted) in [
            ("begin :n := 1; :ZZ := 2; end;", Some("zz")),
            ("insert into t values (:n) returning id into :v", Some("v")),
            ("call p(:n, :x)", Some("x")),
            ("begin :n := a::int; b := c[1:x]; d := c[:x]; e:=':y'; end; -- :z", None),
            ("begin execute immediate 'insert into t values (:1)' using 1; end;", None),
            ("do $$ begin :x := 1; end $$", None),
            ("select :x", None),
            ("create trigger t before insert on u for each row begin :new.a := 1; end;", None),
        ] {
            assert_eq!(missing(text).as_deref(), wanted, "{text}");
        }
    }

    #[test]
    fn parameters_of_a_statement_are_its_own() {
        let own = |text: &str| has_parameters(&tokens(text).collect::<Vec<_>>());
        assert!(own("select $1") && own("select a + $2::int, :n"));
        assert!(!own("select '$1', v$1 from v$x -- $1") && !own("select $a$1$a$"));
    }

    #[test]
    fn values_keep_the_type_that_they_have() {
        let loses = |text: &str, ty: &Type, value: &str| {
            let all: Vec<Token<'_>> = tokens(text).collect();
            let uses = uses(&all, |name| name == "n");
            uses.iter().any(|one| loses_its_type(&all, one.token, ty, value))
        };
        let number = Type::NUMERIC;
        assert!(loses("select :n || 'x' from dual", &number, "0.5"));
        assert!(loses("select 'x'||:n from dual", &Type::TIMESTAMP, "2026-01-02"));
        assert!(loses("select * from t where rownum <= :n", &number, "2.5"));
        assert!(loses("select * from t limit :n", &number, "2.5"));
        for (text, ty, value) in [
            ("select :n || 'x' from dual", &number, "-5"),
            ("select :n || 'x' from dual", &Type::VARCHAR, "0.5"),
            ("select * from t where rownum <= :n", &number, "2"),
            ("select a || b from t where c = :n and d = 1 and rownum < 5", &number, "2.5"),
            ("select * from t where d > :n limit 5", &Type::TIMESTAMP, "2026-01-02"),
        ] {
            assert!(!loses(text, ty, value), "{text}");
        }
    }

    #[test]
    fn values_are_sent_as_texts() {
        let mut out = BytesMut::new();
        let given = Given(Some("2.5".to_owned()));
        assert!(matches!(given.to_sql_checked(&Type::NUMERIC, &mut out), Ok(IsNull::No)));
        assert!(matches!(given.encode_format(&Type::NUMERIC), Format::Text));
        assert_eq!(&out[..], b"2.5");
        assert!(matches!(Given(None).to_sql(&Type::INT4, &mut out), Ok(IsNull::Yes)));
    }
}
