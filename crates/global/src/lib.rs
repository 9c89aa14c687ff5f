//! The global cache and enqueue services as state machines: masters, holders, enqueues, epochs.
//!
//! Pure: no I/O, no clock, no async, no locks. A machine takes an event and appends effects; the
//! kernel performs them, the script tests print them, the simulator reorders them across channels.
//! What it must never do: wait, send, read a clock, or iterate a randomly seeded map.
//!
//! Read `hazards.md` first: the comments here cite its numbers.

pub mod epoch;
pub mod ges;
pub mod holder;
pub mod map;
pub mod master;
pub mod msg;
pub mod mutant;
mod set;
mod wire;

pub use epoch::{EpochEffect, EpochEvent, EpochMachine, Rebuild};
pub use ges::{GesMaster, GesShadow};
pub use holder::{Duty, Facts, Holder, HolderEffect, HolderEvent};
pub use map::MasterMap;
pub use master::{Master, MasterEffect};
pub use msg::{Epoch, ReqId, Seq};
pub use mutant::{Mutant, broken};
pub use set::InstanceSet;
pub use wire::DecodeError;
