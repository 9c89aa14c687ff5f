//! Errors and notices as a client sees them.

use std::fmt;

/// How bad it is. `Fatal` ends the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Severity {
    Debug,
    Log,
    Info,
    Notice,
    Warning,
    Error,
    Fatal,
}

impl Severity {
    /// The word on the wire.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Severity::Debug => "DEBUG",
            Severity::Log => "LOG",
            Severity::Info => "INFO",
            Severity::Notice => "NOTICE",
            Severity::Warning => "WARNING",
            Severity::Error => "ERROR",
            Severity::Fatal => "FATAL",
        }
    }
}

/// An error or a notice: what `ErrorResponse` and `NoticeResponse` carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub severity: Severity,
    /// SQLSTATE, five characters.
    pub code: String,
    pub message: String,
    pub detail: Option<String>,
    pub hint: Option<String>,
    /// Position in the statement's text, in characters, from 1.
    pub position: Option<u32>,
    /// Further fields: their protocol letter and value (`n` constraint name, `t` table …).
    pub fields: Vec<(u8, String)>,
}

impl Report {
    /// A report of `severity` with nothing but code and message.
    #[must_use]
    pub fn new(severity: Severity, code: &str, message: impl Into<String>) -> Report {
        Report {
            severity,
            code: code.to_owned(),
            message: message.into(),
            detail: None,
            hint: None,
            position: None,
            fields: Vec::new(),
        }
    }

    /// An error of one statement.
    #[must_use]
    pub fn error(code: &str, message: impl Into<String>) -> Report {
        Report::new(Severity::Error, code, message)
    }

    /// An error that ends the connection.
    #[must_use]
    pub fn fatal(code: &str, message: impl Into<String>) -> Report {
        Report::new(Severity::Fatal, code, message)
    }

    /// A protocol violation; there is no way to go on after one.
    #[must_use]
    pub fn protocol(message: impl Into<String>) -> Report {
        Report::fatal("08P01", message)
    }

    /// The same with a hint.
    #[must_use]
    pub fn with_hint(mut self, hint: impl Into<String>) -> Report {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity.word(), self.code, self.message)
    }
}
