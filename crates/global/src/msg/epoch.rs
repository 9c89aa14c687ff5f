//! Epoch class: the change of membership. A Marker travels on every channel of every class.

use block::{Dba, InstanceNo, Mode, Scn, Version};

use super::{Class, EnqueueHolding, Epoch};
use crate::wire::{DecodeError, Reader, Wire, wire_enum, wire_struct};

/// What an instance has of a block when it enters an epoch: only what it has an image of.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Holding {
    pub addr: Dba,
    /// N if only a past image is here.
    pub mode: Mode,
    pub version: Version,
    /// This instance has the duty to write it.
    pub writer: bool,
    /// An S copy that was newer than disk when it arrived (C1).
    pub unwritten: bool,
    pub past: Option<Version>,
}
wire_struct!(Holding { addr, mode, version, writer, unwritten, past });

/// A block whose recovery is finished: `version` is on disk, past images up to it may go.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Recovered {
    pub addr: Dba,
    pub version: Version,
}
wire_struct!(Recovered { addr, version });

impl Wire for Class {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(self.tag());
    }
    fn get(r: &mut Reader<'_>) -> Result<Self, DecodeError> {
        let tag = u8::get(r)?;
        let found = Class::ALL.into_iter().find(|c| c.tag() == tag);
        found.ok_or(DecodeError::Tag { what: "message class", tag })
    }
}

/// A message of the epoch class. Batches are numbered and the last one says so; a report is whole
/// when its last batch is there (channels are FIFO).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum EpochMessage {
    /// The last message of the epoch before `epoch` on its channel. Acknowledges every commit SCN
    /// drawn before it, up to `scn` (H8). `class` and `lane` name the channel.
    Marker {
        epoch: Epoch,
        scn: Scn,
        class: Class,
        lane: u16,
    },
    /// What the sender holds of the blocks the receiver masters now.
    Holdings {
        epoch: Epoch,
        last: bool,
        items: Vec<Holding>,
    },
    EnqueueHoldings {
        epoch: Epoch,
        last: bool,
        items: Vec<EnqueueHolding>,
    },
    /// The sender's part of the directory is rebuilt.
    RebuildDone {
        epoch: Epoch,
    },
    /// Recoverer to masters: found in dead threads, block and highest version.
    DeadChanges {
        epoch: Epoch,
        last: bool,
        items: Vec<Recovered>,
    },
    /// Master to recoverer: which of its blocks are locked for recovery, with the newest past image
    /// of each.
    RecoverySet {
        epoch: Epoch,
        last: bool,
        items: Vec<(Dba, Option<(InstanceNo, Version)>)>,
    },
    /// Recoverer to all: every lock is taken; requests outside the set go on.
    Thaw {
        epoch: Epoch,
    },
    /// Recoverer to all: the table locks of dead transactions are taken (H18); enqueues go on.
    ThawEnqueues {
        epoch: Epoch,
    },
    /// Recoverer to masters: these are on disk, unlock them.
    RecoveredBlocks {
        epoch: Epoch,
        items: Vec<Recovered>,
    },
    /// Master to recoverer: the holders of what dead threads have changed have written it.
    DutiesDone {
        epoch: Epoch,
    },
    /// Recoverer to all: no thread is unrecovered any more.
    RecoveryDone {
        epoch: Epoch,
        scn: Scn,
    },
    RecoveryDoneAck {
        epoch: Epoch,
    },
}
wire_enum!(EpochMessage {
    0 => Marker { epoch, scn, class, lane },
    1 => Holdings { epoch, last, items },
    2 => EnqueueHoldings { epoch, last, items },
    3 => RebuildDone { epoch },
    4 => DeadChanges { epoch, last, items },
    5 => RecoverySet { epoch, last, items },
    6 => Thaw { epoch },
    7 => RecoveredBlocks { epoch, items },
    8 => RecoveryDone { epoch, scn },
    9 => RecoveryDoneAck { epoch },
    10 => ThawEnqueues { epoch },
    11 => DutiesDone { epoch },
});
