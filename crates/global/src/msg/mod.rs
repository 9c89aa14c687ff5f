//! Messages between instances: four classes, one frame format.
//!
//! A frame is an envelope and the messages of one class that go to one peer together. The envelope
//! and each message are length-prefixed: what a newer version appends is skipped. Decoding never
//! panics, whatever the bytes; encoding never fails.

mod display;
pub mod epoch;
pub mod gcs;
pub mod ges;
pub mod txn;

use std::fmt;

use block::{InstanceNo, Scn};

pub use self::epoch::{EpochMessage, Holding, Recovered};
pub use self::gcs::{
    BlockInfo, GcsMessage, Grant, Have, HolderMsg, MasterMsg, Promoted, Source, Timings, Want,
};
pub use self::ges::{
    EnqueueHolding, GesHolderMsg, GesMasterMsg, GesMessage, GesMode, Probe, Resource, ValueBlock,
    Wait, Waiter, decode_waiters, encode_waiters,
};
pub use self::txn::{TxnMessage, TxnState};
use crate::wire::{DecodeError, Reader, Wire, wire_newtype, wire_struct};

/// Version of the frame format. A change of it cannot be read by older programs; additions at the
/// end of messages need none.
pub const FRAME_VERSION: u8 = 2;
/// The most messages in a frame.
pub const FRAME_MESSAGES_MAX: usize = 4096;
/// Length and class: a message has at least these.
const MESSAGE_BYTES_MIN: usize = 5;

/// Number of a membership; grows by at least one with every change.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Epoch(pub u64);

impl Epoch {
    #[must_use]
    pub const fn next(self) -> Epoch {
        Epoch(self.0 + 1)
    }
}

impl fmt::Display for Epoch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Names a request of one instance; a repeated request keeps it, so that the answer can too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ReqId(pub u64);

impl fmt::Display for ReqId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "r{}", self.0)
    }
}

/// Sequence number of a conversion, given by the master, ascending for a resource within an epoch.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Seq(pub u64);

impl fmt::Display for Seq {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{}", self.0)
    }
}

wire_newtype!(Epoch, ReqId, Seq);

/// What every frame says about its sender.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Envelope {
    /// The epoch in which the messages were sent; a receiver in a later one drops them.
    pub epoch: Epoch,
    /// The sender's clock; the receiver raises its own to it before anything else (H8).
    pub scn: Scn,
    pub from: InstanceNo,
    /// Incarnation of the sender's slot (C14).
    pub incarnation: u32,
    /// The sender's monotonic clock; compared with another's only on one machine, which has one.
    /// 0: it leaves with a later one.
    pub sent_us: u64,
}
wire_struct!(Envelope { epoch, scn, from, incarnation, sent_us });

/// Message classes; each has channels and queues of its own, so that none can starve another.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Class {
    Block,
    Enqueue,
    Transaction,
    Epoch,
}

impl Class {
    pub const ALL: [Class; 4] = [Class::Block, Class::Enqueue, Class::Transaction, Class::Epoch];

    fn tag(self) -> u8 {
        match self {
            Class::Block => 0,
            Class::Enqueue => 1,
            Class::Transaction => 2,
            Class::Epoch => 3,
        }
    }
}

/// Any message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Message {
    Gcs(GcsMessage),
    Ges(GesMessage),
    Txn(TxnMessage),
    Epoch(EpochMessage),
}

impl Message {
    #[must_use]
    pub fn class(&self) -> Class {
        match self {
            Message::Gcs(_) => Class::Block,
            Message::Ges(_) => Class::Enqueue,
            Message::Txn(_) => Class::Transaction,
            Message::Epoch(_) => Class::Epoch,
        }
    }

    /// Appends the message, length first.
    pub fn encode(&self, out: &mut Vec<u8>) {
        with_length(out, |out| {
            out.push(self.class().tag());
            match self {
                Message::Gcs(m) => m.put(out),
                Message::Ges(m) => m.put(out),
                Message::Txn(m) => m.put(out),
                Message::Epoch(m) => m.put(out),
            }
        });
    }

    /// Reads one message as [`Message::encode`] wrote it; bytes after it are ignored.
    ///
    /// # Errors
    /// If the bytes are no message of this or an older version.
    pub fn decode(bytes: &[u8]) -> Result<Message, DecodeError> {
        Message::read(&mut Reader::new(bytes))
    }

    fn read(r: &mut Reader<'_>) -> Result<Message, DecodeError> {
        let len = u32::get(r)? as usize;
        let mut body = Reader::new(r.take(len)?);
        Ok(match u8::get(&mut body)? {
            0 => Message::Gcs(Wire::get(&mut body)?),
            1 => Message::Ges(Wire::get(&mut body)?),
            2 => Message::Txn(Wire::get(&mut body)?),
            3 => Message::Epoch(Wire::get(&mut body)?),
            tag => return Err(DecodeError::Tag { what: "message class", tag }),
        })
    }
}

/// Envelope and messages of one transmission.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    pub envelope: Envelope,
    pub messages: Vec<Message>,
}

impl Frame {
    /// Appends the frame's bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        encode_frame(&self.envelope, &self.messages, out);
    }

    /// # Errors
    /// If the bytes are no frame of this or an older version.
    pub fn decode(bytes: &[u8]) -> Result<Frame, DecodeError> {
        let mut r = Reader::new(bytes);
        let version = u8::get(&mut r)?;
        if version != FRAME_VERSION {
            return Err(DecodeError::Version(version));
        }
        let len = u32::get(&mut r)? as usize;
        let envelope = Wire::get(&mut Reader::new(r.take(len)?))?;
        let count = u32::get(&mut r)? as usize;
        if count > FRAME_MESSAGES_MAX {
            return Err(DecodeError::Limit { what: "messages in a frame", value: count as u64 });
        }
        let mut messages = Vec::with_capacity(count.min(r.left() / MESSAGE_BYTES_MIN));
        for _ in 0..count {
            messages.push(Message::read(&mut r)?);
        }
        Ok(Frame { envelope, messages })
    }
}

/// Appends a frame of `messages` without taking them.
///
/// # Panics
/// If there are more than [`FRAME_MESSAGES_MAX`] messages: who batches must cut.
pub fn encode_frame(envelope: &Envelope, messages: &[Message], out: &mut Vec<u8>) {
    assert!(messages.len() <= FRAME_MESSAGES_MAX, "{} messages in a frame", messages.len());
    out.push(FRAME_VERSION);
    with_length(out, |out| envelope.put(out));
    (messages.len() as u32).put(out);
    for m in messages {
        m.encode(out);
    }
}

fn with_length(out: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>)) {
    let at = out.len();
    0u32.put(out);
    body(out);
    let len = u32::try_from(out.len() - at - 4).expect("a message is shorter than 4 GiB");
    out[at..at + 4].copy_from_slice(&len.to_le_bytes());
}

#[cfg(test)]
mod tests;
