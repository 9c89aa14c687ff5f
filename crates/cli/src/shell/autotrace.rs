//! `set autotrace`: behind each statement its plan, and what it has cost the session.
//!
//! What it promises: the figures are of the statement alone; a session of its own reads them. What
//! it must never do: run a statement twice, or one that is only to be explained.

use super::transaction::{Role, role};
use super::{Shell, query};
use crate::error::{CliError, Result};
use std::collections::BTreeMap;
use tokio_postgres::{Client, SimpleQueryMessage};

/// What is told of a statement.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Told {
    /// Its rows are shown.
    pub(super) rows: bool,
    pub(super) plan: bool,
    pub(super) statistics: bool,
}

/// The session that reads the figures, and the one that they are of.
pub(super) struct Watcher {
    client: Client,
    sid: String,
}

/// Statistics that are told, in this order.
const FIGURES: [&str; 11] = [
    "db block gets",
    "consistent gets",
    "physical reads",
    "redo size",
    "gc cr blocks received",
    "gc cr blocks read directly",
    "gc current blocks received",
    "enqueue waits",
    "bytes sent via SQL*Net to client",
    "bytes received via SQL*Net from client",
    "SQL*Net roundtrips to/from client",
];

/// The savepoint before a plan is asked for.
const MARK: &str = "skein_sql_autotrace";
/// What it is explained as.
const PLAN: &str = "skein sql autotrace";

pub(super) type Figures = BTreeMap<String, u64>;

impl Told {
    /// What stands behind `set autotrace`; `Ok(None)`: off.
    pub(super) fn of(words: &[&str]) -> Result<Option<Told>> {
        let wrong = || CliError::failed("set autotrace off|on|traceonly [explain] [statistics]");
        let (mut rows, mut plan, mut statistics) = (true, false, false);
        let (first, parts) = words.split_first().ok_or_else(wrong)?;
        match first.to_ascii_lowercase().as_str() {
            "off" if parts.is_empty() => return Ok(None),
            "on" => {}
            word if word.len() >= 5 && "traceonly".starts_with(word) => rows = false,
            _ => return Err(wrong()),
        }
        for part in parts {
            match part.to_ascii_lowercase().as_str() {
                word if word.len() >= 3 && "explain".starts_with(word) => plan = true,
                word if word.len() >= 4 && "statistics".starts_with(word) => statistics = true,
                _ => return Err(wrong()),
            }
        }
        if parts.is_empty() {
            (plan, statistics) = (true, true);
        }
        Ok(Some(Told { rows, plan, statistics }))
    }

    /// As `show autotrace` has it.
    pub(super) fn shown(told: Option<Told>) -> String {
        let Some(told) = told else { return "autotrace OFF\n".to_owned() };
        let first = if told.rows { "ON" } else { "TRACEONLY" };
        let plan = if told.plan { " EXPLAIN" } else { "" };
        let statistics = if told.statistics { " STATISTICS" } else { "" };
        format!("autotrace {first}{plan}{statistics}\n")
    }
}

/// Whether a statement has a plan.
fn is_planned(text: &str) -> bool {
    let word = super::words::first_word(text.trim_start_matches(['(', ' ', '\n', '\t']));
    ["select", "with", "insert", "update", "delete", "merge", "values"]
        .iter()
        .any(|known| word.eq_ignore_ascii_case(known))
}

impl Shell {
    /// `set autotrace ..`, all that follows being its own.
    pub(super) fn set_autotrace(&mut self, words: &[&str]) -> Result<()> {
        self.settings.autotrace = Told::of(words)?;
        Ok(())
    }

    /// What is to be told of this statement.
    pub(super) fn told_of(&self, text: &str) -> Option<Told> {
        self.settings.autotrace.filter(|_| is_planned(text))
    }

    /// Whether the statement is explained and not run.
    pub(super) fn only_explains(&self, text: &str) -> bool {
        let only = Told { rows: false, plan: true, statistics: false };
        self.told_of(text) == Some(only) && role(text) == Role::Query
    }

    /// The session's figures now, if they are to be told.
    pub(super) async fn figures_before(&mut self, told: Option<Told>) -> Result<Option<Figures>> {
        if !told.is_some_and(|told| told.statistics) {
            return Ok(None);
        }
        let watcher = match self.watcher.take() {
            Some(watcher) if !watcher.client.is_closed() => watcher,
            _ => {
                // The session's own instance, which alone knows its figures.
                let text = "select pg_backend_pid(), instance_number from v$instance";
                let found = query::rows(self, text).await?.rows.into_iter().flatten().flatten();
                let [sid, on] = &found.collect::<Vec<String>>()[..] else {
                    return Err(CliError::failed("the session has no number"));
                };
                let (sid, on) = (sid.clone(), on.parse().ok().or(self.instance));
                let port = super::find_port(&self.layout, on)?;
                let (client, _) = super::connect(&self.layout, port).await?;
                Watcher { client, sid }
            }
        };
        let figures = watcher.figures().await;
        self.watcher = Some(watcher);
        figures.map(Some)
    }

    /// Tells the plan, and what has been added to the figures. What it gives is the error, not told
    /// yet, of a plan that cannot be made.
    pub(super) async fn tell_trace(
        &mut self,
        told: Told,
        text: &str,
        before: Option<Figures>,
    ) -> Option<String> {
        let (mut out, mut failed) = (String::new(), None);
        let after = match (&self.watcher, &before) {
            (Some(watcher), Some(_)) => Some(watcher.figures().await),
            _ => None,
        };
        if told.plan {
            match self.explained(text).await {
                Ok(table) => {
                    out.push_str("\nExecution Plan\n");
                    out.push_str(&"-".repeat(58));
                    out.push('\n');
                    for line in table.rows.into_iter().flatten().flatten() {
                        out.push_str(&line);
                        out.push('\n');
                    }
                }
                Err(error) => failed = Some(error.to_string()),
            }
        }
        if let (Some(before), Some(after)) = (before, after) {
            out.push_str("\nStatistics\n");
            out.push_str(&"-".repeat(58));
            out.push('\n');
            match after {
                Ok(after) => {
                    for name in FIGURES {
                        let at = |figures: &Figures| figures.get(name).copied().unwrap_or(0);
                        let added = at(&after).saturating_sub(at(&before));
                        out.push_str(&format!("{added:>11}  {name}\n"));
                    }
                    out.push_str(&format!("{:>11}  rows processed\n", self.done_rows));
                }
                Err(error) => out.push_str(&format!("{error}\n")),
            }
        }
        if !out.is_empty() {
            out.push('\n');
            self.print(&out);
        }
        failed
    }
}

impl Shell {
    /// The plan of a statement, as `dbms_xplan.display` shows it. An open transaction is left as it
    /// was.
    async fn explained(&self, text: &str) -> Result<super::format::Table> {
        let text = text.trim().trim_end_matches(';');
        let explain = format!("explain plan set statement_id = '{PLAN}' for {text}");
        let show = format!("select * from table(dbms_xplan.display('PLAN_TABLE', '{PLAN}'))");
        let plan = async || {
            query::rows(self, &explain).await?;
            query::rows(self, &show).await
        };
        if !self.transaction.open {
            return plan().await;
        }
        query::rows(self, &format!("savepoint {MARK}")).await?;
        let plan = plan().await;
        let back = format!("rollback to savepoint {MARK}; release savepoint {MARK}");
        query::rows(self, &back).await?;
        plan
    }
}

impl Watcher {
    async fn figures(&self) -> Result<Figures> {
        let text = format!("select name, value from v$sesstat where sid = {}", self.sid);
        let answer = self.client.simple_query(&text).await;
        let answer = answer.map_err(|e| CliError::failed(query::error_text(&e)))?;
        let mut figures = Figures::new();
        for message in answer {
            if let SimpleQueryMessage::Row(row) = message
                && let (Some(name), Some(value)) = (row.get(0), row.get(1))
            {
                figures.insert(name.to_owned(), value.parse().unwrap_or(0));
            }
        }
        Ok(figures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_say_what_is_told() {
        let of = |words: &[&str]| Told::of(words).ok();
        let told = |rows, plan, statistics| Some(Some(Told { rows, plan, statistics }));
        assert_eq!(of(&["on"]), told(true, true, true));
        assert_eq!(of(&["ON", "exp"]), told(true, true, false));
        assert_eq!(of(&["trace", "stat"]), told(false, false, true));
        assert_eq!(of(&["traceonly", "statistics", "explain"]), told(false, true, true));
        assert_eq!(of(&["off"]), Some(None));
        for wrong in [&[][..], &["maybe"], &["on", "x"], &["off", "explain"], &["tr"]] {
            assert_eq!(of(wrong), None, "{wrong:?}");
        }
        assert_eq!(
            Told::shown(of(&["traceonly", "exp"]).flatten()),
            "autotrace TRACEONLY EXPLAIN\n"
        );
    }

    #[test]
    fn statements_with_a_plan_are_known_by_their_first_word() {
        assert!(is_planned("(select 1)") && is_planned("\nMerge into t") && !is_planned("commit"));
    }
}
