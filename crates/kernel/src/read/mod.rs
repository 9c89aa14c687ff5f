#![doc = include_str!("README.md")]

mod consistent;

pub use consistent::{Expect, changed_since, consistent};
