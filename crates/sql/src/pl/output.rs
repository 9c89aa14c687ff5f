//! `dbms_output`: lines, which are notices on their way to the client and may be taken back.
//!
//! What it promises: what a block gets with `get_line` the client does not see; what is put out
//! after `disable` goes nowhere. What it must never do: take a notice that is none of these lines.

use super::parse::Parser;
use super::run::Machine;
use super::tree::{Dialect, Kind, Sql, Use};
use crate::session::Session;
use crate::{PgError, Result, Severity};
use kernel::row::{ColType, TypeKind, Value};
use std::collections::VecDeque;

/// Lines that were taken back stay among the notices until so many are there, and no fewer than
/// others.
const GONE_MAX: usize = 1024;
/// What is put out without an end of line.
const LINE_BYTES_MAX: usize = 16 << 20;

/// What a session's code has put out since its client was told last.
#[derive(Default)]
pub(crate) struct Output {
    off: bool,
    /// Places of the lines among the session's notices.
    lines: VecDeque<usize>,
    /// Places of those that were taken back, in order, all before these: they go together, as each
    /// by itself would move whatever is behind it.
    gone: Vec<usize>,
    /// A line was asked for: what has not been taken goes when the next one comes.
    asked: bool,
}

impl Parser<'_> {
    /// `dbms_output.get_line(line, status)` behind its name.
    pub(super) fn get_line(&mut self) -> Result<Kind> {
        self.expect_symbol("(")?;
        let (mut line, mut status) = (None, None);
        loop {
            let mut at_line = line.is_none();
            if self.is_at(1, "=>") {
                at_line = self.is("line");
                if !at_line && !self.is("status") {
                    let text = "procedure dbms_output.get_line has no such argument";
                    return Err(self.error("42883", text));
                }
                self.advance();
                self.advance();
            }
            let place = if at_line { &mut line } else { &mut status };
            if place.is_some() {
                let text = "an argument of dbms_output.get_line is given twice";
                return Err(self.error("42601", text));
            }
            *place = Some(self.target()?);
            if !self.symbol(",") {
                break;
            }
        }
        self.expect_symbol(")")?;
        self.expect_symbol(";")?;
        match (line, status) {
            (Some(line), Some(status)) => Ok(Kind::TakeLine { line, status }),
            _ => {
                let text = "procedure dbms_output.get_line with 1 arguments does not exist";
                Err(self.error("42883", text))
            }
        }
    }
}

impl Session {
    /// The oldest line that is still on its way.
    fn take_output(&mut self) -> Option<String> {
        self.output.asked = true;
        let at = self.output.lines.pop_front()?;
        // Notices may have been cut off.
        let line = std::mem::take(&mut self.notices.get_mut(at)?.message);
        self.notice_bytes = self.notice_bytes.saturating_sub(line.len());
        self.output.gone.push(at);
        Some(line)
    }

    fn drop_output(&mut self) {
        let output = &mut self.output;
        output.gone.extend(output.lines.drain(..));
        output.asked = false;
    }

    /// Takes the lines that were taken back from among the notices.
    fn clear_gone(&mut self) {
        let gone = std::mem::take(&mut self.output.gone);
        if gone.is_empty() {
            return;
        }
        for later in &mut self.output.lines {
            *later -= gone.len();
        }
        let held = gone.len() * size_of::<PgError>();
        self.notice_bytes = self.notice_bytes.saturating_sub(held);
        let (mut gone, mut at) = (gone.into_iter().peekable(), 0_usize);
        self.notices.retain(|_| {
            let is_gone = gone.next_if_eq(&at).is_some();
            at += 1;
            !is_gone
        });
    }

    /// The client is told of all notices: no line can be taken back any more.
    pub(crate) fn end_output(&mut self) {
        self.clear_gone();
        self.output.lines.clear();
        self.output.asked = false;
    }

    /// As a new session has it.
    pub(crate) fn reset_output(&mut self) {
        self.end_output();
        self.output.off = false;
    }

    fn put_output(&mut self, line: String) -> Result<()> {
        if self.output.off {
            return Ok(());
        }
        if self.output.asked {
            self.drop_output();
        }
        let gone = self.output.gone.len();
        if gone >= GONE_MAX && gone >= self.notices.len() / 2 {
            self.clear_gone();
        }
        self.code_notice(PgError::notice(Severity::Notice, line))?;
        self.output.lines.push_back(self.notices.len() - 1);
        Ok(())
    }
}

impl Machine<'_> {
    pub(super) async fn put(&mut self, text: Option<&Sql>, ends: bool) -> Result<()> {
        if let Some(text) = text {
            let (value, _) = self.eval(text).await?;
            match value {
                Value::Numeric(v, scale) if self.dialect == Dialect::Field => {
                    self.line.push_str(&query::functions::number_text(v, scale));
                }
                value => {
                    let text = self.converted(&value, ColType::new(TypeKind::Text))?;
                    if let Value::Text(text) = text {
                        self.line.push_str(&text);
                    }
                }
            }
        }
        if self.line.len() > LINE_BYTES_MAX {
            self.line.clear();
            let text = format!("a line of dbms_output is longer than {LINE_BYTES_MAX} bytes");
            return Err(PgError::new("54000", text));
        }
        if ends {
            self.end_line()?;
        }
        Ok(())
    }

    /// What has been put out is a whole line.
    ///
    /// # Errors
    /// 53200: too much is on its way to the client.
    pub(super) fn end_line(&mut self) -> Result<()> {
        let line = std::mem::take(&mut self.line);
        self.session.put_output(line)
    }

    /// `enable` and `disable`, which also drops what is on its way.
    pub(super) fn switch_output(&mut self, on: bool) {
        self.session.output.off = !on;
        if !on {
            self.line.clear();
            self.session.drop_output();
        }
    }

    /// The next line and 0, or NULL and 1.
    pub(super) async fn take_line(&mut self, line: &Use, status: &Use) -> Result<()> {
        let (line, status) = (self.settled(line).await?, self.settled(status).await?);
        let (text, none) = match self.session.take_output() {
            Some(text) => (Value::Text(text.into()), 0),
            None => (Value::Null, 1),
        };
        self.store(&line, text, ColType::new(TypeKind::Text))?;
        self.store(&status, Value::Int4(none), ColType::new(TypeKind::Int4))
    }
}
