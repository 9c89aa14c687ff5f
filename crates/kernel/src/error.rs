//! What can go wrong in the kernel, by who must act. `sql` gives each its SQLSTATE.

use block::{Dba, Rba, Scn};
use observe::Interrupt;

pub type Result<T> = std::result::Result<T, Error>;

/// Kernel errors. None of them leaves a block, a transaction or the session in doubt.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    // ---- the user's statement
    #[error("duplicate key in unique index {index}")]
    /// `row` has the values that were refused; it is empty where only their key is known.
    UniqueViolation { index: String, key: Vec<u8>, row: Vec<u8> },
    #[error("column \"{column}\" of relation \"{table}\" contains null values")]
    NullValue { table: String, column: String },
    #[error("the row is locked by another transaction")]
    RowLocked,
    #[error("table {table} is locked by another transaction")]
    TableLocked { table: String },
    #[error("the lock was not granted in time")]
    LockTimeout,
    #[error("deadlock detected")]
    Deadlock,
    #[error("could not serialize access: {0}")]
    Serialization(String),
    #[error("snapshot too old: {0}")]
    SnapshotTooOld(String),
    #[error("row of {bytes} bytes is longer than the limit of {limit}")]
    RowTooLong { bytes: usize, limit: usize },
    #[error("index key of {bytes} bytes is longer than the limit of {limit}")]
    KeyTooLong { bytes: usize, limit: usize },
    #[error("{0} does not exist")]
    UndefinedObject(String),
    #[error("{0} already exists")]
    DuplicateObject(String),
    #[error("{0}")]
    DependentObjects(String),
    #[error("sequence {0} has reached its limit")]
    SequenceExhausted(String),
    #[error("{0}")]
    Invalid(String),
    /// What an expression of the statement layer has come to, with its SQLSTATE.
    #[error("{text}")]
    Raised { sqlstate: &'static str, text: String },
    #[error("the statement was interrupted: {0:?}")]
    Interrupt(Interrupt),
    // ---- the database administrator
    #[error("no room left: {what}")]
    DiskFull { what: String },
    #[error("block {dba} is damaged: {what}")]
    Corrupt { dba: Dba, what: String },
    #[error("the log of thread {thread} is damaged at {rba}: {what}")]
    LogDamaged { thread: u8, rba: Rba, what: String },
    #[error("{0}")]
    Disk(String),
    #[error("instance {instance} is already running (process {pid})")]
    AlreadyRunning { instance: u8, pid: u32 },
    // ---- try again, here or elsewhere
    #[error("the object was dropped or changed meanwhile")]
    ObjectGone,
    #[error("instance is closing")]
    Closing,
    // ---- our bug
    #[error("internal error: {0}")]
    Invariant(String),
}

impl From<Interrupt> for Error {
    fn from(i: Interrupt) -> Error {
        Error::Interrupt(i)
    }
}

impl From<disk::Error> for Error {
    fn from(e: disk::Error) -> Error {
        match e {
            disk::Error::Full { .. } => Error::DiskFull { what: e.to_string() },
            e => Error::Disk(e.to_string()),
        }
    }
}

impl From<cluster::Error> for Error {
    fn from(e: cluster::Error) -> Error {
        match e {
            cluster::Error::AlreadyRunning { instance, pid } => {
                Error::AlreadyRunning { instance: instance.0, pid }
            }
            e => Error::Disk(e.to_string()),
        }
    }
}

impl Error {
    #[must_use]
    pub fn too_old(scn: Scn, why: &str) -> Error {
        Error::SnapshotTooOld(format!("{why} (snapshot {scn})"))
    }
}
