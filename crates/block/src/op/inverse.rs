//! How changes are taken back: what undo records keep, and what they do to a block or a clone.

use super::{get_runs, piece_key, put_runs};
use crate::bytes::{ByteList, DecodeError, Reader, Write};
use crate::piece;
use crate::rows;
use crate::types::{Dba, Rowid};

/// How to take a change back. `lock` is the row's lock byte to restore.
#[derive(Clone, PartialEq, Debug)]
pub enum Inverse {
    /// Only the ITL entry is restored.
    Nothing,
    HeapRemove {
        slot: u16,
    },
    HeapRemoveMany {
        slots: Vec<u16>,
    },
    HeapRestore {
        slot: u16,
        flags: u8,
        lock: u8,
        bytes: Vec<u8>,
    },
    HeapUnlock {
        slot: u16,
        lock: u8,
    },
    /// `root`: the index, to find the leaf again after splits.
    LeafRemove {
        root: Dba,
        key: Vec<u8>,
    },
    /// Keys in ascending order. After splits they may lie in several leaves: applied to one, it
    /// takes out what is there.
    LeafRemoveMany {
        root: Dba,
        keys: ByteList,
    },
    LeafRestore {
        root: Dba,
        key: Vec<u8>,
        flags: u8,
        lock: u8,
        rowid: Rowid,
    },
    /// Takes a row out of its piece of a bitmap index, or puts it back. `key`: value and rowid.
    PieceFlip {
        root: Dba,
        key: Vec<u8>,
        on: bool,
        lock: u8,
    },
}

impl Inverse {
    pub fn encode(&self, out: &mut Vec<u8>) {
        match self {
            Inverse::Nothing => out.u8(0),
            Inverse::HeapRemove { slot } => {
                out.u8(1);
                out.u16(*slot);
            }
            Inverse::HeapRestore { slot, flags, lock, bytes } => {
                out.u8(2);
                out.u16(*slot);
                out.u8(*flags);
                out.u8(*lock);
                out.bytes16(bytes);
            }
            Inverse::HeapUnlock { slot, lock } => {
                out.u8(3);
                out.u16(*slot);
                out.u8(*lock);
            }
            Inverse::LeafRemove { root, key } => {
                out.u8(4);
                out.u64(root.to_u64());
                out.bytes16(key);
            }
            Inverse::LeafRestore { root, key, flags, lock, rowid } => {
                out.u8(5);
                out.u64(root.to_u64());
                out.u8(*flags);
                out.u8(*lock);
                out.u64(rowid.to_u64());
                out.bytes16(key);
            }
            Inverse::HeapRemoveMany { slots } => {
                out.u8(6);
                put_runs(out, slots);
            }
            Inverse::LeafRemoveMany { root, keys } => {
                out.u8(7);
                out.u64(root.to_u64());
                keys.encode(out);
            }
            Inverse::PieceFlip { root, key, on, lock } => {
                out.u8(8);
                out.u64(root.to_u64());
                out.u8(u8::from(*on));
                out.u8(*lock);
                out.bytes16(key);
            }
        }
    }

    /// # Errors
    /// The bytes are not an inverse.
    pub fn decode(r: &mut Reader<'_>) -> Result<Inverse, DecodeError> {
        Ok(match r.u8()? {
            0 => Inverse::Nothing,
            1 => Inverse::HeapRemove { slot: r.u16()? },
            2 => Inverse::HeapRestore {
                slot: r.u16()?,
                flags: r.u8()?,
                lock: r.u8()?,
                bytes: r.bytes16()?.to_vec(),
            },
            3 => Inverse::HeapUnlock { slot: r.u16()?, lock: r.u8()? },
            4 => {
                let root = Dba::from_u64(r.u64()?);
                Inverse::LeafRemove { root, key: r.bytes16()?.to_vec() }
            }
            5 => {
                let root = Dba::from_u64(r.u64()?);
                let (flags, lock) = (r.u8()?, r.u8()?);
                let rowid = Rowid::from_u64(r.u64()?);
                Inverse::LeafRestore { root, key: r.bytes16()?.to_vec(), flags, lock, rowid }
            }
            6 => Inverse::HeapRemoveMany { slots: get_runs(r)? },
            7 => {
                let root = Dba::from_u64(r.u64()?);
                Inverse::LeafRemoveMany { root, keys: ByteList::decode(r)? }
            }
            8 => {
                let root = Dba::from_u64(r.u64()?);
                let (on, lock) = (r.u8()? != 0, r.u8()?);
                Inverse::PieceFlip { root, key: piece_key(r)?, on, lock }
            }
            _ => return Err(r.error()),
        })
    }

    /// Whether it takes back a change of an index leaf.
    #[must_use]
    pub fn is_of_index(&self) -> bool {
        matches!(
            self,
            Inverse::LeafRemove { .. }
                | Inverse::LeafRemoveMany { .. }
                | Inverse::LeafRestore { .. }
                | Inverse::PieceFlip { .. }
        )
    }

    /// The index key of a change of one leaf entry.
    #[must_use]
    pub fn leaf_key(&self) -> Option<(Dba, &[u8])> {
        match self {
            Inverse::LeafRemove { root, key }
            | Inverse::LeafRestore { root, key, .. }
            | Inverse::PieceFlip { root, key, .. } => Some((*root, key)),
            _ => None,
        }
    }

    /// Whether it takes back a change of the heap row in `slot`, other than its lock.
    #[must_use]
    pub fn changes_row(&self, wanted: u16) -> bool {
        match self {
            Inverse::HeapRemove { slot } | Inverse::HeapRestore { slot, .. } => *slot == wanted,
            Inverse::HeapRemoveMany { slots } => slots.binary_search(&wanted).is_ok(),
            _ => false,
        }
    }

    /// Free bytes the block must have for [`Inverse::apply`], at the most.
    #[must_use]
    pub fn room_bytes(&self) -> usize {
        match self {
            Inverse::HeapRestore { slot, bytes, .. } => {
                2 * (usize::from(*slot) + 1) + rows::ROW_HEADER_BYTES + bytes.len() + 16
            }
            Inverse::LeafRestore { key, .. } => rows::entry_bytes(key) + 16,
            // It has the room, but for a clone that is older than the piece's growth.
            Inverse::PieceFlip { key, on: true, .. } => {
                piece::growth_bytes(key) + piece::PIECE_BYTES_MAX + 16
            }
            _ => 0,
        }
    }

    /// Takes the change back in `b`. On a clone the row or entry may be gone (purged since) or the
    /// key may belong to another leaf (split since, hazard H9): both are legitimate there.
    pub fn apply(&self, b: &mut [u8]) {
        match self {
            Inverse::Nothing => {}
            Inverse::HeapRemove { slot } => {
                if rows::get(b, *slot).is_some() {
                    rows::remove_at(b, *slot);
                }
            }
            Inverse::HeapRemoveMany { slots } => {
                for &slot in slots.iter().rev() {
                    if rows::get(b, slot).is_some() {
                        rows::remove_at(b, slot);
                    }
                }
            }
            Inverse::HeapRestore { slot, flags, lock, bytes } => {
                if rows::get(b, *slot).is_some() {
                    rows::replace(b, *slot, *flags, *lock, bytes);
                } else {
                    rows::insert_at(b, *slot, *flags, *lock, bytes);
                }
            }
            Inverse::HeapUnlock { slot, lock } => {
                if rows::get(b, *slot).is_some() {
                    rows::set_lock(b, *slot, *lock);
                }
            }
            Inverse::LeafRemove { key, .. } => {
                if let Ok(pos) = rows::search(b, key) {
                    rows::remove_entry(b, pos);
                }
            }
            Inverse::LeafRemoveMany { keys, .. } => {
                for key in keys.iter() {
                    if let Ok(pos) = rows::search(b, key) {
                        rows::remove_entry(b, pos);
                    }
                }
            }
            Inverse::LeafRestore { key, flags, lock, rowid, .. } => {
                if !rows::covers(b, key) {
                    return;
                }
                match rows::search(b, key) {
                    Ok(pos) => {
                        rows::set_flags(b, pos, *flags);
                        rows::set_lock(b, pos, *lock);
                        rows::set_value(b, pos, rowid.to_u64());
                    }
                    Err(_) => rows::insert_entry(b, *flags, *lock, rowid.to_u64(), key),
                }
            }
            Inverse::PieceFlip { key, on, lock, .. } => {
                if rows::covers(b, key) {
                    piece::flip(b, key, *on, *lock);
                }
            }
        }
    }
}
