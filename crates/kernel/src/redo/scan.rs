//! Reading a thread's redo from a position to its end.

use block::Rba;
use block::redo::{self, EndReason, RawRecord, Record, RecordKind};
use disk::Group;

use super::control::ThreadState;
use super::files::{LOG_SECTOR_BYTES, LogFileHeader, Ring};
use crate::error::{Error, Result};

/// Bytes read at once.
const READ_BYTES: u64 = 4 << 20;

/// Where a log ends, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogEnd {
    pub rba: Rba,
    pub why: EndReason,
}

/// A scan of one thread from its checkpoint.
pub struct Scan<'a> {
    group: &'a Group,
    ring: Ring,
    files: Vec<LogFileHeader>,
    incarnation: u32,
    /// Bytes read and not yet decoded; `bytes[0]` stands at `at`.
    bytes: Vec<u8>,
    consumed: usize,
    at: Rba,
    /// Position up to which the files have been read.
    read_to: Rba,
    prev_crc: Option<u32>,
    end: Option<LogEnd>,
    pub bytes_read: u64,
}

impl<'a> Scan<'a> {
    /// Starts at the checkpoint of `state`.
    ///
    /// # Errors
    /// The log files cannot be read.
    pub async fn open(group: &'a Group, ring: Ring, state: &ThreadState) -> Result<Scan<'a>> {
        let mut files = ring.headers(group).await?;
        files.retain(|h| h.incarnation == state.incarnation);
        files.sort_by_key(|h| h.seq);
        Ok(Scan {
            group,
            ring,
            files,
            incarnation: state.incarnation,
            bytes: Vec::new(),
            consumed: 0,
            at: state.checkpoint,
            read_to: state.checkpoint,
            prev_crc: None,
            end: None,
            bytes_read: 0,
        })
    }

    /// The next record that is not padding, or `None` at the end of the log.
    ///
    /// # Errors
    /// A log file cannot be read. The end of the log is no error.
    pub async fn next(&mut self) -> Result<Option<Record>> {
        let at = self.at;
        let Some(record) = self.next_with(|r| r.decode()).await? else { return Ok(None) };
        record.map(Some).map_err(|e| Error::LogDamaged {
            thread: self.ring.thread.0,
            rba: at,
            what: format!("a record cannot be read: {e}"),
        })
    }

    /// As [`Scan::next`], for one who needs only part of each record: `f` sees it undecoded.
    ///
    /// # Errors
    /// A log file cannot be read. The end of the log is no error.
    pub async fn next_with<R>(
        &mut self,
        mut f: impl FnMut(&RawRecord<'_>) -> R,
    ) -> Result<Option<R>> {
        loop {
            if self.end.is_some() {
                return Ok(None);
            }
            let bytes = &self.bytes[self.consumed..];
            match redo::decode_raw(bytes, self.at, self.incarnation, self.prev_crc) {
                Ok(record) => {
                    let out = (record.kind != RecordKind::Pad).then(|| f(&record));
                    let (length_bytes, crc) = (record.length_bytes, record.crc);
                    self.consumed += length_bytes as usize;
                    self.at = Rba(self.at.0 + u64::from(length_bytes));
                    self.prev_crc = Some(crc);
                    if out.is_some() {
                        return Ok(out);
                    }
                }
                Err(why) => {
                    // A record may be cut by the end of what was read: read on before believing it.
                    if bytes.len() < block::REDO_RECORD_BYTES_MAX && self.fill().await? {
                        continue;
                    }
                    self.end = Some(LogEnd { rba: self.at, why });
                }
            }
        }
    }

    /// Where and why the log ended; `None` before `next` has returned `None`.
    #[must_use]
    pub fn end(&self) -> Option<LogEnd> {
        self.end
    }

    /// Sequence number of the file in which the scan stands.
    #[must_use]
    pub fn log_seq(&self) -> u32 {
        self.files.iter().filter(|h| h.first <= self.at).map(|h| h.seq).max().unwrap_or(0)
    }

    /// Reads the next piece; false when there is none.
    async fn fill(&mut self) -> Result<bool> {
        let pos = self.read_to.0 / LOG_SECTOR_BYTES * LOG_SECTOR_BYTES;
        let capacity = self.ring.capacity_bytes;
        let Some(file) = self.files.iter().find(|h| h.first.0 <= pos && pos < h.first.0 + capacity)
        else {
            return Ok(false);
        };
        let n = READ_BYTES.min(file.first.0 + capacity - pos);
        let offset = LOG_SECTOR_BYTES + pos - file.first.0;
        let len = usize::try_from(n).expect("4 MiB");
        let piece = self.group.read_at(self.ring.file_of(file.seq), offset, len).await?;
        self.bytes.drain(..self.consumed);
        self.consumed = 0;
        let skip = usize::try_from(self.read_to.0 - pos).expect("within a sector");
        self.bytes.extend_from_slice(&piece[skip..]);
        self.read_to = Rba(pos + n);
        self.bytes_read += n;
        Ok(true)
    }
}
