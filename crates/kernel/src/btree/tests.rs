//! Tests of the pure part: cuts, separators, block images. What needs an instance is in `instance`.

mod batch;
mod instance;
mod look;
mod pieces;
mod stress;

use block::itl::{self, ITL_ENTRIES_MAX, Itl};
use block::layout::{self, Kind};
use block::op::{Inverse, Op};
use block::rows::{self, DELETED};
use block::{BLOCK_BYTES, Dba, ObjId, Rowid, Scn, UndoNo, Xid};

use super::seg::{IndexSeg, blank};
use super::shape::{self, KEY_BYTES_MAX, cut, parts, separator};

const SEG: IndexSeg = IndexSeg {
    obj: ObjId(7),
    header: Dba::new(4, 16),
    root: Dba::new(4, 17),
    birth: Scn(99),
    unique: true,
    bitmap: false,
};

fn key(n: u32) -> Vec<u8> {
    n.to_be_bytes().to_vec()
}

/// A leaf that covers [10, 5000) with entries 10, 20, 30 …, as many as fit.
fn full_leaf() -> Vec<u8> {
    let mut b = blank(&SEG, 0);
    rows::set_low_key(&mut b, Some(&key(10)));
    rows::set_high_key(&mut b, Some(&key(5000)));
    rows::set_right(&mut b, Dba::new(4, 70));
    rows::set_purged_scn(&mut b, Scn(123));
    layout::set_taken_scn(&mut b, Scn(120));
    let xid = Xid { usn: 3, slot: 4, seq: 5 };
    itl::put(&mut b, 1, &Itl { xid, undo_no: UndoNo(6), ..Itl::default() });
    let mut n = 1;
    while rows::fits(&b, 12, true) {
        let (flags, lock) = (if n % 3 == 0 { DELETED } else { 0 }, if n % 4 == 0 { 2 } else { 0 });
        rows::insert_entry(&mut b, flags, lock, u64::from(n), &key(n * 10));
        n += 1;
    }
    b
}

fn entries(b: &[u8]) -> Vec<(u8, u8, u64, Vec<u8>)> {
    (0..rows::slot_count(b))
        .map(|pos| rows::entry(b, pos))
        .map(|e| (e.flags, e.lock, e.value, e.key.to_vec()))
        .collect()
}

#[test]
fn a_split_keeps_entries_locks_itl_and_bounds() {
    let b = full_leaf();
    let cut = cut(&SEG, &b, &key(15));
    assert!(!cut.growing);
    let right_dba = Dba::new(4, 80);
    let (left, right) = parts(&b, &cut, right_dba);
    let mut both = entries(&left);
    both.extend(entries(&right));
    assert_eq!(both, entries(&b));
    for half in [&left, &right] {
        rows::verify(half, true).expect("a sound block");
        assert_eq!(itl::iter(half).collect::<Vec<_>>(), itl::iter(&b).collect::<Vec<_>>());
        assert_eq!(rows::purged_scn(half), Scn(123));
        assert_eq!(layout::taken_scn(half), Scn(120));
        assert!(SEG.owns(half));
    }
    assert_eq!(rows::right(&left), right_dba);
    assert_eq!(rows::right(&right), Dba::new(4, 70));
    assert_eq!(rows::low_key(&left), rows::low_key(&b));
    assert_eq!(rows::high_key(&left), Some(cut.separator.as_slice()));
    assert_eq!(rows::low_key(&right), Some(cut.separator.as_slice()));
    assert_eq!(rows::high_key(&right), rows::high_key(&b));
    let share = entries(&left).len() * 100 / entries(&b).len();
    assert!((45..=55).contains(&share), "{share} per cent went left");
}

#[test]
fn growing_keys_leave_nine_tenths_on_the_left() {
    let b = full_leaf();
    let cut = cut(&SEG, &b, &key(4999));
    assert!(cut.growing);
    let share = usize::from(cut.at) * 100 / usize::from(rows::slot_count(&b));
    assert!((88..=92).contains(&share), "{share} per cent went left");
}

#[test]
fn a_separator_is_the_shortest_key_between() {
    assert_eq!(separator(b"abc", b"abd"), b"abd");
    assert_eq!(separator(b"abc", b"bcd"), b"b");
    assert_eq!(separator(b"ab", b"abcd"), b"abc");
    assert_eq!(separator(b"", b"x"), b"x");
}

#[test]
fn after_a_split_the_longest_entry_fits_beside_the_longest_itl() {
    let mut b = blank(&SEG, 0);
    let long = |first: u8| {
        let mut key = vec![0xee; KEY_BYTES_MAX];
        key[0] = first;
        key
    };
    rows::set_low_key(&mut b, Some(&long(1)));
    rows::set_high_key(&mut b, Some(&long(9)));
    while itl::count(&b) < ITL_ENTRIES_MAX {
        rows::grow_itl(&mut b);
    }
    rows::insert_entry(&mut b, 0, 0, 1, &long(2));
    assert!(rows::free_bytes(&b) >= rows::entry_bytes(&long(3)));
}

#[test]
fn a_raised_root_leads_to_both_parts() {
    let b = full_leaf();
    let cut = cut(&SEG, &b, &key(15));
    let (left, right) = (Dba::new(4, 90), Dba::new(4, 91));
    let root = shape::raised_root(&SEG, &b, &cut, left, right);
    assert_eq!(root.len(), BLOCK_BYTES);
    assert_eq!((layout::kind(&root), rows::level(&root)), (Kind::Branch, 1));
    let found = entries(&root);
    assert_eq!(found[0], (0, 0, left.to_u64(), Vec::new()));
    assert_eq!(found[1], (0, 0, right.to_u64(), cut.separator));
}

/// H9: a record whose key went to the other part of a split changes nothing but the ITL entry.
#[test]
fn h9_undo_of_a_key_outside_the_leaf_only_restores_the_itl_entry() {
    let b = full_leaf();
    let cut = cut(&SEG, &b, &key(15));
    let (mut left, mut right) = parts(&b, &cut, Dba::new(4, 80));
    let gone_right = rows::entry(&right, 0).key.to_vec();
    let saved = Itl { xid: Xid { usn: 1, slot: 1, seq: 1 }, scn: Scn(50), ..Itl::default() };
    let inverse = Inverse::LeafRemove { root: SEG.root, key: gone_right.clone() };
    let undo = Op::Rollback { itl_idx: 1, saved, inverse };
    let before = entries(&left);
    undo.apply(&mut left, Dba::new(4, 60));
    assert_eq!(entries(&left), before);
    assert_eq!(itl::get(&left, 1), saved);
    let restore = Inverse::LeafRestore {
        root: SEG.root,
        key: gone_right.clone(),
        flags: 0,
        lock: 0,
        rowid: Rowid::from_u64(1),
    };
    Op::Rollback { itl_idx: 1, saved, inverse: restore }.apply(&mut left, Dba::new(4, 60));
    assert_eq!(entries(&left), before, "a key beyond the high key is not put back here");
    undo.apply(&mut right, Dba::new(4, 80));
    assert!(rows::search(&right, &gone_right).is_err());
    assert_eq!(itl::get(&right, 1), saved);
}
