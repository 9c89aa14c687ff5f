//! The control file: the state of each redo thread, and the database's own facts.
//!
//! Thread K's state is in blocks 2K and 2K+1 of file 1, written alternately, each with a sequence
//! number and a checksum, so that a torn write leaves the older copy.

use block::bytes::{Reader, Write};
use block::{BLOCK_BYTES, InstanceNo, Rba, Scn};
use disk::Group;
use env::IoBuf;

use crate::error::{Error, Result};

pub const CONTROL_FILE: u16 = 1;
/// Blocks of the control file.
pub const CONTROL_BLOCKS: u32 = 2 * (block::INSTANCES_MAX as u32 + 1);
const MAGIC: u32 = 0x534b_4354;

/// Whether a thread's redo may be needed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[repr(u8)]
pub enum ThreadStatus {
    /// Never opened, or everything in it is on disk.
    #[default]
    Closed = 0,
    /// In use; recovered if its instance is no member.
    Open = 1,
}

/// What the control file says of a thread.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ThreadState {
    pub status: ThreadStatus,
    pub incarnation: u32,
    /// Recovery starts here: a record boundary.
    pub checkpoint: Rba,
    /// Sequence number of the log file that was current when this was written.
    pub log_seq: u32,
    /// No SCN in this thread before the checkpoint is above this.
    pub scn: Scn,
}

impl ThreadState {
    fn encode(&self, seq: u64) -> IoBuf {
        let mut out = Vec::with_capacity(64);
        out.u32(MAGIC);
        out.u64(seq);
        out.u8(self.status as u8);
        out.u32(self.incarnation);
        out.u64(self.checkpoint.0);
        out.u32(self.log_seq);
        out.u64(self.scn.0);
        let crc = crc(&out);
        out.u32(crc);
        let mut buf = IoBuf::zeroed(BLOCK_BYTES);
        buf[..out.len()].copy_from_slice(&out);
        buf
    }

    fn decode(b: &[u8]) -> Option<(u64, ThreadState)> {
        let mut r = Reader::new(b);
        if r.u32().ok()? != MAGIC {
            return None;
        }
        let seq = r.u64().ok()?;
        let state = ThreadState {
            status: if r.u8().ok()? == 1 { ThreadStatus::Open } else { ThreadStatus::Closed },
            incarnation: r.u32().ok()?,
            checkpoint: Rba(r.u64().ok()?),
            log_seq: r.u32().ok()?,
            scn: Scn(r.u64().ok()?),
        };
        let end = r.at();
        (r.u32().ok()? == crc(&b[..end])).then_some((seq, state))
    }
}

fn crc(b: &[u8]) -> u32 {
    block::redo::crc(b)
}

/// The state of thread `k`; a thread never written is closed at zero.
///
/// # Errors
/// The control file cannot be read.
pub async fn read_thread(group: &Group, k: InstanceNo) -> Result<(u64, ThreadState)> {
    let first = 2 * u32::from(k.0);
    let both = group.read_blocks(CONTROL_FILE, first, 2).await?;
    let copies = [&both[..BLOCK_BYTES], &both[BLOCK_BYTES..]];
    let best = copies.into_iter().filter_map(ThreadState::decode).max_by_key(|(seq, _)| *seq);
    if best.is_none() && both.iter().any(|&x| x != 0) {
        return Err(Error::Disk(format!("both copies of redo thread {k}'s state are damaged")));
    }
    Ok(best.unwrap_or_default())
}

/// Writes the state of thread `k` with sequence number `seq` (one above the last), durably.
///
/// # Errors
/// The control file cannot be written.
pub async fn write_thread(
    group: &Group,
    k: InstanceNo,
    seq: u64,
    state: &ThreadState,
) -> Result<()> {
    let which = 2 * u32::from(k.0) + u32::from(seq % 2 == 1);
    group.write_blocks(CONTROL_FILE, which, state.encode(seq)).await?;
    Ok(())
}
