//! Reports of the console: the same as `skein report`, `skein diagnose` and `skein report --ash`
//! make, out of what a viewer's session may read; and the snapshots that they need.
//!
//! What it promises: everything is asked for by the viewer's session, with its user's rights;
//! a report is whole or an error. The one statement of a console that is not read-only is the
//! fixed text that takes a snapshot, in a transaction that is said to write; whatever comes of it,
//! the next one is read-only again. What it must never do: let a viewer choose what is run.

use super::table::Taken;
use super::viewer::marked;
use crate::engine::Session;
use crate::report::Report;
use crate::sql_engine::{Ran, SqlSession};
use ::report::{Fetched, Interval, SnapshotRow};
use serde::Serialize;
use serde_json::{Map, Value};

/// Rows that one statement of a report may have.
const ROWS_MAX: usize = 500_000;
/// How long taking a snapshot may last: it writes the rows of all instances.
const SNAPSHOT_TIMEOUT: &str = "60s";

/// A report that is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Between two snapshots; `None`: all instances.
    Workload {
        range: (i64, i64),
        instance: Option<i64>,
    },
    Diagnosis {
        range: (i64, i64),
    },
    /// What sessions did in the last minutes; `None`: on all instances.
    Ash {
        minutes: u32,
        instance: Option<u16>,
    },
}

impl Wanted {
    /// A name for its file.
    pub fn file_name(self) -> String {
        let of = |instance: Option<i64>| match instance {
            Some(k) => format!("-instance-{k}"),
            None => String::new(),
        };
        match self {
            Wanted::Workload { range: (begin, end), instance } => {
                format!("skein-report-{begin}-{end}{}.html", of(instance))
            }
            Wanted::Diagnosis { range: (begin, end) } => {
                format!("skein-diagnosis-{begin}-{end}.html")
            }
            Wanted::Ash { minutes, instance } => {
                format!("skein-ash-{minutes}{}.html", of(instance.map(i64::from)))
            }
        }
    }
}

/// A viewer's session as reports ask it.
struct Reader<'a>(&'a mut SqlSession);

impl Reader<'_> {
    /// The rows of a statement; neither rows nor columns if this server does not have what it
    /// names.
    async fn rows(&mut self, text: &str) -> Result<Fetched, Report> {
        let mut taken = Taken::default();
        let text = marked(text);
        let ran = match self.0.rows(&text, &[], ROWS_MAX, &mut taken).await {
            Ok(ran) => ran,
            Err(error) if report::is_missing(&text, error.code()) => return Ok(Fetched::default()),
            Err(error) => return Err(error),
        };
        if ran.cut {
            let text = format!("a statement of the report has more than {ROWS_MAX} rows");
            return Err(Report::error("54000", text));
        }
        let mut rows = Vec::new();
        let own = |cell: &Option<&str>| cell.map(str::to_owned);
        let whole = taken.texts(|cells| rows.push(cells.iter().map(own).collect()));
        whole.ok_or_else(|| Report::error("XX000", "the rows of a statement are not whole"))?;
        Ok(Fetched { columns: ran.columns.iter().map(|c| c.name.clone()).collect(), rows })
    }

    /// The rows of each statement.
    async fn all(&mut self, texts: Vec<String>) -> Result<Vec<Fetched>, Report> {
        let mut answers = Vec::with_capacity(texts.len());
        for text in texts {
            answers.push(self.rows(&text).await?);
        }
        Ok(answers)
    }

    async fn snapshots(&mut self) -> Result<Vec<SnapshotRow>, Report> {
        Ok(report::snapshots(&self.rows(report::SNAPSHOTS).await?))
    }
}

fn refused(problem: report::Problem) -> Report {
    Report::error("22023", problem.to_string())
}

/// Makes a report, as HTML.
///
/// # Errors
/// A statement's; why there is no such report.
pub async fn page(
    session: &mut SqlSession,
    database: &str,
    wanted: Wanted,
) -> Result<String, Report> {
    let mut reader = Reader(session);
    let (range, instance) = match wanted {
        Wanted::Ash { minutes, instance } => {
            let answers = reader.all(report::samples_statements(minutes, instance)).await?;
            let samples = report::samples(database, answers);
            let none = || Report::error("0A000", "this server keeps no active session history");
            return Ok(report::ash_html(&samples.ok_or_else(none)?));
        }
        Wanted::Workload { range, instance } => (range, instance),
        Wanted::Diagnosis { range } => (range, None),
    };
    let snapshots = reader.snapshots().await?;
    report::check_pair(&snapshots, range.0, range.1).map_err(refused)?;
    let answers = reader.all(report::input_statements(range)).await?;
    let input = report::input(database, snapshots, answers);
    let interval = Interval::new(&input, range.0, range.1, instance).map_err(refused)?;
    Ok(match wanted {
        Wanted::Diagnosis { .. } => {
            let beside = report::beside(&reader.all(report::beside_statements(range)).await?);
            report::diagnose_html(&interval, &beside)
        }
        _ => report::report_html(&interval, instance.is_none()),
    })
}

/// An instance of a snapshot, as the page is told.
#[derive(Serialize)]
struct Listed<'a> {
    snap_id: i64,
    inst_id: i64,
    time_ms: i64,
    startup_ms: i64,
    version: &'a str,
}

/// The snapshots that are kept.
///
/// # Errors
/// The statement's.
pub async fn snapshots(session: &mut SqlSession) -> Result<Map<String, Value>, Report> {
    let rows = Reader(session).snapshots().await?;
    let listed = |row: &SnapshotRow| {
        serde_json::to_value(Listed {
            snap_id: row.snap_id,
            inst_id: row.instance,
            time_ms: row.time_us / 1_000,
            startup_ms: row.startup_us / 1_000,
            version: &row.version,
        })
    };
    let listed: Result<Vec<Value>, _> = rows.iter().map(listed).collect();
    let listed = listed.map_err(|e| Report::error("XX000", e.to_string()))?;
    Ok(Map::from_iter([("snapshots".to_owned(), Value::Array(listed))]))
}

/// Takes a snapshot: its number, and what the server says beside.
///
/// # Errors
/// The user may not; what taking it fails with.
pub async fn take(session: &mut SqlSession) -> Result<Map<String, Value>, Report> {
    run(session, "begin transaction read write").await?;
    let taken = take_in_transaction(session).await;
    let ended = run(session, if taken.is_ok() { "commit" } else { "rollback" }).await;
    let taken = taken?;
    ended.map(|_| taken)
}

async fn take_in_transaction(session: &mut SqlSession) -> Result<Map<String, Value>, Report> {
    run(session, &format!("set local statement_timeout = '{SNAPSHOT_TIMEOUT}'")).await?;
    let mut taken = Taken::default();
    let ran = session.rows(report::CREATE_SNAPSHOT, &[], 1, &mut taken).await?;
    let mut number = None;
    let whole = taken.texts(|cells| number = cells.first().copied().flatten().map(str::to_owned));
    let number = whole.and(number).and_then(|text| text.parse::<i64>().ok());
    let number = number.ok_or_else(|| Report::error("XX000", "the snapshot has no number"))?;
    let notices = ran.notices.into_iter().map(|notice| Value::String(notice.message)).collect();
    Ok(Map::from_iter([
        ("snap_id".to_owned(), Value::from(number)),
        ("notices".to_owned(), Value::Array(notices)),
    ]))
}

async fn run(session: &mut SqlSession, text: &str) -> Result<Ran, Report> {
    session.rows(text, &[], 1, &mut Taken::default()).await
}

/// After a panic: whatever was begun is undone.
///
/// # Errors
/// The transaction cannot be ended.
pub async fn undo(session: &mut SqlSession) -> Result<(), Report> {
    session.fail_transaction().await;
    session.sync().await?;
    if session.transaction_status() != b'I' {
        run(session, "rollback").await?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_named_after_what_is_in_them() {
        let range = (3, 7);
        for (wanted, name) in [
            (Wanted::Workload { range, instance: None }, "skein-report-3-7.html"),
            (Wanted::Workload { range, instance: Some(2) }, "skein-report-3-7-instance-2.html"),
            (Wanted::Diagnosis { range }, "skein-diagnosis-3-7.html"),
            (Wanted::Ash { minutes: 5, instance: None }, "skein-ash-5.html"),
        ] {
            assert_eq!(wanted.file_name(), name);
        }
    }
}
