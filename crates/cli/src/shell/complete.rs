//! Lines that are typed: history, and words completed with Tab.
//!
//! What it promises: an answer that is hidden is not seen, nor completed. What it must never do:
//! keep a password in the history.

use super::login;
use super::pieces::{Piece, next};
use super::prepared::Prepared;
use crate::error::{CliError, Result};
use rustyline::completion::Completer;
use rustyline::config::Configurer;
use rustyline::error::ReadlineError;
use rustyline::highlight::CmdKind;
use rustyline::history::FileHistory;
use rustyline::{ColorMode, Config, Context, Helper};
use rustyline::{highlight::Highlighter, hint::Hinter, validate::Validator};
use std::borrow::Cow;
use std::path::PathBuf;

/// Lines that are kept.
const HISTORY_LINES: usize = 2_000;

/// Words of SQL and of the shell, which are known without a database.
const WORDS: &str = "\
    abort accept alter analyze and as asc autocommit begin between by call case cast \
    checkpoint close cluster coalesce column comment commit constraint copy create cross \
    current_date current_timestamp cursor database declare default define delete desc describe \
    disconnect distinct do drop else end errors exec execute exists explain false fetch for \
    foreign from full function grant group having if ilike in index inner insert into is join \
    key language lateral left like limit list listen lock materialized merge natural new_value \
    not notify null offset on or order outer over parameter partition plpgsql prepare primary \
    procedure prompt recursive references refresh release rename replace returning returns \
    revoke right rollback row rows savepoint schema select sequence serveroutput set show \
    spool start table temporary then timing to transaction trigger true truncate union unique \
    update user using vacuum values variable view when whenever where window with";

/// What was typed.
pub(super) enum Line {
    Text(String),
    /// Ctrl-C.
    Interrupted,
    /// Ctrl-D.
    End,
}

pub(super) struct Editor {
    editor: rustyline::Editor<Words, FileHistory>,
    history: Option<PathBuf>,
}

/// Lines of the terminal, as `stty` tells.
pub(super) fn terminal_height() -> Option<usize> {
    let mut command = std::process::Command::new("stty");
    let output = command.arg("size").stdin(std::process::Stdio::inherit()).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.split_whitespace().next()?.parse().ok()
}

/// Whether a statement has a password in it, or is about to have one.
fn sets_password(statement: &str) -> bool {
    let lower = statement.to_lowercase();
    let inside = |c: char| c.is_alphanumeric() || c == '_';
    let words = lower.split(|c| !inside(c)).filter(|word| !word.is_empty());
    let words: Vec<&str> = words.collect();
    let mut pairs = words.windows(2);
    if pairs.clone().any(|pair| pair == ["identified", "by"]) {
        return true;
    }
    let makes = |pair: &[&str]| {
        matches!(pair[0], "create" | "alter") && matches!(pair[1], "user" | "role" | "group")
    };
    let made = pairs.position(makes);
    let told = |word: &&str| matches!(*word, "identified" | "password");
    made.is_some_and(|at| words[at..].iter().any(told))
}

/// Whether what was typed has a password in it.
fn has_password(typed: &str) -> bool {
    let mut at = 0;
    while let Some(next) = next(&typed[at..], &Prepared::default()) {
        at += next.end;
        let has_one = match next.piece {
            Piece::Command(line) => login::masked(line).is_some() || sets_password(line),
            Piece::Statement(text) | Piece::Kept(text) => sets_password(text),
            Piece::Again => false,
        };
        if has_one {
            return true;
        }
    }
    false
}

fn failed(error: &ReadlineError) -> CliError {
    CliError::failed(format!("read a line: {error}"))
}

impl Editor {
    pub(super) fn new(words: Vec<String>) -> Result<Editor> {
        let config = Config::builder()
            .max_history_size(HISTORY_LINES)
            .and_then(|config| config.history_ignore_dups(true))
            .map_err(|error| failed(&error))?
            .build();
        let mut editor = rustyline::Editor::with_config(config).map_err(|error| failed(&error))?;
        editor.set_helper(Some(Words { words, hides: false }));
        let home = || Some(PathBuf::from(std::env::var_os("HOME")?).join(".skein_history"));
        let history = std::env::var_os("SKEIN_HISTORY").map(PathBuf::from).or_else(home);
        if let Some(path) = &history {
            // There is none before the first time.
            let _ = editor.load_history(path);
        }
        Ok(Editor { editor, history })
    }

    /// Other names to complete.
    pub(super) fn learn(&mut self, words: Vec<String>) {
        self.editor.set_helper(Some(Words { words, hides: false }));
    }

    /// A line behind those that were typed before it and have not been run.
    pub(super) fn line(&mut self, prompt: &str, pending: &str) -> Result<Line> {
        let line = self.answer(prompt)?;
        if let Line::Text(text) = &line
            && !text.trim().is_empty()
            && !has_password(&format!("{pending}{text}\n"))
        {
            let _ = self.editor.add_history_entry(text.as_str());
            if let Some(path) = &self.history {
                let _ = self.editor.append_history(path);
            }
        }
        Ok(line)
    }

    /// A line that is kept out of the history.
    pub(super) fn answer(&mut self, prompt: &str) -> Result<Line> {
        match self.editor.readline(prompt) {
            Ok(text) => Ok(Line::Text(text)),
            Err(ReadlineError::Interrupted) => Ok(Line::Interrupted),
            Err(ReadlineError::Eof) => Ok(Line::End),
            Err(error) => Err(failed(&error)),
        }
    }

    /// The same, and what is typed is not seen.
    pub(super) fn hidden_answer(&mut self, prompt: &str) -> Result<Line> {
        self.hide(true);
        let line = self.answer(prompt);
        self.hide(false);
        line
    }

    fn hide(&mut self, hides: bool) {
        // Else it would be seen where there are no colours.
        let mode = if hides { ColorMode::Forced } else { ColorMode::Enabled };
        self.editor.set_color_mode(mode);
        if let Some(helper) = self.editor.helper_mut() {
            helper.hides = hides;
        }
    }
}

/// Names of the database.
struct Words {
    words: Vec<String>,
    /// What is typed is not for other eyes.
    hides: bool,
}

/// What `begin` may become.
fn candidates(words: &[String], begin: &str) -> Vec<String> {
    let lower = begin.to_lowercase();
    let own = words.iter().filter(|word| word.to_lowercase().starts_with(&lower)).cloned();
    let upper = begin.chars().any(char::is_uppercase) && !begin.chars().any(char::is_lowercase);
    let keywords = WORDS.split_whitespace().filter(|word| word.starts_with(&lower));
    let keywords = keywords.map(|word| if upper { word.to_uppercase() } else { word.to_owned() });
    let mut all: Vec<String> = own.chain(keywords).collect();
    all.sort();
    all.dedup();
    all
}

impl Completer for Words {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        let inside = |c: char| c.is_alphanumeric() || matches!(c, '_' | '$');
        let begin = line[..at]
            .rfind(|c| !inside(c))
            .map_or(0, |i| i + line[i..].chars().next().map_or(1, char::len_utf8));
        if begin == at || self.hides {
            return Ok((at, Vec::new()));
        }
        Ok((begin, candidates(&self.words, &line[begin..at])))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {
    fn highlight<'l>(&self, line: &'l str, _: usize) -> Cow<'l, str> {
        match self.hides {
            true => Cow::Owned(" ".repeat(line.chars().count())),
            false => Cow::Borrowed(line),
        }
    }

    /// Whether the line is drawn anew, which is what hides a character that was typed.
    fn highlight_char(&self, _: &str, _: usize, kind: CmdKind) -> bool {
        self.hides && kind != CmdKind::MoveCursor
    }
}

impl Validator for Words {}
impl Helper for Words {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_words_are_completed() {
        let words = ["accounts", "Order"].map(str::to_owned);
        assert_eq!(candidates(&words, "acco"), ["accounts"]);
        assert_eq!(candidates(&words, "ORD"), ["ORDER", "Order"]);
        assert_eq!(candidates(&words, "sel"), ["select"]);
        assert!(candidates(&words, "zz").is_empty());
    }

    #[test]
    fn what_is_hidden_is_neither_seen_nor_completed() {
        let words = |hides| Words { words: vec!["accounts".to_owned()], hides };
        assert_eq!(words(false).highlight("acco", 4), "acco");
        assert_eq!(words(true).highlight("é1", 2), "  ");
        assert!(words(true).highlight_char("a", 1, CmdKind::Other));
        assert!(!words(false).highlight_char("a", 1, CmdKind::Other));
        let history = FileHistory::new();
        let completed = |hides| words(hides).complete("acco", 4, &Context::new(&history)).ok();
        assert_eq!(completed(false), Some((0, vec!["accounts".to_owned()])));
        assert_eq!(completed(true), Some((4, Vec::new())));
    }

    #[test]
    fn passwords_are_kept_out_of_the_history() {
        for typed in [
            "connect scott/tiger@1\n",
            "select 1; conn scott/tiger\n",
            "\\c scott/tiger\n",
            "connect scott/ -\n",
            "create user scott identified by tiger;\n",
            "ALTER USER scott\n  IDENTIFIED\n",
            "alter role scott with password\n",
            "alter role scott with password\n  'tiger';\n",
            "create role a; alter user b encrypted password 'x';\n",
            "/* x */ grant connect to scott identified by tiger;\n",
            "begin\n  execute immediate 'alter user scott identified by tiger';\n",
            "exec execute immediate 'create user x password ''y'''\n",
        ] {
            assert!(has_password(typed), "{typed}");
        }
        for typed in [
            "connect 2\n",
            "connect scott\n",
            "connect / as sysdba\n",
            "select a / b from t;\n",
            "alter user scott\n",
            "alter user scott account lock;\n",
            "select password from users where identified;\n",
            "drop user scott; select password from t;\n",
            "",
        ] {
            assert!(!has_password(typed), "{typed}");
        }
    }
}
