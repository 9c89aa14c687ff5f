//! Runs a spec: one step after the other, each until it has ended or is blocked.

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;
use tokio_postgres::{Client, Error, SimpleQueryMessage};

use super::spec::{Case, Permutation, Place, Spec};
use super::system::{Sid, System};

/// Bound for a wait that ends by a condition.
const LIMIT: Duration = Duration::from_secs(60);
/// A step that ends within this has no one look whether it is blocked.
const QUICK: Duration = Duration::from_millis(20);

struct Session {
    client: Arc<Client>,
    sid: Sid,
    /// The step in flight.
    running: Option<(usize, JoinHandle<String>)>,
}

/// Runs all permutations at all levels; what was answered, in order.
pub async fn run(system: &System, spec: &Spec, place: Place) -> Vec<(usize, Case, String)> {
    let mut sessions = Vec::new();
    for (nth, session) in spec.sessions.iter().enumerate() {
        let instance = if place == Place::Spread { session.instance } else { 1 };
        let (client, sid) = system.session(instance, nth, spec.sessions.len()).await;
        sessions.push(Session { client: Arc::new(client), sid, running: None });
    }
    let mut said = Vec::new();
    for (at, permutation) in spec.permutations.iter().enumerate() {
        for level in spec.levels() {
            let mut run = Run { system, spec, sessions: &mut sessions, said: String::new() };
            run.all(permutation, &level).await;
            let text = run.said;
            said.push((at, Case { level, place }, text));
        }
    }
    said
}

struct Run<'a> {
    system: &'a System,
    spec: &'a Spec,
    sessions: &'a mut Vec<Session>,
    said: String,
}

impl Run<'_> {
    async fn all(&mut self, permutation: &Permutation, level: &str) {
        let here = || format!("{} line {} {level}", self.spec.name(), permutation.line);
        let place = here();
        let done = |what: &str, r: Result<(), Error>| {
            r.unwrap_or_else(|e| panic!("{place}: {what}: {e:?}"));
        };
        let monitor = self.system.monitor();
        done("setup", monitor.batch_execute(&self.spec.setup).await);
        for (session, of) in self.sessions.iter().zip(&self.spec.sessions) {
            let sql = of.setup.replace("$LEVEL", level);
            done("setup of a session", session.client.batch_execute(&sql).await);
        }
        for &(step, ends) in &permutation.steps {
            self.step(step, ends, level, &place).await;
        }
        self.settle(None, true, &place).await;
        for session in self.sessions.iter() {
            // Most have ended theirs; with nothing open it is a warning.
            done("rollback", session.client.batch_execute("rollback").await);
        }
        done("teardown", monitor.batch_execute(&self.spec.teardown).await);
    }

    async fn step(&mut self, at: usize, ends: bool, level: &str, place: &str) {
        let step = &self.spec.steps[at];
        let session = &mut self.sessions[step.session];
        let name = &step.name;
        assert!(
            session.running.is_none(),
            "{place}: {name}: its session is blocked:\n{}",
            self.said
        );
        let (client, sql) = (session.client.clone(), step.sql.replace("$LEVEL", level));
        let mut task = tokio::spawn(async move { answer(&client, &sql).await });
        if !ends && let Ok(said) = tokio::time::timeout(QUICK, &mut task).await {
            self.say(at, &said.expect("the step does not panic"));
            // It may have let others go on.
            self.settle(None, false, place).await;
            return;
        }
        session.running = Some((at, task));
        if ends {
            let _ = writeln!(self.said, "{name}: waits");
            self.settle(None, true, place).await;
        } else {
            self.settle(Some(at), false, place).await;
        }
    }

    /// Waits until each step in flight has ended or is blocked; with `some_end` until one at least
    /// has ended. `new` is told apart: that it waits is worth a line.
    async fn settle(&mut self, new: Option<usize>, some_end: bool, place: &str) {
        let began = Instant::now();
        let mut must_end = some_end && self.in_flight() > 0;
        let mut ended = Vec::new();
        loop {
            must_end &= !self.take_ended(&mut ended).await;
            if self.in_flight() == 0 {
                break;
            }
            if !must_end && self.all_blocked().await {
                break;
            }
            if began.elapsed() > LIMIT {
                let waits = self.system.explain().await;
                panic!("{place}: neither ended nor blocked, after\n{}\n{waits}", self.said);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        // Who has just begun and let others go on comes before them; which of those is quicker is
        // not told.
        ended.sort_by_key(|(session, step, _)| (Some(*step) != new, *session));
        for (_, step, said) in &ended {
            self.say(*step, said);
        }
        if let Some(new) = new.filter(|new| self.runs(*new)) {
            let _ = writeln!(self.said, "{}: waits", self.spec.steps[new].name);
        }
    }

    fn runs(&self, step: usize) -> bool {
        self.sessions.iter().any(|s| s.running.as_ref().is_some_and(|r| r.0 == step))
    }

    fn in_flight(&self) -> usize {
        self.sessions.iter().filter(|s| s.running.is_some()).count()
    }

    /// Two looks that see the same, and nothing that ended between them.
    async fn all_blocked(&self) -> bool {
        let running = || self.sessions.iter().filter_map(|s| s.running.as_ref().map(|r| (s, r)));
        let sids: Vec<Sid> = running().map(|(s, _)| s.sid).collect();
        let Some(first) = self.system.blocked(&sids).await else { return false };
        let second = self.system.blocked(&sids).await;
        second == Some(first) && running().all(|(_, r)| !r.1.is_finished())
    }

    /// Adds the steps that have ended, each with its session and what it was told; whether any has.
    async fn take_ended(&mut self, ended: &mut Vec<(usize, usize, String)>) -> bool {
        let before = ended.len();
        for (at, session) in self.sessions.iter_mut().enumerate() {
            if let Some((step, task)) = session.running.take_if(|r| r.1.is_finished()) {
                ended.push((at, step, task.await.expect("the step does not panic")));
            }
        }
        ended.len() > before
    }

    fn say(&mut self, step: usize, said: &str) {
        let _ = writeln!(self.said, "{}: {said}", self.spec.steps[step].name);
    }
}

/// What the statements of a step were answered, in one line or several.
async fn answer(client: &Client, sql: &str) -> String {
    let messages = match client.simple_query(sql).await {
        Ok(messages) => messages,
        Err(e) => {
            let code = e.code().map_or("lost", |c| c.code());
            return format!("error {code}");
        }
    };
    let statements: Vec<&str> = sql.split(';').map(str::trim).collect();
    let mut answers = Vec::new();
    let mut rows: Option<Vec<String>> = None;
    for message in messages {
        match message {
            SimpleQueryMessage::RowDescription(_) => rows = Some(Vec::new()),
            SimpleQueryMessage::Row(row) => {
                let values = (0..row.len()).map(|i| row.get(i).unwrap_or("null"));
                let line = values.collect::<Vec<_>>().join("|");
                rows.get_or_insert_default().push(line);
            }
            SimpleQueryMessage::CommandComplete(n) => {
                let statement = statements.get(answers.len()).copied().unwrap_or_default();
                answers.push(match rows.take() {
                    Some(rows) if rows.is_empty() => "no rows".to_owned(),
                    Some(rows) => rows.join(", "),
                    None if changes_rows(statement) => format!("{n} changed"),
                    None => "ok".to_owned(),
                });
            }
            _ => {}
        }
    }
    answers.join("; ")
}

fn changes_rows(statement: &str) -> bool {
    let words = ["insert", "update", "delete", "merge", "with"];
    words.iter().any(|word| statement.starts_with(word))
}
