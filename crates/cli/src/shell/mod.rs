//! `skein sql`: a shell for people and scripts, with the words of psql and of the field's own.
//!
//! It connects through the Unix socket in the database's folder, so the owner needs no password.
//!
//! What it promises: statements are sent one at a time and say where in the text they failed; a
//! script goes on behind one that fails and ends with exit code 1, unless `whenever sqlerror` says
//! otherwise; Ctrl-C ends what runs, not the shell. What it must never do: send half a statement.

mod autotrace;
mod binds;
mod blocks;
mod buffer;
mod columns;
mod commands;
mod complete;
mod defines;
mod describe;
mod edit;
mod figures;
mod format;
mod headings;
mod input;
mod login;
mod pieces;
mod place;
mod prepared;
mod prompt;
mod query;
mod report;
mod settings;
mod shapes;
mod stream;
mod transaction;
mod variables;
mod whenever;
mod words;

pub use format::Format;
pub(crate) use login::{connect, find_port};
pub(crate) use query::error_text;

use crate::error::{CliError, Doing, Result, say};
use crate::layout::Layout;
use buffer::{Buffer, CompileError, Timer};
use columns::Column;
use input::{Asked, Source};
use login::{Login, Session};
use pieces::{Piece, next};
use place::Place;
use prepared::Prepared;
use report::Report;
use settings::Settings;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use stream::Link;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use transaction::{End, Transaction};
use variables::Variable;

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
    /// With this exit code, and this end of what is open.
    Exit(u8, End),
}

/// What the server says beside results.
pub(crate) struct Notice {
    severity: String,
    pub(crate) text: String,
    /// There is no transaction that a statement could end.
    ends_nothing: bool,
}

impl Notice {
    /// The shell's own.
    fn warning(text: &str) -> Notice {
        Notice { severity: "WARNING".to_owned(), text: text.to_owned(), ends_nothing: false }
    }
}

struct Shell {
    layout: Layout,
    instance: Option<u16>,
    client: Rc<Client>,
    notices: mpsc::UnboundedReceiver<Notice>,
    /// What carries the session's messages; with it ends the session.
    task: JoinHandle<()>,
    link: Link,
    login: Login,
    is_connected: bool,
    transaction: Transaction,
    /// What was sent last commits, and there is no answer yet.
    may_commit: bool,
    prepared: Prepared,
    settings: Settings,
    variables: BTreeMap<String, Variable>,
    defines: BTreeMap<String, String>,
    /// Names and values that were read with `accept .. hide`.
    hidden: BTreeMap<String, String>,
    /// What `column` says of columns, by their names.
    columns: BTreeMap<String, Column>,
    report: Report,
    /// The statement before, whether it failed, and why stored code could not be made.
    buffer: Option<Buffer>,
    has_failed: bool,
    /// The field's number for the last error of a statement, and the operating system's for its.
    sqlcode: i32,
    oscode: i32,
    /// Whether it went on over an error, as scripts do of which nothing else was said.
    went_on: bool,
    /// Whether Ctrl-C ended a statement.
    is_interrupted: bool,
    /// Whether the last statement was sent with parameters for its variables.
    has_parameters: bool,
    compile_error: Option<CompileError>,
    timers: Vec<Timer>,
    spool: Option<File>,
    /// Why something could not be written since the last piece, and whether it is known that
    /// standard output takes nothing.
    unwritten: Option<CliError>,
    is_deaf: bool,
    /// Texts that are being run, each by the one before.
    sources: Vec<Source>,
    /// Folders of the files that are being run.
    folders: Vec<PathBuf>,
    /// Somebody sits before it, and types.
    interactive: bool,
    editor: Option<complete::Editor>,
    /// A line of standard input that was asked for and has not come.
    asked: Option<Asked>,
    /// Rows that the last statement has given or changed.
    done_rows: u64,
    /// Reads the figures of this session for `set autotrace`.
    watcher: Option<autotrace::Watcher>,
    /// Notices, and words, to be said when the statement has ended.
    kept: Vec<Notice>,
    tell: Vec<String>,
}

/// Runs commands, a file, standard input, or whatever is typed.
///
/// # Errors
/// What a script failed with; no instance is open.
pub fn run(request: &Request<'_>) -> Result<()> {
    let layout = Layout::new(request.dir);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .doing("start the client")?;
    let code = runtime.block_on(async {
        let login = Login::default();
        let begun = login::begin(&layout, request.instance, &login).await?;
        let Session { client, notices, task, link } = begun;
        let typed = request.commands.is_empty() && request.file.is_none();
        let interactive = typed && std::io::stdin().is_terminal();
        let numbered = request.arguments.iter().enumerate();
        let mut shell = Shell {
            layout,
            instance: request.instance,
            client: Rc::new(client),
            notices,
            task,
            link,
            login,
            is_connected: true,
            transaction: Transaction::default(),
            may_commit: false,
            prepared: Prepared::default(),
            settings: Settings {
                format: request.format,
                ..Settings::new(interactive, !request.commands.is_empty())
            },
            variables: BTreeMap::new(),
            defines: numbered.map(|(i, text)| ((i + 1).to_string(), text.clone())).collect(),
            hidden: BTreeMap::new(),
            columns: BTreeMap::new(),
            report: Report::default(),
            buffer: None,
            has_failed: false,
            sqlcode: 0,
            oscode: 0,
            went_on: false,
            is_interrupted: false,
            has_parameters: false,
            compile_error: None,
            timers: Vec::new(),
            spool: None,
            unwritten: None,
            is_deaf: false,
            sources: Vec::new(),
            folders: Vec::new(),
            interactive,
            editor: None,
            asked: None,
            done_rows: 0,
            watcher: None,
            kept: Vec::new(),
            tell: Vec::new(),
        };
        let flow = match shell.run_request(request).await? {
            // A transaction of which a part has failed is kept only if that is asked for.
            Flow::Next if shell.went_on => Flow::Exit(1, End::Rollback),
            flow => flow,
        };
        Ok::<u8, CliError>(shell.leave(flow).await)
    })?;
    match code {
        0 => Ok(()),
        // What failed has been said.
        code => std::process::exit(i32::from(code)),
    }
}

impl Shell {
    async fn run_request(&mut self, request: &Request<'_>) -> Result<Flow> {
        if let Some(path) = request.file {
            // As the field's shell is given one.
            let name = path.to_str().and_then(|path| path.strip_prefix('@'));
            let Some(name) = name.filter(|_| !path.exists()) else {
                return self.run_file(path).await;
            };
            let found = commands::file_in(Path::new(""), name);
            return self.run_file(&found.unwrap_or_else(|| name.into())).await;
        }
        if self.interactive {
            return self.converse().await;
        }
        if request.commands.is_empty() {
            return self.run_source(Source::input()).await;
        }
        for text in request.commands {
            let source = Source::new(text.clone(), None, false);
            if let Flow::Exit(code, end) = self.run_source(source).await? {
                return Ok(Flow::Exit(code, end));
            }
        }
        Ok(Flow::Next)
    }

    /// Prompts until the input ends; an error is shown and does not end it.
    async fn converse(&mut self) -> Result<Flow> {
        say!("skein sql: \\? for help, \\q to leave. Blocks end with a line that holds a slash.");
        let words = self.words().await;
        self.editor = Some(complete::Editor::new(words)?);
        let mut pending = String::new();
        loop {
            let prompt = self.prompt(pending.trim_start().lines().count());
            let Some(editor) = &mut self.editor else { return Ok(Flow::Next) };
            match editor.line(&prompt, &pending)? {
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
            while let Some(next) = next(&pending[at..], &self.prepared) {
                if !next.complete {
                    break;
                }
                changed |= matches!(next.piece, Piece::Statement(text) if changes_names(text));
                let piece = Owned::from(next.piece);
                at += next.end;
                let flow = self.run_piece(piece, Place::default()).await?;
                if let Flow::Exit(code, end) = self.written(flow).await? {
                    return Ok(Flow::Exit(code, end));
                }
            }
            pending.drain(..at);
            if next(&pending, &self.prepared).is_none() {
                pending.clear();
            }
            if changed {
                let words = self.words().await;
                if let Some(editor) = self.editor.as_mut().filter(|_| !words.is_empty()) {
                    editor.learn(words);
                }
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
        let done = Box::pin(self.run_source(Source::new(text, Some(&name), false))).await;
        self.folders.pop();
        done
    }

    /// Runs all pieces of a text.
    async fn run_source(&mut self, source: Source) -> Result<Flow> {
        let own = self.sources.len();
        self.sources.push(source);
        let mut done = Ok(Flow::Next);
        while let Some(source) = self.sources.get_mut(own) {
            let taken = match source.take_read(&self.prepared).await {
                Ok(Some(taken)) => taken,
                Ok(None) => break,
                Err(error) => {
                    done = Err(error);
                    break;
                }
            };
            done = match (taken.piece, &taken.rows) {
                (Owned::Statement(text), Some(rows)) => {
                    let sent = place::Edited::whole(&text);
                    self.run_sent(&text, &sent, query::Way::CopyIn(rows), &taken.place).await
                }
                (piece, _) => self.run_piece(piece, taken.place).await,
            };
            if let Ok(flow) = done {
                done = self.written(flow).await;
            }
            if !matches!(done, Ok(Flow::Next)) {
                break;
            }
        }
        self.sources.truncate(own);
        done
    }

    async fn run_piece(&mut self, piece: Owned, place: Place) -> Result<Flow> {
        match piece {
            Owned::Command(line) => {
                if self.settings.echo {
                    let masked = login::masked(&line);
                    self.print(&format!("{}\n", masked.as_deref().unwrap_or(&line)));
                }
                let done = match self.substituted(&line, Shell::unknown_in(&line)).await {
                    Ok(line) => {
                        let line = Shell::one_line(&line.text);
                        Box::pin(self.command(&line, &place)).await
                    }
                    Err(error) => Err(error),
                };
                match done {
                    Ok(flow) => Ok(flow),
                    Err(error) => self.command_failed(&error).await,
                }
            }
            Owned::Again => self.run_again(false).await,
            Owned::Kept(text) => {
                self.buffer = Some(Buffer::new(text, place));
                Ok(Flow::Next)
            }
            Owned::Statement(text) => {
                if self.settings.echo {
                    self.print(&format!("{text}\n"));
                }
                let place = self.buffer.insert(Buffer::new(text.clone(), place)).place.clone();
                self.run_typed(&text, &place).await
            }
        }
    }

    /// Says that something is not to be had here: no statement has failed, so a script goes on.
    fn refuse(&mut self, text: &str) {
        let _ = std::io::stdout().flush();
        eprintln!("{text}");
        self.write_spool(&format!("{text}\n"));
    }

    /// Prints, and keeps what is spooled.
    fn print(&mut self, text: &str) {
        if self.settings.termout
            && let Err(error) = std::io::stdout().write_all(text.as_bytes())
            // A reader that has gone (`skein … | head`) does not stop the work.
            && error.kind() != ErrorKind::BrokenPipe
            && !std::mem::replace(&mut self.is_deaf, true)
        {
            self.unwritten = Err::<(), _>(error).doing("write standard output").err();
        }
        self.write_spool(text);
    }

    /// Writes what is spooled; a file that takes no more is let go.
    fn write_spool(&mut self, text: &str) {
        let Some(file) = &mut self.spool else { return };
        let done = file.write_all(text.as_bytes());
        if let Err(error) = done.doing("write the spool file, which is closed") {
            self.spool = None;
            self.unwritten.get_or_insert(error);
        }
    }
}

/// A piece that needs its text no longer.
enum Owned {
    Statement(String),
    Command(String),
    Again,
    Kept(String),
}

impl From<Piece<'_>> for Owned {
    fn from(piece: Piece<'_>) -> Owned {
        match piece {
            Piece::Statement(text) => Owned::Statement(text.to_owned()),
            Piece::Command(text) => Owned::Command(text.to_owned()),
            Piece::Again => Owned::Again,
            Piece::Kept(text) => Owned::Kept(text.to_owned()),
        }
    }
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
