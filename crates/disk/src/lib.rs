//! Disk groups: the shared files of one database, striped over LUNs.
//!
//! A [`Group`] is a set of LUN files that all instances have open. It maps `(file, block)` and
//! `(file, byte offset)` to a LUN and a place on it, in allocation units of 1 MiB laid round-robin
//! over
//! the LUNs. Reads and writes go straight to the LUNs, past the page cache; a completed write is
//! durable. New space reads as zeros.
//!
//! What the blocks hold is not known here: checksums and versions are the kernel's. A change of the
//! layout (a new file, an extension, a LUN more) is made under a lock that all instances share, and
//! becomes durable as a whole or not at all.

mod error;
mod group;
mod meta;
#[cfg(test)]
mod tests;

pub use error::{Error, Result};
pub use group::{DirectIo, Group, LunInfo, Options};
pub use meta::{AU_BLOCKS, AU_BYTES};
