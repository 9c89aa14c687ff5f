#![doc = include_str!("README.md")]

mod files;
mod free;
mod insert;
pub(crate) mod layout;
mod segment;

#[cfg(test)]
mod tests;

pub use files::{DATA_FILE, Reservation, Space, UNDO_FILE};
pub use layout::{EMPTY_ROOM_BYTES, EXTENTS_MAX, Extent, SegmentInfo, SegmentKind, UNIT_BLOCKS};
pub use segment::SegmentId;
