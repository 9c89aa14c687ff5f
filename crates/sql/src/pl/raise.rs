//! Errors and messages of procedural code.

use super::conditions::{GIVEN_NUMBERS, code_of, declared, told, with_number};
use super::lex::Tok;
use super::parse::{Name, Parser};
use super::run::Machine;
use super::tree::{Kind, Level, Raise, Raised, Sql, Use};
use crate::{PgError, Result, Severity};
use kernel::row::{ColType, TypeKind, Value};
use parking_lot::Mutex;
use query::wire::to_text;
use std::collections::BTreeSet;

/// A SQLSTATE that code has made up, kept for good: there are not many.
fn kept(code: &str) -> Result<&'static str> {
    static KEPT: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    let valid = code.len() == 5
        && code.bytes().all(|b| b.is_ascii_digit() || b.is_ascii_uppercase())
        && !code.starts_with("00");
    if !valid {
        return Err(PgError::syntax(format!("invalid SQLSTATE code \"{code}\"")));
    }
    let mut all = KEPT.lock();
    if let Some(known) = all.get(code) {
        return Ok(known);
    }
    let new: &'static str = Box::leak(code.to_owned().into_boxed_str());
    all.insert(new);
    Ok(new)
}

impl Parser<'_> {
    pub(super) fn raise_statement(&mut self) -> Result<Kind> {
        self.expect("raise")?;
        let level = [
            ("debug", Level::Debug),
            ("log", Level::Log),
            ("info", Level::Info),
            ("notice", Level::Notice),
            ("warning", Level::Warning),
            ("exception", Level::Exception),
        ];
        let given = level.into_iter().find(|(word, _)| self.word(word));
        let level = given.map_or(Level::Exception, |(_, level)| level);
        let what = if self.is_symbol(";") && given.is_none() {
            Raised::Again
        } else if self.is("using") {
            Raised::Options
        } else if let Tok::Text(format) = self.tok().clone() {
            self.advance();
            let mut args = Vec::new();
            while self.symbol(",") {
                args.push(self.expr_until(&["using"], &[";", ","])?);
            }
            let wanted = format.replace("%%", "").matches('%').count();
            if args.len() != wanted {
                let few = if args.len() < wanted { "few" } else { "many" };
                let text = format!("too {few} parameters specified for RAISE");
                return Err(self.error("42601", text));
            }
            Raised::Format(format, args)
        } else if self.word("sqlstate") {
            let Tok::Text(code) = self.tok().clone() else { return Err(self.near()) };
            self.advance();
            Raised::State(code.clone(), code)
        } else {
            let name = self.name()?;
            match self.lookup(&name) {
                Some(Name::Exception(id)) => Raised::Own(id, name),
                _ => match code_of(&name) {
                    Some(code) => Raised::State(code.to_owned(), name),
                    None => {
                        let text = format!("unrecognized exception condition \"{name}\"");
                        return Err(self.error("42704", text));
                    }
                },
            }
        };
        let mut options = Vec::new();
        if self.word("using") {
            loop {
                let name = self.name()?;
                if !self.symbol("=") && !self.symbol(":=") {
                    return Err(self.near());
                }
                const KNOWN: [&str; 9] = [
                    "message",
                    "detail",
                    "hint",
                    "errcode",
                    "column",
                    "constraint",
                    "datatype",
                    "table",
                    "schema",
                ];
                if !KNOWN.contains(&name.as_str()) {
                    let text = format!("unrecognized RAISE statement option \"{name}\"");
                    return Err(self.error("42601", text));
                }
                options.push((name, self.expr_until(&[], &[";", ","])?));
                if !self.symbol(",") {
                    break;
                }
            }
        }
        self.expect_symbol(";")?;
        Ok(Kind::Raise(Raise { level, what, options }))
    }

    pub(super) fn diagnostics(&mut self) -> Result<Kind> {
        self.expect("get")?;
        let stacked = self.word("stacked");
        let _ = self.word("current");
        self.expect("diagnostics")?;
        let mut items = Vec::new();
        loop {
            let target = self.target()?;
            if !self.symbol("=") && !self.symbol(":=") {
                return Err(self.near());
            }
            let item = self.name()?;
            let known = match stacked {
                false => matches!(item.as_str(), "row_count" | "pg_context"),
                true => matches!(
                    item.as_str(),
                    "returned_sqlstate"
                        | "message_text"
                        | "pg_exception_detail"
                        | "pg_exception_hint"
                        | "pg_exception_context"
                        | "constraint_name"
                        | "table_name"
                        | "schema_name"
                        | "column_name"
                        | "pg_datatype_name"
                ),
            };
            if !known {
                let text = format!("unrecognized GET DIAGNOSTICS item \"{item}\"");
                return Err(self.error("42601", text));
            }
            items.push((target, item));
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(";")?;
        Ok(Kind::Diagnostics { stacked, items })
    }
}

impl Machine<'_> {
    /// The value of an expression as PostgreSQL shows it in a message.
    async fn shown(&mut self, sql: &Sql) -> Result<String> {
        let (value, _) = self.eval(sql).await?;
        Ok(match value {
            Value::Null => "<NULL>".to_owned(),
            value => to_text(&value.as_datum(), &self.session.format_env()),
        })
    }

    pub(super) async fn raise(&mut self, raise: &Raise) -> Result<()> {
        let (mut own, mut number) = (None, None);
        let mut error = match &raise.what {
            Raised::Again => {
                let text = "RAISE without parameters cannot be used outside an exception handler";
                let Some(again) = self.handled.last().cloned() else {
                    return Err(PgError::new("0Z002", text));
                };
                (self.own, self.number) = (again.own, again.number);
                return Err(again.error);
            }
            Raised::Options => PgError::new("P0001", ""),
            Raised::Format(format, args) => {
                let mut text = String::new();
                let mut args = args.iter();
                let mut parts = format.chars().peekable();
                while let Some(c) = parts.next() {
                    if c != '%' {
                        text.push(c);
                    } else if parts.peek() == Some(&'%') {
                        parts.next();
                        text.push('%');
                    } else if let Some(arg) = args.next() {
                        text.push_str(&self.shown(arg).await?);
                    }
                }
                PgError::new("P0001", text)
            }
            Raised::State(code, text) => PgError::new(kept(code)?, text),
            Raised::Own(id, name) => {
                own = Some(*id);
                number = self.number_given(*id);
                declared(name, number)
            }
        };
        for (name, value) in &raise.options {
            let (given, _) = self.eval(value).await?;
            if given.is_null() {
                return Err(PgError::new("22004", "RAISE statement option cannot be null"));
            }
            let text = to_text(&given.as_datum(), &self.session.format_env());
            match name.as_str() {
                "message" => error.message = text,
                "detail" => error = error.with_detail(text),
                "hint" => error = error.with_hint(text),
                "errcode" => {
                    error.code = match super::conditions::code_of(&text) {
                        Some(code) => code,
                        None => kept(&text)?,
                    };
                }
                "constraint" => error = error.with_constraint(&text),
                "column" => error = error.with_column(&text),
                "table" => error.about.get_or_insert_default().table = Some(text),
                "schema" => error.about.get_or_insert_default().schema = Some(text),
                _ => {}
            }
        }
        if error.message.is_empty() {
            error.code.clone_into(&mut error.message);
        }
        let severity = match raise.level {
            Level::Exception => {
                (self.own, self.number) = (own, number);
                return Err(error);
            }
            // Nobody is told of these.
            Level::Debug | Level::Log => return Ok(()),
            Level::Info => Severity::Info,
            Level::Notice => Severity::Notice,
            Level::Warning => Severity::Warning,
        };
        let code = match (severity, error.code) {
            (Severity::Warning, "P0001") => "01000",
            (_, "P0001") => "00000",
            (_, code) => code,
        };
        self.session.code_notice(PgError { severity, code, ..error })?;
        Ok(())
    }

    pub(super) async fn assert(&mut self, condition: &Sql, message: &Option<Sql>) -> Result<()> {
        let (value, _) = self.eval(condition).await?;
        if self.converted(&value, ColType::new(TypeKind::Bool))? == Value::Bool(true) {
            return Ok(());
        }
        let text = match message {
            Some(message) => self.shown(message).await?,
            None => "assertion failed".to_owned(),
        };
        Err(PgError::new("P0004", text))
    }

    /// The field's `raise_application_error`.
    pub(super) async fn fail(
        &mut self,
        number: &Sql,
        message: &Sql,
        keeps: Option<&Sql>,
    ) -> Result<()> {
        let (number, _) = self.eval(number).await?;
        let Value::Int4(number) = self.converted(&number, ColType::new(TypeKind::Int4))? else {
            return Err(PgError::new("22004", "the number of an error cannot be null"));
        };
        if !GIVEN_NUMBERS.contains(&number) {
            let text = format!("the number of an error is between -20999 and -20000, not {number}");
            return Err(PgError::new("22023", text));
        }
        let text = self.shown(message).await?;
        let keeps = match keeps {
            Some(keeps) => self.is_true(keeps).await?,
            None => false,
        };
        let kept = self.handled.last().filter(|_| keeps).map(|handled| told(&handled.error));
        let error = with_number(number, text, kept);
        self.number = Some(number);
        Err(error)
    }

    /// What `dbms_utility` tells of the error at hand, or where it happened; NULL: there is none.
    pub(super) fn error_text(&self, what: bool) -> Value {
        let Some(handled) = self.handled.last() else { return Value::Null };
        let error = &handled.error;
        let text = match what {
            true => Some(told(error)),
            false => error.about.as_deref().and_then(|about| about.context.as_deref()),
        };
        text.map_or(Value::Null, |text| Value::Text(text.into()))
    }

    pub(super) fn diagnose(&mut self, stacked: bool, items: &[(Use, String)]) -> Result<()> {
        let text = |text: Option<&str>| Value::Text(text.unwrap_or_default().into());
        let error = self.handled.last().map(|handled| handled.error.clone());
        if stacked && error.is_none() {
            let text = "GET STACKED DIAGNOSTICS cannot be used outside an exception handler";
            return Err(PgError::new("0Z002", text));
        }
        for (target, item) in items {
            let about = error.as_ref().and_then(|e| e.about.as_deref());
            let (value, kind) = match (item.as_str(), &error) {
                ("row_count", _) => {
                    (self.places[super::tree::ROW_COUNT].value.clone(), TypeKind::Int8)
                }
                ("returned_sqlstate", Some(e)) => (text(Some(e.code)), TypeKind::Text),
                ("message_text", Some(e)) => (text(Some(&e.message)), TypeKind::Text),
                ("pg_exception_detail", Some(e)) => (text(e.detail.as_deref()), TypeKind::Text),
                ("pg_exception_hint", Some(e)) => (text(e.hint.as_deref()), TypeKind::Text),
                (item, _) => {
                    let found = about.and_then(|about| match item {
                        "pg_exception_context" => about.context.as_deref(),
                        "constraint_name" => about.constraint.as_deref(),
                        "table_name" => about.table.as_deref(),
                        "schema_name" => about.schema.as_deref(),
                        "column_name" => about.column.as_deref(),
                        _ => None,
                    });
                    (text(found), TypeKind::Text)
                }
            };
            self.store(target, value, ColType::new(kind))?;
        }
        Ok(())
    }
}
