#![doc = include_str!("README.md")]

mod history;
mod past;
mod segment;
mod supply;

pub use history::{UndoBlocks, UndoCounters, UndoHistory, UndoLook, UndoRow};
pub use segment::{
    Cursor, Segment, TxMem, UNDO_EXTENT_BLOCKS, UNDO_FILE, UNDO_HEADER_FILE, UndoReport,
    format_header, header_dba, segments_of,
};
pub(crate) use segment::{extents_of, format_block};
pub use supply::Supply;
