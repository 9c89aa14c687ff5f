//! The transaction that a session has open, as far as its statements tell: `set autocommit off`,
//! and what becomes of it when the shell is left.
//!
//! What it promises: with autocommit off an error takes back its statement and no other, and
//! savepoints are the user's own as without the shell's. What it must never do: commit after a
//! script has failed, unless it says so.
//!
//! Before each statement there is a savepoint. What runs code, and what sets savepoints, may have
//! others behind it that releasing it would take away, or may have gone back to one before it: it
//! stays then, and the next one has another name.

use super::blocks::{Token, is_block, stored, tokens};
use super::query::{Way, error_text};
use super::{Flow, Shell};
use crate::error::{CliError, Result};
use tokio_postgres::error::SqlState;

/// The savepoint before each statement.
const MARK: &str = "skein_sql_statement";

/// What is open.
#[derive(Default, Debug)]
pub(super) struct Transaction {
    pub(super) open: bool,
    /// The shell has opened it, and not the user.
    pub(super) own: bool,
    /// A statement has failed, and nothing but a rollback is taken.
    pub(super) failed: bool,
    /// Savepoints of the shell that stay, so that none has the name of one before it.
    left: u32,
    /// Names of the user's savepoints as they were written, those set last at the end; some may be
    /// gone.
    savepoints: Vec<String>,
}

impl Transaction {
    /// One that has just begun.
    fn begun(own: bool) -> Transaction {
        Transaction { open: true, own, ..Transaction::default() }
    }

    /// The name of the savepoint before the statement at hand.
    pub(super) fn mark(&self) -> String {
        match self.left {
            0 => MARK.to_owned(),
            left => format!("{MARK}_{left}"),
        }
    }

    /// The savepoint before the statement stays, and those that the statement may have set.
    fn leave_mark(&mut self, text: &str) {
        self.left = self.left.saturating_add(1);
        for name in savepoints_in(text) {
            self.savepoints.retain(|known| *known != name);
            self.savepoints.push(name);
        }
    }
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
    /// It sets or releases a savepoint.
    Names,
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
        ("savepoint" | "release", _) => Role::Names,
        ("set", "transaction") => Role::Settles,
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

/// Whether a statement may set or take away savepoints by code that it runs.
fn runs_code(text: &str) -> bool {
    let first = tokens(text).next();
    first.is_some_and(|first| first.is_any(&["call", "do"]))
        || is_block(text) && stored(text).is_none()
}

/// Names of savepoints in a statement, which it sets or goes back to.
fn savepoints_in(text: &str) -> Vec<String> {
    let all: Vec<Token<'_>> = tokens(text).collect();
    let names = all.windows(2).enumerate().filter_map(|(at, pair)| {
        let goes_back = || {
            let before = &all[at.saturating_sub(2)..at];
            pair[0].is("to") && before.iter().any(|token| token.is("rollback"))
        };
        let is_named = pair[0].is("savepoint") || goes_back();
        let is_name =
            pair[1].text.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '"'));
        (is_named && is_name && !pair[1].is("savepoint")).then(|| pair[1].text.to_owned())
    });
    names.collect()
}

impl Shell {
    /// Whether a statement has a savepoint before it where a transaction is open.
    fn guards(&self, role: Role) -> bool {
        // A level of isolation can be set only where there is none.
        matches!(role, Role::Query | Role::Changes | Role::Names | Role::Returns)
            && (self.transaction.own || !self.settings.autocommit)
    }

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
        let wants = matches!(role, Role::Query | Role::Changes | Role::Settles | Role::Names);
        let opens = manual && !self.transaction.open && wants;
        if opens {
            self.client.simple_query("begin").await?;
            self.transaction = Transaction::begun(true);
        }
        let marks = self.guards(role) && self.transaction.open && !self.transaction.failed;
        if marks {
            self.client.simple_query(&format!("savepoint {}", self.transaction.mark())).await?;
        }
        let mut done = self.way(text, way).await;
        if marks {
            let stays = matches!(role, Role::Names | Role::Returns) || runs_code(text);
            if stays && done.is_ok() {
                self.transaction.leave_mark(text);
            } else {
                done = self.settle(text, way, opens, done).await;
            }
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
        let mark = self.transaction.mark();
        let Err(error) = done else {
            self.client.simple_query(&format!("release savepoint {mark}")).await?;
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
        let back = format!("rollback to savepoint {mark}");
        let is_back = match self.client.simple_query(&back).await {
            Ok(_) => {
                let release = format!("release savepoint {mark}");
                self.client.simple_query(&release).await.is_ok()
            }
            // It may have gone back to one of the user's before that.
            Err(back) => back.code().is_some() && self.recover(text).await,
        };
        self.transaction.failed |= !is_back;
        Err(error)
    }

    /// Takes back what a statement has done since it went back to a savepoint before its own;
    /// `false`: that one is not known.
    async fn recover(&mut self, text: &str) -> bool {
        let mut names = self.transaction.savepoints.clone();
        names.extend(savepoints_in(text));
        for name in names.iter().rev() {
            let back = format!("rollback to savepoint {name}");
            if self.client.simple_query(&back).await.is_ok() {
                self.kept.push(super::Notice::warning(&format!(
                    "what failed had gone back before its own beginning: the transaction is as it \
                     was at savepoint {name}"
                )));
                return true;
            }
        }
        false
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
                self.transaction = Transaction::begun(false);
            }
            (Role::Ends { commits, chains }, Ok(_)) => {
                if commits && self.transaction.failed {
                    self.kept.push(super::Notice::warning(
                        "a statement of the transaction had failed: it was rolled back",
                    ));
                }
                let own = self.transaction.own;
                self.transaction = match open && chains {
                    true => Transaction::begun(own),
                    false => Transaction { own, ..Transaction::default() },
                };
            }
            // What could not be committed is gone; what could not be read has not been tried.
            (Role::Ends { commits: true, .. }, Err(error)) => {
                let read = error.code().is_none_or(|code| !code.code().starts_with("42"));
                self.transaction.open = open && !read;
                self.transaction.failed = self.transaction.open;
            }
            (Role::Returns, Ok(_)) => self.transaction.failed = false,
            (_, Err(_)) if open => {
                self.transaction.failed |= !self.guards(role);
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
            ("savepoint a", Role::Names),
            ("release savepoint a", Role::Names),
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

    #[test]
    fn savepoints_of_code_are_found_and_kept() {
        let found = |text| savepoints_in(text).join(" ");
        assert_eq!(found("savepoint a"), "a");
        assert_eq!(found("rollback work to savepoint \"B c\""), "\"B c\"");
        assert_eq!(
            found("begin savepoint a; insert into t values (1); rollback to b; end;"),
            "a b"
        );
        assert_eq!(found("begin x := 'savepoint a'; set_to(c); end;"), "");
        assert!(runs_code("call p()") && runs_code("do $$ begin null; end $$"));
        assert!(runs_code("begin p; end;") && runs_code("declare x int; begin null; end;"));
        assert!(!runs_code("create procedure p is begin null; end;") && !runs_code("select 1"));
        let mut transaction = Transaction::begun(true);
        assert_eq!(transaction.mark(), "skein_sql_statement");
        transaction.leave_mark("begin savepoint a; savepoint b; end;");
        transaction.leave_mark("savepoint a");
        assert_eq!(transaction.mark(), "skein_sql_statement_2");
        assert_eq!(transaction.savepoints, ["b", "a"]);
    }
}
