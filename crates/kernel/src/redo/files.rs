//! The ring of log files of one thread: headers, and where a position of the stream lies.

use block::bytes::{Reader, Write};
use block::{InstanceNo, Rba};
use disk::Group;
use env::IoBuf;
use env::buf::IO_ALIGN_BYTES;

use crate::error::Result;

/// Bytes a log file's header takes, and the unit in which the log is written.
pub const LOG_SECTOR_BYTES: u64 = IO_ALIGN_BYTES as u64;
/// Log files a thread can have.
pub const LOG_FILES_MAX: u16 = 16;
const MAGIC: u32 = 0x534b_4c47;

/// Group file number of log file `idx` (0-based) of thread `k`.
#[must_use]
pub fn log_file_no(k: InstanceNo, idx: u16) -> u16 {
    64 + u16::from(k.0) * LOG_FILES_MAX + idx
}

/// Header of a log file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LogFileHeader {
    pub thread: InstanceNo,
    pub incarnation: u32,
    /// Counts the files the thread has used.
    pub seq: u32,
    /// Position of the first byte behind the header.
    pub first: Rba,
}

impl LogFileHeader {
    #[must_use]
    pub fn encode(&self) -> IoBuf {
        let mut out = Vec::with_capacity(64);
        out.u32(MAGIC);
        out.u8(self.thread.0);
        out.u32(self.incarnation);
        out.u32(self.seq);
        out.u64(self.first.0);
        let crc = block::redo::crc(&out);
        out.u32(crc);
        IoBuf::copy_from(&out)
    }

    #[must_use]
    pub fn decode(b: &[u8]) -> Option<LogFileHeader> {
        let mut r = Reader::new(b);
        if r.u32().ok()? != MAGIC {
            return None;
        }
        let header = LogFileHeader {
            thread: InstanceNo(r.u8().ok()?),
            incarnation: r.u32().ok()?,
            seq: r.u32().ok()?,
            first: Rba(r.u64().ok()?),
        };
        let end = r.at();
        (r.u32().ok()? == block::redo::crc(&b[..end])).then_some(header)
    }
}

/// The shape of a thread's ring.
#[derive(Clone, Copy, Debug)]
pub struct Ring {
    pub thread: InstanceNo,
    pub files: u16,
    /// Redo one file holds (its size less the header).
    pub capacity_bytes: u64,
}

impl Ring {
    /// Finds the ring of `thread` in the group.
    ///
    /// # Errors
    /// The thread has no log files.
    pub fn open(group: &Group, thread: InstanceNo) -> Result<Ring> {
        let mut files = 0;
        while files < LOG_FILES_MAX && group.file_blocks(log_file_no(thread, files)).is_some() {
            files += 1;
        }
        if files < 2 {
            return Err(crate::error::Error::Disk(format!(
                "redo thread {thread} has {files} log files; at least 2 are needed"
            )));
        }
        let blocks = group.file_blocks(log_file_no(thread, 0)).unwrap_or_default();
        let capacity_bytes = u64::from(blocks) * block::BLOCK_BYTES as u64 - LOG_SECTOR_BYTES;
        Ok(Ring { thread, files, capacity_bytes })
    }

    /// Index of the file with sequence number `seq`.
    #[must_use]
    pub fn idx_of(&self, seq: u32) -> u16 {
        u16::try_from(seq % u32::from(self.files)).expect("below the number of files")
    }

    #[must_use]
    pub fn file_of(&self, seq: u32) -> u16 {
        log_file_no(self.thread, self.idx_of(seq))
    }

    /// Headers of all files, those that are whole.
    ///
    /// # Errors
    /// A file cannot be read.
    pub async fn headers(&self, group: &Group) -> Result<Vec<LogFileHeader>> {
        let mut out = Vec::new();
        for idx in 0..self.files {
            let b = group.read_at(log_file_no(self.thread, idx), 0, IO_ALIGN_BYTES).await?;
            out.extend(LogFileHeader::decode(&b).filter(|h| h.thread == self.thread));
        }
        Ok(out)
    }
}
