#![doc = include_str!("README.md")]

mod array;
mod codec;
mod datum;
mod enums;
mod key;
mod types;

#[cfg(test)]
mod tests;

pub use array::{ArrayView, encode_array};
pub use codec::{
    Glance, RowError, RowShape, RowView, encode_row, glance, is_stored_value, stored_integer,
    stored_numeric, stored_value,
};
pub use datum::{Datum, Interval, Value};
pub use enums::{EnumLabel, EnumPlace, EnumType, EnumValue};
pub use key::{
    KeyError, KeyOrder, decode_key, decode_key_prefix, decode_ordered_prefix, encode_key,
    encode_ordered, key_prefix_end, key_values_begin, key_values_end, reverse_key, unreversed_key,
};
pub use types::{ColType, PRECISION_MAX, RowTypes, TypeKind};
