#![doc = include_str!("README.md")]

mod buffer;
mod busy;
mod dbwr;
mod disk_read;
mod double_write;
mod epoch;
mod format;
mod pool;
mod read;
mod segments;
mod step;
mod view;

pub(crate) use buffer::Latched;
pub use buffer::{Arrival, BlockRef, Buffer, PastImage, Pin, Question, State};
pub use busy::BusyRow;
pub use dbwr::Dbwr;
pub use disk_read::DiskRead;
pub use double_write::{
    Area, DW_BLOCKS, DW_FILE, DW_FILE_BLOCKS, find_torn, restore_torn, write_images,
};
pub use pool::{Cache, CacheConfig, Grants};
pub use segments::{FileCounts, SegmentCounts, SegmentStat};
pub use step::Carry;
pub(crate) use step::in_protocol;
pub use view::{BUFFER_BYTES, BufferRow};
