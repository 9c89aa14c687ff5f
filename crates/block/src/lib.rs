//! Blocks and their bytes: addresses, layouts, change vectors and the one `apply`.
//!
//! Pure: no I/O, no clock, no async.
pub mod types;
pub use types::*;
