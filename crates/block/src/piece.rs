//! Pieces: the entries of a bitmap index.
//!
//! A piece says which rows of a range of rowids have one value. Its key is the value's bytes and,
//! in eight bytes, the last rowid it answers for; it begins behind the piece before it. The last
//! piece of a value ends at [`END`], so a value that has pieces has one for every rowid. The bitmap
//! stands behind the key, compressed: the key's order is that of the entries.
//!
//! What it promises: a set of rows has one encoding, and no part of it a longer one. So what a
//! piece has once held fits into the room it keeps ([`crate::rows::capacity`]), also after it was
//! cut. What it must never do: lower that room, for a rollback needs it.
//!
//! The bitmap has one of two forms, whichever is shorter. Rows here and there: a number above all
//! slots, the first block's address in 6 bytes and its slot, then the distances from row to row,
//! each block taken to have that number of slots. Rows side by side: 0, the first block's address,
//! then for each block its distance from the one before (none for the first) and its slots, as gaps
//! or as bits: `count << 1` and the gaps, or `bytes << 1 | 1` and the bits. All other numbers are
//! varints.

use std::num::NonZeroU64;

use crate::bytes::u16_of;
use crate::rows::{self, Entry};

/// Where the last piece of a value ends: above all rowids, below the byte that ends the keys which
/// begin with a value.
pub const END: u64 = u64::MAX - (1 << 56);
/// Bytes of a piece's bitmap at the most: one that would get longer is cut in two.
pub const PIECE_BYTES_MAX: usize = 400;
/// Bytes that name the end of a piece.
pub const END_BYTES: usize = 8;
const FIRST_BYTES: usize = 6;
/// Of a piece that is made from rows that are there.
const FILLED_BYTES_MAX: usize = PIECE_BYTES_MAX * 9 / 10;
/// More room than it needs, of a piece that has grown, at the most.
const GROWTH_BYTES_MAX: usize = 64;

/// A piece as it stands in a leaf.
#[derive(Clone, Copy, Debug)]
pub struct Piece<'a> {
    /// Value and end.
    pub key: &'a [u8],
    /// Rows in it.
    pub count: u64,
    bits: &'a [u8],
}

impl<'a> Piece<'a> {
    /// Of an entry of a bitmap index; `None`: it is none.
    #[must_use]
    pub fn of(entry: &Entry<'a>) -> Option<Piece<'a>> {
        let (len, count) = ((entry.value & 0xffff) as usize, entry.value >> 16);
        let whole = (END_BYTES..=entry.key.len()).contains(&len);
        whole.then(|| Piece { key: &entry.key[..len], count, bits: &entry.key[len..] })
    }

    /// The value's bytes.
    #[must_use]
    pub fn value(&self) -> &'a [u8] {
        &self.key[..self.key.len() - END_BYTES]
    }

    /// The last rowid it answers for.
    #[must_use]
    pub fn end(&self) -> u64 {
        end_of(self.key)
    }

    /// Calls `each` with its rowids, ascending.
    pub fn each(&self, mut each: impl FnMut(u64)) {
        let mut next = 0;
        decode(self.bits, |rowid| {
            // Where damaged bytes go back, or beyond all rowids, nothing can be made of them.
            if rowid >= next && rowid <= END {
                next = rowid + 1;
                each(rowid);
            }
        });
    }

    /// Its rowids.
    #[must_use]
    pub fn rowids(&self) -> Vec<u64> {
        let mut out = Vec::with_capacity(usize::try_from(self.count).unwrap_or(0).min(1 << 16));
        self.each(|rowid| out.push(rowid));
        out
    }
}

/// The last eight bytes of a key.
#[must_use]
pub fn end_of(key: &[u8]) -> u64 {
    let (_, end) = key.split_last_chunk::<END_BYTES>().expect("a key ends with a rowid");
    u64::from_be_bytes(*end)
}

/// A value's bytes with a rowid behind them.
#[must_use]
pub fn key_at(value: &[u8], rowid: u64) -> Vec<u8> {
    [value, &rowid.to_be_bytes()].concat()
}

/// Position of the piece of the leaf that answers for `key`, a value and a rowid; `None`: the value
/// has no pieces.
#[must_use]
pub fn find(b: &[u8], key: &[u8]) -> Option<u16> {
    let pos = rows::search(b, key).unwrap_or_else(|pos| pos);
    if pos >= rows::slot_count(b) {
        return None;
    }
    let value = &key[..key.len() - END_BYTES];
    let piece = Piece::of(&rows::entry(b, pos))?;
    (piece.value() == value).then_some(pos)
}

/// What a piece is after the row of `key` was put into it or taken out: value (the entry's number)
/// and entry bytes. `None`: it is so already.
#[must_use]
pub fn flipped(piece: &Piece<'_>, key: &[u8], on: bool) -> Option<(u64, Vec<u8>)> {
    let rowid = end_of(key);
    let mut rowids = piece.rowids();
    match (rowids.binary_search(&rowid), on) {
        (Err(at), true) => rowids.insert(at, rowid),
        (Ok(at), false) => drop(rowids.remove(at)),
        _ => return None,
    }
    Some(entry_of(piece.key, &rowids))
}

/// The number and the bytes of the entry of a piece with this key and these rows, ascending.
#[must_use]
pub fn entry_of(key: &[u8], rowids: &[u64]) -> (u64, Vec<u8>) {
    let value = u64::from(u16_of(key.len())) | (rowids.len() as u64) << 16;
    let mut bytes = key.to_vec();
    encode(rowids, &mut bytes);
    (value, bytes)
}

/// Where a piece whose bitmap gets too long with `rowid` in it is cut: the last rowid of the left
/// part. Rows that come at the end leave the left part as it is.
#[must_use]
pub fn cut(piece: &Piece<'_>, rowid: u64) -> u64 {
    let rowids = piece.rowids();
    match rowids.last() {
        Some(&last) if last < rowid => last,
        _ => rowids[(rowids.len() - 1) / 2],
    }
}

/// How many of these rowids, ascending and not none, one piece takes that is to have some room
/// left.
#[must_use]
pub fn filling(rowids: &[u64]) -> usize {
    let mut count = rowids.len().min(8 * PIECE_BYTES_MAX);
    let mut bytes = Vec::new();
    loop {
        bytes.clear();
        encode(&rowids[..count], &mut bytes);
        if bytes.len() <= FILLED_BYTES_MAX {
            return count;
        }
        count = (count * FILLED_BYTES_MAX / bytes.len()).clamp(1, count - 1);
    }
}

/// Cuts the piece with this key in two, the left part to end at `at`. Both keep its lock and room.
///
/// # Panics
/// There is no such piece, or no room: the caller has looked.
pub fn split(b: &mut [u8], key: &[u8], at: u64) {
    let pos = find(b, key).expect("the piece is there");
    let (entry, room) = (rows::entry(b, pos), rows::capacity(b, pos));
    let piece = Piece::of(&entry).expect("a piece");
    assert!(piece.key == key && at < piece.end(), "a piece is cut where it is");
    let (flags, lock) = (entry.flags, entry.lock);
    let (left, right): (Vec<u64>, Vec<u64>) = piece.rowids().into_iter().partition(|r| *r <= at);
    let left_key = key_at(piece.value(), at);
    let (left, right) = (entry_of(&left_key, &left), entry_of(key, &right));
    rows::remove_entry(b, pos);
    rows::insert_entry_with_room(b, flags, lock, left.0, &left.1, room);
    rows::insert_entry_with_room(b, flags, lock, right.0, &right.1, room);
}

/// Puts the row of `key` into its piece, or takes it out, and sets the piece's lock. A value's
/// first row makes its piece. A row that is so already is left so.
///
/// # Panics
/// There is no room: the caller has looked, or the piece has kept it.
pub fn flip(b: &mut [u8], key: &[u8], on: bool, lock: u8) {
    let pos = match find(b, key) {
        Some(pos) => pos,
        None if on => {
            let end = key_at(&key[..key.len() - END_BYTES], END);
            let (value, bytes) = entry_of(&end, &[end_of(key)]);
            return rows::insert_entry(b, 0, lock, value, &bytes);
        }
        // On a clone: the leaf was cut since.
        None => return,
    };
    let entry = rows::entry(b, pos);
    let piece = Piece::of(&entry).expect("a piece");
    let Some((value, bytes)) = flipped(&piece, key, on) else {
        return rows::set_lock(b, pos, lock);
    };
    if 8 + bytes.len() <= rows::capacity(b, pos) {
        let all = [&value.to_le_bytes(), bytes.as_slice()].concat();
        return rows::replace(b, pos, 0, lock, &all);
    }
    rows::remove_entry(b, pos);
    rows::insert_entry_with_room(b, 0, lock, value, &bytes, grown_bytes(bytes.len()));
}

/// Room of a piece that had to grow: more than it needs, or each row would move it.
fn grown_bytes(len: usize) -> usize {
    8 + len + GROWTH_BYTES_MAX.min(8 + len / 8)
}

/// Free bytes that a leaf must have for a piece whose entry gets this long, if it has to grow.
#[must_use]
pub fn growth_bytes(bytes: &[u8]) -> usize {
    rows::entry_bytes(bytes) + GROWTH_BYTES_MAX
}

/// The shortest key that is above all of `left` and of what it may become, and not above `right`.
#[must_use]
pub fn separator(left: &Piece<'_>, right: &Piece<'_>) -> Vec<u8> {
    if left.value() == right.value() {
        return key_at(left.value(), left.end().saturating_add(1));
    }
    let common = left.value().iter().zip(right.value()).take_while(|(l, r)| l == r).count();
    right.key[..=common].to_vec()
}

fn put_varint(out: &mut Vec<u8>, mut n: u64) {
    while n >= 0x80 {
        out.push((n & 0x7f) as u8 | 0x80);
        n >>= 7;
    }
    out.push(n as u8);
}

fn varint_bytes(n: u64) -> usize {
    (64 - (n | 1).leading_zeros() as usize).div_ceil(7)
}

fn encode(rowids: &[u64], out: &mut Vec<u8>) {
    let (Some(first), at) = (rowids.first(), out.len()) else { return };
    encode_apart(rowids, out);
    let apart = out.len();
    out.push(0);
    encode_blocks(rowids, out);
    if out.len() - apart < apart - at {
        out.drain(at..apart);
    } else {
        out.truncate(apart);
    }
    debug_assert!(first <= &END);
}

/// Rows here and there.
fn encode_apart(rowids: &[u64], out: &mut Vec<u8>) {
    let slots = 1 + rowids.iter().map(|rowid| rowid & 0xffff).max().unwrap_or(0);
    put_varint(out, slots);
    let mut before: Option<u64> = None;
    for rowid in rowids {
        let (dba, slot) = (rowid >> 16, rowid & 0xffff);
        match before {
            None => {
                out.extend_from_slice(&dba.to_be_bytes()[8 - FIRST_BYTES..]);
                put_varint(out, slot);
            }
            Some(before) => {
                let blocks = dba - (before >> 16);
                put_varint(out, (blocks * slots + slot) - (before & 0xffff));
            }
        }
        before = Some(*rowid);
    }
}

/// Rows side by side.
fn encode_blocks(rowids: &[u64], out: &mut Vec<u8>) {
    let mut before = None;
    for block in rowids.chunk_by(|a, b| a >> 16 == b >> 16) {
        let dba = block[0] >> 16;
        match before.replace(dba) {
            None => out.extend_from_slice(&dba.to_be_bytes()[8 - FIRST_BYTES..]),
            Some(before) => put_varint(out, dba - before),
        }
        let slots = || block.iter().map(|rowid| rowid & 0xffff);
        let gaps = slots().scan(0, |next, slot| {
            let gap = slot - *next;
            *next = slot + 1;
            Some(gap)
        });
        let last = block[block.len() - 1] & 0xffff;
        let bits_bytes = last / 8 + 1;
        let (few, many) = ((block.len() as u64) << 1, bits_bytes << 1 | 1);
        let gaps_bytes: usize = gaps.clone().map(varint_bytes).sum();
        if varint_bytes(few) + gaps_bytes <= varint_bytes(many) + bits_bytes as usize {
            put_varint(out, few);
            gaps.for_each(|gap| put_varint(out, gap));
        } else {
            put_varint(out, many);
            let at = out.len();
            out.resize(at + bits_bytes as usize, 0);
            slots().for_each(|slot| out[at + slot as usize / 8] |= 1 << (slot % 8));
        }
    }
}

/// What cannot be read of damaged bytes is left out.
fn decode(bits: &[u8], mut each: impl FnMut(u64)) {
    let mut rest = bits;
    let Some(slots) = take_varint(&mut rest) else { return };
    let Some((first, mut rest)) = rest.split_first_chunk::<FIRST_BYTES>() else { return };
    let mut dba = first.iter().fold(0u64, |dba, byte| dba << 8 | u64::from(*byte));
    if let Some(slots) = NonZeroU64::new(slots) {
        let mut slot = 0u64;
        while let Some(distance) = take_varint(&mut rest) {
            slot = slot.saturating_add(distance);
            dba = dba.wrapping_add(slot / slots);
            slot %= slots;
            each(dba << 16 | slot & 0xffff);
        }
        return;
    }
    loop {
        let base = dba << 16;
        let Some(head) = take_varint(&mut rest) else { return };
        let count = head >> 1;
        if head & 1 == 0 {
            let mut slot = 0u64;
            for _ in 0..count {
                let Some(gap) = take_varint(&mut rest) else { return };
                slot = slot.saturating_add(gap);
                each(base | slot & 0xffff);
                slot = slot.saturating_add(1);
            }
        } else {
            let Some((bytes, more)) = rest.split_at_checked(count as usize) else { return };
            for (at, byte) in bytes.iter().enumerate() {
                let mut left = *byte;
                while left != 0 {
                    each(base | (at as u64 * 8 + u64::from(left.trailing_zeros())) & 0xffff);
                    left &= left - 1;
                }
            }
            rest = more;
        }
        let Some(distance) = take_varint(&mut rest) else { return };
        dba = dba.wrapping_add(distance);
    }
}

fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (mut n, mut shift) = (0u64, 0);
    loop {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        n |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(n);
        }
        shift += 7;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Kind;
    use crate::op::Op;
    use crate::types::{Dba, ObjId, Scn};
    use crate::{BLOCK_BYTES, layout};

    /// Numbers without order, the same each time.
    fn random(seed: &mut u64) -> u64 {
        *seed =
            seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *seed >> 33
    }

    fn some_rowids(seed: &mut u64, count: u64, blocks: u64, slots: u64) -> Vec<u64> {
        let one = |_| (1 << 48) + ((random(seed) % blocks) << 16) + random(seed) % slots;
        let all: std::collections::BTreeSet<u64> = (0..count).map(one).collect();
        all.into_iter().collect()
    }

    fn length(rowids: &[u64]) -> usize {
        let mut out = Vec::new();
        encode(rowids, &mut out);
        out.len()
    }

    fn leaf() -> Vec<u8> {
        let mut b = vec![0; BLOCK_BYTES];
        layout::init(&mut b, Kind::Leaf, Dba::NONE, ObjId(1), Scn(1));
        rows::init(&mut b, 0, 2);
        b
    }

    #[test]
    fn rows_come_back_and_parts_are_no_longer_than_the_whole() {
        let mut seed = 1;
        for (count, blocks, slots) in
            [(0, 1, 1), (1, 1, 1), (100, 5_000, 200), (300, 2, 700), (150, 1, 200), (60, 9, 16)]
        {
            for _ in 0..50 {
                let all = some_rowids(&mut seed, count, blocks, slots);
                let (mut bits, mut back) = (Vec::new(), Vec::new());
                encode(&all, &mut bits);
                decode(&bits, |rowid| back.push(rowid));
                assert_eq!(back, all);
                let some: Vec<u64> =
                    all.iter().copied().filter(|_| !random(&mut seed).is_multiple_of(3)).collect();
                assert!(length(&some) <= bits.len());
                let tail = &all[all.len() / 2..];
                assert!(length(tail) <= bits.len());
            }
        }
    }

    #[test]
    fn one_row_of_ten_thousand_takes_two_bytes() {
        let row = |n: u64| (1 << 48) + ((n / 180) << 16) + n % 180;
        let all: Vec<u64> = (0..100).map(|i| row(i * 10_000 + 77)).collect();
        assert!(length(&all) <= 9 + 99 * 2, "{} bytes", length(&all));
        // And side by side eight of them one.
        let all: Vec<u64> = (0..1_800).map(row).collect();
        assert!(length(&all) <= 10 + 10 * 26, "{} bytes", length(&all));
    }

    #[test]
    fn damaged_bits_end_early() {
        for len in 0..20 {
            decode(&vec![0xff; len], |_| {});
            decode(&vec![0x81; len], |_| {});
        }
        let mut seed = 3;
        for _ in 0..20_000 {
            let len = random(&mut seed) % 40;
            let mut bits: Vec<u8> = (0..len).map(|_| random(&mut seed) as u8).collect();
            // All forms, and numbers of the greatest length.
            if random(&mut seed).is_multiple_of(2) {
                bits.splice(0..0, [0, 0, 1, 0, 0, 0, 9, 4, 255, 255, 255, 255, 255, 255, 255]);
            }
            let number = 8 | 7 << 16;
            let key = [&[0xfe; 8], bits.as_slice()].concat();
            let entry = Entry { flags: 0, lock: 0, value: number, key: &key };
            let piece = Piece::of(&entry).expect("long enough");
            let rowids = piece.rowids();
            assert!(rowids.is_sorted_by(|a, b| a < b));
            let _ = entry_of(piece.key, &rowids);
        }
    }

    /// Whatever comes and goes, each row is in the piece that answers for it, and what is taken
    /// back fits.
    #[test]
    fn pieces_follow_their_rows_through_cuts_and_back() {
        let mut seed = 7;
        let mut b = leaf();
        let mut there = std::collections::BTreeSet::new();
        let mut log = Vec::new();
        for round in 0..3_000 {
            let value = [b'a' + (random(&mut seed) % 3) as u8];
            let rowid = (1 << 48) + ((random(&mut seed) % 40) << 16) + random(&mut seed) % 30;
            let key = key_at(&value, rowid);
            let on = !there.contains(&key);
            if let Some(pos) = find(&b, &key) {
                let entry = rows::entry(&b, pos);
                let piece = Piece::of(&entry).expect("a piece");
                let bytes = flipped(&piece, &key, on).expect("a change").1;
                if bytes.len() > piece.key.len() + PIECE_BYTES_MAX / 4 {
                    let (end, at) = (piece.key.to_vec(), cut(&piece, rowid));
                    split(&mut b, &end, at);
                }
            }
            Op::PieceFlip { itl: Default::default(), key: key.clone(), on }
                .apply(&mut b, Dba::NONE);
            if on {
                there.insert(key.clone())
            } else {
                there.remove(&key)
            };
            log.push((key, on));
            if round % 100 == 0 {
                rows::verify(&b, true).expect("a sound leaf");
            }
        }
        assert_eq!(held(&b), there);
        for (key, on) in log.into_iter().rev() {
            let pos = find(&b, &key).expect("the value has pieces");
            let (room, free) = (rows::capacity(&b, pos), rows::free_bytes(&b));
            flip(&mut b, &key, !on, 0);
            let pos = find(&b, &key).expect("the value has pieces");
            assert_eq!((rows::capacity(&b, pos), rows::free_bytes(&b)), (room, free));
            if on {
                there.remove(&key)
            } else {
                there.insert(key)
            };
        }
        assert!(there.is_empty() && held(&b).is_empty());
        rows::verify(&b, true).expect("a sound leaf");
    }

    fn held(b: &[u8]) -> std::collections::BTreeSet<Vec<u8>> {
        let mut out = std::collections::BTreeSet::new();
        for pos in 0..rows::slot_count(b) {
            let entry = rows::entry(b, pos);
            let piece = Piece::of(&entry).expect("a piece");
            piece.each(|rowid| assert!(out.insert(key_at(piece.value(), rowid))));
            assert_eq!(piece.count, piece.rowids().len() as u64);
            assert!(piece.rowids().iter().all(|rowid| *rowid <= piece.end()));
        }
        out
    }

    #[test]
    fn separators_send_each_row_to_its_piece() {
        let (a, b) = (entry_of(&key_at(b"a\0", 500), &[3]), entry_of(&key_at(b"a\0", END), &[700]));
        let c = entry_of(&key_at(b"b\0", 9), &[4]);
        let piece = |e: &'static (u64, Vec<u8>)| {
            Piece::of(&Entry { flags: 0, lock: 0, value: e.0, key: &e.1 }).expect("a piece")
        };
        let (a, b, c) = (Box::leak(Box::new(a)), Box::leak(Box::new(b)), Box::leak(Box::new(c)));
        let inner = separator(&piece(a), &piece(b));
        assert!(a.1 < inner && inner <= b.1);
        assert!(key_at(b"a\0", 500) < inner && inner <= key_at(b"a\0", 501));
        let outer = separator(&piece(b), &piece(c));
        assert!(key_at(b"a\0", END) < outer && b.1 < outer && outer <= key_at(b"b\0", 0));
    }
}
