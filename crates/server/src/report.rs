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

/// An error or a notice: what `ErrorResponse` and `NoticeResponse` carry. Small, since it is the
/// error of nearly every call here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    pub severity: Severity,
    code: [u8; 5],
    pub message: String,
    extra: Option<Box<Extra>>,
}

/// What only some reports have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extra {
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
        let mut sqlstate = *b"XX000";
        if code.len() == sqlstate.len() && code.is_ascii() {
            sqlstate.copy_from_slice(code.as_bytes());
        }
        Report { severity, code: sqlstate, message: message.into(), extra: None }
    }

    /// The SQLSTATE.
    #[must_use]
    pub fn code(&self) -> &str {
        std::str::from_utf8(&self.code).unwrap_or("XX000")
    }

    /// What it says beside its message, if anything.
    #[must_use]
    pub fn extra(&self) -> Option<&Extra> {
        self.extra.as_deref()
    }

    /// The same, saying `extra` too.
    #[must_use]
    pub fn with_extra(mut self, extra: Extra) -> Report {
        self.extra = Some(Box::new(extra));
        self
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
        self.extra.get_or_insert_default().hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.severity.word(), self.code(), self.message)
    }
}
