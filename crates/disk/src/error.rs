//! What can go wrong with a disk group, by who must act.

use std::io;
use std::path::PathBuf;

pub type Result<T> = std::result::Result<T, Error>;

/// Errors of a disk group.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    #[error("{} already holds a disk group", .0.display())]
    Exists(PathBuf),
    #[error("LUN {lun} of the disk group is missing: {}", path.display())]
    Missing { lun: u16, path: PathBuf },
    #[error(
        "LUN {lun} of the disk group is truncated: {} has {found_bytes} bytes, {expected_bytes} expected",
        path.display()
    )]
    Truncated { lun: u16, path: PathBuf, expected_bytes: u64, found_bytes: u64 },
    #[error("{} is not LUN {lun} of this disk group: {why}", path.display())]
    Foreign { lun: u16, path: PathBuf, why: &'static str },
    #[error("the disk group's metadata is unreadable on every LUN: {0}")]
    Metadata(&'static str),
    #[error("the disk group's metadata area is full: files have too many allocation units")]
    MetadataFull,
    #[error("the disk group is full: no room for {wanted_aus} more MiB ({free_aus} MiB free)")]
    Full { wanted_aus: u32, free_aus: u32 },
    #[error("file {0} does not exist in the disk group")]
    NoSuchFile(u16),
    #[error("file {0} exists already in the disk group")]
    FileExists(u16),
    #[error("block {file}.{block} is beyond the end of file {file} ({blocks} blocks)")]
    BeyondEnd { file: u16, block: u64, blocks: u32 },
    #[error("file {file} cannot grow beyond 2^32 - 1 blocks")]
    FileTooLarge { file: u16 },
    #[error("{0}")]
    BadSize(&'static str),
    #[error("{what}: {source}; set filesystemio_options to use it without direct I/O")]
    DirectIoRefused { what: String, source: io::Error },
    #[error("another instance has held the disk group's lock {} for {waited_s} s", path.display())]
    Busy { path: PathBuf, waited_s: u64 },
    #[error("{what}: {source}")]
    Io { what: String, source: io::Error },
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: io::Error) -> Error {
        let what = what.into();
        if source.kind() == io::ErrorKind::Unsupported {
            return Error::DirectIoRefused { what, source };
        }
        if source.kind() == io::ErrorKind::UnexpectedEof {
            let why = "the file ends before that: it has been truncated";
            return Error::Io { what, source: io::Error::new(source.kind(), why) };
        }
        Error::Io { what, source }
    }
}
