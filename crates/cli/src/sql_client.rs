//! `skein sql`: a small client for scripts and first looks. `psql` is the comfortable one.
//!
//! It connects through the Unix socket in the database's folder, so the owner needs no password.
//! Statements are sent one at a time; the first that fails ends a script with exit code 1.

use crate::config::Config;
use crate::error::{CliError, Doing, Result, say};
use crate::layout::Layout;
use crate::runtime::{State, probe};
use futures::{StreamExt, stream};
use std::io::{BufRead, IsTerminal, Read, Write};
use std::path::Path;
use tokio_postgres::{AsyncMessage, Client, NoTls, SimpleQueryMessage};

/// Runs `commands`, or the statements in `file`, or those on standard input.
pub fn run(
    dir: &Path,
    instance: Option<u16>,
    commands: &[String],
    file: Option<&Path>,
) -> Result<()> {
    let layout = Layout::new(dir);
    let port = find_port(&layout, instance)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .doing("start the client")?;
    runtime.block_on(async {
        let client = connect(&layout, port).await?;
        if !commands.is_empty() {
            for text in commands {
                run_script(&client, text).await?;
            }
            return Ok(());
        }
        if let Some(path) = file {
            let text =
                std::fs::read_to_string(path).doing(format_args!("read {}", path.display()))?;
            return run_script(&client, &text).await;
        }
        if std::io::stdin().is_terminal() {
            return converse(&client).await;
        }
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).doing("read standard input")?;
        run_script(&client, &text).await
    })
}

fn find_port(layout: &Layout, instance: Option<u16>) -> Result<u16> {
    let config = Config::load(layout)?;
    let candidates: Vec<u16> = match instance {
        Some(k) => {
            config.check_instance(k)?;
            vec![k]
        }
        None => (1..=config.instances).collect(),
    };
    for k in candidates {
        if let Some(runtime) = probe(layout, k)?.filter(|r| r.state == State::Open) {
            let port = runtime.listen.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
            return port.ok_or_else(|| {
                CliError::failed(format!("instance {k} has no usable address {}", runtime.listen))
            });
        }
    }
    Err(CliError::state(match instance {
        Some(k) => format!("instance {k} is not open"),
        None => "no instance is open".to_owned(),
    }))
}

async fn connect(layout: &Layout, port: u16) -> Result<Client> {
    let mut config = tokio_postgres::Config::new();
    config.host_path(layout.dir()).port(port).user("skein").dbname("skein");
    config.application_name("skein sql");
    let (client, mut connection) =
        config.connect(NoTls).await.map_err(|e| CliError::failed(error_text(&e)))?;
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            if let AsyncMessage::Notice(notice) = message {
                eprintln!("{}:  {}", notice.severity(), notice.message());
            }
        }
    });
    Ok(client)
}

async fn run_script(client: &Client, text: &str) -> Result<()> {
    for statement in split_statements(text) {
        run_statement(client, statement).await?;
    }
    Ok(())
}

/// Prompts until the input ends; an error is shown and does not end it.
async fn converse(client: &Client) -> Result<()> {
    let mut pending = String::new();
    loop {
        print!("{}", if pending.trim().is_empty() { "skein=# " } else { "skein-# " });
        std::io::stdout().flush().doing("write the prompt")?;
        let mut line = String::new();
        if std::io::stdin().lock().read_line(&mut line).doing("read a line")? == 0 {
            say!("");
            return Ok(());
        }
        if pending.trim().is_empty() && matches!(line.trim(), "\\q" | "quit" | "exit") {
            return Ok(());
        }
        pending.push_str(&line);
        if is_complete(&pending) {
            for statement in split_statements(&std::mem::take(&mut pending)) {
                if let Err(e) = run_statement(client, statement).await {
                    eprintln!("{e}");
                }
            }
        }
    }
}

/// Rows of a COPY to the client, as they come.
async fn copy_out(client: &Client, statement: &str) -> Result<()> {
    let failed = |e| CliError::failed(error_text(&e));
    let rows = client.copy_out(statement).await.map_err(failed)?;
    let mut rows = std::pin::pin!(rows);
    while let Some(row) = rows.next().await {
        // A reader that has gone (`skein … | head`) does not stop the work.
        let _ = std::io::stdout().write_all(&row.map_err(failed)?);
    }
    Ok(())
}

/// The words of a statement that say which of psql's ways it would need.
fn words(statement: &str) -> Vec<String> {
    statement.split_ascii_whitespace().map(str::to_ascii_lowercase).collect()
}

async fn run_statement(client: &Client, statement: &str) -> Result<()> {
    if let Some(command) = statement.strip_prefix('\\') {
        return Err(CliError::failed(format!(
            "\\{command} is a command of psql; connect with it as `skein status` shows"
        )));
    }
    let words = words(statement);
    let has = |one: &str, two: &str| words.windows(2).any(|w| w[0] == one && w[1] == two);
    if words.first().is_some_and(|word| word == "copy") {
        if has("to", "stdout") {
            return copy_out(client, statement).await;
        }
        if has("from", "stdin") {
            return Err(CliError::failed("COPY FROM STDIN needs psql, which sends the rows"));
        }
    }
    let answer = client.simple_query(statement).await;
    let messages = answer.map_err(|e| CliError::failed(error_text(&e)))?;
    let mut table: Option<Table> = None;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(columns) => {
                let header = columns.iter().map(|c| c.name().to_owned()).collect();
                table = Some(Table { header, rows: Vec::new() });
            }
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|i| row.get(i).unwrap_or("").to_owned()).collect();
                if let Some(table) = &mut table {
                    table.rows.push(values);
                }
            }
            SimpleQueryMessage::CommandComplete(rows) => match table.take() {
                Some(table) => say!("{}", table.text().trim_end_matches('\n')),
                None => say!("done, {rows} rows"),
            },
            _ => {}
        }
    }
    Ok(())
}

/// Severity, SQLSTATE and message, then what else the server says.
fn error_text(e: &tokio_postgres::Error) -> String {
    let Some(db) = e.as_db_error() else {
        let cause = std::error::Error::source(e).map(|s| format!(": {s}")).unwrap_or_default();
        return format!("{e}{cause}");
    };
    let mut text = format!("{} {}: {}", db.severity(), db.code().code(), db.message());
    for (name, more) in [("DETAIL", db.detail()), ("HINT", db.hint())] {
        if let Some(more) = more {
            text.push_str(&format!("\n{name}: {more}"));
        }
    }
    text
}

/// A result, aligned.
struct Table {
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

impl Table {
    fn text(&self) -> String {
        let widths: Vec<usize> = (0..self.header.len())
            .map(|i| {
                let cells = self.rows.iter().map(|r| r[i].chars().count());
                cells.chain([self.header[i].chars().count()]).max().unwrap_or(0)
            })
            .collect();
        let line = |cells: &[String]| {
            let padded = cells.iter().zip(&widths).map(|(c, w)| format!(" {c:<w$} "));
            padded.collect::<Vec<_>>().join("|").trim_end().to_owned() + "\n"
        };
        let rule: Vec<String> = widths.iter().map(|w| "-".repeat(w + 2)).collect();
        let mut text = line(&self.header) + &rule.join("+") + "\n";
        text.extend(self.rows.iter().map(|r| line(r)));
        let count = self.rows.len();
        text + &format!("({count} row{})\n", if count == 1 { "" } else { "s" })
    }
}

/// Whether the text ends with a finished statement.
fn is_complete(text: &str) -> bool {
    let statements = split_at_semicolons(text);
    statements.last().is_some_and(|(_, finished)| *finished)
}

/// The statements in a text, without those that are only blanks and comments.
fn split_statements(text: &str) -> Vec<&str> {
    split_at_semicolons(text)
        .into_iter()
        .map(|(statement, _)| statement.trim())
        .filter(|statement| !statement.is_empty())
        .collect()
}

/// Cuts at semicolons outside quotes and comments; says of each part whether a semicolon ended it.
fn split_at_semicolons(text: &str) -> Vec<(&str, bool)> {
    let bytes = text.as_bytes();
    let (mut parts, mut from, mut at, mut blank) = (Vec::new(), 0, 0, true);
    while at < bytes.len() {
        let rest = &text[at..];
        let skip = match bytes[at] {
            b'\'' | b'"' => quoted_len(rest),
            b'-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            b'/' if rest.starts_with("/*") => rest.find("*/").map_or(rest.len(), |i| i + 2),
            b'$' => dollar_len(rest),
            b';' => {
                if !blank {
                    parts.push((&text[from..at], true));
                }
                (from, blank) = (at + 1, true);
                1
            }
            _ => rest.chars().next().map_or(1, char::len_utf8),
        };
        let is_comment = rest.starts_with("--") || rest.starts_with("/*");
        if !is_comment && !matches!(bytes[at], b';') && !bytes[at].is_ascii_whitespace() {
            blank = false;
        }
        at += skip;
    }
    if !blank {
        parts.push((&text[from..], false));
    }
    parts
}

/// Length of the quoted text that `text` begins with; a doubled quote is inside.
fn quoted_len(text: &str) -> usize {
    let quote = text.as_bytes()[0];
    let mut at = 1;
    let bytes = text.as_bytes();
    while at < bytes.len() {
        if bytes[at] == quote {
            if bytes.get(at + 1) != Some(&quote) {
                return at + 1;
            }
            at += 1;
        }
        at += 1;
    }
    text.len()
}

/// Length of the dollar-quoted text that `text` begins with, or of a lone dollar sign.
fn dollar_len(text: &str) -> usize {
    let Some(end) = text[1..].find('$').map(|i| i + 2) else { return 1 };
    let tag = &text[..end];
    let name = &tag[1..end - 1];
    if name.starts_with(|c: char| c.is_ascii_digit())
        || !name.chars().all(|c| c.is_alphanumeric() || c == '_')
    {
        return 1;
    }
    text[end..].find(tag).map_or(text.len(), |i| end + i + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_are_cut_at_semicolons_that_end_them() {
        let text = "select ';'; -- a; b\ninsert into t values ('it''s;', \"c;d\");;\n\
                    do $$ begin; end $$; do $x$ $$; $x$; /* ; */ select $1; commit -- end";
        assert_eq!(
            split_statements(text),
            [
                "select ';'",
                "-- a; b\ninsert into t values ('it''s;', \"c;d\")",
                "do $$ begin; end $$",
                "do $x$ $$; $x$",
                "/* ; */ select $1",
                "commit -- end",
            ]
        );
        assert!(split_statements(" ; -- nothing\n ; /* x */").is_empty());
    }

    #[test]
    fn a_statement_is_complete_at_its_semicolon() {
        assert!(is_complete("select 1;\n"));
        assert!(!is_complete("select 1\n"));
        assert!(!is_complete("select ';\n"));
        assert!(!is_complete(""));
    }

    #[test]
    fn results_are_aligned() {
        let table = Table {
            header: vec!["id".into(), "name".into()],
            rows: vec![vec!["1".into(), "Zoë".into()], vec!["100".into(), String::new()]],
        };
        assert_eq!(table.text(), " id  | name\n-----+------\n 1   | Zoë\n 100 |\n(2 rows)\n");
    }
}
