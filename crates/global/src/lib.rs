//! The global cache and enqueue services as state machines: masters, holders, enqueues, epochs.
//!
//! Pure: no I/O, no clock, no async, no locks. A machine takes an event and appends effects; the
//! kernel performs them, the script tests print them, the simulator reorders them across channels.
//! What it must never do: wait, send, read a clock, or iterate a randomly seeded map.
//!
//! Read `hazards.md` first: the comments here cite its numbers.

pub mod holder;
pub mod map;
pub mod master;
pub mod msg;
mod wire;

pub use holder::{Duty, Facts, Holder, HolderEffect, HolderEvent};
pub use map::MasterMap;
pub use master::{Master, MasterEffect};
pub use msg::{Epoch, ReqId, Seq};
pub use wire::DecodeError;
