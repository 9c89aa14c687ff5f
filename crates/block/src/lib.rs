//! Blocks and their bytes: addresses, layouts, change vectors and the one `apply`.
//!
//! Pure: no I/O, no clock, no async. Everything that gives bytes on disk or on the wire a meaning
//! is here, little-endian throughout; decoders of what others wrote return errors and never panic.
pub mod bytes;
pub mod itl;
pub mod layout;
pub mod op;
pub mod piece;
pub mod redo;
pub mod rows;
pub mod types;
pub mod undo;

pub use types::*;
