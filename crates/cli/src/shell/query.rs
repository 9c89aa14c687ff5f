//! Statements on their way: results, notices, errors with their places, bind variables.

use super::format::{Kind, Look, Table};
use super::pieces::closed_len;
use super::{Flow, Notice, Place, Shell, Variable};
use crate::error::{CliError, Result};
use futures::{SinkExt, StreamExt};
use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};
use std::time::Instant;
use tokio_postgres::error::ErrorPosition;
use tokio_postgres::types::Type;
use tokio_postgres::{NoTls, SimpleQueryMessage};

/// What a value of a bind variable begins with in the lines that a block puts out.
const BOUND: char = '\u{1}';
/// NULL in such a line.
const NOTHING: &str = "\u{2}";

/// Severity, SQLSTATE and message, then what else the server says.
pub(crate) fn error_text(e: &tokio_postgres::Error) -> String {
    let Some(db) = e.as_db_error() else {
        let cause = std::error::Error::source(e).map(|s| format!(": {s}")).unwrap_or_default();
        return format!("{e}{cause}");
    };
    let mut text = format!("{} {}: {}", db.severity(), db.code().code(), db.message());
    for (name, more) in [("DETAIL", db.detail()), ("HINT", db.hint()), ("CONTEXT", db.where_())] {
        if let Some(more) = more {
            text.push_str(&format!("\n{name}: {more}"));
        }
    }
    text
}

/// Line and column of a character, from 1, and the line.
fn line_of(text: &str, position: u32) -> (usize, usize, &str) {
    let at = usize::try_from(position).unwrap_or(1).saturating_sub(1);
    let byte = text.char_indices().nth(at).map_or(text.len(), |(byte, _)| byte);
    let begin = text[..byte].rfind('\n').map_or(0, |i| i + 1);
    let end = text[byte..].find('\n').map_or(text.len(), |i| byte + i);
    let line = text[..byte].matches('\n').count() + 1;
    (line, text[begin..byte].chars().count() + 1, &text[begin..end])
}

/// The error with its place in the statement and in the file.
fn placed(e: &tokio_postgres::Error, text: &str, place: Place<'_>) -> String {
    let mut out = error_text(e);
    let position = match e.as_db_error().and_then(|db| db.position()) {
        Some(ErrorPosition::Original(position)) => Some(*position),
        _ => None,
    };
    let (line, column) = match position {
        Some(position) => {
            let (line, column, shown) = line_of(text, position);
            let shown = shown.trim_end();
            let begin = format!("LINE {line}: ");
            let blanks = " ".repeat(begin.chars().count() + column - 1);
            out.push_str(&format!("\n{begin}{shown}\n{blanks}^"));
            (line, Some(column))
        }
        None => (1, None),
    };
    if let Some(file) = place.file {
        let line = place.lines + line;
        let column = column.map_or(String::new(), |column| format!(", column {column}"));
        out.push_str(&format!("\nat {file}, line {line}{column}"));
    }
    out
}

fn words(statement: &str) -> Vec<String> {
    statement.split_ascii_whitespace().map(str::to_ascii_lowercase).collect()
}

fn copies(statement: &str, one: &str, two: &str) -> bool {
    let words = words(statement);
    words.first().is_some_and(|word| word == "copy")
        && words.windows(2).any(|w| w[0] == one && w[1] == two)
}

/// Whether rows follow the statement.
pub(super) fn takes_rows(statement: &str) -> bool {
    copies(statement, "from", "stdin")
}

/// A text as SQL has it.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Whether the statement is a block of the field's.
fn is_block(text: &str) -> bool {
    let first = words(text).into_iter().next().unwrap_or_default();
    matches!(first.as_str(), "begin" | "declare" | "<<") && text.contains(';')
}

impl Shell {
    pub(super) async fn run_statement(&mut self, text: &str, place: Place<'_>) -> Result<Flow> {
        let begun = Instant::now();
        let bound = self.bound(text);
        let sent = bound.as_deref().unwrap_or(text);
        let done = match copies(text, "to", "stdout") {
            true => self.copy_out(sent).await,
            false => self.ask(sent).await,
        };
        self.say_notices();
        let flow = match done {
            Ok(table) => {
                if let Some(table) = table {
                    self.show(&table);
                }
                Flow::Next
            }
            // Of a statement with variables in it the places are not those of what was typed.
            Err(e) if bound.is_some() => self.failed(&error_text(&e))?,
            Err(e) => self.failed(&placed(&e, text, place))?,
        };
        if self.settings.timing {
            let ms = begun.elapsed().as_secs_f64() * 1000.0;
            self.print(&format!("Time: {ms:.3} ms\n"));
        }
        Ok(flow)
    }

    /// Sends a statement; what it gives. Ctrl-C ends it.
    async fn ask(
        &mut self,
        text: &str,
    ) -> std::result::Result<Option<Table>, tokio_postgres::Error> {
        let cancel = self.client.cancel_token();
        let kinds = match self.settings.format {
            super::Format::Json => self.kinds(text).await,
            _ => Vec::new(),
        };
        let mut asked = std::pin::pin!(self.client.simple_query(text));
        let answer = loop {
            tokio::select! {
                answer = &mut asked => break answer?,
                Some(notice) = self.notices.recv() => {
                    self.kept.push(notice);
                    continue;
                }
                _ = tokio::signal::ctrl_c() => {
                    let _ = cancel.cancel_query(NoTls).await;
                }
            }
        };
        let mut table: Option<Table> = None;
        let mut done = None;
        for message in answer {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    let header = columns.iter().map(|c| c.name().to_owned()).collect();
                    let kinds = kinds.clone();
                    table = Some(Table { header, rows: Vec::new(), kinds });
                }
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect();
                    if let Some(table) = &mut table {
                        table.rows.push(cells);
                    }
                }
                SimpleQueryMessage::CommandComplete(rows) => done = Some(rows),
                _ => {}
            }
        }
        if table.is_none()
            && let Some(rows) = done
            && self.settings.feedback
        {
            self.tell.push(format!("done, {rows} rows\n"));
        }
        Ok(table)
    }

    /// What becomes of a result's columns in JSON.
    async fn kinds(&self, text: &str) -> Vec<Kind> {
        // What cannot be prepared gives no rows, or fails again when it is sent.
        let Ok(statement) = self.client.prepare(text).await else { return Vec::new() };
        let kind = |ty: &Type| match *ty {
            Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC | Type::OID => Kind::Number,
            Type::FLOAT4 | Type::FLOAT8 => Kind::Number,
            Type::BOOL => Kind::Truth,
            Type::JSON | Type::JSONB => Kind::Json,
            _ => Kind::Text,
        };
        statement.columns().iter().map(|column| kind(column.type_())).collect()
    }

    /// Rows of a COPY to the client, as they come.
    async fn copy_out(
        &mut self,
        text: &str,
    ) -> std::result::Result<Option<Table>, tokio_postgres::Error> {
        let rows = self.client.copy_out(text).await?;
        let mut rows = std::pin::pin!(rows);
        while let Some(row) = rows.next().await {
            let row = row?;
            self.print(&String::from_utf8_lossy(&row));
        }
        Ok(None)
    }

    /// Sends the rows of a COPY from the client.
    pub(super) async fn copy_in(
        &mut self,
        text: &str,
        rows: &str,
        place: Place<'_>,
    ) -> Result<Flow> {
        let sent = async {
            let sink = self.client.copy_in(text).await?;
            let mut sink = std::pin::pin!(sink);
            sink.send(bytes::Bytes::copy_from_slice(rows.as_bytes())).await?;
            sink.finish().await
        };
        match sent.await {
            Ok(count) => {
                if self.settings.feedback {
                    self.print(&format!("done, {count} rows\n"));
                }
                Ok(Flow::Next)
            }
            Err(e) => self.failed(&placed(&e, text, place)),
        }
    }

    /// Prints what the server has said, and takes the values of bind variables out of it.
    fn say_notices(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            self.kept.push(notice);
        }
        for notice in std::mem::take(&mut self.kept) {
            let Notice { severity, text } = notice;
            if let Some((name, value)) = text.strip_prefix(BOUND).and_then(|t| t.split_once('=')) {
                if let Some(variable) = self.variables.get_mut(name) {
                    variable.value = (value != NOTHING).then(|| value.to_owned());
                }
                continue;
            }
            match self.settings.serveroutput {
                // The field's: lines as they are, or none.
                Some(true) if severity == "NOTICE" => self.print(&format!("{text}\n")),
                Some(false) if severity == "NOTICE" => {}
                _ => eprintln!("{severity}:  {text}"),
            }
        }
        for text in std::mem::take(&mut self.tell) {
            self.print(&text);
        }
    }

    /// Shows a result, by a pager if it is longer than the screen.
    pub(super) fn show(&mut self, table: &Table) {
        let settings = &self.settings;
        let look = Look {
            heading: settings.heading,
            count: settings.feedback,
            null: &settings.null,
            separator: &settings.separator,
        };
        let text = table.text(settings.format, &look);
        let height = screen_height();
        let long = self.interactive
            && std::io::stdout().is_terminal()
            && height.is_some_and(|height| text.matches('\n').count() > height);
        if !long || !paged(&text) {
            self.print(&text);
        }
    }

    /// The statement with the values of bind variables; `None`: it has none.
    fn bound(&self, text: &str) -> Option<String> {
        let block = is_block(text);
        let (mut out, mut used, mut at) = (String::new(), Vec::new(), 0);
        let bytes = text.as_bytes();
        while at < bytes.len() {
            let rest = &text[at..];
            if let Some(skip) = closed_len(rest) {
                out.push_str(&rest[..skip]);
                at += skip;
                continue;
            }
            let skip = match bytes[at] {
                b':' if rest.starts_with("::") => 2,
                b':' => {
                    let name = &rest[1..];
                    let inside = |c: char| c.is_alphanumeric() || c == '_';
                    let len = name.find(|c| !inside(c)).unwrap_or(name.len());
                    let own = name[..len].to_lowercase();
                    if let Some(variable) = self.variables.get(&own) {
                        match block {
                            true => out.push_str(&format!("b_{own}")),
                            false => out.push_str(&value_of(variable)),
                        }
                        used.push(own);
                        at += 1 + len;
                        continue;
                    }
                    1
                }
                _ => rest.chars().next().map_or(1, char::len_utf8),
            };
            out.push_str(&rest[..skip]);
            at += skip;
        }
        if used.is_empty() {
            return None;
        }
        if !block {
            return Some(out);
        }
        used.sort();
        used.dedup();
        let (mut declared, mut told) = (String::new(), String::new());
        for name in &used {
            let variable = &self.variables[name];
            let value = value_of(variable);
            declared.push_str(&format!("b_{name} {} := {value};\n", variable.ty));
            told.push_str(&format!(
                "dbms_output.put_line('{BOUND}{name}=' || coalesce(b_{name}::text, '{NOTHING}'));\n"
            ));
        }
        let inner = out.trim_end().trim_end_matches(';');
        Some(format!("declare\n{declared}begin\n{inner};\n{told}end;"))
    }
}

fn value_of(variable: &Variable) -> String {
    match &variable.value {
        None => format!("cast(null as {})", variable.ty),
        Some(text) => format!("cast({} as {})", literal(text), variable.ty),
    }
}

/// Lines of the terminal.
fn screen_height() -> Option<usize> {
    let lines = std::env::var("LINES").ok().and_then(|lines| lines.parse().ok());
    lines.or_else(super::complete::terminal_height)
}

/// Shows a text by `$PAGER`, or `less`; `false`: there is none.
fn paged(text: &str) -> bool {
    let pager = std::env::var("PAGER").unwrap_or_else(|_| "less -FSX".to_owned());
    let child = Command::new("/bin/sh").args(["-c", &pager]).stdin(Stdio::piped()).spawn();
    let Ok(mut child) = child else { return false };
    if let Some(mut input) = child.stdin.take() {
        // Whoever reads may leave before the end.
        let _ = input.write_all(text.as_bytes());
    }
    child.wait().is_ok_and(|status| status.success())
}

/// A statement's rows, for the shell's own use.
pub(super) async fn rows(shell: &Shell, text: &str) -> Result<Table> {
    let answer = shell.client.simple_query(text).await;
    let messages = answer.map_err(|e| CliError::failed(error_text(&e)))?;
    let mut table = Table::default();
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                table.header = columns.iter().map(|c| c.name().to_owned()).collect();
            }
            SimpleQueryMessage::Row(row) => {
                let cells = (0..row.len()).map(|i| row.get(i).map(str::to_owned)).collect();
                table.rows.push(cells);
            }
            _ => {}
        }
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_by_line_and_column() {
        assert_eq!(line_of("select 1,\n  x\nfrom t", 13), (2, 3, "  x"));
        assert_eq!(line_of("é x", 3), (1, 3, "é x"));
        assert_eq!(line_of("a", 99), (1, 2, "a"));
        assert!(takes_rows("COPY t (a)\nFROM  stdin csv") && !takes_rows("copy t to stdout"));
    }
}
