//! Golden scripts and explorations of the global cache's machines.

mod change_epoch;
mod enqueue;
mod exhaustive;
mod master;
mod membership;
mod script;
mod whole;
mod world;
