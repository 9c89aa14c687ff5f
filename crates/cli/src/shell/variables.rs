//! Bind variables: `variable`, `print`.
//!
//! What it promises: a cursor that a block has opened for a variable is shown once, all of its
//! rows, and closed; so is one whose variable gets another value. What it must never do: give a
//! variable a value that it does not take.

use super::Shell;
use super::commands::split_word;
use super::format::{Kind, Table};
use super::place::Edited;
use super::query::{UNCONNECTED, Way, error_text, literal};
use crate::error::{CliError, Result};
use tokio_postgres::types::Type;
use tokio_postgres::{Error, SimpleQueryMessage};

/// Digits before and behind the point of numbers that all plans with parameters have room for.
const PLAN_DIGITS: (usize, usize) = (22, 15);

const USAGE: &str = "variable NAME TYPE [= VALUE]";

/// The type of variables for cursors.
const CURSOR: &str = "refcursor";

/// A bind variable of the shell.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Variable {
    /// As it is declared in a block, and as SQL has the type.
    pub(super) ty: String,
    pub(super) cast: String,
    pub(super) value: Option<String>,
}

impl Variable {
    /// One without a value.
    ///
    /// # Errors
    /// The shell has no variables of this type.
    fn new(text: &str) -> Result<Variable> {
        let lower = text.to_lowercase();
        // Lengths are characters in any case.
        let ty = lower.replace(" char)", ")").replace(" byte)", ")");
        let name = ty.split('(').next().unwrap_or("").trim();
        let same = |ty: &str| (ty.to_owned(), ty.to_owned());
        let (ty, cast) = match name {
            "refcursor" | "sys_refcursor" => same(CURSOR),
            "clob" | "nclob" | "long" => same("text"),
            "nchar" => same(&ty.replacen("nchar", "char", 1)),
            "nvarchar2" => same(&ty.replacen("nvarchar2", "varchar2", 1)),
            // With a time of day, which a block's date has and SQL's has not.
            "date" => ("date".to_owned(), "timestamp(0)".to_owned()),
            _ => same(&ty),
        };
        Ok(Variable { ty, cast, value: None })
    }

    /// Gives it a constant, which may stand in quotes.
    fn assign(&mut self, name: &str, text: &str) -> Result<()> {
        let text = text.trim();
        if text.eq_ignore_ascii_case("null") {
            self.value = None;
            return Ok(());
        }
        if self.is_cursor() {
            let text = format!("variable {name}: open it with begin open :{name} for ..; end;");
            return Err(CliError::failed(text));
        }
        let Some(value) = constant(text) else {
            let text = format!("variable {name}: {text} does not end with its own quote");
            return Err(CliError::failed(text));
        };
        if self.ty.starts_with("number") && value.parse::<f64>().is_err() {
            let text = format!("variable {name}: \"{value}\" is not a number");
            return Err(CliError::failed(text));
        }
        self.value = Some(value);
        Ok(())
    }

    /// Whether its value is the name of a cursor.
    pub(super) fn is_cursor(&self) -> bool {
        self.ty == CURSOR
    }

    /// Its type and value as a parameter; `None`: only a cast of the server's makes of the text
    /// what the type holds.
    pub(super) fn parameter(&self) -> Option<(Type, Option<String>)> {
        let (name, limits) = parts_of_type(&self.cast)?;
        let ty = match name.as_str() {
            "number" | "numeric" | "decimal" | "dec" => Type::NUMERIC,
            "int" | "integer" | "int4" => Type::INT4,
            "smallint" | "int2" => Type::INT2,
            "bigint" | "int8" => Type::INT8,
            "real" | "float4" | "binary_float" => Type::FLOAT4,
            "float" | "float8" | "double precision" | "binary_double" => Type::FLOAT8,
            "varchar2" | "varchar" | "character varying" => Type::VARCHAR,
            "char" | "character" => Type::BPCHAR,
            "text" => Type::TEXT,
            "timestamp" | "timestamp without time zone" => Type::TIMESTAMP,
            "timestamptz" | "timestamp with time zone" => Type::TIMESTAMPTZ,
            "bool" | "boolean" => Type::BOOL,
            _ => return None,
        };
        let is_numeric = ty == Type::NUMERIC;
        let is_limited_text = matches!(ty, Type::VARCHAR | Type::BPCHAR);
        let is_time = matches!(ty, Type::TIMESTAMP | Type::TIMESTAMPTZ);
        let Some(text) = &self.value else { return Some((ty, None)) };
        let value = match limits[..] {
            [] if is_numeric => within(text, PLAN_DIGITS.0, PLAN_DIGITS.1)?,
            [] if ty == Type::BPCHAR => first_characters(text, 1),
            [] => text.clone(),
            [length] if is_limited_text && length > 0 => first_characters(text, length),
            [digits] if is_numeric => within(text, digits.min(PLAN_DIGITS.0), 0)?,
            [digits, scale] if is_numeric && scale <= PLAN_DIGITS.1 => {
                let before = digits.checked_sub(scale)?.min(PLAN_DIGITS.0);
                filled_up(&within(text, before, scale)?, scale)
            }
            [digits] if is_time && has_digits_of_second(text, digits) => text.clone(),
            _ => return None,
        };
        Some((ty, Some(value)))
    }

    /// What its value is to whoever shows it.
    fn kind(&self) -> Kind {
        let name = self.ty.split(['(', ' ']).next().unwrap_or("");
        let is_number = matches!(
            name,
            "number"
                | "numeric"
                | "decimal"
                | "int"
                | "integer"
                | "pls_integer"
                | "smallint"
                | "bigint"
                | "float"
                | "real"
                | "double"
                | "binary_float"
                | "binary_double"
        );
        if is_number { Kind::Number } else { Kind::Text }
    }
}

/// A cursor's name as SQL has it.
fn quoted(cursor: &str) -> String {
    format!("\"{}\"", cursor.replace('"', "\"\""))
}

/// A type's name without its limits, and these.
fn parts_of_type(text: &str) -> Option<(String, Vec<usize>)> {
    let Some((head, rest)) = text.split_once('(') else {
        return Some((text.trim().to_owned(), Vec::new()));
    };
    let (inner, tail) = rest.split_once(')')?;
    let limits = inner.split(',').map(|limit| limit.trim().parse().ok());
    let name = format!("{}{}", head.trim_end(), tail.trim_end());
    Some((name, limits.collect::<Option<Vec<usize>>>()?))
}

fn first_characters(text: &str, most: usize) -> String {
    text.chars().take(most).collect()
}

/// A number that is written out with no more digits than these before and behind the point.
fn within(text: &str, before: usize, behind: usize) -> Option<String> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let fits = !whole.is_empty()
        && all_digits(whole)
        && all_digits(fraction)
        && whole.trim_start_matches('0').len() <= before
        && fraction.len() <= behind;
    fits.then(|| text.to_owned())
}

/// Such a number with zeros up to the last of its digits behind the point.
fn filled_up(number: &str, scale: usize) -> String {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if scale == 0 { whole.to_owned() } else { format!("{whole}.{fraction:0<scale$}") }
}

/// Whether a date and time of day is written in figures, with no more digits of a second behind
/// the point than these.
fn has_digits_of_second(text: &str, most: usize) -> bool {
    // "now" and "epoch" have as many as they like.
    if text.contains(|c: char| c.is_alphabetic() && c != 'T') {
        return false;
    }
    let Some((head, tail)) = text.rsplit_once(['.', ',']) else { return true };
    // A point may stand between day and month.
    !head.contains(':') || tail.bytes().take_while(u8::is_ascii_digit).count() <= most
}

/// A constant without its quotes, of which one inside is doubled; `None`: they are not closed.
fn constant(text: &str) -> Option<String> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '\'' | '"')) else {
        return Some(text.to_owned());
    };
    let inner = text[1..].strip_suffix(quote)?;
    let doubled = [quote, quote].iter().collect::<String>();
    let parts: Vec<&str> = inner.split(doubled.as_str()).collect();
    let is_closed = parts.iter().all(|part| !part.contains(quote));
    is_closed.then(|| parts.join(&doubled[1..]))
}

/// Name, type and value of a declaration; the last two may not be there.
fn parts(text: &str) -> (&str, &str, Option<&str>) {
    let (head, value) = match text.split_once('=') {
        Some((head, value)) => (head.trim_end().trim_end_matches(':'), Some(value)),
        None => (text, None),
    };
    let (name, ty) = split_word(head);
    (name.trim_start_matches(':'), ty, value)
}

impl Shell {
    /// `variable x number = 5`, or what there is.
    pub(super) async fn declare(&mut self, text: &str) -> Result<()> {
        let (name, ty, value) = parts(text);
        let own = name.to_lowercase();
        if ty.is_empty() && value.is_none() {
            let all = self.variables.iter().filter(|(known, _)| name.is_empty() || **known == own);
            let shown: String = all.map(|(name, v)| format!("{name} {}\n", v.ty)).collect();
            if shown.is_empty() && !name.is_empty() {
                return Err(CliError::failed(format!("\"{name}\" is not declared: {USAGE}")));
            }
            self.print(&shown);
            return Ok(());
        }
        let mut variable = match ty.is_empty() {
            false => Variable::new(ty)?,
            true => {
                let missing = || CliError::failed(format!("\"{name}\" is not declared: {USAGE}"));
                self.variables.get(&own).cloned().ok_or_else(missing)?
            }
        };
        if let Some(value) = value {
            variable.assign(name, value)?;
        }
        let old = self.variables.insert(own, variable);
        self.forget_cursor(old).await
    }

    /// A variable has been declared anew: its cursor is closed, unless another one stands for it.
    async fn forget_cursor(&self, old: Option<Variable>) -> Result<()> {
        let cursor = old.filter(Variable::is_cursor).and_then(|variable| variable.value);
        let Some(cursor) = cursor else { return Ok(()) };
        let names = |v: &Variable| v.is_cursor() && v.value.as_ref() == Some(&cursor);
        if !self.is_connected || self.variables.values().any(names) {
            return Ok(());
        }
        let closed = self.close_if_open(&cursor).await;
        closed.map_err(|error| CliError::failed(error_text(&error)))
    }

    /// Closes a cursor that the server may have closed with its transaction: a CLOSE that fails
    /// would be the end of the one at hand.
    async fn close_if_open(&self, cursor: &str) -> std::result::Result<(), Error> {
        let ask = format!("select 1 from pg_cursors where name = {}", literal(cursor));
        let told = self.client.simple_query(&ask).await?;
        if told.iter().any(|message| matches!(message, SimpleQueryMessage::Row(_))) {
            self.client.simple_query(&format!("close {}", quoted(cursor))).await?;
        }
        Ok(())
    }

    /// `print`, of all without names.
    pub(super) async fn print_variables(&mut self, text: &str) -> Result<()> {
        let wanted: Vec<String> =
            text.split_whitespace().map(|n| n.trim_start_matches(':').to_lowercase()).collect();
        if wanted.is_empty() {
            let all: Vec<String> = self.variables.keys().cloned().collect();
            return self.show_variables(&all).await;
        }
        let (mut shown, mut failed) = (Vec::new(), Vec::new());
        for name in wanted {
            match self.variables.get(&name) {
                None => failed.push(format!("bind variable \"{name}\" is not declared")),
                Some(variable) if variable.is_cursor() && variable.value.is_none() => {
                    failed.push(format!("bind variable \"{name}\" has no open cursor"));
                }
                Some(_) => shown.push(name),
            }
        }
        // What can be shown is, and what cannot is said behind it.
        if let Err(error) = self.show_variables(&shown).await {
            failed.push(error.message);
        }
        match failed.is_empty() {
            true => Ok(()),
            false => Err(CliError::failed(failed.join("\n"))),
        }
    }

    /// The values of these variables in this order, then the rows of those that are open cursors.
    pub(super) async fn show_variables(&mut self, names: &[String]) -> Result<()> {
        let shown = names.iter().filter_map(|name| Some((name, self.variables.get(name)?)));
        let mut table = Table { rows: vec![Vec::new()], ..Table::default() };
        let mut cursors = Vec::new();
        for (name, variable) in shown {
            if table.header.contains(name) || cursors.contains(name) {
                continue;
            }
            if variable.is_cursor() {
                cursors.push(name.clone());
                continue;
            }
            table.header.push(name.clone());
            table.rows[0].push(variable.value.clone());
            table.kinds.push(variable.kind());
        }
        self.shape(&mut table);
        if !table.header.is_empty() {
            self.show(&table);
        }
        for name in cursors {
            self.show_cursor(&name).await?;
        }
        Ok(())
    }

    /// All rows of the cursor that a variable names, which is closed then.
    async fn show_cursor(&mut self, name: &str) -> Result<()> {
        let variable = self.variables.get_mut(name);
        let Some(cursor) = variable.and_then(|variable| variable.value.take()) else {
            return Ok(());
        };
        if !self.is_connected {
            return Err(CliError::failed(UNCONNECTED));
        }
        let fetch = format!("fetch all in {}", quoted(&cursor));
        let table = self.deliver(&fetch, Way::Ask).await;
        self.say_notices();
        let failed = match table {
            Ok(table) => {
                if let Some(table) = table {
                    self.take_result(table, &Edited::whole(&fetch), &fetch, true).await;
                }
                None
            }
            Err(error) => Some(error),
        };
        let closed = self.close_if_open(&cursor).await;
        // In a transaction that has failed it is closed by the next who shows or declares it.
        if closed.is_err()
            && !self.client.is_closed()
            && let Some(variable) = self.variables.get_mut(name)
        {
            variable.value = Some(cursor);
        }
        match failed.or(closed.err()) {
            Some(error) => Err(CliError::failed(error_text(&error))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declarations_have_a_name_a_type_and_a_value() {
        assert_eq!(parts("x number"), ("x", "number", None));
        assert_eq!(parts(":x varchar2(20) = 'a=b'"), ("x", "varchar2(20)", Some(" 'a=b'")));
        assert_eq!(parts("x := 5"), ("x", "", Some(" 5")));
        let new = |text: &str| Variable::new(text).map(|v| format!("{} {}", v.ty, v.cast)).ok();
        assert_eq!(new("VARCHAR2(20 CHAR)").as_deref(), Some("varchar2(20) varchar2(20)"));
        assert_eq!(new("date").as_deref(), Some("date timestamp(0)"));
        assert_eq!(new("nvarchar2(5)").as_deref(), Some("varchar2(5) varchar2(5)"));
        assert_eq!(new("clob").as_deref(), Some("text text"));
        assert_eq!(new("SYS_REFCURSOR").as_deref(), Some("refcursor refcursor"));
        let mut cursor = Variable::new("refcursor").expect("a type");
        assert!(cursor.is_cursor() && cursor.assign("rc", "'a'").is_err());
        assert!(cursor.assign("rc", "null").is_ok() && cursor.parameter().is_none());
        let mut number = Variable::new("number").expect("a type");
        assert!(number.assign("x", "five").is_err() && number.assign("x", "-5.5").is_ok());
        assert_eq!(number.value.as_deref(), Some("-5.5"));
        assert!(number.assign("x", "NULL").is_ok() && number.value.is_none());
        assert!(number.assign("x", "'6'").is_ok() && number.kind() == Kind::Number);
    }

    #[test]
    fn values_are_parameters_of_their_types() {
        let shown = |ty: &str, value: &str| {
            let mut variable = Variable::new(ty).expect("a type");
            variable.assign("x", value).expect("a value");
            let (ty, value) = variable.parameter()?;
            Some(format!("{ty} {}", value.as_deref().unwrap_or("NULL")))
        };
        for (ty, value, wanted) in [
            ("number", "3", "numeric 3"),
            ("number", "-2.50", "numeric -2.50"),
            ("number", "null", "numeric NULL"),
            ("number(5,2)", "3", "numeric 3.00"),
            ("number(5)", "12345", "numeric 12345"),
            ("integer", "7", "int4 7"),
            ("binary_double", "1e5", "float8 1e5"),
            ("varchar2(3)", "'abcd'", "varchar abc"),
            ("varchar2(3 char)", "null", "varchar NULL"),
            ("char", "'ab'", "bpchar a"),
            ("char(2)", "'äöü'", "bpchar äö"),
            ("clob", "'abcd'", "text abcd"),
            ("date", "'2026-01-02 03:04:05'", "timestamp 2026-01-02 03:04:05"),
            ("date", "'02.01.2026'", "timestamp 02.01.2026"),
            (
                "timestamp(3) with time zone",
                "'2026-01-02 03:04:05.25+01'",
                "timestamptz 2026-01-02 03:04:05.25+01",
            ),
            ("boolean", "true", "bool true"),
        ] {
            assert_eq!(shown(ty, value).as_deref(), Some(wanted), "{ty} {value}");
        }
        for (ty, value) in [
            ("number", "1e5"),
            ("number", "0.0000000000000001"),
            ("number", "12345678901234567890123"),
            ("number(5,2)", "1234"),
            ("number(5,2)", "1.234"),
            ("varchar2(0)", "'a'"),
            ("date", "'2026-01-02 03:04:05.5'"),
            ("date", "'now'"),
            ("interval day to second", "'1 2'"),
            ("uuid", "'a'"),
        ] {
            assert_eq!(shown(ty, value), None, "{ty} {value}");
        }
    }

    #[test]
    fn constants_end_with_the_quote_they_begin_with() {
        for (text, wanted) in [
            ("'it''s'", Some("it's")),
            ("\"it's\"", Some("it's")),
            ("'say \"x\"'", Some("say \"x\"")),
            ("''''", Some("'")),
            ("''", Some("")),
            ("it's", Some("it's")),
            ("'it's'", None),
            ("'x\"", None),
            ("'x", None),
            ("'", None),
            ("'''", None),
        ] {
            assert_eq!(constant(text).as_deref(), wanted, "{text}");
        }
        let mut text = Variable::new("varchar2(9)").expect("a type");
        assert!(text.assign("x", "'a").is_err() && text.assign("x", "'it''s'").is_ok());
        assert_eq!((text.value.as_deref(), text.kind()), (Some("it's"), Kind::Text));
    }
}
