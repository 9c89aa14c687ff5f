#![doc = include_str!("README.md")]

mod cache;
mod next;
mod turn;

#[cfg(test)]
mod tests;

pub use cache::{CachedSequence, Caches};
pub(crate) use next::withdraw_common;
pub use next::{cached, last_value, nextval, setval};
