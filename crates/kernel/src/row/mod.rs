#![doc = include_str!("README.md")]

mod codec;
mod datum;
mod key;
mod types;

#[cfg(test)]
mod tests;

pub use codec::{RowError, RowView, encode_row};
pub use datum::{Datum, Value};
pub use key::{KeyError, decode_key, encode_key, key_prefix_end};
pub use types::{ColType, TypeKind};
