//! Events and effects of a holder, and what the cache tells it about the buffer.

use block::{InstanceNo, Mode, Scn, Version, Xid};

use crate::msg::{BlockInfo, HolderMsg, MasterMsg, ReqId, Seq, Timings, Want};

/// Where the image of the current block is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Image {
    Absent,
    /// Granted, on its way from disk.
    Reading,
    /// On its way from disk, but the right has gone: dropped when it comes.
    Dropping,
    Present,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Pending {
    pub req_id: ReqId,
    pub want: Want,
    /// Whom it was sent to, if not to the master.
    pub direct: Option<InstanceNo>,
    pub cancelling: bool,
}

/// What a peer waits for here. One at a time: the master runs one conversion at a time.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Duty {
    Forward {
        to: InstanceNo,
        mode: Mode,
        req_id: ReqId,
        seq: Seq,
        past_images: bool,
        timings: Timings,
        since_us: u64,
        flush_since_us: Option<u64>,
        /// Flushes begun for it.
        flushes: u8,
    },
    Invalidate {
        seq: Seq,
        since_us: u64,
    },
}

impl Duty {
    #[must_use]
    pub fn seq(&self) -> Seq {
        match self {
            Duty::Forward { seq, .. } | Duty::Invalidate { seq, .. } => *seq,
        }
    }
}

/// The buffer as the cache sees it at the moment of a step, after what the event itself reports
/// (a pin dropped, a write done) has been booked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Facts {
    /// Pins of any kind, pins about to be handed to waiters included: a block that has just come
    /// is used once before it goes on.
    pub pins: u32,
    /// Those of them that change the block.
    pub change_pins: u32,
    /// A write of this buffer to its data file is in flight.
    pub writing: bool,
    pub dirty: bool,
    pub version: Version,
    /// The redo up to the block's last change is durable.
    pub redo_durable: bool,
    /// The past image kept of this block, if one is.
    pub past_image: Option<Version>,
    /// This instance has sent its Markers: nothing of the epoch may be sent any more.
    pub frozen: bool,
    /// For the timings carried in messages; decides nothing.
    pub now_us: u64,
}

/// What happens to a block here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HolderEvent {
    /// A local user needs it and [`super::Holder::admits`] said no. `req_id` is fresh; if a
    /// request is out already, nothing is sent: all wait for its end, then ask again.
    Want {
        want: Want,
        req_id: ReqId,
    },
    Message {
        from: InstanceNo,
        msg: HolderMsg,
    },
    /// An image in S or X arrived. Facts are of before its installation.
    Block {
        from: InstanceNo,
        info: BlockInfo,
    },
    /// A consistent copy arrived.
    CrBlock {
        from: InstanceNo,
        req_id: ReqId,
    },
    /// Something a duty may wait for has changed: pins, for one.
    Progress,
    /// The flush asked for with [`HolderEffect::FlushRedo`] is over.
    FlushDone,
    /// The data file holds `version` durably on all mirrors (not the double-write area).
    WriteDone {
        version: Version,
    },
    ReadDone,
    ReadFailed,
    /// The cache would like the buffer back.
    EvictWanted,
    /// The checkpoint has met the past image.
    CheckpointPast,
    /// Answer to [`HolderEffect::CompareWithDisk`].
    DiskVersion {
        version: Version,
    },
    /// Nobody here wants it any more.
    Cancel,
    /// The membership change is agreed: the old epoch's requests and duties are void.
    EnterEpoch,
    /// A timer: say again what is unanswered.
    Repeat,
}

/// A block on its way: the cache adds the bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ship {
    pub to: InstanceNo,
    pub info: BlockInfo,
    /// It has waited for the log writer, however short.
    pub flushed: bool,
}

/// What the cache does, in order, under the latch it stepped under (I/O is started, not awaited).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HolderEffect {
    /// To the block's master by the epoch's map.
    ToMaster(MasterMsg),
    /// Ask the instance that was last known to hold the block in X, instead of the master. Where
    /// one of the two instances is the master, its directory knows better: ask that.
    AskCr { to: InstanceNo, req_id: ReqId, scn: Scn, xid: Xid },
    /// Send the image as it is now; the mode has been lowered already.
    Ship(Ship),
    /// Clone the block now and build a consistent copy of the clone, then send it as `CrBlock`.
    ServeCr { to: InstanceNo, req_id: ReqId, scn: Scn, xid: Xid, timings: Timings },
    /// Start reading the block; then `ReadDone` or `ReadFailed`.
    ReadDisk,
    /// Start a flush of the redo up to the block's last change; then `FlushDone`.
    FlushRedo,
    /// Put the arrived bytes into the buffer.
    InstallImage,
    /// Hand the arrived consistent copy to the waiters.
    UseCr,
    /// The buffer is dirty from now on and in the checkpoint queue, at its oldest first-dirty Rba
    /// since disk last held the block, a superseded past image's included (C15).
    BecomeDirty,
    /// The current content becomes the past image, first-dirty Rba kept; nothing current is left.
    KeepPastImage,
    /// The past image becomes the current content again, dirty.
    AdoptPastImage,
    /// The past image goes. `superseded`: a newer content is here and inherits its first-dirty
    /// Rba; else disk has it, and only changes after the version on disk still count.
    DropPastImage { superseded: bool },
    /// The current content goes.
    DropImage,
    /// Write the block ahead of the checkpoint's own list.
    StartWrite,
    /// Read the block's version from disk; then `DiskVersion`.
    CompareWithDisk,
    /// Waiters look again.
    Wake,
    /// A peer or we have broken the protocol: stop this instance before harm is done.
    Broken(&'static str),
}

/// A duration that fits the wire.
pub fn cap_us(us: u64) -> u32 {
    u32::try_from(us).unwrap_or(u32::MAX)
}

impl Duty {
    /// Where the time went that a peer has waited here.
    pub(super) fn timings(&self, now_us: u64) -> Timings {
        let Duty::Forward { timings, since_us, flush_since_us, .. } = *self else {
            return Timings::default();
        };
        let flush_from = flush_since_us.unwrap_or(now_us);
        Timings {
            pin_us: cap_us(flush_from.saturating_sub(since_us)),
            flush_us: cap_us(now_us.saturating_sub(flush_from)),
            serve_us: cap_us(now_us.saturating_sub(since_us)),
            ..timings
        }
    }
}
