#![doc = include_str!("README.md")]

mod alone;
mod arrivals;
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
mod rows;
mod served;
mod transactions;
mod waiting;
mod watch;

pub use calls::CallKind;
pub use cluster::Class as MessageClass;
pub use enqueues::BlockedBy;
pub use global::msg::{GesMode, Resource};
pub use node::{Held, Network, Node, NodeConfig, View};
pub use rows::{ElementRow, EnqueueRow};
pub use served::{CrCount, ReceivedTotals, SERVED_BELOW_US, SERVED_BUCKETS, Served};
pub use transactions::CallHandler;
