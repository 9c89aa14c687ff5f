//! The transaction that a session has open, as far as its statements tell: `set autocommit off`,
//! and what becomes of it when the shell is left.
//!
//! What it promises: with autocommit off an error takes back its statement and no other. What it
//! must never do: commit after a script has failed, unless it says so.

use super::blocks::{is_block, tokens};
use super::query::{Way, error_text};
use super::{Flow, Shell};
use crate::error::{CliError, Result};
use tokio_postgres::error::SqlState;

/// The savepoint before each statement.
pub(super) const MARK: &str = "skein_sql_statement";

/// What is open.
#[derive(Clone, Copy, Default, Debug)]
pub(super) struct Transaction {
    pub(super) open: bool,
    /// The shell has opened it, and not the user.
    pub(super) own: bool,
    /// A statement has failed, and nothing but a rollback is taken.
    pub(super) failed: bool,
}

/// What becomes of an open transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    Nothing,
    Commit,
    Rollback,
}

/// What a statement is to a transaction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Role {
    Begins,
    Ends {
        commits: bool,
        /// `and chain`: another one begins.
        chains: bool,
    },
    /// It says something of the transaction, which it needs.
    Settles,
    /// Back to a savepoint.
    Returns,
    /// It cannot stand in one.
    Apart,
    Query,
    /// It may change rows.
    Changes,
}

/// What a statement is, by its words.
pub(super) fn role(text: &str) -> Role {
    let words: Vec<String> = tokens(text).take(8).map(|t| t.text.to_ascii_lowercase()).collect();
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    let has = |wanted: &str| words.iter().any(|word| word == wanted);
    let chains = has("chain") && !has("no");
    match (word(0), word(1)) {
        ("begin", _) if !is_block(text) => Role::Begins,
        ("start", "transaction") => Role::Begins,
        ("commit" | "rollback", "prepared") => Role::Apart,
        ("commit" | "end", _) => Role::Ends { commits: true, chains },
        ("prepare", "transaction") => Role::Ends { commits: true, chains: false },
        ("rollback", _) if has("to") => Role::Returns,
        ("rollback" | "abort", _) => Role::Ends { commits: false, chains },
        ("savepoint" | "release", _) | ("set", "transaction") => Role::Settles,
        ("vacuum" | "cluster", _)
        | ("create" | "drop", "database" | "tablespace")
        | ("alter", "system")
        | ("reindex", "database" | "system")
        | ("discard", "all") => Role::Apart,
        ("create" | "drop", _) if has("index") && has("concurrently") => Role::Apart,
        ("declare", _) if !is_block(text) => Role::Query,
        ("with", _) => {
            let changes = ["insert", "update", "delete", "merge"];
            match tokens(text).any(|token| changes.iter().any(|word| token.is(word))) {
                true => Role::Changes,
                false => Role::Query,
            }
        }
        (
            "select" | "values" | "table" | "(" | "show" | "explain" | "fetch" | "move" | "close"
            | "set" | "reset" | "lock" | "listen" | "unlisten",
            _,
        ) => Role::Query,
        _ => Role::Changes,
    }
}

impl Shell {
    /// Sends a statement within a transaction where one is to be.
    pub(super) async fn deliver(
        &mut self,
        text: &str,
        way: Way<'_>,
    ) -> std::result::Result<Option<super::format::Table>, tokio_postgres::Error> {
        let role = role(text);
        let manual = !self.settings.autocommit;
        self.may_commit = match role {
            Role::Ends { commits, .. } => commits,
            Role::Changes => !manual && (self.transaction.own || !self.transaction.open),
            // What stands apart is a transaction by itself.
            Role::Apart => true,
            _ => false,
        };
        // Where the end is known, nothing is sent.
        self.may_commit &= !self.client.is_closed();
        if manual && !self.transaction.open && matches!(role, Role::Ends { .. }) {
            // There is nothing to end, which is no reason for a warning.
            self.tell_done(None);
            return Ok(None);
        }
        let wants = matches!(role, Role::Query | Role::Changes | Role::Settles);
        let opens = manual && !self.transaction.open && wants;
        if opens {
            self.client.simple_query("begin").await?;
            self.transaction = Transaction { open: true, own: true, failed: false };
        }
        let inside = matches!(role, Role::Query | Role::Changes);
        let marks = inside
            && self.transaction.open
            && !self.transaction.failed
            && (manual || self.transaction.own);
        if marks {
            self.client.simple_query(&format!("savepoint {MARK}")).await?;
        }
        let mut done = self.way(text, way).await;
        if marks {
            done = self.settle(text, way, opens, done).await;
        }
        self.note(role, &done);
        if done.is_ok()
            && !manual
            && role == Role::Changes
            && self.transaction.open
            && self.transaction.own
        {
            self.end(End::Commit).await?;
        }
        done
    }

    /// Keeps what a statement has done, or takes it back.
    async fn settle(
        &mut self,
        text: &str,
        way: Way<'_>,
        opened: bool,
        done: std::result::Result<Option<super::format::Table>, tokio_postgres::Error>,
    ) -> std::result::Result<Option<super::format::Table>, tokio_postgres::Error> {
        let Err(error) = done else {
            self.client.simple_query(&format!("release savepoint {MARK}")).await?;
            return done;
        };
        if opened && error.code() == Some(&SqlState::INVALID_TRANSACTION_TERMINATION) {
            // A block that commits can only run where no transaction is open, and none but its
            // own was: what it did so far is taken back, and it runs anew.
            self.end(End::Rollback).await?;
            self.forget_notices();
            self.may_commit = true;
            return self.way(text, way).await;
        }
        let back = format!("rollback to savepoint {MARK}");
        let back = match self.client.simple_query(&back).await {
            Ok(_) => self.client.simple_query(&format!("release savepoint {MARK}")).await,
            Err(error) => Err(error),
        };
        if back.is_err() {
            self.transaction.failed = true;
        }
        Err(error)
    }

    /// What a statement has made of the transaction.
    fn note<T>(&mut self, role: Role, done: &std::result::Result<T, tokio_postgres::Error>) {
        if matches!(done, Err(error) if error.is_closed()) {
            // What the session has lost is let go when that is said.
            return;
        }
        let open = self.transaction.open;
        match (role, done) {
            (Role::Begins, Ok(_)) if !open => {
                self.transaction = Transaction { open: true, own: false, failed: false };
            }
            (Role::Ends { commits, chains }, Ok(_)) => {
                if commits && self.transaction.failed {
                    self.kept.push(super::Notice::warning(
                        "a statement of the transaction had failed: it was rolled back",
                    ));
                }
                self.transaction.failed = false;
                self.transaction.open = open && chains;
            }
            // What could not be committed is gone; what could not be read has not been tried.
            (Role::Ends { commits: true, .. }, Err(error)) => {
                let read = error.code().is_none_or(|code| !code.code().starts_with("42"));
                self.transaction.open = open && !read;
                self.transaction.failed = self.transaction.open;
            }
            (Role::Returns, Ok(_)) => self.transaction.failed = false,
            (_, Err(_)) if open => {
                let guarded = matches!(role, Role::Query | Role::Changes)
                    && (self.transaction.own || !self.settings.autocommit);
                self.transaction.failed |= !guarded;
            }
            _ => {}
        }
    }

    /// Ends what is open.
    pub(super) async fn end(&mut self, end: End) -> std::result::Result<(), tokio_postgres::Error> {
        if !self.transaction.open || end == End::Nothing {
            return Ok(());
        }
        let text = if end == End::Commit { "commit" } else { "rollback" };
        if end == End::Commit && self.transaction.failed {
            self.kept.push(super::Notice::warning(
                "a statement of the transaction had failed: it is rolled back",
            ));
        }
        self.may_commit = end == End::Commit;
        let done = self.client.simple_query(text).await.map(|_| ());
        self.may_commit &= done.is_err();
        if !matches!(&done, Err(error) if error.is_closed()) {
            self.transaction = Transaction::default();
        }
        done
    }

    /// Commits what is open before the session is left for another one. A session that is lost has
    /// nothing to commit, which is an error only if something was open.
    pub(super) async fn commit_open(&mut self) -> Result<Flow> {
        let open = self.transaction.open;
        if open {
            // Whether the session is there is known by its answer, and nothing is committed by
            // what asks for it.
            let _answer = self.client.simple_query("").await;
        }
        let done = match self.client.is_closed() {
            true => Ok(()),
            false => self.end(End::Commit).await,
        };
        self.say_notices();
        match done {
            Err(error) if !error.is_closed() => Err(CliError::failed(error_text(&error))),
            _ => match self.loss().filter(|_| open) {
                Some(text) => {
                    (self.has_failed, self.sqlcode) = (true, super::query::NUMBER_LOST);
                    self.failed(&text)
                }
                None => Ok(Flow::Next),
            },
        }
    }

    /// Lets go of a session whose connection has ended, and of what was open in it; what is to be
    /// said of it. `None`: the session is there, or this has been said.
    pub(super) fn loss(&mut self) -> Option<String> {
        if !self.is_connected || !self.client.is_closed() {
            return None;
        }
        self.task.abort();
        self.watcher = None;
        self.is_connected = false;
        self.transaction = Transaction::default();
        let what = match std::mem::take(&mut self.may_commit) {
            false => ", and an open transaction is rolled back",
            // The answer is lost, and not only what was asked for.
            true => {
                "; whether what was sent last was committed is not known, and if it was not, it is \
                 rolled back"
            }
        };
        Some(format!(
            "the connection to the instance is lost{what}\nHINT: connect [K] begins a session with \
             an instance that is open"
        ))
    }

    /// What failed, and that the session is lost if it is so.
    pub(super) fn with_loss(&mut self, text: &str) -> String {
        match (self.loss(), text.strip_prefix("connection closed")) {
            (None, _) => text.to_owned(),
            (Some(loss), Some(place)) => format!("{loss}{place}"),
            (Some(loss), None) => format!("{text}\n{loss}"),
        }
    }

    /// Ends the transaction as the way out asks for; the exit code.
    pub(super) async fn leave(&mut self, flow: Flow) -> u8 {
        let (code, end) = match flow {
            Flow::Exit(code, end) => (code, end),
            // The end of the text, or of what was typed.
            Flow::Next if self.transaction.own || !self.settings.autocommit => (0, End::Commit),
            Flow::Next => (0, End::Rollback),
        };
        let open = self.transaction.open;
        let done = self.end(end).await;
        self.say_notices();
        if let Err(error) = done {
            let text = self.with_loss(&error_text(&error));
            self.refuse(&text);
            return code.max(1);
        }
        if open && end != End::Commit {
            eprintln!("WARNING:  the open transaction is rolled back");
        }
        code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statements_tell_what_they_are_to_a_transaction() {
        let ends = |commits, chains| Role::Ends { commits, chains };
        for (text, wanted) in [
            ("begin", Role::Begins),
            ("BEGIN isolation level repeatable read", Role::Begins),
            ("start transaction", Role::Begins),
            ("begin null; end;", Role::Changes),
            ("declare x int; begin null; end;", Role::Changes),
            ("commit", ends(true, false)),
            ("commit and chain", ends(true, true)),
            ("commit and no chain", ends(true, false)),
            ("end", ends(true, false)),
            ("/* x */ rollback work", ends(false, false)),
            ("rollback to savepoint a", Role::Returns),
            ("savepoint a", Role::Settles),
            ("set transaction read only", Role::Settles),
            ("set x = 1", Role::Query),
            ("vacuum t", Role::Apart),
            ("alter system set x = 1", Role::Apart),
            ("alter table t add a int", Role::Changes),
            ("declare c cursor for select 1", Role::Query),
            ("with a as (select 1) select * from a", Role::Query),
            ("with a as (delete from t returning *) select * from a", Role::Changes),
            ("select 1", Role::Query),
            ("merge into t using s on (a = b)", Role::Changes),
            ("call p()", Role::Changes),
        ] {
            assert_eq!(role(text), wanted, "{text}");
        }
    }
}
