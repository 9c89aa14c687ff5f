//! Good bytes to begin with, made by those who write them.

use block::bytes::ByteList;
use block::itl::{Itl, ItlChange};
use block::layout::{self, Kind};
use block::op::{Inverse, Op};
use block::redo::{self, Body, RecordKind, Stamp};
use block::undo::{self, UndoRecord};
use block::{Dba, InstanceNo, Mode, ObjId, Rba, Rowid, Scn, Uba, UndoNo, Version, Xid, rows};
use cluster::voting::{Control, Life, Slot, SlotState};
use global::msg::{
    BlockInfo, Envelope, EpochMessage, Frame, GcsMessage, GesMessage, GesMode, Have, HolderMsg,
    MasterMsg, Message, Probe, Resource, Timings, TxnMessage, Wait, Waiter, Want,
};
use global::{Epoch, ReqId, Seq};

const XID: Xid = Xid { usn: 11, slot: 3, seq: 7 };

fn dba(block: u32) -> Dba {
    Dba::new(4, block)
}

fn itl() -> Itl {
    Itl { xid: XID, ..Itl::default() }
}

fn list(all: &[&[u8]]) -> ByteList {
    let mut list = ByteList::new();
    all.iter().for_each(|one| list.push(one));
    list
}

fn inverses() -> Vec<Inverse> {
    let (root, key, rowid) = (dba(9), b"a key".to_vec(), Rowid::from_u64(77));
    vec![
        Inverse::Nothing,
        Inverse::HeapRemove { slot: 3 },
        Inverse::HeapRemoveMany { slots: vec![1, 2, 3, 9] },
        Inverse::HeapRestore { slot: 2, flags: 1, lock: 2, bytes: b"as it was".to_vec() },
        Inverse::HeapUnlock { slot: 4, lock: 1 },
        Inverse::LeafRemove { root, key: key.clone() },
        Inverse::LeafRemoveMany { root, keys: list(&[b"a", b"b"]) },
        Inverse::LeafRestore { root, key, flags: 1, lock: 1, rowid },
        Inverse::PieceFlip { root, key: b"bits and rowid".to_vec(), on: true, lock: 1 },
    ]
}

fn ops() -> Vec<Op> {
    let change =
        ItlChange { idx: 1, xid: XID, uba: Uba::from_u64(3), undo_no: UndoNo(4), taken: Scn(0) };
    let (key, rowid, bytes) = (b"a key".to_vec(), Rowid::from_u64(77), b"a row".to_vec());
    let two = || list(&[b"one", b"two"]);
    let mut ops = vec![
        Op::Format { kind: Kind::Heap, obj: ObjId(51), birth: Scn(9), level: 0, itl: 2 },
        Op::Image { kind: Kind::Heap, obj: ObjId(51), body: vec![7; 200] },
        Op::Patch(vec![(60, vec![1, 2, 3]), (90, vec![4])]),
        Op::HeapInsert { itl: change, slot: 0, flags: 0, bytes: bytes.clone() },
        Op::HeapInsertMany { itl: change, slots: vec![1, 2], rows: two() },
        Op::HeapUpdate { itl: change, slot: 0, flags: 0, bytes },
        Op::HeapDelete { itl: change, slot: 0 },
        Op::HeapLock { itl: change, slot: 0 },
        Op::Settle { slots: vec![0, 5] },
        Op::LeafInsert { itl: change, key: key.clone(), rowid },
        Op::LeafInsertMany { itl: change, keys: two(), rowids: vec![rowid, rowid] },
        Op::LeafMark { itl: change, key: key.clone() },
        Op::LeafRevive { itl: change, key: key.clone(), rowid },
        Op::LeafPurge { positions: vec![0, 2], scn: Scn(12) },
        Op::BranchInsert { key, child: dba(17) },
        Op::PieceFlip { itl: change, key: b"bits and rowid".to_vec(), on: true },
        Op::PieceSplit { key: b"bits and rowid".to_vec(), at: 80 },
    ];
    ops.extend(undo_records().into_iter().map(|record| Op::UndoAppend { record }));
    let inverses = inverses().into_iter();
    ops.extend(inverses.map(|inverse| Op::Rollback { itl_idx: 1, saved: itl(), inverse }));
    ops
}

pub fn undo_records() -> Vec<Vec<u8>> {
    let record = |inverse| UndoRecord {
        xid: XID,
        undo_no: UndoNo(4),
        prev: Uba::from_u64(0),
        target: dba(8),
        obj: ObjId(51),
        birth: Scn(9),
        itl_idx: 1,
        saved: itl(),
        inverse,
    };
    inverses().into_iter().map(|inverse| record(inverse).encode()).collect()
}

/// One record for each operation, and one with all of them.
pub fn redo_records() -> Vec<Vec<u8>> {
    let stamp =
        |kind| Stamp { rba: Rba(512), incarnation: 3, prev_crc: 5, scn: Scn(40), xid: XID, kind };
    let before = Version { format: Scn(9), count: 2 };
    let record = |kind, ops: &[Op]| {
        let mut body = Body::new();
        ops.iter().for_each(|op| body.push(dba(8), before, op));
        let mut out = Vec::new();
        redo::encode(&stamp(kind), &body, &mut out);
        out
    };
    let all = ops();
    let mut records: Vec<Vec<u8>> =
        all.chunks(1).map(|op| record(RecordKind::Change, op)).collect();
    records.push(record(RecordKind::Change, &all));
    records.push(record(RecordKind::Commit, &[]));
    records
}

/// A heap block, a leaf, an undo block, and one never written.
pub fn blocks() -> Vec<Vec<u8>> {
    let new = |kind| {
        let mut b = vec![0; block::BLOCK_BYTES];
        layout::init(&mut b, kind, dba(8), ObjId(51), Scn(9));
        b
    };
    let mut heap = new(Kind::Heap);
    rows::init(&mut heap, 0, 2);
    for slot in 0..20 {
        rows::insert_at(&mut heap, slot, 0, 0, &[7; 30]);
    }
    rows::remove_at(&mut heap, 4);
    let mut leaf = new(Kind::Leaf);
    rows::init(&mut leaf, 0, 2);
    for n in 0..20_u8 {
        rows::insert_entry(&mut leaf, 0, 0, u64::from(n), &[b'k', n]);
    }
    let mut undo = new(Kind::Undo);
    undo::init(&mut undo);
    undo_records().iter().for_each(|record| undo::append(&mut undo, record));
    let mut blocks = vec![heap, leaf, undo];
    blocks.iter_mut().for_each(|b| layout::seal(b));
    blocks.push(vec![0; block::BLOCK_BYTES]);
    blocks
}

/// Frames of one message each, and one of all.
pub fn frames() -> Vec<Vec<u8>> {
    let version = |count| Version { format: Scn(7), count };
    let addr = dba(128);
    let info = BlockInfo {
        req_id: ReqId(9),
        mode: Mode::X,
        version: version(12),
        seq: Seq(77),
        past_images: true,
        unwritten: false,
        sender_past: Some(version(12)),
        timings: Timings::default(),
    };
    let past = Some((InstanceNo(2), version(4)));
    let taken = MasterMsg::Taken { seq: Seq(5), mode: Mode::X, version: version(5), past };
    let resource = Resource::new(*b"TM", 51, 0);
    let who = Waiter::Owner { home: InstanceNo(1), xid: XID };
    let held = Waiter::Held { home: InstanceNo(2), resource, wanted: GesMode::SX };
    let wait = Wait { who, wait_no: 3, any_of: false, on: vec![held] };
    let probe = Probe { start: who, start_wait_no: 3, seen: vec![wait], to_visit: vec![held] };
    let want = Want::Cr { scn: Scn(100), xid: XID };
    let have = Have { mode: Mode::S, version: version(3) };
    let epoch = Epoch(4);
    let call = |kind, body| TxnMessage::Call { req_id: ReqId(3), kind, body };
    let invalidate = HolderMsg::Invalidate { seq: Seq(4) };
    let items = vec![(addr, past), (addr, None)];
    let messages = vec![
        Message::Gcs(GcsMessage::Request {
            req_id: ReqId(1),
            want,
            blocks: vec![(addr, have), (dba(129), Have::default())],
        }),
        Message::Gcs(GcsMessage::ToMaster { addr, msg: taken }),
        Message::Gcs(GcsMessage::Block { addr, info, image: vec![0xa5; 300] }),
        Message::Gcs(GcsMessage::ToHolderMany { msgs: vec![(addr, invalidate)] }),
        Message::Txn(TxnMessage::ScnBroadcast {
            req_id: ReqId(3),
            scn: Scn(99),
            objects: vec![ObjId(17)],
        }),
        Message::Txn(call(1, b"what is asked".to_vec())),
        Message::Epoch(EpochMessage::RecoverySet { epoch, last: true, items }),
        Message::Ges(GesMessage::Probe { probe }),
    ];
    let frame = |messages: &[Message]| {
        let (scn, from) = (Scn(90), InstanceNo(2));
        let envelope = Envelope { epoch, scn, from, incarnation: 41, sent_us: 5 };
        let mut out = Vec::new();
        Frame { envelope, messages: messages.to_vec() }.encode(&mut out);
        out
    };
    let mut frames: Vec<Vec<u8>> = messages.chunks(1).map(frame).collect();
    frames.push(frame(&messages));
    frames
}

/// Slots and control records of the voting file.
pub fn voting() -> Vec<Vec<u8>> {
    let life = |n| Life { instance: InstanceNo(n), incarnation: 40 + u64::from(n) };
    let control = Control {
        sequence: 9,
        epoch: 4,
        members: vec![life(1), life(2), life(3)],
        evicting: vec![life(3)],
    };
    let slot = Slot {
        incarnation: 41,
        state: SlotState::Open,
        pid: 1234,
        interconnect_addr: "127.0.0.1:6601".into(),
        client_addr: "127.0.0.1:6501".into(),
        ..Slot::default()
    };
    vec![control.encode(), slot.encode(), Slot::default().encode()]
}

fn text(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(text.as_bytes());
    out.push(0);
}

/// Messages of a client, each after its tag.
pub fn client_messages() -> Vec<Vec<u8>> {
    let mut parse = b"P".to_vec();
    text(&mut parse, "s1");
    text(&mut parse, "select $1::int, '\u{e4}'");
    parse.extend_from_slice(&[0, 2, 0, 0, 0, 23, 0, 0, 0, 25]);
    let mut bind = b"B".to_vec();
    text(&mut bind, "p1");
    text(&mut bind, "s1");
    bind.extend_from_slice(&[0, 2, 0, 1, 0, 0, 0, 2, 0, 0, 0, 4, 0, 0, 0, 7]);
    bind.extend_from_slice(&[255, 255, 255, 255, 0, 1, 0, 1]);
    let mut execute = b"E".to_vec();
    text(&mut execute, "p1");
    execute.extend_from_slice(&[0, 0, 0, 100]);
    let mut all = vec![parse, bind, execute];
    for plain in ["Qselect 1\0", "DSs1\0", "DPp1\0", "CSs1\0", "CPp1\0", "fwhy\0", "d1\tone\n"] {
        all.push(plain.as_bytes().to_vec());
    }
    all.extend([b"S", b"H", b"X", b"c", b"F"].map(|tag| tag.to_vec()));
    all
}

/// Startup packets.
pub fn startups() -> Vec<Vec<u8>> {
    let packet = |minor: u8, pairs: &[(&str, &str)]| {
        let mut out = vec![0, 3, 0, minor];
        for (name, value) in pairs {
            text(&mut out, name);
            text(&mut out, value);
        }
        out.push(0);
        out
    };
    vec![
        packet(0, &[("user", "ann"), ("database", "books"), ("application_name", "psql")]),
        packet(2, &[("user", "ann"), ("_pq_.more", "1")]),
        packet(0, &[("user", "ann"), ("options", "-c search_path=a\\ b --work-mem=4MB")]),
        packet(0, &[("user", "ann"), ("replication", "false"), ("client_encoding", "UTF8")]),
        packet(0, &[("database", "books")]),
    ]
}

/// A client's messages of a password exchange.
pub fn scram() -> Vec<Vec<u8>> {
    let exchange = |first: &str, last: &str| {
        let mut out = vec![u8::try_from(first.len()).expect("short")];
        out.extend_from_slice(first.as_bytes());
        out.extend_from_slice(last.as_bytes());
        out
    };
    vec![
        exchange("n,,n=nobody,r=abcdefgh", "c=biws,r=abcdefghX,p=AAAA"),
        exchange("y,,n=,r=q", "c=eSws,r=q,p=v0X8v3Bz2T0CJGbJQyF0X+HI4Ts="),
        exchange("p=tls-unique,,n=a,r=b", ""),
    ]
}
