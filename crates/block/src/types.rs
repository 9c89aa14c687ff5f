//! The kernel's words: every address, clock and counter that crosses a module border has a type of
//! its own, and only the arithmetic that has a meaning.

use std::fmt;

/// Bytes of one block on disk and in the cache.
pub const BLOCK_BYTES: usize = 8192;
/// Blocks whose directory entries share one master, and the most one scan message asks for.
pub const MASTER_GROUP_BLOCKS: u32 = 128;
/// The most instances one database can have.
pub const INSTANCES_MAX: u8 = 8;
/// The longest redo record, in bytes.
pub const REDO_RECORD_BYTES_MAX: usize = 1 << 20;

/// Number of an instance, from 1.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct InstanceNo(pub u8);

impl fmt::Display for InstanceNo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Data block address: file number and block number within the file. Shown as `4.128`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Dba {
    pub file: u16,
    pub block: u32,
}

impl Dba {
    /// "No block": file numbers start at 1.
    pub const NONE: Dba = Dba { file: 0, block: 0 };

    #[must_use]
    pub const fn new(file: u16, block: u32) -> Dba {
        Dba { file, block }
    }

    #[must_use]
    pub const fn is_none(self) -> bool {
        self.file == 0
    }

    /// The address as one number, file in the high bits; keeps the order.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        ((self.file as u64) << 32) | self.block as u64
    }

    /// Inverse of [`Dba::to_u64`]; bits above 48 are ignored.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub const fn from_u64(v: u64) -> Dba {
        Dba { file: (v >> 32) as u16, block: v as u32 }
    }

    /// The group of [`MASTER_GROUP_BLOCKS`] neighbours that share a master.
    #[must_use]
    pub const fn group(self) -> u64 {
        self.to_u64() / MASTER_GROUP_BLOCKS as u64
    }
}

impl fmt::Display for Dba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.file, self.block)
    }
}

impl fmt::Debug for Dba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Address of a row's head piece; stable for the row's life.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rowid {
    pub dba: Dba,
    pub slot: u16,
}

impl Rowid {
    /// Eight bytes whose unsigned order is the address order: file 16, block 32, slot 16 bits.
    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.dba.to_u64() << 16) | self.slot as u64
    }

    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub const fn from_u64(v: u64) -> Rowid {
        Rowid { dba: Dba::from_u64(v >> 16), slot: v as u16 }
    }
}

impl fmt::Display for Rowid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.dba, self.slot)
    }
}

/// System change number: a Lamport clock over all instances.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Scn(pub u64);

impl Scn {
    pub const ZERO: Scn = Scn(0);
    pub const MAX: Scn = Scn(u64::MAX);

    #[must_use]
    pub const fn next(self) -> Scn {
        Scn(self.0 + 1)
    }
}

impl fmt::Display for Scn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Position in one instance's redo thread: a byte count that is never reset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Rba(pub u64);

impl Rba {
    pub const ZERO: Rba = Rba(0);
    pub const MAX: Rba = Rba(u64::MAX);
}

impl fmt::Display for Rba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

/// Version of a block: the SCN of its last format and a counter that grows by one with every change
/// vector. Ordered as the pair; never decreases over the life of a block address.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Version {
    pub format: Scn,
    pub count: u64,
}

impl Version {
    pub const ZERO: Version = Version { format: Scn(0), count: 0 };

    /// The version after one more change vector.
    #[must_use]
    pub const fn next(self) -> Version {
        Version { format: self.format, count: self.count + 1 }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "v{}/{}", self.format, self.count)
    }
}

/// Transaction identifier: undo segment, slot of its transaction table, and the slot's sequence
/// number, which is never reused. `Xid::NONE` (sequence 0) is no transaction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Xid {
    pub usn: u16,
    pub slot: u16,
    pub seq: u32,
}

impl Xid {
    pub const NONE: Xid = Xid { usn: 0, slot: 0, seq: 0 };

    #[must_use]
    pub const fn is_none(self) -> bool {
        self.seq == 0
    }

    #[must_use]
    pub const fn to_u64(self) -> u64 {
        ((self.usn as u64) << 48) | ((self.slot as u64) << 32) | self.seq as u64
    }

    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub const fn from_u64(v: u64) -> Xid {
        Xid { usn: (v >> 48) as u16, slot: (v >> 32) as u16, seq: v as u32 }
    }
}

impl fmt::Display for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.usn, self.slot, self.seq)
    }
}

impl fmt::Debug for Xid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Address of an undo record: undo block and record number in it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uba {
    pub dba: Dba,
    pub rec: u16,
}

impl Uba {
    pub const NONE: Uba = Uba { dba: Dba::NONE, rec: 0 };

    #[must_use]
    pub const fn is_none(self) -> bool {
        self.dba.is_none()
    }

    #[must_use]
    pub const fn to_u64(self) -> u64 {
        (self.dba.to_u64() << 16) | self.rec as u64
    }

    #[must_use]
    #[allow(clippy::cast_possible_truncation)]
    pub const fn from_u64(v: u64) -> Uba {
        Uba { dba: Dba::from_u64(v >> 16), rec: v as u16 }
    }
}

impl fmt::Display for Uba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.dba, self.rec)
    }
}

impl fmt::Debug for Uba {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Number of an undo record within its transaction, from 1, never reset (savepoints included).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct UndoNo(pub u32);

/// Identity of a dictionary object (table, index, sequence …); also the object a block belongs to.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct ObjId(pub u32);

impl fmt::Display for ObjId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Right of an instance to a block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub enum Mode {
    #[default]
    N,
    S,
    X,
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::N => "N",
            Mode::S => "S",
            Mode::X => "X",
        })
    }
}
