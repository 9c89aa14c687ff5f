#![doc = include_str!("README.md")]

mod control;
mod files;
mod flights;
mod log;
mod scan;
#[cfg(test)]
mod tests;
mod waiters;

pub use control::{
    CONTROL_BLOCKS, CONTROL_FILE, ThreadState, ThreadStatus, read_thread, write_thread,
};
pub use files::{LOG_FILES_MAX, LOG_SECTOR_BYTES, LogFileHeader, Ring, log_file_no};
pub(crate) use log::count_record;
pub use log::{Log, LogConfig, LogFileBegun, LogFileRow, LogFileStatus};
pub use scan::{LogEnd, Scan};
