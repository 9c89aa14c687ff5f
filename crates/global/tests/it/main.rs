//! Golden scripts and explorations of the global cache's machines.

mod exhaustive;
mod script;
mod world;
