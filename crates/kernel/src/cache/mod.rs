#![doc = include_str!("README.md")]

mod buffer;
mod dbwr;
mod holder;
mod pool;
mod read;

pub use buffer::{BlockRef, Buffer, PastImage, Pin, State};
pub use dbwr::{DW_BLOCKS, DW_FILE, Dbwr, dw_first_block, restore_torn, write_images};
pub use pool::{Cache, CacheConfig, Grants};
