//! Lines that are typed: history, and words completed with Tab.

use crate::error::{CliError, Result};
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::history::FileHistory;
use rustyline::{Config, Context, Helper};
use rustyline::{highlight::Highlighter, hint::Hinter, validate::Validator};
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
        editor.set_helper(Some(Words(words)));
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
        self.editor.set_helper(Some(Words(words)));
    }

    pub(super) fn line(&mut self, prompt: &str) -> Result<Line> {
        let line = self.answer(prompt)?;
        if let Line::Text(text) = &line
            && !text.trim().is_empty()
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
}

/// Names of the database.
struct Words(Vec<String>);

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
        if begin == at {
            return Ok((at, Vec::new()));
        }
        Ok((begin, candidates(&self.0, &line[begin..at])))
    }
}

impl Hinter for Words {
    type Hint = String;
}

impl Highlighter for Words {}
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
}
