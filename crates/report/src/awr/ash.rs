//! The report on what sessions did, out of samples of them.
//!
//! What it promises: each sample is in every list once; parts are of all samples. What it must
//! never do: take a sample for a second where they were taken at other times.

use super::numbers::Fetched;
use super::page::*;
use super::{html, text};
use std::collections::BTreeMap;

/// How many rows a list holds.
const ROWS_MAX: usize = 15;

/// Samples, and what they are about.
#[derive(Clone, Default, Debug)]
pub struct Samples {
    pub database: String,
    /// As they are shown.
    pub from: String,
    pub to: String,
    /// Times at which sessions were looked at.
    pub moments: i64,
    /// Columns `inst_id`, `session_type`, `event` (empty: on a processor), `wait_class`, `sql_id`,
    /// `session`, `program`, `blocker`, `object`, `minute` and `samples`, how many are alike.
    pub rows: Fetched,
    /// Texts of statements by their ids.
    pub texts: BTreeMap<String, String>,
    pub absent: Vec<Absent>,
}

/// An instance of which samples are missing.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Absent {
    pub instance: String,
    /// When it was started; `None`: it is not open.
    pub since: Option<String>,
}

struct One {
    instance: String,
    kind: String,
    event: String,
    class: String,
    sql: String,
    session: String,
    program: String,
    blocker: String,
    object: String,
    minute: String,
    samples: f64,
}

fn ones(samples: &Samples) -> Vec<One> {
    let rows = &samples.rows;
    let one = |row: &Vec<Option<String>>| {
        let text = |name: &str| rows.value(row, name).unwrap_or("").to_owned();
        let or = |name: &str, else_: &str| match text(name) {
            empty if empty.is_empty() => else_.to_owned(),
            text => text,
        };
        #[allow(clippy::cast_precision_loss)] // counts
        let count = rows.number(row, "samples").unwrap_or(0) as f64;
        One {
            instance: text("inst_id"),
            kind: text("session_type"),
            event: or("event", "CPU + Wait for CPU"),
            class: or("wait_class", "CPU"),
            sql: text("sql_id"),
            session: text("session"),
            program: text("program"),
            blocker: text("blocker"),
            object: text("object"),
            minute: text("minute"),
            samples: count,
        }
    };
    rows.rows.iter().map(one).collect()
}

/// A list: what the samples are summed by, and under which names.
struct By {
    title: &'static str,
    columns: &'static [Col],
    /// `None`: the sample is not in the list.
    keys: fn(&One) -> Option<Vec<String>>,
}

const PERCENT: [Col; 2] = [figures("% Activity", 10), figures("Avg Active\nSessions", 10)];

fn given(text: &str) -> Option<String> {
    (!text.is_empty()).then(|| text.to_owned())
}

const LISTS: [By; 7] = [
    By {
        title: "Top User Events",
        columns: &[words("Event", 40), words("Event Class", 15)],
        keys: |s| is_user(s).then(|| vec![s.event.clone(), s.class.clone()]),
    },
    By {
        title: "Top Background Events",
        columns: &[words("Event", 40), words("Event Class", 15)],
        keys: |s| (!is_user(s)).then(|| vec![s.event.clone(), s.class.clone()]),
    },
    By {
        title: "Top Cluster Events",
        columns: &[figures("Inst", 4), words("Event", 50)],
        keys: |s| (s.class == "Cluster").then(|| vec![s.instance.clone(), s.event.clone()]),
    },
    By {
        title: "Top SQL with Top Events",
        columns: &[words("SQL Id", 13), words("Event", 42)],
        keys: |s| Some(vec![given(&s.sql)?, s.event.clone()]),
    },
    By {
        title: "Top Sessions",
        columns: &[figures("Inst", 4), figures("Sid", 7), words("Program", 16), words("Event", 27)],
        keys: |s| {
            let who = [&s.instance, &s.session, &s.program, &s.event];
            Some(who.into_iter().cloned().collect())
        },
    },
    By {
        title: "Top Blocking Sessions",
        columns: &[words("Blocker (instance.sid)", 22), words("Event", 33)],
        keys: |s| Some(vec![given(&s.blocker)?, s.event.clone()]),
    },
    By {
        title: "Top DB Objects",
        columns: &[words("Object", 28), words("Event", 28)],
        keys: |s| Some(vec![given(&s.object)?, s.event.clone()]),
    },
];

fn is_user(one: &One) -> bool {
    one.kind != "BACKGROUND"
}

fn list(samples: &Samples, all: &[One], by: &By) -> Option<Section> {
    let total: f64 = all.iter().map(|one| one.samples).sum();
    let mut sums: BTreeMap<Vec<String>, f64> = BTreeMap::new();
    for one in all {
        if let Some(keys) = (by.keys)(one) {
            *sums.entry(keys).or_default() += one.samples;
        }
    }
    let mut sums: Vec<(Vec<String>, f64)> = sums.into_iter().collect();
    sums.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let columns: Vec<Col> = by.columns.iter().chain(&PERCENT).copied().collect();
    let mut grid = Grid::new(&columns);
    let mut last = None;
    for (keys, sum) in sums.into_iter().take(ROWS_MAX) {
        let new = last.as_ref() != keys.first();
        let below = samples.texts.get(&keys[0]).filter(|_| new).cloned();
        last = keys.first().cloned();
        let mut cells = keys;
        cells.extend([percent(sum, total), number(active(samples, sum), 2)]);
        grid.rows.push(Line { cells, below });
    }
    Section::new(by.title).grid(grid).unless_empty()
}

/// Sessions at work on average.
#[allow(clippy::cast_precision_loss)] // moments
fn active(samples: &Samples, sum: f64) -> f64 {
    sum / samples.moments.max(1) as f64
}

fn over_time(all: &[One]) -> Option<Section> {
    let mut minutes: BTreeMap<&str, [f64; 4]> = BTreeMap::new();
    for one in all {
        let at = match one.class.as_str() {
            "CPU" => 0,
            "Cluster" => 1,
            "User I/O" | "System I/O" | "Commit" => 2,
            _ => 3,
        };
        minutes.entry(&one.minute).or_default()[at] += one.samples;
    }
    let parts = ["CPU", "Cluster", "I/O and commit", "other"];
    let mut grid = Grid::new(&[
        words("Minute", 20),
        figures("Samples", 10),
        figures("CPU", 10),
        figures("Cluster", 10),
        figures("I/O and\ncommit", 10),
        figures("Other", 10),
    ]);
    let mut chart = Chart { title: "Activity".into(), unit: "samples", ..Chart::default() };
    chart.parts = parts.to_vec();
    for (minute, sums) in minutes {
        let mut cells = vec![minute.to_owned(), count(sums.iter().sum())];
        cells.extend(sums.map(count));
        grid.row(cells);
        chart.bars.push((minute.to_owned(), sums.to_vec()));
    }
    Section::new("Activity Over Time").chart(chart).grid(grid).unless_empty()
}

fn sections(samples: &Samples) -> Vec<Section> {
    let all = ones(samples);
    let total: f64 = all.iter().map(|one| one.samples).sum();
    let facts = vec![
        ("From".to_owned(), samples.from.clone()),
        ("To".to_owned(), samples.to.clone()),
        ("Samples".to_owned(), count(total)),
        ("Average Active Sessions".to_owned(), number(active(samples, total), 2)),
    ];
    let mut head = Section::new("ASH REPORT").pairs(facts);
    for Absent { instance, since } in &samples.absent {
        // Nobody else has them.
        head = head.note(match since {
            Some(since) => format!(
                "Instance {instance} was started at {since}: there are no samples from before; \
                 of an earlier start one in ten may be in dba_hist_active_sess_history."
            ),
            None => format!(
                "Instance {instance} is not open: its samples are not here; one in ten may be in \
                 dba_hist_active_sess_history."
            ),
        });
    }
    let mut sections = vec![head];
    if all.is_empty() {
        // Of one that is not open nobody knows.
        let silent = samples.absent.iter().any(|absent| absent.since.is_none());
        let why =
            if silent { "There are no samples." } else { "No session was at work in a sample." };
        sections.push(Section::new("Quiet").note(why));
    }
    sections.extend(LISTS.iter().filter_map(|by| list(samples, &all, by)));
    sections.extend(over_time(&all));
    sections
}

/// The report as text.
#[must_use]
pub fn ash_text(samples: &Samples) -> String {
    let of = format!("DB: {}", samples.database);
    let mut out = String::new();
    for section in sections(samples) {
        text::section(&mut out, &section, &of);
    }
    out.push_str("End of Report\n");
    out
}

/// The report as one HTML page.
#[must_use]
pub fn ash_html(samples: &Samples) -> String {
    let title = format!("Skein active session history  DB: {}", samples.database);
    html::page(&title, &sections(samples))
}
