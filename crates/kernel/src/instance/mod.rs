#![doc = include_str!("README.md")]

mod create;
mod latches;
mod open;

pub use create::{NewDatabase, create_database};
pub use open::{Instance, InstanceConfig};
