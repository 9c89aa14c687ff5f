//! SET, RESET, SHOW and DISCARD: the session's settings.
//!
//! What it promises: SHOW says what is in force, also for parameters of the instance. What it must
//! never do: change a parameter of the instance; that is ALTER SYSTEM.

use super::{done, refuse, setting_name};
use crate::cache::Named;
use crate::encode::{RowSink, column_of};
use crate::session::{Fetched, Portal, Session};
use crate::settings::parse_isolation;
use crate::{PgError, Result};
use datafusion::sql::sqlparser::ast::{
    self, ContextModifier, DiscardObject, Expr, Reset, Set, Value as Literal,
};
use kernel::row::TypeKind;
use kernel::txn::Isolation;
use query::PgColumn;

/// The result columns of SHOW.
pub(super) fn show_columns(variable: &[ast::Ident]) -> Vec<PgColumn> {
    let text = |name: &str| column_of(name, TypeKind::Text);
    match show_name(variable).as_str() {
        "all" => vec![text("name"), text("setting"), text("description")],
        name => vec![text(show_heading(name))],
    }
}

/// Names of schemas as `SET search_path` takes them: each is one name, however it is written.
fn path_value(values: &[Expr]) -> Result<Option<String>> {
    let quote = |name: &str| match name {
        "$user" | "" => format!("\"{name}\""),
        other => query::functions::quote_ident(other),
    };
    let mut out = Vec::new();
    for value in values {
        match value {
            Expr::Identifier(ident)
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
            {
                return Ok(None);
            }
            Expr::Identifier(ident) => out.push(quote(&crate::bind::ident_name(ident))),
            other => {
                let one = setting_value(std::slice::from_ref(other))?;
                out.push(quote(one.as_deref().unwrap_or("")));
            }
        }
    }
    Ok(Some(out.join(", ")))
}

/// A value as `SET` takes it: words, texts and numbers, joined.
fn setting_value(values: &[Expr]) -> Result<Option<String>> {
    let mut out = Vec::new();
    for value in values {
        match value {
            Expr::Identifier(ident)
                if ident.quote_style.is_none() && ident.value.eq_ignore_ascii_case("default") =>
            {
                return Ok(None);
            }
            Expr::Identifier(ident) => out.push(ident.value.clone()),
            Expr::Value(v) => match &v.value {
                Literal::SingleQuotedString(s)
                | Literal::DoubleQuotedString(s)
                | Literal::EscapedStringLiteral(s) => out.push(s.clone()),
                Literal::Number(n, _) => out.push(n.clone()),
                Literal::Boolean(b) => out.push(if *b { "on" } else { "off" }.to_owned()),
                other => out.push(other.to_string()),
            },
            other => out.push(other.to_string().trim_matches('\'').to_owned()),
        }
    }
    Ok(Some(out.join(", ")))
}

impl Session {
    pub(super) fn run_set(&mut self, set: &Set) -> Result<Fetched> {
        match set {
            Set::SingleAssignment { scope, hivevar: false, variable, values } => {
                let local = *scope == Some(ContextModifier::Local);
                let name = setting_name(variable)?;
                let value = match name.as_str() {
                    "search_path" => path_value(values)?,
                    _ => setting_value(values)?,
                };
                if name == "transaction_isolation" {
                    let isolation = match &value {
                        Some(text) => parse_isolation(text)?,
                        None => self.settings.isolation,
                    };
                    self.change_isolation(isolation, None)?;
                } else {
                    self.settings.set(&name, value.as_deref(), local)?;
                    self.note_context();
                    if name == "application_name" {
                        self.ctx.session.set_program(value.as_deref().unwrap_or(""));
                    }
                }
            }
            Set::SetTimeZone { local, value } => {
                let value = setting_value(std::slice::from_ref(value))?;
                self.settings.set("timezone", value.as_deref(), *local)?;
                self.note_context();
            }
            Set::SetNames { charset_name, .. } => {
                self.settings.set("client_encoding", Some(&charset_name.value), false)?;
            }
            Set::SetNamesDefault {} => {}
            Set::SetTransaction { modes, snapshot: None, session } => {
                let (isolation, read_only) = self.modes(modes)?;
                if *session {
                    self.settings.isolation = isolation;
                    self.settings.read_only = read_only;
                } else {
                    self.change_isolation(isolation, Some(read_only))?;
                }
            }
            other => return refuse(format!("SET {other}")),
        }
        done("SET")
    }

    pub(super) fn run_reset(&mut self, reset: &Reset) -> Result<Fetched> {
        match reset {
            Reset::ALL => self.settings.reset_all()?,
            Reset::ConfigurationParameter(name) => {
                self.settings.set(&setting_name(name)?, None, false)?;
            }
        }
        self.note_context();
        done("RESET")
    }

    pub(super) fn run_show(
        &mut self,
        variable: &[ast::Ident],
        portal: &Portal,
        sink: &mut dyn RowSink,
    ) -> Result<Fetched> {
        let name = show_name(variable);
        let mut rows: Vec<Vec<String>> = Vec::new();
        if name == "all" {
            for (name, value) in self.settings.all() {
                rows.push(vec![name, value, String::new()]);
            }
            for row in self.instance.params.rows() {
                rows.push(vec![row.name.to_owned(), row.display_value, row.description.to_owned()]);
            }
        } else {
            let value = self.show_setting(&name).ok_or_else(|| {
                let text = format!("unrecognized configuration parameter \"{name}\"");
                PgError::new("42704", text)
            })?;
            rows.push(vec![value]);
        }
        self.send_texts(&rows, portal, sink)?;
        done("SHOW")
    }

    /// A setting or, failing that, a parameter of the instance.
    pub(crate) fn show_setting(&self, name: &str) -> Option<String> {
        match name {
            "transaction_isolation" | "transaction isolation level" => {
                let isolation = self.txn.as_ref().map(|txn| txn.handle.isolation());
                Some(isolation_name(isolation.unwrap_or(self.settings.isolation)).to_owned())
            }
            "ssl" => {
                let on = !self.instance.params.ssl_cert_file().is_empty();
                Some(if on { "on" } else { "off" }.to_owned())
            }
            "transaction_read_only" => {
                let read_only =
                    self.txn.as_ref().map_or(self.settings.read_only, |txn| txn.read_only);
                Some(if read_only { "on" } else { "off" }.to_owned())
            }
            name => self.settings.show(name).or_else(|| self.instance.params.show(name).ok()),
        }
    }

    pub(super) async fn run_discard(&mut self, what: &DiscardObject) -> Result<Fetched> {
        match what {
            DiscardObject::ALL => {
                if self.txn.as_ref().is_some_and(|txn| txn.explicit) {
                    let text = "DISCARD ALL cannot run inside a transaction block";
                    return Err(PgError::new("25001", text));
                }
                self.drop_temporary().await?;
                self.named = Named::new();
                self.cursors.clear();
                self.note_open_cursors();
                self.user_locks.release_all();
                self.end_to_listen(None);
                self.sequences.clear();
                self.last_sequence = None;
                self.reset_output();
                self.settings.reset_all()?;
                self.note_context();
                done("DISCARD ALL")
            }
            DiscardObject::PLANS => {
                self.database.cache.clear();
                done("DISCARD PLANS")
            }
            DiscardObject::SEQUENCES => {
                self.sequences.clear();
                self.last_sequence = None;
                done("DISCARD SEQUENCES")
            }
            DiscardObject::TEMP => {
                self.drop_temporary().await?;
                done("DISCARD TEMP")
            }
        }
    }
}

fn isolation_name(isolation: Isolation) -> &'static str {
    match isolation {
        Isolation::ReadCommitted => "read committed",
        Isolation::RepeatableRead => "repeatable read",
    }
}

fn show_name(variable: &[ast::Ident]) -> String {
    let words: Vec<String> = variable.iter().map(|i| i.value.to_lowercase()).collect();
    match words.join(" ").as_str() {
        "time zone" => "timezone".to_owned(),
        "transaction isolation level" => "transaction_isolation".to_owned(),
        "session authorization" => "session_authorization".to_owned(),
        _ => words.join("."),
    }
}

fn show_heading(name: &str) -> &str {
    match name {
        "timezone" => "TimeZone",
        "datestyle" => "DateStyle",
        "intervalstyle" => "IntervalStyle",
        other => other,
    }
}
