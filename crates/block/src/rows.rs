//! Slotted storage: the body shared by heap blocks, index leaves and branches.
//!
//! | offset | bytes | name | meaning |
//! |---|---|---|---|
//! | 64 | 2 | slots | number of slots |
//! | 66 | 2 | data start | lowest byte of the row area, which grows downwards |
//! | 68 | 2 | holes | bytes inside the row area that belong to no row |
//! | 70 | 1 | itl count | entries of the interested transaction list |
//! | 71 | 1 | level | index level, 0 for leaves |
//! | 72 | 8 | right | right neighbour of an index block |
//! | 80 | 2 | low key | offset of the low key (length, bytes), 0: none |
//! | 82 | 2 | high key | offset of the high key, 0: none (the right end) |
//! | 84 | 4 | – | zero |
//! | 88 | 8 | purged | highest delete SCN purged from this leaf |
//! | 96 | 32·n | itl | see `itl` |
//! | … | 2·slots | directory | offset of each row, 0: free slot |
//!
//! A row: flags (1), lock (1: ITL index + 1, or 0), length (2), capacity (2), bytes. Capacity never
//! shrinks while the row's changer may still roll back (hazard H23): it is trimmed by `settle`.
//!
//! All functions take the whole block; a consistent-read clone may be larger than
//! [`crate::BLOCK_BYTES`] (see [`expand`]), so nothing here assumes the size.

use crate::bytes::{get_u16, get_u64, put_u16, put_u64, u16_of};
use crate::itl::{ITL_ENTRY_BYTES, ITL_INITIAL};
use crate::types::{Dba, Scn};

pub const OFF_SLOTS: usize = 64;
pub const OFF_DATA_START: usize = 66;
pub const OFF_HOLES: usize = 68;
pub const OFF_ITL_COUNT: usize = 70;
pub const OFF_LEVEL: usize = 71;
pub const OFF_RIGHT: usize = 72;
pub const OFF_LOW: usize = 80;
pub const OFF_HIGH: usize = 82;
pub const OFF_PURGED: usize = 88;
pub const OFF_ITL: usize = 96;

pub const ROW_HEADER_BYTES: usize = 6;
/// Least capacity of a row: any row can become a forwarding stub.
pub const ROW_CAPACITY_MIN: usize = 12;

/// The row (or index entry) is deleted; its bytes are kept until it is purged.
pub const DELETED: u8 = 1;
/// Heap: the row's body is elsewhere; the bytes are total length (4) and rowid of the first piece
/// (8).
pub const FORWARD: u8 = 2;
/// Heap: a part of a row, read only through its head; next piece's rowid (8, 0: last), then data.
pub const PIECE: u8 = 4;

/// Makes the body of a freshly initialised block.
pub fn init(b: &mut [u8], level: u8, itl_count: u8) {
    let end = b.len();
    put_u16(b, OFF_DATA_START, u16_of(end));
    b[OFF_ITL_COUNT] = itl_count;
    b[OFF_LEVEL] = level;
    debug_assert!(itl_count == 0 || itl_count >= ITL_INITIAL);
}

#[must_use]
#[inline(always)]
pub fn slot_count(b: &[u8]) -> u16 {
    get_u16(b, OFF_SLOTS)
}

#[must_use]
#[inline]
pub fn level(b: &[u8]) -> u8 {
    b[OFF_LEVEL]
}

#[must_use]
#[inline]
pub fn right(b: &[u8]) -> Dba {
    Dba::from_u64(get_u64(b, OFF_RIGHT))
}

pub fn set_right(b: &mut [u8], dba: Dba) {
    put_u64(b, OFF_RIGHT, dba.to_u64());
}

#[must_use]
#[inline]
pub fn purged_scn(b: &[u8]) -> Scn {
    Scn(get_u64(b, OFF_PURGED))
}

pub fn set_purged_scn(b: &mut [u8], scn: Scn) {
    put_u64(b, OFF_PURGED, scn.0);
}

#[inline(always)]
fn directory(b: &[u8]) -> usize {
    OFF_ITL + usize::from(b[OFF_ITL_COUNT]) * ITL_ENTRY_BYTES
}

#[inline]
fn directory_end(b: &[u8]) -> usize {
    directory(b) + 2 * usize::from(slot_count(b))
}

#[inline]
fn data_start(b: &[u8]) -> usize {
    // 65536 does not fit; only clones could have it, and they are made smaller.
    usize::from(get_u16(b, OFF_DATA_START))
}

/// Bytes free in all: the gap and the holes.
#[must_use]
pub fn free_bytes(b: &[u8]) -> usize {
    data_start(b) - directory_end(b) + usize::from(get_u16(b, OFF_HOLES))
}

/// Whether a new row of `len` bytes fits, with a new slot if it needs one.
#[must_use]
pub fn fits(b: &[u8], len: usize, new_slot: bool) -> bool {
    free_bytes(b) >= ROW_HEADER_BYTES + len.max(ROW_CAPACITY_MIN) + if new_slot { 2 } else { 0 }
}

#[inline(always)]
fn slot_offset(b: &[u8], slot: u16) -> usize {
    if slot >= slot_count(b) {
        return 0;
    }
    usize::from(get_u16(b, directory(b) + 2 * usize::from(slot)))
}

fn set_slot_offset(b: &mut [u8], slot: u16, off: usize) {
    let at = directory(b) + 2 * usize::from(slot);
    put_u16(b, at, u16_of(off));
}

/// A row as it stands in a block.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    pub flags: u8,
    pub lock: u8,
    pub bytes: &'a [u8],
}

impl Row<'_> {
    #[must_use]
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }
}

/// The row in `slot`; `None` for a free or missing slot.
// Scans look at every row: what a call returns by memory in parts is waited for when it is read
// back as a whole.
#[must_use]
#[inline(always)]
pub fn get(b: &[u8], slot: u16) -> Option<Row<'_>> {
    let off = slot_offset(b, slot);
    if off == 0 {
        return None;
    }
    let len = usize::from(get_u16(b, off + 2));
    let at = off + ROW_HEADER_BYTES;
    Some(Row { flags: b[off], lock: b[off + 1], bytes: &b[at..at + len] })
}

/// Calls `visit` with all rows and their slots, in the slots' order; free slots are left out.
///
/// # Panics
/// If an entry of the directory points out of the block.
// As `get` for each slot, but what does not change from slot to slot is looked at once.
#[inline(always)]
pub fn each<'b>(b: &'b [u8], mut visit: impl FnMut(u16, Row<'b>)) {
    let offsets = &b[directory(b)..directory_end(b)];
    for (slot, offset) in (0u16..).zip(offsets.chunks_exact(2)) {
        let off = usize::from(u16::from_le_bytes([offset[0], offset[1]]));
        if off == 0 {
            continue;
        }
        let Some((head, rest)) = b[off..].split_first_chunk::<ROW_HEADER_BYTES>() else {
            panic!("slot {slot} at {off} points behind the block");
        };
        let len = usize::from(u16::from_le_bytes([head[2], head[3]]));
        visit(slot, Row { flags: head[0], lock: head[1], bytes: &rest[..len] });
    }
}

/// Room the row in `slot` can grow to without moving.
#[must_use]
pub fn capacity(b: &[u8], slot: u16) -> usize {
    match slot_offset(b, slot) {
        0 => 0,
        off => usize::from(get_u16(b, off + 4)),
    }
}

/// First free slot, or the count (a new one).
#[must_use]
pub fn free_slot(b: &[u8]) -> u16 {
    let n = slot_count(b);
    (0..n).find(|&s| slot_offset(b, s) == 0).unwrap_or(n)
}

pub fn set_flags(b: &mut [u8], slot: u16, flags: u8) {
    let off = slot_offset(b, slot);
    b[off] = flags;
}

pub fn set_lock(b: &mut [u8], slot: u16, lock: u8) {
    let off = slot_offset(b, slot);
    b[off + 1] = lock;
}

/// Clears every lock byte that names ITL entry `idx`.
pub fn clear_locks(b: &mut [u8], idx: u8) {
    for slot in 0..slot_count(b) {
        let off = slot_offset(b, slot);
        if off != 0 && b[off + 1] == idx + 1 {
            b[off + 1] = 0;
        }
    }
}

/// Adds one empty ITL entry, moving the slot directory. The caller has checked the room.
pub fn grow_itl(b: &mut [u8]) {
    reserve_gap(b, ITL_ENTRY_BYTES);
    let (from, end) = (directory(b), directory_end(b));
    b.copy_within(from..end, from + ITL_ENTRY_BYTES);
    b[from..from + ITL_ENTRY_BYTES].fill(0);
    b[OFF_ITL_COUNT] += 1;
}

/// Makes at least `n` bytes of gap between directory and row area, compacting if needed.
fn reserve_gap(b: &mut [u8], n: usize) {
    if data_start(b) - directory_end(b) < n {
        compact(b);
    }
    assert!(data_start(b) - directory_end(b) >= n, "block has no room for {n} bytes");
}

/// Takes `cap` bytes (plus header) from the gap and returns the offset of the new row.
fn allocate(b: &mut [u8], cap: usize) -> usize {
    let need = ROW_HEADER_BYTES + cap;
    reserve_gap(b, need);
    let off = data_start(b) - need;
    put_u16(b, OFF_DATA_START, u16_of(off));
    off
}

fn add_hole(b: &mut [u8], n: usize) {
    let holes = get_u16(b, OFF_HOLES) + u16_of(n);
    put_u16(b, OFF_HOLES, holes);
}

fn write_row(b: &mut [u8], off: usize, flags: u8, lock: u8, cap: usize, bytes: &[u8]) {
    b[off] = flags;
    b[off + 1] = lock;
    put_u16(b, off + 2, u16_of(bytes.len()));
    put_u16(b, off + 4, u16_of(cap));
    b[off + ROW_HEADER_BYTES..off + ROW_HEADER_BYTES + bytes.len()].copy_from_slice(bytes);
}

/// Puts a row into heap slot `slot` (free, or one past the last: slots in between become free).
pub fn insert_at(b: &mut [u8], slot: u16, flags: u8, lock: u8, bytes: &[u8]) {
    let n = slot_count(b);
    if slot >= n {
        let add = slot + 1 - n;
        reserve_gap(b, 2 * usize::from(add));
        let end = directory_end(b);
        b[end..end + 2 * usize::from(add)].fill(0);
        put_u16(b, OFF_SLOTS, slot + 1);
    }
    assert!(slot_offset(b, slot) == 0, "slot {slot} is in use");
    let cap = bytes.len().max(ROW_CAPACITY_MIN);
    let off = allocate(b, cap);
    write_row(b, off, flags, lock, cap, bytes);
    set_slot_offset(b, slot, off);
}

/// Frees heap slot `slot`; free slots at the end of the directory go too.
pub fn remove_at(b: &mut [u8], slot: u16) {
    let off = slot_offset(b, slot);
    assert!(off != 0, "slot {slot} is free already");
    let cap = usize::from(get_u16(b, off + 4));
    add_hole(b, ROW_HEADER_BYTES + cap);
    set_slot_offset(b, slot, 0);
    let mut n = slot_count(b);
    while n > 0 && slot_offset(b, n - 1) == 0 {
        n -= 1;
    }
    put_u16(b, OFF_SLOTS, n);
}

/// Replaces the row's bytes. The capacity only grows.
pub fn replace(b: &mut [u8], slot: u16, flags: u8, lock: u8, bytes: &[u8]) {
    let off = slot_offset(b, slot);
    assert!(off != 0, "slot {slot} is free");
    let cap = usize::from(get_u16(b, off + 4));
    if bytes.len() <= cap {
        write_row(b, off, flags, lock, cap, bytes);
        return;
    }
    add_hole(b, ROW_HEADER_BYTES + cap);
    set_slot_offset(b, slot, 0);
    let new = allocate(b, bytes.len());
    write_row(b, new, flags, lock, bytes.len(), bytes);
    set_slot_offset(b, slot, new);
}

/// Whether the row in `slot` can be replaced by one of `len` bytes in this block.
#[must_use]
pub fn fits_replacing(b: &[u8], slot: u16, len: usize) -> bool {
    let cap = capacity(b, slot);
    len <= cap || free_bytes(b) + cap >= len
}

/// Purges the deleted rows among `slots` and trims the capacity of the others: their changers
/// have committed, nobody rolls them back any more.
pub fn settle(b: &mut [u8], slots: &[u16]) {
    for &slot in slots {
        let off = slot_offset(b, slot);
        if off == 0 {
            continue;
        }
        if b[off] & DELETED != 0 {
            remove_at(b, slot);
            continue;
        }
        let (len, cap) = (usize::from(get_u16(b, off + 2)), usize::from(get_u16(b, off + 4)));
        let want = len.max(ROW_CAPACITY_MIN);
        if want < cap {
            put_u16(b, off + 4, u16_of(want));
            add_hole(b, cap - want);
        }
    }
}

/// Moves all rows together, so that all free bytes are in the gap. A function of the block's
/// content alone, so recovery repeats it exactly.
pub fn compact(b: &mut [u8]) {
    let n = slot_count(b);
    let mut area = Vec::with_capacity(b.len() - data_start(b));
    let mut offsets = vec![0usize; usize::from(n)];
    let end = b.len();
    let mut top = end;
    // Rows are laid from the end downwards in slot order; `area` collects them in that order.
    for slot in 0..n {
        let off = slot_offset(b, slot);
        if off == 0 {
            continue;
        }
        let size = ROW_HEADER_BYTES + usize::from(get_u16(b, off + 4));
        top -= size;
        offsets[usize::from(slot)] = top;
        area.push((top, b[off..off + size].to_vec()));
    }
    for which in [OFF_LOW, OFF_HIGH] {
        let off = usize::from(get_u16(b, which));
        if off != 0 {
            let size = 2 + usize::from(get_u16(b, off));
            top -= size;
            area.push((top, b[off..off + size].to_vec()));
            put_u16(b, which, u16_of(top));
        }
    }
    for (at, bytes) in area {
        b[at..at + bytes.len()].copy_from_slice(&bytes);
    }
    for slot in 0..n {
        set_slot_offset(b, slot, offsets[usize::from(slot)]);
    }
    put_u16(b, OFF_DATA_START, u16_of(top));
    put_u16(b, OFF_HOLES, 0);
    let gap = directory_end(b);
    b[gap..top].fill(0);
}

/// A copy of a block in a larger buffer: consistent read may need more room than the block has.
#[must_use]
pub fn expand(b: &[u8], to_bytes: usize) -> Vec<u8> {
    let to = to_bytes.min(60 * 1024);
    assert!(to > b.len(), "a clone cannot grow beyond 60 KiB");
    let delta = to - b.len();
    let mut out = vec![0u8; to];
    let gap = directory_end(b);
    out[..gap].copy_from_slice(&b[..gap]);
    let start = data_start(b);
    out[start + delta..].copy_from_slice(&b[start..]);
    put_u16(&mut out, OFF_DATA_START, u16_of(start + delta));
    for slot in 0..slot_count(b) {
        let off = slot_offset(b, slot);
        if off != 0 {
            set_slot_offset(&mut out, slot, off + delta);
        }
    }
    for which in [OFF_LOW, OFF_HIGH] {
        let off = get_u16(b, which);
        if off != 0 {
            put_u16(&mut out, which, off + u16_of(delta));
        }
    }
    out
}

// ---- sorted slots: index blocks -------------------------------------------------------------

/// An index entry: rowid or child address, and the key.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    pub flags: u8,
    pub lock: u8,
    pub value: u64,
    pub key: &'a [u8],
}

impl Entry<'_> {
    #[must_use]
    #[inline]
    pub fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }
}

/// Entry at position `pos` of an index block.
///
/// # Panics
/// When there is none.
#[must_use]
#[inline]
pub fn entry(b: &[u8], pos: u16) -> Entry<'_> {
    let row = get(b, pos).expect("index slots are dense");
    Entry { flags: row.flags, lock: row.lock, value: get_u64(row.bytes, 0), key: &row.bytes[8..] }
}

/// Position of `key`: `Ok` where it stands, `Err` where it would.
#[inline]
pub fn search(b: &[u8], key: &[u8]) -> Result<u16, u16> {
    bisect(b, 0, slot_count(b), key)
}

/// [`search`] among the entries from position `from` on, for who knows that all before are smaller
/// and expects the key at the end.
#[inline]
pub fn search_from(b: &[u8], from: u16, key: &[u8]) -> Result<u16, u16> {
    let end = slot_count(b);
    if from == end || entry(b, end - 1).key < key {
        return Err(end);
    }
    bisect(b, from, end, key)
}

#[inline]
fn bisect(b: &[u8], mut lo: u16, mut hi: u16, key: &[u8]) -> Result<u16, u16> {
    while lo < hi {
        let mid = lo + (hi - lo) / 2;
        match entry(b, mid).key.cmp(key) {
            std::cmp::Ordering::Less => lo = mid + 1,
            std::cmp::Ordering::Greater => hi = mid,
            std::cmp::Ordering::Equal => return Ok(mid),
        }
    }
    Err(lo)
}

/// Bytes a new entry with this key takes, slot included.
#[must_use]
pub fn entry_bytes(key: &[u8]) -> usize {
    2 + ROW_HEADER_BYTES + (8 + key.len()).max(ROW_CAPACITY_MIN)
}

/// Inserts an entry at its sorted position. The caller has checked the room and that the key is
/// new.
pub fn insert_entry(b: &mut [u8], flags: u8, lock: u8, value: u64, key: &[u8]) {
    let pos = search(b, key).expect_err("the key is there already");
    insert_entry_at(b, pos, flags, lock, value, key);
}

/// Inserts entries in ascending order of their keys, as [`insert_entry`] does one.
pub fn insert_entries<'a>(b: &mut [u8], lock: u8, entries: impl Iterator<Item = (&'a [u8], u64)>) {
    let mut from = 0;
    for (key, value) in entries {
        let pos = search_from(b, from, key).expect_err("the key is there already");
        insert_entry_at(b, pos, 0, lock, value, key);
        from = pos + 1;
    }
}

/// [`insert_entry`] of one that keeps room to grow: `room` bytes, as [`capacity`] has them.
pub fn insert_entry_with_room(
    b: &mut [u8],
    flags: u8,
    lock: u8,
    value: u64,
    key: &[u8],
    room: usize,
) {
    let pos = search(b, key).expect_err("the key is there already");
    insert_at_with_room(b, pos, (flags, lock), value, key, room);
}

fn insert_entry_at(b: &mut [u8], pos: u16, flags: u8, lock: u8, value: u64, key: &[u8]) {
    insert_at_with_room(b, pos, (flags, lock), value, key, 0);
}

fn insert_at_with_room(
    b: &mut [u8],
    pos: u16,
    (flags, lock): (u8, u8),
    value: u64,
    key: &[u8],
    room: usize,
) {
    let len = 8 + key.len();
    let cap = len.max(ROW_CAPACITY_MIN).max(room);
    reserve_gap(b, 2 + ROW_HEADER_BYTES + cap);
    let off = allocate(b, cap);
    b[off] = flags;
    b[off + 1] = lock;
    put_u16(b, off + 2, u16_of(len));
    put_u16(b, off + 4, u16_of(cap));
    put_u64(b, off + ROW_HEADER_BYTES, value);
    b[off + ROW_HEADER_BYTES + 8..off + ROW_HEADER_BYTES + len].copy_from_slice(key);
    let n = slot_count(b);
    let at = directory(b) + 2 * usize::from(pos);
    let end = directory_end(b);
    b.copy_within(at..end, at + 2);
    put_u16(b, OFF_SLOTS, n + 1);
    put_u16(b, at, u16_of(off));
}

/// Removes the entry at `pos`.
pub fn remove_entry(b: &mut [u8], pos: u16) {
    let off = slot_offset(b, pos);
    let cap = usize::from(get_u16(b, off + 4));
    add_hole(b, ROW_HEADER_BYTES + cap);
    let at = directory(b) + 2 * usize::from(pos);
    let end = directory_end(b);
    b.copy_within(at + 2..end, at);
    let n = slot_count(b);
    put_u16(b, OFF_SLOTS, n - 1);
}

pub fn set_value(b: &mut [u8], pos: u16, value: u64) {
    let off = slot_offset(b, pos);
    put_u64(b, off + ROW_HEADER_BYTES, value);
}

#[inline]
fn bound_key(b: &[u8], which: usize) -> Option<&[u8]> {
    let off = usize::from(get_u16(b, which));
    if off == 0 {
        return None;
    }
    let len = usize::from(get_u16(b, off));
    Some(&b[off + 2..off + 2 + len])
}

/// Lowest key that belongs here; `None`: the left end.
#[must_use]
#[inline]
pub fn low_key(b: &[u8]) -> Option<&[u8]> {
    bound_key(b, OFF_LOW)
}

/// First key that belongs to the right neighbour; `None`: the right end.
#[must_use]
#[inline]
pub fn high_key(b: &[u8]) -> Option<&[u8]> {
    bound_key(b, OFF_HIGH)
}

/// Whether `key` belongs to this index block.
#[must_use]
pub fn covers(b: &[u8], key: &[u8]) -> bool {
    low_key(b).is_none_or(|low| key >= low) && high_key(b).is_none_or(|high| key < high)
}

fn set_bound_key(b: &mut [u8], which: usize, key: Option<&[u8]>) {
    if let Some(old) = bound_key(b, which).map(<[u8]>::len) {
        add_hole(b, 2 + old);
    }
    put_u16(b, which, 0);
    let Some(key) = key else { return };
    let need = 2 + key.len();
    reserve_gap(b, need);
    let off = data_start(b) - need;
    put_u16(b, OFF_DATA_START, u16_of(off));
    put_u16(b, off, u16_of(key.len()));
    b[off + 2..off + need].copy_from_slice(key);
    put_u16(b, which, u16_of(off));
}

pub fn set_low_key(b: &mut [u8], key: Option<&[u8]>) {
    set_bound_key(b, OFF_LOW, key);
}

pub fn set_high_key(b: &mut [u8], key: Option<&[u8]>) {
    set_bound_key(b, OFF_HIGH, key);
}

/// Walks the body and says what is inconsistent, whatever the bytes are. For tests, `verify` and
/// dumps.
///
/// # Errors
/// A sentence about the first inconsistency.
pub fn verify(b: &[u8], sorted: bool) -> Result<(), String> {
    let (dir_end, start) = (directory_end(b), data_start(b));
    if dir_end > start || start > b.len() {
        return Err(format!("directory ends at {dir_end}, row area starts at {start}"));
    }
    let mut used = 0;
    let mut last: Option<&[u8]> = None;
    for which in [OFF_LOW, OFF_HIGH] {
        let off = usize::from(get_u16(b, which));
        if off != 0 {
            let fits = off >= start && off + 2 <= b.len();
            if !fits || off + 2 + usize::from(get_u16(b, off)) > b.len() {
                return Err(format!("a bound at offset {off}, outside the row area"));
            }
            used += 2 + usize::from(get_u16(b, off));
        }
    }
    for slot in 0..slot_count(b) {
        let off = slot_offset(b, slot);
        if off == 0 {
            if sorted {
                return Err(format!("index slot {slot} is free"));
            }
            continue;
        }
        if off < start || off + ROW_HEADER_BYTES > b.len() {
            return Err(format!("slot {slot}: offset {off}, outside the row area"));
        }
        let (len, cap) = (usize::from(get_u16(b, off + 2)), usize::from(get_u16(b, off + 4)));
        if off + ROW_HEADER_BYTES + cap > b.len() || len > cap {
            return Err(format!("slot {slot}: offset {off}, length {len}, capacity {cap}"));
        }
        if b[off + 1] > b[OFF_ITL_COUNT] {
            return Err(format!("slot {slot}: lock byte {} names no ITL entry", b[off + 1]));
        }
        used += ROW_HEADER_BYTES + cap;
        if sorted {
            if len < 8 {
                return Err(format!("slot {slot}: an entry of {len} bytes"));
            }
            let key = entry(b, slot).key;
            if last.is_some_and(|l| l >= key) {
                return Err(format!("slot {slot}: keys out of order"));
            }
            if !covers(b, key) && level(b) == 0 {
                return Err(format!("slot {slot}: key outside the block's bounds"));
            }
            last = Some(key);
        }
    }
    let holes = usize::from(get_u16(b, OFF_HOLES));
    if used + holes != b.len() - start {
        return Err(format!("{used} bytes used and {holes} in holes, area of {}", b.len() - start));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_visits_what_get_gives_of_every_slot() {
        let mut b = vec![0; crate::BLOCK_BYTES];
        init(&mut b, 0, ITL_INITIAL);
        for (slot, row) in [(0, "one"), (1, ""), (5, "a row that is longer than most"), (6, "six")]
        {
            insert_at(&mut b, slot, if slot == 1 { DELETED } else { 0 }, 3, row.as_bytes());
        }
        remove_at(&mut b, 0);
        let mut seen = Vec::new();
        each(&b, |slot, row| seen.push((slot, row.flags, row.lock, row.bytes)));
        let by_slot = (0..slot_count(&b)).filter_map(|slot| get(&b, slot).map(|row| (slot, row)));
        let by_slot: Vec<_> =
            by_slot.map(|(slot, row)| (slot, row.flags, row.lock, row.bytes)).collect();
        assert_eq!(seen, by_slot);
        assert_eq!(seen.iter().map(|row| row.0).collect::<Vec<_>>(), [1, 5, 6]);
    }
}
