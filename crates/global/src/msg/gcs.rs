//! Block class: what asker, master and holder of a block say to each other.

use std::fmt;

use block::{Dba, InstanceNo, MASTER_GROUP_BLOCKS, Mode, Scn, Version, Xid};

use super::{ReqId, Seq};
use crate::wire::{wire_enum, wire_struct};

/// The most blocks one request names: one group, so one master.
pub const REQUEST_BLOCKS_MAX: usize = MASTER_GROUP_BLOCKS as usize;

/// What an asker wants. CR is no mode: a copy for snapshots up to `scn`, recorded nowhere. `xid` is
/// the asker's own transaction, or [`Xid::NONE`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Want {
    S,
    X,
    Cr { scn: Scn, xid: Xid },
}
wire_enum!(Want { 0 => S, 1 => X, 2 => Cr { scn, xid } });

impl Want {
    /// The mode that satisfies the wish; a CR wish that is answered as an S request gets S.
    #[must_use]
    pub fn mode(self) -> Mode {
        match self {
            Want::X => Mode::X,
            Want::S | Want::Cr { .. } => Mode::S,
        }
    }
}

impl fmt::Display for Want {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Want::S => f.write_str("S"),
            Want::X => f.write_str("X"),
            Want::Cr { scn, xid } if xid.is_none() => write!(f, "CR@{scn}"),
            Want::Cr { scn, xid } => write!(f, "CR@{scn} for {xid}"),
        }
    }
}

/// What the asker has when it asks. The master trusts its own record, not this (H12); it only
/// passes the version on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Have {
    pub mode: Mode,
    pub version: Version,
}
wire_struct!(Have { mode, version });

/// Where a granted image is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Source {
    /// Nobody holds the block and no past image is listed: read it.
    Disk,
    /// The asker's own S copy, if it still is at this version; else it must answer `NotHeld`.
    YourCopy { version: Version },
}
wire_enum!(Source { 0 => Disk, 1 => YourCopy { version } });

/// Where a request spent its time, by stage, in microseconds; filled along the way and carried
/// back, so that a wait can be split between interconnect, LMS and LGWR.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timings {
    /// Queued at the master, behind others who want the block.
    pub queue_us: u32,
    /// Waiting for the master's block server (LMS) to take the request.
    pub master_lms_us: u32,
    /// Waiting for the holder's block server to take what the master, or the asker, told it.
    pub lms_us: u32,
    /// Building the CR copy.
    pub build_us: u32,
    /// Waiting for pins and disk writes at the holder.
    pub pin_us: u32,
    /// Waiting for the holder's log writer.
    pub flush_us: u32,
    /// From the holder's receipt to its send, all included.
    pub serve_us: u32,
}
wire_struct!(Timings { queue_us, master_lms_us, lms_us, build_us, pin_us, flush_us, serve_us });

/// A right without an image.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Grant {
    pub req_id: ReqId,
    pub mode: Mode,
    pub seq: Seq,
    pub source: Source,
    /// Past images of the block exist: in X it is dirty from this moment.
    pub past_images: bool,
    pub timings: Timings,
}
wire_struct!(Grant { req_id, mode, seq, source, past_images, timings });

/// What travels with an image in S or X.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct BlockInfo {
    pub req_id: ReqId,
    pub mode: Mode,
    pub version: Version,
    pub seq: Seq,
    /// Past images exist, the sender's own included: in X it is dirty at the receiver.
    pub past_images: bool,
    /// The image is newer than disk: an S copy that outlives its writer must not be lost (C1).
    pub unwritten: bool,
    /// The version of the past image the sender kept.
    pub sender_past: Option<Version>,
    pub timings: Timings,
}
wire_struct!(BlockInfo {
    req_id,
    mode,
    version,
    seq,
    past_images,
    unwritten,
    sender_past,
    timings
});

/// How a promotion of a past image (C1) ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Promoted {
    /// It is the current block now, in X, dirty, at the instance that answers.
    Holds { version: Version },
    /// The disk has this version, at least as new; the past image is dropped.
    DiskIsNewer { version: Version },
    /// There is no past image here.
    Nothing,
}
wire_enum!(Promoted {
    0 => Holds { version }, 1 => DiskIsNewer { version }, 2 => Nothing
});

/// To the master of a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum MasterMsg {
    /// `lms_us`: how long it has waited for the master's block server.
    Request {
        req_id: ReqId,
        want: Want,
        have: Have,
        lms_us: u32,
    },
    /// The asker has its right: closes conversion `seq`. `from` is the sender of the image and its
    /// `past` image, if it kept one.
    Taken {
        seq: Seq,
        mode: Mode,
        version: Version,
        past: Option<(InstanceNo, Version)>,
    },
    /// Offer to give the block up (eviction); void until acknowledged (H13).
    Released {
        seq: Seq,
    },
    /// "I hold no image of it": answers a Forward or Grant of conversion `seq` that cannot be
    /// served, or, with the seq of the own grant, tells that reading the block failed.
    NotHeld {
        seq: Seq,
    },
    /// A CR request that met no copy in S or X (H14); the master routes it again.
    CrNotHeld {
        asker: InstanceNo,
        req_id: ReqId,
        scn: Scn,
        xid: Xid,
    },
    Invalidated {
        seq: Seq,
        past: Option<Version>,
    },
    /// The data file holds this version durably.
    Written {
        version: Version,
    },
    /// A checkpoint has met a past image of this version (H17).
    WriteRequest {
        version: Version,
    },
    /// The holder in X has become a holder in S (it served many CR copies).
    Downgraded {
        seq: Seq,
        unwritten: bool,
    },
    Cancel {
        req_id: ReqId,
    },
    Promoted {
        seq: Seq,
        outcome: Promoted,
    },
}
wire_enum!(MasterMsg {
    0 => Request { req_id, want, have, lms_us },
    1 => Taken { seq, mode, version, past },
    2 => Released { seq },
    3 => NotHeld { seq },
    4 => CrNotHeld { asker, req_id, scn, xid },
    5 => Invalidated { seq, past },
    6 => Written { version },
    7 => WriteRequest { version },
    8 => Downgraded { seq, unwritten },
    9 => Cancel { req_id },
    10 => Promoted { seq, outcome },
});

/// To an asker or holder of a block, from its master (and `Retry` from a holder too).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HolderMsg {
    Grant {
        grant: Grant,
    },
    /// Ship the block to `to` in the wanted mode.
    Forward {
        to: InstanceNo,
        mode: Mode,
        req_id: ReqId,
        seq: Seq,
        past_images: bool,
        timings: Timings,
    },
    /// Ship a consistent copy to `to`; no mode changes anywhere.
    ForwardCr {
        to: InstanceNo,
        req_id: ReqId,
        scn: Scn,
        xid: Xid,
        timings: Timings,
    },
    /// From a reader: a consistent copy for me, if you hold the block in X.
    AskCr {
        req_id: ReqId,
        scn: Scn,
        xid: Xid,
        timings: Timings,
    },
    Invalidate {
        seq: Seq,
    },
    TakenAck {
        seq: Seq,
    },
    ReleasedAck {
        seq: Seq,
        accepted: bool,
    },
    /// Disk has `version`: past images up to it may go.
    PastImageDrop {
        version: Version,
    },
    /// Write the block if you are its writer; a past image of `version` waits for it (H17).
    WriteRequest {
        version: Version,
    },
    Withdrawn {
        req_id: ReqId,
    },
    TooLate {
        req_id: ReqId,
    },
    /// Compare your past image with disk; become the holder in X if it is newer (C1).
    Promote {
        seq: Seq,
    },
    /// You are the writer of this S copy from now on (C1, M9).
    BecomeWriter {
        seq: Seq,
    },
    /// Ask again.
    Retry {
        req_id: ReqId,
    },
}
wire_enum!(HolderMsg {
    0 => Grant { grant },
    1 => Forward { to, mode, req_id, seq, past_images, timings },
    2 => ForwardCr { to, req_id, scn, xid, timings },
    3 => Invalidate { seq },
    4 => TakenAck { seq },
    5 => ReleasedAck { seq, accepted },
    6 => PastImageDrop { version },
    7 => WriteRequest { version },
    8 => Withdrawn { req_id },
    9 => TooLate { req_id },
    10 => Promote { seq },
    11 => BecomeWriter { seq },
    12 => Retry { req_id },
    13 => AskCr { req_id, scn, xid, timings },
});

/// A message of the block class.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GcsMessage {
    /// Up to [`REQUEST_BLOCKS_MAX`] blocks of one group; the master treats each by itself.
    Request {
        req_id: ReqId,
        want: Want,
        blocks: Vec<(Dba, Have)>,
    },
    ToMaster {
        addr: Dba,
        msg: MasterMsg,
    },
    ToHolder {
        addr: Dba,
        msg: HolderMsg,
    },
    /// The transfer: holder to asker.
    Block {
        addr: Dba,
        info: BlockInfo,
        image: Vec<u8>,
    },
    /// A consistent copy as of `scn`; `complete` if nothing is left to undo. It may be longer than
    /// a block (H23). A copy that is not complete is private to its statement (H1).
    CrBlock {
        addr: Dba,
        req_id: ReqId,
        scn: Scn,
        complete: bool,
        timings: Timings,
        image: Vec<u8>,
    },
    /// [`MasterMsg::Taken`] and its like for many blocks of a scan.
    ToMasterMany {
        msgs: Vec<(Dba, MasterMsg)>,
    },
    ToHolderMany {
        msgs: Vec<(Dba, HolderMsg)>,
    },
}
wire_enum!(GcsMessage {
    0 => Request { req_id, want, blocks },
    1 => ToMaster { addr, msg },
    2 => ToHolder { addr, msg },
    3 => Block { addr, info, image },
    4 => CrBlock { addr, req_id, scn, complete, timings, image },
    5 => ToMasterMany { msgs },
    6 => ToHolderMany { msgs },
});
