//! A redo record as text: its header, then one line for each change vector.
//!
//! What it promises: a line for every vector, with the block, the versions before and after, the
//! operation's name and what it is about. Long bytes are cut, and the cut is shown.

use crate::block_text::{flags, inverse_text, kept_entry, shown};
use block::Rowid;
use block::itl::ItlChange;
use block::op::Op;
use block::redo::{Record, RecordKind};
use block::undo::UndoRecord;
use std::fmt::Write as _;

/// Describes a record.
pub fn describe(record: &Record) -> String {
    let kind = match record.kind {
        RecordKind::Change => "change",
        RecordKind::Commit => "commit",
        RecordKind::Pad => "pad",
        RecordKind::Close => "close",
    };
    let mut text = format!(
        "rba {}  {kind}  scn {}  xid {}  {} vectors  {} bytes  crc {:#010x}\n",
        record.rba,
        record.scn,
        record.xid,
        record.vectors.len(),
        record.length_bytes,
        record.crc
    );
    for v in &record.vectors {
        let after = v.after(record.scn);
        let _ = writeln!(text, "  block {}  {} -> {after}  {}", v.dba, v.before, operation(&v.op));
    }
    text
}

fn operation(op: &Op) -> String {
    match op {
        Op::Format { kind, obj, birth, level, itl } => {
            format!("format as {kind:?}  object {obj}  birth {birth}  level {level}  itl {itl}")
        }
        Op::FormatImage { kind, obj, body } => {
            format!("format as {kind:?}  object {obj}  {} bytes  {}", body.len(), shown(body))
        }
        Op::Image { kind, obj, body } => {
            format!("image of {kind:?}  object {obj}  {} bytes  {}", body.len(), shown(body))
        }
        Op::Patch(parts) => {
            let part = |(at, bytes): &(u16, Vec<u8>)| format!("  at {at}: {}", shown(bytes));
            format!("patch{}", parts.iter().map(part).collect::<String>())
        }
        Op::HeapInsert { itl, slot, flags: f, bytes } => {
            row("insert row", *slot, &format!("{}{}", flags(*f), shown(bytes)), itl)
        }
        Op::HeapInsertMany { itl, slots, rows } => {
            let one = |(slot, bytes): (&u16, &[u8])| format!("  {slot}: {}", shown(bytes));
            let all: String = slots.iter().zip(rows.iter()).map(one).collect();
            format!("insert {} rows{all}{}", slots.len(), changer(itl))
        }
        Op::LeafInsertMany { itl, keys, rowids } => {
            let one = |(key, rowid): (&[u8], &Rowid)| format!("  {}: {rowid}", shown(key));
            let all: String = keys.iter().zip(rowids).map(one).collect();
            format!("insert {} entries{all}{}", keys.len(), changer(itl))
        }
        Op::HeapUpdate { itl, slot, flags: f, bytes } => {
            row("update row", *slot, &format!("{}{}", flags(*f), shown(bytes)), itl)
        }
        Op::HeapDelete { itl, slot } => row("delete row", *slot, "", itl),
        Op::HeapLock { itl, slot } => row("lock row", *slot, "", itl),
        Op::Settle { slots } => format!("settle rows {slots:?}"),
        Op::LeafInsert { itl, key, rowid } => entry("insert entry", key, &format!("{rowid}"), itl),
        Op::LeafMark { itl, key } => entry("delete entry", key, "none", itl),
        Op::LeafRevive { itl, key, rowid } => entry("revive entry", key, &format!("{rowid}"), itl),
        Op::LeafPurge { positions, scn } => format!("purge entries {positions:?}  scn {scn}"),
        Op::PieceFlip { itl, key, on } => {
            format!("{} bit  key {}{}", if *on { "set" } else { "clear" }, shown(key), changer(itl))
        }
        Op::PieceSplit { key, at } => {
            format!("cut piece at {}  key {}", Rowid::from_u64(*at), shown(key))
        }
        Op::BranchInsert { key, child } => format!("insert child {child}  key {}", shown(key)),
        Op::UndoAppend { record } => match UndoRecord::decode(record) {
            Ok(undo) => format!("append undo  {}", undo_record(&undo)),
            Err(_) => format!("append undo  UNREADABLE  {}", shown(record)),
        },
        Op::Rollback { itl_idx, saved, inverse } => format!(
            "roll back  {}  itl {itl_idx} becomes: {}",
            inverse_text(inverse),
            kept_entry(saved)
        ),
    }
}

/// An undo record as both dumps show it.
pub fn undo_record(r: &UndoRecord) -> String {
    format!(
        "xid {}  undo no {}  previous {}  target {}  object {}  itl {} was: {}  to undo: {}",
        r.xid,
        r.undo_no.0,
        r.prev,
        r.target,
        r.obj,
        r.itl_idx,
        kept_entry(&r.saved),
        inverse_text(&r.inverse)
    )
}

fn row(what: &str, slot: u16, more: &str, itl: &ItlChange) -> String {
    let gap = if more.is_empty() { "" } else { "  " };
    format!("{what} {slot}{gap}{more}{}", changer(itl))
}

fn entry(what: &str, key: &[u8], rowid: &str, itl: &ItlChange) -> String {
    format!("{what}  key {}  rowid {rowid}{}", shown(key), changer(itl))
}

fn changer(itl: &ItlChange) -> String {
    format!("  itl {}  xid {}  uba {}  undo no {}", itl.idx, itl.xid, itl.uba, itl.undo_no.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::op::Vector;
    use block::{Dba, ObjId, Rba, Scn, Version, Xid};

    #[test]
    fn a_record_shows_its_header_and_every_vector() {
        let vector = |op| Vector { dba: Dba::new(4, 128), before: Version::default(), op };
        let record = Record {
            rba: Rba(0x4000),
            incarnation: 1,
            prev_crc: 0,
            crc: 7,
            scn: Scn(9),
            xid: Xid::default(),
            kind: RecordKind::Commit,
            vectors: vec![
                vector(Op::Patch(vec![(64, vec![1, 2])])),
                vector(Op::BranchInsert { key: b"key".to_vec(), child: Dba::new(4, 7) }),
                vector(Op::UndoAppend { record: b"?".to_vec() }),
                vector(Op::Settle { slots: vec![3] }),
            ],
            length_bytes: 99,
        };
        let text = describe(&record);
        assert!(text.contains("commit  scn 9") && text.contains("4 vectors  99 bytes"), "{text}");
        for wanted in ["patch  at 64: 0102", "insert child 4.7", "UNREADABLE", "settle rows [3]"] {
            assert!(text.contains(wanted), "{wanted}: {text}");
        }
        assert_eq!(text.lines().count(), 5);
        let format = Op::Format {
            kind: block::layout::Kind::Heap,
            obj: ObjId(77),
            birth: Scn(1),
            level: 0,
            itl: 2,
        };
        assert!(operation(&format).contains("format as Heap  object 77"), "{}", operation(&format));
    }

    #[test]
    fn batches_come_back_from_their_bytes_and_show_every_row() {
        use block::bytes::{ByteList, Reader};
        use block::op::Inverse;

        let mut list = ByteList::new();
        [b"a", b"b", b"c"].iter().for_each(|one| list.push(*one));
        let itl = ItlChange::default();
        let rows = Op::HeapInsertMany { itl, slots: vec![3, 4, 9], rows: list.clone() };
        let rowids = vec![Rowid::from_u64(1), Rowid::from_u64(2), Rowid::from_u64(3)];
        let entries = Op::LeafInsertMany { itl, keys: list.clone(), rowids };
        for (op, wanted) in [(rows, "insert 3 rows  3: "), (entries, "insert 3 entries  ")] {
            let mut bytes = Vec::new();
            op.encode(&mut bytes);
            assert_eq!(Op::decode(&mut Reader::new(&bytes)), Ok(op.clone()));
            assert!(Op::decode(&mut Reader::new(&bytes[..bytes.len() - 1])).is_err());
            assert!(operation(&op).starts_with(wanted), "{}", operation(&op));
        }
        let rows = Inverse::HeapRemoveMany { slots: vec![3, 4, 9] };
        let entries = Inverse::LeafRemoveMany { root: Dba::new(4, 7), keys: list };
        for (inverse, wanted) in
            [(rows, "remove rows [3, 4, 9]"), (entries, "remove 3 entries of 4.7  keys  ")]
        {
            let mut bytes = Vec::new();
            inverse.encode(&mut bytes);
            assert_eq!(Inverse::decode(&mut Reader::new(&bytes)), Ok(inverse.clone()));
            assert!(inverse_text(&inverse).starts_with(wanted), "{}", inverse_text(&inverse));
        }
    }
}
