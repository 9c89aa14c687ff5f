#![doc = include_str!("README.md")]

mod buffer;
mod dbwr;
mod pool;
mod read;
mod step;
mod view;

pub use buffer::{Arrival, BlockRef, Buffer, PastImage, Pin, State};
pub use dbwr::{DW_BLOCKS, DW_FILE, Dbwr, dw_first_block, restore_torn, write_images};
pub use pool::{Cache, CacheConfig, Grants};
pub use step::Carry;
pub use view::BufferRow;
