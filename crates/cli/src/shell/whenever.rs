//! What follows an error, and what the shell ends with: `whenever sqlerror`, `whenever oserror`,
//! `exit`.
//!
//! What it promises: the exit code of an error is not 0, unless a script asks for just that number.
//! What it must never do: commit after an error that ends a script, without being told so.

use super::query::error_text;
use super::transaction::End;
use super::{Flow, Shell};
use crate::error::{CliError, Result};

const EXIT: &str = "exit [success|failure|warning|N|NAME|:VARIABLE|sql.sqlcode|oscode] \
                    [commit|rollback]";

/// What follows an error.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum OnError {
    Continue(End),
    /// Nobody has said: a script goes on, and has failed in the end.
    GoOn,
    Exit(Code, End),
}

/// An exit code, which is looked up when the shell is left.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Code {
    Number(u8),
    /// That of the error of the statement before.
    OfStatement,
    /// That of the last error of the operating system.
    OfSystem,
    Variable(String),
    /// What `define` has given a value.
    Name(String),
}

/// A number as the operating system passes it on: modulo 256, and 0 for no other number.
fn code_of(number: i64) -> u8 {
    let code = u8::try_from(number.rem_euclid(256)).unwrap_or(1);
    if number == 0 { 0 } else { code.max(1) }
}

/// A whole number, which may be written with zeros behind a point.
fn whole(text: &str) -> Option<i64> {
    let text = text.trim();
    let whole = match text.split_once('.') {
        Some((whole, zeros)) if zeros.bytes().all(|b| b == b'0') => whole,
        _ => text,
    };
    whole.parse().ok()
}

/// Words of an `exit`: its code, if one is given, and what becomes of the transaction.
fn way_out(words: &[&str]) -> (Option<Code>, Option<End>) {
    let (mut code, mut end) = (None, None);
    for word in words {
        let lower = word.to_ascii_lowercase();
        code = Some(match lower.as_str() {
            "commit" => {
                end = Some(End::Commit);
                continue;
            }
            "rollback" => {
                end = Some(End::Rollback);
                continue;
            }
            "success" => Code::Number(0),
            "failure" | "warning" => Code::Number(1),
            "sql.sqlcode" => Code::OfStatement,
            "oscode" => Code::OfSystem,
            name => match (name.strip_prefix(':'), whole(name)) {
                (Some(name), _) => Code::Variable(name.to_owned()),
                (None, Some(number)) => Code::Number(code_of(number)),
                (None, None) => Code::Name(name.to_owned()),
            },
        });
    }
    (code, end)
}

impl Shell {
    /// `whenever sqlerror|oserror exit [CODE] [commit|rollback]`, or `continue
    /// [commit|rollback|none]`.
    pub(super) fn whenever(&mut self, text: &str) -> Result<()> {
        let words: Vec<String> = text.split_whitespace().map(str::to_ascii_lowercase).collect();
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let usage = || {
            CliError::failed(format!(
                "whenever sqlerror|oserror {EXIT}, or continue [commit|rollback|none]"
            ))
        };
        let (of_system, what) = match &words[..] {
            ["sqlerror", what @ ..] => (false, what),
            ["oserror", what @ ..] => (true, what),
            _ => return Err(usage()),
        };
        let on_error = match what {
            ["continue"] | ["continue", "none"] => OnError::Continue(End::Nothing),
            ["continue", "commit"] => OnError::Continue(End::Commit),
            ["continue", "rollback"] => OnError::Continue(End::Rollback),
            ["exit", words @ ..] => {
                let (code, end) = way_out(words);
                let is_there = match &code {
                    Some(Code::Variable(name)) => self.variables.contains_key(name),
                    Some(Code::Name(name)) => self.defined(name).is_some(),
                    _ => true,
                };
                if !is_there {
                    return Err(usage());
                }
                // A transaction of which a part has failed is kept only if that is asked for.
                let end = end.unwrap_or(End::Rollback);
                OnError::Exit(code.unwrap_or(Code::Number(1)), end)
            }
            _ => return Err(usage()),
        };
        match of_system {
            true => self.settings.on_os_error = Some(on_error),
            false => self.settings.on_error = on_error,
        }
        Ok(())
    }

    /// `exit [CODE] [commit|rollback]`.
    pub(super) async fn exit(&mut self, text: &str) -> Result<Flow> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (code, end) = way_out(&words);
        let code = match self.code(&code.unwrap_or(Code::Number(0))) {
            Some(code) => code,
            None => {
                let wrong = CliError::failed(format!("exit {text}: {EXIT}"));
                if self.interactive {
                    return Err(wrong);
                }
                // A script was to end here, and not as if all were well.
                self.refuse(&wrong.message);
                1
            }
        };
        let usual = if self.settings.exit_commits { End::Commit } else { End::Rollback };
        if end == Some(End::Rollback) {
            // Here, as nobody who asks for it need be warned of it.
            match self.end(End::Rollback).await {
                // So it is where the session is lost.
                Err(error) if error.is_closed() => drop(self.loss()),
                done => done.map_err(|e| CliError::failed(error_text(&e)))?,
            }
        }
        Ok(Flow::Exit(code, end.unwrap_or(usual)))
    }

    /// What an exit code is now; `None`: what is named has no number.
    fn code(&self, code: &Code) -> Option<u8> {
        Some(match code {
            Code::Number(code) => *code,
            Code::OfStatement if self.has_failed => code_of(i64::from(self.sqlcode).abs()).max(1),
            Code::OfStatement => 0,
            Code::OfSystem => code_of(i64::from(self.oscode)),
            Code::Variable(name) => {
                let value = self.variables.get(name)?.value.as_deref()?;
                code_of(whole(value)?)
            }
            Code::Name(name) => code_of(whole(&self.defined(name)?)?),
        })
    }

    /// Says what failed, and goes on or not.
    pub(super) fn failed(&mut self, text: &str) -> Result<Flow> {
        let text = self.with_loss(text);
        self.refuse(&text);
        let on_error = self.settings.on_error.clone();
        Ok(self.goes_on(&on_error))
    }

    /// Says what a command has failed with, and goes on or not.
    pub(super) async fn command_failed(&mut self, error: &CliError) -> Result<Flow> {
        let on_error = match error.os {
            Some(number) => {
                self.oscode = number;
                self.settings.on_os_error.clone()
            }
            None => None,
        };
        let Some(on_error) = on_error else {
            if self.interactive {
                let text = self.with_loss(&error.message);
                eprintln!("{text}");
                return Ok(Flow::Next);
            }
            return self.failed(&error.message);
        };
        let text = self.with_loss(&error.message);
        self.refuse(&text);
        if let OnError::Continue(end) = on_error
            && let Err(error) = self.end(end).await
        {
            eprintln!("{}", error_text(&error));
        }
        Ok(self.goes_on(&on_error))
    }

    /// What follows an error that has been said.
    fn goes_on(&mut self, on_error: &OnError) -> Flow {
        match on_error {
            OnError::Continue(_) => Flow::Next,
            // Somebody has ended what ran.
            OnError::GoOn if self.is_interrupted => Flow::Exit(1, End::Rollback),
            // Also without a session, as `connect` may follow.
            OnError::GoOn => {
                self.went_on = true;
                Flow::Next
            }
            OnError::Exit(code, end) => {
                let number = self.code(code).unwrap_or(1);
                let is_given = matches!(code, Code::Number(_) | Code::Variable(_) | Code::Name(_));
                Flow::Exit(if is_given { number } else { number.max(1) }, *end)
            }
        }
    }

    /// What follows a piece of a text if something that it put out could not be written.
    pub(super) async fn written(&mut self, flow: Flow) -> Result<Flow> {
        let Some(error) = self.unwritten.take() else { return Ok(flow) };
        let then = self.command_failed(&error).await?;
        // What is to end does so as it was told.
        Ok(if flow == Flow::Next { then } else { flow })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_codes_are_never_those_of_success_by_chance() {
        assert_eq!([0, 7, 255, 942, 256, -1, -20_001].map(code_of), [0, 7, 255, 174, 1, 255, 223]);
        assert_eq!([whole("5"), whole(" -5.00 "), whole("5.5")], [Some(5), Some(-5), None]);
        assert_eq!([whole(""), whole("x")], [None, None]);
    }

    #[test]
    fn words_say_how_the_shell_is_left() {
        let (commit, rollback) = (Some(End::Commit), Some(End::Rollback));
        for (text, code, end) in [
            ("", None, None),
            ("commit", None, commit),
            ("SUCCESS", Some(Code::Number(0)), None),
            ("failure rollback", Some(Code::Number(1)), rollback),
            ("warning", Some(Code::Number(1)), None),
            ("942 commit", Some(Code::Number(174)), commit),
            ("SQL.SQLCODE rollback", Some(Code::OfStatement), rollback),
            ("oscode", Some(Code::OfSystem), None),
            (":RC", Some(Code::Variable("rc".to_owned())), None),
            ("rc", Some(Code::Name("rc".to_owned())), None),
        ] {
            let words: Vec<&str> = text.split_whitespace().collect();
            assert_eq!(way_out(&words), (code, end), "{text}");
        }
    }
}
