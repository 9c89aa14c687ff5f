//! Errors of the command line, each with the exit code that scripts branch on.

use std::fmt;

/// Exit codes; `skein --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// A statement or a request failed.
    Failed = 1,
    /// The command line or `skein.toml` is wrong.
    Usage = 2,
    /// Not possible in the present state: no database here, one already here, already running.
    State = 3,
    /// The disk group is missing, damaged, full or refuses direct I/O.
    DiskGroup = 4,
    /// An address cannot be used.
    Network = 5,
    /// An experiment's effect was not reproduced.
    NotReproduced = 6,
    /// It could not be tested here.
    NotTested = 7,
    /// An invariant is broken (the instance ends itself with this code).
    Invariant = 70,
    /// Ended by Ctrl-C, in the way of shells: 128 and the signal's number.
    Interrupted = 130,
    /// Ended by SIGTERM.
    Terminated = 143,
}

/// What went wrong, for a person to read, and its exit code.
#[derive(Debug)]
pub struct CliError {
    pub exit: Exit,
    pub message: String,
    /// The operating system refused something, by this number of its own if it gave one.
    pub os: Option<i32>,
}

/// What an error of the operating system has for a number that it gave none.
const OS_UNNUMBERED: i32 = 1;

pub type Result<T> = std::result::Result<T, CliError>;

impl CliError {
    pub fn new(exit: Exit, message: impl Into<String>) -> CliError {
        CliError { exit, message: message.into(), os: None }
    }

    pub fn failed(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Failed, message)
    }

    pub fn usage(message: impl Into<String>) -> CliError {
        CliError::new(Exit::Usage, message)
    }

    pub fn state(message: impl Into<String>) -> CliError {
        CliError::new(Exit::State, message)
    }

    /// The process's exit code.
    pub fn code(&self) -> u8 {
        self.exit as u8
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// Prints a line for the user. A reader that has gone (`skein … | head`) does not stop the work.
macro_rules! say {
    ($($arg:tt)*) => {{
        use std::io::Write as _;
        let _ = writeln!(std::io::stdout(), $($arg)*);
    }};
}
pub(crate) use say;

/// Says what was being done when an OS call failed.
pub trait Doing<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T>;
}

impl<T> Doing<T> for std::io::Result<T> {
    fn doing(self, what: impl fmt::Display) -> Result<T> {
        self.map_err(|e| CliError {
            os: Some(e.raw_os_error().unwrap_or(OS_UNNUMBERED)),
            ..CliError::failed(format!("{what}: {e}"))
        })
    }
}

impl From<disk::Error> for CliError {
    fn from(e: disk::Error) -> CliError {
        let exit = match e {
            disk::Error::BadSize(_) => Exit::Usage,
            disk::Error::Exists(_) => Exit::State,
            _ => Exit::DiskGroup,
        };
        CliError::new(exit, e.to_string())
    }
}
