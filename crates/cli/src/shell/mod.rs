//! `skein sql`: a shell for people and scripts, with the words of psql and of the field's own.
//!
//! It connects through the Unix socket in the database's folder, so the owner needs no password.
//!
//! What it promises: statements are sent one at a time and say where in the text they failed; a
//! script stops at the first that fails with exit code 1, unless `whenever sqlerror` says
//! otherwise; Ctrl-C ends what runs, not the shell. What it must never do: send half a statement.

mod commands;
mod complete;
mod describe;
mod format;
mod pieces;
mod query;

pub use format::Format;
pub(crate) use query::error_text;

use crate::config::Config;
use crate::error::{CliError, Doing, Result, say};
use crate::layout::Layout;
use crate::runtime::{State, probe};
use commands::Settings;
use futures::{StreamExt, stream};
use pieces::{Piece, next};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{IsTerminal, Read, Write};
use std::path::{Path, PathBuf};
use tokio::sync::mpsc;
use tokio_postgres::{AsyncMessage, Client, NoTls};

/// Files in one another.
const FILES_MAX: usize = 50;

/// What `skein sql` is to do.
pub struct Request<'a> {
    pub dir: &'a Path,
    pub instance: Option<u16>,
    pub commands: &'a [String],
    pub file: Option<&'a Path>,
    /// Values of `&1`, `&2` and so on.
    pub arguments: &'a [String],
    pub format: Format,
}

/// How a text has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Flow {
    Next,
    /// With this exit code.
    Exit(u8),
}

/// What the server says beside results.
pub(crate) struct Notice {
    severity: String,
    pub(crate) text: String,
}

/// A bind variable of the shell.
#[derive(Clone, Debug)]
struct Variable {
    /// As it is declared in a block.
    ty: String,
    value: Option<String>,
}

struct Shell {
    layout: Layout,
    instance: Option<u16>,
    client: Client,
    notices: mpsc::UnboundedReceiver<Notice>,
    settings: Settings,
    variables: BTreeMap<String, Variable>,
    defines: BTreeMap<String, String>,
    /// The statement before.
    last: Option<String>,
    spool: Option<File>,
    /// Folders of the files that are being run.
    folders: Vec<PathBuf>,
    /// Somebody sits before it.
    interactive: bool,
    /// Notices, and words, to be said when the statement has ended.
    kept: Vec<Notice>,
    tell: Vec<String>,
}

/// Where a statement stands.
#[derive(Clone, Copy)]
struct Place<'a> {
    /// The file, if it is one's.
    file: Option<&'a str>,
    /// Lines of the text before it.
    lines: usize,
}

/// Runs commands, a file, standard input, or whatever is typed.
///
/// # Errors
/// What a script failed with; no instance is open.
pub fn run(request: &Request<'_>) -> Result<()> {
    let layout = Layout::new(request.dir);
    let port = find_port(&layout, request.instance)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .doing("start the client")?;
    let flow = runtime.block_on(async {
        let (client, notices) = connect(&layout, port).await?;
        let typed = request.commands.is_empty() && request.file.is_none();
        let interactive = typed && std::io::stdin().is_terminal();
        let numbered = request.arguments.iter().enumerate();
        let mut shell = Shell {
            layout,
            instance: request.instance,
            client,
            notices,
            settings: Settings { format: request.format, ..Settings::new(interactive) },
            variables: BTreeMap::new(),
            defines: numbered.map(|(i, text)| ((i + 1).to_string(), text.clone())).collect(),
            last: None,
            spool: None,
            folders: Vec::new(),
            interactive,
            kept: Vec::new(),
            tell: Vec::new(),
        };
        if let Some(path) = request.file {
            return shell.run_file(path).await;
        }
        if interactive {
            return shell.converse().await;
        }
        if !request.commands.is_empty() {
            for text in request.commands {
                if let Flow::Exit(code) = shell.run_text(text, None).await? {
                    return Ok(Flow::Exit(code));
                }
            }
            return Ok(Flow::Next);
        }
        let mut text = String::new();
        std::io::stdin().read_to_string(&mut text).doing("read standard input")?;
        shell.run_text(&text, None).await
    })?;
    match flow {
        Flow::Next | Flow::Exit(0) => Ok(()),
        // What failed has been said.
        Flow::Exit(code) => std::process::exit(i32::from(code)),
    }
}

pub(crate) fn find_port(layout: &Layout, instance: Option<u16>) -> Result<u16> {
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

pub(crate) async fn connect(
    layout: &Layout,
    port: u16,
) -> Result<(Client, mpsc::UnboundedReceiver<Notice>)> {
    let mut config = tokio_postgres::Config::new();
    config.host_path(layout.dir()).port(port).user("skein").dbname("skein");
    config.application_name("skein sql");
    let connected = config.connect(NoTls).await;
    let (client, mut connection) =
        connected.map_err(|e| CliError::failed(query::error_text(&e)))?;
    let (sender, notices) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut messages = stream::poll_fn(move |cx| connection.poll_message(cx));
        while let Some(Ok(message)) = messages.next().await {
            let notice = match message {
                AsyncMessage::Notice(notice) => Notice {
                    severity: notice.severity().to_owned(),
                    text: notice.message().to_owned(),
                },
                AsyncMessage::Notification(told) => Notice {
                    severity: "NOTIFY".to_owned(),
                    text: format!("{} \"{}\"", told.channel(), told.payload()),
                },
                _ => continue,
            };
            if sender.send(notice).is_err() {
                return;
            }
        }
    });
    Ok((client, notices))
}

impl Shell {
    /// Prompts until the input ends; an error is shown and does not end it.
    async fn converse(&mut self) -> Result<Flow> {
        say!("skein sql: \\? for help, \\q to leave. Blocks end with a line that holds a slash.");
        let words = self.words().await;
        let mut editor = complete::Editor::new(words)?;
        let mut pending = String::new();
        loop {
            let number = self.instance.map_or(String::new(), |k| k.to_string());
            let first = pending.trim().is_empty();
            let prompt = format!("skein{number}{}# ", if first { "=" } else { "-" });
            match editor.line(&prompt)? {
                complete::Line::Text(line) => {
                    pending.push_str(&line);
                    pending.push('\n');
                }
                complete::Line::Interrupted => {
                    pending.clear();
                    continue;
                }
                complete::Line::End => {
                    say!("");
                    return Ok(Flow::Next);
                }
            }
            let mut at = 0;
            let mut changed = false;
            while let Some(next) = next(&pending[at..]) {
                if !next.complete {
                    break;
                }
                changed |= matches!(next.piece, Piece::Statement(text) if changes_names(text));
                let piece = match next.piece {
                    Piece::Statement(text) => Owned::Statement(text.to_owned()),
                    Piece::Command(text) => Owned::Command(text.to_owned()),
                    Piece::Again => Owned::Again,
                };
                at += next.end;
                let place = Place { file: None, lines: 0 };
                if let Flow::Exit(code) = self.run_piece(piece, place).await? {
                    return Ok(Flow::Exit(code));
                }
            }
            pending.drain(..at);
            if next(&pending).is_none() {
                pending.clear();
            }
            if changed {
                editor.learn(self.words().await);
            }
        }
    }

    async fn run_file(&mut self, path: &Path) -> Result<Flow> {
        if self.folders.len() >= FILES_MAX {
            return Err(CliError::failed(format!(
                "{}: too many files in one another",
                path.display()
            )));
        }
        let text = std::fs::read_to_string(path).doing(format_args!("read {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("")).to_path_buf();
        self.folders.push(folder);
        let name = path.display().to_string();
        let done = Box::pin(self.run_text(&text, Some(&name))).await;
        self.folders.pop();
        done
    }

    /// Runs all pieces of a text.
    async fn run_text(&mut self, text: &str, file: Option<&str>) -> Result<Flow> {
        let mut at = 0;
        while let Some(next) = next(&text[at..]) {
            let begins = at + next.at;
            let place = Place { file, lines: text[..begins].matches('\n').count() };
            let end = at + next.end;
            if let Piece::Statement(statement) = &next.piece
                && query::takes_rows(statement)
            {
                let (rows, rest) = copied_rows(&text[end..]);
                at = text.len() - rest.len();
                if let Flow::Exit(code) = self.copy_in(statement, rows, place).await? {
                    return Ok(Flow::Exit(code));
                }
                continue;
            }
            let piece = match next.piece {
                Piece::Statement(text) => Owned::Statement(text.to_owned()),
                Piece::Command(text) => Owned::Command(text.to_owned()),
                Piece::Again => Owned::Again,
            };
            at = end;
            if let Flow::Exit(code) = self.run_piece(piece, place).await? {
                return Ok(Flow::Exit(code));
            }
        }
        Ok(Flow::Next)
    }

    async fn run_piece(&mut self, piece: Owned, place: Place<'_>) -> Result<Flow> {
        match piece {
            Owned::Command(line) => {
                if self.settings.echo {
                    self.print(&format!("{line}\n"));
                }
                let line = self.substituted(&line);
                match Box::pin(self.command(&line, place)).await {
                    Ok(flow) => Ok(flow),
                    Err(error) if self.interactive => {
                        eprintln!("{error}");
                        Ok(Flow::Next)
                    }
                    Err(error) => self.failed(&error.message),
                }
            }
            Owned::Again => match self.last.clone() {
                Some(text) => self.run_statement(&text, place).await,
                None => self.failed("nothing to run again"),
            },
            Owned::Statement(text) => {
                if self.settings.echo {
                    self.print(&format!("{text}\n"));
                }
                let text = self.substituted(&text);
                self.last = Some(text.clone());
                self.run_statement(&text, place).await
            }
        }
    }

    /// Says what failed, and goes on or not.
    fn failed(&mut self, text: &str) -> Result<Flow> {
        let _ = std::io::stdout().flush();
        eprintln!("{text}");
        if let Some(file) = &mut self.spool {
            let _ = writeln!(file, "{text}");
        }
        Ok(self.settings.on_error)
    }

    /// Prints, and keeps what is spooled.
    fn print(&mut self, text: &str) {
        if self.settings.termout {
            // A reader that has gone (`skein … | head`) does not stop the work.
            let _ = std::io::stdout().write_all(text.as_bytes());
        }
        if let Some(file) = &mut self.spool {
            let _ = file.write_all(text.as_bytes());
        }
    }

    /// The text with what `&name` stands for; what is not defined stays.
    fn substituted(&self, text: &str) -> String {
        if !self.settings.define || !text.contains('&') || self.defines.is_empty() {
            return text.to_owned();
        }
        let (mut out, mut rest) = (String::new(), text);
        while let Some(at) = rest.find('&') {
            out.push_str(&rest[..at]);
            let name = rest[at..].trim_start_matches('&');
            let len = name.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(name.len());
            let (own, behind) = name.split_at(len);
            match self.defines.get(&own.to_lowercase()) {
                Some(value) => {
                    out.push_str(value);
                    // A point ends a name.
                    rest = behind.strip_prefix('.').unwrap_or(behind);
                }
                None => {
                    out.push_str(&rest[at..rest.len() - behind.len()]);
                    rest = behind;
                }
            }
        }
        out.push_str(rest);
        out
    }
}

/// A piece that needs its text no longer.
enum Owned {
    Statement(String),
    Command(String),
    Again,
}

/// Rows of a COPY up to the line that ends them, and what stands behind it.
fn copied_rows(text: &str) -> (&str, &str) {
    let text = text.trim_start_matches([' ', '\t', '\r']);
    let text = text.strip_prefix('\n').unwrap_or(text);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        if line.trim_end() == "\\." {
            return (&text[..at], &text[at + line.len()..]);
        }
        at += line.len();
    }
    (text, "")
}

/// Whether a statement may have made names to be completed.
fn changes_names(text: &str) -> bool {
    let first = text.split_whitespace().next().unwrap_or("").to_ascii_lowercase();
    matches!(first.as_str(), "create" | "alter" | "drop")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_a_copy_end_with_their_line() {
        assert_eq!(copied_rows("\n1\ta\n2\tb\n\\.\nselect 1;"), ("1\ta\n2\tb\n", "select 1;"));
        assert_eq!(copied_rows("\n1\n"), ("1\n", ""));
    }
}
