#![doc = include_str!("README.md")]

mod check;
mod convert;
mod pending;

pub use check::{Child, children, first_orphan, has_parent};
pub use convert::{comparable, key_of, values_of};
pub use pending::{
    KeyEvent, PendingKey, note_settled_keys, return_pending_keys, take_pending_keys,
};

pub(crate) use check::{await_child, check_row, parent_left};
