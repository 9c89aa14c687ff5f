//! A block as text: header, transactions, rows or entries or undo records.
//!
//! What it promises: any 8 KiB give a text. A block whose checksum, address or body is wrong is
//! shown as far as it can be trusted, then as bytes.

use crate::redo_text;
use block::itl::{self, Itl};
use block::layout::{self, Kind};
use block::op::Inverse;
use block::undo::{self, TxSlot, TxState, UndoRecord};
use block::{BLOCK_BYTES, Dba, Rowid, rows};
use std::fmt::Write as _;

/// Bytes of a row or key that are shown.
const SHOWN_BYTES_MAX: usize = 48;

/// Describes the block read from address `wanted`.
pub fn describe(bytes: &[u8], wanted: Dba) -> String {
    assert_eq!(bytes.len(), BLOCK_BYTES, "a whole block");
    if bytes.iter().all(|b| *b == 0) {
        return "never written\n".to_owned();
    }
    let mut text = String::new();
    if let Err(damage) = layout::check(bytes, wanted) {
        let _ = writeln!(text, "DAMAGED: {damage}");
        hex(&mut text, bytes);
        return text;
    }
    let kind = layout::kind(bytes);
    let _ = writeln!(
        text,
        "kind {kind:?}  object {}  version {}  scn {}  birth {}  taken {}",
        layout::obj(bytes),
        layout::version(bytes),
        layout::scn(bytes),
        layout::birth(bytes),
        layout::taken_scn(bytes)
    );
    match kind {
        Kind::Heap | Kind::Leaf | Kind::Branch => slotted(&mut text, bytes, kind),
        Kind::Undo => undo_records(&mut text, bytes),
        Kind::UndoHeader => transactions(&mut text, bytes),
        Kind::Free | Kind::SegmentHeader | Kind::FreeMap | Kind::FileMap => hex(&mut text, bytes),
    }
    text
}

fn slotted(text: &mut String, b: &[u8], kind: Kind) {
    if let Err(why) = rows::verify(b, kind != Kind::Heap) {
        let _ = writeln!(text, "INCONSISTENT: {why}");
        hex(text, b);
        return;
    }
    for (idx, entry) in itl::iter(b) {
        let _ = writeln!(text, "itl {idx}  {}", kept_entry(&entry));
    }
    let (slots, free) = (rows::slot_count(b), rows::free_bytes(b));
    let _ = writeln!(text, "{slots} slots, {free} bytes free");
    if kind == Kind::Heap {
        heap_rows(text, b, slots);
    } else {
        index_entries(text, b, slots);
    }
}

fn heap_rows(text: &mut String, b: &[u8], slots: u16) {
    for slot in 0..slots {
        match rows::get(b, slot) {
            None => {
                let _ = writeln!(text, "row {slot}  free");
            }
            Some(row) => {
                let _ = writeln!(
                    text,
                    "row {slot}  {}lock {}  {} bytes  {}",
                    flags(row.flags),
                    row.lock,
                    row.bytes.len(),
                    shown(row.bytes)
                );
            }
        }
    }
}

fn index_entries(text: &mut String, b: &[u8], slots: u16) {
    let bound = |key: Option<&[u8]>| key.map_or_else(|| "none".to_owned(), shown);
    let _ = writeln!(
        text,
        "level {}  right {}  low {}  high {}  purged {}",
        rows::level(b),
        rows::right(b),
        bound(rows::low_key(b)),
        bound(rows::high_key(b)),
        rows::purged_scn(b)
    );
    for at in 0..slots {
        let e = rows::entry(b, at);
        let value = if rows::level(b) == 0 {
            format!("rowid {}", Rowid::from_u64(e.value))
        } else {
            format!("child {}", Dba::from_u64(e.value))
        };
        let _ = writeln!(
            text,
            "{at}  {}lock {}  {value}  key {}",
            flags(e.flags),
            e.lock,
            shown(e.key)
        );
    }
}

fn undo_records(text: &mut String, b: &[u8]) {
    for n in 0..undo::record_count(b) {
        let record = undo::record(b, n).and_then(|bytes| UndoRecord::decode(bytes).ok());
        let _ = match record {
            Some(r) => writeln!(text, "record {n}  {}", redo_text::undo_record(&r)),
            None => writeln!(text, "record {n}  UNREADABLE"),
        };
    }
}

fn transactions(text: &mut String, b: &[u8]) {
    for slot in 0..undo::TX_SLOT_COUNT {
        let tx = TxSlot::get(b, slot);
        if tx.seq == 0 && tx.state == TxState::Free {
            continue;
        }
        let rolling = if tx.rolling_back { "  rolling back" } else { "" };
        let _ = writeln!(
            text,
            "slot {slot}  sequence {}  {:?}  scn {}  undo {}{rolling}",
            tx.seq, tx.state, tx.scn, tx.undo
        );
    }
}

/// An ITL entry, its outcome in words.
pub fn kept_entry(entry: &Itl) -> String {
    let outcome = match (entry.xid.is_none(), entry.scn.0, entry.bound) {
        (true, ..) => return "free".to_owned(),
        (_, 0, _) => "outcome not noted".to_owned(),
        (_, scn, false) => format!("committed at {scn}"),
        (_, scn, true) => format!("committed at {scn} or before"),
    };
    let (xid, uba, undo_no) = (entry.xid, entry.uba, entry.undo_no.0);
    format!("xid {xid}  uba {uba}  undo no {undo_no}  {outcome}")
}

/// What taking a change back does.
pub fn inverse_text(inverse: &Inverse) -> String {
    match inverse {
        Inverse::Nothing => "nothing but the itl entry".to_owned(),
        Inverse::HeapRemove { slot } => format!("remove row {slot}"),
        Inverse::HeapRemoveMany { slots } => format!("remove rows {slots:?}"),
        Inverse::LeafRemoveMany { root, keys } => {
            let all: String = keys.iter().map(|key| format!("  {}", shown(key))).collect();
            format!("remove {} entries of {root}  keys{all}", keys.len())
        }
        Inverse::HeapRestore { slot, flags: f, lock, bytes } => {
            format!("restore row {slot}  {}lock {lock}  {}", flags(*f), shown(bytes))
        }
        Inverse::HeapUnlock { slot, lock } => format!("unlock row {slot}  lock {lock}"),
        Inverse::LeafRemove { root, key } => format!("remove entry of {root}  key {}", shown(key)),
        Inverse::LeafRestore { root, key, flags: f, lock, rowid } => {
            let key = shown(key);
            format!("restore entry of {root}  {}lock {lock}  rowid {rowid}  key {key}", flags(*f))
        }
        Inverse::PieceFlip { root, key, on, lock } => {
            let (what, key) = (if *on { "set" } else { "clear" }, shown(key));
            format!("{what} bit of {root}  lock {lock}  key {key}")
        }
    }
}

/// The flags of a row or entry, in words.
pub fn flags(flags: u8) -> String {
    let names = [(rows::DELETED, "deleted "), (rows::FORWARD, "forward "), (rows::PIECE, "piece ")];
    names.iter().filter(|(bit, _)| flags & bit != 0).map(|(_, name)| *name).collect()
}

/// The beginning of some bytes: hexadecimal, then the printable ones.
pub fn shown(bytes: &[u8]) -> String {
    let head = &bytes[..bytes.len().min(SHOWN_BYTES_MAX)];
    let mut text = String::new();
    for byte in head {
        let _ = write!(text, "{byte:02x}");
    }
    if head.len() < bytes.len() {
        text.push('…');
    }
    text.push_str(" |");
    text.push_str(&printable(head));
    text.push('|');
    text
}

fn printable(bytes: &[u8]) -> String {
    let show = |b: &u8| if (b' '..=b'~').contains(b) { char::from(*b) } else { '.' };
    bytes.iter().map(show).collect()
}

/// All lines of 16 bytes that are not zero.
fn hex(text: &mut String, bytes: &[u8]) {
    for (at, line) in bytes.chunks(16).enumerate() {
        if line.iter().all(|b| *b == 0) {
            continue;
        }
        let hex: String = line.iter().map(|b| format!("{b:02x} ")).collect();
        let _ = writeln!(text, "{:04x}  {hex:<48} |{}|", at * 16, printable(line));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use block::{ObjId, Scn};

    fn heap_block(dba: Dba) -> Vec<u8> {
        let mut b = vec![0; BLOCK_BYTES];
        layout::init(&mut b, Kind::Heap, dba, ObjId(77), Scn(5));
        rows::init(&mut b, 0, itl::ITL_INITIAL);
        rows::insert_at(&mut b, 0, 0, 1, b"hello");
        rows::insert_at(&mut b, 1, rows::DELETED, 0, b"gone");
        layout::seal(&mut b);
        b
    }

    #[test]
    fn a_heap_block_shows_its_rows() {
        let dba = Dba::new(4, 128);
        let text = describe(&heap_block(dba), dba);
        assert!(text.contains("kind Heap  object 77"), "{text}");
        assert!(text.contains("row 0  lock 1  5 bytes  68656c6c6f |hello|"), "{text}");
        assert!(text.contains("row 1  deleted lock 0"), "{text}");
    }

    #[test]
    fn damage_is_named_and_any_bytes_give_a_text() {
        let dba = Dba::new(4, 128);
        let mut b = heap_block(dba);
        assert!(describe(&b, Dba::new(4, 129)).contains("DAMAGED: it holds block 4.128"));
        b[100] ^= 1;
        assert!(describe(&b, dba).contains("DAMAGED: checksum"));
        assert_eq!(describe(&vec![0; BLOCK_BYTES], dba), "never written\n");
        for kind in 1..=8_u8 {
            let mut noise: Vec<u8> = (0..BLOCK_BYTES).map(|i| (i * 31 % 251) as u8).collect();
            layout::init(&mut noise[..64], Kind::from_u8(kind).unwrap(), dba, ObjId(1), Scn(1));
            layout::seal(&mut noise);
            assert!(!describe(&noise, dba).is_empty());
        }
    }
}
