//! Statements on their way: results, notices, errors with their places.

use super::binds::{BOUND, Binds, NOTHING};
use super::blocks;
use super::buffer::CompileError;
use super::defines::Unknown;
use super::format::{Kind, Look, Table};
use super::headings::name_columns;
use super::place::{Bound, Edited, Place, Sent};
use super::whenever::OnError;
use super::words::first_word;
use super::{Flow, Notice, Shell};
use crate::error::{CliError, Result};
use bytes::Bytes;
use futures::{SinkExt, StreamExt};
use server::sql_engine::sqlcode;
use std::io::{IsTerminal, Write};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;
use tokio_postgres::types::Type;
use tokio_postgres::{SimpleQueryMessage, Statement};

/// What a statement without a session fails with.
pub(super) const UNCONNECTED: &str = "not connected: connect [K] begins a session";

/// The field's numbers for a session that is not there, one that was lost, and what has none.
pub(super) const NUMBER_UNCONNECTED: i32 = -3114;
pub(super) const NUMBER_LOST: i32 = -3113;
const NUMBER_OTHER: i32 = -20_000;

/// The savepoint before a statement is asked what its columns are.
const KINDS_MARK: &str = "skein_sql_kinds";

/// The value of a bind variable in a line that a block puts out.
struct Told {
    /// What the block has left of a line without its end.
    before: String,
    name: String,
    value: Option<String>,
}

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

/// The number that `sqlcode` has for an error of a statement, in blocks as here.
fn number_of(error: &tokio_postgres::Error, statement: &str) -> i32 {
    let Some(about) = error.as_db_error() else { return NUMBER_LOST };
    // The innermost statement is told first.
    let within = about.where_().and_then(|context| context.lines().next());
    let in_change = match within {
        Some(line) => line.ends_with(" at SQL statement"),
        None => changes_rows(statement),
    };
    sqlcode(about.code().code(), about.message(), about.detail(), in_change)
}

fn words(statement: &str) -> Vec<String> {
    statement.split_ascii_whitespace().map(str::to_ascii_lowercase).collect()
}

/// Whether how many rows there were says something of a statement without a result.
fn changes_rows(statement: &str) -> bool {
    const WORDS: [&str; 8] =
        ["insert", "update", "delete", "merge", "with", "execute", "copy", "move"];
    words(statement).first().is_some_and(|word| WORDS.contains(&word.as_str()))
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

/// How a statement is sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Way<'a> {
    Ask,
    /// With parameters for its variables.
    Bound(&'a Binds),
    CopyOut,
    /// With these rows.
    CopyIn(&'a Bytes),
}

pub(super) type Answer = std::result::Result<Option<Table>, tokio_postgres::Error>;

/// What becomes of a result's columns in JSON.
pub(super) fn kinds_of(statement: &Statement) -> Vec<Kind> {
    let kind = |ty: &Type| match *ty {
        Type::INT2 | Type::INT4 | Type::INT8 | Type::NUMERIC | Type::OID => Kind::Number,
        Type::FLOAT4 | Type::FLOAT8 => Kind::Number,
        Type::BOOL => Kind::Truth,
        Type::JSON | Type::JSONB => Kind::Json,
        _ => Kind::Text,
    };
    statement.columns().iter().map(|column| kind(column.type_())).collect()
}

impl Shell {
    /// Runs what was typed.
    pub(super) async fn run_typed(&mut self, typed: &str, place: &Place) -> Result<Flow> {
        let text = match self.substituted(typed, Unknown::AskInStatement).await {
            Ok(text) => text,
            Err(error) => return self.failed(&error.message),
        };
        if self.settings.verify {
            let shown = replaced_lines(typed, &text.shown());
            self.print(&shown);
        }
        if !takes_rows(&text.text) {
            return self.run_statement(typed, &text, place).await;
        }
        // They are not in the text: they are typed, up to their end.
        let mut rows = String::new();
        while let Some(row) = self.ask_for(">> ", false).await?.filter(|row| row != "\\.") {
            rows.push_str(&row);
            rows.push('\n');
        }
        self.run_sent(typed, &text, Way::CopyIn(&Bytes::from(rows)), place).await
    }

    pub(super) async fn run_statement(
        &mut self,
        typed: &str,
        text: &Edited,
        place: &Place,
    ) -> Result<Flow> {
        let way = if copies(&text.text, "to", "stdout") { Way::CopyOut } else { Way::Ask };
        self.run_sent(typed, text, way, place).await
    }

    pub(super) async fn run_sent(
        &mut self,
        typed: &str,
        substituted: &Edited,
        way: Way<'_>,
        place: &Place,
    ) -> Result<Flow> {
        self.is_interrupted = false;
        self.has_parameters = false;
        if !self.is_connected {
            (self.has_failed, self.sqlcode) = (true, NUMBER_UNCONNECTED);
            return self.failed(UNCONNECTED);
        }
        let text = substituted.text.as_str();
        if let Some(name) = self.undeclared(text) {
            (self.has_failed, self.sqlcode) = (true, NUMBER_OTHER);
            return self.failed(&format!("bind variable \"{name}\" is not declared"));
        }
        let bound = self.bound(text);
        let binds = match (&bound, way) {
            (Some(bound), Way::Ask) if !bound.is_block() => self.binds(text),
            _ => None,
        };
        let way = binds.as_ref().map_or(way, Way::Bound);
        // With the values in it, which is also how it is explained.
        let whole = bound.as_ref().map(Bound::text);
        let sent = whole.as_deref().unwrap_or(text);
        // What gives values to variables is a block by now, which has no plan.
        let traced = self.told_of(text).filter(|_| !blocks::returns_into(text));
        if let Some(told) = traced.filter(|_| self.only_explains(text)) {
            let failed = self.tell_trace(told, sent, None).await;
            (self.has_failed, self.sqlcode) = (failed.is_some(), NUMBER_OTHER);
            return match failed {
                Some(error) => self.statement_failed(&error).await,
                None => Ok(Flow::Next),
            };
        }
        let before = match self.figures_before(traced).await {
            Ok(before) => before,
            Err(error) => return self.failed(&error.message),
        };
        let begun = Instant::now();
        let done = self.deliver(sent, way).await;
        self.has_failed = done.is_err();
        if let Err(error) = &done {
            self.sqlcode = number_of(error, text);
        }
        self.may_commit &= self.has_failed;
        if first_word(text).eq_ignore_ascii_case("commit") {
            // Scripts of the field end so whether or not there is anything to commit.
            self.keep_notices();
            self.kept.retain(|notice| !notice.ends_nothing);
        }
        self.say_notices();
        let made = blocks::stored(text);
        let flow = match done {
            Ok(table) => {
                self.prepared.note(text);
                if made.is_some() {
                    self.compile_error = None;
                }
                if let Some(table) = table {
                    let shows = traced.is_none_or(|told| told.rows);
                    self.take_result(table, substituted, sent, shows).await;
                }
                Flow::Next
            }
            Err(e) => {
                let with_parameters = binds.as_ref().filter(|_| self.has_parameters);
                let bound = with_parameters.map(|binds| &binds.sent).or(bound.as_ref());
                let sent = Sent { typed, substituted, bound };
                self.refused(&e, &sent, made, place).await?
            }
        };
        if self.settings.timing {
            let ms = begun.elapsed().as_secs_f64() * 1000.0;
            self.print(&format!("Time: {ms:.3} ms\n"));
        }
        if let Some(told) = traced.filter(|_| !self.has_failed) {
            let failed = self.tell_trace(told, sent, before).await;
            failed.iter().for_each(|error| self.print(&format!("{error}\n")));
        }
        let used = bound.filter(|bound| bound.is_block() && !self.has_failed);
        if let Some(bound) = used.filter(|_| self.settings.autoprint) {
            self.show_variables(&bound.used).await?;
        }
        Ok(flow)
    }

    /// Says what the server has against a statement, and keeps it if that makes stored code.
    async fn refused(
        &mut self,
        error: &tokio_postgres::Error,
        sent: &Sent<'_>,
        made: Option<(String, String)>,
        place: &Place,
    ) -> Result<Flow> {
        let about = error.as_db_error();
        if let (Some((kind, name)), Some(about)) = (made, about) {
            let (line, column) = sent.line_told(about).unwrap_or((1, None));
            let text = format!("{}: {}", about.code().code(), about.message());
            self.compile_error = Some(CompileError { kind, name, line, column, text });
        }
        let text = format!("{}{}", error_text(error), sent.told(about, place));
        self.statement_failed(&text).await
    }

    /// Takes what a statement has given: shows it, and keeps what columns give to variables.
    pub(super) async fn take_result(
        &mut self,
        mut table: Table,
        typed: &Edited,
        sent: &str,
        shows: bool,
    ) {
        // What may not be seen is in no heading.
        name_columns(&mut table.header, &typed.shown());
        if shows && table.kinds.is_empty() && self.writes_numbers(&table) {
            table.kinds = self.kinds_of_shown(sent).await;
        }
        self.lay_out(&mut table);
        let mut table = self.columns_applied(table);
        self.shape(&mut table);
        if !table.header.is_empty() && shows {
            self.show(&table);
        }
    }

    /// Says what failed, and ends the transaction if that is to follow.
    async fn statement_failed(&mut self, text: &str) -> Result<Flow> {
        let flow = self.failed(text)?;
        if let OnError::Continue(end) = self.settings.on_error
            && let Err(error) = self.end(end).await
        {
            eprintln!("{}", error_text(&error));
        }
        Ok(flow)
    }

    pub(super) async fn way(&mut self, text: &str, way: Way<'_>) -> Answer {
        match way {
            Way::Ask => self.ask(text).await,
            Way::Bound(binds) => self.ask_bound(text, binds).await,
            Way::CopyOut => self.copy_out(text).await,
            Way::CopyIn(rows) => self.copy_in(text, rows).await,
        }
    }

    /// Says that a statement without a result is done. `None`: it is none of rows.
    pub(super) fn tell_done(&mut self, rows: Option<u64>) {
        if self.settings.feedback {
            self.tell.push(match rows {
                Some(rows) => format!("done, {rows} rows\n"),
                None => "done\n".to_owned(),
            });
        }
    }

    /// Waits for an answer, and keeps what the server says meanwhile. Ctrl-C ends the statement.
    pub(super) async fn awaited<T>(&mut self, asked: impl Future<Output = T>) -> T {
        let cancel = self.client.cancel_token();
        let mut asked = std::pin::pin!(asked);
        loop {
            tokio::select! {
                answer = &mut asked => break answer,
                Some(notice) = self.notices.recv() => self.kept.push(notice),
                _ = tokio::signal::ctrl_c() => {
                    self.is_interrupted = true;
                    self.link.cancel(&cancel).await;
                }
            }
        }
    }

    /// Sends a statement; what it gives.
    pub(super) async fn ask(&mut self, text: &str) -> Answer {
        let kinds = match self.settings.format {
            super::Format::Json => self.kinds(text).await,
            _ => Vec::new(),
        };
        let client = Rc::clone(&self.client);
        let answer = self.awaited(client.simple_query(text)).await?;
        let mut table: Option<Table> = None;
        let mut done = None;
        for message in answer {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    let header = columns.iter().map(|c| c.name().to_owned()).collect();
                    let kinds = kinds.clone();
                    table = Some(Table { header, kinds, ..Table::default() });
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
        Ok(self.answered(text, table, done))
    }

    /// Notes how many rows a statement has given or changed, and says so of one without a result.
    pub(super) fn answered(
        &mut self,
        text: &str,
        table: Option<Table>,
        done: Option<u64>,
    ) -> Option<Table> {
        self.done_rows = table.as_ref().map_or(done.unwrap_or(0), |table| table.rows.len() as u64);
        if table.is_none()
            && let Some(rows) = done
        {
            self.tell_done(changes_rows(text).then_some(rows));
        }
        table
    }

    /// What the columns of a result are, of a statement that has given one; an open transaction is
    /// left as it was.
    async fn kinds_of_shown(&self, text: &str) -> Vec<Kind> {
        if !self.transaction.open {
            return self.kinds(text).await;
        }
        let mark = format!("savepoint {KINDS_MARK}");
        if self.client.simple_query(&mark).await.is_err() {
            return Vec::new();
        }
        let kinds = self.kinds(text).await;
        let back = format!("rollback to savepoint {KINDS_MARK}; release savepoint {KINDS_MARK}");
        // If that cannot be done, the next statement tells why.
        let _ = self.client.simple_query(&back).await;
        kinds
    }

    /// What becomes of a result's columns in JSON.
    async fn kinds(&self, text: &str) -> Vec<Kind> {
        // What cannot be prepared gives no rows, or fails again when it is sent.
        let prepared = self.client.prepare(text).await;
        prepared.map(|statement| kinds_of(&statement)).unwrap_or_default()
    }

    /// Rows of a COPY to the client, as they come.
    async fn copy_out(&mut self, text: &str) -> Answer {
        let rows = self.client.copy_out(text).await?;
        let mut rows = std::pin::pin!(rows);
        while let Some(row) = rows.next().await {
            let row = row?;
            self.print(&String::from_utf8_lossy(&row));
        }
        Ok(None)
    }

    /// Sends the rows of a COPY from the client.
    async fn copy_in(&mut self, text: &str, rows: &Bytes) -> Answer {
        let sink = self.client.copy_in(text).await?;
        let mut sink = std::pin::pin!(sink);
        sink.send(rows.clone()).await?;
        let count = sink.finish().await?;
        self.tell_done(Some(count));
        Ok(None)
    }

    /// Lets go what a statement has said that is run once more.
    pub(super) fn forget_notices(&mut self) {
        while self.notices.try_recv().is_ok() {}
        self.kept.clear();
        self.tell.clear();
    }

    fn keep_notices(&mut self) {
        while let Ok(notice) = self.notices.try_recv() {
            self.kept.push(notice);
        }
    }

    /// Prints what the server has said, and takes the values of bind variables out of it.
    pub(super) fn say_notices(&mut self) {
        self.keep_notices();
        for notice in std::mem::take(&mut self.kept) {
            let Some(told) = self.told_value(&notice.text) else {
                self.say_notice(&notice);
                continue;
            };
            if told.name.is_empty() {
                let rows = told.value.and_then(|rows| rows.parse().ok()).unwrap_or(0);
                self.done_rows = rows;
                self.tell.clear();
                self.tell_done(Some(rows));
                continue;
            }
            if let Some(variable) = self.variables.get_mut(&told.name) {
                variable.value = told.value;
            }
            // Half a line that the block has left; without the value it would have been said so.
            if !told.before.is_empty() {
                self.say_notice(&Notice { text: told.before, ..notice });
            }
        }
        for text in std::mem::take(&mut self.tell) {
            self.print(&text);
        }
    }

    fn say_notice(&mut self, notice: &Notice) {
        let Notice { severity, text, .. } = notice;
        match self.settings.serveroutput {
            // The field's: lines as they are, or none.
            Some(true) if severity == "NOTICE" => self.print(&format!("{text}\n")),
            Some(false) if severity == "NOTICE" => {}
            _ => eprintln!("{severity}:  {text}"),
        }
    }

    /// The value of a bind variable that a line of a block tells, if it does; without a name it is
    /// the number of rows that were changed.
    fn told_value(&self, line: &str) -> Option<Told> {
        line.match_indices(BOUND).find_map(|(at, mark)| {
            let (name, value) = line[at + mark.len()..].split_once('=')?;
            (name.is_empty() || self.variables.contains_key(name)).then(|| Told {
                before: line[..at].to_owned(),
                name: name.to_owned(),
                value: (value != NOTHING).then(|| value.to_owned()),
            })
        })
    }

    /// Shows a result, by a pager if it is longer than the screen.
    pub(super) fn show(&mut self, table: &Table) {
        let settings = &self.settings;
        let look = Look {
            heading: settings.heading,
            count: settings.feedback,
            null: &settings.null,
            separator: &settings.separator,
            csv: settings.csv,
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
}

/// Lines in which names were replaced, as they were and as they are.
fn replaced_lines(typed: &str, text: &str) -> String {
    let lines = (1..).zip(typed.lines().zip(text.lines()));
    let replaced = lines.filter(|(_, (old, new))| old != new);
    replaced.map(|(n, (old, new))| format!("old{n:>4}: {old}\nnew{n:>4}: {new}\n")).collect()
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
    if !shell.is_connected {
        return Err(CliError::failed(UNCONNECTED));
    }
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
    fn rows_follow_a_copy_from_the_client() {
        assert!(takes_rows("COPY t (a)\nFROM  stdin csv") && !takes_rows("copy t to stdout"));
    }

    #[test]
    fn lines_with_names_are_shown_as_they_were_and_are() {
        let shown = replaced_lines("select\n  &a\nfrom t", "select\n  1\nfrom t");
        assert_eq!(shown, "old   2:   &a\nnew   2:   1\n");
    }
}
