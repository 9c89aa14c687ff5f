//! The decoders.

use block::bytes::Reader;
use block::layout::{self, Kind};
use block::redo;
use block::undo::{self, UndoRecord};
use block::{Rba, itl, rows};
use cluster::voting::{self, Control, Slot};
use global::msg::Frame;
use server::decoders::{DecodeError, Exchange, Frontend, decode, parse_startup};

use crate::{Target, seeds};

pub const ALL: &[Target] = &[
    Target { name: "block", seeds: seeds::blocks, mend: mend_block, decode: block },
    Target {
        name: "redo",
        seeds: seeds::redo_records,
        mend: |b| mend_redo(b),
        decode: redo_record,
    },
    Target { name: "undo", seeds: seeds::undo_records, mend: |_| (), decode: undo_record },
    Target { name: "peer", seeds: seeds::frames, mend: |_| (), decode: peer },
    Target { name: "voting", seeds: seeds::voting, mend: mend_voting, decode: voting },
    Target { name: "client", seeds: seeds::client_messages, mend: |_| (), decode: client },
    Target { name: "startup", seeds: seeds::startups, mend: |_| (), decode: startup },
    Target { name: "scram", seeds: seeds::scram, mend: |_| (), decode: scram },
];

fn mend_block(b: &mut Vec<u8>) {
    b.resize(block::BLOCK_BYTES, 0);
    layout::seal(b);
}

/// As `verify` reads a block: what it calls sound can be walked.
fn block(b: &[u8]) -> u64 {
    if b.len() != block::BLOCK_BYTES {
        return 0;
    }
    let address = layout::dba(b);
    if let Err(damage) = layout::check(b, address) {
        return match damage {
            layout::Damage::Checksum { .. } => 1,
            layout::Damage::Address { .. } => 2,
            layout::Damage::Kind { .. } => 3,
        };
    }
    let kind = layout::kind(b);
    let sound = match kind {
        Kind::Heap | Kind::Leaf | Kind::Branch => {
            let sound = rows::verify(b, kind != Kind::Heap).is_ok();
            if sound {
                walk(b, kind);
            }
            sound
        }
        Kind::Undo => {
            let sound = undo::verify(b).is_ok();
            if sound {
                for n in 0..undo::record_count(b) {
                    assert!(undo::record(b, n).is_some_and(|r| UndoRecord::decode(r).is_ok()));
                }
            }
            sound
        }
        _ => true,
    };
    10 + 2 * (kind as u64) + u64::from(sound)
}

fn walk(b: &[u8], kind: Kind) {
    let mut bytes = rows::free_bytes(b);
    for idx in 1..=itl::count(b) {
        bytes += usize::from(itl::get(b, idx).xid.slot);
    }
    for slot in 0..rows::slot_count(b) {
        bytes += rows::get(b, slot).map_or(0, |row| row.bytes.len());
        if kind != Kind::Heap {
            let key = rows::entry(b, slot).key;
            bytes += key.len();
            let found = rows::search(b, key);
            assert_eq!(found, Ok(slot), "a key that stands in the block is found there");
        }
    }
    assert!(bytes < usize::MAX / 2);
    let _ = (rows::low_key(b), rows::high_key(b), rows::right(b), rows::purged_scn(b));
    let mut copy = b.to_vec();
    rows::compact(&mut copy);
    let sorted = kind != Kind::Heap;
    assert_eq!(rows::verify(&copy, sorted), Ok(()), "it was sound before it was compacted");
}

/// Length and checksum.
fn mend_redo(b: &mut [u8]) {
    if b.len() >= 8 {
        let len = u32::try_from(b.len()).expect("short");
        b[..4].copy_from_slice(&len.to_le_bytes());
        let crc = redo::crc(&b[8..]);
        b[4..8].copy_from_slice(&crc.to_le_bytes());
    }
}

fn redo_record(b: &[u8]) -> u64 {
    let rba = b.get(8..16).map_or(Rba(0), |at| Rba(Reader::new(at).u64().unwrap_or(0)));
    let incarnation = b.get(16..20).map_or(0, |at| Reader::new(at).u32().unwrap_or(0));
    let raw = match redo::decode_raw(b, rba, incarnation, None) {
        Err(redo::EndReason::Torn) => return 0,
        Err(redo::EndReason::Stale) => return 1,
        Ok(raw) => raw,
    };
    let count = raw.vectors.len();
    let Ok(record) = raw.decode() else { return 2 };
    assert_eq!(record.vectors.len(), count);
    // What is written of it is read again.
    let mut kinds = 0;
    for vector in &record.vectors {
        let mut bytes = Vec::new();
        vector.op.encode(&mut bytes);
        let again = block::op::Op::decode(&mut Reader::new(&bytes));
        assert_eq!(again.as_ref(), Ok(&vector.op), "an operation, written and read again");
        kinds = (kinds * 31 + u64::from(bytes[0]) + 1) % 10_000;
    }
    100 + kinds
}

fn undo_record(b: &[u8]) -> u64 {
    let Ok(record) = UndoRecord::decode(b) else { return 0 };
    let again = UndoRecord::decode(&record.encode());
    assert_eq!(again.as_ref(), Ok(&record), "a record, written and read again");
    let index = u64::from(record.inverse.is_of_index());
    1 + 2 * u64::from(record.inverse.changes_row(3))
        + index
        + 4 * u64::from(record.inverse.leaf_key().is_some())
}

fn peer(b: &[u8]) -> u64 {
    let frame = match Frame::decode(b) {
        Ok(frame) => frame,
        Err(why) => {
            return match why {
                global::DecodeError::Tag { tag, .. } => 2 + u64::from(tag),
                global::DecodeError::Limit { .. } => 1,
                _ => 0,
            };
        }
    };
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    assert_eq!(Frame::decode(&bytes).as_ref(), Ok(&frame), "a frame, written and read again");
    1000 + frame.messages.len() as u64
}

/// The checksum, of a control record and of a slot alike.
fn mend_voting(b: &mut Vec<u8>) {
    b.resize(voting::RECORD_BYTES, 0);
    voting::seal(b);
}

fn voting(b: &[u8]) -> u64 {
    let control = Control::decode(b);
    if let Some(control) = &control {
        let again = Control::decode(&control.encode());
        assert_eq!(again.as_ref(), Some(control), "a control record, written and read again");
    }
    let slot = Slot::decode(b);
    if let Some(slot) = &slot {
        let again = Slot::decode(&slot.encode());
        assert_eq!(again.as_ref(), Some(slot), "a slot, written and read again");
    }
    u64::from(control.is_some()) + 2 * slot.map_or(0, |s| 1 + s.state as u64)
}

/// A message of a client after log-on: its tag, then its body.
fn client(b: &[u8]) -> u64 {
    let Some((&tag, body)) = b.split_first() else { return 0 };
    let message = match decode(tag, body) {
        Err(DecodeError::Malformed(why)) => return 1 + why.len() as u64,
        Err(DecodeError::NotUtf8) => return 100,
        Ok(message) => message,
    };
    // What is taken is of the message, and no more than it.
    let bytes = match &message {
        Frontend::Query(text) | Frontend::CopyFail(text) => text.len(),
        Frontend::Parse { name, query, param_oids } => {
            name.len() + query.len() + 4 * param_oids.len()
        }
        Frontend::Bind(bind) => {
            let values = bind.params.iter().flatten().map(|value| value.len());
            let formats = bind.param_formats.len() + bind.result_formats.len();
            let texts = bind.portal.len() + bind.statement.len();
            texts + 2 * formats + 4 * bind.params.len() + values.sum::<usize>()
        }
        Frontend::Describe(_, name) | Frontend::Close(_, name) => name.len(),
        Frontend::Execute { portal, .. } => portal.len(),
        Frontend::CopyData(data) => data.len(),
        _ => 0,
    };
    assert!(bytes <= body.len(), "{bytes} bytes taken of {}", body.len());
    200 + u64::from(tag) * 64 + (bytes as u64).min(63)
}

/// A startup packet: its version, then its body.
fn startup(b: &[u8]) -> u64 {
    let Some((version, body)) = b.split_first_chunk::<4>() else { return 0 };
    match parse_startup(i32::from_be_bytes(*version), body) {
        Err(report) => 1 + crc32c::crc32c(report.code().as_bytes()) as u64 % 1000,
        Ok(startup) => {
            assert!(!startup.user.is_empty() && !startup.database.is_empty());
            let texts = startup.parameters.iter().map(|(name, value)| name.len() + value.len());
            // Options of one text become names and values; a database may be the user's name.
            assert!(texts.sum::<usize>() <= body.len());
            2000 + (startup.parameters.len() as u64).min(100)
        }
    }
}

/// A client's two messages of a password exchange, the first one with its length before it.
fn scram(b: &[u8]) -> u64 {
    let Some((&first, rest)) = b.split_first() else { return 0 };
    let (first, last) = rest.split_at(usize::from(first).min(rest.len()));
    let mut exchange = Exchange::new("nobody", None, &[7; 32]);
    if exchange.client_first(first).is_err() {
        return 1;
    }
    // Nobody has no password: whatever is said, it is not the right one.
    assert!(exchange.client_final(last).is_err(), "nobody has logged on");
    2
}
