use block::{Dba, InstanceNo, Mode, Scn, Version, Xid};

use super::*;

fn version(count: u64) -> Version {
    Version { format: Scn(7), count }
}

fn samples() -> Vec<Message> {
    let addr = Dba::new(4, 128);
    let timings = Timings {
        queue_us: 1,
        master_lms_us: 6,
        lms_us: 7,
        build_us: 2,
        pin_us: 3,
        flush_us: 4,
        serve_us: 5,
    };
    let have = Have { mode: Mode::S, version: version(3) };
    let xid = Xid { usn: 1, slot: 2, seq: 3 };
    let info = BlockInfo {
        req_id: ReqId(9),
        mode: Mode::X,
        version: version(12),
        seq: Seq(77),
        past_images: true,
        unwritten: false,
        sender_past: Some(version(12)),
        timings,
    };
    let past = Some((InstanceNo(2), version(4)));
    let taken = MasterMsg::Taken { seq: Seq(5), mode: Mode::X, version: version(5), past };
    let resource = Resource::new(*b"TM", 51, 0);
    let who = Waiter::Owner { home: InstanceNo(1), xid };
    let held = Waiter::Held { home: InstanceNo(2), resource, wanted: GesMode::SX };
    let wait = Wait { who, wait_no: 3, any_of: false, on: vec![held] };
    let probe = Probe { start: who, start_wait_no: 3, seen: vec![wait], to_visit: vec![held] };
    vec![
        Message::Gcs(GcsMessage::Request {
            req_id: ReqId(1),
            want: Want::Cr { scn: Scn(100), xid },
            blocks: vec![(addr, have), (Dba::new(4, 129), Have::default())],
        }),
        Message::Gcs(GcsMessage::ToMaster { addr, msg: taken }),
        Message::Gcs(GcsMessage::Block { addr, info, image: vec![0xa5; 8192] }),
        Message::Gcs(GcsMessage::ToHolderMany {
            msgs: vec![(addr, HolderMsg::Invalidate { seq: Seq(4) })],
        }),
        Message::Txn(TxnMessage::ScnBroadcast {
            req_id: ReqId(3),
            scn: Scn(99),
            objects: vec![block::ObjId(17)],
        }),
        Message::Epoch(EpochMessage::RecoverySet {
            epoch: Epoch(4),
            last: true,
            items: vec![(addr, past), (addr, None)],
        }),
        Message::Epoch(EpochMessage::Marker {
            epoch: Epoch(4),
            scn: Scn(5),
            class: Class::Transaction,
            lane: 1,
        }),
        Message::Ges(GesMessage::Probe { probe }),
    ]
}

fn envelope() -> Envelope {
    Envelope { epoch: Epoch(3), scn: Scn(1000), from: InstanceNo(2), incarnation: 1, sent_us: 5 }
}

#[test]
fn what_is_encoded_is_decoded() {
    let frame = Frame { envelope: envelope(), messages: samples() };
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    assert_eq!(Frame::decode(&bytes).expect("own bytes"), frame);
    for m in samples() {
        let mut bytes = Vec::new();
        m.encode(&mut bytes);
        assert_eq!(Message::decode(&bytes), Ok(m));
    }
}

#[test]
fn trailing_bytes_of_a_newer_version_are_ignored() {
    for m in samples() {
        let mut bytes = Vec::new();
        m.encode(&mut bytes);
        bytes.extend_from_slice(&[0xee; 5]);
        let len = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]) + 5;
        bytes[..4].copy_from_slice(&len.to_le_bytes());
        assert_eq!(Message::decode(&bytes), Ok(m));
    }
}

#[test]
fn every_truncation_is_an_error_and_no_damage_panics() {
    let frame = Frame { envelope: envelope(), messages: samples() };
    let mut bytes = Vec::new();
    frame.encode(&mut bytes);
    for len in (0..300).chain(bytes.len() - 300..bytes.len()) {
        assert!(Frame::decode(&bytes[..len]).is_err(), "cut to {len} bytes");
    }
    // A fixed pseudo-random walk over damaged frames.
    let mut state = 42u64;
    for _ in 0..20_000 {
        let mut damaged = bytes.clone();
        for _ in 0..3 {
            state = crate::map::mix(state);
            let at = (state >> 8) as usize % 900;
            let at = if state & 1 == 0 { at } else { damaged.len() - 1 - at };
            damaged[at] ^= (state >> 40) as u8;
        }
        // What is still a frame is one through and through.
        if let Ok(frame) = Frame::decode(&damaged) {
            let mut again = Vec::new();
            frame.encode(&mut again);
            assert_eq!(Frame::decode(&again), Ok(frame));
        }
    }
}

#[test]
fn a_forged_count_reserves_no_memory() {
    let mut bytes = vec![0, 0, 0, 0, 0, 0];
    bytes.extend_from_slice(&1u64.to_le_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&u32::MAX.to_le_bytes());
    let len = (bytes.len() - 4) as u32;
    bytes[..4].copy_from_slice(&len.to_le_bytes());
    let limit = DecodeError::Limit { what: "count", value: u64::from(u32::MAX) };
    assert_eq!(Message::decode(&bytes), Err(limit));
}

#[test]
fn the_bytes_of_a_message_are_a_promise() {
    let addr = Dba::new(4, 128);
    let msg = MasterMsg::Released { seq: Seq(0x0102) };
    let mut bytes = Vec::new();
    Message::Gcs(GcsMessage::ToMaster { addr, msg }).encode(&mut bytes);
    let expected = [
        17, 0, 0, 0, // length
        0, // class: block
        1, // to master
        4, 0, 128, 0, 0, 0, // address
        2, // released
        2, 1, 0, 0, 0, 0, 0, 0, // seq
    ];
    assert_eq!(bytes, expected);
}
