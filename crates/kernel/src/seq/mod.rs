#![doc = include_str!("README.md")]

mod cache;
mod next;

pub use cache::{CachedSequence, Caches};
pub use next::{cached, last_value, nextval, setval};
