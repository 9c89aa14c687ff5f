#![doc = include_str!("README.md")]

mod alone;
mod blocks;
mod calls;
mod copies;
mod direct;
mod enqueues;
mod epochs;
mod messages;
mod node;
mod own;
mod phases;
mod recover;
mod transactions;
mod watch;

pub use calls::CallKind;
pub use node::{Held, Network, Node, NodeConfig, View};
pub use transactions::CallHandler;
