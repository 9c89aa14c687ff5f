//! `skein snapshot`, `skein report` and `skein diagnose`: snapshots of the statistics are asked for
//! and fetched; what they say is put together by the crate `report`.
//!
//! What it promises: numbers come through SQL, over the Unix socket in the database's folder, from
//! the tables that everybody can read who may. What it must never do: write a report in part.

use crate::config::Config;
use crate::error::{CliError, Doing, Exit, Result, say};
use crate::layout::Layout;
use crate::shell::{connect, error_text, find_port};
use report::{Fetched, Interval, Problem, SnapshotRow};
use std::io::Write;
use std::path::Path;
use tokio_postgres::{Client, SimpleQueryMessage};

/// What a report is to be about, and where it goes.
pub struct Request<'a> {
    pub dir: &'a Path,
    /// Numbers of the two snapshots; `None`: the newest.
    pub range: Option<(i64, i64)>,
    pub instance: Option<u16>,
    pub global: bool,
    pub html: bool,
    pub output: Option<&'a Path>,
    /// Take a snapshot first.
    pub now: bool,
}

impl From<Problem> for CliError {
    fn from(problem: Problem) -> CliError {
        let exit = match problem {
            Problem::NoSnapshots => Exit::State,
            Problem::Order { .. } => Exit::Usage,
            _ => Exit::Failed,
        };
        CliError::new(exit, problem.to_string())
    }
}

/// A connection for a few questions.
pub(crate) struct Asked {
    client: Client,
    /// What the server says beside answers.
    notices: tokio::sync::mpsc::UnboundedReceiver<crate::shell::Notice>,
}

pub(crate) fn ask<T>(dir: &Path, work: impl AsyncFnOnce(&mut Asked) -> Result<T>) -> Result<T> {
    let layout = Layout::new(dir);
    let port = find_port(&layout, None)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.doing("start the client")?.block_on(async {
        let (client, notices) = connect(&layout, port).await?;
        work(&mut Asked { client, notices }).await
    })
}

impl Asked {
    /// The rows of a statement; neither rows nor columns if this server does not have what it
    /// names.
    async fn rows(&mut self, text: &str) -> Result<Fetched> {
        let messages = match self.client.simple_query(text).await {
            Ok(messages) => messages,
            Err(e) if e.code().is_some_and(|c| report::is_missing(text, c.code())) => Vec::new(),
            Err(e) => return Err(CliError::failed(error_text(&e))),
        };
        let mut fetched = Fetched::default();
        for message in messages {
            match message {
                SimpleQueryMessage::RowDescription(columns) => {
                    fetched.columns = columns.iter().map(|c| c.name().to_owned()).collect();
                }
                SimpleQueryMessage::Row(row) => {
                    let cells = (0..row.len()).map(|i| row.get(i).map(str::to_owned));
                    fetched.rows.push(cells.collect());
                }
                _ => {}
            }
        }
        Ok(fetched)
    }

    /// The rows of each statement.
    pub(crate) async fn all(&mut self, texts: Vec<String>) -> Result<Vec<Fetched>> {
        let mut answers = Vec::with_capacity(texts.len());
        for text in texts {
            answers.push(self.rows(&text).await?);
        }
        Ok(answers)
    }

    async fn snapshots(&mut self) -> Result<Vec<SnapshotRow>> {
        Ok(report::snapshots(&self.rows(report::SNAPSHOTS).await?))
    }

    /// Takes a snapshot; its number.
    async fn snapshot(&mut self) -> Result<i64> {
        let taken = self.rows(report::CREATE_SNAPSHOT).await?;
        while let Ok(notice) = self.notices.try_recv() {
            eprintln!("skein: {}", notice.text);
        }
        report::taken(&taken).ok_or_else(|| CliError::failed("the snapshot has no number"))
    }
}

/// The name that a report gives the database: its folder's.
pub(crate) fn name_of(dir: &Path) -> String {
    let dir = Layout::new(dir).dir().to_owned();
    dir.file_name().map_or_else(|| "skein".to_owned(), |name| name.to_string_lossy().into_owned())
}

/// Takes a snapshot, or lists those that are kept.
///
/// # Errors
/// No instance is open; what the server says.
pub fn snapshot(dir: &Path, list: bool) -> Result<()> {
    ask(dir, async |asked| {
        if !list {
            say!("{}", asked.snapshot().await?);
            return Ok(());
        }
        say!("{:>9} {:>8} {:<19} {:<19}", "snapshot", "instance", "time", "instance started");
        for row in asked.snapshots().await? {
            say!("{:>9} {:>8} {:<19} {:<19}", row.snap_id, row.instance, row.time, row.startup);
        }
        Ok(())
    })
}

/// The snapshots that a request is about: those it names, or the newest; with `now` one is taken.
async fn range_of(
    asked: &mut Asked,
    range: Option<(i64, i64)>,
    instance: Option<i64>,
    now: bool,
) -> Result<(Vec<SnapshotRow>, (i64, i64))> {
    let taken = match now {
        true => Some(asked.snapshot().await?),
        false => None,
    };
    let mut snapshots = asked.snapshots().await?;
    if let Some(end) = taken {
        // Somebody else may have taken one since.
        snapshots.retain(|row| row.snap_id <= end);
    }
    let range = match range {
        Some(range) => range,
        None => report::newest_pair(&snapshots, instance)?,
    };
    report::check_pair(&snapshots, range.0, range.1)?;
    Ok((snapshots, range))
}

/// The interval of a request, out of the database.
fn interval(request: &Request<'_>) -> Result<Interval> {
    let instance = request.instance.map(i64::from);
    if let Some(k) = request.instance {
        Config::load(&Layout::new(request.dir))?.check_instance(k)?;
    }
    ask(request.dir, async |asked| {
        let (snapshots, range) = range_of(asked, request.range, instance, request.now).await?;
        let answers = asked.all(report::input_statements(range)).await?;
        let input = report::input(&name_of(request.dir), snapshots, answers);
        Ok(Interval::new(&input, range.0, range.1, instance)?)
    })
}

/// Reports on the time between two snapshots.
///
/// # Errors
/// No instance is open; why there is no report; the file cannot be written.
pub fn report(request: &Request<'_>) -> Result<()> {
    let interval = interval(request)?;
    let text = match request.html {
        true => report::report_html(&interval, request.global),
        false => report::report_text(&interval, request.global),
    };
    put(&text, request.output)
}

/// Says what limited the cluster between two snapshots.
///
/// # Errors
/// No instance is open; why there is nothing to say.
pub fn diagnose(dir: &Path, range: Option<(i64, i64)>, now: bool) -> Result<()> {
    let text = ask(dir, async |asked| {
        let (snapshots, range) = range_of(asked, range, None, now).await?;
        let answers = asked.all(report::input_statements(range)).await?;
        let input = report::input(&name_of(dir), snapshots, answers);
        let beside = report::beside(&asked.all(report::beside_statements(range)).await?);
        let interval = Interval::new(&input, range.0, range.1, None)?;
        Ok(report::diagnose(&interval, &beside))
    })?;
    put(&text, None)
}

/// Prints, or writes the file.
pub(crate) fn put(text: &str, output: Option<&Path>) -> Result<()> {
    match output {
        Some(path) => std::fs::write(path, text).doing(format_args!("write {}", path.display())),
        None => {
            // A reader that has gone (`| head`) is no failure.
            let _ = std::io::stdout().write_all(text.as_bytes());
            Ok(())
        }
    }
}
